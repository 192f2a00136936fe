/* The tensor level: buffers, statements, blocks, prim_funcs.
 *
 * Statements are immutable once built and may be shared; a pass makes new ones (ir/walk.h).
 * A prim_func is schedulable (s_tir: computation in blocks with axes, under a root block) or
 * lowered (plain loops, vector expressions).
 */
#ifndef RELAXC_IR_TIR_H
#define RELAXC_IR_TIR_H

#include "ir/attr.h"
#include "ir/expr.h"

/* A multi-dimensional view of memory. Identity is the pointer. */
typedef struct Buffer {
  const char *name;
  uint32_t id; /* dense per context */
  DType dtype;
  uint32_t ndim;
  const Expr *const *shape;
  const Expr *const *strides; /* in elements; NULL: compact row-major */
  const Expr *elem_offset;    /* NULL: 0, or what comes with the memory */
  Var *offset_var; /* A.elem_offset where the memory brings the offset along: known to be a multiple
                      of the factor, not how large; NULL otherwise */
  int32_t offset_factor; /* 0: none was written */
  const char *scope;     /* "global" (memory), "local" (registers or stack of one iteration) */
  Var *data;             /* pointer variable; shared by buffers that alias (decl_buffer) */
  int32_t align;         /* bytes; 0: that of the element type */
  bool scalar;           /* of rank 0: a variable, x: T.int32, written and read as x */
  const char *layout;    /* as written: "None", "T.TileLayout(...)"; NULL: the default */
  const char *extra;     /* other properties as text: "allocated_addr=0"; or NULL */
  Span span;
  void *aux; /* scratch of the pass or emitter that owns the traversal */
} Buffer;

Buffer *buffer_create(Context *c, const char *name, DType dtype, const Expr *const *shape,
                      uint32_t ndim, const char *scope);
/* Linear element offset of an index list (strides honoured), unsimplified. */
const Expr *buffer_offset(Context *c, const Buffer *b, const Expr *const *idx);

typedef struct {
  const Expr *min, *extent;
} Range;

typedef struct Region {
  Buffer *buf;
  Range *ranges; /* ndim of buf */
} Region;

typedef enum { ITER_SPATIAL, ITER_REDUCE, ITER_OPAQUE, ITER_SCAN } IterKind;
typedef struct {
  Var *var;
  IterKind kind;
  Range dom;         /* min is 0 unless written otherwise */
  const Expr *value; /* what the surrounding loops bind it to */
  DType written;     /* a literal value's type in the text where that differs from the axis' */
} BlockIter;

typedef struct Stmt Stmt;

/* `target` is a window of `source` inside a block (T.match_buffer in blocks). */
typedef struct {
  Buffer *target;
  Region source;
} MatchRegion;

typedef struct SBlock {
  const char *name;
  BlockIter *iters;
  uint32_t niters;
  const Expr *predicate; /* T.where; NULL when true */
  Region *reads, *writes;
  uint32_t nreads, nwrites;
  bool has_reads,
      has_writes; /* false: not written in the text, derive on need (sblock_derive_regions) */
  bool written;   /* the root: stands in the text as a block, which prints it when it says more */
  Buffer **allocs;
  uint32_t nallocs;
  MatchRegion *matches;
  uint32_t nmatches;
  const Attr *annotations; /* dict or NULL */
  Stmt *init;              /* NULL when none */
  Stmt *body;
} SBlock;

typedef enum {
  STMT_SEQ,
  STMT_FOR,
  STMT_BLOCK, /* block with its bindings (realize) */
  STMT_STORE, /* buf[idx] = value, optional lane mask */
  STMT_LET,   /* var = value for the statements after it in the SEQ (or for body, see let_body) */
  STMT_IF,
  STMT_WHILE,
  STMT_BREAK,
  STMT_CONTINUE,
  STMT_ATTR,
  STMT_ASSERT,
  STMT_EVAL,
  STMT_ALLOC, /* buffer allocated for the rest of the SEQ */
  STMT_DECL,  /* buffer over existing data, for the rest of the SEQ */
  STMT_RETURN,
  STMT_DEVICE, /* of a GPU's or NPU's program, read and printed only: i, j = T.thread_id([32, 4]),
                  T.tile.copy(A[0:4], B[0:4], cache="nc") */
} StmtKind;

typedef enum { FOR_SERIAL, FOR_PARALLEL, FOR_VECTORIZED, FOR_UNROLL, FOR_THREAD } ForKind;

struct Stmt {
  StmtKind kind;
  Span span;
  union {
    struct {
      Stmt **at;
      uint32_t n;
    } seq;
    struct {
      Var *var;
      const Expr *min, *extent;
      const Expr *step; /* NULL: 1 */
      ForKind kind;
      const char *thread; /* FOR_THREAD: "threadIdx.x" */
      bool launch;        /* FOR_THREAD: written `with T.launch_thread(...)`, no loop */
      const Attr *annotations;
      Stmt *body;
    } loop;
    SBlock *block;
    struct {
      Buffer *buf;
      const Expr **idx; /* ndim; a vector store has a RAMP (or vector) as its last index */
      const Expr *value;
      const Expr *pred; /* lane mask or NULL */
    } store;
    struct {
      Var *var;
      const Expr *value;
      bool variable; /* written x: T.int32 = value; nothing assigns it again */
    } let;
    struct {
      const Expr *cond;
      Stmt *then_, *else_;
    } if_; /* else_ may be NULL */
    struct {
      const Expr *cond;
      Stmt *body;
    } while_;
    struct {
      const Attr *node;
      const char *key;
      const Expr *value;
      Stmt *body;
    } attr;
    struct {
      const Expr *cond;
      const char *kind;
      const char *message;      /* all of it */
      const char *const *parts; /* as the text splits it; NULL: one */
      uint32_t nparts;
    } assert_;
    const Expr *eval;
    struct {
      Buffer *buf;
      const Attr *annotations;
      const Expr *data; /* DECL: the memory as written, A.data or a pointer; NULL: buf->data */
      const char *view; /* DECL written A.view(...), A.local(...): the method's name, or NULL */
      const char *args; /* its arguments as written; NULL: the shape and the layout of buf */
    } alloc;            /* also DECL */
    const Expr *ret;
    struct {
      const char *name; /* after "T." */
      Var **vars;       /* that it defines */
      uint32_t nvars;
      const Attr *args;    /* list */
      const Attr *options; /* dict of keyword arguments, or NULL */
    } device;
  };
};

