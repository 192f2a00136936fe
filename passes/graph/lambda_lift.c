/* LambdaLift: local functions become private functions of the module.
 *
 *   before: @R.function
 *           def inner(y): return R.add(x, y)
 *           z = inner(w)
 *   after:  inner = R.make_closure(cls.main_inner, (x,))
 *           z = R.invoke_pure_closure(inner, (w,), ty_args=...)
 *           with main_inner(y, x)
 *
 * What the function uses of the values around it is appended to its parameters, as the classic
 * transformation has it (Johnsson, Lambda Lifting, 1985); a function that uses nothing is called
 * directly. Dims of the outer function that no parameter defines are passed as scalars. Inner
 * functions go first, so that what they capture is captured by the outer one as well.
 */
#include "passes/graph/graph.h"

typedef struct {
  PassCtx *pc;
  Func *root; /* the module's function that is worked on */
} Lift;

typedef struct {
  Arena *a;
  NodeVec nodes;
} Found;

static void find_local(Node *n, void *ctx) {
  Found *f = ctx;
  if (n->op == OP_FUNC && n->local) vec_push(f->a, &f->nodes, n);
}

/* ---- what a function captures ---- */

typedef struct {
  Arena *a;
  const Func *f;
  const Node *self; /* the OP_FUNC of f */
  Map seen;
  NodeVec captured;
  VarVec vars; /* all variables of f's shapes and expressions */
} Capture;

static void capture_tree(Capture *x, Node *n) {
  if (n->sinfo) sinfo_vars(x->a, n->sinfo, &x->vars);
  if (n->op == OP_PRIM_VALUE) expr_vars(x->a, n->expr, &x->vars);
  if (n->op == OP_SHAPE_EXPR)
    for (uint32_t i = 0; i < n->shape.n; i++) expr_vars(x->a, n->shape.at[i], &x->vars);
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *d = node_in(n, i);
    bool named = d->block || d->op == OP_PARAM;
    if (!named) {
      capture_tree(x, d);
    } else if (d->func != x->f && d != x->self && !map_hasp(&x->seen, d)) {
      map_setp(&x->seen, d, d);
      vec_push(x->a, &x->captured, d);
    }
  }
}

static void capture_func(Capture *x, Func *f) {
  SeqVec seqs = {0};
  func_seqs(x->a, f, &seqs);
  for (uint32_t k = 0; k < seqs.n; k++) {
    for (BindingBlock *b = seqs.at[k]->first; b; b = b->next)
      for (Node *n = b->first; n; n = n->next) capture_tree(x, n);
    capture_tree(x, seqs.at[k]->yield);
  }
}

/* ---- lifting ---- */

/* root_name, root_outer_name, root_name_0, ...: the first that is free. */
static const char *lifted_name(Lift *x, const Node *n) {
  Module *m = x->pc->m;
  Arena *a = m->arena;
  const char *symbol = attr_get_str(n->local->attrs, "global_symbol", NULL);
  if (symbol && !module_find(m, symbol)) return symbol;
  const char *name = arena_printf(a, "%s_%s", x->root->name, n->name);
  if (!module_find(m, name)) return name;
  const char *path = n->name;
  for (const Func *f = n->func; f->outer; f = f->outer)
    path = arena_printf(a, "%s_%s", f->name, path);
  name = arena_printf(a, "%s_%s", x->root->name, path);
  for (int i = 0; module_find(m, name); i++)
    name = arena_printf(a, "%s_%s_%d", x->root->name, n->name, i);
  return name;
}

/* The names of a function that was local, as its own. */
static void own_names(Arena *a, Func *f) {
  SeqVec seqs = {0};
  f->outer = NULL;
  strmap_init(&f->names, func_arena(f));
  for (uint32_t i = 0; i < f->nparams; i++) func_take_name(f, f->params[i]->name);
  func_seqs(a, f, &seqs);
  for (uint32_t k = 0; k < seqs.n; k++)
    for (BindingBlock *b = seqs.at[k]->first; b; b = b->next)
      for (Node *n = b->first; n; n = n->next)
        if (n->name) func_take_name(f, n->name);
}

static void set_ty_args(Node *n, const SInfo *s) {
  const SInfo **one = ARENA_ARRAY(func_arena(n->func), const SInfo *, 1);
  one[0] = s;
  *(SInfoList *)n->attrs = (SInfoList){1, one, true};
}

/* The function as a value where `user` wants it: itself, or a closure over `bound`. */
static Node *as_value(Node *user, const Func *l, Node *const *bound, uint32_t n, Span span) {
  Func *f = user->func;
  Node **in = ARENA_ARRAY(func_arena(f), Node *, n + 1);
  in[0] = node_global(f, l->name, span);
  if (!n) return in[0];
  for (uint32_t i = 0; i < n; i++) in[i + 1] = bound[i];
  Node *c = node_create(f, OP_make_closure, in, n + 1, span);
  return c;
}

