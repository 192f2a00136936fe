/* The operator table: one row per operator in ir/ops/<group>.def, its functions in <group>.c.
 *
 * A row:
 *   OP(id, "name", ARGS("x", "y"), ATTRS_list, traits, infer, lower, grad, layout, "shape rule",
 *      "summary", dtypes, numerics)
 *   id      C identifier; the enum is OP_<id>
 *   name    as after "R." ("nn.relu", "matmul"); TVM's is "relax." + name
 *   ARGS    operand names, ARGS() for none. ARGS_OPT(k, ...): the last k may be left out, their
 *           names end in '?'. ARGS_REST(...): the last one takes all that follow, its name ends in
 *           '*'. In the text operands come first, in this order, by position or keyword; attributes
 *           follow. A tuple or list of numbers given for an operand named "shape" or "size" is an
 *           R.shape (op_arg_is_shape), for any other operand a tuple of prim values.
 *   ATTRS   a macro ATTRS_<x>(A, S) listing A(S, kind, field, earlier name or NULL, default, doc)
 *           per attribute, in the order of printing; ATTRS_NONE for none. The default is text as in
 *           a script, NULL when the attribute must be given.
 *   traits  OPT_* flags
 *   hooks   infer_<..>, lower_<..>, ...; NO_LOWER, TODO_LOWER etc. say why a hook is absent: NO_
 *           means that there is none by nature, TODO_ that it is not written yet (refused by name;
 *           without a layout hook the operands come as the program has them)
 *   dtypes  TY_* of ir/ops/numerics.h: what it computes on; others are refused by name
 *   numerics  NUM_* beside them: algorithm, error bound, accumulation
 * The preprocessor makes from it the enum, the struct <id>_attrs (ir/ops/attrs.h), the prototypes
 * of the hooks (ir/ops/hooks.h), the schema and the help (ir/op.c).
 */
#ifndef RELAXC_IR_OP_H
#define RELAXC_IR_OP_H

#include "ir/module.h"

/* ---- attribute field types ---- */
typedef struct {
  int32_t n; /* -1: None */
  const int64_t *at;
} IntList;
typedef struct {
  int32_t n; /* -1: None */
  const Expr *const *at;
} ExprList;
typedef struct {
  bool has;
  int64_t v;
} OptInt;
typedef struct {
  bool has;
  double v;
} OptFloat;

typedef enum {
  AK_INT,       /* int64_t */
  AK_OPT_INT,   /* OptInt */
  AK_FLOAT,     /* double */
  AK_OPT_FLOAT, /* OptFloat */
  AK_BOOL,      /* bool */
  AK_STR,       /* const char *; NULL: None */
  AK_TEXT,      /* const char *, printed as R.str("...") */
  AK_DTYPE,     /* DType; unknown: None */
  AK_INTS,      /* IntList; a single int is read as a list of one */
  AK_EXPRS,     /* ExprList */
  AK_SINFOS,    /* SInfoList: out_ty / ty_args */
  AK_DICT,      /* const Attr * */
  AK_INDEX_MAP, /* const Attr * of kind ATTR_INDEX_MAP */
  AK_ANY,       /* const Attr * */
} AttrFieldKind;

typedef struct {
  int32_t n;
  const SInfo *const *at;
  bool single; /* written as one type, not a list */
} SInfoList;

typedef struct {
  const char *name;
  const char *old_name; /* earlier dialect's spelling (out_sinfo, sinfo_args) or NULL */
  AttrFieldKind kind;
  uint32_t offset;    /* in the attribute struct */
  const char *defval; /* text: "1", "None", "False", "\"NCHW\"", "[1, 1]"; NULL: required */
  const char *doc;
} AttrField;

enum {                        /* traits */
       OPT_IMPURE = 1 << 0,   /* has side effects */
       OPT_ELEMWISE = 1 << 1, /* out[i] from in[i] (with broadcasting) */
       OPT_COMMUTATIVE = 1 << 2,
       OPT_STRUCTURAL = 1 << 3, /* core node kind with a syntax of its own, no R.<name>(...) call */
       OPT_MEMORY = 1 << 4,     /* R.memory.*, R.builtin.*, R.vm.*: allowed after LegalizeOps */
       OPT_CALL = 1 << 5,       /* call_tir and its kin: allowed after LegalizeOps */
       OPT_COMPOSITE = 1 << 6,  /* lower hook builds other operators instead of a prim_func */
       OPT_DATA_DEP = 1 << 7,   /* shape depends on data */
       OPT_ARGS_TUPLE = 1 << 9, /* the arguments after the callee stand in a tuple in the text */
       OPT_REFUSED =
           1 << 8, /* distributed / device-only: parses and prints, never compiles for a CPU */
       OPT_NO_DEVICE = 1 << 10, /* the result's device is left open, as TVM leaves it */
};

struct InferCtx;
struct LowerCtx;
/* Struct info of n's result from operands and attributes; on an error reports it (infer_error) and
 * returns sinfo_bad. Operands are never Bad when it is called. */
