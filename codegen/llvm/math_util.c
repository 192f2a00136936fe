/* Building blocks of vector math.
 *
 * Rounding to an integer adds and takes away 1.5 * 2^(precision-1): the low bits of the sum are the
 * integer, which avoids fptosi (poison on NaN) and is two adds on any machine. Products that must
 * be exact without a fused multiply-add use constants with few bits.
 */
#include "codegen/llvm/math.h"

#include <string.h>

Math math_of(Cg *cg, LLVMBuilderRef b, const Variant *v, uint32_t lanes, bool f64) {
  Math m = {.cg = cg, .b = b, .v = v, .lanes = lanes, .f64 = f64, .fast = cg->opt->fast_math};
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
/* Lets an estimate and a step of Newton's method stand for a division or a root. */
static Val estimated(const Math *m, Val v) {
  if (m->fast && !m->f64 && LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v))
    LLVMSetFastMathFlags(v, LLVMFastMathAllowReassoc | LLVMFastMathAllowReciprocal |
                                LLVMFastMathAllowContract | LLVMFastMathApproxFunc);
  return v;
}

Val mdiv(const Math *m, Val x, Val y) {
  return estimated(m, LLVMBuildFDiv(m->b, x, y, ""));
}

Val msqrt(const Math *m, Val x) {
  LLVMTypeRef t = m->ft;
  return cg_intrinsic(m->cg, m->b, "llvm.sqrt", &t, 1, &x, 1);
}

Val mrsqrt(const Math *m, Val x) {
  Val root = estimated(m, msqrt(m, x));
  return mdiv(m, mk(m, 1), root);
}
Val mneg(const Math *m, Val x) {
  return LLVMBuildFNeg(m->b, x, "");
}

