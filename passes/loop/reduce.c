/* The elements of a stage under lanes, reductions among them.
 *
 * A reduction whose lanes are elements of the result keeps one accumulator a lane. One over lanes
 * of its own axis keeps an accumulator of four vectors and combines its lanes at the end: the order
 * is fixed, so the result doesn't depend on anything but the instruction set. It may take in the
 * loop of the stage before it.
 */
#include "passes/loop/emit.h"

#include <math.h>

static const Expr *zero_index(Context *c) {
  return i64(c, 0);
}

static Buffer *accumulator(Emit *em, const Stage *st, DType d, StmtVec *out) {
  Context *c = em->c;
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, 1);
  shape[0] = i64(c, 1);
  Buffer *b = buffer_create(c, "acc", d, shape, 1, "local");
  vec_push(em->tmp, out, stmt_alloc(em->a, st->span, b));
  return b;
}

/* acc[0] op= value under lanes. */
static Stmt *accumulate(Emit *em, const Stage *st, const Lanes *ln, Buffer *acc, const Expr *keep,
                        const Expr *identity) {
  Context *c = em->c;
  const Expr *zero = zero_index(c), *old = expr_load(c, acc, &zero, 1);
  const Expr *e = emit_prepare(em, st->value);
  const Expr *next;
  if (st->red == RED_OTHER) {
    Temp self = {.place = st->acc, .value = old};
    map_setp(&em->temps, st->acc, &self);
    next = emit_value(em, ln, e);
    map_setp(&em->temps, st->acc, ARENA_NEW(em->tmp, Temp));
  } else {
    next = emit_value(em, ln, e);
    if (keep) next = expr_select(c, keep, next, expr_broadcast(c, identity, ln->lanes));
    next = red_combine(c, st, old, next);
  }
  return stmt_store(em->a, st->span, acc, &zero, next);
}

void emit_point(Emit *em, const Stage *st, const Lanes *ln, const Axis *red, uint32_t nred,
                StmtVec *out) {
  Context *c = em->c;
  if (st->red == RED_NONE) {
    emit_result(em, st, ln, emit_value(em, ln, emit_prepare(em, st->value)), out);
    return;
  }
  DType d = ln->var ? dtype_lanes(st->out->dtype, ln->lanes) : st->out->dtype;
  Buffer *acc = accumulator(em, st, d, out);
  const Expr *zero = zero_index(c);
  const Expr *init = emit_value(em, ln, emit_prepare(em, st->init));
  vec_push(em->tmp, out, stmt_store(em->a, st->span, acc, &zero, init));
  Var *vars[MAX_AXES] = {0};
  emit_bind_fresh(em, red, vars, nred);
  int64_t total = 1, e;
  for (uint32_t i = 0; i < nred; i++)
    total = expr_const_int(c, red[i].extent, &e) && total <= 64 ? total * e : 1 << 20;
  Stmt *loops = emit_loops_around(em, st, red, vars, nred, accumulate(em, st, ln, acc, NULL, NULL),
                                  total <= 25);
  if (loops) vec_push(em->tmp, out, loops);
  emit_result(em, st, ln, expr_load(c, acc, &zero, 1), out);
}

/* Vectors that a reduction is collected in. */
typedef struct {
  Buffer *acc; /* one vector of some lanes; NULL: not in use */
  Buffer *nan; /* an integer a pair of lanes: nonzero once either was NaN; or NULL */
} Sums;

typedef struct {
  const Stage *st;
  const Stage *before; /* computes, in the same chunk, what st reads; or NULL */
  const Axis *row;     /* its inner axis */
  Var *axis;           /* the reduction axis over lanes */
  Sums wide, one;      /* several vectors; a single one, where only the run tells the extent */
  Buffer *scalar;
  bool scalar_used;
  const Expr *identity;
} Horizontal;

static const Expr *splat(Context *c, DType d, int64_t k) {
  return expr_broadcast(c, expr_int(c, dtype_scalar(d), k), d.lanes);
}

