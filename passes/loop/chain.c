/* Contractions with work on rows between them, in blocks of rows.
 *
 *   before: S[b, i, j] = sum_d Q[b, i, d] * K[b, j, d];  P[b, i, :] = softmax(S[b, i, :])
 *           O[b, i, e] = sum_j P[b, i, j] * V[b, j, e]
 *   after:  for b: for blocks of rows: S'[r, j] = ...; P'[r, :] = ...; O[b, row + r, e] = ...
 *
 * What lies between two contractions is often far larger than their operands (the scores of an
 * attention), yet a row of it needs nothing of the other rows. So the loops over what all stages
 * share (b) and over blocks of rows surround the stages, whose temporaries become slices that stay
 * in cache. Within a block the stages are scheduled like any others; what doesn't differ from block
 * to block, the packing of K and V, stands before the loop over blocks. Blocks are not split along
 * the row: sums run over whole rows in one order, whatever the number of threads.
 *
 * The idea is that of fused attention kernels (Rabe, Staats: Self-attention does not need O(n^2)
 * memory, 2021), here found from the loops.
 */
#include "passes/loop/weights.h"

#define TILE_ROWS 12 /* of the tallest tile, or of two */
#define MIN_ROWS 24
#define MAX_ROWS 48
#define FEW_BATCHES 4
#define SAME_SETS 1024 /* rows so far apart share few sets of the first level of cache */
#define LINE 64
#define COLUMN_STEP 64 /* columns are left out in whole vectors, and in tiles of them */
#define PARALLEL_WORK (1 << 19)

typedef struct {
  Sched *s;
  uint32_t first, n; /* items */
  Axis batch[MAX_AXES];
  uint32_t nbatch;
  Axis row;
  Map slices; /* Buffer -> its slice */
  Map packed; /* of the prologue */
  Weights weights;
  const Dim *seen; /* the last column that a row sees, or NULL */
  /* while emitting: */
  Var *inner;         /* a row of the block */
  const Expr *count;  /* rows of this block */
  const Expr *height; /* of all blocks but the last */
  Map vars;           /* axis -> Expr */
} Chain;

static Stage *chain_stage(const Chain *ch, uint32_t k) {
  return ch->s->items.at[ch->first + k].stage;
}

static bool has_axis(const Stage *st, const Var *v) {
  for (uint32_t i = 0; i < st->naxes; i++)
    if (st->axes[i].var == v) return true;
  return false;
}

/* ---- recognition ---- */

/* Links items to the chain until the contraction that ends it and its epilogue. */
static bool collect(Chain *ch, Group *all) {
  Sched *s = ch->s;
  bool reduces = false, ends = false;
  ch->n = group_form(s, ch->first, all);
  if (!all->contraction || !stage_is_contraction(s, all->stages[0])) return false;
  while (!ends) {
    Stage *st = ch->first + ch->n < s->items.n ? chain_stage(ch, ch->n) : NULL;
    if (!st) return false;
    ends = stage_is_contraction(s, st);
    reduces |= !ends && st->red != RED_NONE;
    if (!group_link(s, all, st)) return false;
    ch->n++;
  }
  Group last;
  uint32_t epilogue = group_form(s, ch->first + ch->n - 1, &last) - 1;
  for (; epilogue; epilogue--)
    if (!group_link(s, all, chain_stage(ch, ch->n++))) return false;
  return reduces;
}

/* Whether v is an axis of just one factor: the other is the same for all rows. */
static bool is_row_of(const Stage *st, const Var *v) {
  return expr_uses_var(st->value->arg[0], v) != expr_uses_var(st->value->arg[1], v);
}

typedef struct {
  const Chain *ch;
  const Var *v;
  bool found;
} FindPacked;

static void find_packed(const Expr *load, void *ctx) {
  FindPacked *f = ctx;
  if (!map_hasp(&f->ch->s->lc->packed, load->buf)) return;
  for (uint32_t i = 0; i < load->n; i++) f->found |= expr_uses_var(load->arg[i], f->v);
}

/* Whether v is an axis of an operand that is packed already: panels hold all of it. */
static bool is_packed(const Chain *ch, const Group *all, const Var *v) {
  FindPacked f = {ch, v, false};
  for (uint32_t k = 0; k < all->n; k++) expr_loads(all->stages[k]->value, find_packed, &f);
  return f.found;
}

