/* Loops of prim_funcs: range, T.grid and the kinds of T.serial. */
#include "frontend/script/loop.h"

/* ---- loops ---- */

static const Tree *keyword(const Tree *call, const char *name) {
  for (uint32_t i = 0; i < call->n; i++)
    if (call->at[i]->kind == TREE_KEYWORD && strcmp(call->at[i]->name, name) == 0)
      return call->at[i]->b;
  return NULL;
}

typedef struct {
  ForKind kind;
  Range range;
  const Expr *step;
  const char *thread;
  const Attr *annotations;
  Var *var;
} LoopHead;

static bool read_loop_head(Sema *s, const Tree *call, const char *name, LoopHead *h) {
  static const struct {
    const char *name;
    ForKind kind;
  } kinds[] = {{"range", FOR_SERIAL},      {"serial", FOR_SERIAL},
               {"parallel", FOR_PARALLEL}, {"vectorized", FOR_VECTORIZED},
               {"unroll", FOR_UNROLL},     {"thread_binding", FOR_THREAD}};
  bool found = false;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(name, kinds[i].name) == 0) {
      h->kind = kinds[i].kind;
      found = true;
    }
  if (!found) {
    sema_error(s, call,
               "a loop runs over range, T.serial, T.parallel, T.vectorized, T.unroll, "
               "T.thread_binding or T.grid");
    return false;
  }
  const Tree *args[3] = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < call->n; i++) {
    const Tree *a = call->at[i];
    if (a->kind == TREE_KEYWORD) {
      if (strcmp(a->name, "thread") && strcmp(a->name, "annotations") && strcmp(a->name, "step") &&
          strcmp(a->name, "unroll")) {
        sema_error(s, a, "a loop has no property '%s'", a->name);
        return false;
      }
    } else if (n < 3) {
      args[n++] = a;
    } else {
      n++;
    }
  }
  if (n < 1 || n > 3) {
    sema_error(s, call, "a loop takes an extent, or begin and end");
    return false;
  }
  const Tree *step = n == 3 ? args[2] : keyword(call, "step");
  if (n == 1) {
    if (!loop_read_range(s, args[0], &h->range)) return false;
  } else {
    Tree pair = {.kind = TREE_TUPLE, .begin = args[0]->begin, .end = args[1]->end, .n = 2};
    pair.at = (Tree *[]){(Tree *)(uintptr_t)args[0], (Tree *)(uintptr_t)args[1]};
    if (!loop_read_range(s, &pair, &h->range)) return false;
  }
  if (step) {
    h->step = sema_expr(s, step);
    if (!h->step) return false;
    int64_t v = 0;
    if (!dtype_is_int(h->step->dtype) || (expr_const_int(s->ctx, h->step, &v) && v < 1)) {
      sema_error(s, step, "the step of a loop must be a positive integer");
      return false;
    }
    if (v == 1)
      h->step = NULL;
    else if (h->step->kind == EXPR_INT)
      h->step = expr_int(s->ctx, h->range.extent->dtype, h->step->i);
    else
      h->step = sema_convert(s, h->step, h->range.extent->dtype);
  }
  const Tree *thread = keyword(call, "thread");
  if (h->kind == FOR_THREAD) {
    if (!thread || thread->kind != TREE_STR) {
      sema_error(s, call, "T.thread_binding needs thread=\"threadIdx.x\" or its like");
      return false;
    }
    h->thread = strpool_intern(s->ctx->strings, thread->str, thread->n);
  }
  const Tree *annotations = keyword(call, "annotations");
  if (annotations && !tree_is_none(annotations)) {
    h->annotations = sema_attr_dict(s, annotations);
    if (!h->annotations) return false;
  }
  const Tree *unroll = keyword(call, "unroll");
  if (unroll && !tree_is_none(unroll)) {
    const Attr *v = sema_attr(s, unroll);
    if (!v) return false;
    bool off = v->kind == ATTR_BOOL && !v->b;
    if (off) v = attr_bool(s->m->arena, true);
    h->annotations =
        attr_with(s->m->arena, h->annotations, off ? "disable_unroll" : "pragma_unroll", v);
  }
  return true;
}

/* Reads the body with the loop variables in scope and wraps the loops around it. */
static Stmt *make_loops(Sema *s, const Tree *t, LoopHead *heads, uint32_t n,
                        const Tree *const *names) {
  LoopState *l = s->loop;
  scope_push(&s->scope);
  for (uint32_t i = 0; i < n; i++) {
    Var *v = heads[i].var = var_create(s->ctx, names[i]->name, heads[i].range.extent->dtype);
    v->span = tree_span(s, names[i]);
    scope_bind(&s->scope, v->name, BIND_VAR, v->span)->var = v;
    map_setp(&l->loops, v, arena_dup(s->arena, &heads[i].range, sizeof heads[i].range));
  }
  l->depth++;
  Stmt *body = loop_statements(s, t->at[2]);
  l->depth--;
  scope_pop(&s->scope, "a loop");
  Span span = tree_span(s, t);
  span.end = t->at[1]->end;
  for (uint32_t i = n; i > 0; i--) {
    LoopHead *h = &heads[i - 1];
    body = stmt_for(s->m->arena, span, h->var, h->range.min, h->range.extent, h->kind, body);
    body->loop.step = h->step;
    body->loop.thread = h->thread;
    body->loop.annotations = h->annotations;
  }
  return body;
}

Stmt *loop_read_for(Sema *s, const Tree *t) {
  const Tree *target = t->at[0], *call = t->at[1];
  const Tree *one[1] = {target};
  bool tuple = target->kind == TREE_TUPLE || target->kind == TREE_LIST;
  const Tree *const *names = tuple ? (const Tree *const *)target->at : one;
  uint32_t n = tuple ? target->n : 1;
  const char *name = NULL;
  if (call->kind == TREE_CALL) {
    name = sema_member(s, call->a, 'T');
    if (!name && call->a->kind == TREE_NAME && strcmp(call->a->name, "range") == 0) name = "range";
  }
  bool ok = true;
  for (uint32_t i = 0; i < n && ok; i++)
    if (names[i]->kind != TREE_NAME) {
      sema_error(s, names[i], "a loop variable is a name but got %s", tree_describe(names[i]));
      ok = false;
    }
  LoopHead *heads = ARENA_ARRAY(s->arena, LoopHead, n ? n : 1);
  if (ok && !name) {
    if (call->kind != TREE_BAD)
      sema_error(s, call,
                 "a loop runs over range, T.serial, T.parallel, T.vectorized, T.unroll, "
                 "T.thread_binding or T.grid");
    ok = false;
  } else if (ok && strcmp(name, "grid") == 0) {
    if (call->n != n) {
      sema_error(s, call, "T.grid has %u extents for %u loop variables", call->n, n);
      ok = false;
    }
    for (uint32_t i = 0; i < n && ok; i++) ok = loop_read_range(s, call->at[i], &heads[i].range);
  } else if (ok && n != 1) {
    sema_error(s, target, "only T.grid has several loop variables");
    ok = false;
  } else if (ok) {
    ok = read_loop_head(s, call, name, &heads[0]);
  }
  if (ok) return make_loops(s, t, heads, n, names);
  scope_push(&s->scope);
  loop_bind_bad(s, target);
  s->loop->depth++;
  loop_statements(s, t->at[2]);
  s->loop->depth--;
  scope_pop(&s->scope, NULL);
  return NULL;
}
