/* A producer computed inside the outer loops of the contraction that reads it.
 *
 *   before: for c: P[c, :, :] = pad(x)      for c: C[c, h, w] = sum A[c, i, j] * P[c, 2h + i, 2w +
 * j] after:  for c: P'[:, :] = pad(x)[c], C[c, h, w] = sum A[c, i, j] * P'[2h + i, j % 2, w + j /
 * 2]
 *
 * The tensor between the two, as large as an image, becomes a slice that stays in the first level
 * of cache (of symbolic size: in a nearer one than the whole tensor would). Since it is written for
 * this one reader, its columns lie as the reader wants them: where that strides over them, the
 * elements of each residue are neighbours.
 */
#include "passes/loop/contraction.h"

#define SLICE_BYTES (56 * 1024)

/* How the reader's index in each dimension is used. */
typedef struct {
  const Expr *load;
  int32_t outer[MAX_AXES]; /* per dimension: the outer loop that indexes it, or -1 */
  int32_t split;           /* the dimension that the columns stride over, or -1 */
  int64_t stride;
} Slice;

static bool find_slice(Sched *s, const Stage *before, const Contraction *con, Slice *sl) {
  Context *c = s->c;
  const Expr *load = factor_load(con->b);
  const Buffer *b = before->out;
  bool found[MAX_AXES] = {false};
  int64_t size = (int64_t)dtype_bytes(b->dtype), e;
  *sl = (Slice){.load = load, .split = -1};
  if (load->buf != b || !con->nouter || con->nrows || b->ndim > MAX_AXES) return false;
  for (uint32_t d = 0; d < b->ndim; d++) {
    const Expr *at = load->arg[d];
    const Dim *coef, *rest;
    sl->outer[d] = -1;
    for (uint32_t o = 0; o < con->nouter; o++) {
      if (!expr_uses_var(at, con->outer[o].var)) continue;
      if (at->kind != EXPR_VAR || found[o] || before->oaxis[d] < 0 ||
          !expr_proved_eq(c, con->outer[o].extent, b->shape[d]))
        return false;
      found[o] = true;
      sl->outer[d] = (int32_t)o;
    }
    if (sl->outer[d] >= 0) continue;
    if (before->oaxis[d] < 0 && !expr_is_int(b->shape[d], 1)) return false;
    if (expr_const_int(c, b->shape[d], &e)) {
      if (e <= 0 || e > SLICE_BYTES) return false;
      size *= e;
    }
    if (size > SLICE_BYTES) return false;
    if (!dim_linear(c, expr_dim(c, at), con->n.var, &coef, &rest) || !dim_is_const(coef, &e))
      return false;
    if (e > 1) {
      if (sl->split >= 0) return false;
      sl->split = (int32_t)d;
      sl->stride = e;
    }
  }
  for (uint32_t o = 0; o < con->nouter; o++)
    if (!found[o]) return false;
  return true;
}

bool sink_is_private(Sched *s, const Stage *before, const Stage *reader) {
  if (before->red != RED_NONE || !before->covers || !map_hasp(&s->local, before->out) ||
      map_hasp(&s->outside, before->out))
    return false;
  for (uint32_t i = 0; i < s->items.n; i++) {
    const Stage *st = s->items.at[i].stage;
    if (st && st != reader && stage_reads(st, before->out)) return false;
  }
  return true;
}

bool sink_fits(Sched *s, const Stage *before, const Contraction *con) {
  Slice sl;
  return vec_possible(before->value) && sink_is_private(s, before, con->st) &&
         find_slice(s, before, con, &sl);
}

/* A dimension of the slice, and an axis over it. */
static void add_dim(Stage *st, const Expr **shape, const Expr *extent, Var *v) {
  uint32_t d = st->naxes++;
  st->nspatial++;
  st->axes[d] = (Axis){v, extent};
  st->oidx[d] = v->expr;
  st->oaxis[d] = (int32_t)d;
  shape[d] = extent;
}

