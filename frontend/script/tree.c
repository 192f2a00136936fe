/* Syntax tree: node construction and the few questions asked of it.
 *
 * Lists are collected on one stack per parse and copied out at their final length, so that the
 * arena holds no slack. A list names its place on that stack, not just "the top": after a syntax
 * error, items of a discarded inner list may lie above it and are cut off by the next push.
 */
#include "frontend/script/parse.h"
#include <string.h>

Span script_span(const ScriptParser *p, uint32_t begin, uint32_t end) {
  Span s = {p->file, begin, end};
  return s;
}

Tree *tree_new(ScriptParser *p, TreeKind kind, TreeLoc loc) {
  Tree *t = ARENA_NEW(p->arena, Tree);
  t->kind = kind;
  t->depth = 1;
  t->begin = loc.begin;
  t->end = loc.end;
  return t;
}

static uint32_t depth_over(const Tree *const *at, uint32_t n) {
  uint32_t d = 0;
  for (uint32_t i = 0; i < n; i++)
    if (at[i] && at[i]->depth > d) d = at[i]->depth;
  return d;
}

/* Sets the depth; what is too deep becomes TREE_BAD, so that no recursion over a tree can exhaust
 * the stack. */
static Tree *finish(ScriptParser *p, Tree *t, uint32_t below) {
  if (below < TREE_MAX_DEPTH) {
    t->depth = below + 1;
    return t;
  }
  if (!p->too_deep) {
    uint32_t at = t->begin;
    diag_error(p->ctx->diags, script_span(p, at, at + 1),
               "the program is nested too deeply here: more than %d levels", TREE_MAX_DEPTH);
    p->too_deep = true;
  }
  TreeLoc loc = {t->begin, t->end};
  return tree_new(p, TREE_BAD, loc);
}

Tree *tree_pair(ScriptParser *p, TreeKind kind, TreeLoc loc, TreeOp op, Tree *a, Tree *b) {
  Tree *t = tree_new(p, kind, loc);
  t->op = op;
  t->a = a;
  t->b = b;
  const Tree *both[2] = {a, b};
  return finish(p, t, depth_over(both, 2));
}

Tree *tree_named(ScriptParser *p, TreeKind kind, TreeLoc loc, const char *name, Tree *b) {
  Tree *t = tree_new(p, kind, loc);
  t->name = name;
  t->b = b;
  return finish(p, t, b ? b->depth : 0);
}

Tree *tree_call(ScriptParser *p, TreeLoc loc, Tree *function, TreeItems args) {
  Tree *t = tree_new(p, TREE_CALL, loc);
  t->n = args.n;
  t->at = items_take(p, args);
  t->a = function;
  uint32_t d = depth_over((const Tree *const *)t->at, t->n);
  return finish(p, t, d > function->depth ? d : function->depth);
}

Tree *tree_list(ScriptParser *p, TreeKind kind, TreeLoc loc, TreeItems items) {
  Tree *t = tree_new(p, kind, loc);
  t->n = items.n;
  t->at = items_take(p, items);
  return finish(p, t, depth_over((const Tree *const *)t->at, t->n));
}

Tree *tree_fixed(ScriptParser *p, TreeKind kind, TreeLoc loc, uint32_t n, Tree *x, Tree *y,
                 Tree *z) {
  Tree *t = tree_new(p, kind, loc);
  t->n = n;
  t->at = ARENA_ARRAY(p->arena, Tree *, n);
  Tree *all[3] = {x, y, z};
  memcpy(t->at, all, n * sizeof *all);
  return finish(p, t, depth_over((const Tree *const *)t->at, n));
}

Tree *tree_define(ScriptParser *p, TreeKind kind, TreeLoc loc, const TreeDef *def) {
  Tree *t = tree_new(p, kind, loc);
  t->def = arena_dup(p->arena, def, sizeof *def);
  uint32_t d = def->body->depth, e = depth_over((const Tree *const *)def->params, def->n_params);
  if (e > d) d = e;
  e = depth_over((const Tree *const *)def->decorators, def->n_decorators);
  return finish(p, t, e > d ? e : d);
}

Tree *tree_concat(ScriptParser *p, TreeLoc loc, Tree *a, Tree *b) {
  if (a->kind != TREE_STR || b->kind != TREE_STR) return a;
  if ((a->flags & TREE_BYTES) != (b->flags & TREE_BYTES))
    diag_error(p->ctx->diags, script_span(p, loc.begin, loc.end),
               "a bytes literal and a string literal cannot be joined");
  Tree *t = tree_new(p, TREE_STR, loc);
  t->flags = a->flags;
  t->n = a->n + b->n;
  char *s = arena_alloc(p->arena, (size_t)t->n + 1);
  memcpy(s, a->str, a->n);
  memcpy(s + a->n, b->str, b->n);
  t->str = s;
  return t;
}

