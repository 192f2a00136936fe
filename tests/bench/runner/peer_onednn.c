/* oneDNN 2 (Debian's libdnnl): LIBRARY OPERATION ARGUMENTS..., for rows of a single operation:
 *
 *   matmul [WEIGHTS]                        conv2d STRIDE PADDING GROUPS KERNEL WEIGHTS BIAS
 *   softmax                                 layer_norm EPSILON GAMMA BETA
 *
 * Inputs and outputs are plain (row-major, NCHW); the library chooses its own layout for the
 * weights, which are brought into it beforehand, and for the rest, where bringing it there and back
 * is part of the call. The second peer, `onednn-blocked`, gets inputs and leaves outputs in the
 * library's layout, as between the layers of a network: there the conversions stand outside.
 */
#include "runner.h"
#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#endif

#if defined(DNNL_VERSION_MAJOR) && DNNL_VERSION_MAJOR == 2
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(F)                                                                               \
  F(engine_create)                                                                                 \
  F(stream_create)                                                                                 \
  F(stream_wait)                                                                                   \
  F(memory_create)                                                                                 \
  F(memory_desc_init_by_tag)                                                                       \
  F(memory_desc_equal)                                                                             \
  F(matmul_desc_init)                                                                              \
  F(convolution_forward_desc_init)                                                                 \
  F(softmax_forward_desc_init)                                                                     \
  F(layer_normalization_forward_desc_init)                                                         \
  F(primitive_desc_create)                                                                         \
  F(primitive_desc_query_md)                                                                       \
  F(primitive_create)                                                                              \
  F(primitive_execute)                                                                             \
  F(reorder_primitive_desc_create)

enum { MAX_STEPS = 3, MAX_OPERANDS = 4 };

typedef struct {
  dnnl_primitive_t primitive;
  int nargs;
  dnnl_exec_arg_t args[MAX_OPERANDS];
} Step;

typedef union {
  dnnl_matmul_desc_t matmul;
  dnnl_convolution_desc_t conv2d;
  dnnl_softmax_desc_t softmax;
  dnnl_layer_normalization_desc_t layer_norm;
} Operation;

typedef struct {
#define MEMBER(name) __typeof__(dnnl_##name) *name;
  FUNCTIONS(MEMBER)
#undef MEMBER
  char **args;
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  int nsteps;
  Step steps[MAX_STEPS];
  int begin, end;       /* those of a call; later ones bring the results to the caller afterwards */
  dnnl_status_t status; /* the first failure; later calls are skipped */
} OneDnn;

#define TRY(call)                                                                                  \
  if (d->status == dnnl_success) d->status = (call)

static const char *check(OneDnn *d) {
  return d->status == dnnl_success ? NULL : failure("oneDNN: status %d", d->status);
}

