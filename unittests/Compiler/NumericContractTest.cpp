//===- NumericContractTest.cpp - docs/NumericContract.md as a table -------===//
//
// Each row is one small graph with the values it must give. It is run with its operands as inputs of the graph, as
// weights, as inputs of named sizes, and as constants, so that it folds when the graph is prepared; and also while the
// caller has set its thread to flush subnormal numbers.
//
//===----------------------------------------------------------------------===//
#include "CompilerTest.h"

#include "ModelText.h"

#include "gmock/gmock.h"

#include <bit>
#include <cmath>
#include <limits>
#include <set>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace rlx;
using namespace rlx::compilertest;
using testing::HasSubstr;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan_ = std::numeric_limits<float>::quiet_NaN();
constexpr double inf64 = std::numeric_limits<double>::infinity();
constexpr int64_t lowest64 = std::numeric_limits<int64_t>::min(), highest64 = std::numeric_limits<int64_t>::max();
constexpr int32_t lowest32 = std::numeric_limits<int32_t>::min(), highest32 = std::numeric_limits<int32_t>::max();

struct Row {
  std::string name = {};
  std::vector<Value> inputs = {}; ///< %a, %b, %c
  std::string body = {};          ///< defines %r; $a, $b, $c and $r are the types
  Value expected = {};            ///< for an error its type and shape
  std::string error = {};         ///< not empty: each of these words (split at '|') is in the run's message
  double tolerance = 0;           ///< not 0: f32 within this much; NaN and infinities exactly
  bool eitherZero = false;        ///< a zero of either sign will do
  bool named = true;              ///< its types may have names
};
void PrintTo(const Row &row, std::ostream *os) { *os << row.name; }

std::string unary(const std::string &op) { return "%r = rlx." + op + " %a : $a -> $r"; }
std::string binary(const std::string &op) { return "%r = rlx." + op + " %a, %b : $a, $b -> $r"; }
std::string reduce(const std::string &kind, const std::string &axes) {
  return "%r = rlx.reduce " + kind + " %a axes [" + axes + "] : $a -> $r";
}
std::string at(const std::string &body, const std::string &node) { return body + " loc(\"" + node + "\")"; }

uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }

Value quietF16(Shape shape) { return f16(std::move(shape), {0x7E00}); }