/* Half h of a vector's lanes. */
static const Expr *half_of(Context *c, const Expr *v, int h) {
  int64_t picks[256];
  uint32_t n = v->dtype.lanes / 2;
  if (n > 256) bug("half of %u lanes", 2 * n);
  for (uint32_t i = 0; i < n; i++) picks[i] = (int64_t)(i + (uint32_t)h * n);
  return expr_shuffle(c, &v, 1, picks, n);
}

/* The better of two vectors, neither of which holds NaN. */
static const Expr *better(Context *c, const Stage *st, const Expr *a, const Expr *b) {
  return expr_select(c, expr_binary(c, st->red == RED_MAX ? EXPR_GT : EXPR_LT, a, b), a, b);
}

/* A maximum that passes NaN on costs three instructions a vector in a chain; here the chain is the
 * plain maximum, which drops NaN, and beside it one comparison for two vectors notes them. */
static void accumulate_extreme(Emit *em, const Lanes *ln, StmtVec *out, const Horizontal *h,
                               const Sums *sums) {
  Context *c = em->c;
  const Expr *zero = zero_index(c);
  const Expr *value = emit_value(em, ln, emit_prepare(em, h->st->value));
  if (ln->mask) value = expr_select(c, ln->mask, value, expr_broadcast(c, h->identity, ln->lanes));
  Var *x = var_create(c, "x", value->dtype);
  vec_push(em->tmp, out, stmt_let(em->a, h->st->span, x, value));
  const Expr *next = better(c, h->st, x->expr, expr_load(c, sums->acc, &zero, 1));
  vec_push(em->tmp, out, stmt_store(em->a, h->st->span, sums->acc, &zero, next));
  const Expr *lo = half_of(c, x->expr, 0), *hi = half_of(c, x->expr, 1);
  const Expr *bad =
      expr_binary(c, EXPR_OR, expr_call1(c, INTRIN_isnan, lo), expr_call1(c, INTRIN_isnan, hi));
  const Expr *flag =
      expr_select(c, bad, splat(c, sums->nan->dtype, -1), expr_load(c, sums->nan, &zero, 1));
  vec_push(em->tmp, out, stmt_store(em->a, h->st->span, sums->nan, &zero, flag));
}

static void horizontal_chunk(Emit *em, const Lanes *ln, StmtVec *out, void *ctx) {
  Horizontal *h = ctx;
  Temp *t = h->before ? map_getp(&em->temps, h->before->out) : NULL;
  if (t) {
    emit_bind(em, h->row->var, map_getp(&em->fixed, h->axis));
    t->inner = false; /* a register, for this chunk */
    emit_result(em, h->before, ln, emit_value(em, ln, emit_prepare(em, h->before->value)), out);
  }
  const Sums *sums = h->one.acc && ln->lanes == h->one.acc->dtype.lanes ? &h->one : &h->wide;
  h->scalar_used |= !ln->var;
  if (!ln->var)
    vec_push(em->tmp, out, accumulate(em, h->st, ln, h->scalar, NULL, NULL));
  else if (sums->nan)
    accumulate_extreme(em, ln, out, h, sums);
  else
    vec_push(em->tmp, out, accumulate(em, h->st, ln, sums->acc, ln->mask, h->identity));
  if (t) {
    t->inner = true;
    t->value = NULL;
  }
}

/* Sums of so many lanes, with nothing in them. notes: of an extreme, whether a lane was NaN. */
static Sums begin_sums(Emit *em, const Horizontal *h, uint32_t lanes, bool notes, StmtVec *out) {
  Context *c = em->c;
  const Stage *st = h->st;
  DType d = st->out->dtype;
  const Expr *zero = zero_index(c);
  Sums s = {accumulator(em, st, dtype_lanes(d, lanes), out), NULL};
  vec_push(em->tmp, out,
           stmt_store(em->a, st->span, s.acc, &zero, expr_broadcast(c, h->identity, lanes)));
  if (!notes || (st->red != RED_MAX && st->red != RED_MIN) || !dtype_is_float(d) || d.bits < 32)
    return s;
  DType flag = dtype_lanes(DT(DTYPE_INT, d.bits), lanes / 2);
  s.nan = accumulator(em, st, flag, out);
  vec_push(em->tmp, out, stmt_store(em->a, st->span, s.nan, &zero, splat(c, flag, 0)));
  return s;
}

