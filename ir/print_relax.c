/* The graph level as text: struct info, functions, bindings.
 *
 * A statement of a function's body is printed into the text first; symbolic variables that it
 * mentions for the first time are then declared (`n = T.int64()`) on lines put in front of it, and
 * so is `cls = Module`.
 */
#include "ir/ops/attrs.h"
#include "ir/print_impl.h"
#include <math.h>
#include <stdlib.h>

static void print_node(Printer *p, const Node *n);
static void print_value(Printer *p, const Node *n, bool rhs);
static void print_seq(Printer *p, const Seq *s, int indent, bool top);

/* ---- struct info ---- */

static void print_prim_type(Printer *p, const SInfo *s) {
  if (p->d == DIALECT_TODAY) {
    p->uses_T = true;
    text_printf(p->t, "T.%s", dtype_name(s->dtype));
  } else {
    text_printf(p->t, "R.Prim(\"%s\")", dtype_name(s->dtype));
  }
}

static void print_dtensor_type(Printer *p, const SInfo *s) {
  Text *t = p->t;
  text_puts(t, "R.DTensor(");
  if (s->dims)
    print_dims(p, s->dims, (uint32_t)s->ndim, '(', ')');
  else
    text_puts(t, "None");
  text_printf(t, ", \"%s\", ", dtype_known(s->dtype) ? dtype_name(s->dtype) : "void");
  text_put_quoted(t, s->mesh, strlen(s->mesh));
  text_puts(t, ", ");
  text_put_quoted(t, s->placement, strlen(s->placement));
  text_putc(t, ')');
}

static void print_tensor_type(Printer *p, const SInfo *s) {
  Text *t = p->t;
  if (s->mesh) {
    print_dtensor_type(p, s);
    return;
  }
  text_puts(t, "R.Tensor");
  bool known = s->dims || s->shape_var;
  if (!known && s->ndim < 0 && !dtype_known(s->dtype) && !s->vdevice) return;
  text_putc(t, '(');
  const char *sep = "";
  if (s->dims)
    print_dims(p, s->dims, (uint32_t)s->ndim, '(', ')'), sep = ", ";
  else if (s->shape_var)
    print_node(p, s->shape_var), sep = ", ";
  if (dtype_known(s->dtype)) {
    text_printf(t, "%sdtype=\"%s\"", sep, dtype_name(s->dtype));
    sep = ", ";
  }
  if (!known && s->ndim >= 0) {
    text_printf(t, "%sndim=%d", sep, s->ndim);
    sep = ", ";
  }
  if (s->vdevice) {
    text_printf(t, "%svdevice=", sep);
    text_put_quoted(t, s->vdevice, strlen(s->vdevice));
  }
  text_putc(t, ')');
}

static void print_types(Printer *p, const SInfo *const *s, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (i) text_puts(p->t, ", ");
    print_sinfo(p, s[i]);
  }
}

static void print_callable_type(Printer *p, const SInfo *s) {
  Text *t = p->t;
  text_puts(t, "R.Callable");
  if (!s->opaque) {
    text_puts(t, "((");
    print_types(p, s->fields, s->n);
    text_puts(t, s->n == 1 ? ",), " : "), ");
    print_sinfo(p, s->ret);
    text_printf(t, ", %s)", s->pure ? "True" : "False");
    return;
  }
  bool ret = s->ret && s->ret->kind != SINFO_OBJECT && s->ret->kind != SINFO_BAD;
  if (!ret && !s->pure) return;
  text_putc(t, '(');
  if (ret) {
    text_puts(t, "ret=");
    print_sinfo(p, s->ret);
  }
  if (s->pure) text_printf(t, "%spurity=True", ret ? ", " : "");
  text_putc(t, ')');
}

void print_sinfo(Printer *p, const SInfo *s) {
  Text *t = p->t;
  p->uses_R = true;
  bool graph = p->graph;
  p->graph = true;
  if (!s) {
    text_puts(t, p->d == DIALECT_TODAY ? "R.Any" : "R.Object");
    p->graph = graph;
    return;
  }
  switch (s->kind) {
  case SINFO_BAD:
  case SINFO_OBJECT: text_puts(t, p->d == DIALECT_TODAY ? "R.Any" : "R.Object"); break;
  case SINFO_STRING: text_puts(t, "R.Str"); break;
  case SINFO_PRIM: print_prim_type(p, s); break;
  case SINFO_SHAPE:
    if (s->dims) {
      text_puts(t, "R.Shape(");
      print_dims(p, s->dims, (uint32_t)s->ndim, '[', ']');
      text_putc(t, ')');
    } else {
      text_printf(t, "R.Shape(ndim=%d)", s->ndim);
    }
    break;
  case SINFO_TENSOR: print_tensor_type(p, s); break;
  case SINFO_TUPLE:
    text_puts(t, "R.Tuple");
    if (s->n) {
      text_putc(t, '(');
      print_types(p, s->fields, s->n);
      text_putc(t, ')');
    }
    break;
  case SINFO_CALLABLE: print_callable_type(p, s); break;
  }
  p->graph = graph;
}