std::vector<Row> table() {
  std::vector<Row> rows;
  auto add = [&](Row row) { rows.push_back(std::move(row)); };
  auto fails = [&](std::string name, std::vector<Value> inputs, std::string body, Value type, std::string words) {
    Row row{std::move(name), std::move(inputs), std::move(body), std::move(type), std::move(words)};
    rows.push_back(std::move(row));
  };

  //===--- 47: NaN and signed zeros in max, min, relu, clip ------------------===//

  add({"max_of_NaNs_and_a_number", {f32({4}, {nan_, nan_, nan_, 42})}, reduce("max", "0"), f32({}, {nan_})});
  add({"min_of_NaNs_and_a_number", {f32({4}, {nan_, nan_, nan_, 42})}, reduce("min", "0"), f32({}, {nan_})});
  for (int64_t length = 3; length <= 33; ++length) {
    // Row i has its NaN at place i; so has column i.
    std::vector<float> values;
    for (int64_t i = 0; i != length; ++i)
      for (int64_t j = 0; j != length; ++j)
        values.push_back(i == j ? nan_ : static_cast<float>(j - 7));
    Value square = f32({length, length}, values);
    Value allNaN = f32({length}, std::vector<float>(static_cast<size_t>(length), nan_));
    std::string n = std::to_string(length);
    add({"max_NaN_in_row_of_" + n, {square}, reduce("max", "1"), allNaN});
    add({"max_NaN_in_column_of_" + n, {square}, reduce("max", "0"), allNaN});
    add({"min_NaN_in_row_of_" + n, {square}, reduce("min", "1"), allNaN});
  }
  add({"max_of_zeros", {f32({2}, {0.0f, -0.0f}), f32({2}, {-0.0f, 0.0f})}, binary("max"), f32({2}, {0.0f, 0.0f})});
  add({"min_of_zeros", {f32({2}, {0.0f, -0.0f}), f32({2}, {-0.0f, 0.0f})}, binary("min"), f32({2}, {-0.0f, -0.0f})});
  add({"max_of_zeros_f64", {f64({2}, {0.0, -0.0}), f64({2}, {-0.0, 0.0})}, binary("max"), f64({2}, {0.0, 0.0})});
  add({"max_of_zeros_f16", {f16({2}, {0, 0x8000}), f16({2}, {0x8000, 0})}, binary("max"), f16({2}, {0, 0})});
  add({"max_of_zeros_bf16", {bf16({2}, {0, 0x8000}), bf16({2}, {0x8000, 0})}, binary("max"), bf16({2}, {0, 0})});
  add({"reduce_max_of_zeros", {f32({2, 2}, {0.0f, -0.0f, -0.0f, 0.0f})}, reduce("max", "1"), f32({2}, {0.0f, 0.0f})});
  add({"reduce_min_of_zeros", {f32({2, 2}, {0.0f, -0.0f, -0.0f, 0.0f})}, reduce("min", "1"), f32({2}, {-0.0f, -0.0f})});
  add({"max_with_a_NaN",
       {f32({3}, {nan_, 1, nan_}), f32({3}, {1, nan_, nan_})},
       binary("max"),
       f32({3}, {nan_, nan_, nan_})});
  add({"min_with_a_NaN",
       {f32({3}, {nan_, 1, nan_}), f32({3}, {1, nan_, nan_})},
       binary("min"),
       f32({3}, {nan_, nan_, nan_})});
  add({"max_with_a_NaN_f64", {f64({2}, {NAN, 1}), f64({2}, {1, NAN})}, binary("max"), f64({2}, {NAN, NAN})});
  add({"max_with_a_NaN_f16",
       {f16({2}, {0x7E00, 0x3C00}), f16({2}, {0x3C00, 0x7E00})},
       binary("max"),
       f16({2}, {0x7E00, 0x7E00})});
  add({"max_with_a_NaN_bf16",
       {bf16({2}, {0x7FC0, 0x3F80}), bf16({2}, {0x3F80, 0x7FC0})},
       binary("max"),
       bf16({2}, {0x7FC0, 0x7FC0})});
  std::string relu = "%z = rlx.constant dense<0.0> : tensor<f32>\n%r = rlx.max %a, %z : $a, tensor<f32> -> $r";
  add({"relu", {f32({4}, {nan_, -3, 5, inf})}, relu, f32({4}, {nan_, 0, 5, inf})});
  Row zero{"relu_of_minus_zero", {f32({2}, {-0.0f, 0.0f})}, relu, f32({2}, {0, 0})};
  zero.eitherZero = true;
  add(zero);
  std::string clip = "%m = rlx.max %a, %b : $a, $b -> $r\n%r = rlx.min %m, %c : $r, $c -> $r";
  add({"clip",
       {f32({5}, {nan_, -9, 0.5, 9, -inf}), f32({}, {-1}), f32({}, {1})},
       clip,
       f32({5}, {nan_, -1, 0.5, 1, -1})});
  add({"clip_crossed", {f32({4}, {nan_, -9, 4, 9}), f32({}, {5}), f32({}, {3})}, clip, f32({4}, {nan_, 3, 3, 3})});

  //===--- 48: softmax -------------------------------------------------------===//

  Value lanes = f32({3, 4}, {0, 0, -inf, -inf, -inf, -inf, -inf, -inf, -inf, 7, -inf, -inf});
  add({"softmax_rows_of_minus_infinity",
       {lanes},
       "%r = rlx.softmax %a axis 1 : $a -> $r",
       f32({3, 4}, {0.5, 0.5, 0, 0, nan_, nan_, nan_, nan_, 0, 1, 0, 0})});
  add({"softmax_of_columns",
       {f32({2, 3}, {-inf, 2, -inf, -inf, 2, 5})},
       "%r = rlx.softmax %a axis 0 : $a -> $r",
       f32({2, 3}, {nan_, 0.5, 0, nan_, 0.5, 1})});
  add({"softmax_NaN_stays_in_its_row",
       {f32({3, 2}, {3, 3, nan_, 1, 0, 0})},
       "%r = rlx.softmax %a axis 1 : $a -> $r",
       f32({3, 2}, {0.5, 0.5, nan_, nan_, 0.5, 0.5})});
  add({"softmax_guarded_by_is_nan",
       {lanes},
       "%s = rlx.softmax %a axis 1 : $a -> $r\n%n = rlx.is_nan %s : $r -> tensor<3x4xi1>\n"
       "%z = rlx.constant dense<0.0> : tensor<f32>\n"
       "%r = rlx.select %n, %z, %s : tensor<3x4xi1>, tensor<f32>, $r -> $r",
       f32({3, 4}, {0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0})});
  add({"softmax_of_one",
       {f32({3, 1}, {-80, 0, 1e30f})},
       "%r = rlx.softmax %a axis 1 : $a -> $r",
       f32({3, 1}, {1, 1, 1})});
  add({"softmax_of_nothing", {f32({2, 0}, {})}, "%r = rlx.softmax %a axis 1 : $a -> $r", f32({2, 0}, {})});
  add({"softmax_of_no_rows", {f32({0, 2}, {})}, "%r = rlx.softmax %a axis 1 : $a -> $r", f32({0, 2}, {})});
  add({"log_softmax",
       {f32({2, 2}, {0, -inf, -inf, -inf})},
       "%r = rlx.log_softmax %a axis 1 : $a -> $r",
       f32({2, 2}, {0, -inf, nan_, nan_})});

  //===--- 49: reductions over nothing ---------------------------------------===//

  auto nothing = [&](const std::string &what, Value of, Value expected) {
    add({what + "_of_nothing_" + elementTypeName(of.type), {of}, reduce(what, "1"), expected});
  };
  nothing("mean", f32({2, 0}, {}), f32({2}, {nan_, nan_}));
  nothing("sum", f32({2, 0}, {}), f32({2}, {0, 0}));
  nothing("prod", f32({2, 0}, {}), f32({2}, {1, 1}));
  nothing("max", f32({2, 0}, {}), f32({2}, {-inf, -inf}));
  nothing("min", f32({2, 0}, {}), f32({2}, {inf, inf}));
  nothing("max", f64({2, 0}, {}), f64({2}, {-inf64, -inf64}));
  nothing("mean", f16({1, 0}, {}), quietF16({1}));
  nothing("max", bf16({1, 0}, {}), bf16({1}, {0xFF80}));
  nothing("sum", i32({2, 0}, {}), i32({2}, {0, 0}));
  nothing("prod", i32({2, 0}, {}), i32({2}, {1, 1}));
  nothing("max", i32({2, 0}, {}), i32({2}, {lowest32, lowest32}));
  nothing("min", i32({2, 0}, {}), i32({2}, {highest32, highest32}));
  nothing("max", i64({1, 0}, {}), i64({1}, {lowest64}));
  nothing("min", i64({1, 0}, {}), i64({1}, {highest64}));
  nothing("max", i8({1, 0}, {}), i8({1}, {-128}));
  nothing("min", i8({1, 0}, {}), i8({1}, {127}));
  nothing("max", u8({1, 0}, {}), u8({1}, {0}));
  nothing("min", u8({1, 0}, {}), u8({1}, {255}));
  add({"max_of_no_rows", {f32({0, 3}, {})}, reduce("max", "1"), f32({0}, {})});
  add({"sum_of_no_rows_along_them", {f32({0, 3}, {})}, reduce("sum", "0"), f32({3}, {0, 0, 0})});
  add({"sum_of_nothing_to_a_scalar", {f32({0, 3}, {})}, reduce("sum", "0, 1"), f32({}, {0})});
  fails("mean_of_no_integers", {i32({2, 0}, {})}, at(reduce("mean", "1"), "Mean_1"), i32({2}, {0, 0}),
        "Mean_1|division by zero");
  add({"mean_of_integers", {i32({2, 2}, {1, 2, -1, -2})}, reduce("mean", "1"), i32({2}, {1, -1})});
  // Neither the sum nor the count fits the type.
  add({"issue_mean_of_many_i8", {i8({300}, std::vector<int8_t>(300, 100))}, reduce("mean", "0"), i8({}, {100})});
  add({"issue_mean_of_many_u8",
       {u8({2, 256}, std::vector<uint8_t>(512, 200))},
       reduce("mean", "1"),
       u8({2}, {200, 200})});

  //===--- 50: integer division ----------------------------------------------===//

  Value by = i32({4}, {-3, 3, -2, 2});
  add({"div_truncates", {i32({4}, {8, -8, 7, -7}), by}, binary("div"), i32({4}, {-2, -2, -3, -3})});
  add({"div_truncates_i64",
       {i64({4}, {8, -8, 7, -7}), i64({4}, {-3, 3, -2, 2})},
       binary("div"),
       i64({4}, {-2, -2, -3, -3})});
  add({"div_truncates_i8",
       {i8({4}, {8, -8, 7, -7}), i8({4}, {-3, 3, -2, 2})},
       binary("div"),
       i8({4}, {-2, -2, -3, -3})});
  add({"div_u8", {u8({2}, {200, 255}), u8({2}, {3, 255})}, binary("div"), u8({2}, {66, 1})});
  Value sevens = i32({4}, {7, 7, -7, -7}), threes = i32({4}, {3, -3, 3, -3});
  add({"mod_has_the_divisors_sign", {sevens, threes}, binary("mod"), i32({4}, {1, -2, 2, -1})});
  add({"rem_has_the_dividends_sign", {sevens, threes}, binary("rem"), i32({4}, {1, 1, -1, -1})});
  add({"mod_i64", {i64({4}, {7, 7, -7, -7}), i64({4}, {3, -3, 3, -3})}, binary("mod"), i64({4}, {1, -2, 2, -1})});
  add({"rem_i8", {i8({4}, {7, 7, -7, -7}), i8({4}, {3, -3, 3, -3})}, binary("rem"), i8({4}, {1, 1, -1, -1})});
  add({"mod_of_floats", {f32({4}, {7, 7, -7, -7}), f32({4}, {3, -3, 3, -3})}, binary("mod"), f32({4}, {1, -2, 2, -1})});
  add({"rem_of_floats", {f32({4}, {7, 7, -7, -7}), f32({4}, {3, -3, 3, -3})}, binary("rem"), f32({4}, {1, 1, -1, -1})});
  for (const char *op : {"div", "mod", "rem"}) {
    fails(std::string(op) + "_by_zero", {i32({2, 2}, {6, 7, 8, 9}), i32({2, 2}, {2, 1, 0, 3})},
          at(binary(op), "Node_3"), i32({2, 2}, {0, 0, 0, 0}), "Node_3|division by zero|[1,0]");
    fails(std::string(op) + "_by_zero_i64", {i64({2}, {6, lowest64}), i64({2}, {-1, 0})}, at(binary(op), "Node_4"),
          i64({2}, {0, 0}), "Node_4|division by zero|[1]");
    fails(std::string(op) + "_by_zero_u8", {u8({2}, {6, 5}), u8({1}, {0})}, at(binary(op), "Node_5"), u8({2}, {0, 0}),
          "Node_5|division by zero|[0]");
  }
  add({"div_lowest_by_minus_one",
       {i32({2}, {lowest32, lowest32}), i32({2}, {-1, 1})},
       binary("div"),
       i32({2}, {lowest32, lowest32})});
  add({"div_lowest_by_minus_one_i64", {i64({1}, {lowest64}), i64({1}, {-1})}, binary("div"), i64({1}, {lowest64})});
  add({"div_lowest_by_minus_one_i8", {i8({1}, {-128}), i8({1}, {-1})}, binary("div"), i8({1}, {-128})});
  add({"mod_lowest_by_minus_one", {i32({1}, {lowest32}), i32({1}, {-1})}, binary("mod"), i32({1}, {0})});
  add({"rem_lowest_by_minus_one_i64", {i64({1}, {lowest64}), i64({1}, {-1})}, binary("rem"), i64({1}, {0})});
  add({"add_wraps", {i32({2}, {highest32, -5}), i32({2}, {1, 2})}, binary("add"), i32({2}, {lowest32, -3})});
  add({"sub_wraps", {i8({1}, {-128}), i8({1}, {1})}, binary("sub"), i8({1}, {127})});
  add({"mul_wraps", {u8({1}, {16}), u8({1}, {17})}, binary("mul"), u8({1}, {16})});
  add({"neg_wraps", {i32({2}, {lowest32, 5})}, unary("neg"), i32({2}, {lowest32, -5})});
  add({"abs_of_lowest", {i8({2}, {-128, -3})}, unary("abs"), i8({2}, {-128, 3})});
  add({"shl", {i32({4}, {1, 1, 1, 3}), i32({4}, {4, 31, 32, 40})}, binary("shl"), i32({4}, {16, lowest32, 0, 0})});
  add({"shr", {i32({4}, {-16, -16, 16, 16}), i32({4}, {2, 32, 2, 99})}, binary("shr"), i32({4}, {-4, -1, 4, 0})});

  //===--- 51: conversions to integers ---------------------------------------===//

  std::string convert = unary("convert");
  add({"f32_to_i32",
       {f32({5}, {inf, -inf, nan_, 3e9f, -1.9f})},
       convert,
       i32({5}, {highest32, lowest32, 0, highest32, -1})});
  add({"f32_to_i8", {f32({4}, {300, -300, nan_, 127.9f})}, convert, i8({4}, {127, -128, 0, 127})});
  add({"f32_to_u8", {f32({5}, {300, -5, nan_, 254.9f, -0.5f})}, convert, u8({5}, {255, 0, 0, 254, 0})});
  add({"f32_to_i64", {f32({4}, {1e30f, -1e30f, nan_, -1.5f})}, convert, i64({4}, {highest64, lowest64, 0, -1})});
  add({"f64_to_i64",
       {f64({3}, {9.3e18, -inf64, 4503599627370497.0})},
       convert,
       i64({3}, {highest64, lowest64, 4503599627370497})});
  add({"f16_to_i8", {f16({3}, {0x7C00, 0xFC00, 0x7E00})}, convert, i8({3}, {127, -128, 0})});
  add({"bf16_to_i32", {bf16({3}, {0x7F80, 0xC0A0, 0x7FC0})}, convert, i32({3}, {highest32, -5, 0})});
  add({"i32_to_i8", {i32({3}, {300, -129, 128})}, convert, i8({3}, {44, 127, -128})});
  add({"i32_to_u8", {i32({2}, {-1, 300})}, convert, u8({2}, {255, 44})});
  add({"i64_to_i32", {i64({2}, {(int64_t(1) << 32) + 5, -1})}, convert, i32({2}, {5, -1})});
  add({"u8_to_i32", {u8({1}, {255})}, convert, i32({1}, {255})});
  add({"i32_to_f32", {i32({2}, {16777217, highest32})}, convert, f32({2}, {16777216, 2147483648.0f})});
  add({"f32_to_i1", {f32({4}, {0.5f, -0.0f, nan_, 0.0f})}, convert, i1({4}, {1, 0, 1, 0})});
  add({"i32_to_i1", {i32({3}, {256, 0, -1})}, convert, i1({3}, {1, 0, 1})});
  add({"i1_to_f32", {i1({2}, {1, 0})}, convert, f32({2}, {1, 0})});
  add({"i1_to_i8", {i1({2}, {1, 0})}, convert, i8({2}, {1, 0})});

  //===--- 52: conversions to short floats -----------------------------------===//

  add({"f32_to_bf16",
       {f32Bits({4}, {bits(3.14f), bits(0.26914088f), bits(1.01171875f), 0x7F800001})},
       convert,
       bf16({4}, {0x4049 /* 3.140625 */, 0x3E8A /* 0.26953125 */, 0x3F82 /* 1.015625 */, 0x7FC0})});
  add({"f32_to_f16",
       {f32({5}, {65519, 65520, 2049, 2051, 2.9e-8f})},
       convert,
       f16({5}, {0x7BFF /* 65504 */, 0x7C00, 0x6800 /* 2048 */, 0x6802 /* 2052 */, 0})});
  add({"f32_to_f16_subnormal", {f32({2}, {3.0e-8f, -6.0e-8f})}, convert, f16({2}, {1, 0x8001})});
  // 1 + 2^-8 + 2^-40 lies above the middle of two bf16 numbers; by way of f32 it would be the middle.
  add({"f64_to_bf16_rounds_once", {f64({1}, {1 + 0x1p-8 + 0x1p-40})}, convert, bf16({1}, {0x3F81})});
  add({"f64_to_f16_rounds_once", {f64({1}, {1 + 0x1p-11 + 0x1p-40})}, convert, f16({1}, {0x3C01})});
  add({"bf16_to_f32", {bf16({2}, {0x4049, 0xFF80})}, convert, f32({2}, {3.140625f, -inf})});

  //===--- 53: subnormal numbers ---------------------------------------------===//

  Value tiny = f32Bits({1}, {0x000116C2});
  add({"subnormal_times_two", {tiny, f32({1}, {2})}, binary("mul"), f32Bits({1}, {0x00022D84})});
  add({"subnormal_plus_itself", {tiny}, "%r = rlx.add %a, %a : $a, $a -> $r", f32Bits({1}, {0x00022D84})});
  add({"subnormal_result", {f32({1}, {0x1p-126f}), f32({1}, {0.25f})}, binary("mul"), f32Bits({1}, {0x00200000})});
  add({"subnormal_sum", {f32Bits({1, 2}, {0x000116C2, 0x000116C2})}, reduce("sum", "1"), f32Bits({1}, {0x00022D84})});
  add({"subnormal_matmul",
       {f32Bits({1, 1}, {0x000116C2}), f32({1, 1}, {2})},
       binary("matmul"),
       f32Bits({1, 1}, {0x00022D84})});
  add({"subnormal_f64", {f64({1}, {0x1p-1074}), f64({1}, {3})}, binary("mul"), f64({1}, {0x3p-1074})});
  add({"subnormal_f16", {f16({1}, {1}), f16({1}, {0x4200})}, binary("mul"), f16({1}, {3})});

  //===--- 54: what must not be simplified away ------------------------------===//

  std::string timesZero = "%z = rlx.constant dense<0.0> : tensor<f32>\n%r = rlx.mul %a, %z : $a, tensor<f32> -> $r";
  add({"infinity_times_zero", {f32({3}, {inf, -2, nan_})}, timesZero, f32({3}, {nan_, -0.0f, nan_})});
  add({"infinity_minus_itself", {f32({2}, {inf, 3})}, "%r = rlx.sub %a, %a : $a, $a -> $r", f32({2}, {nan_, 0})});
  add({"zero_by_itself", {f32({2}, {0, 3})}, "%r = rlx.div %a, %a : $a, $a -> $r", f32({2}, {nan_, 1})});
  std::string plusZero = "%z = rlx.constant dense<0.0> : tensor<f32>\n%r = rlx.add %a, %z : $a, tensor<f32> -> $r";
  add({"minus_zero_plus_zero", {f32({2}, {-0.0f, 1})}, plusZero, f32({2}, {0.0f, 1})});
  std::string minusZero = "%z = rlx.constant dense<0.0> : tensor<f32>\n%r = rlx.sub %z, %a : tensor<f32>, $a -> $r";
  add({"zero_minus_zero", {f32({2}, {0.0f, 1})}, minusZero, f32({2}, {0.0f, -1})});
  add({"matmul_infinity_times_zero",
       {f32({1, 2}, {inf, 1}), f32({2, 1}, {0, 1})},
       binary("matmul"),
       f32({1, 1}, {nan_})});
  add({"integers_times_zero", {i32({2}, {5, lowest32}), i32({}, {0})}, binary("mul"), i32({2}, {0, 0})});

  //===--- 55: slices; clamping is the importer's, see SliceClamping ---------===//

  Value three = f32({3}, {1, 2, 3});
  add({"slice_reversed", {three}, "%r = rlx.slice %a starts [2] steps [-1] : $a -> $r", f32({3}, {3, 2, 1})});
  add({"slice_empty", {three}, "%r = rlx.slice %a starts [2] steps [1] : $a -> $r", f32({0}, {})});
  add({"slice_by_two", {three}, "%r = rlx.slice %a starts [2] steps [-2] : $a -> $r", f32({2}, {3, 1})});

  //===--- 56: indices -------------------------------------------------------===//

  Value data = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  std::string gather = at("%r = rlx.gather %a, %b axis 0 : $a, $b -> $r", "Gather_7");
  add({"gather", {data, i64({2}, {0, -1})}, gather, f32({2, 2}, {1, 2, 5, 6})});
  add({"gather_i32", {data, i32({2}, {-3, 2})}, gather, f32({2, 2}, {1, 2, 5, 6})});
  add({"gather_columns",
       {data, i64({1}, {-1})},
       "%r = rlx.gather %a, %b axis 1 : $a, $b -> $r",
       f32({3, 1}, {2, 4, 6})});
  for (int64_t index : {int64_t(3), int64_t(-4), highest64, lowest64}) {
    std::string n = index < 0 ? "minus_" + std::to_string(-(index + 1)) : std::to_string(index);
    std::string words = "|index " + std::to_string(index) + " |axis of 3";
    fails("gather_index_" + n, {data, i64({2}, {0, index})}, gather, f32({2, 2}, {0, 0, 0, 0}), "Gather_7" + words);
    fails("gather_nd_index_" + n, {data, i64({2, 1}, {0, index})},
          at("%r = rlx.gather_nd %a, %b batch_dims 0 : $a, $b -> $r", "GatherND_8"), f32({2, 2}, {0, 0, 0, 0}),
          "GatherND_8" + words);
    fails("gather_elements_index_" + n, {data, i64({2, 2}, {0, 1, 2, index})},
          at("%r = rlx.gather_elements %a, %b axis 0 : $a, $b -> $r", "GatherElements_9"), f32({2, 2}, {0, 0, 0, 0}),
          "GatherElements_9" + words);
    fails("scatter_elements_index_" + n, {data, i64({1, 2}, {0, index}), f32({1, 2}, {7, 8})},
          at("%r = rlx.scatter_elements assign %a, %b, %c axis 0 : $a, $b, $c -> $r", "Scatter_10"), data,
          "Scatter_10" + words);
    fails("scatter_nd_index_" + n, {data, i64({1, 1}, {index}), f32({1, 2}, {7, 8})},
          at("%r = rlx.scatter_nd assign %a, %b, %c : $a, $b, $c -> $r", "ScatterND_11"), data, "ScatterND_11" + words);
  }
  fails("gather_i32_index_3", {data, i32({1}, {3})}, gather, f32({1, 2}, {0, 0}), "Gather_7|index 3 |axis of 3");
  fails("gather_from_nothing", {f32({0, 2}, {}), i64({1}, {0})}, gather, f32({1, 2}, {0, 0}),
        "Gather_7|index 0 |axis of 0");
  add({"gather_nothing", {f32({0, 2}, {}), i64({0}, {})}, gather, f32({0, 2}, {})});
  add({"gather_nd",
       {data, i64({2, 2}, {0, 1, -1, -2})},
       "%r = rlx.gather_nd %a, %b batch_dims 0 : $a, $b -> $r",
       f32({2}, {2, 5})});
  add({"gather_elements",
       {data, i64({1, 2}, {-1, 1})},
       "%r = rlx.gather_elements %a, %b axis 0 : $a, $b -> $r",
       f32({1, 2}, {5, 4})});
  add({"scatter_keeps_the_last",
       {three, i64({3}, {1, 1, -1}), f32({3}, {7, 8, 9})},
       "%r = rlx.scatter_elements assign %a, %b, %c axis 0 : $a, $b, $c -> $r",
       f32({3}, {1, 8, 9})});
  add({"scatter_adds_in_order",
       {three, i64({3}, {1, 1, 1}), f32({3}, {0x1p25f, -0x1p25f, 1})},
       "%r = rlx.scatter_elements add %a, %b, %c axis 0 : $a, $b, $c -> $r",
       f32({3}, {1, 1, 3})}); // 2 + 2^25 rounds to 2^25
  add({"scatter_nd_max_with_NaN",
       {three, i64({2, 1}, {0, 2}), f32({2}, {nan_, 2})},
       "%r = rlx.scatter_nd max %a, %b, %c : $a, $b, $c -> $r",
       f32({3}, {nan_, 2, 3})});

  //===--- 57: matrix products without elements ------------------------------===//

  add({"matmul_inner_0", {f32({2, 0}, {}), f32({0, 3}, {})}, binary("matmul"), f32({2, 3}, {0, 0, 0, 0, 0, 0})});
  add({"matmul_inner_0_i32", {i32({1, 0}, {}), i32({0, 2}, {})}, binary("matmul"), i32({1, 2}, {0, 0})});
  add({"matmul_inner_0_batched",
       {f32({2, 1, 0}, {}), f32({0, 2}, {})},
       binary("matmul"),
       f32({2, 1, 2}, {0, 0, 0, 0})});
  add({"matmul_inner_0_and_bias",
       {f32({2, 0}, {}), f32({0, 2}, {}), f32({2}, {1, 2})},
       "%m = rlx.matmul %a, %b : $a, $b -> $r\n%r = rlx.add %m, %c : $r, $c -> $r",
       f32({2, 2}, {1, 2, 1, 2})});
  add({"matmul_batch_0", {f32({0, 2, 4}, {}), f32({0, 4, 3}, {})}, binary("matmul"), f32({0, 2, 3}, {})});
  add({"matmul_rows_0", {f32({0, 4}, {}), f32({4, 3}, std::vector<float>(12, 1))}, binary("matmul"), f32({0, 3}, {})});
  add({"matmul_columns_0",
       {f32({2, 4}, std::vector<float>(8, 1)), f32({4, 0}, {})},
       binary("matmul"),
       f32({2, 0}, {})});

  //===--- the rest of the contract ------------------------------------------===//

  add({"round_halves_to_even",
       {f32({6}, {2.5f, -0.5f, 0.5f, 1.5f, nan_, -inf})},
       unary("round"),
       f32({6}, {2, -0.0f, 0, 2, nan_, -inf})});
  add({"floor", {f32({3}, {-0.5f, 2.7f, -0.0f})}, unary("floor"), f32({3}, {-1, 2, -0.0f})});
  add({"ceil", {f32({3}, {-0.5f, 2.2f, 0.0f})}, unary("ceil"), f32({3}, {-0.0f, 3, 0.0f})});
  add({"sign", {f32({4}, {nan_, -3, 7, inf})}, unary("sign"), f32({4}, {nan_, -1, 1, 1})});
  add({"log", {f32({4}, {0, -1, 1, inf})}, unary("log"), f32({4}, {-inf, nan_, 0, inf})});
  add({"exp", {f32({4}, {0, -inf, inf, nan_})}, unary("exp"), f32({4}, {1, 0, inf, nan_})});
  add({"sqrt",
       {f32({5}, {4, 0, -0.0f, -1, 2})},
       unary("sqrt"),
       f32Bits({5}, {bits(2), 0, bits(-0.0f), bits(nan_), 0x3FB504F3})});
  add({"reciprocal", {f32({4}, {4, 0.0f, -0.0f, inf})}, unary("reciprocal"), f32({4}, {0.25f, inf, -inf, 0})});
  add({"tanh", {f32({4}, {inf, -inf, nan_, 0})}, unary("tanh"), f32({4}, {1, -1, nan_, 0})});
  add({"erf", {f32({4}, {inf, -inf, nan_, 0})}, unary("erf"), f32({4}, {1, -1, nan_, 0})});
  add({"sigmoid", {f32({4}, {inf, -inf, nan_, 0})}, unary("sigmoid"), f32({4}, {1, 0, nan_, 0.5f})});
  add({"pow",
       {f32({8}, {2, -2, -8, 0, nan_, 1, inf, 0}), f32({8}, {10, 3, 1.0f / 3, 0, 0, nan_, -1, -1})},
       binary("pow"),
       f32({8}, {1024, -8, nan_, 1, 1, 1, 0, inf})});
  add({"compare_lt_NaN",
       {f32({3}, {nan_, 1, nan_}), f32({3}, {1, nan_, nan_})},
       "%r = rlx.compare lt %a, %b : $a, $b -> $r",
       i1({3}, {0, 0, 0})});
  add({"compare_ne_NaN",
       {f32({3}, {nan_, 1, 1}), f32({3}, {nan_, nan_, 1})},
       "%r = rlx.compare ne %a, %b : $a, $b -> $r",
       i1({3}, {1, 1, 0})});
  add({"compare_eq_zeros",
       {f32({1}, {-0.0f}), f32({1}, {0.0f})},
       "%r = rlx.compare eq %a, %b : $a, $b -> $r",
       i1({1}, {1})});
  add({"is_inf", {f32({3}, {inf, -inf, nan_})}, unary("is_inf"), i1({3}, {1, 1, 0})});
  add({"f16_rounds_once_an_op", {f16({1}, {0x3C01}), f16({1}, {0x3C01})}, binary("mul"), f16({1}, {0x3C02})});
  add({"cumsum", {f32({4}, {1, 2, 3, 4})}, "%r = rlx.cumsum %a axis 0 : $a -> $r", f32({4}, {1, 3, 6, 10})});
  add({"cumsum_wraps", {i8({3}, {100, 27, 1})}, "%r = rlx.cumsum %a axis 0 : $a -> $r", i8({3}, {100, 127, -128})});
  for (Row &row : rows)
    for (const char *spelled : {"tensor<3x4", "gather_nd", "scatter_nd"}) // the size of an index tuple is a number
      row.named &= row.body.find(spelled) == std::string::npos;
  auto near = [&](std::string name, Value of, std::string body, Value expected) {
    Row row{std::move(name), {std::move(of)}, std::move(body), std::move(expected)};
    row.tolerance = 5e-6;
    add(row);
  };
  near("gelu", f32({4}, {1, 0, -1, 3}), unary("gelu"), f32({4}, {0.8413447f, 0, -0.1586553f, 2.9959502f}));
  near("sin", f32({3}, {0.5f, 100, nan_}), unary("sin"), f32({3}, {0.4794255f, -0.5063656f, nan_}));
  near("layer_norm", f32({1, 2}, {1, 3}), "%r = rlx.layer_norm %a axis 1 epsilon 3.0 : $a -> $r",
       f32({1, 2}, {-0.5f, 0.5f}));
  return rows;
}

