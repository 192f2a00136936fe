/* The parser of the command line, in cc's manner.
 *
 * Options may stand anywhere; `--` ends them; @FILE is replaced by the words of FILE. A name is
 * looked up in the table; its form says where the value stands. A wrong word gives one message and
 * exit code 2, with the nearest name for a misspelling. Help texts are in options_help.c.
 */
#include "frontend/options.h"

#include "frontend/npy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { FLAG, JOINED, EITHER, EQUALS, LONG, OPTIONAL, TOGGLE } Form;

static const struct {
  const char *name;
  Form form;
  int commands;
} table[] = {
#define OPTION(id, name, form, metavar, commands, group, help) {name, form, commands},
#define REFUSED(...)
#include "frontend/options.def"
#undef OPTION
#undef REFUSED
};

static const struct {
  const char *name, *why;
} refused[] = {
#define OPTION(...)
#define REFUSED(name, why) {name, why},
#include "frontend/options.def"
#undef OPTION
#undef REFUSED
};

enum { REFUSED_COUNT = sizeof refused / sizeof refused[0] };

const char *const emit_suffixes[EMIT_COUNT] = {".rx", ".rx", ".rx", ".dot", ".svg", ".json", ".h",
                                               ".ll", ".bc", ".s",  ".o",   ".a",   ".so"};

static const char *const emit_names[EMIT_COUNT] = {"relax", "tir",     "loops", "dot", "svg",
                                                   "json",  "header",  "llvm",  "bc",  "asm",
                                                   "obj",   "archive", "shared"};

typedef struct {
  Arena *arena;
  Options *o;
  StrVec words;
  uint32_t at;
} Parser;

static bool wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static bool wrong(const char *fmt, ...) {
  va_list ap;
  Text t = {0};
  va_start(ap, fmt);
  text_vprintf(&t, fmt, ap);
  va_end(ap);
  fprintf(stderr, "relaxc: error: %s\n", text_cstr(&t));
  text_free(&t);
  return false;
}

/* ---- words ---- */

static bool push_word(Parser *p, const char *word, int depth);

/* The words of a response file: separated by white space, quoted by ' or ", \ escapes. */
static bool push_file(Parser *p, const char *path, int depth) {
  const void *bytes;
  uint64_t size;
  const char *error;
  if (depth > 10) return wrong("response files nest too deeply: '@%s'", path);
  if (!file_load(p->arena, path, &bytes, &size, NULL, &error))
    return wrong("response file %s", error);
  const char *s = bytes, *end = s + size;
  Text word = {0};
  bool ok = true, inside = false;
  char quote = 0;
  for (; s < end && ok; s++) {
    bool space = *s == ' ' || *s == '\t' || *s == '\n' || *s == '\r';
    if (!quote && space) {
      if (inside) ok = push_word(p, arena_strndup(p->arena, text_cstr(&word), word.n), depth);
      text_clear(&word);
      inside = false;
      continue;
    }
    inside = true;
    if (*s == '\\' && quote != '\'' && s + 1 < end)
      text_putc(&word, *++s);
    else if (quote && *s == quote)
      quote = 0;
    else if (!quote && (*s == '\'' || *s == '"'))
      quote = *s;
    else
      text_putc(&word, *s);
  }
  if (ok && quote) ok = wrong("response file '%s': unclosed quote", path);
  if (ok && inside) ok = push_word(p, arena_strndup(p->arena, text_cstr(&word), word.n), depth);
  text_free(&word);
  return ok;
}

static bool push_word(Parser *p, const char *word, int depth) {
  if (word[0] == '@' && word[1]) return push_file(p, word + 1, depth + 1);
  vec_push(p->arena, &p->words, word);
  return true;
}

/* ---- values ---- */

static bool get_number(const char *option, const char *s, int64_t low, int64_t high, int64_t *out) {
  char *end;
  long long v = strtoll(s, &end, 10);
  char text[32];
  (void)snprintf(text, sizeof text, "%lld", v);
  /* The round trip refuses overflow, white space, "+1" and "". */
  if (*end || strcmp(text, s) != 0 || v < low || v > high)
    return wrong("option '%s': expected a number from %lld to %lld but got '%s'", option,
                 (long long)low, (long long)high, s);
  *out = v;
  return true;
}

/* Splits at commas; empty pieces are wrong. */
static bool get_list(Parser *p, const char *option, const char *s, StrVec *out) {
  for (;;) {
    const char *comma = strchr(s, ',');
    size_t n = comma ? (size_t)(comma - s) : strlen(s);
    if (!n) return wrong("option '%s': empty name in the list", option);
    vec_push(p->arena, out, arena_strndup(p->arena, s, n));
    if (!comma) return true;
    s = comma + 1;
  }
}