/* Adds what the wide sums hold to those of a single vector. */
static void end_wide(Emit *em, const Horizontal *h, StmtVec *out) {
  Context *c = em->c;
  const Expr *zero = zero_index(c);
  for (int nan = 0; nan < (h->wide.nan ? 2 : 1); nan++) {
    Buffer *from = nan ? h->wide.nan : h->wide.acc, *to = nan ? h->one.nan : h->one.acc;
    const Expr *v = expr_load(c, from, &zero, 1);
    for (bool last = false; !last;) {
      last = v->dtype.lanes == to->dtype.lanes;
      Var *x = var_create(c, "x", v->dtype);
      vec_push(em->tmp, out, stmt_let(em->a, h->st->span, x, v));
      const Expr *a = last ? x->expr : half_of(c, x->expr, 0);
      const Expr *b = last ? expr_load(c, to, &zero, 1) : half_of(c, x->expr, 1);
      v = nan           ? expr_binary(c, EXPR_BITOR, a, b)
          : h->wide.nan ? better(c, h->st, a, b)
                        : red_combine(c, h->st, b, a);
    }
    vec_push(em->tmp, out, stmt_store(em->a, h->st->span, to, &zero, v));
  }
}

/* What all lanes have come to. */
static const Expr *combine_lanes(Emit *em, const Stage *st, const Sums *s) {
  Context *c = em->c;
  DType d = st->out->dtype;
  const Expr *zero = zero_index(c), *acc = expr_load(c, s->acc, &zero, 1);
  bool max = st->red == RED_MAX;
  if (!s->nan) {
    IntrinId f = st->red == RED_ADD   ? INTRIN_vector_reduce_add
                 : st->red == RED_MUL ? INTRIN_vector_reduce_mul
                 : max                ? INTRIN_vector_reduce_max
                                      : INTRIN_vector_reduce_min;
    return expr_call(c, f, d, &acc, 1);
  }
  const Expr *flags = expr_load(c, s->nan, &zero, 1);
  const Expr *any = expr_binary(c, EXPR_NE, flags, splat(c, flags->dtype, 0));
  any = expr_call(c, INTRIN_vector_reduce_max, DT_BOOL, &any, 1);
  acc = expr_call(c, max ? INTRIN_vector_reduce_maxnum : INTRIN_vector_reduce_minnum, d, &acc, 1);
  return expr_select(c, any, expr_float(c, d, NAN), acc);
}

/* An axis whose extent only the run tells: the wide sums only where there is work for them, so that
 * a short one costs no more than its vectors; and last, as their chain of additions is the longest.
 */
static void symbolic_axis(Emit *em, Horizontal *h, const Chunks *ch, StmtVec *out) {
  Context *c = em->c;
  uint32_t wide = ch->full * ch->unroll;
  StmtVec some = {0}, whole = {0};
  if (ch->unroll == 1) {
    emit_left(em, ch, i64(c, 0), &whole);
    emit_or_part(em, ch, &whole, out);
    return;
  }
  h->wide = begin_sums(em, h, wide, ch->full >= 4, &some);
  const Expr *start = emit_whole_chunks(em, ch, wide, i64(c, 0), &some);
  end_wide(em, h, &some);
  const Expr *test = expr_binary(c, EXPR_GE, ch->ax->extent, i64(c, wide));
  emit_left(em, ch, start, &whole);
  vec_push(em->tmp, &whole, stmt_if(em->a, ch->span, test, seq_of(em->a, &some), NULL));
  emit_or_part(em, ch, &whole, out);
}

