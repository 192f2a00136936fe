/* The compiler's commands, each from options to an exit code. */
#ifndef RELAXC_FRONTEND_DRIVER_H
#define RELAXC_FRONTEND_DRIVER_H

#include "frontend/options.h"
#include "ir/module.h"
#include "passes/pass.h"

/* `relaxc INPUT...` and `relaxc fmt INPUT`. */
int driver_compile(const Options *o);
int driver_fmt(const Options *o);
/* `relaxc run` and `relaxc eval` (frontend/run.c). */
int driver_run(const Options *o);
int driver_eval(const Options *o);
/* --list-passes, --list-ops, --help-op. */
int driver_list(const Options *o);

/* A session with the options' diagnostics. */
Context *driver_begin(const Options *o);
/* Writes the remarks, prints what is pending, frees the session; 0, or 1 if there were errors. */
int driver_end(Context *c, const Options *o);
/* Reads, parses and verifies one input; NULL after an error. */
Module *driver_read(Context *c, const Options *o, const char *input);
/* The target that the options ask for (`march` overrides theirs when they have none); false after
 * an error. */
bool driver_target(Context *c, const Options *o, const char *march, Target *out);
/* Runs the pipeline `passes` (NULL: the default one) up to `stop_after` (NULL: its end), with the
 * options' bindings. */
bool driver_passes(Context *c, Module *m, const Options *o, const Target *t, const char *passes,
                   const char *stop_after, uint32_t *state);
/* Whether a module in this state can become code; reports what is missing, and accesses that are
 * out of range for certain. */
bool driver_ready(const Module *m, const Options *o, uint32_t state);

#endif
