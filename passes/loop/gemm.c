/* Loops around register tiles: the kernel of a contraction.
 *
 * Order: blocks of rows, panels, a panel's tiles: the block of A stays in L2, a panel of B in L1.
 * What is left of the rows goes with the last block. The tasks of a parallel loop are panels of a
 * block. Windows go along their rows instead, as these lie in memory.
 */
#include "passes/loop/tile.h"

#define BLOCK_ROWS 96
#define GROUP_PANELS 8      /* fewer aren't cut in groups */
#define MANY_TASKS 64       /* so many share work evenly among a few threads */
#define TASK_WORK (1 << 18) /* multiply-adds; with fewer a thread doesn't pay */

/* Columns from `first` in tiles of nv vectors; they are a multiple of `align` from the first. */
typedef struct {
  const Expr *first, *count;
  uint32_t nv, align, full;
  bool masked;
} Columns;

typedef struct {
  Kernel *kn;
  const RowPlan *plan;
  bool parallel;
  const Columns *along; /* of windows: all tiles of a row follow each other; or NULL */
  uint32_t nalong;
  Tile tile;         /* what all tiles of the columns share */
  const Expr *first; /* number of the first tile of the row (of con->rows) at hand, or NULL */
} Sweep;

/* Rows of a block of A: half of L2. */
static uint32_t block_rows(const Kernel *kn) {
  int64_t k = 512, rows;
  expr_const_int(kn->em->c, kn->con->ktotal, &k);
  if (kn->kb && k > K_BLOCK) k = K_BLOCK;
  rows = kn->em->s->v->l2_bytes / 2 / ((k > 0 ? k : 1) * (int64_t)dtype_bytes(kn->con->d));
  return rows < BLOCK_ROWS ? BLOCK_ROWS : rows > 2 * BLOCK_ROWS ? 2 * BLOCK_ROWS : (uint32_t)rows;
}

static Tile columns_tile(Kernel *kn, const Columns *cols) {
  return (Tile){
      .kn = kn, .nv = cols->nv, .align = cols->align, .masked = cols->masked, .full = cols->full};
}

/* t's tile at `number`, for v in [0, count). */
static Stmt *sweep_part(const Tile *t, const Columns *cols, Var *v, const Expr *number,
                        const Expr *count) {
  Kernel *kn = t->kn;
  Context *c = kn->em->c;
  Tile at = *t;
  at.col = expr_mul(c, number, i64(c, (int64_t)cols->nv * kn->con->lanes));
  at.col = simp_add(c, cols->first, at.col);
  return loop_of(kn->em->lc, kn->con->st->span, v, count, FOR_SERIAL, emit_tile(&at));
}

/* The tiles of those columns in t's rows, which exist: of the first columns, first the tiles inside
 * of the padding. */
static Stmt *sweep_inside(const Tile *t, const Columns *cols) {
  Kernel *kn = t->kn;
  Context *c = kn->em->c;
  Var *v = loop_var(c, "column"), *u = loop_var(c, "column");
  const Expr *first, *count;
  StmtVec out = {0};
  Tile at = *t;
  at.rows_inside = true;
  if (!expr_is_int(cols->first, 0) || kn->con->windows->vectors)
    return sweep_part(&at, cols, v, v->expr, cols->count);
  borders_columns(kn->em, kn->con, &first, &count, &out);
  Tile whole = at;
  whole.columns_inside = true;
  whole.masked = false;
  Stmt *s = sweep_part(&whole, cols, v, expr_add(c, v->expr, first), count);
  vec_push(kn->em->tmp, &out, s);
  const Expr *before = expr_binary(c, EXPR_LT, u->expr, first);
  const Expr *number = expr_add(c, u->expr, expr_select(c, before, i64(c, 0), count));
  s = sweep_part(&at, cols, u, number, expr_simplify(c, expr_sub(c, cols->count, count)));
  vec_push(kn->em->tmp, &out, s);
  return seq_of(kn->em->a, &out);
}

