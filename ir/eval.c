/* The graph level of the interpreter: functions, calls, tuples, branches, operators.
 *
 * Values are immutable but for tensors that a call in destination-passing form writes. An operator
 * runs by its tensor-level meaning: a node of the same operator over operands of the values' static
 * types is built in a scratch function, typed, lowered (ir/te.h) and interpreted, so that a shape
 * that inference could not know is known here.
 */
#include "ir/eval_impl.h"
#include "ir/ops/attrs.h"
#include "ir/te.h"
#include <string.h>

typedef struct Frame {
  Interp *in;
  const Func *func;
  struct Frame *outer; /* of the function around a local one */
  Map values;          /* Node * -> Value * */
  Map dims;            /* Var * -> Value *: symbolic variables */
} Frame;

static Value *eval_use(Frame *f, const Node *n);
static Value *eval_node(Frame *f, const Node *n);

/* ---- values ---- */

static Value *new_value(Arena *a, ValueKind kind) {
  Value *v = ARENA_NEW(a, Value);
  v->kind = kind;
  return v;
}

Value *value_tensor(Arena *a, DType d, const int64_t *dims, int32_t ndim, const void *bytes) {
  Value *v = new_value(a, VALUE_TENSOR);
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

static size_t tensor_size(const Value *v) {
  size_t n = dtype_bytes(v->dtype);
  for (int32_t i = 0; i < v->ndim; i++) n *= (size_t)v->dims[i];
  return n;
}

static Value *new_tensor(Frame *f, Span s, DType d, const int64_t *dims, int32_t ndim) {
  Value *v = value_tensor(f->in->arena, d, dims, ndim, NULL);
  if (!v) interp_fail(f->in, s, "a tensor with a negative dim or of more than 2^40 bytes");
  return v;
}

static Value *new_prim(Arena *a, DType d, int64_t i, double x) {
  Value *v = new_value(a, VALUE_PRIM);
  v->dtype = d;
  v->i = i;
  v->f = x;
  return v;
}

static Value *new_tuple(Arena *a, Value *const *fields, uint32_t n) {
  Value *v = new_value(a, VALUE_TUPLE);
  v->n = n;
  v->fields = arena_dup(a, fields, n * sizeof *fields);
  return v;
}

/* ---- struct info against values ---- */

static bool dim_of(Frame *f, const Expr *e, Span s, int64_t *out) {
  Value v;
  if (!scalar_eval(f->in, e, &f->dims, s, &v)) return false;
  *out = v.i;
  return true;
}

static bool dims_of(Frame *f, const Expr *const *e, uint32_t n, Span s, int64_t *out) {
  for (uint32_t i = 0; i < n; i++)
    if (!dim_of(f, e[i], s, &out[i])) return false;
  return true;
}

static void bind_dim(Frame *f, const Expr *e, int64_t v) {
  if (e->kind == EXPR_VAR && !map_getp(&f->dims, e->var))
    map_setp(&f->dims, e->var, new_prim(f->in->arena, e->dtype, v, 0));
}

/* Gives variables that stand alone in struct info the value's dims. */
static void bind_value(Frame *f, const SInfo *s, const Value *v) {
  switch (s->kind) {
  case SINFO_TENSOR:
  case SINFO_SHAPE:
    if (!s->dims || s->ndim != v->ndim || v->kind > VALUE_SHAPE) return;
    for (int32_t i = 0; i < s->ndim; i++) bind_dim(f, s->dims[i], v->dims[i]);
    return;
  case SINFO_PRIM:
    if (!s->value || s->value->kind != EXPR_VAR || v->kind != VALUE_PRIM) return;
    if (!map_getp(&f->dims, s->value->var))
      map_setp(&f->dims, s->value->var, new_prim(f->in->arena, v->dtype, v->i, v->f));
    return;
  case SINFO_TUPLE:
    if (v->kind == VALUE_TUPLE && v->n == s->n)
      for (uint32_t i = 0; i < s->n; i++) bind_value(f, s->fields[i], v->fields[i]);
    return;
  default: return;
  }
}

static const char *value_words(const Value *v) {
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

static bool check_value(Frame *f, const SInfo *s, const Value *v, Span span, const char *what) {
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
      if (!dim_of(f, s->dims[i], span, &want)) return false;
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
      if (!check_value(f, s->fields[i], v->fields[i], span,
                       arena_printf(f->in->arena, "field %u of %s", i, what)))
        return false;
  }
  return true;
}

/* ---- functions ---- */

static bool eval_block(Frame *f, const Seq *s) {
  for (const BindingBlock *b = s->first; b; b = b->next)
    for (const Node *n = b->first; n; n = n->next) {
      Value *v = eval_node(f, n);
      if (!v || f->in->failed) return false;
      map_setp(&f->values, n, v);
    }
  return true;
}

static Value *eval_seq(Frame *f, const Seq *s) {
  return eval_block(f, s) ? eval_use(f, seq_result(s)) : NULL;
}

static void frame_init(Frame *f, Interp *in, const Func *func, Frame *outer) {
  *f = (Frame){.in = in, .func = func, .outer = outer};
  map_init(&f->values, in->arena);
  map_init(&f->dims, in->arena);
  if (outer)
    for (uint32_t i = 0; i < outer->dims.n; i++)
      map_set(&f->dims, outer->dims.entries[i].key, outer->dims.entries[i].value);
}

static Value *call_func(Interp *in, const Func *func, Frame *outer, Value *const *args, uint32_t n,
                        Span span) {
  if (n != func->nparams) {
    interp_fail(in, span, "'%s' takes %u arguments but got %u", func->name, func->nparams, n);
    return NULL;
  }
  if (in->depth > 200) {
    interp_fail(in, span, "calls are nested too deeply");
    return NULL;
  }
  in->depth++;
  Frame *f = ARENA_NEW(in->arena, Frame); /* a closure may outlive the call */
  frame_init(f, in, func, outer);
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    bind_value(f, func->params[i]->sinfo, args[i]);
    map_setp(&f->values, func->params[i], args[i]);
  }
  for (uint32_t i = 0; i < n && ok; i++)
    ok = check_value(
        f, func->params[i]->sinfo, args[i], span,
        arena_printf(in->arena, "argument '%s' of '%s'", func->params[i]->name, func->name));
  Value *r = ok ? eval_seq(f, &func->body) : NULL;
  in->depth--;
  return in->failed ? NULL : r;
}

