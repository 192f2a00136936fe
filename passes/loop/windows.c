/* Windows, row by row of what they read.
 *
 *   C[c, y, x] += A[c, i, j] * B[c, 2y + i - 1, 2x + j - 1]    (a depthwise convolution)
 *
 *   for each row of B that a tile of rows y needs:
 *     load it whole; where columns are 2 apart, split it by shuffles into the even and the odd ones
 *     for each j: the row, or the even or odd ones, moved by some lanes
 *     for each (y, i) that read this row, each j: acc[y] += A[i, j] * that
 *
 * Every element is loaded once for a tile, aligned as its row is, and the padding needs no copy: a
 * vector before or after the row is zero, so is a row above or below the image. Where A is known to
 * be finite, what would be multiplied with such a row is left out.
 */
#include "passes/loop/contraction.h"

#define MAX_STEPS 32
#define MIN_HEIGHT 3
#define MAX_HEIGHT 7
#define MAX_PARTS 40   /* vectors of a row by residues */
#define COLUMN_TILES 2 /* each is code of its own */

/* An index of B as step * (row or column) + k_step * k + rest. */
typedef struct {
  uint32_t k; /* by its number */
  int64_t step, k_step, rest, lo, hi;
} Index;

static bool take(Context *c, const Dim **d, const Var *v, int64_t *step) {
  const Dim *coef;
  return dim_linear(c, *d, v, &coef, d) && dim_is_const(coef, step);
}

/* The index in which `axis` occurs. */
static bool find_index(Context *c, const Padding *p, const Contraction *con, const Axis *axis,
                       Index *x) {
  int64_t step, n, steps;
  for (uint32_t i = 0; i < p->n; i++) {
    const Dim *d = p->inside[i].at;
    if (!dim_uses_var(d, axis->var)) continue;
    *x = (Index){.k = con->nk, .lo = p->inside[i].lo, .hi = p->inside[i].hi};
    if (!take(c, &d, axis->var, &x->step) || x->step < 1) return false;
    for (uint32_t k = 0; k < con->nk; k++) {
      if (!take(c, &d, con->k[k].var, &step)) return false;
      if (!step) continue;
      if (step < 0 || x->k < con->nk) return false;
      x->k = k;
      x->k_step = step;
    }
    for (uint32_t a = 0; a < con->st->naxes; a++) /* axes of a single step stand at 0 */
      if (axis_is_unit(&con->st->axes[a]) && !take(c, &d, con->st->axes[a].var, &step))
        return false;
    if (x->k == con->nk || !dim_is_const(d, &x->rest) || !expr_const_int(c, axis->extent, &n) ||
        !expr_const_int(c, con->k[x->k].extent, &steps))
      return false;
    if (x->lo < x->rest - steps * x->k_step) x->lo = x->rest;
    int64_t most = x->rest + (n - 1) * x->step + (steps - 1) * x->k_step + 1;
    if (x->hi > most) x->hi = most;
    return x->lo < x->hi;
  }
  return false;
}

bool padding_of_windows(Emit *em, const Padding *p, Contraction *con) {
  Context *c = em->c;
  const Variant *v = em->s->v;
  Index row, col;
  int64_t n, k, pitch, off_row, off_k, off_j;
  if (!con->b_rows || con->nrows || con->nk != 2 || p->n != 2 || !em->use_mask || con->lanes > 64 ||
      !expr_const_int(c, con->n.extent, &n) || !expr_const_int(c, con->ktotal, &k) ||
      k > MAX_STEPS || !find_index(c, p, con, &con->m, &row) ||
      !find_index(c, p, con, &con->n, &col) || col.step > 2 || row.k == col.k)
    return false;
  const Expr *load = factor_load(con->b);
  const Dim *off = flat_offset(em->lc, load->buf, load->arg);
  int64_t unit;
  if (!take(c, &off, con->m.var, &off_row) || !take(c, &off, con->k[row.k].var, &off_k) ||
      !take(c, &off, con->k[col.k].var, &off_j) || !take(c, &off, con->n.var, &unit) ||
      unit != col.step || off_j != col.k_step || off_row % row.step)
    return false;
  pitch = off_row / row.step;
  if (off_k != row.k_step * pitch) return false;
  if (row.step == 1 && col.step == 1 && expr_const_int(c, con->m.extent, &k) &&
      columns_fit(v, con->lanes, k, n))
    return false;
  if (col.hi - col.lo > col.step * MAX_PARTS * (int64_t)con->lanes) return false;
  /* registers: the sums, a row, a column of windows, and A */
  int64_t regs = (int64_t)v->vector_regs - 6, nv = (n + con->lanes - 1) / con->lanes;
  int64_t most = regs / (MIN_HEIGHT + 1 + col.step);
  if (!most || nv > COLUMN_TILES * most) return false;
  if (nv > most) nv = (nv + COLUMN_TILES - 1) / COLUMN_TILES;
  int64_t height = (regs - (col.step + 1) * nv) / nv;
  if (height > MAX_HEIGHT) height = MAX_HEIGHT;
  Windows *w = ARENA_NEW(em->tmp, Windows);
  *w = (Windows){.nv = (uint32_t)nv,
                 .height = (uint32_t)height,
                 .row_k = row.k,
                 .col_k = col.k,
                 .row_step = row.step,
                 .row_k_step = row.k_step,
                 .row_first = row.rest - row.lo,
                 .rows = row.hi - row.lo,
                 .col_step = col.step,
                 .col_k_step = col.k_step,
                 .col_first = col.rest - col.lo,
                 .cols = col.hi - col.lo,
                 .pitch = pitch};
  con->windows = w;
  con->bounds[0] = (Bound){.row = con->m.var,
                           .tiled = true,
                           .k = row.k,
                           .row_step = row.step,
                           .k_step = row.k_step,
                           .lo = row.lo - row.rest,
                           .hi = row.hi - row.rest};
  con->nbounds = 1;
  return true;
}

