/* The graph level: a function's body in A-normal form.
 *
 * The variable is the node: what is computed, its struct info, where it stood in the text. A node
 * that is bound (block != NULL) or a parameter is printed by name at its uses; one that is not
 * bound is printed in place: constants, shapes, prim values, strings, inline tuples, references to
 * module functions. Change nodes only through the functions below: they keep use lists right.
 */
#ifndef RELAXC_IR_NODE_H
#define RELAXC_IR_NODE_H

#include "ir/attr.h"
#include "ir/sinfo.h"

typedef uint16_t OpId; /* ir/op.h */

typedef struct Node Node;
typedef struct Func Func;
typedef struct BindingBlock BindingBlock;

/* One operand: an edge of the def-use graph. */
typedef struct Use {
  Node *user, *def;
  struct Use *prev, *next; /* list of all uses of def */
  Span span;               /* of the argument as written */
} Use;

/* Constant tensor data. The bytes are not owned (module arena, or a mapped weights file). */
typedef struct ConstData {
  DType dtype;
  int32_t ndim;
  const int64_t *dims;
  const void *bytes; /* compact, row-major, little endian */
  size_t size;
  const char *name; /* the bound parameter's name, or NULL */
  bool mapped;      /* the bytes lie in a mapped file: pages_forget may be said of them */
  uint32_t id;      /* dense per module: identity */
} ConstData;

/* A straight run of blocks with a result: function body or branch. */
typedef struct {
  BindingBlock *first, *last;
  Node *yield; /* OP_YIELD, not in a block; yield->in[0].def is the result */
} Seq;

/* How an OP_MATCH_CAST stands in the text. What a text states and nothing proves is checked by one
 * that is not written (frontend/script/guard.c). As long as the module is as it was read, the
 * printer writes what the text had. */
typedef enum {
  CAST_WRITTEN, /* R.match_cast(x, T) of a name */
  CAST_OVER,    /* R.match_cast(<computation>, T): the operand is written in it */
  CAST_NAMED,   /* not written: the name that the operand is bound to has the annotation T */
  CAST_USED,    /* not written: the one use demands T */
  CAST_OUT,     /* not written: the operand is a call_tir whose out_ty was T */
} CastForm;

struct Node {
  OpId op;
  CastForm cast;
  bool is_output;       /* bound in a dataflow block and visible after it */
  uint32_t id;          /* dense per module, in order of creation */
  const char *name;     /* when bound or a parameter; unique in the function */
  const SInfo *sinfo;   /* never NULL once built */
  const SInfo *annot;   /* annotation as written or NULL */
  Span span, name_span; /* the expression; the bound name (or the whole node) */
  Use *in;
  uint32_t nin;
  Use *uses;   /* head of the list; order unspecified but deterministic */
  void *attrs; /* the op's attribute struct, or NULL */
  BindingBlock *block;
  Node *prev, *next; /* in block */
  Func *func;        /* function it belongs to (params, bound and floating nodes) */
  union {
    ConstData *data;  /* OP_CONST */
    const Expr *expr; /* OP_PRIM_VALUE */
    struct {
      const Expr *const *at;
      uint32_t n;
    } shape;         /* OP_SHAPE_EXPR */
    const char *str; /* OP_STR, OP_GLOBAL and OP_EXTERN (name) */
    DType dtype;     /* OP_DTYPE */
    int64_t index;   /* OP_TUPLE_GET; OP_PARAM: position */
    struct {
      Seq then_, else_;
    } if_;       /* OP_IF, in[0] is the condition */
    Func *local; /* OP_FUNC: local function */
  };
  void *aux; /* scratch of the running pass */
};

struct BindingBlock {
  bool dataflow;
  uint32_t n; /* nodes */
  Node *first, *last;
  BindingBlock *prev, *next;
  Seq *seq;    /* parent */
  Node *owner; /* OP_IF whose branch this is in, or NULL for the function's body */
  Func *func;
  Span span, output; /* the R.output of a dataflow block */
};

struct Func {
  const char *name;
  uint32_t id; /* dense per module */
  Span span, name_span, ret_span;
  Node **params;
  uint32_t nparams;
  Seq body;
  const SInfo *ret;       /* result's struct info */
  const SInfo *ret_annot; /* as written or NULL */
  const Attr *attrs;
  bool is_private, pure, check_well_formed;
  Var **dims; /* symbolic vars of the signature, in order of first appearance */
  uint32_t ndims;
  struct Module *module;
  Func *outer;  /* of a local function; set it before anything in it is named */
  StrMap names; /* names taken; a local function uses its outermost function's */
};

