/* Activations, softmax, padding, attention.
 *
 * softmax is four stages, as in TVM: greatest element, exponentials of the distance from it, their
 * sum, product with its reciprocal; float16 and bfloat16 run in float32. attention is the same
 * between two matrix products; a key that the mask excludes has the score -inf. */
#include "ir/ops/scalar.h"

#include <math.h>
#include <string.h>

#undef UNARY
#define UNARY(id, name, infer, scalar, ...)                                                        \
  static const Expr *scalar_##id(LowerCtx *lc, const Expr *x) {                                    \
    Context *c = lc->c;                                                                            \
    return scalar;                                                                                 \
  }                                                                                                \
  bool lower_##id(LowerCtx *lc, Node *n) {                                                         \
    return te_unary(lc, n, scalar_##id);                                                           \
  }
#define OP(...)
#include "ir/ops/nn.def"
#undef OP

static const Expr *leaky(LowerCtx *lc, const Expr *x) {
  Context *c = lc->c;
  return SEL(LT(x, K(0)), MUL(x, K(node_attrs(lc->node, nn_leakyrelu)->alpha)), x);
}

bool lower_leakyrelu(LowerCtx *lc, Node *n) {
  return te_unary(lc, n, leaky);
}

static const Expr *softplus(LowerCtx *lc, const Expr *x) {
  Context *c = lc->c;
  const nn_softplus_attrs *a = lc->node->attrs;
  const Expr *t = MUL(x, K(a->beta));
  return SEL(GT(t, K(a->threshold)), x, DIV(F1(log1p, F1(exp, t)), K(a->beta)));
}

bool lower_softplus(LowerCtx *lc, Node *n) {
  return te_unary(lc, n, softplus);
}

/* ---- prelu ---- */
const SInfo *infer_prelu(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0), *w = x ? infer_tensor_arg(ic, n, 1) : NULL;
  int32_t axis;
  if (!w || !infer_need_float(ic, n, 0, x)) return NULL;
  if (x->ndim >= 0 && !infer_axis(ic, n, node_attrs(n, nn_prelu)->axis, x->ndim, &axis))
    return NULL;
  if (w->ndim >= 0 && w->ndim != 1)
    return infer_error(ic, n, C_rank, 1, "expected rank 1 for 'alpha' but got %s",
                       infer_shape_text(ic, w));
  int64_t one;
  if (x->dims && w->dims && !(expr_const_int(ic->c, w->dims[0], &one) && one == 1) &&
      infer_ne(ic, x->dims[axis], w->dims[0]))
    return infer_error(ic, n, C_same_dims, 1, "axis %d of %s has %s channels but alpha has %s",
                       axis, infer_shape_text(ic, x), infer_expr_text(ic, x->dims[axis]),
                       infer_expr_text(ic, w->dims[0]));
  return x;
}

bool lower_prelu(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *b = te_arg(lc, 0), *w = te_arg(lc, 1);
  int64_t a = node_attrs(n, nn_prelu)->axis;
  if (!expr_is_int(w->shape[0], 1) &&
      !te_need_equal(lc, b->shape[a < 0 ? a + b->ndim : a], w->shape[0], "channels and alpha"))
    return false;
  te_result_begin(lc, 0, "T_prelu");
  const Expr *x = te_widen(c, te_load(lc, b, lc->ax));
  const Expr *s = te_load_bcast(lc, w, &lc->ax[a < 0 ? a + b->ndim : a], 1);
  te_out_value(lc, SEL(LT(x, K(0)), MUL(x, te_cast(c, x->dtype, s)), x));
  return true;
}

/* ---- softmax ---- */
const SInfo *infer_softmax(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  int32_t axis;
  if (!x || !infer_need_float(ic, n, 0, x)) return NULL;
  if (x->ndim >= 0 && !infer_axis(ic, n, node_attrs(n, nn_softmax)->axis, x->ndim, &axis))
    return NULL;
  return x;
}

