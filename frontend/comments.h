/* Comments of a script in the text that is printed of it. */
#ifndef RELAXC_FRONTEND_COMMENTS_H
#define RELAXC_FRONTEND_COMMENTS_H

#include "ir/base/source.h"
#include "ir/print.h"

/* Puts the comments of `source` into `t`, which module_print_marked printed of it. */
void comments_keep(Arena *a, const SourceFile *source, const PrintMarks *marks, Text *t);

#endif
