/* A recursive function that takes functions, made once for the ones that it is given.
 *
 *   before: def repeat(f, n, x): ... cls.repeat(f, m, y)
 *           z = cls.repeat(R.make_closure(cls.g, (k,)), n, x)
 *   after:  def repeat_g(n, x, k): f = R.make_closure(cls.g, (k,)); ... cls.repeat(f, m, y)
 *           z = cls.repeat_g(n, x, k)
 *
 * In the new body the walk of ResolveClosures finds the same call with the same function and calls
 * repeat_g again. Two calls share a function when theirs have the same names and bind values of
 * the same types, with the same dims in the places of the callee's: the key says so. A function
 * that wraps its argument in another one at each step has no end of keys and is refused.
 */
#include "passes/graph/clone.h"
#include "passes/graph/closures.h"

typedef struct {
  Specials *s;
  Node *call;
  Func *f;
  Text key;
  NodeVec env;      /* what the functions bind, in the caller */
  Map canon;        /* the caller's Var * -> its number's variable, as Expr * */
  VarVec unmatched; /* the caller's variables that no plain argument shows */
  VarVec scalars;   /* those of them that the types of env don't show either */
  Clone k;
  Map vars;      /* the caller's Var * -> Expr * in the new function */
  NodeVec given; /* parameters for env */
  uint32_t next; /* of given, while the functions are built again */
} Special;

void specials_init(Specials *s, PassCtx *pc) {
  *s = (Specials){.pc = pc};
  strmap_init(&s->made, pc->scratch);
  map_init(&s->depth, pc->scratch);
}

bool sinfo_holds_function(const SInfo *s) {
  if (s->kind == SINFO_TUPLE)
    for (uint32_t i = 0; i < s->n; i++)
      if (sinfo_holds_function(s->fields[i])) return true;
  return s->kind == SINFO_CALLABLE;
}

void report_endless(PassCtx *pc, const Node *call, const Func *f) {
  diag_error(pc->c->diags, call->span,
             "'%s' passes on functions to itself without an end that is known at compile time",
             f->name);
}

/* ---- the key ---- */

static const Expr *number(Specials *s, uint32_t i) {
  Arena *a = s->pc->scratch;
  while (s->numbers.n <= i) {
    Var *v = var_create(s->pc->c, arena_printf(a, "%u", s->numbers.n), DT_I64);
    vec_push(a, &s->numbers, v);
  }
  return s->numbers.at[i]->expr;
}

/* Numbers the caller's variables that stand where f's signature has a variable alone. */
static void match_dims(Special *p, const SInfo *want, const SInfo *have) {
  if (want->kind == SINFO_TUPLE && have->kind == SINFO_TUPLE && want->n == have->n)
    for (uint32_t i = 0; i < want->n; i++) match_dims(p, want->fields[i], have->fields[i]);
  bool prims = want->kind == SINFO_PRIM && want->value && have->kind == SINFO_PRIM && have->value;
  int32_t n = prims ? 1 : want->dims && have->dims ? want->ndim : 0;
  for (int32_t i = 0; i < n && (prims || i < have->ndim); i++) {
    const Expr *w = prims ? want->value : want->dims[i], *h = prims ? have->value : have->dims[i];
    if (w->kind != EXPR_VAR || h->kind != EXPR_VAR || map_hasp(&p->canon, h->var)) continue;
    for (uint32_t k = 0; k < p->f->ndims; k++) {
      if (p->f->dims[k] != w->var) continue;
      map_setp(&p->canon, h->var, (void *)(uintptr_t)number(p->s, k));
      map_setp(&p->vars, h->var, map_getp(&p->k.vars, w->var));
    }
  }
}

static void key_value(Special *p, Node *v) {
  Arena *a = p->s->pc->scratch;
  VarVec vars = {0};
  vec_push(a, &p->env, v);
  sinfo_vars(a, v->sinfo, &vars);
  for (uint32_t i = 0; i < vars.n; i++) {
    if (map_hasp(&p->canon, vars.at[i])) continue;
    const Expr *e = number(p->s, p->f->ndims + p->unmatched.n);
    map_setp(&p->canon, vars.at[i], (void *)(uintptr_t)e);
    vec_push(a, &p->unmatched, vars.at[i]);
  }
  sinfo_print(&p->key, sinfo_subst(p->s->pc->c, &p->canon, v->sinfo));
}

