/* Which results may be written over which operands.
 *
 * Of a function's final loops: a result may share memory with an operand when no element is
 * stored before the operand's element at the same place is loaded for the last time. For each
 * store to the one and load from the other:
 *
 * - Both places are sums over the loops around, c * v, and over the lanes of a vector. If they are
 *   the same place, then both accesses stand in the same iteration of the loops that they share.
 *   This is proved loop by loop, from the largest factor down, like digits of a number: where all
 *   that is left is smaller than the factor, places can't be equal unless the digits are. A loop's
 *   variable may come in parts (v // 8, v % 8), which count one by one.
 * - Within one iteration the load comes first in the text, or the places differ.
 *
 * As only accesses of the same iteration meet, it doesn't matter whether iterations run in order,
 * on several threads, or in vectors. What isn't understood proves nothing.
 */
#include "ir/facts.h"
#include "passes/loop/schedule.h"

#define MAX_LOOPS 24
#define MAX_DIGITS 48
#define MAX_PAIRS 4096 /* of accesses; more would take long */

typedef struct {
  const Stmt *loop;
  uint32_t id; /* of the visit: a shared statement has several */
} Around;

/* A branch that an access stands in. */
typedef struct Side {
  const struct Side *outer;
  uint32_t id, naround; /* of the visit of the `if`; loops around it */
  bool otherwise;
} Side;

/* coef * (v // lo % (hi / lo)) of the variable of loop `id`; hi 0: without the remainder. It runs
 * from 0 to most. */
typedef struct {
  uint32_t id;
  int64_t lo, hi;
  const Dim *coef, *most;
  bool masked; /* part of what the mask bounds */
} Digit;

/* A load or store: of element rest + digits + one of the lanes. What a mask bounds, the marked
 * digits and the lanes together, is between 0 and `bound`; beside it stands bound_rest. */
typedef struct {
  bool known;
  const Var *data;
  uint32_t bytes; /* of an element */
  uint32_t order; /* in the text; those of one statement are alike, its store comes last */
  Around around[MAX_LOOPS];
  uint32_t naround;
  const Side *side; /* the innermost one, or NULL */
  Digit digits[MAX_DIGITS];
  uint32_t ndigits;
  const Dim *rest, *lanes;       /* lanes: the last one's distance */
  const Dim *bound, *bound_rest; /* or NULL */
} Access;

typedef struct {
  Context *c;
  Arena *tmp;
  Map fixed; /* Var* of the function's dims: the same all the time */
  Map lets;  /* Var* -> Expr* */
  Around around[MAX_LOOPS];
  uint32_t naround, nvisits, order;
  const Side *side;
  bool lost; /* something hides accesses */
  VEC(Access *) loads, stores;
} Scan;

/* ---- accesses ---- */

static bool is_fixed(Scan *s, const Dim *d) {
  VarVec used = {0};
  if (!d->n) return true;
  const Expr *e = dim_expr(s->c, d, DT_I64);
  if (expr_has_load(e)) return false;
  expr_vars(s->tmp, e, &used);
  for (uint32_t i = 0; i < used.n; i++)
    if (!map_hasp(&s->fixed, used.at[i])) return false;
  return true;
}

/* d or something larger that is the same all the time; NULL: nothing is known. */
static const Dim *upper_bound(Scan *s, const Dim *d) {
  if (is_fixed(s, d)) return d;
  if (d->n != 1 || d->terms[0].coef != 1 || d->terms[0].n != 1) return NULL;
  const DimAtom *at = d->terms[0].atoms[0];
  if (at->kind != ATOM_MIN) return NULL;
  const Dim *x = upper_bound(s, at->a);
  if (!x) x = upper_bound(s, at->b);
  return x ? dim_add(s->c, x, dim_const(s->c, d->konst)) : NULL;
}

static const Expr *expand(Scan *s, const Expr *e) {
  for (int i = 0; i < 16 && s->lets.n; i++) {
    const Expr *to = expr_simplify(s->c, subst_vars(s->c, &s->lets, e));
    if (to == e) break;
    e = to;
  }
  return e;
}

static bool add_digit(Access *a, Digit d) {
  for (uint32_t i = 0; i < a->ndigits; i++)
    if (a->digits[i].id == d.id && a->digits[i].lo == d.lo && a->digits[i].hi == d.hi) return false;
  if (a->ndigits == MAX_DIGITS) return false;
  a->digits[a->ndigits++] = d;
  return true;
}

