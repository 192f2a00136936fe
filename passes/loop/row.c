/* Loops for groups of stages.
 *
 * The group's outer loops surround all stages. One axis runs over vector lanes: an outer one when
 * it is contiguous in most accesses (each lane is then an element, or a column), else each stage
 * vectorises an inner axis of its own (a row).
 *
 * The main loop takes four vectors at a time, the rest is done under a lane mask, or in single
 * vectors and scalars where masks are slow. Reductions keep one accumulator of four vectors: its
 * order is fixed, so the result doesn't depend on anything but the instruction set.
 */
#include "passes/loop/emit.h"

#define PARALLEL_WORK (32 * 1024)

/* ---- chunks of a vector axis ---- */

typedef void (*ChunkFn)(Emit *em, const Lanes *ln, StmtVec *out, void *ctx);

static const Expr *mul_add(Context *c, const Expr *a, int64_t k, const Expr *b) {
  const Expr *m = expr_mul(c, a, i64(c, k));
  return expr_simplify(c, b ? expr_add(c, m, b) : m);
}

/* Work of one iteration, to decide about parallel loops: the constant extents around. */
static int64_t static_work(Emit *em, const Stage *st, const Var *skip) {
  int64_t w = 1;
  for (uint32_t i = 0; i < st->naxes; i++) {
    int64_t e;
    if (st->axes[i].var == skip) continue;
    if (!expr_const_int(em->c, st->axes[i].extent, &e)) e = 64;
    if (e > 0 && w < (1 << 30)) w *= e;
  }
  return w;
}

/* fn for all of ax: full * unroll lanes at a time, then the rest. unroll 0: only chunks of `full`
 * lanes or scalars. */
static void emit_chunks(Emit *em, const Axis *ax, uint32_t full, uint32_t unroll, int64_t grain,
                        Span span, ChunkFn fn, void *ctx, StmtVec *out) {
  Context *c = em->c;
  int64_t n = -1;
  bool known = expr_const_int(c, ax->extent, &n);
  bool fixed = unroll == 0;
  uint32_t wide = full * (fixed ? 1 : unroll);
  emit_bind(em, ax->var, ax->var->expr);
  if (known)
    while (wide > full && (int64_t)wide > n) wide /= 2;
  if (known && !em->use_mask)
    while (wide > 1 && (int64_t)wide > n) wide /= 2;
  const Expr *count =
      known ? i64(c, n / wide) : expr_simplify(c, expr_floordiv(c, ax->extent, i64(c, wide)));
  const Expr *start = mul_add(c, count, wide, NULL);
  if (!known || n >= wide) {
    Var *v = loop_var(c, ax->var->name);
    StmtVec body = {0};
    Lanes ln = {ax->var, mul_add(c, v->expr, wide, NULL), wide, NULL};
    if (wide == 1) {
      ln = (Lanes){NULL, NULL, 1, NULL};
      emit_bind(em, ax->var, v->expr);
    }
    fn(em, &ln, &body, ctx);
    Stmt *loop = loop_of(em->lc, span, v, count, FOR_SERIAL, seq_of(em->a, &body));
    if (grain && loop && loop->kind == STMT_FOR)
      loop_set_parallel(em->lc, loop, grain / wide > 0 ? grain / wide : 1);
    if (loop) vec_push(em->tmp, out, loop);
  }
  if (known && n % wide == 0) return;
  if (em->use_mask) {
    uint32_t lanes = full;
    int64_t rest = known ? n % wide : wide;
    while (!fixed && lanes > 2 && lanes / 2 >= rest) lanes /= 2;
    emit_bind(em, ax->var, ax->var->expr);
    const Expr *tail = expr_ceildiv(c, expr_sub(c, ax->extent, start), lanes);
    Var *v = loop_var(c, ax->var->name);
    const Expr *base = mul_add(c, v->expr, lanes, start);
    StmtVec body = {0};
    int64_t one;
    if (expr_const_int(c, tail, &one) && one == 1) base = start;
    Lanes ln = {ax->var, base, lanes, lane_mask(c, base, ax->extent, lanes)};
    fn(em, &ln, &body, ctx);
    Stmt *loop = loop_of(em->lc, span, v, tail, FOR_SERIAL, seq_of(em->a, &body));
    if (loop) vec_push(em->tmp, out, loop);
    return;
  }
  if (wide > full && (!known || n % wide >= full)) { /* single vectors */
    Var *v = loop_var(c, ax->var->name);
    const Expr *rest = expr_sub(c, ax->extent, start);
    const Expr *some = expr_simplify(c, expr_floordiv(c, rest, i64(c, full)));
    StmtVec body = {0};
    emit_bind(em, ax->var, ax->var->expr);
    Lanes ln = {ax->var, mul_add(c, v->expr, full, start), full, NULL};
    fn(em, &ln, &body, ctx);
    Stmt *loop = loop_of(em->lc, span, v, some, FOR_SERIAL, seq_of(em->a, &body));
    if (loop) vec_push(em->tmp, out, loop);
    start = mul_add(c, some, full, start);
  }
  if (known && full > 1 && n % full == 0) return;
  Var *v = loop_var(c, ax->var->name);
  emit_bind(em, ax->var, expr_simplify(c, expr_add(c, start, v->expr)));
  StmtVec body = {0};
  Lanes none = {NULL, NULL, 1, NULL};
  fn(em, &none, &body, ctx);
  Stmt *loop = loop_of(em->lc, span, v, expr_simplify(c, expr_sub(c, ax->extent, start)),
                       FOR_SERIAL, seq_of(em->a, &body));
  if (loop) vec_push(em->tmp, out, loop);
}

