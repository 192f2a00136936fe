/* Dims from and to expressions, substitution, simplification.
 *
 * Integers narrower than 32 bits and unsigned ones wrap on purpose, so they enter a Dim only as
 * opaque atoms or literals; int32 and int64 index arithmetic is taken not to overflow, as in TVM.
 */
#include "ir/dim.h"
#include "ir/dim_rules.h"
#include <stdlib.h>

static bool is_index(DType d) {
  return d.code == DTYPE_INT && d.bits >= 32 && d.lanes == 1;
}

/* An expression that the algebra doesn't look into: its integer operands are simplified first, so
 * that equal ones meet. */
static const Dim *opaque(Context *c, const Expr *e) {
  const Expr *few[8], **args = e->n <= 8 ? few : xmalloc(e->n * sizeof *args);
  bool changed = false;
  for (uint32_t i = 0; i < e->n; i++) {
    args[i] =
        is_index(e->arg[i]->dtype) && e->kind != EXPR_LET ? expr_simplify(c, e->arg[i]) : e->arg[i];
    changed |= args[i] != e->arg[i];
  }
  const Expr *out = changed ? expr_with_args(c, e, args) : e;
  if (args != few) free(args);
  if (out->kind == EXPR_INT && (out->i >= 0 || !dtype_is_uint(out->dtype)))
    return dim_const(c, out->i);
  return dim_opaque(c, out);
}

static const Dim *convert(Context *c, const Expr *e) {
  if (e->kind == EXPR_INT && !(e->dtype.code == DTYPE_UINT && e->i < 0)) return dim_const(c, e->i);
  if (!is_index(e->dtype)) return opaque(c, e);
  const Dim *a = NULL, *b = NULL;
  int64_t lo, hi, k;
  switch ((ExprKind)e->kind) {
  case EXPR_ADD:
  case EXPR_SUB:
  case EXPR_MUL:
  case EXPR_DIV:
  case EXPR_MOD:
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_MIN:
  case EXPR_MAX:
  case EXPR_SHL:
  case EXPR_SHR:
    a = expr_dim(c, e->arg[0]);
    b = expr_dim(c, e->arg[1]);
    break;
  default: break;
  }
  switch ((ExprKind)e->kind) {
  case EXPR_VAR: return dim_var(c, e->var);
  case EXPR_ADD: return dim_add(c, a, b);
  case EXPR_SUB: return dim_sub(c, a, b);
  case EXPR_MUL: return dim_mul(c, a, b);
  case EXPR_FLOORDIV: return dim_floordiv(c, a, b);
  case EXPR_FLOORMOD: return dim_floormod(c, a, b);
  case EXPR_MIN: return dim_min(c, a, b);
  case EXPR_MAX: return dim_max(c, a, b);
  case EXPR_DIV:
  case EXPR_MOD: /* truncation is floor where nothing is negative */
    dim_bounds(c, NULL, b, &lo, &hi);
    if (lo < 0 || (lo == 0 && hi == 0)) return opaque(c, e);
    dim_bounds(c, NULL, a, &lo, &hi);
    if (lo < 0) return opaque(c, e);
    return e->kind == EXPR_DIV ? dim_floordiv(c, a, b) : dim_floormod(c, a, b);
  case EXPR_SHL:
    if (dim_is_const(b, &k) && k >= 0 && k < 62) return dim_scale(c, a, INT64_C(1) << k);
    return opaque(c, e);
  case EXPR_SHR:
    if (dim_is_const(b, &k) && k >= 0 && k < 62)
      return dim_floordiv(c, a, dim_const(c, INT64_C(1) << k));
    return opaque(c, e);
  case EXPR_CAST:
    if (is_index(e->arg[0]->dtype) && e->arg[0]->dtype.bits <= e->dtype.bits)
      return expr_dim(c, e->arg[0]);
    if (dtype_is_int(e->arg[0]->dtype) && e->arg[0]->dtype.bits < e->dtype.bits)
      return expr_dim(c, e->arg[0]); /* widening keeps the value */
    return opaque(c, e);
  case EXPR_CALL:
    if (e->intrin == INTRIN_likely && e->n == 1) return expr_dim(c, e->arg[0]);
    return opaque(c, e);
  default: return opaque(c, e);
  }
}

