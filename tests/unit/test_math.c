/* Inline math against the C library in higher precision.
 *
 * Each function is compiled as a small vector kernel, run on a dense sample of float32 values (a
 * stride over all bit patterns, and the special values), and compared with glibc's function of the
 * next wider type. The bound is 2 ULP; infinities, NaN and the sign of zero must agree exactly.
 */
#include "tests/unit/unit.h"

#include "codegen/codegen.h"
#include "frontend/script/script.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 16 };

typedef double (*Ref)(double);
typedef int (*Entry)(const void *, void *);

static double ref_exp10(double x) {
  return pow(10, x);
}
static double ref_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
static double ref_rsqrt(double x) {
  return 1 / sqrt(x);
}

static const struct {
  const char *name;
  Ref ref;
  double lo, hi; /* where the dense sample lies beside the one over all bit patterns */
} funcs[] = {
    {"exp", exp, -105, 90},
    {"exp2", exp2, -152, 129},
    {"exp10", ref_exp10, -46, 39},
    {"expm1", expm1, -20, 90},
    {"log", log, 0, 4},
    {"log2", log2, 0, 4},
    {"log10", log10, 0, 4},
    {"log1p", log1p, -1, 3},
    {"tanh", tanh, -10, 10},
    {"erf", erf, -4.5, 4.5},
    {"sin", sin, -1000, 1000},
    {"cos", cos, -1000, 1000},
    {"tan", tan, -1000, 1000},
    {"sigmoid", ref_sigmoid, -105, 20},
    {"sqrt", sqrt, 0, 100},
    {"rsqrt", ref_rsqrt, 0, 100},
    {"atan", atan, -10, 10},
    {"sinh", sinh, -10, 10},
};
enum { NFUNCS = sizeof funcs / sizeof funcs[0] };

/* One prim_func per function and width: 32 lanes at a time. */
static char *make_script(const char *dtype) {
  char *s = malloc(NFUNCS * 1600), *p = s;
  p += sprintf(p, "@I.ir_module\nclass Module:\n");
  for (int i = 0; i < NFUNCS; i++)
    p += sprintf(p,
                 "    @T.prim_func\n"
                 "    def k_%s(a: T.handle, b: T.handle):\n"
                 "        A = T.match_buffer(a, (%d,), \"%s\")\n"
                 "        B = T.match_buffer(b, (%d,), \"%s\")\n"
                 "        for i in range(%d):\n"
                 "            B[T.Ramp(i * 32, 1, 32)] = T.%s(A[T.Ramp(i * 32, 1, 32)])\n"
                 "    @R.function\n"
                 "    def f_%s(x: R.Tensor((%d,), \"%s\")) -> R.Tensor((%d,), \"%s\"):\n"
                 "        cls = Module\n"
                 "        y = R.call_tir(cls.k_%s, (x,), out_sinfo=R.Tensor((%d,), \"%s\"))\n"
                 "        return y\n",
                 funcs[i].name, N, dtype, N, dtype, N / 32, funcs[i].name, funcs[i].name, N, dtype,
                 N, dtype, funcs[i].name, N, dtype);
  return s;
}

static Jit *compile(Context *c, const char *text, const char *march) {
  uint32_t file = sources_add(c->sources, "math.rx", text, strlen(text));
  Module *m = script_parse(c, file);
  assert_non_null(m);
  assert_int_equal(diags_errors(c->diags), 0);
  Target t;
  const char *error;
  assert_true(target_init(&t, NULL, march, NULL, &error));
  CodegenOptions o = {.prefix = "m", .opt_level = 2};
  Jit *j = codegen_jit(m, &t, &o);
  assert_non_null(j);
  return j;
}

static int64_t ordered(float x) {
  int32_t i;
  memcpy(&i, &x, 4);
  return i < 0 ? (int64_t)INT32_MIN - i : i;
}

