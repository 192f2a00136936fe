/* Conversions between register values, the half types inline.
 *
 * float16 without hardware: widening is one multiplication by 2^112 on the shifted bits, which is
 * exact for normal and denormal numbers alike; narrowing rounds to nearest even with integer adds,
 * denormals by adding 0.5 so that the hardware's own rounding does the work. From float64 to a half
 * type the step through float32 rounds to odd, which makes the second rounding exact.
 * float8 the same way with other widths; float8_e5m2 widens as the upper half of a float16.
 * float to int saturates at 32 and 64 bits (NaN gives 0); narrower types keep the low bits of that.
 */
#include "codegen/llvm/cg.h"

#include <stdio.h>
#include <stdlib.h>

static bool has_half(const Cg *cg, const Variant *v) {
  if (strncmp(cg->target->triple, "aarch64", 7) == 0 ||
      strncmp(cg->target->triple, "arm64", 5) == 0)
    return true;
  return v->vector_bits >= 256 && v->has_fma; /* x86-64-v3 has F16C */
}

static LLVMValueRef konst(LLVMTypeRef t, uint64_t v) {
  /* Splat of an integer constant over t. */
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return LLVMConstInt(t, v, false);
  unsigned n = LLVMGetVectorSize(t);
  LLVMValueRef *at = xmalloc(n * sizeof *at);
  for (unsigned i = 0; i < n; i++) at[i] = LLVMConstInt(LLVMGetElementType(t), v, false);
  LLVMValueRef r = LLVMConstVector(at, n);
  free(at);
  return r;
}

static LLVMValueRef e4m3_to_f32(Cg *cg, LLVMBuilderRef b, LLVMValueRef x) {
  uint32_t n = cg_lanes(x);
  LLVMTypeRef i32 = cg_vec(cg->i32, n), f32 = cg_vec(cg->f32, n);
  LLVMValueRef u = LLVMBuildZExt(b, x, i32, ""), low = LLVMBuildAnd(b, u, konst(i32, 0x7f), "");
  LLVMValueRef sign = LLVMBuildShl(b, LLVMBuildAnd(b, u, konst(i32, 0x80), ""), konst(i32, 24), "");
  LLVMValueRef em = LLVMBuildShl(b, low, konst(i32, 20), "");
  LLVMValueRef scale = LLVMBuildBitCast(b, konst(i32, (127u + 120u) << 23), f32, "");
  LLVMValueRef f = LLVMBuildFMul(b, LLVMBuildBitCast(b, em, f32, ""), scale, "");
  LLVMValueRef nan = LLVMBuildICmp(b, LLVMIntEQ, low, konst(i32, 0x7f), "");
  LLVMValueRef bits = LLVMBuildBitCast(b, f, i32, "");
  bits = LLVMBuildSelect(b, nan, konst(i32, 0x7fc00000), bits, "");
  return LLVMBuildBitCast(b, LLVMBuildOr(b, bits, sign, ""), f32, "");
}

/* Rounds to nearest even; float8_e4m3fn has no infinity, what is too great becomes NaN. */
static LLVMValueRef f8_from_f32(Cg *cg, LLVMBuilderRef b, DType d, LLVMValueRef x) {
  uint32_t n = cg_lanes(x), mbits = d.code == DTYPE_E4M3FN ? 3 : 2, shift = 23 - mbits;
  uint32_t bias = d.code == DTYPE_E4M3FN ? 7 : 15;
  uint32_t over = d.code == DTYPE_E4M3FN ? 0x7f : 0x7c, nan = d.code == DTYPE_E4M3FN ? 0x7f : 0x7e;
  LLVMTypeRef i32 = cg_vec(cg->i32, n), f32 = cg_vec(cg->f32, n);
  LLVMValueRef u = LLVMBuildBitCast(b, x, i32, "");
  LLVMValueRef sign = LLVMBuildAnd(b, u, konst(i32, 0x80000000), "");
  LLVMValueRef a = LLVMBuildXor(b, u, sign, "");
  LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, a, konst(i32, shift), ""), konst(i32, 1), "");
  uint32_t rebias = ((bias - 127u) << 23) + (1u << (shift - 1)) - 1;
  LLVMValueRef r = LLVMBuildAdd(b, LLVMBuildAdd(b, a, konst(i32, rebias), ""), odd, "");
  r = LLVMBuildLShr(b, r, konst(i32, shift), "");
  uint32_t magic = (127u + 1u - bias - mbits + 23u) << 23;
  LLVMValueRef den = LLVMBuildBitCast(b, a, f32, "");
  den = LLVMBuildFAdd(b, den, LLVMBuildBitCast(b, konst(i32, magic), f32, ""), "");
  den = LLVMBuildSub(b, LLVMBuildBitCast(b, den, i32, ""), konst(i32, magic), "");
  LLVMValueRef high = LLVMBuildICmp(b, LLVMIntUGE, r, konst(i32, over), "");
  r = LLVMBuildSelect(b, high, konst(i32, over), r, "");
  LLVMValueRef small = LLVMBuildICmp(b, LLVMIntULT, a, konst(i32, (128u - bias) << 23), "");
  r = LLVMBuildSelect(b, small, den, r, "");
  LLVMValueRef none = LLVMBuildICmp(b, LLVMIntUGT, a, konst(i32, 0x7f800000), "");
  r = LLVMBuildSelect(b, none, konst(i32, nan), r, "");
  r = LLVMBuildOr(b, r, LLVMBuildLShr(b, sign, konst(i32, 24), ""), "");
  return LLVMBuildTrunc(b, r, cg_vec(cg->i8, n), "");
}