/* ---- calls ---- */

static bool eval_args(Frame *f, const Node *n, uint32_t from, Value ***out, uint32_t *count) {
  *count = n->nin - from;
  *out = ARENA_ARRAY(f->in->arena, Value *, *count + 1);
  for (uint32_t i = from; i < n->nin; i++)
    if (!((*out)[i - from] = eval_use(f, node_in(n, i)))) return false;
  return true;
}

/* Arguments of a prim_func: a shape passes its dims as scalars. */
static bool eval_prim_args(Frame *f, const Node *n, Value ***out, uint32_t *count) {
  Value **args;
  uint32_t nargs, total = 0;
  if (!eval_args(f, n, 1, &args, &nargs)) return false;
  for (uint32_t i = 0; i < nargs; i++)
    total += args[i]->kind == VALUE_SHAPE ? (uint32_t)args[i]->ndim : 1;
  *out = ARENA_ARRAY(f->in->arena, Value *, total + 1);
  *count = 0;
  for (uint32_t i = 0; i < nargs; i++) {
    if (args[i]->kind != VALUE_SHAPE) {
      (*out)[(*count)++] = args[i];
      continue;
    }
    for (int32_t k = 0; k < args[i]->ndim; k++)
      (*out)[(*count)++] = new_prim(f->in->arena, DT_I64, args[i]->dims[k], 0);
  }
  return true;
}

static const PrimFunc *callee_prim(Frame *f, const Node *n) {
  const Node *c = node_in(n, 0);
  const PrimFunc *p = c->op == OP_GLOBAL ? module_prim(f->in->m, c->str) : NULL;
  if (!p)
    interp_fail(f->in, n->span, "the module has no prim_func '%s'",
                c->op == OP_GLOBAL || c->op == OP_EXTERN ? c->str : "?");
  return p;
}

/* The arguments of a call of closure fn: what it binds comes last. */
static Value **with_bound(Interp *in, Value **args, uint32_t *count, const Value *fn) {
  if (!fn->n) return args;
  Value **all = ARENA_ARRAY(in->arena, Value *, *count + fn->n);
  if (*count) memcpy(all, args, *count * sizeof *all);
  memcpy(all + *count, fn->fields, fn->n * sizeof *all);
  *count += fn->n;
  return all;
}