Val mabs(const Math *m, Val x) {
  LLVMTypeRef t = m->ft;
  return cg_intrinsic(m->cg, m->b, "llvm.fabs", &t, 1, &x, 1);
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

/* Lanes [from, from + count) of v; the halves of a wide vector cost nothing. */
static Val lanes_of(const Math *m, Val v, uint32_t from, uint32_t count) {
  LLVMValueRef at[64];
  for (uint32_t i = 0; i < count; i++)
    at[i] = LLVMConstInt(LLVMInt32TypeInContext(m->cg->lc), from + i, false);
  return LLVMBuildShuffleVector(m->b, v, LLVMGetPoison(LLVMTypeOf(v)), LLVMConstVector(at, count),
                                "");
}

/* n registers of `width` lanes, joined pair by pair; n a power of two. */
static Val join(const Math *m, Val *part, uint32_t n, uint32_t width) {
  LLVMTypeRef i32 = LLVMInt32TypeInContext(m->cg->lc);
  for (; n > 1; n /= 2, width *= 2)
    for (uint32_t i = 0; i < n / 2; i++) {
      LLVMValueRef at[64];
      for (uint32_t j = 0; j < 2 * width; j++) at[j] = LLVMConstInt(i32, j, false);
      part[i] = LLVMBuildShuffleVector(m->b, part[2 * i], part[2 * i + 1],
                                       LLVMConstVector(at, 2 * width), "");
    }
  return part[0];
}

/* Whether `lanes` values of m's type fill whole AVX-512 registers. */
static bool fills_avx512(const Math *m, uint32_t lanes) {
  uint32_t width = m->f64 ? 8 : 16;
  return m->v->has_mask && m->v->vector_bits == 512 && lanes >= width && lanes <= 64 &&
         !(lanes & (lanes - 1)) && strncmp(m->cg->target->triple, "x86_64", 6) == 0;
}

/* AVX-512's x * 2^k for float k, one instruction with every special case right; on the whole number
 * of registers that x fills, else NULL. */
static Val scale_instruction(const Math *m, Val x, Val k) {
  if (!fills_avx512(m, m->lanes)) return NULL;
  uint32_t width = m->f64 ? 8 : 16, n = m->lanes / width;
  const char *name =
      m->f64 ? "llvm.x86.avx512.mask.scalef.pd.512" : "llvm.x86.avx512.mask.scalef.ps.512";
  LLVMTypeRef i32 = LLVMInt32TypeInContext(m->cg->lc),
              mask = LLVMIntTypeInContext(m->cg->lc, width);
  Val part[8];
  for (uint32_t i = 0; i < n; i++) {
    Val xi = lanes_of(m, x, i * width, width), ki = lanes_of(m, k, i * width, width);
    Val args[] = {xi, ki, xi, LLVMConstAllOnes(mask),
                  LLVMConstInt(i32, 4, false) /* the current rounding mode */};
    part[i] = cg_intrinsic(m->cg, m->b, name, NULL, 0, args, 5);
  }
  return join(m, part, n, width);
}

uint32_t mtable_lanes(const Math *m) {
  bool fits = !m->f64 && m->lanes <= 64 && !(m->lanes & (m->lanes - 1));
  return fits ? m->v->table_lanes : 0;
}

Val mlookup(const Math *m, const double *table, Val index) {
  uint32_t width = m->v->table_lanes;
  const char *name = width == 16 ? "llvm.x86.avx512.permvar.sf.512" : "llvm.x86.avx2.permps";
  LLVMTypeRef i32 = LLVMInt32TypeInContext(m->cg->lc);
  LLVMValueRef k[16], at[16];
  for (uint32_t i = 0; i < width; i++) {
    k[i] = LLVMConstReal(m->cg->f32, table[i]);
    at[i] = i < m->lanes ? LLVMConstInt(i32, i, false) : LLVMGetPoison(i32);
  }
  Val part[8], args[2] = {LLVMConstVector(k, width), index};
  if (m->lanes >= width) {
    for (uint32_t i = 0; i < m->lanes / width; i++) {
      args[1] = lanes_of(m, index, i * width, width);
      part[i] = cg_intrinsic(m->cg, m->b, name, NULL, 0, args, 2);
    }
    return join(m, part, m->lanes / width, width);
  }
  /* the first lanes of a register */
  Val rest = LLVMGetPoison(LLVMVectorType(i32, width));
  args[1] = m->lanes == 1 ? LLVMBuildInsertElement(m->b, rest, index, at[0], "")
                          : LLVMBuildShuffleVector(m->b, index, LLVMGetPoison(LLVMTypeOf(index)),
                                                   LLVMConstVector(at, width), "");
  Val r = cg_intrinsic(m->cg, m->b, name, NULL, 0, args, 2);
  return m->lanes == 1 ? LLVMBuildExtractElement(m->b, r, at[0], "") : lanes_of(m, r, 0, m->lanes);
}

Val mscale(const Math *m, Val x, Val n, Val k) {
  Val one = scale_instruction(m, x, k);
  if (one) return one;
  /* n is small: halves of it are exponents of normal numbers. 64-bit arithmetic shifts are slow
   * before AVX-512, so that half is taken of n + 4096 with a logical one. */
  Val h = LLVMBuildLShr(m->b, LLVMBuildAdd(m->b, n, mi(m, 4096), ""), mi(m, 1), "");
  h = LLVMBuildSub(m->b, h, mi(m, 2048), "");
  x = mscale1(m, x, h);
  return mscale1(m, x, LLVMBuildSub(m->b, n, h, ""));
}

Val mround(const Math *m, Val x, double k, Val *n) {
  double magic = m->f64 ? 6755399441055744.0 : 12582912.0;
  Val t = k == 1 ? madd(m, x, mk(m, magic)) : mfma(m, x, mk(m, k), mk(m, magic));
  Val bits = mbits(m, mk(m, magic)); /* a constant */
  if (n) *n = LLVMBuildSub(m->b, mbits(m, t), bits, "");
  return msub(m, t, mk(m, magic));
}

Val mround16(const Math *m, Val x, double k, Val *n) {
  Val magic = mk(m, 12582912.0 / 16);
  Val t = k == 1 ? madd(m, x, magic) : mfma(m, x, mk(m, k), magic);
  *n = mbits(m, t);
  return msub(m, t, magic);
}

static Val minmax(const Math *m, const char *name, Val x, double k) {
  LLVMTypeRef t = m->ft;
  Val args[2] = {x, mk(m, k)};
  return cg_intrinsic(m->cg, m->b, name, &t, 1, args, 2);
}

Val matmost(const Math *m, Val x, double k) {
  if (m->v->has_nan_minmax) return minmax(m, "llvm.minimum", x, k);
  return msel(m, mcmp(m, LLVMRealOGT, x, mk(m, k)), mk(m, k), x);
}

Val matleast(const Math *m, Val x, double k) {
  if (m->v->has_nan_minmax) return minmax(m, "llvm.maximum", x, k);
  return msel(m, mcmp(m, LLVMRealOLT, x, mk(m, k)), mk(m, k), x);
}

Val msigmoid(const Math *m, Val x, Val e) {
  Val one = mk(m, 1), s = madd(m, one, e);
  Val top = msel(m, mcmp(m, LLVMRealOLT, x, mk(m, 0)), e, one), y = mdiv(m, top, s);
  /* what the sum lost, taken off: y / s to a few bits is enough for that */
  Val lost = msub(m, e, msub(m, s, one));
  Val inverse = mfma(m, s, mk(m, -0.457), mk(m, 1.457));
  return mfma(m, mmul(m, mneg(m, lost), inverse), y, y);
}
