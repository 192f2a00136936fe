/* Expressions as closures: one function per operation and type class.
 *
 * Each closure computes one lane; m->lane says which. Float results are rounded to their type after
 * each operation, integers wrap. A subexpression that stands more than once under a root is
 * computed once per evaluation (memo), so that a shared tree costs its distinct nodes.
 */
#include "ir/eval_impl.h"
#include <math.h>
#include <string.h>

/* ---- literals, variables, memo ---- */

static int64_t lit_i(Machine *m, const Code *c) {
  (void)m;
  return c->k.i;
}
static double lit_f(Machine *m, const Code *c) {
  (void)m;
  return c->k.f;
}
static int64_t var_i(Machine *m, const Code *c) {
  return m->slots[c->slot].i;
}
static double var_f(Machine *m, const Code *c) {
  return m->slots[c->slot].f;
}
static int64_t vec_i(Machine *m, const Code *c) {
  return m->slots[c->slot + m->lane].i;
}
static double vec_f(Machine *m, const Code *c) {
  return m->slots[c->slot + m->lane].f;
}

static int64_t memo_i(Machine *m, const Code *c) {
  Memo *k = &m->memos[c->slot];
  if (k->stamp != m->epoch) {
    uint64_t epoch = m->epoch;
    k->v.i = EVAL_I(c->a);
    k->stamp = epoch == m->epoch ? epoch : 0;
  }
  return k->v.i;
}
static double memo_f(Machine *m, const Code *c) {
  Memo *k = &m->memos[c->slot];
  if (k->stamp != m->epoch) {
    uint64_t epoch = m->epoch;
    k->v.f = EVAL_F(c->a);
    k->stamp = epoch == m->epoch ? epoch : 0;
  }
  return k->v.f;
}

/* ---- memory ---- */

static bool out_of_range(Machine *m, const Access *a, uint32_t dim, int64_t index) {
  machine_fail(m, "index %lld is out of range for dim %u of buffer '%s', which has size %lld",
               (long long)index, dim, a->buf->name, (long long)m->views[a->view].shape[dim]);
  return false;
}

char *access_at(Machine *m, const Access *a) {
  const View *v = &m->views[a->view];
  uint32_t lane = m->lane, sub = 0;
  uint64_t epoch = m->epoch;
  if (a->elem_lanes > 1) { /* lanes of one element, then of the index */
    sub = lane % a->elem_lanes;
    m->lane = lane / a->elem_lanes;
    machine_next(m);
  }
  int64_t off = 0;
  bool ok = true;
  for (uint32_t i = 0; i < a->n && ok; i++) {
    uint32_t slot = a->idx_slot[i];
    int64_t x = slot != UINT32_MAX ? m->slots[slot].i : EVAL_I(a->idx[i]);
    if (m->failed)
      ok = false;
    else if (x < 0 || x >= v->shape[i])
      ok = out_of_range(m, a, i, x);
    else
      off = v->stride ? off + x * v->stride[i] : off * v->shape[i] + x;
  }
  if (a->elem_lanes > 1) {
    m->lane = lane;
    m->epoch = epoch;
    if (ok) off = off * (int64_t)a->elem_lanes + sub;
  }
  if (!ok) return NULL;
  if (off < 0 || (off + 1) * (int64_t)a->bytes > v->size) {
    machine_fail(m, "element %lld lies outside the memory of buffer '%s'", (long long)off,
                 a->buf->name);
    return NULL;
  }
  return v->data + off * (int64_t)a->bytes;
}

static bool masked_off(Machine *m, const Access *a) {
  return a->pred && !EVAL_I(a->pred);
}

double access_load_f(Machine *m, const Access *a) {
  if (masked_off(m, a)) return 0;
  const char *p = access_at(m, a);
  return p ? dtype_load_double(a->elem, p) : 0;
}

int64_t access_load_i(Machine *m, const Access *a) {
  if (masked_off(m, a)) return 0;
  const char *p = access_at(m, a);
  return p ? dtype_load_int(a->elem, p) : 0;
}

static double load_f(Machine *m, const Code *c) {
  return access_load_f(m, c->access);
}
static int64_t load_i(Machine *m, const Code *c) {
  return access_load_i(m, c->access);
}

