/* Warnings of a whole module. Those that need the text (literals, indices, checks at run time) are
 * given where it is read.
 *
 * A name that begins with '_' says that its value isn't meant to be used; so does a call with side
 * effects, a match_cast, which checks, and one item of a tuple of which others are used.
 */
#include "ir/lint.h"
#include "ir/op.h"
#include "ir/reach.h"

static bool is_idle(const Node *n) {
  if (!n->name || n->name[0] == '_' || !n->name_span.file) return false;
  if (n->op == OP_MATCH_CAST || node_has_uses(n) || !n->sinfo || sinfo_is_void(n->sinfo))
    return false;
  if (n->op == OP_TUPLE_GET && node_count_uses(node_in(n, 0)) > 1) return false;
  return op_is_pure(n);
}

static void lint_seq(Module *m, const Seq *s) {
  for (const BindingBlock *b = s->first; b; b = b->next)
    for (const Node *n = b->first; n; n = n->next) {
      if (is_idle(n))
        diag_warn(m->ctx->diags, WARN_UNUSED_BINDING, n->name_span, "'%s' is not used", n->name);
      if (n->op == OP_FUNC) lint_seq(m, &n->local->body);
      if (n->op != OP_IF) continue;
      lint_seq(m, &n->if_.then_);
      lint_seq(m, &n->if_.else_);
    }
}

static void lint_functions(Module *m, Arena *a) {
  Reach r;
  bool any = false;
  reach_init(&r, m, a);
  module_each(m, g) if (global_is_entry(g) && g->kind != GLOBAL_EXTERN) {
    any = true;
    reach_add(&r, g->name);
  }
  if (!any) return; /* a library of private functions */
  module_each(m, g) {
    if (reach_has(&r, g->name) || g->kind == GLOBAL_EXTERN) continue;
    if (g->kind == GLOBAL_PRIM && attr_get(g->prim->attrs, "relaxc.variant_of")) continue;
    Span s = g->kind == GLOBAL_FUNC ? g->func->name_span : g->prim->span;
    diag_warn(m->ctx->diags, WARN_UNUSED_FUNCTION, s, "private function '%s' is not used", g->name);
  }
}

void module_lint(Module *m) {
  Arena *a = arena_create();
  module_each(m, g) if (g->kind == GLOBAL_FUNC) lint_seq(m, &g->func->body);
  lint_functions(m, a);
  lint_bounds(m);
  arena_free(a);
}
