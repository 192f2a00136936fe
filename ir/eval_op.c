/* Operators in the interpreter: by their tensor-level meaning, and the memory forms of late passes.
 *
 * A node of the same operator over operands of the values' static types is built in a scratch
 * function, typed, lowered (ir/te.h) and interpreted, so that a shape that inference could not know
 * is known here.
 */
#include "ir/eval_graph.h"
#include "ir/te.h"
#include <string.h>

typedef struct {
  Frame *f; /* of the scratch function */
  Func *func;
} Scratch;

static const SInfo *value_sinfo(Context *c, Arena *a, const Value *v) {
  switch (v->kind) {
  case VALUE_TENSOR: {
    const Expr **dims = ARENA_ARRAY(a, const Expr *, v->ndim);
    for (int32_t i = 0; i < v->ndim; i++) dims[i] = expr_i64(c, v->dims[i]);
    return sinfo_tensor(c, dims, (uint32_t)v->ndim, v->dtype);
  }
  case VALUE_TUPLE: {
    const SInfo **fields = ARENA_ARRAY(a, const SInfo *, v->n);
    for (uint32_t i = 0; i < v->n; i++) fields[i] = value_sinfo(c, a, v->fields[i]);
    return sinfo_tuple(c, fields, v->n);
  }
  case VALUE_STR: return sinfo_string(c);
  case VALUE_SHAPE:
  case VALUE_PRIM:
  case VALUE_FUNC:
  case VALUE_NONE: return sinfo_object(c);
  }
  return sinfo_object(c);
}

/* An operand that stands for a value: literal where the operator may look at it. */
static Node *stand_in(Scratch *s, const Node *orig, Value *v) {
  Context *c = s->f->in->c;
  Arena *a = s->f->in->arena;
  Span span = orig->span;
  switch (v->kind) {
  case VALUE_SHAPE: {
    const Expr **dims = ARENA_ARRAY(a, const Expr *, v->ndim);
    for (int32_t i = 0; i < v->ndim; i++) dims[i] = expr_i64(c, v->dims[i]);
    return node_shape(s->func, dims, (uint32_t)v->ndim, span);
  }
  case VALUE_PRIM:
    return node_prim(s->func,
                     dtype_is_float(v->dtype) ? expr_float(c, v->dtype, v->f)
                                              : expr_int(c, v->dtype, v->i),
                     span);
  case VALUE_STR: return node_str(s->func, v->str, span);
  case VALUE_TUPLE: {
    Node **in = ARENA_ARRAY(a, Node *, v->n);
    for (uint32_t i = 0; i < v->n; i++) in[i] = stand_in(s, orig, v->fields[i]);
    return node_tuple(s->func, in, v->n, span);
  }
  case VALUE_TENSOR:
    if (orig->op == OP_CONST) return node_const(s->func, orig->data, span);
    break;
  case VALUE_FUNC:
  case VALUE_NONE: break;
  }
  Node *p = func_add_param(s->func, orig->name ? orig->name : "x", value_sinfo(c, a, v), span);
  map_setp(&s->f->values, p, v);
  return p;
}

static Value *run_lowered(Frame *f, const Node *n, const Lowered *l) {
  Interp *in = f->in;
  const PrimFunc *p = l->func;
  uint32_t nout = p->nparams - l->nargs;
  Value **all = ARENA_ARRAY(in->arena, Value *, p->nparams + 1);
  for (uint32_t i = 0; i < l->nargs; i++)
    if (!(all[i] = eval_use(f, l->args[i]))) return NULL;
  Frame dims;
  frame_init_prim(&dims, in, p, all, l->nargs);
  for (uint32_t i = 0; i < nout; i++) {
    const Buffer *b = p->param_bufs[l->nargs + i];
    int64_t *shape = ARENA_ARRAY(in->arena, int64_t, b->ndim);
    if (!frame_dims(&dims, b->shape, b->ndim, n->span, shape)) return NULL;
    Value *v = frame_tensor(f, n->span, b->dtype, shape, (int32_t)b->ndim);
    if (!v) return NULL;
    all[l->nargs + i] = v;
  }
  if (!prim_run(in, p, all, p->nparams, &dims.dims, n->span, NULL)) return NULL;
  bool tuple = n->sinfo && n->sinfo->kind == SINFO_TUPLE;
  return nout == 1 && !tuple ? all[l->nargs] : value_tuple(in->arena, all + l->nargs, nout);
}

