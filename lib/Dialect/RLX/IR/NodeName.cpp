//===- NodeName.cpp - what messages call an op ----------------------------===//
#include "rlx/Dialect/RLX/IR/NodeName.h"

#include "mlir/IR/BuiltinAttributes.h"

std::string rlx::ir::findNodeName(mlir::Location location) {
  std::string name;
  location->walk([&](mlir::Location part) {
    auto named = llvm::dyn_cast<mlir::NameLoc>(part);
    if (!named)
      return mlir::WalkResult::advance();
    name = named.getName().str();
    return mlir::WalkResult::interrupt();
  });
  return name;
}
