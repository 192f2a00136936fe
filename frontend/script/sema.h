/* Semantic analysis of the syntax tree: what its parts share.
 *
 * module.c walks the file and declares every function; graph.c reads Relax functions, with their
 * expressions in graph_expr.c, graph_op.c and graph_form.c, and guard.c for what must be checked at
 * run time; loop_func.c, loop.c, loop_for.c, loop_block.c and loop_buffer.c read prim_funcs;
 * loop_expr.c and loop_call.c scalar expressions of both levels (shapes, loop bounds, values);
 * type.c annotations; attr.c attribute values; metadata.c the constants behind metadata["..."][i].
 * Errors are reported where they are found; a reader then returns NULL (or a value of Bad type),
 * which its callers pass on in silence.
 */
#ifndef RELAXC_FRONTEND_SCRIPT_SEMA_H
#define RELAXC_FRONTEND_SCRIPT_SEMA_H

#include "frontend/script/scope.h"
#include "frontend/script/tree.h"
#include "ir/explain.h"
#include "ir/op.h"

typedef struct Metadata Metadata;

/* A function of the module between declaration and analysis of its body. */
typedef struct {
  const char *name;
  const Tree *tree; /* TREE_DEF */
  Func *func;       /* or */
  PrimFunc *prim;
  enum { DECL_NEW, DECL_RUNNING, DECL_DONE } state;
  Binding **bindings; /* of the signature: parameters and symbolic variables */
  uint32_t n_bindings;
} Decl;

/* A dim that an R.match_cast found equal to another one. */
typedef struct {
  const Expr *dim, *value;
  Span span;
} LearntDim;

typedef struct Sema {
  Context *ctx;
  Module *m;
  Arena *arena; /* scratch: lives as long as the analysis */
  uint32_t file;
  const char *class_name; /* NULL for a lone function */
  StrMap type_vars;       /* name -> Tree of its TypeVar statement */
  StrMap decls;           /* name -> Decl */
  uint32_t waiting;       /* bodies that are being read because another one needs their result */
  bool broken;            /* part of the module could not be parsed: missing functions are silent */
  Metadata *metadata;
  struct cJSON *json; /* behind the metadata */

  /* the function being read */
  Scope scope;
  bool tir;             /* a prim_func: bare ints are int32 */
  bool signature;       /* names of TypeVars and strings define symbolic variables */
  bool params;          /* in the parameters: an unknown dim defines a variable */
  bool callable;        /* in R.Callable(...), whose variables are its own */
  bool in_string;       /* inside a dim written as a string */
  bool allow_undefined; /* target of a match_cast: undefined symbolic variables may stand there */
  /* Relax */
  Func *f;
  Seq *seq;
  Node *owner; /* OP_IF whose branch is being read */
  BindingBlock *block;
  bool in_dataflow;
  Facts *facts;
  /* What the match_casts above have established. It refutes what is stated below them; it proves
   * nothing, as a pass may drop a match_cast whose result is not used. */
  Facts *learnt;
  VEC(LearntDim) learnt_dims;
  /* TIR */
  PrimFunc *prim;
  struct LoopState *loop;
  Map *layouts; /* Buffer -> Tree of its layout */
} Sema;

static inline Span tree_span(const Sema *s, const Tree *t) {
  Span sp = {s->file, t->begin, t->end};
  return sp;
}
/* Where a function's name stands. */
static inline Span decl_span(const Sema *s, const Decl *d) {
  Span sp = {s->file, d->tree->def->name_begin, d->tree->def->name_end};
  return sp;
}
#define sema_error(s, t, ...) diag_error((s)->ctx->diags, tree_span((s), (t)), __VA_ARGS__)
#define sema_note(s, t, ...) diag_note((s)->ctx->diags, tree_span((s), (t)), __VA_ARGS__)

/* What the decorator of a function says. */
typedef struct {
  bool relax, prim; /* @R.function or @T.prim_func */
  bool is_private, pure, s_tir, persistent, check;
} Decoration;
/* Reads the decorators of a TREE_DEF; false after an error. */
bool sema_decoration(Sema *s, const Tree *t, Decoration *d);

/* Is `t` the dotted name `ns`.something? Gives "something" ("nn.relu"), NULL otherwise. */
const char *sema_member(Sema *s, const Tree *t, char ns);
/* Looks a name up and reports when it is unknown, hidden or undefined. NULL after an error, and for
 * what was reported before. */
Binding *sema_lookup(Sema *s, const Tree *name);
/* The function that `cls.f` or `Module.f` names, as text; NULL when t is no such reference.
 * An unknown function is reported and still gives its name, with *known false. */
const char *sema_global(Sema *s, const Tree *t, bool *known);
/* Analyses a Relax function's body if that has not happened: its result type is needed. */
void sema_require_body(Sema *s, const char *name);

