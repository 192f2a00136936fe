/* Which loops: contiguous axes are merged, and one axis is chosen to run over vector lanes.
 *
 * An axis is good for lanes when it is contiguous in most accesses; one that doesn't occur in an
 * access costs nothing there (a broadcast), a strided one is a gather.
 */
#include "passes/loop/emit.h"

#define UNKNOWN_SIZE 4096 /* of an axis that may be long */

/* ---- collapsing ---- */

typedef struct {
  Emit *em;
  const Stage *st;
  const Axis *p, *q;
  bool ok;
} Collapse;

static void collapse_access(Collapse *k, const Buffer *b, const Expr *const *idx) {
  const Temp *t = map_getp(&k->em->temps, b);
  if (t && !t->inner && !t->in_memory) return;
  if (t && !t->inner && t->buf != k->st->out) return;
  LoopCtx *lc = k->em->lc;
  Context *c = k->em->c;
  const Dim *d = flat_offset(lc, b, idx);
  const Dim *a = stride_of(lc, k->st, d, k->p->var), *e = stride_of(lc, k->st, d, k->q->var);
  if (!a || !e || dim_mul(c, e, expr_dim(c, k->q->extent)) != a) k->ok = false;
}
static void collapse_load(const Expr *load, void *ctx) {
  Collapse *k = ctx;
  collapse_access(k, load->buf, load->arg);
}

static bool can_collapse(Emit *em, const Axis *p, const Axis *q) {
  Collapse k = {.em = em, .p = p, .q = q, .ok = true};
  for (uint32_t i = 0; k.ok && i < em->g->n; i++) {
    const Stage *st = em->g->stages[i];
    k.st = st;
    if (expr_uses_var_as_value(st->value, p->var) || expr_uses_var_as_value(st->value, q->var))
      return false;
    expr_loads(st->value, collapse_load, &k);
    collapse_access(&k, st->out, st->oidx);
  }
  return k.ok;
}

/* Merges neighbouring outer loops that are contiguous in every access: q takes both ranges. */
void emit_collapse(Emit *em) {
  Group *g = em->g;
  for (uint32_t i = 0; i + 1 < g->nouter;) {
    Axis *p = &g->outer[i], *q = &g->outer[i + 1];
    if (!can_collapse(em, p, q)) {
      i++;
      continue;
    }
    emit_bind(em, p->var, i64(em->c, 0));
    q->extent = expr_simplify(em->c, expr_mul(em->c, p->extent, q->extent));
    /* p stays "outer" for group_is_outer through its binding: keep it at the end, unused as a loop
     */
    for (uint32_t k = 0; k < g->n; k++)
      for (uint32_t j = 0; j < g->stages[k]->naxes; j++) {
        Axis *ax = &g->stages[k]->axes[j];
        if (ax->var == p->var) ax->extent = i64(em->c, 1);
        if (ax->var == q->var) ax->extent = q->extent;
      }
    memmove(p, q, (g->nouter - i - 1) * sizeof *p);
    g->nouter--;
    if (i) i--;
  }
}

/* Merges neighbouring reduction axes that are contiguous in every load; returns the number left. */
uint32_t axes_collapse_reduction(Emit *em, const Stage *st, Axis *inner, uint32_t nsp, uint32_t n) {
  for (uint32_t i = nsp; i + 1 < n;) {
    Collapse k = {em, st, &inner[i], &inner[i + 1], true};
    expr_loads(st->value, collapse_load, &k);
    if (!k.ok || expr_uses_var_as_value(st->value, inner[i].var) ||
        expr_uses_var_as_value(st->value, inner[i + 1].var)) {
      i++;
      continue;
    }
    emit_bind(em, inner[i].var, i64(em->c, 0));
    inner[i + 1].extent =
        expr_simplify(em->c, expr_mul(em->c, inner[i].extent, inner[i + 1].extent));
    memmove(&inner[i], &inner[i + 1], (n - i - 1) * sizeof inner[0]);
    n--;
  }
  return n;
}

