/* Sizes that models have and other tests do not: layers of width 2,624 and 4,096, and memories with
 * heads of 256 x 256, with AVX-512 and AVX2 where the processor has both.
 *
 *   cc -O2 tests/test_sizes.c -o test_sizes -lcmocka -lm && ./test_sizes
 *
 * A set is chosen once in a process, so AVX2 has a process of its own, in which the processor is
 * said to lack AVX-512. */
#if !defined(_WIN32) && !defined(_POSIX_C_SOURCE)
  #define _POSIX_C_SOURCE 200809L
#endif
#include "unseen.h"
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "inside.h"
#include "calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
  #include <sys/wait.h>
  #include <unistd.h>
#endif

#include "check.h"

enum { VOCAB = 48, CONTEXT = 64 };

static uint64_t random_state = 1;

static float draw(void) {   /* -1..1 */
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (float)(random_state >> 40) / (float)(1 << 23) - 1.0f;
}

static int failures;

/* ---- one layer of a wide model ---- */

static int32_t tokens[CONTEXT], targets[CONTEXT];

/* name: a whole model, or a row whose layer is the model; change: fields, "name=value" */
typedef struct wide_case {
  const char *name, *pattern, *change;
} wide_case;

static const wide_case wide_cases[] = {
  {"gated-deltanet", "", "memory.chunk=1"},      /* the exact engine by token                    */
  {"gated-deltanet", "", "memory.chunk=16"},     /* and by chunk                                 */
  {"kda-memory", "", "memory.chunk=16"},
  {"titans", "", ""},                            /* frozen gradients                             */
  {"mesa", "", ""},
  {"softmax-attention", "", "memory.window=24"},
  {"deltanet-memory", "a", ""},                  /* types of layer                               */
  {"deltanet-memory", "g", ""},
  {"deltanet-memory", "c", ""},
  {"deltanet-memory", "",
   "mlp.experts=3 mlp.experts_per_token=3"},     /* no choice that a step turns                  */
  {"titans-mag", "", ""},
  {"titans-mac", "", ""},
  {"rwkv7", "mg", ""},
  {"rwkv6", "mg", ""},
  {"rwkv4", "mg", ""},
  {"mamba", "", "memory.key_dim=16"},
  {"mamba2", "", ""},
  {"gla", "", ""}
};

static void set_fields(miras_model_desc *d, const char *text) {
  char word[64];
  int used;
  while (sscanf(text, "%63s%n", word, &used) == 1) {
    char *value = strchr(word, '=');
    *value = 0;
    assert_int_equal(miras_model_desc_set(d, word, value + 1), MIRAS_OK);
    text += used;
  }
}

static miras_model *open_wide(const wide_case *c, int width) {
  miras_model_desc d;
  miras_model *m;
  char why[256] = "";
  int i;
  assert_int_equal(miras_model_preset(&d, miras_preset_find(c->name), 1), MIRAS_OK);
  d.vocab = VOCAB;
  d.width = width;
  d.heads = 2;
  d.seed = 3;
  if (c->pattern[0]) {
    d.layers = 0;
    memset(d.pattern, 0, sizeof d.pattern);
    strcpy(d.pattern, c->pattern);
  }
  for (i = 0; i < MIRAS_MAX_LAYER_KINDS; i++) {
    miras_layer_desc *l = &d.layer[i];
    if (i > 0 && !l->letter) continue;
    if (!l->mlp.none) l->mlp.hidden = 40;
    if (l->attention.window) l->attention.window = 32;
    if (l->type == MIRAS_LAYER_MAC) {   /* its heads together are as wide as the model */
      l->memory.heads = l->attention.heads = width / 32;
      continue;
    }
    if (l->type == MIRAS_LAYER_ATTENTION) l->attention.head_dim = 16;
    else if (l->type != MIRAS_LAYER_CONV && l->type != MIRAS_LAYER_MLP &&
             l->type != MIRAS_LAYER_RWKV4) {
      l->memory.key_dim = 16;
      if (l->type == MIRAS_LAYER_MAG) l->attention.head_dim = 16;
    }
  }
  set_fields(&d, c->change);
  m = miras_model_open(&d, NULL, NULL, 0);
  if (!m) {
    miras_model_size(&d, why, sizeof why);
    print_error("%s: %s\n", c->name, why);
  }
  assert_non_null(m);
  return m;
}

/* As when trained: no gradient is 0 because something has not begun. */
static void stir(miras_model *m) {
  size_t n, i;
  float *p = miras_model_params(m, &n);
  for (i = 0; i < n; i++) p[i] += 0.003f * draw();
}

