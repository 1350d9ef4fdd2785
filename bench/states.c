/* states.c: what it costs a running text to hold its memories' states in fewer bits, rounded behind
 * every token, in bits per byte of a text that the model has not seen.
 *
 *   cc -O2 bench/states.c -o states -lm && ./states tinyshakespeare.txt [ROW ...]
 *   STEPS=300 TOKENS=100000 WIDTH=64 SEED=1
 *
 * Each row of the table is trained on the first 90 % of the text, two layers behind a convolution
 * each, bytes as tokens, 8 windows of 256 a step; then the first TOKENS of the rest are fed, a call
 * for each, to one session of every form. Rows that run exactly are given chunk 1 for that, which
 * is the same model: every token then writes into what is rounded. A line: the row, its chunk, KiB
 * of a text held as float, bf16, int8 and pairs; bits per byte of float; and how many more those
 * of all others are, in the whole pass and, in brackets, in its last fifth. */
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 9, BATCH = 8, WINDOW = 256 };

typedef struct way {
  const char *name;
  miras_states states;
  miras_rounding rounding;
} way;

static const way ways[WAYS] = {
  {"float", MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST},
  {"bf16", MIRAS_STATES_BF16, MIRAS_ROUNDING_NEAREST},
  {"bf16, stochastic", MIRAS_STATES_BF16, MIRAS_ROUNDING_STOCHASTIC},
  {"f16", MIRAS_STATES_F16, MIRAS_ROUNDING_NEAREST},
  {"f16, stochastic", MIRAS_STATES_F16, MIRAS_ROUNDING_STOCHASTIC},
  {"int8", MIRAS_STATES_INT8, MIRAS_ROUNDING_NEAREST},
  {"int8, stochastic", MIRAS_STATES_INT8, MIRAS_ROUNDING_STOCHASTIC},
  {"int8 pairs", MIRAS_STATES_INT8_PAIR, MIRAS_ROUNDING_NEAREST},
  {"int8 pairs, stochastic", MIRAS_STATES_INT8_PAIR, MIRAS_ROUNDING_STOCHASTIC}};

static const char *const usual[] = {
  "linear-attention", "retnet-memory", "mamba2-memory", "deltanet-memory", "gated-deltanet",
  "rwkv7-memory", "ttt-linear-memory", "titans", "moneta"};

static int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

static void *must(void *p, const char *what, const char *why) {
  if (p) return p;
  fprintf(stderr, "states: %s: %s\n", what, why);
  exit(1);
}

/* The text as tokens. */
static int32_t *read_text(const char *path, size_t *count) {
  FILE *f = (FILE *)must(fopen(path, "rb"), path, "cannot be read");
  size_t room = (size_t)1 << 24, i;
  unsigned char *bytes = (unsigned char *)must(malloc(room), path, "no memory");
  int32_t *tokens;
  *count = fread(bytes, 1, room, f);
  fclose(f);
  tokens = (int32_t *)must(malloc((*count + 1) * sizeof *tokens), path, "no memory");
  for (i = 0; i < *count; i++) tokens[i] = bytes[i];
  free(bytes);
  return tokens;
}

static void train(miras_model *m, const int32_t *text, size_t count, int steps, uint64_t seed) {
  const miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
  miras_trainer_desc d;
  miras_trainer *t;
  char why[256];
  int32_t *in = (int32_t *)must(malloc(2 * BATCH * WINDOW * sizeof *in), "training", "no memory");
  int32_t *out = in + BATCH * WINDOW;
  int step, b;
  memset(&d, 0, sizeof d);
  d.batch = BATCH, d.context = WINDOW;
  t = (miras_trainer *)must(miras_trainer_open(m, &d, NULL, why, sizeof why), "training", why);
  for (step = 0; step < steps; step++) {
    miras_batch x;
    float loss;
    for (b = 0; b < BATCH; b++) {
      size_t at;
      seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      at = (size_t)(seed >> 33) % (count - WINDOW - 1);
      memcpy(in + b * WINDOW, text + at, WINDOW * sizeof *in);
      memcpy(out + b * WINDOW, text + at + 1, WINDOW * sizeof *in);
    }
    memset(&x, 0, sizeof x);
    x.batch = BATCH, x.length = WINDOW, x.tokens = in, x.classes = out;
    miras_trainer_loss(t, &x, 1, &loss);
    miras_trainer_backward(t, NULL);
    miras_trainer_step(t, &o,
                       miras_schedule_cosine((uint64_t)step, 30, (uint64_t)steps, 5e-3f, 0.1f),
                       NULL);
  }
  miras_close(t);
  free(in);
}

