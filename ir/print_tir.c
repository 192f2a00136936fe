/* The tensor level as text: prim_funcs, loops, blocks, statements.
 *
 * Names are scoped as in the text: a loop variable's name is free again after the loop, so that
 * sibling loops may use one name. Nests of plain serial loops from 0 join into T.grid, neighbouring
 * block axes that are bound to whole loops into T.axis.remap.
 */
#include "ir/print_impl.h"

static bool earlier(const Printer *p) {
  return p->d == DIALECT_EARLIER;
}

/* ---- buffers ---- */

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
static void print_buffer_args(Printer *p, const Buffer *b, bool always_dtype, const char *data) {
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
  if (b->layout && !(earlier(p) && strcmp(b->layout, "None") == 0))
    text_printf(t, ", layout=%s", b->layout);
  if (b->extra) text_printf(t, ", %s", b->extra);
}

static void define_buffer(Printer *p, const Buffer *b) {
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

static void print_alloc(Printer *p, const char *func, const Buffer *b, const Attr *annotations,
                        int indent) {
  define_buffer(p, b);
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

/* In a schedulable function T.alloc_buffer may be a block's, T.alloc_local and T.alloc_shared are
 * statements. */
static void print_alloc_stmt(Printer *p, const Stmt *s, int indent) {
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
static const char *expr_text(Printer *p, const Expr *e) {
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
  define_buffer(p, b);
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

static void print_decl(Printer *p, const Stmt *s, int indent) {
  const Buffer *b = s->alloc.buf;
  const Expr *from = s->alloc.data;
  if (s->alloc.view && from && from->kind == EXPR_BUF_DATA && !earlier(p)) {
    print_view(p, s, indent);
    return;
  }
  const char *data = NULL;
  if (from && from->kind == EXPR_VAR)
    data = data_name(p, from->var);
  else if (from)
    data = p->arena ? expr_text(p, from) : NULL;
  else if (b->data && (has_name(p, b->data) || map_hasp(&p->data_names, b->data)))
    data = data_name(p, b->data);
  define_buffer(p, b);
  text_indent(p->t, indent);
  text_printf(p->t, "%s = T.decl_buffer(", print_buffer(p, b));
  print_buffer_args(p, b, false, data);
  text_puts(p->t, ")\n");
}

/* ---- blocks ---- */

static char iter_letter(IterKind k) {
  return k == ITER_SPATIAL ? 'S' : k == ITER_REDUCE ? 'R' : k == ITER_SCAN ? 'C' : 'O';
}

/* Is the axis bound to a whole loop, so that T.axis.remap says it all? */
static bool is_remap(Printer *p, const BlockIter *it) {
  if (it->kind != ITER_SPATIAL && it->kind != ITER_REDUCE) return false;
  if (it->value->kind != EXPR_VAR) return false;
  const Stmt *loop = map_getp(&p->loops, it->value->var);
  return loop && loop->loop.min == it->dom.min && loop->loop.extent == it->dom.extent &&
         dtype_eq(it->var->dtype, it->value->dtype);
}

static void print_axis(Printer *p, const BlockIter *it, int indent) {
  static const char *const names[] = {"spatial", "reduce", "opaque", "scan"};
  Text *t = p->t;
  print_mark(p, it->var->span);
  text_indent(t, indent);
  text_printf(t, "%s = T.axis.%s(", print_define(p, it->var, it->var->name), names[it->kind]);
  if (expr_is_int(it->dom.min, 0)) {
    print_expr(p, it->dom.extent);
  } else {
    text_putc(t, '(');
    print_expr(p, it->dom.min);
    text_puts(t, ", ");
    print_range_end(p, it->dom);
    text_putc(t, ')');
  }
  text_puts(t, ", ");
  if (dtype_known(it->written) && it->value->kind == EXPR_INT && p->ctx)
    print_expr(p, expr_int(p->ctx, it->written, it->value->i));
  else
    print_expr(p, it->value);
  text_puts(t, ")\n");
}

static void print_axes(Printer *p, const SBlock *b, int indent) {
  Text *t = p->t;
  for (uint32_t i = 0, end; i < b->niters; i = end) {
    for (end = i; end < b->niters && is_remap(p, &b->iters[end]);) end++;
    if (end < i + 2) {
      print_axis(p, &b->iters[i], indent);
      end = i + 1;
      continue;
    }
    print_mark(p, b->iters[i].var->span);
    text_indent(t, indent);
    for (uint32_t k = i; k < end; k++)
      text_printf(t, "%s%s", k > i ? ", " : "",
                  print_define(p, b->iters[k].var, b->iters[k].var->name));
    text_puts(t, " = T.axis.remap(\"");
    for (uint32_t k = i; k < end; k++) text_putc(t, iter_letter(b->iters[k].kind));
    text_puts(t, "\", [");
    for (uint32_t k = i; k < end; k++) {
      if (k > i) text_puts(t, ", ");
      print_expr(p, b->iters[k].value);
    }
    text_puts(t, "])\n");
  }
}

static void print_regions(Printer *p, const char *what, const Region *r, uint32_t n, int indent) {
  text_indent(p->t, indent);
  text_printf(p->t, "T.%s(", what);
  for (uint32_t i = 0; i < n; i++) {
    if (i) text_puts(p->t, ", ");
    print_region(p, &r[i]);
  }
  text_puts(p->t, ")\n");
}

static void print_body(Printer *p, const Stmt *s, int indent) {
  uint32_t mark = print_scope_enter(p);
  size_t before = p->t->n;
  if (s) print_stmt(p, s, indent);
  if (p->t->n == before) {
    text_indent(p->t, indent);
    text_puts(p->t, "T.evaluate(0)\n");
  }
  print_scope_leave(p, mark);
}

/* What stands in a block after its axes. The allocations' names must be known to the regions above
 * them only in the root, which has none. */
static void print_block_inside(Printer *p, const SBlock *b, int indent) {
  Text *t = p->t;
  bool old = earlier(p);
  if (b->annotations && b->annotations->n) {
    text_indent(t, indent);
    text_puts(t, old ? "T.block_attr(" : "T.sblock_attr(");
    print_attr(p, b->annotations);
    text_puts(t, ")\n");
  }
  for (uint32_t i = 0; i < b->nallocs; i++)
    print_alloc(p, old ? "alloc_buffer" : "sblock_alloc_buffer", b->allocs[i], NULL, indent);
  for (uint32_t i = 0; i < b->nmatches; i++) {
    const MatchRegion *m = &b->matches[i];
    define_buffer(p, m->target);
    text_indent(t, indent);
    text_printf(t, "%s = T.match_buffer(", print_buffer(p, m->target));
    print_region(p, &m->source);
    text_puts(t, ", ");
    print_buffer_args(p, m->target, false, NULL);
    text_puts(t, ")\n");
  }
  if (b->init) {
    text_indent(t, indent);
    text_puts(t, "with T.init():\n");
    print_body(p, b->init, indent + 4);
  }
}

static void print_block(Printer *p, const SBlock *b, int indent) {
  Text *t = p->t;
  SBlock derived = *b; /* what was not written is what the body does */
  if (p->ctx && !b->written && (!b->has_reads || !b->has_writes))
    sblock_derive_regions(p->ctx, p->arena, &derived);
  b = &derived;
  uint32_t mark = print_scope_enter(p);
  text_indent(t, indent);
  text_puts(t, earlier(p) ? "with T.block(" : "with T.sblock(");
  text_put_quoted(t, b->name ? b->name : "", b->name ? strlen(b->name) : 0);
  text_puts(t, "):\n");
  int in = indent + 4;
  print_axes(p, b, in);
  if (b->predicate && !expr_is_int(b->predicate, 1)) {
    text_indent(t, in);
    text_puts(t, "T.where(");
    print_expr(p, b->predicate);
    text_puts(t, ")\n");
  }
  if (b->has_reads) print_regions(p, "reads", b->reads, b->nreads, in);
  if (b->has_writes) print_regions(p, "writes", b->writes, b->nwrites, in);
  print_block_inside(p, b, in);
  print_body(p, b->body, in);
  print_scope_leave(p, mark);
}

/* ---- loops ---- */

static bool is_plain_loop(const Stmt *s) {
  return s->kind == STMT_FOR && s->loop.kind == FOR_SERIAL && !s->loop.step &&
         !(s->loop.annotations && s->loop.annotations->n) && expr_is_int(s->loop.min, 0);
}

typedef struct {
  const Stmt *const *loops;
  uint32_t n;
} Nest;

static bool not_nest_var(const Expr *e, void *ctx) {
  const Nest *n = ctx;
  for (uint32_t i = 0; e->kind == EXPR_VAR && i < n->n; i++)
    if (n->loops[i]->loop.var == e->var) return false;
  return true;
}

static void print_grid(Printer *p, const Stmt *const *loops, uint32_t n, int indent) {
  Text *t = p->t;
  text_indent(t, indent);
  text_puts(t, "for ");
  for (uint32_t i = 0; i < n; i++)
    text_printf(t, "%s%s", i ? ", " : "",
                print_define(p, loops[i]->loop.var, loops[i]->loop.var->name));
  text_puts(t, n > 1 ? " in T.grid(" : " in range(");
  for (uint32_t i = 0; i < n; i++) {
    if (i) text_puts(t, ", ");
    print_expr(p, loops[i]->loop.extent);
  }
  text_puts(t, "):\n");
}

static void print_loop_head(Printer *p, const Stmt *s, int indent) {
  Text *t = p->t;
  bool annotated = s->loop.annotations && s->loop.annotations->n;
  if (s->loop.launch) {
    bool made = map_hasp(&p->names, s->loop.var); /* by T.env_thread */
    text_indent(t, indent);
    text_puts(t, "with T.launch_thread(");
    if (made)
      text_puts(t, print_name(p, s->loop.var, s->loop.var->name));
    else
      text_put_quoted(t, s->loop.thread, strlen(s->loop.thread));
    text_puts(t, ", ");
    print_expr(p, s->loop.extent);
    text_putc(t, ')');
    if (!made) text_printf(t, " as %s", print_define(p, s->loop.var, s->loop.var->name));
    text_puts(t, ":\n");
    return;
  }
  text_indent(t, indent);
  text_printf(t, "for %s in ", print_define(p, s->loop.var, s->loop.var->name));
  switch (s->loop.kind) {
  case FOR_SERIAL: text_puts(t, annotated ? "T.serial(" : "range("); break;
  case FOR_PARALLEL: text_puts(t, "T.parallel("); break;
  case FOR_VECTORIZED: text_puts(t, "T.vectorized("); break;
  case FOR_UNROLL: text_puts(t, "T.unroll("); break;
  case FOR_THREAD: text_puts(t, "T.thread_binding("); break;
  }
  Range r = {s->loop.min, s->loop.extent};
  if (expr_is_int(r.min, 0) && !s->loop.step) {
    print_expr(p, r.extent);
  } else {
    print_expr(p, r.min);
    text_puts(t, ", ");
    print_range_end(p, r);
  }
  if (s->loop.step) {
    text_puts(t, annotated || s->loop.kind != FOR_SERIAL ? ", step=" : ", ");
    print_expr(p, s->loop.step);
  }
  if (s->loop.kind == FOR_THREAD) {
    text_puts(t, ", thread=");
    text_put_quoted(t, s->loop.thread, strlen(s->loop.thread));
  }
  if (annotated) {
    text_puts(t, ", annotations=");
    print_attr(p, s->loop.annotations);
  }
  text_puts(t, "):\n");
}

static void print_loop(Printer *p, const Stmt *s, int indent) {
  enum { MAX_GRID = 64 };
  const Stmt *loops[MAX_GRID];
  Nest nest = {loops, 0};
  uint32_t mark = print_scope_enter(p);
  const Stmt *body = s;
  while (body && nest.n < MAX_GRID && is_plain_loop(body) &&
         (!nest.n || expr_walk(body->loop.extent, not_nest_var, &nest))) {
    loops[nest.n++] = body;
    body = body->loop.body;
  }
  if (nest.n) {
    print_grid(p, loops, nest.n, indent);
  } else {
    print_loop_head(p, s, indent);
    loops[nest.n++] = s;
    body = s->loop.body;
  }
  for (uint32_t i = 0; i < nest.n; i++)
    map_setp(&p->loops, loops[i]->loop.var, (void *)(uintptr_t)loops[i]);
  print_body(p, body, indent + 4);
  for (uint32_t i = 0; i < nest.n; i++) map_setp(&p->loops, loops[i]->loop.var, NULL);
  print_scope_leave(p, mark);
}

/* ---- statements ---- */

static void print_store(Printer *p, const Stmt *s, int indent) {
  Text *t = p->t;
  const Buffer *b = s->store.buf;
  const Expr **roots = ARENA_ARRAY(p->arena, const Expr *, b->ndim + 2);
  if (b->ndim) memcpy(roots, s->store.idx, b->ndim * sizeof *roots);
  roots[b->ndim] = s->store.value;
  roots[b->ndim + 1] = s->store.pred;
  uint32_t mark = print_share(p, roots, b->ndim + 2, indent);
  text_indent(t, indent);
  text_puts(t, print_buffer(p, b));
  if (print_is_scalar(p, b)) {
    text_puts(t, " = ");
  } else {
    text_puts(t, s->store.pred ? ".vstore([" : "[");
    if (!s->store.pred || b->ndim) print_indices(p, s->store.idx, b->ndim);
    text_puts(t, s->store.pred ? "], " : "] = ");
  }
  print_expr(p, s->store.value);
  if (s->store.pred) {
    text_puts(t, ", predicate=");
    print_expr(p, s->store.pred);
    text_putc(t, ')');
  }
  text_putc(t, '\n');
  print_unshare(p, mark);
}

static void print_var_type(Printer *p, const Var *v) {
  Text *t = p->t;
  p->uses_T = true;
  bool pointer = v->dtype.code == DTYPE_HANDLE;
  text_printf(t, "T.%s",
              pointer && p->ctx ? pointer_name(p->ctx, v->ptr_elem, v->ptr_scope)
                                : dtype_name(v->dtype));
}

static void print_let(Printer *p, const Stmt *s, int indent) {
  const Var *v = s->let.var;
  uint32_t mark = print_share(p, &s->let.value, 1, indent);
  text_indent(p->t, indent);
  Text *t = p->t;
  const char *value = expr_text(p, s->let.value); /* read before the name exists */
  text_printf(t, "%s: ", print_define(p, v, v->name));
  if (earlier(p) || s->let.variable) {
    print_var_type(p, v);
  } else if (v->dtype.code == DTYPE_HANDLE && !v->ptr_scope) {
    text_puts(t, "T.let"); /* the type is the value's */
  } else {
    text_puts(t, "T.let[");
    print_var_type(p, v);
    text_putc(t, ']');
  }
  text_printf(t, " = %s\n", value);
  print_unshare(p, mark);
}

/* x: T.int32 = value, or without the value. */
static void print_scalar(Printer *p, const Buffer *b, const Expr *value, int indent) {
  uint32_t mark = print_share(p, &value, 1, indent);
  text_indent(p->t, indent);
  const char *text = value ? expr_text(p, value) : NULL;
  define_buffer(p, b);
  p->uses_T = true;
  text_printf(p->t, "%s: T.%s", print_buffer(p, b), dtype_name(b->dtype));
  if (text) text_printf(p->t, " = %s", text);
  text_putc(p->t, '\n');
  print_unshare(p, mark);
}

typedef struct {
  Printer *p;
  int indent;
} LetCtx;

static bool declare_let(const Expr *e, void *ctx) {
  LetCtx *l = ctx;
  if (e->kind != EXPR_LET || map_hasp(&l->p->names, e->arg[0]->var)) return true;
  const Var *v = e->arg[0]->var;
  text_indent(l->p->t, l->indent);
  text_printf(l->p->t, "%s = T.%s()\n", print_define(l->p, v, v->name), dtype_name(v->dtype));
  return true;
}

static void declare_lets_of(const Expr *e, void *ctx) {
  if (e->n) (void)expr_walk(e, declare_let, ctx);
}

/* x = T.int32() for each variable that a T.Let in statement s binds: TVM wants it before. */
static void declare_lets(Printer *p, const Stmt *s, int indent) {
  LetCtx l = {p, indent};
  stmt_exprs(s, declare_lets_of, &l);
}

static bool is_other_load(const Expr *e, void *buf) {
  return e->kind != EXPR_LOAD || e->buf != buf;
}

/* The value that `next` gives the variable declared just before it, or NULL. */
static const Expr *first_value(const Buffer *b, const Stmt *next) {
  if (next->kind != STMT_STORE || next->store.buf != b || next->store.pred) return NULL;
  return expr_walk(next->store.value, is_other_load, (void *)(uintptr_t)b) ? next->store.value
                                                                           : NULL;
}

static void print_seq(Printer *p, const Stmt *s, int indent) {
  for (uint32_t i = 0; i < s->seq.n; i++) {
    const Stmt *x = s->seq.at[i];
    if (x->kind != STMT_ALLOC || !print_is_scalar(p, x->alloc.buf)) {
      print_stmt(p, x, indent);
      continue;
    }
    const Buffer *b = x->alloc.buf;
    const Expr *value = i + 1 < s->seq.n ? first_value(b, s->seq.at[i + 1]) : NULL;
    if (value) declare_lets(p, s->seq.at[i + 1], indent);
    print_scalar(p, b, value, indent);
    i += value != NULL;
  }
}

/* Belongs to nothing: node 0. */
static bool is_loose_attr(const Stmt *s) {
  if (s->kind != STMT_ATTR) return false;
  const Attr *n = s->attr.node;
  return !n || n->kind == ATTR_NONE || (n->kind == ATTR_INT && n->i == 0);
}

static void print_attr_stmt(Printer *p, const Stmt *s, int indent) {
  Text *t = p->t;
  const Attr *node = s->attr.node;
  text_indent(t, indent);
  if (node && node->kind == ATTR_CALL && strcmp(node->s, "T.hint") == 0) {
    text_puts(t, "with ");
    print_attr(p, node);
    text_puts(t, ":\n");
    print_body(p, s->attr.body, indent + 4);
    return;
  }
  text_puts(t, "with T.attr(");
  if (is_loose_attr(s)) {
    text_putc(t, '{');
    for (;;) {
      text_put_quoted(t, s->attr.key, strlen(s->attr.key));
      text_puts(t, ": ");
      print_expr(p, s->attr.value);
      const Stmt *next = s->attr.body;
      if (!next || !is_loose_attr(next)) break;
      s = next;
      text_puts(t, ", ");
    }
    text_putc(t, '}');
  } else {
    print_attr(p, s->attr.node);
    text_puts(t, ", ");
    text_put_quoted(t, s->attr.key, strlen(s->attr.key));
    text_puts(t, ", ");
    print_expr(p, s->attr.value);
  }
  text_puts(t, "):\n");
  print_body(p, s->attr.body, indent + 4);
}

static void print_device(Printer *p, const Stmt *s, int indent) {
  Text *t = p->t;
  text_indent(t, indent);
  for (uint32_t i = 0; i < s->device.nvars; i++)
    text_printf(t, "%s%s", i ? ", " : "",
                print_define(p, s->device.vars[i], s->device.vars[i]->name));
  text_printf(t, "%sT.%s(", s->device.nvars ? " = " : "", s->device.name);
  print_attr_args(p, s->device.args, s->device.options);
  text_puts(t, ")\n");
}

static void print_assert(Printer *p, const Stmt *s, int indent) {
  Text *t = p->t;
  text_indent(t, indent);
  text_puts(t, "assert ");
  print_expr(p, s->assert_.cond);
  text_puts(t, ", ");
  const char *msg = s->assert_.message ? s->assert_.message : "";
  if (earlier(p)) {
    text_put_quoted(t, msg, strlen(msg));
  } else {
    const char *kind = s->assert_.kind ? s->assert_.kind : "RuntimeError";
    text_putc(t, '(');
    text_put_quoted(t, kind, strlen(kind));
    text_puts(t, ", [");
    uint32_t n = s->assert_.parts ? s->assert_.nparts : 1;
    for (uint32_t i = 0; i < n; i++) {
      const char *part = s->assert_.parts ? s->assert_.parts[i] : msg;
      if (i) text_puts(t, ", ");
      text_put_quoted(t, part, strlen(part));
    }
    text_puts(t, "])");
  }
  text_putc(t, '\n');
}

static void print_eval(Printer *p, const Expr *e, int indent) {
  bool bare = e->kind == EXPR_CALL || e->kind == EXPR_CALL_FUNC;
  uint32_t mark = print_share(p, &e, 1, indent);
  text_indent(p->t, indent);
  p->uses_T = true;
  if (!bare) text_puts(p->t, "T.evaluate(");
  print_expr(p, e);
  text_puts(p->t, bare ? "\n" : ")\n");
  print_unshare(p, mark);
}

void print_stmt(Printer *p, const Stmt *s, int indent) {
  Text *t = p->t;
  bool root = s->kind == STMT_BLOCK && !s->block->niters; /* its place may be its function's */
  if (s->kind != STMT_SEQ && !root) print_mark(p, s->span);
  if (p->arena) declare_lets(p, s, indent);
  switch (s->kind) {
  case STMT_SEQ: print_seq(p, s, indent); return;
  case STMT_FOR: print_loop(p, s, indent); return;
  case STMT_BLOCK: print_block(p, s->block, indent); return;
  case STMT_STORE: print_store(p, s, indent); return;
  case STMT_LET: print_let(p, s, indent); return;
  case STMT_IF: {
    uint32_t mark = print_share(p, &s->if_.cond, 1, indent);
    text_indent(t, indent);
    text_puts(t, "if ");
    print_expr(p, s->if_.cond);
    text_puts(t, ":\n");
    print_unshare(p, mark);
    print_body(p, s->if_.then_, indent + 4);
    if (!s->if_.else_) return;
    text_indent(t, indent);
    text_puts(t, "else:\n");
    print_body(p, s->if_.else_, indent + 4);
    return;
  }
  case STMT_WHILE:
    text_indent(t, indent);
    text_puts(t, "while ");
    print_expr(p, s->while_.cond);
    text_puts(t, ":\n");
    print_body(p, s->while_.body, indent + 4);
    return;
  case STMT_BREAK:
  case STMT_CONTINUE:
    text_indent(t, indent);
    text_puts(t, s->kind == STMT_BREAK ? "break\n" : "continue\n");
    return;
  case STMT_ATTR: print_attr_stmt(p, s, indent); return;
  case STMT_DEVICE: print_device(p, s, indent); return;
  case STMT_ASSERT: print_assert(p, s, indent); return;
  case STMT_EVAL: print_eval(p, s->eval, indent); return;
  case STMT_ALLOC:
    if (print_is_scalar(p, s->alloc.buf))
      print_scalar(p, s->alloc.buf, NULL, indent);
    else
      print_alloc_stmt(p, s, indent);
    return;
  case STMT_DECL: print_decl(p, s, indent); return;
  case STMT_RETURN:
    text_indent(t, indent);
    text_puts(t, "return");
    if (s->ret) {
      text_putc(t, ' ');
      print_expr(p, s->ret);
    }
    text_putc(t, '\n');
    return;
  }
  bug("statement kind %d", (int)s->kind);
}

/* ---- functions ---- */

static bool has_const_shape(const Buffer *b) {
  for (uint32_t i = 0; i < b->ndim; i++)
    if (b->shape[i]->kind != EXPR_INT) return false;
  return !b->strides && !b->elem_offset;
}

/* Names of the parameters, then of the implicit dims. */
static void name_params(Printer *p, const PrimFunc *f) {
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    if (!b) {
      print_define(p, f->params[i], f->params[i]->name);
      continue;
    }
    define_buffer(p, b);
    if (f->params[i] && !map_hasp(&p->data_names, f->params[i]))
      map_setp(&p->data_names, f->params[i], (void *)(uintptr_t)b);
  }
}

static void name_dim(Printer *p, const Var *v) {
  if (map_hasp(&p->names, v)) return;
  if (!earlier(p) && dtype_eq(v->dtype, DT_I64))
    print_define_typevar(p, v);
  else
    print_define(p, v, v->name);
}

static void name_dims(Printer *p, const PrimFunc *f, VarVec *vars) {
  for (uint32_t i = 0; i < f->ndims; i++) name_dim(p, f->dims[i]);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    if (!b) continue;
    for (uint32_t k = 0; k < b->ndim; k++) {
      expr_vars(p->arena, b->shape[k], vars);
      bool comes = b->strides && b->strides[k]->kind == EXPR_VAR && b->strides[k]->var->of_buffer;
      if (b->strides && !comes) expr_vars(p->arena, b->strides[k], vars);
    }
    if (b->elem_offset) expr_vars(p->arena, b->elem_offset, vars);
  }
  for (uint32_t i = 0; i < vars->n; i++) name_dim(p, vars->at[i]);
}

static bool is_param(const PrimFunc *f, const Var *v) {
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->params[i] == v) return true;
  return false;
}

static void print_param(Printer *p, const PrimFunc *f, uint32_t i) {
  Text *t = p->t;
  const Buffer *b = f->param_bufs[i];
  if (!b) {
    text_printf(t, "%s: ", print_name(p, f->params[i], f->params[i]->name));
    print_var_type(p, f->params[i]);
  } else if (earlier(p) && !has_const_shape(b)) {
    /* A handle of a name of its own; the buffer is matched in the body. */
    const char *handle =
        print_define(p, &f->param_bufs[i], arena_printf(p->arena, "var_%s", b->name));
    text_printf(t, "%s: T.handle", handle);
  } else {
    text_printf(t, "%s: T.Buffer(", print_buffer(p, b));
    print_buffer_args(p, b, true, NULL);
    text_putc(t, ')');
  }
}

/* Earlier dialect: `n = T.int64()` and `A = T.match_buffer(var_A, (n, 4), "float32")`. */
static void print_matches(Printer *p, const PrimFunc *f, const VarVec *vars, int indent) {
  Text *t = p->t;
  Map scalars;
  map_init(&scalars, p->arena);
  for (uint32_t i = 0; i < f->nparams; i++)
    if (!f->param_bufs[i]) map_setp(&scalars, f->params[i], f->params[i]);
  for (uint32_t i = 0; i < vars->n; i++) {
    const Var *v = vars->at[i];
    if (map_hasp(&scalars, v)) continue;
    text_indent(t, indent);
    text_printf(t, "%s = T.%s()\n", print_name(p, v, v->name), dtype_name(v->dtype));
  }
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    if (!b || has_const_shape(b)) continue;
    text_indent(t, indent);
    text_printf(t, "%s = T.match_buffer(%s, ", print_buffer(p, b),
                print_name(p, &f->param_bufs[i], b->name));
    print_buffer_args(p, b, true, NULL);
    text_puts(t, ")\n");
  }
}

