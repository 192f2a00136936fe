/* Inline float32 math, at most 2 ULP from the true value, special values as C's.
 *
 * Coefficients are minimax fits (Remez exchange, 40 digits) of the function named at each table
 * over the reduced range, weighted for the relative error of the result.
 */
#include "codegen/llvm/math.h"

#include <math.h>

#define POLY(m, x, c) mpoly((m), (x), (c), sizeof(c) / sizeof(c)[0])

/* ln 2 in two parts; the first has 9 bits, so that n * LN2_HI is exact. */
static const double LN2_HI = 0.693359375, LN2_LO = -2.12194440054690581e-4,
                    LOG2_E = 1.44269504088896341;

/* (e^r - 1 - r) / r^2, |r| <= ln2 / 2 */
static const double exp_q[] = {0.49999994, 0.166665196, 0.0416683927, 0.00836878084, 0.00138144789};
static const double expm1_q[] = {0.5,           0.166666657,   0.0416663587,
                                 0.00833338965, 0.00139407197, 0.00019845886};

/* x - k ln2 */
static Val without_ln2(const Math *m, Val x, Val k) {
  Val r = mfma(m, k, mk(m, -LN2_HI), x);
  return mfma(m, k, mk(m, -LN2_LO), r);
}

/* x - n ln2 with n = round(x / ln2). */
static Val reduce_exp(const Math *m, Val x, Val *n, Val *kf) {
  Val k = mround(m, x, LOG2_E, n);
  if (kf) *kf = k;
  return without_ln2(m, x, k);
}

static Val exp_of(const Math *m, Val r) {
  Val q = POLY(m, r, exp_q), one = mk(m, 1);
  if (m->v->has_fma) return mfma(m, r, mfma(m, r, q, one), one);
  return madd(m, mfma(m, mmul(m, r, r), q, r), one); /* more exact where products round */
}

/* 2^(j/16), and what is left: (e^r - 1) / r, (2^r - 1) / r, (10^r - 1) / r where 2^|r| or e^|r| or
 * 10^|r| is at most 2^(1/32) */
static const double exp2_16[] = {1,           1.04427373, 1.09050775, 1.13878858,
                                 1.18920708,  1.24185777, 1.29683959, 1.35425556,
                                 1.414213538, 1.47682619, 1.54221082, 1.61049032,
                                 1.68179286,  1.75625217, 1.8340081,  1.91520655};
static const double exp_16[] = {1, 0.500016160, 0.166667184};
static const double exp2_of_16[] = {0.693147182, 0.240234286, 0.0555021371};
static const double exp10_16[] = {2.30258512, 2.65103487, 2.03460625};

/* Whether one instruction picks from exp2_16: a short polynomial is left then. */
static bool has_exp_table(const Math *m) {
  return mtable_lanes(m) == 16;
}

/* 2^k (1 + r p(r)); k: sixteenths, as many as the low bits of n say */
static Val exp_from_table(const Math *m, Val k, Val n, Val r, const double p[3]) {
  Val t = mlookup(m, exp2_16, n), q = mpoly(m, r, p, 3);
  q = mfma(m, mmul(m, t, r), q, t);
  Val floor = LLVMBuildAShr(m->b, LLVMBuildShl(m->b, n, mi(m, 10), ""), mi(m, 14), "");
  return mscale(m, q, floor, k);
}

/* Results down to the smallest denormal; x is between -104 and 88.8. */
static Val exp_by_polynomial(const Math *m, Val x) {
  Val n, k, r = reduce_exp(m, x, &n, &k);
  return mscale(m, exp_of(m, r), n, k);
}

/* The same, where there is a table by that: less work, but two roundings instead of one. */
static Val exp_between(const Math *m, Val x) {
  Val n, k;
  if (!has_exp_table(m)) return exp_by_polynomial(m, x);
  k = mround16(m, x, LOG2_E, &n);
  return exp_from_table(m, k, n, without_ln2(m, x, k), exp_16);
}

