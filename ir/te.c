/* Lowering of one operator to a schedulable prim_func.
 *
 * The driver makes a buffer for each tensor operand and gives the new function symbolic variables
 * of its own: a bare dim of an operand binds one implicitly, any other variable that an expression
 * needs becomes an int64 scalar parameter. The operator's hook then appends stages; each is a nest
 * of serial loops around one block with spatial and reduction axes, the form TVM's legalisation
 * has. Parameters: tensor operands, scalars, results. */
#include "ir/ops/util.h"

#include <math.h>
#include <string.h>

/* ---- names ---- */
static bool name_take(LowerCtx *lc, const char *s) {
  uint64_t h = hash_bytes(s, strlen(s), 0);
  if (map_has(&lc->names, h)) return false;
  map_set(&lc->names, h, lc);
  return true;
}

static const char *name_unique(LowerCtx *lc, const char *hint) {
  const char *s = hint;
  for (int i = 1; !name_take(lc, s); i++) s = arena_printf(lc->arena, "%s_%d", hint, i);
  return s;
}

/* ---- variables ---- */
static void bind_dim(LowerCtx *lc, const Expr *e) {
  if (e->kind != EXPR_VAR || map_hasp(&lc->vars, e->var)) return;
  Var *v = var_create(lc->c, name_unique(lc, e->var->name), e->dtype);
  v->is_dim = true;
  map_setp(&lc->vars, e->var, (void *)(uintptr_t)v->expr);
}

static Var *add_scalar(LowerCtx *lc, const char *name, DType d, Node *value) {
  Var *v = var_create(lc->c, name_unique(lc, name), d);
  vec_push(lc->arena, &lc->scalars, v);
  vec_push(lc->arena, &lc->scalar_nodes, value);
  return v;
}

const Expr *te_expr(LowerCtx *lc, const Expr *e) {
  VarVec used = {0};
  expr_vars(lc->arena, e, &used);
  for (uint32_t i = 0; i < used.n; i++) {
    Var *old = used.at[i];
    if (map_hasp(&lc->vars, old)) continue;
    Node *value = node_prim(lc->node->func, old->expr, lc->node->span);
    node_infer(lc->m, NULL, value);
    Var *v = add_scalar(lc, old->name, old->dtype, value);
    v->is_dim = old->is_dim;
    map_setp(&lc->vars, old, (void *)(uintptr_t)v->expr);
  }
  return expr_simplify(lc->c, expr_subst(&(Subst){.c = lc->c, .vars = &lc->vars}, e));
}

const Expr *te_prim(LowerCtx *lc, uint32_t i) {
  Node *def = node_in(lc->node, i);
  if (def->sinfo->value) return te_expr(lc, def->sinfo->value);
  for (uint32_t k = 0; k < lc->scalars.n; k++)
    if (lc->scalar_nodes.at[k] == def) return lc->scalars.at[k]->expr;
  return add_scalar(lc, def->name ? def->name : "s", def->sinfo->dtype, def)->expr;
}

/* ---- operands ---- */
Buffer *te_in(LowerCtx *lc, uint32_t i) {
  if (i >= lc->ins.n) bug("R.%s has no tensor operand %u", node_op(lc->node)->name, i);
  lc->in_used[i] = true;
  return lc->ins.at[i];
}

Buffer *te_arg(LowerCtx *lc, uint32_t i) {
  if (i >= lc->node->nin || lc->count_in[i] != 1)
    bug("operand %u of R.%s is no single tensor", i, node_op(lc->node)->name);
  return te_in(lc, lc->first_in[i]);
}

Buffer *const *te_args(LowerCtx *lc, uint32_t i, uint32_t *n) {
  *n = lc->count_in[i];
  for (uint32_t k = 0; k < *n; k++) lc->in_used[lc->first_in[i] + k] = true;
  return lc->ins.at + lc->first_in[i];
}