/* ---- the steps of a tile ---- */

typedef struct {
  Emit *em;
  const Contraction *con;
  const Windows *w;
  StmtVec *out;
  const Expr *zero; /* a part of zeros */
  bool skips;       /* products of A with zeros add nothing: it is finite */
  Buffer *b;
  const Expr *start; /* of the row at hand in b; NULL: it is zero */
  const Expr
      *parts[2][MAX_PARTS]; /* of it, or of its even columns and its odd ones; NULL: not yet */
} Walk;

/* Parts of rows are vectors of integers, as which some machines (x86) move lanes from one register
 * to the next in one step and keep both. */
static const Expr *as_bits(Context *c, const Expr *e) {
  DType bits = dtype_lanes(DT(DTYPE_INT, e->dtype.bits), e->dtype.lanes);
  return dtype_is_float(e->dtype) ? expr_call(c, INTRIN_reinterpret, bits, &e, 1) : e;
}

static const Expr *as_column(const Walk *k, const Expr *part) {
  DType d = dtype_lanes(k->con->d, k->con->lanes);
  if (dtype_eq(part->dtype, d)) return part;
  if (part == k->zero) return part->arg[0];
  return expr_call(k->em->c, INTRIN_reinterpret, d, &part, 1);
}

static const Expr *name_value(Walk *k, const char *name, const Expr *e) {
  Var *v = var_create(k->em->c, name, e->dtype);
  vec_push(k->em->tmp, k->out, stmt_let(k->em->a, k->con->st->span, v, e));
  return v->expr;
}

/* Vector i of the row, zero after its end. */
static const Expr *load_part(Walk *k, int64_t i) {
  Context *c = k->em->c;
  uint32_t lanes = k->con->lanes;
  int64_t left = k->w->cols - i * lanes;
  if (left <= 0) return k->zero;
  const Expr *at = expr_simplify(c, expr_add(c, k->start, i64(c, i * lanes)));
  at = expr_ramp(c, at, i64(c, 1), lanes);
  const Expr *mask = lane_mask(c, i64(c, 0), i64(c, left), lanes);
  const Expr *v =
      left >= lanes ? expr_load(c, k->b, &at, 1) : expr_load_pred(c, k->b, &at, 1, mask);
  DType wide = dtype_lanes(k->con->d, lanes);
  return name_value(k, "part", as_bits(c, dtype_eq(v->dtype, wide) ? v : expr_cast(c, wide, v)));
}

/* Vector i of the row's columns of residue r, zero outside of it. */
static const Expr *find_part(Walk *k, int64_t r, int64_t i) {
  Context *c = k->em->c;
  uint32_t lanes = k->con->lanes;
  int64_t step = k->w->col_step, pick[64];
  if (!k->start || i < 0 || i * step * lanes >= k->w->cols) return k->zero;
  if (k->parts[r][i]) return k->parts[r][i];
  const Expr *loaded[2] = {load_part(k, i * step), NULL};
  k->parts[0][i] = loaded[0];
  if (step == 1) return loaded[0];
  loaded[1] = load_part(k, i * step + 1);
  for (int64_t x = 0; x < step; x++) {
    for (uint32_t l = 0; l < lanes; l++) pick[l] = 2 * (int64_t)l + x;
    k->parts[x][i] = name_value(k, x ? "odd" : "even", expr_shuffle(c, loaded, 2, pick, lanes));
  }
  return k->parts[r][i];
}

