/* Stages, groups and what emits them: the structured half of the scheduler. */
#ifndef RELAXC_PASSES_LOOP_SCHEDULE_H
#define RELAXC_PASSES_LOOP_SCHEDULE_H

#include "passes/loop/loop.h"

/* The whole body of lc->f as lowered loops. */
Stmt *schedule_body(LoopCtx *lc);

#endif