bool te_has_arg(const LowerCtx *lc, uint32_t i) {
  return i < lc->node->nin && lc->count_in[i] > 0;
}

bool te_error(LowerCtx *lc, const char *fmt, ...) {
  Text t = {0};
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  diag_error(lc->c->diags, lc->node->span, "R.%s: %s", node_op(lc->node)->name, text_cstr(&t));
  text_free(&t);
  return false;
}

static InferCtx words(LowerCtx *lc) {
  return (InferCtx){.c = lc->c, .m = lc->m, .arena = lc->arena};
}

static bool check_known(LowerCtx *lc, const SInfo *s, const char *what) {
  InferCtx ic = words(lc);
  if (!s->dims) {
    te_error(lc, "can't be compiled as the shape of %s is not known: it is %s", what,
             infer_type_text(&ic, s));
    diag_note(lc->c->diags, lc->node->span, "R.match_cast gives a value a shape");
    return false;
  }
  if (s->ndim > TE_MAX_RANK)
    return te_error(lc, "rank %d of %s is above %d", s->ndim, what, TE_MAX_RANK);
  if (!dtype_known(s->dtype))
    return te_error(lc, "can't be compiled as the dtype of %s is not known", what);
  return true;
}

static void add_input(LowerCtx *lc, Node *value, const SInfo *s, const char *name) {
  const Expr **dims = ARENA_ARRAY(lc->arena, const Expr *, s->ndim + 1);
  for (int32_t k = 0; k < s->ndim; k++) dims[k] = te_expr(lc, s->dims[k]);
  Buffer *b =
      buffer_create(lc->c, name_unique(lc, name), s->dtype, dims, (uint32_t)s->ndim, "global");
  b->span = lc->node->span;
  vec_push(lc->arena, &lc->ins, b);
  vec_push(lc->arena, &lc->in_nodes, value);
}

static Node *tuple_field(LowerCtx *lc, Node *tuple, uint32_t k) {
  if (tuple->op == OP_TUPLE) return node_in(tuple, k);
  Node *g = node_tuple_get(lc->node->func, tuple, k, lc->node->span);
  node_infer(lc->m, NULL, g);
  node_bind_before(lc->node, g, NULL);
  return g;
}

/* Two rounds: first every bare dim of every operand binds its variable, then buffers are made, so
 * that a composed dim before the bare one still refers to the implicit variable. */
static bool collect_inputs(LowerCtx *lc) {
  Node *n = lc->node;
  InferCtx ic = words(lc);
  lc->first_in = ARENA_ARRAY(lc->arena, uint32_t, n->nin + 1);
  lc->count_in = ARENA_ARRAY(lc->arena, uint32_t, n->nin + 1);
  for (int round = 0; round < 2; round++)
    for (uint32_t i = 0; i < n->nin; i++) {
      const SInfo *s = node_in(n, i)->sinfo;
      const char *name = infer_arg_name(&ic, n, i);
      bool tensors = s->kind == SINFO_TUPLE && s->n && s->fields[0]->kind == SINFO_TENSOR;
      uint32_t count = s->kind == SINFO_TENSOR ? 1 : tensors ? s->n : 0;
      if (round) {
        lc->first_in[i] = lc->ins.n;
        lc->count_in[i] = count;
      }
      for (uint32_t k = 0; k < count; k++) {
        const SInfo *t = tensors ? s->fields[k] : s;
        if (!round) {
          if (!check_known(lc, t, arena_printf(lc->arena, "operand '%s'", name))) return false;
          for (int32_t d = 0; d < t->ndim; d++) bind_dim(lc, t->dims[d]);
          continue;
        }
        Node *value = tensors ? tuple_field(lc, node_in(n, i), k) : node_in(n, i);
        add_input(lc, value, t, tensors ? arena_printf(lc->arena, "%s_%u", name, k) : name);
      }
    }
  lc->in_used = ARENA_ARRAY(lc->arena, bool, lc->ins.n + 1);
  return true;
}

