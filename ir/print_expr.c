/* Expressions as text, with parentheses only where Python's precedence needs them.
 *
 * Operators whose operands are both literals print in the verbose form (T.Add(1, 2)), since reading
 * would fold the operator. Comparisons never stand bare next to comparisons: Python would chain
 * them.
 */
#include "ir/print_impl.h"
#include <math.h>

enum {
  PREC_NONE,
  PREC_OR,
  PREC_AND,
  PREC_NOT,
  PREC_CMP,
  PREC_BITOR,
  PREC_BITXOR,
  PREC_BITAND,
  PREC_SHIFT,
  PREC_ADD,
  PREC_MUL,
  PREC_UNARY,
  PREC_ATOM,
};

static void expr_at(Printer *p, const Expr *e, int prec);

typedef struct {
  const char *op, *verbose; /* op NULL: always T.<verbose>(a, b) */
  int prec;
} OpText;

static OpText op_text(const Expr *e) {
  bool is_int = !dtype_is_float(e->arg[0]->dtype);
  switch ((ExprKind)e->kind) {
  case EXPR_ADD: return (OpText){"+", "Add", PREC_ADD};
  case EXPR_SUB: return (OpText){"-", "Sub", PREC_ADD};
  case EXPR_MUL: return (OpText){"*", "Mul", PREC_MUL};
  case EXPR_DIV: return (OpText){is_int ? NULL : "/", "Div", PREC_MUL};
  case EXPR_MOD: return (OpText){NULL, "truncmod", 0};
  case EXPR_FLOORDIV: return (OpText){"//", "FloorDiv", PREC_MUL};
  case EXPR_FLOORMOD: return (OpText){"%", "FloorMod", PREC_MUL};
  case EXPR_MIN: return (OpText){NULL, "min", 0};
  case EXPR_MAX: return (OpText){NULL, "max", 0};
  case EXPR_EQ: return (OpText){"==", "EQ", PREC_CMP};
  case EXPR_NE: return (OpText){"!=", "NE", PREC_CMP};
  case EXPR_LT: return (OpText){"<", "LT", PREC_CMP};
  case EXPR_LE: return (OpText){"<=", "LE", PREC_CMP};
  case EXPR_GT: return (OpText){">", "GT", PREC_CMP};
  case EXPR_GE: return (OpText){">=", "GE", PREC_CMP};
  case EXPR_AND: return (OpText){"and", "And", PREC_AND};
  case EXPR_OR: return (OpText){"or", "Or", PREC_OR};
  case EXPR_BITAND: return (OpText){"&", "BitwiseAnd", PREC_BITAND};
  case EXPR_BITOR: return (OpText){"|", "BitwiseOr", PREC_BITOR};
  case EXPR_BITXOR: return (OpText){"^", "BitwiseXor", PREC_BITXOR};
  case EXPR_SHL: return (OpText){"<<", "LShift", PREC_SHIFT};
  case EXPR_SHR: return (OpText){">>", "RShift", PREC_SHIFT};
  default: return (OpText){NULL, NULL, 0};
  }
}

static bool is_literal(const Expr *e) {
  return e->kind == EXPR_INT || e->kind == EXPR_FLOAT;
}

/* Operand i of e, which may be computed on its own terms only. */
static void print_operand(Printer *p, const Expr *e, uint32_t i, int prec) {
  if (p->arena && !p->graph && print_is_lazy(e, i) && print_is_big(p, e->arg[i]))
    print_shared_expr(p, e->arg[i]);
  else
    expr_at(p, e->arg[i], prec);
}

static void print_args(Printer *p, const Expr *const *a, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (i) text_puts(p->t, ", ");
    expr_at(p, a[i], PREC_NONE);
  }
}

static void t_call(Printer *p, const char *name, const Expr *const *a, uint32_t n) {
  p->uses_T = true;
  text_printf(p->t, "T.%s(", name);
  print_args(p, a, n);
  text_putc(p->t, ')');
}

static void print_int(Printer *p, const Expr *e) {
  Text *t = p->t;
  DType d = e->dtype;
  if (d.lanes > 1) {
    p->uses_T = true;
    text_printf(t, "T.Broadcast(T.%s(%lld), %u)", dtype_name(dtype_scalar(d)), (long long)e->i,
                d.lanes);
    return;
  }
  if (dtype_eq(d, p->graph ? DT_I64 : DT_I32)) {
    text_printf(t, "%lld", (long long)e->i);
    return;
  }
  p->uses_T = true;
  if (dtype_is_bool(d))
    text_printf(t, "T.bool(%s)", e->i ? "True" : "False");
  else if (dtype_is_uint(d))
    text_printf(t, "T.%s(%llu)", dtype_name(d), (unsigned long long)e->i);
  else
    text_printf(t, "T.%s(%lld)", dtype_name(d), (long long)e->i);
}