static Value *eval_closure(Frame *f, const Node *n) {
  Value **bound;
  uint32_t count;
  const Value *fn = eval_use(f, node_in(n, 0));
  if (!fn || !eval_args(f, n, 1, &bound, &count)) return NULL;
  if (fn->kind != VALUE_FUNC) {
    interp_fail(f->in, n->span, "%s can't be called", value_words(fn));
    return NULL;
  }
  Value *v = new_value(f->in->arena, VALUE_FUNC);
  v->func = fn->func;
  v->frame = fn->frame;
  v->fields = with_bound(f->in, bound, &count, fn);
  v->n = count;
  return v;
}

static Value *eval_call(Frame *f, const Node *n) {
  Interp *in = f->in;
  const Node *c = node_in(n, 0);
  Value **args;
  uint32_t count;
  if (!eval_args(f, n, 1, &args, &count)) return NULL;
  if (c->op != OP_GLOBAL || n->op != OP_CALL) {
    const Value *fn = eval_use(f, c);
    if (!fn) return NULL;
    if (fn->kind != VALUE_FUNC) {
      interp_fail(in, n->span, "%s can't be called", value_words(fn));
      return NULL;
    }
    args = with_bound(in, args, &count, fn);
    return call_func(in, fn->func, fn->frame, args, count, n->span);
  }
  const Global *g = module_find(in->m, c->str);
  if (g && g->kind == GLOBAL_FUNC) return call_func(in, g->func, NULL, args, count, n->span);
  const PrimFunc *p = callee_prim(f, n);
  if (!p || !eval_prim_args(f, n, &args, &count)) return NULL;
  Value *ret = new_value(in->arena, VALUE_NONE);
  return prim_run(in, p, args, count, &f->dims, n->span, ret) ? ret : NULL;
}

/* A frame that knows the dims of p which its first n arguments fix. */
static void prim_frame(Frame *f, Interp *in, const PrimFunc *p, Value *const *args, uint32_t n) {
  frame_init(f, in, NULL, NULL);
  for (uint32_t i = 0; i < n && i < p->nparams; i++) {
    const Buffer *b = p->param_bufs[i];
    if (!b && args[i]->kind == VALUE_PRIM) map_setp(&f->dims, p->params[i], args[i]);
    for (uint32_t k = 0; b && args[i]->kind == VALUE_TENSOR && k < b->ndim; k++)
      if ((int32_t)k < args[i]->ndim) bind_dim(f, b->shape[k], args[i]->dims[k]);
  }
}

static Value *eval_call_tir(Frame *f, const Node *n) {
  Interp *in = f->in;
  const PrimFunc *p = callee_prim(f, n);
  const SInfoList *out = n->attrs;
  const IntList *inplace =
      n->op == OP_call_tir_inplace ? &node_attrs(n, call_tir_inplace)->inplace_indices : NULL;
  Value **args;
  uint32_t count;
  if (!p || !eval_prim_args(f, n, &args, &count)) return NULL;
  uint32_t nout = (uint32_t)out->n, total = count;
  Value **all = ARENA_ARRAY(in->arena, Value *, count + nout + 1);
  Value **results = ARENA_ARRAY(in->arena, Value *, nout + 1);
  if (count) memcpy(all, args, count * sizeof *all);
  for (uint32_t i = 0; i < nout; i++) {
    int64_t at = inplace && (int32_t)i < inplace->n ? inplace->at[i] : -1;
    if (at >= 0 && at < (int64_t)count && args[at]->kind == VALUE_TENSOR) {
      const Value *v = args[at]; /* a copy is overwritten: the argument itself stays */
      all[at] = results[i] = value_tensor(in->arena, v->dtype, v->dims, v->ndim, v->data);
      continue;
    }
    const SInfo *s = out->at[i];
    if (s->kind != SINFO_TENSOR || !s->dims) {
      interp_fail(in, n->span, "the shape of result %u is not known", i);
      return NULL;
    }
    int64_t *dims = ARENA_ARRAY(in->arena, int64_t, s->ndim);
    if (!dims_of(f, s->dims, (uint32_t)s->ndim, n->span, dims)) return NULL;
    if (!(results[i] = new_tensor(f, n->span, s->dtype, dims, s->ndim))) return NULL;
    all[total++] = results[i];
  }
  if (total + 1 == p->nparams && attr_get_bool(p->attrs, "relaxc.workspace", false)) {
    int64_t size;
    Frame dims;
    const Buffer *b = p->param_bufs[total];
    prim_frame(&dims, in, p, all, total);
    if (!b || b->ndim != 1 || !dim_of(&dims, b->shape[0], n->span, &size)) return NULL;
    if (!(all[total++] = new_tensor(f, n->span, b->dtype, &size, 1))) return NULL;
  }
  if (!prim_run(in, p, all, total, &f->dims, n->span, NULL)) return NULL;
  return nout == 1 ? results[0] : new_tuple(in->arena, results, nout);
}