void sinfo_print(Text *t, const SInfo *s) {
  Printer p = {.t = t, .graph = true};
  print_sinfo(&p, s);
}

/* ---- expressions ---- */

static void print_operands(Printer *p, const Node *n, uint32_t from) {
  for (uint32_t i = from; i < n->nin; i++) {
    if (i > from) text_puts(p->t, ", ");
    print_node(p, node_in(n, i));
  }
}

static void print_tuple(Printer *p, const Node *n, uint32_t from, bool parens) {
  uint32_t count = n->nin - from;
  if (count == 0) {
    text_puts(p->t, "R.tuple()");
    return;
  }
  if (count == 1) parens = true;
  if (parens) text_putc(p->t, '(');
  print_operands(p, n, from);
  if (count == 1) text_putc(p->t, ',');
  if (parens) text_putc(p->t, ')');
}

/* A number as Python has it: 1.5, float("inf"). */
static void put_float(Text *t, double v) {
  bool finite = isfinite(v);
  if (!finite) text_puts(t, "float(");
  text_put_double(t, v);
  if (!finite) text_putc(t, ')');
}

static void print_const(Printer *p, const Node *n) {
  const ConstData *k = n->data;
  const SInfo *dist = n->annot && n->annot->mesh ? n->annot : NULL;
  Text *t = p->t;
  if (print_const_is_meta(k)) {
    print_meta_ref(p, &p->consts, META_CONST, k);
    return;
  }
  text_puts(t, dist ? "R.dist.const(" : "R.const(");
  if (dtype_is_float(k->dtype))
    put_float(t, dtype_load_double(k->dtype, k->bytes));
  else if (dtype_is_bool(k->dtype))
    text_puts(t, dtype_load_int(k->dtype, k->bytes) ? "True" : "False");
  else
    text_printf(t, "%lld", (long long)dtype_load_int(k->dtype, k->bytes));
  if (dist) {
    text_puts(t, ", ");
    print_sinfo(p, dist);
    text_putc(t, ')');
  } else {
    text_printf(t, ", \"%s\")", dtype_name(k->dtype));
  }
}

static void print_ints(Printer *p, IntList l) {
  text_putc(p->t, '[');
  for (int32_t i = 0; i < l.n; i++) text_printf(p->t, i ? ", %lld" : "%lld", (long long)l.at[i]);
  text_putc(p->t, ']');
}

static void print_none(Printer *p) {
  text_puts(p->t, "None");
}

static void print_out_types(Printer *p, const SInfo *const *at, uint32_t n) {
  if (n == 1) {
    print_sinfo(p, at[0]);
    return;
  }
  text_putc(p->t, '[');
  print_types(p, at, n);
  text_putc(p->t, ']');
}

