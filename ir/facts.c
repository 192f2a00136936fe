/* Facts and the prover.
 *
 * Bounds are intervals, saturating at the ends of int64. To prove d >= 0 the prover replaces what
 * it doesn't know by its worst case, one thing after the other, until the interval decides: a loop
 * variable by the end of its range that makes d smallest, floordiv and floormod by the bounds of
 * their definition, min and max by each operand. Each step is exact or pessimistic, hence sound.
 */
#include "ir/facts.h"
#include "ir/dim_rules.h"

enum { PROVE_DEPTH = 12, MAX_ATOMS = 32 };

typedef struct {
  const Var *var;
  const Dim *lo, *end;
} BelowFact;
typedef struct {
  Map var_to; /* one variable -> its expression; empty when none could be isolated */
  const Dim *diff;
} EqualFact;
typedef struct {
  uint32_t belows, equals;
} Mark;

struct Facts {
  Context *c;
  Arena *arena;
  VEC(BelowFact) belows;
  VEC(EqualFact) equals;
  VEC(Mark) marks;
};

Facts *facts_create(Context *c, Arena *a) {
  Facts *f = ARENA_NEW(a, Facts);
  f->c = c;
  f->arena = a;
  return f;
}

void facts_push(Facts *f) {
  Mark m = {f->belows.n, f->equals.n};
  vec_push(f->arena, &f->marks, m);
}

void facts_pop(Facts *f) {
  Mark m = vec_pop(&f->marks);
  f->belows.n = m.belows;
  f->equals.n = m.equals;
}

void facts_below(Facts *f, const Var *v, const Dim *lo, const Dim *end) {
  BelowFact b = {v, lo, end};
  vec_push(f->arena, &f->belows, b);
}

void facts_equal(Facts *f, const Dim *a, const Dim *b) {
  EqualFact e = {.diff = dim_sub(f->c, a, b)};
  const Var *best = NULL;
  if (e.diff->n == 0) return;
  map_init(&e.var_to, f->arena);
  for (uint32_t i = 0; i < e.diff->n; i++) {
    const DimTerm *t = &e.diff->terms[i];
    const Dim *coef, *rest;
    if (t->n != 1 || t->atoms[0]->kind != ATOM_VAR || (t->coef != 1 && t->coef != -1)) continue;
    Var *v = t->atoms[0]->var;
    if ((best && best->id > v->id) || !dim_linear(f->c, e.diff, v, &coef, &rest)) continue;
    best = v;
  }
  for (uint32_t i = 0; best && i < e.diff->n; i++) {
    const Dim *coef, *rest;
    const DimTerm *t = &e.diff->terms[i];
    if (t->n != 1 || t->atoms[0]->kind != ATOM_VAR || t->atoms[0]->var != best) continue;
    if (!dim_linear(f->c, e.diff, best, &coef, &rest)) break;
    rest = dim_scale(f->c, rest, -t->coef);
    map_setp(&e.var_to, best, (void *)(uintptr_t)dim_expr(f->c, rest, DT_I64));
  }
  vec_push(f->arena, &f->equals, e);
}

/* ---- intervals ---- */

typedef struct {
  int64_t lo, hi;
} Interval;
static const Interval ANY = {INT64_MIN, INT64_MAX};

static int64_t sat_add(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}

static int64_t sat_mul(int64_t a, int64_t b) {
  int64_t r;
  if (a == 0 || b == 0) return 0;
  bool negative = (a < 0) != (b < 0);
  bool open = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
  if (open || __builtin_mul_overflow(a, b, &r)) return negative ? INT64_MIN : INT64_MAX;
  return r;
}

static Interval interval_add(Interval a, Interval b) {
  Interval r;
  r.lo = a.lo == INT64_MIN || b.lo == INT64_MIN ? INT64_MIN : sat_add(a.lo, b.lo);
  r.hi = a.hi == INT64_MAX || b.hi == INT64_MAX ? INT64_MAX : sat_add(a.hi, b.hi);
  return r;
}

static Interval interval_mul(Interval a, Interval b) {
  int64_t p[4] = {sat_mul(a.lo, b.lo), sat_mul(a.lo, b.hi), sat_mul(a.hi, b.lo),
                  sat_mul(a.hi, b.hi)};
  Interval r = {p[0], p[0]};
  for (int i = 1; i < 4; i++) {
    if (p[i] < r.lo) r.lo = p[i];
    if (p[i] > r.hi) r.hi = p[i];
  }
  return r;
}

