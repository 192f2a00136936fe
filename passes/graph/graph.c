/* What the graph passes share: questions about nodes, walks, replacement. */
#include "passes/graph/graph.h"
#include <string.h>

bool node_may_alias(const Node *n) {
  switch (n->op) {
  case OP_TUPLE:
  case OP_TUPLE_GET:
  case OP_ALIAS:
  case OP_MATCH_CAST:
  case OP_YIELD:
  case OP_memory_view:
  case OP_memory_ensure_zero_offset: return true;
  default: return false;
  }
}

PrimFunc *node_callee_prim(const Node *n) {
  if (n->op != OP_call_tir || n->nin == 0 || node_in(n, 0)->op != OP_GLOBAL) return NULL;
  return module_prim(n->func->module, node_in(n, 0)->str);
}

/* ---- equality ---- */

static bool is_floating(const Node *n) {
  return !n->block && n->op != OP_PARAM;
}

static bool const_same(const ConstData *a, const ConstData *b) {
  if (a == b) return true;
  if (!dtype_eq(a->dtype, b->dtype) || a->ndim != b->ndim || a->size != b->size) return false;
  for (int32_t i = 0; i < a->ndim; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return a->bytes == b->bytes || memcmp(a->bytes, b->bytes, a->size) == 0;
}

static bool payload_same(const Node *a, const Node *b) {
  switch (a->op) {
  case OP_CONST: return const_same(a->data, b->data);
  case OP_PRIM_VALUE: return a->expr == b->expr;
  case OP_SHAPE_EXPR:
    if (a->shape.n != b->shape.n) return false;
    for (uint32_t i = 0; i < a->shape.n; i++)
      if (a->shape.at[i] != b->shape.at[i]) return false;
    return true;
  case OP_STR:
  case OP_GLOBAL:
  case OP_EXTERN: return strcmp(a->str, b->str) == 0;
  case OP_DTYPE: return dtype_eq(a->dtype, b->dtype);
  case OP_TUPLE_GET: return a->index == b->index;
  case OP_IF:
  case OP_FUNC:
  case OP_PARAM: return false;
  default: return true;
  }
}

bool node_same(const Node *a, const Node *b) {
  if (a == b) return true;
  if (a->op != b->op || a->nin != b->nin || a->sinfo != b->sinfo || !payload_same(a, b))
    return false;
  for (uint32_t i = 0; i < a->nin; i++) {
    const Node *x = node_in(a, i), *y = node_in(b, i);
    if (x != y && !(is_floating(x) && is_floating(y) && node_same(x, y))) return false;
  }
  return op_attrs_equal(a->op, a->attrs, b->attrs);
}

uint64_t node_hash(const Node *n) {
  uint64_t h = hash_mix(n->op, n->sinfo->id);
  switch (n->op) {
  case OP_CONST:
    h = hash_mix(h, n->data->size);
    if (n->data->size <= 256) h = hash_bytes(n->data->bytes, n->data->size, h);
    break;
  case OP_PRIM_VALUE: h = hash_mix(h, n->expr->id); break;
  case OP_SHAPE_EXPR:
    for (uint32_t i = 0; i < n->shape.n; i++) h = hash_mix(h, n->shape.at[i]->id);
    break;
  case OP_STR:
  case OP_GLOBAL:
  case OP_EXTERN: h = hash_bytes(n->str, strlen(n->str), h); break;
  case OP_TUPLE_GET: h = hash_mix(h, (uint64_t)n->index); break;
  default: break;
  }
  for (uint32_t i = 0; i < n->nin; i++) {
    const Node *x = node_in(n, i);
    h = hash_mix(h, is_floating(x) ? node_hash(x) : x->id);
  }
  return hash_mix(h, op_attrs_hash(n->op, n->attrs));
}

/* ---- walks ---- */

static void collect_seqs(Arena *a, Seq *s, SeqVec *out) {
  vec_push(a, out, s);
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) {
      if (n->op == OP_IF) {
        collect_seqs(a, &n->if_.then_, out);
        collect_seqs(a, &n->if_.else_, out);
      } else if (n->op == OP_FUNC && n->local) {
        collect_seqs(a, &n->local->body, out);
      }
    }
}

void func_seqs(Arena *a, Func *f, SeqVec *out) {
  collect_seqs(a, &f->body, out);
}

Node *node_in_seq(Node *n, const Seq *s) {
  while (n && n->block && n->block->seq != s) n = n->block->owner;
  return n && n->block ? n : NULL;
}

/* ---- replacement ---- */

void graph_replace(Node *from, Node *to) {
  node_replace_uses(from, to);
  if (!to->block || !to->block->dataflow) return;
  if (!from->block || from->block != to->block || from->is_output) to->is_output = true;
}