LLVMValueRef half_to_f32(Cg *cg, LLVMBuilderRef b, const Variant *v, DType d, LLVMValueRef x) {
  uint32_t n = cg_lanes(x);
  if (d.code == DTYPE_E4M3FN) return e4m3_to_f32(cg, b, x);
  if (d.code == DTYPE_E5M2) {
    LLVMTypeRef i16 = cg_vec(cg->i16, n);
    x = LLVMBuildShl(b, LLVMBuildZExt(b, x, i16, ""), konst(i16, 8), "");
  }
  LLVMTypeRef i32 = cg_vec(cg->i32, n), f32 = cg_vec(cg->f32, n);
  if (d.code == DTYPE_BFLOAT) {
    LLVMValueRef u = LLVMBuildShl(b, LLVMBuildZExt(b, x, i32, ""), konst(i32, 16), "");
    return LLVMBuildBitCast(b, u, f32, "");
  }
  if (has_half(cg, v))
    return LLVMBuildFPExt(b, LLVMBuildBitCast(b, x, cg_vec(cg->f16, n), ""), f32, "");
  LLVMValueRef u = LLVMBuildZExt(b, x, i32, "");
  LLVMValueRef sign =
      LLVMBuildShl(b, LLVMBuildAnd(b, u, konst(i32, 0x8000), ""), konst(i32, 16), "");
  LLVMValueRef em = LLVMBuildShl(b, LLVMBuildAnd(b, u, konst(i32, 0x7fff), ""), konst(i32, 13), "");
  LLVMValueRef scale = LLVMBuildBitCast(b, konst(i32, 0x77800000), f32, "");
  LLVMValueRef f = LLVMBuildFMul(b, LLVMBuildBitCast(b, em, f32, ""), scale, "");
  LLVMValueRef bits = LLVMBuildBitCast(b, f, i32, "");
  LLVMValueRef special = LLVMBuildICmp(b, LLVMIntUGE, em, konst(i32, 0x7c00u << 13), "");
  bits = LLVMBuildSelect(b, special, LLVMBuildOr(b, em, konst(i32, 0x7f800000), ""), bits, "");
  return LLVMBuildBitCast(b, LLVMBuildOr(b, bits, sign, ""), f32, "");
}

