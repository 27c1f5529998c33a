/*
 * Runs a model at several sizes.
 *
 *   embed-c MODEL [SIZES...]        embed-c ../join.mlir N=2,M=3 N=0,M=1 N=2,M=3
 *
 * MODEL is an .onnx or .mlir file. Each SIZES gives every named dim a size, and makes a run; without any, all dims are
 * 1, then 2, then 3, then 2 again. Inputs are made up: floats count in steps of a quarter, integers run from 0 to 4.
 * For each run the outputs are printed, with their first values, and at the end what the cache did: a binding met
 * before is a hit, and a new one seldom needs the compiler again.
 */
#include "rlx/rlx.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every call that can fail returns NULL, or an error that is ours to free. */
static void check(rlx_status *status, const char *doing) {
  if (!status)
    return;
  fprintf(stderr, "embed-c: %s: %s: %s\n", doing, rlx_code_name(rlx_status_code(status)), rlx_status_message(status));
  rlx_status_destroy(&status);
  exit(1);
}

static void *allocate(size_t count, size_t size) {
  void *pointer = calloc(count ? count : 1, size);
  if (!pointer) {
    fprintf(stderr, "embed-c: no memory\n");
    exit(1);
  }
  return pointer;
}

/* The size of an axis: a number, or a dim of `sizes`. */
static int64_t axis_size(const rlx_tensor_info *info, int32_t axis, const rlx_size *sizes, size_t size_count) {
  size_t i;
  if (info->shape[axis] >= 0)
    return info->shape[axis];
  for (i = 0; i != size_count; ++i)
    if (strcmp(info->dims[axis], sizes[i].dim) == 0)
      return sizes[i].size;
  fprintf(stderr, "embed-c: axis %d of input '%s' is %s, and no such dim was given\n", (int)axis, info->name,
          info->dims[axis]);
  exit(1);
}

/* Values for an input: a quarter more with each element, or 0 to 4 over and over. */
static void fill(void *data, rlx_dtype dtype, size_t elements) {
  size_t i;
  for (i = 0; i != elements; ++i) {
    switch (dtype) {
    case RLX_F32:
      ((float *)data)[i] = (float)i * 0.25f;
      break;
    case RLX_F64:
      ((double *)data)[i] = (double)i * 0.25;
      break;
    case RLX_I64:
    case RLX_U64:
      ((int64_t *)data)[i] = (int64_t)(i % 5);
      break;
    case RLX_I32:
    case RLX_U32:
      ((int32_t *)data)[i] = (int32_t)(i % 5);
      break;
    case RLX_I8:
    case RLX_U8:
    case RLX_I1:
      ((uint8_t *)data)[i] = (uint8_t)(dtype == RLX_I1 ? i % 2 : i % 5);
      break;
    default:
      fprintf(stderr, "embed-c: no values for inputs of type %s\n", rlx_dtype_name(dtype));
      exit(1);
    }
  }
}

static void print_values(const rlx_view *view) {
  size_t i, elements = view->bytes / rlx_dtype_size(view->dtype), shown = elements < 12 ? elements : 12;
  for (i = 0; i != shown; ++i) {
    switch (view->dtype) {
    case RLX_F32:
      printf(" %g", ((const float *)view->data)[i]);
      break;
    case RLX_F64:
      printf(" %g", ((const double *)view->data)[i]);
      break;
    case RLX_I64:
      printf(" %" PRId64, ((const int64_t *)view->data)[i]);
      break;
    case RLX_I32:
      printf(" %" PRId32, ((const int32_t *)view->data)[i]);
      break;
    case RLX_I1:
    case RLX_U8:
      printf(" %u", ((const uint8_t *)view->data)[i]);
      break;
    default:
      printf(" ?");
      break;
    }
  }
  printf("%s\n", shown < elements ? " ..." : "");
}