/* The same parameters token by token, where the chunk is no part of what the model says. */
static miras_model *by_tokens(miras_model *m) {
  miras_model_desc d = *miras_model_desc_of(m);
  const miras_memory_desc *of = &d.layer[0].memory;
  miras_model *one;
  size_t n, k;
  int i;
  if (of->architecture != MIRAS_ARCH_MATRIX || of->inner_norm) return m;
  for (i = 0; i < MIRAS_MAX_LAYER_KINDS; i++)
    if (d.layer[i].memory.chunk) d.layer[i].memory.chunk = 1;
  one = miras_model_open(&d, NULL, NULL, 0);
  if (!one) return m;
  {
    float *to = miras_model_params(one, &n);
    const float *from = miras_model_params(m, &k);
    if (n != k) {
      miras_close(one);
      return m;
    }
    memcpy(to, from, n * sizeof *to);
  }
  miras_close(m);
  return one;
}

int main(int argc, char **argv) {
  const int steps = setting("STEPS", 300), width = setting("WIDTH", 64);
  const uint64_t seed = (uint64_t)setting("SEED", 1);
  const char *const *rows = argc > 2 ? (const char *const *)argv + 2 : usual;
  const int count = argc > 2 ? argc - 2 : (int)(sizeof usual / sizeof usual[0]);
  size_t length, tokens = (size_t)setting("TOKENS", 100000), from, t;
  int32_t *text;
  int i, w;
  if (argc < 2) {
    fprintf(stderr, "states: needs a text: ./states TEXT [ROW ...]\n");
    return 2;
  }
  text = read_text(argv[1], &length);
  from = length / 10 * 9;
  if (from < 2 * WINDOW) return 2;
  if (tokens > length - from - 1) tokens = length - from - 1;
  printf("| row | chunk | KiB: float | bf16, f16 | int8 | pairs |");
  for (w = 0; w < WAYS; w++) printf(" %s |", ways[w].name);
  printf("\n|---|--:|--:|--:|--:|--:|");
  for (w = 0; w < WAYS; w++) printf("--:|");
  printf("\n");
  for (i = 0; i < count; i++) {
    miras_model_desc d;
    miras_model *m;
    miras_session *s[WAYS];
    double sum[WAYS] = {0}, late[WAYS] = {0};
    const size_t last = tokens - tokens / 5;
    char why[256];
    if (miras_model_preset(&d, miras_preset_find(rows[i]), 2) != MIRAS_OK) {
      fprintf(stderr, "states: there is no row %s\n", rows[i]);
      return 2;
    }
    strcpy(d.pattern, "(cm)*2");
    d.vocab = 256, d.width = width, d.heads = 2, d.layers = 0, d.seed = seed;
    m = (miras_model *)must(miras_model_open(&d, NULL, why, sizeof why), rows[i], why);
    train(m, text, from, steps, seed);
    m = by_tokens(m);
    for (w = 0; w < WAYS; w++) {
      miras_session_desc how;
      memset(&how, 0, sizeof how);
      how.batch_tokens = 1, how.states = ways[w].states, how.rounding = ways[w].rounding;
      s[w] = miras_session_open(m, &how, NULL, why, sizeof why);
      must(s[w], rows[i], why);
    }
    for (t = 0; t < tokens; t++)
      for (w = 0; w < WAYS; w++) {
        double loss = 0;
        miras_session_score(s[w], text + from + t, text + from + t + 1, 1, &loss);
        sum[w] += loss / 0.69314718055994531;
        if (t >= last) late[w] += loss / 0.69314718055994531;
      }
    printf("| %s | %d | %.1f | %.1f | %.1f | %.1f | %.4f |", rows[i],
           miras_model_desc_of(m)->layer[0].memory.chunk,
           (double)miras_model_state_size(m) / 1024,
           (double)miras_model_state_packed_size(m, MIRAS_STATES_BF16) / 1024,
           (double)miras_model_state_packed_size(m, MIRAS_STATES_INT8) / 1024,
           (double)miras_model_state_packed_size(m, MIRAS_STATES_INT8_PAIR) / 1024,
           sum[0] / (double)tokens);
    for (w = 1; w < WAYS; w++)
      printf(" %+.4f (%+.4f) |", (sum[w] - sum[0]) / (double)tokens,
             (late[w] - late[0]) / (double)(tokens - last));
    printf("\n");
    fflush(stdout);
    for (w = 0; w < WAYS; w++) miras_close(s[w]);
    miras_close(m);
  }
  free(text);
  return 0;
}