//===----------------------------------------------------------------------===//
// Running the table
//===----------------------------------------------------------------------===//

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t place = 0; (place = text.find(what, place)) != std::string::npos; place += by.size())
    text.replace(place, what.size(), by);
  return text;
}

/// How a row is run. Inputs: its operands are inputs of the graph. Constants: they are constants, and it folds.
/// Weights: they are rows of the weight table. Named: inputs, and every size but 1 has a name.
enum class Mode { Inputs, Constants, Weights, Named, InputsFlushing, ConstantsFlushing };

bool isFolded(Mode mode) { return mode == Mode::Constants || mode == Mode::ConstantsFlushing; }
bool hasInputs(Mode mode) { return mode != Mode::Weights && !isFolded(mode); }

/// The type with a name for each size that an input has.
std::string namedType(const Row &row, const Value &value, std::set<std::string> &names) {
  std::vector<std::string> dims;
  for (int64_t size : value.shape) {
    bool ofInput = false;
    for (const Value &input : row.inputs)
      ofInput |= std::find(input.shape.begin(), input.shape.end(), size) != input.shape.end();
    dims.push_back((size != 1 && ofInput ? "N" : "") + std::to_string(size));
    if (dims.back()[0] == 'N')
      names.insert(dims.back());
  }
  std::string element = value.typeText();
  element = element.substr(element.rfind('x') == std::string::npos ? 7 : element.rfind('x') + 1);
  element.pop_back();
  return typeOf(dims, element);
}

