/* runner: loads one network in several compilers and libraries ("peers") and times them in turns.
 *
 * A job, a text file that the driver writes, names the peers with what they need to load the
 * network, and the cases: the shapes and values of the inputs. Peers are shared libraries, opened
 * at run time; a peer that is absent or fails says why and the others go on.
 */
#ifndef BENCH_RUNNER_H
#define BENCH_RUNNER_H

#include "runtime/relaxrt.h"
#include <stddef.h>
#include <stdint.h>

enum { MAX_TENSORS = 8, MAX_DIMS = 8, MAX_ARGS = 16, MAX_PEERS = 12, MAX_CASES = 8 };

typedef enum { FLOAT32, INT64, UINT8 } Dtype;

typedef struct {
  char *name;
  Dtype dtype;
  int rank;
  int64_t dims[MAX_DIMS];
  size_t bytes;
  void *data; /* aligned to 64 */
} Tensor;

typedef struct {
  char *name; /* the row of the results */
  int ninputs, noutputs;
  Tensor inputs[MAX_TENSORS], outputs[MAX_TENSORS];
} Case;

/* How a kind of peer works. open and bind return NULL or say what is wrong; call returns 0. */
typedef struct {
  const char *name;
  const char *(*open)(void **state, int threads, char **args);
  /* Points the network to a case's inputs and to the peer's own outputs. */
  const char *(*bind)(void *state, Case *c, Tensor *outputs);
  int (*call)(void *state);
  /* Copies the results to the bound outputs, for a peer that doesn't write there; or NULL. */
  const char *(*fetch)(void *state);
} PeerKind;

extern const PeerKind peer_relaxc, peer_onnxruntime, peer_openvino, peer_onednn,
    peer_onednn_blocked, peer_openblas, peer_tvm, peer_iree;

typedef struct {
  char *name; /* the column of the results */
  const PeerKind *kind;
  char *args[MAX_ARGS + 1]; /* ends with NULL */
  void *state;
  const char *failure; /* NULL: fine so far */
  Tensor outputs[MAX_TENSORS];
  /* Results of one case, in seconds; 0: none. */
  double first, best, best_any;
  double difference; /* from the nearest other peer, relative to the largest value */
} Peer;

typedef struct {
  int threads, npeers, ncases;
  double seconds; /* to spend on a peer and case */
  Peer peers[MAX_PEERS];
  Case cases[MAX_CASES];
} Job;

/* timing.c */
double now(void);
/* Binds this thread to the last processor that it may use. */
void pin(void);
/* Times all peers in turns, on the case that they are bound to. */
void time_case(Job *job);
/* Prints peak and bandwidths of one core. */
int print_limits(void);

/* For peers: a dtype's name and size in bytes; a tensor in DLPack's form. */
const char *dtype_name(Dtype dtype);
size_t dtype_size(Dtype dtype);
DLTensor dlpack(Tensor *t);
/* Formats a message that stays. */
const char *failure(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *allocate(size_t bytes);
/* The first bytes of a file; exits when it has fewer. */
void *read_file(const char *path, size_t bytes);
/* Open a library and find a function in it; where they can't, they give NULL and *why. */
void *load_library(const char *path, const char **why);
void *find_symbol(void *library, const char *name, const char **why);

#endif
