/* Constant operands of contractions: packed at compile time, and what is known of their values.
 *
 *   before: call_tir(f, (x, const w (K, N)))
 *   after:  call_tir(f, (x, const w (panels, K, width))), f's parameter reshaped alike
 *
 * Where every call passes a constant for the column operand of f's one contraction that reads it.
 * The layout is that of pack.c; its width is the target's, so every variant reads the same data.
 * Zeros of a padding times an operand without infinity and NaN may be left out: such operands are
 * noted, those that are packed and small ones.
 */
#include <math.h>

#include "ir/op.h"
#include "ir/ops/attrs.h"
#include "passes/loop/contraction.h"

#define TURN_STEPS 16    /* steps of k that turning a tile in registers costs */
#define SCATTER_STEPS 40 /* the same of storing a vector lane by lane */
#define PAIRS 0.85       /* speed with two loads and a shuffle for a vector of every second */
#define SOME_LANES 0.9   /* used of a symbolic extent: it may be short */
#define SMALL_BYTES (16 * 1024) /* up to here reading in place is as good */
#define LOOK_BYTES                                                                                 \
  (256 * 1024) /* up to here values of other operands than that of the columns are looked at */

typedef VEC(Node *) NodeVec;

typedef struct {
  const PrimFunc *f;
  NodeVec calls;
  bool other; /* f is used in some other way */
  Arena *tmp;
} Callers;

static void find_calls(Node *n, void *ctx) {
  Callers *k = ctx;
  for (uint32_t i = 0; i < n->nin; i++) {
    const Node *d = node_in(n, i);
    if (d->op != OP_GLOBAL || strcmp(d->str, k->f->name)) continue;
    if (i == 0 && n->op == OP_call_tir)
      vec_push(k->tmp, &k->calls, n);
    else
      k->other = true;
  }
}

typedef struct {
  Context *c;
  const Expr **loads;
  const Buffer *b;
  uint32_t n;
} CountLoads;
static void count_load(const Expr *load, void *ctx) {
  CountLoads *k = ctx;
  if (load->buf == k->b) k->n++;
}

static bool uses_buffer(const Expr *e, void *ctx) {
  CountLoads *k = ctx;
  if ((e->kind == EXPR_LOAD || e->kind == EXPR_BUF_DATA) && e->buf->data == k->b->data) k->n++;
  return true;
}
static void uses_expr(const Expr *e, void *ctx) {
  expr_walk(e, uses_buffer, ctx);
}
static bool uses_stmt(const Stmt *s, void *ctx) {
  stmt_exprs(s, uses_expr, ctx);
  return true;
}

/* What is needed to copy: offsets in the original of (k, n). */
typedef struct {
  uint32_t param;
  int64_t base, n, n_stride;
  int64_t k[MAX_AXES], k_stride[MAX_AXES], nk, total;
  uint32_t width;
} Packing;

static bool all_constant(const NodeVec *calls, uint32_t param) {
  for (uint32_t i = 0; i < calls->n; i++)
    if (calls->at[i]->nin <= 1 + param || node_in(calls->at[i], 1 + param)->op != OP_CONST)
      return false;
  return calls->n > 0;
}

static bool is_constant(const PrimFunc *f, const NodeVec *calls, const Buffer *b, uint32_t *param) {
  for (*param = 0; *param < f->nparams; ++*param)
    if (f->param_bufs[*param] == b) return all_constant(calls, *param);
  return false;
}

/* Part of the lanes that do something when n columns are taken in vectors. */
static double lanes_used(int64_t n, uint32_t lanes) {
  return (double)n / (double)((n + lanes - 1) / lanes * lanes);
}

/* Whether a convolution does better with its constant operand's axis in lanes, where the result's
 * columns then are stored one by one. */
static bool better_swapped(Sched *s, const Contraction *con, const Contraction *other) {
  const Target *t = s->lc->pc->target;
  uint32_t lanes = variant_lanes(&t->variants[t->nvariants - 1], con->d);
  int64_t n, m, k;
  bool turned = other->m.var == con->n.var; /* the result is contiguous along its rows */
  if ((con->nk < 2 && !turned) || !expr_const_int(s->c, other->n.extent, &m) ||
      !expr_const_int(s->c, con->ktotal, &k))
    return false;
  int64_t stride = 0;
  bool pairs = dim_is_const(con->b_stride, &stride) && stride == 2;
  double used = expr_const_int(s->c, con->n.extent, &n) ? lanes_used(n, lanes) : SOME_LANES;
  double plain = used * (con->b_unit ? 1 : pairs ? PAIRS : 0.25);
  double swapped =
      lanes_used(m, lanes) * (double)k / (double)(k + (turned ? TURN_STEPS : SCATTER_STEPS));
  return swapped > plain * 1.02;
}

