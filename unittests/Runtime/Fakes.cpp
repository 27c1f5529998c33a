//===- Fakes.cpp - kernels in C++ -----------------------------------------===//
#include "Fakes.h"

#include "Convert.h"
#include "rlx/Data/KernelABI.h"

#include <algorithm>

using namespace rlx;
using namespace rlx::fakes;
using data::Family;
using data::Opcode;

namespace {
/// A Loops kernel of rank E over `Inputs` direct inputs and one direct output.
/// `Body(values, error, position)` computes an element.
template <int E, int Inputs, typename T, typename Body>
void loops(void *const *pointers, const int64_t *integers, int64_t begin, int64_t end, ErrorWord *error) {
  const int64_t *extent = integers;
  auto stride = [&](int operand, int loop) { return integers[E + operand * E + loop]; };
  int64_t inner = extent[E - 1];
  int64_t first = E == 1 ? begin * kLoopsBlock : begin, last = E == 1 ? std::min(end * kLoopsBlock, inner) : end;
  auto element = [&](int64_t row, int64_t column) {
    int64_t offsets[Inputs + 1];
    for (int operand = 0; operand <= Inputs; ++operand) {
      int64_t rest = row;
      offsets[operand] = column * stride(operand, E - 1);
      for (int loop = E - 2; loop >= 0; --loop) {
        offsets[operand] += rest % extent[loop] * stride(operand, loop);
        rest /= extent[loop];
      }
    }
    T values[Inputs];
    for (int operand = 0; operand < Inputs; ++operand)
      values[operand] = static_cast<const T *>(pointers[operand])[offsets[operand]];
    static_cast<T *>(pointers[Inputs])[offsets[Inputs]] = Body()(values, error, row * inner + column);
  };
  if (E == 1) {
    for (int64_t i = first; i < last; ++i)
      element(0, i);
    return;
  }
  for (int64_t row = first; row < last; ++row)
    for (int64_t i = 0; i < inner; ++i)
      element(row, i);
}

template <typename T> struct AddBody {
  T operator()(const T *v, ErrorWord *, int64_t) const { return v[0] + v[1]; }
};
template <typename T> struct MulBody {
  T operator()(const T *v, ErrorWord *, int64_t) const { return v[0] * v[1]; }
};
struct DivBody {
  int32_t operator()(const int32_t *v, ErrorWord *error, int64_t position) const {
    if (v[1] == 0) {
      if (error->kind == ErrorKind::None)
        *error = {ErrorKind::DivisionByZero, 0, position, 0, 0};
      return 0;
    }
    return v[0] / v[1];
  }
};
struct AddF16Body {
  uint16_t operator()(const uint16_t *v, ErrorWord *, int64_t) const {
    return f32ToF16(f16ToF32(v[0]) + f16ToF32(v[1]));
  }
};
struct AddBf16Body {
  uint16_t operator()(const uint16_t *v, ErrorWord *, int64_t) const {
    return f32ToBf16(bf16ToF32(v[0]) + bf16ToF32(v[1]));
  }
};
template <typename T> struct CopyBody {
  T operator()(const T *v, ErrorWord *, int64_t) const { return v[0]; }
};
template <typename T> struct ReluBody {
  T operator()(const T *v, ErrorWord *, int64_t) const { return std::max(v[0], T(0)); }
};

template <int Inputs, typename T, typename Body> KernelFn loopsOf(int rank) {
  switch (rank) {
  case 1:
    return loops<1, Inputs, T, Body>;
  case 2:
    return loops<2, Inputs, T, Body>;
  case 3:
    return loops<3, Inputs, T, Body>;
  }
  return nullptr;
}

/// f32 products without an epilogue. Strided b goes through scratch, as in kernels.
template <int Bt, bool Packed>
void matmul(void *const *pointers, const int64_t *integers, int64_t begin, int64_t end, ErrorWord *) {
  const int64_t *at = integers;
  const int64_t *batch = at;
  at += Bt;
  int64_t m = *at++, n = *at++, k = *at++;
  const int64_t *a = at; // batch..., m, k
  at += Bt + 2;
  const int64_t *b = at; // batch..., k, n
  at += Bt + 2;
  const int64_t *out = at; // batch..., m, n
  int64_t panels = (n + kPanel - 1) / kPanel;
  for (int64_t tile = begin; tile < end; ++tile) {
    int64_t panel = tile % panels, rest = tile / panels, aAt = 0, bAt = 0, outAt = 0;
    for (int i = Bt - 1; i >= 0; --i) {
      aAt += rest % batch[i] * a[i];
      bAt += rest % batch[i] * b[i];
      outAt += rest % batch[i] * out[i];
      rest /= batch[i];
    }
    int64_t columns = std::min(n, (panel + 1) * kPanel);
    auto *scratch = static_cast<float *>(pointers[3]);
    for (int64_t i = 0; !Packed && i < k; ++i)
      for (int64_t column = panel * kPanel; column < columns; ++column)
        scratch[i * kPanel + column % kPanel] =
            static_cast<const float *>(pointers[1])[bAt + i * b[Bt] + column * b[Bt + 1]];
    const float *packed = Packed ? static_cast<const float *>(pointers[1]) + panel * k * kPanel : scratch;
    for (int64_t row = 0; row < m; ++row)
      for (int64_t column = panel * kPanel; column < columns; ++column) {
        float sum = 0;
        for (int64_t i = 0; i < k; ++i) {
          float left = static_cast<const float *>(pointers[0])[aAt + row * a[Bt] + i * a[Bt + 1]];
          float right = packed[i * kPanel + column % kPanel];
          sum += left * right;
        }
        static_cast<float *>(pointers[2])[outAt + row * out[Bt] + column * out[Bt + 1]] = sum;
      }
  }
}

template <int E> void cumsum(void *const *pointers, const int64_t *integers, int64_t begin, int64_t end, ErrorWord *) {
  const int64_t *extent = integers, *x = integers + E + 1, *out = x + E + 1;
  for (int64_t row = begin; row < end; ++row) {
    int64_t rest = row, xAt = 0, outAt = 0;
    for (int i = E - 1; i >= 0; --i) {
      xAt += rest % extent[i] * x[i];
      outAt += rest % extent[i] * out[i];
      rest /= extent[i];
    }
    float sum = 0;
    for (int64_t i = 0; i < extent[E]; ++i) {
      sum += static_cast<const float *>(pointers[0])[xAt + i * x[E]];
      static_cast<float *>(pointers[1])[outAt + i * out[E]] = sum;
    }
  }
}

KernelFn pick(const data::KernelSpecT &spec) {
  int rank = spec.rank;
  if (spec.family == Family::Scan)
    return rank == 1 ? cumsum<1> : rank == 2 ? cumsum<2> : nullptr;
  if (spec.family == Family::Matmul) {
    bool packed = spec.b_layout == data::PackedLayout::Panels16;
    if (spec.batch_rank == 0)
      return packed ? matmul<0, true> : matmul<0, false>;
    return spec.batch_rank == 1 ? (packed ? matmul<1, true> : matmul<1, false>) : nullptr;
  }
  if (spec.family != Family::Loops || spec.outputs.size() != 1)
    return nullptr;
  ElementType type = spec.outputs[0]->type;
  if (spec.program.empty()) {
    if (type == ElementType::U64)
      return loopsOf<1, uint64_t, CopyBody<uint64_t>>(rank);
    return type == ElementType::F32  ? loopsOf<1, float, CopyBody<float>>(rank)
           : type == ElementType::I1 ? loopsOf<1, uint8_t, CopyBody<uint8_t>>(rank)
                                     : nullptr;
  }
  switch (spec.program[0].op()) {
  case Opcode::Add:
    if (type == ElementType::F16)
      return loopsOf<2, uint16_t, AddF16Body>(rank);
    if (type == ElementType::BF16)
      return loopsOf<2, uint16_t, AddBf16Body>(rank);
    return type == ElementType::F32 ? loopsOf<2, float, AddBody<float>>(rank) : nullptr;
  case Opcode::Mul:
    return type == ElementType::F32 ? loopsOf<2, float, MulBody<float>>(rank) : nullptr;
  case Opcode::Max:
    return type == ElementType::F32 ? loopsOf<1, float, ReluBody<float>>(rank) : nullptr;
  case Opcode::Div:
    return type == ElementType::I32 ? loopsOf<2, int32_t, DivBody>(rank) : nullptr;
  default:
    return nullptr;
  }
}
} // namespace

Result<std::vector<LoadedKernel>> FakeLoader::load(std::span<const data::KernelImageT> images) {
  std::vector<LoadedKernel> kernels;
  for (const data::KernelImageT &image : images) {
    Result<data::KernelSpecT> spec = deserializeSpec(image.spec);
    if (!spec)
      return spec.takeError();
    KernelFn function = pick(*spec);
    if (!function)
      return Error{ErrorCode::Unsupported, "no fake kernel for this spec"};
    kernels.push_back({function, nullptr});
  }
  return kernels;
}
