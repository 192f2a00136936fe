/* BindSymbolicVars: symbolic dims get values, everywhere in a function.
 *
 *   before: def main(x: R.Tensor((n, 4)))      with {"n": 16}
 *   after:  def main(x: R.Tensor((16, 4)))
 *
 * Values come from option binding_map or from --bind. A name without a function's means the public
 * functions: what a private one's dims are is its callers' business. A name that no function has is
 * an error. A scalar parameter that is such a dim leaves the signature. Struct info is inferred
 * again, so that shapes that contradict each other now are reported.
 */
#include "passes/graph/graph.h"
#include <string.h>

static Var *find_dim(const Func *f, const char *name) {
  for (uint32_t i = 0; i < f->ndims; i++)
    if (strcmp(f->dims[i]->name, name) == 0) return f->dims[i];
  return NULL;
}

/* A parameter `n: T.int64` whose variable is bound becomes the value. */
static void drop_scalar_param(Func *f, const Var *v, const Expr *value) {
  for (uint32_t i = f->nparams; i-- > 0;) {
    Node *p = f->params[i];
    if (p->sinfo->kind != SINFO_PRIM || p->sinfo->value != v->expr) continue;
    if (node_has_uses(p)) graph_replace(p, node_prim(f, value, p->span));
    func_remove_param(f, i);
  }
}

/* Binds name in all functions that are meant; counts them in *found. */
static bool bind_name(PassCtx *pc, const char *func, const char *name, int64_t v, uint32_t *found) {
  if (v < 0) {
    diag_error(pc->c->diags, SPAN_NONE, "dim '%s' can't be bound to %lld: it would be negative",
               name, (long long)v);
    return false;
  }
  bool has_public = false;
  module_each(pc->m, f) has_public |= f->kind == GLOBAL_FUNC && !f->func->is_private;
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    if (func ? strcmp(func, g->name) != 0 : has_public && g->func->is_private) continue;
    Var *var = find_dim(g->func, name);
    if (!var) continue;
    const Expr *value = expr_int(pc->c, var->dtype, v);
    Map vars;
    map_init(&vars, pc->scratch);
    map_setp(&vars, var, (void *)(uintptr_t)value);
    drop_scalar_param(g->func, var, value);
    func_subst(g->func, &vars);
    (*found)++;
  }
  return true;
}

static bool report_unknown(PassCtx *pc, const char *func, const char *name) {
  const char *names[256];
  size_t n = 0;
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || (func && strcmp(func, g->name) != 0)) continue;
    for (uint32_t i = 0; i < g->func->ndims && n < 256; i++) names[n++] = g->func->dims[i]->name;
  }
  const char *near = text_nearest(name, names, n);
  if (func && !module_func(pc->m, func))
    diag_error(pc->c->diags, SPAN_NONE, "the module has no R.function '%s' to bind '%s' in", func,
               name);
  else
    diag_error(pc->c->diags, SPAN_NONE, "%s%s%s has no symbolic dim '%s'%s%s%s",
               func ? "function '" : "the module", func ? func : "", func ? "'" : "", name,
               near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  return false;
}

static bool bind_one(PassCtx *pc, const char *func, const char *name, int64_t v) {
  uint32_t found = 0;
  if (!bind_name(pc, func, name, v, &found)) return false;
  return found ? true : report_unknown(pc, func, name);
}

bool pass_bind_symbolic_vars(PassCtx *pc) {
  const Attr *map = attr_get(pc->options, "binding_map");
  const char *func = attr_get_str(pc->options, "func_name", NULL);
  bool ok = true, any = false;
  for (uint32_t i = 0; map && i < map->n; i++) {
    any = true;
    if (map->items[i]->kind == ATTR_INT) {
      ok &= bind_one(pc, func, map->keys[i], map->items[i]->i);
    } else {
      diag_error(pc->c->diags, SPAN_NONE, "binding_map: the value of '%s' must be an integer",
                 map->keys[i]);
      ok = false;
    }
  }
  for (uint32_t i = 0; !map && pc->bindings && i < pc->bindings->dims.n; i++) {
    any = true;
    ok &= bind_one(pc, pc->bindings->dims.at[i].func, pc->bindings->dims.at[i].name,
                   pc->bindings->dims.at[i].value);
  }
  if (!any || !ok) return ok;
  module_each(pc->m, g) if (g->kind == GLOBAL_FUNC) ok &= func_infer(g->func);
  return ok;
}