/* The last shared loop along which both contractions have rows is cut in blocks. */
static bool choose_row(Chain *ch, const Group *all) {
  const Stage *ends[2] = {all->stages[0], NULL};
  for (uint32_t k = 1; k < all->n; k++)
    if (stage_is_contraction(ch->s, all->stages[k])) ends[1] = all->stages[k];
  int32_t row = -1;
  for (uint32_t o = 0; o < all->nouter; o++) {
    const Var *v = all->outer[o].var;
    if (is_packed(ch, all, v)) return false;
    if (is_row_of(ends[0], v) && is_row_of(ends[1], v)) row = (int32_t)o;
  }
  if (row < 0) return false;
  for (uint32_t o = 0; o < all->nouter; o++)
    if ((int32_t)o != row) ch->batch[ch->nbatch++] = all->outer[o];
  ch->row = all->outer[row];
  return true;
}

/* Whether only the chain uses b. */
static bool is_inner(const Chain *ch, const Buffer *b) {
  const Sched *s = ch->s;
  if (!map_hasp(&s->local, b) || map_hasp(&s->outside, b)) return false;
  for (uint32_t i = 0; i < s->items.n; i++) {
    const Stage *st = s->items.at[i].stage;
    if ((i < ch->first || i >= ch->first + ch->n) && st && stage_reads(st, b)) return false;
  }
  return true;
}

/* The dimension of st's result that axis v indexes; -1: none does plainly. */
static int32_t dim_of(const Stage *st, const Var *v) {
  for (uint32_t d = 0; d < st->out->ndim; d++)
    if (st->oaxis[d] >= 0 && st->axes[st->oaxis[d]].var == v) return (int32_t)d;
  return -1;
}

static bool is_shared(const Chain *ch, const Var *v) {
  for (uint32_t i = 0; i < ch->nbatch; i++)
    if (ch->batch[i].var == v) return true;
  return ch->row.var == v;
}

/* Every stage runs over all shared loops, and all but the last contraction's results are
 * temporaries that those index plainly. */
static bool find_slices(Chain *ch) {
  uint32_t end = 0;
  for (uint32_t k = 1; k < ch->n; k++)
    if (stage_is_contraction(ch->s, chain_stage(ch, k))) end = k;
  for (uint32_t k = 0; k < ch->n; k++) {
    const Stage *st = chain_stage(ch, k);
    bool plain = dim_of(st, ch->row.var) >= 0, all = has_axis(st, ch->row.var);
    for (uint32_t i = 0; i < ch->nbatch; i++) {
      plain &= dim_of(st, ch->batch[i].var) >= 0;
      all &= has_axis(st, ch->batch[i].var);
    }
    if (!all || !vec_possible(st->value)) return false;
    if (plain && is_inner(ch, st->out))
      map_setp(&ch->slices, st->out, st->out);
    else if (k < end)
      return false;
  }
  return true;
}

/* Has the softmax between the contractions do less, if there is one. */
static void use_weights(Chain *ch) {
  Sched *s = ch->s;
  const Item *items = s->items.at + ch->first;
  uint32_t end = ch->n - 1;
  int64_t columns;
  while (!stage_is_contraction(s, items[end].stage)) end--;
  Weights *w = &ch->weights;
  if (!weights_find(items, ch->n, items[end].stage, w)) return;
  const Expr *extent = w->end->axes[w->end->nspatial].extent;
  if (!expr_const_int(s->c, extent, &columns) || columns > 2 * COLUMN_STEP)
    ch->seen = weights_seen(s, items, ch->n, w);
  Stage *last = weights_divide_last(s, w);
  if (!last) return;
  Item it = {last, NULL};
  vec_push(s->tmp, &s->items, it);
  Item *at = s->items.at + ch->first + end + 1;
  memmove(at + 1, at, (size_t)(s->items.at + s->items.n - 1 - at) * sizeof it);
  *at = it;
  ch->n++;
  map_setp(&ch->slices, w->norm->out, w->norm->out);
  map_setp(&ch->slices, w->end->out, w->end->out);
}