static double load_f32(Machine *m, const Code *c) {
  const char *p = access_at(m, c->access);
  float v = 0;
  if (p) memcpy(&v, p, sizeof v);
  return v;
}
static double load_f64(Machine *m, const Code *c) {
  const char *p = access_at(m, c->access);
  double v = 0;
  if (p) memcpy(&v, p, sizeof v);
  return v;
}
static int64_t load_i64(Machine *m, const Code *c) {
  const char *p = access_at(m, c->access);
  int64_t v = 0;
  if (p) memcpy(&v, p, sizeof v);
  return v;
}
static int64_t load_i32(Machine *m, const Code *c) {
  const char *p = access_at(m, c->access);
  int32_t v = 0;
  if (p) memcpy(&v, p, sizeof v);
  return v;
}

static int64_t buf_data(Machine *m, const Code *c) {
  return (int64_t)(intptr_t)m->views[c->slot].data;
}

/* ---- float arithmetic: generic (rounds to c->d), float32, float64 ---- */

static double min_f(double x, double y) {
  return isnan(x) ? x : isnan(y) ? y : x < y ? x : y;
}
static double max_f(double x, double y) {
  return isnan(x) ? x : isnan(y) ? y : x > y ? x : y;
}
static double floormod_f(double x, double y) {
  double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

#define FLOAT_OP(name, wide, narrow)                                                               \
  static double name##_fx(Machine *m, const Code *c) {                                             \
    double x = EVAL_F(c->a), y = EVAL_F(c->b);                                                     \
    return dtype_round(c->d, wide);                                                                \
  }                                                                                                \
  static double name##_f32(Machine *m, const Code *c) {                                            \
    float x = (float)EVAL_F(c->a), y = (float)EVAL_F(c->b);                                        \
    return (float)(narrow);                                                                        \
  }                                                                                                \
  static double name##_f64(Machine *m, const Code *c) {                                            \
    double x = EVAL_F(c->a), y = EVAL_F(c->b);                                                     \
    return wide;                                                                                   \
  }
FLOAT_OP(add, x + y, x + y)
FLOAT_OP(sub, x - y, x - y)
FLOAT_OP(mul, x *y, x *y)
FLOAT_OP(div, x / y, x / y)
FLOAT_OP(mod, fmod(x, y), fmodf(x, y))
FLOAT_OP(floordiv, floor(x / y), floorf(x / y))
FLOAT_OP(floormod, floormod_f(x, y), floormod_f(x, y))
FLOAT_OP(min, min_f(x, y), min_f(x, y))
FLOAT_OP(max, max_f(x, y), max_f(x, y))

typedef double (*FloatFn)(Machine *, const Code *);
typedef struct {
  FloatFn any, f32, f64;
} FloatFns;
#define FLOAT_FNS(name) {name##_fx, name##_f32, name##_f64}

/* ---- integer arithmetic ---- */

static int64_t wrap(const Code *c, uint64_t v) {
  return dtype_wrap(c->d, (int64_t)v);
}

#define INT_OP(name, value)                                                                        \
  static int64_t name##_ix(Machine *m, const Code *c) {                                            \
    uint64_t x = (uint64_t)EVAL_I(c->a), y = (uint64_t)EVAL_I(c->b);                               \
    return wrap(c, value);                                                                         \
  }                                                                                                \
  static int64_t name##_i32(Machine *m, const Code *c) {                                           \
    uint32_t x = (uint32_t)EVAL_I(c->a), y = (uint32_t)EVAL_I(c->b);                               \
    return (int32_t)(value);                                                                       \
  }                                                                                                \
  static int64_t name##_i64(Machine *m, const Code *c) {                                           \
    uint64_t x = (uint64_t)EVAL_I(c->a), y = (uint64_t)EVAL_I(c->b);                               \
    return (int64_t)(value);                                                                       \
  }
INT_OP(add, x + y)
INT_OP(sub, x - y)
INT_OP(mul, x *y)
INT_OP(bitand, x &y)
INT_OP(bitor, x | y)
INT_OP(bitxor, x ^ y)

typedef int64_t (*IntFn)(Machine *, const Code *);
typedef struct {
  IntFn any, i32, i64;
} IntFns;
#define INT_FNS(name) {name##_ix, name##_i32, name##_i64}

