/* Loops for a contraction: what its operands are read from, and in which loops.
 *
 * B is packed into panels when there are enough rows to pay for it, or read in place, or copied by
 * the first tile that reads it; padding is left out where bounds or masks serve instead.
 */
#include "passes/loop/contraction.h"

#define PACK_BYTES (128 * 1024)
#define PACK_ROWS 48       /* fewer rows don't pay for packing */
#define PACK_ROWS_NEAR 128 /* nor these, when all of B fits into L2 */
#define NEAR_BYTES (1 << 20)
#define LINE_ROWS 6        /* a tile of fewer isn't short of loads */
#define FEW_ROWS 576       /* more pay for packing in any case */
#define FILL_ROWS 24       /* of two tiles: the second gains from what the first copies */
#define COLLIDE_BYTES 2048 /* rows that are multiples of it apart have one place in a cache */
#define PARALLEL_WORK (1 << 19)
#define BESIDE_ROWS 8
#define BESIDE_BYTES (64 * 1024) /* of results that wait between blocks of a sum */
#define RUN_BYTES (8 * 1024)
#define STAY_BYTES (256 * 1024) /* a B of this size stays in cache from one row to the next */

/* Loops over axes around a statement; the outermost parallel when asked. */
static Stmt *wrap_outer(Sched *s, const Contraction *con, const Axis *axes, Var *const *vars,
                        uint32_t n, int64_t grain, Stmt *st) {
  for (uint32_t i = n; st && i-- > 0;) {
    st = loop_of(s->lc, con->st->span, vars[i], axes[i].extent, FOR_SERIAL, st);
    bool is_own = st && st->kind == STMT_FOR && st->loop.var == vars[i]; /* it had one iteration */
    if (i == 0 && grain && is_own) loop_set_parallel(s->lc, st, grain);
  }
  return st;
}

/* Adds blocks in the loops over the axes behind the first `from`. */
static void add_in_loops(Sched *s, const Contraction *con, const Axis *axes, Var *const *vars,
                         uint32_t from, uint32_t n, const StmtVec *blocks, StmtVec *out) {
  Stmt *st = wrap_outer(s, con, axes + from, vars + from, n - from, 0, seq_of(s->a, blocks));
  if (st) vec_push(s->tmp, out, st);
}

/* The columns that were decided on when constants were packed, else the contiguous ones. */
static Buffer *find_form(Sched *s, const Group *g, Contraction *con) {
  for (int swap = 1; swap >= 0; swap--) {
    if (!contraction_find(s, g, swap, con)) continue;
    Buffer *ready = map_getp(&s->lc->packed, factor_load(con->b)->buf);
    if (ready) return ready;
  }
  return NULL;
}

/* Whether what the group stores is contiguous along m and strided along n. */
static bool results_turned(Sched *s, const Emit *em, const Contraction *con) {
  int64_t m = 0, n = 1;
  if (!con->m.var) return false;
  for (uint32_t i = 0; i < em->g->n; i++) {
    const Stage *st = em->g->stages[i];
    const Temp *t = map_getp(&em->temps, st->out);
    if (!t->in_memory) continue;
    const Dim *off = flat_offset(s->lc, st->out, st->oidx);
    const Dim *dm = stride_of(s->lc, st, off, con->m.var);
    const Dim *dn = stride_of(s->lc, st, off, con->n.var);
    if (!dm || !dn || !dim_is_const(dm, &m) || m != 1 || (dim_is_const(dn, &n) && n == 1))
      return false;
  }
  return m == 1;
}

/* Whether the columns of B at one step of k are far from those at the next, of which n are wanted:
 * other pages, few lines of each. */
static bool lies_apart(Sched *s, const Contraction *con, int64_t n) {
  const Expr *load = factor_load(con->b);
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  const Dim *step = con->nk ? stride_of(s->lc, con->st, off, con->k[con->nk - 1].var) : NULL;
  int64_t k;
  return !step || !dim_is_const(step, &k) || k > 2 * n;
}

/* Whether B is the same in all blocks of rows that the group stands in. */
static bool is_common(const Sched *s, const Contraction *con) {
  const Expr *load = factor_load(con->b);
  if (!s->prologue || con->b_outer || map_hasp(&s->local, load->buf)) return false;
  for (uint32_t i = 0; i < load->n; i++)
    if (expr_uses_var(load->arg[i], s->block)) return false;
  return true;
}