/* ---- one stage ---- */

static const Expr *zero_index(Context *c) {
  return i64(c, 0);
}

static Buffer *accumulator(Emit *em, const Stage *st, DType d, StmtVec *out) {
  Context *c = em->c;
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, 1);
  shape[0] = i64(c, 1);
  Buffer *b = buffer_create(c, "acc", d, shape, 1, "local");
  vec_push(em->tmp, out, stmt_alloc(em->a, st->span, b));
  return b;
}

/* acc[0] op= value under lanes. */
static Stmt *accumulate(Emit *em, const Stage *st, const Lanes *ln, Buffer *acc, const Expr *keep,
                        const Expr *identity) {
  Context *c = em->c;
  const Expr *zero = zero_index(c), *old = expr_load(c, acc, &zero, 1);
  const Expr *e = emit_prepare(em, st->value);
  const Expr *next;
  if (st->red == RED_OTHER) {
    Temp self = {.place = st->acc, .value = old};
    map_setp(&em->temps, st->acc, &self);
    next = emit_value(em, ln, e);
    map_setp(&em->temps, st->acc, ARENA_NEW(em->tmp, Temp));
  } else {
    next = emit_value(em, ln, e);
    if (keep) next = expr_select(c, keep, next, expr_broadcast(c, identity, ln->lanes));
    next = red_combine(c, st, old, next);
  }
  return stmt_store(em->a, st->span, acc, &zero, next);
}

/* Loops over axes[0..n) around `body` (variables bound already in em->fixed). */
static Stmt *wrap_loops(Emit *em, const Stage *st, const Axis *axes, Var *const *vars, uint32_t n,
                        Stmt *body, bool unroll) {
  for (uint32_t i = n; body && i-- > 0;) {
    int64_t e;
    ForKind k =
        unroll && expr_const_int(em->c, axes[i].extent, &e) && e <= 8 ? FOR_UNROLL : FOR_SERIAL;
    body = loop_of(em->lc, st->span, vars[i], axes[i].extent, k, body);
  }
  return body;
}

