/* Stages out of blocks.
 *
 * A nest of plain loops whose block binds each axis to one loop and stores one element is a stage:
 * a box of axes, an index map, a value. TVM's legalised operators and te.c's have this form. Axes
 * become int64 variables. Anything else (predicates, several stores, annotated loops, nested
 * blocks) stays as written.
 */
#include "passes/loop/schedule.h"

typedef struct {
  LoadFn fn;
  void *ctx;
} LoadWalk;
static bool visit_load(const Expr *e, void *ctx) {
  LoadWalk *w = ctx;
  if (e->kind == EXPR_LOAD) w->fn(e, w->ctx);
  return true;
}
void expr_loads(const Expr *e, LoadFn fn, void *ctx) {
  LoadWalk w = {fn, ctx};
  expr_walk(e, visit_load, &w);
}

typedef struct {
  const Buffer *b;
  const Var *data;
  uint32_t n;
} Find;
static void find_buffer(const Expr *load, void *ctx) {
  Find *f = ctx;
  if (f->b ? load->buf == f->b : load->buf->data == f->data) f->n++;
}
bool stage_reads(const Stage *st, const Buffer *b) {
  Find f = {b, NULL, 0};
  expr_loads(st->value, find_buffer, &f);
  return f.n;
}

/* ---- index arithmetic in int64 ---- */

/* Int32 index arithmetic on casts of int64 axes becomes int64 arithmetic: indices don't wrap. */
static const Expr *widen(Context *c, const Expr *e) {
  if (e->dtype.code != DTYPE_INT || e->dtype.lanes != 1 || e->dtype.bits >= 64) return e;
  switch ((ExprKind)e->kind) {
  case EXPR_INT: return i64(c, e->i);
  case EXPR_CAST: {
    const Expr *x = e->arg[0];
    if (dtype_eq(x->dtype, DT_I64)) return x;
    if (dtype_is_sint(x->dtype)) return widen(c, x);
    return expr_cast(c, DT_I64, e);
  }
  case EXPR_ADD:
  case EXPR_SUB:
  case EXPR_MUL:
  case EXPR_DIV:
  case EXPR_MOD:
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_MIN:
  case EXPR_MAX: return expr_binary(c, (ExprKind)e->kind, widen(c, e->arg[0]), widen(c, e->arg[1]));
  default: return expr_cast(c, DT_I64, e);
  }
}

typedef struct {
  Facts *facts;
} Bounds;

static const Expr *simplify_div(Context *c, const Expr *e, void *ctx) {
  Bounds *b = ctx;
  switch ((ExprKind)e->kind) {
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_DIV:
  case EXPR_MOD: {
    if (!dtype_is_int(e->dtype) || e->dtype.lanes != 1) return e;
    const Dim *x = expr_dim(c, e->arg[0]), *d = expr_dim(c, e->arg[1]);
    const Dim *zero = dim_const(c, 0);
    if (prove_le(c, b->facts, zero, x) != PROOF_YES || prove_lt(c, b->facts, x, d) != PROOF_YES)
      return e;
    return e->kind == EXPR_FLOORDIV || e->kind == EXPR_DIV ? expr_int(c, e->dtype, 0) : e->arg[0];
  }
  case EXPR_LOAD: {
    if (e->has_pred) return e;
    const Expr *idx[MAX_AXES];
    if (e->n > MAX_AXES) return e;
    for (uint32_t i = 0; i < e->n; i++) idx[i] = expr_simplify(c, widen(c, e->arg[i]));
    return expr_load(c, e->buf, idx, e->n);
  }
  default: return e;
  }
}

const Expr *stage_simplify(Sched *s, const Stage *st, const Expr *e) {
  Bounds b = {facts_create(s->c, s->tmp)};
  for (uint32_t i = 0; i < st->naxes; i++)
    facts_below(b.facts, st->axes[i].var, dim_const(s->c, 0), expr_dim(s->c, st->axes[i].extent));
  return expr_rewrite(s->c, e, simplify_div, &b);
}

/* ---- reductions ---- */

typedef struct {
  const Buffer *buf;
  const Expr *const *idx;
  const Expr *acc;
  uint32_t n; /* loads replaced */
  bool other; /* a load of buf at another place */
} AccFind;

