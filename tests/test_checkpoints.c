/* Other people's models (data/checkpoints): their logits are those of the originals; what a file or
 * a configuration has that cannot be computed, and what is damaged, is refused with a sentence. Run
 * from the folder that holds miras.h.
 * cc -std=c99 -O2 tests/test_checkpoints.c -lcmocka -lm */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long test_live;
static void *test_malloc(size_t n) {
  test_live++;
  return malloc(n);
}
static void test_free(void *p) {
  test_live--;
  free(p);
}
#define MIRAS_MALLOC(n) test_malloc(n)
#define MIRAS_FREE(p) test_free(p)
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "check.h"

#define FOLDER "tests/data/checkpoints/"
enum { VOCAB = 48, TOKENS = 28 };

/* Those whose layers are here, and the numbers that their files keep: f floats, b BF16, h F16. */
static const struct { const char *name; char kept; } known[] = {
  {"gated_deltanet", 'f'}, {"delta_net-gated", 'f'}
};

/* What the others lack, by a word of the sentence. */
static const struct { const char *name, *word; } lacking[] = {
  {"gated_deltanet-grouped", "num_v_heads"}, {"gated_deltanet-ungated", "use_gate"},
  {"gated_deltanet-sigmoid", "output_gate_activation"}, {"delta_net", "use_gate"},
  {"gla", "model_type"}, {"retnet", "model_type"}, {"hgrn2", "model_type"}, {"kda", "model_type"},
  {"kda-grouped", "model_type"}, {"rwkv7", "model_type"}, {"rwkv7-author", "config.json"},
  {"mamba2", "model_type"}, {"mamba2-grouped", "model_type"}, {"mamba2-fla", "model_type"},
  {"mamba2-author", "model_type"}, {"ttt-linear", "model_type"},
  {"ttt-linear-mamba", "model_type"}, {"ttt-mlp", "model_type"}, {"ttt-mlp-mamba", "model_type"},
  {"qwen3_next", "model_type"}, {"qwen3_next-experts", "model_type"}, {"qwen3_5", "model_type"}
};

static const char *path_of(const char *name, const char *file) {
  static char paths[8][160];
  static int turn;
  char *path = paths[turn++ % 8];
  snprintf(path, sizeof paths[0], FOLDER "%s%s%s", name, *file ? "/" : "", file);
  return path;
}

/* The tokens and logits of a folder; the deviation of the logits. */
static double wanted(const char *name, int32_t *tokens, float *logits) {
  FILE *file = fopen(path_of(name, "tokens.txt"), "r");
  double sum = 0, squares = 0;
  int i;
  assert_non_null(file);
  for (i = 0; i < TOKENS; i++) {
    int token = -1;
    assert_int_equal(fscanf(file, "%d", &token), 1);
    tokens[i] = token;
  }
  fclose(file);
  file = fopen(path_of(name, "logits.f32"), "rb");
  assert_non_null(file);
  assert_int_equal(fread(logits, sizeof(float), TOKENS * VOCAB, file), TOKENS * VOCAB);
  fclose(file);
  for (i = 0; i < TOKENS * VOCAB; i++) {
    sum += (double)logits[i];
    squares += (double)logits[i] * (double)logits[i];
  }
  sum /= TOKENS * VOCAB;
  return sqrt(squares / (TOKENS * VOCAB) - sum * sum);
}

static miras_model *load(const char *path, miras_weights weights) {
  char why[256] = "";
  miras_model_desc d;
  miras_model *m;
  memset(&d, 0, sizeof d);
  d.weights = weights;
  if (miras_checkpoint_desc(&d, path, NULL, why, sizeof why) != MIRAS_OK)
    fail_msg("%s: %s", path, why);
  assert_int_equal(d.weights, weights);
  m = miras_model_open(&d, NULL);
  assert_non_null(m);
  if (miras_checkpoint_load(m, path, why, sizeof why) != MIRAS_OK) fail_msg("%s: %s", path, why);
  return m;
}

