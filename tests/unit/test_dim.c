/* Symbolic integers: known identities, and random expressions whose dims must have the value of the
 * expression for all values tried. The prover's answers and bounds are checked the same way. */
#include "ir/facts.h"
#include "tests/unit/unit.h"

enum { NVARS = 4 };

typedef struct {
  Context *c;
  Var *v[NVARS]; /* n, m: dims; i, j: any sign */
  int64_t value[NVARS];
  uint64_t seed;
} World;

static uint32_t next(World *w, uint32_t below) {
  w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(w->seed >> 33) % below;
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Direct evaluation; *ok turns false on a division by zero. */
static int64_t eval(const World *w, const Expr *e, bool *ok) {
  if (e->kind == EXPR_INT) return e->i;
  if (e->kind == EXPR_VAR) {
    for (int i = 0; i < NVARS; i++)
      if (e->var == w->v[i]) return w->value[i];
    fail();
  }
  int64_t a = eval(w, e->arg[0], ok), b = e->n > 1 ? eval(w, e->arg[1], ok) : 0;
  switch ((ExprKind)e->kind) {
  case EXPR_ADD: return a + b;
  case EXPR_SUB: return a - b;
  case EXPR_MUL: return a * b;
  case EXPR_FLOORDIV:
    if (b == 0) *ok = false;
    return b ? floor_div(a, b) : 0;
  case EXPR_FLOORMOD:
    if (b == 0) *ok = false;
    return b ? a - floor_div(a, b) * b : 0;
  case EXPR_MIN: return a < b ? a : b;
  case EXPR_MAX: return a > b ? a : b;
  case EXPR_CAST: return a;
  default: fail_msg("kind %d", e->kind);
  }
  return 0;
}

static const Expr *grow(World *w, int depth) {
  static const ExprKind kinds[] = {EXPR_ADD,      EXPR_ADD, EXPR_SUB, EXPR_MUL,      EXPR_FLOORDIV,
                                   EXPR_FLOORMOD, EXPR_MIN, EXPR_MAX, EXPR_FLOORDIV, EXPR_FLOORMOD};
  if (depth == 0 || next(w, 6) == 0) {
    if (next(w, 3) == 0) return expr_i64(w->c, (int64_t)next(w, 17) - 4);
    return w->v[next(w, NVARS)]->expr;
  }
  ExprKind k = kinds[next(w, sizeof kinds / sizeof *kinds)];
  const Expr *a = grow(w, depth - 1), *b = grow(w, depth - 1);
  if (k == EXPR_FLOORDIV || k == EXPR_FLOORMOD) {
    uint32_t pick = next(w, 8);
    if (pick == 0)
      b = w->v[0]->expr;
    else if (pick == 1)
      b = expr_mul(w->c, w->v[0]->expr, w->v[1]->expr);
    else if (pick == 2)
      b = expr_add(w->c, w->v[0]->expr, expr_i64(w->c, 1));
    else
      b = expr_i64(w->c, 1 + next(w, 8) * (1 + next(w, 2)));
  }
  return expr_binary(w->c, k, a, b);
}

static void set_values(World *w) {
  for (int i = 0; i < NVARS; i++)
    w->value[i] = i < 2 ? (int64_t)next(w, 12) : (int64_t)next(w, 41) - 20;
}

static World world(void) {
  World w = {.c = context_create(), .seed = 42};
  w.v[0] = var_create_dim(w.c, "n");
  w.v[1] = var_create_dim(w.c, "m");
  w.v[2] = var_create(w.c, "i", DT_I64);
  w.v[3] = var_create(w.c, "j", DT_I64);
  return w;
}

static void random_values(void **state) {
  (void)state;
  World w = world();
  for (int round = 0; round < 20000; round++) {
    const Expr *e = grow(&w, 2 + (int)next(&w, 4));
    const Dim *d = expr_dim(w.c, e);
    const Expr *s = dim_expr(w.c, d, DT_I64);
    assert_ptr_equal(expr_dim(w.c, s), d);
    int64_t lo, hi;
    dim_bounds(w.c, NULL, d, &lo, &hi);
    for (int k = 0; k < 20; k++) {
      bool ok = true, ok2 = true;
      set_values(&w);
      int64_t want = eval(&w, e, &ok);
      if (!ok) continue;
      int64_t got = eval(&w, s, &ok2);
      if (!ok2) continue;
      if (got != want) fail_msg("round %d: %lld, not %lld", round, (long long)got, (long long)want);
      if (want < lo || want > hi) fail_msg("round %d: %lld out of bounds", round, (long long)want);
    }
  }
  context_free(w.c);
}

/* 0 <= i < n, 2 <= j < 10. */
static void random_proofs(void **state) {
  (void)state;
  World w = world();
  Arena *a = arena_create();
  Facts *f = facts_create(w.c, a);
  facts_below(f, w.v[2], dim_const(w.c, 0), dim_var(w.c, w.v[0]));
  facts_below(f, w.v[3], dim_const(w.c, 2), dim_const(w.c, 10));
  int decided = 0;
  for (int round = 0; round < 20000; round++) {
    const Dim *x = expr_dim(w.c, grow(&w, 3)), *y = expr_dim(w.c, grow(&w, 2));
    const Expr *ex = dim_expr(w.c, x, DT_I64), *ey = dim_expr(w.c, y, DT_I64);
    const Expr *es = dim_expr(w.c, dim_simplify(w.c, f, x), DT_I64);
    Proof le = prove_le(w.c, f, x, y), lt = prove_lt(w.c, f, x, y), eq = prove_eq(w.c, f, x, y);
    decided += le != PROOF_UNKNOWN;
    for (int k = 0; k < 20; k++) {
      bool ok = true;
      set_values(&w);
      w.value[0] = 4 * (1 + next(&w, 4));
      w.value[2] = next(&w, (uint32_t)w.value[0]);
      w.value[3] = 2 + next(&w, 8);
      int64_t p = eval(&w, ex, &ok), q = eval(&w, ey, &ok);
      if (!ok) continue;
      int64_t s = eval(&w, es, &ok);
      if (ok) assert_int_equal(s, p);
      if (le != PROOF_UNKNOWN) assert_int_equal(p <= q, le == PROOF_YES);
      if (lt != PROOF_UNKNOWN) assert_int_equal(p < q, lt == PROOF_YES);
      if (eq != PROOF_UNKNOWN) assert_int_equal(p == q, eq == PROOF_YES);
    }
  }
  assert_true(decided > 4000);
  arena_free(a);
  context_free(w.c);
}

static void identities(void **state) {
  (void)state;
  World w = world();
  Context *c = w.c;
  const Expr *n = w.v[0]->expr, *m = w.v[1]->expr, *i = w.v[2]->expr, *j = w.v[3]->expr;
  const Expr *two = expr_i64(c, 2), *three = expr_i64(c, 3), *four = expr_i64(c, 4);
#define SAME(x, y) assert_ptr_equal(expr_dim(c, x), expr_dim(c, y))
#define ADD(x, y) expr_add(c, x, y)
#define SUB(x, y) expr_sub(c, x, y)
#define MUL(x, y) expr_mul(c, x, y)
#define DIV(x, y) expr_floordiv(c, x, y)
#define MOD(x, y) expr_floormod(c, x, y)
  SAME(ADD(n, m), ADD(m, n));
  SAME(MUL(ADD(n, m), SUB(n, m)), SUB(MUL(n, n), MUL(m, m)));
  SAME(DIV(ADD(MUL(four, n), three), four), n);
  SAME(MOD(MUL(n, four), four), expr_i64(c, 0));
  SAME(DIV(DIV(n, three), four), DIV(n, expr_i64(c, 12)));
  SAME(SUB(i, MUL(DIV(i, four), four)), MOD(i, four));
  SAME(ADD(MUL(DIV(i, four), four), MOD(i, four)), i);
  SAME(SUB(i, MUL(DIV(i, n), n)), MOD(i, n));
  SAME(MOD(MOD(i, expr_i64(c, 8)), four), MOD(i, four));
  SAME(DIV(MOD(i, expr_i64(c, 12)), four), MOD(DIV(i, four), three));
  SAME(ADD(MUL(DIV(i, expr_i64(c, 12)), expr_i64(c, 12)), MOD(i, expr_i64(c, 12))), i);
  SAME(DIV(MUL(n, m), n), m);
  SAME(MOD(ADD(MUL(n, m), n), n), expr_i64(c, 0));
  SAME(DIV(ADD(MUL(two, n), expr_i64(c, 1)), expr_i64(c, 6)), DIV(n, three));
  SAME(expr_min(c, n, ADD(n, two)), n);
  SAME(expr_max(c, expr_max(c, n, m), i), expr_max(c, i, expr_max(c, m, n)));
  SAME(expr_min(c, ADD(n, two), ADD(m, two)), ADD(expr_min(c, m, n), two));
  SAME(DIV(SUB(MUL(SUB(n, two), SUB(m, two)), expr_i64(c, 0)), SUB(m, two)), SUB(n, two));
  /* n * 2 + 1 prints in this order */
  const Expr *e = expr_simplify(c, ADD(expr_i64(c, 1), MUL(two, n)));
  assert_int_equal(e->kind, EXPR_ADD);
  assert_int_equal(e->arg[0]->kind, EXPR_MUL);
  assert_ptr_equal(e->arg[0]->arg[0], n);
  assert_true(expr_is_int(e->arg[1], 1));
  /* overflow is opaque, not wrong */
  const Expr *big = MUL(n, expr_i64(c, INT64_MAX));
  SAME(MUL(big, four), MUL(big, four));
  assert_ptr_not_equal(expr_dim(c, MUL(big, four)), expr_dim(c, MUL(n, expr_i64(c, -4))));
  const Dim *coef, *rest;
  assert_true(dim_linear(c, expr_dim(c, ADD(MUL(n, i), j)), w.v[2], &coef, &rest));
  assert_ptr_equal(coef, expr_dim(c, n));
  assert_ptr_equal(rest, expr_dim(c, j));
  assert_false(dim_linear(c, expr_dim(c, DIV(i, four)), w.v[2], &coef, &rest));
  Map vars;
  map_init(&vars, c->arena);
  map_setp(&vars, w.v[0], (void *)(uintptr_t)expr_i64(c, 6));
  int64_t v;
  assert_true(dim_is_const(dim_subst(c, expr_dim(c, DIV(ADD(n, two), four)), &vars), &v));
  assert_int_equal(v, 2);
  context_free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(identities),
      cmocka_unit_test(random_values),
      cmocka_unit_test(random_proofs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
