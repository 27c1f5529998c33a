/*===- rlx.h - the C API ------------------------------------------*- C -*-===*\
|*
|* C99, and C++. One header, no other of rlx is needed.
|*
|*   rlx_engine      what models share: threads, kernels, memory, the compiler
|*   rlx_model       a graph that was read
|*   rlx_executable  a model made callable at any sizes; holds a specialization
|*                   for each binding (sizes of the named dims) that it has met
|*   rlx_tensor      an output that a run returned
|*   rlx_context     memory of runs whose outputs are read where they lie
|*
|* Errors. What can fail returns an rlx_status *: NULL is success; else it has a
|* code and a line of text, and is the caller's to destroy. Nothing is written to
|* out-parameters then, unless their comment says so: handles become NULL.
|*
|* Handles are opaque, destroyed by the caller, in any order: what still needs the
|* thing behind a destroyed handle keeps it. `rlx_X_destroy(&handle)` sets the
|* handle to NULL; NULL, and the address of NULL, are fine and do nothing. Every
|* function takes a NULL handle and makes it an error. So it does, where it
|* notices, with handles of another kind and copies of destroyed ones: best
|* effort, since the memory may be anybody's by then. A handle must not be
|* destroyed while another thread is in a function with it.
|*
|* Threads. All functions may be called from any number of threads at once, on the
|* same handles too, unless the comment says otherwise.
|*
|* Structs come in three kinds.
|* - Options begin with `struct_size`, to be set to sizeof; the rest, where zero,
|*   means the default: `rlx_run_options options = {.struct_size = sizeof options};`.
|*   One that is larger than the library's is taken where its unknown rest is zero.
|* - Infos are the library's, handed out as const pointers, valid as long as the
|*   handle they come from. They may grow at the end: use them by pointer.
|* - All others never change.
|*
|* Strings are UTF-8 that ends in a zero byte. What is passed in is borrowed for
|* the length of the call, unless the comment says otherwise.
|*
|* Memory. Where large memory (values, arenas, code) cannot be had, that is an
|* error (RLX_OUT_OF_RANGE); where a few hundred bytes cannot, the process ends, as
|* C++ without exceptions does.
|*
\*===----------------------------------------------------------------------===*/
#ifndef RLX_RLX_H
#define RLX_RLX_H

#include <stddef.h>
#include <stdint.h>

#define RLX_VERSION_MAJOR 0
#define RLX_VERSION_MINOR 1
#define RLX_VERSION_PATCH 0

#if defined(_WIN32)
#define RLX_API
#elif defined(__GNUC__)
#define RLX_API __attribute__((visibility("default")))
#else
#define RLX_API
#endif
#if defined(__GNUC__)
#define RLX_CHECK __attribute__((warn_unused_result))
#else
#define RLX_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rlx_status rlx_status;
typedef struct rlx_engine rlx_engine;
typedef struct rlx_model rlx_model;
typedef struct rlx_executable rlx_executable;
typedef struct rlx_context rlx_context;
typedef struct rlx_tensor rlx_tensor;
typedef struct rlx_preparation rlx_preparation;
typedef struct rlx_snapshot rlx_snapshot;
typedef struct rlx_forecast rlx_forecast;
typedef struct rlx_task rlx_task;

/* ---- Version, errors, element types ------------------------------------- */

/** "0.1.0": of the library, which may be newer than this header. */
RLX_API const char *rlx_version(void);

/** What kind of help the caller needs. */
typedef int32_t rlx_code;
enum {
  RLX_OK = 0,
  RLX_INVALID_ARGUMENT = 1, /**< a handle, name, type, rank or size the caller gave is wrong */
  RLX_INVALID_MODEL = 2,    /**< the graph or file is wrong */
  RLX_UNSUPPORTED = 3,      /**< legal, but rlx cannot do it; names the op */
  RLX_UNSOLVABLE = 4,       /**< the binding cannot be found from what was given */
  RLX_OUT_OF_RANGE = 5,     /**< a size outside its range, overflow, or no memory */
  RLX_RUN_FAILED = 6,       /**< only the data was wrong: index out of range, division by zero */
  RLX_IO = 7,               /**< a file could not be read or written */
  RLX_INTERNAL = 8,         /**< a bug of rlx that was caught */
  RLX_NOT_READY = 9,        /**< still being compiled, and the caller would not wait (longer) */
  RLX_CANCELLED = 10,       /**< the caller gave up on it */
  RLX_COMPILER_FAILED = 11  /**< the compiler died, took too long or too much memory; asking again may help */
};

