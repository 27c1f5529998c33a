//===- Interval.h - saturating intervals of sizes ---------------*- C++ -*-===//
#ifndef RLX_LIB_SUPPORT_INTERVAL_H
#define RLX_LIB_SUPPORT_INTERVAL_H

#include <algorithm>
#include <cstdint>

namespace rlx {

/// All integers from `min` to `max`, inclusive. INT64_MIN as `min` and INT64_MAX
/// as `max` stand for "without end". A lower end never is INT64_MAX and an upper
/// end never INT64_MIN, so that an end that saturated is still a correct bound
/// after more arithmetic.
struct Interval {
  int64_t min = INT64_MIN, max = INT64_MAX;

  static Interval make(__int128 lo, __int128 hi) {
    Interval r;
    r.min = lo < INT64_MIN ? INT64_MIN : lo > INT64_MAX - 1 ? INT64_MAX - 1 : static_cast<int64_t>(lo);
    r.max = hi > INT64_MAX ? INT64_MAX : hi < INT64_MIN + 1 ? INT64_MIN + 1 : static_cast<int64_t>(hi);
    return r;
  }
  static Interval point(int64_t value) { return make(value, value); }

  bool openBelow() const { return min == INT64_MIN; }
  bool openAbove() const { return max == INT64_MAX; }
  bool isPoint() const { return min == max && !openBelow() && !openAbove(); }
  bool contains(int64_t value) const { return min <= value && value <= max; }

  friend Interval operator+(const Interval &a, const Interval &b) {
    constexpr __int128 end = static_cast<__int128>(1) << 100;
    return make(a.openBelow() || b.openBelow() ? -end : static_cast<__int128>(a.min) + b.min,
                a.openAbove() || b.openAbove() ? end : static_cast<__int128>(a.max) + b.max);
  }

  friend Interval operator*(const Interval &a, const Interval &b) {
    const __int128 ends[4] = {product(a, false, b, false), product(a, false, b, true), product(a, true, b, false),
                              product(a, true, b, true)};
    return make(*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4));
  }

  /// Intersection; `a` where they share nothing (nothing satisfies both, so any
  /// answer is right).
  static Interval meet(const Interval &a, const Interval &b) {
    Interval r{std::max(a.min, b.min), std::min(a.max, b.max)};
    return r.min <= r.max ? r : a;
  }
  static Interval join(const Interval &a, const Interval &b) {
    return {std::min(a.min, b.min), std::max(a.max, b.max)};
  }

  static int64_t floorOf(int64_t a, int64_t b) {
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
  }

  /// Values of floor(a / b). A divisor that may be 0 or less says nothing.
  static Interval floorDiv(const Interval &a, const Interval &b) {
    if (b.min < 1)
      return {};
    auto quotient = [](int64_t x, const Interval &d, bool upperDivisor) -> int64_t {
      if (upperDivisor && d.openAbove())
        return x >= 0 ? 0 : -1;
      return floorOf(x, upperDivisor ? d.max : d.min);
    };
    Interval r;
    if (!a.openBelow())
      r.min = std::min(quotient(a.min, b, false), quotient(a.min, b, true));
    if (!a.openAbove())
      r.max = std::max(quotient(a.max, b, false), quotient(a.max, b, true));
    return make(r.openBelow() ? static_cast<__int128>(INT64_MIN) : r.min,
                r.openAbove() ? static_cast<__int128>(INT64_MAX) : r.max);
  }

  /// Values of a broadcast with b, where it is defined.
  static Interval broadcast(const Interval &a, const Interval &b) {
    // An operand that is not 1 is the result.
    if (!a.contains(1) && !b.contains(1))
      return meet(a, b);
    if (!a.contains(1))
      return a;
    if (!b.contains(1))
      return b;
    return join(a, b);
  }

private:
  static __int128 product(const Interval &a, bool aMax, const Interval &b, bool bMax) {
    constexpr __int128 end = static_cast<__int128>(1) << 100;
    int64_t x = aMax ? a.max : a.min, y = bMax ? b.max : b.min;
    if (x == 0 || y == 0)
      return 0;
    bool open = (aMax ? a.openAbove() : a.openBelow()) || (bMax ? b.openAbove() : b.openBelow());
    if (open)
      return (x < 0) == (y < 0) ? end : -end;
    return static_cast<__int128>(x) * y;
  }
};

} // namespace rlx

#endif // RLX_LIB_SUPPORT_INTERVAL_H
