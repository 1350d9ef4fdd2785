/* big.c: real sizes, by hand; big.sh builds and runs it, and says what is in it.
 *
 *   cc -O2 tests/big.c -o big -lm -lpthread && ./big [-l] [name...]
 *
 * Each case is a process of its own, so that its peak of memory is its own, and may take 16 GiB. */
#ifndef _DEFAULT_SOURCE
  #define _DEFAULT_SOURCE   /* wait4 */
#endif
#ifndef _POSIX_C_SOURCE
  #define _POSIX_C_SOURCE 200809L
#endif
#define MIRAS_PTHREADS
#ifndef MIRAS_TEST_LINKED   /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"
#include "inside.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;
static const char *running = "";

static void fault(const char *format, ...) {
  va_list list;
  va_start(list, format);
  printf("\n      %s: ", running);
  vprintf(format, list);
  va_end(list);
  failures++;
}

static void give_up(const char *what, const char *why) {
  printf("\n      %s: %s: %s\n", running, what, why);
  fflush(stdout);
  _exit(1);
}

static void *room(size_t n) {
  void *p = malloc(n ? n : 1);
  if (!p) give_up("malloc", "there is no memory");
  return p;
}

static uint64_t random_state = 1;

static float draw(void) {   /* -1..1 */
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (float)(random_state >> 40) / (float)(1 << 23) - 1.0f;
}

static float *numbers(size_t n, float by) {
  float *x = (float *)room(n * sizeof *x);
  size_t i;
  for (i = 0; i < n; i++) x[i] = by * draw();
  return x;
}

static int32_t *words(size_t n, int vocab) {
  int32_t *x = (int32_t *)room(n * sizeof *x);
  size_t i;
  for (i = 0; i < n; i++) x[i] = (int32_t)((draw() + 1) * 0.4999f * (float)vocab);
  return x;
}

static int all_finite(const float *x, size_t n) {
  size_t i;
  for (i = 0; i < n; i++)
    if (!isfinite(x[i])) return 0;
  return 1;
}

/* ---- models ---- */

/* The layers of d with heads of dk, segments of 32 tokens (as published they are longer than the
 * texts here), and all else as published. */
static void size_layers(miras_model_desc *d, int dk) {
  int i;
  d->heads = d->width / dk;
  for (i = 0; i < MIRAS_MAX_LAYER_KINDS; i++) {
    miras_layer_desc *l = &d->layer[i];
    if (i > 0 && !l->letter) continue;
    if (l->type == MIRAS_LAYER_MAC) l->attention.window = 32;
  }
}

static miras_model_desc describe(const char *name, const char *pattern, int layers, int width,
                                 int vocab) {
  miras_model_desc d;
  if (miras_model_preset(&d, miras_preset_find(name), layers) != MIRAS_OK)
    give_up(name, "there is no such model");
  d.vocab = vocab;
  d.width = width;
  d.seed = 3;
  if (pattern[0]) {
    d.layers = 0;
    memset(d.pattern, 0, sizeof d.pattern);
    strcpy(d.pattern, pattern);
  }
  size_layers(&d, width == 2048 ? 128 : 64);
  return d;
}

/* Opened and as when trained: no gradient is 0 because something has not begun. */
static miras_model *open_model(const miras_model_desc *d) {
  miras_model *m = miras_model_open(d, NULL, NULL, 0);
  char why[256] = "there is no memory";
  size_t n, i;
  float *p;
  if (!m) {
    miras_model_size(d, why, sizeof why);
    give_up("model", why);
  }
  p = miras_model_params(m, &n);
  random_state = 5;
  for (i = 0; i < n; i++) p[i] += 0.003f * draw();
  return m;
}

static miras_session *open_session(const miras_model *m) {
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  if (!s) give_up("session", "there is no memory");
  return s;
}

