/* Copies of nodes. A copied match_cast binds variables of its own; other variables are replaced by
 * what the clone says, or stay.
 */
#include "passes/graph/clone.h"

void clone_init(Clone *k, PassCtx *pc, Func *to) {
  *k = (Clone){.pc = pc, .to = to};
  map_init(&k->nodes, pc->scratch);
  map_init(&k->vars, pc->scratch);
}

static const Expr *clone_expr(Clone *k, const Expr *e) {
  Subst s = {.c = k->pc->c, .vars = &k->vars};
  const Expr *r = expr_subst(&s, e);
  return r == e ? e : expr_simplify(k->pc->c, r);
}

const SInfo *clone_sinfo(Clone *k, const SInfo *s) {
  return s ? sinfo_subst(k->pc->c, &k->vars, s) : NULL;
}

static void *clone_attrs(Clone *k, const Node *n) {
  const OpInfo *op = node_op(n);
  if (!n->attrs) return NULL;
  Arena *a = func_arena(k->to);
  void *attrs = arena_dup(a, n->attrs, op->attrs_size);
  for (uint32_t i = 0; i < op->nattrs; i++) {
    void *p = (char *)attrs + op->attrs[i].offset;
    if (op->attrs[i].kind == AK_SINFOS && ((SInfoList *)p)->n > 0) {
      SInfoList *l = p;
      const SInfo **at = ARENA_ARRAY(a, const SInfo *, l->n);
      for (int32_t j = 0; j < l->n; j++) at[j] = clone_sinfo(k, l->at[j]);
      l->at = at;
    } else if (op->attrs[i].kind == AK_EXPRS && ((ExprList *)p)->n > 0) {
      ExprList *l = p;
      const Expr **at = ARENA_ARRAY(a, const Expr *, l->n);
      for (int32_t j = 0; j < l->n; j++) at[j] = clone_expr(k, l->at[j]);
      l->at = at;
    }
  }
  return attrs;
}

static Node *copy(Clone *k, Node *n) {
  Node **in = ARENA_ARRAY(k->pc->scratch, Node *, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) in[i] = clone_node(k, node_in(n, i));
  Node *c = node_create(k->to, n->op, in, n->nin, n->span);
  c->sinfo = clone_sinfo(k, n->sinfo);
  c->annot = clone_sinfo(k, n->annot);
  c->name_span = n->name_span;
  c->cast = n->cast;
  c->attrs = clone_attrs(k, n);
  switch (n->op) {
  case OP_CONST: c->data = n->data; break;
  case OP_PRIM_VALUE: c->expr = clone_expr(k, n->expr); break;
  case OP_SHAPE_EXPR: {
    const Expr **at = ARENA_ARRAY(func_arena(k->to), const Expr *, n->shape.n);
    for (uint32_t i = 0; i < n->shape.n; i++) at[i] = clone_expr(k, n->shape.at[i]);
    c->shape.at = at;
    c->shape.n = n->shape.n;
    break;
  }
  case OP_STR:
  case OP_GLOBAL:
  case OP_EXTERN: c->str = n->str; break;
  case OP_DTYPE: c->dtype = n->dtype; break;
  case OP_TUPLE_GET: c->index = n->index; break;
  case OP_IF:
    clone_seq(k, &n->if_.then_, &c->if_.then_, c, n->span);
    clone_seq(k, &n->if_.else_, &c->if_.else_, c, n->span);
    break;
  default: break;
  }
  if (n->block) {
    map_setp(&k->nodes, n, c);
    if (k->copied) k->copied(k->ctx, n, c);
  }
  return c;
}

void clone_vars(Clone *k, const SInfo *s) {
  VarVec v = {0};
  sinfo_vars(k->pc->scratch, s, &v);
  for (uint32_t i = 0; i < v.n; i++) {
    if (map_hasp(&k->vars, v.at[i])) continue;
    Var *fresh = var_create(k->pc->c, v.at[i]->name, v.at[i]->dtype);
    fresh->is_dim = v.at[i]->is_dim;
    map_setp(&k->vars, v.at[i], (void *)(uintptr_t)fresh->expr);
  }
}

Node *clone_node(Clone *k, Node *n) {
  Node *done = map_getp(&k->nodes, n);
  if (done) return done;
  return n->block || n->op == OP_PARAM ? n : copy(k, n);
}

Node *clone_binding(Clone *k, Node *n) {
  if (n->op == OP_MATCH_CAST && n->annot) clone_vars(k, n->annot);
  return copy(k, n);
}

void clone_tail(Clone *k, const BindingBlock *b, Node *first, BindingBlock *to) {
  for (Node *n = first; b; b = b->next, n = b ? b->first : NULL)
    for (; n; n = n->next) node_bind_last(to, clone_binding(k, n), n->name);
}

void clone_seq(Clone *k, const Seq *s, Seq *to, Node *owner, Span span) {
  BindingBlock *last = block_append(k->to, to, owner, false, span);
  clone_tail(k, s->first, s->first ? s->first->first : NULL, last);
  to->yield = clone_node(k, s->yield);
}

void clone_bind_dims(Clone *k, const SInfo *want, const SInfo *have) {
  if (want->kind == SINFO_TUPLE && have->kind == SINFO_TUPLE && want->n == have->n)
    for (uint32_t i = 0; i < want->n; i++) clone_bind_dims(k, want->fields[i], have->fields[i]);
  if (want->kind == SINFO_PRIM && want->value && want->value->kind == EXPR_VAR && have->value)
    map_setp(&k->vars, want->value->var, (void *)(uintptr_t)have->value);
  for (int32_t i = 0; want->dims && have->dims && i < want->ndim && i < have->ndim; i++)
    if (want->dims[i]->kind == EXPR_VAR && !map_hasp(&k->vars, want->dims[i]->var))
      map_setp(&k->vars, want->dims[i]->var, (void *)(uintptr_t)have->dims[i]);
}
