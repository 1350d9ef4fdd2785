/* test_algebra.c: states as sums, ledgers and rewards, of every row of the table: against replays,
 * to the bit where that is promised, and against sums in double; and rows whose paper has matrices
 * where the table has pairs.
 *   cc -O2 tests/test_algebra.c -o test_algebra -lcmocka -lm */
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { BATCH = 2, HEADS = 2, DK = 8, DV = 6, MOST = 40, STEPS = 2, ALL = BATCH * HEADS };
enum { KEYS = ALL * STEPS * DK, VALUES = ALL * STEPS * DV };

static float keys[MOST][KEYS], values[MOST][VALUES];
static float query[ALL * DK];

static float uniform(uint64_t *s) {   /* -1 .. 1 */
  *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (float)(*s >> 40) / 8388608.0f - 1.0f;
}

static void fill(uint64_t seed) {
  uint64_t s = seed;
  int i, k;
  for (i = 0; i < MOST; i++) {
    for (k = 0; k < KEYS; k++) keys[i][k] = uniform(&s);
    for (k = 0; k < VALUES; k++) values[i][k] = uniform(&s);
  }
  for (k = 0; k < ALL * DK; k++) query[k] = uniform(&s);
}

static miras_memory_desc desc_of(int preset) {
  miras_memory_desc d;
  assert_int_equal(miras_memory_preset(&d, (miras_preset)preset), MIRAS_OK);
  d.batch = BATCH, d.heads = HEADS, d.key_dim = DK, d.value_dim = DV;
  if (d.window > 16) d.window = 16;
  return d;
}

static miras_memory *memory_of(const miras_memory_desc *d) {
  char why[256] = "";
  miras_memory *m = miras_memory_open(d, NULL, why, sizeof why);
  if (!m) fail_msg("%s", why);
  return m;
}

static void write_all(miras_memory *m, int from, int to) {
  for (; from < to; from++)
    assert_int_equal(miras_memory_write(m, keys[from], values[from], NULL), MIRAS_OK);
}

static void *copy_of(miras_memory *m) {
  size_t bytes;
  const void *state = miras_memory_state(m, &bytes);
  void *copy = malloc(bytes);
  assert_non_null(copy);
  return memcpy(copy, state, bytes);
}

static int same_state(miras_memory *a, miras_memory *b) {
  size_t bytes;
  const void *x = miras_memory_state(a, &bytes), *y = miras_memory_state(b, NULL);
  return !memcmp(x, y, bytes);
}

/* How far answers and states are apart, beside how large they are. */
static double apart(miras_memory *a, miras_memory *b) {
  float x[ALL * DV], y[ALL * DV];
  double off = 0, size = 1e-3;
  int i;
  assert_int_equal(miras_memory_position(a), miras_memory_position(b));
  assert_int_equal(miras_memory_read(a, query, x), MIRAS_OK);
  assert_int_equal(miras_memory_read(b, query, y), MIRAS_OK);
  for (i = 0; i < ALL * DV; i++) {
    off = fmax(off, fabs((double)x[i] - (double)y[i]));
    size = fmax(size, fabs((double)y[i]));
  }
  return off / size;
}

/* A start, what two learned apart from it, and the one of both. */
static void merge_row(const miras_memory_desc *d, const char *name, int from, int mine,
                      int others) {
  miras_memory *a = memory_of(d), *b = memory_of(d), *both = memory_of(d);
  char why[256] = "";
  void *start, *other;
  write_all(a, 0, from);
  start = copy_of(a);
  write_all(a, from, from + mine);
  write_all(b, 0, from);
  write_all(b, from + mine, from + mine + others);
  write_all(both, 0, from + mine + others);
  other = copy_of(b);
  assert_int_equal(miras_memory_merge(a, start, other, why, sizeof why), MIRAS_OK);
  if (!(apart(a, both) < 2e-5)) fail_msg("%s: a merge is off by %g", name, apart(a, both));

  miras_memory_reset(both);                    /* b's writes alone */
  write_all(both, from + mine, from + mine + others);
  assert_int_equal(miras_memory_difference(b, start, why, sizeof why), MIRAS_OK);
  if (!(apart(b, both) < 2e-5)) fail_msg("%s: a difference is off by %g", name, apart(b, both));

  miras_memory_reset(a);                       /* a start that has seen more than the others */
  if (from) {
    assert_int_equal(miras_memory_merge(a, start, other, why, sizeof why), MIRAS_ERR_STATE);
    assert_int_equal(miras_memory_difference(a, start, why, sizeof why), MIRAS_ERR_STATE);
  }
  assert_int_equal(miras_memory_position(a), 0);
  free(start), free(other);
  miras_close(a), miras_close(b), miras_close(both);
}

