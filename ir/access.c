/* Which buffers of a prim_func's parameters are inputs, which are outputs.
 *
 * The statements are walked in the order of the text: a parameter that is loaded before anything
 * was stored to it needs its contents (input), one that is stored to is an output; one may be both
 * (in place). A reduction stores its initial value first, so its target is an output only. Taking a
 * buffer's address counts as both.
 */
#include "ir/tir.h"

typedef struct {
  Map places; /* Var* (data) -> position + 1 */
  uint8_t *access;
} Scan;

static uint8_t *place_of(Scan *s, const Var *data) {
  uintptr_t at = (uintptr_t)map_getp(&s->places, data);
  return at ? &s->access[at - 1] : NULL;
}

static void mark_read(Scan *s, const Var *data) {
  uint8_t *p = place_of(s, data);
  if (p && !(*p & ACCESS_WRITE)) *p |= ACCESS_READ;
}

static bool visit(const Expr *e, void *ctx) {
  Scan *s = ctx;
  uint8_t *p = NULL;
  if (e->kind == EXPR_LOAD) mark_read(s, e->buf->data);
  if (e->kind == EXPR_BUF_DATA) p = place_of(s, e->buf->data);
  if (e->kind == EXPR_VAR) p = place_of(s, e->var);
  if (p) *p |= ACCESS_READ | ACCESS_WRITE;
  return true;
}

static void scan_expr(const Expr *e, void *ctx) {
  (void)expr_walk(e, visit, ctx);
}

static bool scan_stmt(const Stmt *st, void *ctx) {
  Scan *s = ctx;
  if (st->kind == STMT_BLOCK)
    for (uint32_t i = 0; i < st->block->nmatches; i++) {
      const MatchRegion *m = &st->block->matches[i];
      void *at = map_getp(&s->places, m->source.buf->data);
      if (at) map_setp(&s->places, m->target->data, at);
    }
  stmt_exprs(st, scan_expr, s);
  if (st->kind == STMT_STORE) {
    uint8_t *p = place_of(s, st->store.buf->data);
    if (p) *p |= ACCESS_WRITE;
  }
  return true;
}

uint8_t *primfunc_access(Arena *a, const PrimFunc *f) {
  Scan s = {.access = ARENA_ARRAY(a, uint8_t, f->nparams + 1)};
  map_init(&s.places, a);
  for (uint32_t i = 0; i < f->nparams; i++) {
    if (!f->param_bufs[i]) continue;
    map_setp(&s.places, f->param_bufs[i]->data, (void *)(uintptr_t)(i + 1));
    map_setp(&s.places, f->params[i], (void *)(uintptr_t)(i + 1));
  }
  const char *known = attr_get_str(f->attrs, "relaxc.access", NULL);
  if (!known) {
    stmt_walk(f->body, scan_stmt, &s);
    return s.access;
  }
  /* As it was before the loops were transformed: "r", "w", "b" (both) or "-" per parameter. */
  for (uint32_t i = 0; i < f->nparams && known[i]; i++)
    s.access[i] = known[i] == 'r'   ? ACCESS_READ
                  : known[i] == 'w' ? ACCESS_WRITE
                  : known[i] == 'b' ? ACCESS_READ | ACCESS_WRITE
                                    : 0;
  return s.access;
}

const char *access_text(Arena *a, const uint8_t *access, uint32_t n) {
  char *s = arena_alloc(a, n + 1);
  for (uint32_t i = 0; i < n; i++) s[i] = "-rwb"[access[i] & 3];
  s[n] = 0;
  return s;
}