static bool is_unsigned(const Code *c) {
  return dtype_is_uint(c->a->d) || dtype_is_bool(c->a->d);
}

/* Division by zero is an error; the lowest value by -1 wraps. Unsigned values narrower than 64 bits
 * are held zero-extended, so that only uint64 needs unsigned operations. */
static bool divisor_ok(Machine *m, int64_t y) {
  if (y == 0) machine_fail(m, "integer division by zero");
  return y != 0;
}

static int64_t div_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a), y = EVAL_I(c->b);
  if (!divisor_ok(m, y)) return 0;
  if (is_unsigned(c)) return (int64_t)((uint64_t)x / (uint64_t)y);
  return y == -1 ? wrap(c, 0 - (uint64_t)x) : x / y;
}
static int64_t mod_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a), y = EVAL_I(c->b);
  if (!divisor_ok(m, y)) return 0;
  if (is_unsigned(c)) return (int64_t)((uint64_t)x % (uint64_t)y);
  return y == -1 ? 0 : x % y;
}
static int64_t floordiv_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a), y = EVAL_I(c->b);
  if (!divisor_ok(m, y)) return 0;
  if (is_unsigned(c)) return (int64_t)((uint64_t)x / (uint64_t)y);
  if (y == -1) return wrap(c, 0 - (uint64_t)x);
  int64_t q = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? q - 1 : q;
}
static int64_t floormod_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a), y = EVAL_I(c->b);
  if (!divisor_ok(m, y)) return 0;
  if (is_unsigned(c)) return (int64_t)((uint64_t)x % (uint64_t)y);
  if (y == -1) return 0;
  int64_t r = x % y;
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static bool less_i(const Code *c, int64_t x, int64_t y) {
  return is_unsigned(c) ? (uint64_t)x < (uint64_t)y : x < y;
}
static int64_t min_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a), y = EVAL_I(c->b);
  return less_i(c, x, y) ? x : y;
}
static int64_t max_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a), y = EVAL_I(c->b);
  return less_i(c, y, x) ? x : y;
}
static int64_t shl_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a), s = EVAL_I(c->b);
  if (s < 0 || s >= c->d.bits) return 0;
  return wrap(c, (uint64_t)x << s);
}
static int64_t shr_i(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a), s = EVAL_I(c->b);
  bool far = s < 0 || s >= c->d.bits;
  if (!dtype_is_sint(c->d)) return far ? 0 : (int64_t)((uint64_t)x >> s);
  if (far) s = 63;
  return x < 0 ? (int64_t)~(~(uint64_t)x >> s) : x >> s;
}

#define COMPARE(name, op)                                                                          \
  static int64_t name##_i(Machine *m, const Code *c) {                                             \
    int64_t x = EVAL_I(c->a), y = EVAL_I(c->b);                                                    \
    return is_unsigned(c) ? (uint64_t)x op(uint64_t) y : x op y;                                   \
  }                                                                                                \
  static int64_t name##_s(Machine *m, const Code *c) {                                             \
    return EVAL_I(c->a) op EVAL_I(c->b);                                                           \
  }                                                                                                \
  static int64_t name##_f(Machine *m, const Code *c) {                                             \
    return EVAL_F(c->a) op EVAL_F(c->b);                                                           \
  }
COMPARE(eq, ==)
COMPARE(ne, !=)
COMPARE(lt, <)
COMPARE(le, <=)
COMPARE(gt, >)
COMPARE(ge, >=)

static int64_t and_i(Machine *m, const Code *c) {
  return EVAL_I(c->a) && EVAL_I(c->b);
}
static int64_t or_i(Machine *m, const Code *c) {
  return EVAL_I(c->a) || EVAL_I(c->b);
}
static int64_t not_i(Machine *m, const Code *c) {
  return !EVAL_I(c->a);
}
static int64_t bitnot_i(Machine *m, const Code *c) {
  return wrap(c, ~(uint64_t)EVAL_I(c->a));
}

/* ---- choice, conversion, vectors ---- */

static int64_t select_i(Machine *m, const Code *c) {
  int64_t k = EVAL_I(c->a), x = EVAL_I(c->b), y = EVAL_I(c->c);
  return k ? x : y;
}
static double select_f(Machine *m, const Code *c) {
  int64_t k = EVAL_I(c->a);
  double x = EVAL_F(c->b), y = EVAL_F(c->c);
  return k ? x : y;
}

