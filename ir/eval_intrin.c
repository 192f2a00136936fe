/* Intrinsics of ir/intrins.def as closures. Functions of the C library compute in double and the
 * result is rounded to the type; those that are exact in float are called in float. */
#include "ir/eval_impl.h"
#include <math.h>
#include <string.h>

typedef double (*Math1)(double);
typedef double (*Math2)(double, double);

/* ---- float functions ---- */

static double rsqrt_of(double x) {
  return 1 / sqrt(x);
}
static double sigmoid_of(double x) {
  return 1 / (1 + exp(-x));
}
static double exp10_of(double x) {
  return pow(10, x);
}

static const Math1 math1[INTRIN_COUNT] = {
    [INTRIN_exp] = exp,        [INTRIN_exp2] = exp2,   [INTRIN_exp10] = exp10_of,
    [INTRIN_expm1] = expm1,    [INTRIN_log] = log,     [INTRIN_log2] = log2,
    [INTRIN_log10] = log10,    [INTRIN_log1p] = log1p, [INTRIN_sqrt] = sqrt,
    [INTRIN_rsqrt] = rsqrt_of, [INTRIN_tanh] = tanh,   [INTRIN_sigmoid] = sigmoid_of,
    [INTRIN_erf] = erf,        [INTRIN_sin] = sin,     [INTRIN_cos] = cos,
    [INTRIN_tan] = tan,        [INTRIN_sinh] = sinh,   [INTRIN_cosh] = cosh,
    [INTRIN_asin] = asin,      [INTRIN_acos] = acos,   [INTRIN_atan] = atan,
    [INTRIN_asinh] = asinh,    [INTRIN_acosh] = acosh, [INTRIN_atanh] = atanh,
    [INTRIN_floor] = floor,    [INTRIN_ceil] = ceil,   [INTRIN_trunc] = trunc,
    [INTRIN_round] = rint,     [INTRIN_fabs] = fabs,   [INTRIN_abs] = fabs,
    [INTRIN_nearbyint] = rint,
};
static const Math2 math2[INTRIN_COUNT] = {
    [INTRIN_atan2] = atan2, [INTRIN_pow] = pow,           [INTRIN_fmod] = fmod,
    [INTRIN_hypot] = hypot, [INTRIN_copysign] = copysign,
};

typedef struct {
  Math1 f1;
  Math2 f2;
} MathFn;

static double call1(Machine *m, const Code *c) {
  const MathFn *f = c->p;
  return dtype_round(c->d, f->f1(EVAL_F(c->a)));
}
static double call2(Machine *m, const Code *c) {
  const MathFn *f = c->p;
  double x = EVAL_F(c->a), y = EVAL_F(c->b);
  return dtype_round(c->d, f->f2(x, y));
}
static double nextafter_f(Machine *m, const Code *c) {
  double x = EVAL_F(c->a), y = EVAL_F(c->b);
  return c->d.bits == 32 ? nextafterf((float)x, (float)y) : nextafter(x, y);
}
static double fma_f(Machine *m, const Code *c) {
  double x = EVAL_F(c->a), y = EVAL_F(c->b), z = EVAL_F(c->c);
  if (c->d.bits == 32) return fmaf((float)x, (float)y, (float)z);
  return dtype_round(c->d, fma(x, y, z));
}
static double ldexp_f(Machine *m, const Code *c) {
  double x = EVAL_F(c->a);
  double e = dtype_is_float(c->b->d) ? EVAL_F(c->b) : (double)EVAL_I(c->b);
  if (isnan(e)) return e;
  int k = e > 100000 ? 100000 : e < -100000 ? -100000 : (int)e;
  return dtype_round(c->d, ldexp(x, k));
}

/* ---- tests and integers ---- */

static int64_t isnan_i(Machine *m, const Code *c) {
  return isnan(EVAL_F(c->a)) != 0;
}
static int64_t isinf_i(Machine *m, const Code *c) {
  return isinf(EVAL_F(c->a)) != 0;
}
static int64_t isfinite_i(Machine *m, const Code *c) {
  return isfinite(EVAL_F(c->a)) != 0;
}
static int64_t zero_i(Machine *m, const Code *c) {
  (void)m, (void)c;
  return 0;
}
static int64_t one_i(Machine *m, const Code *c) {
  (void)m, (void)c;
  return 1;
}
static int64_t isnull_i(Machine *m, const Code *c) {
  return EVAL_I(c->a) == 0;
}

