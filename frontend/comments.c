/* Comments of a script in the text that is printed of it: what makes `relaxc fmt` keep them.
 *
 * The program has no comments, so both ends are text. The source is cut into statements and
 * comments; the printer's marks say which printed lines came from which statement; each comment
 * goes to the lines of its statement:
 *   - above the first one, when it stood above the statement or inside of its brackets;
 *   - at the end of the last one, when it stood behind the statement;
 *   - below the last one, when it stood at the end of a block, deeper than what follows.
 * What stood above everything stays at the top. A statement that isn't printed (an import) hands
 * its comments on to the next one. A blank line after a comment stays, several become one. Printed
 * once more, the text stays as it is.
 */
#include "frontend/comments.h"
#include <stdlib.h>
#include <string.h>

enum { MEMBER = 4 }; /* indentation of a module's functions */
typedef enum { ABOVE, INSIDE, BEHIND } Place;

typedef struct {
  const char *text;
  size_t n;
  Place place;
  uint32_t statement; /* the one it belongs to; ABOVE: the next one, or their number at the end */
  uint32_t column;
  bool top;   /* above everything, also what the printer puts there */
  bool blank; /* a blank line follows */
} Comment;

/* A header of a statement or a simple one, with its decorators: one logical line. */
typedef struct {
  uint32_t begin, end, column;
  const PrintMark *first, *last; /* of its printed lines, or NULL */
} Statement;

typedef struct {
  Arena *arena;
  const char *text;
  uint32_t size, at, line; /* `line`: start of the physical line */
  VEC(Statement) statements;
  VEC(Comment) comments;
  uint32_t depth;  /* of brackets */
  bool inside;     /* of a statement */
  bool decorator;  /* the last statement is a decorator so far */
  bool module;     /* a class stands around the functions */
  bool below_head; /* something that isn't a comment of the user's was met */
} Scan;

/* ---- the source ---- */

static bool ends_line(char c) {
  return c == '\n' || c == '\r';
}

static uint32_t line_end(const Scan *s, uint32_t at) {
  while (at < s->size && !ends_line(s->text[at])) at++;
  return at;
}

/* Does a line without anything on it follow the line that ends at `at`? */
static bool blank_follows(const Scan *s, uint32_t at) {
  if (at < s->size && s->text[at] == '\r') at++;
  if (at < s->size && s->text[at] == '\n') at++;
  while (at < s->size && (s->text[at] == ' ' || s->text[at] == '\t')) at++;
  return at < s->size && ends_line(s->text[at]);
}

/* The lines that the printer writes itself. */
static bool is_generated(const char *text, size_t n) {
  static const char *const lines[] = {"# from typing import TypeVar",
                                      "# from tvm.script import ir as I",
                                      "# from tvm.script import tirx as T",
                                      "# from tvm.script import tir as T",
                                      "# from tvm.script import relax as R",
                                      "# with T.sblock(\"root\"):",
                                      "# with T.block(\"root\"):"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strlen(lines[i]) == n && memcmp(lines[i], text, n) == 0) return true;
  return false;
}

static void scan_comment(Scan *s) {
  uint32_t end = line_end(s, s->at);
  size_t n = end - s->at;
  while (n && (s->text[s->at + n - 1] == ' ' || s->text[s->at + n - 1] == '\t')) n--;
  Comment c = {.text = s->text + s->at, .n = n, .column = s->at - s->line};
  c.place = s->depth ? INSIDE : s->inside ? BEHIND : ABOVE;
  c.statement = s->statements.n - (c.place != ABOVE);
  c.blank = c.place == ABOVE && blank_follows(s, end);
  s->at = end;
  if (is_generated(c.text, c.n)) {
    s->below_head = true;
    return;
  }
  c.top = !s->below_head && c.place == ABOVE;
  vec_push(s->arena, &s->comments, c);
}

static void scan_string(Scan *s) {
  char quote = s->text[s->at];
  const char *p = s->text + s->at, *end = s->text + s->size;
  bool triple = end - p >= 3 && p[1] == quote && p[2] == quote;
  p += triple ? 3 : 1;
  while (p < end && (triple ? !(end - p >= 3 && p[0] == quote && p[1] == quote && p[2] == quote)
                            : *p != quote))
    p += *p == '\\' && end - p > 1 ? 2 : 1;
  s->at = p >= end ? s->size : (uint32_t)(p - s->text) + (triple ? 3 : 1);
}

/* The first token of a statement; a decorator and its definition are one. */
static void begin_statement(Scan *s) {
  uint32_t n = s->statements.n;
  bool decorated = s->decorator;
  s->inside = s->below_head = true;
  s->decorator = s->text[s->at] == '@';
  if (!decorated) {
    vec_push(s->arena, &s->statements, ((Statement){.begin = s->at, .column = s->at - s->line}));
    return;
  }
  for (uint32_t i = s->comments.n; i > 0 && s->comments.at[i - 1].statement == n; i--) {
    s->comments.at[i - 1].statement = n - 1;
    s->comments.at[i - 1].place = INSIDE;
  }
}

static void scan_newline(Scan *s) {
  s->line = ++s->at;
  if (!s->inside || s->depth) return;
  s->statements.at[s->statements.n - 1].end = s->at;
  s->inside = false;
}

