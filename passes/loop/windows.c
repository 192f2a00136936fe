/* Windows, row by row of what they read.
 *
 *   C[c, y, x] += A[c, i, j] * B[c, 2y + i - 1, 2x + j - 1]    (a depthwise convolution)
 *   C[c, y, x] = max(C[c, y, x], B[c, 2y + i - 1, 2x + j - 1]) (a pooling)
 *
 *   for each row of B that a tile of rows y needs:
 *     for each j: the vectors of it that step j takes
 *     for each (y, i) that read this row, each j: acc[y] += A[i, j] * those
 *
 * The padding needs no copy, and what of it changes nothing is left out: a row above or below the
 * image where A is known to be finite, or where it never is the largest. What they are is found
 * here, and how large their tiles are. Where the vectors of a row come from is window_parts.c's,
 * where it has few of them, and borders.c's, where it has any number; that also asks at run time
 * which rows exist.
 */
#include <math.h>

#include "passes/loop/windows.h"

#define MIN_HEIGHT 3
#define MAX_HEIGHT 7
#define COLUMN_TILES 2 /* each is code of its own */

/* ---- recognition ---- */

static bool take(Context *c, const Dim **d, const Var *v, int64_t *step) {
  const Dim *coef;
  return dim_linear(c, *d, v, &coef, d) && dim_is_const(coef, step);
}

/* The place of the rows or columns `axis`. */
static bool find_place(Context *c, const Padding *p, const Contraction *con, const Axis *axis,
                       Place *x) {
  uint32_t i = 0;
  int64_t step;
  while (i < p->n && !dim_uses_var(p->inside[i].at, axis->var)) i++;
  if (i == p->n) return false;
  const Dim *d = p->inside[i].at;
  *x = (Place){.k = con->nk, .steps = 1, .lo = p->inside[i].lo, .hi = p->inside[i].hi};
  if (!take(c, &d, axis->var, &x->step) || x->step < 1) return false;
  for (uint32_t k = 0; k < con->nk; k++) {
    if (!take(c, &d, con->k[k].var, &step)) return false;
    if (!step) continue;
    if (step < 0 || x->k < con->nk || !expr_const_int(c, con->k[k].extent, &x->steps)) return false;
    x->k = k;
    x->k_step = step;
  }
  for (uint32_t a = 0; a < con->st->naxes; a++) /* axes of a single step stand at 0 */
    if (axis_is_unit(&con->st->axes[a]) && !take(c, &d, con->st->axes[a].var, &step)) return false;
  if (!dim_is_const(d, &x->rest)) return false;
  /* where nothing is padded all is inside */
  const Dim *last = dim_scale(c, dim_sub(c, expr_dim(c, axis->extent), dim_const(c, 1)), x->step);
  int64_t reach = x->rest + (x->steps - 1) * x->k_step + 1;
  if (!x->lo) x->lo = dim_const(c, x->rest);
  if (!x->hi) x->hi = dim_add(c, last, dim_const(c, reach));
  return true;
}

/* Whether p pads nothing but rows and columns. */
static bool pads_windows(const Padding *p, const Contraction *con) {
  for (uint32_t i = 0; i < p->n; i++) {
    const Inside *in = &p->inside[i];
    if (!inside_is_all(in) && !dim_uses_var(in->at, con->m.var) &&
        !dim_uses_var(in->at, con->n.var))
      return false;
  }
  return true;
}

/* The distance of rows; NULL when B isn't rows of neighbouring elements. */
static const Dim *find_pitch(Emit *em, const Contraction *con, const Place *row, const Place *col) {
  Context *c = em->c;
  const Expr *load = factor_load(con->b);
  const Dim *off = flat_offset(em->lc, load->buf, load->arg);
  const Dim *rows = stride_of(em->lc, con->st, off, con->m.var), *pitch = rows, *k;
  int64_t unit, v;
  if (!rows || !dim_is_const(con->b_stride, &unit) || unit != col->step) return NULL;
  if (col->k < con->nk) {
    k = stride_of(em->lc, con->st, off, con->k[col->k].var);
    if (!k || !dim_is_const(k, &v) || v != col->k_step) return NULL;
  }
  k = row->k < con->nk ? stride_of(em->lc, con->st, off, con->k[row->k].var) : NULL;
  if (row->step > 1 && k && row->k_step == 1)
    pitch = k;
  else if (row->step > 1 && dim_is_const(rows, &v) && v % row->step == 0)
    pitch = dim_const(c, v / row->step);
  if (dim_scale(c, pitch, row->step) != rows) return NULL;
  return row->k == con->nk || (k && dim_scale(c, pitch, row->k_step) == k) ? pitch : NULL;
}

