/* Index arithmetic: Dims become 64-bit values and addresses, hoisted as far out as they can.
 *
 * A Dim is split by level: the terms whose variables all lie further out are computed there (in
 * front of the loop or branch, see cg.h), the rest here. Products with a loop variable that
 * addressing modes can't do (factor other than 1, 2, 4, 8 bytes) become derived induction
 * variables, kept by addition. Addresses that are a small multiple of a symbolic pitch apart share
 * a pointer. This takes the place of LICM, CSE and strength reduction.
 */
#include "codegen/llvm/cg.h"

void fn_bind(Fn *fn, const Var *v, Binding b) {
  Binding *p = ARENA_NEW(fn->arena, Binding);
  *p = b;
  /* Bound anew (the body of an unrolled loop again): what was computed from the old value goes.
   * Dims and addresses aren't computed from vectors and floats, but floats are broadcast. */
  Binding *old = map_getp(&fn->vars, v);
  if (old && !old->def) {
    bool in_dims = v->dtype.lanes == 1 && !dtype_is_float(v->dtype);
    for (uint32_t i = old->level; in_dims && i < fn->scopes.n; i++) {
      for (uint32_t k = 0; k < KNOWN_KINDS; k++) map_init(&fn->scopes.at[i]->known[k], fn->arena);
      fn->scopes.at[i]->near.n = 0;
    }
    if (dtype_is_float(v->dtype) && v->dtype.lanes == 1)
      for (uint32_t i = old->level; i < fn->scopes.n; i++)
        map_init(&fn->scopes.at[i]->known[KNOWN_SPLAT], fn->arena);
    fn->loads = NULL;
    if (dtype_is_int(v->dtype)) fn->kept = NULL; /* an index may hold it */
  }
  map_setp(&fn->vars, v, p);
}

/* A value of the function around an outlined loop: passed through its context. */
static LLVMValueRef capture(Fn *fn, LLVMValueRef outer) {
  if (LLVMIsConstant(outer)) return outer;
  Cg *cg = fn->cg;
  uint32_t slot = fn->nslots;
  vec_each(Captured, k, &fn->captured) if (k->value == outer) slot = k->slot;
  if (slot == fn->nslots) {
    Captured k = {outer, slot};
    vec_push(fn->arena, &fn->captured, k);
    unsigned long long bytes =
        LLVMStoreSizeOfType(LLVMGetModuleDataLayout(cg->mod), LLVMTypeOf(outer));
    fn->nslots += (uint32_t)((bytes + 7) / 8);
  }
  LLVMBasicBlockRef back = LLVMGetInsertBlock(fn->b);
  bool hoisting = fn->level + 1 < fn->scopes.n;
  LLVMPositionBuilderBefore(fn->b, fn->entry_end);
  LLVMValueRef off = cg_i64(cg, 8 * (int64_t)slot);
  LLVMValueRef p = LLVMBuildInBoundsGEP2(fn->b, cg->i8, fn->ctx, &off, 1, "");
  LLVMValueRef v = LLVMBuildLoad2(fn->b, LLVMTypeOf(outer), p, "");
  LLVMSetAlignment(v, 8);
  if (hoisting)
    LLVMPositionBuilderBefore(fn->b, fn->scopes.at[fn->level + 1]->anchor);
  else
    LLVMPositionBuilderAtEnd(fn->b, back);
  debug_again(fn);
  return v;
}

static uint32_t go_to_level(Fn *fn, uint32_t to);

/* Loads a buffer's address from the list, in front of the outermost loop that needs it. */
static void load_listed(Fn *fn, Binding *b) {
  LLVMValueRef off = cg_i64(fn->cg, b->listed - 1);
  uint32_t from = go_to_level(fn, 0);
  LLVMValueRef p = LLVMBuildInBoundsGEP2(fn->b, fn->cg->ptr, fn->list, &off, 1, "");
  b->val = LLVMBuildLoad2(fn->b, fn->cg->ptr, p, "");
  go_to_level(fn, from);
}

