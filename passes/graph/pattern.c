/* The kind of a prim_func, from the index maps of its blocks.
 *
 * Understood are functions whose root holds assertions about dims and nests of serial loops around
 * one block each, a block that stores one element per point of its spatial axes. A load with the
 * indices of the store is elementwise, one with some of them in order a broadcast, any other
 * injective; reduction axes make a reduction, and a sum of products whose factors run over
 * different axes a contraction. Through temporaries the worst step counts. Everything else is
 * opaque: never fused, always right.
 */
#include "passes/graph/pattern.h"
#include "ir/facts.h"
#include <string.h>

enum { MAX_RANK = 64 };

typedef struct {
  Context *c;
  Arena *a;
  const PrimFunc *f;
  Map written; /* Buffer -> its Written */
  bool opaque, reduction, contraction;
  const Buffer *last_reduced;
  int32_t rows;       /* -2: no reduction seen yet */
  int32_t *row_reads; /* per parameter; -2: not read by a reduction yet */
} Analysis;

/* How a buffer depends on each parameter. */
typedef struct {
  uint8_t kind;   /* the worst of all its inputs */
  bool used;      /* read by a later block */
  uint8_t *reads; /* per parameter; UNREAD when it does not depend on it */
} Written;
enum { UNREAD = 255 };

typedef struct {
  Analysis *x;
  const SBlock *b;
  const Stmt *store;
  Written *to;
  bool reduces;
  bool reads_self;
} Visit;

static int param_index(const PrimFunc *f, const Buffer *b) {
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->param_bufs[i] == b) return (int)i;
  return -1;
}

static bool is_axis(const SBlock *b, const Expr *e, IterKind kind) {
  for (uint32_t i = 0; i < b->niters; i++)
    if (b->iters[i].var->expr == e) return b->iters[i].kind == kind;
  return false;
}

/* Whether index i of the load runs over all of that dim where it runs over an axis of `extent`:
 * else it is a slice. */
static bool takes_all(const Visit *v, const Expr *load, uint32_t i, const Expr *extent) {
  Context *c = v->x->c;
  const Dim *have = expr_dim(c, load->buf->shape[i]);
  return prove_eq(c, NULL, have, expr_dim(c, extent)) != PROOF_NO;
}

/* Whether the load has index i of the store; an axis of extent 1 may be written as 0. */
static bool same_index(const Visit *v, const Expr *load, uint32_t i) {
  const Stmt *s = v->store;
  const Expr *extent = s->store.buf->shape[i];
  bool same =
      load->arg[i] == s->store.idx[i] || (expr_is_int(load->arg[i], 0) && expr_is_int(extent, 1));
  return same && takes_all(v, load, i, extent);
}

static int load_relation(const Visit *v, const Expr *load) {
  const Buffer *to = v->store->store.buf;
  const Expr *const *out = v->store->store.idx;
  uint32_t nout = to->ndim, at = 0;
  bool same = load->n == nout;
  for (uint32_t i = 0; same && i < nout; i++) same = same_index(v, load, i);
  if (same) return PATTERN_ELEMWISE;
  for (uint32_t i = 0; i < load->n; i++) {
    const Expr *e = load->arg[i];
    if (expr_is_int(e, 0)) continue;
    while (at < nout && out[at] != e) at++;
    if (at == nout || !takes_all(v, load, i, to->shape[at++])) return PATTERN_INJECTIVE;
  }
  return PATTERN_BROADCAST;
}

/* The number of leading indices that the load shares with the store, when all others are reduction
 * axes; -1 otherwise. */
static int32_t load_rows(const Visit *v, const Expr *load) {
  uint32_t rows = 0, ndim = v->store->store.buf->ndim;
  while (rows < load->n && rows < ndim && same_index(v, load, rows)) rows++;
  for (uint32_t i = rows; i < load->n; i++)
    if (!is_axis(v->b, load->arg[i], ITER_REDUCE)) return -1;
  return (int32_t)rows;
}

static uint8_t worse(uint8_t a, uint8_t b) {
  if (a == UNREAD) return b;
  return a > b || b == UNREAD ? a : b;
}

