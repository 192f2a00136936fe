/* The pass table and its runner.
 *
 * Before anything runs the whole pipeline is checked: each pass's needs must hold, given by the
 * module as it is (found by looking at it, so that text of any level can go on from there) or by
 * passes before. Around each pass the runner prints, times, verifies and compares, as asked.
 */
#include "passes/pass.h"
#include "ir/op.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "passes/graph/graph.h"
#include "passes/pipeline.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PASS(id, ...) bool pass_##id(PassCtx *pc);
#include "passes/passes.def"
#undef PASS

const PassInfo pass_table[PASS_COUNT] = {
#define PASS(id, name, level, needs, gives, breaks, options, summary)                              \
  [PASS_##id] = {name, level, needs, gives, breaks, pass_##id, options, summary},
#include "passes/passes.def"
#undef PASS
};

static const struct {
  uint32_t bit;
  const char *name, *words;
} states[] = {
    {STATE_NORMAL, "normal", "A-normal form with struct info"},
    {STATE_LEGAL, "legal", "a module without operators (call_tir only)"},
    {STATE_PATTERNS, "patterns", "an op_pattern on every prim_func"},
    {STATE_GROUPED, "grouped", "Primitive functions"},
    {STATE_SCHEDULED, "scheduled", "scheduled prim_funcs"},
    {STATE_DPS, "dps", "explicit allocations (destination passing)"},
    {STATE_PLANNED, "planned", "planned memory"},
};
enum { NSTATES = sizeof states / sizeof *states };

int pass_find(const char *name) {
  for (int i = 0; i < PASS_COUNT; i++)
    if (strcmp(pass_table[i].name, name) == 0) return i;
  return -1;
}

bool pass_wants(const PassCtx *pc, const char *func_name) {
  return !pc->only || strmap_has(pc->only, func_name);
}

const char *pipeline_default(int opt_level) {
  static const struct {
    int level;
    const char *text;
  } rows[] = {
#define PIPELINE(level, text) {level, text},
#include "passes/pipelines.def"
#undef PIPELINE
  };
  const char *best = rows[0].text;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (opt_level >= rows[i].level) best = rows[i].text;
  return best;
}

static void put_states(Text *t, const char *label, uint32_t mask) {
  if (!mask) return;
  text_printf(t, "; %s", label);
  for (int i = 0; i < NSTATES; i++)
    if (mask & states[i].bit) text_printf(t, " %s", states[i].name);
}

void pass_print_list(Text *out) {
  for (int i = 0; i < PASS_COUNT; i++) {
    const PassInfo *p = &pass_table[i];
    text_printf(out, "%-24s %-7s %s", p->name, p->level, p->summary);
    put_states(out, "needs", p->needs);
    put_states(out, "gives", p->gives);
    put_states(out, "breaks", p->breaks);
    text_putc(out, '\n');
    if (*p->options) text_printf(out, "%-24s         options: %s\n", "", p->options);
  }
}

/* ---- what holds of a module ---- */

typedef struct {
  bool operators, call_tir, calls;
} Seen;

static void look_at(Node *n, void *ctx) {
  Seen *s = ctx;
  s->operators |= node_is_operator(n);
  s->call_tir |= node_is_call_tir(n);
  if (n->op == OP_FUNC && n->local) func_each_node(n->local, look_at, ctx);
}

static uint32_t module_state(const Module *m) {
  Seen s = {0};
  bool patterns = true, scheduled = true, grouped = false, prims = false, storage = false;
  module_each(m, g) {
    if (g->kind == GLOBAL_FUNC) {
      func_each_node(g->func, look_at, &s);
      grouped |= attr_get_bool(g->func->attrs, "Primitive", false);
      for (BindingBlock *b = g->func->body.first; b; b = b->next)
        for (Node *n = b->first; n; n = n->next) {
          s.calls |= n->op == OP_builtin_alloc_tensor || n->op == OP_memory_alloc_tensor;
          storage |= n->op == OP_memory_alloc_storage;
        }
    } else if (g->kind == GLOBAL_PRIM) {
      bool ready = attr_get_bool(g->prim->attrs, "relaxc.scheduled", false);
      prims = true;
      patterns &= ready || attr_get(g->prim->attrs, "op_pattern") != NULL;
      scheduled &= ready;
    }
  }
  uint32_t state = STATE_NORMAL;
  if (!s.operators) state |= STATE_LEGAL;
  if (patterns && prims) state |= STATE_PATTERNS;
  if (scheduled) state |= STATE_SCHEDULED;
  if (grouped) state |= STATE_GROUPED;
  if (!s.operators && !s.call_tir && s.calls) state |= STATE_DPS;
  if (storage) state |= STATE_PLANNED;
  return state;
}

/* ---- checking a pipeline ---- */

/* The passes that give a state, as text. */
static const char *givers(Context *c, uint32_t bit) {
  const char *s = NULL;
  for (int i = 0; i < PASS_COUNT; i++)
    if (pass_table[i].gives & bit)
      s = s ? arena_printf(c->arena, "%s or %s", s, pass_table[i].name) : pass_table[i].name;
  return s ? s : "no pass";
}

static bool check_steps(Module *m, const StepVec *steps) {
  Context *c = m->ctx;
  uint32_t state = module_state(m);
  bool ok = true;
  for (uint32_t i = 0; i < steps->n; i++) {
    const PassInfo *p = &pass_table[steps->at[i].pass];
    for (int k = 0; k < NSTATES; k++) {
      uint32_t bit = states[k].bit;
      if (!(p->needs & bit & ~state)) continue;
      const PassInfo *breaker = NULL;
      for (uint32_t j = 0; j < i; j++)
        if (pass_table[steps->at[j].pass].breaks & bit) breaker = &pass_table[steps->at[j].pass];
      diag_error(c->diags, SPAN_NONE, "pass '%s' needs %s, which %s gives%s%s%s", p->name,
                 states[k].words, givers(c, bit), breaker ? " and '" : "",
                 breaker ? breaker->name : "", breaker ? "' before it breaks" : "; put it before");
      ok = false;
    }
    if ((p->gives & STATE_SCHEDULED) && (state & STATE_DPS)) {
      diag_error(c->diags, SPAN_NONE,
                 "pass '%s' must come before allocations are explicit: put it before %s", p->name,
                 givers(c, STATE_DPS));
      ok = false;
    }
    state = (state & ~p->breaks) | p->gives;
  }
  return ok;
}

/* The number of steps to run: up to the last one named stop_after. */
static bool find_stop(Context *c, const StepVec *steps, const char *stop_after, uint32_t *n) {
  *n = steps->n;
  if (!stop_after) return true;
  for (uint32_t i = steps->n; i-- > 0;)
    if (strcmp(pass_table[steps->at[i].pass].name, stop_after) == 0) {
      *n = i + 1;
      return true;
    }
  diag_error(c->diags, SPAN_NONE, "--stop-after names '%s', which is %s", stop_after,
             pass_find(stop_after) < 0 ? "no pass" : "not in the pipeline");
  return false;
}

/* ---- running ---- */

static bool is_listed(const char *const *names, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(names[i], "all") == 0 || strcmp(names[i], name) == 0) return true;
  return false;
}