/* A constant scalar that the hook took as a literal is no parameter. */
static bool is_literal(const LowerCtx *lc, uint32_t in) {
  return !lc->in_used[in] && te_literal(lc->c, lc->in_nodes.at[in]);
}

/* ---- results ---- */
const SInfo *te_result(LowerCtx *lc, uint32_t k) {
  const SInfo *s = lc->node->sinfo;
  return s->kind == SINFO_TUPLE ? s->fields[k] : s;
}

DType te_result_dtype(LowerCtx *lc, uint32_t k) {
  return te_result(lc, k)->dtype;
}

const Expr *const *te_result_shape(LowerCtx *lc, uint32_t k, uint32_t *ndim) {
  const SInfo *s = te_result(lc, k);
  const Expr **r = ARENA_ARRAY(lc->arena, const Expr *, s->ndim + 1);
  for (int32_t i = 0; i < s->ndim; i++) r[i] = te_expr(lc, s->dims[i]);
  *ndim = (uint32_t)s->ndim;
  return r;
}

static bool check_results(LowerCtx *lc) {
  const SInfo *s = lc->node->sinfo;
  uint32_t n = s->kind == SINFO_TUPLE ? s->n : 1;
  for (uint32_t k = 0; k < n; k++) {
    const SInfo *t = te_result(lc, k);
    if (t->kind == SINFO_PRIM) continue; /* such a hook gives a prim value in place of the node */
    if (t->kind != SINFO_TENSOR) return te_error(lc, "can't be compiled: its result is no tensor");
    if (!check_known(lc, t, n > 1 ? arena_printf(lc->arena, "result %u", k) : "the result"))
      return false;
  }
  return true;
}

/* ---- stages ---- */
static void begin(LowerCtx *lc, const char *name, const Expr *const *shape, uint32_t nspatial,
                  DType d, const Expr *const *reduce, uint32_t nreduce) {
  if (nspatial + nreduce > TE_MAX_AXES) bug("stage '%s' has %u axes", name, nspatial + nreduce);
  lc->stage_name = name;
  lc->stage_dtype = d;
  lc->nspatial = nspatial;
  lc->nreduce = nreduce;
  for (uint32_t i = 0; i < nspatial + nreduce; i++) {
    bool r = i >= nspatial;
    lc->extents[i] = r ? reduce[i - nspatial] : shape[i];
    const char *v = arena_printf(lc->arena, r ? "v_k%u" : "v_ax%u", r ? i - nspatial : i);
    lc->axes[i] = var_create(lc->c, v, DT_I64);
    lc->ax[i] = lc->axes[i]->expr;
  }
}

void te_spatial_begin(LowerCtx *lc, const char *name, const Expr *const *shape, uint32_t ndim,
                      DType d) {
  begin(lc, name, shape, ndim, d, NULL, 0);
}

void te_reduce_begin(LowerCtx *lc, const char *name, const Expr *const *shape, uint32_t nspatial,
                     DType d, const Expr *const *reduce, uint32_t nreduce) {
  begin(lc, name, shape, nspatial, d, reduce, nreduce);
}

static Buffer *stage_buffer(LowerCtx *lc) {
  const Expr **shape = ARENA_ARRAY(lc->arena, const Expr *, lc->nspatial + 1);
  for (uint32_t i = 0; i < lc->nspatial; i++) shape[i] = lc->extents[i];
  Buffer *b = buffer_create(lc->c, name_unique(lc, lc->stage_name), lc->stage_dtype, shape,
                            lc->nspatial, "global");
  b->span = lc->node->span;
  vec_push(lc->arena, &lc->temps, b);
  return b;
}

/* Wraps body (and init) into the block and its loops. A block without loops has one axis of extent
 * 1 bound to 0, as TVM writes it. */