static bool get_choice(const char *option, const char *s, const char *const *names, size_t n,
                       int *out) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(names[i], s) == 0) {
      *out = (int)i;
      return true;
    }
  Text all = {0};
  for (size_t i = 0; i < n; i++) text_printf(&all, "%s%s", i ? ", " : "", names[i]);
  const char *near = text_nearest(s, names, n);
  if (near)
    wrong("option '%s': unknown value '%s'; did you mean '%s'?", option, s, near);
  else
    wrong("option '%s': unknown value '%s' (it can be: %s)", option, s, text_cstr(&all));
  text_free(&all);
  return false;
}
#define CHOICE(option, s, names, out)                                                              \
  get_choice(option, s, names, sizeof names / sizeof *names, out)

static bool get_emit(Parser *p, const char *s) {
  StrVec kinds = {0};
  if (!get_list(p, "--emit", s, &kinds)) return false;
  for (uint32_t i = 0; i < kinds.n; i++) {
    int k;
    if (!CHOICE("--emit", kinds.at[i], emit_names, &k)) return false;
    p->o->emit |= 1u << k;
  }
  p->o->emit_given = true;
  return true;
}

static bool get_bind(Parser *p, const char *s) {
  const char *eq = strchr(s, '=');
  BindOption b = {0};
  if (!eq || eq == s) return wrong("option '--bind': expected [FUNC.]DIM=N but got '%s'", s);
  const char *name = arena_strndup(p->arena, s, (size_t)(eq - s)), *dot = strrchr(name, '.');
  if (dot) b.func = arena_strndup(p->arena, name, (size_t)(dot - name));
  b.name = dot ? dot + 1 : name;
  if (!*b.name || (b.func && !*b.func))
    return wrong("option '--bind': expected [FUNC.]DIM=N but got '%s'", s);
  if (!get_number("--bind", eq + 1, 0, INT64_MAX, &b.value)) return false;
  vec_push(p->arena, &p->o->binds, b);
  return true;
}

static bool get_input(Parser *p, const char *s) {
  const char *eq = strchr(s, '=');
  if (!eq || eq == s || !eq[1])
    return wrong("option '--input': expected NAME=VALUE but got '%s'", s);
  InputOption in = {arena_strndup(p->arena, s, (size_t)(eq - s)), eq + 1};
  for (uint32_t i = 0; i < p->o->run_inputs.n; i++)
    if (strcmp(p->o->run_inputs.at[i].name, in.name) == 0)
      return wrong("option '--input': '%s' is given twice", in.name);
  vec_push(p->arena, &p->o->run_inputs, in);
  return true;
}

static bool add_emit(Options *o, EmitKind k) {
  o->emit |= 1u << k;
  o->emit_given = true;
  return true;
}

/* A -f option with and without "no-": `no` is whether "no-" was written. */
static bool apply_toggle(Options *o, OptionId id, bool no) {
  switch ((int)id) {
  case OPT_THREADS: o->no_threads = no; break;
  case OPT_FAST_MATH: o->fast_math = !no; break;
  case OPT_PIC:
  case OPT_PIC_SMALL: o->no_pic = no; break;
  case OPT_CHECK: o->no_check = no; break;
  case OPT_PROFILING: o->profile = !no; break;
  }
  return true;
}

static bool print_done(void (*print)(Text *t)) {
  Text t = {0};
  print(&t);
  fputs(text_cstr(&t), stdout);
  text_free(&t);
  return true;
}

/* -WNAME and -Wno-NAME; the last word about a warning counts. */
static bool set_warning(Options *o, const char *option, const char *v, bool on) {
  const char *names[WARN_COUNT];
  int k;
  for (int w = 0; w < WARN_COUNT; w++) names[w] = warning_name((Warning)w);
  if (!get_choice(option, v, names, WARN_COUNT, &k)) return false;
  o->warnings[k] = on ? 1 : -1;
  return true;
}