static void print_field(Printer *p, const AttrField *f, const void *v) {
  Text *t = p->t;
  switch (f->kind) {
  case AK_INT: text_printf(t, "%lld", (long long)*(const int64_t *)v); return;
  case AK_OPT_INT: {
    const OptInt *o = v;
    if (o->has)
      text_printf(t, "%lld", (long long)o->v);
    else
      print_none(p);
    return;
  }
  case AK_FLOAT: put_float(t, *(const double *)v); return;
  case AK_OPT_FLOAT: {
    const OptFloat *o = v;
    if (o->has)
      put_float(t, o->v);
    else
      print_none(p);
    return;
  }
  case AK_BOOL: text_puts(t, *(const bool *)v ? "True" : "False"); return;
  case AK_STR: {
    const char *s = *(const char *const *)v;
    if (s)
      text_put_quoted(t, s, strlen(s));
    else
      print_none(p);
    return;
  }
  case AK_TEXT: {
    const char *s = *(const char *const *)v;
    text_puts(t, "R.str(");
    text_put_quoted(t, s ? s : "", s ? strlen(s) : 0);
    text_putc(t, ')');
    return;
  }
  case AK_DTYPE: {
    DType d = *(const DType *)v;
    if (dtype_known(d))
      text_printf(t, "\"%s\"", dtype_name(d));
    else
      text_puts(t, p->d == DIALECT_TODAY ? "None" : "\"void\"");
    return;
  }
  case AK_INTS: {
    const IntList *l = v;
    if (l->n < 0)
      print_none(p);
    else
      print_ints(p, *l);
    return;
  }
  case AK_EXPRS: {
    const ExprList *l = v;
    if (l->n < 0)
      print_none(p);
    else
      print_dims(p, l->at, (uint32_t)l->n, '[', ']');
    return;
  }
  case AK_SINFOS: {
    const SInfoList *l = v;
    bool args = strcmp(f->name, "ty_args") == 0;
    if (l->n < 0) {
      print_none(p);
    } else if (args) {
      text_putc(t, '(');
      print_types(p, l->at, (uint32_t)l->n);
      text_puts(t, l->n == 1 ? ",)" : ")");
    } else {
      print_out_types(p, l->at, (uint32_t)l->n);
    }
    return;
  }
  case AK_DICT:
  case AK_INDEX_MAP:
  case AK_ANY: print_attr(p, *(const Attr *const *)v); return;
  }
  bug("attribute field kind %d", (int)f->kind);
}

/* call_packed without struct info of a result has no ty_args in the text; an attribute whose
 * earlier name is its name is none of today's. */
static bool field_left_out(const Printer *p, const AttrField *f, const void *v) {
  if (f->old_name && !strcmp(f->old_name, f->name) && p->d != DIALECT_EARLIER)
    return !*(const Attr *const *)v;
  if (f->kind == AK_SINFOS && f->defval) return ((const SInfoList *)v)->n <= 0;
  return f->kind == AK_DICT && f->defval && !*(const Attr *const *)v;
}

/* Calls whose arguments stand in a tuple after the callee. */
static bool args_in_tuple(OpId op) {
  return (op_table[op].traits & OPT_ARGS_TUPLE) != 0;
}

/* `stated`: what to write for out_ty, or NULL for what the node has. */
static void print_op_call(Printer *p, const Node *n, const SInfo *stated) {
  const OpInfo *o = node_op(n);
  Text *t = p->t;
  text_printf(t, "R.%s(", o->name);
  const char *sep = "";
  if (args_in_tuple(n->op)) {
    print_node(p, node_in(n, 0));
    text_puts(t, ", ");
    print_tuple(p, n, 1, true);
    sep = ", ";
  } else if (n->nin) {
    print_operands(p, n, 0);
    sep = ", ";
  }
  for (uint32_t i = 0; i < o->nattrs; i++) {
    const AttrField *f = &o->attrs[i];
    const void *v = (const char *)n->attrs + f->offset;
    if (field_left_out(p, f, v)) continue;
    bool old = p->d == DIALECT_EARLIER && f->old_name;
    text_printf(t, "%s%s=", sep, old ? f->old_name : f->name);
    if (stated && f->kind == AK_SINFOS)
      print_out_types(p, stated->kind == SINFO_TUPLE ? stated->fields : &stated,
                      stated->kind == SINFO_TUPLE ? stated->n : 1);
    else
      print_field(p, f, v);
    sep = ", ";
  }
  text_putc(t, ')');
}

/* ---- casts that stand in the text in another form ---- */

static CastForm cast_form(const Node *n) {
  return n && n->op == OP_MATCH_CAST && n->func->module->as_read ? n->cast : CAST_WRITTEN;
}

/* Is n printed where it is used, or as part of the cast that follows it? */
static bool is_silent(const Node *n) {
  if (cast_form(n) == CAST_USED) return true;
  CastForm next = cast_form(n->next);
  return next != CAST_WRITTEN && next != CAST_USED && node_in(n->next, 0) == n &&
         node_count_uses(n) == 1 && !n->is_output && n->op != OP_IF && n->op != OP_FUNC;
}

/* What stands right of the `=` for a cast that is not just written. */
static void print_cast(Printer *p, const Node *n) {
  const Node *v = node_in(n, 0);
  CastForm form = cast_form(n);
  if (form == CAST_OVER) text_puts(p->t, "R.match_cast(");
  if (!v->block || !is_silent(v))
    print_node(p, v);
  else if (cast_form(v) != CAST_WRITTEN)
    print_cast(p, v);
  else if (form == CAST_OUT)
    print_op_call(p, v, n->annot);
  else
    print_value(p, v, form != CAST_OVER);
  if (form != CAST_OVER) return;
  text_puts(p->t, ", ");
  print_sinfo(p, n->annot);
  text_putc(p->t, ')');
}

