/* memories.h: what the tests of single memories share: descriptors from every corner of the
 * framework, random data for them in both precisions, and the search for data that float can
 * follow. Include miras.h, check.h and reference.h first.
 */
#ifndef MIRAS_TEST_MEMORIES_H
#define MIRAS_TEST_MEMORIES_H

#include "inside.h"

#if defined(__GNUC__)
  #define HELP static __attribute__((unused))
#else
  #define HELP static
#endif

#define FORWARD  (2e-5 * slack)
#define GRADIENT (1e-4 * slack)
#define NOISE    3e-9 /* of a central difference in double */

/* How many times as much a case may be off: Newton and Schulz make of a rounding in S one that is
 * some hundred times as large, where S has fewer directions than its matrix. */
static double slack = 1.0;

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* ---- a report that goes on after a failure, so that one run shows all of them ---- */

#ifndef SHOWN
  #define SHOWN 25 /* failures printed per test */
#endif

HELP int failures;
HELP int settled, unsettled; /* searches for data, and those without a result */
HELP int excused; /* beyond the bound, yet within a few times what no float can avoid */
HELP double worst_excuse; /* and the most times that were needed */

HELP void start(void) {
  failures = excused = settled = unsettled = 0;
  worst_excuse = 0.0;
}

HELP void failed(const char *format, ...) {
  va_list list;
  failures++;
  if (failures > SHOWN) return;
  va_start(list, format);
  fprintf(stderr, "  ");
  vfprintf(stderr, format, list);
  fprintf(stderr, "\n");
  va_end(list);
#ifdef MIRAS_TEST_FIRST /* of many broken libraries: mutate.sh asks only whether it is one */
  exit(1);
#endif
}

HELP void finish(void) {
  if (unsettled > 2 && unsettled * 50 > settled)
    failed("no settled data for %d of %d", unsettled, settled);
  if (failures > 0) fail_msg("%d checks failed", failures);
}

/* ---- pools of choices ----
 * Grids walk over pairs of a bias and a retention, pool after pool, and what is drawn for a case
 * follows from its number. So a new choice, whose pairs are a pool of their own behind the others,
 * adds cases and changes none. Every pair is in one pool. */

typedef struct choice_pool {
  int biases, retentions;
  miras_bias bias[MIRAS_BIAS_COUNT];
  miras_retention retention[MIRAS_RETENTION_COUNT];
} choice_pool;

static const choice_pool pools[] = {
  {11,
   13,
   {MIRAS_BIAS_DOT, MIRAS_BIAS_L2, MIRAS_BIAS_LP, MIRAS_BIAS_LP_SMOOTH, MIRAS_BIAS_HUBER,
    MIRAS_BIAS_HUBER_NORM, MIRAS_BIAS_HUBER_MIXTURE, MIRAS_BIAS_PSEUDO_HUBER,
    MIRAS_BIAS_SHIFT_ROBUST, MIRAS_BIAS_LOG_COSH, MIRAS_BIAS_CUSTOM},
   {MIRAS_RETENTION_ALL, MIRAS_RETENTION_L2, MIRAS_RETENTION_LQ, MIRAS_RETENTION_LQ_PNORM,
    MIRAS_RETENTION_KL, MIRAS_RETENTION_L2_BOTH, MIRAS_RETENTION_ELASTIC,
    MIRAS_RETENTION_ELASTIC_FTRL, MIRAS_RETENTION_SIGMOID, MIRAS_RETENTION_CHI2,
    MIRAS_RETENTION_REVERSE_KL, MIRAS_RETENTION_HELLINGER, MIRAS_RETENTION_CUSTOM}},
  {11,
   1,
   {MIRAS_BIAS_DOT, MIRAS_BIAS_L2, MIRAS_BIAS_LP, MIRAS_BIAS_LP_SMOOTH, MIRAS_BIAS_HUBER,
    MIRAS_BIAS_HUBER_NORM, MIRAS_BIAS_HUBER_MIXTURE, MIRAS_BIAS_PSEUDO_HUBER,
    MIRAS_BIAS_SHIFT_ROBUST, MIRAS_BIAS_LOG_COSH, MIRAS_BIAS_CUSTOM},
   {MIRAS_RETENTION_TANH}},
  {1,
   14,
   {MIRAS_BIAS_CROSS_ENTROPY},
   {MIRAS_RETENTION_ALL, MIRAS_RETENTION_L2, MIRAS_RETENTION_LQ, MIRAS_RETENTION_LQ_PNORM,
    MIRAS_RETENTION_KL, MIRAS_RETENTION_L2_BOTH, MIRAS_RETENTION_ELASTIC,
    MIRAS_RETENTION_ELASTIC_FTRL, MIRAS_RETENTION_SIGMOID, MIRAS_RETENTION_CHI2,
    MIRAS_RETENTION_REVERSE_KL, MIRAS_RETENTION_HELLINGER, MIRAS_RETENTION_CUSTOM,
    MIRAS_RETENTION_TANH}},
};

static int pool_at; /* the one that is walked, or the first */

/* The one after p, NULL: the first; NULL: there is no other. */
HELP const choice_pool *next_pool(const choice_pool *p) {
  const int next = p == NULL ? 0 : pool_at + 1;
  pool_at = next < COUNT(pools) ? next : 0;
  return next < COUNT(pools) ? &pools[next] : NULL;
}

/* The algorithms of the grids; later ones have tests of their own, so that no case changes. */
enum { ALGORITHMS = MIRAS_ALGORITHM_NORMALIZED };

#define EACH_POOL(p) const choice_pool *p = NULL; (p = next_pool(p)) != NULL;

/* Of long grids about one case in MIRAS_TEST_SHARE is checked (check.h), and of lists of models
 * every third or seventh. */
enum { THIN = MIRAS_TEST_SHARE > 64 ? 7 : MIRAS_TEST_SHARE > 16 ? 3 : 1 };

HELP int my_share(void) {
  static uint32_t turns[COUNT(pools)];
  const uint32_t turn = turns[pool_at]++;
  return (turn * 2654435761u >> 16) % MIRAS_TEST_SHARE == 0; /* in no step with any grid */
}

/* ---- random data ---- */

HELP uint64_t random_state;

