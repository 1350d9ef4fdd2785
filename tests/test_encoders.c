/* test_encoders.c: examples/encoders.h says what its comments say: values worked out by hand or
 * once more in other words, beginnings, bounds, numbers that are none, copies that go on.
 *   cc -std=c99 -O2 tests/test_encoders.c -o test_encoders -lcmocka -lm */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "check.h"
#include "../examples/encoders.h"

#define NEAR(a, b, within) assert_true(fabs((double)(a) - (double)(b)) <= (within))

/* Numbers in -1 .. 1 that are the same everywhere. */
static float drawn(uint32_t *x) {
  *x = *x * 1664525u + 1013904223u;
  return (float)(*x >> 8) / 8388608.0f - 1;
}

static void categories_are_ones_in_their_places(void **state) {
  static const int sizes[] = { 3, 2, 4 }, which[] = { 2, 0, 1 }, unknown[] = { -1, 2, 3 };
  static const float right[] = { 0, 0, 1, 1, 0, 0, 1, 0, 0, 7 };
  static const float rest[] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 7 };
  float out[10];
  int32_t index[3];
  (void)state;
  out[9] = 7;
  miras_encode_groups(out, which, sizes, 3);
  assert_memory_equal(out, right, sizeof out);
  assert_int_equal(miras_encode_group_places(index, which, sizes, 3), 3);
  assert_int_equal(index[0], 2);
  assert_int_equal(index[1], 3);
  assert_int_equal(index[2], 6);
  miras_encode_groups(out, unknown, sizes, 3);
  assert_memory_equal(out, rest, sizeof out);
  assert_int_equal(miras_encode_group_places(index, unknown, sizes, 3), 1);
  assert_int_equal(index[0], 8);
}

/* ---- contexts ---- */

static miras_encoder_contexts contexts_of(int shortest, int longest, int bits) {
  miras_encoder_contexts c;
  memset(&c, 0, sizeof c);
  c.shortest = shortest, c.longest = longest, c.bits = bits;
  return c;
}

static int keys_of(const char *text, miras_encoder_contexts c, int32_t *index, float *entry) {
  for (; *text; text++) miras_encode_contexts_push(&c, *text);
  return miras_encode_contexts(&c, index, entry);
}

/* Of texts that end alike, the contexts up to where they part have the same places, longer ones
 * others; what comes before the longest context changes nothing. */
static void contexts_are_those_of_the_last_symbols(void **state) {
  const miras_encoder_contexts c = contexts_of(1, 5, 20);
  int32_t a[5], b[5], far[5];
  int i;
  (void)state;
  assert_int_equal(keys_of("see the cat", c, a, NULL), 5);
  assert_int_equal(keys_of("pet the rat", c, b, NULL), 5);   /* "at" is common */
  assert_int_equal(keys_of("a the cat", c, far, NULL), 5);
  for (i = 0; i < 5; i++) {
    assert_true((a[i] == b[i]) == (i < 2));
    assert_int_equal(a[i], far[i]);
    assert_true(a[i] >= 0 && a[i] < 1 << 20);
  }
  {
    miras_encoder_contexts other = c;
    other.seed = 1;
    keys_of("see the cat", other, b, NULL);
    for (i = 0; i < 5; i++) assert_int_not_equal(a[i], b[i]);
  }
  /* order counts, and so does length: a symbol twice is another context than once */
  keys_of("xxab", contexts_of(2, 2, 20), a, NULL);
  keys_of("xxba", contexts_of(2, 2, 20), b, NULL);
  assert_int_not_equal(a[0], b[0]);
  assert_int_equal(keys_of("xx", contexts_of(0, 2, 20), a, NULL), 3);
  assert_true(a[0] != a[1] && a[1] != a[2]);
}