/** RLX_OK for NULL. */
RLX_API rlx_code rlx_status_code(const rlx_status *status);
/** One line that names the thing and the way out, valid as long as `status`; "" for NULL. */
RLX_API const char *rlx_status_message(const rlx_status *status);
RLX_API void rlx_status_destroy(rlx_status **status);
/** "invalid argument", ...; "unknown" for what is no code. */
RLX_API const char *rlx_code_name(rlx_code code);

/** Types of elements. Values are little-endian; an i1 takes a byte, and is true where that is not 0. */
typedef int32_t rlx_dtype;
enum {
  RLX_I1 = 0,
  RLX_I8 = 1,
  RLX_I16 = 2,
  RLX_I32 = 3,
  RLX_I64 = 4,
  RLX_U8 = 5,
  RLX_U16 = 6,
  RLX_U32 = 7,
  RLX_U64 = 8,
  RLX_F16 = 9,
  RLX_BF16 = 10,
  RLX_F32 = 11,
  RLX_F64 = 12
};

/** Bytes of an element, 1, 2, 4 or 8; 0 for what is no type. */
RLX_API size_t rlx_dtype_size(rlx_dtype dtype);
/** "f32", "i1", ...; "unknown" for what is no type. */
RLX_API const char *rlx_dtype_name(rlx_dtype dtype);

/* ---- Engine -------------------------------------------------------------- */

/** For sizes in options: no limit. 0 is the default. */
#define RLX_UNLIMITED SIZE_MAX

/** Where compiling happens. */
enum {
  RLX_COMPILER_IN_PROCESS = 0, /**< librlx-compiler is loaded when first needed */
  RLX_COMPILER_WORKER = 1      /**< in a process of its own, started when first needed and again when it has died */
};

/** Called with one line, without its end, from the thread that has something to say. */
typedef void (*rlx_log_fn)(void *user, const char *line);

/** Where the memory of runs comes from: arenas, and the outputs that they return. Both functions are called from any
    thread; neither may throw. */
typedef struct rlx_allocator {
  void *user;
  /** `bytes`, 1 or more, aligned to `alignment`, a power of two. NULL where there is no memory. */
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  /** What allocate() gave, with the same size. */
  void (*deallocate)(void *user, void *pointer, size_t bytes);
  /** Called once, when nothing of rlx uses it any more. May be NULL. */
  void (*release)(void *user);
} rlx_allocator;

/** The caller's threads. */
typedef struct rlx_thread_pool {
  void *user;
  /** Into how many threads work is worth splitting, the one that has the work among them; 1 to 256. */
  uint32_t threads;
  /**
   * Takes `task`, to be given to rlx_task_run() or rlx_task_drop() once, now or later, on any thread whose stack is
   * of the usual size (8 MiB). Returns without waiting for it. Called from any thread; may not throw.
   */
  void (*submit)(void *user, rlx_task *task);
  /** Called once, when nothing of rlx uses it any more. May be NULL. */
  void (*release)(void *user);
} rlx_thread_pool;

/** Runs a task that a pool was given, and frees it. A task waits for no other, and does nothing when it comes late. */
RLX_API void rlx_task_run(rlx_task *task);
/** Frees it. Costs speed only. */
RLX_API void rlx_task_drop(rlx_task *task);

