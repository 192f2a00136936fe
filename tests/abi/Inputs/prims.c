/* The plain and DLPack entries of prim_funcs. Expected values: hand arithmetic. */
#include "prims.h"
#include <stdio.h>
#include <string.h>

#define CHECK(c)                                                                                   \
  do                                                                                               \
    if (!(c)) {                                                                                    \
      printf("line %d: %s: %s\n", __LINE__, #c, rx_error());                                       \
      return 1;                                                                                    \
    }                                                                                              \
  while (0)

static DLTensor tensor(void *data, int ndim, int64_t *shape, int code) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = ndim;
  t.dtype.code = (uint8_t)code;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

int main(void) {
  const float x[6] = {1, 2, 3, 4, 5, 6};
  float y[3] = {9, 9, 9};
  CHECK(prims_row_sums(x, y, 2, 3) == 0 && y[0] == 6 && y[1] == 15 && y[2] == 9);
  CHECK(prims_row_sums(NULL, y, 2, 3) == RX_ERR_ARGUMENT);
  CHECK(strstr(rx_error(), "row_sums: argument 'X' is NULL") != NULL);
  CHECK(prims_row_sums(x, y, -1, 3) == RX_ERR_SHAPE);

  CHECK(prims_increase(y, 2.0f, x, 3) == 0 && y[0] == 8 && y[1] == 19 && y[2] == 15);

  int32_t k[4] = {0};
  CHECK(prims_iota(k, 5, 4) == 0 && k[0] == 5 && k[3] == 8);

  static float a[3 * 64], b[64 * 5], c[3 * 5];
  for (int i = 0; i < 3 * 64; i++) a[i] = (float)(i / 64 + 1);
  for (int i = 0; i < 64 * 5; i++) b[i] = (float)(i % 5);
  CHECK(prims_product(a, b, c, 3, 5) == 0);
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 5; j++) CHECK(c[5 * i + j] == (float)(64 * (i + 1) * j));

  /* DLPack: in place, with one tensor for both, then with two; a dim that only the output has. */
  int64_t three[1] = {3}, four[1] = {4};
  float z[3] = {1, 1, 1}, w[3] = {0, 0, 0}, factor = 3;
  DLTensor tz = tensor(z, 1, three, kDLFloat), tx = tensor((void *)x, 1, three, kDLFloat);
  DLTensor tw = tensor(w, 1, three, kDLFloat), tf = tensor(&factor, 0, NULL, kDLFloat);
  DLTensor *args[3] = {&tz, &tf, &tx}, *same[1] = {&tz}, *other[1] = {&tw};
  CHECK(prims_increase_dl(args, 3, other, 1) == 0 && w[2] == 10 && z[2] == 1);
  CHECK(prims_increase_dl(args, 3, same, 1) == 0 && z[0] == 4 && z[2] == 10);
  int32_t first = 7;
  DLTensor ti = tensor(&first, 0, NULL, kDLInt), tk = tensor(k, 1, four, kDLInt);
  DLTensor *in[1] = {&ti}, *out[1] = {&tk};
  CHECK(prims_iota_dl(in, 1, out, 1) == 0 && k[3] == 10);
  tk.data = NULL;
  CHECK(prims_iota_dl(in, 1, out, 1) == 0 && ((int32_t *)tk.data)[0] == 7);
  rx_free(tk.data);

  const RxInfo *info = prims_increase_info();
  CHECK(info->nargs == 3 && info->nouts == 1 && strcmp(info->outs[0].name, "Y") == 0);
  CHECK(info->has_plain && info->ndims == 1 && strcmp(info->args[1].name, "a") == 0);
  printf("%s\n", info->signature);
  return 0;
}