static int is_one_of(const char *name, const char *list) {
  const size_t n = strlen(name);
  for (; (list = strstr(list, name)) != NULL; list += n)
    if (list[-1] == ' ' && list[n] == ' ') return 1;
  return 0;
}

static void sums_and_differences(void **state) {
  static const char does[] =
    " linear-attention dfw retnet-memory lightning gla-memory mamba-memory mamba2-memory "
    "hgrn2-memory rwkv6-memory lru-memory s5-memory rg-lru hgrn-memory mesa ";
  int i;
  (void)state;
  fill(1);
  for (i = 0; i < MIRAS_PRESET_COUNT; i++) {
    miras_memory_desc d = desc_of(i);
    const char *name = miras_preset_name((miras_preset)i);
    miras_memory *m;
    void *copy;
    char why[256] = "";
    if (is_one_of(name, does) ||
        (i >= MIRAS_PRESET_ROWS && d.architecture == MIRAS_ARCH_MATRIX &&
         d.bias == MIRAS_BIAS_DOT)) {
      merge_row(&d, name, 0, 7, 9);
      merge_row(&d, name, 5, 7, 9);
      merge_row(&d, name, 5, 0, 3);
      merge_row(&d, name, 5, 3, 0);
      d.chunk = 4;
      merge_row(&d, name, 5, 7, 9);
      merge_row(&d, name, 0, 9, 6);
      continue;
    }
    m = memory_of(&d);
    copy = copy_of(m);
    assert_int_equal(miras_memory_merge(m, copy, copy, why, sizeof why), MIRAS_ERR_DESC);
    if (!strstr(why, " is ")) fail_msg("%s: merging is refused with \"%s\"", name, why);
    assert_int_equal(miras_memory_difference(m, copy, why, sizeof why), MIRAS_ERR_DESC);
    free(copy);
    miras_close(m);
  }
}

/* A trained initial memory, and the sum in double. */
static void sum_in_double(void **state) {
  miras_memory_desc d = desc_of(MIRAS_PRESET_RETNET_MEMORY);
  int target, i, k, j;
  (void)state;
  fill(2);
  for (target = 0; target < MIRAS_DECAY_TARGET_COUNT; target++) {
    miras_memory *a, *b;
    float init[DK * DV], W[DK * DV];
    double sum[DK * DV], keep;
    void *start, *other;
    d.decay_target = (miras_decay_target)target;
    d.qk_norm = MIRAS_QK_NORM_NONE;
    a = memory_of(&d), b = memory_of(&d);
    keep = (double)(1.0f - d.decay_rate);
    for (i = 0; i < DK * DV; i++) init[i] = keys[MOST - 1][i % KEYS] + (float)i / 64;
    miras_memory_set(a, 0, 0, "init.W1", init, NULL, 0);
    miras_memory_set(b, 0, 0, "init.W1", init, NULL, 0);
    start = copy_of(a);
    write_all(a, 0, 10);
    write_all(b, 10, 20);
    other = copy_of(b);
    for (i = 0; i < DK * DV; i++) sum[i] = (double)init[i];
    for (i = 0; i < 20; i++)
      for (k = 0; k < DK; k++)
        for (j = 0; j < DV; j++) {
          double *s = &sum[k * DV + j], at = target ? (double)init[k * DV + j] : 0;
          *s = at + keep * (*s - at) + (double)keys[i][k] * (double)values[i][j];
        }
    assert_int_equal(miras_memory_merge(a, start, other, NULL, 0), MIRAS_OK);
    assert_int_equal(miras_memory_get(a, 0, 0, "W1", W, NULL, 0), MIRAS_OK);
    for (i = 0; i < DK * DV; i++)
      if (!(fabs((double)W[i] - sum[i]) < 3e-6)) fail_msg("%g for %g", (double)W[i], sum[i]);
    free(start), free(other);
    miras_close(a), miras_close(b);
  }
}

/* ---- ledgers ---- */

static miras_ledger *ledger_of(miras_memory *m, int writes) {
  char why[256] = "";
  miras_ledger *l = miras_ledger_open(m, writes, NULL, why, sizeof why);
  if (!l) fail_msg("%s", why);
  return l;
}

