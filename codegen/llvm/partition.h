/* Large modules in several LLVM modules, compiled by several threads. */
#ifndef RELAXC_CODEGEN_LLVM_PARTITION_H
#define RELAXC_CODEGEN_LLVM_PARTITION_H

#include "codegen/llvm/cg.h"

/* How many parts of kernels the module gets beside its first LLVM module: a function of the kernels
 * and the options alone. 0: everything stays in one. */
uint32_t partition_count(Cg *cg);
/* Moves the kernels that are declared and not yet defined into n parts, compiles all (the first
 * module too) with `jobs` threads and joins the objects. False after reporting an error. */
bool partition_emit(Cg *cg, uint32_t n, Arena *a, CodePiece *out);

#endif