Binding *fn_lookup(Fn *fn, const Var *v) {
  Binding *b = map_getp(&fn->vars, v);
  if (b && b->listed && !b->val) load_listed(fn, b);
  if (b) return b;
  if (fn->parent) {
    if (fn->parent->list && !fn->list) fn->list = capture(fn, fn->parent->list);
    Binding *outer = map_getp(&fn->parent->vars, v);
    if (outer && outer->listed) {
      fn_bind(fn, v, (Binding){.level = 0, .listed = outer->listed});
      return fn_lookup(fn, v);
    }
    outer = fn_lookup(fn->parent, v);
    if (outer) {
      Binding in = {.def = outer->def};
      if (!outer->def) {
        if (outer->val) in.val = capture(fn, outer->val);
        if (outer->idx) in.idx = outer->idx == outer->val ? in.val : capture(fn, outer->idx);
      }
      fn_bind(fn, v, in);
      return map_getp(&fn->vars, v);
    }
    return NULL;
  }
  if (!fn->cg->failed)
    cg_error(fn->cg, fn->span, "variable '%s' has no value in '%s'", v->name,
             fn->f ? fn->f->name : "the function");
  fn->cg->failed = true;
  return NULL;
}

Scope *fn_scope_push(Fn *fn, LLVMValueRef anchor) {
  Scope *s = ARENA_NEW(fn->arena, Scope);
  s->anchor = anchor;
  for (uint32_t k = 0; k < KNOWN_KINDS; k++) map_init(&s->known[k], fn->arena);
  vec_push(fn->arena, &fn->scopes, s);
  fn->level = fn->scopes.n - 1;
  return s;
}

void fn_scope_pop(Fn *fn) {
  (void)vec_pop(&fn->scopes);
  fn->level = fn->scopes.n - 1;
}

/* ---- Dims ---- */

static bool has_def(Fn *fn, const Dim *d) {
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t k = 0; k < d->terms[i].n; k++) {
      const DimAtom *a = d->terms[i].atoms[k];
      if (a->kind == ATOM_VAR) {
        Binding *b = fn_lookup(fn, a->var);
        if (b && b->def) return true;
      } else if (a->kind != ATOM_OPAQUE && (has_def(fn, a->a) || has_def(fn, a->b))) {
        return true;
      }
    }
  return false;
}

static const Dim *resolve_atom(Fn *fn, const DimAtom *a) {
  Context *c = fn->c;
  if (a->kind == ATOM_OPAQUE) return expr_dim(c, a->expr);
  if (a->kind == ATOM_VAR) {
    Binding *b = fn_lookup(fn, a->var);
    return b && b->def ? b->def : dim_var(c, a->var);
  }
  const Dim *x = dim_resolve(fn, a->a), *y = dim_resolve(fn, a->b);
  switch (a->kind) {
  case ATOM_FLOORDIV: return dim_floordiv(c, x, y);
  case ATOM_FLOORMOD: return dim_floormod(c, x, y);
  case ATOM_MIN: return dim_min(c, x, y);
  default: return dim_max(c, x, y);
  }
}

const Dim *dim_resolve(Fn *fn, const Dim *d) {
  if (!d->n || !has_def(fn, d)) return d;
  const Dim *r = dim_const(fn->c, d->konst);
  for (uint32_t i = 0; i < d->n; i++) {
    const DimTerm *t = &d->terms[i];
    const Dim *one = dim_const(fn->c, t->coef);
    for (uint32_t k = 0; k < t->n; k++) one = dim_mul(fn->c, one, resolve_atom(fn, t->atoms[k]));
    r = dim_add(fn->c, r, one);
  }
  return r;
}

/* Where what needs `level` is computed: there, or in the innermost of the branches with loops that
 * follow it without a loop between. */
static uint32_t home_level(const Fn *fn, uint32_t level) {
  uint32_t home = level;
  for (uint32_t i = level + 1; i <= fn->level && !fn->scopes.at[i]->header; i++)
    if (fn->scopes.at[i]->keeps) home = i;
  return home;
}

/* What the scopes from `level` to `home` remember. */
static LLVMValueRef recall(const Fn *fn, Known kind, uint64_t key, uint32_t level, uint32_t home) {
  LLVMValueRef v = NULL;
  for (uint32_t i = level; i <= home && !v; i++) v = map_get(&fn->scopes.at[i]->known[kind], key);
  return v;
}

static const Dim *term_dim(Fn *fn, const DimTerm *t) {
  return dim_monomial(fn->c, t->coef, t->atoms, t->n);
}

