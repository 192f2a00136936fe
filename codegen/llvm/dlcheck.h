/* Helper functions that a module's DLPack entries share; each is emitted once per module. */
#ifndef RELAXC_CODEGEN_LLVM_DLCHECK_H
#define RELAXC_CODEGEN_LLVM_DLCHECK_H

#include "codegen/llvm/cg.h"

/* Offsets in DLTensor (dlpack 0.6 and later). */
enum {
  DL_DATA = 0,
  DL_DEVICE = 8,
  DL_NDIM = 16,
  DL_DTYPE = 20,
  DL_SHAPE = 24,
  DL_STRIDES = 32,
  DL_OFFSET = 40
};

/* code | bits << 8 | lanes << 16 as DLPack has it. */
uint32_t dl_dtype_word(DType d);
LLVMValueRef dl_field(Cg *cg, LLVMBuilderRef b, LLVMValueRef t, int64_t off);
LLVMValueRef dl_load(Cg *cg, LLVMBuilderRef b, LLVMValueRef t, int64_t off, LLVMTypeRef type);
/* data + byte_offset. */
LLVMValueRef dl_data(Cg *cg, LLVMBuilderRef b, LLVMValueRef t);
/* i32 status: everything that doesn't depend on the other arguments: NULL, device, dtype (word 0:
 * any), rank (-1: any), dims >= 0, compactness, size, data, alignment. */
LLVMValueRef dl_check_tensor(Cg *cg, LLVMBuilderRef b, LLVMValueRef t, const char *function,
                             const char *role, const char *name, uint32_t dtype_word,
                             const char *dtype_text, int32_t ndim, int64_t elem_bytes);
/* i32 status: dim i of t is want[i]. texts: NULL, or per dim its text (NULL for a number). */
LLVMValueRef dl_check_dims(Cg *cg, LLVMBuilderRef b, LLVMValueRef t, LLVMValueRef want,
                           LLVMValueRef texts, const char *function, const char *role,
                           const char *name);
/* i64: elements * elem_bytes; the tensor was checked. */
LLVMValueRef dl_bytes(Cg *cg, LLVMBuilderRef b, LLVMValueRef t);
/* What is known of one value: {name, kind, ndim, dtype word, texts of its dims}, rx_value_info. */
LLVMTypeRef dl_info_type(Cg *cg);
/* An entry's arguments or outputs: an array of DLTensor*, and one of what is known of them. */
typedef struct {
  LLVMValueRef tensors, infos;
  uint32_t n;
} DlValues;
/* i32 status: no output that has data shares memory with an argument or an output before it, but
 * output i may be exactly argument in_place[i] (i32; -1: none). All were checked by themselves. */
LLVMValueRef dl_check_overlaps(Cg *cg, LLVMBuilderRef b, const char *function, DlValues outs,
                               DlValues args, LLVMValueRef in_place);
/* Frees the data of the outputs whose flag (i8) is set. */
void dl_free_outputs(Cg *cg, LLVMBuilderRef b, DlValues outs, LLVMValueRef flags);
/* rx_error, rx_error_buffer and rx_free, weak, for objects without the runtime library. */
void dl_define_runtime(Cg *cg);

#endif
