/* A contraction recognised from its index maps, and the shape of its kernel. */
#ifndef RELAXC_PASSES_LOOP_CONTRACTION_H
#define RELAXC_PASSES_LOOP_CONTRACTION_H

#include "passes/loop/emit.h"

#define MAX_BOUNDS 4

/* Terms exist only where lo <= row_step * row + k_step * k < hi; the others are zero. */
typedef struct {
  Var *row;   /* an axis of the rows */
  bool tiled; /* it is m */
  uint32_t k; /* the axis of k, by its number */
  int64_t row_step, k_step, lo, hi;
  const Dim *end; /* in place of hi where that is symbolic, and the row isn't m; or NULL */
  bool at_end; /* the row is m, which has a symbolic extent: hi counts from row_step times that */
} Bound;

/* Where columns that are several axes in one lie inside of padding. */
typedef struct {
  int64_t extent[MAX_AXES]; /* of the axes, the innermost first */
  uint32_t naxes, n;
  struct {
    int64_t lo, hi; /* lo <= the sum of axes and k, each times its step, < hi */
    int64_t axis[MAX_AXES], k[MAX_AXES];
  } in[MAX_BOUNDS];
} Edges;

/* Where a row or column of a window lies: inside of the padding while
 * lo <= step * number + k_step * k + rest < hi. */
typedef struct {
  uint32_t k;    /* the axis of k by its number, con->nk: none */
  int64_t steps; /* of it */
  int64_t step;  /* from one row or column to the next: columns are 1 or 2 apart */
  int64_t k_step, rest;
  const Dim *lo, *hi;
} Place;

/* Windows of rows and columns whose padding is nowhere (windows.c, window_parts.c, borders.c). */
typedef struct {
  uint32_t height, nv; /* of a tile, at most */
  Place row, col;
  const Expr *pitch; /* from row to row of what they read */
  const Expr **a;    /* A's elements in all lanes, for each step of rows and columns; or NULL */
  bool is_sized;     /* all of it is known, and a row is few vectors */
  /* then: what is there, counted from the first row and column inside */
  int64_t first_row, rows, first_col, cols;
  /* else: how many vectors a row of results has, and all but the last are whole; 0: any number.
   * What such a row reads is as many for each step from column to column. */
  uint32_t vectors;
} Windows;

/* C[batch, m, n] += A[batch, m, k] * B[batch, k, n]; any number of axes of each kind. B is the
 * operand that has the axis along which C is contiguous. Without A: C op= B, a window that moves
 * over B. */
typedef struct {
  const Stage *st;
  const Expr *a, *b;    /* the factors: loads, perhaps cast; a: NULL in a window */
  DType d;              /* of the accumulators */
  uint32_t lanes;       /* of a vector of them */
  Axis outer[MAX_AXES]; /* batch axes and n axes that aren't tiled */
  uint32_t nouter;
  Axis rows[MAX_AXES]; /* m axes that aren't tiled: B doesn't have them */
  uint32_t nrows;
  bool b_outer;   /* B has axes among the outer ones */
  Axis m, n;      /* tiled axes; m.var NULL: a single row */
  bool b_rows;    /* the rows of a tile are B's: A has no axis of its own (depthwise convolution) */
  bool a_columns; /* A has the columns, too: a vector for each row (channels in lanes) */
  Axis k[MAX_AXES];
  uint32_t nk;
  const Expr *ktotal;          /* product of the k extents */
  const Expr *n_seen, *k_seen; /* of n, and of k if that is one axis, what is needed; or NULL */
  Axis lines;          /* var != NULL: n is a vector at most, and vectors are this axis of B and C:
                          column y * lanes + x is at lines = y, n = x */
  const Dim *b_stride; /* of n in B */
  bool b_unit;         /* it is 1 */
  Bound bounds[MAX_BOUNDS];
  uint32_t nbounds;
  const Expr *pad;        /* what B is where it isn't, once it has lost its padding */
  const Edges *edges;     /* of B, or NULL: it is whole */
  const Windows *windows; /* of B, or NULL */
} Contraction;

/* Where a kernel reads B from. */
typedef struct {
  Buffer *panels; /* packed: [panel][k][panel_lanes], else NULL: in place */
  uint32_t width; /* panel_lanes in elements */
  bool by_task; /* panels: one of a task's own, [k][the tiles' width], that its first tile fills */
} PanelSource;

