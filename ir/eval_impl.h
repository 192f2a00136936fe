/* What the parts of the interpreter share (ir/eval*.c).
 *
 * A prim_func is translated once into trees of closures: an expression becomes a Code whose
 * function computes one lane of it, an integer or a double; a statement becomes a Step. Variables
 * live in numbered slots, buffers in numbered views of memory. An error sets `failed`, which every
 * loop looks at; the values after it don't matter.
 */
#ifndef RELAXC_IR_EVAL_IMPL_H
#define RELAXC_IR_EVAL_IMPL_H

#include "ir/eval.h"
#include "ir/tir.h"

typedef struct Interp Interp;
typedef struct Machine Machine;
typedef struct Code Code;
typedef struct Step Step;

typedef union {
  int64_t i; /* integers, bools, addresses */
  double f;
} Slot;

/* A buffer at run time: memory from `data` on, `size` bytes of it. */
typedef struct {
  char *data;
  int64_t size;
  int64_t *shape;
  int64_t *stride; /* in elements; NULL: compact */
  bool owned;      /* data is malloc'd and belongs to this view */
  size_t room;     /* bytes malloc'd */
} View;

/* An access: buffer and index codes. */
typedef struct {
  uint32_t view, n;
  unsigned elem_lanes; /* lanes of the buffer's element type */
  unsigned lanes;      /* of the whole access */
  DType elem;          /* scalar type of one lane */
  size_t bytes;        /* of one lane */
  const Buffer *buf;
  const Code *const *idx;
  const uint32_t *idx_slot; /* slot of an index that is a scalar variable, else UINT32_MAX */
  const Code *pred;         /* lane mask or NULL */
} Access;

struct Code {
  int64_t (*i)(Machine *m, const Code *c); /* for integer, bool and handle types */
  double (*f)(Machine *m, const Code *c);  /* for float types */
  const Code *a, *b, *c;
  DType d; /* of the result */
  union {
    Slot k;        /* literal */
    uint32_t slot; /* variable; memo */
    const Access *access;
    const void *p; /* whatever the function wants */
  };
};

#define EVAL_I(code) ((code)->i(m, (code)))
#define EVAL_F(code) ((code)->f(m, (code)))

typedef struct {
  uint64_t stamp;
  Slot v;
} Memo;

/* How a view is set up: codes of the dims, strides and offset; variables that stand alone there and
 * have no value yet get the one that the memory has. */
typedef struct {
  const Buffer *buf;
  const Code **shape, **stride; /* stride NULL: compact */
  const Code *offset;           /* NULL: 0 */
  bool is_window;               /* of T.match_buffer: strides from its source */
} ViewCode;

/* A translated prim_func. */
typedef struct PrimCode {
  const PrimFunc *f;
  Step *body;
  uint32_t nslots, nmemos;
  Map slots;             /* Var * -> slot + 1 */
  Map views;             /* Buffer * -> view + 1 */
  Map owners;            /* data Var * -> view + 1 of the buffer that has the memory */
  VEC(ViewCode) bufs;    /* per view */
  VEC(const Var *) free; /* variables that the surroundings of the call must know */
} PrimCode;

struct Machine {
  Interp *in;
  const PrimCode *code;
  Slot *slots;
  View *views;
  Memo *memos;
  uint64_t epoch, last_epoch; /* memos with another stamp than `epoch` are stale */
  uint32_t lane;
  bool failed, init_only;
  Slot ret;
  Span span; /* of the running statement */
  uint64_t depth;
};

struct Interp {
  Context *c;
  Module *m;
  Arena *arena;      /* values */
  Map codes;         /* PrimFunc * -> PrimCode * */
  const char *stack; /* where interpreting began */
  bool failed;
};

/* False, reported, when the calls under way take half of the stack that systems usually give. */
bool interp_enter(Interp *in, Span s);

/* A fresh stamp: memoised values of before are forgotten. */
static inline void machine_next(Machine *m) {
  m->epoch = ++m->last_epoch;
}

