/* One memory against the double-precision reference: outputs, surprise, state and every gradient,
 * for the whole grid of choices; and what the public calls promise to the bit.
 *
 *   cc -O2 tests/test_memory.c -o test_memory -lcmocka -lm && ./test_memory
 *
 * Bounds, all relative to the largest entry of the tensor:
 *   FORWARD   outputs, surprise, norm of float against double
 *   GRADIENT  miras_backward against central differences of the double reference
 * Where the reference comes near a corner of a bias or a link (a Huber threshold, the sign of l_1),
 * float and double may take different sides; the data is drawn again until no token does. Nor is
 * data used that makes the recurrence chaotic: see data_settled.
 */
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "reference.h"

#define FORWARD  2e-5
#define GRADIENT 1e-4
#define NOISE    3e-9 /* of a central difference in double */

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- a report that goes on after a failure, so that one run shows all of them ---- */

#ifndef SHOWN
  #define SHOWN 25 /* failures printed per test */
#endif

static int failures;
static int excused; /* beyond the bound, yet within a few times what no float can avoid */

static void start(void) { failures = excused = 0; }

static void failed(const char *format, ...) {
  va_list list;
  failures++;
  if (failures > SHOWN) return;
  va_start(list, format);
  fprintf(stderr, "  ");
  vfprintf(stderr, format, list);
  fprintf(stderr, "\n");
  va_end(list);
}

static void finish(void) {
  if (failures > 0) fail_msg("%d checks failed", failures);
}

/* ---- random data ---- */

static uint64_t random_state;

