/* FoldConstant: what depends on constants only is evaluated.
 *
 *   before: y = R.permute_dims(const, axes=[1, 0])
 *   after:  y is the transposed constant
 *
 * Operators are lowered for it as LegalizeOps would, call_tirs are taken as they are. A copy with
 * affine indices (transpose, reshape, slice) moves the elements directly; anything else runs in the
 * reference interpreter, if that is little work. What would only blow a small constant up (a
 * broadcast) stays. An evaluation that fails (index out of range) is left to run time. Items of
 * tuples in sight are folded too.
 */
#include "ir/eval.h"
#include "ir/te.h"
#include "passes/graph/graph.h"
#include <string.h>

enum { MAX_STEPS = 1 << 20, MAX_ELEMS = 4 << 20, SMALL_BYTES = 16 << 10, MAX_RANK = 32 };

typedef struct {
  PassCtx *pc;
  Func *f;
} Fold;

/* ---- what may be folded ---- */

static bool static_tensor(Context *c, const SInfo *s, int64_t *dims, int64_t *elems) {
  if (s->kind != SINFO_TENSOR || !s->dims || !dtype_known(s->dtype) || s->ndim > MAX_RANK)
    return false;
  *elems = 1;
  for (int32_t i = 0; i < s->ndim; i++) {
    if (!expr_const_int(c, s->dims[i], &dims[i]) || dims[i] < 0) return false;
    if (__builtin_mul_overflow(*elems, dims[i], elems)) return false;
  }
  return true;
}

/* A leaf whose value is known now. */
static bool is_known(Context *c, const Node *n) {
  int64_t v;
  switch (n->op) {
  case OP_CONST: return true;
  case OP_PRIM_VALUE:
    return n->expr->kind == EXPR_INT || n->expr->kind == EXPR_FLOAT ||
           (dtype_is_int(n->expr->dtype) && expr_const_int(c, n->expr, &v));
  case OP_SHAPE_EXPR:
    for (uint32_t i = 0; i < n->shape.n; i++)
      if (!expr_const_int(c, n->shape.at[i], &v)) return false;
    return true;
  case OP_STR:
  case OP_DTYPE: return true;
  case OP_TUPLE:
    for (uint32_t i = 0; i < n->nin; i++)
      if (node_in(n, i)->block || !is_known(c, node_in(n, i))) return false;
    return true;
  default: return false;
  }
}

static size_t const_bytes(const Node *n, bool *any) {
  size_t bytes = 0;
  if (n->op == OP_CONST) {
    *any = true;
    return n->data->size;
  }
  for (uint32_t i = 0; n->op == OP_TUPLE && i < n->nin; i++)
    bytes += const_bytes(node_in(n, i), any);
  return bytes;
}

static bool is_foldable(Fold *x, const Node *n) {
  Context *c = x->pc->c;
  bool call = node_callee_prim(n) != NULL, any = false;
  size_t in = 0, out = 0;
  if (!call && (!node_is_operator(n) || !node_op(n)->lower || !op_is_pure(n))) return false;
  for (uint32_t i = call; i < n->nin; i++) {
    if (node_in(n, i)->block || !is_known(c, node_in(n, i))) return false;
    in += const_bytes(node_in(n, i), &any);
  }
  if (!any) return false;
  uint32_t nout = n->sinfo->kind == SINFO_TUPLE ? n->sinfo->n : 1;
  for (uint32_t i = 0; i < nout; i++) {
    int64_t dims[MAX_RANK], elems;
    const SInfo *s = n->sinfo->kind == SINFO_TUPLE ? n->sinfo->fields[i] : n->sinfo;
    if (!static_tensor(c, s, dims, &elems)) return false;
    if (elems > INT64_MAX / 16) return false;
    out += (size_t)elems * dtype_bytes(s->dtype);
  }
  return out <= SMALL_BYTES || out <= 4 * in;
}

/* ---- work ---- */

