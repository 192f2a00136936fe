/* Dims: the rules of floordiv, floormod, min and max.
 *
 * Laws: every rule is an identity over the integers (divisors are not 0: what divides by zero has
 * no value to preserve); each makes the dim smaller or moves it to the form that is canonical here:
 *   - what divides leaves the quotient: (4n + r) // 4 = n + r // 4, with |coefficients of r| < 4;
 *   - common factors cancel: (2n + 1) // 6 = n // 3, (2n + 1) % 6 = 2 (n % 3) + 1;
 *   - floordiv goes outside: (x // a) // b = x // (a b), (x % (a b)) // a = (x // a) % b;
 *   - x - (x // k) k = x % k, and (x // k) k + x % k = x;
 *   - min and max are flat, sorted, without operands that another one bounds.
 * With facts, a part that lies in [0, g) vanishes beside multiples of g.
 */
#include "ir/dim_rules.h"
#include <stdlib.h>

enum { MAX_OPERANDS = 16, MAX_RECOMBINE = 48, MAX_SPLIT_FACTORS = 32 };

static int64_t gcd(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  while (y) {
    uint64_t r = x % y;
    x = y;
    y = r;
  }
  return x > INT64_MAX ? 1 : (int64_t)x;
}

static int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b) {
  return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
}

/* The only atom of a dim "atom + konst", or NULL. */
static const DimAtom *lone_atom(const Dim *d) {
  return d->n == 1 && d->terms[0].n == 1 && d->terms[0].coef == 1 ? d->terms[0].atoms[0] : NULL;
}

static bool is_nonneg(Context *c, const Facts *f, const Dim *d) {
  int64_t lo, hi;
  dim_bounds(c, f, d, &lo, &hi);
  return lo >= 0;
}

/* d / g for a g that divides all coefficients; the constant is floored. */
static const Dim *divide_coefs(Context *c, const Dim *d, int64_t g) {
  Sum s;
  sum_init(&s, floor_div(d->konst, g));
  for (uint32_t i = 0; i < d->n; i++)
    sum_term(&s, d->terms[i].coef / g, d->terms[i].atoms, d->terms[i].n);
  return sum_dim(c, &s, false);
}

/* Splits d = part + rest, part the terms whose coefficient g divides (and g's share of the
 * constant), so that 0 <= rest < g for sure. */
static bool split_small(Context *c, const Facts *f, const Dim *d, int64_t g, const Dim **part,
                        const Dim **rest) {
  Sum p, r;
  int64_t lo, hi;
  sum_init(&r, floor_mod(d->konst, g));
  sum_init(&p, d->konst - floor_mod(d->konst, g));
  for (uint32_t i = 0; i < d->n; i++)
    sum_term(d->terms[i].coef % g ? &r : &p, d->terms[i].coef, d->terms[i].atoms, d->terms[i].n);
  *part = sum_dim(c, &p, false);
  *rest = sum_dim(c, &r, false);
  if (!*part || !*rest || (*rest)->n == 0) return false;
  dim_bounds(c, f, *rest, &lo, &hi);
  return lo >= 0 && hi < g;
}

