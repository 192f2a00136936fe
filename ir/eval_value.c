/* Values of the interpreter, and the frames that give symbolic dims their values: what struct info
 * says is bound to the value that comes, or compared with it.
 */
#include "ir/eval_graph.h"
#include <string.h>

/* ---- values ---- */

Value *value_new(Arena *a, ValueKind kind) {
  Value *v = ARENA_NEW(a, Value);
  v->kind = kind;
  return v;
}

Value *value_tensor(Arena *a, DType d, const int64_t *dims, int32_t ndim, const void *bytes) {
  Value *v = value_new(a, VALUE_TENSOR);
  v->dtype = d;
  v->ndim = ndim;
  v->dims = ARENA_ARRAY(a, int64_t, ndim);
  size_t size = dtype_bytes(d);
  for (int32_t i = 0; i < ndim; i++) {
    v->dims[i] = dims[i];
    if (dims[i] < 0 || (dims[i] && size > ((size_t)1 << 40) / (size_t)dims[i])) return NULL;
    size *= (size_t)dims[i];
  }
  v->data = arena_alloc(a, size);
  if (bytes && size) memcpy(v->data, bytes, size);
  return v;
}

size_t value_bytes(const Value *v) {
  size_t n = dtype_bytes(v->dtype);
  for (int32_t i = 0; i < v->ndim; i++) n *= (size_t)v->dims[i];
  return n;
}

Value *frame_tensor(Frame *f, Span s, DType d, const int64_t *dims, int32_t ndim) {
  Value *v = value_tensor(f->in->arena, d, dims, ndim, NULL);
  if (!v) interp_fail(f->in, s, "a tensor with a negative dim or of more than 2^40 bytes");
  return v;
}

Value *value_prim(Arena *a, DType d, int64_t i, double x) {
  Value *v = value_new(a, VALUE_PRIM);
  v->dtype = d;
  v->i = i;
  v->f = x;
  return v;
}

Value *value_tuple(Arena *a, Value *const *fields, uint32_t n) {
  Value *v = value_new(a, VALUE_TUPLE);
  v->n = n;
  v->fields = arena_dup(a, fields, n * sizeof *fields);
  return v;
}

/* ---- struct info against values ---- */

static bool frame_dim(Frame *f, const Expr *e, Span s, int64_t *out) {
  Value v;
  if (!scalar_eval(f->in, e, &f->dims, s, &v)) return false;
  *out = v.i;
  return true;
}

bool frame_dims(Frame *f, const Expr *const *e, uint32_t n, Span s, int64_t *out) {
  for (uint32_t i = 0; i < n; i++)
    if (!frame_dim(f, e[i], s, &out[i])) return false;
  return true;
}

static void frame_bind_dim(Frame *f, const Expr *e, int64_t v) {
  if (e->kind == EXPR_VAR && !map_getp(&f->dims, e->var))
    map_setp(&f->dims, e->var, value_prim(f->in->arena, e->dtype, v, 0));
}

void frame_bind(Frame *f, const SInfo *s, const Value *v) {
  switch (s->kind) {
  case SINFO_TENSOR:
  case SINFO_SHAPE:
    if (!s->dims || s->ndim != v->ndim || v->kind > VALUE_SHAPE) return;
    for (int32_t i = 0; i < s->ndim; i++) frame_bind_dim(f, s->dims[i], v->dims[i]);
    return;
  case SINFO_PRIM:
    if (!s->value || s->value->kind != EXPR_VAR || v->kind != VALUE_PRIM) return;
    if (!map_getp(&f->dims, s->value->var))
      map_setp(&f->dims, s->value->var, value_prim(f->in->arena, v->dtype, v->i, v->f));
    return;
  case SINFO_TUPLE:
    if (v->kind == VALUE_TUPLE && v->n == s->n)
      for (uint32_t i = 0; i < s->n; i++) frame_bind(f, s->fields[i], v->fields[i]);
    return;
  default: return;
  }
}

const char *value_words(const Value *v) {
  switch (v->kind) {
  case VALUE_TENSOR: return "a tensor";
  case VALUE_TUPLE: return "a tuple";
  case VALUE_SHAPE: return "a shape";
  case VALUE_PRIM: return "a prim value";
  case VALUE_STR: return "a string";
  case VALUE_FUNC: return "a function";
  case VALUE_NONE: return "nothing";
  }
  return "?";
}