LLVMValueRef half_from_f32(Cg *cg, LLVMBuilderRef b, const Variant *v, DType d, LLVMValueRef x) {
  uint32_t n = cg_lanes(x);
  LLVMTypeRef i32 = cg_vec(cg->i32, n), f32 = cg_vec(cg->f32, n), i16 = cg_vec(cg->i16, n);
  if (d.bits == 8) return f8_from_f32(cg, b, d, x);
  if (d.code == DTYPE_FLOAT && has_half(cg, v))
    return LLVMBuildBitCast(b, LLVMBuildFPTrunc(b, x, cg_vec(cg->f16, n), ""), i16, "");
  LLVMValueRef u = LLVMBuildBitCast(b, x, i32, "");
  if (d.code == DTYPE_BFLOAT) {
    LLVMValueRef high = LLVMBuildLShr(b, u, konst(i32, 16), "");
    LLVMValueRef odd = LLVMBuildAnd(b, high, konst(i32, 1), "");
    LLVMValueRef r = LLVMBuildAdd(b, LLVMBuildAdd(b, u, konst(i32, 0x7fff), ""), odd, "");
    r = LLVMBuildLShr(b, r, konst(i32, 16), "");
    LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, x, x, "");
    r = LLVMBuildSelect(b, nan, LLVMBuildOr(b, high, konst(i32, 0x40), ""), r, "");
    return LLVMBuildTrunc(b, r, i16, "");
  }
  LLVMValueRef sign = LLVMBuildAnd(b, u, konst(i32, 0x80000000), "");
  LLVMValueRef a = LLVMBuildXor(b, u, sign, "");
  LLVMValueRef odd = LLVMBuildAnd(b, LLVMBuildLShr(b, a, konst(i32, 13), ""), konst(i32, 1), "");
  /* Rebias the exponent by 15 - 127 and round at bit 13. */
  LLVMValueRef normal = LLVMBuildAdd(b, a, konst(i32, (uint32_t)((15u - 127u) << 23) + 0xfffu), "");
  normal = LLVMBuildLShr(b, LLVMBuildAdd(b, normal, odd, ""), konst(i32, 13), "");
  LLVMValueRef half = LLVMBuildBitCast(b, konst(i32, 0x3f000000), f32, "");
  LLVMValueRef den = LLVMBuildFAdd(b, LLVMBuildBitCast(b, a, f32, ""), half, "");
  den = LLVMBuildSub(b, LLVMBuildBitCast(b, den, i32, ""), konst(i32, 0x3f000000), "");
  LLVMValueRef nan = LLVMBuildICmp(b, LLVMIntUGT, a, konst(i32, 0x7f800000), "");
  LLVMValueRef big = LLVMBuildSelect(b, nan, konst(i32, 0x7e00), konst(i32, 0x7c00), "");
  LLVMValueRef r = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntULT, a, konst(i32, 113u << 23), ""),
                                   den, normal, "");
  r = LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGE, a, konst(i32, 0x47800000), ""), big, r, "");
  r = LLVMBuildOr(b, r, LLVMBuildLShr(b, sign, konst(i32, 16), ""), "");
  return LLVMBuildTrunc(b, r, i16, "");
}

LLVMValueRef half_from_f64(Cg *cg, LLVMBuilderRef b, const Variant *v, DType d, LLVMValueRef x) {
  uint32_t n = cg_lanes(x);
  LLVMTypeRef i32 = cg_vec(cg->i32, n), i64 = cg_vec(cg->i64, n), f64 = cg_vec(cg->f64, n);
  LLVMTypeRef f32 = cg_vec(cg->f32, n);
  LLVMValueRef f = LLVMBuildFPTrunc(b, x, f32, "");
  LLVMValueRef back = LLVMBuildFPExt(b, f, f64, "");
  LLVMValueRef mask = konst(i64, INT64_MAX);
  LLVMValueRef got = LLVMBuildAnd(b, LLVMBuildBitCast(b, back, i64, ""), mask, "");
  LLVMValueRef wanted = LLVMBuildAnd(b, LLVMBuildBitCast(b, x, i64, ""), mask, "");
  LLVMValueRef away = LLVMBuildICmp(b, LLVMIntUGT, got, wanted, "");
  LLVMValueRef inexact = LLVMBuildFCmp(b, LLVMRealONE, back, x, "");
  away = LLVMBuildAnd(b, away, inexact, "");
  LLVMValueRef u = LLVMBuildBitCast(b, f, i32, "");
  u = LLVMBuildSub(b, u, LLVMBuildZExt(b, away, i32, ""), "");
  u = LLVMBuildOr(b, u, LLVMBuildZExt(b, inexact, i32, ""), "");
  return half_from_f32(cg, b, v, d, LLVMBuildBitCast(b, u, f32, ""));
}

static bool is_half(DType d) {
  return d.bits <= 16 && dtype_is_float(d);
}

/* A vector of floats to integers as llvm.fptosi.sat and llvm.fptoui.sat do it, which LLVM would
 * take apart into scalars: the others than the numbers in range become the nearest integer, NaN 0.
 * The low end is a float, so that what lies below, and NaN, becomes it before the conversion; what
 * lies above is poison that isn't selected. */