static const Dim *div_const(Context *c, const Facts *f, const Dim *a, int64_t k) {
  Sum qs, rs;
  int64_t lo, hi;
  sum_init(&qs, floor_div(a->konst, k));
  sum_init(&rs, floor_mod(a->konst, k));
  for (uint32_t i = 0; i < a->n; i++) {
    const DimTerm *t = &a->terms[i];
    sum_term(&qs, t->coef / k, t->atoms, t->n);
    sum_term(&rs, t->coef % k, t->atoms, t->n);
  }
  const Dim *q = sum_dim(c, &qs, true), *r = sum_dim(c, &rs, false);
  if (!q || !r) return NULL;
  if (r->n == 0) return q;
  dim_bounds(c, f, r, &lo, &hi);
  if (lo != INT64_MIN && hi != INT64_MAX && floor_div(lo, k) == floor_div(hi, k))
    return dim_add(c, q, dim_const(c, floor_div(lo, k)));
  int64_t g = k;
  for (uint32_t i = 0; i < r->n; i++) g = gcd(g, r->terms[i].coef);
  if (g > 1) {
    const Dim *x = divide_coefs(c, r, g);
    return x ? dim_add(c, q, dim_floordiv_facts(c, f, x, dim_const(c, k / g))) : NULL;
  }
  for (uint32_t i = 0; i < r->n; i++) {
    const Dim *part, *rest;
    g = gcd(k, r->terms[i].coef);
    if (g > 1 && split_small(c, f, r, g, &part, &rest)) {
      const Dim *x = divide_coefs(c, part, g);
      return x ? dim_add(c, q, dim_floordiv_facts(c, f, x, dim_const(c, k / g))) : NULL;
    }
  }
  const DimAtom *atom = lone_atom(r);
  if (atom && atom->kind == ATOM_FLOORDIV && is_nonneg(c, f, atom->b)) {
    const Dim *den = dim_scale(c, atom->b, k);
    const Dim *num = dim_add(c, atom->a, dim_scale(c, atom->b, r->konst));
    return dim_add(c, q, dim_floordiv_facts(c, f, num, den));
  }
  if (atom && atom->kind == ATOM_FLOORMOD && r->konst == 0 && atom->b->n == 0 &&
      atom->b->konst > 0 && atom->b->konst % k == 0) {
    const Dim *x = dim_floordiv_facts(c, f, atom->a, dim_const(c, k));
    return dim_add(c, q, dim_floormod_facts(c, f, x, dim_const(c, atom->b->konst / k)));
  }
  return dim_add(c, q, dim_atom(c, ATOM_FLOORDIV, r, dim_const(c, k)));
}

/* a = q b + r by polynomial division; a quotient term is kept when it leaves fewer terms. */
static void poly_divide(Context *c, const Dim *a, const Dim *b, const Dim **q, const Dim **r) {
  *q = dim_const(c, 0);
  *r = a;
  for (bool again = true; again;) {
    again = false;
    for (uint32_t j = 0; j < b->n && !again; j++)
      for (uint32_t i = 0; i < (*r)->n && !again; i++) {
        const DimAtom *left[MAX_SPLIT_FACTORS];
        int64_t coef;
        uint32_t n;
        if ((*r)->terms[i].n > MAX_SPLIT_FACTORS) continue;
        if (!term_divide(&(*r)->terms[i], &b->terms[j], &coef, left, &n)) continue;
        const Dim *part = dim_monomial(c, coef, left, n), *prod = dim_try_mul(c, part, b);
        const Dim *rest = prod ? dim_try_add(c, *r, prod, -1) : NULL;
        const Dim *sum = rest && rest->n < (*r)->n ? dim_try_add(c, *q, part, 1) : NULL;
        if (!sum) continue;
        *q = sum;
        *r = rest;
        again = true;
      }
  }
}

static bool is_below(Context *c, const Facts *f, const Dim *r, const Dim *b) {
  return is_nonneg(c, f, r) && prove_lt(c, f, r, b) == PROOF_YES;
}

static const Dim *opaque_div(Context *c, ExprKind k, const Dim *a, const Dim *b) {
  return dim_opaque(c, expr_binary_raw(c, k, dim_expr(c, a, DT_I64), dim_expr(c, b, DT_I64)));
}