static int64_t abs_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a);
  return x < 0 && dtype_is_sint(c->d) ? dtype_wrap(c->d, (int64_t)(0 - (uint64_t)x)) : x;
}

static uint64_t low_bits(int64_t x, unsigned bits) {
  return bits >= 64 ? (uint64_t)x : (uint64_t)x & ((UINT64_C(1) << bits) - 1);
}
static int64_t popcount_i(Machine *m, const Code *c) {
  uint64_t x = low_bits(EVAL_I(c->a), c->a->d.bits);
  int64_t n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}
static int64_t clz_i(Machine *m, const Code *c) {
  unsigned bits = c->a->d.bits;
  uint64_t x = low_bits(EVAL_I(c->a), bits);
  int64_t n = bits;
  for (; x; x >>= 1) n--;
  return n;
}

/* By repeated multiplication; a negative exponent gives 0 but for 1 and -1. */
static int64_t pow_i(Machine *m, const Code *c) {
  uint64_t x = (uint64_t)EVAL_I(c->a);
  int64_t e = EVAL_I(c->b);
  if (e < 0 && !dtype_is_uint(c->d)) {
    if ((int64_t)x == 1) return 1;
    return (int64_t)x == -1 ? (e % 2 ? -1 : 1) : 0;
  }
  uint64_t r = 1;
  for (uint64_t k = (uint64_t)e; k; k >>= 1, x *= x)
    if (k & 1) r *= x;
  return dtype_wrap(c->d, (int64_t)r);
}

/* round(x * y * 2^-s), y with q fractional bits: (x * y + 2^(q + s - 1)) >> (q + s). */
static int64_t q_multiply_shift_i(Machine *m, const Code *c) {
  const Code *const *a = c->p;
  int64_t x = EVAL_I(a[0]), y = EVAL_I(a[1]), q = EVAL_I(a[2]), s = EVAL_I(a[3]);
  int64_t total = q + s;
  if (total < 1 || total > 62) {
    machine_fail(m, "T.q_multiply_shift by %lld bits", (long long)total);
    return 0;
  }
  int64_t r = (int64_t)((uint64_t)x * (uint64_t)y + (UINT64_C(1) << (total - 1)));
  return dtype_wrap(c->d, r < 0 ? (int64_t)~(~(uint64_t)r >> total) : r >> total);
}

static int64_t lane_mask_i(Machine *m, const Code *c) {
  int64_t base = EVAL_I(c->a), end = EVAL_I(c->b);
  return base < end && (uint64_t)end - (uint64_t)base > m->lane;
}

/* ---- choice, bits, addresses ---- */

static int64_t ite_i(Machine *m, const Code *c) {
  return EVAL_I(c->a) ? EVAL_I(c->b) : EVAL_I(c->c);
}
static double ite_f(Machine *m, const Code *c) {
  return EVAL_I(c->a) ? EVAL_F(c->b) : EVAL_F(c->c);
}

static void bits_of(Machine *m, const Code *c, unsigned char *bytes) {
  if (dtype_is_float(c->d))
    dtype_store_double(dtype_scalar(c->d), bytes, EVAL_F(c));
  else
    dtype_store_int(dtype_scalar(c->d), bytes, EVAL_I(c));
}
static int64_t reinterpret_i(Machine *m, const Code *c) {
  unsigned char bytes[8] = {0};
  bits_of(m, c->a, bytes);
  return dtype_load_int(dtype_scalar(c->d), bytes);
}
static double reinterpret_f(Machine *m, const Code *c) {
  unsigned char bytes[8] = {0};
  bits_of(m, c->a, bytes);
  return dtype_load_double(dtype_scalar(c->d), bytes);
}

static int64_t address_i(Machine *m, const Code *c) {
  return (int64_t)(intptr_t)access_at(m, c->access);
}