/* The tiles of all columns in t's rows. */
static Stmt *sweep_along(const Sweep *sw, const Tile *t) {
  Kernel *kn = sw->kn;
  StmtVec out = {0};
  for (uint32_t i = 0; i < sw->nalong; i++) {
    const Columns *cols = &sw->along[i];
    Var *v = loop_var(kn->em->c, "column");
    Tile at = columns_tile(kn, cols);
    at.row = t->row;
    at.height = t->height;
    at.least = t->least;
    at.first = t->first;
    Stmt *s = sweep_part(&at, cols, v, v->expr, cols->count);
    if (s && !is_guarded(&at)) {
      const Expr *inside = borders_rows(kn->em, kn->con, at.row, at.height);
      s = stmt_if(kn->em->a, kn->con->st->span, inside, sweep_inside(&at, cols), s);
    }
    if (s) vec_push(kn->em->tmp, &out, s);
  }
  return out.n ? seq_of(kn->em->a, &out) : NULL;
}

/* The segment's tiles [tile0, tile0 + count), after `before` others; fills: they fill the panel. */
static Stmt *sweep_tiles(const Sweep *sw, const RowSegment *seg, const Expr *tile0,
                         const Expr *count, const Expr *before, bool fills) {
  Kernel *kn = sw->kn;
  Context *c = kn->em->c;
  Var *v = loop_var(c, "tile");
  Tile t = sw->tile;
  const Expr *row = expr_mul(c, expr_add(c, tile0, v->expr), i64(c, seg->height));
  t.row = expr_simplify(c, expr_add(c, seg->start, row));
  t.height = seg->height;
  t.least = seg->least;
  t.first = -1;
  t.fills = fills;
  t.head = seg->head;
  t.ends = seg->border && !expr_const_int(c, seg->start, &t.first);
  if (sw->first) t.number = simp_add(c, expr_add(c, sw->first, before), v->expr);
  Stmt *body = sw->along ? sweep_along(sw, &t) : emit_tile(&t);
  return body ? loop_of(kn->em->lc, kn->con->st->span, v, count, FOR_SERIAL, body) : NULL;
}

/* What is left after `before` tiles. */
static Stmt *sweep_rest(const Sweep *sw, const Expr *before) {
  const RowPlan *plan = sw->plan;
  Kernel *kn = sw->kn;
  Context *c = kn->em->c;
  int64_t n;
  Sweep alone = *sw; /* a tile that may be the only one, of a B that is rather near than large */
  alone.first = NULL;
  if (plan->left && !kn->src.panels && !expr_const_int(c, kn->con->n.extent, &n)) sw = &alone;
  Span sp = kn->con->st->span;
  const Expr *none = i64(c, 0);
  Stmt *chain = NULL;
  StmtVec all = {0};
  for (uint32_t i = 0; i < plan->nrest; i++) {
    const RowSegment *seg = &plan->rest[i];
    Stmt *s = sweep_tiles(sw, seg, none, seg->count, before, false);
    if (!plan->left) {
      if (s) vec_push(kn->em->tmp, &all, s);
      before = simp_add(c, before, seg->count);
      continue;
    }
    const Expr *holds = expr_binary(c, EXPR_LE, plan->left, i64(c, seg->height));
    chain = chain ? stmt_if(kn->em->a, sp, holds, s, chain) : s;
  }
  if (!plan->left) return seq_of(kn->em->a, &all);
  return stmt_if(kn->em->a, sp, expr_binary(c, EXPR_GT, plan->left, none), chain, NULL);
}

/* Tiles, and rows, of what is left after the main part; where only the run tells, of one tile. */
static int64_t rest_size(Context *c, const RowPlan *plan, bool rows) {
  int64_t sum = 0, n;
  if (plan->left) return 1;
  for (uint32_t i = 0; i < plan->nrest; i++)
    if (expr_const_int(c, plan->rest[i].count, &n)) sum += rows ? n * plan->rest[i].height : n;
  return sum;
}

/* The block of rows and the panel of a task: blocks of rows within large groups of panels; or where
 * A is small, which its blocks are for threads' sake only, within a panel. Threads take tasks that
 * follow each other, so that each packs and reads panels of its own. */