void graph_take_place(Node *old, Node *n) {
  bool output = old->is_output;
  n->name = old->name;
  n->name_span = old->name_span;
  if (!n->annot) n->annot = old->annot;
  node_bind_before(old, n, NULL);
  node_replace_uses(old, n);
  n->is_output = output;
  node_delete(old);
}

void graph_bind_operands(Node *at, Node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *d = node_in(n, i);
    if (d->block || d->op == OP_PARAM) continue;
    graph_bind_operands(at, d);
    if (!node_is_atom(d)) node_bind_before(at, d, NULL);
  }
}

void graph_take_composite(Node *n, Node *made) {
  if (node_is_atom(made)) {
    if (!made->block && made->op != OP_PARAM) graph_bind_operands(n, made);
    graph_replace(n, made);
    node_delete(n);
  } else {
    graph_bind_operands(n, made);
    graph_take_place(n, made);
  }
}

static bool used_outside(const Node *n, const BindingBlock *b) {
  for (const Use *u = n->uses; u; u = u->next) {
    const Node *user = u->user;
    if (user->block ? user->block != b : user->op == OP_YIELD || used_outside(user, b)) return true;
  }
  return false;
}

void func_mark_outputs(Func *f) {
  Arena *a = arena_create();
  SeqVec seqs = {0};
  func_seqs(a, f, &seqs);
  for (uint32_t i = 0; i < seqs.n; i++)
    for (BindingBlock *b = seqs.at[i]->first; b; b = b->next)
      for (Node *n = b->first; n; n = n->next) n->is_output = b->dataflow && used_outside(n, b);
  arena_free(a);
}

Node *graph_call_tir(Func *f, const char *prim, Node *const *args, uint32_t n, const SInfo *out,
                     Span s) {
  Node **in = ARENA_ARRAY(func_arena(f), Node *, n + 1);
  in[0] = node_global(f, prim, s);
  for (uint32_t i = 0; i < n; i++) in[i + 1] = args[i];
  Node *call = node_create(f, OP_call_tir, in, n + 1, s);
  call_tir_attrs *attrs = node_new_attrs(f, OP_call_tir);
  const SInfo **one = ARENA_ARRAY(func_arena(f), const SInfo *, 1);
  one[0] = out;
  attrs->out_ty = out->kind == SINFO_TUPLE ? (SInfoList){(int32_t)out->n, out->fields, false}
                                           : (SInfoList){1, one, true};
  call->attrs = attrs;
  call->sinfo = out;
  return call;
}

/* ---- substitution ---- */

typedef struct {
  Context *c;
  Arena *a;
  const Map *vars;
  Map done; /* nodes; struct info -> new */
} FuncSubst;

static const SInfo *subst_sinfo(FuncSubst *x, const SInfo *s) {
  return s ? sinfo_subst(x->c, x->vars, s) : NULL;
}

static const Expr *subst_expr(FuncSubst *x, const Expr *e) {
  Subst s = {.c = x->c, .vars = x->vars};
  const Expr *r = expr_subst(&s, e);
  return r == e ? e : expr_simplify(x->c, r);
}

static void subst_attrs(FuncSubst *x, Node *n) {
  const OpInfo *op = node_op(n);
  if (!n->attrs) return;
  for (uint32_t i = 0; i < op->nattrs; i++) {
    void *p = (char *)n->attrs + op->attrs[i].offset;
    if (op->attrs[i].kind == AK_SINFOS) {
      SInfoList *l = p;
      const SInfo **at = ARENA_ARRAY(x->a, const SInfo *, l->n > 0 ? l->n : 0);
      for (int32_t k = 0; k < l->n; k++) at[k] = subst_sinfo(x, l->at[k]);
      if (l->n > 0) l->at = at;
    } else if (op->attrs[i].kind == AK_EXPRS) {
      ExprList *l = p;
      const Expr **at = ARENA_ARRAY(x->a, const Expr *, l->n > 0 ? l->n : 0);
      for (int32_t k = 0; k < l->n; k++) at[k] = subst_expr(x, l->at[k]);
      if (l->n > 0) l->at = at;
    }
  }
}

static void subst_seq(FuncSubst *x, Seq *s);

static void subst_node(FuncSubst *x, Node *n) {
  if (map_hasp(&x->done, n)) return;
  map_setp(&x->done, n, n);
  for (uint32_t i = 0; i < n->nin; i++)
    if (is_floating(node_in(n, i))) subst_node(x, node_in(n, i));
  n->sinfo = subst_sinfo(x, n->sinfo);
  n->annot = subst_sinfo(x, n->annot);
  subst_attrs(x, n);
  switch (n->op) {
  case OP_PRIM_VALUE: n->expr = subst_expr(x, n->expr); break;
  case OP_SHAPE_EXPR: {
    const Expr **at = ARENA_ARRAY(x->a, const Expr *, n->shape.n);
    for (uint32_t i = 0; i < n->shape.n; i++) at[i] = subst_expr(x, n->shape.at[i]);
    n->shape.at = at;
    break;
  }
  case OP_IF:
    subst_seq(x, &n->if_.then_);
    subst_seq(x, &n->if_.else_);
    break;
  case OP_FUNC:
    if (!n->local) break;
    for (uint32_t i = 0; i < n->local->nparams; i++) subst_node(x, n->local->params[i]);
    subst_seq(x, &n->local->body);
    n->local->ret = subst_sinfo(x, n->local->ret);
    n->local->ret_annot = subst_sinfo(x, n->local->ret_annot);
    break;
  default: break;
  }
}

