/* OpenVINO through its C interface: LIBRARY MODEL.onnx. Computes in float32, one stream. */
#include "runner.h"
#include <stdio.h>
#include <string.h>

typedef struct {
  int64_t rank;
  int64_t *dims;
} Shape;
static const int TYPES[] = {4, 10, 16}; /* float32, int64, uint8 */

/* Result, name and parameters of each function used. */
#define FUNCTIONS(F)                                                                               \
  F(int, core_create, (void **))                                                                   \
  F(int, core_read_model, (void *, const char *, const char *, void **))                           \
  F(int, core_compile_model, (void *, void *, const char *, size_t, void **, ...))                 \
  F(int, compiled_model_create_infer_request, (void *, void **))                                   \
  F(int, tensor_create_from_host_ptr, (int, Shape, void *, void **))                               \
  F(int, infer_request_set_tensor, (void *, const char *, void *))                                 \
  F(int, infer_request_get_output_tensor_by_index, (void *, size_t, void **))                      \
  F(int, infer_request_infer, (void *))                                                            \
  F(int, tensor_data, (void *, void **))                                                           \
  F(int, tensor_get_byte_size, (void *, size_t *))                                                 \
  F(void, tensor_free, (void *))                                                                   \
  F(const char *, get_last_err_msg, (void))

typedef struct {
#define MEMBER(result, name, parameters) result(*name) parameters;
  FUNCTIONS(MEMBER)
#undef MEMBER
  void *request;
  int noutputs;
  Tensor *outputs;
} OpenVino;

static const char *check(OpenVino *o, int status) {
  return status ? failure("%s", o->get_last_err_msg()) : NULL;
}

static const char *openvino_open(void **state, int threads, char **args) {
  const char *why;
  OpenVino *o = allocate(sizeof *o);
  *state = o;
  void *library = load_library(args[0], &why), *core, *model, *compiled;
  if (!library) return why;
#define FIND(result, name, parameters)                                                             \
  if (!(o->name = (result(*) parameters)find_symbol(library, "ov_" #name, &why))) return why;
  FUNCTIONS(FIND)
#undef FIND
  char count[16];
  snprintf(count, sizeof count, "%d", threads);
  int s = o->core_create(&core);
  if (!s) s = o->core_read_model(core, args[1], NULL, &model);
  if (!s)
    s = o->core_compile_model(core, model, "CPU", 10, &compiled, "PERFORMANCE_HINT", "LATENCY",
                              "INFERENCE_PRECISION_HINT", "f32", "INFERENCE_NUM_THREADS", count,
                              "NUM_STREAMS", "1", "ENABLE_CPU_PINNING", "NO");
  if (!s) s = o->compiled_model_create_infer_request(compiled, &o->request);
  return check(o, s);
}

static const char *openvino_bind(void *state, Case *c, Tensor *outputs) {
  OpenVino *o = state;
  int s = 0;
  for (int i = 0; i < c->ninputs && !s; i++) {
    Tensor *t = &c->inputs[i];
    void *tensor;
    s = o->tensor_create_from_host_ptr(TYPES[t->dtype], (Shape){t->rank, t->dims}, t->data,
                                       &tensor);
    if (!s) s = o->infer_request_set_tensor(o->request, t->name, tensor);
    if (!s) o->tensor_free(tensor); /* the request keeps it */
  }
  o->noutputs = c->noutputs;
  o->outputs = outputs;
  return check(o, s);
}

static int openvino_call(void *state) {
  OpenVino *o = state;
  return o->infer_request_infer(o->request);
}

/* Results stay in its own memory, which is its default and costs it no copy. */
static const char *openvino_fetch(void *state) {
  OpenVino *o = state;
  for (int i = 0; i < o->noutputs; i++) {
    void *tensor, *data;
    size_t bytes;
    int s = o->infer_request_get_output_tensor_by_index(o->request, (size_t)i, &tensor);
    if (!s) s = o->tensor_get_byte_size(tensor, &bytes);
    if (!s) s = o->tensor_data(tensor, &data);
    if (s) return check(o, s);
    if (bytes != o->outputs[i].bytes) return failure("output %d has %zu bytes", i, bytes);
    memcpy(o->outputs[i].data, data, bytes);
    o->tensor_free(tensor);
  }
  return NULL;
}

const PeerKind peer_openvino = {"openvino", openvino_open, openvino_bind, openvino_call,
                                openvino_fetch};
