/* Minimum cut. The things of label 0 stay with the source, those of label 1 with the sink, and what
 * is paid is the capacity between them (Greig, Porteous, Seheult: Exact maximum a posteriori
 * estimation for binary images, 1989). The flow is found by Dinic's method: shortest paths in
 * levels, all of one length before longer ones.
 */
#include "passes/graph/cut.h"

#include <string.h>

enum { SOURCE, SINK };

void cut_init(Cut *c, Arena *a) {
  *c = (Cut){.a = a};
  for (int i = 0; i < 2; i++) vec_push(a, &c->arcs, (CutArc){0}); /* arc 0 is none */
  cut_add(c);
  cut_add(c);
}

uint32_t cut_add(Cut *c) {
  vec_push(c->a, &c->first, 0);
  return c->first.n - 1;
}

void cut_pair(Cut *c, uint32_t x, uint32_t y, int64_t cost) {
  uint32_t ends[] = {x, y};
  for (int i = 0; i < 2; i++) {
    vec_push(c->a, &c->arcs, ((CutArc){ends[1 - i], c->first.at[ends[i]], i ? 0 : cost}));
    c->first.at[ends[i]] = c->arcs.n - 1;
  }
}

void cut_label(Cut *c, uint32_t x, bool label, int64_t cost) {
  if (label)
    cut_pair(c, SOURCE, x, cost);
  else
    cut_pair(c, x, SINK, cost);
}

/* Distances from the source along arcs that have something left; false: the sink isn't reached. */
static bool find_levels(Cut *c, uint32_t *queue) {
  for (uint32_t i = 0; i < c->first.n; i++) c->level[i] = -1;
  uint32_t n = 0;
  c->level[SOURCE] = 0;
  queue[n++] = SOURCE;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t a = c->first.at[queue[i]]; a; a = c->arcs.at[a].next) {
      const CutArc *arc = &c->arcs.at[a];
      if (arc->left <= 0 || c->level[arc->to] >= 0) continue;
      c->level[arc->to] = c->level[queue[i]] + 1;
      queue[n++] = arc->to;
    }
  return c->level[SINK] >= 0;
}

/* Takes what the path can carry; the index of its first arc that has nothing left. */
static uint32_t fill_path(Cut *c, const uint32_t *path, uint32_t n) {
  int64_t flow = CUT_NEVER;
  uint32_t full = 0;
  for (uint32_t i = 0; i < n; i++)
    if (c->arcs.at[path[i]].left < flow) flow = c->arcs.at[path[i]].left;
  for (uint32_t i = n; i-- > 0;) {
    c->arcs.at[path[i]].left -= flow;
    c->arcs.at[path[i] ^ 1].left += flow;
    if (!c->arcs.at[path[i]].left) full = i;
  }
  return full;
}

/* Fills all paths of the length that the levels tell. */
static void fill_level(Cut *c, uint32_t *at, uint32_t *path) {
  uint32_t n = 0, v = SOURCE;
  memcpy(at, c->first.at, c->first.n * sizeof *at);
  for (;;) {
    if (v == SINK) {
      n = fill_path(c, path, n);
      v = c->arcs.at[path[n] ^ 1].to;
      continue;
    }
    uint32_t a = at[v];
    for (; a; a = c->arcs.at[a].next)
      if (c->arcs.at[a].left > 0 && c->level[c->arcs.at[a].to] == c->level[v] + 1) break;
    at[v] = a;
    if (a) {
      path[n++] = a;
      v = c->arcs.at[a].to;
    } else if (v == SOURCE) {
      return;
    } else { /* no way from here */
      c->level[v] = -1;
      v = c->arcs.at[path[--n] ^ 1].to;
    }
  }
}

/* Levels below 0 for what can still reach the sink. Where both labels cost the same this gives 0.
 */
static void find_sink_side(Cut *c, uint32_t *queue) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->first.n; i++) c->level[i] = 0;
  c->level[SINK] = -1;
  queue[n++] = SINK;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t a = c->first.at[queue[i]]; a; a = c->arcs.at[a].next) {
      uint32_t from = c->arcs.at[a].to;
      if (c->arcs.at[a ^ 1].left <= 0 || c->level[from] < 0) continue;
      c->level[from] = -1;
      queue[n++] = from;
    }
}

void cut_solve(Cut *c) {
  uint32_t *at = ARENA_ARRAY(c->a, uint32_t, c->first.n);
  uint32_t *path = ARENA_ARRAY(c->a, uint32_t, c->first.n);
  c->level = ARENA_ARRAY(c->a, int32_t, c->first.n);
  while (find_levels(c, path)) fill_level(c, at, path);
  find_sink_side(c, path);
}

bool cut_is_set(const Cut *c, uint32_t x) {
  return c->level[x] < 0;
}
