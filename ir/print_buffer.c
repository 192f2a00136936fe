/* Buffers as text: what defines one (parameters, allocations, declarations, views) and regions of
 * them.
 */
#include "ir/print_impl.h"

static void buffer_arg(Printer *p, const char *name, const Expr *e) {
  text_printf(p->t, ", %s=", name);
  print_expr(p, e);
}

static bool has_name(Printer *p, const Var *v) {
  return p->arena && map_hasp(&p->names, v);
}

/* A stride that comes with the buffer is a name in quotes, and from then on A.strides[i]. */
static void print_strides(Printer *p, const Buffer *b) {
  Text *t = p->t;
  text_putc(t, '(');
  for (uint32_t i = 0; i < b->ndim; i++) {
    const Expr *e = b->strides[i];
    if (i) text_puts(t, ", ");
    if (e->kind == EXPR_VAR && e->var->of_buffer && !has_name(p, e->var)) {
      text_put_quoted(t, e->var->name, strlen(e->var->name));
      if (p->arena)
        map_setp(&p->names, e->var,
                 arena_printf(p->arena, "%s.strides[%u]", print_buffer(p, b), i));
    } else {
      print_expr(p, e);
    }
  }
  text_puts(t, b->ndim == 1 ? ",)" : ")");
}

/* "(shape), dtype, strides=..." after the opening parenthesis. */
void print_buffer_args(Printer *p, const Buffer *b, bool always_dtype, const char *data) {
  Text *t = p->t;
  print_dims(p, b->shape, b->ndim, '(', ')');
  if (always_dtype || !dtype_eq(b->dtype, DT_F32)) text_printf(t, ", \"%s\"", dtype_name(b->dtype));
  if (data) text_printf(t, ", data=%s", data);
  if (b->strides) {
    text_puts(t, ", strides=");
    print_strides(p, b);
  }
  DType index = b->ndim ? b->shape[0]->dtype : DT_I64;
  if (b->elem_offset &&
      (!expr_is_int(b->elem_offset, 0) || !dtype_eq(b->elem_offset->dtype, index)))
    buffer_arg(p, "elem_offset", b->elem_offset);
  if (b->scope && *b->scope && strcmp(b->scope, "global") != 0) {
    text_puts(t, ", scope=");
    text_put_quoted(t, b->scope, strlen(b->scope));
  }
  if (b->align > 0) text_printf(t, ", align=%d", b->align);
  if (b->offset_factor > 1 || (b->offset_factor && b->offset_var))
    text_printf(t, ", offset_factor=%d", b->offset_factor);
  if (b->layout && !(print_is_earlier(p) && strcmp(b->layout, "None") == 0))
    text_printf(t, ", layout=%s", b->layout);
  if (b->extra) text_printf(t, ", %s", b->extra);
}

void print_define_buffer(Printer *p, const Buffer *b) {
  print_define(p, b, b->name);
  if (b->data && !map_hasp(&p->data_names, b->data))
    map_setp(&p->data_names, b->data, (void *)(uintptr_t)b);
  if (b->offset_var && p->arena)
    map_setp(&p->names, b->offset_var,
             arena_printf(p->arena, "%s.elem_offset", print_buffer(p, b)));
}

void print_region(Printer *p, const Region *r) {
  Text *t = p->t;
  text_printf(t, "%s[", print_buffer(p, r->buf));
  if (!r->buf->ndim) text_puts(t, "()");
  for (uint32_t i = 0; i < r->buf->ndim; i++) {
    if (i) text_puts(t, ", ");
    print_range(p, r->ranges[i]);
  }
  text_putc(t, ']');
}

void print_alloc(Printer *p, const char *func, const Buffer *b, const Attr *annotations,
                 int indent) {
  print_define_buffer(p, b);
  text_indent(p->t, indent);
  text_printf(p->t, "%s = T.%s(", print_buffer(p, b), func);
  Buffer args = *b;
  if (strcmp(func, "alloc_local") == 0 || strcmp(func, "alloc_shared") == 0) args.scope = "global";
  print_buffer_args(p, &args, false, NULL);
  if (annotations && annotations->n) {
    text_puts(p->t, ", annotations=");
    print_attr(p, annotations);
  }
  text_puts(p->t, ")\n");
}

/* In a schedulable function T.alloc_buffer outside of a block's loops is the block's, T.alloc_local
 * and T.alloc_shared are statements. */
void print_alloc_stmt(Printer *p, const Stmt *s, int indent) {
  const Buffer *b = s->alloc.buf;
  bool local = strcmp(b->scope, "local") == 0, shared = strcmp(b->scope, "shared") == 0;
  const char *func = !p->s_tir || (!local && !shared) ? "alloc_buffer"
                     : local                          ? "alloc_local"
                                                      : "alloc_shared";
  print_alloc(p, func, b, s->alloc.annotations, indent);
}

/* A pointer variable as text: X.data of the buffer that shows it, or its own name. */
static const char *data_name(Printer *p, const Var *data) {
  const Buffer *owner = has_name(p, data) ? NULL : map_getp(&p->data_names, data);
  return owner ? arena_printf(p->arena, "%s.data", print_buffer(p, owner))
               : print_name(p, data, data->name);
}

/* The expression as text of its own. */
const char *print_expr_text(Printer *p, const Expr *e) {
  Text value = {0};
  Text *t = p->t;
  p->t = &value;
  print_expr(p, e);
  p->t = t;
  const char *s = arena_printf(p->arena, "%s", text_cstr(&value));
  text_free(&value);
  return s;
}

/* A.view(28), A.local(), A.permute(1, 0) */
static void print_view(Printer *p, const Stmt *s, int indent) {
  Text *t = p->t;
  const Buffer *b = s->alloc.buf;
  const char *source = print_buffer(p, s->alloc.data->buf);
  print_define_buffer(p, b);
  text_indent(t, indent);
  text_printf(t, "%s = %s.%s(", print_buffer(p, b), source, s->alloc.view);
  if (s->alloc.args) {
    text_puts(t, s->alloc.args);
  } else {
    for (uint32_t i = 0; i < b->ndim; i++) {
      if (i) text_puts(t, ", ");
      print_expr(p, b->shape[i]);
    }
    if (b->layout) text_printf(t, "%slayout=%s", b->ndim ? ", " : "", b->layout);
  }
  text_puts(t, ")\n");
}

void print_decl(Printer *p, const Stmt *s, int indent) {
  const Buffer *b = s->alloc.buf;
  const Expr *from = s->alloc.data;
  if (s->alloc.view && from && from->kind == EXPR_BUF_DATA && !print_is_earlier(p)) {
    print_view(p, s, indent);
    return;
  }
  const char *data = NULL;
  if (from && from->kind == EXPR_VAR)
    data = data_name(p, from->var);
  else if (from)
    data = p->arena ? print_expr_text(p, from) : NULL;
  else if (b->data && (has_name(p, b->data) || map_hasp(&p->data_names, b->data)))
    data = data_name(p, b->data);
  print_define_buffer(p, b);
  text_indent(p->t, indent);
  text_printf(p->t, "%s = T.decl_buffer(", print_buffer(p, b));
  print_buffer_args(p, b, false, data);
  text_puts(p->t, ")\n");
}