static void print_float(Printer *p, const Expr *e) {
  p->uses_T = true;
  text_printf(p->t, "T.%s(", dtype_name(e->dtype));
  text_put_double(p->t, e->written ? *e->written : e->f);
  text_putc(p->t, ')');
}

static void print_binary(Printer *p, const Expr *e, int prec) {
  OpText o = op_text(e);
  const Expr *a = e->arg[0], *b = e->arg[1];
  if (e->intrin == SPELL_TEST) {
    expr_at(p, a, prec);
    return;
  }
  if (!o.op || e->intrin == SPELL_CALL || (is_literal(a) && is_literal(b))) {
    t_call(p, o.verbose, e->arg, 2);
    return;
  }
  bool paren = prec > o.prec;
  bool cmp = o.prec == PREC_CMP;
  if (paren) text_putc(p->t, '(');
  expr_at(p, a, cmp ? o.prec + 1 : o.prec);
  text_printf(p->t, " %s ", o.op);
  print_operand(p, e, 1, o.prec + 1);
  if (paren) text_putc(p->t, ')');
}

static void print_unary(Printer *p, const Expr *e, int prec, const char *op, int own) {
  bool paren = prec > own;
  if (paren) text_putc(p->t, '(');
  text_puts(p->t, op);
  expr_at(p, e->arg[0], own);
  if (paren) text_putc(p->t, ')');
}

const char *print_buffer(Printer *p, const Buffer *b) {
  return print_name(p, b, b->name);
}

void print_indices(Printer *p, const Expr *const *idx, uint32_t n) {
  if (!n) text_puts(p->t, "()");
  print_args(p, idx, n);
}

bool print_is_scalar(const Printer *p, const Buffer *b) {
  return b->scalar && b->ndim == 0 && p->d != DIALECT_EARLIER;
}

static void print_load(Printer *p, const Expr *e) {
  text_puts(p->t, print_buffer(p, e->buf));
  if (print_is_scalar(p, e->buf) && !e->has_pred) return;
  if (!e->has_pred) {
    text_putc(p->t, '[');
    print_indices(p, e->arg, e->n);
    text_putc(p->t, ']');
    return;
  }
  text_puts(p->t, ".vload([");
  print_args(p, e->arg, e->n - 1);
  text_puts(p->t, "], predicate=");
  expr_at(p, e->arg[e->n - 1], PREC_NONE);
  text_putc(p->t, ')');
}

/* "float32", or T.handle("float32", "global").ty */
static void print_result_type(Printer *p, const Expr *e) {
  if (!e->s)
    text_printf(p->t, "\"%s\"", dtype_name(e->dtype));
  else
    text_printf(p->t, "T.%s%s.ty", e->s, e->s[strlen(e->s) - 1] == ')' ? "" : "()");
}

static void print_call(Printer *p, const Expr *e) {
  const IntrinInfo *f = &intrin_table[e->intrin];
  p->uses_T = true;
  if (e->intrin == INTRIN_list) {
    text_putc(p->t, '[');
    print_args(p, e->arg, e->n);
    text_putc(p->t, ']');
    return;
  }
  if (e->intrin == INTRIN_keyword) {
    text_printf(p->t, "%s=", e->arg[0]->s);
    expr_at(p, e->arg[1], PREC_NONE);
    return;
  }
  text_printf(p->t, "T.%s(", f->name);
  if (f->result == IRES_GIVEN) {
    print_result_type(p, e);
    if (e->n) text_puts(p->t, ", ");
  }
  for (uint32_t i = 0; i < e->n; i++) {
    if (i) text_puts(p->t, ", ");
    print_operand(p, e, i, PREC_NONE);
  }
  if (f->result == IRES_LAST) {
    if (e->n) text_puts(p->t, ", ");
    print_result_type(p, e);
  }
  text_putc(p->t, ')');
}

static void print_shuffle(Printer *p, const Expr *e) {
  p->uses_T = true;
  const Expr *lanes = e->arg[e->n - 1];
  text_puts(p->t, "T.Shuffle([");
  print_args(p, e->arg, e->n - 1);
  text_puts(p->t, "], [");
  print_args(p, lanes->arg, lanes->n);
  text_puts(p->t, "])");
}