static const Expr *replace_acc(Context *c, const Expr *e, void *ctx) {
  (void)c;
  AccFind *f = ctx;
  if (e->kind != EXPR_LOAD || e->buf->data != f->buf->data) return e;
  bool same = e->buf == f->buf && !e->has_pred;
  for (uint32_t i = 0; same && i < e->n; i++) same = e->arg[i] == f->idx[i];
  if (!same) {
    f->other = true;
    return e;
  }
  f->n++;
  return f->acc;
}

static RedKind red_kind(const Expr *e) {
  switch ((ExprKind)e->kind) {
  case EXPR_ADD: return RED_ADD;
  case EXPR_MUL: return RED_MUL;
  case EXPR_MAX: return RED_MAX;
  case EXPR_MIN: return RED_MIN;
  case EXPR_AND: return RED_AND;
  case EXPR_OR: return RED_OR;
  default: return RED_OTHER;
  }
}

/* Sets red, value, acc from the update's value. False: the accumulator is read elsewhere too. */
static bool split_update(Sched *s, Stage *st, const Expr *update, const Expr *const *idx) {
  Var *acc = var_create(s->c, "acc", st->out->dtype);
  AccFind f = {st->out, idx, acc->expr, 0, false};
  const Expr *e = expr_rewrite(s->c, update, replace_acc, &f);
  if (f.other) return false;
  st->acc = acc;
  st->red = red_kind(e);
  if (st->red != RED_OTHER) {
    bool left = e->arg[0] == acc->expr, right = e->arg[1] == acc->expr;
    st->value = left ? e->arg[1] : e->arg[0];
    if (left == right || expr_uses_var(st->value, acc)) st->red = RED_OTHER;
  }
  if (st->red == RED_OTHER) st->value = e;
  return true;
}

const Expr *red_identity(Context *c, RedKind k, DType d) {
  if (k == RED_ADD) return expr_lit(c, d, 0);
  if (k == RED_MUL) return expr_lit(c, d, 1);
  return NULL;
}

bool red_any_order(RedKind k) {
  return k == RED_ADD || k == RED_MUL || k == RED_MAX || k == RED_MIN;
}

const Expr *red_combine(Context *c, const Stage *st, const Expr *acc, const Expr *value) {
  switch (st->red) {
  case RED_ADD: return expr_binary(c, EXPR_ADD, acc, value);
  case RED_MUL: return expr_binary(c, EXPR_MUL, acc, value);
  case RED_MAX: return expr_binary(c, EXPR_MAX, acc, value);
  case RED_MIN: return expr_binary(c, EXPR_MIN, acc, value);
  case RED_AND: return expr_binary(c, EXPR_AND, acc, value);
  case RED_OR: return expr_binary(c, EXPR_OR, acc, value);
  case RED_NONE:
  case RED_OTHER: break;
  }
  return value;
}

/* ---- extraction ---- */

static bool compact(const Buffer *b) {
  return !b->strides && !b->elem_offset && b->dtype.lanes == 1;
}

typedef struct {
  bool ok;
} Plain;
static bool check_plain(const Expr *e, void *ctx) {
  Plain *p = ctx;
  switch ((ExprKind)e->kind) {
  case EXPR_LOAD:
    if (e->has_pred || !compact(e->buf) || e->dtype.lanes != 1) p->ok = false;
    break;
  case EXPR_RAMP:
  case EXPR_BROADCAST:
  case EXPR_SHUFFLE:
  case EXPR_CALL_FUNC:
  case EXPR_BUF_DATA:
  case EXPR_LET: p->ok = false; break;
  case EXPR_CALL:
    if (!(intrin_table[e->intrin].flags & INTRIN_PURE) ||
        (intrin_table[e->intrin].flags & INTRIN_OPAQUE))
      p->ok = false;
    break;
  default: break;
  }
  return p->ok;
}
static bool is_plain(const Expr *e) {
  Plain p = {true};
  expr_walk(e, check_plain, &p);
  return p.ok;
}

/* Store indices: each a constant or linear in one spatial axis, each axis once, the rest of
 * extent 1. */