HELP uint64_t draw(void) {
  uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

HELP float uniform(float low, float high) {
  return low + (high - low) * (float)(draw() >> 40) / 16777216.0f;
}

HELP int below(int n) { return (int)(draw() % (uint64_t)n); }

/* The same numbers in both precisions. */
typedef struct tensor {
  size_t count;
  float *f;
  double *d;
} tensor;

HELP void *zeros(size_t count, size_t size) {
  void *p = calloc(count > 0 ? count : 1, size);
  if (p == NULL) abort();
  return p;
}

HELP tensor tensor_new(size_t count, float low, float high) {
  tensor t;
  t.count = count;
  t.f = (float *)zeros(count, sizeof(float));
  t.d = (double *)zeros(count, sizeof(double));
  for (size_t i = 0; i < count; i++) t.d[i] = (double)(t.f[i] = uniform(low, high));
  return t;
}

HELP void tensor_free(tensor *t) {
  free(t->f);
  free(t->d);
}

HELP void unit_rows(tensor *t, size_t n) {
  for (size_t r = 0; r + n <= t->count; r += n) {
    double sum = 1e-9;
    for (size_t i = 0; i < n; i++) sum += t->d[r + i] * t->d[r + i];
    for (size_t i = 0; i < n; i++)
      t->d[r + i] = (double)(t->f[r + i] = (float)(t->d[r + i] / sqrt(sum)));
  }
}

enum {
  KEY, VALUE, QUERY, KEEP, STEP, MOMENTUM, THRESHOLD, VALUE_KEEP, ERASE, REPLACE, INPUTS
};
static const char *const input_names[INPUTS] = {"key",       "value",      "query", "keep",
                                                "step",      "momentum",   "threshold",
                                                "value keep", "erase",     "replace"};

/* T tokens for a descriptor, the initial memory, and the weights dy of a linear functional of y. */
typedef struct data {
  miras_memory_desc given, d; /* as the library is asked, and with the defaults filled in */
  int T;
  tensor in[INPUTS];  /* count 0 where the gate is a constant */
  size_t per[INPUTS]; /* entries per sequence, token and head */
  size_t out;         /* the same of y */
  tensor params, dy;
} data;

HELP void data_shape(data *x, const miras_memory_desc *d) {
  x->given = *d;
  x->d = ref_resolve(d);
  x->out = (size_t)x->d.value_dim;
  x->per[KEY] = (size_t)(x->d.key_dim * x->d.inner_steps);
  x->per[QUERY] = (size_t)x->d.key_dim;
  x->per[VALUE] = (size_t)(x->d.value_dim * x->d.inner_steps);
  x->per[KEEP] = (size_t)ref_keep_width(&x->d);
  x->per[STEP] =
    (size_t)(ref_gate_width(x->d.learning_rate_gate, x->d.value_dim) * x->d.inner_steps);
  x->per[MOMENTUM] = x->d.momentum_gate == MIRAS_GATE_CONSTANT ? 0 : 1;
  x->per[THRESHOLD] = (size_t)ref_gate_width(x->d.threshold_gate, x->d.value_dim);
  x->per[VALUE_KEEP] = x->d.value_decay_gate == MIRAS_GATE_CONSTANT ? 0 : x->out;
  x->per[ERASE] = x->per[REPLACE] = x->d.separate_erase ? x->per[QUERY] : 0;
}

/* Memories that strong forgetting makes chaotic: a layer norm divides by what is left of the
 * weights, and Moneta's link turns a smaller A into a larger W. What returns to its initial memory
 * may forget as fast as it likes. */
HELP int fragile(const miras_memory_desc *d) {
  return (d->inner_norm || d->retention == MIRAS_RETENTION_LQ) && !d->decay_target;
}

/* Initial memories that are given as logits. */
HELP int has_logits(const miras_memory_desc *d) {
  return ref_is_simplex(d) || d->retention == MIRAS_RETENTION_SIGMOID;
}

static float logit_spread = 1.5f; /* of those */

/* Draw decays from the ends of their range too: 0, numbers too small for a normal float, 1. */
static int edge_decays;

HELP void tensor_set(tensor *t, size_t i, float value) { t->d[i] = (double)(t->f[i] = value); }

HELP void other_lengths(tensor *t, size_t n) {
  for (size_t r = 0; r + n <= t->count; r += n) {
    const float by = uniform(0.3f, 3.0f);
    for (size_t i = r; i < r + n; i++) tensor_set(t, i, by * t->f[i]);
  }
}

/* Keys for a memory that judges its pairs: some far too long or too short, and in one case of four
 * each the first of a head zeros, or by far the longest. One that brings the unit of ridges is not
 * short: P is 1 / ridge of its square, of which a float's adjoint keeps few digits. */
HELP void wild_lengths(tensor *t, const miras_memory_desc *d, int T, int which) {
  const size_t n = (size_t)d->key_dim, heads = (size_t)d->heads;
  for (size_t r = 0; r < t->count / n; r++) {
    const int first = r / heads % (size_t)T == 0, kind = below(8);
    float by = kind == 0 ? uniform(3.0f, 30.0f) : kind == 1 ? uniform(0.03f, 0.3f) : 1.0f;
    if (r / heads % (size_t)T < 2 && by < 1.0f) by = 1.0f;
    if (first && which == 1) by = 0.0f;
    if (first && which == 2) by = uniform(20.0f, 60.0f);
    for (size_t i = r * n; i < (r + 1) * n; i++) tensor_set(t, i, by * t->f[i]);
  }
}

HELP void draw_edges(tensor *t) {
  static const float ends[] = {0.0f, 1e-45f, 1e-39f, 1e-20f, 0.5f, 1.0f, 1.0f};
  for (size_t i = 0; i < t->count; i++)
    if (below(4) == 0) tensor_set(t, i, ends[below((int)(sizeof ends / sizeof *ends))]);
}

/* Parameters after the initial memory: gain and bias of the inner norm, row rates, and the raw
 * diagonal of Newton. */
HELP size_t params_gain(const data *x) {
  return (size_t)x->d.heads * ref_shape_of(&x->d).weights;
}

HELP size_t params_rho(const data *x) {
  return params_gain(x) + (x->d.inner_norm ? 2 * (size_t)x->d.heads * x->out : 0);
}

HELP void data_new(data *x, const miras_memory_desc *given, int T, uint64_t seed) {
  const miras_memory_desc d = ref_resolve(given);
  const ref_shape s = ref_shape_of(&d);
  const size_t rows = (size_t)d.batch * (size_t)T * (size_t)d.heads, n = (size_t)d.key_dim;
  const float keep = fragile(&d) ? 0.98f : d.decay_target ? 0.7f : 0.9f;
  const float lowest = d.normalize ? 0.1f : -1.0f; /* so that the divisor keeps away from 0 */
  random_state = seed * 77777u + 1;
  memset(x, 0, sizeof *x);
  x->T = T;
  data_shape(x, given);
  x->in[KEY] = tensor_new(rows * x->per[KEY], lowest, 1.0f);
  x->in[QUERY] = tensor_new(rows * x->per[QUERY], lowest, 1.0f);
  unit_rows(&x->in[KEY], n);
  unit_rows(&x->in[QUERY], n);
  if (d.qk_norm) { /* what the memory brings to a length has another */
    other_lengths(&x->in[KEY], n);
    other_lengths(&x->in[QUERY], n);
  }
  x->in[VALUE] = tensor_new(rows * x->per[VALUE], -1.0f, 1.0f);
  for (size_t i = 0; i < x->in[VALUE].count && d.bias == MIRAS_BIAS_CROSS_ENTROPY; i++)
    if (i / x->out % 5 > 0) /* weights of categories, now and then as a network may have them */
      tensor_set(&x->in[VALUE], i, 0.05f + fabsf(x->in[VALUE].f[i]));
  x->in[KEEP] = tensor_new(rows * x->per[KEEP], d.decay_gate == MIRAS_GATE_ENTRY ? 0.02f : keep,
                           1.0f);
  x->in[STEP] = tensor_new(rows * x->per[STEP], 0.3f * d.learning_rate, d.learning_rate);
  x->in[MOMENTUM] = tensor_new(rows * x->per[MOMENTUM], 0.1f, 0.7f);
  x->in[THRESHOLD] = tensor_new(rows * x->per[THRESHOLD], 0.6f * d.threshold, 1.4f * d.threshold);
  x->in[VALUE_KEEP] = tensor_new(rows * x->per[VALUE_KEEP], keep, 1.0f);
  if (edge_decays) {
    draw_edges(&x->in[KEEP]);
    draw_edges(&x->in[VALUE_KEEP]);
    draw_edges(&x->in[MOMENTUM]);
  }
  x->in[ERASE] = tensor_new(rows * x->per[ERASE], -1.0f, 1.0f);
  x->in[REPLACE] = tensor_new(rows * x->per[REPLACE], -0.2f, 0.2f);
  unit_rows(&x->in[ERASE], n); /* a = -u; b = rate u and a little else: I + b a' stays calm */
  for (size_t r = 0; r < x->in[ERASE].count; r += n) {
    const float rate = uniform(0.2f, 0.8f);
    for (size_t i = r; i < r + n; i++)
      tensor_set(&x->in[REPLACE], i, x->in[REPLACE].f[i] - rate * x->in[ERASE].f[i]);
  }
  x->params = tensor_new(ref_params_count(&d), -1.0f, 1.0f);
  for (int h = 0; h < d.heads; h++)
    for (int l = 0; l < s.layers; l++)
      for (size_t i = 0; i < (size_t)s.in[l] * (size_t)s.out[l]; i++) {
        const size_t at = (size_t)h * s.weights + s.at[l] + i;
        float w = x->params.f[at];
        if (d.retention == MIRAS_RETENTION_KL)
          w *= logit_spread;
        else if (d.retention == MIRAS_RETENTION_SIGMOID) /* all weights are positive: small ones */
          w = 0.6f * logit_spread * w - logf((float)s.in[l]);
        else if (has_logits(&d)) /* these take the logarithm of weights, or divide by them */
          w *= 0.6f * logit_spread;
        else
          w *= 1.6f / sqrtf((float)s.in[l]);
        if (d.retention == MIRAS_RETENTION_LQ_PNORM || d.retention == MIRAS_RETENTION_LQ)
          w += w < 0.0f ? -0.2f : 0.2f; /* away from the sign change of the link */
        tensor_set(&x->params, at, w);
      }
  for (int h = 0; d.normalize && h < d.heads; h++) /* sums of what is never negative */
    for (size_t i = 0; i < (size_t)ref_features(&d); i++) {
      const size_t at = (size_t)(h + 1) * s.weights - 1 - i;
      tensor_set(&x->params, at, 0.2f + fabsf(x->params.f[at]));
    }
  if (d.inner_norm) /* gain near 1 */
    for (size_t i = 0; i < (size_t)d.heads * x->out; i++)
      tensor_set(&x->params, params_gain(x) + i, 1.0f + 0.3f * x->params.f[params_gain(x) + i]);
  for (int t = 0; d.token_rates && t < d.chunk; t++)
    tensor_set(&x->params, params_rho(x) + (size_t)t,
               0.3f * x->params.f[params_rho(x) + (size_t)t]);
  x->dy = tensor_new(rows * x->out, -1.0f, 1.0f);
  if (ref_judges(&d) && !d.qk_norm && !d.feature_map)
    wild_lengths(&x->in[KEY], &d, T, (int)(seed % 4));
}

HELP void data_free(data *x) {
  for (int i = 0; i < INPUTS; i++) tensor_free(&x->in[i]);
  tensor_free(&x->params);
  tensor_free(&x->dy);
}

HELP miras_memory_input data_tokens(const data *x) {
  miras_memory_input t;
  memset(&t, 0, sizeof t);
  t.length = x->T;
  t.key = x->in[KEY].f;
  t.value = x->in[VALUE].f;
  t.query = x->in[QUERY].f;
  t.keep = x->per[KEEP] ? x->in[KEEP].f : NULL;
  t.learning_rate = x->per[STEP] ? x->in[STEP].f : NULL;
  t.momentum = x->per[MOMENTUM] ? x->in[MOMENTUM].f : NULL;
  t.threshold = x->per[THRESHOLD] ? x->in[THRESHOLD].f : NULL;
  t.value_keep = x->per[VALUE_KEEP] ? x->in[VALUE_KEEP].f : NULL;
  t.erase = x->per[ERASE] ? x->in[ERASE].f : NULL;
  t.replace = x->per[REPLACE] ? x->in[REPLACE].f : NULL;
  return t;
}

HELP ref_tokens data_reference(const data *x) {
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
  t.value_keep = x->in[VALUE_KEEP].d;
  t.erase = x->in[ERASE].d;
  t.replace = x->in[REPLACE].d;
  return t;
}

/* Where miras_memory_backward puts the gradients of x's inputs. */
HELP miras_memory_input_grad data_grads(const data *x, float *const *dx) {
  miras_memory_input_grad g;
  memset(&g, 0, sizeof g);
  g.key = dx[KEY];
  g.value = dx[VALUE];
  g.query = dx[QUERY];
  g.keep = x->per[KEEP] ? dx[KEEP] : NULL;
  g.learning_rate = x->per[STEP] ? dx[STEP] : NULL;
  g.momentum = x->per[MOMENTUM] ? dx[MOMENTUM] : NULL;
  g.threshold = x->per[THRESHOLD] ? dx[THRESHOLD] : NULL;
  g.value_keep = x->per[VALUE_KEEP] ? dx[VALUE_KEEP] : NULL;
  g.erase = x->per[ERASE] ? dx[ERASE] : NULL;
  g.replace = x->per[REPLACE] ? dx[REPLACE] : NULL;
  return g;
}

/* Tokens from..to-1 of [batch, T, per] and back. */
HELP void cut_rows(float *to, const float *from, int batch, int T, size_t per, int a, int b) {
  for (int n = 0; n < batch; n++)
    for (size_t i = 0; i < (size_t)(b - a) * per; i++)
      to[(size_t)n * (size_t)(b - a) * per + i] =
        from[((size_t)n * (size_t)T + (size_t)a) * per + i];
}

HELP void paste_rows(float *to, const float *from, int batch, int T, size_t per, int a, int b) {
  for (int n = 0; n < batch; n++)
    for (size_t i = 0; i < (size_t)(b - a) * per; i++)
      to[((size_t)n * (size_t)T + (size_t)a) * per + i] =
        from[(size_t)n * (size_t)(b - a) * per + i];
}

HELP tensor tensor_cut(const tensor *from, int batch, int T, size_t per, int a, int b) {
  tensor t = tensor_new((size_t)batch * (size_t)(b - a) * per, 0.0f, 0.0f);
  cut_rows(t.f, from->f, batch, T, per, a, b);
  for (size_t i = 0; i < t.count; i++) t.d[i] = (double)t.f[i];
  return t;
}

/* Tokens a..b-1 as data of their own. */
HELP data data_cut(const data *x, int a, int b) {
  data y;
  const size_t H = (size_t)x->d.heads;
  memset(&y, 0, sizeof y);
  data_shape(&y, &x->given);
  y.T = b - a;
  for (int i = 0; i < INPUTS; i++)
    y.in[i] = tensor_cut(&x->in[i], x->d.batch, x->T, H * x->per[i], a, b);
  y.dy = tensor_cut(&x->dy, x->d.batch, x->T, H * x->out, a, b);
  y.params = tensor_cut(&x->params, 1, 1, x->params.count, 0, 1);
  return y;
}

/* ---- the custom choices ----
 * l = sum (1 + v^2/4) delta^2 log cosh(r/delta), and W = A / sqrt(1 + mean A^2). */

HELP float custom_bias(void *user, float *error, const float *r, const float *value,
                       float threshold, int dv) {
  float loss = 0.0f;
  (void)user;
  for (int i = 0; i < dv; i++) {
    const float more = 1.0f + 0.25f * value[i] * value[i];
    error[i] = more * threshold * tanhf(r[i] / threshold);
    loss += more * threshold * threshold * logf(coshf(r[i] / threshold));
  }
  return loss;
}

HELP float custom_bias_adjoint(void *user, float *dr, float *dvalue, const float *be,
                               const float *r, const float *value, float threshold, int dv) {
  float dthreshold = 0.0f;
  (void)user;
  for (int i = 0; i < dv; i++) {
    const float more = 1.0f + 0.25f * value[i] * value[i], z = r[i] / threshold, t = tanhf(z);
    dr[i] = be[i] * more * (1.0f - t * t);
    dvalue[i] = be[i] * 0.5f * value[i] * threshold * t;
    dthreshold += be[i] * more * (t - z * (1.0f - t * t));
  }
  return dthreshold;
}

HELP void custom_link(void *user, float *w, const float *a, int in, int out) {
  double sum = 0.0;
  const int n = in * out;
  (void)user;
  for (int i = 0; i < n; i++) sum += (double)a[i] * (double)a[i];
  for (int i = 0; i < n; i++) w[i] = (float)((double)a[i] / sqrt(1.0 + sum / n));
}

HELP void custom_link_adjoint(void *user, float *da, const float *dw, const float *a,
                              const float *w, int in, int out) {
  double sum = 0.0, along = 0.0, by;
  const int n = in * out;
  (void)user;
  (void)w;
  for (int i = 0; i < n; i++) {
    sum += (double)a[i] * (double)a[i];
    along += (double)a[i] * (double)dw[i];
  }
  by = sqrt(1.0 + sum / n);
  for (int i = 0; i < n; i++)
    da[i] += (float)((double)dw[i] / by - (double)a[i] * along / (n * by * by * by));
}

HELP double custom_bias_double(double *error, const double *r, const double *value,
                               double threshold, int dv) {
  double loss = 0.0;
  for (int i = 0; i < dv; i++) {
    const double more = 1.0 + 0.25 * value[i] * value[i];
    error[i] = more * threshold * tanh(r[i] / threshold);
    loss += more * threshold * threshold * log(cosh(r[i] / threshold));
  }
  return loss;
}

HELP void custom_link_double(double *w, const double *a, int in, int out) {
  double sum = 0.0;
  const int n = in * out;
  for (int i = 0; i < n; i++) sum += a[i] * a[i];
  for (int i = 0; i < n; i++) w[i] = a[i] / sqrt(1.0 + sum / n);
}

static const miras_custom custom_choices = {custom_bias, custom_bias_adjoint, custom_link,
                                            custom_link_adjoint, NULL};

HELP void custom_install(void) {
  ref_hooks.bias = custom_bias_double;
  ref_hooks.link = custom_link_double;
}

/* ---- descriptors ---- */

/* Word i of a field, as in files. */
HELP const char *word_of(const char *field, int i) {
  static char words[8][32];
  static int turn;
  turn = (turn + 1) % 8;
  return inside_word(words[turn], field, i) ? words[turn] : "?";
}

/* The four choices, then everything that is not zero. */
HELP const char *label(const miras_memory_desc *d) {
  static char text[1600];
  miras_model_desc given, zero;
  size_t n = 0;
  memset(&given, 0, sizeof given);
  memset(&zero, 0, sizeof zero);
  given.layer[0].memory = *d;
  for (int i = 0, count = 0; miras_model_desc_field(i) != NULL; i++) {
    const char *name = miras_model_desc_field(i);
    char value[32], none[32];
    if (strncmp(name, "memory.", 7) != 0) continue;
    miras_model_desc_get(&given, name, value, sizeof value);
    miras_model_desc_get(&zero, name, none, sizeof none);
    if (count++ < 4) n += (size_t)snprintf(text + n, sizeof text - n, "%s | ", value);
    else if (strcmp(value, none) != 0)
      n += (size_t)snprintf(text + n, sizeof text - n, "%s %s ", name + strlen("memory."), value);
  }
  snprintf(text + n, sizeof text - n, "batch %d", d->batch);
  return text;
}

/* Does a decay, if there is one, have an initial memory to lead to? */
HELP int may_return(const miras_memory_desc *d) {
  miras_memory_desc with = *d;
  with.decay_target = MIRAS_DECAY_TARGET_INITIAL;
  return (ref_decays(&with) || d->retention == MIRAS_RETENTION_L2_BOTH ||
          d->retention == MIRAS_RETENTION_ELASTIC_FTRL) && !d->diagonal &&
         !ref_squares(d);
}

/* Can steps be bounded by what they do to their own pair? */
HELP int may_bound(const miras_memory_desc *d) {
  return d->architecture != MIRAS_ARCH_KV_CACHE && !d->separate_erase &&
         d->bias != MIRAS_BIAS_DOT && d->bias != MIRAS_BIAS_CUSTOM &&
         d->retention != MIRAS_RETENTION_LQ_PNORM && d->retention != MIRAS_RETENTION_CUSTOM &&
         (d->algorithm == MIRAS_ALGORITHM_GD || d->algorithm == MIRAS_ALGORITHM_MOMENTUM);
}

/* Can steps be scaled by rates of rows? */
HELP int may_rate(const miras_memory_desc *d) {
  return d->architecture != MIRAS_ARCH_KV_CACHE && d->algorithm == MIRAS_ALGORITHM_GD &&
         !(d->architecture == MIRAS_ARCH_MATRIX && d->bias <= MIRAS_BIAS_L2) &&
         (d->retention == MIRAS_RETENTION_ALL ||
          (d->retention == MIRAS_RETENTION_L2 && d->decay_target));
}

HELP int has_momentum(const miras_memory_desc *d) {
  return d->algorithm == MIRAS_ALGORITHM_MOMENTUM || d->algorithm == MIRAS_ALGORITHM_MUON;
}

/* Can steps be of several tokens? */
HELP int may_look_back(const miras_memory_desc *d) {
  return d->architecture != MIRAS_ARCH_KV_CACHE && d->architecture != MIRAS_ARCH_VECTOR &&
         (d->retention == MIRAS_RETENTION_ALL || d->retention == MIRAS_RETENTION_L2) &&
         (d->algorithm == MIRAS_ALGORITHM_GD || has_momentum(d)) && d->inner_steps <= 1 &&
         !d->token_rates && !ref_resolve(d).step_bound && d->decay_gate != MIRAS_GATE_CHANNEL &&
         d->learning_rate_gate != MIRAS_GATE_CHANNEL;
}

/* Can weights be kept in a ball? */
HELP int may_shorten(const miras_memory_desc *d) {
  return d->architecture != MIRAS_ARCH_KV_CACHE &&
         (d->retention == MIRAS_RETENTION_ALL || d->retention == MIRAS_RETENTION_L2 ||
          d->retention == MIRAS_RETENTION_L2_BOTH) &&
         (d->algorithm == MIRAS_ALGORITHM_GD || has_momentum(d));
}

/* Groups of another value_dim become one. */
HELP void regroup(miras_memory_desc *d) {
  if (ref_group_end(d, d->value_dim - 1, d->value_dim) != d->value_dim) d->groups[0] = '\0';
}

/* What does not go with tokens that read first. */
HELP void plain_ahead(miras_memory_desc *d) {
  if (d->bias != MIRAS_BIAS_DOT) {
    d->order = MIRAS_ORDER_ERROR_FIRST;
    return;
  }
  d->value_decay_gate = MIRAS_GATE_CONSTANT;
  d->normalize = 0;
  if (d->inner_steps > 1) d->inner_steps = 0;
}

/* What does not go with a decay of each entry. */
HELP void plain_scan(miras_memory_desc *d) {
  d->value_decay_gate = MIRAS_GATE_CONSTANT;
  d->normalize = d->separate_erase = 0;
  d->order = MIRAS_ORDER_ERROR_FIRST;
  if (d->inner_steps > 1) d->inner_steps = 0;
}

/* What means nothing for the other choices, or does not go with them, is refused: leave only what
 * is not. */
HELP miras_memory_desc tidy(miras_memory_desc d) {
  const int newton = ref_squares(&d), matrix = d.architecture == MIRAS_ARCH_MATRIX;
  const int pairs = d.architecture == MIRAS_ARCH_KV_CACHE;
  const int elastic =
    d.retention == MIRAS_RETENTION_ELASTIC || d.retention == MIRAS_RETENTION_ELASTIC_FTRL;
  if (d.decay_gate != MIRAS_GATE_CONSTANT) d.decay_schedule = MIRAS_DECAY_SCHEDULE_RATIO;
  d = inside_meaningful(d);
  if (d.bias != MIRAS_BIAS_DOT) {
    d.normalize = 0;
    d.value_decay_gate = MIRAS_GATE_CONSTANT;
  }
  if (!matrix || d.bias != MIRAS_BIAS_L2 || !ref_exact(&d) || newton) d.separate_erase = 0;
  if (d.separate_erase || newton || !ref_exact(&d)) d.order = MIRAS_ORDER_ERROR_FIRST;
  if (d.retention != MIRAS_RETENTION_L2) d.value_decay_gate = MIRAS_GATE_CONSTANT;
  if (d.order == MIRAS_ORDER_READ_FIRST) plain_ahead(&d);
  if (d.decay_gate == MIRAS_GATE_ENTRY) plain_scan(&d);
  if (d.algorithm != MIRAS_ALGORITHM_IMPLICIT && d.algorithm != MIRAS_ALGORITHM_RECURSIVE)
    d.diagonal = 0;
  if (d.algorithm != MIRAS_ALGORITHM_NORMALIZED) d.step_epsilon = 0.0f;
  if (!may_return(&d)) d.decay_target = MIRAS_DECAY_TARGET_ZERO;
  if (!may_bound(&d)) d.step_bound = MIRAS_STEP_BOUND_AUTO;
  if (!may_rate(&d)) d.token_rates = MIRAS_TOKEN_RATES_NONE;
  if (d.retention != MIRAS_RETENTION_ALL &&
      !(d.decay_target &&
        (d.retention == MIRAS_RETENTION_L2 || d.retention == MIRAS_RETENTION_L2_BOTH)))
    d.inner_bias = 0;
  if (d.reset_every > 0) { /* the next multiple */
    const int grid = ref_reset_grid(&d);
    d.reset_every = (d.reset_every + grid - 1) / grid * grid;
  }
  if (!pairs) d.window = 0;
  if ((newton || pairs) && d.inner_steps > 1) d.inner_steps = 0;
  if (!newton) d.ridge = 0.0f;
  else if (!(d.ridge > 0.0f)) d.ridge = 1.0f; /* has no default, as sparsity */
  if (d.algorithm != MIRAS_ALGORITHM_RECURSIVE || d.diagonal)
    d.outlier = 0.0f, d.ridge_relative = 0;
  if (d.algorithm != MIRAS_ALGORITHM_LEAST_SQUARES) {
    d.iterations = 0;
    d.tolerance = 0.0f;
  }
  if (pairs) {
    d.learning_rate = 0.0f;
    d.learning_rate_gate = MIRAS_GATE_CONSTANT;
  }
  if (d.bias != MIRAS_BIAS_LP && d.bias != MIRAS_BIAS_LP_SMOOTH) d.p = 0.0f;
  if (d.bias != MIRAS_BIAS_LP_SMOOTH && d.bias != MIRAS_BIAS_HUBER_MIXTURE) d.sharpness = 0.0f;
  if (!ref_has_threshold(&d)) {
    d.threshold = 0.0f;
    d.threshold_gate = MIRAS_GATE_CONSTANT;
  }
  if (d.bias == MIRAS_BIAS_CUSTOM && d.threshold_gate) d.threshold_gate = MIRAS_GATE_HEAD;
  regroup(&d);
  if (d.retention != MIRAS_RETENTION_LQ && d.retention != MIRAS_RETENTION_LQ_PNORM) d.q = 0.0f;
  /* weights |A|^(q-1) of three layers or more vanish, and with them what a gradient could show */
  if (d.retention == MIRAS_RETENTION_LQ_PNORM && d.depth > 2 && !d.inner_norm && d.q > 3.0f)
    d.q = 3.0f;
  if (!ref_is_simplex(&d)) {
    d.simplex = 0.0f;
    d.simplex_whole = 0;
  }
  if (d.retention != MIRAS_RETENTION_KL) d.simplex_logits = d.simplex_signed = 0;
  else if (d.chunk > 1) d.simplex_logits = 1;
  if (d.retention != MIRAS_RETENTION_L2_BOTH) d.balance = 0.0f;
  if (!may_shorten(&d)) d.ball = 0.0f;
  if (!may_look_back(&d)) d.omega = 0;
  if (!elastic) d.sparsity = 0.0f, d.smooth_shrink = 0;
  else if (!(d.sparsity > 0.0f)) d.sparsity = 1e-3f;
  if (!ref_decays(&d) || d.decay_gate != MIRAS_GATE_CONSTANT) {
    d.decay_schedule = MIRAS_DECAY_SCHEDULE_RATIO;
    d.layer = d.layers = 0;
  }
  if (!ref_decays(&d)) {
    d.decay_rate = d.decay_ratio = 0.0f;
    d.decay_gate = MIRAS_GATE_CONSTANT;
    d.order = MIRAS_ORDER_ERROR_FIRST;
  }
  if (d.decay_gate == MIRAS_GATE_CHANNEL && d.simplex_whole) d.decay_gate = MIRAS_GATE_HEAD;
  if (d.retention == MIRAS_RETENTION_ELASTIC) { /* its threshold is one number */
    if (d.decay_gate == MIRAS_GATE_CHANNEL) d.decay_gate = MIRAS_GATE_HEAD;
    if (d.learning_rate_gate == MIRAS_GATE_CHANNEL) d.learning_rate_gate = MIRAS_GATE_HEAD;
  }
  if (matrix || pairs ||
      (d.architecture == MIRAS_ARCH_MLP && d.depth > 2)) { /* no channels between */
    if (d.threshold_gate) d.threshold_gate = MIRAS_GATE_HEAD;
    if (d.decay_gate == MIRAS_GATE_CHANNEL && !ref_exact(&d)) d.decay_gate = MIRAS_GATE_HEAD;
    if (d.learning_rate_gate == MIRAS_GATE_CHANNEL && !matrix)
      d.learning_rate_gate = MIRAS_GATE_HEAD;
  }
  if (matrix && d.learning_rate_gate == MIRAS_GATE_CHANNEL &&
      (!ref_exact(&d) || d.normalize || d.diagonal || newton))
    d.learning_rate_gate = MIRAS_GATE_HEAD;
  if (d.retention == MIRAS_RETENTION_ELASTIC || /* its threshold is one number */
      (!ref_exact(&d) && (has_momentum(&d) || d.token_rates))) {
    if (d.decay_gate == MIRAS_GATE_CHANNEL) d.decay_gate = MIRAS_GATE_HEAD;
    if (d.learning_rate_gate == MIRAS_GATE_CHANNEL) d.learning_rate_gate = MIRAS_GATE_HEAD;
  }
  d.custom = d.bias == MIRAS_BIAS_CUSTOM || d.retention == MIRAS_RETENTION_CUSTOM ? &custom_choices
                                                                                  : NULL;
  return inside_meaningful(d);
}

/* Shapes of a memory: a matrix, perceptrons of 1 to 4 layers, and the other architectures. */
enum { SHAPE_MATRIX, SHAPE_DEEPEST = 4, SHAPE_GATED, SHAPE_VECTOR, SHAPE_PAIRS, SHAPES };

/* Do the choices go together, and has every setting a meaning for them? What has is never refused,
 * and what has not always is. */
HELP int has_meaning(const miras_memory_desc *d) {
  const miras_memory_desc tidied = tidy(*d);
  const int plain = d->retention == MIRAS_RETENTION_ALL || d->retention == MIRAS_RETENTION_L2;
  char given[1400];
  snprintf(given, sizeof given, "%s", label(d));
  if (strcmp(given, label(&tidied)) != 0) return 0;
  if (d->architecture == MIRAS_ARCH_KV_CACHE)
    return d->bias == MIRAS_BIAS_L2 && d->retention == MIRAS_RETENTION_ALL &&
           d->algorithm == MIRAS_ALGORITHM_GD;
  if (d->algorithm == MIRAS_ALGORITHM_RECURSIVE && d->bias == MIRAS_BIAS_CROSS_ENTROPY)
    return d->architecture == MIRAS_ARCH_MATRIX && plain;
  if (d->algorithm == MIRAS_ALGORITHM_IMPLICIT || d->algorithm == MIRAS_ALGORITHM_NORMALIZED ||
      ref_squares(d))
    return d->architecture == MIRAS_ARCH_MATRIX && d->bias == MIRAS_BIAS_L2 && plain;
  if (d->algorithm == MIRAS_ALGORITHM_MUON)
    return plain && d->architecture != MIRAS_ARCH_VECTOR && d->inner_steps <= 1;
  return d->algorithm != MIRAS_ALGORITHM_MOMENTUM ||
         (d->retention != MIRAS_RETENTION_ELASTIC && !ref_is_divergence(d));
}

static int plain_cells; /* 1: no extras, all gates constant */

/* Where decays lead, how far steps may go, how long keys are: half, a quarter and a quarter of the
 * cells in which they mean something. A few start anew. Drawn after all else, so that what else a
 * cell is does not depend on them. */
HELP void late_extras(miras_memory_desc *d) {
  const int perceptron =
    d->architecture != MIRAS_ARCH_MATRIX && d->architecture != MIRAS_ARCH_KV_CACHE;
  if (may_return(d) && below(2) == 0) {
    d->decay_target = MIRAS_DECAY_TARGET_INITIAL;
    d->decay_rate = 0.15f;
    if (d->retention == MIRAS_RETENTION_ELASTIC_FTRL)
      d->sparsity *= 0.1f; /* only what was written */
    if (d->retention == MIRAS_RETENTION_L2_BOTH) d->balance = uniform(1.0f, 8.0f);
  }
  if (below(4) == 0) {
    d->step_bound = 1 + below(2);
    if (may_bound(d)) d->learning_rate *= 2.0f; /* or little would be bounded */
  }
  if (below(4) == 0) {
    d->qk_norm = (miras_qk_norm)(1 + below(2));
    if (d->qk_norm == MIRAS_QK_NORM_RMS) d->learning_rate /= (float)d->key_dim;
  }
  if (below(2) == 0) d->simplex_signed = 1;
  if (below(16) == 0) d->reset_every = ref_reset_grid(d) * (1 + below(2));
  if (!perceptron && below(3) == 0) d->learning_rate_gate = MIRAS_GATE_CHANNEL;
  if (d->token_rates || (may_rate(d) && below(4) == 0)) d->token_rates = 1 + below(2);
  if (d->inner_norm && below(4) == 0) d->norm_epsilon = below(2) ? 0.05f : 1e-4f;
}

/* What some memories have and others have not; half of all cells stay plain. */
HELP void extras(miras_memory_desc *d, int shape) {
  const int extra = below(6);
  if (shape == SHAPE_MATRIX && ref_exact(d) && !ref_squares(d)) {
    if (below(3) == 0 && d->retention != MIRAS_RETENTION_ALL) d->decay_gate = MIRAS_GATE_CHANNEL;
    if (below(2) == 0) d->order = MIRAS_ORDER_DECAY_FIRST;
    if (extra == 0) d->inner_steps = 2 + below(2);
    if (extra == 1) d->separate_erase = d->algorithm == MIRAS_ALGORITHM_GD;
    if (extra == 2) d->diagonal = d->algorithm == MIRAS_ALGORITHM_IMPLICIT;
    if (extra == 3) {
      d->normalize = 1;
      d->feature_map = ref_feature_map(1 + below(4));
      d->order = MIRAS_ORDER_ERROR_FIRST;
    } else if (extra == 4) {
      d->value_decay_gate = MIRAS_GATE_CHANNEL;
    } else if (!d->separate_erase) {
      d->feature_map = ref_feature_map(below(FEATURE_MAPS));
    }
  } else if (shape == SHAPE_MATRIX) {
    d->feature_map = ref_feature_map(below(FEATURE_MAPS));
    if (extra == 0) d->inner_steps = 2;
  } else if (shape != SHAPE_PAIRS) {
    if (extra == 0) d->inner_steps = 2 + below(2);
    if (extra == 1) d->inner_bias = 1;
    if (extra == 2 && d->retention == MIRAS_RETENTION_ALL) d->token_rates = MIRAS_TOKEN_RATES_RELU;
    if (extra >= 3 && !(shape >= 3 && shape <= SHAPE_DEEPEST) && !d->simplex_whole) {
      if (below(2) == 0 && d->retention != MIRAS_RETENTION_ALL) d->decay_gate = MIRAS_GATE_CHANNEL;
      if (below(2) == 0) d->learning_rate_gate = MIRAS_GATE_CHANNEL;
      if (below(2) == 0 && d->bias != MIRAS_BIAS_CUSTOM) d->threshold_gate = MIRAS_GATE_CHANNEL;
      d->value_dim = d->key_dim;
    }
  }
  /* |phi(k)|^2 is larger than |k|^2 */
  if (d->feature_map == MIRAS_FN_ELU) d->learning_rate /= (float)d->key_dim;
  if (d->feature_map == MIRAS_FN_POLY2) d->learning_rate /= 2.5f;
  if (d->inner_steps > 1) d->learning_rate /= (float)d->inner_steps;
}

/* One cell of the grid; what is not one of the arguments follows from `variant`, so that a walk
 * over the grid also walks over gates, norms, sizes and constants. */
HELP miras_memory_desc cell(int shape, miras_bias bias, miras_retention retention,
                     miras_algorithm algorithm, int chunk, uint64_t variant) {
  static const float ps[] = {3.0f, 2.0f, 1.5f, 4.0f, 2.5f, 1.0f};
  static const float qs[] = {4.0f, 3.0f, 2.0f, 2.5f, 5.0f};
  static const int windows[] = {0, 1, 3, 7, 20};
  const uint64_t saved = random_state;
  const int layered = shape >= 1 && shape <= SHAPE_GATED;
  const int deep = shape >= 3 && shape <= SHAPE_DEEPEST; /* channels have no meaning between */
  miras_memory_desc d;
  memset(&d, 0, sizeof d);
  custom_install();
  random_state = variant * 1000003u + 12345u;
  d.architecture = shape == SHAPE_MATRIX   ? MIRAS_ARCH_MATRIX
                   : shape == SHAPE_GATED  ? MIRAS_ARCH_GATED_MLP
                   : shape == SHAPE_VECTOR ? MIRAS_ARCH_VECTOR
                   : shape == SHAPE_PAIRS  ? MIRAS_ARCH_KV_CACHE
                                           : MIRAS_ARCH_MLP;
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
  d.simplex_logits = below(2);
  d.window = windows[below(COUNT(windows))];
  d.depth = layered && shape <= SHAPE_DEEPEST ? shape : 0;
  if (layered) {
    d.expansion = 1 + below(shape == SHAPE_GATED ? 3 : 4);
    d.activation = ref_activation_at(below(ACTIVATIONS));
    d.inner_norm = below(2);
    d.inner_residual = below(2);
    if (d.inner_residual) d.value_dim = d.key_dim;
  }
  if (shape == SHAPE_VECTOR) d.value_dim = d.key_dim;
  d.simplex = uniform(0.7f, 3.0f); /* larger where it is shared by a whole matrix */
  if (d.simplex_whole || deep || shape == SHAPE_VECTOR)
    d.simplex *= 0.4f * (float)(layered && shape > 1 ? d.expansion * d.key_dim : d.key_dim);
  if (retention != MIRAS_RETENTION_ALL && below(3) > 0) d.decay_gate = MIRAS_GATE_HEAD;
  if (below(3) > 0) d.learning_rate_gate = MIRAS_GATE_HEAD;
  if ((algorithm == MIRAS_ALGORITHM_MOMENTUM || algorithm == MIRAS_ALGORITHM_MUON) && below(3) > 0)
    d.momentum_gate = MIRAS_GATE_HEAD;
  if (below(3) > 0) d.threshold_gate = MIRAS_GATE_HEAD;
  d.decay_rate = fragile(&d) ? 0.02f : 0.08f;
  d.decay_ratio = 0.5f;
  d.learning_rate = layered ? 0.25f : 0.5f;
  if (bias == MIRAS_BIAS_LP || bias == MIRAS_BIAS_LP_SMOOTH) d.learning_rate /= 2.0f * d.p;
  if (bias == MIRAS_BIAS_SHIFT_ROBUST) d.learning_rate *= 0.5f;
  if (algorithm == MIRAS_ALGORITHM_MOMENTUM) d.learning_rate *= 0.5f;
  if (algorithm == MIRAS_ALGORITHM_IMPLICIT) d.learning_rate *= 3.0f;
  if (algorithm == MIRAS_ALGORITHM_NORMALIZED) d.step_epsilon = variant % 2 ? 0.2f : 0.0f;
  d.momentum = 0.4f;
  d.threshold = bias == MIRAS_BIAS_HUBER || bias == MIRAS_BIAS_LOG_COSH ? 0.5f
                : bias == MIRAS_BIAS_SHIFT_ROBUST ? 0.3f
                                             : 0.55f * sqrtf((float)d.value_dim);
  d.balance = fragile(&d) ? uniform(20.0f, 40.0f) : uniform(3.0f, 8.0f);
  d.sparsity = retention == MIRAS_RETENTION_ELASTIC_FTRL ? uniform(0.05f, 0.25f)
                                                      : uniform(0.02f, 0.1f);
  d.smooth_shrink = below(2);
  if (retention == MIRAS_RETENTION_SIGMOID) d.learning_rate *= 2.0f;

  if (plain_cells)
    d.decay_gate = d.learning_rate_gate = d.momentum_gate = d.threshold_gate = MIRAS_GATE_CONSTANT;
  if (!plain_cells && below(2) == 0) extras(&d, shape);
  if (shape == SHAPE_VECTOR) d.simplex_whole = 1; /* its channels are single weights */
  if (!plain_cells) late_extras(&d);
  if (bias == MIRAS_BIAS_CROSS_ENTROPY && below(3) > 0)
    snprintf(d.groups, sizeof d.groups, "%d,%d", 1 + (int)(variant % 2),
             d.value_dim - 1 - (int)(variant % 2));
  random_state = saved;
  return tidy(d);
}

/* T tokens, or so many more that every head starts anew on the way. */
HELP int lasting(const miras_memory_desc *d, int T) { return T + d->reset_every; }

/* Exact memories: delta rules, dot products, the implicit step, Newton, pairs, recursion, of
 * numbers and of categories, normalized steps, decays of entries, recursion again where pairs are
 * judged or ridges relative to keys, and dot products whose tokens read first. */
enum { EXACT_KINDS = 15, ENTRIES = 9, JUDGED = 10, COUNTED = 12, AHEAD = 14 };

HELP miras_memory_desc exact_cell(int kind, int chunk, uint64_t variant) {
  static const miras_bias biases[] = {MIRAS_BIAS_L2, MIRAS_BIAS_DOT, MIRAS_BIAS_L2,
                                      MIRAS_BIAS_L2, MIRAS_BIAS_L2,  MIRAS_BIAS_L2, MIRAS_BIAS_L2,
                                      MIRAS_BIAS_CROSS_ENTROPY, MIRAS_BIAS_L2, MIRAS_BIAS_L2,
                                      MIRAS_BIAS_L2, MIRAS_BIAS_CROSS_ENTROPY,
                                      MIRAS_BIAS_L2, MIRAS_BIAS_CROSS_ENTROPY};
  static const miras_algorithm algorithms[] = {MIRAS_ALGORITHM_GD,
                                               MIRAS_ALGORITHM_GD,
                                               MIRAS_ALGORITHM_GD,
                                               MIRAS_ALGORITHM_IMPLICIT,
                                               MIRAS_ALGORITHM_LEAST_SQUARES,
                                               MIRAS_ALGORITHM_GD,
                                               MIRAS_ALGORITHM_RECURSIVE,
                                               MIRAS_ALGORITHM_RECURSIVE,
                                               MIRAS_ALGORITHM_NORMALIZED,
                                               MIRAS_ALGORITHM_GD,
                                               MIRAS_ALGORITHM_RECURSIVE,
                                               MIRAS_ALGORITHM_RECURSIVE,
                                               MIRAS_ALGORITHM_RECURSIVE,
                                               MIRAS_ALGORITHM_RECURSIVE};
  miras_memory_desc d;
  if (kind == ENTRIES) {
    d = cell(SHAPE_MATRIX, MIRAS_BIAS_DOT, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, chunk, variant);
    d.decay_gate = MIRAS_GATE_ENTRY;
    d.write_scale = (miras_write_scale)(variant % MIRAS_WRITE_SCALE_COUNT);
    d.turning = variant % 3 == 1;
    if (d.turning) d.value_dim = 4 + 2 * (int)(variant % 2);
    return tidy(d);
  }
  if (kind == AHEAD) {
    d = cell(SHAPE_MATRIX, MIRAS_BIAS_DOT, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, chunk, variant);
    d.order = MIRAS_ORDER_READ_FIRST;
    return tidy(d);
  }
  d = cell(kind == 5 ? SHAPE_PAIRS : SHAPE_MATRIX, biases[kind],
           kind == 5 || variant % 3 == 0 ? MIRAS_RETENTION_ALL : MIRAS_RETENTION_L2,
           algorithms[kind], chunk, variant);
  if (kind >= COUNTED) d.diagonal = 1;
  if (kind >= COUNTED && (d.feature_map == MIRAS_FN_RELU ||
                          d.feature_map == MIRAS_FN_RELU2))
    d.retention = MIRAS_RETENTION_ALL; /* decays begin with an entry that is not 0: a jump */
  if (kind >= JUDGED && kind < COUNTED) {
    d.ridge_relative = variant % 5 < 3;
    if (d.feature_map == MIRAS_FN_RELU || d.feature_map == MIRAS_FN_RELU2)
      d.ridge_relative = 0; /* they can leave next to nothing of a first key */
    d.outlier = d.ridge_relative && variant % 5 == 2 ? 0.0f : 1.1f + 0.2f * (float)(variant % 4);
    d.ridge = variant % 2 ? 0.05f : 0.5f;
  }
  return d;
}

/* ---- dstate of miras_memory_backward ---- */

#define NOWHERE ((size_t)-1)

/* Floats of dstate per sequence and head. */
HELP size_t state_size(const miras_memory_desc *d) {
  const size_t P = ref_shape_of(d).weights, F = (size_t)ref_features(d);
  const size_t pair = (size_t)(d->key_dim + d->value_dim);
  if (d->architecture == MIRAS_ARCH_KV_CACHE) return (size_t)d->window * pair;
  if (d->algorithm == MIRAS_ALGORITHM_LEAST_SQUARES) return F * F + P;
  if (ref_counts(d)) return 2 * P;
  if (d->algorithm == MIRAS_ALGORITHM_RECURSIVE) return F * F + F + (ref_judges(d) ? 3 : 0) + P;
  return (has_momentum(d) ? 2 * P : P) + ref_past(d) * ref_past_wide(d);
}

/* Where the reference keeps entry i of dstate of head h after `position` tokens. Newton: H, then G;
 * by recursion P, f, what is usual where pairs are judged, then W; with counts W, then these.
 * Pairs: the keys, then the values, token t since the head's last reset in row t % window. */
HELP size_t state_entry(const ref_memory *m, int h, size_t i, uint64_t position) {
  const size_t F = (size_t)m->features, P = m->s.weights, window = (size_t)m->d.window;
  const size_t dk = (size_t)m->d.key_dim, dv = (size_t)m->d.value_dim;
  if (m->d.algorithm == MIRAS_ALGORITHM_LEAST_SQUARES)
    return i < F * F ? m->at_more + i : i - F * F;
  if (ref_counts(&m->d)) return i < P ? i : m->at_more + i - P;
  if (m->d.algorithm == MIRAS_ALGORITHM_RECURSIVE) {
    const size_t squares = F * F + F + (ref_judges(&m->d) ? 3 : 0);
    return i < squares ? m->at_more + i : i - squares;
  }
  if (m->d.architecture == MIRAS_ARCH_KV_CACHE) {
    const size_t row = i < window * dk ? i / dk : (i - window * dk) / dv;
    const size_t column = i < window * dk ? i % dk : dk + (i - window * dk) % dv;
    const size_t end = (size_t)ref_age(&m->d, h, position), held = end < window ? end : window;
    for (size_t t = end - held; t < end; t++)
      if (t % window == row) return m->at_more + 1 + (t - (end - held)) * (dk + dv) + column;
    return NOWHERE;
  }
  if (i >= P && !has_momentum(&m->d)) return m->at_more + i - P;
  return i < P ? i : m->at_s + i - P; /* and the pairs of a window behind S */
}

/* H is symmetric (by recursion P), and so is its gradient: a single entry off the diagonal cannot
 * be moved alone. */
HELP int twin_entry(const ref_memory *m, size_t i) {
  const size_t F = (size_t)m->features;
  return ref_squares(&m->d) && !ref_counts(&m->d) && i < F * F && i / F != i % F;
}

/* Memory as others leave it: all NaN, which shows what is read before it is written. */
HELP void *dirty_alloc(size_t bytes, void *user) {
  void *p = malloc(bytes);
  (void)user;
  return p ? memset(p, 0xff, bytes) : NULL;
}

HELP void dirty_free(void *p, size_t bytes, void *user) {
  (void)bytes;
  (void)user;
  free(p);
}

static const miras_allocator dirty = {dirty_alloc, dirty_free, NULL};

/* A memory of x's descriptor whose initial memory is x's. */
HELP miras_memory *open_memory(const data *x) {
  miras_memory *m = miras_memory_open(&x->given, &dirty, NULL, 0);
  size_t count = 0;
  float *params;
  if (m == NULL) return NULL;
  params = miras_memory_params(m, &count);
  if (count != x->params.count) {
    failed("%zu outer parameters, not %zu: %s", count, x->params.count, label(&x->d));
    miras_close(m);
    return NULL;
  }
  memcpy(params, x->params.f, count * sizeof(float));
  miras_memory_reset(m);
  return m;
}

/* Largest difference relative to the largest entry; infinite if anything is not a number. */
HELP double error_of(const float *a, const double *b, size_t count) {
  double worst = 0.0, top = 1e-30;
  for (size_t i = 0; i < count; i++) {
    if (!(fabs((double)a[i] - b[i]) < 1e30)) return HUGE_VAL;
    if (fabs((double)a[i] - b[i]) > worst) worst = fabs((double)a[i] - b[i]);
    if (fabs(b[i]) > top) top = fabs(b[i]);
  }
  return worst / top;
}

/* The largest entry for each sequence and head of [batch, T, heads, out], in the order of the
 * state. */
#define MOST_HEADS 16

HELP size_t head_at(const data *x, size_t i, size_t count) {
  const size_t sequence = count / (size_t)x->d.batch, H = (size_t)x->d.heads;
  if ((size_t)x->d.batch * H > MOST_HEADS) abort();
  return i / sequence * H + i / x->out % H;
}

HELP void head_tops(const data *x, const double *b, size_t count, double *top) {
  for (int n = 0; n < MOST_HEADS; n++) top[n] = 1e-30;
  for (size_t i = 0; i < count; i++) {
    double *of = top + head_at(x, i, count);
    if (fabs(b[i]) > *of) *of = fabs(b[i]);
  }
}

/* The largest difference in each, relative to top; infinite if anything is not a number. */
HELP void head_errors(const data *x, const float *a, const double *b, size_t count,
                      const double *top, double *error) {
  for (int n = 0; n < MOST_HEADS; n++) error[n] = 0.0;
  for (size_t i = 0; i < count; i++) {
    const size_t n = head_at(x, i, count);
    const double is = fabs((double)a[i] - b[i]) / top[n];
    if (!(is < 1e30)) error[n] = HUGE_VAL;
    if (is > error[n]) error[n] = is;
  }
}

HELP int same_bits(const float *a, const float *b, size_t count) {
  return memcmp(a, b, count * sizeof(float)) == 0;
}

/* Change every input and parameter of the reference by a part in 1 / by; and back. */
HELP void shake(data *x, ref_memory *m, float by) {
  for (int i = 0; i < INPUTS; i++)
    for (size_t j = 0; j < x->in[i].count; j++)
      x->in[i].d[j] = (double)x->in[i].f[j] * (1.0 + (double)uniform(-by, by));
  for (size_t j = 0; j < x->params.count; j++) {
    const double u = (double)uniform(-by, by);
    /* of a logit the exponential counts: a small one moves as much as a large one */
    x->params.d[j] = (double)x->params.f[j] * (1.0 + u);
    if (has_logits(&x->d)) x->params.d[j] += u;
    if (m != NULL) m->params[j] = x->params.d[j];
  }
}

/* Draw data until the reference keeps its distance from every corner and the recurrence is calm:
 * inputs changed by 1e-6 must not change the outputs by more than thirty times as much, or the test
 * would measure chaos; and an inner norm must not divide by less than a twelfth of what it
 * subtracts from, for there go the digits of a float. Memories that stay wild learn more slowly and
 * begin with larger logits. 0: no such data was found. */
HELP int data_settled(data *x, const miras_memory_desc *given, int T, uint64_t seed,
                      double margin) {
  miras_memory_desc d = *given;
  for (int attempt = 0; attempt < 60; attempt++) {
    double *y[2], worst = 0.0, top = 1e-30, margin_seen = 0.0;
    if (attempt % 8 == 7) d.learning_rate *= 0.5f;
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
      margin_seen = b.cancellation < 12.0 ? b.margin : 0.0;
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
    if (margin_seen > margin && worst < HUGE_VAL && worst <= 3e-5 * top) {
      settled++;
      return 1;
    }
    data_free(x);
  }
  unsettled++;
  return 0;
}

/* How far outputs of tokens a..b-1 of each head move when the inputs change by a few units in the
 * last place, and the largest of them. Returns what cancels in an inner norm. */
#define ULPS 2e-7f

HELP double moved_heads(data *x, int a, int b, double *moved, double *top) {
  double *y[2];
  ref_branches branches;
  const size_t row = (size_t)x->d.heads * x->out;
  for (int n = 0; n < MOST_HEADS; n++) {
    moved[n] = 0.0;
    top[n] = 1e-30;
  }
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
      const size_t n = head_at(x, i, x->dy.count);
      if (token < a || token >= b) continue;
      if (pass == 0) top[n] = fmax(top[n], fabs(y[0][i]));
      if (pass > 0) moved[n] = fmax(moved[n], fabs(y[1][i] - y[0][i]));
    }
    if (pass > 0) free(y[1]);
  }
  shake(x, NULL, 0.0f);
  free(y[0]);
  return 0.5 * (double)ULPS * fmax(branches.cancellation, branches.terms);
}

