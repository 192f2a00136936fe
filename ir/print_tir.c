/* The tensor level as text: loops, blocks, statements.
 *
 * Names are scoped as in the text: a loop variable's name is free again after the loop, so that
 * sibling loops may use one name. Nests of plain serial loops from 0 join into T.grid, neighbouring
 * block axes that are bound to whole loops into T.axis.remap.
 */
#include "ir/print_impl.h"

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

void print_body(Printer *p, const Stmt *s, int indent) {
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
void print_block_inside(Printer *p, const SBlock *b, int indent) {
  Text *t = p->t;
  bool old = print_is_earlier(p);
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
    print_define_buffer(p, m->target);
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
  text_puts(t, print_is_earlier(p) ? "with T.block(" : "with T.sblock(");
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

void print_var_type(Printer *p, const Var *v) {
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
  const char *value = print_expr_text(p, s->let.value); /* read before the name exists */
  text_printf(t, "%s: ", print_define(p, v, v->name));
  if (print_is_earlier(p) || s->let.variable) {
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
  const char *text = value ? print_expr_text(p, value) : NULL;
  print_define_buffer(p, b);
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
  if (print_is_earlier(p)) {
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