static void finish_stage(LowerCtx *lc, Stmt *init, Stmt *body) {
  Arena *a = lc->arena;
  Span span = lc->node->span;
  uint32_t n = lc->nspatial + lc->nreduce;
  const Expr *zero = expr_i64(lc->c, 0);
  SBlock *b = ARENA_NEW(a, SBlock);
  b->name = lc->stage_name;
  b->niters = n ? n : 1;
  b->iters = ARENA_ARRAY(a, BlockIter, b->niters);
  b->init = init;
  b->body = body;
  Var **loops = ARENA_ARRAY(a, Var *, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    loops[i] = var_create(lc->c, lc->axes[i]->name + 2, DT_I64); /* without "v_" */
    b->iters[i] = (BlockIter){.var = lc->axes[i],
                              .kind = i < lc->nspatial ? ITER_SPATIAL : ITER_REDUCE,
                              .dom = {zero, lc->extents[i]},
                              .value = loops[i]->expr};
  }
  if (!n)
    b->iters[0] = (BlockIter){.var = var_create(lc->c, "vi", DT_I64),
                              .kind = ITER_SPATIAL,
                              .dom = {zero, expr_i64(lc->c, 1)},
                              .value = zero};
  sblock_derive_regions(lc->c, a, b);
  Stmt *s = stmt_block(a, span, b);
  for (uint32_t i = n; i-- > 0;)
    s = stmt_for(a, span, loops[i], zero, lc->extents[i], FOR_SERIAL, s);
  vec_push(a, &lc->stages, s);
}

static void check_dtype(LowerCtx *lc, const Expr *value) {
  if (!dtype_eq(value->dtype, lc->stage_dtype)) {
    char have[32] = {0};
    strncpy(have, dtype_name(value->dtype), sizeof have - 1);
    bug("stage '%s' of R.%s stores %s into %s", lc->stage_name, node_op(lc->node)->name, have,
        dtype_name(lc->stage_dtype));
  }
}

Buffer *te_spatial_end(LowerCtx *lc, const Expr *value) {
  check_dtype(lc, value);
  Buffer *b = stage_buffer(lc);
  finish_stage(lc, NULL, stmt_store(lc->arena, lc->node->span, b, lc->ax, value));
  return b;
}

static const Expr *combine_sum(Context *c, const Expr *a, const Expr *v) {
  return expr_add(c, a, v);
}
static const Expr *combine_prod(Context *c, const Expr *a, const Expr *v) {
  return expr_mul(c, a, v);
}
static const Expr *combine_max(Context *c, const Expr *a, const Expr *v) {
  return expr_max(c, a, v);
}
static const Expr *combine_min(Context *c, const Expr *a, const Expr *v) {
  return expr_min(c, a, v);
}
static const Expr *combine_all(Context *c, const Expr *a, const Expr *v) {
  return expr_binary(c, EXPR_AND, a, v);
}
static const Expr *combine_any(Context *c, const Expr *a, const Expr *v) {
  return expr_binary(c, EXPR_OR, a, v);
}

/* The least (sign < 0) or greatest value of a type, infinities included. */
static const Expr *extreme(Context *c, DType d, int sign) {
  if (dtype_is_float(d)) {
    if (d.code == DTYPE_E4M3FN) return expr_float(c, d, sign * 448.0);
    return expr_float(c, d, sign * (double)INFINITY);
  }
  if (dtype_is_bool(d)) return expr_bool(c, sign > 0);
  if (dtype_is_uint(d)) return expr_int(c, d, sign < 0 ? 0 : dtype_wrap(d, -1));
  int64_t min = d.bits >= 64 ? INT64_MIN : -(INT64_C(1) << (d.bits - 1));
  return expr_int(c, d, sign < 0 ? min : -(min + 1));
}

Buffer *te_reduce_end_custom(LowerCtx *lc, const Expr *init,
                             const Expr *(*combine)(Context *, const Expr *acc, const Expr *v),
                             const Expr *value) {
  check_dtype(lc, value);
  check_dtype(lc, init);
  Span span = lc->node->span;
  Buffer *b = stage_buffer(lc);
  const Expr *acc = expr_load(lc->c, b, lc->ax, lc->nspatial);
  Stmt *first = stmt_store(lc->arena, span, b, lc->ax, init);
  Stmt *step = stmt_store(lc->arena, span, b, lc->ax, combine(lc->c, acc, value));
  finish_stage(lc, first, step);
  return b;
}