/* The innermost level that d needs. False when it can't be moved or remembered (it has an opaque
 * part, which may read memory). */
static bool dim_level(Fn *fn, const Dim *d, uint32_t *level);

static bool atom_level(Fn *fn, const DimAtom *a, uint32_t *level) {
  if (a->kind == ATOM_VAR) {
    Binding *b = fn_lookup(fn, a->var);
    if (b && b->level > *level) *level = b->level;
    return true;
  }
  if (a->kind == ATOM_OPAQUE) {
    *level = fn->level;
    return false;
  }
  bool x = dim_level(fn, a->a, level);
  return dim_level(fn, a->b, level) && x;
}

static bool term_level(Fn *fn, const DimTerm *t, uint32_t *level) {
  bool fixed = true;
  for (uint32_t k = 0; k < t->n; k++) fixed = atom_level(fn, t->atoms[k], level) && fixed;
  return fixed;
}

static bool dim_level(Fn *fn, const Dim *d, uint32_t *level) {
  bool fixed = true;
  for (uint32_t i = 0; i < d->n; i++) fixed = term_level(fn, &d->terms[i], level) && fixed;
  return fixed;
}

/* Whether the term's variables all live further out than this level. */
static bool is_outer(Fn *fn, const DimTerm *t) {
  uint32_t level = 0;
  return term_level(fn, t, &level) && home_level(fn, level) < fn->level;
}

/* Moves the builder to level `to`; returns the level it was at. */
static uint32_t go_to_level(Fn *fn, uint32_t to) {
  uint32_t from = fn->level;
  if (to == from) return from;
  uint32_t top = fn->scopes.n - 1;
  if (from == top) fn->block = LLVMGetInsertBlock(fn->b);
  fn->level = to;
  if (to == top)
    LLVMPositionBuilderAtEnd(fn->b, fn->block);
  else
    LLVMPositionBuilderBefore(fn->b, fn->scopes.at[to + 1]->anchor);
  debug_again(fn);
  return from;
}

static LLVMValueRef dim_emit(Fn *fn, const Dim *d);

static LLVMValueRef var_index(Fn *fn, const Var *v) {
  Binding *b = fn_lookup(fn, v);
  if (!b) return LLVMConstNull(fn->cg->i64);
  if (b->def) return dim_emit(fn, b->def);
  if (b->idx) return b->idx;
  if (b->val && LLVMTypeOf(b->val) == fn->cg->i64) return b->val;
  bug("variable %s has no index value", v->name);
}

static LLVMValueRef atom_value(Fn *fn, const DimAtom *a) {
  LLVMBuilderRef b = fn->b;
  switch (a->kind) {
  case ATOM_VAR: return var_index(fn, a->var);
  case ATOM_OPAQUE: {
    LLVMValueRef v = fn_expr(fn, a->expr);
    if (LLVMTypeOf(v) == fn->cg->i64) return v;
    return dtype_is_sint(a->expr->dtype) ? LLVMBuildSExt(b, v, fn->cg->i64, "")
                                         : LLVMBuildZExt(b, v, fn->cg->i64, "");
  }
  case ATOM_FLOORDIV:
  case ATOM_FLOORMOD: {
    LLVMValueRef x = dim_emit(fn, a->a), y = dim_emit(fn, a->b);
    return cg_div(b, x, y, true, true, a->kind == ATOM_FLOORMOD);
  }
  case ATOM_MIN:
  case ATOM_MAX: {
    LLVMValueRef x = dim_emit(fn, a->a), y = dim_emit(fn, a->b);
    LLVMIntPredicate p = a->kind == ATOM_MIN ? LLVMIntSLT : LLVMIntSGT;
    return cg_select(b, LLVMBuildICmp(b, p, x, y, ""), x, y);
  }
  }
  return NULL;
}