static void key_fn(Special *p, const Fn *f) {
  text_puts(&p->key, f->kind == FN_ONE ? f->name : f->kind == FN_CHOICE ? "?" : "");
  text_putc(&p->key, '(');
  if (f->kind == FN_CHOICE) {
    key_value(p, f->cond);
    key_fn(p, f->a);
    key_fn(p, f->b);
  }
  for (uint32_t i = 0; i < f->bound.n; i++) {
    if (f->fields && f->fields[i])
      key_fn(p, f->fields[i]);
    else
      key_value(p, f->bound.at[i]);
  }
  text_putc(&p->key, ')');
}

/* ---- the function ---- */

/* The function as nodes of the new body, at the end of b; `type` is what the parameter was. */
static Node *build_fn(Special *p, const Fn *f, BindingBlock *b, const SInfo *type) {
  Func *to = p->k.to;
  Arena *a = p->s->pc->scratch;
  Span span = p->call->span;
  Node *n = NULL, **in = ARENA_ARRAY(a, Node *, f->bound.n + 2);
  uint32_t nin = 0;
  switch (f->kind) {
  case FN_ONE:
    in[nin++] = node_global(to, f->name, span);
    if (!f->bound.n) return in[0];
    for (uint32_t i = 0; i < f->bound.n; i++)
      in[nin++] = f->fields && f->fields[i] ? build_fn(p, f->fields[i], b, f->bound.at[i]->sinfo)
                                            : p->given.at[p->next++];
    n = node_create(to, OP_make_closure, in, nin, span);
    break;
  case FN_TUPLE:
    for (uint32_t i = 0; i < f->bound.n; i++)
      in[nin++] =
          f->fields[i] ? build_fn(p, f->fields[i], b, type->fields[i]) : p->given.at[p->next++];
    n = node_tuple(to, in, nin, span);
    break;
  case FN_CHOICE:
    in[nin++] = p->given.at[p->next++];
    n = node_create(to, OP_IF, in, nin, span);
    for (int e = 0; e < 2; e++) {
      Seq *s = e ? &n->if_.else_ : &n->if_.then_;
      BindingBlock *inner = block_append(to, s, n, false, span);
      Node *v = build_fn(p, e ? f->b : f->a, inner, type);
      s->yield = node_create(to, OP_YIELD, &v, 1, span);
      s->yield->sinfo = type;
    }
    break;
  case FN_HIDDEN: bug("a function that isn't visible is passed on");
  }
  n->sinfo = type;
  node_bind_last(b, n, NULL);
  return n;
}

static const char *first_name(const Fn *f) {
  for (;; f = f->fields[0])
    if (f->kind == FN_ONE)
      return f->name;
    else if (f->kind != FN_TUPLE || !f->n || !f->fields[0])
      return "specialised";
}

/* Parameters for what is bound, and for variables that nothing else shows. */
static void add_environment(Special *p) {
  Context *c = p->s->pc->c;
  for (uint32_t i = 0; i < p->unmatched.n; i++) {
    const Var *old = p->unmatched.at[i];
    Var *fresh = var_create(c, old->name, old->dtype);
    fresh->is_dim = old->is_dim;
    map_setp(&p->vars, old, (void *)(uintptr_t)fresh->expr);
  }
  for (uint32_t i = 0; i < p->env.n; i++) {
    Node *v = p->env.at[i];
    const SInfo *s = sinfo_subst(c, &p->vars, v->sinfo);
    vec_push(p->s->pc->scratch, &p->given,
             func_add_param(p->k.to, v->name ? v->name : "bound", s, v->span));
  }
  for (uint32_t i = 0; i < p->scalars.n; i++) {
    const Var *v = p->scalars.at[i];
    const SInfo *s = sinfo_prim_value(c, map_getp(&p->vars, v));
    func_add_param(p->k.to, v->name, s, p->call->span);
  }
}

