/* The steps of a tile of windows: what the ways of making them share (windows.c), and rows in
 * parts. */
#ifndef RELAXC_PASSES_LOOP_WINDOWS_H
#define RELAXC_PASSES_LOOP_WINDOWS_H

#include "passes/loop/contraction.h"

#define MAX_STEPS 32 /* of k, which are code of their own for each row */
#define MAX_PARTS 40 /* vectors of a row by residues */

/* Where A's elements are read: before the tiles, in each, or in each of a tile's rows. */
typedef enum { FACTORS_BEFORE, FACTORS_BY_TILE, FACTORS_BY_ROW } FactorPlace;

typedef struct {
  Emit *em;
  const Contraction *con;
  const Windows *w;
  Buffer *acc;
  StmtVec *out;
  FactorPlace place;
  const Expr *pad; /* in all lanes */
  Buffer *b;       /* what windows are taken of */
} Walk;

void walk_open(Walk *k, Emit *em, const Contraction *con, Buffer *acc, StmtVec *out);
/* The same for the steps of a tile: what of A doesn't stay in registers gets its names here. */
void walk_begin(Walk *k, Emit *em, const Contraction *con, Buffer *acc, StmtVec *out);
const Expr *walk_name(Walk *k, const char *name, const Expr *e);
/* The offset in k->b at which the window of this row and column begins. */
const Expr *walk_start(Walk *k, const Expr *row, const Expr *col);
/* The step of the windows' rows by which row y reads row d of the tile's; -1: it doesn't. */
int64_t walk_step(const Walk *k, int64_t d, uint32_t y);
/* The last row that a tile of this height reads. */
int64_t walk_last(const Walk *k, uint32_t height);
/* What vector v of a tile takes of the row at hand at step j of its columns; NULL: padding that
 * changes nothing. */
typedef const Expr *(*ColumnFn)(void *ctx, int64_t j, uint32_t v);
/* Row d of those that the tile reads, into all results that read it. */
void walk_row(Walk *k, const WindowTile *tile, int64_t d, ColumnFn column, void *ctx);
/* Whether taking in padding changes nothing. */
bool walk_skips_pad(const Walk *k);
/* How many rows or columns are inside. */
const Expr *walk_size(Context *c, const Place *x);

/* ---- window_parts.c ---- */
/* A row in vectors from its begin on, which are loaded as they are asked for. */
typedef struct {
  Walk *k;
  const Expr *pad;                 /* a part of padding */
  bool skips;                      /* taking it in changes nothing */
  uint32_t vector;                 /* of the results' row: the tile's first */
  const Expr *begin;               /* in b, of the tile's first row */
  const Expr *start;               /* of the row at hand; NULL: it is padding */
  int64_t n;                       /* vectors of a row */
  const Expr *mask[2 * MAX_PARTS]; /* of each, NULL: it is whole */
  const Expr
      *parts[2][MAX_PARTS]; /* of it, or of its even columns and its odd ones; NULL: not yet */
} Parts;
void parts_open(Parts *p, Walk *k, const WindowTile *tile);
/* Goes to row d of those that the tile reads. */
void parts_row(Parts *p, int64_t d, bool exists);
/* The ColumnFn of a Parts. */
const Expr *parts_column(void *ctx, int64_t j, uint32_t v);

#endif
