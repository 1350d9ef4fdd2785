/* space.c: which attentional bias and which retention for what. Ten biases times thirteen
 * retentions, each as a matrix memory alone without a network around it, on five jobs.
 *
 *   cc -O2 bench/space.c -o space -lm && ./space --csv space.csv > space.md
 *   ./space --quick                              one sequence, few rates: a check, no result
 *   ./space --retentions lq,kl lq:q=4 kl:simplex=64     a few, and fields changed
 *   ./space --plain-keys                         see "keys" below
 *   ./space --help
 *
 * Keys and values have 16 entries and length 1, one head, chunk 1, gradient descent, gates passed
 * in. A job brings pairs one by one, and asks keys:
 *   capacity   24 random pairs, more than keys have entries, each written once; then each is asked
 *   outliers   8 pairs, each written 8 times in random order; a value in ten is replaced by a
 *              random vector of length 10; then each is asked for its clean value
 *   noise      the same, to each value a normal vector is added whose mean square is the value's
 *   shift      the same, each value is moved by exactly 1, along a line that the whole sequence
 *              shares and to a random side of it: a shift that is bounded, as in MIRAS eq. 17, and
 *              that no average over other pairs' values takes away
 *   drift      256 random keys k with values A k, where A turns all it maps by 0.02 radians from
 *              one write to the next; before each of the last 128 writes its key is asked
 * The score is the mean cosine between answer and true value, because not all of the choices
 * answer in the size of values; of an answer that is zero or no number it is 0. Beside the memories
 * stand two rules that keep all pairs: "nearest" answers with the value last written at the key
 * nearest to the one asked, "mean" with the mean of the values at keys whose cosine with it is
 * above 0.9, and where there are none as "nearest".
 *
 * Every bias, retention and job gets the learning rate and the decay that are best in the mean over
 * 16 sequences: rates 0.001, 0.002, 0.005, 0.01, ... 1000, times decays 1, 0.99 and 0.95 where the
 * retention has one. Of those within 0.001 of the best the rate next to 1 counts, then the greatest
 * decay. Scores are of three other groups of 16 sequences, seeds 1 to 3: their median, the lowest
 * and the highest. A best rate at either end of the sweep is reported as such, and so is a
 * combination that the library refuses, with its own sentence.
 *
 * What is set beside the choices; all else has its default (p 3, sharpness 10):
 *   huber, huber-mixture, log-cosh   threshold 0.25, the size of a value's entries
 *   huber-norm, pseudo-huber         threshold 1, a value's length
 *   shift-robust                     threshold 1, the length of the job's shifts
 *   lq, lq-pnorm                     q 2.5, as in the preset moneta; the default is 4
 *   kl, chi2, reverse-kl, hellinger  simplex 8; eight pairs need columns that sum to about 3
 *   kl                               simplex_signed 1
 *   l2-both                          balance 100: a rate of 1 decays by 0.99, as others may
 *   elastic-ftrl                     sparsity 0.03, cut off once; elastic cuts rate times its
 *                                    default, 0.001, with every write
 * Where a bound of steps is the default (L_p, behind retentions without bounded weights) it stays.
 * All memories begin with a dual state of zeros, so that none has anything to say before it has
 * learned something.
 *   keys       Weights of sigmoid and of the f-divergences (chi2, reverse-kl, hellinger) are
 *              positive, and those of a simplex cannot even be all small. So these four get (k, -k)
 *              for k, of 32 entries: the weights of the halves are subtracted, and say anything.
 *              simplex_signed does the same for kl within 16. With --plain-keys all five have
 *              positive weights and keys as they are. (So sigmoid is tanh of half its state here:
 *              sigmoid(a) - sigmoid(-a) = tanh(a/2).) */
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 16, PAIRS = 8, REPEATS = 8, CAPACITY = 24, DRIFT = 256, ASKED = 128, MOST = 256 };
enum { GROUPS = 3, BASELINES = 2 };
#define TURN 0.02            /* radians of drift from one write to the next                       */
#define TIE 0.001            /* rates within this of the best are as good                         */

