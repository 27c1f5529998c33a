//===- Folders.cpp - exact folding of integers and sizes ------------------===//

#include "ShapeFunctions.h"

using namespace mlir;
using namespace rlx;
using namespace rlx::ir;
using namespace rlx::ir::detail;

OpFoldResult rlx::ir::detail::foldElementwise(Operation *op, data::Opcode opcode, ArrayRef<Attribute> operands) { return {}; }
OpFoldResult AssumeDimsOp::fold(FoldAdaptor) { return {}; }
OpFoldResult ConvertOp::fold(FoldAdaptor) { return {}; }
OpFoldResult ReduceOp::fold(FoldAdaptor) { return {}; }
OpFoldResult ReshapeOp::fold(FoldAdaptor) { return {}; }
OpFoldResult TransposeOp::fold(FoldAdaptor) { return {}; }
OpFoldResult BroadcastToOp::fold(FoldAdaptor) { return {}; }
OpFoldResult SliceOp::fold(FoldAdaptor) { return {}; }
OpFoldResult ConcatOp::fold(FoldAdaptor) { return {}; }
OpFoldResult GatherOp::fold(FoldAdaptor) { return {}; }
OpFoldResult IotaOp::fold(FoldAdaptor) { return {}; }
