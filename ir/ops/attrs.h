/* The attribute structs, <id>_attrs, made from the rows of ir/ops/<group>.def. */
#ifndef RELAXC_IR_OPS_ATTRS_H
#define RELAXC_IR_OPS_ATTRS_H

#include "ir/op.h"

#define AK_TYPE_AK_INT int64_t
#define AK_TYPE_AK_OPT_INT OptInt
#define AK_TYPE_AK_FLOAT double
#define AK_TYPE_AK_OPT_FLOAT OptFloat
#define AK_TYPE_AK_BOOL bool
#define AK_TYPE_AK_STR const char *
#define AK_TYPE_AK_TEXT const char *
#define AK_TYPE_AK_DTYPE DType
#define AK_TYPE_AK_INTS IntList
#define AK_TYPE_AK_EXPRS ExprList
#define AK_TYPE_AK_SINFOS SInfoList
#define AK_TYPE_AK_DICT const Attr *
#define AK_TYPE_AK_INDEX_MAP const Attr *
#define AK_TYPE_AK_ANY const Attr *

#define ATTRS_NONE(A, S)
#define ATTR_FIELD(S, kind, field, old, def, doc) AK_TYPE_##kind field;
#define OP(id, name, args, attrs, ...)                                                             \
  typedef struct {                                                                                 \
    attrs(ATTR_FIELD, id) char end_;                                                               \
  } id##_attrs;
#include "ir/ops/all.def"
#undef OP

/* Typed access: node_attrs(n, nn_softmax)->axis. */
#define node_attrs(n, id) ((id##_attrs *)(n)->attrs)

#endif