static Interval interval_meet(Interval a, Interval b) {
  Interval r = {a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
  return r.lo <= r.hi ? r : a; /* contradictory facts: nothing runs here */
}

static int64_t floor_div_open(int64_t a, int64_t k) {
  if (a == INT64_MIN || a == INT64_MAX) return a;
  return a / k - (a % k != 0 && a < 0);
}

static Interval bounds(const Facts *f, const Dim *d, int depth);

static Interval var_bounds(const Facts *f, const Var *v, int depth) {
  Interval r = ANY;
  if (v->is_dim) r.lo = 0;
  if (!f) return r;
  for (uint32_t i = 0; i < f->belows.n; i++) {
    const BelowFact *b = &f->belows.at[i];
    if (b->var != v) continue;
    int64_t lo = bounds(f, b->lo, depth - 1).lo, hi = bounds(f, b->end, depth - 1).hi;
    if (hi != INT64_MAX && hi != INT64_MIN) hi--;
    r = interval_meet(r, (Interval){lo, hi});
  }
  return r;
}

static Interval opaque_bounds(const Expr *e) {
  DType d = e->dtype;
  if (dtype_is_bool(d)) return (Interval){0, 1};
  if (dtype_is_uint(d) && d.bits < 63) return (Interval){0, (INT64_C(1) << d.bits) - 1};
  if (dtype_is_uint(d)) return (Interval){0, INT64_MAX};
  if (d.bits < 64)
    return (Interval){-(INT64_C(1) << (d.bits - 1)), (INT64_C(1) << (d.bits - 1)) - 1};
  return ANY;
}

static Interval atom_bounds(const Facts *f, const DimAtom *a, int depth) {
  Interval x, y;
  switch (a->kind) {
  case ATOM_VAR: return var_bounds(f, a->var, depth);
  case ATOM_OPAQUE: return opaque_bounds(a->expr);
  case ATOM_MIN:
    x = bounds(f, a->a, depth - 1);
    y = bounds(f, a->b, depth - 1);
    return (Interval){x.lo < y.lo ? x.lo : y.lo, x.hi < y.hi ? x.hi : y.hi};
  case ATOM_MAX:
    x = bounds(f, a->a, depth - 1);
    y = bounds(f, a->b, depth - 1);
    return (Interval){x.lo > y.lo ? x.lo : y.lo, x.hi > y.hi ? x.hi : y.hi};
  case ATOM_FLOORDIV:
    x = bounds(f, a->a, depth - 1);
    y = bounds(f, a->b, depth - 1);
    if (y.lo < 0) return ANY;
    if (y.lo == 0) y.lo = 1; /* a divisor is not 0 */
    return (Interval){floor_div_open(x.lo, x.lo >= 0 ? y.hi : y.lo),
                      floor_div_open(x.hi, x.hi >= 0 ? y.lo : y.hi)};
  case ATOM_FLOORMOD:
    x = bounds(f, a->a, depth - 1);
    y = bounds(f, a->b, depth - 1);
    if (y.lo < 0) return ANY;
    if (x.lo >= 0 && x.hi < y.lo) return x;
    if (y.hi != INT64_MAX) y.hi = y.hi > 0 ? y.hi - 1 : 0;
    return (Interval){0, x.lo >= 0 && x.hi < y.hi ? x.hi : y.hi};
  }
  return ANY;
}

static Interval term_bounds(const Facts *f, const DimTerm *t, int depth) {
  Interval r = {t->coef, t->coef};
  for (uint32_t i = 0; i < t->n; i++) {
    Interval x = atom_bounds(f, t->atoms[i], depth);
    if (i + 1 < t->n && t->atoms[i] == t->atoms[i + 1]) { /* a square */
      Interval sq = interval_mul(x, x);
      if (sq.lo < 0) sq.lo = 0;
      x = sq;
      i++;
    }
    r = interval_mul(r, x);
  }
  return r;
}

static Interval bounds(const Facts *f, const Dim *d, int depth) {
  Interval r = {d->konst, d->konst};
  if (depth <= 0) return d->n ? ANY : r;
  for (uint32_t i = 0; i < d->n; i++) r = interval_add(r, term_bounds(f, &d->terms[i], depth));
  return r;
}

void dim_bounds(Context *c, const Facts *f, const Dim *d, int64_t *lo, int64_t *hi) {
  (void)c;
  Interval r = bounds(f, d, PROVE_DEPTH);
  *lo = r.lo;
  *hi = r.hi;
}

/* ---- proofs ---- */

static const Dim *apply_equal(Context *c, const Facts *f, const Dim *d) {
  if (!f) return d;
  for (int round = 0; round < 2; round++)
    for (uint32_t i = f->equals.n; i-- > 0;) {
      const EqualFact *e = &f->equals.at[i];
      if (e->var_to.n) d = dim_subst(c, d, &e->var_to);
      if (d == e->diff || dim_scale(c, d, -1) == e->diff) return dim_const(c, 0);
    }
  return d;
}

static bool nonneg(Context *c, const Facts *f, const Dim *d, int depth);

/* d with term i replaced by `by`. */
static const Dim *replace_term(Context *c, const Dim *d, uint32_t i, const Dim *by) {
  const DimTerm *t = &d->terms[i];
  const Dim *rest = dim_try_add(c, d, dim_monomial(c, t->coef, t->atoms, t->n), -1);
  return rest && by ? dim_try_add(c, rest, by, 1) : NULL;
}

/* A loop variable at the end of its range that makes d smallest. */
static const Dim *worst_var(Context *c, const Facts *f, const Dim *d) {
  for (uint32_t i = f ? f->belows.n : 0; i-- > 0;) {
    const BelowFact *b = &f->belows.at[i];
    const Dim *coef, *rest, *at;
    if (!dim_uses_var(d, b->var) || !dim_linear(c, d, b->var, &coef, &rest)) continue;
    Interval k = bounds(f, coef, PROVE_DEPTH);
    if (k.lo >= 0)
      at = b->lo;
    else if (k.hi <= 0)
      at = dim_try_add(c, b->end, dim_const(c, 1), -1);
    else
      continue;
    const Dim *p = at ? dim_try_mul(c, coef, at) : NULL;
    if (p) return dim_try_add(c, rest, p, 1);
  }
  return NULL;
}

/* Floordiv and floormod by the bounds of their definition. */
static const Dim *worst_div(Context *c, const Facts *f, const Dim *d) {
  const DimAtom *others[MAX_ATOMS], *left[MAX_ATOMS];
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t j = 0; j < d->terms[i].n; j++) {
      const DimTerm *t = &d->terms[i];
      const DimAtom *a = t->atoms[j];
      uint32_t n = 0, nleft;
      int64_t coef;
      if ((a->kind != ATOM_FLOORDIV && a->kind != ATOM_FLOORMOD) || t->n > MAX_ATOMS) continue;
      if (bounds(f, a->b, PROVE_DEPTH).lo < 0) continue;
      for (uint32_t k = 0; k < t->n; k++)
        if (k != j) others[n++] = t->atoms[k];
      if (a->kind == ATOM_FLOORMOD) { /* 0 <= x % k <= k - 1 */
        const Dim *m = dim_monomial(c, t->coef, others, n);
        Interval s = bounds(f, m, PROVE_DEPTH);
        if (s.lo >= 0) return replace_term(c, d, i, dim_const(c, 0));
        const Dim *top = dim_try_add(c, a->b, dim_const(c, 1), -1);
        if (s.hi <= 0 && top) return replace_term(c, d, i, dim_try_mul(c, m, top));
        continue;
      }
      if (a->b->n > 1 || (a->b->n == 1 && a->b->konst)) continue;
      DimTerm rest = {t->coef, n, others};
      DimTerm by = a->b->n ? a->b->terms[0] : (DimTerm){a->b->konst, 0, NULL};
      if (n == 0 && a->b->n == 0 && by.coef > 1 && t->coef % by.coef) {
        /* the sign of d is that of d times the divisor */
        const Dim *scaled = dim_try_mul(c, d, dim_const(c, by.coef));
        if (scaled && scaled->n == d->n) return scaled;
        continue;
      }
      if (!term_divide(&rest, &by, &coef, left, &nleft)) continue;
      const Dim *m = dim_monomial(c, coef, left, nleft); /* term = m k (x // k) */
      Interval s = bounds(f, m, PROVE_DEPTH);
      if (s.hi <= 0) return replace_term(c, d, i, dim_try_mul(c, m, a->a));
      if (s.lo < 0) continue;
      const Dim *low = dim_try_add(c, a->a, a->b, -1);
      if (low) low = dim_try_add(c, low, dim_const(c, 1), 1);
      if (low) return replace_term(c, d, i, dim_try_mul(c, m, low));
    }
  return NULL;
}