typedef enum job { CAPACITY_JOB, OUTLIERS, NOISE, SHIFT, DRIFT_JOB, JOBS } job;
static const char *const job_names[JOBS] = {"capacity", "outliers", "noise", "shift", "drift"};

/* A choice: its word in the library, fields that go with it, does it decay, has it positive
 * weights and wants (k, -k)? */
typedef struct choice {
  const char *name, *fields;
  int decays, positive;
} choice;

static const choice biases[] = {
  {"dot", "", 0, 0},
  {"l2", "", 0, 0},
  {"lp", "", 0, 0},
  {"lp-smooth", "", 0, 0},
  {"huber", "threshold=0.25", 0, 0},
  {"huber-norm", "threshold=1", 0, 0},
  {"huber-mixture", "threshold=0.25", 0, 0},
  {"pseudo-huber", "threshold=1", 0, 0},
  {"shift-robust", "threshold=1", 0, 0},
  {"log-cosh", "threshold=0.25", 0, 0}
};
static const choice retentions[] = {
  {"all", "", 0, 0},
  {"l2", "", 1, 0},
  {"lq", "q=2.5", 1, 0},
  {"lq-pnorm", "q=2.5", 1, 0},
  {"kl", "simplex=8:simplex_signed=1", 1, 0},
  {"l2-both", "balance=100", 0, 0},
  {"elastic", "sparsity=0.001", 1, 0},
  {"elastic-ftrl", "sparsity=0.03", 0, 0},
  {"sigmoid", "", 1, 1},
  {"chi2", "simplex=8", 0, 1},
  {"reverse-kl", "simplex=8", 0, 1},
  {"hellinger", "simplex=8", 0, 1},
  {"tanh", "", 1, 0}
};
enum {
  BIASES = (int)(sizeof biases / sizeof biases[0]),
  RETENTIONS = (int)(sizeof retentions / sizeof retentions[0])
};

static const float rates[] = {0.001f, 0.002f, 0.005f, 0.01f, 0.02f, 0.05f, 0.1f, 0.2f, 0.5f, 1,
                              2, 5, 10, 20, 50, 100, 200, 500, 1000};
static const float decays[] = {1, 0.99f, 0.95f};
enum {
  RATES = (int)(sizeof rates / sizeof rates[0]),
  DECAYS = (int)(sizeof decays / sizeof decays[0])
};

/* What was asked for on the command line. */
typedef struct options {
  const char *csv, *biases, *retentions;
  int sequences, plain;
  int every, decays;                /* of rates that are tried; of decays, the first so many      */
  int changes;
  char **change;                    /* CHOICE:FIELD=VALUE */
} options;

/* Sequences side by side: writes in turn, [writes, batch, DIM], and what is asked [asks, batch,
 * DIM], the last `before` of them before the last writes, one each, else behind all. */
typedef struct set {
  int batch, writes, asks, before;
  float *key, *value, *ask, *truth;
  float *key_twice, *ask_twice;     /* (k, -k) */
} set;

/* What a combination comes to in a job: scores in order, and what was chosen. */
typedef struct result {
  double score[GROUPS];
  int rate, decay;
} result;

typedef struct cell {
  int wanted;
  char why[256];                    /* the library's refusal */
  result of[JOBS];
} cell;

typedef struct bench {
  options o;
  set choose[JOBS], report[GROUPS][JOBS];
  cell cells[BIASES][RETENTIONS];
  result baseline[BASELINES][JOBS];
} bench;

static const char *const baseline_names[BASELINES] = {"nearest", "mean"};

static void die(int status, const char *sentence, const char *about) {
  fprintf(stderr, "space: %s%s\n", about, sentence);
  exit(status);
}

static float *floats(int a, int b, int c) {
  float *p = (float *)calloc((size_t)a * (size_t)b * (size_t)c, sizeof *p);
  if (!p) die(1, "out of memory", "");
  return p;
}

