/* Loops for groups of stages.
 *
 * The group's outer loops surround all stages. One axis runs over vector lanes: an outer one when
 * it is contiguous in most accesses (each lane is then an element, or a column), else each stage
 * vectorises an inner axis of its own (a row). A temporary whose writer has no inner axes is a
 * register; one that only a row of exists at a time is a small buffer; else it is in memory.
 *
 * The main loop takes four vectors at a time, the rest is done under a lane mask, or in single
 * vectors and scalars where masks are slow. Reductions keep one accumulator of four vectors: its
 * order is fixed, so the result doesn't depend on anything but the instruction set.
 */
#include "passes/loop/emit.h"

#define ROW_BYTES (16 * 1024)
#define PARALLEL_WORK (32 * 1024)

/* ---- setup ---- */

bool emit_can_mask(const Variant *v, DType d) {
  return v->has_mask || (v->vector_bits >= 256 && d.bits >= 32);
}

typedef struct {
  DType *widest, *narrowest;
} Types;
static void note_type(Types *t, DType d) {
  if (dtype_is_bool(d)) d.bits = 8;
  if (d.bits > t->widest->bits) *t->widest = d;
  if (d.bits < t->narrowest->bits) *t->narrowest = d;
}
static bool note_expr_type(const Expr *e, void *ctx) {
  if (e->kind == EXPR_LOAD || (e->kind == EXPR_CAST && !dtype_is_bool(e->dtype)))
    note_type(ctx, e->dtype);
  return true;
}
void group_types(Sched *s, const Group *g, DType *widest, DType *narrowest) {
  (void)s;
  *widest = DT_U8;
  *narrowest = DT_I64;
  Types t = {widest, narrowest};
  for (uint32_t i = 0; i < g->n; i++) {
    note_type(&t, g->stages[i]->out->dtype);
    expr_walk(g->stages[i]->value, note_expr_type, &t);
  }
}

static bool is_outer(const Group *g, const Var *v) {
  for (uint32_t i = 0; i < g->nouter; i++)
    if (g->outer[i].var == v) return true;
  return false;
}

static bool is_unit(const Axis *a) {
  return expr_is_int(a->extent, 1);
}

/* Axis of the writer that a row of its temporary doesn't extend over. */
static bool not_in_row(const Group *g, const Axis *a) {
  return is_unit(a) || is_outer(g, a->var);
}

/* Inner axes of st: spatial first; returns their number, *nspatial of them spatial. */
static uint32_t inner_axes(const Group *g, const Stage *st, Axis *out, uint32_t *nspatial) {
  uint32_t n = 0;
  *nspatial = 0;
  for (uint32_t i = 0; i < st->naxes; i++) {
    if (is_unit(&st->axes[i]) || is_outer(g, st->axes[i].var)) continue;
    out[n++] = st->axes[i];
    if (i < st->nspatial) ++*nspatial;
  }
  return n;
}

/* Whether anything after the group reads b. */
static bool read_outside(Sched *s, const Group *g, const Buffer *b) {
  if (!map_hasp(&s->local, b) || map_hasp(&s->outside, b)) return true;
  for (uint32_t i = 0; i < s->items.n; i++) {
    const Stage *st = s->items.at[i].stage;
    bool own = false;
    for (uint32_t k = 0; k < g->n; k++) own |= g->stages[k] == st;
    if (st && !own && stage_reads(st, b)) return true;
  }
  return false;
}

void emit_init(Emit *em, Sched *s, Group *g) {
  *em = (Emit){.s = s, .lc = s->lc, .c = s->c, .a = s->a, .tmp = s->tmp, .g = g, .row_lanes = 1};
  map_init(&em->temps, s->tmp);
  map_init(&em->fixed, s->tmp);
  for (uint32_t i = 0; i < g->n; i++) {
    const Stage *st = g->stages[i];
    Axis inner[MAX_AXES] = {0};
    uint32_t nsp;
    inner_axes(g, st, inner, &nsp);
    Temp *t = ARENA_NEW(s->tmp, Temp);
    t->buf = st->out;
    t->writer = st;
    t->inner = nsp > 0;
    t->place = var_create(s->c, st->out->name, st->out->dtype);
    bool plain = s->simple;
    for (uint32_t d = 0; d < st->out->ndim; d++)
      if (st->oaxis[d] < 0 && !expr_is_int(st->oidx[d], 0)) plain = false;
    if (!plain) t->inner = true; /* readers go through memory */
    t->in_memory = !plain || read_outside(s, g, st->out);
    if (t->inner && !t->in_memory) t->in_memory = true; /* unless a row will do: emit_rows */
    map_setp(&em->temps, st->out, t);
  }
  DType wide, narrow;
  group_types(s, g, &wide, &narrow);
  em->use_mask = emit_can_mask(s->v, narrow);
}