typedef struct rlx_engine_options {
  size_t struct_size;
  /** Specializations an executable holds unless it says otherwise. Default: 64. */
  size_t cache_entries;
  /** Bytes of specializations, templates and code that it holds. Default: 256 MiB. */
  size_t cache_bytes;
  /** Threads that make specializations in the background, 1 to 64. Default: 1. */
  uint32_t background_threads;
  /** Threads of a run and of a compilation, the calling one among them: 1 is serial. Default: all of `pool`, or,
     without one, one a physical core that the process may use. */
  int32_t threads;
  /** Memory of runs that is kept for later ones. Default: 1 GiB. */
  size_t idle_bytes;
  /** Milliseconds after which it is given back when it was not used. Default: 10,000. */
  int64_t idle_ms;
  /** RLX_COMPILER_... Default: in the process. */
  int32_t compiler;
  /** Of a worker: its program. Default: rlx-compile-worker where this build keeps it. */
  const char *worker_program;
  /** Of a worker: milliseconds a request may take; below 0 no limit. Default: 120,000. */
  int64_t worker_timeout_ms;
  /** Of a worker: memory of its own; what it maps of the model does not count. Default: no limit. */
  size_t worker_memory_bytes;
  /** Called with one line for each miss, possibly from several threads at once. It may call the engine and its
      executables. */
  rlx_log_fn log;
  void *log_user;
  /** Copied. Default: the system's. */
  const rlx_allocator *allocator;
  /** Copied. Default: the engine starts threads of its own. */
  const rlx_thread_pool *pool;
} rlx_engine_options;

typedef struct rlx_engine_info {
  size_t struct_size;
  /** Threads that share the work of a run, the calling one among them. */
  uint32_t threads;
  /** Kernels held, and the bytes of their code. */
  size_t kernels, code_bytes;
} rlx_engine_info;

/** `options` may be NULL. Errors: an option out of its range; threads that the system does not give. */
RLX_API RLX_CHECK rlx_status *rlx_engine_create(const rlx_engine_options *options, rlx_engine **engine);
RLX_API void rlx_engine_destroy(rlx_engine **engine);
/** Gives back memory that no run uses. */
RLX_API RLX_CHECK rlx_status *rlx_engine_trim(rlx_engine *engine);
/** Fills in what of `info` lies within its struct_size, which the caller sets. */
RLX_API RLX_CHECK rlx_status *rlx_engine_get_info(const rlx_engine *engine, rlx_engine_info *info);

/* ---- Model --------------------------------------------------------------- */

typedef struct rlx_load_options {
  size_t struct_size;
  /** .mlir and text: where its weights are. Default: beside the model; none for text. */
  const char *weights_file;
  /** .onnx: every dim of every input becomes a name. Default: 0, what the file says. */
  int32_t dynamic_inputs;
} rlx_load_options;

typedef struct rlx_model_info {
  size_t struct_size;
  const char *name;
  size_t dim_count, input_count, output_count, param_count;
  /** What the file made us wonder about. */
  const char *const *warnings;
  size_t warning_count;
} rlx_model_info;

/** An input, output or param. */
typedef struct rlx_tensor_info {
  size_t struct_size;
  const char *name;
  rlx_dtype dtype;
  int32_t rank;
  /** Each axis: its size where that is a number, else -1. */
  const int64_t *shape;
  /** Each axis as an expression over the dims: "batch", "2 * S", "3". */
  const char *const *dims;
} rlx_tensor_info;

/** A named size, as the model declares it. */
typedef struct rlx_dim_info {
  size_t struct_size;
  const char *name;
  int64_t min, max, multiple;
  const int64_t *likely;
  size_t likely_count;
  /** Whether buckets may be set along it; where not, `obstacle` says why, else it is "". */
  int32_t paddable;
  const char *obstacle;
} rlx_dim_info;

/**
 * Reads an .onnx or .mlir file. `options` may be NULL. Errors: a file that cannot be read (RLX_IO), is wrong
 * (RLX_INVALID_MODEL) or holds what rlx cannot do (RLX_UNSUPPORTED, naming the nodes); no compiler to be found.
 */
RLX_API RLX_CHECK rlx_status *rlx_model_load(rlx_engine *engine, const char *path, const rlx_load_options *options,
                                             rlx_model **model);
/** Reads `bytes` of a module of the rlx dialect in text form. Of the options only `weights_file` is for it. */
RLX_API RLX_CHECK rlx_status *rlx_model_load_text(rlx_engine *engine, const char *text, size_t bytes,
                                                  const rlx_load_options *options, rlx_model **model);