static void bind_fresh(Emit *em, const Axis *axes, Var **vars, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    vars[i] = loop_var(em->c, axes[i].var->name);
    emit_bind(em, axes[i].var, vars[i]->expr);
  }
}

/* All spatial axes are bound (or the lanes): the reduction loops, then the result. */
static void emit_point(Emit *em, const Stage *st, const Lanes *ln, const Axis *red, uint32_t nred,
                       StmtVec *out) {
  Context *c = em->c;
  if (st->red == RED_NONE) {
    emit_result(em, st, ln, emit_value(em, ln, emit_prepare(em, st->value)), out);
    return;
  }
  DType d = ln->var ? dtype_lanes(st->out->dtype, ln->lanes) : st->out->dtype;
  Buffer *acc = accumulator(em, st, d, out);
  const Expr *zero = zero_index(c);
  const Expr *init = emit_value(em, ln, emit_prepare(em, st->init));
  vec_push(em->tmp, out, stmt_store(em->a, st->span, acc, &zero, init));
  Var *vars[MAX_AXES] = {0};
  bind_fresh(em, red, vars, nred);
  int64_t total = 1, e;
  for (uint32_t i = 0; i < nred; i++)
    total = expr_const_int(c, red[i].extent, &e) && total <= 64 ? total * e : 1 << 20;
  Stmt *loops =
      wrap_loops(em, st, red, vars, nred, accumulate(em, st, ln, acc, NULL, NULL), total <= 25);
  if (loops) vec_push(em->tmp, out, loops);
  emit_result(em, st, ln, expr_load(c, acc, &zero, 1), out);
}

typedef struct {
  const Stage *st;
  Buffer *acc, *scalar;
  const Expr *identity;
} Horizontal;

static void horizontal_chunk(Emit *em, const Lanes *ln, StmtVec *out, void *ctx) {
  Horizontal *h = ctx;
  if (!ln->var) {
    vec_push(em->tmp, out, accumulate(em, h->st, ln, h->scalar, NULL, NULL));
    return;
  }
  vec_push(em->tmp, out, accumulate(em, h->st, ln, h->acc, ln->mask, h->identity));
}

/* Reduction over lanes of its own axis red[x]. */
static void emit_horizontal(Emit *em, const Stage *st, const Axis *red, uint32_t nred, uint32_t x,
                            StmtVec *out) {
  Context *c = em->c;
  DType d = st->out->dtype;
  const Expr *zero = zero_index(c), *init = emit_value(em, &(Lanes){0}, emit_prepare(em, st->init));
  const Expr *identity = red_identity(c, st->red, d);
  if (!identity) identity = init;
  uint32_t full = stage_lanes(em, st), wide = full * 4;
  int64_t n;
  bool known = expr_const_int(c, red[x].extent, &n);
  while (known && wide > 2 && wide / 2 >= n) wide /= 2;
  if (known && !em->use_mask)
    while (wide > 2 && wide > n) wide /= 2;
  Horizontal h = {.st = st, .identity = identity};
  h.acc = accumulator(em, st, dtype_lanes(d, wide), out);
  vec_push(em->tmp, out,
           stmt_store(em->a, st->span, h.acc, &zero, expr_broadcast(c, identity, wide)));
  h.scalar = accumulator(em, st, d, out);
  vec_push(em->tmp, out, stmt_store(em->a, st->span, h.scalar, &zero, init));
  Axis others[MAX_AXES] = {0};
  Var *vars[MAX_AXES] = {0};
  uint32_t no = 0;
  for (uint32_t i = 0; i < nred; i++)
    if (i != x) others[no++] = red[i];
  bind_fresh(em, others, vars, no);
  StmtVec body = {0};
  /* one width throughout, so that one accumulator serves */
  emit_chunks(em, &red[x], wide, 0, 0, st->span, horizontal_chunk, &h, &body);
  Stmt *loops = body.n ? wrap_loops(em, st, others, vars, no, seq_of(em->a, &body), false) : NULL;
  if (loops) vec_push(em->tmp, out, loops);
  IntrinId f = st->red == RED_ADD   ? INTRIN_vector_reduce_add
               : st->red == RED_MAX ? INTRIN_vector_reduce_max
                                    : INTRIN_vector_reduce_min;
  const Expr *arg = expr_load(c, h.acc, &zero, 1);
  const Expr *sum = expr_call(c, f, d, &arg, 1);
  emit_result(em, st, &(Lanes){0}, red_combine(c, st, expr_load(c, h.scalar, &zero, 1), sum), out);
}

