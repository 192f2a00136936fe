/* Words for the last two columns of an operator's row: the dtypes it takes, and what its numbers
 * are worth. --help-op prints both; tests/ops holds every operator to them.
 *
 * The dtypes are those of the first operand (of the tensors in it), or of the result where that
 * operand is no tensor. Any other dtype is refused when the operator is lowered. Throughout, "ULP"
 * is the distance of neighbouring numbers of the dtype at the result. */
#ifndef RELAXC_IR_OPS_NUMERICS_H
#define RELAXC_IR_OPS_NUMERICS_H

/* ---- dtypes ---- */
enum {
  TY_NONE = 0, /* no numbers, or a form that no CPU computes */
  TY_F64 = 1 << 0,
  TY_F32 = 1 << 1,
  TY_F16 = 1 << 2,
  TY_BF16 = 1 << 3,
  TY_FLOAT8 = 1 << 4, /* e4m3fn and e5m2 */
  TY_SINT = 1 << 5,   /* int8 to int64 */
  TY_UINT = 1 << 6,
  TY_BOOL = 1 << 7,
  TY_FLOAT = TY_F64 | TY_F32 | TY_F16 | TY_BF16 | TY_FLOAT8,
  TY_INT = TY_SINT | TY_UINT,
  TY_NUMBER = TY_FLOAT | TY_INT,
  TY_BITS = TY_INT | TY_BOOL,
  TY_ALL = TY_NUMBER | TY_BOOL,
};

/* ---- numerics ---- */
#define NUM_NONE NULL
#define NUM_NARROW "float16, bfloat16 and float8 are computed in float32 and rounded once"
#define NUM_MOVED "exact: elements are moved or chosen"
#define NUM_EXACT "exact"
#define NUM_ROUNDED "floats: each operation rounded to nearest even; " NUM_NARROW "; integers wrap"
#define NUM_CONVERT                                                                                \
  "rounded once, to nearest even; integers to float16, bfloat16 and float8 by way of float32; "    \
  "integers to narrower ones wrap; float8_e4m3fn has no infinity: what is too large is NaN"
/* tests/ops/ulps.py measures float32 and float64 over their whole range. */
#define NUM_MATH(ulps)                                                                             \
  "polynomial after range reduction, within " ulps " ULP (float32, float64); " NUM_NARROW
#define NUM_COMPOSED                                                                               \
  "composed of functions within 2 ULP and rounded operations: error within 8 ULP of max(1, "       \
  "|result|); " NUM_NARROW
#define NUM_FLOOR_DIV                                                                              \
  "floats: the quotient is rounded before the floor; " NUM_NARROW "; integers exact"
#define NUM_FLOOR_MOD                                                                              \
  "floats: exact remainder, rounded where the divisor is added; " NUM_NARROW "; integers exact"
#define NUM_SUM                                                                                    \
  "terms in an order that depends on shape and instruction set, never on threads; float16, "       \
  "bfloat16 and float8 in float32, rounded once at the end; integers wrap"
#define NUM_MEAN                                                                                   \
  "sum divided by number, variance in two passes; " NUM_SUM_ORDER "; integers are summed in "      \
  "int64 and quotients truncated"
#define NUM_SUM_ORDER                                                                              \
  "sums in an order that depends on shape and instruction set, never on threads; float16, "        \
  "bfloat16 and float8 in float32"
#define NUM_NORM                                                                                   \
  "mean first, then the squared distances (two passes); " NUM_SUM_ORDER ", rounded once at the "   \
  "end"
#define NUM_DOT                                                                                    \
  "products added with one rounding where the processor has fused multiply-add, in blocks along "  \
  "the summed axis whose order depends on shape and instruction set, never on threads; float16, "  \
  "bfloat16 and float8 in float32 (with out_dtype: in that), rounded once; integers wrap in the "  \
  "result's dtype"
#define NUM_SOFTMAX                                                                                \
  "the row's maximum is subtracted first, exponentials within 2 ULP, multiplied by the sum's "     \
  "reciprocal; " NUM_SUM_ORDER
#define NUM_POSITION "positions and weights in float32, values as in products and sums"
#define NUM_SCATTER                                                                                \
  "update, max, min exact; sums and products in the order of the indices, rounded each time; "     \
  "integers wrap"
#define NUM_QUANTIZE "in float32; the quotient is rounded to nearest even, then cut to the dtype"

#endif