Value *eval_op(Frame *outer, const Node *n) {
  Interp *in = outer->in;
  Scratch s = {.f = ARENA_NEW(in->arena, Frame)};
  s.func = func_create(in->m, "eval", n->span);
  frame_init(s.f, in, s.func, outer);
  BindingBlock *b = block_append(s.func, &s.func->body, NULL, false, n->span);
  Node **ins = ARENA_ARRAY(in->arena, Node *, n->nin + 1);
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *d = node_in(n, i);
    if (!d->block && (d->op == OP_DTYPE || d->op == OP_GLOBAL || d->op == OP_EXTERN)) {
      ins[i] = node_create(s.func, d->op, NULL, 0, d->span);
      ins[i]->dtype = d->dtype;
      if (d->op != OP_DTYPE) ins[i]->str = d->str;
      ins[i]->sinfo = d->sinfo;
      continue;
    }
    Value *v = eval_use(outer, d);
    if (!v) return NULL;
    ins[i] = stand_in(&s, d, v);
  }
  Node *x = node_create(s.func, n->op, ins, n->nin, n->span);
  for (uint32_t i = 0; i < n->nin; i++) x->in[i].span = n->in[i].span;
  x->attrs = n->attrs;
  x->annot = n->annot;
  node_bind_last(b, x, n->name);
  Lowered l;
  if (!node_infer(in->m, NULL, x) || !te_lower_node(in->m, x, &l)) {
    in->failed = true;
    return NULL;
  }
  /* What the hook placed before the node. */
  for (const Node *k = b->first; k && k != x; k = k->next) {
    Value *v = eval_node(s.f, k);
    if (!v) return NULL;
    map_setp(&s.f->values, k, v);
  }
  Value *r = l.composite ? eval_use(s.f, l.composite) : run_lowered(s.f, x, &l);
  /* With the dims of this call the result may be other than was stated for all calls. */
  const char *what = arena_printf(in->arena, "the result of R.%s", node_op(n)->name);
  return r && (!n->sinfo || frame_check(outer, n->sinfo, r, n->span, what)) ? r : NULL;
}

/* ---- memory forms ---- */

static bool shape_value(Frame *f, const Node *n, uint32_t i, const Value **out) {
  const Value *v = eval_use(f, node_in(n, i));
  if (!v) return false;
  if (v->kind != VALUE_SHAPE) {
    interp_fail(f->in, n->span, "operand %u is %s, not a shape", i, value_words(v));
    return false;
  }
  *out = v;
  return true;
}

/* The same memory from byte `offset` on, as another tensor. */
static Value *view_of(Frame *f, const Node *n, const Value *base, int64_t offset, DType d,
                      const int64_t *dims, int32_t ndim) {
  Value *v = value_new(f->in->arena, VALUE_TENSOR);
  v->dtype = d;
  v->ndim = ndim;
  v->dims = arena_dup(f->in->arena, dims, (size_t)ndim * sizeof *dims);
  int64_t have = (int64_t)value_bytes(base);
  bool ok = offset >= 0 && offset <= have;
  int64_t size = (int64_t)dtype_bytes(d);
  for (int32_t i = 0; i < ndim && ok; i++) {
    ok = dims[i] >= 0 && (dims[i] == 0 || size <= (INT64_C(1) << 40) / dims[i]);
    size *= ok ? dims[i] : 1;
  }
  if (!ok || size > have - offset) {
    interp_fail(f->in, n->span, "a tensor at byte %lld doesn't fit its storage of %lld bytes",
                (long long)offset, (long long)have);
    return NULL;
  }
  v->data = (char *)base->data + offset;
  return v;
}

