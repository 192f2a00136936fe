/* The pipeline on one screen: read -> parse -> verify -> passes -> code -> write.
 *
 * Text kinds stop earlier than code does, and passes change the module in place: each stage that is
 * asked for starts again from the source, which costs a millisecond and keeps the stages
 * independent. Outputs appear only when complete (frontend/output.h).
 */
#include "frontend/driver.h"

#include "codegen/abi.h"
#include "codegen/codegen.h"
#include "codegen/header.h"
#include "codegen/picture.h"
#include "frontend/comments.h"
#include "frontend/link.h"
#include "frontend/output.h"
#include "frontend/script/script.h"
#include "frontend/weights/weights.h"
#include "ir/lint.h"
#include "ir/op.h"
#include "ir/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(k) (1u << (k))
#define EMIT_PICTURE (BIT(EMIT_DOT) | BIT(EMIT_SVG) | BIT(EMIT_JSON))
#define EMIT_CODE                                                                                  \
  (BIT(EMIT_HEADER) | BIT(EMIT_LLVM) | BIT(EMIT_BITCODE) | BIT(EMIT_ASM) | BIT(EMIT_OBJECT) |      \
   BIT(EMIT_ARCHIVE) | BIT(EMIT_SHARED))

Context *driver_begin(const Options *o) {
  Context *c = context_create();
  diags_set_options(c->diags, o->diag);
  for (int w = 0; w < WARN_COUNT; w++) /* fmt prints what it was asked for only */
    if (o->warnings[w] || o->command == COMMAND_FMT)
      diags_enable(c->diags, (Warning)w, o->warnings[w] > 0);
  if (o->remarks_file) diags_set_remarks(c->diags, ARENA_NEW(c->arena, Text));
  return c;
}

static bool write_pieces(Context *c, const char *path, const CodePieces *pieces) {
  const char *error;
  Output *out = output_open(c->arena, path, &error);
  bool ok = out != NULL;
  for (uint32_t i = 0; ok && i < pieces->n; i++)
    ok = output_write(out, pieces->at[i].bytes, pieces->at[i].n, &error);
  ok = ok && output_commit(out, &error);
  if (out && !ok) output_abandon(out);
  if (!ok) diag_error(c->diags, SPAN_NONE, "%s", error);
  return ok;
}

static bool write_bytes(Context *c, const char *path, const void *bytes, size_t n) {
  CodePiece piece = {bytes, n};
  return write_pieces(c, path, &(CodePieces){&piece, 1, 1});
}

int driver_end(Context *c, const Options *o) {
  Text *remarks = diags_remarks(c->diags);
  if (remarks && !diags_errors(c->diags))
    (void)write_bytes(c, o->remarks_file, text_cstr(remarks), remarks->n);
  if (remarks) text_free(remarks);
  diags_finish(c->diags);
  int code = diags_errors(c->diags) ? 1 : 0;
  context_free(c);
  return code;
}

Module *driver_read(Context *c, const Options *o, const char *input) {
  const char *error;
  uint32_t file = sources_read(c->sources, input, &error);
  if (!file) {
    diag_error(c->diags, SPAN_NONE, "can't read '%s': %s", input, error);
    return NULL;
  }
  Module *m = script_parse(c, file);
  if (!m && !diags_errors(c->diags)) bug("no module and no error for '%s'", input);
  if (m && !o->no_check) (void)module_verify(m, NULL); /* what has no error may have others */
  if (diags_errors(c->diags)) return NULL;
  module_lint(m);
  return diags_errors(c->diags) ? NULL : m; /* -Werror */
}

bool driver_target(Context *c, const Options *o, const char *march, Target *out) {
  const char *error;
  if (!target_init(out, o->target, o->march ? o->march : march, o->mattr, &error)) {
    diag_error(c->diags, SPAN_NONE, "%s", error);
    return false;
  }
  out->threads = !o->no_threads;
  return true;
}

