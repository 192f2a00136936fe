/* The command line, parsed. The table of options is frontend/options.def. */
#ifndef RELAXC_FRONTEND_OPTIONS_H
#define RELAXC_FRONTEND_OPTIONS_H

#include "ir/base/diag.h"
#include "ir/base/vec.h"
#include "ir/print.h"

enum { COMMAND_COMPILE = 1, COMMAND_RUN = 2, COMMAND_EVAL = 4, COMMAND_FMT = 8 };

typedef enum {
#define OPTION(id, ...) OPT_##id,
#define REFUSED(...)
#include "frontend/options.def"
#undef OPTION
#undef REFUSED
  OPT_COUNT
} OptionId;

/* Kinds of output, in the order in which they are made. */
typedef enum {
  EMIT_RELAX,
  EMIT_TIR,
  EMIT_LOOPS,
  EMIT_DOT,
  EMIT_SVG,
  EMIT_JSON,
  EMIT_HEADER,
  EMIT_LLVM,
  EMIT_BITCODE,
  EMIT_ASM,
  EMIT_OBJECT,
  EMIT_ARCHIVE,
  EMIT_SHARED,
  EMIT_COUNT
} EmitKind;

/* Suffix of an output of that kind, with the dot. */
extern const char *const emit_suffixes[EMIT_COUNT];

typedef VEC(const char *) StrVec;

typedef struct {
  const char *func; /* NULL: every function */
  const char *name;
  int64_t value;
} BindOption;

typedef struct {
  const char *name, *value; /* --input NAME=VALUE */
} InputOption;

typedef struct {
  int command;
  StrVec inputs;
  /* output */
  const char *output; /* -o, NULL: by default */
  uint32_t emit;      /* set of 1 << EmitKind; never 0 for COMMAND_COMPILE unless syntax_only */
  bool emit_given;    /* by --emit, -c, -S, -shared or the suffix of -o */
  bool syntax_only;
  bool in_place, check_only; /* fmt: -i, --check */
  const char *prefix;
  Dialect dialect;
  bool deps;
  const char *deps_file, *deps_target;
  /* code */
  int level;
  bool debug, no_threads, fast_math, no_pic, profile, check_bounds;
  const char *target, *march, *mattr;
  int jobs;
  /* specialisation */
  VEC(BindOption) binds;
  const char *weights;
  bool external_weights; /* --weights-mode=external */
  /* passes */
  const char *passes, *stop_after;
  StrVec only, print_before, print_after;
  bool print_changed, time_passes, verify_each;
  bool list_passes, list_ops;
  const char *help_op;
  /* diagnostics */
  DiagOptions diag;
  signed char warnings[WARN_COUNT]; /* 1: turned on, -1: off, 0: neither */
  bool remarks, no_check;
  const char *remarks_file; /* --remarks */
  /* running */
  const char *entry, *run_output;
  VEC(InputOption) run_inputs;
  StrVec libraries; /* --load */
  bool random;
  uint64_t seed;
  int64_t repeat;           /* 0: not given */
  const char *profile_file; /* --profile=FILE, or NULL */
} Options;

typedef enum {
  OPTIONS_OK,
  OPTIONS_DONE /* help was printed */,
  OPTIONS_WRONG /* exit 2 */
} OptionsStatus;

/* Parses the arguments (argv[0] is skipped); messages go to stderr. Strings live in the arena. */
OptionsStatus options_parse(Arena *a, int argc, char **argv, Options *out);

void options_print_help(Text *t);
void options_print_man(Text *t);        /* troff, section 1 */
void options_print_completion(Text *t); /* for bash */

#endif
