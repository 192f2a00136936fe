/* Expressions that share much: a DAG whose tree is huge prints as a few definitions.
 *
 *   x2 = x + x; x3 = x2 + x2; ... x40          t: T.let[T.float32] = A[i] + A[i]
 *                                              t_1: T.let[T.float32] = t + t
 *                                              ...
 * Text of a tree of more than MANY nodes first defines what stands in it more than once. Only what
 * is computed in any case is taken out: an operand that may be skipped (of T.if_then_else, and,
 * or), or that is in the scope of a T.Let, gets definitions of its own inside, as T.Let
 * expressions.
 */
#include "ir/print_impl.h"

/* What was read is written out in a text already, and keeps its form: only beyond any size that
 * people or tools write is it shared. */
enum { MANY = 2000, MANY_READ = 200000 };

static bool is_leaf(const Expr *e) {
  return e->n == 0 || e->kind == EXPR_BROADCAST || e->kind == EXPR_RAMP;
}

/* Counts nodes of the tree until the budget is used up. */
static void count_tree(const Expr *e, uint32_t *budget) {
  if (*budget == 0) return;
  --*budget;
  for (uint32_t i = 0; i < e->n && *budget; i++) count_tree(e->arg[i], budget);
}

bool print_is_big(const Printer *p, const Expr *e) {
  uint32_t budget = p->as_read ? MANY_READ : MANY;
  count_tree(e, &budget);
  return budget == 0;
}

/* Operands of e that are a region of their own. */
bool print_is_lazy(const Expr *e, uint32_t i) {
  switch ((ExprKind)e->kind) {
  case EXPR_AND:
  case EXPR_OR: return i == 1;
  case EXPR_LET: return i == 2;
  case EXPR_CALL: return intrin_table[e->intrin].flags & INTRIN_LAZY && i > 0;
  default: return false;
  }
}

typedef struct {
  Printer *p;
  Map refs;                /* Expr id + 1 -> uses */
  Map taint;               /* Expr id + 1 of those with side effects inside */
  VEC(const Expr *) order; /* operands first */
} Share;

static void visit(Share *r, const Expr *e);

static void visit_operands(Share *r, const Expr *e) {
  bool taint = e->kind == EXPR_CALL_FUNC ||
               (e->kind == EXPR_CALL && !(intrin_table[e->intrin].flags & INTRIN_PURE));
  for (uint32_t i = 0; i < e->n; i++) {
    const Expr *a = e->arg[i];
    if (print_is_lazy(e, i) || (e->kind == EXPR_SHUFFLE && i + 1 == e->n) ||
        (e->kind == EXPR_LET && i == 0))
      continue;
    if (e->kind == EXPR_CALL && e->intrin == INTRIN_address_of && a->kind == EXPR_LOAD)
      visit_operands(r, a); /* the element itself must stay */
    else
      visit(r, a);
    taint |= map_has(&r->taint, (uint64_t)a->id + 1);
  }
  if (taint) map_set(&r->taint, (uint64_t)e->id + 1, r);
}

static void visit(Share *r, const Expr *e) {
  if (is_leaf(e) || map_has(&r->p->shared, (uint64_t)e->id + 1)) return;
  uint64_t key = (uint64_t)e->id + 1;
  uintptr_t n = (uintptr_t)map_get(&r->refs, key);
  map_set(&r->refs, key, (void *)(n + 1));
  if (n) return;
  visit_operands(r, e);
  vec_push(r->p->arena, &r->order, e);
}

static bool is_shared(const Share *r, const Expr *e) {
  uint64_t key = (uint64_t)e->id + 1;
  return (uintptr_t)map_get(&r->refs, key) > 1 && !map_has(&r->taint, key) &&
         dtype_known(e->dtype) && e->dtype.code != DTYPE_HANDLE;
}

static void region_begin(Share *r, Printer *p, const Expr *const *roots, uint32_t n) {
  *r = (Share){.p = p};
  map_init(&r->refs, p->arena);
  map_init(&r->taint, p->arena);
  for (uint32_t i = 0; i < n; i++)
    if (roots[i]) visit(r, roots[i]);
}

static const char *name_shared(Printer *p, const Expr *e) {
  const char *name = print_define(p, e, "t");
  map_set(&p->shared, (uint64_t)e->id + 1, (void *)(uintptr_t)name);
  vec_push(p->arena, &p->shared_list, e);
  return name;
}

uint32_t print_share(Printer *p, const Expr *const *roots, uint32_t n, int indent) {
  uint32_t mark = p->shared_list.n;
  bool big = false;
  for (uint32_t i = 0; i < n && !big; i++) big = roots[i] && print_is_big(p, roots[i]);
  if (!big) return mark;
  Share r;
  region_begin(&r, p, roots, n);
  for (uint32_t i = 0; i < r.order.n; i++) {
    const Expr *e = r.order.at[i];
    if (!is_shared(&r, e)) continue;
    Text value = {0};
    Text *t = p->t;
    p->t = &value;
    print_expr(p, e);
    p->t = t;
    p->uses_T = true;
    text_indent(t, indent);
    text_printf(t, p->d == DIALECT_TODAY ? "%s: T.let[T.%s] = %s\n" : "%s: T.%s = %s\n",
                name_shared(p, e), dtype_name(e->dtype), text_cstr(&value));
    text_free(&value);
  }
  return mark;
}

void print_unshare(Printer *p, uint32_t mark) {
  while (p->shared_list.n > mark)
    map_set(&p->shared, (uint64_t)vec_pop(&p->shared_list)->id + 1, NULL);
}

void print_shared_expr(Printer *p, const Expr *e) {
  uint32_t mark = p->shared_list.n, scope = print_scope_enter(p), lets = 0;
  Share r;
  region_begin(&r, p, &e, 1);
  Text wheres = {0}, *t = p->t;
  VEC(const char *) tails = {0};
  for (uint32_t i = 0; i < r.order.n; i++) {
    if (!is_shared(&r, r.order.at[i])) continue;
    text_clear(&wheres);
    p->t = &wheres;
    print_expr(p, r.order.at[i]);
    p->t = t;
    const char *name = name_shared(p, r.order.at[i]);
    vec_push(p->arena, &tails,
             arena_printf(p->arena, ", where={%s: %s})", name, text_cstr(&wheres)));
    lets++;
  }
  text_free(&wheres);
  for (uint32_t i = 0; i < lets; i++) text_puts(t, "T.Let(");
  print_expr(p, e);
  while (lets-- > 0) text_puts(t, tails.at[lets]);
  print_unshare(p, mark);
  print_scope_leave(p, scope);
}