static Buffer *greatest(LowerCtx *lc, const TeAxes *t, const char *name) {
  te_axes_begin(lc, t, name, te_acc_dtype(t->x->dtype));
  return te_reduce_end(lc, TE_MAX, te_axes_load(lc, t, t->x));
}

static void softmax_axes(LowerCtx *lc, Node *n, TeAxes *t) {
  const nn_softmax_attrs *a = n->attrs;
  te_axes_init(lc, t, te_arg(lc, 0), (IntList){1, &a->axis}, false);
}

bool lower_softmax(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  TeAxes t;
  softmax_axes(lc, n, &t);
  DType acc = te_acc_dtype(t.x->dtype);
  Buffer *m = greatest(lc, &t, "T_softmax_maxelem");
  te_spatial_begin(lc, "T_softmax_exp", t.x->shape, t.x->ndim, acc);
  const Expr *x = te_widen(c, te_load(lc, t.x, lc->ax));
  Buffer *e = te_spatial_end(lc, F1(exp, SUB(x, te_axes_result(lc, &t, m, lc->ax))));
  te_axes_begin(lc, &t, "T_softmax_expsum", acc);
  Buffer *sum = te_reduce_end(lc, TE_SUM, te_axes_load(lc, &t, e));
  te_result_begin(lc, 0, "T_softmax_norm");
  /* times the reciprocal: one division a row, half an ulp more */
  const Expr *scale = DIV(expr_lit(c, acc, 1), te_axes_result(lc, &t, sum, lc->ax));
  te_out_value(lc, MUL(te_load(lc, e, lc->ax), scale));
  return true;
}

bool lower_log_softmax(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  TeAxes t;
  softmax_axes(lc, n, &t);
  Buffer *m = greatest(lc, &t, "T_softmax_maxelem");
  te_axes_begin(lc, &t, "T_softmax_expsum", te_acc_dtype(t.x->dtype));
  const Expr *d = SUB(te_axes_load(lc, &t, t.x), te_axes_result_here(lc, &t, m));
  Buffer *sum = te_reduce_end(lc, TE_SUM, F1(exp, d));
  te_result_begin(lc, 0, "T_log_softmax");
  const Expr *x = te_widen(c, te_load(lc, t.x, lc->ax));
  const Expr *rest = F1(log, te_axes_result(lc, &t, sum, lc->ax));
  te_out_value(lc, SUB(SUB(x, te_axes_result(lc, &t, m, lc->ax)), rest));
  return true;
}

/* ---- dropout ---- */
const SInfo *infer_dropout(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  const SInfo *f[2] = {x, x};
  return x ? sinfo_tuple(ic->c, f, 2) : NULL;
}

bool lower_dropout(LowerCtx *lc, Node *n) {
  (void)n;
  te_result_begin(lc, 0, "T_identity");
  te_out_value(lc, te_load(lc, te_arg(lc, 0), lc->ax));
  te_result_begin(lc, 1, "T_full_like");
  te_out(lc, te_spatial_end(lc, expr_lit(lc->c, lc->stage_dtype, 1)));
  return true;
}

/* ---- pad ---- */
const SInfo *infer_pad(InferCtx *ic, Node *n) {
  const nn_pad_attrs *a = n->attrs;
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  const char *mode = a->pad_mode ? a->pad_mode : "constant";
  if (strcmp(mode, "constant") && strcmp(mode, "reflect") && strcmp(mode, "replicate") &&
      strcmp(mode, "circular"))
    return infer_error(ic, n, C_choice, -1,
                       "pad_mode '%s' is none of constant, reflect, replicate, circular", mode);
  if (a->pad_width.n < 0 || x->ndim < 0 || a->pad_width.n != 2 * x->ndim)
    return infer_error(ic, n, C_count, -1, "expected %s widths for %s but got %d",
                       x->ndim < 0 ? "two per axis" : arena_printf(ic->arena, "%d", 2 * x->ndim),
                       infer_shape_text(ic, x), a->pad_width.n);
  if (!x->dims) return sinfo_tensor_ndim(ic->c, x->ndim, x->dtype);
  const Expr **d = infer_dims_copy(ic, x->dims, (uint32_t)x->ndim, 0);
  for (int32_t i = 0; i < x->ndim; i++) {
    int64_t lo = a->pad_width.at[2 * i], hi = a->pad_width.at[2 * i + 1], v;
    if (lo < 0 || hi < 0 || lo > INT32_MAX || hi > INT32_MAX)
      return infer_error(ic, n, C_least, -1, "widths must lie in [0, %d]", INT32_MAX);
    if (!strcmp(mode, "reflect") && expr_const_int(ic->c, d[i], &v) && (lo >= v || hi >= v) &&
        (lo || hi))
      return infer_error(ic, n, C_window, -1,
                         "a reflected border of axis %d must be less than its %lld", i,
                         (long long)v);
    d[i] = expr_simplify(ic->c, expr_add(ic->c, d[i], expr_i64(ic->c, lo + hi)));
  }
  return sinfo_tensor(ic->c, d, (uint32_t)x->ndim, x->dtype);
}

