/* Syntax tree of a script: the Python subset that TVMScript is written in.
 *
 * Nodes are 32 bytes: a head (kind, operator, depth, byte offsets) and two words whose meaning the
 * kind decides (see TreeKind). Names are interned in the session's pool, so that they compare by
 * pointer; everything else lives in the arena given to tree_parse and dies with it. `depth` bounds
 * every recursion over a tree: tree_parse refuses what is deeper than TREE_MAX_DEPTH.
 */
#ifndef RELAXC_FRONTEND_SCRIPT_TREE_H
#define RELAXC_FRONTEND_SCRIPT_TREE_H

#include "ir/context.h"

typedef enum {
  TREE_BAD, /* a statement or expression with a syntax error, already reported; statements that
               stood indented below it: at, n */
  /* expressions */
  TREE_NAME,       /* name */
  TREE_INT,        /* ival; flag TREE_BIG when it does not fit 64 bits */
  TREE_FLOAT,      /* fval */
  TREE_STR,        /* str (NUL-terminated after n bytes), n; flag TREE_BYTES for b"..." */
  TREE_CONST,      /* op: TREE_NONE, TREE_TRUE, TREE_FALSE, TREE_ELLIPSIS */
  TREE_ATTR,       /* b '.' name */
  TREE_CALL,       /* a ( at[n] ), arguments may be TREE_KEYWORD, TREE_STAR, TREE_DOUBLESTAR */
  TREE_KEYWORD,    /* name '=' b */
  TREE_SUBSCRIPT,  /* a [ b ], b may be TREE_TUPLE and TREE_SLICE */
  TREE_SLICE,      /* at[3]: lower, upper, step; each may be NULL */
  TREE_UNARY,      /* op b */
  TREE_BINARY,     /* a op b; arithmetic, comparisons, and/or alike */
  TREE_IFEXP,      /* at[3]: condition, then, else */
  TREE_LAMBDA,     /* at[n]: TREE_PARAM ..., body last */
  TREE_TUPLE,      /* at[n] */
  TREE_LIST,       /* at[n] */
  TREE_SET,        /* at[n] */
  TREE_DICT,       /* at[n]: key, value, key, value ...; key NULL for ** value */
  TREE_STAR,       /* * b */
  TREE_DOUBLESTAR, /* ** b */
  /* statements */
  TREE_EXPR,    /* b */
  TREE_ASSIGN,  /* at[n]: targets ..., value last */
  TREE_ANNOT,   /* at[3]: target ':' annotation ['=' value or NULL] */
  TREE_AUGMENT, /* a op= b */
  TREE_RETURN,  /* b or NULL */
  TREE_ASSERT,  /* a, b or NULL */
  TREE_PASS,
  TREE_BREAK,
  TREE_CONTINUE,
  TREE_IMPORT,
  TREE_IF,        /* at[3]: condition, block, else block or NULL (elif: a block of one TREE_IF) */
  TREE_WHILE,     /* at[2]: condition, block */
  TREE_FOR,       /* at[3]: target, iterable, block */
  TREE_WITH,      /* at[n]: TREE_WITH_ITEM ..., block last */
  TREE_WITH_ITEM, /* a, as b or NULL */
  TREE_DEF,       /* def */
  TREE_CLASS,     /* def: params are the bases */
  TREE_PARAM,     /* name, at[2]: annotation or NULL, default or NULL; op: 0, '*' or '2' for ** */
  TREE_BLOCK,     /* at[n] */
} TreeKind;

typedef enum { TREE_NONE, TREE_TRUE, TREE_FALSE, TREE_ELLIPSIS } TreeConst;

typedef enum {
  TREE_ADD,
  TREE_SUB,
  TREE_MUL,
  TREE_DIV,
  TREE_FLOORDIV,
  TREE_MOD,
  TREE_POW,
  TREE_MATMUL,
  TREE_BITOR,
  TREE_BITXOR,
  TREE_BITAND,
  TREE_SHL,
  TREE_SHR,
  TREE_LT,
  TREE_LE,
  TREE_GT,
  TREE_GE,
  TREE_EQ,
  TREE_NE,
  TREE_IN,
  TREE_NOT_IN,
  TREE_IS,
  TREE_IS_NOT,
  TREE_AND,
  TREE_OR,
  /* unary */
  TREE_NEG,
  TREE_POS,
  TREE_INVERT,
  TREE_NOT,
} TreeOp;

enum { TREE_PAREN = 1, TREE_BIG = 2, TREE_BYTES = 4, TREE_SEQ = 8 };
enum { TREE_MAX_DEPTH = 1000 };

typedef struct Tree Tree;
typedef struct TreeDef TreeDef;

struct Tree {
  unsigned kind : 8; /* TreeKind */
  unsigned op : 8;   /* TreeOp, TreeConst */
  unsigned flags : 4;
  unsigned depth : 12;
  uint32_t begin, end; /* bytes of the file */
  uint32_t n;
  union {
    Tree **at;
    Tree *b;
    uint64_t ival;
    double fval;
    const char *str;
    TreeDef *def;
  };
  union {
    Tree *a;
    const char *name;
  };
};

struct TreeDef {
  const char *name;
  uint32_t name_begin, name_end;
  uint32_t head_end; /* end of the header line's ':' */
  Tree **decorators, **type_params, **params;
  uint32_t n_decorators, n_type_params, n_params;
  Tree *returns; /* NULL without "->" */
  Tree *body;    /* TREE_BLOCK */
};

/* Parses a registered file into a TREE_BLOCK. Syntax errors go to the context's diagnostics and
 * leave TREE_BAD nodes; NULL only when nothing could be kept. */
Tree *tree_parse(Context *ctx, Arena *arena, uint32_t file);
/* Parses the text of a string literal as one expression ("n * 2"), with spans inside the literal.
 * NULL after an error. */
const Tree *tree_parse_string(Context *ctx, Arena *arena, uint32_t file, const Tree *literal);
/* "+", "<=", "not in" ... */
const char *tree_op_text(TreeOp op);
/* What a node is, in words for messages: "a call", "a number" ... */
const char *tree_describe(const Tree *t);
/* "R.nn.relu" of a chain of attributes over a name, interned; NULL for anything else. */
const char *tree_dotted(Context *ctx, const Tree *t);

#endif
