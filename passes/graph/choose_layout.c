/* Layouts of convolutions, by what they are estimated to cost.
 *
 * Every value is as in the program or has its channels last. A convolution costs an estimated time
 * for each pair of layouts, of its data and of its result; an operator with a layout hook works in
 * either, all of its operands alike; everything else takes and gives what the program says. Where a
 * value isn't as its user takes it stands a conversion, which reads and writes it once. The
 * cheapest assignment is a minimum cut.
 *
 * The estimates are those of the scheduler's forms. Columns of a tile are channels, or else columns
 * of the image, and what counts is how many lanes they use; convolutions to the program's layout
 * with channels in lanes turn their tiles at the end. Shares of the peak were measured.
 */
#include "passes/graph/choose_layout.h"

#include "ir/ops/order.h"
#include "passes/graph/cut.h"
#include "passes/graph/graph.h"
#include <string.h>

#define UNKNOWN_DIM 64
#define MAX_VALUES 20000  /* of a function; more stay as they are */
#define VIEW 200          /* one that moves nothing: it may part what would be one kernel */
#define CONVERSION 2000   /* cycles that a conversion costs at least */
#define BYTES_PER_CYCLE 8 /* read and written by it */
#define TURN_STEPS 16     /* steps of a sum that turning a tile costs */
#define PLAIN 0.97        /* share of the peak: images in lanes or tiles turned */
#define EVERY_SECOND 0.85 /* columns of the image two apart, on top of that */
#define TO_PLAIN 0.93     /* from channels last */
#define TO_LAST 0.975     /* the other way */
#define LAST 0.98         /* channels last all through */
#define ONE_VECTOR 0.87   /* a single vector of columns, on top of that */
#define DEPTHWISE_PLAIN 0.75
#define DEPTHWISE_LAST 0.7
#define DEPTHWISE_WIDE 0.45 /* the same where the rows of a window leave the nearest cache */
#define NEAR_BYTES (16 * 1024)
#define FULL_LANES 16   /* a line of memory */
#define PANEL_BYTES 128 /* of an element of the image: the channels of a tile */

typedef enum {
  BORDER,  /* takes and gives what the program says */
  TAKES,   /* takes both, gives what the program says */
  FOLLOWS, /* one layout for operands and result */
} Role;

typedef struct {
  int64_t n, c, w;      /* of the data */
  int64_t o, oh, ow;    /* of the result */
  int64_t k;            /* steps of a sum */
  int64_t rows, kernel; /* rows and elements of a window */
  int64_t apart;        /* columns between a window and the next */
  bool depthwise;
} Shape;

typedef struct {
  PassCtx *pc;
  Cut cut;
  Map things;     /* Node * -> number */
  NodeVec conv;   /* those with a choice */
  NodeVec others; /* those that follow, and borders */
  int64_t lanes;
} Choice;

/* ---- costs, in cycles ---- */

static int64_t dim_of(Context *c, const SInfo *s, uint32_t i) {
  int64_t d;
  return s->dims && expr_const_int(c, s->dims[i], &d) ? d : UNKNOWN_DIM;
}

/* Part of the lanes that do something for n columns. */
static double lanes_used(int64_t n, int64_t lanes) {
  return n > 0 ? (double)n / (double)((n + lanes - 1) / lanes * lanes) : 1;
}

static bool is_image(const SInfo *s) {
  return s->kind == SINFO_TENSOR && s->ndim == 4;
}

static int64_t size_cost(const Choice *x, const SInfo *s) {
  double bytes = 2 * (double)dtype_bytes(s->dtype);
  if (!is_image(s)) return 0;
  if (dim_of(x->pc->c, s, 1) == 1 || dim_of(x->pc->c, s, 2) * dim_of(x->pc->c, s, 3) == 1)
    return VIEW; /* the same in memory */
  for (uint32_t i = 0; i < 4; i++) bytes *= (double)dim_of(x->pc->c, s, i);
  return bytes < 1e15 ? CONVERSION + (int64_t)(bytes / BYTES_PER_CYCLE) : CUT_NEVER;
}