void tree_check_target(ScriptParser *p, const Tree *t) {
  switch (t->kind) {
  case TREE_NAME:
  case TREE_ATTR:
  case TREE_SUBSCRIPT:
  case TREE_BAD: return;
  case TREE_STAR: tree_check_target(p, t->b); return;
  case TREE_TUPLE:
  case TREE_LIST:
    for (uint32_t i = 0; i < t->n; i++) tree_check_target(p, t->at[i]);
    return;
  default:
    diag_error(p->ctx->diags, script_span(p, t->begin, t->end), "cannot assign to %s",
               tree_describe(t));
  }
}

TreeItems items_none(ScriptParser *p) {
  TreeItems l = {p->n_items, 0};
  return l;
}

TreeItems items_push(ScriptParser *p, TreeItems l, Tree *t) {
  p->n_items = l.start + l.n;
  if (p->n_items >= p->cap_items) {
    p->cap_items = p->cap_items ? 2 * p->cap_items : 256;
    p->items = xrealloc(p->items, p->cap_items * sizeof *p->items);
  }
  p->items[p->n_items++] = t;
  l.n++;
  return l;
}

Tree **items_take(ScriptParser *p, TreeItems l) {
  Tree **at = arena_alloc(p->arena, l.n * sizeof *at);
  if (l.n) memcpy(at, p->items + l.start, l.n * sizeof *at);
  p->n_items = l.start;
  return at;
}

const char *tree_op_text(TreeOp op) {
  static const char *const text[] = {"+",  "-",  "*",  "/",  "//",     "%",  "**",     "@",
                                     "|",  "^",  "&",  "<<", ">>",     "<",  "<=",     ">",
                                     ">=", "==", "!=", "in", "not in", "is", "is not", "and",
                                     "or", "-",  "+",  "~",  "not"};
  return text[op];
}

const char *tree_describe(const Tree *t) {
  switch ((TreeKind)t->kind) {
  case TREE_NAME: return "a name";
  case TREE_INT:
  case TREE_FLOAT: return "a number";
  case TREE_STR: return "a string";
  case TREE_CONST:
    return t->op == TREE_NONE    ? "None"
           : t->op == TREE_TRUE  ? "True"
           : t->op == TREE_FALSE ? "False"
                                 : "...";
  case TREE_ATTR: return "an attribute";
  case TREE_CALL: return "a call";
  case TREE_KEYWORD: return "a keyword argument";
  case TREE_SUBSCRIPT: return "a subscript";
  case TREE_SLICE: return "a slice";
  case TREE_UNARY:
  case TREE_BINARY: return "an operator expression";
  case TREE_IFEXP: return "a conditional expression";
  case TREE_LAMBDA: return "a lambda";
  case TREE_TUPLE: return "a tuple";
  case TREE_LIST: return "a list";
  case TREE_SET: return "a set";
  case TREE_DICT: return "a dict";
  case TREE_STAR:
  case TREE_DOUBLESTAR: return "a starred expression";
  case TREE_EXPR: return "an expression statement";
  case TREE_ASSIGN: return "an assignment";
  case TREE_ANNOT: return "an annotated assignment";
  case TREE_AUGMENT: return "an augmented assignment";
  case TREE_RETURN: return "a 'return' statement";
  case TREE_ASSERT: return "an 'assert' statement";
  case TREE_PASS: return "a 'pass' statement";
  case TREE_BREAK: return "a 'break' statement";
  case TREE_CONTINUE: return "a 'continue' statement";
  case TREE_IMPORT: return "an 'import' statement";
  case TREE_IF: return "an 'if' statement";
  case TREE_WHILE: return "a 'while' loop";
  case TREE_FOR: return "a 'for' loop";
  case TREE_WITH:
  case TREE_WITH_ITEM: return "a 'with' statement";
  case TREE_DEF: return "a function definition";
  case TREE_CLASS: return "a class definition";
  case TREE_PARAM: return "a parameter";
  case TREE_BLOCK: return "a block";
  case TREE_BAD: break;
  }
  return "something wrong";
}

const char *tree_dotted(Context *ctx, const Tree *t) {
  if (t->kind == TREE_NAME) return t->name;
  const char *parts[8];
  int n = 0;
  size_t length = 0;
  for (; t->kind == TREE_ATTR; t = t->b) {
    if (n == 7) return NULL;
    parts[n++] = t->name;
    length += strlen(t->name) + 1;
  }
  if (t->kind != TREE_NAME) return NULL;
  parts[n++] = t->name;
  length += strlen(t->name);
  char buffer[256];
  if (length >= sizeof buffer) return NULL;
  char *o = buffer;
  while (n > 0) {
    size_t k = strlen(parts[--n]);
    memcpy(o, parts[n], k);
    o += k;
    if (n) *o++ = '.';
  }
  return strpool_intern(ctx->strings, buffer, (size_t)(o - buffer));
}