static bool is_var(const Dim *d, const Var *v) {
  return d->n == 1 && !d->konst && d->terms[0].coef == 1 && d->terms[0].n == 1 &&
         d->terms[0].atoms[0]->kind == ATOM_VAR && d->terms[0].atoms[0]->var == v;
}

/* v, v // k, v % k, v // k % m as a part of v. */
static bool part_of(Scan *s, const DimAtom *at, const Stmt *loop, Digit *d) {
  Context *c = s->c;
  const Dim *extent = upper_bound(s, expr_dim(c, expand(s, loop->loop.extent)));
  if (!extent) return false;
  const Dim *last = dim_sub(c, extent, dim_const(c, 1));
  const Var *v = loop->loop.var;
  int64_t k, m;
  d->lo = 1;
  d->hi = 0;
  if (at->kind == ATOM_VAR && at->var == v) {
    d->most = last;
    return true;
  }
  if ((at->kind != ATOM_FLOORDIV && at->kind != ATOM_FLOORMOD) || !dim_is_const(at->b, &k) || k < 2)
    return false;
  if (at->kind == ATOM_FLOORDIV) {
    d->lo = k;
    d->most = dim_floordiv(c, last, at->b);
    return is_var(at->a, v);
  }
  d->most = dim_const(c, k - 1);
  d->hi = k;
  if (is_var(at->a, v)) return true;
  if (at->a->n != 1 || at->a->konst || at->a->terms[0].coef != 1 || at->a->terms[0].n != 1)
    return false;
  const DimAtom *in = at->a->terms[0].atoms[0];
  if (in->kind != ATOM_FLOORDIV || !is_var(in->a, v) || !dim_is_const(in->b, &m) || m < 2 ||
      k > INT64_MAX / m)
    return false;
  d->lo = m;
  d->hi = m * k;
  return true;
}

/* Which loop around has its variable in this atom; -1: none, -2: several, or in a way not known. */
static int32_t loop_of_atom(Scan *s, const DimAtom *at, Digit *d) {
  int32_t found = -1;
  const Dim *whole = atom_dim(s->c, at);
  for (uint32_t i = 0; i < s->naround; i++) {
    if (!dim_uses_var(whole, s->around[i].loop->loop.var)) continue;
    if (found >= 0 || !part_of(s, at, s->around[i].loop, d)) return -2;
    found = (int32_t)i;
  }
  return found;
}

/* Gives the access the digits of d, and *rest what is left. */
static bool take_apart(Scan *s, Access *a, const Dim *d, const Dim **rest) {
  Context *c = s->c;
  *rest = dim_const(c, d->konst);
  for (uint32_t t = 0; t < d->n; t++) {
    const DimTerm *term = &d->terms[t];
    const Dim *coef = dim_const(c, term->coef);
    Digit digit = {0};
    bool has = false;
    for (uint32_t k = 0; k < term->n; k++) {
      Digit part = {0};
      int32_t i = loop_of_atom(s, term->atoms[k], &part);
      if (i == -2 || (i >= 0 && has)) return false;
      if (i < 0) {
        coef = dim_mul(c, coef, atom_dim(c, term->atoms[k]));
        continue;
      }
      if (s->around[i].loop->loop.step || !expr_is_int(s->around[i].loop->loop.min, 0))
        return false;
      has = true;
      digit = part;
      digit.id = s->around[i].id;
    }
    digit.coef = coef;
    if (!is_fixed(s, coef)) return false;
    if (!has)
      *rest = dim_add(c, *rest, coef);
    else if (!add_digit(a, digit))
      return false;
  }
  return true;
}

static bool not_negative(Scan *s, const Dim *d) {
  return prove_le(s->c, NULL, dim_const(s->c, 0), d) == PROOF_YES;
}

/* The same part of the same loop's variable in another access; NULL: it has none. */
static Digit *find_digit(Access *a, const Digit *d) {
  for (uint32_t i = 0; i < a->ndigits; i++)
    if (a->digits[i].id == d->id && a->digits[i].lo == d->lo && a->digits[i].hi == d->hi)
      return &a->digits[i];
  return NULL;
}

/* Lane i exists where base + i < end, and base, in which nothing is negative, is a part of the
 * place: that part and the lane together stay below end. */
