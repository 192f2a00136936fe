/* Prim_funcs as text: the signature, the buffers that stand for handles, the attributes, and a root
 * block where nothing else implies it.
 */
#include "ir/print_impl.h"

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
    print_define_buffer(p, b);
    if (f->params[i] && !map_hasp(&p->data_names, f->params[i]))
      map_setp(&p->data_names, f->params[i], (void *)(uintptr_t)b);
  }
}

static void name_dim(Printer *p, const Var *v) {
  if (map_hasp(&p->names, v)) return;
  if (!print_is_earlier(p) && dtype_eq(v->dtype, DT_I64))
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
  } else if (print_is_earlier(p) && !has_const_shape(b)) {
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
  if (f->s_tir && !print_is_earlier(p)) text_printf(t, "%ss_tir=True", sep), sep = ", ";
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
  if (!print_is_earlier(p)) p->quote = QUOTE_COMPOSED;
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
  for (uint32_t i = 0; i < vars.n && !print_is_earlier(p); i++) {
    if (dtype_eq(vars.at[i]->dtype, DT_I64) || is_param(f, vars.at[i])) continue;
    text_indent(t, in);
    text_printf(t, "%s = T.%s()\n", print_name(p, vars.at[i], vars.at[i]->name),
                dtype_name(vars.at[i]->dtype));
  }
  print_func_attrs(p, f->attrs, f->name, "T.func_attr", in);
  if (print_is_earlier(p)) print_matches(p, f, &vars, in);
  const Stmt *body = f->body;
  const SBlock *root = implicit_root(body);
  if (!root) {
    print_body(p, body, in);
  } else {
    if (is_implied(root)) {
      text_indent(t, in);
      text_printf(t, "# with T.%s(\"root\"):\n", print_is_earlier(p) ? "block" : "sblock");
    }
    print_block_inside(p, root, in);
    print_body(p, root->body, in);
  }
  print_scope_leave(p, mark);
  p->graph = graph;
}
