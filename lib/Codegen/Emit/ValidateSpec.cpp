//===- ValidateSpec.cpp - what a kernel spec must have --------------------===//
//
// A spec may come from a file or another process. What passes here can be
// emitted without looking at a count or a type again.
//
//===----------------------------------------------------------------------===//
#include "rlx/Codegen/ElementProgram.h"
#include "rlx/Codegen/KernelCompiler.h"

namespace rlx {

using data::AccessKind;
using data::Combine;
using data::ElementType;
using data::Family;
using data::InnerMode;

namespace {

// Far above what any plan has; they keep a hostile spec from asking for absurd code.
constexpr size_t kMaxRank = 32, kMaxOperands = 64, kMaxIndices = 8, kMaxInstructions = 1024;

Error invalid(const std::string &why) { return Error{ErrorCode::InvalidArgument, "kernel spec: " + why}; }

Status checkAccess(const data::AccessSpecT *access, data::Family family, const std::string &what, bool output) {
  if (!access)
    return invalid(what + " is missing");
  if (access->kind > AccessKind::MAX || access->type > ElementType::MAX || access->inner > InnerMode::MAX ||
      access->column_inner > InnerMode::MAX)
    return invalid(what + " has an unknown kind, type or inner mode");
  if (access->panels && (output || access->kind != AccessKind::Indexed ||
                         (family != data::Family::Loops && family != data::Family::Reduce)))
    return invalid(what + " reads panels where that is not done");
  if (access->kind == AccessKind::Iota && (output || access->type != ElementType::I64))
    return invalid(what + " cannot be an iota" + (output ? "" : " of another type than i64"));
  if (access->kind != AccessKind::Indexed) {
    if (!access->index_inner.empty())
      return invalid(what + " has indices but is not indexed");
    return Status::ok();
  }
  if (access->index_inner.empty() || access->index_inner.size() > kMaxIndices)
    return invalid(what + " is indexed by " + std::to_string(access->index_inner.size()) + " indices");
  if (access->index_type != ElementType::I32 && access->index_type != ElementType::I64)
    return invalid(what + " has indices that are neither i32 nor i64");
  for (InnerMode mode : access->index_inner)
    if (mode > InnerMode::MAX)
      return invalid(what + " has an index of unknown inner mode");
  return Status::ok();
}

Status checkDirect(const data::KernelSpecT &spec, const char *family) {
  for (const auto *list : {&spec.inputs, &spec.outputs})
    for (const auto &access : *list)
      if (access->kind != AccessKind::Direct)
        return invalid(std::string(family) + " takes direct operands only");
  return Status::ok();
}

Status checkResults(const data::KernelSpecT &spec, size_t results, size_t values) {
  if (spec.results.size() != results)
    return invalid("it has " + std::to_string(spec.results.size()) + " results for " + std::to_string(results));
  for (uint16_t result : spec.results)
    if (result >= values)
      return invalid("result " + std::to_string(result) + " is no value of the program");
  return Status::ok();
}

Status checkCombine(const data::KernelSpecT &spec) {
  if (spec.combine == Combine::Assign)
    return Status::ok();
  for (const auto &access : spec.outputs) {
    if (access->kind != AccessKind::Indexed)
      return invalid("only an indexed output combines with what it meets");
    if (access->type == ElementType::I1 && (spec.combine == Combine::Add || spec.combine == Combine::Mul))
      return invalid("i1 elements are not added or multiplied");
  }
  return Status::ok();
}

bool isArithmetic(ElementType type) { return type <= ElementType::MAX && computeType(type) == type; }

} // namespace

Status validateSpec(const data::KernelSpecT &spec) {
  if (spec.family > Family::MAX || spec.combine > Combine::MAX || spec.reduce > data::ReduceKind::MAX ||
      spec.rows > data::RowsKind::MAX || spec.a_type > ElementType::MAX || spec.b_type > ElementType::MAX ||
      spec.a_inner > InnerMode::MAX || spec.b_layout > data::PackedLayout::MAX)
    return invalid("unknown family, combination, reduction, type or layout");
  if (spec.inputs.size() > kMaxOperands || spec.outputs.size() > kMaxOperands || spec.rank > kMaxRank ||
      spec.program.size() > kMaxInstructions || spec.epilogue.size() > kMaxInstructions)
    return invalid("more loops, operands or instructions than any kernel has");
  std::vector<ElementType> inputs;
  for (size_t i = 0; i < spec.inputs.size(); ++i) {
    if (Status status = checkAccess(spec.inputs[i].get(), spec.family, "input " + std::to_string(i), false); !status)
      return status;
    inputs.push_back(spec.inputs[i]->type);
  }
  for (size_t i = 0; i < spec.outputs.size(); ++i)
    if (Status status = checkAccess(spec.outputs[i].get(), spec.family, "output " + std::to_string(i), true); !status)
      return status;
  if (spec.outputs.empty())
    return invalid("it has no output");
  if (spec.family != Family::Loops && spec.combine != Combine::Assign)
    return invalid("only loops combine with what an output holds");
  if (spec.family != Family::Matmul && spec.rank == 0)
    return invalid("it has no loop");
  if (!isArithmetic(spec.accumulator) &&
      (spec.family == Family::Reduce || spec.family == Family::Matmul || spec.family == Family::Scan))
    return invalid("sums are not kept as " + std::string(elementTypeName(spec.accumulator)));

  switch (spec.family) {
  case Family::Loops: {
    Result<std::vector<ElementType>> types = checkProgram(spec.program, inputs);
    if (!types)
      return types.takeError();
    if (Status status = checkResults(spec, spec.outputs.size(), types->size()); !status)
      return status;
    return checkCombine(spec);
  }
  case Family::Reduce: {
    if (spec.reduced == 0 || spec.reduced >= spec.rank)
      return invalid("a reduction has a kept loop and a reduced one");
    if (spec.outputs.size() != 1 || spec.outputs[0]->kind != AccessKind::Direct)
      return invalid("a reduction has one direct output");
    Result<std::vector<ElementType>> types = checkProgram(spec.program, inputs);
    if (!types)
      return types.takeError();
    if (Status status = checkResults(spec, 1, types->size()); !status)
      return status;
    bool sums = spec.reduce == data::ReduceKind::Sum || spec.reduce == data::ReduceKind::Prod;
    if (spec.accumulator == ElementType::I1 && (sums || !spec.epilogue.empty()))
      return invalid("i1 elements are not added or multiplied");
    ElementType start[] = {spec.accumulator, spec.accumulator};
    Result<std::vector<ElementType>> last = checkProgram(spec.epilogue, start);
    if (!last)
      return last.takeError();
    if (spec.epilogue_result >= last->size())
      return invalid("the epilogue's result is no value of it");
    return Status::ok();
  }
  case Family::Rows: {
    size_t count = 1 + (spec.has_scale ? 1 : 0) + (spec.has_bias ? 1 : 0);
    if (spec.inputs.size() != count || spec.outputs.size() != 1)
      return invalid("rows take x, scale and bias as flagged, and one output");
    if (Status status = checkDirect(spec, "rows"); !status)
      return status;
    for (ElementType type : inputs)
      if (!isFloatType(type))
        return invalid("rows are of floats");
    ElementType start[] = {computeType(inputs[0])};
    Result<std::vector<ElementType>> types = checkProgram(spec.program, start);
    if (!types)
      return types.takeError();
    return checkResults(spec, spec.results.empty() ? 0 : 1, types->size());
  }
  case Family::Matmul: {
    if (spec.batch_rank > kMaxRank || (spec.row_class != kMatmulFewRows && spec.row_class != kMatmulManyRows))
      return invalid("matmul row class " + std::to_string(spec.row_class));
    if (spec.accumulator == ElementType::I1)
      return invalid("sums are not kept as i1");
    std::vector<ElementType> start = {spec.accumulator};
    start.insert(start.end(), inputs.begin(), inputs.end());
    Result<std::vector<ElementType>> types = checkProgram(spec.program, start);
    if (!types)
      return types.takeError();
    return checkResults(spec, spec.outputs.size(), types->size());
  }
  case Family::Attention: {
    if (spec.batch_rank > kMaxRank || (spec.row_class != 1 && spec.row_class != kAttentionRows))
      return invalid("attention row class " + std::to_string(spec.row_class));
    if (spec.inputs.size() < 3 || spec.outputs.size() != 1)
      return invalid("attention takes q, k, v and its program's inputs, and has one output");
    for (const data::AccessSpecT *access :
         {spec.inputs[0].get(), spec.inputs[1].get(), spec.inputs[2].get(), spec.outputs[0].get()})
      if (access->kind != AccessKind::Direct || !isFloatType(access->type) || access->type == ElementType::F64)
        return invalid("attention is of direct operands of f32, f16 or bf16");
    std::vector<ElementType> start = {ElementType::F32};
    start.insert(start.end(), inputs.begin() + 3, inputs.end());
    Result<std::vector<ElementType>> types = checkProgram(spec.program, start);
    if (!types)
      return types.takeError();
    if (Status status = checkResults(spec, 1, types->size()); !status)
      return status;
    ElementType score = (*types)[spec.results[0]];
    if (!isFloatType(score) || score == ElementType::F64)
      return invalid("attention scores are not " + std::string(elementTypeName(score)));
    return Status::ok();
  }
  case Family::Scan:
    if (spec.inputs.size() != 1 || spec.outputs.size() != 1)
      return invalid("a scan has one input and one output");
    if (spec.accumulator == ElementType::I1 || inputs[0] == ElementType::I1)
      return invalid("i1 elements are not added or multiplied");
    return checkDirect(spec, "a scan");
  }
  return invalid("unknown family");
}

} // namespace rlx
