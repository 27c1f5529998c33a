//===- FloatEnvironment.h - floating point as kernels expect it -*- C++ -*-===//
#ifndef RLX_LIB_RUNTIME_FLOATENVIRONMENT_H
#define RLX_LIB_RUNTIME_FLOATENVIRONMENT_H

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rlx {

/// Denormals kept, round to nearest, nothing trapping, on this thread. Its own
/// settings come back at the end.
class FloatEnvironment {
public:
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;
#if defined(__x86_64__)
  FloatEnvironment() : saved(_mm_getcsr()) { _mm_setcsr(0x1F80); }
  ~FloatEnvironment() { _mm_setcsr(saved); }

private:
  unsigned saved;
#elif defined(__aarch64__)
  FloatEnvironment() : saved(__builtin_aarch64_get_fpcr()) { __builtin_aarch64_set_fpcr(0); }
  ~FloatEnvironment() { __builtin_aarch64_set_fpcr(saved); }

private:
  unsigned saved;
#else
  FloatEnvironment() = default;
#endif
};

} // namespace rlx

#endif // RLX_LIB_RUNTIME_FLOATENVIRONMENT_H
