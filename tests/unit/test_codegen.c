/* Code generation without passes: scripts are compiled in this process as they stand (blocks and
 * loops unscheduled) and called through their plain and DLPack entries. Expected values are written
 * beside each call. */
#include "tests/unit/unit.h"

#include "codegen/codegen.h"
#include "frontend/script/script.h"
#include "runtime/relaxrt.h"

#include <string.h>

typedef struct {
  Context *c;
  Jit *jit;
  Text messages;
} Program;

static Program compile(const char *text, int opt_level) {
  Program p = {.c = context_create()};
  diags_set_text(p.c->diags, &p.messages);
  uint32_t file = sources_add(p.c->sources, "t.rx", text, strlen(text));
  Module *m = script_parse(p.c, file);
  assert_non_null(m);
  Target t;
  const char *error;
  assert_true(target_init(&t, NULL, NULL, NULL, &error));
  CodegenOptions o = {.prefix = "m", .opt_level = opt_level};
  p.jit = codegen_jit(m, &t, &o);
  return p;
}

static void release(Program *p) {
  jit_free(p->jit);
  context_free(p->c);
  text_free(&p->messages);
}

static const char calls[] =
    "@I.ir_module\n"
    "class Module:\n"
    "    @T.prim_func(private=True)\n"
    "    def twice(v: T.float32) -> T.float32:\n"
    "        if v > T.float32(100):\n"
    "            return T.float32(-1)\n"
    "        return v * T.float32(2)\n"
    "    @T.prim_func(private=True)\n"
    "    def each(a: T.handle, b: T.handle):\n"
    "        n = T.int64()\n"
    "        A = T.match_buffer(a, (n,), \"float32\")\n"
    "        B = T.match_buffer(b, (n,), \"float32\")\n"
    "        for i in range(n):\n"
    "            B[i] = Module.twice(A[i]) + T.float32(1)\n"
    "    @R.function\n"
    "    def f(x: R.Tensor((\"n\",), \"float32\")) -> R.Tensor((\"n\",), \"float32\"):\n"
    "        n = T.int64()\n"
    "        cls = Module\n"
    "        y = R.call_tir(cls.each, (x,), out_sinfo=R.Tensor((n,), \"float32\"))\n"
    "        return y\n";

static void test_calls(void **state) {
  (void)state;
  for (int level = 0; level <= 2; level += 2) {
    Program p = compile(calls, level);
    int (*f)(const float *, float *, int64_t) =
        (int (*)(const float *, float *, int64_t))(uintptr_t)jit_symbol(p.jit, "m_f");
    assert_non_null(f);
    float x[4] = {1, 50, 101, -3}, y[4] = {0};
    assert_int_equal(f(x, y, 4), 0);
    static const float want[4] = {3, 101, 0, -5};
    assert_memory_equal(y, want, sizeof want);
    assert_int_equal(f(NULL, NULL, 0), 0);
    assert_int_equal(f(x, y, -1), RX_ERR_SHAPE);
    assert_string_equal(rx_error(), "f: dim 'n' is negative: -1");
    assert_int_equal(f(NULL, y, 4), RX_ERR_ARGUMENT);
    assert_string_equal(rx_error(), "f: argument 'x' is NULL");
    assert_int_equal(f(x, y, INT64_MAX / 2), RX_ERR_OVERFLOW);
    assert_null(jit_symbol(p.jit, "m_g"));
    release(&p);
  }
}

static const char checks[] =
    "@I.ir_module\n"
    "class Module:\n"
    "    @T.prim_func(private=True)\n"
    "    def pick(a: T.handle, i: T.handle, b: T.handle):\n"
    "        n = T.int64()\n"
    "        A = T.match_buffer(a, (n,), \"float32\")\n"
    "        I = T.match_buffer(i, (3,), \"int32\")\n"
    "        B = T.match_buffer(b, (3,), \"float32\")\n"
    "        for k in range(3):\n"
    "            assert I[k] >= 0 and T.Cast(\"int64\", I[k]) < n, \"index out of range\"\n"
    "            B[k] = A[I[k]]\n"
    "    @R.function\n"
    "    def f(x: R.Tensor((\"n\",), \"float32\"), i: R.Tensor((3,), \"int32\")) -> "
    "R.Tensor((3,), \"float32\"):\n"
    "        cls = Module\n"
    "        y = R.call_tir(cls.pick, (x, i), out_sinfo=R.Tensor((3,), \"float32\"))\n"
    "        return y\n";

static void test_assertion(void **state) {
  (void)state;
  Program p = compile(checks, 2);
  int (*f)(const float *, const int32_t *, float *, int64_t) =
      (int (*)(const float *, const int32_t *, float *, int64_t))(uintptr_t)jit_symbol(p.jit,
                                                                                       "m_f");
  float x[4] = {10, 11, 12, 13}, y[3];
  int32_t good[3] = {3, 0, 2}, bad[3] = {0, 4, 1};
  assert_int_equal(f(x, good, y, 4), 0);
  assert_true(y[0] == 13 && y[1] == 10 && y[2] == 12);
  assert_int_equal(f(x, bad, y, 4), RX_ERR_MATCH);
  assert_string_equal(rx_error(), "assertion failed: index out of range (I[k] is 4)");
  release(&p);
}