static void same_sessions(miras_session *a, miras_session *b, int vocab, const char *what) {
  const float *x = miras_session_logits(a), *y = miras_session_logits(b);
  void *sa, *sb;
  size_t na, nb;
  if (!x || !y) {
    fault("%s: there are no logits", what);
    return;
  }
  if (!all_finite(x, (size_t)vocab)) fault("%s: logits are not finite", what);
  if (memcmp(x, y, (size_t)vocab * sizeof *x)) fault("%s: logits differ", what);
  if (miras_session_position(a) != miras_session_position(b)) fault("%s: positions differ", what);
  sa = miras_session_state(a, &na);
  sb = miras_session_state(b, &nb);
  if (na != nb || memcmp(sa, sb, na)) fault("%s: states differ", what);
}

/* One prefill, and another whose last tokens are steps. */
static void check_text(const miras_model *m, int prefix, int suffix) {
  const int vocab = miras_model_desc_of(m)->vocab;
  miras_session *whole = open_session(m), *steps = open_session(m);
  int32_t *text = words((size_t)(prefix + suffix), vocab);
  int i;
  miras_session_feed(whole, text, NULL, (size_t)(prefix + suffix));
  miras_session_feed(steps, text, NULL, (size_t)prefix);
  for (i = 0; i < suffix; i++) miras_session_step(steps, text[prefix + i]);
  same_sessions(whole, steps, vocab, "a prefill and its steps");
  miras_close(whole);
  miras_close(steps);
  free(text);
}

static void check_suffix(const miras_model_desc *d, int prefix, int suffix) {
  miras_model *m = open_model(d);
  check_text(m, prefix, suffix);
  miras_close(m);
}

static void run_row(const char *name, int layers) {
  const miras_model_desc d = describe(name, "", layers, 4096, 512);
  check_suffix(&d, 75, 38);
}

static void run_name(const char *name, int layers) {
  const miras_model_desc d = describe(name, "", layers, 2048, 512);
  check_suffix(&d, 75, 38);
}

/* Eight experts of which each token's likeliest two do, and one that all go through. */
static void run_experts(const char *name, int layers) {
  miras_model_desc d = describe(name, "", layers, 2048, 512);
  d.layer[0].mlp.hidden = 1024;
  d.layer[0].mlp.experts = 8;
  d.layer[0].mlp.shared_experts = 1;
  check_suffix(&d, 75, 38);
}

/* The same of a model whose matrices are short: a float model's, saved and loaded. */
static void run_weights(const char *name, int ignored) {
  static const char *const word[] = {"float", "bf16", "f16", "q8", "q4"};
  miras_model_desc d = describe("gated-deltanet", "", 1, 4096, 512);
  miras_model *m;
  void *bytes;
  size_t size;
  int weights;
  (void)ignored;
  for (weights = 1; weights < 4 && strcmp(word[weights], name) != 0; weights++) ;
  m = open_model(&d);
  size = miras_save_to(m, NULL, 0);
  bytes = room(size);
  if (miras_save_to(m, bytes, size) != size) fault("it cannot be saved");
  miras_close(m);
  d.weights = (miras_weights)weights;
  m = miras_model_open(&d, NULL, NULL, 0);
  if (!m) give_up("model", "it cannot be opened");
  if (miras_load_from(m, bytes, size, NULL, 0) != MIRAS_OK) fault("it cannot be loaded");
  free(bytes);
  check_text(m, 75, 38);
  miras_close(m);
}

/* ---- training ---- */

static miras_trainer *open_trainer(miras_model *m, int batch, int context,
                                   const miras_parallel *parallel) {
  miras_trainer_desc d;
  miras_trainer *tr;
  memset(&d, 0, sizeof d);
  d.batch = batch;
  d.context = context;
  d.parallel = parallel;
  tr = miras_trainer_open(m, &d, NULL, NULL, 0);
  if (!tr) {
    char why[256] = "there is no memory";
    miras_trainer_size(m, &d, why, sizeof why);
    give_up("trainer", why);
  }
  return tr;
}

/* The loss along the gradient g, by differences over s and 2 s, whose errors of s^2 cancel. What
 * the differences should say is summed over the steps that floats really take. A loss is a float
 * of up to 12, and a change of 0.01 of it is held to 2 percent. Where a norm reads an answer near 0
 * the loss bends sooner, and steps a fifth as long are tried, down to 1/625 of the first. */