/* ---- bindings ---- */

/* The tensors of --weights as constants by name; NULL after an error. */
static const StrMap *read_weights(Context *c, Module *m, const char *path) {
  Weights w;
  const char *error;
  if (!weights_read(c->arena, path, &w, &error)) {
    diag_error(c->diags, SPAN_NONE, "weights file %s", error);
    return NULL;
  }
  StrMap *map = ARENA_NEW(c->arena, StrMap);
  strmap_init(map, c->arena);
  for (uint32_t i = 0; i < w.n; i++) {
    const TensorData *t = &w.tensors[i];
    ConstData *d = const_create(m, t->dtype, t->dims, t->ndim, t->data);
    d->name = t->name;
    d->mapped = weights_is_mapped(&w, t);
    strmap_set(map, t->name, d);
  }
  return map;
}

static bool make_bindings(Context *c, Module *m, const Options *o, PassBindings *b) {
  *b = (PassBindings){.weights_file = o->weights};
  for (uint32_t i = 0; i < o->binds.n; i++) {
    vec_reserve1(c->arena, &b->dims);
    b->dims.at[b->dims.n].func = o->binds.at[i].func;
    b->dims.at[b->dims.n].name = o->binds.at[i].name;
    b->dims.at[b->dims.n++].value = o->binds.at[i].value;
  }
  if (o->weights && !(b->weights = read_weights(c, m, o->weights))) return false;
  return true;
}

/* The pipeline with checks of indices before loops are transformed. */
static const char *with_checks(Arena *a, const char *passes) {
  const char *at = strstr(passes, pass_table[PASS_schedule_tir].name);
  if (!at) return passes;
  return arena_printf(a, "%.*s%s, %s", (int)(at - passes), passes,
                      pass_table[PASS_instrument_bound_checkers].name, at);
}

bool driver_passes(Context *c, Module *m, const Options *o, const Target *t, const char *passes,
                   const char *stop_after, uint32_t *state) {
  PassBindings bindings;
  if (o->check_bounds) passes = with_checks(c->arena, passes ? passes : pipeline_default(o->level));
  if (!make_bindings(c, m, o, &bindings)) return false;
  PipelineOptions po = {
      .pipeline = passes,
      .stop_after = stop_after,
      .print_before = o->print_before.at,
      .nprint_before = o->print_before.n,
      .print_after = o->print_after.at,
      .nprint_after = o->print_after.n,
      .print_changed = o->print_changed,
      .time_passes = o->time_passes,
      .verify_each = o->verify_each,
      .only = o->only.at,
      .nonly = o->only.n,
      .target = t,
      .opt_level = o->level,
      .fast_math = o->fast_math,
      .remarks = o->remarks,
      .dialect = (int)o->dialect,
      .bindings = &bindings,
  };
  return pipeline_run(m, &po, state);
}

/* ---- outputs ---- */

/* dot, svg or json. */
static bool write_picture(Context *c, const Module *m, EmitKind k, const char *path) {
  Text t = {0};
  if (k == EMIT_JSON)
    module_json(&t, m);
  else
    module_dot(&t, m);
  bool ok = k == EMIT_SVG ? draw_svg(c, text_cstr(&t), t.n, path)
                          : write_bytes(c, path, text_cstr(&t), t.n);
  text_free(&t);
  return ok;
}

static bool write_module(Context *c, const Module *m, const Options *o, const char *path) {
  Text t = {0};
  module_print(&t, m, o->dialect);
  bool ok = write_bytes(c, path, text_cstr(&t), t.n);
  text_free(&t);
  return ok;
}

/* Name without its suffix; the folder too when `file_only`. */
static const char *stem(Arena *a, const char *path, bool file_only) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char *dot = strrchr(name, '.');
  size_t end = dot && dot != name ? (size_t)(dot - path) : strlen(path);
  size_t begin = file_only ? (size_t)(name - path) : 0;
  return arena_strndup(a, path + begin, end - begin);
}