Buffer *te_reduce_end(LowerCtx *lc, TeReduce r, const Expr *value) {
  Context *c = lc->c;
  DType d = lc->stage_dtype;
  switch (r) {
  case TE_SUM: return te_reduce_end_custom(lc, expr_lit(c, d, 0), combine_sum, value);
  case TE_PROD: return te_reduce_end_custom(lc, expr_lit(c, d, 1), combine_prod, value);
  case TE_MAX: return te_reduce_end_custom(lc, extreme(c, d, -1), combine_max, value);
  case TE_MIN: return te_reduce_end_custom(lc, extreme(c, d, 1), combine_min, value);
  case TE_ALL: return te_reduce_end_custom(lc, expr_bool(c, true), combine_all, value);
  case TE_ANY: return te_reduce_end_custom(lc, expr_bool(c, false), combine_any, value);
  }
  bug("reduction %d", (int)r);
}

/* ---- free form ---- */
Buffer *te_alloc(LowerCtx *lc, const char *name, const Expr *const *shape, uint32_t ndim, DType d) {
  begin(lc, name, shape, ndim, d, NULL, 0);
  return stage_buffer(lc);
}

void te_block(LowerCtx *lc, const char *name, Stmt *body) {
  lc->stage_name = name;
  lc->nspatial = lc->nreduce = 0;
  finish_stage(lc, NULL, body);
}

void te_parallel(LowerCtx *lc, Stmt *loop, int64_t steps) {
  const int64_t least = INT64_C(1) << 15; /* steps that are worth a thread */
  loop->loop.kind = FOR_PARALLEL;
  if (steps > 0 && steps < least)
    loop->loop.annotations = attr_with(lc->arena, loop->loop.annotations, "relaxc.grain",
                                       attr_int(lc->arena, least / steps + 1));
}

Stmt *te_loops(LowerCtx *lc, Var *const *vars, const Expr *const *extents, uint32_t n, Stmt *body) {
  const Expr *zero = expr_i64(lc->c, 0);
  for (uint32_t i = n; i-- > 0;)
    body = stmt_for(lc->arena, lc->node->span, vars[i], zero, extents[i], FOR_SERIAL, body);
  return body;
}

void te_out(LowerCtx *lc, Buffer *b) {
  for (uint32_t i = 0; i < lc->outs.n; i++)
    if (lc->outs.at[i] == b) bug("R.%s names one buffer as two results", node_op(lc->node)->name);
  for (uint32_t i = 0; i < lc->temps.n; i++)
    if (lc->temps.at[i] == b) {
      vec_push(lc->arena, &lc->outs, b);
      return;
    }
  bug("result of R.%s is no stage's buffer", node_op(lc->node)->name);
}

void te_composite(LowerCtx *lc, Node *n) {
  lc->composite = n;
}

/* ---- the driver ---- */
static bool is_out(const LowerCtx *lc, const Buffer *b) {
  for (uint32_t i = 0; i < lc->outs.n; i++)
    if (lc->outs.at[i] == b) return true;
  return false;
}