typedef struct {
  const Stage *st;
  const Axis *red;
  uint32_t nred;
} Point;
static void point_chunk(Emit *em, const Lanes *ln, StmtVec *out, void *ctx) {
  Point *p = ctx;
  emit_point(em, p->st, ln, p->red, p->nred, out);
}

/* ---- what the inner loops don't change ---- */

typedef struct {
  Emit *em;
  const Lanes *ln;
  const Axis *inner;
  uint32_t n;
  StmtVec *out;
  Map memo;
  bool changed;
} Hoist;

typedef struct {
  Emit *em;
  bool heavy, load;
} Weight;
static bool weigh(const Expr *e, void *ctx) {
  Weight *w = ctx;
  if (e->kind == EXPR_DIV || e->kind == EXPR_CALL) w->heavy = true;
  if (e->kind == EXPR_LOAD) {
    const Temp *t = map_getp(&w->em->temps, e->buf);
    if (!t || t->inner || !t->value) w->load = true;
  }
  return true;
}

/* Divisions and calls on registers of the row become registers before the inner loops. */
static const Expr *hoist(Hoist *h, const Expr *e) {
  Context *c = h->em->c;
  if (!e->n || e->kind == EXPR_LOAD) return e;
  const Expr *r = map_getp(&h->memo, e);
  if (r) return r;
  Weight w = {h->em, false, false};
  bool fixed = true;
  for (uint32_t i = 0; i < h->n; i++) fixed &= !expr_uses_var(e, h->inner[i].var);
  expr_walk(e, weigh, &w);
  r = e;
  if (fixed && w.heavy && !w.load && dtype_is_float(e->dtype)) {
    const Expr *value = emit_value(h->em, h->ln, emit_prepare(h->em, e));
    Temp *t = ARENA_NEW(h->em->tmp, Temp);
    Var *reg = var_create(c, "t", value->dtype);
    t->place = var_create(c, "t", e->dtype);
    t->value = reg->expr;
    vec_push(h->em->tmp, h->out, stmt_let(h->em->a, h->em->g->stages[0]->span, reg, value));
    map_setp(&h->em->temps, t->place, t);
    h->changed = true;
    r = t->place->expr;
  } else if (w.heavy) {
    const Expr **args = ARENA_ARRAY(h->em->tmp, const Expr *, e->n);
    bool same = true;
    for (uint32_t i = 0; i < e->n; i++) {
      args[i] = hoist(h, e->arg[i]);
      same &= args[i] == e->arg[i];
    }
    if (!same) r = expr_with_args(c, e, args);
  }
  map_setp(&h->memo, e, (void *)r);
  return r;
}

