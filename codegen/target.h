/* What is compiled for: triple, processor variants, vector shape. One row per variant in
 * targets.def. */
#ifndef RELAXC_CODEGEN_TARGET_H
#define RELAXC_CODEGEN_TARGET_H

#include <stdbool.h>
#include <stdint.h>

/* One instruction set that hot code is emitted for. The scheduler reads only these numbers. */
typedef struct {
  const char *name;     /* suffix of its symbols: "v2", "v3", "v4", "native" */
  const char *cpu;      /* LLVM CPU name: "x86-64-v3" */
  const char *features; /* LLVM feature string or "" */
  uint32_t vector_bits; /* 128, 256, 512 */
  uint32_t vector_regs; /* 16, 32 */
  bool has_fma;
  bool has_mask;         /* masked vector loads and stores are cheap (AVX-512) */
  bool has_nan_minmax;   /* an instruction for min and max that gives NaN for NaN (AArch64) */
  bool has_mem_operands; /* arithmetic takes an operand from memory (x86) */
  bool in_order;         /* runs instructions as they stand: their order has to hide latencies */
  uint32_t table_lanes;  /* float32 of a table that one instruction picks from by lane, or 0 */
  uint32_t fma_chains;   /* FMA latency x pipes: independent accumulators needed (8 or 10) */
  uint32_t l1_bytes, l2_bytes; /* per core, conservative */
  uint32_t stream_bytes;       /* results from this size on are stored past the caches; 0: never */
} Variant;

#define TARGET_MAX_VARIANTS 4
typedef struct Target {
  const char *triple; /* "x86_64-unknown-linux-gnu" */
  uint32_t nvariants; /* ascending: variant 0 runs everywhere, the last is the best */
  Variant variants[TARGET_MAX_VARIANTS];
  bool threads;         /* false: -fno-threads */
  uint32_t panel_lanes; /* width in elements of 32 bit of packed panels: common to all variants */
} Target;

/* From --target / -march / -mattr (each may be NULL). On failure returns false and *error says why,
 * with the nearest known name. "native" asks the host. */
bool target_init(Target *t, const char *triple, const char *march, const char *mattr,
                 const char **error);

#endif