static double cast_ff(Machine *m, const Code *c) {
  return dtype_round(c->d, EVAL_F(c->a));
}
static double cast_fi(Machine *m, const Code *c) {
  int64_t x = EVAL_I(c->a);
  bool big = c->a->d.code == DTYPE_UINT && c->a->d.bits == 64;
  if (c->d.code == DTYPE_FLOAT && c->d.bits == 32) return big ? (float)(uint64_t)x : (float)x;
  return dtype_round(c->d, big ? (double)(uint64_t)x : (double)x);
}
static int64_t cast_ii(Machine *m, const Code *c) {
  return wrap(c, (uint64_t)EVAL_I(c->a));
}
static int64_t cast_bool_i(Machine *m, const Code *c) {
  return EVAL_I(c->a) != 0;
}
static int64_t cast_bool_f(Machine *m, const Code *c) {
  return EVAL_F(c->a) != 0;
}

/* Saturates; NaN gives 0. */
static int64_t cast_if(Machine *m, const Code *c) {
  double x = EVAL_F(c->a);
  if (isnan(x)) return 0;
  x = trunc(x);
  unsigned bits = c->d.bits;
  if (dtype_is_uint(c->d)) {
    if (x <= 0) return 0;
    if (x >= ldexp(1, (int)bits)) return dtype_wrap(c->d, -1);
    return (int64_t)(uint64_t)x;
  }
  double top = ldexp(1, (int)bits - 1);
  int64_t max = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
  if (x >= top) return max;
  if (x < -top) return -max - 1;
  return (int64_t)x;
}

static int64_t ramp_i(Machine *m, const Code *c) {
  uint64_t base = (uint64_t)EVAL_I(c->a), stride = (uint64_t)EVAL_I(c->b);
  return wrap(c, base + stride * m->lane);
}
static double ramp_f(Machine *m, const Code *c) {
  double base = EVAL_F(c->a), stride = EVAL_F(c->b);
  return dtype_round(c->d, base + dtype_round(c->d, stride * m->lane));
}
static int64_t pass_i(Machine *m, const Code *c) {
  return EVAL_I(c->a);
}
static double pass_f(Machine *m, const Code *c) {
  return EVAL_F(c->a);
}

/* Let: value in the lanes of its slot, then the body. */
static void let_bind(Machine *m, const Code *c) {
  const Code *v = c->a;
  uint32_t slot = c->c->slot, lane = m->lane;
  uint64_t epoch = m->epoch;
  for (uint32_t l = 0; l < v->d.lanes; l++) {
    if (v->d.lanes > 1) {
      m->lane = l;
      machine_next(m);
    }
    m->slots[slot + l] = code_eval(m, v);
  }
  m->lane = lane;
  m->epoch = epoch;
}
static int64_t let_i(Machine *m, const Code *c) {
  let_bind(m, c);
  return EVAL_I(c->b);
}
static double let_f(Machine *m, const Code *c) {
  let_bind(m, c);
  return EVAL_F(c->b);
}

typedef struct {
  uint32_t n; /* lanes of the result */
  const Code **vec;
  uint32_t *lane;
} Shuffle;

static Slot shuffle(Machine *m, const Code *c) {
  const Shuffle *s = c->p;
  uint32_t lane = m->lane;
  uint64_t epoch = m->epoch;
  m->lane = s->lane[lane];
  machine_next(m);
  Slot r = code_eval(m, s->vec[lane]);
  m->lane = lane;
  m->epoch = epoch;
  return r;
}
static int64_t shuffle_i(Machine *m, const Code *c) {
  return shuffle(m, c).i;
}
static double shuffle_f(Machine *m, const Code *c) {
  return shuffle(m, c).f;
}

/* ---- translation ---- */

void compile_fail(Compiler *k, const char *fmt, ...) {
  if (k->failed) return;
  k->failed = true;
  Text t = {0};
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  interp_fail(k->in, k->span, "%s", text_cstr(&t));
  text_free(&t);
}

