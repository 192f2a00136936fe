/* From a prim_func's body to lowered loops: the order of the steps. */
#include "passes/loop/schedule.h"

const Expr *subst_vars(Context *c, const Map *vars, const Expr *e) {
  Subst s = {c, vars, NULL};
  return expr_subst(&s, e);
}

void loop_remark(LoopCtx *lc, Span s, const char *fmt, ...) {
  const Target *t = lc->pc->target;
  if (!lc->pc->remarks || lc->bound || lc->v != &t->variants[t->nvariants - 1]) return;
  Text text = {0};
  va_list ap;
  va_start(ap, fmt);
  text_vprintf(&text, fmt, ap);
  va_end(ap);
  const char *of = attr_get_str(lc->f->attrs, "relaxc.variant_of", lc->f->name);
  diag(lc->c->diags, DIAG_REMARK, s.file ? s : lc->f->span, "'%s': %s", of, text_cstr(&text));
  text_free(&text);
}

Stmt *loop_of(LoopCtx *lc, Span sp, Var *v, const Expr *extent, ForKind k, Stmt *body) {
  int64_t n;
  if (expr_const_int(lc->c, extent, &n)) {
    if (n <= 0) return NULL;
    if (n == 1) {
      Map m;
      map_init(&m, lc->tmp);
      map_setp(&m, v, (void *)i64(lc->c, 0));
      return stmt_subst(lc->c, lc->a, body, &m, NULL, false);
    }
  }
  return stmt_for(lc->a, sp, v, i64(lc->c, 0), extent, k, body);
}

void loop_set_parallel(LoopCtx *lc, Stmt *loop, int64_t grain) {
  loop->loop.kind = FOR_PARALLEL;
  loop->loop.annotations = attr_with(lc->a, loop->loop.annotations, "relaxc.grain",
                                     attr_int(lc->a, grain > 0 ? grain : 1));
}

bool schedule_open(LoopCtx *lc, Sched *s) {
  PrimFunc *f = lc->f;
  if (!f->s_tir || f->body->kind != STMT_BLOCK) return false;
  SBlock *root = f->body->block;
  if (root->niters || root->nmatches || root->init || root->predicate) return false;
  *s = (Sched){.lc = lc, .c = lc->c, .a = lc->a, .tmp = lc->tmp, .v = lc->v, .root = root};
  map_init(&s->local, s->tmp);
  map_init(&s->outside, s->tmp);
  map_init(&s->seen, s->tmp);
  for (uint32_t i = 0; i < root->nallocs; i++)
    map_setp(&s->local, root->allocs[i], root->allocs[i]);
  stages_extract(s);
  stages_inline(s);
  stages_split(s);
  return true;
}

/* When item *i starts a contraction that takes `before` into its loops: both, and *i moves on. */
static bool emit_sunk(Sched *s, uint32_t *i, const Stage *before, StmtVec *out) {
  const Stage *next = *i < s->items.n ? s->items.at[*i].stage : NULL;
  if (!s->simple || !next || !stage_reads(next, before->out) ||
      (!stage_is_contraction(s, next) && !stage_is_window(s, next)))
    return false;
  Group g;
  uint32_t n = group_form(s, *i, &g);
  if (!contraction_emit(s, &g, before, out)) return false;
  *i += n;
  return true;
}

void items_emit(Sched *s, StmtVec *out) {
  for (uint32_t i = 0; i < s->items.n;) {
    Item *it = &s->items.at[i];
    if (it->opaque) {
      loop_remark(s->lc, it->opaque->span, "loops stay as written");
      vec_push(s->tmp, out, lower_blocks(s->lc, it->opaque));
      i++;
      continue;
    }
    if (chain_emit(s, &i, out)) continue;
    Group g;
    i += group_form(s, i, &g);
    if (g.n == 1 && emit_sunk(s, &i, g.stages[0], out)) continue;
    if (g.contraction && dots_emit(s, &g, out)) continue;
    if (!g.contraction || !contraction_emit(s, &g, NULL, out)) group_emit(s, &g, out);
  }
}

static Stmt *emit_all(Sched *s) {
  LoopCtx *lc = s->lc;
  SBlock *root = s->root;
  StmtVec body = {0};
  items_emit(s, &body);
  StmtVec all = {0};
  for (uint32_t i = 0; i < root->nallocs; i++)
    if (map_hasp(&lc->flat, root->allocs[i]) || map_hasp(&s->outside, root->allocs[i]) ||
        !s->simple)
      vec_push(s->tmp, &all, stmt_alloc(lc->a, root->body->span, root->allocs[i]));
  for (uint32_t i = 0; i < lc->decls.n; i++) vec_push(s->tmp, &all, lc->decls.at[i]);
  for (uint32_t i = 0; i < body.n; i++) vec_push(s->tmp, &all, body.at[i]);
  return seq_of(lc->a, &all);
}

/* The body where dim `v` is 1, or NULL. */
static Stmt *body_of_one(LoopCtx *lc, const Var *v) {
  Map vars;
  map_init(&vars, lc->tmp);
  map_setp(&vars, v, (void *)(uintptr_t)expr_int(lc->c, v->dtype, 1));
  LoopCtx one = *lc;
  one.bound = true;
  one.f = primfunc_bind(lc->c, lc->a, lc->f, &vars);
  one.decls = (StmtVec){0};
  map_init(&one.flat, lc->tmp);
  Sched s;
  Stmt *body = schedule_open(&one, &s) ? emit_all(&s) : NULL;
  lc->failed |= one.failed;
  return body;
}

Stmt *schedule_body(LoopCtx *lc) {
  Sched s;
  if (!schedule_open(lc, &s)) return lower_blocks(lc, lc->f->body);
  VarVec units = {0};
  unit_dims(&s, &units);
  Stmt *body = emit_all(&s);
  for (uint32_t i = units.n; i-- > 0;) {
    const Var *v = units.at[i];
    Stmt *one = body_of_one(lc, v);
    if (one) body = stmt_if(lc->a, lc->f->span, compare_to(lc->c, EXPR_EQ, v->expr, 1), one, body);
  }
  return body;
}
