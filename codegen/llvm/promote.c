/* Which allocated buffers live in SSA values: small ones of static shape whose every access has
 * constant indices once loops are unrolled, and whose address is never taken.
 */
#include "codegen/llvm/cg.h"

typedef struct {
  const Buffer *buf;
  uint32_t cells;
  uint32_t parallel; /* depth of parallel loops around the allocation */
  bool ok;
} Cand;

typedef struct {
  Fn *fn;
  Map cands;  /* Buffer* -> Cand* */
  Map datas;  /* data Var* -> Cand* */
  Map consts; /* Var*: constant once unrolled */
  uint32_t parallel;
} Scan;

static void reject(Cand *c) {
  if (c) c->ok = false;
}

static bool is_const_var(const Expr *e, void *ctx) {
  Scan *s = ctx;
  switch ((ExprKind)e->kind) {
  case EXPR_VAR: return map_hasp(&s->consts, e->var);
  case EXPR_LOAD:
  case EXPR_CALL:
  case EXPR_CALL_FUNC:
  case EXPR_BUF_DATA:
  case EXPR_RAMP:
  case EXPR_BROADCAST:
  case EXPR_LET: return false;
  default: return true;
  }
}

static bool is_const(Scan *s, const Expr *e) {
  return expr_walk(e, is_const_var, s);
}

static void access(Scan *s, const Buffer *b, const Expr *const *idx) {
  Cand *c = map_getp(&s->cands, b);
  if (!c) return;
  if (c->parallel != s->parallel) c->ok = false;
  for (uint32_t i = 0; i < b->ndim && c->ok; i++)
    if (!is_const(s, idx[i])) c->ok = false;
}

static bool scan_node(const Expr *e, void *ctx) {
  Scan *s = ctx;
  if (e->kind == EXPR_LOAD) {
    access(s, e->buf, e->arg);
    if (e->has_pred) reject(map_getp(&s->cands, e->buf));
  }
  if (e->kind == EXPR_BUF_DATA) reject(map_getp(&s->cands, e->buf));
  if (e->kind == EXPR_VAR) reject(map_getp(&s->datas, e->var));
  if (e->kind == EXPR_CALL && e->intrin == INTRIN_address_of && e->arg[0]->kind == EXPR_LOAD)
    reject(map_getp(&s->cands, e->arg[0]->buf));
  return true;
}

static void scan_expr(Scan *s, const Expr *e) {
  if (e) expr_walk(e, scan_node, s);
}

static void candidate(Scan *s, const Buffer *b) {
  Arena *a = s->fn->arena;
  Cand *old = map_getp(&s->datas, b->data);
  if (old) { /* a second view of the same memory */
    reject(old);
    return;
  }
  int64_t n = 1, k;
  bool ok = !b->strides && !b->elem_offset;
  for (uint32_t i = 0; i < b->ndim && ok; i++) {
    ok = expr_const_int(s->fn->c, b->shape[i], &k) && k >= 0 && k <= MAX_CELLS;
    if (ok) n *= k;
    if (n > MAX_CELLS) ok = false;
  }
  Cand *c = ARENA_NEW(a, Cand);
  *c = (Cand){b, (uint32_t)n, s->parallel, ok};
  map_setp(&s->cands, b, c);
  map_setp(&s->datas, b->data, c);
}

static void scan(Scan *s, const Stmt *st) {
  int64_t min, extent;
  switch (st->kind) {
  case STMT_SEQ:
    for (uint32_t i = 0; i < st->seq.n; i++) scan(s, st->seq.at[i]);
    return;
  case STMT_FOR: {
    scan_expr(s, st->loop.min);
    scan_expr(s, st->loop.extent);
    if (stmt_unrolls(s->fn->c, st, &min, &extent)) map_setp(&s->consts, st->loop.var, s);
    bool par = st->loop.kind == FOR_PARALLEL;
    s->parallel += par;
    scan(s, st->loop.body);
    s->parallel -= par;
    return;
  }
  case STMT_BLOCK: return; /* refused */
  case STMT_STORE:
    for (uint32_t i = 0; i < st->store.buf->ndim; i++) scan_expr(s, st->store.idx[i]);
    access(s, st->store.buf, st->store.idx);
    scan_expr(s, st->store.value);
    scan_expr(s, st->store.pred);
    return;
  case STMT_LET:
    scan_expr(s, st->let.value);
    if (dtype_is_int(st->let.var->dtype) && is_const(s, st->let.value))
      map_setp(&s->consts, st->let.var, s);
    return;
  case STMT_IF:
    scan_expr(s, st->if_.cond);
    scan(s, st->if_.then_);
    if (st->if_.else_) scan(s, st->if_.else_);
    return;
  case STMT_WHILE:
    scan_expr(s, st->while_.cond);
    scan(s, st->while_.body);
    return;
  case STMT_ATTR:
    scan_expr(s, st->attr.value);
    if (st->attr.body) scan(s, st->attr.body);
    return;
  case STMT_ASSERT: scan_expr(s, st->assert_.cond); return;
  case STMT_EVAL: scan_expr(s, st->eval); return;
  case STMT_ALLOC: candidate(s, st->alloc.buf); return;
  case STMT_DECL: {
    Cand *c = map_getp(&s->datas, st->alloc.buf->data);
    reject(c);
    return;
  }
  case STMT_RETURN: scan_expr(s, st->ret); return;
  case STMT_DEVICE:
  case STMT_BREAK:
  case STMT_CONTINUE: return;
  }
}

void fn_analyse(Fn *fn, const Stmt *body) {
  Scan s = {.fn = fn};
  map_init(&s.cands, fn->arena);
  map_init(&s.datas, fn->arena);
  map_init(&s.consts, fn->arena);
  scan(&s, body);
  for (uint32_t i = 0; i < s.cands.n; i++) {
    Cand *c = s.cands.entries[i].value;
    if (!c->ok) continue;
    Cells *k = ARENA_NEW(fn->arena, Cells);
    *k = (Cells){c->buf, c->cells, NULL};
    map_setp(&fn->promoted, c->buf, k);
  }
}