/* Position in the data of position i of the result, for an axis with `lo` elements before the data;
 * bounds kept whatever the width. */
static const Expr *border_index(LowerCtx *lc, const char *mode, const Expr *i, int64_t lo,
                                const Expr *dim) {
  Context *c = lc->c;
  const Expr *zero = te_i64(lc, 0), *first = te_i64(lc, lo), *last = SUB(dim, te_i64(lc, 1));
  const Expr *at = lo ? SUB(i, first) : i;
  if (!strcmp(mode, "circular")) return te_int_div(c, EXPR_FLOORMOD, at, dim);
  if (!strcmp(mode, "reflect")) {
    const Expr *mirrored = SUB(MUL(last, te_i64(lc, 2)), at);
    at = SEL(LT(i, expr_simplify(c, ADD(dim, first))), at, mirrored);
    if (lo) at = SEL(LT(i, first), SUB(first, i), at);
  }
  return expr_max(c, expr_min(c, at, last), zero);
}

bool lower_pad(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  const nn_pad_attrs *a = n->attrs;
  const char *mode = a->pad_mode ? a->pad_mode : "constant";
  Buffer *b = te_arg(lc, 0);
  te_result_begin(lc, 0, "PadInput");
  const Expr *idx[TE_MAX_RANK], *inside = NULL;
  for (uint32_t i = 0; i < b->ndim; i++) {
    int64_t lo = a->pad_width.at[2 * i], hi = a->pad_width.at[2 * i + 1];
    idx[i] = lo ? SUB(lc->ax[i], te_i64(lc, lo)) : lc->ax[i];
    if (!lo && !hi) continue;
    if (strcmp(mode, "constant")) {
      int64_t least = strcmp(mode, "reflect") ? 1 : (lo > hi ? lo : hi) + 1;
      const Expr *dim = b->shape[i], *enough = te_i64(lc, least);
      if (prove_le(c, NULL, expr_dim(c, enough), expr_dim(c, dim)) != PROOF_YES)
        te_assert(lc, GE(dim, enough), "axis %u has fewer than %lld elements", i, (long long)least);
      idx[i] = border_index(lc, mode, lc->ax[i], lo, dim);
      continue;
    }
    const Expr *top = expr_simplify(c, ADD(b->shape[i], te_i64(lc, lo)));
    const Expr *in = lo ? GE(lc->ax[i], te_i64(lc, lo)) : NULL;
    if (hi) in = in ? AND(in, LT(lc->ax[i], top)) : LT(lc->ax[i], top);
    inside = inside ? AND(inside, in) : in;
  }
  const Expr *v = te_load(lc, b, idx);
  if (inside)
    v = expr_if_then_else(c, inside, v, te_cast(c, b->dtype, expr_float(c, DT_F64, a->pad_value)));
  te_out(lc, te_spatial_end(lc, v));
  return true;
}