const Dim *expr_dim(Context *c, const Expr *e) {
  if (e->kind == EXPR_FLOAT) return convert(c, e);
  if (e->dim) return e->dim;
  const Dim *d = convert(c, e);
  ((Expr *)(uintptr_t)e)->dim = d; /* a cache; the value never changes */
  return d;
}

static const Expr *atom_expr(Context *c, const DimAtom *a, DType dtype) {
  switch (a->kind) {
  case ATOM_VAR: return expr_cast(c, dtype, a->var->expr);
  case ATOM_OPAQUE: return expr_cast(c, dtype, a->expr);
  case ATOM_FLOORDIV: return expr_floordiv(c, dim_expr(c, a->a, dtype), dim_expr(c, a->b, dtype));
  case ATOM_FLOORMOD: return expr_floormod(c, dim_expr(c, a->a, dtype), dim_expr(c, a->b, dtype));
  case ATOM_MIN: return expr_min(c, dim_expr(c, a->a, dtype), dim_expr(c, a->b, dtype));
  case ATOM_MAX: return expr_max(c, dim_expr(c, a->a, dtype), dim_expr(c, a->b, dtype));
  }
  return NULL;
}

static const Expr *product(Context *c, const DimTerm *t, int64_t coef, DType dtype) {
  const Expr *e = atom_expr(c, t->atoms[0], dtype);
  for (uint32_t i = 1; i < t->n; i++) e = expr_mul(c, e, atom_expr(c, t->atoms[i], dtype));
  return expr_mul(c, e, expr_int(c, dtype, coef));
}

static bool fits_i32(const Dim *d) {
  bool fits = d->konst == (int32_t)d->konst;
  for (uint32_t i = 0; i < d->n; i++) fits &= d->terms[i].coef == (int32_t)d->terms[i].coef;
  return fits;
}

/* Positive terms, negative ones subtracted, the constant last: "n * 2 - m + 1". */
static const Expr *build(Context *c, const Dim *d, DType dtype) {
  const Expr *e = NULL;
  int64_t konst = d->konst;
  for (uint32_t i = 0; i < d->n; i++) {
    if (d->terms[i].coef < 0) continue;
    const Expr *p = product(c, &d->terms[i], d->terms[i].coef, dtype);
    e = e ? expr_add(c, e, p) : p;
  }
  if (!e && (konst > 0 || d->n == 0)) {
    e = expr_int(c, dtype, konst);
    konst = 0;
  }
  for (uint32_t i = 0; i < d->n; i++) {
    int64_t coef = d->terms[i].coef;
    if (coef > 0) continue;
    if (!e)
      e = product(c, &d->terms[i], coef, dtype);
    else if (coef == INT64_MIN)
      e = expr_add(c, e, product(c, &d->terms[i], coef, dtype));
    else
      e = expr_sub(c, e, product(c, &d->terms[i], -coef, dtype));
  }
  if (konst < 0 && konst != INT64_MIN) return expr_sub(c, e, expr_int(c, dtype, -konst));
  return konst ? expr_add(c, e, expr_int(c, dtype, konst)) : e;
}

const Expr *dim_expr(Context *c, const Dim *d, DType dtype) {
  Dim *cache = (Dim *)(uintptr_t)d; /* fills a cache; the value never changes */
  bool is64 = dtype_eq(dtype, DT_I64);
  if (is64 && d->e64) return d->e64;
  if (!is64 && dtype_eq(dtype, DT_I32)) {
    if (!d->e32)
      cache->e32 = fits_i32(d) ? build(c, d, dtype) : expr_cast(c, dtype, dim_expr(c, d, DT_I64));
    return d->e32;
  }
  if (!is64) return expr_cast(c, dtype, dim_expr(c, d, DT_I64));
  const Expr *e = build(c, d, dtype);
  cache->e64 = e;
  if (e->kind != EXPR_FLOAT && !e->dim) ((Expr *)(uintptr_t)e)->dim = d;
  return e;
}