/* The range of x that the windows of n rows or columns read; false when it isn't constant. */
static bool find_range(const Place *x, int64_t n, int64_t *first, int64_t *count) {
  int64_t lo, hi, most = x->rest + (n - 1) * x->step + (x->steps - 1) * x->k_step + 1;
  if (!dim_is_const(x->lo, &lo) || !dim_is_const(x->hi, &hi)) return false;
  if (lo < x->rest - x->steps * x->k_step) lo = x->rest;
  if (hi > most) hi = most;
  *first = x->rest - lo;
  *count = hi - lo;
  return lo < hi;
}

/* Registers of a tile: the sums, a row, a column of windows, and A, of which a few have to do. */
static int64_t regs_of_tile(const Variant *v) {
  return (int64_t)v->vector_regs - 6;
}

/* The vectors of a tile at most, so that it is worth it. */
static int64_t most_vectors(const Variant *v, const Windows *w) {
  return regs_of_tile(v) / (MIN_HEIGHT + 1 + w->col.step);
}

/* Sets the size of w's tiles of nv vectors; false when registers don't hold any. */
static bool set_tile(const Variant *v, Windows *w, int64_t nv) {
  int64_t height = (regs_of_tile(v) - (w->col.step + 1) * nv) / nv;
  w->nv = (uint32_t)nv;
  w->height = (uint32_t)(height > MAX_HEIGHT ? MAX_HEIGHT : height);
  return height > 0;
}

/* The same for rows of so many columns; false when registers don't hold one that is worth it. */
static bool size_tile(const Variant *v, const Contraction *con, Windows *w, int64_t columns) {
  int64_t most = most_vectors(v, w), nv = (columns + con->lanes - 1) / con->lanes;
  if (!most || nv > COLUMN_TILES * most) return false;
  if (nv > most) nv = (nv + COLUMN_TILES - 1) / COLUMN_TILES;
  return set_tile(v, w, nv);
}

/* Whether all of w is known and its rows are few vectors; sets what such windows need. */
static bool find_sizes(Emit *em, const Contraction *con, Windows *w) {
  Context *c = em->c;
  int64_t m, n, pitch;
  w->is_sized = con->nk == 2 && expr_const_int(c, con->m.extent, &m) &&
                expr_const_int(c, con->n.extent, &n) && expr_const_int(c, w->pitch, &pitch) &&
                w->row.k < con->nk && w->col.k < con->nk &&
                find_range(&w->row, m, &w->first_row, &w->rows) &&
                find_range(&w->col, n, &w->first_col, &w->cols) &&
                w->cols <= w->col.step * MAX_PARTS * (int64_t)con->lanes;
  if (w->is_sized && size_tile(em->s->v, con, w, n)) return true;
  w->is_sized = false;
  return false;
}

/* Whether lo <= e <= hi: a condition, or NULL when it is known; false when it is known not to be.
 */
static bool find_between(Context *c, const Expr *e, int64_t lo, int64_t hi, const Expr **when) {
  int64_t v;
  if (expr_const_int(c, e, &v)) return lo <= v && v <= hi;
  const Expr *most = compare_to(c, EXPR_LE, e, hi);
  *when = *when ? expr_binary(c, EXPR_AND, *when, most) : most;
  if (lo > 0) *when = expr_binary(c, EXPR_AND, *when, compare_to(c, EXPR_GE, e, lo));
  return true;
}

bool windows_of_vectors(Emit *em, const Contraction *con, const Windows *any, uint32_t vectors,
                        Windows *w, const Expr **when) {
  Context *c = em->c;
  int64_t lo, lanes = con->lanes, step = any->col.step;
  *w = *any;
  *when = NULL;
  w->vectors = vectors;
  if (vectors > most_vectors(em->s->v, w) || !set_tile(em->s->v, w, vectors) ||
      !dim_is_const(w->col.lo, &lo) || lo < w->col.rest - w->col.steps * w->col.k_step)
    return false;
  w->first_col = w->col.rest - lo;
  int64_t most = vectors * lanes, least = most - lanes;
  return find_between(c, con->n.extent, least, most, when) &&
         find_between(c, walk_size(c, &w->col), step * least, step * most, when);
}

