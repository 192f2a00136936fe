/* What lexer and grammar share: the state of one parse.
 *
 * The lexer turns layout into tokens: NEWLINE, INDENT and DEDENT outside brackets, nothing inside
 * them. After a syntax error it skips to the end of the statement and hands out one NEWLINE, so
 * that the grammar's `error NEWLINE` rule resumes with the next statement. A bracket that is never
 * closed must not eat the file: a line in brackets that starts left of, or at, the indentation of
 * its statement's block ends the statement too.
 */
#ifndef RELAXC_FRONTEND_SCRIPT_PARSE_H
#define RELAXC_FRONTEND_SCRIPT_PARSE_H

#include "frontend/script/tree.h"

enum { SCRIPT_MAX_NESTING = 1000, SCRIPT_MAX_INDENT = 100 };

typedef struct {
  uint32_t begin, end;
} TreeLoc;

/* Items [start, start + n) of ScriptParser.items. */
typedef struct {
  uint32_t start, n;
} TreeItems;

typedef struct {
  uint32_t offset;
  char open; /* '(', '[' or '{' */
} OpenBracket;

typedef struct {
  Context *ctx;
  Arena *arena; /* of the tree */
  uint32_t file;
  Tree *root;
  /* lexer */
  const char *text, *cursor, *limit;
  uint32_t base; /* offset of text in the file: not 0 for the expression in a string */
  OpenBracket *brackets;
  uint32_t n_brackets;
  uint32_t indent[SCRIPT_MAX_INDENT + 1];  /* columns with tabs to multiples of 8 */
  uint32_t indent1[SCRIPT_MAX_INDENT + 1]; /* columns with tabs as one: must order alike */
  uint32_t n_indent;                       /* indent[n_indent - 1] is the current block's */
  uint32_t pending_dedents;
  uint32_t empty_block; /* 1: a block is due; 2, 3: BAD_STATEMENT, NEWLINE stand in for it */
  bool block_due;       /* the last line ended in ':' */
  int previous;         /* the token before, 0 at the start */
  uint32_t token_begin;
  bool line_start;      /* at the start of a logical line */
  bool fresh_line;      /* the last token was the first on its line, within brackets */
  bool in_from;         /* between 'from' and 'import' */
  bool ended;           /* NEWLINE at the end of the file was given */
  bool recover;         /* skip to the end of the statement */
  int requeue;          /* an INDENT or DEDENT was the unexpected token: give it again */
  const char *requeued; /* where that was done last: once per place */
  bool gave_back;       /* it was given again, and nothing but layout has come since */
  bool too_deep;        /* reported for this statement */
  /* grammar */
  Tree **items;
  uint32_t n_items, cap_items;
} ScriptParser;

Span script_span(const ScriptParser *p, uint32_t begin, uint32_t end);

/* Node constructors used by the grammar's actions (tree.c). */
Tree *tree_new(ScriptParser *p, TreeKind kind, TreeLoc loc);
Tree *tree_pair(ScriptParser *p, TreeKind kind, TreeLoc loc, TreeOp op, Tree *a, Tree *b);
Tree *tree_named(ScriptParser *p, TreeKind kind, TreeLoc loc, const char *name, Tree *b);
Tree *tree_call(ScriptParser *p, TreeLoc loc, Tree *function, TreeItems args);
Tree *tree_list(ScriptParser *p, TreeKind kind, TreeLoc loc, TreeItems items);
Tree *tree_fixed(ScriptParser *p, TreeKind kind, TreeLoc loc, uint32_t n, Tree *x, Tree *y,
                 Tree *z);
Tree *tree_define(ScriptParser *p, TreeKind kind, TreeLoc loc, const TreeDef *def);
/* Adjacent string literals as one. */
Tree *tree_concat(ScriptParser *p, TreeLoc loc, Tree *a, Tree *b);
/* Complains about targets that cannot be assigned to. */
void tree_check_target(ScriptParser *p, const Tree *t);

TreeItems items_none(ScriptParser *p);
TreeItems items_push(ScriptParser *p, TreeItems l, Tree *t);
/* Moves the items into the arena. */
Tree **items_take(ScriptParser *p, TreeItems l);

#endif