/* ---- pixel_shuffle ---- */
const SInfo *infer_pixel_shuffle(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  int64_t r = node_attrs(n, nn_pixel_shuffle)->upscale_factor;
  if (!x) return NULL;
  if (r <= 0 || r > 32767)
    return infer_error(ic, n, C_least, -1, "upscale_factor must be positive but is %lld",
                       (long long)r);
  if (x->ndim < 3)
    return infer_error(ic, n, C_rank, 0, "expected rank 3 or more but got %s",
                       infer_shape_text(ic, x));
  if (!x->dims) return sinfo_tensor_ndim(ic->c, x->ndim, x->dtype);
  const Expr **d = infer_dims_copy(ic, x->dims, (uint32_t)x->ndim, 0);
  const Expr *k = expr_i64(ic->c, r), *kk = expr_i64(ic->c, r * r);
  uint32_t at = (uint32_t)x->ndim - 3;
  const Expr *rest = expr_simplify(ic->c, expr_floormod(ic->c, d[at], kk));
  if (infer_ne(ic, rest, expr_i64(ic->c, 0)))
    return infer_error(ic, n, C_divisible, 0, "the %s channels are no multiple of %lld",
                       infer_expr_text(ic, d[at]), (long long)(r * r));
  d[at] = expr_simplify(ic->c, expr_floordiv(ic->c, d[at], kk));
  d[at + 1] = expr_simplify(ic->c, expr_mul(ic->c, d[at + 1], k));
  d[at + 2] = expr_simplify(ic->c, expr_mul(ic->c, d[at + 2], k));
  return sinfo_tensor(ic->c, d, (uint32_t)x->ndim, x->dtype);
}

bool lower_pixel_shuffle(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Buffer *b = te_arg(lc, 0);
  const Expr *r = te_i64(lc, node_attrs(n, nn_pixel_shuffle)->upscale_factor);
  te_result_begin(lc, 0, "T_pixel_shuffle");
  const Expr *idx[TE_MAX_RANK];
  uint32_t ch = b->ndim - 3;
  for (uint32_t i = 0; i < ch; i++) idx[i] = lc->ax[i];
  const Expr *h = lc->ax[ch + 1], *w = lc->ax[ch + 2];
  const Expr *sub = ADD(MUL(expr_floormod(c, h, r), r), expr_floormod(c, w, r));
  idx[ch] = ADD(MUL(lc->ax[ch], MUL(r, r)), sub);
  idx[ch + 1] = expr_floordiv(c, h, r);
  idx[ch + 2] = expr_floordiv(c, w, r);
  te_out(lc, te_spatial_end(lc, te_load(lc, b, idx)));
  return true;
}

/* ---- attention ---- */
static bool same_dim(InferCtx *ic, const Node *n, uint32_t i, const SInfo *a, int32_t ka,
                     const SInfo *b, int32_t kb) {
  if (!infer_ne(ic, a->dims[ka], b->dims[kb])) return true;
  infer_error(ic, n, C_same_dims, (int)i, "'%s' %s doesn't fit the query %s",
              infer_arg_name(ic, n, i), infer_shape_text(ic, b), infer_shape_text(ic, a));
  infer_note(ic, n, (int)i, "dim %d is %s but %s is expected", kb, infer_expr_text(ic, b->dims[kb]),
             infer_expr_text(ic, a->dims[ka]));
  return false;
}

