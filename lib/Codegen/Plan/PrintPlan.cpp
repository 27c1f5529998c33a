//===- PrintPlan.cpp - plans for people -----------------------------------===//

#include "rlx/Codegen/Plan/PrintPlan.h"

#include "rlx/Codegen/Plan/EmitPlan.h"
#include "rlx/Data/ElementType.h"
#include "rlx/Data/Opcode.h"
#include "rlx/Support/DimExpr.h"

#include "mlir/Pass/Pass.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace rlx::codegen {

using data::AccessKind;
using data::BufferKind;
using data::ElementType;
using data::ExprOp;
using data::Opcode;

namespace {

class PlanPrinter {
public:
  PlanPrinter(const data::PlanTemplateT &plan, ArrayRef<std::string> dims, raw_ostream &os) : plan(plan), os(os) {
    for (const data::ExprNode &node : plan.exprs)
      exprs.push_back(expr(node, dims));
  }
  void print();

private:
  DimExpr expr(const data::ExprNode &node, ArrayRef<std::string> dims) const;
  std::string text(uint32_t expr) const { return exprs[expr].str(); }
  std::string list(const std::vector<uint32_t> &list) const {
    return llvm::join(llvm::map_range(list, [&](uint32_t expr) { return text(expr); }), ", ");
  }
  std::string access(const data::AccessT &access) const;
  std::string form(const data::AccessT &access, uint32_t offset, const std::vector<uint32_t> &strides,
                   const std::vector<uint32_t> &axisStrides) const;
  void printGuard(const data::GuardT &guard);
  void printBuffer(size_t number);
  void printStep(size_t number);
  void printProgram(const std::vector<data::Instr> &program, ArrayRef<std::string> inputs, StringRef prefix);

