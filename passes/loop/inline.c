/* Injective producers move into what reads them.
 *
 *   before: T[i, j] = x[i, j] - m[i];  y[i, j] = exp(T[i, j])
 *   after:  y[i, j] = exp(x[i, j] - m[i])
 *
 * Only where it pays: the value is cheap, or each element is read once. A contraction keeps its
 * plain operands: only copies (transposes, slices, reshapes) are inlined into one.
 */
#include "passes/loop/schedule.h"

#define CHEAP 6
#define HEAVY_CALL 8
#define MAX_COST 400

typedef struct {
  uint32_t cost;
  bool lazy;
} Cost;

static bool count_cost(const Expr *e, void *ctx) {
  Cost *k = ctx;
  switch ((ExprKind)e->kind) {
  case EXPR_INT:
  case EXPR_FLOAT:
  case EXPR_VAR: break;
  case EXPR_CALL:
    if (e->intrin == INTRIN_if_then_else) k->lazy = true;
    k->cost +=
        e->intrin == INTRIN_if_then_else || e->intrin == INTRIN_fabs || e->intrin == INTRIN_abs
            ? 1
            : HEAVY_CALL;
    break;
  case EXPR_DIV: k->cost += 4; break;
  default: k->cost++;
  }
  return true;
}

typedef struct {
  const Buffer *buf;
  const Expr *first;
  uint32_t n;
} Reads;
static void note_read(const Expr *load, void *ctx) {
  Reads *r = ctx;
  if (load->buf != r->buf) return;
  if (!r->n) r->first = load;
  r->n++;
}

typedef struct {
  Sched *s;
  const Stage *p;
} Inline;

static const Expr *replace_load(Context *c, const Expr *e, void *ctx) {
  Inline *in = ctx;
  const Stage *p = in->p;
  if (e->kind != EXPR_LOAD || e->buf != p->out) return e;
  Map m;
  map_init(&m, in->s->tmp);
  for (uint32_t j = 0; j < p->naxes; j++) map_setp(&m, p->axes[j].var, (void *)i64(c, 0));
  for (uint32_t j = 0; j < p->out->ndim; j++)
    if (p->oaxis[j] >= 0) map_setp(&m, p->axes[p->oaxis[j]].var, (void *)e->arg[j]);
  return subst_vars(c, &m, p->value);
}

typedef struct {
  const Var *data;
  bool hit;
} Use1;
static void use_data(const Var *data, void *ctx) {
  Use1 *u = ctx;
  if (data == u->data) u->hit = true;
}
static bool opaque_uses(Sched *s, const Item *it, const Buffer *b) {
  (void)s;
  Use1 u = {b->data, false};
  stmt_each_data(it->opaque, use_data, &u);
  return u.hit;
}

/* Whether reading p->out in consumer `k` may compute the value in place. */
static bool worth(Sched *s, const Stage *p, const Stage *k, const Cost *cost, uint32_t nconsumers) {
  Reads r = {p->out, NULL, 0};
  expr_loads(k->value, note_read, &r);
  if (stage_is_contraction(s, k)) return p->value->kind == EXPR_LOAD;
  if (cost->cost <= 1) return true;
  if (k->red != RED_NONE && cost->lazy) return false;
  if (cost->cost <= (nconsumers > 1 ? CHEAP / 2 : CHEAP) && !cost->lazy) {
    Cost have = {0, false};
    expr_walk(k->value, count_cost, &have);
    return have.cost + cost->cost <= MAX_COST;
  }
  if (nconsumers > 1 || r.n > 1) return false;
  /* each element read once: every axis of the consumer occurs in the index */
  for (uint32_t i = 0; i < k->naxes; i++) {
    bool in = expr_is_int(k->axes[i].extent, 1);
    for (uint32_t j = 0; !in && j < r.first->n; j++)
      in = expr_uses_var(r.first->arg[j], k->axes[i].var);
    if (!in) return false;
  }
  return true;
}

/* Whether item i is the element for element continuation of a contraction: there its value is
 * computed once, in registers. */
static bool is_epilogue(Sched *s, uint32_t i) {
  const Stage *p = s->items.at[i].stage;
  for (uint32_t k = i; k-- > 0;) {
    const Stage *st = s->items.at[k].stage;
    if (!st || !stage_reads(p, st->out)) continue;
    Reads r = {st->out, NULL, 0};
    expr_loads(p->value, note_read, &r);
    if (!stage_is_contraction(s, st) || r.first->n != p->out->ndim) return false;
    for (uint32_t d = 0; d < r.first->n; d++)
      if (r.first->arg[d] != p->oidx[d]) return false;
    return true;
  }
  return false;
}

void stages_inline(Sched *s) {
  if (!s->simple) return;
  for (uint32_t i = 0; i < s->items.n; i++) {
    Stage *p = s->items.at[i].stage;
    if (!p || p->red != RED_NONE || !p->covers || !map_hasp(&s->local, p->out)) continue;
    Cost cost = {0, false};
    expr_walk(p->value, count_cost, &cost);
    uint32_t n = 0;
    bool ok = true;
    for (uint32_t k = i + 1; ok && k < s->items.n; k++) {
      const Item *it = &s->items.at[k];
      if (it->opaque)
        ok = !opaque_uses(s, it, p->out);
      else
        n += stage_reads(it->stage, p->out);
    }
    for (uint32_t k = i + 1; ok && k < s->items.n; k++) {
      const Stage *st = s->items.at[k].stage;
      if (st && stage_reads(st, p->out)) ok = worth(s, p, st, &cost, n);
    }
    if (!ok || !n || (n > 1 && is_epilogue(s, i))) continue;
    for (uint32_t k = i + 1; k < s->items.n; k++) {
      Stage *st = s->items.at[k].stage;
      if (!st || !stage_reads(st, p->out)) continue;
      Inline in = {s, p};
      st->value = stage_simplify(s, st, expr_rewrite(s->c, st->value, replace_load, &in));
    }
    p->dead = true;
  }
  uint32_t w = 0;
  for (uint32_t i = 0; i < s->items.n; i++)
    if (!s->items.at[i].stage || !s->items.at[i].stage->dead) s->items.at[w++] = s->items.at[i];
  s->items.n = w;
  /* what must exist in memory for nests that stay as written */
  for (uint32_t i = 0; i < s->items.n; i++)
    if (s->items.at[i].opaque)
      for (uint32_t j = 0; j < s->root->nallocs; j++)
        if (opaque_uses(s, &s->items.at[i], s->root->allocs[j]))
          map_setp(&s->outside, s->root->allocs[j], s->root->allocs[j]);
}
