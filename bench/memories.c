/* memories.c: how fast one core runs and differentiates a layer of memories, for every row of the
 * table, and how that compares with plain loops over the same recurrence.
 *
 *   cc -O2 bench/memories.c -o memories -lm && ./memories          every row
 *   ./memories yaad kda                                            these rows
 *   ./memories titans titans:algorithm=muon titans:omega=4         fields of a row changed
 *   HEADS=4 DIM=64 TOKENS=1024 ROUNDS=7 ./memories                 sizes, and how often
 *
 * A row is timed as a layer of a model would run it: gates learned, the chunk of its paper, batch
 * 1. All measurements take turns in every round and the best of a row's rounds counts, so that what
 * else the machine does weighs on all of them alike. Columns, in thousands of tokens per second:
 *   forward    miras_memory_forward of TOKENS tokens without a tape
 *   training   miras_memory_forward with a tape and miras_memory_backward
 *   decode     miras_memory_forward of one token at a time
 *   plain      forward by the loops below, where there are any; "forward / plain" is their ratio.
 *              Give the compiler -O3 -march=native to see the loops at their best.
 * The state is what a running sequence holds, the tape what training keeps per token; both of all
 * heads. */
#define _POSIX_C_SOURCE 200809L
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FORWARD, TRAINING, DECODE, PLAIN, MEASURES };
enum { KEY, VALUE, QUERY, KEEP, STEP, MOMENTUM, THRESHOLD, VALUE_KEEP, ERASE, REPLACE, INPUTS };

/* Everything that one row needs, and the best seconds of each measure (0: none). */
typedef struct bench {
  miras_preset kind;
  const char *said;                 /* its name, and what is changed */
  miras_memory_desc d;
  miras_memory *m;
  miras_memory_input x;
  miras_memory_input_grad dx;
  float *in[INPUTS], *gradient[INPUTS];
  size_t per[INPUTS];               /* floats of a token and head */
  float *y, *dy, *tape, *dparams, *state;
  double best[MEASURES];
} bench;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *floats(size_t n) {
  float *p = (float *)calloc(n ? n : 1, sizeof *p);
  if (!p) {
    fprintf(stderr, "memories: out of memory\n");
    exit(1);
  }
  return p;
}

static float uniform(float low, float high) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return low + (high - low) * (float)(state >> 8) / 16777216.0f;
}

static int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  int n = text ? atoi(text) : otherwise;
  if (n < 1) {
    fprintf(stderr, "memories: %s is %s; it must be a positive number\n", name, text);
    exit(2);
  }
  return n;
}

/* ---- plain loops: what one would write from the papers' formulas ---- */

/* S += k v', y = q S: linear attention. S[i][j] of one head lies at i dv + j. */
static void plain_linear(bench *b, int T, int H, int n) {
  for (int h = 0; h < H; h++) {
    float *S = b->state;
    memset(S, 0, (size_t)n * (size_t)n * sizeof *S);
    for (int t = 0; t < T; t++) {
      const size_t row = ((size_t)t * (size_t)H + (size_t)h) * (size_t)n;
      const float *k = b->in[KEY] + row, *v = b->in[VALUE] + row, *q = b->in[QUERY] + row;
      float *y = b->y + row;
      for (int j = 0; j < n; j++) y[j] = 0.0f;
      for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
          S[i * n + j] += k[i] * v[j];
          y[j] += q[i] * S[i * n + j];
        }
    }
  }
}

/* S <- a S; S += eta k (v - k S)'; y = q S: Gated DeltaNet. */
static void plain_gated_delta(bench *b, int T, int H, int n) {
  float *S = b->state, *e = b->state + n * n;
  for (int h = 0; h < H; h++) {
    memset(S, 0, (size_t)n * (size_t)n * sizeof *S);
    for (int t = 0; t < T; t++) {
      const size_t at = (size_t)t * (size_t)H + (size_t)h, row = at * (size_t)n;
      const float *k = b->in[KEY] + row, *v = b->in[VALUE] + row, *q = b->in[QUERY] + row;
      const float a = b->in[KEEP][at], eta = b->in[STEP][at];
      float *y = b->y + row;
      for (int j = 0; j < n; j++) y[j] = e[j] = 0.0f;
      for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
          S[i * n + j] *= a;
          e[j] += k[i] * S[i * n + j];
        }
      for (int j = 0; j < n; j++) e[j] = eta * (v[j] - e[j]);
      for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
          S[i * n + j] += k[i] * e[j];
          y[j] += q[i] * S[i * n + j];
        }
    }
  }
}