typedef struct {
  Context *c;
  const Map *vars;
  int64_t steps;
} Work;

static void count_steps(Work *w, const Stmt *s, int64_t times) {
  if (!s || w->steps > MAX_STEPS) return;
  switch (s->kind) {
  case STMT_SEQ:
    for (uint32_t i = 0; i < s->seq.n; i++) count_steps(w, s->seq.at[i], times);
    return;
  case STMT_FOR: {
    Subst sub = {.c = w->c, .vars = w->vars};
    int64_t n;
    if (!expr_const_int(w->c, expr_subst(&sub, s->loop.extent), &n) ||
        __builtin_mul_overflow(times, n > 1 ? n : 1, &times))
      times = MAX_STEPS + 1;
    count_steps(w, s->loop.body, times);
    return;
  }
  case STMT_BLOCK: count_steps(w, s->block->body, times); return;
  case STMT_WHILE: w->steps = MAX_STEPS + 1; return;
  case STMT_IF:
    count_steps(w, s->if_.then_, times);
    count_steps(w, s->if_.else_, times);
    return;
  default:
    if (times > MAX_STEPS)
      w->steps = MAX_STEPS + 1;
    else
      w->steps += times;
  }
}

/* ---- copies with affine indices ---- */

typedef struct {
  uint32_t n;
  int64_t extent[MAX_RANK], in[MAX_RANK], out[MAX_RANK];
  size_t size;
} Strides;

static void copy_axis(const Strides *s, uint32_t axis, const char *in, char *out) {
  if (axis == s->n) {
    memcpy(out, in, s->size);
    return;
  }
  int64_t width = (int64_t)s->size, n = s->extent[axis];
  if (axis + 1 == s->n && s->in[axis] == 1 && s->out[axis] == 1) {
    memcpy(out, in, (size_t)(n * width));
    return;
  }
  for (int64_t i = 0; i < n; i++)
    copy_axis(s, axis + 1, in + i * s->in[axis] * width, out + i * s->out[axis] * width);
}

/* The one block of f when it only copies; NULL otherwise. */
static const SBlock *copy_block(const PrimFunc *f) {
  const SBlock *root = primfunc_root(f);
  const Stmt *s = root && root->nallocs == 0 ? root->body : NULL;
  while (s && s->kind == STMT_FOR) s = s->loop.body;
  if (!s || s->kind != STMT_BLOCK || s->block->init || s->block->predicate) return NULL;
  const Stmt *body = s->block->body;
  if (body->kind != STMT_STORE || body->store.value->kind != EXPR_LOAD) return NULL;
  return body->store.pred || body->store.value->has_pred ? NULL : s->block;
}

static bool affine(Context *c, const Map *vars, const SBlock *b, const Expr *at, int64_t elems,
                   const int64_t *extent, int64_t *stride, int64_t *first) {
  Subst sub = {.c = c, .vars = vars};
  const Dim *rest = expr_dim(c, expr_subst(&sub, at)), *coef;
  int64_t last;
  for (uint32_t i = 0; i < b->niters; i++) {
    if (!dim_linear(c, rest, b->iters[i].var, &coef, &rest) || !dim_is_const(coef, &stride[i]))
      return false;
  }
  if (!dim_is_const(rest, first)) return false;
  int64_t low = *first;
  last = *first;
  for (uint32_t i = 0; i < b->niters; i++) {
    int64_t span;
    if (extent[i] == 0) continue;
    if (__builtin_mul_overflow(stride[i], extent[i] - 1, &span)) return false;
    if (span < 0 ? __builtin_add_overflow(low, span, &low)
                 : __builtin_add_overflow(last, span, &last))
      return false;
  }
  return low >= 0 && last < elems;
}

