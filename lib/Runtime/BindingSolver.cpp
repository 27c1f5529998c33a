//===- BindingSolver.cpp - sizes of named dims from inputs ----------------===//

#include "rlx/Runtime/BindingSolver.h"

#include "Bits.h"
#include "DimProgram.h"
#include "rlx/Data/ElementType.h"
#include "rlx/Support/DimFacts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

using namespace rlx;

namespace {

constexpr int64_t kUnknown = -1;

/// One axis of an input or output.
struct Axis {
  enum class Kind : uint8_t { Fixed, Dim, Other };
  Kind kind = Kind::Fixed;
  int64_t value = 0; // Fixed
  uint32_t dim = 0;  // Dim
  DimExpr expr;
  DimProgram program;
};

/// An input or output of the signature.
struct Slot {
  std::string name;
  data::ElementType type;
  std::vector<Axis> shape;
  std::string text; // "[B,S,4]"
  const char *what; // "input", "output"

  std::string title() const { return std::string(what) + " '" + name + "'"; }
  std::string axisTitle(size_t axis) const { return title() + " axis " + std::to_string(axis); }
};

/// Numbers of inputs or outputs by the names that their slots have.
using NameIndex = std::unordered_map<std::string_view, uint32_t>;

struct Dim {
  int64_t min, max, multiple;
};

struct Constraint {
  DimPredicate predicate;
  PredicateProgram program;
  std::string message;
};

Error invalid(ErrorCode code, std::string message) { return {code, std::move(message)}; }
Error argument(std::string message) { return {ErrorCode::InvalidArgument, std::move(message)}; }

std::string elementsText(int64_t count) { return std::to_string(count) + (count == 1 ? " element" : " elements"); }

/// f32 may be given for the 16-bit floats, which are narrowed or widened.
bool acceptsType(data::ElementType wanted, data::ElementType given) {
  using E = data::ElementType;
  return wanted == given || (given == E::F32 && (wanted == E::F16 || wanted == E::BF16));
}

/// 1 when `e` never falls while names grow, -1 when it never rises, 0 when it is
/// constant, nothing when neither is seen.
std::optional<int> direction(const DimExpr &e) {
  using K = DimExpr::Kind;
  switch (e.kind()) {
  case K::Constant:
    return 0;
  case K::Symbol:
    return 1;
  case K::Product: {
    int sign = 1;
    for (const DimExpr &factor : e.operands()) {
      if (auto value = factor.constant()) {
        sign = *value < 0 ? -1 : 1;
        continue;
      }
      auto d = direction(factor);
      if (!d || *d < 0 || DimFacts().range(factor).min < 0)
        return std::nullopt;
    }
    return sign;
  }
  case K::Broadcast:
    return std::nullopt;
  case K::FloorDiv:
    if (auto divisor = e.operands()[1].constant(); divisor && *divisor > 0)
      return direction(e.operands()[0]);
    return std::nullopt;
  default:
    break;
  }
  int result = 0; // Sum, Min, Max: as their operands, if these agree
  for (const DimExpr &operand : e.operands()) {
    auto d = direction(operand);
    if (!d || (*d != 0 && result != 0 && *d != result))
      return std::nullopt;
    if (*d != 0)
      result = *d;
  }
  return result;
}

/// Sizes of one name that make an expression a value.
struct Solution {
  enum class Kind { One, None, Excluded /* by range or multiple */, Many } kind;
  int64_t value = 0;
};

/// Above this many candidates a name is not tried out.
constexpr int64_t kMaxTried = 4096;

/// Solves e == value for `name`, the only name in `e`. A size outside the range
/// or multiple is an answer too (a later check says what is wrong with it), but
/// among several they decide.
Solution solveOne(const DimExpr &e, int64_t value, const std::string &name, const Dim &dim) {
  if (e.isSymbol())
    return value < 0 ? Solution{Solution::Kind::None} : Solution{Solution::Kind::One, value};
  Binding binding{{name, 0}};
  int64_t &n = binding.begin()->second;
  auto firstMultiple = [&](int64_t lo) -> std::optional<int64_t> {
    int64_t rest = lo % dim.multiple, up;
    if (rest == 0)
      return lo;
    if (__builtin_add_overflow(lo, dim.multiple - rest, &up))
      return std::nullopt;
    return up;
  };
  auto d = direction(e);
  if (d && *d != 0) {
    // -1, 0, 1: e at `at` is less, equal, more than value, mirrored for a
    // falling e. Beyond 64 bits counts as more.
    auto compare = [&](int64_t at) {
      n = at;
      Result<int64_t> v = e.evaluate(binding);
      if (!v)
        return 1;
      int c = *v < value ? -1 : *v > value;
      return *d > 0 ? c : -c;
    };
    // The first size at which compare() is at least `least`.
    auto search = [&](int least) -> std::optional<int64_t> {
      int64_t lo = 0, hi = INT64_MAX;
      if (compare(hi) < least)
        return std::nullopt;
      while (lo < hi) {
        int64_t middle = lo + (hi - lo) / 2;
        if (compare(middle) >= least)
          hi = middle;
        else
          lo = middle + 1;
      }
      return lo;
    };
    auto first = search(0);
    if (!first || compare(*first) != 0)
      return {Solution::Kind::None};
    auto after = search(1);
    int64_t last = after ? *after - 1 : INT64_MAX;
    if (*first == last)
      return {Solution::Kind::One, last};
    int64_t lo = std::max(*first, dim.min), hi = std::min(last, dim.max);
    auto candidate = lo <= hi ? firstMultiple(lo) : std::nullopt;
    if (!candidate || *candidate > hi)
      return {Solution::Kind::Excluded};
    return hi - *candidate >= dim.multiple ? Solution{Solution::Kind::Many} : Solution{Solution::Kind::One, *candidate};
  }
  // Neither rises nor falls, as far as we see: try every size there may be.
  if (dim.max == INT64_MAX || (dim.max - dim.min) / dim.multiple > kMaxTried)
    return {Solution::Kind::Many};
  Solution solution{Solution::Kind::Excluded};
  auto at = firstMultiple(dim.min);
  while (at && *at <= dim.max) {
    n = *at;
    Result<int64_t> v = e.evaluate(binding);
    if (v && *v == value) {
      if (solution.kind == Solution::Kind::One)
        return {Solution::Kind::Many};
      solution = {Solution::Kind::One, *at};
    }
    int64_t next;
    at = __builtin_add_overflow(*at, dim.multiple, &next) ? std::nullopt : std::optional<int64_t>(next);
  }
  return solution;
}

} // namespace

