/* Scalar (and vector) expressions: interned, immutable, shared by every level.
 *
 * Shape dims in struct info, loop bounds, buffer indices and values of prim_funcs are all Exprs.
 * Two expressions written alike are one pointer; expressions that are equal by algebra share the
 * canonical Dim (ir/dim.h) instead. Construction folds constants only where TVM's does (both
 * operands literal integers, x + 0, x * 1, ...), so that text round-trips.
 * Expressions carry no span; statements and graph nodes do.
 */
#ifndef RELAXC_IR_EXPR_H
#define RELAXC_IR_EXPR_H

#include "ir/base/source.h"
#include "ir/base/vec.h"
#include "ir/base/map.h"
#include "ir/context.h"
#include "ir/dtype.h"

struct Dim;
struct Buffer;
typedef struct Expr Expr;

typedef enum {
  EXPR_INT,   /* i: literal of an integer or bool type (uint64: bit pattern) */
  EXPR_FLOAT, /* f: literal, already rounded to dtype */
  EXPR_STR,   /* s: string literal */
  EXPR_VAR,   /* var */
  EXPR_CAST,  /* arg[0] to dtype */
  EXPR_ADD,
  EXPR_SUB,
  EXPR_MUL,
  EXPR_DIV, /* float division; for integers truncating (T.Div) */
  EXPR_MOD, /* truncating remainder (T.truncmod) */
  EXPR_FLOORDIV,
  EXPR_FLOORMOD,
  EXPR_MIN,
  EXPR_MAX, /* a float NaN in either operand gives NaN */
  EXPR_EQ,
  EXPR_NE,
  EXPR_LT,
  EXPR_LE,
  EXPR_GT,
  EXPR_GE, /* dtype bool */
  EXPR_AND,
  EXPR_OR,
  EXPR_NOT, /* dtype bool */
  EXPR_BITAND,
  EXPR_BITOR,
  EXPR_BITXOR,
  EXPR_BITNOT,
  EXPR_SHL,
  EXPR_SHR,       /* SHR is arithmetic for signed types */
  EXPR_SELECT,    /* arg[0] ? arg[1] : arg[2], both evaluated */
  EXPR_LOAD,      /* buf[arg[0..n)], one index per dim; with has_pred the last arg is the lane mask
                     (lanes off: not read, value 0) */
  EXPR_RAMP,      /* arg[0] + lane * arg[1] */
  EXPR_BROADCAST, /* arg[0] in every lane */
  EXPR_SHUFFLE, /* vectors arg[0..n-1) concatenated, lanes picked by ints in the last (a CALL tuple)
                 */
  EXPR_LET,     /* value arg[1] with var arg[0] := arg[... ] -- arg = {var, value, body} */
  EXPR_CALL,    /* intrinsic `intrin` of arg[...] (ir/intrins.def) */
  EXPR_CALL_FUNC, /* call of prim_func named s with arg[...] */
  EXPR_BUF_DATA,  /* pointer to the first element of buf (A.data) */
  EXPR_KIND_COUNT
} ExprKind;

/* A scalar variable: symbolic dim, loop variable, block axis, parameter, let binding. Identity is
 * the pointer; names need not be unique. */
typedef struct Var {
  const char *name;
  DType dtype;
  uint32_t id;    /* dense per context, in order of creation */
  bool is_dim;    /* a symbolic shape variable: never negative */
  bool of_buffer; /* a stride or offset that is bound together with its buffer */
  Span span;
  const Expr *expr;      /* the EXPR_VAR of this variable */
  const char *ptr_scope; /* handles: storage scope (NULL: the pointer's type is not known,
                            POINTER_TENSOR_MAP: a CUDA tensor map), and element type */
  DType ptr_elem;        /* unknown: void */
  void *aux; /* scratch of the pass or emitter that owns the traversal; never read elsewhere */
} Var;

#define POINTER_TENSOR_MAP "TensorMap"
/* The type of a pointer as it stands after "T.": handle, handle("float32", "global"),
 * handle(storage_scope="shared"), TensorMap(). Interned. */
const char *pointer_name(Context *c, DType elem, const char *scope);

struct Expr {
  uint8_t kind;
  uint8_t has_pred;
  uint16_t intrin; /* IntrinId of EXPR_CALL; of operators and casts how they are written */
  DType dtype;
  uint32_t id; /* dense per context, in order of creation: the order for sorting */
  uint32_t n;
  union {
    const struct Dim *dim; /* canonical form, computed on demand by expr_dim() */
    const double
        *written; /* EXPR_FLOAT: the literal in the text, before it was rounded to dtype; or
                     NULL. For printers only: text that is read and printed stays the same */
  };
  union {
    int64_t i;
    double f;
    const char *s; /* of EXPR_CALL: the written type of a pointer result, or NULL */
    Var *var;
    struct Buffer *buf;
  };
  const Expr *arg[];
};

