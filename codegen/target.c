/* What is compiled for: reads --target, -march and -mattr against the rows of targets.def.
 *
 * A processor is a row (its LLVM name) and a level (the numbers that the scheduler plans with);
 * "native" asks LLVM for the host's name and features and derives the level from those. -mattr
 * may raise or lower the level: +avx512f, -fma.
 */
#include "codegen/target.h"

#include "ir/base/text.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <stdio.h>
#include <string.h>

typedef enum {
#define ARCH(id, ...) ARCH_##id,
#include "codegen/targets.def"
  ARCH_COUNT
} ArchId;

typedef enum {
#define LEVEL(arch, id, ...) LEVEL_##id,
#include "codegen/targets.def"
  LEVEL_COUNT
} LevelId;

static const struct {
  const char *triple, *name, *other;
} archs[] = {
#define ARCH(id, triple, name, other) {triple, name, other},
#include "codegen/targets.def"
};

static const struct {
  uint32_t vector_bits, vector_regs;
  bool has_fma, has_mask, has_nan_minmax, has_mem_operands, in_order;
  uint32_t table_lanes, fma_chains, l1_bytes, l2_bytes, stream_bytes;
} levels[] = {
#define LEVEL(arch, id, ...) {__VA_ARGS__},
#include "codegen/targets.def"
};

static const struct {
  ArchId arch;
  const char *march, *suffix, *cpu;
  LevelId level;
} cpus[] = {
#define CPU(arch, march, suffix, cpu, level) {ARCH_##arch, march, suffix, cpu, LEVEL_##level},
#include "codegen/targets.def"
};
enum { NCPUS = sizeof cpus / sizeof cpus[0] };

static const struct {
  ArchId arch;
  const char *march;
} defaults[] = {
#define DEFAULT(arch, march) {ARCH_##arch, march},
#include "codegen/targets.def"
};
enum { NDEFAULTS = sizeof defaults / sizeof defaults[0] };

/* Words of an error, features and names that outlive the call: one compilation per process. */
static char message[256];
static char features[8192];
static char host_cpu[64];
static char triple_text[256];

static void set_level(Variant *v, LevelId level) {
  v->vector_bits = levels[level].vector_bits;
  v->vector_regs = levels[level].vector_regs;
  v->has_fma = levels[level].has_fma;
  v->has_mask = levels[level].has_mask;
  v->has_nan_minmax = levels[level].has_nan_minmax;
  v->has_mem_operands = levels[level].has_mem_operands;
  v->in_order = levels[level].in_order;
  v->table_lanes = levels[level].table_lanes;
  v->fma_chains = levels[level].fma_chains;
  v->l1_bytes = levels[level].l1_bytes;
  v->l2_bytes = levels[level].l2_bytes;
  v->stream_bytes = levels[level].stream_bytes;
}

/* Is "+name" among comma-separated features? Whole words. */
static bool has_feature(const char *list, char sign, const char *name) {
  size_t n = strlen(name);
  for (const char *p = list; p && *p; p = strchr(p, ',')) {
    if (*p == ',') p++;
    if (*p == sign && strncmp(p + 1, name, n) == 0 && (p[n + 1] == ',' || !p[n + 1])) return true;
  }
  return false;
}

static LevelId level_of_features(ArchId arch, const char *list) {
  if (arch == ARCH_AARCH64) return LEVEL_NEON;
  if (has_feature(list, '+', "avx512f") && has_feature(list, '+', "avx512bw") &&
      has_feature(list, '+', "avx512dq") && has_feature(list, '+', "avx512vl"))
    return LEVEL_V4;
  if (has_feature(list, '+', "avx2") && has_feature(list, '+', "fma")) return LEVEL_V3;
  if (has_feature(list, '+', "avx")) return LEVEL_AVX;
  return has_feature(list, '+', "sse4.2") ? LEVEL_V2 : LEVEL_V1;
}

/* Applies -mattr to the numbers. */
static void apply_features(Variant *v, ArchId arch, const char *list) {
  if (arch != ARCH_X86_64) return;
  if (has_feature(list, '+', "fma")) v->has_fma = true;
  if (has_feature(list, '+', "avx") && v->vector_bits < 256) v->vector_bits = 256;
  if (has_feature(list, '+', "avx2") && v->vector_bits < 256) v->vector_bits = 256;
  if (has_feature(list, '+', "avx512f") && has_feature(list, '+', "avx512vl"))
    set_level(v, LEVEL_V4);
  if (has_feature(list, '-', "avx512f") && v->vector_bits == 512) set_level(v, LEVEL_V3);
  if (has_feature(list, '-', "avx512vl")) v->has_mask = false;
  if (has_feature(list, '-', "avx2") && v->vector_bits == 256) set_level(v, LEVEL_AVX);
  if (has_feature(list, '-', "avx")) set_level(v, LEVEL_V2);
  if (has_feature(list, '-', "fma")) v->has_fma = false;
}