/* The last argument of what makes a vector. */
static void print_lanes(Text *t, DType d) {
  if (dtype_vscale(d))
    text_printf(t, ", T.vscale() * %u)", dtype_vscale(d));
  else
    text_printf(t, ", %u)", d.lanes);
}

static void print_let(Printer *p, const Expr *e) {
  p->uses_T = true;
  Var *v = e->arg[0]->var;
  uint32_t mark = print_scope_enter(p);
  bool declared = map_hasp(&p->names, v); /* before the statement */
  const char *name = declared ? print_name(p, v, v->name) : print_define(p, v, v->name);
  text_puts(p->t, "T.Let(");
  print_operand(p, e, 2, PREC_NONE);
  text_printf(p->t, ", where={%s: ", name);
  expr_at(p, e->arg[1], PREC_NONE);
  text_puts(p->t, "})");
  print_scope_leave(p, mark);
}

static void print_var(Printer *p, const Var *v) {
  /* At graph level a variable met for the first time gets a `n = T.int64()` line before the
   * statement (print_relax.c). */
  if (p->arena && p->graph && !map_getp(&p->declared, v)) {
    map_setp(&p->declared, v, (void *)(uintptr_t)v);
    vec_push(p->arena, &p->pending, (Var *)(uintptr_t)v);
    if (p->quote == QUOTE_NONE && p->d == DIALECT_TODAY && !map_hasp(&p->names, v))
      print_define_local(p, v);
  }
  text_puts(p->t, print_name(p, v, v->name));
}

static void expr_at(Printer *p, const Expr *e, int prec) {
  Text *t = p->t;
  const char *shared = p->shared_list.n ? map_get(&p->shared, (uint64_t)e->id + 1) : NULL;
  if (shared) {
    text_puts(t, shared);
    return;
  }
  switch ((ExprKind)e->kind) {
  case EXPR_INT: print_int(p, e); return;
  case EXPR_FLOAT: print_float(p, e); return;
  case EXPR_STR: text_put_quoted(t, e->s, strlen(e->s)); return;
  case EXPR_VAR: print_var(p, e->var); return;
  case EXPR_CAST:
    p->uses_T = true;
    text_printf(t, "T.Cast(\"%s\", ", dtype_name(e->dtype));
    expr_at(p, e->arg[0], PREC_NONE);
    text_putc(t, ')');
    return;
  case EXPR_ADD:
  case EXPR_SUB:
  case EXPR_MUL:
  case EXPR_DIV:
  case EXPR_MOD:
  case EXPR_FLOORDIV:
  case EXPR_FLOORMOD:
  case EXPR_MIN:
  case EXPR_MAX:
  case EXPR_EQ:
  case EXPR_NE:
  case EXPR_LT:
  case EXPR_LE:
  case EXPR_GT:
  case EXPR_GE:
  case EXPR_AND:
  case EXPR_OR:
  case EXPR_BITAND:
  case EXPR_BITOR:
  case EXPR_BITXOR:
  case EXPR_SHL:
  case EXPR_SHR: print_binary(p, e, prec); return;
  case EXPR_NOT:
    if (e->intrin == SPELL_CALL)
      t_call(p, "Not", e->arg, 1);
    else
      print_unary(p, e, prec, "not ", PREC_NOT);
    return;
  case EXPR_BITNOT: print_unary(p, e, prec, "~", PREC_UNARY); return;
  case EXPR_SELECT: t_call(p, "Select", e->arg, 3); return;
  case EXPR_LOAD: print_load(p, e); return;
  case EXPR_RAMP:
    p->uses_T = true;
    text_puts(t, "T.Ramp(");
    print_args(p, e->arg, 2);
    print_lanes(t, e->dtype);
    return;
  case EXPR_BROADCAST:
    p->uses_T = true;
    text_puts(t, "T.Broadcast(");
    expr_at(p, e->arg[0], PREC_NONE);
    print_lanes(t, e->dtype);
    return;
  case EXPR_SHUFFLE: print_shuffle(p, e); return;
  case EXPR_LET: print_let(p, e); return;
  case EXPR_CALL: print_call(p, e); return;
  case EXPR_CALL_FUNC:
    p->need_cls |= p->graph;
    text_printf(t, "%s.%s(", p->graph ? "cls" : "Module", e->s);
    print_args(p, e->arg, e->n);
    text_putc(t, ')');
    return;
  case EXPR_BUF_DATA:
    text_printf(t, "%s%s", print_buffer(p, e->buf), e->intrin == SPELL_BUFFER ? "" : ".data");
    return;
  case EXPR_KIND_COUNT: break;
  }
  bug("expression kind %d", e->kind);
}