#define node_in(n, i) ((n)->in[i].def)
static inline Node *seq_result(const Seq *s) {
  return s->yield->in[0].def;
}
static inline Node *func_result(const Func *f) {
  return seq_result(&f->body);
}
static inline bool node_is_bound(const Node *n) {
  return n->block != NULL;
}
/* Whether n can be an operand as it stands: bound, a parameter, or of a kind written in place. */
bool node_is_atom(const Node *n);

/* The callable that a function is. */
const SInfo *func_sinfo(const Func *f);

/* ---- creation (module arena; struct info is set by the caller or node_infer) ---- */
Func *func_create(struct Module *m, const char *name, Span s);
Node *func_add_param(Func *f, const char *name, const SInfo *si, Span s);
/* Removes parameter i, which must have no uses. */
void func_remove_param(Func *f, uint32_t i);
/* Recomputes f->dims from the parameters. */
void func_collect_dims(Func *f);
BindingBlock *block_append(Func *f, Seq *s, Node *owner, bool dataflow, Span span);
void block_remove(BindingBlock *b); /* must be empty */
/* A floating node with n operands. */
Node *node_create(Func *f, OpId op, Node *const *in, uint32_t n, Span s);
Node *node_const(Func *f, ConstData *d, Span s);
Node *node_shape(Func *f, const Expr *const *at, uint32_t n, Span s);
Node *node_prim(Func *f, const Expr *e, Span s);
Node *node_str(Func *f, const char *str, Span s);
Node *node_dtype(Func *f, DType d, Span s);
Node *node_tuple(Func *f, Node *const *in, uint32_t n, Span s);
Node *node_tuple_get(Func *f, Node *tuple, int64_t index, Span s);
Node *node_global(Func *f, const char *name,
                  Span s); /* struct info from the module's function, if there */
ConstData *const_create(struct Module *m, DType d, const int64_t *dims, int32_t ndim,
                        const void *bytes);
/* Zeroed memory for a constant's bytes, aligned as vector code likes it. */
void *const_alloc(struct Module *m, size_t n);
ConstData *const_scalar(struct Module *m, DType d, double v,
                        int64_t i); /* i for integers, v for floats */
/* Attributes of op `op` with their defaults, in the module arena. */
void *node_new_attrs(Func *f, OpId op);

/* ---- placing ---- */
/* Binds a floating node at the end of b / before `at` under a name made unique from `hint`
 * (NULL: the name it has, from an earlier binding, or a new lv in dataflow, gv else). */
void node_bind_last(BindingBlock *b, Node *n, const char *hint);
void node_bind_before(Node *at, Node *n, const char *hint);
void node_bind_after(Node *at, Node *n, const char *hint);
/* Takes a bound node out of its block (stays usable as floating). */
void node_unbind(Node *n);
const char *func_unique_name(Func *f, const char *hint);
void func_take_name(Func *f, const char *name); /* reserves */

/* ---- edges ---- */
void node_set_in(Node *n, uint32_t i, Node *def);
void node_add_in(Node *n, Node *def, Span s);
void node_set_ins(Node *n, Node *const *in, uint32_t count);
/* All uses of `from`, except those by `to` itself, become uses of `to`. */
void node_replace_uses(Node *from, Node *to);
/* Unbinds n and drops its operands; it must have no uses. Floating operands that lose their last
 * use are dropped too. */
void node_delete(Node *n);
static inline bool node_has_uses(const Node *n) {
  return n->uses != NULL;
}
uint32_t node_count_uses(const Node *n);

/* How many of the last operands of a call in destination-passing form (after CallTIRRewrite) are
 * its results: fresh memory that nothing before the call has touched. */
uint32_t call_fresh_outputs(const Node *call);

/* ---- traversal ---- */
/* All bound nodes of f in order, branches of an OP_IF before the OP_IF itself, local functions not
 * entered. fn may bind/delete nodes other than the next one. */
void func_each_node(Func *f, void (*fn)(Node *n, void *ctx), void *ctx);

#endif