struct BindingSolver::Program {
  std::vector<std::string> names;
  std::vector<Dim> dims;
  std::vector<Slot> inputs, outputs;
  DimIndex dimIndex;
  NameIndex inputIndex, outputIndex;
  std::vector<Constraint> constraints;

  static Result<std::vector<Slot>> makeSlots(const std::vector<std::unique_ptr<data::TensorSpecT>> &specs,
                                             const char *what, const DimIndex &dims, NameIndex &index);

  //===--- numbers only -------------------------------------------------------===//

  /// The product of the axes under `sizes`. False where it is negative or bytes
  /// overflow; a zero makes the rest irrelevant.
  static bool count(const Slot &slot, std::span<const int64_t> sizes, int64_t &result) {
    int64_t product = 1;
    bool zero = false, overflow = false;
    for (const Axis &axis : slot.shape) {
      int64_t size = axis.value;
      if (axis.kind == Axis::Kind::Dim)
        size = sizes[axis.dim];
      else if (axis.kind == Axis::Kind::Other && axis.program.evaluate(sizes, size) != DimOutcome::Ok)
        return false;
      if (size < 0)
        return false;
      zero |= size == 0;
      overflow |= __builtin_mul_overflow(product, size, &product);
    }
    result = zero ? 0 : product;
    int64_t bytes;
    // A 16-bit float may be given or asked for as f32.
    bool widened = acceptsType(slot.type, data::ElementType::F32);
    int64_t width = widened ? 4 : elementBytes(slot.type);
    return zero || (!overflow && !__builtin_mul_overflow(product, width, &bytes));
  }

  /// Everything a complete binding must fulfil on its own, but for the inputs.
  bool sizesFit(std::span<const int64_t> sizes) const {
    for (size_t i = 0; i < dims.size(); ++i)
      if (sizes[i] < dims[i].min || sizes[i] > dims[i].max ||
          (dims[i].multiple != 1 && sizes[i] % dims[i].multiple != 0))
        return false;
    for (const Constraint &constraint : constraints) {
      bool holds = false;
      if (constraint.program.evaluate(sizes, holds) != DimOutcome::Ok || !holds)
        return false;
    }
    int64_t elements;
    for (const Slot &slot : outputs)
      if (!count(slot, sizes, elements))
        return false;
    return true;
  }

  static bool bytesFit(const Slot &slot, data::ElementType type, size_t bytes, std::span<const int64_t> sizes) {
    int64_t elements;
    return acceptsType(slot.type, type) && count(slot, sizes, elements) &&
           static_cast<uint64_t>(elements) * static_cast<uint64_t>(elementBytes(type)) == bytes;
  }

