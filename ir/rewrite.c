/* Traversal and rewriting of expressions: every shared subexpression once.
 *
 * Expressions are DAGs that can be exponentially larger as trees, so each walk keeps a set of ids
 * seen (a map to the replacement in rewriters). The table starts on the stack; most expressions
 * have fewer than 50 nodes and cost no allocation.
 */
#include "ir/expr.h"
#include "ir/tir.h"
#include <stdlib.h>
#include <string.h>

enum { INLINE_SLOTS = 64 };

typedef struct {
  const Expr *key;
  const Expr *value;
} Slot;

/* Expr -> Expr by open addressing. */
typedef struct {
  Slot *slots;
  uint32_t nslots, n;
  Slot fixed[INLINE_SLOTS];
} Memo;

static void memo_init(Memo *m) {
  m->slots = m->fixed;
  m->nslots = INLINE_SLOTS;
  m->n = 0;
  memset(m->fixed, 0, sizeof m->fixed);
}

static void memo_free(Memo *m) {
  if (m->slots != m->fixed) free(m->slots);
}

static Slot *memo_find(Slot *slots, uint32_t nslots, const Expr *key) {
  uint32_t at = (key->id * UINT32_C(2654435769)) >> 7 & (nslots - 1);
  while (slots[at].key && slots[at].key != key) at = (at + 1) & (nslots - 1);
  return &slots[at];
}

static const Expr *memo_get(const Memo *m, const Expr *key) {
  return memo_find(m->slots, m->nslots, key)->value;
}

static void memo_set(Memo *m, const Expr *key, const Expr *value) {
  if (m->n * 2 >= m->nslots) {
    uint32_t nnew = m->nslots * 2;
    Slot *slots = xmalloc(nnew * sizeof *slots);
    memset(slots, 0, nnew * sizeof *slots);
    for (uint32_t i = 0; i < m->nslots; i++)
      if (m->slots[i].key) *memo_find(slots, nnew, m->slots[i].key) = m->slots[i];
    memo_free(m);
    m->slots = slots;
    m->nslots = nnew;
  }
  Slot *s = memo_find(m->slots, m->nslots, key);
  if (!s->key) m->n++;
  *s = (Slot){key, value};
}

/* ---- walking ---- */

static bool walk(Memo *seen, const Expr *e, ExprVisit fn, void *ctx) {
  if (memo_get(seen, e)) return true;
  memo_set(seen, e, e);
  for (uint32_t i = 0; i < e->n; i++)
    if (!walk(seen, e->arg[i], fn, ctx)) return false;
  return fn(e, ctx);
}

bool expr_walk(const Expr *e, ExprVisit fn, void *ctx) {
  if (e->n == 0) return fn(e, ctx);
  Memo seen;
  memo_init(&seen);
  bool done = walk(&seen, e, fn, ctx);
  memo_free(&seen);
  return done;
}

static bool is_not_var(const Expr *e, void *ctx) {
  return e->kind != EXPR_VAR || e->var != ctx;
}

bool expr_uses_var(const Expr *e, const Var *v) {
  return !expr_walk(e, is_not_var, (void *)(uintptr_t)v);
}

static bool uses_as_value(Memo *seen, const Expr *e, const Var *v) {
  if (e->kind == EXPR_VAR) return e->var == v;
  if (e->kind == EXPR_LOAD || memo_get(seen, e)) return false;
  memo_set(seen, e, e);
  for (uint32_t i = 0; i < e->n; i++)
    if (uses_as_value(seen, e->arg[i], v)) return true;
  return false;
}

bool expr_uses_var_as_value(const Expr *e, const Var *v) {
  Memo seen;
  memo_init(&seen);
  bool used = uses_as_value(&seen, e, v);
  memo_free(&seen);
  return used;
}

static bool is_not_load(const Expr *e, void *ctx) {
  (void)ctx;
  return e->kind != EXPR_LOAD;
}

bool expr_has_load(const Expr *e) {
  return !expr_walk(e, is_not_load, NULL);
}

typedef struct {
  Arena *a;
  VarVec *out;
  Memo seen, bound;
} VarsCtx;

static bool collect_bound(const Expr *e, void *ctx) {
  VarsCtx *v = ctx;
  if (e->kind == EXPR_LET) memo_set(&v->bound, e->arg[0], e);
  return true;
}