const Dim *dim_floordiv_facts(Context *c, const Facts *f, const Dim *a, const Dim *b) {
  int64_t k;
  if (dim_is_const(b, &k)) {
    if (k == 1) return a;
    if (k == 0 || k == INT64_MIN) return opaque_div(c, EXPR_FLOORDIV, a, b);
    if (k < 0) {
      const Dim *minus = dim_try_add(c, dim_const(c, 0), a, -1);
      return minus ? dim_floordiv_facts(c, f, minus, dim_const(c, -k))
                   : opaque_div(c, EXPR_FLOORDIV, a, b);
    }
    const Dim *d = div_const(c, f, a, k);
    return d ? d : opaque_div(c, EXPR_FLOORDIV, a, b);
  }
  if (a->n == 0 && a->konst == 0) return a;
  const Dim *q, *r;
  poly_divide(c, a, b, &q, &r);
  if ((r->n == 0 && r->konst == 0) || is_below(c, f, r, b)) return q;
  const DimAtom *atom = r->konst == 0 ? lone_atom(r) : NULL;
  if (atom && atom->kind == ATOM_FLOORDIV && is_nonneg(c, f, atom->b) && is_nonneg(c, f, b))
    return dim_add(c, q, dim_floordiv_facts(c, f, atom->a, dim_mul(c, atom->b, b)));
  return dim_add(c, q, dim_atom(c, ATOM_FLOORDIV, r, b));
}

static const Dim *mod_const(Context *c, const Facts *f, const Dim *a, int64_t k) {
  Sum rs;
  int64_t lo, hi;
  sum_init(&rs, floor_mod(a->konst, k));
  const Dim *inner = NULL;
  for (uint32_t i = 0; i < a->n; i++) {
    const DimTerm *t = &a->terms[i];
    const DimAtom *m = t->n == 1 ? t->atoms[0] : NULL;
    bool same = m && m->kind == ATOM_FLOORMOD && m->b->n == 0 && m->b->konst % k == 0;
    if (same && t->coef % k) { /* y % (k m) is y modulo k */
      const Dim *y = dim_scale(c, m->a, t->coef % k);
      inner = inner ? dim_add(c, inner, y) : y;
    } else {
      sum_term(&rs, t->coef % k, t->atoms, t->n);
    }
  }
  const Dim *r = sum_dim(c, &rs, true);
  if (!r) return NULL;
  if (inner) return dim_floormod_facts(c, f, dim_add(c, r, inner), dim_const(c, k));
  if (r->n == 0) return dim_const(c, floor_mod(r->konst, k));
  dim_bounds(c, f, r, &lo, &hi);
  if (lo != INT64_MIN && hi != INT64_MAX && floor_div(lo, k) == floor_div(hi, k)) {
    int64_t back;
    if (!__builtin_mul_overflow(floor_div(lo, k), -k, &back))
      return dim_add(c, r, dim_const(c, back));
  }
  int64_t g = k;
  for (uint32_t i = 0; i < r->n; i++) g = gcd(g, r->terms[i].coef);
  if (g > 1) {
    const Dim *x = divide_coefs(c, r, g);
    if (!x) return NULL;
    x = dim_scale(c, dim_floormod_facts(c, f, x, dim_const(c, k / g)), g);
    return dim_add(c, x, dim_const(c, floor_mod(r->konst, g)));
  }
  for (uint32_t i = 0; i < r->n; i++) {
    const Dim *part, *rest;
    g = gcd(k, r->terms[i].coef);
    if (g > 1 && split_small(c, f, r, g, &part, &rest)) {
      const Dim *x = divide_coefs(c, part, g);
      if (!x) return NULL;
      x = dim_scale(c, dim_floormod_facts(c, f, x, dim_const(c, k / g)), g);
      return dim_add(c, x, rest);
    }
  }
  return dim_atom(c, ATOM_FLOORMOD, r, dim_const(c, k));
}