/* Rows [start, start + count * height) in tiles of `height`, the first `least` of which exist in
 * any case, others where they are below m's extent. */
typedef struct {
  const Expr *start, *count;
  uint32_t height, least;
  bool border;   /* a single tile, some of whose rows lack terms; elsewhere all have all */
  uint32_t head; /* where only the run tells how many rows there are: so many of that tile's are the
                    first of all, the others the last */
} RowSegment;

/* All rows of a kernel: the blocks of `main`, and in the last of them what is left. */
#define MAX_REST 12
typedef struct {
  RowSegment main;
  RowSegment rest[MAX_REST];
  uint32_t nrest;
  const Expr *left; /* NULL: all of it; else rows, known when it runs: of the rests (tallest first)
                       the lowest that holds them */
} RowPlan;

/* ---- contraction_find.c ---- */
#define K_BLOCK 1024  /* up to here a sum is taken in one go, longer ones in blocks */
#define NEAR_STRIDE 4 /* columns no farther apart are read in place */
/* The load of a factor, which may be cast; NULL when it is something else. */
const Expr *factor_load(const Expr *e);
/* swap: the columns are an axis of the other operand, along which C is strided (a convolution of
 * NCHW with its output channels in lanes). */
bool contraction_find(Sched *s, const Group *g, bool swap, Contraction *con);

/* How many columns are tiled. */
static inline const Expr *contraction_columns(Context *c, const Contraction *con) {
  if (!con->lines.var) return con->n.extent;
  return expr_simplify(c, expr_mul(c, con->lines.extent, i64(c, con->lanes)));
}

/* ---- compact.c ---- */
/* Copies the rows of A together where that makes one axis of them, or the columns of B where that
 * fills more lanes, and has the group read the copy. `con`: as found before axes were collapsed. */
bool columns_lie_apart(Sched *s, const Contraction *con); /* so B's would be copied */
void operands_compact(Sched *s, Group *g, const Contraction *con, StmtVec *out);

/* ---- padding.c ---- */
typedef struct {
  const Dim *at;      /* an index of what is padded: inside of the padding where lo <= at < hi */
  const Dim *lo, *hi; /* NULL: no bound */
} Inside;
typedef struct {
  Group group; /* copies of the stages: the first reads what is padded in place of the copy */
  Axis outer[MAX_AXES]; /* as they were before axes are merged */
  uint32_t nouter;
  Inside inside[MAX_AXES];
  uint32_t n;
  const Expr *value; /* of the padding */
} Padding;
/* Whether `before` copies something with zeros around, for the first stage of g. */
bool padding_open(Sched *s, const Group *g, const Stage *before, Padding *p);
/* Gives con, found in p->group, its bounds: A is padded. False when the loops can't leave that out.
 */
bool padding_of_rows(Sched *s, const Padding *p, Contraction *con);
/* Gives con, found after axes were merged, its edges: B is padded. False when masks don't serve. */
bool padding_of_columns(Emit *em, const Padding *p, Contraction *con);
/* Whether it takes fewer vectors to have rows of so many columns as one axis, in one tile. */
bool columns_fit(const Variant *v, int64_t lanes, int64_t rows, int64_t columns);
/* Whether a factor of con holds no infinity and no NaN for certain: times zero it is zero. */
bool factor_is_finite(const LoopCtx *lc, const Contraction *con, const Expr *factor);
/* The same for windows over rows and columns. */
bool padding_of_windows(Emit *em, const Padding *p, Contraction *con);
/* Whether B has an element inside of the padding at that column and k. */
bool edges_hold(const Edges *e, int64_t column, const int64_t *k, uint32_t nk);
/* The bound on axis k of the reduction, or NULL. */
const Bound *bound_of(const Contraction *con, uint32_t k);
/* Narrows [*from, *to) to the rows that have a term at step k. */
void bound_rows(const Bound *b, int64_t k, int64_t *from, int64_t *to);
/* The same in a tile of `rows` rows, which are the first `head` of all and the last ones. */
void bound_ends(const Bound *b, int64_t k, uint32_t head, uint32_t rows, int64_t *from,
                int64_t *to);
/* How many rows at either end lack terms, where only the run tells how many there are. */
void border_ends(Context *c, const Contraction *con, uint32_t *head, uint32_t *tail);
/* The steps of k that `row` of `rows` has, of `extent`. */
void bound_steps(Context *c, const Bound *b, const Expr *row, const Expr *rows, const Expr *extent,
                 const Expr **first, const Expr **count);

