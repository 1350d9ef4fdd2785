/* events.c: keys of which three entries in thousands are set, beside plain methods: which film will
 * a user like (4 stars or more)? MovieLens-100k in the order of time; each event is guessed before
 * it is learned, from nothing and in one pass.
 *
 *     sh bench/public.sh                   fetches it and runs this
 *     cc -O2 bench/events.c -o events -lm && ./events ml-100k.inter
 *
 * The file has a line of names, then user, film, stars and seconds, with tabs between. Rows of the
 * table: nats an event over the first 5,000, over all, over the last half; of stars 1 to 5 as five
 * kinds over all; microseconds an event; bytes. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"

enum { MOST = 200000, USERS = 1000, FILMS = 2000, KEYS = USERS + FILMS + 1, KINDS = 5 };

typedef struct event {
  int user, film, stars, line;
  double time;
} event;

static event events[MOST];
static int count;

static int earlier(const void *a, const void *b) {
  const event *x = (const event *)a, *y = (const event *)b;
  if (x->time < y->time || x->time > y->time) return x->time < y->time ? -1 : 1;
  return x->line - y->line;
}

static void read_events(const char *path) {
  FILE *f = fopen(path, "r");
  char line[256];
  int n = 0;
  if (!f) {
    fprintf(stderr, "%s cannot be read\n", path);
    exit(1);
  }
  while (count < MOST && fgets(line, sizeof line, f)) {
    event *e = &events[count];
    double stars;
    if (sscanf(line, "%d %d %lf %lf", &e->user, &e->film, &stars, &e->time) != 4) continue;
    e->stars = (int)stars;
    e->line = n++;
    if (e->user < 0 || e->user >= USERS || e->film < 0 || e->film >= FILMS || e->stars < 1 ||
        e->stars > KINDS) {
      fprintf(stderr, "%s: user %d, film %d, %d stars are beyond what is expected\n", path,
              e->user, e->film, e->stars);
      exit(1);
    }
    count++;
  }
  fclose(f);
  qsort(events, (size_t)count, sizeof *events, earlier);
}

/* ---- what guesses: p [kinds] of an event's three places, and then learns the kind ---- */

static int kinds;

/* How often each kind has been there so far. */
static double seen[KINDS];
static void base_rate(const int32_t *at, int kind, double *p) {
  double all = 0;
  int k;
  (void)at;
  for (k = 0; k < kinds; k++) all += seen[k] + 1;
  for (k = 0; k < kinds; k++) p[k] = (seen[k] + 1) / all;
  seen[kind]++;
}

/* Softmax regression, AdaGrad with that rate. */
static double weight[KEYS][KINDS], squares[KEYS][KINDS], rate;
static void adagrad(const int32_t *at, int kind, double *p) {
  double z[KINDS] = {0}, sum = 0;
  int i, k;
  for (i = 0; i < 3; i++)
    for (k = 0; k < kinds; k++) z[k] += weight[at[i]][k];
  for (k = 0; k < kinds; k++) sum += p[k] = exp(z[k]);
  for (k = 0; k < kinds; k++) p[k] /= sum;
  for (k = 0; k < kinds; k++)
    for (i = 0; i < 3; i++) {
      const double g = p[k] - (k == kind);
      squares[at[i]][k] += g * g;
      weight[at[i]][k] -= rate * g / (sqrt(squares[at[i]][k]) + 1e-6);
    }
}

static miras_memory *memory;
static void remembers(const int32_t *at, int kind, double *p) {
  float value[KINDS] = {0}, answer[KINDS];
  miras_memory_event e;
  int k;
  memset(&e, 0, sizeof e);
  value[kind] = 1;
  e.index = at, e.count = 3, e.value = value, e.answer = answer;
  if (miras_memory_learn(memory, &e) || miras_memory_probabilities(memory, answer, answer)) exit(1);
  for (k = 0; k < kinds; k++) p[k] = (double)answer[k];
}

/* Nats an event over the first 5,000, all, the last half. */
static double score(void (*guess)(const int32_t *at, int kind, double *p), double nats[3]) {
  const clock_t start = clock();
  int i;
  nats[0] = nats[1] = nats[2] = 0;
  for (i = 0; i < count; i++) {
    const event *e = &events[i];
    const int32_t at[3] = {e->user, USERS + e->film, KEYS - 1};
    const int kind = kinds == 2 ? e->stars >= 4 : e->stars - 1;
    double p[KINDS], cost;
    guess(at, kind, p);
    cost = -log(p[kind] > 1e-12 ? p[kind] : 1e-12);
    if (i < 5000) nats[0] += cost / 5000;
    nats[1] += cost / count;
    if (i >= count / 2) nats[2] += cost / (count - count / 2);
  }
  return 1e6 * (double)(clock() - start) / CLOCKS_PER_SEC / count;
}

static size_t bytes;
static void open_memory(const char *what) {
  miras_memory_desc d;
  char why[256];
  if (what[0] == 'e') {
    miras_memory_preset(&d, MIRAS_PRESET_EVENTS);
  } else {
    memset(&d, 0, sizeof d);
    d.bias = MIRAS_BIAS_CROSS_ENTROPY;
    d.learning_rate = 0.1f;
  }
  d.key_dim = KEYS;
  d.value_dim = kinds;
  bytes = miras_memory_size(&d, NULL, 0);
  memory = miras_memory_open(&d, NULL, why, sizeof why);
  if (!memory) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
}

int main(int argc, char **argv) {
  static const char *const names[] = {"always the base rate",
                                      "softmax regression, AdaGrad, rate 0.3",
                                      "the same, rate 0.5", "a matrix, cross entropy, rate 0.1",
                                      "preset events"};
  int row;
  if (argc != 2) {
    fprintf(stderr, "usage: events FILE\n");
    return 2;
  }
  read_events(argv[1]);
  printf("%d events\n\n| | first 5,000 | all | last half | five kinds | us | bytes |\n"
         "|---|--:|--:|--:|--:|--:|--:|\n", count);
  for (row = 0; row < 5; row++) {
    double nats[3], five[3], us = 0;
    for (kinds = KINDS; kinds >= 2; kinds -= KINDS - 2) {
      memset(seen, 0, sizeof seen), memset(weight, 0, sizeof weight);
      memset(squares, 0, sizeof squares);
      rate = row == 1 ? 0.3 : 0.5;
      bytes = row ? sizeof(double) * 2 * 2 * KEYS : sizeof seen;
      if (row > 2) open_memory(row == 4 ? "events" : "matrix");
      us = score(row == 0 ? base_rate : row < 3 ? adagrad : remembers, kinds == 2 ? nats : five);
      if (row > 2) miras_close(memory);
    }
    printf("| %s | %.4f | %.4f | %.4f | %.4f | %.2f | %lu |\n", names[row], nats[0], nats[1],
           nats[2], five[1], us, (unsigned long)bytes);
  }
  return 0;
}
