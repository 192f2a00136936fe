/* Well-formedness of prim_funcs (rules T1 to T12; the list is in ir/verify.c). */
#include "ir/verify_impl.h"

static bool is_index_type(DType d) {
  return dtype_is_int(d);
}

static bool same_lanes(DType a, DType b) {
  return a.lanes == b.lanes;
}

static void check_access(Verifier *v, Span s, const Buffer *b, const Expr *const *idx, uint32_t n) {
  if (!verify_sees(v, b)) {
    verify_fail(v, s, "T2", "buffer '%s' is not defined here", b->name);
    verify_define(v, b); /* said once */
  }
  if (n != b->ndim) {
    verify_fail(v, s, "T3", "buffer '%s' has %u dims but is accessed with %u indices", b->name,
                b->ndim, n);
    return;
  }
  for (uint32_t i = 0; i < n; i++)
    if (!is_index_type(idx[i]->dtype))
      verify_fail(v, s, "T3", "index %u of buffer '%s' is %s, not an integer", i, b->name,
                  dtype_name(idx[i]->dtype));
}

/* The lanes of a buffer access: the element's times those of the index that has any. */
static unsigned access_lanes(const Buffer *b, const Expr *const *idx, uint32_t n) {
  unsigned lanes = b->dtype.lanes;
  for (uint32_t i = 0; i < n; i++)
    if (idx[i]->dtype.lanes > 1) return lanes * idx[i]->dtype.lanes;
  return lanes;
}

static void check_binary(Verifier *v, Span s, const Expr *e) {
  DType a = e->arg[0]->dtype, b = e->arg[1]->dtype;
  if (dtype_eq(a, b)) return;
  char *have = arena_printf(v->arena, "%s", dtype_name(a));
  verify_fail(v, s, "T8", "the operands of an expression are %s and %s", have, dtype_name(b));
}

/* A block sees its loops through its axes only, so that it can be moved as a whole. */
static void check_loop_use(Verifier *v, Span s, const Var *x) {
  uintptr_t around = (uintptr_t)map_getp(&v->loop_blocks, x);
  if (!around || around - 1 >= v->blocks) return;
  verify_fail(v, s, "T10", "loop variable '%s' is used inside a block; bind it to an axis",
              x->name);
  map_setp(&v->loop_blocks, x, NULL); /* said once */
}

static void check_let(Verifier *v, Span s, const Expr *e, bool tir) {
  verify_expr(v, s, e->arg[1], tir);
  VerifyScope scope = verify_enter(v);
  verify_define(v, e->arg[0]->var);
  verify_expr(v, s, e->arg[2], tir);
  verify_leave(v, scope);
}

void verify_expr(Verifier *v, Span s, const Expr *e, bool tir) {
  if (e->kind == EXPR_INT || e->kind == EXPR_FLOAT || e->kind == EXPR_STR) return;
  if (!verify_once(v, 0, e->id)) return;
  if (e->kind == EXPR_LET) {
    check_let(v, s, e, tir);
    return;
  }
  for (uint32_t i = 0; i < e->n; i++) verify_expr(v, s, e->arg[i], tir);
  switch ((ExprKind)e->kind) {
  case EXPR_VAR:
    if (tir) check_loop_use(v, s, e->var);
    if (verify_sees(v, e->var)) return;
    if (tir)
      verify_fail(v, s, "T1", "variable '%s' is not defined here", e->var->name);
    else
      verify_fail(v, s, "R7",
                  "symbolic variable '%s' is not defined: it must stand alone as a dim of "
                  "a parameter, or be bound by a match_cast before",
                  e->var->name);
    verify_define(v, e->var); /* said once */
    return;
  case EXPR_LOAD: check_access(v, s, e->buf, e->arg, e->n - (e->has_pred ? 1 : 0)); return;
  case EXPR_BUF_DATA:
    if (!verify_sees(v, e->buf))
      verify_fail(v, s, "T2", "buffer '%s' is not defined here", e->buf->name);
    return;
  case EXPR_ADD:
  case EXPR_SUB:
  case EXPR_MUL:
  case EXPR_DIV:
  case EXPR_MOD:
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_MIN:
  case EXPR_MAX:
  case EXPR_EQ:
  case EXPR_NE:
  case EXPR_LT:
  case EXPR_LE:
  case EXPR_GT:
  case EXPR_GE:
  case EXPR_AND:
  case EXPR_OR:
  case EXPR_BITAND:
  case EXPR_BITOR:
  case EXPR_BITXOR: check_binary(v, s, e); return;
  case EXPR_SELECT:
    if (!dtype_is_bool(e->arg[0]->dtype))
      verify_fail(v, s, "T7", "the condition of T.Select is %s, not bool",
                  dtype_name(e->arg[0]->dtype));
    else if (!dtype_eq(e->arg[1]->dtype, e->arg[2]->dtype))
      verify_fail(v, s, "T8", "the values of T.Select have different dtypes");
    return;
  default: return;
  }
}

