/* Stages that run together, one row (one element, one column) at a time.
 *
 * A stage joins the group before it when it reads what the group made and both can share loops:
 * axes correspond where the reader indexes a temporary of the group by a plain axis in the place of
 * the writer's axis. Axes that correspond in all stages become the group's outer loops; the others
 * run inside, stage by stage. So softmax over rows is one loop over rows with four loops in it, and
 * an elementwise stage behind a reduction is its epilogue. A contraction takes an elementwise
 * epilogue only.
 */
#include "passes/loop/schedule.h"

#define MAX_STAGES 64
#define MAX_INNER 65536 /* elements of the inner loops when joining makes them grow */
#define TABLE_ROWS 8    /* a row of numbers that serves so many is made before them */

typedef struct {
  Sched *s;
  Group *g;
  const Stage *st;
  int32_t map[MAX_AXES]; /* axis of st -> outer loop, or -1 */
  bool drop[MAX_AXES];   /* outer loops that can't be shared */
  bool linked;
} Join;

/* Axis of `st` that stands for outer loop o, by way of the group's numbering: stages' axes are
 * renamed to the outer loops' variables on joining. */
static int32_t axis_by_var(const Stage *st, const Var *v) {
  for (uint32_t i = 0; i < st->naxes; i++)
    if (st->axes[i].var == v) return (int32_t)i;
  return -1;
}

static int32_t outer_by_var(const Group *g, const Var *v) {
  for (uint32_t i = 0; i < g->nouter; i++)
    if (g->outer[i].var == v) return (int32_t)i;
  return -1;
}

static void link_load(const Expr *load, void *ctx) {
  Join *j = ctx;
  Group *g = j->g;
  for (uint32_t k = 0; k < g->n; k++) {
    const Stage *p = g->stages[k];
    if (p->out != load->buf) continue;
    j->linked = true;
    bool seen[MAX_AXES] = {false};
    for (uint32_t d = 0; d < load->n; d++) {
      if (p->oaxis[d] < 0) continue;
      int32_t o = outer_by_var(g, p->axes[p->oaxis[d]].var);
      if (o < 0) continue;
      seen[o] = true;
      const Expr *x = load->arg[d];
      int32_t a = x->kind == EXPR_VAR ? axis_by_var(j->st, x->var) : -1;
      bool ok = a >= 0 && (uint32_t)a < j->st->nspatial &&
                expr_proved_eq(j->s->c, j->st->axes[a].extent, g->outer[o].extent);
      if (ok && j->map[a] >= 0 && j->map[a] != o) ok = false;
      for (uint32_t b = 0; ok && b < j->st->naxes; b++)
        if (j->map[b] == o && (int32_t)b != a) ok = false;
      if (ok)
        j->map[a] = o;
      else
        j->drop[o] = true;
    }
    /* an outer loop that the temporary's index doesn't show (written at a shifted place) */
    for (uint32_t o = 0; o < g->nouter; o++)
      if (!seen[o] && axis_by_var(p, g->outer[o].var) >= 0) j->drop[o] = true;
  }
}

/* Product of the extents of st's axes that are no shared outer loop, when it is small or one
 * symbolic axis. */
static bool inner_is_small(Sched *s, const Stage *st, const int32_t *map, const bool *drop) {
  int64_t n = 1;
  uint32_t symbolic = 0;
  for (uint32_t i = 0; i < st->naxes; i++) {
    if (map[i] >= 0 && !drop[map[i]]) continue;
    int64_t e;
    if (!expr_const_int(s->c, st->axes[i].extent, &e))
      symbolic++;
    else
      n *= e > 0 && n <= MAX_INNER ? e : 1;
  }
  return symbolic <= 1 && n <= MAX_INNER;
}

static void rename_axes(Sched *s, Stage *st, const Map *vars) {
  Context *c = s->c;
  st->value = subst_vars(c, vars, st->value);
  for (uint32_t i = 0; i < st->out->ndim; i++) st->oidx[i] = subst_vars(c, vars, st->oidx[i]);
  for (uint32_t i = 0; i < st->naxes; i++) {
    const Expr *e = map_getp(vars, st->axes[i].var);
    if (e) st->axes[i].var = e->var;
  }
}

/* Axes of extent 1 share nothing worth it and would block a match. */
static bool is_unit(const Axis *a) {
  return expr_is_int(a->extent, 1);
}

/* Finds the outer loops that st can share; false when it reads nothing of the group. Gives how many
 * of them stay, and whether some don't. */
