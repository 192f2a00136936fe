#include "extern.h"

#include <stdio.h>
#include <stdlib.h>

/* out[i][j] = in[i][j] * k */
int scale_rows(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts) {
  if (nargs != 2 || nouts != 1 || args[0]->ndim != 2 || args[1]->ndim != 0) return 1;
  int64_t k = *(const int64_t *)args[1]->data;
  if (k == 13) return 7;
  const float *in = args[0]->data;
  float *out = outs[0]->data;
  for (int64_t i = 0; i < args[0]->shape[0] * args[0]->shape[1]; i++) out[i] = in[i] * (float)k;
  return 0;
}

/* The indices of rows whose first element is positive: their number depends on the data. */
int positive_rows(DLTensor *const *args, int32_t nargs, DLTensor *const *outs, int32_t nouts) {
  if (nargs != 1 || nouts != 1) return 1;
  const float *in = args[0]->data;
  int64_t n = args[0]->shape[0], count = 0;
  int32_t *out = rx_alloc(n * 4);
  if (!out) return 2;
  for (int64_t i = 0; i < n; i++)
    if (in[i * 4] > 0) out[count++] = (int32_t)i;
  outs[0]->data = out;
  outs[0]->shape[0] = count;
  return 0;
}

int main(void) {
  float x[3][4] = {{1, 2, 3, 4}, {-1, 0, 0, 0}, {5, 6, 7, 8}};
  int64_t k = 3, xs[2] = {3, 4}, shapes[3][16] = {{0}};
  DLTensor tx = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = xs};
  DLTensor tk = {.data = &k, .device = {kDLCPU, 0}, .ndim = 0, .dtype = {kDLInt, 64, 1}};
  DLTensor out[3] = {{0}};
  DLTensor *args[2] = {&tx, &tk}, *outs[3] = {&out[0], &out[1], &out[2]};
  for (int i = 0; i < 3; i++) out[i].shape = shapes[i];
  int status = extern_main_dl(args, 2, outs, 3);
  if (status) {
    printf("status %d: %s\n", status, rx_error());
    return 1;
  }
  const float *b = out[0].data, *d = out[2].data;
  const int32_t *c = out[1].data;
  printf("b %g %g %g, c %lld: %d %d, d %g %g\n", b[0], b[4], b[11], (long long)out[1].shape[0], c[0],
         c[1], d[0], d[11]);
  for (int i = 0; i < 3; i++) {
    rx_free(out[i].data);
    out[i].data = NULL;
  }
  k = 13;
  status = extern_main_dl(args, 2, outs, 3);
  printf("status %d: %s\n", status, rx_error());
  printf("data %d\n", out[0].data != NULL);
  return 0;
}
