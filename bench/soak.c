/* soak.c: what a million writes do to a memory on its own, for every row of the table.
 *
 *   cc -O2 bench/soak.c -o soak -lm && ./soak         every row and input: an hour of one core
 *   ./soak --rows yaad,mesa --inputs silent,spikes    some of them
 *   ./soak --writes 100000 --dim 32                   fewer, smaller
 *   ./soak --counts                                   instructions too; needs valgrind
 *   ./soak --quick                                    10^4 writes: a minute
 *   ./soak --noise                                    noisy targets instead: a table of its own
 *
 * A row is miras_memory_preset as it comes, one head, key_dim and value_dim 64. The inputs, their
 * entries uniform in -1..1 where nothing else is said:
 *   random      a new pair every time
 *   recurring   32 pairs in turn
 *   constant    one pair
 *   silent      256 random pairs, then zeros
 *   small       random, times 0.001
 *   large       random, times 1000
 *   spikes      random, and one pair in 1000 times 10,000
 *   drifting    a random walk: each entry moves by up to 0.01 and is reflected at -1 and 1
 * A row with two pairs per token (DeltaProducts, EDA) takes the next two for every write. RWKV-7
 * takes tokens instead of writes: with u the key at length 1, erase = -u, replace = key = u / 2,
 * query = u, which makes its update a delta rule of step 1/2.
 *
 * The columns, and the BARS that make the exit status 1:
 *   finite      every surprise, and every output and norm looked at (outputs of the key just
 *               written and of a random one, after every 61st write; norms every 1024th). BAR: yes.
 *               A run that is no longer finite ends there; the table has the write.
 *   output      largest |output| / largest |value| written so far. BAR: 1000, or 1000 times what
 *               the memory answered before its first write, where its values are smaller than that.
 *               Rows that descend the dot product and do not divide by a sum of their own are sums
 *               by definition and grow with what they are given, so their bar is the largest such
 *               sum: the writes they remember times |key| |query|, at their lengths in the memory.
 *   error       |output - value| / |value|, median of 32 pairs. recurring: right after the last
 *               round. silent: of the last 32 pairs before silence, at the end. Else of the last 32
 *               writes, each asked for at once. BAR, recurring and keys of 64 or more: 0.1 for rows
 *               that correct their errors, which are all but the dot product, the pairs (attention
 *               averages) and RWKV-7.
 *   surprise    mean of the first and of the last 32 writes (RWKV-7: none)
 *   us          microseconds per write at the start, which is after 1024 writes, when every window
 *               is full, or up to 1000 more so that spikes are as far away as at the end; and at
 *               the end. BAR: end / start at most 1.2, and, because denormals can make a row slow
 *               from the first write on, each / start of random at most 2.4 (not for Mesa, which
 *               iterates as long as its pairs need). --quick: 2 and 4, for use in tests. Both
 *               moments are kept, states and the inputs of 128 writes, and run again in turns; the
 *               best of the rounds counts, in processor time, so that what else the machine does
 *               weighs on both alike.
 *   count       thousands of instructions per write at the same two moments, with --counts; the
 *               same bar. valgrind's callgrind counts them in a process of its own, into which the
 *               kept state and inputs are loaded, inside the one function that does the writes:
 *               that needs no privilege and no hardware counters, which virtual machines often
 *               hide, and says the same every time. Valgrind knows no AVX-512, so the counts are of
 *               AVX2. Instructions cannot show denormal arithmetic, which costs time and no counts:
 *   denormal    per cent of the state's floats that are denormal at the end
 * NOISE. Keys are windows of 24 samples of a slow series whose size changes, and a 1; values of 4
 * are a fixed linear map of the key, of variance 1, and noise of that deviation. Every row, and
 * the presets for a purpose, as they come: the mean square of what an answer, asked for before its
 * pair is written, is off the values without noise, over the second half of 20,000 writes (1: as
 * good as 0). Beside them recursive least squares in double, forgetting .999. Then categories: one
 * of 4 is drawn by the softmax of twice such values; bits of the one that came, by the softmax of
 * the answer or, of what fits one-hots, by answers clipped from 0.01 up and divided by their sum;
 * beside them what knows the map.
 *
 * At the end a small table has every row and input: ok, or the bars that failed. Exit status: 0 all
 * held, 1 some bar failed or a file did, 2 wrong arguments. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"

enum { RANDOM, RECURRING, CONSTANT, SILENT, SMALL, LARGE, SPIKES, DRIFTING, INPUTS };
static const char *const input_name[INPUTS] = {"random", "recurring", "constant", "silent",
                                               "small",  "large",     "spikes",   "drifting"};
enum {
  PAIRS = 32,              /* that recur, and over which errors and surprises are taken */
  TIMED = 128,             /* writes of a kept moment */
  COUNTED = 32,            /* of those, how many are counted */
  SETTLED = 1024,          /* writes before the first moment */
  LOUD = 256,              /* writes before silence */
  LOOK = 61,               /* writes between two looks at outputs; a prime, so that it meets all */
  SPIKE = 1000             /* one write in so many */
};