/* Copies if f is such a function. */
static bool try_copy(Context *c, const PrimFunc *f, const Map *vars, Value *const *params) {
  const SBlock *b = copy_block(f);
  Strides s = {0};
  Subst sub = {.c = c, .vars = vars};
  if (!b || b->niters > MAX_RANK) return false;
  const Stmt *store = b->body;
  const Value *in = NULL, *out = NULL;
  for (uint32_t i = 0; i < f->nparams; i++) {
    if (f->param_bufs[i] == store->store.value->buf) in = params[i];
    if (f->param_bufs[i] == store->store.buf) out = params[i];
  }
  if (!in || !out || !dtype_eq(in->dtype, out->dtype)) return false;
  int64_t nin = 1, nout = 1, from, to;
  bool empty = false;
  for (int32_t i = 0; i < in->ndim; i++) nin *= in->dims[i];
  for (int32_t i = 0; i < out->ndim; i++) nout *= out->dims[i];
  s.n = b->niters;
  s.size = dtype_bytes(in->dtype);
  for (uint32_t i = 0; i < s.n; i++) {
    if (b->iters[i].kind != ITER_SPATIAL || !expr_is_int(b->iters[i].dom.min, 0)) return false;
    if (!expr_const_int(c, expr_subst(&sub, b->iters[i].dom.extent), &s.extent[i])) return false;
    empty |= s.extent[i] <= 0;
  }
  if (empty) return true;
  const Expr *read = buffer_offset(c, store->store.value->buf, store->store.value->arg);
  const Expr *write = buffer_offset(c, store->store.buf, store->store.idx);
  if (!affine(c, vars, b, read, nin, s.extent, s.in, &from) ||
      !affine(c, vars, b, write, nout, s.extent, s.out, &to))
    return false;
  copy_axis(&s, 0, (const char *)in->data + from * (int64_t)s.size,
            (char *)out->data + to * (int64_t)s.size);
  return true;
}

/* ---- evaluation ---- */

static Value *arg_value(Fold *x, const Node *n, const SInfo *s) {
  Arena *a = x->pc->scratch;
  if (n->op == OP_CONST) {
    Value *v = ARENA_NEW(a, Value); /* shares the bytes: inputs are not written */
    v->kind = VALUE_TENSOR;
    v->dtype = n->data->dtype;
    v->ndim = n->data->ndim;
    v->dims = (int64_t *)(uintptr_t)n->data->dims;
    v->data = (void *)(uintptr_t)n->data->bytes;
    return v;
  }
  if (n->op != OP_PRIM_VALUE) return NULL;
  Value *v = ARENA_NEW(a, Value);
  v->kind = VALUE_PRIM;
  v->dtype = s->dtype;
  if (n->expr->kind == EXPR_FLOAT)
    v->f = n->expr->f;
  else if (!expr_const_int(x->pc->c, n->expr, &v->i))
    return NULL;
  return v;
}

/* Runs f on the arguments; outs get the results. */
static bool run(Fold *x, const PrimFunc *f, Node *const *args, uint32_t nargs, const SInfo *out,
                ConstData **outs) {
  Context *c = x->pc->c;
  Arena *a = x->pc->scratch;
  uint32_t nout = out->kind == SINFO_TUPLE ? out->n : 1;
  if (f->nparams != nargs + nout) return false;
  Value **params = ARENA_ARRAY(a, Value *, f->nparams);
  Map vars;
  map_init(&vars, a);
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    if (i < nargs) {
      if (!(params[i] = arg_value(x, args[i], args[i]->sinfo))) return false;
      if (!b && dtype_is_int(params[i]->dtype))
        map_setp(&vars, f->params[i],
                 (void *)(uintptr_t)expr_int(c, f->params[i]->dtype, params[i]->i));
    } else {
      int64_t dims[MAX_RANK], elems;
      const SInfo *s = out->kind == SINFO_TUPLE ? out->fields[i - nargs] : out;
      if (!static_tensor(c, s, dims, &elems)) return false;
      size_t size = (size_t)elems * dtype_bytes(s->dtype);
      void *bytes = arena_alloc(x->pc->m->arena, size);
      outs[i - nargs] = const_create(x->pc->m, s->dtype, dims, s->ndim, bytes);
      Value *v = ARENA_NEW(a, Value);
      *v = (Value){.kind = VALUE_TENSOR, .dtype = s->dtype, .ndim = s->ndim, .data = bytes};
      v->dims = (int64_t *)(uintptr_t)outs[i - nargs]->dims;
      params[i] = v;
    }
    if (!b != (params[i]->kind == VALUE_PRIM)) return false;
    for (uint32_t d = 0; b && d < b->ndim && (int32_t)d < params[i]->ndim; d++)
      if (b->shape[d]->kind == EXPR_VAR && !map_hasp(&vars, b->shape[d]->var))
        map_setp(&vars, b->shape[d]->var,
                 (void *)(uintptr_t)expr_int(c, b->shape[d]->dtype, params[i]->dims[d]));
  }
  if (try_copy(c, f, &vars, params)) return true;
  Work w = {.c = c, .vars = &vars};
  count_steps(&w, f->body, 1);
  return w.steps <= MAX_STEPS && primfunc_eval(x->pc->m, a, f, params, f->nparams);
}