static bool apply(Parser *p, OptionId id, const char *v, bool *done) {
  Options *o = p->o;
  const char *name = table[id].name;
  int64_t n;
  int k;
  switch (id) {
  case OPT_OUTPUT:
    if (!*v) return wrong("option '-o': the file name is empty");
    o->output = v;
    return true;
  case OPT_COMPILE: return add_emit(o, EMIT_OBJECT);
  case OPT_ASSEMBLY: return add_emit(o, EMIT_ASM);
  case OPT_SHARED: return add_emit(o, EMIT_SHARED);
  case OPT_SYNTAX_ONLY: o->syntax_only = true; return true;
  case OPT_IN_PLACE: o->in_place = true; return true;
  case OPT_FMT_CHECK: o->check_only = true; return true;
  case OPT_EMIT: return get_emit(p, v);
  case OPT_PREFIX:
    for (const char *c = v; *c; c++)
      if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", *c) ||
          (c == v && *c >= '0' && *c <= '9'))
        return wrong("option '--prefix': '%s' is not a C identifier", v);
    if (!*v) return wrong("option '--prefix': the name is empty");
    o->prefix = v;
    return true;
  case OPT_DIALECT:
    if (dialect_parse(v, &o->dialect)) return true;
    return wrong("option '--dialect': unknown dialect '%s' (it can be: today, earlier)", v);
  case OPT_MD: o->deps = true; return true;
  case OPT_MF: o->deps_file = v; return true;
  case OPT_MT: o->deps_target = v; return true;
  case OPT_LEVEL: {
    static const char *const levels[] = {"0", "1", "2", "3"};
    if (!*v) v = "1"; /* as cc */
    if (strlen(v) != 1 || *v < '0' || *v > '3') return CHOICE("-O", v, levels, &k);
    o->level = *v - '0';
    return true;
  }
  case OPT_SANITIZE: {
    static const char *const checks[] = {"bounds"};
    if (!CHOICE(name, v, checks, &k)) return false;
    o->check_bounds = true;
    return true;
  }
  case OPT_DEBUG: o->debug = true; return true;
  case OPT_TARGET: o->target = v; return true;
  case OPT_MARCH: o->march = v; return true;
  case OPT_MATTR: o->mattr = v; return true;
  case OPT_JOBS:
    if (!get_number(name, v, 1, 1024, &n)) return false;
    o->jobs = (int)n;
    return true;
  case OPT_BIND: return get_bind(p, v);
  case OPT_WEIGHTS: o->weights = v; return true;
  case OPT_WEIGHTS_MODE: {
    static const char *const modes[] = {"embed", "external"};
    if (!CHOICE(name, v, modes, &k)) return false;
    o->external_weights = k == 1;
    return true;
  }
  case OPT_PASSES: o->passes = v; return true;
  case OPT_LIST_PASSES: o->list_passes = true; return true;
  case OPT_ONLY: return get_list(p, name, v, &o->only);
  case OPT_STOP_AFTER: o->stop_after = v; return true;
  case OPT_PRINT_BEFORE: return get_list(p, name, v, &o->print_before);
  case OPT_PRINT_AFTER: return get_list(p, name, v, &o->print_after);
  case OPT_PRINT_CHANGED: o->print_changed = true; return true;
  case OPT_TIME_PASSES: o->time_passes = true; return true;
  case OPT_VERIFY_EACH: o->verify_each = true; return true;
  case OPT_LIST_OPS: o->list_ops = true; return true;
  case OPT_HELP_OP: o->help_op = v; return true;
  case OPT_DIAG_FORMAT: {
    static const char *const formats[] = {"text", "json", "sarif"}; /* order of DiagFormat */
    if (!CHOICE(name, v, formats, &k)) return false;
    o->diag.format = (DiagFormat)k;
    return true;
  }
  case OPT_DIAG_COLOR: {
    static const char *const when[] = {"auto", "always", "never"};
    if (!CHOICE(name, v, when, &k)) return false;
    o->diag.color = k == 1 || (k == 0 && isatty(STDERR_FILENO));
    return true;
  }
  case OPT_ERROR_LIMIT:
    if (!get_number(name, v, 0, 1000000, &n)) return false;
    o->diag.error_limit = (uint32_t)n;
    return true;
  case OPT_WERROR: o->diag.werror = true; return true;
  case OPT_WALL: memset(o->warnings, 1, sizeof o->warnings); return true;
  case OPT_WARN:
  case OPT_WNO: return set_warning(o, name, v, id == OPT_WARN);
  case OPT_RPASS: o->remarks = true; return true;
  case OPT_REMARKS:
    o->remarks = true;
    o->remarks_file = v;
    return true;
  case OPT_ENTRY: o->entry = v; return true;
  case OPT_INPUT: return get_input(p, v);
  case OPT_RUN_OUTPUT: o->run_output = v; return true;
  case OPT_LOAD: vec_push(p->arena, &o->libraries, v); return true;
  case OPT_RANDOM:
    o->random = true;
    if (!*v) return true;
    if (!get_number(name, v, 0, INT64_MAX, &n)) return false;
    o->seed = (uint64_t)n;
    return true;
  case OPT_PROFILE:
    o->profile = true;
    o->profile_file = *v ? v : NULL;
    return true;
  case OPT_REPEAT: return get_number(name, v, 1, 1000000000, &o->repeat);
  case OPT_HELP:
  case OPT_HELP_SHORT: return *done = print_done(options_print_help);
  case OPT_HELP_MAN: return *done = print_done(options_print_man);
  case OPT_HELP_COMPLETION: return *done = print_done(options_print_completion);
  case OPT_VERSION: puts("relaxc " RELAXC_VERSION); return *done = true;
  case OPT_THREADS:
  case OPT_FAST_MATH:
  case OPT_PIC:
  case OPT_PIC_SMALL:
  case OPT_CHECK:
  case OPT_PROFILING:
  case OPT_COUNT: break;
  }
  bug("option '%s' has no action", name);
}

