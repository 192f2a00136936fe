/* Vector expressions out of scalar ones.
 *
 * One variable runs over the lanes. What doesn't depend on it stays scalar and is broadcast where
 * it meets a vector; an access whose last index grows by one per lane is a contiguous vector
 * access, by a constant a strided one, any other a gather. A branch that only some lanes take
 * becomes a selection whose loads are masked, so that nothing is read that the program wouldn't
 * read, and whose divisors are made 1 in the lanes that are off.
 */
#include "passes/loop/loop.h"

void vec_init(Vec *v, Context *c, Arena *a, Var *var, const Expr *base, uint32_t lanes,
              const Expr *mask) {
  *v = (Vec){.c = c, .a = a, .var = var, .base = base, .lanes = lanes, .mask = mask};
  map_init(&v->memo, a);
  map_init(&v->lets, a);
}

uint32_t variant_lanes(const Variant *v, DType d) {
  if (d.bits < 8) return 1;
  uint32_t bits = dtype_is_bool(d) ? 8 : d.bits, n = v->vector_bits / bits;
  return n > 1 ? n : 1;
}

const Expr *lane_mask(Context *c, const Expr *base, const Expr *end, uint32_t lanes) {
  const Expr *args[] = {base, end};
  return expr_call(c, INTRIN_get_active_lane_mask, dtype_lanes(DT_BOOL, lanes), args, 2);
}

static bool is_vector(const Expr *e) {
  return e->dtype.lanes > 1;
}

static const Expr *full(Vec *v, const Expr *e) {
  return is_vector(e) ? e : expr_broadcast(v->c, e, v->lanes);
}

const Expr *vec_full(Vec *v, const Expr *e) {
  return full(v, vec_expr(v, e));
}

static const Expr *mask_and(Vec *v, const Expr *a, const Expr *b) {
  return a ? expr_binary(v->c, EXPR_AND, a, b) : b;
}

static const Expr *at_base(Vec *v, const Expr *e) {
  Map m;
  map_init(&m, v->a);
  map_setp(&m, v->var, (void *)v->base);
  Subst s = {v->c, &m, NULL};
  return expr_subst(&s, e);
}

static bool uses_lets(Vec *v, const Expr *e) {
  for (uint32_t i = 0; i < v->lets.n; i++)
    if (expr_uses_var(e, (const Var *)(uintptr_t)v->lets.entries[i].key)) return true;
  return false;
}

/* An index in which u // s and u % s stay within one stretch of s for all lanes is linear in them:
 * NULL when it isn't that. */
static const Expr *index_in_stretch(Vec *v, const Dim *index, DType d) {
  Context *c = v->c;
  Split sp;
  int64_t k, first;
  if (!find_split(c, index, v->var, &sp)) return NULL;
  const Dim *start = dim_add(c, expr_dim(c, v->base), sp.shift), *s = dim_const(c, sp.s);
  const Dim *in_lanes = dim_floormod(c, start, dim_const(c, v->lanes));
  const Dim *from = dim_floormod(c, start, s);
  bool aligned = sp.s % v->lanes == 0 && dim_is_const(in_lanes, &k) && k == 0;
  bool inside = dim_is_const(from, &first) && first + v->lanes <= sp.s;
  if ((!aligned && !inside) || dim_uses_var(sp.by_residue, v->var)) return NULL;
  const Dim *base = dim_add(c, sp.rest, dim_mul(c, sp.by_quotient, dim_floordiv(c, start, s)));
  const Expr *at = dim_expr(c, dim_add(c, base, dim_mul(c, sp.by_residue, from)), d);
  const Expr *stride = dim_expr(c, sp.by_residue, d);
  return expr_is_int(stride, 0) ? at : expr_ramp(c, at, stride, v->lanes);
}

