/* Losses, their gradients, quantisation. Sums of half types run in float32. */
#include "ir/ops/script.h"

#include <string.h>

/* ---- cross_entropy_with_logits ---- */
const SInfo *infer_cross_entropy(InferCtx *ic, Node *n) {
  const SInfo *p = infer_tensor_arg(ic, n, 0), *l = p ? infer_tensor_arg(ic, n, 1) : NULL;
  DType d;
  if (!l || !infer_binary_dtype(ic, n, p, l, &d)) return NULL;
  if (p->ndim >= 0 && l->ndim >= 0 && p->ndim != l->ndim)
    return infer_error(ic, n, C_same_rank, 1,
                       "'labels' must have the rank of the predictions: %s and %s",
                       infer_shape_text(ic, l), infer_shape_text(ic, p));
  for (int32_t i = 0; p->dims && l->dims && i < p->ndim; i++)
    if (infer_ne(ic, p->dims[i], l->dims[i]))
      return infer_error(ic, n, C_same_dims, 1, "dim %d of 'labels' is %s but %s is expected", i,
                         infer_expr_text(ic, l->dims[i]), infer_expr_text(ic, p->dims[i]));
  return sinfo_tensor(ic->c, NULL, 0, d);
}

bool lower_cross_entropy(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  (void)n;
  Buffer *p = te_arg(lc, 0), *l = te_arg(lc, 1);
  for (uint32_t i = 0; i < p->ndim; i++)
    if (!te_need_equal(lc, p->shape[i], l->shape[i], "the dims of predictions and labels"))
      return false;
  DType acc = te_acc_dtype(te_result_dtype(lc, 0));
  TeAxes t;
  te_axes_init(lc, &t, p, (IntList){-1, NULL}, false);
  te_axes_begin(lc, &t, "T_dot", acc);
  const Expr *x = te_cast(c, acc, te_axes_load(lc, &t, p));
  Buffer *s = te_reduce_end(lc, TE_SUM, MUL(x, te_cast(c, acc, te_axes_load(lc, &t, l))));
  te_result_begin(lc, 0, "T_loss");
  const Expr *v = SUB(expr_lit(c, acc, 0), te_load(lc, s, lc->ax));
  te_out_value(lc, p->ndim > 1 ? DIV(v, te_cast(c, acc, p->shape[0])) : v);
  return true;
}

/* ---- nll_loss and its gradient ---- */
typedef struct {
  Buffer *p, *t, *w;
  const Expr *classes;
  int64_t ignore;
  DType acc;
  uint32_t nt; /* rank of the targets */
} Nll;

static const SInfo *nll_operands(InferCtx *ic, Node *n, uint32_t first, const char *reduction) {
  const SInfo *p = infer_tensor_arg(ic, n, first);
  const SInfo *t = p ? infer_tensor_arg(ic, n, first + 1) : NULL, *w = NULL;
  if (!t || !infer_need_float(ic, n, first, p) || !infer_need_int(ic, n, first + 1, t)) return NULL;
  if (node_has_in(n, first + 2) && !(w = infer_tensor_arg(ic, n, first + 2))) return NULL;
  if (reduction && strcmp(reduction, "none") && strcmp(reduction, "sum") &&
      strcmp(reduction, "mean"))
    return infer_error(ic, n, C_choice, -1, "reduction '%s' is none of none, sum, mean", reduction);
  if (p->ndim == 0)
    return infer_error(ic, n, C_rank, (int)first, "'predictions' must not be a scalar");
  int32_t cls = p->ndim > 1 ? 1 : 0;
  if (p->ndim >= 0 && t->ndim >= 0 && t->ndim != p->ndim - 1)
    return infer_error(ic, n, C_rank, (int)first + 1, "expected rank %d for 'targets' but got %s",
                       p->ndim - 1, infer_shape_text(ic, t));
  for (int32_t i = 0; p->dims && t->dims && i < t->ndim; i++)
    if (infer_ne(ic, t->dims[i], p->dims[i < cls ? i : i + 1]))
      return infer_error(
          ic, n, C_same_dims, (int)first + 1, "dim %d of 'targets' is %s but %s is expected", i,
          infer_expr_text(ic, t->dims[i]), infer_expr_text(ic, p->dims[i < cls ? i : i + 1]));
  if (w && w->ndim >= 0 && w->ndim != 1)
    return infer_error(ic, n, C_rank, (int)first + 2, "expected rank 1 for 'weights' but got %s",
                       infer_shape_text(ic, w));
  if (w && w->dims && p->dims && infer_ne(ic, w->dims[0], p->dims[cls]))
    return infer_error(ic, n, C_same_dims, (int)first + 2, "there are %s weights for %s classes",
                       infer_expr_text(ic, w->dims[0]), infer_expr_text(ic, p->dims[cls]));
  if (w && dtype_known(w->dtype) && dtype_known(p->dtype) && !dtype_eq(w->dtype, p->dtype))
    return infer_error(ic, n, C_same_dtype, (int)first + 2,
                       "'weights' must have the dtype of the predictions");
  return p;
}

