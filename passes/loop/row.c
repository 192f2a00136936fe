/* Loops for groups of stages.
 *
 * The group's outer loops surround all stages. One axis runs over vector lanes: an outer one when
 * it is contiguous in most accesses (each lane is then an element, or a column), else each stage
 * vectorises an inner axis of its own (a row). Rows that wait for a sum of theirs are taken several
 * at a time.
 */
#include "passes/loop/emit.h"

#define PARALLEL_WORK (64 * 1024) /* about elements; less isn't shared by threads */
#define PIECE_WORK (16 * 1024)
#define SHORT_ROW (8 * 1024) /* bytes of a row of which several are done at once */

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

/* st with what its inner axes don't change in registers. */
static const Stage *hoisted(Emit *em, const Stage *st, const Lanes *ln, const Axis *inner,
                            uint32_t n, StmtVec *out) {
  if (!n) return st;
  Hoist h = {.em = em, .ln = ln, .inner = inner, .n = n, .out = out};
  map_init(&h.memo, em->tmp);
  const Expr *value = hoist(&h, st->value);
  if (!h.changed) return st;
  Stage *copy = ARENA_NEW(em->tmp, Stage);
  *copy = *st;
  copy->value = value;
  return copy;
}

/* The loops of st; those of `before`, with its inner axis `row`, are part of them, or NULL. */
static void emit_stage(Emit *em, const Stage *st, const Lanes *ln, const Stage *before,
                       const Axis *row, StmtVec *out) {
  Axis inner[MAX_AXES] = {0};
  uint32_t nsp, n = stage_inner_axes(em->g, st, inner, &nsp);
  n = axes_collapse_reduction(em, st, inner, nsp, n);
  st = hoisted(em, st, ln, inner, n, out);
  if (before) before = hoisted(em, before, ln, row, 1, out);
  int32_t x = -1, score;
  if (!ln->var && em->inner_vec) x = axes_best_inner(em, st, inner, n, nsp, &score);
  uint32_t full = x >= 0 ? stage_lanes(em, st) : 1;
  if (full < 2) x = -1;
  Axis loops[MAX_AXES] = {0};
  Var *vars[MAX_AXES] = {0};
  uint32_t nl = 0;
  for (uint32_t i = 0; i < nsp; i++)
    if ((int32_t)i != x) loops[nl++] = inner[i];
  emit_bind_fresh(em, loops, vars, nl);
  StmtVec body = {0};
  if (x >= (int32_t)nsp) {
    emit_horizontal(em, st, inner + nsp, n - nsp, (uint32_t)x - nsp, before, row, &body);
  } else if (x >= 0) {
    Point p = {st, inner + nsp, n - nsp};
    Chunks ch = {.ax = &inner[x],
                 .full = full,
                 .unroll = INNER_UNROLL / em->rows,
                 .repeats = emit_repeats(em, &st, 1),
                 .narrows = true,
                 .span = st->span,
                 .fn = point_chunk,
                 .ctx = &p};
    emit_chunks(em, &ch, &body);
  } else {
    emit_point(em, st, ln, inner + nsp, n - nsp, &body);
  }
  if (!body.n) return;
  if (!nl) {
    for (uint32_t i = 0; i < body.n; i++) vec_push(em->tmp, out, body.at[i]);
    return;
  }
  Stmt *w = emit_loops_around(em, st, loops, vars, nl, seq_of(em->a, &body), false);
  if (w) vec_push(em->tmp, out, w);
}

/* ---- the group ---- */

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
  for (uint32_t i = 0; i < em->g->n; i++) {
    const Stage *st = em->g->stages[i];
    Axis row;
    if (i + 1 < em->g->n && emit_takes_in(em, st, em->g->stages[i + 1], ln, &row))
      emit_stage(em, em->g->stages[++i], ln, st, &row, &body);
    else
      emit_stage(em, st, ln, NULL, NULL, &body);
  }
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

/* Leaves out what isn't needed of the axes. */
static void narrow(const Sched *s, Group *g) {
  const Expr *seen;
  for (uint32_t i = 0; i < g->n; i++)
    for (uint32_t k = 0; k < g->stages[i]->naxes; k++)
      if ((seen = map_getp(&s->seen, g->stages[i]->axes[k].var)))
        g->stages[i]->axes[k].extent = seen;
  for (uint32_t o = 0; o < g->nouter; o++)
    if ((seen = map_getp(&s->seen, g->outer[o].var))) g->outer[o].extent = seen;
}