/* The lane form of an index: a RAMP where it is linear. */
static const Expr *vec_index(Vec *v, const Expr *e) {
  if (is_vector(e)) {
    v->failed = true;
    return e;
  }
  if (uses_lets(v, e)) return vec_expr(v, e);
  if (!expr_uses_var(e, v->var)) return e;
  const Dim *coef, *rest;
  const Dim *index = expr_dim(v->c, e);
  if (!dim_linear(v->c, index, v->var, &coef, &rest)) {
    const Expr *linear = index_in_stretch(v, index, e->dtype);
    return linear ? linear : vec_expr(v, e);
  }
  const Expr *stride = dim_expr(v->c, coef, e->dtype);
  if (expr_uses_var(stride, v->var)) return vec_expr(v, e);
  const Expr *base = expr_simplify(v->c, at_base(v, e));
  if (expr_is_int(stride, 0)) return base;
  return expr_ramp(v->c, base, stride, v->lanes);
}

/* Every second element: two contiguous loads and a shuffle; between them just the elements from the
 * first to the last are read. NULL when it isn't that. */
static const Expr *vec_load_pairs(Vec *v, struct Buffer *buf, const Expr **idx, uint32_t n) {
  Context *c = v->c;
  uint32_t lanes = v->lanes;
  const Expr *r = idx[n - 1];
  if (v->lazy || r->kind != EXPR_RAMP || !expr_is_int(r->arg[1], 2) || lanes < 4 || lanes > 64 ||
      !dtype_eq(dtype_scalar(r->dtype), DT_I64))
    return NULL;
  for (uint32_t i = 0; i + 1 < n; i++)
    if (is_vector(idx[i])) return NULL;
  const Expr *end = NULL;
  if (v->mask) {
    if (v->mask->kind != EXPR_CALL || v->mask->intrin != INTRIN_get_active_lane_mask) return NULL;
    const Expr *left = expr_sub(c, v->mask->arg[1], v->mask->arg[0]);
    end = expr_simplify(c, expr_sub(c, expr_mul(c, left, expr_i64(c, 2)), expr_i64(c, 1)));
  }
  const Expr *half[2];
  const Expr **at = ARENA_ARRAY(v->a, const Expr *, n);
  memcpy(at, idx, n * sizeof *at);
  for (int h = 0; h < 2; h++) {
    const Expr *skip = expr_i64(c, h ? lanes - 1 : 0);
    const Expr *base = expr_simplify(c, expr_add(c, r->arg[0], skip));
    at[n - 1] = expr_ramp(c, base, expr_i64(c, 1), lanes);
    half[h] = end ? expr_load_pred(c, buf, at, n, lane_mask(c, skip, end, lanes))
                  : expr_load(c, buf, at, n);
  }
  int64_t picks[64];
  for (uint32_t i = 0; i < lanes; i++)
    picks[i] = i < lanes / 2 ? 2 * i : 2 * i - (lanes - 1) + lanes;
  return expr_shuffle(c, half, 2, picks, lanes);
}

/* x[u // s] and x[u % s][u // s], an upsampling by s and its like: a contiguous load for each
 * residue, the lanes in turn from each. NULL when it isn't that. */