/* ---- random numbers ---- */

static uint64_t splitmix64(uint64_t *s) {
  uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* in (0, 1) */
static double uniform(uint64_t *s) {
  return ((double)(splitmix64(s) >> 11) + 0.5) / 9007199254740992.0;
}

static int below(uint64_t *s, int n) { return (int)(uniform(s) * n); }

static double normal(uint64_t *s) {
  const double r = sqrt(-2 * log(uniform(s)));
  return r * cos(6.283185307179586 * uniform(s));
}

static double dot(const double *a, const double *b) {
  double sum = 0;
  for (int i = 0; i < DIM; i++) sum += a[i] * b[i];
  return sum;
}

/* a random direction */
static void direction(uint64_t *s, double *x) {
  double length;
  for (int i = 0; i < DIM; i++) x[i] = normal(s);
  length = sqrt(dot(x, x));
  for (int i = 0; i < DIM; i++) x[i] /= length;
}

/* rows that are a random orthonormal basis */
static void basis(uint64_t *s, double rows[DIM][DIM]) {
  for (int i = 0; i < DIM; i++) {
    double length;
    direction(s, rows[i]);
    for (int pass = 0; pass < 2; pass++)
      for (int j = 0; j < i; j++) {
        const double along = dot(rows[i], rows[j]);
        for (int k = 0; k < DIM; k++) rows[i][k] -= along * rows[j][k];
      }
    length = sqrt(dot(rows[i], rows[i]));
    for (int k = 0; k < DIM; k++) rows[i][k] /= length;
  }
}

/* ---- the jobs ---- */

static void put(float *to, const set *x, int row, int sequence, const double *from) {
  to += ((size_t)row * (size_t)x->batch + (size_t)sequence) * DIM;
  for (int i = 0; i < DIM; i++) to[i] = (float)from[i];
}

static void make_capacity(set *x, int b, uint64_t *s) {
  for (int t = 0; t < CAPACITY; t++) {
    double k[DIM], v[DIM];
    direction(s, k), direction(s, v);
    put(x->key, x, t, b, k), put(x->value, x, t, b, v);
    put(x->ask, x, t, b, k), put(x->truth, x, t, b, v);
  }
}

/* outliers, noise and shift */
static void make_repeated(set *x, int b, uint64_t *s, job kind) {
  double k[PAIRS][DIM], v[PAIRS][DIM], line[DIM];
  int order[PAIRS * REPEATS];
  direction(s, line);
  for (int p = 0; p < PAIRS; p++) {
    direction(s, k[p]), direction(s, v[p]);
    put(x->ask, x, p, b, k[p]), put(x->truth, x, p, b, v[p]);
  }
  for (int t = 0; t < x->writes; t++) order[t] = t % PAIRS;
  for (int t = x->writes - 1; t > 0; t--) {
    const int other = below(s, t + 1), kept = order[t];
    order[t] = order[other], order[other] = kept;
  }
  for (int t = 0; t < x->writes; t++) {
    const double chance = uniform(s);
    double said[DIM], wild[DIM];
    memcpy(said, v[order[t]], sizeof said);
    direction(s, wild);
    for (int i = 0; i < DIM; i++) {
      if (kind == OUTLIERS && chance < 0.1) said[i] = 10 * wild[i];
      if (kind == NOISE) said[i] += normal(s) / sqrt((double)DIM);
      if (kind == SHIFT) said[i] += chance < 0.5 ? line[i] : -line[i];
    }
    put(x->key, x, t, b, k[order[t]]), put(x->value, x, t, b, said);
  }
}

/* A(t) = P' G(t) Q: every plane of coordinates 2i, 2i + 1 between the bases turns by t TURN. */
static void make_drift(set *x, int b, uint64_t *s) {
  double P[DIM][DIM], Q[DIM][DIM];
  basis(s, P), basis(s, Q);
  for (int t = 0; t < DRIFT; t++) {
    const double c = cos(t * TURN), n = sin(t * TURN);
    double k[DIM], v[DIM] = {0};
    direction(s, k);
    for (int i = 0; i < DIM; i += 2) {
      const double p = dot(Q[i], k), q = dot(Q[i + 1], k);
      for (int j = 0; j < DIM; j++)
        v[j] += P[i][j] * (c * p - n * q) + P[i + 1][j] * (n * p + c * q);
    }
    put(x->key, x, t, b, k), put(x->value, x, t, b, v);
    if (t < DRIFT - ASKED) continue;
    put(x->ask, x, t - (DRIFT - ASKED), b, k), put(x->truth, x, t - (DRIFT - ASKED), b, v);
  }
}

static float *twice(const float *k, int rows) {
  float *to = floats(rows, 2, DIM);
  for (int r = 0; r < rows; r++)
    for (int i = 0; i < DIM; i++) {
      to[2 * DIM * r + i] = k[DIM * r + i];
      to[2 * DIM * r + DIM + i] = -k[DIM * r + i];
    }
  return to;
}

static set make_set(job kind, int batch, uint64_t seed) {
  set x;
  x.batch = batch;
  x.writes = kind == CAPACITY_JOB ? CAPACITY : kind == DRIFT_JOB ? DRIFT : PAIRS * REPEATS;
  x.asks = kind == CAPACITY_JOB ? CAPACITY : kind == DRIFT_JOB ? ASKED : PAIRS;
  x.before = kind == DRIFT_JOB ? ASKED : 0;
  x.key = floats(x.writes, batch, DIM), x.value = floats(x.writes, batch, DIM);
  x.ask = floats(x.asks, batch, DIM), x.truth = floats(x.asks, batch, DIM);
  for (int b = 0; b < batch; b++) {
    uint64_t s = seed * 1000003 + (uint64_t)kind * 10007 + (uint64_t)b;
    s = splitmix64(&s);
    if (kind == CAPACITY_JOB) make_capacity(&x, b, &s);
    else if (kind == DRIFT_JOB) make_drift(&x, b, &s);
    else make_repeated(&x, b, &s, kind);
  }
  x.key_twice = twice(x.key, x.writes * batch);
  x.ask_twice = twice(x.ask, x.asks * batch);
  return x;
}

static void free_set(set *x) {
  free(x->key), free(x->value), free(x->ask), free(x->truth);
  free(x->key_twice), free(x->ask_twice);
}

/* ---- scores ---- */

static double cosine(const float *a, const float *b) {
  double ab = 0, aa = 0, bb = 0, c;
  for (int i = 0; i < DIM; i++) {
    ab += (double)a[i] * (double)b[i];
    aa += (double)a[i] * (double)a[i];
    bb += (double)b[i] * (double)b[i];
  }
  c = ab / sqrt(aa * bb);
  return c >= -2 && c <= 2 ? c : 0;
}

/* The mean cosine of a memory on a set, from its initial memory on. */
static double run_memory(miras_memory *m, const set *x, int rate, int decay, float *y) {
  const miras_memory_desc *d = miras_memory_desc_of(m);
  const size_t batch = (size_t)x->batch, dk = (size_t)d->key_dim;
  const float *key = dk > DIM ? x->key_twice : x->key, *ask = dk > DIM ? x->ask_twice : x->ask;
  float step[MOST], keep[MOST];
  double sum = 0;
  miras_memory_input in;
  memset(&in, 0, sizeof in);
  in.length = 1;
  in.learning_rate = step;
  if (d->decay_gate == MIRAS_GATE_HEAD) in.keep = keep;
  for (size_t b = 0; b < batch; b++) step[b] = rates[rate], keep[b] = decays[decay];
  miras_memory_reset(m);
  for (int t = 0, a = 0; t < x->writes || a < x->asks;) {
    if (a < x->asks && x->writes - t <= (x->before ? x->before - a : 0)) {
      miras_memory_read(m, ask + (size_t)a * batch * dk, y);
      for (size_t b = 0; b < batch; b++)
        sum += cosine(y + b * DIM, x->truth + ((size_t)a * batch + b) * DIM);
      a++;
    }
    if (t == x->writes) continue;
    in.key = in.query = key + (size_t)t * batch * dk;
    in.value = x->value + (size_t)t * batch * DIM;
    miras_memory_forward(m, &in, y, NULL);
    t++;
  }
  return sum / (x->asks * x->batch);
}

/* The same of the rules that keep all pairs. */
static double run_baseline(int mean, const set *x) {
  const int batch = x->batch;
  double sum = 0;
  for (int a = 0; a < x->asks; a++)
    for (int b = 0; b < batch; b++) {
      const int seen = x->before ? x->writes - x->before + a : x->writes;
      const float *ask = x->ask + (a * batch + b) * DIM;
      float answer[DIM] = {0};
      double best = -2;
      int nearest = 0, near = 0;
      for (int t = 0; t < seen; t++) {
        const float *v = x->value + (t * batch + b) * DIM;
        const double c = cosine(ask, x->key + (t * batch + b) * DIM);
        if (c >= best - 1e-6) nearest = t, best = fmax(c, best);
        if (!mean || c <= 0.9) continue;
        for (int i = 0; i < DIM; i++) answer[i] += v[i];
        near++;
      }
      if (!near) memcpy(answer, x->value + (nearest * batch + b) * DIM, sizeof answer);
      sum += cosine(answer, x->truth + (a * batch + b) * DIM);
    }
  return sum / (x->asks * batch);
}

static int compare_doubles(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  if (!n) return 0;
  qsort(x, (size_t)n, sizeof *x, compare_doubles);
  return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* ---- one combination ---- */

/* "FIELD=VALUE:FIELD=VALUE" */
static void change(miras_memory_desc *d, const char *said) {
  for (const char *next; said && *said; said = next) {
    char field[64] = "", value[64] = "";
    if (sscanf(said, "%63[^=:]=%63[^:]", field, value) < 2 ||
        miras_memory_desc_set(d, field, value) != MIRAS_OK)
      die(2, ": it must be FIELD=VALUE of a memory", said);
    next = strchr(said, ':');
    if (next) next++;
  }
}

static void choose(miras_memory_desc *d, const options *o, const char *what, const choice *c) {
  const size_t n = strlen(c->name);
  if (miras_memory_desc_set(d, what, c->name) != MIRAS_OK)
    die(1, ": the library has no such choice", c->name);
  change(d, c->fields);
  for (int i = 0; i < o->changes; i++)
    if (!strncmp(o->change[i], c->name, n) && o->change[i][n] == ':')
      change(d, o->change[i] + n + 1);
}

static miras_memory *open_memory(const options *o, int bias, int retention, char *why,
                                 size_t size) {
  const choice *r = &retentions[retention];
  miras_memory_desc d;
  miras_memory *m;
  float *init;
  size_t count;
  memset(&d, 0, sizeof d);
  choose(&d, o, "bias", &biases[bias]);
  choose(&d, o, "retention", r);
  d.batch = o->sequences;
  d.key_dim = r->positive && !o->plain ? 2 * DIM : DIM;
  d.value_dim = DIM;
  d.learning_rate_gate = MIRAS_GATE_HEAD;
  if (r->decays) d.decay_gate = MIRAS_GATE_HEAD;
  if (o->plain) d.simplex_signed = 0;
  m = miras_memory_open(&d, NULL, why, size);
  if (!m) return NULL;
  init = miras_memory_params(m, &count);
  for (size_t i = 0; i < count; i++) init[i] = 0;
  return m;
}

/* The rate and the decay for a job. */
static void tune(miras_memory *m, const set *x, int every, int tried, result *r, float *y) {
  double score[RATES][DECAYS], best = -2;
  int taken = RATES;
  for (int i = 0; i < RATES; i += every)
    for (int j = 0; j < tried; j++) {
      score[i][j] = run_memory(m, x, i, j, y);
      if (score[i][j] > best) best = score[i][j];
    }
  for (int j = 0; j < tried; j++)
    for (int i = 0; i < RATES; i += every) {
      const int off = abs(i - RATES / 2);
      if (score[i][j] < best - TIE || off >= taken) continue;
      r->rate = i, r->decay = j, taken = off;
    }
}

static void run_cell(bench *x, int bias, int retention, float *y) {
  cell *c = &x->cells[bias][retention];
  miras_memory *m = open_memory(&x->o, bias, retention, c->why, sizeof c->why);
  if (!m) return;
  for (int k = 0; k < JOBS; k++) {
    result *r = &c->of[k];
    tune(m, &x->choose[k], x->o.every, retentions[retention].decays ? x->o.decays : 1, r, y);
    for (int g = 0; g < GROUPS; g++)
      r->score[g] = run_memory(m, &x->report[g][k], r->rate, r->decay, y);
    median(r->score, GROUPS);
  }
  miras_close(m);
}

/* ---- what is printed ---- */

static void put_decay(FILE *f, int retention, int decay) {
  if (retentions[retention].decays) fprintf(f, "%g", (double)decays[decay]);
}

static void write_csv(const bench *x, FILE *f) {
  fprintf(f, "bias,retention,job,score,low,high,rate,decay\n");
  for (int i = 0; i < BASELINES; i++)
    for (int k = 0; k < JOBS; k++) {
      const double *s = x->baseline[i][k].score;
      fprintf(f, "baseline,%s,%s,%.4f,%.4f,%.4f,,\n", baseline_names[i], job_names[k], s[1], s[0],
              s[2]);
    }
  for (int i = 0; i < BIASES; i++)
    for (int j = 0; j < RETENTIONS; j++)
      for (int k = 0; k < JOBS && x->cells[i][j].wanted; k++) {
        const result *r = &x->cells[i][j].of[k];
        fprintf(f, "%s,%s,%s,", biases[i].name, retentions[j].name, job_names[k]);
        if (x->cells[i][j].why[0]) {
          fprintf(f, "refused,,,,\n");
          continue;
        }
        fprintf(f, "%.4f,%.4f,%.4f,%g,", r->score[1], r->score[0], r->score[2],
                (double)rates[r->rate]);
        put_decay(f, j, r->decay);
        fputc('\n', f);
      }
}

/* A cell's place in the ranking of a job. */
typedef struct place {
  double score;
  int bias, retention;
} place;

static int compare_places(const void *a, const void *b) {
  const place *x = (const place *)a, *y = (const place *)b;
  if (x->score < y->score || x->score > y->score) return x->score < y->score ? 1 : -1;
  return x->bias != y->bias ? x->bias - y->bias : x->retention - y->retention;
}

static int ranking(const bench *x, int k, place *p) {
  int n = 0;
  for (int i = 0; i < BIASES; i++)
    for (int j = 0; j < RETENTIONS; j++) {
      const cell *c = &x->cells[i][j];
      if (!c->wanted || c->why[0]) continue;
      p[n].score = c->of[k].score[1];
      p[n].bias = i;
      p[n++].retention = j;
    }
  qsort(p, (size_t)n, sizeof *p, compare_places);
  return n;
}

static void print_job(const bench *x, int k) {
  place p[BIASES * RETENTIONS];
  const int n = ranking(x, k, p), ends = n < 8 ? n : 8;
  int near = 0;
  while (near < n && p[near].score >= p[0].score - 0.01) near++;
  printf("\n## %s\n\n| | bias | retention | score | lowest | highest | rate | decay |\n"
         "|--:|---|---|--:|--:|--:|--:|--:|\n", job_names[k]);
  for (int i = 0; i < ends; i++) {
    const int at = i < 5 ? i : n - ends + i;
    const result *r = &x->cells[p[at].bias][p[at].retention].of[k];
    printf("| %d | %s | %s | %.3f | %.3f | %.3f | %g | ", at + 1, biases[p[at].bias].name,
           retentions[p[at].retention].name, r->score[1], r->score[0], r->score[2],
           (double)rates[r->rate]);
    put_decay(stdout, p[at].retention, r->decay);
    printf(" |\n");
  }
  for (int i = 0; i < BASELINES; i++) {
    const double *s = x->baseline[i][k].score;
    printf("| | baseline | %s | %.3f | %.3f | %.3f | | |\n", baseline_names[i], s[1], s[0], s[2]);
  }
  if (n) printf("\n%d of %d are within 0.01 of the best.\n", near, n);
}

/* Medians over the other choice. */
static void print_marginals(const bench *x, int of_bias) {
  const int rows = of_bias ? BIASES : RETENTIONS, others = of_bias ? RETENTIONS : BIASES;
  printf("\n## %s\n\nMedian over %s.\n\n| %s |", of_bias ? "Biases" : "Retentions",
         of_bias ? "retentions" : "biases", of_bias ? "bias" : "retention");
  for (int k = 0; k < JOBS; k++) printf(" %s |", job_names[k]);
  printf("\n|---|--:|--:|--:|--:|--:|\n");
  for (int i = 0; i < rows; i++) {
    int n = 0;
    for (int k = 0; k < JOBS; k++) {
      double score[BIASES + RETENTIONS];
      n = 0;
      for (int j = 0; j < others; j++) {
        const cell *c = of_bias ? &x->cells[i][j] : &x->cells[j][i];
        if (c->wanted && !c->why[0]) score[n++] = c->of[k].score[1];
      }
      if (!n) break;
      if (!k) printf("| %s |", of_bias ? biases[i].name : retentions[i].name);
      printf(" %.3f |", median(score, n));
    }
    if (n) printf("\n");
  }
}

/* Where the best rate is at the end of the sweep, and what the library refuses. */
static void print_rest(const bench *x) {
  int edges = 0, refused = 0;
  printf("\n## Rates at an end of the sweep\n\n");
  for (int i = 0; i < BIASES; i++)
    for (int j = 0; j < RETENTIONS; j++)
      for (int k = 0; k < JOBS; k++) {
        const cell *c = &x->cells[i][j];
        const int rate = c->of[k].rate;
        if (!c->wanted || c->why[0] || (rate && rate < RATES - 1)) continue;
        printf("- %s, %s, %s: %g\n", biases[i].name, retentions[j].name, job_names[k],
               (double)rates[rate]);
        edges++;
      }
  if (!edges) printf("None.\n");
  printf("\n## Refused\n\n");
  for (int i = 0; i < BIASES; i++)
    for (int j = 0; j < RETENTIONS; j++) {
      if (!x->cells[i][j].why[0]) continue;
      printf("- %s, %s: %s\n", biases[i].name, retentions[j].name, x->cells[i][j].why);
      refused++;
    }
  if (!refused) printf("None.\n");
}

/* ---- the command line ---- */

static int listed(const char *list, const char *name) {
  const size_t n = strlen(name);
  if (!list) return 1;
  for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
    if (!strncmp(list, name, n) && (list[n] == ',' || !list[n])) return 1;
  return 0;
}

static int is_choice(const char *name, size_t n) {
  for (int i = 0; i < BIASES + RETENTIONS; i++) {
    const char *is = i < BIASES ? biases[i].name : retentions[i - BIASES].name;
    if (strlen(is) == n && !strncmp(is, name, n)) return 1;
  }
  return 0;
}

static void check_list(const char *list) {
  while (list) {
    const size_t n = strcspn(list, ",");
    if (!is_choice(list, n)) die(2, ": there is no such choice; space --help", list);
    list = list[n] ? list + n + 1 : NULL;
  }
}

static void print_help(void) {
  printf("space [options] [CHOICE:FIELD=VALUE ...]\n"
         "  --csv FILE          every score into this file\n"
         "  --quick             one sequence, few rates: a check, no result\n"
         "  --biases LIST       these only, with commas between:");
  for (int i = 0; i < BIASES; i++) printf("%s%s", i % 6 ? " " : "\n      ", biases[i].name);
  printf("\n  --retentions LIST   these only:");
  for (int i = 0; i < RETENTIONS; i++)
    printf("%s%s", i % 8 ? " " : "\n      ", retentions[i].name);
  printf("\n  --plain-keys        no (k, -k) and no signed simplex for positive weights\n"
         "  kl:simplex=64       change a field of all memories with that choice\n");
}

static void parse(options *o, int argc, char **argv) {
  o->sequences = 16, o->every = 1, o->decays = DECAYS;
  o->change = argv;                           /* moved to the front as they come */
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i];
    const char **to = !strcmp(a, "--csv")          ? &o->csv
                      : !strcmp(a, "--biases")     ? &o->biases
                      : !strcmp(a, "--retentions") ? &o->retentions
                                                   : NULL;
    if (to && i + 1 == argc) die(2, " needs a word behind it", a);
    if (to) *to = argv[++i];
    else if (!strcmp(a, "--quick")) o->sequences = 1, o->every = 3, o->decays = 1;
    else if (!strcmp(a, "--plain-keys")) o->plain = 1;
    else if (!strcmp(a, "--help") || !strcmp(a, "-h")) print_help(), exit(0);
    else if (strchr(a, ':') && is_choice(a, strcspn(a, ":"))) o->change[o->changes++] = argv[i];
    else die(2, " is no option; space --help lists them", a);
  }
  check_list(o->biases);
  check_list(o->retentions);
}