/* All logits, token by token and in prefills of different lengths: the same bits. */
static void say(miras_model *m, const int32_t *tokens, float *logits) {
  miras_session *s = miras_session_open(m, NULL);
  int i, n;
  assert_non_null(s);
  for (i = 0; i < TOKENS; i++)
    memcpy(logits + i * VOCAB, miras_session_step(s, tokens[i]), VOCAB * sizeof(float));
  miras_session_reset(s);
  for (i = 0, n = 1; i < TOKENS; i += n, n = n * 2 < TOKENS - i ? n * 2 : TOKENS - i) {
    const float *last = miras_session_prefill(s, tokens + i, (size_t)n);
    assert_memory_equal(last, logits + (i + n - 1) * VOCAB, VOCAB * sizeof(float));
  }
  miras_session_close(s);
}

static double apart(const float *a, const float *b) {
  double most = 0;
  int i;
  for (i = 0; i < TOKENS * VOCAB; i++) {
    const double e = fabs((double)a[i] - (double)b[i]);
    if (!(e <= most)) most = e;
  }
  return most;
}

static void test_logits(void **state) {
  static float want[TOKENS * VOCAB], got[TOKENS * VOCAB];
  int32_t tokens[TOKENS];
  size_t i;
  (void)state;
  for (i = 0; i < sizeof known / sizeof known[0]; i++) {
    const double deviation = wanted(known[i].name, tokens, want);
    miras_model *m = load(path_of(known[i].name, ""), MIRAS_WEIGHTS_FLOAT);
    double error;
    say(m, tokens, got);
    error = apart(want, got) / deviation;
    if (!(error <= 5e-6)) fail_msg("%s: %g deviations apart", known[i].name, error);
    miras_model_close(m);
  }
  assert_int_equal(test_live, 0);
}

/* Matrices of fewer bits: those of the file, or rounded, which is all that differs. */
static void test_weights(void **state) {
  static float want[TOKENS * VOCAB], got[TOKENS * VOCAB], theirs[TOKENS * VOCAB];
  static const double most[MIRAS_WEIGHTS_COUNT] = {0, 0.3, 0.03, 0.5};
  int32_t tokens[TOKENS];
  size_t i, n;
  (void)state;
  for (i = 0; i < sizeof known / sizeof known[0]; i++) {
    const char *path = path_of(known[i].name, "");
    const double deviation = wanted(known[i].name, tokens, theirs);
    miras_model *m = load(path, MIRAS_WEIGHTS_FLOAT), *again;
    unsigned char *file;
    int form;
    say(m, tokens, want);
    /* through a file of ours */
    n = miras_model_save_to(m, NULL, 0);
    file = (unsigned char *)malloc(n);
    assert_int_equal(miras_model_save_to(m, file, n), n);
    for (form = 0; form < MIRAS_WEIGHTS_COUNT; form++) {
      /* the sixteen bits that the file has */
      const int exact = known[i].kept == "fbhq"[form];
      miras_model_desc d = *miras_model_desc_of(m);
      double error;
      d.weights = (miras_weights)form;
      again = miras_model_open(&d, NULL);
      assert_int_equal(miras_model_load_from(again, file, n), MIRAS_OK);
      say(again, tokens, got);
      miras_model_close(again);
      error = apart(want, got) / deviation;
      if (!(error <= (exact ? 0 : most[form]))) fail_msg("%s, weights %d: %g", path, form, error);
      again = load(path, (miras_weights)form);
      say(again, tokens, theirs);
      assert_memory_equal(theirs, got, sizeof got);
      miras_model_close(again);
    }
    free(file);
    miras_model_close(m);
  }
  assert_int_equal(test_live, 0);
}

static void test_lacking(void **state) {
  size_t i;
  (void)state;
  for (i = 0; i < sizeof lacking / sizeof lacking[0]; i++) {
    char why[256] = "";
    miras_model_desc d;
    memset(&d, 0, sizeof d);
    if (miras_checkpoint_desc(&d, path_of(lacking[i].name, ""), NULL, why, sizeof why) == MIRAS_OK)
      fail_msg("%s: it can be described, and belongs among the known", lacking[i].name);
    if (!strstr(why, lacking[i].word)) fail_msg("%s: %s", lacking[i].name, why);
    assert_int_equal(d.width, 0);
  }
  assert_int_equal(test_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_logits), cmocka_unit_test(test_weights), cmocka_unit_test(test_lacking)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
