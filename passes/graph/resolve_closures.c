/* ResolveClosures: functions that are values become direct calls.
 *
 *   before: c = R.make_closure(cls.f, (k,))
 *           z = R.invoke_pure_closure(c, (x,), ty_args=...)
 *   after:  z = cls.f(x, k)
 *
 * Relax has no way to store a function, so that which one a value is follows from the program: the
 * walk keeps, beside each node that is a function, its name and what was bound (the last arguments,
 * as in TVM's VM). Where a branch decides, the call moves into a branch on the same condition; if
 * the function binds values of the branch, all that follows the branch moves into it. A call that
 * passes or gives a function is replaced by the callee's body, in which the walk goes on, or, if
 * the callee is recursive, by a call of one made for the functions passed (specialise.c), in the
 * manner of defunctionalisation (Reynolds 1972). Native code then knows plain calls only.
 */
#include "ir/reach.h"
#include "passes/graph/clone.h"
#include "passes/graph/closures.h"

typedef struct {
  PassCtx *pc;
  Arena *a;
  Map fns;           /* Node* -> Fn* */
  Map depth;         /* Node* that came from a callee's body -> how deep */
  uintptr_t inlined; /* the depth of the body that is copied */
  Specials *specials;
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
    f->fields = ARENA_ARRAY(x->a, const Fn *, f->bound.n + 1);
    for (uint32_t i = 0; i < f->bound.n; i++) f->fields[i] = fn_of(x, f->bound.at[i]);
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

static bool gives_function(const Func *f) {
  return f->ret && (sinfo_holds_function(f->ret) || f->ret->kind == SINFO_OBJECT);
}

/* A private function that only the bodies of its callers can stand for. */
static bool is_higher_order(const Func *f) {
  if (!f->is_private) return false;
  for (uint32_t i = 0; i < f->nparams; i++)
    if (sinfo_holds_function(f->params[i]->sinfo)) return true;
  return gives_function(f);
}

/* ---- a callee's body in place of a call ---- */

static void copy_depth(void *ctx, const Node *from, const Node *to) {
  Resolve *x = ctx;
  x->specials->copies++;
  map_setp(&x->depth, to, map_getp(&x->depth, from));
}

static void set_depth(void *ctx, const Node *from, const Node *to) {
  (void)from;
  Resolve *x = ctx;
  x->specials->copies++;
  map_setp(&x->depth, to, (void *)x->inlined);
}

/* Puts f's body before call n and gives its result in *out; the first node of it, or NULL. */
static Node *inline_body(Resolve *x, Node *n, Func *f, Node **out) {
  Clone k;
  x->inlined = (uintptr_t)map_getp(&x->depth, n) + 1;
  if (x->inlined > MAX_CLOSURE_DEPTH) {
    report_endless(x->pc, n, f);
    x->ok = false;
    return NULL;
  }
  if (x->specials->copies > MAX_CLOSURE_COPIES) {
    diag_error(
        x->pc->c->diags, n->span,
        "the functions passed on to '%s' make the program too large: more than %d operations "
        "are copied",
        f->name, MAX_CLOSURE_COPIES);
    x->ok = false;
    return NULL;
  }
  clone_init(&k, x->pc, n->func);
  k.copied = set_depth;
  k.ctx = x;
  for (uint32_t i = 0; i < f->nparams && i + 1 < n->nin; i++) {
    map_setp(&k.nodes, f->params[i], node_in(n, i + 1));
    clone_bind_dims(&k, f->params[i]->sinfo, node_in(n, i + 1)->sinfo);
  }
  n->block->dataflow = false;
  Node *first = NULL;
  for (BindingBlock *b = f->body.first; b; b = b->next)
    for (Node *d = b->first; d; d = d->next) {
      Node *c = clone_binding(&k, d);
      node_bind_before(n, c, d->name);
      if (!first) first = c;
    }
  *out = clone_node(&k, func_result(f));
  return first;
}

/* ---- what follows a branch, in both of its sides ---- */

/* Whether branch node n is the last of its sequence and its result. */
static bool is_last(const Node *n) {
  if (n->next || seq_result(n->block->seq) != n) return false;
  for (const BindingBlock *b = n->block->next; b; b = b->next)
    if (b->first) return false;
  return true;
}

/* Moves all that follows branch node n into it, once for each side, where the functions that the
 * side gives are known with all that they bind; n gives what the sequence gave. */
static void take_in(Resolve *x, Node *n) {
  BindingBlock *b = n->block;
  Seq *s = b->seq;
  Node *result = seq_result(s);
  Seq *sides[2] = {&n->if_.then_, &n->if_.else_};
  for (int e = 0; e < 2; e++) {
    Clone k;
    clone_init(&k, x->pc, n->func);
    k.copied = copy_depth;
    k.ctx = x;
    map_setp(&k.nodes, n, seq_result(sides[e]));
    clone_tail(&k, b, n->next, block_append(n->func, sides[e], n, false, n->span));
    Node *r = clone_node(&k, result);
    node_set_in(sides[e]->yield, 0, r);
    sides[e]->yield->sinfo = r->sinfo;
  }
  node_set_in(s->yield, 0, n);
  if (!result->block && result->op != OP_PARAM && !result->uses) node_delete(result);
  while (s->last != b) {
    while (s->last->last) node_delete(s->last->last);
    block_remove(s->last);
  }
  while (b->last != n) node_delete(b->last);
  b->dataflow = false;
  n->annot = NULL;
  n->sinfo = sinfo_lub(x->pc->c, sides[0]->yield->sinfo, sides[1]->yield->sinfo);
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
  if (f->kind == FN_TUPLE || f->kind == FN_HIDDEN) return false;
  if (f->kind == FN_CHOICE) return is_visible(f->a, n) && is_visible(f->b, n);
  for (uint32_t i = 0; i < f->bound.n; i++)
    for (const Node *d = f->bound.at[i]; d && d->block; d = d->block->owner)
      if (d->block->owner == n) return false;
  return true;
}

/* Which function branch node n gives. */
static const Fn *merge(Resolve *x, Node *n) {
  const Fn *a = fn_of(x, seq_result(&n->if_.then_)), *b = fn_of(x, seq_result(&n->if_.else_));
  if (!a || !b) return NULL;
  if (same_fn(a, b)) return a;
  Fn *f = ARENA_NEW(x->a, Fn);
  *f = (Fn){.kind = FN_CHOICE, .cond = node_in(n, 0), .a = a, .b = b};
  if (!is_visible(f, n)) f->kind = FN_HIDDEN;
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
  const Fn **fns = ARENA_ARRAY(x->a, const Fn *, n->nin);
  for (uint32_t i = 1; i < n->nin; i++) inside |= (fns[i - 1] = fn_of(x, node_in(n, i))) != NULL;
  if (!inside || f->nparams + 1 != n->nin) return next;
  if (!gives_function(f) && func_is_recursive(x->pc->m, x->a, f)) {
    Node *call = specialise_call(x->specials, n, f, fns);
    if (call)
      graph_take_place(n, call);
    else
      x->ok = false;
    return next;
  }
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
    if (f && f->kind == FN_HIDDEN && !is_last(n)) {
      take_in(x, n);
      walk_seq(x, &n->if_.then_);
      walk_seq(x, &n->if_.else_);
      f = merge(x, n);
    }
    if (!f) map_setp(&x->fns, n, NULL); /* it may have been one before */
    break;
  case OP_CALL:
    if (node_in(n, 0)->op == OP_GLOBAL) return walk_call(x, n);
    /* fall through */
  case OP_invoke_closure:
  case OP_invoke_pure_closure: {
    const Fn *callee = fn_of(x, node_in(n, 0));
    if (callee && callee->kind != FN_TUPLE && callee->kind != FN_HIDDEN)
      return walk_invoke(x, n, callee);
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
      bool unused = map_getp(&x->fns, n) && !n->uses;
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

static bool resolve(PassCtx *pc, Specials *specials, Func *f) {
  Resolve x = {.pc = pc, .a = pc->scratch, .specials = specials, .ok = true};
  map_init(&x.fns, x.a);
  map_init(&x.depth, x.a);
  walk_seq(&x, &f->body);
  if (!x.ok) return false;
  drop_values(&x, &f->body);
  func_mark_outputs(f);
  return true;
}

bool pass_resolve_closures(PassCtx *pc) {
  bool any = false, ok = true;
  Specials specials;
  module_each(pc->m, g) if (g->kind == GLOBAL_FUNC) any |=
      has_closures(&g->func->body) || is_higher_order(g->func);
  if (!any) return true;
  specials_init(&specials, pc);
  module_each(pc->m, h) {
    bool made = h->kind == GLOBAL_FUNC && map_hasp(&specials.depth, h->func);
    if (h->kind != GLOBAL_FUNC || !(made || pass_wants(pc, h->name)) || is_higher_order(h->func))
      continue;
    ok &= resolve(pc, &specials, h->func);
  }
  /* Their bodies stand where they were called. */
  module_each(pc->m, d) if (ok && d->kind == GLOBAL_FUNC && pass_wants(pc, d->name) &&
                            is_higher_order(d->func)) d->removed = true;
  return ok;
}