static void print_head(Printer *p, const PrimFunc *f, int indent) {
  Text *t = p->t;
  print_mark(p, f->span);
  text_indent(t, indent);
  text_puts(t, "@T.prim_func");
  const char *sep = "(";
  if (f->is_private) text_printf(t, "%sprivate=True", sep), sep = ", ";
  if (f->s_tir && !earlier(p)) text_printf(t, "%ss_tir=True", sep), sep = ", ";
  if (f->persistent) text_printf(t, "%spersistent=True", sep), sep = ", ";
  if (!f->check_well_formed) text_printf(t, "%scheck_well_formed=False", sep), sep = ", ";
  text_puts(t, *sep == ',' ? ")\n" : "\n");
  print_mark(p, f->span);
  text_indent(t, indent);
  text_printf(t, "def %s(", f->name);
}

static bool not_block(const Stmt *s, void *ctx) {
  if (s->kind == STMT_BLOCK) *(bool *)ctx = true;
  return s->kind != STMT_BLOCK;
}

/* Does what the root holds imply it? */
static bool is_implied(const SBlock *b) {
  bool implied = b->nallocs > 0;
  if (b->body && b->body->kind == STMT_BLOCK)
    implied |= b->body->block->niters > 0;
  else if (b->body)
    stmt_walk(b->body, not_block, &implied);
  return implied;
}