/* A value that is `start` at first and moves with the loop at this level, coef at a time. */
static LLVMValueRef moving_value(Fn *fn, Scope *s, const Dim *coef, LLVMValueRef start) {
  uint32_t level = fn->level;
  go_to_level(fn, level - 1);
  LLVMValueRef step = dim_emit(fn, dim_scale(fn->c, coef, s->step));
  go_to_level(fn, level);
  LLVMBasicBlockRef here = LLVMGetInsertBlock(fn->b);
  LLVMPositionBuilderBefore(fn->b, LLVMGetFirstInstruction(s->header));
  LLVMValueRef phi = LLVMBuildPhi(fn->b, LLVMTypeOf(start), "");
  LLVMAddIncoming(phi, &start, &s->preheader, 1);
  if (level + 1 < fn->scopes.n)
    LLVMPositionBuilderBefore(fn->b, fn->scopes.at[level + 1]->anchor);
  else
    LLVMPositionBuilderAtEnd(fn->b, here);
  debug_again(fn);
  DerivedIv d = {LLVMTypeOf(start) == fn->cg->ptr ? NULL : coef, phi, step};
  vec_push(fn->arena, &s->derived, d);
  return phi;
}

/* coef * variable of the loop at this level, as an induction variable of its own. */
static LLVMValueRef derived_iv(Fn *fn, Scope *s, const Dim *coef) {
  vec_each(DerivedIv, d, &s->derived) if (d->coef == coef) return d->phi;
  uint32_t level = fn->level;
  go_to_level(fn, level - 1);
  LLVMValueRef start = dim_emit(fn, dim_mul(fn->c, coef, s->min));
  go_to_level(fn, level);
  return moving_value(fn, s, coef, start);
}

/* If the term is (product of outer things) * (variable of the loop at this level): that product. */
static const Dim *loop_coef(Fn *fn, const DimTerm *t) {
  Scope *s = fn->scopes.at[fn->level];
  if (!s->var) return NULL;
  const Dim *coef = dim_const(fn->c, t->coef);
  bool found = false;
  for (uint32_t k = 0; k < t->n; k++) {
    const DimAtom *a = t->atoms[k];
    if (a->kind == ATOM_VAR && a->var == s->var && !found) {
      found = true;
      continue;
    }
    uint32_t level = 0;
    if (!atom_level(fn, a, &level) || home_level(fn, level) >= fn->level) return NULL;
    coef = dim_mul(fn->c, coef, dim_monomial(fn->c, 1, &a, 1));
  }
  return found ? coef : NULL;
}

/* Those terms of d that need this level, but for the multiples of the loop's variable: *coef is the
 * sum of their factors. */
static const Dim *inner_part(Fn *fn, const Dim *d, const Dim **coef) {
  const Dim *rest = dim_const(fn->c, 0);
  *coef = rest;
  for (uint32_t i = 0; i < d->n; i++) {
    if (is_outer(fn, &d->terms[i])) continue;
    const Dim *one = loop_coef(fn, &d->terms[i]);
    if (one)
      *coef = dim_add(fn->c, *coef, one);
    else
      rest = dim_add(fn->c, rest, term_dim(fn, &d->terms[i]));
  }
  return rest;
}

static LLVMValueRef term_value(Fn *fn, const DimTerm *t) {
  /* The factors from further out first, as one hoisted product. */
  const Dim *low = dim_const(fn->c, t->coef);
  LLVMValueRef v = NULL;
  for (uint32_t i = 0; i < t->n; i++) {
    uint32_t level = 0;
    if (atom_level(fn, t->atoms[i], &level) && home_level(fn, level) < fn->level) {
      low = dim_mul(fn->c, low, dim_monomial(fn->c, 1, &t->atoms[i], 1));
    } else {
      LLVMValueRef x = atom_value(fn, t->atoms[i]);
      v = v ? LLVMBuildMul(fn->b, v, x, "") : x;
    }
  }
  if (!v) { /* everything at one level */
    v = cg_i64(fn->cg, t->coef);
    for (uint32_t i = 0; i < t->n; i++) v = cg_mul(fn->b, v, atom_value(fn, t->atoms[i]));
    return v;
  }
  return cg_mul(fn->b, v, dim_emit(fn, low));
}

/* d's terms that live further out than this level, without its constant. */
static const Dim *outer_part(Fn *fn, const Dim *d) {
  const Dim *low = dim_const(fn->c, 0);
  for (uint32_t i = 0; i < d->n; i++)
    if (is_outer(fn, &d->terms[i])) low = dim_add(fn->c, low, term_dim(fn, &d->terms[i]));
  return low;
}