RLX_API void rlx_model_destroy(rlx_model **model);
RLX_API RLX_CHECK rlx_status *rlx_model_get_info(const rlx_model *model, const rlx_model_info **info);
RLX_API RLX_CHECK rlx_status *rlx_model_get_dim(const rlx_model *model, size_t index, const rlx_dim_info **info);
RLX_API RLX_CHECK rlx_status *rlx_model_get_input(const rlx_model *model, size_t index, const rlx_tensor_info **info);
RLX_API RLX_CHECK rlx_status *rlx_model_get_output(const rlx_model *model, size_t index, const rlx_tensor_info **info);
RLX_API RLX_CHECK rlx_status *rlx_model_get_param(const rlx_model *model, size_t index, const rlx_tensor_info **info);

/* ---- Executable ---------------------------------------------------------- */

/** The size of a named dim. */
typedef struct rlx_size {
  const char *dim;
  int64_t size;
} rlx_size;

/** Sizes by name, in any order, each name once. */
typedef struct rlx_binding {
  const rlx_size *sizes;
  size_t size_count;
} rlx_binding;

/** State of the random ops: Philox 4x32-10, a function of (seed, op key, step). */
typedef struct rlx_rng {
  uint64_t seed;
  uint32_t step;
} rlx_rng;

/** Sizes in [first, end) run at end - 1: inputs are padded with zeros, outputs cut back. Where the model does not take
    the larger sizes, because dims are bounds of each other, they run as they are. */
typedef struct rlx_bucket {
  int64_t first, end;
} rlx_bucket;

/** What the caller knows of a dim beyond the model's own declaration. */
typedef struct rlx_dim_hint {
  size_t struct_size; /**< the same in all hints of an array */
  const char *dim;
  /** Sizes outside are errors. Default: 0, no upper bound, 1. */
  int64_t min, max, multiple;
  /** Sizes to be expected. */
  const int64_t *likely;
  size_t likely_count;
  /** In any order, not overlapping, none empty. A dim that is not paddable is refused. */
  const rlx_bucket *buckets;
  size_t bucket_count;
  /** Besides: buckets up to each power of two from `ladder_low` to `ladder_high`. Default: none. */
  int64_t ladder_low, ladder_high;
} rlx_dim_hint;

typedef struct rlx_executable_options {
  size_t struct_size;
  /** NULL: seed 42, step 0. */
  const rlx_rng *rng;
  /** Default: the engine's. */
  size_t cache_entries, cache_bytes;
  const rlx_dim_hint *hints;
  size_t hint_count;
  /** Not 0: makes the specializations of all combinations of likely sizes in the background, at once. An error where a
      dim has none, or where they are more than cache_entries. */
  int32_t prepare_likely;
} rlx_executable_options;

/** Nothing compiles yet. `options` may be NULL. */
RLX_API RLX_CHECK rlx_status *rlx_executable_create(rlx_engine *engine, const rlx_model *model,
                                                    const rlx_executable_options *options, rlx_executable **executable);
RLX_API void rlx_executable_destroy(rlx_executable **executable);
/** Shares graph, weights, kernels, cache and statistics; owns params (copied as they are now) and rng. */
RLX_API RLX_CHECK rlx_status *rlx_executable_clone(const rlx_executable *executable, rlx_executable **clone);

/**
 * Copies `bytes` of `dtype` into a param: the param's type, or f32 for an f16 or bf16 one (rounded to nearest even).
 * Seen by runs that start later. Errors: no such param, another type, wrong length.
 */
RLX_API RLX_CHECK rlx_status *rlx_executable_set_param(rlx_executable *executable, const char *name, rlx_dtype dtype,
                                                       const void *data, size_t bytes);
/** Ends a round of setting: packs what specializations want packed. Error: params that are not set, by name. */
RLX_API RLX_CHECK rlx_status *rlx_executable_finalize_params(rlx_executable *executable);
RLX_API RLX_CHECK rlx_status *rlx_executable_set_rng(rlx_executable *executable, rlx_rng rng);
RLX_API RLX_CHECK rlx_status *rlx_executable_get_rng(const rlx_executable *executable, rlx_rng *rng);

/* ---- Runs ---------------------------------------------------------------- */

/** For rlx_input: only the number of elements is known; `rank` is 0 and `shape` NULL, and the sizes are solved. */
#define RLX_FLAT UINT64_C(1)