static bool check_store(Sched *s, Stage *st) {
  Context *c = s->c;
  bool used[MAX_AXES] = {false};
  uint32_t nd = st->out->ndim;
  st->oaxis = ARENA_ARRAY(s->tmp, int32_t, nd);
  st->covers = true;
  for (uint32_t i = 0; i < nd; i++) {
    const Dim *d = expr_dim(c, st->oidx[i]);
    int32_t axis = -1;
    for (uint32_t j = 0; j < st->naxes; j++) {
      if (!expr_uses_var(st->oidx[i], st->axes[j].var)) continue;
      const Dim *coef, *rest;
      int64_t k;
      if (axis >= 0 || j >= st->nspatial || used[j] ||
          !dim_linear(c, d, st->axes[j].var, &coef, &rest) || !dim_is_const(coef, &k) || !k)
        return false;
      axis = (int32_t)j;
      used[j] = true;
    }
    if (expr_has_load(st->oidx[i])) return false;
    st->oaxis[i] = axis >= 0 && st->oidx[i] == st->axes[axis].var->expr ? axis : -1;
    bool whole =
        st->oaxis[i] >= 0
            ? expr_proved_eq(c, st->axes[axis].extent, expr_cast(c, DT_I64, st->out->shape[i]))
            : axis < 0 && expr_is_int(st->oidx[i], 0) && expr_is_int(st->out->shape[i], 1);
    if (!whole) st->covers = false;
  }
  for (uint32_t j = 0; j < st->nspatial; j++)
    if (!used[j] && !expr_is_int(st->axes[j].extent, 1)) return false;
  return true;
}

static Stage *stage_of(Sched *s, Stmt *nest) {
  Context *c = s->c;
  Stmt *loops[MAX_AXES];
  bool bound[MAX_AXES] = {false};
  uint32_t n = 0;
  while (nest->kind == STMT_FOR) {
    if (n == MAX_AXES || nest->loop.step || !expr_is_int(nest->loop.min, 0)) return NULL;
    if (nest->loop.kind != FOR_SERIAL && !(nest->loop.kind == FOR_PARALLEL && n == 0)) return NULL;
    loops[n++] = nest;
    nest = nest->loop.body;
  }
  if (nest->kind != STMT_BLOCK) return NULL;
  SBlock *b = nest->block;
  if (b->nallocs || b->nmatches || b->niters > MAX_AXES || b->body->kind != STMT_STORE) return NULL;
  if (b->predicate && !(b->predicate->kind == EXPR_INT && b->predicate->i)) return NULL;
  if (b->init && b->init->kind != STMT_STORE) return NULL;
  Stage *st = ARENA_NEW(s->tmp, Stage);
  Map vars;
  map_init(&vars, s->tmp);
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < b->niters; i++) {
      const BlockIter *it = &b->iters[i];
      if (it->kind != ITER_SPATIAL && it->kind != ITER_REDUCE) return NULL;
      if ((it->kind == ITER_REDUCE) != (pass == 1)) continue;
      if (!dtype_is_sint(it->var->dtype) || !expr_is_int(it->dom.min, 0)) return NULL;
      const Expr *extent = it->dom.extent;
      if (it->value->kind == EXPR_VAR) {
        uint32_t j = 0;
        while (j < n && loops[j]->loop.var != it->value->var) j++;
        if (j == n || bound[j] || !expr_proved_eq(c, loops[j]->loop.extent, extent)) return NULL;
        bound[j] = true;
      } else if (!expr_is_int(it->value, 0) || !expr_is_int(extent, 1)) {
        return NULL;
      }
      Axis *ax = &st->axes[st->naxes++];
      ax->var = loop_var(c, it->var->name);
      ax->extent = expr_simplify(c, expr_cast(c, DT_I64, extent));
      const Expr *e = ax->var->expr;
      if (expr_is_int(ax->extent, 1)) e = i64(c, 0);
      map_setp(&vars, it->var, (void *)expr_cast(c, it->var->dtype, e));
    }
    if (pass == 0) st->nspatial = st->naxes;
  }
  for (uint32_t i = 0; i < n; i++)
    if (!bound[i] && !expr_is_int(loops[i]->loop.extent, 1)) return NULL;
  Stmt *store = b->body;
  if (store->store.pred || !compact(store->store.buf) || !is_plain(store->store.value)) return NULL;
  st->name = b->name;
  st->span = nest->span;
  st->out = store->store.buf;
  const Expr *value = subst_vars(c, &vars, store->store.value);
  uint32_t nd = st->out->ndim;
  if (nd > MAX_AXES) return NULL;
  const Expr **raw = ARENA_ARRAY(s->tmp, const Expr *, nd);
  st->oidx = ARENA_ARRAY(s->tmp, const Expr *, nd);
  for (uint32_t i = 0; i < nd; i++) {
    raw[i] = subst_vars(c, &vars, store->store.idx[i]);
    st->oidx[i] = stage_simplify(s, st, expr_simplify(c, widen(c, raw[i])));
  }
  if (b->init) {
    const Stmt *in = b->init;
    if (in->store.buf != st->out || in->store.pred || !is_plain(in->store.value)) return NULL;
    for (uint32_t i = 0; i < nd; i++)
      if (in->store.idx[i] != store->store.idx[i]) return NULL;
    st->init = subst_vars(c, &vars, in->store.value);
    for (uint32_t i = st->nspatial; i < st->naxes; i++)
      if (expr_uses_var(st->init, st->axes[i].var)) return NULL;
    if (expr_has_load(st->init) || !split_update(s, st, value, raw)) return NULL;
    st->value = stage_simplify(s, st, st->value);
  } else {
    if (st->naxes != st->nspatial) return NULL; /* accumulates into what is there already */
    st->value = stage_simplify(s, st, value);
    Var *acc = var_create(c, "self", st->out->dtype);
    AccFind f = {st->out, st->oidx, acc->expr, 0, false};
    expr_rewrite(c, st->value, replace_acc, &f);
    if (f.other) return NULL; /* reads what another iteration overwrites */
  }
  return check_store(s, st) ? st : NULL;
}