/* ---- names ---- */

static const char *next_word(Parser *p) {
  return p->at < p->words.n ? p->words.at[p->at++] : NULL;
}

/* Does `word` spell row i? *value gets the value that stands in the word, or NULL. */
static bool matches(int i, const char *word, const char **value, bool *no) {
  const char *name = table[i].name;
  size_t n = strlen(name);
  *value = NULL;
  *no = false;
  switch (table[i].form) {
  case FLAG: return strcmp(word, name) == 0;
  case JOINED: *value = word + n; return strncmp(word, name, n) == 0;
  case EITHER:
    if (strncmp(word, name, n) != 0) return false;
    if (word[n]) *value = word + n;
    return true;
  case EQUALS:
  case LONG:
  case OPTIONAL:
    if (strncmp(word, name, n) != 0 || (word[n] && word[n] != '=')) return false;
    if (word[n]) *value = word + n + 1;
    return true;
  case TOGGLE: {
    const char *base = name + 2 + (strncmp(name + 2, "no-", 3) == 0 ? 3 : 0);
    if (strncmp(word, "-f", 2) != 0) return false;
    *no = strncmp(word + 2, "no-", 3) == 0;
    return strcmp(word + 2 + (*no ? 3 : 0), base) == 0;
  }
  }
  return false;
}

/* The row of a word; the longest name wins. -1: unknown. As with cc, "-oNAME" is -o NAME whatever
 * NAME may look like. */
static int find_row(const char *word, const char **value, bool *no) {
  int best = -1;
  size_t length = 0;
  for (int i = 0; i < OPT_COUNT; i++) {
    const char *v;
    bool negative;
    size_t n = strlen(table[i].name);
    if (!matches(i, word, &v, &negative) || n < length) continue;
    best = i;
    length = n;
    *value = v;
    *no = negative;
  }
  return best;
}

static bool unknown_option(const char *word) {
  const char *names[OPT_COUNT + REFUSED_COUNT + 1];
  size_t n = 0, length = strcspn(word, "=");
  char bare[64];
  for (int i = 0; i < REFUSED_COUNT; i++)
    if (strlen(refused[i].name) == length && strncmp(word, refused[i].name, length) == 0)
      return wrong("option '%.*s': %s", (int)length, word, refused[i].why);
  for (int i = 0; i < OPT_COUNT; i++) names[n++] = table[i].name;
  (void)snprintf(bare, sizeof bare, "%.*s", (int)length, word);
  const char *near = text_nearest(bare, names, n);
  /* One dash too few is the most common slip. */
  char doubled[66];
  (void)snprintf(doubled, sizeof doubled, "-%s", bare);
  for (size_t i = 0; i < n; i++)
    if (strcmp(names[i], doubled) == 0) near = names[i];
  if (near) return wrong("unknown option '%s'; did you mean '%s'?", word, near);
  return wrong("unknown option '%s'", word);
}

static const char *command_name(int command) {
  return command == COMMAND_RUN    ? "relaxc run"
         : command == COMMAND_EVAL ? "relaxc eval"
         : command == COMMAND_FMT  ? "relaxc fmt"
                                   : "relaxc";
}

static bool parse_option(Parser *p, const char *word, bool *done) {
  const char *value = NULL;
  bool no = false;
  int i = find_row(word, &value, &no);
  if (i < 0) return unknown_option(word);
  const char *name = table[i].name;
  if (!(table[i].commands & p->o->command))
    return wrong("option '%s' has no meaning for '%s'", name, command_name(p->o->command));
  switch (table[i].form) {
  case FLAG: value = ""; break;
  case TOGGLE: return apply_toggle(p->o, (OptionId)i, no);
  case OPTIONAL:
    if (!value) value = "";
    break;
  case JOINED:
    if ((i == OPT_WARN || i == OPT_WNO) && !*value) return unknown_option(word);
    break;
  case EQUALS:
    if (!value) return wrong("option '%s' needs a value: %s=...", name, name);
    break;
  case EITHER:
  case LONG:
    if (!value && !(value = next_word(p))) return wrong("option '%s' needs a value", name);
    break;
  }
  if (table[i].form == LONG && !*value && i != OPT_PASSES)
    return wrong("option '%s' needs a value", name);
  return apply(p, (OptionId)i, value, done);
}

