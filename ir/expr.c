/* Expressions: the pool that interns them, and their constructors.
 *
 * Hash-consing: a constructor fills a candidate, looks it up by kind, type, payload and operand
 * ids, and copies it into the session arena only when it is new. Hashes stand beside the pointers,
 * so that a probe touches an expression only when the hash agrees. Folding is in ir/fold.c.
 */
#include "ir/expr.h"
#include "ir/dim.h"
#include "ir/fold.h"
#include "ir/tir.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct ExprPool {
  const Expr **slots; /* NULL: empty */
  uint32_t *hashes;
  uint32_t nslots, n; /* expressions in the table */
  uint32_t next;      /* ids, of variables too */
} ExprPool;

struct ExprPool *expr_pool_create(Context *c) {
  ExprPool *p = ARENA_NEW(c->arena, ExprPool);
  p->nslots = 1024;
  p->slots = ARENA_ARRAY(c->arena, const Expr *, p->nslots);
  p->hashes = ARENA_ARRAY(c->arena, uint32_t, p->nslots);
  return p;
}

static void pool_grow(Context *c, ExprPool *p) {
  const Expr **slots = p->slots;
  uint32_t *hashes = p->hashes, nold = p->nslots;
  if (p->nslots > UINT32_MAX / 2) fatal("out of memory (more than %u expressions)", p->n);
  p->nslots *= 2;
  p->slots = ARENA_ARRAY(c->arena, const Expr *, p->nslots);
  p->hashes = ARENA_ARRAY(c->arena, uint32_t, p->nslots);
  for (uint32_t i = 0; i < nold; i++) {
    if (!slots[i]) continue;
    uint32_t at = hashes[i] & (p->nslots - 1);
    while (p->slots[at]) at = (at + 1) & (p->nslots - 1);
    p->slots[at] = slots[i];
    p->hashes[at] = hashes[i];
  }
}

/* What is compared and hashed beside the operands. */
typedef struct {
  ExprKind kind;
  bool has_pred;
  uint16_t intrin;
  DType dtype;
  uint64_t payload; /* the union's word; hashed through `id` where it is a pointer */
  uint64_t hash;
} Head;

static uint32_t head_hash(const Head *h, const Expr *const *args, uint32_t n) {
  uint64_t x = (uint64_t)h->kind | (uint64_t)h->has_pred << 8 | (uint64_t)h->intrin << 16 |
               (uint64_t)h->dtype.code << 32 | (uint64_t)h->dtype.bits << 40 |
               (uint64_t)h->dtype.lanes << 48;
  x = hash_mix(x, h->hash);
  for (uint32_t i = 0; i < n; i++) x = hash_mix(x, args[i]->id);
  return (uint32_t)x;
}

static bool head_same(const Expr *e, const Head *h, const Expr *const *args, uint32_t n) {
  uint64_t payload;
  memcpy(&payload, &e->i, sizeof payload);
  if (e->kind != h->kind || e->n != n || !dtype_eq(e->dtype, h->dtype) || payload != h->payload ||
      e->intrin != h->intrin || (e->has_pred != 0) != h->has_pred)
    return false;
  for (uint32_t i = 0; i < n; i++)
    if (e->arg[i] != args[i]) return false;
  return true;
}

static Expr *expr_new(Context *c, const Head *h, const Expr *const *args, uint32_t n) {
  Expr *e = arena_alloc(c->arena, sizeof *e + n * sizeof *args);
  e->kind = (uint8_t)h->kind;
  e->has_pred = h->has_pred;
  e->intrin = h->intrin;
  e->dtype = h->dtype;
  e->id = c->exprs->next++;
  e->n = n;
  memcpy(&e->i, &h->payload, sizeof e->i);
  for (uint32_t i = 0; i < n; i++) e->arg[i] = args[i];
  return e;
}

