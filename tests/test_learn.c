/* test_learn.c: the one call that answers and then learns, keys of which most entries are 0, decay
 * by time that has passed, categories, and sensors: what a memory on its own is used with.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"
#include "reference.h"
#include "memories.h"
#include "inside.h"

/* The same numbers; zeros of either sign. */
static int same_numbers(const float *a, const float *b, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (a[i] < b[i] || a[i] > b[i] || isnan(a[i]) != isnan(b[i])) return 0;
  return 1;
}

static int same_states(miras_memory *a, miras_memory *b) {
  size_t n = 0;
  const float *p = (const float *)miras_memory_state(a, &n);
  const float *q = (const float *)miras_memory_state(b, NULL);
  return miras_memory_position(a) == miras_memory_position(b) &&
         same_numbers(p + 16, q + 16, n / sizeof(float) - 16);
}

static miras_memory *opened(const miras_memory_desc *d) {
  char why[256];
  miras_memory *m = miras_memory_open(d, NULL, why, sizeof why);
  if (m == NULL) failed("%s: %s", why, label(d));
  return m;
}

/* Two memories of x's descriptor, initial memory and all. */
static int pair_of(const data *x, miras_memory **a, miras_memory **b) {
  *a = open_memory(x);
  *b = *a ? open_memory(x) : NULL;
  return *b != NULL;
}

/* ---- read and write in one ---- */

/* Is the surprise the loss of the answer, or, where decay comes first, of the answer as it has
 * decayed? Keys whole and sparse; heads that start anew; time that passes, without which a step
 * says the same. */
static void check_surprise(miras_preset preset, int sparse, int resets) {
  enum { N = 6, M = 3 };
  const float times[] = {0, 2.5f, 0, 0.25f};
  miras_memory_desc d;
  miras_memory *m, *young, *twin;
  float k[N], v[M], answer[M], surprise, entry[2];
  int32_t index[2];
  miras_memory_preset(&d, preset);
  d.key_dim = N, d.value_dim = d.inner_residual ? N : M;
  if (d.value_dim != M || d.bias != MIRAS_BIAS_L2 || d.inner_steps > 1 || d.separate_erase) return;
  if (resets) d.reset_every = 16;
  if (d.retention == MIRAS_RETENTION_L2 && !d.decay_schedule) d.decay_rate = 0.2f;
  m = opened(&d);
  young = opened(&d);
  twin = opened(&d);
  for (int t = 0; t < 40; t++) {
    const int decays = d.retention == MIRAS_RETENTION_L2 && !d.decay_schedule;
    const float elapsed = decays && (sparse || resets) ? times[t % 4] : 0;
    const int anew = resets && t % 16 == 0 && t > 0;
    double loss = 0, by = 1;
    miras_memory_event e;
    memset(&e, 0, sizeof e);
    for (int i = 0; i < N; i++) k[i] = sparse ? 0 : uniform(-1, 1);
    for (int i = 0; i < M; i++) v[i] = uniform(-1, 1);
    for (int i = 0; i < 2; i++) {
      index[i] = (t + 2 * i) % N;
      entry[i] = uniform(-1, 1);
      if (sparse) k[index[i]] = entry[i];
    }
    if (sparse) e.index = index, e.entry = entry, e.count = 2;
    else e.key = k;
    e.value = v, e.answer = answer, e.surprise = &surprise;
    if (elapsed > 0) e.elapsed = &elapsed;
    if (miras_memory_learn(m, &e) != MIRAS_OK) failed("%s is refused", miras_preset_name(preset));
    if (anew) miras_memory_read(young, k, answer);
    else if (d.order == MIRAS_ORDER_DECAY_FIRST) by = pow(0.8, elapsed > 0 ? (double)elapsed : 1);
    for (int i = 0; i < M; i++) {
      const double r = by * (double)answer[i] - (double)v[i];
      loss += 0.5 * r * r;
    }
    if (!(fabs(loss - (double)surprise) <= 2e-5 * (1 + loss)))
      failed("%s, token %d: surprise %g, the answer's loss %g", miras_preset_name(preset), t,
             (double)surprise, loss);
    if (sparse || resets) continue;
    surprise = surprise_of_write(twin, k, v);
    if (!(fabs(loss - (double)surprise) <= 2e-5 * (1 + loss)))
      failed("%s, write %d: surprise %g, the loss before it %g", miras_preset_name(preset), t,
             (double)surprise, loss);
  }
  miras_close(m);
  miras_close(young);
  miras_close(twin);
}

static void test_surprise(void **state) {
  (void)state;
  start();
  random_state = 5;
  for (int i = 0; i < MIRAS_PRESET_COUNT; i++)
    for (int k = 0; k < 4; k++) check_surprise((miras_preset)i, k % 2, k / 2);
  finish();
}

