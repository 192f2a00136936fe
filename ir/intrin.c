/* The intrinsics of the tensor level as a table, and its lookup by name. */
#include "ir/expr.h"
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
