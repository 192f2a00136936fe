/* Windows whose place in the image is known when they run.
 *
 *   for tiles of which all rows and columns that they read exist:
 *     for each row that the tile reads: load what is needed of it
 *   for the others:
 *     mask[j] = the columns of step j that exist
 *     for each row that the tile reads: if it exists: load under masks, else: padding
 *
 * Most tiles of a large image ask nothing; a small image costs a mask for each step of the windows,
 * not for each load. Vectors are loaded where they begin, at any address: what window_parts.c has
 * by shuffles needs rows of a known number of vectors. Where such a load takes two lines of cache,
 * only the first and the last step load; those between pick their lanes from these two.
 */
#include "passes/loop/windows.h"

#define MAX_LOADS (2 * MAX_STEPS) /* of a row, for one vector of results */
#define FAR_COLUMN (1 << 30)      /* columns are counted up to here */
#define CACHE_LINE 64

/* What is loaded of a row for a vector of results, `at` elements after the window's begin. */
typedef struct {
  int64_t at;
  bool single;       /* the first element of it, in all lanes */
  const Expr *mask;  /* NULL: all is there */
  const Expr *value; /* of the row at hand; NULL: not yet */
} Piece;

typedef struct {
  Walk k;
  int64_t d;                  /* the row at hand, of those of the tile */
  Parts parts;                /* where rows are a known number of them; else: */
  const Expr *start;          /* of the tile in b */
  const Expr *column;         /* of its first element, counted from the first one inside */
  const Expr *row;            /* the same of its first row */
  const Expr *rows, *columns; /* how many are inside */
  Piece pieces[MAX_LOADS];
  uint32_t npieces;
  bool beside; /* three columns of neighbours: one load, and one element on either side */
} Tour;

static const Expr *plus(Context *c, const Expr *e, int64_t k) {
  return expr_simplify(c, expr_add(c, e, i64(c, k)));
}

/* How far after the window's begin step j loads; where columns are 2 apart, its vector is every
 * second element of two vectors from there on, those after the first when `odd`. */
static int64_t step_begin(const Walk *k, int64_t j, bool *odd) {
  int64_t at = j * k->w->col.k_step;
  *odd = k->w->col.step == 2 && at % 2;
  return at - *odd;
}

/* Whether vectors are as long as a line of cache, so that almost all are in two, and lanes of two
 * of them are picked in one instruction sooner than most elements of a third are loaded again. */
static bool spans_lines(const Walk *k) {
  int64_t lanes = k->con->lanes, bytes = (int64_t)dtype_bytes(k->b->dtype);
  return k->w->col.step == 1 && bytes >= 4 && lanes * bytes >= CACHE_LINE;
}

/* Whether all that step j takes is in what the first and the last step load. */
static bool lies_between(const Walk *k, int64_t j) {
  const Place *col = &k->w->col;
  return spans_lines(k) && j > 0 && j < col->steps - 1 &&
         (col->steps - 1) * col->k_step <= k->con->lanes;
}

/* Whether windows are three columns wide: what the first and the last take is what the one in the
 * middle loads, but for one element. */
static bool has_neighbours(const Walk *k) {
  return spans_lines(k) && k->w->col.steps == 3 && k->w->col.k_step == 1;
}

static uint32_t find_piece(Tour *t, int64_t at, bool single) {
  uint32_t i = 0;
  while (i < t->npieces && (t->pieces[i].at != at || t->pieces[i].single != single)) i++;
  if (i == t->npieces) t->pieces[t->npieces++] = (Piece){.at = at, .single = single};
  return i;
}

/* What step j of such windows loads for vector v of the results. */
static uint32_t find_beside(Tour *t, int64_t j, int64_t v) {
  int64_t lanes = t->k.con->lanes;
  return find_piece(t, v * lanes + (j == 2 ? lanes + 1 : j), j != 1);
}

/* Elements [at, at + lanes) of a row that exist. Counted from a place near the tile, or wherever
 * the row is long: 32 bits do. */
static const Expr *name_mask(Tour *t, int64_t at) {
  Context *c = t->k.em->c;
  uint32_t lanes = t->k.con->lanes;
  const Expr *first = expr_cast(c, DT_U32, plus(c, t->column, at));
  const Expr *exists = expr_binary(c, EXPR_LT, expr_ramp(c, first, expr_int(c, DT_U32, 1), lanes),
                                   expr_broadcast(c, expr_cast(c, DT_U32, t->columns), lanes));
  return walk_name(&t->k, "inside", exists);
}

/* 0 <= at < size */
static const Expr *is_within(Context *c, const Expr *at, const Expr *size) {
  return expr_binary(c, EXPR_LT, expr_cast(c, DT_U64, at), expr_cast(c, DT_U64, size));
}

