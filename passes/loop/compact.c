/* Elements of an operand of a contraction that lie apart, copied together.
 *
 *   before: A[k, 2h, 2w]: rows;     C[n, h, w] += A[k, 2h, 2w] * B[n, k]
 *   after:  A'[k, h, w] = A[k, 2h, 2w];        C[n, h * W + w] += A'[k, h * W + w] * B[n, k]
 *
 *   before: B[c, h + i, w + j]: columns;  C[m, h, w] += A[m, c, i, j] * B[c, h + i, w + j]
 *   after:  B'[c, i, j, h, w] = B[c, h + i, w + j];
 *                              C[m, h * W + w] += A[m, c, i, j] * B'[c, i, j, h * W + w]
 *
 * Where C is contiguous over the axes of rows and A isn't, the rows can't become one axis: tiles of
 * a short innermost axis are small, and every step of k reads lines of which most is skipped.
 * Columns of a short axis leave lanes of vectors empty. A copy costs an access for each element,
 * the product one for each column or row.
 */
#include "passes/loop/contraction.h"

#define MIN_COLUMNS 64
#define MAX_BYTES (8 << 20)
#define COPY_ROWS 24 /* that take as long as the copy of a column, were all lanes in use */

typedef struct {
  const Axis *axes[MAX_AXES]; /* other axes, k, then rows or columns that C continues over */
  uint32_t n, joined;         /* the last start at `joined` */
  int64_t elems, extent[MAX_AXES];
} Shape;

static bool is_row(const Contraction *con, const Var *v) {
  if (con->m.var == v) return true;
  for (uint32_t i = 0; i < con->nrows; i++)
    if (con->rows[i].var == v) return true;
  return false;
}

/* Strides of the axes in an access; false when one isn't constant. */
static bool find_strides(Sched *s, const Stage *st, const Buffer *b, const Expr *const *idx,
                         const Axis *const *axes, uint32_t n, int64_t *stride) {
  const Dim *off = flat_offset(s->lc, b, idx);
  for (uint32_t i = 0; i < n; i++) {
    const Dim *d = stride_of(s->lc, st, off, axes[i]->var);
    if (!d || !dim_is_const(d, &stride[i])) return false;
  }
  return true;
}

static bool add_axis(Sched *s, Shape *sh, const Axis *a) {
  if (!expr_const_int(s->c, a->extent, &sh->extent[sh->n]) || sh->extent[sh->n] <= 0 ||
      sh->elems > MAX_BYTES)
    return false;
  sh->elems *= sh->extent[sh->n];
  sh->axes[sh->n++] = a;
  return true;
}

/* The axes of the stage that are rows, or those that aren't: columns and batches. */
static bool find_shape(Sched *s, const Contraction *con, bool rows, Shape *sh) {
  const Stage *st = con->st;
  const Axis *at[MAX_AXES];
  int64_t stride[MAX_AXES], e;
  uint32_t n = 0;
  *sh = (Shape){.elems = 1};
  for (uint32_t i = 0; i < st->nspatial; i++)
    if (is_row(con, st->axes[i].var) == rows && !expr_is_int(st->axes[i].extent, 1))
      at[n++] = &st->axes[i];
  if (n < 2 || !find_strides(s, st, st->out, st->oidx, at, n, stride)) return false;
  uint32_t first = n - 1;
  while (first > 0 && expr_const_int(s->c, at[first]->extent, &e) &&
         stride[first - 1] == stride[first] * e)
    first--;
  if (n - first < 2) return false;
  for (uint32_t i = 0; i < first; i++)
    if (!add_axis(s, sh, at[i])) return false;
  for (uint32_t i = 0; i < con->nk; i++)
    if (!add_axis(s, sh, &con->k[i])) return false;
  sh->joined = sh->n;
  for (uint32_t i = first; i < n; i++)
    if (!add_axis(s, sh, at[i])) return false;
  return true;
}

/* Whether the axes over which C continues aren't one axis of an operand. */
static bool lie_apart(Sched *s, const Contraction *con, const Expr *load, const Shape *sh) {
  int64_t stride[MAX_AXES];
  if (!find_strides(s, con->st, load->buf, load->arg, sh->axes, sh->n, stride)) return false;
  for (uint32_t i = sh->joined; i + 1 < sh->n; i++)
    if (stride[i] != stride[i + 1] * sh->extent[i + 1]) return true;
  return false;
}