/** An input of a run: row-major, read only, borrowed for the length of the call, at any alignment. */
typedef struct rlx_input {
  /** NULL: the input of the model that has this place in the array. All of an array or none. */
  const char *name;
  const void *data; /**< NULL where `bytes` is 0 */
  size_t bytes;
  const int64_t *shape; /**< `rank` sizes */
  int32_t rank;
  /** The input's type; f32 for an f16 or bf16 one is narrowed, rounded to nearest even. */
  rlx_dtype dtype;
  uint64_t flags; /**< 0 or RLX_FLAT */
} rlx_input;

/** Where the caller wants an output. Must not overlap an input or another output. */
typedef struct rlx_output {
  /** NULL: the output of the model that has this place in the array. All of an array or none. */
  const char *name;
  void *data; /**< NULL where `bytes` is 0 */
  /** Exactly what the output takes: the number of elements joins the solving of the sizes. */
  size_t bytes;
  /** The output's type; f32 for an f16 or bf16 one widens. */
  rlx_dtype dtype;
  uint32_t flags; /**< 0 */
} rlx_output;

/** Values, row-major. */
typedef struct rlx_view {
  const void *data; /**< 64-byte aligned, never NULL */
  size_t bytes;
  const int64_t *shape; /**< `rank` sizes; NULL only where `rank` is 0 */
  int32_t rank;
  rlx_dtype dtype;
} rlx_view;

/** How a run came by its specialization. */
enum {
  RLX_HIT = 0,          /**< it was in the cache, or another thread was making it */
  RLX_INSTANTIATED = 1, /**< from a template there was; kernels may still have compiled */
  RLX_NEW_TEMPLATE = 2  /**< the compiler was asked for a template */
};

/** What a run does when its specialization is not there yet. */
enum {
  RLX_WAIT = 0,     /**< makes it, or waits for who makes it */
  /** makes it where that takes no compiler; else has it made in the background, unless as many as the cache holds
     wait for that, and is RLX_NOT_READY */
  RLX_FAIL_FAST = 1
};

/** Of one run. Filled in as far as `struct_size` goes, also when the run fails after its sizes were solved. */
typedef struct rlx_run_report {
  size_t struct_size;
  /** The caller's room for the sizes of the model's dims, in the model's order: NULL, or as many as there are dims. */
  int64_t *sizes;
  size_t size_count;
  int32_t origin; /**< RLX_HIT, ... */
  /** Making the specialization or waiting for it, and running. Milliseconds. */
  double specialize_ms, run_ms;
} rlx_run_report;

typedef struct rlx_run_options {
  size_t struct_size;
  /** Sizes the caller knows; the rest is solved from the inputs. */
  const rlx_size *sizes;
  size_t size_count;
  /** RLX_WAIT (default) or RLX_FAIL_FAST. */
  int32_t on_miss;
  /** With RLX_WAIT: nanoseconds of the compiler after which the run is RLX_NOT_READY, and the making goes on in the
     background. Default: 0, as long as it takes. */
  int64_t timeout_ns;
  /** Instead of the executable's step counter. */
  const uint32_t *step;
  rlx_run_report *report;
} rlx_run_options;

/*
 * `inputs` holds every input of the model once, in any order with names, in the model's order without. `options` may be
 * NULL. Errors: RLX_INVALID_ARGUMENT, RLX_UNSOLVABLE and RLX_OUT_OF_RANGE name the dim, input, axis and sizes; an error
 * that only the data made is RLX_RUN_FAILED and names the node.
 */

/** Computes all outputs: `output_count` is their number, and each place of `outputs` gets a tensor. */
RLX_API RLX_CHECK rlx_status *rlx_run(rlx_executable *executable, const rlx_input *inputs, size_t input_count,
                                      rlx_tensor **outputs, size_t output_count, const rlx_run_options *options);
/** Computes only the outputs of these `indices`, returned in the order asked; an index may repeat. */
RLX_API RLX_CHECK rlx_status *rlx_run_outputs(rlx_executable *executable, const rlx_input *inputs, size_t input_count,
                                              const size_t *indices, rlx_tensor **outputs, size_t output_count,
                                              const rlx_run_options *options);
/** Computes into the caller's buffers: with names any subset of the outputs, each once; without, the first
    `output_count`. A hit allocates nothing (of up to 24 inputs and 8 outputs, where no sizes are given; offers to a
    caller's thread pool apart). On error the contents of the buffers are unspecified. */