  /// The way of a hit: true with `sizes` filled when every dim is given or an
  /// axis by itself and everything is right. Otherwise solveAll() says more.
  bool solvePlain(std::span<const NamedTensor> given, std::span<const OutputBuffer> buffers, const Binding &binding,
                  std::span<int64_t> sizes) const {
    if (given.size() != inputs.size() || buffers.size() > outputs.size())
      return false;
    std::fill(sizes.begin(), sizes.end(), kUnknown);
    for (const auto &[name, size] : binding) {
      auto it = dimIndex.find(name);
      if (it == dimIndex.end() || size < 0)
        return false;
      sizes[it->second] = size;
    }
    // `position` is where it probably is.
    auto slotOf = [](size_t position, std::string_view name, const std::vector<Slot> &slots,
                     const NameIndex &index) -> const Slot * {
      if (slots[position].name == name)
        return &slots[position];
      auto it = index.find(name);
      return it == index.end() ? nullptr : &slots[it->second];
    };
    Bits seen(given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      const Slot *slot = slotOf(i, given[i].name, inputs, inputIndex);
      if (!slot || !seen.set(static_cast<size_t>(slot - inputs.data())))
        return false;
      const TensorView &tensor = given[i].tensor;
      if (tensor.isFlat)
        continue;
      if (tensor.shape.size() != slot->shape.size() || (!tensor.shape.empty() && !tensor.shape.data()))
        return false;
      for (size_t k = 0; k < tensor.shape.size(); ++k) {
        const Axis &axis = slot->shape[k];
        int64_t size = tensor.shape[k];
        if (size < 0 || (axis.kind == Axis::Kind::Fixed && size != axis.value))
          return false;
        if (axis.kind != Axis::Kind::Dim)
          continue;
        int64_t &known = sizes[axis.dim];
        if (known != kUnknown && known != size)
          return false;
        known = size;
      }
    }
    if (std::find(sizes.begin(), sizes.end(), kUnknown) != sizes.end() || !sizesFit(sizes))
      return false;
    // Everything is known: what was not used yet must agree.
    for (size_t i = 0; i < given.size(); ++i) {
      const Slot *slot = slotOf(i, given[i].name, inputs, inputIndex);
      const TensorView &tensor = given[i].tensor;
      if (!bytesFit(*slot, tensor.type, tensor.bytes, sizes))
        return false;
      for (size_t k = 0; !tensor.isFlat && k < tensor.shape.size(); ++k) {
        int64_t size;
        if (slot->shape[k].kind == Axis::Kind::Other &&
            (slot->shape[k].program.evaluate(sizes, size) != DimOutcome::Ok || size != tensor.shape[k]))
          return false;
      }
    }
    Bits seenBuffers(outputs.size());
    for (size_t i = 0; i < buffers.size(); ++i) {
      const Slot *slot = slotOf(i, buffers[i].name, outputs, outputIndex);
      if (!slot || !seenBuffers.set(static_cast<size_t>(slot - outputs.data())) ||
          !bytesFit(*slot, buffers[i].type, buffers[i].bytes, sizes))
        return false;
    }
    return true;
  }

  //===--- with reasons -------------------------------------------------------===//

  Status solveAll(std::span<const NamedTensor> given, std::span<const OutputBuffer> buffers, const Binding &binding,
                  std::span<int64_t> sizes) const;
  Status checkAll(std::span<const int64_t> sizes, std::span<const std::string> sources) const;

  Error unknownDim(const std::string &name) const {
    std::string text = "no dim is named '" + name + "'";
    for (size_t i = 0; i < names.size(); ++i)
      text += (i == 0 ? "; the dims are '" : ", '") + names[i] + "'";
    return argument(text);
  }
};

namespace {

/// The search behind an error message, or behind a binding that shapes alone do
/// not tell.
class Search {
public:
  Search(const std::vector<std::string> &names, const DimIndex &index, const std::vector<Dim> &dims,
         std::span<int64_t> sizes)
      : names(names), index(index), dims(dims), sizes(sizes), origins(dims.size()), sources(dims.size()) {
    std::fill(sizes.begin(), sizes.end(), kUnknown);
  }

  struct Equation {
    const Slot *slot;
    std::optional<size_t> axis; // else: the number of elements
    int64_t value;
    bool shapeKnown = false; // Count: each axis has an equation of its own
    bool done = false;       // every name in it is known, and it holds
  };
  std::vector<Equation> equations;

  /// `origin` completes "dim 'n': ...", `source` is shorter.
  Status assign(size_t dim, int64_t size, std::string origin, std::string source) {
    if (sizes[dim] == kUnknown) {
      sizes[dim] = size;
      origins[dim] = std::move(origin);
      sources[dim] = std::move(source);
      known.emplace(names[dim], DimExpr(size));
      changed = true;
      return {};
    }
    if (sizes[dim] == size)
      return {};
    return argument("dim '" + names[dim] + "': " + origins[dim] + ", " + origin);
  }

  Status run() {
    do {
      changed = false;
      for (Equation &equation : equations)
        if (!equation.done)
          if (Status s = equation.axis ? axis(equation) : count(equation); !s)
            return s;
    } while (changed);
    return {};
  }