static void emit_stage(Emit *em, const Stage *st, const Lanes *ln, StmtVec *out) {
  Axis inner[MAX_AXES] = {0};
  uint32_t nsp, n = stage_inner_axes(em->g, st, inner, &nsp);
  n = axes_collapse_reduction(em, st, inner, nsp, n);
  Stage copy;
  if (n) {
    Hoist h = {.em = em, .ln = ln, .inner = inner, .n = n, .out = out};
    map_init(&h.memo, em->tmp);
    const Expr *value = hoist(&h, st->value);
    if (h.changed) {
      copy = *st;
      copy.value = value;
      st = &copy;
    }
  }
  int32_t x = -1, score;
  if (!ln->var && em->inner_vec) x = axes_best_inner(em, st, inner, n, nsp, &score);
  uint32_t full = x >= 0 ? stage_lanes(em, st) : 1;
  if (full < 2) x = -1;
  Axis loops[MAX_AXES] = {0};
  Var *vars[MAX_AXES] = {0};
  uint32_t nl = 0;
  for (uint32_t i = 0; i < nsp; i++)
    if ((int32_t)i != x) loops[nl++] = inner[i];
  bind_fresh(em, loops, vars, nl);
  StmtVec body = {0};
  if (x >= (int32_t)nsp) {
    emit_horizontal(em, st, inner + nsp, n - nsp, (uint32_t)x - nsp, &body);
  } else if (x >= 0) {
    Point p = {st, inner + nsp, n - nsp};
    emit_chunks(em, &inner[x], full, 4, 0, st->span, point_chunk, &p, &body);
  } else {
    emit_point(em, st, ln, inner + nsp, n - nsp, &body);
  }
  if (!body.n) return;
  if (!nl) {
    for (uint32_t i = 0; i < body.n; i++) vec_push(em->tmp, out, body.at[i]);
    return;
  }
  Stmt *w = wrap_loops(em, st, loops, vars, nl, seq_of(em->a, &body), false);
  if (w) vec_push(em->tmp, out, w);
}

/* ---- the group ---- */

typedef struct {
  const Axis *inside; /* outer loop that runs inside the chunks, or NULL */
} Body;

static void body_chunk(Emit *em, const Lanes *ln, StmtVec *out, void *ctx) {
  const Body *b = ctx;
  em->now = *ln;
  StmtVec body = {0};
  Var *v = NULL;
  if (b->inside) {
    v = loop_var(em->c, b->inside->var->name);
    emit_bind(em, b->inside->var, v->expr);
  }
  emit_rows(em, ln->var ? ln->lanes : 1, &body);
  for (uint32_t i = 0; i < em->temps.n; i++) ((Temp *)em->temps.entries[i].value)->value = NULL;
  for (uint32_t i = 0; i < em->g->n; i++) emit_stage(em, em->g->stages[i], ln, &body);
  em->now = (Lanes){0};
  if (!b->inside) {
    for (uint32_t i = 0; i < body.n; i++) vec_push(em->tmp, out, body.at[i]);
    return;
  }
  Stmt *loop = loop_of(em->lc, em->g->stages[0]->span, v, b->inside->extent, FOR_SERIAL,
                       seq_of(em->a, &body));
  if (loop) vec_push(em->tmp, out, loop);
}

/* A long reduction over rows with the columns in lanes: wide chunks, since every row is another
 * page. */
static bool sums_columns(Emit *em, const Group *g) {
  const Stage *st = g->stages[0];
  if (st->red == RED_NONE || st->value->kind != EXPR_LOAD) return false;
  for (uint32_t i = 1; i < g->n; i++)
    if (g->stages[i]->naxes != g->stages[i]->nspatial) return false;
  int64_t n = 1, e;
  for (uint32_t i = st->nspatial; i < st->naxes; i++)
    n = expr_const_int(em->c, st->axes[i].extent, &e) && n < 4096 ? n * e : 4096;
  return n >= 64;
}