/* The same where the result is a normal number. */
static Val exp_normal(const Math *m, Val x) {
  if (has_exp_table(m)) return exp_between(m, x);
  Val n, r = reduce_exp(m, x, &n, NULL);
  return mscale1(m, exp_of(m, r), n);
}

static Val exp_full(const Math *m, Val x) {
  return exp_between(m, matleast(m, matmost(m, x, 88.8), -104));
}

/* 2^f = 1 + f p(f), |f| <= 1/2 */
static const double exp2_p[] = {0.693147182,   0.240226477,   0.0555033199,
                                0.00961843878, 0.00133990031, 0.000153532586};
static Val exp2_full(const Math *m, Val x) {
  bool table = has_exp_table(m);
  Val n;
  x = matleast(m, matmost(m, x, 129), -151);
  Val k = table ? mround16(m, x, 1, &n) : mround(m, x, 1, &n), f = msub(m, x, k);
  if (table) return exp_from_table(m, k, n, f, exp2_of_16);
  return mscale(m, mfma(m, f, POLY(m, f, exp2_p), mk(m, 1)), n, k);
}

/* 10^r = 1 + r p(r), |r| <= log10(2) / 2 */
static const double exp10_p[] = {2.30258512, 2.65094876,  2.03464985,
                                 1.17129278, 0.542029858, 0.206320435};
static Val exp10_full(const Math *m, Val x) {
  bool table = has_exp_table(m);
  Val n;
  x = matleast(m, matmost(m, x, 38.6), -45.6);
  const double log2_10 = 3.32192809488736235;
  Val k = table ? mround16(m, x, log2_10, &n) : mround(m, x, log2_10, &n);
  Val r = mfma(m, k, mk(m, -0.30078125), x); /* log10(2): 8 bits and the rest */
  r = mfma(m, k, mk(m, -2.48745663981195214e-4), r);
  if (table) return exp_from_table(m, k, n, r, exp10_16);
  return mscale(m, mfma(m, r, POLY(m, r, exp10_p), mk(m, 1)), n, k);
}

static Val expm1_full(const Math *m, Val x) {
  Val n, y = matleast(m, matmost(m, x, 89), -18);
  Val r = reduce_exp(m, y, &n, NULL);
  Val rr = mmul(m, r, r), q = mfma(m, rr, POLY(m, r, expm1_q), r);
  /* 2^n (1 + q) - 1 = 2 (s q + (s - 1/2)) with s = 2^(n-1), which doesn't overflow early. */
  Val s = mscale1(m, mk(m, 1), LLVMBuildSub(m->b, n, mi(m, 1), ""));
  Val t = mfma(m, s, q, msub(m, s, mk(m, 0.5)));
  return mcopysign(m, madd(m, t, t), x);
}

/* ---- logarithms ---- */

/* (log(1+f) - f + f^2/2) / f^3, sqrt(1/2) <= 1+f <= sqrt(2) */
static const double log_p[] = {0.333333313, -0.250008196, 0.200012282, -0.166233599,
                               0.142017469, -0.131601512, 0.127616331, -0.076346375};

/* x = (1 + f) 2^e for positive finite x, denormals too unless m->fast. */
static Val reduce_log(const Math *m, Val x, Val *e) {
  Val small = m->fast ? NULL : mcmp(m, LLVMRealOLT, x, mk(m, 1.17549435082228751e-38));
  if (small) x = msel(m, small, mmul(m, x, mk(m, 8388608.0)), x);
  Val i = LLVMBuildSub(m->b, mbits(m, x), mi(m, 0x3f3504f3), "");
  Val k = LLVMBuildAShr(m->b, i, mi(m, 23), "");
  if (small) k = LLVMBuildSub(m->b, k, msel(m, small, mi(m, 23), mi(m, 0)), "");
  Val f = LLVMBuildAdd(m->b, LLVMBuildAnd(m->b, i, mi(m, 0x7fffff), ""), mi(m, 0x3f3504f3), "");
  *e = LLVMBuildSIToFP(m->b, k, m->ft, "");
  return msub(m, mfloat(m, f), mk(m, 1));
}

