/* What the makers of a register tile share (tile.c, prefetch.c, epilogue.c; gemm.c puts loops
 * around tiles). */
#ifndef RELAXC_PASSES_LOOP_TILE_H
#define RELAXC_PASSES_LOOP_TILE_H

#include "passes/loop/contraction.h"

typedef struct {
  Kernel *kn;
  const Expr *row; /* first row */
  const Expr *col; /* first column */
  uint32_t height, nv;
  uint32_t vector;     /* the first one of windows, of their row */
  uint32_t align;      /* col is a multiple of it */
  uint32_t from, to;   /* rows that have a term in the steps of k being emitted */
  int64_t k[MAX_AXES]; /* steps of the axes of k, where columns have edges */
  int64_t first;       /* the first row's number, of a tile at the border; else -1 */
  const Expr *k_first[MAX_BOUNDS], *k_count[MAX_BOUNDS]; /* steps where a row around bounds them */
  bool ends; /* its first `head` rows are the first of all, the others the last */
  uint32_t head;
  bool fills;     /* reads B in place and copies what it reads into the panel of the task */
  uint32_t least; /* so many rows exist in any case */
  bool rows_inside, columns_inside; /* of windows: all that they read exist */
  bool masked;                      /* columns at or after n's extent are off */
  uint32_t full;                    /* vectors below this index are whole even if masked */
  const Expr *number;               /* of the tile among those of its panel, or NULL: just one */
  const Expr *tiles;                /* of a panel, about */
  uint32_t phases;                  /* sets of sums: step k of four adds to set k mod phases */
  const Expr *phase;                /* the set of the step being emitted, or NULL: the first */
  Buffer *acc, *va, *vb;            /* acc: [phase * height + row][vector] */
  Buffer *sums;                     /* what the epilogue reads: acc, or its copy in memory */
  bool rolled;                      /* loops over rows and vectors stay loops */
} Tile;

static inline const Expr *simp_add(Context *c, const Expr *a, const Expr *b) {
  return expr_simplify(c, expr_add(c, a, b));
}

static inline bool is_guarded(const Tile *t) {
  return t->least < t->height;
}

static inline const Expr *simp_sub(Context *c, const Expr *a, const Expr *b) {
  return expr_simplify(c, expr_sub(c, a, b));
}

/* Makes a statement for vector j of the tile; whole: none of its columns is off. */
typedef Stmt *(*VectorFn)(Tile *t, const Expr *j, bool whole, void *ctx);
/* What it finds in ctx when it is called for a row. */
typedef struct {
  const Expr *i; /* row */
  const Expr *a; /* its place in va; NULL: A is read in place, m is bound to the row */
} RowCtx;

/* ---- tile.c ---- */
/* The whole tile: its accumulators, its loops over k, its results. */
Stmt *emit_tile(Tile *t);
Buffer *local_vectors(Emit *em, const char *name, DType d, uint32_t n0, uint32_t n1, StmtVec *out);
/* The lanes of vector j (an expression) of the tile. */
Lanes tile_lanes(const Tile *t, const Expr *j, bool whole);
/* A statement per vector of the tile: a loop where all are alike, else one by one. */
Stmt *each_vector(Tile *t, VectorFn fn, void *ctx);
/* fn for all rows and vectors; rows that don't exist are skipped when `skip`. */
Stmt *each_row(Tile *t, VectorFn fn, bool skip);

/* ---- prefetch.c ---- */
/* Brings in the line that `load` reads. */
Stmt *prefetch_load(const Tile *t, const Expr *load);
/* Brings in what the tiles of the next columns will read, in each of `steps` steps of this one's k
 * loop. Nothing where that isn't worth it. */
void prefetch_next(Tile *t, const Expr *step, const Expr *steps, StmtVec *out);

/* ---- epilogue.c ---- */
/* What the accumulators hold when the tile begins. */
Stmt *sums_begin(Tile *t);
/* From the sums to what the group stores. Between blocks of K the sums so far are in memory: they
 * are added when the tile's own are complete. */
Stmt *sums_end(Tile *t);

#endif
