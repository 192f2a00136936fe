/* ResolveClosures: functions that are values become direct calls.
 *
 *   before: c = R.make_closure(cls.f, (k,))
 *           z = R.invoke_pure_closure(c, (x,), ty_args=...)
 *   after:  z = cls.f(x, k)
 *
 * Relax has no way to store a function, so that which one a value is follows from the program: the
 * walk keeps, beside each node that is a function, its name and what was bound (the last arguments,
 * as in TVM's VM). Where a branch decides, the call moves into a branch on the same condition. A
 * call that passes or gives a function is replaced by the callee's body, in which the walk goes on
 * (specialisation in the manner of defunctionalisation, Reynolds 1972). Native code then knows
 * plain calls only.
 */
#include "passes/graph/graph.h"

enum { MAX_DEPTH = 64 };

typedef struct Fn {
  enum { FN_ONE, FN_CHOICE, FN_TUPLE } kind;
  const char *name; /* ONE */
  NodeVec bound;    /* ONE: the last arguments; TUPLE: the fields */
  Node *cond;       /* CHOICE */
  const struct Fn *a, *b;
  const struct Fn **fields; /* TUPLE; NULL: no function */
  uint32_t n;
} Fn;

typedef struct {
  PassCtx *pc;
  Arena *a;
  Map fns;   /* Node* -> Fn* */
  Map depth; /* Node* that came from a callee's body -> how deep */
  bool ok;
} Resolve;

/* What function node n is, or which its fields are, from its operands. */
static const Fn *describe(Resolve *x, const Node *n);

static const Fn *fn_of(Resolve *x, const Node *n) {
  const Fn *known = map_getp(&x->fns, n);
  return known || n->block || n->op == OP_PARAM ? known : describe(x, n);
}

static const Fn *describe(Resolve *x, const Node *n) {
  Fn *f = ARENA_NEW(x->a, Fn);
  switch (n->op) {
  case OP_GLOBAL: f->name = n->str; return module_func(x->pc->m, n->str) ? f : NULL;
  case OP_make_closure: {
    const Fn *base = fn_of(x, node_in(n, 0));
    if (!base || base->kind != FN_ONE) return NULL;
    f->name = base->name;
    for (uint32_t i = 1; i < n->nin; i++) vec_push(x->a, &f->bound, node_in(n, i));
    for (uint32_t i = 0; i < base->bound.n; i++) vec_push(x->a, &f->bound, base->bound.at[i]);
    return f;
  }
  case OP_ALIAS:
  case OP_MATCH_CAST: return fn_of(x, node_in(n, 0));
  case OP_TUPLE: {
    bool any = false;
    f->kind = FN_TUPLE;
    f->n = n->nin;
    f->fields = ARENA_ARRAY(x->a, const Fn *, n->nin + 1);
    for (uint32_t i = 0; i < n->nin; i++) {
      vec_push(x->a, &f->bound, node_in(n, i));
      any |= (f->fields[i] = fn_of(x, node_in(n, i))) != NULL;
    }
    return any ? f : NULL;
  }
  case OP_TUPLE_GET: {
    const Fn *t = fn_of(x, node_in(n, 0));
    bool ok = t && t->kind == FN_TUPLE && n->index >= 0 && n->index < t->n;
    return ok ? t->fields[n->index] : NULL;
  }
  default: return NULL;
  }
}

static bool holds_function(const SInfo *s) {
  if (s->kind == SINFO_TUPLE)
    for (uint32_t i = 0; i < s->n; i++)
      if (holds_function(s->fields[i])) return true;
  return s->kind == SINFO_CALLABLE;
}

/* A private function that only the bodies of its callers can stand for. */
static bool is_higher_order(const Func *f) {
  if (!f->is_private) return false;
  for (uint32_t i = 0; i < f->nparams; i++)
    if (holds_function(f->params[i]->sinfo)) return true;
  return f->ret && (holds_function(f->ret) || f->ret->kind == SINFO_OBJECT);
}

/* ---- a callee's body in place of a call ---- */

typedef struct {
  Resolve *x;
  Func *to;
  Map nodes, vars;
  uintptr_t depth;
} Clone;

static const Expr *clone_expr(Clone *k, const Expr *e) {
  Subst s = {.c = k->x->pc->c, .vars = &k->vars};
  const Expr *r = expr_subst(&s, e);
  return r == e ? e : expr_simplify(k->x->pc->c, r);
}

