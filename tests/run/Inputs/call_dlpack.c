/* Calls m_main_dl on tensors from files: call_dlpack INPUTS OUTPUTS {CODE BITS NDIM DIM... FILE}...
 */
#include <dlpack/dlpack.h>
#include <stdio.h>
#include <stdlib.h>

int m_main_dl(DLTensor **in, int nin, DLTensor **out, int nout);
const char *rx_error(void);

typedef struct {
  DLTensor t;
  const char *file;
  size_t bytes;
} Arg;

static void die(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static char **read_arg(char **argv, Arg *a) {
  size_t n = 1;
  a->t.device.device_type = kDLCPU;
  a->t.dtype.code = (uint8_t)atoi(*argv++);
  a->t.dtype.bits = (uint8_t)atoi(*argv++);
  a->t.dtype.lanes = 1;
  a->t.ndim = atoi(*argv++);
  a->t.shape = calloc((size_t)a->t.ndim + 1, sizeof *a->t.shape);
  for (int i = 0; i < a->t.ndim; i++) n *= (size_t)(a->t.shape[i] = atoll(*argv++));
  a->file = *argv++;
  a->bytes = n * a->t.dtype.bits / 8;
  if (posix_memalign(&a->t.data, 64, a->bytes + 1)) die("out of memory");
  return argv;
}

int main(int argc, char **argv) {
  static Arg args[16];
  DLTensor *at[16];
  int nin = argc > 2 ? atoi(argv[1]) : 0, nout = argc > 2 ? atoi(argv[2]) : 0;
  if (nin + nout < 1 || nin + nout > 16) die("usage: call_dlpack INPUTS OUTPUTS TENSOR...");
  argv += 3;
  for (int i = 0; i < nin + nout; i++) {
    argv = read_arg(argv, &args[i]);
    at[i] = &args[i].t;
    if (i >= nin) continue;
    FILE *f = fopen(args[i].file, "rb");
    if (!f || fread(at[i]->data, 1, args[i].bytes, f) != args[i].bytes) die("can't read an input");
    fclose(f);
  }
  if (m_main_dl(at, nin, at + nin, nout)) die(rx_error());
  for (int i = nin; i < nin + nout; i++) {
    FILE *f = fopen(args[i].file, "wb");
    if (!f || fwrite(at[i]->data, 1, args[i].bytes, f) != args[i].bytes || fclose(f))
      die("can't write an output");
  }
  return 0;
}