static void take_mask(Scan *s, Access *a, const Expr *mask) {
  Context *c = s->c;
  if (!mask || mask->kind != EXPR_CALL || mask->intrin != INTRIN_get_active_lane_mask) return;
  const Dim *base = expr_dim(c, expand(s, mask->arg[0]));
  const Dim *end = upper_bound(s, expr_dim(c, expand(s, mask->arg[1]))), *rest;
  Access *of_base = ARENA_NEW(s->tmp, Access);
  if (!end || !take_apart(s, of_base, base, &rest) || !not_negative(s, rest)) return;
  for (uint32_t i = 0; i < of_base->ndigits; i++) {
    const Digit *d = &of_base->digits[i], *same = find_digit(a, d);
    if (!same || same->coef != d->coef || !not_negative(s, d->coef)) return;
  }
  for (uint32_t i = 0; i < of_base->ndigits; i++) find_digit(a, &of_base->digits[i])->masked = true;
  a->bound_rest = dim_sub(c, a->rest, rest);
  a->bound = dim_sub(c, end, dim_const(c, 1));
}

static Access *note_access(Scan *s, const Buffer *b, const Expr *const *idx, const Expr *mask) {
  Context *c = s->c;
  Access *a = ARENA_NEW(s->tmp, Access);
  a->data = b->data;
  a->order = s->order;
  a->naround = s->naround;
  a->side = s->side;
  memcpy(a->around, s->around, s->naround * sizeof *s->around);
  const Expr *at[MAX_AXES];
  if (b->ndim > MAX_AXES || b->dtype.lanes != 1) return a;
  a->bytes = (uint32_t)dtype_bytes(b->dtype);
  int64_t step = 1;
  uint32_t lanes = 1;
  for (uint32_t i = 0; i < b->ndim; i++) {
    at[i] = expand(s, idx[i]);
    if (expr_has_load(at[i])) return a;
    if (at[i]->dtype.lanes == 1) continue;
    if (i + 1 < b->ndim || at[i]->kind != EXPR_RAMP || b->strides ||
        !expr_const_int(c, at[i]->arg[1], &step) || step < 1)
      return a;
    lanes = at[i]->dtype.lanes;
    at[i] = at[i]->arg[0];
  }
  const Dim *place = expr_dim(c, expand(s, buffer_offset(c, b, at)));
  if (!take_apart(s, a, place, &a->rest)) return a;
  a->lanes = dim_const(c, step * (lanes - 1));
  a->known = true;
  if (lanes > 1 && step == 1) take_mask(s, a, mask);
  return a;
}

static bool note_expr(const Expr *e, void *ctx) {
  Scan *s = ctx;
  if (e->kind == EXPR_CALL && e->intrin == INTRIN_address_of) s->lost = true;
  if (e->kind == EXPR_CALL && !(intrin_table[e->intrin].flags & INTRIN_PURE)) s->lost = true;
  if (e->kind == EXPR_BUF_DATA || e->kind == EXPR_CALL_FUNC || e->kind == EXPR_LET) s->lost = true;
  if (e->kind == EXPR_VAR && e->dtype.code == DTYPE_HANDLE) s->lost = true;
  if (e->kind == EXPR_LOAD)
    vec_push(s->tmp, &s->loads,
             note_access(s, e->buf, e->arg, e->has_pred ? e->arg[e->n - 1] : NULL));
  return true;
}
static void note_exprs(const Expr *e, void *ctx) {
  expr_walk(e, note_expr, ctx);
}

static void scan(Scan *s, const Stmt *st);

static void scan_sides(Scan *s, const Stmt *st) {
  const Side *outer = s->side;
  uint32_t id = ++s->nvisits;
  for (int i = 0; i < 2; i++) {
    const Stmt *side = i ? st->if_.else_ : st->if_.then_;
    Side *one = ARENA_NEW(s->tmp, Side);
    *one = (Side){outer, id, s->naround, i == 1};
    s->side = one;
    if (side) scan(s, side);
  }
  s->side = outer;
}

static void scan(Scan *s, const Stmt *st) {
  switch (st->kind) {
  case STMT_SEQ:
    for (uint32_t i = 0; i < st->seq.n; i++) scan(s, st->seq.at[i]);
    return;
  case STMT_FOR:
    stmt_exprs(st, note_exprs, s);
    if (s->naround == MAX_LOOPS || st->loop.kind == FOR_THREAD) {
      s->lost = true;
      return;
    }
    s->around[s->naround++] = (Around){st, ++s->nvisits};
    scan(s, st->loop.body);
    s->naround--;
    return;
  case STMT_STORE:
    stmt_exprs(st, note_exprs, s);
    vec_push(s->tmp, &s->stores, note_access(s, st->store.buf, st->store.idx, st->store.pred));
    s->order++;
    return;
  case STMT_LET:
    stmt_exprs(st, note_exprs, s);
    if (!expr_has_load(st->let.value) && st->let.value->dtype.lanes == 1)
      map_setp(&s->lets, st->let.var, (void *)(uintptr_t)st->let.value);
    s->order++;
    return;
  case STMT_IF:
    stmt_exprs(st, note_exprs, s);
    s->order++;
    scan_sides(s, st);
    return;
  case STMT_ATTR: scan(s, st->attr.body); return;
  case STMT_EVAL:
    if (st->eval->kind == EXPR_CALL && st->eval->intrin == INTRIN_prefetch) return;
    /* fall through */
  case STMT_ALLOC:
  case STMT_ASSERT:
    stmt_exprs(st, note_exprs, s);
    s->order++;
    return;
  case STMT_DECL:
    if (stmt_decl_data(st) != st->alloc.buf->data) s->lost = true;
    return;
  default: s->lost = true; return;
  }
}

