/* RewriteDataflowReshape: a call_tir that copies its input in the same order of elements becomes a
 * view of the same memory.
 *
 *   before: y = R.call_tir(cls.reshape, (x,), out_ty=R.Tensor((2, 8), dtype="float32"))
 *   after:  y = R.memory.view(x, R.shape([2, 8]))
 *
 * That the copy keeps the order is proved from its index map (passes/graph/pattern.h). Tensors are
 * never overwritten at this level, so a view may stand for a copy anywhere; the memory planner
 * keeps the viewed tensor alive, and a result that is a view of a parameter is copied at the
 * border.
 */
#include "passes/graph/graph.h"
#include "passes/graph/pattern.h"

static bool is_reshape(PassCtx *pc, Map *known, Node *n) {
  PrimFunc *f = node_callee_prim(n);
  if (!f || n->nin < 2 || n->sinfo->kind != SINFO_TENSOR || !n->sinfo->dims) return false;
  uintptr_t k = (uintptr_t)map_getp(known, f);
  if (!k) {
    k = tir_pattern(pc->c, pc->scratch, f).reshape ? 2 : 1;
    map_setp(known, f, (void *)k);
  }
  return k == 2;
}

/* The tensor that the prim_func reads: its other arguments are scalars. */
static Node *only_tensor(const Node *n) {
  Node *t = NULL;
  for (uint32_t i = 1; i < n->nin; i++) {
    if (node_in(n, i)->sinfo->kind != SINFO_TENSOR) continue;
    if (t) return NULL;
    t = node_in(n, i);
  }
  return t;
}

bool pass_rewrite_dataflow_reshape(PassCtx *pc) {
  Map known;
  map_init(&known, pc->scratch);
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    if (attr_get_bool(g->func->attrs, "Primitive", false)) continue;
    SeqVec seqs = {0};
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t k = 0; k < seqs.n; k++)
      for (BindingBlock *b = seqs.at[k]->first; b; b = b->next)
        for (Node *n = b->first, *next; n; n = next) {
          next = n->next;
          if (!is_reshape(pc, &known, n)) continue;
          Node *x = only_tensor(n);
          if (!x || x->op == OP_CONST) continue;
          Node *shape = node_shape(g->func, n->sinfo->dims, (uint32_t)n->sinfo->ndim, n->span);
          Node *in[] = {x, shape};
          Node *view = node_create(g->func, OP_memory_view, in, 2, n->span);
          view->attrs = node_new_attrs(g->func, OP_memory_view);
          view->sinfo = n->sinfo;
          graph_take_place(n, view);
        }
  }
  return true;
}
