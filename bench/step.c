/* step.c: how long a training step of a language model takes: loss, gradients and AdamW of random
 * tokens. A program of its own, which compares threads,
 *
 *   cc -O2 bench/step.c -o step -lm -lpthread && ./step [name ...]
 *   WIDTH=128 LAYERS=4 HEADS=4 HIDDEN=0 BATCH=32 LENGTH=64 VOCAB=256 THREADS=2 ROUNDS=20
 *
 * and, as a shared library, what bench/step.py lets take turns with PyTorch. */
#define _POSIX_C_SOURCE 200809L
#define MIRAS_IMPLEMENTATION
#define MIRAS_PTHREADS
#include "../miras.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct step {
  const miras_parallel *pool;
  miras_model *model;
  miras_trainer *trainer;
  int32_t *tokens, *targets;
  int batch, length;
} step;

/* sizes: width, layers, heads, of the MLP (0: the usual one), batch, length, vocab, threads. NULL:
 * it does not open. */
step *step_open(const char *name, const int *sizes);
step *step_open(const char *name, const int *sizes) {
  step *s = (step *)calloc(1, sizeof *s);
  miras_model_desc d;
  miras_trainer_desc t;
  const size_t n = (size_t)sizes[4] * (size_t)sizes[5];
  uint32_t state = 1;
  size_t i;
  if (!s || miras_model_preset(&d, miras_preset_find(name), sizes[1]) != MIRAS_OK) return NULL;
  memset(&t, 0, sizeof t);
  d.width = sizes[0];
  d.heads = sizes[2];
  d.layer[0].mlp.hidden = sizes[3];
  d.vocab = sizes[6];
  t.batch = s->batch = sizes[4];
  t.context = s->length = sizes[5];
  s->pool = miras_pool_open(sizes[7], NULL, NULL, 0);
  t.parallel = s->pool;
  s->model = miras_model_open(&d, NULL, NULL, 0);
  s->trainer = miras_trainer_open(s->model, &t, NULL, NULL, 0);
  s->tokens = (int32_t *)malloc(2 * n * sizeof *s->tokens);
  if (!s->pool || !s->trainer || !s->tokens) return NULL;
  s->targets = s->tokens + n;
  for (i = 0; i < 2 * n; i++) {
    state = state * 1664525u + 1013904223u;
    s->tokens[i] = (int32_t)((state >> 8) % (uint32_t)sizes[6]);
  }
  return s;
}

size_t step_parameters(const step *s);
size_t step_parameters(const step *s) {
  size_t count;
  miras_model_params(s->model, &count);
  return count;
}

float step_run(step *s);
float step_run(step *s) {
  miras_adamw_options o;
  miras_batch x;
  float loss = 0;
  memset(&x, 0, sizeof x);
  x.batch = s->batch, x.length = s->length, x.tokens = s->tokens, x.classes = s->targets;
  miras_trainer_loss(s->trainer, &x, 1, &loss);
  memset(&o, 0, sizeof o);
  o.beta1 = 0.9f, o.beta2 = 0.95f, o.epsilon = 1e-8f, o.clip = 1;
  miras_trainer_backward(s->trainer, NULL);
  miras_trainer_step(s->trainer, &o, 1e-4f, NULL);
  return loss;
}

static double clock_of(clockid_t which) {
  struct timespec t;
  clock_gettime(which, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

enum { THREADS = 64 };

/* The least of all rounds, threads in turns. */
static int compare(const char *name, int threads, int rounds) {
  double wall[THREADS], busy[THREADS];
  step *s[THREADS];
  int i, r;
  for (i = 0; i < threads; i++) {
    const int sizes[8] = {setting("WIDTH", 128), setting("LAYERS", 4),  setting("HEADS", 4),
                          setting("HIDDEN", 0),  setting("BATCH", 32), setting("LENGTH", 64),
                          setting("VOCAB", 256), i + 1};
    s[i] = step_open(name, sizes);
    if (!s[i]) return 0;
    step_run(s[i]);
    wall[i] = busy[i] = 1e9;
  }
  for (r = 0; r < rounds; r++)
    for (i = 0; i < threads; i++) {
      const double w = clock_of(CLOCK_MONOTONIC), c = clock_of(CLOCK_PROCESS_CPUTIME_ID);
      double dw, dc;
      step_run(s[i]);
      dw = clock_of(CLOCK_MONOTONIC) - w, dc = clock_of(CLOCK_PROCESS_CPUTIME_ID) - c;
      if (dw < wall[i]) wall[i] = dw;
      if (dc < busy[i]) busy[i] = dc;
    }
  for (i = 0; i < threads; i++)
    printf("| %s, %zu parameters | %d | %.2f | %.2f | %.0f | %.2f |\n", name,
           step_parameters(s[i]), i + 1, 1e3 * busy[i], 1e3 * wall[i],
           s[i]->batch * s[i]->length / wall[i], wall[0] / wall[i]);
  return 1;
}

int main(int argc, char **argv) {
  static const char *const usual[] = {"linear-attention", "yaad"};
  const int count = argc > 1 ? argc - 1 : 2, threads = setting("THREADS", 2);
  int i;
  printf("| model | threads | ms of processors | ms | tokens/s | x one |\n"
         "|---|--:|--:|--:|--:|--:|\n");
  for (i = 0; i < count; i++) {
    const char *name = argc > 1 ? argv[i + 1] : usual[i];
    if (compare(name, threads < THREADS ? threads : THREADS, setting("ROUNDS", 20))) continue;
    fprintf(stderr, "step: %s does not open\n", name);
    return 1;
  }
  return 0;
}