static bool rows_worth_it(Sched *s, const Contraction *con, const Shape *sh) {
  const Expr *a = con->a;
  int64_t n, have = 1, e;
  if (!a || a->kind != EXPR_LOAD || con->nouter || !expr_const_int(s->c, con->n.extent, &n) ||
      n < MIN_COLUMNS || sh->elems * (int64_t)dtype_bytes(a->dtype) > MAX_BYTES)
    return false;
  for (uint32_t i = 0; i < a->buf->ndim; i++)
    have *= expr_const_int(s->c, a->buf->shape[i], &e) ? e : 0;
  if (sh->elems > have) return false; /* windows overlap */
  return lie_apart(s, con, a, sh);
}

/* Vectors of `lanes` that hold n columns. */
static int64_t vectors(int64_t n, int64_t lanes) {
  return (n + lanes - 1) / lanes;
}

/* Whether the rows gain more by columns in fuller vectors than a copy costs. */
static bool columns_worth_it(Sched *s, const Contraction *con, const Shape *sh) {
  const Expr *b = con->b;
  int64_t rows = 1, apart = 1, whole = 1, columns = 1, e;
  if (!con->a || con->b_rows || b->kind != EXPR_LOAD ||
      sh->elems * (int64_t)dtype_bytes(b->dtype) > MAX_BYTES ||
      sh->axes[sh->n - 1]->var != con->n.var || !lie_apart(s, con, b, sh))
    return false;
  const Dim *a = flat_offset(s->lc, factor_load(con->a)->buf, factor_load(con->a)->arg);
  for (uint32_t i = 0; i < con->st->nspatial; i++)
    if (is_row(con, con->st->axes[i].var))
      rows *= expr_const_int(s->c, con->st->axes[i].extent, &e) && rows < INT32_MAX ? e : 1;
  for (uint32_t i = sh->joined; i < sh->n; i++) {
    if (dim_uses_var(a, sh->axes[i]->var)) return false;
    columns *= sh->extent[i];
    apart *= i + 1 < sh->n ? sh->extent[i] : vectors(sh->extent[i], con->lanes);
  }
  whole = vectors(columns, con->lanes);
  return (apart - whole) * con->lanes * rows > columns * COPY_ROWS;
}

/* The load of an operand, copied: an element for each point of the shape. */
static const Expr *copied(Sched *s, const Contraction *con, const Expr *load, const char *name,
                          const Shape *sh, StmtVec *out) {
  Context *c = s->c;
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, sh->n);
  for (uint32_t i = 0; i < sh->n; i++) shape[i] = i64(c, sh->extent[i]);
  Buffer *b = buffer_create(c, name, load->dtype, shape, sh->n, "global");
  b->align = 64;
  vec_push(s->tmp, s->nested ? out : &s->lc->decls, stmt_alloc(s->a, con->st->span, b));
  Stage *copy = ARENA_NEW(s->tmp, Stage);
  *copy = (Stage){.name = name, .span = con->st->span, .out = b, .covers = true};
  copy->naxes = copy->nspatial = sh->n;
  copy->oidx = ARENA_ARRAY(s->tmp, const Expr *, sh->n);
  copy->oaxis = ARENA_ARRAY(s->tmp, int32_t, sh->n);
  const Expr *at[MAX_AXES];
  Map vars;
  map_init(&vars, s->tmp);
  for (uint32_t i = 0; i < sh->n; i++) {
    Var *v = loop_var(c, sh->axes[i]->var->name);
    map_setp(&vars, sh->axes[i]->var, (void *)v->expr);
    copy->axes[i] = (Axis){v, shape[i]};
    copy->oidx[i] = v->expr;
    copy->oaxis[i] = (int32_t)i;
    at[i] = sh->axes[i]->var->expr;
  }
  copy->value = subst_vars(c, &vars, load);
  stage_emit(s, copy, out);
  return expr_load(c, b, at, sh->n);
}

/* The operand whose elements are to be copied together, or NULL. */
static const Expr *find_apart(Sched *s, const Contraction *con, Shape *sh) {
  if (con->a_columns) return NULL;
  if (find_shape(s, con, true, sh) && rows_worth_it(s, con, sh)) return con->a;
  if (map_hasp(&s->lc->packed, factor_load(con->b)->buf)) return NULL;
  return find_shape(s, con, false, sh) && columns_worth_it(s, con, sh) ? con->b : NULL;
}

bool columns_lie_apart(Sched *s, const Contraction *con) {
  Shape sh;
  return find_apart(s, con, &sh) == con->b;
}

void operands_compact(Sched *s, Group *g, const Contraction *con, StmtVec *out) {
  Shape sh;
  const Expr *load = find_apart(s, con, &sh);
  if (!load) return;
  Stage *st = g->stages[0];
  const Expr *args[] = {st->value->arg[0], st->value->arg[1]};
  args[args[0] == load ? 0 : 1] =
      copied(s, con, load, load == con->a ? "rows" : "columns", &sh, out);
  st->value = expr_with_args(s->c, st->value, args);
}
