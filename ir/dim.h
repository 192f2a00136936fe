/* Canonical symbolic integers.
 *
 * A Dim is constant + sum of coefficient x product of atoms, where an atom is a variable, a
 * floordiv, floormod, min, max of Dims, or an opaque expression. Interned: two integer expressions
 * equal by this algebra have the same Dim pointer. Arithmetic is checked: what would overflow
 * int64 becomes an opaque atom. Shapes, loop bounds and buffer indices all use it.
 */
#ifndef RELAXC_IR_DIM_H
#define RELAXC_IR_DIM_H

#include "ir/expr.h"

typedef enum { ATOM_VAR, ATOM_FLOORDIV, ATOM_FLOORMOD, ATOM_MIN, ATOM_MAX, ATOM_OPAQUE } AtomKind;

typedef struct Dim Dim;
typedef struct DimAtom {
  AtomKind kind;
  uint32_t id;
  Var *var;         /* ATOM_VAR */
  const Dim *a, *b; /* the others' operands */
  const Expr *expr; /* ATOM_OPAQUE */
} DimAtom;

typedef struct {
  int64_t coef; /* never 0 */
  uint32_t n;   /* factors, sorted by id; a power repeats */
  const DimAtom *const *atoms;
} DimTerm;

struct Dim {
  uint32_t id;
  int64_t konst;
  uint32_t n;
  const DimTerm *terms;  /* sorted by atoms' ids */
  const Expr *e64, *e32; /* caches of dim_expr */
};

struct DimPool *dim_pool_create(Context *c);

/* Canonical form of an integer (or bool) scalar expression; cached in e->dim. */
const Dim *expr_dim(Context *c, const Expr *e);
const Dim *dim_const(Context *c, int64_t v);
const Dim *dim_var(Context *c, Var *v);
/* A single term; the atoms are copied. */
const Dim *dim_monomial(Context *c, int64_t coef, const DimAtom *const *atoms, uint32_t n);
const Dim *dim_add(Context *c, const Dim *a, const Dim *b);
const Dim *dim_sub(Context *c, const Dim *a, const Dim *b);
const Dim *dim_mul(Context *c, const Dim *a, const Dim *b);
const Dim *dim_scale(Context *c, const Dim *a, int64_t k);
const Dim *dim_floordiv(Context *c, const Dim *a, const Dim *b);
const Dim *dim_floormod(Context *c, const Dim *a, const Dim *b);
const Dim *dim_min(Context *c, const Dim *a, const Dim *b);
const Dim *dim_max(Context *c, const Dim *a, const Dim *b);
static inline bool dim_is_const(const Dim *d, int64_t *v) {
  if (d->n) return false;
  if (v) *v = d->konst;
  return true;
}
/* Whether it is a multiple of k whatever values its variables have. */
static inline bool dim_is_multiple(const Dim *d, int64_t k) {
  if (d->konst % k) return false;
  for (uint32_t i = 0; i < d->n; i++)
    if (d->terms[i].coef % k) return false;
  return true;
}
/* The expression of a Dim in canonical print order ("n * 2 + 1"), of integer type `dtype`. */
const Expr *dim_expr(Context *c, const Dim *d, DType dtype);
/* expr -> dim -> expr: the simplifier for index expressions. Non-integers come back as they are. */
const Expr *expr_simplify(Context *c, const Expr *e);
/* Simplified product of n dims as int64 expression (1 for n = 0). */
const Expr *expr_product(Context *c, const Expr *const *dims, uint32_t n);

/* Coefficient of var v when d is linear in it (v occurs nowhere inside other atoms); returns false
 * otherwise. *rest gets d without that term. A var that doesn't occur has coefficient 0. */
bool dim_linear(Context *c, const Dim *d, const Var *v, const Dim **coef, const Dim **rest);
/* Whether v occurs anywhere in d, inside opaque atoms too. */
bool dim_uses_var(const Dim *d, const Var *v);
/* Replaces variables: vars maps Var* to const Expr*. */
const Dim *dim_subst(Context *c, const Dim *d, const Map *vars);
/* The largest integer that divides d for all values of its atoms (0 for d = 0). */
int64_t dim_content(const Dim *d);

/* The same rules with what `facts` know (ranges of loop variables, equalities): (i * 16 + j) // 16
 * is i where 0 <= j < 16. The result holds only under these facts. */
struct Facts;
const Dim *dim_simplify(Context *c, const struct Facts *f, const Dim *d);

#endif