static const Expr *vec_load_split(Vec *v, struct Buffer *buf, const Expr *index) {
  Context *c = v->c;
  uint32_t lanes = v->lanes;
  Split sp;
  int64_t one, first;
  if (v->lazy || uses_lets(v, index) || !dtype_eq(index->dtype, DT_I64) ||
      !find_split(c, expr_dim(c, index), v->var, &sp) || !dim_is_const(sp.by_quotient, &one) ||
      one != 1 || lanes % sp.s || lanes / sp.s < 2 || lanes > 64)
    return NULL;
  bool same = dim_is_const(sp.by_residue, &one) && one == 0;
  if (!same && sp.s > 2) return NULL;
  const Dim *start = dim_add(c, expr_dim(c, v->base), sp.shift), *s = dim_const(c, sp.s);
  if (!dim_is_const(dim_floormod(c, start, s), &first)) return NULL;
  const Dim *base = dim_add(c, sp.rest, dim_floordiv(c, dim_sub(c, start, dim_const(c, first)), s));
  const Expr *active = NULL;
  if (v->mask) {
    if (v->mask->kind != EXPR_CALL || v->mask->intrin != INTRIN_get_active_lane_mask) return NULL;
    active = expr_sub(c, v->mask->arg[1], v->mask->arg[0]);
  }
  const Expr *part[2];
  int64_t picks[64];
  uint32_t n = lanes / (uint32_t)sp.s, parts = same ? 1 : 2;
  if (same && first) return NULL; /* the residues' elements would start at different places */
  for (uint32_t l = 0; l < lanes; l++) {
    uint32_t r = (uint32_t)((first + l) % sp.s);
    picks[l] = same ? l / sp.s : r * n + l / sp.s;
  }
  for (uint32_t p = 0; p < parts; p++) {
    int64_t lane = same ? 0 : (p - first + sp.s) % sp.s; /* the first one of this residue */
    const Dim *at = dim_add(c, base, dim_const(c, (first + lane) / sp.s));
    at = dim_add(c, at, dim_scale(c, sp.by_residue, p));
    const Expr *where = expr_ramp(c, dim_expr(c, at, DT_I64), expr_i64(c, 1), n);
    if (!active) {
      part[p] = expr_load(c, buf, &where, 1);
      continue;
    }
    const Expr *count = expr_sub(c, active, expr_i64(c, lane));
    count = expr_simplify(
        c, expr_floordiv(c, expr_add(c, count, expr_i64(c, sp.s - 1)), expr_i64(c, sp.s)));
    part[p] = expr_load_pred(c, buf, &where, 1, lane_mask(c, expr_i64(c, 0), count, n));
  }
  return expr_shuffle(c, part, parts, picks, lanes);
}

const Expr *vec_position(Vec *v, const Expr *index) {
  return vec_index(v, index);
}

/* Such an access has no text (T rules: only the last index can be a vector), and would gather. */
static bool vector_before_last(const Expr *const *idx, uint32_t n) {
  for (uint32_t i = 0; i + 1 < n; i++)
    if (is_vector(idx[i])) return true;
  return false;
}

static const Expr *vec_load(Vec *v, const Expr *e) {
  const Expr **idx = ARENA_ARRAY(v->a, const Expr *, e->n + 1);
  if (e->has_pred) {
    v->failed = true;
    return e;
  }
  bool any = false;
  if (e->n == 1 && e->buf->dtype.lanes == 1) {
    const Expr *split = vec_load_split(v, e->buf, e->arg[0]);
    if (split) return split;
  }
  for (uint32_t i = 0; i < e->n; i++) {
    idx[i] = vec_index(v, e->arg[i]);
    any |= is_vector(idx[i]);
  }
  v->failed |= vector_before_last(idx, e->n);
  if (!any) {
    if (!v->lazy || !e->n || !v->mask) return expr_load(v->c, e->buf, idx, e->n);
    idx[e->n - 1] = full(v, idx[e->n - 1]); /* no lane may be there to read it */
  }
  if (e->buf->dtype.lanes > 1) v->failed = true;
  const Expr *pairs = vec_load_pairs(v, e->buf, idx, e->n);
  if (pairs) return pairs;
  return v->mask ? expr_load_pred(v->c, e->buf, idx, e->n, v->mask)
                 : expr_load(v->c, e->buf, idx, e->n);
}