static void check_slope(miras_trainer *tr, miras_model *m, const float *g, const int32_t *text,
                        const int32_t *next, int batch, int length) {
  size_t n, i;
  float *p = miras_model_params(m, &n);
  float *kept = (float *)room(n * sizeof *kept);
  double square = 0, s, ratio[2] = {0, 0};
  int k, sign;
  memcpy(kept, p, n * sizeof *kept);
  for (i = 0; i < n; i++) square += (double)g[i] * (double)g[i];
  s = 0.005 / square;
  for (k = 0; k < 10; k++) {
    if (k && k % 2 == 0) {
      if (fabs((4 * ratio[0] - ratio[1]) / 3 - 1) <= 0.02) break;
      s *= 0.2;
    }
    double loss = 0, should = 0;
    for (sign = -1; sign <= 1; sign += 2) {
      for (i = 0; i < n; i++) {
        p[i] = (float)((double)kept[i] + sign * (k % 2 + 1) * s * (double)g[i]);
        should += sign * ((double)p[i] - (double)kept[i]) * (double)g[i];
      }
      loss += sign * (double)loss_of(tr, text, next, batch, length, 0);
    }
    ratio[k % 2] = loss / should;
  }
  memcpy(p, kept, n * sizeof *kept);
  free(kept);
  ratio[0] = (4 * ratio[0] - ratio[1]) / 3;
  printf("slope %.4f of the gradient's; ", ratio[0]);
  if (!(fabs(ratio[0] - 1) <= 0.02))
    fault("differences are %.5f of what the gradient (length %g) says", ratio[0], sqrt(square));
}

/* Loss and gradient by one thread and by two: the same bits, and what differences say. */
static void check_training(const miras_model_desc *d, int batch, int length) {
  const size_t count = (size_t)batch * (size_t)length;
  int32_t *text = words(count, d->vocab), *next = words(count, d->vocab);
  const miras_parallel *pool = miras_pool_open(2, NULL, NULL, 0);
  miras_model *m = open_model(d);
  size_t n;
  float loss[2], *g[2];
  miras_trainer *tr;
  int k;
  if (!pool) give_up("pool", "there are no threads");
  miras_model_params(m, &n);
  for (k = 0; k < 2; k++) {
    tr = open_trainer(m, batch, length, k ? pool : NULL);
    loss[k] = loss_of(tr, text, next, batch, length, 1);
    if (miras_trainer_backward(tr, NULL) != MIRAS_OK) fault("there is no gradient");
    g[k] = (float *)room(n * sizeof *g[k]);
    memcpy(g[k], miras_trainer_grads(tr), n * sizeof *g[k]);
    if (k) check_slope(tr, m, g[1], text, next, batch, length);
    miras_close(tr);
  }
  if (!isfinite(loss[0])) fault("the loss is %g", (double)loss[0]);
  if (!all_finite(g[0], n)) fault("the gradient is not finite");
  if (memcmp(&loss[0], &loss[1], sizeof loss[0])) fault("two threads have another loss");
  if (memcmp(g[0], g[1], n * sizeof *g[0])) fault("two threads have another gradient");
  miras_close(m);
  miras_pool_close(pool);
  free(g[0]); free(g[1]); free(text); free(next);
}

static void run_trainer(const char *name, const char *pattern) {
  const miras_model_desc d = describe(name, pattern, 1, 512, 512);
  check_training(&d, 4, 2048);
}

static void run_words(const char *name, int part) {
  const miras_model_desc d = describe(name, "", 1, 896, 151936);
  if (part) check_training(&d, 1, 48);
  else check_suffix(&d, 20, 12);
}

/* The summed cross entropy of a text against that of its logits, in double. */
static void run_score(const char *name, int ignored) {
  enum { T = 24 };
  const miras_model_desc d = describe(name, "", 1, 896, 151936);
  miras_model *m = open_model(&d);
  miras_session *s = open_session(m);
  int32_t *text = words(T + 1, d.vocab);
  double sum = 0, said;
  int i, k;
  (void)ignored;
  text[3] = d.vocab - 1;
  for (i = 0; i < T; i++) {
    const float *logits = miras_session_step(s, text[i]);
    double all = 0;
    for (k = 0; k < d.vocab; k++) all += exp((double)logits[k]);
    sum += log(all) - (double)logits[text[i + 1]];
  }
  miras_session_reset(s);
  said = score_of(s, text, text + 1, T);
  printf("%.6f nats; ", said / T);
  if (!(fabs(said - sum) <= 1e-5 * sum)) fault("a score of %.8g, its logits say %.8g", said, sum);
  miras_close(s);
  miras_close(m);
  free(text);
}

