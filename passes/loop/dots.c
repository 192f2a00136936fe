/* Few rows times a transposed matrix: dot products in place.
 *
 * With k contiguous in both operands (y = x W^T) the tiled kernel must first copy W into panels,
 * which costs more than the whole product while there are few rows. Then the ordinary loops of a
 * reduction serve: k in lanes, W is read once, nothing is copied. Where the number of rows is
 * symbolic both forms are emitted behind a test.
 */
#include "passes/loop/contraction.h"

enum { FEW_ROWS = 4, MIN_K = 64 };

/* Emitting changes a group (axes collapse): a copy, to emit it twice. */
typedef struct {
  Group *g;
  Group group;
  Stage *stages; /* copies of *g->stages[i] */
} Saved;

static Saved save(Sched *s, Group *g) {
  Saved v = {g, *g, ARENA_ARRAY(s->tmp, Stage, g->n)};
  for (uint32_t i = 0; i < g->n; i++) v.stages[i] = *g->stages[i];
  return v;
}

static void restore(const Saved *v) {
  *v->g = v->group;
  for (uint32_t i = 0; i < v->group.n; i++) *v->group.stages[i] = v->stages[i];
}

static bool is_unit(Sched *s, const Contraction *con, const Expr *factor) {
  const Expr *load = factor_load(factor);
  const Dim *at = flat_offset(s->lc, load->buf, load->arg);
  const Dim *k = stride_of(s->lc, con->st, at, con->k[con->nk - 1].var);
  int64_t one;
  return k && dim_is_const(k, &one) && one == 1;
}

/* The rows of the contraction when dots may serve; NULL otherwise. */
static const Expr *find_rows(Sched *s, Group *g) {
  Contraction con = {0};
  for (int swap = 1; swap >= 0; swap--) {
    if (!contraction_find(s, g, swap, &con)) continue;
    if (map_hasp(&s->lc->packed, factor_load(con.b)->buf)) return NULL;
  }
  int64_t stride, k;
  if (!con.st || !con.a || con.nrows || con.nk == 0 || con.b_unit || con.a_columns) return NULL;
  if (dim_is_const(con.b_stride, &stride) && stride > 0 && stride <= NEAR_STRIDE) return NULL;
  if (expr_const_int(s->c, con.ktotal, &k) && k < MIN_K) return NULL;
  if (!is_unit(s, &con, con.a) || !is_unit(s, &con, con.b)) return NULL;
  return con.m.var ? con.m.extent : i64(s->c, 1);
}

/* What the prologue has from `first` on serves the tiled form only: no copies for few rows. */
static void only_for_many(Sched *s, uint32_t first) {
  StmtVec *p = s->prologue, work = {0};
  uint32_t n = first;
  const Expr *many = expr_binary(s->c, EXPR_GE, s->rows, i64(s->c, FEW_ROWS));
  for (uint32_t i = first; i < p->n; i++)
    if (p->at[i]->kind == STMT_ALLOC)
      p->at[n++] = p->at[i];
    else
      vec_push(s->tmp, &work, p->at[i]);
  p->n = n;
  if (work.n) vec_push(s->tmp, p, stmt_if(s->a, work.at[0]->span, many, seq_of(s->a, &work), NULL));
}

bool dots_emit(Sched *s, Group *g, StmtVec *out) {
  Emit em;
  Saved before = save(s, g);
  int64_t m;
  emit_init(&em, s, g);
  emit_collapse(&em);
  const Expr *rows = find_rows(s, g);
  restore(&before);
  if (!rows) return false;
  if (expr_const_int(s->c, rows, &m)) {
    if (m < FEW_ROWS) group_emit(s, g, out);
    return m < FEW_ROWS;
  }
  StmtVec few = {0}, many = {0};
  uint32_t prepared = s->prologue ? s->prologue->n : 0;
  group_emit(s, g, &few);
  restore(&before);
  if (!contraction_emit(s, g, NULL, &many)) {
    restore(&before);
    return false;
  }
  if (s->prologue) rows = s->rows;
  const Expr *test = expr_binary(s->c, EXPR_LT, rows, i64(s->c, FEW_ROWS));
  if (s->prologue) only_for_many(s, prepared);
  vec_push(s->tmp, out,
           stmt_if(s->a, g->stages[0]->span, test, seq_of(s->a, &few), seq_of(s->a, &many)));
  return true;
}