static void contexts_have_length_one_and_no_place_twice(void **state) {
  uint32_t x = 5;
  int bits;
  (void)state;
  for (bits = 3; bits <= 12; bits++) {   /* 8 places for 8 contexts: all of them in turn */
    miras_encoder_contexts c = contexts_of(0, 7, bits);
    int t;
    c.growth = bits & 1 ? 1.5f : 0;
    for (t = 0; t < 200; t++) {
      int32_t index[8];
      float entry[8], squares = 0;
      const int count = miras_encode_contexts(&c, index, entry);
      int i, j;
      assert_int_equal(count, t < 7 ? t + 1 : 8);
      for (i = 0; i < count; i++) {
        assert_true(index[i] >= 0 && index[i] < 1 << bits);
        for (j = 0; j < i; j++) assert_int_not_equal(index[i], index[j]);
        squares += entry[i] * entry[i];
        if (i) NEAR(entry[i] / entry[i - 1], bits & 1 ? 1.5 : 1, 1e-6);
      }
      NEAR(squares, 1, 1e-6);
      miras_encode_contexts_push(&c, drawn(&x) > 0);
    }
  }
}

/* Random contexts spread: of 4096 in 4096 places about 4096 (1 - 1/e) = 2589 are taken. */
static void contexts_spread_over_the_places(void **state) {
  static unsigned char taken[4096];
  int i, count = 0;
  (void)state;
  for (i = 0; i < 4096; i++) {
    miras_encoder_contexts c = contexts_of(2, 2, 12);
    int32_t index;
    miras_encode_contexts_push(&c, i >> 6);
    miras_encode_contexts_push(&c, i & 63);
    assert_int_equal(miras_encode_contexts(&c, &index, NULL), 1);
    taken[index] = 1;
  }
  for (i = 0; i < 4096; i++) count += taken[i];
  assert_true(count > 2480 && count < 2700);
}

/* ---- windows ---- */

static void windows_hold_lags_and_differences(void **state) {
  miras_encoder_window w;
  float out[8];
  int t;
  (void)state;
  memset(&w, 0, sizeof w);
  w.lags = 3, w.differences = 2, w.constant = 1;
  assert_int_equal(miras_encode_window(&w, out), 6);
  for (t = 0; t < 5; t++) assert_true(out[t] == 0);
  assert_true(out[5] == 1);
  miras_encode_window_push(&w, 4);   /* the series counts as having stood at 4 before */
  miras_encode_window(&w, out);
  for (t = 0; t < 5; t++) assert_true(out[t] == (t < 3 ? 4 : 0));
  for (t = 0; t < 500; t++) {        /* several times around the ring */
    miras_encode_window_push(&w, (float)(t * t));
    miras_encode_window(&w, out);
    if (t < 2) continue;
    assert_true(out[0] == (float)(t * t) && out[1] == (float)((t - 1) * (t - 1)));
    assert_true(out[2] == (float)((t - 2) * (t - 2)));
    assert_true(out[3] == (float)(2 * t - 1) && out[4] == (float)(2 * t - 3) && out[5] == 1);
  }
  assert_true(miras_encode_window_at(&w, 63) == (float)((499 - 63) * (499 - 63)));
  miras_encode_window_push(&w, (float)NAN);   /* a repetition */
  miras_encode_window_push(&w, (float)INFINITY);
  assert_true(miras_encode_window_at(&w, 0) == 499.0f * 499 && w.ring[w.at] == 499.0f * 499);
  assert_true(miras_encode_window_at(&w, 2) == 499.0f * 499);
  assert_true(miras_encode_window_at(&w, 3) == 498.0f * 498);
  w.lags = MIRAS_ENCODER_LAGS, w.differences = MIRAS_ENCODER_LAGS - 1;
  {
    float all[2 * MIRAS_ENCODER_LAGS];
    assert_int_equal(miras_encode_window(&w, all), 2 * MIRAS_ENCODER_LAGS);
    assert_true(all[MIRAS_ENCODER_LAGS - 1] == (float)((502 - 64) * (502 - 64)));
  }
}

/* ---- times ---- */

static void waves_have_their_period(void **state) {
  float a[8], b[8];
  int i;
  (void)state;
  miras_encode_waves(a, 2, 6 * 3600.0, MIRAS_ENCODER_DAY);   /* a quarter of the day */
  NEAR(a[0], 1, 1e-7);
  NEAR(a[1], 0, 1e-7);
  NEAR(a[2], 0, 1e-6);
  NEAR(a[3], -1, 1e-7);
  miras_encode_waves(a, 4, 1234567890.25, MIRAS_ENCODER_YEAR);
  miras_encode_waves(b, 4, 1234567890.25 - 40 * MIRAS_ENCODER_YEAR, MIRAS_ENCODER_YEAR);
  for (i = 0; i < 4; i++) {   /* before the origin, too */
    const double turn = fmod(1234567890.25 / 31556952.0, 1.0) * 2 * 3.14159265358979323846;
    NEAR(a[2 * i], sin((i + 1) * turn), 1e-5);
    NEAR(a[2 * i + 1], cos((i + 1) * turn), 1e-5);
    NEAR(a[2 * i], b[2 * i], 1e-5);
    NEAR(a[2 * i + 1], b[2 * i + 1], 1e-5);
  }
  miras_encode_waves(a, 4, (double)NAN, MIRAS_ENCODER_WEEK);
  for (i = 0; i < 8; i++) assert_true(a[i] == 0);
}