/* The root that the text need not name: it says nothing, and what it holds implies it, or it isn't
 * there. */
static const SBlock *implicit_root(const Stmt *body) {
  if (!body || body->kind != STMT_BLOCK) return NULL;
  const SBlock *b = body->block;
  if (b->niters || !b->name || strcmp(b->name, "root") != 0 || b->predicate || b->nmatches ||
      b->init || (b->annotations && b->annotations->n))
    return NULL;
  return !b->written || (is_implied(b) && !b->nreads && !b->nwrites) ? b : NULL;
}

void print_primfunc(Printer *p, const PrimFunc *f, int indent) {
  Text *t = p->t;
  bool graph = p->graph;
  p->graph = false;
  p->uses_T = true;
  p->ctx = f->module ? f->module->ctx : NULL;
  p->s_tir = f->s_tir;
  VarVec vars = {0};
  uint32_t mark = print_scope_enter(p);
  print_head(p, f, indent);
  name_params(p, f);
  name_dims(p, f, &vars);
  if (!earlier(p)) p->quote = QUOTE_COMPOSED;
  for (uint32_t i = 0; i < f->nparams; i++)
    if (!f->param_bufs[i]) map_setp(&p->late, f->params[i], f->params[i]);
  for (uint32_t i = 0; i < f->nparams; i++) {
    if (i) text_puts(t, ", ");
    print_param(p, f, i);
    if (!f->param_bufs[i]) map_setp(&p->late, f->params[i], NULL);
  }
  p->quote = QUOTE_NONE;
  text_putc(t, ')');
  if (dtype_known(f->ret) && !f->ret_inferred)
    text_printf(t, " -> T.%s", f->ret_pointer ? f->ret_pointer : dtype_name(f->ret));
  text_puts(t, ":\n");
  int in = indent + 4;
  for (uint32_t i = 0; i < vars.n && !earlier(p); i++) {
    if (dtype_eq(vars.at[i]->dtype, DT_I64) || is_param(f, vars.at[i])) continue;
    text_indent(t, in);
    text_printf(t, "%s = T.%s()\n", print_name(p, vars.at[i], vars.at[i]->name),
                dtype_name(vars.at[i]->dtype));
  }
  print_func_attrs(p, f->attrs, f->name, "T.func_attr", in);
  if (earlier(p)) print_matches(p, f, &vars, in);
  const Stmt *body = f->body;
  const SBlock *root = implicit_root(body);
  if (!root) {
    print_body(p, body, in);
  } else {
    if (is_implied(root)) {
      text_indent(t, in);
      text_printf(t, "# with T.%s(\"root\"):\n", earlier(p) ? "block" : "sblock");
    }
    print_block_inside(p, root, in);
    print_body(p, root->body, in);
  }
  print_scope_leave(p, mark);
  p->graph = graph;
}