std::string graphOf(const Row &row, Mode mode) {
  std::string arguments, sources, body = row.body, dims;
  std::set<std::string> names;
  auto type = [&](const Value &value) { return mode == Mode::Named ? namedType(row, value, names) : value.typeText(); };
  for (size_t i = 0; i != row.inputs.size(); ++i) {
    std::string name(1, static_cast<char>('a' + i));
    const Value &input = row.inputs[i];
    if (isFolded(mode))
      sources += "%" + name + " = rlx.constant " + input.constantText() + "\n";
    else if (mode == Mode::Weights)
      sources += "%" + name + " = rlx.weight \"" + name + "\" : " + type(input) + "\n";
    else
      arguments += (arguments.empty() ? "%" : ", %") + name + ": " + type(input);
    body = replaced(body, "$" + name, type(input));
  }
  std::string result = type(row.expected);
  for (const std::string &name : names)
    dims += (dims.empty() ? "" : ", ") + ("#rlx.dim<\"" + name + "\">");
  return "rlx.graph @main(" + arguments + ") -> " + result + " attributes {dims = [" + dims + "]} {\n" + sources +
         replaced(body, "$r", result) + "\nrlx.output %r : " + result + "\n}\n";
}

std::shared_ptr<WeightTable> weightsOf(const Row &row) {
  auto table = std::make_shared<WeightTable>();
  for (size_t i = 0; i != row.inputs.size(); ++i) {
    const Value &value = row.inputs[i];
    Status status = table->add(std::string(1, static_cast<char>('a' + i)),
                               {value.type, value.shape, std::as_bytes(std::span(value.bytes)), nullptr});
    EXPECT_TRUE(static_cast<bool>(status)) << status.error().message;
  }
  return table;
}