static const SInfo *clone_sinfo(Clone *k, const SInfo *s) {
  return s ? sinfo_subst(k->x->pc->c, &k->vars, s) : NULL;
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

static void clone_seq(Clone *k, const Seq *s, Seq *to, Node *owner);

/* A floating copy of n; operands that are bound were copied before. */
static Node *clone_node(Clone *k, Node *n) {
  Node *done = map_getp(&k->nodes, n);
  if (done) return done;
  Node **in = ARENA_ARRAY(k->x->a, Node *, n->nin + 1);
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
    clone_seq(k, &n->if_.then_, &c->if_.then_, c);
    clone_seq(k, &n->if_.else_, &c->if_.else_, c);
    break;
  default: break;
  }
  if (n->block) {
    map_setp(&k->nodes, n, c);
    map_setp(&k->x->depth, c, (void *)k->depth);
  }
  return c;
}

static void new_vars(Clone *k, const SInfo *s) {
  VarVec v = {0};
  sinfo_vars(k->x->a, s, &v);
  for (uint32_t i = 0; i < v.n; i++) {
    if (map_hasp(&k->vars, v.at[i])) continue;
    Var *fresh = var_create(k->x->pc->c, v.at[i]->name, v.at[i]->dtype);
    fresh->is_dim = v.at[i]->is_dim;
    map_setp(&k->vars, v.at[i], (void *)(uintptr_t)fresh->expr);
  }
}

static void clone_seq(Clone *k, const Seq *s, Seq *to, Node *owner) {
  BindingBlock *last = block_append(k->to, to, owner, false, owner->span);
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) {
      if (n->op == OP_MATCH_CAST && n->annot) new_vars(k, n->annot);
      node_bind_last(last, clone_node(k, n), n->name);
    }
  to->yield = clone_node(k, s->yield);
}

/* Binds the variables of the callee's parameters to the dims of the arguments. */
static void bind_dims(Clone *k, const SInfo *want, const SInfo *have) {
  if (want->kind == SINFO_TUPLE && have->kind == SINFO_TUPLE && want->n == have->n)
    for (uint32_t i = 0; i < want->n; i++) bind_dims(k, want->fields[i], have->fields[i]);
  if (want->kind == SINFO_PRIM && want->value && want->value->kind == EXPR_VAR && have->value)
    map_setp(&k->vars, want->value->var, (void *)(uintptr_t)have->value);
  for (int32_t i = 0; want->dims && have->dims && i < want->ndim && i < have->ndim; i++)
    if (want->dims[i]->kind == EXPR_VAR && !map_hasp(&k->vars, want->dims[i]->var))
      map_setp(&k->vars, want->dims[i]->var, (void *)(uintptr_t)have->dims[i]);
}

/* Puts f's body before call n and gives its result in *out; the first node of it, or NULL. */
static Node *inline_body(Resolve *x, Node *n, Func *f, Node **out) {
  Clone k = {.x = x, .to = n->func, .depth = (uintptr_t)map_getp(&x->depth, n) + 1};
  if (k.depth > MAX_DEPTH) {
    diag_error(x->pc->c->diags, n->span,
               "'%s' passes on a function to itself without an end that is known at compile time",
               f->name);
    x->ok = false;
    return NULL;
  }
  map_init(&k.nodes, x->a);
  map_init(&k.vars, x->a);
  for (uint32_t i = 0; i < f->nparams && i + 1 < n->nin; i++) {
    map_setp(&k.nodes, f->params[i], node_in(n, i + 1));
    bind_dims(&k, f->params[i]->sinfo, node_in(n, i + 1)->sinfo);
  }
  n->block->dataflow = false;
  Node *first = NULL;
  for (BindingBlock *b = f->body.first; b; b = b->next)
    for (Node *d = b->first; d; d = d->next) {
      if (d->op == OP_MATCH_CAST && d->annot) new_vars(&k, d->annot);
      Node *c = clone_node(&k, d);
      node_bind_before(n, c, d->name);
      if (!first) first = c;
    }
  *out = clone_node(&k, func_result(f));
  return first;
}

/* ---- the walk ---- */

static void walk_seq(Resolve *x, Seq *s);

static bool same_fn(const Fn *a, const Fn *b) {
  if (a == b) return true;
  if (!a || !b || a->kind != FN_ONE || b->kind != FN_ONE || strcmp(a->name, b->name) != 0 ||
      a->bound.n != b->bound.n)
    return false;
  for (uint32_t i = 0; i < a->bound.n; i++)
    if (a->bound.at[i] != b->bound.at[i]) return false;
  return true;
}