static bool find_cpu(ArchId arch, const char *march, Variant *v) {
  for (int i = 0; i < NCPUS; i++) {
    if (cpus[i].arch != arch || strcmp(cpus[i].march, march) != 0) continue;
    v->name = cpus[i].suffix;
    v->cpu = cpus[i].cpu;
    v->features = "";
    set_level(v, cpus[i].level);
    return true;
  }
  return false;
}

static bool find_arch(const char *triple, ArchId *arch) {
  size_t n = strcspn(triple, "-");
  for (int i = 0; i < ARCH_COUNT; i++)
    if ((strlen(archs[i].name) == n && strncmp(triple, archs[i].name, n) == 0) ||
        (strlen(archs[i].other) == n && strncmp(triple, archs[i].other, n) == 0)) {
      *arch = (ArchId)i;
      return true;
    }
  return false;
}

static ArchId host_arch(void) {
  ArchId arch = ARCH_X86_64;
  char *t = LLVMGetDefaultTargetTriple();
  (void)find_arch(t, &arch);
  LLVMDisposeMessage(t);
  return arch;
}

static bool check_features(const char *list, const char **error) {
  for (const char *p = list; *p;) {
    size_t n = strcspn(p, ",");
    if (n < 2 || (*p != '+' && *p != '-')) {
      snprintf(message, sizeof message,
               "expected features such as '+avx2,-fma' but got '%.100s' (-mattr)", list);
      *error = message;
      return false;
    }
    p += n + (p[n] == ',');
  }
  return true;
}

bool target_init(Target *t, const char *triple, const char *march, const char *mattr,
                 const char **error) {
  ArchId arch = host_arch();
  if (triple && !find_arch(triple, &arch)) {
    const char *names[2 * ARCH_COUNT];
    for (int i = 0; i < ARCH_COUNT; i++) {
      names[2 * i] = archs[i].name;
      names[2 * i + 1] = archs[i].triple;
    }
    const char *near = text_nearest(triple, names, 2 * ARCH_COUNT);
    snprintf(message, sizeof message, "unknown target '%.100s'%s%s%s", triple,
             near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    *error = message;
    return false;
  }
  *t = (Target){.threads = true};
  t->triple = archs[arch].triple;
  if (triple && strchr(triple, '-')) {
    snprintf(triple_text, sizeof triple_text, "%s", triple);
    t->triple = triple_text;
  }
  if (mattr && !check_features(mattr, error)) return false;

  if (!march) {
    for (int i = 0; i < NDEFAULTS; i++) {
      if (defaults[i].arch != arch) continue;
      Variant *v = &t->variants[t->nvariants++];
      (void)find_cpu(arch, defaults[i].march, v);
    }
  } else if (strcmp(march, "native") == 0) {
    if (arch != host_arch()) {
      snprintf(message, sizeof message, "-march=native doesn't go with target '%.100s'", triple);
      *error = message;
      return false;
    }
    char *cpu = LLVMGetHostCPUName(), *list = LLVMGetHostCPUFeatures();
    snprintf(host_cpu, sizeof host_cpu, "%s", cpu);
    snprintf(features, sizeof features, "%s", list);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(list);
    Variant *v = &t->variants[t->nvariants++];
    *v = (Variant){.name = "native", .cpu = host_cpu, .features = features};
    set_level(v, level_of_features(arch, features));
    /* A known processor's row may know more than its features say. */
    Variant known;
    if (find_cpu(arch, host_cpu, &known) && known.vector_bits == v->vector_bits) {
      v->fma_chains = known.fma_chains;
      v->l2_bytes = known.l2_bytes;
    }
  } else {
    Variant *v = &t->variants[t->nvariants++];
    if (!find_cpu(arch, march, v)) {
      const char *names[NCPUS + 1];
      size_t n = 0;
      for (int i = 0; i < NCPUS; i++)
        if (cpus[i].arch == arch) names[n++] = cpus[i].march;
      names[n++] = "native";
      const char *near = text_nearest(march, names, n);
      snprintf(message, sizeof message, "unknown processor '%.100s' for %s%s%s%s", march,
               archs[arch].name, near ? "; did you mean '" : "", near ? near : "",
               near ? "'?" : "");
      *error = message;
      return false;
    }
  }
  if (mattr && *mattr) {
    for (uint32_t i = 0; i < t->nvariants; i++) {
      Variant *v = &t->variants[i];
      apply_features(v, arch, mattr);
      if (!*v->features) {
        v->features = mattr;
      } else if (v->features == features) {
        size_t n = strlen(features);
        snprintf(features + n, sizeof features - n, ",%s", mattr);
      }
    }
  }
  /* Panels are shared by all variants, so one width for all: two AVX-512 vectors where only that
   * is compiled for, else one. */
  t->panel_lanes = t->nvariants == 1 && t->variants[0].vector_bits == 512 ? 32 : 16;
  return true;
}