static const Expr *intern(Context *c, const Head *h, const Expr *const *args, uint32_t n) {
  ExprPool *p = c->exprs;
  uint32_t hash = head_hash(h, args, n), at = hash & (p->nslots - 1);
  for (; p->slots[at]; at = (at + 1) & (p->nslots - 1))
    if (p->hashes[at] == hash && head_same(p->slots[at], h, args, n)) return p->slots[at];
  Expr *e = expr_new(c, h, args, n);
  p->slots[at] = e;
  p->hashes[at] = hash;
  if (++p->n > p->nslots / 2) pool_grow(c, p);
  return e;
}

static const Expr *make(Context *c, ExprKind k, DType d, const Expr *const *args, uint32_t n) {
  Head h = {.kind = k, .dtype = d};
  return intern(c, &h, args, n);
}

static uint64_t pointer_word(const void *p) {
  uint64_t w = 0;
  memcpy(&w, &p, sizeof p);
  return w;
}

/* ---- leaves ---- */

Var *var_create(Context *c, const char *name, DType dtype) {
  Var *v = ARENA_NEW(c->arena, Var);
  v->name = strpool_intern(c->strings, name, strlen(name));
  v->dtype = dtype;
  v->id = c->next_var++;
  Head h = {.kind = EXPR_VAR, .dtype = dtype, .payload = pointer_word(v)};
  v->expr = expr_new(c, &h, NULL, 0);
  return v;
}

Var *var_create_dim(Context *c, const char *name) {
  Var *v = var_create(c, name, DT_I64);
  v->is_dim = true;
  return v;
}

static const Expr *literal(Context *c, ExprKind k, DType d, const void *word) {
  Head h = {.kind = k, .dtype = dtype_scalar(d)};
  memcpy(&h.payload, word, sizeof h.payload);
  h.hash = h.payload;
  return expr_broadcast(c, intern(c, &h, NULL, 0), d.lanes);
}

const Expr *expr_int(Context *c, DType d, int64_t v) {
  if (dtype_is_float(d)) return expr_float(c, d, (double)v);
  v = dtype_wrap(d, v);
  return literal(c, EXPR_INT, d, &v);
}

const Expr *expr_i64(Context *c, int64_t v) {
  return expr_int(c, DT_I64, v);
}

const Expr *expr_bool(Context *c, bool v) {
  return expr_int(c, DT_BOOL, v);
}

const Expr *expr_float(Context *c, DType d, double v) {
  v = isnan(v) ? (double)NAN : dtype_round(d, v);
  return literal(c, EXPR_FLOAT, d, &v);
}

const Expr *expr_lit(Context *c, DType d, double v) {
  if (dtype_is_float(d)) return expr_float(c, d, v);
  int64_t i = 0;
  uint8_t word[8];
  DType wide = DT(d.code == DTYPE_UINT ? DTYPE_UINT : DTYPE_INT, 64);
  if (dtype_is_bool(d)) return expr_int(c, d, v != 0);
  dtype_store_double(wide, word, v);
  i = dtype_load_int(wide, word);
  return expr_int(c, d, i);
}

const Expr *expr_str(Context *c, const char *s) {
  size_t n = strlen(s);
  Head h = {.kind = EXPR_STR, .dtype = DT_HANDLE};
  h.payload = pointer_word(strpool_intern(c->strings, s, n));
  h.hash = hash_bytes(s, n, 0);
  return intern(c, &h, NULL, 0);
}

const Expr *expr_buf_data(Context *c, struct Buffer *b) {
  Head h = {.kind = EXPR_BUF_DATA, .dtype = DT_HANDLE, .payload = pointer_word(b), .hash = b->id};
  return intern(c, &h, NULL, 0);
}

const Expr *expr_buf_itself(Context *c, struct Buffer *b) {
  Head h = {.kind = EXPR_BUF_DATA, .intrin = SPELL_BUFFER, .dtype = DT_HANDLE};
  h.payload = pointer_word(b);
  h.hash = b->id;
  return intern(c, &h, NULL, 0);
}

/* ---- operators ---- */