/* y_t = softmax(q_t K') V over the tokens so far, the running maximum subtracted. */
static void plain_attention(bench *b, int T, int H, int n, int window) {
  float *w = b->state;
  const float scale = 1.0f / sqrtf((float)n);
  for (int h = 0; h < H; h++)
    for (int t = 0; t < T; t++) {
      const size_t row = ((size_t)t * (size_t)H + (size_t)h) * (size_t)n;
      const int first = t + 1 > window ? t + 1 - window : 0;
      const float *q = b->in[QUERY] + row;
      float *y = b->y + row, top = -INFINITY, sum = 0.0f;
      for (int s = first; s <= t; s++) {
        const float *k = b->in[KEY] + ((size_t)s * (size_t)H + (size_t)h) * (size_t)n;
        float dot = 0.0f;
        for (int i = 0; i < n; i++) dot += q[i] * k[i];
        w[s] = dot * scale;
        if (w[s] > top) top = w[s];
      }
      for (int j = 0; j < n; j++) y[j] = 0.0f;
      for (int s = first; s <= t; s++) {
        const float *v = b->in[VALUE] + ((size_t)s * (size_t)H + (size_t)h) * (size_t)n;
        const float e = expf(w[s] - top);
        sum += e;
        for (int j = 0; j < n; j++) y[j] += e * v[j];
      }
      for (int j = 0; j < n; j++) y[j] /= sum;
    }
}

static int plain(bench *b, int T, int H, int n) {
  switch (b->kind) {
    case MIRAS_PRESET_LINEAR_ATTENTION: plain_linear(b, T, H, n); return 1;
    case MIRAS_PRESET_GATED_DELTANET: plain_gated_delta(b, T, H, n); return 1;
    case MIRAS_PRESET_SOFTMAX_ATTENTION:
    case MIRAS_PRESET_SLIDING_WINDOW: plain_attention(b, T, H, n, b->d.window); return 1;
    default: return 0;
  }
}

/* ---- one row ---- */

static void fill(float *p, size_t n, float low, float high) {
  for (size_t i = 0; i < n; i++) p[i] = uniform(low, high);
}

static void unit_rows(float *p, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; r++) {
    float sum = 1e-9f;
    for (size_t i = 0; i < n; i++) sum += p[r * n + i] * p[r * n + i];
    for (size_t i = 0; i < n; i++) p[r * n + i] /= sqrtf(sum);
  }
}

/* Change the fields of ":FIELD=VALUE" behind each other. */
static void change(miras_memory_desc *d, const char *said) {
  for (said = strchr(said, ':'); said; said = strchr(said, ':')) {
    char field[64] = "", value[64] = "";
    if (sscanf(++said, "%63[^=:]=%63[^:]", field, value) < 2 ||
        miras_memory_desc_set(d, field, value) != MIRAS_OK) {
      fprintf(stderr, "memories: \"%s\" must begin with FIELD=VALUE\n", said);
      exit(2);
    }
  }
}