/* What no float can be expected to beat: that relative to the largest of all heads. A plain float
 * version of the reference is as far off. */
HELP double unavoidable(data *x, int a, int b) {
  double moved[MOST_HEADS], top[MOST_HEADS];
  const double cancelled = moved_heads(x, a, b, moved, top);
  for (int n = 1; n < MOST_HEADS; n++) {
    moved[0] = fmax(moved[0], moved[n]);
    top[0] = fmax(top[0], top[n]);
  }
  return moved[0] / top[0] + cancelled;
}

/* Errors of heads in tokens a..b-1: those beyond FORWARD that are within `times` of what no float
 * beats in that head are excused. Returns the largest of the others. */
HELP double after_excuses(data *x, int a, int b, double times, const double *error) {
  double moved[MOST_HEADS], top[MOST_HEADS], cancelled = 0.0, worst = 0.0;
  int asked = 0, needed = 0;
  for (int n = 0; n < MOST_HEADS; n++) {
    if (error[n] > FORWARD) {
      double limit;
      if (!asked++) cancelled = moved_heads(x, a, b, moved, top);
      limit = moved[n] / top[n] + cancelled;
      if (error[n] <= times * limit) {
        worst_excuse = fmax(worst_excuse, error[n] / limit);
        needed = 1;
        continue;
      }
    }
    worst = fmax(worst, error[n]);
  }
  excused += needed;
  return worst;
}

