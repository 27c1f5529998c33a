//===- OtherMalloc.cpp - a malloc that a process brings -------------------===//
#include <cstddef>

extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void __libc_free(void *memory);

void *malloc(size_t bytes) { return __libc_malloc(bytes); }
void *realloc(void *old, size_t bytes) { return __libc_realloc(old, bytes); }
void free(void *memory) { __libc_free(memory); }
}
