/* Running sums and searches in sorted vectors. A scan is sequential along its axis, in loops in the
 * order of memory, the outermost of which runs in parallel unless it is the axis; without an axis
 * it is one of the flattened tensor. Along the innermost axis the sum stays in a register. float16
 * and bfloat16 run in float32. */
#include "ir/ops/script.h"

const SInfo *infer_scan(InferCtx *ic, Node *n) {
  const cumsum_attrs *a = n->attrs;
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  int32_t axis;
  if (!x) return NULL;
  DType d = dtype_known(a->dtype) ? a->dtype : x->dtype;
  if (a->axis.has && x->ndim >= 0 && !infer_axis(ic, n, a->axis.v, x->ndim, &axis)) return NULL;
  if (a->axis.has) return infer_like(ic, x, d);
  if (!x->dims) return sinfo_tensor_ndim(ic->c, x->ndim, d);
  const Expr *len = expr_product(ic->c, x->dims, (uint32_t)x->ndim);
  return sinfo_tensor(ic->c, &len, 1, d);
}

/* Without an axis: the scan of R.flatten(x). */
static bool flattened(LowerCtx *lc, Node *n) {
  Node *x = node_in(n, 0);
  Node *flat = node_create(n->func, OP_flatten, &x, 1, n->span);
  if (!node_infer(lc->m, NULL, flat)) return false;
  node_bind_before(n, flat, NULL);
  Node *r = node_create(n->func, n->op, &flat, 1, n->span);
  r->attrs = node_new_attrs(n->func, n->op);
  *(cumsum_attrs *)r->attrs = *(const cumsum_attrs *)n->attrs;
  ((cumsum_attrs *)r->attrs)->axis = (OptInt){true, 0};
  if (!node_infer(lc->m, NULL, r)) return false;
  te_composite(lc, r);
  return true;
}

static bool scan(LowerCtx *lc, Node *n, bool product) {
  Context *c = lc->c;
  const cumsum_attrs *a = n->attrs;
  if (!a->axis.has) return flattened(lc, n);
  Buffer *x = te_arg(lc, 0);
  uint32_t axis = (uint32_t)(a->axis.v < 0 ? a->axis.v + x->ndim : a->axis.v);
  DType d = te_result_dtype(lc, 0), acc = te_acc_dtype(d);
  Buffer *out = te_alloc(lc, lc->name, x->shape, x->ndim, acc);
  Var *vars[TE_MAX_RANK];
  const Expr *idx[TE_MAX_RANK], *extents[TE_MAX_RANK], *before[TE_MAX_RANK];
  for (uint32_t i = 0; i < x->ndim; i++) {
    vars[i] = var_create(c, arena_printf(lc->arena, "i%u", i), DT_I64);
    idx[i] = before[i] = vars[i]->expr;
    extents[i] = x->shape[i];
  }
  const Expr *one = te_i64(lc, 1), *here = idx[axis];
  before[axis] = SUB(here, one);
  bool innermost = axis + 1 == x->ndim;
  const Expr *zero = te_i64(lc, 0), *single = te_i64(lc, 1);
  Buffer *so_far = innermost ? buffer_create(c, "so_far", acc, &single, 1, "local") : NULL;
  const Expr *last = innermost ? LOADN(so_far, zero) : te_load(lc, out, before);
  const Expr *start = expr_lit(c, acc, product);
  const Expr *v = te_cast(c, acc, te_load(lc, x, a->exclusive ? before : idx));
  bool truth = dtype_is_bool(acc);
  const Expr *sum = product ? (truth ? AND(last, v) : MUL(last, v))
                    : truth ? OR(last, v)
                            : ADD(last, v);
  const Expr *first = EQ(here, te_i64(lc, 0));
  const Expr *value = expr_if_then_else(c, first, a->exclusive ? start : v, sum);
  Stmt *s = stmt_store(lc->arena, n->span, out, idx, innermost ? last : value);
  if (innermost) s = FOR(vars[axis], extents[axis], SEQ(STOREN(so_far, value, zero), s));
  if (innermost) s = SEQ(stmt_alloc(lc->arena, n->span, so_far), s);
  Stmt *loops = te_loops(lc, vars, extents, x->ndim - innermost, s); /* in the order of memory */
  int64_t inner = 0;
  (void)expr_const_int(c, expr_product(c, extents + 1, x->ndim - 1), &inner);
  if (axis > 0) te_parallel(lc, loops, inner);
  te_block(lc, lc->name, loops);
  if (dtype_eq(d, acc)) {
    te_out(lc, out);
    return true;
  }
  te_result_begin(lc, 0, "compute");
  te_out_value(lc, te_load(lc, out, lc->ax));
  return true;
}