/* ---- pairs ---- */

typedef struct {
  Scan *s;
  Access *load, *store;
  uint32_t shared;        /* loops around both */
  bool equal[MAX_DIGITS]; /* of the load's: the store's is the same where the places are */
} Pair;

typedef struct {
  const Dim *lo, *hi;
} Apart;

static bool is_shared(const Pair *p, const Digit *d) {
  for (uint32_t i = 0; i < p->shared; i++)
    if (p->load->around[i].id == d->id) return true;
  return false;
}

/* Widens r by what the digit adds to the distance of two places: where the load is (sign 1), where
 * the store is (-1), or to both (0). False when it isn't known on which side of 0 the factor is. */
static bool widen(Scan *s, Apart *r, const Digit *d, int sign) {
  Context *c = s->c;
  const Dim *by = dim_mul(c, d->coef, d->most);
  if (!not_negative(s, d->coef)) {
    if (!not_negative(s, dim_scale(c, d->coef, -1))) return false;
    by = dim_scale(c, by, -1);
    sign = -sign;
  }
  if (sign >= 0) r->hi = dim_add(c, r->hi, by);
  if (sign <= 0) r->lo = dim_sub(c, r->lo, by);
  return true;
}

enum { BY_LANES, BY_LOAD_MASK, BY_STORE_MASK, BY_MASKS, WAYS };

/* The range of the distance from the place stored to the place loaded, without shared digit `skip`
 * and those that are equal; with what masks bound in place of single digits and lanes. */
static bool distance(const Pair *p, const Digit *skip, int way, Apart *r) {
  Scan *s = p->s;
  Context *c = s->c;
  const Access *l = p->load, *w = p->store;
  bool lm = way & BY_LOAD_MASK, wm = way & BY_STORE_MASK;
  if ((lm && !l->bound) || (wm && !w->bound)) return false;
  r->hi = r->lo = dim_sub(c, lm ? l->bound_rest : l->rest, wm ? w->bound_rest : w->rest);
  r->hi = dim_add(c, r->hi, lm ? l->bound : l->lanes);
  r->lo = dim_sub(c, r->lo, wm ? w->bound : w->lanes);
  for (uint32_t i = 0; i < l->ndigits; i++) {
    const Digit *d = &l->digits[i];
    bool shared = is_shared(p, d);
    if (d->masked && shared && lm != wm) return false;
    if ((lm && d->masked) || d == skip || (shared && p->equal[i])) continue;
    if (!widen(s, r, d, shared ? 0 : 1)) return false;
  }
  for (uint32_t i = 0; i < w->ndigits; i++) {
    const Digit *d = &w->digits[i];
    if ((wm && d->masked) || is_shared(p, d)) continue;
    if (!widen(s, r, d, -1)) return false;
  }
  return true;
}

static bool less(Scan *s, const Dim *a, const Dim *b) {
  return prove_lt(s->c, NULL, a, b) == PROOF_YES;
}

static bool never_meet(const Pair *p) {
  const Dim *zero = dim_const(p->s->c, 0);
  Apart r;
  for (int way = 0; way < WAYS; way++)
    if (distance(p, NULL, way, &r) && (less(p->s, zero, r.lo) || less(p->s, r.hi, zero)))
      return true;
  return false;
}

/* Whether digit d, where the places are equal, must be: all else is less than a step of it. */
static bool must_equal(const Pair *p, const Digit *d) {
  Context *c = p->s->c;
  const Dim *step = d->coef, *back = dim_scale(c, step, -1);
  Apart r;
  if (!not_negative(p->s, step)) {
    const Dim *other = step;
    step = back;
    back = other;
  }
  for (int way = 0; way < WAYS; way++)
    if (!(way && d->masked) && distance(p, d, way, &r) && less(p->s, r.hi, step) &&
        less(p->s, back, r.lo))
      return true;
  return false;
}