/* Bars that a cell of the table can fail. */
enum { FINITE = 1, OUTPUT = 2, ERROR = 4, TIME = 8, COUNT = 16 };

static void die(int status, const char *format, ...) {
  va_list list;
  fputs("soak: ", stderr);
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
  exit(status);
}

static void *room(size_t count, size_t size) {
  void *p = calloc(count ? count : 1, size);
  if (!p) die(1, "there is not enough memory for %lu items", (unsigned long)count);
  return p;
}

/* Of the processor, not of the wall: others may be using the machine too. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double norm(const float *x, int n) {
  double sum = 0;
  int i;
  for (i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

/* ---- inputs ---- */

typedef struct source {
  int input, dk, dv;
  uint64_t state;          /* of the random numbers */
  uint64_t taken;          /* pairs so far */
  float *keys, *values;    /* what recurs [PAIRS], is constant [1] or walks [1] */
} source;

/* splitmix64 */
static uint64_t next(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* n entries uniform in -scale..scale: 24 bits each, two of a draw. */
static void uniform(uint64_t *state, float *x, int n, float scale) {
  int i;
  for (i = 0; i < n; i += 2) {
    uint64_t bits = next(state);
    x[i] = scale * ((float)(bits >> 40) / 8388608.0f - 1.0f);
    if (i + 1 < n) x[i + 1] = scale * ((float)(bits >> 8 & 0xffffffu) / 8388608.0f - 1.0f);
  }
}

static void walk(uint64_t *state, float *x, int n, float *move) {
  int i;
  uniform(state, move, n, 0.01f);
  for (i = 0; i < n; i++) {
    x[i] += move[i];
    if (x[i] > 1.0f) x[i] = 2.0f - x[i];
    if (x[i] < -1.0f) x[i] = -2.0f - x[i];
  }
}

static float scale_of(int input) {
  return input == SMALL ? 1e-3f : input == LARGE ? 1e3f : 1.0f;
}

static void source_open(source *s, int input, int dk, int dv, uint64_t seed) {
  memset(s, 0, sizeof *s);
  s->input = input;
  s->dk = dk;
  s->dv = dv;
  s->state = seed * 0x2545f4914f6cdd1du;
  s->keys = (float *)room((size_t)PAIRS * (size_t)dk, sizeof(float));
  s->values = (float *)room((size_t)PAIRS * (size_t)dv, sizeof(float));
  uniform(&s->state, s->keys, PAIRS * dk, 1.0f);
  uniform(&s->state, s->values, PAIRS * dv, 1.0f);
}

static void source_close(source *s) { free(s->keys), free(s->values); }

static void source_next(source *s, float *key, float *value) {
  const size_t at = s->input == RECURRING ? (size_t)(s->taken % PAIRS) : 0;
  const size_t dk = (size_t)s->dk, dv = (size_t)s->dv;
  switch (s->input) {
    case DRIFTING:
      walk(&s->state, s->keys, s->dk, key);
      walk(&s->state, s->values, s->dv, value);
      /* fall through */
    case RECURRING:
    case CONSTANT:
      memcpy(key, s->keys + at * dk, dk * sizeof *key);
      memcpy(value, s->values + at * dv, dv * sizeof *value);
      break;
    default: {
      float scale = scale_of(s->input);
      if (s->input == SPIKES && s->taken % SPIKE == SPIKE / 2) scale = 1e4f;
      if (s->input == SILENT && s->taken >= LOUD) scale = 0.0f;
      uniform(&s->state, key, s->dk, scale);
      uniform(&s->state, value, s->dv, scale);
    }
  }
  s->taken++;
}

/* ---- a row under test ---- */

typedef struct row {
  miras_preset kind;
  miras_memory_desc d;
  miras_memory *m;
  int dk, dv, steps;
  int tokens;              /* driven by miras_memory_forward: RWKV-7 */
  float *unit, *half, *erase, *y;
} row;

static void row_open(row *r, miras_preset kind, int dim) {
  char why[256] = "";
  memset(r, 0, sizeof *r);
  r->kind = kind;
  miras_memory_preset(&r->d, kind);
  r->d.key_dim = dim;
  if (!miras_memory_size(&r->d, why, sizeof why)) die(1, "%s: %s", miras_preset_name(kind), why);
  r->m = miras_memory_open(&r->d, NULL, NULL, 0);
  if (!r->m) die(1, "there is not enough memory for %s", miras_preset_name(kind));
  r->d = *miras_memory_desc_of(r->m);
  r->dk = r->d.key_dim;
  r->dv = r->d.value_dim;
  r->steps = r->d.inner_steps;
  r->tokens = r->d.separate_erase;
  r->unit = (float *)room((size_t)r->dk, sizeof(float));
  r->half = (float *)room((size_t)r->dk, sizeof(float));
  r->erase = (float *)room((size_t)r->dk, sizeof(float));
  r->y = (float *)room((size_t)r->dv, sizeof(float));
}

static void row_close(row *r) {
  miras_close(r->m);
  free(r->unit), free(r->half), free(r->erase), free(r->y);
}

static void to_unit(float *out, const float *x, int n) {
  double length = norm(x, n);
  int i;
  for (i = 0; i < n; i++) out[i] = length > 0 ? (float)((double)x[i] / length) : 0.0f;
}

/* One token: steps pairs. The surprise, or zero where there is none. */
static float row_write(row *r, const float *key, const float *value) {
  miras_memory_input x;
  float surprise = 0;
  int i;
  if (!r->tokens) return miras_memory_write(r->m, key, value, &surprise), surprise;
  memset(&x, 0, sizeof x);
  to_unit(r->unit, key, r->dk);
  for (i = 0; i < r->dk; i++) {
    r->half[i] = 0.5f * r->unit[i];
    r->erase[i] = -r->unit[i];
  }
  x.length = 1;
  x.key = x.replace = r->half;
  x.erase = r->erase;
  x.query = r->unit;
  x.value = value;
  if (miras_memory_forward(r->m, &x, r->y, NULL) != MIRAS_OK)
    die(1, "%s does not take these tokens", miras_preset_name(r->kind));
  return norm(r->y, r->dv) < HUGE_VAL ? 0.0f : (float)NAN;
}

static void row_read(row *r, const float *query, float *out) {
  if (r->tokens) to_unit(r->unit, query, r->dk);
  miras_memory_read(r->m, r->tokens ? r->unit : query, out);
}

static int corrects(const row *r) {
  return r->d.bias != MIRAS_BIAS_DOT && r->d.architecture != MIRAS_ARCH_KV_CACHE && !r->tokens;
}

/* Does an answer grow with what it was given? */
static int sums(const row *r) { return r->d.bias == MIRAS_BIAS_DOT && !r->d.normalize; }

/* ---- a moment: a state and what came next ---- */

typedef struct moment {
  void *state;
  size_t bytes;
  float *keys, *values;    /* of TIMED writes */
} moment;

static void moment_open(moment *o, const row *r) {
  miras_memory_state(r->m, &o->bytes);
  o->state = room(o->bytes, 1);
  o->keys = (float *)room((size_t)(TIMED * r->steps * r->dk), sizeof(float));
  o->values = (float *)room((size_t)(TIMED * r->steps * r->dv), sizeof(float));
}

static void moment_close(moment *o) { free(o->state), free(o->keys), free(o->values); }

static void writes(row *r, const moment *o, int count) {
  int i;
  for (i = 0; i < count; i++)
    row_write(r, o->keys + (size_t)(i * r->steps * r->dk),
              o->values + (size_t)(i * r->steps * r->dv));
}

/* What callgrind watches by its name; through a pointer that the compiler cannot follow, so that it
 * stays a function. */
static void soak_counted_writes(row *r, const moment *o, int count) { writes(r, o, count); }
static void (*volatile counted)(row *, const moment *, int) = soak_counted_writes;

static void restore(row *r, const moment *o) {
  size_t bytes;
  memcpy(miras_memory_state(r->m, &bytes), o->state, o->bytes);
}

static double seconds(row *r, const moment *o) {
  double start;
  restore(r, o);
  start = now();
  writes(r, o, TIMED);
  return (now() - start) / TIMED;
}

/* Seconds per write of two moments: five rounds, and for quick rows ten milliseconds of them; ten
 * times that before a ratio counts as over the bar. */
static void time_moments(row *r, const moment o[2], double best[2], double bar) {
  double spent = 0;
  int i, j;
  best[0] = best[1] = HUGE_VAL;
  for (i = 0; i < 5 || spent < 0.01 ||
              (best[1] > bar * best[0] && (i < 50 || spent < 0.1)); i++)
    for (j = 0; j < 2; j++) {
      double s = seconds(r, &o[j]);
      if (s < best[j]) best[j] = s;
      spent += s * TIMED;
    }
}

/* Instructions per write, or 0 if they cannot be counted. */
static double count_moment(const row *r, const moment *o, const char *self) {
  const char *folder = getenv("TMPDIR");
  char path[512], line[1024];
  int32_t head[2];
  unsigned long long total = 0;
  size_t keys = (size_t)(TIMED * r->steps * r->dk), values = (size_t)(TIMED * r->steps * r->dv);
  int handle;
  FILE *f;
  snprintf(path, sizeof path, "%s/soak.XXXXXX", folder && *folder ? folder : "/tmp");
  handle = mkstemp(path);
  f = handle < 0 ? NULL : fdopen(handle, "wb");
  if (!f) die(1, "%s cannot be written: %s", path, strerror(errno));
  head[0] = (int32_t)r->kind;
  head[1] = (int32_t)r->dk;
  if (fwrite(head, sizeof head, 1, f) != 1 || fwrite(o->state, 1, o->bytes, f) != o->bytes ||
      fwrite(o->keys, sizeof(float), keys, f) != keys ||
      fwrite(o->values, sizeof(float), values, f) != values || fclose(f))
    die(1, "%s cannot be written: the disk may be full", path);
  snprintf(line, sizeof line,
           "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
           "--toggle-collect='soak_counted_writes*' '%s' --child '%s' 2>&1", self, path);
  f = popen(line, "r");
  while (f && fgets(line, sizeof line, f)) {
    const char *at = strstr(line, "Collected : ");
    if (at) total = strtoull(at + 12, NULL, 10);
  }
  if (f) pclose(f);
  remove(path);
  return (double)total / COUNTED;
}

/* The process that callgrind watches. */
static int child(const char *path) {
  int32_t head[2] = {0, 0};
  FILE *f = fopen(path, "rb");
  moment o;
  row r;
  size_t keys, values;
  if (!f || fread(head, sizeof head, 1, f) != 1) die(1, "%s cannot be read", path);
  row_open(&r, (miras_preset)head[0], (int)head[1]);
  moment_open(&o, &r);
  keys = (size_t)(TIMED * r.steps * r.dk);
  values = (size_t)(TIMED * r.steps * r.dv);
  if (fread(o.state, 1, o.bytes, f) != o.bytes || fread(o.keys, sizeof(float), keys, f) != keys ||
      fread(o.values, sizeof(float), values, f) != values)
    die(1, "%s is too short", path);
  fclose(f);
  restore(&r, &o);
  counted(&r, &o, COUNTED);
  moment_close(&o);
  row_close(&r);
  return 0;
}

/* ---- one cell: a row and an input ---- */

typedef struct cell {
  uint64_t end;            /* writes done; fewer than asked for if it is no longer finite */
  double output, most;     /* largest output, and its bar */
  double error;            /* or -1 where there is none */
  double surprise[2];
  double time[2], count[2];
  double denormal;
  int failed;
} cell;

/* Keeps the largest output over the largest value; 0 if it is not finite. */
static int look(row *r, cell *c, const float *query, double largest, double *largest_query,
                float *out) {
  double y, q = norm(query, r->dk);
  row_read(r, query, out);
  y = norm(out, r->dv);
  if (q > *largest_query) *largest_query = q;
  if (!(y < HUGE_VAL)) return 0;
  if (largest > 0 && y / largest > c->output) c->output = y / largest;
  return 1;
}

static double difference(const float *a, const float *b, int n) {
  double sum = 0;
  int i;
  for (i = 0; i < n; i++) {
    const double e = (double)a[i] - (double)b[i];
    sum += e * e;
  }
  return sqrt(sum);
}

/* How many of a hundred numbers of the state are denormal. */
static double denormals(row *r) {
  size_t bytes, j, count = 0;
  const unsigned char *state = (const unsigned char *)miras_memory_state(r->m, &bytes);
  for (j = 0; j < bytes / sizeof(float); j++) {
    uint32_t bits;
    memcpy(&bits, state + j * sizeof bits, sizeof bits);
    count += !(bits & 0x7f800000u) && bits & 0x007fffffu;
  }
  return 100.0 * (double)count / (double)(bytes / sizeof(float));
}

/* The bars that a sound memory fails. */
static int below_bars(row *r, const cell *c, int input, double bar) {
  int failed = 0;
  if (!(c->output <= c->most)) failed |= OUTPUT;
  if (input == RECURRING && corrects(r) && r->dk >= 2 * PAIRS && !(c->error <= 0.1))
    failed |= ERROR;
  if (!(c->time[1] <= bar * c->time[0])) failed |= TIME;
  if (!(c->count[1] <= 1.2 * c->count[0])) failed |= COUNT;
  return failed;
}

/* Write t of a moment, before it is written. */
static void moment_note(moment *o, const row *r, size_t t, const float *key, const float *value) {
  const size_t keys = (size_t)r->steps * (size_t)r->dk, values = (size_t)r->steps * (size_t)r->dv;
  size_t bytes;
  if (t == 0) memcpy(o->state, miras_memory_state(r->m, &bytes), o->bytes);
  memcpy(o->keys + t * keys, key, keys * sizeof *key);
  memcpy(o->values + t * values, value, values * sizeof *value);
}

/* How many of so many writes are not forgotten. */
static double remembered(const row *r, uint64_t writes) {
  const double all = (double)writes * r->steps;
  return r->d.retention == MIRAS_RETENTION_ALL || !(r->d.decay_rate > 0)
           ? all : fmin(all, 1 / (double)r->d.decay_rate);
}

/* What a memory that stayed finite comes to. */
static void judge(row *r, int input, moment *o, double *error, double bar, const char *self,
                  cell *c) {
  int k;
  qsort(error, PAIRS, sizeof *error, by_size);
  c->error = (error[PAIRS / 2 - 1] + error[PAIRS / 2]) / 2;
  c->denormal = denormals(r);
  time_moments(r, o, c->time, bar);
  for (k = 0; self && k < 2; k++) c->count[k] = count_moment(r, &o[k], self);
  c->failed = below_bars(r, c, input, bar);
}

static void soak(row *r, int input, uint64_t count, uint64_t seed, double bar, const char *self,
                 cell *c) {
  const size_t dk = (size_t)r->dk, dv = (size_t)r->dv, steps = (size_t)r->steps;
  const int at_once = input != RECURRING && input != SILENT; /* how errors are taken */
  source s;
  moment o[2];
  float *key = (float *)room(steps * dk, sizeof *key), *out = (float *)room(dv, sizeof *out);
  float *value = (float *)room(steps * dv, sizeof *value), *probe;
  float *last_key = (float *)room(PAIRS * dk, sizeof *key);   /* the last that were not zero */
  float *last_value = (float *)room(PAIRS * dv, sizeof *value);
  double error[PAIRS], largest = 0, largest_key = 0, largest_query = 0, before = 0;
  uint64_t i, from[2], heard = 0, other = ~seed;
  size_t j;
  int errors = 0, k, sound = 1;

  memset(c, 0, sizeof *c);
  c->error = -1;
  miras_memory_reset(r->m);
  source_open(&s, input, r->dk, r->dv, seed);
  for (k = 0; k < 2; k++) moment_open(&o[k], r);
  probe = (float *)room(dk, sizeof *probe);
  from[1] = count - TIMED;
  from[0] = from[1] < SETTLED + SPIKE ? 0 : SETTLED + (from[1] - SETTLED) % SPIKE;
  for (i = 0; i < count && sound; i++) {
    float surprise;
    for (j = 0; j < steps; j++) {
      double length, size;
      source_next(&s, key + j * dk, value + j * dv);
      length = norm(value + j * dv, r->dv);
      size = norm(key + j * dk, r->dk);
      if (length > largest) largest = length;
      if (size > largest_key) largest_key = size;
      if (length > 0) {
        memcpy(last_key + (size_t)(heard % PAIRS) * dk, key + j * dk, dk * sizeof *key);
        memcpy(last_value + (size_t)(heard % PAIRS) * dv, value + j * dv, dv * sizeof *value);
        heard++;
      }
    }
    for (k = 0; k < 2; k++)
      if (i >= from[k] && i < from[k] + TIMED)
        moment_note(&o[k], r, (size_t)(i - from[k]), key, value);
    if (i == 0) {
      uniform(&other, probe, r->dk, scale_of(input));
      row_read(r, probe, out);
      before = norm(out, r->dv);
    }
    surprise = row_write(r, key, value);
    if (i < PAIRS) c->surprise[0] += (double)surprise / PAIRS;
    if (i >= count - PAIRS) c->surprise[1] += (double)surprise / PAIRS;
    if (!isfinite(surprise)) sound = 0;
    if (i % LOOK == 0 || i + 1 == count) {
      uniform(&other, probe, r->dk, scale_of(input));
      sound = sound && look(r, c, key + (steps - 1) * dk, largest, &largest_query, out) &&
              look(r, c, probe, largest, &largest_query, out);
    }
    if (i % 1024 == 0 || i + 1 == count) sound = sound && isfinite(miras_memory_norm(r->m));
    if (sound && at_once && i >= count - PAIRS) {
      const float *v = value + (steps - 1) * dv;
      sound = look(r, c, key + (steps - 1) * dk, largest, &largest_query, out);
      error[errors++] = difference(out, v, r->dv) / norm(v, r->dv);
    }
  }
  c->end = i;
  for (k = 0; sound && !at_once && k < PAIRS; k++) {
    const float *v = last_value + (size_t)k * dv;
    sound = look(r, c, last_key + (size_t)k * dk, largest, &largest_query, out);
    error[errors++] = difference(out, v, r->dv) / norm(v, r->dv);
  }
  if (r->d.qk_norm == MIRAS_QK_NORM_L2) largest_key = largest_query = 1;
  c->most = sums(r) ? 1.01 * remembered(r, i) * (double)r->d.learning_rate * largest_key *
                        largest_query : 1000 * fmax(1, before / largest);
  if (sound) judge(r, input, o, error, bar, self, c);
  else c->failed = FINITE;
  source_close(&s);
  for (k = 0; k < 2; k++) moment_close(&o[k]);
  free(key), free(value), free(out), free(probe), free(last_key), free(last_value);
}

/* ---- tables ---- */

/* The bars that failed, in words. */
static const char *verdict(int failed) {
  static char text[64];
  static const char *const name[] = {"finite", "output", "error", "time", "count"};
  int i;
  text[0] = 0;
  for (i = 0; i < 5; i++)
    if (failed >> i & 1) {
      if (text[0]) strcat(text, ", ");
      strcat(text, name[i]);
    }
  return failed ? text : "ok";
}

static void print_cell(const row *r, int input, const cell *c, int counts) {
  printf("| %s | %s |", miras_preset_name(r->kind), input_name[input]);
  if (c->failed & FINITE) printf(" until %lu |", (unsigned long)c->end);
  else printf(" yes |");
  printf(" %.3g%s |", c->output, sums(r) ? " (sum)" : "");
  if (c->failed & FINITE) {
    printf(" | | | | | |%s **%s** |\n", counts ? " | | |" : "", verdict(c->failed));
    return;
  }
  printf(" %.2g |", c->error);
  if (r->tokens) printf(" | |");
  else printf(" %.3g | %.3g |", c->surprise[0], c->surprise[1]);
  printf(" %.2f | %.2f | %.2f |", c->time[0] * 1e6, c->time[1] * 1e6, c->time[1] / c->time[0]);
  if (counts) {
    if (c->count[0] > 0 && c->count[1] > 0)
      printf(" %.1f | %.1f | %.2f |", c->count[0] / 1e3, c->count[1] / 1e3,
             c->count[1] / c->count[0]);
    else printf(" | | |");
  }
  printf(" %.0f |", c->denormal);
  printf(c->failed ? " **%s** |\n" : " %s |\n", verdict(c->failed));
}

/* ---- noise ---- */

enum { LAGS = 24, WINDOW = LAGS + 1, OUTS = 4, NOISY = 20000 };

static double gauss(uint64_t *state) {
  float u[12];
  double sum = 0;
  int i;
  uniform(state, u, 12, 0.5f);
  for (i = 0; i < 12; i++) sum += (double)u[i];
  return sum;
}

/* A stream of keys and what they stand for. */
typedef struct stream {
  uint64_t state;
  double slow, loud, map[WINDOW][OUTS];
  float key[WINDOW];
} stream;

static void stream_next(stream *s, double truth[OUTS]) {
  int i, j;
  s->slow = 0.95 * s->slow + 0.31 * gauss(&s->state);
  s->loud = 0.999 * s->loud + 0.02 * gauss(&s->state);
  memmove(s->key + 1, s->key, (LAGS - 1) * sizeof *s->key);
  s->key[0] = (float)(s->slow * exp(s->loud) + 0.3 * gauss(&s->state));
  s->key[LAGS] = 1;
  for (j = 0; j < OUTS; j++)
    for (truth[j] = 0, i = 0; i < WINDOW; i++) truth[j] += (double)s->key[i] * s->map[i][j];
}

/* A map whose values have variance 1. */
static void stream_open(stream *s, uint64_t seed) {
  double truth[OUTS], square[OUTS] = {0};
  int i, j, t;
  memset(s, 0, sizeof *s);
  s->state = seed;
  for (i = 0; i < WINDOW; i++)
    for (j = 0; j < OUTS; j++) s->map[i][j] = gauss(&s->state);
  for (t = 0; t < NOISY; t++) {
    stream_next(s, truth);
    for (j = 0; j < OUTS; j++) square[j] += truth[j] * truth[j] / NOISY;
  }
  for (i = 0; i < WINDOW; i++)
    for (j = 0; j < OUTS; j++) s->map[i][j] /= sqrt(square[j]);
}

/* Bits of the one of OUTS that came: by logits, or (shares) by clipped shares. */
static double bits_of(const double *x, int came, int shares) {
  double most = x[0], sum = 0, own = 0;
  int j;
  for (j = 1; j < OUTS; j++) most = fmax(most, x[j]);
  for (j = 0; j < OUTS; j++) {
    const double p = shares ? fmax(0.01, x[j]) : exp(x[j] - most);
    sum += p;
    if (j == came) own = p;
  }
  return log2(sum / own);
}

/* Recursive least squares in double. */
static void peer_step(double p[WINDOW][WINDOW], double w[WINDOW][OUTS], const float *k,
                      const float *v, double answer[OUTS]) {
  double u[WINDOW], q = 0.999;
  int i, j;
  for (i = 0; i < WINDOW; i++) {
    for (u[i] = 0, j = 0; j < WINDOW; j++) u[i] += p[i][j] * (double)k[j];
    q += u[i] * (double)k[i];
  }
  for (j = 0; j < OUTS; j++)
    for (answer[j] = 0, i = 0; i < WINDOW; i++) answer[j] += w[i][j] * (double)k[i];
  for (i = 0; i < WINDOW; i++)
    for (j = 0; j < OUTS; j++) w[i][j] += u[i] / q * ((double)v[j] - answer[j]);
  for (i = 0; i < WINDOW; i++)
    for (j = 0; j < WINDOW; j++) p[i][j] = (p[i][j] - u[i] * u[j] / q) / 0.999;
}

/* A preset, or with m NULL the peer, in noise of this deviation; below 0: categories, and what
 * knows the map into *best. */
static double noisy(miras_memory *m, double noise, double *best) {
  static double p[WINDOW][WINDOW], w[WINDOW][OUTS];
  const int logits = m && miras_memory_desc_of(m)->bias == MIRAS_BIAS_CROSS_ENTROPY;
  stream s;
  double total = 0, truth[OUTS], said[OUTS];
  int t, i, j;
  stream_open(&s, 5);
  memset(p, 0, sizeof p), memset(w, 0, sizeof w);
  for (i = 0; i < WINDOW; i++) p[i][i] = 10;
  for (*best = 0, t = 0; t < NOISY; t++) {
    float value[OUTS], answer[OUTS];
    double draw, sum = 0;
    int came = 0;
    stream_next(&s, truth);
    for (j = 0; j < OUTS; j++) value[j] = (float)(truth[j] + noise * gauss(&s.state));
    if (noise < 0) {
      for (j = 0; j < OUTS; j++) truth[j] *= 2, sum += exp(truth[j]);
      draw = (double)(next(&s.state) >> 11) / 9007199254740992.0 * sum;
      for (; came < OUTS - 1 && draw >= exp(truth[came]); came++) draw -= exp(truth[came]);
      for (j = 0; j < OUTS; j++) value[j] = j == came;
    }
    if (m) {
      miras_memory_event e;
      memset(&e, 0, sizeof e);
      e.key = s.key, e.value = value, e.answer = answer;
      if (miras_memory_learn(m, &e) != MIRAS_OK) return -1;
      for (j = 0; j < OUTS; j++) said[j] = (double)answer[j];
    } else {
      peer_step(p, w, s.key, value, said);
    }
    if (t < NOISY / 2) continue;
    if (noise < 0) {
      total += bits_of(said, came, !logits) * 2 / NOISY;
      *best += bits_of(truth, came, 0) * 2 / NOISY;
    } else {
      for (j = 0; j < OUTS; j++)
        total += (said[j] - truth[j]) * (said[j] - truth[j]) * 2 / NOISY / OUTS;
    }
  }
  return total;
}

static int noise_table(void) {
  static const double noises[] = {0, 0.1, 1, -1};
  double best = 0, x;
  int k, i;
  puts("| preset | no noise | 0.1 | 1 | categories, bits |\n|---|--:|--:|--:|--:|");
  for (k = -1; k < MIRAS_PRESET_COUNT; k++) {
    const int peer = k < 0;
    miras_memory *m = NULL;
    miras_memory_desc d;
    if (k == MIRAS_PRESET_ROWS) k = MIRAS_PRESET_ASSOCIATIONS;
    if (!peer) miras_memory_preset(&d, (miras_preset)k), d.key_dim = WINDOW, d.value_dim = OUTS;
    if (!peer && (d.inner_steps > 1 || d.separate_erase)) continue;
    if (!peer) m = miras_memory_open(&d, NULL, NULL, 0);
    if (!peer && !m) continue;               /* one whose values are as wide as keys */
    printf("| %s |", peer ? "*least squares in double*" : miras_preset_name((miras_preset)k));
    for (i = 0; i < 4; i++) {
      if (m) miras_memory_reset(m);
      x = noisy(m, noises[i], &best);
      if (noises[i] >= 0 && m && d.bias == MIRAS_BIAS_CROSS_ENTROPY) printf(" |");
      else if (isfinite(x)) printf(" %.3g |", x);
      else printf(" no number |");
    }
    printf("\n");
    miras_close(m);
  }
  printf("| *what knows the map* | 0 | 0 | 0 | %.3g |\n", best);
  return fflush(stdout) || ferror(stdout);
}

static double number(const char *name, const char *text, double low, double high) {
  char *end = NULL;
  double x = strtod(text, &end);
  if (end == text || *end || !(x >= low && x <= high) || x > floor(x))
    die(2, "%s is \"%s\"; it must be a whole number from %g to %g", name, text, low, high);
  return x;
}

/* Sets chosen[i] for every name in a list with commas; name(i) is the i-th there is. */
static void choose(const char *option, const char *list, int *chosen, int most,
                   const char *(*name)(int)) {
  char names[1024] = "";
  int i;
  memset(chosen, 0, (size_t)most * sizeof *chosen);
  for (i = 0; i < most; i++)
    snprintf(names + strlen(names), sizeof names - strlen(names), " %s", name(i));
  if (!*list) die(2, "%s is empty; its names are:%s", option, names);
  while (*list) {
    size_t length = strcspn(list, ",");
    for (i = 0; i < most; i++)
      if (strlen(name(i)) == length && !strncmp(name(i), list, length)) break;
    if (i == most)
      die(2, "%s has \"%.*s\", which is none of its names:%s", option, (int)length, list, names);
    chosen[i] = 1;
    list += length + (list[length] == ',');
  }
}

static const char *name_of_input(int i) { return input_name[i]; }
static const char *name_of_kind(int i) { return miras_preset_name((miras_preset)i); }

static void help(void) {
  puts("soak: what many writes do to a memory on its own, for every row of the table\n\n"
       "  --rows A,B,...     these rows (all)\n"
       "  --inputs A,B,...   these inputs (random,recurring,constant,silent,small,large,spikes,"
       "drifting)\n"
       "  --writes N         of each (1000000), rounded up to whole rounds of what recurs\n"
       "  --quick            10000 writes, and wider bars for times\n"
       "  --noise            noisy targets instead, in a table of its own\n"
       "  --dim N            width of keys and values (64)\n"
       "  --seed N           of the inputs (1)\n"
       "  --counts           instructions per write, by valgrind");
}

int main(int argc, char **argv) {
  static cell cells[MIRAS_PRESET_ROWS][INPUTS];
  int kinds[MIRAS_PRESET_ROWS], inputs[INPUTS], dim = 64, counts = 0, i, k, failed = 0;
  uint64_t count = 1000000, seed = 1;
  double bar = 1.2;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) kinds[i] = 1;
  for (i = 0; i < INPUTS; i++) inputs[i] = 1;
  for (i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(argv[i], "--counts")) { counts = 1; continue; }
    if (!strcmp(argv[i], "--quick")) { count = 10000, bar = 2; continue; }
    if (!strcmp(argv[i], "--noise")) return noise_table();
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      help();
      return 0;
    }
    if (!value && (argv[i][0] != '-' || !strstr(" --rows --inputs --writes --dim --seed", argv[i])))
      die(2, "%s is no option; soak --help lists them", argv[i]);
    if (!value) die(2, "%s needs a value behind it", argv[i]);
    if (!strcmp(argv[i], "--rows")) choose(argv[i], value, kinds, MIRAS_PRESET_ROWS, name_of_kind);
    else if (!strcmp(argv[i], "--inputs")) choose(argv[i], value, inputs, INPUTS, name_of_input);
    else if (!strcmp(argv[i], "--writes")) count = (uint64_t)number(argv[i], value, 512, 1e12);
    else if (!strcmp(argv[i], "--dim")) dim = (int)number(argv[i], value, 2, 4096);
    else if (!strcmp(argv[i], "--seed")) seed = (uint64_t)number(argv[i], value, 0, 1e15);
    else if (!strcmp(argv[i], "--child")) return child(value);
    else die(2, "%s is no option; soak --help lists them", argv[i]);
    i++;
  }
  count = (count + PAIRS - 1) / PAIRS * PAIRS;
  if (counts && system("valgrind --version >/dev/null 2>&1"))
    die(2, "--counts needs valgrind, which is not here");

  printf("- %lu writes, keys and values of %d, seed %lu, %s\n- **bold**: a bar that failed\n\n",
         (unsigned long)count, dim, (unsigned long)seed, miras_isa());
  printf("| row | input | finite | output / value | error | first surprise | last | us start | end "
         "| ratio |%s denormal %% | bars |\n", counts ? " 1000 instructions start | end | ratio |"
                                                     : "");
  printf("|---|---|---|--:|--:|--:|--:|--:|--:|--:|%s--:|---|\n", counts ? "--:|--:|--:|" : "");
  for (k = 0; k < MIRAS_PRESET_ROWS; k++) {
    row r;
    if (!kinds[k]) continue;
    row_open(&r, (miras_preset)k, dim);
    for (i = 0; i < INPUTS; i++) {
      cell *c = &cells[k][i];
      if (!inputs[i]) continue;
      soak(&r, i, count, seed, bar, counts ? argv[0] : NULL, c);
      /* random comes first */
      if (cells[k][RANDOM].time[0] > 0 && r.d.algorithm != MIRAS_ALGORITHM_LEAST_SQUARES &&
          !(fmax(c->time[0], c->time[1]) <= 2 * bar * cells[k][RANDOM].time[0]))
        c->failed |= TIME;
      print_cell(&r, i, c, counts);
      fflush(stdout);
      if (c->failed) failed = 1;
    }
    row_close(&r);
  }

  printf("\n| row |");
  for (i = 0; i < INPUTS; i++)
    if (inputs[i]) printf(" %s |", input_name[i]);
  printf("\n|---|");
  for (i = 0; i < INPUTS; i++)
    if (inputs[i]) printf("---|");
  for (k = 0; k < MIRAS_PRESET_ROWS; k++) {
    if (!kinds[k]) continue;
    printf("\n| %s |", miras_preset_name((miras_preset)k));
    for (i = 0; i < INPUTS; i++)
      if (inputs[i]) printf(" %s |", verdict(cells[k][i].failed));
  }
  printf("\n");
  if (fflush(stdout) || ferror(stdout)) die(1, "the output cannot be written");
  return failed;
}