/// Sets the thread to flush subnormal numbers and to round upwards while it lives; then the settings must be the same,
/// and the former come back.
class Flushing {
public:
  explicit Flushing([[maybe_unused]] bool on) {
#if defined(__x86_64__)
    before = _mm_getcsr();
    if (on)
      _mm_setcsr((before & ~0x6000u) | 0x8040 | 0x4000);
    set = _mm_getcsr() & ~0x3Fu; // without the sticky flags, which any arithmetic sets
#endif
  }
  ~Flushing() {
#if defined(__x86_64__)
    EXPECT_EQ(_mm_getcsr() & ~0x3Fu, set) << "the caller's floating point settings changed";
    _mm_setcsr(before);
#endif
  }

private:
  [[maybe_unused]] unsigned before = 0, set = 0;
};

/// What the graph does in a run is copying a value that was computed before.
bool onlyCopies(const Model &model) {
  Result<SpecializeReply> reply = model.compiler()->specialize({});
  if (!reply || !reply->plan)
    return false;
  const data::PlanTemplateT &plan = *reply->plan;
  for (const auto &step : plan.steps) {
    if (step->family != data::Family::Loops)
      return false;
    // One value for all elements is spelled in the program.
    if (step->inputs.empty() && step->program.size() == 1 && step->program[0].op() == data::Opcode::Constant)
      continue;
    if (!step->program.empty() || step->inputs.size() != 1)
      return false;
    const data::BufferT &from = *plan.buffers[step->inputs[0]->buffer];
    const data::BufferT &to = *plan.buffers[step->outputs[0]->buffer];
    if (from.kind != data::BufferKind::Constant || from.type != to.type || from.elements != to.elements)
      return false;
  }
  return true;
}

