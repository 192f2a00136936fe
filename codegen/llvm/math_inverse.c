/* float32: arcus functions, hyperbolic functions and what undoes them, remainders.
 *
 * The arcus functions run in float32 on minimax fits (Remez exchange, 40 digits). The hyperbolic
 * ones are their definitions through exp and log in float64, where cancellation leaves more digits
 * than float32 has; close to 0, where it wouldn't, two terms of the series are exact enough.
 */
#include "codegen/llvm/math.h"

#include <math.h>

#define POLY(m, x, c) mpoly((m), (x), (c), sizeof(c) / sizeof(c)[0])

/* ---- arcus functions ---- */

/* (atan(t) - t) / t^3 in t^2, |t| <= 1; (asin(t) - t) / t^3 in t^2, |t| <= 1/2 */
static const double atan_p[] = {-0.333332991,  0.199985483,  -0.142642415,
                                0.109521844,   -0.084034468, 0.0579575469,
                                -0.0311778146, 0.0109145968, -0.00179362132};
static const double asin_p[] = {0.166667525, 0.0749529789, 0.0454703438, 0.0241796734,
                                0.0421660423};

/* t + t^3 p(t^2) */
static Val odd_function(const Math *m, Val t, Val z, const double *p, unsigned n) {
  Val r = mpoly(m, z, p, n);
  return mfma(m, mmul(m, z, t), r, t);
}

static Val atan_poly(const Math *m, Val t) {
  return odd_function(m, t, mmul(m, t, t), atan_p, 9);
}

/* quarter turns * pi/2 - r */
static Val turn_back(const Math *m, double quarters, Val r) {
  Val near = msub(m, mk(m, quarters * HALF_PI), r);
  return madd(m, near, mk(m, quarters * HALF_PI_LO));
}

static Val atan_full(const Math *m, Val x) {
  Val a = mabs(m, x), one = mk(m, 1), big = mcmp(m, LLVMRealOGT, a, one);
  Val low = msel(m, big, one, a), r = atan_poly(m, mdiv(m, low, msel(m, big, a, one)));
  return mcopysign(m, msel(m, big, turn_back(m, 1, r), r), x);
}

/* The angle of (x, y): atan of the smaller by the greater coordinate, mirrored into place. */
static Val atan2_full(const Math *m, Val y, Val x) {
  Val ax = mabs(m, x), ay = mabs(m, y), zero = mk(m, 0), one = mk(m, 1);
  Val steep = mcmp(m, LLVMRealOGT, ay, ax);
  Val low = msel(m, steep, ax, ay), high = msel(m, steep, ay, ax);
  Val t = mdiv(m, low, high);
  t = msel(m, mcmp(m, LLVMRealOEQ, low, zero), zero, t); /* 0 / 0 */
  t = msel(m, mcmp(m, LLVMRealOEQ, low, mk(m, INFINITY)), one, t);
  Val r = atan_poly(m, t);
  r = msel(m, steep, turn_back(m, 1, r), r);
  Val left = LLVMBuildICmp(m->b, LLVMIntSLT, mbits(m, x), mi(m, 0), ""); /* -0 too */
  r = mcopysign(m, msel(m, left, turn_back(m, 2, r), r), y);
  return msel(m, mcmp(m, LLVMRealUNO, x, y), mk(m, NAN), r);
}

/* asin(a) for a <= 1/2, else asin(sqrt((1 - a) / 2)), of which two take acos(a); a is |x|. NaN
 * beyond 1. */
static Val asin_part(const Math *m, Val a, Val big) {
  Val z = mfma(m, a, mk(m, -0.5), mk(m, 0.5));
  Val t = msel(m, big, msqrt(m, z), a);
  return odd_function(m, t, msel(m, big, z, mmul(m, a, a)), asin_p, 5);
}

static Val asin_full(const Math *m, Val x) {
  Val a = mabs(m, x), big = mcmp(m, LLVMRealOGT, a, mk(m, 0.5)), r = asin_part(m, a, big);
  return mcopysign(m, msel(m, big, turn_back(m, 1, madd(m, r, r)), r), x);
}

static Val acos_full(const Math *m, Val x) {
  Val a = mabs(m, x), big = mcmp(m, LLVMRealOGT, a, mk(m, 0.5)), r = asin_part(m, a, big);
  Val twice = madd(m, r, r), below = mcmp(m, LLVMRealOLT, x, mk(m, 0));
  Val end = msel(m, below, turn_back(m, 2, twice), twice);
  return msel(m, big, end, turn_back(m, 1, mcopysign(m, r, x)));
}

/* ---- through float64 ---- */

static Val widened(const Math *d, Val x) {
  return LLVMBuildFPExt(d->b, x, d->ft, "");
}

/* f(|x|) computed in float64 with the sign of x; x + k x^3 below 2^-12. */
static Val near_zero(const Math *m, const Math *d, Val x, Val f, double k) {
  Val a = mabs(m, x), wide = widened(d, a);
  Val series = mfma(d, mmul(d, mmul(d, wide, wide), wide), mk(d, k), wide);
  f = msel(m, mcmp(m, LLVMRealOLT, a, mk(m, 0x1p-12)), series, f);
  return mcopysign(m, LLVMBuildFPTrunc(m->b, f, m->ft, ""), x);
}

static Val log_wide(const Math *d, Val x) {
  return math_f64(d, INTRIN_log, &x);
}

