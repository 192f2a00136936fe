/* Meaning of the gradient operators. Gradients of several results for one element add up, in
 * row-major order of the results; half types in float32. */
#include "ir/ops/script.h"

bool lower_grad_mark(LowerCtx *lc, Node *n) {
  te_composite(lc, node_in(n, 0));
  return true;
}

/* The buffer that gradients add up in as the result, in the result's dtype. */
static void finish(LowerCtx *lc, Buffer *sum) {
  if (dtype_eq(sum->dtype, te_result_dtype(lc, 0))) {
    te_out(lc, sum);
    return;
  }
  te_result_begin(lc, 0, "compute");
  te_out_value(lc, te_load(lc, sum, lc->ax));
}

bool lower_take_backward(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  OptInt a = node_attrs(n, grad_take_backward)->axis;
  Buffer *g = te_arg(lc, 0), *x = te_arg(lc, 1);
  bool prim = node_in(n, 2)->sinfo->kind == SINFO_PRIM;
  Buffer *ind = prim ? NULL : te_arg(lc, 2);
  uint32_t ni = prim ? 0 : ind->ndim;
  if (!a.has && x->ndim != 1) return te_error(lc, "without an axis x must have rank 1");
  if (a.has && (a.v >= (int64_t)x->ndim || a.v < -(int64_t)x->ndim))
    return te_error(lc, "axis %lld is out of range", (long long)a.v);
  uint32_t axis = (uint32_t)(!a.has ? 0 : a.v < 0 ? a.v + x->ndim : a.v);
  if (g->ndim != x->ndim - 1 + ni) return te_error(lc, "the gradient has rank %u", g->ndim);
  for (uint32_t i = 0; i < g->ndim; i++) {
    const Expr *want = i < axis        ? x->shape[i]
                       : i < axis + ni ? ind->shape[i - axis]
                                       : x->shape[i - ni + 1];
    if (!te_need_equal(lc, g->shape[i], want, "the dims of the gradient")) return false;
  }
  DType acc = te_acc_dtype(x->dtype);
  te_spatial_begin(lc, "zeros", x->shape, x->ndim, acc);
  Buffer *out = te_spatial_end(lc, expr_lit(c, acc, 0));
  Var *vars[TE_MAX_RANK];
  const Expr *idx[TE_MAX_RANK], *at[TE_MAX_RANK];
  for (uint32_t i = 0; i < g->ndim; i++) {
    vars[i] = var_create(c, arena_printf(lc->arena, "i%u", i), DT_I64);
    idx[i] = vars[i]->expr;
  }
  for (uint32_t i = 0; i < x->ndim; i++) at[i] = idx[i < axis ? i : i + ni - 1];
  const Expr *raw = te_index_value(c, prim ? te_prim(lc, 2) : te_load(lc, ind, idx + axis));
  at[axis] = expr_max(c, expr_min(c, raw, SUB(x->shape[axis], I64(1))), I64(0));
  const Expr *sum = ADD(te_load(lc, out, at), te_cast(c, acc, te_load(lc, g, idx)));
  Stmt *body = SEQ(ASSERT(GE(x->shape[axis], I64(1)), "R.grad.take_backward: the axis is empty"),
                   stmt_store(lc->arena, n->span, out, at, sum));
  te_block(lc, "take_backward", te_loops(lc, vars, g->shape, g->ndim, body));
  finish(lc, out);
  return true;
}