/* Whether each of the nk axes of k moves along rows or along columns. */
static bool split_steps(const Windows *w, uint32_t nk) {
  uint32_t row = w->row.k < nk, col = w->col.k < nk;
  return row + col == nk && (w->row.k != w->col.k);
}

bool padding_of_windows(Emit *em, const Padding *p, Contraction *con) {
  Context *c = em->c;
  int64_t m, n, k;
  Windows *w = ARENA_NEW(em->tmp, Windows);
  w->a = ARENA_ARRAY(em->tmp, const Expr *, MAX_STEPS);
  if (!con->b_rows || con->nrows || !con->nk || con->nk > 2 || !em->use_mask || con->lanes > 64 ||
      !pads_windows(p, con) || !expr_const_int(c, con->ktotal, &k) || k < 1 || k > MAX_STEPS ||
      !find_place(c, p, con, &con->m, &w->row) || !find_place(c, p, con, &con->n, &w->col) ||
      w->col.step > 2 || !split_steps(w, con->nk))
    return false;
  const Dim *pitch = find_pitch(em, con, &w->row, &w->col);
  if (!pitch) return false;
  w->pitch = dim_expr(c, pitch, DT_I64);
  if (w->row.step == 1 && w->col.step == 1 && expr_const_int(c, con->m.extent, &m) &&
      expr_const_int(c, con->n.extent, &n) && columns_fit(em->s->v, con->lanes, m, n))
    return false;
  bool sized = find_sizes(em, con, w);
  if (!sized && !set_tile(em->s->v, w, 1)) return false;
  padding_take_value(c, p, con);
  con->windows = w;
  if (!sized) return true;
  con->bounds[0] = (Bound){.row = con->m.var,
                           .tiled = true,
                           .k = w->row.k,
                           .row_step = w->row.step,
                           .k_step = w->row.k_step,
                           .lo = -w->first_row,
                           .hi = w->rows - w->first_row};
  con->nbounds = 1;
  return true;
}

/* ---- what both ways of making steps share ---- */

const Expr *walk_name(Walk *k, const char *name, const Expr *e) {
  Var *v = var_create(k->em->c, name, e->dtype);
  vec_push(k->em->tmp, k->out, stmt_let(k->em->a, k->con->st->span, v, e));
  return v->expr;
}

/* Binds the axes of k to step (i, j) of the windows. */
static void bind_step(Walk *k, int64_t i, int64_t j) {
  const Windows *w = k->w;
  const Contraction *con = k->con;
  if (w->row.k < con->nk) emit_bind(k->em, con->k[w->row.k].var, i64(k->em->c, i));
  if (w->col.k < con->nk) emit_bind(k->em, con->k[w->col.k].var, i64(k->em->c, j));
}

/* Names A's elements. */
static void name_factors(Walk *k) {
  const Windows *w = k->w;
  const Contraction *con = k->con;
  for (int64_t i = 0; con->a && i < w->row.steps; i++)
    for (int64_t j = 0; j < w->col.steps; j++) {
      bind_step(k, i, j);
      const Expr *e = expr_broadcast(k->em->c, emit_prepare(k->em, con->a), con->lanes);
      w->a[i * w->col.steps + j] = walk_name(k, "a", e);
    }
}

/* Where A's elements are read: registers may hold all of them beside a tile. Else each is read for
 * every row of a tile where an instruction takes a number from memory into all lanes and only one
 * vector wants it; or before the tile, and what has no register waits on the stack. */
static FactorPlace factor_place(const Emit *em, const Windows *w) {
  const Variant *v = em->s->v;
  int64_t used = w->height * w->nv + (w->col.step + 1) * w->nv;
  if (used + w->row.steps * w->col.steps <= (int64_t)v->vector_regs) return FACTORS_BEFORE;
  return w->nv == 1 && v->has_mask && v->has_mem_operands ? FACTORS_BY_ROW : FACTORS_BY_TILE;
}

void walk_open(Walk *k, Emit *em, const Contraction *con, Buffer *acc, StmtVec *out) {
  *k = (Walk){.em = em, .con = con, .w = con->windows, .acc = acc, .out = out};
  k->place = factor_place(em, con->windows);
  k->pad = expr_broadcast(em->c, con->pad, con->lanes);
}

