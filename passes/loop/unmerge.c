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

typedef struct {
  const Map *vars;
  const Facts *facts;
} Replace;

static const Expr *replace_in(Context *c, const Replace *r, const Expr *e) {
  e = subst_vars(c, r->vars, e);
  if (!dtype_is_int(e->dtype) || e->dtype.lanes != 1) return e;
  return dim_expr(c, dim_simplify(c, r->facts, expr_dim(c, e)), e->dtype);
}

static const Expr *replace_load(Context *c, const Expr *e, void *ctx) {
  const Expr *idx[MAX_AXES];
  if (e->kind != EXPR_LOAD) return e;
  for (uint32_t i = 0; i < e->n; i++) idx[i] = replace_in(c, ctx, e->arg[i]);
  return expr_load(c, e->buf, idx, e->n);
}

/* st with axis i as two. Its place in the result's index stays that of the outer one. */
static Stage *split_stage(Sched *s, const Stage *st, uint32_t i, const Axis *parts,
                          const Replace *r) {
  Context *c = s->c;
  Stage *two = arena_dup(s->tmp, st, sizeof *st);
  memmove(&two->axes[i + 2], &st->axes[i + 1], (st->naxes - i - 1) * sizeof *parts);
  two->axes[i] = parts[0];
  two->axes[i + 1] = parts[1];
  two->naxes++;
  two->nspatial++;
  two->value = subst_vars(c, r->vars, expr_rewrite(c, st->value, replace_load, (void *)r));
  two->oidx = ARENA_ARRAY(s->tmp, const Expr *, st->out->ndim);
  two->oaxis = ARENA_ARRAY(s->tmp, int32_t, st->out->ndim);
  for (uint32_t d = 0; d < st->out->ndim; d++) {
    two->oidx[d] = replace_in(c, r, st->oidx[d]);
    two->oaxis[d] = st->oaxis[d] + (st->oaxis[d] > (int32_t)i);
  }
  return two;
}

/* Axis o of g's loops as an outer and an inner one of `size`. False when a stage has no room. */
static bool split_loop(Sched *s, Group *g, uint32_t o, int64_t extent, int64_t size) {
  Context *c = s->c;
  Var *v = g->outer[o].var;
  Axis parts[] = {{loop_var(c, v->name), i64(c, extent / size)},
                  {loop_var(c, v->name), i64(c, size)}};
  Map vars;
  map_init(&vars, s->tmp);
  const Expr *whole = expr_mul(c, parts[0].var->expr, i64(c, size));
  map_setp(&vars, v, (void *)expr_add(c, whole, parts[1].var->expr));
  Facts *facts = facts_create(c, s->tmp);
  for (int p = 0; p < 2; p++)
    facts_below(facts, parts[p].var, dim_const(c, 0), expr_dim(c, parts[p].extent));
  Replace r = {&vars, facts};
  if (g->nouter == MAX_AXES) return false;
  for (uint32_t k = 0; k < g->n; k++)
    if (g->stages[k]->naxes == MAX_AXES) return false;
  for (uint32_t k = 0; k < g->n; k++)
    for (uint32_t i = 0; i < g->stages[k]->naxes; i++)
      if (g->stages[k]->axes[i].var == v) {
        g->stages[k] = split_stage(s, g->stages[k], i, parts, &r);
        break;
      }
  memmove(&g->outer[o + 2], &g->outer[o + 1], (g->nouter - o - 1) * sizeof *parts);
  memcpy(&g->outer[o], parts, sizeof parts);
  g->nouter++;
  return true;
}

bool unmerge_axes(Sched *s, const Group *g, Group *out) {
  for (uint32_t o = 0; o < g->nouter; o++) {
    Find f = {.c = s->c, .v = g->outer[o].var};
    if (!expr_const_int(s->c, g->outer[o].extent, &f.extent)) continue;
    expr_walk(g->stages[0]->value, find_quotient, &f);
    if (!f.size) continue;
    *out = *g;
    out->stages = arena_dup(s->tmp, g->stages, g->n * sizeof *g->stages);
    return split_loop(s, out, o, f.extent, f.size);
  }
  return false;
}
