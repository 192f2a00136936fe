/* Math intrinsics: hardware instructions, inline polynomials (math_f32.c), else the C library, lane
 * by lane.
 */
#include "codegen/llvm/math.h"

#include <stdio.h>

/* void rx.map.NAME(ptr out, ptr in..., i64 lanes): one loop per module and function, not one call
 * per lane at each place. */
static Val map_function(Cg *cg, const char *name, Val f, LLVMTypeRef ft, uint32_t n,
                        LLVMTypeRef *type) {
  LLVMTypeRef types[5] = {cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->i64}, elems[3];
  types[n + 1] = cg->i64;
  *type = cg_fn_type(cg->void_t, types, n + 2, false);
  const char *full = arena_printf(cg->arena, "rx.map.%s", name);
  Val fn = LLVMGetNamedFunction(cg->mod, full);
  if (fn) return fn;
  fn = LLVMAddFunction(cg->mod, full, *type);
  LLVMSetLinkage(fn, LLVMInternalLinkage);
  cg_fn_attrs(cg, fn, &cg->target->variants[0]);
  LLVMGetParamTypes(ft, elems);
  LLVMBuilderRef b = LLVMCreateBuilderInContext(cg->lc);
  LLVMBasicBlockRef in = LLVMAppendBasicBlockInContext(cg->lc, fn, "");
  LLVMBasicBlockRef loop = LLVMAppendBasicBlockInContext(cg->lc, fn, "");
  LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(cg->lc, fn, "");
  LLVMPositionBuilderAtEnd(b, in);
  LLVMBuildBr(b, loop);
  LLVMPositionBuilderAtEnd(b, loop);
  Val i = LLVMBuildPhi(b, cg->i64, ""), zero = cg_i64(cg, 0), x[3];
  LLVMAddIncoming(i, &zero, &in, 1);
  for (uint32_t k = 0; k < n; k++)
    x[k] = LLVMBuildLoad2(
        b, elems[k], LLVMBuildInBoundsGEP2(b, elems[k], LLVMGetParam(fn, k + 1), &i, 1, ""), "");
  LLVMTypeRef rt = LLVMGetReturnType(ft);
  Val r = LLVMBuildCall2(b, ft, f, x, n, "");
  LLVMBuildStore(b, r, LLVMBuildInBoundsGEP2(b, rt, LLVMGetParam(fn, 0), &i, 1, ""));
  Val next = LLVMBuildAdd(b, i, cg_i64(cg, 1), "");
  LLVMAddIncoming(i, &next, &loop, 1);
  LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, next, LLVMGetParam(fn, n + 1), ""), loop, end);
  LLVMPositionBuilderAtEnd(b, end);
  LLVMBuildRetVoid(b);
  LLVMDisposeBuilder(b);
  return fn;
}

/* A stack slot, allocated at the function's start. */
static Val stack_slot(const Math *m, LLVMTypeRef t) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(m->b);
  LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(LLVMGetBasicBlockParent(here));
  LLVMBuilderRef b = LLVMCreateBuilderInContext(m->cg->lc);
  LLVMValueRef first = LLVMGetFirstInstruction(entry);
  if (first)
    LLVMPositionBuilderBefore(b, first);
  else
    LLVMPositionBuilderAtEnd(b, entry);
  Val p = LLVMBuildAlloca(b, t, "");
  LLVMSetAlignment(p, 64);
  LLVMDisposeBuilder(b);
  return p;
}

static Val map_lanes(const Math *m, const char *name, Val f, LLVMTypeRef ft, Val const *args,
                     uint32_t n) {
  LLVMTypeRef type;
  Val fn = map_function(m->cg, name, f, ft, n, &type), a[5];
  a[0] = stack_slot(m, m->ft);
  for (uint32_t k = 0; k < n; k++) {
    a[k + 1] = stack_slot(m, LLVMTypeOf(args[k]));
    LLVMBuildStore(m->b, args[k], a[k + 1]);
  }
  a[n + 1] = cg_i64(m->cg, m->lanes);
  LLVMBuildCall2(m->b, type, fn, a, n + 2, "");
  return LLVMBuildLoad2(m->b, m->ft, a[0], "");
}

LLVMValueRef math_libm(const Math *m, const char *name, LLVMValueRef const *args, uint32_t n) {
  Cg *cg = m->cg;
  LLVMTypeRef t = m->f64 ? cg->f64 : cg->f32, types[3];
  char full[32];
  snprintf(full, sizeof full, "%s%s", name, m->f64 ? "" : "f");
  for (uint32_t i = 0; i < n; i++) {
    types[i] = LLVMTypeOf(args[i]);
    if (cg_lanes(args[i]) > 1) types[i] = LLVMGetElementType(types[i]);
  }
  LLVMTypeRef ft = cg_fn_type(t, types, n, false);
  LLVMValueRef f = cg_extern(cg, full, ft);
  if (m->lanes == 1) return LLVMBuildCall2(m->b, ft, f, (Val *)(uintptr_t)args, n, "");
  return map_lanes(m, full, f, ft, args, n);
}