void windows_open(Emit *em, const Contraction *con, StmtVec *out) {
  Walk k;
  walk_open(&k, em, con, NULL, out);
  if (k.place == FACTORS_BEFORE) name_factors(&k);
}

void walk_begin(Walk *k, Emit *em, const Contraction *con, Buffer *acc, StmtVec *out) {
  walk_open(k, em, con, acc, out);
  if (k->place == FACTORS_BY_TILE) name_factors(k);
}

const Expr *walk_start(Walk *k, const Expr *row, const Expr *col) {
  Emit *em = k->em;
  const Contraction *con = k->con;
  bind_step(k, 0, 0);
  emit_bind(em, con->m.var, row);
  emit_bind(em, con->n.var, col);
  const Expr *load = emit_prepare(em, factor_load(con->b));
  emit_bind(em, con->n.var, con->n.var->expr);
  k->b = load->buf;
  return load->arg[0];
}

int64_t walk_step(const Walk *k, int64_t d, uint32_t y) {
  const Place *row = &k->w->row;
  int64_t i = d - y * row->step;
  if (!row->k_step) return i ? -1 : 0;
  if (i < 0 || i % row->k_step) return -1;
  i /= row->k_step;
  return i < row->steps ? i : -1;
}

int64_t walk_last(const Walk *k, uint32_t height) {
  const Place *row = &k->w->row;
  return (height - 1) * row->step + (row->steps - 1) * row->k_step;
}

/* Row y takes in those of the nv vectors `columns` that are there, at step (i, j). */
static void take_columns(Walk *k, uint32_t nv, uint32_t y, int64_t i, int64_t j,
                         const Expr *const *columns) {
  Context *c = k->em->c;
  for (uint32_t v = 0; v < nv; v++) {
    if (!columns[v]) continue;
    const Expr *at[] = {i64(c, y), i64(c, v)}, *old = expr_load(c, k->acc, at, 2), *e;
    const Expr *args[] = {k->w->a[i * k->w->col.steps + j], columns[v], old};
    if (!k->con->a)
      e = red_combine(c, k->con->st, old, columns[v]);
    else if (dtype_is_float(old->dtype))
      e = expr_call(c, INTRIN_fma, old->dtype, args, 3);
    else
      e = expr_add(c, old, expr_mul(c, args[0], args[1]));
    vec_push(k->em->tmp, k->out, stmt_store(k->em->a, k->con->st->span, k->acc, at, e));
  }
}

const Expr *walk_size(Context *c, const Place *x) {
  return dim_expr(c, dim_sub(c, x->hi, x->lo), DT_I64);
}

void walk_row(Walk *k, const WindowTile *tile, int64_t d, ColumnFn column, void *ctx) {
  if (k->con->a && k->place == FACTORS_BY_ROW) {
    const Expr *again = expr_call(k->em->c, INTRIN_fence, DT_UNKNOWN, NULL, 0);
    vec_push(k->em->tmp, k->out, stmt_eval(k->em->a, k->con->st->span, again));
    name_factors(k);
  }
  for (int64_t j = 0; j < k->w->col.steps; j++) {
    const Expr *columns[MAX_PARTS] = {0};
    for (uint32_t y = 0; y < tile->height; y++) {
      int64_t i = walk_step(k, d, y);
      if (i < 0) continue;
      for (uint32_t v = 0; v < tile->nv; v++)
        if (!columns[v]) columns[v] = column(ctx, j, v);
      take_columns(k, tile->nv, y, i, j, columns);
    }
  }
}

/* Whether two literals are the same number, the sign of zero included. */
static bool same_literal(const Expr *x, const Expr *y) {
  if (x->kind == EXPR_FLOAT && y->kind == EXPR_FLOAT)
    return x->f == y->f && !signbit(x->f) == !signbit(y->f);
  return x->kind == EXPR_INT && y->kind == EXPR_INT && x->i == y->i;
}

bool walk_skips_pad(const Walk *k) {
  const Stage *st = k->con->st;
  if (k->con->a) return factor_is_finite(k->em->lc, k->con, k->con->a);
  if (st->red == RED_ADD) return is_zero(k->con->pad) && is_zero(st->init);
  return same_literal(k->con->pad, st->init);
}
