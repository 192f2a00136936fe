/* Layout hooks (ir/ops/order.h) of all groups: few kinds of them serve many operators. A hook
 * returns false where no other order than the program's can be taken; what it has written then
 * doesn't count. That ranks are known and agree with the orders is checked by who asks. */
#include "ir/ops/order.h"

#include "ir/ops/hooks.h"

#include <string.h>

/* ---- what hooks share ---- */

/* Attribute `name` of the copy, or NULL; *kind is its kind. */
static void *attr_named(LayoutCtx *lc, const Node *n, const char *name, AttrFieldKind *kind) {
  const OpInfo *op = node_op(n);
  for (uint32_t i = 0; i < op->nattrs; i++)
    if (strcmp(op->attrs[i].name, name) == 0) {
      if (kind) *kind = op->attrs[i].kind;
      return (char *)lc->attrs + op->attrs[i].offset;
    }
  return NULL;
}

static int32_t rank_of(const SInfo *s) {
  return s->kind == SINFO_TENSOR && s->ndim <= ORDER_MAX ? s->ndim : -1;
}

static int64_t from_front(int64_t axis, int32_t rank) {
  return axis < 0 ? axis + rank : axis;
}

static int64_t moved_axis(const AxisOrder *o, int64_t axis, int32_t rank) {
  return order_place(o, (uint32_t)from_front(axis, rank));
}

static bool in_blocks(const AxisOrder *o, int64_t axis, int32_t rank) {
  return order_block(o, (uint32_t)from_front(axis, rank)) > 0;
}

static IntList moved_axes(LayoutCtx *lc, const AxisOrder *o, IntList axes, int32_t rank) {
  int64_t *at = ARENA_ARRAY(lc->arena, int64_t, axes.n + 1);
  for (int32_t i = 0; i < axes.n; i++) at[i] = moved_axis(o, axes.at[i], rank);
  return (IntList){axes.n, at};
}

/* Moves an attribute that names an axis, or axes, of a value of order o. False for an axis in
 * blocks, and for None, which stands for the value as one row or for whatever inference finds. */
static bool move_attr(LayoutCtx *lc, const Node *n, const char *name, const AxisOrder *o,
                      int32_t rank) {
  AttrFieldKind kind = AK_INT;
  void *p = attr_named(lc, n, name, &kind);
  if (!p) return true;
  if (kind == AK_INT) {
    if (in_blocks(o, *(int64_t *)p, rank)) return false;
    *(int64_t *)p = moved_axis(o, *(int64_t *)p, rank);
  }
  if (kind == AK_OPT_INT) {
    OptInt *axis = p;
    if (!axis->has || in_blocks(o, axis->v, rank)) return false;
    axis->v = moved_axis(o, axis->v, rank);
  }
  if (kind == AK_INTS) {
    IntList *axes = p;
    if (axes->n < 0) return false;
    for (int32_t i = 0; i < axes->n; i++)
      if (in_blocks(o, axes->at[i], rank)) return false;
    *axes = moved_axes(lc, o, *axes, rank);
  }
  return true;
}

/* The order of what remains when the program's axes in `gone` (bits) are dropped. */
static AxisOrder order_without(const AxisOrder *o, uint32_t gone) {
  AxisOrder r = {0};
  for (uint32_t i = 0; i < o->n; i++) {
    if (gone & 1u << o->at[i]) continue;
    uint32_t before = gone & ((1u << o->at[i]) - 1);
    r.at[r.n] = (uint8_t)(o->at[i] - __builtin_popcount(before));
    r.inner[r.n++] = o->inner[i];
  }
  return r;
}

/* The order of a result of this rank that has new axes (bits): they stand where they do in the
 * program, the others fill the rest in their order. */
static AxisOrder order_with(const AxisOrder *o, uint32_t fresh, uint32_t rank) {
  AxisOrder r = {.n = rank};
  uint32_t old[ORDER_MAX] = {0}, k = 0;
  for (uint32_t i = 0; i < rank; i++)
    if (!(fresh >> i & 1)) old[k++] = i;
  for (uint32_t i = k = 0; i < rank; i++) r.at[i] = (uint8_t)(fresh >> i & 1 ? i : old[o->at[k++]]);
  return r;
}

/* ---- elementwise ---- */

static bool all_ones(const SInfo *s) {
  for (int32_t i = 0; i < s->ndim; i++)
    if (!s->dims || !expr_is_int(s->dims[i], 1)) return false;
  return true;
}

