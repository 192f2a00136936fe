/* DecomposeOps: composite operators become the operators they consist of.
 *
 *   before: y = R.linear(x, w, b)
 *   after:  lv = R.permute_dims(w)
 *           lv1 = R.matmul(x, lv)
 *           y = R.add(lv1, b)
 *
 * The definition is the operator's lower hook (OPT_COMPOSITE, ir/te.h), the only one there is:
 * LegalizeOps goes through the same on its way down. Also operators whose operands only the call
 * can bring to one shape (ir/ops/broadcast.c).
 */
#include "ir/te.h"
#include "passes/graph/graph.h"

static bool decompose_seq(PassCtx *pc, Seq *s) {
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first, *next; n; n = next) {
      Lowered out;
      next = n->next;
      if (!graph_learn_shape(pc->m, n)) return false;
      if (!node_is_operator(n) || !te_is_composite(n)) continue;
      Node *before = n->prev;
      if (!te_lower_node(pc->m, n, &out)) return false;
      graph_take_composite(n, out.composite);
      next = before ? before->next : b->first; /* they may be composites themselves */
    }
  return true;
}

bool pass_decompose_ops(PassCtx *pc) {
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    SeqVec seqs = {0};
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t k = 0; k < seqs.n; k++)
      if (!decompose_seq(pc, seqs.at[k])) return false;
  }
  return true;
}
