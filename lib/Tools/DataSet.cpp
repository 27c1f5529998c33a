//===- DataSet.cpp - inputs and expected outputs of a run -----------------===//
#include "rlx/Tools/DataSet.h"

#include "rlx/Data/ElementType.h"
#include "rlx/Runtime/Model.h"
#include "rlx/Tools/Files.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <unistd.h>

namespace rlx::tools {

namespace fs = std::filesystem;
using data::ElementType;

namespace {

Error invalid(std::string message) { return Error{ErrorCode::InvalidArgument, std::move(message)}; }

/// N of "<prefix>N<suffix>", when `text` has that form.
std::optional<size_t> numberBetween(std::string_view text, std::string_view prefix, std::string_view suffix) {
  if (!text.starts_with(prefix) || !text.ends_with(suffix) || text.size() <= prefix.size() + suffix.size())
    return std::nullopt;
  text = text.substr(prefix.size(), text.size() - prefix.size() - suffix.size());
  size_t number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

std::string stemOf(std::string name) {
  std::ranges::replace(name, '/', '_');
  return name;
}

bool isTensorFile(std::string_view name) { return name.ends_with(".npy") || name.ends_with(".pb"); }

/// The tensor files of a folder, sorted by name.
Result<std::vector<std::string>> tensorFiles(const std::string &folder) {
  std::error_code failure;
  std::vector<std::string> names;
  fs::directory_iterator it(folder, failure), end;
  for (; !failure && it != end; it.increment(failure))
    if (std::string name = it->path().filename().string(); isTensorFile(name))
      names.push_back(std::move(name));
  if (failure)
    return Error{ErrorCode::Io, fmt::format("cannot read the folder '{}': {}", folder, failure.message())};
  std::ranges::sort(names);
  return names;
}

/// Reads a tensor that stands for `spec`. ONNX's test data up to 1.12 holds bf16 values as their bits in a u16 tensor,
/// cut off instead of rounded and with other shapes than declared: such a file is no reference.
Result<Tensor> readTensorFor(const data::TensorSpecT &spec, const std::string &path) {
  Result<Tensor> tensor = readTensor(path);
  if (tensor && spec.type == ElementType::BF16 && tensor->type() == ElementType::U16 && path.ends_with(".pb"))
    return Error{ErrorCode::Unsupported,
                 fmt::format("'{}': it holds bf16 values as u16, as ONNX's files up to 1.12 do", path)};
  return tensor;
}

} // namespace

Status DataSet::add(std::string name, Tensor tensor) {
  if (has(name))
    return invalid(fmt::format("input '{}' is given twice", name));
  tensors.emplace_back(std::move(name), std::move(tensor));
  return Status::ok();
}

bool DataSet::has(std::string_view name) const {
  return std::ranges::any_of(tensors, [&](const auto &entry) { return entry.first == name; });
}

std::vector<NamedTensor> DataSet::view() const {
  std::vector<NamedTensor> result;
  for (const auto &[name, tensor] : tensors)
    result.push_back(NamedTensor{name, tensor.view()});
  return result;
}

Result<std::pair<std::string, std::string>> splitAssignment(const std::string &text,
                                                            const std::vector<std::string> &names) {
  size_t at = text.find('=');
  for (size_t split = at; split != std::string::npos; split = text.find('=', split + 1))
    if (std::ranges::find(names, text.substr(0, split)) != names.end()) {
      at = split;
      break;
    }
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    return invalid(fmt::format("'{}': expected name=value", text));
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

Status readInputFolder(const std::string &folder, const Model &model, DataSet &data) {
  Result<std::vector<std::string>> files = tensorFiles(folder);
  if (!files)
    return files.takeError();
  const auto &inputs = model.signature().inputs;
  for (const std::string &file : *files) {
    std::string stem = file.substr(0, file.rfind('.'));
    const data::TensorSpecT *spec = nullptr;
    // ONNX's own numbering comes first: a graph may well call its second input "input_0".
    if (std::optional<size_t> number = numberBetween(file, "input_", ".pb"); number && *number < inputs.size())
      spec = inputs[*number].get();
    else if (numberBetween(file, "output_", ".pb"))
      continue;
    for (size_t i = 0; i < inputs.size() && !spec; ++i)
      if (stem == stemOf(inputs[i]->name))
        spec = inputs[i].get();
    if (!spec)
      return invalid(fmt::format("'{}/{}' belongs to no input of the model", folder, file));
    Result<Tensor> tensor = readTensorFor(*spec, folder + "/" + file);
    if (!tensor)
      return tensor.takeError();
    if (Status status = data.add(spec->name, *std::move(tensor)); !status)
      return Error{status.error().code, fmt::format("'{}': {}", folder, status.error().message)};
  }
  return Status::ok();
}

Result<std::vector<Tensor>> readExpectedFolder(const std::string &folder, const Model &model) {
  Result<std::vector<std::string>> files = tensorFiles(folder);
  if (!files)
    return files.takeError();
  std::vector<Tensor> expected;
  for (size_t i = 0; i < model.signature().outputs.size(); ++i) {
    const data::TensorSpecT &spec = *model.signature().outputs[i];
    std::string stem = stemOf(spec.name);
    std::optional<std::string> file;
    for (const std::string &candidate :
         {fmt::format("{}.npy", i), fmt::format("output_{}.pb", i), stem + ".npy", stem + ".pb"})
      if (!file && std::ranges::binary_search(*files, candidate))
        file = candidate;
    if (!file)
      return invalid(
          fmt::format("'{0}' has no file for output '{1}' (looked for {2}.npy, output_{2}.pb, {3}.npy, {3}.pb)", folder,
                      spec.name, i, stem));
    Result<Tensor> tensor = readTensorFor(spec, folder + "/" + *file);
    if (!tensor)
      return tensor.takeError();
    expected.push_back(*std::move(tensor));
  }
  return expected;
}

namespace {

/// SplitMix64: a full-period 64-bit generator whose state may start anywhere.
struct Generator {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
};

/// FNV-1a, so that an input's values do not depend on the other inputs.
uint64_t hashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

/// Largest value of an integer type, capped at int64's.
int64_t largestOf(ElementType type) {
  int64_t bits = elementBytes(type) * 8 - (isUnsignedType(type) ? 0 : 1);
  return bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t(1) << bits) - 1;
}

template <typename T> void fillIntegers(Tensor &tensor, Generator &generator, int64_t limit) {
  for (T &value : tensor.as<T>())
    value = static_cast<T>(generator.next() % static_cast<uint64_t>(limit));
}

void fillRandom(Tensor &tensor, Generator generator, int64_t limit) {
  // 24 bits: every value is exact in f32, and in [-1, 1).
  auto real = [&] { return static_cast<float>(generator.next() >> 40) * 0x1p-23f - 1.0f; };
  switch (tensor.type()) {
  case ElementType::F32:
    for (float &value : tensor.as<float>())
      value = real();
    break;
  case ElementType::F64:
    for (double &value : tensor.as<double>())
      value = real();
    break;
  case ElementType::BF16:
    // The upper half of an f32: rounds towards zero, which is a bf16 value all the same.
    for (uint16_t &value : tensor.as<uint16_t>()) {
      float wide = real();
      uint32_t bits;
      std::memcpy(&bits, &wide, 4);
      value = static_cast<uint16_t>(bits >> 16);
    }
    break;
  case ElementType::F16:
    // Sign, exponent -1 (values 0.5 to 1), ten bits of mantissa: uniform in (-1, -0.5] and [0.5, 1).
    for (uint16_t &value : tensor.as<uint16_t>()) {
      uint64_t bits = generator.next();
      value = static_cast<uint16_t>((bits & 0x8000) | 0x3800 | (bits & 0x3ff));
    }
    break;
  case ElementType::I1:
    fillIntegers<uint8_t>(tensor, generator, 2);
    break;
  default:
    switch (elementSize(tensor.type())) {
    case 1:
      fillIntegers<uint8_t>(tensor, generator, limit);
      break;
    case 2:
      fillIntegers<uint16_t>(tensor, generator, limit);
      break;
    case 4:
      fillIntegers<uint32_t>(tensor, generator, limit);
      break;
    default:
      fillIntegers<uint64_t>(tensor, generator, limit);
    }
  }
}

} // namespace

Status addRandomInputs(const Model &model, const Binding &sizes, const RandomOptions &options, DataSet &data) {
  for (const auto &dim : model.signature().dims) {
    auto size = sizes.find(dim->name);
    if (size == sizes.end())
      continue;
    std::string what;
    if (size->second < dim->min)
      what = fmt::format("below its minimum {}", dim->min);
    else if (size->second > dim->max)
      what = fmt::format("above its maximum {}", dim->max);
    else if (size->second % dim->multiple != 0)
      what = fmt::format("not a multiple of {}", dim->multiple);
    if (!what.empty())
      return Error{ErrorCode::OutOfRange, fmt::format("dim '{}': size {} is {}", dim->name, size->second, what)};
  }
  // All shapes before the first tensor: what cannot be held is said before any of it is made.
  std::vector<std::pair<const data::TensorSpecT *, std::vector<int64_t>>> wanted;
  int64_t total = 0;
  for (size_t i = 0; i < model.signature().inputs.size(); ++i) {
    const data::TensorSpecT &input = *model.signature().inputs[i];
    if (data.has(input.name))
      continue;
    std::vector<int64_t> shape;
    for (const DimExpr &expr : model.inputShapes()[i]) {
      Result<int64_t> size = expr.evaluate(sizes);
      if (!size)
        return Error{size.error().code, fmt::format("random input '{}' axis {} is {}: {} (give it with --dim)",
                                                    input.name, shape.size(), expr.str(), size.error().message)};
      shape.push_back(*size);
    }
    std::optional<int64_t> count = elementCount(shape);
    int64_t bytes = 0;
    if (!count || __builtin_mul_overflow(*count, static_cast<int64_t>(elementSize(input.type)), &bytes) ||
        __builtin_add_overflow(total, bytes, &total) || total / sysconf(_SC_PAGESIZE) > sysconf(_SC_PHYS_PAGES))
      return Error{ErrorCode::OutOfRange,
                   fmt::format("random input '{}' of shape {} is larger than this machine's memory{}", input.name,
                               shapeString(shape), wanted.empty() ? "" : ", with those before it")};
    if (isIntegerType(input.type) && options.integerLimit - 1 > largestOf(input.type))
      return Error{ErrorCode::OutOfRange, fmt::format("--random-max {} does not fit input '{}' of type {}",
                                                      options.integerLimit, input.name, elementTypeName(input.type))};
    wanted.emplace_back(&input, std::move(shape));
  }
  // With every size given, what they must fulfil together is known too, before anything large is filled.
  if (std::ranges::all_of(model.signature().dims, [&](const auto &dim) { return sizes.contains(dim->name); })) {
    std::vector<int64_t> order(model.signature().dims.size());
    if (Status status = model.solver().check(sizes, order); !status)
      return status;
  }
  for (auto &[input, shape] : wanted) {
    Result<Tensor> tensor = Tensor::allocate(input->type, std::move(shape));
    if (!tensor)
      return tensor.takeError();
    fillRandom(*tensor, Generator{options.seed ^ hashOf(input->name)}, options.integerLimit);
    if (Status status = data.add(input->name, *std::move(tensor)); !status)
      return status;
  }
  return Status::ok();
}

} // namespace rlx::tools
