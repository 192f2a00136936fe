/* Offsets of tensors in one storage.
 *
 * Placing the largest first, each at the lowest offset where nothing alive at the same time stands,
 * comes within some percent of the most that is alive at once. Where it doesn't reach that, the
 * tensor that ends highest goes first in the next try (it had to take what was left), and the best
 * try counts. (Greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net
 * Inference, 2020.)
 *
 * Sizes may be symbolic. The tries are made with likely values, and only say which of two tensors
 * is below the other; of several likely cases the one counts whose order does best in all of them.
 * Then a tensor begins where the highest of those below it ends, whatever the values: those that
 * share no time with it don't count, nor those below something that does.
 */
#include "passes/memory/layout.h"

#include "ir/facts.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TRIES 16
#define MAX_WORK (1 << 25) /* tries x pairs of tensors */

/* A tensor at its offset in a likely case. */
typedef struct {
  int64_t offset;
  uint32_t index;
} Likely;

static bool meet(const Place *p, const Place *q) {
  return p->begin <= q->end && q->begin <= p->end;
}

/* Places all in this order, in likely case lc; `placed` gets them by offset. Returns the bytes
 * needed, and the place in `order` of the tensor that ends highest. */
static int64_t try_order(const Place *at, const uint32_t *order, uint32_t n, uint32_t lc,
                         Likely *placed, uint32_t *highest) {
  int64_t most = -1;
  for (uint32_t i = 0; i < n; i++) {
    const Place *p = &at[order[i]];
    int64_t offset = 0;
    for (uint32_t k = 0; k < i; k++) {
      const Place *q = &at[placed[k].index];
      if (!meet(p, q)) continue;
      if (offset + p->likely[lc] <= placed[k].offset) break;
      if (placed[k].offset + q->likely[lc] > offset) offset = placed[k].offset + q->likely[lc];
    }
    uint32_t to = i;
    while (to > 0 && placed[to - 1].offset > offset) to--;
    memmove(&placed[to + 1], &placed[to], (i - to) * sizeof *placed);
    placed[to] = (Likely){offset, order[i]};
    if (offset + p->likely[lc] > most) {
      most = offset + p->likely[lc];
      *highest = i;
    }
  }
  return most;
}

typedef struct {
  int64_t bytes;
  uint32_t index;
} Size;

static int larger_first(const void *x, const void *y) {
  const Size *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}

/* The most that is alive at once: a life begins there. */
static int64_t most_alive(const Place *at, uint32_t n, uint32_t lc) {
  int64_t most = 0;
  for (uint32_t i = 0; i < n; i++) {
    int64_t sum = 0;
    for (uint32_t k = 0; k < n; k++)
      if (at[k].begin <= at[i].begin && at[i].begin <= at[k].end) sum += at[k].likely[lc];
    if (sum > most) most = sum;
  }
  return most;
}

/* The best try's tensors by their likely offsets. */
static const Likely *find_order(Arena *a, const Place *at, uint32_t n, uint32_t lc, int64_t least) {
  uint32_t *order = ARENA_ARRAY(a, uint32_t, n), highest = 0;
  Likely *best = ARENA_ARRAY(a, Likely, n), *placed = ARENA_ARRAY(a, Likely, n);
  Size *sizes = ARENA_ARRAY(a, Size, n);
  for (uint32_t i = 0; i < n; i++) sizes[i] = (Size){at[i].likely[lc], i};
  qsort(sizes, n, sizeof *sizes, larger_first);
  for (uint32_t i = 0; i < n; i++) order[i] = sizes[i].index;
  int64_t found = INT64_MAX, tries = MAX_WORK / ((int64_t)n * n + 1);
  if (tries > MAX_TRIES) tries = MAX_TRIES;
  do {
    int64_t bytes = try_order(at, order, n, lc, placed, &highest);
    if (bytes < found) {
      found = bytes;
      Likely *other = best;
      best = placed;
      placed = other;
    }
    uint32_t first = order[highest];
    memmove(&order[1], &order[0], highest * sizeof *order);
    order[0] = first;
  } while (found > least && --tries > 0);
  return best;
}

/* Bytes that this order needs in case lc. */
static int64_t bytes_in_case(const Place *at, const Likely *sorted, uint32_t n, uint32_t lc,
                             int64_t *offset) {
  int64_t total = 0;
  for (uint32_t i = 0; i < n; i++) {
    const Place *p = &at[sorted[i].index];
    offset[i] = 0;
    for (uint32_t k = 0; k < i; k++) {
      const Place *q = &at[sorted[k].index];
      if (meet(p, q) && offset[k] + q->likely[lc] > offset[i])
        offset[i] = offset[k] + q->likely[lc];
    }
    if (offset[i] + p->likely[lc] > total) total = offset[i] + p->likely[lc];
  }
  return total;
}

/* The order whose worst case, compared with the least possible, is best. */
static const Likely *choose_order(Arena *a, const Place *at, uint32_t n, uint32_t cases,
                                  int64_t *least) {
  const Likely *best = NULL;
  int64_t *offset = ARENA_ARRAY(a, int64_t, n);
  double best_worst = 0;
  for (uint32_t i = 0; i < cases; i++) least[i] = most_alive(at, n, i);
  for (uint32_t i = 0; i < cases; i++) {
    const Likely *order = find_order(a, at, n, i, least[i]);
    double worst = 0;
    for (uint32_t k = 0; k < cases && cases > 1; k++) {
      double much = (double)bytes_in_case(at, order, n, k, offset) / (double)(least[k] + 1);
      if (much > worst) worst = much;
    }
    if (best && worst >= best_worst) continue;
    best = order;
    best_worst = worst;
  }
  return best;
}

static const Dim *higher(Context *c, const Dim *x, const Dim *y) {
  if (prove_le(c, NULL, x, y) == PROOF_YES) return y;
  if (prove_le(c, NULL, y, x) == PROOF_YES) return x;
  return dim_max(c, x, y);
}

const Dim *layout_places(Context *c, Arena *a, Place *at, uint32_t n, uint32_t cases,
                         int64_t *least) {
  const Dim *total = dim_const(c, 0);
  int64_t alive[LIKELY] = {0};
  const Likely *sorted = choose_order(a, at, n, cases, alive);
  *least = alive[0];
  const Place **below = ARENA_ARRAY(a, const Place *, n);
  for (uint32_t i = 0; i < n; i++) {
    Place *p = &at[sorted[i].index];
    uint32_t nbelow = 0;
    p->offset = dim_const(c, 0);
    for (uint32_t k = i; k-- > 0;) {
      const Place *q = &at[sorted[k].index];
      bool counts = meet(p, q);
      for (uint32_t j = 0; counts && j < nbelow; j++) counts = !meet(q, below[j]);
      if (!counts) continue;
      below[nbelow++] = q;
      p->offset = higher(c, p->offset, dim_add(c, q->offset, q->bytes));
    }
    total = higher(c, total, dim_add(c, p->offset, p->bytes));
  }
  return total;
}
