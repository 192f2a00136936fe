/* ScheduleTIR: prim_funcs become lowered loops, once per variant of the target.
 *
 *   before: blocks with axes under a root block
 *   after:  plain loops with vector expressions, attrs {"relaxc.scheduled": True}; for a target of
 *           several instruction sets also f_v3, f_v4 with {"relaxc.variant_of": "f"}
 *
 * All variants have the same parameters. Temporaries that are large or symbolic end up in one
 * workspace parameter, whose size in bytes the attribute "relaxc.workspace_bytes" holds.
 */
#include "ir/op.h"
#include "passes/graph/pattern.h"
#include "passes/loop/schedule.h"

typedef struct {
  PrimFunc *f;
  Buffer *ws;
  const Expr *bytes; /* in terms of f's variables, or NULL */
} Version;

static void set_attr(PrimFunc *f, Arena *a, const char *key, const Attr *v) {
  f->attrs = attr_with(a, f->attrs, key, v);
}

static bool schedule_version(PassCtx *pc, const Variant *v, Version *ver) {
  PrimFunc *f = ver->f;
  LoopCtx lc = {.pc = pc, .c = pc->c, .a = pc->m->arena, .tmp = pc->scratch, .v = v, .f = f};
  map_init(&lc.flat, pc->scratch);
  map_init(&lc.packed, pc->scratch);
  map_init(&lc.packings, pc->scratch);
  map_init(&lc.finite, pc->scratch);
  packed_open(&lc);
  Stmt *body = schedule_body(&lc);
  if (lc.failed) return false;
  packed_close(&lc, body);
  body = vectorize_loops(&lc, body);
  Context *c = pc->c;
  const Expr *zero = i64(c, 0);
  ver->ws = buffer_create(c, "workspace", DT_U8, &zero, 1, "global");
  body = lift_workspace(&lc, body, ver->ws, &ver->bytes);
  if (lc.failed) return false;
  mark_streaming(&lc, body);
  f->body = body;
  f->s_tir = false;
  set_attr(f, lc.a, "relaxc.scheduled", attr_bool(lc.a, true));
  return true;
}

/* `e` of version `from` in terms of the variables of `to`. */
static const Expr *translate(PassCtx *pc, const PrimFunc *from, const PrimFunc *to, const Expr *e) {
  Map m;
  map_init(&m, pc->scratch);
  for (uint32_t i = 0; i < from->ndims; i++) map_setp(&m, from->dims[i], (void *)to->dims[i]->expr);
  for (uint32_t i = 0; i < from->nparams && i < to->nparams; i++)
    map_setp(&m, from->params[i], (void *)to->params[i]->expr);
  Subst s = {pc->c, &m, NULL};
  return expr_simplify(pc->c, expr_subst(&s, e));
}

static void add_workspace(PassCtx *pc, Version *ver, const Expr *bytes) {
  PrimFunc *f = ver->f;
  Arena *a = pc->m->arena;
  const Expr **shape = ARENA_ARRAY(pc->c->arena, const Expr *, 1);
  shape[0] = bytes;
  ver->ws->shape = shape;
  Var **params = ARENA_ARRAY(a, Var *, f->nparams + 1);
  Buffer **bufs = ARENA_ARRAY(a, Buffer *, f->nparams + 1);
  memcpy(params, f->params, f->nparams * sizeof *params);
  memcpy(bufs, f->param_bufs, f->nparams * sizeof *bufs);
  Var *handle = var_create(pc->c, "workspace", DT_HANDLE);
  params[f->nparams] = handle;
  bufs[f->nparams] = ver->ws;
  f->params = params;
  f->param_bufs = bufs;
  f->nparams++;
  set_attr(f, a, "relaxc.workspace", attr_bool(a, true));
  Attr *e = ARENA_NEW(a, Attr);
  e->kind = ATTR_EXPR;
  e->expr = bytes;
  set_attr(f, a, "relaxc.workspace_bytes", e);
}

static bool is_known(const PrimFunc *f, const Expr *e) {
  if (!e || e->kind != EXPR_VAR) return true;
  for (uint32_t i = 0; i < f->nparams; i++)
    if (f->params[i] == e->var) return true;
  for (uint32_t i = 0; i < f->ndims; i++)
    if (f->dims[i] == e->var) return true;
  return false;
}