/* ---- operators by their tensor-level meaning ---- */

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
  prim_frame(&dims, in, p, all, l->nargs);
  for (uint32_t i = 0; i < nout; i++) {
    const Buffer *b = p->param_bufs[l->nargs + i];
    int64_t *shape = ARENA_ARRAY(in->arena, int64_t, b->ndim);
    if (!dims_of(&dims, b->shape, b->ndim, n->span, shape)) return NULL;
    Value *v = new_tensor(f, n->span, b->dtype, shape, (int32_t)b->ndim);
    if (!v) return NULL;
    all[l->nargs + i] = v;
  }
  if (!prim_run(in, p, all, p->nparams, &dims.dims, n->span, NULL)) return NULL;
  bool tuple = n->sinfo && n->sinfo->kind == SINFO_TUPLE;
  return nout == 1 && !tuple ? all[l->nargs] : new_tuple(in->arena, all + l->nargs, nout);
}

static Value *eval_op(Frame *outer, const Node *n) {
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
  return r && (!n->sinfo || check_value(outer, n->sinfo, r, n->span, what)) ? r : NULL;
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
  Value *v = new_value(f->in->arena, VALUE_TENSOR);
  v->dtype = d;
  v->ndim = ndim;
  v->dims = arena_dup(f->in->arena, dims, (size_t)ndim * sizeof *dims);
  int64_t have = (int64_t)tensor_size(base);
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

static Value *eval_memory(Frame *f, const Node *n) {
  const Value *shape;
  switch (n->op) {
  case OP_builtin_alloc_tensor:
    if (!shape_value(f, n, 0, &shape)) return NULL;
    return new_tensor(f, n->span, node_in(n, 1)->dtype, shape->dims, shape->ndim);
  case OP_memory_alloc_storage:
    if (!shape_value(f, n, 0, &shape)) return NULL;
    if (shape->ndim != 1) {
      interp_fail(f->in, n->span, "the size of a storage must have one dim");
      return NULL;
    }
    return new_tensor(f, n->span, DT_U8, shape->dims, 1);
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
    if (x->kind != VALUE_TENSOR || to->kind != VALUE_TENSOR || tensor_size(x) != tensor_size(to)) {
      interp_fail(f->in, n->span, "R.relaxc.copy needs two tensors of the same size");
      return NULL;
    }
    if (tensor_size(x)) memcpy(to->data, x->data, tensor_size(x));
    return new_tuple(f->in->arena, NULL, 0);
  }
  case OP_tensor_to_shape: {
    const Value *x = eval_use(f, node_in(n, 0));
    if (!x) return NULL;
    if (x->kind != VALUE_TENSOR || x->ndim != 1 || !dtype_is_int(x->dtype)) {
      interp_fail(f->in, n->span, "R.tensor_to_shape needs a vector of integers");
      return NULL;
    }
    Value *v = new_value(f->in->arena, VALUE_SHAPE);
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
  default: return new_value(f->in->arena, VALUE_NONE); /* kill_* */
  }
}

/* ---- nodes ---- */

static bool truth(Frame *f, const Node *n, const Value *v, bool *out) {
  if (v->kind == VALUE_PRIM) {
    *out = dtype_is_float(v->dtype) ? v->f != 0 : v->i != 0;
    return true;
  }
  if (v->kind == VALUE_TENSOR && tensor_size(v) == dtype_bytes(v->dtype)) {
    *out = dtype_is_float(v->dtype) ? dtype_load_double(v->dtype, v->data) != 0
                                    : dtype_load_int(v->dtype, v->data) != 0;
    return true;
  }
  interp_fail(f->in, n->span, "the condition is not one value");
  return false;
}

static Value *eval_tuple(Frame *f, const Node *n) {
  Value **fields;
  uint32_t count;
  return eval_args(f, n, 0, &fields, &count) ? new_tuple(f->in->arena, fields, count) : NULL;
}

static Value *eval_tuple_get(Frame *f, const Node *n) {
  const Value *t = eval_use(f, node_in(n, 0));
  if (!t) return NULL;
  if (t->kind != VALUE_TUPLE || n->index < 0 || n->index >= (int64_t)t->n) {
    interp_fail(f->in, n->span, "%s has no field %lld", value_words(t), (long long)n->index);
    return NULL;
  }
  return t->fields[n->index];
}

/* R.print and R.assert_op, by the functions that compiled code calls. The header is not this
 * layer's to include (relaxrt.h has their contracts); a value in the form they take is DLPack's. */
extern int rx_print(const char *format, void *const *values, int32_t n);
extern int rx_assert_failed(const char *format, void *const *values, int32_t n);
extern const char *rx_error(void);

typedef struct {
  void *data;
  int32_t device[2], ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} DlpackTensor;

static void *dlpack_value(Arena *a, const Value *v) {
  DlpackTensor *t = ARENA_NEW(a, DlpackTensor);
  *t = (DlpackTensor){v->data, {1, 0}, v->ndim, v->dtype.code, v->dtype.bits, 1, v->dims, NULL, 0};
  if (v->kind == VALUE_SHAPE) {
    int64_t *n = ARENA_NEW(a, int64_t);
    *n = v->ndim;
    *t = (DlpackTensor){v->dims, {1, 0}, 1, DTYPE_INT, 64, 1, n, NULL, 0};
  } else if (v->kind == VALUE_PRIM) {
    t->data = arena_alloc(a, sizeof(int64_t));
    if (dtype_is_float(v->dtype))
      dtype_store_double(v->dtype, t->data, v->f);
    else
      dtype_store_int(v->dtype, t->data, v->i);
  }
  return t;
}

static Value *eval_message(Frame *f, const Node *n) {
  Interp *in = f->in;
  Value **values;
  uint32_t count, first = n->op == OP_assert_op;
  if (!eval_args(f, n, 0, &values, &count)) return NULL;
  const char *format = node_attrs(n, print)->format,
             *fault = op_format_fault(format, count - first);
  bool holds = false;
  void **at = ARENA_ARRAY(in->arena, void *, count + 1);
  for (uint32_t i = first; !fault && i < count; i++) {
    if (values[i]->kind != VALUE_TENSOR && values[i]->kind != VALUE_SHAPE &&
        values[i]->kind != VALUE_PRIM)
      fault = "only tensors, shapes and prim values can be printed";
    at[i - first] = dlpack_value(in->arena, values[i]);
  }
  if (fault) {
    interp_fail(in, n->span, "R.%s: %s", node_op(n)->name, fault);
    return NULL;
  }
  if (!first)
    rx_print(format, at, (int32_t)count);
  else if (!truth(f, n, values[0], &holds))
    return NULL;
  else if (!holds) {
    rx_assert_failed(format, at, (int32_t)(count - 1));
    interp_fail(in, n->span, "%s", rx_error());
    return NULL;
  }
  return new_tuple(in->arena, NULL, 0);
}

static Value *eval_node(Frame *f, const Node *n) {
  Interp *in = f->in;
  Arena *a = in->arena;
  Value *v;
  if (in->failed) return NULL;
  switch (n->op) {
  case OP_CONST:
    v = new_value(a, VALUE_TENSOR);
    v->dtype = n->data->dtype;
    v->ndim = n->data->ndim;
    v->dims = arena_dup(a, n->data->dims, (size_t)n->data->ndim * sizeof *v->dims);
    v->data = (void *)(uintptr_t)n->data->bytes; /* never written: calls write fresh tensors */
    return v;
  case OP_SHAPE_EXPR:
    v = new_value(a, VALUE_SHAPE);
    v->ndim = (int32_t)n->shape.n;
    v->dims = ARENA_ARRAY(a, int64_t, n->shape.n);
    return dims_of(f, n->shape.at, n->shape.n, n->span, v->dims) ? v : NULL;
  case OP_PRIM_VALUE:
    v = new_value(a, VALUE_PRIM);
    return scalar_eval(in, n->expr, &f->dims, n->span, v) ? v : NULL;
  case OP_STR:
    v = new_value(a, VALUE_STR);
    v->str = n->str;
    return v;
  case OP_GLOBAL:
    if (!module_func(in->m, n->str)) return new_value(a, VALUE_NONE);
    v = new_value(a, VALUE_FUNC);
    v->func = module_func(in->m, n->str);
    return v;
  case OP_DTYPE:
  case OP_EXTERN: return new_value(a, VALUE_NONE);
  case OP_TUPLE: return eval_tuple(f, n);
  case OP_TUPLE_GET: return eval_tuple_get(f, n);
  case OP_ALIAS: return eval_use(f, node_in(n, 0));
  case OP_MATCH_CAST:
    v = eval_use(f, node_in(n, 0));
    if (!v) return NULL;
    bind_value(f, n->annot ? n->annot : n->sinfo, v);
    return check_value(f, n->annot ? n->annot : n->sinfo, v, n->span, "the value of R.match_cast")
               ? v
               : NULL;
  case OP_IF: {
    bool on;
    const Value *c = eval_use(f, node_in(n, 0));
    if (!c || !truth(f, n, c, &on)) return NULL;
    return eval_seq(f, on ? &n->if_.then_ : &n->if_.else_);
  }
  case OP_FUNC:
    v = new_value(a, VALUE_FUNC);
    v->func = n->local;
    v->frame = f;
    return v;
  case OP_make_closure: return eval_closure(f, n);
  case OP_CALL:
  case OP_invoke_closure:
  case OP_invoke_pure_closure: return eval_call(f, n);
  case OP_call_tir:
  case OP_call_tir_inplace:
  case OP_call_tir_with_grad: return eval_call_tir(f, n);
  case OP_call_dps_packed:
  case OP_call_packed:
  case OP_call_pure_packed:
    interp_fail(in, n->span, "the interpreter can't call the packed function '%s'",
                node_in(n, 0)->op == OP_EXTERN ? node_in(n, 0)->str : "?");
    return NULL;
  case OP_print:
  case OP_assert_op: return eval_message(f, n);
  default: break;
  }
  if (node_op(n)->traits & OPT_MEMORY) return eval_memory(f, n);
  return eval_op(f, n);
}

static Value *eval_use(Frame *f, const Node *n) {
  for (const Frame *g = f; g; g = g->outer) {
    Value *v = map_getp(&g->values, n);
    if (v) return v;
  }
  if (n->block || n->op == OP_PARAM) {
    interp_fail(f->in, n->span, "'%s' has no value here", n->name ? n->name : "?");
    return NULL;
  }
  return eval_node(f, n);
}

/* ---- entry points ---- */

static Value *eval_prim_entry(Interp *in, const PrimFunc *p, Value *const *args, uint32_t n) {
  if (n > p->nparams) {
    interp_fail(in, p->span, "'%s' takes %u arguments but got %u", p->name, p->nparams, n);
    return NULL;
  }
  Value **all = ARENA_ARRAY(in->arena, Value *, p->nparams + 1);
  Frame f;
  if (n) memcpy(all, args, n * sizeof *all);
  prim_frame(&f, in, p, args, n);
  for (uint32_t i = n; i < p->nparams; i++) {
    const Buffer *b = p->param_bufs[i];
    if (!b) {
      interp_fail(in, p->span, "parameter '%s' of '%s' has no value", p->params[i]->name, p->name);
      return NULL;
    }
    int64_t *dims = ARENA_ARRAY(in->arena, int64_t, b->ndim);
    if (!dims_of(&f, b->shape, b->ndim, p->span, dims)) return NULL;
    if (!(all[i] = new_tensor(&f, p->span, b->dtype, dims, (int32_t)b->ndim))) return NULL;
  }
  Value *ret = new_value(in->arena, VALUE_NONE);
  if (!prim_run(in, p, all, p->nparams, &f.dims, p->span, ret)) return NULL;
  uint32_t fresh = p->nparams - n;
  if (fresh == 0) return ret;
  return fresh == 1 ? all[n] : new_tuple(in->arena, all + n, fresh);
}

static Interp interp_begin(Module *m, Arena *a) {
  Interp in = {.c = m->ctx, .m = m, .arena = a};
  map_init(&in.codes, a);
  return in;
}

Value *module_eval(Module *m, Arena *a, const char *entry, Value *const *args, uint32_t nargs) {
  Interp in = interp_begin(m, a);
  const Global *g = module_find(m, entry);
  if (!g || g->kind == GLOBAL_EXTERN) {
    interp_fail(&in, SPAN_NONE, "the module has no function '%s'", entry);
    return NULL;
  }
  Value *r = g->kind == GLOBAL_FUNC ? call_func(&in, g->func, NULL, args, nargs, g->func->name_span)
                                    : eval_prim_entry(&in, g->prim, args, nargs);
  return in.failed ? NULL : r;
}

bool primfunc_eval(Module *m, Arena *a, const PrimFunc *f, Value *const *params, uint32_t n) {
  Interp in = interp_begin(m, a);
  return prim_run(&in, f, params, n, NULL, f->span, NULL) && !in.failed;
}