void emit_bind(Emit *em, Var *axis, const Expr *value) {
  map_setp(&em->fixed, axis, (void *)value);
}

/* Gives temporaries that only the group reads a buffer of one row. */
static void emit_rows(Emit *em, uint32_t lanes, StmtVec *out) {
  em->row_lanes = lanes;
  for (uint32_t i = 0; i < em->temps.n; i++) {
    Temp *t = em->temps.entries[i].value;
    t->row = NULL;
    if (!t->inner || read_outside(em->s, em->g, t->buf) || !em->s->simple) continue;
    int64_t n = (int64_t)(lanes * dtype_bytes(t->buf->dtype)), e;
    bool ok = true;
    for (uint32_t d = 0; ok && d < t->buf->ndim; d++) {
      int32_t ax = t->writer->oaxis[d];
      if (ax < 0)
        ok = expr_is_int(t->writer->oidx[d], 0) && expr_is_int(t->buf->shape[d], 1);
      else if (!not_in_row(em->g, &t->writer->axes[ax])) {
        ok = expr_const_int(em->c, t->buf->shape[d], &e) && e <= ROW_BYTES;
        if (ok) n *= e;
        if (n > ROW_BYTES) ok = false;
      }
    }
    t->in_memory = !ok;
    if (!ok || n == 0) {
      t->in_memory = true;
      continue;
    }
    const Expr **shape = ARENA_ARRAY(em->c->arena, const Expr *, 1);
    shape[0] = i64(em->c, n / (int64_t)dtype_bytes(t->buf->dtype));
    t->row = buffer_create(em->c, t->buf->name, t->buf->dtype, shape, 1, "global");
    t->row->align = 64;
    vec_push(em->tmp, out, stmt_alloc(em->a, t->writer->span, t->row));
  }
}

/* Offset of an element within the row buffer; the lane axis adds its lane. */
static const Expr *row_offset(Emit *em, const Temp *t, const Expr *const *idx) {
  Context *c = em->c;
  const Dim *d = dim_const(c, 0);
  for (uint32_t i = 0; i < t->buf->ndim; i++) {
    int32_t ax = t->writer->oaxis[i];
    if (ax < 0 || not_in_row(em->g, &t->writer->axes[ax])) continue;
    d = dim_add(c, dim_mul(c, d, expr_dim(c, t->buf->shape[i])), expr_dim(c, idx[i]));
  }
  d = dim_scale(c, d, em->row_lanes);
  if (em->now.var)
    d = dim_add(c, d, dim_sub(c, dim_var(c, em->now.var), expr_dim(c, em->now.base)));
  return dim_expr(c, d, DT_I64);
}

static const Expr *prepare_load(Context *c, const Expr *e, void *ctx) {
  Emit *em = ctx;
  if (e->kind != EXPR_LOAD) return e;
  Temp *t = map_getp(&em->temps, e->buf);
  if (t && !t->inner && t->value) return t->place->expr;
  if (t && t->row) {
    const Expr *idx = row_offset(em, t, e->arg);
    return expr_load(c, t->row, &idx, 1);
  }
  const Expr *idx = dim_expr(c, flat_offset(em->lc, e->buf, e->arg), DT_I64);
  return expr_load(c, flat_view(em->lc, e->buf), &idx, 1);
}