/* ---- memories ---- */

typedef struct input {
  miras_memory_input x;
  float *array[5];
  int width[5];   /* floats per token */
  size_t out;
} input;

static miras_memory_desc describe_memory(miras_preset kind, int heads, int dk, int dv) {
  miras_memory_desc d;
  if (miras_memory_preset(&d, kind) != MIRAS_OK) give_up("preset", "there is no such row");
  d.heads = heads;
  d.key_dim = dk;
  d.value_dim = dv;
  d.seed = 7;
  return d;
}

static miras_memory *open_memory(const miras_memory_desc *d) {
  miras_memory *m = miras_memory_open(d, NULL, NULL, 0);
  char why[256] = "there is no memory";
  if (!m) {
    miras_memory_size(d, why, sizeof why);
    give_up("memory", why);
  }
  return m;
}

static void aim(input *in, int from, int length) {   /* at tokens from, from + 1, ... */
  const float *p[5];
  int k;
  for (k = 0; k < 5; k++)
    p[k] = in->array[k] ? in->array[k] + (size_t)from * (size_t)in->width[k] : NULL;
  in->x.length = length;
  in->x.key = p[0];
  in->x.value = p[1];
  in->x.query = p[2];
  in->x.erase = p[3];
  in->x.replace = p[4];
}

static void fill(input *in, const miras_memory_desc *d, int length) {
  const int pairs = d->inner_steps ? d->inner_steps : 1, keys = d->heads * d->key_dim;
  int k;
  memset(in, 0, sizeof *in);
  in->width[0] = keys * pairs;
  in->width[1] = d->heads * d->value_dim * pairs;
  in->width[2] = in->width[3] = in->width[4] = keys;
  in->out = (size_t)d->heads * (size_t)d->value_dim;
  random_state = 11;
  for (k = 0; k < (d->separate_erase ? 5 : 3); k++)
    in->array[k] = numbers((size_t)in->width[k] * (size_t)length, k < 3 ? 1.0f : 0.05f);
  aim(in, 0, length);
}

static void empty(input *in) {
  int k;
  for (k = 0; k < 5; k++) free(in->array[k]);
}

/* Tokens from..to in calls of `piece` tokens. */
static void go(miras_memory *m, input *in, int from, int to, int piece, float *y) {
  while (from < to) {
    const int n = piece < to - from ? piece : to - from;
    aim(in, from, n);
    if (miras_memory_forward(m, &in->x, y + (size_t)from * in->out, NULL) != MIRAS_OK) {
      fault("forward is refused at %d", from);
      return;
    }
    from += n;
  }
}

static void same_states(miras_memory *a, miras_memory *b, const char *what) {
  size_t na, nb;
  const void *sa = miras_memory_state(a, &na), *sb = miras_memory_state(b, &nb);
  if (na != nb || memcmp(sa, sb, na)) fault("%s: states differ", what);
}

/* One call, and many of an odd length. */
static void check_split(const miras_memory_desc *d, int length, int piece) {
  miras_memory *a = open_memory(d), *b = open_memory(d);
  input in;
  float *y, *z;
  size_t n, i;
  fill(&in, d, length);
  n = (size_t)length * in.out;
  y = (float *)room(n * sizeof *y);
  z = (float *)room(n * sizeof *z);
  go(a, &in, 0, length, length, y);
  go(b, &in, 0, length, piece, z);
  for (i = 0; i < n && isfinite(y[i]); i++) ;
  if (i < n) fault("the answer to token %d is not finite", (int)(i / in.out));
  for (i = 0; i < n && memcmp(&y[i], &z[i], sizeof y[i]) == 0; i++) ;
  if (i < n) fault("token %d: calls of %d differ from one", (int)(i / in.out), piece);
  same_states(a, b, "one call and many");
  miras_close(a);
  miras_close(b);
  free(y); free(z);
  empty(&in);
}