/* r where x is positive and finite, else log's special values. */
static Val log_special(const Math *m, Val x, Val r) {
  Val zero = mk(m, 0), inf = mk(m, INFINITY);
  Val fine = mcmp(m, LLVMRealOGT, x, zero);
  fine = LLVMBuildAnd(m->b, fine, mcmp(m, LLVMRealOLT, x, inf), "");
  Val odd = msel(m, mcmp(m, LLVMRealOGT, x, zero), x, mk(m, NAN));
  odd = msel(m, mcmp(m, LLVMRealOEQ, x, zero), mk(m, -INFINITY), odd);
  return msel(m, fine, r, odd);
}

/* f^3 p(f) */
static Val log_tail(const Math *m, Val f, Val f2) {
  Val f3 = mmul(m, f, f2);
  return mmul(m, f3, POLY(m, f, log_p));
}

static Val log_full(const Math *m, Val x) {
  Val e, f = reduce_log(m, x, &e), f2 = mmul(m, f, f);
  Val y = mfma(m, e, mk(m, LN2_LO), log_tail(m, f, f2));
  y = mfma(m, f2, mk(m, -0.5), y);
  y = mfma(m, e, mk(m, LN2_HI), madd(m, f, y));
  return log_special(m, x, y);
}

static Val log2_full(const Math *m, Val x) {
  Val e, f = reduce_log(m, x, &e), f2 = mmul(m, f, f);
  Val w = mfma(m, f2, mk(m, -0.5), log_tail(m, f, f2));
  Val a = mk(m, 0.442695040888963407); /* log2(e) - 1 */
  Val z = mfma(m, f, a, mmul(m, w, a));
  z = madd(m, madd(m, madd(m, z, w), f), e);
  return log_special(m, x, z);
}

static Val log10_full(const Math *m, Val x) {
  Val e, f = reduce_log(m, x, &e), f2 = mmul(m, f, f);
  Val w = mfma(m, f2, mk(m, -0.5), log_tail(m, f, f2));
  /* log10(e) and log10(2), each as a part of few bits and the rest */
  Val hi = mk(m, 0.43359375), lo = mk(m, 7.00731903251827651e-4);
  Val z = mmul(m, madd(m, f, w), lo);
  z = mfma(m, e, mk(m, 2.48745663981195214e-4), z);
  z = mfma(m, w, hi, z);
  z = mfma(m, f, hi, z);
  z = mfma(m, e, mk(m, 0.30078125), z);
  return log_special(m, x, z);
}

static Val log1p_full(const Math *m, Val x) {
  Val one = mk(m, 1), u = madd(m, one, x);
  /* What the sum lost. */
  Val big = mcmp(m, LLVMRealOGE, x, one);
  Val of_one = msub(m, one, msub(m, u, x)), of_x = msub(m, x, msub(m, u, one));
  Val c = msel(m, big, of_one, of_x);
  c = mdiv(m, c, u);
  Val e, f = reduce_log(m, u, &e), f2 = mmul(m, f, f);
  Val y = mfma(m, e, mk(m, LN2_LO), c);
  y = madd(m, y, log_tail(m, f, f2));
  y = mfma(m, f2, mk(m, -0.5), y);
  y = mfma(m, e, mk(m, LN2_HI), madd(m, f, y));
  return mcopysign(m, log_special(m, u, y), x);
}

/* ---- tanh, sigmoid, erf ---- */

/* (tanh(x) - x) / x^3 in x^2, |x| <= 0.625 */
static const double tanh_p[] = {-0.333332777, 0.133313313, -0.0537300073, 0.0206061713,
                                -0.00566697167};