/* What an operand of rank k wants where the result has order o: its own axes in that order if they
 * are the last ones of it, "NHWC" being "HWC" for (c, h, w), else all of the result's. */
static AxisOrder order_of_last(const AxisOrder *o, uint32_t k) {
  AxisOrder r = {.n = k};
  for (uint32_t i = 0, first = o->n - k; i < k; i++) {
    if (o->at[first + i] < first) return *o;
    r.at[i] = (uint8_t)(o->at[first + i] - first);
  }
  return r;
}

/* The same where the result is in blocks: all axes, those of extent 1 in blocks of 1. False when it
 * isn't known which those are. */
static bool blocks_of_operand(Context *c, const SInfo *s, const AxisOrder *o, AxisOrder *want) {
  uint32_t first = order_rank(o) - (uint32_t)s->ndim;
  *want = *o;
  for (uint32_t i = 0; i < o->n; i++) {
    if (!o->inner[i]) continue;
    if (!s->dims) return false;
    const Expr *d = o->at[i] < first ? expr_i64(c, 1) : s->dims[o->at[i] - first];
    if (expr_is_int(d, 1)) want->inner[i] = 1;
  }
  return true;
}

/* The first operand of full rank that was turned decides, a constant never: it can be turned at
 * compile time. */
bool layout_elementwise(LayoutCtx *lc, const Node *n) {
  int32_t rank = rank_of(n->sinfo);
  const AxisOrder *o = NULL;
  for (uint32_t i = 0; i < n->nin && !o; i++)
    if (node_in(n, i)->op != OP_CONST && rank_of(node_in(n, i)->sinfo) == rank &&
        !order_is_plain(lc->in[i]))
      o = lc->in[i];
  if (rank < 0 || !o) return false;
  for (uint32_t i = 0; i < n->nin; i++) {
    const SInfo *s = node_in(n, i)->sinfo;
    if (s->kind == SINFO_PRIM) continue;
    int32_t k = rank_of(s);
    if (k < 0 || k > rank) return false;
    if (all_ones(s))
      *lc->want[i] = order_has_blocks(lc->in[i]) ? (AxisOrder){0} : *lc->in[i];
    else if (!order_has_blocks(o))
      *lc->want[i] = order_of_last(o, (uint32_t)k);
    else if (!blocks_of_operand(func_ctx(n->func), s, o, lc->want[i]))
      return false;
  }
  *lc->out = *o;
  return true;
}

/* ---- along axes ---- */

/* Operand 0 in any order; attributes name axes of it; results of its rank come in its order, and
 * other operands are as long as an axis or a scalar. */
bool layout_along(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = lc->in[0];
  int32_t rank = rank_of(node_in(n, 0)->sinfo);
  if (rank < 0 || !move_attr(lc, n, "axis", o, rank) || !move_attr(lc, n, "axes", o, rank) ||
      !move_attr(lc, n, "channel_axis", o, rank))
    return false;
  *lc->want[0] = *o;
  bool tuple = n->sinfo->kind == SINFO_TUPLE;
  for (uint32_t i = 0; i < lc->nout; i++)
    if (rank_of(tuple ? n->sinfo->fields[i] : n->sinfo) == rank) lc->out[i] = *o;
  return true;
}

bool layout_reduce(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = lc->in[0];
  int32_t rank = rank_of(node_in(n, 0)->sinfo);
  AttrFieldKind kind = AK_INT;
  const void *axis = attr_named(lc, n, "axis", &kind);
  uint32_t gone = 0;
  if (rank < 0) return false;
  if (kind == AK_OPT_INT) {
    if (!((const OptInt *)axis)->has) return false; /* positions in the tensor as one row */
    gone = 1u << from_front(((const OptInt *)axis)->v, rank);
  } else {
    IntList axes = *(const IntList *)axis;
    for (int32_t i = 0; i < axes.n; i++) gone |= 1u << from_front(axes.at[i], rank);
    if (axes.n < 0) gone = (1u << rank) - 1;
  }
  bool keepdims = *(const bool *)attr_named(lc, n, "keepdims", NULL);
  for (uint32_t i = 0; i < o->n; i++)
    if (o->inner[i] && gone >> o->at[i] & 1) return false;
  AxisOrder rest = keepdims ? *o : order_without(o, gone);
  move_attr(lc, n, "axis", o, rank); /* None: all of them in any order */
  *lc->want[0] = *o;
  for (uint32_t i = 0; i < lc->nout; i++) lc->out[i] = rest;
  return true;
}