uint32_t compile_slot(Compiler *k, const Var *v) {
  uintptr_t s = (uintptr_t)map_getp(&k->code->slots, v);
  if (!s) {
    s = k->code->nslots + 1;
    k->code->nslots += v->dtype.lanes ? v->dtype.lanes : 1;
    map_setp(&k->code->slots, v, (void *)s);
  }
  return (uint32_t)s - 1;
}

uint32_t compile_view(Compiler *k, const Buffer *b) {
  uintptr_t s = (uintptr_t)map_getp(&k->code->views, b);
  if (s) return (uint32_t)s - 1;
  compile_fail(k, "buffer '%s' is not defined here", b->name);
  return 0;
}

const Access *compile_access(Compiler *k, const Buffer *b, const Expr *const *idx, uint32_t n,
                             const Expr *pred, unsigned lanes) {
  Access *a = ARENA_NEW(k->arena, Access);
  a->view = compile_view(k, b);
  a->n = n;
  a->buf = b;
  a->elem_lanes = b->dtype.lanes;
  a->elem = dtype_scalar(b->dtype);
  a->bytes = dtype_bytes(a->elem);
  a->lanes = lanes;
  if (n != b->ndim) compile_fail(k, "buffer '%s' has %u dims but %u indices", b->name, b->ndim, n);
  const Code **codes = ARENA_ARRAY(k->arena, const Code *, n);
  for (uint32_t i = 0; i < n; i++) codes[i] = compile_expr(k, idx[i]);
  a->idx = codes;
  uint32_t *slots = ARENA_ARRAY(k->arena, uint32_t, n);
  for (uint32_t i = 0; i < n; i++) slots[i] = codes[i]->i == var_i ? codes[i]->slot : UINT32_MAX;
  a->idx_slot = slots;
  if (pred) a->pred = compile_expr(k, pred);
  return a;
}

static void set_float(Code *c, FloatFns f) {
  bool plain = c->d.code == DTYPE_FLOAT;
  c->f = plain && c->d.bits == 32 ? f.f32 : plain && c->d.bits == 64 ? f.f64 : f.any;
}

static void set_int(Code *c, IntFns f) {
  bool sint = c->d.code == DTYPE_INT;
  c->i = sint && c->d.bits == 32 ? f.i32 : sint && c->d.bits == 64 ? f.i64 : f.any;
}

static void compile_arith(const Expr *e, Code *c) {
  static const FloatFns floats[] = {FLOAT_FNS(add),      FLOAT_FNS(sub), FLOAT_FNS(mul),
                                    FLOAT_FNS(div),      FLOAT_FNS(mod), FLOAT_FNS(floordiv),
                                    FLOAT_FNS(floormod), FLOAT_FNS(min), FLOAT_FNS(max)};
  static const IntFns ints[] = {INT_FNS(add), INT_FNS(sub), INT_FNS(mul)};
  static const IntFn plain[] = {div_i, mod_i, floordiv_i, floormod_i, min_i, max_i};
  uint32_t k = (uint32_t)e->kind - EXPR_ADD;
  if (dtype_is_float(c->d))
    set_float(c, floats[k]);
  else if (k < 3)
    set_int(c, ints[k]);
  else
    c->i = plain[k - 3];
}

static void compile_compare(const Expr *e, Code *c) {
  static const IntFn ints[] = {eq_i, ne_i, lt_i, le_i, gt_i, ge_i};
  static const IntFn sints[] = {eq_s, ne_s, lt_s, le_s, gt_s, ge_s};
  static const IntFn floats[] = {eq_f, ne_f, lt_f, le_f, gt_f, ge_f};
  uint32_t k = (uint32_t)e->kind - EXPR_EQ;
  DType d = c->a->d;
  c->i = dtype_is_float(d) ? floats[k] : dtype_is_sint(d) ? sints[k] : ints[k];
}

static void compile_cast(Code *c) {
  bool from = dtype_is_float(c->a->d), to = dtype_is_float(c->d);
  if (to && from)
    c->f = cast_ff;
  else if (to)
    c->f = cast_fi;
  else if (dtype_is_bool(c->d))
    c->i = from ? cast_bool_f : cast_bool_i;
  else
    c->i = from ? cast_if : cast_ii;
}

