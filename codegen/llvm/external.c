/* --weights-mode=external: constants lie in a file that the runtime maps at first use.
 *
 * Each function asks for the file's address once, at its start; a constant is that address plus an
 * offset, a multiple of 64. Path, size and hash of the file are known when all functions are
 * emitted: the description that they point to is filled in at the end.
 */
#include "codegen/llvm/graph.h"

extern uint64_t rx_weights_hash(const void *data, uint64_t size);

enum { SMALLEST = 64 }; /* bytes; smaller constants stay in the object */

bool external_wants(const Cg *cg, const ConstData *d) {
  return cg->opt->external && d->size > SMALLEST;
}

static void find_const(Node *n, void *ctx) {
  Graph *g = ctx;
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *x = node_in(n, i);
    if (x->op == OP_CONST && external_wants(g->cg, x->data)) g->wants_weights = true;
    if (x->op == OP_TUPLE && !node_is_bound(x)) find_const(x, ctx);
  }
  if (n->op != OP_IF) return;
  Node *results[2] = {n->if_.then_.yield, n->if_.else_.yield};
  for (int i = 0; i < 2; i++) find_const(results[i], ctx);
}

void external_open(Graph *g) {
  Cg *cg = g->cg;
  Fn *fn = g->fn;
  Func *f = (Func *)(uintptr_t)g->host->f;
  if (!cg->opt->external) return;
  func_each_node(f, find_const, g);
  find_const(f->body.yield, g);
  if (!g->wants_weights) return;
  LLVMTypeRef fields[3] = {cg->ptr, cg->i64, cg->i64};
  if (!cg->weights_file) {
    LLVMTypeRef t = LLVMStructTypeInContext(cg->lc, fields, 3, false);
    cg->weights_file = LLVMAddGlobal(cg->mod, t, "weights.file");
    LLVMSetLinkage(cg->weights_file, LLVMInternalLinkage);
    LLVMSetGlobalConstant(cg->weights_file, true);
    cg->weights_slot = LLVMAddGlobal(cg->mod, cg->ptr, "weights.slot");
    LLVMSetLinkage(cg->weights_slot, LLVMInternalLinkage);
    LLVMSetInitializer(cg->weights_slot, LLVMConstNull(cg->ptr));
    LLVMSetInitializer(cg->weights_file, LLVMConstNull(t));
  }
  LLVMTypeRef types[3] = {cg->ptr, cg->ptr, cg->ptr}, t = cg_fn_type(cg->i32, types, 3, false);
  LLVMValueRef at = fn_alloca(fn, cg->ptr, 1, 8);
  LLVMValueRef args[3] = {cg->weights_file, cg->weights_slot, at};
  fn_check_status(fn, LLVMBuildCall2(fn->b, t, cg_extern(cg, "rx_weights_map", t), args, 3, ""));
  g->weights = LLVMBuildLoad2(fn->b, cg->ptr, at, "");
}

LLVMValueRef external_const(Graph *g, const ConstData *d) {
  Cg *cg = g->cg;
  Text *bytes = &cg->weights;
  uintptr_t place = (uintptr_t)map_getp(&cg->consts, d);
  if (!place) {
    while (bytes->n % 64) text_putc(bytes, 0);
    place = bytes->n + 1;
    text_putn(bytes, d->bytes, d->size);
    map_setp(&cg->consts, d, (void *)place);
  }
  LLVMValueRef off = cg_i64(cg, (int64_t)place - 1);
  return LLVMBuildInBoundsGEP2(g->fn->b, cg->i8, g->weights, &off, 1, "");
}

void external_close(Cg *cg) {
  if (!cg->weights_file) return;
  uint64_t hash = rx_weights_hash(text_cstr(&cg->weights), cg->weights.n);
  LLVMValueRef f[3] = {cg_string(cg, cg->opt->external), cg_i64(cg, (int64_t)cg->weights.n),
                       cg_i64(cg, (int64_t)hash)};
  LLVMSetInitializer(cg->weights_file, LLVMConstStructInContext(cg->lc, f, 3, false));
}