typedef struct PrimFunc PrimFunc;
struct PrimFunc {
  const char *name; /* key in the module */
  uint32_t id;      /* dense per module */
  Span span;
  Var **params;        /* handle var for a buffer, else a scalar */
  Buffer **param_bufs; /* NULL entry for scalars */
  uint32_t nparams;
  Var **dims; /* symbolic shape vars that appear bare in param shapes and are no scalar parameters,
                 in order of first appearance: implicit arguments bound from the shapes */
  uint32_t ndims;
  DType ret;               /* unknown: none */
  const char *ret_pointer; /* what a returned handle points to (pointer_name) */
  bool ret_inferred;       /* from the return statements: no annotation says it */
  const Attr *attrs;
  bool is_private, s_tir, check_well_formed;
  bool persistent; /* a GPU kernel that stays: kept as written */
  Stmt *body;      /* s_tir: a STMT_BLOCK named "root" without axes, holding allocs */
  struct Module *module;
};

/* ---- construction ---- */
Stmt *stmt_seq(Arena *a, Stmt *const *at,
               uint32_t n); /* flattens nested; one statement is itself */
Stmt *stmt_for(Arena *a, Span s, Var *v, const Expr *min, const Expr *extent, ForKind k,
               Stmt *body);
Stmt *stmt_store(Arena *a, Span s, Buffer *b, const Expr *const *idx, const Expr *value);
Stmt *stmt_if(Arena *a, Span s, const Expr *cond, Stmt *then_, Stmt *else_);
Stmt *stmt_let(Arena *a, Span s, Var *v, const Expr *value);
Stmt *stmt_alloc(Arena *a, Span s, Buffer *b);
Stmt *stmt_decl(Arena *a, Span s, Buffer *b);
/* The pointer variable whose memory a STMT_DECL shows; NULL when that is another expression. */
Var *stmt_decl_data(const Stmt *s);
Stmt *stmt_eval(Arena *a, Span s, const Expr *e);
Stmt *stmt_block(Arena *a, Span s, SBlock *b);
Stmt *stmt_assert(Arena *a, Span s, const Expr *cond, const char *kind, const char *message);
/* The root block of an s_tir function. */
SBlock *primfunc_root(const PrimFunc *f);
/* What the function does with each buffer among its parameters (0 for scalars), ir/access.c. A
 * scheduled function has an attribute "relaxc.access" that says how it was before. */
enum { ACCESS_READ = 1, ACCESS_WRITE = 2 };
uint8_t *primfunc_access(Arena *a, const PrimFunc *f);
/* The attribute's text. */
const char *access_text(Arena *a, const uint8_t *access, uint32_t n);
/* Recomputes f->dims from the parameters. */
void primfunc_collect_dims(Context *c, Arena *a, PrimFunc *f);
/* Fills reads/writes of a block from its body where has_reads/has_writes is false. */
void sblock_derive_regions(Context *c, Arena *a, SBlock *b);

/* ---- traversal ---- */
/* Pre-order over statements (blocks' init before body). fn returns false to skip the children. */
typedef bool (*StmtVisit)(const Stmt *s, void *ctx);
void stmt_walk(const Stmt *s, StmtVisit fn, void *ctx);
/* Every expression that stands directly in statement s (not in child statements); block axes'
 * values, predicate, regions and alloc shapes included. */
void stmt_exprs(const Stmt *s, void (*fn)(const Expr *e, void *ctx), void *ctx);
/* Rebuilds s: fn_expr maps every expression (NULL: keep), then fn_stmt may replace each rebuilt
 * statement, children first (NULL: keep; returning NULL drops it). Unchanged subtrees are shared.
 */
typedef const Expr *(*StmtExprFn)(Context *c, const Expr *e, void *ctx);
typedef Stmt *(*StmtFn)(Context *c, Arena *a, Stmt *s, void *ctx);
Stmt *stmt_rewrite(Context *c, Arena *a, Stmt *s, StmtExprFn fn_expr, StmtFn fn_stmt, void *ctx);
/* Substitutes variables and buffers everywhere (stores, regions, allocs keep identity unless
 * mapped). Bound variables (loops, axes, lets) are renewed when `fresh`, so that a body can be
 * copied. */
Stmt *stmt_subst(Context *c, Arena *a, Stmt *s, const Map *vars, const Map *buffers, bool fresh);
/* A copy of f with fresh variables and buffers throughout. */
PrimFunc *primfunc_copy(Context *c, Arena *a, const PrimFunc *f, const char *name);
/* f where variables of its dims have values (vars: Var * -> Expr *): a body of its own, buffers of
 * such shapes in the memory of f's parameters, else the same parameters. */
PrimFunc *primfunc_bind(Context *c, Arena *a, const PrimFunc *f, const Map *vars);
/* Structural equality up to names (alpha-equivalence), for de-duplication; and a hash that agrees.
 */
bool primfunc_equal(const PrimFunc *a, const PrimFunc *b);
uint64_t primfunc_hash(const PrimFunc *f);

#endif