static bool check_listed(Context *c, const char *option, const char *const *names, uint32_t n) {
  bool ok = true;
  for (uint32_t i = 0; i < n; i++) {
    if (strcmp(names[i], "all") == 0 || pass_find(names[i]) >= 0) continue;
    const char *all[PASS_COUNT];
    for (int k = 0; k < PASS_COUNT; k++) all[k] = pass_table[k].name;
    const char *near = text_nearest(names[i], all, PASS_COUNT);
    diag_error(c->diags, SPAN_NONE, "%s names '%s', which is no pass%s%s%s", option, names[i],
               near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    ok = false;
  }
  return ok;
}

static bool check_function(Module *m, const char *where, const char *name) {
  if (module_find(m, name)) return true;
  const char **names = ARENA_ARRAY(m->arena, const char *, m->globals.n);
  size_t n = 0;
  module_each(m, g) names[n++] = g->name;
  const char *near = text_nearest(name, names, n);
  diag_error(m->ctx->diags, SPAN_NONE, "%s names '%s', but the module has no such function%s%s%s",
             where, name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
  return false;
}

static void print_module(const Module *m, const PipelineOptions *o, const char *when,
                         const char *pass) {
  Text t = {0};
  text_printf(&t, "# ---- %s %s ----\n", when, pass);
  module_print(&t, m, (Dialect)o->dialect);
  fwrite(t.s, 1, t.n, stderr);
  text_free(&t);
}

static double now_ms(void) {
  struct timespec t;
  if (clock_gettime(CLOCK_MONOTONIC, &t) != 0) return 0;
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void print_times(const StepVec *steps, const double *ms, uint32_t n) {
  double total = 0;
  for (uint32_t i = 0; i < n; i++) total += ms[i];
  fprintf(stderr, "%-26s %10s %7s\n", "pass", "ms", "share");
  for (uint32_t i = 0; i < n; i++)
    fprintf(stderr, "%-26s %10.3f %6.1f%%\n", pass_table[steps->at[i].pass].name, ms[i],
            total > 0 ? 100 * ms[i] / total : 0);
  fprintf(stderr, "%-26s %10.3f\n", "total", total);
}

/* With a function filter, what a pass makes belongs to what later passes may touch. */
static void adopt_new(const Module *m, uint32_t before, StrMap *only) {
  for (uint32_t i = before; i < m->globals.n; i++) strmap_set(only, m->globals.at[i]->name, only);
}

static bool run_step(Module *m, const PipelineOptions *o, const Step *s, StrMap *only) {
  Context *c = m->ctx;
  const PassInfo *p = &pass_table[s->pass];
  uint32_t before = m->globals.n, errors = diags_errors(c->diags);
  StrMap one;
  if (s->func) {
    if (!check_function(m, arena_printf(c->arena, "%s@", p->name), s->func)) return false;
    strmap_init(&one, c->arena);
    if (!only || strmap_has(only, s->func)) strmap_set(&one, s->func, only);
  }
  PassCtx pc = {.c = c,
                .m = m,
                .scratch = arena_create(),
                .options = s->options,
                .only = s->func ? &one : only,
                .target = o->target,
                .opt_level = o->opt_level,
                .fast_math = o->fast_math,
                .bindings = o->bindings,
                .remarks = o->remarks};
  m->as_read = false;
  bool ok = p->run(&pc);
  arena_free(pc.scratch);
  if (ok && diags_errors(c->diags) > errors) ok = false;
  if (!ok && diags_errors(c->diags) == errors) bug("pass %s failed without a message", p->name);
  if (only) adopt_new(m, before, only);
  return ok;
}

static bool run_steps(Module *m, const PipelineOptions *o, const StepVec *steps, uint32_t n,
                      StrMap *only, double *ms) {
  Text before = {0};
  bool ok = true;
  for (uint32_t i = 0; i < n && ok; i++) {
    const Step *s = &steps->at[i];
    const PassInfo *p = &pass_table[s->pass];
    if (is_listed(o->print_before, o->nprint_before, p->name))
      print_module(m, o, "before", p->name);
    text_clear(&before);
    if (o->print_changed) module_print(&before, m, (Dialect)o->dialect);
    double t = now_ms();
    ok = run_step(m, o, s, only);
    ms[i] = now_ms() - t;
    if (!ok) break;
    if (is_listed(o->print_after, o->nprint_after, p->name)) {
      print_module(m, o, "after", p->name);
    } else if (o->print_changed) {
      Text after = {0};
      module_print(&after, m, (Dialect)o->dialect);
      if (after.n != before.n || memcmp(after.s, before.s, after.n) != 0)
        print_module(m, o, "after", p->name);
      text_free(&after);
    }
    if (o->verify_each) ok = module_verify(m, p->name);
  }
  text_free(&before);
  return ok;
}

bool pipeline_run(Module *m, const PipelineOptions *o, uint32_t *state) {
  Context *c = m->ctx;
  StepVec steps = {0};
  uint32_t n;
  const char *text = o->pipeline ? o->pipeline : pipeline_default(o->opt_level);
  *state = 0;
  bool ok = pipeline_parse(c, text, &steps);
  ok &= check_listed(c, "--print-before", o->print_before, o->nprint_before);
  ok &= check_listed(c, "--print-after", o->print_after, o->nprint_after);
  for (uint32_t i = 0; i < o->nonly; i++) ok &= check_function(m, "--only", o->only[i]);
  if (!ok || !check_steps(m, &steps) || !find_stop(c, &steps, o->stop_after, &n)) return false;
  StrMap only;
  strmap_init(&only, c->arena);
  for (uint32_t i = 0; i < o->nonly; i++) strmap_set(&only, o->only[i], &only);
  double *ms = ARENA_ARRAY(c->arena, double, n);
  ok = run_steps(m, o, &steps, n, o->nonly ? &only : NULL, ms);
  *state = module_state(m);
  if (o->time_passes) print_times(&steps, ms, n);
  return ok;
}
