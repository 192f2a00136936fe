/* The runner's command line and the job file.
 *
 *   runner time JOB...       times every case; prints one line for each peer
 *   runner cold JOB PEER     loads one peer, calls it once; "-" loads none; prints its peak KiB
 *   runner once JOB...       calls the first peer of each job once
 *   runner exec COMMAND...   runs a command; prints milliseconds, of CPU, peak KiB
 *   runner limits            prints the core's peak and bandwidths
 *
 * Lines of a job: "threads N", "seconds S", "peer NAME KIND ARG...", "case NAME", and after it
 * "input NAME DTYPE DIMxDIM FILE" and "output NAME DTYPE DIMxDIM" ("-" for no dims).
 */
#define _GNU_SOURCE
#include "runner.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void die(const char *what) {
  fprintf(stderr, "runner: %s\n", what);
  exit(1);
}

const char *failure(const char *format, ...) {
  va_list args;
  char *text;
  va_start(args, format);
  if (vasprintf(&text, format, args) < 0) die("out of memory");
  va_end(args);
  for (char *c = text; *c; c++)
    if (*c == '\n' || *c == '\t') *c = ' ';
  if (strlen(text) > 200) text[200] = 0; /* some peers report at length */
  return text;
}

void *allocate(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!p) die("out of memory");
  memset(p, 0, bytes);
  return p;
}

void *read_file(const char *path, size_t bytes) {
  void *data = allocate(bytes);
  FILE *f = path ? fopen(path, "rb") : NULL;
  if (!f || fread(data, 1, bytes, f) != bytes) die(failure("can't read %s", path ? path : "-"));
  fclose(f);
  return data;
}

void *load_library(const char *path, const char **why) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  *why = library ? NULL : failure("%s", dlerror());
  return library;
}

void *find_symbol(void *library, const char *name, const char **why) {
  void *symbol = dlsym(library, name);
  if (!symbol) *why = failure("no symbol %s", name);
  return symbol;
}

/* --- the job --- */

const char *dtype_name(Dtype dtype) {
  static const char *const names[] = {"float32", "int64", "uint8"};
  return names[dtype];
}

size_t dtype_size(Dtype dtype) {
  static const size_t sizes[] = {4, 8, 1};
  return sizes[dtype];
}

static char *word(char **line) {
  return strsep(line, " \n");
}

static char *copy(const char *text) {
  char *c = text ? strdup(text) : NULL;
  if (!c) die("a line of the job is too short");
  return c;
}

static void parse_tensor(Tensor *t, char **line) {
  t->name = copy(word(line));
  const char *dtype = copy(word(line));
  for (t->dtype = FLOAT32; strcmp(dtype, dtype_name(t->dtype)) != 0; t->dtype++)
    if (t->dtype == UINT8) die(failure("no such dtype: %s", dtype));
  t->bytes = dtype_size(t->dtype);
  for (char *p = copy(word(line)); *p >= '0' && *p <= '9'; p += *p == 'x') {
    if (t->rank == MAX_DIMS) die("too many dims");
    t->dims[t->rank] = strtoll(p, &p, 10);
    t->bytes *= (size_t)t->dims[t->rank++];
  }
}

static void parse_peer(Peer *p, char *line) {
  static const PeerKind *const kinds[] = {
      &peer_relaxc,         &peer_onnxruntime, &peer_openvino, &peer_onednn,
      &peer_onednn_blocked, &peer_openblas,    &peer_tvm,      &peer_iree};
  p->name = copy(word(&line));
  char *kind = copy(word(&line));
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i]->name, kind) == 0) p->kind = kinds[i];
  if (!p->kind) die(failure("no such kind of peer: %s", kind));
  int n = 0;
  for (char *arg; n < MAX_ARGS && (arg = word(&line)) && *arg;) p->args[n++] = copy(arg);
}

static void parse_line(Job *job, char *line) {
  char *key = word(&line);
  Case *c = job->ncases ? &job->cases[job->ncases - 1] : NULL;
  if (strcmp(key, "threads") == 0) {
    job->threads = atoi(copy(word(&line)));
  } else if (strcmp(key, "seconds") == 0) {
    job->seconds = atof(copy(word(&line)));
  } else if (strcmp(key, "peer") == 0 && job->npeers < MAX_PEERS) {
    parse_peer(&job->peers[job->npeers++], line);
  } else if (strcmp(key, "case") == 0 && job->ncases < MAX_CASES) {
    job->cases[job->ncases++].name = copy(word(&line));
  } else if (c && strcmp(key, "input") == 0 && c->ninputs < MAX_TENSORS) {
    Tensor *t = &c->inputs[c->ninputs++];
    parse_tensor(t, &line);
    t->data = read_file(copy(word(&line)), t->bytes);
  } else if (c && strcmp(key, "output") == 0 && c->noutputs < MAX_TENSORS) {
    parse_tensor(&c->outputs[c->noutputs++], &line);
  } else if (*key) {
    die(failure("unexpected line of the job: %s", key));
  }
}

static Job *read_job(const char *path) {
  Job *job = allocate(sizeof *job);
  job->threads = 1;
  job->seconds = 1;
  FILE *f = fopen(path, "r");
  if (!f) die(failure("can't open %s", path));
  char *line = NULL;
  size_t size = 0;
  while (getline(&line, &size, f) > 0) parse_line(job, line);
  free(line);
  fclose(f);
  return job;
}

/* --- running it --- */