/* The expression that node n computes, as it stands right of a `=` when `rhs`. */
static void print_value(Printer *p, const Node *n, bool rhs) {
  Text *t = p->t;
  p->uses_R = true;
  switch (n->op) {
  case OP_CONST: print_const(p, n); return;
  case OP_SHAPE_EXPR:
    text_puts(t, "R.shape(");
    print_dims(p, n->shape.at, n->shape.n, '[', ']');
    text_putc(t, ')');
    return;
  case OP_PRIM_VALUE: {
    bool param = n->expr->kind == EXPR_VAR && map_hasp(&p->prim_params, n->expr->var);
    bool old = p->d == DIALECT_EARLIER && !param;
    if (old) text_puts(t, "R.prim_value(");
    print_expr(p, n->expr);
    if (old) text_putc(t, ')');
    return;
  }
  case OP_STR:
    text_puts(t, "R.str(");
    text_put_quoted(t, n->str, strlen(n->str));
    text_putc(t, ')');
    return;
  case OP_DTYPE: text_printf(t, "R.dtype(\"%s\")", dtype_name(n->dtype)); return;
  case OP_TUPLE: print_tuple(p, n, 0, !rhs); return;
  case OP_TUPLE_GET:
    print_node(p, node_in(n, 0));
    text_printf(t, "[%lld]", (long long)n->index);
    return;
  case OP_ALIAS: print_node(p, node_in(n, 0)); return;
  case OP_MATCH_CAST:
    text_puts(t, "R.match_cast(");
    print_node(p, node_in(n, 0));
    text_puts(t, ", ");
    print_sinfo(p, n->annot ? n->annot : n->sinfo);
    text_putc(t, ')');
    return;
  case OP_GLOBAL:
    p->need_cls = true;
    text_printf(t, "cls.%s", n->str);
    return;
  case OP_EXTERN:
    if (rhs) text_puts(t, "R.ExternFunc(");
    text_put_quoted(t, n->str, strlen(n->str));
    if (rhs && !n->sinfo->opaque) text_puts(t, ", "), print_sinfo(p, n->sinfo);
    if (rhs) text_putc(t, ')');
    return;
  case OP_CALL:
    print_node(p, node_in(n, 0));
    text_putc(t, '(');
    print_operands(p, n, 1);
    text_putc(t, ')');
    return;
  default: print_op_call(p, n, NULL);
  }
}

/* A use of n: its name, or the expression in place when it has none. */
static void print_node(Printer *p, const Node *n) {
  while (cast_form(n) == CAST_USED) n = node_in(n, 0);
  if (n->block || n->op == OP_PARAM || n->op == OP_FUNC)
    text_puts(p->t, print_node_name(p, n));
  else
    print_value(p, n, false);
}

/* ---- statements ---- */

/* Declares the variables (and cls) that the text since `start` met first, in front of it. Only what
 * stands in a function's body itself does so: in a branch or a dataflow block the declaration would
 * not be seen after it. */
static void put_declarations(Printer *p, size_t start, int indent, bool top) {
  bool cls = p->need_cls && !p->cls_done;
  if (!top || (!p->pending.n && !cls)) return;
  Text *t = p->t;
  size_t n = t->n - start;
  char *rest = arena_strndup(p->arena, t->s + start, n);
  size_t end = t->n;
  t->n = start;
  if (cls) {
    text_indent(t, indent);
    text_puts(t, "cls = Module\n");
    p->cls_done = true;
  }
  for (uint32_t i = 0; i < p->pending.n; i++) {
    const Var *v = p->pending.at[i];
    p->uses_T = true;
    text_indent(t, indent);
    text_printf(t, "%s = T.%s()\n", print_name(p, v, v->name), dtype_name(v->dtype));
  }
  p->pending.n = 0;
  text_putn(t, rest, n);
  print_moved(p, start, t->n - end);
}

static bool has_out_ty(const Node *n) {
  return n->op == OP_call_tir || n->op == OP_call_dps_packed;
}

/* Is the struct info just what out_ty says? Then it isn't repeated as an annotation. */
static bool is_out_ty(const Node *n) {
  if (!has_out_ty(n)) return false;
  const SInfoList *l = &node_attrs(n, call_tir)->out_ty;
  if (l->n == 1) return l->at[0] == n->sinfo;
  if (n->sinfo->kind != SINFO_TUPLE || (int32_t)n->sinfo->n != l->n) return false;
  for (int32_t i = 0; i < l->n; i++)
    if (l->at[i] != n->sinfo->fields[i]) return false;
  return true;
}

