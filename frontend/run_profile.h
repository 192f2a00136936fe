/* `relaxc run --profile`: the events of the runtime's hook, as a table and as a trace. */
#ifndef RELAXC_FRONTEND_RUN_PROFILE_H
#define RELAXC_FRONTEND_RUN_PROFILE_H

#include "ir/base/map.h"
#include "ir/base/vec.h"
#include "ir/context.h"

typedef struct {
  const char *function, *kernel;
  int64_t begin, end; /* nanoseconds */
} ProfileEvent;

typedef struct {
  Arena *arena;
  VEC(ProfileEvent) events;
} Profile;

/* An RxProfileHook; user is the Profile. */
void profile_event(void *user, const char *function, const char *kernel, int64_t begin,
                   int64_t end);
/* Prints calls and times by kernel to stderr, the longest first; with a file name also writes a
 * trace in the "trace event" format of browsers. False after an error. */
bool profile_report(Context *c, const Profile *p, const char *trace_file);

#endif