/* ---- statements ---- */

static void check_stmt(Verifier *v, const PrimFunc *f, const Stmt *s);

static void check_body(Verifier *v, const PrimFunc *f, const Stmt *s) {
  if (!s) return;
  VerifyScope scope = verify_enter(v);
  check_stmt(v, f, s);
  verify_leave(v, scope);
}

static void define_var(Verifier *v, Span s, const Var *x) {
  if (verify_sees(v, x)) verify_fail(v, s, "T1", "variable '%s' is defined twice", x->name);
  verify_define(v, x);
}

static void define_buffer(Verifier *v, Span s, const Buffer *b) {
  for (uint32_t i = 0; i < b->ndim; i++) {
    verify_expr(v, s, b->shape[i], true);
    if (b->strides) verify_expr(v, s, b->strides[i], true);
    if (!is_index_type(b->shape[i]->dtype))
      verify_fail(v, s, "T3", "dim %u of buffer '%s' is not an integer", i, b->name);
  }
  if (b->elem_offset) verify_expr(v, s, b->elem_offset, true);
  if (b->offset_var) verify_define(v, b->offset_var);
  verify_define(v, b);
  if (b->data && !verify_sees(v, b->data)) verify_define(v, b->data);
}

static bool define_vars(const Expr *e, void *ctx) {
  if (e->kind == EXPR_VAR && !verify_sees(ctx, e->var)) verify_define(ctx, e->var);
  return true;
}

/* A parameter or a window brings the variables of its shape, and those that are its strides and its
 * offset. */
static void define_fields(Verifier *v, const Buffer *b) {
  for (uint32_t i = 0; i < b->ndim; i++) {
    expr_walk(b->shape[i], define_vars, v);
    if (b->strides && b->strides[i]->kind == EXPR_VAR) define_vars(b->strides[i], v);
  }
  if (b->elem_offset && b->elem_offset->kind == EXPR_VAR) define_vars(b->elem_offset, v);
}

static void check_regions(Verifier *v, Span s, const Region *r, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const Buffer *b = r[i].buf;
    if (!verify_sees(v, b)) {
      verify_fail(v, s, "T2", "buffer '%s' is not defined here", b->name);
      verify_define(v, b);
    }
    for (uint32_t k = 0; k < b->ndim; k++) {
      verify_expr(v, s, r[i].ranges[k].min, true);
      verify_expr(v, s, r[i].ranges[k].extent, true);
    }
  }
}

/* T.match_buffer(A[...], shape): the last ranges are the dims, those before them are single. */
static void check_match(Verifier *v, Span s, const MatchRegion *m) {
  const Buffer *b = m->target, *from = m->source.buf;
  if (!dtype_eq(b->dtype, from->dtype)) {
    char *have = arena_printf(v->arena, "%s", dtype_name(b->dtype));
    verify_fail(v, s, "T11", "buffer '%s' of %s matches a region of '%s', which is %s", b->name,
                have, from->name, dtype_name(from->dtype));
    return;
  }
  if (b->ndim > from->ndim) {
    verify_fail(v, s, "T11", "buffer '%s' has %u dims but matches a region of %u", b->name, b->ndim,
                from->ndim);
    return;
  }
  uint32_t single = from->ndim - b->ndim;
  const Expr *one = expr_i64(v->c, 1);
  for (uint32_t i = 0; i < from->ndim; i++) {
    const Expr *have = m->source.ranges[i].extent, *want = i < single ? one : b->shape[i - single];
    if (!expr_proved_ne(v->c, have, want)) continue;
    Text t = {0};
    verify_print_dim(&t, have);
    text_puts(&t, " but ");
    verify_print_dim(&t, want);
    verify_fail(v, s, "T11", "extent %u of the region that buffer '%s' matches is %s is expected",
                i, b->name, text_cstr(&t));
    text_free(&t);
  }
}

