/* The C forms of what is not a plain float tensor; expected values by hand. */
#include <stdio.h>
#include <string.h>

#include "scalars.h"

static int failures;
#define CHECK(e)                                                                                   \
  do {                                                                                             \
    if (!(e)) {                                                                                    \
      failures++;                                                                                  \
      printf("line %d: %s; message: %s\n", __LINE__, #e, rx_error());                              \
    }                                                                                              \
  } while (0)

static DLTensor tensor(void *data, int code, int bits, int ndim, int64_t *shape) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.dtype.code = (uint8_t)code;
  t.dtype.bits = (uint8_t)bits;
  t.dtype.lanes = 1;
  t.ndim = ndim;
  t.shape = shape;
  return t;
}

int main(void) {
  float x[4] = {1, 2, 3, 4}, y[4];
  CHECK(scalars_scale(x, 2.5f, y) == 0 && y[3] == 10);
  CHECK(scalars_fill(x + 1, 3, y) == 0 && y[0] == 2 && y[2] == 2);
  CHECK(scalars_fill(x, -1, y) == RX_ERR_SHAPE && strstr(rx_error(), "-1"));
  int64_t shape[2], p;
  CHECK(scalars_size(NULL, shape, &p, 0, 5) == 0 && shape[0] == 0 && shape[1] == 10 && p == 0);
  /* 1.5 + 1.5 = 3 and 1.5 * 1.5 = 2.25 in float16 and bfloat16 bits; 65504 + 65504 = inf */
  uint16_t h[2] = {0x3e00, 0x7bff}, b[2] = {0x3fc0, 0xbfc0}, h2[2], b2[2];
  CHECK(scalars_halves(h, b, h2, b2, 2) == 0);
  CHECK(h2[0] == 0x4200 && h2[1] == 0x7c00 && b2[0] == 0x4010 && b2[1] == 0x4010);
  CHECK(scalars_nothing(x, 4) == 0);
  int64_t i = -21, j = 0;
  CHECK(scalars_rank0(&i, 1, &j) == 0 && j == -42);

  /* DLPack: a scalar is a rank-0 tensor */
  float alpha = 3;
  int64_t four[1] = {4}, room[16], room2[16];
  DLTensor tx = tensor(x, RX_DL_FLOAT, 32, 1, four), ta = tensor(&alpha, RX_DL_FLOAT, 32, 0, NULL);
  DLTensor ty = tensor(y, RX_DL_FLOAT, 32, 1, four);
  DLTensor *args[2] = {&tx, &ta}, *outs[2] = {&ty, NULL};
  CHECK(scalars_scale_dl(args, 2, outs, 1) == 0 && y[3] == 12);
  ta.dtype.bits = 64;
  CHECK(scalars_scale_dl(args, 2, outs, 1) == RX_ERR_DTYPE && strstr(rx_error(), "'alpha'"));
  ta = tensor(&alpha, RX_DL_FLOAT, 32, 1, four);
  CHECK(scalars_scale_dl(args, 2, outs, 1) == RX_ERR_RANK && strstr(rx_error(), "'alpha'"));

  /* a shape and a scalar as results, allocated by the callee */
  int64_t nm[2] = {2, 3};
  uint16_t halves[6] = {0};
  DLTensor th = tensor(halves, RX_DL_FLOAT, 16, 2, nm);
  DLTensor ts = tensor(NULL, 0, 0, 0, room), tp = tensor(NULL, 0, 0, 0, room2);
  args[0] = &th;
  outs[0] = &ts;
  outs[1] = &tp;
  CHECK(scalars_size_dl(args, 1, outs, 2) == 0);
  CHECK(ts.ndim == 1 && ts.shape[0] == 2 && ts.dtype.code == RX_DL_INT && ts.dtype.bits == 64);
  CHECK(((int64_t *)ts.data)[0] == 2 && ((int64_t *)ts.data)[1] == 6);
  CHECK(tp.ndim == 0 && *(int64_t *)tp.data == 6);
  rx_free(ts.data);
  rx_free(tp.data);

  /* a shape that only the call knows */
  int64_t two[2] = {2, 2};
  tx = tensor(x, RX_DL_FLOAT, 32, 2, two);
  ty = tensor(NULL, 0, 0, 0, room);
  args[0] = &tx;
  outs[0] = &ty;
  CHECK(scalars_anyshape_dl(args, 1, outs, 1) == 0);
  CHECK(ty.ndim == 2 && ty.shape[0] == 2 && ty.shape[1] == 2 && ((float *)ty.data)[3] == -4);
  rx_free(ty.data);
  CHECK(scalars_nothing_dl((args[0] = &tx, tx = tensor(x, RX_DL_FLOAT, 32, 1, four), args), 1, NULL,
                           0) == 0);

  const RxInfo *info = scalars_anyshape_info();
  CHECK(!info->has_plain && info->args[0].ndim == 2 && info->nouts == 1);
  info = scalars_scale_info();
  CHECK(info->args[1].kind == RX_PRIM && info->args[1].ndim == 0);
  info = scalars_nothing_info();
  CHECK(info->nouts == 0);
  printf("%d failures\n", failures);
  return failures != 0;
}
