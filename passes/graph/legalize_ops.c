/* LegalizeOps: each operator becomes a call_tir of a prim_func that states its tensor-level
 * meaning.
 *
 *   before: y = R.nn.relu(x)
 *   after:  y = R.call_tir(cls.relu, (x,), out_ty=R.Tensor((n, 4), dtype="float32"))
 *
 * The meaning comes from the operator's row (ir/te.h); composite operators turn into others, which
 * are legalised in turn. Equal prim_funcs are made once. Operators that can't be lowered are all
 * reported.
 */
#include "ir/te.h"
#include "passes/graph/graph.h"
#include <string.h>

typedef struct {
  PassCtx *pc;
  PrimIndex made;
  const Attr *skip;
} Legalize;

static bool is_skipped(const Legalize *x, const Node *n) {
  const char *name = node_op(n)->name;
  for (uint32_t i = 0; x->skip && i < x->skip->n; i++) {
    const Attr *s = x->skip->items[i];
    if (s->kind != ATTR_STR) continue;
    const char *t = strncmp(s->s, "relax.", 6) == 0 ? s->s + 6 : s->s;
    if (strcmp(t, name) == 0) return true;
  }
  return false;
}

/* The module's prim_func that is equal to f, or f itself under a name of its own. */
static const char *share_prim(Legalize *x, PrimFunc *f) {
  f->is_private = true;
  PrimFunc *same = prim_index_find(&x->made, f);
  if (same) return same->name;
  f->name = module_unique_name(x->pc->m, f->name);
  module_add_prim(x->pc->m, f);
  prim_index_add(&x->made, f);
  return f->name;
}

/* Replaces n; *next is where the walk goes on. */
static bool legalize_node(Legalize *x, Node *n, Node **next) {
  Lowered out = {0};
  Node *before = n->prev;
  BindingBlock *b = n->block;
  if (!te_lower_node(x->pc->m, n, &out)) return false;
  if (out.composite) {
    graph_take_composite(n, out.composite);
    *next = before ? before->next : b->first; /* the new operators */
    return true;
  }
  const char *prim = share_prim(x, out.func);
  Node *call = graph_call_tir(n->func, prim, out.args, out.nargs, n->sinfo, n->span);
  graph_take_place(n, call);
  return true;
}

static bool feeds_operator(const Node *n) {
  for (const Use *u = n->uses; u; u = u->next)
    if (node_is_operator(u->user) || (u->user->op == OP_TUPLE && feeds_operator(u->user)))
      return true;
  return false;
}

/* A shape or tensor of known rank whose dims have no names (R.tensor_to_shape, a branch's or a
 * call's result, a parameter): a match_cast gives it some, so that what is made of it has a known
 * shape. */
static bool name_dims(Legalize *x, Node *n, BindingBlock *begin) {
  const SInfo *s = n->sinfo;
  bool source = n->op == OP_IF || n->op == OP_CALL || n->op == OP_PARAM || n->op == OP_TUPLE_GET ||
                n->op == OP_call_packed || n->op == OP_call_pure_packed;
  bool shape = s->kind == SINFO_SHAPE && n->op == OP_tensor_to_shape;
  bool tensor = s->kind == SINFO_TENSOR && source && dtype_known(s->dtype) && feeds_operator(n);
  if ((!shape && !tensor) || s->ndim < 0 || s->dims) return true;
  Context *c = x->pc->c;
  const Expr **dims = ARENA_ARRAY(x->pc->m->arena, const Expr *, s->ndim + 1);
  for (int32_t i = 0; i < s->ndim; i++) {
    const char *hint = arena_printf(x->pc->m->arena, "%s_%d", n->name ? n->name : "shape", i);
    dims[i] = var_create_dim(c, func_unique_name(n->func, hint))->expr;
  }
  Node *m = node_create(n->func, OP_MATCH_CAST, NULL, 0, n->span);
  node_replace_uses(n, m);
  node_set_ins(m, &n, 1);
  m->annot = shape ? sinfo_shape(c, dims, (uint32_t)s->ndim)
                   : sinfo_tensor(c, dims, (uint32_t)s->ndim, s->dtype);
  m->is_output = n->is_output;
  if (!node_infer(x->pc->m, NULL, m)) return false;
  if (n->block)
    node_bind_after(n, m, NULL);
  else
    node_bind_before(begin->first, m, NULL);
  return true;
}

/* Parameters without names for their dims. */
static bool name_params(Legalize *x, Func *f) {
  BindingBlock *b = f->body.first;
  bool ok = true;
  for (uint32_t i = 0; b && b->first && i < f->nparams; i++) ok &= name_dims(x, f->params[i], b);
  return ok;
}

static bool legalize_seq(Legalize *x, Seq *s) {
  bool ok = true;
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first, *next; n; n = next) {
      next = n->next;
      ok &= graph_learn_shape(x->pc->m, n) && name_dims(x, n, NULL);
      if (node_is_operator(n) && !is_skipped(x, n)) ok &= legalize_node(x, n, &next);
      if (diags_full(x->pc->c->diags)) return false;
    }
  return ok;
}

bool pass_legalize_ops(PassCtx *pc) {
  Legalize x = {.pc = pc, .skip = attr_get(pc->options, "skip_ops")};
  bool ok = true, left = false;
  prim_index_init(&x.made, pc->scratch);
  module_each(pc->m, p) if (p->kind == GLOBAL_PRIM && p->prim->is_private)
      prim_index_add(&x.made, p->prim);
  uint32_t n = pc->m->globals.n; /* those added on the way are prim_funcs */
  for (uint32_t i = 0; i < n; i++) {
    Global *g = pc->m->globals.at[i];
    if (g->removed || g->kind != GLOBAL_FUNC) continue;
    SeqVec seqs = {0};
    if (pass_wants(pc, g->name)) ok &= name_params(&x, g->func);
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t k = 0; k < seqs.n; k++) {
      if (pass_wants(pc, g->name)) ok &= legalize_seq(&x, seqs.at[k]);
      for (BindingBlock *b = seqs.at[k]->first; b; b = b->next)
        for (Node *v = b->first; v; v = v->next) left |= node_is_operator(v);
    }
  }
  if (ok && !left) pc->m->legalized = true;
  return ok;
}
