/* The graph level of the interpreter: functions, calls, tuples, branches, operators.
 *
 * Values are immutable but for tensors that a call in destination-passing form writes.  */
#include "ir/eval_graph.h"
#include "ir/ops/attrs.h"
#include <string.h>

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

bool interp_enter(Interp *in, Span s) {
  if (in->stack - (const char *)__builtin_frame_address(0) < 4 << 20) return true;
  interp_fail(in, s, "calls are nested too deeply");
  return false;
}

static Value *call_func(Interp *in, const Func *func, Frame *outer, Value *const *args, uint32_t n,
                        Span span) {
  if (n != func->nparams) {
    interp_fail(in, span, "'%s' takes %u arguments but got %u", func->name, func->nparams, n);
    return NULL;
  }
  if (!interp_enter(in, span)) return NULL;
  Frame *f = ARENA_NEW(in->arena, Frame); /* a closure may outlive the call */
  frame_init(f, in, func, outer);
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    frame_bind(f, func->params[i]->sinfo, args[i]);
    map_setp(&f->values, func->params[i], args[i]);
  }
  for (uint32_t i = 0; i < n && ok; i++)
    ok = frame_check(
        f, func->params[i]->sinfo, args[i], span,
        arena_printf(in->arena, "argument '%s' of '%s'", func->params[i]->name, func->name));
  Value *r = ok ? eval_seq(f, &func->body) : NULL;
  return in->failed ? NULL : r;
}

/* ---- calls ---- */

bool eval_args(Frame *f, const Node *n, uint32_t from, Value ***out, uint32_t *count) {
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
      (*out)[(*count)++] = value_prim(f->in->arena, DT_I64, args[i]->dims[k], 0);
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
  Value *v = value_new(f->in->arena, VALUE_FUNC);
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
  Value *ret = value_new(in->arena, VALUE_NONE);
  return prim_run(in, p, args, count, &f->dims, n->span, ret) ? ret : NULL;
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
    if (!frame_dims(f, s->dims, (uint32_t)s->ndim, n->span, dims)) return NULL;
    if (!(results[i] = frame_tensor(f, n->span, s->dtype, dims, s->ndim))) return NULL;
    all[total++] = results[i];
  }
  if (total + 1 == p->nparams && attr_get_bool(p->attrs, "relaxc.workspace", false)) {
    int64_t size;
    Frame dims;
    const Buffer *b = p->param_bufs[total];
    frame_init_prim(&dims, in, p, all, total);
    if (!b || b->ndim != 1 || !frame_dims(&dims, b->shape, 1, n->span, &size)) return NULL;
    if (!(all[total++] = frame_tensor(f, n->span, b->dtype, &size, 1))) return NULL;
  }
  if (!prim_run(in, p, all, total, &f->dims, n->span, NULL)) return NULL;
  return nout == 1 ? results[0] : value_tuple(in->arena, results, nout);
}

/* ---- nodes ---- */

static Value *eval_tuple(Frame *f, const Node *n) {
  Value **fields;
  uint32_t count;
  return eval_args(f, n, 0, &fields, &count) ? value_tuple(f->in->arena, fields, count) : NULL;
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

Value *eval_node(Frame *f, const Node *n) {
  Interp *in = f->in;
  Arena *a = in->arena;
  Value *v;
  if (in->failed) return NULL;
  const char *symbol = module_call_symbol(in->m, n);
  if (symbol) return eval_packed(f, n, symbol);
  switch (n->op) {
  case OP_CONST:
    v = value_new(a, VALUE_TENSOR);
    v->dtype = n->data->dtype;
    v->ndim = n->data->ndim;
    v->dims = arena_dup(a, n->data->dims, (size_t)n->data->ndim * sizeof *v->dims);
    v->data = (void *)(uintptr_t)n->data->bytes; /* never written: calls write fresh tensors */
    return v;
  case OP_SHAPE_EXPR:
    v = value_new(a, VALUE_SHAPE);
    v->ndim = (int32_t)n->shape.n;
    v->dims = ARENA_ARRAY(a, int64_t, n->shape.n);
    return frame_dims(f, n->shape.at, n->shape.n, n->span, v->dims) ? v : NULL;
  case OP_PRIM_VALUE:
    v = value_new(a, VALUE_PRIM);
    return scalar_eval(in, n->expr, &f->dims, n->span, v) ? v : NULL;
  case OP_STR:
    v = value_new(a, VALUE_STR);
    v->str = n->str;
    return v;
  case OP_GLOBAL:
    if (!module_func(in->m, n->str)) return value_new(a, VALUE_NONE);
    v = value_new(a, VALUE_FUNC);
    v->func = module_func(in->m, n->str);
    return v;
  case OP_DTYPE:
  case OP_EXTERN: return value_new(a, VALUE_NONE);
  case OP_TUPLE: return eval_tuple(f, n);
  case OP_TUPLE_GET: return eval_tuple_get(f, n);
  case OP_ALIAS: return eval_use(f, node_in(n, 0));
  case OP_MATCH_CAST:
    v = eval_use(f, node_in(n, 0));
    if (!v) return NULL;
    frame_bind(f, n->annot ? n->annot : n->sinfo, v);
    return frame_check(f, n->annot ? n->annot : n->sinfo, v, n->span, "the value of R.match_cast")
               ? v
               : NULL;
  case OP_IF: {
    bool on;
    const Value *c = eval_use(f, node_in(n, 0));
    if (!c || !frame_truth(f, n, c, &on)) return NULL;
    return eval_seq(f, on ? &n->if_.then_ : &n->if_.else_);
  }
  case OP_FUNC:
    v = value_new(a, VALUE_FUNC);
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
  case OP_print:
  case OP_assert_op: return eval_message(f, n);
  default: break;
  }
  if (node_op(n)->traits & OPT_MEMORY) return eval_memory(f, n);
  return eval_op(f, n);
}

Value *eval_use(Frame *f, const Node *n) {
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
  frame_init_prim(&f, in, p, args, n);
  for (uint32_t i = n; i < p->nparams; i++) {
    const Buffer *b = p->param_bufs[i];
    if (!b) {
      interp_fail(in, p->span, "parameter '%s' of '%s' has no value", p->params[i]->name, p->name);
      return NULL;
    }
    int64_t *dims = ARENA_ARRAY(in->arena, int64_t, b->ndim);
    if (!frame_dims(&f, b->shape, b->ndim, p->span, dims)) return NULL;
    if (!(all[i] = frame_tensor(&f, p->span, b->dtype, dims, (int32_t)b->ndim))) return NULL;
  }
  Value *ret = value_new(in->arena, VALUE_NONE);
  if (!prim_run(in, p, all, p->nparams, &f.dims, p->span, ret)) return NULL;
  uint32_t fresh = p->nparams - n;
  if (fresh == 0) return ret;
  return fresh == 1 ? all[n] : value_tuple(in->arena, all + n, fresh);
}

static Interp interp_begin(Module *m, Arena *a) {
  Interp in = {.c = m->ctx, .m = m, .arena = a, .stack = __builtin_frame_address(0)};
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