/* How an operator is written, in `intrin`. The same value all the same: rewriting makes it usual.
 */
enum {
  SPELL_USUAL,
  SPELL_CALL,   /* T.Add(0, n), T.Cast("int32", 1): left as it is where the usual form folds */
  SPELL_TEST,   /* of x != 0: x alone, as a condition */
  SPELL_BUFFER, /* of A.data: A alone, as an argument */
};

/* T.index_map(lambda in: (out)): used by attributes. */
typedef struct IndexMap {
  Context *ctx;
  Var **in;
  uint32_t nin, nout;
  const Expr *const *out;
} IndexMap;

/* Intrinsics: one row each in ir/intrins.def. */
typedef enum {
#define INTRIN(id, name, nargs, result, flags, summary) INTRIN_##id,
#include "ir/intrins.def"
#undef INTRIN
  INTRIN_COUNT
} IntrinId;

enum {                      /* flags */
       INTRIN_PURE = 1,     /* no side effect: may be moved, merged, dropped */
       INTRIN_FLOAT = 2,    /* elementwise float math on any lanes */
       INTRIN_OPAQUE = 4,   /* parses and prints; compiling for a CPU is refused by name */
       INTRIN_LAZY = 8,     /* evaluates only the chosen operand (if_then_else) */
       INTRIN_SCALARS = 16, /* an operand is a scalar, never a buffer itself */
       INTRIN_ATOMIC = 32,  /* changes memory that several threads may change at once */
};
typedef enum {
  IRES_SAME,   /* dtype of the first argument */
  IRES_BOOL,   /* bool with the lanes of the first argument */
  IRES_GIVEN,  /* first textual argument is a dtype string: T.call_extern("int32", ...) */
  IRES_SECOND, /* dtype of the second argument (if_then_else) */
  IRES_LAST,   /* the last textual argument is a dtype string */
  IRES_VOID,
  IRES_HANDLE,
  IRES_I32,
  IRES_I64,
  IRES_U32,
  IRES_U64,
  IRES_F32,
  IRES_NAMED,  /* the second argument is a dtype string, which stays an argument */
  IRES_RETURN, /* what return_type= or ret_ty= says, else void */
  IRES_BITS,   /* an integer of as many bits as the first argument says */
} IntrinResult;

typedef struct {
  const char *name; /* as after "T." */
  int8_t nargs;     /* -1: any */
  uint8_t result, flags;
  const char *summary;
} IntrinInfo;
extern const IntrinInfo intrin_table[INTRIN_COUNT];
/* By the name after "T.", or -1. */
int intrin_find(const char *name);
/* The atomic operation that a call does: its intrinsic's own name or that of the C function which
 * it calls, by C's, the compilers' and CUDA's conventions of naming them; NULL for any other call.
 */
const char *intrin_atomic(const Expr *call);
/* Whether f makes one value of a vector's lanes. */
bool intrin_reduces(IntrinId f);

struct ExprPool *expr_pool_create(Context *c);

/* ---- construction (interns; folds as said above; never fails) ---- */
Var *var_create(Context *c, const char *name, DType dtype);
Var *var_create_dim(Context *c, const char *name); /* int64, is_dim */
const Expr *expr_int(Context *c, DType d, int64_t v);
const Expr *expr_i64(Context *c, int64_t v);
const Expr *expr_bool(Context *c, bool v);
const Expr *expr_float(Context *c, DType d, double v);
/* Literal of any dtype from a double / from 0 or 1 (used for op definitions). */
const Expr *expr_lit(Context *c, DType d, double v);
const Expr *expr_str(Context *c, const char *s);
/* Any kind of one, two or three operands with the dtype rules above. Binary operands must agree in
 * dtype, but a scalar is broadcast to the other's lanes, and an int literal takes the other's type.
 */
const Expr *expr_unary(Context *c, ExprKind k, const Expr *a);
const Expr *expr_binary(Context *c, ExprKind k, const Expr *a, const Expr *b);
const Expr *expr_select(Context *c, const Expr *cond, const Expr *a, const Expr *b);
const Expr *expr_cast(Context *c, DType d, const Expr *a);
const Expr *expr_call(Context *c, IntrinId f, DType d, const Expr *const *args, uint32_t n);
/* The same with a pointer as result, whose type is written: T.reinterpret(T.handle("int8").ty, p).
 * `pointer` is a pointer_name. */
const Expr *expr_call_pointer(Context *c, IntrinId f, const char *pointer, const Expr *const *args,
                              uint32_t n);
