/* The graph level as a picture and as JSON.
 *
 * Both walk the functions in order. Nodes that stand in place (tuples, shapes, callees) have no box
 * of their own: an edge leads from what a tuple holds, a callee is part of the label. Branches of
 * an `if` are clusters inside the function's.
 */
#include "codegen/picture.h"

#include "ir/op.h"
#include "ir/print.h"

#include <string.h>

static const char *op_word(const Node *n) {
  const Node *callee = n->nin ? node_in(n, 0) : NULL;
  if (n->op == OP_CALL && callee && (callee->op == OP_GLOBAL || callee->op == OP_EXTERN))
    return callee->str;
  return node_op(n)->name;
}

/* What is shown under an operator's name: the prim_func or function that it calls. */
static const char *callee_word(const Node *n) {
  const Node *callee = n->nin && n->op != OP_CALL ? node_in(n, 0) : NULL;
  return callee && (callee->op == OP_GLOBAL || callee->op == OP_EXTERN) ? callee->str : NULL;
}

/* ---- Graphviz ---- */

static void put_dot(Text *t, const char *s) {
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') text_putc(t, '\\');
    text_putc(t, *s);
  }
}

static void put_dot_type(Text *t, const SInfo *si) {
  Text type = {0};
  sinfo_print(&type, si);
  put_dot(t, text_cstr(&type));
  text_free(&type);
}

static void dot_box(Text *t, const Node *n, const char *shape, const char *title) {
  const char *callee = callee_word(n);
  text_printf(t, "    n%u [shape=%s, label=\"", n->id, shape);
  put_dot(t, title);
  if (callee) {
    text_puts(t, " ");
    put_dot(t, callee);
  }
  text_puts(t, "\\n");
  if (n->name && n->op != OP_PARAM) {
    put_dot(t, n->name);
    text_puts(t, ": ");
  }
  put_dot_type(t, n->sinfo);
  text_puts(t, "\"];\n");
}

/* Edges from what operand `from` is made of. */
static void dot_edges(Text *t, const Node *from, char kind, uint32_t to) {
  switch (from->op) {
  case OP_GLOBAL:
  case OP_EXTERN:
  case OP_SHAPE_EXPR:
  case OP_PRIM_VALUE:
  case OP_STR:
  case OP_DTYPE: return;
  case OP_CONST: dot_box(t, from, "note", from->data->name ? from->data->name : "const"); break;
  default:
    if (!node_is_bound(from) && from->op != OP_PARAM) {
      for (uint32_t i = 0; i < from->nin; i++) dot_edges(t, node_in(from, i), kind, to);
      return;
    }
  }
  text_printf(t, "    n%u -> %c%u;\n", from->id, kind, to);
}

static void dot_seq(Text *t, const Seq *s);

static void dot_node(Text *t, const Node *n) {
  if (n->op == OP_IF) {
    for (int k = 0; k < 2; k++) {
      const Seq *s = k ? &n->if_.else_ : &n->if_.then_;
      text_printf(t, "    subgraph cluster_n%u_%d {\n    label=\"%s\"; style=dashed;\n", n->id, k,
                  k ? "else" : "if");
      dot_seq(t, s);
      text_puts(t, "    }\n");
    }
  }
  dot_box(t, n, n->op == OP_IF ? "diamond" : "box", op_word(n));
  for (uint32_t i = 0; i < n->nin; i++) dot_edges(t, node_in(n, i), 'n', n->id);
  if (n->op == OP_IF) {
    dot_edges(t, seq_result(&n->if_.then_), 'n', n->id);
    dot_edges(t, seq_result(&n->if_.else_), 'n', n->id);
  }
}

static void dot_seq(Text *t, const Seq *s) {
  for (const BindingBlock *b = s->first; b; b = b->next)
    for (const Node *n = b->first; n; n = n->next) dot_node(t, n);
}

static void dot_func(Text *t, const Func *f) {
  text_printf(t, "  subgraph cluster_f%u {\n    label=\"", f->id);
  put_dot(t, f->name);
  text_puts(t, "\";\n");
  for (uint32_t i = 0; i < f->nparams; i++) dot_box(t, f->params[i], "ellipse", f->params[i]->name);
  dot_seq(t, &f->body);
  text_printf(t, "    r%u [shape=doublecircle, label=\"\"];\n", f->id);
  dot_edges(t, func_result(f), 'r', f->id);
  text_puts(t, "  }\n");
}

void module_dot(Text *t, const Module *m) {
  text_puts(t, "digraph \"");
  put_dot(t, m->name ? m->name : "Module");
  text_puts(t, "\" {\n  node [fontname=\"Helvetica\", fontsize=10];\n");
  module_each(m, g) {
    if (g->kind == GLOBAL_FUNC) dot_func(t, g->func);
    if (g->kind == GLOBAL_PRIM && !attr_get(g->prim->attrs, "relaxc.variant_of")) {
      text_printf(t, "  p%u [shape=component, label=\"", g->prim->id);
      put_dot(t, g->name);
      text_puts(t, "\"];\n");
    }
  }
  text_puts(t, "}\n");
}