/* Of one memory: what learn says and leaves against a read and a write; with sparse keys too. */
static void check_learn(const miras_memory_desc *given, uint64_t seed, int sparse) {
  miras_memory_desc d = *given;
  data x;
  miras_memory *a = NULL, *b = NULL;
  size_t heads, dk, dv;
  float *key, *value, *entry, *answer, *read;
  int32_t *index;
  const int count = 2;
  d.batch = 2;
  data_new(&x, &d, 70, seed);
  dk = x.per[QUERY];
  dv = x.out;
  heads = (size_t)(x.d.batch * x.d.heads);
  key = (float *)zeros(heads * dk, sizeof(float));
  entry = (float *)zeros(heads * (size_t)count, sizeof(float));
  index = (int32_t *)zeros(heads * (size_t)count, sizeof(int32_t));
  answer = (float *)zeros(heads * dv, sizeof(float));
  read = (float *)zeros(heads * dv, sizeof(float));
  if (pair_of(&x, &a, &b))
    for (int t = 0; t < x.T; t++) {
      miras_memory_event e;
      float surprise[2] = {0, 0};
      memset(&e, 0, sizeof e);
      value = x.in[VALUE].f + (size_t)t * heads * dv;
      memcpy(key, x.in[KEY].f + (size_t)t * heads * dk, heads * dk * sizeof(float));
      for (size_t h = 0; sparse && h < heads; h++) { /* places in descending order at times */
        const int first = below((int)dk), second = (first + 1 + below((int)dk - 1)) % (int)dk;
        index[h * 2] = first;
        index[h * 2 + 1] = second;
        for (size_t i = 0; i < dk; i++)
          if ((int)i != first && (int)i != second) key[h * dk + i] = 0;
        entry[h * 2] = sparse > 1 ? (key[h * dk + (size_t)first] = 1) : key[h * dk + (size_t)first];
        entry[h * 2 + 1] =
          sparse > 1 ? (key[h * dk + (size_t)second] = 1) : key[h * dk + (size_t)second];
      }
      if (sparse) e.index = index, e.entry = sparse > 1 ? NULL : entry, e.count = count;
      else e.key = key;
      e.value = t % 7 == 3 ? NULL : value;
      e.answer = t % 5 == 2 ? NULL : answer;
      e.surprise = &surprise[0];
      if (miras_memory_learn(a, &e) != MIRAS_OK) failed("refused: %s", label(&x.d));
      if (miras_memory_read(b, key, read) != MIRAS_OK) failed("no read: %s", label(&x.d));
      if (e.value != NULL && miras_memory_write(b, key, value, &surprise[1]) != MIRAS_OK)
        failed("no write: %s", label(&x.d));
      if ((e.answer && !same_numbers(answer, read, heads * dv)) || !same_states(a, b) ||
          (e.value != NULL && !same_numbers(&surprise[0], &surprise[1], 1))) {
        failed("%s key, token %d: %s%s%s differ: %s", sparse ? "sparse" : "whole", t,
               e.answer && !same_numbers(answer, read, heads * dv) ? "answers " : "",
               same_states(a, b) ? "" : "states ",
               same_numbers(&surprise[0], &surprise[1], 1) ? "" : "surprise ", label(&x.d));
        break;
      }
    }
  miras_close(a);
  miras_close(b);
  free(key);
  free(entry);
  free(index);
  free(answer);
  free(read);
  data_free(&x);
}

static void test_learn(void **state) {
  static const int shapes[] = {SHAPE_MATRIX, 1, 2, SHAPE_GATED, SHAPE_VECTOR, SHAPE_PAIRS};
  int tried = 0, fast = 0;
  (void)state;
  start();
  for (EACH_POOL(p))
    for (int s = 0; s < COUNT(shapes); s++)
      for (int b = 0; b < p->biases; b++)
        for (int r = 0; r < p->retentions; r++)
          for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
            for (int variant = 0; variant < 4; variant++) {
              miras_memory_desc d =
                cell(shapes[s], p->bias[b], p->retention[r], (miras_algorithm)algorithm,
                     variant == 3 ? 4 : 1, (uint64_t)(variant + 10 * tried));
              int groups, sparse;
              d.decay_gate = d.learning_rate_gate = d.momentum_gate = MIRAS_GATE_CONSTANT;
              d.threshold_gate = d.value_decay_gate = MIRAS_GATE_CONSTANT;
              d.inner_steps = d.separate_erase = 0;
              if (variant != 2) d.feature_map = MIRAS_FN_USUAL, d.normalize = 0;
              if (variant == 1) d.order = d.bias < MIRAS_BIAS_LP && d.decay_rate > 0;
              d = tidy(d);
              if (inside_plan(&d, &groups, &sparse, NULL, 0) != MIRAS_OK) continue;
              tried++;
              fast += sparse;
              if (!my_share()) continue;
              check_learn(&d, (uint64_t)(tried + 1), tried % 3);
              check_learn(&d, (uint64_t)(tried + 2), 1);
            }
  for (int n = 0; n < 40; n++) { /* those that count entries */
    miras_memory_desc d = exact_cell(COUNTED + n % 2, 1, (uint64_t)(7000 + n));
    int groups, sparse;
    d.decay_gate = d.learning_rate_gate = MIRAS_GATE_CONSTANT;
    if (n % 8) d.feature_map = MIRAS_FN_USUAL;
    d = tidy(d);
    if (inside_plan(&d, &groups, &sparse, NULL, 0) != MIRAS_OK) failed("refused: %s", label(&d));
    if (!sparse && !d.feature_map && !d.reset_every) failed("not sparse: %s", label(&d));
    tried++, fast += sparse;
    check_learn(&d, (uint64_t)(n + 1), n % 3);
    check_learn(&d, (uint64_t)(n + 2), 1);
  }
  printf("  %d memories, %d of them with sparse keys at their own cost\n", tried, fast);
  if (tried < 500 || fast < 40) failed("only %d memories, %d fast", tried, fast);
  finish();
}

