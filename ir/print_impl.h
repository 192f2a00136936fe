/* What the parts of the printer share (ir/print*.c). */
#ifndef RELAXC_IR_PRINT_IMPL_H
#define RELAXC_IR_PRINT_IMPL_H

#include "ir/op.h"
#include "ir/print.h"

/* How symbolic dims of a signature are written. */
typedef enum {
  QUOTE_NONE,     /* (n, n * 2): in bodies */
  QUOTE_COMPOSED, /* (n, "n * 2"): signatures, today */
  QUOTE_ALL,      /* ("n", "n * 2"): signatures, earlier */
} QuoteMode;

/* Entries of the metadata section under one key. */
typedef struct {
  Map index; /* ConstData id + 1 -> index + 1 */
  VEC(const ConstData *) at;
} MetaList;

typedef enum { META_CONST, META_TENSOR } MetaKind;

typedef struct {
  Text *t;
  Dialect d;
  Context *ctx; /* of the function being printed, or NULL */
  Arena *arena; /* scratch of this print; NULL: variables print by their plain names */
  bool graph;   /* graph level: int64 literals are bare; else int32 ones */
  QuoteMode quote;
  /* names in scope */
  Map names;               /* Var*, Buffer* -> const char * */
  Map node_names;          /* Node id -> const char * */
  StrMap used;             /* name -> next suffix to try; NULL when free again */
  VEC(const char *) scope; /* names in order of definition, for leaving scopes */
  Map declared;   /* symbolic Vars whose T.int64() line isn't needed any more (value not NULL) */
  VarVec pending; /* Vars met that aren't declared yet */
  StrMap typevar_names; /* in today's dialect: the variables of the signatures */
  StrMap local_dims;    /* variables that lines `n = T.int64()` declare */
  Map late;             /* scalar parameters that stand behind what is being printed */
  Map prim_params;      /* Vars that are prim parameters of the function */
  Map data_names;       /* data Var* of buffers -> Buffer* that shows it as X.data */
  Map loops;            /* loop Var* -> Stmt* */
  Map shared;           /* Expr id + 1 -> name that stands for it */
  VEC(const Expr *) shared_list;
  bool s_tir;        /* in a schedulable prim_func */
  bool as_read;      /* no pass has changed the module */
  PrintMarks *marks; /* of the main text, or NULL */
  Text *marked;      /* that text: lines of others don't count */
  bool need_cls, cls_done;
  bool uses_R, uses_T, uses_I; /* for the header comments */
  MetaList consts, tensors;    /* what goes to the metadata section */
} Printer;

/* print.c */
void printer_init(Printer *p, Text *t, Dialect d, Arena *a);
/* A name unique among those in scope, for object `key`; the same object keeps its first one. */
const char *print_define(Printer *p, const void *key, const char *hint);
const char *print_name(Printer *p, const void *key, const char *hint);
/* The same for symbolic variables: a TypeVar has another name than any that a function declares. */
const char *print_define_typevar(Printer *p, const Var *v);
const char *print_define_local(Printer *p, const Var *v);
/* The same for nodes, whose keys are their ids. */
const char *print_define_node(Printer *p, const Node *n, const char *hint);
const char *print_node_name(Printer *p, const Node *n);
uint32_t print_scope_enter(Printer *p);
void print_scope_leave(Printer *p, uint32_t mark);
/* The line that starts here comes from s. */
void print_mark(Printer *p, Span s);
/* The text after `start` moves by n bytes: what is put in front of it. */
void print_moved(Printer *p, size_t start, size_t n);
void print_attr(Printer *p, const Attr *a);
/* Arguments of a call: those of a list, then those of a dict (or NULL) by name. */
void print_attr_args(Printer *p, const Attr *args, const Attr *options);
/* "{...}" with keys of the dialect ("tir.noalias" or "tirx.noalias"). */
void print_func_attrs(Printer *p, const Attr *attrs, const char *name, const char *head,
                      int indent);

/* print_expr.c */
void print_expr(Printer *p, const Expr *e);
/* (a, b), (a,), () */
void print_expr_tuple(Printer *p, const Expr *const *e, uint32_t n);
void print_dims(Printer *p, const Expr *const *dims, uint32_t n, char open, char close);
void print_indices(Printer *p, const Expr *const *idx, uint32_t n);
void print_range(Printer *p, Range r);
void print_range_end(Printer *p, Range r);
const char *print_buffer(Printer *p, const Buffer *b);
/* Is b written and read by its name alone? */
bool print_is_scalar(const Printer *p, const Buffer *b);

/* print_share.c: definitions in front of a statement for what its roots share, when their text
 * would be huge; print_unshare(mark) after it. */
uint32_t print_share(Printer *p, const Expr *const *roots, uint32_t n, int indent);
void print_unshare(Printer *p, uint32_t mark);
/* The same inside an expression, with T.Let. */
void print_shared_expr(Printer *p, const Expr *e);
bool print_is_big(const Printer *p, const Expr *e);
/* Operand i is computed only in some cases, or in the scope of a T.Let. */
bool print_is_lazy(const Expr *e, uint32_t i);

/* print_relax.c */
void print_sinfo(Printer *p, const SInfo *s);
void print_func(Printer *p, const Func *f, const char *name, int indent, bool nested);
void print_index_map(Printer *p, const struct IndexMap *m);
void print_lambda(Printer *p, const struct IndexMap *m);

static inline bool print_is_earlier(const Printer *p) {
  return p->d == DIALECT_EARLIER;
}

/* print_buffer.c */
/* Makes the names known that b's definition brings: its own, and those of its memory. */
void print_define_buffer(Printer *p, const Buffer *b);
/* "(shape), dtype, strides=..." after the opening parenthesis. */
void print_buffer_args(Printer *p, const Buffer *b, bool always_dtype, const char *data);
/* b = T.<func>(...) */
void print_alloc(Printer *p, const char *func, const Buffer *b, const Attr *annotations,
                 int indent);
void print_alloc_stmt(Printer *p, const Stmt *s, int indent);
void print_decl(Printer *p, const Stmt *s, int indent);
void print_region(Printer *p, const Region *r);
/* The expression as text of its own. */
const char *print_expr_text(Printer *p, const Expr *e);

/* print_tir.c */
void print_stmt(Printer *p, const Stmt *s, int indent);
/* A statement as the body of what ends in ':'. */
void print_body(Printer *p, const Stmt *s, int indent);
/* What stands in a block after its axes, but for its body. */
void print_block_inside(Printer *p, const SBlock *b, int indent);
void print_var_type(Printer *p, const Var *v);

/* print_primfunc.c */
void print_primfunc(Printer *p, const PrimFunc *f, int indent);

/* print_metadata.c */
/* True for the constants that R.const(v, dtype) can't write. */
bool print_const_is_meta(const ConstData *k);
/* metadata["..."][i]; puts k on the list when it isn't there yet. */
void print_meta_ref(Printer *p, MetaList *list, MetaKind kind, const ConstData *k);
/* The line `metadata = tvm.ir.load_json("""...""")` for what was collected. */
void print_metadata(Text *t, const Printer *p);

#endif