  const data::PlanTemplateT &plan;
  raw_ostream &os;
  std::vector<DimExpr> exprs;
};

DimExpr PlanPrinter::expr(const data::ExprNode &node, ArrayRef<std::string> dims) const {
  switch (node.op()) {
  case ExprOp::Constant:
    return node.value();
  case ExprOp::Symbol:
    return DimExpr::symbol(dims[node.a()]);
  case ExprOp::Add:
    return exprs[node.a()] + exprs[node.b()];
  case ExprOp::Mul:
    return exprs[node.a()] * exprs[node.b()];
  case ExprOp::FloorDiv:
    return DimExpr::floorDiv(exprs[node.a()], exprs[node.b()]);
  case ExprOp::Min:
    return DimExpr::min(exprs[node.a()], exprs[node.b()]);
  case ExprOp::Max:
    return DimExpr::max(exprs[node.a()], exprs[node.b()]);
  case ExprOp::Broadcast:
    return DimExpr::broadcast(exprs[node.a()], exprs[node.b()]);
  }
  return {};
}

/// "%2[3 + S*i0 + (N == 1 ? 0 : 4)*i1]": the element that iteration point (i0, i1, ...) needs. In panels
/// "%2[k i1, n lookup(%0[i0], 50)]".
std::string PlanPrinter::access(const data::AccessT &access) const {
  std::string sum = form(access, access.offset, access.strides, access.axis_strides);
  if (access.kind == AccessKind::Iota)
    return "iota(" + sum + ")";
  if (access.panels)
    sum = "k " + sum + ", n " + form(access, access.column, access.column_strides, access.axis_columns);
  return "%" + std::to_string(access.buffer) + "[" + sum + "]";
}

std::string PlanPrinter::form(const data::AccessT &access, uint32_t offset, const std::vector<uint32_t> &strides,
                              const std::vector<uint32_t> &axisStrides) const {
  std::vector<std::string> terms;
  if (exprs[offset] != DimExpr(0))
    terms.push_back(text(offset));
  auto factor = [&](const DimExpr &expr) {
    bool sum = expr.kind() == DimExpr::Kind::Sum;
    return (sum ? "(" : "") + expr.str() + (sum ? ")*" : "*");
  };
  for (size_t j = 0; j < strides.size(); ++j) {
    const DimExpr &stride = exprs[strides[j]];
    if (stride == DimExpr(0))
      continue;
    std::string loop = "i" + std::to_string(j);
    if (j < access.broadcast.size() && access.broadcast[j])
      terms.push_back("(" + text(access.extents[j]) + " == 1 ? 0 : " + stride.str() + ")*" + loop);
    else
      terms.push_back((stride == DimExpr(1) ? "" : factor(stride)) + loop);
  }
  for (size_t k = 0; k < access.indices.size(); ++k) {
    const DimExpr &stride = exprs[axisStrides[k]];
    if (!access.panels || stride != DimExpr(0))
      terms.push_back((access.panels && stride == DimExpr(1) ? "" : factor(stride)) + "lookup(" +
                      this->access(*access.indices[k]) + ", " + text(access.axis_extents[k]) + ")");
  }
  return terms.empty() ? "0" : llvm::join(terms, " + ");
}

void PlanPrinter::printGuard(const data::GuardT &guard) {
  auto kind = static_cast<DimPredicate::Kind>(guard.predicate->kind);
  Result<DimExpr> lhs = DimExpr::parse(guard.predicate->lhs), rhs = DimExpr::parse(guard.predicate->rhs);
  os << "  " << (guard.required ? "require " : "choose ");
  if (lhs && rhs)
    os << DimPredicate{kind, *lhs, *rhs}.str();
  os << (guard.answer ? ": yes" : ": no") << "  // " << guard.op << ": " << guard.message << "\n";
}

void PlanPrinter::printBuffer(size_t number) {
  const data::BufferT &buffer = *plan.buffers[number];
  os << "  %" << number << " = " << StringRef(data::EnumNameBufferKind(buffer.kind)).lower();
  switch (buffer.kind) {
  case BufferKind::Input:
  case BufferKind::Output:
    os << " " << buffer.index;
    break;
  case BufferKind::Weight:
  case BufferKind::Param:
    os << " '" << buffer.name << "'";
    break;
  case BufferKind::Arena:
    os << " steps " << buffer.first_step << ".." << buffer.last_step;
    break;
  case BufferKind::Constant:
  case BufferKind::RunState:
    break;
  }
  os << ": " << text(buffer.elements) << " x " << elementTypeName(buffer.type);
  if (buffer.layout == data::PackedLayout::Panels16)
    os << ", panels of 16 columns of [" << buffer.k << ", " << buffer.n << "] at " << buffer.offset << " + "
       << buffer.k_stride << "*k + " << buffer.n_stride << "*n";
  os << "\n";
}

std::string immediate(ElementType type, uint64_t bits) {
  const llvm::fltSemantics *semantics = nullptr;
  switch (type) {
  case ElementType::F16:
    semantics = &APFloat::IEEEhalf();
    break;
  case ElementType::BF16:
    semantics = &APFloat::BFloat();
    break;
  case ElementType::F32:
    semantics = &APFloat::IEEEsingle();
    break;
  case ElementType::F64:
    semantics = &APFloat::IEEEdouble();
    break;
  default:
    return llvm::toString(APInt(8 * elementBytes(type), bits, false, true), 10, !isUnsignedType(type));
  }
  llvm::SmallString<16> text;
  APFloat(*semantics, APInt(8 * elementBytes(type), bits, false, true)).toString(text);
  return std::string(text);
}

/// One line an instruction; values are called `inputs`, then prefix0, prefix1, ...
void PlanPrinter::printProgram(const std::vector<data::Instr> &program, ArrayRef<std::string> inputs,
                               StringRef prefix) {
  auto value = [&](uint16_t number) {
    return number < inputs.size() ? inputs[number] : prefix.str() + std::to_string(number - inputs.size());
  };
  for (auto [i, instr] : llvm::enumerate(program)) {
    os << "    " << prefix << i << " = " << StringRef(data::EnumNameOpcode(instr.op())).lower();
    uint16_t operands[] = {instr.a(), instr.b(), instr.c()};
    for (unsigned k = 0; k < operandCount(instr.op()); ++k)
      os << (k ? ", " : " ") << value(operands[k]);
    if (instr.op() == Opcode::Constant)
      os << " " << immediate(instr.type(), instr.imm());
    if (instr.op() == Opcode::Philox)
      os << " key " << instr.imm();
    os << " : " << elementTypeName(instr.type()) << "\n";
  }
}

void PlanPrinter::printStep(size_t number) {
  const data::StepT &step = *plan.steps[number];
  os << "  " << number << " " << StringRef(data::EnumNameFamily(step.family)).lower() << " '" << step.node << "' ["
     << list(step.iteration) << "]";
  std::vector<std::string> inputs;
  for (size_t i = 0; i < step.inputs.size(); ++i)
    inputs.push_back("x" + std::to_string(i));
  switch (step.family) {
  case data::Family::Loops:
    if (step.combine != data::Combine::Assign)
      os << " combine " << StringRef(data::EnumNameCombine(step.combine)).lower();
    break;
  case data::Family::Reduce:
    os << " " << StringRef(data::EnumNameReduceKind(step.reduce)).lower() << " over the last " << unsigned(step.reduced)
       << " in " << elementTypeName(step.accumulator);
    break;
  case data::Family::Rows:
    os << " " << StringRef(data::EnumNameRowsKind(step.rows)).lower();
    if (step.rows == data::RowsKind::LayerNorm || step.rows == data::RowsKind::RmsNorm)
      os << " epsilon " << step.epsilon;
    break;
  case data::Family::Matmul:
    os << " k " << text(step.k) << " strides " << text(step.a_k_stride) << ", " << text(step.b_k_stride);
    break;
  case data::Family::Attention:
    os << " k " << text(step.k) << " strides " << text(step.a_k_stride) << ", " << text(step.b_k_stride) << " d "
       << text(step.d) << " strides " << text(step.v_stride) << ", " << text(step.output_stride)
       << (step.zero_nan ? " zero nan" : "");
    break;
  case data::Family::Scan:
    os << (step.exclusive ? " exclusive" : "") << (step.reverse ? " reverse" : "");
    break;
  }
  os << "\n";
  for (size_t i = 0; i < step.inputs.size(); ++i)
    os << "    " << inputs[i] << " = " << access(*step.inputs[i]) << " : " << elementTypeName(step.inputs[i]->type)
       << "\n";
  // Matmul: the accumulator, then what the epilogue reads besides a and b.
  if (step.family == data::Family::Matmul && inputs.size() >= 2) {
    inputs.erase(inputs.begin());
    inputs[0] = "acc";
  }
  // Attention: the score, then what the program reads besides q, k and v.
  if (step.family == data::Family::Attention && inputs.size() >= 3) {
    inputs.erase(inputs.begin(), inputs.begin() + 2);
    inputs[0] = "score";
  }
  if (step.family == data::Family::Rows || step.family == data::Family::Scan)
    inputs = {};
  printProgram(step.program, inputs, "v");
  printProgram(step.epilogue, {std::string("acc"), std::string("count")}, "e");
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    os << "    " << access(*step.outputs[i]);
    auto named = [&](uint16_t value, ArrayRef<std::string> inputs, const char *prefix) {
      return value < inputs.size() ? inputs[value] : prefix + std::to_string(value - inputs.size());
    };
    if (step.family == data::Family::Reduce)
      os << " = " << named(step.epilogue_result, {std::string("acc"), std::string("count")}, "e") << " of "
         << named(step.results[i], inputs, "v");
    else if (step.family == data::Family::Attention && i < step.results.size())
      os << " = softmax of " << named(step.results[i], inputs, "v") << " times x2";
    else if (i < step.results.size())
      os << " = " << named(step.results[i], inputs, "v");
    os << " : " << elementTypeName(step.outputs[i]->type) << "\n";
  }
}