/* What decays below 1e-30 becomes 0 with sparse keys as with whole ones. */
static void test_faded(void **state) {
  (void)state;
  start();
  for (int bias = MIRAS_BIAS_L2; bias <= MIRAS_BIAS_HUBER; bias++) {
    miras_memory_desc d;
    miras_memory *a, *b;
    const float value[2] = {1, -2};
    memset(&d, 0, sizeof d);
    d.bias = (miras_bias)bias;
    d.retention = MIRAS_RETENTION_L2;
    d.key_dim = 5;
    d.value_dim = 2;
    d.learning_rate = 0.1f;
    d.decay_rate = 0.7f;
    a = opened(&d);
    b = opened(&d);
    for (int t = 0; a && b && t < 130; t++) {
      const int32_t at = t ? 1 + t % 4 : 0;      /* the first is never written again */
      float key[5] = {0}, surprise;
      miras_memory_event e;
      memset(&e, 0, sizeof e);
      key[at] = 1;
      e.index = &at;
      e.count = 1;
      e.value = value;
      if (miras_memory_learn(a, &e) != MIRAS_OK) failed("refused: %s", label(&d));
      miras_memory_write(b, key, value, &surprise);
      if (!same_states(a, b)) failed("token %d: %s", t, label(&d));
    }
    miras_close(a);
    miras_close(b);
  }
  finish();
}

/* What is no longer finite has the numbers of whole keys, too: 0 times it is none. Keys, values and
 * what is initial overflow here, and a state that is put back is looked at again. */
static void test_overflow(void **state) {
  enum { ALL = 26 };
  int odd = 0;
  (void)state;
  start();
  for (int kind = 0; kind < 240; kind++) {
    static const miras_bias biases[] = {MIRAS_BIAS_DOT, MIRAS_BIAS_L2, MIRAS_BIAS_HUBER,
                                        MIRAS_BIAS_CROSS_ENTROPY};
    miras_memory_desc d;
    miras_memory *a, *b;
    size_t bytes;
    memset(&d, 0, sizeof d);
    d.bias = biases[kind % 4];
    if (kind / 4 % 2) d.qk_norm = MIRAS_QK_NORM_L2;
    if (kind / 8 % 2) d.retention = MIRAS_RETENTION_L2, d.decay_rate = 0.1f;
    if (kind / 16 % 2 && kind / 8 % 2) d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    d.heads = 1 + kind % 3;
    d.learning_rate = 1;
    d.key_dim = ALL;
    d.value_dim = 3;
    a = opened(&d);
    b = opened(&d);
    random_state = (uint64_t)kind + 1;
    if (a && b && kind / 32 == 1) { /* what is initial, of the last place */
      miras_memory_params(a, NULL)[3 * ALL - 1] = INFINITY;
      miras_memory_params(b, NULL)[3 * ALL - 1] = INFINITY;
    }
    for (int t = 0; a && b && t < 70; t++) {
      const int count = below(4), wild = below(12) == 0, by_key = below(2);
      int32_t at[12];
      float entry[12], key[3 * ALL] = {0}, value[9], answer[2][9], surprise[2];
      miras_memory_event e;
      for (int i = 0; i < count * d.heads; i++) {
        at[i] = 8 * (i % count) + below(8);
        entry[i] = uniform(-1, 1) * (wild && by_key ? 3e38f : 1);
        if (wild && below(8) == 0) entry[i] = below(2) ? INFINITY : NAN;
        key[i / count * ALL + at[i]] = entry[i];
      }
      for (int i = 0; i < 3 * d.heads; i++)
        value[i] = uniform(0, 1) * (wild && !by_key ? 3e38f : 1);
      if (kind / 32 == 2 && t == 40) { /* of a stranger at the same place */
        float *p = (float *)miras_memory_state(a, &bytes) + 16 + 3 * ALL - 1;
        *p = -INFINITY;
        ((float *)miras_memory_state(b, NULL))[16 + 3 * ALL - 1] = *p;
      }
      memset(&e, 0, sizeof e);
      e.index = at, e.entry = entry, e.count = count;
      e.value = t % 7 == 6 ? NULL : value, e.answer = answer[0], e.surprise = &surprise[0];
      if (miras_memory_learn(a, &e) != MIRAS_OK) failed("refused: %s", label(&d));
      memset(&e, 0, sizeof e);
      e.key = key;
      e.value = t % 7 == 6 ? NULL : value, e.answer = answer[1], e.surprise = &surprise[1];
      if (miras_memory_learn(b, &e) != MIRAS_OK) failed("refused: %s", label(&d));
      for (int i = 0; i < 3 * d.heads; i++) odd += !isfinite(answer[1][i]);
      if (!same_numbers(answer[0], answer[1], 3 * (size_t)d.heads) ||
          (e.value && !same_numbers(&surprise[0], &surprise[1], 1)) ||
          (t % 16 == 15 && !same_states(a, b))) { /* which asks for the states */
        failed("%d, token %d: %s", kind, t, label(&d));
        break;
      }
    }
    miras_close(a);
    miras_close(b);
  }
  if (odd < 1000) failed("only %d answers have overflowed", odd);
  finish();
}

/* Workers share the heads out: the bits of one. */
static void run_backwards(void *user, int count,
                          void (*task)(void *argument, int index, int worker), void *argument) {
  (void)user;
  for (int i = count; i-- > 0;) task(argument, i, i % 3);
}