const Expr *expr_call1(Context *c, IntrinId f, const Expr *a);                /* dtype of a */
const Expr *expr_call2(Context *c, IntrinId f, const Expr *a, const Expr *b); /* dtype of a */
const Expr *expr_if_then_else(Context *c, const Expr *cond, const Expr *a, const Expr *b);
const Expr *expr_call_func(Context *c, const char *func, DType d, const Expr *const *args,
                           uint32_t n);
const Expr *expr_load(Context *c, struct Buffer *b, const Expr *const *idx, uint32_t n);
const Expr *expr_load_pred(Context *c, struct Buffer *b, const Expr *const *idx, uint32_t n,
                           const Expr *pred);
const Expr *expr_ramp(Context *c, const Expr *base, const Expr *stride, uint32_t lanes);
const Expr *expr_broadcast(Context *c, const Expr *v, uint32_t lanes);
const Expr *expr_let(Context *c, Var *v, const Expr *value, const Expr *body);
const Expr *expr_buf_data(Context *c, struct Buffer *b);
const Expr *expr_buf_itself(Context *c, struct Buffer *b); /* the same, written A */
/* Lanes of the n vectors put side by side, picked by nlanes positions (one: a scalar). */
const Expr *expr_shuffle(Context *c, const Expr *const *vecs, uint32_t n, const int64_t *lanes,
                         uint32_t nlanes);
/* A binary expression exactly as given: no folding, no matching of types. */
const Expr *expr_binary_raw(Context *c, ExprKind k, const Expr *a, const Expr *b);
/* As T.Add(a, b), T.Not(a) and T.Cast("d", a) write them: a SPELL_CALL where the usual form would
 * fold. */
const Expr *expr_binary_call(Context *c, ExprKind k, const Expr *a, const Expr *b);
const Expr *expr_not_call(Context *c, const Expr *a);
const Expr *expr_cast_call(Context *c, DType d, const Expr *a);
/* The scalar e as a condition: e != 0, written as e alone unless it is bool. */
const Expr *expr_test(Context *c, const Expr *e);
/* Makes both operands of one type, as expr_binary does: literals take the other's type, scalars its
 * lanes, otherwise the narrower converts to the wider (integers to floats). */
void expr_match(Context *c, const Expr **a, const Expr **b);
/* The same kind, payload and dtype with other arguments (rewriters). Refolds. */
const Expr *expr_with_args(Context *c, const Expr *e, const Expr *const *args);

#define expr_add(c, a, b) expr_binary((c), EXPR_ADD, (a), (b))
#define expr_sub(c, a, b) expr_binary((c), EXPR_SUB, (a), (b))
#define expr_mul(c, a, b) expr_binary((c), EXPR_MUL, (a), (b))
#define expr_div(c, a, b) expr_binary((c), EXPR_DIV, (a), (b))
#define expr_floordiv(c, a, b) expr_binary((c), EXPR_FLOORDIV, (a), (b))
#define expr_floormod(c, a, b) expr_binary((c), EXPR_FLOORMOD, (a), (b))
#define expr_min(c, a, b) expr_binary((c), EXPR_MIN, (a), (b))
#define expr_max(c, a, b) expr_binary((c), EXPR_MAX, (a), (b))

static inline bool expr_is_int(const Expr *e, int64_t v) {
  return e->kind == EXPR_INT && e->i == v;
}
/* The value when e is an integer literal (or its Dim is constant). */
bool expr_const_int(Context *c, const Expr *e, int64_t *out);

/* ---- traversal ---- */
/* Calls fn on e and all subexpressions, each shared one once, operands first. fn returns false to
 * stop; the result says whether it ran to the end. */
typedef bool (*ExprVisit)(const Expr *e, void *ctx);
bool expr_walk(const Expr *e, ExprVisit fn, void *ctx);
bool expr_uses_var(const Expr *e, const Var *v);
/* Whether v occurs in e other than in the indices of loads. */
bool expr_uses_var_as_value(const Expr *e, const Var *v);
bool expr_has_load(const Expr *e);
/* Appends the distinct Vars of e in order of first appearance. */
typedef VEC(Var *) VarVec;
void expr_vars(Arena *a, const Expr *e, VarVec *out);

/* Substitution of variables (Var* -> const Expr*) and buffers (Buffer* -> Buffer*); either map may
 * be NULL. Folds as construction does. */
typedef struct {
  Context *c;
  const Map *vars;
  const Map *buffers;
} Subst;
const Expr *expr_subst(const Subst *s, const Expr *e);
/* Bottom-up rewriting: fn gets an expression whose arguments are already rewritten and returns its
 * replacement (or itself). Memoised over the DAG. */
typedef const Expr *(*ExprRewrite)(Context *c, const Expr *e, void *ctx);
const Expr *expr_rewrite(Context *c, const Expr *e, ExprRewrite fn, void *ctx);

#endif
