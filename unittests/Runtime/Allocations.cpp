//===- Allocations.cpp - counts what a thread allocates -------------------===//
#include "Allocations.h"

#include <atomic>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RLX_SANITIZED
#endif
#if __has_feature(thread_sanitizer)
#define RLX_THREAD_SANITIZED
#endif
#endif

namespace {
thread_local size_t count;
std::atomic<size_t> countOfAll;

void counted() {
  ++count;
  countOfAll.fetch_add(1, std::memory_order_relaxed);
}
} // namespace

size_t rlx::fakes::allocations() { return count; }
size_t rlx::fakes::allocationsOfAll() { return countOfAll.load(); }

bool rlx::fakes::countsAligned() {
#if defined(RLX_THREAD_SANITIZED)
  return false;
#else
  return true;
#endif
}

#if defined(RLX_SANITIZED)
// The sanitizers have functions of their own, and tell what goes through them.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*onMalloc)(const volatile void *, size_t),
                                                         void (*onFree)(const volatile void *));
static const int installed = __sanitizer_install_malloc_and_free_hooks([](const volatile void *, size_t) { counted(); },
                                                                       [](const volatile void *) {});
#elif defined(__GLIBC__)
// The program's own functions are taken before those of the C library, by all of its
// libraries; operator new calls malloc.
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

void *malloc(size_t bytes) {
  counted();
  return __libc_malloc(bytes);
}
void *calloc(size_t elements, size_t bytes) {
  counted();
  return __libc_calloc(elements, bytes);
}
void *realloc(void *memory, size_t bytes) {
  counted();
  return __libc_realloc(memory, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  counted();
  return __libc_memalign(alignment, bytes);
}
void *memalign(size_t alignment, size_t bytes) {
  counted();
  return __libc_memalign(alignment, bytes);
}
}
#else
#error "how allocations are counted here is not known"
#endif
