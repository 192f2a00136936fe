/* Expressions and results of a group's stages, under lanes.
 *
 * A temporary whose writer has no inner axes is a register; one that only a row of exists at a time
 * is a small buffer, or the memory of the result that will overwrite it; else it is in memory. All
 * accesses go through flat views.
 */
#include "passes/loop/emit.h"

#define ROW_BYTES (56 * 1024)
#define NEAR_ROW (12 * 1024) /* longer ones take room that the rows read and written need in L1 */

/* ---- setup ---- */

bool emit_can_mask(const Variant *v, DType d) {
  return v->has_mask || (v->vector_bits >= 256 && d.bits >= 32);
}

typedef struct {
  DType *widest, *narrowest;
} Types;
static void note_type(Types *t, DType d) {
  if (dtype_is_bool(d)) d.bits = 8;
  if (d.bits > t->widest->bits) *t->widest = d;
  if (d.bits < t->narrowest->bits) *t->narrowest = d;
}
static bool note_expr_type(const Expr *e, void *ctx) {
  if (e->kind == EXPR_LOAD || (e->kind == EXPR_CAST && !dtype_is_bool(e->dtype)))
    note_type(ctx, e->dtype);
  return true;
}
void group_types(Sched *s, const Group *g, DType *widest, DType *narrowest) {
  (void)s;
  *widest = DT_U8;
  *narrowest = DT_I64;
  Types t = {widest, narrowest};
  for (uint32_t i = 0; i < g->n; i++) {
    note_type(&t, g->stages[i]->out->dtype);
    expr_walk(g->stages[i]->value, note_expr_type, &t);
  }
}

bool group_is_outer(const Group *g, const Var *v) {
  for (uint32_t i = 0; i < g->nouter; i++)
    if (g->outer[i].var == v) return true;
  return false;
}

/* Axis of the writer that a row of its temporary doesn't extend over. */
static bool not_in_row(const Group *g, const Axis *a) {
  return axis_is_unit(a) || group_is_outer(g, a->var);
}

/* Inner axes of st: spatial first; returns their number, *nspatial of them spatial. */
uint32_t stage_inner_axes(const Group *g, const Stage *st, Axis *out, uint32_t *nspatial) {
  uint32_t n = 0;
  *nspatial = 0;
  for (uint32_t i = 0; i < st->naxes; i++) {
    if (axis_is_unit(&st->axes[i]) || group_is_outer(g, st->axes[i].var)) continue;
    out[n++] = st->axes[i];
    if (i < st->nspatial) ++*nspatial;
  }
  return n;
}

/* Whether anything after the group reads b. */
bool group_is_read_after(Sched *s, const Group *g, const Buffer *b) {
  if (!map_hasp(&s->local, b) || map_hasp(&s->outside, b)) return true;
  for (uint32_t i = 0; i < s->items.n; i++) {
    const Stage *st = s->items.at[i].stage;
    if (!st) continue;
    bool own = false;
    for (uint32_t k = 0; k < g->n; k++) own |= g->stages[k]->out == st->out;
    if (!own && stage_reads(st, b)) return true;
  }
  return false;
}

void emit_init(Emit *em, Sched *s, Group *g) {
  *em = (Emit){
      .s = s, .lc = s->lc, .c = s->c, .a = s->a, .tmp = s->tmp, .g = g, .row_lanes = 1, .rows = 1};
  map_init(&em->temps, s->tmp);
  map_init(&em->fixed, s->tmp);
  for (uint32_t i = 0; i < g->n; i++) {
    const Stage *st = g->stages[i];
    Axis inner[MAX_AXES] = {0};
    uint32_t nsp;
    stage_inner_axes(g, st, inner, &nsp);
    Temp *t = ARENA_NEW(s->tmp, Temp);
    t->buf = st->out;
    t->writer = st;
    t->inner = nsp > 0;
    t->place = var_create(s->c, st->out->name, st->out->dtype);
    bool plain = s->simple;
    for (uint32_t d = 0; d < st->out->ndim; d++)
      if (st->oaxis[d] < 0 && !expr_is_int(st->oidx[d], 0)) plain = false;
    if (!plain) t->inner = true; /* readers go through memory */
    t->in_memory = !plain || group_is_read_after(s, g, st->out);
    if (t->inner && !t->in_memory) t->in_memory = true; /* unless a row will do: emit_rows */
    map_setp(&em->temps, st->out, t);
  }
  DType wide, narrow;
  group_types(s, g, &wide, &narrow);
  em->use_mask = emit_can_mask(s->v, narrow);
}

void emit_bind(Emit *em, Var *axis, const Expr *value) {
  map_setp(&em->fixed, axis, (void *)value);
}

