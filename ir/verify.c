/* Well-formedness of a module. Every rule has a number, which ends its messages; ir/README.md lists
 * them.
 *
 * Time is linear in the text: what was checked in a scope is not checked again in it.
 */
#include "ir/verify_impl.h"

void verify_fail(Verifier *v, Span s, const char *rule, const char *fmt, ...) {
  v->ok = false;
  if (diags_full(v->c->diags)) return;
  Text t = {0};
  if (v->after) text_printf(&t, "after %s: ", v->after);
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  diag_error(v->c->diags, s, "%s [%s]", text_cstr(&t), rule);
  text_free(&t);
}

void verify_print_dim(Text *t, const Expr *e) {
  if (e->kind == EXPR_INT)
    text_printf(t, "%lld", (long long)e->i);
  else
    shape_dim_print(t, e);
}

VerifyScope verify_enter(Verifier *v) {
  VerifyScope s = {v->defined_nodes.n, v->defined.n, v->scope};
  v->scope = ++v->next_scope;
  return s;
}

void verify_leave(Verifier *v, VerifyScope s) {
  if (s.scope) { /* leaving a whole function, nobody asks any more */
    while (v->defined_nodes.n > s.nodes) map_set(&v->nodes, vec_pop(&v->defined_nodes), NULL);
    while (v->defined.n > s.others) map_setp(&v->visible, vec_pop(&v->defined), NULL);
  }
  v->scope = s.scope;
}

static void define_node(Verifier *v, const Node *n) {
  map_set(&v->nodes, n->id, v);
  vec_push(v->arena, &v->defined_nodes, n->id);
}

void verify_define(Verifier *v, const void *key) {
  map_setp(&v->visible, key, v);
  vec_push(v->arena, &v->defined, key);
}

bool verify_once(Verifier *v, uint64_t kind, uint32_t id) {
  uint64_t key = (uint64_t)v->scope << 34 | kind << 32 | id;
  void **at = map_at(&v->checked, key);
  bool first = !*at;
  *at = v;
  return first;
}

static const char *shown_name(const Node *n) {
  return n->name ? n->name : "value";
}

/* ---- symbolic variables (R7) ---- */

static void check_sinfo(Verifier *v, Span s, const SInfo *si) {
  if (!si || !verify_once(v, 2, si->id)) return;
  if (si->dims)
    for (int32_t i = 0; i < si->ndim; i++) verify_expr(v, s, si->dims[i], false);
  if (si->value) verify_expr(v, s, si->value, false);
  if (si->kind == SINFO_TUPLE)
    for (uint32_t i = 0; i < si->n; i++) check_sinfo(v, s, si->fields[i]);
}

/* Variables that stand bare in struct info become defined: a parameter or a match_cast binds them.
 */
static void define_bare(Verifier *v, const SInfo *si) {
  if (si->dims)
    for (int32_t i = 0; i < si->ndim; i++)
      if (si->dims[i]->kind == EXPR_VAR && !verify_sees(v, si->dims[i]->var))
        verify_define(v, si->dims[i]->var);
  if (si->value && si->value->kind == EXPR_VAR && !verify_sees(v, si->value->var))
    verify_define(v, si->value->var);
  if (si->kind == SINFO_TUPLE)
    for (uint32_t i = 0; i < si->n; i++) define_bare(v, si->fields[i]);
}

/* ---- uses (R2, R3, R4) ---- */

typedef struct {
  Verifier *v;
  const Func *f;
  StrMap names;
  Map closed; /* dataflow blocks that ended */
  bool pure;  /* side effects are forbidden here */
} FuncCheck;

static void check_func(Verifier *v, const Func *f);

static void check_use(FuncCheck *k, const Node *user, uint32_t i);

/* A node without a binding is checked where it is used. */
static void check_floating(FuncCheck *k, const Node *n) {
  Verifier *v = k->v;
  if (!verify_once(v, 1, n->id)) return;
  for (uint32_t i = 0; i < n->nin; i++) check_use(k, n, i);
  if (n->op == OP_PRIM_VALUE) verify_expr(v, n->span, n->expr, false);
  if (n->op == OP_SHAPE_EXPR)
    for (uint32_t i = 0; i < n->shape.n; i++) verify_expr(v, n->span, n->shape.at[i], false);
  if (n->op == OP_GLOBAL && !module_find(v->m, n->str))
    verify_fail(v, n->span, "R11", "the module has no function '%s'", n->str);
}

