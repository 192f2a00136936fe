/* Products with few rows or columns as dot products.
 *
 * Few rows times a transposed matrix, in place:
 * With k contiguous in both operands (y = x W^T) the tiled kernel must first copy W into panels,
 * which costs more than the whole product while there are few rows. Then the ordinary loops of a
 * reduction serve: k in lanes, W is read once, nothing is copied. Where the number of rows is
 * symbolic both forms are emitted behind a test.
 *
 * Many rows times a matrix of so few columns that they fill a small part of a vector: the columns
 * are copied together first, then k is contiguous in both operands, too.
 */
#include "passes/loop/contraction.h"

enum {
  FEW_ROWS = 4,
  MIN_K = 64,
  COLUMNS = 2,   /* times as many lanes as columns */
  MANY_ROWS = 16 /* that pay for copying the columns */
};

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

static bool is_plain(const Contraction *con, const Expr *factor) {
  return factor->kind == EXPR_LOAD && dtype_eq(factor->dtype, con->d);
}

bool dots_suit_columns(Sched *s, const Contraction *con) {
  int64_t n, k, m, rows = 1;
  if (con->nk != 1 || con->nouter || !con->m.var || con->b_rows || s->prologue ||
      !dtype_is_float(con->d) || !is_plain(con, con->a) || !is_plain(con, con->b) ||
      !expr_const_int(s->c, con->n.extent, &n) || !expr_const_int(s->c, con->ktotal, &k))
    return false;
  for (uint32_t i = 0; i <= con->nrows && rows < MANY_ROWS; i++)
    rows *= expr_const_int(s->c, i ? con->rows[i - 1].extent : con->m.extent, &m) ? m : MANY_ROWS;
  if (rows < MANY_ROWS) return false;
  return n * COLUMNS <= (int64_t)con->lanes && k >= MIN_K * n && k >= 8 * (int64_t)con->lanes &&
         is_unit(s, con, con->a) && !is_unit(s, con, con->b);
}

/* Copies the columns together and has the group read the copy. */
static void copy_columns(Sched *s, Group *g, const Contraction *con, StmtVec *out) {
  Context *c = s->c;
  const Axis from[] = {con->n, con->k[0]};
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, 2), *at[2];
  Stage *copy = ARENA_NEW(s->tmp, Stage);
  Map vars;
  map_init(&vars, s->tmp);
  *copy = (Stage){.name = "columns", .span = con->st->span, .naxes = 2, .nspatial = 2};
  copy->oidx = ARENA_ARRAY(s->tmp, const Expr *, 2);
  copy->oaxis = ARENA_ARRAY(s->tmp, int32_t, 2);
  copy->covers = true;
  for (uint32_t i = 0; i < 2; i++) {
    shape[i] = from[i].extent;
    at[i] = from[i].var->expr;
    copy->axes[i] = (Axis){loop_var(c, from[i].var->name), from[i].extent};
    copy->oidx[i] = copy->axes[i].var->expr;
    copy->oaxis[i] = (int32_t)i;
    map_setp(&vars, from[i].var, (void *)copy->oidx[i]);
  }
  copy->out = buffer_create(c, "columns", con->d, shape, 2, "global");
  copy->out->align = 64;
  copy->value = subst_vars(c, &vars, con->b);
  vec_push(s->tmp, &s->lc->decls, stmt_alloc(s->a, copy->span, copy->out));
  stage_emit(s, copy, out);
  g->stages[0]->value = expr_mul(c, con->a, expr_load(c, copy->out, at, 2));
}

bool dots_emit(Sched *s, Group *g, StmtVec *out) {
  Emit em;
  Contraction con = {0};
  if (!s->nested && contraction_find(s, g, false, &con) && dots_suit_columns(s, &con)) {
    copy_columns(s, g, &con, out);
    group_emit(s, g, out);
    return true;
  }
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
