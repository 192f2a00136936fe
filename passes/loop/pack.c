/* Panels of B, copied at run time.
 *
 * The layout is [panel][k][width]: what a tile needs for one step of k stands together, panels are
 * as wide for every instruction set, the last one is filled up. Where k is contiguous in B (a
 * transposed operand), square tiles are turned in registers (transpose.c); those at B's last
 * columns have the last one again in the place of what is beyond it.
 */
#include "passes/loop/contraction.h"

#define PARALLEL_COPY (4 * 1024) /* elements in one parallel piece */

/* What both ways of copying share. */
typedef struct {
  Emit *em;
  const Contraction *con;
  Buffer *panels;
  const Expr *load;
  uint32_t width, lanes;
  Var *p, *vars[MAX_AXES]; /* panel and k loops */
  const Expr *panel;       /* its number */
} Copy;

static void copy_begin(Copy *x, const Expr *first) {
  Context *c = x->em->c;
  x->load = factor_load(x->con->b);
  x->lanes = variant_lanes(x->em->s->v, x->load->dtype);
  if (x->lanes > x->width) x->lanes = x->width;
  x->p = loop_var(c, "panel");
  x->panel = expr_simplify(c, expr_add(c, first, x->p->expr));
  for (uint32_t i = 0; i < x->con->nk; i++) x->vars[i] = loop_var(c, "k");
}

/* Binds the k axes, the innermost to `inner`; returns k as one number. */
static const Expr *bind_k(Copy *x, const Expr *inner) {
  Context *c = x->em->c;
  const Contraction *con = x->con;
  const Expr *k = i64(c, 0);
  for (uint32_t i = 0; i < con->nk; i++) {
    const Expr *at = i + 1 == con->nk ? inner : x->vars[i]->expr;
    emit_bind(x->em, con->k[i].var, at);
    k = expr_add(c, expr_mul(c, k, con->k[i].extent), at);
  }
  return k;
}

static Stmt *store_panel(Copy *x, const Expr *k, const Expr *lane, const Expr *value) {
  Context *c = x->em->c;
  const Expr *row = expr_add(c, expr_mul(c, x->panel, x->con->ktotal), k);
  const Expr *off = expr_add(c, expr_mul(c, row, i64(c, x->width)), lane);
  off = expr_ramp(c, expr_simplify(c, off), i64(c, 1), x->lanes);
  return stmt_store(x->em->a, x->con->st->span, x->panels, &off, value);
}

/* Loops over panels and the outer k axes around s, of which there are `count` panels. */
static void copy_end(Copy *x, const Expr *count, Stmt *s, StmtVec *out) {
  Span sp = x->con->st->span;
  for (uint32_t i = x->con->nk - 1; s && i-- > 0;)
    s = loop_of(x->em->lc, sp, x->vars[i], x->con->k[i].extent, FOR_SERIAL, s);
  s = s ? loop_of(x->em->lc, sp, x->p, count, FOR_SERIAL, s) : NULL;
  int64_t k = 256;
  expr_const_int(x->em->c, x->con->ktotal, &k);
  if (s && s->kind == STMT_FOR && s->loop.var == x->p)
    loop_set_parallel(x->em->lc, s, PARALLEL_COPY / (k * x->width + 1) + 1);
  if (s) vec_push(x->em->tmp, out, s);
}

/* Copies panels [first, first + count), the innermost k from `kbegin` on; masked: columns at or
 * after n's extent give 0. */