static bool visit_load(const Expr *e, void *ctx) {
  Visit *v = ctx;
  Analysis *x = v->x;
  if (e->kind == EXPR_CALL_FUNC || e->kind == EXPR_BUF_DATA ||
      (e->kind == EXPR_CALL && !(intrin_table[e->intrin].flags & INTRIN_PURE)))
    x->opaque = true;
  if (e->kind != EXPR_LOAD) return true;
  if (e->buf == v->store->store.buf) {
    v->reads_self = true;
    return true;
  }
  int p = param_index(x->f, e->buf);
  uint8_t r = v->reduces ? PATTERN_REDUCE : (uint8_t)load_relation(v, e);
  if (v->reduces) {
    int32_t rows = load_rows(v, e);
    x->rows = x->rows == -2 || x->rows == rows ? rows : -1;
    if (p >= 0) x->row_reads[p] = x->row_reads[p] == -2 ? rows : -1;
  }
  Written *w = map_getp(&x->written, e->buf);
  if (w) { /* a temporary (or an output read again): its inputs, at least this badly */
    w->used = true;
    v->to->kind = worse(v->to->kind, worse(r, w->kind));
    for (uint32_t i = 0; i < x->f->nparams; i++)
      if (w->reads[i] != UNREAD) v->to->reads[i] = worse(v->to->reads[i], worse(r, w->reads[i]));
  } else if (p >= 0) {
    v->to->kind = worse(v->to->kind, r);
    v->to->reads[p] = worse(v->to->reads[p], r);
  } else {
    x->opaque = true; /* read before written */
  }
  return true;
}

/* ---- contractions ---- */

static const Expr *strip(const Expr *e) {
  for (;;) {
    if (e->kind == EXPR_CAST)
      e = e->arg[0];
    else if (e->kind == EXPR_CALL && e->intrin == INTRIN_if_then_else)
      e = e->arg[1]->kind == EXPR_FLOAT || e->arg[1]->kind == EXPR_INT ? e->arg[2] : e->arg[1];
    else if (e->kind == EXPR_SELECT)
      e = e->arg[1]->kind == EXPR_FLOAT || e->arg[1]->kind == EXPR_INT ? e->arg[2] : e->arg[1];
    else
      return e;
  }
}

/* Axes of the given kind that e uses, as bits. */
static uint64_t axes_of(const SBlock *b, const Expr *e, IterKind kind) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < b->niters && i < MAX_RANK; i++)
    if (b->iters[i].kind == kind && expr_uses_var(e, b->iters[i].var)) bits |= UINT64_C(1) << i;
  return bits;
}

static bool is_contraction(const SBlock *b, const Stmt *store) {
  const Expr *v = store->store.value;
  if (v->kind != EXPR_ADD) return false;
  const Expr *term = NULL;
  for (int k = 0; k < 2; k++)
    if (v->arg[k]->kind == EXPR_LOAD && v->arg[k]->buf == store->store.buf) term = v->arg[1 - k];
  if (!term) return false;
  term = strip(term);
  if (term->kind != EXPR_MUL) return false;
  const Expr *p = strip(term->arg[0]), *q = strip(term->arg[1]);
  if (p->kind != EXPR_LOAD || q->kind != EXPR_LOAD) return false;
  if (!axes_of(b, p, ITER_REDUCE) || !axes_of(b, q, ITER_REDUCE)) return false;
  return axes_of(b, p, ITER_SPATIAL) != axes_of(b, q, ITER_SPATIAL);
}

/* ---- blocks ---- */

static const Stmt *only_store(const Stmt *s) {
  while (s && s->kind == STMT_SEQ && s->seq.n == 1) s = s->seq.at[0];
  return s && s->kind == STMT_STORE && !s->store.pred ? s : NULL;
}

/* Every spatial axis once, the other indices 0. */
static bool covers_axes(const SBlock *b, const Stmt *store) {
  uint32_t found = 0, spatial = 0;
  for (uint32_t i = 0; i < store->store.buf->ndim; i++) {
    const Expr *e = store->store.idx[i];
    if (expr_is_int(e, 0)) continue;
    if (!is_axis(b, e, ITER_SPATIAL)) return false;
    for (uint32_t k = 0; k < i; k++)
      if (store->store.idx[k] == e) return false;
    found++;
  }
  for (uint32_t i = 0; i < b->niters; i++) {
    if (b->iters[i].kind == ITER_REDUCE) continue;
    if (b->iters[i].kind != ITER_SPATIAL) return false;
    spatial += !expr_is_int(b->iters[i].dom.extent, 1);
  }
  return found >= spatial;
}