Value *eval_memory(Frame *f, const Node *n) {
  const Value *shape;
  switch (n->op) {
  case OP_builtin_alloc_tensor:
    if (!shape_value(f, n, 0, &shape)) return NULL;
    return frame_tensor(f, n->span, node_in(n, 1)->dtype, shape->dims, shape->ndim);
  case OP_memory_alloc_storage:
    if (!shape_value(f, n, 0, &shape)) return NULL;
    if (shape->ndim != 1) {
      interp_fail(f->in, n->span, "the size of a storage must have one dim");
      return NULL;
    }
    return frame_tensor(f, n->span, DT_U8, shape->dims, 1);
  case OP_memory_alloc_tensor: {
    const Value *base = eval_use(f, node_in(n, 0)), *off = eval_use(f, node_in(n, 1));
    if (!base || !off || !shape_value(f, n, 2, &shape)) return NULL;
    if (base->kind != VALUE_TENSOR || off->kind != VALUE_PRIM) {
      interp_fail(f->in, n->span, "expected a storage and an offset");
      return NULL;
    }
    return view_of(f, n, base, off->i, node_in(n, 3)->dtype, shape->dims, shape->ndim);
  }
  case OP_memory_view: {
    const Value *base = eval_use(f, node_in(n, 0));
    if (!base || base->kind != VALUE_TENSOR) return NULL;
    Value v = *base;
    int64_t off = 0;
    for (uint32_t i = 1; i < n->nin; i++) {
      const Node *d = node_in(n, i);
      if (d->op == OP_DTYPE) {
        v.dtype = d->dtype;
        continue;
      }
      const Value *x = eval_use(f, d);
      if (!x) return NULL;
      if (x->kind == VALUE_SHAPE) {
        v.ndim = x->ndim;
        v.dims = x->dims;
      } else if (x->kind == VALUE_PRIM) {
        off = x->i;
      }
    }
    return view_of(f, n, base, off, v.dtype, v.dims, v.ndim);
  }
  case OP_memory_ensure_zero_offset: return eval_use(f, node_in(n, 0));
  case OP_relaxc_copy: {
    const Value *x = eval_use(f, node_in(n, 0)), *to = eval_use(f, node_in(n, 1));
    if (!x || !to) return NULL;
    if (x->kind != VALUE_TENSOR || to->kind != VALUE_TENSOR || value_bytes(x) != value_bytes(to)) {
      interp_fail(f->in, n->span, "R.relaxc.copy needs two tensors of the same size");
      return NULL;
    }
    if (value_bytes(x)) memcpy(to->data, x->data, value_bytes(x));
    return value_tuple(f->in->arena, NULL, 0);
  }
  case OP_tensor_to_shape: {
    const Value *x = eval_use(f, node_in(n, 0));
    if (!x) return NULL;
    if (x->kind != VALUE_TENSOR || x->ndim != 1 || !dtype_is_int(x->dtype)) {
      interp_fail(f->in, n->span, "R.tensor_to_shape needs a vector of integers");
      return NULL;
    }
    Value *v = value_new(f->in->arena, VALUE_SHAPE);
    v->ndim = (int32_t)x->dims[0];
    v->dims = ARENA_ARRAY(f->in->arena, int64_t, v->ndim + 1);
    for (int32_t i = 0; i < v->ndim; i++) {
      v->dims[i] =
          dtype_load_int(x->dtype, (const char *)x->data + i * (int64_t)dtype_bytes(x->dtype));
      if (v->dims[i] >= 0) continue;
      interp_fail(f->in, n->span, "R.tensor_to_shape: dim %d is %lld", i, (long long)v->dims[i]);
      return NULL;
    }
    return v;
  }
  default: return value_new(f->in->arena, VALUE_NONE); /* kill_* */
  }
}
