/* The framework as a whole: every combination of the four choices either works or is refused with a
 * sentence; the table of bench/table.md, made from the same answers; and the theorems that tie
 * one memory to another.
 *
 *   cc -O2 tests/test_framework.c -o test_framework -lcmocka -lm && ./test_framework
 *   ./test_framework --table     prints the table in Markdown
 *
 * Bounds are those of memories.h.
 */
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "../examples/custom_check.h"
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

/* ---- one combination ---- */

typedef struct form { /* an architecture, and how deep */
  const char *name;
  int shape;
} form;

static const form forms[] = {{"matrix", SHAPE_MATRIX}, {"perceptron, 1 layer", 1},
                             {"perceptron, 2 layers", 2}, {"gated perceptron", SHAPE_GATED},
                             {"vector", SHAPE_VECTOR}, {"pairs", SHAPE_PAIRS}};

/* gates 0: constants; 1: a number per token and head wherever the memory has a gate; 2: the same,
 * and the decay gate per channel. */
static miras_memory_desc combination(int f, int bias, int retention, int algorithm, int gates,
                              int chunk) {
  miras_memory_desc d;
  plain_cells = 1;
  d = cell(forms[f].shape, (miras_bias)bias, (miras_retention)retention,
           (miras_algorithm)algorithm, chunk, (uint64_t)(f + 1));
  plain_cells = 0;
  d.batch = d.heads = 1;
  d.key_dim = 4;
  d.value_dim = forms[f].shape >= 2 && forms[f].shape <= SHAPE_VECTOR ? 4 : 3;
  d.inner_norm = d.inner_residual = d.smooth_shrink = 0;
  /* a vector is a single slice, and has to say so */
  d.simplex_whole = forms[f].shape == SHAPE_VECTOR && ref_is_simplex(&d);
  if (d.expansion) d.expansion = 2;
  if (d.groups[0]) snprintf(d.groups, sizeof d.groups, "1,%d", d.value_dim - 1);
  if (gates > 0) {
    d.decay_gate = d.learning_rate_gate = d.momentum_gate = d.threshold_gate = MIRAS_GATE_HEAD;
    d = tidy(d);
  }
  if (gates == 2) d.decay_gate = MIRAS_GATE_CHANNEL;
  return d;
}

/* Does the sentence hold this word? */
static int holds(const char *sentence, const char *word) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
  const size_t n = strlen(word);
  for (const char *at = sentence; (at = strstr(at, word)) != NULL; at++)
    if ((at == sentence || strchr(letters, at[-1]) == NULL) &&
        (at[n] == '\0' || strchr(letters, at[n]) == NULL))
      return 1;
  return 0;
}

/* Fields of miras_memory_desc that a sentence names, each once. */
static int named(const char *sentence) {
  const size_t skip = strlen("memory.");
  int n = holds(sentence, "batch") + holds(sentence, "custom");
  const char *name;
  for (int i = 0; (name = miras_model_desc_field(i)) != NULL; i++)
    n += strncmp(name, "memory.", skip) == 0 && holds(sentence, name + skip);
  return n;
}

/* Where the decay leads, bounded steps, lengths of keys, resets and signs: now and then, mostly
 * where they mean something. gates: as combination has them, for what thereby has a decay gate. */
static void vary(miras_memory_desc *d, int gates) {
  const int anywhere = below(12) == 0;
  if (below(2) == 0 && (anywhere || may_return(d))) {
    d->decay_target = MIRAS_DECAY_TARGET_INITIAL;
    if (ref_is_divergence(d)) {
      d->decay_rate = 0.1f;
      d->decay_gate = (miras_gate)gates;
    }
    if (d->retention == MIRAS_RETENTION_ELASTIC_FTRL) d->sparsity *= 0.1f;
  }
  if (below(3) == 0 && (anywhere || may_bound(d))) d->step_bound = 1 + below(2);
  if (below(4) == 0 && (anywhere || d->architecture != MIRAS_ARCH_KV_CACHE))
    d->qk_norm = (miras_qk_norm)(1 + below(2));
  if (d->qk_norm == MIRAS_QK_NORM_RMS && d->architecture != MIRAS_ARCH_KV_CACHE)
    d->learning_rate *= 0.25f;
  if (below(2) == 0 && (anywhere || d->retention == MIRAS_RETENTION_KL))
    d->simplex_signed = 1;
  if (below(16) == 0) d->reset_every = 16 + anywhere;
}

static int works, refusals, vague;
static double worst_forward, worst_gradient;

/* Tokens a..b-1 of x through m, into the same place of y. */
static void run_part(miras_memory *m, const data *x, int a, int b, float *y) {
  data part = data_cut(x, a, b);
  float *py = (float *)zeros(part.dy.count, sizeof(float));
  const miras_memory_input t = data_tokens(&part);
  if (miras_memory_forward(m, &t, py, NULL) != MIRAS_OK) failed("forward: %s", label(&x->given));
  paste_rows(y, py, x->d.batch, x->T, (size_t)x->d.heads * x->out, a, b);
  free(py);
  data_free(&part);
}

/* A few coordinates of miras_memory_backward, each of a tensor of its own drawing. */
static void check_coordinates(const data *given, miras_memory *m) {
  data x = *given; /* the reference perturbs its numbers in place and puts them back */
  float *tape = (float *)zeros(miras_memory_tape_size(m, x.T), sizeof(float));
  float *y = (float *)zeros(x.dy.count, sizeof(float)), *dx[INPUTS];
  float *dparams = (float *)zeros(x.params.count, sizeof(float));
  const miras_memory_input tokens = data_tokens(&x);
  miras_memory_input_grad grads;
  ref_memory r;
  functional f;
  for (int i = 0; i < INPUTS; i++) dx[i] = (float *)zeros(x.in[i].count, sizeof(float));
  grads = data_grads(&x, dx);
  miras_memory_reset(m);
  if (miras_memory_forward(m, &tokens, y, tape) != MIRAS_OK) failed("taping: %s", label(&x.given));
  if (miras_memory_backward(m, &tokens, tape, x.dy.f, &grads, dparams, NULL) != MIRAS_OK)
    failed("backward: %s", label(&x.given));
  ref_open(&r, &x.d, x.params.d);
  f.x = &x;
  f.m = &r;
  f.state = NULL;
  f.pull = NULL;
  f.y = (double *)ref_zeros(x.dy.count);
  for (int n = 0; n < 4; n++) {
    const int kind = n == 0 ? INPUTS : below(INPUTS + 1);
    const float *grad = kind < INPUTS ? dx[kind] : dparams;
    const size_t count = kind < INPUTS ? x.in[kind].count : x.params.count;
    double *values = kind < INPUTS ? x.in[kind].d : r.params;
    double top = 0.0, derivative;
    size_t at;
    if (count == 0) continue;
    at = (size_t)(draw() % count);
    if (!difference(&f, values + at, -1, -1, &derivative)) continue;
    for (size_t i = 0; i < count; i++)
      if (fabs((double)grad[i]) > top || isnan(grad[i])) top = fabs((double)grad[i]);
    if (fabs(derivative) > top) top = fabs(derivative);
    if (fabs((double)grad[at] - derivative) <= GRADIENT * top + NOISE) {
      if (top > 1e-6 && fabs((double)grad[at] - derivative) / top > worst_gradient)
        worst_gradient = fabs((double)grad[at] - derivative) / top;
    } else if (fabs((double)grad[at] - derivative) <=
               8.0 * unavoidable_difference(&f, values + at, -1, -1)) {
      excused++;
    } else {
      failed("gradient of %s off by %.2e (entry %zu: %g, not %g): %s",
             kind < INPUTS ? input_names[kind] : "the parameters",
             fabs((double)grad[at] - derivative) / top, at, (double)grad[at], derivative,
             label(&x.given));
    }
  }
  for (int i = 0; i < INPUTS; i++) free(dx[i]);
  free(f.y);
  free(tape);
  free(y);
  free(dparams);
  ref_close(&r);
}

static void check_combination(const miras_memory_desc *d, uint64_t seed) {
  char why[240] = "";
  const int T = lasting(d, d->chunk == 16 ? 18 : 9), cut = 1 + below(T - 1);
  data x;
  miras_memory *m;
  ref_memory r;
  ref_tokens reference;
  float *whole, *y;
  double *expected, top[MOST_HEADS], each[MOST_HEADS], error;
  if (!my_share()) return;
  if (miras_memory_size(d, why, sizeof why) == 0) {
    refusals++;
    vague += named(why) < 2;
    if (named(why) < 1) failed("refused with \"%s\": %s", why, label(d));
    m = miras_memory_open(d, NULL, NULL, 0);
    if (m != NULL) failed("refused, yet opened: %s", label(d));
    miras_close(m);
    return;
  }
  works++;
  if (!data_settled(&x, d, T, seed, 1e-4)) return;
  m = open_memory(&x);
  if (m == NULL) {
    failed("not opened: %s", label(d));
    data_free(&x);
    return;
  }
  whole = (float *)zeros(x.dy.count, sizeof(float));
  y = (float *)zeros(x.dy.count, sizeof(float));
  expected = (double *)ref_zeros(x.dy.count);
  run_part(m, &x, 0, T, whole);
  for (size_t i = 0; i < x.dy.count; i++)
    if (!isfinite(whole[i])) {
      failed("y is not finite: %s", label(d));
      break;
    }
  ref_open(&r, &x.d, x.params.d);
  reference = data_reference(&x);
  ref_forward(&r, &reference, expected, NULL);
  ref_close(&r);
  head_tops(&x, expected, x.dy.count, top);
  head_errors(&x, whole, expected, x.dy.count, top, each);
  error = after_excuses(&x, 0, T, 8.0, each);
  if (error > worst_forward) worst_forward = error;
  if (!(error <= FORWARD)) failed("y off by %.2e: %s", error, label(d));
  miras_memory_reset(m);
  run_part(m, &x, 0, cut, y);
  run_part(m, &x, cut, T, y);
  if (!same_bits(y, whole, x.dy.count)) failed("a cut at %d changes y: %s", cut, label(d));
  miras_memory_reset(m);
  for (int t = 0; t < T; t++) run_part(m, &x, t, t + 1, y);
  if (!same_bits(y, whole, x.dy.count)) failed("token by token y differs: %s", label(d));
  check_coordinates(&x, m);
  free(whole);
  free(y);
  free(expected);
  miras_close(m);
  data_free(&x);
}

static const int lengths[] = {1, 4, 16};

static void test_combinations(void **state) {
  uint64_t seed = 0;
  (void)state;
  start();
  random_state = 21;
  for (EACH_POOL(p))
    for (int f = 0; f < COUNT(forms); f++)
      for (int b = 0; b < p->biases; b++)
        for (int r = 0; r < p->retentions; r++)
          for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
            for (int gates = 0; gates < 3; gates++)
              for (int c = 0; c < COUNT(lengths); c++) {
                miras_memory_desc d = combination(f, (int)p->bias[b], (int)p->retention[r],
                                                  algorithm, gates, lengths[c]);
                vary(&d, gates);
                check_combination(&d, ++seed);
              }
  printf("  combinations: %d work, %d are refused (%d in a sentence that names one field); largest "
         "error %.2e, of a gradient %.2e; %d excused, %d without settled data\n",
         works, refusals, vague, worst_forward, worst_gradient, excused, unsettled);
  if (excused > 2 && excused * 50 > works) failed("too many are excused");
  finish();
}

/* What the framework promises: these must not be refused. */
#define PROMISED(what)                                                                  \
  do {                                                                                  \
    char why_[240] = "";                                                                \
    if (miras_memory_size(&d, why_, sizeof why_) == 0)                                  \
      failed("line %d, %s: refused (%s): %s", __LINE__, what, why_, label(&d));         \
  } while (0)

