/* The source line with its caret under a message, and text that is safe on a terminal. */
#ifndef RELAXC_BASE_SNIPPET_H
#define RELAXC_BASE_SNIPPET_H

#include "ir/base/source.h"
#include "ir/base/text.h"

/* The line of s.begin with a gutter, and "^~~~" below. Tabs become spaces; of a long line only 160
 * columns around the caret are shown. */
void snippet_print(Text *t, const SourceFile *f, Span s, bool color);
/* 1-based column of an offset in code points (an invalid byte counts as one). */
uint32_t snippet_column(const SourceFile *f, uint32_t offset);
/* Text as valid UTF-8 without anything a terminal would act on: control characters and invalid
 * bytes as \xNN, invisible direction marks as <U+NNNN>. */
void text_put_clean(Text *t, const char *s, size_t n);

#endif
