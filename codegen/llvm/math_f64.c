/* Inline float64 math: exp, log, tanh, sigmoid; and float32's pow on top of them.
 *
 * The same methods as in math_f32.c with more terms; the logarithm uses s = f / (2 + f), in which
 * log(1+f) = 2 atanh(s) converges fast.
 */
#include "codegen/llvm/math.h"

#include <math.h>

#define POLY(m, x, c) mpoly((m), (x), (c), sizeof(c) / sizeof(c)[0])

/* ln 2: 33 bits, so that n * LN2_HI is exact for n < 2^20, and the rest. */
static const double LN2_HI = 6.93147180369123816490e-01, LN2_LO = 1.90821492927058770002e-10;

/* (e^r - 1 - r) / r^2, |r| <= ln2 / 2 */
static const double exp_q[] = {0x1.0000000000000p-1,  0x1.555555555555bp-3,  0x1.5555555555502p-5,
                               0x1.111111110ec1ap-7,  0x1.6c16c16c3077dp-10, 0x1.a01a01b398ff6p-13,
                               0x1.a01a0135fe0e3p-16, 0x1.71ddefdc8107fp-19, 0x1.27e5b4ef51a97p-22,
                               0x1.af6c612b8dcf4p-26, 0x1.1e3cddd86a719p-29};

static Val reduce_exp(const Math *m, Val x, Val *n, Val *kf) {
  Val k = mround(m, x, 1.44269504088896340736, n);
  if (kf) *kf = k;
  Val r = mfma(m, k, mk(m, -LN2_HI), x);
  return mfma(m, k, mk(m, -LN2_LO), r);
}

static Val exp_of(const Math *m, Val r) {
  Val rr = mmul(m, r, r);
  return madd(m, mfma(m, rr, POLY(m, r, exp_q), r), mk(m, 1));
}

static Val exp_full(const Math *m, Val x) {
  Val n, k, r = reduce_exp(m, matleast(m, matmost(m, x, 710), -746), &n, &k);
  return mscale(m, exp_of(m, r), n, k);
}

/* (2 atanh(s) - 2 s) / s / s^2 in s^2, |s| <= 0.1716 */
static const double log_r[] = {0x1.5555555555555p-1, 0x1.9999999999e0bp-2, 0x1.249249242a4cdp-2,
                               0x1.c71c725a252eep-3, 0x1.745cddd71a7aap-3, 0x1.3b20bc0779ad4p-3,
                               0x1.0f5b4f19f3367p-3, 0x1.0f70b4c4b7941p-3};

/* The logarithm of positive finite x. */
static Val log_of(const Math *m, Val x) {
  Val small = mcmp(m, LLVMRealOLT, x, mk(m, 0x1p-1022));
  x = msel(m, small, mmul(m, x, mk(m, 0x1p52)), x);
  const int64_t half = 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
  /* The exponent through a logical shift with an offset: arithmetic ones are slow here. */
  Val i = LLVMBuildSub(m->b, mbits(m, x), mi(m, half), "");
  Val up = LLVMBuildAdd(m->b, i, mi(m, INT64_MIN), "");
  Val k = LLVMBuildLShr(m->b, up, mi(m, 52), "");
  Val f = LLVMBuildAdd(m->b, LLVMBuildAnd(m->b, i, mi(m, 0xfffffffffffff), ""), mi(m, half), "");
  f = msub(m, mfloat(m, f), mk(m, 1));
  /* k + 2^52 as the bits of a double; k is the exponent + 2048 */
  Val e = mfloat(m, LLVMBuildOr(m->b, k, mi(m, 0x4330000000000000), ""));
  e = msub(m, e, mk(m, 0x1p52 + 2048));
  e = msub(m, e, msel(m, small, mk(m, 52), mk(m, 0)));
  Val s = mdiv(m, f, madd(m, mk(m, 2), f)), z = mmul(m, s, s);
  Val r = mmul(m, z, POLY(m, z, log_r)), h = mmul(m, mk(m, 0.5), mmul(m, f, f));
  /* log(1+f) = f - (h - s (h + r)) */
  Val low = mmul(m, e, mk(m, LN2_LO)), t = mfma(m, s, madd(m, h, r), low);
  Val y = msub(m, msub(m, h, t), f);
  return msub(m, mmul(m, e, mk(m, LN2_HI)), y);
}

static Val log_full(const Math *m, Val x) {
  Val zero = mk(m, 0), inf = mk(m, INFINITY), r = log_of(m, x);
  Val fine = mcmp(m, LLVMRealOGT, x, zero);
  fine = LLVMBuildAnd(m->b, fine, mcmp(m, LLVMRealOLT, x, inf), "");
  Val odd = msel(m, mcmp(m, LLVMRealOGT, x, zero), x, mk(m, NAN));
  odd = msel(m, mcmp(m, LLVMRealOEQ, x, zero), mk(m, -INFINITY), odd);
  return msel(m, fine, r, odd);
}