static Span use_span(const Node *user, uint32_t i) {
  return user->in[i].span.file ? user->in[i].span : user->span;
}

static void check_use(FuncCheck *k, const Node *user, uint32_t i) {
  Verifier *v = k->v;
  const Node *d = node_in(user, i);
  if (!d || user->in[i].user != user) {
    verify_fail(v, user->span, "R4", "operand %u of '%s' has no definition", i, shown_name(user));
    return;
  }
  if (!d->block && d->op != OP_PARAM) {
    check_floating(k, d);
    return;
  }
  bool local = d->block && d->block->dataflow && !d->is_output && d->block != user->block;
  if (map_get(&v->nodes, d->id) && !(local && map_hasp(&k->closed, d->block))) return;
  if (local)
    verify_fail(v, use_span(user, i), "R3",
                "'%s' is local to its dataflow block; R.output must name it to use it here",
                shown_name(d));
  else
    verify_fail(v, use_span(user, i), "R2",
                "'%s' is used before it is defined, or out of its scope", shown_name(d));
}

/* ---- nodes ---- */

static void check_name(FuncCheck *k, const Node *n) {
  if (!n->name) {
    verify_fail(k->v, n->span, "R1", "a bound value has no name");
    return;
  }
  void **bound = strmap_at(&k->names, n->name);
  if (*bound) verify_fail(k->v, n->name_span, "R1", "'%s' is bound twice", n->name);
  *bound = (void *)(uintptr_t)n;
}

static bool is_dps_call(const Verifier *v, const Node *n) {
  const Node *callee = n->op == OP_CALL ? node_in(n, 0) : NULL;
  return callee && callee->op == OP_GLOBAL && module_prim(v->m, callee->str);
}

static void check_purity(FuncCheck *k, const Node *n) {
  if (n->op == OP_IF) return; /* its branches are looked at one by one */
  if (node_op(n)->traits & OPT_MEMORY || is_dps_call(k->v, n)) return; /* destination passing */
  bool dataflow = n->block->dataflow;
  if ((!k->pure && !dataflow) || op_is_pure(n)) return;
  const char *what = "the call";
  if (n->op != OP_CALL) what = arena_printf(k->v->arena, "R.%s", node_op(n)->name);
  if (dataflow)
    verify_fail(k->v, n->span, "R6", "%s may have side effects, which a dataflow block excludes",
                what);
  else
    verify_fail(k->v, n->span, "R6",
                "%s may have side effects, but function '%s' is pure; say @R.function(pure=False)",
                what, k->f->name);
}

static void check_legal(FuncCheck *k, const Node *n) {
  if (!k->v->m->legalized) return;
  if (node_op(n)->traits & (OPT_STRUCTURAL | OPT_CALL | OPT_MEMORY)) return;
  verify_fail(k->v, n->span, "R10", "operator R.%s is left after LegalizeOps", node_op(n)->name);
}

static void check_seq(FuncCheck *k, const Seq *s, Span span);

static void check_node(FuncCheck *k, const Node *n) {
  Verifier *v = k->v;
  const OpInfo *o = node_op(n);
  check_name(k, n);
  for (uint32_t i = 0; i < n->nin; i++) check_use(k, n, i);
  if (n->nin < (uint32_t)o->min_args || (o->max_args >= 0 && n->nin > (uint32_t)o->max_args))
    verify_fail(v, n->span, "R4", "R.%s has %u operands", o->name, n->nin);
  if (o->nattrs && !n->attrs) verify_fail(v, n->span, "R4", "R.%s has no attributes", o->name);
  if (n->op == OP_IF && n->block->dataflow)
    verify_fail(v, n->span, "R5", "an 'if' is not allowed in a dataflow block");
  check_purity(k, n);
  check_legal(k, n);
  if (n->op == OP_PRIM_VALUE) verify_expr(v, n->span, n->expr, false);
  if (n->op == OP_SHAPE_EXPR)
    for (uint32_t i = 0; i < n->shape.n; i++) verify_expr(v, n->span, n->shape.at[i], false);
  if (n->op == OP_MATCH_CAST && n->annot) define_bare(v, n->annot);
  if (n->op == OP_IF) {
    check_seq(k, &n->if_.then_, n->span);
    check_seq(k, &n->if_.else_, n->span);
  }
  if (n->op == OP_FUNC && n->local) {
    define_node(v, n); /* it may call itself */
    check_func(v, n->local);
  }
  if (!n->sinfo)
    verify_fail(v, n->span, "R4", "'%s' has no struct info", shown_name(n));
  else
    check_sinfo(v, n->name_span, n->sinfo);
  if (n->op == OP_CALL || o->traits & OPT_CALL) verify_call(v, n);
}