/* The column of step j of the windows, for vector i of them; NULL: zero. */
static const Expr *window_column(Walk *k, int64_t j, int64_t i) {
  Context *c = k->em->c;
  int64_t lanes = k->con->lanes, step = k->w->col_step, pick[64];
  int64_t at = k->w->col_first + j * k->w->col_k_step, r = at & (step - 1);
  int64_t first = i * lanes + (at - r) / step, shift = (first % lanes + lanes) % lanes;
  int64_t part = (first - shift) / lanes;
  const Expr *both[2] = {find_part(k, r, part), k->zero};
  if (shift) both[1] = find_part(k, r, part + 1);
  if (both[0] == k->zero && both[1] == k->zero && k->skips) return NULL;
  if (both[0] == both[1] || !shift) return as_column(k, both[0]);
  for (int64_t l = 0; l < lanes; l++) pick[l] = l + shift;
  const Expr *moved = expr_shuffle(c, both, 2, pick, (uint32_t)lanes);
  return name_value(k, "column", as_column(k, moved));
}

/* acc[y, *] += a * columns, those that are there. */
static void add_products(Walk *k, Buffer *acc, uint32_t nv, uint32_t y, const Expr *a,
                         const Expr *const *columns) {
  Context *c = k->em->c;
  for (uint32_t v = 0; v < nv; v++) {
    if (!columns[v]) continue;
    const Expr *at[] = {i64(c, y), i64(c, v)}, *sum = expr_load(c, acc, at, 2);
    const Expr *args[] = {a, columns[v], sum};
    const Expr *e = dtype_is_float(sum->dtype) ? expr_call(c, INTRIN_fma, sum->dtype, args, 3)
                                               : expr_add(c, sum, expr_mul(c, a, columns[v]));
    vec_push(k->em->tmp, k->out, stmt_store(k->em->a, k->con->st->span, acc, at, e));
  }
}

/* A at all steps: ni * nj vectors. */
static void name_factors(Walk *k, int64_t ni, int64_t nj, const Expr **a) {
  Emit *em = k->em;
  const Contraction *con = k->con;
  for (int64_t i = 0; i < ni; i++)
    for (int64_t j = 0; j < nj; j++) {
      emit_bind(em, con->k[k->w->row_k].var, i64(em->c, i));
      emit_bind(em, con->k[k->w->col_k].var, i64(em->c, j));
      const Expr *e = expr_broadcast(em->c, emit_prepare(em, con->a), con->lanes);
      a[i * nj + j] = name_value(k, "a", e);
    }
}

/* Where the row of B begins that `row` reads as the first of its window. */
static const Expr *find_start(Walk *k, const Expr *row) {
  Emit *em = k->em;
  Context *c = em->c;
  const Contraction *con = k->con;
  for (uint32_t i = 0; i < con->nk; i++) emit_bind(em, con->k[i].var, i64(c, 0));
  emit_bind(em, con->m.var, row);
  emit_bind(em, con->n.var, i64(c, 0));
  const Expr *load = emit_prepare(em, factor_load(con->b));
  emit_bind(em, con->n.var, con->n.var->expr);
  k->b = load->buf;
  return expr_sub(c, load->arg[0], i64(c, k->w->col_first));
}

Stmt *windows_steps(Emit *em, const Contraction *con, Buffer *acc, const WindowTile *t) {
  Context *c = em->c;
  const Windows *w = con->windows;
  StmtVec out = {0};
  int64_t ni = 0, nj = 0;
  expr_const_int(c, con->k[w->row_k].extent, &ni);
  expr_const_int(c, con->k[w->col_k].extent, &nj);
  const Expr *zero = as_bits(c, expr_broadcast(c, expr_lit(c, con->d, 0), con->lanes)),
             *a[MAX_STEPS];
  bool skips = factor_is_finite(em->lc, con, con->a);
  Walk k = {.em = em, .con = con, .w = w, .out = &out, .zero = zero, .skips = skips};
  name_factors(&k, ni, nj, a);
  const Expr *start = find_start(&k, t->row);
  int64_t last = (t->height - 1) * w->row_step + (ni - 1) * w->row_k_step;
  for (int64_t d = 0; d <= last; d++) {
    int64_t number = t->first * w->row_step + d + w->row_first;
    bool inside = t->first < 0 || (number >= 0 && number < w->rows);
    k.start = inside ? expr_add(c, start, i64(c, d * w->pitch)) : NULL;
    memset(k.parts, 0, sizeof k.parts);
    for (int64_t j = 0; j < nj; j++) {
      const Expr *columns[MAX_PARTS] = {0};
      for (uint32_t y = 0; y < t->height; y++) {
        int64_t i = d - y * w->row_step;
        if (i < 0 || i % w->row_k_step || (i /= w->row_k_step) >= ni) continue;
        for (uint32_t v = 0; v < t->nv; v++)
          if (!columns[v]) columns[v] = window_column(&k, j, (int64_t)t->vector + v);
        add_products(&k, acc, t->nv, y, a[i * nj + j], columns);
      }
    }
  }
  return seq_of(em->a, &out);
}