bool frame_check(Frame *f, const SInfo *s, const Value *v, Span span, const char *what) {
  static const int kinds[] = {[SINFO_TENSOR] = VALUE_TENSOR, [SINFO_SHAPE] = VALUE_SHAPE,
                              [SINFO_PRIM] = VALUE_PRIM,     [SINFO_TUPLE] = VALUE_TUPLE,
                              [SINFO_CALLABLE] = VALUE_FUNC, [SINFO_STRING] = VALUE_STR};
  if (s->kind == SINFO_OBJECT || s->kind == SINFO_BAD) return true;
  if (v->kind == VALUE_NONE && sinfo_is_void(s)) return true;
  if ((int)v->kind != kinds[s->kind]) {
    Text t = {0};
    sinfo_print(&t, s);
    interp_fail(f->in, span, "%s is %s but %s is expected", what, value_words(v), text_cstr(&t));
    text_free(&t);
    return false;
  }
  if ((s->kind == SINFO_TENSOR || s->kind == SINFO_PRIM) && dtype_known(s->dtype) &&
      !dtype_eq(s->dtype, v->dtype)) {
    char *have = arena_printf(f->in->arena, "%s", dtype_name(v->dtype));
    interp_fail(f->in, span, "%s has dtype %s but %s is expected", what, have,
                dtype_name(s->dtype));
    return false;
  }
  if (s->kind == SINFO_TENSOR || s->kind == SINFO_SHAPE) {
    if (s->ndim >= 0 && s->ndim != v->ndim) {
      interp_fail(f->in, span, "%s has %d dims but %d are expected", what, v->ndim, s->ndim);
      return false;
    }
    for (int32_t i = 0; s->dims && i < s->ndim; i++) {
      int64_t want;
      if (!frame_dim(f, s->dims[i], span, &want)) return false;
      if (want == v->dims[i]) continue;
      Text t = {0};
      shape_dim_print(&t, s->dims[i]);
      bool plain = s->dims[i]->kind == EXPR_INT;
      interp_fail(f->in, span, "dim %d of %s is %lld but %lld is expected%s%s%s", i, what,
                  (long long)v->dims[i], (long long)want, plain ? "" : " (",
                  plain ? "" : text_cstr(&t), plain ? "" : ")");
      text_free(&t);
      return false;
    }
  }
  if (s->kind == SINFO_TUPLE) {
    if (s->n != v->n) {
      interp_fail(f->in, span, "%s has %u fields but %u are expected", what, v->n, s->n);
      return false;
    }
    for (uint32_t i = 0; i < s->n; i++)
      if (!frame_check(f, s->fields[i], v->fields[i], span,
                       arena_printf(f->in->arena, "field %u of %s", i, what)))
        return false;
  }
  return true;
}

/* ---- frames ---- */

void frame_init(Frame *f, Interp *in, const Func *func, Frame *outer) {
  *f = (Frame){.in = in, .func = func, .outer = outer};
  map_init(&f->values, in->arena);
  map_init(&f->dims, in->arena);
  if (outer)
    for (uint32_t i = 0; i < outer->dims.n; i++)
      map_set(&f->dims, outer->dims.entries[i].key, outer->dims.entries[i].value);
}

void frame_init_prim(Frame *f, Interp *in, const PrimFunc *p, Value *const *args, uint32_t n) {
  frame_init(f, in, NULL, NULL);
  for (uint32_t i = 0; i < n && i < p->nparams; i++) {
    const Buffer *b = p->param_bufs[i];
    if (!b && args[i]->kind == VALUE_PRIM) map_setp(&f->dims, p->params[i], args[i]);
    for (uint32_t k = 0; b && args[i]->kind == VALUE_TENSOR && k < b->ndim; k++)
      if ((int32_t)k < args[i]->ndim) frame_bind_dim(f, b->shape[k], args[i]->dims[k]);
  }
}

bool frame_truth(Frame *f, const Node *n, const Value *v, bool *out) {
  if (v->kind == VALUE_PRIM) {
    *out = dtype_is_float(v->dtype) ? v->f != 0 : v->i != 0;
    return true;
  }
  if (v->kind == VALUE_TENSOR && value_bytes(v) == dtype_bytes(v->dtype)) {
    *out = dtype_is_float(v->dtype) ? dtype_load_double(v->dtype, v->data) != 0
                                    : dtype_load_int(v->dtype, v->data) != 0;
    return true;
  }
  interp_fail(f->in, n->span, "the condition is not one value");
  return false;
}