static void check_seq(FuncCheck *k, const Seq *s, Span span) {
  Verifier *v = k->v;
  VerifyScope outer = verify_enter(v);
  for (const BindingBlock *b = s->first; b; b = b->next) {
    for (const Node *n = b->first; n; n = n->next) {
      check_node(k, n);
      if (n->op != OP_FUNC) define_node(v, n);
    }
    if (b->dataflow) map_setp(&k->closed, b, v);
  }
  if (!s->yield || s->yield->nin != 1)
    verify_fail(v, span, "R12", "a function or branch has no result");
  else
    check_use(k, s->yield, 0);
  verify_leave(v, outer);
}

/* ---- functions ---- */

static void check_result(Verifier *v, const Func *f) {
  if (!f->body.yield || f->body.yield->nin != 1) return;
  const SInfo *have = func_result(f)->sinfo;
  const SInfo *want = f->ret_annot ? f->ret_annot : f->ret;
  if (!have || !want) return;
  SInfoWhy why = {0};
  if (sinfo_check(v->c, NULL, have, want, &why) == SINFO_FAIL)
    verify_fail(v, f->ret_span.file ? f->ret_span : f->span, "R12",
                "the result of '%s' contradicts its return annotation: %s", f->name,
                text_cstr(&why.words));
  text_free(&why.words);
}

static void check_func(Verifier *v, const Func *f) {
  if (!f->check_well_formed) return;
  bool force_pure = attr_get_bool(f->attrs, "relax.force_pure", false);
  const char *symbol = attr_get_str(f->attrs, "global_symbol", NULL);
  if (force_pure && !f->pure)
    verify_fail(v, f->name_span, "R6", "function '%s' is pure=False and relax.force_pure at once",
                f->name);
  if (symbol && f->is_private)
    verify_fail(v, f->name_span, "R13", "function '%s' is private and can't have a global_symbol",
                f->name);
  else if (symbol && !v->m->lone && strcmp(symbol, f->name) != 0)
    verify_fail(v, f->name_span, "R13", "the global_symbol of function '%s' is \"%s\"", f->name,
                symbol);
  FuncCheck k = {.v = v, .f = f, .pure = f->pure && !force_pure};
  strmap_init(&k.names, v->arena);
  map_init(&k.closed, v->arena);
  VerifyScope outer = verify_enter(v);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Node *p = f->params[i];
    check_name(&k, p);
    define_node(v, p);
    if (p->sinfo) define_bare(v, p->sinfo);
  }
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Node *p = f->params[i];
    if (!p->sinfo)
      verify_fail(v, p->span, "R4", "parameter '%s' has no struct info", shown_name(p));
    else
      check_sinfo(v, p->span, p->sinfo);
  }
  check_seq(&k, &f->body, f->span);
  check_result(v, f);
  verify_leave(v, outer);
}

bool module_verify(Module *m, const char *after) {
  Arena *a = arena_create();
  Verifier v = {.m = m, .c = m->ctx, .arena = a, .after = after, .ok = true};
  module_each(m, g) {
    map_init(&v.nodes, a);
    map_init(&v.visible, a);
    v.defined_nodes.n = v.defined.n = 0;
    map_init(&v.checked, a);
    map_init(&v.loop_blocks, a);
    if (g->broken) continue;
    if (g->kind == GLOBAL_FUNC)
      check_func(&v, g->func);
    else if (g->kind == GLOBAL_PRIM)
      verify_primfunc(&v, g->prim);
  }
  arena_free(a);
  return v.ok;
}