const SInfo *infer_nll_loss(InferCtx *ic, Node *n) {
  const char *r = node_attrs(n, nn_nll_loss)->reduction;
  const SInfo *p = nll_operands(ic, n, 0, r);
  if (!p) return NULL;
  if (r && !strcmp(r, "none")) return infer_like(ic, node_in(n, 1)->sinfo, p->dtype);
  return sinfo_tensor(ic->c, NULL, 0, p->dtype);
}

const SInfo *infer_nll_loss_backward(InferCtx *ic, Node *n) {
  if (!infer_tensor_arg(ic, n, 0)) return NULL;
  return nll_operands(ic, n, 1, node_attrs(n, grad_nll_loss_backward)->reduction);
}

/* Operands from `first` on; every target is checked to be a class or the ignored number. */
static bool nll_begin(LowerCtx *lc, uint32_t first, int64_t ignore, Nll *x) {
  Context *c = lc->c;
  Buffer *p = te_arg(lc, first), *t = te_arg(lc, first + 1);
  Buffer *w = te_has_arg(lc, first + 2) ? te_arg(lc, first + 2) : NULL;
  uint32_t cls = p->ndim > 1 ? 1 : 0;
  *x = (Nll){p, t, w, p->shape[cls], ignore, te_acc_dtype(p->dtype), t->ndim};
  for (uint32_t i = 0; i < t->ndim; i++)
    if (!te_need_equal(lc, t->shape[i], p->shape[i < cls ? i : i + 1], "the dims of the targets"))
      return false;
  if (w && !te_need_equal(lc, w->shape[0], x->classes, "the numbers of weights and classes"))
    return false;
  Var *vars[TE_MAX_RANK];
  const Expr *idx[TE_MAX_RANK];
  for (uint32_t i = 0; i < t->ndim; i++) {
    vars[i] = var_create(c, arena_printf(lc->arena, "i%u", i), DT_I64);
    idx[i] = vars[i]->expr;
  }
  const Expr *v = te_index_value(c, te_load(lc, t, idx));
  const Expr *good = OR(EQ(v, I64(ignore)), AND(GE(v, I64(0)), LT(v, x->classes)));
  const char *words =
      arena_printf(lc->arena, "R.%s: a target is no class number", node_op(lc->node)->name);
  te_block(lc, "check_targets", te_loops(lc, vars, t->shape, t->ndim, ASSERT(good, words)));
  return true;
}

/* Weight of the target at idx, 0 where it is ignored; *cls is the class, cut to a valid one. */
static const Expr *nll_weight(LowerCtx *lc, const Nll *x, const Expr *const *idx,
                              const Expr **cls) {
  Context *c = lc->c;
  const Expr *v = te_index_value(c, te_load(lc, x->t, idx)), *zero = expr_lit(c, x->acc, 0);
  *cls = expr_max(c, expr_min(c, v, SUB(x->classes, I64(1))), I64(0));
  const Expr *skip = EQ(v, I64(x->ignore));
  if (!x->w) return SEL(skip, zero, expr_lit(c, x->acc, 1));
  return expr_if_then_else(c, skip, zero, te_cast(c, x->acc, te_load(lc, x->w, cls)));
}

/* -weight * prediction; an ignored target reads nothing. */
static const Expr *nll_term(LowerCtx *lc, const Nll *x, const Expr *const *idx, const Expr **w) {
  Context *c = lc->c;
  const Expr *cls, *at[TE_MAX_RANK];
  *w = nll_weight(lc, x, idx, &cls);
  uint32_t k = x->nt ? 1 : 0;
  for (uint32_t i = 0; i < x->nt; i++) at[i < k ? i : i + 1] = idx[i];
  at[k] = cls;
  const Expr *zero = expr_lit(c, x->acc, 0), *p = te_cast(c, x->acc, te_load(lc, x->p, at));
  const Expr *skip = EQ(te_index_value(c, te_load(lc, x->t, idx)), I64(x->ignore));
  return expr_if_then_else(c, skip, zero, MUL(SUB(zero, p), *w));
}