static void task_place(Context *c, const Expr *task, const Expr *nblocks, const Expr *count,
                       bool small, const Expr **block, const Expr **panel) {
  int64_t np = 0;
  *block = i64(c, 0);
  *panel = task;
  if (expr_is_int(nblocks, 1)) return;
  if (small) {
    *block = expr_simplify(c, expr_floormod(c, task, nblocks));
    *panel = expr_simplify(c, expr_floordiv(c, task, nblocks));
    return;
  }
  expr_const_int(c, count, &np);
  int64_t groups = np % 4 == 0 && np >= 32 ? 4 : np % 2 == 0 && np >= GROUP_PANELS ? 2 : 1;
  const Expr *width = groups > 1 ? i64(c, np / groups) : count, *group = i64(c, 0);
  if (groups > 1) {
    const Expr *size = expr_mul(c, nblocks, width);
    group = expr_floordiv(c, task, size);
    task = expr_floormod(c, task, size);
  }
  *block = expr_simplify(c, expr_floordiv(c, task, width));
  *panel = expr_simplify(c, expr_add(c, expr_mul(c, group, width), expr_floormod(c, task, width)));
}

/* A panel that the first tile of a task fills with what it reads, for those that follow. */
static Buffer *own_panel(const Kernel *kn, uint32_t nv, StmtVec *out) {
  Emit *em = kn->em;
  const Contraction *con = kn->con;
  const Expr **shape = ARENA_ARRAY(em->c->arena, const Expr *, 1);
  const Expr *steps = kn->kb ? kn->k_block : con->ktotal;
  shape[0] = expr_simplify(em->c, expr_mul(em->c, steps, i64(em->c, nv * con->lanes)));
  Buffer *panel = buffer_create(em->c, "panel", con->d, shape, 1, "global");
  panel->align = 64;
  vec_push(em->tmp, out, stmt_alloc(em->a, con->st->span, panel));
  return panel;
}

