/* Groups of call_tirs as Primitive functions.
 *
 * The new function has symbolic variables of its own: those that stand bare in the shape of an
 * argument are bound by it, any other becomes a scalar parameter. Constants are arguments, so that
 * equal groups of different layers are equal functions.
 */
#include "passes/graph/fuse.h"
#include <string.h>

PrimFunc *fuse_candidate(PassCtx *pc, Arena *a, Node *n, TirPattern *pat) {
  PrimFunc *f = node_callee_prim(n);
  if (!f || n->sinfo->kind != SINFO_TENSOR || !n->sinfo->dims || f->nparams != n->nin) return NULL;
  for (uint32_t i = 1; i < n->nin; i++) {
    const SInfo *s = node_in(n, i)->sinfo;
    bool tensor = f->param_bufs[i - 1] != NULL;
    if (tensor ? s->kind != SINFO_TENSOR || !s->dims : s->kind != SINFO_PRIM) return NULL;
  }
  *pat = tir_pattern(pc->c, a, f);
  int64_t kind = attr_get_int(f->attrs, "op_pattern", PATTERN_OPAQUE);
  if (pat->kind >= PATTERN_OPAQUE || kind >= PATTERN_OPAQUE || pat->noutputs != 1) return NULL;
  if (kind > pat->kind) pat->kind = (uint8_t)kind; /* the text may only be more careful */
  return pat->kind <= PATTERN_ANCHOR ? f : NULL;
}

typedef struct {
  PassCtx *pc;
  Arena *a;
  Func *from, *to;
  Map vars;  /* Var* of the caller -> const Expr* of the new function */
  Map nodes; /* caller's node -> new function's node */
  NodeVec args, consts;
} Move;

static void add_param(Move *x, Node *arg, const SInfo *s, const char *name) {
  Node *p = func_add_param(x->to, name, s, arg->span);
  map_setp(&x->nodes, arg, p);
  vec_push(x->a, &x->args, arg);
}

static void bind_bare(Move *x, const Expr *e) {
  if (e->kind != EXPR_VAR || map_hasp(&x->vars, e->var)) return;
  Var *v = var_create(x->pc->c, e->var->name, e->var->dtype);
  v->is_dim = e->var->is_dim;
  map_setp(&x->vars, e->var, (void *)(uintptr_t)v->expr);
}

/* A variable that no argument's shape binds is passed as a scalar. */
static void need_vars(Move *x, const Expr *e) {
  VarVec used = {0};
  expr_vars(x->a, e, &used);
  for (uint32_t i = 0; i < used.n; i++) {
    Var *v = used.at[i];
    if (map_hasp(&x->vars, v)) continue;
    bind_bare(x, v->expr);
    const Expr *n = map_getp(&x->vars, v);
    add_param(x, node_prim(x->from, v->expr, SPAN_NONE), sinfo_prim_value(x->pc->c, n), v->name);
  }
}

static bool is_external(const Move *x, const Node *d) {
  return !map_hasp(&x->nodes, d) && d->op != OP_PRIM_VALUE;
}

static Node *same_const(const Move *x, const Node *d) {
  for (uint32_t i = 0; i < x->consts.n; i++)
    if (x->consts.at[i]->data == d->data) return x->consts.at[i];
  return NULL;
}

/* Parameters: tensors in order of use, then scalars that shapes need. */
static void make_params(Move *x, const NodeVec *g) {
  Context *c = x->pc->c;
  for (uint32_t k = 0; k < g->n; k++) map_setp(&x->nodes, g->at[k], NULL);
  for (uint32_t k = 0; k < g->n; k++)
    for (uint32_t i = 1; i < g->at[k]->nin; i++) {
      const SInfo *s = node_in(g->at[k], i)->sinfo;
      if (!is_external(x, node_in(g->at[k], i))) continue;
      if (s->kind == SINFO_PRIM && s->value) bind_bare(x, s->value);
      for (int32_t d = 0; s->kind == SINFO_TENSOR && d < s->ndim; d++) bind_bare(x, s->dims[d]);
    }
  for (uint32_t k = 0; k < g->n; k++)
    for (uint32_t i = 1; i < g->at[k]->nin; i++) {
      Node *d = node_in(g->at[k], i);
      if (!is_external(x, d)) continue;
      if (d->op == OP_CONST) {
        Node *first = same_const(x, d);
        if (first) {
          map_setp(&x->nodes, d, map_getp(&x->nodes, first));
          continue;
        }
        vec_push(x->a, &x->consts, d);
      }
      const char *name = d->name ? d->name : "param";
      if (d->op == OP_CONST && d->data->name) name = d->data->name;
      /* composed dims refer to variables that a later argument may bind: see the scalars below */
      for (int32_t j = 0; d->sinfo->kind == SINFO_TENSOR && j < d->sinfo->ndim; j++)
        need_vars(x, d->sinfo->dims[j]);
      if (d->sinfo->kind == SINFO_PRIM && d->sinfo->value) need_vars(x, d->sinfo->value);
      add_param(x, d, sinfo_subst(c, &x->vars, d->sinfo), name);
    }
  for (uint32_t k = 0; k < g->n; k++) {
    for (int32_t d = 0; d < g->at[k]->sinfo->ndim; d++) need_vars(x, g->at[k]->sinfo->dims[d]);
    for (uint32_t i = 1; i < g->at[k]->nin; i++)
      if (node_in(g->at[k], i)->op == OP_PRIM_VALUE) need_vars(x, node_in(g->at[k], i)->expr);
  }
}