/* Sum of the terms (of the weights) over all targets. */
static Buffer *nll_sum(LowerCtx *lc, const Nll *x, bool weights) {
  TeAxes t;
  te_axes_init(lc, &t, x->t, (IntList){-1, NULL}, false);
  te_axes_begin(lc, &t, weights ? "T_weights" : "T_terms", x->acc);
  const Expr *w, *v = nll_term(lc, x, lc->ax, &w);
  return te_reduce_end(lc, TE_SUM, weights ? w : v);
}

bool lower_nll_loss(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const nn_nll_loss_attrs *a = n->attrs;
  Nll x;
  if (!nll_begin(lc, 0, a->ignore_index, &x)) return false;
  const char *how = a->reduction ? a->reduction : "mean";
  if (!strcmp(how, "none")) {
    te_result_begin(lc, 0, "T_nll");
    const Expr *w;
    te_out_value(lc, nll_term(lc, &x, lc->ax, &w));
    return true;
  }
  bool mean = !strcmp(how, "mean");
  Buffer *s = nll_sum(lc, &x, false), *w = mean ? nll_sum(lc, &x, true) : NULL;
  te_result_begin(lc, 0, "T_loss");
  const Expr *v = te_load(lc, s, lc->ax);
  te_out_value(lc, mean ? DIV(v, te_load(lc, w, lc->ax)) : v);
  return true;
}

bool lower_nll_loss_backward(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const grad_nll_loss_backward_attrs *a = n->attrs;
  Nll x;
  if (!nll_begin(lc, 1, a->ignore_index, &x)) return false;
  Buffer *g = te_arg(lc, 0);
  const char *how = a->reduction ? a->reduction : "mean";
  bool none = !strcmp(how, "none");
  if (g->ndim != (none ? x.nt : 0))
    return te_error(lc, "the gradient of the output has rank %u", g->ndim);
  for (uint32_t i = 0; i < g->ndim; i++)
    if (!te_need_equal(lc, g->shape[i], x.t->shape[i], "the dims of the gradient")) return false;
  Buffer *sum = !strcmp(how, "mean") ? nll_sum(lc, &x, true) : NULL;
  te_result_begin(lc, 0, "pred_grad");
  const Expr *idx[TE_MAX_RANK], *cls, *zero = expr_lit(c, x.acc, 0);
  uint32_t k = x.nt ? 1 : 0;
  for (uint32_t i = 0; i < x.nt; i++) idx[i] = lc->ax[i < k ? i : i + 1];
  const Expr *w = nll_weight(lc, &x, idx, &cls);
  const Expr *d = te_cast(c, x.acc, te_load(lc, g, idx));
  if (sum) d = DIV(d, te_load(lc, sum, lc->ax));
  const Expr *hit = EQ(te_index_value(c, te_load(lc, x.t, idx)), lc->ax[k]);
  hit = AND(hit, NE(lc->ax[k], I64(x.ignore)));
  te_out_value(lc, SEL(hit, MUL(SUB(zero, w), d), zero));
  return true;
}

/* ---- quantize, dequantize ---- */
/* Scale and zero point: one value, or one per element of the axis. */
static bool check_param(InferCtx *ic, Node *n, uint32_t i, const SInfo *x, int64_t axis) {
  const SInfo *s = infer_tensor_arg(ic, n, i);
  bool ones = true;
  int32_t at;
  if (!s) return false;
  for (int32_t k = 0; s->dims && k < s->ndim; k++) ones = ones && expr_is_int(s->dims[k], 1);
  if (s->ndim == 0 || (s->dims && ones)) return true;
  if (s->ndim > 1) {
    infer_error(ic, n, C_rank, (int)i, "expected a scalar or a vector for '%s' but got %s",
                infer_arg_name(ic, n, i), infer_shape_text(ic, s));
    return false;
  }
  if (x->ndim < 0) return true;
  if (!infer_axis(ic, n, axis, x->ndim, &at)) return false;
  if (x->dims && s->dims && !infer_eq(ic, x->dims[at], s->dims[0])) {
    infer_error(ic, n, C_same_dims, (int)i, "'%s' has %s elements but axis %d of the data %s",
                infer_arg_name(ic, n, i), infer_expr_text(ic, s->dims[0]), at,
                infer_expr_text(ic, x->dims[at]));
    return false;
  }
  return true;
}