/* acc (may be NULL) + d, whose terms are of this level. */
static LLVMValueRef add_terms(Fn *fn, LLVMValueRef acc, const Dim *d) {
  if (d->konst) {
    LLVMValueRef k = cg_i64(fn->cg, d->konst);
    acc = acc ? LLVMBuildAdd(fn->b, acc, k, "") : k;
  }
  for (uint32_t i = 0; i < d->n; i++) {
    LLVMValueRef v = term_value(fn, &d->terms[i]);
    acc = acc ? LLVMBuildAdd(fn->b, acc, v, "") : v;
  }
  return acc;
}

/* Adds to acc (may be NULL) those terms of d that need this level. */
static LLVMValueRef add_inner_terms(Fn *fn, LLVMValueRef acc, const Dim *d) {
  const Dim *coef, *rest = inner_part(fn, d, &coef);
  Scope *s = fn->scopes.at[fn->level];
  int64_t k;
  if (coef->n || coef->konst) {
    LLVMValueRef v = dim_is_const(coef, &k)
                         ? cg_mul(fn->b, var_index(fn, s->var), cg_i64(fn->cg, k))
                         : derived_iv(fn, s, coef);
    acc = acc ? LLVMBuildAdd(fn->b, acc, v, "") : v;
  }
  return add_terms(fn, acc, rest);
}

static LLVMValueRef dim_emit(Fn *fn, const Dim *d) {
  if (!d->n) return cg_i64(fn->cg, d->konst);
  uint32_t level = 0;
  bool fixed = dim_level(fn, d, &level);
  if (level > fn->level) bug("a value is needed before its variables exist");
  uint32_t home = home_level(fn, level);
  LLVMValueRef v = fixed ? recall(fn, KNOWN_DIM, d->id, level, home) : NULL;
  if (v) return v;
  uint32_t from = go_to_level(fn, home);
  const Dim *low = outer_part(fn, d);
  if (low->n) v = dim_emit(fn, low);
  v = add_inner_terms(fn, v, d);
  if (d->konst) v = LLVMBuildAdd(fn->b, v, cg_i64(fn->cg, d->konst), "");
  go_to_level(fn, from);
  if (fixed) map_set(&fn->scopes.at[home]->known[KNOWN_DIM], d->id, v);
  return v;
}

LLVMValueRef dim_value(Fn *fn, const Dim *d) {
  return dim_emit(fn, dim_resolve(fn, d));
}

bool dim_has_opaque(const Dim *d) {
  for (uint32_t i = 0; i < d->n; i++)
    for (uint32_t k = 0; k < d->terms[i].n; k++) {
      const DimAtom *a = d->terms[i].atoms[k];
      if (a->kind == ATOM_OPAQUE) return true;
      if (a->kind != ATOM_VAR && (dim_has_opaque(a->a) || dim_has_opaque(a->b))) return true;
    }
  return false;
}

bool fn_is_index(Fn *fn, const Expr *e) {
  if (!dtype_is_sint(e->dtype) || e->dtype.lanes != 1 || e->dtype.bits < 32) return false;
  switch ((ExprKind)e->kind) {
  case EXPR_INT: return true;
  case EXPR_VAR: {
    Binding *b = fn_lookup(fn, e->var);
    return b && (b->def || b->idx);
  }
  case EXPR_CAST: return fn_is_index(fn, e->arg[0]);
  case EXPR_ADD:
  case EXPR_SUB:
  case EXPR_MUL:
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_MIN:
  case EXPR_MAX: return fn_is_index(fn, e->arg[0]) && fn_is_index(fn, e->arg[1]);
  default: return false;
  }
}

LLVMValueRef fn_index(Fn *fn, const Expr *e) {
  return dim_value(fn, expr_dim(fn->c, e));
}

/* ---- lane masks ---- */

/* Lanes below `count`, made at the level where the builder is. Where instructions take masks as
 * vectors, as vectors with the sign bits set: i1 vectors can't cross blocks there. */
