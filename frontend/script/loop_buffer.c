/* Buffers of prim_funcs: parameters, allocations, views. */
#include "frontend/script/loop.h"

typedef struct {
  const Tree *shape, *dtype, *data, *strides, *elem_offset, *scope, *align, *factor;
  const Tree *layout_tree;
  const char *layout, *extra;
} BufferArgs;

/* On one line: without comments, and without the spaces after a line's end. */
const char *loop_text(Sema *s, const Tree *t) {
  const char *text = sources_file(s->ctx->sources, s->file)->text;
  const char *p = text + t->begin, *end = text + t->end;
  char *out = arena_strndup(s->m->arena, p, t->end - t->begin), *o = out, quote = 0;
  while (p < end) {
    bool line = *p == '\n' || *p == '\r' || (*p == '#' && !quote);
    if (!line) {
      if (quote && *p == '\\' && p + 1 < end)
        *o++ = *p++;
      else if (quote ? *p == quote : *p == '"' || *p == '\'')
        quote = quote ? 0 : *p;
      *o++ = *p++;
      continue;
    }
    while (p < end && *p != '\n') p++;
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    while (o > out && (o[-1] == ' ' || o[-1] == '\t' || o[-1] == '\\')) o--;
    if (o > out && o[-1] == ',') *o++ = ' ';
  }
  *o = 0;
  return out;
}

/* Slots by TVM's order of positional arguments. */
static bool collect(Sema *s, const Tree *call, uint32_t skip, BufferArgs *a) {
  static const char *const names[] = {"shape",         "dtype",           "data",   "strides",
                                      "elem_offset",   "scope",           "align",  "offset_factor",
                                      "buffer_type",   "axis_separators", "layout", "annotations",
                                      "logical_scope", "allocated_addr"};
  enum { COUNT = sizeof names / sizeof *names };
  const Tree *slot[COUNT] = {0}, *given[COUNT] = {0};
  Text extra = {0};
  bool ok = true;
  uint32_t position = 0;
  for (uint32_t i = skip; i < call->n; i++) {
    const Tree *x = call->at[i];
    if (x->kind == TREE_BAD) return false;
    uint32_t k = 0;
    if (x->kind == TREE_KEYWORD) {
      while (k < COUNT && strcmp(names[k], x->name) != 0) k++;
      if (k == COUNT) {
        const char *near = text_nearest(x->name, names, COUNT);
        if (near)
          sema_error(s, x, "a buffer has no property '%s'; did you mean '%s'?", x->name, near);
        else
          sema_error(s, x, "a buffer has no property '%s'", x->name);
        ok = false;
        continue;
      }
      x = x->b;
    } else {
      k = position++;
      if (k >= COUNT) k = COUNT - 1;
    }
    if (slot[k]) {
      sema_error(s, x, "'%s' is given twice", names[k]);
      ok = false;
    }
    slot[k] = tree_is_none(x) ? NULL : x;
    given[k] = x;
  }
  for (int k = 8; k < COUNT; k++) { /* what says no more than the default is dropped */
    int64_t v = 0;
    const Tree *x = slot[k];
    bool empty =
        x && (((x->kind == TREE_LIST || x->kind == TREE_STR || x->kind == TREE_DICT) && !x->n) ||
              (x->kind == TREE_STR && strcmp(x->str, "default") == 0) ||
              (tree_const_int(x, &v) && v == 0 && strcmp(names[k], "allocated_addr") != 0));
    if (strcmp(names[k], "layout") == 0) {
      if (given[k] && !empty) a->layout = loop_text(s, given[k]), a->layout_tree = given[k];
    } else if (x && !empty && strcmp(names[k], "annotations") != 0) { /* those are the caller's */
      text_printf(&extra, "%s%s=%s", extra.n ? ", " : "", names[k], loop_text(s, x));
    }
  }
  if (extra.n) a->extra = arena_strndup(s->m->arena, text_cstr(&extra), extra.n);
  text_free(&extra);
  a->shape = slot[0];
  a->dtype = slot[1];
  a->data = slot[2];
  a->strides = slot[3];
  a->elem_offset = slot[4];
  a->scope = slot[5];
  a->align = slot[6];
  a->factor = slot[7];
  return ok;
}

static bool define_var(const Expr *e, void *ctx) {
  Sema *s = ctx;
  Binding *b = e->kind == EXPR_VAR ? scope_find(&s->scope, e->var->name) : NULL;
  if (b && b->var == e->var) b->undefined = false;
  return true;
}

/* A dim list; in signatures and match_buffer a bare undefined variable gets defined by it, and so
 * do all those of a string. */
