//===- PrintPlan.h - plans for people ---------------------------*- C++ -*-===//
#ifndef RLX_CODEGEN_PLAN_PRINTPLAN_H
#define RLX_CODEGEN_PLAN_PRINTPLAN_H

#include "rlx/Data/Plan_generated.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace rlx::codegen {

/// Writes a plan that emitPlan() made: guards, buffers, steps with their
/// accesses and programs, outputs. Sizes are expressions of `dims`, the names in
/// the order of the signature.
void printPlan(const data::PlanTemplateT &plan, llvm::ArrayRef<std::string> dims, llvm::raw_ostream &stream);

/// Registers rlx-print-plan: writes the plan of each graph that went through
/// rlx-lower-host to `stream`, and changes nothing. `stream` must outlive every
/// pass made from it.
void registerPrintPlanPass(llvm::raw_ostream &stream);

} // namespace rlx::codegen

#endif // RLX_CODEGEN_PLAN_PRINTPLAN_H
