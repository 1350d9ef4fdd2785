/* Files of earlier releases: they load, and what they hold computes what it computed when they were
 * saved. The files lie in tests/data; run from the folder that holds miras.h.
 * cc -std=c99 -O2 tests/test_old_files.c -lcmocka -lm
 *
 * They were written by this program, built beside the header of the commit that `table` names:
 *     git worktree add /tmp/old 16ad7c9 && cp tests/test_old_files.c tests/check.h /tmp/old/tests
 *     cc -O2 /tmp/old/tests/test_old_files.c -o write -lcmocka -lm && ./write --write
 * which also prints the table. A new release adds rows and changes none. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"
#include "check.h"

enum { VOCAB = 16, BATCH = 2, LENGTH = 8, STEPS = 40, MEMORIES = 3 };

typedef struct old {
  const char *name;        /* of tests/data/NAME.safetensors and NAME.session                    */
  int kind;                /* the row of the table when it was written                           */
  double logits;           /* sums of what it says: see say                                      */
  double session;          /* the same, going on from the saved session                          */
  double loss[2];          /* of the training steps that follow; 0: there is no NAME.training    */
} old;

static const old models[] = {
  /* 16ad7c9, version 0.3.0 */
  { "0.3-yaad", MIRAS_PRESET_YAAD, 11.0849547, 9.97048937, { 2.303828, 2.01220989 } },
  { "0.3-mamba2", MIRAS_PRESET_MAMBA2, 0.371975977, 6.89567755, { 0, 0 } },
  { "0.3-rwkv7", MIRAS_PRESET_RWKV7, 100.849995, 89.5969092, { 0, 0 } },
  { "0.3-qwen3_5", MIRAS_PRESET_QWEN3_5, 32.6709273, 27.8652531, { 0, 0 } },
};

/* Memories on their own: the sum of their outputs, going on and after a reset. */
static const struct { const char *name; double on, again; } memories[MEMORIES] = {
  { "0.3-matrix", 0.471303826, -0.0785818364 },
  { "0.3-perceptron", -0.958878199, -5.68177683 },
  { "0.3-custom", -1.2779865, -5.69017751 },
};

static const char *path_of(const char *name, const char *end) {
  static char path[100];
  snprintf(path, sizeof path, "tests/data/%s.%s", name, end);
  return path;
}

/* x[i] summed with signs that no mistake in the order or a row would keep; *size gets sum |x|. */
static double say(const float *x, size_t n, double *size) {
  double sum = 0;
  size_t i;
  for (i = 0; i < n; i++) {
    sum += (i * 7 % 5 < 2 ? 1 : -0.5) * (double)x[i];
    *size += fabs((double)x[i]);
  }
  return sum;
}

static void near_by(double got, double want, const double *size, const char *name) {
  if (!(fabs(got - want) <= 1e-5 * *size)) fail_msg("%s: %.9g is not %.9g", name, got, want);
}

static double run(miras_session *s, int from, int to, double *size) {
  double sum = 0;
  for (; from < to; from++) {
    const float *logits = miras_session_step(s, from * from * 5 % VOCAB);
    assert_non_null(logits);
    sum += say(logits, VOCAB, size);
  }
  return sum;
}

/* One step on a text of a simple rule; its loss. */
static double train(miras_trainer *t, int step) {
  int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  float loss;
  int i;
  for (i = 0; i < BATCH * LENGTH; i++) {
    tokens[i] = (int32_t)((step * 11 + i * i) % VOCAB);
    targets[i] = (tokens[i] * 3 + 1) % VOCAB;
  }
  o.beta1 = 0.9f;
  o.beta2 = 0.95f;
  o.epsilon = 1e-8f;
  o.clip = 1;
  loss = loss_of(t, tokens, targets, BATCH, LENGTH, 1);
  assert_int_equal(miras_trainer_backward(t, NULL), MIRAS_OK);
  (void)norm_of_step(t, &o, 0.02f);
  return (double)loss;
}

