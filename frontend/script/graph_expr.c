/* Relax expressions: operator calls, calls of functions, tuples, constants.
 *
 * Names after "R." are either one of the special forms below (which make a node kind of their own)
 * or rows of the operator table: positional arguments fill the row's operands, then its attributes
 * in order; keywords name either. Nested computations are bound to fresh names on the way (A-normal
 * form). Python's operators stand for operators of the table.
 */
#include "frontend/script/graph.h"
#include "frontend/script/guard.h"

Node *graph_operand(Sema *s, const Tree *t) {
  Node *n = graph_expr(s, t);
  if (node_is_atom(n)) return n;
  if (n->sinfo->kind == SINFO_BAD && n->op == OP_TUPLE) return n;
  node_bind_last(graph_block(s, t), n, NULL);
  return n;
}

bool graph_is_call(const Tree *t, const char *ns, const char *name) {
  if (t->kind != TREE_CALL || t->a->kind != TREE_ATTR) return false;
  const Tree *f = t->a;
  return f->b->kind == TREE_NAME && strcmp(f->b->name, ns) == 0 && strcmp(f->name, name) == 0;
}

/* Sets the operand spans to what was written and infers. */
Node *graph_finish(Sema *s, Node *n, const Tree *const *args) {
  for (uint32_t i = 0; i < n->nin; i++)
    if (args && args[i]) n->in[i].span = tree_span(s, args[i]);
  node_infer(s->m, s->facts, n);
  return n;
}

/* ---- calls of functions ---- */

static Node *read_function_call(Sema *s, const Tree *t, Node *callee) {
  Node **in = ARENA_ARRAY(s->arena, Node *, t->n + 1);
  const Tree **trees = ARENA_ARRAY(s->arena, const Tree *, t->n + 1);
  bool bad = callee->sinfo->kind == SINFO_BAD;
  in[0] = callee;
  trees[0] = t->a;
  for (uint32_t i = 0; i < t->n; i++) {
    const Tree *a = t->at[i];
    if (a->kind == TREE_KEYWORD) {
      sema_error(s, a, "calls of functions take no keyword arguments");
      bad = true;
      a = a->b;
    }
    if (graph_refuse_star(s, a)) {
      bad = true;
      a = a->b;
    }
    in[i + 1] = graph_operand(s, a);
    trees[i + 1] = a;
  }
  Node *n = node_create(s->f, OP_CALL, in, t->n + 1, tree_span(s, t));
  if (bad) {
    n->sinfo = sinfo_bad(s->ctx);
    return n;
  }
  if (graph_finish(s, n, trees)->sinfo->kind != SINFO_BAD) guard_call(s, t, n);
  return n;
}
static const struct {
  const char *name;
  Node *(*read)(Sema *s, const Tree *t);
} special_forms[] = {
    {"const", graph_read_const},           {"dist.const", graph_read_dist_const},
    {"shape", graph_read_shape},           {"match_cast", graph_read_match_cast},
    {"prim_value", graph_read_prim_value}, {"str", graph_read_str},
    {"dtype", graph_read_dtype},           {"tuple", graph_read_tuple},
    {"ExternFunc", graph_read_extern},
};

static Node *unknown_op(Sema *s, const Tree *t, const char *name) {
  const char *near = op_nearest(name);
  const char *special[sizeof special_forms / sizeof *special_forms];
  size_t n = 0;
  for (size_t i = 0; i < sizeof special_forms / sizeof *special_forms; i++)
    special[n++] = special_forms[i].name;
  if (!near) near = text_nearest(name, special, n);
  if (near)
    sema_error(s, t->a, "unknown operator 'R.%s'; did you mean 'R.%s'?", name, near);
  else
    sema_error(s, t->a, "unknown operator 'R.%s'", name);
  /* the arguments may hold mistakes of their own */
  for (uint32_t i = 0; i < t->n; i++)
    if (t->at[i]->kind == TREE_NAME) sema_lookup(s, t->at[i]);
  return graph_bad(s, t);
}