static void test_workers(void **state) {
  miras_parallel parallel;
  (void)state;
  start();
  memset(&parallel, 0, sizeof parallel);
  parallel.workers = 3;
  parallel.run = run_backwards;
  for (int kind = 0; kind < 3; kind++) {
    miras_memory_desc d, alone;
    miras_memory *a, *b;
    memset(&d, 0, sizeof d);
    d.architecture = kind == 2 ? MIRAS_ARCH_MLP : MIRAS_ARCH_MATRIX;
    d.bias = kind ? MIRAS_BIAS_CROSS_ENTROPY : MIRAS_BIAS_L2;
    d.batch = 2;
    d.heads = 3;
    d.learning_rate = 1;
    d.key_dim = 40;
    d.value_dim = 5;
    alone = d;
    d.parallel = &parallel;
    a = opened(&d);
    b = opened(&alone);
    random_state = 9;
    for (int t = 0; a && b && t < 30; t++) {
      int32_t at[12];
      float entry[12], value[30], answer[2][30], surprise[2];
      miras_memory_event e;
      for (int i = 0; i < 12; i++) at[i] = (i % 2 ? 20 : 0) + below(20), entry[i] = uniform(-1, 1);
      for (int i = 0; i < 30; i++) value[i] = uniform(0, 1);
      memset(&e, 0, sizeof e);
      e.index = at, e.entry = entry, e.count = 2, e.value = value;
      e.answer = answer[0], e.surprise = &surprise[0];
      if (miras_memory_learn(a, &e) != MIRAS_OK) failed("refused: %s", label(&d));
      e.answer = answer[1], e.surprise = &surprise[1];
      if (miras_memory_learn(b, &e) != MIRAS_OK) failed("refused: %s", label(&d));
      if (memcmp(answer[0], answer[1], sizeof answer[0]) || !same_states(a, b) ||
          !same_bits(&surprise[0], &surprise[1], 1))
        failed("token %d: %s", t, label(&d));
    }
    miras_close(a);
    miras_close(b);
  }
  finish();
}

/* ---- time ---- */

/* Writes of nothing in between are what has passed: of memories that decay before they look. */
static void test_elapsed(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < 6; kind++)
    for (int sparse = 0; sparse < 2; sparse++) {
      miras_memory_desc d;
      miras_memory *a, *b;
      float key[6] = {0}, value[3], zero[6] = {0}, x, y[2][3];
      memset(&d, 0, sizeof d);
      random_state = (uint64_t)kind + 1;
      d.key_dim = 6;
      d.value_dim = 3;
      d.bias = kind == 1 ? MIRAS_BIAS_DOT : MIRAS_BIAS_L2;
      d.retention = MIRAS_RETENTION_L2;
      if (kind != 1 && kind != 4) d.order = MIRAS_ORDER_DECAY_FIRST;
      if (kind == 2) d.algorithm = MIRAS_ALGORITHM_IMPLICIT;
      if (kind == 3) d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
      if (kind == 4) d.algorithm = MIRAS_ALGORITHM_LEAST_SQUARES, d.ridge = 1;
      d.decay_rate = 0.1f;
      d.learning_rate = 0.4f;
      a = opened(&d);
      b = opened(&d);
      for (int t = 0; a && b && t < 40; t++) {
        const int passed = 1 + below(5);
        const float elapsed = (float)passed;
        miras_memory_event e;
        int32_t at[2];
        at[0] = below(6), at[1] = (at[0] + 1 + below(5)) % 6;
        memset(key, 0, sizeof key);
        for (int i = 0; i < 2; i++) key[at[i]] = 1;
        for (int i = 0; i < 3; i++) value[i] = uniform(-1.0f, 1.0f);
        memset(&e, 0, sizeof e);
        if (sparse) e.index = at, e.count = 2;
        else e.key = key;
        e.value = value;
        e.elapsed = &elapsed;
        if (miras_memory_learn(a, &e) != MIRAS_OK) failed("refused: %s", label(&d));
        for (int i = 1; i < passed; i++) miras_memory_write(b, zero, zero, &x);
        miras_memory_write(b, key, value, &x);
        miras_memory_read(a, key, y[0]);
        miras_memory_read(b, key, y[1]);
        for (int i = 0; i < 3; i++)
          if (!(fabsf(y[0][i] - y[1][i]) <= 2e-6f))
            failed("after %d steps %g and not %g: %s", passed, (double)y[0][i], (double)y[1][i],
                   label(&d));
      }
      if (a) { /* no time at all */
        miras_memory_event e;
        const float elapsed = 0;
        memset(&e, 0, sizeof e);
        e.key = zero, e.value = zero, e.elapsed = &elapsed;
        if (miras_memory_learn(a, &e) != MIRAS_OK) failed("refused: %s", label(&d));
        miras_memory_read(a, key, y[1]);
        if (memcmp(y[0], y[1], sizeof y[0])) failed("it decays in no time: %s", label(&d));
      }
      miras_close(a);
      miras_close(b);
    }
  finish();
}