static bool chain_find(Chain *ch) {
  Group all;
  map_init(&ch->slices, ch->s->tmp);
  map_init(&ch->vars, ch->s->tmp);
  map_init(&ch->packed, ch->s->tmp);
  if (!collect(ch, &all) || !choose_row(ch, &all) || !find_slices(ch)) return false;
  use_weights(ch);
  return true;
}

/* ---- the size of a block ---- */

/* Bytes of one row of the slices, of which two are wide at a time: what is made of what. */
static const Expr *row_bytes(const Chain *ch) {
  Context *c = ch->s->c;
  const Expr *most = i64(c, 0);
  for (uint32_t k = 0; k < ch->n; k++) {
    const Stage *st = chain_stage(ch, k);
    if (!map_hasp(&ch->slices, st->out)) continue;
    const Expr *size = i64(c, (int64_t)dtype_bytes(st->out->dtype));
    for (uint32_t d = 0; d < st->out->ndim; d++)
      if (st->oaxis[d] < 0 || !is_shared(ch, st->axes[st->oaxis[d]].var))
        size = expr_mul(c, size, expr_cast(c, DT_I64, st->out->shape[d]));
    if (!expr_is_int(size, (int64_t)dtype_bytes(st->out->dtype)))
      most = expr_simplify(c, expr_max(c, most, size));
  }
  return expr_simplify(c, expr_mul(c, most, i64(c, 2)));
}

/* Whether r rows are tiles of one height, and not a low one: one kernel serves them all. */
static bool is_even(int64_t r) {
  int64_t tiles = (r + TILE_ROWS - 1) / TILE_ROWS;
  return r % tiles == 0 && r * 3 >= tiles * TILE_ROWS * 2;
}

/* As many rows as fit into a quarter of L2, but enough for whole tiles; a divisor of their number
 * where there is a good one. */
static const Expr *block_height(const Chain *ch) {
  Context *c = ch->s->c;
  const Expr *bytes = row_bytes(ch);
  int64_t budget = ch->s->v->l2_bytes / 4, size, m;
  if (!expr_const_int(c, bytes, &size)) {
    const Expr *fit = expr_floordiv(c, i64(c, budget / TILE_ROWS), expr_max(c, bytes, i64(c, 1)));
    fit = expr_min(c, expr_mul(c, fit, i64(c, TILE_ROWS)), i64(c, MAX_ROWS));
    return expr_simplify(c, expr_max(c, fit, i64(c, MIN_ROWS)));
  }
  int64_t rows = size > 0 && budget / size < MAX_ROWS ? budget / size : MAX_ROWS;
  if (rows < MIN_ROWS) rows = MIN_ROWS;
  if (expr_const_int(c, ch->row.extent, &m)) {
    if (m <= rows * 3 / 2) return i64(c, m);
    for (int64_t r = rows; r >= TILE_ROWS; r--)
      if (m % r == 0 && is_even(r)) return i64(c, r);
  }
  return i64(c, rows / TILE_ROWS * TILE_ROWS);
}

/* ---- the stages of a block ---- */

/* The slice of a temporary: without the batch, with the rows of a block. */
static Buffer *make_slice(Chain *ch, const Stage *st) {
  Context *c = ch->s->c;
  const Buffer *b = st->out;
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, b->ndim + 1), **size;
  uint32_t n = 0;
  for (uint32_t d = 0; d < b->ndim; d++) {
    const Var *v = st->oaxis[d] >= 0 ? st->axes[st->oaxis[d]].var : NULL;
    if (v && v == ch->row.var)
      shape[n++] = ch->height;
    else if (!v || !is_shared(ch, v))
      shape[n++] = b->shape[d];
  }
  int64_t pitch = 0, elem = (int64_t)dtype_bytes(b->dtype);
  if (n > 1 && expr_const_int(c, shape[n - 1], &pitch) && pitch * elem % SAME_SETS == 0)
    shape[n - 1] = i64(c, pitch + LINE / elem);
  Buffer *slice = buffer_create(c, b->name, b->dtype, shape, n, "global");
  size = ARENA_ARRAY(c->arena, const Expr *, 1);
  size[0] = expr_product(c, shape, n);
  Buffer *memory = buffer_create(c, b->name, b->dtype, size, 1, "global");
  memory->align = 64;
  memory->span = b->span;
  map_setp(&ch->s->lc->flat, slice, memory);
  return slice;
}

