/* Struct info: the type of a graph value. Interned and immutable: equal struct info is one pointer.
 * Dims are compared as written (by Expr); use sinfo_* functions for equality by algebra.
 */
#ifndef RELAXC_IR_SINFO_H
#define RELAXC_IR_SINFO_H

#include "ir/base/text.h"
#include "ir/dim.h"
#include "ir/facts.h"

struct Node;

typedef enum {
  SINFO_BAD,    /* an error was reported: silences what follows */
  SINFO_OBJECT, /* R.Any / R.Object */
  SINFO_PRIM,
  SINFO_SHAPE,
  SINFO_TENSOR,
  SINFO_TUPLE,
  SINFO_CALLABLE,
  SINFO_STRING,
} SInfoKind;

typedef struct SInfo SInfo;
struct SInfo {
  SInfoKind kind;
  uint32_t id;
  DType dtype;  /* TENSOR (may be unknown), PRIM */
  int32_t ndim; /* TENSOR, SHAPE: -1 when unknown; equals the length of dims when dims != NULL */
  const Expr *const *dims;      /* TENSOR: shape, SHAPE: values; NULL when unknown (ndim 0 has a
                                   non-NULL empty array) */
  struct Node *shape_var;       /* TENSOR: shape held by a Shape-typed variable */
  const char *vdevice;          /* TENSOR: "llvm:0:global" or NULL */
  const char *mesh, *placement; /* TENSOR that is distributed: "mesh[0]" and "S[0], R"; or NULL */
  const Expr *value;            /* PRIM: value when known, else NULL */
  uint32_t n;                   /* TUPLE fields, CALLABLE params */
  const SInfo *const *fields;
  const SInfo *ret;  /* CALLABLE */
  bool opaque, pure; /* CALLABLE: no parameter list known; free of side effects */
  uint32_t depth;    /* of nesting: 0 for what holds no type */
  uint32_t size;     /* types inside, this one included; UINT32_MAX for that many or more */
};

/* Nesting that everything which walks a type can take. A tuple of the same tuple twice, and so on,
 * is small in memory and doubles with each step for who walks it. */
enum { SINFO_MAX_DEPTH = 1000, SINFO_MAX_SIZE = 1000000 };

struct SInfoPool *sinfo_pool_create(Context *c);

const SInfo *sinfo_bad(Context *c);
const SInfo *sinfo_object(Context *c);
const SInfo *sinfo_string(Context *c);
const SInfo *sinfo_prim(Context *c, DType d);
const SInfo *sinfo_prim_value(Context *c, const Expr *value);
const SInfo *sinfo_shape(Context *c, const Expr *const *values, uint32_t n);
const SInfo *sinfo_shape_ndim(Context *c, int32_t ndim);
/* dims are copied. */
const SInfo *sinfo_tensor(Context *c, const Expr *const *dims, uint32_t n, DType d);
const SInfo *sinfo_tensor_ndim(Context *c, int32_t ndim, DType d);
const SInfo *sinfo_tensor_var(Context *c, struct Node *shape_var, int32_t ndim, DType d);
const SInfo *sinfo_with_vdevice(Context *c, const SInfo *s, const char *vdevice);
const SInfo *sinfo_with_mesh(Context *c, const SInfo *s, const char *mesh, const char *placement);
const SInfo *sinfo_tuple(Context *c, const SInfo *const *fields, uint32_t n);
const SInfo *sinfo_callable(Context *c, const SInfo *const *params, uint32_t n, const SInfo *ret,
                            bool pure);
const SInfo *sinfo_callable_opaque(Context *c, const SInfo *ret, bool pure);

static inline bool sinfo_is_void(const SInfo *s) {
  return s->kind == SINFO_TUPLE && s->n == 0;
}
static inline bool sinfo_is_tensor(const SInfo *s) {
  return s->kind == SINFO_TENSOR;
}

/* Why a check failed. */
typedef struct {
  Text words;              /* "dim 1 is 784 but 10 is expected" */
  const Expr *have, *want; /* the dims that differ; NULL where something else does */
} SInfoWhy;

/* Could a value of type `have` be of type `want`? SINFO_FAIL only where provably not; *why (may be
 * NULL) then says why. */
typedef enum {
  SINFO_SUB,
  SINFO_MAYBE,
  SINFO_FAIL
} SInfoCheck; /* proved subtype; run-time check; never */
SInfoCheck sinfo_check(Context *c, const Facts *f, const SInfo *have, const SInfo *want,
                       SInfoWhy *why);
bool sinfo_equal(Context *c, const SInfo *a, const SInfo *b); /* by algebra */
/* Least upper bound of two branches. */
const SInfo *sinfo_lub(Context *c, const SInfo *a, const SInfo *b);
/* Binds symbolic vars of `param` (those in `unbound`: Var* keys present with NULL) from `arg` by
 * matching bare-variable dims: map gets Var* -> Expr*. */
void sinfo_unify(Context *c, Map *bindings, const SInfo *param, const SInfo *arg);
const SInfo *sinfo_subst(Context *c, const Map *vars, const SInfo *s);
/* Drops shapes that mention vars outside `scope` (Map of Var*): they become ndim only. */
const SInfo *sinfo_erase(Context *c, const Map *scope, const SInfo *s);
/* Appends the symbolic vars of s that `out` doesn't hold yet, in order; those of a callable's
 * parameters are its own and left out. */
void sinfo_vars(Arena *a, const SInfo *s, VarVec *out);
/* The same with those of callables: all that the text of s mentions. */
void sinfo_all_vars(Arena *a, const SInfo *s, VarVec *out);
/* As in text, today's dialect, bare dims: R.Tensor((n, 4), dtype="float32"). For messages. */
void sinfo_print(Text *t, const SInfo *s);
/* "(n, 4)" */
void shape_print(Text *t, const Expr *const *dims, uint32_t n);
/* One dim: int64 literals bare, "n * 2". */
void shape_dim_print(Text *t, const Expr *dim);

#endif
