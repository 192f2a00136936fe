/* Loads a library with threads inside, computes, unloads it, several times: no thread may stay in code
 * that is gone. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Product)(const float *, const float *, float *, int64_t, int64_t, int64_t);

int main(int argc, char **argv) {
  enum { N = 300 };
  static float x[N * N], y[N * N], z[N * N];
  if (argc != 2 || setenv("RELAXRT_NUM_THREADS", "4", 1) != 0) return 2;
  for (int i = 0; i < N * N; i++) {
    x[i] = (float)(i % 7);
    y[i] = (float)(i % 5);
  }
  for (int round = 0; round < 5; round++) {
    void *lib = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
      printf("%s\n", dlerror());
      return 1;
    }
    Product product;
    void *symbol = dlsym(lib, "abi_product");
    memcpy(&product, &symbol, sizeof product);
    for (int call = 0; call < 3; call++) {
      memset(z, 0, sizeof z);
      if (product(x, y, z, N, N, N) != 0) return 1;
      float want = 0; /* sums of small integers are exact */
      for (int k = 0; k < N; k++) want += x[5 * N + k] * y[k * N + 9];
      if (z[5 * N + 9] != want) return 1;
    }
    if (dlclose(lib) != 0) return 1;
  }
  printf("unloaded\n");
  return 0;
}