static void sweep_columns(Sweep *sw, const Columns *cols, StmtVec *out) {
  Kernel *kn = sw->kn;
  Emit *em = kn->em;
  Context *c = em->c;
  LoopCtx *lc = em->lc;
  Span sp = kn->con->st->span;
  const RowPlan *plan = sw->plan;
  const RowSegment *seg = &plan->main;
  const Expr *count = cols->count;
  uint32_t nv = cols->nv;
  uint32_t tb = block_rows(kn) / seg->height;
  if (!tb) tb = 1;
  int64_t nt, np, rest = rest_size(c, plan, false);
  bool nt_known = expr_const_int(c, seg->count, &nt), np_known = expr_const_int(c, count, &np);
  if ((nt_known && nt == 0 && !plan->nrest) || (np_known && np == 0)) return;
  if (nt_known && nt + rest <= (int64_t)tb * 3 / 2) tb = nt ? (uint32_t)nt : 1;
  int64_t k = 256;
  expr_const_int(c, kn->con->ktotal, &k);
  int64_t work = (int64_t)seg->height * nv * kn->con->lanes * (k > 0 ? k : 1); /* of a tile */
  bool small = nt_known && (int64_t)tb >= nt;                                  /* A is one block */
  if (sw->parallel && nt_known && np_known) /* lower blocks where threads would have few tasks */
    while ((nt + tb - 1) / tb * np < MANY_TASKS && tb / 2 * work >= 2 * TASK_WORK)
      tb = (tb + 1) / 2;
  const Expr *nblocks = expr_ceildiv(c, seg->count, tb);
  if (plan->nrest) nblocks = expr_simplify(c, expr_max(c, nblocks, i64(c, 1)));
  Var *task = loop_var(c, "task");
  const Expr *block, *panel;
  task_place(c, task->expr, nblocks, count, small, &block, &panel);
  /* names for what the tiles' addresses start from */
  Var *bv = NULL, *pv = NULL;
  const Expr *be = block, *pe = panel;
  if (block->kind != EXPR_VAR && block->kind != EXPR_INT) be = (bv = loop_var(c, "block"))->expr;
  if (panel->kind != EXPR_VAR && panel->kind != EXPR_INT) pe = (pv = loop_var(c, "panel"))->expr;
  /* loops in each other, where dividing a task's number would take longer than a small tile */
  bool nested = bv && pv && !sw->parallel && (!np_known || (np < GROUP_PANELS && !nt_known));
  const Expr *tile0 = expr_mul(c, be, i64(c, tb)), *tiles = i64(c, tb);
  if (!nt_known || nt % tb) tiles = expr_min(c, tiles, expr_sub(c, seg->count, tile0));
  const Expr *col = expr_mul(c, pe, i64(c, (int64_t)nv * kn->con->lanes));
  const Contraction *con = kn->con;
  const Expr *in_block = nt_known ? i64(c, nt < (int64_t)tb ? nt : tb) : tiles;
  if (expr_is_int(nblocks, 1) || !nt_known) in_block = expr_add(c, in_block, i64(c, rest));
  if (small) in_block = i64(c, nt + rest); /* all tiles of a panel follow each other */
  sw->tile = columns_tile(kn, cols);
  sw->tile.col = simp_add(c, cols->first, col);
  sw->tile.tiles = in_block;
  int64_t column;
  if (con->windows && expr_const_int(c, cols->first, &column))
    sw->tile.vector = (uint32_t)(column / con->lanes);
  sw->first = small ? tile0 : i64(c, 0);
  if (expr_is_int(in_block, 1) && !plan->nrest) sw->first = NULL;
  Var *rows[MAX_AXES] = {0};
  if (kn->rows_inside) {
    const Expr *row_number = i64(c, 0);
    for (uint32_t i = 0; i < con->nrows; i++) {
      const Expr *extent = con->rows[i].extent;
      rows[i] = loop_var(c, con->rows[i].var->name);
      emit_bind(em, con->rows[i].var, rows[i]->expr);
      row_number = expr_add(c, expr_mul(c, row_number, extent), rows[i]->expr);
      sw->tile.tiles = expr_mul(c, sw->tile.tiles, extent);
    }
    const Expr *each = expr_add(c, small ? i64(c, nt) : tiles, i64(c, rest));
    row_number = expr_mul(c, row_number, each);
    sw->first = expr_simplify(c, small ? expr_add(c, row_number, tile0) : row_number);
  }
  StmtVec body = {0};
  const Expr *filled = i64(c, 0);
  Stmt *s;
  if (kn->src.by_task) {
    kn->src.panels = own_panel(kn, nv, &body);
    filled = i64(c, 1);
    s = sweep_tiles(sw, seg, tile0, filled, i64(c, 0), true);
    if (s) vec_push(em->tmp, &body, s);
  }
  s = sweep_tiles(sw, seg, simp_add(c, tile0, filled), simp_sub(c, tiles, filled), filled, false);
  if (s) vec_push(em->tmp, &body, s);
  if (plan->nrest) {
    s = sweep_rest(sw, tiles);
    if (!expr_is_int(nblocks, 1)) {
      const Expr *last = expr_simplify(c, expr_sub(c, nblocks, i64(c, 1)));
      s = stmt_if(em->a, sp, expr_binary(c, EXPR_EQ, be, last), s, NULL);
    }
    vec_push(em->tmp, &body, s);
  }
  s = seq_of(em->a, &body);
  for (uint32_t i = kn->rows_inside ? con->nrows : 0; s && i-- > 0;)
    s = loop_of(lc, sp, rows[i], con->rows[i].extent, FOR_SERIAL, s);
  if (!s) return;
  if (nested) {
    s = loop_of(lc, sp, pv, count, FOR_SERIAL, s);
    if (s) s = loop_of(lc, sp, bv, nblocks, FOR_SERIAL, s);
    if (s) vec_push(em->tmp, out, s);
    return;
  }
  StmtVec bound = {0};
  if (bv) vec_push(em->tmp, &bound, stmt_let(em->a, sp, bv, block));
  if (pv) vec_push(em->tmp, &bound, stmt_let(em->a, sp, pv, panel));
  vec_push(em->tmp, &bound, s);
  s = seq_of(em->a, &bound);
  const Expr *tasks = expr_simplify(c, expr_mul(c, nblocks, count));
  s = loop_of(lc, sp, task, tasks, FOR_SERIAL, s);
  if (s && sw->parallel && s->kind == STMT_FOR) {
    int64_t grain = TASK_WORK / (tb * work) + 1, n;
    if (!expr_const_int(c, tasks, &n) || n > grain) loop_set_parallel(lc, s, grain);
  }
  if (s) vec_push(em->tmp, out, s);
}

/* Cuts the columns in tiles of nv vectors and what is left of them; returns the number of pieces.
 */
