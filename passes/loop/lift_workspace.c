/* Large temporaries go to the workspace.
 *
 * The last step of scheduling: an ALLOC that is symbolic or larger than STACK_LIMIT becomes a
 * window of one workspace buffer, which the caller allocates (so that the memory planner sees it).
 * Inside a parallel loop each thread needs its own: there the allocation stays, on the stack or
 * from the thread's own workspace.
 */
#include "passes/loop/loop.h"

#define STACK_LIMIT (16 * 1024)
#define ALIGN 64

typedef struct {
  LoopCtx *lc;
  Buffer *ws;
  const Expr *bytes; /* used so far */
  Map moved;         /* Buffer -> Buffer in the workspace */
  Map by_data;       /* data Var -> Buffer in the workspace */
  VEC(Var *) loops;  /* enclosing loop variables */
} Lift;

static bool is_large(Lift *l, const Buffer *b) {
  if (strcmp(b->scope, "global")) return false;
  int64_t bytes = (int64_t)dtype_bytes(b->dtype);
  for (uint32_t i = 0; i < b->ndim; i++) {
    int64_t n;
    if (!expr_const_int(l->lc->c, b->shape[i], &n)) return true;
    if (n > STACK_LIMIT) return true;
    bytes *= n;
    if (bytes > STACK_LIMIT) return true;
  }
  return false;
}

/* Pass 1: places each large ALLOC. */
static Stmt *place(Lift *l, Stmt *s) {
  LoopCtx *lc = l->lc;
  Context *c = lc->c;
  switch (s->kind) {
  case STMT_SEQ: {
    StmtVec v = {0};
    for (uint32_t i = 0; i < s->seq.n; i++) vec_push(lc->tmp, &v, place(l, s->seq.at[i]));
    return seq_of(lc->a, &v);
  }
  case STMT_FOR: {
    if (s->loop.kind == FOR_PARALLEL && lc->pc->target->threads) return s;
    Stmt *r = arena_dup(lc->a, s, sizeof *s);
    vec_push(lc->tmp, &l->loops, s->loop.var);
    r->loop.body = place(l, s->loop.body);
    (void)vec_pop(&l->loops);
    return r;
  }
  case STMT_IF: {
    Stmt *r = arena_dup(lc->a, s, sizeof *s);
    r->if_.then_ = place(l, s->if_.then_);
    if (s->if_.else_) r->if_.else_ = place(l, s->if_.else_);
    return r;
  }
  case STMT_WHILE: {
    Stmt *r = arena_dup(lc->a, s, sizeof *s);
    r->while_.body = place(l, s->while_.body);
    return r;
  }
  case STMT_ATTR: {
    if (!s->attr.body) return s;
    Stmt *r = arena_dup(lc->a, s, sizeof *s);
    r->attr.body = place(l, s->attr.body);
    return r;
  }
  case STMT_ALLOC: {
    Buffer *b = s->alloc.buf;
    if (!is_large(l, b)) return s;
    const Expr *n = i64(c, 1);
    for (uint32_t i = 0; i < b->ndim; i++) {
      n = expr_mul(c, n, expr_cast(c, DT_I64, b->shape[i]));
      for (uint32_t j = 0; j < l->loops.n; j++)
        if (expr_uses_var(b->shape[i], l->loops.at[j])) {
          diag_error(c->diags, s->span,
                     "the size of '%s' depends on the loop variable '%s', which is not supported",
                     b->name, l->loops.at[j]->name);
          lc->failed = true;
          return s;
        }
    }
    int64_t size = (int64_t)dtype_bytes(b->dtype);
    const Expr *bytes = expr_mul(c, n, i64(c, size));
    Buffer *w = buffer_create(c, b->name, b->dtype, b->shape, b->ndim, b->scope);
    w->data = l->ws->data;
    w->strides = b->strides;
    w->align = b->align;
    w->elem_offset = expr_simplify(c, expr_floordiv(c, l->bytes, i64(c, size)));
    w->span = b->span;
    map_setp(&l->moved, b, w);
    map_setp(&l->by_data, b->data, w);
    const Expr *padded = expr_mul(c, expr_ceildiv(c, bytes, ALIGN), i64(c, ALIGN));
    l->bytes = expr_simplify(c, expr_add(c, l->bytes, padded));
    return stmt_decl(lc->a, s->span, w);
  }
  case STMT_DECL: { /* another view of what was moved */
    Buffer *b = s->alloc.buf, *base = map_getp(&l->by_data, b->data);
    if (!base) return s;
    Buffer *w = buffer_create(c, b->name, b->dtype, b->shape, b->ndim, b->scope);
    w->data = base->data;
    w->strides = b->strides;
    w->align = b->align;
    int64_t from = (int64_t)dtype_bytes(base->dtype), to = (int64_t)dtype_bytes(b->dtype);
    const Expr *off = expr_floordiv(c, expr_mul(c, base->elem_offset, i64(c, from)), i64(c, to));
    if (b->elem_offset) off = expr_add(c, off, expr_cast(c, DT_I64, b->elem_offset));
    w->elem_offset = expr_simplify(c, off);
    w->span = b->span;
    map_setp(&l->moved, b, w);
    return stmt_decl(lc->a, s->span, w);
  }
  case STMT_BLOCK:
  case STMT_STORE:
  case STMT_LET:
  case STMT_BREAK:
  case STMT_CONTINUE:
  case STMT_ASSERT:
  case STMT_EVAL:
  case STMT_DEVICE:
  case STMT_RETURN: return s;
  }
  bug("statement kind %d", (int)s->kind);
}

Stmt *lift_workspace(LoopCtx *lc, Stmt *s, Buffer *ws, const Expr **bytes) {
  Lift l = {.lc = lc, .ws = ws, .bytes = i64(lc->c, 0)};
  map_init(&l.moved, lc->tmp);
  map_init(&l.by_data, lc->tmp);
  s = place(&l, s);
  *bytes = NULL;
  if (!l.moved.n) return s;
  *bytes = l.bytes;
  return stmt_subst(lc->c, lc->a, s, NULL, &l.moved, false);
}
