/* Views of buffers: A.view(...), A.local(...), A.permute(...), and the fields of a buffer that
 * stand in expressions, A.elem_offset, A.strides[0], A.shape[0].
 *
 * A view is a declared buffer over the memory of A that remembers how it was written. The shape of
 * A.local() is what one thread holds of a layout. Source: TVM's tirx language (buffer views).
 */
#include "frontend/script/loop.h"

/* ---- layouts ---- */

static bool is_thread_axis(const Tree *axis) {
  static const char *const names[] = {"bx", "by",     "bz",     "cbx",  "cby",       "cbz",
                                      "tx", "warpid", "laneid", "wgid", "tid_in_wg", "wid_in_wg"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (axis->kind == TREE_ATTR && strcmp(axis->name, names[i]) == 0) return true;
  return false;
}

/* `3`, `3 @ Axis.laneid`: false when it isn't known. On a thread axis nothing is stored. */
static bool read_stride(const Tree *t, int64_t *v, bool *thread) {
  *thread = false;
  if (t->kind == TREE_BINARY && t->op == TREE_MATMUL) {
    *thread = is_thread_axis(t->b);
    t = t->a;
  }
  return tree_const_int(t, v);
}

typedef struct {
  int64_t span, size; /* elements from the first to the last one stored; and how many */
} Storage;

/* T.S[(8, 4):(4, 1 @ Axis.laneid)] and T.R[...]; sums of them and of offsets. */
static bool read_iters(Sema *s, const Tree *t, Storage *out) {
  int64_t off = 0;
  bool thread;
  if (t->kind == TREE_BINARY && t->op == TREE_ADD)
    return read_iters(s, t->a, out) && read_iters(s, t->b, out);
  if (t->kind != TREE_SUBSCRIPT) {
    if (!read_stride(t, &off, &thread)) return false;
    if (!thread) out->span += off;
    return true;
  }
  const Tree *slice = t->b, *head = t->a;
  const char *kind = sema_member(s, head, 'T');
  if (!kind || slice->kind != TREE_SLICE || !slice->at[0] || !slice->at[1]) return false;
  Tree *const *extents = slice->at[0]->kind == TREE_TUPLE ? slice->at[0]->at : &slice->at[0];
  Tree *const *strides = slice->at[1]->kind == TREE_TUPLE ? slice->at[1]->at : &slice->at[1];
  uint32_t n = slice->at[0]->kind == TREE_TUPLE ? slice->at[0]->n : 1;
  if (n != (slice->at[1]->kind == TREE_TUPLE ? slice->at[1]->n : 1)) return false;
  for (uint32_t i = 0; i < n; i++) {
    int64_t extent = 0, stride = 0;
    if (!tree_const_int(extents[i], &extent) || !read_stride(strides[i], &stride, &thread))
      return false;
    if (thread) continue;
    out->span += (extent - 1) * stride;
    if (*kind == 'S') out->size *= extent;
  }
  return true;
}

/* What a thread stores of the buffer, from its layout or its shape. */
static bool read_storage(Sema *s, const Buffer *b, Storage *out) {
  *out = (Storage){1, 1};
  if (!b->layout) { /* row-major */
    for (uint32_t i = 0; i < b->ndim; i++) {
      if (b->shape[i]->kind != EXPR_INT) return false;
      out->size *= b->shape[i]->i;
    }
    out->span = out->size;
    return true;
  }
  const Tree *t = map_getp(s->layouts, b);
  if (t && t->kind == TREE_CALL && t->n >= 4) t = t->at[3]; /* T.ComposeLayout */
  return t && t->kind == TREE_CALL && t->n == 1 && read_iters(s, t->at[0], out);
}

/* ---- views ---- */

/* A buffer over the memory of `from` that has all its properties. */
static Buffer *derive(Sema *s, const char *name, const Buffer *from, DType d,
                      const Expr *const *shape, uint32_t n) {
  Buffer *b = buffer_create(s->ctx, name, d, shape, n, from->scope);
  if (n == from->ndim) b->strides = from->strides;
  b->elem_offset = from->offset_var ? from->offset_var->expr : from->elem_offset;
  b->align = from->align;
  b->offset_factor = from->offset_factor;
  b->extra = from->extra;
  b->data = from->data;
  return b;
}

/* A.view("float32"): the last dim and the offset count other elements. */
static Buffer *view_as(Sema *s, const Tree *call, const char *name, const Buffer *from) {
  Context *c = s->ctx;
  DType d = DT_UNKNOWN;
  if (!sema_dtype(s, call->at[0], &d)) return NULL;
  if (s->prim->s_tir && !from->layout) {
    sema_error(s, call, "'%s' has no layout; write T.decl_buffer(..., data=%s.data)", from->name,
               from->name);
    return NULL;
  }
  bool up = d.bits > from->dtype.bits;
  int64_t ratio = up ? d.bits / from->dtype.bits : from->dtype.bits / d.bits;
  if ((up ? d.bits % from->dtype.bits : from->dtype.bits % d.bits) || !from->ndim) {
    sema_error(s, call->at[0], "a buffer of %s cannot be seen as %s",
               arena_printf(s->arena, "%s", dtype_name(from->dtype)), dtype_name(d));
    return NULL;
  }
  const Expr **shape = ARENA_ARRAY(s->m->arena, const Expr *, from->ndim);
  memcpy(shape, from->shape, from->ndim * sizeof *shape);
  const Expr **last = &shape[from->ndim - 1];
  const Expr *r = expr_int(c, (*last)->dtype, ratio);
  *last = up ? expr_floordiv(c, *last, r) : expr_mul(c, *last, r);
  Buffer *b = derive(s, name, from, d, shape, from->ndim);
  if (b->elem_offset) {
    r = expr_int(c, b->elem_offset->dtype, ratio);
    b->elem_offset = up ? expr_floordiv(c, b->elem_offset, r) : expr_mul(c, b->elem_offset, r);
  }
  return b;
}

/* The positional arguments as a shape; one may be -1, which stands for the rest. */
static const Expr **view_shape(Sema *s, const Tree *call, uint32_t n, const Buffer *from) {
  Context *c = s->ctx;
  const Expr **shape = ARENA_ARRAY(s->m->arena, const Expr *, n + 1), **rest = NULL, *known = NULL;
  for (uint32_t i = 0; i < n; i++) {
    int64_t v = 0;
    if (tree_const_int(call->at[i], &v) && v == -1) {
      rest = &shape[i];
      continue;
    }
    if (!(shape[i] = sema_dim(s, call->at[i]))) return NULL;
    const Expr *x = shape[i], *y = known;
    if (y && !sema_match_types(s, call, &x, &y)) return NULL;
    known = y ? expr_mul(c, y, x) : x;
  }
  if (!rest) return shape;
  const Expr *all = NULL;
  for (uint32_t i = 0; i < from->ndim; i++)
    all = all ? expr_mul(c, all, from->shape[i]) : from->shape[i];
  if (all && known && !sema_match_types(s, call, &all, &known)) return NULL;
  *rest = all && known ? expr_floordiv(c, all, known) : all ? all : expr_int(c, DT_I32, 1);
  return shape;
}

static Buffer *view_permuted(Sema *s, const Tree *call, const char *name, const Buffer *from) {
  const Expr **shape = ARENA_ARRAY(s->m->arena, const Expr *, from->ndim + 1);
  bool ok = call->n == from->ndim;
  for (uint32_t i = 0; i < call->n && ok; i++) {
    int64_t v = 0;
    ok = tree_const_int(call->at[i], &v) && v >= 0 && v < from->ndim;
    if (ok) shape[i] = from->shape[v];
  }
  if (ok) return derive(s, name, from, from->dtype, shape, from->ndim);
  sema_error(s, call, "expected one of the %u dims for each", from->ndim);
  return NULL;
}

/* A.local(): what one thread holds, flat; A.local(2, 4) in another shape. */
static Buffer *view_local(Sema *s, const Tree *call, uint32_t n, bool laid_out, const char *name,
                          const Buffer *from) {
  if (s->prim->s_tir && !from->layout && (!n || !laid_out)) {
    sema_error(s, call, "'%s' has no layout", from->name);
    return NULL;
  }
  if (n) {
    const Expr **shape = view_shape(s, call, n, from);
    return shape ? derive(s, name, from, from->dtype, shape, n) : NULL;
  }
  Storage st;
  if (!read_storage(s, from, &st)) {
    sema_error(s, call, "the layout of '%s' doesn't tell what a thread holds", from->name);
    return NULL;
  }
  const Expr *one = expr_int(s->ctx, DT_I32, laid_out ? st.size : st.span);
  return derive(s, name, from, from->dtype, &one, 1);
}

bool loop_is_view(Sema *s, const Tree *t) {
  static const char *const names[] = {"view", "local", "permute"};
  if (t->kind != TREE_CALL || t->a->kind != TREE_ATTR || t->a->b->kind != TREE_NAME) return false;
  const Binding *b = scope_find(&s->scope, t->a->b->name);
  if (!b || b->kind != BIND_BUFFER || b->hidden) return false;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(t->a->name, names[i]) == 0) return true;
  return false;
}