static void log_all(miras_ledger *l, int from, int to) {
  for (; from < to; from++)
    assert_int_equal(miras_ledger_write(l, keys[from], values[from], (uint64_t)from * 100, NULL),
                     MIRAS_OK);
}

/* Forgotten to the bit, also where the ledger's older writes have left it. */
static void forget_row(const miras_memory_desc *d, const char *name) {
  miras_memory *m = memory_of(d), *never = memory_of(d), *third = memory_of(d);
  miras_ledger *l = ledger_of(m, 12), *copy;
  miras_ledger_entry e;
  unsigned char gone[12];
  float without[ALL * DV], answer[ALL * DV], then[ALL * DV];
  const void *block;
  size_t bytes, i;
  log_all(l, 0, 20);
  assert_int_equal(miras_ledger_count(l), 12);
  write_all(never, 0, 20);
  if (!same_state(m, never)) fail_msg("%s: a ledger changes what is written", name);
  if (!miras_ledger_holds(l)) fail_msg("%s: a replay has other bits", name);
  miras_memory_reset(never);
  write_all(never, 0, 8);                      /* what has left the ledger */
  for (i = 0; i < 12; i++) {
    gone[i] = i % 3 == 1 || i == 11;
    if (!gone[i]) write_all(never, (int)i + 8, (int)i + 9);
  }
  (void)miras_memory_read(m, query, then);
  assert_int_equal(miras_ledger_without(l, gone, query, without), MIRAS_OK);
  (void)miras_memory_read(m, query, answer);
  assert_memory_equal(then, answer, sizeof then);
  assert_int_equal(miras_ledger_forget(l, gone), MIRAS_OK);
  if (!same_state(m, never)) fail_msg("%s: what is forgotten is there still", name);
  (void)miras_memory_read(m, query, answer);
  assert_memory_equal(without, answer, sizeof answer);
  assert_int_equal(miras_ledger_count(l), 7);
  assert_int_equal(miras_ledger_get(l, 1, &e), MIRAS_OK);
  assert_int_equal(e.number, 10);
  assert_int_equal(e.when, 1000);
  assert_memory_equal(e.value, values[10], sizeof(float) * (size_t)ALL * DV);
  assert_true(miras_ledger_holds(l));
  log_all(l, 20, 30);                          /* it goes on, and its oldest leave it */
  write_all(never, 20, 30);
  assert_true(same_state(m, never) && miras_ledger_holds(l));
  assert_int_equal(miras_ledger_count(l), 12);

  copy = ledger_of(third, 12);                 /* a merge by replay; a copy of all of it */
  block = miras_ledger_state(l, &bytes);
  memcpy(miras_ledger_state(copy, NULL), block, bytes);
  block = miras_memory_state(m, &bytes);
  memcpy(miras_memory_state(third, NULL), block, bytes);
  assert_true(miras_ledger_holds(copy));
  assert_int_equal(miras_ledger_append(copy, l), MIRAS_OK);
  for (i = 0; miras_ledger_get(l, (int)i, &e) == MIRAS_OK; i++)
    (void)miras_memory_write(m, e.key, e.value, NULL);
  if (!same_state(m, third)) fail_msg("%s: a merge by replay is none", name);

  memset(gone, 1, sizeof gone);                /* m was written past its ledger */
  assert_false(miras_ledger_holds(l));
  assert_int_equal(miras_ledger_forget(l, gone), MIRAS_ERR_STATE);
  assert_int_equal(miras_ledger_without(l, gone, query, answer), MIRAS_ERR_STATE);
  assert_true(same_state(m, third));
  miras_close(l), miras_close(copy);
  miras_close(m), miras_close(never), miras_close(third);
}

/* rest + the sum of weights times values is the answer. */
static void explain_row(const miras_memory_desc *d, const char *name) {
  miras_memory *m = memory_of(d);
  miras_ledger *l = ledger_of(m, 16);
  static float weights[16 * ALL * STEPS];
  float rest[ALL * DV], answer[ALL * DV];
  char why[256] = "";
  const int steps = d->inner_steps > 1 ? d->inner_steps : 1;
  int i, k, s, j;
  log_all(l, 0, 23);
  if (miras_ledger_explain(l, query, weights, rest, why, sizeof why) != MIRAS_OK)
    fail_msg("%s: %s", name, why);
  (void)miras_memory_read(m, query, answer);
  for (k = 0; k < ALL; k++)
    for (j = 0; j < DV; j++) {
      double sum = (double)rest[k * DV + j];
      for (i = 0; i < 16; i++)
        for (s = 0; s < steps; s++)
          sum += (double)weights[(i * ALL + k) * steps + s] *
                 (double)values[7 + i][(k * steps + s) * DV + j];
      if (!(fabs(sum - (double)answer[k * DV + j]) < 2e-5 * (1 + fabs(sum))))
        fail_msg("%s: %g is explained as %g", name, (double)answer[k * DV + j], sum);
    }
  assert_true(miras_ledger_holds(l));
  miras_close(l);
  miras_close(m);
}