/* B's panels, packed before the blocks of rows; once, though several kernels may use them. */
static Buffer *common_panels(const Kernel *kn) {
  Sched *s = kn->em->s;
  const Expr *load = factor_load(kn->con->b);
  Buffer *panels = map_getp(s->common, load);
  if (!panels) panels = pack_panels(kn->em, kn->con, kn->src.width, s->prologue);
  map_setp(s->common, load, panels);
  return panels;
}

/* Rows of C that are short of a vector: several of them, along another axis that A hasn't, make a
 * tile as wide as others (images of 14 x 14 and 7 x 7 elements). Only where each step of k reads
 * other columns: else n and that axis would be one. */
static void take_lines(Sched *s, const Emit *em, Contraction *con) {
  Context *c = s->c;
  int64_t n, m, size, best = 1;
  if (con->b_rows || con->a_columns || con->nk < 2 || !con->b_unit || !con->m.var ||
      !em->use_mask || !expr_const_int(c, con->n.extent, &n) || n > con->lanes ||
      n * 4 < con->lanes || (expr_const_int(c, con->m.extent, &m) && m < LINE_ROWS))
    return;
  const Expr *load = factor_load(con->a);
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  uint32_t at = con->nouter;
  for (uint32_t i = 0; i < con->nouter; i++) {
    if (dim_uses_var(off, con->outer[i].var) || !expr_const_int(c, con->outer[i].extent, &size) ||
        size <= best)
      continue;
    best = size;
    at = i;
  }
  if (at == con->nouter) return;
  con->lines = con->outer[at];
  con->nouter--;
  memmove(&con->outer[at], &con->outer[at + 1], (con->nouter - at) * sizeof con->outer[0]);
}

/* p->group: g reading what `before` pads without the padding, with em and con for it. False when
 * that has to stay. */
static bool without_padding(Sched *s, const Group *g, const Stage *before, Padding *p, Emit *em,
                            Contraction *con) {
  if (!sink_is_private(s, before, g->stages[0]) || !padding_open(s, g, before, p)) return false;
  emit_init(em, s, &p->group);
  if (find_form(s, &p->group, con)) return packed_order(s, con) && padding_of_rows(s, p, con);
  if (con->st && con->m.var && !con->b_rows) { /* A's, and B is read in place */
    take_lines(s, em, con);
    return con->b_outer && padding_of_rows(s, p, con);
  }
  if (!con->st) return false;
  if (padding_of_windows(em, p, con)) return true;
  emit_collapse(em);
  *con = (Contraction){0};
  return !find_form(s, &p->group, con) && con->st && padding_of_columns(em, p, con);
}

/* How a B with contiguous columns is best read by few rows. */
typedef enum {
  READ_PACKED, /* from panels, copied before: it isn't known how far its rows are apart, say */
  READ_PLACE,  /* where it is */
  READ_FILL,   /* the first tile of a panel copies it while it works, for those that follow: rows so
                  far apart that they push each other out of the first level of cache */
} Reading;

/* How far the rows of such a B are apart where few rows (m) of A may read it in place; else NULL.
 */
static const Dim *rows_apart(const Kernel *kn, int64_t m) {
  const Contraction *con = kn->con;
  Sched *s = kn->em->s;
  const Expr *load = factor_load(con->b);
  if (!con->b_unit || con->nk != 1 || con->b_rows || con->edges || con->windows || con->nrows ||
      con->nbounds || m > FEW_ROWS || s->prologue)
    return NULL;
  return stride_of(s->lc, con->st, flat_offset(s->lc, load->buf, load->arg), con->k[0].var);
}

static Reading best_reading(const Kernel *kn, int64_t m) {
  const Contraction *con = kn->con;
  const Expr *load = factor_load(con->b);
  const Dim *apart = rows_apart(kn, m);
  int64_t step = 0, n = 0;
  if (!apart || !dim_is_const(apart, &step)) return READ_PACKED;
  if (step * (int64_t)dtype_bytes(load->dtype) % COLLIDE_BYTES) return READ_PLACE;
  expr_const_int(kn->em->c, con->n.extent, &n);
  return m >= FILL_ROWS && n >= kn->src.width && dtype_eq(load->dtype, con->d) ? READ_FILL
                                                                               : READ_PACKED;
}

/* When B is read in place, as is found out question by question. */
typedef struct {
  int64_t below;    /* in any case with fewer rows than that */
  const Expr *when; /* or where this holds; NULL: never */
} InPlace;