static const Expr *simplify_load(Context *c, const Expr *e, void *ctx) {
  (void)ctx;
  if (e->kind != EXPR_LOAD || e->n != 1 || e->has_pred) return e;
  const Expr *idx = expr_simplify(c, e->arg[0]);
  return idx == e->arg[0] ? e : expr_load(c, e->buf, &idx, 1);
}

const Expr *emit_prepare(Emit *em, const Expr *e) {
  e = expr_rewrite(em->c, e, prepare_load, em);
  e = subst_vars(em->c, &em->fixed, e);
  return expr_rewrite(em->c, e, simplify_load, em);
}

const Expr *emit_value(Emit *em, const Lanes *ln, const Expr *e) {
  Map scalars;
  map_init(&scalars, em->tmp);
  for (uint32_t i = 0; i < em->temps.n; i++) {
    const Temp *t = em->temps.entries[i].value;
    if (t->value && t->value->dtype.lanes == 1) map_setp(&scalars, t->place, (void *)t->value);
  }
  if (scalars.n) e = subst_vars(em->c, &scalars, e);
  if (!ln->var) return e;
  Vec v;
  vec_init(&v, em->c, em->tmp, ln->var, ln->base, ln->lanes, ln->mask);
  for (uint32_t i = 0; i < em->temps.n; i++) {
    const Temp *t = em->temps.entries[i].value;
    if (t->value && t->value->dtype.lanes > 1) map_setp(&v.lets, t->place, (void *)t->value);
  }
  const Expr *r = vec_full(&v, e);
  if (v.failed) {
    em->lc->failed = true;
    bug("an expression of a stage has no vector form");
  }
  return r;
}

void emit_store(Emit *em, const Stage *st, const Lanes *ln, Buffer *buf, const Expr *off,
                const Expr *value, StmtVec *out) {
  off = expr_simplify(em->c, subst_vars(em->c, &em->fixed, off));
  Stmt *s = stmt_store(em->a, st->span, buf, &off, value);
  if (ln->var) {
    Vec v;
    vec_init(&v, em->c, em->tmp, ln->var, ln->base, ln->lanes, ln->mask);
    const Expr *at = vec_position(&v, off);
    if (at->dtype.lanes == 1) bug("lanes of a stage store to one place");
    s = stmt_store(em->a, st->span, buf, &at, value);
    s->store.pred = ln->mask;
  }
  vec_push(em->tmp, out, s);
}

void emit_result(Emit *em, const Stage *st, const Lanes *ln, const Expr *value, StmtVec *out) {
  Temp *t = map_getp(&em->temps, st->out);
  if (!t->inner) {
    Var *r = var_create(em->c, st->out->name, value->dtype);
    vec_push(em->tmp, out, stmt_let(em->a, st->span, r, value));
    t->value = r->expr;
    value = r->expr;
  }
  if (t->row) emit_store(em, st, ln, t->row, row_offset(em, t, st->oidx), value, out);
  if (t->in_memory && !t->row)
    emit_store(em, st, ln, flat_view(em->lc, st->out),
               dim_expr(em->c, flat_offset(em->lc, st->out, st->oidx), DT_I64), value, out);
}

/* ---- choice of the vector axis ---- */

typedef struct {
  Emit *em;
  const Stage *st;
  const Var *v;
  int32_t score;
  bool unit_other; /* some load that strides over v is contiguous in `other` */
  const Var *other;
} Score;

static void score_access(Score *sc, const Buffer *b, const Expr *const *idx) {
  const Temp *t = map_getp(&sc->em->temps, b);
  if (t && !t->inner && t->buf != sc->st->out) return;
  Context *c = sc->em->c;
  const Dim *d = flat_offset(sc->em->lc, b, idx);
  const Dim *k = stride_of(sc->em->lc, sc->st, d, sc->v);
  int64_t v;
  if (k && dim_is_const(k, &v) && v == 0) return;
  if (k && dim_is_const(k, &v) && v == 1) {
    sc->score += 4;
    return;
  }
  sc->score -= k && dim_is_const(k, &v) && v == 2 ? 1 : 6;
  if (sc->other) {
    const Dim *o = stride_of(sc->em->lc, sc->st, d, sc->other);
    if (o && dim_is_const(o, &v) && v == 1) sc->unit_other = true;
  }
  (void)c;
}
static void score_load(const Expr *load, void *ctx) {
  score_access(ctx, load->buf, load->arg);
}

