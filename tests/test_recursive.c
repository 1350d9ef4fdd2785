/* test_recursive.c: least squares by recursion, against the sums that it stands for, over streams
 * that are meant to hurt it, with a million writes each; and how sure it says it is.
 *   cc -O2 tests/test_recursive.c -o test_recursive -lcmocka -lm */
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "reference.h"
#include "memories.h"

enum { N = 8, WRITES = 1000000 };

/* H and G of a stream as it forgets, in double: what P and W must be the inverse and the solution
 * of, whatever has happened before. */
typedef struct sums {
  double H[N * N], G[N], faded[N], ridge, keep;
  int t;
} sums;

static void sums_open(sums *s, const miras_memory_desc *d) {
  memset(s, 0, sizeof *s);
  s->ridge = (double)d->ridge;
  s->keep = d->retention == MIRAS_RETENTION_ALL ? 1.0 : (double)(1.0f - d->decay_rate);
  for (int i = 0; i < N; i++) s->H[i * N + i] = s->ridge;
}

static void sums_take(sums *s, const float *key, float value) {
  const int at = s->t++ % N;
  for (int i = 0; i < N; i++) {
    s->faded[i] = 1.0 - s->keep * (1.0 - s->faded[i]);
    s->G[i] = s->keep * s->G[i] + (double)key[i] * (double)value;
    for (int j = 0; j < N; j++)
      s->H[i * N + j] = s->keep * s->H[i * N + j] + (double)key[i] * (double)key[j];
  }
  s->H[at * N + at] += s->ridge * s->faded[at];
  s->faded[at] = 0.0;
}

/* Is P [N, N] symmetric to the bit, positive on its diagonal, at most `bound`, and, as far as its
 * entries are large beside sqrt(P_ii P_jj), that of the sums? And what it answers? */
static void check_state(const char *name, miras_memory *m, const sums *s, const float *key,
                        double bound, double allowed, int t) {
  float P[N * N], answer;
  double is[N * N], W[N], should = 0.0, size = 1e-30, worst = 0.0;
  assert_int_equal(miras_memory_get(m, 0, 0, "P", P, NULL, 0), MIRAS_OK);
  ref_invert(is, s->H, N);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      const double p = (double)P[i * N + j];
      const double off = fabs(p - is[i * N + j]) / sqrt(is[i * N + i] * is[j * N + j]);
      if (memcmp(&P[i * N + j], &P[j * N + i], sizeof(float)) != 0)
        failed("%s: P is not symmetric after %d writes", name, t);
      if (!(fabs(p) <= bound) || (i == j && !(p > 0.0)))
        failed("%s: P has %g after %d writes, where %g is the most", name, p, t, bound);
      if (!(off <= worst)) worst = off;
    }
  for (int i = 0; i < N; i++) {
    W[i] = 0.0;
    for (int j = 0; j < N; j++) W[i] += is[i * N + j] * s->G[j];
    should += W[i] * (double)key[i];
    size += fabs(W[i] * (double)key[i]);
  }
  assert_int_equal(miras_memory_read(m, key, &answer), MIRAS_OK);
  if (!(worst <= allowed)) failed("%s: P is off by %.2e after %d writes", name, worst, t);
  if (!(fabs((double)answer - should) <= 1e-3 * (size + 1e-2)))
    failed("%s: the answer is %g, not %g, after %d writes", name, (double)answer, should, t);
}

static const char *const streams[] = {
  "silence", "one key", "a plane", "noise", "lags of sines", "a flat line with beats", "jumps",
  "keys of 0.001", "keys of 1000", "entries of 0.001 to 1000"};

/* Value t of a signal. */
static float signal_at(int stream, int t) {
  const int beat = t % 180;
  switch (stream) {
    case 4: return (float)(sin(0.13 * t) + 0.5 * sin(0.31 * t + 1.0) + 0.3 * sin(0.047 * t));
    case 5: return beat < 150 ? 0.1f : (float)(0.1 + sin(0.21 * (beat - 150)));
    default: return (float)(t / 500 * 7919 % 11) - 5.0f;
  }
}

