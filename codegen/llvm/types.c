/* Small helpers on LLVM's types, constants, attributes and integer arithmetic.
 *
 * LLVM's builder folds only when all operands are constants; the helpers here also fold what the
 * emitter counts on: selects with a known condition, neutral operands, division by a constant.
 */
#include "codegen/llvm/cg.h"

#include <stdio.h>
#include <stdlib.h>

LLVMTypeRef cg_vec(LLVMTypeRef t, uint32_t lanes) {
  return lanes > 1 ? LLVMVectorType(t, lanes) : t;
}

static LLVMTypeRef scalar_type(Cg *cg, DType d, bool mem) {
  switch (d.code) {
  case DTYPE_BOOL: return mem ? cg->i8 : cg->i1;
  case DTYPE_INT:
  case DTYPE_UINT: return LLVMIntTypeInContext(cg->lc, d.bits);
  case DTYPE_FLOAT: return d.bits == 32 ? cg->f32 : d.bits == 64 ? cg->f64 : cg->i16;
  case DTYPE_BFLOAT: return cg->i16;
  case DTYPE_HANDLE: return cg->ptr;
  default: return cg->i8; /* float8 */
  }
}

LLVMTypeRef cg_reg_type(Cg *cg, DType d) {
  if (!dtype_known(d)) return cg->void_t;
  return cg_vec(scalar_type(cg, d, false), d.lanes);
}

LLVMTypeRef cg_mem_type(Cg *cg, DType d) {
  return cg_vec(scalar_type(cg, d, true), d.lanes);
}

void cg_error(Cg *cg, Span s, const char *fmt, ...) {
  va_list ap;
  Text t = {0};
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  diag_error(cg->c->diags, s, "%s", text_cstr(&t));
  text_free(&t);
  cg->failed = true;
}

LLVMValueRef cg_string(Cg *cg, const char *s) {
  LLVMValueRef g = strmap_get(&cg->strings, s);
  if (g) return g;
  LLVMValueRef init = LLVMConstStringInContext2(cg->lc, s, strlen(s), false);
  g = LLVMAddGlobal(cg->mod, LLVMTypeOf(init), ".str");
  LLVMSetInitializer(g, init);
  LLVMSetGlobalConstant(g, true);
  LLVMSetLinkage(g, LLVMPrivateLinkage);
  LLVMSetUnnamedAddress(g, LLVMGlobalUnnamedAddr);
  LLVMSetAlignment(g, 1);
  strmap_set(&cg->strings, arena_strndup(cg->arena, s, strlen(s)), g);
  return g;
}

LLVMTypeRef cg_fn_type(LLVMTypeRef ret, LLVMTypeRef const *args, unsigned n, bool variadic) {
  return LLVMFunctionType(ret, (LLVMTypeRef *)(uintptr_t)args, n, variadic);
}

LLVMValueRef cg_extern(Cg *cg, const char *name, LLVMTypeRef type) {
  LLVMValueRef f = LLVMGetNamedFunction(cg->mod, name);
  if (f) return f;
  f = LLVMAddFunction(cg->mod, name, type);
  cg_attr(cg, f, LLVMAttributeFunctionIndex, "nounwind", 0);
  return f;
}

LLVMValueRef cg_intrinsic(Cg *cg, LLVMBuilderRef b, const char *name, LLVMTypeRef const *types,
                          unsigned ntypes, LLVMValueRef const *args, unsigned n) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (!id) bug("LLVM has no intrinsic %s", name);
  LLVMTypeRef *ts = (LLVMTypeRef *)(uintptr_t)types;
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(cg->mod, id, ts, ntypes);
  LLVMTypeRef ft = LLVMIntrinsicGetType(cg->lc, id, ts, ntypes);
  return LLVMBuildCall2(b, ft, f, (LLVMValueRef *)(uintptr_t)args, n, "");
}

void cg_attr(Cg *cg, LLVMValueRef fn, unsigned where, const char *name, uint64_t v) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(fn, where, LLVMCreateEnumAttribute(cg->lc, kind, v));
}

void cg_attr_str(Cg *cg, LLVMValueRef fn, const char *key, const char *value) {
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex,
                          LLVMCreateStringAttribute(cg->lc, key, (unsigned)strlen(key), value,
                                                    (unsigned)strlen(value)));
}