void print_expr(Printer *p, const Expr *e) {
  expr_at(p, e, PREC_NONE);
}

void print_expr_tuple(Printer *p, const Expr *const *e, uint32_t n) {
  text_putc(p->t, '(');
  print_args(p, e, n);
  text_puts(p->t, n == 1 ? ",)" : ")");
}

/* A list of dims in brackets; strings in signatures as the quote mode says. */
void print_dims(Printer *p, const Expr *const *dims, uint32_t n, char open, char close) {
  text_putc(p->t, open);
  for (uint32_t i = 0; i < n; i++) {
    if (i) text_puts(p->t, ", ");
    const Expr *e = dims[i];
    bool quoted = e->kind != EXPR_INT &&
                  (p->quote == QUOTE_ALL || (p->quote == QUOTE_COMPOSED &&
                                             (e->kind != EXPR_VAR || map_getp(&p->late, e->var) ||
                                              (!p->graph && !dtype_eq(e->dtype, DT_I64)))));
    if (!quoted) {
      expr_at(p, e, PREC_NONE);
      continue;
    }
    Text text = {0}, *t = p->t;
    p->t = &text;
    expr_at(p, e, PREC_NONE);
    p->t = t;
    text_put_quoted(t, text.s ? text.s : "", text.n);
    text_free(&text);
  }
  text_puts(p->t, n == 1 && open == '(' ? ",)" : (char[]){close, 0});
}

/* min + extent */
void print_range_end(Printer *p, Range r) {
  if (expr_is_int(r.min, 0)) {
    expr_at(p, r.extent, PREC_NONE);
  } else if (r.min->kind == EXPR_INT && r.extent->kind == EXPR_INT) {
    bool bare = dtype_eq(r.min->dtype, p->graph ? DT_I64 : DT_I32);
    long long hi = (long long)(r.min->i + r.extent->i);
    if (bare)
      text_printf(p->t, "%lld", hi);
    else
      text_printf(p->t, "T.%s(%lld)", dtype_name(r.min->dtype), hi);
  } else {
    expr_at(p, r.min, PREC_ADD);
    text_puts(p->t, " + ");
    expr_at(p, r.extent, PREC_ADD + 1);
  }
}

/* `lo` for extent 1, else `lo:hi`. */
void print_range(Printer *p, Range r) {
  if (r.extent->kind == EXPR_INT && r.extent->i == 1) {
    expr_at(p, r.min, PREC_NONE);
    return;
  }
  expr_at(p, r.min, PREC_NONE);
  text_putc(p->t, ':');
  print_range_end(p, r);
}

static void print_map(Printer *p, const IndexMap *m, bool tuple) {
  uint32_t mark = print_scope_enter(p);
  text_puts(p->t, "lambda");
  for (uint32_t i = 0; i < m->nin; i++) {
    text_printf(p->t, "%s %s", i ? "," : "", print_define(p, m->in[i], m->in[i]->name));
    if (p->arena) map_setp(&p->declared, m->in[i], m->in[i]);
  }
  text_puts(p->t, ": ");
  if (tuple)
    print_expr_tuple(p, m->out, m->nout);
  else
    print_expr(p, m->out[0]);
  print_scope_leave(p, mark);
}

void print_index_map(Printer *p, const IndexMap *m) {
  p->uses_T = true;
  text_puts(p->t, "T.index_map(");
  print_map(p, m, true);
  if (m->nin && !dtype_eq(m->in[0]->dtype, DT_I64))
    text_printf(p->t, ", index_dtype=\"%s\"", dtype_name(m->in[0]->dtype));
  text_putc(p->t, ')');
}

void print_lambda(Printer *p, const IndexMap *m) {
  print_map(p, m, m->nout != 1);
}

/* ---- for messages and dumps: plain names ---- */

void expr_print(Text *t, const Expr *e) {
  Printer p = {.t = t};
  print_expr(&p, e);
}

void shape_dim_print(Text *t, const Expr *dim) {
  Printer p = {.t = t, .graph = true};
  print_expr(&p, dim);
}

void shape_print(Text *t, const Expr *const *dims, uint32_t n) {
  Printer p = {.t = t, .graph = true};
  print_dims(&p, dims, n, '(', ')');
}