static LLVMValueRef build_mask(Fn *fn, LLVMValueRef count, uint32_t lanes) {
  Cg *cg = fn->cg;
  count = cg_splat(cg, fn->b, LLVMBuildTrunc(fn->b, count, cg->i32, ""), lanes);
  LLVMValueRef m = LLVMBuildICmp(fn->b, LLVMIntULT, cg_iota(cg, cg->i32, lanes), count, "");
  return fn->v->has_mask ? m : LLVMBuildSExt(fn->b, m, cg_vec(cg->i32, lanes), "");
}

LLVMValueRef fn_lane_mask(Fn *fn, const Dim *count, uint32_t lanes) {
  Cg *cg = fn->cg;
  const Dim *most = dim_const(fn->c, lanes), *none = dim_const(fn->c, 0);
  count = dim_resolve(fn, dim_max(fn->c, dim_min(fn->c, count, most), none));
  if (!count->n) {
    LLVMValueRef *at = ARENA_ARRAY(fn->arena, LLVMValueRef, lanes);
    for (uint32_t i = 0; i < lanes; i++) at[i] = LLVMConstInt(cg->i1, i < count->konst, false);
    return lanes > 1 ? LLVMConstVector(at, lanes) : at[0];
  }
  uint32_t level = 0;
  uint64_t key = (uint64_t)lanes << 32 | count->id;
  bool fixed = dim_level(fn, count, &level);
  uint32_t home = home_level(fn, level);
  LLVMValueRef m = fixed ? recall(fn, KNOWN_MASK, key, level, home) : NULL;
  if (!m) {
    uint32_t from = go_to_level(fn, home);
    m = build_mask(fn, dim_emit(fn, count), lanes);
    go_to_level(fn, from);
    if (fixed) map_set(&fn->scopes.at[home]->known[KNOWN_MASK], key, m);
  }
  if (fn->v->has_mask) return m;
  return LLVMBuildICmp(fn->b, LLVMIntSLT, m, LLVMConstNull(LLVMTypeOf(m)), "");
}

/* ---- broadcasts ---- */

/* LLVM moves a broadcast out of no loop that may not run at all. Where several registers of one
 * value are wanted, one is made there and repeated in the loop, so that one is all that is kept. */
LLVMValueRef fn_broadcast(Fn *fn, const Var *v, uint32_t lanes) {
  Cg *cg = fn->cg;
  const Binding *b = fn_lookup(fn, v);
  uint32_t bits = v->dtype.bits, full = bits ? fn->v->vector_bits / bits : 0;
  uint32_t home = b ? home_level(fn, b->level) : fn->level;
  if (!b || !b->val || home == fn->level || full < 2 || lanes % full)
    return cg_splat(cg, fn->b, fn_expr(fn, v->expr), lanes);
  LLVMValueRef one = recall(fn, KNOWN_SPLAT, v->id, b->level, home);
  if (!one) {
    uint32_t from = go_to_level(fn, home);
    one = cg_splat(cg, fn->b, b->val, full);
    go_to_level(fn, from);
    map_set(&fn->scopes.at[home]->known[KNOWN_SPLAT], v->id, one);
  }
  if (lanes == full) return one;
  LLVMValueRef *at = ARENA_ARRAY(fn->arena, LLVMValueRef, lanes);
  for (uint32_t i = 0; i < lanes; i++) at[i] = cg_i32(cg, (int32_t)(i % full));
  return LLVMBuildShuffleVector(fn->b, one, LLVMGetPoison(LLVMTypeOf(one)),
                                LLVMConstVector(at, lanes), "");
}

/* ---- addresses ---- */

static LLVMValueRef move_address(Fn *fn, LLVMValueRef p, int64_t bytes) {
  LLVMValueRef k = cg_i64(fn->cg, bytes);
  return bytes ? LLVMBuildGEP2(fn->b, fn->cg->i8, p, &k, 1, "") : p;
}

static LLVMValueRef address_core(Fn *fn, const Var *data, Binding *base, const Dim *off);

/* Makes n, an address in the loop at this level, a pointer of its own that is moved on: as a base
 * and the loop's variable it takes the two registers of an addressing mode by itself. */
