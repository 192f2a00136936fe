/* Good and bad calls through both entries. Good ones compute what C computes here; bad ones return the
 * code that relaxrt.h names, with a message that holds function, argument and numbers, and touch
 * nothing. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

static int checks, failures;

static void check(int ok, int line, const char *what) {
  checks++;
  if (ok) return;
  failures++;
  printf("line %d: %s\n", line, what);
}
#define CHECK(e) check((e), __LINE__, #e)
#define GOOD(call)                                                                                 \
  do {                                                                                             \
    int s_ = (call);                                                                               \
    check(s_ == 0, __LINE__, #call);                                                               \
    if (s_) printf("  status %d: %s\n", s_, rx_error());                                           \
  } while (0)

/* The message must hold all of these words. */
static void bad(int line, int status, int want, const char *const *words) {
  checks++;
  int ok = status == want;
  for (const char *const *w = words; *w; w++) ok = ok && strstr(rx_error(), *w);
  if (ok) return;
  failures++;
  printf("line %d: status %d, expected %d with", line, status, want);
  for (const char *const *w = words; *w; w++) printf(" \"%s\"", *w);
  printf("\n  message: %s\n", rx_error());
}
#define BAD(code, call, ...)                                                                       \
  bad(__LINE__, (call), (code), (const char *const[]){__VA_ARGS__, NULL})

typedef struct {
  DLTensor t;
  int64_t shape[16];
} Tensor;

static Tensor tensor(void *data, int code, int bits, int ndim, int64_t a, int64_t b, int64_t c) {
  Tensor x;
  memset(&x, 0, sizeof x);
  x.t.data = data;
  x.t.device.device_type = kDLCPU;
  x.t.dtype.code = (uint8_t)code;
  x.t.dtype.bits = (uint8_t)bits;
  x.t.dtype.lanes = 1;
  x.t.ndim = ndim;
  x.shape[0] = a;
  x.shape[1] = b;
  x.shape[2] = c;
  return x;
}
static DLTensor *at(Tensor *x) {
  x->t.shape = x->shape;
  return &x->t;
}
#define F32(data, n) T1(data, RX_DL_FLOAT, 32, n)
#define T1(data, code, bits, n) tensor(data, code, bits, 1, n, 0, 0)
#define T2(data, code, bits, n, m) tensor(data, code, bits, 2, n, m, 0)

typedef int (*Dl)(DLTensor *const *, int32_t, DLTensor *const *, int32_t);

static int call(Dl f, Tensor *a, Tensor *b, Tensor *out, Tensor *out2) {
  DLTensor *args[2] = {a ? at(a) : NULL, b ? at(b) : NULL};
  DLTensor *outs[2] = {out ? at(out) : NULL, out2 ? at(out2) : NULL};
  return f(args, b ? 2 : 1, outs, out2 ? 2 : 1);
}

static float x[64], w[4] = {1, 2, 3, 4}, y[64];