static const Expr *const *read_dims(Sema *s, const Tree *t, uint32_t *n, bool defines) {
  bool list = t->kind == TREE_TUPLE || t->kind == TREE_LIST;
  *n = list ? t->n : 1;
  const Expr **dims = ARENA_ARRAY(s->m->arena, const Expr *, *n ? *n : 1);
  bool outer = s->allow_undefined;
  s->allow_undefined |= defines;
  bool ok = true;
  for (uint32_t i = 0; i < *n; i++) {
    const Tree *x = list ? t->at[i] : t;
    dims[i] = sema_dim(s, x);
    if (!dims[i]) {
      ok = false;
      continue;
    }
    if (dims[i]->kind == EXPR_INT && dims[i]->i < 0) {
      sema_error(s, x, "a dim cannot be negative: %lld", (long long)dims[i]->i);
      ok = false;
    }
    if (defines && (dims[i]->kind == EXPR_VAR || x->kind == TREE_STR))
      expr_walk(dims[i], define_var, s);
  }
  s->allow_undefined = outer;
  return ok ? dims : NULL;
}

/* Strides; a name in quotes stands for what the buffer brings, of type `d`. */
static const Expr *const *read_strides(Sema *s, const Tree *t, DType d, bool defines, uint32_t *n) {
  bool list = t->kind == TREE_TUPLE || t->kind == TREE_LIST;
  *n = list ? t->n : 1;
  const Expr **out = ARENA_ARRAY(s->m->arena, const Expr *, *n ? *n : 1);
  for (uint32_t i = 0; i < *n; i++) {
    const Tree *x = list ? t->at[i] : t;
    uint32_t one = 0;
    if (x->kind == TREE_STR) {
      Var *v = var_create(s->ctx, strpool_intern(s->ctx->strings, x->str, x->n), d);
      v->of_buffer = true;
      v->span = tree_span(s, x);
      out[i] = v->expr;
      continue;
    }
    const Expr *const *e = read_dims(s, x, &one, defines);
    if (!e) return NULL;
    out[i] = e[0];
  }
  return out;
}

Buffer *loop_buffer(Sema *s, const char *name, const Tree *call, uint32_t skip, const Tree *place) {
  BufferArgs a = {0};
  if (!collect(s, call, skip, &a)) return NULL;
  if (!a.shape) {
    sema_error(s, call, "a buffer needs a shape");
    return NULL;
  }
  DType d = DT_F32;
  if (a.dtype && !sema_dtype(s, a.dtype, &d)) return NULL;
  if (!dtype_known(d)) {
    sema_error(s, a.dtype ? a.dtype : call, "a buffer cannot be void");
    return NULL;
  }
  bool defines = s->signature || s->allow_undefined;
  uint32_t n = 0, ns = 0;
  const Expr *const *shape = read_dims(s, a.shape, &n, defines);
  if (!shape) return NULL;
  const char *scope = "global";
  if (a.scope) {
    if (a.scope->kind != TREE_STR) {
      sema_error(s, a.scope, "the scope of a buffer is a string such as \"global\"");
      return NULL;
    }
    scope = strpool_intern(s->ctx->strings, a.scope->str, a.scope->n);
  }
  Buffer *b = buffer_create(s->ctx, name, d, shape, n, scope);
  b->span = tree_span(s, place);
  b->layout = a.layout;
  if (a.layout) map_setp(s->layouts, b, (void *)(uintptr_t)a.layout_tree);
  b->extra = a.extra;
  bool strided = a.strides && !((a.strides->kind == TREE_LIST || a.strides->kind == TREE_TUPLE) &&
                                !a.strides->n);
  if (strided) {
    DType d = n && skip ? shape[0]->dtype : DT_I32;
    b->strides = read_strides(s, a.strides, d, defines, &ns);
    if (!b->strides) return NULL;
    if (ns != n) {
      sema_error(s, a.strides, "%u strides for %u dims", ns, n);
      return NULL;
    }
  }
  if (a.elem_offset) {
    b->elem_offset = sema_expr(s, a.elem_offset);
    if (!b->elem_offset) return NULL;
    if (defines && b->elem_offset->kind == EXPR_VAR) define_var(b->elem_offset, s);
    DType index = n ? shape[0]->dtype : DT_I64;
    if (expr_is_int(b->elem_offset, 0) && dtype_eq(b->elem_offset->dtype, index))
      b->elem_offset = NULL;
  }
  if (a.factor) {
    int64_t v = 0;
    if (!tree_const_int(a.factor, &v) || v < 0 || v > INT32_MAX) {
      sema_error(s, a.factor, "the offset factor of a buffer is a number of elements");
      return NULL;
    }
    b->offset_factor = (int32_t)v;
    if (v && !a.elem_offset) {
      b->offset_var = var_create(s->ctx, "elem_offset", n ? shape[0]->dtype : DT_I32);
      b->offset_var->of_buffer = true;
      b->offset_var->span = b->span;
    }
  }
  if (a.align) {
    int64_t v = 0;
    if (!tree_const_int(a.align, &v) || v < -1 || v > 4096) {
      sema_error(s, a.align, "the alignment of a buffer is a number of bytes");
      return NULL;
    }
    b->align = v > 0 ? (int32_t)v : 0;
  }
  return b;
}