/* Where an output of that kind goes. */
static const char *output_path(Context *c, const Options *o, const char *input, EmitKind k) {
  bool text = k <= EMIT_LOOPS || k == EMIT_DOT || k == EMIT_JSON,
       several = (o->emit & (o->emit - 1)) != 0;
  const char *base;
  if (o->output && !several) return o->output;
  if (o->output) {
    base = stem(c->arena, o->output, false);
  } else {
    if (text && !several) return "-";
    base = strcmp(input, "-") == 0 ? "stdin" : stem(c->arena, input, true);
  }
  /* The three text kinds share a suffix. */
  static const char *const infix[] = {".relax", ".tir", ".loops"};
  return arena_printf(c->arena, "%s%s%s", base, k <= EMIT_LOOPS && several ? infix[k] : "",
                      emit_suffixes[k]);
}

static void put_make_name(Text *t, const char *s) {
  for (; *s; s++) {
    if (*s == ' ' || *s == '#' || *s == '\\') text_putc(t, '\\');
    if (*s == '$') text_putc(t, '$');
    text_putc(t, *s);
  }
}

/* -MD: "model.o: model.rx weights.safetensors". */
static bool write_deps(Context *c, const Options *o, const char *input) {
  if (!o->deps && !o->deps_file) return true;
  EmitKind first = EMIT_OBJECT;
  for (int k = EMIT_COUNT - 1; k >= 0; k--)
    if (o->emit & BIT(k)) first = (EmitKind)k;
  const char *out = output_path(c, o, input, first), *file = o->deps_file;
  if (!file) file = arena_printf(c->arena, "%s.d", stem(c->arena, out, false));
  Text t = {0};
  put_make_name(&t, o->deps_target ? o->deps_target : out);
  text_puts(&t, ":");
  if (strcmp(input, "-") != 0) {
    text_putc(&t, ' ');
    put_make_name(&t, input);
  }
  if (o->weights) {
    text_putc(&t, ' ');
    put_make_name(&t, o->weights);
  }
  text_putc(&t, '\n');
  bool ok = write_bytes(c, file, text_cstr(&t), t.n);
  text_free(&t);
  return ok;
}

/* ---- code ---- */

static bool write_header(Context *c, const Module *m, const char *prefix, const char *input,
                         const char *path) {
  AbiModule abi;
  if (!abi_module(c->arena, m, prefix, &abi)) return false;
  Text t = {0};
  const char *slash = strrchr(input, '/');
  header_print(&t, &abi, prefix, slash ? slash + 1 : input);
  bool ok = write_bytes(c, path, text_cstr(&t), t.n);
  text_free(&t);
  return ok;
}