/* How well st vectorises over v: contiguous accesses count for, strided ones against. */
static int32_t score_axis(Emit *em, const Stage *st, const Axis *ax) {
  Score sc = {.em = em, .st = st, .v = ax->var};
  expr_loads(st->value, score_load, &sc);
  const Temp *t = map_getp(&em->temps, st->out);
  if (t->in_memory || t->inner) score_access(&sc, st->out, st->oidx);
  int64_t e;
  if (expr_const_int(em->c, ax->extent, &e)) {
    if (e < 2) return -1000;
    if (e < 4) sc.score -= 8;
  }
  return sc.score;
}

static bool can_horizontal(const Stage *st) {
  return st->red == RED_ADD || st->red == RED_MAX || st->red == RED_MIN;
}

static uint32_t stage_lanes(Emit *em, const Stage *st) {
  Group one = {.stages = (Stage *[]){(Stage *)st}, .n = 1};
  DType wide, narrow;
  group_types(em->s, &one, &wide, &narrow);
  return variant_lanes(em->s->v, wide);
}

/* The inner axis that st vectorises over, or -1. */
static int32_t best_inner(Emit *em, const Stage *st, const Axis *inner, uint32_t n, uint32_t nsp,
                          int32_t *score) {
  int32_t best = -1;
  *score = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (i >= nsp && !can_horizontal(st)) continue;
    int32_t sc = score_axis(em, st, &inner[i]);
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
  uint32_t nsp, n = inner_axes(em->g, st, inner, &nsp);
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
  if (!ln->var && em->inner_vec) x = best_inner(em, st, inner, n, nsp, &score);
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

/* Whether v occurs in e outside of load indices. */
static const Expr *blank_loads(Context *c, const Expr *e, void *ctx) {
  (void)ctx;
  return e->kind == EXPR_LOAD ? expr_lit(c, dtype_scalar(e->dtype), 0) : e;
}
static bool used_as_value(Context *c, const Expr *e, const Var *v) {
  return expr_uses_var(expr_rewrite(c, e, blank_loads, NULL), v);
}

static bool can_collapse(Emit *em, const Axis *p, const Axis *q) {
  Collapse k = {.em = em, .p = p, .q = q, .ok = true};
  for (uint32_t i = 0; k.ok && i < em->g->n; i++) {
    const Stage *st = em->g->stages[i];
    k.st = st;
    if (used_as_value(em->c, st->value, p->var) || used_as_value(em->c, st->value, q->var))
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
    /* p stays "outer" for is_outer through its binding: keep it at the end, unused as a loop */
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

/* An outer axis that a strided load is contiguous in: running it inside the chunks of v reuses the
 * lines that a gather touches (transposes). */
static int32_t transposed_axis(Emit *em, uint32_t v) {
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
  /* the vector axis */
  int32_t best = -1, best_score = -1000, inner_score = 0;
  bool any_inner = false;
  for (uint32_t o = 0; o < g->nouter; o++) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < g->n; i++) {
      Axis inner[MAX_AXES] = {0};
      uint32_t nsp;
      int32_t w = inner_axes(g, g->stages[i], inner, &nsp) ? 4 : 1;
      int32_t sc = score_axis(&em, g->stages[i], &g->outer[o]);
      sum = sc <= -1000 || sum <= -1000 ? -1000 : sum + sc * w;
    }
    if (sum >= best_score && sum > -1000) {
      best = (int32_t)o;
      best_score = sum;
    }
  }
  for (uint32_t i = 0; i < g->n; i++) {
    Axis inner[MAX_AXES] = {0};
    uint32_t nsp, n = inner_axes(g, g->stages[i], inner, &nsp);
    int32_t sc;
    if (!n) continue;
    if (best_inner(&em, g->stages[i], inner, n, nsp, &sc) >= 0) any_inner = true;
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
  const Axis *vec = over_outer ? &g->outer[best] : NULL;
  int32_t inside = over_outer ? transposed_axis(&em, (uint32_t)best) : -1;
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