/* Whether all that f binds is known outside of branch node n. */
static bool is_visible(const Fn *f, const Node *n) {
  if (!f) return true;
  if (f->kind == FN_CHOICE) return is_visible(f->a, n) && is_visible(f->b, n);
  for (uint32_t i = 0; i < f->bound.n; i++)
    for (const Node *d = f->bound.at[i]; d && d->block; d = d->block->owner)
      if (d->block->owner == n) return false;
  return true;
}

static const Fn *merge(Resolve *x, Node *n) {
  const Fn *a = fn_of(x, seq_result(&n->if_.then_)), *b = fn_of(x, seq_result(&n->if_.else_));
  if (!a || !b || a->kind == FN_TUPLE || b->kind == FN_TUPLE) return NULL;
  if (!is_visible(a, n) || !is_visible(b, n)) {
    diag_error(x->pc->c->diags, n->span,
               "a function that binds values of a branch can't leave it: bind them outside");
    x->ok = false;
    return NULL;
  }
  if (same_fn(a, b)) return a;
  Fn *f = ARENA_NEW(x->a, Fn);
  *f = (Fn){.kind = FN_CHOICE, .cond = node_in(n, 0), .a = a, .b = b};
  return f;
}

static Node *call_one(Resolve *x, Node *n, const Fn *f) {
  Node **in = ARENA_ARRAY(x->a, Node *, n->nin + f->bound.n);
  uint32_t nin = 0;
  in[nin++] = node_global(n->func, f->name, n->span);
  for (uint32_t i = 1; i < n->nin; i++) in[nin++] = node_in(n, i);
  for (uint32_t i = 0; i < f->bound.n; i++) in[nin++] = f->bound.at[i];
  Node *call = node_create(n->func, OP_CALL, in, nin, n->span);
  if (!node_infer(x->pc->m, NULL, call)) x->ok = false;
  if (!call->sinfo || (n->sinfo->dims && !call->sinfo->dims)) call->sinfo = n->sinfo;
  return call;
}

/* The call of n as a floating node: of one function, or a branch that calls one of two. */
static Node *call_of(Resolve *x, Node *n, const Fn *f) {
  if (f->kind == FN_ONE) return call_one(x, n, f);
  Node *r = node_create(n->func, OP_IF, (Node *[]){f->cond}, 1, n->span);
  r->sinfo = n->sinfo;
  for (int e = 0; e < 2; e++) {
    Seq *s = e ? &r->if_.else_ : &r->if_.then_;
    BindingBlock *b = block_append(n->func, s, r, false, n->span);
    Node *v = call_of(x, n, e ? f->b : f->a);
    node_bind_last(b, v, n->name);
    s->yield = node_create(n->func, OP_YIELD, &v, 1, n->span);
    s->yield->sinfo = v->sinfo;
  }
  return r;
}

/* A direct call in place of n, which may pass or give functions; where to go on. */
static Node *walk_call(Resolve *x, Node *n) {
  Node *next = n->next;
  Func *f = module_func(x->pc->m, node_in(n, 0)->str);
  if (!f) return next;
  bool inside = is_higher_order(f);
  for (uint32_t i = 1; i < n->nin; i++) inside |= fn_of(x, node_in(n, i)) != NULL;
  if (!inside || f->nparams + 1 != n->nin) return next;
  Node *r = NULL, *first = inline_body(x, n, f, &r);
  if (!r) return next;
  const Fn *known = fn_of(x, r);
  if (known) map_setp(&x->fns, n, (void *)(uintptr_t)known);
  graph_replace(n, r);
  node_delete(n);
  return first ? first : next;
}

static Node *walk_invoke(Resolve *x, Node *n, const Fn *f) {
  Node *r = call_of(x, n, f);
  if (r->op == OP_IF) n->block->dataflow = false;
  map_setp(&x->depth, r, map_getp(&x->depth, n));
  graph_take_place(n, r);
  return r; /* again, as a direct call or a branch */
}

