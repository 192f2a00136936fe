/* Building blocks of vector math.
 *
 * Rounding to an integer adds and takes away 1.5 * 2^(precision-1): the low bits of the sum are the
 * integer, which avoids fptosi (poison on NaN) and is two adds on any machine. Products that must
 * be exact without a fused multiply-add use constants with few bits.
 */
#include "codegen/llvm/math.h"

Math math_of(Cg *cg, LLVMBuilderRef b, const Variant *v, uint32_t lanes, bool f64) {
  Math m = {.cg = cg, .b = b, .v = v, .lanes = lanes, .f64 = f64};
  m.ft = cg_vec(f64 ? cg->f64 : cg->f32, lanes);
  m.it = cg_vec(f64 ? cg->i64 : cg->i32, lanes);
  return m;
}

Val mk(const Math *m, double k) {
  LLVMTypeRef t = m->f64 ? m->cg->f64 : m->cg->f32;
  return cg_splat(m->cg, m->b, LLVMConstReal(t, m->f64 ? k : (double)(float)k), m->lanes);
}

Val mi(const Math *m, int64_t k) {
  LLVMTypeRef t = m->f64 ? m->cg->i64 : m->cg->i32;
  return cg_splat(m->cg, m->b, LLVMConstInt(t, (uint64_t)k, true), m->lanes);
}

Val madd(const Math *m, Val x, Val y) {
  return LLVMBuildFAdd(m->b, x, y, "");
}
Val msub(const Math *m, Val x, Val y) {
  return LLVMBuildFSub(m->b, x, y, "");
}
Val mmul(const Math *m, Val x, Val y) {
  return LLVMBuildFMul(m->b, x, y, "");
}
Val mdiv(const Math *m, Val x, Val y) {
  return LLVMBuildFDiv(m->b, x, y, "");
}
Val mneg(const Math *m, Val x) {
  return LLVMBuildFNeg(m->b, x, "");
}

Val mabs(const Math *m, Val x) {
  LLVMTypeRef t = m->ft;
  return cg_intrinsic(m->cg, m->b, "llvm.fabs", &t, 1, &x, 1);
}

Val msqrt(const Math *m, Val x) {
  LLVMTypeRef t = m->ft;
  return cg_intrinsic(m->cg, m->b, "llvm.sqrt", &t, 1, &x, 1);
}

Val mcopysign(const Math *m, Val x, Val sign) {
  LLVMTypeRef t = m->ft;
  Val args[2] = {x, sign};
  return cg_intrinsic(m->cg, m->b, "llvm.copysign", &t, 1, args, 2);
}

Val mfma(const Math *m, Val x, Val y, Val z) {
  if (!m->v->has_fma) return madd(m, mmul(m, x, y), z);
  LLVMTypeRef t = m->ft;
  Val args[3] = {x, y, z};
  return cg_intrinsic(m->cg, m->b, "llvm.fma", &t, 1, args, 3);
}

Val mcmp(const Math *m, LLVMRealPredicate p, Val x, Val y) {
  return LLVMBuildFCmp(m->b, p, x, y, "");
}

Val msel(const Math *m, Val c, Val x, Val y) {
  return LLVMBuildSelect(m->b, c, x, y, "");
}

Val mpoly(const Math *m, Val x, const double *c, unsigned n) {
  Val r = mk(m, c[n - 1]);
  for (unsigned i = n - 1; i-- > 0;) r = mfma(m, r, x, mk(m, c[i]));
  return r;
}

Val mbits(const Math *m, Val x) {
  return LLVMBuildBitCast(m->b, x, m->it, "");
}
Val mfloat(const Math *m, Val x) {
  return LLVMBuildBitCast(m->b, x, m->ft, "");
}

Val mscale1(const Math *m, Val x, Val n) {
  int64_t bias = m->f64 ? 1023 : 127, shift = m->f64 ? 52 : 23;
  Val e = LLVMBuildAdd(m->b, n, mi(m, bias), "");
  return mmul(m, x, mfloat(m, LLVMBuildShl(m->b, e, mi(m, shift), "")));
}

Val mscale(const Math *m, Val x, Val n) {
  /* n is small: halves of it are exponents of normal numbers. 64-bit arithmetic shifts are slow
   * before AVX-512, so that half is taken of n + 4096 with a logical one. */
  Val h = LLVMBuildLShr(m->b, LLVMBuildAdd(m->b, n, mi(m, 4096), ""), mi(m, 1), "");
  h = LLVMBuildSub(m->b, h, mi(m, 2048), "");
  return mscale1(m, mscale1(m, x, h), LLVMBuildSub(m->b, n, h, ""));
}

Val mround(const Math *m, Val x, Val *n) {
  double magic = m->f64 ? 6755399441055744.0 : 12582912.0;
  Val t = madd(m, x, mk(m, magic));
  if (n) *n = LLVMBuildSub(m->b, mbits(m, t), mbits(m, mk(m, magic)), "");
  return msub(m, t, mk(m, magic));
}

Val matmost(const Math *m, Val x, double k) {
  return msel(m, mcmp(m, LLVMRealOGT, x, mk(m, k)), mk(m, k), x);
}

Val matleast(const Math *m, Val x, double k) {
  return msel(m, mcmp(m, LLVMRealOLT, x, mk(m, k)), mk(m, k), x);
}