static bool is_statement(const Node *n) {
  return !n->uses && n->sinfo && sinfo_is_void(n->sinfo) && !n->is_output &&
         (n->op == OP_CALL || !(node_op(n)->traits & OPT_STRUCTURAL));
}

static void print_binder(Printer *p, const char *name, const Node *n) {
  text_puts(p->t, name);
  bool stated = is_out_ty(n) || cast_form(n) == CAST_OUT;
  if (!stated && n->sinfo && n->sinfo->kind != SINFO_STRING) {
    text_puts(p->t, ": ");
    print_sinfo(p, n->sinfo);
  }
  text_puts(p->t, " = ");
}

/* One branch: its statements, then the name of the `if` bound to the result. */
static void print_branch(Printer *p, const Node *n, const Seq *s, const char *name,
                         const char *suffix, int indent) {
  uint32_t mark = print_scope_enter(p);
  const Node *r = seq_result(s);
  if (r->block && r->block->seq == s && r == s->last->last && r->op != OP_IF && r->op != OP_FUNC)
    print_define_node(p, r, arena_printf(p->arena, "%s%s", name, suffix));
  print_seq(p, s, indent, false);
  if (s->yield) print_mark(p, s->yield->span);
  text_indent(p->t, indent);
  print_binder(p, name, n);
  if (r->op == OP_TUPLE && !r->block)
    print_value(p, r, true);
  else
    print_node(p, r);
  text_putc(p->t, '\n');
  print_scope_leave(p, mark);
}

static void print_if(Printer *p, const Node *n, int indent) {
  const char *name = print_node_name(p, n);
  print_mark(p, n->span);
  text_indent(p->t, indent);
  text_puts(p->t, "if ");
  print_node(p, node_in(n, 0));
  text_puts(p->t, ":\n");
  print_branch(p, n, &n->if_.then_, name, "_then", indent + 4);
  text_indent(p->t, indent);
  text_puts(p->t, "else:\n");
  print_branch(p, n, &n->if_.else_, name, "_else", indent + 4);
}

static void print_binding(Printer *p, const Node *n, int indent) {
  if (is_silent(n)) return;
  if (cast_form(n) != CAST_WRITTEN) {
    print_mark(p, n->name_span);
    text_indent(p->t, indent);
    print_binder(p, print_node_name(p, n), n);
    print_cast(p, n);
    text_putc(p->t, '\n');
    return;
  }
  if (n->op == OP_IF) {
    print_if(p, n, indent);
    return;
  }
  if (n->op == OP_FUNC) {
    print_func(p, n->local, print_node_name(p, n), indent, true);
    text_putc(p->t, '\n');
    return;
  }
  print_mark(p, n->name_span);
  text_indent(p->t, indent);
  if (!is_statement(n)) print_binder(p, print_node_name(p, n), n);
  print_value(p, n, true);
  text_putc(p->t, '\n');
}

static void print_output(Printer *p, const BindingBlock *b, int indent) {
  print_mark(p, b->output);
  text_indent(p->t, indent);
  text_puts(p->t, "R.output(");
  const char *sep = "";
  for (const Node *n = b->first; n; n = n->next) {
    if (!n->is_output) continue;
    text_printf(p->t, "%s%s", sep, print_node_name(p, n));
    sep = ", ";
  }
  text_puts(p->t, ")\n");
}

static void print_seq(Printer *p, const Seq *s, int indent, bool top) {
  for (const BindingBlock *b = s->first; b; b = b->next) {
    size_t block_start = p->t->n;
    if (b->dataflow) {
      print_mark(p, b->span);
      text_indent(p->t, indent);
      text_puts(p->t, "with R.dataflow():\n");
    }
    int in = indent + (b->dataflow ? 4 : 0);
    for (const Node *n = b->first; n; n = n->next) {
      size_t start = p->t->n;
      print_binding(p, n, in);
      put_declarations(p, start, in, top && !b->dataflow);
    }
    if (b->dataflow) {
      print_output(p, b, in);
      put_declarations(p, block_start, indent, top);
    }
  }
}

/* ---- functions ---- */

/* Names the variables of a signature. In today's dialect they are declared by TypeVar lines; in the
 * earlier one by strings in the signature, and again in the body where it uses them. */