static Val tanh_full(const Math *m, Val x) {
  Val a = mabs(m, x), z = mmul(m, x, x);
  Val zx = mmul(m, z, x), small = mfma(m, zx, POLY(m, z, tanh_p), x);
  Val e = exp_normal(m, matmost(m, madd(m, a, a), 20));
  Val big = msub(m, mk(m, 1), mdiv(m, mk(m, 2), madd(m, e, mk(m, 1))));
  Val y = msel(m, mcmp(m, LLVMRealOLT, a, mk(m, 0.625)), small, big);
  return mcopysign(m, y, x); /* also for -0 */
}

static Val sigmoid_full(const Math *m, Val x) {
  if (m->fast) { /* 2^127 still has an inverse */
    Val e = exp_between(m, matleast(m, matmost(m, mneg(m, x), 88), -104)), one = mk(m, 1);
    return mdiv(m, one, madd(m, one, e));
  }
  return msigmoid(m, x, exp_by_polynomial(m, matleast(m, mneg(m, mabs(m, x)), -104)));
}

/* erf(x) / x - 1 in x^2, |x| <= 0.92; log(erfc(x)), 0.92 <= x <= 3.95 */
static const double erf_p[] = {0.128379166,   -0.376126319,    0.112836875,   -0.0268589407,
                               0.00519990688, -0.000813001243, 8.31677316e-05};
static const double erfc_p[] = {-0.00019568493, -1.12767553,    -0.637182355,  -0.103931516,
                                0.0222268775,   -0.00304320571, 0.000195935936};

/* erf(j w + d) as a polynomial in d, |d| <= w / 2, column j. Column 0, of erf(d) - d, gives small
 * results full precision; the last reaches 1. As many columns as an instruction picks from. */
typedef struct {
  double width, end; /* w; results are 1 from `end` on */
  uint32_t terms;
  double at[8][16];
} ErfTable;

static const ErfTable erf_16 = {
    65.0 / 256,
    3.93,
    6,
    {{0, 0.28046301, 0.527338445, 0.718623817, 0.849086046, 0.927408159, 0.968796372, 0.988047481,
      0.995929182, 0.998769462, 0.999670327, 0.999921799, 0.999983609, 0.99999696, 0.999999523,
      0.99999994},
     {0.128379166, 1.05792975, 0.871890664, 0.631641567, 0.402237773, 0.225163743, 0.110794336,
      0.0479225703, 0.0182207469, 0.00608969713, 0.00178907625, 0.000462025171, 0.000104883278,
      2.09291138e-05, 3.67112898e-06, 5.66047675e-07},
     {2.41153998e-07, -0.268609136, -0.442749739, -0.481129527, -0.408523619, -0.285855591,
      -0.168790951, -0.0851760358, -0.0370108709, -0.0139154708, -0.00454219012, -0.00129020563,
      -0.000319474668, -6.90513189e-05, -1.30409971e-05, -2.15379714e-06},
     {-0.376140356, -0.3071962, -0.14075391, 0.0337688923, 0.142520711, 0.166877806, 0.134496048,
      0.0849510506, 0.0440461449, 0.019170247, 0.00709270919, 0.00224853982, 0.000614050718,
      0.000144996986, 2.96871731e-05, 5.2813848e-06},
     {0.000269794109, 0.127556577, 0.182123721, 0.146901488, 0.0639466047, -0.0101210345,
      -0.0457372554, -0.046910882, -0.0324012935, -0.0173377097, -0.00755420746, -0.00274571241,
      -0.000844105263, -0.000221422932, -4.98569934e-05, -9.67752931e-06},
     {0.111034259, 0.0799027905, 0.00584932696, -0.0542988181, -0.068232663, -0.0446114317,
      -0.0123869795, 0.00780863408, 0.0130173508, 0.0100168036, 0.00549919577, 0.00237282086,
      0.000837246305, 0.000246638199, 6.14171149e-05, 1.30345625e-05}}};
