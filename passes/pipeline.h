/* The text of a pipeline, parsed: between passes/pipeline.c and passes/pass.c. */
#ifndef RELAXC_PASSES_PIPELINE_H
#define RELAXC_PASSES_PIPELINE_H

#include "passes/pass.h"

typedef struct {
  int pass;            /* PASS_<id> */
  const Attr *options; /* dict or NULL */
  const char *func;    /* P@func, or NULL */
} Step;
typedef VEC(Step) StepVec;

/* Parses "A, B(x=1), C@main". Reports every unknown name and option; false after an error. */
bool pipeline_parse(Context *c, const char *text, StepVec *out);

#endif
