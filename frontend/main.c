/* relaxc: from Relax scripts to native code. Options to commands; the work is in driver.c. */
#include "frontend/driver.h"
#include "frontend/output.h"

#include <malloc.h>
#include <stdio.h>

int main(int argc, char **argv) {
  Arena *a = arena_create();
  Options o;
  int code = 0;
  output_install_cleanup();
  /* What one phase frees (megabytes of syntax tree) serves the next: not given back to the system
   * and faulted in again. */
  (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
  (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
  switch (options_parse(a, argc, argv, &o)) {
  case OPTIONS_WRONG: code = 2; break;
  case OPTIONS_DONE: break;
  case OPTIONS_OK:
    if (o.list_passes || o.list_ops || o.help_op)
      code = driver_list(&o);
    else if (o.command == COMMAND_RUN)
      code = driver_run(&o);
    else if (o.command == COMMAND_EVAL)
      code = driver_eval(&o);
    else if (o.command == COMMAND_FMT)
      code = driver_fmt(&o);
    else
      code = driver_compile(&o);
    break;
  }
  arena_free(a);
  /* A full disk shows when the buffer is written. */
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == 0) {
    fputs("relaxc: error: can't write to standard output\n", stderr);
    code = 1;
  }
  return code;
}
