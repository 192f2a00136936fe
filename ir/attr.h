/* Attribute values as text holds them: func attrs, block annotations, module attrs, op attributes
 * of no fixed type. Immutable trees in an arena. */
#ifndef RELAXC_IR_ATTR_H
#define RELAXC_IR_ATTR_H

#include "ir/base/arena.h"
#include "ir/dtype.h"

struct Expr;
struct IndexMap;
struct Region;
struct ConstData;

typedef enum {
  ATTR_NONE,
  ATTR_BOOL,
  ATTR_INT,
  ATTR_FLOAT,
  ATTR_STR,
  ATTR_DTYPE,
  ATTR_EXPR,
  ATTR_LIST,
  ATTR_DICT,
  ATTR_INDEX_MAP, /* T.index_map(lambda i, j: (j, i)) */
  ATTR_LAMBDA,    /* lambda i, j: i < j */
  ATTR_REGION,    /* A[0:4, i] */
  ATTR_CALL,      /* T.target({...}), I.vdevice(...): name in s, arguments in items */
  ATTR_TENSOR,    /* metadata["ffi.Tensor"][i] */
} AttrKind;

typedef struct Attr {
  AttrKind kind;
  uint32_t n; /* items of a list, entries of a dict */
  union {
    bool b;
    int64_t i;
    double f;
    const char *s;
    DType dtype;
    const struct Expr *expr;
    const struct IndexMap *map;
    const struct Region *region;
    const struct ConstData *tensor;
  };
  const struct Attr *const *items; /* list items or dict values */
  const char *const *keys;         /* dict keys (interned), sorted */
} Attr;

/* Dict helpers: lookup by key (NULL when absent, or when d is NULL); with() gives a new dict with
 * the key set (kept sorted), without() one lacking it. */
const Attr *attr_get(const Attr *d, const char *key);
const Attr *attr_with(Arena *a, const Attr *d, const char *key, const Attr *value);
const Attr *attr_without(Arena *a, const Attr *d, const char *key);
const Attr *attr_int(Arena *a, int64_t v);
const Attr *attr_bool(Arena *a, bool v);
const Attr *attr_float(Arena *a, double v);
const Attr *attr_str(Arena *a, const char *s);
/* Lists: of the items, which are copied; of integers. */
const Attr *attr_list(Arena *a, const Attr *const *items, uint32_t n);
const Attr *attr_ints(Arena *a, const uint32_t *items, uint32_t n);
bool attr_equal(const Attr *x, const Attr *y);
uint64_t attr_hash(const Attr *x);
/* Convenience: an int/bool entry or the fallback. */
int64_t attr_get_int(const Attr *d, const char *key, int64_t fallback);
bool attr_get_bool(const Attr *d, const char *key, bool fallback);
const char *attr_get_str(const Attr *d, const char *key, const char *fallback);

#endif