/* Iterations of an outer loop that a thread takes at least. */
static int64_t grain_of(Emit *em, const Axis *ax) {
  int64_t per = 0;
  for (uint32_t i = 0; i < em->g->n; i++) per += static_work(em, em->g->stages[i], ax->var);
  return PIECE_WORK / (per > 0 ? per : 1) + 1;
}

/* grain 0: not for threads. */
static Stmt *outer_loop(Emit *em, Var *v, const Expr *extent, int64_t grain, Stmt *body) {
  Stmt *st = loop_of(em->lc, em->g->stages[0]->span, v, extent, FOR_SERIAL, body);
  if (grain && st && st->kind == STMT_FOR) loop_set_parallel(em->lc, st, grain);
  return st;
}

/* ---- several rows at once ---- */

typedef struct {
  uint32_t n;           /* rows; 1: one by one */
  const Expr *is_short; /* whether a row is short enough; NULL: it is */
} Rows;

/* Whether st is a reduction along the row that another stage waits for. */
static bool is_awaited(Emit *em, const Stage *st) {
  bool read = false;
  for (uint32_t i = 0; i < em->g->n; i++) read |= stage_reads(em->g->stages[i], st->out);
  return read && st->naxes > st->nspatial;
}

typedef struct {
  const Axis *inner;
  uint32_t n;
  bool any;
} Math;
static bool find_math(const Expr *e, void *ctx) {
  Math *m = ctx;
  if (e->kind == EXPR_CALL && (intrin_table[e->intrin].flags & INTRIN_FLOAT))
    for (uint32_t i = 0; i < m->n; i++) m->any |= expr_uses_var(e, m->inner[i].var);
  return !m->any;
}

/* How many rows, of which `ax` is the loop, are worth it: not those of functions that fill all
 * registers by themselves, and long ones gain nothing but more memory to go through at once. */
static Rows rows_at_once(Emit *em, const Axis *ax) {
  Context *c = em->c;
  Rows one = {1, NULL}, many = {MAX_JAM, NULL};
  int64_t size, count, temps = 0;
  bool awaited = false;
  if (!ax || !em->inner_vec) return one;
  for (uint32_t i = 0; i < em->g->n; i++) {
    const Stage *st = em->g->stages[i];
    Axis inner[MAX_AXES] = {0};
    uint32_t nsp, n = stage_inner_axes(em->g, st, inner, &nsp);
    const Expr *row = i64(c, (int64_t)dtype_bytes(st->out->dtype));
    for (uint32_t k = 0; k < n; k++) row = expr_simplify(c, expr_mul(c, row, inner[k].extent));
    if (!expr_const_int(c, row, &size)) {
      const Expr *test = compare_to(c, EXPR_LE, row, SHORT_ROW);
      many.is_short = many.is_short && many.is_short != test
                          ? expr_binary(c, EXPR_AND, many.is_short, test)
                          : test;
    } else if (size > SHORT_ROW) {
      return one;
    } else if (nsp && !group_is_read_after(em->s, em->g, st->out)) {
      temps += size;
    }
    Math m = {inner, n, false};
    expr_walk(st->value, find_math, &m);
    if (m.any && em->s->v->vector_regs < 32) many.n = 2;
    awaited |= is_awaited(em, st);
  }
  if (expr_const_int(c, ax->extent, &count) && count < many.n) many.n = (uint32_t)count;
  return awaited && temps < SHORT_ROW ? many : one;
}

