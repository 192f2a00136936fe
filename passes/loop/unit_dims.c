/* Which symbolic dims get loops of their own for the size 1.
 *
 *   before: for i in 128: for j in n: y[i, j] = exp(x[i, j])
 *   after:  if n == 1: for i in 128: y[i] = exp(x[i])
 *           else:      for i in 128: for j in n: y[i, j] = exp(x[i, j])
 *
 * Lanes go along the last axis. Where it has one element, 15 lanes of 16 are idle, and code for
 * that size would leave the axis out and put its lanes along another one: for softmax of 128 rows
 * the difference is 17 times. A single token is the size that decoding runs at, so that such a dim
 * is worth a second copy of the loops (schedule_body makes it); one that is no last axis isn't, as
 * its loop just runs once.
 */
#include "passes/loop/schedule.h"

#define MAX_UNITS 2 /* versions of one function */

typedef struct {
  Sched *s;
  const Stage *stage;
  VarVec *units;
  bool unfit;
} Look;

/* As windows over images do: such of one column don't occur, and a second copy would be large. */
static bool mixes_axes(const Stage *st, const Expr *index) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < st->naxes; i++) n += expr_uses_var(index, st->axes[i].var);
  return n > 1;
}

static bool has_rows(Context *c, const Buffer *b) {
  int64_t n;
  for (uint32_t i = 0; i + 1 < b->ndim; i++)
    if (!expr_const_int(c, b->shape[i], &n) || n > 1) return true;
  return false;
}

static void look_at(Look *l, const Buffer *b, const Expr *const *index) {
  int64_t n;
  for (uint32_t i = 0; i < b->ndim; i++)
    l->unfit |= !expr_const_int(l->s->c, b->shape[i], &n) && mixes_axes(l->stage, index[i]);
  const Expr *last = b->ndim ? b->shape[b->ndim - 1] : NULL;
  if (!last || last->kind != EXPR_VAR || !has_rows(l->s->c, b)) return;
  const PrimFunc *f = l->s->lc->f;
  bool is_dim = false;
  for (uint32_t i = 0; i < f->ndims; i++) is_dim |= f->dims[i] == last->var;
  for (uint32_t i = 0; i < l->units->n; i++) is_dim &= l->units->at[i] != last->var;
  if (is_dim && l->units->n < MAX_UNITS) vec_push(l->s->tmp, l->units, last->var);
}

static void look_at_load(const Expr *load, void *ctx) {
  look_at(ctx, load->buf, load->arg);
}

void unit_dims(Sched *s, VarVec *out) {
  Look l = {.s = s, .units = out};
  l.unfit = !s->simple || attr_get(s->lc->f->attrs, "relaxc.packed");
  for (uint32_t i = 0; i < s->items.n && !l.unfit; i++) {
    l.stage = s->items.at[i].stage;
    if (!l.stage) {
      l.unfit = true;
      break;
    }
    look_at(&l, l.stage->out, l.stage->oidx);
    expr_loads(l.stage->value, look_at_load, &l);
  }
  if (l.unfit) out->n = 0;
}
