//===- RandomCalls.h - graphs that nobody would write -----------*- C++ -*-===//
#ifndef RLX_UNITTESTS_IMPORT_RANDOMCALLS_H
#define RLX_UNITTESTS_IMPORT_RANDOMCALLS_H

#include "rlx/Import/GraphBuilder.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace rlx::test {

/// Calls of every kind with arguments of every kind; gives the values that came of them. Each of the `bad` others has
/// an error that is the caller's. Dims are N and M; inputs come first.
inline std::vector<GraphValue> callRandomly(GraphBuilder &b, std::mt19937 &random, int calls, size_t &bad) {
  using data::ElementType;
  constexpr ElementType F32 = ElementType::F32, I64 = ElementType::I64;
  auto pick = [&](auto... choices) {
    std::common_type_t<decltype(choices)...> list[] = {choices...};
    return list[random() % std::size(list)];
  };
  GraphBuilder stranger;
  (void)stranger.dim("N");
  (void)b.dim("N");
  (void)b.dim("M");
  const char *sizes[] = {"N",
                         "M",
                         "1",
                         "2",
                         "3",
                         "0",
                         "-1",
                         "N + M",
                         "2*N",
                         "N - 1",
                         "K",
                         "",
                         "N +",
                         "64",
                         "4096",
                         "N*N*N*N*N*N",
                         "floordiv(N, 2)",
                         "floordiv(N, 0)",
                         "9223372036854775807",
                         "-9223372036854775808"};
  auto shape = [&] {
    GraphShape made;
    for (size_t rank = random() % 4 + (random() % 50 ? 0 : 40); made.dims.size() < rank;)
      made.dims.emplace_back(sizes[random() % (random() % 4 ? 5 : std::size(sizes))]);
    return made;
  };
  auto type = [&] { return static_cast<ElementType>(random() % (random() % 20 ? 13 : 16)); };
  auto axis = [&] { return static_cast<int64_t>(pick(0, 0, 1, 1, 2, -1, -2, 3, -7, 40)); };
  auto axes = [&] {
    std::vector<int64_t> made;
    for (size_t count = random() % 4; made.size() < count;)
      made.push_back(axis());
    return made;
  };
  std::vector<GraphValue> values = {
      GraphValue(),           stranger.input("s", F32, {"N"}), b.input("x", F32, {"N", 3}),
      b.input("y", F32, {3}), b.input("i", I64, {"N"}),        b.input("p", F32, {"N", "M"})};
  auto any = [&]() -> const GraphValue & { return values[random() % values.size()]; };
  auto number = [&]() -> GraphOperand {
    switch (random() % 6) {
    case 0:
      return pick(0.0, 0.5, -1.0, 1e300, double(NAN));
    case 1:
      return pick(int64_t(0), int64_t(3), INT64_MIN, INT64_MAX);
    default:
      return any();
    }
  };
  for (int call = 0; call != calls; ++call) {
    GraphValue made;
    switch (random() % 34) {
    case 0:
      made = b.input("in" + std::to_string(random() % 40), type(), shape());
      break;
    case 1:
      made = b.param("param" + std::to_string(random() % 20), type(), shape());
      break;
    case 2:
      made = b.scalar(type(), pick(0.0, 1.0, 0.5, -3.0, 1e10, double(INFINITY)));
      break;
    case 3:
      made = b.dimValues(shape());
      break;
    case 4:
      made = b.add(number(), number());
      break;
    case 5:
      made = b.div(number(), number());
      break;
    case 6:
      made = b.bitXor(number(), number());
      break;
    case 7:
      made = b.compare(pick(ir::ComparePredicate::Lt, ir::ComparePredicate::Eq), number(), number());
      break;
    case 8:
      made = b.gelu(any(), random() % 2);
      break;
    case 9:
      made = b.silu(any());
      break;
    case 10:
      made = b.where(any(), number(), number());
      break;
    case 11:
      made = b.cast(any(), type());
      break;
    case 12:
      made = b.matmul(any(), any());
      break;
    case 13:
      made = b.reduce(pick(ir::ReduceKind::Sum, ir::ReduceKind::Max), any(), axes(), random() % 2);
      break;
    case 14:
      made = b.cumsum(any(), axis());
      break;
    case 15:
      made = b.softmax(any(), axis());
      break;
    case 16:
      made = b.layerNorm(any(), any(), any(), axis(), pick(1e-5, 0.0, double(NAN)));
      break;
    case 17:
      made = b.rmsNorm(any(), std::nullopt, axis());
      break;
    case 18:
      made = b.attention(any(), any(), any(), std::nullopt, 1);
      break;
    case 19:
      made = b.reshape(any(), shape());
      break;
    case 20:
      made = b.transpose(any(), axes());
      break;
    case 21:
      made = b.broadcastTo(any(), shape());
      break;
    case 22:
      made = b.expandDims(any(), axes());
      break;
    case 23:
      made = b.squeeze(any(), axes());
      break;
    case 24:
      made = b.slice(any(), axis(), sizes[random() % std::size(sizes)], sizes[random() % std::size(sizes)],
                     pick(1, 1, -1, 2, 0));
      break;
    case 25:
      made = b.sliceAxes(any(), shape(), shape(), axes());
      break;
    case 26:
      made = b.concat({any(), any()}, axis());
      break;
    case 27:
      made = b.pad(any(), number(), shape(), shape());
      break;
    case 28:
      made = b.gather(any(), any(), axis());
      break;
    case 29:
      made = random() % 2 ? b.gatherND(any(), any(), axis()) : b.gatherElements(any(), any(), axis());
      break;
    case 30:
      made = random() % 2 ? b.scatterND(any(), any(), any()) : b.scatterElements(any(), any(), any(), axis());
      break;
    case 31:
      made = b.iota(shape(), axis(), sizes[random() % std::size(sizes)]);
      break;
    case 32:
      made = b.randomNormal(type(), shape());
      break;
    default:
      made = b.assumeDims(any(), shape());
      break;
    }
    if (made) {
      values.push_back(made);
    } else {
      ++bad;
      EXPECT_EQ(made.error().code, ErrorCode::InvalidArgument);
      EXPECT_FALSE(made.error().message.empty());
    }
  }
  std::erase_if(values, [&](const GraphValue &value) { return !b.shape(value); });
  return values;
}

} // namespace rlx::test

#endif // RLX_UNITTESTS_IMPORT_RANDOMCALLS_H
