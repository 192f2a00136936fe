/* Vector math: what the files math*.c share. */
#ifndef RELAXC_CODEGEN_LLVM_MATH_H
#define RELAXC_CODEGEN_LLVM_MATH_H

#include "codegen/llvm/cg.h"

typedef LLVMValueRef Val;

/* One call being emitted: the type of all its values. */
typedef struct {
  Cg *cg;
  LLVMBuilderRef b;
  const Variant *v;
  uint32_t lanes;
  bool f64;
  bool fast;          /* -ffast-math: about as exact, at less cost, if not to the last units */
  LLVMTypeRef ft, it; /* float type, integer type of the same width (lanes included) */
} Math;

Math math_of(Cg *cg, LLVMBuilderRef b, const Variant *v, uint32_t lanes, bool f64);
/* Each lane through the C function `name` ("expf"/"exp" chosen by type from "exp"). */
Val math_libm(const Math *m, const char *name, Val const *args, uint32_t n);
/* fast(m, id, args) where `ok` (bool lanes) holds in all lanes, else each lane through the C
 * function `name`. */
Val math_unless_hard(const Math *m, Val ok, Val (*fast)(const Math *, IntrinId, Val const *),
                     IntrinId id, const char *name, Val const *args, uint32_t n);
/* Inline float32 / float64 forms; NULL where there is none. */
Val math_f32(const Math *m, IntrinId id, Val const *args);
Val math_inverse_f32(const Math *m, IntrinId id, Val const *args);
Val math_f64(const Math *m, IntrinId id, Val const *args);
/* pow on float32 through float64; args as pow's. */
Val math_pow_f32(const Math *m, Val x, Val y);

/* pi / 2 as a float and the rest */
#define HALF_PI 1.57079637050628662
#define HALF_PI_LO (-4.37113900018624283e-8)

/* ---- building blocks (math_util.c); no fast-math flags ---- */
Val mk(const Math *m, double k);  /* constant in every lane */
Val mi(const Math *m, int64_t k); /* integer constant in every lane */
Val madd(const Math *m, Val x, Val y);
Val msub(const Math *m, Val x, Val y);
Val mmul(const Math *m, Val x, Val y);
Val mdiv(const Math *m, Val x, Val y);
Val msqrt(const Math *m, Val x);
Val mrsqrt(const Math *m, Val x);
Val mneg(const Math *m, Val x);
Val mabs(const Math *m, Val x);
Val mcopysign(const Math *m, Val x, Val sign);
/* x * y + z: fused where the variant has it, else two roundings. */
Val mfma(const Math *m, Val x, Val y, Val z);
Val mcmp(const Math *m, LLVMRealPredicate p, Val x, Val y);
Val msel(const Math *m, Val c, Val x, Val y);
/* c[0] + c[1] x + ... + c[n-1] x^(n-1) by Horner's rule. */
Val mpoly(const Math *m, Val x, const double *c, unsigned n);
Val mbits(const Math *m, Val x);  /* float -> integer of the same bits */
Val mfloat(const Math *m, Val x); /* and back */
/* x * 2^n, denormal and overflowing results right; k: floats that n are the floors of. */
Val mscale(const Math *m, Val x, Val n, Val k);
/* x * 2^n for results that are normal numbers. */
Val mscale1(const Math *m, Val x, Val n);
/* Nearest integer of k x, as float in the result and as integer in *n; |k x| < 2^21 (2^51). */
Val mround(const Math *m, Val x, double k, Val *n);
/* Nearest sixteenth of k x, |k x| < 2^17; the low 22 bits of *n count them. float32 only. */
Val mround16(const Math *m, Val x, double k, Val *n);
/* How many float32 of a table one instruction can pick from: 16, 8 or 0. */
uint32_t mtable_lanes(const Math *m);
/* table[index modulo mtable_lanes]; lanes a power of two. Where that isn't 0. */
Val mlookup(const Math *m, const double *table, Val index);
/* min/max with a constant that let NaN pass. */
Val matmost(const Math *m, Val x, double k);
Val matleast(const Math *m, Val x, double k);
/* 1 / (1 + exp(-x)) from e = exp(-|x|). */
Val msigmoid(const Math *m, Val x, Val e);

#endif