/* Whatever is descended step by step, of the c-th length. */
static void promises_of_form(int f, int c) {
  const int chunk = lengths[c];
  miras_memory_desc d;
  for (int bias = 0; bias < MIRAS_BIAS_COUNT; bias++)
    for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++) {
      d = combination(f, bias, retention, MIRAS_ALGORITHM_GD, c % 2, chunk);
      PROMISED("gradient descent");
      d.qk_norm = MIRAS_QK_NORM_L2;
      PROMISED("keys of length 1");
      d.reset_every = 32;
      PROMISED("resets");
      d.step_bound = may_bound(&d);
      PROMISED("a bounded step");
      if (may_return(&d)) d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
      PROMISED("a return to the initial memory");
      if (d.decay_target && ref_decays(&d) && d.retention != MIRAS_RETENTION_ELASTIC &&
          !d.simplex_whole) {
        d.decay_gate = d.learning_rate_gate = MIRAS_GATE_CHANNEL;
        PROMISED("a return by channels");
      }
    }
  for (int logits = 0; logits < 2; logits++) {
    d = combination(f, MIRAS_BIAS_L2, MIRAS_RETENTION_KL, MIRAS_ALGORITHM_GD, 2, chunk);
    if (forms[f].shape == SHAPE_VECTOR) d.decay_gate = MIRAS_GATE_HEAD;
    d.learning_rate_gate = MIRAS_GATE_CHANNEL;
    d.simplex_logits = logits || chunk > 1;
    PROMISED("Memora by channels");
    d.simplex_signed = 1;
    PROMISED("weights of both signs");
  }
  for (int retention = 0; retention <= MIRAS_RETENTION_L2; retention++) {
    d = combination(f, MIRAS_BIAS_L2, retention, MIRAS_ALGORITHM_MOMENTUM, 1, chunk);
    PROMISED("momentum");
  }
  d = combination(f, MIRAS_BIAS_HUBER_MIXTURE, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 2, chunk);
  PROMISED("a decay gate per channel");
  d.learning_rate_gate = MIRAS_GATE_CHANNEL;
  d.threshold_gate = MIRAS_GATE_CHANNEL;
  PROMISED("every gate per channel");
  d = combination(f, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 1, chunk);
  d.inner_steps = 2;
  PROMISED("two inner_steps");
  if (forms[f].shape == 1 || forms[f].shape == 2) {
    d = combination(f, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, MIRAS_ALGORITHM_GD, 1, chunk);
    d.inner_norm = d.inner_bias = d.token_rates = d.inner_residual = 1;
    d.value_dim = d.key_dim;
    PROMISED("test-time training as in its paper");
    d.token_rates = MIRAS_TOKEN_RATES_SOFTPLUS;
    PROMISED("rates that do not die");
    d.retention = MIRAS_RETENTION_L2;
    d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    d.decay_gate = MIRAS_GATE_HEAD;
    PROMISED("test-time training with a decay gate");
    d.token_rates = MIRAS_TOKEN_RATES_NONE;
    d.decay_gate = MIRAS_GATE_CONSTANT;
    d.retention = MIRAS_RETENTION_L2_BOTH;
    PROMISED("biases that return");
  }
}

static void promises_of_matrices(int chunk) {
  miras_memory_desc d;
  for (int bias = 0; bias <= MIRAS_BIAS_L2; bias++)
    for (int retention = 0; retention <= MIRAS_RETENTION_L2; retention++) {
      d = combination(0, bias, retention, MIRAS_ALGORITHM_GD, retention ? 2 : 1, chunk);
      PROMISED("an exact matrix");
      for (int feature = 0; feature < FEATURE_MAPS; feature++) {
        d.feature_map = ref_feature_map(feature);
        PROMISED("a feature map");
      }
      d.feature_map = MIRAS_FN_NONE;
      d.inner_steps = 3;
      PROMISED("several inner_steps");
      d.learning_rate_gate = MIRAS_GATE_CHANNEL;
      PROMISED("steps by channels");
      d.reset_every = 48 * chunk;
      d.qk_norm = MIRAS_QK_NORM_RMS;
      PROMISED("resets and keys of a length");
      if (retention == MIRAS_RETENTION_L2) {
        d.order = MIRAS_ORDER_DECAY_FIRST;
        PROMISED("decay first");
        d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
        PROMISED("a return");
      }
      d.step_bound = bias == MIRAS_BIAS_L2;
      PROMISED("a bounded step");
    }
  d = combination(0, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 2, chunk);
  d.separate_erase = 1;
  PROMISED("RWKV-7");
  d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
  d.learning_rate_gate = MIRAS_GATE_CHANNEL;
  PROMISED("RWKV-7 that returns, with steps by channels");
  d = combination(0, MIRAS_BIAS_DOT, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 2, chunk);
  d.value_decay_gate = MIRAS_GATE_CHANNEL;
  PROMISED("DFW");
  d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
  PROMISED("DFW that returns");
  d = combination(0, MIRAS_BIAS_DOT, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 1, chunk);
  d.normalize = 1;
  for (int feature = 1; feature < FEATURE_MAPS - 1; feature++) {
    d.feature_map = ref_feature_map(feature);
    d.decay_target = feature % 2 ? MIRAS_DECAY_TARGET_INITIAL : MIRAS_DECAY_TARGET_ZERO;
    PROMISED("a normalised memory");
  }
  for (int diagonal = 0; diagonal < 2; diagonal++) {
    d = combination(0, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, MIRAS_ALGORITHM_IMPLICIT, 1, chunk);
    d.diagonal = diagonal;
    PROMISED("Longhorn");
    d.learning_rate_gate = diagonal ? MIRAS_GATE_HEAD : MIRAS_GATE_CHANNEL;
    d.qk_norm = MIRAS_QK_NORM_RMS;
    PROMISED("Longhorn, its step by channels");
  }
  for (int retention = 0; retention <= MIRAS_RETENTION_L2; retention++) {
    d = combination(0, MIRAS_BIAS_L2, retention, MIRAS_ALGORITHM_LEAST_SQUARES, 1, chunk);
    PROMISED("the Mesa layer");
    d.qk_norm = MIRAS_QK_NORM_L2;
    d.reset_every = 64;
    PROMISED("the Mesa layer, of unit keys, with resets");
    d = combination(0, MIRAS_BIAS_L2, retention, MIRAS_ALGORITHM_RECURSIVE, 1, chunk);
    PROMISED("recursive least squares");
    d.qk_norm = MIRAS_QK_NORM_RMS;
    d.feature_map = MIRAS_FN_POLY2;
    d.reset_every = 64;
    PROMISED("recursive least squares of features, with resets");
  }
}

static void test_promises(void **state) {
  miras_memory_desc d;
  (void)state;
  start();
  for (int c = 0; c < COUNT(lengths); c++) {
    for (int f = 1; f < COUNT(forms) - 1; f++) promises_of_form(f, c);
    promises_of_matrices(lengths[c]);
    for (int bias = MIRAS_BIAS_LP; bias < MIRAS_BIAS_COUNT; bias++)
      for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++) {
        d = combination(0, bias, retention, MIRAS_ALGORITHM_GD, c % 2, lengths[c]);
        PROMISED("a matrix that is descended");
      }
    d = combination(COUNT(forms) - 1, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, MIRAS_ALGORITHM_GD, 0,
                    lengths[c]);
    PROMISED("attention");
    d.reset_every = 64;
    PROMISED("attention that starts anew");
  }
  finish();
}
#undef PROMISED

/* What means nothing is refused, in a sentence that names the field. */
static void test_meaningless(void **state) {
  miras_memory_desc d;
  (void)state;
  start();
#define MEANINGLESS(field)                                                             \
  do {                                                                                 \
    char why_[240] = "";                                                               \
    if (miras_memory_size(&d, why_, sizeof why_) != 0)                                 \
      failed("line %d: accepted: %s", __LINE__, label(&d));                            \
    else if (strstr(why_, field) == NULL)                                              \
      failed("line %d: \"%s\" does not name " field ": %s", __LINE__, why_, label(&d)); \
  } while (0)
  for (int c = 0; c < COUNT(lengths); c++) {
    for (int f = 0; f < COUNT(forms); f++) {
      d = combination(f, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, MIRAS_ALGORITHM_GD, 0, lengths[c]);
      d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
      MEANINGLESS("decay_target");
      d.decay_target = MIRAS_DECAY_TARGET_ZERO;
      d.simplex_signed = 1;
      MEANINGLESS("simplex_signed");
      d.simplex_signed = 0;
      d.reset_every = 24;
      MEANINGLESS("reset_every");
      d.reset_every = 0;
      d.step_bound = MIRAS_STEP_BOUND_PAIR;
      if (forms[f].shape == SHAPE_PAIRS) {
        MEANINGLESS("step_bound");
        d.step_bound = MIRAS_STEP_BOUND_AUTO;
        d.qk_norm = MIRAS_QK_NORM_L2;
        MEANINGLESS("qk_norm");
        continue;
      }
      d.bias = MIRAS_BIAS_DOT;
      MEANINGLESS("step_bound");
      d.bias = MIRAS_BIAS_CUSTOM;
      d = tidy(d);
      d.step_bound = MIRAS_STEP_BOUND_PAIR;
      MEANINGLESS("step_bound");
      d.bias = MIRAS_BIAS_L2;
      d.retention = MIRAS_RETENTION_LQ_PNORM;
      d = tidy(d);
      d.step_bound = MIRAS_STEP_BOUND_PAIR;
      MEANINGLESS("step_bound");
      d.retention = MIRAS_RETENTION_CUSTOM;
      d = tidy(d);
      d.step_bound = MIRAS_STEP_BOUND_PAIR;
      MEANINGLESS("step_bound");
      if (forms[f].shape == 1 || forms[f].shape == 2) {
        d = combination(f, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 0, lengths[c]);
        d.inner_bias = 1;
        MEANINGLESS("inner_bias");
        d.inner_bias = 0;
        d.token_rates = MIRAS_TOKEN_RATES_SOFTPLUS;
        MEANINGLESS("token_rates");
      }
      d = combination(f, MIRAS_BIAS_LP, MIRAS_RETENTION_KL, MIRAS_ALGORITHM_GD, 0, lengths[c]);
      d.simplex_logits = 0;
      if (lengths[c] > 1) MEANINGLESS("simplex_logits");
    }
    d = combination(0, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_IMPLICIT, 1, lengths[c]);
    d.step_bound = MIRAS_STEP_BOUND_PAIR;
    MEANINGLESS("step_bound");
    d.step_bound = MIRAS_STEP_BOUND_AUTO;
    d.diagonal = 1;
    d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    MEANINGLESS("decay_target");
    d.decay_target = MIRAS_DECAY_TARGET_ZERO;
    d.learning_rate_gate = MIRAS_GATE_CHANNEL;
    MEANINGLESS("learning_rate_gate");
    d = combination(0, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 1, lengths[c]);
    d.separate_erase = d.step_bound = MIRAS_STEP_BOUND_PAIR;
    MEANINGLESS("step_bound");
    d = combination(0, MIRAS_BIAS_DOT, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 1, lengths[c]);
    d.feature_map = MIRAS_FN_RELU;
    d.normalize = 1;
    d.learning_rate_gate = MIRAS_GATE_CHANNEL;
    MEANINGLESS("learning_rate_gate");
    d = combination(0, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_LEAST_SQUARES, 1,
                    lengths[c]);
    d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    MEANINGLESS("decay_target");
    d.decay_target = MIRAS_DECAY_TARGET_ZERO;
    d.step_bound = MIRAS_STEP_BOUND_PAIR;
    MEANINGLESS("step_bound");
    d = combination(0, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_RECURSIVE, 1,
                    lengths[c]);
    d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    MEANINGLESS("decay_target");
    d.decay_target = MIRAS_DECAY_TARGET_ZERO;
    d.tolerance = 1e-6f;
    MEANINGLESS("tolerance");
  }
  finish();
}

/* ---- theorems ---- */

/* y of a memory of d that reads x's tokens; NULL when it is refused. count: parameters of x. */
static float *answers(const miras_memory_desc *d, const miras_memory_input *tokens,
                      const float *params, size_t count, size_t outputs) {
  char why[240] = "";
  float *y = (float *)zeros(outputs, sizeof(float)), *to;
  size_t n = 0;
  miras_memory *m = miras_memory_open(d, NULL, NULL, 0);
  if (m == NULL) {
    miras_memory_size(d, why, sizeof why);
    failed("refused (%s): %s", why, label(d));
    free(y);
    return NULL;
  }
  to = miras_memory_params(m, &n);
  if (n != count) {
    failed("%zu parameters, not %zu: %s", n, count, label(d));
    miras_close(m);
    free(y);
    return NULL;
  }
  if (count > 0) memcpy(to, params, count * sizeof(float));
  miras_memory_reset(m);
  if (miras_memory_forward(m, tokens, y, NULL) != MIRAS_OK) failed("forward: %s", label(d));
  miras_close(m);
  return y;
}

/* Compare and free. */
static void equal(int line, const char *what, float *a, float *b, size_t count, double bound) {
  if (a != NULL && b != NULL) {
    double *wide = (double *)ref_zeros(count), error;
    for (size_t i = 0; i < count; i++) wide[i] = (double)a[i];
    error = error_of(b, wide, count);
    if (!(error <= bound)) failed("line %d, %s: differ by %.2e", line, what, error);
    free(wide);
  }
  free(a);
  free(b);
}

#define CLOSE 1e-5

