/* Run-time checks for stated shapes that are not proved (guard.c). */
#ifndef RELAXC_FRONTEND_SCRIPT_GUARD_H
#define RELAXC_FRONTEND_SCRIPT_GUARD_H

#include "frontend/script/sema.h"

/* v as an operand of type `want`: v itself, or a bound R.match_cast of it where the types may
 * differ. */
Node *guard_operand(Sema *s, const Tree *at, Node *v, const SInfo *want);
/* A floating R.match_cast of v, which gets bound if it is a computation. */
Node *guard_cast(Sema *s, const Tree *at, Node *v, const SInfo *want);
/* Remembers what a written R.match_cast of a value of type `have` to type `want` establishes. */
void guard_learn(Sema *s, const Tree *at, const SInfo *have, const SInfo *want);
/* The arguments of an OP_CALL against the callee's parameters. */
void guard_call(Sema *s, const Tree *t, Node *n);
/* Arguments and results of a call_tir against the prim_func's buffers; gives the node to use in
 * place of n. */
Node *guard_call_tir(Sema *s, const Tree *t, Node *n, const PrimFunc *f, SInfoList *out,
                     const IntList *inplace);

#endif