static bool find_links(Join *j, uint32_t *kept, bool *shrinks) {
  for (uint32_t i = 0; i < MAX_AXES; i++) j->map[i] = -1;
  expr_loads(j->st->value, link_load, j);
  *kept = 0;
  *shrinks = false;
  for (uint32_t o = 0; o < j->g->nouter; o++) {
    bool has = false;
    for (uint32_t i = 0; i < j->st->naxes; i++) has |= j->map[i] == (int32_t)o;
    if (!has) j->drop[o] = true;
    if (j->drop[o])
      *shrinks = true;
    else
      ++*kept;
  }
  return j->linked;
}

/* Whether the group makes just a row that serves many rows of st: sharing the loop over columns
 * would put the rows inside of it, where neighbours in memory are far apart in time. */
static bool is_table(const Join *j) {
  const Stage *st = j->st;
  const Group *g = j->g;
  int32_t column = st->out->ndim ? st->oaxis[st->out->ndim - 1] : -1;
  if (column < 0 || j->map[column] < 0 || j->drop[j->map[column]]) return false;
  for (uint32_t k = 0; k < g->n; k++)
    if (g->stages[k]->red != RED_NONE) return false;
  int64_t rows = 1, e;
  for (uint32_t i = 0; i < (uint32_t)column && rows < TABLE_ROWS; i++)
    if (j->map[i] < 0 || j->drop[j->map[i]])
      rows = expr_const_int(j->s->c, st->axes[i].extent, &e) ? rows * e : TABLE_ROWS;
  return rows >= TABLE_ROWS;
}

/* Makes st a member, with the names of the loops that it shares. */
static void join(Join *j, Stage *st) {
  Sched *s = j->s;
  Group *g = j->g;
  Map vars;
  map_init(&vars, s->tmp);
  for (uint32_t i = 0; i < st->naxes; i++)
    if (j->map[i] >= 0 && !j->drop[j->map[i]])
      map_setp(&vars, st->axes[i].var, (void *)g->outer[j->map[i]].var->expr);
  rename_axes(s, st, &vars);
  uint32_t w = 0;
  for (uint32_t o = 0; o < g->nouter; o++)
    if (!j->drop[o]) g->outer[w++] = g->outer[o];
  g->nouter = w;
  g->stages[g->n++] = st;
}

static bool try_join(Sched *s, Group *g, Stage *st) {
  if (g->n == MAX_STAGES || st->alone || stage_is_contraction(s, st) || stage_is_window(s, st))
    return false;
  Join j = {.s = s, .g = g, .st = st};
  uint32_t kept;
  bool shrinks;
  if (!find_links(&j, &kept, &shrinks) || is_table(&j)) return false;
  if (g->contraction) {
    if (shrinks || st->red != RED_NONE) return false;
    for (uint32_t i = 0; i < st->naxes; i++)
      if (j.map[i] < 0 && !is_unit(&st->axes[i])) return false;
  }
  if (!kept && g->nouter) return false;
  if (!kept) { /* all scalars: nothing to share, but an epilogue of scalars may follow */
    for (uint32_t i = 0; i < st->naxes; i++)
      if (!is_unit(&st->axes[i])) return false;
  }
  if (shrinks) {
    for (uint32_t k = 0; k < g->n; k++) {
      int32_t map[MAX_AXES];
      for (uint32_t i = 0; i < g->stages[k]->naxes; i++)
        map[i] = outer_by_var(g, g->stages[k]->axes[i].var);
      if (!inner_is_small(s, g->stages[k], map, j.drop)) return false;
    }
    if (!inner_is_small(s, st, j.map, j.drop)) return false;
  }
  join(&j, st);
  return true;
}

bool group_link(Sched *s, Group *g, Stage *st) {
  Join j = {.s = s, .g = g, .st = st};
  uint32_t kept;
  bool shrinks;
  if (g->n == MAX_STAGES || !find_links(&j, &kept, &shrinks) || !kept) return false;
  join(&j, st);
  return true;
}

uint32_t group_form(Sched *s, uint32_t i, Group *g) {
  *g = (Group){0};
  g->stages = ARENA_ARRAY(s->tmp, Stage *, MAX_STAGES);
  Stage *st = s->items.at[i].stage;
  g->stages[g->n++] = st;
  g->contraction = stage_is_contraction(s, st) || stage_is_window(s, st);
  for (uint32_t k = 0; k < st->nspatial; k++)
    if (!is_unit(&st->axes[k])) g->outer[g->nouter++] = st->axes[k];
  uint32_t n = 1;
  if (!s->simple || st->alone) return n;
  while (i + n < s->items.n && s->items.at[i + n].stage && try_join(s, g, s->items.at[i + n].stage))
    n++;
  return n;
}

bool group_varies(const Group *g, const Expr *e) {
  for (uint32_t i = 0; i < g->n; i++)
    for (uint32_t a = 0; a < g->stages[i]->naxes; a++)
      if (expr_uses_var(e, g->stages[i]->axes[a].var)) return true;
  return false;
}