/* Piece i of the row at hand. */
static const Expr *load_piece(Tour *t, uint32_t i) {
  Walk *k = &t->k;
  Context *c = k->em->c;
  Piece *p = &t->pieces[i];
  uint32_t lanes = k->con->lanes;
  if (p->value) return p->value;
  const Expr *at = plus(c, t->start, p->at), *v;
  at = expr_simplify(c, expr_add(c, at, expr_mul(c, k->w->pitch, i64(c, t->d))));
  if (!p->single) at = expr_ramp(c, at, i64(c, 1), lanes);
  v = p->mask ? expr_load_pred(c, k->b, &at, 1, p->mask) : expr_load(c, k->b, &at, 1);
  if (p->single) v = expr_broadcast(c, v, lanes);
  DType wide = dtype_lanes(k->con->d, lanes);
  if (!dtype_eq(v->dtype, wide)) v = expr_cast(c, wide, v);
  if (p->mask && !is_zero(k->con->pad)) v = expr_select(c, p->mask, v, k->pad);
  return p->value = walk_name(k, "piece", v);
}

/* What vector v of the results takes of the row at step j, where windows are three columns wide. */
static const Expr *pick_beside(Tour *t, int64_t j, uint32_t v) {
  Walk *k = &t->k;
  int64_t lanes = k->con->lanes, pick[64];
  const Expr *middle = load_piece(t, find_beside(t, 1, v));
  if (j == 1) return middle;
  const Expr *beside = load_piece(t, find_beside(t, j, v));
  const Expr *both[] = {j ? middle : beside, j ? beside : middle};
  for (int64_t l = 0; l < lanes; l++) pick[l] = j ? l + 1 : lanes - 1 + l;
  return walk_name(k, "column", expr_shuffle(k->em->c, both, 2, pick, (uint32_t)lanes));
}

/* What vector v of the results takes of the row at step j, which is between the first and the last.
 */
static const Expr *pick_between(Tour *t, int64_t j, uint32_t v) {
  Walk *k = &t->k;
  int64_t lanes = k->con->lanes, begin = v * lanes, pick[64];
  int64_t at = j * k->w->col.k_step, last = (k->w->col.steps - 1) * k->w->col.k_step;
  const Expr *both[] = {load_piece(t, find_piece(t, begin, false)),
                        load_piece(t, find_piece(t, begin + last, false))};
  for (int64_t l = 0; l < lanes; l++) pick[l] = at + l < lanes ? at + l : lanes + at + l - last;
  return walk_name(k, "column", expr_shuffle(k->em->c, both, 2, pick, (uint32_t)lanes));
}

/* The same of any step. */
static const Expr *find_column(void *ctx, int64_t j, uint32_t v) {
  Tour *t = ctx;
  Walk *k = &t->k;
  Context *c = k->em->c;
  int64_t lanes = k->con->lanes, step = k->w->col.step, pick[64];
  bool odd;
  if (t->beside) return pick_beside(t, j, v);
  if (lies_between(k, j)) return pick_between(t, j, v);
  int64_t at = step_begin(k, j, &odd) + v * lanes * step;
  const Expr *both[2] = {load_piece(t, find_piece(t, at, false)), NULL};
  if (step == 1) return both[0];
  both[1] = load_piece(t, find_piece(t, at + lanes, false));
  for (int64_t l = 0; l < lanes; l++) pick[l] = 2 * l + odd;
  return walk_name(k, "column", expr_shuffle(c, both, 2, pick, (uint32_t)lanes));
}

static const Expr *find_pad(void *ctx, int64_t j, uint32_t v) {
  (void)j;
  (void)v;
  return ((const Walk *)ctx)->pad;
}

/* Row d of the tile into all results that read it, or padding in its place. */
static Stmt *take_row(Tour *t, const WindowTile *tile, int64_t d, bool exists) {
  Walk *k = &t->k;
  StmtVec out = {0}, *around = k->out;
  k->out = &out;
  t->d = d;
  for (uint32_t i = 0; i < t->npieces; i++) t->pieces[i].value = NULL;
  if (!exists) {
    walk_row(k, tile, d, find_pad, k);
  } else if (k->w->vectors) {
    parts_row(&t->parts, d, true);
    walk_row(k, tile, d, parts_column, &t->parts);
  } else {
    walk_row(k, tile, d, find_column, t);
  }
  k->out = around;
  return out.n ? seq_of(k->em->a, &out) : NULL;
}

/* Where element 0 of the window of row or column `at` is, counted from the first one inside. */
static const Expr *place_of(Context *c, const Place *x, const Expr *at) {
  const Expr *e = plus(c, expr_mul(c, at, i64(c, x->step)), x->rest);
  return expr_simplify(c, expr_sub(c, e, dim_expr(c, x->lo, DT_I64)));
}

/* Whether row d of a tile exists wherever the tile is, as all of its results do: not the first
 * ones, of which one may lie above the image, nor the last ones. */
