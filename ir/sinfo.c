/* Struct info: interning, and the questions asked about it.
 *
 * A candidate is built on the stack, looked up by its content (dims and fields by pointer, as they
 * are interned themselves) and copied into the session's arena only when it is new. Comparisons
 * that go by algebra ask the prover (ir/facts.h) dim by dim.
 */
#include "ir/sinfo.h"
#include <string.h>

typedef struct SInfoEntry {
  SInfo s;
  struct SInfoEntry *next; /* same hash */
} SInfoEntry;

struct SInfoPool {
  Arena *arena;
  Map by_hash;
  uint32_t n;
};

struct SInfoPool *sinfo_pool_create(Context *c) {
  struct SInfoPool *p = ARENA_NEW(c->arena, struct SInfoPool);
  p->arena = c->arena;
  map_init(&p->by_hash, c->arena);
  return p;
}

/* ---- interning ---- */

static uint64_t sinfo_hash(const SInfo *s) {
  uint64_t h = hash_mix(0x51f0u, (uint64_t)s->kind);
  h = hash_mix(h,
               ((uint64_t)s->dtype.code << 24) | ((uint64_t)s->dtype.bits << 16) | s->dtype.lanes);
  h = hash_mix(h, (uint64_t)(int64_t)s->ndim);
  h = hash_mix(h, (uint64_t)s->opaque | (uint64_t)s->pure << 1 | (uint64_t)(s->dims != NULL) << 2);
  if (s->dims)
    for (int32_t i = 0; i < s->ndim; i++) h = hash_mix(h, s->dims[i]->id);
  h = hash_mix(h, s->shape_var ? 1 : 0); /* told apart by comparison: rare */
  if (s->vdevice) h = hash_bytes(s->vdevice, strlen(s->vdevice), h);
  if (s->mesh) h = hash_bytes(s->mesh, strlen(s->mesh), h);
  if (s->placement) h = hash_bytes(s->placement, strlen(s->placement), h);
  if (s->value) h = hash_mix(h, s->value->id);
  h = hash_mix(h, s->n);
  for (uint32_t i = 0; i < s->n; i++) h = hash_mix(h, s->fields[i]->id);
  return s->ret ? hash_mix(h, s->ret->id) : h;
}