Stmt *loop_read_view(Sema *s, const Tree *target, const Tree *call) {
  Binding *source = sema_lookup(s, call->a->b);
  Buffer *from = source->buffer, *b = NULL;
  const char *method = call->a->name;
  const Tree *layout = NULL;
  uint32_t n = call->n;
  if (n && call->at[n - 1]->kind == TREE_KEYWORD && strcmp(call->at[n - 1]->name, "layout") == 0)
    layout = call->at[--n]->b;
  for (uint32_t i = 0; i < n; i++) {
    if (call->at[i]->kind != TREE_KEYWORD) continue;
    sema_error(s, call->at[i], "'%s' has no argument '%s'", method, call->at[i]->name);
    loop_bind_bad(s, target);
    return NULL;
  }
  bool as = strcmp(method, "view") == 0 && n == 1 && call->at[0]->kind == TREE_STR;
  bool local = strcmp(method, "local") == 0, permute = strcmp(method, "permute") == 0;
  if (as) {
    b = view_as(s, call, target->name, from);
  } else if (local) {
    b = view_local(s, call, n, layout && !tree_is_none(layout), target->name, from);
  } else if (permute) {
    b = view_permuted(s, call, target->name, from);
  } else {
    const Expr **shape = view_shape(s, call, n, from);
    if (shape) b = derive(s, target->name, from, from->dtype, shape, n);
  }
  if (!b) {
    loop_bind_bad(s, target);
    return NULL;
  }
  if (layout && !tree_is_none(layout)) {
    b->layout = loop_text(s, layout);
    map_setp(s->layouts, b, (void *)(uintptr_t)layout);
  }
  b->span = tree_span(s, target);
  scope_bind(&s->scope, target->name, BIND_BUFFER, b->span)->buffer = b;
  Stmt *decl = stmt_decl(s->m->arena, b->span, b);
  decl->alloc.data = expr_buf_data(s->ctx, from);
  decl->alloc.view = strpool_intern(s->ctx->strings, method, strlen(method));
  if (as || local || permute) {
    Text t = {0};
    for (uint32_t i = 0; i < call->n; i++)
      text_printf(&t, "%s%s", i ? ", " : "", loop_text(s, call->at[i]));
    decl->alloc.args = arena_strndup(s->m->arena, text_cstr(&t), t.n);
    text_free(&t);
  }
  return decl;
}

