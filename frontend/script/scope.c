/* Scopes: a stack of bindings and a map from names to the innermost one. */
#include "frontend/script/scope.h"

enum { MAX_CANDIDATES = 2000 };

void scope_init(Scope *s, Arena *a) {
  memset(s, 0, sizeof *s);
  s->arena = a;
  strmap_init(&s->by_name, a);
}

void scope_push(Scope *s) {
  vec_push(s->arena, &s->levels, s->stack.n);
}

void scope_pop(Scope *s, const char *where) {
  uint32_t level = vec_pop(&s->levels);
  while (s->stack.n > level) {
    Binding *b = vec_pop(&s->stack);
    void **at = strmap_at(&s->by_name, b->name);
    if (*at != b) continue; /* hidden by a later one that stays */
    Binding *back = b->shadowed;
    if (!back && where) {
      b->hidden = true;
      b->where = where;
      back = b;
    }
    *at = back;
  }
}

Binding *scope_bind(Scope *s, const char *name, BindKind kind, Span span) {
  Binding *b = ARENA_NEW(s->arena, Binding);
  b->name = name;
  b->kind = kind;
  b->span = span;
  b->level = s->levels.n;
  void **at = strmap_at(&s->by_name, name);
  Binding *old = *at;
  b->shadowed = old && !old->hidden ? old : NULL;
  *at = b;
  vec_push(s->arena, &s->stack, b);
  return b;
}

Binding *scope_find(const Scope *s, const char *name) {
  return strmap_get(&s->by_name, name);
}

Binding *scope_find_here(const Scope *s, const char *name) {
  Binding *b = scope_find(s, name);
  return b && !b->hidden && b->level == s->levels.n ? b : NULL;
}

const char *scope_nearest(const Scope *s, const char *name) {
  const char *names[MAX_CANDIDATES];
  size_t n = 0;
  for (uint32_t i = s->stack.n; i > 0 && n < MAX_CANDIDATES; i--)
    if (s->stack.at[i - 1]->kind != BIND_BAD) names[n++] = s->stack.at[i - 1]->name;
  return text_nearest(name, names, n);
}