static void scan(Scan *s) {
  while (s->at < s->size) {
    char c = s->text[s->at];
    if (c == '#') {
      scan_comment(s);
    } else if (ends_line(c)) {
      scan_newline(s);
    } else if (c == '\\' && s->at + 1 < s->size && ends_line(s->text[s->at + 1])) {
      s->at +=
          s->text[s->at + 1] == '\r' && s->at + 2 < s->size && s->text[s->at + 2] == '\n' ? 3 : 2;
    } else if (c == ' ' || c == '\t' || c == '\f' || (unsigned char)c >= 0x80) {
      s->at++; /* the last: a byte order mark */
    } else {
      if (!s->inside) begin_statement(s);
      if (c == '"' || c == '\'') {
        scan_string(s);
        continue;
      }
      if (c == '(' || c == '[' || c == '{') s->depth++;
      if ((c == ')' || c == ']' || c == '}') && s->depth) s->depth--;
      s->at++;
    }
  }
  if (s->inside) s->statements.at[s->statements.n - 1].end = s->size;
}

static void find_lines(Scan *s, const PrintMarks *marks) {
  for (uint32_t i = 0; i < marks->n; i++) {
    const PrintMark *m = &marks->at[i];
    uint32_t lo = 0, hi = s->statements.n;
    while (lo < hi) {
      uint32_t mid = (lo + hi) / 2;
      if (s->statements.at[mid].begin <= m->source)
        lo = mid + 1;
      else
        hi = mid;
    }
    Statement *x = lo ? &s->statements.at[lo - 1] : NULL;
    if (!x || m->source >= x->end) continue;
    if (!x->first) x->first = m;
    x->last = m;
  }
}

/* ---- the printed text ---- */

typedef struct {
  size_t at; /* in the printed text */
  size_t indent;
  const Comment *comment;
  bool behind, below; /* at the end of a line that is there; at the end of a block */
  uint32_t order;
} Insertion;

static size_t printed_end(const Text *t, size_t at) {
  while (at < t->n && t->s[at] != '\n') at++;
  return at;
}

static size_t indent_at(const Text *t, size_t at) {
  size_t n = 0;
  while (at + n < t->n && t->s[at + n] == ' ') n++;
  return n;
}

static void put_above(const Text *t, const PrintMark *m, Insertion *out) {
  out->at = m->out;
  out->indent = indent_at(t, m->out);
}

/* Below what was printed last of `above`: as deep as the statement, from there back, that is the
 * least deep one not left of `column`. Behind the functions of a module it goes behind all of them,
 * whose order the printer chooses. */
static void put_below(const Scan *s, const Text *t, uint32_t column, const Statement *above,
                      Insertion *out) {
  size_t end = printed_end(t, above->last->out);
  const Statement *level = above;
  for (const Statement *x = above; x >= s->statements.at && x->column >= column; x--)
    if (x->first && x->column < level->column) level = x;
  out->indent = indent_at(t, level->first->out);
  bool function = s->module && out->indent == MEMBER && t->s[level->first->out + MEMBER] == '@';
  out->at = end < t->n && !function ? end + 1 : t->n;
  out->below = true;
}

/* Where a comment goes that stands above statement `next`. */
static void place_above(const Scan *s, const Text *t, const Comment *c, Insertion *out) {
  uint32_t next = c->statement, n = s->statements.n;
  const Statement *all = s->statements.at, *above = NULL;
  uint32_t column = next < n ? all[next].column : 0;
  bool level = true; /* nothing deeper in between */
  for (uint32_t i = next; i > 0 && !above; i--) {
    level &= all[i - 1].column == column;
    if (all[i - 1].last) above = &all[i - 1];
  }
  bool deeper = c->column > column && above && above->column > column;
  bool lost = next < n && !all[next].first && above && level;
  if (deeper || lost) { /* the end of a block, or a statement that isn't marked within one */
    put_below(s, t, deeper ? c->column : column, above, out);
    return;
  }
  while (next < n && !all[next].first) next++;
  if (next < n)
    put_above(t, all[next].first, out);
  else
    *out = (Insertion){.at = t->n};
}

static Insertion place(const Scan *s, const Text *t, const Comment *c) {
  Insertion x = {0};
  const Statement *own = c->statement < s->statements.n ? &s->statements.at[c->statement] : NULL;
  if (c->top)
    x.at = 0;
  else if (c->place == ABOVE || !own || !own->first)
    place_above(s, t, c, &x);
  else if (c->place == INSIDE)
    put_above(t, own->first, &x);
  else
    x = (Insertion){.at = printed_end(t, own->last->out), .behind = true};
  x.comment = c;
  return x;
}

static int by_place(const void *a, const void *b) {
  const Insertion *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return (x->order > y->order) - (x->order < y->order);
}

static void put_comment(Text *out, const Insertion *x) {
  const Comment *c = x->comment;
  if (x->behind)
    text_puts(out, "  ");
  else
    text_indent(out, (int)x->indent);
  text_putn(out, c->text, c->n);
  if (!x->behind) text_puts(out, c->blank && !x->below ? "\n\n" : "\n");
}

void comments_keep(Arena *a, const SourceFile *source, const PrintMarks *marks, Text *t) {
  Scan s = {.arena = a, .text = source->text, .size = source->size};
  scan(&s);
  uint32_t n = s.comments.n;
  if (!n) return;
  find_lines(&s, marks);
  s.module = strstr(text_cstr(t), "\nclass Module:\n") != NULL;
  Insertion *all = ARENA_ARRAY(a, Insertion, n);
  for (uint32_t i = 0; i < n; i++) {
    all[i] = place(&s, t, &s.comments.at[i]);
    all[i].order = i;
  }
  qsort(all, n, sizeof *all, by_place);
  Text out = {0};
  size_t from = 0;
  for (uint32_t i = 0; i < n; i++) {
    text_putn(&out, t->s + from, all[i].at - from);
    from = all[i].at;
    put_comment(&out, &all[i]);
  }
  text_putn(&out, t->s + from, t->n - from);
  text_free(t);
  *t = out;
}