/* Whether the digits that are equal make up the variable of that loop. */
static bool same_iteration(const Pair *p, const Around *loop) {
  const Access *l = p->load;
  int64_t at = 1;
  if (expr_is_int(loop->loop->loop.extent, 1)) return true;
  for (uint32_t i = 0; i < l->ndigits; i++) {
    if (!p->equal[i] || l->digits[i].id != loop->id || l->digits[i].lo != at) continue;
    if (!l->digits[i].hi) return true;
    at = l->digits[i].hi;
    i = UINT32_MAX; /* the next part may stand anywhere */
  }
  return false;
}

/* Whether they stand on two sides of an `if` in no more than `depth` loops: then only one of them
 * runs in an iteration of these. */
static bool on_two_sides(const Access *a, const Access *b, uint32_t depth) {
  for (const Side *x = a->side; x; x = x->outer)
    for (const Side *y = b->side; y; y = y->outer)
      if (x->id == y->id && x->otherwise != y->otherwise && x->naround <= depth) return true;
  return false;
}

/* Whether no element is stored before the load that wants what was there. */
static bool load_is_first(Scan *s, Access *load, Access *store) {
  if (on_two_sides(load, store, 0)) return true;
  if (!load->known || !store->known || load->bytes != store->bytes) return false;
  Pair *p = ARENA_NEW(s->tmp, Pair);
  *p = (Pair){.s = s, .load = load, .store = store};
  while (p->shared < load->naround && p->shared < store->naround &&
         load->around[p->shared].id == store->around[p->shared].id)
    p->shared++;
  for (uint32_t i = 0; i < load->ndigits; i++) {
    const Digit *d = &load->digits[i], *other = find_digit(store, d);
    if (is_shared(p, d) && (!other || other->coef != d->coef || other->masked != d->masked))
      return false;
  }
  for (uint32_t i = 0; i < store->ndigits; i++)
    if (is_shared(p, &store->digits[i]) && !find_digit(load, &store->digits[i])) return false;
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < load->ndigits; i++) {
      const Digit *d = &load->digits[i];
      if (!is_shared(p, d) || p->equal[i] || !must_equal(p, d)) continue;
      p->equal[i] = more = true;
    }
  }
  if (never_meet(p)) return true;
  for (uint32_t i = 0; i < p->shared; i++)
    if (!same_iteration(p, &load->around[i])) return false;
  return load->order <= store->order || on_two_sides(load, store, p->shared);
}

static bool may_share(Scan *s, const Buffer *operand, const Buffer *result) {
  uint32_t pairs = 0;
  for (uint32_t i = 0; i < s->loads.n; i++) {
    if (s->loads.at[i]->data != operand->data) continue;
    for (uint32_t k = 0; k < s->stores.n; k++) {
      if (s->stores.at[k]->data != result->data) continue;
      if (++pairs > MAX_PAIRS || !load_is_first(s, s->loads.at[i], s->stores.at[k])) return false;
    }
  }
  return true;
}

static bool is_stored(const Scan *s, const Buffer *b) {
  for (uint32_t i = 0; i < s->stores.n; i++)
    if (s->stores.at[i]->data == b->data) return true;
  return false;
}

static bool same_size(Context *c, const Buffer *a, const Buffer *b) {
  return dtype_bytes(a->dtype) == dtype_bytes(b->dtype) &&
         expr_proved_eq(c, expr_product(c, a->shape, a->ndim), expr_product(c, b->shape, b->ndim));
}

static Scan *scan_of(PassCtx *pc, Map *scans, const PrimFunc *f) {
  Scan *s = map_getp(scans, f);
  if (s) return s;
  s = ARENA_NEW(pc->scratch, Scan);
  s->c = pc->c;
  s->tmp = pc->scratch;
  map_init(&s->lets, s->tmp);
  map_init(&s->fixed, s->tmp);
  for (uint32_t i = 0; i < f->ndims; i++) map_setp(&s->fixed, f->dims[i], f->dims[i]);
  scan(s, f->body);
  map_setp(scans, f, s);
  return s;
}

bool in_place_proved(PassCtx *pc, Map *scans, const PrimFunc *f, uint32_t operand,
                     uint32_t result) {
  const Buffer *x = f->param_bufs[operand], *y = f->param_bufs[result];
  if (f->s_tir || !x || !y || !same_size(pc->c, x, y)) return false;
  Scan *s = scan_of(pc, scans, f);
  return !s->lost && !is_stored(s, x) && is_stored(s, y) && may_share(s, x, y);
}
