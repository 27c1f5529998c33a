//===- Packing.cpp - weights in the order that kernels read them ----------===//
//
// A panel is 16 columns: [ceil(n/16)][k][16], zero padded. Packing is a matter of
// bandwidth: rows of columns that lie side by side are copied as such, rows of k
// that lie side by side are transposed in vectors of 16 bytes.
//
//===----------------------------------------------------------------------===//
#include "Packing.h"

#include "CheckedMath.h"
#include "rlx/Data/KernelABI.h"
#include "rlx/Runtime/Tensor.h"
#include "rlx/Runtime/ThreadPool.h"

#include <algorithm>
#include <cstring>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

using namespace rlx;

namespace {

/// Pieces for threads are about this long.
constexpr int64_t kPieceBytes = 256 << 10;
/// Rows of k that a panel takes before the next panel has its turn: as many streams are read at once.
constexpr int64_t kRowsAtOnce = 16;

/// Every offset + i * kStride + j * nStride lies in [0, elements).
bool panelsInside(const WeightLayout &layout, int64_t elements) {
  if (layout.k == 0 || layout.n == 0)
    return true;
  int64_t low = layout.offset, high = layout.offset;
  for (auto [extent, stride] : {std::pair(layout.k, layout.kStride), std::pair(layout.n, layout.nStride)}) {
    int64_t reach;
    int64_t &end = stride < 0 ? low : high;
    if (!checkedMul(extent - 1, stride, reach) || !checkedAdd(end, reach, end))
      return false;
  }
  return low >= 0 && high < elements;
}

#if defined(__SSE2__)
/// Interleaves the low (high) halves of a and b, element by element of S bytes.
template <int64_t S> void interleave(__m128i a, __m128i b, __m128i &low, __m128i &high) {
  if constexpr (S == 1) {
    low = _mm_unpacklo_epi8(a, b);
    high = _mm_unpackhi_epi8(a, b);
  } else if constexpr (S == 2) {
    low = _mm_unpacklo_epi16(a, b);
    high = _mm_unpackhi_epi16(a, b);
  } else if constexpr (S == 4) {
    low = _mm_unpacklo_epi32(a, b);
    high = _mm_unpackhi_epi32(a, b);
  } else {
    low = _mm_unpacklo_epi64(a, b);
    high = _mm_unpackhi_epi64(a, b);
  }
}

/// A square of 16 bytes by 16 / S rows: out row r, column c is in row c, column r. Strides in bytes.
template <int64_t S> void transposeSquare(const std::byte *in, int64_t inStride, std::byte *out, int64_t outStride) {
  constexpr int64_t N = 16 / S;
  __m128i rows[N], next[N];
  for (int64_t i = 0; i != N; ++i)
    rows[i] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(in + i * inStride));
  // Interleaving rows that are half the square apart, log2(N) times, transposes it.
  for (int64_t stage = 1; stage != N; stage *= 2) {
    for (int64_t i = 0; i != N / 2; ++i)
      interleave<S>(rows[i], rows[i + N / 2], next[2 * i], next[2 * i + 1]);
    std::copy(next, next + N, rows);
  }
  for (int64_t i = 0; i != N; ++i)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i * outStride), rows[i]);
}
#endif