/* A tuple's fields all want the order of the first that was turned; NULL when none was. */
static const AxisOrder *fields_alike(LayoutCtx *lc, const SInfo *s) {
  const AxisOrder *o = NULL;
  for (uint32_t i = 0; s->kind == SINFO_TUPLE && i < s->n && !o; i++)
    if (!order_is_plain(&lc->in[0][i])) o = &lc->in[0][i];
  for (uint32_t i = 0; o && i < s->n; i++) lc->want[0][i] = *o;
  return o;
}

bool layout_concat(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = fields_alike(lc, node_in(n, 0)->sinfo);
  OptInt *axis = attr_named(lc, n, "axis", NULL);
  if (!o || !axis->has) return false;
  axis->v = moved_axis(o, axis->v, rank_of(n->sinfo)); /* whole blocks, where it is in blocks */
  *lc->out = *o;
  return true;
}

bool layout_stack(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = fields_alike(lc, node_in(n, 0)->sinfo);
  int32_t rank = rank_of(n->sinfo);
  OptInt axis = *(OptInt *)attr_named(lc, n, "axis", NULL);
  if (!o || order_has_blocks(o) || rank != (int32_t)o->n + 1) return false;
  *lc->out = order_with(o, 1u << from_front(axis.has ? axis.v : 0, rank), (uint32_t)rank);
  return true;
}

/* One index takes the axis away, a row of them keeps it. */
bool layout_take(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = lc->in[0];
  int32_t rank = rank_of(node_in(n, 0)->sinfo), left = rank_of(n->sinfo);
  OptInt axis = *(OptInt *)attr_named(lc, n, "axis", NULL);
  if (rank < 0 || (left != rank && left != rank - 1) || !move_attr(lc, n, "axis", o, rank))
    return false;
  *lc->want[0] = *o;
  *lc->out = left == rank ? *o : order_without(o, 1u << from_front(axis.v, rank));
  return true;
}

/* The axes are an operand: a tuple of numbers. */
bool layout_strided_slice(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = lc->in[0];
  const Node *axes = node_in(n, 1);
  if (axes->op != OP_TUPLE) return false;
  Node **in = ARENA_ARRAY(lc->arena, Node *, axes->nin + 1);
  for (uint32_t i = 0; i < axes->nin; i++) {
    const Node *a = node_in(axes, i);
    if (a->op != OP_PRIM_VALUE || a->expr->kind != EXPR_INT || order_has_blocks(o)) return false;
    int64_t at = moved_axis(o, a->expr->i, (int32_t)o->n);
    in[i] = node_prim(n->func, expr_int(func_ctx(n->func), a->expr->dtype, at), a->span);
  }
  lc->instead[1] = node_tuple(n->func, in, axes->nin, axes->span);
  *lc->want[0] = *lc->out = *o;
  return true;
}

/* Counts are given for the last axes; more of them than the rank make new axes. */
bool layout_tile(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = lc->in[0];
  IntList *repeats = attr_named(lc, n, "repeats", NULL);
  int32_t first = (int32_t)o->n - repeats->n;
  if (order_has_blocks(o) || first < 0) return false;
  int64_t *at = ARENA_ARRAY(lc->arena, int64_t, o->n + 1);
  for (uint32_t i = 0; i < o->n; i++) at[i] = o->at[i] < first ? 1 : repeats->at[o->at[i] - first];
  *repeats = (IntList){(int32_t)o->n, at};
  *lc->want[0] = *lc->out = *o;
  return true;
}

bool layout_pad(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = lc->in[0];
  IntList *widths = attr_named(lc, n, "pad_width", NULL);
  if (order_has_blocks(o) || widths->n != (int32_t)(2 * o->n)) return false;
  int64_t *at = ARENA_ARRAY(lc->arena, int64_t, widths->n + 1);
  for (uint32_t i = 0; i < o->n; i++) memcpy(at + 2 * i, widths->at + 2 * o->at[i], 2 * sizeof *at);
  widths->at = at;
  *lc->want[0] = *lc->out = *o;
  return true;
}

/* ---- axes that move, come and go ---- */