static const SInfo *infer_attention_of(InferCtx *ic, Node *n, bool bias) {
  const nn_attention_attrs *a = n->attrs;
  const SInfo *s[3];
  for (uint32_t i = 0; i < 3; i++) {
    if (!(s[i] = infer_tensor_arg(ic, n, i))) return NULL;
    if (s[i]->ndim != 4 || !s[i]->dims)
      return infer_error(ic, n, C_rank, (int)i,
                         "expected '%s' of known shape (batch, length, heads, size) "
                         "but got %s",
                         infer_arg_name(ic, n, i), infer_shape_text(ic, s[i]));
    if (dtype_known(s[0]->dtype) && dtype_known(s[i]->dtype) && !dtype_eq(s[0]->dtype, s[i]->dtype))
      return infer_error(ic, n, C_same_dtype, (int)i,
                         "query, key and value must have the same dtype");
  }
  if (!infer_need_float(ic, n, 0, s[0])) return NULL;
  if (a->causal_mask && strcmp(a->causal_mask, "TopLeft") && strcmp(a->causal_mask, "BottomRight"))
    return infer_error(ic, n, C_choice, -1, "causal_mask '%s' is neither TopLeft nor BottomRight",
                       a->causal_mask);
  if (!same_dim(ic, n, 1, s[0], 0, s[1], 0) || !same_dim(ic, n, 1, s[0], 3, s[1], 3) ||
      !same_dim(ic, n, 2, s[0], 0, s[2], 0) || !same_dim(ic, n, 2, s[1], 1, s[2], 1))
    return NULL;
  int64_t heads, kv;
  for (uint32_t i = 1; i < 3; i++)
    if (expr_const_int(ic->c, s[0]->dims[2], &heads) && expr_const_int(ic->c, s[i]->dims[2], &kv) &&
        (kv == 0 || heads % kv))
      return infer_error(ic, n, C_divisible, (int)i,
                         "the query's %lld heads are no multiple of %lld", (long long)heads,
                         (long long)kv);
  if (bias) {
    const SInfo *b = infer_tensor_arg(ic, n, 3);
    if (!b) return NULL;
    if (b->ndim >= 0 && b->ndim != 4)
      return infer_error(ic, n, C_rank, 3, "expected rank 4 for 'bias' but got %s",
                         infer_shape_text(ic, b));
    const Expr *const *dims;
    int32_t ndim;
    const Expr *want[4] = {s[0]->dims[0], s[0]->dims[2], s[0]->dims[1], s[1]->dims[1]};
    if (!infer_broadcast(ic, n, sinfo_tensor(ic->c, want, 4, s[0]->dtype), b, &dims, &ndim))
      return NULL;
  }
  const Expr *d[4] = {s[0]->dims[0], s[0]->dims[1], s[0]->dims[2], s[2]->dims[3]};
  return sinfo_tensor(ic->c, d, 4, s[0]->dtype);
}

const SInfo *infer_attention(InferCtx *ic, Node *n) {
  return infer_attention_of(ic, n, node_has_in(n, 3));
}

/* Head of key or value that query head h uses: heads are shared in groups. */
static const Expr *shared_head(LowerCtx *lc, const Expr *h, const Expr *heads, const Expr *kv) {
  Context *c = lc->c;
  if (expr_proved_eq(c, heads, kv)) return h;
  return te_int_div(c, EXPR_FLOORDIV, h, te_int_div(c, EXPR_FLOORDIV, heads, kv));
}

/* Several sequences side by side (attention_var_len): where each begins, and for every position how
 * many begin at or before it. NULL: one sequence. */
typedef struct {
  Buffer *start_q, *start_k, *begun_q, *begun_k;
} Sequences;

/* Whether query position i sees key position j. NULL: always. The position of a query among the
 * keys is its own, with BottomRight further by the difference of the lengths (as TVM has it, its
 * amount). */
static const Expr *sees(LowerCtx *lc, const nn_attention_attrs *a, const Sequences *s,
                        const Expr *i, const Expr *j, const Expr *lq, const Expr *lk) {
  Context *c = lc->c;
  const Expr *same = NULL;
  if (s) {
    const Expr *bq = expr_load(c, s->begun_q, &i, 1), *bk = expr_load(c, s->begun_k, &j, 1);
    const Expr *n = SUB(s->start_q->shape[0], te_i64(lc, 1)), *one = te_i64(lc, 1);
    same = AND(EQ(bq, bk), AND(GE(bq, one), LE(bq, n)));
    const Expr *id = expr_max(c, expr_min(c, SUB(bq, one), SUB(n, one)), te_i64(lc, 0));
    const Expr *next = ADD(id, one);
    const Expr *q0 = te_cast(c, DT_I64, expr_load(c, s->start_q, &id, 1));
    const Expr *k0 = te_cast(c, DT_I64, expr_load(c, s->start_k, &id, 1));
    lq = SUB(te_cast(c, DT_I64, expr_load(c, s->start_q, &next, 1)), q0);
    lk = SUB(te_cast(c, DT_I64, expr_load(c, s->start_k, &next, 1)), k0);
    i = SUB(i, q0);
    j = SUB(j, k0);
  }
  if (a->causal_mask && !strcmp(a->causal_mask, "BottomRight")) {
    const Expr *more = SUB(lk, lq), *less = SUB(lq, lk);
    bool longer = prove_le(c, NULL, expr_dim(c, lq), expr_dim(c, lk)) == PROOF_YES;
    i = ADD(i, longer ? more : expr_max(c, more, less));
  }
  if (a->causal_mask) same = same ? AND(same, LE(j, i)) : LE(j, i);
  if (a->window_size.has) {
    const Expr *near = GT(j, SUB(i, te_i64(lc, a->window_size.v)));
    same = same ? AND(same, near) : near;
  }
  return same;
}