/* The same tokens and parameters through two descriptors. */
static void same(int line, const char *what, const miras_memory_desc *a, const miras_memory_desc *b,
                 int T, double bound) {
  data x;
  miras_memory_input t;
  uint64_t seed = 0;
  for (const char *at = what; *at != '\0'; at++) seed = seed * 31u + (uint64_t)*at;
  data_new(&x, a, T, seed); /* of its own, wherever it stands */
  t = data_tokens(&x);
  equal(line, what, answers(a, &t, x.params.f, x.params.count, x.dy.count),
        answers(b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, bound);
  data_free(&x);
}
#define SAME(what, a, b) same(__LINE__, what, &(a), &(b), 21, CLOSE)

static miras_memory_desc matrix(miras_bias bias, miras_retention retention, miras_gate keep,
                         miras_order order, int chunk) {
  miras_memory_desc d;
  memset(&d, 0, sizeof d);
  custom_install();
  d.bias = bias;
  d.retention = retention;
  d.decay_gate = keep;
  d.order = order;
  d.chunk = chunk;
  d.key_dim = 4;
  d.value_dim = 5;
  d.batch = d.heads = 2;
  d.learning_rate = 0.6f;
  d.learning_rate_gate = MIRAS_GATE_HEAD;
  return d;
}

static miras_memory_desc layers(int depth, miras_bias bias, miras_retention retention, int chunk) {
  miras_memory_desc d =
    matrix(bias, retention, MIRAS_GATE_CONSTANT, MIRAS_ORDER_ERROR_FIRST, chunk);
  d.architecture = MIRAS_ARCH_MLP;
  d.depth = depth;
  d.expansion = depth > 1 ? 2 : 0;
  d.value_dim = d.key_dim;
  d.learning_rate = 0.3f;
  return d;
}

/* Each number of from, `times` over: a gate per head as a gate per channel. */
static float *repeated(const tensor *from, size_t times) {
  float *to = (float *)zeros(from->count * times, sizeof(float));
  for (size_t i = 0; i < from->count * times; i++) to[i] = from->f[i / times];
  return to;
}

/* KDA with equal channels is Gated DeltaNet; that without forgetting, DeltaNet. */
static void test_delta_rules(void **state) {
  (void)state;
  start();
  for (int c = 0; c < COUNT(lengths); c++) {
    const int C = lengths[c], T = 37;
    miras_memory_desc gdn =
      matrix(MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_GATE_HEAD, MIRAS_ORDER_DECAY_FIRST, C);
    miras_memory_desc kda =
      matrix(MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_GATE_CHANNEL, MIRAS_ORDER_DECAY_FIRST, C);
    miras_memory_desc delta =
      matrix(MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, MIRAS_GATE_CONSTANT, MIRAS_ORDER_ERROR_FIRST, C);
    data x;
    miras_memory_input t, u;
    float *wide;
    data_new(&x, &gdn, T, 31);
    t = u = data_tokens(&x);
    wide = repeated(&x.in[KEEP], 4);
    u.keep = wide;
    equal(__LINE__, "KDA of equal channels and Gated DeltaNet",
          answers(&gdn, &t, x.params.f, x.params.count, x.dy.count),
          answers(&kda, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
    free(wide);
    for (size_t i = 0; i < x.in[KEEP].count; i++) x.in[KEEP].f[i] = 1.0f;
    u = t;
    u.keep = NULL;
    equal(__LINE__, "Gated DeltaNet that keeps all and DeltaNet",
          answers(&gdn, &t, x.params.f, x.params.count, x.dy.count),
          answers(&delta, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
    data_free(&x);
  }
  finish();
}

/* A linear Yaad (one layer, or a matrix that is descended) whose threshold is never reached, with
 * chunk 1, is DeltaNet; and so are its smooth relatives. */
static void test_linear_yaad(void **state) {
  static const miras_bias biases[] = {MIRAS_BIAS_HUBER, MIRAS_BIAS_HUBER_NORM,
                                      MIRAS_BIAS_HUBER_MIXTURE, MIRAS_BIAS_PSEUDO_HUBER,
                                      MIRAS_BIAS_LOG_COSH};
  (void)state;
  start();
  for (int i = 0; i < COUNT(biases); i++)
    for (int chunk = 1; chunk <= 4; chunk += 3) {
      miras_memory_desc a = layers(1, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, chunk), b = a, c;
      b.bias = biases[i];
      b.threshold = 1e5f;
      SAME("L2 and a threshold that is never reached", a, b);
      c = b;
      c.architecture = MIRAS_ARCH_MATRIX;
      c.depth = 0;
      SAME("a layer and a matrix", b, c);
      a.architecture = MIRAS_ARCH_MATRIX;
      a.depth = 0;
      if (chunk == 1) SAME("DeltaNet and a linear Yaad", a, b);
      b.architecture = MIRAS_ARCH_VECTOR;
      b.depth = 0;
      c = b;
      c.bias = MIRAS_BIAS_L2;
      c.threshold = 0.0f;
      SAME("vectors", c, b);
    }
  finish();
}

/* The implicit step is a delta rule of step eta / (1 + eta k.k); keys of any length. */
static void test_longhorn(void **state) {
  (void)state;
  start();
  for (int c = 0; c < COUNT(lengths); c++)
    for (int keep = 0; keep < 2; keep++) {
      miras_memory_desc a = matrix(MIRAS_BIAS_L2, keep ? MIRAS_RETENTION_L2 : MIRAS_RETENTION_ALL,
                            keep ? MIRAS_GATE_HEAD : MIRAS_GATE_CONSTANT, MIRAS_ORDER_ERROR_FIRST,
                            lengths[c]);
      miras_memory_desc b = a;
      data x;
      miras_memory_input t, u;
      float *step;
      const size_t n = 4;
      b.algorithm = MIRAS_ALGORITHM_IMPLICIT;
      a.learning_rate = b.learning_rate = 2.0f;
      data_new(&x, &a, 37, 32);
      step = (float *)zeros(x.in[STEP].count, sizeof(float));
      for (size_t r = 0; r < x.in[STEP].count; r++) {
        double kk = 0.0;
        const float length = uniform(0.2f, 2.0f);
        for (size_t i = r * n; i < (r + 1) * n; i++) {
          x.in[KEY].f[i] *= length;
          kk += (double)x.in[KEY].f[i] * (double)x.in[KEY].f[i];
        }
        step[r] = (float)(x.in[STEP].d[r] / (1.0 + x.in[STEP].d[r] * kk));
      }
      t = u = data_tokens(&x);
      u.learning_rate = step;
      equal(__LINE__, "Longhorn and DeltaNet",
            answers(&a, &u, x.params.f, x.params.count, x.dy.count),
            answers(&b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      free(step);
      data_free(&x);
    }
  finish();
}

/* The normalized step is a delta rule of step eta / (step_epsilon + k.k), and eta times the
 * implicit step of 1 / step_epsilon; with eta 1 and an epsilon next to nothing the pair just
 * written is known, however long its key. */
static void test_normalized(void **state) {
  (void)state;
  start();
  for (int c = 0; c < COUNT(lengths); c++)
    for (int keep = 0; keep < 2; keep++) {
      miras_memory_desc a = matrix(MIRAS_BIAS_L2, keep ? MIRAS_RETENTION_L2 : MIRAS_RETENTION_ALL,
                            keep ? MIRAS_GATE_HEAD : MIRAS_GATE_CONSTANT, MIRAS_ORDER_ERROR_FIRST,
                            lengths[c]);
      miras_memory_desc b = a;
      data x;
      miras_memory_input t, u;
      float *step;
      double known = 0.0;
      const size_t n = 4;
      b.algorithm = MIRAS_ALGORITHM_NORMALIZED;
      b.step_epsilon = 0.25f;
      a.learning_rate = b.learning_rate = 1.5f;
      data_new(&x, &a, 37, 33);
      step = (float *)zeros(x.in[STEP].count, sizeof(float));
      for (size_t r = 0; r < x.in[STEP].count; r++) {
        double kk = 0.0;
        const float length = uniform(0.01f, 30.0f);
        for (size_t i = r * n; i < (r + 1) * n; i++) {
          x.in[KEY].f[i] *= length;
          kk += (double)x.in[KEY].f[i] * (double)x.in[KEY].f[i];
        }
        step[r] = (float)(x.in[STEP].d[r] * (1.0 / 0.25) / (1.0 + kk / 0.25));
      }
      t = u = data_tokens(&x);
      u.learning_rate = step;
      equal(__LINE__, "normalized steps and DeltaNet",
            answers(&a, &u, x.params.f, x.params.count, x.dy.count),
            answers(&b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      if (!keep) { /* asked for what was written: it is there */
        float *y;
        b.learning_rate_gate = MIRAS_GATE_CONSTANT;
        b.learning_rate = 1.0f;
        b.step_epsilon = 1e-12f;
        t.learning_rate = NULL;
        t.query = t.key;
        y = answers(&b, &t, x.params.f, x.params.count, x.dy.count);
        for (size_t i = 0; i < x.dy.count; i++)
          known = fmax(known, fabs((double)y[i] - (double)x.in[VALUE].f[i]));
        if (!(known < 1e-3)) failed("what was just written is %.1e off", known);
        free(y);
      }
      free(step);
      data_free(&x);
    }
  finish();
}

/* n inner_steps of one token are n tokens that keep everything in between and are not asked until
 * the last. One descent is none in particular. */
static void test_delta_product(void **state) {
  const int T = 11, n = 3;
  (void)state;
  start();
  for (int kind = 0; kind < 7; kind++)
    for (int c = 0; c < COUNT(lengths); c++) {
      miras_memory_desc a, b;
      data x;
      miras_memory_input t, u;
      tensor query, keep;
      float *threshold = NULL, *y[2];
      size_t rows, dk, out;
      const int exact = kind < 3;
      if (!exact && c > 0) continue; /* part of the model */
      a = matrix(kind == 2 ? MIRAS_BIAS_DOT : MIRAS_BIAS_L2, MIRAS_RETENTION_L2,
                 kind == 1 ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD,
                 kind == 0 ? MIRAS_ORDER_ERROR_FIRST : MIRAS_ORDER_DECAY_FIRST, lengths[c]);
      if (!exact) {
        a = layers(kind == 3 ? 1 : 2, kind == 4 ? MIRAS_BIAS_LP : MIRAS_BIAS_HUBER_NORM,
                   kind == 5   ? MIRAS_RETENTION_ELASTIC
                   : kind == 6 ? MIRAS_RETENTION_SIGMOID
                               : MIRAS_RETENTION_L2,
                   1);
        a.decay_gate = MIRAS_GATE_HEAD;
        if (kind == 4) {
          a.p = 3.0f;
          a.learning_rate = 0.05f;
        } else {
          a.threshold_gate = MIRAS_GATE_HEAD;
        }
        if (kind == 5) a.sparsity = 0.05f;
      }
      a.heads = a.batch = 1; /* so that rows of tokens stay rows of tokens */
      b = a;
      a.inner_steps = 1;
      SAME("one descent", a, b);
      a.inner_steps = n;
      data_new(&x, &a, T, 33);
      rows = (size_t)T;
      dk = (size_t)a.key_dim;
      out = x.out;
      t = u = data_tokens(&x);
      query = tensor_new(rows * (size_t)n * dk, -1.0f, 1.0f);
      keep = tensor_new(rows * (size_t)n * x.per[KEEP], 1.0f, 1.0f);
      for (size_t r = 0; r < rows; r++) {
        memcpy(query.f + (r * (size_t)n + (size_t)n - 1) * dk, x.in[QUERY].f + r * dk,
               dk * sizeof(float));
        memcpy(keep.f + r * (size_t)n * x.per[KEEP], x.in[KEEP].f + r * x.per[KEEP],
               x.per[KEEP] * sizeof(float));
      }
      if (x.per[THRESHOLD]) threshold = repeated(&x.in[THRESHOLD], (size_t)n);
      u.length = T * n;
      u.query = query.f;
      u.keep = keep.f;
      u.threshold = threshold;
      y[0] = answers(&a, &t, x.params.f, x.params.count, rows * out);
      y[1] = answers(&b, &u, x.params.f, x.params.count, rows * (size_t)n * out);
      for (size_t r = 0; y[1] != NULL && r < rows; r++)
        memmove(y[1] + r * out, y[1] + (r * (size_t)n + (size_t)n - 1) * out, out * sizeof(float));
      equal(__LINE__, "several inner_steps and as many tokens", y[0], y[1], rows * out, CLOSE);
      free(threshold);
      tensor_free(&query);
      tensor_free(&keep);
      data_free(&x);
    }
  finish();
}

/* KDA in the general form, S = diag(alpha) S + b (a' S) + eta k v' with a = k (.) alpha and
 * b = -eta k; and RWKV-7 from its definition, a = -kk, b = kk (.) rate. */
static void test_separate_erase(void **state) {
  (void)state;
  start();
  for (int c = 0; c < COUNT(lengths); c++) {
    miras_memory_desc kda = matrix(MIRAS_BIAS_L2, MIRAS_RETENTION_L2, MIRAS_GATE_CHANNEL,
                                   MIRAS_ORDER_DECAY_FIRST, lengths[c]);
    miras_memory_desc general = kda;
    data x;
    miras_memory_input t;
    const int T = 37;
    const size_t n = 4, dv = 5;
    float *y;
    double *S, *expected;
    general.order = MIRAS_ORDER_ERROR_FIRST;
    general.separate_erase = 1;
    data_new(&x, &general, T, 34);
    for (size_t i = 0; i < x.in[KEY].count; i++) {
      x.in[ERASE].f[i] = x.in[KEY].f[i] * x.in[KEEP].f[i];
      x.in[REPLACE].f[i] = -x.in[STEP].f[i / n] * x.in[KEY].f[i];
    }
    t = data_tokens(&x);
    {
      miras_memory_input u = t;
      u.erase = u.replace = NULL;
      equal(__LINE__, "KDA and its general form",
            answers(&kda, &u, x.params.f, x.params.count, x.dy.count),
            answers(&general, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
    }
    for (size_t r = 0; r < x.in[KEY].count; r += n) { /* RWKV-7: rate per channel, k its own */
      float kk[4], square = 0.0f;
      for (size_t i = 0; i < n; i++) {
        kk[i] = uniform(-1.0f, 1.0f);
        square += kk[i] * kk[i];
      }
      for (size_t i = 0; i < n; i++) {
        const float rate = uniform(0.0f, 1.0f);
        tensor_set(&x.in[ERASE], r + i, -kk[i] / sqrtf(square));
        tensor_set(&x.in[REPLACE], r + i, kk[i] / sqrtf(square) * rate);
        tensor_set(&x.in[KEEP], r + i, uniform(0.55f, 1.0f));
      }
    }
    y = answers(&general, &t, x.params.f, x.params.count, x.dy.count);
    expected = (double *)ref_zeros(x.dy.count);
    S = (double *)ref_zeros(n * dv);
    for (size_t b = 0; b < 2; b++)
      for (size_t h = 0; h < 2; h++) {
        for (size_t i = 0; i < n * dv; i++) S[i] = (double)x.params.f[h * n * dv + i];
        for (size_t s = 0; s < (size_t)T; s++) {
          const size_t at = (b * (size_t)T + s) * 2 + h;
          const double *k = x.in[KEY].d + at * n, *v = x.in[VALUE].d + at * dv;
          for (size_t o = 0; o < dv; o++) { /* one column of the state at a time */
            double sa = 0.0;
            for (size_t i = 0; i < n; i++) sa += x.in[ERASE].d[at * n + i] * S[i * dv + o];
            for (size_t i = 0; i < n; i++) {
              S[i * dv + o] = x.in[KEEP].d[at * n + i] * S[i * dv + o] +
                              x.in[REPLACE].d[at * n + i] * sa +
                              x.in[STEP].d[at] * k[i] * v[o];
              expected[at * dv + o] += x.in[QUERY].d[at * n + i] * S[i * dv + o];
            }
          }
        }
      }
    if (y != NULL && !(error_of(y, expected, x.dy.count) <= FORWARD))
      failed("RWKV-7 with chunk %d is off by %.2e", lengths[c],
             error_of(y, expected, x.dy.count));
    free(y);
    free(S);
    free(expected);
    data_free(&x);
  }
  finish();
}

/* The elastic nets. Without sparsity there is no net: both are gradient descent. In general the two
 * views of MIRAS differ: learning-retaining shrinks what has been shrunk, FTRL the sum of gradients
 * (Proposition 3.2 needs a retention that is the Bregman divergence of the regulariser, and |W|_1
 * has none). They agree where shrinking commutes with the steps: in one step from an empty memory,
 * in one chunk from an empty memory, and for the dot product with everything positive. */
static void test_elastic(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < 3; kind++)
    for (int chunk = 1; chunk <= 4; chunk += 3) {
      miras_memory_desc a = layers(kind == 0 ? 1 : 2, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, chunk),
                        b = a;
      if (kind == 2) {
        a.architecture = b.architecture = MIRAS_ARCH_GATED_MLP;
        a.depth = b.depth = 0;
      }
      b.retention = MIRAS_RETENTION_ELASTIC;
      b.sparsity = 1e-8f; /* the least there is */
      SAME("no sparsity", a, b);
      b.retention = MIRAS_RETENTION_ELASTIC_FTRL;
      SAME("no sparsity, FTRL", a, b);
      b.smooth_shrink = 1;
      SAME("no sparsity, smooth", a, b);
      a.retention = MIRAS_RETENTION_L2;
      a.decay_rate = 0.05f;
      b = a;
      b.retention = MIRAS_RETENTION_ELASTIC;
      b.sparsity = 1e-8f;
      SAME("no sparsity, with decay", a, b);
    }
  for (int T = 1; T <= 9; T += 4)
    for (int chunk = 1; chunk <= T; chunk += T - 1 > 0 ? T - 1 : 1) {
      miras_memory_desc a = layers(1, MIRAS_BIAS_DOT, MIRAS_RETENTION_ELASTIC, chunk), b = a;
      data x;
      miras_memory_input t;
      float *y[2];
      size_t last;
      a.batch = a.heads = b.batch = b.heads = 1;
      a.learning_rate_gate = b.learning_rate_gate = MIRAS_GATE_CONSTANT;
      a.sparsity = 0.02f;
      b.retention = MIRAS_RETENTION_ELASTIC_FTRL;
      b.sparsity = (float)T * a.sparsity * a.learning_rate;
      data_new(&x, &a, T, 35);
      memset(x.params.f, 0, x.params.count * sizeof(float));
      if (chunk == 1) /* every write passes the threshold */
        for (size_t i = 0; i < x.in[KEY].count; i++) {
          x.in[KEY].f[i] = 0.5f + 0.5f * fabsf(x.in[KEY].f[i]);
          x.in[VALUE].f[i] = 0.5f + 0.5f * fabsf(x.in[VALUE].f[i]);
        }
      t = data_tokens(&x);
      y[0] = answers(&a, &t, x.params.f, x.params.count, x.dy.count);
      y[1] = answers(&b, &t, x.params.f, x.params.count, x.dy.count);
      last = (size_t)(T - 1) * x.out;
      for (int i = 0; i < 2 && y[0] != NULL && y[1] != NULL; i++)
        memmove(y[i], y[i] + last, x.out * sizeof(float));
      equal(__LINE__, "the two elastic nets", y[0], y[1], x.out, CLOSE);
      data_free(&x);
    }
  finish();
}

/* Local and global L2 together are decay and learning rate gates that belong to each other. */
static void test_l2_both(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < 5; kind++)
    for (int chunk = 1; chunk <= 4; chunk += 3) {
      miras_memory_desc a =
        layers(kind < 2 ? kind + 1 : 1, kind == 4 ? MIRAS_BIAS_LP : MIRAS_BIAS_L2,
               MIRAS_RETENTION_L2_BOTH, chunk);
      miras_memory_desc b;
      data x;
      miras_memory_input t, u;
      float *keep, *step;
      if (kind == 2) a.architecture = MIRAS_ARCH_VECTOR;
      if (kind == 3) {
        a.architecture = MIRAS_ARCH_GATED_MLP;
        a.expansion = 2;
      }
      if (kind == 4) a.architecture = MIRAS_ARCH_MATRIX;
      if (a.architecture != MIRAS_ARCH_MLP) a.depth = 0;
      if (kind == 4) a.learning_rate = 0.1f;
      a.balance = 4.0f;
      b = a;
      b.retention = MIRAS_RETENTION_L2;
      b.balance = 0.0f;
      b.decay_gate = MIRAS_GATE_HEAD;
      data_new(&x, &a, 21, 36);
      keep = (float *)zeros(x.in[STEP].count, sizeof(float));
      step = (float *)zeros(x.in[STEP].count, sizeof(float));
      for (size_t i = 0; i < x.in[STEP].count; i++) {
        keep[i] = (float)(4.0 / (4.0 + x.in[STEP].d[i]));
        step[i] = (float)(4.0 / (4.0 + x.in[STEP].d[i]) * x.in[STEP].d[i]);
      }
      t = u = data_tokens(&x);
      u.keep = keep;
      u.learning_rate = step;
      equal(__LINE__, "L2 twice", answers(&a, &t, x.params.f, x.params.count, x.dy.count),
            answers(&b, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      free(keep);
      free(step);
      data_free(&x);
    }
  finish();
}

/* Attention by its definition; a window that is never full is as good as any larger one. */
static void test_attention(void **state) {
  static const int windows[] = {1, 2, 5, 16, 40, 41, 0};
  const int T = 40;
  float *first = NULL;
  (void)state;
  start();
  for (int w = 0; w < COUNT(windows); w++)
    for (int c = 0; c < COUNT(lengths); c++) {
      miras_memory_desc d =
        combination(COUNT(forms) - 1, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, MIRAS_ALGORITHM_GD, 0,
                    lengths[c]);
      data x;
      miras_memory_input t;
      float *y;
      double *expected;
      const size_t dk = (size_t)d.key_dim, dv = (size_t)d.value_dim;
      d.window = windows[w];
      data_new(&x, &d, T, 37);
      for (size_t i = 0; i < x.in[KEY].count; i++)
        tensor_set(&x.in[KEY], i, 3.0f * x.in[KEY].f[i]);
      t = data_tokens(&x);
      y = answers(&d, &t, x.params.f, x.params.count, x.dy.count);
      expected = (double *)ref_zeros(x.dy.count);
      for (int i = 0; i < T; i++) {
        double sum = 0.0;
        for (int j = windows[w] ? i - windows[w] + 1 : 0; j <= i; j++) {
          double score = 0.0;
          if (j < 0) continue;
          for (size_t n = 0; n < dk; n++)
            score += x.in[KEY].d[(size_t)j * dk + n] * x.in[QUERY].d[(size_t)i * dk + n];
          score = exp(score / sqrt((double)dk));
          sum += score;
          for (size_t n = 0; n < dv; n++)
            expected[(size_t)i * dv + n] += score * x.in[VALUE].d[(size_t)j * dv + n];
        }
        for (size_t n = 0; n < dv; n++) expected[(size_t)i * dv + n] /= sum;
      }
      if (y != NULL && !(error_of(y, expected, x.dy.count) <= FORWARD))
        failed("attention over %d of %d pairs with chunk %d is off by %.2e", windows[w], T,
               lengths[c], error_of(y, expected, x.dy.count));
      if (y != NULL && windows[w] == T && first == NULL) {
        first = (float *)zeros(x.dy.count, sizeof(float));
        memcpy(first, y, x.dy.count * sizeof(float));
      }
      if (y != NULL && first != NULL && !same_bits(first, y, x.dy.count))
        failed("a window of %d (chunk %d) changes bits", windows[w], lengths[c]);
      free(y);
      free(expected);
      data_free(&x);
    }
  free(first);
  finish();
}

/* Memories that run exactly: any chunk gives the same. */
static void test_schedules(void **state) {
  (void)state;
  start();
  random_state = 22;
  for (int kind = 0; kind < EXACT_KINDS; kind++)
    for (uint64_t n = 0; n < 30; n++) {
      static const int chunks[] = {3, 4, 16, 21, 64};
      miras_memory_desc a = exact_cell(kind, 1, 300000 + n), b = a;
      data x;
      miras_memory_input t;
      if (!my_share() || miras_memory_size(&a, NULL, 0) == 0) continue;
      if (!data_settled(&x, &a, 50, n, 1e-5)) continue;
      t = data_tokens(&x);
      for (int c = 0; c < COUNT(chunks); c++) {
        int turns = a.reset_every == 0; /* heads take turns on the grid of the chunk */
        b.chunk = chunks[c];
        if (!turns && a.reset_every % ref_reset_grid(&b) == 0)
          turns = ref_reset_offset(&a, 1) == ref_reset_offset(&b, 1);
        if (!turns) continue;
        equal(__LINE__, label(&b), answers(&a, &t, x.params.f, x.params.count, x.dy.count),
              answers(&b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      }
      data_free(&x);
    }
  finish();
}

/* A feature map inside is the same map outside. */
static void test_features(void **state) {
  (void)state;
  start();
  for (int feature = 1; feature < FEATURE_MAPS; feature++)
    for (int kind = 0; kind < 5; kind++)
      for (int c = 0; c < COUNT(lengths); c++) {
        miras_memory_desc a =
          matrix(kind == 0   ? MIRAS_BIAS_DOT
                 : kind == 3 ? MIRAS_BIAS_PSEUDO_HUBER
                             : MIRAS_BIAS_L2,
                 MIRAS_RETENTION_L2, kind == 2 ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD,
                 kind == 1 ? MIRAS_ORDER_DECAY_FIRST : MIRAS_ORDER_ERROR_FIRST, lengths[c]);
        miras_memory_desc b;
        data x;
        miras_memory_input t, u;
        tensor mapped[2];
        size_t F;
        if (kind == 4) a.algorithm = MIRAS_ALGORITHM_LEAST_SQUARES, a.ridge = 1;
        a.feature_map = ref_feature_map(feature);
        a.learning_rate =
          a.feature_map == MIRAS_FN_ELU || a.feature_map == MIRAS_FN_POLY2 ? 0.2f : 0.6f;
        F = (size_t)ref_features(&a);
        b = a;
        b.feature_map = MIRAS_FN_NONE;
        b.key_dim = (int)F;
        data_new(&x, &a, 37, 38);
        t = u = data_tokens(&x);
        for (int k = 0; k < 2; k++) {
          const tensor *from = &x.in[k == 0 ? KEY : QUERY];
          const size_t rows = from->count / 4;
          mapped[k] = tensor_new(rows * F, 0.0f, 0.0f);
          for (size_t r = 0; r < rows; r++) {
            ref_map(&a, from->d + r * 4, mapped[k].d + r * F, NULL);
            for (size_t i = 0; i < F; i++) mapped[k].f[r * F + i] = (float)mapped[k].d[r * F + i];
          }
        }
        u.key = mapped[0].f;
        u.query = mapped[1].f;
        equal(__LINE__, label(&a), answers(&a, &t, x.params.f, x.params.count, x.dy.count),
              answers(&b, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
        for (int k = 0; k < 2; k++) tensor_free(&mapped[k]);
        data_free(&x);
      }
  { /* phi(q).phi(k) = 1 + q.k + (q.k)^2 / 2 */
    miras_memory_desc d =
      matrix(MIRAS_BIAS_DOT, MIRAS_RETENTION_ALL, MIRAS_GATE_CONSTANT, MIRAS_ORDER_ERROR_FIRST, 1);
    data x;
    miras_memory_input t;
    float *y;
    d.feature_map = MIRAS_FN_POLY2;
    d.batch = d.heads = 1;
    data_new(&x, &d, 1, 39);
    memset(x.params.f, 0, x.params.count * sizeof(float));
    t = data_tokens(&x);
    y = answers(&d, &t, x.params.f, x.params.count, x.dy.count);
    if (y != NULL) {
      double qk = 0.0, expected[5];
      for (size_t i = 0; i < 4; i++) qk += x.in[KEY].d[i] * x.in[QUERY].d[i];
      for (size_t o = 0; o < 5; o++)
        expected[o] = x.in[STEP].d[0] * (1.0 + qk + 0.5 * qk * qk) * x.in[VALUE].d[o];
      if (!(error_of(y, expected, 5) <= FORWARD)) failed("the kernel of POLY2");
    }
    free(y);
    data_free(&x);
  }
  finish();
}

/* A normalised memory is the quotient of two: one of the values, one of ones. */
static void test_normalised(void **state) {
  (void)state;
  start();
  for (int feature = 1; feature < FEATURE_MAPS - 1; feature++)
    for (int keep = 0; keep < 3; keep++)
      for (int c = 0; c < COUNT(lengths); c++) {
        miras_memory_desc a =
          matrix(MIRAS_BIAS_DOT, keep ? MIRAS_RETENTION_L2 : MIRAS_RETENTION_ALL, (miras_gate)keep,
                 MIRAS_ORDER_ERROR_FIRST, lengths[c]);
        miras_memory_desc top, bottom;
        data x;
        miras_memory_input t, u;
        float *y, *number, *ones, *zero;
        size_t rows;
        a.feature_map = ref_feature_map(feature);
        top = bottom = a;
        bottom.value_dim = 1;
        a.normalize = 1;
        data_new(&x, &a, 37, 40);
        memset(x.params.f, 0, x.params.count * sizeof(float));
        rows = x.dy.count / x.out;
        ones = (float *)zeros(rows, sizeof(float));
        zero = (float *)zeros(x.params.count, sizeof(float));
        for (size_t r = 0; r < rows; r++) ones[r] = 1.0f;
        t = u = data_tokens(&x);
        u.value = ones;
        y = answers(&top, &t, zero, (size_t)(a.heads * ref_features(&a)) * x.out, x.dy.count);
        number = answers(&bottom, &u, zero, (size_t)(a.heads * ref_features(&a)), rows);
        for (size_t i = 0; y != NULL && number != NULL && i < x.dy.count; i++)
          y[i] = (float)((double)y[i] / ((double)number[i / x.out] + 1e-10));
        equal(__LINE__, "a quotient of two memories", y,
              answers(&a, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
        free(number);
        free(ones);
        free(zero);
        data_free(&x);
      }
  finish();
}

/* Gates per channel whose channels agree are gates per head; and a value gate of ones is none. */
static void test_channels(void **state) {
  (void)state;
  start();
  for (int f = 0; f < COUNT(forms) - 1; f++)
    for (int gates = 1; gates < 8; gates++)
      for (int c = 0; c < 2; c++) {
        miras_memory_desc a, b;
        data x;
        miras_memory_input t, u;
        float *wide[3];
        a = combination(f, f == 0 ? MIRAS_BIAS_L2 : MIRAS_BIAS_HUBER_NORM,
                        c && f ? MIRAS_RETENTION_LQ : MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 1,
                        lengths[c]);
        if (f == 0 && gates >= 4) continue;
        if (gates % 2) a.decay_target = MIRAS_DECAY_TARGET_INITIAL;
        a.step_bound = gates / 2 % 2;
        b = a;
        if (gates & 1) b.decay_gate = MIRAS_GATE_CHANNEL;
        if (gates & 2) b.learning_rate_gate = MIRAS_GATE_CHANNEL;
        if (gates & 4) b.threshold_gate = MIRAS_GATE_CHANNEL;
        data_new(&x, &a, 21, 41);
        t = u = data_tokens(&x);
        wide[0] = repeated(&x.in[KEEP], (size_t)ref_keep_channels(&a));
        wide[1] = repeated(&x.in[STEP], x.out);
        wide[2] = repeated(&x.in[THRESHOLD], x.out);
        if (gates & 1) u.keep = wide[0];
        if (gates & 2) u.learning_rate = wide[1];
        if (gates & 4) u.threshold = wide[2];
        equal(__LINE__, label(&b), answers(&a, &t, x.params.f, x.params.count, x.dy.count),
              answers(&b, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
        for (int i = 0; i < 3; i++) free(wide[i]);
        data_free(&x);
      }
  for (int c = 0; c < COUNT(lengths); c++) {
    miras_memory_desc a = matrix(MIRAS_BIAS_DOT, MIRAS_RETENTION_L2, MIRAS_GATE_CHANNEL,
                                 MIRAS_ORDER_ERROR_FIRST, lengths[c]);
    miras_memory_desc b = a;
    data x;
    miras_memory_input t, u;
    float *ones;
    b.value_decay_gate = MIRAS_GATE_CHANNEL;
    data_new(&x, &a, 37, 42);
    ones = (float *)zeros(x.dy.count, sizeof(float));
    for (size_t i = 0; i < x.dy.count; i++) ones[i] = 1.0f;
    t = u = data_tokens(&x);
    u.value_keep = ones;
    equal(__LINE__, "a value gate of ones",
          answers(&a, &t, x.params.f, x.params.count, x.dy.count),
          answers(&b, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
    free(ones);
    data_free(&x);
  }
  finish();
}

/* A vector memory is a matrix of one number per channel. */
static void test_vectors(void **state) {
  static const miras_bias biases[] = {MIRAS_BIAS_DOT, MIRAS_BIAS_L2, MIRAS_BIAS_LP,
                                      MIRAS_BIAS_HUBER, MIRAS_BIAS_LP_SMOOTH};
  (void)state;
  start();
  for (int i = 0; i < COUNT(biases); i++)
    for (int chunk = 1; chunk <= 4; chunk += 3)
      for (int algorithm = 0; algorithm < 2; algorithm++) {
        miras_memory_desc a = layers(1, biases[i], MIRAS_RETENTION_L2, chunk), b;
        a.architecture = MIRAS_ARCH_VECTOR;
        a.depth = 0;
        a.algorithm = (miras_algorithm)algorithm;
        a.learning_rate_gate = MIRAS_GATE_CONSTANT;
        a.decay_rate = 0.05f;
        a.momentum = algorithm ? 0.4f : 0.0f;
        if (biases[i] == MIRAS_BIAS_LP || biases[i] == MIRAS_BIAS_LP_SMOOTH) {
          a.learning_rate = 0.05f;
          a.p = 1.8f; /* beyond 2 a step is bounded, by a sum over all channels */
        } else {
          a.learning_rate = 0.3f;
        }
        a.heads = 1;
        b = a;
        b.architecture = MIRAS_ARCH_MLP;
        b.depth = 1;
        b.heads = a.key_dim;
        b.key_dim = b.value_dim = 1;
        same(__LINE__, "a vector and its channels", &a, &b, 21, CLOSE);
      }
  finish();
}

/* A bias of a layer is the weight of an input that is always 1, also where both return. */
static void test_biases(void **state) {
  (void)state;
  start();
  for (int chunk = 1; chunk <= 4; chunk += 3)
    for (int n = 0; n < 6; n++) {
      const int momentum = n % 2, returns = n / 2;
      miras_memory_desc a = layers(1, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, chunk), b;
      data x;
      miras_memory_input t, u;
      tensor wide[2];
      const size_t dk = (size_t)a.key_dim;
      a.inner_bias = 1;
      if (returns) {
        a.decay_target = MIRAS_DECAY_TARGET_INITIAL;
        a.retention = returns == 1 ? MIRAS_RETENTION_L2 : MIRAS_RETENTION_L2_BOTH;
        if (returns == 1) a.decay_rate = 0.2f;
        a.step_bound = returns == 2;
      }
      a.algorithm = momentum ? MIRAS_ALGORITHM_MOMENTUM : MIRAS_ALGORITHM_GD;
      a.momentum = momentum ? 0.3f : 0.0f;
      b = a;
      b.inner_bias = 0;
      b.key_dim++;
      data_new(&x, &a, 21, 43);
      t = u = data_tokens(&x);
      for (int k = 0; k < 2; k++) {
        const tensor *from = &x.in[k == 0 ? KEY : QUERY];
        wide[k] = tensor_new(from->count / dk * (dk + 1), 1.0f, 1.0f);
        for (size_t i = 0; i < from->count; i++)
          wide[k].f[i / dk * (dk + 1) + i % dk] = from->f[i];
      }
      u.key = wide[0].f;
      u.query = wide[1].f;
      equal(__LINE__, "a bias and an input of 1",
            answers(&a, &t, x.params.f, x.params.count, x.dy.count),
            answers(&b, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      for (int k = 0; k < 2; k++) tensor_free(&wide[k]);
      data_free(&x);
    }
  finish();
}

/* Row rates of 1 are none, and those of the two forms begin alike. With a decay gate they leave
 * alone what a chunk writes: at chunk 1 there is nothing of that. */
static void test_rows(void **state) {
  (void)state;
  start();
  for (int depth = 1; depth <= 2; depth++)
    for (int c = 0; c < COUNT(lengths); c++) {
      miras_memory_desc a = layers(depth, MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, lengths[c]), b = a;
      data x;
      miras_memory_input t;
      b.token_rates = MIRAS_TOKEN_RATES_RELU;
      data_new(&x, &b, 37, 44);
      for (int r = 0; r < lengths[c]; r++)
        x.params.f[params_rho(&x) + (size_t)r] = 1.0f - 1.0f / (float)(r + 1);
      t = data_tokens(&x);
      equal(__LINE__, "row rates of 1",
            answers(&a, &t, x.params.f, x.params.count - (size_t)lengths[c], x.dy.count),
            answers(&b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      for (int r = 0; r < lengths[c]; r++) x.params.f[params_rho(&x) + (size_t)r] = 0.0f;
      a = b;
      b.token_rates = MIRAS_TOKEN_RATES_SOFTPLUS;
      equal(__LINE__, "the two forms of row rates",
            answers(&a, &t, x.params.f, x.params.count, x.dy.count),
            answers(&b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      for (int kind = 1; kind <= 2 && lengths[c] == 1; kind++) {
        a = layers(depth, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, 1);
        a.decay_target = MIRAS_DECAY_TARGET_INITIAL;
        a.decay_rate = 0.2f;
        b = a;
        b.token_rates = kind;
        equal(__LINE__, "row rates and a decay gate",
              answers(&a, &t, x.params.f, x.params.count - 1, x.dy.count),
              answers(&b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      }
      data_free(&x);
    }
  finish();
}

/* ---- the return to the initial memory ---- */

/* A combination whose decay leads to the initial memory; 0: it has none, or is refused anyway. */
static int returning(const choice_pool *p, int f, int r, int algorithm, int chunk,
                     miras_memory_desc *d) {
  static int turns[COUNT(pools)];
  const int bias = turns[pool_at]++ % (f == 0 && p == pools ? 2 : p->biases);
  *d = combination(f, (int)p->bias[bias], (int)p->retention[r], algorithm, 1, chunk);
  if (!may_return(d)) return 0;
  d->decay_target = MIRAS_DECAY_TARGET_INITIAL;
  if (ref_is_divergence(d)) d->decay_gate = MIRAS_GATE_HEAD;
  *d = tidy(*d);
  return miras_memory_size(d, NULL, 0) > 0;
}

/* Where nothing is forgotten it does not matter where forgetting leads (but for the elastic net,
 * which shrinks to there as well). */
static void test_keeping_all(void **state) {
  int compared = 0;
  (void)state;
  start();
  random_state = 23;
  for (EACH_POOL(p))
    for (int f = 0; f < COUNT(forms); f++)
      for (int r = 0; r < p->retentions; r++)
        for (int algorithm = 0; algorithm < 3; algorithm++)
          for (int c = 0; c < COUNT(lengths); c++) {
            miras_memory_desc a, b;
            data x;
            miras_memory_input t, u;
            if (!returning(p, f, r, algorithm, lengths[c], &a) || !ref_decays(&a) ||
                a.retention == MIRAS_RETENTION_ELASTIC || !data_settled(&x, &a, 21, 46, 1e-4))
              continue;
            compared++;
            for (size_t i = 0; i < x.in[KEEP].count; i++) tensor_set(&x.in[KEEP], i, 1.0f);
            a = b = x.given;
            b.decay_target = MIRAS_DECAY_TARGET_ZERO;
            t = u = data_tokens(&x);
            if (ref_is_divergence(&b)) { /* it has no decay gate then */
              b = tidy(b);
              u.keep = NULL;
            }
            equal(__LINE__, label(&a), answers(&a, &t, x.params.f, x.params.count, x.dy.count),
                  answers(&b, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
            data_free(&x);
          }
  if (compared < 100) failed("only %d were compared", compared);
  finish();
}

/* A chunk whose last token keeps nothing and writes nothing ends as a fresh memory. */
static void test_forgetting_all(void **state) {
  int compared = 0;
  (void)state;
  start();
  random_state = 24;
  for (EACH_POOL(p))
    for (int f = 0; f < COUNT(forms); f++)
      for (int r = 0; r < p->retentions; r++)
        for (int algorithm = 0; algorithm < 3; algorithm++)
          for (int c = 0; c < COUNT(lengths); c++) {
            const int from = lengths[c] == 1 ? 5 : 2 * lengths[c], T = from + lengths[c] + 4;
            miras_memory_desc d;
            data x, rest;
            miras_memory_input t, u;
            float *y[2];
            if (!returning(p, f, r, algorithm, lengths[c], &d) || !ref_decays(&d) ||
                !data_settled(&x, &d, T, 47, 1e-4))
              continue;
            compared++;
            tensor_set(&x.in[KEEP], (size_t)from - 1, 0.0f);
            tensor_set(&x.in[STEP], (size_t)from - 1, 1e-30f);
            if (x.per[MOMENTUM]) tensor_set(&x.in[MOMENTUM], (size_t)from - 1, 0.0f);
            rest = data_cut(&x, from, T);
            t = data_tokens(&x);
            u = data_tokens(&rest);
            y[0] = answers(&x.given, &t, x.params.f, x.params.count, x.dy.count);
            y[1] = answers(&x.given, &u, x.params.f, x.params.count, rest.dy.count);
            if (y[0] != NULL)
              memmove(y[0], y[0] + (size_t)from * x.out, rest.dy.count * sizeof(float));
            equal(__LINE__, label(&d), y[0], y[1], rest.dy.count,
                  fmax(CLOSE, 8.0 * unavoidable(&x, from, T)));
            data_free(&rest);
            data_free(&x);
          }
  if (compared < 100) failed("only %d were compared", compared);
  finish();
}

/* Silence gives back the answers that a memory began with: zero keys and values, for long. */
static void test_silence(void **state) {
  static const int written = 16, silent = 256;
  int compared = 0;
  (void)state;
  start();
  random_state = 25;
  for (EACH_POOL(p))
    for (int f = 0; f < COUNT(forms); f++)
      for (int r = 0; r < p->retentions; r++)
        for (int algorithm = 0; algorithm < 3; algorithm++)
          for (int c = 0; c < COUNT(lengths); c++)
            for (int bounded = 0; bounded < 2; bounded++) {
              miras_memory_desc d;
              data x;
              miras_memory *m;
              float first[4], last[4], *zero;
              double wide[4];
              size_t n;
              if (!returning(p, f, r, algorithm, lengths[c], &d) ||
                  d.retention == MIRAS_RETENTION_ELASTIC_FTRL)
                continue; /* which forgets nothing */
              d.decay_gate = d.learning_rate_gate = d.momentum_gate = d.threshold_gate =
                MIRAS_GATE_CONSTANT;
              if (ref_decays(&d)) d.decay_rate = 0.1f;
              if (d.retention == MIRAS_RETENTION_L2_BOTH) d.balance = 4.0f * d.learning_rate;
              if (bounded && !may_bound(&d)) continue;
              d.step_bound = bounded * 2;
              d.qk_norm = bounded ? MIRAS_QK_NORM_L2 : MIRAS_QK_NORM_NONE;
              if (!data_settled(&x, &d, written, 48, 1e-4)) continue;
              m = open_memory(&x);
              if (m == NULL) {
                failed("not opened: %s", label(&d));
                data_free(&x);
                continue;
              }
              compared++;
              n = x.per[KEY] > x.out ? x.per[KEY] : x.out;
              zero = (float *)zeros(n, sizeof(float));
              miras_memory_read(m, x.in[QUERY].f, first);
              for (int t = 0; t < written; t++)
                surprise_of_write(m, x.in[KEY].f + (size_t)t * x.per[KEY],
                            x.in[VALUE].f + (size_t)t * x.out);
              for (int t = 0; t < silent; t++) surprise_of_write(m, zero, zero);
              miras_memory_read(m, x.in[QUERY].f, last);
              for (size_t i = 0; i < x.out; i++) wide[i] = (double)first[i];
              if (!(error_of(last, wide, x.out) <= CLOSE))
                failed("silence leaves a difference of %.2e: %s", error_of(last, wide, x.out),
                       label(&d));
              free(zero);
              miras_close(m);
              data_free(&x);
            }
  if (compared < 200) failed("only %d were compared", compared);
  finish();
}

/* What a linear memory with initial memory B learns of v is what an empty one learns of v - B'k. */
static void test_deviations(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < 8; kind++)
    for (int c = 0; c < COUNT(lengths); c++) {
      miras_memory_desc a =
        matrix(kind == 2 ? MIRAS_BIAS_DOT : MIRAS_BIAS_L2, MIRAS_RETENTION_L2,
               kind == 1 ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD,
               kind == 3 ? MIRAS_ORDER_DECAY_FIRST : MIRAS_ORDER_ERROR_FIRST, lengths[c]);
      data x;
      miras_memory_input t, u;
      float *value, *zero, *y[2];
      size_t rows, dk, dv;
      miras_memory_desc b;
      if (kind == 4) a.algorithm = MIRAS_ALGORITHM_IMPLICIT;
      if (kind == 5) a.step_bound = MIRAS_STEP_BOUND_PAIR;
      if (kind >= 6) {
        a = layers(1, MIRAS_BIAS_L2, kind == 6 ? MIRAS_RETENTION_L2 : MIRAS_RETENTION_L2_BOTH,
                   lengths[c]);
        if (kind == 6) a.decay_gate = MIRAS_GATE_HEAD;
        a.algorithm = MIRAS_ALGORITHM_MOMENTUM;
        a.momentum_gate = MIRAS_GATE_HEAD;
        if (kind == 7) a.balance = 3.0f;
      }
      a.batch = 1;
      b = a;
      b.decay_target = MIRAS_DECAY_TARGET_INITIAL;
      data_new(&x, &b, 37, 49);
      dk = x.per[KEY];
      dv = x.out;
      rows = x.dy.count / dv;
      value = (float *)zeros(x.dy.count, sizeof(float));
      zero = (float *)zeros(x.params.count, sizeof(float));
      for (size_t i = 0; i < x.dy.count; i++) {
        const double *B = x.params.d + i / dv % (size_t)a.heads * dk * dv + i % dv;
        double v = x.in[VALUE].d[i];
        for (size_t n = 0; n < dk && a.bias == MIRAS_BIAS_L2; n++)
          v -= B[n * dv] * x.in[KEY].d[i / dv * dk + n];
        value[i] = (float)v;
      }
      t = u = data_tokens(&x);
      u.value = value;
      y[0] = answers(&b, &t, x.params.f, x.params.count, x.dy.count);
      y[1] = answers(&a, &u, zero, x.params.count, x.dy.count);
      for (size_t r = 0; r < rows && y[1] != NULL; r++)
        for (size_t o = 0; o < dv; o++) {
          const double *B = x.params.d + r % (size_t)a.heads * dk * dv + o;
          double sum = (double)y[1][r * dv + o];
          for (size_t n = 0; n < dk; n++) sum += B[n * dv] * x.in[QUERY].d[r * dk + n];
          y[1][r * dv + o] = (float)sum;
        }
      equal(__LINE__, label(&b), y[0], y[1], x.dy.count, CLOSE);
      free(value);
      free(zero);
      data_free(&x);
      if (kind != 0 || lengths[c] > 1) continue; /* a matrix is a perceptron of one layer */
      a = layers(1, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, 1);
      a.decay_target = MIRAS_DECAY_TARGET_INITIAL;
      a.decay_gate = MIRAS_GATE_HEAD;
      b = a;
      b.architecture = MIRAS_ARCH_MATRIX;
      b.depth = 0;
      SAME("a layer and a matrix that return", a, b);
    }
  finish();
}

/* ---- steps that are bounded ---- */

/* On a matrix with L2 a bounded step is the implicit one, for every entry of the value by itself,
 * and on a layer at chunk 1, whose bound is one number, if the step is. Keys have any length. */
static void test_bounded(void **state) {
  (void)state;
  start();
  for (int c = 0; c < COUNT(lengths); c++)
    for (int n = 0; n < 16; n++) {
      const int decays = n % 4 > 0;
      miras_memory_desc a =
        matrix(MIRAS_BIAS_L2, decays ? MIRAS_RETENTION_L2 : MIRAS_RETENTION_ALL,
               decays ? MIRAS_GATE_HEAD : MIRAS_GATE_CONSTANT,
               n % 4 == 2 ? MIRAS_ORDER_DECAY_FIRST : MIRAS_ORDER_ERROR_FIRST, lengths[c]);
      miras_memory_desc b;
      data x;
      miras_memory_input t;
      a.learning_rate = n < 12 ? 2.0f : 1e4f;
      a.learning_rate_gate = n / 4 % 2 ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD;
      if (n % 4 == 3) a.decay_target = MIRAS_DECAY_TARGET_INITIAL;
      a.inner_steps = n < 8 ? 1 : 2;
      b = a;
      a.algorithm = MIRAS_ALGORITHM_IMPLICIT;
      b.step_bound = 1 + n % 2;
      data_new(&x, &a, 37, 50);
      other_lengths(&x.in[KEY], (size_t)a.key_dim);
      t = data_tokens(&x);
      equal(__LINE__, label(&b), answers(&a, &t, x.params.f, x.params.count, x.dy.count),
            answers(&b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      if (lengths[c] == 1 && n % 4 != 2 && a.learning_rate_gate == MIRAS_GATE_HEAD) {
        b.architecture = MIRAS_ARCH_MLP;
        b.depth = 1;
        equal(__LINE__, label(&b), answers(&a, &t, x.params.f, x.params.count, x.dy.count),
              answers(&b, &t, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
      }
      data_free(&x);
    }
  finish();
}

/* ---- weights of both signs ---- */

/* Logits of zero are weights of zero; and in general a signed simplex is the simplex over every key
 * and its negative, whose logits are each other's negatives. */
static void test_signed(void **state) {
  (void)state;
  start();
  for (int f = 1; f < COUNT(forms) - 1; f++)
    for (int c = 0; c < COUNT(lengths); c++) {
      miras_memory_desc d = combination(f, MIRAS_BIAS_L2, MIRAS_RETENTION_KL, MIRAS_ALGORITHM_GD, 0,
                                 lengths[c]);
      data x;
      miras_memory *m;
      float y[4];
      d.simplex_signed = 1;
      d.simplex_logits = lengths[c] > 1;
      data_new(&x, &d, 1, 51);
      memset(x.params.f, 0, x.params.count * sizeof(float));
      m = open_memory(&x);
      if (m != NULL) {
        miras_memory_read(m, x.in[QUERY].f, y);
        for (size_t i = 0; i < x.out; i++)
          if (fabsf(y[i]) > 0.0f) failed("zero logits answer %g: %s", (double)y[i], label(&d));
      } else {
        failed("not opened: %s", label(&d));
      }
      miras_close(m);
      data_free(&x);
    }
  for (int n = 0; n < 8; n++)
    for (int c = 0; c < COUNT(lengths); c++) {
      miras_memory_desc a =
        layers(1, n % 2 ? MIRAS_BIAS_HUBER_NORM : MIRAS_BIAS_L2, MIRAS_RETENTION_KL, lengths[c]);
      miras_memory_desc b;
      data x;
      miras_memory_input t, u;
      tensor wide[2], params;
      const size_t dk = (size_t)a.key_dim, P = dk * dk;
      a.decay_gate = MIRAS_GATE_HEAD;
      a.simplex_signed = 1;
      a.simplex_logits = lengths[c] > 1;
      a.simplex = 2.0f;
      a.step_bound = n / 4;
      if (n / 2 % 2) a.decay_target = MIRAS_DECAY_TARGET_INITIAL;
      b = a;
      b.simplex_signed = 0;
      b.key_dim *= 2;
      data_new(&x, &a, 37, 52);
      t = u = data_tokens(&x);
      for (int k = 0; k < 2; k++) {
        const tensor *from = &x.in[k == 0 ? KEY : QUERY];
        wide[k] = tensor_new(2 * from->count, 0.0f, 0.0f);
        for (size_t i = 0; i < from->count; i++) {
          wide[k].f[i / dk * 2 * dk + i % dk] = from->f[i];
          wide[k].f[i / dk * 2 * dk + dk + i % dk] = -from->f[i];
        }
      }
      params = tensor_new(2 * x.params.count, 0.0f, 0.0f);
      for (size_t i = 0; i < x.params.count; i++) {
        params.f[i / P * 2 * P + i % P] = x.params.f[i];
        params.f[i / P * 2 * P + P + i % P] = -x.params.f[i];
      }
      u.key = wide[0].f;
      u.query = wide[1].f;
      equal(__LINE__, label(&a), answers(&a, &t, x.params.f, x.params.count, x.dy.count),
            answers(&b, &u, params.f, params.count, x.dy.count), x.dy.count, CLOSE);
      for (int k = 0; k < 2; k++) tensor_free(&wide[k]);
      tensor_free(&params);
      data_free(&x);
    }
  finish();
}

/* ---- lengths and resets ---- */

/* Keys and queries that a memory brings to a length, and those that have it; a zero stays one. */
static void test_key_lengths(void **state) {
  (void)state;
  start();
  for (int f = 0; f < COUNT(forms) - 1; f++)
    for (int kind = 0; kind < (f == 0 ? 5 : 2); kind++)
      for (int root = 0; root < 2; root++)
        for (int c = 0; c < COUNT(lengths); c++) {
          miras_memory_desc a = combination(
            f, MIRAS_BIAS_L2, f && kind ? MIRAS_RETENTION_LQ : MIRAS_RETENTION_L2,
            kind == 3   ? MIRAS_ALGORITHM_LEAST_SQUARES
            : kind == 4 ? MIRAS_ALGORITHM_RECURSIVE
                        : MIRAS_ALGORITHM_GD,
            1, lengths[c]);
          miras_memory_desc b;
          data x, z;
          miras_memory_input t, u;
          if (f == 0 && kind > 0)
            a.feature_map = kind == 1 ? MIRAS_FN_SOFTMAX : MIRAS_FN_POLY2;
          if (f > 0 && forms[f].shape != SHAPE_VECTOR) {
            a.value_dim = a.key_dim;
            a.inner_residual = kind;
          }
          a.learning_rate *= root ? 0.1f : 0.3f;
          b = a;
          a.qk_norm = root ? MIRAS_QK_NORM_RMS : MIRAS_QK_NORM_L2;
          data_new(&x, &a, 21, 53);
          for (size_t i = 0; i < (size_t)a.key_dim; i++) {
            tensor_set(&x.in[KEY], i, 0.0f);
            tensor_set(&x.in[QUERY], i, 0.0f);
          }
          z = data_cut(&x, 0, x.T);
          unit_rows(&z.in[KEY], (size_t)a.key_dim);
          unit_rows(&z.in[QUERY], (size_t)a.key_dim);
          for (int k = 0; k < 2 && root; k++) {
            tensor *to = &z.in[k == 0 ? KEY : QUERY];
            for (size_t i = 0; i < to->count; i++)
              tensor_set(to, i, sqrtf((float)a.key_dim) * to->f[i]);
          }
          t = data_tokens(&x);
          u = data_tokens(&z);
          equal(__LINE__, label(&a), answers(&a, &t, x.params.f, x.params.count, x.dy.count),
                answers(&b, &u, x.params.f, x.params.count, x.dy.count), x.dy.count, CLOSE);
          data_free(&z);
          data_free(&x);
        }
  finish();
}

/* A head that starts anew is a fresh memory of the tokens from there, and until then has not heard
 * of it. Heads take turns. */
static void test_resets(void **state) {
  (void)state;
  start();
  random_state = 26;
  for (int kind = 0; kind < EXACT_KINDS + 4; kind++)
    for (int c = 0; c < COUNT(lengths); c++) {
      const int deep = kind - EXACT_KINDS;
      miras_memory_desc a = deep < 0 ? exact_cell(kind, lengths[c], 500000)
                              : layers(deep % 2 + 1, MIRAS_BIAS_L2, deep < 2 ? MIRAS_RETENTION_L2
                                                                        : MIRAS_RETENTION_KL,
                                       lengths[c]);
      miras_memory_desc b;
      const int grid = ref_reset_grid(&a), R = 2 * grid, T = R + 7;
      data x;
      miras_memory_input t;
      float *y[2];
      size_t row;
      a.batch = 2;
      a.heads = 3;
      a.reset_every = 0;
      a.simplex_logits = deep >= 2;
      if (kind >= 6 && kind < 8) a.algorithm = MIRAS_ALGORITHM_MOMENTUM, a.ridge = 0;
      if (kind >= 6 && kind < 8) a.momentum = 0.4f;
      if (kind >= 6) a.decay_rate = 0.1f;
      a.decay_target =
        kind % 3 == 0 && may_return(&a) ? MIRAS_DECAY_TARGET_INITIAL : MIRAS_DECAY_TARGET_ZERO;
      b = a;
      b.reset_every = R;
      data_new(&x, &a, T, 54);
      t = data_tokens(&x);
      row = x.out;
      y[0] = answers(&a, &t, x.params.f, x.params.count, x.dy.count);
      y[1] = answers(&b, &t, x.params.f, x.params.count, x.dy.count);
      for (int h = 0; h < a.heads; h++) {
        const int start_at = h == 2 ? grid : R; /* the last begins one grid early */
        data rest = data_cut(&x, start_at, T);
        const miras_memory_input u = data_tokens(&rest);
        float *fresh = answers(&a, &u, x.params.f, x.params.count, rest.dy.count);
        for (int s = 0; s < a.batch && y[0] != NULL && y[1] != NULL && fresh != NULL; s++)
          for (int i = 0; i < T; i++) {
            const size_t at = (((size_t)s * (size_t)T + (size_t)i) * 3 + (size_t)h) * row;
            const size_t now =
              (((size_t)s * (size_t)(T - start_at) + (size_t)(i - start_at)) * 3 + (size_t)h) * row;
            double wide[16];
            for (size_t o = 0; o < row; o++)
              wide[o] = (double)(i < start_at ? y[0][at + o] : fresh[now + o]);
            if (error_of(y[1] + at, wide, row) > 1e-4) {
              failed("head %d starts anew at %d; token %d is off by %.2e: %s", h, start_at, i,
                     error_of(y[1] + at, wide, row), label(&b));
              break;
            }
          }
        free(fresh);
        data_free(&rest);
      }
      free(y[0]);
      free(y[1]);
      data_free(&x);
    }
  finish();
}

/* The caller's choices can be the library's. */
static float custom_l2(void *user, float *error, const float *r, const float *value,
                       float threshold, int dv) {
  float loss = 0.0f;
  (void)user;
  (void)value;
  (void)threshold;
  for (int i = 0; i < dv; i++) {
    error[i] = r[i];
    loss += 0.5f * r[i] * r[i];
  }
  return loss;
}

static float custom_l2_adjoint(void *user, float *dr, float *dvalue, const float *be,
                               const float *r, const float *value, float threshold, int dv) {
  (void)user;
  (void)r;
  (void)value;
  (void)threshold;
  for (int i = 0; i < dv; i++) {
    dr[i] = be[i];
    dvalue[i] = 0.0f;
  }
  return 0.0f;
}

static void custom_sigmoid(void *user, float *w, const float *a, int in, int out) {
  (void)user;
  for (int i = 0; i < in * out; i++) w[i] = 1.0f / (1.0f + expf(-a[i]));
}

static void custom_sigmoid_adjoint(void *user, float *da, const float *dw, const float *a,
                                   const float *w, int in, int out) {
  (void)user;
  (void)a;
  for (int i = 0; i < in * out; i++) da[i] += dw[i] * w[i] * (1.0f - w[i]);
}

static void custom_tanh(void *user, float *w, const float *a, int in, int out) {
  (void)user;
  for (int i = 0; i < in * out; i++) w[i] = tanhf(a[i]);
}

static void custom_tanh_adjoint(void *user, float *da, const float *dw, const float *a,
                                const float *w, int in, int out) {
  (void)user;
  (void)a;
  for (int i = 0; i < in * out; i++) da[i] += dw[i] * (1.0f - w[i] * w[i]);
}

static void test_custom(void **state) {
  static const miras_custom own = {custom_l2, custom_l2_adjoint, custom_sigmoid,
                                   custom_sigmoid_adjoint, NULL};
  static const miras_custom other = {custom_l2, custom_l2_adjoint, custom_tanh,
                                     custom_tanh_adjoint, NULL};
  (void)state;
  start();
  for (int depth = 1; depth <= 2; depth++)
    for (int chunk = 1; chunk <= 4; chunk += 3) {
      miras_memory_desc a = layers(depth, MIRAS_BIAS_L2, MIRAS_RETENTION_TANH, chunk), b = a;
      a.decay_rate = b.decay_rate = 0.1f;
      b.custom = &other;
      b.retention = MIRAS_RETENTION_CUSTOM;
      SAME("a tanh of one's own", a, b);
      a.retention = MIRAS_RETENTION_SIGMOID;
      b.custom = &own;
      SAME("a link of one's own", a, b);
      b.retention = MIRAS_RETENTION_SIGMOID;
      b.bias = MIRAS_BIAS_CUSTOM;
      SAME("a bias of one's own", a, b);
      b.retention = MIRAS_RETENTION_CUSTOM;
      SAME("both of one's own", a, b);
      b.custom = NULL;
      if (miras_memory_size(&b, NULL, 0) != 0) failed("custom choices without functions");
    }
  finish();
}

/* The checker of custom choices: it passes what is right, and tells each of the adjoints from one
 * that is wrong by a factor, in a sentence that names it. */
static int wrong_part;

static float wrong_bias(void *user, float *error, const float *r, const float *value,
                        float threshold, int dv) {
  const float loss = custom_bias(user, error, r, value, threshold, dv);
  for (int i = 0; wrong_part == 1 && i < dv; i++) error[i] *= 1.25f;
  return loss;
}

static float wrong_bias_adjoint(void *user, float *dr, float *dvalue, const float *be,
                                const float *r, const float *value, float threshold, int dv) {
  const float dt = custom_bias_adjoint(user, dr, dvalue, be, r, value, threshold, dv);
  for (int i = 0; i < dv; i++) {
    if (wrong_part == 2) dr[i] *= 1.25f;
    if (wrong_part == 3) dvalue[i] += 0.25f * be[i];
  }
  return wrong_part == 4 ? dt + 0.5f : dt;
}

static void wrong_link_adjoint(void *user, float *da, const float *dw, const float *a,
                               const float *w, int in, int out) {
  for (int i = 0; wrong_part == 6 && i < in * out; i++) da[i] = 0;   /* it forgets to add */
  custom_link_adjoint(user, da, dw, a, w, in, out);
  for (int i = 0; wrong_part == 5 && i < in * out; i++) da[i] += 0.25f * dw[i];
}

static void test_custom_check(void **state) {
  static const miras_custom right[] = {
    {custom_l2, custom_l2_adjoint, custom_sigmoid, custom_sigmoid_adjoint, NULL},
    {custom_l2, custom_l2_adjoint, custom_tanh, custom_tanh_adjoint, NULL},
    {custom_bias, custom_bias_adjoint, custom_link, custom_link_adjoint, NULL},
    {custom_l2, NULL, NULL, NULL, NULL}, {NULL, NULL, custom_tanh, custom_tanh_adjoint, NULL}};
  static const miras_custom wrong = {wrong_bias, wrong_bias_adjoint, custom_link,
                                     wrong_link_adjoint, NULL};
  static const char *const says[] = {"", "bias: error", "dr says", "dvalue says", "threshold says",
                                     "link_adjoint", "link_adjoint"};
  char why[256];
  (void)state;
  start();
  for (int dim = 1; dim <= 16; dim += dim < 4 ? 1 : 4)
    for (int i = 0; i < COUNT(right); i++)
      if (!custom_check(&right[i], dim, 0.75f, why, sizeof why) || why[0])
        failed("custom choice %d, dim %d: %s", i, dim, why);
  for (wrong_part = 1; wrong_part < COUNT(says); wrong_part++)
    if (custom_check(&wrong, 5, 0.75f, why, sizeof why) || strstr(why, says[wrong_part]) == NULL)
      failed("part %d is wrong, and the sentence says \"%s\"", wrong_part, why);
  wrong_part = 0;
  if (!custom_check(&wrong, 5, 0.75f, NULL, 0)) failed("nothing was wrong");
  if (custom_check(NULL, 5, 1, why, sizeof why) || custom_check(&right[0], 0, 1, why, sizeof why) ||
      custom_check(&right[0], 4, NAN, why, sizeof why) ||
      custom_check(&right[0], 17, 1, why, sizeof why) || strstr(why, "dim is 17") == NULL)
    failed("arguments of the checker: %s", why);
  finish();
}

/* Mesa: what orthogonal keys hold comes back as v eta / (eta + lambda), whatever came between. */
static void test_mesa(void **state) {
  (void)state;
  start();
  for (int c = 0; c < COUNT(lengths); c++) {
    miras_memory_desc d = matrix(MIRAS_BIAS_L2, MIRAS_RETENTION_ALL, MIRAS_GATE_CONSTANT,
                                 MIRAS_ORDER_ERROR_FIRST, lengths[c]);
    data x;
    miras_memory_input t;
    float *y;
    double *expected;
    const size_t n = 4, dv = 5, T = 8;
    d.algorithm = MIRAS_ALGORITHM_LEAST_SQUARES;
    d.ridge = 1;
    d.batch = d.heads = 1;
    data_new(&x, &d, (int)T, 45);
    for (size_t i = 0; i < n * dv; i++) x.params.f[i] = 0.0f;
    for (size_t i = 0; i < T * n; i++) { /* tokens 0..3 write the axes, 4..7 nothing new */
      tensor_set(&x.in[KEY], i, i % n == i / n % n ? 1.0f : 0.0f);
      tensor_set(&x.in[QUERY], i, i % n == i / n % n ? 1.0f : 0.0f);
    }
    for (size_t i = 0; i < n * dv; i++) tensor_set(&x.in[VALUE], n * dv + i, x.in[VALUE].f[i]);
    t = data_tokens(&x);
    y = answers(&d, &t, x.params.f, x.params.count, x.dy.count);
    expected = (double *)ref_zeros(x.dy.count);
    for (size_t s = 0; s < T; s++) {
      const double raw = (double)x.params.f[n * dv + s % n], lambda = log1p(exp(raw));
      const double eta = x.in[STEP].d[s] + (s < n ? 0.0 : x.in[STEP].d[s - n]);
      for (size_t o = 0; o < dv; o++)
        expected[s * dv + o] = x.in[VALUE].d[s * dv + o] * eta / (eta + lambda);
    }
    if (y != NULL && !(error_of(y, expected, x.dy.count) <= FORWARD))
      failed("Mesa with chunk %d is off by %.2e", lengths[c], error_of(y, expected, x.dy.count));
    free(y);
    free(expected);
    data_free(&x);
  }
  finish();
}

/* ---- the table ---- */

/* What can be added to a memory that is descended, or changed in it. */
enum {
  PLAIN, MOMENTUM_ROW, IMPLICIT, DIAGONAL, NORMALIZED, NEWTON, RECURSIVE, DECAY_FIRST, STEPS,
  KEEP_CHANNEL, STEP_CHANNEL,
  THRESHOLD_CHANNEL, VALUE_CHANNEL, FEATURES, NORMALISE, SEPARATE_ERASE, ROW_RATES, INNER_BIAS,
  TOWARD, BOUNDED, SIGNED, KEY_LENGTH, RESETS, MUON, WINDOW, BALL, OPTIONS
};
static const char *const option_names[OPTIONS] = {
  "gradient descent",         "momentum",
  "implicit step",            "implicit step, diagonal",
  "normalized least mean squares",
  "least squares",            "least squares by recursion",
  "order: decay first",
  "inner_steps > 1",                "decay_gate per channel",
  "learning_rate_gate per channel",    "threshold_gate per channel",
  "value_decay_gate per channel",   "feature maps",
  "normalize",                "separate_erase",
  "token_rates",                "inner_bias",
  "decay_target",                   "step_bound",
  "simplex_signed",           "qk_norm",
  "reset_every",              "Muon",
  "omega",                    "ball"};

static int answer(int f, int bias, int retention, int option, int chunk) {
  const int algorithm = option == MOMENTUM_ROW                       ? MIRAS_ALGORITHM_MOMENTUM
                        : option == MUON                           ? MIRAS_ALGORITHM_MUON
                        : option == IMPLICIT || option == DIAGONAL ? MIRAS_ALGORITHM_IMPLICIT
                        : option == NORMALIZED                     ? MIRAS_ALGORITHM_NORMALIZED
                        : option == NEWTON                           ? MIRAS_ALGORITHM_LEAST_SQUARES
                        : option == RECURSIVE                        ? MIRAS_ALGORITHM_RECURSIVE
                                                                     : MIRAS_ALGORITHM_GD;
  miras_memory_desc d = combination(f, bias, retention, algorithm, 0, chunk);
  if (option == DIAGONAL) d.diagonal = 1;
  if (option == DECAY_FIRST) d.order = MIRAS_ORDER_DECAY_FIRST;
  if (option == STEPS) d.inner_steps = 2;
  if (option == KEEP_CHANNEL) d.decay_gate = MIRAS_GATE_CHANNEL;
  if (option == STEP_CHANNEL) d.learning_rate_gate = MIRAS_GATE_CHANNEL;
  if (option == THRESHOLD_CHANNEL) d.threshold_gate = MIRAS_GATE_CHANNEL;
  if (option == VALUE_CHANNEL) d.value_decay_gate = MIRAS_GATE_CHANNEL;
  if (option == FEATURES || option == NORMALISE) d.feature_map = MIRAS_FN_ELU;
  if (option == NORMALISE) d.normalize = 1;
  if (option == SEPARATE_ERASE) d.separate_erase = 1;
  if (option == ROW_RATES) d.token_rates = MIRAS_TOKEN_RATES_RELU;
  if (option == INNER_BIAS) d.inner_bias = 1;
  if (option == TOWARD) d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
  if (option == BOUNDED) d.step_bound = MIRAS_STEP_BOUND_PAIR;
  if (option == SIGNED) d.simplex_signed = 1;
  if (option == KEY_LENGTH) d.qk_norm = MIRAS_QK_NORM_L2;
  if (option == RESETS) d.reset_every = 16;
  if (option == WINDOW) d.omega = 4;
  if (option == BALL) d.ball = 8.0f;
  if (miras_memory_size(&d, NULL, 0) > 0) return 1;
  /* some things need a decay towards the initial memory, or biases that return */
  if (option == TOWARD || option == PLAIN) return 0;
  d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
  return miras_memory_size(&d, NULL, 0) > 0;
}

/* The names of a set of `count`: "all", "-", "all but a, b", or "a, b". */
static const char *names(unsigned set, const char *field, int count) {
  static char text[8][240];
  static int turn;
  char *to = text[turn++ % 8];
  const unsigned all = (1u << count) - 1u;
  unsigned show = set;
  int members = 0;
  size_t n = 0;
  if ((set & all) == all) return "all";
  if ((set & all) == 0) return "-";
  for (int i = 0; i < count; i++) members += (int)(set >> i & 1u);
  to[0] = '\0';
  if (2 * members > count) {
    show = all & ~set;
    n = (size_t)snprintf(to, sizeof text[0], "all but ");
  }
  for (int i = 0, first = 1; i < count; i++)
    if (show >> i & 1u) {
      n += (size_t)snprintf(to + n, sizeof text[0] - n, "%s%s", first ? "" : ", ",
                            word_of(field, i));
      first = 0;
    }
  return to;
}

static void table_header(const char *corner) {
  printf("| %s |", corner);
  for (int f = 0; f < COUNT(forms); f++) printf(" %s |", forms[f].name);
  printf("\n|---|");
  for (int f = 0; f < COUNT(forms); f++) printf("---|");
  printf("\n");
}

static void print_table(void) {
  static const int chunk = 16;
  int differ = 0;
  printf("Attentional biases that work with gradient descent, by retention and architecture:\n\n");
  table_header("retention");
  for (int r = 0; r < MIRAS_RETENTION_COUNT; r++) {
    printf("| %s |", word_of("retention", r));
    for (int f = 0; f < COUNT(forms); f++) {
      unsigned set = 0;
      for (int b = 0; b < MIRAS_BIAS_COUNT; b++)
        set |= (unsigned)answer(f, b, r, PLAIN, 1) << b;
      printf(" %s |", names(set, "bias", MIRAS_BIAS_COUNT));
    }
    printf("\n");
  }
  printf("\nWith what else they work, without `decay_target` or with it: the biases; then the "
         "retentions "
         "(*: not every pair of the two).\n\n");
  table_header("");
  for (int option = 1; option < OPTIONS; option++) {
    printf("| %s |", option_names[option]);
    for (int f = 0; f < COUNT(forms); f++) {
      unsigned biases = 0, retentions = 0;
      int pairs = 0, lists = 0;
      for (int b = 0; b < MIRAS_BIAS_COUNT; b++)
        for (int r = 0; r < MIRAS_RETENTION_COUNT; r++)
          if (answer(f, b, r, option, 1)) {
            biases |= 1u << b;
            retentions |= 1u << r;
            pairs++;
          }
      for (int b = 0; b < MIRAS_BIAS_COUNT; b++)
        for (int r = 0; r < MIRAS_RETENTION_COUNT; r++)
          lists += (int)(biases >> b & retentions >> r & 1u);
      if (pairs == 0)
        printf(" - |");
      else
        printf(" %s; %s%s |", names(biases, "bias", MIRAS_BIAS_COUNT),
               names(retentions, "retention", MIRAS_RETENTION_COUNT),
               pairs == lists ? "" : " *");
    }
    printf("\n");
  }
  printf("\n");
  for (int f = 0; f < COUNT(forms); f++) /* what the length of the chunk changes */
    for (int option = 0; option < OPTIONS; option++) {
      unsigned retentions = 0, biases = 0;
      for (int b = 0; b < MIRAS_BIAS_COUNT; b++)
        for (int r = 0; r < MIRAS_RETENTION_COUNT; r++)
          if (answer(f, b, r, option, 1) != answer(f, b, r, option, chunk)) {
            retentions |= 1u << r;
            biases |= 1u << b;
          }
      if (retentions == 0) continue;
      if (!differ++) printf("Not with every chunk:\n\n");
      printf("- %s, %s: %s; %s\n", forms[f].name, option_names[option],
             names(biases, "bias", MIRAS_BIAS_COUNT),
             names(retentions, "retention", MIRAS_RETENTION_COUNT));
    }
  if (!differ) printf("The length of the chunk changes none of this.\n");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_promises),
    cmocka_unit_test(test_meaningless),
    cmocka_unit_test(test_combinations),
    cmocka_unit_test(test_delta_rules),
    cmocka_unit_test(test_linear_yaad),
    cmocka_unit_test(test_longhorn),
    cmocka_unit_test(test_normalized),
    cmocka_unit_test(test_delta_product),
    cmocka_unit_test(test_separate_erase),
    cmocka_unit_test(test_elastic),
    cmocka_unit_test(test_l2_both),
    cmocka_unit_test(test_attention),
    cmocka_unit_test(test_schedules),
    cmocka_unit_test(test_features),
    cmocka_unit_test(test_normalised),
    cmocka_unit_test(test_channels),
    cmocka_unit_test(test_vectors),
    cmocka_unit_test(test_biases),
    cmocka_unit_test(test_rows),
    cmocka_unit_test(test_keeping_all),
    cmocka_unit_test(test_forgetting_all),
    cmocka_unit_test(test_silence),
    cmocka_unit_test(test_deviations),
    cmocka_unit_test(test_bounded),
    cmocka_unit_test(test_signed),
    cmocka_unit_test(test_key_lengths),
    cmocka_unit_test(test_resets),
    cmocka_unit_test(test_custom),
    cmocka_unit_test(test_custom_check),
    cmocka_unit_test(test_mesa),
  };
  if (argc > 1 && strcmp(argv[1], "--table") == 0) {
    print_table();
    return 0;
  }
  printf("instruction set: %s\n", miras_isa());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
