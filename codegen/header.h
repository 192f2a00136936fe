/* The C header of a module: what a program that links the object may call. */
#ifndef RELAXC_CODEGEN_HEADER_H
#define RELAXC_CODEGEN_HEADER_H

#include "codegen/abi.h"

/* Writes the header; `source` is the input's name for the comment, `prefix` makes the guard. Valid
 * C99 and C++; includes only <stdint.h> and relaxrt.h. */
void header_print(Text *t, const AbiModule *abi, const char *prefix, const char *source);

#endif