static uint64_t draw(void) {
  uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static float uniform(float low, float high) {
  return low + (high - low) * (float)(draw() >> 40) / 16777216.0f;
}

static int below(int n) { return (int)(draw() % (uint64_t)n); }

/* The same numbers in both precisions. */
typedef struct tensor {
  size_t count;
  float *f;
  double *d;
} tensor;

static void *zeros(size_t count, size_t size) {
  void *p = calloc(count > 0 ? count : 1, size);
  if (p == NULL) abort();
  return p;
}

static tensor tensor_new(size_t count, float low, float high) {
  tensor t;
  t.count = count;
  t.f = (float *)zeros(count, sizeof(float));
  t.d = (double *)zeros(count, sizeof(double));
  for (size_t i = 0; i < count; i++) t.d[i] = (double)(t.f[i] = uniform(low, high));
  return t;
}

static void tensor_free(tensor *t) {
  free(t->f);
  free(t->d);
}

static void unit_rows(tensor *t, size_t n) {
  for (size_t r = 0; r + n <= t->count; r += n) {
    double sum = 1e-9;
    for (size_t i = 0; i < n; i++) sum += t->d[r + i] * t->d[r + i];
    for (size_t i = 0; i < n; i++)
      t->d[r + i] = (double)(t->f[r + i] = (float)(t->d[r + i] / sqrt(sum)));
  }
}

enum { KEY, VALUE, QUERY, KEEP, STEP, MOMENTUM, THRESHOLD, INPUTS };
static const char *const input_names[INPUTS] = {"key",  "value",    "query",    "keep",
                                                "step", "momentum", "threshold"};

/* T tokens for a descriptor, the initial memory, and the weights dy of a linear functional of y. */
typedef struct data {
  miras_desc given, d; /* as the library is asked, and with the defaults filled in */
  int T;
  tensor in[INPUTS];  /* count 0 where the gate is a constant */
  size_t per[INPUTS]; /* entries per sequence, token and head */
  tensor params, dy;
} data;

static void data_shape(data *x, const miras_desc *d) {
  x->given = *d;
  x->d = ref_resolve(d);
  x->per[KEY] = x->per[QUERY] = (size_t)x->d.key_dim;
  x->per[VALUE] = (size_t)x->d.value_dim;
  x->per[KEEP] = x->d.keep_gate == MIRAS_GATE_CHANNEL ? (size_t)x->d.key_dim
                 : x->d.keep_gate == MIRAS_GATE_HEAD  ? 1
                                                      : 0;
  x->per[STEP] = x->d.step_gate == MIRAS_GATE_CONSTANT ? 0 : 1;
  x->per[MOMENTUM] = x->d.momentum_gate == MIRAS_GATE_CONSTANT ? 0 : 1;
  x->per[THRESHOLD] = x->d.threshold_gate == MIRAS_GATE_CONSTANT ? 0 : 1;
}

/* Memories that strong forgetting makes chaotic: a layer norm divides by what is left of the
 * weights, and Moneta's link turns a smaller A into a larger W. */
static int fragile(const miras_desc *d) { return d->inner_norm || d->retention == MIRAS_RETAIN_LQ; }

static float logit_spread = 1.5f; /* of the initial logits of a KL memory */

static void data_new(data *x, const miras_desc *given, int T, uint64_t seed) {
  const miras_desc d = ref_resolve(given);
  const ref_shape s = ref_shape_of(&d);
  const size_t rows = (size_t)d.batch * (size_t)T * (size_t)d.heads;
  const float keep = fragile(&d) ? 0.98f : 0.9f;
  random_state = seed * 77777u + 1;
  memset(x, 0, sizeof *x);
  x->T = T;
  data_shape(x, given);
  x->in[KEY] = tensor_new(rows * x->per[KEY], -1.0f, 1.0f);
  x->in[QUERY] = tensor_new(rows * x->per[QUERY], -1.0f, 1.0f);
  unit_rows(&x->in[KEY], x->per[KEY]);
  unit_rows(&x->in[QUERY], x->per[QUERY]);
  x->in[VALUE] = tensor_new(rows * x->per[VALUE], -1.0f, 1.0f);
  x->in[KEEP] = tensor_new(rows * x->per[KEEP], keep, 1.0f);
  x->in[STEP] = tensor_new(rows * x->per[STEP], 0.3f * d.step, d.step);
  x->in[MOMENTUM] = tensor_new(rows * x->per[MOMENTUM], 0.1f, 0.7f);
  x->in[THRESHOLD] = tensor_new(rows * x->per[THRESHOLD], 0.6f * d.threshold, 1.4f * d.threshold);
  x->params = tensor_new(ref_params_count(&d), -1.0f, 1.0f);
  for (int h = 0; h < d.heads; h++)
    for (int l = 0; l < s.layers; l++)
      for (size_t i = 0; i < (size_t)s.in[l] * (size_t)s.out[l]; i++) {
        const size_t at = (size_t)h * s.weights + s.at[l] + i;
        float w = x->params.f[at];
        w *= d.retention == MIRAS_RETAIN_KL ? logit_spread : 1.6f / sqrtf((float)s.in[l]);
        if (d.retention == MIRAS_RETAIN_LQ_PNORM || d.retention == MIRAS_RETAIN_LQ)
          w += w < 0.0f ? -0.2f : 0.2f; /* away from the sign change of the link */
        x->params.d[at] = (double)(x->params.f[at] = w);
      }
  if (d.inner_norm && d.architecture == MIRAS_MLP) /* gain near 1 */
    for (int i = 0; i < d.heads * d.value_dim; i++) {
      const size_t at = (size_t)d.heads * s.weights + (size_t)i;
      x->params.d[at] = (double)(x->params.f[at] = 1.0f + 0.3f * x->params.f[at]);
    }
  x->dy = tensor_new(rows * x->per[VALUE], -1.0f, 1.0f);
}

static void data_free(data *x) {
  for (int i = 0; i < INPUTS; i++) tensor_free(&x->in[i]);
  tensor_free(&x->params);
  tensor_free(&x->dy);
}

static miras_tokens data_tokens(const data *x) {
  miras_tokens t;
  memset(&t, 0, sizeof t);
  t.length = x->T;
  t.key = x->in[KEY].f;
  t.value = x->in[VALUE].f;
  t.query = x->in[QUERY].f;
  t.keep = x->per[KEEP] ? x->in[KEEP].f : NULL;
  t.step = x->per[STEP] ? x->in[STEP].f : NULL;
  t.momentum = x->per[MOMENTUM] ? x->in[MOMENTUM].f : NULL;
  t.threshold = x->per[THRESHOLD] ? x->in[THRESHOLD].f : NULL;
  return t;
}

static ref_tokens data_reference(const data *x) {
  ref_tokens t;
  memset(&t, 0, sizeof t);
  t.length = x->T;
  t.key = x->in[KEY].d;
  t.value = x->in[VALUE].d;
  t.query = x->in[QUERY].d;
  t.keep = x->in[KEEP].d;
  t.step = x->in[STEP].d;
  t.momentum = x->in[MOMENTUM].d;
  t.threshold = x->in[THRESHOLD].d;
  return t;
}

/* Tokens from..to-1 of [batch, T, per] and back. */
static void cut_rows(float *to, const float *from, int batch, int T, size_t per, int a, int b) {
  for (int n = 0; n < batch; n++)
    for (size_t i = 0; i < (size_t)(b - a) * per; i++)
      to[(size_t)n * (size_t)(b - a) * per + i] =
        from[((size_t)n * (size_t)T + (size_t)a) * per + i];
}

static void paste_rows(float *to, const float *from, int batch, int T, size_t per, int a, int b) {
  for (int n = 0; n < batch; n++)
    for (size_t i = 0; i < (size_t)(b - a) * per; i++)
      to[((size_t)n * (size_t)T + (size_t)a) * per + i] =
        from[(size_t)n * (size_t)(b - a) * per + i];
}

static tensor tensor_cut(const tensor *from, int batch, int T, size_t per, int a, int b) {
  tensor t = tensor_new((size_t)batch * (size_t)(b - a) * per, 0.0f, 0.0f);
  cut_rows(t.f, from->f, batch, T, per, a, b);
  for (size_t i = 0; i < t.count; i++) t.d[i] = (double)t.f[i];
  return t;
}

/* Tokens a..b-1 as data of their own. */
static data data_cut(const data *x, int a, int b) {
  data y;
  const size_t H = (size_t)x->d.heads;
  memset(&y, 0, sizeof y);
  data_shape(&y, &x->given);
  y.T = b - a;
  for (int i = 0; i < INPUTS; i++)
    y.in[i] = tensor_cut(&x->in[i], x->d.batch, x->T, H * x->per[i], a, b);
  y.dy = tensor_cut(&x->dy, x->d.batch, x->T, H * x->per[VALUE], a, b);
  y.params = tensor_cut(&x->params, 1, 1, x->params.count, 0, 1);
  return y;
}

/* ---- descriptors ---- */

static const char *label(const miras_desc *d) {
  static char text[400];
  static const char *const biases[] = {"dot",   "l2",         "lp",           "lp-smooth",
                                       "huber", "huber-norm", "huber-mixture"};
  static const char *const retentions[] = {"all", "l2", "lq", "lq-pnorm", "kl"};
  snprintf(
    text, sizeof text,
    "%s depth %d act %d norm %d res %d | %s p %g nu %g delta %g | %s q %g c %g whole %d | %s "
    "order %d | chunk %d gates %d%d%d%d | B %d H %d dk %d dv %d x%d | forget %g r %g step %g "
    "mom %g",
    d->architecture == MIRAS_MATRIX ? "matrix" : "mlp", d->depth, (int)d->activation, d->inner_norm,
    d->inner_residual, biases[d->bias], (double)d->p, (double)d->sharpness, (double)d->threshold,
    retentions[d->retention], (double)d->q, (double)d->simplex, d->simplex_whole,
    d->algorithm == MIRAS_MOMENTUM ? "momentum" : "gd", (int)d->order, d->chunk, (int)d->keep_gate,
    (int)d->step_gate, (int)d->momentum_gate, (int)d->threshold_gate, d->batch, d->heads,
    d->key_dim, d->value_dim, d->expansion, (double)d->forget, (double)d->forget_ratio,
    (double)d->step, (double)d->momentum);
  return text;
}

static int has_threshold(const miras_desc *d) {
  return d->bias == MIRAS_HUBER || d->bias == MIRAS_HUBER_NORM || d->bias == MIRAS_HUBER_MIXTURE;
}

/* A setting that has no meaning for the other choices is refused: leave only those that have. */
static miras_desc tidy(miras_desc d) {
  if (d.architecture == MIRAS_MATRIX) { d.depth = d.inner_norm = d.inner_residual = 0; }
  if (d.depth < 2) {
    d.expansion = 0;
    d.activation = MIRAS_GELU;
  }
  if (d.bias != MIRAS_LP && d.bias != MIRAS_LP_SMOOTH) d.p = 0.0f;
  if (d.bias != MIRAS_LP_SMOOTH && d.bias != MIRAS_HUBER_MIXTURE) d.sharpness = 0.0f;
  if (!has_threshold(&d)) d.threshold = 0.0f;
  if (d.retention != MIRAS_RETAIN_LQ && d.retention != MIRAS_RETAIN_LQ_PNORM) d.q = 0.0f;
  if (d.retention != MIRAS_RETAIN_KL) {
    d.simplex = 0.0f;
    d.simplex_whole = 0;
  }
  if (d.retention == MIRAS_RETAIN_ALL) d.forget = d.forget_ratio = 0.0f;
  if (d.algorithm != MIRAS_MOMENTUM) d.momentum = 0.0f;
  return d;
}

/* One cell of the grid; what is not one of the arguments follows from `variant`, so that a walk
 * over the grid also walks over gates, norms, sizes and constants. layers 0: a matrix. */
static miras_desc cell(int layers, miras_bias bias, miras_retention retention,
                       miras_algorithm algorithm, int chunk, uint64_t variant) {
  static const float ps[] = {3.0f, 2.0f, 1.5f, 4.0f, 2.5f, 1.0f};
  static const float qs[] = {4.0f, 3.0f, 2.0f, 2.5f, 5.0f};
  const uint64_t saved = random_state;
  miras_desc d;
  memset(&d, 0, sizeof d);
  random_state = variant * 1000003u + 12345u;
  d.architecture = layers == 0 ? MIRAS_MATRIX : MIRAS_MLP;
  d.bias = bias;
  d.retention = retention;
  d.algorithm = algorithm;
  d.chunk = chunk;
  d.batch = 2;
  d.heads = 2;
  d.key_dim = 3 + below(3);
  d.value_dim = 3 + below(3);
  d.p = ps[below(COUNT(ps))];
  d.q = qs[below(COUNT(qs))];
  d.sharpness = uniform(3.0f, 10.0f);
  d.simplex_whole = below(4) == 0;
  if (layers > 0) {
    d.depth = layers;
    d.expansion = 1 + below(4);
    d.activation = (miras_activation)below(3);
    d.inner_norm = below(2);
    d.inner_residual = below(2);
    if (d.inner_residual) d.value_dim = d.key_dim;
  }
  d.simplex = uniform(0.7f, 3.0f); /* larger where it is shared by a whole matrix */
  if (d.simplex_whole || layers > 2)
    d.simplex *= 0.4f * (float)(layers > 1 ? d.expansion * d.key_dim : d.key_dim);
  if (retention != MIRAS_RETAIN_ALL && below(3) > 0) d.keep_gate = MIRAS_GATE_HEAD;
  if (below(3) > 0) d.step_gate = MIRAS_GATE_HEAD;
  if (algorithm == MIRAS_MOMENTUM && below(3) > 0) d.momentum_gate = MIRAS_GATE_HEAD;
  if (has_threshold(&d) && below(3) > 0) d.threshold_gate = MIRAS_GATE_HEAD;
  if (retention != MIRAS_RETAIN_ALL) d.forget = fragile(&d) ? 0.02f : 0.08f;
  d.forget_ratio = 0.5f;
  d.step = layers == 0 ? 0.5f : 0.25f;
  if (bias == MIRAS_LP || bias == MIRAS_LP_SMOOTH) d.step /= 2.0f * d.p;
  if (algorithm == MIRAS_MOMENTUM) d.step *= 0.5f;
  d.momentum = 0.4f;
  d.threshold = bias == MIRAS_HUBER ? 0.5f : 0.55f * sqrtf((float)d.value_dim);
  if (layers == 0 && chunk == 1) {
    /* what only exact matrix memories have */
    if (retention == MIRAS_RETAIN_L2 && algorithm == MIRAS_GRADIENT_DESCENT &&
        (bias == MIRAS_L2 || bias == MIRAS_DOT)) {
      if (below(3) == 0) d.keep_gate = MIRAS_GATE_CHANNEL;
      if (below(2) == 0) d.order = MIRAS_DECAY_FIRST;
    }
  }
  random_state = saved;
  return tidy(d);
}

/* A memory of x's descriptor whose initial memory is x's. */
static miras_memory *open_memory(const data *x) {
  miras_memory *m = miras_memory_open(&x->given, NULL);
  size_t count = 0;
  float *params;
  if (m == NULL) return NULL;
  params = miras_memory_params(m, &count);
  if (count != x->params.count) {
    failed("%zu outer parameters, not %zu: %s", count, x->params.count, label(&x->d));
    miras_memory_close(m);
    return NULL;
  }
  memcpy(params, x->params.f, count * sizeof(float));
  miras_memory_reset(m);
  return m;
}

/* Largest difference relative to the largest entry; infinite if anything is not a number. */
static double error_of(const float *a, const double *b, size_t count) {
  double worst = 0.0, top = 1e-30;
  for (size_t i = 0; i < count; i++) {
    if (!(fabs((double)a[i] - b[i]) < 1e30)) return HUGE_VAL;
    if (fabs((double)a[i] - b[i]) > worst) worst = fabs((double)a[i] - b[i]);
    if (fabs(b[i]) > top) top = fabs(b[i]);
  }
  return worst / top;
}

static int same_bits(const float *a, const float *b, size_t count) {
  return memcmp(a, b, count * sizeof(float)) == 0;
}

/* Change every input and parameter of the reference by a part in 1 / by; and back. */
static void shake(data *x, ref_memory *m, float by) {
  for (int i = 0; i < INPUTS; i++)
    for (size_t j = 0; j < x->in[i].count; j++)
      x->in[i].d[j] = (double)x->in[i].f[j] * (1.0 + (double)uniform(-by, by));
  for (size_t j = 0; j < x->params.count; j++) {
    const double u = (double)uniform(-by, by);
    /* of a logit the exponential counts: a small one moves as much as a large one */
    x->params.d[j] = (double)x->params.f[j] * (1.0 + u);
    if (x->d.retention == MIRAS_RETAIN_KL) x->params.d[j] += u;
    if (m != NULL) m->params[j] = x->params.d[j];
  }
}

/* Draw data until the reference keeps its distance from every corner and the recurrence is calm:
 * inputs changed by 1e-6 must not change the outputs by more than thirty times as much, or the test
 * would measure chaos; and an inner norm must not divide by less than a fortieth of what it
 * subtracts from, for there go the digits of a float. Memories that stay wild learn more slowly and
 * begin with larger logits. 0: no such data was found. */
static int data_settled(data *x, const miras_desc *given, int T, uint64_t seed, double margin) {
  miras_desc d = *given;
  for (int attempt = 0; attempt < 60; attempt++) {
    double *y[2], worst = 0.0, top = 1e-30, margin_seen = 0.0;
    if (attempt % 8 == 7) d.step *= 0.5f;
    logit_spread = 1.5f + 0.1f * (float)attempt;
    data_new(x, &d, T, seed + (uint64_t)attempt * 1000u);
    for (int pass = 0; pass < 2; pass++) {
      ref_memory m;
      ref_branches b;
      const ref_tokens t = data_reference(x);
      ref_branches_clear(&b);
      ref_open(&m, &x->d, x->params.d);
      m.branches = &b;
      y[pass] = (double *)ref_zeros(x->dy.count);
      ref_forward(&m, &t, y[pass], NULL);
      ref_close(&m);
      if (pass > 0) continue;
      margin_seen = b.cancellation < 40.0 ? b.margin : 0.0;
      shake(x, NULL, 1e-6f);
    }
    shake(x, NULL, 0.0f);
    for (size_t i = 0; i < x->dy.count; i++) {
      if (!(fabs(y[0][i]) < 50.0)) worst = HUGE_VAL;
      if (fabs(y[0][i] - y[1][i]) > worst) worst = fabs(y[0][i] - y[1][i]);
      if (fabs(y[0][i]) > top) top = fabs(y[0][i]);
    }
    free(y[0]);
    free(y[1]);
    if (margin_seen > margin && worst <= 3e-5 * top) return 1;
    data_free(x);
  }
  return 0;
}

/* How far outputs of tokens a..b-1 move, relative to the largest, when the inputs change by a few
 * units in the last place, and what cancels in an inner norm: what no float can be expected to
 * beat. A plain float version of the reference is as far off. */
#define ULPS 2e-7f

static double unavoidable(data *x, int a, int b) {
  double worst = 0.0, top = 1e-30, *y[2];
  ref_branches branches;
  const size_t row = (size_t)x->d.heads * x->per[VALUE];
  ref_branches_clear(&branches);
  for (int pass = 0; pass <= 6; pass++) {
    ref_memory m;
    const ref_tokens t = data_reference(x);
    if (pass > 0) shake(x, NULL, ULPS);
    ref_open(&m, &x->d, x->params.d);
    m.branches = &branches;
    y[pass > 0] = (double *)ref_zeros(x->dy.count);
    ref_forward(&m, &t, y[pass > 0], NULL);
    ref_close(&m);
    for (size_t i = 0; i < x->dy.count; i++) {
      const int token = (int)(i / row % (size_t)x->T);
      if (token < a || token >= b) continue;
      if (pass == 0 && fabs(y[0][i]) > top) top = fabs(y[0][i]);
      if (pass > 0 && fabs(y[1][i] - y[0][i]) > worst) worst = fabs(y[1][i] - y[0][i]);
    }
    if (pass > 0) free(y[1]);
  }
  shake(x, NULL, 0.0f);
  free(y[0]);
  return worst / top + 0.5 * (double)ULPS * branches.cancellation;
}

/* ---- forward ---- */

static int refused, accepted;
static double worst_forward;

/* Outputs of two calls (the second starts anywhere) and the norm after each. */
static void check_forward(const miras_desc *d, int T, uint64_t seed) {
  char why[200] = "";
  const size_t bytes = miras_memory_size(d, why, sizeof why);
  data x, part[2];
  miras_memory *m;
  ref_memory r;
  int at;
  if (bytes == 0) {
    refused++;
    if (why[0] == '\0')
      failed("refused without a sentence: %s", label(d));
    else
      failed("refused (%s): %s", why, label(d));
    return;
  }
  accepted++;
  if (!data_settled(&x, d, T, seed, 1e-4)) {
    failed("the test found no settled data: %s", label(d));
    return;
  }
  m = open_memory(&x);
  if (m == NULL) {
    failed("not opened: %s", label(d));
    data_free(&x);
    return;
  }
  ref_open(&r, &x.d, x.params.d);
  at = below(T + 1);
  part[0] = data_cut(&x, 0, at);
  part[1] = data_cut(&x, at, T);
  for (int i = 0; i < 2; i++) {
    const miras_tokens tokens = data_tokens(&part[i]);
    const ref_tokens reference = data_reference(&part[i]);
    const size_t count = part[i].dy.count;
    float *y = (float *)zeros(count, sizeof(float));
    double *expected = (double *)ref_zeros(count), error, norm;
    const miras_result result = miras_forward(m, &tokens, y, NULL);
    if (result != MIRAS_OK) failed("forward: %s: %s", miras_result_text(result), label(d));
    ref_forward(&r, &reference, expected, NULL);
    error = error_of(y, expected, count);
    if (error > FORWARD && error <= 8.0 * unavoidable(&x, i == 0 ? 0 : at, i == 0 ? at : T)) {
      excused++;
      error = 0.0;
    }
    if (error > worst_forward) worst_forward = error;
    if (!(error <= FORWARD))
      failed("y off by %.2e (call %d, T %d, cut %d): %s", error, i, T, at, label(d));
    /* inside a chunk the weights in use are those of its start and the tokens since */
    norm = r.position % (uint64_t)x.d.chunk == 0 ? ref_norm(&r) : (double)miras_memory_norm(m);
    if (!(fabs((double)miras_memory_norm(m) - norm) <= FORWARD * (norm + 1e-9)))
      failed("norm %g, not %g, after %d tokens: %s", (double)miras_memory_norm(m), norm,
             (int)r.position, label(d));
    if (miras_memory_position(m) != r.position) failed("position: %s", label(d));
    free(y);
    free(expected);
    data_free(&part[i]);
  }
  ref_close(&r);
  miras_memory_close(m);
  data_free(&x);
}

static const int chunks[] = {1, 4, 5, 16};

static void test_forward_grid(void **state) {
  uint64_t variant = 0;
  (void)state;
  start();
  random_state = 1;
  refused = accepted = 0;
  worst_forward = 0.0;
  for (int layers = 0; layers <= 4; layers++)
    for (int bias = 0; bias < MIRAS_BIAS_COUNT; bias++)
      for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++)
        for (int algorithm = 0; algorithm < MIRAS_ALGORITHM_COUNT; algorithm++)
          for (int c = 0; c < COUNT(chunks); c++) {
            const miras_desc d = cell(layers, (miras_bias)bias, (miras_retention)retention,
                                      (miras_algorithm)algorithm, chunks[c], ++variant);
            check_forward(&d, c == 3 ? 37 : 2 * chunks[c] + 3, variant);
          }
  printf("  forward: %d descriptors, %d refused, largest error %.2e, %d excused\n", accepted,
         refused, worst_forward, excused);
  if (excused * 50 > accepted) failed("too many are excused");
  finish();
}