static void check_prefill(const miras_model *m, const char *name, int width) {
  miras_session *whole = miras_session_open(m, NULL, NULL, NULL, 0),
                *step = miras_session_open(m, NULL, NULL, NULL, 0);
  const float *a, *b = NULL;
  void *sa, *sb;
  size_t na, nb;
  int i;
  assert_non_null(whole);
  assert_non_null(step);
  a = miras_session_feed(whole, tokens, NULL, CONTEXT);
  for (i = 0; i < CONTEXT; i++) b = miras_session_step(step, tokens[i]);
  sa = miras_session_state(whole, &na);
  sb = miras_session_state(step, &nb);
  assert_int_equal(na, nb);
  if (memcmp(a, b, VOCAB * sizeof *a) || memcmp(sa, sb, na)) {
    print_error("%s, %s, width %d: a prefill is not its steps\n", miras_isa(), name, width);
    failures++;
  }
  miras_close(whole);
  miras_close(step);
}

/* The loss where a view's parameters have moved by s along the unit vector g / length. */
static double loss_at(miras_trainer *tr, float *p, const float *kept, const float *g, size_t n,
                      double length, double s) {
  size_t i;
  double loss;
  for (i = 0; i < n; i++) p[i] = (float)((double)kept[i] + s * (double)g[i] / length);
  loss = (double)loss_of(tr, tokens, targets, 1, CONTEXT, 0);
  memcpy(p, kept, n * sizeof *p);
  return loss;
}

/* Along a view's own gradient its length |g| is the derivative. The loss is a float near 4, whose
 * rounding and that of the sums behind it are some 1e-6; a step that changes it by 0.005 leaves
 * 1e-6 / 0.01 of noise, and from steps s and 2s the error of s^2 is taken out, as the loss bends
 * within a tenth of some parameters. Where no step of an eightieth changes the loss by 2e-4, float
 * cannot tell, and the view is left. */
static int check_view(miras_trainer *tr, const miras_view *v, float *p, const float *grads,
                      const char *name, int width) {
  float *kept = (float *)malloc(v->count * sizeof *kept);
  double square = 0, size = 0, length, s, change[2], slope, error;
  size_t i;
  int k;
  assert_non_null(kept);
  memcpy(kept, p, v->count * sizeof *kept);
  for (i = 0; i < v->count; i++) {
    square += (double)grads[i] * (double)grads[i];
    size += (double)p[i] * (double)p[i];
  }
  length = sqrt(square);
  s = 0.0125 * sqrt(size);
  if (s * length > 0.005) s = 0.005 / length;
  if (!(s * length > 1e-4)) {
    free(kept);
    return isfinite(length) ? 0 : -1;
  }
  for (k = 0; k < 2; k++)
    change[k] = (loss_at(tr, p, kept, grads, v->count, length, s * (k + 1)) -
                 loss_at(tr, p, kept, grads, v->count, length, -s * (k + 1))) / (2 * s * (k + 1));
  slope = (4 * change[0] - change[1]) / 3;
  error = fabs(slope - length) - 1.5e-6 / s;
  free(kept);
  if (error <= 0.01 * length) return 1;
  print_error("%s, %s, width %d, %s: derivative %g, differences say %g\n", miras_isa(), name, width,
              v->name, length, slope);
  return -1;
}

static void check_slope(miras_model *m, const char *name, int width) {
  const miras_trainer_desc d = {1, CONTEXT, 0, 0, 0, NULL, NULL};
  miras_trainer *tr = miras_trainer_open(m, &d, NULL, NULL, 0);
  int count, i, met = 0;
  const miras_view *v = miras_model_views(m, &count);
  float *p = miras_model_params(m, NULL);
  const float *g;
  assert_non_null(tr);
  loss_of(tr, tokens, targets, 1, CONTEXT, 1);
  assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
  g = miras_trainer_grads(tr);
  for (i = 0; i < count; i += MIRAS_TEST_SHARE > 1 ? 2 : 1) {
    const int is = check_view(tr, &v[i], p + v[i].offset, g + v[i].offset, name, width);
    if (is < 0) failures++;
    else met += is;
  }
  print_message("%s, %s, width %d: %d of %d views\n", miras_isa(), name, width, met, count);
  if (met < 2) failures++;
  miras_close(tr);
}