const Dim *dim_floormod_facts(Context *c, const Facts *f, const Dim *a, const Dim *b) {
  int64_t k;
  if (dim_is_const(b, &k)) {
    if (k == 1) return dim_const(c, 0);
    const Dim *d = NULL;
    if (k < 0 && k != INT64_MIN) {
      const Dim *minus = dim_try_add(c, dim_const(c, 0), a, -1);
      if (minus) d = dim_scale(c, dim_floormod_facts(c, f, minus, dim_const(c, -k)), -1);
    } else if (k > 0) {
      d = mod_const(c, f, a, k);
    }
    return d ? d : opaque_div(c, EXPR_FLOORMOD, a, b);
  }
  if (a->n == 0 && a->konst == 0) return a;
  const Dim *q, *r;
  poly_divide(c, a, b, &q, &r);
  if ((r->n == 0 && r->konst == 0) || is_below(c, f, r, b)) return r;
  return dim_atom(c, ATOM_FLOORMOD, r, b);
}

/* ---- min and max ---- */

static void operands(const Dim *d, AtomKind k, const Dim **at, uint32_t *n) {
  const DimAtom *a = d->konst == 0 ? lone_atom(d) : NULL;
  if (a && a->kind == k && *n + 2 <= MAX_OPERANDS) {
    operands(a->a, k, at, n);
    operands(a->b, k, at, n);
  } else if (*n < MAX_OPERANDS) {
    at[(*n)++] = d;
  }
}

static int dim_order(const void *x, const void *y) {
  const Dim *a = *(const Dim *const *)x, *b = *(const Dim *const *)y;
  if ((a->n == 0) != (b->n == 0)) return a->n == 0 ? 1 : -1; /* constants last */
  return a->id < b->id ? -1 : a->id > b->id;
}

/* Whether x can go because y is always at least as good. */
static bool dominated(Context *c, const Facts *f, bool is_max, const Dim *x, const Dim *y) {
  const Dim *diff = is_max ? dim_try_add(c, y, x, -1) : dim_try_add(c, x, y, -1);
  return diff && is_nonneg(c, f, diff);
}

const Dim *dim_minmax_facts(Context *c, const Facts *f, bool is_max, const Dim *a, const Dim *b) {
  AtomKind k = is_max ? ATOM_MAX : ATOM_MIN;
  const Dim *at[MAX_OPERANDS + 1];
  uint32_t n = 0, kept = 0;
  if (a == b) return a;
  operands(a, k, at, &n);
  uint32_t na = n;
  operands(b, k, at, &n);
  if (na == MAX_OPERANDS || n == MAX_OPERANDS) { /* too many to flatten */
    at[0] = a;
    at[1] = b;
    n = 2;
  }
  qsort(at, n, sizeof *at, dim_order);
  for (uint32_t i = 0; i < n; i++) {
    bool drop = false;
    for (uint32_t j = 0; j < kept && !drop; j++) drop = dominated(c, f, is_max, at[i], at[j]);
    for (uint32_t j = i + 1; j < n && !drop; j++)
      drop = at[i] == at[j] ||
             (dominated(c, f, is_max, at[i], at[j]) && !dominated(c, f, is_max, at[j], at[i]));
    if (!drop) at[kept++] = at[i];
  }
  /* min(x + 1, y + 1) = min(x, y) + 1 */
  int64_t shift = at[0]->konst;
  for (uint32_t i = 0; i < kept; i++)
    if (at[i]->n == 0 || at[i]->konst != shift) shift = 0;
  if (kept < 2) shift = 0;
  for (uint32_t i = 0; shift && i < kept; i++) {
    const Dim *d = dim_try_add(c, at[i], dim_const(c, shift), -1);
    if (d) at[i] = d;
  }
  if (shift) qsort(at, kept, sizeof *at, dim_order);
  const Dim *d = at[0];
  for (uint32_t i = 1; i < kept; i++) d = dim_atom(c, k, d, at[i]);
  return shift ? dim_add(c, d, dim_const(c, shift)) : d;
}

/* ---- joining floordiv with floormod ---- */

/* d has all terms of p, with the same coefficients. */
static bool has_terms(const Dim *d, const Dim *p) {
  if (p->n == 0) return false;
  for (uint32_t i = 0; i < p->n; i++)
    if (dim_coef(d, &p->terms[i]) != p->terms[i].coef) return false;
  return true;
}