static void run(rlx_executable *executable, const rlx_model *model, const rlx_size *sizes, size_t size_count) {
  static const char *const origins[] = {"hit", "instantiated", "new"};
  const rlx_model_info *info;
  rlx_input *inputs;
  rlx_tensor **outputs;
  rlx_run_report report = {sizeof report, NULL, 0, 0, 0, 0};
  rlx_run_options options = {sizeof options, NULL, 0, RLX_WAIT, 0, NULL, NULL};
  size_t i;
  int32_t axis;

  check(rlx_model_get_info(model, &info), "looking at the model");
  inputs = allocate(info->input_count, sizeof *inputs);
  outputs = allocate(info->output_count, sizeof *outputs);
  for (i = 0; i != info->input_count; ++i) {
    const rlx_tensor_info *input;
    int64_t *shape;
    size_t elements = 1;
    void *data;
    check(rlx_model_get_input(model, i, &input), "looking at an input");
    shape = allocate((size_t)input->rank, sizeof *shape);
    for (axis = 0; axis != input->rank; ++axis) {
      shape[axis] = axis_size(input, axis, sizes, size_count);
      elements *= (size_t)shape[axis];
    }
    data = allocate(elements, rlx_dtype_size(input->dtype));
    fill(data, input->dtype, elements);
    inputs[i].name = input->name;
    inputs[i].data = data;
    inputs[i].bytes = elements * rlx_dtype_size(input->dtype);
    inputs[i].shape = shape;
    inputs[i].rank = input->rank;
    inputs[i].dtype = input->dtype;
  }

  options.report = &report;
  check(rlx_run(executable, inputs, info->input_count, outputs, info->output_count, &options), "running");

  for (i = 0; i != size_count; ++i)
    printf("%s%s=%" PRId64, i ? "," : "", sizes[i].dim, sizes[i].size);
  printf(" (%s)\n", origins[report.origin]);
  for (i = 0; i != info->output_count; ++i) {
    const rlx_tensor_info *output;
    rlx_view view;
    check(rlx_model_get_output(model, i, &output), "looking at an output");
    check(rlx_tensor_view(outputs[i], &view), "reading an output");
    printf("  %s: %s [", output->name, rlx_dtype_name(view.dtype));
    for (axis = 0; axis != view.rank; ++axis)
      printf("%s%" PRId64, axis ? "," : "", view.shape[axis]);
    printf("]");
    print_values(&view);
    rlx_tensor_destroy(&outputs[i]);
  }
  for (i = 0; i != info->input_count; ++i) {
    free((void *)inputs[i].data);
    free((void *)inputs[i].shape);
  }
  free(inputs);
  free(outputs);
}

/* "N=2,M=3" into sizes that point into `text`. */
static size_t parse_sizes(char *text, rlx_size *sizes, size_t room) {
  size_t count = 0;
  char *item;
  for (item = strtok(text, ","); item; item = strtok(NULL, ",")) {
    char *equals = strchr(item, '='), *end = item;
    if (equals)
      sizes[count].size = strtoll(equals + 1, &end, 10);
    if (!equals || *end || end == equals + 1 || count == room || sizes[count].size < 0) {
      fprintf(stderr, "embed-c: '%s' is not NAME=SIZE of one of the model's %lu dims\n", item, (unsigned long)room);
      exit(1);
    }
    *equals = 0;
    sizes[count++].dim = item;
  }
  return count;
}

int main(int argc, char **argv) {
  rlx_engine *engine;
  rlx_model *model;
  rlx_executable *executable;
  rlx_snapshot *snapshot;
  const rlx_model_info *info;
  const rlx_statistics *statistics;
  rlx_size *sizes;
  size_t i, held;
  int arg;

  if (argc < 2) {
    fprintf(stderr, "usage: embed-c MODEL [NAME=SIZE,...]...\n");
    return 2;
  }
  check(rlx_engine_create(NULL, &engine), "making an engine");
  check(rlx_model_load(engine, argv[1], NULL, &model), "loading the model");
  check(rlx_executable_create(engine, model, NULL, &executable), "making an executable");
  check(rlx_model_get_info(model, &info), "looking at the model");
  sizes = allocate(info->dim_count, sizeof *sizes);
  if (argc > 2) {
    for (arg = 2; arg != argc; ++arg)
      run(executable, model, sizes, parse_sizes(argv[arg], sizes, info->dim_count));
  } else {
    static const int64_t rounds[] = {1, 2, 3, 2};
    for (arg = 0; arg != 4; ++arg) {
      for (i = 0; i != info->dim_count; ++i) {
        const rlx_dim_info *dim;
        check(rlx_model_get_dim(model, i, &dim), "looking at a dim");
        sizes[i].dim = dim->name;
        sizes[i].size = rounds[arg];
      }
      run(executable, model, sizes, info->dim_count);
    }
  }

  check(rlx_executable_snapshot(executable, &snapshot), "asking for statistics");
  check(rlx_snapshot_statistics(snapshot, &statistics), "asking for statistics");
  check(rlx_snapshot_binding_count(snapshot, &held), "asking for statistics");
  printf("rlx %s: %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64 " templates, %" PRIu64 " kernels compiled, %" PRIu64
         " reused, %lu bindings held\n",
         rlx_version(), statistics->hits, statistics->misses, statistics->templates_made, statistics->kernels_compiled,
         statistics->kernels_reused, (unsigned long)held);

  free(sizes);
  rlx_snapshot_destroy(&snapshot);
  rlx_executable_destroy(&executable);
  rlx_model_destroy(&model);
  rlx_engine_destroy(&engine);
  return 0;
}