RLX_API RLX_CHECK rlx_status *rlx_run_into(rlx_executable *executable, const rlx_input *inputs, size_t input_count,
                                           const rlx_output *outputs, size_t output_count,
                                           const rlx_run_options *options);
/**
 * The sizes of the model's dims, in the model's order, that a run with these inputs would have. `given` may be NULL.
 * `size_count` is the number of dims.
 */
RLX_API RLX_CHECK rlx_status *rlx_executable_solve(const rlx_executable *executable, const rlx_input *inputs,
                                                   size_t input_count, const rlx_binding *given, int64_t *sizes,
                                                   size_t size_count);

/** Memory of runs. One run at a time; a second at the same time is RLX_INVALID_ARGUMENT, and so is an input in it. */
RLX_API RLX_CHECK rlx_status *rlx_context_create(rlx_executable *executable, rlx_context **context);
RLX_API void rlx_context_destroy(rlx_context **context);
/**
 * Computes the outputs of `indices`, or, where it is NULL, all. `*outputs` points to as many views, in that order,
 * valid until the context's next run or its end. `index_count` is 0 where `indices` is NULL; `output_count` may be
 * NULL.
 */
RLX_API RLX_CHECK rlx_status *rlx_context_run(rlx_context *context, const rlx_input *inputs, size_t input_count,
                                              const size_t *indices, size_t index_count, const rlx_view **outputs,
                                              size_t *output_count, const rlx_run_options *options);
/** Gives the context's memory back to the engine: views are not valid any more. Does nothing while a run goes on. */
RLX_API RLX_CHECK rlx_status *rlx_context_trim(rlx_context *context);

RLX_API RLX_CHECK rlx_status *rlx_tensor_view(const rlx_tensor *tensor, rlx_view *view);
RLX_API void rlx_tensor_destroy(rlx_tensor **tensor);

/* ---- Preparing ----------------------------------------------------------- */

/** Makes specializations ahead of their first run, in order, until one fails. Every dim must be given. */
RLX_API RLX_CHECK rlx_status *rlx_executable_prepare(rlx_executable *executable, const rlx_binding *bindings,
                                                     size_t binding_count);

/** `failed` are among `done`. */
typedef struct rlx_progress {
  size_t done, failed, total;
} rlx_progress;
/** Called after each binding, from background threads, never two at once; not any more once the engine ends. */
typedef void (*rlx_progress_fn)(void *user, rlx_progress progress);

/**
 * The same on the engine's background threads. `progress` may be NULL; it may be called until rlx_preparation_wait()
 * has returned other than RLX_NOT_READY. Destroying the handle does not cancel. Error: a binding that no run could
 * have.
 */
RLX_API RLX_CHECK rlx_status *rlx_executable_prepare_in_background(rlx_executable *executable,
                                                                   const rlx_binding *bindings, size_t binding_count,
                                                                   rlx_progress_fn progress, void *user,
                                                                   rlx_preparation **preparation);
/** Of rlx_executable_options.prepare_likely; NULL without. */
RLX_API RLX_CHECK rlx_status *rlx_executable_get_likely(const rlx_executable *executable,
                                                        rlx_preparation **preparation);
RLX_API RLX_CHECK rlx_status *rlx_preparation_progress(const rlx_preparation *preparation, rlx_progress *progress);
/** What has not begun is dropped (RLX_CANCELLED); what has goes on to its end. */
RLX_API RLX_CHECK rlx_status *rlx_preparation_cancel(rlx_preparation *preparation);
/** Until all are made, failed or dropped, or so many nanoseconds are over (RLX_NOT_READY); 0: as long as it takes. The
    error of the first binding, in order, that has one. With 0, a callback on a background thread does not wait for what
    is not over (RLX_INVALID_ARGUMENT). */
RLX_API RLX_CHECK rlx_status *rlx_preparation_wait(rlx_preparation *preparation, int64_t timeout_ns);
RLX_API void rlx_preparation_destroy(rlx_preparation **preparation);

/* ---- Statistics ---------------------------------------------------------- */

/** Time spent in a phase of compiling. */
typedef struct rlx_phase {
  const char *name;
  double ms;
} rlx_phase;