/* The loop over the rows as two: over blocks of several, and over those that are left. */
static void emit_row_blocks(Emit *em, const Axis *ax, const Rows *rows, bool parallel,
                            StmtVec *out) {
  Context *c = em->c;
  Body one = {NULL};
  int64_t grain = parallel ? grain_of(em, ax) : 0;
  const Expr *n = i64(c, rows->n), *blocks = expr_simplify(c, expr_floordiv(c, ax->extent, n));
  if (rows->is_short) {
    Var *v = var_create(c, "blocks", DT_I64);
    blocks = expr_select(c, rows->is_short, blocks, i64(c, 0));
    vec_push(em->tmp, out, stmt_let(em->a, em->g->stages[0]->span, v, blocks));
    blocks = v->expr;
  }
  Var *row = loop_var(c, ax->var->name), *block = loop_var(c, ax->var->name);
  StmtVec body = {0};
  em->rows = rows->n;
  emit_bind(em, ax->var, row->expr);
  body_chunk(em, &(Lanes){0}, &body, &one);
  em->rows = 1;
  Stmt *many = rows_jam(em->lc, row, expr_mul(c, block->expr, n), rows->n, seq_of(em->a, &body));
  many = outer_loop(em, block, blocks, grain ? grain / rows->n + 1 : 0, many);
  if (many) vec_push(em->tmp, out, many);
  const Expr *done = expr_simplify(c, expr_mul(c, blocks, n));
  const Expr *left = expr_simplify(c, expr_sub(c, ax->extent, done));
  if (expr_is_int(left, 0)) return;
  StmtVec rest = {0};
  row = loop_var(c, ax->var->name);
  emit_bind(em, ax->var, expr_simplify(c, expr_add(c, done, row->expr)));
  body_chunk(em, &(Lanes){0}, &rest, &one);
  Stmt *single = outer_loop(em, row, left, grain, seq_of(em->a, &rest));
  if (single) vec_push(em->tmp, out, single);
}

void group_emit(Sched *s, Group *g, StmtVec *out) {
  narrow(s, g);
  if (regions_emit(s, g, out) || unswitch_emit(s, g, out) || stretches_emit(s, g, out)) return;
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
  bool computes = false; /* enough to pay for a gather or scatter */
  for (uint32_t i = 0; i < g->n; i++) {
    if (!vec_possible(g->stages[i]->value)) full = 1;
    if (g->stages[i]->value->n && g->stages[i]->value->kind != EXPR_LOAD) computes = true;
  }
  bool over_outer = best >= 0 && full > 1 && best_score > (computes ? -8 : -6) &&
                    !(any_inner && inner_score >= best_score);
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
  if (!vec) axes_as_they_lie(&em, loops, nl);
  emit_bind_fresh(&em, loops, vars, nl);
  int64_t work = 0;
  for (uint32_t i = 0; i < g->n; i++) work += static_work(&em, g->stages[i], NULL);
  bool parallel = work >= PARALLEL_WORK && !s->nested;
  for (uint32_t i = 0; i < g->nouter; i++) {
    int64_t e;
    if (!expr_const_int(c, g->outer[i].extent, &e)) parallel = !s->nested;
  }
  StmtVec body = {0};
  Body b = {inside >= 0 ? &g->outer[inside] : NULL};
  Span span = g->stages[0]->span;
  if (inside >= 0 && transpose_emit(&em, vec, &g->outer[inside], &body)) {
    /* done */
  } else if (vec) {
    int64_t per = 0;
    for (uint32_t i = 0; i < g->n; i++) per += static_work(&em, g->stages[i], vec->var);
    int64_t grain = parallel && !nl ? PIECE_WORK / (per > 0 ? per : 1) + 1 : 0;
    uint32_t unroll = inside >= 0 ? 1 : sums_columns(&em, g) ? s->v->vector_regs / 2 : 4;
    bool again = inside < 0 && emit_repeats(&em, (const Stage *const *)g->stages, g->n);
    Chunks ch = {vec, full, unroll, grain, again, true, span, body_chunk, &b};
    emit_chunks(&em, &ch, &body);
  } else {
    Rows rows = rows_at_once(&em, nl ? &loops[nl - 1] : NULL);
    if (rows.n > 1) {
      nl--;
      emit_row_blocks(&em, &loops[nl], &rows, !nl && parallel, &body);
    } else {
      body_chunk(&em, &(Lanes){0}, &body, &b);
    }
  }
  if (!body.n) return;
  Stmt *st = seq_of(s->a, &body);
  for (uint32_t i = nl; st && i-- > 0;)
    st = outer_loop(&em, vars[i], loops[i].extent,
                    i == 0 && parallel ? grain_of(&em, &loops[0]) : 0, st);
  if (st) vec_push(s->tmp, out, st);
}

void stage_emit(Sched *s, Stage *st, StmtVec *out) {
  Group one = {.stages = ARENA_ARRAY(s->tmp, Stage *, 1), .n = 1};
  one.stages[0] = st;
  for (uint32_t i = 0; i < st->naxes; i++)
    if (!axis_is_unit(&st->axes[i])) one.outer[one.nouter++] = st->axes[i];
  group_emit(s, &one, out);
}