static bool attention(LowerCtx *lc, const nn_attention_attrs *a, Buffer *bias,
                      const Sequences *seq) {
  Context *c = lc->c;
  Buffer *q = te_arg(lc, 0), *k = te_arg(lc, 1), *v = te_arg(lc, 2);
  if (!te_need_equal(lc, q->shape[0], k->shape[0], "the batches of query and key") ||
      !te_need_equal(lc, q->shape[0], v->shape[0], "the batches of query and value") ||
      !te_need_equal(lc, q->shape[3], k->shape[3], "the sizes of query and key") ||
      !te_need_equal(lc, k->shape[1], v->shape[1], "the lengths of key and value"))
    return false;
  DType acc = te_acc_dtype(q->dtype);
  const Expr *heads = q->shape[2], *lq = q->shape[1], *lk = k->shape[1];
  const Expr *score[4] = {q->shape[0], heads, lq, lk};
  te_reduce_begin(lc, "T_scores", score, 4, acc, &q->shape[3], 1);
  const Expr *iq[4] = {lc->ax[0], lc->ax[2], lc->ax[1], lc->ax[4]};
  const Expr *ik[4] = {lc->ax[0], lc->ax[3], shared_head(lc, lc->ax[1], heads, k->shape[2]),
                       lc->ax[4]};
  Buffer *s = te_reduce_end(
      lc, TE_SUM, MUL(te_cast(c, acc, te_load(lc, q, iq)), te_cast(c, acc, te_load(lc, k, ik))));
  te_spatial_begin(lc, "T_scaled", score, 4, acc);
  const Expr *scale = a->scale.has
                          ? expr_float(c, acc, a->scale.v)
                          : DIV(expr_float(c, acc, 1), F1(sqrt, te_cast(c, acc, q->shape[3])));
  const Expr *x = MUL(te_load(lc, s, lc->ax), scale);
  if (bias) x = ADD(x, te_cast(c, acc, te_load_bcast(lc, bias, lc->ax, 4)));
  const Expr *seen = sees(lc, a, seq, lc->ax[2], lc->ax[3], lq, lk);
  const Expr *never = expr_float(c, acc, -(double)INFINITY), *zero = expr_float(c, acc, 0);
  if (seen) x = SEL(seen, x, never);
  /* A query may see no key at all: its result is 0. */
  bool none = seq || a->window_size.has;
  TeAxes t;
  int64_t last = 3;
  te_axes_init(lc, &t, te_spatial_end(lc, x), (IntList){1, &last}, false);
  Buffer *m = greatest(lc, &t, "T_softmax_maxelem");
  te_spatial_begin(lc, "T_softmax_exp", score, 4, acc);
  const Expr *d = SUB(te_load(lc, t.x, lc->ax), te_axes_result(lc, &t, m, lc->ax));
  d = F1(exp, d);
  if (none) d = SEL(EQ(te_axes_result(lc, &t, m, lc->ax), never), zero, d);
  Buffer *e = te_spatial_end(lc, d);
  te_axes_begin(lc, &t, "T_softmax_expsum", acc);
  Buffer *sum = te_reduce_end(lc, TE_SUM, te_axes_load(lc, &t, e));
  te_spatial_begin(lc, "T_softmax_norm", score, 4, acc);
  const Expr *all = te_axes_result(lc, &t, sum, lc->ax), *part = DIV(expr_lit(c, acc, 1), all);
  if (none) part = SEL(EQ(all, zero), zero, part);
  Buffer *p = te_spatial_end(lc, MUL(te_load(lc, e, lc->ax), part));
  uint32_t ndim;
  const Expr *const *shape = te_result_shape(lc, 0, &ndim);
  te_reduce_begin(lc, "T_attention", shape, 4, acc, &lk, 1);
  const Expr *ip[4] = {lc->ax[0], lc->ax[2], lc->ax[1], lc->ax[4]};
  const Expr *iv[4] = {lc->ax[0], lc->ax[4], shared_head(lc, lc->ax[2], heads, v->shape[2]),
                       lc->ax[3]};
  Buffer *o =
      te_reduce_end(lc, TE_SUM, MUL(te_load(lc, p, ip), te_cast(c, acc, te_load(lc, v, iv))));
  if (dtype_eq(acc, te_result_dtype(lc, 0))) {
    te_out(lc, o);
    return true;
  }
  te_result_begin(lc, 0, "compute");
  te_out_value(lc, te_load(lc, o, lc->ax));
  return true;
}

