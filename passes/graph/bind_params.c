/* BindParams: parameters become constants and leave the signature.
 *
 *   before: def main(x: R.Tensor((n, 4)), w: R.Tensor((4, 8)))      with a tensor "w"
 *   after:  def main(x: R.Tensor((n, 4))), w a constant
 *
 * Tensors come from --weights by the parameter's name. Each must have the parameter's dtype and
 * shape (a symbolic dim takes the tensor's value); a tensor whose name no parameter has is an
 * error, and with attribute num_input so is a parameter behind the inputs without a tensor.
 */
#include "passes/graph/graph.h"
#include <string.h>

typedef struct {
  PassCtx *pc;
  const char *file;
  StrMap used; /* names of tensors */
} Bind;

static const SInfo *const_sinfo(Context *c, Arena *a, const ConstData *d) {
  const Expr **dims = ARENA_ARRAY(a, const Expr *, d->ndim);
  for (int32_t i = 0; i < d->ndim; i++) dims[i] = expr_i64(c, d->dims[i]);
  return sinfo_tensor(c, dims, (uint32_t)d->ndim, d->dtype);
}

/* Symbolic dims of the parameter take the tensor's values, in the whole function. */
static void bind_dims(Bind *x, Func *f, const SInfo *param, const SInfo *have) {
  Map found, vars;
  VarVec used = {0};
  Arena *a = x->pc->scratch;
  map_init(&found, a);
  map_init(&vars, a);
  sinfo_vars(a, param, &used);
  for (uint32_t i = 0; i < used.n; i++) map_setp(&found, used.at[i], NULL);
  sinfo_unify(x->pc->c, &found, param, have);
  for (uint32_t i = 0; i < used.n; i++) {
    void *to = map_getp(&found, used.at[i]);
    if (to) map_setp(&vars, used.at[i], to);
  }
  if (vars.n) func_subst(f, &vars);
}

static bool check(Bind *x, const Func *f, const Node *p, const ConstData *d, const SInfo *have) {
  SInfoWhy why = {0};
  Text want = {0}, got = {0};
  bool ok = p->sinfo->kind == SINFO_TENSOR &&
            sinfo_check(x->pc->c, NULL, have, p->sinfo, &why) != SINFO_FAIL;
  if (!ok) {
    sinfo_print(&want, p->sinfo);
    sinfo_print(&got, have);
    diag_error(x->pc->c->diags, p->span, "tensor '%s' of %s is %s but parameter '%s' of '%s' is %s",
               d->name ? d->name : p->name, x->file, text_cstr(&got), p->name, f->name,
               text_cstr(&want));
  }
  text_free(&why.words);
  text_free(&want);
  text_free(&got);
  return ok;
}

static bool bind_function(Bind *x, Func *f) {
  const StrMap *weights = x->pc->bindings->weights;
  int64_t inputs = attr_get_int(f->attrs, "num_input", -1);
  bool ok = true;
  uint32_t bound = 0;
  for (uint32_t i = 0; i < f->nparams; i++) {
    Node *p = f->params[i];
    ConstData *d = strmap_get(weights, p->name);
    if (!d) {
      if (inputs >= 0 && i + bound >= (uint64_t)inputs && !f->is_private) {
        diag_error(x->pc->c->diags, p->span, "%s has no tensor for parameter '%s' of '%s'", x->file,
                   p->name, f->name);
        ok = false;
      }
      continue;
    }
    strmap_set(&x->used, p->name, d);
    const SInfo *have = const_sinfo(x->pc->c, x->pc->scratch, d);
    if (!check(x, f, p, d, have)) {
      ok = false;
      continue;
    }
    bind_dims(x, f, p->sinfo, have);
    if (node_has_uses(p)) graph_replace(p, node_const(f, d, p->span));
    func_remove_param(f, i--);
    bound++;
  }
  if (bound) func_collect_dims(f);
  if (inputs > (int64_t)f->nparams && ok) /* all that is left are inputs */
    f->attrs = attr_with(func_arena(f), f->attrs, "num_input", attr_int(func_arena(f), f->nparams));
  return ok;
}

bool pass_bind_params(PassCtx *pc) {
  const StrMap *weights = pc->bindings ? pc->bindings->weights : NULL;
  const char *only = attr_get_str(pc->options, "func_name", NULL);
  bool ok = true, any = false;
  if (!weights) return true;
  Bind x = {.pc = pc};
  x.file = pc->bindings->weights_file
               ? arena_printf(pc->scratch, "'%s'", pc->bindings->weights_file)
               : "the weights";
  strmap_init(&x.used, pc->scratch);
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || g->func->is_private || !pass_wants(pc, g->name)) continue;
    if (only && strcmp(only, g->name) != 0) continue;
    any = true;
    ok &= bind_function(&x, g->func);
  }
  for (uint32_t i = 0; any && i < weights->n; i++) {
    const char *name = weights->entries[i].key;
    if (strmap_has(&x.used, name)) continue;
    const char *names[512];
    size_t n = 0;
    module_each(pc->m, g) for (uint32_t k = 0;
                               g->kind == GLOBAL_FUNC && k < g->func->nparams && n < 512; k++)
        names[n++] = g->func->params[k]->name;
    const char *near = text_nearest(name, names, n);
    diag_error(pc->c->diags, SPAN_NONE, "tensor '%s' of %s: no parameter has this name%s%s%s", name,
               x.file, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    ok = false;
  }
  if (!ok) return false;
  module_each(pc->m, g) if (g->kind == GLOBAL_FUNC) ok &= func_infer(g->func);
  return ok;
}