/* Arguments are compact: strides and offsets that a call would bring can't be compiled. */
static bool check_params(PassCtx *pc, const PrimFunc *f) {
  bool ok = true;
  for (uint32_t i = 0; i < f->nparams; i++) {
    const Buffer *b = f->param_bufs[i];
    if (!b && f->params[i]->dtype.code == DTYPE_HANDLE) {
      diag_error(pc->c->diags, f->params[i]->span,
                 "handle '%s' has no T.match_buffer: its shape is not known", f->params[i]->name);
      ok = false;
    }
    if (!b) continue;
    VarVec vars = {0};
    for (uint32_t k = 0; k < b->ndim; k++) expr_vars(pc->scratch, b->shape[k], &vars);
    for (uint32_t k = 0; k < vars.n; k++) {
      if (is_known(f, vars.at[k]->expr)) continue;
      diag_error(pc->c->diags, b->span,
                 "parameter '%s' can't be compiled: no dim alone is '%s', which its shape needs",
                 b->name, vars.at[k]->name);
      return false;
    }
    bool known = is_known(f, b->elem_offset);
    for (uint32_t k = 0; b->strides && k < b->ndim; k++)
      known = known && is_known(f, b->strides[k]);
    bool placed = b->layout && b->layout[0] == 'T';
    if (known && !placed) continue;
    diag_error(pc->c->diags, b->span, "parameter '%s' can't be compiled: its %s", b->name,
               placed ? "layout is not row-major" : "strides or offset come with the argument");
    ok = false;
  }
  return ok;
}

/* relaxc.joins: [parameters ..., result], for StaticPlanBlockMemory: loops don't tell any more. */
static void mark_joins(PassCtx *pc, PrimFunc *f) {
  const uint32_t *order;
  uint32_t n = tir_joins(pc->c, pc->scratch, f, &order);
  if (n) set_attr(f, pc->m->arena, "relaxc.joins", attr_ints(pc->m->arena, order, n + 1));
}

static bool schedule_function(PassCtx *pc, PrimFunc *f) {
  if (!check_params(pc, f)) return false;
  Arena *a = pc->m->arena;
  mark_joins(pc, f);
  const Target *t = pc->target;
  uint32_t n = t->nvariants;
  Version ver[TARGET_MAX_VARIANTS] = {0};
  LoopCtx probe = {.pc = pc, .c = pc->c, .a = a, .tmp = pc->scratch, .v = &t->variants[0], .f = f};
  map_init(&probe.flat, pc->scratch);
  map_init(&probe.packed, pc->scratch);
  map_init(&probe.packings, pc->scratch);
  map_init(&probe.finite, pc->scratch);
  pack_constants(&probe);
  ver[0].f = f;
  if (!f->is_private && !attr_get(f->attrs, "relaxc.access")) {
    /* Its C entry needs to know: loops may load what they stored themselves. */
    const char *access = access_text(a, primfunc_access(pc->scratch, f), f->nparams);
    set_attr(f, a, "relaxc.access", attr_str(a, access));
  }
  for (uint32_t i = 1; i < n; i++) {
    char *name = arena_printf(pc->scratch, "%s_%s", f->name, t->variants[i].name);
    const char *unique = module_unique_name(pc->m, name);
    PrimFunc *copy = primfunc_copy(pc->c, a, f, unique);
    copy->module = pc->m;
    copy->is_private = true;
    copy->attrs = attr_with(a, copy->attrs, "relaxc.variant_of", attr_str(a, f->name));
    copy->attrs = attr_with(a, copy->attrs, "relaxc.variant", attr_str(a, t->variants[i].name));
    module_add_prim(pc->m, copy);
    ver[i].f = copy;
  }
  const Expr *bytes = NULL;
  for (uint32_t i = 0; i < n; i++) {
    if (!schedule_version(pc, &t->variants[i], &ver[i])) return false;
    if (!ver[i].bytes) continue;
    const Expr *b = translate(pc, ver[i].f, f, ver[i].bytes);
    bytes = !bytes || bytes == b ? b : expr_simplify(pc->c, expr_max(pc->c, bytes, b));
  }
  if (bytes)
    for (uint32_t i = 0; i < n; i++) add_workspace(pc, &ver[i], translate(pc, f, ver[i].f, bytes));
  return true;
}

bool pass_schedule_tir(PassCtx *pc) {
  VEC(PrimFunc *) work = {0};
  module_each(pc->m, g) if (g->kind == GLOBAL_PRIM && pass_wants(pc, g->name) &&
                            !attr_get_bool(g->prim->attrs, "relaxc.scheduled", false))
      vec_push(pc->scratch, &work, g->prim);
  bool ok = true;
  for (uint32_t i = 0; i < work.n; i++) ok &= schedule_function(pc, work.at[i]);
  return ok;
}