/* (tanh(x) - x) / x^3 in x^2, |x| <= 0.56 */
static const double tanh_p[] = {
    -0x1.5555555555555p-2,  0x1.1111111111086p-3,  -0x1.ba1ba1ba11516p-5,  0x1.664f487face18p-6,
    -0x1.226e34d44373cp-7,  0x1.d6d3b1f61269dp-9,  -0x1.7da11384c7d28p-10, 0x1.3539ae5006d66p-11,
    -0x1.f35379fd7fbecp-13, 0x1.8903c346a1484p-14, -0x1.11a564b5c8499p-15, 0x1.e6c11f0382828p-18};

static Val tanh_full(const Math *m, Val x) {
  Val a = mabs(m, x), z = mmul(m, x, x);
  Val zx = mmul(m, z, x), small = mfma(m, zx, POLY(m, z, tanh_p), x);
  Val n, r = reduce_exp(m, matmost(m, madd(m, a, a), 42), &n, NULL);
  Val e = mscale1(m, exp_of(m, r), n);
  Val big = msub(m, mk(m, 1), mdiv(m, mk(m, 2), madd(m, e, mk(m, 1))));
  Val y = msel(m, mcmp(m, LLVMRealOLT, a, mk(m, 0.56)), small, big);
  return mcopysign(m, y, x); /* also for -0 */
}

static Val sigmoid_full(const Math *m, Val x) {
  return msigmoid(m, x, exp_full(m, mneg(m, mabs(m, x))));
}

Val math_f64(const Math *m, IntrinId id, Val const *args) {
  Val x = args[0];
  switch (id) {
  case INTRIN_exp: return exp_full(m, x);
  case INTRIN_log: return log_full(m, x);
  case INTRIN_tanh: return tanh_full(m, x);
  case INTRIN_sigmoid: return sigmoid_full(m, x);
  default: return NULL;
  }
}

/* ---- pow on float32 ---- */

static Val is_whole(const Math *m, Val y) {
  LLVMTypeRef t = m->ft;
  return mcmp(m, LLVMRealOEQ, cg_intrinsic(m->cg, m->b, "llvm.trunc", &t, 1, &y, 1), y);
}

/* exp(y log a): in float64 right to far below a float32 ULP; infinities go through. */
static Val pow_positive(const Math *m, Val a, Val y) {
  if (m->fast) { /* in float32: as many ULP as the result's exponent has */
    Val l = math_f32(m, INTRIN_log2, &a), e = mmul(m, l, y);
    return math_f32(m, INTRIN_exp2, &e);
  }
  Math d = math_of(m->cg, m->b, m->v, m->lanes, true);
  Val l = log_full(&d, LLVMBuildFPExt(m->b, a, d.ft, ""));
  Val r = exp_full(&d, mmul(&d, l, LLVMBuildFPExt(m->b, y, d.ft, "")));
  return LLVMBuildFPTrunc(m->b, r, m->ft, "");
}

Val math_pow_f32(const Math *m, Val x, Val y) {
  LLVMBuilderRef b = m->b;
  Val one = mk(m, 1), zero = mk(m, 0), inf = mk(m, INFINITY);
  if (y == one) return x;
  if (y == mk(m, 2)) return mmul(m, x, x);
  if (y == mk(m, 3)) return mmul(m, mmul(m, x, x), x);
  if (y == mk(m, -1)) return mdiv(m, one, x);
  if (y == zero) return one;
  Val a = mabs(m, x), ay = mabs(m, y), r = pow_positive(m, a, y);
  /* A negative base: whole exponents keep or flip the sign, others have no result. */
  Val whole = is_whole(m, y), half = mmul(m, y, mk(m, 0.5));
  Val odd = LLVMBuildAnd(b, whole, LLVMBuildNot(b, is_whole(m, half), ""), "");
  Val sign = LLVMBuildAnd(b, mbits(m, x), mi(m, (int64_t)INT32_MIN), "");
  sign = msel(m, odd, sign, mi(m, 0));
  r = mfloat(m, LLVMBuildXor(b, mbits(m, r), sign, ""));
  Val below = mcmp(m, LLVMRealOLT, x, zero);
  below = LLVMBuildAnd(b, below, mcmp(m, LLVMRealOLT, a, inf), "");
  below = LLVMBuildAnd(b, below, LLVMBuildNot(b, whole, ""), "");
  r = msel(m, below, mk(m, NAN), r);
  /* |x| = 1 with an infinite y is 1 (0 * inf above); so is anything to the 0, and 1 to anything. */
  Val unit = mcmp(m, LLVMRealOEQ, a, one);
  unit = LLVMBuildAnd(b, unit, mcmp(m, LLVMRealOEQ, ay, inf), "");
  unit = LLVMBuildOr(b, unit, mcmp(m, LLVMRealOEQ, y, zero), "");
  unit = LLVMBuildOr(b, unit, mcmp(m, LLVMRealOEQ, x, one), "");
  return msel(m, unit, one, r);
}