/* (e^a + s e^-a) / 2 in float64; what float32 can't hold becomes infinite when narrowed. */
static Val exp_pair(const Math *d, Val a, double s) {
  Val e = math_f64(d, INTRIN_exp, &a);
  return mmul(d, madd(d, e, mdiv(d, mk(d, s), e)), mk(d, 0.5));
}

static Val hyperbolic(const Math *m, IntrinId id, Val x) {
  Math d = math_of(m->cg, m->b, m->v, m->lanes, true);
  Val a = widened(&d, mabs(m, x)), one = mk(&d, 1), r;
  switch ((int)id) {
  case INTRIN_sinh: return near_zero(m, &d, x, exp_pair(&d, a, -1), 1.0 / 6);
  case INTRIN_cosh: return LLVMBuildFPTrunc(m->b, exp_pair(&d, a, 1), m->ft, "");
  case INTRIN_asinh:
    r = log_wide(&d, madd(&d, a, msqrt(&d, mfma(&d, a, a, one))));
    return near_zero(m, &d, x, r, -1.0 / 6);
  case INTRIN_atanh:
    r = madd(&d, one, a);
    r = log_wide(&d, mdiv(&d, r, msub(&d, one, a)));
    return near_zero(m, &d, x, mmul(&d, r, mk(&d, 0.5)), 1.0 / 3);
  default: /* acosh: NaN below 1; x - 1 is exact */
    a = widened(&d, msel(m, mcmp(m, LLVMRealOGE, x, mk(m, 1)), x, mk(m, NAN)));
    r = msub(&d, a, one);
    r = msqrt(&d, mmul(&d, r, madd(&d, a, one)));
    return LLVMBuildFPTrunc(m->b, log_wide(&d, madd(&d, a, r)), m->ft, "");
  }
}

/* The same in float32, by functions that are exact near 0: a few ULP. */
static Val hyperbolic_fast(const Math *m, IntrinId id, Val x) {
  Val a = mabs(m, x), one = mk(m, 1), half = mk(m, 0.5), e, t;
  switch ((int)id) {
  case INTRIN_sinh: /* (s + s / (s + 1)) / 2 with s = e^a - 1 */
    e = math_f32(m, INTRIN_expm1, &a);
    t = mdiv(m, e, madd(m, e, one));
    return mcopysign(m, mmul(m, madd(m, e, t), half), x);
  case INTRIN_cosh:
    e = math_f32(m, INTRIN_exp, &a);
    return mmul(m, madd(m, e, mdiv(m, one, e)), half);
  case INTRIN_asinh: /* log(1 + a + a^2 / (1 + sqrt(1 + a^2))) */
    e = mmul(m, a, a);
    t = msqrt(m, madd(m, e, one));
    t = madd(m, a, mdiv(m, e, madd(m, t, one)));
    return mcopysign(m, math_f32(m, INTRIN_log1p, &t), x);
  case INTRIN_atanh: /* log(1 + 2 a / (1 - a)) / 2 */
    t = madd(m, a, a);
    t = mdiv(m, t, msub(m, one, a));
    return mcopysign(m, mmul(m, math_f32(m, INTRIN_log1p, &t), half), x);
  default: /* acosh: log(1 + t + sqrt(t^2 + 2 t)) with t = x - 1 */
    t = msub(m, x, one);
    e = mfma(m, t, t, madd(m, t, t));
    t = madd(m, t, msqrt(m, e));
    return math_f32(m, INTRIN_log1p, &t);
  }
}

/* ---- fmod ---- */

/* x - n y for the whole n towards 0 of x / y, exact: n has at most 29 bits and y 24. The quotient
 * may be rounded up to n + 1, which shows in the sign. */
static Val fmod_fast(const Math *m, IntrinId id, Val const *args) {
  (void)id;
  Math d = math_of(m->cg, m->b, m->v, m->lanes, true);
  LLVMTypeRef t = d.ft;
  Val x = widened(&d, mabs(m, args[0])), y = widened(&d, mabs(m, args[1])), q = mdiv(&d, x, y);
  q = cg_intrinsic(m->cg, m->b, "llvm.trunc", &t, 1, &q, 1);
  Val r = msub(&d, x, mmul(&d, q, y));
  Val over = mcmp(m, LLVMRealOLT, r, mk(&d, 0));
  r = msel(m, over, madd(&d, r, y), r);
  r = msel(m, mcmp(m, LLVMRealOEQ, y, mk(&d, INFINITY)), x, r);
  return mcopysign(m, LLVMBuildFPTrunc(m->b, r, m->ft, ""), args[0]);
}

static Val fmod_full(const Math *m, Val const *args) {
  Val q = mabs(m, args[0]);
  q = mdiv(m, q, mabs(m, args[1]));
  Val ok = mcmp(m, LLVMRealOLT, q, mk(m, 0x1p28));
  return math_unless_hard(m, ok, fmod_fast, INTRIN_fmod, "fmod", args, 2);
}

Val math_inverse_f32(const Math *m, IntrinId id, Val const *args) {
  switch (id) {
  case INTRIN_atan: return atan_full(m, args[0]);
  case INTRIN_atan2: return atan2_full(m, args[0], args[1]);
  case INTRIN_asin: return asin_full(m, args[0]);
  case INTRIN_acos: return acos_full(m, args[0]);
  case INTRIN_sinh:
  case INTRIN_cosh:
  case INTRIN_asinh:
  case INTRIN_acosh:
  case INTRIN_atanh: return m->fast ? hyperbolic_fast(m, id, args[0]) : hyperbolic(m, id, args[0]);
  case INTRIN_fmod: return fmod_full(m, args);
  default: return NULL;
  }
}