static void analyse_block(Analysis *x, const SBlock *b) {
  const Stmt *store = only_store(b->body);
  Visit v = {.x = x, .b = b, .store = store};
  x->opaque = x->opaque || !store || b->predicate || b->nallocs || b->nmatches ||
              (b->init && !only_store(b->init)) || b->niters > MAX_RANK;
  if (x->opaque || !covers_axes(b, store)) {
    x->opaque = true;
    return;
  }
  Buffer *out = store->store.buf;
  for (uint32_t i = 0; i < b->niters; i++) v.reduces |= b->iters[i].kind == ITER_REDUCE;
  if (map_getp(&x->written, out) || v.reduces != (b->init != NULL)) {
    x->opaque = true; /* written twice, or a reduction without a start */
    return;
  }
  if (b->init && only_store(b->init)->store.buf != out) x->opaque = true;
  v.to = ARENA_NEW(x->a, Written);
  v.to->reads = ARENA_ARRAY(x->a, uint8_t, x->f->nparams);
  memset(v.to->reads, UNREAD, x->f->nparams);
  expr_walk(store->store.value, visit_load, &v);
  for (uint32_t i = 0; i < out->ndim; i++)
    if (expr_has_load(store->store.idx[i])) x->opaque = true;
  if (v.reads_self != v.reduces) x->opaque = true;
  if (v.reduces) {
    bool product = is_contraction(b, store);
    x->reduction = true;
    x->contraction |= product;
    x->last_reduced = out;
    v.to->kind = product ? PATTERN_ANCHOR : PATTERN_REDUCE;
    for (uint32_t i = 0; product && i < x->f->nparams; i++)
      if (v.to->reads[i] != UNREAD) v.to->reads[i] = PATTERN_ANCHOR;
  }
  map_setp(&x->written, out, v.to);
}

bool is_dim_check(const Stmt *s) {
  return s->kind == STMT_ASSERT && !expr_has_load(s->assert_.cond);
}

static void analyse(Analysis *x, const Stmt *s) {
  if (!s) return;
  if (s->kind == STMT_SEQ) {
    for (uint32_t i = 0; i < s->seq.n && !x->opaque; i++) analyse(x, s->seq.at[i]);
    return;
  }
  if (is_dim_check(s)) return;
  while (s->kind == STMT_FOR && s->loop.kind != FOR_THREAD && !s->loop.step) s = s->loop.body;
  if (s->kind == STMT_BLOCK)
    analyse_block(x, s->block);
  else
    x->opaque = true;
}

/* ---- pure reshapes ---- */

/* The one block of f, or NULL. */
static const SBlock *only_block(const SBlock *root) {
  const Stmt *s = root->body;
  while (s && (s->kind == STMT_FOR || (s->kind == STMT_SEQ && s->seq.n == 1)))
    s = s->kind == STMT_FOR ? s->loop.body : s->seq.at[0];
  return s && s->kind == STMT_BLOCK && root->nallocs == 0 ? s->block : NULL;
}

/* out[idx] = in[f(idx)] where both linear positions agree for all idx within the block's domain. */
static bool is_reshape(Analysis *x) {
  const SBlock *b = only_block(primfunc_root(x->f));
  const Stmt *s = b ? only_store(b->body) : NULL;
  Context *c = x->c;
  if (!s || s->store.value->kind != EXPR_LOAD) return false;
  const Expr *load = s->store.value;
  const Buffer *in = load->buf, *out = s->store.buf;
  if (!dtype_eq(in->dtype, out->dtype) || load->has_pred) return false;
  for (uint32_t i = 0; i < load->n; i++)
    if (expr_has_load(load->arg[i])) return false;
  const Dim *nin = expr_dim(c, expr_product(c, in->shape, in->ndim));
  const Dim *nout = expr_dim(c, expr_product(c, out->shape, out->ndim));
  if (prove_eq(c, NULL, nin, nout) != PROOF_YES) return false;
  Facts *f = facts_create(c, x->a);
  for (uint32_t i = 0; i < b->niters; i++)
    facts_below(f, b->iters[i].var, expr_dim(c, b->iters[i].dom.min),
                dim_add(c, expr_dim(c, b->iters[i].dom.min), expr_dim(c, b->iters[i].dom.extent)));
  const Dim *at = expr_dim(c, buffer_offset(c, in, load->arg));
  const Dim *to = expr_dim(c, buffer_offset(c, out, s->store.idx));
  return dim_simplify(c, f, at) == dim_simplify(c, f, to) || prove_eq(c, f, at, to) == PROOF_YES;
}