/* Constants are converted at compile time. */
static int64_t conversion_cost(const Choice *x, const Node *n) {
  const SInfo *s = n->sinfo;
  int64_t cost = 0;
  if (n->op == OP_CONST) return 0;
  if (s->kind != SINFO_TUPLE) return size_cost(x, s);
  for (uint32_t f = 0; f < s->n && cost < CUT_NEVER; f++) cost += size_cost(x, s->fields[f]);
  return cost < CUT_NEVER ? cost : CUT_NEVER;
}

static double min_cost(double a, double b) {
  return a < b ? a : b;
}

/* cost[data has channels last][result has]. */
static void convolution_costs(const Choice *x, const Shape *s, double in, double out,
                              double cost[2][2]) {
  double work = (double)s->n * (double)s->o * (double)s->oh * (double)s->ow * (double)s->k /
                (2 * (double)x->lanes);
  double channels = lanes_used(s->o, x->lanes) * (s->o <= x->lanes ? ONE_VECTOR : 1);
  double image = lanes_used(s->kernel == 1 && s->apart == 1 ? s->oh * s->ow : s->ow, x->lanes);
  if (s->depthwise) {
    if (s->apart > 1) image *= EVERY_SECOND;
    cost[0][0] = work / (DEPTHWISE_PLAIN * image);
    bool near = s->rows * s->w * PANEL_BYTES <= NEAR_BYTES;
    if (x->lanes < FULL_LANES) near = false;
    double last = (near ? DEPTHWISE_LAST : DEPTHWISE_WIDE) * lanes_used(s->o, x->lanes);
    cost[1][1] = work / last;
    cost[0][1] = min_cost(cost[0][0] + out, in + cost[1][1]);
    cost[1][0] = min_cost(in + cost[0][0], cost[1][1] + out);
    return;
  }
  double turned = channels * (double)s->k / (double)(s->k + TURN_STEPS);
  if (s->apart > 1) image *= s->apart == 2 ? EVERY_SECOND : 0.5;
  cost[0][0] = work / (PLAIN * (image > turned ? image : turned));
  cost[0][1] = work / (TO_LAST * channels);
  cost[1][0] = work / (TO_PLAIN * turned);
  cost[1][1] = work / (LAST * channels);
}

/* ---- what operators do ---- */

static bool is_convolution(const Node *n) {
  const OpInfo *op = node_op(n);
  for (uint32_t i = 0; i < op->nattrs; i++)
    if (strcmp(op->attrs[i].name, "kernel_layout") == 0) return true;
  return false;
}

/* Whether there is a choice for n: of constant weights in the usual order, whole or depthwise. */
static bool read_shape(const Choice *x, const Node *n, Shape *s) {
  Context *c = x->pc->c;
  if (n->op != OP_nn_conv2d || node_in(n, 1)->op != OP_CONST) return false;
  const nn_conv2d_attrs *a = node_attrs(n, nn_conv2d);
  const SInfo *data = node_in(n, 0)->sinfo, *w = node_in(n, 1)->sinfo;
  if (!is_image(data) || !is_image(n->sinfo) || strcmp(a->data_layout, "NCHW") != 0 ||
      strcmp(a->kernel_layout, "OIHW") != 0 ||
      (a->out_layout && strcmp(a->out_layout, "NCHW") != 0) || !dtype_eq(data->dtype, DT_F32) ||
      !dtype_eq(n->sinfo->dtype, DT_F32) || !w->dims)
    return false;
  *s = (Shape){.n = dim_of(c, data, 0),
               .c = dim_of(c, data, 1),
               .w = dim_of(c, data, 3),
               .o = dim_of(c, w, 0),
               .oh = dim_of(c, n->sinfo, 2),
               .ow = dim_of(c, n->sinfo, 3),
               .k = dim_of(c, w, 1) * dim_of(c, w, 2) * dim_of(c, w, 3),
               .rows = dim_of(c, w, 2),
               .kernel = dim_of(c, w, 2) * dim_of(c, w, 3),
               .apart = a->strides.n ? a->strides.at[a->strides.n - 1] : 1,
               .depthwise = a->groups > 1};
  return a->groups == 1 || (a->groups == s->c && a->groups == s->o);
}

