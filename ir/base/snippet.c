/* Source snippets: a line is a row of cells (one per code point or bad byte), each with the text
 * that shows it and its width in columns. The window of a long line is found from the caret
 * outwards, so that a line of a gigabyte costs no more than a short one.
 */
#include "ir/base/snippet.h"
#include <string.h>

enum { COLUMNS_MAX = 160, COLUMNS_BEFORE = 60, TAB = 8, CELL_MAX = 16 };

/* Length of the UTF-8 sequence at s (1 to 4) and its code point; 0 when it is not valid: cut off,
 * overlong, a surrogate, or beyond U+10FFFF. */
static size_t decode(const unsigned char *s, size_t n, uint32_t *cp) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  if (n == 0) return 0;
  *cp = s[0];
  if (s[0] < 0x80) return 1;
  size_t len = s[0] >= 0xf8 ? 0 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
  if (len == 0 || len > n) return 0;
  uint32_t c = s[0] & (0x7fu >> len);
  for (size_t i = 1; i < len; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    c = c << 6 | (s[i] & 0x3fu);
  }
  if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
  *cp = c;
  return len;
}

typedef struct {
  uint32_t first, last;
} Range;

static bool in_ranges(uint32_t c, const Range *r, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (c >= r[i].first && c <= r[i].last) return true;
  return false;
}

/* Characters that a terminal obeys or hides: C1 controls, line separators, direction marks. */
static bool is_invisible(uint32_t c) {
  static const Range r[] = {{0x80, 0x9f},     {0xad, 0xad},      {0x61c, 0x61c},
                            {0x200b, 0x200f}, {0x2028, 0x202e},  {0x2060, 0x206f},
                            {0xfeff, 0xfeff}, {0xe0000, 0xe007f}};
  return in_ranges(c, r, sizeof r / sizeof *r);
}

