/* Blocks: axes, regions, predicates, init. */
#include "frontend/script/loop.h"

/* Makes an axis' domain and the value bound to it agree in type: the value's decides. */
static const Expr *as_type(Sema *s, const Expr *e, DType d) {
  if (e->kind == EXPR_INT) return expr_int(s->ctx, d, e->i);
  return sema_convert(s, e, d);
}

bool loop_read_range(Sema *s, const Tree *t, Range *out) {
  const Expr *lo = NULL, *hi = NULL;
  if (t->kind == TREE_TUPLE || t->kind == TREE_LIST) {
    if (t->n != 2) {
      sema_error(s, t, "a range is an extent or a pair (begin, end)");
      return false;
    }
    lo = sema_expr(s, t->at[0]);
    hi = sema_expr(s, t->at[1]);
    if (!lo || !hi || !sema_match_types(s, t, &lo, &hi)) return false;
  } else {
    hi = sema_expr(s, t);
    if (!hi) return false;
  }
  if (!dtype_is_int(hi->dtype) || hi->dtype.lanes != 1) {
    sema_error(s, t, "an extent must be an integer but got %s", dtype_name(hi->dtype));
    return false;
  }
  out->min = lo ? lo : expr_lit(s->ctx, hi->dtype, 0);
  out->extent = !lo || expr_is_int(lo, 0) ? hi : expr_simplify(s->ctx, expr_sub(s->ctx, hi, lo));
  return true;
}

static void add_axis(Sema *s, const Tree *target, IterKind kind, Range dom, const Expr *value) {
  BlockState *b = s->loop->block;
  DType d = dom.extent->dtype;
  DType written = DT_UNKNOWN;
  if (value && !dtype_eq(value->dtype, d)) {
    if (value->kind == EXPR_INT) {
      written = value->dtype;
      value = expr_int(s->ctx, d, value->i);
    } else if (dom.extent->kind == EXPR_INT && dom.min->kind == EXPR_INT) {
      d = value->dtype;
      dom.extent = as_type(s, dom.extent, d);
      dom.min = as_type(s, dom.min, d);
    } else {
      value = sema_convert(s, value, d);
    }
  }
  Var *v = var_create(s->ctx, target->name, d);
  v->span = tree_span(s, target);
  loop_name_is_free(s, target);
  scope_bind(&s->scope, target->name, BIND_VAR, v->span)->var = v;
  BlockIter it = {v, kind, dom, value, written};
  vec_push(s->arena, &b->iters, it);
}

/* vi, vj = T.axis.remap("SR", [i, j]) */
static void read_remap(Sema *s, const Tree *target, const Tree *call) {
  Tree *const one[1] = {(Tree *)(uintptr_t)target};
  bool tuple = target->kind == TREE_TUPLE || target->kind == TREE_LIST;
  Tree *const *names = tuple ? target->at : one;
  uint32_t n = tuple ? target->n : 1;
  const Tree *list = call->n == 2 ? call->at[1] : NULL;
  if (!list || call->at[0]->kind != TREE_STR ||
      (list->kind != TREE_LIST && list->kind != TREE_TUPLE)) {
    sema_error(s, call, "expected T.axis.remap(\"SR\", [i, j])");
    loop_bind_bad(s, target);
    return;
  }
  const Tree *kinds = call->at[0];
  if (kinds->n != n || list->n != n) {
    sema_error(s, call, "T.axis.remap has %u kinds and %u loops for %u names", kinds->n, list->n,
               n);
    loop_bind_bad(s, target);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    char k = kinds->str[i];
    IterKind kind = k == 'S' ? ITER_SPATIAL : k == 'R' ? ITER_REDUCE : ITER_OPAQUE;
    const Expr *e = NULL;
    Range *r = NULL;
    if (k != 'S' && k != 'R' && k != 'O')
      sema_error(s, kinds, "an axis kind is S, R or O but got '%c'", k);
    else if (names[i]->kind != TREE_NAME)
      sema_error(s, names[i], "expected a name but got %s", tree_describe(names[i]));
    else if ((e = sema_expr(s, list->at[i])) &&
             (e->kind != EXPR_VAR || !(r = map_getp(&s->loop->loops, e->var))))
      sema_error(s, list->at[i], "T.axis.remap takes loop variables");
    if (r)
      add_axis(s, names[i], kind, *r, e);
    else
      loop_bind_bad(s, names[i]);
  }
}

void loop_read_axis(Sema *s, const Tree *target, const Tree *call, const char *name) {
  static const char *const kinds[] = {"spatial", "reduce", "opaque", "scan", "remap"};
  static const char *const short_kinds[] = {"S", "R", "O"};
  if (!s->loop->block || s->loop->block->is_root) {
    sema_error(s, call, "T.axis stands in a block");
    loop_bind_bad(s, target);
    return;
  }
  name += strlen("axis.");
  if (strcmp(name, "remap") == 0) {
    read_remap(s, target, call);
    return;
  }
  int kind = -1;
  for (int i = 0; i < 4; i++)
    if (strcmp(name, kinds[i]) == 0) kind = i;
  for (int i = 0; i < 3; i++)
    if (strcmp(name, short_kinds[i]) == 0) kind = i;
  if (kind < 0) {
    const char *near = text_nearest(name, kinds, 5);
    sema_error(s, call->a, "unknown axis kind '%s'%s%s%s", name, near ? "; did you mean '" : "",
               near ? near : "", near ? "'?" : "");
    loop_bind_bad(s, target);
    return;
  }
  if (call->n != 2 || target->kind != TREE_NAME) {
    sema_error(s, call, "expected v = T.axis.%s(extent, value)", kinds[kind]);
    loop_bind_bad(s, target);
    return;
  }
  Range dom;
  bool ok = loop_read_range(s, call->at[0], &dom);
  const Expr *value = sema_expr(s, call->at[1]);
  if (value && !dtype_is_int(value->dtype)) {
    sema_error(s, call->at[1], "an axis is bound to an integer but got %s",
               dtype_name(value->dtype));
    value = NULL;
  }
  if (ok && value)
    add_axis(s, target, (IterKind)kind, dom, value);
  else
    loop_bind_bad(s, target);
}