static const Expr *vec_if_then_else(Vec *v, const Expr *e) {
  Context *c = v->c;
  const Expr *cond = vec_expr(v, e->arg[0]);
  if (!is_vector(cond)) {
    /* all lanes go one way, but in a masked context perhaps none should */
    const Expr *a = full(v, vec_expr(v, e->arg[1])), *b = full(v, vec_expr(v, e->arg[2]));
    return expr_if_then_else(c, cond, a, b);
  }
  Vec side = *v;
  side.lazy = true;
  const Expr *r[2];
  for (int i = 0; i < 2; i++) {
    side.mask = mask_and(v, v->mask, i ? expr_unary(c, EXPR_NOT, cond) : cond);
    map_init(&side.memo, v->a);
    side.failed = false;
    r[i] = full(v, vec_expr(&side, e->arg[1 + i]));
    v->failed |= side.failed;
  }
  return expr_select(c, cond, r[0], r[1]);
}

static bool divides(ExprKind k) {
  return k == EXPR_DIV || k == EXPR_MOD || k == EXPR_FLOORDIV || k == EXPR_FLOORMOD;
}

static bool elementwise_call(IntrinId f) {
  if (intrin_table[f].flags & INTRIN_FLOAT) return true;
  switch ((int)f) {
  case INTRIN_abs:
  case INTRIN_isnan:
  case INTRIN_isinf:
  case INTRIN_isfinite:
  case INTRIN_popcount:
  case INTRIN_clz:
  case INTRIN_reinterpret: return true;
  default: return false;
  }
}

static bool check_call(const Expr *e, void *ctx) {
  bool *ok = ctx;
  if (e->kind == EXPR_CALL && e->n && e->intrin != INTRIN_if_then_else &&
      e->intrin != INTRIN_likely && !elementwise_call((IntrinId)e->intrin))
    *ok = false;
  if (e->kind == EXPR_CALL_FUNC || e->kind == EXPR_RAMP || e->kind == EXPR_BROADCAST ||
      e->kind == EXPR_SHUFFLE || e->kind == EXPR_BUF_DATA || e->kind == EXPR_STR)
    *ok = false;
  return *ok;
}

bool vec_possible(const Expr *e) {
  bool ok = true;
  expr_walk(e, check_call, &ok);
  return ok;
}

static const Expr *vec_compute(Vec *v, const Expr *e) {
  Context *c = v->c;
  switch ((ExprKind)e->kind) {
  case EXPR_INT:
  case EXPR_FLOAT:
  case EXPR_STR:
  case EXPR_BUF_DATA: return e;
  case EXPR_VAR: {
    if (e->var == v->var) return expr_ramp(c, v->base, expr_int(c, e->dtype, 1), v->lanes);
    const Expr *let = map_getp(&v->lets, e->var);
    return let ? let : e;
  }
  case EXPR_LOAD: return vec_load(v, e);
  case EXPR_LET: {
    const Expr *value = vec_expr(v, e->arg[1]);
    Var *var = e->arg[0]->var;
    if (!is_vector(value)) {
      const Expr *body = vec_expr(v, e->arg[2]);
      return expr_let(c, var, value, body);
    }
    Var *wide = var_create(c, var->name, value->dtype);
    map_setp(&v->lets, var, (void *)wide->expr);
    return expr_let(c, wide, value, vec_expr(v, e->arg[2]));
  }
  case EXPR_CALL:
    if (e->intrin == INTRIN_if_then_else) return vec_if_then_else(v, e);
    if (e->intrin == INTRIN_likely) return vec_expr(v, e->arg[0]);
    break;
  default: break;
  }
  const Expr **args = ARENA_ARRAY(v->a, const Expr *, e->n + 1);
  bool any = false, same = true;
  for (uint32_t i = 0; i < e->n; i++) {
    args[i] = vec_expr(v, e->arg[i]);
    any |= is_vector(args[i]);
    same &= args[i] == e->arg[i];
  }
  if (!any) return same ? e : expr_with_args(c, e, args);
  switch ((ExprKind)e->kind) {
  case EXPR_CAST: return expr_cast(c, dtype_lanes(e->dtype, v->lanes), args[0]);
  case EXPR_SELECT: return expr_select(c, full(v, args[0]), full(v, args[1]), full(v, args[2]));
  case EXPR_NOT:
  case EXPR_BITNOT: return expr_unary(c, (ExprKind)e->kind, args[0]);
  case EXPR_CALL: {
    if (!elementwise_call((IntrinId)e->intrin)) break;
    for (uint32_t i = 0; i < e->n; i++) args[i] = full(v, args[i]);
    return expr_call(c, (IntrinId)e->intrin, dtype_lanes(e->dtype, v->lanes), args, e->n);
  }
  default:
    if (e->kind < EXPR_ADD || e->kind > EXPR_SHR) break;
    for (uint32_t i = 0; i < 2; i++) args[i] = full(v, args[i]);
    if (divides((ExprKind)e->kind) && !dtype_is_float(e->dtype) && v->mask &&
        e->arg[1]->kind != EXPR_INT)
      args[1] = expr_select(c, v->mask, args[1], full(v, expr_int(c, e->arg[1]->dtype, 1)));
    return expr_binary(c, (ExprKind)e->kind, args[0], args[1]);
  }
  v->failed = true;
  return e;
}