  std::span<const std::string> sourcesOf() const { return sources; }

  /// Why something is still open.
  Status unsolved() const {
    size_t open = 0;
    while (open < sizes.size() && sizes[open] != kUnknown)
      ++open;
    if (open == sizes.size())
      return {};
    const std::string &name = names[open];
    const Equation *best = nullptr;
    std::set<std::string> others;
    for (const Equation &equation : equations) {
      std::set<std::string> unknown;
      for (size_t k = 0; k < equation.slot->shape.size(); ++k)
        if (!equation.axis || *equation.axis == k)
          equation.slot->shape[k].expr.substitute(known).collectNames(unknown);
      if (!unknown.contains(name) || equation.shapeKnown)
        continue;
      if (!best || unknown.size() < others.size()) {
        best = &equation;
        others = std::move(unknown);
      }
    }
    std::string fix = "; give its size explicitly";
    if (!best)
      return invalid(ErrorCode::Unsolvable, "dim '" + name + "' occurs in no input" + fix);
    std::string where = best->axis
                            ? best->slot->axisTitle(*best->axis) + " = " + best->slot->shape[*best->axis].expr.str() +
                                  " = " + std::to_string(best->value)
                            : best->slot->title() + " " + best->slot->text + " with " + elementsText(best->value);
    if (others.size() > 1) {
      std::string list;
      for (const std::string &other : others)
        list += (list.empty() ? "'" : ", '") + other + "'";
      return invalid(ErrorCode::Unsolvable,
                     where + " leaves more than one dim open: " + list + "; give shapes, or sizes explicitly");
    }
    return invalid(ErrorCode::Unsolvable, "dim '" + name + "': " + where + " does not determine it" + fix);
  }

private:
  /// "n=3, m=4" of the names in `e` that are known.
  std::string knownText(const DimExpr &e) const {
    std::string text;
    for (const std::string &name : knownNames(e))
      text += (text.empty() ? "" : ", ") + name + "=" + known.find(name)->second.str();
    return text;
  }

  size_t dimOf(const std::string &name) const { return index.find(name)->second; }

  /// The value of an expression without names.
  static Result<int64_t> valueOf(const DimExpr &e, const std::string &title) {
    Result<int64_t> value = e.evaluate({});
    if (!value)
      return Error{value.error().code, title + ": " + value.error().message};
    return value;
  }

  Status axis(Equation &equation) {
    const Axis &axis = equation.slot->shape[*equation.axis];
    std::string title = equation.slot->axisTitle(*equation.axis);
    std::string is = title + " is " + std::to_string(equation.value);
    if (axis.kind == Axis::Kind::Fixed)
      return axis.value == equation.value ? Status::ok()
                                          : Status(argument(is + ", must be " + std::to_string(axis.value)));
    if (axis.kind == Axis::Kind::Dim) {
      equation.done = true;
      return assign(axis.dim, equation.value, is, title);
    }
    DimExpr rest = axis.expr.substitute(known);
    std::set<std::string> open;
    rest.collectNames(open);
    if (open.size() > 1)
      return {};
    if (open.empty()) {
      Result<int64_t> value = valueOf(rest, title);
      if (!value)
        return value.takeError();
      equation.done = true;
      if (*value == equation.value)
        return {};
      std::string names = knownText(axis.expr);
      std::string from;
      for (const std::string &name : knownNames(axis.expr))
        from += (from.empty() ? "" : ", ") + origins[dimOf(name)];
      return argument(is + " but " + axis.expr.str() + " is " + std::to_string(*value) + " (" + names + ": " + from +
                      ")");
    }
    size_t dim = dimOf(*open.begin());
    Solution solution = solveOne(rest, equation.value, *open.begin(), dims[dim]);
    if (solution.kind == Solution::Kind::None || solution.kind == Solution::Kind::Excluded)
      return noSolution(dim, solution.kind, is, rest, equation.value);
    if (solution.kind == Solution::Kind::Many)
      return {};
    return assign(dim, solution.value,
                  title + " (" + axis.expr.str() + ") is " + std::to_string(equation.value) + " and gives " +
                      std::to_string(solution.value),
                  title);
  }

  Status noSolution(size_t dim, Solution::Kind kind, const std::string &is, const DimExpr &e, int64_t value) const {
    std::string text = "dim '" + names[dim] + "': " + is + ", but " + e.str() + " = " + std::to_string(value);
    if (kind == Solution::Kind::None)
      return invalid(ErrorCode::Unsolvable, text + " has no integer solution");
    const Dim &d = dims[dim];
    text += " has no solution of " + std::to_string(d.min) + " or more";
    if (d.max != INT64_MAX)
      text += " up to " + std::to_string(d.max);
    if (d.multiple != 1)
      text += " that is a multiple of " + std::to_string(d.multiple);
    return invalid(ErrorCode::Unsolvable, text);
  }

