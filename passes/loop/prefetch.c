/* Prefetching for register tiles.
 *
 * While the tiles of some columns work, what those of the next columns will read comes into the
 * second level of cache, a share in each step. Hardware does that for one stream of neighbouring
 * lines; panels and blocks that are read by few tiles, and rows of B far from each other, come too
 * late with it alone.
 */
#include "passes/loop/tile.h"

#define PREFETCH_BYTES (8 * 1024)  /* a panel smaller than this isn't prefetched */
#define IN_PLACE_BYTES (64 * 1024) /* a smaller B that is read in place isn't either */
#define PREFETCH_LINES 8           /* of a panel in one step, at most */

/* How many of `lines` each step of a tile's k loop brings in, so that all tiles of these columns
 * together bring in all of them. */
static const Expr *prefetch_share(const Tile *t, int64_t lines, const Expr *steps) {
  Context *c = t->kn->em->c;
  const Expr *done = expr_max(c, expr_mul(c, steps, t->tiles), i64(c, 1));
  const Expr *each = expr_floordiv(c, expr_add(c, done, i64(c, lines - 1)), done);
  const Expr *most = i64(c, PREFETCH_LINES); /* none for a single tile, which reads them but once */
  most = expr_min(c, most, expr_mul(c, most, expr_sub(c, t->tiles, i64(c, 1))));
  return expr_simplify(c, expr_min(c, each, most));
}

Stmt *prefetch_load(const Tile *t, const Expr *load) {
  Emit *em = t->kn->em;
  const Expr *address = expr_call(em->c, INTRIN_address_of, DT_HANDLE, &load, 1);
  const Expr *fetch = expr_call(em->c, INTRIN_prefetch, DT_UNKNOWN, &address, 1);
  return stmt_eval(em->a, t->kn->con->st->span, fetch);
}

/* Number of line l of the `each` of this step, counted over all steps of all tiles of the panel. */
static const Expr *line_number(const Tile *t, const Expr *step, const Expr *steps, const Expr *each,
                               const Var *l) {
  Context *c = t->kn->em->c;
  const Expr *at = expr_add(c, expr_mul(c, t->number, steps), step);
  return expr_add(c, expr_mul(c, at, each), l->expr);
}

/* for l in range(each): prefetch(load), where load reads l; NULL: none. */
static Stmt *prefetch_lines(const Tile *t, Var *l, const Expr *each, const Expr *load) {
  ForKind kind = each->kind == EXPR_INT ? FOR_UNROLL : FOR_SERIAL;
  return loop_of(t->kn->em->lc, t->kn->con->st->span, l, each, kind, prefetch_load(t, load));
}

/* The panels of the next columns. */
static void prefetch_panels(Tile *t, const Expr *step, const Expr *steps, StmtVec *out) {
  Kernel *kn = t->kn;
  Context *c = kn->em->c;
  const Contraction *con = kn->con;
  int64_t k, w = kn->src.width, elem = (int64_t)dtype_bytes(con->d), line = 64 / elem;
  int64_t tile = (int64_t)t->nv * con->lanes, panels = tile > w ? tile / w : 1;
  const Expr *each = i64(c, 1);
  if (expr_const_int(c, kn->kb ? kn->k_block : con->ktotal, &k)) {
    if (k * w * elem < PREFETCH_BYTES) return;
    each = prefetch_share(t, k * w * elem / 64, steps);
  }
  Var *p = loop_var(c, "next"), *l = loop_var(c, "line");
  const Expr *panel = expr_floordiv(c, expr_add(c, t->col, i64(c, panels * w)), i64(c, w));
  const Expr *row = expr_mul(c, expr_add(c, panel, p->expr), con->ktotal);
  if (kn->kb) row = expr_add(c, row, kn->k_begin);
  const Expr *at = expr_mul(c, line_number(t, step, steps, each, l), i64(c, line));
  at = expr_simplify(c, expr_add(c, expr_mul(c, row, i64(c, w)), at));
  Stmt *s = prefetch_lines(t, l, each, expr_load(c, kn->src.panels, &at, 1));
  if (!s) return;
  vec_push(kn->em->tmp, out, loop_of(kn->em->lc, con->st->span, p, i64(c, panels), FOR_UNROLL, s));
}

