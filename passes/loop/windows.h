/* The steps of a tile of windows: what both ways of making them share (windows.c, borders.c). */
#ifndef RELAXC_PASSES_LOOP_WINDOWS_H
#define RELAXC_PASSES_LOOP_WINDOWS_H

#include "passes/loop/contraction.h"

#define MAX_STEPS 32 /* of k, which are code of their own for each row */

typedef struct {
  Emit *em;
  const Contraction *con;
  const Windows *w;
  Buffer *acc;
  StmtVec *out;
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
/* Row y takes in those of the nv vectors `columns` that are there, at step (i, j). */
void walk_take(Walk *k, uint32_t nv, uint32_t y, int64_t i, int64_t j, const Expr *const *columns);
/* Whether taking in padding changes nothing. */
bool walk_skips_pad(const Walk *k);

#endif