static void compile_load(Compiler *k, const Expr *e, Code *c) {
  uint32_t n = e->n - (e->has_pred ? 1 : 0);
  const Access *a =
      compile_access(k, e->buf, e->arg, n, e->has_pred ? e->arg[n] : NULL, e->dtype.lanes);
  c->access = a;
  DType d = a->elem;
  c->i = load_i;
  c->f = load_f;
  if (a->pred) return;
  if (d.code == DTYPE_FLOAT && d.bits == 32) c->f = load_f32;
  if (d.code == DTYPE_FLOAT && d.bits == 64) c->f = load_f64;
  if (d.code == DTYPE_INT && d.bits == 64) c->i = load_i64;
  if (d.code == DTYPE_INT && d.bits == 32) c->i = load_i32;
}

static void compile_var(Compiler *k, const Expr *e, Code *c) {
  const Value *v = k->env ? map_getp(k->env, e->var) : NULL;
  if (v) {
    if (dtype_is_float(c->d))
      c->k.f = v->f;
    else
      c->k.i = dtype_wrap(c->d, v->i);
    c->i = lit_i;
    c->f = lit_f;
    return;
  }
  if (!map_hasp(&k->code->slots, e->var)) {
    if (!k->code->f) {
      compile_fail(k, "variable '%s' has no value here", e->var->name);
      return;
    }
    vec_push(k->arena, &k->code->free, e->var);
  }
  c->slot = compile_slot(k, e->var);
  bool vec = e->var->dtype.lanes > 1;
  c->i = vec ? vec_i : var_i;
  c->f = vec ? vec_f : var_f;
}

static void compile_shuffle(Compiler *k, const Expr *e, Code *c) {
  const Expr *lanes = e->arg[e->n - 1];
  Shuffle *s = ARENA_NEW(k->arena, Shuffle);
  s->n = lanes->n;
  s->vec = ARENA_ARRAY(k->arena, const Code *, s->n);
  s->lane = ARENA_ARRAY(k->arena, uint32_t, s->n);
  for (uint32_t i = 0; i < s->n; i++) {
    int64_t at = lanes->arg[i]->kind == EXPR_INT ? lanes->arg[i]->i : -1;
    for (uint32_t v = 0; v + 1 < e->n && at >= 0; v++) {
      if (at < e->arg[v]->dtype.lanes) {
        s->vec[i] = compile_expr(k, e->arg[v]);
        s->lane[i] = (uint32_t)at;
        break;
      }
      at -= e->arg[v]->dtype.lanes;
    }
    if (!s->vec[i]) compile_fail(k, "a lane of T.Shuffle is not a lane of its vectors");
  }
  c->p = s;
  c->i = shuffle_i;
  c->f = shuffle_f;
}

static void compile_let(Compiler *k, const Expr *e, Code *c) {
  Code *slot = ARENA_NEW(k->arena, Code);
  c->a = compile_expr(k, e->arg[1]);
  slot->slot = compile_slot(k, e->arg[0]->var);
  c->c = slot;
  c->b = compile_expr(k, e->arg[2]);
  c->i = let_i;
  c->f = let_f;
}

static int64_t call_i(Machine *m, const Code *c) {
  Value v = {0};
  return call_run(m, c->p, &v) ? v.i : 0;
}
static double call_f(Machine *m, const Code *c) {
  Value v = {0};
  return call_run(m, c->p, &v) ? v.f : 0;
}