/* ---- choice of the vector axis ---- */

#define SCATTERED 6  /* points against an access that isn't contiguous */
#define PER_GATHER 8 /* operations that make up for one */

typedef struct {
  Emit *em;
  const Stage *st;
  const Var *v;
  int32_t score;
  uint32_t scattered; /* accesses that aren't linear in v */
  bool unit_other;    /* some load that strides over v is contiguous in `other` */
  const Var *other;
} Score;

/* Every second element, or neighbours in turn from two rows: contiguous loads and a shuffle. */
static bool is_shuffled(Context *c, const Dim *d, const Dim *stride, const Var *v) {
  int64_t k;
  if (stride) return dim_is_const(stride, &k) && k == 2;
  Split sp;
  return find_split(c, d, v, &sp) && sp.s == 2 && dim_is_const(sp.by_quotient, &k) && k == 1;
}

/* Whether an access at d is the same for all elements along the stage's other axes. */
static bool only_along(const Stage *st, const Dim *d, const Var *v) {
  for (uint32_t i = 0; i < st->naxes; i++)
    if (st->axes[i].var != v && dim_uses_var(d, st->axes[i].var)) return false;
  return true;
}

static void score_access(Score *sc, const Buffer *b, const Expr *const *idx) {
  const Temp *t = map_getp(&sc->em->temps, b);
  if (t && !t->inner && t->buf != sc->st->out) return;
  Context *c = sc->em->c;
  const Dim *d = flat_offset(sc->em->lc, b, idx);
  const Dim *k = stride_of(sc->em->lc, sc->st, d, sc->v);
  int64_t v;
  if (k && dim_is_const(k, &v) && v == 0) return;
  if (k && dim_is_const(k, &v) && v == 1) {
    /* a row that serves all others would serve them as well one element at a time */
    sc->score += sc->st->naxes > 1 && only_along(sc->st, d, sc->v) ? 1 : 4;
    return;
  }
  bool shuffled = is_shuffled(c, d, k, sc->v);
  sc->score -= shuffled ? 1 : SCATTERED;
  if (!k && !shuffled) sc->scattered++;
  if (sc->other) {
    const Dim *o = stride_of(sc->em->lc, sc->st, d, sc->other);
    if (o && dim_is_const(o, &v) && v == 1) sc->unit_other = true;
  }
}
static void score_load(const Expr *load, void *ctx) {
  score_access(ctx, load->buf, load->arg);
}

static bool count_operation(const Expr *e, void *ctx) {
  uint32_t *n = ctx;
  *n += e->n && e->kind != EXPR_LOAD;
  return true;
}

/* Whether so much is computed per access that lanes gain though they gather. */
static bool computes_much(const Score *sc) {
  uint32_t n = 0;
  if (sc->scattered) expr_walk(sc->st->value, count_operation, &n);
  return n >= PER_GATHER * sc->scattered;
}

/* How well st vectorises over v: contiguous accesses count for, strided ones against. */
int32_t axes_score(Emit *em, const Stage *st, const Axis *ax) {
  Score sc = {.em = em, .st = st, .v = ax->var};
  expr_loads(st->value, score_load, &sc);
  const Temp *t = map_getp(&em->temps, st->out);
  if (t->in_memory || t->inner) score_access(&sc, st->out, st->oidx);
  if (computes_much(&sc)) sc.score += (SCATTERED - 1) * (int32_t)sc.scattered;
  int64_t e;
  if (expr_const_int(em->c, ax->extent, &e)) {
    if (e < 2) return -1000;
    if (e < 4) sc.score -= 8;
  }
  return sc.score;
}

uint32_t stage_lanes(Emit *em, const Stage *st) {
  Group one = {.stages = (Stage *[]){(Stage *)st}, .n = 1};
  DType wide, narrow;
  group_types(em->s, &one, &wide, &narrow);
  return variant_lanes(em->s->v, wide);
}

