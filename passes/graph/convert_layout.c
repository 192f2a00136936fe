/* ConvertLayout: operators compute in the layouts that are asked for, and what lies between them
 * follows.
 *
 *   before: y = R.nn.conv2d(x, w)            after: a = R.permute_dims(x, [0, 2, 3, 1])
 *           z = R.nn.relu(y)                        b = R.permute_dims(w, [0, 2, 3, 1])
 *                                                   y = R.nn.conv2d(a, b, data_layout="NHWC", ...)
 *                                                   z = R.nn.relu(y)
 *                                                   c = R.permute_dims(z, [0, 3, 1, 2])
 *
 * One walk from operands to users. For each value that isn't as in the program the walk knows the
 * order of its axes; an operator's layout hook (ir/ops/order.h) says what becomes of the operator
 * when its operands come so. Without a hook, and where a value leaves the function or enters
 * another, it is turned back. Exchanges of axes that meet are joined or cancel. This is the scheme
 * of TVM's pass of the same name.
 *
 * An order may have axes in blocks, NCHW16c: it is reached by R.reshape and R.permute_dims. Blocks
 * that don't divide an axis are left away, with a remark.
 */
#include "ir/ops/order.h"
#include "passes/graph/choose_layout.h"
#include "passes/graph/graph.h"
#include <string.h>

typedef struct Turned {
  Node *from, *to; /* to: from with its axes exchanged */
  AxisOrder axes;
  struct Turned *next;
} Turned;

typedef struct {
  PassCtx *pc;
  Func *f;
  const Attr *desired[OP_COUNT];
  bool automatic; /* as choose_layout.c says */
  LayoutChoice choice;
  Map orders;        /* Node * -> AxisOrder[] of its fields, those that are not as in the program */
  Map turned;        /* Node * -> Turned *: exchanges made of it */
  Map blocked;       /* the same where it or they have blocks: axes is the order reached */
  NodeVec exchanges; /* the program's own R.permute_dims, which may have become needless */
} Convert;

/* ---- orders of values ---- */

static uint32_t field_count(const SInfo *s) {
  return s->kind == SINFO_TUPLE ? s->n : 1;
}

/* Tuples in tuples are always as in the program. */
static bool is_nested(const SInfo *s) {
  if (s->kind != SINFO_TUPLE) return false;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->fields[i]->kind == SINFO_TUPLE) return true;
  return false;
}

static AxisOrder *new_orders(Convert *x, const SInfo *s) {
  return ARENA_ARRAY(x->pc->scratch, AxisOrder, field_count(s) + 1);
}

static const AxisOrder *orders_of(Convert *x, Node *n) {
  const AxisOrder *known = map_getp(&x->orders, n);
  if (known) return known;
  AxisOrder *o = new_orders(x, n->sinfo);
  if (n->op == OP_TUPLE && !is_nested(n->sinfo))
    for (uint32_t i = 0; i < n->nin; i++) o[i] = *orders_of(x, node_in(n, i));
  return o;
}

static bool all_plain(const AxisOrder *o, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!order_is_plain(&o[i])) return false;
  return true;
}

static const Expr *dim_in_order(Context *c, const SInfo *s, const AxisOrder *o, uint32_t i) {
  const Expr *whole = s->dims[o->at[i]];
  int64_t size = order_block(o, o->at[i]);
  if (!size) return whole;
  return o->inner[i] ? expr_i64(c, size)
                     : expr_simplify(c, expr_floordiv(c, whole, expr_i64(c, size)));
}

static const SInfo *sinfo_in_order(Context *c, const SInfo *s, const AxisOrder *o) {
  if (s->kind == SINFO_TUPLE) {
    const SInfo **f = ARENA_ARRAY(c->arena, const SInfo *, s->n + 1);
    for (uint32_t i = 0; i < s->n; i++) f[i] = sinfo_in_order(c, s->fields[i], &o[i]);
    return sinfo_tuple(c, f, s->n);
  }
  if (order_is_plain(o)) return s;
  const Expr *d[ORDER_MAX];
  for (uint32_t i = 0; s->dims && i < o->n; i++) d[i] = dim_in_order(c, s, o, i);
  const SInfo *r =
      s->dims ? sinfo_tensor(c, d, o->n, s->dtype) : sinfo_tensor_ndim(c, (int32_t)o->n, s->dtype);
  return s->vdevice ? sinfo_with_vdevice(c, r, s->vdevice) : r;
}