static void plain_calls(void) {
  for (int i = 0; i < 64; i++) x[i] = (float)(i + 1);
  for (int64_t n = 0; n <= 3; n++) {
    memset(y, 0xff, sizeof y);
    GOOD(abi_scale(x, w, y, n));
    for (int i = 0; i < 4 * n; i++) CHECK(y[i] == x[i] * w[i % 4]);
    unsigned char *rest = (unsigned char *)(y + 4 * n);
    CHECK(rest[0] == 0xff && rest[15] == 0xff);
  }
  int64_t need = abi_scale_workspace(3);
  CHECK(need >= 0);
  void *ws = aligned_alloc(64, (size_t)(need + 64) / 64 * 64);
  memset(y, 0, sizeof y);
  GOOD(abi_scale_ws(x, w, y, 3, ws));
  CHECK(y[11] == x[11] * 4);
  free(ws);

  int32_t a[3] = {1, 2, 3}, b[3] = {10, 20, 30}, s[3], p[3];
  GOOD(abi_pair(a, b, s, p, 3));
  CHECK(s[2] == 33 && p[2] == 90);
  double d[2] = {1.5, -2}, e[4];
  GOOD(abi_twice(d, e, 2));
  CHECK(e[0] == 1.5 && e[3] == -2);
  float u[2] = {5, 6}, v[2] = {1, 2}, r[2];
  GOOD(abi_nested(u, v, r));
  CHECK(r[0] == 4 && r[1] == 4);
  uint8_t t[3] = {1, 0, 1}, t2[3] = {7, 7, 7};
  GOOD(abi_same(t, t2, 3));
  CHECK(t2[0] == 1 && t2[1] == 0 && t2[2] == 1);
  int64_t shape[2] = {3, 2};
  float z[6] = {0};
  GOOD(abi_spread(u, shape, z, 3));
  CHECK(z[0] == 5 && z[5] == 5);
  BAD(RX_ERR_SHAPE, abi_spread(u, shape, z, 2), "spread", "3", "2");
  shape[1] = 5;
  BAD(RX_ERR_SHAPE, abi_spread(u, shape, z, 3), "spread", "5", "2");
  GOOD(abi_uses_hidden(u, r));
  CHECK(r[0] == -5 && r[1] == -6);
  float m1[6] = {1, 2, 3, 4, 5, 6}, m2[3] = {1, 10, 100}, m3[2];
  GOOD(abi_product(m1, m2, m3, 2, 3, 1));
  CHECK(m3[0] == 321 && m3[1] == 654);
  /* k = 0: an empty sum */
  m3[0] = m3[1] = 9;
  GOOD(abi_product(NULL, NULL, m3, 2, 0, 1));
  CHECK(m3[0] == 0 && m3[1] == 0);

  BAD(RX_ERR_SHAPE, abi_scale(x, w, y, -1), "scale", "n", "-1");
  BAD(RX_ERR_OVERFLOW, abi_scale(x, w, y, INT64_MAX / 2), "scale");
  BAD(RX_ERR_OVERFLOW, abi_twice(d, e, INT64_MAX / 4), "twice");
  BAD(RX_ERR_ARGUMENT, abi_scale(NULL, w, y, 3), "scale", "x");
  BAD(RX_ERR_ARGUMENT, abi_scale(x, NULL, y, 3), "scale", "w");
  BAD(RX_ERR_ARGUMENT, abi_scale(x, w, NULL, 3), "scale", "out");
  GOOD(abi_scale(NULL, w, NULL, 0));
}

