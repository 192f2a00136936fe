/* Layout hook of call_tir: a prim_func that computes out[i] from in[i] does so in any order of
 * axes.
 *
 *   before: for i, j: Y[i, j] = max(X[i, j], c[()])      X and Y of (4, 9)
 *   after:  the same loops                                X and Y of (9, 4)
 *
 * Since every access to a tensor of the result's shape is at the axes themselves, and nothing else
 * depends on them, exchanging extents is all there is to do: in a copy of the function.
 */
#include "ir/module.h"
#include "ir/ops/attrs.h"
#include "ir/ops/hooks.h"
#include "ir/ops/order.h"

/* A nest of loops around one block that stores at its axes. */
typedef struct {
  const PrimFunc *f;
  Stmt *loops[ORDER_MAX];
  SBlock *block;
  const Stmt *store;
  uint32_t n;
} Nest;

static bool find_nest(const PrimFunc *f, Nest *nest) {
  *nest = (Nest){.f = f};
  if (f->body->kind != STMT_BLOCK) return false;
  const SBlock *root = f->body->block;
  if (root->niters || root->nallocs || root->nmatches || root->init || root->predicate)
    return false;
  Stmt *s = root->body;
  for (; s->kind == STMT_FOR; s = s->loop.body) {
    if (nest->n == ORDER_MAX || s->loop.kind != FOR_SERIAL || s->loop.step ||
        !expr_is_int(s->loop.min, 0))
      return false;
    nest->loops[nest->n++] = s;
  }
  if (s->kind != STMT_BLOCK) return false;
  SBlock *b = nest->block = s->block;
  nest->store = b->body;
  if (b->predicate || b->init || b->nallocs || b->nmatches || b->niters != nest->n ||
      nest->store->kind != STMT_STORE || nest->store->store.pred ||
      nest->store->store.buf->ndim != nest->n)
    return false;
  for (uint32_t i = 0; i < nest->n; i++) {
    const BlockIter *it = &b->iters[i];
    if (it->kind != ITER_SPATIAL || it->value != nest->loops[i]->loop.var->expr ||
        nest->store->store.idx[i] != it->var->expr)
      return false;
  }
  return true;
}

/* A tensor of the result's shape; others have no axis that could be exchanged. */
static bool is_whole(const Nest *nest, const Buffer *b) {
  const Buffer *out = nest->store->store.buf;
  if (b->ndim != out->ndim || b->strides || b->elem_offset) return false;
  for (uint32_t i = 0; i < b->ndim; i++)
    if (b->shape[i] != out->shape[i] || b->shape[i]->kind != EXPR_INT) return false;
  return true;
}

/* A whole tensor's element at the axes stands for nothing that depends on them. */
static const Expr *take_element(Context *c, const Expr *e, void *ctx) {
  const Nest *nest = ctx;
  if (e->kind != EXPR_LOAD || !is_whole(nest, e->buf)) return e;
  for (uint32_t i = 0; i < e->n; i++)
    if (e->arg[i] != nest->block->iters[i].var->expr) return e;
  return expr_lit(c, e->dtype, 0);
}

/* Axes occur as the indices of whole tensors only. */
static bool commutes(Context *c, Nest *nest) {
  if (!is_whole(nest, nest->store->store.buf)) return false;
  const Expr *rest = expr_rewrite(c, nest->store->store.value, take_element, nest);
  for (uint32_t i = 0; i < nest->n; i++)
    if (expr_uses_var(rest, nest->block->iters[i].var)) return false;
  return true;
}

static const Expr *const *exchange(Context *c, const Expr *const *dims, const AxisOrder *o) {
  const Expr **d = ARENA_ARRAY(c->arena, const Expr *, o->n);
  for (uint32_t i = 0; i < o->n; i++) d[i] = dims[o->at[i]];
  return d;
}

static const PrimFunc *make_exchanged(Context *c, const PrimFunc *f, const AxisOrder *o) {
  Module *m = f->module;
  PrimFunc *copy = primfunc_copy(c, m->arena, f, module_unique_name(m, f->name));
  Nest nest;
  copy->module = m;
  copy->is_private = true;
  if (!find_nest(copy, &nest)) bug("the copy of '%s' has another form", f->name);
  bool whole[64] = {false};
  for (uint32_t i = 0; i < copy->nparams; i++)
    whole[i] = copy->param_bufs[i] && is_whole(&nest, copy->param_bufs[i]);
  const Expr *const *extents = exchange(c, nest.store->store.buf->shape, o);
  for (uint32_t i = 0; i < copy->nparams; i++)
    if (whole[i]) copy->param_bufs[i]->shape = extents;
  for (uint32_t i = 0; i < o->n; i++) {
    const Expr **ends[] = {&nest.loops[i]->loop.extent, &nest.block->iters[i].dom.extent};
    for (int k = 0; k < 2; k++) *ends[k] = expr_cast(c, (*ends[k])->dtype, extents[i]);
  }
  module_add_prim(m, copy);
  return copy;
}

bool layout_call_tir(LayoutCtx *lc, const Node *n) {
  Context *c = func_ctx(n->func);
  const Module *m = n->func->module;
  const Node *callee = node_in(n, 0);
  const Global *g = callee->op == OP_GLOBAL ? module_find(m, callee->str) : NULL;
  const AxisOrder *o = NULL;
  Nest nest;
  if (!g || g->kind != GLOBAL_PRIM || n->sinfo->kind != SINFO_TENSOR || !n->sinfo->dims ||
      g->prim->nparams != n->nin || n->nin > 64 || !find_nest(g->prim, &nest) ||
      !commutes(c, &nest) || g->prim->param_bufs[n->nin - 1] != nest.store->store.buf)
    return false;
  for (uint32_t i = 1; i < n->nin; i++) {
    const Buffer *b = g->prim->param_bufs[i - 1];
    bool whole = b && is_whole(&nest, b);
    if (whole && !o && !order_is_plain(lc->in[i])) o = lc->in[i];
    if (!whole && !order_is_plain(lc->in[i]) && node_in(n, i)->sinfo->kind != SINFO_TENSOR)
      return false;
  }
  if (!o || o->n != nest.n || order_has_blocks(o)) return false;
  for (uint32_t i = 1; i < n->nin; i++) {
    const Buffer *b = g->prim->param_bufs[i - 1];
    if (b && is_whole(&nest, b)) *lc->want[i] = *o;
  }
  *lc->out = *o;
  if (!lc->final) return true;
  const SInfo **out = ARENA_ARRAY(lc->arena, const SInfo *, 1);
  const SInfo *plain = n->sinfo;
  out[0] = sinfo_tensor(c, exchange(c, plain->dims, o), o->n, plain->dtype);
  if (plain->vdevice) out[0] = sinfo_with_vdevice(c, out[0], plain->vdevice);
  ((call_tir_attrs *)lc->attrs)->out_ty = (SInfoList){1, out, true};
  lc->instead[0] = node_global(n->func, make_exchanged(c, g->prim, o)->name, callee->span);
  return true;
}