/* min(x, y) is x or y: both must do. A max that only helps may be either; which one does may depend
 * on the cases of those that don't, so these are told apart first. */
static bool split_minmax(Context *c, const Facts *f, const Dim *d, bool helping, int depth) {
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t j = 0; j < d->terms[i].n; j++) {
      const DimTerm *t = &d->terms[i];
      const DimAtom *others[MAX_ATOMS], *a = t->atoms[j];
      uint32_t n = 0;
      if ((a->kind != ATOM_MIN && a->kind != ATOM_MAX) || t->n > MAX_ATOMS) continue;
      for (uint32_t k = 0; k < t->n; k++)
        if (k != j) others[n++] = t->atoms[k];
      const Dim *m = dim_monomial(c, t->coef, others, n);
      const Dim *px = dim_try_mul(c, m, a->a), *py = dim_try_mul(c, m, a->b);
      const Dim *x = replace_term(c, d, i, px), *y = replace_term(c, d, i, py);
      if (!x || !y) continue;
      Interval s = bounds(f, m, PROVE_DEPTH);
      bool helps = a->kind == ATOM_MAX ? s.lo >= 0 : s.hi <= 0;
      if (helps != helping) continue;
      bool okx = nonneg(c, f, x, depth - 2);
      if (helps && okx) return true;
      if (!helps && !okx) return false;
      return nonneg(c, f, y, depth - 2);
    }
  return !helping && split_minmax(c, f, d, true, depth);
}