std::string mismatch(const Row &row, const Tensor &got) {
  if (row.tolerance == 0 && !row.eitherZero)
    return difference(got, row.expected);
  if (got.type() != ElementType::F32 || got.shape() != row.expected.shape)
    return "another type or shape";
  std::vector<float> expected(row.expected.bytes.size() / 4);
  std::memcpy(expected.data(), row.expected.bytes.data(), row.expected.bytes.size());
  std::span<const float> values = got.as<float>();
  for (size_t i = 0; i != expected.size(); ++i)
    if (!(std::abs(values[i] - expected[i]) <= row.tolerance) && !(std::isnan(expected[i]) && std::isnan(values[i])) &&
        !(values[i] == expected[i]))
      return "element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", expected " +
             std::to_string(expected[i]);
  return {};
}

class NumericContract : public testing::TestWithParam<std::tuple<Row, Mode>> {};

TEST_P(NumericContract, Row) {
  const auto &[row, mode] = GetParam();
  Flushing flushing(mode == Mode::InputsFlushing || mode == Mode::ConstantsFlushing);

  Loaded loaded(graphOf(row, mode), mode == Mode::Weights ? weightsOf(row) : nullptr);
  auto run = [&] { return loaded.run(hasInputs(mode) ? row.inputs : std::vector<Value>()); };
  for (int repeat = 0; repeat != 2; ++repeat) {
    Result<std::vector<Tensor>> results = run();
    if (!row.error.empty()) {
      ASSERT_FALSE(static_cast<bool>(results)) << "the run must fail";
      EXPECT_EQ(results.error().code, ErrorCode::RunFailed);
      for (size_t from = 0; from <= row.error.size();) {
        size_t end = std::min(row.error.find('|', from), row.error.size());
        EXPECT_THAT(results.error().message, HasSubstr(row.error.substr(from, end - from)));
        from = end + 1;
      }
      continue;
    }
    ASSERT_GOOD(results);
    EXPECT_EQ(mismatch(row, results->front()), "");
  }
  if (isFolded(mode) && row.error.empty())
    EXPECT_TRUE(onlyCopies(*loaded.model)) << graphOf(row, mode);
}