/* A prefetch may name an address beyond the end: it does nothing here. */
static int64_t nothing_i(Machine *m, const Code *c) {
  (void)m, (void)c;
  return 0;
}

static int64_t assume_i(Machine *m, const Code *c) {
  if (!EVAL_I(c->a) && !m->failed) machine_fail(m, "T.assume: the condition does not hold");
  return 0;
}

/* ---- reductions over lanes: lane i + lane i + n/2, and so on ---- */

typedef enum { LANES_ADD, LANES_MUL, LANES_MAX, LANES_MIN } LanesOp;

static double reduce_f(Machine *m, const Code *c, LanesOp op) {
  double v[64] = {0};
  uint32_t n = c->a->d.lanes, lane = m->lane;
  uint64_t epoch = m->epoch;
  if (n > 64) {
    machine_fail(m, "a reduction over %u lanes", n);
    return 0;
  }
  for (uint32_t i = 0; i < n; i++) {
    m->lane = i;
    machine_next(m);
    v[i] = EVAL_F(c->a);
  }
  m->lane = lane;
  m->epoch = epoch;
  while (n > 1) {
    uint32_t half = (n + 1) / 2;
    for (uint32_t i = 0; i + half < n; i++) {
      double x = v[i], y = v[i + half];
      if (op == LANES_ADD || op == LANES_MUL)
        v[i] = dtype_round(c->d, op == LANES_ADD ? x + y : x * y);
      else if (isnan(x) || isnan(y))
        v[i] = isnan(x) ? x : y;
      else
        v[i] = op == LANES_MAX ? (x > y ? x : y) : (x < y ? x : y);
    }
    n = half;
  }
  return v[0];
}
static int64_t reduce_i(Machine *m, const Code *c, LanesOp op) {
  int64_t r = 0;
  uint32_t n = c->a->d.lanes, lane = m->lane;
  uint64_t epoch = m->epoch;
  bool uns = !dtype_is_sint(c->d);
  for (uint32_t i = 0; i < n; i++) {
    m->lane = i;
    machine_next(m);
    int64_t x = EVAL_I(c->a);
    bool less = uns ? (uint64_t)x < (uint64_t)r : x < r;
    if (i == 0)
      r = x;
    else if (op == LANES_ADD)
      r = dtype_wrap(c->d, (int64_t)((uint64_t)r + (uint64_t)x));
    else if (op == LANES_MUL)
      r = dtype_wrap(c->d, (int64_t)((uint64_t)r * (uint64_t)x));
    else if (op == LANES_MAX ? !less : less)
      r = x;
  }
  m->lane = lane;
  m->epoch = epoch;
  return r;
}
static double radd_f(Machine *m, const Code *c) {
  return reduce_f(m, c, LANES_ADD);
}
static double rmul_f(Machine *m, const Code *c) {
  return reduce_f(m, c, LANES_MUL);
}
static double rmax_f(Machine *m, const Code *c) {
  return reduce_f(m, c, LANES_MAX);
}
static double rmin_f(Machine *m, const Code *c) {
  return reduce_f(m, c, LANES_MIN);
}
static int64_t radd_i(Machine *m, const Code *c) {
  return reduce_i(m, c, LANES_ADD);
}
static int64_t rmul_i(Machine *m, const Code *c) {
  return reduce_i(m, c, LANES_MUL);
}
static int64_t rmax_i(Machine *m, const Code *c) {
  return reduce_i(m, c, LANES_MAX);
}
static int64_t rmin_i(Machine *m, const Code *c) {
  return reduce_i(m, c, LANES_MIN);
}

static int64_t pass_i(Machine *m, const Code *c) {
  return EVAL_I(c->a);
}
static double pass_f(Machine *m, const Code *c) {
  return EVAL_F(c->a);
}

/* ---- translation ---- */

static bool refuse(Compiler *k, const Expr *e) {
  const char *atomic = intrin_atomic(e);
  if (atomic)
    compile_fail(k, "the interpreter has no atomic operation '%s'", atomic);
  else if (e->n && e->arg[0]->kind == EXPR_STR)
    compile_fail(k, "the interpreter can't call the extern function '%s'", e->arg[0]->s);
  else
    compile_fail(k, "the interpreter has no T.%s", intrin_table[e->intrin].name);
  return false;
}