/* No bound is known of it. */
bool inside_is_all(const Inside *in);
/* con->pad, from the padding's value. */
void padding_take_value(Context *c, const Padding *p, Contraction *con);
/* Whether e is the literal 0 (not -0.0). */
bool is_zero(const Expr *e);

/* ---- windows.c, window_parts.c, borders.c ---- */
#define WINDOW_VECTORS 2 /* so many a row at most for loops of their own (windows_of_vectors) */
typedef struct {
  const Expr *row, *col;
  int64_t first;                    /* its number, of a tile at the border; else -1 */
  uint32_t height, nv;              /* in rows and vectors */
  uint32_t vector;                  /* the first one of the row */
  bool rows_inside, columns_inside; /* all that it reads exist */
  bool guard;                       /* not all of its rows exist */
} WindowTile;
/* The steps of a tile: of windows whose place is known, or is asked for at run time. */
Stmt *windows_steps(Emit *em, const Contraction *con, Buffer *acc, const WindowTile *t);
Stmt *borders_steps(Emit *em, const Contraction *con, Buffer *acc, const WindowTile *t);
/* Names A's elements before the loops over tiles, if they can stay in registers. */
void windows_open(Emit *em, const Contraction *con, StmtVec *out);
/* Of con's windows `any`, not all sizes of which are known, those whose rows are so many vectors,
 * and when that is so (NULL: always). False when it never is, or nothing is gained. */
bool windows_of_vectors(Emit *em, const Contraction *con, const Windows *any, uint32_t vectors,
                        Windows *w, const Expr **when);
/* Whether all rows exist that a tile of `height` rows from `row` on reads. */
const Expr *borders_rows(Emit *em, const Contraction *con, const Expr *row, uint32_t height);
/* The tiles along a row, `count` from `first` on, that have all their columns and read no other
 * than those that exist; names them. */
void borders_columns(Emit *em, const Contraction *con, const Expr **first, const Expr **count,
                     StmtVec *out);

/* ---- dots.c ---- */
/* Whether dot products serve con best, which has many rows and few columns. */
bool dots_suit_columns(Sched *s, const Contraction *con);

/* ---- sink.c ---- */
/* Whether only con's stage reads what `before` computes, so that it may move there. */
bool sink_is_private(Sched *s, const Stage *before, const Stage *reader);
/* Whether only con reads what `before` computes, and a slice of it at a time. */
bool sink_fits(Sched *s, const Stage *before, const Contraction *con);
/* Computes the slice that the outer loops (bound already) need, and has con read that. */
void sink_emit(Emit *em, const Stage *before, Contraction *con, StmtVec *out);

/* ---- gemm.c ---- */
typedef struct {
  Emit *em;
  const Contraction *con;
  PanelSource src;
  Var *kb;                     /* K block loop, or NULL */
  const Expr *k_begin, *k_end; /* range of the single k axis (kb != NULL) */
  const Expr *k_block;         /* its length, but for the last one's */
  const Expr *last_kb;         /* condition: this is the last K block */
  Axis beside;                 /* var != NULL: a loop inside of that over short K blocks */
  bool rows_inside;            /* the loops over con->rows stand inside a panel's */
  bool by_row;                 /* tiles are rows, whose bounds are found out when it runs */
  bool many_rows;              /* m is known to be at least PACK_ROWS here */
  bool turned;                 /* results are contiguous along m, not along n */
} Kernel;
/* Loops over tiles that cover the plan's rows and all columns, with `nv` vectors a tile. */
void gemm_rows(Kernel *kn, const RowPlan *plan, uint32_t nv, bool parallel, StmtVec *out);

/* ---- contraction_rows.c ---- */
/* All of it from one source of B. whole: the sum is taken in one go, however long it is. */
void contraction_blocks(Kernel *kn, bool whole, bool parallel, StmtVec *out);

/* ---- pack_const.c ---- */
/* Puts con's steps into the order that its operand was packed in at compile time, where the other
 * operand may have lain otherwise. False when con has other axes than were packed. */
bool packed_order(Sched *s, Contraction *con);

/* ---- pack.c ---- */
/* Copies B into panels at run time: allocates the buffer and emits the loops. */
Buffer *pack_panels(Emit *em, const Contraction *con, uint32_t width, StmtVec *out);

#endif
