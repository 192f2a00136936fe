/* Axes that are two in one.
 *
 *   before: C[v, x] += A[v // 32 * 60 + k, x] * B[v, k]            (a grouped convolution)
 *   after:  C[g * 32 + o, x] += A[g * 60 + k, x] * B[g * 32 + o, k]
 *
 * As one axis v is in both factors and every row of C is a product on its own; as two, o is an axis
 * of rows, which share what they read of A.
 */
#include "passes/loop/schedule.h"

#define MIN_ROWS 16 /* fewer gain less than reading both factors' elements once each costs */

typedef struct {
  Context *c;
  const Var *v;
  int64_t extent, size; /* of v, and of its inner part: 0 until it is found */
} Find;

static bool find_quotient(const Expr *e, void *ctx) {
  Find *f = ctx;
  int64_t size;
  if ((e->kind == EXPR_FLOORDIV || e->kind == EXPR_DIV) && e->arg[0] == f->v->expr &&
      expr_const_int(f->c, e->arg[1], &size) && size >= MIN_ROWS && size < f->extent &&
      f->extent % size == 0)
    f->size = size;
  return !f->size;
}

bool unmerge_axes(Sched *s, const Group *g, Group *out) {
  for (uint32_t o = 0; o < g->nouter; o++) {
    Find f = {.c = s->c, .v = g->outer[o].var};
    if (!expr_const_int(s->c, g->outer[o].extent, &f.extent)) continue;
    expr_walk(g->stages[0]->value, find_quotient, &f);
    if (f.size) return group_split_axis(s, g, o, i64(s->c, f.size), out);
  }
  return false;
}