/* Every length from none to three chunks and a bit, and sizes that are not small. */
static void test_forward_lengths(void **state) {
  static const miras_retention kinds[] = {MIRAS_RETAIN_L2, MIRAS_RETAIN_LQ, MIRAS_RETAIN_KL};
  static const int sizes[][3] = {{1, 1, 1}, {17, 9, 2}, {16, 32, 1}, {33, 33, 2}, {8, 64, 4}};
  (void)state;
  start();
  random_state = 2;
  refused = accepted = 0;
  worst_forward = 0.0;
  for (int layers = 0; layers <= 2; layers++)
    for (int k = 0; k < COUNT(kinds); k++)
      for (int c = 0; c < COUNT(chunks); c++)
        for (int T = 0; T <= 3 * chunks[c] + 2; T += c == 3 ? 7 : 1) {
          const miras_desc d =
            cell(layers, k == 1 ? MIRAS_HUBER_NORM : MIRAS_L2, kinds[k], (miras_algorithm)(T % 2),
                 chunks[c], (uint64_t)(layers * 100 + k * 10 + T));
          check_forward(&d, T, (uint64_t)T + 1);
        }
  for (int i = 0; i < COUNT(sizes); i++)
    for (int layers = 0; layers <= 3; layers++)
      for (int c = 0; c < COUNT(chunks); c++) {
        miras_desc d = cell(layers, MIRAS_L2, MIRAS_RETAIN_L2, (miras_algorithm)(i % 2), chunks[c],
                            (uint64_t)(1000 + i * 10 + layers));
        d.key_dim = sizes[i][0];
        d.value_dim = sizes[i][1];
        d.expansion = sizes[i][2];
        if (d.value_dim != d.key_dim) d.inner_residual = 0;
        if (d.value_dim == 1) d.inner_norm = 0; /* the deviation of one number is nothing */
        d = tidy(d);
        check_forward(&d, 2 * chunks[c] + 5, (uint64_t)i);
      }
  printf("  forward: %d descriptors, %d refused, largest error %.2e, %d excused\n", accepted,
         refused, worst_forward, excused);
  if (excused * 50 > accepted) failed("too many are excused");
  finish();
}