/* A[0:4, v] or A */
bool loop_read_region(Sema *s, const Tree *t, Region *out) {
  const Tree *name = t->kind == TREE_SUBSCRIPT ? t->a : t;
  if (name->kind != TREE_NAME) {
    if (t->kind != TREE_BAD)
      sema_error(s, t, "expected a region of a buffer, such as A[0:4, i], but got %s",
                 tree_describe(t));
    return false;
  }
  Binding *binding = sema_lookup(s, name);
  if (!binding) return false;
  if (binding->kind != BIND_BUFFER) {
    sema_error(s, name, "'%s' is not a buffer", name->name);
    return false;
  }
  Buffer *b = binding->buffer;
  out->buf = b;
  out->ranges = ARENA_ARRAY(s->m->arena, Range, b->ndim ? b->ndim : 1);
  if (t->kind == TREE_NAME) {
    for (uint32_t i = 0; i < b->ndim; i++)
      out->ranges[i] = (Range){expr_lit(s->ctx, b->shape[i]->dtype, 0), b->shape[i]};
    return true;
  }
  Tree *const *at = t->b->kind == TREE_TUPLE ? t->b->at : &t->b;
  uint32_t n = t->b->kind == TREE_TUPLE ? t->b->n : 1;
  if (b->ndim == 0 && n == 1 && at[0]->kind == TREE_INT && at[0]->ival == 0) n = 0;
  if (n != b->ndim) {
    sema_error(s, t, "buffer '%s' has %u dims but got %u indices", b->name, b->ndim, n);
    diag_note(s->ctx->diags, b->span, "'%s' is declared here", b->name);
    return false;
  }
  for (uint32_t i = 0; i < n; i++) {
    Range *r = &out->ranges[i];
    const Tree *x = at[i];
    if (x->kind != TREE_SLICE) {
      r->min = sema_expr(s, x);
      if (!r->min) return false;
      r->extent = expr_lit(s->ctx, dtype_scalar(r->min->dtype), 1);
      continue;
    }
    if (x->at[2]) {
      sema_error(s, x, "a region has no step");
      return false;
    }
    DType d = b->shape[i]->dtype;
    r->min = x->at[0] ? sema_expr(s, x->at[0]) : expr_lit(s->ctx, d, 0);
    const Expr *end = x->at[1] ? sema_expr(s, x->at[1]) : b->shape[i];
    if (!r->min || !end || !sema_match_types(s, x, &r->min, &end)) return false;
    r->extent = expr_is_int(r->min, 0) ? end : expr_simplify(s->ctx, expr_sub(s->ctx, end, r->min));
  }
  return true;
}