static LLVMValueRef saturate(Cg *cg, LLVMBuilderRef b, LLVMTypeRef it, bool sgn, LLVMValueRef x) {
  uint32_t n = cg_lanes(x);
  LLVMTypeRef element = LLVMGetElementType(LLVMTypeOf(x));
  uint64_t half = UINT64_C(1) << (LLVMGetIntTypeWidth(LLVMGetElementType(it)) - 1);
  double first = sgn ? -(double)half : 0, past = (sgn ? 1.0 : 2.0) * (double)half;
  LLVMValueRef lo = cg_splat(cg, b, LLVMConstReal(element, first), n);
  LLVMValueRef hi = cg_splat(cg, b, LLVMConstReal(element, past), n);
  LLVMValueRef in = LLVMBuildFCmp(b, LLVMRealOGT, x, lo, "");
  LLVMValueRef from = LLVMBuildSelect(b, in, x, lo, "");
  LLVMValueRef r = sgn ? LLVMBuildFPToSI(b, from, it, "") : LLVMBuildFPToUI(b, from, it, "");
  LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGE, x, hi, "");
  r = LLVMBuildSelect(b, above, konst(it, sgn ? half - 1 : UINT64_MAX), r, "");
  if (!sgn) return r;
  LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, x, x, "");
  return LLVMBuildSelect(b, nan, LLVMConstNull(it), r, "");
}

static LLVMValueRef float_to_int(Cg *cg, LLVMBuilderRef b, DType to, LLVMValueRef x) {
  uint32_t n = cg_lanes(x);
  LLVMTypeRef ft = LLVMTypeOf(x);
  bool u64 = dtype_is_uint(to) && to.bits == 64;
  bool wide = to.bits == 64 || (dtype_is_uint(to) && to.bits == 32);
  LLVMTypeRef it = cg_vec(wide ? cg->i64 : cg->i32, n);
  LLVMTypeRef types[2] = {it, ft};
  const char *name = u64 ? "llvm.fptoui.sat" : "llvm.fptosi.sat";
  LLVMValueRef r =
      n > 1 ? saturate(cg, b, it, !u64, x) : cg_intrinsic(cg, b, name, types, 2, &x, 1);
  LLVMTypeRef want = cg_vec(LLVMIntTypeInContext(cg->lc, to.bits), n);
  return it == want ? r : LLVMBuildTrunc(b, r, want, "");
}

LLVMValueRef cg_convert(Cg *cg, LLVMBuilderRef b, const Variant *v, DType from, DType to,
                        LLVMValueRef x) {
  uint32_t n = cg_lanes(x);
  if (from.code == to.code && from.bits == to.bits) return x;
  LLVMTypeRef tt = cg_vec(cg_reg_type(cg, dtype_scalar(to)), n), t = LLVMTypeOf(x);
  if (is_half(from)) {
    if (dtype_is_bool(to)) {
      LLVMValueRef low = LLVMBuildAnd(b, x, konst(t, from.bits == 8 ? 0x7f : 0x7fff), "");
      return LLVMBuildICmp(b, LLVMIntNE, low, LLVMConstNull(t), "");
    }
    return cg_convert(cg, b, v, DT_F32, to, half_to_f32(cg, b, v, from, x));
  }
  if (is_half(to)) {
    if (from.code == DTYPE_FLOAT && from.bits == 64) return half_from_f64(cg, b, v, to, x);
    if (from.code == DTYPE_FLOAT) return half_from_f32(cg, b, v, to, x);
    if (from.bits > 16 && !dtype_is_bool(from))
      return half_from_f64(cg, b, v, to, cg_convert(cg, b, v, from, DT_F64, x));
    return half_from_f32(cg, b, v, to, cg_convert(cg, b, v, from, DT_F32, x));
  }
  bool ff = dtype_is_float(from), tf = dtype_is_float(to);
  if (dtype_is_bool(to)) {
    if (ff) return LLVMBuildFCmp(b, LLVMRealUNE, x, LLVMConstNull(t), "");
    return LLVMBuildICmp(b, LLVMIntNE, x, LLVMConstNull(t), "");
  }
  bool sgn = dtype_is_sint(from);
  if (!ff && !tf) {
    if (from.code == DTYPE_HANDLE) return LLVMBuildPtrToInt(b, x, tt, "");
    if (to.code == DTYPE_HANDLE) return LLVMBuildIntToPtr(b, x, tt, "");
    unsigned fb = dtype_is_bool(from) ? 1 : from.bits;
    if (fb == to.bits) return x;
    if (fb > to.bits) return LLVMBuildTrunc(b, x, tt, "");
    return sgn ? LLVMBuildSExt(b, x, tt, "") : LLVMBuildZExt(b, x, tt, "");
  }
  if (!ff) return sgn ? LLVMBuildSIToFP(b, x, tt, "") : LLVMBuildUIToFP(b, x, tt, "");
  if (!tf) return float_to_int(cg, b, to, x);
  return from.bits < to.bits ? LLVMBuildFPExt(b, x, tt, "") : LLVMBuildFPTrunc(b, x, tt, "");
}
