/* From a tile's sums to results.
 *
 * The stages after a contraction run on its accumulators, vector by vector; results that are
 * contiguous along the rows are turned in registers first. Between blocks of K the sums wait in
 * memory.
 */
#include "passes/loop/tile.h"

/* Where partial sums are kept between K blocks: the last stage's result when it is as wide, so that
 * no other memory is needed. */
static const Stage *partial_stage(const Tile *t) {
  const Group *g = t->kn->em->g;
  const Stage *last = g->stages[g->n - 1];
  const Temp *tmp = map_getp(&t->kn->em->temps, last->out);
  if (g->n > 1 && tmp->in_memory && dtype_eq(last->out->dtype, t->kn->con->d) &&
      !stage_reads(last, last->out))
    return last;
  return g->stages[0];
}

static const Expr *partial_offset(Tile *t, const Stage *st) {
  Emit *em = t->kn->em;
  return dim_expr(em->c, flat_offset(em->lc, st->out, st->oidx), DT_I64);
}

/* The element of them that rows and columns are bound to. */
static const Expr *partial_load(Tile *t) {
  Emit *em = t->kn->em;
  const Stage *st = partial_stage(t);
  const Expr *off = expr_simplify(em->c, subst_vars(em->c, &em->fixed, partial_offset(t, st)));
  return expr_load(em->c, flat_view(em->lc, st->out), &off, 1);
}

static Stmt *init_acc(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  const RowCtx *r = ctx;
  Kernel *kn = t->kn;
  Context *c = kn->em->c;
  const Contraction *con = kn->con;
  const Expr *v = con->st->init, *at[] = {r->i, j};
  const Expr *zero =
      dtype_is_float(v->dtype) ? expr_float(c, v->dtype, 0) : expr_int(c, v->dtype, 0);
  if (kn->kb && v != zero)
    v = expr_if_then_else(c, expr_binary(c, EXPR_EQ, kn->kb->expr, i64(c, 0)), v, zero);
  return stmt_store(kn->em->a, con->st->span, t->acc, at, expr_broadcast(c, v, con->lanes));
}

/* Vector j of the partial sums of earlier K blocks. */
static const Expr *partial_sums(Tile *t, const Expr *j, bool whole) {
  Emit *em = t->kn->em;
  const Expr *load = partial_load(t);
  Lanes ln = tile_lanes(t, j, whole);
  Vec vec;
  vec_init(&vec, em->c, em->tmp, ln.var, ln.base, ln.lanes, ln.mask);
  return vec_full(&vec, load);
}

/* They are asked for when the tile begins and added when its own sums are complete. */
static Stmt *prefetch_partial(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  (void)ctx;
  Emit *em = t->kn->em;
  Context *c = em->c;
  const Contraction *con = t->kn->con;
  emit_bind(em, con->n.var, simp_add(c, t->col, expr_mul(c, j, i64(c, con->lanes))));
  const Expr *load = partial_load(t);
  emit_bind(em, con->n.var, con->n.var->expr);
  return prefetch_load(t, load);
}

static Stmt *add_partial(Tile *t, const Expr *j, bool whole, void *ctx) {
  const RowCtx *r = ctx;
  Emit *em = t->kn->em;
  const Expr *at[] = {r->i, j};
  const Expr *own = expr_load(em->c, t->acc, at, 2);
  const Expr *sum = expr_add(em->c, partial_sums(t, j, whole), own);
  return stmt_store(em->a, t->kn->con->st->span, t->acc, at, sum);
}

static Stmt *store_partial(Tile *t, const Expr *j, bool whole, void *ctx) {
  const RowCtx *r = ctx;
  Emit *em = t->kn->em;
  const Stage *st = partial_stage(t);
  const Expr *at[] = {r->i, j};
  Lanes ln = tile_lanes(t, j, whole);
  StmtVec out = {0};
  emit_store(em, st, &ln, flat_view(em->lc, st->out), partial_offset(t, st),
             expr_load(em->c, t->acc, at, 2), &out);
  return seq_of(em->a, &out);
}