static const AxisOrder last = {4, {0, 2, 3, 1}, {0}};

AxisOrder *orders_last(Arena *a, const SInfo *s) {
  uint32_t n = s->kind == SINFO_TUPLE ? s->n : 1;
  AxisOrder *o = ARENA_ARRAY(a, AxisOrder, n + 1);
  for (uint32_t i = 0; i < n; i++)
    if (is_image(s->kind == SINFO_TUPLE ? s->fields[i] : s)) o[i] = last;
  return o;
}

static bool has_image(const SInfo *s) {
  for (uint32_t i = 0; s->kind == SINFO_TUPLE && i < s->n; i++)
    if (is_image(s->fields[i])) return true;
  return is_image(s);
}

/* Asks n's hook. */
static Role role_of(const Choice *x, const Node *n) {
  Arena *a = x->pc->scratch;
  const OpInfo *op = node_op(n);
  if (n->op == OP_TUPLE || n->op == OP_TUPLE_GET || n->op == OP_ALIAS) return FOLLOWS;
  if (!op->layout || is_convolution(n)) return BORDER;
  LayoutCtx lc = {.arena = a, .nout = n->sinfo->kind == SINFO_TUPLE ? n->sinfo->n : 1};
  lc.in = ARENA_ARRAY(a, const AxisOrder *, n->nin + 1);
  lc.want = ARENA_ARRAY(a, AxisOrder *, n->nin + 1);
  lc.instead = ARENA_ARRAY(a, Node *, n->nin + 1);
  lc.out = ARENA_ARRAY(a, AxisOrder, lc.nout + 1);
  lc.attrs = n->attrs ? arena_dup(a, n->attrs, op->attrs_size) : NULL;
  bool any = false;
  for (uint32_t i = 0; i < n->nin; i++) {
    const SInfo *s = node_in(n, i)->sinfo;
    lc.in[i] = orders_last(a, s);
    lc.want[i] = ARENA_ARRAY(a, AxisOrder, (s->kind == SINFO_TUPLE ? s->n : 1) + 1);
    any |= has_image(s);
  }
  if (!any || !op->layout(&lc, n)) return BORDER;
  return order_equal(&lc.out[0], &last) ? FOLLOWS : TAKES;
}

/* ---- the graph of the choice ---- */

static uint32_t thing_of(Choice *x, Node *n) {
  void *known = map_getp(&x->things, n);
  if (known) return (uint32_t)(uintptr_t)known;
  uint32_t id = cut_add(&x->cut);
  map_setp(&x->things, n, (void *)(uintptr_t)id);
  bool fixed = !has_image(n->sinfo) || n->op == OP_PARAM;
  if (fixed) cut_label(&x->cut, id, true, CUT_NEVER);
  return id;
}

static void add_both(Choice *x, uint32_t u, uint32_t v, int64_t cost) {
  cut_pair(&x->cut, u, v, cost);
  cut_pair(&x->cut, v, u, cost);
}

static void add_convolution(Choice *x, Node *n, const Shape *s) {
  Node *data = node_in(n, 0);
  double e[2][2];
  convolution_costs(x, s, (double)conversion_cost(x, data), (double)conversion_cost(x, n), e);
  uint32_t u = thing_of(x, data), v = thing_of(x, n);
  for (int i = 0; i < 4; i++)
    if (!(e[i / 2][i % 2] < 1e15)) return;
  /* as sums of costs of one label, and what it costs more that just the result is changed */
  int64_t du = (int64_t)(e[1][0] - e[0][0]), dv = (int64_t)(e[1][1] - e[1][0]);
  int64_t both = (int64_t)(e[0][1] + e[1][0] - e[0][0] - e[1][1]);
  cut_label(&x->cut, u, du > 0, du > 0 ? du : -du);
  cut_label(&x->cut, v, dv > 0, dv > 0 ? dv : -dv);
  cut_pair(&x->cut, u, v, both > 0 ? both : 0);
  vec_push(x->pc->scratch, &x->conv, n);
}