/* An index list of a temporary as one of its slice; returns the number of dimensions. */
static uint32_t slice_index(const Chain *ch, const Stage *writer, const Expr *const *idx,
                            const Expr **out) {
  uint32_t n = 0;
  for (uint32_t d = 0; d < writer->out->ndim; d++) {
    const Var *v = writer->oaxis[d] >= 0 ? writer->axes[writer->oaxis[d]].var : NULL;
    if (v && v == ch->row.var)
      out[n++] = ch->inner->expr;
    else if (!v || !is_shared(ch, v))
      out[n++] = idx[d];
  }
  return n;
}

static const Stage *writer_of(const Chain *ch, const Buffer *b) {
  for (uint32_t k = 0; k < ch->n; k++)
    if (chain_stage(ch, k)->out == b) return chain_stage(ch, k);
  return NULL;
}

static const Expr *read_slice(Context *c, const Expr *e, void *ctx) {
  const Chain *ch = ctx;
  Buffer *slice = e->kind == EXPR_LOAD ? map_getp(&ch->slices, e->buf) : NULL;
  const Expr *idx[MAX_AXES];
  if (!slice) return e;
  uint32_t n = slice_index(ch, writer_of(ch, e->buf), e->arg, idx);
  return expr_load(c, slice, idx, n);
}

static const Expr *in_block(Chain *ch, const Expr *e) {
  Context *c = ch->s->c;
  return e ? subst_vars(c, &ch->vars, expr_rewrite(c, e, read_slice, ch)) : NULL;
}

/* st for one block: batch axes are bound by loops around, rows are those of the block. */
static Stage *block_stage(Chain *ch, const Stage *st) {
  Sched *s = ch->s;
  Buffer *slice = map_getp(&ch->slices, st->out);
  const Expr *idx[MAX_AXES];
  Stage *r = ARENA_NEW(s->tmp, Stage);
  *r = *st;
  r->naxes = r->nspatial = 0;
  for (uint32_t i = 0; i < st->naxes; i++) {
    const Axis *ax = &st->axes[i];
    bool row = ax->var == ch->row.var;
    if (!row && is_shared(ch, ax->var)) continue;
    r->axes[r->naxes++] = row ? (Axis){ch->inner, ch->count} : *ax;
    if (i < st->nspatial) r->nspatial++;
  }
  uint32_t n = st->out->ndim;
  memcpy(idx, st->oidx, n * sizeof *idx);
  if (slice) {
    n = slice_index(ch, st, st->oidx, idx);
    r->out = slice;
  }
  r->oidx = ARENA_ARRAY(s->tmp, const Expr *, n + 1);
  r->oaxis = ARENA_ARRAY(s->tmp, int32_t, n + 1);
  for (uint32_t d = 0; d < n; d++) {
    r->oidx[d] = expr_simplify(s->c, subst_vars(s->c, &ch->vars, idx[d]));
    r->oaxis[d] = -1;
    for (uint32_t i = 0; i < r->naxes; i++)
      if (r->oidx[d] == r->axes[i].var->expr) r->oaxis[d] = (int32_t)i;
  }
  r->init = in_block(ch, st->init);
  r->value = stage_simplify(s, r, in_block(ch, st->value));
  return r;
}

/* ---- the loops ---- */

/* data Var of every buffer that is accessed */
static void note_used(const Var *data, void *ctx) {
  map_setp(ctx, data, ctx);
}

/* How many columns the rows of a block see, given as a step's multiple where all of them are one;
 * at least one, so that a row that sees none has its NaN. */
