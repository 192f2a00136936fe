/* What the readers of prim_funcs share. */
#ifndef RELAXC_FRONTEND_SCRIPT_LOOP_H
#define RELAXC_FRONTEND_SCRIPT_LOOP_H

#include "frontend/script/sema.h"

/* The block being read: the root of the function or a T.sblock. */
typedef struct BlockState {
  struct BlockState *outer;
  SBlock *block;
  bool is_root;
  bool is_implied; /* the root, not written out: it has no T.reads and the like */
  VEC(BlockIter) iters;
  VEC(Buffer *) allocs;
  VEC(MatchRegion) matches;
} BlockState;

typedef struct LoopState {
  PrimFunc *f;
  BlockState *block;
  Map loops;       /* loop Var -> Range */
  bool has_blocks; /* T.alloc_buffer outside of a block's loops is then the block's, as in the
                      earlier dialect */
  Map threads;     /* Var of T.env_thread -> its tag */
  Map assigned;    /* name -> how often the text assigns it, as pointer-sized numbers */
  uint32_t depth;  /* of loops that break and continue can leave */
} LoopState;

/* The expression readers that call each other (loop_expr.c, loop_call.c). */
/* `call`: written as T.Add(a, b), which folds nothing. */
const Expr *expr_make_binary(Sema *s, const Tree *t, ExprKind k, bool call, const Expr *a,
                             const Expr *b);
/* A number of lanes as DType counts them: a constant, or one times T.vscale(); 0 when e is none. */
uint32_t expr_lanes(Sema *s, const Expr *e);
const Expr *expr_written_float(Sema *s, DType d, double v);
const Expr *expr_read_call(Sema *s, const Tree *t);
const Expr *expr_read_choice(Sema *s, const Tree *t, const Tree *cond, const Tree *x, const Tree *y,
                             bool lazy);

/* T.int64 and its like; handles are none. */
bool loop_scalar_type(Sema *s, const Tree *t, DType *d);
/* Refuses a new buffer or variable under the name of one that the same scope holds. */
bool loop_name_is_free(Sema *s, const Tree *target);
/* Binds the names of a target whose value failed, so that their uses stay silent. */
void loop_bind_bad(Sema *s, const Tree *target);
Stmt *loop_read_for(Sema *s, const Tree *t);
/* Statements of a block of text as one statement; never NULL. */
Stmt *loop_statements(Sema *s, const Tree *block);
/* `with T.sblock("name"):` */
Stmt *loop_read_block(Sema *s, const Tree *with, const Tree *call);
/* A call that belongs to the block around it (T.reads, T.where ...). False when it is none. */
bool loop_block_call(Sema *s, const Tree *call, const char *name);
/* v = T.axis.spatial(...), v0, v1 = T.axis.remap("SR", [i, j]). */
void loop_read_axis(Sema *s, const Tree *target, const Tree *call, const char *name);
/* Buffer constructors by name after "T.": alloc_buffer, match_buffer ... False when it is none. */
bool loop_is_buffer(const char *name);
/* Reads `target = T.<name>(...)`; a statement, or NULL when there is none to emit. */
Stmt *loop_read_buffer(Sema *s, const Tree *target, const Tree *call, const char *name);
/* Statements of GPU programs (loop_device.c) by name after "T.". `target`: what is assigned, or
 * NULL. NULL after an error. */
bool loop_is_device(const char *name);
Stmt *loop_read_device(Sema *s, const Tree *t, const Tree *target, const Tree *call,
                       const char *name);
/* `name` = T.launch_thread(...), or without a name; the loop's body is the caller's. */
Stmt *loop_read_launch(Sema *s, const Tree *t, const Tree *name, const Tree *call);
/* T.Buffer(shape, dtype, ...) and its like as a new buffer, NULL after an error. `skip` leading
 * arguments are the caller's. */
Buffer *loop_buffer(Sema *s, const char *buffer_name, const Tree *call, uint32_t skip,
                    const Tree *place);
/* Text as it stands in the file, in the module arena. */
const char *loop_text(Sema *s, const Tree *t);
/* Is t A.view(...), A.local(...) or A.permute(...) of a buffer? Its declaration; NULL after an
 * error. */
bool loop_is_view(Sema *s, const Tree *t);
Stmt *loop_read_view(Sema *s, const Tree *target, const Tree *call);
/* A.data, A.elem_offset, A.strides[0] and their like. False when t is no field; *out is NULL after
 * an error. */
bool loop_read_field(Sema *s, const Tree *t, const Expr **out);
bool loop_read_region(Sema *s, const Tree *t, Region *out);
/* Finishes a block: its vectors into the SBlock. */
void loop_close_block(Sema *s, BlockState *b, Stmt *body);
/* An integer extent: literals take the type of `like` when given. */
bool loop_read_range(Sema *s, const Tree *t, Range *out);

#endif