static void keep_pointer(Fn *fn, Scope *s, Near *n, Binding *base) {
  uint32_t level = fn->level;
  if (!n->coef) return;
  const Dim *low = outer_part(fn, n->off);
  go_to_level(fn, level - 1);
  LLVMValueRef start = move_address(fn, address_core(fn, n->data, base, low), low->konst);
  LLVMValueRef first = dim_emit(fn, dim_mul(fn->c, n->coef, s->min));
  start = LLVMBuildGEP2(fn->b, fn->cg->i8, start, &first, 1, "");
  go_to_level(fn, level);
  LLVMValueRef p = moving_value(fn, s, n->coef, start);
  LLVMReplaceAllUsesWith(n->at, p);
  map_set(&s->known[KNOWN_ADDRESS], (uint64_t)n->data->id << 32 | n->off->id, p);
  n->at = p;
  n->coef = NULL;
}

/* The address at data + off by way of another one of this level that is 1, 2, 4 or 8 times a pitch
 * before it, where addressing modes can do that, and which may be such a one itself: sixteen rows
 * of a symbolic pitch take one pointer and the pitch for as long as the loop runs, and seven sums
 * that soon are dead again; general registers are few. NULL: there is none. */
static LLVMValueRef reach(Fn *fn, const Var *data, Binding *base, const Dim *off) {
  Scope *s = fn->scopes.at[fn->level];
  for (uint32_t i = 0; i < s->near.n; i++) {
    Near *n = &s->near.at[i];
    const Dim *far = n->data == data ? dim_sub(fn->c, off, n->off) : NULL;
    bool fits = far && far->n && !far->konst;
    for (uint32_t k = 0; fits && k < far->n; k++) fits = is_outer(fn, &far->terms[k]);
    if (!fits) continue;
    if (!n->pitch) n->pitch = far;
    for (unsigned times = 1; times <= 8; times *= 2) {
      if (dim_scale(fn->c, n->pitch, times) != far) continue;
      keep_pointer(fn, s, n, base);
      LLVMValueRef pitch = dim_emit(fn, n->pitch);
      LLVMTypeRef unit = LLVMIntTypeInContext(fn->cg->lc, 8 * times);
      LLVMValueRef p = LLVMBuildGEP2(fn->b, unit, n->at, &pitch, 1, "");
      Near next = {data, off, NULL, n->pitch, p};
      vec_push(fn->arena, &s->near, next);
      return p;
    }
  }
  return NULL;
}

/* data + off bytes, from its parts. *alone: the multiple of the loop's variable that it is, beside
 * what is further out; or NULL. */
static LLVMValueRef add_up(Fn *fn, const Var *data, Binding *base, const Dim *off,
                           const Dim **alone) {
  Cg *cg = fn->cg;
  const Dim *low = outer_part(fn, off);
  bool is_based = home_level(fn, base->level) < fn->level;
  LLVMValueRef p = base->val;
  if (is_based)
    p = move_address(fn, address_core(fn, data, base, low), low->konst);
  else if (low->n || low->konst) {
    LLVMValueRef o = dim_emit(fn, low);
    p = LLVMBuildGEP2(fn->b, cg->i8, p, &o, 1, "");
  }
  /* Terms of this level: multiples of the loop variable by themselves, as addressing modes want
   * them; the rest as a sum. */
  const Dim *coef, *rest = inner_part(fn, off, &coef);
  int64_t k;
  bool moves = coef->n || coef->konst;
  if (moves) {
    LLVMValueRef o;
    LLVMTypeRef unit = cg->i8;
    Scope *s = fn->scopes.at[fn->level];
    if (dim_is_const(coef, &k) && (k == 1 || k == 2 || k == 4 || k == 8)) {
      o = var_index(fn, s->var);
      unit = LLVMIntTypeInContext(cg->lc, 8 * (unsigned)k);
    } else {
      o = derived_iv(fn, s, coef);
    }
    p = LLVMBuildGEP2(fn->b, unit, p, &o, 1, "");
  }
  LLVMValueRef o = add_terms(fn, NULL, rest);
  *alone = moves && is_based && !o ? coef : NULL;
  return o ? LLVMBuildGEP2(fn->b, cg->i8, p, &o, 1, "") : p;
}