static PrimFunc *assemble(LowerCtx *lc) {
  Arena *a = lc->arena;
  PrimFunc *f = lc->func;
  uint32_t most = lc->ins.n + lc->scalars.n + lc->outs.n;
  f->params = ARENA_ARRAY(a, Var *, most + 1);
  f->param_bufs = ARENA_ARRAY(a, Buffer *, most + 1);
  uint32_t p = 0;
  for (uint32_t i = 0; i < lc->ins.n; i++)
    if (!is_literal(lc, i)) f->param_bufs[p++] = lc->ins.at[i];
  for (uint32_t i = 0; i < lc->scalars.n; i++) f->params[p++] = lc->scalars.at[i];
  for (uint32_t i = 0; i < lc->outs.n; i++) f->param_bufs[p++] = lc->outs.at[i];
  f->nparams = p;
  for (uint32_t i = 0; i < p; i++)
    if (f->param_bufs[i]) f->params[i] = var_create(lc->c, f->param_bufs[i]->name, DT_HANDLE);
  SBlock *root = ARENA_NEW(a, SBlock);
  root->name = "root";
  root->has_reads = root->has_writes = true;
  root->allocs = ARENA_ARRAY(a, Buffer *, lc->temps.n + 1);
  for (uint32_t i = 0; i < lc->temps.n; i++)
    if (!is_out(lc, lc->temps.at[i])) root->allocs[root->nallocs++] = lc->temps.at[i];
  root->body = stmt_seq(a, lc->stages.at, lc->stages.n);
  f->body = stmt_block(a, lc->node->span, root);
  f->attrs = attr_with(a, NULL, "tirx.noalias", attr_bool(a, true));
  f->is_private = f->s_tir = f->check_well_formed = true;
  primfunc_collect_dims(lc->c, a, f);
  return f;
}

static const char *base_name(const char *op) {
  const char *dot = strrchr(op, '.');
  return dot ? dot + 1 : op;
}

/* The dtype that an operator's row speaks of (ir/ops/numerics.h). */
static DType row_dtype(const Node *n) {
  const SInfo *s = n->nin ? node_in(n, 0)->sinfo : n->sinfo;
  if (s->kind == SINFO_TUPLE && s->n) s = s->fields[0];
  if (s->kind != SINFO_TENSOR) s = n->sinfo;
  return s->kind == SINFO_TENSOR || s->kind == SINFO_PRIM ? s->dtype : DT_UNKNOWN;
}

bool te_is_composite(const Node *n) {
  return node_op(n)->traits & OPT_COMPOSITE || te_joins_at_run_time(n);
}

bool te_lower_node(Module *m, Node *n, Lowered *out) {
  const OpInfo *op = node_op(n);
  LowerCtx lc = {.c = m->ctx, .m = m, .arena = m->arena, .node = n, .name = base_name(op->name)};
  map_init(&lc.vars, m->arena);
  map_init(&lc.names, m->arena);
  memset(out, 0, sizeof *out);
  if (!op->lower) {
    if (op->traits & OPT_REFUSED) return te_error(&lc, "not for a CPU");
    return te_error(&lc, strncmp(op->lower_why, "TODO_", 5) ? "has no tensor-level form"
                                                            : "can't be compiled yet");
  }
  DType d = row_dtype(n);
  if (op->types && dtype_known(d) && !op_takes(op, d))
    return te_error(&lc, "not defined for %s", dtype_name(d));
  if (te_joins_at_run_time(n)) {
    if (!te_join_operands(&lc, n)) return false;
    out->composite = lc.composite;
    return true;
  }
  if (!(op->traits & OPT_COMPOSITE)) {
    if (!collect_inputs(&lc) || !check_results(&lc)) return false;
    lc.func = primfunc_create(m, lc.name, n->span);
  }
  if (!op->lower(&lc, n)) return false;
  if (lc.composite) {
    out->composite = lc.composite;
    return true;
  }
  if (!lc.outs.n) bug("R.%s was lowered to nothing", op->name);
  out->func = assemble(&lc);
  out->args = ARENA_ARRAY(m->arena, Node *, lc.ins.n + lc.scalars.n + 1);
  for (uint32_t i = 0; i < lc.ins.n; i++)
    if (!is_literal(&lc, i)) out->args[out->nargs++] = lc.in_nodes.at[i];
  for (uint32_t i = 0; i < lc.scalars.n; i++) out->args[out->nargs++] = lc.scalar_nodes.at[i];
  return true;
}
