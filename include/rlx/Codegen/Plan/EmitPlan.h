//===- EmitPlan.h - planned graph to plain data -----------------*- C++ -*-===//
#ifndef RLX_CODEGEN_PLAN_EMITPLAN_H
#define RLX_CODEGEN_PLAN_EMITPLAN_H

#include "rlx/Data/Plan_generated.h"
#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Support/DimFacts.h"
#include "rlx/Support/Result.h"

#include <memory>
#include <vector>

namespace rlx::codegen {

/// Inputs, outputs, params, dims and constraints of a prepared graph.
Result<data::ModelSignatureT> emitSignature(ir::GraphOp graph);

/// The plan of a graph after rlx-form-kernels and rlx-plan-memory. Reads sizes
/// as expressions only. Errors: an op that no kernel family takes, by name.
Result<std::unique_ptr<data::PlanTemplateT>> emitPlan(ir::GraphOp graph);

/// Questions as the plan carries them.
std::vector<std::unique_ptr<data::GuardT>> emitGuards(const std::vector<SizeAccessor::Asked> &questions);

} // namespace rlx::codegen

#endif // RLX_CODEGEN_PLAN_EMITPLAN_H