/* The contraction's result and the stages after it, for some lanes of the sums. */
static void emit_stages(Emit *em, const Lanes *ln, const Expr *sums, StmtVec *out) {
  Group *g = em->g;
  for (uint32_t i = 0; i < em->temps.n; i++) ((Temp *)em->temps.entries[i].value)->value = NULL;
  emit_result(em, g->stages[0], ln, sums, out);
  for (uint32_t i = 1; i < g->n; i++)
    emit_result(em, g->stages[i], ln, emit_value(em, ln, emit_prepare(em, g->stages[i]->value)),
                out);
}

static Stmt *epilogue(Tile *t, const Expr *j, bool whole, void *ctx) {
  const RowCtx *r = ctx;
  Emit *em = t->kn->em;
  const Expr *at[] = {r->i, j};
  Lanes ln = tile_lanes(t, j, whole);
  StmtVec out = {0};
  emit_stages(em, &ln, expr_load(em->c, t->sums, at, 2), &out);
  return seq_of(em->a, &out);
}

static bool calls_math(const Expr *e, void *ctx) {
  bool *heavy = ctx;
  if (e->kind == EXPR_CALL && (intrin_table[e->intrin].flags & INTRIN_FLOAT) &&
      e->intrin != INTRIN_fma && e->intrin != INTRIN_fabs && e->intrin != INTRIN_sqrt)
    *heavy = true;
  return !*heavy;
}

/* Epilogues with much code (exp, erf) run as a loop over a copy of the tile in memory: the copy
 * costs little beside them, and the code would be as large as the number of vectors. */
static bool heavy_epilogue(const Tile *t) {
  const Group *g = t->kn->em->g;
  bool heavy = false;
  for (uint32_t i = 1; i < g->n; i++) expr_walk(g->stages[i]->value, calls_math, &heavy);
  return heavy && t->height * t->nv > 2;
}

static Stmt *copy_sums(Tile *t, const Expr *j, bool whole, void *ctx) {
  (void)whole;
  const RowCtx *r = ctx;
  const Expr *at[] = {r->i, j};
  return stmt_store(t->kn->em->a, t->kn->con->st->span, t->sums, at,
                    expr_load(t->kn->em->c, t->acc, at, 2));
}

/* The lanes of rows [group * lanes, ...) of the tile. */
static Lanes row_lanes(const Tile *t, uint32_t group) {
  const Contraction *con = t->kn->con;
  Context *c = t->kn->em->c;
  uint32_t first = group * con->lanes, left = t->height - first;
  Lanes ln = {con->m.var, simp_add(c, t->row, i64(c, first)), con->lanes, NULL};
  if (is_guarded(t)) {
    const Expr *end = expr_min(c, simp_add(c, t->row, i64(c, t->height)), con->m.extent);
    ln.mask = lane_mask(c, ln.base, end, con->lanes);
  } else if (left < con->lanes) {
    ln.mask = lane_mask(c, i64(c, 0), i64(c, left), con->lanes);
  }
  return ln;
}

/* Of a tile of the first rows and the last ones: what of those is the first of all; ln has the
 * others. */
static Lanes head_lanes(const Tile *t, Lanes *ln) {
  const Contraction *con = t->kn->con;
  Context *c = t->kn->em->c;
  int64_t pick[64];
  for (uint32_t l = 0; l < con->lanes; l++)
    pick[l] = l >= t->head && l < t->height ? 0 : con->lanes;
  const Expr *both[] = {expr_broadcast(c, expr_bool(c, true), con->lanes),
                        expr_broadcast(c, expr_bool(c, false), con->lanes)};
  ln->mask = expr_shuffle(c, both, 2, pick, con->lanes);
  const Expr *zero = i64(c, 0), *mask = lane_mask(c, zero, i64(c, t->head), con->lanes);
  return (Lanes){con->m.var, zero, con->lanes, mask};
}

/* Results that are contiguous along the rows: the tile is turned in registers, then a loop over its
 * columns runs the epilogue with rows in lanes. */