static const ErfTable erf_8 = {
    17.0 / 32,
    3.97,
    8,
    {{0, 0.54752845, 0.8670583, 0.9757977, 0.997346, 0.9998277, 0.99999344, 0.9999999},
     {0.12837917, 0.8509139, 0.36490288, 0.08898772, 0.01234082, 0.0009732381, 4.3647084e-05,
      1.1131409e-06},
     {0, -0.4520472, -0.3877098, -0.14182428, -0.026224123, -0.0025851633, -0.00013913355,
      -7.037089e-06},
     {-0.37612593, -0.12353785, 0.15299304, 0.121025756, 0.03303738, 0.00425347, 0.00028109408,
      9.8926685e-06},
     {0, 0.18344012, 0.047992844, -0.04916118, -0.026369339, -0.0047874567, -0.00040101478,
      6.517221e-05},
     {0.112806074, -0.0019159723, -0.06627349, -0.004972664, 0.012497212, 0.003811423,
      0.00042756935, 2.2278684e-05},
     {0, -0.04728686, 0.009908965, 0.015604579, -0.0016279017, -0.0020970872, -0.00036098037,
      -0.00068995066},
     {-0.026140565, 0.0074718283, 0.012379809, -0.0057777194, -0.0019088602, 0.00066590786,
      0.00021821013, 2.0401196e-05}}};

static Val erf_lookup(const Math *m, const ErfTable *t, Val x) {
  Val j, a = matmost(m, mabs(m, x), t->end), k = mround(m, a, 1 / t->width, &j);
  Val d = mfma(m, k, mk(m, -t->width), a), r = mlookup(m, t->at[t->terms - 1], j);
  for (uint32_t i = t->terms - 2; i > 0; i--) r = mfma(m, r, d, mlookup(m, t->at[i], j));
  Val first = mcmp(m, LLVMRealOEQ, k, mk(m, 0));
  r = mfma(m, r, d, msel(m, first, d, mlookup(m, t->at[0], j)));
  return mcopysign(m, r, x);
}

static Val erf_full(const Math *m, Val x) {
  uint32_t columns = mtable_lanes(m);
  if (columns) return erf_lookup(m, columns == 16 ? &erf_16 : &erf_8, x);
  Val a = mabs(m, x), z = mmul(m, x, x);
  Val small = mfma(m, x, POLY(m, z, erf_p), x);
  Val big = msub(m, mk(m, 1), exp_normal(m, POLY(m, matmost(m, a, 3.95), erfc_p)));
  big = mcopysign(m, big, x);
  return msel(m, mcmp(m, LLVMRealOLT, a, mk(m, 0.92)), small, big);
}

/* ---- sin, cos, tan ---- */

/* (sin(r) - r) / r^3, (cos(r) - 1 + r^2/2) / r^4, (tan(r) - r) / r^3 in r^2, |r| <= pi/4 */
static const double sin_p[] = {-0.166666552, 0.00833215564, -0.00019514632};
static const double cos_p[] = {0.0416666456, -0.00138873095, 2.44324128e-05};
static const double tan_p[] = {0.333331555,  0.133388668,   0.0534055606,
                               0.0244509391, 0.00308595947, 0.00940583833};

/* x - n pi/2 in float64: 33 bits of pi/2 times n < 2^20 are exact. *low: what float32 can't hold.
 */
static Val reduce_trig(const Math *m, Val x, Val *n, Val *low) {
  if (m->fast && m->v->has_fma) { /* in float32: right to 2^-24 or so, not to the last units */
    Val k = mround(m, x, 0.636619772367581343, n), r = mfma(m, k, mk(m, -HALF_PI), x);
    if (low) *low = mk(m, 0);
    return mfma(m, k, mk(m, -HALF_PI_LO), r);
  }
  Math d = math_of(m->cg, m->b, m->v, m->lanes, true);
  Val xd = LLVMBuildFPExt(m->b, x, d.ft, ""), nd;
  Val k = mround(&d, xd, 0.636619772367581343, &nd);
  Val r = mfma(&d, k, mk(&d, -0x1.921fb544p0), xd);
  r = mfma(&d, k, mk(&d, -0x1.0b4611a626331p-34), r);
  *n = LLVMBuildTrunc(m->b, nd, m->it, "");
  Val hi = LLVMBuildFPTrunc(m->b, r, m->ft, "");
  if (low)
    *low = LLVMBuildFPTrunc(m->b, msub(&d, r, LLVMBuildFPExt(m->b, hi, d.ft, "")), m->ft, "");
  return hi;
}