static void test_refusals(void **state) {
  miras_memory_desc d;
  miras_memory *m;
  miras_memory_event e;
  const float key[4] = {1, 0, 0, 0}, value[3] = {1, 2, 3}, bad[] = {-1.0f, NAN, INFINITY};
  const float one = 1, two = 2;
  float before[2][3], p[3];
  int32_t at[4] = {0, 3, 1, 1};
  (void)state;
  start();
#define IS(result) \
  if (miras_memory_learn(m, &e) != (result)) failed("line %d: not %s", __LINE__, #result)
  memset(&d, 0, sizeof d);
  memset(&e, 0, sizeof e);
  d.key_dim = 4;
  d.value_dim = 3;
  d.bias = MIRAS_BIAS_L2;
  m = opened(&d);
  assert_non_null(m);
  e.key = key;
  e.value = value;
  IS(MIRAS_OK);
  miras_memory_read(m, key, before[0]);
  if (miras_memory_learn(NULL, &e) != MIRAS_ERR_ARGUMENT) failed("no memory");
  if (miras_memory_learn(m, NULL) != MIRAS_ERR_ARGUMENT) failed("no event");
  for (int i = 0; i < 3; i++) {
    e.elapsed = &bad[i];
    IS(MIRAS_ERR_ARGUMENT);
  }
  e.elapsed = &two;                              /* there is no decay gate */
  IS(MIRAS_ERR_ARGUMENT);
  e.elapsed = NULL;
  e.index = at;                                  /* two keys */
  e.count = 2;
  IS(MIRAS_ERR_ARGUMENT);
  e.key = NULL;
  for (e.count = -1; e.count < 6; e.count += 6) IS(MIRAS_ERR_ARGUMENT);
  e.count = 2;
  at[1] = 4;
  IS(MIRAS_ERR_ARGUMENT);
  at[1] = -1;
  IS(MIRAS_ERR_ARGUMENT);
  e.index = NULL;
  IS(MIRAS_ERR_ARGUMENT);
  miras_memory_read(m, key, before[1]);
  if (memcmp(before[0], before[1], sizeof before[0]) || miras_memory_position(m) != 1)
    failed("a refusal has changed the memory");
  if (miras_memory_probabilities(m, before[0], p) != MIRAS_ERR_DESC) failed("probabilities of L2");
  e.index = at;
  at[1] = 3;
  e.elapsed = &one;
  IS(MIRAS_OK);
  e.count = 0;                                   /* a key of zeros */
  e.index = NULL;
  IS(MIRAS_OK);
  miras_close(m);
  d.learning_rate_gate = MIRAS_GATE_HEAD;        /* comes with tokens */
  m = opened(&d);
  e.key = key;
  e.answer = p;
  IS(MIRAS_ERR_DESC);
  e.value = NULL;
  IS(MIRAS_OK);
  miras_close(m);
  d.learning_rate_gate = MIRAS_GATE_CONSTANT;
  d.inner_steps = 2;
  m = opened(&d);
  IS(MIRAS_ERR_DESC);
  miras_close(m);
#undef IS
  finish();
}

/* ---- categories ---- */

static double nats_of(const miras_memory_desc *d, const float *logits, const float *v) {
  double m[64], w[64], e[64];
  for (int i = 0; i < d->value_dim; i++) m[i] = (double)logits[i], w[i] = (double)v[i];
  return ref_bias(d, m, w, NULL, e, NULL);
}

/* No bounded write of a matrix overshoots its own pair, however far it would go: its loss never
 * rises. Keys of length 1 and 30, values of one-hots, of shares and of large and small weights. */
static void test_overshoot(void **state) {
  static const char *const groups[] = {"", "3,3,5,2", "1,12", "13"};
  int rose = 0;
  (void)state;
  start();
  for (int g = 0; g < COUNT(groups); g++)
    for (int power = -3; power <= 4; power++)
      for (int far = 0; far < 2; far++)
        for (int kind = 0; kind < 4; kind++)
          for (int bound = 0; bound < 2; bound++) {
            miras_memory_desc d;
            miras_memory *m;
            int over = 0;
            memset(&d, 0, sizeof d);
            d.bias = MIRAS_BIAS_CROSS_ENTROPY;
            d.key_dim = 8;
            d.value_dim = 13;
            strcpy(d.groups, groups[g]);
            d.learning_rate = (float)pow(10.0, power);
            d.step_bound = bound ? MIRAS_STEP_BOUND_PAIR : MIRAS_STEP_BOUND_AUTO;
            random_state = (uint64_t)(g * 1000 + power * 100 + far * 10 + kind) + 7777u;
            m = opened(&d);
            for (int t = 0; m && t < 60; t++) {
              float key[8], value[13] = {0}, now[2][13], surprise;
              double length = 0.0, before, after;
              for (int i = 0; i < 8; i++) {
                key[i] = uniform(-1.0f, 1.0f);
                length += (double)key[i] * (double)key[i];
              }
              for (int i = 0; i < 8; i++) key[i] *= (far ? 30.0f : 1.0f) / (float)sqrt(length);
              for (int from = 0, end; from < 13; from = end) {
                end = ref_group_end(&d, from, 13);
                if (kind == 0) value[from + below(end - from)] = 1;
                for (int i = from; kind > 0 && i < end; i++)
                  value[i] = kind == 1 ? uniform(0.0f, 1.0f) / (float)(end - from)
                                       : (kind == 2 ? 50.0f : 1e-3f) * uniform(0.0f, 1.0f);
              }
              miras_memory_read(m, key, now[0]);
              miras_memory_write(m, key, value, &surprise);
              miras_memory_read(m, key, now[1]);
              before = nats_of(&d, now[0], value);
              after = nats_of(&d, now[1], value);
              if (!(fabs(before - (double)surprise) <= 2e-5 * (1 + fabs(before))))
                failed("surprise %g, and not %g: %s", (double)surprise, before, label(&d));
              over += !(after <= before + 1e-5 * (1 + fabs(before)));
            }
            if (bound && over) failed("%d overshot, kind %d: %s", over, kind, label(&d));
            if (!bound) rose += over;
            miras_close(m);
          }
  if (rose < 500) failed("without a bound only %d have", rose);
  finish();
}

/* Probabilities; a group of zeros learns nothing; what a table of counts would know is learned. */
static void test_categories(void **state) {
  miras_memory_desc d;
  miras_memory *m;
  double bits = 0.0;
  float p[7], logits[7], value[7], before[7];
  (void)state;
  start();
  memset(&d, 0, sizeof d);
  d.bias = MIRAS_BIAS_CROSS_ENTROPY;
  d.key_dim = 16;
  d.value_dim = 7;
  strcpy(d.groups, "4,3");
  d.learning_rate = 1.0f;
  d.step_bound = MIRAS_STEP_BOUND_PAIR;
  m = opened(&d);
  assert_non_null(m);
  random_state = 5;
  for (int t = 0; t < 4000; t++) {
    const int32_t at = below(16);
    miras_memory_event e;
    double sum[2] = {0.0, 0.0};
    memset(&e, 0, sizeof e);
    memset(value, 0, sizeof value);
    value[at % 4] = 1;                           /* the first group follows from the key */
    if (at < 8) value[4 + at % 3] = 1;           /* the second is told of half the keys */
    e.index = &at;
    e.count = 1;
    e.value = value;
    e.answer = logits;
    if (miras_memory_learn(m, &e) != MIRAS_OK) failed("refused");
    if (miras_memory_probabilities(m, logits, p) != MIRAS_OK) failed("no probabilities");
    for (int i = 0; i < 7; i++) {
      double total = 0.0;
      for (int j = i < 4 ? 0 : 4; j < (i < 4 ? 4 : 7); j++) total += exp((double)logits[j]);
      sum[i >= 4] += (double)p[i];
      if (!(fabs((double)p[i] - exp((double)logits[i]) / total) <= 1e-6)) failed("entry %d", i);
    }
    if (!(fabs(sum[0] - 1.0) <= 1e-6 && fabs(sum[1] - 1.0) <= 1e-6)) failed("no probabilities");
    if (t >= 3000) bits -= log2((double)p[at % 4]) / 1000;
    if (at >= 8 && (logits[4] < 0 || logits[4] > 0)) failed("zeros have taught something");
  }
  if (!(bits < 0.05)) failed("%g bits for what follows from the key", bits);
  memcpy(before, logits, sizeof before);
  miras_memory_probabilities(m, logits, logits); /* in place */
  if (memcmp(logits, p, sizeof p)) failed("not in place");
  miras_close(m);
  finish();
}

/* Sizes as text: what is taken, what is refused and how. */
static void test_groups(void **state) {
  static const struct { const char *text; int dim, count; } right[] = {
    {"", 13, 1}, {"13", 13, 1}, {"3,3,5,2", 13, 4}, {"1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 16, 16},
    {"1000,1000,1000,1000,90,6", 4096, 6}};
  static const struct { const char *text; int dim; } wrong[] = {
    {"3,3,5", 13}, {"3,3,5,3", 13}, {"3,3,5,2,", 13}, {",13", 13}, {"13,0", 13}, {"0,13", 13},
    {"6,,7", 13}, {"6 7", 13}, {"6, 7", 13}, {"-1,14", 13}, {"+13", 13}, {"13x", 13}, {"x", 13},
    {"1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 17}, {"99999999999999999999", 13}, {"4294967309", 13}};
  (void)state;
  start();
  for (int i = 0; i < COUNT(right) + COUNT(wrong); i++) {
    const int ok = i < COUNT(right), k = i - COUNT(right);
    miras_memory_desc d, e;
    char why[256], said[256], text[MIRAS_PATTERN_SIZE];
    int groups, sparse;
    memset(&d, 0, sizeof d);
    d.bias = MIRAS_BIAS_CROSS_ENTROPY;
    d.key_dim = 2;
    d.value_dim = ok ? right[i].dim : wrong[k].dim;
    snprintf(d.groups, sizeof d.groups, "%s", ok ? right[i].text : wrong[k].text);
    if ((inside_plan(&d, &groups, &sparse, why, sizeof why) == MIRAS_OK) != ok)
      failed("\"%s\" of %d: %s", d.groups, d.value_dim, why);
    if (ok && groups != right[i].count) failed("\"%s\": %d", d.groups, groups);
    if (!ok && (!strstr(why, "groups is \"") || !strstr(why, "add up")))
      failed("\"%s\" of %d is refused so: %s", d.groups, d.value_dim, why);
    if (!d.groups[0]) continue;
    e = d;
    e.bias = MIRAS_BIAS_L2;                      /* has none */
    if (miras_memory_size(&e, why, sizeof why) || !strstr(why, "groups is \"") ||
        !strstr(why, "bias cross-entropy"))
      failed("groups of L2: %s", why);
    e = d;
    if (miras_memory_desc_change(&e, "bias", "l2", said, sizeof said) != MIRAS_OK || e.groups[0] ||
        !strstr(said, "groups"))
      failed("a change of the bias: %s", said);
    memset(e.groups, 0, sizeof e.groups);
    if (miras_memory_desc_set(&e, "groups", d.groups) != MIRAS_OK || strcmp(e.groups, d.groups) ||
        !miras_memory_desc_get(&e, "groups", text, sizeof text) || strcmp(text, d.groups))
      failed("groups as text");
  }
  { /* no end, and no reading behind it */
    miras_memory_desc d;
    char why[256];
    memset(&d, 0, sizeof d);
    d.bias = MIRAS_BIAS_CROSS_ENTROPY;
    d.key_dim = 2;
    d.value_dim = 4096;
    memset(d.groups, '1', sizeof d.groups);
    if (miras_memory_size(&d, why, sizeof why)) failed("groups without an end");
    for (size_t i = 1; i < sizeof d.groups; i += 2) d.groups[i] = ',';
    if (miras_memory_size(&d, why, sizeof why)) failed("groups without an end");
  }
  finish();
}

/* Files hold groups, and older readers would not take them. */
static void test_files(void **state) {
  miras_memory_desc d, from;
  miras_memory *m;
  static unsigned char bytes[1 << 16];
  miras_model_desc md, found;
  miras_model *model;
  static unsigned char whole[1 << 20];
  size_t n, i;
  char why[256];
  (void)state;
  start();
  memset(&d, 0, sizeof d);
  d.bias = MIRAS_BIAS_CROSS_ENTROPY;
  d.key_dim = 3;
  d.value_dim = 13;
  strcpy(d.groups, "3,3,5,2");
  d.learning_rate = 1;
  m = opened(&d);
  assert_non_null(m);
  n = miras_save_to(m, bytes, sizeof bytes);
  assert_true(n > 0 && n <= sizeof bytes);
  memset(&from, 0, sizeof from);
  if (miras_memory_desc_from(&from, bytes, n) != MIRAS_OK || strcmp(from.groups, d.groups))
    failed("of a memory: \"%s\"", from.groups);
  miras_close(m);
  strcpy(d.groups, "3,3,4,3");
  m = opened(&d);
  assert_non_null(m);
  if (miras_load_from(m, bytes, n, why, sizeof why) != MIRAS_ERR_MISMATCH ||
      !strstr(why, "groups"))
    failed("other groups: %s", why);
  miras_close(m);
  miras_model_preset(&md, MIRAS_PRESET_DELTANET_MEMORY, 1);
  md.vocab = 8;
  md.width = 16;
  md.layer[0].memory.heads = 2;
  md.layer[0].memory.key_dim = md.layer[0].memory.value_dim = 8;
  if (miras_model_desc_change(&md, "memory.bias", "cross-entropy", why, sizeof why) != MIRAS_OK)
    failed("a model of categories: %s", why);
  for (int groups = 1; groups >= 0; groups--) {
    strcpy(md.layer[0].memory.groups, groups ? "5,3" : "");
    model = miras_model_open(&md, NULL, why, sizeof why);
    if (!model) failed("%s", why);
    assert_non_null(model);
    n = miras_save_to(model, whole, sizeof whole);
    assert_true(n > 0 && n <= sizeof whole);
    memset(&found, 0, sizeof found);
    if (miras_model_desc_from(&found, whole, n) != MIRAS_OK ||
        strcmp(found.layer[0].memory.groups, md.layer[0].memory.groups))
      failed("of a model: \"%s\"", found.layer[0].memory.groups);
    for (i = 0; i + 13 < n && memcmp(whole + i, "\"version\":\"", 11); i++) {}
    if (whole[i + 11] != (groups ? '8' : '7')) failed("a file of version %c", whole[i + 11]);
    miras_close(model);
  }
  finish();
}

/* ---- a sensor as it comes ---- */

enum { SENSES = 12, READINGS = 4 };

static double map_of[SENSES][READINGS];

static void draw_map(void) {
  random_state = 3;
  for (int i = 0; i < SENSES; i++)
    for (int j = 0; j < READINGS; j++) map_of[i][j] = (double)uniform(-1, 1);
}

/* |answer - value| / |value| of 200 pairs without noise; the draws behind it go on as before. */
static double off_the_map(miras_memory *m, float unit) {
  const uint64_t keep = random_state;
  double wrong = 0.0, all = 0.0;
  for (int s = 0; s < 200; s++) {
    float key[SENSES], out[READINGS];
    for (int i = 0; i < SENSES; i++) key[i] = unit * uniform(-1, 1);
    miras_memory_read(m, key, out);
    for (int j = 0; j < READINGS; j++) {
      double y = 0.0;
      for (int i = 0; i < SENSES; i++) y += map_of[i][j] * (double)key[i] / (double)unit;
      wrong += ((double)out[j] - y) * ((double)out[j] - y);
      all += y * y;
    }
  }
  random_state = keep;
  return sqrt(wrong / all);
}

/* One reading of the map and some noise; by key and by value so many times as large as others, and
 * a wild one is of no map. */
static miras_result sense(miras_memory *m, float unit, float by_key, float by_value) {
  const int wild = by_key > 1 || by_value > 1;
  float key[SENSES], value[READINGS], surprise;
  for (int i = 0; i < SENSES; i++) key[i] = uniform(-1, 1);
  for (int j = 0; j < READINGS; j++) {
    double y = wild ? (double)(by_value * uniform(-1, 1)) : 0.1 * (double)uniform(-1, 1);
    for (int i = 0; i < SENSES && !wild; i++) y += map_of[i][j] * (double)key[i];
    value[j] = (float)y;
  }
  for (int i = 0; i < SENSES; i++) key[i] *= unit * by_key;
  return miras_memory_write(m, key, value, &surprise);
}

static miras_memory *sensor(miras_preset preset, const char *groups) {
  miras_memory_desc d;
  miras_memory_preset(&d, preset);
  strcpy(d.groups, groups);
  d.key_dim = SENSES;
  d.value_dim = READINGS;
  return opened(&d);
}

/* A wild pair or ten do nothing to what is known, a hundred little; the first may be one, too. */
static void test_wild_pairs(void **state) {
  static const struct { int at, count; float by_key, by_value; double behind, later; } cases[] = {
    {2000, 1, 1e4f, 1, 0.008, 0.008},      {2000, 10, 1e4f, 1, 0.008, 0.008},
    {2000, 100, 1e4f, 1, 0.03, 0.015},     {2000, 1, 1, 1e4f, 0.008, 0.008},
    {2000, 10, 1, 1e8f, 0.008, 0.008},     {2000, 1, 1e4f, 1e4f, 0.008, 0.008},
    {2000, 1, 1e20f, 1, 0.008, 0.008},     {2000, 1, 1, 1e30f, 0.008, 0.008},
    {2000, 1, 1e-20f, 1, 0.008, 0.008},    {3, 1, 1e4f, 1, 2, 0.008},
    {0, 1, 1e4f, 1, 2, 0.012}};
  (void)state;
  start();
  for (int c = 0; c < COUNT(cases); c++) {
    miras_memory *m = sensor(MIRAS_PRESET_SIGNALS, "");
    double behind = 0.0, later;
    assert_non_null(m);
    draw_map();
    for (int t = 0; t < 3500; t++) {
      const int wild = t >= cases[c].at && t < cases[c].at + cases[c].count;
      if (t == cases[c].at + cases[c].count) behind = off_the_map(m, 1);
      sense(m, 1, wild ? cases[c].by_key : 1, wild ? cases[c].by_value : 1);
    }
    later = off_the_map(m, 1);
    if (!(behind <= cases[c].behind && later <= cases[c].later))
      failed("%d wild from %d, keys times %g, values times %g: off by %g, later %g", cases[c].count,
             cases[c].at, (double)cases[c].by_key, (double)cases[c].by_value, behind, later);
    miras_close(m);
  }
  finish();
}

/* Keys in another unit, a power of two, have the same answers to the bit, of numbers and of
 * categories; zeros before the first key change nothing, and no key is too short to be learned. */
static void test_units(void **state) {
  static const float units[] = {9.5367432e-07f, 1048576.0f, 1.4551915e-11f, 6.8719477e10f};
  (void)state;
  start();
  for (int kind = 0; kind < 2; kind++)
    for (int u = 0; u < COUNT(units); u++) {
      const miras_preset preset = kind ? MIRAS_PRESET_CATEGORIES : MIRAS_PRESET_SIGNALS;
      miras_memory *a = sensor(preset, kind ? "4" : ""), *b = sensor(preset, kind ? "4" : "");
      assert_true(a != NULL && b != NULL);
      draw_map();
      for (int t = 0; t < 400; t++) {
        float key[SENSES], short_key[SENSES], value[READINGS] = {0}, y[READINGS], z[READINGS];
        double first = 0.0;
        for (int i = 0; i < SENSES; i++) key[i] = t < 2 ? 0.0f : uniform(-1, 1);
        for (int i = 0; i < SENSES; i++) short_key[i] = units[u] * key[i];
        for (int i = 0; i < SENSES; i++) first += map_of[i][0] * (double)key[i];
        for (int j = 0; j < READINGS && !kind; j++) value[j] = j ? uniform(-1, 1) : (float)first;
        if (kind) value[first > 0 ? 0 : 1] = 1;
        if (miras_memory_write(a, key, value, NULL) != MIRAS_OK ||
            miras_memory_write(b, short_key, value, NULL) != MIRAS_OK)
          failed("refused");
        miras_memory_read(a, key, y);
        miras_memory_read(b, short_key, z);
        if (memcmp(y, z, sizeof y)) {
          failed("keys times %g, write %d: %g is %g", (double)units[u], t, (double)y[0],
                 (double)z[0]);
          break;
        }
      }
      miras_close(a);
      miras_close(b);
    }
  for (float unit = 1e-13f; unit < 2e12f; unit *= 10) {
    miras_memory *m = sensor(MIRAS_PRESET_SIGNALS, "");
    double off;
    assert_non_null(m);
    draw_map();
    for (int t = 0; t < 500; t++) sense(m, unit, 1, 1);
    off = off_the_map(m, unit);
    if (!(off <= 0.02)) failed("keys of %g: off by %g", (double)unit, off);
    miras_close(m);
  }
  finish();
}

/* What is usual is in the state: a memory that goes on from a file has the same bits. */
static void test_usual_in_files(void **state) {
  static unsigned char file[16384];
  char why[256];
  (void)state;
  start();
  for (int kind = 0; kind < 2; kind++) {
    const miras_preset preset = kind ? MIRAS_PRESET_CATEGORIES : MIRAS_PRESET_SIGNALS;
    miras_memory *a = sensor(preset, kind ? "4" : ""), *b = sensor(preset, kind ? "4" : "");
    float usual[3] = {0};
    uint64_t keep;
    size_t n;
    assert_true(a != NULL && b != NULL);
    draw_map();
    for (int t = 0; t < 300; t++) sense(a, 1e-3f, 1, 1);
    n = miras_save_to(a, file, sizeof file);
    assert_true(n > 0 && n <= sizeof file);
    if (miras_load_from(b, file, n, why, sizeof why) != MIRAS_OK) failed("%s", why);
    if (miras_memory_get(b, 0, 0, "usual", usual, why, sizeof why) != MIRAS_OK ||
        !(usual[0] > 100))
      failed("%g pairs", (double)usual[0]);
    for (int t = 0; t < 100; t++) {
      keep = random_state;
      sense(a, 1e-3f, t % 20 == 3 ? 1e4f : 1, 1);
      random_state = keep;
      sense(b, 1e-3f, t % 20 == 3 ? 1e4f : 1, 1);
    }
    if (!same_states(a, b)) failed("another state behind a file");
    miras_close(a);
    miras_close(b);
  }
  finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_learn),      cmocka_unit_test(test_surprise),
    cmocka_unit_test(test_faded),
    cmocka_unit_test(test_workers),    cmocka_unit_test(test_elapsed),
    cmocka_unit_test(test_refusals),   cmocka_unit_test(test_overshoot),
    cmocka_unit_test(test_categories), cmocka_unit_test(test_groups),
    cmocka_unit_test(test_files),      cmocka_unit_test(test_wild_pairs),
    cmocka_unit_test(test_overflow),
    cmocka_unit_test(test_units),      cmocka_unit_test(test_usual_in_files),
  };
  printf("instruction set: %s\n", miras_isa());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