static void open_row(bench *b, miras_preset kind, const char *said, int T, int H, int n) {
  miras_model_desc whole;
  char why[256];
  size_t rows = (size_t)T * (size_t)H, steps, count;
  memset(b, 0, sizeof *b);
  miras_model_preset(&whole, kind, 0);
  b->kind = kind;
  b->said = said;
  b->d = whole.layer[0].memory;
  b->d.heads = H;
  b->d.key_dim = n;
  change(&b->d, said);
  if (!miras_memory_size(&b->d, why, sizeof why)) {
    fprintf(stderr, "memories: %s: %s\n", said, why);
    exit(1);
  }
  b->m = miras_memory_open(&b->d, NULL, NULL, 0);
  if (!b->m) {
    fprintf(stderr, "memories: out of memory\n");
    exit(1);
  }
  b->d = *miras_memory_desc_of(b->m);
  steps = (size_t)b->d.inner_steps;
  b->per[KEY] = b->per[VALUE] = steps * (size_t)n;
  b->per[QUERY] = (size_t)n;
  b->per[KEEP] = miras__gate_width(&b->d, b->d.decay_gate);
  b->per[STEP] = miras__gate_width(&b->d, b->d.learning_rate_gate) * steps;
  b->per[MOMENTUM] = miras__gate_width(&b->d, b->d.momentum_gate);
  b->per[THRESHOLD] = miras__gate_width(&b->d, b->d.threshold_gate);
  b->per[VALUE_KEEP] = b->d.value_decay_gate ? (size_t)n : 0;
  b->per[ERASE] = b->per[REPLACE] = b->d.separate_erase ? (size_t)n : 0;
  for (int i = 0; i < INPUTS; i++) {
    b->in[i] = floats(rows * b->per[i]);
    b->gradient[i] = floats(rows * b->per[i]);
    fill(b->in[i], rows * b->per[i], -1.0f, 1.0f);
  }
  unit_rows(b->in[KEY], rows * steps, (size_t)n);
  unit_rows(b->in[QUERY], rows, (size_t)n);
  fill(b->in[KEEP], rows * b->per[KEEP], 0.98f, 1.0f);
  fill(b->in[VALUE_KEEP], rows * b->per[VALUE_KEEP], 0.98f, 1.0f);
  fill(b->in[STEP], rows * b->per[STEP], 0.2f * b->d.learning_rate, 0.5f * b->d.learning_rate);
  fill(b->in[MOMENTUM], rows * b->per[MOMENTUM], 0.2f, 0.6f);
  fill(b->in[THRESHOLD], rows * b->per[THRESHOLD], 0.5f, 1.5f);
  if (b->d.separate_erase) {   /* erase = -u, replace = u / 2 */
    unit_rows(b->in[ERASE], rows, (size_t)n);
    for (size_t i = 0; i < rows * (size_t)n; i++) b->in[REPLACE][i] = -0.5f * b->in[ERASE][i];
  }
  b->x.length = T;
#define INPUT(field, i) \
  if (b->per[i]) b->x.field = b->in[i], b->dx.field = b->gradient[i]
  INPUT(key, KEY);
  INPUT(value, VALUE);
  INPUT(query, QUERY);
  INPUT(keep, KEEP);
  INPUT(learning_rate, STEP);
  INPUT(momentum, MOMENTUM);
  INPUT(threshold, THRESHOLD);
  INPUT(value_keep, VALUE_KEEP);
  INPUT(erase, ERASE);
  INPUT(replace, REPLACE);
#undef INPUT
  miras_memory_params(b->m, &count);
  b->dparams = floats(count);
  b->y = floats(rows * (size_t)n);
  b->dy = floats(rows * (size_t)n);
  fill(b->dy, rows * (size_t)n, -1.0f, 1.0f);
  b->tape = floats(miras_memory_tape_size(b->m, T));
  b->state = floats((size_t)n * (size_t)n + (size_t)n + (size_t)T);
}

static void close_row(bench *b) {
  miras_close(b->m);
  for (int i = 0; i < INPUTS; i++) free(b->in[i]), free(b->gradient[i]);
  free(b->y), free(b->dy), free(b->tape), free(b->dparams), free(b->state);
}

