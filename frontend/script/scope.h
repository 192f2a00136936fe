/* Names and what they stand for, in nested scopes.
 *
 * Rebinding a name hides the earlier binding until the scope ends. What a closed scope bound stays
 * known as hidden, so that a use of it can be explained ("bound inside ...") instead of being just
 * undefined. A scope in which a statement could not be parsed is poisoned: names unknown there are
 * no errors, as that statement may have bound them.
 */
#ifndef RELAXC_FRONTEND_SCRIPT_SCOPE_H
#define RELAXC_FRONTEND_SCRIPT_SCOPE_H

#include "ir/module.h"

typedef enum {
  BIND_NODE, /* a graph value; var is set too for scalar parameters */
  BIND_VAR,  /* a symbolic dim, loop variable, axis, let */
  BIND_BUFFER,
  BIND_MODULE, /* cls */
  BIND_BAD,    /* its definition failed: silent */
} BindKind;

typedef struct Binding {
  const char *name; /* interned */
  BindKind kind;
  bool hidden;       /* its scope is closed */
  bool undefined;    /* a symbolic variable that was declared, but that nothing has defined yet */
  uint32_t level;    /* how many scopes are open where it stands */
  const char *where; /* hidden: "the dataflow block" ... */
  Span span;
  Node *node;
  Var *var;
  Buffer *buffer;
  struct Binding *shadowed;
} Binding;

typedef struct {
  Arena *arena;
  StrMap by_name; /* name -> Binding */
  VEC(Binding *) stack;
  VEC(uint32_t) levels;
  bool poisoned;
} Scope;

void scope_init(Scope *s, Arena *a);
void scope_push(Scope *s);
/* Ends the innermost scope. With `where`, its names stay known as hidden. */
void scope_pop(Scope *s, const char *where);
Binding *scope_bind(Scope *s, const char *name, BindKind kind, Span span);
/* The visible or hidden binding of a name, or NULL. */
Binding *scope_find(const Scope *s, const char *name);
/* The binding of a name that the innermost scope itself made, or NULL. */
Binding *scope_find_here(const Scope *s, const char *name);
/* The nearest visible name, or NULL. */
const char *scope_nearest(const Scope *s, const char *name);

#endif