static void name_dims(Printer *p, Var *const *vars, uint32_t n, bool declared) {
  for (uint32_t i = 0; i < n; i++) {
    const Var *v = vars[i];
    if (map_hasp(&p->names, v)) continue; /* a parameter, or a variable of the function around */
    if (p->d == DIALECT_TODAY)
      print_define_typevar(p, v);
    else
      print_define(p, v, v->name);
    if (declared) map_setp(&p->declared, v, (void *)(uintptr_t)v);
  }
}

static const Var *param_var(const Node *n) {
  const SInfo *s = n->sinfo;
  return s && s->kind == SINFO_PRIM && s->value && s->value->kind == EXPR_VAR ? s->value->var
                                                                              : NULL;
}

static void print_signature(Printer *p, const Func *f) {
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Node *n = f->params[i];
    const char *name = print_define_node(p, n, n->name);
    const Var *v = param_var(n);
    if (!v || map_hasp(&p->names, v)) continue;
    map_setp(&p->names, v, (void *)(uintptr_t)name);
    map_setp(&p->declared, v, (void *)(uintptr_t)v);
    map_setp(&p->prim_params, v, (void *)(uintptr_t)v);
  }
  uint32_t pending = p->pending.n;
  VarVec vars = {0};
  for (uint32_t i = 0; i < f->nparams; i++) sinfo_all_vars(p->arena, f->params[i]->sinfo, &vars);
  const SInfo *ret = f->ret ? f->ret : f->ret_annot;
  if (ret && p->d == DIALECT_TODAY) sinfo_all_vars(p->arena, ret, &vars);
  name_dims(p, vars.at, vars.n, p->d == DIALECT_TODAY);
  text_putc(p->t, '(');
  p->quote = p->d == DIALECT_TODAY ? QUOTE_COMPOSED : QUOTE_ALL;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Node *n = f->params[i];
    text_printf(p->t, "%s%s: ", i ? ", " : "", print_node_name(p, n));
    const Var *v = param_var(n);
    if (p->d == DIALECT_EARLIER && v && dtype_eq(v->dtype, DT_I64))
      text_printf(p->t, "R.Prim(value=\"%s\")", print_name(p, v, v->name));
    else
      print_sinfo(p, n->sinfo);
  }
  text_puts(p->t, ") -> ");
  print_sinfo(p, ret);
  text_puts(p->t, ":\n");
  p->quote = QUOTE_NONE;
  /* In the earlier dialect the body declares them where it mentions them. */
  for (uint32_t i = pending; i < p->pending.n; i++) map_setp(&p->declared, p->pending.at[i], NULL);
  p->pending.n = pending;
}

static void print_decorator(Printer *p, const Func *f, int indent, bool nested) {
  text_indent(p->t, indent);
  text_puts(p->t, "@R.function");
  const char *sep = "(";
  if (!f->pure) text_printf(p->t, "%spure=False", sep), sep = ", ";
  if (f->is_private && !nested) text_printf(p->t, "%sprivate=True", sep), sep = ", ";
  if (!f->check_well_formed) text_printf(p->t, "%scheck_well_formed=False", sep), sep = ", ";
  text_puts(p->t, *sep == ',' ? ")\n" : "\n");
}

void print_func(Printer *p, const Func *f, const char *name, int indent, bool nested) {
  p->uses_R = true;
  bool graph = p->graph;
  p->graph = true;
  if (nested) {
    text_indent(p->t, indent);
    text_puts(p->t, "# from tvm.script import relax as R\n");
    text_indent(p->t, indent);
    text_putc(p->t, '\n');
  }
  print_mark(p, f->name_span);
  print_decorator(p, f, indent, nested);
  print_mark(p, f->name_span);
  text_indent(p->t, indent);
  text_printf(p->t, "def %s", name);
  uint32_t mark = print_scope_enter(p);
  print_signature(p, f);
  int in = indent + 4;
  print_func_attrs(p, f->attrs, f->name, "R.func_attr", in);
  print_seq(p, &f->body, in, !nested);
  size_t start = p->t->n;
  if (f->body.yield) print_mark(p, f->body.yield->span);
  text_indent(p->t, in);
  text_puts(p->t, "return ");
  if (f->body.yield)
    print_node(p, func_result(f));
  else
    text_puts(p->t, "R.tuple()");
  text_putc(p->t, '\n');
  put_declarations(p, start, in, !nested);
  print_scope_leave(p, mark);
  p->graph = graph;
}