static Node *read_call(Sema *s, const Tree *t) {
  const char *name = sema_member(s, t->a, 'R');
  if (name) {
    for (size_t i = 0; i < sizeof special_forms / sizeof *special_forms; i++)
      if (strcmp(name, special_forms[i].name) == 0) return special_forms[i].read(s, t);
    int id = op_find(name);
    if (id < 0 || (op_table[id].traits & OPT_STRUCTURAL)) return unknown_op(s, t, name);
    const OpInfo *op = &op_table[id];
    bool cross =
        (op->traits & OPT_CALL) && graph_count_args(op) && strcmp(op->args[0], "func") == 0;
    return cross ? graph_read_cross_call(s, t, op) : graph_read_op(s, t, op, NULL);
  }
  bool known = false;
  const char *global = sema_global(s, t->a, &known);
  if (global) {
    if (!known) {
      for (uint32_t i = 0; i < t->n; i++)
        if (t->at[i]->kind == TREE_NAME) sema_lookup(s, t->at[i]);
      return graph_bad(s, t);
    }
    sema_require_body(s, global);
    return read_function_call(s, t, node_global(s->f, global, tree_span(s, t->a)));
  }
  if (t->a->kind == TREE_NAME) return read_function_call(s, t, graph_expr(s, t->a));
  if (t->a->kind == TREE_ATTR) {
    /* x.astype("int8") */
    int id = strcmp(t->a->name, "astype") == 0 ? op_find("astype") : -1;
    if (id >= 0) return graph_read_op(s, t, &op_table[id], t->a->b);
    sema_error(s, t->a, "a Relax value has no method '%s'", t->a->name);
    return graph_bad(s, t);
  }
  return read_function_call(s, t, graph_operand(s, t->a));
}

/* ---- operators ---- */

static Node *read_operator(Sema *s, const Tree *t) {
  const char *name = NULL;
  if (t->kind == TREE_UNARY) {
    name = t->op == TREE_NEG ? "negative" : NULL;
  } else {
    switch ((TreeOp)t->op) {
    case TREE_ADD: name = "add"; break;
    case TREE_SUB: name = "subtract"; break;
    case TREE_MUL: name = "multiply"; break;
    case TREE_DIV: name = "divide"; break;
    case TREE_FLOORDIV: name = "floor_divide"; break;
    case TREE_MOD: name = "mod"; break;
    case TREE_POW: name = "power"; break;
    case TREE_LT: name = "less"; break;
    case TREE_LE: name = "less_equal"; break;
    case TREE_GT: name = "greater"; break;
    case TREE_GE: name = "greater_equal"; break;
    default: break;
    }
  }
  int id = name ? op_find(name) : -1;
  if (id < 0) {
    sema_error(s, t, "operator '%s' is not defined on Relax values", tree_op_text(t->op));
    return graph_bad(s, t);
  }
  const Tree *args[2] = {t->kind == TREE_UNARY ? t->b : t->a, t->b};
  uint32_t n = t->kind == TREE_UNARY ? 1 : 2;
  for (uint32_t i = 0; i < n; i++)
    if (args[i]->kind == TREE_INT || args[i]->kind == TREE_FLOAT) {
      sema_error(s, args[i], "a number is no Relax value; write R.const(..., dtype)");
      return graph_bad(s, t);
    }
  Node *in[2] = {graph_operand(s, args[0]), NULL};
  if (n == 2) in[1] = graph_operand(s, args[1]);
  Node *x = node_create(s->f, (OpId)id, in, n, tree_span(s, t));
  if (op_table[id].nattrs) x->attrs = node_new_attrs(s->f, (OpId)id);
  return graph_finish(s, x, args);
}

/* ---- everything ---- */