/* Every way to say where a gate's value comes from, on the memories that have the gate. */
static void test_forward_gates(void **state) {
  (void)state;
  start();
  random_state = 3;
  refused = accepted = 0;
  worst_forward = 0.0;
  for (int layers = 0; layers <= 2; layers += 2)
    for (int c = 0; c < 2; c++)
      for (int keep = 0; keep < 3; keep++)
        for (int mask = 0; mask < 8; mask++)
          for (int bias = 0; bias < MIRAS_BIAS_COUNT; bias++)
            for (int algorithm = 0; algorithm < 2; algorithm++)
              for (int order = 0; order < 2; order++) {
                miras_desc d = cell(layers, (miras_bias)bias, MIRAS_RETAIN_L2,
                                    (miras_algorithm)algorithm, chunks[c], (uint64_t)mask + 5000u);
                const int exact = layers == 0 && algorithm == 0 && c == 0 &&
                                  (bias == MIRAS_DOT || bias == MIRAS_L2);
                char why[200] = "";
                d.keep_gate = (miras_gate)keep;
                d.step_gate = (mask & 1) ? MIRAS_GATE_HEAD : MIRAS_GATE_CONSTANT;
                d.momentum_gate = (mask & 2) ? MIRAS_GATE_HEAD : MIRAS_GATE_CONSTANT;
                d.threshold_gate = (mask & 4) ? MIRAS_GATE_HEAD : MIRAS_GATE_CONSTANT;
                d.order = (miras_order)order;
                /* a gate that the memory does not have: refused, and with a sentence */
                if ((algorithm == 0 && d.momentum_gate) ||
                    (!has_threshold(&d) && d.threshold_gate) ||
                    (keep == MIRAS_GATE_CHANNEL && !exact) || (order == 1 && (layers || c))) {
                  if (miras_memory_size(&d, why, sizeof why) == 0) {
                    if (why[0] == '\0') failed("refused without a sentence: %s", label(&d));
                    refused++;
                    continue;
                  }
                }
                if (order == 1 && !(bias == MIRAS_L2 && algorithm == 0) &&
                    miras_memory_size(&d, why, sizeof why) == 0) {
                  refused++;
                  continue;
                }
                check_forward(&d, 7, 50);
              }
  printf("  forward: %d descriptors, %d refused, largest error %.2e, %d excused\n", accepted,
         refused, worst_forward, excused);
  if (excused * 50 > accepted) failed("too many are excused");
  finish();
}

/* miras_write, miras_read and miras_step one token at a time: surprise and outputs against the
 * reference, and the same bits as miras_forward. */
static void test_step(void **state) {
  uint64_t variant = 0;
  double worst = 0.0;
  (void)state;
  start();
  random_state = 4;
  for (int layers = 0; layers <= 3; layers++)
    for (int bias = 0; bias < MIRAS_BIAS_COUNT; bias++)
      for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++)
        for (int c = 0; c < 2; c++) {
          const int T = 2 * chunks[c] + 5;
          miras_desc d = cell(layers, (miras_bias)bias, (miras_retention)retention,
                              (miras_algorithm)(variant / 2 % 2), chunks[c], variant + 9000u);
          data x;
          miras_memory *m, *whole;
          ref_memory r;
          miras_tokens all;
          ref_tokens token;
          size_t heads, kn, vn;
          float *y, *forward, *key, *value, *query;
          double *expected, *surprises;
          variant++;
          d.keep_gate = d.step_gate = d.momentum_gate = d.threshold_gate = MIRAS_GATE_CONSTANT;
          if (!data_settled(&x, &d, T, variant, 1e-4)) {
            failed("the test found no settled data: %s", label(&d));
            continue;
          }
          m = open_memory(&x);
          whole = open_memory(&x);
          if (m == NULL || whole == NULL) {
            failed("not opened: %s", label(&d));
            data_free(&x);
            continue;
          }
          ref_open(&r, &x.d, x.params.d);
          heads = (size_t)x.d.batch * (size_t)x.d.heads;
          kn = (size_t)x.d.heads * x.per[KEY];
          vn = (size_t)x.d.heads * x.per[VALUE];
          y = (float *)zeros(heads * x.per[VALUE], sizeof(float));
          forward = (float *)zeros(x.dy.count, sizeof(float));
          expected = (double *)ref_zeros(heads * x.per[VALUE]);
          surprises = (double *)ref_zeros(heads);
          key = (float *)zeros((size_t)x.d.batch * kn, sizeof(float));
          value = (float *)zeros((size_t)x.d.batch * vn, sizeof(float));
          query = (float *)zeros((size_t)x.d.batch * kn, sizeof(float));
          all = data_tokens(&x);
          if (miras_forward(whole, &all, forward, NULL) != MIRAS_OK)
            failed("forward: %s", label(&d));
          for (int t = 0; t < T; t++) {
            double mean = 0.0, scale = 0.0, error, bound;
            float surprise, *again;
            data one = data_cut(&x, t, t + 1);
            token = data_reference(&one);
            ref_forward(&r, &token, expected, surprises);
            for (size_t i = 0; i < heads; i++) {
              mean += surprises[i] / (double)heads;
              scale += fabs(surprises[i]) / (double)heads;
            }
            cut_rows(key, x.in[KEY].f, x.d.batch, T, kn, t, t + 1);
            cut_rows(value, x.in[VALUE].f, x.d.batch, T, vn, t, t + 1);
            cut_rows(query, x.in[QUERY].f, x.d.batch, T, kn, t, t + 1);
            if (t % 2 == 0) {
              surprise = miras_step(m, key, value, query, y);
            } else {
              surprise = miras_write(m, key, value);
              miras_read(m, query, y);
            }
            if (!(fabs((double)surprise - mean) <= 5e-5 * (scale + 0.1)))
              failed("surprise %g, not %g, at token %d: %s", (double)surprise, mean, t, label(&d));
            error = error_of(y, expected, heads * x.per[VALUE]);
            bound = FORWARD;
            if (error > FORWARD) {
              excused++;
              bound = 8.0 * unavoidable(&x, t, t + 1);
            } else if (error > worst) {
              worst = error;
            }
            if (!(error <= bound)) failed("read off by %.2e at token %d: %s", error, t, label(&d));
            again = (float *)zeros(heads * x.per[VALUE], sizeof(float));
            cut_rows(again, forward, x.d.batch, T, vn, t, t + 1);
            if (t % 2 == 0 && !same_bits(again, y, heads * x.per[VALUE]))
              failed("step and forward differ in bits at token %d: %s", t, label(&d));
            /* reads change nothing, however many, and agree with the read of a step */
            miras_read(m, query, y);
            if (!(error_of(y, expected, heads * x.per[VALUE]) <= bound * 1.5))
              failed("a second read is off by %.2e at token %d: %s",
                     error_of(y, expected, heads * x.per[VALUE]), t, label(&d));
            miras_read(m, query, again);
            if (!same_bits(again, y, heads * x.per[VALUE]))
              failed("a third read differs from the second at token %d: %s", t, label(&d));
            free(again);
            data_free(&one);
          }
          ref_close(&r);
          miras_memory_close(m);
          miras_memory_close(whole);
          free(y);
          free(forward);
          free(expected);
          free(surprises);
          free(key);
          free(value);
          free(query);
          data_free(&x);
        }
  printf("  token by token: largest error %.2e, %d excused\n", worst, excused);
  if (excused > 10) failed("too many are excused");
  finish();
}

/* ---- gradients ---- */

static double worst_gradient;
static int skipped_coordinates, checked_coordinates, threshold_reached;

/* The functional: dy.y plus, per head, pull.(A, S) after the last token. */
typedef struct functional {
  data *x;
  ref_memory *m;
  double *A, *S;      /* the state to start from [batch, heads, weights]; NULL: a reset */
  const double *pull; /* [batch, heads, 1 or 2, weights] or NULL */
  double *y;
} functional;

static double functional_head(const functional *f, int b, int h, ref_branches *branches) {
  const data *x = f->x;
  ref_memory *m = f->m;
  const ref_tokens tokens = data_reference(x);
  const size_t P = m->s.weights, head = (size_t)b * (size_t)x->d.heads + (size_t)h;
  const size_t states = x->d.algorithm == MIRAS_MOMENTUM ? 2 : 1, dv = x->per[VALUE];
  double sum = 0.0;
  m->branches = branches;
  ref_reset_head(m, b, h);
  if (f->A != NULL) {
    memcpy(m->A + head * P, f->A + head * P, P * sizeof(double));
    memcpy(m->S + head * P, f->S + head * P, P * sizeof(double));
  }
  ref_forward_head(m, &tokens, b, h, f->y, NULL);
  for (int t = 0; t < x->T; t++) {
    const size_t at =
      (((size_t)b * (size_t)x->T + (size_t)t) * (size_t)x->d.heads + (size_t)h) * dv;
    for (size_t i = 0; i < dv; i++) sum += x->dy.d[at + i] * f->y[at + i];
  }
  if (f->pull != NULL)
    for (size_t i = 0; i < P; i++) {
      sum += f->pull[head * states * P + i] * m->A[head * P + i];
      if (states == 2) sum += f->pull[(head * 2 + 1) * P + i] * m->S[head * P + i];
    }
  return sum;
}

/* Central difference in *value; b < 0: over all sequences. 0 when a corner lies between. */
static int difference(const functional *f, double *value, int b, int h, double *derivative) {
  const double h0 = 2e-6, middle = *value;
  double sum[2] = {0.0, 0.0};
  ref_branches branches[2];
  for (int side = 0; side < 2; side++) {
    ref_branches_clear(&branches[side]);
    *value = middle + (side ? h0 : -h0);
    for (int n = 0; n < f->x->d.batch; n++)
      if (b < 0 || n == b) sum[side] += functional_head(f, n, h, &branches[side]);
  }
  *value = middle;
  *derivative = (sum[1] - sum[0]) / (2.0 * h0);
  return branches[0].decisions == branches[1].decisions;
}

