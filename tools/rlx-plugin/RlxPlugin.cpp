//===- RlxPlugin.cpp - rlx for the packaged mlir-opt ----------------------===//
#include "rlx/Dialect/RLX/IR/RLXOps.h"
#include "rlx/Transforms/Passes.h"
#include "rlx/Transforms/Pipelines.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Compiler.h"

extern "C" LLVM_ATTRIBUTE_WEAK LLVM_ATTRIBUTE_VISIBILITY_DEFAULT mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "rlx", LLVM_VERSION_STRING, [] {
            rlx::transforms::registerTransformsPasses();
            rlx::transforms::registerPipelines();
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK LLVM_ATTRIBUTE_VISIBILITY_DEFAULT mlir::DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "rlx", LLVM_VERSION_STRING,
          [](mlir::DialectRegistry *registry) { registry->insert<rlx::ir::RLXDialect>(); }};
}