static void subst_seq(FuncSubst *x, Seq *s) {
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) subst_node(x, n);
  if (s->yield) subst_node(x, s->yield);
}

void func_subst(Func *f, const Map *vars) {
  Arena *scratch = arena_create();
  FuncSubst x = {.c = func_ctx(f), .a = func_arena(f), .vars = vars};
  map_init(&x.done, scratch);
  for (uint32_t i = 0; i < f->nparams; i++) subst_node(&x, f->params[i]);
  subst_seq(&x, &f->body);
  f->ret = subst_sinfo(&x, f->ret);
  f->ret_annot = subst_sinfo(&x, f->ret_annot);
  func_collect_dims(f);
  arena_free(scratch);
}

/* ---- inference ---- */

static bool infer_tree(Module *m, Node *n) {
  bool ok = true;
  for (uint32_t i = 0; i < n->nin; i++)
    if (is_floating(node_in(n, i))) ok &= infer_tree(m, node_in(n, i));
  const SInfo *before = n->sinfo;
  if (n->op == OP_PARAM) return ok;
  if (!node_infer(m, NULL, n)) return false;
  /* An annotation may know more than inference does. */
  bool lost = before && before->kind == SINFO_TENSOR && before->dims &&
              n->sinfo->kind == SINFO_TENSOR && !n->sinfo->dims;
  if (lost) n->sinfo = before;
  return ok;
}

bool func_infer(Func *f) {
  Arena *a = arena_create();
  SeqVec seqs = {0};
  bool ok = true;
  func_seqs(a, f, &seqs);
  for (uint32_t i = seqs.n; i-- > 0;) { /* branches before what holds them */
    for (BindingBlock *b = seqs.at[i]->first; b; b = b->next)
      for (Node *n = b->first; n; n = n->next) ok &= infer_tree(f->module, n);
    if (seqs.at[i]->yield) ok &= infer_tree(f->module, seqs.at[i]->yield);
  }
  arena_free(a);
  return ok;
}

/* ---- prim_funcs by structure ---- */

typedef struct PrimEntry {
  PrimFunc *f;
  struct PrimEntry *next;
} PrimEntry;

void prim_index_init(PrimIndex *x, Arena *a) {
  x->a = a;
  map_init(&x->by_hash, a);
}

PrimFunc *prim_index_find(PrimIndex *x, PrimFunc *f) {
  for (PrimEntry *e = map_get(&x->by_hash, primfunc_hash(f)); e; e = e->next)
    if (primfunc_equal(e->f, f)) return e->f;
  return NULL;
}

void prim_index_add(PrimIndex *x, PrimFunc *f) {
  uint64_t h = primfunc_hash(f);
  PrimEntry *e = ARENA_NEW(x->a, PrimEntry);
  e->f = f;
  e->next = map_get(&x->by_hash, h);
  map_set(&x->by_hash, h, e);
}

static bool is_vague(const SInfo *s) {
  if (s->kind == SINFO_TUPLE) {
    for (uint32_t i = 0; i < s->n; i++)
      if (is_vague(s->fields[i])) return true;
    return false;
  }
  return (s->kind == SINFO_TENSOR || s->kind == SINFO_SHAPE) && !s->dims;
}

bool graph_learn_shape(Module *m, Node *n) {
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *d = node_in(n, i);
    if (!d->block && (d->op == OP_TUPLE || d->op == OP_TUPLE_GET) && !graph_learn_shape(m, d))
      return false;
  }
  if (!is_vague(n->sinfo) || n->op == OP_IF || n->op == OP_FUNC || n->op == OP_CALL) return true;
  const SInfo *before = n->sinfo;
  if (!node_infer(m, NULL, n)) return false;
  if (n->sinfo->kind == SINFO_BAD) n->sinfo = before;
  return true;
}

void graph_shown_vars(Map *shown, const SInfo *s) {
  if (s->kind == SINFO_TUPLE)
    for (uint32_t i = 0; i < s->n; i++) graph_shown_vars(shown, s->fields[i]);
  if (s->kind == SINFO_PRIM && s->value && s->value->kind == EXPR_VAR)
    map_setp(shown, s->value->var, (void *)s->value->var);
  for (int32_t i = 0; s->dims && i < s->ndim; i++)
    if (s->dims[i]->kind == EXPR_VAR) map_setp(shown, s->dims[i]->var, (void *)s->dims[i]->var);
}