static void add_node(Choice *x, Node *n) {
  Shape s;
  uint32_t v = thing_of(x, n);
  if (read_shape(x, n, &s)) {
    add_convolution(x, n, &s);
    return;
  }
  Role role = role_of(x, n);
  if (role != TAKES) vec_push(x->pc->scratch, &x->others, n);
  if (role != FOLLOWS) cut_label(&x->cut, v, true, CUT_NEVER);
  for (uint32_t i = 0; i < n->nin; i++) {
    Node *d = node_in(n, i);
    if (!has_image(d->sinfo) || d->op == OP_CONST) continue;
    if (d->op == OP_TUPLE && !d->block) add_node(x, d); /* written in place */
    bool whole = n->op == OP_TUPLE_GET || n->op == OP_ALIAS || d->sinfo->kind == SINFO_TUPLE;
    if (role == FOLLOWS)
      add_both(x, thing_of(x, d), v, whole ? CUT_NEVER : conversion_cost(x, d));
    else if (role == BORDER)
      cut_label(&x->cut, thing_of(x, d), true, conversion_cost(x, d));
  }
}

/* A depthwise convolution has one layout: of data and result the one that leaves less to do. */
static void settle_depthwise(const Choice *x, const Node *n, const Shape *s, bool *in, bool *out) {
  double e[2][2], before = (double)conversion_cost(x, node_in(n, 0)),
                  after = (double)conversion_cost(x, n);
  convolution_costs(x, s, before, after, e);
  bool at_data = e[*in][*in] + after < before + e[*out][*out];
  *in = *out = at_data ? *in : *out;
}

void layouts_choose(PassCtx *pc, Func *f, LayoutChoice *choice) {
  Choice x = {.pc = pc};
  const Target *t = pc->target;
  x.lanes = t->variants[t->nvariants - 1].vector_bits / 32;
  map_init(&choice->convolutions, pc->scratch);
  map_init(&choice->others, pc->scratch);
  cut_init(&x.cut, pc->scratch);
  map_init(&x.things, pc->scratch);
  SeqVec seqs = {0};
  uint32_t count = 0;
  func_seqs(pc->scratch, f, &seqs);
  for (uint32_t i = 0; i < seqs.n; i++)
    for (BindingBlock *b = seqs.at[i]->first; b; b = b->next) count += b->n;
  for (uint32_t i = 0; i < seqs.n && count <= MAX_VALUES; i++) {
    for (BindingBlock *b = seqs.at[i]->first; b; b = b->next)
      for (Node *n = b->first; n; n = n->next) add_node(&x, n);
    add_node(&x, seqs.at[i]->yield);
  }
  cut_solve(&x.cut);
  for (uint32_t i = 0; i < x.conv.n; i++) {
    Node *n = x.conv.at[i];
    Shape s;
    bool in = cut_is_set(&x.cut, thing_of(&x, node_in(n, 0)));
    bool out = cut_is_set(&x.cut, thing_of(&x, n));
    read_shape(&x, n, &s);
    if (s.depthwise && in != out) settle_depthwise(&x, n, &s, &in, &out);
    ChosenLayouts *to = ARENA_NEW(pc->scratch, ChosenLayouts);
    to->at[0] = in ? "NHWC" : "NCHW";
    to->at[1] = "OIHW";
    to->at[2] = out ? "NHWC" : "NCHW";
    map_setp(&choice->convolutions, n, to);
  }
  for (uint32_t i = 0; i < x.others.n; i++) {
    Node *n = x.others.at[i];
    map_setp(&choice->others, n,
             (void *)(uintptr_t)(cut_is_set(&x.cut, thing_of(&x, n)) ? WORKS_LAST : WORKS_PLAIN));
  }
}