/* ---- sizes ---- */

static void standards_are_mean_and_deviation(void **state) {
  double x[300];
  miras_encoder_scale s;
  uint32_t seed = 1;
  int i, t;
  (void)state;
  memset(&s, 0, sizeof s);
  for (t = 0; t < 300; t++) {
    double mean = 0, variance = 0;
    x[t] = (double)(20 + 3 * drawn(&seed));
    if (t > 1) {   /* two passes */
      for (i = 0; i < t; i++) mean += x[i];
      mean /= t;
      for (i = 0; i < t; i++) variance += (x[i] - mean) * (x[i] - mean);
      NEAR(miras_encode_standard(&s, (float)x[t]), (x[t] - mean) / sqrt(variance / t), 1e-4);
      NEAR(miras_encode_standard_back(&s, miras_encode_standard(&s, (float)x[t])), x[t], 1e-4);
    }
    miras_encode_standard_learn(&s, (float)x[t]);
  }
  assert_true(s.seen == 300);
}

/* With a horizon the weights of samples fall by 1 - 1/horizon each. */
static void standards_forget(void **state) {
  double x[400];
  double mean, variance, weight, all;
  miras_encoder_scale s;
  uint32_t seed = 2;
  int i;
  (void)state;
  memset(&s, 0, sizeof s);
  s.horizon = 10;
  for (i = 0; i < 400; i++) {
    x[i] = (double)(5 * drawn(&seed) + (i > 200 ? 100 : 0));
    miras_encode_standard_learn(&s, (float)x[i]);
  }
  mean = variance = all = 0;
  for (i = 399, weight = 1; i >= 0; i--, weight *= 0.9) mean += weight * x[i], all += weight;
  mean /= all;
  for (i = 399, weight = 1; i >= 0; i--, weight *= 0.9)
    variance += weight * (x[i] - mean) * (x[i] - mean);
  NEAR(s.mean, mean, 1e-5);
  NEAR(s.variance, variance / all, 1e-4);
}

static void standards_bear_wild_samples(void **state) {
  miras_encoder_scale s, before;
  uint32_t seed = 3;
  int t;
  (void)state;
  memset(&s, 0, sizeof s);
  s.horizon = 200, s.clip = 4;
  assert_true(miras_encode_standard_learn(&s, 1) == 0);   /* the first */
  assert_true(miras_encode_standard(&s, 1) == 0);
  NEAR(miras_encode_standard(&s, 1.001f), 2, 1e-6);       /* nothing had varied */
  NEAR(miras_encode_standard(&s, -50), -2, 1e-6);
  for (t = 0; t < 1000; t++) miras_encode_standard_learn(&s, drawn(&seed));
  before = s;
  assert_true(miras_encode_standard(&s, 1e30f) == 4);
  assert_true(miras_encode_standard_learn(&s, -1e30f) == -4);
  NEAR(s.mean, before.mean - 4 * sqrt(before.variance) / 200, 1e-6);
  NEAR(s.variance, before.variance, 0.1 * before.variance);
  before = s;
  assert_true(miras_encode_standard_learn(&s, (float)NAN) == 0);
  assert_true(miras_encode_standard_learn(&s, (float)INFINITY) == 0);
  assert_true(miras_encode_standard_learn(&s, -(float)INFINITY) == 0);
  assert_memory_equal(&s, &before, sizeof s);
  for (t = 0; t < 600; t++) miras_encode_standard_learn(&s, 50 + drawn(&seed));   /* a new level */
  NEAR(s.mean, 50, 5);
  for (t = 0; t < 2000; t++) miras_encode_standard_learn(&s, 50 + drawn(&seed));
  NEAR(sqrt(s.variance), sqrt(1.0 / 3), 0.1);
  memset(&s, 0, sizeof s);
  s.clip = 4;
  for (t = 0; t < 100; t++) miras_encode_standard_learn(&s, 7);   /* a constant, then life */
  for (t = 0; t < 100; t++) miras_encode_standard_learn(&s, 7 + drawn(&seed));
  NEAR(sqrt(s.variance), sqrt(1.0 / 6), 0.1);
  s.least = 10;
  NEAR(miras_encode_standard(&s, (float)s.mean + 5), 0.5, 1e-5);
}

