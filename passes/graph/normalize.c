/* Normalize: A-normal form, struct info everywhere.
 *
 *   before: y = R.add(R.exp(x), x)
 *   after:  gv = R.exp(x); y = R.add(gv, x)
 *
 * The reader of scripts builds this form already; passes that compose operators needn't.
 */
#include "passes/graph/graph.h"

static bool infer_missing(Module *m, Node *n) {
  bool ok = true;
  for (uint32_t i = 0; i < n->nin; i++)
    if (!node_in(n, i)->block && node_in(n, i)->op != OP_PARAM)
      ok &= infer_missing(m, node_in(n, i));
  return n->sinfo ? ok : node_infer(m, NULL, n) && ok;
}

bool pass_normalize(PassCtx *pc) {
  bool ok = true;
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    SeqVec seqs = {0};
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t i = seqs.n; i-- > 0;) {
      Seq *s = seqs.at[i];
      for (BindingBlock *b = s->first; b; b = b->next)
        for (Node *n = b->first; n; n = n->next) {
          graph_bind_operands(n, n);
          ok &= infer_missing(pc->m, n);
        }
      /* what the result nests is bound at the end */
      Node *r = seq_result(s);
      if (node_is_atom(r)) {
        if (r->op != OP_TUPLE || r->block) continue;
        bool nested = false;
        for (uint32_t k = 0; k < r->nin; k++) nested |= !node_is_atom(node_in(r, k));
        if (!nested) continue;
      }
      BindingBlock *b = s->last;
      Node *owner = b ? b->owner : NULL;
      if (!b || b->dataflow) b = block_append(g->func, s, owner, false, r->span);
      node_bind_last(b, r, NULL);
      graph_bind_operands(r, r);
      ok &= infer_missing(pc->m, r);
    }
  }
  return ok;
}
