/* The built-in threads (crew.c). Internal to the runtime library. */
#ifndef RELAXRT_CREW_H
#define RELAXRT_CREW_H

#include "runtime/relaxrt.h"

#include <stdbool.h>

/* Runs task(arg, i) once for each i in [0, n) in the calling thread and up to `threads - 1` others,
 * which are started at the first call. False when nothing was run: the crew is busy, there are no
 * threads to be had, or n is beyond 2^31. */
bool relaxrt_crew_run(int threads, RxTask task, void *arg, int64_t n);
/* Whether the threads were started: their number is settled then. */
bool relaxrt_crew_started(void);

#endif
