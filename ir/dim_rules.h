/* Between ir/dim.c, ir/dim_rules.c and ir/dim_expr.c only. */
#ifndef RELAXC_IR_DIM_RULES_H
#define RELAXC_IR_DIM_RULES_H

#include "ir/facts.h"

/* A sum under construction: terms in any order, merged and interned by sum_dim. */
typedef struct {
  int64_t konst;
  DimTerm *terms;
  uint32_t n, cap;
  bool overflow;
  DimTerm few[8];
} Sum;

void sum_init(Sum *s, int64_t konst);
void sum_free(Sum *s);
void sum_konst(Sum *s, int64_t k);
/* coef * product; the atoms are not copied and must outlive the sum. */
void sum_term(Sum *s, int64_t coef, const DimAtom *const *atoms, uint32_t n);
void sum_add(Sum *s, const Dim *d, int64_t scale);
/* The interned sum, NULL on overflow; frees s. `recombine` applies the rules that join floordiv and
 * floormod terms. */
const Dim *sum_dim(Context *c, Sum *s, bool recombine);

/* The atom as a dim, interned. */
const Dim *dim_atom(Context *c, AtomKind k, const Dim *a, const Dim *b);
const Dim *dim_opaque(Context *c, const Expr *e);
/* NULL on overflow instead of an opaque atom, and no recombination. */
const Dim *dim_try_add(Context *c, const Dim *a, const Dim *b, int64_t scale_b);
const Dim *dim_try_mul(Context *c, const Dim *a, const Dim *b);
/* Coefficient of a product in d, 0 when it does not occur. */
int64_t dim_coef(const Dim *d, const DimTerm *t);
/* t / by when the product `by` divides t: coefficient and the atoms left, in out (room for t->n).
 */
bool term_divide(const DimTerm *t, const DimTerm *by, int64_t *coef, const DimAtom **out,
                 uint32_t *n);

const Dim *dim_floordiv_facts(Context *c, const Facts *f, const Dim *a, const Dim *b);
const Dim *dim_floormod_facts(Context *c, const Facts *f, const Dim *a, const Dim *b);
const Dim *dim_minmax_facts(Context *c, const Facts *f, bool is_max, const Dim *a, const Dim *b);
/* Joins floordiv and floormod terms of d; NULL when no rule applies. */
const Dim *dim_recombine(Context *c, const Dim *d);

#endif