/* ---- literals (attr.c) ---- */
bool tree_is_none(const Tree *t);
bool tree_const_int(const Tree *t, int64_t *out);  /* 3, -3, True */
bool tree_const_float(const Tree *t, double *out); /* numbers, "inf", "-inf", "nan" */
/* Warns where a literal of value v becomes infinite, zero or another integer in float type d. */
void sema_check_literal(Sema *s, const Tree *t, DType d, double v);
bool sema_dtype(Sema *s, const Tree *t, DType *out); /* a string; reports */
const Attr *sema_attr(Sema *s, const Tree *t);       /* NULL after an error */
/* R.func_attr({...}) and T.func_attr({...}): adds to the attributes that are there. */
void sema_func_attr(Sema *s, const Tree *dict, const char *function, const Attr **attrs);
/* {"key": value, ...} */
const Attr *sema_attr_dict(Sema *s, const Tree *t);
/* Arguments of R.<op>(...) that are attributes: sets the field of `attrs` from a tree. */
bool sema_op_attr(Sema *s, const OpInfo *op, const AttrField *field, const Tree *t, void *attrs);

/* ---- scalar expressions (loop_expr.c, loop_call.c) ---- */
/* Index list of a subscript of `b`, in the module arena; NULL after an error. */
const Expr **sema_indices(Sema *s, const Tree *t, const Buffer *b);
/* A bool; integers compare with 0. */
const Expr *sema_condition(Sema *s, const Tree *t);
/* The same where only a bool will do. */
const Expr *sema_bool(Sema *s, const Tree *t);
const Expr *sema_expr(Sema *s, const Tree *t);
/* Integers as int64 (shapes of Relax). */
const Expr *sema_dim(Sema *s, const Tree *t);
/* Does t only hold numbers, symbolic variables and T. calls (so that sema_expr can read it)? */
bool sema_is_prim(Sema *s, const Tree *t);
/* Makes the two operands' types agree as TVM does; false after an error. */
bool sema_match_types(Sema *s, const Tree *t, const Expr **a, const Expr **b);
const Expr *sema_convert(Sema *s, const Expr *e, DType d);
/* The expression of a string such as "n * 2", with spans inside the literal. */
const Tree *sema_parse_string(Sema *s, const Tree *t);

/* ---- annotations (type.c) ---- */
/* Never NULL: Bad after an error. */
const SInfo *sema_type(Sema *s, const Tree *t);
/* "R.Tensor((n, 4), dtype=...)" in the scratch arena, for messages. */
const char *sema_type_text(Sema *s, const SInfo *si);
/* One type, or a list or tuple of types (out_ty=, ty_args=). */
bool sema_types(Sema *s, const Tree *t, SInfoList *out);
/* T.int64 and its like as an annotation. */
bool sema_prim_type(const char *member, DType *out);

/* Is t T.handle, T.handle("float32", "global") or T.TensorMap()? If so, what it points to. */
bool sema_is_pointer(Sema *s, const Tree *t);
bool sema_pointer(Sema *s, const Tree *t, DType *elem, const char **scope);
/* The result type of a call: "float32", or T.handle("float32").ty, which gives *pointer too. */
bool sema_result_type(Sema *s, const Tree *t, DType *d, const char **pointer);

/* ---- Relax functions (graph.c, graph_expr.c; more in graph.h) ---- */
void graph_declare(Sema *s, Decl *d);
void graph_body(Sema *s, Decl *d);
/* A value: bound, an atom, or a floating computation for the caller to bind. Never NULL. */
Node *graph_expr(Sema *s, const Tree *t);
/* A value that can be an operand: computations get bound to a fresh name. */
Node *graph_operand(Sema *s, const Tree *t);
Node *graph_bad(Sema *s, const Tree *t);
BindingBlock *graph_block(Sema *s, const Tree *t);
/* Is t the call ns.name(...)? */
bool graph_is_call(const Tree *t, const char *ns, const char *name);

/* ---- prim_funcs (loop_func.c; more in loop.h) ---- */
void loop_declare(Sema *s, Decl *d);
void loop_body(Sema *s, Decl *d);

/* ---- metadata (metadata.c) ---- */
Metadata *metadata_read(Sema *s, const Tree *json);
void metadata_release(Sema *s);
/* Is t metadata[...] or metadata[...][...]? */
bool metadata_is_reference(Sema *s, const Tree *t);
/* The constant, or the bare tensor of an attribute, behind metadata[key][index]; NULL after an
 * error. */
ConstData *metadata_const(Sema *s, const Tree *t);
/* Does t refer to a string of the metadata? It; NULL after an error. */
bool metadata_is_string(Sema *s, const Tree *t);
const char *metadata_string(Sema *s, const Tree *t);

#endif