/* Fills p when g's contraction has a parameter for its column operand that can be packed; p->param
 * also when it stays as it is, such as weights in blocks. */
static bool plan_packing(Sched *s, Group *g, const NodeVec *calls, Packing *p) {
  Context *c = s->c;
  const PrimFunc *f = s->lc->f;
  Emit em;
  emit_init(&em, s, g);
  emit_collapse(&em);
  Contraction con, other;
  uint32_t param, other_param;
  if (!contraction_find(s, g, false, &con) || dots_suit_columns(s, &con)) return false;
  for (uint32_t i = 0; i < g->n; i++)
    if (!vec_possible(g->stages[i]->value)) return false;
  bool swapped = false;
  if (!is_constant(f, calls, factor_load(con.b)->buf, &param)) {
    if (!contraction_find(s, g, true, &other) ||
        !is_constant(f, calls, factor_load(other.b)->buf, &other_param) ||
        !better_swapped(s, &con, &other))
      return false;
    con = other;
    param = other_param;
    swapped = true;
  }
  *p = (Packing){.param = param};
  if (con.b_outer) return false;
  const Expr *load = factor_load(con.b);
  /* read nowhere else */
  CountLoads k = {.c = c, .b = load->buf};
  for (uint32_t i = 0; i < s->items.n; i++) {
    if (s->items.at[i].stage)
      expr_loads(s->items.at[i].stage->value, count_load, &k);
    else
      stmt_walk(s->items.at[i].opaque, uses_stmt, &k);
  }
  if (k.n != 1) return false;
  const Dim *off = flat_offset(s->lc, load->buf, load->arg), *coef, *rest;
  if (!expr_const_int(c, con.n.extent, &p->n) || !dim_linear(c, off, con.n.var, &coef, &rest) ||
      !dim_is_const(coef, &p->n_stride))
    return false;
  off = rest;
  p->nk = con.nk;
  p->total = 1;
  for (uint32_t i = 0; i < con.nk; i++) {
    if (!expr_const_int(c, con.k[i].extent, &p->k[i]) ||
        !dim_linear(c, off, con.k[i].var, &coef, &rest) || !dim_is_const(coef, &p->k_stride[i]))
      return false;
    off = rest;
    p->total *= p->k[i];
  }
  for (uint32_t i = 0; i < em.fixed.n; i++) { /* collapsed axes stand at 0 */
    const Var *v = (const Var *)(uintptr_t)em.fixed.entries[i].key;
    if (!dim_linear(c, off, v, &coef, &rest)) return false;
    off = rest;
  }
  if (!dim_is_const(off, &p->base) || p->n <= 0 || p->total <= 0) return false;
  p->width = s->lc->pc->target->panel_lanes * 32 / load->dtype.bits;
  int64_t bytes = p->n * p->total * (int64_t)dtype_bytes(load->dtype);
  return p->width > 1 && dtype_eq(load->dtype, con.d) &&
         (bytes > SMALL_BYTES || !con.b_unit || swapped || con.a_columns);
}

static ConstData *pack_data(PassCtx *pc, const ConstData *d, const Packing *p) {
  size_t elem = dtype_bytes(d->dtype);
  int64_t panels = (p->n + p->width - 1) / p->width;
  int64_t dims[] = {panels, p->total, p->width};
  char *out = const_alloc(pc->m, (size_t)(panels * p->total) * p->width * elem);
  const char *in = d->bytes;
  for (int64_t k = 0; k < p->total; k++) {
    int64_t off = p->base, rest = k;
    for (int64_t i = p->nk; i-- > 0;) {
      off += rest % p->k[i] * p->k_stride[i];
      rest /= p->k[i];
    }
    for (int64_t n = 0; n < p->n; n++) {
      int64_t to = (n / p->width * p->total + k) * p->width + n % p->width;
      memcpy(out + (size_t)to * elem, in + (size_t)(off + n * p->n_stride) * elem, elem);
    }
  }
  ConstData *r = const_create(pc->m, d->dtype, dims, 3, out);
  r->name = d->name;
  if (d->mapped) pages_forget(d->bytes, d->size); /* two copies of all weights are too many */
  return r;
}