static void check_condition(Verifier *v, Span s, const Expr *e) {
  verify_expr(v, s, e, true);
  if (!dtype_is_bool(e->dtype) || e->dtype.lanes != 1)
    verify_fail(v, s, "T7", "a condition is %s, not bool", dtype_name(e->dtype));
}

static void check_block(Verifier *v, const PrimFunc *f, const Stmt *s) {
  const SBlock *b = s->block;
  if (!f->s_tir)
    verify_fail(v, s->span, "T5", "a block stands in prim_func '%s'; say @T.prim_func(s_tir=True)",
                f->name);
  for (uint32_t i = 0; i < b->niters; i++) {
    const BlockIter *it = &b->iters[i];
    if (!it->value) {
      verify_fail(v, s->span, "T6", "axis '%s' of block '%s' has no value", it->var->name, b->name);
      continue;
    }
    verify_expr(v, s->span, it->value, true);
    verify_expr(v, s->span, it->dom.min, true);
    verify_expr(v, s->span, it->dom.extent, true);
    if (!is_index_type(it->value->dtype) || !is_index_type(it->dom.extent->dtype))
      verify_fail(v, s->span, "T6", "axis '%s' of block '%s' is not an integer", it->var->name,
                  b->name);
  }
  if (b->predicate) check_condition(v, s->span, b->predicate);
  VerifyScope scope = verify_enter(v);
  bool opaque = b->niters == 0;
  v->blocks += opaque ? 0 : 1;
  for (uint32_t i = 0; i < b->niters; i++) define_var(v, s->span, b->iters[i].var);
  for (uint32_t i = 0; i < b->nallocs; i++) define_buffer(v, s->span, b->allocs[i]);
  check_regions(v, s->span, b->reads, b->nreads);
  check_regions(v, s->span, b->writes, b->nwrites);
  for (uint32_t i = 0; i < b->nmatches; i++) {
    check_regions(v, s->span, &b->matches[i].source, 1);
    define_fields(v, b->matches[i].target);
    define_buffer(v, s->span, b->matches[i].target);
    check_match(v, s->span, &b->matches[i]);
  }
  check_body(v, f, b->init);
  check_body(v, f, b->body);
  v->blocks -= opaque ? 0 : 1;
  verify_leave(v, scope);
}

static void check_loop(Verifier *v, const PrimFunc *f, const Stmt *s) {
  const Expr *bounds[] = {s->loop.min, s->loop.extent, s->loop.step};
  for (int i = 0; i < 3; i++) {
    if (!bounds[i]) continue;
    verify_expr(v, s->span, bounds[i], true);
    if (!is_index_type(bounds[i]->dtype) || !dtype_eq(bounds[i]->dtype, s->loop.var->dtype))
      verify_fail(v, s->span, "T9", "a bound of loop '%s' is %s", s->loop.var->name,
                  dtype_name(bounds[i]->dtype));
  }
  VerifyScope scope = verify_enter(v);
  bool made = s->loop.launch && verify_sees(v, s->loop.var); /* by T.env_thread */
  if (!made) define_var(v, s->span, s->loop.var);
  if (!s->loop.launch) map_setp(&v->loop_blocks, s->loop.var, (void *)(uintptr_t)(v->blocks + 1));
  check_stmt(v, f, s->loop.body);
  verify_leave(v, scope);
}