/* Seconds of one measure, or 0 where there is none. */
static double measure(bench *b, int what, int T, int H, int n) {
  double start;
  miras_memory_reset(b->m);
  start = now();
  if (what == FORWARD) {
    miras_memory_forward(b->m, &b->x, b->y, NULL);
  } else if (what == TRAINING) {
    miras_memory_forward(b->m, &b->x, b->y, b->tape);
    miras_memory_backward(b->m, &b->x, b->tape, b->dy, &b->dx, b->dparams, NULL);
  } else if (what == DECODE) {
    miras_memory_input one = b->x;
    one.length = 1;
    for (int t = 0; t < T; t++) {
      const size_t at = (size_t)t * (size_t)H;
      one.key = b->in[KEY] + at * b->per[KEY];
      one.value = b->in[VALUE] + at * b->per[VALUE];
      one.query = b->in[QUERY] + at * b->per[QUERY];
      one.keep = b->in[KEEP] + at * b->per[KEEP];
      one.learning_rate = b->in[STEP] + at * b->per[STEP];
      one.momentum = b->in[MOMENTUM] + at * b->per[MOMENTUM];
      one.threshold = b->in[THRESHOLD] + at * b->per[THRESHOLD];
      one.value_keep = b->in[VALUE_KEEP] + at * b->per[VALUE_KEEP];
      one.erase = b->in[ERASE] + at * b->per[ERASE];
      one.replace = b->in[REPLACE] + at * b->per[REPLACE];
      miras_memory_forward(b->m, &one, b->y + at * (size_t)n, NULL);
    }
  } else if (!plain(b, T, H, n)) {
    return 0;
  }
  return now() - start;
}

/* The loops and the library must say the same, or the comparison is of different things. */
static void compare(bench *b, int T, int H, int n) {
  const size_t count = (size_t)T * (size_t)H * (size_t)n;
  float *y = floats(count), worst = 0.0f, top = 0.0f;
  miras_memory_reset(b->m);
  miras_memory_forward(b->m, &b->x, b->y, NULL);
  memcpy(y, b->y, count * sizeof *y);
  if (plain(b, T, H, n))
    for (size_t i = 0; i < count; i++) {
      worst = fmaxf(worst, fabsf(y[i] - b->y[i]));
      top = fmaxf(top, fabsf(y[i]));
    }
  if (!(worst <= 1e-4f * top)) {
    fprintf(stderr, "memories: %s: the plain loops differ by %g of the largest output\n",
            miras_preset_name(b->kind), (double)(worst / top));
    exit(1);
  }
  free(y);
}

int main(int argc, char **argv) {
  const int H = setting("HEADS", 4), n = setting("DIM", 64), T = setting("TOKENS", 1024);
  const int rounds = setting("ROUNDS", 7);
  bench rows[MIRAS_PRESET_ROWS];
  int count = 0;
  if (argc == 1) {
    for (int k = 0; k < MIRAS_PRESET_ROWS; k++)
      open_row(&rows[count++], (miras_preset)k, miras_preset_name((miras_preset)k), T, H, n);
  } else {
    for (int i = 1; i < argc && count < MIRAS_PRESET_ROWS; i++) {
      char name[64] = "";
      const int named = sscanf(argv[i], "%63[^:]", name);
      const miras_preset k = named == 1 ? miras_preset_find(name) : MIRAS_PRESET_COUNT;
      if (k == MIRAS_PRESET_COUNT) {
        fprintf(stderr, "memories: there is no row %s\n", argv[i]);
        return 2;
      }
      open_row(&rows[count++], k, argv[i], T, H, n);
    }
  }
  for (int i = 0; i < count; i++) compare(&rows[i], T, H, n);
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < count; i++)
      for (int what = 0; what < MEASURES; what++) {
        const double s = measure(&rows[i], what, T, H, n);
        if (r == 0 || s < rows[i].best[what]) rows[i].best[what] = s;
      }

  printf("- %d heads of %d, %d tokens, batch 1, one core, %s; best of %d rounds\n", H, n, T,
         miras_isa(), rounds);
  printf("- thousands of tokens per second; state KiB; tape floats per token\n\n");
  printf("| row | chunk | forward | training | decode | plain | forward / plain | state | tape |\n"
         "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (int i = 0; i < count; i++) {
    bench *b = &rows[i];
    size_t bytes;
    miras_memory_state(b->m, &bytes);
    printf("| %s | %d |", b->said, b->d.chunk);
    for (int what = 0; what < MEASURES; what++)
      if (b->best[what] > 0) printf(" %.0f |", T / b->best[what] / 1000);
      else printf(" |");
    if (b->best[PLAIN] > 0) printf(" %.1f |", b->best[PLAIN] / b->best[FORWARD]);
    else printf(" |");
    printf(" %.0f | %.0f |\n", (double)bytes / 1024, (double)miras_memory_tape_size(b->m, T) / T);
  }
  for (int i = 0; i < count; i++) close_row(&rows[i]);
  return 0;
}