static const char *onednn_open(void **state, int threads, char **args) {
  (void)threads; /* OMP_NUM_THREADS says it */
  const char *why;
  OneDnn *d = allocate(sizeof *d);
  *state = d;
  d->args = args + 1;
  void *library = load_library(args[0], &why);
  if (!library) return why;
#define FIND(name)                                                                                 \
  if (!(d->name = (__typeof__(dnnl_##name) *)find_symbol(library, "dnnl_" #name, &why))) return why;
  FUNCTIONS(FIND)
#undef FIND
  TRY(d->engine_create(&d->engine, dnnl_cpu, 0));
  TRY(d->stream_create(&d->stream, d->engine, dnnl_stream_default_flags));
  return check(d);
}

static dnnl_memory_desc_t describe(OneDnn *d, int rank, const int64_t *dims,
                                   dnnl_format_tag_t tag) {
  dnnl_memory_desc_t desc = {0};
  TRY(d->memory_desc_init_by_tag(&desc, rank, dims, dnnl_f32, tag));
  return desc;
}

static dnnl_memory_desc_t plain(OneDnn *d, int rank, const int64_t *dims) {
  static const dnnl_format_tag_t tags[] = {
      dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
  return describe(d, rank, dims, tags[rank]);
}

static dnnl_memory_t wrap(OneDnn *d, const dnnl_memory_desc_t *desc, void *data) {
  dnnl_memory_t memory = NULL;
  TRY(d->memory_create(&memory, desc, d->engine, data));
  return memory;
}

static void add_step(OneDnn *d, dnnl_primitive_desc_t desc, int nargs, const int *names,
                     const dnnl_memory_t *memories) {
  Step *s = &d->steps[d->nsteps++];
  TRY(d->primitive_create(&s->primitive, desc));
  for (s->nargs = 0; s->nargs < nargs; s->nargs++)
    s->args[s->nargs] = (dnnl_exec_arg_t){names[s->nargs], memories[s->nargs]};
}

static void add_reorder(OneDnn *d, const dnnl_memory_desc_t *from, dnnl_memory_t source,
                        const dnnl_memory_desc_t *to, dnnl_memory_t destination) {
  dnnl_primitive_desc_t desc = NULL;
  TRY(d->reorder_primitive_desc_create(&desc, from, d->engine, to, d->engine, NULL));
  add_step(d, desc, 2, (int[]){DNNL_ARG_FROM, DNNL_ARG_TO}, (dnnl_memory_t[]){source, destination});
}

static void run_steps(OneDnn *d, int begin, int end) {
  for (int i = begin; i < end; i++) {
    Step *s = &d->steps[i];
    TRY(d->primitive_execute(s->primitive, d->stream, s->nargs, s->args));
  }
  TRY(d->stream_wait(d->stream));
}

static int onednn_call(void *state) {
  OneDnn *d = state;
  run_steps(d, d->begin, d->end);
  return d->status != dnnl_success;
}

static const char *onednn_fetch(void *state) {
  OneDnn *d = state;
  run_steps(d, d->end, d->nsteps);
  return check(d);
}

/* Memory in the layout that the operation wants, and the step that fills it from `data` (or, for
 * the output, empties it into `data`), unless it is plain. */
static dnnl_memory_t operand(OneDnn *d, const dnnl_memory_desc_t *wanted, const Tensor *t,
                             int is_output) {
  dnnl_memory_desc_t given = plain(d, t->rank, t->dims);
  dnnl_memory_t user = wrap(d, &given, t->data);
  if (d->memory_desc_equal(&given, wanted)) return user;
  dnnl_memory_t own = wrap(d, wanted, DNNL_MEMORY_ALLOCATE);
  if (is_output)
    add_reorder(d, wanted, own, &given, user);
  else
    add_reorder(d, &given, user, wanted, own);
  return own;
}

/* The same for weights: done at once. */
static dnnl_memory_t constant(OneDnn *d, const dnnl_memory_desc_t *wanted, const Tensor *t) {
  dnnl_memory_t memory = operand(d, wanted, t, 0);
  run_steps(d, 0, d->nsteps);
  d->nsteps = 0;
  return memory;
}

static Tensor weights(int rank, const int64_t *dims, const char *file) {
  Tensor t = {.rank = rank, .bytes = 4};
  for (int i = 0; i < rank; i++) t.bytes *= (size_t)(t.dims[i] = dims[i]);
  t.data = read_file(file, t.bytes);
  return t;
}

/* Describes the operation and its constant operands, which follow the input as arguments `names`.
 */
static int describe_operation(OneDnn *d, Operation *op, const Case *c, const Tensor *out,
                              Tensor *constants, int *names) {
  const Tensor *x = &c->inputs[0];
  char **a = d->args;
  dnnl_memory_desc_t src = plain(d, x->rank, x->dims), dst = plain(d, out->rank, out->dims);
  if (strcmp(a[0], "softmax") == 0) {
    TRY(d->softmax_forward_desc_init(&op->softmax, dnnl_forward_inference, &src, x->rank - 1));
    return 0;
  }
  if (strcmp(a[0], "layer_norm") == 0) {
    TRY(d->layer_normalization_forward_desc_init(&op->layer_norm, dnnl_forward_inference, &src,
                                                 NULL, (float)atof(a[1]),
                                                 dnnl_use_scale | dnnl_use_shift));
    for (int i = 0; i < 2; i++) constants[i] = weights(1, &x->dims[x->rank - 1], a[2 + i]);
    names[0] = DNNL_ARG_SCALE;
    names[1] = DNNL_ARG_SHIFT;
    return 2;
  }
  if (strcmp(a[0], "matmul") == 0) {
    int64_t dims[2] = {x->dims[1], out->dims[1]};
    constants[0] = a[1] ? weights(2, dims, a[1]) : c->inputs[1];
    dnnl_memory_desc_t w = a[1] ? describe(d, 2, dims, dnnl_format_tag_any) : plain(d, 2, dims);
    TRY(d->matmul_desc_init(&op->matmul, &src, &w, NULL, &dst));
    names[0] = DNNL_ARG_WEIGHTS;
    return 1;
  }
  int64_t stride = atoi(a[1]), padding = atoi(a[2]), groups = atoi(a[3]), kernel = atoi(a[4]);
  int64_t channels = out->dims[1], inner = x->dims[1] / groups;
  int64_t dims[5] = {groups, channels / groups, inner, kernel, kernel};
  const int64_t *shape = groups > 1 ? dims : dims + 1;
  int rank = groups > 1 ? 5 : 4;
  constants[0] = weights(rank, shape, a[5]);
  constants[1] = weights(1, &channels, a[6]);
  names[0] = DNNL_ARG_WEIGHTS;
  names[1] = DNNL_ARG_BIAS;
  src = describe(d, 4, x->dims, dnnl_format_tag_any);
  dst = describe(d, 4, out->dims, dnnl_format_tag_any);
  dnnl_memory_desc_t w = describe(d, rank, shape, dnnl_format_tag_any), b = plain(d, 1, &channels);
  TRY(d->convolution_forward_desc_init(&op->conv2d, dnnl_forward_inference, dnnl_convolution_direct,
                                       &src, &w, &b, &dst, (dnnl_dims_t){stride, stride},
                                       (dnnl_dims_t){padding, padding},
                                       (dnnl_dims_t){padding, padding}));
  return 2;
}

/* Gives the place of the operation among the steps. */
static int prepare(OneDnn *d, const Case *c, const Tensor *outputs) {
  Operation op;
  Tensor constants[2];
  int names[2 + 2] = {0};
  d->nsteps = 0;
  int n = describe_operation(d, &op, c, &outputs[0], constants, names);
  dnnl_primitive_desc_t desc = NULL;
  TRY(d->primitive_desc_create(&desc, &op, NULL, d->engine, NULL));
  if (d->status != dnnl_success) return 0;
  dnnl_memory_t memories[2 + 2];
  for (int i = 0; i < n; i++) {
    dnnl_memory_desc_t given = plain(d, constants[i].rank, constants[i].dims);
    int is_weights = names[i] == DNNL_ARG_WEIGHTS;
    const dnnl_memory_desc_t *wanted =
        is_weights ? d->primitive_desc_query_md(desc, dnnl_query_weights_md, 0) : &given;
    memories[i] = constant(d, wanted, &constants[i]);
  }
  names[n] = DNNL_ARG_SRC;
  names[n + 1] = DNNL_ARG_DST;
  memories[n] =
      operand(d, d->primitive_desc_query_md(desc, dnnl_query_src_md, 0), &c->inputs[0], 0);
  int position = d->nsteps++; /* the output's reorder follows the operation */
  memories[n + 1] =
      operand(d, d->primitive_desc_query_md(desc, dnnl_query_dst_md, 0), &outputs[0], 1);
  int end = d->nsteps;
  d->nsteps = position;
  add_step(d, desc, n + 2, names, memories);
  d->nsteps = end;
  return position;
}

static const char *onednn_bind(void *state, Case *c, Tensor *outputs) {
  OneDnn *d = state;
  prepare(d, c, outputs);
  d->begin = 0;
  d->end = d->nsteps;
  return check(d);
}

static const char *onednn_bind_blocked(void *state, Case *c, Tensor *outputs) {
  OneDnn *d = state;
  d->begin = prepare(d, c, outputs);
  d->end = d->begin + 1;
  run_steps(d, 0, d->begin);
  return check(d);
}

#else
static const char *onednn_open(void **state, int threads, char **args) {
  (void)state, (void)threads, (void)args;
  return "built without oneDNN 2 (libdnnl-dev)";
}
static const char *onednn_bind(void *state, Case *c, Tensor *outputs) {
  (void)state, (void)c, (void)outputs;
  return NULL;
}
#define onednn_bind_blocked onednn_bind
static int onednn_call(void *state) {
  (void)state;
  return 1;
}
static const char *onednn_fetch(void *state) {
  (void)state;
  return NULL;
}
#endif

const PeerKind peer_onednn = {"onednn", onednn_open, onednn_bind, onednn_call, onednn_fetch};
const PeerKind peer_onednn_blocked = {"onednn-blocked", onednn_open, onednn_bind_blocked,
                                      onednn_call, onednn_fetch};
