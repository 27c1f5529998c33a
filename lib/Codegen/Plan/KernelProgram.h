//===- KernelProgram.h - accesses and element programs ----------*- C++ -*-===//
#ifndef RLX_LIB_CODEGEN_PLAN_KERNELPROGRAM_H
#define RLX_LIB_CODEGEN_PLAN_KERNELPROGRAM_H

#include "ExprTable.h"

#include "rlx/Codegen/Plan/IndexMap.h"
#include "rlx/Data/Plan_generated.h"
#include "rlx/Dialect/RLX/IR/RLXOps.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <memory>

namespace rlx::codegen {

/// What a kernel's region is read with: dims, numbered expressions, and the
/// buffer behind each region argument.
struct RegionContext {
  const DimReader &reader;
  ExprTable &exprs;
  llvm::DenseMap<mlir::Value, uint32_t> bufferOf; ///< region argument -> buffer
  std::function<uint32_t()> runStateBuffer;       ///< seed and step, made when first needed
};

/// A strided window with its strides still as expressions, for those who look
/// at them before they are numbered.
struct Window {
  mlir::Value argument; ///< of the region
  DimExpr offset;
  std::vector<DimExpr> strides; ///< one per loop
  std::vector<std::optional<DimExpr>> broadcast;
};

/// The window of a value that is a region argument or a view of one, over the
/// loops of `map`. Nothing where something is computed on the way.
std::optional<Window> windowOf(mlir::Value value, IndexMap map, const DimReader &reader);
/// A row-major value (a kernel's result) over the loops of `map`.
Window rowMajorWindow(llvm::ArrayRef<DimExpr> dims, const IndexMap &map);

std::unique_ptr<data::AccessT> makeAccess(const Window &window, uint32_t buffer, data::ElementType type,
                                          ExprTable &exprs);

/// Where the lookups of a gather or scatter go: per index operand its value, its
/// map, and the axis of the data it moves along; and the map of the data itself,
/// with one more loop per index operand, in order, after the others.
struct LookupMaps {
  IndexMap data;
  llvm::SmallVector<std::pair<mlir::Value, IndexMap>, 2> indices;
  llvm::SmallVector<DimExpr, 2> extents;
};

/// An index lookup: `data`, over the loops of `maps.data`, is read (or written) at
/// addresses that the index operands add to. Null where an index operand is
/// neither a region argument nor a view of one.
std::unique_ptr<data::AccessT> makeIndexedAccess(Window data, uint32_t buffer, data::ElementType type,
                                                 const LookupMaps &maps, RegionContext &context);

/// Builds the element program of a region: pulls what a value needs at an
/// iteration point, through views and elementwise ops, down to accesses.
class ProgramBuilder {
public:
  ProgramBuilder(RegionContext &context, unsigned loops) : context(context), loops(loops) {}

  /// `value` stands for a value that is there already (an accumulator): it gets
  /// number 0, inputs follow.
  void setAccumulator(mlir::Value value, data::ElementType type);
  /// Value number of `value` at `map`; failed() afterwards tells.
  uint16_t pull(mlir::Value value, const IndexMap &map);
  uint16_t convert(uint16_t number, data::ElementType from, data::ElementType to);
  bool failed() const { return !failure.message.empty(); }
  const Error &error() const { return failure; }

  /// Inputs first, then instructions: numbers as the plan wants them.
  std::vector<std::unique_ptr<data::AccessT>> takeInputs() { return std::move(inputs); }
  std::vector<data::Instr> finish(llvm::MutableArrayRef<uint16_t> results);

private:
  uint16_t emit(data::Opcode op, data::ElementType type, uint16_t a = 0, uint16_t b = 0, uint16_t c = 0,
                uint64_t imm = 0);
  uint16_t addInput(std::unique_ptr<data::AccessT> access);
  uint16_t constant(data::ElementType type, uint64_t bits);
  uint16_t pullUncached(mlir::Value value, const IndexMap &map);
  uint16_t pullLookup(mlir::Operation *op, const IndexMap &map);
  uint16_t pullRandom(mlir::Operation *op, const IndexMap &map);
  uint16_t expression(const DimExpr &value);
  uint16_t fail(mlir::Operation *op, const std::string &why);

  RegionContext &context;
  unsigned loops;
  std::vector<std::unique_ptr<data::AccessT>> inputs;
  std::vector<data::Instr> program;
  mlir::Value accumulator;
  struct Pulled {
    mlir::Value value;
    IndexMap map;
    uint16_t number;
  };
  std::vector<Pulled> pulled;
  Error failure;
};

/// The maps of a gather at the map of its result, or of a scatter at the map of its
/// updates: a scatter addresses its result as a gather of it would.
LookupMaps lookupMaps(mlir::Operation *op, const IndexMap &map, const DimReader &reader);

/// Element type of a tensor value.
data::ElementType elementTypeOf(mlir::Value value);

} // namespace rlx::codegen

#endif // RLX_LIB_CODEGEN_PLAN_KERNELPROGRAM_H