static void ledgers_of_all_rows(void **state) {
  int i, explained = 0;
  (void)state;
  fill(3);
  for (i = 0; i < MIRAS_PRESET_COUNT; i++) {
    miras_memory_desc d = desc_of(i);
    const char *name = miras_preset_name((miras_preset)i);
    miras_memory *m = memory_of(&d);
    char why[256] = "";
    float x[ALL * DV];
    static float weights[ALL * STEPS];
    miras_ledger *l;
    if (!miras_memory_can_write(m, NULL, 0)) {
      assert_int_equal(miras_ledger_size(m, 4, why, sizeof why), 0);
      assert_true(strstr(why, "separate_erase") != NULL && miras_preset_find("rwkv7-memory"));
      miras_close(m);
      continue;
    }
    forget_row(&d, name);
    l = ledger_of(m, 1);
    log_all(l, 0, 1);
    if (miras_ledger_explain(l, query, weights, x, why, sizeof why) == MIRAS_OK)
      explain_row(&d, name), explained += i < MIRAS_PRESET_ROWS;
    else if (!strstr(why, " is ")) fail_msg("%s: explaining is refused with \"%s\"", name, why);
    miras_close(l);
    miras_close(m);
  }
  assert_int_equal(explained, 33);
}

/* Of DeltaNet with steps of 1/2: the weight of a write is eta k.u, u = the query, drawn through the
 * writes behind it, in double. */
static void weights_in_double(void **state) {
  miras_memory_desc d = desc_of(MIRAS_PRESET_DELTANET_MEMORY);
  miras_memory *m;
  miras_ledger *l;
  float weights[20 * ALL], rest[ALL * DV];
  int i, k, j;
  (void)state;
  fill(4);
  d.step_bound = MIRAS_STEP_BOUND_AUTO;
  d.learning_rate = 0.5f;
  m = memory_of(&d);
  l = ledger_of(m, 20);
  log_all(l, 0, 20);
  assert_int_equal(miras_ledger_explain(l, query, weights, rest, NULL, 0), MIRAS_OK);
  for (k = 0; k < ALL; k++) {
    double u[DK], length = 0;
    for (j = 0; j < DK; j++) length += (double)query[k * DK + j] * (double)query[k * DK + j];
    for (j = 0; j < DK; j++) u[j] = (double)query[k * DK + j] / sqrt(length);
    for (i = 19; i >= 0; i--) {
      const float *key = keys[i] + k * DK;
      double dot = 0;
      length = 0;
      for (j = 0; j < DK; j++) length += (double)key[j] * (double)key[j];
      for (j = 0; j < DK; j++) dot += (double)key[j] / sqrt(length) * u[j];
      if (!(fabs(0.5 * dot - (double)weights[i * ALL + k]) < 1e-5))
        fail_msg("write %d weighs %g, not %g", i, (double)weights[i * ALL + k], 0.5 * dot);
      for (j = 0; j < DK; j++) u[j] -= 0.5 * dot * (double)key[j] / sqrt(length);
    }
  }
  miras_close(l);
  miras_close(m);
}

/* ---- rewards ---- */

static void rewards_of_all_rows(void **state) {
  int i, takes = 0;
  (void)state;
  fill(5);
  for (i = 0; i < MIRAS_PRESET_COUNT; i++) {
    miras_memory_desc d = desc_of(i);
    const char *name = miras_preset_name((miras_preset)i);
    miras_memory *m = memory_of(&d), *plain = memory_of(&d);
    char why[256] = "";
    const size_t n = miras_memory_trace_size(m, why, sizeof why);
    float *trace = (float *)calloc(n + 1, sizeof(float));
    assert_non_null(trace);
    if (!n) {
      if (!strstr(why, " is ")) fail_msg("%s: a reward is refused with \"%s\"", name, why);
      assert_int_equal(miras_memory_reward(m, trace, 0, keys[0], values[0], 1), MIRAS_ERR_DESC);
    }
    if (n) {
      int t;
      takes += i < MIRAS_PRESET_ROWS;
      for (t = 0; t < 12; t++)
        assert_int_equal(miras_memory_reward(m, trace, 0, keys[t], values[t], 1), MIRAS_OK);
      write_all(plain, 0, 12);
      if (!(apart(m, plain) < 1e-4))
        fail_msg("%s: reward 1 is no write: %g", name, apart(m, plain));
    }
    free(trace);
    miras_close(m), miras_close(plain);
  }
  assert_int_equal(takes, 29);
}