void machine_fail(Machine *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void interp_fail(Interp *in, Span s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- translation of expressions (eval_expr.c, eval_intrin.c) ---- */
typedef struct {
  Interp *in;
  Arena *arena;
  PrimCode *code;
  const Map *env; /* Var * -> const Value *: variables that are constants here; may be NULL */
  Map memo;       /* Expr id + 1 -> Code *, of the current root */
  Map refs;       /* Expr id + 1 -> number of uses under the current root */
  Span span;
  bool failed;
} Compiler;

/* Begins a root: the expressions that one statement computes together. */
void compile_begin(Compiler *k, const Expr *const *e, uint32_t n);
/* A root of one expression. NULL after an error. */
const Code *compile_root(Compiler *k, const Expr *e);
const Code *compile_expr(Compiler *k, const Expr *e);
/* An access, of a load or a store. */
const Access *compile_access(Compiler *k, const Buffer *b, const Expr *const *idx, uint32_t n,
                             const Expr *pred, unsigned lanes);
uint32_t compile_slot(Compiler *k, const Var *v);
/* View of a buffer that is in scope. */
uint32_t compile_view(Compiler *k, const Buffer *b);
bool compile_intrin(Compiler *k, const Expr *e, Code *c);
/* T.call_extern (eval_extern.c). */
bool compile_extern(Compiler *k, const Expr *e, Code *c);
void compile_fail(Compiler *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The address of lane m->lane of an access, or NULL (masked off, or after an error). */
char *access_at(Machine *m, const Access *a);
double access_load_f(Machine *m, const Access *a);
int64_t access_load_i(Machine *m, const Access *a);
/* Value of lane `lane` of a code of any type. */
static inline Slot code_eval(Machine *m, const Code *c) {
  Slot s;
  if (dtype_is_float(c->d))
    s.f = EVAL_F(c);
  else
    s.i = EVAL_I(c);
  return s;
}

/* ---- steps (made by eval_stmt.c, run by eval_prim.c) ---- */
typedef struct {
  uint32_t view;
  uint32_t source;
  const Code **min; /* of the source's region, one per dim */
} MatchStep;

typedef struct {
  uint32_t niters; /* axes with values of their own; one bound to a loop variable is its slot */
  uint32_t *slots;
  const Code **value;
  const Code **fixed; /* reduction axes: their first value, taken in init_only; else NULL */
  uint32_t nchecks;   /* with init: all reduction axes */
  uint32_t *check_slots;
  const Code **check_min;
  const Code *predicate;
  uint32_t nallocs, nmatches;
  uint32_t *allocs;
  MatchStep *matches;
  Step *init, *body;
} BlockStep;

typedef struct {
  const PrimFunc *callee;
  uint32_t n;
  const Code **scalars; /* NULL: a buffer */
  uint32_t *views;
} CallStep;

struct Step {
  StmtKind kind;
  bool feeds_init; /* loop: a reduction axis of a block with init depends on it */
  Span span;
  const char *message;
  Step **at, *body, *other;
  uint32_t n, slot, lanes, source;
  const Code *x, *y, *z;
  const Access *access;
  const BlockStep *block;
  const CallStep *call;
  DType d;
};

/* ---- prim_funcs (eval_stmt.c, eval_prim.c) ---- */
/* cls.f(A.data, n): a buffer's pointer passes the buffer. NULL after an error. */
const CallStep *compile_call(Compiler *k, const Expr *e);
/* Makes the call; the scalar that the callee returns goes to *ret. */
bool call_run(Machine *m, const CallStep *q, Value *ret);
PrimCode *prim_compile(Interp *in, const PrimFunc *f);
/* env: symbolic variables known around the call (Var * -> Value *), or NULL. */
bool prim_run(Interp *in, const PrimFunc *f, Value *const *params, uint32_t n, const Map *env,
              Span span, Value *ret);
/* A scalar expression with the variables of env. */
bool scalar_eval(Interp *in, const Expr *e, const Map *env, Span span, Value *out);

#endif