static const Expr *columns_seen(Chain *ch, const Expr *begin, StmtVec *out) {
  Sched *s = ch->s;
  Context *c = s->c;
  const Stage *end = ch->weights.end;
  const Expr *all = end->axes[end->nspatial].extent, *step = i64(c, COLUMN_STEP);
  const Dim *slope, *rest;
  int64_t k = 0, n;
  Map row;
  map_init(&row, s->tmp);
  bool linear = dim_linear(c, ch->seen, ch->row.var, &slope, &rest) && dim_is_const(slope, &k);
  if (!linear) return all;
  const Expr *at = k < 0 ? begin : expr_sub(c, expr_add(c, begin, ch->count), i64(c, 1));
  map_setp(&row, ch->row.var, (void *)at);
  const Expr *seen = subst_vars(c, &row, dim_expr(c, ch->seen, DT_I64));
  seen = expr_add(c, subst_vars(c, &ch->vars, seen), i64(c, COLUMN_STEP));
  seen = expr_max(c, expr_floordiv(c, seen, step), i64(c, 1)); /* steps */
  bool whole = expr_const_int(c, all, &n) && n % COLUMN_STEP == 0;
  seen = whole ? expr_min(c, seen, i64(c, n / COLUMN_STEP))
               : expr_min(c, expr_mul(c, seen, step), all);
  seen = expr_simplify(c, seen);
  if (seen->kind != EXPR_INT) {
    Var *v = loop_var(c, "seen");
    vec_push(s->tmp, out, stmt_let(s->a, end->span, v, seen));
    seen = v->expr;
  }
  return whole ? expr_simplify(c, expr_mul(c, seen, step)) : seen;
}

/* The stages of a block and the slices that they need. */
static Stmt *emit_block(Chain *ch, const Var *block, const Expr *begin, StmtVec *prologue) {
  Sched *s = ch->s, sub = *s;
  StmtVec body = {0}, all = {0};
  Map used;
  sub.items = (ItemVec){0};
  sub.nested = true;
  sub.prologue = prologue;
  sub.common = &ch->packed;
  ch->inner = loop_var(s->c, ch->row.var->name);
  sub.rows = ch->row.extent;
  sub.block = block;
  map_init(&sub.local, s->tmp);
  map_init(&sub.outside, s->tmp);
  map_setp(&ch->vars, ch->row.var,
           (void *)expr_simplify(s->c, expr_add(s->c, begin, ch->inner->expr)));
  if (ch->seen) {
    const Expr *seen = columns_seen(ch, begin, &all);
    map_init(&sub.seen, s->tmp);
    for (uint32_t k = 0; k < sizeof ch->weights.columns / sizeof *ch->weights.columns; k++)
      map_setp(&sub.seen, ch->weights.columns[k], (void *)seen);
  }
  for (uint32_t k = 0; k < ch->n; k++) {
    Buffer *b = chain_stage(ch, k)->out;
    if (!map_hasp(&ch->slices, b)) continue;
    Buffer *slice = make_slice(ch, chain_stage(ch, k));
    map_setp(&ch->slices, b, slice);
    map_setp(&sub.local, slice, slice);
  }
  for (uint32_t k = 0; k < ch->n; k++) {
    Item it = {block_stage(ch, chain_stage(ch, k)), NULL};
    vec_push(s->tmp, &sub.items, it);
  }
  items_emit(&sub, &body);
  map_init(&used, s->tmp);
  for (uint32_t i = 0; i < body.n; i++) stmt_each_data(body.at[i], note_used, &used);
  for (uint32_t i = 0; i < sub.local.n; i++) {
    Buffer *memory = flat_view(s->lc, sub.local.entries[i].value);
    if (map_hasp(&used, memory->data))
      vec_push(s->tmp, &all, stmt_alloc(s->a, memory->span, memory));
  }
  for (uint32_t i = 0; i < body.n; i++) vec_push(s->tmp, &all, body.at[i]);
  return seq_of(s->a, &all);
}

/* Multiplications and the like for one batch, about. */
static int64_t batch_work(const Chain *ch) {
  int64_t sum = 0, e;
  for (uint32_t k = 0; k < ch->n; k++) {
    const Stage *st = chain_stage(ch, k);
    int64_t n = 1;
    for (uint32_t i = 0; i < st->naxes; i++) {
      if (is_shared(ch, st->axes[i].var) && st->axes[i].var != ch->row.var) continue;
      if (!expr_const_int(ch->s->c, st->axes[i].extent, &e)) e = 64;
      if (e > 0 && n < (1 << 30)) n *= e;
    }
    sum += n;
  }
  return sum;
}