/* The inner axis that st vectorises over, or -1. */
int32_t axes_best_inner(Emit *em, const Stage *st, const Axis *inner, uint32_t n, uint32_t nsp,
                        int32_t *score) {
  int32_t best = -1;
  *score = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i >= nsp && !red_any_order(st->red)) continue;
    int32_t sc = axes_score(em, st, &inner[i]);
    int64_t e; /* few lanes, and a sum over them for each element */
    if (i >= nsp && expr_const_int(em->c, inner[i].extent, &e) && e < (int64_t)stage_lanes(em, st))
      sc -= 12;
    if (sc > *score || (best < 0 && sc > -3 && sc > -1000)) {
      best = (int32_t)i;
      *score = sc;
    }
  }
  return best;
}

/* An outer axis that a strided load is contiguous in: running it inside the chunks of v reuses the
 * lines that a gather touches (transposes). */
int32_t axes_transposed(Emit *em, uint32_t v) {
  const Group *g = em->g;
  if (g->n != 1 || g->stages[0]->naxes != g->stages[0]->nspatial) return -1;
  for (uint32_t o = 0; o < g->nouter; o++) {
    if (o == v) continue;
    Score sc = {.em = em, .st = g->stages[0], .v = g->outer[v].var, .other = g->outer[o].var};
    expr_loads(g->stages[0]->value, score_load, &sc);
    if (sc.unit_other) return (int32_t)o;
  }
  return -1;
}

/* ---- the order of the loops ---- */

/* The load that reads most, and how many bytes, of which sizes that aren't known are long. */
typedef struct {
  Context *c;
  const Stage *st;
  const Expr *load;
  int64_t bytes;
} Largest;

static void find_largest(const Expr *load, void *ctx) {
  Largest *x = ctx;
  int64_t bytes = (int64_t)dtype_bytes(load->dtype), e;
  for (uint32_t i = 0; i < x->st->naxes; i++) {
    bool used = false;
    for (uint32_t d = 0; d < load->n; d++) used |= expr_uses_var(load->arg[d], x->st->axes[i].var);
    if (!used) continue;
    if (!expr_const_int(x->c, x->st->axes[i].extent, &e)) e = UNKNOWN_SIZE;
    if (e < 1) e = 1;
    bytes = bytes > INT64_MAX / e ? INT64_MAX : bytes * e;
  }
  if (x->load && bytes <= x->bytes) return;
  x->load = load;
  x->bytes = bytes;
}

void axes_as_they_lie(Emit *em, Axis *loops, uint32_t n) {
  const Stage *st = em->g->stages[0];
  Axis inner[MAX_AXES];
  int64_t stride[MAX_AXES];
  uint32_t nsp;
  if (st->red == RED_NONE) return;
  for (uint32_t i = 1; i < em->g->n; i++)
    if (stage_inner_axes(em->g, em->g->stages[i], inner, &nsp)) return;
  Largest most = {.c = em->c, .st = st};
  expr_loads(st->value, find_largest, &most);
  if (!most.load || most.bytes < FAR_BYTES) return;
  const Dim *at = flat_offset(em->lc, most.load->buf, most.load->arg);
  for (uint32_t i = 0; i < n; i++) {
    const Dim *d = stride_of(em->lc, st, at, loops[i].var);
    if (!d || !dim_is_const(d, &stride[i]) || stride[i] < 0) return;
  }
  for (uint32_t i = 1; i < n; i++)
    for (uint32_t k = i; k > 0 && stride[k - 1] < stride[k]; k--) {
      Axis axis = loops[k];
      int64_t step = stride[k];
      loops[k] = loops[k - 1];
      stride[k] = stride[k - 1];
      loops[k - 1] = axis;
      stride[k - 1] = step;
    }
}