/* A literal in scalar type d, looked at through a broadcast; NULL when e is none. */
static const Expr *literal_as(Context *c, const Expr *e, DType d) {
  const Expr *l = expr_literal(e);
  if (!l || l->kind != EXPR_INT || dtype_is_bool(l->dtype)) return NULL;
  if (l->dtype.code == DTYPE_UINT && dtype_is_float(d))
    return expr_float(c, d, (double)(uint64_t)l->i);
  return expr_int(c, dtype_scalar(d), l->i);
}

void expr_match(Context *c, const Expr **a, const Expr **b) {
  DType da = dtype_scalar((*a)->dtype), db = dtype_scalar((*b)->dtype);
  unsigned la = (*a)->dtype.lanes, lb = (*b)->dtype.lanes;
  if (dtype_eq(da, db) && la == lb) return;
  if (!dtype_eq(da, db)) {
    const Expr *x = literal_as(c, *a, db), *y = literal_as(c, *b, da);
    if (y && !dtype_is_bool(da) && da.code != DTYPE_HANDLE) {
      *b = expr_broadcast(c, y, lb);
    } else if (x && !dtype_is_bool(db) && db.code != DTYPE_HANDLE) {
      *a = expr_broadcast(c, x, la);
    } else if (dtype_is_float(da) != dtype_is_float(db)) {
      if (dtype_is_float(da))
        *b = expr_cast(c, da, *b);
      else
        *a = expr_cast(c, db, *a);
    } else if (dtype_is_bool(db) || (da.bits > db.bits && !dtype_is_bool(da)) ||
               (da.bits == db.bits && dtype_is_uint(da))) {
      *b = expr_cast(c, da, *b);
    } else {
      *a = expr_cast(c, db, *a);
    }
  }
  if (la == 1 && lb > 1) *a = expr_broadcast(c, *a, lb);
  if (lb == 1 && la > 1) *b = expr_broadcast(c, *b, la);
}

const Expr *expr_binary_raw(Context *c, ExprKind k, const Expr *a, const Expr *b) {
  DType d = a->dtype;
  if (k >= EXPR_EQ && k <= EXPR_OR) d = dtype_lanes(DT_BOOL, d.lanes);
  return make(c, k, d, (const Expr *[]){a, b}, 2);
}

const Expr *expr_binary(Context *c, ExprKind k, const Expr *a, const Expr *b) {
  expr_match(c, &a, &b);
  const Expr *folded = fold_binary(c, k, a, b);
  return folded ? folded : expr_binary_raw(c, k, a, b);
}

static const Expr *make_spelled(Context *c, ExprKind k, DType d, int spelling,
                                const Expr *const *args, uint32_t n) {
  Head h = {.kind = k, .intrin = (uint16_t)spelling, .dtype = d};
  return intern(c, &h, args, n);
}

/* 0, 1, an infinity: what some operation doesn't change. */
static bool is_neutral(const Expr *e) {
  const Expr *l = expr_literal(e);
  if (!l) return false;
  return l->kind == EXPR_INT ? l->i == 0 || l->i == 1 : l->f == 0 || l->f == 1 || isinf(l->f);
}

/* Whether `a op b` folds: here, or in TVM, which drops the neutral elements of floats too, but not
 * those of operations on bits. */
static bool may_fold(Context *c, ExprKind k, const Expr *a, const Expr *b) {
  bool bits = k == EXPR_BITAND || k == EXPR_BITOR || k == EXPR_BITXOR;
  return (!bits && (is_neutral(a) || is_neutral(b))) || fold_binary(c, k, a, b);
}

const Expr *expr_binary_call(Context *c, ExprKind k, const Expr *a, const Expr *b) {
  expr_match(c, &a, &b);
  const Expr *usual = expr_binary_raw(c, k, a, b);
  if (!may_fold(c, k, a, b)) return usual;
  return make_spelled(c, k, usual->dtype, SPELL_CALL, usual->arg, 2);
}

const Expr *expr_not_call(Context *c, const Expr *a) {
  DType d = dtype_lanes(DT_BOOL, a->dtype.lanes);
  return make_spelled(c, EXPR_NOT, d, fold_unary(c, EXPR_NOT, a) ? SPELL_CALL : SPELL_USUAL, &a, 1);
}

