/* A loop that goes through something again and again becomes two.
 *
 *   before: for i in 800: y[i] = x[i % 100] + z[i // 100]
 *   after:  for q in 8: for r in 100: y[q * 100 + r] = x[r] + z[q]
 *
 * So the innermost loop is contiguous, whatever the length of a stretch has to do with lanes.
 */
#include "passes/loop/schedule.h"

#define MIN_STRETCH 16 /* shorter ones are shuffles of lanes (vectorize.c) */

typedef struct {
  Sched *s;
  const Stage *st;
  const Dim *axis;
  const Dim *length; /* of a stretch; NULL: none found */
} Find;

static bool uses_axes(const Find *f, const Dim *d) {
  for (uint32_t i = 0; i < f->st->naxes; i++)
    if (dim_uses_var(d, f->st->axes[i].var)) return true;
  return false;
}

static void find_in(Find *f, const Dim *d) {
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t k = 0; k < d->terms[i].n; k++) {
      const DimAtom *x = d->terms[i].atoms[k];
      if (x->kind != ATOM_FLOORDIV && x->kind != ATOM_FLOORMOD) continue;
      if (x->a == f->axis && !f->length && !uses_axes(f, x->b)) f->length = x->b;
      find_in(f, x->a);
    }
}

static void find_load(const Expr *load, void *ctx) {
  Find *f = ctx;
  for (uint32_t i = 0; i < load->n; i++) find_in(f, expr_dim(f->s->c, load->arg[i]));
}

bool stretches_emit(Sched *s, const Group *g, StmtVec *out) {
  if (!s->simple || g->n != 1 || g->stages[0]->red != RED_NONE || !g->nouter ||
      g->stages[0]->naxes == MAX_AXES)
    return false;
  Context *c = s->c;
  const Axis axis = g->outer[g->nouter - 1];
  const Stage *old = g->stages[0];
  Find f = {s, old, dim_var(c, axis.var), NULL};
  expr_loads(old->value, find_load, &f);
  if (!f.length) return false;
  const Dim *extent = expr_dim(c, axis.extent);
  int64_t n;
  if (dim_floormod(c, extent, f.length) != dim_const(c, 0) || extent == f.length ||
      (dim_is_const(f.length, &n) && n < MIN_STRETCH))
    return false;
  Axis q = {loop_var(c, axis.var->name), dim_expr(c, dim_floordiv(c, extent, f.length), DT_I64)};
  Axis r = {loop_var(c, axis.var->name), dim_expr(c, f.length, DT_I64)};
  Map vars;
  map_init(&vars, s->tmp);
  const Expr *both = expr_add(c, expr_mul(c, q.var->expr, r.extent), r.var->expr);
  map_setp(&vars, axis.var, (void *)expr_simplify(c, both));
  Stage *st = ARENA_NEW(s->tmp, Stage), *stages[] = {st};
  *st = *old;
  uint32_t w = 0;
  for (uint32_t i = 0; i < old->naxes; i++) {
    if (old->axes[i].var == axis.var) st->axes[w++] = q;
    st->axes[w++] = old->axes[i].var == axis.var ? r : old->axes[i];
  }
  st->naxes = w;
  st->nspatial++;
  st->value = subst_vars(c, &vars, old->value);
  for (int i = 0; i < 2; i++) /* (q * n + r) % n becomes r % n, which is r */
    st->value = stage_simplify(s, st, st->value);
  st->oidx = ARENA_ARRAY(s->tmp, const Expr *, old->out->ndim + 1);
  for (uint32_t d = 0; d < old->out->ndim; d++) st->oidx[d] = subst_vars(c, &vars, old->oidx[d]);
  st->covers = false;
  Group parts = *g;
  parts.stages = arena_dup(s->tmp, stages, sizeof stages);
  parts.outer[g->nouter - 1] = q;
  parts.outer[g->nouter] = r;
  parts.nouter = g->nouter + 1;
  group_emit(s, &parts, out);
  return true;
}
