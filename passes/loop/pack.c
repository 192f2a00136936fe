/* Panels of B, copied at run time.
 *
 * The layout is [panel][k][width]: what a tile needs for one step of k stands together, panels are
 * as wide for every instruction set, the last one is filled up with zeros.
 */
#include "passes/loop/contraction.h"

/* Copies panels [first, first + count); masked: columns at or after n's extent give 0. */
static void copy_panels(Emit *em, const Contraction *con, Buffer *panels, uint32_t width,
                        const Expr *first, const Expr *count, bool masked, StmtVec *out) {
  Context *c = em->c;
  Span sp = con->st->span;
  const Expr *load = con->b->kind == EXPR_CAST ? con->b->arg[0] : con->b;
  uint32_t lanes = variant_lanes(em->s->v, load->dtype);
  if (lanes > width) lanes = width;
  Var *p = loop_var(c, "panel"), *j = loop_var(c, "j");
  const Expr *panel = expr_simplify(c, expr_add(c, first, p->expr));
  Var *vars[MAX_AXES] = {0};
  const Expr *k = i64(c, 0);
  for (uint32_t i = 0; i < con->nk; i++) {
    vars[i] = loop_var(c, "k");
    emit_bind(em, con->k[i].var, vars[i]->expr);
    k = expr_add(c, expr_mul(c, k, con->k[i].extent), vars[i]->expr);
  }
  emit_bind(em, con->n.var, con->n.var->expr);
  const Expr *lane = expr_mul(c, j->expr, i64(c, lanes));
  const Expr *col = expr_simplify(c, expr_add(c, expr_mul(c, panel, i64(c, width)), lane));
  Lanes ln = {con->n.var, col, lanes, masked ? lane_mask(c, col, con->n.extent, lanes) : NULL};
  const Expr *value = emit_value(em, &ln, emit_prepare(em, load));
  const Expr *row = expr_add(c, expr_mul(c, panel, con->ktotal), k);
  const Expr *off = expr_add(c, expr_mul(c, row, i64(c, width)), lane);
  off = expr_ramp(c, expr_simplify(c, off), i64(c, 1), lanes);
  Stmt *s = stmt_store(em->a, sp, panels, &off, value);
  s = loop_of(em->lc, sp, j, i64(c, width / lanes), FOR_UNROLL, s);
  for (uint32_t i = con->nk; s && i-- > 0;)
    s = loop_of(em->lc, sp, vars[i], con->k[i].extent, FOR_SERIAL, s);
  s = s ? loop_of(em->lc, sp, p, count, FOR_SERIAL, s) : NULL;
  if (s && s->kind == STMT_FOR && s->loop.var == p) loop_set_parallel(em->lc, s, 4);
  if (s) vec_push(em->tmp, out, s);
}

Buffer *pack_panels(Emit *em, const Contraction *con, uint32_t width, StmtVec *out) {
  Context *c = em->c;
  const Expr *load = con->b->kind == EXPR_CAST ? con->b->arg[0] : con->b;
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, 1);
  const Expr *npanels = expr_ceildiv(c, con->n.extent, width);
  shape[0] = expr_simplify(c, expr_mul(c, expr_mul(c, npanels, con->ktotal), i64(c, width)));
  Buffer *panels = buffer_create(c, "panels", load->dtype, shape, 1, "global");
  panels->align = 64;
  vec_push(em->tmp, &em->lc->decls, stmt_alloc(em->a, con->st->span, panels));
  const Expr *whole = expr_simplify(c, expr_floordiv(c, con->n.extent, i64(c, width)));
  copy_panels(em, con, panels, width, i64(c, 0), whole, false, out);
  int64_t n;
  bool known = expr_const_int(c, con->n.extent, &n);
  if (!known || n % width) {
    const Expr *rest = known ? i64(c, 1) : expr_simplify(c, expr_sub(c, npanels, whole));
    copy_panels(em, con, panels, width, whole, rest, true, out);
  }
  return panels;
}