/* ---- central differences of the reference ---- */

/* The functional: dy.y plus, per head, pull.(A, S) after the last token. */
typedef struct functional {
  data *x;
  ref_memory *m;
  double *state;      /* to start from, as the reference's; NULL: a reset */
  const double *pull; /* [batch, heads, state_size] or NULL */
  double *y;
} functional;

static float start_noise; /* relative roundings of a state that begins as the initial memory */
static uint64_t start_seed;

HELP double functional_head(const functional *f, int b, int h, ref_branches *branches) {
  const data *x = f->x;
  ref_memory *m = f->m;
  const ref_tokens tokens = data_reference(x);
  const size_t head = (size_t)b * (size_t)x->d.heads + (size_t)h, dv = x->out;
  const size_t states = state_size(&x->d);
  double *now = ref_head_state(m, b, h);
  double sum = 0.0;
  m->branches = branches;
  ref_reset_head(m, b, h);
  if (f->state != NULL)
    memcpy(now, f->state + head * m->per_head, m->per_head * sizeof(double));
  if (f->state == NULL && start_noise > 0.0f) {
    const uint64_t saved = random_state;
    random_state = start_seed;
    for (size_t i = 0; i < m->s.weights; i++)
      now[i] *= 1.0 + (double)uniform(-start_noise, start_noise);
    random_state = saved;
  }
  ref_forward_head(m, &tokens, b, h, f->y, NULL);
  for (int t = 0; t < x->T; t++) {
    const size_t at =
      (((size_t)b * (size_t)x->T + (size_t)t) * (size_t)x->d.heads + (size_t)h) * dv;
    for (size_t i = 0; i < dv; i++) sum += x->dy.d[at + i] * f->y[at + i];
  }
  if (f->pull != NULL)
    for (size_t i = 0; i < states; i++) {
      const size_t at = state_entry(m, h, i, m->position + (uint64_t)x->T);
      if (at != NOWHERE) sum += f->pull[head * states + i] * now[at];
    }
  return sum;
}