/* How far that derivative moves when the inputs change by a few units in the last place. */
static double unavoidable_difference(const functional *f, double *value, int b, int h) {
  const size_t n = (size_t)f->x->d.batch * (size_t)f->x->d.heads * f->m->s.weights;
  double exact, other, worst = 0.0, *before[2] = {NULL, NULL}, *now[2];
  now[0] = f->A;
  now[1] = f->S;
  difference(f, value, b, h, &exact);
  for (int k = 0; k < 2 && f->A != NULL; k++) {
    before[k] = (double *)ref_zeros(n);
    memcpy(before[k], now[k], n * sizeof(double));
  }
  for (int pass = 0; pass < 6; pass++) {
    shake(f->x, f->m, ULPS);
    for (int k = 0; k < 2 && f->A != NULL; k++) /* it went through roundings of its own */
      for (size_t i = 0; i < n; i++)
        now[k][i] = before[k][i] * (1.0 + 5.0 * (double)uniform(-ULPS, ULPS));
    difference(f, value, b, h, &other);
    if (fabs(other - exact) > worst) worst = fabs(other - exact);
  }
  shake(f->x, f->m, 0.0f);
  for (int k = 0; k < 2 && f->A != NULL; k++) {
    memcpy(now[k], before[k], n * sizeof(double));
    free(before[k]);
  }
  return worst;
}

/* Compare sampled coordinates of one gradient. values: what to perturb; per: entries per (b, t, h),
 * or 0: parameters, entries per head = count / heads. */
static void check_tensor(const functional *f, const char *name, double *values, const float *grad,
                         size_t count, size_t per, size_t per_head, int may_vanish,
                         int coordinates) {
  const miras_desc *d = &f->x->d;
  double top = 0.0, worst = 0.0, top_difference = 0.0;
  size_t worst_at = 0, n = count;
  double is = 0.0, should = 0.0, *worst_value = values;
  int worst_b = 0, worst_h = 0;
  if (count == 0) return;
  for (size_t i = 0; i < count; i++) {
    if (!(fabs((double)grad[i]) < 1e30)) {
      failed("gradient of %s is not finite at %zu: %s", name, i, label(d));
      return;
    }
    if (fabs((double)grad[i]) > top) top = fabs((double)grad[i]);
  }
  if (n > (size_t)coordinates) n = (size_t)coordinates;
  for (size_t j = 0; j < n; j++) {
    const size_t i = n == count ? j : (size_t)(draw() % count);
    const int h =
      per > 0 ? (int)(i / per % (size_t)d->heads) : (int)(i / per_head % (size_t)d->heads);
    const int b = per > 0 ? (int)(i / per / (size_t)d->heads / (size_t)f->x->T) : -1;
    double derivative;
    if (!difference(f, values + i, b, h, &derivative)) {
      skipped_coordinates++;
      continue;
    }
    checked_coordinates++;
    if (fabs(derivative) > top_difference) top_difference = fabs(derivative);
    if (fabs(derivative - (double)grad[i]) > worst) {
      worst = fabs(derivative - (double)grad[i]);
      worst_at = i;
      worst_value = values + i;
      worst_b = b;
      worst_h = h;
      is = (double)grad[i];
      should = derivative;
    }
  }
  if (top_difference > top) top = top_difference;
  if (top < 1e-7) {
    if (!may_vanish) failed("gradient of %s is zero: %s", name, label(d));
    return;
  }
  if (worst > GRADIENT * top + NOISE &&
      worst <= 8.0 * unavoidable_difference(f, worst_value, worst_b, worst_h)) {
    excused++;
    return;
  }
  if (worst > NOISE && worst / top > worst_gradient) worst_gradient = worst / top;
  if (!(worst <= GRADIENT * top + NOISE))
    failed("gradient of %s off by %.2e (entry %zu: %g, not %g; T %d): %s", name, worst / top,
           worst_at, is, should, f->x->T, label(d));
}

/* All gradients of one descriptor. before: tokens, a multiple of the chunk, run without a tape
 * ahead of the T that are taped. A pull on the final state is added when it lies on the grid. */
static void check_gradient(const miras_desc *given, int before, int T, uint64_t seed,
                           int coordinates) {
  data whole, x;
  miras_memory *m;
  ref_memory r;
  functional f;
  miras_tokens tokens;
  miras_token_grads grads;
  float *y, *tape, *dparams, *dstate = NULL, *dx[INPUTS];
  double *A = NULL, *S = NULL, *pull = NULL;
  size_t P, heads, states;
  miras_result result;
  char why[200] = "";
  if (miras_memory_size(given, why, sizeof why) == 0) {
    failed("refused (%s): %s", why, label(given));
    return;
  }
  if (!data_settled(&whole, given, before + T, seed, 2e-4)) {
    failed("the test found no settled data: %s", label(given));
    return;
  }
  m = open_memory(&whole);
  if (m == NULL) {
    failed("not opened: %s", label(given));
    data_free(&whole);
    return;
  }
  ref_open(&r, &whole.d, whole.params.d);
  P = r.s.weights;
  heads = (size_t)whole.d.batch * (size_t)whole.d.heads;
  states = whole.d.algorithm == MIRAS_MOMENTUM ? 2 : 1;
  if (miras_dstate_size(m) != heads * states * P)
    failed("dstate has %zu floats, not %zu: %s", miras_dstate_size(m), heads * states * P,
           label(given));
  if (before > 0) {
    data first = data_cut(&whole, 0, before);
    miras_tokens t = data_tokens(&first);
    ref_tokens rt = data_reference(&first);
    double *ry = (double *)ref_zeros(first.dy.count);
    y = (float *)zeros(first.dy.count, sizeof(float));
    miras_forward(m, &t, y, NULL);
    ref_forward(&r, &rt, ry, NULL);
    free(y);
    free(ry);
    data_free(&first);
    A = (double *)ref_zeros(heads * P);
    S = (double *)ref_zeros(heads * P);
    memcpy(A, r.A, heads * P * sizeof(double));
    memcpy(S, r.S, heads * P * sizeof(double));
  }
  x = data_cut(&whole, before, before + T);
  dparams = (float *)zeros(x.params.count, sizeof(float));
  if (T % x.d.chunk == 0 || before > 0) {
    dstate = (float *)zeros(heads * states * P, sizeof(float));
    if (T % x.d.chunk == 0) {
      pull = (double *)ref_zeros(heads * states * P);
      for (size_t i = 0; i < heads * states * P; i++)
        pull[i] = (double)(dstate[i] = uniform(-0.5f, 0.5f));
    } else {
      free(dstate);
      dstate = NULL;
    }
  }
  y = (float *)zeros(x.dy.count, sizeof(float));
  tape = (float *)zeros(miras_tape_size(m, T), sizeof(float));
  if (miras_tape_size(m, T) == 0 && T > 0) failed("no tape for %d tokens: %s", T, label(given));
  tokens = data_tokens(&x);
  result = miras_forward(m, &tokens, y, tape);
  if (result != MIRAS_OK) failed("taping: %s: %s", miras_result_text(result), label(given));
  for (int i = 0; i < INPUTS; i++) {
    dx[i] = (float *)zeros(x.in[i].count, sizeof(float));
    for (size_t j = 0; j < x.in[i].count; j++) dx[i][j] = 1e6f; /* must be overwritten */
  }
  for (size_t i = 0; i < x.params.count; i++) dparams[i] = 1.0f; /* must be added to */
  grads.key = dx[KEY];
  grads.value = dx[VALUE];
  grads.query = dx[QUERY];
  grads.keep = x.per[KEEP] ? dx[KEEP] : NULL;
  grads.step = x.per[STEP] ? dx[STEP] : NULL;
  grads.momentum = x.per[MOMENTUM] ? dx[MOMENTUM] : NULL;
  grads.threshold = x.per[THRESHOLD] ? dx[THRESHOLD] : NULL;
  result = miras_backward(m, &tokens, tape, x.dy.f, &grads, dparams, dstate);
  if (result != MIRAS_OK) failed("backward: %s: %s", miras_result_text(result), label(given));
  for (size_t i = 0; i < x.params.count; i++) dparams[i] -= 1.0f;

  f.x = &x;
  f.m = &r;
  f.A = A;
  f.S = S;
  f.pull = pull;
  f.y = (double *)ref_zeros(x.dy.count);
  r.position = (uint64_t)before;
  for (int i = 0; i < INPUTS; i++) {
    int may_vanish = 0;
    if (i == VALUE && x.d.bias == MIRAS_LP && !(x.d.p > 1.0f)) may_vanish = 1;
    if (i == VALUE && x.d.bias == MIRAS_HUBER) may_vanish = 1;
    if (i == THRESHOLD) may_vanish = 1;
    check_tensor(&f, input_names[i], x.in[i].d, dx[i], x.in[i].count, x.per[i], 0, may_vanish,
                 coordinates);
    if (i == THRESHOLD)
      for (size_t j = 0; j < x.in[i].count; j++) threshold_reached += dx[i][j] != 0.0f;
  }
  if (before == 0) {
    check_tensor(&f, "initial memory", r.params, dparams, (size_t)x.d.heads * P, 0, P, 0,
                 coordinates);
  } else {
    for (size_t i = 0; i < (size_t)x.d.heads * P; i++)
      if (dparams[i] != 0.0f) {
        failed("the initial memory receives a gradient from a tape that began later: %s",
               label(given));
        break;
      }
    if (dstate != NULL) {
      /* dstate lies [batch, heads, states, weights]; A and S of the reference apart */
      const char *const names[2] = {"state before", "momentum before"};
      for (size_t k = 0; k < states; k++) {
        double *values = k == 0 ? A : S;
        for (size_t head = 0; head < heads; head++) {
          const float *grad = dstate + (head * states + k) * P;
          double top = 1e-12, worst = 0.0;
          size_t worst_at = 0;
          for (size_t j = 0; j < (P < 8 ? P : 8); j++) {
            const size_t i = P < 8 ? j : (size_t)(draw() % P);
            double derivative;
            if (!difference(&f, values + head * P + i, (int)(head / (size_t)x.d.heads),
                            (int)(head % (size_t)x.d.heads), &derivative))
              continue;
            checked_coordinates++;
            if (fabs(derivative - (double)grad[i]) > worst) {
              worst = fabs(derivative - (double)grad[i]);
              worst_at = i;
            }
          }
          for (size_t i = 0; i < P; i++)
            if (fabs((double)grad[i]) > top) top = fabs((double)grad[i]);
          if (top <= 1e-7) failed("gradient of the %s is zero: %s", names[k], label(given));
          if (worst > GRADIENT * top + NOISE &&
              worst <= 8.0 * unavoidable_difference(&f, values + head * P + worst_at,
                                                    (int)(head / (size_t)x.d.heads),
                                                    (int)(head % (size_t)x.d.heads))) {
            excused++;
            continue;
          }
          if (worst > NOISE && worst / top > worst_gradient) worst_gradient = worst / top;
          if (!(worst <= GRADIENT * top + NOISE))
            failed("gradient of the %s off by %.2e: %s", names[k], worst / top, label(given));
        }
      }
    }
  }
  if (before == 0 && dstate != NULL)
    for (size_t i = 0; i < heads * states * P; i++)
      if (dstate[i] != 0.0f) {
        failed("dstate is not zero before the first token: %s", label(given));
        break;
      }
  if (x.d.architecture == MIRAS_MLP && x.d.inner_norm) {
    const size_t at = (size_t)x.d.heads * P, n = (size_t)x.d.heads * x.per[VALUE];
    check_tensor(&f, "gain", r.params + at, dparams + at, n, 0, x.per[VALUE], 0, coordinates);
    check_tensor(&f, "bias", r.params + at + n, dparams + at + n, n, 0, x.per[VALUE], 0,
                 coordinates);
  }
  for (int i = 0; i < INPUTS; i++) free(dx[i]);
  free(f.y);
  free(y);
  free(tape);
  free(dparams);
  free(dstate);
  free(A);
  free(S);
  free(pull);
  ref_close(&r);
  miras_memory_close(m);
  data_free(&x);
  data_free(&whole);
}

