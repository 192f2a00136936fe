/* Long sums with few results, in parts.
 *
 *   before: for i, k < 65536: S[i] += v(i, k)
 *   after:  for p < 32, i, k < 2048: parts[p, i] += v(i, 2048 * p + k)
 *           for i, p: S[i] += parts[p, i]
 *
 * A sum, a product of matrices with few rows and columns, the largest of all elements: too few
 * results to give several threads work, or so many terms that the operands of one result leave the
 * cache. Where terms are cut depends on sizes alone, and the parts are added in one order: the bits
 * are the same for any number of threads. What doesn't divide is a part of its own.
 */
#include "passes/loop/schedule.h"

#define MOST_PARTS 32
#define MANY_TASKS 16 /* so many tasks are enough without parts */

/* Of one kind of loops: the work of a part, its terms, and the work of a task, at least. */
typedef struct {
  int64_t work, terms, task;
} Grain;
static const Grain plain = {64 << 10, 1024, 256 << 10};
static const Grain product = {256 << 10, 512, 1 << 20};

typedef struct {
  Sched *s;
  const Stage *st;
  uint32_t k; /* its axis that is cut */
  int64_t parts, block, rest;
  ItemVec *out;
} Cut;

/* The product of constant extents; -1 when one isn't constant. */
static int64_t count_points(Sched *s, const Axis *at, uint32_t n) {
  int64_t all = 1, e;
  for (uint32_t i = 0; i < n; i++) {
    if (!expr_const_int(s->c, at[i].extent, &e)) return -1;
    if (e > 0 && all > INT64_MAX / e) return -1;
    all *= e;
  }
  return all;
}

/* The outermost axis of the sum that is long enough for all parts, else the longest; its extent. */
static int64_t cut_axis(Sched *s, const Stage *st, uint32_t *k) {
  int64_t most = 0, e;
  for (uint32_t i = st->nspatial; i < st->naxes && most < MOST_PARTS; i++) {
    if (!expr_const_int(s->c, st->axes[i].extent, &e) || e <= most) continue;
    most = e;
    *k = i;
  }
  return most;
}

typedef struct {
  Sched *s;
  const Stage *st;
  bool any;
} Columns;
static void along_columns(const Expr *load, void *ctx) {
  Columns *x = ctx;
  const Dim *at = flat_offset(x->s->lc, load->buf, load->arg);
  int64_t one;
  bool varies = false; /* else it is the same for all terms */
  for (uint32_t i = x->st->nspatial; i < x->st->naxes; i++)
    varies |= dim_uses_var(at, x->st->axes[i].var);
  if (!varies) return;
  for (uint32_t i = 0; i < x->st->nspatial; i++) {
    const Dim *d = stride_of(x->s->lc, x->st, at, x->st->axes[i].var);
    x->any |= d && dim_is_const(d, &one) && one == 1 && !expr_is_int(x->st->axes[i].extent, 1);
  }
}

/* Pieces of work that the loops of a sum which is no contraction have for threads: results, or wide
 * vectors of them. */
static int64_t count_tasks(Sched *s, const Stage *st, int64_t results) {
  Columns x = {s, st, false};
  expr_loads(st->value, along_columns, &x);
  return x.any ? results / 256 : results;
}

/* Decides about parts. */
static bool plan_parts(Cut *x) {
  Sched *s = x->s;
  const Stage *st = x->st;
  if (!red_any_order(st->red)) return false;
  if (st->out->ndim > MAX_AXES || st->naxes == MAX_AXES) return false;
  int64_t results = count_points(s, st->axes, st->nspatial);
  int64_t terms = count_points(s, st->axes + st->nspatial, st->naxes - st->nspatial);
  int64_t extent = cut_axis(s, st, &x->k);
  if (results <= 0 || terms <= 0 || results > INT64_MAX / terms) return false;
  bool contraction = stage_is_contraction(s, st);
  const Grain *least = contraction ? &product : &plain;
  int64_t work = results * terms;
  int64_t tasks = contraction ? contraction_tasks(s, st) : count_tasks(s, st, results);
  if (tasks < 1) tasks = 1;
  if (tasks >= MANY_TASKS || work / tasks < least->task) return false;
  int64_t most = MOST_PARTS / tasks;
  if (most > work / least->work) most = work / least->work;
  if (most > terms / least->terms) most = terms / least->terms;
  if (most > extent) most = extent;
  for (x->parts = 1; x->parts * 2 <= most;) x->parts *= 2;
  x->block = extent / x->parts;
  if (extent % x->parts && x->block > 64) x->block &= ~63; /* whole vectors */
  x->rest = extent - x->block * x->parts;
  return x->parts > 1;
}

/* ---- the stages ---- */

/* One that takes the place of st, or of a part of it: its axes are its own. `vars`: what st's axes
 * are in it. */
typedef struct {
  Cut *x;
  Stage *st;
  Map vars;
} Part;

static Part part_begin(Cut *x) {
  Part p = {.x = x, .st = ARENA_NEW(x->s->tmp, Stage)};
  const Stage *st = x->st;
  *p.st = (Stage){.name = st->name, .span = st->span, .covers = true};
  map_init(&p.vars, x->s->tmp);
  return p;
}