static bool same_word(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool sinfo_same(const SInfo *a, const SInfo *b) {
  if (a->kind != b->kind || !dtype_eq(a->dtype, b->dtype) || a->ndim != b->ndim ||
      !a->dims != !b->dims || a->shape_var != b->shape_var || a->value != b->value ||
      a->n != b->n || a->ret != b->ret || a->opaque != b->opaque || a->pure != b->pure)
    return false;
  if (!same_word(a->vdevice, b->vdevice) || !same_word(a->mesh, b->mesh) ||
      !same_word(a->placement, b->placement))
    return false;
  if (a->dims)
    for (int32_t i = 0; i < a->ndim; i++)
      if (a->dims[i] != b->dims[i]) return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (a->fields[i] != b->fields[i]) return false;
  return true;
}

static void measure_part(SInfo *s, const SInfo *part) {
  if (part->depth >= s->depth) s->depth = part->depth + 1;
  s->size = part->size > UINT32_MAX - s->size ? UINT32_MAX : s->size + part->size;
}

static void measure(SInfo *s) {
  s->depth = 0;
  s->size = 1;
  for (uint32_t i = 0; i < s->n; i++) measure_part(s, s->fields[i]);
  if (s->ret) measure_part(s, s->ret);
}

static const SInfo *sinfo_intern(Context *c, const SInfo *s) {
  struct SInfoPool *p = c->sinfos;
  uint64_t h = sinfo_hash(s);
  SInfoEntry *chain = map_get(&p->by_hash, h);
  for (SInfoEntry *e = chain; e; e = e->next)
    if (sinfo_same(&e->s, s)) return &e->s;
  SInfoEntry *e = ARENA_NEW(p->arena, SInfoEntry);
  e->s = *s;
  e->s.id = p->n++;
  measure(&e->s);
  if (s->dims) e->s.dims = arena_dup(p->arena, s->dims, (size_t)s->ndim * sizeof *s->dims);
  if (s->n) e->s.fields = arena_dup(p->arena, s->fields, s->n * sizeof *s->fields);
  if (s->vdevice) e->s.vdevice = strpool_intern(c->strings, s->vdevice, strlen(s->vdevice));
  if (s->mesh) e->s.mesh = strpool_intern(c->strings, s->mesh, strlen(s->mesh));
  if (s->placement) e->s.placement = strpool_intern(c->strings, s->placement, strlen(s->placement));
  e->next = chain;
  map_set(&p->by_hash, h, e);
  return &e->s;
}

/* A non-NULL array of no dims. */
static const Expr *const no_dims[1] = {NULL};

static const SInfo *sinfo_simple(Context *c, SInfoKind k) {
  return sinfo_intern(c, &(SInfo){.kind = k});
}

const SInfo *sinfo_bad(Context *c) {
  return sinfo_simple(c, SINFO_BAD);
}
const SInfo *sinfo_object(Context *c) {
  return sinfo_simple(c, SINFO_OBJECT);
}
const SInfo *sinfo_string(Context *c) {
  return sinfo_simple(c, SINFO_STRING);
}

const SInfo *sinfo_prim(Context *c, DType d) {
  return sinfo_intern(c, &(SInfo){.kind = SINFO_PRIM, .dtype = d});
}

const SInfo *sinfo_prim_value(Context *c, const Expr *value) {
  return sinfo_intern(c, &(SInfo){.kind = SINFO_PRIM, .dtype = value->dtype, .value = value});
}

const SInfo *sinfo_shape(Context *c, const Expr *const *values, uint32_t n) {
  return sinfo_intern(
      c, &(SInfo){.kind = SINFO_SHAPE, .ndim = (int32_t)n, .dims = n ? values : no_dims});
}

const SInfo *sinfo_shape_ndim(Context *c, int32_t ndim) {
  return sinfo_intern(c, &(SInfo){.kind = SINFO_SHAPE, .ndim = ndim < 0 ? -1 : ndim});
}

const SInfo *sinfo_tensor(Context *c, const Expr *const *dims, uint32_t n, DType d) {
  return sinfo_intern(
      c,
      &(SInfo){.kind = SINFO_TENSOR, .dtype = d, .ndim = (int32_t)n, .dims = n ? dims : no_dims});
}

const SInfo *sinfo_tensor_ndim(Context *c, int32_t ndim, DType d) {
  if (ndim == 0) return sinfo_tensor(c, no_dims, 0, d); /* rank 0 has just one shape */
  return sinfo_intern(c, &(SInfo){.kind = SINFO_TENSOR, .dtype = d, .ndim = ndim < 0 ? -1 : ndim});
}

const SInfo *sinfo_tensor_var(Context *c, struct Node *shape_var, int32_t ndim, DType d) {
  return sinfo_intern(c, &(SInfo){.kind = SINFO_TENSOR,
                                  .dtype = d,
                                  .ndim = ndim < 0 ? -1 : ndim,
                                  .shape_var = shape_var});
}

const SInfo *sinfo_with_vdevice(Context *c, const SInfo *s, const char *vdevice) {
  if (s->kind != SINFO_TENSOR) return s;
  SInfo t = *s;
  t.vdevice = vdevice;
  return sinfo_intern(c, &t);
}

const SInfo *sinfo_with_mesh(Context *c, const SInfo *s, const char *mesh, const char *placement) {
  if (s->kind != SINFO_TENSOR) return s;
  SInfo t = *s;
  t.mesh = mesh;
  t.placement = placement;
  return sinfo_intern(c, &t);
}

const SInfo *sinfo_tuple(Context *c, const SInfo *const *fields, uint32_t n) {
  return sinfo_intern(c, &(SInfo){.kind = SINFO_TUPLE, .n = n, .fields = fields});
}

const SInfo *sinfo_callable(Context *c, const SInfo *const *params, uint32_t n, const SInfo *ret,
                            bool pure) {
  return sinfo_intern(
      c, &(SInfo){.kind = SINFO_CALLABLE, .n = n, .fields = params, .ret = ret, .pure = pure});
}

const SInfo *sinfo_callable_opaque(Context *c, const SInfo *ret, bool pure) {
  return sinfo_intern(c,
                      &(SInfo){.kind = SINFO_CALLABLE, .ret = ret, .opaque = true, .pure = pure});
}

/* ---- comparison ---- */

static const char *kind_words(SInfoKind k) {
  switch (k) {
  case SINFO_BAD: return "nothing valid";
  case SINFO_OBJECT: return "any object";
  case SINFO_PRIM: return "a prim value";
  case SINFO_SHAPE: return "a shape";
  case SINFO_TENSOR: return "a tensor";
  case SINFO_TUPLE: return "a tuple";
  case SINFO_CALLABLE: return "a function";
  case SINFO_STRING: return "a string";
  }
  bug("struct info kind %d", (int)k);
}

static SInfoCheck worse(SInfoCheck a, SInfoCheck b) {
  return a > b ? a : b;
}

static SInfoCheck check_dims(Context *c, const Facts *f, const SInfo *have, const SInfo *want,
                             SInfoWhy *why) {
  if (want->ndim < 0) return SINFO_SUB;
  if (have->ndim < 0) return SINFO_MAYBE;
  if (have->ndim != want->ndim) {
    if (why) text_printf(&why->words, "it has %d dims but %d are expected", have->ndim, want->ndim);
    return SINFO_FAIL;
  }
  if (want->shape_var) return have->shape_var == want->shape_var ? SINFO_SUB : SINFO_MAYBE;
  if (!want->dims) return SINFO_SUB;
  if (!have->dims) return SINFO_MAYBE;
  SInfoCheck r = SINFO_SUB;
  for (int32_t i = 0; i < have->ndim; i++) {
    if (have->dims[i] == want->dims[i]) continue;
    switch (prove_eq(c, f, expr_dim(c, have->dims[i]), expr_dim(c, want->dims[i]))) {
    case PROOF_YES: break;
    case PROOF_UNKNOWN: r = SINFO_MAYBE; break;
    case PROOF_NO:
      if (why) {
        why->have = have->dims[i];
        why->want = want->dims[i];
        text_printf(&why->words, "dim %d is ", i);
        shape_dim_print(&why->words, have->dims[i]);
        text_puts(&why->words, " but ");
        shape_dim_print(&why->words, want->dims[i]);
        text_puts(&why->words, " is expected");
      }
      return SINFO_FAIL;
    }
  }
  return r;
}

static SInfoCheck check_dtype(DType have, DType want, SInfoWhy *why) {
  if (!dtype_known(want) || dtype_eq(have, want)) return SINFO_SUB;
  if (!dtype_known(have)) return SINFO_MAYBE;
  if (why) {
    text_printf(&why->words, "its dtype is %s", dtype_name(have));
    text_printf(&why->words, " but %s is expected", dtype_name(want));
  }
  return SINFO_FAIL;
}

static SInfoCheck check_fields(Context *c, const Facts *f, const SInfo *have, const SInfo *want,
                               SInfoWhy *why, const char *word, bool contra) {
  if (have->n != want->n) {
    if (why) text_printf(&why->words, "it has %u %ss but %u are expected", have->n, word, want->n);
    return SINFO_FAIL;
  }
  SInfoCheck r = SINFO_SUB;
  for (uint32_t i = 0; i < have->n && r != SINFO_FAIL; i++) {
    const SInfo *h = have->fields[i], *w = want->fields[i];
    SInfoCheck k = contra ? sinfo_check(c, f, w, h, NULL) : sinfo_check(c, f, h, w, NULL);
    r = worse(r, k);
    if (k == SINFO_FAIL && why) {
      text_printf(&why->words, "of %s %u: ", word, i);
      (void)(contra ? sinfo_check(c, f, w, h, why) : sinfo_check(c, f, h, w, why));
    }
  }
  return r;
}

SInfoCheck sinfo_check(Context *c, const Facts *f, const SInfo *have, const SInfo *want,
                       SInfoWhy *why) {
  if (have == want || have->kind == SINFO_BAD || want->kind == SINFO_BAD ||
      want->kind == SINFO_OBJECT)
    return SINFO_SUB;
  if (have->kind == SINFO_OBJECT) return SINFO_MAYBE;
  if (have->kind != want->kind) {
    if (why)
      text_printf(&why->words, "it is %s but %s is expected", kind_words(have->kind),
                  kind_words(want->kind));
    return SINFO_FAIL;
  }
  SInfoCheck r;
  switch (have->kind) {
  case SINFO_BAD:
  case SINFO_OBJECT:
  case SINFO_STRING: return SINFO_SUB;
  case SINFO_PRIM:
    r = check_dtype(have->dtype, want->dtype, why);
    if (r == SINFO_FAIL || !want->value || have->value == want->value) return r;
    if (!have->value) return SINFO_MAYBE;
    if (dtype_is_float(have->dtype)) return SINFO_MAYBE;
    switch (prove_eq(c, f, expr_dim(c, have->value), expr_dim(c, want->value))) {
    case PROOF_YES: return r;
    case PROOF_UNKNOWN: return SINFO_MAYBE;
    case PROOF_NO: break;
    }
    if (why) {
      why->have = have->value;
      why->want = want->value;
      text_puts(&why->words, "its value is ");
      shape_dim_print(&why->words, have->value);
      text_puts(&why->words, " but ");
      shape_dim_print(&why->words, want->value);
      text_puts(&why->words, " is expected");
    }
    return SINFO_FAIL;
  case SINFO_SHAPE: return check_dims(c, f, have, want, why);
  case SINFO_TENSOR:
    r = check_dtype(have->dtype, want->dtype, why);
    if (r == SINFO_FAIL) return r;
    r = worse(r, check_dims(c, f, have, want, why));
    if (r == SINFO_FAIL || !want->vdevice) return r;
    if (!have->vdevice) return SINFO_MAYBE;
    if (strcmp(have->vdevice, want->vdevice) == 0) return r;
    if (why)
      text_printf(&why->words, "it lives on '%s' but '%s' is expected", have->vdevice,
                  want->vdevice);
    return SINFO_FAIL;
  case SINFO_TUPLE: return check_fields(c, f, have, want, why, "field", false);
  case SINFO_CALLABLE:
    if (want->pure && !have->pure) {
      if (why) text_puts(&why->words, "it may have side effects but a pure function is expected");
      return SINFO_FAIL;
    }
    r = SINFO_SUB;
    if (!want->opaque)
      r = have->opaque ? SINFO_MAYBE : check_fields(c, f, have, want, why, "parameter", true);
    if (r == SINFO_FAIL || !want->ret) return r;
    return have->ret ? worse(r, sinfo_check(c, f, have->ret, want->ret, why)) : SINFO_MAYBE;
  }
  bug("struct info kind %d", (int)have->kind);
}

static bool dims_equal(Context *c, const SInfo *a, const SInfo *b) {
  if (a->ndim != b->ndim || !a->dims != !b->dims || a->shape_var != b->shape_var) return false;
  if (!a->dims) return true;
  for (int32_t i = 0; i < a->ndim; i++)
    if (!expr_proved_eq(c, a->dims[i], b->dims[i])) return false;
  return true;
}

bool sinfo_equal(Context *c, const SInfo *a, const SInfo *b) {
  if (a == b) return true;
  if (a->kind != b->kind || !dtype_eq(a->dtype, b->dtype) || !dims_equal(c, a, b)) return false;
  if (!a->vdevice != !b->vdevice || (a->vdevice && strcmp(a->vdevice, b->vdevice) != 0))
    return false;
  if (a->value != b->value) {
    if (!a->value || !b->value || dtype_is_float(a->dtype)) return false;
    if (!expr_proved_eq(c, a->value, b->value)) return false;
  }
  if (a->n != b->n || a->opaque != b->opaque || a->pure != b->pure || !a->ret != !b->ret)
    return false;
  for (uint32_t i = 0; i < a->n; i++)
    if (!sinfo_equal(c, a->fields[i], b->fields[i])) return false;
  return !a->ret || sinfo_equal(c, a->ret, b->ret);
}

const SInfo *sinfo_lub(Context *c, const SInfo *a, const SInfo *b) {
  if (a == b) return a;
  if (a->kind == SINFO_BAD || b->kind == SINFO_BAD) return sinfo_bad(c);
  if (a->kind != b->kind) return sinfo_object(c);
  switch (a->kind) {
  case SINFO_BAD:
  case SINFO_OBJECT:
  case SINFO_STRING: return a;
  case SINFO_PRIM:
    if (!dtype_eq(a->dtype, b->dtype)) return sinfo_object(c);
    return sinfo_equal(c, a, b) ? a : sinfo_prim(c, a->dtype);
  case SINFO_SHAPE:
    if (dims_equal(c, a, b)) return a;
    return sinfo_shape_ndim(c, a->ndim == b->ndim ? a->ndim : -1);
  case SINFO_TENSOR: {
    DType d = dtype_eq(a->dtype, b->dtype) ? a->dtype : DT_UNKNOWN;
    const char *vd =
        a->vdevice && b->vdevice && strcmp(a->vdevice, b->vdevice) == 0 ? a->vdevice : NULL;
    SInfo t = *a;
    if (!dims_equal(c, a, b)) {
      t.ndim = a->ndim == b->ndim ? a->ndim : -1;
      t.dims = NULL;
      t.shape_var = NULL;
    }
    t.dtype = d;
    t.vdevice = vd;
    return sinfo_intern(c, &t);
  }
  case SINFO_TUPLE: {
    if (a->n != b->n) return sinfo_object(c);
    const SInfo **f = ARENA_ARRAY(c->arena, const SInfo *, a->n);
    for (uint32_t i = 0; i < a->n; i++) f[i] = sinfo_lub(c, a->fields[i], b->fields[i]);
    return sinfo_tuple(c, f, a->n);
  }
  case SINFO_CALLABLE: {
    const SInfo *ret =
        a->ret && b->ret ? sinfo_lub(c, a->ret, b->ret) : (const SInfo *)sinfo_object(c);
    bool pure = a->pure && b->pure, same = a->n == b->n && !a->opaque && !b->opaque;
    for (uint32_t i = 0; same && i < a->n; i++) same = sinfo_equal(c, a->fields[i], b->fields[i]);
    return same ? sinfo_callable(c, a->fields, a->n, ret, pure)
                : sinfo_callable_opaque(c, ret, pure);
  }
  }
  bug("struct info kind %d", (int)a->kind);
}

/* ---- symbolic variables ---- */

static void unify_expr(Map *bindings, const Expr *param, const Expr *arg) {
  if (param->kind != EXPR_VAR || !map_hasp(bindings, param->var)) return;
  if (map_getp(bindings, param->var)) return;
  map_setp(bindings, param->var, (void *)(uintptr_t)arg);
}

void sinfo_unify(Context *c, Map *bindings, const SInfo *param, const SInfo *arg) {
  if (param->kind != arg->kind) return;
  switch (param->kind) {
  case SINFO_BAD:
  case SINFO_OBJECT:
  case SINFO_STRING:
  case SINFO_CALLABLE: return; /* a callable's variables are its own */
  case SINFO_PRIM:
    if (param->value && arg->value) unify_expr(bindings, param->value, arg->value);
    return;
  case SINFO_SHAPE:
  case SINFO_TENSOR:
    if (!param->dims || !arg->dims || param->ndim != arg->ndim) return;
    for (int32_t i = 0; i < param->ndim; i++) unify_expr(bindings, param->dims[i], arg->dims[i]);
    return;
  case SINFO_TUPLE:
    if (param->n != arg->n) return;
    for (uint32_t i = 0; i < param->n; i++)
      sinfo_unify(c, bindings, param->fields[i], arg->fields[i]);
    return;
  }
}

static const Expr *subst_expr(Context *c, const Map *vars, const Expr *e) {
  const Expr *r = expr_subst(&(Subst){.c = c, .vars = vars}, e);
  return r == e ? e : expr_simplify(c, r);
}

const SInfo *sinfo_subst(Context *c, const Map *vars, const SInfo *s) {
  SInfo t = *s;
  bool changed = false;
  if (s->dims && s->ndim) {
    const Expr **d = ARENA_ARRAY(c->arena, const Expr *, s->ndim);
    for (int32_t i = 0; i < s->ndim; i++) {
      d[i] = subst_expr(c, vars, s->dims[i]);
      changed |= d[i] != s->dims[i];
    }
    t.dims = d;
  }
  if (s->value) {
    t.value = subst_expr(c, vars, s->value);
    changed |= t.value != s->value;
  }
  if (s->n) {
    const SInfo **f = ARENA_ARRAY(c->arena, const SInfo *, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
      f[i] = sinfo_subst(c, vars, s->fields[i]);
      changed |= f[i] != s->fields[i];
    }
    t.fields = f;
  }
  if (s->ret) {
    t.ret = sinfo_subst(c, vars, s->ret);
    changed |= t.ret != s->ret;
  }
  return changed ? sinfo_intern(c, &t) : s;
}

/* Does e mention a variable that scope lacks? */
static bool out_of_scope(const Expr *e, void *scope) {
  return e->kind != EXPR_VAR || map_hasp(scope, e->var);
}

const SInfo *sinfo_erase(Context *c, const Map *scope, const SInfo *s) {
  SInfo t = *s;
  bool changed = false;
  Map *sc = (Map *)(uintptr_t)scope; /* only read; expr_walk's context is not const */
  if (s->dims)
    for (int32_t i = 0; i < s->ndim && !changed; i++)
      changed = !expr_walk(s->dims[i], out_of_scope, sc);
  if (s->shape_var && !map_hasp(scope, s->shape_var)) changed = true;
  if (changed) {
    t.dims = NULL;
    t.shape_var = NULL;
  }
  if (s->value && !expr_walk(s->value, out_of_scope, sc)) {
    t.value = NULL;
    changed = true;
  }
  if (s->kind == SINFO_TUPLE && s->n) {
    const SInfo **f = ARENA_ARRAY(c->arena, const SInfo *, s->n);
    for (uint32_t i = 0; i < s->n; i++) {
      f[i] = sinfo_erase(c, scope, s->fields[i]);
      changed |= f[i] != s->fields[i];
    }
    t.fields = f;
  }
  return changed ? sinfo_intern(c, &t) : s;
}

typedef struct {
  Arena *arena;
  VarVec *out;
  Map seen;
  bool callables;
} VarCollector;

static bool collect_var(const Expr *e, void *ctx) {
  VarCollector *v = ctx;
  if (e->kind != EXPR_VAR || map_hasp(&v->seen, e->var)) return true;
  map_setp(&v->seen, e->var, e->var);
  vec_push(v->arena, v->out, e->var);
  return true;
}

static void collect_vars(VarCollector *v, const SInfo *s) {
  if (s->dims)
    for (int32_t i = 0; i < s->ndim; i++) expr_walk(s->dims[i], collect_var, v);
  if (s->value) expr_walk(s->value, collect_var, v);
  if (s->kind == SINFO_TUPLE || (s->kind == SINFO_CALLABLE && v->callables))
    for (uint32_t i = 0; i < s->n; i++) collect_vars(v, s->fields[i]);
  if (s->ret && v->callables) collect_vars(v, s->ret);
}

static void add_vars(Arena *a, const SInfo *s, VarVec *out, bool callables) {
  VarCollector v = {.arena = a, .out = out, .callables = callables};
  map_init(&v.seen, a);
  for (uint32_t i = 0; i < out->n; i++) map_setp(&v.seen, out->at[i], out->at[i]);
  collect_vars(&v, s);
}

void sinfo_vars(Arena *a, const SInfo *s, VarVec *out) {
  add_vars(a, s, out, false);
}

void sinfo_all_vars(Arena *a, const SInfo *s, VarVec *out) {
  add_vars(a, s, out, true);
}
