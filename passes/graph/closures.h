/* Functions as values, as far as the program tells which ones they are: shared by ResolveClosures
 * and what makes functions of their own for calls that pass functions.
 */
#ifndef RELAXC_PASSES_CLOSURES_H
#define RELAXC_PASSES_CLOSURES_H

#include "passes/graph/graph.h"

typedef struct Fn {
  enum {
    FN_ONE,
    FN_CHOICE,
    FN_TUPLE,
    FN_HIDDEN
  } kind;           /* HIDDEN: one of two, with values that are
                       known in its branch only */
  const char *name; /* ONE */
  NodeVec bound;    /* ONE: the last arguments; TUPLE: the fields */
  Node *cond;       /* CHOICE */
  const struct Fn *a, *b;
  const struct Fn **fields; /* of bound: which are functions themselves; NULL: none */
  uint32_t n;
} Fn;

/* More calls inside of each other than this pass on functions without an end; and no program is
 * made this much larger by copies of bodies. */
enum { MAX_CLOSURE_DEPTH = 64, MAX_CLOSURE_COPIES = 1 << 18 };

/* The functions that were made for calls of recursive ones. */
typedef struct {
  PassCtx *pc;
  StrMap made;     /* what was specialised for what -> Func * */
  Map depth;       /* Func * -> how many of these lie between it and the program's own */
  uint32_t copies; /* of nodes, in all */
  VarVec numbers;  /* variables that stand for those of callers in the keys of `made` */
} Specials;

void specials_init(Specials *s, PassCtx *pc);
/* A call, floating, of f specialised for the functions fns[i] among the arguments of `call` (NULL:
 * a plain value): what they bind is passed instead. NULL after an error. */
Node *specialise_call(Specials *s, Node *call, Func *f, const Fn *const *fns);

bool sinfo_holds_function(const SInfo *s);
void report_endless(PassCtx *pc, const Node *call, const Func *f);

#endif