static bool collect_var(const Expr *e, void *ctx) {
  VarsCtx *v = ctx;
  if (e->kind != EXPR_VAR || memo_get(&v->seen, e) || memo_get(&v->bound, e)) return true;
  memo_set(&v->seen, e, e);
  vec_push(v->a, v->out, e->var);
  return true;
}

void expr_vars(Arena *a, const Expr *e, VarVec *out) {
  if (e->kind == EXPR_INT || e->kind == EXPR_FLOAT) return;
  VarsCtx v = {.a = a, .out = out};
  memo_init(&v.seen);
  memo_init(&v.bound);
  for (uint32_t i = 0; i < out->n; i++) memo_set(&v.seen, out->at[i]->expr, e);
  expr_walk(e, collect_bound, &v);
  expr_walk(e, collect_var, &v);
  memo_free(&v.seen);
  memo_free(&v.bound);
}

/* ---- rewriting ---- */

typedef struct {
  Context *c;
  Memo memo;
  ExprRewrite fn;
  void *ctx;
} Rewriter;

static const Expr *rewrite(Rewriter *r, const Expr *e) {
  const Expr *done = memo_get(&r->memo, e);
  if (done) return done;
  const Expr *out = e;
  if (e->n) {
    const Expr *few[8], **args = e->n <= 8 ? few : xmalloc(e->n * sizeof *args);
    bool changed = false;
    for (uint32_t i = 0; i < e->n; i++) {
      args[i] = rewrite(r, e->arg[i]);
      changed |= args[i] != e->arg[i];
    }
    if (changed) out = expr_with_args(r->c, e, args);
    if (args != few) free(args);
  }
  out = r->fn(r->c, out, r->ctx);
  memo_set(&r->memo, e, out);
  return out;
}

const Expr *expr_rewrite(Context *c, const Expr *e, ExprRewrite fn, void *ctx) {
  if (e->n == 0) return fn(c, e, ctx);
  Rewriter r = {.c = c, .fn = fn, .ctx = ctx};
  memo_init(&r.memo);
  const Expr *out = rewrite(&r, e);
  memo_free(&r.memo);
  return out;
}

/* A replaced variable is not looked at again, so this is no ExprRewrite (which sees new nodes). */
static const Expr *subst(const Subst *s, Memo *memo, const Expr *e) {
  if (e->kind == EXPR_VAR) {
    const Expr *to = s->vars ? map_getp(s->vars, e->var) : NULL;
    return to ? to : e;
  }
  if (e->kind == EXPR_BUF_DATA) {
    Buffer *to = s->buffers ? map_getp(s->buffers, e->buf) : NULL;
    if (!to) return e;
    return e->intrin == SPELL_BUFFER ? expr_buf_itself(s->c, to) : expr_buf_data(s->c, to);
  }
  if (e->n == 0 && e->kind != EXPR_LOAD) return e;
  const Expr *done = memo_get(memo, e);
  if (done) return done;
  const Expr *few[8], **args = e->n <= 8 ? few : xmalloc(e->n * sizeof *args);
  bool changed = false;
  for (uint32_t i = 0; i < e->n; i++) {
    args[i] = subst(s, memo, e->arg[i]);
    changed |= args[i] != e->arg[i];
  }
  const Expr *out = e;
  Buffer *buf = e->kind == EXPR_LOAD && s->buffers ? map_getp(s->buffers, e->buf) : NULL;
  if (buf && e->has_pred)
    out = expr_load_pred(s->c, buf, args, e->n - 1, args[e->n - 1]);
  else if (buf)
    out = expr_load(s->c, buf, args, e->n);
  else if (changed)
    out = expr_with_args(s->c, e, args);
  if (args != few) free(args);
  memo_set(memo, e, out);
  return out;
}

const Expr *expr_subst(const Subst *s, const Expr *e) {
  bool no_vars = !s->vars || s->vars->n == 0, no_buffers = !s->buffers || s->buffers->n == 0;
  if ((no_vars && no_buffers) || e->kind == EXPR_INT || e->kind == EXPR_FLOAT) return e;
  Memo memo;
  memo_init(&memo);
  const Expr *out = subst(s, &memo, e);
  memo_free(&memo);
  return out;
}