/* ---- exchanges of axes ---- */

static IntList int_list(Arena *a, const AxisOrder *o) {
  int64_t *at = ARENA_ARRAY(a, int64_t, o->n + 1);
  for (uint32_t i = 0; i < o->n; i++) at[i] = o->at[i];
  return (IntList){(int32_t)o->n, at};
}

static AxisOrder order_of_exchange(const Node *n) {
  IntList axes = node_attrs(n, permute_dims)->axes;
  AxisOrder o = {.n = (uint32_t)(n->sinfo->ndim > 0 ? n->sinfo->ndim : 0)};
  if (o.n > ORDER_MAX) return (AxisOrder){0};
  for (uint32_t i = 0; i < o.n; i++) {
    int64_t a = axes.n < 0 ? o.n - 1 - i : axes.at[i];
    o.at[i] = (uint8_t)(a < 0 ? a + o.n : a);
  }
  return o;
}

/* a, then b. */
static AxisOrder order_join(const AxisOrder *a, const AxisOrder *b) {
  AxisOrder r = {.n = b->n};
  for (uint32_t i = 0; i < b->n; i++) r.at[i] = a->at[b->at[i]];
  return r;
}

/* Where a node made of n can stand for all users of n: right after it, or first in the function for
 * a parameter. What is written in place at its use has no place of its own: before `at`. */
static void bind_beside(Node *n, Node *at, Node *made) {
  if (n->block) {
    node_bind_after(n, made, NULL);
    return;
  }
  if (n->op == OP_PARAM)
    for (BindingBlock *b = n->func->body.first; b; b = b->next)
      if (b->first) {
        at = b->first;
        break;
      }
  node_bind_before(at, made, NULL);
}

/* n, as it is, with its axes exchanged, of type `to`; found again when it was made before. */
static Node *exchange(Convert *x, Node *at, Node *n, AxisOrder axes, const SInfo *to) {
  if (n->op == OP_permute_dims) {
    AxisOrder inner = order_of_exchange(n);
    if (inner.n == axes.n) {
      axes = order_join(&inner, &axes);
      n = node_in(n, 0);
    }
  }
  if (order_is_plain(&axes)) return n;
  Turned *known = map_getp(&x->turned, n);
  for (Turned *t = known; t; t = t->next)
    if (order_equal(&t->axes, &axes)) return t->to;
  Node *made = node_create(n->func, OP_permute_dims, &n, 1, n->span);
  permute_dims_attrs *attrs = node_new_attrs(n->func, OP_permute_dims);
  attrs->axes = int_list(func_arena(n->func), &axes);
  made->attrs = attrs;
  made->sinfo = to;
  bind_beside(n, at, made);
  if (n->block || n->op == OP_PARAM) {
    Turned *t = ARENA_NEW(x->pc->scratch, Turned);
    *t = (Turned){n, made, axes, known};
    map_setp(&x->turned, n, t);
  }
  return made;
}

/* n with dims of 1 in front, for a rank of `rank`. */
static Node *widen(Convert *x, Node *at, Node *n, uint32_t rank) {
  AxisOrder front = {.n = rank - (uint32_t)n->sinfo->ndim};
  for (uint32_t i = 0; i < front.n; i++) front.at[i] = (uint8_t)i;
  Node *made = node_create(n->func, OP_expand_dims, &n, 1, n->span);
  expand_dims_attrs *attrs = node_new_attrs(n->func, OP_expand_dims);
  attrs->axis = int_list(func_arena(n->func), &front);
  made->attrs = attrs;
  const Expr *dims[ORDER_MAX];
  for (uint32_t i = 0; n->sinfo->dims && i < rank; i++)
    dims[i] = i < front.n ? expr_i64(x->pc->c, 1) : n->sinfo->dims[i - front.n];
  DType d = n->sinfo->dtype;
  made->sinfo = n->sinfo->dims ? sinfo_tensor(x->pc->c, dims, rank, d)
                               : sinfo_tensor_ndim(x->pc->c, (int32_t)rank, d);
  node_bind_before(at, made, NULL);
  return made;
}

/* ---- axes in blocks ---- */