static void copy_panels(Copy x, const Expr *first, const Expr *count, const Expr *kbegin,
                        bool masked, StmtVec *out) {
  Emit *em = x.em;
  const Contraction *con = x.con;
  Context *c = em->c;
  Span sp = con->st->span;
  copy_begin(&x, first);
  uint32_t last = con->nk - 1;
  const Expr *k = bind_k(&x, expr_simplify(c, expr_add(c, kbegin, x.vars[last]->expr)));
  Var *j = loop_var(c, "j");
  emit_bind(em, con->n.var, con->n.var->expr);
  const Expr *lane = expr_mul(c, j->expr, i64(c, x.lanes));
  const Expr *col = expr_add(c, expr_mul(c, x.panel, i64(c, x.width)), lane);
  col = expr_simplify(c, col);
  Lanes ln = {con->n.var, col, x.lanes, masked ? lane_mask(c, col, con->n.extent, x.lanes) : NULL};
  const Expr *value = emit_value(em, &ln, emit_prepare(em, x.load));
  Stmt *s = store_panel(&x, k, lane, value);
  s = loop_of(em->lc, sp, j, i64(c, x.width / x.lanes), FOR_UNROLL, s);
  const Expr *rest = expr_simplify(c, expr_sub(c, con->k[last].extent, kbegin));
  if (s) s = loop_of(em->lc, sp, x.vars[last], rest, FOR_SERIAL, s);
  copy_end(&x, count, s, out);
}

/* The tile of the next panel: its rows lie apart, a line of each, which hardware doesn't foresee.
 */
static void prefetch_tile(Copy *x, const Expr *col, const Expr *k, StmtVec *out) {
  Emit *em = x->em;
  Context *c = em->c;
  bind_k(x, k);
  for (uint32_t r = 0; r < x->lanes; r++) {
    emit_bind(em, x->con->n.var, expr_simplify(c, expr_add(c, col, i64(c, r))));
    const Expr *load = emit_prepare(em, x->load);
    const Expr *address = expr_call(c, INTRIN_address_of, DT_HANDLE, &load, 1);
    const Expr *fetch = expr_call(c, INTRIN_prefetch, DT_UNKNOWN, &address, 1);
    vec_push(em->tmp, out, stmt_eval(em->a, x->con->st->span, fetch));
  }
}

/* The number of column r after col, or of the last one where that is none. */
static const Expr *turned_column(const Copy *x, const Expr *col, uint32_t r, bool ends) {
  Context *c = x->em->c;
  col = expr_add(c, col, i64(c, r));
  if (ends) col = expr_min(c, col, expr_sub(c, x->con->n.extent, i64(c, 1)));
  return expr_simplify(c, col);
}

/* The same for whole tiles of a transposed operand: `tiles` of them along the innermost k, for the
 * first `vectors` of a panel; ends: B ends in the last of these. */
static void turn_panels(Copy x, const Expr *first, const Expr *count, const Expr *vectors,
                        bool ends, const Expr *tiles, StmtVec *out) {
  Emit *em = x.em;
  const Contraction *con = x.con;
  Context *c = em->c;
  Span sp = con->st->span;
  copy_begin(&x, first);
  Var *j = loop_var(c, "j"), *kv = x.vars[con->nk - 1], *axis = con->k[con->nk - 1].var;
  const Expr *lanes = i64(c, x.lanes), *k0 = expr_mul(c, kv->expr, lanes), *rows[64];
  const Expr *lane = expr_mul(c, j->expr, lanes);
  const Expr *col = expr_add(c, expr_mul(c, x.panel, i64(c, x.width)), lane);
  StmtVec body = {0};
  bind_k(&x, axis->expr);
  Lanes along = {axis, k0, x.lanes, NULL};
  for (uint32_t r = 0; r < x.lanes; r++) {
    emit_bind(em, con->n.var, turned_column(&x, col, r, ends));
    const Expr *value = emit_value(em, &along, emit_prepare(em, x.load));
    Var *v = var_create(c, "row", value->dtype);
    vec_push(em->tmp, &body, stmt_let(em->a, sp, v, value));
    rows[r] = v->expr;
  }
  if (!ends) prefetch_tile(&x, expr_add(c, col, i64(c, x.width)), k0, &body);
  bind_k(&x, axis->expr);
  transpose_rows(em, sp, rows, x.lanes, &body);
  emit_bind(em, con->n.var, con->n.var->expr);
  for (uint32_t r = 0; r < x.lanes; r++) {
    const Expr *k = bind_k(&x, expr_simplify(c, expr_add(c, k0, i64(c, r))));
    vec_push(em->tmp, &body, store_panel(&x, k, lane, rows[r]));
  }
  Stmt *s = loop_of(em->lc, sp, kv, tiles, FOR_SERIAL, seq_of(em->a, &body));
  if (s) s = loop_of(em->lc, sp, j, vectors, FOR_SERIAL, s);
  copy_end(&x, count, s, out);
}