/* Gives temporaries that only the group reads a buffer of one row. */
void emit_rows(Emit *em, uint32_t lanes, StmtVec *out) {
  em->row_lanes = lanes;
  for (uint32_t i = 0; i < em->temps.n; i++) {
    Temp *t = em->temps.entries[i].value;
    t->row = NULL;
    if (!t->inner || group_is_read_after(em->s, em->g, t->buf) || !em->s->simple) continue;
    int64_t n = (int64_t)(lanes * dtype_bytes(t->buf->dtype)), e;
    int64_t most = t->alias ? NEAR_ROW : ROW_BYTES;
    bool ok = true;
    for (uint32_t d = 0; ok && d < t->buf->ndim; d++) {
      int32_t ax = t->writer->oaxis[d];
      if (ax < 0)
        ok = expr_is_int(t->writer->oidx[d], 0) && expr_is_int(t->buf->shape[d], 1);
      else if (!not_in_row(em->g, &t->writer->axes[ax])) {
        ok = expr_const_int(em->c, t->buf->shape[d], &e) && e <= most;
        if (ok) n *= e;
        if (n > most) ok = false;
      }
    }
    t->in_memory = !ok;
    if (!ok || n == 0) {
      t->in_memory = true;
      continue;
    }
    const Expr **shape = ARENA_ARRAY(em->c->arena, const Expr *, 1);
    shape[0] = i64(em->c, n / (int64_t)dtype_bytes(t->buf->dtype));
    t->row = buffer_create(em->c, t->buf->name, t->buf->dtype, shape, 1, "global");
    t->row->align = 64;
    vec_push(em->tmp, out, stmt_alloc(em->a, t->writer->span, t->row));
  }
}

/* Offset of an element within the row buffer; the lane axis adds its lane. */
static const Expr *row_offset(Emit *em, const Temp *t, const Expr *const *idx) {
  Context *c = em->c;
  const Dim *d = dim_const(c, 0);
  for (uint32_t i = 0; i < t->buf->ndim; i++) {
    int32_t ax = t->writer->oaxis[i];
    if (ax < 0 || not_in_row(em->g, &t->writer->axes[ax])) continue;
    d = dim_add(c, dim_mul(c, d, expr_dim(c, t->buf->shape[i])), expr_dim(c, idx[i]));
  }
  d = dim_scale(c, d, em->row_lanes);
  if (em->now.var)
    d = dim_add(c, d, dim_sub(c, dim_var(c, em->now.var), expr_dim(c, em->now.base)));
  return dim_expr(c, d, DT_I64);
}

/* ---- borrowed memory ---- */

typedef struct {
  const Stage *st;
  const Buffer *b;
  bool other; /* b is read at another place than the stage writes */
} SamePlace;
static void same_place(const Expr *load, void *ctx) {
  SamePlace *k = ctx;
  if (load->buf != k->b) return;
  for (uint32_t i = 0; i < load->n; i++)
    if (load->arg[i] != k->st->oidx[i]) k->other = true;
}

static Temp *temp_of(Emit *em, const Stage *st) {
  return map_getp(&em->temps, st->out);
}

/* A temporary of which a row is long lives in the memory of the result that is computed from it
 * element by element, last of all its readers (the exponentials of a softmax). */
void emit_borrow(Emit *em) {
  Group *g = em->g;
  for (uint32_t i = 0; i < g->n; i++) {
    Temp *t = temp_of(em, g->stages[i]);
    if (!t->inner || !em->s->simple || !t->writer->covers || group_is_read_after(em->s, g, t->buf))
      continue;
    uint32_t last = i;
    for (uint32_t k = i + 1; k < g->n; k++)
      if (stage_reads(g->stages[k], t->buf)) last = k;
    const Stage *st = g->stages[last];
    if (last == i || st->red != RED_NONE || stage_reads(st, st->out) ||
        !group_is_read_after(em->s, g, st->out) || st->out->ndim != t->buf->ndim ||
        !dtype_eq(st->out->dtype, t->buf->dtype))
      continue;
    bool ok = true;
    for (uint32_t d = 0; d < t->buf->ndim; d++)
      ok &= expr_proved_eq(em->c, st->out->shape[d], t->buf->shape[d]);
    for (uint32_t k = 0; k < i; k++) ok &= temp_of(em, g->stages[k])->alias != st->out;
    SamePlace p = {st, t->buf, false};
    expr_loads(st->value, same_place, &p);
    if (ok && !p.other) t->alias = st->out;
  }
}

/* The data that st's result is stored in, or NULL. */
static const Var *place_of(Emit *em, const Stage *st) {
  const Temp *t = temp_of(em, st);
  if (!t) return st->out->data;
  if (t->row) return t->row->data;
  return t->in_memory ? (t->alias ? t->alias : st->out)->data : NULL;
}