/* Key and value t of a stream: of signals their last N values and the next one. */
static void stream_pair(int stream, int t, const float *kept, float *key, float *value) {
  static const float scales[] = {1e3f, 1.0f, 1e-3f};
  float a, b;
  if (stream >= 4 && stream <= 6) {
    memmove(key, key + 1, (N - 1) * sizeof *key);
    key[N - 1] = *value;
    *value = signal_at(stream, t);
    return;
  }
  a = stream ? uniform(-1.0f, 1.0f) : 0.0f;
  b = stream ? uniform(-1.0f, 1.0f) : 0.0f;
  for (int i = 0; i < N; i++)
    switch (stream) {
      case 0: key[i] = 0.0f; break;
      case 1: key[i] = kept[i]; break;
      case 2: key[i] = a * kept[i] + b * kept[N - i]; break;
      case 3: key[i] = uniform(-1.0f, 1.0f); break;
      case 7: key[i] = uniform(-1e-3f, 1e-3f); break;
      case 8: key[i] = uniform(-1e3f, 1e3f); break;
      default: key[i] = scales[i % 3] * uniform(-1.0f, 1.0f); break;
    }
  *value = key[0] + 0.5f * key[3] + 0.1f * a;
}

/* A million writes of each (one in MIRAS_TEST_SHARE): symmetric, finite, bounded by the ridges,
 * what the sums say. Without forgetting, floats do not tell 10^5 from 10^5 + 1 writes of one key
 * any more. */
static void test_streams(void **state) {
  (void)state;
  start();
  random_state = 34;
  for (int stream = 0; stream < COUNT(streams); stream++)
    for (int all = 0; all < 2; all++) {
      const int writes = (all ? WRITES / 100 : WRITES) / MIRAS_TEST_SHARE;
      float kept[N + 1], key[N] = {0}, value = 0.0f;
      miras_memory_desc d;
      miras_memory *m;
      sums s;
      double bound;
      miras_memory_preset(&d, MIRAS_PRESET_RLS);
      d.key_dim = N;
      d.value_dim = 1;
      d.ridge = 0.01f;
      if (all) {
        d.retention = MIRAS_RETENTION_ALL;
        d.decay_rate = 0.0f;
      }
      m = miras_memory_open(&d, NULL, NULL, 0);
      assert_non_null(m);
      sums_open(&s, &d);
      bound = 1.001 / (s.ridge * pow(s.keep, N - 1));
      for (int i = 0; i <= N; i++) kept[i] = uniform(-1.0f, 1.0f);
      for (int t = 0; t < writes; t++) {
        stream_pair(stream, t, kept, key, &value);
        assert_int_equal(miras_memory_write(m, key, &value, NULL), MIRAS_OK);
        sums_take(&s, key, value);
        if (t < 3 || t == 99 || (t + 1) % (writes / 4) == 0)
          check_state(streams[stream], m, &s, key, bound, all ? 2e-2 : 1e-3, t + 1);
      }
      miras_close(m);
    }
  finish();
}

/* Silence leads P back to the ridges and what was known to 0, whatever was there before. */
static void test_silence(void **state) {
  float key[N] = {0}, value = 1.0f, P[N * N], answer;
  miras_memory_desc d;
  miras_memory *m;
  (void)state;
  miras_memory_preset(&d, MIRAS_PRESET_RLS);
  d.key_dim = N;
  d.value_dim = 1;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  random_state = 35;
  for (int t = 0; t < 500; t++) {
    for (int i = 0; i < N; i++) key[i] = uniform(-10.0f, 10.0f);
    value = key[0] - key[5];
    miras_memory_write(m, key, &value, NULL);
  }
  miras_memory_read(m, key, &answer);
  assert_true(fabsf(answer - value) < 1e-2f);
  memset(key, 0, sizeof key);
  value = 0.0f;
  for (int t = 0; t < 40000; t++) miras_memory_write(m, key, &value, NULL);
  miras_memory_get(m, 0, 0, "P", P, NULL, 0);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++)
      assert_true(fabsf(P[i * N + j] - (i == j ? 10.0f : 0.0f)) < 0.1f);
  assert_true(miras_memory_norm(m) < 1e-6f);
  miras_close(m);
}