static bool always_exists(const Tour *t, const WindowTile *tile, int64_t d) {
  Context *c = t->k.em->c;
  const Place *x = &t->k.w->row;
  const Expr *m = t->k.con->m.extent, *first = place_of(c, x, i64(c, 0));
  if (tile->guard) return false;
  const Expr *last = place_of(c, x, plus(c, m, -(int64_t)tile->height));
  const Dim *low = expr_dim(c, plus(c, first, d)), *high = expr_dim(c, plus(c, last, d));
  return prove_le(c, NULL, dim_const(c, 0), low) == PROOF_YES &&
         prove_lt(c, NULL, high, expr_dim(c, walk_size(c, x))) == PROOF_YES;
}

/* All rows, asked whether they exist unless all is inside. */
static void take_rows(Tour *t, const WindowTile *tile) {
  Walk *k = &t->k;
  Emit *em = k->em;
  Context *c = em->c;
  for (int64_t d = 0; d <= walk_last(k, tile->height); d++) {
    Stmt *row = take_row(t, tile, d, true);
    if (!row) continue;
    if (!tile->rows_inside && !always_exists(t, tile, d)) {
      const Expr *exists = is_within(c, plus(c, t->row, d), t->rows);
      Stmt *none = walk_skips_pad(k) ? NULL : take_row(t, tile, d, false);
      row = stmt_if(em->a, k->con->st->span, exists, row, none);
    }
    vec_push(em->tmp, k->out, row);
  }
}

/* Finds the pieces that a row is loaded in, so that each has a mask before the first row. */
static void list_pieces(Tour *t, const WindowTile *tile) {
  const Place *col = &t->k.w->col;
  bool odd;
  for (int64_t j = 0; j < col->steps; j++) {
    if (lies_between(&t->k, j)) continue;
    for (int64_t v = 0; v < tile->nv * col->step; v++)
      find_piece(t, step_begin(&t->k, j, &odd) + v * t->k.con->lanes, false);
  }
}

/* Names what is asked of the columns of a tile that may lie at the border. */
static void name_columns(Tour *t, const WindowTile *tile) {
  Context *c = t->k.em->c;
  const Place *col = &t->k.w->col;
  const Expr *far = i64(c, FAR_COLUMN), *at = place_of(c, col, tile->col);
  const Expr *left = expr_min(c, expr_sub(c, walk_size(c, col), at), far);
  t->column = walk_name(&t->k, "column", expr_min(c, at, far));
  t->columns = walk_name(&t->k, "columns", expr_add(c, t->column, left));
  list_pieces(t, tile);
  for (uint32_t i = 0; i < t->npieces; i++) t->pieces[i].mask = name_mask(t, t->pieces[i].at);
}

Stmt *borders_steps(Emit *em, const Contraction *con, Buffer *acc, const WindowTile *tile) {
  Context *c = em->c;
  const Windows *w = con->windows;
  StmtVec out = {0};
  Tour t = {0};
  walk_begin(&t.k, em, con, acc, &out);
  if (w->vectors) {
    parts_open(&t.parts, &t.k, tile);
  } else {
    t.start = walk_name(&t.k, "start", walk_start(&t.k, tile->row, tile->col));
    t.beside = tile->columns_inside && has_neighbours(&t.k);
  }
  if (!tile->rows_inside) {
    t.row = walk_name(&t.k, "row", place_of(c, &w->row, tile->row));
    t.rows = walk_size(c, &w->row);
  }
  if (!w->vectors && !tile->columns_inside) name_columns(&t, tile);
  take_rows(&t, tile);
  return seq_of(em->a, &out);
}

const Expr *borders_rows(Emit *em, const Contraction *con, const Expr *row, uint32_t height) {
  Context *c = em->c;
  const Place *x = &con->windows->row;
  Walk k;
  walk_open(&k, em, con, NULL, NULL);
  const Expr *first = place_of(c, x, row);
  return expr_binary(
      c, EXPR_AND, expr_binary(c, EXPR_LE, i64(c, 0), first),
      expr_binary(c, EXPR_LT, plus(c, first, walk_last(&k, height)), walk_size(c, x)));
}

void borders_columns(Emit *em, const Contraction *con, const Expr **first, const Expr **count,
                     StmtVec *out) {
  Context *c = em->c;
  const Windows *w = con->windows;
  Walk k;
  walk_open(&k, em, con, NULL, out);
  const Expr *zero = i64(c, 0);
  bool odd;
  int64_t width = (int64_t)w->nv * con->lanes, move = width * w->col.step;
  int64_t end = step_begin(&k, w->col.steps - 1, &odd) + move; /* of what a tile loads */
  const Expr *at = place_of(c, &w->col, zero);                 /* of tile p: p * move more */
  const Expr *before = expr_ceildiv(c, expr_max(c, expr_sub(c, zero, at), zero), move);
  const Expr *after = plus(c, expr_sub(c, walk_size(c, &w->col), at), move - end);
  after = expr_min(c, expr_floordiv(c, after, i64(c, move)),
                   expr_floordiv(c, con->n.extent, i64(c, width)));
  *first = walk_name(&k, "first", expr_simplify(c, before));
  after = expr_max(c, expr_sub(c, expr_simplify(c, after), *first), zero);
  *count = walk_name(&k, "count", after);
}