/* Central difference in *value over twice h0; b < 0: over all sequences, h < 0: over all heads. 0
 * when a corner lies between, or, where pairs are judged, at the value itself: a key of zeros. */
HELP int difference_over(const functional *f, double *value, int b, int h, double h0,
                         double *derivative) {
  const double middle = *value;
  const int sides = ref_judges(&f->x->d) ? 3 : 2;
  double sum[3] = {0.0, 0.0, 0.0};
  ref_branches branches[3];
  for (int side = 0; side < sides; side++) {
    ref_branches_clear(&branches[side]);
    *value = side == 2 ? middle : middle + (side ? h0 : -h0);
    for (int n = 0; n < f->x->d.batch; n++)
      for (int k = 0; k < f->x->d.heads; k++)
        if ((b < 0 || n == b) && (h < 0 || k == h))
          sum[side] += functional_head(f, n, k, &branches[side]);
  }
  *value = middle;
  *derivative = (sum[1] - sum[0]) / (2.0 * h0);
  return branches[0].decisions == branches[1].decisions &&
         branches[0].decisions == branches[sides - 1].decisions;
}

/* A step of 4e-5 is moved by a thousandth too: 2e-6 would be far enough for the curve to count. */
HELP int difference(const functional *f, double *value, int b, int h, double *derivative) {
  const tensor *steps = &f->x->in[STEP];
  double h0 = 2e-6;
  for (size_t i = 0; i < steps->count; i++)
    if (value == &steps->d[i]) h0 = fmin(h0, 1e-3 * fabs(*value));
  return difference_over(f, value, b, h, h0, derivative);
}

