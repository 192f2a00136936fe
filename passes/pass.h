/* The pass table and its runner.
 *
 * One row per pass in passes/passes.def, one file per pass. The runner checks that a pipeline's
 * needs are met and gives each pass verify, time, print, stop and function filters for free.
 */
#ifndef RELAXC_PASSES_PASS_H
#define RELAXC_PASSES_PASS_H

#include "codegen/target.h"
#include "ir/module.h"

/* States a pass may need, give or break. */
enum {
  STATE_NORMAL = 1 << 0,    /* A-normal form with struct info everywhere */
  STATE_LEGAL = 1 << 1,     /* no operator left: call_tir and memory forms only */
  STATE_PATTERNS = 1 << 2,  /* op_pattern on every prim_func */
  STATE_GROUPED = 1 << 3,   /* Primitive functions formed by FuseOps exist */
  STATE_SCHEDULED = 1 << 4, /* prim_funcs are lowered loops for the target */
  STATE_DPS = 1 << 5,       /* destination passing: allocations explicit */
  STATE_PLANNED = 1 << 6,   /* memory planned */
};

/* Everything that a pass may read beside the module. */
typedef struct PassCtx {
  Context *c;
  Module *m;
  Arena *scratch;       /* freed after the pass */
  const Attr *options;  /* dict of this pass's options or NULL */
  const StrMap *only;   /* names of the functions to touch; NULL: all */
  const Target *target; /* what is compiled for */
  int opt_level;
  bool fast_math;
  /* for BindSymbolicVars / BindParams without explicit options: */
  const struct PassBindings *bindings;
  bool remarks; /* -Rpass: diag remarks welcome */
} PassCtx;

typedef struct PassBindings {
  VEC(struct {
    const char *func;
    const char *name;
    int64_t value;
  })
  dims; /* func NULL: any */
  /* name -> ConstData*, from --weights; NULL when none */
  const StrMap *weights;
  const char *weights_file;
} PassBindings;

/* Whether the pass should touch this function (--only / P@func). */
bool pass_wants(const PassCtx *pc, const char *func_name);

/* Returns false after reporting an error. */
typedef bool (*PassFn)(PassCtx *pc);

typedef struct {
  const char *name;  /* TVM's: "FuseOps" */
  const char *level; /* "graph", "tensor", "memory" */
  uint32_t needs, gives, breaks;
  PassFn run;
  const char *options; /* "fuse_opt_level: int = -1" or "" */
  const char *summary;
} PassInfo;

enum {
#define PASS(id, ...) PASS_##id,
#include "passes/passes.def"
#undef PASS
  PASS_COUNT
};
extern const PassInfo pass_table[PASS_COUNT];
int pass_find(const char *name); /* -1 */

typedef struct PipelineOptions {
  const char *pipeline;   /* --passes text, NULL: the default for the opt level */
  const char *stop_after; /* --stop-after */
  const char *const *print_before, *const *print_after; /* names or "all" */
  uint32_t nprint_before, nprint_after;
  bool print_changed, time_passes, verify_each;
  const char *const *only; /* --only */
  uint32_t nonly;
  const Target *target;
  int opt_level;
  bool fast_math, remarks;
  int dialect; /* for printed modules */
  const PassBindings *bindings;
} PipelineOptions;

/* Parses the pipeline (names, options as JSON values in parentheses, P@func), checks names, options
 * and needs (errors in words: which pass needs what, and which pass gives it), runs it. Returns
 * false after an error. *state gets the states that hold at the end. */
bool pipeline_run(Module *m, const PipelineOptions *o, uint32_t *state);
/* Text of the default pipeline for an opt level: names separated by commas. */
const char *pipeline_default(int opt_level);
void pass_print_list(Text *out);

#endif