static void compile_kind(Compiler *k, const Expr *e, Code *c) {
  switch ((ExprKind)e->kind) {
  case EXPR_INT:
    c->k.i = e->i;
    c->i = lit_i;
    return;
  case EXPR_FLOAT:
    c->k.f = e->f;
    c->f = lit_f;
    return;
  case EXPR_STR: compile_fail(k, "a string is no value here"); return;
  case EXPR_VAR: compile_var(k, e, c); return;
  case EXPR_LOAD: compile_load(k, e, c); return;
  case EXPR_SHUFFLE: compile_shuffle(k, e, c); return;
  case EXPR_LET: compile_let(k, e, c); return;
  case EXPR_CALL: (void)compile_intrin(k, e, c); return;
  case EXPR_CALL_FUNC:
    c->p = compile_call(k, e);
    c->i = call_i;
    c->f = call_f;
    return;
  case EXPR_BUF_DATA:
    c->slot = compile_view(k, e->buf);
    c->i = buf_data;
    return;
  default: break;
  }
  if (e->n > 0) c->a = compile_expr(k, e->arg[0]);
  if (e->n > 1) c->b = compile_expr(k, e->arg[1]);
  if (e->n > 2) c->c = compile_expr(k, e->arg[2]);
  if (k->failed) return;
  switch ((ExprKind)e->kind) {
  case EXPR_ADD:
  case EXPR_SUB:
  case EXPR_MUL:
  case EXPR_DIV:
  case EXPR_MOD:
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_MIN:
  case EXPR_MAX: compile_arith(e, c); return;
  case EXPR_EQ:
  case EXPR_NE:
  case EXPR_LT:
  case EXPR_LE:
  case EXPR_GT:
  case EXPR_GE: compile_compare(e, c); return;
  case EXPR_AND: c->i = and_i; return;
  case EXPR_OR: c->i = or_i; return;
  case EXPR_NOT: c->i = not_i; return;
  case EXPR_BITAND: set_int(c, (IntFns)INT_FNS(bitand)); return;
  case EXPR_BITOR: set_int(c, (IntFns)INT_FNS(bitor)); return;
  case EXPR_BITXOR: set_int(c, (IntFns)INT_FNS(bitxor)); return;
  case EXPR_BITNOT: c->i = dtype_is_bool(c->d) ? not_i : bitnot_i; return;
  case EXPR_SHL: c->i = shl_i; return;
  case EXPR_SHR: c->i = shr_i; return;
  case EXPR_CAST: compile_cast(c); return;
  case EXPR_SELECT:
    c->i = select_i;
    c->f = select_f;
    return;
  case EXPR_RAMP:
    c->i = ramp_i;
    c->f = ramp_f;
    return;
  case EXPR_BROADCAST:
    c->i = pass_i;
    c->f = pass_f;
    return;
  default: bug("expression kind %d", e->kind);
  }
}

static int64_t failed_i(Machine *m, const Code *c) {
  (void)c;
  m->failed = true;
  return 0;
}
static double failed_f(Machine *m, const Code *c) {
  (void)c;
  m->failed = true;
  return 0;
}

const Code *compile_expr(Compiler *k, const Expr *e) {
  const Code *known = map_get(&k->memo, (uint64_t)e->id + 1);
  if (known) return known;
  Code *c = ARENA_NEW(k->arena, Code);
  c->d = e->dtype;
  c->i = failed_i;
  c->f = failed_f;
  if (dtype_vscale(e->dtype))
    compile_fail(k, "the interpreter has no vectors of T.vscale() lanes");
  else
    compile_kind(k, e, c);
  const Code *r = c;
  bool shared = (uintptr_t)map_get(&k->refs, (uint64_t)e->id + 1) > 1;
  bool once = e->kind == EXPR_CALL && !(intrin_table[e->intrin].flags & INTRIN_PURE);
  if (shared && e->n && e->kind != EXPR_BROADCAST && !once && !k->failed) {
    Code *memo = ARENA_NEW(k->arena, Code);
    memo->d = c->d;
    memo->a = c;
    memo->slot = k->code->nmemos++;
    memo->i = memo_i;
    memo->f = memo_f;
    r = memo;
  }
  map_set(&k->memo, (uint64_t)e->id + 1, (void *)(uintptr_t)r);
  return r;
}

static void count_refs(Compiler *k, const Expr *e) {
  uint64_t key = (uint64_t)e->id + 1;
  uintptr_t n = (uintptr_t)map_get(&k->refs, key);
  map_set(&k->refs, key, (void *)(n + 1));
  if (n) return;
  for (uint32_t i = 0; i < e->n; i++) count_refs(k, e->arg[i]);
}

void compile_begin(Compiler *k, const Expr *const *e, uint32_t n) {
  map_init(&k->memo, k->arena);
  map_init(&k->refs, k->arena);
  for (uint32_t i = 0; i < n; i++)
    if (e[i]) count_refs(k, e[i]);
}

const Code *compile_root(Compiler *k, const Expr *e) {
  compile_begin(k, &e, 1);
  const Code *c = compile_expr(k, e);
  return k->failed ? NULL : c;
}