/* Zeros in the vectors of those panels from `vectors` on, in the first `steps` of the innermost k.
 */
static void clear_panels(Copy x, const Expr *first, const Expr *count, const Expr *vectors,
                         const Expr *steps, StmtVec *out) {
  Emit *em = x.em;
  Context *c = em->c;
  Span sp = x.con->st->span;
  copy_begin(&x, first);
  Var *j = loop_var(c, "j"), *kv = x.vars[x.con->nk - 1];
  const Expr *lane = expr_mul(c, expr_add(c, vectors, j->expr), i64(c, x.lanes));
  const Expr *zero = expr_broadcast(c, expr_lit(c, x.load->dtype, 0), x.lanes);
  Stmt *s = store_panel(&x, bind_k(&x, kv->expr), lane, zero);
  const Expr *left = expr_simplify(c, expr_sub(c, i64(c, x.width / x.lanes), vectors));
  s = loop_of(em->lc, sp, kv, steps, FOR_SERIAL, s);
  if (s) s = loop_of(em->lc, sp, j, left, FOR_SERIAL, s);
  copy_end(&x, count, s, out);
}

/* Whether neighbours along the innermost k are neighbours in memory, and a panel so wide is whole
 * vectors of such elements. */
static bool is_turned(const Emit *em, const Contraction *con, uint32_t width) {
  const Expr *load = factor_load(con->b);
  uint32_t lanes = variant_lanes(em->s->v, load->dtype);
  int64_t one;
  if (con->nk == 0 || lanes < 2 || lanes > 16 || width % lanes) return false;
  const Dim *at = flat_offset(em->lc, load->buf, load->arg);
  const Dim *k = stride_of(em->lc, con->st, at, con->k[con->nk - 1].var);
  return k && dim_is_const(k, &one) && one == 1;
}

Buffer *pack_panels(Emit *em, const Contraction *con, uint32_t width, StmtVec *out) {
  Context *c = em->c;
  const Expr *load = factor_load(con->b);
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, 1);
  const Expr *npanels = expr_ceildiv(c, con->n.extent, width);
  shape[0] = expr_simplify(c, expr_mul(c, expr_mul(c, npanels, con->ktotal), i64(c, width)));
  Buffer *panels = buffer_create(c, "panels", load->dtype, shape, 1, "global");
  panels->align = 64;
  StmtVec *top = em->s->nested ? out : &em->lc->decls;
  vec_push(em->tmp, top, stmt_alloc(em->a, con->st->span, panels));
  const Expr *whole = expr_simplify(c, expr_floordiv(c, con->n.extent, i64(c, width)));
  Copy x = {.em = em, .con = con, .panels = panels, .width = width};
  const Expr *none = i64(c, 0), *turned = none;
  int64_t n;
  bool known = expr_const_int(c, con->n.extent, &n);
  const Expr *rest = known ? i64(c, n % width != 0) : expr_simplify(c, expr_sub(c, npanels, whole));
  if (is_turned(em, con, width)) {
    uint32_t lanes = variant_lanes(em->s->v, load->dtype);
    const Expr *last = con->k[con->nk - 1].extent;
    const Expr *tiles = expr_simplify(c, expr_floordiv(c, last, i64(c, lanes)));
    turn_panels(x, none, whole, i64(c, width / lanes), false, tiles, out);
    turned = expr_simplify(c, expr_mul(c, tiles, i64(c, lanes)));
    const Expr *columns = expr_simplify(c, expr_floormod(c, con->n.extent, i64(c, width)));
    const Expr *vectors = expr_ceildiv(c, columns, lanes);
    turn_panels(x, whole, rest, vectors, true, tiles, out);
    clear_panels(x, whole, rest, vectors, turned, out);
  }
  copy_panels(x, none, whole, turned, false, out);
  copy_panels(x, whole, rest, turned, true, out);
  return panels;
}
