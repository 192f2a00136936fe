/* The peers that are plain C libraries: what relaxc compiles, and OpenBLAS. */
#include "runner.h"
#include <stdlib.h>

/* --- relaxc: LIBRARY.so, made with --prefix=m, entry "main" in its DLPack form --- */

typedef int (*Entry)(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts);

typedef struct {
  Entry entry;
  const char *(*error)(void);
  int nargs, nouts;
  DLTensor tensors[2 * MAX_TENSORS];
  DLTensor *args[MAX_TENSORS], *outs[MAX_TENSORS];
} Relaxc;

static const char *relaxc_open(void **state, int threads, char **args) {
  const char *why;
  Relaxc *r = allocate(sizeof *r);
  *state = r;
  void *library = load_library(args[0], &why);
  if (!library) return why;
  int (*set_threads)(int) = (int (*)(int))find_symbol(library, "rx_set_num_threads", &why);
  if (set_threads) set_threads(threads);
  r->error = (const char *(*)(void))find_symbol(library, "rx_error", &why);
  r->entry = (Entry)find_symbol(library, "m_main_dl", &why);
  return r->entry && r->error ? NULL : why;
}

DLTensor dlpack(Tensor *t) {
  static const uint8_t codes[] = {kDLFloat, kDLInt, kDLUInt};
  return (DLTensor){.data = t->data,
                    .device = {kDLCPU, 0},
                    .ndim = t->rank,
                    .dtype = {codes[t->dtype], (uint8_t)(8 * dtype_size(t->dtype)), 1},
                    .shape = t->dims};
}

static const char *relaxc_bind(void *state, Case *c, Tensor *outputs) {
  Relaxc *r = state;
  r->nargs = c->ninputs;
  r->nouts = c->noutputs;
  for (int i = 0; i < r->nargs; i++) {
    r->tensors[i] = dlpack(&c->inputs[i]);
    r->args[i] = &r->tensors[i];
  }
  for (int i = 0; i < r->nouts; i++) {
    r->tensors[MAX_TENSORS + i] = dlpack(&outputs[i]);
    r->outs[i] = &r->tensors[MAX_TENSORS + i];
  }
  return NULL;
}

static int relaxc_call(void *state) {
  Relaxc *r = state;
  return r->entry(r->args, r->nargs, r->outs, r->nouts);
}

const PeerKind peer_relaxc = {"relaxc", relaxc_open, relaxc_bind, relaxc_call, NULL};

/* --- OpenBLAS: the product of two matrices, LIBRARY [WEIGHTS] --- */

typedef void (*Sgemm)(int order, int transa, int transb, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
enum { ROW_MAJOR = 101, NO_TRANS = 111 };

typedef struct {
  Sgemm sgemm;
  const char *weights;
  int m, n, k;
  const float *a, *b;
  float *c;
} OpenBlas;

static const char *openblas_open(void **state, int threads, char **args) {
  const char *why;
  OpenBlas *o = allocate(sizeof *o);
  *state = o;
  o->weights = args[1];
  void *library = load_library(args[0], &why);
  if (!library) return why;
  void (*set_threads)(int) = (void (*)(int))find_symbol(library, "openblas_set_num_threads", &why);
  if (set_threads) set_threads(threads);
  o->sgemm = (Sgemm)find_symbol(library, "cblas_sgemm", &why);
  return o->sgemm ? NULL : why;
}

static const char *openblas_bind(void *state, Case *c, Tensor *outputs) {
  OpenBlas *o = state;
  o->m = (int)outputs[0].dims[0];
  o->n = (int)outputs[0].dims[1];
  o->k = (int)c->inputs[0].dims[1];
  o->a = c->inputs[0].data;
  o->b =
      c->ninputs > 1 ? c->inputs[1].data : read_file(o->weights, (size_t)o->k * (size_t)o->n * 4);
  o->c = outputs[0].data;
  return NULL;
}

static int openblas_call(void *state) {
  OpenBlas *o = state;
  o->sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, o->m, o->n, o->k, 1, o->a, o->k, o->b, o->n, 0, o->c,
           o->n);
  return 0;
}

const PeerKind peer_openblas = {"openblas", openblas_open, openblas_bind, openblas_call, NULL};
