/* Lexer: bytes to tokens, with Python's layout rules.
 *
 * One call gives one token. Layout (NEWLINE, INDENT, DEDENT) comes from small counters in the
 * state, the rest from one re2c scanner. A keyword is a name where no keyword can stand (after a
 * dot, as an operand), because TVM prints parameters called `in`. Broken input becomes a
 * diagnostic and the error token, which makes the parser resume at the next statement.
 * Source: Python 3's language reference, chapter 2.
 */
#include "frontend/script/parser.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*!re2c
  re2c:define:YYCTYPE = "unsigned char";
  re2c:yyfill:enable = 0;
  re2c:flags:tags = 0;
  end = "\x00";
*/

int script_yylex(SCRIPT_YYSTYPE *value, SCRIPT_YYLTYPE *loc, ScriptParser *p);

static uint32_t offset_of(const ScriptParser *p, const char *s) {
  return (uint32_t)(s - p->text) + p->base;
}

static Span here(const ScriptParser *p, const char *begin, const char *end) {
  return script_span(p, offset_of(p, begin), offset_of(p, end));
}

/* ---- names and keywords ---- */

/* True when the token before ends an operand, so that an operator or keyword may follow. */
static bool after_operand(int previous) {
  switch (previous) {
  case TOK_NAME:
  case TOK_NUMBER:
  case TOK_STRING:
  case TOK_CONSTANT:
  case TOK_ELLIPSIS:
  case ')':
  case ']':
  case '}': return true;
  default: return false;
  }
}

static bool at_statement(const ScriptParser *p) {
  int t = p->previous;
  return t == 0 || t == TOK_NEWLINE || t == TOK_INDENT || t == TOK_DEDENT || t == ';' ||
         (t == ':' && p->n_brackets == 0);
}

/* Does this keyword stand where only a name can? */
static bool keyword_as_name(const ScriptParser *p, int keyword) {
  int t = p->previous;
  if (keyword == TOK_IMPORT && p->in_from) return false;
  if (t == '.' || t == TOK_DEF) return true;
  if (keyword == TOK_CONSTANT || keyword == TOK_NOT || keyword == TOK_LAMBDA) return false;
  if (at_statement(p))
    return keyword == TOK_IN || keyword == TOK_IS || keyword == TOK_AND || keyword == TOK_OR ||
           keyword == TOK_AS;
  if (after_operand(t)) return false;
  /* left: an operand is expected; IMPORT follows "from ." */
  return keyword != TOK_IMPORT && keyword != TOK_UNSUPPORTED && keyword != TOK_IF &&
         keyword != TOK_ELSE && keyword != TOK_FOR;
}

/* Is the next word on this line `word`? Gives the place behind it. */
static const char *next_word(const char *s, const char *word) {
  while (*s == ' ' || *s == '\t') s++;
  size_t n = strlen(word);
  if (strncmp(s, word, n) != 0) return NULL;
  unsigned char c = (unsigned char)s[n];
  if (c == '_' || c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
      (c >= 'A' && c <= 'Z'))
    return NULL;
  return s + n;
}

static int lex_name(ScriptParser *p, SCRIPT_YYSTYPE *value, const char *begin) {
  value->name = strpool_intern(p->ctx->strings, begin, (size_t)(p->cursor - begin));
  return TOK_NAME;
}

static int lex_keyword(ScriptParser *p, SCRIPT_YYSTYPE *value, const char *begin, int k) {
  if (keyword_as_name(p, k)) return lex_name(p, value, begin);
  const char *after = NULL;
  if (k == TOK_NOT && after_operand(p->previous) && (after = next_word(p->cursor, "in"))) {
    p->cursor = after;
    return TOK_NOT_IN;
  }
  if (k == TOK_IS && (after = next_word(p->cursor, "not"))) {
    p->cursor = after;
    return TOK_IS_NOT;
  }
  if (k == TOK_CONSTANT) {
    TreeLoc loc = {offset_of(p, begin), offset_of(p, p->cursor)};
    value->tree = tree_new(p, TREE_CONST, loc);
    value->tree->op = *begin == 'F' ? TREE_FALSE : *begin == 'T' ? TREE_TRUE : TREE_NONE;
  }
  return k;
}

