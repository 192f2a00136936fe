/* A loop of a group as two: v is outer * size + inner, for a size that divides its extent. What
 * indexed by v's quotient and remainder then indexes by an axis each. */
#include "passes/loop/schedule.h"

typedef struct {
  const Axis *parts; /* the outer and the inner one */
  Map vars;          /* the old axis -> both */
} Halves;

/* st with axis i as two. Its place in the result's index stays that of the outer one. */
static Stage *split_stage(Sched *s, const Halves *p, const Stage *st, uint32_t i) {
  Context *c = s->c;
  Stage *two = arena_dup(s->tmp, st, sizeof *st);
  memmove(&two->axes[i + 2], &st->axes[i + 1], (st->naxes - i - 1) * sizeof *st->axes);
  memcpy(&two->axes[i], p->parts, 2 * sizeof *p->parts);
  two->naxes++;
  two->nspatial++;
  two->value = subst_vars(c, &p->vars, st->value);
  for (int k = 0; k < 2; k++) /* (q * n + r) % n becomes r % n, which is r */
    two->value = stage_simplify(s, two, two->value);
  two->oidx = ARENA_ARRAY(s->tmp, const Expr *, st->out->ndim + 1);
  two->oaxis = ARENA_ARRAY(s->tmp, int32_t, st->out->ndim + 1);
  for (uint32_t d = 0; d < st->out->ndim; d++) {
    two->oidx[d] = stage_simplify(s, two, subst_vars(c, &p->vars, st->oidx[d]));
    two->oaxis[d] = st->oaxis[d] + (st->oaxis[d] > (int32_t)i);
  }
  return two;
}

bool group_split_axis(Sched *s, const Group *g, uint32_t o, const Expr *size, Group *out) {
  Context *c = s->c;
  const Var *v = g->outer[o].var;
  if (g->nouter == MAX_AXES) return false;
  for (uint32_t k = 0; k < g->n; k++)
    if (g->stages[k]->naxes == MAX_AXES) return false;
  const Dim *count = dim_floordiv(c, expr_dim(c, g->outer[o].extent), expr_dim(c, size));
  Axis parts[] = {{loop_var(c, v->name), dim_expr(c, count, DT_I64)}, {loop_var(c, v->name), size}};
  Halves p = {.parts = parts};
  map_init(&p.vars, s->tmp);
  const Expr *both = expr_add(c, expr_mul(c, parts[0].var->expr, size), parts[1].var->expr);
  map_setp(&p.vars, v, (void *)expr_simplify(c, both));
  *out = *g;
  out->stages = arena_dup(s->tmp, g->stages, g->n * sizeof *g->stages);
  for (uint32_t k = 0; k < g->n; k++)
    for (uint32_t i = 0; i < g->stages[k]->naxes; i++)
      if (g->stages[k]->axes[i].var == v) {
        out->stages[k] = split_stage(s, &p, g->stages[k], i);
        break;
      }
  memmove(&out->outer[o + 2], &g->outer[o + 1], (g->nouter - o - 1) * sizeof *parts);
  memcpy(&out->outer[o], parts, sizeof parts);
  out->nouter++;
  return true;
}