static uint32_t split_columns(const Kernel *kn, uint32_t nv, Columns *out) {
  const Contraction *con = kn->con;
  Context *c = kn->em->c;
  uint32_t width = nv * con->lanes;
  const Expr *zero = i64(c, 0), *extent = contraction_columns(c, con);
  int64_t n;
  if (con->windows && con->windows->vectors) {
    out[0] = (Columns){zero, i64(c, 1), nv, width, nv - 1, true};
    return 1;
  }
  if (expr_const_int(c, extent, &n)) {
    int64_t whole = n / width, left = n % width;
    out[0] = (Columns){zero, i64(c, whole), nv, width, 0, false};
    uint32_t vectors = (uint32_t)((left + con->lanes - 1) / con->lanes);
    out[1] = (Columns){.first = i64(c, whole * width),
                       .count = i64(c, 1),
                       .nv = vectors,
                       .align = width,
                       .full = (uint32_t)(left / con->lanes),
                       .masked = left % con->lanes != 0};
    return left ? 2 : 1;
  }
  /* masks are free: tiles of their own only for what one vector holds */
  bool masks = kn->em->s->v->has_mask;
  if (masks && nv == 1) {
    out[0] = (Columns){zero, expr_ceildiv(c, extent, width), nv, width, 0, true};
    return 1;
  }
  const Expr *more = i64(c, masks ? width - con->lanes - 1 : 0);
  const Expr *whole = expr_simplify(c, expr_floordiv(c, expr_add(c, extent, more), i64(c, width)));
  const Expr *done = expr_simplify(c, expr_mul(c, whole, i64(c, width)));
  const Expr *left = expr_ceildiv(c, expr_max(c, expr_sub(c, extent, done), zero), con->lanes);
  out[0] = (Columns){zero, whole, nv, width, 0, masks};
  out[1] = (Columns){done, left, 1, con->lanes, 0, true};
  return 2;
}

/* Rows outside, columns inside. */
static void sweep_windows(Sweep *sw, const Columns *cols, uint32_t n, StmtVec *out) {
  const RowSegment *seg = &sw->plan->main;
  Context *c = sw->kn->em->c;
  sw->along = cols;
  sw->nalong = n;
  Stmt *s = sweep_tiles(sw, seg, i64(c, 0), seg->count, NULL, false);
  if (s && sw->parallel && s->kind == STMT_FOR) loop_set_parallel(sw->kn->em->lc, s, 1);
  if (s) vec_push(sw->kn->em->tmp, out, s);
  s = sw->plan->nrest ? sweep_rest(sw, seg->count) : NULL;
  if (s) vec_push(sw->kn->em->tmp, out, s);
}

void gemm_rows(Kernel *kn, const RowPlan *plan, uint32_t nv, bool parallel, StmtVec *out) {
  const Contraction *con = kn->con;
  Context *c = kn->em->c;
  if (plan->nrest && rest_size(c, plan, true) > (int64_t)block_rows(kn)) {
    RowPlan one = {.main = plan->main}; /* as much as a block: on its own */
    gemm_rows(kn, &one, nv, parallel, out);
    for (uint32_t i = 0; i < plan->nrest; i++) {
      one.main = plan->rest[i];
      gemm_rows(kn, &one, nv, parallel, out);
    }
    return;
  }
  Sweep sw = {.kn = kn, .plan = plan, .parallel = parallel};
  Columns cols[2];
  uint32_t n = split_columns(kn, nv, cols);
  if (con->n_seen) { /* one that is left over is always computed */
    const Expr *count = expr_ceildiv(c, con->n_seen, nv * con->lanes);
    cols[0].count = n == 1 ? count : expr_simplify(c, expr_min(c, count, cols[0].count));
  }
  if (con->windows && !con->windows->is_sized) {
    sweep_windows(&sw, cols, n, out);
    return;
  }
  int64_t whole;
  if (con->windows && expr_const_int(c, cols[0].count, &whole)) { /* each knows its place */
    Columns one = cols[0];
    one.count = i64(c, 1);
    for (int64_t i = 0; i < whole; i++) {
      one.first = i64(c, i * nv * con->lanes);
      sweep_columns(&sw, &one, out);
    }
    if (n == 2) sweep_columns(&sw, &cols[1], out);
    return;
  }
  for (uint32_t i = 0; i < n; i++) sweep_columns(&sw, &cols[i], out);
}