/* q'P q of both algorithms, before the first token, within chunks and on their grid, with features,
 * several sequences and heads. */
static void test_variance(void **state) {
  static const miras_algorithm algorithms[] = {MIRAS_ALGORITHM_RECURSIVE,
                                               MIRAS_ALGORITHM_LEAST_SQUARES};
  static const int befores[] = {0, 1, 5, 8, 40};
  double worst = 0.0;
  (void)state;
  start();
  random_state = 36;
  for (int a = 0; a < COUNT(algorithms); a++)
    for (int n = 0; n < COUNT(befores); n++)
      for (int map = 0; map < FEATURE_MAPS; map++) {
        miras_memory_desc d;
        data x, first;
        ref_memory r;
        ref_tokens reference;
        miras_memory *m;
        miras_memory_input tokens;
        float *y, *is;
        double *expected;
        memset(&d, 0, sizeof d);
        d.bias = MIRAS_BIAS_L2;
        d.retention = map % 2 ? MIRAS_RETENTION_ALL : MIRAS_RETENTION_L2;
        d.algorithm = algorithms[a];
        d.learning_rate = d.ridge = 1;
        d.key_dim = 4;
        d.value_dim = 3;
        d.batch = 2;
        d.heads = 2;
        d.chunk = 4;
        d.decay_rate = map % 2 ? 0.0f : 0.05f;
        d.feature_map = ref_feature_map(map);
        assert_true(data_settled(&x, &d, 41, (uint64_t)(100 + n), 1e-4));
        first = data_cut(&x, 0, befores[n]);
        m = open_memory(&x);
        assert_non_null(m);
        tokens = data_tokens(&first);
        reference = data_reference(&first);
        y = (float *)zeros(first.dy.count + 1, sizeof(float));
        expected = (double *)ref_zeros(first.dy.count + 1);
        ref_open(&r, &x.d, x.params.d);
        ref_forward(&r, &reference, expected, NULL);
        assert_int_equal(miras_memory_forward(m, &tokens, y, NULL), MIRAS_OK);
        is = (float *)zeros(4, sizeof(float));
        assert_int_equal(miras_memory_variance(m, x.in[QUERY].f, is), MIRAS_OK);
        for (int h = 0; h < 4; h++) {
          const double should =
            ref_variance_head(&r, h / 2, h % 2, x.in[QUERY].d + (size_t)h * x.per[QUERY]);
          const double off = fabs((double)is[h] - should) / (should + 1e-30);
          worst = fmax(worst, off);
          if (!(off <= 1e-4)) failed("%g, not %g: %s", (double)is[h], should, label(&d));
        }
        free(y);
        free(is);
        free(expected);
        ref_close(&r);
        data_free(&first);
        data_free(&x);
        miras_close(m);
      }
  printf("  variances: off by up to %.2e\n", worst);
  finish();
}

/* Gradients of heads that start anew, taped and played back; the floats behind the tape stay. */
enum { TAPED = 93, HEADS = 2, KEYS = TAPED * HEADS * N, VALUES = TAPED * HEADS, GUARD = 8192 };
typedef struct taped { float key[KEYS], query[KEYS], value[VALUES], keep[VALUES]; } taped;

static void play(int chunk, int every, const taped *x, const float *dy, taped *dx) {
  static float y[VALUES];
  miras_memory_desc d;
  miras_memory_input in;
  miras_memory_input_grad g;
  miras_memory *m;
  float *tape;
  size_t size;
  miras_memory_preset(&d, MIRAS_PRESET_RLS);
  d.key_dim = N, d.value_dim = 1, d.heads = HEADS, d.chunk = chunk, d.reset_every = every;
  d.retention = MIRAS_RETENTION_L2, d.decay_gate = MIRAS_GATE_HEAD;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  memset(&in, 0, sizeof in), memset(&g, 0, sizeof g);
  in.key = x->key, in.query = x->query, in.value = x->value, in.keep = x->keep;
  in.length = TAPED;
  g.key = dx->key, g.query = dx->query, g.value = dx->value, g.keep = dx->keep;
  size = miras_memory_tape_size(m, TAPED);
  tape = (float *)zeros(size + GUARD, sizeof *tape);
  for (size_t i = 0; i < GUARD; i++) tape[size + i] = 7.0f;
  assert_int_equal(miras_memory_forward(m, &in, y, tape), MIRAS_OK);
  assert_int_equal(miras_memory_backward(m, &in, tape, dy, &g, NULL, NULL), MIRAS_OK);
  for (size_t i = 0; i < GUARD; i++)
    if (!(tape[size + i] <= 7.0f && tape[size + i] >= 7.0f)) {
      failed("chunk %d, reset_every %d: float %zu behind the tape is written", chunk, every, i);
      break;
    }
  free(tape);
  miras_close(m);
}