static void run_tokens(const char *name, int chunk) {
  miras_memory_desc d = describe_memory(miras_preset_find(name), 1, 64, 64);
  d.chunk = chunk;
  check_split(&d, 100000, 977);
}

/* Answers, a state and gradients by `threads`, in one array. */
static float *with_threads(const miras_memory_desc *given, int threads, input *in, int length,
                           const float *dy, size_t *count) {
  miras_memory_desc d = *given;
  const miras_parallel *pool = miras_pool_open(threads, NULL, NULL, 0);
  miras_memory_input_grad g;
  miras_memory *m;
  float *all, *at, *tape;
  size_t n, params;
  const size_t y = (size_t)length * in->out;
  if (!pool) give_up("pool", "there are no threads");
  d.parallel = pool;
  m = open_memory(&d);
  miras_memory_params(m, &params);
  n = y + params;
  n += (size_t)length * (size_t)(in->width[0] + in->width[1] + in->width[2]);
  *count = n;
  all = (float *)room(n * sizeof *all);
  memset(all, 0, n * sizeof *all);
  memset(&g, 0, sizeof g);
  at = all + y + params;
  g.key = at;
  g.value = g.key + (size_t)length * (size_t)in->width[0];
  g.query = g.value + (size_t)length * (size_t)in->width[1];
  tape = (float *)room(miras_memory_tape_size(m, length) * sizeof *tape);
  aim(in, 0, length);
  if (miras_memory_forward(m, &in->x, all, tape) != MIRAS_OK) fault("forward is refused");
  if (miras_memory_backward(m, &in->x, tape, dy, &g, all + y, NULL) != MIRAS_OK)
    fault("backward is refused");
  free(tape);
  miras_close(m);
  miras_pool_close(pool);
  return all;
}

static void run_heads(const char *name, int chunk) {
  enum { T = 192 };
  miras_memory_desc d = describe_memory(miras_preset_find(name), 64, 64, 64);
  input in;
  float *dy, *one, *two;
  size_t n[2];
  d.chunk = chunk;
  check_split(&d, T, 37);
  fill(&in, &d, T);
  dy = numbers((size_t)T * in.out, 1);
  one = with_threads(&d, 1, &in, T, dy, &n[0]);
  two = with_threads(&d, 2, &in, T, dy, &n[1]);
  if (!all_finite(one, n[0])) fault("an answer or a gradient is not finite");
  if (n[0] != n[1] || memcmp(one, two, n[0] * sizeof *one)) fault("two threads have other bits");
  free(dy); free(one); free(two);
  empty(&in);
}

/* ---- states of 16 MB ---- */

static void run_state(const char *name, int heads) {
  enum { T = 48, CUT = 29 };
  const miras_preset kind = miras_preset_find(name);
  const int dk = kind == MIRAS_PRESET_GATED_DELTANET || kind == MIRAS_PRESET_KDA_MEMORY ? 256 : 128;
  miras_memory_desc d = describe_memory(kind, heads, dk, dk);
  miras_memory *a, *b;
  input in;
  float *y;
  void *bytes;
  size_t size, state;
  a = open_memory(&d);
  b = open_memory(&d);
  fill(&in, &d, T);
  y = (float *)room((size_t)T * in.out * 2 * sizeof *y);
  miras_memory_state(a, &state);
  printf("%.1f MB; ", (double)state / 1e6);
  if (state < 16000000) fault("a state of only %lu bytes", (unsigned long)state);
  go(a, &in, 0, CUT, T, y);
  size = miras_save_to(a, NULL, 0);
  bytes = room(size);
  if (miras_save_to(a, bytes, size) != size) fault("it cannot be saved");
  if (miras_load_from(b, bytes, size, NULL, 0) != MIRAS_OK) fault("it cannot be loaded");
  free(bytes);
  same_states(a, b, "saved and loaded");
  go(a, &in, CUT, T, T, y);
  go(b, &in, CUT, T, 5, y + (size_t)T * in.out);
  same_states(a, b, "gone on");
  if (memcmp(y + CUT * in.out, y + (T + CUT) * in.out, (T - CUT) * in.out * sizeof *y))
    fault("answers differ after a load");
  if (!all_finite(y, T * in.out)) fault("an answer is not finite");
  miras_close(a);
  miras_close(b);
  free(y);
  empty(&in);
}