typedef const SInfo *(*InferFn)(struct InferCtx *ic, Node *n);
/* Tensor-level meaning; see ir/te.h. Returns false after reporting why not (unknown rank, ...). */
typedef bool (*LowerFn)(struct LowerCtx *lc, Node *n);
typedef void (*GradFn)(void);
struct LayoutCtx;
/* What becomes of n when its operands come in other orders of axes; see ir/ops/order.h. */
typedef bool (*LayoutFn)(struct LayoutCtx *lc, const Node *n);

typedef struct {
  OpId id;
  const char *name;          /* after "R." */
  const char *group;         /* file stem */
  const char *const *args;   /* NULL-terminated */
  int8_t min_args, max_args; /* max -1: any */
  const AttrField *attrs;
  uint32_t nattrs, attrs_size;
  uint32_t traits;
  InferFn infer;
  LowerFn lower;
  GradFn grad;
  LayoutFn layout;
  const char *lower_why;  /* "NO_LOWER" / "TODO_LOWER" when lower is NULL */
  const char *shape_rule; /* for --help-op */
  const char *summary;
  uint32_t types;       /* TY_* (ir/ops/numerics.h) */
  const char *numerics; /* algorithm, error, order of sums; NULL: nothing is computed */
} OpInfo;

/* The enum OP_<id>, made from all groups; the core (structural) group comes first. */
enum {
#define OP(id, ...) OP_##id,
#include "ir/ops/all.def"
#undef OP
  OP_COUNT
};

/* What operators require; the rows and which operator has which: ir/ops/constraints.def. */
typedef enum {
#define CONSTRAINT(id, words) C_##id,
#define CHECKS(rule, ...)
#include "ir/ops/constraints.def"
#undef CONSTRAINT
#undef CHECKS
  C_COUNT
} ConstraintId;
/* The constraints of an operator after number 0 (the count of operands), in the order of their
 * numbers. */
const uint8_t *op_constraints(OpId op, uint32_t *n);
const char *constraint_words(ConstraintId id);
/* The number of a constraint among the operator's. */
uint32_t constraint_number(OpId op, ConstraintId id);

extern const OpInfo op_table[OP_COUNT];
static inline const OpInfo *node_op(const Node *n) {
  return &op_table[n->op];
}
/* Does the operator compute on this dtype? */
bool op_takes(const OpInfo *op, DType d);
/* By the name after "R."; -1 when there is none (aliases such as R.call_tir's kin included). */
int op_find(const char *name);
/* Nearest operator name for a misspelling, or NULL. */
const char *op_nearest(const char *name);
void op_print_list(Text *out);
bool op_print_help(const char *name, Text *out);
/* Does an operand of this name take a shape? Then a tuple of numbers in the text stands for
 * R.shape([...]). */
bool op_arg_is_shape(const char *arg);
/* Attribute structs: defaults filled (zero where an attribute must be given); equal and hashed by
 * value. */
void op_attrs_init(Context *c, OpId op, void *attrs);
bool op_attrs_equal(OpId op, const void *a, const void *b);
uint64_t op_attrs_hash(OpId op, const void *a);
/* Why a format of R.print or R.assert_op can't be filled with n values; NULL: it can. */
const char *op_format_fault(const char *format, uint32_t n);
bool op_is_pure(const Node *n); /* calls of functions look at the callee's purity */

/* ---- inference ---- */
typedef struct InferCtx {
  Context *c;
  Module *m;
  Facts *facts; /* may be NULL */
  Arena *arena;
  const Expr *differ[2]; /* the dims that infer_ne told apart last, for the notes of an error */
} InferCtx;

/* Infers and sets n->sinfo (Bad operands give Bad silently). Checks operand counts first.
 * Returns false when an error was reported. */
bool node_infer(Module *m, Facts *facts, Node *n);
/* Reports at operand i's span (i < 0: the whole node) that n violates constraint id, whose number
 * ends the message, and returns sinfo_bad. */
const SInfo *infer_error(InferCtx *ic, const Node *n, ConstraintId id, int i, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void infer_note(InferCtx *ic, const Node *n, int i, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Common helpers (ir/infer.c); more for the operator groups in ir/ops/util.h. */
const SInfo *infer_tensor_arg(InferCtx *ic, const Node *n, uint32_t i); /* NULL after an error */
/* NumPy broadcasting. Returns false after an error; *out NULL when the shape is unknown (*ndim
 * still set, -1 when unknown). */
bool infer_broadcast(InferCtx *ic, const Node *n, const SInfo *a, const SInfo *b,
                     const Expr *const **out, int32_t *ndim);
bool infer_binary_dtype(InferCtx *ic, const Node *n, const SInfo *a, const SInfo *b, DType *out);
/* Axis in [-ndim, ndim) -> [0, ndim); false after an error. */
bool infer_axis(InferCtx *ic, const Node *n, int64_t axis, int32_t ndim, int32_t *out);
bool infer_axes(InferCtx *ic, const Node *n, IntList axes, int32_t ndim, int32_t *out /* axes.n */);

#endif