/* out[i, j, k] = in[j + 4, i * 8 + k]: axes exchanged, split or cut. Every axis stands once in the
 * load, and along one of each index's axes neighbours stay neighbours. */
static bool is_copy(Context *c, const PrimFunc *f) {
  const SBlock *b = only_block(primfunc_root(f));
  const Stmt *s = b ? only_store(b->body) : NULL;
  const Expr *load = s ? s->store.value : NULL;
  uint32_t found[MAX_RANK] = {0};
  if (!load || load->kind != EXPR_LOAD || load->has_pred || b->niters > MAX_RANK) return false;
  for (uint32_t i = 0; i < load->n; i++) {
    bool any = false, next = false;
    if (expr_has_load(load->arg[i])) return false;
    for (uint32_t k = 0; k < b->niters; k++) {
      const Dim *coef, *rest;
      int64_t step;
      if (!dim_linear(c, expr_dim(c, load->arg[i]), b->iters[k].var, &coef, &rest) ||
          !dim_is_const(coef, &step) || step < 0)
        return false;
      found[k] += step > 0;
      any |= step > 0;
      next |= step == 1;
    }
    if (any && !next) return false;
  }
  for (uint32_t k = 0; k < b->niters; k++)
    if (found[k] != 1 && !expr_is_int(b->iters[k].dom.extent, 1)) return false;
  return true;
}

static bool is_plain_buffer(const Buffer *b) {
  return !b->strides && !b->elem_offset && strcmp(b->scope, "global") == 0;
}

/* ---- joins ---- */

/* The elements lo <= i < hi along an axis of the only store, and what was found so far. */
typedef struct {
  Context *c;
  const PrimFunc *f;
  const Stmt *store;
  const Expr *axis; /* index `at` of the store; NULL: no condition seen yet */
  uint32_t at, n, *order;
} Joins;

/* Whether `load` is a whole parameter, the elements lo to hi of the result along the axis. */
static bool is_part(Joins *x, const Expr *load, const Dim *lo, const Dim *hi) {
  Context *c = x->c;
  const Stmt *s = x->store;
  const Buffer *from = load->buf, *to = s->store.buf;
  int param = param_index(x->f, from);
  if (param < 0 || load->has_pred || load->n != to->ndim || !is_plain_buffer(from) ||
      !dtype_eq(from->dtype, to->dtype) || x->n == x->f->nparams)
    return false;
  for (uint32_t i = 0; i < load->n; i++) {
    bool along = i == x->at;
    const Dim *index = expr_dim(c, load->arg[i]), *have = expr_dim(c, from->shape[i]);
    const Dim *place = expr_dim(c, s->store.idx[i]), *want = expr_dim(c, to->shape[i]);
    if (along) index = dim_add(c, index, lo);
    if (along) want = dim_sub(c, hi, lo);
    if (prove_eq(c, NULL, index, place) != PROOF_YES || prove_eq(c, NULL, have, want) != PROOF_YES)
      return false;
  }
  x->order[x->n++] = (uint32_t)param;
  return true;
}

/* Where a condition cuts an axis in two. */
typedef struct {
  const Expr *axis, *at;
  bool below; /* true below `at`; else from there on */
} Cut;

static Cut cut_of(const Expr *e) {
  const Expr *l = e->arg[0], *r = e->arg[1];
  switch (e->kind) {
  case EXPR_LT: return (Cut){l, r, true};
  case EXPR_GT: return (Cut){r, l, true};
  case EXPR_LE: return (Cut){r, l, false};
  case EXPR_GE: return (Cut){l, r, false};
  default: return (Cut){0};
  }
}

