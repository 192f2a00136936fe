/* Stores past the caches, for results that are larger than these (passes/loop/streaming.c).
 *
 * The body is there twice: once for a result of that size in memory that begins with a cache line,
 * once for all others. Such stores aren't ordered with others; a fence at the end of the body, and
 * of each thread's part, makes them visible before anything that is stored afterwards.
 */
#include "codegen/llvm/cg.h"

#define LINE 64

/* Whether buffer b is large, and begins with a line. */
static LLVMValueRef is_fit(Fn *fn, const Buffer *b) {
  Cg *cg = fn->cg;
  const Dim *n = expr_dim(fn->c, expr_product(fn->c, b->shape, b->ndim));
  n = dim_scale(fn->c, n, (int64_t)dtype_bytes(b->dtype));
  LLVMValueRef limit = cg_i64(cg, fn->v->stream_bytes);
  LLVMValueRef large =
      LLVMBuildICmp(fn->b, LLVMIntSGE, dim_value(fn, dim_resolve(fn, n)), limit, "");
  LLVMValueRef p = fn_address(fn, b->data, dim_const(fn->c, 0), 1);
  p = LLVMBuildPtrToInt(fn->b, p, cg->i64, "");
  p = LLVMBuildAnd(fn->b, p, cg_i64(cg, LINE - 1), "");
  LLVMValueRef whole = LLVMBuildICmp(fn->b, LLVMIntEQ, p, cg_i64(cg, 0), "");
  return LLVMBuildAnd(fn->b, large, whole, "");
}

void streaming_body(Fn *fn) {
  const PrimFunc *f = fn->f;
  const Attr *list = attr_get(f->attrs, "relaxc.streaming");
  Map data;
  map_init(&data, fn->arena);
  LLVMValueRef fit = NULL;
  for (uint32_t i = 0; list && list->kind == ATTR_LIST && i < list->n; i++) {
    int64_t at = list->items[i]->kind == ATTR_INT ? list->items[i]->i : -1;
    const Buffer *b = at >= 0 && at < f->nparams ? f->param_bufs[at] : NULL;
    if (!b || is_in_place(f, (uint32_t)at)) continue;
    map_setp(&data, b->data, (void *)(uintptr_t)b);
    LLVMValueRef one = is_fit(fn, b);
    fit = fit ? LLVMBuildAnd(fn->b, fit, one, "") : one;
  }
  if (!fit || !fn->v->stream_bytes) {
    fn_stmt(fn, f->body);
    return;
  }
  LLVMBasicBlockRef yes = fn_block(fn, "stream"), no = fn_block(fn, "plain"),
                    end = fn_block(fn, "");
  LLVMValueRef br = LLVMBuildCondBr(fn->b, fit, yes, no);
  for (int streams = 1; streams >= 0; streams--) {
    LLVMPositionBuilderAtEnd(fn->b, streams ? yes : no);
    fn_scope_push(fn, br);
    fn->dead = false;
    fn->streamed = streams ? &data : NULL;
    fn_stmt(fn, f->body);
    if (!fn->dead) {
      streaming_end(fn);
      LLVMBuildBr(fn->b, end);
    }
    fn_scope_pop(fn);
  }
  fn->dead = false;
  fn->streamed = NULL;
  LLVMPositionBuilderAtEnd(fn->b, end);
}

void streaming_end(Fn *fn) {
  if (fn->streamed) cg_intrinsic(fn->cg, fn->b, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
}

void stream_store(Fn *fn, LLVMValueRef store, const Buffer *b, const Dim *at, uint32_t bytes) {
  int64_t elem = (int64_t)dtype_bytes(dtype_scalar(b->dtype));
  if (!fn->streamed || !map_hasp(fn->streamed, b->data) || bytes % LINE ||
      !dim_is_multiple(at, LINE / elem))
    return;
  Cg *cg = fn->cg;
  LLVMMetadataRef one = LLVMValueAsMetadata(cg_i32(cg, 1));
  LLVMValueRef node = LLVMMetadataAsValue(cg->lc, LLVMMDNodeInContext2(cg->lc, &one, 1));
  LLVMSetMetadata(store, LLVMGetMDKindIDInContext(cg->lc, "nontemporal", 11), node);
  LLVMSetAlignment(store, LINE);
}
