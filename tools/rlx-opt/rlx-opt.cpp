//===- rlx-opt.cpp - runs passes over rlx graphs --------------------------===//
#include "rlx/Codegen/Plan/Passes.h"
#include "rlx/Codegen/Plan/PrintPlan.h"
#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Transforms/Passes.h"
#include "rlx/Transforms/Pipelines.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/raw_ostream.h"

static const char *const help = R"(rlx-opt: runs passes over graphs of the rlx dialect, and prints what they make.

A graph has named dims. Start with one of inputs whose sizes are open, let rlx work out every other size as an
expression, and bind the names when sizes are known:

  rlx-opt graph.mlir --rlx-infer-dims
  rlx-opt graph.mlir --rlx-infer-dims --rlx-bind-dims=dims=B=2,S=16 --rlx-sync-shapes

Whole stages have a name, and stop where asked:

  rlx-opt graph.mlir --rlx-prepare                       once per graph
  rlx-opt graph.mlir --rlx-prepare=until=recognise
  rlx-opt graph.mlir --rlx-prepare --rlx-specialize=dims=B=2,S=16                    per set of sizes
  rlx-opt graph.mlir --rlx-prepare --rlx-specialize=dims=B=2,S=16 --rlx-lower-host   down to the plan

The plan as the runtime gets it, with guards, buffers and steps: --rlx-lower-host --rlx-print-plan -o /dev/null

To see each step: --mlir-print-ir-after-change. To see what merged: --remarks-filter=rlx-dedupe-constants.
Reads standard input when no file is named, text or bytecode. Exits with 1 when the input is wrong.
)";

int main(int argc, char **argv) {
  // Only what a test needs: rlx itself, and what stands on the other side of rlx-strip-dims.
  mlir::DialectRegistry registry;
  registry
      .insert<rlx::ir::RLXDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::tensor::TensorDialect>();
  rlx::transforms::registerTransformsPasses();
  rlx::transforms::registerPipelines();
  rlx::codegen::registerPlanPasses();
  rlx::codegen::registerPrintPlanPass(llvm::outs());
  mlir::registerCSEPass();
  mlir::registerCanonicalizerPass();
  mlir::registerSymbolDCEPass();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, help, registry));
}
