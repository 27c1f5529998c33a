/* The header as C99 sees it, and runs written in C. */
#include "rlx/rlx.h"

#include <string.h>

/* Runs z = 2 * concat(x, y) of examples/join.mlir at N=1, M=1; 0 when all is right, else where it was not. */
int runFromC(const char *text) {
  rlx_engine_options engine_options = {.struct_size = sizeof engine_options};
  rlx_engine *engine;
  rlx_model *model;
  rlx_executable *executable;
  rlx_status *status;
  float x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8}, z[8];
  const float expected[8] = {2, 4, 6, 8, 10, 12, 14, 16};
  const int64_t shape[2] = {1, 4};
  rlx_input inputs[2] = {
      {.name = "y", .data = y, .bytes = sizeof y, .shape = shape, .rank = 2, .dtype = RLX_F32},
      {.name = "x", .data = x, .bytes = sizeof x, .shape = shape, .rank = 2, .dtype = RLX_F32},
  };
  rlx_output output = {.name = "z", .data = z, .bytes = sizeof z, .dtype = RLX_F32};

  engine_options.threads = 1;
  if ((status = rlx_engine_create(&engine_options, &engine)))
    return rlx_status_destroy(&status), 1;
  if ((status = rlx_model_load_text(engine, text, strlen(text), NULL, &model)))
    return rlx_status_destroy(&status), 2;
  if ((status = rlx_executable_create(engine, model, NULL, &executable)))
    return rlx_status_destroy(&status), 3;
  if ((status = rlx_run_into(executable, inputs, 2, &output, 1, NULL)))
    return rlx_status_destroy(&status), 4;
  if (memcmp(z, expected, sizeof z) != 0)
    return 5;
  rlx_executable_destroy(&executable);
  rlx_model_destroy(&model);
  rlx_engine_destroy(&engine);
  return executable || model || engine ? 6 : 0;
}
