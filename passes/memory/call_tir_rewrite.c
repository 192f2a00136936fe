/* CallTIRRewrite: the results of call_tir become explicit allocations.
 *
 *   before: y = R.call_tir(cls.relu, (x,), out_ty=R.Tensor((n, 4), dtype="float32"))
 *   after:  y = R.builtin.alloc_tensor(R.shape([n, 4]), R.dtype("float32"), 0, R.str("global"))
 *           cls.relu(x, y)
 *
 * The same for call_dps_packed. call_tir_inplace writes into its argument where that is a tensor
 * made here whose last use this is; else into a copy (R.relaxc.copy), so that parameters, constants
 * and values that are read again keep what they held. A prim_func with a
 * workspace parameter (attribute relaxc.workspace_bytes) gets one more allocation as last argument.
 * Allocations have an effect, so that dataflow blocks become ordinary ones.
 */
#include "passes/graph/graph.h"

typedef struct {
  PassCtx *pc;
  Func *f;
  Seq *seq;     /* that is walked */
  Map position; /* its nodes -> position + 1, made for the first call_tir_inplace */
} Rewrite;

static Node *make_alloc(Rewrite *x, Node *at, const Expr *const *dims, uint32_t ndim, DType d,
                        const char *name) {
  Span s = at->span;
  Node *in[] = {node_shape(x->f, dims, ndim, s), node_dtype(x->f, d, s),
                node_prim(x->f, expr_i64(x->pc->c, 0), s), node_str(x->f, "global", s)};
  Node *a = node_create(x->f, OP_builtin_alloc_tensor, in, 4, s);
  a->attrs = node_new_attrs(x->f, OP_builtin_alloc_tensor);
  a->sinfo = sinfo_tensor(x->pc->c, dims, ndim, d);
  if (name) a->name = name;
  node_bind_before(at, a, name ? NULL : "workspace");
  return a;
}

/* The bytes of workspace that the callee wants, in the caller's variables; NULL: none. */
static const Expr *workspace_bytes(Rewrite *x, const Node *n, const PrimFunc *f) {
  const Attr *bytes = attr_get(f->attrs, "relaxc.workspace_bytes");
  if (!bytes) return NULL;
  if (bytes->kind == ATTR_INT) return expr_i64(x->pc->c, bytes->i);
  Map vars;
  map_init(&vars, x->pc->scratch);
  uint32_t nout = n->sinfo->kind == SINFO_TUPLE ? n->sinfo->n : 1;
  for (uint32_t i = 0; i + 1 < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    const SInfo *s = NULL;
    if (i + 1 < n->nin)
      s = node_in(n, i + 1)->sinfo;
    else if (i + 1 - n->nin < nout)
      s = n->sinfo->kind == SINFO_TUPLE ? n->sinfo->fields[i + 1 - n->nin] : n->sinfo;
    if (!s) break;
    if (!b && s->kind == SINFO_PRIM && s->value)
      map_setp(&vars, f->params[i], (void *)(uintptr_t)s->value);
    for (uint32_t d = 0; b && s->kind == SINFO_TENSOR && s->dims && d < b->ndim; d++)
      if (b->shape[d]->kind == EXPR_VAR && !map_hasp(&vars, b->shape[d]->var))
        map_setp(&vars, b->shape[d]->var, (void *)(uintptr_t)s->dims[d]);
  }
  Subst sub = {.c = x->pc->c, .vars = &vars};
  return expr_simplify(x->pc->c, expr_subst(&sub, bytes->expr));
}

/* ---- in place ---- */

static void number_nodes(Rewrite *x) {
  if (x->position.n) return;
  uintptr_t at = 0;
  for (BindingBlock *b = x->seq->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) map_setp(&x->position, n, (void *)++at);
}

/* Whether v, or what shares its memory, is used behind n or by n as another argument. What the
 * rewrite has put in stands before n and has no number. */
static bool used_again(Rewrite *x, const Node *v, const Node *n, uint32_t arg) {
  uintptr_t limit = (uintptr_t)map_getp(&x->position, n);
  for (const Use *u = v->uses; u; u = u->next) {
    Node *here = node_in_seq(u->user, x->seq);
    if (here == n) {
      for (uint32_t i = 0; i < n->nin; i++)
        if (i != arg && node_in(n, i) == v) return true;
      continue;
    }
    if (!here || u->user->op == OP_YIELD || (uintptr_t)map_getp(&x->position, here) > limit)
      return true;
    if (node_may_alias(u->user) && used_again(x, u->user, n, arg)) return true;
  }
  return false;
}

/* Whether n may overwrite argument v itself: memory made in this sequence and not needed again. */
static bool may_overwrite(Rewrite *x, Node *n, uint32_t arg) {
  number_nodes(x);
  const Node *root = node_in(n, arg);
  while (root->op == OP_memory_view || root->op == OP_ALIAS || root->op == OP_MATCH_CAST)
    root = node_in(root, 0);
  return root->op == OP_builtin_alloc_tensor && root->block && root->block->seq == x->seq &&
         !used_again(x, root, n, arg);
}

/* A copy of v before n. */
static Node *make_copy(Rewrite *x, Node *n, Node *v) {
  const SInfo *s = v->sinfo;
  Node *a = make_alloc(x, n, s->dims, (uint32_t)s->ndim, s->dtype,
                       func_unique_name(x->f, v->name ? v->name : "copy"));
  Node *in[] = {v, a};
  Node *copy = node_create(x->f, OP_relaxc_copy, in, 2, n->span);
  copy->attrs = node_new_attrs(x->f, OP_relaxc_copy);
  copy->sinfo = sinfo_tuple(x->pc->c, NULL, 0);
  node_bind_before(n, copy, "_");
  return a;
}