const Expr *expr_cast_call(Context *c, DType d, const Expr *a) {
  if (d.lanes == 1 && a->dtype.lanes > 1) d.lanes = a->dtype.lanes;
  const Expr *usual = expr_cast(c, d, a);
  if (usual->kind == EXPR_CAST && usual->arg[0] == a && dtype_eq(usual->dtype, d)) return usual;
  return make_spelled(c, EXPR_CAST, d, SPELL_CALL, &a, 1);
}

const Expr *expr_test(Context *c, const Expr *e) {
  if (dtype_is_bool(e->dtype)) return e;
  const Expr *zero = expr_lit(c, e->dtype, 0);
  return make_spelled(c, EXPR_NE, DT_BOOL, SPELL_TEST, (const Expr *[]){e, zero}, 2);
}

const Expr *expr_unary(Context *c, ExprKind k, const Expr *a) {
  if (k != EXPR_NOT && k != EXPR_BITNOT) bug("no unary expression of kind %d", (int)k);
  const Expr *folded = fold_unary(c, k, a);
  if (folded) return folded;
  DType d = k == EXPR_NOT ? dtype_lanes(DT_BOOL, a->dtype.lanes) : a->dtype;
  return make(c, k, d, &a, 1);
}

const Expr *expr_select(Context *c, const Expr *cond, const Expr *a, const Expr *b) {
  expr_match(c, &a, &b);
  if (cond->dtype.lanes > 1 && a->dtype.lanes == 1) {
    a = expr_broadcast(c, a, cond->dtype.lanes);
    b = expr_broadcast(c, b, cond->dtype.lanes);
  }
  return make(c, EXPR_SELECT, a->dtype, (const Expr *[]){cond, a, b}, 3);
}

const Expr *expr_cast(Context *c, DType d, const Expr *a) {
  if (d.lanes == 1 && a->dtype.lanes > 1) d.lanes = a->dtype.lanes;
  if (dtype_eq(d, a->dtype)) return a;
  if (d.lanes > 1 && a->dtype.lanes == 1)
    return expr_broadcast(c, expr_cast(c, dtype_scalar(d), a), d.lanes);
  const Expr *folded = fold_cast(c, d, a);
  return folded ? folded : make(c, EXPR_CAST, d, &a, 1);
}

static const Expr *call_raw(Context *c, IntrinId f, DType d, const Expr *const *args, uint32_t n) {
  Head h = {.kind = EXPR_CALL, .intrin = (uint16_t)f, .dtype = d};
  return intern(c, &h, args, n);
}

const Expr *expr_call(Context *c, IntrinId f, DType d, const Expr *const *args, uint32_t n) {
  const Expr *l = f == INTRIN_if_then_else && n == 3 ? expr_literal(args[0]) : NULL;
  if (l && l->kind == EXPR_INT && args[0]->dtype.lanes == 1) return l->i ? args[1] : args[2];
  return call_raw(c, f, d, args, n);
}

const Expr *expr_call_pointer(Context *c, IntrinId f, const char *pointer, const Expr *const *args,
                              uint32_t n) {
  Head h = {.kind = EXPR_CALL, .intrin = (uint16_t)f, .dtype = DT_HANDLE};
  h.payload = pointer_word(pointer);
  h.hash = hash_bytes(pointer, strlen(pointer), 0);
  return intern(c, &h, args, n);
}

const char *pointer_name(Context *c, DType elem, const char *scope) {
  char text[128];
  bool global = !scope || strcmp(scope, "global") == 0;
  if (scope && strcmp(scope, POINTER_TENSOR_MAP) == 0)
    snprintf(text, sizeof text, "TensorMap()");
  else if (dtype_known(elem))
    snprintf(text, sizeof text, "handle(\"%s\", \"%.80s\")", dtype_name(elem),
             global ? "global" : scope);
  else if (!global)
    snprintf(text, sizeof text, "handle(storage_scope=\"%.80s\")", scope);
  else
    snprintf(text, sizeof text, "handle");
  return strpool_intern(c->strings, text, strlen(text));
}