static Node *walk_node(Resolve *x, Node *n) {
  const Fn *f = NULL;
  switch (n->op) {
  case OP_TUPLE_GET: {
    const Fn *t = fn_of(x, node_in(n, 0));
    f = describe(x, n);
    if (!t || t->kind != FN_TUPLE || f || n->index < 0 || n->index >= t->n) break;
    Node *next = n->next; /* a value that stood beside functions */
    graph_replace(n, t->bound.at[n->index]);
    node_delete(n);
    return next;
  }
  case OP_IF:
    walk_seq(x, &n->if_.then_);
    walk_seq(x, &n->if_.else_);
    f = merge(x, n);
    break;
  case OP_CALL:
    if (node_in(n, 0)->op == OP_GLOBAL) return walk_call(x, n);
    /* fall through */
  case OP_invoke_closure:
  case OP_invoke_pure_closure: {
    const Fn *callee = fn_of(x, node_in(n, 0));
    if (callee && callee->kind != FN_TUPLE) return walk_invoke(x, n, callee);
    break;
  }
  default: f = describe(x, n); break;
  }
  if (f) map_setp(&x->fns, n, (void *)(uintptr_t)f);
  return n->next;
}

static void walk_seq(Resolve *x, Seq *s) {
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first; n && x->ok;) n = walk_node(x, n);
}

/* Whether anything in s has an effect or checks. */
static bool has_effect(const Seq *s) {
  for (const BindingBlock *b = s->first; b; b = b->next)
    for (const Node *n = b->first; n; n = n->next) {
      bool inside = n->op == OP_IF && (has_effect(&n->if_.then_) || has_effect(&n->if_.else_));
      if (inside || n->op == OP_MATCH_CAST || !op_is_pure(n)) return true;
    }
  return false;
}

/* A branch that chose a function gives nothing now; what else it does stays. */
static void strip_branch(Resolve *x, Node *n) {
  const SInfo *nothing = sinfo_tuple(x->pc->c, NULL, 0);
  for (int e = 0; e < 2; e++) {
    Seq *s = e ? &n->if_.else_ : &n->if_.then_;
    Node *t = node_tuple(n->func, NULL, 0, n->span);
    t->sinfo = nothing;
    node_set_in(s->yield, 0, t);
    s->yield->sinfo = nothing;
  }
  n->sinfo = nothing;
  n->annot = NULL;
}

/* Removes what only named functions, users first. */
static void drop_values(Resolve *x, Seq *s) {
  for (BindingBlock *b = s->last; b; b = b->prev)
    for (Node *n = b->last, *prev; n; n = prev) {
      prev = n->prev;
      bool unused = map_hasp(&x->fns, n) && !n->uses;
      if (unused && n->op == OP_IF && (has_effect(&n->if_.then_) || has_effect(&n->if_.else_))) {
        strip_branch(x, n);
      } else if (unused) {
        node_delete(n);
        continue;
      }
      if (n->op != OP_IF) continue;
      drop_values(x, &n->if_.then_);
      drop_values(x, &n->if_.else_);
    }
}

static bool has_closures(const Seq *s) {
  for (const BindingBlock *b = s->first; b; b = b->next)
    for (const Node *n = b->first; n; n = n->next) {
      if (n->op == OP_IF && (has_closures(&n->if_.then_) || has_closures(&n->if_.else_)))
        return true;
      for (uint32_t i = 0; i < n->nin; i++)
        if (node_in(n, i)->sinfo && node_in(n, i)->sinfo->kind == SINFO_CALLABLE &&
            !(i == 0 && (node_op(n)->traits & OPT_CALL) && node_in(n, 0)->op != OP_PARAM &&
              !node_in(n, 0)->block))
          return true;
      if (n->op == OP_make_closure || n->op == OP_invoke_closure || n->op == OP_invoke_pure_closure)
        return true;
    }
  return false;
}

bool pass_resolve_closures(PassCtx *pc) {
  bool any = false, ok = true;
  module_each(pc->m, g) if (g->kind == GLOBAL_FUNC) any |=
      has_closures(&g->func->body) || is_higher_order(g->func);
  if (!any) return true;
  module_each(pc->m, h) {
    if (h->kind != GLOBAL_FUNC || !pass_wants(pc, h->name) || is_higher_order(h->func)) continue;
    Resolve x = {.pc = pc, .a = pc->scratch, .ok = true};
    map_init(&x.fns, x.a);
    map_init(&x.depth, x.a);
    walk_seq(&x, &h->func->body);
    ok &= x.ok;
    if (!x.ok) continue;
    drop_values(&x, &h->func->body);
    func_mark_outputs(h->func);
  }
  /* Their bodies stand where they were called. */
  module_each(pc->m, d) if (ok && d->kind == GLOBAL_FUNC && pass_wants(pc, d->name) &&
                            is_higher_order(d->func)) d->removed = true;
  return ok;
}
