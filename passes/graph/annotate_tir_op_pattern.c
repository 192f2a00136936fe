/* AnnotateTIROpPattern: classifies prim_funcs by their loops (passes/graph/pattern.h) and stores
 * the result as function attribute op_pattern for FuseOps.
 *
 *   before: @T.prim_func def relu(...)
 *   after:  @T.prim_func def relu(...): T.func_attr({"op_pattern": 0})
 *
 * An op_pattern that the text gives is kept.
 */
#include "passes/graph/graph.h"
#include "passes/graph/pattern.h"

bool pass_annotate_tir_op_pattern(PassCtx *pc) {
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_PRIM || !pass_wants(pc, g->name)) continue;
    PrimFunc *f = g->prim;
    if (attr_get(f->attrs, "op_pattern") || attr_get_bool(f->attrs, "relaxc.scheduled", false))
      continue;
    TirPattern p = tir_pattern(pc->c, pc->scratch, f);
    f->attrs = attr_with(pc->m->arena, f->attrs, "op_pattern", attr_int(pc->m->arena, p.kind));
  }
  return true;
}
