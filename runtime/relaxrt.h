/* relaxrt.h: what programs that link objects made by relaxc may use.
 *
 * C99 and C++, includes nothing but standard headers (and <dlpack/dlpack.h> where there is one, so
 * that a program that includes it too, in either order, sees one definition of DLTensor). Generated
 * headers include this file. Every entry returns 0 or a negative RX_ERR_ code; rx_error() then
 * holds the calling thread's message. Objects made with -fno-threads bring rx_error and rx_free
 * along and need no library.
 */
#ifndef RELAXRT_H
#define RELAXRT_H

#include <stddef.h>
#include <stdint.h>

#if !defined(DLPACK_DLPACK_H_) && defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
/* The layout of DLPack 0.6 (github.com/dmlc/dlpack); unchanged in all later versions. */
typedef enum { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 } DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int device_id;
} DLDevice;

typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U
} DLDataTypeCode;

typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: compact, row-major */
  uint64_t byte_offset;
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
#endif

/* Type codes of DLPack, also those that dlpack.h 0.6 lacks. */
enum {
  RX_DL_INT = 0,
  RX_DL_UINT = 1,
  RX_DL_FLOAT = 2,
  RX_DL_BFLOAT = 4,
  RX_DL_BOOL = 6,
  RX_DL_FLOAT8_E4M3FN = 10,
  RX_DL_FLOAT8_E5M2 = 12
};

/* What an entry returns. */
enum {
  RX_OK = 0,
  RX_ERR_ARGUMENT = -1, /* number of arguments, NULL pointer */
  RX_ERR_DTYPE = -2,    /* element type */
  RX_ERR_RANK = -3,     /* number of dims */
  RX_ERR_SHAPE = -4,    /* a dim: fixed, symbolic that disagrees, negative */
  RX_ERR_LAYOUT = -5,   /* not compact, not aligned, not on the CPU */
  RX_ERR_OVERLAP = -6,  /* outputs overlap inputs or each other */
  RX_ERR_OVERFLOW = -7, /* a size beyond 64 bits */
  RX_ERR_MEMORY = -8,   /* out of memory */
  RX_ERR_INDEX = -9,    /* an index out of range */
  RX_ERR_MATCH = -10,   /* match_cast or an assertion of the program failed */
  RX_ERR_WEIGHTS = -11, /* external weights: path, size, hash */
  RX_ERR_EXTERN = -12,  /* a called external function failed */
  RX_ERR_INTERNAL = -13 /* a fault of the compiler or the host's parallel_for */
};

/* The message of the last failure in this thread; "" if there was none. Never NULL; valid until the
 * thread's next failing call. */
const char *rx_error(void);

/* Releases what a DLPack entry allocated for an output (outs[i]->data). NULL is fine. */
void rx_free(void *data);

/* Signatures at run time: m_f_info() returns one of these, constant. */
enum { RX_TENSOR = 0, RX_PRIM = 1, RX_SHAPE = 2 };

typedef struct {
  const char *name;        /* parameter's name in the script; outputs: "out0", ... */
  int32_t kind;            /* RX_TENSOR, RX_PRIM, RX_SHAPE */
  int32_t ndim;            /* -1: unknown until run time */
  DLDataType dtype;        /* bits 0: unknown until run time */
  const char *const *dims; /* ndim texts: "784", "n", "n * 2"; NULL if ndim <= 0 */
} RxValueInfo;

typedef struct {
  const char *name;      /* the function's name in the script */
  const char *signature; /* in Relax's notation */
  int32_t nargs, nouts;
  const RxValueInfo *args;
  const RxValueInfo *outs;
  int32_t ndims; /* symbolic dims that a plain entry takes, in its order */
  const char *const *dims;
  int32_t has_plain; /* 0: only the DLPack entry exists */
} RxInfo;

/* Releases the calling thread's workspace. It comes back by itself at the next call, and goes by
 * itself when the thread ends. Not to be called from inside a running entry (then it does
 * nothing). */
