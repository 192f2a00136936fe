/* ONNX Runtime through its C interface: LIBRARY MODEL.onnx.
 *
 * The interface is a table of functions, whose positions never change (a promise of
 * onnxruntime_c_api.h); the wheel has the library without that header, so the few entries used are
 * named here by their positions.
 */
#include "runner.h"

typedef void *Status; /* NULL: fine */

enum {
  GET_ERROR_MESSAGE = 2,
  CREATE_ENV = 3,
  CREATE_SESSION = 7,
  RUN = 9,
  CREATE_SESSION_OPTIONS = 10,
  SET_GRAPH_OPTIMIZATION_LEVEL = 23,
  SET_INTRA_OP_THREADS = 24,
  CREATE_TENSOR_WITH_DATA = 49,
  CREATE_CPU_MEMORY_INFO = 69
};
enum { API_VERSION = 17, LOG_ERRORS = 3, ALL_OPTIMIZATIONS = 99 };
static const int TYPES[] = {1, 7, 2}; /* float32, int64, uint8 */

typedef Status (*Run)(void *session, void *options, const char *const *input_names,
                      void *const *inputs, size_t ninputs, const char *const *output_names,
                      size_t noutputs, void **outputs);

typedef struct {
  void **api;
  void *session, *memory;
  Run run;
  size_t ninputs, noutputs;
  const char *input_names[MAX_TENSORS], *output_names[MAX_TENSORS];
  void *inputs[MAX_TENSORS], *outputs[MAX_TENSORS];
} OnnxRuntime;

#define CALL(index, signature, ...) (((Status(*) signature)o->api[index])(__VA_ARGS__))

static const char *check(OnnxRuntime *o, Status status) {
  if (!status) return NULL;
  return failure("%s", ((const char *(*)(Status))o->api[GET_ERROR_MESSAGE])(status));
}

static const char *onnxruntime_open(void **state, int threads, char **args) {
  struct Base {
    void **(*get_api)(uint32_t version);
  };
  const char *why;
  OnnxRuntime *o = allocate(sizeof *o);
  *state = o;
  void *library = load_library(args[0], &why), *environment, *options;
  if (!library) return why;
  struct Base *(*get_base)(void) =
      (struct Base * (*)(void)) find_symbol(library, "OrtGetApiBase", &why);
  if (!get_base) return why;
  o->api = get_base()->get_api(API_VERSION);
  o->run = (Run)o->api[RUN];
  Status s = CALL(CREATE_ENV, (int, const char *, void **), LOG_ERRORS, "bench", &environment);
  if (!s) s = CALL(CREATE_SESSION_OPTIONS, (void **), &options);
  if (!s) s = CALL(SET_GRAPH_OPTIMIZATION_LEVEL, (void *, int), options, ALL_OPTIMIZATIONS);
  if (!s) s = CALL(SET_INTRA_OP_THREADS, (void *, int), options, threads);
  if (!s)
    s = CALL(CREATE_SESSION, (void *, const char *, void *, void **), environment, args[1], options,
             &o->session);
  if (!s) s = CALL(CREATE_CPU_MEMORY_INFO, (int, int, void **), 0, 0, &o->memory);
  return check(o, s);
}

static Status wrap(OnnxRuntime *o, Tensor *t, void **value) {
  return CALL(CREATE_TENSOR_WITH_DATA,
              (void *, void *, size_t, const int64_t *, size_t, int, void **), o->memory, t->data,
              t->bytes, t->dims, (size_t)t->rank, TYPES[t->dtype], value);
}

static const char *onnxruntime_bind(void *state, Case *c, Tensor *outputs) {
  OnnxRuntime *o = state;
  Status s = NULL;
  o->ninputs = (size_t)c->ninputs;
  o->noutputs = (size_t)c->noutputs;
  for (int i = 0; i < c->ninputs && !s; i++) {
    o->input_names[i] = c->inputs[i].name;
    s = wrap(o, &c->inputs[i], &o->inputs[i]);
  }
  for (int i = 0; i < c->noutputs && !s; i++) {
    o->output_names[i] = outputs[i].name;
    s = wrap(o, &outputs[i], &o->outputs[i]);
  }
  return check(o, s);
}

static int onnxruntime_call(void *state) {
  OnnxRuntime *o = state;
  return o->run(o->session, NULL, o->input_names, o->inputs, o->ninputs, o->output_names,
                o->noutputs, o->outputs) != NULL;
}

const PeerKind peer_onnxruntime = {"onnxruntime", onnxruntime_open, onnxruntime_bind,
                                   onnxruntime_call, NULL};