  static std::set<std::string> namesOf(const DimExpr &e) {
    std::set<std::string> result;
    e.collectNames(result);
    return result;
  }
  std::set<std::string> knownNames(const DimExpr &e) const {
    std::set<std::string> result = namesOf(e);
    std::erase_if(result, [&](const std::string &name) { return !known.contains(name); });
    return result;
  }

  Status count(Equation &equation) {
    const Slot &slot = *equation.slot;
    // Of a known shape every axis has been looked at.
    if (equation.shapeKnown)
      return {};
    std::string has = slot.title() + " has " + elementsText(equation.value);
    __int128 product = 1; // of the known axes, saturated
    constexpr __int128 big = static_cast<__int128>(1) << 64;
    DimExpr open(1);
    bool zero = false;
    std::set<std::string> used;
    for (size_t k = 0; k < slot.shape.size(); ++k) {
      const Axis &axis = slot.shape[k];
      DimExpr rest = axis.expr.substitute(known);
      std::set<std::string> unknown = namesOf(rest);
      if (!unknown.empty()) {
        open = open * rest;
        continue;
      }
      Result<int64_t> size = valueOf(rest, slot.axisTitle(k));
      if (!size)
        return size.takeError();
      if (*size < 0)
        return argument(slot.axisTitle(k) + " (" + axis.expr.str() + ") is " + std::to_string(*size) +
                        ": sizes cannot be negative");
      used.merge(knownNames(axis.expr));
      zero |= *size == 0;
      product = std::min<__int128>(product * *size, big);
    }
    std::string knownSizes, from;
    for (const std::string &name : used) {
      knownSizes += (knownSizes.empty() ? "" : ", ") + name + "=" + std::to_string(sizes[dimOf(name)]);
      from += (from.empty() ? "" : ", ") + origins[dimOf(name)];
    }
    std::string context = slot.text + (knownSizes.empty() ? "" : " (" + knownSizes + ": " + from + ")");
    if (zero) {
      if (equation.value == 0)
        return {}; // says nothing about the others
      return argument(has + ", but the product of the known dims of its shape " + context + " is zero");
    }
    std::set<std::string> unknown = namesOf(open);
    if (unknown.empty() && open.isConstant()) {
      equation.done = true;
      if (product == equation.value)
        return {};
      // One name in all: solve without what is known of it, for the message.
      if (used.size() == 1)
        if (Status s = conflict(slot, equation.value, *used.begin()); !s)
          return s;
      std::string needs = product == big ? "more than 64 bits can count"
                                         : std::to_string(static_cast<int64_t>(std::min<__int128>(product, INT64_MAX)));
      return argument(has + ", its shape " + context + " needs " + needs);
    }
    if (equation.value % product != 0) {
      std::string needs =
          product == big ? "more than 64 bits can count" : std::to_string(static_cast<uint64_t>(product));
      std::string text = has + ", not a multiple of " + needs + ": shape " + context;
      if (unknown.size() == 1)
        text = "dim '" + *unknown.begin() + "': " + text;
      return invalid(ErrorCode::Unsolvable, text);
    }
    if (unknown.size() != 1)
      return {};
    int64_t value = static_cast<int64_t>(equation.value / product);
    size_t dim = dimOf(*unknown.begin());
    Solution solution = solveOne(open, value, *unknown.begin(), dims[dim]);
    if (solution.kind == Solution::Kind::None || solution.kind == Solution::Kind::Excluded)
      return noSolution(dim, solution.kind, slot.title() + " " + context + " has " + elementsText(equation.value), open,
                        value);
    if (solution.kind == Solution::Kind::Many)
      return {};
    return assign(dim, solution.value,
                  slot.title() + " " + slot.text + " with " + elementsText(equation.value) + " gives " +
                      std::to_string(solution.value),
                  slot.title());
  }

  /// `slot` has one name, whose size does not fit: what would fit.
  Status conflict(const Slot &slot, int64_t elements, const std::string &name) const {
    DimExpr all(1);
    for (const Axis &axis : slot.shape)
      all = all * axis.expr;
    size_t dim = dimOf(name);
    if (all.isOverflow())
      return {};
    Solution solution = solveOne(all, elements, name, dims[dim]);
    if (solution.kind != Solution::Kind::One)
      return {};
    return argument("dim '" + name + "': " + origins[dim] + ", " + slot.title() + " " + slot.text + " with " +
                    elementsText(elements) + " gives " + std::to_string(solution.value));
  }

  const std::vector<std::string> &names;
  const DimIndex &index;
  const std::vector<Dim> &dims;
  std::span<int64_t> sizes;
  std::vector<std::string> origins, sources; // by dim
  std::map<std::string, DimExpr, std::less<>> known;
  bool changed = false;
};

} // namespace