bool lower_cumsum(LowerCtx *lc, Node *n) {
  return scan(lc, n, false);
}
bool lower_cumprod(LowerCtx *lc, Node *n) {
  return scan(lc, n, true);
}

const SInfo *infer_bucketize(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *b = x ? infer_tensor_arg(ic, n, 1) : NULL;
  if (!b) return NULL;
  if (b->ndim >= 0 && b->ndim != 1)
    return infer_error(ic, n, C_rank, 1, "expected rank 1 for 'boundaries' but got %s",
                       infer_shape_text(ic, b));
  return infer_like(ic, x, node_attrs(n, bucketize)->out_int32 ? DT_I32 : DT_I64);
}

/* Whether boundary `edge` lies below the value v. NaN sorts last. */
static const Expr *lies_below(LowerCtx *lc, const Expr *edge, const Expr *v) {
  Context *c = lc->c;
  te_common(c, &v, &edge);
  const Expr *below = node_attrs(lc->node, bucketize)->right ? LE(edge, v) : LT(edge, v);
  return dtype_is_float(v->dtype) ? OR(below, F1(isnan, v)) : below;
}

/* How many boundaries lie below each value, in lanes. */
static bool count_boundaries(LowerCtx *lc, Buffer *x, Buffer *b) {
  DType d = te_result_dtype(lc, 0);
  te_reduce_begin(lc, "bucketize", x->shape, x->ndim, d, b->shape, 1);
  const Expr *v = te_load(lc, x, lc->ax), *edge = te_load(lc, b, &lc->ax[x->ndim]);
  te_out(lc, te_reduce_end(lc, TE_SUM, te_cast(lc->c, d, lies_below(lc, edge, v))));
  return true;
}

/* The boundaries are sorted, so a value's bucket is how many of them lie below it. Few are counted;
 * of many half are left out at each step. */
bool lower_bucketize(LowerCtx *lc, Node *n) {
  enum { FEW = 64 };
  Context *c = lc->c;
  Buffer *x = te_arg(lc, 0), *b = te_arg(lc, 1);
  int64_t known;
  if (expr_const_int(c, b->shape[0], &known) && known <= FEW) return count_boundaries(lc, x, b);
  Buffer *out = te_alloc(lc, "bucketize", x->shape, x->ndim, te_result_dtype(lc, 0));
  const Expr *two = I64(2), *idx[TE_MAX_RANK];
  Buffer *state = buffer_create(c, "state", DT_I64, &two, 1, "local"); /* first, count */
  Var *vars[TE_MAX_RANK], *step = VAR("step"), *first = VAR("first"), *count = VAR("count"),
                          *half = VAR("half"), *mid = VAR("mid");
  for (uint32_t i = 0; i < x->ndim; i++) {
    vars[i] = VAR(arena_printf(lc->arena, "i%u", i));
    idx[i] = vars[i]->expr;
  }
  const Expr *below = lies_below(lc, LOADN(b, mid->expr), te_load(lc, x, idx)), *one = I64(1);
  const Expr *rest = SUB(SUB(count->expr, half->expr), one);
  Var *right = var_create(c, "right", DT_BOOL);
  Stmt *halve = SEQ(LET(half, expr_floordiv(c, count->expr, two)),
                    LET(mid, ADD(first->expr, half->expr)), LET(right, below),
                    STOREN(state, SEL(right->expr, ADD(mid->expr, one), first->expr), I64(0)),
                    STOREN(state, SEL(right->expr, rest, half->expr), I64(1)));
  Stmt *steps = SEQ(LET(first, LOADN(state, I64(0))), LET(count, LOADN(state, one)),
                    IF(GT(count->expr, I64(0)), halve, NULL));
  const Expr *bits = SUB(I64(64), te_cast(c, DT_I64, F1(clz, b->shape[0])));
  const Expr *found = te_cast(c, out->dtype, LOADN(state, I64(0)));
  Stmt *search = SEQ(stmt_alloc(lc->arena, n->span, state), STOREN(state, I64(0), I64(0)),
                     STOREN(state, b->shape[0], one), FOR(step, bits, steps),
                     stmt_store(lc->arena, n->span, out, idx, found));
  Stmt *loops = te_loops(lc, vars, x->shape, x->ndim, search);
  int64_t inner = 1;
  if (x->ndim > 1) (void)expr_const_int(c, expr_product(c, x->shape + 1, x->ndim - 1), &inner);
  if (x->ndim) te_parallel(lc, loops, 16 * inner);
  te_block(lc, "bucketize", loops);
  te_out(lc, out);
  return true;
}
