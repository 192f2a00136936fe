/* Windows whose rows are taken in parts: vectors that follow each other from the row's begin on.
 *
 *   for each row that a tile reads:
 *     load it whole; where columns are 2 apart, split it by shuffles into the even and the odd ones
 *     for each step j of the windows: a part, moved by some lanes into the next one
 *
 * Every element is loaded once for a tile, aligned as its row is, and the padding needs no copy: a
 * vector before or after the row is padding. For rows of a known length, and for those of which at
 * least the number of parts is known: then the last part is loaded under a mask.
 */
#include "passes/loop/windows.h"

/* Parts of rows are vectors of integers, as which some machines (x86) move lanes from one register
 * to the next in one step and keep both. */
static const Expr *as_bits(Context *c, const Expr *e) {
  DType bits = dtype_lanes(DT(DTYPE_INT, e->dtype.bits), e->dtype.lanes);
  return dtype_is_float(e->dtype) ? expr_call(c, INTRIN_reinterpret, bits, &e, 1) : e;
}

static const Expr *as_column(const Parts *p, const Expr *part) {
  const Expr *pad = p->k->pad;
  if (part == p->pad) return pad;
  if (dtype_eq(part->dtype, pad->dtype)) return part;
  return expr_call(p->k->em->c, INTRIN_reinterpret, pad->dtype, &part, 1);
}

void parts_open(Parts *p, Walk *k, const WindowTile *tile) {
  Context *c = k->em->c;
  const Windows *w = k->w;
  int64_t lanes = k->con->lanes, whole = w->col.step * ((int64_t)w->vectors - 1);
  *p = (Parts){.k = k, .pad = as_bits(c, k->pad), .skips = walk_skips_pad(k)};
  p->vector = tile->vector;
  p->begin = expr_sub(c, walk_start(k, tile->row, i64(c, 0)), i64(c, w->first_col));
  if (w->is_sized) whole = w->cols / lanes;
  p->n = w->is_sized ? (w->cols + lanes - 1) / lanes : w->col.step * (int64_t)w->vectors;
  const Expr *cols = w->is_sized ? i64(c, w->cols) : walk_size(c, &w->col);
  for (int64_t i = whole; i < p->n; i++) {
    const Expr *left = expr_simplify(c, expr_sub(c, cols, i64(c, i * lanes)));
    p->mask[i] = lane_mask(c, i64(c, 0), left, (uint32_t)lanes);
  }
}

void parts_row(Parts *p, int64_t d, bool exists) {
  Context *c = p->k->em->c;
  p->start = exists ? expr_add(c, p->begin, expr_mul(c, p->k->w->pitch, i64(c, d))) : NULL;
  memset(p->parts, 0, sizeof p->parts);
}

/* Vector i of the row, padding after its end. */
static const Expr *load_part(Parts *p, int64_t i) {
  Walk *k = p->k;
  Context *c = k->em->c;
  uint32_t lanes = k->con->lanes;
  if (i >= p->n) return p->pad;
  const Expr *at = expr_simplify(c, expr_add(c, p->start, i64(c, i * lanes)));
  at = expr_ramp(c, at, i64(c, 1), lanes);
  const Expr *mask = p->mask[i];
  const Expr *v = mask ? expr_load_pred(c, k->b, &at, 1, mask) : expr_load(c, k->b, &at, 1);
  DType wide = dtype_lanes(k->con->d, lanes);
  if (!dtype_eq(v->dtype, wide)) v = expr_cast(c, wide, v);
  if (mask && !is_zero(k->con->pad)) v = expr_select(c, mask, v, k->pad);
  return walk_name(k, "part", as_bits(c, v));
}

/* Vector i of the row's columns of residue r, padding outside of it. */
static const Expr *find_part(Parts *p, int64_t r, int64_t i) {
  Walk *k = p->k;
  Context *c = k->em->c;
  uint32_t lanes = k->con->lanes;
  int64_t step = k->w->col.step, pick[64];
  if (!p->start || i < 0 || i * step >= p->n) return p->pad;
  if (p->parts[r][i]) return p->parts[r][i];
  const Expr *loaded[2] = {load_part(p, i * step), NULL};
  p->parts[0][i] = loaded[0];
  if (step == 1) return loaded[0];
  loaded[1] = load_part(p, i * step + 1);
  for (int64_t x = 0; x < step; x++) {
    for (uint32_t l = 0; l < lanes; l++) pick[l] = 2 * (int64_t)l + x;
    p->parts[x][i] = walk_name(k, x ? "odd" : "even", expr_shuffle(c, loaded, 2, pick, lanes));
  }
  return p->parts[r][i];
}

const Expr *parts_column(void *ctx, int64_t j, uint32_t v) {
  Parts *p = ctx;
  Walk *k = p->k;
  Context *c = k->em->c;
  int64_t lanes = k->con->lanes, step = k->w->col.step, pick[64];
  int64_t at = k->w->first_col + j * k->w->col.k_step, r = at & (step - 1);
  int64_t first = (int64_t)(p->vector + v) * lanes + (at - r) / step;
  int64_t shift = (first % lanes + lanes) % lanes, part = (first - shift) / lanes;
  const Expr *both[2] = {find_part(p, r, part), p->pad};
  if (shift) both[1] = find_part(p, r, part + 1);
  if (both[0] == p->pad && both[1] == p->pad && p->skips) return NULL;
  if (both[0] == both[1] || !shift) return as_column(p, both[0]);
  for (int64_t l = 0; l < lanes; l++) pick[l] = l + shift;
  const Expr *moved = expr_shuffle(c, both, 2, pick, (uint32_t)lanes);
  return walk_name(k, "column", as_column(p, moved));
}

Stmt *windows_steps(Emit *em, const Contraction *con, Buffer *acc, const WindowTile *t) {
  const Windows *w = con->windows;
  StmtVec out = {0};
  Walk k;
  Parts p;
  walk_begin(&k, em, con, acc, &out);
  parts_open(&p, &k, t);
  for (int64_t d = 0; d <= walk_last(&k, t->height); d++) {
    int64_t number = t->first * w->row.step + d + w->first_row;
    parts_row(&p, d, t->first < 0 || (number >= 0 && number < w->rows));
    walk_row(&k, t, d, parts_column, &p);
  }
  return seq_of(em->a, &out);
}