static bool nonneg(Context *c, const Facts *f, const Dim *d, int depth) {
  Interval r = bounds(f, d, PROVE_DEPTH);
  if (r.lo >= 0) return true;
  if (r.hi < 0 || depth <= 0) return false;
  const Dim *next = worst_var(c, f, d);
  if (!next) next = worst_div(c, f, d);
  if (next) return next != d && nonneg(c, f, next, depth - 1);
  return split_minmax(c, f, d, false, depth);
}

/* a <= b - slack */
static Proof prove_order(Context *c, const Facts *f, const Dim *a, const Dim *b, int64_t slack) {
  const Dim *d = dim_try_add(c, b, a, -1);
  if (d) d = dim_try_add(c, d, dim_const(c, slack), -1);
  if (!d) return PROOF_UNKNOWN;
  d = apply_equal(c, f, d);
  if (nonneg(c, f, d, PROVE_DEPTH)) return PROOF_YES;
  d = dim_try_add(c, dim_const(c, -1), d, -1); /* d < 0 is -1 - d >= 0 */
  return d && nonneg(c, f, d, PROVE_DEPTH) ? PROOF_NO : PROOF_UNKNOWN;
}

Proof prove_le(Context *c, const Facts *f, const Dim *a, const Dim *b) {
  return a == b ? PROOF_YES : prove_order(c, f, a, b, 0);
}

Proof prove_lt(Context *c, const Facts *f, const Dim *a, const Dim *b) {
  return a == b ? PROOF_NO : prove_order(c, f, a, b, 1);
}

Proof prove_eq(Context *c, const Facts *f, const Dim *a, const Dim *b) {
  if (a == b) return PROOF_YES;
  if (a->n == 0 && b->n == 0) return PROOF_NO;
  const Dim *d = dim_sub(c, a, b);
  d = apply_equal(c, f, d);
  if (f && d->n) d = dim_simplify(c, f, d);
  if (d->n == 0) return d->konst == 0 ? PROOF_YES : PROOF_NO;
  Interval r = bounds(f, d, PROVE_DEPTH);
  if (r.lo > 0 || r.hi < 0) return PROOF_NO;
  if (d->konst) { /* 2 n + 1 is never 0 */
    const Dim *open = dim_try_add(c, d, dim_const(c, d->konst), -1);
    int64_t g = open ? dim_content(open) : 1;
    if (g > 1 && d->konst % g) return PROOF_NO;
  }
  const Dim *one = dim_const(c, 1), *neg = dim_try_add(c, dim_const(c, 0), d, -1);
  if (!neg) return PROOF_UNKNOWN;
  bool ge = nonneg(c, f, d, PROVE_DEPTH), le = nonneg(c, f, neg, PROVE_DEPTH);
  if (ge && le) return PROOF_YES;
  const Dim *above = dim_try_add(c, d, one, -1), *below = dim_try_add(c, neg, one, -1);
  if (above && ge && nonneg(c, f, above, PROVE_DEPTH)) return PROOF_NO;
  if (below && le && nonneg(c, f, below, PROVE_DEPTH)) return PROOF_NO;
  return PROOF_UNKNOWN;
}