static bool is_finite(const ConstData *d) {
  bool all = true;
  if (dtype_eq(d->dtype, DT_F32)) {
    const float *x = d->bytes;
    for (size_t i = 0; i < d->size / sizeof *x; i++) all &= isfinite(x[i]) != 0;
  } else if (dtype_eq(d->dtype, DT_F64)) {
    const double *x = d->bytes;
    for (size_t i = 0; i < d->size / sizeof *x; i++) all &= isfinite(x[i]) != 0;
  } else {
    all = dtype_is_int(d->dtype);
  }
  return all;
}

/* Whether no call passes an infinity or a NaN for a parameter, nor anything large. */
static bool all_finite(const NodeVec *calls, uint32_t param, size_t most) {
  if (!all_constant(calls, param)) return false;
  for (uint32_t i = 0; i < calls->n; i++) {
    const ConstData *d = node_in(calls->at[i], 1 + param)->data;
    if (d->size > most || !is_finite(d)) return false;
  }
  return true;
}

/* Node that replaces constant `old`, in place at its use. */
static Node *packed_node(PassCtx *pc, Node *call, const Node *old, const Packing *p, Map *done) {
  ConstData *d = map_getp(done, old->data);
  if (!d) {
    d = pack_data(pc, old->data, p);
    map_setp(done, old->data, d);
  }
  return node_const(call->func, d, old->span);
}

typedef struct {
  const PrimFunc *f;
  const NodeVec *calls;
  uint32_t columns; /* parameter that gives the columns: looked at whatever its size */
  Arena *a;
  const Attr **list;
  uint32_t *n;
} FindFinite;
static void find_finite(const Expr *load, void *ctx) {
  FindFinite *k = ctx;
  uint32_t param;
  if (*k->n < MAX_AXES && is_constant(k->f, k->calls, load->buf, &param) &&
      all_finite(k->calls, param, param == k->columns ? SIZE_MAX : LOOK_BYTES))
    k->list[(*k->n)++] = attr_int(k->a, param);
}

/* An item of relaxc.packed: parameter, dims of the panels, number and stride of columns in the
 * original, and for each axis of the steps the same. */
enum {
  PACKED_PARAM,
  PACKED_DIMS,
  PACKED_N = PACKED_DIMS + 3,
  PACKED_STRIDE,
  PACKED_STEPS,
};
static const Attr *packing_attr(Arena *a, const Packing *p) {
  const Attr *items[PACKED_STEPS + 2 * MAX_AXES];
  int64_t panels = (p->n + p->width - 1) / p->width;
  int64_t v[] = {p->param, panels, p->total, p->width, p->n, p->n_stride};
  uint32_t n = 0;
  for (; n < PACKED_STEPS; n++) items[n] = attr_int(a, v[n]);
  for (int64_t i = 0; i < p->nk; i++) {
    items[n++] = attr_int(a, p->k[i]);
    items[n++] = attr_int(a, p->k_stride[i]);
  }
  return attr_list(a, items, n);
}

bool packed_order(Sched *s, Contraction *con) {
  const Expr *load = factor_load(con->b);
  const Attr *packing = map_getp(&s->lc->packings, load->buf), *const *v = packing->items;
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  int64_t stride;
  if (con->b_outer || !expr_is_int(con->n.extent, v[PACKED_N]->i) ||
      !dim_is_const(con->b_stride, &stride) || stride != v[PACKED_STRIDE]->i ||
      con->nk != (packing->n - PACKED_STEPS) / 2)
    return false;
  for (uint32_t i = 0; i < con->nk; i++) {
    const Attr *const *want = &v[PACKED_STEPS + 2 * i];
    uint32_t at = i;
    for (; at < con->nk; at++) {
      const Dim *d = stride_of(s->lc, con->st, off, con->k[at].var);
      if (expr_is_int(con->k[at].extent, want[0]->i) && d && dim_is_const(d, &stride) &&
          stride == want[1]->i)
        break;
    }
    if (at == con->nk) return false;
    Axis axis = con->k[at];
    con->k[at] = con->k[i];
    con->k[i] = axis;
  }
  return true;
}