/* Also with fewer than `below` of m rows (-1: unknown), where `sizes` holds. */
static void place_also(const Kernel *kn, int64_t m, InPlace *p, int64_t below, const Expr *sizes) {
  Context *c = kn->em->c;
  if (expr_is_int(sizes, 0) || m >= below) return;
  if (expr_is_int(sizes, 1)) {
    if (p->below < below) p->below = below;
    return;
  }
  const Expr *few = compare_to(c, EXPR_LT, kn->con->m.extent, below);
  if (m < 0 && below < INT64_MAX) sizes = expr_binary(c, EXPR_AND, few, sizes);
  p->when = p->when ? expr_binary(c, EXPR_OR, p->when, sizes) : sizes;
}

/* The same questions at run time: whether B is read in place. `m` rows, -1: unknown; NULL: all that
 * is asked is known. */
static const Expr *place_when(const Kernel *kn, int64_t m, bool sizes_known) {
  const Contraction *con = kn->con;
  Context *c = kn->em->c;
  if (m >= 0 && sizes_known) return NULL;
  int64_t elem = (int64_t)dtype_bytes(con->d);
  int64_t bytes = (int64_t)dtype_bytes(factor_load(con->b)->dtype);
  InPlace p = {0};
  place_also(kn, m, &p, PACK_ROWS, expr_bool(c, true));
  const Expr *size = expr_simplify(c, expr_mul(c, con->ktotal, con->n.extent));
  place_also(kn, m, &p, PACK_ROWS_NEAR, compare_to(c, EXPR_LE, size, NEAR_BYTES / elem));
  if (m < 0 || m >= PACK_ROWS_NEAR)
    place_also(kn, m, &p, INT64_MAX, compare_to(c, EXPR_LE, size, PACK_BYTES / elem));
  const Dim *apart = rows_apart(kn, m);
  if (apart) {
    const Expr *place = expr_mul(c, dim_expr(c, apart, DT_I64), i64(c, bytes));
    place = expr_simplify(c, expr_floormod(c, place, i64(c, COLLIDE_BYTES)));
    const Expr *good = compare_to(c, EXPR_NE, place, 0);
    if (m < 0) /* in place a sum isn't taken in blocks */
      good = expr_binary(c, EXPR_AND, good, compare_to(c, EXPR_LE, con->ktotal, K_BLOCK));
    place_also(kn, m, &p, FEW_ROWS + 1, good);
  }
  if (m >= 0) return p.when;
  const Expr *few = compare_to(c, EXPR_LT, con->m.extent, p.below);
  return p.when ? expr_binary(c, EXPR_OR, few, p.when) : few;
}

/* The outer axis whose rows of B are neighbours where the sum strides over all of them (the heads
 * of an attention, where keys lie one after the other): run inside of short blocks of the sum, it
 * has B come from memory as it lies there. Only few rows (m, -1: unknown) wait for that. -1: none.
 */
static int32_t axis_beside(const Kernel *kn, const Axis *outer, uint32_t n, int64_t m) {
  const Contraction *con = kn->con;
  Sched *s = kn->em->s;
  Context *c = s->c;
  const Expr *load = factor_load(con->b);
  int64_t elem = (int64_t)dtype_bytes(load->dtype), far, step, size, columns, k;
  if (m < 0 || m > BESIDE_ROWS || !con->a || con->nk != 1 || !con->b_unit || con->b_rows ||
      con->nrows || con->windows || con->edges || con->nbounds || con->lines.var || kn->turned ||
      s->prologue || !expr_const_int(c, con->n.extent, &columns))
    return -1;
  const Dim *off = flat_offset(s->lc, load->buf, load->arg);
  const Dim *d = stride_of(s->lc, con->st, off, con->k[0].var);
  if (!d || !dim_is_const(d, &far)) return -1;
  bool long_sum = !expr_const_int(c, con->ktotal, &k) || far > FAR_BYTES / elem / (k > 0 ? k : 1);
  for (uint32_t i = 0; i < n && long_sum; i++) {
    d = stride_of(s->lc, con->st, off, outer[i].var);
    if (d && dim_is_const(d, &step) && step >= columns &&
        expr_const_int(c, outer[i].extent, &size) && size > 1 && step <= far / size &&
        size * m * columns * elem <= BESIDE_BYTES)
      return (int32_t)i;
  }
  return -1;
}

/* Takes part of that axis, whose loop has variable v, out of the outer ones: the loop beside K's.
 * Its runs are as long as hardware wants them, what is left are tasks. */