/* A new axis; of extent 1 it is just 0. */
static const Expr *add_axis(Part *p, const Var *like, const Expr *extent) {
  Context *c = p->x->s->c;
  if (expr_is_int(extent, 1)) return i64(c, 0);
  Axis *ax = &p->st->axes[p->st->naxes++];
  *ax = (Axis){loop_var(c, like->name), extent};
  return ax->var->expr;
}

static void add_axes(Part *p, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) {
    const Axis *ax = &p->x->st->axes[i];
    if (i != p->x->k) map_setp(&p->vars, ax->var, (void *)add_axis(p, ax->var, ax->extent));
  }
}

/* All its axes so far are those of the result, a new tensor. */
static void part_store(Part *p, const char *name) {
  Sched *s = p->x->s;
  Stage *st = p->st;
  uint32_t n = st->nspatial = st->naxes;
  const Expr **shape = ARENA_ARRAY(s->c->arena, const Expr *, n);
  st->oidx = ARENA_ARRAY(s->tmp, const Expr *, n);
  st->oaxis = ARENA_ARRAY(s->tmp, int32_t, n);
  for (uint32_t i = 0; i < n; i++) {
    shape[i] = st->axes[i].extent;
    st->oidx[i] = st->axes[i].var->expr;
    st->oaxis[i] = (int32_t)i;
  }
  st->out = buffer_create(s->c, name, p->x->st->out->dtype, shape, n, "global");
  st->out->align = 64;
  map_setp(&s->local, st->out, st->out);
  vec_push(s->tmp, &s->lc->decls, stmt_alloc(s->a, st->span, st->out));
}

static void part_end(Part *p) {
  Item it = {p->st, NULL};
  vec_push(p->x->s->tmp, p->x->out, it);
}

/* The sum of `terms` terms from begin, or from begin + terms * number of the part. */
static Stage *sum_terms(Cut *x, const char *name, int64_t parts, int64_t begin, int64_t terms) {
  Context *c = x->s->c;
  const Stage *st = x->st;
  const Axis *cut = &st->axes[x->k];
  Part p = part_begin(x);
  const Expr *number = add_axis(&p, cut->var, i64(c, parts));
  add_axes(&p, 0, st->nspatial);
  part_store(&p, name);
  add_axes(&p, st->nspatial, st->naxes);
  const Expr *term = add_axis(&p, cut->var, i64(c, terms));
  term = expr_add(c, expr_add(c, expr_mul(c, number, i64(c, terms)), term), i64(c, begin));
  map_setp(&p.vars, cut->var, (void *)expr_simplify(c, term));
  const Expr *zero = red_identity(c, st->red, st->out->dtype);
  p.st->init = zero ? zero : subst_vars(c, &p.vars, st->init);
  p.st->red = st->red;
  p.st->value = stage_simplify(x->s, p.st, subst_vars(c, &p.vars, st->value));
  p.st->alone = true;
  part_end(&p);
  return p.st;
}

/* The element of such a sum that belongs to st's, whose axes are `vars` in the reader. */
static const Expr *load_sum(Cut *x, const Stage *sum, const Expr *number, const Map *vars) {
  const Expr *at[MAX_AXES];
  uint32_t n = 0;
  if (number) at[n++] = number;
  for (uint32_t i = 0; i < x->st->nspatial; i++) {
    const Axis *ax = &x->st->axes[i];
    const Expr *e = vars ? map_getp(vars, ax->var) : ax->var->expr;
    if (!expr_is_int(ax->extent, 1)) at[n++] = e;
  }
  return expr_load(x->s->c, sum->out, at, n);
}

/* The sum of the parts, which goes where st's went or, where a rest is to be added, elsewhere. */
static Stage *sum_parts(Cut *x, const Stage *parts, bool elsewhere) {
  Context *c = x->s->c;
  const Stage *st = x->st;
  Part p = part_begin(x);
  if (elsewhere) {
    add_axes(&p, 0, st->nspatial);
    part_store(&p, "sums");
  } else {
    *p.st = *st;
    p.st->naxes = st->nspatial;
  }
  const Expr *number = add_axis(&p, st->axes[x->k].var, i64(c, x->parts));
  const Map *vars = elsewhere ? &p.vars : NULL;
  p.st->init = elsewhere ? subst_vars(c, vars, st->init) : st->init;
  p.st->red = st->red;
  p.st->value = load_sum(x, parts, number, vars);
  part_end(&p);
  return p.st;
}

static void split_stage(Cut *x) {
  Context *c = x->s->c;
  Stage *parts = sum_terms(x, "parts", x->parts, 0, x->block);
  if (!x->rest) {
    sum_parts(x, parts, false);
    return;
  }
  Stage *rest = sum_terms(x, "rest", 1, x->parts * x->block, x->rest);
  Stage *sums = sum_parts(x, parts, true);
  Part p = part_begin(x);
  *p.st = *x->st;
  p.st->naxes = x->st->nspatial;
  p.st->red = RED_NONE;
  p.st->init = NULL;
  p.st->value = red_combine(c, x->st, load_sum(x, sums, NULL, NULL), load_sum(x, rest, NULL, NULL));
  part_end(&p);
}

void stages_split(Sched *s) {
  ItemVec out = {0};
  if (!s->simple) return;
  for (uint32_t i = 0; i < s->items.n; i++) {
    Cut x = {.s = s, .st = s->items.at[i].stage, .out = &out};
    if (x.st && plan_parts(&x))
      split_stage(&x);
    else
      vec_push(s->tmp, &out, s->items.at[i]);
  }
  s->items = out;
}