void pack_constants(LoopCtx *lc) {
  PassCtx *pc = lc->pc;
  PrimFunc *f = lc->f;
  if (!f->s_tir || f->body->kind != STMT_BLOCK) return;
  Callers k = {.f = f, .tmp = lc->tmp};
  module_each(pc->m, g) if (g->kind == GLOBAL_FUNC) func_each_node(g->func, find_calls, &k);
  if (k.other || !k.calls.n || !f->is_private) return;
  bool any = false;
  for (uint32_t i = 0; i < f->nparams; i++) any |= f->param_bufs[i] && all_constant(&k.calls, i);
  if (!any) return;
  Sched s;
  if (!schedule_open(lc, &s) || !s.simple) return;
  const Attr *list[MAX_AXES], *finite[MAX_AXES];
  uint32_t n = 0, nfinite = 0;
  for (uint32_t i = 0; i < s.items.n && n < MAX_AXES;) {
    if (!s.items.at[i].stage) {
      i++;
      continue;
    }
    Group g;
    i += group_form(&s, i, &g);
    if (!g.contraction) continue;
    Packing p = {.param = UINT32_MAX};
    bool packs = plan_packing(&s, &g, &k.calls, &p);
    FindFinite ff = {f, &k.calls, p.param, lc->a, finite, &nfinite};
    expr_loads(g.stages[0]->value, find_finite, &ff);
    if (!packs) continue;
    Map done;
    map_init(&done, lc->tmp);
    for (uint32_t c = 0; c < k.calls.n; c++) {
      Node *call = k.calls.at[c], *old = node_in(call, 1 + p.param);
      node_set_in(call, 1 + p.param, packed_node(pc, call, old, &p, &done));
    }
    list[n++] = packing_attr(lc->a, &p);
  }
  if (n) f->attrs = attr_with(lc->a, f->attrs, "relaxc.packed", attr_list(lc->a, list, n));
  if (nfinite)
    f->attrs = attr_with(lc->a, f->attrs, "relaxc.finite", attr_list(lc->a, finite, nfinite));
}

void packed_open(LoopCtx *lc) {
  const Attr *all = attr_get(lc->f->attrs, "relaxc.packed");
  Context *c = lc->c;
  for (uint32_t i = 0; all && i < all->n; i++) {
    const Attr *one = all->items[i];
    Buffer *old = lc->f->param_bufs[one->items[PACKED_PARAM]->i];
    const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, 3);
    for (int d = 0; d < 3; d++) shape[d] = i64(c, one->items[PACKED_DIMS + d]->i);
    Buffer *b = buffer_create(c, old->name, old->dtype, shape, 3, "global");
    b->span = old->span;
    map_setp(&lc->packed, old, b);
    map_setp(&lc->packings, old, (void *)(uintptr_t)one);
  }
  const Attr *finite = attr_get(lc->f->attrs, "relaxc.finite");
  for (uint32_t i = 0; finite && i < finite->n; i++) {
    Buffer *b = lc->f->param_bufs[finite->items[i]->i];
    map_setp(&lc->finite, b, b);
  }
}

static bool still_used(const Stmt *s, void *ctx) {
  CountLoads *k = ctx;
  stmt_exprs(s, uses_expr, k);
  return true;
}

void packed_close(LoopCtx *lc, const Stmt *body) {
  PrimFunc *f = lc->f;
  for (uint32_t i = 0; i < f->nparams; i++) {
    Buffer *b = f->param_bufs[i] ? map_getp(&lc->packed, f->param_bufs[i]) : NULL;
    if (!b) continue;
    CountLoads k = {.b = f->param_bufs[i]};
    stmt_walk(body, still_used, &k);
    if (k.n) bug("'%s' is read as it was before packing", f->param_bufs[i]->name);
    Buffer **bufs = arena_dup(lc->a, f->param_bufs, f->nparams * sizeof *bufs);
    bufs[i] = b;
    f->param_bufs = bufs;
  }
  f->attrs = attr_without(lc->a, f->attrs, "relaxc.packed");
  f->attrs = attr_without(lc->a, f->attrs, "relaxc.finite");
}