/* ---- JSON ---- */

static void json_key(Text *t, const char *key) {
  text_printf(t, ", \"%s\": ", key);
}

static void json_type(Text *t, const SInfo *si) {
  Text s = {0};
  sinfo_print(&s, si);
  text_put_json(t, text_cstr(&s));
  text_free(&s);
}

static void json_exprs(Text *t, const Expr *const *at, uint32_t n) {
  text_putc(t, '[');
  for (uint32_t i = 0; i < n; i++) {
    Text s = {0};
    shape_dim_print(&s, at[i]);
    if (i) text_puts(t, ", ");
    text_put_json(t, text_cstr(&s));
    text_free(&s);
  }
  text_putc(t, ']');
}

static void json_number(Text *t, double v) {
  if (v != v || v - v != 0) /* JSON has no such numbers */
    text_put_json(t, v != v ? "nan" : v > 0 ? "inf" : "-inf");
  else
    text_printf(t, "%.17g", v);
}

/* One attribute's value; false for kinds that have no counterpart. */
static bool json_attr(Text *t, const AttrField *f, const void *v) {
  switch (f->kind) {
  case AK_INT: text_printf(t, "%lld", (long long)*(const int64_t *)v); return true;
  case AK_OPT_INT: {
    const OptInt *o = v;
    if (o->has)
      text_printf(t, "%lld", (long long)o->v);
    else
      text_puts(t, "null");
    return true;
  }
  case AK_FLOAT: json_number(t, *(const double *)v); return true;
  case AK_OPT_FLOAT: {
    const OptFloat *o = v;
    if (o->has)
      json_number(t, o->v);
    else
      text_puts(t, "null");
    return true;
  }
  case AK_BOOL: text_puts(t, *(const bool *)v ? "true" : "false"); return true;
  case AK_STR:
  case AK_TEXT: {
    const char *s = *(const char *const *)v;
    if (s)
      text_put_json(t, s);
    else
      text_puts(t, "null");
    return true;
  }
  case AK_DTYPE: {
    DType d = *(const DType *)v;
    if (dtype_known(d))
      text_put_json(t, dtype_name(d));
    else
      text_puts(t, "null");
    return true;
  }
  case AK_INTS: {
    const IntList *l = v;
    if (l->n < 0) {
      text_puts(t, "null");
      return true;
    }
    text_putc(t, '[');
    for (int32_t i = 0; i < l->n; i++) text_printf(t, "%s%lld", i ? ", " : "", (long long)l->at[i]);
    text_putc(t, ']');
    return true;
  }
  case AK_EXPRS: {
    const ExprList *l = v;
    if (l->n < 0)
      text_puts(t, "null");
    else
      json_exprs(t, l->at, (uint32_t)l->n);
    return true;
  }
  case AK_SINFOS: {
    const SInfoList *l = v;
    text_putc(t, '[');
    for (int32_t i = 0; i < l->n; i++) {
      if (i) text_puts(t, ", ");
      json_type(t, l->at[i]);
    }
    text_putc(t, ']');
    return true;
  }
  case AK_DICT:
  case AK_INDEX_MAP:
  case AK_ANY: return false;
  }
  return false;
}

static void json_attrs(Text *t, const Node *n) {
  const OpInfo *op = node_op(n);
  bool any = false;
  if (!n->attrs) return;
  for (uint32_t i = 0; i < op->nattrs; i++) {
    Text v = {0};
    if (json_attr(&v, &op->attrs[i], (const char *)n->attrs + op->attrs[i].offset)) {
      text_puts(t, any ? ", " : ", \"attrs\": {");
      text_put_json(t, op->attrs[i].name);
      text_printf(t, ": %s", text_cstr(&v));
      any = true;
    }
    text_free(&v);
  }
  if (any) text_putc(t, '}');
}

static void json_value(Text *t, const Node *n);

static void json_inputs(Text *t, const Node *n) {
  json_key(t, "inputs");
  text_putc(t, '[');
  for (uint32_t i = 0; i < n->nin; i++) {
    if (i) text_puts(t, ", ");
    json_value(t, node_in(n, i));
  }
  text_putc(t, ']');
}