static miras_trainer *trainer(miras_model *m) {
  static const miras_trainer_desc room = {BATCH, LENGTH, 0, 0, 0, NULL, NULL};
  miras_trainer *t = miras_trainer_open(m, &room, NULL, NULL, 0);
  assert_non_null(t);
  return t;
}

/* A retention of the caller's, W = A. */
static void plain_link(void *user, float *w, const float *a, int in, int out) {
  (void)user;
  memcpy(w, a, (size_t)in * (size_t)out * sizeof *w);
}

static void plain_link_adjoint(void *user, float *da, const float *dw, const float *a,
                               const float *w, int in, int out) {
  int i;
  (void)user, (void)a, (void)w;
  for (i = 0; i < in * out; i++) da[i] += dw[i];
}

/* Every field that matters is set, because defaults may change. */
static miras_memory *memory(int which) {
  static const miras_custom custom = { NULL, NULL, plain_link, plain_link_adjoint, NULL };
  miras_memory *m;
  miras_memory_desc d;
  memset(&d, 0, sizeof d);
  d.batch = 2;
  d.heads = 2;
  d.key_dim = d.value_dim = 4;
  d.bias = MIRAS_BIAS_L2;
  d.retention = MIRAS_RETENTION_L2;
  d.decay_rate = 0.03125f;
  d.decay_ratio = 0.5f;
  d.seed = 3;
  if (which == 0) {
    d.order = MIRAS_ORDER_DECAY_FIRST;
    d.chunk = 1;
    d.learning_rate = 0.5f;
  } else {
    d.architecture = MIRAS_ARCH_MLP;
    d.depth = 2;
    d.expansion = 2;
    d.inner_norm = d.inner_residual = 1;
    d.bias = MIRAS_BIAS_HUBER_MIXTURE;
    d.threshold = 0.75f;
    d.sharpness = 10;
    d.learning_rate = 0.0625f;
    d.chunk = 3;
  }
  if (which == 2) d.retention = MIRAS_RETENTION_CUSTOM, d.custom = &custom;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  return m;
}

static double feed(miras_memory *m, int from, int to, double *size) {
  double sum = 0;
  for (; from < to; from++) {
    float x[3][16], y[16];
    int i;
    for (i = 0; i < 48; i++) x[i / 16][i % 16] = (float)((from * 17 + i * i * 5) % 13 - 6) / 12;
    assert_int_equal(forward_one(m, x[0], x[1], x[2], y), MIRAS_OK);
    sum += say(y, 16, size);
  }
  return sum;
}

static void old_models(void **state) {
  size_t i;
  (void)state;
  for (i = 0; i < sizeof models / sizeof *models; i++) {
    const old *o = &models[i];
    miras_result result;
    double size = 0;
    int k;
    miras_model *m =
      miras_model_open_file(path_of(o->name, "safetensors"), NULL, NULL, &result, NULL, 0);
    miras_session *s;
    miras_trainer *t;
    assert_int_equal(result, MIRAS_OK);
    s = miras_session_open(m, NULL, NULL, NULL, 0);
    assert_non_null(s);
    near_by(run(s, 0, 24, &size), o->logits, &size, o->name);
    assert_int_equal(miras_load(s, path_of(o->name, "session"), NULL, 0), MIRAS_OK);
    assert_int_equal(miras_session_position(s), 5);
    assert_non_null(miras_session_logits(s));
    size = 0;
    near_by(run(s, 5, 24, &size), o->session, &size, o->name);
    miras_close(s);
    miras_close(m);
    if (!(o->loss[0] > 0)) continue;

    m = miras_model_open_file(path_of(o->name, "training"), NULL, NULL, &result, NULL, 0);
    assert_int_equal(result, MIRAS_OK);
    t = trainer(m);
    assert_int_equal(miras_load(t, path_of(o->name, "training"), NULL, 0), MIRAS_OK);
    assert_int_equal(miras_trainer_steps(t), STEPS);
    for (k = 0; k < 2; k++) {
      double loss = train(t, STEPS + k);
      near_by(loss, o->loss[k], &loss, o->name);
    }
    miras_close(t);
    miras_close(m);
  }
}