/* ---- numbers ---- */

static int lex_number(ScriptParser *p, SCRIPT_YYSTYPE *value, const char *begin, int base) {
  size_t n = (size_t)(p->cursor - begin);
  TreeLoc loc = {offset_of(p, begin), offset_of(p, p->cursor)};
  Tree *t = tree_new(p, base ? TREE_INT : TREE_FLOAT, loc);
  value->tree = t;
  if (!base) {
    char local[64], *digits = n < sizeof local ? local : xmalloc(n + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
      if (begin[i] != '_') digits[k++] = begin[i];
    digits[k] = 0;
    t->fval = strtod(digits, NULL);
    if (digits != local) free(digits);
    return TOK_NUMBER;
  }
  size_t i = base == 10 ? 0 : 2;
  uint64_t v = 0;
  for (; i < n; i++) {
    char c = begin[i];
    if (c == '_') continue;
    unsigned digit = c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a' + 10);
    uint64_t next = v * (unsigned)base + digit;
    if (v > (UINT64_MAX - digit) / (unsigned)base) t->flags |= TREE_BIG;
    v = next;
  }
  t->ival = v;
  if (base == 10 && n > 1 && begin[0] == '0' && v != 0) {
    diag_error(p->ctx->diags, here(p, begin, p->cursor),
               "a decimal number cannot start with 0; write 0o for octal");
    return TOK_SCRIPT_YYerror;
  }
  return TOK_NUMBER;
}

/* ---- strings ---- */

static size_t put_utf8(char *o, uint32_t c) {
  if (c < 0x80) {
    o[0] = (char)c;
    return 1;
  }
  if (c < 0x800) {
    o[0] = (char)(0xc0 | c >> 6);
    o[1] = (char)(0x80 | (c & 63));
    return 2;
  }
  if (c < 0x10000) {
    o[0] = (char)(0xe0 | c >> 12);
    o[1] = (char)(0x80 | (c >> 6 & 63));
    o[2] = (char)(0x80 | (c & 63));
    return 3;
  }
  o[0] = (char)(0xf0 | c >> 18);
  o[1] = (char)(0x80 | (c >> 12 & 63));
  o[2] = (char)(0x80 | (c >> 6 & 63));
  o[3] = (char)(0x80 | (c & 63));
  return 4;
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Decodes the escapes of [s, end) into `out`; returns the length, or SIZE_MAX after an error. */
static size_t decode(ScriptParser *p, const char *s, const char *end, bool bytes, char *out) {
  char *o = out;
  while (s < end) {
    if (*s == '\r') { /* line ends inside a literal are \n */
      *o++ = '\n';
      s += s + 1 < end && s[1] == '\n' ? 2 : 1;
      continue;
    }
    if (*s != '\\') {
      *o++ = *s++;
      continue;
    }
    const char *at = s++;
    char c = *s++;
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *f = c ? strchr(from, c) : NULL;
    int digits = c == 'x' ? 2 : c == 'u' && !bytes ? 4 : c == 'U' && !bytes ? 8 : 0;
    if (f) {
      *o++ = to[f - from];
    } else if (c == '\n') {
    } else if (c == '\r') {
      if (s < end && *s == '\n') s++;
    } else if (c >= '0' && c <= '7') {
      unsigned v = (unsigned)(c - '0');
      for (int i = 0; i < 2 && s < end && *s >= '0' && *s <= '7'; i++)
        v = v * 8 + (unsigned)(*s++ - '0');
      *o++ = (char)v;
    } else if (digits) {
      uint32_t v = 0;
      int i = 0;
      for (; i < digits && s < end && hex_digit(*s) >= 0; i++)
        v = v * 16 + (uint32_t)hex_digit(*s++);
      if (i < digits || v > 0x10ffff || (digits > 2 && v >= 0xd800 && v < 0xe000)) {
        diag_error(p->ctx->diags, here(p, at, s), "bad escape: \\%c takes %d hexadecimal digits%s",
                   c, digits, i == digits ? " of a valid character" : "");
        return SIZE_MAX;
      }
      if (digits == 2)
        *o++ = (char)v; /* TVM prints \xHH per byte */
      else
        o += put_utf8(o, v);
    } else if (c == 'N' && !bytes) {
      diag_error(p->ctx->diags, here(p, at, s), "\\N{...} escapes are not supported");
      return SIZE_MAX;
    } else { /* unknown escapes stay, as in Python */
      *o++ = '\\';
      *o++ = c;
    }
  }
  return (size_t)(o - out);
}

/* The cursor stands behind the opening quote(s); `prefix` is what stood before them. */
static int lex_string(ScriptParser *p, SCRIPT_YYSTYPE *value, const char *begin, char quote,
                      bool triple) {
  bool raw = false, bytes = false, format = false;
  for (const char *s = begin; *s != quote; s++) {
    raw |= *s == 'r' || *s == 'R';
    bytes |= *s == 'b' || *s == 'B';
    format |= *s == 'f' || *s == 'F';
  }
  const char *s = p->cursor, *body = s;
  bool escapes = false;
  for (;; s++) {
    if (s >= p->limit) break;
    if (*s == quote && (!triple || (s[1] == quote && s[2] == quote))) break;
    if ((*s == '\n' || *s == '\r') && !triple) break;
    if (*s == '\r') escapes = true;
    if (*s == '\\' && s + 1 < p->limit) {
      escapes |= !raw;
      s++;
      if (*s == '\r' && s[1] == '\n') s++;
    }
  }
  const char *end = s;
  if (s >= p->limit || *s != quote) {
    const char *first = p->cursor < p->limit ? p->cursor : p->limit;
    diag_error(p->ctx->diags, here(p, begin, first),
               triple ? "unterminated triple-quoted string" : "unterminated string");
    p->cursor = s < p->limit ? s : p->limit;
    return TOK_SCRIPT_YYerror;
  }
  p->cursor = s + (triple ? 3 : 1);
  if (format) {
    diag_error(p->ctx->diags, here(p, begin, p->cursor), "f-strings are not part of the language");
    return TOK_SCRIPT_YYerror;
  }
  TreeLoc loc = {offset_of(p, begin), offset_of(p, p->cursor)};
  Tree *t = tree_new(p, TREE_STR, loc);
  t->flags = bytes ? TREE_BYTES : 0;
  size_t n = (size_t)(end - body);
  if (escapes && !raw) {
    char *out = arena_alloc(p->arena, n + 1);
    n = decode(p, body, end, bytes, out);
    if (n == SIZE_MAX) return TOK_SCRIPT_YYerror;
    t->str = out;
  } else if (n <= 32 && !memchr(body, 0, n)) {
    t->str = strpool_intern(p->ctx->strings, body, n);
  } else {
    t->str = arena_strndup(p->arena, body, n);
  }
  t->n = (uint32_t)n;
  value->tree = t;
  return TOK_STRING;
}

/* ---- brackets ---- */

static int open_bracket(ScriptParser *p, const char *at) {
  if (p->n_brackets == SCRIPT_MAX_NESTING) {
    diag_error(p->ctx->diags, here(p, at, at + 1), "brackets are nested too deeply: more than %d",
               SCRIPT_MAX_NESTING);
    return TOK_SCRIPT_YYerror;
  }
  OpenBracket b = {offset_of(p, at), *at};
  p->brackets[p->n_brackets++] = b;
  return *at;
}

static int close_bracket(ScriptParser *p, const char *at) {
  Diags *d = p->ctx->diags;
  if (p->n_brackets == 0) {
    diag_error(d, here(p, at, at + 1), "'%c' without an opening bracket", *at);
    return TOK_SCRIPT_YYerror;
  }
  OpenBracket b = p->brackets[p->n_brackets - 1];
  char want = b.open == '(' ? ')' : b.open == '[' ? ']' : '}';
  if (*at != want) {
    diag_error(d, here(p, at, at + 1), "expected '%c' to close '%c' but got '%c'", want, b.open,
               *at);
    diag_note(d, script_span(p, b.offset, b.offset + 1), "'%c' opened here", b.open);
    return TOK_SCRIPT_YYerror;
  }
  p->n_brackets--;
  return *at;
}

/* ---- layout ---- */

/* Columns of the whitespace before `s`: tabs to multiples of 8, and tabs as one. */
static const char *measure(const char *s, uint32_t *columns, uint32_t *columns1) {
  uint32_t c = 0, c1 = 0;
  for (;; s++) {
    if (*s == ' ')
      c++, c1++;
    else if (*s == '\t')
      c = c / 8 * 8 + 8, c1++;
    else if (*s == '\f')
      c = c1 = 0;
    else
      break;
  }
  *columns = c;
  *columns1 = c1;
  return s;
}

/* Handles indentation at the start of a logical line; leaves the cursor at its first token. Returns
 * a token, or 0 to go on. */
static int begin_line(ScriptParser *p) {
  uint32_t column = 0, column1 = 0;
  const char *s = p->cursor;
  for (;;) { /* blank lines and comments don't count */
    s = measure(s, &column, &column1);
    if (*s == '#')
      while (*s != '\n' && *s != '\r' && s < p->limit) s++;
    if (*s != '\n' && *s != '\r') break;
    s++;
  }
  p->cursor = s;
  p->line_start = false;
  if (s >= p->limit) column = column1 = 0;
  bool block = p->previous == TOK_NEWLINE && p->empty_block;
  uint32_t top = p->indent[p->n_indent - 1], top1 = p->indent1[p->n_indent - 1];
  const char *first = s - column1;
  if (first < p->text) first = p->text;
  Span margin = here(p, first, s);
  Span token = here(p, s, s < p->limit ? s + 1 : s);
  if ((column > top) != (column1 > top1) || (column == top) != (column1 == top1)) {
    diag_error(p->ctx->diags, margin.begin < margin.end ? margin : token,
               "inconsistent use of tabs and spaces in indentation");
    column1 = top1;
    column = top;
  }
  if (block && column <= top) {
    diag_error(p->ctx->diags, token, "expected an indented block after ':'");
    p->empty_block = 2; /* INDENT was given by the caller; BAD_STATEMENT, NEWLINE remain */
  } else {
    p->empty_block = 0;
  }
  if (column > top) {
    if (p->n_indent > SCRIPT_MAX_INDENT) {
      diag_error(p->ctx->diags, token, "blocks are nested too deeply: more than %d levels",
                 SCRIPT_MAX_INDENT);
      p->cursor = p->limit;
      return 0;
    }
    p->indent[p->n_indent] = column;
    p->indent1[p->n_indent++] = column1;
    return TOK_INDENT;
  }
  uint32_t n = p->n_indent;
  while (p->indent[n - 1] > column) n--;
  if (p->indent[n - 1] < column) {
    diag_error(p->ctx->diags, token, "unindent does not match any outer indentation level");
    /* go on with the nearer level */
    if (p->indent[n] - column <= column - p->indent[n - 1]) n++;
  }
  p->pending_dedents = p->n_indent - n;
  p->n_indent = n;
  return 0;
}

/* After a syntax error: to the end of the statement, so that the next token is NEWLINE. Inside
 * brackets, to the line after the bracket closed, but no further than a line that starts at the
 * block's indentation or left of it. */
static void skip_statement(ScriptParser *p) {
  const char *s = p->cursor;
  uint32_t depth = p->n_brackets;
  uint32_t left = p->indent[p->n_indent - 1];
  if (depth && p->fresh_line) { /* the unexpected token itself starts a line */
    const char *line = p->text + (p->token_begin - p->base);
    while (line > p->text && line[-1] != '\n' && line[-1] != '\r') line--;
    uint32_t c = 0, c1 = 0;
    measure(line, &c, &c1);
    if (c <= left) {
      p->cursor = line;
      p->n_brackets = 0;
      return;
    }
  }
  while (s < p->limit) {
    char c = *s;
    if (c == '\n' || c == '\r') {
      s++;
      if (depth == 0) break;
      uint32_t column = 0, column1 = 0;
      const char *t = measure(s, &column, &column1);
      bool empty = *t == '\n' || *t == '\r' || *t == '#' || t >= p->limit;
      bool closes = *t == ')' || *t == ']' || *t == '}';
      if (!empty && !closes && column <= left) break;
      continue;
    }
    if (c == '#') {
      while (s < p->limit && *s != '\n' && *s != '\r') s++;
      continue;
    }
    if (c == '"' || c == '\'') { /* strings hide brackets */
      bool triple = s[1] == c && s[2] == c;
      const char *t = s + (triple ? 3 : 1);
      while (t < p->limit && (triple ? !(t[0] == c && t[1] == c && t[2] == c)
                                     : *t != c && *t != '\n' && *t != '\r'))
        t += *t == '\\' && t + 1 < p->limit ? 2 : 1;
      s = t >= p->limit ? p->limit : *t == c ? t + (triple ? 3 : 1) : t;
      continue;
    }
    if (c == '(' || c == '[' || c == '{')
      depth++;
    else if ((c == ')' || c == ']' || c == '}') && depth)
      depth--;
    s++;
  }
  p->cursor = s;
  p->n_brackets = 0;
}

static int scan(ScriptParser *p, SCRIPT_YYSTYPE *value, SCRIPT_YYLTYPE *loc);

/* The token proper: layout first, then the scanner. */
static int next_token(ScriptParser *p, SCRIPT_YYSTYPE *value, SCRIPT_YYLTYPE *loc) {
  if (p->recover) {
    p->recover = false;
    p->previous = 0;
    if (p->requeue && p->requeued != p->cursor) { /* NEWLINE, then that token again */
      p->requeued = p->cursor;
      return TOK_NEWLINE;
    }
    p->requeue = 0;
    skip_statement(p);
    p->line_start = true;
    return TOK_NEWLINE;
  }
  if (p->requeue) {
    int t = p->requeue;
    p->requeue = 0;
    return t;
  }
  if (p->line_start) {
    p->empty_block = p->block_due;
    p->block_due = false;
    int t = begin_line(p);
    loc->begin = loc->end = offset_of(p, p->cursor);
    if (p->empty_block == 2) return TOK_INDENT;
    if (t) {
      loc->end = loc->begin + (p->cursor < p->limit);
      return t;
    }
  }
  if (p->empty_block == 2) {
    p->empty_block = 3;
    return TOK_BAD_STATEMENT;
  }
  if (p->empty_block == 3) {
    p->empty_block = 0;
    p->pending_dedents++;
    return TOK_NEWLINE;
  }
  if (p->pending_dedents) {
    p->pending_dedents--;
    return TOK_DEDENT;
  }
  return scan(p, value, loc);
}

int script_yylex(SCRIPT_YYSTYPE *value, SCRIPT_YYLTYPE *loc, ScriptParser *p) {
  loc->begin = loc->end = offset_of(p, p->cursor);
  int t = next_token(p, value, loc);
  if (t == TOK_SCRIPT_YYerror) p->recover = true;
  if (t != TOK_NEWLINE && t != TOK_DEDENT) p->gave_back = false;
  if (t == TOK_FROM) p->in_from = true;
  if (t == TOK_NEWLINE || t == TOK_IMPORT) p->in_from = false;
  if (t == TOK_NEWLINE) p->block_due = p->previous == ':';
  p->previous = t;
  return t;
}

static int scan(ScriptParser *p, SCRIPT_YYSTYPE *value, SCRIPT_YYLTYPE *loc) {
  const char *begin = p->cursor, *YYMARKER;
  int token = 0;
  p->fresh_line = false;
#define TOKEN(t)                                                                                   \
  do {                                                                                             \
    token = (t);                                                                                   \
    goto done;                                                                                     \
  } while (0)
#define AUGMENTED(o)                                                                               \
  do {                                                                                             \
    value->op = (o);                                                                               \
    TOKEN(TOK_AUGMENT);                                                                            \
  } while (0)
#define KEYWORD(k) TOKEN(lex_keyword(p, value, begin, (k)))
#define YYCURSOR p->cursor
again:
  begin = p->cursor;
  /*!re2c
    re2c:api:style = free-form;

    eol = "\r\n" | "\n" | "\r";
    digits = [0-9] ("_"? [0-9])*;
    exponent = [eE] [+-]? digits;
    prefix = [rRbBuUfF]{0,2};

    [ \t\f]+ { goto again; }
    "#" [^\n\r\x00]* { goto again; }
    "\\" eol { goto again; }
    eol {
      if (p->n_brackets) {
        p->fresh_line = true;
        goto again;
      }
      p->line_start = true;
      TOKEN(TOK_NEWLINE);
    }

    "False" | "None" | "True" { KEYWORD(TOK_CONSTANT); }
    "and" { KEYWORD(TOK_AND); }
    "as" { KEYWORD(TOK_AS); }
    "assert" { KEYWORD(TOK_ASSERT); }
    "async" | "await" | "del" | "except" | "finally" | "global" |
    "nonlocal" | "raise" | "try" | "yield" { KEYWORD(TOK_UNSUPPORTED); }
    "break" { KEYWORD(TOK_BREAK); }
    "class" { KEYWORD(TOK_CLASS); }
    "continue" { KEYWORD(TOK_CONTINUE); }
    "def" { KEYWORD(TOK_DEF); }
    "elif" { KEYWORD(TOK_ELIF); }
    "else" { KEYWORD(TOK_ELSE); }
    "for" { KEYWORD(TOK_FOR); }
    "from" { KEYWORD(TOK_FROM); }
    "if" { KEYWORD(TOK_IF); }
    "import" { KEYWORD(TOK_IMPORT); }
    "in" { KEYWORD(TOK_IN); }
    "is" { KEYWORD(TOK_IS); }
    "lambda" { KEYWORD(TOK_LAMBDA); }
    "not" { KEYWORD(TOK_NOT); }
    "or" { KEYWORD(TOK_OR); }
    "pass" { KEYWORD(TOK_PASS); }
    "return" { KEYWORD(TOK_RETURN); }
    "while" { KEYWORD(TOK_WHILE); }
    "with" { KEYWORD(TOK_WITH); }
    [a-zA-Z_] [a-zA-Z_0-9]* { TOKEN(lex_name(p, value, begin)); }

    digits { TOKEN(lex_number(p, value, begin, 10)); }
    "0" [xX] ("_"? [0-9a-fA-F])+ { TOKEN(lex_number(p, value, begin, 16)); }
    "0" [oO] ("_"? [0-7])+ { TOKEN(lex_number(p, value, begin, 8)); }
    "0" [bB] ("_"? [01])+ { TOKEN(lex_number(p, value, begin, 2)); }
    (digits "." digits? | "." digits) exponent? | digits exponent {
      TOKEN(lex_number(p, value, begin, 0));
    }
    (digits "."? digits? | "." digits) exponent? [jJ] {
      diag_error(p->ctx->diags, here(p, begin, p->cursor), "complex numbers are not supported");
      TOKEN(TOK_SCRIPT_YYerror);
    }
    digits [a-zA-Z_] [a-zA-Z_0-9]* {
      diag_error(p->ctx->diags, here(p, begin, p->cursor), "invalid number '%.*s'",
                 (int)(p->cursor - begin > 40 ? 40 : p->cursor - begin), begin);
      TOKEN(TOK_SCRIPT_YYerror);
    }

    prefix "\"\"\"" { TOKEN(lex_string(p, value, begin, '"', true)); }
    prefix "'''" { TOKEN(lex_string(p, value, begin, '\'', true)); }
    prefix "\"" { TOKEN(lex_string(p, value, begin, '"', false)); }
    prefix "'" { TOKEN(lex_string(p, value, begin, '\'', false)); }

    [([{] { TOKEN(open_bracket(p, begin)); }
    [)}] | "]" { TOKEN(close_bracket(p, begin)); }

    "..." { TOKEN(TOK_ELLIPSIS); }
    "->" { TOKEN(TOK_ARROW); }
    "**" { TOKEN(TOK_POW); }
    "//" { TOKEN(TOK_FLOORDIV); }
    "<<" { TOKEN(TOK_SHL); }
    ">>" { TOKEN(TOK_SHR); }
    "<=" { TOKEN(TOK_LE); }
    ">=" { TOKEN(TOK_GE); }
    "==" { TOKEN(TOK_EQ); }
    "!=" { TOKEN(TOK_NE); }
    "+=" { AUGMENTED(TREE_ADD); }
    "-=" { AUGMENTED(TREE_SUB); }
    "*=" { AUGMENTED(TREE_MUL); }
    "/=" { AUGMENTED(TREE_DIV); }
    "//=" { AUGMENTED(TREE_FLOORDIV); }
    "%=" { AUGMENTED(TREE_MOD); }
    "**=" { AUGMENTED(TREE_POW); }
    "@=" { AUGMENTED(TREE_MATMUL); }
    "|=" { AUGMENTED(TREE_BITOR); }
    "^=" { AUGMENTED(TREE_BITXOR); }
    "&=" { AUGMENTED(TREE_BITAND); }
    "<<=" { AUGMENTED(TREE_SHL); }
    ">>=" { AUGMENTED(TREE_SHR); }
    [-+*/%@|^&~<>=.,:;] { TOKEN((unsigned char)*begin); }

    end {
      if (begin < p->limit) {
        diag_error(p->ctx->diags, here(p, begin, p->cursor), "NUL byte in the text");
        while (p->cursor < p->limit && *p->cursor == 0) p->cursor++;
        TOKEN(TOK_SCRIPT_YYerror);
      }
      p->cursor = p->limit;
      p->fresh_line = false; /* there is no token that could start a statement */
      loc->begin = loc->end = offset_of(p, p->limit);
      if (p->n_brackets) {
        OpenBracket b = p->brackets[p->n_brackets - 1];
        diag_error(p->ctx->diags, here(p, p->limit, p->limit),
                   "expected '%c' to close '%c' but got the end of the file",
                   b.open == '(' ? ')' : b.open == '[' ? ']' : '}', b.open);
        diag_note(p->ctx->diags, script_span(p, b.offset, b.offset + 1), "'%c' opened here",
                  b.open);
        return TOK_SCRIPT_YYerror;
      }
      if (!p->ended && p->previous && p->previous != TOK_NEWLINE && p->previous != TOK_DEDENT) {
        p->ended = true;
        p->line_start = true;
        return TOK_NEWLINE;
      }
      return 0;
    }
    [\x80-\xff]+ {
      diag_error(p->ctx->diags, here(p, begin, p->cursor),
                 "unexpected character outside ASCII; only strings and comments may hold it");
      TOKEN(TOK_SCRIPT_YYerror);
    }
    * {
      unsigned char c = (unsigned char)*begin;
      if (c == '\\')
        diag_error(p->ctx->diags, here(p, begin, p->cursor),
                   "a backslash must be the last character of its line");
      else if (c < 0x20 || c == 0x7f)
        diag_error(p->ctx->diags, here(p, begin, p->cursor), "unexpected byte \\x%02x", c);
      else
        diag_error(p->ctx->diags, here(p, begin, p->cursor), "unexpected character '%c'", c);
      TOKEN(TOK_SCRIPT_YYerror);
    }
  */
done:
  loc->begin = p->token_begin = offset_of(p, begin);
  loc->end = offset_of(p, p->cursor);
  return token;
}