void rx_release(void);

/* Threads. Results never depend on their number. */

/* Number of threads that entries use: RELAXRT_NUM_THREADS, else the cores this process may run on.
 * rx_set_num_threads has effect before the first parallel call; it returns 0, or RX_ERR_ARGUMENT
 * for n < 1 or when the pool runs already. */
int rx_num_threads(void);
int rx_set_num_threads(int n);

/* A host's own thread pool: must call task(arg, i) once for each i in [0, ntasks), from any
 * threads in any order, and return when all are done. NULL: back to the built-in pool. Set it while
 * no entry runs. */
typedef void (*RxTask)(void *arg, int64_t index);
typedef void (*RxParallelFor)(void *user, RxTask task, void *arg, int64_t ntasks);
void rx_set_parallel_for(RxParallelFor run, void *user);

/* Profile: called after each kernel of code compiled with profiling, in the thread that ran it.
 * Times in nanoseconds of a monotonic clock. NULL turns it off. Set it while no entry runs. */
typedef void (*RxProfileHook)(void *user, const char *function, const char *kernel, int64_t begin,
                              int64_t end);
void rx_set_profile(RxProfileHook hook, void *user);

/* ---- Below: called by generated code only. ---- */

/* At least RX_ERROR_SIZE bytes of the thread's message; whoever fails writes it with snprintf. */
#define RX_ERROR_SIZE 1024
char *rx_error_buffer(void);
/* Formats the message and returns `code`. */
int rx_fail(int code, const char *fmt, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* An output's memory, aligned to 64; NULL with a message if there is none or bytes < 0. */
void *rx_alloc(int64_t bytes);

/* The thread's scratch memory, a stack: aligned to 64, not zeroed; bytes 0 gives a valid pointer.
 * NULL with a message when there is no memory or bytes < 0; then nothing is to be popped. Pops go
 * in the reverse order of pushes and give what push returned. */
void *rx_workspace_push(int64_t bytes);
void rx_workspace_pop(void *p);

/* Runs fn(ctx, begin, end) over [0, n) in pieces of at most `grain`, about equally long. The pieces
 * depend on n and grain only. Returns 0, or the status of the first failing piece by index, whose
 * message is then the caller's. Nested calls run in the calling thread. */
typedef int (*RxRangeFn)(void *ctx, int64_t begin, int64_t end);
int rx_parallel_for(RxRangeFn fn, void *ctx, int64_t n, int64_t grain);

/* External weights: a constant description in the object and a zeroed, writable slot beside it.
 * rx_weights_map sets *data to the file's bytes, mapped read-only at first use and kept; checks
 * size and hash (rx_weights_hash). A relative path is tried as it is, then in the folder that the
 * environment variable RELAXRT_WEIGHTS names. */
typedef struct {
  const char *path;
  uint64_t size;
  uint64_t hash;
} RxWeightsFile;
int rx_weights_map(const RxWeightsFile *file, void **slot, const void **data);
uint64_t rx_weights_hash(const void *data, uint64_t size);
/* The same hash piece by piece: lanes begin as {1, 2, 3, 4}, each piece and so the whole has a
 * multiple of 32 bytes. */
void rx_weights_hash_add(uint64_t lanes[4], const void *data, uint64_t size);
uint64_t rx_weights_hash_end(uint64_t lanes[4], uint64_t size);

/* R.print writes a line to standard output and returns 0. R.assert_op that failed puts its words in
 * the message and returns RX_ERR_MATCH. The format has {} or {2} for a value, {{ and }} for braces;
 * "" shows all values. */
int rx_print(const char *format, DLTensor *const *values, int32_t n);
int rx_assert_failed(const char *format, DLTensor *const *values, int32_t n);

/* Profile: rx_profile_begin gives the time, or -1 while no hook is set. */
int64_t rx_profile_begin(void);
void rx_profile_end(const char *function, const char *kernel, int64_t begin);

#ifdef __cplusplus
}
#endif

#endif
