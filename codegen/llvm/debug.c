/* -g: line tables that point into the script.
 *
 * One compile unit per module, one subprogram per function that comes from the text, and the
 * position of the statement or node at hand on every instruction made for it. No variables: values
 * live in registers of vectorised code.
 */
#include "codegen/llvm/cg.h"

#include <stdlib.h>

static void position(Cg *cg, Span s, unsigned *line, unsigned *col) {
  *line = *col = 0;
  const SourceFile *f = s.file ? sources_file(cg->c->sources, s.file) : NULL;
  if (!f) return;
  uint32_t l, c;
  sources_position(f, s.begin, &l, &c);
  *line = l;
  *col = c;
}

static LLVMMetadataRef file_of(Cg *cg, Span s) {
  const SourceFile *f = s.file ? sources_file(cg->c->sources, s.file) : NULL;
  const char *name = f ? f->name : "<relaxc>";
  const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
  return LLVMDIBuilderCreateFile(cg->di, base, strlen(base), name,
                                 slash ? (size_t)(slash - name) : 0);
}

static void flag(Cg *cg, const char *name, unsigned v) {
  LLVMAddModuleFlag(cg->mod, LLVMModuleFlagBehaviorWarning, name, strlen(name),
                    LLVMValueAsMetadata(LLVMConstInt(cg->i32, v, false)));
}

void debug_begin(Cg *cg) {
  if (!cg->opt->debug) return;
  cg->di = LLVMCreateDIBuilder(cg->mod);
  flag(cg, "Debug Info Version", LLVMDebugMetadataVersion());
  flag(cg, "Dwarf Version", 4);
  cg->di_file = file_of(cg, (Span){cg->m->file, 0, 0});
  static const char producer[] = "relaxc";
  cg->di_unit = LLVMDIBuilderCreateCompileUnit(
      cg->di, LLVMDWARFSourceLanguageC, cg->di_file, producer, sizeof producer - 1, true, "", 0, 0,
      "", 0, LLVMDWARFEmissionLineTablesOnly, 0, false, false, "", 0, "", 0);
}

void debug_end(Cg *cg) {
  if (!cg->di) return;
  LLVMDIBuilderFinalize(cg->di);
  LLVMDisposeDIBuilder(cg->di);
  cg->di = NULL;
}

void debug_function(Fn *fn, const char *name, Span s) {
  Cg *cg = fn->cg;
  if (!cg->di) return;
  unsigned line, col;
  position(cg, s, &line, &col);
  LLVMMetadataRef file = file_of(cg, s);
  LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(cg->di, file, NULL, 0, LLVMDIFlagZero);
  size_t n;
  const char *symbol = LLVMGetValueName2(fn->fn, &n);
  fn->di_sub = LLVMDIBuilderCreateFunction(cg->di, file, name, strlen(name), symbol, n, file, line,
                                           type, true, true, line, LLVMDIFlagZero, true);
  LLVMSetSubprogram(fn->fn, fn->di_sub);
  debug_at(fn, s);
}

void debug_at(Fn *fn, Span s) {
  if (!fn->di_sub) return;
  unsigned line, col;
  position(fn->cg, s, &line, &col);
  fn->di_at = LLVMDIBuilderCreateDebugLocation(fn->cg->lc, line, col, fn->di_sub, NULL);
  debug_again(fn);
}

void debug_again(Fn *fn) {
  if (fn->di_at) LLVMSetCurrentDebugLocation2(fn->b, fn->di_at);
}