static Node *read_subscript(Sema *s, const Tree *t) {
  if (metadata_is_reference(s, t)) {
    ConstData *d = metadata_const(s, t);
    return d ? node_const(s->f, d, tree_span(s, t)) : graph_bad(s, t);
  }
  Node *v = graph_operand(s, t->a);
  int64_t i = 0;
  if (v->sinfo->kind == SINFO_BAD) return graph_bad(s, t);
  if (v->sinfo->kind != SINFO_TUPLE) {
    sema_error(s, t, "only tuples have items, but this is %s", sema_type_text(s, v->sinfo));
    return graph_bad(s, t);
  }
  if (!tree_const_int(t->b, &i)) {
    sema_error(s, t->b, "the index of a tuple must be a constant");
    return graph_bad(s, t);
  }
  int64_t n = v->sinfo->n;
  if (i < 0 || i >= n) {
    if (i < 0 && i >= -n)
      sema_error(s, t->b, "the index of a tuple counts from its start: write %lld for %lld",
                 (long long)(i + n), (long long)i);
    else
      sema_error(s, t->b, "index %lld is out of range for a tuple of %lld", (long long)i,
                 (long long)n);
    return graph_bad(s, t);
  }
  Node *x = node_tuple_get(s->f, v, i, tree_span(s, t));
  const Tree *args[1] = {t->a};
  return graph_finish(s, x, args);
}

Node *graph_expr(Sema *s, const Tree *t) {
  switch ((TreeKind)t->kind) {
  case TREE_BAD: return graph_bad(s, t);
  case TREE_NAME: {
    bool known = false;
    const char *global = scope_find(&s->scope, t->name) ? NULL : sema_global(s, t, &known);
    if (global) {
      sema_require_body(s, global);
      return node_global(s->f, global, tree_span(s, t));
    }
    Binding *b = sema_lookup(s, t);
    if (!b) return graph_bad(s, t);
    if (b->kind == BIND_NODE) return b->node;
    if (b->kind == BIND_VAR) return node_prim(s->f, b->var->expr, tree_span(s, t));
    sema_error(s, t, "'%s' is not a value", t->name);
    return graph_bad(s, t);
  }
  case TREE_FLOAT: return node_prim(s->f, expr_float(s->ctx, DT_F64, t->fval), tree_span(s, t));
  case TREE_INT:
  case TREE_IFEXP: {
    const Expr *e = sema_expr(s, t);
    return e ? node_prim(s->f, e, tree_span(s, t)) : graph_bad(s, t);
  }
  case TREE_CONST: {
    if (t->op == TREE_NONE || t->op == TREE_ELLIPSIS) break;
    return node_prim(s->f, expr_bool(s->ctx, t->op == TREE_TRUE), tree_span(s, t));
  }
  case TREE_STR:
    return node_str(s->f, strpool_intern(s->ctx->strings, t->str, t->n), tree_span(s, t));
  case TREE_TUPLE:
  case TREE_LIST: return graph_read_tuple(s, t);
  case TREE_ATTR: {
    bool known = false;
    const char *global = sema_global(s, t, &known);
    if (global) {
      if (known) sema_require_body(s, global);
      return known ? node_global(s->f, global, tree_span(s, t)) : graph_bad(s, t);
    }
    const char *name = sema_member(s, t, 'R');
    if (name)
      sema_error(s, t, "'R.%s' is not a value; it must be called", name);
    else
      sema_error(s, t, "a Relax value has no attribute '%s'", t->name);
    return graph_bad(s, t);
  }
  case TREE_UNARY:
  case TREE_BINARY:
    if (sema_is_prim(s, t)) {
      double f = 0;
      const Expr *e = t->kind == TREE_UNARY && t->b->kind == TREE_FLOAT && tree_const_float(t, &f)
                          ? expr_float(s->ctx, DT_F64, f)
                          : sema_expr(s, t);
      return e ? node_prim(s->f, e, tree_span(s, t)) : graph_bad(s, t);
    }
    return read_operator(s, t);
  case TREE_SUBSCRIPT: return read_subscript(s, t);
  case TREE_CALL: {
    double f = 0;
    if (tree_const_float(t, &f) && t->a->kind == TREE_NAME) /* float("inf") */
      return node_prim(s->f, expr_float(s->ctx, DT_F64, f), tree_span(s, t));
    if (sema_member(s, t->a, 'T')) {
      const Expr *e = sema_expr(s, t);
      return e ? node_prim(s->f, e, tree_span(s, t)) : graph_bad(s, t);
    }
    return read_call(s, t);
  }
  default: break;
  }
  sema_error(s, t, "expected a Relax value but got %s", tree_describe(t));
  return graph_bad(s, t);
}