static bool write_code(Context *c, Module *m, const Options *o, const Target *target,
                       const char *input, uint32_t kinds) {
  static const struct {
    EmitKind emit;
    CodeKind code;
  } codes[] = {{EMIT_LLVM, CODE_LLVM},
               {EMIT_BITCODE, CODE_BITCODE},
               {EMIT_ASM, CODE_ASM},
               {EMIT_OBJECT, CODE_OBJECT}};
  const char *prefix = o->prefix ? o->prefix : abi_default_prefix(c->arena, input);
  CodegenOptions co = {.prefix = prefix,
                       .opt_level = o->level,
                       .debug = o->debug,
                       .fast_math = o->fast_math,
                       .profile = o->profile,
                       .pic = !o->no_pic,
                       .jobs = o->jobs};
  if (o->external_weights) {
    const char *base = o->output && strcmp(o->output, "-") != 0 ? stem(c->arena, o->output, false)
                       : strcmp(input, "-") == 0                ? "stdin"
                                                                : stem(c->arena, input, true);
    co.external = arena_printf(c->arena, "%s.weights", base);
  }
  if (!abi_check_prims(c->arena, m)) return false;
  if ((kinds & BIT(EMIT_HEADER)) &&
      !write_header(c, m, prefix, input, output_path(c, o, input, EMIT_HEADER)))
    return false;
  uint32_t libraries = BIT(EMIT_ARCHIVE) | BIT(EMIT_SHARED);
  bool weights_written = false;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    bool wanted = kinds & BIT(codes[i].emit);
    bool linked = codes[i].emit == EMIT_OBJECT && (kinds & libraries);
    if (!wanted && !linked) continue;
    CodePieces code = {0}, weights = {0};
    co.kind = codes[i].code;
    if (!codegen_emit(m, target, &co, c->arena, &code, &weights)) return false;
    /* The same for each kind of code: written once. */
    bool ok = !weights.n || weights_written || write_pieces(c, co.external, &weights);
    weights_written = true;
    ok = ok && (!wanted || write_pieces(c, output_path(c, o, input, codes[i].emit), &code));
    if (ok && linked && (kinds & BIT(EMIT_ARCHIVE)))
      ok = link_archive(c, &code, prefix, output_path(c, o, input, EMIT_ARCHIVE));
    if (ok && linked && (kinds & BIT(EMIT_SHARED)))
      ok = link_shared(c, &code, prefix, target->threads, output_path(c, o, input, EMIT_SHARED));
    if (!ok) return false;
  }
  return true;
}

/* ---- stages ---- */

bool driver_ready(const Module *m, const Options *o, uint32_t state) {
  Diags *d = m->ctx->diags;
  static const struct {
    uint32_t bit;
    const char *words;
  } needs[] = {{STATE_LEGAL, "operators are left (LegalizeOps)"},
               {STATE_SCHEDULED, "prim_funcs are not scheduled (ScheduleTIR)"}};
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
    if (!(state & needs[i].bit)) {
      diag_error(d, SPAN_NONE, "the pipeline of --passes does not lead to code: %s",
                 needs[i].words);
      return false;
    }
  if (o->check_bounds || !m->out_of_bounds || !diags_warns(d, WARN_INDEX_BOUNDS)) return true;
  diag_error(d, SPAN_NONE,
             "code that surely leaves its buffers is not made: see the warnings; -fsanitize=bounds "
             "checks when it runs, -Wno-index-bounds lets it be");
  return false;
}

/* The default pipeline up to the pass that schedules, with or without it. */
static const char *pipeline_to_schedule(Arena *a, int level, bool with) {
  const char *all = pipeline_default(level), *p = all;
  while (*p) {
    size_t n = strcspn(p, ",");
    int id = pass_find(arena_strndup(a, p, n));
    bool schedules = id >= 0 && (pass_table[id].gives & STATE_SCHEDULED);
    if (schedules && !with) break;
    p += n;
    if (schedules) return arena_strndup(a, all, (size_t)(p - all));
    while (*p == ',' || *p == ' ') p++;
  }
  while (p > all && (p[-1] == ',' || p[-1] == ' ')) p--;
  return arena_strndup(a, all, (size_t)(p - all));
}

