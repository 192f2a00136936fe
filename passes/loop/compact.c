/* Rows of a contraction that lie apart, copied together.
 *
 *   before: C[n, h, w] += A[k, 2h, 2w] * B[n, k]
 *   after:  A'[k, h, w] = A[k, 2h, 2w];  C[n, h * W + w] += A'[k, h * W + w] * B[n, k]
 *
 * Where C is contiguous over the row axes and A isn't, the rows can't become one axis: tiles of a
 * short innermost axis are small, and every step of k touches lines of which most is skipped. A
 * copy costs an access for each element of A, the product one for each column.
 */
#include "passes/loop/contraction.h"

#define MIN_COLUMNS 64
#define MAX_BYTES (8 << 20)

typedef struct {
  const Axis *axes[MAX_AXES]; /* other rows, k, then rows that C continues over */
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

static bool find_shape(Sched *s, const Contraction *con, Shape *sh) {
  const Stage *st = con->st;
  const Axis *rows[MAX_AXES];
  int64_t stride[MAX_AXES], e;
  uint32_t n = 0;
  *sh = (Shape){.elems = 1};
  for (uint32_t i = 0; i < st->nspatial; i++)
    if (is_row(con, st->axes[i].var)) rows[n++] = &st->axes[i];
  if (n < 2 || !find_strides(s, st, st->out, st->oidx, rows, n, stride)) return false;
  uint32_t first = n - 1;
  while (first > 0 && expr_const_int(s->c, rows[first]->extent, &e) &&
         stride[first - 1] == stride[first] * e)
    first--;
  if (n - first < 2) return false;
  for (uint32_t i = 0; i < first; i++)
    if (!add_axis(s, sh, rows[i])) return false;
  for (uint32_t i = 0; i < con->nk; i++)
    if (!add_axis(s, sh, &con->k[i])) return false;
  sh->joined = sh->n;
  for (uint32_t i = first; i < n; i++)
    if (!add_axis(s, sh, rows[i])) return false;
  return true;
}

static bool is_worth_it(Sched *s, const Contraction *con, const Shape *sh) {
  const Expr *a = con->a;
  int64_t n, have = 1, e, stride[MAX_AXES];
  if (!a || a->kind != EXPR_LOAD || con->nouter || !expr_const_int(s->c, con->n.extent, &n) ||
      n < MIN_COLUMNS || sh->elems * (int64_t)dtype_bytes(a->dtype) > MAX_BYTES)
    return false;
  for (uint32_t i = 0; i < a->buf->ndim; i++)
    have *= expr_const_int(s->c, a->buf->shape[i], &e) ? e : 0;
  if (sh->elems > have) return false; /* windows overlap */
  if (!find_strides(s, con->st, a->buf, a->arg, sh->axes, sh->n, stride)) return false;
  for (uint32_t i = sh->joined; i + 1 < sh->n; i++)
    if (stride[i] != stride[i + 1] * sh->extent[i + 1]) return true;
  return false;
}

void rows_compact(Sched *s, Group *g, const Contraction *con, StmtVec *out) {
  Context *c = s->c;
  Shape sh;
  if (!find_shape(s, con, &sh) || !is_worth_it(s, con, &sh)) return;
  const Expr *load = con->a;
  const Expr **shape = ARENA_ARRAY(c->arena, const Expr *, sh.n);
  for (uint32_t i = 0; i < sh.n; i++) shape[i] = i64(c, sh.extent[i]);
  Buffer *b = buffer_create(c, "rows", load->dtype, shape, sh.n, "global");
  b->align = 64;
  vec_push(s->tmp, s->nested ? out : &s->lc->decls, stmt_alloc(s->a, con->st->span, b));
  Stage *copy = ARENA_NEW(s->tmp, Stage);
  *copy = (Stage){.name = "rows", .span = con->st->span, .out = b, .covers = true};
  copy->naxes = copy->nspatial = sh.n;
  copy->oidx = ARENA_ARRAY(s->tmp, const Expr *, sh.n);
  copy->oaxis = ARENA_ARRAY(s->tmp, int32_t, sh.n);
  const Expr *at[MAX_AXES];
  Map vars;
  map_init(&vars, s->tmp);
  for (uint32_t i = 0; i < sh.n; i++) {
    Var *v = loop_var(c, sh.axes[i]->var->name);
    map_setp(&vars, sh.axes[i]->var, (void *)v->expr);
    copy->axes[i] = (Axis){v, shape[i]};
    copy->oidx[i] = v->expr;
    copy->oaxis[i] = (int32_t)i;
    at[i] = sh.axes[i]->var->expr;
  }
  copy->value = subst_vars(c, &vars, load);
  stage_emit(s, copy, out);
  Stage *st = g->stages[0];
  const Expr *args[] = {st->value->arg[0], st->value->arg[1]};
  args[args[0] == load ? 0 : 1] = expr_load(c, b, at, sh.n);
  st->value = expr_with_args(c, st->value, args);
}