std::string modeName(Mode mode) {
  const char *names[] = {"inputs", "constants", "weights", "named", "inputs_flushing", "constants_flushing"};
  return names[static_cast<int>(mode)];
}

/// Every row in every way that makes sense for it.
std::vector<std::tuple<Row, Mode>> waysToRun() {
  std::vector<std::tuple<Row, Mode>> ways;
  for (const Row &row : table())
    for (Mode mode :
         {Mode::Inputs, Mode::Constants, Mode::Weights, Mode::Named, Mode::InputsFlushing, Mode::ConstantsFlushing}) {
      bool many = row.name.find("_NaN_in_") != std::string::npos; // the same at every length
      if ((mode == Mode::Named && !row.named) || (many && mode > Mode::Constants))
        continue;
      ways.emplace_back(row, mode);
    }
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Table, NumericContract, testing::ValuesIn(waysToRun()), [](const auto &info) {
  return std::get<0>(info.param).name + "_" + modeName(std::get<1>(info.param));
});

//===----------------------------------------------------------------------===//
// What only ONNX spells
//===----------------------------------------------------------------------===//

/// Slice of x = [1, 2, 3] along axis 0.
Result<compiler::LoadedModel> sliceModel(int64_t start, int64_t end, int64_t step) {
  return loadOnnx(test::input("x", test::f32, {"3"}) + test::ints("start", {start}) + test::ints("end", {end}) +
                  test::ints("axes", {0}) + test::ints("step", {step}) +
                  test::node("Slice_5", "Slice", {"x", "start", "end", "axes", "step"}, {"y"}) + test::output("y"));
}