/* ---- fields ---- */

bool loop_read_field(Sema *s, const Tree *t, const Expr **out) {
  const Tree *index = t->kind == TREE_SUBSCRIPT ? t->b : NULL;
  if (index) t = t->a;
  if (t->kind != TREE_ATTR || t->b->kind != TREE_NAME) return false;
  Binding *binding = scope_find(&s->scope, t->b->name);
  if (!binding || binding->kind != BIND_BUFFER || binding->hidden) return false;
  Context *c = s->ctx;
  const Buffer *b = binding->buffer;
  bool bytes = strcmp(t->name, "byte_offset") == 0;
  bool strides = strcmp(t->name, "strides") == 0, shape = strcmp(t->name, "shape") == 0;
  *out = NULL;
  if (!index && strcmp(t->name, "data") == 0) {
    *out = expr_buf_data(c, binding->buffer);
    return true;
  }
  if (!index && (bytes || strcmp(t->name, "elem_offset") == 0)) {
    const Expr *e = b->offset_var    ? b->offset_var->expr
                    : b->elem_offset ? b->elem_offset
                                     : expr_int(c, b->ndim ? b->shape[0]->dtype : DT_I32, 0);
    if (bytes) {
      e = expr_mul(c, e, expr_int(c, e->dtype, b->dtype.bits));
      e = expr_floordiv(c, e, expr_int(c, e->dtype, 8));
    }
    *out = e;
    return true;
  }
  if (!index || (!strides && !shape)) return false;
  int64_t i = 0;
  if (!tree_const_int(index, &i) || i < 0 || i >= b->ndim)
    sema_error(s, index, "expected a dim of '%s', which has %u", b->name, b->ndim);
  else if (strides && !b->strides)
    sema_error(s, t, "buffer '%s' has no strides", b->name);
  else
    *out = shape ? b->shape[i] : b->strides[i];
  return true;
}
