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
  const Group *g;
  const Dim *axis;
  const Dim *length; /* of a stretch; NULL: none found */
} Find;

static void find_in(Find *f, const Dim *d) {
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t k = 0; k < d->terms[i].n; k++) {
      const DimAtom *x = d->terms[i].atoms[k];
      if (x->kind != ATOM_FLOORDIV && x->kind != ATOM_FLOORMOD) continue;
      if (x->a == f->axis && !f->length && !group_varies(f->g, dim_expr(f->s->c, x->b, DT_I64)))
        f->length = x->b;
      find_in(f, x->a);
    }
}

static void find_load(const Expr *load, void *ctx) {
  Find *f = ctx;
  for (uint32_t i = 0; i < load->n; i++) find_in(f, expr_dim(f->s->c, load->arg[i]));
}

bool stretches_emit(Sched *s, const Group *g, StmtVec *out) {
  if (!s->simple || g->n != 1 || g->stages[0]->red != RED_NONE || !g->nouter) return false;
  Context *c = s->c;
  const Axis axis = g->outer[g->nouter - 1];
  Find f = {s, g, dim_var(c, axis.var), NULL};
  expr_loads(g->stages[0]->value, find_load, &f);
  if (!f.length) return false;
  const Dim *extent = expr_dim(c, axis.extent);
  int64_t n;
  if (dim_floormod(c, extent, f.length) != dim_const(c, 0) || extent == f.length ||
      (dim_is_const(f.length, &n) && n < MIN_STRETCH))
    return false;
  Group parts;
  if (!group_split_axis(s, g, g->nouter - 1, dim_expr(c, f.length, DT_I64), &parts)) return false;
  group_emit(s, &parts, out);
  return true;
}