Status BindingSolver::Program::solveAll(std::span<const NamedTensor> given, std::span<const OutputBuffer> buffers,
                                        const Binding &binding, std::span<int64_t> sizes) const {
  Search search(names, dimIndex, dims, sizes);
  for (const auto &[name, size] : binding) {
    auto it = dimIndex.find(name);
    if (it == dimIndex.end())
      return unknownDim(name);
    if (size < 0)
      return invalid(ErrorCode::OutOfRange,
                     "dim '" + name + "' is given as " + std::to_string(size) + ": sizes cannot be negative");
    if (Status s = search.assign(it->second, size, "given as " + std::to_string(size), "given"); !s)
      return s;
  }

  // Who is who.
  auto match = [](std::string_view name, const std::vector<Slot> &slots, const NameIndex &index,
                  std::vector<bool> &seen, const char *what) -> Result<const Slot *> {
    auto it = index.find(name);
    if (it == index.end()) {
      std::string text = std::string("no ") + what + " is named '" + std::string(name) + "'";
      for (size_t i = 0; i < slots.size(); ++i)
        text += (i == 0 ? std::string("; the ") + what + "s are '" : std::string(", '")) + slots[i].name + "'";
      return argument(text);
    }
    if (seen[it->second])
      return argument(std::string(what) + " '" + std::string(name) + "' is given twice");
    seen[it->second] = true;
    return &slots[it->second];
  };
  auto elements = [](const Slot &slot, data::ElementType type, size_t bytes) -> Result<int64_t> {
    if (!acceptsType(slot.type, type))
      return argument(slot.title() + " is " + elementTypeName(type) + ", must be " + elementTypeName(slot.type));
    auto width = static_cast<size_t>(elementBytes(type));
    if (bytes % width != 0)
      return argument(slot.title() + " has " + std::to_string(bytes) + " bytes, not a multiple of the " +
                      std::to_string(width) + " of an element of " + elementTypeName(type));
    if (bytes > static_cast<size_t>(INT64_MAX))
      return invalid(ErrorCode::OutOfRange, slot.title() + " has more bytes than 63 bits can count");
    return static_cast<int64_t>(bytes / width);
  };

  std::vector<bool> seen(inputs.size());
  std::vector<Search::Equation> counts;
  for (const NamedTensor &input : given) {
    Result<const Slot *> found = match(input.name, inputs, inputIndex, seen, "input");
    if (!found)
      return found.takeError();
    const Slot &slot = **found;
    const TensorView &tensor = input.tensor;
    if (!acceptsType(slot.type, tensor.type))
      return argument(slot.title() + " is " + elementTypeName(tensor.type) + ", must be " + elementTypeName(slot.type));
    if (!tensor.isFlat) {
      if (!tensor.shape.empty() && !tensor.shape.data())
        return argument(slot.title() + " has no shape, but a rank of " + std::to_string(tensor.shape.size()));
      if (tensor.shape.size() != slot.shape.size())
        return argument(slot.title() + " has shape " + shapeString(tensor.shape) + " of rank " +
                        std::to_string(tensor.shape.size()) + ", must have rank " + std::to_string(slot.shape.size()) +
                        ": " + slot.text);
      for (size_t k = 0; k < tensor.shape.size(); ++k) {
        if (tensor.shape[k] < 0)
          return invalid(ErrorCode::OutOfRange,
                         slot.axisTitle(k) + " is " + std::to_string(tensor.shape[k]) + ": sizes cannot be negative");
        search.equations.push_back({&slot, k, tensor.shape[k]});
      }
      auto wanted = elementCount(tensor.shape);
      int64_t bytes;
      if (!wanted || __builtin_mul_overflow(*wanted, elementBytes(tensor.type), &bytes))
        return invalid(ErrorCode::OutOfRange,
                       slot.title() + " has shape " + shapeString(tensor.shape) + ": more than 64 bits can count");
      if (static_cast<size_t>(bytes) != tensor.bytes)
        return argument(slot.title() + " of shape " + shapeString(tensor.shape) + " needs " + std::to_string(bytes) +
                        " bytes of " + elementTypeName(tensor.type) + ", has " + std::to_string(tensor.bytes));
    }
    Result<int64_t> number = elements(slot, tensor.type, tensor.bytes);
    if (!number)
      return number.takeError();
    counts.push_back({&slot, std::nullopt, *number, !tensor.isFlat});
  }
  std::string missing;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!seen[i])
      missing += (missing.empty() ? "'" : ", '") + inputs[i].name + "'";
  if (!missing.empty())
    return argument("missing input " + missing);
  seen.assign(outputs.size(), false);
  for (const OutputBuffer &buffer : buffers) {
    Result<const Slot *> found = match(buffer.name, outputs, outputIndex, seen, "output");
    if (!found)
      return found.takeError();
    Result<int64_t> number = elements(**found, buffer.type, buffer.bytes);
    if (!number)
      return number.takeError();
    counts.push_back({*found, std::nullopt, *number});
  }
  search.equations.insert(search.equations.end(), counts.begin(), counts.end());

  if (Status s = search.run(); !s)
    return s;
  if (Status s = search.unsolved(); !s)
    return s;
  return checkAll(sizes, search.sourcesOf());
}

