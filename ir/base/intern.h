/* Interned strings: equal text is one pointer for the whole session. */
#ifndef RELAXC_BASE_INTERN_H
#define RELAXC_BASE_INTERN_H

#include "ir/base/arena.h"

typedef struct StrPool StrPool;

StrPool *strpool_create(Arena *a);
const char *strpool_intern(StrPool *p, const char *s, size_t n);

#endif