/* The same in an entry of the state. One that is a weight of a simplex can be small: it is moved by
 * a thousandth at most. */
HELP int state_difference(const functional *f, double *value, int b, int h, double *derivative) {
  double h0 = 2e-6;
  if (ref_is_divergence(&f->m->d) && 1e-3 * fabs(*value) < h0)
    h0 = 1e-3 * fabs(*value) + 1e-9;
  return difference_over(f, value, b, h, h0, derivative);
}

/* How far that derivative moves when the inputs change by a few units in the last place. Where
 * decays lead to the initial memory, what counts is the state's distance from it, which a float
 * that holds the state itself does not have to all digits: the state is moved apart from the
 * memory. */
HELP double unavoidable_difference(const functional *f, double *value, int b, int h) {
  const size_t n = (size_t)f->x->d.batch * (size_t)f->x->d.heads * f->m->per_head;
  double exact, other, worst = 0.0, *before = NULL;
  difference(f, value, b, h, &exact);
  if (f->state != NULL) {
    before = (double *)ref_zeros(n);
    memcpy(before, f->state, n * sizeof(double));
  }
  for (int pass = 0; pass < 6; pass++) {
    shake(f->x, f->m, ULPS);
    if (f->state != NULL &&
        f->x->d.architecture != MIRAS_ARCH_KV_CACHE) /* with roundings of its own */
      for (size_t i = 0; i < n; i++)
        f->state[i] = before[i] * (1.0 + 5.0 * (double)uniform(-ULPS, ULPS));
    if (f->x->d.decay_target) {
      start_noise = 5.0f * ULPS;
      start_seed = draw();
    }
    difference(f, value, b, h, &other);
    start_noise = 0.0f;
    if (fabs(other - exact) > worst) worst = fabs(other - exact);
  }
  shake(f->x, f->m, 0.0f);
  if (f->state != NULL) memcpy(f->state, before, n * sizeof(double));
  free(before);
  return worst;
}

#endif /* MIRAS_TEST_MEMORIES_H */