const Expr *vec_expr(Vec *v, const Expr *e) {
  if (is_vector(e)) {
    v->failed = true;
    return e;
  }
  const Expr *r = map_getp(&v->memo, e);
  if (r) return r;
  r = vec_compute(v, e);
  map_setp(&v->memo, e, (void *)r);
  return r;
}

/* ---- statements ---- */

static Stmt *vec_if(Vec *v, Stmt *s) {
  const Expr *cond = vec_expr(v, s->if_.cond);
  if (v->failed) return NULL;
  Stmt *side[2] = {NULL, NULL};
  Stmt *in[2] = {s->if_.then_, s->if_.else_};
  for (int i = 0; i < 2; i++) {
    if (!in[i]) continue;
    Vec sub = *v;
    if (is_vector(cond)) {
      sub.lazy = true;
      sub.mask = mask_and(v, v->mask, i ? expr_unary(v->c, EXPR_NOT, cond) : cond);
      map_init(&sub.memo, v->a);
    }
    side[i] = vec_stmt(&sub, in[i]);
    if (!side[i]) return NULL;
  }
  if (is_vector(cond)) return side[1] ? stmt_seq(v->a, side, 2) : side[0];
  return stmt_if(v->a, s->span, cond, side[0], side[1]);
}

Stmt *vec_stmt(Vec *v, Stmt *s) {
  Context *c = v->c;
  switch (s->kind) {
  case STMT_SEQ: {
    StmtVec out = {0};
    for (uint32_t i = 0; i < s->seq.n; i++) {
      Stmt *r = vec_stmt(v, s->seq.at[i]);
      if (!r) return NULL;
      vec_push(v->a, &out, r);
    }
    return seq_of(v->a, &out);
  }
  case STMT_STORE: {
    if (s->store.pred || s->store.buf->dtype.lanes > 1 || !s->store.buf->ndim) return NULL;
    uint32_t n = s->store.buf->ndim;
    const Expr **idx = ARENA_ARRAY(v->a, const Expr *, n);
    bool any = false;
    for (uint32_t i = 0; i < n; i++) {
      idx[i] = vec_index(v, s->store.idx[i]);
      any |= is_vector(idx[i]);
    }
    v->failed |= vector_before_last(idx, n);
    const Expr *value = vec_full(v, s->store.value);
    if (v->failed || !any) return NULL; /* every lane would store to one place */
    Stmt *r = stmt_store(v->a, s->span, s->store.buf, idx, value);
    r->store.pred = v->mask;
    return r;
  }
  case STMT_LET: {
    const Expr *value = vec_expr(v, s->let.value);
    if (v->failed) return NULL;
    Var *var = s->let.var;
    if (is_vector(value)) {
      var = var_create(c, var->name, value->dtype);
      map_setp(&v->lets, s->let.var, (void *)var->expr);
    }
    return stmt_let(v->a, s->span, var, value);
  }
  case STMT_IF: return vec_if(v, s);
  case STMT_ASSERT: {
    const Expr *cond = vec_expr(v, s->assert_.cond);
    if (v->failed || v->mask || is_vector(cond)) return NULL;
    Stmt *r = arena_dup(v->a, s, sizeof *s);
    r->assert_.cond = cond;
    return r;
  }
  case STMT_FOR: {
    if (s->loop.kind != FOR_SERIAL && s->loop.kind != FOR_UNROLL) return NULL;
    const Expr *min = vec_expr(v, s->loop.min), *extent = vec_expr(v, s->loop.extent);
    if (v->failed || is_vector(min) || is_vector(extent)) return NULL;
    Stmt *body = vec_stmt(v, s->loop.body);
    if (!body) return NULL;
    Stmt *r = stmt_for(v->a, s->span, s->loop.var, min, extent, s->loop.kind, body);
    r->loop.step = s->loop.step;
    r->loop.annotations = s->loop.annotations;
    return r;
  }
  default: return NULL;
  }
}