static void run_session(const char *name, int heads) {
  enum { T = 70, CUT = 41 };
  miras_model_desc d = describe(name, "", 1, 256, 512);
  miras_model *m;
  miras_session *a, *b;
  int32_t *text = words(T, 512);
  char path[] = "/tmp/miras_big.XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) give_up("mkstemp", path);
  close(file);
  d.heads = heads;
  d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = 256;
  m = open_model(&d);
  a = open_session(m);
  b = open_session(m);
  printf("%.1f MB; ", (double)miras_model_state_size(m) / 1e6);
  miras_session_feed(a, text, NULL, CUT);
  if (miras_save(a, path) != MIRAS_OK) fault("it cannot be saved");
  if (miras_load(b, path, NULL, 0) != MIRAS_OK) fault("it cannot be loaded");
  unlink(path);
  miras_session_feed(a, text + CUT, NULL, T - CUT);
  miras_session_feed(b, text + CUT, NULL, T - CUT);
  same_sessions(a, b, 512, "gone on after a load");
  miras_close(a);
  miras_close(b);
  miras_close(m);
  free(text);
}

/* 100,000 tokens in one prefill and in prefills of 977. */
static void run_prefill(const char *name, int layers) {
  enum { T = 100000 };
  const miras_model_desc d = describe(name, "", layers, 128, 512);
  miras_model *m = open_model(&d);
  miras_session *a = open_session(m), *b = open_session(m);
  int32_t *text = words(T, 512);
  int i;
  miras_session_feed(a, text, NULL, T);
  for (i = 0; i < T; i += 977)
    miras_session_feed(b, text + i, NULL, (size_t)(T - i < 977 ? T - i : 977));
  same_sessions(a, b, 512, "one prefill and many");
  if (miras_session_position(a) != T) fault("its position is not 100000");
  miras_close(a);
  miras_close(b);
  miras_close(m);
  free(text);
}

/* ---- the list ---- */

typedef struct big_case {
  char name[64];
  const char *what, *model, *pattern;
  void (*run)(const char *model, int number);   /* NULL: a trainer */
  int number;
} big_case;

static big_case cases[200];
static int case_count;

static void add(const char *kind, const char *model, const char *pattern, const char *what,
                void (*run)(const char *, int), int number) {
  big_case *c = &cases[case_count++];
  snprintf(c->name, sizeof c->name, "%s/%s%s%s", kind, model, pattern[0] ? "-" : "", pattern);
  c->what = what;
  c->model = model;
  c->pattern = pattern;
  c->run = run;
  c->number = number;
}