static Node *move_arg(Move *x, Node *d) {
  Node *to = map_getp(&x->nodes, d);
  if (to) return to;
  if (d->op != OP_PRIM_VALUE) bug("an argument of a fused group is not known");
  Subst s = {.c = x->pc->c, .vars = &x->vars};
  return node_prim(x->to, expr_subst(&s, d->expr), d->span);
}

static void make_body(Move *x, const NodeVec *g) {
  Context *c = x->pc->c;
  BindingBlock *b = block_append(x->to, &x->to->body, NULL, true, g->at[0]->span);
  Node *n = NULL;
  for (uint32_t k = 0; k < g->n; k++) {
    Node *old = g->at[k];
    Node **args = ARENA_ARRAY(x->a, Node *, old->nin);
    for (uint32_t i = 1; i < old->nin; i++) args[i - 1] = move_arg(x, node_in(old, i));
    const SInfo *out = sinfo_subst(c, &x->vars, old->sinfo);
    n = graph_call_tir(x->to, node_in(old, 0)->str, args, old->nin - 1, out, old->span);
    node_bind_last(b, n, old->name);
    map_setp(&x->nodes, old, n);
  }
  n->is_output = true;
  x->to->body.yield = node_create(x->to, OP_YIELD, &n, 1, n->span);
  x->to->body.yield->sinfo = n->sinfo;
  x->to->ret = n->sinfo;
  func_collect_dims(x->to);
}

static const char *group_name(Move *x, const NodeVec *g) {
  Text t = {0};
  text_puts(&t, "fused");
  for (uint32_t k = 0; k < g->n && t.n < 80; k++) text_printf(&t, "_%s", node_in(g->at[k], 0)->str);
  const char *name = module_unique_name(x->pc->m, text_cstr(&t));
  text_free(&t);
  return name;
}

/* Every member but the last is used by members only. */
static bool is_closed(const NodeVec *g) {
  for (uint32_t k = 0; k + 1 < g->n; k++)
    for (const Use *u = g->at[k]->uses; u; u = u->next) {
      bool inside = false;
      for (uint32_t j = k + 1; j < g->n && !inside; j++) inside = g->at[j] == u->user;
      if (!inside) return false;
    }
  return true;
}

bool fuse_group(PassCtx *pc, Arena *a, const NodeVec *group) {
  Node *last = vec_last(group);
  Func *f = last->func;
  if (!is_closed(group)) return false;
  Move x = {.pc = pc, .a = a, .from = f};
  map_init(&x.vars, a);
  map_init(&x.nodes, a);
  x.to = func_create(pc->m, group_name(&x, group), last->span);
  x.to->is_private = true;
  Arena *m = pc->m->arena;
  x.to->attrs = attr_with(m, NULL, "Primitive", attr_bool(m, true));
  make_params(&x, group);
  make_body(&x, group);
  module_add_func(pc->m, x.to);
  Node **in = ARENA_ARRAY(a, Node *, x.args.n + 1);
  in[0] = node_global(f, x.to->name, last->span);
  for (uint32_t i = 0; i < x.args.n; i++) in[i + 1] = x.args.at[i];
  Node *call = node_create(f, OP_CALL, in, x.args.n + 1, last->span);
  call->sinfo = last->sinfo;
  graph_take_place(last, call);
  for (uint32_t k = group->n - 1; k-- > 0;) node_delete(group->at[k]);
  return true;
}