static Node *reshape(Convert *x, Node *at, Node *n, const Expr *const *dims, uint32_t rank) {
  Node *in[] = {n, node_shape(n->func, dims, rank, n->span)};
  Node *made = node_create(n->func, OP_reshape, in, 2, n->span);
  made->sinfo = sinfo_tensor(x->pc->c, dims, rank, n->sinfo->dtype);
  bind_beside(n, at, made);
  return made;
}

/* The order with the axes that are in blocks in `other` in blocks, too, both parts where the axis
 * stands. */
static AxisOrder split_like(const AxisOrder *o, const AxisOrder *other, uint32_t rank) {
  AxisOrder r = {0};
  for (uint32_t i = 0; i < (o->n ? o->n : rank); i++) {
    uint8_t axis = o->n ? o->at[i] : (uint8_t)i;
    r.at[r.n] = axis;
    r.inner[r.n++] = o->n ? o->inner[i] : 0;
    if (order_block(o, axis) || !order_block(other, axis)) continue;
    r.at[r.n] = axis;
    r.inner[r.n++] = (int32_t)order_block(other, axis);
  }
  return r;
}

/* Tensor n, which has order `have`, in order `want`, at least one of which has blocks:
 *   reshape, which parts axes; permute_dims; reshape, which joins the parts of others. */
static Node *exchange_blocks(Convert *x, Node *at, Node *n, const AxisOrder *have,
                             const AxisOrder *want) {
  Context *c = x->pc->c;
  const SInfo *s = n->sinfo;
  uint32_t rank = (uint32_t)s->ndim;
  for (Turned *t = map_getp(&x->blocked, n); t; t = t->next)
    if (order_equal(&t->axes, want)) return t->to;
  AxisOrder from = split_like(have, want, rank), to = split_like(want, have, rank), axes = {0};
  const Expr *dims[2][ORDER_MAX], *end[ORDER_MAX];
  for (uint32_t i = 0; i < from.n; i++) dims[0][i] = dim_in_order(c, s, &from, i);
  for (; axes.n < to.n; axes.n++) {
    uint32_t k = 0;
    while (from.at[k] != to.at[axes.n] || from.inner[k] != to.inner[axes.n]) k++;
    axes.at[axes.n] = (uint8_t)k;
    dims[1][axes.n] = dims[0][k];
  }
  Node *r = n;
  if (from.n != (have->n ? have->n : rank)) r = reshape(x, at, r, dims[0], from.n);
  if (!order_is_plain(&axes)) {
    Node *made = node_create(n->func, OP_permute_dims, &r, 1, n->span);
    permute_dims_attrs *attrs = node_new_attrs(n->func, OP_permute_dims);
    attrs->axes = int_list(func_arena(n->func), &axes);
    made->attrs = attrs;
    made->sinfo = sinfo_tensor(c, dims[1], to.n, s->dtype);
    bind_beside(r, at, made);
    r = made;
  }
  if (to.n != (want->n ? want->n : rank)) {
    uint32_t m = want->n ? want->n : rank;
    for (uint32_t i = 0; i < m; i++) end[i] = want->n ? dim_in_order(c, s, want, i) : s->dims[i];
    r = reshape(x, at, r, end, m);
  }
  if (n->block || n->op == OP_PARAM) {
    Turned *t = ARENA_NEW(x->pc->scratch, Turned);
    *t = (Turned){n, r, *want, map_getp(&x->blocked, n)};
    map_setp(&x->blocked, n, t);
  }
  return r;
}

/* Axes that are in blocks in both orders are in blocks of one size. */
static bool blocks_agree(const AxisOrder *a, const AxisOrder *b) {
  for (uint32_t i = 0; i < a->n; i++) {
    int64_t size = order_block(b, a->at[i]);
    if (a->inner[i] && size && size != a->inner[i]) return false;
  }
  return true;
}

/* Tensor n, which has order `have`, in order `want`. */
static Node *turn_tensor(Convert *x, Node *at, Node *n, const AxisOrder *have,
                         const AxisOrder *want) {
  static const AxisOrder plain = {0};
  if (n->sinfo->kind != SINFO_TENSOR || order_equal(have, want)) return n;
  if (order_rank(want) > (uint32_t)n->sinfo->ndim) {
    n = widen(x, at, turn_tensor(x, at, n, have, &plain), order_rank(want));
    have = &plain;
  }
  if (order_has_blocks(have) && order_has_blocks(want) && !blocks_agree(have, want)) {
    n = exchange_blocks(x, at, n, have, &plain);
    have = &plain;
  }
  if (order_has_blocks(have) || order_has_blocks(want))
    return exchange_blocks(x, at, n, have, want);
  AxisOrder axes = {.n = want->n ? want->n : have->n};
  for (uint32_t i = 0; i < axes.n; i++)
    axes.at[i] = (uint8_t)order_place(have, want->n ? want->at[i] : i);
  return exchange(x, at, n, axes, sinfo_in_order(x->pc->c, n->sinfo, want));
}