/** Counts since the executable was made, its clones' among them, and what is held now. */
typedef struct rlx_statistics {
  size_t struct_size;
  uint64_t hits;
  uint64_t misses; /**< specializations begun, ahead of a run or for it */
  uint64_t evictions;
  uint64_t templates_made;    /**< compiles: misses that the compiler had to form a plan for */
  uint64_t templates_reused;  /**< misses served by instantiation alone */
  uint64_t templates_dropped; /**< made, and let go of since */
  uint64_t failures;          /**< misses that ended in an error */
  uint64_t not_ready;         /**< runs that did not wait, or not long enough */
  uint64_t kernels_compiled, kernels_reused;
  uint64_t code_bytes; /**< of the kernels compiled */
  const rlx_phase *phases;
  size_t phase_count;
  /* Held now. The three kinds of bytes are what cache_bytes bounds. */
  uint64_t entries, plan_bytes; /**< specializations */
  uint64_t templates, template_bytes;
  uint64_t kernels, kernel_bytes; /**< that the templates hold: code and keys */
  /* Memory of the runs of the whole engine. */
  uint64_t arena_bytes_in_use, arena_bytes_idle;
} rlx_statistics;

/** Where a specialization is. */
enum {
  RLX_READY = 0,
  RLX_MAKING = 1, /**< some thread makes it */
  RLX_QUEUED = 2  /**< a background thread will, unless a run that waits comes first */
};

/** One specialization. Of one that is not ready only binding and state are told. */
typedef struct rlx_binding_info {
  size_t struct_size;
  rlx_binding binding;
  int32_t state;  /**< RLX_READY, ... */
  int32_t origin; /**< RLX_INSTANTIATED or RLX_NEW_TEMPLATE */
  uint64_t hits;  /**< runs served after the one that made it */
  double idle_ms; /**< since it was used last, or made */
  uint64_t steps;
  uint64_t arena_bytes; /**< of each run */
  uint64_t bytes;       /**< of its plan: what it takes in the cache, template and kernels apart */
  uint64_t kernels_compiled, kernels_reused;
  /** Choices that fell otherwise in the templates there were: "S <= 512 (op: reason)". */
  const char *const *guards_failed;
  size_t guard_count;
  const rlx_phase *phases;
  size_t phase_count;
} rlx_binding_info;

/** A dim that had another size in the run before. */
typedef struct rlx_change {
  const char *dim;
  int64_t from, to;
} rlx_change;

/** Why the latest miss missed. */
typedef struct rlx_miss_info {
  size_t struct_size;
  rlx_binding binding;
  const rlx_change *changes;
  size_t change_count;
  int32_t first;   /**< not 0: there was no run before */
  int32_t evicted; /**< not 0: it had been in the cache */
  int32_t made;    /**< 0: it is still being made, or failed */
  int32_t origin;
  const char *const *guards_failed;
  size_t guard_count;
  const char *error; /**< what the miss ended in; "" when it did not fail */
  const char *text;  /**< all that in a line or more, for people */
} rlx_miss_info;

/** Statistics, bindings held and the latest miss, as they are now. */
RLX_API RLX_CHECK rlx_status *rlx_executable_snapshot(const rlx_executable *executable, rlx_snapshot **snapshot);
RLX_API void rlx_snapshot_destroy(rlx_snapshot **snapshot);
RLX_API RLX_CHECK rlx_status *rlx_snapshot_statistics(const rlx_snapshot *snapshot, const rlx_statistics **statistics);
RLX_API RLX_CHECK rlx_status *rlx_snapshot_binding_count(const rlx_snapshot *snapshot, size_t *count);
/** Most recently used first. */
RLX_API RLX_CHECK rlx_status *rlx_snapshot_binding(const rlx_snapshot *snapshot, size_t index,
                                                   const rlx_binding_info **info);
/** `*miss` is NULL before the first miss. */
RLX_API RLX_CHECK rlx_status *rlx_snapshot_explain(const rlx_snapshot *snapshot, const rlx_miss_info **miss);