static void gradient_start(void) {
  start();
  random_state = 5;
  worst_gradient = 0.0;
  skipped_coordinates = checked_coordinates = threshold_reached = 0;
}

static void gradient_finish(void) {
  printf("  gradients: %d coordinates, %d skipped at a corner, largest error %.2e, %d excused\n",
         checked_coordinates, skipped_coordinates, worst_gradient, excused);
  if (excused > 10) failed("too many are excused");
  if (skipped_coordinates * 100 > checked_coordinates) failed("too many coordinates were skipped");
  finish();
}

static void test_gradient_grid(void **state) {
  uint64_t variant = 0;
  (void)state;
  gradient_start();
  for (int layers = 0; layers <= 4; layers++)
    for (int bias = 0; bias < MIRAS_BIAS_COUNT; bias++)
      for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++)
        for (int algorithm = 0; algorithm < MIRAS_ALGORITHM_COUNT; algorithm++)
          for (int c = 0; c < 2; c++) {
            const int chunk = c == 0 ? 1 : ++variant % 5 == 0 ? 16 : variant % 2 == 0 ? 5 : 4;
            miras_desc d = cell(layers, (miras_bias)bias, (miras_retention)retention,
                                (miras_algorithm)algorithm, chunk, ++variant + 20000u);
            const int extra = chunk == 1 ? 5 : chunk == 16 ? 3 : chunk + 2;
            if (chunk == 16) d.batch = 1;
            check_gradient(&d, 0, chunk + extra, variant, 10);
          }
  if (threshold_reached == 0) failed("no threshold received a gradient");
  gradient_finish();
}

/* With a gradient flowing in from later calls and out to earlier ones. */
static void test_gradient_state(void **state) {
  uint64_t variant = 0;
  (void)state;
  gradient_start();
  for (int layers = 0; layers <= 3; layers++)
    for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++)
      for (int algorithm = 0; algorithm < MIRAS_ALGORITHM_COUNT; algorithm++)
        for (int c = 0; c < 3; c++)
          for (int before = 0; before < 2; before++) {
            const miras_desc d =
              cell(layers, (variant & 2) ? MIRAS_L2 : MIRAS_LP_SMOOTH, (miras_retention)retention,
                   (miras_algorithm)algorithm, chunks[c], variant + 30000u);
            variant++;
            check_gradient(&d, before * chunks[c] * 2, c == 0 ? 3 : 2 * chunks[c], variant, 6);
          }
  gradient_finish();
}

/* Matrix memories with the choices that only they have, and sizes that fill vectors. */
static void test_gradient_more(void **state) {
  static const int sizes[][3] = {{17, 9, 1}, {16, 33, 2}, {8, 64, 1}};
  (void)state;
  gradient_start();
  for (int bias = 0; bias < 2; bias++)
    for (int order = 0; order < 2; order++)
      for (int keep = 0; keep < 3; keep++)
        for (int T = 1; T <= 70; T = T * 2 + 5) {
          miras_desc d = cell(0, (miras_bias)bias, MIRAS_RETAIN_L2, MIRAS_GRADIENT_DESCENT, 1,
                              (uint64_t)T + 40000u);
          d.order = (miras_order)order;
          d.keep_gate = (miras_gate)keep;
          check_gradient(&d, 0, T, (uint64_t)T, 12);
          check_gradient(&d, T, 4, (uint64_t)T, 12);
        }
  for (int i = 0; i < COUNT(sizes); i++)
    for (int layers = 0; layers <= 2; layers++)
      for (int c = 0; c < COUNT(chunks); c++) {
        miras_desc d = cell(layers, MIRAS_L2, MIRAS_RETAIN_L2, (miras_algorithm)((i + c) % 2),
                            chunks[c], (uint64_t)(50000 + i * 10 + layers));
        d.key_dim = sizes[i][0];
        d.value_dim = sizes[i][1];
        d.expansion = sizes[i][2];
        if (d.value_dim != d.key_dim) d.inner_residual = 0;
        d = tidy(d);
        check_gradient(&d, 0, chunks[c] + 3, (uint64_t)i, 4);
      }
  gradient_finish();
}

/* A call cut in two on the chunk grid gives the gradients of one call. */
static void test_gradient_chained(void **state) {
  uint64_t variant = 0;
  double worst = 0.0;
  (void)state;
  start();
  random_state = 6;
  for (int layers = 0; layers <= 2; layers++)
    for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++)
      for (int algorithm = 0; algorithm < MIRAS_ALGORITHM_COUNT; algorithm++)
        for (int c = 0; c < 2; c++) {
          const miras_desc d = cell(layers, MIRAS_L2, (miras_retention)retention,
                                    (miras_algorithm)algorithm, chunks[c], ++variant + 60000u);
          const int T = 3 * chunks[c], cut = chunks[c] * 2;
          data x, part[2];
          miras_memory *m;
          float *dx[2][INPUTS], *dparams[2], *dstate, *tape[2], *y;
          miras_tokens tokens, halves[2];
          miras_token_grads g;
          data_new(&x, &d, T, variant);
          m = open_memory(&x);
          if (m == NULL) {
            failed("not opened: %s", label(&d));
            data_free(&x);
            continue;
          }
          part[0] = data_cut(&x, 0, cut);
          part[1] = data_cut(&x, cut, T);
          for (int k = 0; k < 2; k++) {
            for (int i = 0; i < INPUTS; i++)
              dx[k][i] = (float *)zeros(x.in[i].count, sizeof(float));
            dparams[k] = (float *)zeros(x.params.count, sizeof(float));
          }
          dstate = (float *)zeros(miras_dstate_size(m), sizeof(float));
          y = (float *)zeros(x.dy.count, sizeof(float));
          tape[0] = (float *)zeros(miras_tape_size(m, T), sizeof(float));
          tape[1] = (float *)zeros(miras_tape_size(m, T), sizeof(float));
          tokens = data_tokens(&x);
          miras_forward(m, &tokens, y, tape[0]);
          g.key = dx[0][KEY];
          g.value = dx[0][VALUE];
          g.query = dx[0][QUERY];
          g.keep = x.per[KEEP] ? dx[0][KEEP] : NULL;
          g.step = x.per[STEP] ? dx[0][STEP] : NULL;
          g.momentum = x.per[MOMENTUM] ? dx[0][MOMENTUM] : NULL;
          g.threshold = NULL;
          miras_backward(m, &tokens, tape[0], x.dy.f, &g, dparams[0], NULL);
          miras_memory_reset(m);
          for (int k = 0; k < 2; k++) {
            halves[k] = data_tokens(&part[k]);
            if (miras_forward(m, &halves[k], y, tape[k]) != MIRAS_OK)
              failed("forward: %s", label(&d));
          }
          for (int k = 1; k >= 0; k--) {
            float *part_grads[INPUTS];
            for (int i = 0; i < INPUTS; i++)
              part_grads[i] = (float *)zeros(part[k].in[i].count, sizeof(float));
            g.key = part_grads[KEY];
            g.value = part_grads[VALUE];
            g.query = part_grads[QUERY];
            g.keep = x.per[KEEP] ? part_grads[KEEP] : NULL;
            g.step = x.per[STEP] ? part_grads[STEP] : NULL;
            g.momentum = x.per[MOMENTUM] ? part_grads[MOMENTUM] : NULL;
            if (miras_backward(m, &halves[k], tape[k], part[k].dy.f, &g, dparams[1], dstate) !=
                MIRAS_OK)
              failed("backward of part %d: %s", k, label(&d));
            for (int i = 0; i < INPUTS; i++) {
              paste_rows(dx[1][i], part_grads[i], x.d.batch, T, (size_t)x.d.heads * x.per[i],
                         k == 0 ? 0 : cut, k == 0 ? cut : T);
              free(part_grads[i]);
            }
          }
          for (int i = 0; i <= INPUTS; i++) {
            const float *a = i < INPUTS ? dx[0][i] : dparams[0],
                        *b = i < INPUTS ? dx[1][i] : dparams[1];
            const size_t count = i < INPUTS ? x.in[i].count : x.params.count;
            double *wide = (double *)ref_zeros(count), error;
            for (size_t j = 0; j < count; j++) wide[j] = (double)a[j];
            error = error_of(b, wide, count);
            if (error > worst) worst = error;
            if (!(error <= 1e-5) && i != THRESHOLD)
              failed("two calls give another gradient of %s, by %.2e: %s",
                     i < INPUTS ? input_names[i] : "the parameters", error, label(&d));
            free(wide);
          }
          for (int k = 0; k < 2; k++) {
            for (int i = 0; i < INPUTS; i++) free(dx[k][i]);
            free(dparams[k]);
            free(tape[k]);
            data_free(&part[k]);
          }
          free(dstate);
          free(y);
          miras_memory_close(m);
          data_free(&x);
        }
  printf("  chained: largest difference %.2e\n", worst);
  finish();
}

