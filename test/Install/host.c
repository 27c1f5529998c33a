/*
 * A program that has another LLVM of its own, and runs a model with rlx.
 *
 *   host MODEL ORDER LLVM PLACE
 *
 * ORDER: "first" uses the other LLVM before rlx is asked for anything and again at the end, "last" only then. LLVM: its
 * library, opened for everybody to see; "-" for none. PLACE: where rlx compiles, "process" or "worker". MODEL is
 * examples/join.mlir; prints "right" when all values are.
 */
#include "rlx/rlx.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(rlx_status *status) {
  if (!status)
    return;
  printf("%s\n", rlx_status_message(status));
  rlx_status_destroy(&status);
  exit(1);
}

static void *find(void *library, const char *name) {
  void *symbol = dlsym(library, name);
  if (symbol)
    return symbol;
  printf("no %s\n", name);
  exit(1);
}

/* Prints a module through the C API of the other LLVM. */
static void use_other_llvm(const char *path) {
  void *library, *context, *module;
  char *text;
  void *(*make_context)(void);
  void *(*make_module)(const char *, void *);
  char *(*print_module)(void *);
  void (*free_text)(char *), (*free_module)(void *), (*free_context)(void *);
  if (strcmp(path, "-") == 0)
    return;
  library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!library) {
    printf("%s\n", dlerror());
    exit(1);
  }
  *(void **)&make_context = find(library, "LLVMContextCreate");
  *(void **)&make_module = find(library, "LLVMModuleCreateWithNameInContext");
  *(void **)&print_module = find(library, "LLVMPrintModuleToString");
  *(void **)&free_text = find(library, "LLVMDisposeMessage");
  *(void **)&free_module = find(library, "LLVMDisposeModule");
  *(void **)&free_context = find(library, "LLVMContextDispose");
  context = make_context();
  module = make_module("of_another", context);
  text = print_module(module);
  if (!strstr(text, "of_another")) {
    printf("the other LLVM printed: %s\n", text);
    exit(1);
  }
  free_text(text);
  free_module(module);
  free_context(context);
}

int main(int argc, char **argv) {
  rlx_engine_options options = {.struct_size = sizeof options, .threads = 2};
  rlx_engine *engine;
  rlx_model *model;
  rlx_executable *executable;
  int64_t rows;
  if (argc != 5)
    return 2;
  if (strcmp(argv[2], "first") == 0)
    use_other_llvm(argv[3]);
  if (strcmp(argv[4], "worker") == 0)
    options.compiler = RLX_COMPILER_WORKER;
  check(rlx_engine_create(&options, &engine));
  check(rlx_model_load(engine, argv[1], NULL, &model));
  check(rlx_executable_create(engine, model, NULL, &executable));
  for (rows = 0; rows != 4; ++rows) {
    float x[12], y[4] = {1, 2, 3, 4}, z[16];
    const int64_t shape[2] = {rows, 4}, one[2] = {1, 4};
    rlx_input inputs[2] = {
        {.name = "x", .data = x, .bytes = (size_t)rows * 16, .shape = shape, .rank = 2, .dtype = RLX_F32},
        {.name = "y", .data = y, .bytes = sizeof y, .shape = one, .rank = 2, .dtype = RLX_F32},
    };
    rlx_output output = {.name = "z", .data = z, .bytes = (size_t)(rows + 1) * 16, .dtype = RLX_F32};
    int64_t i;
    for (i = 0; i != rows * 4; ++i)
      x[i] = (float)i;
    check(rlx_run_into(executable, inputs, 2, &output, 1, NULL));
    for (i = 0; i != (rows + 1) * 4; ++i)
      if (z[i] != 2 * (i < rows * 4 ? x[i] : y[i - rows * 4])) {
        printf("wrong value %ld at %ld rows: %g\n", (long)i, (long)rows, z[i]);
        return 1;
      }
  }
  use_other_llvm(argv[3]);
  rlx_executable_destroy(&executable);
  rlx_model_destroy(&model);
  rlx_engine_destroy(&engine);
  printf("right\n");
  return 0;
}