void cg_fn_attrs(Cg *cg, LLVMValueRef fn, const Variant *v) {
  cg_attr(cg, fn, LLVMAttributeFunctionIndex, "nounwind", 0);
  cg_attr_str(cg, fn, "target-cpu", v->cpu);
  if (*v->features) cg_attr_str(cg, fn, "target-features", v->features);
  if (v->vector_bits >= 512) {
    cg_attr_str(cg, fn, "prefer-vector-width", "512");
    cg_attr_str(cg, fn, "min-legal-vector-width", "512");
  }
}

uint32_t cg_lanes(LLVMValueRef v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : 1;
}

LLVMValueRef cg_splat(Cg *cg, LLVMBuilderRef b, LLVMValueRef v, uint32_t lanes) {
  if (lanes <= 1) return v;
  LLVMTypeRef t = LLVMVectorType(LLVMTypeOf(v), lanes);
  if (LLVMIsAConstantInt(v) || LLVMIsAConstantFP(v)) {
    LLVMValueRef *at = ARENA_ARRAY(cg->arena, LLVMValueRef, lanes);
    for (uint32_t i = 0; i < lanes; i++) at[i] = v;
    return LLVMConstVector(at, lanes);
  }
  LLVMValueRef one =
      LLVMBuildInsertElement(b, LLVMGetPoison(t), v, LLVMConstInt(cg->i64, 0, false), "");
  LLVMValueRef zeros = LLVMConstNull(LLVMVectorType(cg->i32, lanes));
  return LLVMBuildShuffleVector(b, one, LLVMGetPoison(t), zeros, "");
}

LLVMValueRef cg_iota(Cg *cg, LLVMTypeRef t, uint32_t lanes) {
  LLVMValueRef *at = ARENA_ARRAY(cg->arena, LLVMValueRef, lanes);
  for (uint32_t i = 0; i < lanes; i++) at[i] = LLVMConstInt(t, i, false);
  return lanes > 1 ? LLVMConstVector(at, lanes) : at[0];
}

bool cg_known_bool(LLVMValueRef c, bool *v) {
  if (LLVMIsNull(c)) {
    *v = false;
    return true;
  }
  if (LLVMIsConstant(c) && c == LLVMConstAllOnes(LLVMTypeOf(c))) {
    *v = true;
    return true;
  }
  return false;
}

LLVMValueRef cg_select(LLVMBuilderRef b, LLVMValueRef c, LLVMValueRef t, LLVMValueRef f) {
  bool known;
  if (t == f) return t;
  if (cg_known_bool(c, &known)) return known ? t : f;
  return LLVMBuildSelect(b, c, t, f, "");
}

static bool is_int(LLVMValueRef v, int64_t k) {
  return LLVMIsAConstantInt(v) && LLVMConstIntGetSExtValue(v) == k;
}

LLVMValueRef cg_add(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y) {
  if (is_int(x, 0)) return y;
  if (is_int(y, 0)) return x;
  return LLVMBuildAdd(b, x, y, "");
}

LLVMValueRef cg_mul(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y) {
  if (is_int(x, 1)) return y;
  if (is_int(y, 1)) return x;
  if (is_int(x, 0)) return x;
  if (is_int(y, 0)) return y;
  return LLVMBuildMul(b, x, y, "");
}

/* x / y towards zero, y neither 0 nor (signed) -1. Processors divide no vectors of integers, but do
 * divide floats: a quotient of integers below 2^k that isn't whole lies further than 2^-k of itself
 * from the next whole number, so rounding to more than k bits doesn't reach it. */