static void take_beside(Kernel *kn, Axis *outer, const Var *v) {
  Context *c = kn->em->c;
  int64_t size = 1, columns = 1, run = 1;
  expr_const_int(c, outer->extent, &size);
  expr_const_int(c, kn->con->n.extent, &columns);
  int64_t row = columns * (int64_t)dtype_bytes(factor_load(kn->con->b)->dtype);
  while (run < size && (run * row < RUN_BYTES || size % run)) run++;
  kn->beside = (Axis){loop_var(c, v->name), i64(c, run)};
  outer->extent = i64(c, size / run);
  const Expr *at = expr_mul(c, v->expr, kn->beside.extent);
  emit_bind(kn->em, outer->var, expr_add(c, at, kn->beside.var->expr));
}

/* Loops for con with those windows. */
static Stmt *emit_form(Kernel *kn, Contraction *con, const Windows *w, bool parallel) {
  StmtVec out = {0};
  con->windows = w;
  windows_open(kn->em, con, &out);
  contraction_blocks(kn, false, parallel, &out);
  return seq_of(kn->em->a, &out);
}

/* Loops for con's windows. Where their rows have any number of columns, those of few vectors have
 * loops of their own. */
static Stmt *emit_windows(Kernel *kn, Contraction *con, bool parallel) {
  Emit *em = kn->em;
  const Windows *any = con->windows;
  const Expr *when[WINDOW_VECTORS];
  Stmt *forms[WINDOW_VECTORS], *all;
  uint32_t n = 0;
  bool always = false;
  for (uint32_t v = 1; v <= WINDOW_VECTORS && !any->is_sized && !always; v++) {
    Windows few;
    if (!windows_of_vectors(em, con, any, v, &few, &when[n])) continue;
    always = !when[n];
    forms[n++] = emit_form(kn, con, &few, parallel);
  }
  all = always ? forms[--n] : emit_form(kn, con, any, parallel);
  while (n-- > 0) all = stmt_if(em->a, con->st->span, when[n], forms[n], all);
  con->windows = any;
  return all;
}

