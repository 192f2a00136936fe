/* A growing string with its own malloc'd memory; every printer writes into one. */
#ifndef RELAXC_BASE_TEXT_H
#define RELAXC_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  char *s; /* NUL-terminated once anything was written; may be NULL before */
  size_t n, cap;
} Text;

void text_free(Text *t);
void text_clear(Text *t);
void text_putc(Text *t, char c);
void text_puts(Text *t, const char *s);
void text_putn(Text *t, const char *s, size_t n);
void text_insert(Text *t, size_t at, const char *s, size_t n);
void text_indent(Text *t, int columns);
void text_printf(Text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(Text *t, const char *fmt, va_list ap);
/* The contents, never NULL; owned by the text. */
const char *text_cstr(const Text *t);
/* A Python/TVMScript string literal with quotes: \" \\ \t \r \n, other bytes outside 0x20..0x7e
 * as \xHH. */
void text_put_quoted(Text *t, const char *s, size_t n);
/* A JSON string with quotes. */
void text_put_json(Text *t, const char *s);
/* A float the way TVM prints it: integral values with one decimal and all digits, others %.17g;
 * inf and nan as "inf", "-inf", "nan" WITH quotes. */
void text_put_double(Text *t, double v);
/* Levenshtein distance bounded by `limit` (limit + 1 when larger). */
int text_distance(const char *a, const char *b, int limit);
/* The nearest of n names to `name`, or NULL when none is near enough to be a misspelling. */
const char *text_nearest(const char *name, const char *const *names, size_t n);

#endif