static LLVMValueRef quotient(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y, bool sgn) {
  LLVMTypeRef t = LLVMTypeOf(x);
  uint32_t n = cg_lanes(x);
  unsigned width = n > 1 ? LLVMGetIntTypeWidth(LLVMGetElementType(t)) : 64;
  if (width > 32 || (width == 32 && !sgn) || LLVMIsConstant(y))
    return sgn ? LLVMBuildSDiv(b, x, y, "") : LLVMBuildUDiv(b, x, y, "");
  LLVMContextRef lc = LLVMGetTypeContext(t);
  LLVMTypeRef f =
      LLVMVectorType(width == 32 ? LLVMDoubleTypeInContext(lc) : LLVMFloatTypeInContext(lc), n);
  LLVMTypeRef i = LLVMVectorType(LLVMInt32TypeInContext(lc), n);
  LLVMValueRef a = sgn ? LLVMBuildSIToFP(b, x, f, "") : LLVMBuildUIToFP(b, x, f, "");
  LLVMValueRef d = sgn ? LLVMBuildSIToFP(b, y, f, "") : LLVMBuildUIToFP(b, y, f, "");
  LLVMValueRef q = LLVMBuildFPToSI(b, LLVMBuildFDiv(b, a, d, ""), i, "");
  return width == 32 ? q : LLVMBuildTrunc(b, q, t, "");
}

LLVMValueRef cg_div(LLVMBuilderRef b, LLVMValueRef x, LLVMValueRef y, bool sgn, bool floor,
                    bool mod) {
  LLVMTypeRef t = LLVMTypeOf(x);
  LLVMValueRef zero = LLVMConstNull(t), ones = LLVMConstAllOnes(t);
  LLVMValueRef one = LLVMBuildSub(b, zero, ones, "");
  if (LLVMIsAConstantInt(y) && (!sgn || floor)) {
    uint64_t k = LLVMConstIntGetZExtValue(y);
    unsigned width = LLVMGetIntTypeWidth(t);
    bool positive = !sgn || LLVMConstIntGetSExtValue(y) > 0;
    if (k && positive && (k & (k - 1)) == 0) {
      unsigned shift = 0;
      while (shift < width && (k >> shift) != 1) shift++;
      if (mod) return LLVMBuildAnd(b, x, LLVMConstInt(t, k - 1, false), "");
      LLVMValueRef s = LLVMConstInt(t, shift, false);
      if (!shift) return x;
      return sgn ? LLVMBuildAShr(b, x, s, "") : LLVMBuildLShr(b, x, s, "");
    }
  }
  LLVMValueRef is_zero = LLVMBuildICmp(b, LLVMIntEQ, y, zero, "");
  if (!sgn) {
    LLVMValueRef safe = cg_select(b, is_zero, one, y);
    if (mod) {
      LLVMValueRef r =
          cg_lanes(x) > 1
              ? LLVMBuildSub(b, x, LLVMBuildMul(b, quotient(b, x, safe, false), safe, ""), "")
              : LLVMBuildURem(b, x, safe, "");
      return cg_select(b, is_zero, zero, r);
    }
    return cg_select(b, is_zero, zero, quotient(b, x, safe, false));
  }
  LLVMValueRef is_neg1 = LLVMBuildICmp(b, LLVMIntEQ, y, ones, "");
  LLVMValueRef odd = LLVMBuildOr(b, is_zero, is_neg1, "");
  LLVMValueRef safe = cg_select(b, odd, one, y);
  LLVMValueRef q = quotient(b, x, safe, true);
  /* With `safe` the remainder of both odd cases is 0, as it should be. */
  LLVMValueRef r = NULL;
  if (mod || floor) r = LLVMBuildSub(b, x, LLVMBuildMul(b, q, safe, ""), "");
  if (floor) {
    LLVMValueRef differ = LLVMBuildICmp(b, LLVMIntSLT, LLVMBuildXor(b, r, safe, ""), zero, "");
    LLVMValueRef off = LLVMBuildAnd(b, differ, LLVMBuildICmp(b, LLVMIntNE, r, zero, ""), "");
    if (LLVMIsAConstantInt(y) && LLVMConstIntGetSExtValue(y) > 0)
      off = LLVMBuildICmp(b, LLVMIntSLT, r, zero, "");
    if (mod) return cg_select(b, off, LLVMBuildAdd(b, r, safe, ""), r);
    q = cg_select(b, off, LLVMBuildAdd(b, q, ones, ""), q);
  } else if (mod) {
    return r;
  }
  q = cg_select(b, is_neg1, LLVMBuildSub(b, zero, x, ""), q);
  return cg_select(b, is_zero, zero, q);
}