Status BindingSolver::Program::checkAll(std::span<const int64_t> sizes, std::span<const std::string> sources) const {
  for (size_t i = 0; i < dims.size(); ++i) {
    std::string is = "dim '" + names[i] + "' is " + std::to_string(sizes[i]);
    std::string from = sources.empty() || sources[i].empty() ? "" : " (" + sources[i] + ")";
    if (sizes[i] < dims[i].min)
      return invalid(ErrorCode::OutOfRange, is + ", less than its minimum " + std::to_string(dims[i].min) + from);
    if (sizes[i] > dims[i].max)
      return invalid(ErrorCode::OutOfRange, is + ", more than its maximum " + std::to_string(dims[i].max) + from);
    if (sizes[i] % dims[i].multiple != 0)
      return invalid(ErrorCode::OutOfRange, is + ", not a multiple of " + std::to_string(dims[i].multiple) + from);
  }
  Binding binding;
  for (size_t i = 0; i < dims.size(); ++i)
    binding.emplace(names[i], sizes[i]);
  for (const Constraint &constraint : constraints) {
    Result<bool> holds = constraint.predicate.evaluate(binding);
    if (!holds)
      return Error{holds.error().code, "constraint '" + constraint.predicate.str() + "': " + holds.error().message};
    if (!*holds)
      return argument((constraint.message.empty() ? "" : constraint.message + ": ") +
                      describeFailure(constraint.predicate, binding));
  }
  for (const std::vector<Slot> *slots : {&inputs, &outputs})
    for (const Slot &slot : *slots) {
      std::vector<int64_t> shape;
      for (size_t k = 0; k < slot.shape.size(); ++k) {
        Result<int64_t> size = slot.shape[k].expr.evaluate(binding);
        if (!size)
          return Error{size.error().code, slot.axisTitle(k) + ": " + size.error().message};
        if (*size < 0)
          return argument(slot.axisTitle(k) + " (" + slot.shape[k].expr.str() + ") is " + std::to_string(*size) +
                          ": sizes cannot be negative");
        shape.push_back(*size);
      }
      int64_t elements;
      if (!count(slot, sizes, elements))
        return invalid(ErrorCode::OutOfRange, slot.title() + " " + slot.text + " would be " + shapeString(shape) +
                                                  ": more than 64 bits can count");
    }
  return {};
}

Result<std::vector<Slot>>
BindingSolver::Program::makeSlots(const std::vector<std::unique_ptr<data::TensorSpecT>> &specs, const char *what,
                                  const DimIndex &dims, NameIndex &index) {
  std::vector<Slot> slots;
  for (const auto &spec : specs) {
    if (!spec || elementBytes(spec->type) == 0)
      return invalid(ErrorCode::InvalidModel, std::string("an ") + what + " is not well formed");
    Slot slot{spec->name, spec->type, {}, "[", what};
    for (const std::string &text : spec->shape) {
      Axis axis;
      Result<DimExpr> expr = DimExpr::parse(text);
      if (!expr)
        return invalid(ErrorCode::InvalidModel, slot.axisTitle(slot.shape.size()) + ": " + expr.error().message);
      Result<DimProgram> program = DimProgram::compile(*expr, dims);
      if (!program)
        return invalid(ErrorCode::InvalidModel, slot.axisTitle(slot.shape.size()) + ": " + program.error().message);
      axis.expr = std::move(*expr);
      axis.program = std::move(*program);
      axis.kind = Axis::Kind::Other;
      if (auto value = axis.expr.constant()) {
        if (*value < 0)
          return invalid(ErrorCode::InvalidModel,
                         slot.axisTitle(slot.shape.size()) + " is " + text + ": sizes cannot be negative");
        axis.kind = Axis::Kind::Fixed;
        axis.value = *value;
      } else if (axis.expr.isSymbol()) {
        axis.kind = Axis::Kind::Dim;
        axis.dim = dims.find(axis.expr.name())->second;
      }
      slot.text += (slot.shape.empty() ? "" : ",") + axis.expr.str();
      slot.shape.push_back(std::move(axis));
    }
    slot.text += "]";
    slots.push_back(std::move(slot));
  }
  for (const Slot &slot : slots) // they stay where they are from here on
    if (!index.emplace(slot.name, static_cast<uint32_t>(&slot - slots.data())).second)
      return invalid(ErrorCode::InvalidModel, slot.title() + " is there twice");
  return slots;
}