static void test_wide_layers(void **state) {
  static const int widths[] = {2624, 4096};
  size_t i, k;
  (void)state;
  failures = 0;
  for (i = 0; i < CONTEXT; i++) {
    tokens[i] = (int32_t)((i * 7 + 3) % VOCAB);
    targets[i] = (int32_t)((i * 11 + 5) % VOCAB);
  }
  for (i = 0; i < sizeof wide_cases / sizeof wide_cases[0]; i++)
    for (k = 0; k < 2; k++) {
      const wide_case *c = &wide_cases[i];
      miras_model *m;
      if (k && strcmp(c->name, "titans-mac") == 0) continue;    /* of 300 MB */
      if ((i + k + 1) % MIRAS_TEST_SHARE) continue;             /* 2: one of the widths */
      m = open_wide(c, widths[k]);
      random_state = 5;
      stir(m);
      check_prefill(m, c->name, widths[k]);
      check_slope(m, c->name, widths[k]);
      miras_close(m);
    }
  assert_int_equal(failures, 0);
}

/* ---- one memory with wide heads ---- */

enum { T = 48 };

typedef struct head {
  miras_memory *m;
  miras_memory_input x;
  miras_memory_input_grad g;
  float *key, *value, *query, *erase, *replace, *y, *dy;
  size_t pairs, dk, dv;
} head;

static float *numbers(size_t n, float by) {
  float *x = (float *)malloc(n * sizeof *x);
  size_t i;
  assert_non_null(x);
  for (i = 0; i < n; i++) x[i] = by * draw();
  return x;
}

static void open_head(head *h, miras_preset kind, int dk, int dv, int chunk) {
  miras_memory_desc d;
  char why[256] = "";
  assert_int_equal(miras_memory_preset(&d, kind), MIRAS_OK);
  d.key_dim = dk;
  d.value_dim = dv;
  d.chunk = chunk;
  d.step_bound = MIRAS_STEP_BOUND_AUTO;
  if (d.architecture != MIRAS_ARCH_KV_CACHE)
    d.learning_rate = d.architecture == MIRAS_ARCH_MATRIX ? 0.5f : 0.02f;
  h->m = miras_memory_open(&d, NULL, NULL, 0);
  if (!h->m) {
    miras_memory_size(&d, why, sizeof why);
    print_error("%s: %s\n", miras_preset_name(kind), why);
  }
  assert_non_null(h->m);
  random_state = 11;
  h->dk = (size_t)dk;
  h->dv = (size_t)dv;
  h->pairs = (size_t)(d.inner_steps ? d.inner_steps : 1);
  memset(&h->x, 0, sizeof h->x);
  memset(&h->g, 0, sizeof h->g);
  h->key = numbers(T * h->pairs * h->dk, 1);
  h->value = numbers(T * h->pairs * h->dv, 1);
  h->query = numbers(T * h->dk, 1);
  h->erase = numbers(T * h->dk, 0.05f);
  h->replace = numbers(T * h->dk, 0.05f);
  h->y = numbers(T * h->dv, 0);
  h->dy = numbers(T * h->dv, 1);
  h->x.length = T;
  h->x.key = h->key;
  h->x.value = h->value;
  h->x.query = h->query;
  if (d.separate_erase) {
    h->x.erase = h->erase;
    h->x.replace = h->replace;
    h->g.erase = numbers(T * h->dk, 0);
    h->g.replace = numbers(T * h->dk, 0);
  }
  h->g.key = numbers(T * h->pairs * h->dk, 0);
  h->g.value = numbers(T * h->pairs * h->dv, 0);
  h->g.query = numbers(T * h->dk, 0);
}

static void close_head(head *h) {
  free(h->key); free(h->value); free(h->query); free(h->erase); free(h->replace); free(h->y);
  free(h->dy); free(h->g.key); free(h->g.value); free(h->g.query); free(h->g.erase);
  free(h->g.replace);
  miras_close(h->m);
}

static double answer(head *h) {
  double sum = 0;
  size_t i;
  miras_memory_reset(h->m);
  assert_int_equal(miras_memory_forward(h->m, &h->x, h->y, NULL), MIRAS_OK);
  for (i = 0; i < T * h->dv; i++) sum += (double)h->y[i] * (double)h->dy[i];
  return sum;
}

/* Token by token, along the gradient of the token's own numbers, of which a step of a hundredth
 * moves the answers by about as much: roundings of 1e-7 of them are 1e-5 of the difference. */
