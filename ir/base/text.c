/* The growing string, the literals every printer needs, and the nearest name for a misspelling. */
#include "ir/base/text.h"
#include "ir/base/arena.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_free(Text *t) {
  free(t->s);
  *t = (Text){0};
}

void text_clear(Text *t) {
  t->n = 0;
  if (t->s) t->s[0] = 0;
}

/* Room for `more` characters and the NUL. */
static void text_reserve(Text *t, size_t more) {
  if (more >= SIZE_MAX / 2 - t->n) fatal("out of memory (text of %zu bytes)", t->n);
  size_t need = t->n + more + 1;
  if (need <= t->cap) return;
  size_t cap = t->cap ? t->cap : 64;
  while (cap < need) cap *= 2;
  t->s = xrealloc(t->s, cap);
  t->cap = cap;
}

void text_putc(Text *t, char c) {
  text_reserve(t, 1);
  t->s[t->n++] = c;
  t->s[t->n] = 0;
}

void text_putn(Text *t, const char *s, size_t n) {
  text_reserve(t, n);
  if (n) memcpy(t->s + t->n, s, n);
  t->n += n;
  t->s[t->n] = 0;
}

void text_insert(Text *t, size_t at, const char *s, size_t n) {
  text_reserve(t, n);
  if (t->n > at) memmove(t->s + at + n, t->s + at, t->n - at);
  if (n) memcpy(t->s + at, s, n);
  t->n += n;
  t->s[t->n] = 0;
}

void text_puts(Text *t, const char *s) {
  text_putn(t, s, strlen(s));
}

void text_indent(Text *t, int columns) {
  size_t n = columns > 0 ? (size_t)columns : 0;
  text_reserve(t, n);
  if (n) memset(t->s + t->n, ' ', n);
  t->n += n;
  t->s[t->n] = 0;
}

void text_printf(Text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(t, fmt, ap);
  va_end(ap);
}

void text_vprintf(Text *t, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  text_reserve(t, 64);
  size_t room = t->cap - t->n;
  int n = vsnprintf(t->s + t->n, room, fmt, ap);
  if (n < 0) bug("bad format '%s'", fmt);
  if ((size_t)n >= room) {
    text_reserve(t, (size_t)n);
    vsnprintf(t->s + t->n, (size_t)n + 1, fmt, again);
  }
  t->n += (size_t)n;
  va_end(again);
}

const char *text_cstr(const Text *t) {
  return t->s ? t->s : "";
}

void text_put_quoted(Text *t, const char *s, size_t n) {
  text_putc(t, '"');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"')
      text_puts(t, "\\\"");
    else if (c == '\\')
      text_puts(t, "\\\\");
    else if (c == '\t')
      text_puts(t, "\\t");
    else if (c == '\r')
      text_puts(t, "\\r");
    else if (c == '\n')
      text_puts(t, "\\n");
    else if (c < 0x20 || c > 0x7e)
      text_printf(t, "\\x%02x", c);
    else
      text_putc(t, (char)c);
  }
  text_putc(t, '"');
}

void text_put_json(Text *t, const char *s) {
  text_putc(t, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '\n') {
      text_puts(t, "\\n");
    } else if (c < 0x20) {
      text_printf(t, "\\u%04x", c);
    } else {
      if (c == '"' || c == '\\') text_putc(t, '\\');
      text_putc(t, *s);
    }
  }
  text_putc(t, '"');
}

void text_put_double(Text *t, double v) {
  if (isnan(v))
    text_puts(t, "\"nan\"");
  else if (isinf(v))
    text_puts(t, v < 0 ? "\"-inf\"" : "\"inf\"");
  else if (v == trunc(v))
    text_printf(t, "%.1f", v);
  else
    text_printf(t, "%.17g", v);
}

int text_distance(const char *a, const char *b, int limit) {
  enum { LONGEST = 255 }; /* no misspelling of a name this long is worth a guess */
  size_t na = strlen(a), nb = strlen(b);
  if (strcmp(a, b) == 0) return 0;
  if (limit < 1 || na > LONGEST || nb > LONGEST) return limit + 1;
  if ((na > nb ? na - nb : nb - na) > (size_t)limit) return limit + 1;
  int row[LONGEST + 1];
  for (size_t j = 0; j <= nb; j++) row[j] = (int)j;
  for (size_t i = 1; i <= na; i++) {
    int diagonal = row[0], least = row[0] = (int)i;
    for (size_t j = 1; j <= nb; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
      if (best < least) least = best;
    }
    if (least > limit) return limit + 1;
  }
  return row[nb] <= limit ? row[nb] : limit + 1;
}

const char *text_nearest(const char *name, const char *const *names, size_t n) {
  int limit = (int)((strlen(name) + 2) / 3);
  const char *best = NULL;
  for (size_t i = 0; i < n && limit > 0; i++) {
    int d = text_distance(name, names[i], limit);
    if (d > limit || (size_t)d >= strlen(name)) continue;
    best = names[i];
    limit = d - 1; /* the first of equals wins */
    if (d == 0) break;
  }
  return best;
}