BindingSolver::BindingSolver(std::unique_ptr<const Program> program) : program(std::move(program)) {}
BindingSolver::~BindingSolver() = default;
BindingSolver::BindingSolver(BindingSolver &&) noexcept = default;
BindingSolver &BindingSolver::operator=(BindingSolver &&) noexcept = default;

Result<BindingSolver> BindingSolver::create(const data::ModelSignatureT &signature) {
  auto program = std::make_unique<Program>();
  for (const auto &dim : signature.dims) {
    auto bad = [](std::string text) { return invalid(ErrorCode::InvalidModel, std::move(text)); };
    if (!dim || dim->name.empty())
      return bad("a dim has no name");
    if (dim->name.size() > DimExpr::kMaxNameBytes || std::any_of(dim->name.begin(), dim->name.end(), [](char c) {
          return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
        }))
      return bad("the name of a dim is too long or has control characters");
    if (program->names.size() == kMaxDims)
      return bad("more than " + std::to_string(kMaxDims) + " dims");
    if (dim->min < 0 || dim->min > dim->max || dim->multiple < 1)
      return bad("dim '" + dim->name + "' has no size in [" + std::to_string(dim->min) + ", " +
                 std::to_string(dim->max) + "] with multiple " + std::to_string(dim->multiple));
    if (!program->dimIndex.emplace(dim->name, static_cast<uint32_t>(program->names.size())).second)
      return bad("dim '" + dim->name + "' is there twice");
    program->names.push_back(dim->name);
    program->dims.push_back({dim->min, dim->max, dim->multiple});
  }
  auto inputs = Program::makeSlots(signature.inputs, "input", program->dimIndex, program->inputIndex);
  if (!inputs)
    return inputs.takeError();
  program->inputs = std::move(*inputs);
  auto outputs = Program::makeSlots(signature.outputs, "output", program->dimIndex, program->outputIndex);
  if (!outputs)
    return outputs.takeError();
  program->outputs = std::move(*outputs);
  for (const auto &constraint : signature.constraints) {
    auto bad = [](const std::string &text) { return invalid(ErrorCode::InvalidModel, "constraint: " + text); };
    if (!constraint || !constraint->predicate || constraint->predicate->kind < data::PredicateKind::MIN ||
        constraint->predicate->kind > data::PredicateKind::MAX)
      return bad("not well formed");
    Result<DimExpr> lhs = DimExpr::parse(constraint->predicate->lhs), rhs = DimExpr::parse(constraint->predicate->rhs);
    if (!lhs || !rhs)
      return bad((lhs ? rhs : lhs).error().message);
    DimPredicate predicate{static_cast<DimPredicate::Kind>(constraint->predicate->kind), std::move(*lhs),
                           std::move(*rhs)};
    Result<PredicateProgram> compiled = PredicateProgram::compile(predicate, program->dimIndex);
    if (!compiled)
      return bad(compiled.error().message);
    program->constraints.push_back({std::move(predicate), std::move(*compiled), constraint->message});
  }
  return BindingSolver(std::move(program));
}

const std::vector<std::string> &BindingSolver::dims() const { return program->names; }

Status BindingSolver::solve(std::span<const NamedTensor> inputs, std::span<const OutputBuffer> outputs,
                            const Binding &given, std::span<int64_t> sizes) const {
  assert(sizes.size() == program->names.size());
  if (program->solvePlain(inputs, outputs, given, sizes))
    return {};
  return program->solveAll(inputs, outputs, given, sizes);
}

Result<Binding> BindingSolver::solve(std::span<const NamedTensor> inputs, const Binding &given,
                                     std::span<const OutputBuffer> outputs) const {
  std::vector<int64_t> sizes(program->names.size());
  if (Status s = solve(inputs, outputs, given, sizes); !s)
    return s.takeError();
  return binding(sizes);
}

Status BindingSolver::check(const Binding &binding, std::span<int64_t> sizes) const {
  assert(sizes.size() == program->names.size());
  for (const auto &[name, size] : binding)
    if (!program->dimIndex.contains(name))
      return program->unknownDim(name);
  for (size_t i = 0; i < sizes.size(); ++i) {
    auto it = binding.find(program->names[i]);
    if (it == binding.end())
      return invalid(ErrorCode::Unsolvable, "dim '" + program->names[i] + "' has no size; give it explicitly");
    sizes[i] = it->second;
  }
  return program->checkAll(sizes, {});
}

Status BindingSolver::check(std::span<const int64_t> sizes) const {
  assert(sizes.size() == program->names.size());
  return program->checkAll(sizes, {});
}

Binding BindingSolver::binding(std::span<const int64_t> sizes) const {
  Binding result;
  for (size_t i = 0; i < sizes.size(); ++i)
    result.emplace(program->names[i], sizes[i]);
  return result;
}