/* ---- what follows from several options ---- */

static void pick_kind_by_suffix(Options *o) {
  const char *slash = o->output ? strrchr(o->output, '/') : NULL;
  const char *dot = o->output ? strrchr(slash ? slash : o->output, '.') : NULL;
  o->emit = 1u << (o->stop_after || o->passes ? EMIT_RELAX : EMIT_OBJECT);
  if (!dot) return;
  for (int k = 0; k < EMIT_COUNT; k++)
    if (strcmp(dot, emit_suffixes[k]) == 0) {
      o->emit = 1u << k; /* .rx: relax, the first */
      o->emit_given = true;
      break;
    }
}

static bool settle(Options *o) {
  if (o->list_passes || o->list_ops || o->help_op) return true;
  if (!o->inputs.n) return wrong("no input file");
  bool fmt_many = o->command == COMMAND_FMT && (o->in_place || o->check_only);
  if (o->inputs.n > 1 && o->command != COMMAND_COMPILE && !fmt_many)
    return wrong("'%s' takes one input file", command_name(o->command));
  if (fmt_many && o->output) return wrong("'-i' and '--check' leave nothing for '-o'");
  if (o->in_place && o->check_only) return wrong("'--check' writes nothing, '-i' does");
  if (o->command != COMMAND_COMPILE) return true;
  if (o->profile && o->no_threads)
    return wrong("'-fprofile' needs the runtime library, which '-fno-threads' leaves out");
  if (o->external_weights && o->no_threads)
    return wrong("external weights need the runtime library, which '-fno-threads' leaves out");
  if (!o->emit_given) pick_kind_by_suffix(o);
  bool several = o->inputs.n > 1;
  if (several && o->output) return wrong("'-o' can't name the outputs of several inputs");
  if (several && o->prefix) return wrong("'--prefix' can't serve several inputs");
  if (several && o->remarks_file) return wrong("'--remarks' can't serve several inputs");
  if (several && o->deps_file) return wrong("'-MF' can't serve several inputs");
  if (o->output && strcmp(o->output, "-") == 0 && (o->emit & (o->emit - 1)))
    return wrong("several kinds can't all go to standard output");
  if ((o->emit & 1u << EMIT_SHARED) && o->no_pic)
    return wrong("a shared library needs position-independent code");
  if (o->stop_after && o->emit >= 1u << EMIT_HEADER)
    return wrong("after '--stop-after' only text of the program can be written");
  return true;
}

OptionsStatus options_parse(Arena *a, int argc, char **argv, Options *out) {
  Parser p = {.arena = a, .o = out};
  *out = (Options){.command = COMMAND_COMPILE, .level = 2, .jobs = 1};
  out->diag.error_limit = 20;
  out->diag.color = isatty(STDERR_FILENO);
  for (int i = 1; i < argc; i++)
    if (!push_word(&p, argv[i], 0)) return OPTIONS_WRONG;
  static const struct {
    const char *name;
    int command;
  } commands[] = {{"run", COMMAND_RUN}, {"eval", COMMAND_EVAL}, {"fmt", COMMAND_FMT}};
  if (p.words.n && strcmp(p.words.at[0], "import") == 0) {
    wrong("command 'import': importing models is not supported by this version");
    return OPTIONS_WRONG;
  }
  for (size_t i = 0; i < sizeof commands / sizeof *commands && p.words.n; i++)
    if (strcmp(p.words.at[0], commands[i].name) == 0) {
      out->command = commands[i].command;
      p.at = 1;
      break;
    }
  bool done = false, only_files = false;
  for (const char *word; !done && (word = next_word(&p));) {
    if (only_files || word[0] != '-' || !word[1]) {
      if (!*word) {
        wrong("the name of an input file is empty");
        return OPTIONS_WRONG;
      }
      vec_push(a, &out->inputs, word);
    } else if (strcmp(word, "--") == 0) {
      only_files = true;
    } else if (!parse_option(&p, word, &done)) {
      return OPTIONS_WRONG;
    }
  }
  if (done) return OPTIONS_DONE;
  return settle(out) ? OPTIONS_OK : OPTIONS_WRONG;
}