/* With reward 1 a trace is momentum. */
static void trace_is_momentum(void **state) {
  static const miras_preset of[] = {MIRAS_PRESET_RETNET_MEMORY, MIRAS_PRESET_GATED_DELTANET,
                                    MIRAS_PRESET_TTT_MLP_MEMORY};
  int i, t;
  (void)state;
  fill(6);
  for (i = 0; i < 3; i++) {
    miras_memory_desc d = desc_of((int)of[i]);
    miras_memory *m, *other;
    float *trace;
    d.learning_rate = 0.005f;
    d.step_bound = MIRAS_STEP_BOUND_AUTO;
    d.order = MIRAS_ORDER_ERROR_FIRST;
    d.decay_rate = 0.02f;
    m = memory_of(&d);
    d.algorithm = MIRAS_ALGORITHM_MOMENTUM;
    d.momentum = 0.75f;
    other = memory_of(&d);
    trace = (float *)calloc(miras_memory_trace_size(m, NULL, 0), sizeof(float));
    assert_non_null(trace);
    for (t = 0; t < 20; t++)
      assert_int_equal(miras_memory_reward(m, trace, 0.75f, keys[t], values[t], 1), MIRAS_OK);
    write_all(other, 0, 20);
    if (!(apart(m, other) < 2e-4)) fail_msg("%d: %g", i, apart(m, other));
    free(trace);
    miras_close(m), miras_close(other);
  }
}

/* Cross entropy on a matrix: REINFORCE's trace, in double, rewards of both signs, some of them
 * late. */
static void reinforce(void **state) {
  miras_memory_desc d = desc_of(MIRAS_PRESET_DELTANET_MEMORY);
  double W[DK * DV], S[DK * DV];
  float *trace, is[DK * DV], value[ALL * DV];
  miras_memory *m;
  int t, i, j;
  (void)state;
  fill(7);
  d.bias = MIRAS_BIAS_CROSS_ENTROPY;
  d.step_bound = MIRAS_STEP_BOUND_AUTO;
  d.learning_rate = 0.3f;
  d.qk_norm = MIRAS_QK_NORM_NONE;
  d.batch = d.heads = 1;
  m = memory_of(&d);
  trace = (float *)calloc(miras_memory_trace_size(m, NULL, 0), sizeof(float));
  assert_non_null(trace);
  memset(W, 0, sizeof W);
  memset(S, 0, sizeof S);
  for (t = 0; t < 30; t++) {
    const int act = t * 7 % DV, late = t % 3 == 2;
    const float reward = t % 4 ? values[t][0] : 0;
    double p[DV], sum = 0;
    memset(value, 0, sizeof value);
    value[act] = 1;
    for (j = 0; j < DV; j++) {
      p[j] = 0;
      for (i = 0; i < DK; i++) p[j] += (double)keys[t][i] * W[i * DV + j];
      p[j] = exp(p[j]);
      sum += p[j];
    }
    for (i = 0; i < DK * DV; i++)
      S[i] = 0.5 * S[i] +
             (double)0.3f * (double)keys[t][i / DV] * ((i % DV == act) - p[i % DV] / sum);
    for (i = 0; i < DK * DV; i++) W[i] += (double)reward * S[i];
    assert_int_equal(miras_memory_reward(m, trace, 0.5f, keys[t], value, late ? 0 : reward),
                     MIRAS_OK);
    if (late) assert_int_equal(miras_memory_reward(m, trace, 0.5f, NULL, NULL, reward), MIRAS_OK);
  }
  assert_int_equal(miras_memory_get(m, 0, 0, "W1", is, NULL, 0), MIRAS_OK);
  for (i = 0; i < DK * DV; i++)
    if (!(fabs((double)is[i] - W[i]) < 1e-5)) fail_msg("%g for %g", (double)is[i], W[i]);
  free(trace);
  miras_close(m);
}

