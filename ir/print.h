/* Text of every level, in today's dialect or the earlier one; it parses again. */
#ifndef RELAXC_IR_PRINT_H
#define RELAXC_IR_PRINT_H

#include "ir/base/text.h"
#include "ir/module.h"

typedef enum { DIALECT_TODAY, DIALECT_EARLIER } Dialect;
/* --dialect=NAME; false when unknown ("tirx" = today's, "tir" = earlier). */
bool dialect_parse(const char *s, Dialect *out);

void module_print(Text *t, const Module *m, Dialect d);
/* Which line of the text came from where: a place in the source for the start of a printed line. */
typedef struct {
  uint32_t source;
  size_t out;
} PrintMark;
typedef struct {
  Arena *arena;
  PrintMark *at; /* in the order of the text */
  uint32_t n, cap;
} PrintMarks;
/* The same, and the marks of the text. */
void module_print_marked(Text *t, const Module *m, Dialect d, PrintMarks *marks);
void primfunc_print(Text *t, const PrimFunc *f, Dialect d, int indent);
void expr_print(Text *t, const Expr *e); /* as in TIR, for messages and dumps */

#endif
