/* Elementwise operators on shapes that only the call can bring together.
 *
 * (n,) and (m,) broadcast when n == m, n == 1 or m == 1, as in NumPy; inference, which follows TVM,
 * knows no shape for the result. Such an operator is a composite: the dims of the result become
 * variables of the function, operands are broadcast to them (R.broadcast_to checks each dim when it
 * runs), and the operator itself has equal shapes.
 *
 *   before: z = R.add(x, y)                         x: (n,), y: (m,)
 *   after:  s = R.match_cast(R.shape([T.Select(n == 1, m, n)]), R.Shape([k]))
 *           z = R.add(R.broadcast_to(x, (k,)), R.broadcast_to(y, (k,)))
 */
#include "ir/ops/scalar.h"

/* The extent that a and b broadcast to, if they do. */
static const Expr *joined(LowerCtx *lc, const Expr *a, const Expr *b) {
  Context *c = lc->c;
  InferCtx ic = {.c = c, .m = lc->m, .arena = lc->arena};
  if (!a || expr_is_int(a, 1)) return b;
  if (expr_is_int(b, 1) || infer_eq(&ic, a, b)) return a;
  int64_t v;
  if (expr_const_int(c, a, &v)) return a;
  if (expr_const_int(c, b, &v)) return b;
  return expr_select(c, EQ(a, te_i64(lc, 1)), b, a);
}

/* Names for the dims that are computed. */
static Node *named_shape(LowerCtx *lc, const Expr **dims, uint32_t n) {
  Func *f = lc->node->func;
  Span at = lc->node->span;
  const Expr **names = ARENA_ARRAY(lc->arena, const Expr *, n + 1);
  bool computed = false;
  for (uint32_t i = 0; i < n; i++) {
    bool plain = dims[i]->kind != EXPR_SELECT;
    names[i] = plain ? dims[i] : var_create_dim(lc->c, func_unique_name(f, "joined"))->expr;
    computed |= !plain;
  }
  if (computed) {
    Node *s = node_shape(f, dims, n, at);
    if (!node_infer(lc->m, NULL, s)) return NULL;
    Node *m = node_create(f, OP_MATCH_CAST, &s, 1, at);
    m->annot = sinfo_shape(lc->c, names, n);
    if (!te_bind(lc, m)) return NULL;
  }
  Node *shape = node_shape(f, names, n, at);
  return node_infer(lc->m, NULL, shape) ? shape : NULL;
}

static bool has_shape(LowerCtx *lc, const SInfo *s, const Node *shape) {
  InferCtx ic = {.c = lc->c, .m = lc->m, .arena = lc->arena};
  if ((uint32_t)s->ndim != shape->shape.n) return false;
  for (int32_t k = 0; k < s->ndim; k++)
    if (!infer_eq(&ic, s->dims[k], shape->shape.at[k])) return false;
  return true;
}

bool te_joins_at_run_time(const Node *n) {
  if (!(node_op(n)->traits & OPT_ELEMWISE) || n->nin < 2) return false;
  if (n->sinfo->kind != SINFO_TENSOR || n->sinfo->dims || n->sinfo->ndim < 0) return false;
  for (uint32_t i = 0; i < n->nin; i++) {
    const SInfo *s = node_in(n, i)->sinfo;
    if (s->kind != SINFO_PRIM && !(s->kind == SINFO_TENSOR && s->dims)) return false;
  }
  return true;
}

bool te_join_operands(LowerCtx *lc, Node *n) {
  uint32_t rank = (uint32_t)n->sinfo->ndim;
  const Expr **dims = ARENA_ARRAY(lc->arena, const Expr *, rank + 1);
  for (uint32_t i = 0; i < n->nin; i++) {
    const SInfo *s = node_in(n, i)->sinfo;
    for (int32_t k = 0; s->kind == SINFO_TENSOR && k < s->ndim; k++) {
      const Expr **d = &dims[rank - (uint32_t)s->ndim + (uint32_t)k];
      *d = joined(lc, *d, s->dims[k]);
    }
  }
  for (uint32_t k = 0; k < rank; k++)
    if (!dims[k]) dims[k] = te_i64(lc, 1); /* a prim operand acts as shape (1,) */
  Node *shape = named_shape(lc, dims, rank);
  if (!shape) return false;
  Node **in = ARENA_ARRAY(lc->arena, Node *, n->nin);
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *both[2] = {in[i] = node_in(n, i), shape};
    if (in[i]->sinfo->kind != SINFO_TENSOR || has_shape(lc, in[i]->sinfo, shape)) continue;
    if (!(in[i] = te_bind(lc, te_make(lc, OP_broadcast_to, both, 2)))) return false;
  }
  Node *r = node_create(n->func, n->op, in, n->nin, n->span);
  r->attrs = n->attrs;
  if (!te_bind(lc, r)) return false;
  te_composite(lc, r);
  return true;
}