int main(int argc, char **argv) {
  static bench x;
  FILE *csv = NULL;
  float *y;
  parse(&x.o, argc, argv);
  if (x.o.csv && !(csv = fopen(x.o.csv, "w"))) die(1, " cannot be written", x.o.csv);
  y = floats(x.o.sequences, 1, DIM);
  for (int k = 0; k < JOBS; k++) {
    x.choose[k] = make_set((job)k, x.o.sequences, 0);
    for (int g = 0; g < GROUPS; g++) {
      x.report[g][k] = make_set((job)k, x.o.sequences, (uint64_t)g + 1);
      for (int i = 0; i < BASELINES; i++)
        x.baseline[i][k].score[g] = run_baseline(i, &x.report[g][k]);
    }
    for (int i = 0; i < BASELINES; i++) median(x.baseline[i][k].score, GROUPS);
  }
  for (int i = 0; i < BIASES; i++)
    for (int j = 0; j < RETENTIONS; j++) {
      x.cells[i][j].wanted =
        listed(x.o.biases, biases[i].name) && listed(x.o.retentions, retentions[j].name);
      if (x.cells[i][j].wanted) run_cell(&x, i, j, y);
    }
  if (csv) {
    write_csv(&x, csv);
    if (ferror(csv) | fclose(csv)) die(1, " cannot be written", x.o.csv);
  }
  printf("- matrices of keys and values of %d, one head, chunk 1; sequences: %d to choose rate "
         "and decay, 3 times %d to score\n", DIM, x.o.sequences, x.o.sequences);
  for (int i = 0; i < x.o.changes; i++) printf("- %s\n", x.o.change[i]);
  if (x.o.plain) printf("- keys as they are for positive weights\n");
  for (int k = 0; k < JOBS; k++) print_job(&x, k);
  print_marginals(&x, 1);
  print_marginals(&x, 0);
  print_rest(&x);
  for (int k = 0; k < JOBS; k++) {
    free_set(&x.choose[k]);
    for (int g = 0; g < GROUPS; g++) free_set(&x.report[g][k]);
  }
  free(y);
  if (fflush(stdout) || ferror(stdout)) die(1, "the output cannot be written", "");
  return 0;
}
