/* The module as a picture (text for Graphviz) and as JSON, for people and for other programs. */
#ifndef RELAXC_CODEGEN_PICTURE_H
#define RELAXC_CODEGEN_PICTURE_H

#include "ir/module.h"

/* A graph in the language of Graphviz: a cluster per function, a box per operator, edges from
 * operands. */
void module_dot(Text *t, const Module *m);
/* {"name", "functions": [...]}: a Relax function lists "params", "body" (nodes in order with "id",
 * "name", "op", "type", "inputs", place in the script) and "result"; an input is the id of a node,
 * or an object for what stands in place (constants, shapes, tuples). A prim_func has "params" and
 * its "text". */
void module_json(Text *t, const Module *m);

#endif