static Val sin_poly(const Math *m, Val r, Val z) {
  Val zr = mmul(m, z, r);
  return mfma(m, zr, POLY(m, z, sin_p), r);
}
static Val cos_poly(const Math *m, Val z) {
  Val half = mmul(m, z, mk(m, -0.5)), zz = mmul(m, z, z);
  return madd(m, mfma(m, zz, POLY(m, z, cos_p), half), mk(m, 1));
}

static Val odd_bit(const Math *m, Val n) {
  Val b = LLVMBuildAnd(m->b, n, mi(m, 1), "");
  return LLVMBuildICmp(m->b, LLVMIntNE, b, mi(m, 0), "");
}

static Val trig_fast(const Math *m, IntrinId id, Val const *args) {
  Val x = args[0];
  Val n, low, r = reduce_trig(m, x, &n, id == INTRIN_tan ? &low : NULL), z = mmul(m, r, r);
  if (id == INTRIN_tan) {
    Val zr = mmul(m, z, r), w = mmul(m, zr, POLY(m, z, tan_p)), t = madd(m, r, w);
    w = madd(m, w, mfma(m, mmul(m, t, t), low, low)); /* tan' = 1 + tan^2 */
    t = madd(m, r, w);
    Val odd = odd_bit(m, n);
    return msel(m, odd, mdiv(m, mk(m, -1), t), t);
  }
  if (id == INTRIN_cos) n = LLVMBuildAdd(m->b, n, mi(m, 1), "");
  Val odd = odd_bit(m, n), c = cos_poly(m, z), y = msel(m, odd, c, sin_poly(m, r, z));
  Val sign = LLVMBuildShl(m->b, LLVMBuildAnd(m->b, n, mi(m, 2), ""), mi(m, 30), "");
  y = mfloat(m, LLVMBuildXor(m->b, mbits(m, y), sign, ""));
  if (id != INTRIN_sin) return y;
  return msel(m, mcmp(m, LLVMRealOEQ, x, mk(m, 0)), x, y); /* -0 */
}

/* Large angles (and no numbers) need more digits of pi than reduce_trig has. */
static Val trig_full(const Math *m, IntrinId id, Val x, const char *name) {
  if (m->fast && m->v->has_fma) return trig_fast(m, id, &x);
  Val ok = mcmp(m, LLVMRealOLT, mabs(m, x), mk(m, 1048576.0));
  return math_unless_hard(m, ok, trig_fast, id, name, &x, 1);
}

Val math_f32(const Math *m, IntrinId id, Val const *args) {
  Val x = args[0];
  switch (id) {
  case INTRIN_exp: return exp_full(m, x);
  case INTRIN_exp2: return exp2_full(m, x);
  case INTRIN_exp10: return exp10_full(m, x);
  case INTRIN_expm1: return expm1_full(m, x);
  case INTRIN_log: return log_full(m, x);
  case INTRIN_log2: return log2_full(m, x);
  case INTRIN_log10: return log10_full(m, x);
  case INTRIN_log1p: return log1p_full(m, x);
  case INTRIN_tanh: return tanh_full(m, x);
  case INTRIN_sigmoid: return sigmoid_full(m, x);
  case INTRIN_erf: return erf_full(m, x);
  case INTRIN_sin: return trig_full(m, id, x, "sin");
  case INTRIN_cos: return trig_full(m, id, x, "cos");
  case INTRIN_tan: return trig_full(m, id, x, "tan");
  case INTRIN_pow: return math_pow_f32(m, x, args[1]);
  default: return math_inverse_f32(m, id, args);
  }
}