/* The rows of B in the next columns, where B is read in place: pieces of lines far from each other,
 * which hardware doesn't foresee. */
static void prefetch_rows(Tile *t, const Expr *step, const Expr *steps, StmtVec *out) {
  Kernel *kn = t->kn;
  Emit *em = kn->em;
  Context *c = em->c;
  const Contraction *con = kn->con;
  int64_t k, n, elem = (int64_t)dtype_bytes(con->d), line = 64 / elem;
  int64_t tile = (int64_t)t->nv * con->lanes, pieces = (tile + line - 1) / line;
  if (con->nk != 1 || !con->b_unit || con->b_rows || tile % line) return;
  if (!expr_const_int(c, con->ktotal, &k)) return;
  if (expr_const_int(c, con->n.extent, &n) && n * k * elem < IN_PLACE_BYTES) return;
  if (kn->kb && !expr_const_int(c, kn->k_block, &k)) return;
  const Expr *each = prefetch_share(t, k * pieces, steps);
  Var *l = loop_var(c, "line");
  const Expr *at = line_number(t, step, steps, each, l);
  const Expr *row = expr_min(c, expr_floordiv(c, at, i64(c, pieces)), i64(c, k - 1));
  if (kn->kb) row = expr_add(c, row, kn->k_begin);
  const Expr *piece = expr_mul(c, expr_floormod(c, at, i64(c, pieces)), i64(c, line));
  emit_bind(em, con->k[0].var, expr_simplify(c, row));
  emit_bind(em, con->n.var, simp_add(c, expr_add(c, t->col, i64(c, tile)), piece));
  const Expr *load = emit_prepare(em, factor_load(con->b));
  emit_bind(em, con->n.var, con->n.var->expr);
  Stmt *s = prefetch_lines(t, l, each, load);
  if (s) vec_push(em->tmp, out, s);
}

/* The next lines of a B that is nothing but lines, each one piece of memory: weights in blocks. */
static void prefetch_blocks(Tile *t, const Expr *step, const Expr *steps, StmtVec *out) {
  Kernel *kn = t->kn;
  LoopCtx *lc = kn->em->lc;
  Context *c = kn->em->c;
  const Contraction *con = kn->con;
  const Expr *load = factor_load(con->b);
  int64_t k, n, count, size, elem = (int64_t)dtype_bytes(load->dtype), line = 64 / elem;
  const Expr *all = expr_product(c, load->buf->shape, load->buf->ndim);
  if (kn->kb || !expr_const_int(c, all, &size) || !expr_const_int(c, con->ktotal, &k) ||
      !expr_const_int(c, con->n.extent, &n) || !expr_const_int(c, con->lines.extent, &count) ||
      size != k * n * count || size * elem < IN_PLACE_BYTES)
    return;
  const Dim *off = flat_offset(lc, load->buf, load->arg);
  if (stride_of(lc, con->st, off, con->lines.var) != dim_const(c, k * n)) return;
  const Expr *each = prefetch_share(t, t->nv * k * n / line, steps);
  Var *l = loop_var(c, "line");
  const Expr *next = expr_floordiv(c, t->col, i64(c, con->lanes));
  next = expr_mul(c, simp_add(c, next, i64(c, t->nv)), i64(c, k * n));
  const Expr *at = expr_mul(c, line_number(t, step, steps, each, l), i64(c, line));
  at = simp_add(c, next, at);
  Stmt *s = prefetch_lines(t, l, each, expr_load(c, flat_view(lc, load->buf), &at, 1));
  if (s) vec_push(kn->em->tmp, out, s);
}

void prefetch_next(Tile *t, const Expr *step, const Expr *steps, StmtVec *out) {
  if (!t->number) return;
  if (t->kn->src.panels && !t->kn->src.by_task)
    prefetch_panels(t, step, steps, out);
  else if (t->kn->con->lines.var)
    prefetch_blocks(t, step, steps, out);
  else
    prefetch_rows(t, step, steps, out);
}