/* A tape has room for what a call writes where heads start anew, whatever the chunk, which is
 * nothing to this row: it changes no gradient. */
static void test_tape(void **state) {
  static const int chunks[] = {1, 3, 4, 5, 7, 10, 12};
  static taped x, want, got;
  static float dy[VALUES];
  (void)state;
  start();
  random_state = 11;
  for (int i = 0; i < KEYS; i++) x.key[i] = uniform(-1.0f, 1.0f), x.query[i] = uniform(-1.0f, 1.0f);
  for (int i = 0; i < VALUES; i++) {
    x.value[i] = uniform(-1.0f, 1.0f), dy[i] = uniform(-1.0f, 1.0f);
    x.keep[i] = uniform(0.9f, 1.0f);
  }
  for (int c = 0; c < COUNT(chunks); c++) {
    const int grid = (15 + chunks[c]) / chunks[c] * chunks[c];
    for (int every = grid; every <= 3 * grid; every += grid) {
      play(grid, every, &x, dy, &want);
      play(chunks[c], every, &x, dy, &got);
      if (memcmp(&want, &got, sizeof want) != 0)
        failed("chunk %d, reset_every %d: gradients are not chunk %d's", chunks[c], every, grid);
    }
  }
  finish();
}

/* Who does not know says so; what does not go with it is refused in a sentence. */
static void test_refusals(void **state) {
  static const struct {
    const char *field, *value, *sentence;
  } refused[] = {
    {"bias", "dot",
     "algorithm is 4 (recursive-least-squares) with bias 0 (dot); it needs bias l2 "
     "or cross-entropy"},
    {"inner_steps", "2",
     "algorithm is 4 (recursive-least-squares) with inner_steps 2; it needs inner_steps 1"},
    {"decay_gate", "channel",
     "decay_gate is 2 (channel); it needs a matrix that runs exactly, architecture vector or "
     "gated-mlp, or mlp of depth 1 or 2"},
    {"iterations", "5",
     "iterations is 5, but it has a meaning only with algorithm least-squares; set it to 0"},
    {"ridge", "1e7", "ridge is 1e+07; it must lie in 1e-06..1e+06"},
  };
  float q[N] = {0}, out;
  miras_memory_desc d;
  miras_memory *m;
  (void)state;
  start();
  for (int i = 0; i < COUNT(refused); i++) {
    char why[256] = "";
    miras_memory_preset(&d, MIRAS_PRESET_RLS);
    d.key_dim = N;
    assert_int_equal(miras_memory_desc_set(&d, refused[i].field, refused[i].value), MIRAS_OK);
    if (miras_memory_size(&d, why, sizeof why) != 0) failed("%s is taken", refused[i].field);
    else if (strcmp(why, refused[i].sentence) != 0) failed("%s", why);
  }
  miras_memory_preset(&d, MIRAS_PRESET_DELTANET_MEMORY);
  d.key_dim = N;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_int_equal(miras_memory_variance(m, q, &out), MIRAS_ERR_DESC);
  assert_int_equal(miras_memory_variance(m, NULL, &out), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_variance(m, q, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_variance(NULL, q, &out), MIRAS_ERR_ARGUMENT);
  miras_close(m);
  finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_streams), cmocka_unit_test(test_silence),
    cmocka_unit_test(test_variance), cmocka_unit_test(test_tape),
    cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