static DLTensor tensor(void *data, int ndim, int64_t *shape, uint8_t code, uint8_t bits) {
  DLTensor t = {.data = data, .ndim = ndim, .shape = shape};
  t.device.device_type = kDLCPU;
  t.dtype.code = code;
  t.dtype.bits = bits;
  t.dtype.lanes = 1;
  return t;
}

static void test_dlpack(void **state) {
  (void)state;
  Program p = compile(checks, 2);
  int (*f)(DLTensor *const *, int32_t, DLTensor *const *, int32_t) =
      (int (*)(DLTensor *const *, int32_t, DLTensor *const *, int32_t))(uintptr_t)jit_symbol(
          p.jit, "m_f_dl");
  assert_non_null(f);
  float x[4] = {10, 11, 12, 13}, y[3];
  int32_t i[3] = {3, 0, 2};
  int64_t n4 = 4, n3 = 3, room[16];
  DLTensor tx = tensor(x, 1, &n4, RX_DL_FLOAT, 32), ti = tensor(i, 1, &n3, RX_DL_INT, 32);
  DLTensor ty = tensor(y, 1, &n3, RX_DL_FLOAT, 32), fresh = {.shape = room};
  DLTensor *args[2] = {&tx, &ti}, *out = &ty, *made = &fresh;
  assert_int_equal(f(args, 2, &out, 1), 0);
  assert_true(y[0] == 13 && y[1] == 10 && y[2] == 12);
  assert_int_equal(f(args, 2, &made, 1), 0);
  assert_true(fresh.ndim == 1 && room[0] == 3 && fresh.dtype.bits == 32);
  assert_memory_equal(fresh.data, y, sizeof y);
  rx_free(fresh.data);
  assert_int_equal(f(args, 1, &out, 1), RX_ERR_ARGUMENT);
  assert_string_equal(rx_error(), "f: expected 2 arguments but got 1");
  ti.dtype.bits = 64;
  assert_int_equal(f(args, 2, &out, 1), RX_ERR_DTYPE);
  ti.dtype.bits = 32;
  n3 = 5;
  assert_int_equal(f(args, 2, &out, 1), RX_ERR_SHAPE);
  assert_string_equal(rx_error(), "f: argument 'i': dim 0: expected 3 but got 5");
  n3 = 3;
  ti.ndim = 0;
  assert_int_equal(f(args, 2, &out, 1), RX_ERR_RANK);
  ti.ndim = 1;
  int64_t stride = 2;
  tx.strides = &stride;
  assert_int_equal(f(args, 2, &out, 1), RX_ERR_LAYOUT);
  stride = 1;
  assert_int_equal(f(args, 2, &out, 1), 0);
  ty.data = x + 1;
  assert_int_equal(f(args, 2, &out, 1), RX_ERR_OVERLAP);
  ty.data = (char *)y + 2;
  assert_int_equal(f(args, 2, &out, 1), RX_ERR_LAYOUT);
  ty.data = y;
  tx.device.device_type = kDLCUDA;
  assert_int_equal(f(args, 2, &out, 1), RX_ERR_LAYOUT);
  const RxInfo *(*info)(void) = (const RxInfo *(*)(void))(uintptr_t)jit_symbol(p.jit, "m_f_info");
  assert_non_null(info);
  assert_int_equal(info()->nargs, 2);
  assert_string_equal(info()->args[1].name, "i");
  assert_string_equal(info()->args[0].dims[0], "n");
  assert_string_equal(info()->args[1].dims[0], "3");
  release(&p);
}

static const char opaque[] =
    "@I.ir_module\n"
    "class Module:\n"
    "    @T.prim_func(private=True)\n"
    "    def k(A: T.Buffer((4,), \"float32\"), B: T.Buffer((4,), \"float32\")):\n"
    "        for i in range(4):\n"
    "            B[i] = A[i] * T.Cast(\"float32\", T.vscale())\n"
    "    @R.function\n"
    "    def f(x: R.Tensor((4,), \"float32\")) -> R.Tensor((4,), \"float32\"):\n"
    "        cls = Module\n"
    "        y = R.call_tir(cls.k, (x,), out_sinfo=R.Tensor((4,), \"float32\"))\n"
    "        return y\n";

static void test_refused(void **state) {
  (void)state;
  Program p = compile(opaque, 2);
  assert_null(p.jit);
  assert_non_null(strstr(text_cstr(&p.messages), "T.vscale can't be compiled for a CPU"));
  release(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_assertion),
      cmocka_unit_test(test_dlpack),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