/* An operand: a node's id, or an object. */
static void json_value(Text *t, const Node *n) {
  if (node_is_bound(n) || n->op == OP_PARAM) {
    text_printf(t, "%u", n->id);
    return;
  }
  text_puts(t, "{\"op\": ");
  text_put_json(t, node_op(n)->name);
  json_key(t, "type");
  json_type(t, n->sinfo);
  switch (n->op) {
  case OP_GLOBAL:
  case OP_EXTERN:
  case OP_STR:
    json_key(t, "value");
    text_put_json(t, n->str);
    break;
  case OP_PRIM_VALUE:
    json_key(t, "value");
    json_exprs(t, &n->expr, 1);
    break;
  case OP_SHAPE_EXPR:
    json_key(t, "value");
    json_exprs(t, n->shape.at, n->shape.n);
    break;
  case OP_DTYPE:
    json_key(t, "value");
    text_put_json(t, dtype_name(n->dtype));
    break;
  case OP_TUPLE_GET: text_printf(t, ", \"index\": %lld", (long long)n->index); break;
  case OP_CONST:
    if (n->data->name) {
      json_key(t, "value");
      text_put_json(t, n->data->name);
    }
    break;
  default: break;
  }
  json_attrs(t, n);
  if (n->nin) json_inputs(t, n);
  text_putc(t, '}');
}

static void json_place(Text *t, const Module *m, Span s) {
  const SourceFile *f = s.file ? sources_file(m->ctx->sources, s.file) : NULL;
  uint32_t line, col;
  if (!f) return;
  sources_position(f, s.begin, &line, &col);
  text_printf(t, ", \"line\": %u, \"column\": %u", line, col);
}

static void json_seq(Text *t, const Module *m, const Seq *s);

static void json_node(Text *t, const Module *m, const Node *n) {
  text_printf(t, "{\"id\": %u, \"name\": ", n->id);
  text_put_json(t, n->name ? n->name : "");
  json_key(t, "op");
  text_put_json(t, node_op(n)->name);
  json_key(t, "type");
  json_type(t, n->sinfo);
  if (n->op == OP_TUPLE_GET) text_printf(t, ", \"index\": %lld", (long long)n->index);
  json_attrs(t, n);
  json_inputs(t, n);
  if (n->op == OP_IF) {
    json_key(t, "then");
    json_seq(t, m, &n->if_.then_);
    json_key(t, "else");
    json_seq(t, m, &n->if_.else_);
  }
  json_place(t, m, n->span);
  text_putc(t, '}');
}

static void json_seq(Text *t, const Module *m, const Seq *s) {
  bool first = true;
  text_puts(t, "{\"body\": [");
  for (const BindingBlock *b = s->first; b; b = b->next)
    for (const Node *n = b->first; n; n = n->next) {
      text_puts(t, first ? "\n      " : ",\n      ");
      json_node(t, m, n);
      first = false;
    }
  text_puts(t, "], \"result\": ");
  json_value(t, seq_result(s));
  text_putc(t, '}');
}

static void json_func(Text *t, const Module *m, const Func *f) {
  text_puts(t, "\"kind\": \"relax\"");
  text_printf(t, ", \"private\": %s, \"params\": [", f->is_private ? "true" : "false");
  for (uint32_t i = 0; i < f->nparams; i++) {
    text_printf(t, "%s{\"id\": %u, \"name\": ", i ? ", " : "", f->params[i]->id);
    text_put_json(t, f->params[i]->name);
    json_key(t, "type");
    json_type(t, f->params[i]->sinfo);
    text_putc(t, '}');
  }
  text_puts(t, "], \"type\": ");
  json_type(t, f->ret);
  json_key(t, "code");
  json_seq(t, m, &f->body);
  json_place(t, m, f->span);
}

static void json_prim(Text *t, const Module *m, const PrimFunc *f) {
  text_puts(t, "\"kind\": \"tir\"");
  text_printf(t, ", \"private\": %s, \"params\": [", f->is_private ? "true" : "false");
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    text_puts(t, i ? ", {\"name\": " : "{\"name\": ");
    text_put_json(t, b ? b->name : f->params[i]->name);
    json_key(t, "dtype");
    text_put_json(t, dtype_name(b ? b->dtype : f->params[i]->dtype));
    if (b) {
      json_key(t, "shape");
      json_exprs(t, b->shape, b->ndim);
    }
    text_putc(t, '}');
  }
  text_puts(t, "], \"text\": ");
  Text s = {0};
  primfunc_print(&s, f, DIALECT_TODAY, 0);
  text_put_json(t, text_cstr(&s));
  text_free(&s);
  json_place(t, m, f->span);
}

void module_json(Text *t, const Module *m) {
  bool first = true;
  text_puts(t, "{\"name\": ");
  text_put_json(t, m->name ? m->name : "Module");
  text_puts(t, ", \"functions\": [");
  module_each(m, g) {
    if (g->kind == GLOBAL_EXTERN) continue;
    text_puts(t, first ? "\n  {\"name\": " : ",\n  {\"name\": ");
    first = false;
    text_put_json(t, g->name);
    text_puts(t, ", ");
    if (g->kind == GLOBAL_FUNC)
      json_func(t, m, g->func);
    else
      json_prim(t, m, g->prim);
    text_putc(t, '}');
  }
  text_puts(t, "\n]}\n");
}