/* Binds the batch axes to the parts of the number `task`; returns how many tasks there are. */
static const Expr *bind_batch(Chain *ch, const Expr *task, StmtVec *out) {
  Sched *s = ch->s;
  Context *c = s->c;
  const Expr *total = i64(c, 1);
  for (uint32_t i = ch->nbatch; i-- > 0;) {
    const Axis *ax = &ch->batch[i];
    const Expr *at = expr_floordiv(c, task, total);
    if (i) at = expr_floormod(c, at, ax->extent);
    at = expr_simplify(c, at);
    if (at != task) {
      Var *v = loop_var(c, ax->var->name);
      vec_push(s->tmp, out, stmt_let(s->a, chain_stage(ch, 0)->span, v, at));
      at = v->expr;
    }
    map_setp(&ch->vars, ax->var, (void *)at);
    total = expr_simplify(c, expr_mul(c, total, ax->extent));
  }
  return total;
}

/* The blocks of rows: loops over those of one height, and what is left after them. */
static void emit_blocks(Chain *ch, StmtVec *prologue, bool parallel) {
  Sched *s = ch->s;
  Context *c = s->c;
  Span span = chain_stage(ch, 0)->span;
  Var *block = loop_var(c, "block");
  const Expr *rows = ch->row.extent, *begin = expr_mul(c, block->expr, ch->height);
  int64_t height, m, n = 1;
  bool known = expr_const_int(c, ch->height, &height) && expr_const_int(c, rows, &m);
  StmtVec body = {0};
  const Expr *blocks = i64(c, known ? m / height : 0);
  if (!known) {
    blocks = expr_sub(c, expr_add(c, rows, ch->height), i64(c, 1));
    blocks = expr_simplify(c, expr_floordiv(c, blocks, ch->height));
  }
  ch->count = ch->height;
  if (!known) {
    Var *v = loop_var(c, "rows");
    const Expr *left = expr_simplify(c, expr_sub(c, rows, begin));
    vec_push(s->tmp, &body, stmt_let(s->a, span, v, expr_min(c, ch->height, left)));
    ch->count = v->expr;
  }
  begin = expr_is_int(blocks, 1) ? i64(c, 0) : expr_simplify(c, begin);
  vec_push(s->tmp, &body, emit_block(ch, block, begin, prologue));
  Stmt *rest = NULL;
  if (known && m % height) {
    ch->height = ch->count = i64(c, m % height);
    rest = emit_block(ch, block, i64(c, m - m % height), prologue);
  }
  Stmt *loop = loop_of(s->lc, span, block, blocks, FOR_SERIAL, seq_of(s->a, &body));
  if (loop && parallel && loop->kind == STMT_FOR) {
    expr_const_int(c, blocks, &n);
    int64_t work = batch_work(ch) / n;
    loop_set_parallel(s->lc, loop, PARALLEL_WORK / (work > 0 ? work : 1) + 1);
  }
  if (loop) vec_push(s->tmp, prologue, loop);
  if (rest) vec_push(s->tmp, prologue, rest);
}

bool chain_emit(Sched *s, uint32_t *i, StmtVec *out) {
  Chain ch = {.s = s, .first = *i};
  if (!s->simple || s->prologue || !chain_find(&ch)) return false;
  Span span = chain_stage(&ch, 0)->span;
  StmtVec batch = {0};
  Var *task = loop_var(s->c, "batch");
  const Expr *tasks = bind_batch(&ch, task->expr, &batch);
  int64_t ntasks = FEW_BATCHES, work = batch_work(&ch);
  bool over_batch = ch.nbatch && (!expr_const_int(s->c, tasks, &ntasks) || ntasks >= FEW_BATCHES);
  ch.height = block_height(&ch);
  emit_blocks(&ch, &batch, !over_batch);
  Stmt *loop = batch.n ? loop_of(s->lc, span, task, tasks, FOR_SERIAL, seq_of(s->a, &batch)) : NULL;
  if (loop && over_batch && loop->kind == STMT_FOR)
    loop_set_parallel(s->lc, loop, PARALLEL_WORK / (work > 0 ? work : 1) + 1);
  if (loop) vec_push(s->tmp, out, loop);
  loop_remark(s->lc, span, "%u stages in blocks of rows%s", ch.n,
              over_batch ? ", a batch at a time" : "");
  *i += ch.n;
  return true;
}