static double ulps(float got, double want) {
  float w = (float)want;
  if (isnan(want)) return isnan(got) ? 0 : 1e9;
  if (isinf(w) || isinf(got)) {
    if (got == w) return 0;
    return llabs((long long)(ordered(got) - ordered(w))) <= 1 ? 1 : 1e9;
  }
  int e;
  (void)frexp(want, &e);
  double unit = ldexp(1, e - 24 < -149 ? -149 : e - 24);
  return fabs((double)got - want) / unit;
}

static float x[N], y[N];

static void fill(int round, double lo, double hi) {
  static const float special[] = {0.0f,
                                  -0.0f,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  1e-45f,
                                  -1e-45f,
                                  1.1754942e-38f,
                                  1.17549435e-38f,
                                  3.4028235e38f,
                                  -3.4028235e38f,
                                  1,
                                  -1,
                                  0.5f,
                                  88.72283f,
                                  88.72284f,
                                  -87.33654f,
                                  -103.97208f,
                                  -103.972084f,
                                  -104,
                                  0.625f,
                                  0.92f,
                                  -0x1.099526p+2f, /* once sigmoid's worst: 2.25 ULP */
                                  3.95f,
                                  1048576.0f,
                                  -9,
                                  9};
  for (uint32_t i = 0; i < N; i++) {
    if (round == 0) {
      uint32_t bits = i * 65536u + i * 40503u % 65536u;
      memcpy(&x[i], &bits, 4);
    } else {
      x[i] = (float)(lo + (hi - lo) * (i + 0.37) / N);
    }
  }
  memcpy(x, special, sizeof special);
}

static void check_all(const char *march) {
  Context *c = context_create();
  char *text = make_script("float32");
  Jit *j = compile(c, text, march);
  for (int i = 0; i < NFUNCS; i++) {
    char name[32];
    snprintf(name, sizeof name, "m_f_%s", funcs[i].name);
    Entry f = (Entry)(uintptr_t)jit_symbol(j, name);
    assert_non_null(f);
    double worst = 0;
    float at = 0, got = 0;
    for (int round = 0; round < 2; round++) {
      fill(round, funcs[i].lo, funcs[i].hi);
      assert_int_equal(f(x, y), 0);
      for (uint32_t k = 0; k < N; k++) {
        double want = funcs[i].ref((double)x[k]), u = ulps(y[k], want);
        if (want == 0 && !isnan(want) && y[k] == 0 && signbit((float)want) != signbit(y[k]))
          u = 1e8;
        if (u > worst) {
          worst = u;
          at = x[k];
          got = y[k];
        }
      }
    }
    if (worst > 2.0 || getenv("SHOW"))
      print_message("%s (%s): %.3g ULP at %.9g (%.9g)\n", funcs[i].name, march, worst, at, got);
    assert_true(worst <= 2.0);
  }
  jit_free(j);
  free(text);
  context_free(c);
}

static void test_baseline(void **state) {
  (void)state;
  check_all("x86-64-v2");
}

/* What this machine's best variant doesn't use: shorter tables, no masks. */
static void test_avx2(void **state) {
  (void)state;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) skip();
  check_all("x86-64-v3");
}

static void test_native(void **state) {
  (void)state;
  check_all("native");
}