TEST(SliceClamping, Case55) {
  struct {
    int64_t start, end, step;
    std::vector<float> expected;
  } rows[] = {
      {-5, 2, 1, {1, 2}},
      {1, highest64, 1, {2, 3}},
      {2, 1, 1, {}},
      {highest64, lowest64, -1, {3, 2, 1}},
      {-1, lowest64, -1, {3, 2, 1}},
      {-1, highest64, -1, {}},
      {0, 0, 1, {}},
      {lowest64, highest64, 2, {1, 3}},
      {2, -4, -2, {3, 1}},
  };
  for (const auto &row : rows) {
    SCOPED_TRACE(std::to_string(row.start) + ":" + std::to_string(row.end) + ":" + std::to_string(row.step));
    Result<compiler::LoadedModel> loaded = sliceModel(row.start, row.end, row.step);
    ASSERT_GOOD(loaded);
    std::vector<Tensor> y = Loaded(loaded->model).outputs({f32({3}, {1, 2, 3})});
    EXPECT_EQ(valuesOf<float>(y[0]), row.expected);
    EXPECT_EQ(y[0].shape(), (Shape{static_cast<int64_t>(row.expected.size())}));
  }
  Result<compiler::LoadedModel> zero = sliceModel(0, 3, 0);
  ASSERT_FALSE(static_cast<bool>(zero));
  EXPECT_THAT(zero.error().message, HasSubstr("Slice_5"));
}

TEST(SliceClamping, Case55WithANamedSize) {
  Result<compiler::LoadedModel> loaded = loadOnnx(
      test::input("x", test::f32, {"N"}) + test::ints("start", {-5}) + test::ints("end", {highest64}) +
      test::ints("axes", {0}) + test::node("n", "Slice", {"x", "start", "end", "axes"}, {"y"}) + test::output("y"));
  ASSERT_GOOD(loaded);
  Loaded slice(loaded->model);
  EXPECT_EQ(valuesOf<float>(slice.outputs({f32({3}, {1, 2, 3})})[0]), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(valuesOf<float>(slice.outputs({f32({6}, {1, 2, 3, 4, 5, 6})})[0]), (std::vector<float>{2, 3, 4, 5, 6}));
  EXPECT_EQ(valuesOf<float>(slice.outputs({f32({0}, {})})[0]), (std::vector<float>{}));
}

} // namespace