/* The result comes as in the program: an exchange of axes is where a border costs nothing. */
bool layout_permute_dims(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = lc->in[0];
  IntList *axes = attr_named(lc, n, "axes", NULL);
  if (order_has_blocks(o)) return false;
  int64_t *at = ARENA_ARRAY(lc->arena, int64_t, o->n + 1);
  for (uint32_t i = 0; i < o->n; i++)
    at[i] = moved_axis(o, axes->n < 0 ? o->n - 1 - i : axes->at[i], (int32_t)o->n);
  *axes = (IntList){(int32_t)o->n, at};
  *lc->want[0] = *o;
  return true;
}

bool layout_expand_dims(LayoutCtx *lc, const Node *n) {
  IntList axes = *(IntList *)attr_named(lc, n, "axis", NULL);
  int32_t rank = rank_of(n->sinfo);
  uint32_t fresh = 0;
  if (order_has_blocks(lc->in[0]) || rank != (int32_t)lc->in[0]->n + axes.n) return false;
  for (int32_t i = 0; i < axes.n; i++) fresh |= 1u << from_front(axes.at[i], rank);
  *lc->want[0] = *lc->in[0];
  *lc->out = order_with(lc->in[0], fresh, (uint32_t)rank);
  return true;
}

bool layout_squeeze(LayoutCtx *lc, const Node *n) {
  const AxisOrder *o = lc->in[0];
  const SInfo *s = node_in(n, 0)->sinfo;
  IntList *axes = attr_named(lc, n, "axis", NULL);
  uint32_t named = 0, gone = 0;
  if (order_has_blocks(o) || rank_of(s) < 0 || !s->dims) return false;
  for (int32_t i = 0; i < axes->n; i++) named |= 1u << from_front(axes->at[i], s->ndim);
  for (int32_t i = 0; i < s->ndim; i++) {
    bool one = expr_is_int(s->dims[i], 1), known = s->dims[i]->kind == EXPR_INT;
    if (axes->n < 0 ? one : named >> i & 1 && (one || !known)) gone |= 1u << i;
  }
  if (s->ndim - __builtin_popcount(gone) != rank_of(n->sinfo)) return false;
  if (axes->n >= 0) *axes = moved_axes(lc, o, *axes, s->ndim);
  *lc->want[0] = *o;
  *lc->out = order_without(o, gone);
  return true;
}

/* ---- operators that spell their layouts ---- */

/* Brings attribute *letters of a value with struct info s to layout `to` (NULL: to what order *o
 * makes of it), and *o to the order that leads there. Blocks that don't divide their axis go. */
static bool move_letters(LayoutCtx *lc, const Node *n, const SInfo *s, const char **letters,
                         const char *to, AxisOrder *o) {
  if (to) {
    if (!order_of_letters(*letters, to, o)) return false;
    if (order_has_blocks(o)) {
      order_fit_blocks(func_ctx(n->func), o, s);
      to = order_letters(lc->arena, *letters, o);
    }
    *letters = to;
  } else if (o->n) {
    const char *moved = order_letters(lc->arena, *letters, o);
    if (!moved) return false;
    *letters = moved;
  }
  return true;
}

/* Convolution, pooling, resizing: the data as desired or as it comes, weights likewise, the result
 * as desired or as the data. */
bool layout_window(LayoutCtx *lc, const Node *n) {
  const char **data = attr_named(lc, n, "data_layout", NULL);
  const char **kernel = attr_named(lc, n, "kernel_layout", NULL);
  const char **out = attr_named(lc, n, "out_layout", NULL);
  const Attr **roi = attr_named(lc, n, "roi", NULL); /* a value per axis */
  if (!data) data = attr_named(lc, n, "layout", NULL);
  if (roi && *roi && (*roi)->kind != ATTR_NONE) return false;
  const char *wish[3] = {NULL}; /* data, kernel, result */
  for (uint32_t i = 0; i < lc->ndesired; i++) wish[i && !kernel ? 2 : i] = lc->desired[i];
  const char *result = out && *out ? *out : *data;
  *lc->want[0] = *lc->in[0];
  if (!move_letters(lc, n, node_in(n, 0)->sinfo, data, wish[0], lc->want[0])) return false;
  if (kernel) {
    *lc->want[1] = *lc->in[1];
    if (!move_letters(lc, n, node_in(n, 1)->sinfo, kernel, wish[1], lc->want[1])) return false;
  }
  const char *to = !out ? *data : wish[2] ? wish[2] : wish[0] ? wish[0] : *data;
  if (!move_letters(lc, n, n->sinfo, &result, to, lc->out)) return false;
  if (out && (*out || strcmp(result, *data) != 0)) *out = result;
  return true;
}