LLVMValueRef math_unless_hard(const Math *m, LLVMValueRef ok,
                              Val (*fast)(const Math *, IntrinId, Val const *), IntrinId id,
                              const char *name, LLVMValueRef const *args, uint32_t n) {
  if (m->lanes > 1) {
    LLVMTypeRef bits = LLVMIntTypeInContext(m->cg->lc, m->lanes);
    ok = LLVMBuildBitCast(m->b, ok, bits, "");
    ok = LLVMBuildICmp(m->b, LLVMIntEQ, ok, LLVMConstAllOnes(bits), "");
  }
  LLVMValueRef fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(m->b));
  LLVMBasicBlockRef easy = LLVMAppendBasicBlockInContext(m->cg->lc, fn, "fast");
  LLVMBasicBlockRef hard = LLVMAppendBasicBlockInContext(m->cg->lc, fn, "slow");
  LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(m->cg->lc, fn, "end"), from[2];
  LLVMBuildCondBr(m->b, ok, easy, hard);
  LLVMPositionBuilderAtEnd(m->b, easy);
  Val in[2] = {fast(m, id, args), NULL};
  from[0] = LLVMGetInsertBlock(m->b);
  LLVMBuildBr(m->b, end);
  LLVMPositionBuilderAtEnd(m->b, hard);
  in[1] = math_libm(m, name, args, n);
  from[1] = LLVMGetInsertBlock(m->b);
  LLVMBuildBr(m->b, end);
  LLVMPositionBuilderAtEnd(m->b, end);
  Val phi = LLVMBuildPhi(m->b, m->ft, "");
  LLVMAddIncoming(phi, in, from, 2);
  return phi;
}

static const char *libm_name(IntrinId id) {
  switch (id) {
  case INTRIN_exp: return "exp";
  case INTRIN_exp2: return "exp2";
  case INTRIN_exp10: return "exp10";
  case INTRIN_expm1: return "expm1";
  case INTRIN_log: return "log";
  case INTRIN_log2: return "log2";
  case INTRIN_log10: return "log10";
  case INTRIN_log1p: return "log1p";
  case INTRIN_tanh: return "tanh";
  case INTRIN_erf: return "erf";
  case INTRIN_sin: return "sin";
  case INTRIN_cos: return "cos";
  case INTRIN_tan: return "tan";
  case INTRIN_sinh: return "sinh";
  case INTRIN_cosh: return "cosh";
  case INTRIN_asin: return "asin";
  case INTRIN_acos: return "acos";
  case INTRIN_atan: return "atan";
  case INTRIN_asinh: return "asinh";
  case INTRIN_acosh: return "acosh";
  case INTRIN_atanh: return "atanh";
  case INTRIN_atan2: return "atan2";
  case INTRIN_pow: return "pow";
  case INTRIN_fmod: return "fmod";
  case INTRIN_hypot: return "hypot";
  case INTRIN_nextafter: return "nextafter";
  case INTRIN_ldexp: return "ldexp";
  default: return NULL;
  }
}

/* Those that are one LLVM intrinsic, expanded inline on every target. */
static const char *llvm_name(IntrinId id) {
  switch (id) {
  case INTRIN_sqrt: return "llvm.sqrt";
  case INTRIN_floor: return "llvm.floor";
  case INTRIN_ceil: return "llvm.ceil";
  case INTRIN_trunc: return "llvm.trunc";
  case INTRIN_round:
  case INTRIN_nearbyint: return "llvm.roundeven";
  case INTRIN_fabs: return "llvm.fabs";
  case INTRIN_copysign: return "llvm.copysign";
  default: return NULL;
  }
}

LLVMValueRef math_call(Cg *cg, LLVMBuilderRef b, const Variant *v, IntrinId id,
                       LLVMValueRef const *args, uint32_t n) {
  LLVMTypeRef el = LLVMTypeOf(args[0]);
  if (cg_lanes(args[0]) > 1) el = LLVMGetElementType(el);
  Math m = math_of(cg, b, v, cg_lanes(args[0]), el == cg->f64);
  const char *name = llvm_name(id);
  if (name) return cg_intrinsic(cg, b, name, &m.ft, 1, args, n);
  LLVMValueRef one = cg_splat(cg, b, LLVMConstReal(el, 1), m.lanes), x = args[0];
  if (id == INTRIN_fma) {
    if (v->has_fma) return cg_intrinsic(cg, b, "llvm.fma", &m.ft, 1, args, 3);
    return LLVMBuildFAdd(b, LLVMBuildFMul(b, x, args[1], ""), args[2], "");
  }
  if (id == INTRIN_rsqrt) return mrsqrt(&m, x);
  LLVMValueRef r = m.f64 ? math_f64(&m, id, args) : math_f32(&m, id, args);
  if (r) return r;
  if (id == INTRIN_sigmoid) {
    LLVMValueRef neg = LLVMBuildFNeg(b, x, "");
    return LLVMBuildFDiv(b, one, LLVMBuildFAdd(b, one, math_libm(&m, "exp", &neg, 1), ""), "");
  }
  name = libm_name(id);
  return name ? math_libm(&m, name, args, n) : NULL;
}