static void old_memories(void **state) {
  int i;
  (void)state;
  for (i = 0; i < MEMORIES; i++) {
    miras_memory *m = memory(i);
    double size = 0;
    assert_int_equal(miras_load(m, path_of(memories[i].name, "memory"), NULL, 0), MIRAS_OK);
    assert_int_equal(miras_memory_position(m), 7);
    near_by(feed(m, 7, 20, &size), memories[i].on, &size, memories[i].name);
    miras_memory_reset(m);
    size = 0;
    near_by(feed(m, 0, 9, &size), memories[i].again, &size, memories[i].name);
    miras_close(m);
    if (i == 2) continue;               /* its functions are in no file                           */
    m = miras_memory_open_file(path_of(memories[i].name, "memory"), NULL, NULL, NULL, NULL, 0);
    assert_non_null(m);
    size = 0;
    near_by(feed(m, 7, 20, &size), memories[i].on, &size, memories[i].name);
    miras_close(m);
  }
}


static void write_models(void) {
  size_t i;
  for (i = 0; i < sizeof models / sizeof *models; i++) {
    const char *name = models[i].name;
    miras_model_desc d;
    miras_model *m;
    miras_trainer *t;
    miras_session *s;
    double logits, session, loss[2], size = 0;
    int k;
    miras_model_preset(&d, (miras_preset)models[i].kind, 2);
    d.heads = 2;
    d.vocab = VOCAB;
    d.width = 8;
    if (!d.pattern[0]) d.layers = 1;
    if (d.layer[0].memory.architecture == MIRAS_ARCH_MLP) {
      d.layer[0].memory.chunk = 4;
      d.layer[0].memory.expansion = 1;
      d.layer[0].memory.learning_rate = 0.25f;
      d.layer[0].mixer.gate_rank = 2;
    }
    d.dropout = 0.0625f;
    d.seed = 7;
    m = miras_model_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    t = trainer(m);
    for (k = 0; k < STEPS; k++) (void)train(t, k);
    assert_int_equal(miras_save(m, path_of(name, "safetensors")), MIRAS_OK);
    if (models[i].loss[0] > 0)
      assert_int_equal(miras_save(t, path_of(name, "training")), MIRAS_OK);
    s = miras_session_open(m, NULL, NULL, NULL, 0);
    assert_non_null(s);
    if (!i) assert_int_equal(miras_save(s, path_of(name, "fresh")), MIRAS_OK);
    logits = run(s, 0, 24, &size);
    miras_session_reset(s);
    (void)run(s, 0, 5, &size);
    assert_int_equal(miras_save(s, path_of(name, "session")), MIRAS_OK);
    session = run(s, 5, 24, &size);
    for (k = 0; k < 2; k++) loss[k] = train(t, STEPS + k);
    printf("  { \"%s\", %.9g, %.9g, { %.9g, %.9g } },\n", name, logits, session, loss[0],
           loss[1]);
    miras_close(s);
    miras_close(t);
    miras_close(m);
  }
}

static void write_memories(void) {
  int i;
  for (i = 0; i < MEMORIES; i++) {
    miras_memory *m = memory(i);
    double on, size = 0;
    size_t n, k;
    float *params = miras_memory_params(m, &n);
    for (k = 0; k < n; k++) params[k] += 0.125f * (float)((int)(k * k % 7) - 3);
    (void)feed(m, 0, 7, &size);
    assert_int_equal(miras_save(m, path_of(memories[i].name, "memory")), MIRAS_OK);
    on = feed(m, 7, 20, &size);
    miras_memory_reset(m);
    printf("  { \"%s\", %.9g, %.9g },\n", memories[i].name, on, feed(m, 0, 9, &size));
    miras_close(m);
  }
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(old_models),
    cmocka_unit_test(old_memories),
  };
  if (argc > 1 && strcmp(argv[1], "--write") == 0) {
    write_models();
    write_memories();
    return 0;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