const Expr *expr_simplify(Context *c, const Expr *e) {
  if (e->kind == EXPR_VAR || e->kind == EXPR_INT || !is_index(e->dtype)) return e;
  return dim_expr(c, expr_dim(c, e), e->dtype);
}

/* Distinct variables stay in the order of the dims, as TVM writes them. */
const Expr *expr_product(Context *c, const Expr *const *dims, uint32_t n) {
  const Expr *e = NULL;
  bool plain = n > 0;
  for (uint32_t i = 0; i < n && plain; i++) {
    plain = dims[i]->kind == EXPR_VAR && dtype_eq(dims[i]->dtype, DT_I64);
    e = e ? expr_mul(c, e, dims[i]) : dims[i];
  }
  if (plain) return e;
  const Dim *d = dim_const(c, 1);
  for (uint32_t i = 0; i < n; i++) d = dim_mul(c, d, expr_dim(c, dims[i]));
  return dim_expr(c, d, DT_I64);
}

/* ---- rebuilding: substitution, and simplification under facts ---- */

typedef struct {
  const Map *vars;
  const Facts *facts;
} Rebuild;

static const Dim *rebuild(Context *c, const Rebuild *r, const Dim *d);

static const Dim *rebuild_atom(Context *c, const Rebuild *r, const DimAtom *a) {
  const Facts *f = r->facts;
  switch (a->kind) {
  case ATOM_VAR: {
    const Expr *to = r->vars ? map_getp(r->vars, a->var) : NULL;
    if (to) return expr_dim(c, to);
    const Dim *d = dim_var(c, a->var);
    int64_t lo, hi;
    if (f) {
      dim_bounds(c, f, d, &lo, &hi);
      if (lo == hi) return dim_const(c, lo);
    }
    return d;
  }
  case ATOM_OPAQUE:
    if (r->vars) {
      Subst s = {.c = c, .vars = r->vars};
      return expr_dim(c, expr_subst(&s, a->expr));
    }
    return dim_opaque(c, a->expr);
  case ATOM_FLOORDIV: return dim_floordiv_facts(c, f, rebuild(c, r, a->a), rebuild(c, r, a->b));
  case ATOM_FLOORMOD: return dim_floormod_facts(c, f, rebuild(c, r, a->a), rebuild(c, r, a->b));
  case ATOM_MIN: return dim_minmax_facts(c, f, false, rebuild(c, r, a->a), rebuild(c, r, a->b));
  case ATOM_MAX: return dim_minmax_facts(c, f, true, rebuild(c, r, a->a), rebuild(c, r, a->b));
  }
  return NULL;
}

static const Dim *rebuild(Context *c, const Rebuild *r, const Dim *d) {
  const Dim *sum = dim_const(c, d->konst);
  for (uint32_t i = 0; i < d->n; i++) {
    const Dim *p = rebuild_atom(c, r, d->terms[i].atoms[0]);
    for (uint32_t j = 1; j < d->terms[i].n; j++)
      p = dim_mul(c, p, rebuild_atom(c, r, d->terms[i].atoms[j]));
    sum = dim_add(c, sum, dim_scale(c, p, d->terms[i].coef));
  }
  return sum;
}

const Dim *dim_subst(Context *c, const Dim *d, const Map *vars) {
  if (d->n == 0 || vars->n == 0) return d;
  Rebuild r = {.vars = vars};
  return rebuild(c, &r, d);
}

const Dim *dim_simplify(Context *c, const struct Facts *f, const Dim *d) {
  if (d->n == 0) return d;
  Rebuild r = {.facts = f};
  return rebuild(c, &r, d);
}