/* Operand d of `at` in the orders `want`, NULL: as in the program. */
static Node *turn(Convert *x, Node *at, Node *d, const AxisOrder *want) {
  if (d->sinfo->kind != SINFO_TUPLE) {
    AxisOrder plain = {0};
    return turn_tensor(x, at, d, orders_of(x, d), want ? want : &plain);
  }
  bool nested = is_nested(d->sinfo), same = true;
  if (nested && (d->block || d->op != OP_TUPLE)) return d;
  const AxisOrder *have = orders_of(x, d);
  Node **in = ARENA_ARRAY(x->pc->scratch, Node *, d->sinfo->n + 1);
  for (uint32_t i = 0; i < d->sinfo->n; i++) {
    if (!nested) same &= want ? order_equal(&have[i], &want[i]) : order_is_plain(&have[i]);
    if (d->op == OP_TUPLE) in[i] = node_in(d, i);
  }
  if (same && !nested) return d;
  for (uint32_t i = 0; i < d->sinfo->n; i++) {
    AxisOrder to = want ? want[i] : (AxisOrder){0};
    if (nested) {
      in[i] = turn(x, at, in[i], NULL);
      continue;
    }
    if (!in[i]) {
      in[i] = node_tuple_get(d->func, d, i, d->span);
      in[i]->sinfo = d->sinfo->fields[i];
      if (!order_is_plain(&have[i]))
        map_setp(&x->orders, in[i], arena_dup(x->pc->scratch, &have[i], sizeof have[i]));
      bind_beside(d, at, in[i]);
    }
    in[i] = turn_tensor(x, at, in[i], &have[i], &to);
  }
  Node *t = node_tuple(d->func, in, d->sinfo->n, d->span);
  t->sinfo = d->sinfo;
  return t;
}

/* ---- the walk ---- */

/* Blocks divide their axes; s may have fewer axes than the order. */
static bool blocks_fit(Context *c, const SInfo *s, const AxisOrder *o) {
  uint32_t missing = order_rank(o) - (uint32_t)s->ndim;
  for (uint32_t i = 0; i < o->n; i++) {
    if (o->inner[i] <= 1) continue;
    if (!s->dims || o->at[i] < missing) return false;
    const Expr *size = expr_i64(c, o->inner[i]), *dim = s->dims[o->at[i] - missing];
    if (!expr_is_int(expr_simplify(c, expr_floormod(c, dim, size)), 0)) return false;
  }
  return s->dims || !order_has_blocks(o);
}

/* Ranks are known and fit the orders. */
static bool orders_fit(Context *c, const SInfo *s, const AxisOrder *o, bool may_widen) {
  for (uint32_t i = 0; i < field_count(s); i++) {
    const SInfo *f = s->kind == SINFO_TUPLE ? s->fields[i] : s;
    if (order_is_plain(&o[i])) continue;
    if (f->kind != SINFO_TENSOR || f->ndim < 0) return false;
    uint32_t rank = order_rank(&o[i]);
    if (may_widen ? (uint32_t)f->ndim > rank : (uint32_t)f->ndim != rank) return false;
    if (!blocks_fit(c, f, &o[i])) return false;
  }
  return true;
}

/* Tells of blocks that were asked for and don't fit. */
static void remark_blocks(Convert *x, const Node *n, const LayoutCtx *lc) {
  static const char *const what[] = {"the data", "the weights", "the result"};
  if (!x->pc->remarks) return;
  for (uint32_t i = 0; i < lc->ndesired && i < 3; i++) {
    const AxisOrder *o = i == 2 ? lc->out : i < n->nin ? lc->want[i] : NULL;
    if (o && strpbrk(lc->desired[i], "0123456789") && !order_has_blocks(o))
      diag(x->pc->c->diags, DIAG_REMARK, n->span, "%s can't be in '%s': no axis is whole blocks",
           what[i], lc->desired[i]);
  }
}