static void list_cases(void) {
  static const struct { const char *name, *pattern; } trained[] = {
    {"gated-deltanet", ""}, {"titans", ""}, {"mesa", ""}, {"deltanet-memory", "a"},
    {"deltanet-memory", "g"}, {"deltanet-memory", "cm"}, {"titans-mag", ""}, {"titans-mac", ""},
    {"rwkv7", "mg"}, {"memora-h", "mw"}, {"ttt-mlp-mamba", "cm"}, {"gla", ""}, {"kda", ""}
  };
  static const struct { const char *name; int heads; } states[] = {
    {"gated-deltanet", 64}, {"kda", 64}, {"titans", 16}, {"mesa", 128},
    {"softmax-attention", 16}
  };
  static const char *const weights[] = {"bf16", "f16", "q8", "q4"};
  const char *name;
  size_t i;
  int layers;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++)
    add("row", miras_preset_name((miras_preset)i), "", "width 4,096, 64 heads: prefill = steps",
        run_row, 1);
  for (i = 0; (name = inside_whole((int)i, &layers)) != NULL; i++)
    add("name", name, "", "width 2,048: prefill = steps", run_name, layers);
  add("experts", "deltanet-memory", "", "width 2,048: prefill = steps", run_experts, 1);
  for (i = 0; i < 4; i++)
    add("weights", weights[i], "", "width 4,096: prefill = steps", run_weights, 0);
  add("words", "gated-deltanet", "", "151,936 words: prefill = steps", run_words, 0);
  add("score", "gated-deltanet", "", "151,936 words: score = logits in double", run_score, 0);
  add("step", "gated-deltanet", "", "151,936 words: gradient = differences, threads 1 = 2",
      run_words, 1);
  for (i = 0; i < 2 * MIRAS_PRESET_ROWS; i++)
    add("heads", miras_preset_name((miras_preset)(i / 2)), i % 2 ? "16" : "1",
        "64 heads: one call = many, threads 1 = 2, gradients too", run_heads, i % 2 ? 16 : 1);
  for (i = 0; i < 2 * MIRAS_PRESET_ROWS; i++)
    add("tokens", miras_preset_name((miras_preset)(i / 2)), i % 2 ? "16" : "1",
        "100,000 tokens: one call = many", run_tokens, i % 2 ? 16 : 1);
  add("prefill", "qwen3.5", "", "100,000 tokens: one prefill = many", run_prefill, 4);
  for (i = 0; i < sizeof states / sizeof states[0]; i++)
    add("state", states[i].name, "", "state of 16 MB: saved, loaded, gone on", run_state,
        states[i].heads);
  add("session", "gated-deltanet", "", "state of 16 MB: saved, loaded, gone on", run_session, 64);
  for (i = 0; i < sizeof trained / sizeof trained[0]; i++)
    add("trainer", trained[i].name, trained[i].pattern,
        "4 x 2,048 tokens: gradient = differences, threads 1 = 2", NULL, 0);
}

static int wanted(const char *name, int count, char **parts) {
  int i;
  for (i = 0; i < count; i++)
    if (strstr(name, parts[i])) return 1;
  return count == 0;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + 1e-6 * (double)t.tv_usec; }

#ifdef __APPLE__
  static const long peak_unit = 1 << 20;   /* bytes */
#else
  static const long peak_unit = 1 << 10;   /* KiB   */
#endif

static int run_case(const big_case *c, int index, int count) {   /* 1: it passes */
  struct timeval from, to;
  struct rusage used;
  int status = 1, good;
  pid_t child;
  printf("[%2d/%d] %-32s %s: ", index, count, c->name, c->what);
  fflush(stdout);
  gettimeofday(&from, NULL);
  child = fork();
  if (child == 0) {
    const struct rlimit most = {(rlim_t)16 << 30, (rlim_t)16 << 30};
    setrlimit(RLIMIT_AS, &most);
    running = c->name;
    if (c->run) c->run(c->model, c->number);
    else run_trainer(c->model, c->pattern);
    if (failures) printf("\n      ");
    fflush(stdout);
    _exit(failures != 0);
  }
  memset(&used, 0, sizeof used);
  if (child < 0 || wait4(child, &status, 0, &used) != child) status = 1;
  gettimeofday(&to, NULL);
  good = status == 0;
  if (WIFSIGNALED(status)) printf("killed by signal %d; ", WTERMSIG(status));
  printf("%s, %.1f s (%.1f s of processor), %ld MB\n", good ? "pass" : "FAIL",
         seconds_of(to) - seconds_of(from), seconds_of(used.ru_utime) + seconds_of(used.ru_stime),
         used.ru_maxrss / peak_unit);
  fflush(stdout);
  return good;
}

int main(int argc, char **argv) {
  int count = 0, passed = 0, at = 0, i;
  const int listed = argc > 1 && strcmp(argv[1], "-l") == 0;
  argc -= 1 + listed;
  argv += 1 + listed;
  list_cases();
  for (i = 0; i < case_count; i++) {
    if (!wanted(cases[i].name, argc, argv)) continue;
    count++;
    if (listed) printf("%s\n", cases[i].name);
  }
  if (listed) return 0;
  printf("instruction set: %s\n", miras_isa());
  for (i = 0; i < case_count; i++)
    if (wanted(cases[i].name, argc, argv)) passed += run_case(&cases[i], ++at, count);
  printf("%d passed, %d failed\n", passed, count - passed);
  return count == 0 || passed < count;
}
