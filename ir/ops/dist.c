/* Struct info of collective operations and distributed tensors. */
#include "ir/ops/util.h"

const SInfo *infer_allgather(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x || !x->dims) return x;
  if (x->ndim == 0) return infer_error(ic, n, C_rank, 0, "expected at least one dim");
  const Expr **dims = infer_dims_copy(ic, x->dims, (uint32_t)x->ndim, 0);
  dims[0] = expr_simplify(
      ic->c, expr_mul(ic->c, dims[0], expr_i64(ic->c, node_attrs(n, ccl_allgather)->num_workers)));
  return sinfo_tensor(ic->c, dims, (uint32_t)x->ndim, x->dtype);
}

const SInfo *infer_scatter(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  if (!x->dims)
    return infer_error(ic, n, C_shape_known, 0, "the shape of '%s' must be known",
                       infer_arg_name(ic, n, 0));
  bool ccl = n->op == OP_ccl_scatter_from_worker0;
  int64_t workers = ccl ? node_attrs(n, ccl_scatter_from_worker0)->num_workers
                        : node_attrs(n, dist_redistribute_replica_to_shard)->num_workers;
  int64_t at = ccl ? node_attrs(n, ccl_scatter_from_worker0)->axis
                   : node_attrs(n, dist_redistribute_replica_to_shard)->axis;
  int32_t axis;
  if (!infer_axis(ic, n, at, x->ndim, &axis)) return NULL;
  if (x->mesh) { /* the whole tensor stays what it is; only its placement changes */
    const char *placement = arena_printf(ic->arena, "S[%d]", axis);
    return sinfo_with_mesh(ic->c, x, x->mesh, placement);
  }
  if (workers < 1) return infer_error(ic, n, C_least, -1, "num_workers must be positive");
  const Expr **dims = infer_dims_copy(ic, x->dims, (uint32_t)x->ndim, 0);
  const Expr *by = expr_i64(ic->c, workers);
  if (infer_ne(ic, expr_floormod(ic->c, dims[axis], by), expr_i64(ic->c, 0)))
    return infer_error(ic, n, C_divisible, 0, "dim %d of %s can't be divided among %lld workers",
                       axis, infer_shape_text(ic, x), (long long)workers);
  dims[axis] = expr_simplify(ic->c, expr_floordiv(ic->c, dims[axis], by));
  return sinfo_tensor(ic->c, dims, (uint32_t)x->ndim, x->dtype);
}

const SInfo *infer_redistribute(InferCtx *ic, Node *n) {
  const SInfo *x = infer_tensor_arg(ic, n, 0);
  if (!x) return NULL;
  const Attr *mesh = node_attrs(n, dist_redistribute)->device_mesh;
  const char *placement = node_attrs(n, dist_redistribute)->placement;
  if (!mesh || mesh->kind != ATTR_STR || !placement) return x;
  return sinfo_with_mesh(ic->c, x, mesh->s, placement);
}