static void dl_calls(void) {
  Tensor a, b, o, p;
  for (int64_t n = 0; n <= 3; n++) {
    a = T2(x, RX_DL_FLOAT, 32, n, 4);
    b = T1(w, RX_DL_FLOAT, 32, 4);
    o = T2(y, RX_DL_FLOAT, 32, n, 4);
    memset(y, 0, sizeof y);
    GOOD(call(abi_scale_dl, &a, &b, &o, NULL));
    for (int i = 0; i < 4 * n; i++) CHECK(y[i] == x[i] * w[i % 4]);
    /* allocated by the callee, whatever stands in dtype and ndim */
    o = tensor(NULL, 99, 7, -5, -1, -1, -1);
    GOOD(call(abi_scale_dl, &a, &b, &o, NULL));
    CHECK(o.t.ndim == 2 && o.shape[0] == n && o.shape[1] == 4);
    CHECK(o.t.dtype.code == RX_DL_FLOAT && o.t.dtype.bits == 32 && o.t.dtype.lanes == 1);
    for (int i = 0; i < 4 * n; i++) CHECK(((float *)o.t.data)[i] == x[i] * w[i % 4]);
    rx_free(o.t.data);
  }
  a = T2(NULL, RX_DL_FLOAT, 32, 0, 4); /* nothing in it: no data needed */
  o = T2(y, RX_DL_FLOAT, 32, 0, 4);
  GOOD(call(abi_scale_dl, &a, &b, &o, NULL));

  /* strides: compact ones, and any where a dim is 1 */
  int64_t strides[2] = {4, 1}, odd[2] = {77, 1}, swapped[2] = {1, 3}, gaps[2] = {8, 1};
  a = T2(x, RX_DL_FLOAT, 32, 3, 4);
  o = T2(y, RX_DL_FLOAT, 32, 3, 4);
  a.t.strides = strides;
  o.t.strides = strides;
  GOOD(call(abi_scale_dl, &a, &b, &o, NULL));
  a = T2(x, RX_DL_FLOAT, 32, 1, 4);
  a.t.strides = odd;
  o = T2(y, RX_DL_FLOAT, 32, 1, 4);
  GOOD(call(abi_scale_dl, &a, &b, &o, NULL));
  a = T2(x, RX_DL_FLOAT, 32, 3, 4);
  o = T2(y, RX_DL_FLOAT, 32, 3, 4);
  a.t.strides = swapped;
  BAD(RX_ERR_LAYOUT, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'");
  a.t.strides = gaps;
  BAD(RX_ERR_LAYOUT, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'");
  a.t.strides = NULL;
  o.t.strides = gaps;
  BAD(RX_ERR_LAYOUT, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "out");
  o.t.strides = NULL;

  /* byte_offset, on both sides */
  memset(y, 0, sizeof y);
  a = T2(x, RX_DL_FLOAT, 32, 1, 4);
  a.t.byte_offset = 16;
  o = T2(y, RX_DL_FLOAT, 32, 1, 4);
  o.t.byte_offset = 8;
  GOOD(call(abi_scale_dl, &a, &b, &o, NULL));
  CHECK(y[1] == 0 && y[2] == x[4] && y[5] == x[7] * 4 && y[6] == 0);
  a.t.byte_offset = 2;
  BAD(RX_ERR_LAYOUT, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "align");
  a.t.byte_offset = 0;
  a.t.device.device_type = kDLCUDA;
  BAD(RX_ERR_LAYOUT, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "device");
  a.t.device.device_type = kDLCPU;

  /* counts and NULL */
  DLTensor *args[3] = {at(&a), at(&b), at(&b)}, *outs[2] = {at(&o), at(&o)};
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(args, 1, outs, 1), "scale", "2", "1");
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(args, 3, outs, 1), "scale", "2", "3");
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(args, -1, outs, 1), "scale", "2", "-1");
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(args, 2, outs, 0), "scale", "1", "0");
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(args, 2, outs, 2), "scale", "1", "2");
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(NULL, 2, outs, 1), "scale", "NULL");
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(args, 2, NULL, 1), "scale", "NULL");
  args[1] = NULL;
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(args, 2, outs, 1), "scale", "'w'", "NULL");
  outs[0] = NULL;
  args[1] = at(&b);
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(args, 2, outs, 1), "scale", "out", "NULL");
  a.t.data = NULL;
  BAD(RX_ERR_ARGUMENT, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "NULL");

  /* dtype, rank, dims */
  a = T2(x, RX_DL_FLOAT, 64, 1, 4);
  BAD(RX_ERR_DTYPE, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "float32", "float, 64 bits");
  a = T2(x, RX_DL_INT, 32, 1, 4);
  BAD(RX_ERR_DTYPE, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "float32", "int, 32 bits");
  a = T2(x, 77, 32, 1, 4);
  BAD(RX_ERR_DTYPE, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "float32");
  a = T2(x, RX_DL_FLOAT, 32, 1, 4);
  a.t.dtype.lanes = 2;
  BAD(RX_ERR_DTYPE, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "float32");
  a = T1(x, RX_DL_FLOAT, 32, 4);
  BAD(RX_ERR_RANK, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "2", "1");
  a = tensor(x, RX_DL_FLOAT, 32, 3, 1, 4, 1);
  BAD(RX_ERR_RANK, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "2", "3");
  a = T2(x, RX_DL_FLOAT, 32, 1, 4);
  a.t.ndim = -1;
  BAD(RX_ERR_RANK, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "2", "-1");
  a = T2(x, RX_DL_FLOAT, 32, 1, 5);
  BAD(RX_ERR_SHAPE, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "1", "4", "5");
  a = T2(x, RX_DL_FLOAT, 32, -3, 4);
  BAD(RX_ERR_SHAPE, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "'x'", "-3");
  a = T2(x, RX_DL_FLOAT, 32, INT64_MAX / 2, 4);
  o = tensor(NULL, 0, 0, 0, 0, 0, 0);
  BAD(RX_ERR_OVERFLOW, call(abi_scale_dl, &a, &b, &o, NULL), "scale");
  CHECK(o.t.data == NULL);
  a = T2(x, RX_DL_FLOAT, 32, 3, 4);
  o = T2(y, RX_DL_FLOAT, 32, 2, 4);
  BAD(RX_ERR_SHAPE, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "out", "3", "2");
  o = T2(y, RX_DL_FLOAT, 64, 3, 4);
  BAD(RX_ERR_DTYPE, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "out", "float32", "float, 64 bits");
  o = T1(y, RX_DL_FLOAT, 32, 12);
  BAD(RX_ERR_RANK, call(abi_scale_dl, &a, &b, &o, NULL), "scale", "out", "2", "1");
  a.t.shape = NULL;
  DLTensor *noshape[2] = {&a.t, at(&b)};
  o = T2(y, RX_DL_FLOAT, 32, 3, 4);
  outs[0] = at(&o);
  BAD(RX_ERR_ARGUMENT, abi_scale_dl(noshape, 2, outs, 1), "scale", "'x'", "NULL");

  /* symbolic dims that disagree */
  int32_t i1[4] = {1, 2, 3, 4}, i2[4] = {5, 6, 7, 8}, i3[4], i4[4];
  a = T1(i1, RX_DL_INT, 32, 4);
  b = T1(i2, RX_DL_INT, 32, 3);
  o = T1(i3, RX_DL_INT, 32, 4);
  p = T1(i4, RX_DL_INT, 32, 4);
  BAD(RX_ERR_SHAPE, call(abi_pair_dl, &a, &b, &o, &p), "pair", "'b'", "n", "4", "3");
  b = T1(i2, RX_DL_INT, 32, 4);
  GOOD(call(abi_pair_dl, &a, &b, &o, &p));
  CHECK(i3[3] == 12 && i4[3] == 32);
  p.t.data = NULL;
  GOOD(call(abi_pair_dl, &a, &b, &o, &p));
  CHECK(((int32_t *)p.t.data)[3] == 32);
  rx_free(p.t.data);

  /* overlaps: with an input, in part, and among outputs */
  p = T1(i4, RX_DL_INT, 32, 4);
  o = T1(i1, RX_DL_INT, 32, 4);
  BAD(RX_ERR_OVERLAP, call(abi_pair_dl, &a, &b, &o, &p), "pair", "'a'");
  CHECK(i1[0] == 1 && i1[3] == 4);
  o = T1(i4, RX_DL_INT, 32, 4);
  BAD(RX_ERR_OVERLAP, call(abi_pair_dl, &a, &b, &o, &p), "pair", "out0", "out1");
  int32_t shared[8] = {0};
  a = T1(shared, RX_DL_INT, 32, 4);
  o = T1(shared + 3, RX_DL_INT, 32, 4);
  BAD(RX_ERR_OVERLAP, call(abi_pair_dl, &a, &b, &o, &p), "pair", "'a'");
  o = T1(shared + 4, RX_DL_INT, 32, 4); /* side by side is fine */
  GOOD(call(abi_pair_dl, &a, &b, &o, &p));
  a = T1(i1, RX_DL_INT, 32, 4);
  b = T1(i1, RX_DL_INT, 32, 4); /* inputs may be one tensor */
  GOOD(call(abi_pair_dl, &a, &b, &o, &p));
  CHECK(shared[7] == 8 && i4[3] == 16);

  /* dims that are expressions */
  float big[9];
  a = F32(x, 3);
  b = F32(x, 6);
  o = F32(big, 9);
  GOOD(call(abi_halves_dl, &a, &b, &o, NULL));
  CHECK(big[2] == x[2] && big[8] == x[5]);
  b.shape[0] = 5;
  BAD(RX_ERR_SHAPE, call(abi_halves_dl, &a, &b, &o, NULL), "halves", "'y'", "6", "5");

  /* nested tuples are flattened; messages name the field */
  a = F32(x, 2);
  b = F32(x, 2);
  o = F32(y, 2);
  GOOD(call(abi_nested_dl, &a, &b, &o, NULL));
  b.shape[0] = 3;
  BAD(RX_ERR_SHAPE, call(abi_nested_dl, &a, &b, &o, NULL), "nested", "t.1.0", "2", "3");

  /* a shape is a rank-1 int64 tensor */
  int64_t shape[2] = {3, 2};
  a = F32(x, 1);
  b = T1(shape, RX_DL_INT, 64, 2);
  o = T2(y, RX_DL_FLOAT, 32, 3, 2);
  GOOD(call(abi_spread_dl, &a, &b, &o, NULL));
  CHECK(y[5] == x[0]);
  b = T1(shape, RX_DL_INT, 64, 1);
  BAD(RX_ERR_SHAPE, call(abi_spread_dl, &a, &b, &o, NULL), "spread", "'s'", "2", "1");
  b = T1(shape, RX_DL_INT, 32, 2);
  BAD(RX_ERR_DTYPE, call(abi_spread_dl, &a, &b, &o, NULL), "spread", "'s'", "int64", "int, 32 bits");
  shape[1] = 4;
  b = T1(shape, RX_DL_INT, 64, 2);
  BAD(RX_ERR_SHAPE, call(abi_spread_dl, &a, &b, &o, NULL), "spread", "'s'", "2", "4");
  shape[0] = -1;
  shape[1] = 2;
  BAD(RX_ERR_SHAPE, call(abi_spread_dl, &a, &b, &o, NULL), "spread", "'n'", "-1");
}

