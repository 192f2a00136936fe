/* What is known about symbolic integers, in scopes, and the prover that uses it.
 *
 * Facts come from match_cast (equalities) and loops (0 <= i < n); dims are >= 0 without any.
 * A proof never guesses: PROOF_UNKNOWN unless it holds for all values, or for none.
 */
#ifndef RELAXC_IR_FACTS_H
#define RELAXC_IR_FACTS_H

#include "ir/dim.h"

typedef struct Facts Facts;
typedef enum { PROOF_UNKNOWN, PROOF_YES, PROOF_NO } Proof;

Facts *facts_create(Context *c, Arena *a);
void facts_push(Facts *f);
void facts_pop(Facts *f);
/* A loop variable: lo <= v < end, end symbolic. */
void facts_below(Facts *f, const Var *v, const Dim *lo, const Dim *end);
void facts_equal(Facts *f, const Dim *a, const Dim *b);

/* Facts may be NULL: then only what holds without any (dims are >= 0). */
Proof prove_eq(Context *c, const Facts *f, const Dim *a, const Dim *b);
Proof prove_le(Context *c, const Facts *f, const Dim *a, const Dim *b);
Proof prove_lt(Context *c, const Facts *f, const Dim *a, const Dim *b);
/* Sound bounds (saturating): every value d can take lies in [*lo, *hi]. */
void dim_bounds(Context *c, const Facts *f, const Dim *d, int64_t *lo, int64_t *hi);
/* Same on expressions: pointer-equal, or equal Dims. */
static inline bool expr_proved_eq(Context *c, const Expr *a, const Expr *b) {
  return a == b || prove_eq(c, 0, expr_dim(c, a), expr_dim(c, b)) == PROOF_YES;
}
static inline bool expr_proved_ne(Context *c, const Expr *a, const Expr *b) {
  return a != b && prove_eq(c, 0, expr_dim(c, a), expr_dim(c, b)) == PROOF_NO;
}

#endif
