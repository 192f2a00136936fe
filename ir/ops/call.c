/* Calls across levels: the result is what out_ty or ty_args say. That a prim_func's signature
 * agrees with them is the verifier's business (ir/verify.c). */
#include "ir/ops/util.h"

#include <stdlib.h>

static const SInfo *of_list(InferCtx *ic, const SInfoList *l) {
  if (l->n == 1) return l->at[0];
  return sinfo_tuple(ic->c, l->at, (uint32_t)l->n);
}

/* Every call of this group has its types first in its attribute struct. */
_Static_assert(offsetof(call_tir_attrs, out_ty) == 0, "read by infer_out_ty");
_Static_assert(offsetof(call_tir_inplace_attrs, out_ty) == 0, "read by infer_out_ty");
_Static_assert(offsetof(call_tir_with_grad_attrs, out_ty) == 0, "read by infer_out_ty");
_Static_assert(offsetof(call_dps_packed_attrs, out_ty) == 0, "read by infer_out_ty");

const SInfo *infer_out_ty(InferCtx *ic, Node *n) {
  const SInfoList *l = n->attrs;
  if (!l || l->n == 0) return infer_error(ic, n, C_given, -1, "out_ty is missing");
  for (int32_t i = 0; i < l->n; i++)
    if (l->at[i]->kind == SINFO_BAD) return sinfo_bad(ic->c);
  return of_list(ic, l);
}

/* A prim_func doesn't say what its results look like: their types do, and they are allocated. */
const SInfo *infer_call_tir(InferCtx *ic, Node *n) {
  const SInfoList *l = n->attrs;
  for (int32_t i = 0; l && i < l->n; i++) {
    const SInfo *s = l->at[i];
    if (s->kind == SINFO_TENSOR && (!s->dims || !dtype_known(s->dtype)))
      return infer_error(ic, n, C_result, -1,
                         "out_ty must state the %s of result %d, which is allocated: %s",
                         s->dims ? "dtype" : "shape", i, infer_type_text(ic, s));
  }
  if (node_in(n, 0)->op != OP_GLOBAL)
    return infer_error(ic, n, C_callee, 0, "the callee must be a prim_func of the module");
  return infer_out_ty(ic, n);
}

const SInfo *infer_inplace_packed(InferCtx *ic, Node *n) {
  const SInfoList *l = &node_attrs(n, call_inplace_packed)->ty_args;
  if (l->n <= 0) return infer_error(ic, n, C_given, -1, "ty_args is missing");
  IntList at = node_attrs(n, call_inplace_packed)->inplace_indices;
  bool any = false;
  for (int32_t i = 0; i < at.n; i++) {
    if (at.at[i] < -1 || at.at[i] >= (int64_t)n->nin - 1)
      return infer_error(ic, n, C_inplace, -1, "there is no argument %lld to overwrite",
                         (long long)at.at[i]);
    if (at.at[i] < 0) continue;
    any = true;
    for (int32_t k = 0; k < i; k++)
      if (at.at[k] == at.at[i])
        return infer_error(ic, n, C_inplace, -1, "argument %lld is overwritten twice",
                           (long long)at.at[i]);
    const SInfo *have = node_in(n, (uint32_t)at.at[i] + 1)->sinfo;
    const SInfo *want = i < l->n ? l->at[i] : NULL;
    if (!want || sinfo_check(ic->c, ic->facts, have, want, NULL) != SINFO_SUB)
      return infer_error(ic, n, C_inplace, (int)at.at[i] + 1,
                         "result %d can't overwrite argument %lld: it is %s but the argument %s", i,
                         (long long)at.at[i], want ? infer_type_text(ic, want) : "missing",
                         infer_type_text(ic, have));
  }
  if (!any)
    return infer_error(ic, n, C_inplace, -1, "no argument is overwritten: use R.call_pure_packed");
  return of_list(ic, l);
}

_Static_assert(offsetof(call_py_func_attrs, out_ty) == 0, "read by infer_out_ty");
_Static_assert(offsetof(call_packed_attrs, ty_args) == 0, "read by infer_ty_args");
_Static_assert(offsetof(call_pure_packed_attrs, ty_args) == 0, "read by infer_ty_args");

const SInfo *infer_ty_args(InferCtx *ic, Node *n) {
  const SInfoList *l = n->attrs;
  return l && l->n ? of_list(ic, l) : sinfo_object(ic->c);
}

const SInfo *infer_call_pure_packed(InferCtx *ic, Node *n) {
  if (!node_attrs(n, call_pure_packed)->ty_args.n)
    return infer_error(ic, n, C_given, -1, "ty_args is missing");
  return infer_ty_args(ic, n);
}

const SInfo *infer_assert_op(InferCtx *ic, Node *n) {
  const SInfo *s = node_in(n, 0)->sinfo;
  bool scalar = s->kind == SINFO_PRIM || (s->kind == SINFO_TENSOR && s->ndim <= 0);
  if (scalar && (!dtype_known(s->dtype) || dtype_is_bool(s->dtype)))
    return sinfo_tuple(ic->c, NULL, 0);
  return infer_error(ic, n, C_bool, 0, "a condition is a bool scalar but this is %s",
                     infer_type_text(ic, s));
}

const char *op_format_fault(const char *format, uint32_t n) {
  uint32_t next = 0;
  for (const char *s = format; *s; s++) {
    if (*s != '{' && *s != '}') continue;
    if (s[1] == *s) {
      s++;
      continue;
    }
    char *end;
    unsigned long at = strtoul(s + 1, &end, 10);
    if (*s == '}' || *end != '}' || (s[1] != '}' && (s[1] < '0' || s[1] > '9')))
      return "in the format only {}, {2}, {{ and }} are possible";
    if (end == s + 1) at = next++;
    if (at >= n) return "the format has places for more values than there are";
    s = end;
  }
  return NULL;
}