/* d - gone1 - gone2 + come, recombined again. */
static const Dim *exchange(Context *c, const Dim *d, const Dim *gone1, const Dim *gone2,
                           const Dim *come) {
  const Dim *r = dim_try_add(c, d, gone1, -1);
  if (r) r = dim_try_add(c, r, gone2, -1);
  return r && come ? dim_add(c, r, come) : NULL;
}

/* t = coef * (x // k) * m with the rest of d holding -coef/k * x * m. */
static const Dim *join_div(Context *c, const Dim *d, const DimTerm *t, uint32_t at, const Dim *x,
                           const Dim *k) {
  const DimAtom *others[MAX_SPLIT_FACTORS], *left[MAX_SPLIT_FACTORS];
  uint32_t n = 0, nleft;
  int64_t coef;
  if (x->n == 0 || k->n > 1 || (k->n == 1 && k->konst)) return NULL;
  for (uint32_t i = 0; i < t->n; i++)
    if (i != at) others[n++] = t->atoms[i];
  DimTerm rest = {t->coef, n, others};
  DimTerm by = k->n ? k->terms[0] : (DimTerm){k->konst, 0, NULL};
  if (!term_divide(&rest, &by, &coef, left, &nleft) || coef == INT64_MIN) return NULL;
  const Dim *m = dim_monomial(c, -coef, left, nleft);
  const Dim *p = dim_try_mul(c, x, m);
  if (!p || !has_terms(d, p)) return NULL;
  const Dim *mod = dim_floormod(c, x, k);
  return exchange(c, d, dim_monomial(c, t->coef, t->atoms, t->n), p, dim_try_mul(c, mod, m));
}

/* t = coef * (x % k) * m with the rest of d holding coef * (x // k) * k * m. */
static const Dim *join_mod(Context *c, const Dim *d, const DimTerm *t, uint32_t at) {
  const DimAtom *others[MAX_SPLIT_FACTORS], *a = t->atoms[at];
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n; i++)
    if (i != at) others[n++] = t->atoms[i];
  const Dim *m = dim_monomial(c, t->coef, others, n);
  const Dim *p = dim_try_mul(c, dim_floordiv(c, a->a, a->b), a->b);
  if (p) p = dim_try_mul(c, p, m);
  if (!p || !has_terms(d, p)) return NULL;
  return exchange(c, d, dim_monomial(c, t->coef, t->atoms, t->n), p, dim_try_mul(c, a->a, m));
}

const Dim *dim_recombine(Context *c, const Dim *d) {
  if (d->n > MAX_RECOMBINE) return NULL;
  for (uint32_t i = 0; i < d->n; i++) {
    const DimTerm *t = &d->terms[i];
    if (t->n > MAX_SPLIT_FACTORS) continue;
    for (uint32_t j = 0; j < t->n; j++) {
      const DimAtom *a = t->atoms[j];
      const Dim *r = NULL;
      if (a->kind == ATOM_FLOORMOD && (d->n > 1)) r = join_mod(c, d, t, j);
      if (a->kind == ATOM_FLOORDIV && d->n > 1) r = join_div(c, d, t, j, a->a, a->b);
      if (r) return r;
      if (a->kind != ATOM_FLOORDIV || a->b->n) continue;
      /* (y // k1) - m (y // (k1 m)) = (y // k1) % m */
      for (uint32_t p = 0; p < d->n; p++)
        for (uint32_t q = 0; q < d->terms[p].n; q++) {
          const DimAtom *o = d->terms[p].atoms[q];
          if (o == a || o->kind != ATOM_FLOORDIV || o->a != a->a || o->b->n) continue;
          if (a->b->konst % o->b->konst) continue;
          const Dim *x = dim_monomial(c, 1, &o, 1);
          r = join_div(c, d, t, j, x, dim_const(c, a->b->konst / o->b->konst));
          if (r) return r;
        }
    }
  }
  return NULL;
}