/* ---- promises to the bit ---- */

/* Every cut of a sequence gives the same outputs and the same state; later tokens and batch
 * neighbours, even when they are not numbers, change nothing. */
static void test_bits(void **state) {
  uint64_t variant = 0;
  (void)state;
  start();
  random_state = 7;
  for (int layers = 0; layers <= 2; layers++)
    for (int bias = 0; bias < MIRAS_BIAS_COUNT; bias++)
      for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++)
        for (int c = 0; c < 2; c++) {
          const miras_desc d =
            cell(layers, (miras_bias)bias, (miras_retention)retention,
                 (miras_algorithm)(variant / 2 % 2), chunks[c], variant + 70000u);
          const int T = 2 * chunks[c] + (c == 0 ? 19 : 1);
          data x, single;
          miras_memory *m, *one;
          miras_tokens tokens;
          miras_desc d1;
          float *whole, *y;
          unsigned char *kept;
          size_t bytes = 0, row, H;
          variant++;
          data_new(&x, &d, T, variant);
          m = open_memory(&x);
          if (m == NULL) {
            failed("not opened: %s", label(&d));
            data_free(&x);
            continue;
          }
          H = (size_t)x.d.heads;
          row = H * x.per[VALUE];
          whole = (float *)zeros(x.dy.count, sizeof(float));
          y = (float *)zeros(x.dy.count, sizeof(float));
          tokens = data_tokens(&x);
          miras_forward(m, &tokens, whole, NULL);
          miras_memory_state(m, &bytes);
          kept = (unsigned char *)zeros(bytes, 1);
          memcpy(kept, miras_memory_state(m, NULL), bytes);

          for (int a = -1; a <= T; a++) { /* a token at a time; then two cuts, the second drawn */
            const int cuts[4] = {0, a, a + below(T - a + 1), T}, pieces = a < 0 ? T : 3;
            miras_memory_reset(m);
            for (int k = 0; k < pieces; k++) {
              const int from = a < 0 ? k : cuts[k], to = a < 0 ? k + 1 : cuts[k + 1];
              data part = data_cut(&x, from, to);
              float *py = (float *)zeros(part.dy.count, sizeof(float));
              miras_tokens t = data_tokens(&part);
              if (miras_forward(m, &t, py, NULL) != MIRAS_OK) failed("forward: %s", label(&d));
              paste_rows(y, py, x.d.batch, T, row, from, to);
              free(py);
              data_free(&part);
            }
            if (!same_bits(y, whole, x.dy.count)) {
              failed("cuts at %d and %d change y: %s", cuts[1], cuts[2], label(&d));
              break;
            }
            if (memcmp(miras_memory_state(m, NULL), kept, bytes) != 0) {
              failed("cuts at %d and %d change the state: %s", cuts[1], cuts[2], label(&d));
              break;
            }
          }

          { /* a snapshot put back continues as if nothing had happened; zeros are a reset */
            data part = data_cut(&x, 0, T / 2), rest = data_cut(&x, T / 2, T);
            float *py = (float *)zeros(x.dy.count, sizeof(float));
            float *again = (float *)zeros(x.dy.count, sizeof(float));
            miras_tokens t = data_tokens(&part), u = data_tokens(&rest);
            memset(miras_memory_state(m, NULL), 0, bytes);
            miras_forward(m, &t, py, NULL);
            memcpy(kept, miras_memory_state(m, NULL), bytes);
            miras_forward(m, &u, py, NULL);
            memcpy(miras_memory_state(m, NULL), kept, bytes);
            miras_forward(m, &u, again, NULL);
            cut_rows(y, whole, x.d.batch, T, row, T / 2, T);
            if (!same_bits(py, y, rest.dy.count))
              failed("a zeroed state is no reset: %s", label(&d));
            if (!same_bits(again, y, rest.dy.count))
              failed("a snapshot does not continue: %s", label(&d));
            free(py);
            free(again);
            data_free(&part);
            data_free(&rest);
          }

          { /* the last tokens of everything, then all of sequence 1, become NaN */
            const int from = 1 + below(T - 1);
            for (int pass = 0; pass < 2; pass++) {
              data bad = data_cut(&x, 0, T);
              miras_tokens t;
              for (int i = 0; i < INPUTS; i++)
                for (size_t j = 0; j < bad.in[i].count; j++) {
                  const size_t token = j / (H * bad.per[i]);
                  if (pass == 0 ? (int)(token % (size_t)T) >= from : (int)(token / (size_t)T) == 1)
                    bad.in[i].f[j] = NAN;
                }
              t = data_tokens(&bad);
              miras_memory_reset(m);
              miras_forward(m, &t, y, NULL);
              for (size_t j = 0; j < x.dy.count; j++) {
                const size_t token = j / row;
                const int fine = pass == 0 ? (int)(token % (size_t)T) < from : token < (size_t)T;
                if (fine && memcmp(&y[j], &whole[j], sizeof(float)) != 0) {
                  failed("%s change y at token %d: %s", pass == 0 ? "later tokens" : "neighbours",
                         (int)token, label(&d));
                  break;
                }
              }
              data_free(&bad);
            }
          }

          /* sequence 1 alone, as a batch of one */
          d1 = x.given;
          d1.batch = 1;
          memset(&single, 0, sizeof single);
          data_shape(&single, &d1);
          single.T = T;
          for (int i = 0; i < INPUTS; i++)
            single.in[i] = tensor_cut(&x.in[i], 1, 2 * T, H * x.per[i], T, 2 * T);
          single.dy = tensor_cut(&x.dy, 1, 2 * T, row, T, 2 * T);
          single.params = tensor_cut(&x.params, 1, 1, x.params.count, 0, 1);
          one = open_memory(&single);
          if (one != NULL) {
            miras_tokens t = data_tokens(&single);
            miras_forward(one, &t, y, NULL);
            if (!same_bits(y, whole + single.dy.count, single.dy.count))
              failed("a batch of one differs: %s", label(&d));
          }
          miras_memory_close(one);
          data_free(&single);
          free(kept);
          free(whole);
          free(y);
          miras_memory_close(m);
          data_free(&x);
        }
  finish();
}

/* ---- memories that must be equal ---- */

static double distance(const miras_desc *a, const miras_desc *b, int T) {
  data x;
  miras_memory *m[2];
  float *y[2];
  double *wide, error;
  miras_tokens tokens;
  data_new(&x, a, T, 9);
  tokens = data_tokens(&x);
  for (int i = 0; i < 2; i++) {
    const miras_desc *d = i == 0 ? a : b;
    m[i] = miras_memory_open(d, NULL);
    assert_non_null(m[i]);
    memcpy(miras_memory_params(m[i], NULL), x.params.f, x.params.count * sizeof(float));
    miras_memory_reset(m[i]);
    y[i] = (float *)zeros(x.dy.count, sizeof(float));
    assert_int_equal(miras_forward(m[i], &tokens, y[i], NULL), MIRAS_OK);
  }
  wide = (double *)ref_zeros(x.dy.count);
  for (size_t i = 0; i < x.dy.count; i++) wide[i] = (double)y[0][i];
  error = error_of(y[1], wide, x.dy.count);
  free(wide);
  for (int i = 0; i < 2; i++) {
    miras_memory_close(m[i]);
    free(y[i]);
  }
  data_free(&x);
  return error;
}