/* ---- scores ---- */

/* The same noise at a hundredth of the loudness has the same scores; a spike in it stands out, is
 * learnt as four deviations, and the next one stands out nearly as far. */
static void surprise_is_compared_with_that_of_late(void **state) {
  miras_encoder_surprise loud, quiet, before;
  uint32_t seed = 4;
  float first;
  int t;
  (void)state;
  memset(&loud, 0, sizeof loud);
  memset(&quiet, 0, sizeof quiet);
  for (t = 0; t < 5000; t++) {
    const float e = fabsf(drawn(&seed));   /* mean 1/2, deviation 1/sqrt(12) */
    const float a = miras_encode_surprise(&loud, e), b = miras_encode_surprise(&quiet, e / 128);
    NEAR(a, b, 1e-3);
    if (t > 500) NEAR(a, ((double)e - 0.5) * sqrt(12.0), 0.5);
  }
  before = loud;
  first = miras_encode_surprise(&loud, 10);
  NEAR(first, 9.5 * sqrt(12.0), 4);
  NEAR(loud.mean, before.mean + 4 * sqrt(before.variance) / 1000, 1e-5);
  assert_true(miras_encode_surprise(&loud, 10) > 0.95f * first);
  before = loud;
  assert_true(miras_encode_surprise(&loud, (float)NAN) == 0);
  assert_true(miras_encode_surprise(&loud, (float)INFINITY) > FLT_MAX);
  assert_memory_equal(&loud, &before, sizeof loud);
}

/* Errors beside the usual: as usual is 1 at any loudness; ten times as large is 10, and as it
 * counts in full among those of late, the next one as large is no longer; a hundred quiet samples
 * later it is again. Louder errors for good become usual. */
static void errors_are_compared_with_the_usual(void **state) {
  miras_encoder_error e, before;
  uint32_t seed = 8;
  float first;
  int t;
  (void)state;
  memset(&e, 0, sizeof e);
  assert_true(miras_encode_error(&e, 3) == 0);
  assert_true(miras_encode_error_bound(&e) > FLT_MAX);
  for (t = 0; t < 20000; t++) miras_encode_error(&e, drawn(&seed) > 0 ? 0.01f : -0.01f);
  NEAR(miras_encode_error_usual(&e), 0.01, 1e-5);
  NEAR(miras_encode_error_bound(&e), 0.05, 1e-4);
  NEAR(miras_encode_error(&e, -0.01f), 1, 0.01);
  before = e;
  first = miras_encode_error(&e, 0.1f);
  NEAR(first, 10, 0.1);
  NEAR(e.large_square - before.large_square, (0.05 * 0.05 - 1e-4) / 1000, 1e-7);
  NEAR(e.late_square - before.late_square, (0.1 * 0.1 - 1e-4) / 16, 1e-5);
  NEAR(miras_encode_error(&e, 0.1f), 10 / sqrt(sqrt(1 + 99.0 / 16)), 0.2);
  for (t = 0; t < 200; t++) miras_encode_error(&e, 0.01f);
  NEAR(miras_encode_error(&e, 0.1f), 10, 0.5);
  for (t = 0; t < 2000; t++) miras_encode_error(&e, drawn(&seed) > 0 ? 5.0f : -5.0f);
  NEAR(miras_encode_error(&e, 5), 1, 0.3);
  before = e;
  assert_true(miras_encode_error(&e, (float)NAN) == 0);
  assert_true(miras_encode_error(&e, -(float)INFINITY) > FLT_MAX);
  assert_memory_equal(&e, &before, sizeof e);
  memset(&e, 0, sizeof e);
  e.least = 1;
  for (t = 0; t < 200; t++) miras_encode_error(&e, 0);
  NEAR(miras_encode_error(&e, 2), 2, 1e-6);
}