/* Binds, calls once and takes the results. */
static void first_call(Peer *p, Case *c) {
  for (int i = 0; i < c->noutputs; i++) {
    p->outputs[i] = c->outputs[i];
    p->outputs[i].data = allocate(c->outputs[i].bytes);
  }
  p->failure = p->kind->bind(p->state, c, p->outputs);
  if (p->failure) return;
  double start = now();
  if (p->kind->call(p->state) != 0) p->failure = "the call failed";
  p->first = now() - start;
  if (!p->failure && p->kind->fetch) p->failure = p->kind->fetch(p->state);
}

static double element(const Tensor *t, size_t i) {
  switch (t->dtype) {
  case FLOAT32: return ((const float *)t->data)[i];
  case INT64: return (double)((const int64_t *)t->data)[i];
  case UINT8: break;
  }
  return ((const uint8_t *)t->data)[i];
}

/* The largest difference between two peers' results, relative to the largest value. */
static double compare(const Peer *a, const Peer *b, const Case *c) {
  double worst = 0;
  for (int o = 0; o < c->noutputs; o++) {
    const Tensor *x = &a->outputs[o], *y = &b->outputs[o];
    double largest = 0, difference = 0;
    for (size_t i = 0; i < x->bytes / dtype_size(x->dtype); i++) {
      double d = fabs(element(x, i) - element(y, i));
      if (!(d <= difference)) difference = d; /* NaN stays */
      largest = fmax(largest, fabs(element(x, i)));
    }
    if (difference != 0) worst = fmax(worst, isnan(difference) ? INFINITY : difference / largest);
  }
  return worst;
}

static void compare_all(Job *job, Case *c) {
  for (int i = 0; i < job->npeers; i++) {
    Peer *p = &job->peers[i];
    p->difference = NAN;
    for (int j = 0; j < job->npeers && !p->failure; j++)
      if (j != i && !job->peers[j].failure)
        p->difference = fmin(p->difference, compare(p, &job->peers[j], c));
  }
}

static void report(const Job *job, const Case *c) {
  for (int i = 0; i < job->npeers; i++) {
    const Peer *p = &job->peers[i];
    printf("%s\t%s\t", c->name, p->name);
    if (p->failure)
      printf("\t\t\t\t%s\n", p->failure);
    else
      printf("%.7g\t%s\t%.6g\t%.2g\t\n", 1e3 * (p->best > 0 ? p->best : p->best_any),
             p->best > 0 ? "clean" : "noisy", 1e3 * p->first, p->difference);
  }
  fflush(stdout);
}

static void time_job(const char *path) {
  Job *job = read_job(path);
  if (job->threads == 1) pin();
  for (int i = 0; i < job->npeers; i++) {
    Peer *p = &job->peers[i];
    p->failure = p->kind->open(&p->state, job->threads, p->args);
  }
  for (int i = 0; i < job->ncases; i++) {
    Case *c = &job->cases[i];
    for (int k = 0; k < job->npeers; k++)
      if (!job->peers[k].failure) first_call(&job->peers[k], c);
    compare_all(job, c);
    time_case(job);
    report(job, c);
  }
}

/* The peak of this program alone: what getrusage says includes the process that started it. */
static long peak_kib(void) {
  long kib = 0;
  char line[256];
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
  if (f) fclose(f);
  return kib;
}

static int cold(const char *path, const char *name) {
  Job *job = read_job(path);
  for (int i = 0; i < job->npeers; i++) {
    Peer *p = &job->peers[i];
    if (strcmp(p->name, name) != 0) continue;
    p->failure = p->kind->open(&p->state, job->threads, p->args);
    if (!p->failure) first_call(p, &job->cases[0]);
    if (p->failure) die(p->failure);
  }
  printf("%ld\n", peak_kib());
  fflush(stdout);
  _exit(0); /* what peers do at exit is not part of the first result */
}

static int once(char **paths) {
  for (; *paths; paths++) {
    Job *job = read_job(*paths);
    Peer *p = &job->peers[0];
    p->failure = p->kind->open(&p->state, 1, p->args);
    if (!p->failure) first_call(p, &job->cases[0]);
    if (p->failure) die(failure("%s: %s", *paths, p->failure));
  }
  return 0;
}

static double cpu_seconds(const struct rusage *u) {
  return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
         1e-6 * (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

static int run_command(char **command) {
  double start = now();
  pid_t pid = vfork();
  if (pid == 0) {
    execvp(command[0], command);
    _exit(127);
  }
  int status = 0;
  struct rusage usage;
  if (pid < 0 || wait4(pid, &status, 0, &usage) != pid) die("can't start the command");
  printf("%.3f\t%.3f\t%ld\n", (now() - start) * 1e3, cpu_seconds(&usage) * 1e3, usage.ru_maxrss);
  return status != 0;
}

int main(int argc, char **argv) {
  const char *verb = argc > 1 ? argv[1] : "";
  if (strcmp(verb, "time") == 0 && argc > 2) {
    for (int i = 2; i < argc; i++) time_job(argv[i]);
    return 0;
  }
  if (strcmp(verb, "cold") == 0 && argc == 4) return cold(argv[2], argv[3]);
  if (strcmp(verb, "once") == 0 && argc > 2) return once(argv + 2);
  if (strcmp(verb, "exec") == 0 && argc > 2) return run_command(argv + 2);
  if (strcmp(verb, "limits") == 0) return print_limits();
  die("usage: runner time JOB... | cold JOB PEER | once JOB... | exec COMMAND... | limits");
}