/* A call of closure c through R.invoke_closure or its pure form. */
static void invoke(Node *call, Node *c, bool pure) {
  OpId op = pure ? OP_invoke_pure_closure : OP_invoke_closure;
  Node **in = ARENA_ARRAY(func_arena(call->func), Node *, call->nin);
  in[0] = c;
  for (uint32_t i = 1; i < call->nin; i++) in[i] = node_in(call, i);
  Node *n = node_create(call->func, op, in, call->nin, call->span);
  n->attrs = node_new_attrs(call->func, op);
  n->sinfo = call->sinfo;
  set_ty_args(n, call->sinfo);
  graph_take_place(call, n);
}

/* The uses of OP_FUNC node n inside of its own body: calls itself with its own captured values. */
static void replace_self(Arena *a, Node *n, Func *l, Node *const *own, uint32_t nown) {
  VEC(Use *) uses = {0};
  for (Use *u = n->uses; u; u = u->next)
    if (u->user->func == l) vec_push(a, &uses, u);
  for (uint32_t i = 0; i < uses.n; i++) {
    Node *user = uses.at[i]->user;
    uint32_t at = (uint32_t)(uses.at[i] - user->in);
    if (user->op == OP_CALL && at == 0) {
      node_set_in(user, 0, node_global(l, l->name, user->span));
      for (uint32_t k = 0; k < nown; k++) node_add_in(user, own[k], user->span);
      continue;
    }
    Node *v = as_value(user, l, own, nown, n->span);
    v->sinfo = n->sinfo;
    if (user->block && nown) node_bind_before(user, v, n->name);
    node_set_in(user, at, v);
  }
}

static void lift_func(Lift *x, Func *f);

static void lift_node(Lift *x, Node *n) {
  Context *c = x->pc->c;
  Arena *a = x->pc->scratch;
  Func *l = n->local, *outer = n->func;
  lift_func(x, l);
  Capture cap = {.a = a, .f = l, .self = n};
  map_init(&cap.seen, a);
  capture_func(&cap, l);
  const char *name = lifted_name(x, n);
  own_names(a, l);
  l->name = strpool_intern(c->strings, name, strlen(name));
  l->is_private = attr_get_str(l->attrs, "global_symbol", NULL) == NULL;
  NodeVec args = {0}, own = {0};
  for (uint32_t i = 0; i < cap.captured.n; i++) {
    Node *d = cap.captured.at[i];
    Node *p = func_add_param(l, d->name, d->sinfo, d->span);
    VEC(Use *) uses = {0};
    for (Use *u = d->uses; u; u = u->next)
      if (u->user->func == l) vec_push(a, &uses, u);
    for (uint32_t k = 0; k < uses.n; k++)
      node_set_in(uses.at[k]->user, (uint32_t)(uses.at[k] - uses.at[k]->user->in), p);
    vec_push(a, &args, d);
    vec_push(a, &own, p);
  }
  /* Variables: those of the signature and those of shapes around, each with a new one. */
  Map defined, vars;
  map_init(&defined, a);
  map_init(&vars, a);
  for (uint32_t i = 0; i < l->nparams; i++) {
    graph_shown_vars(&defined, l->params[i]->sinfo);
    sinfo_vars(a, l->params[i]->sinfo, &cap.vars);
  }
  SeqVec seqs = {0};
  func_seqs(a, l, &seqs);
  for (uint32_t k = 0; k < seqs.n; k++)
    for (BindingBlock *b = seqs.at[k]->first; b; b = b->next)
      for (Node *m = b->first; m; m = m->next)
        if (m->op == OP_MATCH_CAST && m->annot) graph_shown_vars(&defined, m->annot);
  for (uint32_t i = 0; i < cap.vars.n; i++) {
    Var *v = cap.vars.at[i];
    if (map_hasp(&vars, v)) continue;
    Var *fresh = var_create(c, v->name, v->dtype);
    fresh->is_dim = v->is_dim;
    map_setp(&vars, v, (void *)(uintptr_t)fresh->expr);
    if (map_hasp(&defined, v)) continue;
    vec_push(a, &own, func_add_param(l, v->name, sinfo_prim_value(c, v->expr), n->span));
    vec_push(a, &args, node_prim(outer, v->expr, n->span));
  }
  module_add_func(x->pc->m, l);
  replace_self(a, n, l, own.at, own.n);
  func_subst(l, &vars);
  Node *v = as_value(n, l, args.at, args.n, n->span);
  bool pure = l->pure;
  n->local = NULL; /* a function of the module now */
  if (!args.n) {
    while (n->uses)
      node_set_in(n->uses->user, (uint32_t)(n->uses - n->uses->user->in),
                  node_global(n->uses->user->func, l->name, n->span));
    node_delete(n);
    return;
  }
  v->sinfo = n->sinfo;
  graph_take_place(n, v);
  VEC(Node *) calls = {0};
  for (Use *u = v->uses; u; u = u->next)
    if (u->user->op == OP_CALL && u == u->user->in) vec_push(a, &calls, u->user);
  for (uint32_t i = 0; i < calls.n; i++) invoke(calls.at[i], v, pure);
}

static void lift_func(Lift *x, Func *f) {
  Found found = {.a = x->pc->scratch};
  func_each_node(f, find_local, &found);
  for (uint32_t i = 0; i < found.nodes.n; i++) lift_node(x, found.nodes.at[i]);
}

bool pass_lambda_lift(PassCtx *pc) {
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    Lift x = {pc, g->func};
    lift_func(&x, g->func);
  }
  return true;
}
