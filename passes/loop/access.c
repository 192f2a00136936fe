/* Accesses as linear offsets.
 *
 * The structured half of the scheduler sees every buffer as one-dimensional: an access is a
 * canonical sum over the axes, so that strides, contiguity and collapsing are read off its
 * coefficients, and reshapes vanish: a // k * k + a % k is a.
 */
#include "passes/loop/schedule.h"

/* Parameters of a bound version are the function's own ones in other shapes. */
static bool is_declared(const LoopCtx *lc, const Buffer *b) {
  for (uint32_t i = 0; lc->bound && i < lc->f->nparams; i++)
    if (lc->f->param_bufs[i] == b) return false;
  return true;
}

Buffer *flat_view(LoopCtx *lc, Buffer *b) {
  Buffer *f = map_getp(&lc->flat, b);
  if (f) return f;
  Context *c = lc->c;
  if (b->ndim == 1 && is_declared(lc, b)) {
    map_setp(&lc->flat, b, b);
    return b;
  }
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, 1);
  shape[0] = expr_product(c, b->shape, b->ndim);
  f = buffer_create(c, b->name, b->dtype, shape, 1, b->scope);
  f->data = b->data;
  f->align = b->align;
  f->span = b->span;
  map_setp(&lc->flat, b, f);
  vec_push(lc->tmp, &lc->decls, stmt_decl(lc->a, b->span, f));
  return f;
}

typedef struct {
  DataFn fn;
  void *ctx;
} EachData;
static bool data_of(const Expr *e, void *ctx) {
  const EachData *k = ctx;
  if (e->kind == EXPR_LOAD || e->kind == EXPR_BUF_DATA) k->fn(e->buf->data, k->ctx);
  return true;
}
static void data_in(const Expr *e, void *ctx) {
  expr_walk(e, data_of, ctx);
}
static bool data_by(const Stmt *s, void *ctx) {
  const EachData *k = ctx;
  stmt_exprs(s, data_in, ctx);
  if (s->kind == STMT_STORE) k->fn(s->store.buf->data, k->ctx);
  return true;
}

void stmt_each_data(const Stmt *s, DataFn fn, void *ctx) {
  EachData k = {fn, ctx};
  stmt_walk(s, data_by, &k);
}

const Dim *atom_dim(Context *c, const DimAtom *a) {
  switch (a->kind) {
  case ATOM_VAR: return dim_var(c, a->var);
  case ATOM_FLOORDIV: return dim_floordiv(c, a->a, a->b);
  case ATOM_FLOORMOD: return dim_floormod(c, a->a, a->b);
  case ATOM_MIN: return dim_min(c, a->a, a->b);
  case ATOM_MAX: return dim_max(c, a->a, a->b);
  case ATOM_OPAQUE: return expr_dim(c, a->expr);
  }
  bug("atom kind %d", (int)a->kind);
}

/* Term t as a Dim, without its factor `skip` (or whole: UINT32_MAX). */
static const Dim *term_dim(Context *c, const DimTerm *t, uint32_t skip) {
  const Dim *d = dim_const(c, t->coef);
  for (uint32_t i = 0; i < t->n; i++)
    if (i != skip) d = dim_mul(c, d, atom_dim(c, t->atoms[i]));
  return d;
}

/* One step of x // k * k + x % k = x; NULL when there is none. */
static const Dim *recombine_once(Context *c, const Dim *d) {
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t fi = 0; fi < d->terms[i].n; fi++) {
      const DimAtom *q = d->terms[i].atoms[fi];
      if (q->kind != ATOM_FLOORDIV) continue;
      const Dim *qrest = term_dim(c, &d->terms[i], fi);
      for (uint32_t j = 0; j < d->n; j++)
        for (uint32_t fj = 0; j != i && fj < d->terms[j].n; fj++) {
          const DimAtom *m = d->terms[j].atoms[fj];
          if (m->kind != ATOM_FLOORMOD || m->b != q->b) continue;
          bool same = m->a == q->a;
          int64_t inner, k;
          if (!same && q->a->n == 1 && !q->a->konst && q->a->terms[0].coef == 1 &&
              q->a->terms[0].n == 1 && q->a->terms[0].atoms[0]->kind == ATOM_FLOORMOD) {
            /* (x % (n * k)) // k with x % k */
            const DimAtom *in = q->a->terms[0].atoms[0];
            same = in->a == m->a && dim_is_const(in->b, &inner) && dim_is_const(q->b, &k) &&
                   k > 0 && inner % k == 0;
          }
          if (!same) continue;
          const Dim *mrest = term_dim(c, &d->terms[j], fj);
          if (dim_mul(c, mrest, q->b) != qrest) continue;
          const Dim *r = dim_sub(c, d, term_dim(c, &d->terms[i], UINT32_MAX));
          r = dim_sub(c, r, term_dim(c, &d->terms[j], UINT32_MAX));
          return dim_add(c, r, dim_mul(c, mrest, q->a));
        }
    }
  return NULL;
}

const Dim *flat_offset(LoopCtx *lc, const Buffer *b, const Expr *const *idx) {
  Context *c = lc->c;
  const Dim *d = dim_const(c, 0);
  for (uint32_t i = 0; i < b->ndim; i++)
    d = dim_add(c, dim_mul(c, d, expr_dim(c, b->shape[i])), expr_dim(c, idx[i]));
  for (int step = 0; step < 16; step++) {
    const Dim *r = recombine_once(c, d);
    if (!r) break;
    d = r;
  }
  return d;
}

const Dim *stride_of(LoopCtx *lc, const Stage *st, const Dim *d, const Var *v) {
  Context *c = lc->c;
  const Dim *coef, *rest;
  if (!dim_linear(c, d, v, &coef, &rest)) return NULL;
  if (dim_is_const(coef, NULL)) return coef;
  const Expr *e = dim_expr(c, coef, DT_I64);
  for (uint32_t i = 0; i < st->naxes; i++)
    if (expr_uses_var(e, st->axes[i].var)) return NULL;
  return expr_has_load(e) ? NULL : coef;
}

bool find_split(Context *c, const Dim *d, const Var *v, Split *sp) {
  const Dim *zero = dim_const(c, 0), *coef, *shift;
  *sp = (Split){.rest = dim_const(c, d->konst), .by_quotient = zero, .by_residue = zero};
  for (uint32_t i = 0; i < d->n; i++) {
    const DimTerm *t = &d->terms[i];
    const DimAtom *atom = NULL;
    const Dim *others = dim_const(c, t->coef);
    for (uint32_t k = 0; k < t->n; k++) {
      const DimAtom *x = t->atoms[k];
      const Dim *one = atom_dim(c, x);
      if (!dim_uses_var(one, v)) {
        others = dim_mul(c, others, one);
        continue;
      }
      int64_t s, step;
      if (atom || (x->kind != ATOM_FLOORDIV && x->kind != ATOM_FLOORMOD) ||
          !dim_is_const(x->b, &s) || s < 2 || !dim_linear(c, x->a, v, &coef, &shift) ||
          !dim_is_const(coef, &step) || step != 1 || (sp->s && (sp->s != s || sp->shift != shift)))
        return false;
      atom = x;
      sp->s = s;
      sp->shift = shift;
    }
    const Dim **sum = !atom                         ? &sp->rest
                      : atom->kind == ATOM_FLOORDIV ? &sp->by_quotient
                                                    : &sp->by_residue;
    *sum = dim_add(c, *sum, others);
  }
  return sp->s != 0;
}
