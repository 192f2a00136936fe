/* Where symbolic variables are introduced: a parameter's type defines them, or else the place of
 * their first mention in the text, which a match_cast binds.
 */
#include "ir/explain.h"

enum { MOST_VARS = 4 }; /* more would bury the message */

typedef struct {
  Context *c;
  const Func *f;
  const Var *seen[MOST_VARS];
  uint32_t n;
} Explain;

/* Finds v as a whole dim or value in a type; the way there goes to `path`. */
static bool find_var(const SInfo *s, const Var *v, Text *path) {
  if (s->value && s->value->kind == EXPR_VAR && s->value->var == v) return true;
  for (int32_t i = 0; s->dims && i < s->ndim; i++)
    if (s->dims[i]->kind == EXPR_VAR && s->dims[i]->var == v) {
      text_printf(path, "%s %d of ", s->kind == SINFO_SHAPE ? "value" : "dim", i);
      return true;
    }
  for (uint32_t i = 0; s->kind == SINFO_TUPLE && i < s->n; i++)
    if (find_var(s->fields[i], v, path)) {
      text_printf(path, "field %u of ", i);
      return true;
    }
  return false;
}

static bool explain_param(Explain *x, const Var *v) {
  for (const Func *f = x->f; f; f = f->outer)
    for (uint32_t i = 0; i < f->nparams; i++) {
      const Node *p = f->params[i];
      Text path = {0};
      bool found = find_var(p->sinfo, v, &path);
      if (found && path.n)
        diag_note(x->c->diags, v->span.file ? v->span : p->span, "'%s' is %s'%s', declared here",
                  v->name, text_cstr(&path), p->name);
      else if (found)
        diag_note(x->c->diags, p->span, "'%s' is a parameter, declared here", v->name);
      text_free(&path);
      if (found) return true;
    }
  return false;
}

static bool explain_var(const Expr *e, void *ctx) {
  Explain *x = ctx;
  if (e->kind != EXPR_VAR) return true;
  for (uint32_t i = 0; i < x->n; i++)
    if (x->seen[i] == e->var) return true;
  if (x->n == MOST_VARS) return false;
  x->seen[x->n++] = e->var;
  if (!explain_param(x, e->var) && e->var->span.file)
    diag_note(x->c->diags, e->var->span, "'%s' is introduced here, for an R.match_cast",
              e->var->name);
  return true;
}

void explain_vars(Context *c, const Func *f, const Expr *a, const Expr *b) {
  Explain x = {.c = c, .f = f};
  if (a) expr_walk(a, explain_var, &x);
  if (b) expr_walk(b, explain_var, &x);
}