bool loop_is_buffer(const char *name) {
  static const char *const names[] = {"alloc_buffer", "sblock_alloc_buffer", "match_buffer",
                                      "decl_buffer",  "buffer_decl",         "Buffer",
                                      "alloc_local",  "alloc_shared"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

static void bind_buffer(Sema *s, const Tree *target, Buffer *b) {
  Span span = tree_span(s, target);
  if (!b) {
    scope_bind(&s->scope, target->name, BIND_BAD, span);
    return;
  }
  loop_name_is_free(s, target);
  b->span = span;
  scope_bind(&s->scope, target->name, BIND_BUFFER, span)->buffer = b;
}

/* T.match_buffer(handle, shape, dtype) names a parameter; of a region it is a window in a block. */
static void read_match(Sema *s, const Tree *target, const Tree *call) {
  LoopState *l = s->loop;
  if (call->n < 1) {
    sema_error(s, call, "T.match_buffer needs a handle or a region");
    bind_buffer(s, target, NULL);
    return;
  }
  const Tree *what = call->at[0];
  Binding *h = what->kind == TREE_NAME ? sema_lookup(s, what) : NULL;
  if (what->kind == TREE_NAME && !h) {
    bind_buffer(s, target, NULL);
    return;
  }
  bool handle = h && h->kind == BIND_VAR && h->var->dtype.code == DTYPE_HANDLE;
  bool outer = s->allow_undefined;
  if (handle) s->allow_undefined = true;
  Buffer *b = loop_buffer(s, target->name, call, 1, target);
  s->allow_undefined = outer;
  if (!b) {
    bind_buffer(s, target, NULL);
    return;
  }
  bind_buffer(s, target, b);
  if (handle) {
    for (uint32_t i = 0; i < l->f->nparams; i++) {
      if (l->f->params[i] != h->var) continue;
      if (l->f->param_bufs[i]) sema_error(s, what, "'%s' is matched twice", what->name);
      l->f->param_bufs[i] = b;
      primfunc_collect_dims(s->ctx, s->m->arena, l->f);
      return;
    }
    sema_error(s, what, "'%s' is not a parameter", what->name);
    return;
  }
  MatchRegion m = {.target = b};
  if (!loop_read_region(s, what, &m.source)) return;
  if (!l->block || l->block->is_root) {
    sema_error(s, call, "T.match_buffer of a region stands in a block");
    return;
  }
  vec_push(s->arena, &l->block->matches, m);
}

/* T.decl_buffer(..., data=pointer) */
static Stmt *declare_over(Sema *s, Span span, Buffer *b, const Tree *data) {
  const Expr *e = sema_expr(s, data);
  if (!e) return NULL;
  if (e->dtype.code != DTYPE_HANDLE) {
    sema_error(s, data, "the data of a buffer is A.data of another one, or a pointer");
    return NULL;
  }
  Stmt *decl = stmt_decl(s->m->arena, span, b);
  decl->alloc.data = e;
  Var *v = stmt_decl_data(decl);
  if (v) b->data = v;
  b->scope = b->data->ptr_scope && v ? b->data->ptr_scope : b->scope;
  return decl;
}

Stmt *loop_read_buffer(Sema *s, const Tree *target, const Tree *call, const char *name) {
  LoopState *l = s->loop;
  if (target->kind != TREE_NAME) {
    sema_error(s, target, "expected a name but got %s", tree_describe(target));
    return NULL;
  }
  if (strcmp(name, "match_buffer") == 0) {
    read_match(s, target, call);
    return NULL;
  }
  bool local = strcmp(name, "alloc_local") == 0, shared = strcmp(name, "alloc_shared") == 0;
  Buffer *b = loop_buffer(s, target->name, call, 0, target);
  bind_buffer(s, target, b);
  if (!b) return NULL;
  Span span = tree_span(s, target);
  bool in_block = strcmp(name, "sblock_alloc_buffer") == 0 ||
                  (strcmp(name, "alloc_buffer") == 0 && l->has_blocks && !l->depth);
  if (local || shared) { /* a statement, in a function with blocks too */
    b->scope = b->data->ptr_scope = local ? "local" : "shared";
    name = "alloc_buffer";
  }
  if (in_block) {
    if (!l->block) {
      sema_error(s, call, "T.%s needs a function with blocks (s_tir=True)", name);
      return NULL;
    }
    vec_push(s->arena, &l->block->allocs, b);
    return NULL;
  }
  if (strcmp(name, "alloc_buffer") == 0) {
    Stmt *alloc = stmt_alloc(s->m->arena, span, b);
    for (uint32_t i = 0; i < call->n; i++)
      if (call->at[i]->kind == TREE_KEYWORD && strcmp(call->at[i]->name, "annotations") == 0 &&
          !tree_is_none(call->at[i]->b))
        alloc->alloc.annotations = sema_attr_dict(s, call->at[i]->b);
    return alloc;
  }
  const Tree *data = call->n > 2 && call->at[2]->kind != TREE_KEYWORD ? call->at[2] : NULL;
  for (uint32_t i = 0; i < call->n; i++)
    if (call->at[i]->kind == TREE_KEYWORD && strcmp(call->at[i]->name, "data") == 0)
      data = call->at[i]->b;
  if (data && tree_is_none(data)) data = NULL;
  bool bare = strcmp(name, "Buffer") == 0 || strcmp(name, "buffer_decl") == 0;
  if (!data && bare && s->prim->check_well_formed) {
    sema_error(s, call,
               "buffer '%s' has no memory: allocate it, or declare it over data=", b->name);
    return NULL;
  }
  /* Tensor memory has addresses, not pointers: it is never allocated here. */
  if (!data)
    return strcmp(b->scope, "tmem") == 0 ? stmt_decl(s->m->arena, span, b)
                                         : stmt_alloc(s->m->arena, span, b);
  return declare_over(s, span, b, data);
}