/* ---- users' FOR_VECTORIZED loops ---- */

static Stmt *serial_loop(LoopCtx *lc, const Stmt *s) {
  Stmt *r = arena_dup(lc->a, s, sizeof *s);
  r->loop.kind = FOR_SERIAL;
  return r;
}

static Stmt *vectorize_loop(LoopCtx *lc, Stmt *s) {
  Context *c = lc->c;
  Arena *a = lc->a;
  LoopAccesses x = loop_accesses(c, lc->tmp, s);
  if (s->loop.step || !x.independent) return serial_loop(lc, s);
  uint32_t lanes = variant_lanes(lc->v, x.widest);
  int64_t n;
  bool is_const = expr_const_int(c, s->loop.extent, &n);
  while (is_const && lanes > 1 && (int64_t)lanes > n) lanes /= 2;
  if (lanes < 2) return serial_loop(lc, s);
  DType d = s->loop.var->dtype;
  const Expr *l = expr_int(c, d, lanes);
  Var *outer = var_create(c, s->loop.var->name, d);
  Vec v;
  const Expr *base = expr_simplify(c, expr_add(c, s->loop.min, expr_mul(c, outer->expr, l)));
  vec_init(&v, c, a, s->loop.var, base, lanes, NULL);
  Stmt *body = vec_stmt(&v, s->loop.body);
  if (!body || v.failed) return serial_loop(lc, s);
  const Expr *count = expr_simplify(c, expr_floordiv(c, s->loop.extent, l));
  StmtVec out = {0};
  vec_push(lc->tmp, &out, stmt_for(a, s->span, outer, expr_int(c, d, 0), count, FOR_SERIAL, body));
  if (!is_const || n % lanes) {
    const Expr *done = expr_simplify(c, expr_mul(c, count, l));
    Stmt *rest =
        stmt_for(a, s->span, s->loop.var, expr_simplify(c, expr_add(c, s->loop.min, done)),
                 expr_simplify(c, expr_sub(c, s->loop.extent, done)), FOR_SERIAL, s->loop.body);
    Map none;
    map_init(&none, lc->tmp);
    vec_push(lc->tmp, &out, stmt_subst(c, a, rest, &none, NULL, true));
  }
  return seq_of(a, &out);
}

static Stmt *visit(Context *c, Arena *a, Stmt *s, void *ctx) {
  (void)c;
  (void)a;
  return s->kind == STMT_FOR && s->loop.kind == FOR_VECTORIZED ? vectorize_loop(ctx, s) : s;
}

Stmt *vectorize_loops(LoopCtx *lc, Stmt *s) {
  return stmt_rewrite(lc->c, lc->a, s, NULL, visit, lc);
}