static void info(void) {
  const RxInfo *i = abi_scale_info();
  CHECK(strcmp(i->name, "scale") == 0);
  CHECK(i->nargs == 2 && i->nouts == 1 && i->ndims == 1 && i->has_plain == 1);
  CHECK(strcmp(i->args[0].name, "x") == 0 && i->args[0].kind == RX_TENSOR);
  CHECK(i->args[0].ndim == 2 && i->args[0].dtype.bits == 32);
  CHECK(strcmp(i->args[0].dims[0], "n") == 0 && strcmp(i->args[0].dims[1], "4") == 0);
  CHECK(strcmp(i->outs[0].name, "out0") == 0 && strcmp(i->dims[0], "n") == 0);
  CHECK(strstr(i->signature, "R.Tensor((n, 4)") != NULL);
  i = abi_twice_info();
  CHECK(strcmp(i->outs[0].dims[0], "n * 2") == 0 && i->outs[0].dtype.bits == 64);
  i = abi_spread_info();
  CHECK(i->args[1].kind == RX_SHAPE && i->args[1].dtype.code == RX_DL_INT);
  i = abi_nested_info();
  CHECK(i->nargs == 2 && strcmp(i->args[1].name, "t.1.0") == 0);
}

/* Messages belong to threads; entries may run at the same time. */
static void *thread_main(void *arg) {
  int id = *(int *)arg;
  long wrong = 0;
  float out[40];
  char text[16];
  (void)snprintf(text, sizeof text, "-%d", 100 + id);
  for (int k = 0; k < 200; k++) {
    if (abi_scale(x, w, out, -100 - id) != RX_ERR_SHAPE || !strstr(rx_error(), text)) wrong++;
    if (abi_scale(x, w, out, 10) != 0 || out[39] != x[39] * 4) wrong++;
  }
  return (void *)wrong;
}

static void threads(void) {
  pthread_t t[4];
  int ids[4];
  for (int i = 0; i < 4; i++) {
    ids[i] = i;
    if (pthread_create(&t[i], NULL, thread_main, &ids[i]) != 0) abort();
  }
  for (int i = 0; i < 4; i++) {
    void *wrong;
    if (pthread_join(t[i], &wrong) != 0) abort();
    CHECK(wrong == NULL);
  }
}

int main(void) {
  CHECK(rx_error()[0] == 0);
  plain_calls();
  dl_calls();
  info();
  threads();
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