bool lower_attention(LowerCtx *lc, Node *n) {
  return attention(lc, n->attrs, te_has_arg(lc, 3) ? te_arg(lc, 3) : NULL, NULL);
}

/* ---- attention over sequences of different lengths ---- */
/* The operands after query, key, value: seqstart_q, seqstart_k, max_seqlen_q, max_seqlen_k, or (as
 * the Python function has it) seqstart_q, max_seqlen_q, seqstart_k, max_seqlen_k; seqstart_k may be
 * absent. The greatest lengths say nothing that the starts don't. */
static uint32_t starts_of_keys(const Node *n) {
  for (uint32_t i = 4; i < n->nin && i < 6; i++)
    if (node_has_in(n, i) && node_in(n, i)->sinfo->ndim == 1) return i;
  return 3;
}

const SInfo *infer_attention_var_len(InferCtx *ic, Node *n) {
  uint32_t at[2] = {3, starts_of_keys(n)};
  for (int i = 0; i < 2; i++) {
    const SInfo *s = infer_tensor_arg(ic, n, at[i]);
    if (!s || !infer_need_int(ic, n, at[i], s)) return NULL;
    if (s->ndim >= 0 && s->ndim != 1)
      return infer_error(ic, n, C_rank, (int)at[i], "expected rank 1 for '%s' but got %s",
                         infer_arg_name(ic, n, at[i]), infer_shape_text(ic, s));
  }
  return infer_attention_of(ic, n, false);
}

/* How many of the starts lie at or before each position. */
static Buffer *begun(LowerCtx *lc, Buffer *start, const Expr *len) {
  Context *c = lc->c;
  te_reduce_begin(lc, "T_begun", &len, 1, DT_I64, start->shape, 1);
  const Expr *s = te_cast(c, DT_I64, te_load(lc, start, &lc->ax[1]));
  return te_reduce_end(lc, TE_SUM, te_cast(c, DT_I64, LE(s, lc->ax[0])));
}

bool lower_attention_var_len(LowerCtx *lc, Node *n) {
  Context *c = lc->c;
  Sequences s = {.start_q = te_arg(lc, 3), .start_k = te_arg(lc, starts_of_keys(n))};
  if (!te_need_equal(lc, s.start_q->shape[0], s.start_k->shape[0], "the numbers of sequences") ||
      !te_need_equal(lc, te_arg(lc, 0)->shape[0], te_i64(lc, 1), "the batch and 1"))
    return false;
  te_assert(lc, GE(s.start_q->shape[0], te_i64(lc, 2)), "there is no sequence");
  s.begun_q = begun(lc, s.start_q, te_arg(lc, 0)->shape[1]);
  s.begun_k = begun(lc, s.start_k, te_arg(lc, 1)->shape[1]);
  return attention(lc, n->attrs, NULL, &s);
}