/* Columns of a visible character (East Asian wide ones take two, combining marks none). */
static uint32_t char_width(uint32_t c) {
  static const Range wide[] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf},   {0xac00, 0xd7a3},
                               {0xf900, 0xfaff}, {0xfe30, 0xfe6f},   {0xff00, 0xff60},
                               {0xffe0, 0xffe6}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
  static const Range none[] = {
      {0x300, 0x36f}, {0x1ab0, 0x1aff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}};
  if (c < 0x300) return 1;
  if (in_ranges(c, none, sizeof none / sizeof *none)) return 0;
  return in_ranges(c, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

typedef struct {
  size_t bytes;   /* of the source */
  uint32_t width; /* columns */
  bool raw;       /* shown as it is; otherwise by `text` */
  char text[CELL_MAX];
} Cell;

static void put_hex(char *out, uint32_t v, int digits, const char *alphabet) {
  for (int i = digits - 1; i >= 0; i--, v >>= 4) out[i] = alphabet[v & 15];
}

/* The cell at s, of n bytes that are there; a tab has width 0 (the caller knows the column). */
static Cell cell_at(const char *s, size_t n) {
  Cell c = {.raw = true};
  uint32_t cp;
  c.bytes = decode((const unsigned char *)s, n, &cp);
  if (c.bytes == 0 || cp < 0x20 || cp == 0x7f) {
    if (c.bytes == 1 && cp == '\t') return c;
    c.bytes = 1;
    c.raw = false;
    c.width = 4;
    memcpy(c.text, "\\x", 2);
    put_hex(c.text + 2, (unsigned char)*s, 2, "0123456789abcdef");
  } else if (is_invisible(cp)) {
    int digits = cp > 0xffff ? 5 : 4;
    c.raw = false;
    memcpy(c.text, "<U+", 3);
    put_hex(c.text + 3, cp, digits, "0123456789ABCDEF");
    c.text[3 + digits] = '>';
    c.width = (uint32_t)digits + 4;
  } else {
    c.width = char_width(cp);
  }
  return c;
}

void text_put_clean(Text *t, const char *s, size_t n) {
  while (n) {
    Cell c = cell_at(s, n);
    if (c.raw && *s != '\t')
      text_putn(t, s, c.bytes);
    else
      text_puts(t, c.raw ? " " : c.text);
    s += c.bytes;
    n -= c.bytes;
  }
}

uint32_t snippet_column(const SourceFile *f, uint32_t offset) {
  uint32_t line, col, n = 1;
  sources_position(f, offset, &line, &col);
  const unsigned char *s = (const unsigned char *)f->text + f->lines[line - 1];
  size_t left = f->size - f->lines[line - 1];
  for (size_t at = 0; at + 1 < col; n++) {
    uint32_t cp;
    size_t len = decode(s + at, left - at, &cp);
    at += len ? len : 1;
  }
  return n;
}

/* The offset of the character before `at`, not before `begin`. */
static uint32_t step_back(const char *s, uint32_t begin, uint32_t at) {
  uint32_t p = at - 1;
  while (p > begin && at - p < 4 && ((unsigned char)s[p] & 0xc0) == 0x80) p--;
  uint32_t cp;
  return decode((const unsigned char *)s + p, at - p, &cp) == at - p ? p : at - 1;
}

static uint32_t cell_width(const char *s, size_t n, uint32_t column) {
  return *s == '\t' ? TAB - column % TAB : cell_at(s, n).width;
}

/* Columns of [begin, end), counted up to one more than the limit. */
static uint32_t line_width(const char *s, uint32_t begin, uint32_t end) {
  uint32_t w = 0;
  for (uint32_t p = begin; p < end && w <= COLUMNS_MAX;
       p += (uint32_t)cell_at(s + p, end - p).bytes)
    w += cell_width(s + p, end - p, w);
  return w;
}

void snippet_print(Text *t, const SourceFile *f, Span span, bool color) {
  uint32_t line, col;
  sources_position(f, span.begin, &line, &col);
  const char *s = f->text;
  uint32_t at = span.begin < f->size ? span.begin : f->size;
  uint32_t begin = f->lines[line - 1];
  uint32_t end = line < f->nlines ? f->lines[line] - 1 : f->size;
  if (end > begin && s[end - 1] == '\r') end--;
  if (at > end) at = end;
  uint32_t mark_end = span.end < end ? span.end : end;
  bool cut = line_width(s, begin, end) > COLUMNS_MAX, cut_left = false;
  uint32_t p = begin;
  if (cut) {
    uint32_t w = 0;
    for (p = at; p > begin && w < COLUMNS_BEFORE; w += cell_width(s + p, end - p, 0))
      p = step_back(s, begin, p);
    cut_left = p > begin;
  }
  Text marks = {0};
  text_printf(t, "%5u | ", line);
  uint32_t w = 0;
  if (cut_left) {
    text_puts(t, "...");
    text_puts(&marks, "   ");
    w = 3;
  }
  bool done = false;
  while (p < end) {
    Cell c = cell_at(s + p, end - p);
    uint32_t width = cell_width(s + p, end - p, w);
    if (cut && w + width > COLUMNS_MAX - 3) {
      text_puts(t, "...");
      break;
    }
    if (s[p] == '\t')
      text_indent(t, (int)width);
    else if (c.raw)
      text_putn(t, s + p, c.bytes);
    else
      text_puts(t, c.text);
    for (uint32_t i = 0; i < width; i++) {
      bool caret = p == at && i == 0, in = p >= at && p < mark_end;
      text_putc(&marks, caret ? '^' : in ? '~' : ' ');
    }
    if (p == at && width) done = true;
    w += width;
    p += (uint32_t)c.bytes;
  }
  if (!done) text_putc(&marks, '^'); /* at the end of the line */
  while (marks.n && marks.s[marks.n - 1] == ' ') marks.s[--marks.n] = 0;
  text_printf(t, "\n      | %s%s%s\n", color ? "\033[0;1;32m" : "", text_cstr(&marks),
              color ? "\033[0m" : "");
  text_free(&marks);
}