void group_emit(Sched *s, Group *g, StmtVec *out) {
  Emit em;
  emit_init(&em, s, g);
  Context *c = s->c;
  emit_collapse(&em);
  emit_borrow(&em);
  /* the vector axis */
  int32_t best = -1, best_score = -1000, inner_score = 0;
  bool any_inner = false;
  for (uint32_t o = 0; o < g->nouter; o++) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < g->n; i++) {
      Axis inner[MAX_AXES] = {0};
      uint32_t nsp;
      int32_t w = stage_inner_axes(g, g->stages[i], inner, &nsp) ? 4 : 1;
      int32_t sc = axes_score(&em, g->stages[i], &g->outer[o]);
      sum = sc <= -1000 || sum <= -1000 ? -1000 : sum + sc * w;
    }
    if (sum >= best_score && sum > -1000) {
      best = (int32_t)o;
      best_score = sum;
    }
  }
  for (uint32_t i = 0; i < g->n; i++) {
    Axis inner[MAX_AXES] = {0};
    uint32_t nsp, n = stage_inner_axes(g, g->stages[i], inner, &nsp);
    int32_t sc;
    if (!n) continue;
    if (axes_best_inner(&em, g->stages[i], inner, n, nsp, &sc) >= 0) any_inner = true;
    inner_score += 4 * sc;
  }
  DType wide, narrow;
  group_types(s, g, &wide, &narrow);
  uint32_t full = variant_lanes(s->v, wide);
  for (uint32_t i = 0; i < g->n; i++)
    if (!vec_possible(g->stages[i]->value)) full = 1;
  bool over_outer =
      best >= 0 && full > 1 && best_score > -8 && !(any_inner && inner_score >= best_score);
  em.inner_vec = !over_outer && full > 1;
  loop_remark(s->lc, g->stages[0]->span, "%u stage%s in one loop nest, %s", g->n,
              g->n == 1 ? "" : "s",
              full < 2     ? "scalar"
              : over_outer ? "lanes over a common axis"
              : any_inner  ? "lanes over the inner axes"
                           : "scalar: no contiguous axis");
  const Axis *vec = over_outer ? &g->outer[best] : NULL;
  int32_t inside = over_outer ? axes_transposed(&em, (uint32_t)best) : -1;
  Axis loops[MAX_AXES] = {0};
  Var *vars[MAX_AXES] = {0};
  uint32_t nl = 0;
  for (uint32_t o = 0; o < g->nouter; o++)
    if ((int32_t)o != inside && !(over_outer && (int32_t)o == best)) loops[nl++] = g->outer[o];
  bind_fresh(&em, loops, vars, nl);
  int64_t work = 0;
  for (uint32_t i = 0; i < g->n; i++) work += static_work(&em, g->stages[i], NULL);
  bool parallel = work >= PARALLEL_WORK;
  for (uint32_t i = 0; i < g->nouter; i++) {
    int64_t e;
    if (!expr_const_int(c, g->outer[i].extent, &e)) parallel = true;
  }
  StmtVec body = {0};
  Body b = {inside >= 0 ? &g->outer[inside] : NULL};
  Span span = g->stages[0]->span;
  if (inside >= 0 && transpose_emit(&em, vec, &g->outer[inside], &body)) {
    /* done */
  } else if (vec) {
    int64_t per = 0;
    for (uint32_t i = 0; i < g->n; i++) per += static_work(&em, g->stages[i], vec->var);
    int64_t grain = parallel && !nl ? PARALLEL_WORK / 2 / (per > 0 ? per : 1) + 1 : 0;
    uint32_t unroll = inside >= 0 ? 1 : sums_columns(&em, g) ? s->v->vector_regs / 2 : 4;
    emit_chunks(&em, vec, full, unroll, grain, span, body_chunk, &b, &body);
  } else {
    body_chunk(&em, &(Lanes){0}, &body, &b);
  }
  if (!body.n) return;
  Stmt *st = seq_of(s->a, &body);
  for (uint32_t i = nl; st && i-- > 0;) {
    st = loop_of(s->lc, span, vars[i], loops[i].extent, FOR_SERIAL, st);
    if (i == 0 && parallel && st && st->kind == STMT_FOR) {
      int64_t per = 0;
      for (uint32_t k = 0; k < g->n; k++) per += static_work(&em, g->stages[k], loops[0].var);
      loop_set_parallel(s->lc, st, PARALLEL_WORK / 2 / (per > 0 ? per : 1) + 1);
    }
  }
  if (st) vec_push(s->tmp, out, st);
}