/* ---- refusals, and who does the work ---- */

static void backwards(void *user, int count, void (*task)(void *, int, int), void *argument) {
  const int workers = *(const int *)user;
  while (count--) task(argument, count, count % workers);
}

static void workers_change_nothing(void **state) {
  static const miras_preset of[] = {MIRAS_PRESET_YAAD, MIRAS_PRESET_GATED_DELTANET,
                                    MIRAS_PRESET_MESA};
  int workers = 3, i;
  const miras_parallel jobs = {backwards, &workers, 3};
  (void)state;
  fill(8);
  for (i = 0; i < 3; i++) {
    miras_memory_desc d = desc_of((int)of[i]);
    miras_memory *one = memory_of(&d), *other;
    miras_ledger *a, *b;
    unsigned char gone[9] = {1, 0, 0, 1};
    d.parallel = &jobs;
    other = memory_of(&d);
    a = ledger_of(one, 9), b = ledger_of(other, 9);
    log_all(a, 0, 15), log_all(b, 0, 15);
    assert_int_equal(miras_ledger_forget(a, gone), MIRAS_OK);
    assert_int_equal(miras_ledger_forget(b, gone), MIRAS_OK);
    assert_true(same_state(one, other));
    miras_close(a), miras_close(b);
    miras_close(one), miras_close(other);
  }
}

/* Fields that are refused by their number. */
static void fields_are_named(void **state) {
  static const char *const named[] = {"ball is 2;", "omega is 3;", "outlier is 4;",
                                      "reset_every is 16;"};
  int i;
  (void)state;
  fill(9);
  for (i = 0; i < 4; i++) {
    miras_memory_desc d = desc_of(i == 2 ? (int)MIRAS_PRESET_SIGNALS
                                         : (int)MIRAS_PRESET_RETNET_MEMORY);
    miras_memory *m;
    miras_ledger *l;
    float x[ALL * DV], weights[ALL * STEPS];
    char why[256] = "";
    void *copy;
    if (i == 0) d.ball = 2;
    if (i == 1) d.omega = 3;
    if (i == 3) d.reset_every = 16;
    m = memory_of(&d);
    l = ledger_of(m, 1);
    copy = copy_of(m);
    if (i == 2)
      assert_int_equal(miras_ledger_explain(l, query, weights, x, why, sizeof why),
                       MIRAS_ERR_DESC);
    else
      assert_int_equal(miras_memory_merge(m, copy, copy, why, sizeof why), MIRAS_ERR_DESC);
    if (strncmp(why, named[i], strlen(named[i])) != 0) fail_msg("%s: %s", named[i], why);
    free(copy);
    miras_close(l);
    miras_close(m);
  }
}

