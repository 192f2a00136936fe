/* What the readers of Relax expressions share. */
#ifndef RELAXC_FRONTEND_SCRIPT_GRAPH_H
#define RELAXC_FRONTEND_SCRIPT_GRAPH_H

#include "frontend/script/sema.h"

/* Sets the operand spans to what was written and infers; returns n. */
Node *graph_finish(Sema *s, Node *n, const Tree *const *args);
/* [n, 4] as a shape value. */
Node *graph_shape_list(Sema *s, const Tree *t);
/* The items of a tuple, a list or R.tuple(...). */
Node *graph_read_tuple(Sema *s, const Tree *t);
/* Reports *x and **x. */
bool graph_refuse_star(Sema *s, const Tree *t);
/* Operand names in the operator's row: with a variable number, one stands for the rest. */
uint32_t graph_count_args(const OpInfo *op);
/* R.<op>(...); `self` is a first operand that stands elsewhere (x.astype(...)). */
Node *graph_read_op(Sema *s, const Tree *t, const OpInfo *op, const Tree *self);
/* R.call_tir(cls.f, (a, b), out_ty=...) and its kin. */
Node *graph_read_cross_call(Sema *s, const Tree *t, const OpInfo *op);
/* The special forms R.const(...), R.shape(...), ... */
Node *graph_read_const(Sema *s, const Tree *t);
Node *graph_read_dist_const(Sema *s, const Tree *t);
Node *graph_read_shape(Sema *s, const Tree *t);
Node *graph_read_match_cast(Sema *s, const Tree *t);
Node *graph_read_prim_value(Sema *s, const Tree *t);
Node *graph_read_str(Sema *s, const Tree *t);
Node *graph_read_dtype(Sema *s, const Tree *t);
Node *graph_read_extern(Sema *s, const Tree *t);

#endif