/* ---- state ---- */

/* Encoders that are copied byte for byte go on with the same bits. */
static void copies_go_on(void **state) {
  struct all {
    miras_encoder_contexts contexts;
    miras_encoder_window window;
    miras_encoder_scale scale;
    miras_encoder_surprise surprise;
  } a, b;
  unsigned char file[sizeof a];
  uint32_t seed = 6;
  int t;
  (void)state;
  memset(&a, 0, sizeof a);
  a.contexts = contexts_of(1, 6, 16);
  a.window.lags = 9;
  a.scale.clip = 3, a.scale.horizon = 50;
  for (t = 0; t < 300; t++) {
    const float x = drawn(&seed);
    int twice;
    if (t == 123) {
      memcpy(file, &a, sizeof a);
      memcpy(&b, file, sizeof b);
    }
    for (twice = 0; twice < 1 + (t >= 123); twice++) {
      struct all *one = twice ? &b : &a;
      miras_encode_contexts_push(&one->contexts, x > 0);
      miras_encode_window_push(&one->window, miras_encode_standard_learn(&one->scale, x));
      miras_encode_surprise(&one->surprise, x * x);
    }
  }
  assert_memory_equal(&a, &b, sizeof a);
}

/* One number of all bits that encoders of numbers make of a series: any machine's, any compiler's,
 * whose products and sums would round otherwise where they were fused. */
static uint64_t hash_of(uint64_t h, double x) {
  uint64_t bits;
  int k;
  memcpy(&bits, &x, sizeof bits);
  for (k = 0; k < 64; k += 8) h = (h ^ (bits >> k & 255)) * UINT64_C(1099511628211);
  return h;
}

static void bits_are_the_same_everywhere(void **state) {
  miras_encoder_scale scale;
  miras_encoder_surprise surprise;
  miras_encoder_error error;
  miras_encoder_contexts c = contexts_of(0, 5, 12);
  uint64_t h = UINT64_C(14695981039346656037);
  uint32_t seed = 3;
  int t, i, n;
  (void)state;
  memset(&scale, 0, sizeof scale);
  memset(&surprise, 0, sizeof surprise);
  memset(&error, 0, sizeof error);
  scale.clip = 4, scale.horizon = 50, c.growth = 1.1f;
  for (t = 0; t < 400; t++) {
    const float x = (float)((int32_t)(seed = seed * 1664525u + 1013904223u) / 65536) / 7.0f;
    int32_t index[6];
    float y[14];
    y[0] = miras_encode_standard_learn(&scale, x);
    y[1] = miras_encode_standard_back(&scale, y[0]);
    y[2] = miras_encode_surprise(&surprise, y[0] * y[0]);
    y[3] = miras_encode_error(&error, y[0]);
    miras_encode_waves(y + 4, 5, 1e9 + t * 977.3, MIRAS_ENCODER_DAY);
    for (i = 0; i < 14; i++) h = hash_of(h, (double)y[i]);
    miras_encode_contexts_push(&c, (int32_t)(seed >> 28));
    n = miras_encode_contexts(&c, index, y);
    for (i = 0; i < n; i++) h = hash_of(h, (double)y[i]);
    h = hash_of(hash_of(hash_of(h, scale.variance), surprise.variance), error.late_square);
  }
  assert_true(h == UINT64_C(0x0259fd1a60b805ef));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(categories_are_ones_in_their_places),
    cmocka_unit_test(contexts_are_those_of_the_last_symbols),
    cmocka_unit_test(contexts_have_length_one_and_no_place_twice),
    cmocka_unit_test(contexts_spread_over_the_places),
    cmocka_unit_test(windows_hold_lags_and_differences),
    cmocka_unit_test(waves_have_their_period),
    cmocka_unit_test(standards_are_mean_and_deviation),
    cmocka_unit_test(standards_forget),
    cmocka_unit_test(standards_bear_wild_samples),
    cmocka_unit_test(surprise_is_compared_with_that_of_late),
    cmocka_unit_test(errors_are_compared_with_the_usual),
    cmocka_unit_test(copies_go_on),
    cmocka_unit_test(bits_are_the_same_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