void emit_horizontal(Emit *em, const Stage *st, const Axis *red, uint32_t nred, uint32_t x,
                     const Stage *before, const Axis *row, StmtVec *out) {
  Context *c = em->c;
  DType d = st->out->dtype;
  const Expr *zero = zero_index(c), *init = emit_value(em, &(Lanes){0}, emit_prepare(em, st->init));
  const Expr *identity = red_identity(c, st->red, d);
  bool idempotent = !identity; /* terms may be taken in any order, and twice */
  if (idempotent) identity = init;
  Horizontal h = {.st = st, .before = before, .row = row, .axis = red[x].var, .identity = identity};
  Chunks ch = {.ax = &red[x], .full = stage_lanes(em, st), .unroll = INNER_UNROLL};
  int64_t n;
  bool known = expr_const_int(c, red[x].extent, &n);
  if (known) { /* one width throughout, so that one accumulator serves */
    uint32_t wide = ch.full * 4;
    while (wide > 2 && (wide / 2 >= n || (!em->use_mask && wide > n))) wide /= 2;
    ch.full = wide;
    ch.unroll = 1;
    h.wide = begin_sums(em, &h, wide, wide >= 2 * stage_lanes(em, st), out);
  } else {
    const Stage *stages[] = {before ? before : st, st};
    ch.repeats = idempotent && emit_repeats(em, stages, before ? 2 : 1);
    if (idempotent) ch.unroll /= em->rows;
    h.one = begin_sums(em, &h, ch.full, ch.full >= 4, out);
  }
  ch.span = st->span;
  ch.fn = horizontal_chunk;
  ch.ctx = &h;
  StmtVec tail = {0}; /* the accumulator of elements that no vector takes */
  h.scalar = accumulator(em, st, d, &tail);
  vec_push(em->tmp, &tail, stmt_store(em->a, st->span, h.scalar, &zero, init));
  Axis others[MAX_AXES] = {0};
  Var *vars[MAX_AXES] = {0};
  uint32_t no = 0;
  for (uint32_t i = 0; i < nred; i++)
    if (i != x) others[no++] = red[i];
  emit_bind_fresh(em, others, vars, no);
  StmtVec body = {0};
  if (known)
    emit_chunks(em, &ch, &body);
  else
    symbolic_axis(em, &h, &ch, &body);
  if (h.scalar_used)
    for (uint32_t i = 0; i < tail.n; i++) vec_push(em->tmp, out, tail.at[i]);
  Stmt *loops =
      body.n ? emit_loops_around(em, st, others, vars, no, seq_of(em->a, &body), false) : NULL;
  if (loops) vec_push(em->tmp, out, loops);
  const Expr *all = combine_lanes(em, st, known ? &h.wide : &h.one);
  if (h.scalar_used || init != identity)
    all = red_combine(c, st, h.scalar_used ? expr_load(c, h.scalar, &zero, 1) : init, all);
  emit_result(em, st, &(Lanes){0}, all, out);
}

/* The single inner axis of st when lanes run over it, a reduction or not as asked. */
static bool lone_axis(Emit *em, const Stage *st, bool reduction, Axis *out) {
  Axis inner[MAX_AXES] = {0};
  uint32_t nsp, n = stage_inner_axes(em->g, st, inner, &nsp);
  int32_t score;
  n = axes_collapse_reduction(em, st, inner, nsp, n);
  if (n != 1 || nsp != (reduction ? 0u : 1u) || stage_lanes(em, st) < 2) return false;
  *out = inner[0];
  return axes_best_inner(em, st, inner, n, nsp, &score) == 0;
}

typedef struct {
  Emit *em;
  const Stage *writer;
  const Axis *from, *to;
  bool same;
} Elementwise;
static void reads_own_element(const Expr *load, void *ctx) {
  Elementwise *k = ctx;
  if (load->buf != k->writer->out) return;
  Map m;
  map_init(&m, k->em->tmp);
  map_setp(&m, k->from->var, (void *)k->to->var->expr);
  for (uint32_t d = 0; d < load->n; d++)
    k->same &= load->arg[d] == subst_vars(k->em->c, &m, k->writer->oidx[d]);
}

bool emit_takes_in(Emit *em, const Stage *before, const Stage *st, const Lanes *ln, Axis *row) {
  Axis red;
  if (ln->var || !em->inner_vec || before->red != RED_NONE || !red_any_order(st->red) ||
      !stage_reads(st, before->out) || !lone_axis(em, before, false, row) ||
      !lone_axis(em, st, true, &red) || stage_lanes(em, before) != stage_lanes(em, st) ||
      !expr_proved_eq(em->c, row->extent, red.extent))
    return false;
  Elementwise k = {em, before, row, &red, true};
  expr_loads(st->value, reads_own_element, &k);
  return k.same;
}