static void check_store(Verifier *v, const Stmt *s) {
  const Buffer *b = s->store.buf;
  for (uint32_t i = 0; i < b->ndim; i++) verify_expr(v, s->span, s->store.idx[i], true);
  verify_expr(v, s->span, s->store.value, true);
  if (s->store.pred) verify_expr(v, s->span, s->store.pred, true);
  check_access(v, s->span, b, s->store.idx, b->ndim);
  DType have = s->store.value->dtype;
  DType want = dtype_lanes(b->dtype, access_lanes(b, s->store.idx, b->ndim));
  if (!dtype_eq(have, want)) {
    char *h = arena_printf(v->arena, "%s", dtype_name(have));
    verify_fail(v, s->span, "T4", "a value of type %s is stored into buffer '%s' of type %s", h,
                b->name, dtype_name(want));
  }
  if (s->store.pred &&
      (!dtype_is_bool(s->store.pred->dtype) || !same_lanes(s->store.pred->dtype, want)))
    verify_fail(v, s->span, "T7", "the predicate of a store is %s",
                dtype_name(s->store.pred->dtype));
}

typedef struct {
  Verifier *v;
  Span span;
} ExprCheck;

static void check_expr(const Expr *e, void *ctx) {
  const ExprCheck *c = ctx;
  verify_expr(c->v, c->span, e, true);
}

static void check_device(Verifier *v, const Stmt *s) {
  ExprCheck c = {v, s->span};
  stmt_exprs(s, check_expr, &c);
  for (uint32_t i = 0; i < s->device.nvars; i++) define_var(v, s->span, s->device.vars[i]);
}

static void check_stmt(Verifier *v, const PrimFunc *f, const Stmt *s) {
  switch (s->kind) {
  case STMT_SEQ:
    for (uint32_t i = 0; i < s->seq.n; i++) check_stmt(v, f, s->seq.at[i]);
    return;
  case STMT_FOR: check_loop(v, f, s); return;
  case STMT_BLOCK: check_block(v, f, s); return;
  case STMT_STORE: check_store(v, s); return;
  case STMT_LET:
    verify_expr(v, s->span, s->let.value, true);
    define_var(v, s->span, s->let.var);
    return;
  case STMT_IF:
    check_condition(v, s->span, s->if_.cond);
    check_body(v, f, s->if_.then_);
    check_body(v, f, s->if_.else_);
    return;
  case STMT_WHILE:
    check_condition(v, s->span, s->while_.cond);
    check_body(v, f, s->while_.body);
    return;
  case STMT_BREAK:
  case STMT_CONTINUE: return;
  case STMT_ATTR:
    if (s->attr.value) verify_expr(v, s->span, s->attr.value, true);
    check_body(v, f, s->attr.body);
    return;
  case STMT_ASSERT: check_condition(v, s->span, s->assert_.cond); return;
  case STMT_EVAL: verify_expr(v, s->span, s->eval, true); return;
  case STMT_ALLOC:
  case STMT_DECL:
    if (s->alloc.data) verify_expr(v, s->span, s->alloc.data, true);
    define_buffer(v, s->span, s->alloc.buf);
    return;
  case STMT_RETURN:
    if (s->ret) verify_expr(v, s->span, s->ret, true);
    return;
  case STMT_DEVICE: check_device(v, s); return;
  }
  bug("statement kind %d", (int)s->kind);
}

void verify_primfunc(Verifier *v, const PrimFunc *f) {
  if (!f->check_well_formed) return;
  if (f->is_private && attr_get(f->attrs, "global_symbol"))
    verify_fail(v, f->span, "T12", "prim_func '%s' is private and can't have a global_symbol",
                f->name);
  VerifyScope scope = verify_enter(v);
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->params[i]) define_var(v, f->span, f->params[i]);
  for (uint32_t i = 0; i < f->ndims; i++)
    if (!verify_sees(v, f->dims[i])) verify_define(v, f->dims[i]);
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->param_bufs[i]) define_fields(v, f->param_bufs[i]);
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->param_bufs[i]) define_buffer(v, f->span, f->param_bufs[i]);
  if (f->body) check_stmt(v, f, f->body);
  verify_leave(v, scope);
}
