//===- PackedLookups.h - lookups into packed weights ------------*- C++ -*-===//
#ifndef RLX_LIB_CODEGEN_PLAN_PACKEDLOOKUPS_H
#define RLX_LIB_CODEGEN_PLAN_PACKEDLOOKUPS_H

#include "ExprTable.h"

#include "rlx/Data/Plan_generated.h"

namespace rlx::codegen {

/// Where a weight is packed for a product, and all else that the plan does with it are lookups that can be said in rows
/// and columns of the packed matrix (tied embeddings), has them read the packed form, so that there is no other. What
/// is asked is in the expressions: each binding of a template, and each template of a graph, gets the same answer.
void readLookupsFromPanels(data::PlanTemplateT &plan, ExprTable &exprs);

} // namespace rlx::codegen

#endif // RLX_LIB_CODEGEN_PLAN_PACKEDLOOKUPS_H
