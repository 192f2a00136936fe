/* The internal function behind the entries of a public prim_func: it calls the kernel, the same one
 * that call_tir calls.
 *
 * Its interface is that of a Relax function (Host): arguments, outputs, dims, workspace. A buffer
 * that is changed in place is copied from the argument to the output first, unless both are the
 * same.
 */
#include "codegen/llvm/cg.h"

/* Copies argument to output where the plain entry didn't get one pointer for both. */
static void copy_in(Cg *cg, Fn *fn, const SInfo *si, LLVMValueRef from, LLVMValueRef to) {
  LLVMValueRef bytes = dim_value(fn, sinfo_bytes(cg->c, si));
  LLVMBasicBlockRef copy = fn_block(fn, "copy"), end = fn_block(fn, "");
  LLVMBuildCondBr(fn->b, LLVMBuildICmp(fn->b, LLVMIntNE, from, to, ""), copy, end);
  LLVMPositionBuilderAtEnd(fn->b, copy);
  cg_memcpy(cg, fn->b, to, from, bytes);
  LLVMBuildBr(fn->b, end);
  LLVMPositionBuilderAtEnd(fn->b, end);
}

void prim_host_define(Cg *cg, Host *h) {
  const AbiFunc *f = h->abi;
  const PrimFunc *p = f->prim;
  Fn fn;
  if (!h->fn) return;
  host_fn_begin(&fn, cg, h->fn);
  debug_function(&fn, p->name, p->span);
  uint32_t first_dim = f->nargs + f->nouts;
  LLVMValueRef ws = LLVMGetParam(h->fn, first_dim + f->func->ndims);
  for (uint32_t i = 0; i < f->func->ndims; i++)
    fn_bind(&fn, f->func->dims[i],
            (Binding){.idx = LLVMGetParam(h->fn, first_dim + i), .level = 0});
  Kernel *k = kernel_get(cg, p);
  LLVMValueRef *args = ARENA_ARRAY(fn.arena, LLVMValueRef, p->nparams + p->ndims + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const AbiParam *at = &f->params[i];
    LLVMValueRef arg = at->arg != ABI_ABSENT ? LLVMGetParam(h->fn, at->arg) : NULL;
    LLVMValueRef out = at->out != ABI_ABSENT ? LLVMGetParam(h->fn, f->nargs + at->out) : NULL;
    if (arg && out) copy_in(cg, &fn, f->args[at->arg].sinfo, arg, out);
    args[n++] = out ? out : arg;
  }
  if (n < p->nparams) args[n++] = ws;
  for (uint32_t i = 0; i < p->ndims; i++) args[n++] = dim_value(&fn, dim_var(cg->c, p->dims[i]));
  LLVMValueRef status = kernel_call_host(cg, fn.b, p->name, k, args, n);
  fn_return(&fn, k->can_fail ? status : LLVMConstNull(cg->i32));
  host_fn_end(&fn);
  const Attr *bytes = attr_get(p->attrs, "relaxc.workspace_bytes");
  const Dim *total = bytes && bytes->kind == ATTR_EXPR ? expr_dim(cg->c, bytes->expr) : NULL;
  if (bytes && bytes->kind == ATTR_INT) total = dim_const(cg->c, bytes->i);
  host_define_bytes(cg, h, total ? total : dim_const(cg->c, 0), NULL, 0);
}