static void check_input(head *h, const char *name, float *x, const float *g, size_t n,
                        size_t every) {
  double most = 0, kept_length;
  size_t t, i;
  float *kept = (float *)malloc(n * sizeof *kept);
  assert_non_null(kept);
  for (t = 0; t < T; t++) {
    double square = 0;
    for (i = 0; i < n; i++) square += (double)g[t * n + i] * (double)g[t * n + i];
    if (square > most) most = square;
  }
  most = sqrt(most);
  for (t = 0; t < T; t += every) {
    double square = 0, size = 0, length, s, slope;
    float *at = x + t * n;
    int k;
    memcpy(kept, at, n * sizeof *kept);
    for (i = 0; i < n; i++) {
      square += (double)g[t * n + i] * (double)g[t * n + i];
      size += (double)at[i] * (double)at[i];
    }
    length = sqrt(square);
    kept_length = sqrt(size);
    s = 0.01 * kept_length;
    slope = 0;
    for (k = -1; k <= 1 && length > 0; k += 2) {
      for (i = 0; i < n; i++)
        at[i] = (float)((double)kept[i] + k * s * (double)g[t * n + i] / length);
      slope += k * answer(h) / (2 * s);
    }
    memcpy(at, kept, n * sizeof *kept);
    if (!(fabs(slope - length) <= 0.003 * length + 0.001 * most)) {
      if (failures++ < 12)
        print_error("%s, %s: token %d has the derivative %g, differences say %g\n", miras_isa(),
                    name, (int)t, length, slope);
    }
  }
  free(kept);
}

static void check_head(miras_preset kind, int dk, int dv, int chunk) {
  char name[96];
  head h;
  float *tape;
  size_t every;
  open_head(&h, kind, dk, dv, chunk);
  every = kind == MIRAS_PRESET_TITANS || kind == MIRAS_PRESET_TTT_MLP_MEMORY ? 11 : 3;
  if (MIRAS_TEST_SHARE > 1) every = 11;   /* of a chunk's tokens a few */
  tape = (float *)malloc(miras_memory_tape_size(h.m, T) * sizeof *tape);
  assert_non_null(tape);
  assert_int_equal(miras_memory_forward(h.m, &h.x, h.y, tape), MIRAS_OK);
  assert_int_equal(miras_memory_backward(h.m, &h.x, tape, h.dy, &h.g, NULL, NULL), MIRAS_OK);
  free(tape);
  sprintf(name, "%s %d x %d, chunk %d, key", miras_preset_name(kind), dk, dv, chunk);
  check_input(&h, name, h.key, h.g.key, h.pairs * h.dk, every);
  memcpy(strrchr(name, ' '), " value", 7);
  check_input(&h, name, h.value, h.g.value, h.pairs * h.dv, every);
  memcpy(strrchr(name, ' '), " query", 7);
  check_input(&h, name, h.query, h.g.query, h.dk, every);
  if (h.x.erase) {
    memcpy(strrchr(name, ' '), " erase", 7);
    check_input(&h, name, h.erase, h.g.erase, h.dk, every);
    memcpy(strrchr(name, ' '), " replace", 9);
    check_input(&h, name, h.replace, h.g.replace, h.dk, every);
  }
  close_head(&h);
}

static void test_wide_heads(void **state) {
  static const miras_preset rows[] = {
    MIRAS_PRESET_DELTANET_MEMORY,   MIRAS_PRESET_GATED_DELTANET, MIRAS_PRESET_LONGHORN,
    MIRAS_PRESET_KDA_MEMORY,        MIRAS_PRESET_RWKV7_MEMORY,   MIRAS_PRESET_DELTAPRODUCT,
    MIRAS_PRESET_GLA_MEMORY,        MIRAS_PRESET_MESA,           MIRAS_PRESET_SOFTMAX_ATTENTION,
    MIRAS_PRESET_TTT_LINEAR_MEMORY, MIRAS_PRESET_TITANS};
  static const int sizes[][2] = {{256, 256}, {128, 216}, {256, 240}};
  size_t i, k;
  (void)state;
  failures = 0;
  for (i = 0; i < sizeof rows / sizeof rows[0]; i++)
    for (k = 0; k < 3; k++) {
      if (k && i > 4) continue;   /* the sizes at which one way of a product turned another */
      check_head(rows[i], sizes[k][0], sizes[k][1], i == 0 ? 8 : i == 7 ? 16 : 1);
    }
  check_head(MIRAS_PRESET_GATED_DELTANET, 256, 256, 64);
  assert_int_equal(failures, 0);
}

/* ---- every set ---- */

static int run_all(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_wide_heads),
    cmocka_unit_test(test_wide_layers)
  };
  printf("instruction set: %s\n", miras_isa());
  fflush(stdout);
  return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) {
  int bad = 0;
#ifdef UNSEEN
  if (inside_avx512()) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
      unseen = 1u << 16;   /* AVX-512F */
      status = run_all();
      fflush(stdout);
      _exit(status != 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) bad++;
  }
#endif
  return run_all() + bad;
}
