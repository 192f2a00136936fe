/* From a prim_func's body to lowered loops: the order of the steps. */
#include "passes/loop/schedule.h"

Stmt *schedule_body(LoopCtx *lc) { return lower_blocks(lc, lc->f->body); }