static bool float_16_32(DType d) {
  return dtype_eq(d, DT_F16) || dtype_eq(d, DT_F32);
}

static bool is_float8(DType d) {
  return dtype_is_float(d) && d.bits == 8;
}

const SInfo *infer_quantize(InferCtx *ic, Node *n) {
  const quantize_attrs *a = n->attrs;
  bool back = n->op == OP_dequantize;
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  DType d = a->out_dtype, in = x->dtype;
  bool small = dtype_is_int(d) && d.bits <= 16 && !dtype_is_bool(d);
  if (back ? !float_16_32(d) : !small && !is_float8(d))
    return infer_error(ic, n, C_dtype, -1, "out_dtype %s is not possible here", dtype_name(d));
  bool ok =
      float_16_32(in) || (back && (is_float8(in) || (dtype_is_int(in) && !dtype_is_bool(in))));
  if (dtype_known(in) && !ok)
    return infer_error(ic, n, C_dtype, 0, "data of this dtype is not possible here: %s",
                       infer_type_text(ic, x));
  for (uint32_t i = 1; i < 3; i++)
    if (!check_param(ic, n, i, x, a->axis)) return NULL;
  DType s = node_in(n, 1)->sinfo->dtype, z = node_in(n, 2)->sinfo->dtype;
  if (dtype_known(s) && !float_16_32(s))
    return infer_error(ic, n, C_dtype, 1, "'scale' must be float16 or float32");
  if (dtype_known(z) && !(dtype_is_int(z) && !dtype_is_bool(z) && z.bits <= 32) &&
      !dtype_eq(z, DT_F16))
    return infer_error(ic, n, C_dtype, 2,
                       "'zero_point' must be an integer of up to 32 bits or float16");
  bool known = dtype_known(in) && dtype_known(s) && dtype_known(z);
  if (known && x->ndim < 0)
    return infer_error(ic, n, C_rank_known, 0, "the rank of the data must be known");
  return infer_like(ic, x, known ? d : DT_UNKNOWN);
}

static const Expr *param(LowerCtx *lc, uint32_t i, int64_t axis) {
  const Expr *literal = te_literal(lc->c, node_in(lc->node, i));
  if (literal) return literal;
  Buffer *b = te_arg(lc, i);
  const Expr *idx[TE_MAX_RANK];
  uint32_t at = (uint32_t)(axis < 0 ? axis + lc->nspatial : axis);
  for (uint32_t k = 0; k < b->ndim; k++)
    idx[k] = expr_is_int(b->shape[k], 1) ? te_i64(lc, 0) : lc->ax[at];
  return te_load(lc, b, idx);
}

static const Expr *clip(Context *c, const Expr *x, double bound) {
  return expr_max(c, expr_min(c, x, K(bound)), K(-bound));
}

bool lower_quantize(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const quantize_attrs *a = n->attrs;
  te_result_begin(lc, 0, "quantized");
  const Expr *x = te_widen(c, te_load(lc, te_arg(lc, 0), lc->ax));
  x = DIV(x, te_cast(c, DT_F32, param(lc, 1, a->axis)));
  if (dtype_is_int(a->out_dtype)) x = F1(round, x);
  x = ADD(x, te_cast(c, DT_F32, param(lc, 2, a->axis)));
  if (is_float8(a->out_dtype)) x = clip(c, x, a->out_dtype.code == DTYPE_E4M3FN ? 448 : 57344);
  te_out_value(lc, x);
  return true;
}

bool lower_dequantize(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const quantize_attrs *a = n->attrs;
  te_result_begin(lc, 0, "dequantized");
  const Expr *x = te_load(lc, te_arg(lc, 0), lc->ax), *z = param(lc, 2, a->axis);
  DType d = dtype_is_float(x->dtype) || dtype_is_float(z->dtype) ? DT_F32 : DT_I64;
  x = te_cast(c, DT_F32, SUB(te_cast(c, d, x), te_cast(c, d, z)));
  x = MUL(x, te_cast(c, DT_F32, param(lc, 1, a->axis)));
  te_out_value(lc, dtype_eq(a->out_dtype, DT_F16) ? clip(c, x, 65504) : x);
  return true;
}