static void test_float64(void **state) {
  (void)state;
  static double dx[N], dy[N];
  Context *c = context_create();
  char *text = make_script("float64");
  Jit *j = compile(c, text, "native");
  static const struct {
    const char *name;
    long double (*ref)(long double);
    double lo, hi;
  } wide[] = {{"m_f_exp", expl, -745, 710}, {"m_f_log", logl, 0, 8}, {"m_f_tanh", tanhl, -20, 20}};
  for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
    Entry f = (Entry)(uintptr_t)jit_symbol(j, wide[i].name);
    for (uint32_t k = 0; k < N; k++) dx[k] = wide[i].lo + (wide[i].hi - wide[i].lo) * (k + 0.3) / N;
    dx[0] = INFINITY;
    dx[1] = -INFINITY;
    dx[2] = NAN;
    dx[3] = 0;
    dx[4] = -0.0;
    dx[5] = 5e-324;
    dx[6] = 1e-310;
    dx[7] = 1e300;
    dx[8] = -1e300;
    assert_int_equal(f(dx, dy), 0);
    double worst = 0, at = 0;
    for (uint32_t k = 0; k < N; k++) {
      long double want = wide[i].ref(dx[k]);
      double w = (double)want, u;
      if (isnan(w) || isinf(w)) {
        u = isnan(w) ? (isnan(dy[k]) ? 0 : 1e9) : dy[k] == w ? 0 : 1e9;
      } else {
        int e;
        (void)frexpl(want, &e);
        u = (double)(fabsl(dy[k] - want) / ldexpl(1, e - 53 < -1074 ? -1074 : e - 53));
      }
      if (u > worst) {
        worst = u;
        at = dx[k];
      }
    }
    if (worst > 2 || getenv("SHOW"))
      print_message("%s: %.3g ULP at %.17g\n", wide[i].name, worst, at);
    assert_true(worst <= 2);
  }
  jit_free(j);
  free(text);
  context_free(c);
}

static const char pow_script[] =
    "@I.ir_module\n"
    "class Module:\n"
    "    @T.prim_func\n"
    "    def k(a: T.handle, b: T.handle, c: T.handle):\n"
    "        A = T.match_buffer(a, (4096,), \"float32\")\n"
    "        B = T.match_buffer(b, (4096,), \"float32\")\n"
    "        C = T.match_buffer(c, (4096,), \"float32\")\n"
    "        for i in range(128):\n"
    "            C[T.Ramp(i * 32, 1, 32)] = T.pow(A[T.Ramp(i * 32, 1, 32)], B[T.Ramp(i * 32, 1, "
    "32)])\n"
    "    @R.function\n"
    "    def f(x: R.Tensor((4096,), \"float32\"), y: R.Tensor((4096,), \"float32\")) -> "
    "R.Tensor((4096,), \"float32\"):\n"
    "        cls = Module\n"
    "        z = R.call_tir(cls.k, (x, y), out_sinfo=R.Tensor((4096,), \"float32\"))\n"
    "        return z\n";

static void test_pow(void **state) {
  (void)state;
  static float a[4096], b[4096], z[4096];
  static const float v[] = {0.0f,    -0.0f, 1,      -1,     2,        -2,        3,     -3,
                            0.5f,    -0.5f, 2.5f,   -2.5f,  INFINITY, -INFINITY, NAN,   1e-40f,
                            -1e-40f, 1e30f, -1e30f, 0.999f, 1.001f,   7,         1e10f, 16777216.0f,
                            88,      -88,   127,    -149,   0.1f,     10,        100,   0.3333f};
  enum { K = sizeof v / sizeof v[0] };
  Context *c = context_create();
  Jit *j = compile(c, pow_script, "native");
  int (*f)(const float *, const float *, float *) =
      (int (*)(const float *, const float *, float *))(uintptr_t)jit_symbol(j, "m_f");
  for (uint32_t i = 0; i < 4096; i++) {
    a[i] = i < K * K ? v[i / K] : (float)(0.01 + i * 0.003);
    b[i] = i < K * K ? v[i % K] : (float)((i % 97) * 0.21 - 9);
  }
  assert_int_equal(f(a, b, z), 0);
  for (uint32_t i = 0; i < 4096; i++) {
    double want = pow(a[i], b[i]);
    double u = ulps(z[i], want);
    if (u > 2 || (z[i] == 0 && signbit(z[i]) != signbit((float)want)))
      print_message("pow(%.9g, %.9g) = %.9g, expected %.9g\n", a[i], b[i], z[i], want);
    assert_true(u <= 2);
    assert_true(z[i] != 0 || signbit(z[i]) == signbit((float)want));
  }
  jit_free(j);
  context_free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_baseline), cmocka_unit_test(test_avx2), cmocka_unit_test(test_native),
      cmocka_unit_test(test_float64),  cmocka_unit_test(test_pow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