static DType call_dtype(IntrinId f, DType d) {
  switch ((IntrinResult)intrin_table[f].result) {
  case IRES_BOOL: return dtype_lanes(DT_BOOL, d.lanes);
  case IRES_I32: return dtype_lanes(DT_I32, d.lanes);
  case IRES_I64: return dtype_lanes(DT_I64, d.lanes);
  case IRES_HANDLE: return DT_HANDLE;
  case IRES_VOID: return DT_UNKNOWN;
  case IRES_U32: return dtype_lanes(DT_U32, d.lanes);
  case IRES_U64: return dtype_lanes(DT_U64, d.lanes);
  case IRES_F32: return dtype_lanes(DT_F32, d.lanes);
  case IRES_SAME:
  case IRES_GIVEN:
  case IRES_LAST:
  case IRES_NAMED:
  case IRES_RETURN:
  case IRES_BITS:
  case IRES_SECOND: return d;
  }
  return d;
}

bool intrin_reduces(IntrinId f) {
  return f >= INTRIN_vector_reduce_add && f <= INTRIN_vector_reduce_minnum;
}

const Expr *expr_call1(Context *c, IntrinId f, const Expr *a) {
  return expr_call(c, f, intrin_reduces(f) ? dtype_scalar(a->dtype) : call_dtype(f, a->dtype), &a,
                   1);
}

const Expr *expr_call2(Context *c, IntrinId f, const Expr *a, const Expr *b) {
  if (f != INTRIN_ldexp && f != INTRIN_get_active_lane_mask) expr_match(c, &a, &b);
  return expr_call(c, f, call_dtype(f, a->dtype), (const Expr *[]){a, b}, 2);
}

const Expr *expr_if_then_else(Context *c, const Expr *cond, const Expr *a, const Expr *b) {
  expr_match(c, &a, &b);
  return expr_call(c, INTRIN_if_then_else, a->dtype, (const Expr *[]){cond, a, b}, 3);
}

const Expr *expr_call_func(Context *c, const char *func, DType d, const Expr *const *args,
                           uint32_t n) {
  size_t len = strlen(func);
  Head h = {.kind = EXPR_CALL_FUNC, .dtype = d};
  h.payload = pointer_word(strpool_intern(c->strings, func, len));
  h.hash = hash_bytes(func, len, 0);
  return intern(c, &h, args, n);
}

static const Expr *load(Context *c, struct Buffer *b, bool pred, const Expr *const *args,
                        uint32_t n) {
  unsigned lanes = b->dtype.lanes ? b->dtype.lanes : 1;
  for (uint32_t i = 0; i + pred < n; i++)
    if (args[i]->dtype.lanes > 1) {
      lanes *= args[i]->dtype.lanes;
      break;
    }
  Head h = {.kind = EXPR_LOAD, .has_pred = pred, .dtype = dtype_lanes(b->dtype, lanes)};
  h.payload = pointer_word(b);
  h.hash = b->id;
  return intern(c, &h, args, n);
}

const Expr *expr_load(Context *c, struct Buffer *b, const Expr *const *idx, uint32_t n) {
  return load(c, b, false, idx, n);
}

const Expr *expr_load_pred(Context *c, struct Buffer *b, const Expr *const *idx, uint32_t n,
                           const Expr *pred) {
  const Expr *some[16], **args = n < 16 ? some : ARENA_ARRAY(c->arena, const Expr *, n + 1);
  if (!pred) return expr_load(c, b, idx, n);
  for (uint32_t i = 0; i < n; i++) args[i] = idx[i];
  args[n] = pred;
  return load(c, b, true, args, n + 1);
}

const Expr *expr_ramp(Context *c, const Expr *base, const Expr *stride, uint32_t lanes) {
  if (lanes == 1) return base;
  expr_match(c, &base, &stride);
  DType d = dtype_lanes(base->dtype, base->dtype.lanes * lanes);
  return make(c, EXPR_RAMP, d, (const Expr *[]){base, stride}, 2);
}

