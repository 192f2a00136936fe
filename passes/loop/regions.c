/* Loops split where a condition on their variable turns.
 *
 *   before: for j in n + 1: y[j] = if_then_else(j < n, a[j], b[j - n])
 *   after:  for j in n: y[j] = a[j];  for j in 1: y[j + n] = b[j]
 *
 * Each region has no condition left, reads one of the operands only, and picks loops and lanes of
 * its own: a concatenation becomes copies, the inside of a padded tensor a copy without masks. An
 * axis is split when its comparisons are `v < c` with c the same in all iterations around; a short
 * contiguous axis stays under masks, which are cheaper there. The method is known
 * as index-set splitting.
 */
#include "passes/loop/schedule.h"

#define MAX_CUTS 15
#define MAX_REGIONS 16 /* of one group, over all axes */
#define MIN_RUN 64     /* elements of the longest region of the contiguous axis */

/* What makes a comparison true: v < at, or v >= at. */
typedef struct {
  const Expr *compare, *at;
  bool below;
} Turn;

typedef struct {
  Sched *s;
  const Group *g;
  const Axis *axis;
  Turn turns[64];
  uint32_t n;
} Scan;

static bool varies(const Scan *k, const Dim *d) {
  for (uint32_t i = 0; i < k->g->n; i++) {
    const Stage *st = k->g->stages[i];
    for (uint32_t a = 0; a < st->naxes; a++)
      if (dim_uses_var(d, st->axes[a].var)) return true;
  }
  return false;
}

/* x < y as a turn of v, for v's coefficient 1 or -1 in x - y (and any constant division). */
static bool solve(const Scan *k, const Expr *x, const Expr *y, Turn *t) {
  Context *c = k->s->c;
  const Dim *coef, *rest, *d = dim_sub(c, expr_dim(c, x), expr_dim(c, y));
  int64_t f, r;
  if (!dim_linear(c, d, k->axis->var, &coef, &rest) || !dim_is_const(coef, &f) || !f ||
      varies(k, rest))
    return false;
  /* f v + rest < 0 */
  if (f > 0) {
    if (f != 1 && !dim_is_const(rest, &r)) return false;
    t->at = f == 1 ? dim_expr(c, dim_scale(c, rest, -1), DT_I64) : i64(c, -(r / f) + (r % f < 0));
    t->below = true;
  } else {
    if (f != -1 && !dim_is_const(rest, &r)) return false;
    t->at = f == -1 ? dim_expr(c, dim_add(c, rest, dim_const(c, 1)), DT_I64)
                    : i64(c, r / -f - (r % -f < 0) + 1);
    t->below = false;
  }
  return true;
}

static bool scan(const Expr *e, void *ctx) {
  Scan *k = ctx;
  Turn t = {.compare = e};
  if (e->dtype.lanes != 1 || k->n == 64) return true;
  const Expr *a = e->n == 2 ? e->arg[0] : NULL, *b = e->n == 2 ? e->arg[1] : NULL;
  bool less = e->kind == EXPR_LT || e->kind == EXPR_GE,
       more = e->kind == EXPR_GT || e->kind == EXPR_LE;
  if ((!less && !more) || !dtype_is_int(a->dtype)) return true;
  if (!solve(k, less ? a : b, less ? b : a, &t)) return true;
  t.below ^= e->kind == EXPR_GE || e->kind == EXPR_LE; /* the opposite of < and > */
  k->turns[k->n++] = t;
  return true;
}

/* A symbolic cut: it has to be the only one. */
static uint32_t find_symbolic_cut(const Scan *k, const Expr **cuts) {
  Context *c = k->s->c;
  const Expr *at = k->turns[0].at, *end = k->axis->extent, *zero = i64(c, 0);
  for (uint32_t i = 1; i < k->n; i++)
    if (k->turns[i].at != at) return 0;
  cuts[0] = zero;
  cuts[1] = expr_simplify(c, expr_min(c, expr_max(c, at, zero), end));
  cuts[2] = end;
  return 1;
}

/* Cuts in rising order, after 0 and before the extent; 0 when the axis can't be split. */
static uint32_t find_cuts(const Scan *k, const Expr **cuts) {
  Context *c = k->s->c;
  int64_t at[MAX_CUTS], v, last;
  uint32_t n = 0;
  if (!k->n) return 0;
  for (uint32_t i = 0; i < k->n; i++) {
    if (!expr_const_int(c, k->axis->extent, &last) || !expr_const_int(c, k->turns[i].at, &v))
      return find_symbolic_cut(k, cuts);
    if (v <= 0 || v >= last) continue;
    uint32_t p = 0;
    while (p < n && at[p] < v) p++;
    if (p < n && at[p] == v) continue;
    if (n == MAX_CUTS) return 0;
    memmove(at + p + 1, at + p, (n - p) * sizeof *at);
    at[p] = v;
    n++;
  }
  cuts[0] = i64(c, 0);
  for (uint32_t i = 0; i < n; i++) cuts[i + 1] = i64(c, at[i]);
  cuts[n + 1] = k->axis->extent;
  return n;
}