/** What a run at a binding would meet now. */
enum {
  RLX_WILL_HIT = 0,         /**< it is there */
  RLX_BEING_MADE = 1,       /**< it is being made, or queued for that */
  RLX_WILL_INSTANTIATE = 2, /**< a template holds here */
  RLX_NEEDS_TEMPLATE = 3,   /**< none does: the compiler is needed */
  RLX_WILL_FAIL = 4         /**< the sizes are in error */
};
typedef struct rlx_forecast_info {
  size_t struct_size;
  int32_t kind; /**< RLX_WILL_HIT, ... */
  /** RLX_NEEDS_TEMPLATE: of each template there is, the guard that does not hold here. */
  const char *const *guards_failed;
  size_t guard_count;
  const char *error; /**< of RLX_WILL_FAIL; else "" */
  const char *text;  /**< all that in a line or more, for people */
} rlx_forecast_info;
/** What a run at `binding`, of every dim, would meet now; changes nothing. */
RLX_API RLX_CHECK rlx_status *rlx_executable_forecast(const rlx_executable *executable, const rlx_binding *binding,
                                                      rlx_forecast **forecast);
RLX_API RLX_CHECK rlx_status *rlx_forecast_get_info(const rlx_forecast *forecast, const rlx_forecast_info **info);
RLX_API void rlx_forecast_destroy(rlx_forecast **forecast);

/* ---- DLPack -------------------------------------------------------------- */

/*
 * The structs of DLPack's exchanges, unversioned and of version 1, ABI-compatible. Where <dlpack/dlpack.h> is included
 * before this header, they are its own; where it is included after, a pointer to its structs is cast.
 */
#ifdef DLPACK_DLPACK_H_
typedef DLTensor rlx_dl_tensor;
typedef DLManagedTensor rlx_dl_managed_tensor;
#else
typedef struct rlx_dl_tensor {
  void *data;
  struct {
    int32_t device_type; /**< 1: CPU */
    int32_t device_id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code; /**< 0 int, 1 unsigned, 2 float, 4 bfloat, 6 bool */
    uint8_t bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape;
  int64_t *strides; /**< in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} rlx_dl_tensor;
typedef struct rlx_dl_managed_tensor {
  rlx_dl_tensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct rlx_dl_managed_tensor *self);
} rlx_dl_managed_tensor;
#endif
#if defined(DLPACK_DLPACK_H_) && defined(DLPACK_MAJOR_VERSION)
typedef DLManagedTensorVersioned rlx_dl_managed_tensor_versioned;
#else
typedef struct rlx_dl_managed_tensor_versioned {
  struct {
    uint32_t major, minor;
  } version;
  void *manager_ctx;
  void (*deleter)(struct rlx_dl_managed_tensor_versioned *self);
  uint64_t flags; /**< 1: must not be written to; 2: is a copy */
  rlx_dl_tensor dl_tensor;
} rlx_dl_managed_tensor_versioned;
#endif

/** Shares the tensor's memory, no copy. Its deleter may be called before or after the tensor is destroyed. */
RLX_API RLX_CHECK rlx_status *rlx_tensor_to_dlpack(rlx_tensor *tensor, rlx_dl_managed_tensor **managed);
/** The same as version 1.0, for who asks for that: `__dlpack__(max_version=(1, 0))`, a capsule "dltensor_versioned". */
RLX_API RLX_CHECK rlx_status *rlx_tensor_to_dlpack_versioned(rlx_tensor *tensor,
                                                             rlx_dl_managed_tensor_versioned **managed);
/**
 * Makes `input` a view of `tensor`, which must be on the CPU, of one lane and a type that rlx has. Values with strides
 * other than row-major are copied where `copy` is not NULL: `*copy` then holds them, to be destroyed after the run, and
 * is NULL where no copy was needed. Without `copy` they are an error. `name` and the shape of `tensor` are borrowed as
 * long as `input` is used.
 */
RLX_API RLX_CHECK rlx_status *rlx_input_from_dlpack(const rlx_dl_tensor *tensor, const char *name, rlx_input *input,
                                                    rlx_tensor **copy);
/**
 * The same of a versioned tensor, which stays the caller's; it may be one that must not be written to. RLX_UNSUPPORTED:
 * another major version than 1, of which nothing but the deleter may be used.
 */
RLX_API RLX_CHECK rlx_status *rlx_input_from_dlpack_versioned(const rlx_dl_managed_tensor_versioned *managed,
                                                              const char *name, rlx_input *input, rlx_tensor **copy);

#ifdef __cplusplus
}
#endif

#endif /* RLX_RLX_H */