/* What n's hook says; false when it must get its operands as in the program. */
static bool ask(Convert *x, Node *n, LayoutCtx *lc) {
  const OpInfo *op = node_op(n);
  const Attr *wish = x->desired[n->op];
  const ChosenLayouts *own = x->automatic ? map_getp(&x->choice.convolutions, n) : NULL;
  WorksIn works = x->automatic ? (WorksIn)(uintptr_t)map_getp(&x->choice.others, n) : 0;
  bool any = wish != NULL || own;
  if (works == WORKS_PLAIN) return false;
  for (uint32_t i = 0; i < n->nin; i++) {
    const SInfo *s = node_in(n, i)->sinfo;
    lc->in[i] = orders_of(x, node_in(n, i));
    lc->want[i] = new_orders(x, s);
    if (works == WORKS_LAST && node_in(n, i)->op != OP_CONST)
      lc->in[i] = orders_last(x->pc->scratch, s);
    any |= !all_plain(lc->in[i], field_count(s));
  }
  if (!any || !op->layout) return false;
  const char **text = ARENA_ARRAY(x->pc->scratch, const char *, 4);
  for (uint32_t i = 0; wish && i < wish->n; i++) text[i] = wish->items[i]->s;
  lc->arena = func_arena(x->f);
  lc->desired = own ? own->at : text;
  lc->ndesired = own ? 3 : wish ? wish->n : 0;
  lc->nout = field_count(n->sinfo);
  lc->final = true;
  lc->attrs = n->attrs ? arena_dup(lc->arena, n->attrs, op->attrs_size) : NULL;
  if (!op->layout(lc, n) || !orders_fit(x->pc->c, n->sinfo, lc->out, false)) return false;
  for (uint32_t i = 0; i < n->nin; i++)
    if (!orders_fit(x->pc->c, node_in(n, i)->sinfo, lc->want[i], true)) return false;
  remark_blocks(x, n, lc);
  return true;
}

static void convert_node(Convert *x, Node *n) {
  AxisOrder *out = new_orders(x, n->sinfo);
  if (n->op == OP_TUPLE && !is_nested(n->sinfo)) {
    memcpy(out, orders_of(x, n), field_count(n->sinfo) * sizeof *out);
  } else if (n->op == OP_TUPLE_GET && !is_nested(node_in(n, 0)->sinfo)) {
    *out = orders_of(x, node_in(n, 0))[n->index];
  } else if (n->op == OP_ALIAS && n->sinfo->kind == SINFO_TENSOR) {
    *out = *orders_of(x, node_in(n, 0));
  } else {
    LayoutCtx lc = {.out = out};
    lc.in = ARENA_ARRAY(x->pc->scratch, const AxisOrder *, n->nin + 1);
    lc.want = ARENA_ARRAY(x->pc->scratch, AxisOrder *, n->nin + 1);
    lc.instead = ARENA_ARRAY(x->pc->scratch, Node *, n->nin + 1);
    bool asked = ask(x, n, &lc);
    for (uint32_t i = 0; i < n->nin; i++) {
      Node *d = turn(x, n, node_in(n, i), asked ? lc.want[i] : NULL);
      if (asked && lc.instead[i]) d = lc.instead[i];
      if (d != node_in(n, i)) node_set_in(n, i, d);
    }
    if (asked) n->attrs = lc.attrs;
    if (!asked) return;
  }
  if (!all_plain(out, field_count(n->sinfo))) map_setp(&x->orders, n, out);
}

static void convert_seq(Convert *x, Seq *s) {
  for (BindingBlock *b = s->first; b; b = b->next)
    for (Node *n = b->first; n; n = n->next) { /* what is made for n stands before it */
      if (n->op == OP_IF) {
        convert_seq(x, &n->if_.then_);
        convert_seq(x, &n->if_.else_);
      } else if (n->op == OP_FUNC && n->local) {
        convert_seq(x, &n->local->body);
      } else if (n->op == OP_permute_dims) {
        vec_push(x->pc->scratch, &x->exchanges, n);
      }
      convert_node(x, n);
    }
  convert_node(x, s->yield);
}

