/* The intrinsics of the tensor level as a table, and its lookup by name. */
#include "ir/expr.h"
#include <ctype.h>
#include <string.h>

const IntrinInfo intrin_table[INTRIN_COUNT] = {
#define INTRIN(id, name, nargs, result, flags, summary)                                            \
  [INTRIN_##id] = {name, nargs, result, (uint8_t)(flags), summary},
#include "ir/intrins.def"
#undef INTRIN
};

int intrin_find(const char *name) {
  for (int i = 0; i < INTRIN_COUNT; i++)
    if (strcmp(intrin_table[i].name, name) == 0) return i;
  return -1;
}

const char *intrin_atomic(const Expr *call) {
  static const char *const prefixes[] = {"atomic_", "__atomic_", "__sync_"};
  if (call->kind != EXPR_CALL) return NULL;
  const IntrinInfo *info = &intrin_table[call->intrin];
  if (info->flags & INTRIN_ATOMIC) return info->name;
  bool by_name = call->intrin == INTRIN_call_extern || call->intrin == INTRIN_call_pure_extern;
  if (!by_name || !call->n || call->arg[0]->kind != EXPR_STR) return NULL;
  const char *name = call->arg[0]->s;
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return name;
  bool cuda = strncmp(name, "atomic", 6) == 0 && isupper((unsigned char)name[6]);
  return cuda ? name : NULL;
}
