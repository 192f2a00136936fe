/* Loops split where a condition on their variable turns.
 *
 *   before: for j in n + 1: y[j] = if_then_else(j < n, a[j], b[j - n])
 *   after:  for j in n: y[j] = a[j];  for j in 1: y[j + n] = b[j]
 *
 * Each region has no condition left, reads one of the operands only, and picks loops and lanes of
 * its own: a concatenation becomes copies, the inside of a padded tensor a copy without masks. An
 * axis is split when its comparisons are `v < c` with c the same in all iterations around, and the
 * order of all c is proved where they are symbolic; a short contiguous axis stays under masks
 * where these are cheaper. The method is known as index-set splitting.
 */
#include "ir/facts.h"
#include "passes/loop/schedule.h"

#define MAX_CUTS 15
#define MIN_RUN 64    /* elements of a region of the contiguous axis that is worth it alone */
#define REGION_COST 2 /* loops of a region's own, in vectors */

/* What makes a comparison true: v < at, or v >= at. The smaller and the greater of two positions in
 * an index count as comparisons, which are true when it is the second one. */
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

/* x < y as a turn of v, for v's coefficient 1 or -1 in x - y (and any constant division). */
static bool solve(const Scan *k, const Expr *x, const Expr *y, Turn *t) {
  Context *c = k->s->c;
  const Dim *coef, *rest, *d = dim_sub(c, expr_dim(c, x), expr_dim(c, y));
  int64_t f, r;
  if (!dim_linear(c, d, k->axis->var, &coef, &rest) || !dim_is_const(coef, &f) || !f ||
      group_varies(k->g, dim_expr(c, rest, DT_I64)))
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

static void add_turn(Scan *k, const Expr *compare, const Expr *x, const Expr *y, bool negate) {
  Turn t = {.compare = compare};
  for (uint32_t i = 0; i < k->n; i++)
    if (k->turns[i].compare == compare) return;
  if (k->n == 64 || !dtype_is_int(x->dtype) || x->dtype.lanes != 1 || !solve(k, x, y, &t)) return;
  t.below ^= negate;
  k->turns[k->n++] = t;
}

static bool scan_index(const Expr *e, void *ctx) {
  if (e->kind == EXPR_MAX) add_turn(ctx, e, e->arg[0], e->arg[1], false);
  if (e->kind == EXPR_MIN) add_turn(ctx, e, e->arg[1], e->arg[0], false);
  return true;
}

static bool scan(const Expr *e, void *ctx) {
  switch ((ExprKind)e->kind) {
  case EXPR_LT: add_turn(ctx, e, e->arg[0], e->arg[1], false); break;
  case EXPR_GT: add_turn(ctx, e, e->arg[1], e->arg[0], false); break;
  case EXPR_GE: add_turn(ctx, e, e->arg[0], e->arg[1], true); break;
  case EXPR_LE: add_turn(ctx, e, e->arg[1], e->arg[0], true); break;
  case EXPR_LOAD:
    for (uint32_t i = 0; i < e->n; i++) expr_walk(e->arg[i], scan_index, ctx);
    break;
  default: break;
  }
  return true;
}

/* Where the axis is cut: at 0, at the places of the turns in rising order, at its end. Places may
 * be symbolic when their order is proved; they are kept between the ends. */
typedef struct {
  const Expr *place[MAX_CUTS], *at[MAX_CUTS + 2];
  uint32_t n; /* cuts beside the ends; 0: the axis can't be split */
} Cuts;

static bool is_before(Context *c, const Expr *x, const Expr *y) {
  return prove_le(c, NULL, expr_dim(c, x), expr_dim(c, y)) == PROOF_YES;
}

/* The cut at t's place; cuts.n when there is none. */
static uint32_t cut_of(Context *c, const Cuts *cuts, const Turn *t) {
  uint32_t i = 0;
  while (i < cuts->n && !expr_proved_eq(c, cuts->place[i], t->at)) i++;
  return i;
}

static void find_cuts(const Scan *k, Cuts *cuts) {
  Context *c = k->s->c;
  const Expr *zero = i64(c, 0), *end = k->axis->extent;
  cuts->n = 0;
  for (uint32_t i = 0; i < k->n; i++) {
    const Expr *at = k->turns[i].at;
    if (is_before(c, at, zero) || is_before(c, end, at)) continue;
    if (cut_of(c, cuts, &k->turns[i]) < cuts->n) continue;
    uint32_t p = 0;
    while (p < cuts->n && is_before(c, cuts->place[p], at)) p++;
    bool ordered = cuts->n < MAX_CUTS && (p == cuts->n || is_before(c, at, cuts->place[p]));
    if (!ordered) {
      cuts->n = 0;
      return;
    }
    memmove(cuts->place + p + 1, cuts->place + p, (cuts->n - p) * sizeof *cuts->place);
    cuts->place[p] = at;
    cuts->n++;
  }
  cuts->at[0] = zero;
  for (uint32_t i = 0; i < cuts->n; i++) {
    const Expr *at = cuts->place[i];
    if (!is_before(c, zero, at)) at = expr_max(c, at, zero);
    if (!is_before(c, at, end)) at = expr_min(c, at, end);
    cuts->at[i + 1] = expr_simplify(c, at);
  }
  cuts->at[cuts->n + 1] = end;
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

/* Under masks each vector of the axis reads for all regions; a region of its own has a tail, too.
 */
static bool is_worth_it(const Scan *k, const Cuts *cuts) {
  int64_t from, to, vectors = 0, lanes = variant_lanes(k->s->v, DT_F32);
  if (!is_contiguous(k)) return true;
  for (uint32_t i = 0; i <= cuts->n; i++) {
    if (!expr_const_int(k->s->c, cuts->at[i], &from) ||
        !expr_const_int(k->s->c, cuts->at[i + 1], &to) || to - from >= MIN_RUN)
      return true;
    vectors += (to - from + lanes - 1) / lanes + REGION_COST;
  }
  return vectors < (to + lanes - 1) / lanes * (cuts->n + 1);
}

/* What the turn's comparison is in all of the region behind cut i. */
static bool value_in(Context *c, const Turn *t, const Cuts *cuts, uint32_t region) {
  uint32_t cut = cut_of(c, cuts, t);
  if (cut < cuts->n) return (region <= cut) == t->below;
  return is_before(c, cuts->at[cuts->n + 1], t->at) == t->below; /* outside the axis */
}

/* What is known inside a region: the turns' comparisons, and the ranges of the axes. */
typedef struct {
  Map turns; /* compare -> its value */
  Facts *facts;
} Known;

static bool is_at_most(Context *c, const Known *k, const Expr *x, const Expr *y) {
  return dtype_is_int(x->dtype) && x->dtype.lanes == 1 &&
         prove_le(c, k->facts, expr_dim(c, x), expr_dim(c, y)) == PROOF_YES;
}

/* x < y where that is known, else e. */
static const Expr *settle_less(Context *c, const Known *k, const Expr *e, const Expr *x,
                               const Expr *y, bool negate) {
  if (!dtype_is_int(x->dtype) || x->dtype.lanes != 1) return e;
  if (prove_lt(c, k->facts, expr_dim(c, x), expr_dim(c, y)) == PROOF_YES)
    return expr_bool(c, !negate);
  return is_at_most(c, k, y, x) ? expr_bool(c, negate) : e;
}

static const Expr *settle(Context *c, const Expr *e, void *ctx) {
  const Known *k = ctx;
  const Expr *turn = map_getp(&k->turns, e);
  int64_t v;
  switch ((ExprKind)e->kind) {
  case EXPR_LT: return turn ? turn : settle_less(c, k, e, e->arg[0], e->arg[1], false);
  case EXPR_GE: return turn ? turn : settle_less(c, k, e, e->arg[0], e->arg[1], true);
  case EXPR_GT: return turn ? turn : settle_less(c, k, e, e->arg[1], e->arg[0], false);
  case EXPR_LE: return turn ? turn : settle_less(c, k, e, e->arg[1], e->arg[0], true);
  case EXPR_MIN:
  case EXPR_MAX:
    if (turn) return e->arg[turn->i];
    for (int i = 0; i < 2; i++) /* the one that is at most, or at least, the other */
      if (is_at_most(c, k, e->arg[i], e->arg[1 - i]))
        return e->arg[e->kind == EXPR_MAX ? 1 - i : i];
    return e;
  case EXPR_SELECT: return expr_const_int(c, e->arg[0], &v) ? e->arg[v ? 1 : 2] : e;
  case EXPR_CALL:
    return e->intrin == INTRIN_if_then_else && expr_const_int(c, e->arg[0], &v) ? e->arg[v ? 1 : 2]
                                                                                : e;
  default: return e;
  }
}

static void emit_region(const Scan *k, const Cuts *cuts, uint32_t region, uint32_t budget,
                        StmtVec *out) {
  Sched *s = k->s;
  Context *c = s->c;
  const Expr *from = cuts->at[region], *to = cuts->at[region + 1];
  Map vars;
  map_init(&vars, s->tmp);
  Known known = {.facts = facts_create(c, s->tmp)};
  map_init(&known.turns, s->tmp);
  for (uint32_t i = 0; i < k->n; i++) {
    bool value = value_in(c, &k->turns[i], cuts, region);
    map_setp(&known.turns, k->turns[i].compare, (void *)expr_bool(c, value));
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
    for (uint32_t a = 0; a < st->naxes; a++) {
      bool cut = st->axes[a].var == k->axis->var;
      facts_below(known.facts, st->axes[a].var, expr_dim(c, cut ? from : i64(c, 0)),
                  expr_dim(c, cut ? to : st->axes[a].extent));
    }
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
    Cuts cuts;
    for (uint32_t i = 0; i < g->n; i++) expr_walk(g->stages[i]->value, scan, &k);
    find_cuts(&k, &cuts);
    if (!cuts.n || cuts.n + 1 > budget || !is_worth_it(&k, &cuts)) continue;
    for (uint32_t i = 0; i <= cuts.n; i++) emit_region(&k, &cuts, i, budget / (cuts.n + 1), out);
    return true;
  }
  return false;
}
