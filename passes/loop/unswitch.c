/* A condition that all iterations share goes in front of the loops.
 *
 *   before: for i in 1000: y[i] = x[Select(n == 1, 0, i)] + z[i]
 *   after:  if n == 1: for i in 1000: y[i] = x[0] + z[i]
 *           else:      for i in 1000: y[i] = x[i] + z[i]
 *
 * Whether a symbolic dim is 1, and so is broadcast, decides how the innermost loop goes through
 * memory; both forms are contiguous, the choice between them is not. Known as loop unswitching.
 */
#include "passes/loop/schedule.h"

typedef struct {
  const Group *g;
  const Var *innermost;
  const Expr *fixed; /* the condition; NULL: none found */
} Find;

static bool find_choice(const Expr *e, void *ctx) {
  Find *f = ctx;
  if (e->kind == EXPR_SELECT && e->dtype.lanes == 1 && expr_uses_var(e, f->innermost) &&
      !group_varies(f->g, e->arg[0]) && !expr_has_load(e->arg[0]))
    f->fixed = e->arg[0];
  return !f->fixed;
}

static void find_in_index(const Expr *load, void *ctx) {
  Find *f = ctx;
  for (uint32_t i = 0; !f->fixed && i < load->n; i++) expr_walk(load->arg[i], find_choice, ctx);
}

typedef struct {
  const Expr *fixed;
  bool value;
} Choice;

static const Expr *choose(Context *c, const Expr *e, void *ctx) {
  const Choice *k = ctx;
  (void)c;
  return e->kind == EXPR_SELECT && e->arg[0] == k->fixed ? e->arg[k->value ? 1 : 2] : e;
}

/* The loops of g where the condition has this value. */
static Stmt *emit_side(Sched *s, const Group *g, Choice k, uint32_t budget) {
  Group side = *g;
  StmtVec out = {0};
  side.budget = budget;
  side.stages = ARENA_ARRAY(s->tmp, Stage *, g->n);
  for (uint32_t i = 0; i < g->n; i++) {
    Stage *st = side.stages[i] = ARENA_NEW(s->tmp, Stage);
    *st = *g->stages[i];
    st->value = stage_simplify(s, st, expr_rewrite(s->c, st->value, choose, &k));
  }
  group_emit(s, &side, &out);
  return seq_of(s->a, &out);
}

bool unswitch_emit(Sched *s, const Group *g, StmtVec *out) {
  uint32_t budget = g->budget ? g->budget : MAX_REGIONS;
  if (!s->simple || !g->nouter || budget < 2) return false;
  Find f = {g, g->outer[g->nouter - 1].var, NULL};
  for (uint32_t i = 0; i < g->n; i++) expr_loads(g->stages[i]->value, find_in_index, &f);
  if (!f.fixed) return false;
  Stmt *yes = emit_side(s, g, (Choice){f.fixed, true}, budget / 2);
  Stmt *no = emit_side(s, g, (Choice){f.fixed, false}, budget / 2);
  vec_push(s->tmp, out, stmt_if(s->a, g->stages[0]->span, f.fixed, yes, no));
  return true;
}