/// Panels [first, last) for elements of S bytes.
template <int64_t S>
void packPanels(const std::byte *row, const WeightLayout &layout, std::byte *out, int64_t first, int64_t last) {
  constexpr int64_t kLine = kPanel * S;
  // A stride that is never applied may be any number.
  const int64_t kStride = layout.k > 1 ? layout.kStride * S : 0, nStride = layout.n > 1 ? layout.nStride * S : 0;
  auto at = [&](int64_t k, int64_t n) { return row + layout.offset * S + k * kStride + n * nStride; };
  auto to = [&](int64_t panel, int64_t k) { return out + (panel * layout.k + k) * kLine; };
  auto gather = [&](int64_t panel, int64_t kBegin, int64_t kEnd) {
    int64_t columns = std::min<int64_t>(kPanel, layout.n - panel * kPanel);
    for (int64_t k = kBegin; k != kEnd; ++k) {
      const std::byte *from = at(k, panel * kPanel);
      std::byte *line = to(panel, k);
      for (int64_t column = 0; column != columns; ++column)
        std::memcpy(line + column * S, from + column * nStride, S);
      std::memset(line + columns * S, 0, static_cast<size_t>((kPanel - columns) * S));
    }
  };
  const int64_t full = std::min(last, layout.n / kPanel);

  if (layout.nStride == 1) {
    for (int64_t k = 0; k < layout.k; k += kRowsAtOnce) {
      int64_t kEnd = std::min(k + kRowsAtOnce, layout.k);
      for (int64_t panel = first; panel < full; ++panel)
        for (int64_t i = k; i != kEnd; ++i)
          std::memcpy(to(panel, i), at(i, panel * kPanel), kLine);
    }
  } else {
    int64_t packed = 0; // rows of k that are done
#if defined(__SSE2__)
    if (layout.kStride == 1) {
      constexpr int64_t N = 16 / S;
      packed = layout.k - layout.k % N;
      for (int64_t panel = first; panel < full; ++panel)
        for (int64_t k = 0; k != packed; k += N)
          for (int64_t column = 0; column != kPanel; column += N)
            transposeSquare<S>(at(k, panel * kPanel + column), nStride, to(panel, k) + column * S, kLine);
    }
#endif
    for (int64_t panel = first; panel < full; ++panel)
      gather(panel, packed, layout.k);
  }
  for (int64_t panel = std::max(first, full); panel < last; ++panel)
    gather(panel, 0, layout.k);
}

/// Calls body(begin, end) for pieces of [0, count).
void inPieces(ThreadPool *pool, int64_t count, int64_t bytesOfOne,
              const std::function<void(int64_t begin, int64_t end)> &body) {
  int64_t each = std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(1, bytesOfOne));
  int64_t pieces = count ? (count - 1) / each + 1 : 0;
  if (!pool || pool->threads() == 1 || pieces < 2)
    return body(0, count);
  parallelFor(*pool, static_cast<size_t>(pieces), [&](size_t i) {
    auto begin = static_cast<int64_t>(i) * each;
    body(begin, std::min(begin + each, count));
  });
}

} // namespace

Result<size_t> rlx::packedSize(data::ElementType type, int64_t elements, const WeightLayout &layout) {
  auto size = static_cast<int64_t>(elementSize(type));
  int64_t bytes = 0;
  if (layout.layout == data::PackedLayout::Strided) {
    if (!checkedMul(elements, size, bytes))
      return Error{ErrorCode::OutOfRange, "its size overflows"};
  } else if (layout.layout == data::PackedLayout::Panels16) {
    if (layout.k < 0 || layout.n < 0 || !panelsInside(layout, elements))
      return Error{ErrorCode::InvalidModel, "panels of " + std::to_string(layout.k) + " x " + std::to_string(layout.n) +
                                                " do not lie inside its " + std::to_string(elements) + " elements"};
    int64_t panels = layout.n / kPanel + (layout.n % kPanel != 0);
    if (!checkedMul(panels, layout.k, bytes) || !checkedMul(bytes, kPanel * size, bytes))
      return Error{ErrorCode::OutOfRange, "its packed size overflows"};
  } else {
    return Error{ErrorCode::InvalidModel, "it is asked for in an unknown layout"};
  }
  return static_cast<size_t>(bytes);
}

void rlx::packInto(data::ElementType type, int64_t elements, const std::byte *row, const WeightLayout &layout,
                   std::byte *out, ThreadPool *pool) {
  auto size = static_cast<int64_t>(elementSize(type));
  if (layout.layout == data::PackedLayout::Strided) {
    inPieces(pool, elements, size, [&](int64_t begin, int64_t end) {
      if (begin != end)
        std::memcpy(out + begin * size, row + begin * size, static_cast<size_t>((end - begin) * size));
    });
    return;
  }
  if (layout.k == 0)
    return;
  int64_t panels = layout.n / kPanel + (layout.n % kPanel != 0);
  inPieces(pool, panels, layout.k * kPanel * size, [&](int64_t begin, int64_t end) {
    switch (size) {
    case 1:
      return packPanels<1>(row, layout, out, begin, end);
    case 2:
      return packPanels<2>(row, layout, out, begin, end);
    case 4:
      return packPanels<4>(row, layout, out, begin, end);
    default:
      return packPanels<8>(row, layout, out, begin, end);
    }
  });
}