bool contraction_emit(Sched *s, Group *g, const Stage *before, StmtVec *out) {
  Context *c = s->c;
  Emit em;
  Contraction con = {0};
  Padding padding;
  Group parts;
  for (uint32_t i = 0; i < g->n; i++)
    if (!vec_possible(g->stages[i]->value)) return false;
  if (unmerge_axes(s, g, &parts)) g = &parts;
  bool bare = before && without_padding(s, g, before, &padding, &em, &con);
  if (bare) {
    g = &padding.group;
  } else {
    con = (Contraction){0};
    bool packed = find_form(s, g, &con) != NULL;
    if (before && (packed || !con.st || columns_lie_apart(s, &con) || !sink_fits(s, before, &con)))
      return false;
    if (con.st && !before) operands_compact(s, g, &con, out);
    emit_init(&em, s, g);
    if (!before) {
      emit_collapse(&em);
      con = (Contraction){0};
      if (!find_form(s, g, &con) && con.st && !results_turned(s, &em, &con))
        take_lines(s, &em, &con);
    }
  }
  if (!con.st) return false;
  Buffer *ready = map_getp(&s->lc->packed, factor_load(con.b)->buf);
  if (ready && !bare && !packed_order(s, &con)) bug("a packed operand has other axes than before");
  int64_t m = 1, n = -1, k = -1;
  bool m_known = !con.m.var || expr_const_int(c, con.m.extent, &m);
  bool n_known = expr_const_int(c, contraction_columns(c, &con), &n),
       k_known = expr_const_int(c, con.ktotal, &k);
  int64_t elem = (int64_t)dtype_bytes(con.d);
  Kernel kn = {.em = &em, .con = &con};
  kn.src.width = s->lc->pc->target->panel_lanes * 32 / con.d.bits;
  bool sizes_known = n_known && k_known;
  int64_t stride;
  bool near = dim_is_const(con.b_stride, &stride) && stride > 0 && stride <= NEAR_STRIDE;
  bool must = !con.b_unit && !near; /* in place would gather from far */
  bool small_b = sizes_known && n * k * elem <= PACK_BYTES;
  int64_t few = sizes_known && n * k * elem <= NEAR_BYTES ? PACK_ROWS_NEAR : PACK_ROWS;
  bool common = is_common(s, &con);
  if (common) m_known = expr_const_int(c, s->rows, &m);
  bool pack = must || (!small_b && !(m_known && m < few) && !con.b_outer);
  if (common && !must) pack &= m_known && lies_apart(s, &con, n);
  if (con.windows || (pack && con.b_outer && con.nk > 1))
    pack = must = false; /* windows overlap: no copy of each */
  if (ready) {
    pack = must = false;
    kn.src.panels = flat_view(s->lc, ready);
  }
  if (!ready && !must && !small_b && m_known && sizes_known) {
    Reading reading = best_reading(&kn, m);
    kn.src.by_task = reading == READ_FILL;
    pack = pack && reading == READ_PACKED;
  }
  kn.turned = results_turned(s, &em, &con);
  kn.rows_inside = con.nrows && (con.a_columns || !(sizes_known && n * k * elem <= STAY_BYTES));
  Axis outer[MAX_AXES] = {0};
  Var *vars[MAX_AXES] = {0};
  uint32_t no = 0;
  for (uint32_t i = 0; i < con.nouter; i++) outer[no++] = con.outer[i];
  for (uint32_t i = 0; !kn.rows_inside && i < con.nrows; i++) outer[no++] = con.rows[i];
  for (uint32_t i = 0; i < no; i++) {
    vars[i] = loop_var(c, outer[i].var->name);
    emit_bind(&em, outer[i].var, vars[i]->expr);
  }
  int64_t work = 1;
  int64_t sizes[] = {m_known ? m : 64, n_known ? n : 64, k_known ? k : 64};
  for (int i = 0; i < 3; i++)
    if (work < (1 << 30)) work *= sizes[i];
  bool parallel = work >= PARALLEL_WORK || !m_known || !n_known || kn.rows_inside;
  bool outer_parallel = no && !pack && !s->nested;
  if (outer_parallel || s->nested) parallel = false;
  int32_t beside = pack || ready || before ? -1 : axis_beside(&kn, outer, no, m_known ? m : -1);
  if (beside >= 0) {
    int64_t run = 1;
    take_beside(&kn, &outer[beside], vars[beside]);
    if (expr_const_int(c, kn.beside.extent, &run) && work < (1 << 30)) work *= run;
  }
  StmtVec body = {0};
  bool sunk = before && !bare;
  if (sunk) sink_emit(&em, before, &con, &body);
  /* B has no axis of rows: its panels stand before the loops over those */
  uint32_t around = pack && !sunk ? con.nouter : no;
  if (pack) {
    StmtVec packed = {0}, blocks = {0}, place = {0};
    if (!common && n_known && n > 0 && n < kn.src.width) /* no lanes for nothing */
      kn.src.width = (uint32_t)((n + con.lanes - 1) / con.lanes) * con.lanes;
    kn.src.panels = common ? common_panels(&kn) : pack_panels(&em, &con, kn.src.width, &packed);
    const Expr *in_place = must || common ? NULL : place_when(&kn, m_known ? m : -1, sizes_known);
    kn.many_rows = in_place && !m_known;
    contraction_blocks(&kn, false, parallel, &blocks);
    add_in_loops(s, &con, outer, vars, around, no, &blocks, &packed);
    if (in_place) {
      kn.many_rows = false;
      kn.src.panels = NULL;
      blocks.n = 0;
      contraction_blocks(&kn, !m_known, parallel, &blocks);
      add_in_loops(s, &con, outer, vars, around, no, &blocks, &place);
      vec_push(s->tmp, &body,
               stmt_if(s->a, con.st->span, in_place, seq_of(s->a, &place), seq_of(s->a, &packed)));
    } else {
      for (uint32_t i = 0; i < packed.n; i++) vec_push(s->tmp, &body, packed.at[i]);
    }
  } else if (con.windows) {
    vec_push(s->tmp, &body, emit_windows(&kn, &con, parallel));
  } else {
    contraction_blocks(&kn, false, parallel, &body);
  }
  if (!body.n) return true;
  loop_remark(s->lc, con.st->span, "contraction in register tiles, %u lanes, %s%s%s", con.lanes,
              ready            ? "operand packed at compile time"
              : pack           ? "operand packed at run time"
              : kn.src.by_task ? "operand packed by the first tiles"
                               : "operand read in place",
              !bare                      ? ""
              : con.edges || con.windows ? ", padding masked"
                                         : ", padding left out",
              g->n > 1 ? ", epilogue in registers" : "");
  int64_t grain = outer_parallel ? PARALLEL_WORK / (work > 0 ? work : 1) + 1 : 0;
  Stmt *st = wrap_outer(s, &con, outer, vars, around, grain, seq_of(s->a, &body));
  if (st) vec_push(s->tmp, out, st);
  return true;
}