static miras_desc preset(miras_kind kind) {
  miras_desc d;
  assert_int_equal(miras_preset(&d, kind), MIRAS_OK);
  assert_true(d.chunk <= 1);
  d.key_dim = d.value_dim = 6;
  d.heads = 2;
  d.batch = 2;
  return d;
}

#define EQUAL(a, b)                                                             \
  do {                                                                          \
    const double error_ = distance(&(a), &(b), 23);                             \
    if (!(error_ <= 5e-6)) failed("line %d: differ by %.2e", __LINE__, error_); \
  } while (0)

static void test_equalities(void **state) {
  miras_desc a, b;
  (void)state;
  start();

  a = preset(MIRAS_GATED_DELTANET); /* without forgetting: DeltaNet */
  b = preset(MIRAS_DELTANET);
  a.forget = 0.0f;
  b.step = a.step = 0.7f;
  EQUAL(a, b);

  a = preset(MIRAS_DELTANET); /* a mixture whose threshold is never reached: DeltaNet */
  a.step = 0.6f;
  b = a;
  b.bias = MIRAS_HUBER_MIXTURE;
  b.threshold = 1e6f;
  EQUAL(a, b);
  b.sharpness = 0.0f;
  b.bias = MIRAS_HUBER;
  EQUAL(a, b);
  b.bias = MIRAS_HUBER_NORM;
  EQUAL(a, b);

  for (int chunk = 1; chunk <= 4; chunk += 3) {
    a = preset(MIRAS_TITANS); /* without momentum: gradient descent */
    a.chunk = chunk;
    a.momentum = 0.0f;
    b = a;
    b.algorithm = MIRAS_GRADIENT_DESCENT;
    b = tidy(b);
    EQUAL(a, b);

    a = b; /* |r|^2 is twice 1/2 |r|^2 */
    a.bias = MIRAS_LP;
    a.p = 2.0f;
    a.step = 0.05f;
    b.step = 0.1f;
    EQUAL(a, b);

    a = b; /* q = 2 is no link at all */
    a.retention = MIRAS_RETAIN_LQ;
    a.q = 2.0f;
    EQUAL(a, b);
    a.retention = MIRAS_RETAIN_LQ_PNORM;
    if (chunk == 1) EQUAL(a, b);

    a = b; /* an L2 memory that forgets nothing */
    a.forget = 0.0f;
    b.retention = MIRAS_RETAIN_ALL;
    b = tidy(b);
    EQUAL(a, b);
  }

  a = preset(
    MIRAS_RETNET); /* a dot product's gradient knows no weights: chunks are only a schedule */
  b = a;
  b.chunk = 8;
  EQUAL(a, b);
  a = preset(MIRAS_LINEAR_ATTENTION);
  b = preset(MIRAS_RETNET);
  b.forget = b.forget_ratio = 0.0f;
  b.step = a.step = 0.3f;
  EQUAL(a, b);
  finish();
}

/* The oldest row, from its definition: y_t = sum over s <= t of (k_s . q_t) v_s. */
static void test_linear_attention(void **state) {
  miras_desc d = preset(MIRAS_LINEAR_ATTENTION);
  data x;
  miras_memory *m;
  miras_tokens tokens;
  float *y;
  double *expected;
  const int T = 40;
  (void)state;
  start();
  data_new(&x, &d, T, 3);
  memset(x.params.f, 0, x.params.count * sizeof(float));
  m = open_memory(&x);
  assert_non_null(m);
  y = (float *)zeros(x.dy.count, sizeof(float));
  expected = (double *)ref_zeros(x.dy.count);
  tokens = data_tokens(&x);
  assert_int_equal(miras_forward(m, &tokens, y, NULL), MIRAS_OK);
  for (int b = 0; b < 2; b++)
    for (int t = 0; t < T; t++)
      for (int h = 0; h < 2; h++)
        for (int s = 0; s <= t; s++) {
          const size_t at = (size_t)((b * T + t) * 2 + h) * 6,
                       from = (size_t)((b * T + s) * 2 + h) * 6;
          double dot = 0.0;
          for (size_t i = 0; i < 6; i++) dot += x.in[KEY].d[from + i] * x.in[QUERY].d[at + i];
          for (size_t i = 0; i < 6; i++)
            expected[at + i] += (double)x.d.step * dot * x.in[VALUE].d[from + i];
        }
  if (!(error_of(y, expected, x.dy.count) <= FORWARD))
    failed("linear attention off by %.2e", error_of(y, expected, x.dy.count));
  free(y);
  free(expected);
  miras_memory_close(m);
  data_free(&x);
  finish();
}

/* ---- presets, refusals, states ---- */

static void test_presets(void **state) {
  (void)state;
  start();
  random_state = 8;
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++) {
    miras_desc d;
    char why[200] = "";
    const char *name = miras_kind_name((miras_kind)kind);
    assert_non_null(name);
    assert_int_equal(miras_kind_find(name), kind);
    assert_int_equal(miras_preset(&d, (miras_kind)kind), MIRAS_OK);
    if (miras_memory_size(&d, why, sizeof why) != 0) failed("%s needs no key_dim", name);
    if (strstr(why, "key_dim") == NULL) failed("%s: \"%s\" does not name key_dim", name, why);
    d.key_dim = d.value_dim = 5;
    d.heads = 3;
    for (int c = 0; c < 2; c++) {
      d.chunk = chunks[c];
      if (d.order == MIRAS_DECAY_FIRST && c > 0) continue;
      check_forward(&d, 14, (uint64_t)kind);
    }
  }
  assert_null(miras_kind_name(MIRAS_KIND_COUNT));
  assert_int_equal(miras_kind_find("nobody"), MIRAS_KIND_COUNT);
  finish();
}

#define REFUSED(field, value)                                                      \
  do {                                                                             \
    miras_desc d_ = preset(MIRAS_YAAD);                                            \
    char why_[200] = "";                                                           \
    d_.field = value;                                                              \
    if (miras_memory_size(&d_, why_, sizeof why_) != 0 || why_[0] == '\0')         \
      failed("line %d: " #field " = " #value " is not refused", __LINE__);         \
    else if (strstr(why_, #field) == NULL)                                         \
      failed("line %d: \"%s\" does not name " #field, __LINE__, why_);             \
    if (miras_memory_open(&d_, NULL) != NULL) failed("line %d: opened", __LINE__); \
  } while (0)

static void test_refusals(void **state) {
  miras_desc d;
  data x;
  miras_memory *m;
  miras_tokens tokens;
  float *y, *tape;
  unsigned char *buffer;
  size_t bytes;
  (void)state;
  start();
  REFUSED(key_dim, 0);
  REFUSED(key_dim, -3);
  REFUSED(key_dim, 5000);
  REFUSED(value_dim, 5000);
  REFUSED(heads, -1);
  REFUSED(batch, -1);
  REFUSED(chunk, 2000);
  REFUSED(depth, 5);
  REFUSED(expansion, 17);
  REFUSED(forget, 1.5f);
  REFUSED(forget, -0.5f);
  REFUSED(forget, NAN);
  REFUSED(step, -1.0f);
  REFUSED(momentum, 2.0f);
  REFUSED(threshold, -1.0f);
  REFUSED(p, 9.0f);
  REFUSED(q, 9.0f);
  REFUSED(sharpness, 1000.0f);
  REFUSED(simplex, -1.0f);
  REFUSED(bias, (miras_bias)77);
  REFUSED(retention, (miras_retention)77);
  REFUSED(order, MIRAS_DECAY_FIRST);

  d = preset(MIRAS_YAAD);
  d.chunk = 4;
  d.step_gate = MIRAS_GATE_HEAD;
  bytes = miras_memory_size(&d, NULL, 0);
  assert_true(bytes > 0);
  buffer = (unsigned char *)zeros(bytes + 8, 1);
  assert_null(miras_memory_init(buffer, bytes - 1, &d));
  m = miras_memory_init(buffer + 1, bytes, &d); /* any alignment */
  assert_non_null(m);
  data_new(&x, &d, 6, 1);
  tokens = data_tokens(&x);
  y = (float *)zeros(x.dy.count, sizeof(float));
  tape = (float *)zeros(miras_tape_size(m, 6), sizeof(float));
  /* learned gates: there is no constant step to write with, and nothing is written */
  if (!isnan(miras_write(m, x.in[KEY].f, x.in[VALUE].f))) failed("a write without its gates");
  assert_true(miras_memory_position(m) == 0);
  assert_int_equal(miras_forward(m, &tokens, y, tape), MIRAS_OK);
  assert_true(miras_memory_position(m) == 6);
  if (miras_forward(m, &tokens, y, tape) != MIRAS_ERR_STATE) failed("a tape from inside a chunk");
  assert_true(miras_memory_position(m) == 6);
  miras_memory_reset(m);
  assert_true(miras_memory_position(m) == 0);
  free(buffer);
  free(y);
  free(tape);
  data_free(&x);
  finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_forward_grid),
    cmocka_unit_test(test_forward_lengths),
    cmocka_unit_test(test_forward_gates),
    cmocka_unit_test(test_step),
    cmocka_unit_test(test_gradient_grid),
    cmocka_unit_test(test_gradient_state),
    cmocka_unit_test(test_gradient_more),
    cmocka_unit_test(test_gradient_chained),
    cmocka_unit_test(test_bits),
    cmocka_unit_test(test_equalities),
    cmocka_unit_test(test_linear_attention),
    cmocka_unit_test(test_presets),
    cmocka_unit_test(test_refusals),
  };
  printf("instruction set: %s\n", miras_isa());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