static void refusals(void **state) {
  miras_memory_desc d = desc_of(MIRAS_PRESET_DELTANET_MEMORY);
  miras_memory *m = memory_of(&d), *small;
  miras_ledger *l, *other;
  miras_ledger_entry e;
  char why[256] = "";
  float *trace = (float *)calloc(miras_memory_trace_size(m, NULL, 0), sizeof(float));
  float x[ALL * DV];
  size_t bytes;
  (void)state;
  fill(9);
  assert_non_null(trace);
  assert_int_equal(miras_ledger_size(m, 0, why, sizeof why), 0);
  assert_non_null(strstr(why, "writes is 0"));
  assert_int_equal(miras_ledger_size(NULL, 3, why, sizeof why), 0);
  bytes = miras_ledger_size(m, 3, why, sizeof why);
  assert_true(bytes > 0);
  assert_null(miras_ledger_init(x, 1, m, 3, why, sizeof why));
  assert_non_null(strstr(why, "bytes is 1"));
  l = ledger_of(m, 3);
  assert_int_equal(miras_ledger_write(l, NULL, values[0], 0, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_ledger_count(l), 0);
  assert_int_equal(miras_ledger_get(l, 0, &e), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_ledger_forget(l, NULL), MIRAS_OK);
  assert_int_equal(miras_ledger_append(l, l), MIRAS_ERR_ARGUMENT);
#ifndef MIRAS_NO_FILES
  assert_int_not_equal(miras_save(l, "nowhere.ledger"), MIRAS_OK);
#endif
  d.key_dim = 4;
  small = memory_of(&d);
  other = ledger_of(small, 3);
  assert_int_equal(miras_ledger_append(l, other), MIRAS_ERR_MISMATCH);
  memset(miras_ledger_state(l, &bytes), 0xff, 64);       /* damaged by its owner */
  assert_int_equal(miras_ledger_count(l), 0);
  log_all(l, 0, 2);
  assert_int_equal(miras_ledger_count(l), 2);

  assert_int_equal(miras_memory_reward(m, trace, 0, keys[0], values[0], -1), MIRAS_ERR_DESC);
  assert_int_equal(miras_memory_reward(m, trace, 0, keys[0], NULL, 1), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_reward(m, trace, 1.5f, keys[0], values[0], 1),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_reward(m, trace, 0, keys[0], values[0], (float)NAN),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_merge(NULL, x, x, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_merge(m, NULL, x, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_difference(m, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_reward(NULL, trace, 0, keys[0], values[0], 1),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_trace_size(NULL, NULL, 0), 0);
  assert_int_equal(miras_ledger_write(NULL, keys[0], values[0], 0, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_ledger_explain(NULL, x, x, x, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_ledger_without(l, NULL, query, x), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_ledger_forget(l, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_ledger_append(NULL, l), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_ledger_count(NULL) + miras_ledger_holds(NULL), 0);
  assert_null(miras_ledger_state(NULL, &bytes));
  assert_int_equal(bytes, 0);
  miras_close(other), miras_close(l);
  miras_close(small), miras_close(m);
  free(trace);
}

/* ---- rows as their papers write them ---- */

/* m [DK, DK] = (I - by x x') m */
static void reflect(double *m, double by, const float *x) {
  double row[DK];
  int i, j;
  for (j = 0; j < DK; j++)
    for (row[j] = 0, i = 0; i < DK; i++) row[j] += (double)x[i] * m[i * DK + j];
  for (i = 0; i < DK; i++)
    for (j = 0; j < DK; j++) m[i * DK + j] -= by * (double)x[i] * row[j];
}

/* EDA (Li et al. 2026): S_t = (I - beta k k') (I - gamma e e') diag(alpha) S_(t-1) + beta k v'. The
 * table has it as two pairs, (e, 0) by gamma and (k, v) by beta; in chunks, calls and single tokens
 * the answers are those of the product of matrices. */
static void erase_then_delta(void **state) {
  enum { T = 37 };
  static float key[T][2][DK], value[T][2][DV], ask[T][DK], keep[T][DK], rate[T][2], y[T][DV];
  uint64_t s = 11;
  int round, t, i, j, k;
  (void)state;
  for (t = 0; t < T; t++) {
    for (k = 0; k < 2; k++) {
      double square = 0;
      for (i = 0; i < DK; i++) {
        key[t][k][i] = uniform(&s);
        square += (double)key[t][k][i] * (double)key[t][k][i];
      }
      for (i = 0; i < DK; i++) key[t][k][i] /= (float)sqrt(square);
      rate[t][k] = 0.5f + 0.5f * uniform(&s);
    }
    for (i = 0; i < DV; i++) value[t][0][i] = 0, value[t][1][i] = uniform(&s);
    for (i = 0; i < DK; i++) ask[t][i] = uniform(&s), keep[t][i] = 0.9f + 0.1f * uniform(&s);
  }
  for (round = 0; round < 4; round++) {
    double S[DK * DV] = {0}, off = 0;
    miras_model_desc whole;
    miras_memory_desc d;
    miras_memory *m;
    assert_int_equal(miras_model_preset(&whole, MIRAS_PRESET_EDA, 1), MIRAS_OK);
    assert_int_equal(whole.layer[0].mixer.erase_first, 1);
    d = whole.layer[0].memory;
    d.heads = 1, d.key_dim = DK, d.value_dim = DV, d.chunk = round % 2 ? 16 : 1;
    m = memory_of(&d);
    for (t = 0; t < T; t += i) {
      miras_memory_input x;
      memset(&x, 0, sizeof x);
      i = round < 2 ? T : round == 2 ? 1 : T - t < 5 ? T - t : 5;
      x.length = i, x.key = key[t][0], x.value = value[t][0], x.query = ask[t];
      x.keep = keep[t], x.learning_rate = rate[t];
      assert_int_equal(miras_memory_forward(m, &x, y[t], NULL), MIRAS_OK);
    }
    for (t = 0; t < T; t++) {
      double by[DK * DK] = {0}, to[DK * DV];
      for (i = 0; i < DK; i++) by[i * DK + i] = (double)keep[t][i];
      reflect(by, (double)rate[t][0], key[t][0]);
      reflect(by, (double)rate[t][1], key[t][1]);
      for (i = 0; i < DK; i++)
        for (j = 0; j < DV; j++) {
          to[i * DV + j] = (double)rate[t][1] * (double)key[t][1][i] * (double)value[t][1][j];
          for (k = 0; k < DK; k++) to[i * DV + j] += by[i * DK + k] * S[k * DV + j];
        }
      memcpy(S, to, sizeof S);
      for (j = 0; j < DV; j++) {
        double says = 0;
        for (i = 0; i < DK; i++) says += S[i * DV + j] * (double)ask[t][i];
        off = fmax(off, fabs(says - (double)y[t][j]));
      }
    }
    if (!(off < 2e-6)) fail_msg("round %d: off by %g", round, off);
    miras_close(m);
  }
}

/* Momentum DeltaNet (Huang et al. 2026): M_t = mu M_(t-1) + eta k (p' S_(t-1) - v)', S_t = alpha
 * S_(t-1) - beta M_t. Chunk 1 is that rule with p = k where beta is the same for all tokens: it is
 * then a part of the rate. So it is in calls of any length. */
static void momentum_delta(void **state) {
  enum { T = 41 };
  const double beta = 0.625;
  static float key[T][DK], value[T][DV], ask[T][DK], keep[T], rate[T], mu[T], y[T][DV];
  uint64_t s = 12;
  int round, t, i, j;
  (void)state;
  for (t = 0; t < T; t++) {
    double square = 0;
    for (i = 0; i < DK; i++) {
      key[t][i] = uniform(&s), ask[t][i] = uniform(&s);
      square += (double)key[t][i] * (double)key[t][i];
    }
    for (i = 0; i < DK; i++) key[t][i] /= (float)sqrt(square);
    for (i = 0; i < DV; i++) value[t][i] = uniform(&s);
    keep[t] = 0.9f + 0.1f * uniform(&s), mu[t] = 0.5f + 0.5f * uniform(&s);
    rate[t] = (float)beta * (0.75f + 0.5f * uniform(&s));
  }
  for (round = 0; round < 3; round++) {
    double S[DK * DV] = {0}, M[DK * DV] = {0}, off = 0;
    miras_model_desc whole;
    miras_memory_desc d;
    miras_memory *m;
    assert_int_equal(miras_model_preset(&whole, MIRAS_PRESET_MDN, 1), MIRAS_OK);
    d = whole.layer[0].memory;
    assert_true(d.chunk <= 1);
    d.heads = 1, d.key_dim = DK, d.value_dim = DV;
    m = memory_of(&d);
    for (t = 0; t < T; t += i) {
      miras_memory_input x;
      memset(&x, 0, sizeof x);
      i = !round ? T : round == 1 ? 1 : T - t < 6 ? T - t : 6;
      x.length = i, x.key = key[t], x.value = value[t], x.query = ask[t];
      x.keep = keep + t, x.learning_rate = rate + t, x.momentum = mu + t;
      assert_int_equal(miras_memory_forward(m, &x, y[t], NULL), MIRAS_OK);
    }
    for (t = 0; t < T; t++) {
      for (j = 0; j < DV; j++) {
        double error = -(double)value[t][j], says = 0;
        for (i = 0; i < DK; i++) error += (double)key[t][i] * S[i * DV + j];
        for (i = 0; i < DK; i++) {
          double *at = M + i * DV + j;
          *at = (double)mu[t] * *at + (double)rate[t] / beta * (double)key[t][i] * error;
          S[i * DV + j] = (double)keep[t] * S[i * DV + j] - beta * *at;
          says += S[i * DV + j] * (double)ask[t][i];
        }
        off = fmax(off, fabs(says - (double)y[t][j]));
      }
    }
    if (!(off < 5e-6)) fail_msg("round %d: off by %g", round, off);
    miras_close(m);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_and_differences), cmocka_unit_test(sum_in_double),
    cmocka_unit_test(ledgers_of_all_rows),  cmocka_unit_test(weights_in_double),
    cmocka_unit_test(rewards_of_all_rows),  cmocka_unit_test(trace_is_momentum),
    cmocka_unit_test(reinforce),            cmocka_unit_test(workers_change_nothing),
    cmocka_unit_test(fields_are_named),     cmocka_unit_test(refusals),
    cmocka_unit_test(erase_then_delta),     cmocka_unit_test(momentum_delta)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
