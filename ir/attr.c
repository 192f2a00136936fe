/* Attribute values: dict helpers, equality, hash. */
#include "ir/attr.h"
#include "ir/base/map.h"
#include "ir/tir.h"
#include <string.h>

/* Position of key in d, or where it belongs (found says which). */
static uint32_t dict_find(const Attr *d, const char *key, bool *found) {
  uint32_t lo = 0, hi = d->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    int order = strcmp(d->keys[mid], key);
    if (order == 0) {
      *found = true;
      return mid;
    }
    if (order < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  *found = false;
  return lo;
}

const Attr *attr_get(const Attr *d, const char *key) {
  bool found;
  if (!d || d->kind != ATTR_DICT) return NULL;
  uint32_t at = dict_find(d, key, &found);
  return found ? d->items[at] : NULL;
}

const Attr *attr_with(Arena *a, const Attr *d, const char *key, const Attr *value) {
  static const Attr empty = {.kind = ATTR_DICT};
  bool found;
  if (!d || d->kind != ATTR_DICT) d = &empty;
  uint32_t at = dict_find(d, key, &found), n = d->n + !found, from = found;
  const Attr **items = ARENA_ARRAY(a, const Attr *, n);
  const char **keys = ARENA_ARRAY(a, const char *, n);
  for (uint32_t i = 0; i < at; i++) items[i] = d->items[i], keys[i] = d->keys[i];
  items[at] = value;
  keys[at] = found ? d->keys[at] : arena_strndup(a, key, strlen(key));
  for (uint32_t i = at + 1; i < n; i++)
    items[i] = d->items[i - 1 + from], keys[i] = d->keys[i - 1 + from];
  Attr *r = ARENA_NEW(a, Attr);
  *r = (Attr){.kind = ATTR_DICT, .n = n, .items = items, .keys = keys};
  return r;
}

const Attr *attr_without(Arena *a, const Attr *d, const char *key) {
  bool found;
  if (!d || d->kind != ATTR_DICT) return d;
  uint32_t at = dict_find(d, key, &found);
  if (!found) return d;
  const Attr **items = ARENA_ARRAY(a, const Attr *, d->n - 1);
  const char **keys = ARENA_ARRAY(a, const char *, d->n - 1);
  for (uint32_t i = 0, j = 0; i < d->n; i++)
    if (i != at) items[j] = d->items[i], keys[j++] = d->keys[i];
  Attr *r = ARENA_NEW(a, Attr);
  *r = (Attr){.kind = ATTR_DICT, .n = d->n - 1, .items = items, .keys = keys};
  return r;
}

static Attr *attr_new(Arena *a, AttrKind kind) {
  Attr *r = ARENA_NEW(a, Attr);
  r->kind = kind;
  return r;
}

const Attr *attr_int(Arena *a, int64_t v) {
  Attr *r = attr_new(a, ATTR_INT);
  r->i = v;
  return r;
}

const Attr *attr_list(Arena *a, const Attr *const *items, uint32_t n) {
  Attr *r = attr_new(a, ATTR_LIST);
  r->n = n;
  r->items = arena_dup(a, items, n * sizeof *items);
  return r;
}

const Attr *attr_ints(Arena *a, const uint32_t *items, uint32_t n) {
  const Attr **at = ARENA_ARRAY(a, const Attr *, n);
  for (uint32_t i = 0; i < n; i++) at[i] = attr_int(a, items[i]);
  Attr *r = attr_new(a, ATTR_LIST);
  r->n = n;
  r->items = at;
  return r;
}

const Attr *attr_bool(Arena *a, bool v) {
  Attr *r = attr_new(a, ATTR_BOOL);
  r->b = v;
  return r;
}

const Attr *attr_float(Arena *a, double v) {
  Attr *r = attr_new(a, ATTR_FLOAT);
  r->f = v;
  return r;
}

const Attr *attr_str(Arena *a, const char *s) {
  Attr *r = attr_new(a, ATTR_STR);
  r->s = arena_strndup(a, s, strlen(s));
  return r;
}

static uint64_t double_bits(double v) {
  uint64_t u;
  memcpy(&u, &v, sizeof u);
  return u;
}

static bool items_equal(const Attr *x, const Attr *y) {
  if (x->n != y->n) return false;
  for (uint32_t i = 0; i < x->n; i++) {
    const char *kx = x->keys ? x->keys[i] : NULL, *ky = y->keys ? y->keys[i] : NULL;
    if (!kx != !ky || (kx && strcmp(kx, ky) != 0)) return false;
    if (!attr_equal(x->items[i], y->items[i])) return false;
  }
  return true;
}

static bool maps_equal(const IndexMap *x, const IndexMap *y) {
  if (x == y) return true;
  if (!x || !y || x->nin != y->nin || x->nout != y->nout) return false;
  Arena *a = arena_create();
  Map vars;
  map_init(&vars, a);
  for (uint32_t i = 0; i < x->nin; i++)
    map_setp(&vars, x->in[i], (void *)(uintptr_t)y->in[i]->expr);
  Subst s = {.c = x->ctx, .vars = &vars};
  bool same = true;
  for (uint32_t i = 0; same && i < x->nout; i++) same = expr_subst(&s, x->out[i]) == y->out[i];
  arena_free(a);
  return same;
}

static bool regions_equal(const Region *x, const Region *y) {
  if (x->buf != y->buf) return false;
  for (uint32_t i = 0; i < x->buf->ndim; i++)
    if (x->ranges[i].min != y->ranges[i].min || x->ranges[i].extent != y->ranges[i].extent)
      return false;
  return true;
}

bool attr_equal(const Attr *x, const Attr *y) {
  if (x == y) return true;
  if (!x || !y || x->kind != y->kind) return false;
  switch (x->kind) {
  case ATTR_NONE: return true;
  case ATTR_BOOL: return x->b == y->b;
  case ATTR_INT: return x->i == y->i;
  case ATTR_FLOAT: return double_bits(x->f) == double_bits(y->f);
  case ATTR_STR: return strcmp(x->s, y->s) == 0;
  case ATTR_DTYPE: return dtype_eq(x->dtype, y->dtype);
  case ATTR_EXPR: return x->expr == y->expr;
  case ATTR_LIST:
  case ATTR_DICT: return items_equal(x, y);
  case ATTR_INDEX_MAP:
  case ATTR_LAMBDA: return maps_equal(x->map, y->map);
  case ATTR_REGION: return regions_equal(x->region, y->region);
  case ATTR_CALL: return strcmp(x->s, y->s) == 0 && items_equal(x, y);
  case ATTR_TENSOR: return x->tensor == y->tensor; /* identity: they may be large */
  }
  return false;
}

uint64_t attr_hash(const Attr *x) {
  if (!x) return 0;
  uint64_t h = hash_mix(0, x->kind);
  switch (x->kind) {
  case ATTR_NONE: break;
  case ATTR_BOOL: return hash_mix(h, x->b);
  case ATTR_INT: return hash_mix(h, (uint64_t)x->i);
  case ATTR_FLOAT: return hash_mix(h, double_bits(x->f));
  case ATTR_STR: return hash_bytes(x->s, strlen(x->s), h);
  case ATTR_DTYPE:
    return hash_mix(h,
                    (uint64_t)x->dtype.code << 24 | (uint64_t)x->dtype.bits << 16 | x->dtype.lanes);
  case ATTR_EXPR: return hash_mix(h, x->expr->id);
  case ATTR_REGION: return hash_mix(h, x->region->buf->id);
  case ATTR_INDEX_MAP:
  case ATTR_LAMBDA: return x->map ? hash_mix(h, (uint64_t)x->map->nin << 32 | x->map->nout) : h;
  case ATTR_TENSOR: break;                               /* by identity, which is no hash */
  case ATTR_CALL: h = hash_bytes(x->s, strlen(x->s), h); /* fall through */
  case ATTR_LIST:
  case ATTR_DICT:
    for (uint32_t i = 0; i < x->n; i++) {
      if (x->kind == ATTR_DICT) h = hash_bytes(x->keys[i], strlen(x->keys[i]), h);
      h = hash_mix(h, attr_hash(x->items[i]));
    }
  }
  return h;
}

int64_t attr_get_int(const Attr *d, const char *key, int64_t fallback) {
  const Attr *v = attr_get(d, key);
  if (v && v->kind == ATTR_INT) return v->i;
  if (v && v->kind == ATTR_BOOL) return v->b;
  if (v && v->kind == ATTR_EXPR && v->expr->kind == EXPR_INT) return v->expr->i;
  return fallback;
}

bool attr_get_bool(const Attr *d, const char *key, bool fallback) {
  return attr_get_int(d, key, fallback) != 0;
}

const char *attr_get_str(const Attr *d, const char *key, const char *fallback) {
  const Attr *v = attr_get(d, key);
  return v && v->kind == ATTR_STR ? v->s : fallback;
}