static bool compile_math(Compiler *k, const Expr *e, Code *c) {
  IntrinId f = e->intrin;
  if (!dtype_is_float(e->dtype) && f != INTRIN_pow) return refuse(k, e);
  MathFn *fn = ARENA_NEW(k->arena, MathFn);
  if (dtype_is_float(e->dtype)) {
    if (e->n == 1 && (fn->f1 = math1[f])) c->f = call1;
    if (e->n == 2 && (fn->f2 = math2[f])) c->f = call2;
    c->p = fn;
  }
  switch (f) {
  case INTRIN_nextafter: c->f = nextafter_f; break;
  case INTRIN_fma: c->f = fma_f; break;
  case INTRIN_ldexp: c->f = ldexp_f; break;
  case INTRIN_pow:
    if (!dtype_is_float(e->dtype)) c->i = pow_i;
    break;
  default: break;
  }
  return true;
}

bool compile_intrin(Compiler *k, const Expr *e, Code *c) {
  IntrinId f = e->intrin;
  if (intrin_table[f].flags & INTRIN_OPAQUE) return refuse(k, e);
  if (f == INTRIN_call_packed || intrin_atomic(e)) return refuse(k, e);
  if (f == INTRIN_call_extern || f == INTRIN_call_pure_extern) return compile_extern(k, e, c);
  if (f == INTRIN_prefetch || f == INTRIN_fence) {
    c->i = nothing_i;
    return true;
  }
  if (f == INTRIN_address_of) {
    const Expr *l = e->arg[0];
    if (l->kind != EXPR_LOAD) return refuse(k, e);
    c->access = compile_access(k, l->buf, l->arg, l->n, NULL, l->dtype.lanes);
    c->i = address_i;
    return true;
  }
  const Code *args[4] = {0};
  for (uint32_t i = 0; i < e->n && i < 4; i++) args[i] = compile_expr(k, e->arg[i]);
  if (k->failed) return false;
  c->a = args[0];
  c->b = args[1];
  c->c = args[2];
  bool of_float = c->a && dtype_is_float(c->a->d);
  if (intrin_table[f].flags & INTRIN_FLOAT) return compile_math(k, e, c);
  switch (f) {
  case INTRIN_if_then_else:
    c->i = ite_i;
    c->f = ite_f;
    return true;
  case INTRIN_abs:
    if (of_float) return compile_math(k, e, c);
    c->i = abs_i;
    return true;
  case INTRIN_isnan: c->i = of_float ? isnan_i : zero_i; return true;
  case INTRIN_isinf: c->i = of_float ? isinf_i : zero_i; return true;
  case INTRIN_isfinite: c->i = of_float ? isfinite_i : one_i; return true;
  case INTRIN_isnullptr: c->i = isnull_i; return true;
  case INTRIN_popcount: c->i = popcount_i; return true;
  case INTRIN_clz: c->i = clz_i; return true;
  case INTRIN_reinterpret:
    if (c->a->d.lanes != c->d.lanes) return refuse(k, e);
    c->i = reinterpret_i;
    c->f = reinterpret_f;
    return true;
  case INTRIN_likely:
    c->i = pass_i;
    c->f = pass_f;
    return true;
  case INTRIN_get_active_lane_mask: c->i = lane_mask_i; return true;
  case INTRIN_vector_reduce_add:
    c->i = radd_i;
    c->f = radd_f;
    return true;
  case INTRIN_vector_reduce_mul:
    c->i = rmul_i;
    c->f = rmul_f;
    return true;
  case INTRIN_vector_reduce_max:
  case INTRIN_vector_reduce_maxnum:
    c->i = rmax_i;
    c->f = rmax_f;
    return true;
  case INTRIN_vector_reduce_min:
  case INTRIN_vector_reduce_minnum:
    c->i = rmin_i;
    c->f = rmin_f;
    return true;
  case INTRIN_assume: c->i = assume_i; return true;
  case INTRIN_q_multiply_shift:
    c->p = arena_dup(k->arena, args, sizeof args);
    c->i = q_multiply_shift_i;
    return true;
  default: return refuse(k, e);
  }
}