/* ---- order of reads and writes ---- */

typedef struct {
  Sched *s;
  Map written, read; /* data Var -> non-NULL */
  Map now_written, now_read;
} Hazard;

static void note_load(const Expr *load, void *ctx) {
  Hazard *h = ctx;
  map_setp(&h->now_read, load->buf->data, load->buf);
}
static void note_expr(const Expr *e, void *ctx) {
  expr_loads(e, note_load, ctx);
}
static bool note_stmt(const Stmt *st, void *ctx) {
  Hazard *h = ctx;
  stmt_exprs(st, note_expr, h);
  if (st->kind == STMT_STORE) map_setp(&h->now_written, st->store.buf->data, st->store.buf);
  /* what hides accesses: calls with addresses, aliases */
  if (st->kind == STMT_DECL || st->kind == STMT_EVAL || st->kind == STMT_RETURN)
    h->s->simple = false;
  return true;
}

static void check_hazards(Sched *s) {
  Hazard h = {.s = s};
  map_init(&h.written, s->tmp);
  map_init(&h.read, s->tmp);
  s->simple = true;
  for (uint32_t i = 0; i < s->items.n; i++) {
    map_init(&h.now_written, s->tmp);
    map_init(&h.now_read, s->tmp);
    Item *it = &s->items.at[i];
    if (it->stage) {
      expr_loads(it->stage->value, note_load, &h);
      map_setp(&h.now_written, it->stage->out->data, it->stage->out);
    } else {
      stmt_walk(it->opaque, note_stmt, &h);
    }
    for (uint32_t j = 0; j < h.now_written.n; j++) {
      uint64_t k = h.now_written.entries[j].key;
      if (map_has(&h.written, k) || map_has(&h.read, k)) s->simple = false;
      map_set(&h.written, k, h.now_written.entries[j].value);
    }
    for (uint32_t j = 0; j < h.now_read.n; j++)
      map_set(&h.read, h.now_read.entries[j].key, h.now_read.entries[j].value);
  }
}

/* No element is written. */
static bool is_empty(const Stage *st) {
  for (uint32_t i = 0; i < st->nspatial; i++)
    if (expr_is_int(st->axes[i].extent, 0)) return true;
  return false;
}

void stages_extract(Sched *s) {
  Stmt *body = s->root->body;
  Stmt *one[] = {body};
  Stmt **at = body->kind == STMT_SEQ ? body->seq.at : one;
  uint32_t n = body->kind == STMT_SEQ ? body->seq.n : 1;
  for (uint32_t i = 0; i < n; i++) {
    Item it = {stage_of(s, at[i]), NULL};
    if (!it.stage)
      it.opaque = at[i];
    else if (is_empty(it.stage))
      continue;
    vec_push(s->tmp, &s->items, it);
  }
  check_hazards(s);
}