static Stmt *turned_epilogue(Tile *t) {
  Emit *em = t->kn->em;
  Context *c = em->c;
  const Contraction *con = t->kn->con;
  Span sp = con->st->span;
  uint32_t lanes = con->lanes, groups = (t->height + lanes - 1) / lanes;
  StmtVec out = {0}, body = {0};
  Buffer *turned = local_vectors(em, "turned", t->acc->dtype, t->nv * lanes, groups, &out);
  for (uint32_t j = 0; j < t->nv; j++)
    for (uint32_t k = 0; k < groups; k++) {
      const Expr *rows[64];
      for (uint32_t r = 0; r < lanes; r++) {
        uint32_t i = k * lanes + r < t->height ? k * lanes + r : t->height - 1;
        const Expr *at[] = {i64(c, i), i64(c, j)};
        rows[r] = expr_load(c, t->acc, at, 2);
      }
      transpose_rows(em, sp, rows, lanes, &out);
      for (uint32_t r = 0; r < lanes; r++) {
        const Expr *at[] = {i64(c, j * lanes + r), i64(c, k)};
        vec_push(em->tmp, &out, stmt_store(em->a, sp, turned, at, rows[r]));
      }
    }
  Var *col = loop_var(c, "column");
  const Expr *count = i64(c, t->nv * lanes);
  if (t->masked) count = expr_simplify(c, expr_min(c, count, expr_sub(c, con->n.extent, t->col)));
  emit_bind(em, con->n.var, simp_add(c, t->col, col->expr));
  emit_bind(em, con->m.var, con->m.var->expr);
  for (uint32_t k = 0; k < groups; k++) {
    Lanes ln = row_lanes(t, k);
    const Expr *at[] = {col->expr, i64(c, k)}, *sums = expr_load(c, turned, at, 2);
    if (t->ends && t->head && k == 0) {
      Lanes head = head_lanes(t, &ln);
      emit_stages(em, &head, sums, &body);
    }
    emit_stages(em, &ln, sums, &body);
  }
  Stmt *loop = loop_of(em->lc, sp, col, count, FOR_SERIAL, seq_of(em->a, &body));
  if (loop) vec_push(em->tmp, &out, loop);
  emit_bind(em, con->n.var, con->n.var->expr);
  return seq_of(em->a, &out);
}

/* Whether that pays, and has a form: rows that aren't whole vectors need masks. */
static bool is_turned(const Tile *t) {
  const Kernel *kn = t->kn;
  uint32_t lanes = kn->con->lanes;
  if (!kn->turned || kn->kb || t->head > lanes || lanes > 16 || (lanes & (lanes - 1)) ||
      t->height * 4 < lanes)
    return false;
  return kn->em->use_mask || (!is_guarded(t) && !t->ends && t->height % lanes == 0);
}

static Stmt *results(Tile *t) {
  Emit *em = t->kn->em;
  if (is_turned(t)) return turned_epilogue(t);
  t->sums = t->acc;
  if (!heavy_epilogue(t)) return each_row(t, epilogue, true);
  StmtVec out = {0};
  t->sums = local_vectors(em, "sums", t->acc->dtype, t->height, t->nv, &out);
  vec_push(em->tmp, &out, each_row(t, copy_sums, false));
  t->rolled = true;
  vec_push(em->tmp, &out, each_row(t, epilogue, true));
  t->rolled = false;
  return seq_of(em->a, &out);
}

/* This block of K isn't the first. */
static const Expr *later_block(const Tile *t) {
  Context *c = t->kn->em->c;
  return expr_binary(c, EXPR_GT, t->kn->kb->expr, i64(c, 0));
}

Stmt *sums_begin(Tile *t) {
  Emit *em = t->kn->em;
  StmtVec out = {0};
  if (t->kn->kb) {
    Temp *tmp = map_getp(&em->temps, partial_stage(t)->out);
    tmp->in_memory = true;
  }
  vec_push(em->tmp, &out, each_row(t, init_acc, false));
  if (t->kn->kb)
    vec_push(em->tmp, &out,
             stmt_if(em->a, t->kn->con->st->span, later_block(t),
                     each_row(t, prefetch_partial, false), NULL));
  return seq_of(em->a, &out);
}

Stmt *sums_end(Tile *t) {
  Kernel *kn = t->kn;
  Emit *em = kn->em;
  Span sp = kn->con->st->span;
  StmtVec out = {0};
  if (kn->kb)
    vec_push(em->tmp, &out,
             stmt_if(em->a, sp, later_block(t), each_row(t, add_partial, false), NULL));
  Stmt *finish = results(t);
  if (kn->kb && em->g->n > 1)
    finish = stmt_if(em->a, sp, kn->last_kb, finish, each_row(t, store_partial, true));
  vec_push(em->tmp, &out, finish);
  return seq_of(em->a, &out);
}
