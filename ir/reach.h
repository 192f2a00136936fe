/* Which functions of a module are used, directly or not, by given ones. */
#ifndef RELAXC_IR_REACH_H
#define RELAXC_IR_REACH_H

#include "ir/module.h"

typedef struct {
  Module *m;
  Arena *arena;
  StrMap reached; /* name -> Global * */
  VEC(Global *) todo;
} Reach;

void reach_init(Reach *r, Module *m, Arena *a);
/* Adds a function and what it uses. A name that the module lacks is no function. */
void reach_add(Reach *r, const char *name);
static inline bool reach_has(const Reach *r, const char *name) {
  return strmap_has(&r->reached, name);
}
/* The Relax functions whose calls may go on without end: those that lead into a cycle of calls, by
 * name. `out` is a map to fill, whose values are the Globals. */
void module_endless(Module *m, StrMap *out);
/* Does f call itself, through other functions perhaps? */
bool func_is_recursive(Module *m, Arena *a, const Func *f);
/* Is it visible outside of the module? */
bool global_is_entry(const Global *g);

#endif
