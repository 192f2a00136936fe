/* The calling thread's error message, and the memory of outputs.
 *
 * One buffer per thread, no allocation: a failure inside a failure (no memory) still has its words.
 * The functions stand in one file because an object made with -fno-threads defines weak twins of
 * them: whoever links the library gets all of these or all of those.
 */
#include "runtime/relaxrt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local char message[RX_ERROR_SIZE];

const char *rx_error(void) {
  return message;
}

char *rx_error_buffer(void) {
  return message;
}

int rx_fail(int code, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  /* By the function, which an object without threads in the same program may have taken over. */
  char *text = rx_error_buffer();
  if (vsnprintf(text, RX_ERROR_SIZE, fmt, ap) < 0) text[0] = 0;
  va_end(ap);
  return code;
}

void *rx_alloc(int64_t bytes) {
  if (bytes < 0 || (uint64_t)bytes > SIZE_MAX - 63) {
    (void)rx_fail(RX_ERR_OVERFLOW, "size of an output is out of range: %lld bytes",
                  (long long)bytes);
    return NULL;
  }
  /* aligned_alloc wants a multiple of the alignment; at least one byte, so that NULL means no
   * memory. */
  size_t size = bytes ? ((size_t)bytes + 63) & ~(size_t)63 : 64;
  void *p = aligned_alloc(64, size);
  if (!p) (void)rx_fail(RX_ERR_MEMORY, "out of memory: an output of %lld bytes", (long long)bytes);
  return p;
}

void rx_free(void *data) {
  free(data);
}
