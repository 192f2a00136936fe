/* From a planned module to native code through LLVM's C API. */
#ifndef RELAXC_CODEGEN_CODEGEN_H
#define RELAXC_CODEGEN_CODEGEN_H

#include "codegen/target.h"
#include "ir/base/vec.h"
#include "ir/module.h"

typedef enum { CODE_OBJECT, CODE_ASM, CODE_LLVM, CODE_BITCODE } CodeKind;

typedef struct {
  CodeKind kind;
  const char *prefix; /* C identifier */
  int opt_level;
  bool debug, fast_math;
  bool profile; /* each kernel call is told to the runtime's hook */
  bool pic;
  const char *external; /* constants go to a file of this name (relative ones: see relaxrt.h), or
                           NULL: into the object */
  int jobs;             /* -j: never changes a byte of the output */
} CodegenOptions;

/* What is to be written, in order: constants stand in it where they lie, so that hundreds of
 * megabytes are not copied together. */
typedef struct {
  const void *bytes;
  size_t n;
} CodePiece;
typedef VEC(CodePiece) CodePieces;

/* Emits the module (scheduled and planned): the output, and the contents of the external file when
 * one is needed. The bytes live as long as arena and module. Returns false after reporting an
 * error. Deterministic. */
bool codegen_emit(Module *m, const Target *t, const CodegenOptions *o, Arena *a, CodePieces *out,
                  CodePieces *weights);

/* In-memory compilation for `relaxc run` (ORC). */
typedef struct Jit Jit;
Jit *codegen_jit(Module *m, const Target *t, const CodegenOptions *o);
/* Address of a symbol such as "m_main_dl", NULL when there is none. */
void *jit_symbol(Jit *j, const char *name);
void jit_free(Jit *j);

#endif