static void build_function(Special *p, const Fn *const *fns) {
  Func *f = p->f, *to = p->k.to;
  to->is_private = true;
  to->pure = f->pure;
  to->check_well_formed = f->check_well_formed;
  to->attrs = f->attrs;
  to->name_span = f->name_span;
  to->ret_span = f->ret_span;
  for (uint32_t i = 0; i < f->nparams; i++) {
    Node *q = f->params[i];
    if (fns[i]) continue;
    map_setp(&p->k.nodes, q, func_add_param(to, q->name, clone_sinfo(&p->k, q->sinfo), q->span));
  }
  add_environment(p);
  func_collect_dims(to);
  BindingBlock *b = block_append(to, &to->body, NULL, false, f->span);
  for (uint32_t i = 0; i < f->nparams; i++) {
    Node *q = f->params[i];
    if (fns[i]) map_setp(&p->k.nodes, q, build_fn(p, fns[i], b, clone_sinfo(&p->k, q->sinfo)));
  }
  clone_seq(&p->k, &f->body, &to->body, NULL, f->span);
  to->ret = clone_sinfo(&p->k, f->ret);
  module_add_func(p->s->pc->m, to);
}

/* The key, and what the new function takes beside the plain arguments. */
static void describe(Special *p, const Fn *const *fns) {
  Arena *a = p->s->pc->scratch;
  Func *f = p->f;
  Map shown;
  for (uint32_t i = 0; i < f->nparams; i++) {
    clone_vars(&p->k, f->params[i]->sinfo);
    if (!fns[i]) match_dims(p, f->params[i]->sinfo, node_in(p->call, i + 1)->sinfo);
  }
  text_puts(&p->key, f->name);
  for (uint32_t i = 0; i < f->nparams; i++) {
    text_putc(&p->key, ',');
    if (fns[i]) key_fn(p, fns[i]);
  }
  map_init(&shown, a);
  for (uint32_t i = 0; i < p->env.n; i++) graph_shown_vars(&shown, p->env.at[i]->sinfo);
  for (uint32_t i = 0; i < p->unmatched.n; i++)
    if (!map_hasp(&shown, p->unmatched.at[i])) vec_push(a, &p->scalars, p->unmatched.at[i]);
}

static Node *make_call(Special *p, const Func *to, const Fn *const *fns) {
  Node *call = p->call,
       **in = ARENA_ARRAY(p->s->pc->scratch, Node *, call->nin + p->env.n + p->scalars.n);
  uint32_t n = 0;
  in[n++] = node_global(call->func, to->name, call->span);
  for (uint32_t i = 1; i < call->nin; i++)
    if (!fns[i - 1]) in[n++] = node_in(call, i);
  for (uint32_t i = 0; i < p->env.n; i++) in[n++] = p->env.at[i];
  for (uint32_t i = 0; i < p->scalars.n; i++)
    in[n++] = node_prim(call->func, p->scalars.at[i]->expr, call->span);
  Node *r = node_create(call->func, OP_CALL, in, n, call->span);
  if (!node_infer(p->s->pc->m, NULL, r)) return NULL;
  if (!r->sinfo || (call->sinfo->dims && !r->sinfo->dims)) r->sinfo = call->sinfo;
  return r;
}

Node *specialise_call(Specials *s, Node *call, Func *f, const Fn *const *fns) {
  Arena *a = s->pc->scratch;
  Special p = {.s = s, .call = call, .f = f};
  map_init(&p.canon, a);
  map_init(&p.vars, a);
  clone_init(&p.k, s->pc, NULL);
  describe(&p, fns);
  const char *key = arena_strndup(a, p.key.s, p.key.n);
  text_free(&p.key);
  Func *to = strmap_get(&s->made, key);
  if (!to) {
    uintptr_t depth = (uintptr_t)map_getp(&s->depth, call->func) + 1;
    const char *given = "";
    for (uint32_t i = 0; i < f->nparams && !*given; i++)
      if (fns[i]) given = first_name(fns[i]);
    if (depth > MAX_CLOSURE_DEPTH) {
      report_endless(s->pc, call, f);
      return NULL;
    }
    const char *hint = arena_printf(a, "%s_%s", f->name, given);
    to = p.k.to = func_create(s->pc->m, module_unique_name(s->pc->m, hint), f->span);
    strmap_set(&s->made, key, to);
    map_setp(&s->depth, to, (void *)depth);
    build_function(&p, fns);
  }
  return make_call(&p, to, fns);
}