/* The argument that result i of n overwrites; 0: none. */
static uint32_t inplace_arg(const Node *n, uint32_t i) {
  if (n->op != OP_call_tir_inplace) return 0;
  const IntList *l = &node_attrs(n, call_tir_inplace)->inplace_indices;
  int64_t at = (int32_t)i < l->n ? l->at[i] : -1;
  return at >= 0 && at + 1 < (int64_t)n->nin ? (uint32_t)at + 1 : 0;
}

/* ---- calls ---- */

/* The tensor that result i is written to: an argument or its copy (in place) or a new one. */
static Node *make_output(Rewrite *x, Node *n, const SInfo *s, uint32_t i, bool only) {
  uint32_t arg = inplace_arg(n, i);
  if (arg) {
    Node *v = node_in(n, arg);
    if (may_overwrite(x, n, arg)) return v;
    s = v->sinfo;
    if (s->kind == SINFO_TENSOR && s->dims && dtype_known(s->dtype)) return make_copy(x, n, v);
  }
  if (s->kind != SINFO_TENSOR || !s->dims || !dtype_known(s->dtype)) {
    diag_error(x->pc->c->diags, n->span, "the result of '%s' needs a known shape and dtype",
               node_in(n, 0)->str);
    return NULL;
  }
  const char *name = only ? n->name : arena_printf(func_arena(x->f), "%s_%u", n->name, i);
  return make_alloc(x, n, s->dims, (uint32_t)s->ndim, s->dtype,
                    only ? name : func_unique_name(x->f, name));
}

/* Uses of the tuple that n was: items directly, whole uses through a tuple. */
static void replace_tuple(Rewrite *x, Node *n, Node *const *outs, uint32_t nout) {
  for (Use *u = n->uses, *next; u; u = next) {
    next = u->next;
    Node *get = u->user;
    if (get->op != OP_TUPLE_GET || get->index < 0 || get->index >= nout) continue;
    graph_replace(get, outs[get->index]);
    node_delete(get);
    next = n->uses; /* the list has changed */
  }
  if (!n->uses) return;
  Node *tuple = node_tuple(x->f, outs, nout, n->span);
  node_bind_before(n, tuple, NULL);
  graph_replace(n, tuple);
}

/* *next is where the walk goes on: items of the result behind n may be gone. */
static bool rewrite_call(Rewrite *x, Node *n, Node **next) {
  const SInfo *s = n->sinfo;
  bool tuple = s->kind == SINFO_TUPLE;
  uint32_t nout = tuple ? s->n : 1, nin = n->nin;
  Node **in = ARENA_ARRAY(x->pc->scratch, Node *, nin + nout + 1);
  Node **outs = ARENA_ARRAY(x->pc->scratch, Node *, nout);
  for (uint32_t i = 0; i < nin; i++) in[i] = node_in(n, i);
  for (uint32_t i = 0; i < nout; i++) {
    outs[i] = make_output(x, n, tuple ? s->fields[i] : s, i, !tuple);
    if (!outs[i]) return false;
    uint32_t arg = inplace_arg(n, i);
    in[arg ? arg : nin++] = outs[i];
  }
  PrimFunc *f = n->op != OP_call_dps_packed && node_in(n, 0)->op == OP_GLOBAL
                    ? module_prim(x->pc->m, node_in(n, 0)->str)
                    : NULL;
  const Expr *bytes = f ? workspace_bytes(x, n, f) : NULL;
  if (bytes) in[nin++] = make_alloc(x, n, &bytes, 1, DT_U8, NULL);
  OpId op = n->op == OP_call_dps_packed ? OP_call_packed : OP_CALL;
  if (in[0]->op == OP_GLOBAL) in[0] = node_global(x->f, in[0]->str, in[0]->span);
  Node *call = node_create(x->f, op, in, nin, n->span);
  call->attrs = node_new_attrs(x->f, op);
  call->sinfo = sinfo_tuple(x->pc->c, NULL, 0);
  if (op == OP_call_packed) {
    const SInfo **one = ARENA_ARRAY(func_arena(x->f), const SInfo *, 1);
    one[0] = call->sinfo;
    ((call_packed_attrs *)call->attrs)->ty_args = (SInfoList){1, one, true};
  }
  node_bind_before(n, call, "_");
  if (tuple)
    replace_tuple(x, n, outs, nout);
  else
    graph_replace(n, outs[0]);
  node_delete(n);
  *next = call->next;
  return true;
}

bool pass_call_tir_rewrite(PassCtx *pc) {
  bool ok = true;
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    Rewrite x = {.pc = pc, .f = g->func};
    SeqVec seqs = {0};
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t k = 0; k < seqs.n; k++) {
      x.seq = seqs.at[k];
      map_init(&x.position, pc->scratch);
      for (BindingBlock *b = seqs.at[k]->first; b; b = b->next) {
        b->dataflow = false;
        x.f = b->func;
        for (Node *n = b->first, *next; n; n = next) {
          next = n->next;
          n->is_output = false;
          if (node_is_call_tir(n)) ok &= rewrite_call(&x, n, &next);
        }
      }
    }
  }
  return ok;
}