/* data + off bytes without off's constant part. */
static LLVMValueRef address_core(Fn *fn, const Var *data, Binding *base, const Dim *off) {
  if (!off->n) return base->val;
  uint32_t level = base->level;
  bool fixed = dim_level(fn, off, &level), near = fixed && fn->v->has_mem_operands;
  uint64_t key = (uint64_t)data->id << 32 | off->id;
  uint32_t home = home_level(fn, level);
  LLVMValueRef p = fixed ? recall(fn, KNOWN_ADDRESS, key, level, home) : NULL;
  if (p) return p;
  uint32_t from = go_to_level(fn, home);
  Scope *s = fn->scopes.at[home];
  const Dim *alone;
  if (near) p = reach(fn, data, base, off);
  if (!p) {
    p = add_up(fn, data, base, off, &alone);
    Near n = {data, off, alone, NULL, p};
    if (near) vec_push(fn->arena, &s->near, n);
  }
  go_to_level(fn, from);
  if (fixed) map_set(&s->known[KNOWN_ADDRESS], key, p);
  return p;
}

/* An offset that others are reached from, and what of it no loop changes. */
typedef struct {
  const Dim *off, *far;
} Anchor;

/* Splits off into what no loop changes and the rest. */
static void split_far(Fn *fn, const Dim *off, const Dim **far, const Dim **rest) {
  *far = *rest = dim_const(fn->c, 0);
  for (uint32_t i = 0; i < off->n; i++) {
    uint32_t at = 0;
    term_level(fn, &off->terms[i], &at);
    const Dim **part = at ? rest : far;
    *part = dim_add(fn->c, *part, term_dim(fn, &off->terms[i]));
  }
}

/* p + far bytes, with as much of its factor as addressing modes have. A difference of terms may
 * have a constant: 16 * (n // 16) and n % 16 make n. */
static LLVMValueRef move_far(Fn *fn, LLVMValueRef p, const Dim *far) {
  Context *c = fn->c;
  unsigned unit = 8;
  if (!far->n) return move_address(fn, p, far->konst);
  for (uint32_t i = 0; i < far->n; i++)
    while (far->terms[i].coef % (int64_t)unit) unit /= 2;
  const Dim *count = dim_const(c, 0);
  for (uint32_t i = 0; i < far->n; i++) {
    const DimTerm *t = &far->terms[i];
    count = dim_add(c, count, dim_monomial(c, t->coef / (int64_t)unit, t->atoms, t->n));
  }
  LLVMValueRef o = dim_emit(fn, count);
  LLVMTypeRef type = LLVMIntTypeInContext(fn->cg->lc, 8 * unit);
  return move_address(fn, LLVMBuildGEP2(fn->b, type, p, &o, 1, ""), far->konst);
}

/* The same. Addresses of a loop that are used in branches and loops within may differ by what no
 * loop changes (the rows of a tile by multiples of their distance): one of them is made in the
 * loop, how far the others are from it is added where they are used, as an index. Made in the loop,
 * too, they would all wait in registers, or on the stack, for a branch that may not be taken. */
static LLVMValueRef address_shared(Fn *fn, const Var *data, Binding *base, const Dim *off) {
  uint32_t level = base->level;
  const Dim *far, *rest;
  bool fixed = dim_level(fn, off, &level);
  uint32_t home = home_level(fn, level);
  if (!fixed || !level || home >= fn->level || !fn->v->has_mem_operands)
    return address_core(fn, data, base, off);
  split_far(fn, off, &far, &rest);
  Map *anchors = &fn->scopes.at[home]->known[KNOWN_ANCHOR];
  uint64_t place = (uint64_t)data->id << 32 | rest->id;
  Anchor *a = map_get(anchors, place);
  if (!a) {
    a = ARENA_NEW(fn->arena, Anchor);
    *a = (Anchor){off, far};
    map_set(anchors, place, a);
  }
  LLVMValueRef p = address_core(fn, data, base, a->off);
  return a->off == off ? p : move_far(fn, p, dim_sub(fn->c, far, a->far));
}

LLVMValueRef fn_address(Fn *fn, const Var *data, const Dim *off, uint32_t bytes) {
  Binding *base = fn_lookup(fn, data);
  if (!base || !base->val) return LLVMGetUndef(fn->cg->ptr);
  const Dim *d = dim_scale(fn->c, off, bytes);
  LLVMValueRef p = address_shared(fn, data, base, dim_sub(fn->c, d, dim_const(fn->c, d->konst)));
  return move_address(fn, p, d->konst);
}