/* The columns of one residue: loops of their own, since the borders differ. */
static Stage *at_residue(Sched *s, const Stage *st, const Var *residue, int64_t r) {
  Context *c = s->c;
  Map m;
  map_init(&m, s->tmp);
  map_setp(&m, residue, (void *)i64(c, r));
  Stage *one = ARENA_NEW(s->tmp, Stage);
  *one = *st;
  one->value = subst_vars(c, &m, st->value);
  one->oidx = ARENA_ARRAY(s->tmp, const Expr *, st->naxes);
  for (uint32_t d = 0; d < st->naxes; d++) {
    one->oidx[d] = subst_vars(c, &m, st->oidx[d]);
    if (st->axes[d].var == residue) one->axes[d].extent = i64(c, 1);
  }
  return one;
}

void sink_emit(Emit *em, const Stage *before, Contraction *con, StmtVec *out) {
  Sched *s = em->s;
  Context *c = em->c;
  Slice sl;
  if (!find_slice(s, before, con, &sl)) bug("a producer no longer fits its reader");
  const Buffer *b = before->out;
  Stage *st = ARENA_NEW(s->tmp, Stage);
  *st = (Stage){.name = before->name, .span = before->span, .value = before->value};
  st->oidx = ARENA_ARRAY(s->tmp, const Expr *, b->ndim + 1);
  st->oaxis = ARENA_ARRAY(s->tmp, int32_t, b->ndim + 1);
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, b->ndim + 1);
  const Expr *at[MAX_AXES + 1], *inside = NULL;
  Var *residue = NULL;
  Map vars;
  map_init(&vars, s->tmp);
  for (uint32_t d = 0; d < b->ndim; d++) {
    const Axis *ax = before->oaxis[d] >= 0 ? &before->axes[before->oaxis[d]] : NULL;
    if (sl.outer[d] >= 0) {
      map_setp(&vars, ax->var, map_getp(&em->fixed, con->outer[sl.outer[d]].var));
      continue;
    }
    if (!ax) continue; /* a single element */
    const Expr *index = sl.load->arg[d];
    if ((int32_t)d != sl.split) {
      Var *v = loop_var(c, ax->var->name);
      map_setp(&vars, ax->var, (void *)v->expr);
      at[st->naxes] = index;
      add_dim(st, shape, b->shape[d], v);
      continue;
    }
    const Expr *k = i64(c, sl.stride);
    Var *v = loop_var(c, ax->var->name);
    residue = loop_var(c, "residue");
    const Expr *x = expr_add(c, expr_mul(c, v->expr, k), residue->expr);
    map_setp(&vars, ax->var, (void *)x);
    int64_t e;
    if (!expr_const_int(c, b->shape[d], &e) || e % sl.stride)
      inside = expr_binary(c, EXPR_LT, x, b->shape[d]);
    at[st->naxes] = expr_simplify(c, expr_floormod(c, index, k));
    add_dim(st, shape, k, residue);
    at[st->naxes] = expr_simplify(c, expr_floordiv(c, index, k));
    add_dim(st, shape, expr_ceildiv(c, b->shape[d], sl.stride), v);
  }
  st->out = buffer_create(c, b->name, b->dtype, shape, st->naxes, "global");
  const Expr **size = ARENA_ARRAY(c->arena, const Expr *, 1);
  size[0] = expr_product(c, shape, st->naxes);
  Buffer *memory = buffer_create(c, b->name, b->dtype, size, 1, "global");
  memory->align = 64;
  map_setp(&s->lc->flat, st->out, memory);
  st->value = subst_vars(c, &vars, st->value);
  if (inside) st->value = expr_if_then_else(c, inside, st->value, expr_lit(c, b->dtype, 0));
  vec_push(s->tmp, out, stmt_alloc(s->a, before->span, memory));
  map_setp(&s->outside, st->out, st->out); /* the contraction reads it */
  bool nested = s->nested;
  s->nested = true;
  if (!residue) stage_emit(s, st, out);
  for (int64_t r = 0; residue && r < sl.stride; r++)
    stage_emit(s, at_residue(s, st, residue, r), out);
  s->nested = nested;
  const Expr *load = expr_load(c, st->out, at, st->naxes);
  con->b = con->b->kind == EXPR_CAST ? expr_cast(c, con->b->dtype, load) : load;
  if (sl.split >= 0) {
    con->b_stride = dim_const(c, 1);
    con->b_unit = true;
  }
}
