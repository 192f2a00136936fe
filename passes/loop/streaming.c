/* Large results are stored past the caches.
 *
 * A store to a line that isn't in a cache reads it from memory first; where the result is larger
 * than the caches, that is a third of what an addition moves, and the line is gone again before
 * anyone reads it. Stores of whole lines can go to memory directly (vmovntps). Measured on Zen 5
 * with 32 MiB of L3 cache, time against that of plain stores, alone and with a second kernel that
 * reads the result at once:
 *
 *     MiB of the result        1     4     8    16    64
 *     y = x + 1             1.45  1.48   .89   .89   .78
 *     y = x + 1, sum(y)     1.97  1.75  1.46   .92   .84
 *     a + b, y + 1          1.19  1.05   .84   .77   .75
 *
 * so that half of that cache is the limit (targets.def). Here the results are found for which it
 * may be done: parameters that are stored in whole lines and never read. The code generator asks
 * for the size, where it is symbolic, and for the alignment of the memory, when the code runs.
 */
#include "passes/loop/loop.h"

#define LINE 64
#define MAX_STMTS 256 /* the loops are there twice; a larger body has more to do than to store */

typedef struct {
  Context *c;
  const Buffer *b;
  uint32_t nstmts;
  bool in_lines, read;
} Find;

/* Whether the whole lines of a store are lines of memory. */
static bool stores_lines(Find *f, const Stmt *s) {
  const Buffer *b = s->store.buf;
  const Expr *at = b->ndim == 1 ? s->store.idx[0] : NULL;
  int64_t bytes = (int64_t)dtype_bytes(b->dtype);
  return at && !b->elem_offset && !b->strides && !s->store.pred && at->kind == EXPR_RAMP &&
         expr_is_int(at->arg[1], 1) && at->dtype.lanes * bytes % LINE == 0 &&
         dim_is_multiple(expr_dim(f->c, at->arg[0]), LINE / bytes);
}

static bool find_load(const Expr *e, void *ctx) {
  Find *f = ctx;
  if (e->kind == EXPR_LOAD && e->buf->data == f->b->data) f->read = true;
  if (e->kind == EXPR_CALL && e->intrin == INTRIN_address_of) f->read = true;
  return !f->read;
}
static void find_loads(const Expr *e, void *ctx) {
  expr_walk(e, find_load, ctx);
}

static bool find_stores(const Stmt *s, void *ctx) {
  Find *f = ctx;
  f->nstmts++;
  if (s->kind == STMT_STORE && s->store.buf->data == f->b->data) f->in_lines |= stores_lines(f, s);
  stmt_exprs(s, find_loads, f);
  return !f->read && f->nstmts <= MAX_STMTS;
}

static bool may_be_large(LoopCtx *lc, const Buffer *b) {
  int64_t n;
  if (!expr_const_int(lc->c, expr_product(lc->c, b->shape, b->ndim), &n)) return true;
  return n * (int64_t)dtype_bytes(b->dtype) >= lc->v->stream_bytes;
}

void mark_streaming(LoopCtx *lc, const Stmt *body) {
  PrimFunc *f = lc->f;
  Arena *a = lc->a;
  uint32_t n = 0, *found = ARENA_ARRAY(lc->tmp, uint32_t, f->nparams);
  for (uint32_t i = 0; i < f->nparams && lc->v->stream_bytes; i++) {
    Find at = {.c = lc->c, .b = f->param_bufs[i]};
    if (!at.b || !may_be_large(lc, at.b)) continue;
    stmt_walk(body, find_stores, &at);
    if (at.in_lines && !at.read && at.nstmts <= MAX_STMTS) found[n++] = i;
  }
  if (n) f->attrs = attr_with(a, f->attrs, "relaxc.streaming", attr_ints(a, found, n));
}