const Expr *expr_broadcast(Context *c, const Expr *v, uint32_t lanes) {
  if (lanes <= 1 || v->dtype.lanes > 1) return v;
  return make(c, EXPR_BROADCAST, dtype_lanes(v->dtype, lanes), &v, 1);
}

const Expr *expr_shuffle(Context *c, const Expr *const *vecs, uint32_t n, const int64_t *lanes,
                         uint32_t nlanes) {
  if (n == 0 || nlanes == 0) bug("a shuffle needs vectors and lanes");
  const Expr **args = ARENA_ARRAY(c->arena, const Expr *, n + 1);
  const Expr **picks = ARENA_ARRAY(c->arena, const Expr *, nlanes);
  for (uint32_t i = 0; i < n; i++) args[i] = vecs[i];
  for (uint32_t i = 0; i < nlanes; i++) picks[i] = expr_int(c, DT_I32, lanes[i]);
  args[n] = call_raw(c, INTRIN_tuple, DT_HANDLE, picks, nlanes);
  return make(c, EXPR_SHUFFLE, dtype_lanes(vecs[0]->dtype, nlanes), args, n + 1);
}

const Expr *expr_let(Context *c, Var *v, const Expr *value, const Expr *body) {
  return make(c, EXPR_LET, body->dtype, (const Expr *[]){v->expr, value, body}, 3);
}

const Expr *expr_with_args(Context *c, const Expr *e, const Expr *const *args) {
  switch ((ExprKind)e->kind) {
  case EXPR_INT:
  case EXPR_FLOAT:
  case EXPR_STR:
  case EXPR_VAR:
  case EXPR_BUF_DATA:
  case EXPR_KIND_COUNT: return e;
  case EXPR_CAST: return expr_cast(c, e->dtype, args[0]);
  case EXPR_ADD:
  case EXPR_SUB:
  case EXPR_MUL:
  case EXPR_DIV:
  case EXPR_MOD:
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_MIN:
  case EXPR_MAX:
  case EXPR_EQ:
  case EXPR_NE:
  case EXPR_LT:
  case EXPR_LE:
  case EXPR_GT:
  case EXPR_GE:
  case EXPR_AND:
  case EXPR_OR:
  case EXPR_BITAND:
  case EXPR_BITOR:
  case EXPR_BITXOR:
  case EXPR_SHL:
  case EXPR_SHR: return expr_binary(c, (ExprKind)e->kind, args[0], args[1]);
  case EXPR_NOT:
  case EXPR_BITNOT: return expr_unary(c, (ExprKind)e->kind, args[0]);
  case EXPR_SELECT: return expr_select(c, args[0], args[1], args[2]);
  case EXPR_LOAD: return load(c, e->buf, e->has_pred != 0, args, e->n);
  case EXPR_RAMP: return expr_ramp(c, args[0], args[1], e->dtype.lanes / e->arg[0]->dtype.lanes);
  case EXPR_BROADCAST: return expr_broadcast(c, args[0], e->dtype.lanes);
  case EXPR_SHUFFLE: return make(c, EXPR_SHUFFLE, e->dtype, args, e->n);
  case EXPR_LET: return make(c, EXPR_LET, args[2]->dtype, args, 3);
  case EXPR_CALL:
    if (e->s) return expr_call_pointer(c, (IntrinId)e->intrin, e->s, args, e->n);
    return expr_call(c, (IntrinId)e->intrin, e->dtype, args, e->n);
  case EXPR_CALL_FUNC: return expr_call_func(c, e->s, e->dtype, args, e->n);
  }
  return e;
}

bool expr_const_int(Context *c, const Expr *e, int64_t *out) {
  if (e->kind == EXPR_INT) {
    *out = e->i;
    return true;
  }
  if (!dtype_is_int(e->dtype) || e->dtype.lanes != 1) return false;
  return dim_is_const(expr_dim(c, e), out);
}