/* if_then_else(i < m, elements lo to m, elements m to hi), and so on. */
static bool take_parts(Joins *x, const Expr *e, const Dim *lo, const Dim *hi) {
  if (e->kind == EXPR_LOAD) return x->axis && is_part(x, e, lo, hi);
  if (e->kind != EXPR_CALL || e->intrin != INTRIN_if_then_else) return false;
  Cut cut = cut_of(e->arg[0]);
  const Stmt *s = x->store;
  for (uint32_t i = 0; !x->axis && i < s->store.buf->ndim; i++) {
    if (s->store.idx[i] != cut.axis) continue;
    x->axis = cut.axis;
    x->at = i;
    lo = dim_const(x->c, 0);
    hi = expr_dim(x->c, s->store.buf->shape[i]);
  }
  if (!x->axis || cut.axis != x->axis || expr_has_load(cut.at)) return false;
  const Dim *m = expr_dim(x->c, cut.at);
  return take_parts(x, e->arg[cut.below ? 1 : 2], lo, m) &&
         take_parts(x, e->arg[cut.below ? 2 : 1], m, hi);
}

uint32_t tir_joins(Context *c, Arena *a, const PrimFunc *f, const uint32_t **order) {
  const SBlock *root = f->s_tir ? primfunc_root(f) : NULL, *b = root ? only_block(root) : NULL;
  const Stmt *s = b ? only_store(b->body) : NULL;
  if (!s || b->init || !is_plain_buffer(s->store.buf) || !covers_axes(b, s)) return 0;
  Joins x = {.c = c, .f = f, .store = s, .order = ARENA_ARRAY(a, uint32_t, f->nparams + 1)};
  int result = param_index(f, s->store.buf);
  if (result < 0 || !take_parts(&x, s->store.value, NULL, NULL)) return 0;
  for (uint32_t i = 0; i < x.at; i++)
    if (!expr_is_int(s->store.buf->shape[i], 1)) return 0;
  x.order[x.n] = (uint32_t)result;
  *order = x.order;
  return x.n;
}

TirPattern tir_pattern(Context *c, Arena *a, const PrimFunc *f) {
  Analysis x = {.c = c, .a = a, .f = f, .rows = -2};
  TirPattern p = {.kind = PATTERN_OPAQUE, .rows = -1};
  uint8_t *reads = ARENA_ARRAY(a, uint8_t, f->nparams);
  const SBlock *root = primfunc_root(f);
  x.row_reads = ARENA_ARRAY(a, int32_t, f->nparams);
  for (uint32_t i = 0; i < f->nparams; i++) x.row_reads[i] = -2;
  p.row_reads = x.row_reads;
  p.reads = reads;
  memset(reads, PATTERN_OPAQUE, f->nparams);
  map_init(&x.written, a);
  x.opaque = !f->s_tir || !root || root->niters || root->init || root->nmatches ||
             dtype_known(f->ret) || attr_get_bool(f->attrs, "relaxc.scheduled", false);
  for (uint32_t i = 0; i < f->nparams && !x.opaque; i++)
    x.opaque = f->param_bufs[i] && !is_plain_buffer(f->param_bufs[i]);
  if (!x.opaque) analyse(&x, root->body);
  uint8_t kind = PATTERN_ELEMWISE;
  memset(reads, x.opaque ? PATTERN_OPAQUE : UNREAD, f->nparams);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Written *w = f->param_bufs[i] ? map_getp(&x.written, f->param_bufs[i]) : NULL;
    if (!w) {
      if (p.noutputs) x.opaque = true; /* an input after an output */
      p.ninputs++;
      continue;
    }
    p.noutputs++;
    if (w->used && x.reduction) kind = PATTERN_ANCHOR;
    kind = worse(kind, w->kind);
    for (uint32_t k = 0; k < f->nparams; k++) reads[k] = worse(reads[k], w->reads[k]);
  }
  if (x.opaque || p.noutputs == 0) return p;
  if (x.reduction && (x.contraction || param_index(f, x.last_reduced) < 0)) kind = PATTERN_ANCHOR;
  p.kind = kind;
  p.contraction = x.contraction;
  p.rows = x.reduction && x.rows >= 0 ? x.rows : -1;
  for (uint32_t k = 0; k < f->nparams; k++)
    if (reads[k] == UNREAD) reads[k] = PATTERN_ELEMWISE;
  p.reshape = kind <= PATTERN_INJECTIVE && p.noutputs == 1 && is_reshape(&x);
  p.copy = kind <= PATTERN_INJECTIVE && p.noutputs == 1 && is_copy(c, f);
  return p;
}