void PlanPrinter::print() {
  os << "guards\n";
  for (const auto &guard : plan.guards)
    printGuard(*guard);
  os << "buffers\n";
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    printBuffer(i);
  os << "steps\n";
  for (size_t i = 0; i < plan.steps.size(); ++i)
    printStep(i);
  os << "outputs\n";
  for (const auto &output : plan.outputs)
    os << "  %" << output->buffer << " as [" << list(output->shape) << "] : " << elementTypeName(output->type) << "\n";
}

class PrintPlan : public PassWrapper<PrintPlan, OperationPass<ir::GraphOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintPlan)
  explicit PrintPlan(raw_ostream &stream) : stream(stream) {}
  StringRef getArgument() const override { return "rlx-print-plan"; }
  StringRef getDescription() const override { return "Print the plan of a graph after rlx-lower-host, as text."; }
  void runOnOperation() override {
    ir::GraphOp graph = getOperation();
    Result<std::unique_ptr<data::PlanTemplateT>> plan = emitPlan(graph);
    if (!plan) {
      graph.emitError() << plan.error().message;
      return signalPassFailure();
    }
    std::vector<std::string> dims;
    for (ir::DimDeclAttr dim : graph.getDimDecls())
      dims.push_back(dim.getName().str());
    // In one piece: passes on several graphs may run at once.
    std::string text;
    llvm::raw_string_ostream buffer(text);
    buffer << "plan of @" << graph.getSymName() << "(" << llvm::join(dims, ", ") << ")\n";
    printPlan(**plan, dims, buffer);
    stream << text;
    markAllAnalysesPreserved();
  }

private:
  raw_ostream &stream;
};

} // namespace

void printPlan(const data::PlanTemplateT &plan, ArrayRef<std::string> dims, raw_ostream &stream) {
  PlanPrinter(plan, dims, stream).print();
}

void registerPrintPlanPass(raw_ostream &stream) {
  registerPass([&stream] { return std::make_unique<PrintPlan>(stream); });
}

} // namespace rlx::codegen