static bool emit_stage(Context *c, const Options *o, const Target *target, const char *input,
                       uint32_t kinds) {
  uint32_t state = 0;
  Module *m = driver_read(c, o, input);
  if (!m) return false;
  if (o->syntax_only) return true;
  if (kinds & (BIT(EMIT_RELAX) | EMIT_PICTURE)) {
    /* As parsed; after passes only when some were named. */
    bool asked = o->passes || o->stop_after || o->weights || o->binds.n;
    const char *passes = asked && !o->passes && !o->stop_after
                             ? "Normalize, BindSymbolicVars, BindParams"
                             : o->passes;
    if (asked && !driver_passes(c, m, o, target, passes, o->stop_after, &state)) return false;
    if ((kinds & BIT(EMIT_RELAX)) && !write_module(c, m, o, output_path(c, o, input, EMIT_RELAX)))
      return false;
    for (int k = EMIT_DOT; k <= EMIT_JSON; k++)
      if ((kinds & BIT(k)) &&
          !write_picture(c, m, (EmitKind)k, output_path(c, o, input, (EmitKind)k)))
        return false;
    return true;
  }
  const char *passes = o->passes;
  if ((kinds == BIT(EMIT_TIR) || kinds == BIT(EMIT_LOOPS)) && !passes && !o->stop_after)
    passes = pipeline_to_schedule(c->arena, o->level, kinds == BIT(EMIT_LOOPS));
  if (!driver_passes(c, m, o, target, passes, o->stop_after, &state)) return false;
  if (kinds == BIT(EMIT_TIR) || kinds == BIT(EMIT_LOOPS)) {
    EmitKind k = kinds == BIT(EMIT_TIR) ? EMIT_TIR : EMIT_LOOPS;
    return write_module(c, m, o, output_path(c, o, input, k));
  }
  return driver_ready(m, o, state) && write_code(c, m, o, target, input, kinds);
}

static int compile_one(const Options *o, const char *input) {
  static const uint32_t stages[] = {BIT(EMIT_RELAX) | EMIT_PICTURE, BIT(EMIT_TIR), BIT(EMIT_LOOPS),
                                    EMIT_CODE};
  Context *c = driver_begin(o);
  Target target;
  bool ok = driver_target(c, o, NULL, &target);
  if (ok && o->syntax_only)
    ok = emit_stage(c, o, &target, input, BIT(EMIT_RELAX));
  else
    for (size_t i = 0; i < sizeof stages / sizeof *stages && ok; i++)
      if (o->emit & stages[i]) ok = emit_stage(c, o, &target, input, o->emit & stages[i]);
  ok = ok && write_deps(c, o, input);
  if (!ok && !diags_errors(c->diags)) bug("'%s' failed without a message", input);
  return driver_end(c, o);
}

int driver_compile(const Options *o) {
  int code = 0;
  for (uint32_t i = 0; i < o->inputs.n; i++) code |= compile_one(o, o->inputs.at[i]);
  return code;
}

static void format_one(Context *c, const Options *o, const char *input) {
  Module *m = driver_read(c, o, input);
  if (!m) return;
  const SourceFile *source = sources_file(c->sources, m->file);
  PrintMarks marks = {.arena = c->arena};
  Text t = {0};
  module_print_marked(&t, m, o->dialect, &marks);
  comments_keep(c->arena, source, &marks, &t);
  bool same = t.n == source->size && memcmp(t.s, source->text, t.n) == 0;
  if (o->check_only && !same)
    diag_error(c->diags, SPAN_NONE,
               "'%s' is not in its canonical form; 'relaxc fmt -i' makes it so", input);
  else if (!o->check_only && !(o->in_place && same && strcmp(input, "-") != 0))
    (void)write_bytes(c, o->in_place ? input : o->output ? o->output : "-", text_cstr(&t), t.n);
  text_free(&t);
}

int driver_fmt(const Options *o) {
  int code = 0;
  for (uint32_t i = 0; i < o->inputs.n; i++) {
    Context *c = driver_begin(o);
    format_one(c, o, o->inputs.at[i]);
    code |= driver_end(c, o);
  }
  return code;
}

int driver_list(const Options *o) {
  Text t = {0};
  int code = 0;
  if (o->list_passes) pass_print_list(&t);
  if (o->list_ops) op_print_list(&t);
  if (o->help_op) {
    const char *name = strncmp(o->help_op, "R.", 2) == 0 ? o->help_op + 2 : o->help_op;
    if (!op_print_help(name, &t)) {
      const char *near = op_nearest(name);
      fprintf(stderr, "relaxc: error: unknown operator '%s'", o->help_op);
      if (near) fprintf(stderr, "; did you mean '%s'?", near);
      fputc('\n', stderr);
      code = 2;
    }
  }
  fputs(text_cstr(&t), stdout);
  text_free(&t);
  return code;
}