/* T.reads(A[...], B[...]) or T.reads([A[...]]) */
static void read_regions(Sema *s, const Tree *call, bool writes) {
  SBlock *b = s->loop->block->block;
  Tree *const *at = call->at;
  uint32_t n = call->n;
  if (n == 1 && (at[0]->kind == TREE_LIST || at[0]->kind == TREE_TUPLE)) {
    n = at[0]->n;
    at = at[0]->at;
  }
  Region *r = ARENA_ARRAY(s->m->arena, Region, n ? n : 1);
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) ok &= loop_read_region(s, at[i], &r[i]);
  if (writes ? b->has_writes : b->has_reads)
    sema_error(s, call, "T.%s stands twice in one block", writes ? "writes" : "reads");
  if (!ok) return;
  if (writes) {
    b->writes = r;
    b->nwrites = n;
    b->has_writes = true;
  } else {
    b->reads = r;
    b->nreads = n;
    b->has_reads = true;
  }
}

bool loop_block_call(Sema *s, const Tree *call, const char *name) {
  bool reads = strcmp(name, "reads") == 0, writes = strcmp(name, "writes") == 0;
  bool where = strcmp(name, "where") == 0;
  bool attr = strcmp(name, "sblock_attr") == 0 || strcmp(name, "block_attr") == 0;
  if (!reads && !writes && !where && !attr) return false;
  BlockState *b = s->loop->block;
  if (!b || b->is_implied) {
    sema_error(s, call, "T.%s stands in a block, with T.sblock(...):", name);
    return true;
  }
  if (reads || writes) {
    read_regions(s, call, writes);
    return true;
  }
  if (call->n != 1) {
    sema_error(s, call, "T.%s takes one argument but got %u", name, call->n);
    return true;
  }
  if (where) {
    const Expr *e = sema_condition(s, call->at[0]);
    if (!e) return true;
    if (b->block->predicate) sema_error(s, call, "T.where stands twice in one block");
    b->block->predicate = e;
  } else {
    const Attr *a = sema_attr_dict(s, call->at[0]);
    if (!a) return true;
    const Attr *old = b->block->annotations;
    for (uint32_t i = 0; old && i < old->n; i++) {
      const Attr *again = attr_get(a, old->keys[i]);
      if (again && !attr_equal(again, old->items[i]))
        sema_error(s, call->at[0], "attribute '%s' of this block is set already, to another value",
                   old->keys[i]);
      a = attr_with(s->m->arena, a, old->keys[i], old->items[i]);
    }
    b->block->annotations = a;
  }
  return true;
}

void loop_close_block(Sema *s, BlockState *b, Stmt *body) {
  Arena *a = s->m->arena;
  SBlock *k = b->block;
  k->iters = arena_dup(a, b->iters.at, b->iters.n * sizeof *b->iters.at);
  k->niters = b->iters.n;
  k->allocs = arena_dup(a, b->allocs.at, b->allocs.n * sizeof *b->allocs.at);
  k->nallocs = b->allocs.n;
  k->matches = arena_dup(a, b->matches.at, b->matches.n * sizeof *b->matches.at);
  k->nmatches = b->matches.n;
  k->body = body;
}

Stmt *loop_read_block(Sema *s, const Tree *with, const Tree *call) {
  LoopState *l = s->loop;
  BlockState b = {.outer = l->block};
  b.block = ARENA_NEW(s->m->arena, SBlock);
  b.block->name = "";
  bool no_realize = false;
  for (uint32_t i = 0; i < call->n; i++) {
    const Tree *a = call->at[i];
    if (a->kind == TREE_STR && i == 0)
      b.block->name = strpool_intern(s->ctx->strings, a->str, a->n);
    else if (a->kind == TREE_KEYWORD && strcmp(a->name, "no_realize") == 0)
      no_realize = true;
    else
      sema_error(s, a, "a block has a name and nothing else");
  }
  if (with->at[0]->kind == TREE_WITH_ITEM && with->at[0]->b)
    sema_error(s, with->at[0]->b, "a block is no value: it can't be named by 'as'");
  if (no_realize) sema_error(s, call, "'no_realize' is not supported");
  l->block = &b;
  uint32_t depth = l->depth;
  l->depth = 0;
  scope_push(&s->scope);
  Stmt *body = loop_statements(s, with->at[with->n - 1]);
  scope_pop(&s->scope, "a block");
  l->depth = depth;
  l->block = b.outer;
  loop_close_block(s, &b, body);
  Span span = tree_span(s, with);
  span.end = call->end;
  return stmt_block(s->m->arena, span, b.block);
}