/* Replaces n by its value. */
static bool fold_node(Fold *x, Node *n) {
  Lowered low = {0};
  Node **args;
  uint32_t nargs;
  PrimFunc *f = node_callee_prim(n);
  if (f) {
    nargs = n->nin - 1;
    args = ARENA_ARRAY(x->pc->scratch, Node *, nargs);
    for (uint32_t i = 0; i < nargs; i++) args[i] = node_in(n, i + 1);
  } else {
    if (!te_lower_node(x->pc->m, n, &low)) return false;
    if (low.composite) {
      graph_take_composite(n, low.composite);
      return true;
    }
    f = low.func;
    args = low.args;
    nargs = low.nargs;
  }
  uint32_t nout = n->sinfo->kind == SINFO_TUPLE ? n->sinfo->n : 1;
  ConstData **outs = ARENA_ARRAY(x->pc->scratch, ConstData *, nout);
  if (!run(x, f, args, nargs, n->sinfo, outs)) return false;
  Node **in = ARENA_ARRAY(x->pc->scratch, Node *, nout);
  for (uint32_t i = 0; i < nout; i++) in[i] = node_const(x->f, outs[i], n->span);
  Node *v = n->sinfo->kind == SINFO_TUPLE ? node_tuple(x->f, in, nout, n->span) : in[0];
  graph_replace(n, v);
  node_delete(n);
  return true;
}

static void fold_seq(Fold *x, Seq *s) {
  Context *c = x->pc->c;
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first, *next; n; n = next) {
      next = n->next;
      Node *before = n->prev;
      if (n->op == OP_TUPLE_GET && node_in(n, 0)->op == OP_TUPLE) {
        Node *field = node_in(node_in(n, 0), (uint32_t)n->index);
        graph_replace(n, field);
        node_delete(n);
        continue;
      }
      if (!is_foldable(x, n)) continue;
      /* What fails here is said at run time, if it ever runs. */
      Diags *told = c->diags;
      Text quiet = {0};
      c->diags = diags_create(x->pc->scratch, c->sources);
      diags_set_text(c->diags, &quiet);
      bool folded = fold_node(x, n);
      c->diags = told;
      text_free(&quiet);
      if (folded) next = before ? before->next : b->first;
    }
}

bool pass_fold_constant(PassCtx *pc) {
  uint32_t n = pc->m->globals.n;
  for (uint32_t i = 0; i < n; i++) {
    Global *g = pc->m->globals.at[i];
    if (g->removed || g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    Fold x = {.pc = pc, .f = g->func};
    SeqVec seqs = {0};
    func_seqs(pc->scratch, g->func, &seqs);
    for (uint32_t k = 0; k < seqs.n; k++) fold_seq(&x, seqs.at[k]);
    func_mark_outputs(g->func);
  }
  return true;
}