/* The struct info of what was turned, and the program's exchanges that do nothing any more. */
static bool finish(Convert *x) {
  for (uint32_t i = 0; i < x->orders.n; i++) {
    Node *n = (Node *)(uintptr_t)x->orders.entries[i].key;
    n->sinfo = sinfo_in_order(x->pc->c, n->sinfo, x->orders.entries[i].value);
    n->annot = NULL;
  }
  for (uint32_t i = x->exchanges.n; i-- > 0;) {
    Node *n = x->exchanges.at[i];
    AxisOrder axes = order_of_exchange(n);
    if (axes.n && order_is_plain(&axes) && node_has_uses(n)) graph_replace(n, node_in(n, 0));
    if (!node_has_uses(n)) node_delete(n);
  }
  func_mark_outputs(x->f);
  return func_infer(x->f);
}

/* ---- desired_layouts ---- */

static bool refuse(PassCtx *pc, const char *op, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(PassCtx *pc, const char *op, const char *fmt, ...) {
  Text t = {0};
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  diag_error(pc->c->diags, SPAN_NONE, "desired_layouts, '%s': %s", op, text_cstr(&t));
  text_free(&t);
  return false;
}

/* The letters of an operator's k-th layout attribute, as the default has them; NULL when there are
 * not so many. A result's default is None: it has the letters of the data. */
static const char *layout_letters(Arena *a, const OpInfo *op, uint32_t k) {
  const char *first = NULL;
  for (uint32_t i = 0; i < op->nattrs; i++) {
    const AttrField *f = &op->attrs[i];
    size_t n = strlen(f->name);
    if (f->kind != AK_STR || n < 6 || strcmp(f->name + n - 6, "layout") != 0) continue;
    bool quoted = f->defval && f->defval[0] == '"';
    const char *s = quoted ? arena_strndup(a, f->defval + 1, strlen(f->defval) - 2) : first;
    if (!first) first = s;
    if (k-- == 0) return s;
  }
  return NULL;
}

static bool read_wish(Convert *x, const char *name, const Attr *list) {
  PassCtx *pc = x->pc;
  const char *plain = strncmp(name, "relax.", 6) == 0 ? name + 6 : name;
  int id = op_find(plain);
  if (id < 0 || op_table[id].traits & OPT_STRUCTURAL) {
    const char *near = op_nearest(plain);
    return refuse(pc, name, "there is no such operator%s%s%s", near ? "; did you mean 'relax." : "",
                  near ? near : "", near ? "'?" : "");
  }
  const OpInfo *op = &op_table[id];
  if (!layout_letters(pc->scratch, op, 0))
    return refuse(pc, name, "the operator has no layout of its own, it follows its operands");
  if (list->kind != ATTR_LIST) return refuse(pc, name, "expected a list of layouts");
  if (list->n == 1 && list->items[0]->kind == ATTR_STR && !strcmp(list->items[0]->s, "auto")) {
    if (id != OP_nn_conv2d) return refuse(pc, name, "\"auto\" is for 'relax.nn.conv2d' only");
    x->automatic = true;
    return true;
  }
  for (uint32_t i = 0; i < list->n; i++) {
    const char *letters = layout_letters(pc->scratch, op, i);
    if (!letters) return refuse(pc, name, "%u layouts are given, the operator has %u", list->n, i);
    if (list->items[i]->kind != ATTR_STR) return refuse(pc, name, "a layout must be a string");
    const char *s = list->items[i]->s;
    AxisOrder o;
    if (!order_of_letters(letters, s, &o))
      return refuse(
          pc, name,
          "'%s' is no layout with the letters of '%s', once each, and blocks of them such as 16%c",
          s, letters, letters[1] - 'A' + 'a');
  }
  if (list->n) x->desired[id] = list;
  return true;
}

bool pass_convert_layout(PassCtx *pc) {
  Convert x = {.pc = pc};
  const Attr *wishes = attr_get(pc->options, "desired_layouts");
  bool ok = true;
  for (uint32_t i = 0; wishes && i < wishes->n; i++)
    ok &= read_wish(&x, wishes->keys[i], wishes->items[i]);
  if (!ok) return false;
  module_each(pc->m, g) {
    if (g->kind != GLOBAL_FUNC || !pass_wants(pc, g->name)) continue;
    x.f = g->func;
    x.exchanges = (NodeVec){0};
    map_init(&x.orders, pc->scratch);
    map_init(&x.turned, pc->scratch);
    map_init(&x.blocked, pc->scratch);
    if (x.automatic) layouts_choose(pc, x.f, &x.choice);
    convert_seq(&x, &x.f->body);
    ok &= finish(&x);
  }
  return ok;
}