typedef struct {
  const Scan *k;
  const Stage *st;
  bool gaps;
} Contiguous;
static bool has_gaps(const Scan *k, const Stage *st, const Buffer *b, const Expr *const *idx) {
  const Dim *d = stride_of(k->s->lc, st, flat_offset(k->s->lc, b, idx), k->axis->var);
  int64_t v;
  return !d || !dim_is_const(d, &v) || v < 0 || v > 1;
}
static void note_gaps(const Expr *load, void *ctx) {
  Contiguous *t = ctx;
  t->gaps |= has_gaps(t->k, t->st, load->buf, load->arg);
}

/* Whether the axis is contiguous in everything that the last stage touches. */
static bool is_contiguous(const Scan *k) {
  const Stage *st = k->g->stages[k->g->n - 1];
  Contiguous t = {k, st, has_gaps(k, st, st->out, st->oidx)};
  expr_loads(st->value, note_gaps, &t);
  return !t.gaps;
}

static bool is_worth_it(const Scan *k, const Expr *const *cuts, uint32_t n) {
  int64_t from, to;
  if (!is_contiguous(k)) return true;
  for (uint32_t i = 0; i <= n; i++)
    if (!expr_const_int(k->s->c, cuts[i], &from) || !expr_const_int(k->s->c, cuts[i + 1], &to) ||
        to - from >= MIN_RUN)
      return true;
  return false;
}

/* What the turn's comparison is in all of [from, to); false when that differs. `cut`: the one
 * symbolic cut, or NULL. */
static bool is_known(Context *c, const Turn *t, const Expr *from, const Expr *to, const Expr *cut,
                     bool *value) {
  int64_t at, a, b;
  if (expr_const_int(c, t->at, &at) && expr_const_int(c, from, &a) && expr_const_int(c, to, &b)) {
    if (a < at && at < b) return false;
    *value = (b <= at) == t->below;
    return true;
  }
  if (!cut) return false;
  *value = (to == cut) == t->below;
  return true;
}

static const Expr *settle(Context *c, const Expr *e, void *ctx) {
  const Expr *value = map_getp(ctx, e);
  if (value) return value;
  int64_t v;
  if (e->kind == EXPR_CALL && e->intrin == INTRIN_if_then_else && expr_const_int(c, e->arg[0], &v))
    return e->arg[v ? 1 : 2];
  return e;
}

static void emit_region(const Scan *k, const Expr *from, const Expr *to, const Expr *cut,
                        uint32_t budget, StmtVec *out) {
  Sched *s = k->s;
  Context *c = s->c;
  Map vars, known;
  map_init(&vars, s->tmp);
  map_init(&known, s->tmp);
  for (uint32_t i = 0; i < k->n; i++) {
    bool value;
    if (is_known(c, &k->turns[i], from, to, cut, &value))
      map_setp(&known, k->turns[i].compare, (void *)expr_bool(c, value));
  }
  const Expr *extent = expr_simplify(c, expr_sub(c, to, from));
  Var *v = loop_var(c, k->axis->var->name);
  map_setp(&vars, k->axis->var, (void *)expr_simplify(c, expr_add(c, v->expr, from)));
  Group part = *k->g;
  part.budget = budget;
  part.stages = ARENA_ARRAY(s->tmp, Stage *, part.n);
  for (uint32_t o = 0; o < part.nouter; o++)
    if (part.outer[o].var == k->axis->var) part.outer[o] = (Axis){v, extent};
  for (uint32_t i = 0; i < part.n; i++) {
    Stage *st = part.stages[i] = ARENA_NEW(s->tmp, Stage);
    *st = *k->g->stages[i];
    st->value = subst_vars(c, &vars, expr_rewrite(c, st->value, settle, &known));
    st->oidx = ARENA_ARRAY(s->tmp, const Expr *, st->out->ndim + 1);
    for (uint32_t d = 0; d < st->out->ndim; d++)
      st->oidx[d] = subst_vars(c, &vars, k->g->stages[i]->oidx[d]);
    for (uint32_t a = 0; a < st->naxes; a++)
      if (st->axes[a].var == k->axis->var) st->axes[a] = (Axis){v, extent};
    st->covers = false;
  }
  group_emit(s, &part, out);
}

bool regions_emit(Sched *s, const Group *g, StmtVec *out) {
  uint32_t budget = g->budget ? g->budget : MAX_REGIONS;
  for (uint32_t o = 0; s->simple && o < g->nouter; o++) {
    Scan k = {.s = s, .g = g, .axis = &g->outer[o]};
    const Expr *cuts[MAX_CUTS + 2];
    for (uint32_t i = 0; i < g->n; i++) expr_walk(g->stages[i]->value, scan, &k);
    uint32_t n = find_cuts(&k, cuts);
    if (!n || n + 1 > budget || !is_worth_it(&k, cuts, n)) continue;
    int64_t v;
    const Expr *cut = n == 1 && !expr_const_int(s->c, cuts[1], &v) ? cuts[1] : NULL;
    for (uint32_t i = 0; i <= n; i++)
      emit_region(&k, cuts[i], cuts[i + 1], cut, budget / (n + 1), out);
    return true;
  }
  return false;
}