typedef struct {
  Emit *em;
  const Stage *const *stages;
  uint32_t n, at; /* `at`: of the stage that reads */
  bool ok;
} Repeat;
static void reads_own_memory(const Expr *load, void *ctx) {
  Repeat *k = ctx;
  const Temp *t = map_getp(&k->em->temps, load->buf);
  const Var *place = t ? place_of(k->em, t->writer) : load->buf->data;
  for (uint32_t i = 0; i < k->at; i++)
    if (k->stages[i]->out == load->buf) return; /* written anew, or a register */
  for (uint32_t i = 0; place && i < k->n; i++) k->ok &= place != place_of(k->em, k->stages[i]);
}

bool emit_repeats(Emit *em, const Stage *const *stages, uint32_t n) {
  Repeat k = {em, stages, n, 0, true};
  for (; k.at < n; k.at++) {
    expr_loads(stages[k.at]->value, reads_own_memory, &k);
    if (stages[k.at]->init) expr_loads(stages[k.at]->init, reads_own_memory, &k);
  }
  return k.ok;
}

static const Expr *prepare_load(Context *c, const Expr *e, void *ctx) {
  Emit *em = ctx;
  if (e->kind != EXPR_LOAD) return e;
  Temp *t = map_getp(&em->temps, e->buf);
  if (t && !t->inner && t->value) return t->place->expr;
  if (t && t->row) {
    const Expr *idx = row_offset(em, t, e->arg);
    return expr_load(c, t->row, &idx, 1);
  }
  const Expr *idx = dim_expr(c, flat_offset(em->lc, e->buf, e->arg), DT_I64);
  return expr_load(c, flat_view(em->lc, t && t->alias ? t->alias : e->buf), &idx, 1);
}

static const Expr *simplify_load(Context *c, const Expr *e, void *ctx) {
  (void)ctx;
  if (e->kind != EXPR_LOAD || e->n != 1 || e->has_pred) return e;
  const Expr *idx = expr_simplify(c, e->arg[0]);
  return idx == e->arg[0] ? e : expr_load(c, e->buf, &idx, 1);
}

const Expr *emit_prepare(Emit *em, const Expr *e) {
  e = expr_rewrite(em->c, e, prepare_load, em);
  e = subst_vars(em->c, &em->fixed, e);
  return expr_rewrite(em->c, e, simplify_load, em);
}

const Expr *emit_value(Emit *em, const Lanes *ln, const Expr *e) {
  Map scalars;
  map_init(&scalars, em->tmp);
  for (uint32_t i = 0; i < em->temps.n; i++) {
    const Temp *t = em->temps.entries[i].value;
    if (t->value && t->value->dtype.lanes == 1) map_setp(&scalars, t->place, (void *)t->value);
  }
  if (scalars.n) e = subst_vars(em->c, &scalars, e);
  if (!ln->var) return e;
  Vec v;
  vec_init(&v, em->c, em->tmp, ln->var, ln->base, ln->lanes, ln->mask);
  for (uint32_t i = 0; i < em->temps.n; i++) {
    const Temp *t = em->temps.entries[i].value;
    if (t->value && t->value->dtype.lanes > 1) map_setp(&v.lets, t->place, (void *)t->value);
  }
  const Expr *r = vec_full(&v, e);
  if (v.failed) {
    em->lc->failed = true;
    bug("an expression of a stage has no vector form");
  }
  return r;
}

void emit_store(Emit *em, const Stage *st, const Lanes *ln, Buffer *buf, const Expr *off,
                const Expr *value, StmtVec *out) {
  off = expr_simplify(em->c, subst_vars(em->c, &em->fixed, off));
  Stmt *s = stmt_store(em->a, st->span, buf, &off, value);
  if (ln->var) {
    Vec v;
    vec_init(&v, em->c, em->tmp, ln->var, ln->base, ln->lanes, ln->mask);
    const Expr *at = vec_position(&v, off);
    if (at->dtype.lanes == 1) bug("lanes of a stage store to one place");
    s = stmt_store(em->a, st->span, buf, &at, value);
    s->store.pred = ln->mask;
  }
  vec_push(em->tmp, out, s);
}

void emit_result(Emit *em, const Stage *st, const Lanes *ln, const Expr *value, StmtVec *out) {
  Temp *t = map_getp(&em->temps, st->out);
  if (!t->inner) {
    Var *r = var_create(em->c, st->out->name, value->dtype);
    vec_push(em->tmp, out, stmt_let(em->a, st->span, r, value));
    t->value = r->expr;
    value = r->expr;
  }
  if (t->row) emit_store(em, st, ln, t->row, row_offset(em, t, st->oidx), value, out);
  if (t->in_memory && !t->row)
    emit_store(em, st, ln, flat_view(em->lc, t->alias ? t->alias : st->out),
               dim_expr(em->c, flat_offset(em->lc, st->out, st->oidx), DT_I64), value, out);
}
