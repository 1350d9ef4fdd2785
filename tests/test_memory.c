/* One memory against the double-precision reference: outputs, surprise, state and every gradient,
 * for the whole grid of choices; and what the public calls promise to the bit.
 *
 *   cc -O2 tests/test_memory.c -o test_memory -lcmocka -lm && ./test_memory
 *
 * Bounds, all relative to the tensor's largest entry in the same sequence, head and layer:
 *   FORWARD   outputs, surprise, norm of float against double
 *   GRADIENT  miras_memory_backward against central differences of the double reference
 * Where the reference comes near a corner of a bias or a link (a Huber threshold, the sign of l_1),
 * float and double may take different sides; the data is drawn again until no token does. Nor is
 * data used that makes the recurrence chaotic: see data_settled.
 */
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"

#include <float.h>
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

/* ---- forward ---- */

static int refused, accepted;
static double worst_forward;

/* How many times what a last digit of the inputs does is excused. Measured portably and with AVX2:
 * of outputs 4.2 times, one call in 150; token by token 5.0 times, one token in 700. */
#define FORWARD_EXCUSE 8.0
#define STEP_EXCUSE    10.0

/* How far the norm after tokens 0..end-1 moves, as moved_heads has it for outputs. */
static double moved_norm(const data *x, int end) {
  data part = data_cut(x, 0, end);
  ref_branches branches;
  double norm = 0.0, moved = 0.0, top;
  ref_branches_clear(&branches);
  for (int pass = 0; pass <= 6; pass++) {
    ref_memory m;
    const ref_tokens t = data_reference(&part);
    double *y = (double *)ref_zeros(part.dy.count);
    if (pass > 0) shake(&part, NULL, ULPS);
    ref_open(&m, &part.d, part.params.d);
    m.branches = &branches;
    ref_forward(&m, &t, y, NULL);
    if (pass == 0) norm = ref_norm(&m);
    moved = fmax(moved, fabs(ref_norm(&m) - norm));
    ref_close(&m);
    free(y);
  }
  top = fmax(branches.cancellation, branches.terms);
  data_free(&part);
  return moved + 0.5 * (double)ULPS * top * norm;
}

/* A read between two calls, in the middle of a chunk too, answers as the last token's query did or,
 * where tokens read first, as the next one's would. */
static void check_last(miras_memory *m, const data *x, const float *y, ref_memory *r,
                       const double *query) {
  const size_t H = (size_t)x->d.heads, count = (size_t)x->d.batch * H * x->out;
  const size_t last = (size_t)(x->T - 1), T = (size_t)x->T;
  tensor q, said;
  float *out = (float *)zeros(count, sizeof(float));
  double top = 1e-30, off = 0.0;
  if (x->T > 0) {
    q = tensor_cut(&x->in[QUERY], x->d.batch, x->T, H * x->per[QUERY], x->T - 1, x->T);
    said = tensor_new(count, 0.0f, 0.0f);
    cut_rows(said.f, y, x->d.batch, x->T, H * x->out, x->T - 1, x->T);
    for (size_t i = 0; i < count && x->d.order == MIRAS_ORDER_READ_FIRST; i++) {
      const size_t h = i / x->out % H, b = i / x->out / H;
      double *all = (double *)ref_zeros(x->out);
      ref_read_head(r, (int)b, (int)h, query + ((b * T + last) * H + h) * x->per[QUERY], all);
      said.f[i] = (float)all[i % x->out];
      free(all);
    }
    for (size_t i = 0; i < count; i++) out[i] = NAN; /* must be overwritten */
    if (miras_memory_read(m, q.f, out) != MIRAS_OK) failed("read: %s", label(&x->d));
    for (size_t i = 0; i < count; i++) {
      top = fmax(top, fabs((double)said.f[i]));
      if (!(fabs((double)said.f[i] - (double)out[i]) <= off)) /* NaN too */
        off = fabs((double)said.f[i] - (double)out[i]);
    }
    if (!(off <= 4.0 * FORWARD * top))
      failed("a read is off by %.2e from the last answer: %s", off / top, label(&x->d));
    tensor_free(&q);
    tensor_free(&said);
  }
  free(out);
}

/* Outputs of two calls (the second starts anywhere) and the norm after each. */
static void check_outputs(const miras_memory_desc *d, int T, uint64_t seed) {
  char why[200] = "";
  const size_t bytes = miras_memory_size(d, why, sizeof why);
  data x, part[2];
  miras_memory *m;
  ref_memory r;
  int at;
  T = lasting(d, T);
  if (bytes == 0) {
    refused++;
    if (why[0] == '\0') failed("refused without a sentence: %s", label(d));
    if (has_meaning(d)) failed("refused (%s): %s", why, label(d));
    return;
  }
  accepted++;
  if (!has_meaning(d)) failed("not refused: %s", label(d));
  if (!data_settled(&x, d, T, seed, 1e-4)) return;
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
    const miras_memory_input tokens = data_tokens(&part[i]);
    const ref_tokens reference = data_reference(&part[i]);
    const size_t count = part[i].dy.count;
    float *y = (float *)zeros(count, sizeof(float));
    double *expected = (double *)ref_zeros(count), top[MOST_HEADS], each[MOST_HEADS], error, norm;
    double off;
    miras_result result;
    for (size_t j = 0; j < count; j++) y[j] = NAN; /* must be overwritten */
    result = miras_memory_forward(m, &tokens, y, NULL);
    if (result != MIRAS_OK) failed("forward: %s: %s", miras_result_text(result), label(d));
    ref_forward(&r, &reference, expected, NULL);
    head_tops(&x, expected, count, top);
    head_errors(&x, y, expected, count, top, each);
    error = after_excuses(&x, i == 0 ? 0 : at, i == 0 ? at : T, FORWARD_EXCUSE, each);
    if (error > worst_forward) worst_forward = error;
    if (!(error <= FORWARD))
      failed("y off by %.2e (call %d, T %d, cut %d): %s", error, i, T, at, label(d));
    norm = ref_norm(&r);
    off = fabs((double)miras_memory_norm(m) - norm);
    if (!(off <= FORWARD * (norm + 1e-9)) &&
        !(off <= FORWARD_EXCUSE * moved_norm(&x, i == 0 ? at : T)))
      failed("norm %g, not %g, after %d tokens: %s", (double)miras_memory_norm(m), norm,
             (int)r.position, label(d));
    if (miras_memory_position(m) != r.position) failed("position: %s", label(d));
    check_last(m, &part[i], y, &r, reference.query);
    free(y);
    free(expected);
    data_free(&part[i]);
  }
  ref_close(&r);
  miras_close(m);
  data_free(&x);
}

static void check_forward(const miras_memory_desc *d, int T, uint64_t seed) {
  if (my_share()) check_outputs(d, T, seed);
}

static const int chunks[] = {1, 4, 5, 16};

static void forward_finish(void) {
  printf("  forward: %d descriptors, %d refused, largest error %.2e, %d excused (%.1f times)\n",
         accepted, refused, worst_forward, excused, worst_excuse);
  if (excused > 2 && excused * 50 > accepted) failed("too many are excused");
  finish();
}

/* Are these choices of the first slice? With them every case is walked. */
static int every(int shape, const miras_memory_desc *d) {
  return shape <= SHAPE_DEEPEST && d->bias <= MIRAS_BIAS_HUBER_MIXTURE &&
         d->retention <= MIRAS_RETENTION_KL && d->algorithm <= MIRAS_ALGORITHM_MOMENTUM;
}

/* Every choice with every other; chunks in turn where one of the choices is a later one. */
static void test_forward_grid(void **state) {
  uint64_t variant = 0;
  (void)state;
  start();
  random_state = 1;
  refused = accepted = 0;
  worst_forward = 0.0;
  for (EACH_POOL(p))
    for (int shape = 0; shape < SHAPES; shape++)
      for (int b = 0; b < p->biases; b++)
        for (int r = 0; r < p->retentions; r++)
          for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
            for (int c = 0; c < COUNT(chunks); c++) {
              const miras_memory_desc d = cell(shape, p->bias[b], p->retention[r],
                                        (miras_algorithm)algorithm, chunks[c], ++variant);
              if (!every(shape, &d) && (shape + b + r + algorithm) % COUNT(chunks) != c) continue;
              check_forward(&d, c == 3 ? 37 : 2 * chunks[c] + 3, variant);
            }
  forward_finish();
}

/* Matrix, pairs and Newton memories that run exactly: chunks are a schedule, choices are many. */
static void test_forward_exact(void **state) {
  uint64_t variant = 100000;
  (void)state;
  start();
  random_state = 11;
  refused = accepted = 0;
  worst_forward = 0.0;
  for (int kind = 0; kind < EXACT_KINDS; kind++)
    for (int c = 0; c < COUNT(chunks); c++)
      for (int n = 0; n < 40; n++) {
        const miras_memory_desc d = exact_cell(kind, chunks[c], ++variant);
        check_forward(&d, c == 3 ? 37 : 2 * chunks[c] + 3, variant);
      }
  forward_finish();
}

/* Every length from none to three chunks and a bit, and sizes that are not small. */
static void test_forward_lengths(void **state) {
  static const miras_retention kinds[] = {MIRAS_RETENTION_L2, MIRAS_RETENTION_LQ,
                                          MIRAS_RETENTION_KL};
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
          const miras_memory_desc d =
            cell(layers, k == 1 ? MIRAS_BIAS_HUBER_NORM : MIRAS_BIAS_L2, kinds[k],
                 (miras_algorithm)(T % 2), chunks[c], (uint64_t)(layers * 100 + k * 10 + T));
          check_forward(&d, T, (uint64_t)T + 1);
        }
  for (int kind = 0; kind < EXACT_KINDS; kind++)
    for (int T = 0; T <= 70; T = T < 20 ? T + 1 : T + 9) {
      const miras_memory_desc d = exact_cell(kind, chunks[T % COUNT(chunks)], (uint64_t)(2000 + T));
      check_forward(&d, T, (uint64_t)T + 1);
    }
  for (int i = 0; i < COUNT(sizes); i++)
    for (int layers = 0; layers <= 3; layers++)
      for (int c = 0; c < COUNT(chunks); c++) {
        miras_memory_desc d =
          cell(layers, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, (miras_algorithm)(i % 2), chunks[c],
               (uint64_t)(1000 + i * 10 + layers));
        d.key_dim = sizes[i][0];
        d.value_dim = sizes[i][1];
        d.expansion = sizes[i][2];
        if (d.value_dim != d.key_dim) d.inner_residual = 0;
        if (d.value_dim == 1) d.inner_norm = 0; /* the deviation of one number is nothing */
        if (d.value_dim != d.key_dim && layers == 2) { /* no channels that belong to both */
          if (d.decay_gate == MIRAS_GATE_CHANNEL) d.decay_gate = MIRAS_GATE_HEAD;
          if (d.learning_rate_gate == MIRAS_GATE_CHANNEL) d.learning_rate_gate = MIRAS_GATE_HEAD;
        }
        d = tidy(d);
        check_forward(&d, 2 * chunks[c] + 5, (uint64_t)i);
      }
  forward_finish();
}

/* The other gates as mask says; one without a use is refused. */
static void check_gates(miras_memory_desc *d, int mask) {
  char why[200] = "";
  d->learning_rate_gate = (miras_gate)(mask % 3);
  d->momentum_gate = mask / 9 ? MIRAS_GATE_HEAD : MIRAS_GATE_CONSTANT;
  d->threshold_gate = (miras_gate)(mask / 3 % 3);
  if ((d->algorithm == MIRAS_ALGORITHM_MOMENTUM || !d->momentum_gate) &&
      (ref_has_threshold(d) || !d->threshold_gate)) {
    check_forward(d, 7, 50);
    return;
  }
  if (miras_memory_size(d, why, sizeof why) != 0)
    failed("a gate without a use is accepted: %s", label(d));
  else if (strstr(why, "_gate") == NULL)
    failed("\"%s\" does not name the gate: %s", why, label(d));
  refused++;
}

/* Every way to say where a gate's value comes from, on the memories that have the gate. A gate that
 * a memory does not have is refused, and with a sentence. */
static void test_forward_gates(void **state) {
  static const int shapes[] = {0, 1, 2, SHAPE_GATED, SHAPE_VECTOR};
  (void)state;
  start();
  random_state = 3;
  refused = accepted = 0;
  worst_forward = 0.0;
  for (EACH_POOL(p))
    for (int s = 0; s < COUNT(shapes); s++)
      for (int c = 0; c < 2; c++)
        for (int keep = 0; keep < 3; keep++)
          for (int mask = 0; mask < 18; mask++)
            for (int b = 0; b < p->biases; b++)
              for (int algorithm = 0; algorithm < 2; algorithm++) {
                const miras_retention retention = p > pools ? p->retention[mask % p->retentions]
                                                  : (mask + b) % 3 ? MIRAS_RETENTION_L2
                                                                   : MIRAS_RETENTION_LQ;
                miras_memory_desc d =
                  cell(shapes[s], p->bias[b], retention, (miras_algorithm)algorithm, chunks[c],
                       (uint64_t)(mask * 7 + b) + 5000u);
                if (shapes[s] > 0 && (keep + s + mask + b) % 2) continue;
                d.value_dim = d.key_dim;
                regroup(&d);
                d.inner_bias = d.token_rates = MIRAS_TOKEN_RATES_NONE;
                d.simplex_whole = 0;
                d.decay_gate = (miras_gate)keep;
                check_gates(&d, mask);
              }
  forward_finish();
}

/* ---- token by token ---- */

static double worst_step;
static int steps_taken, walks;

/* One memory that takes its tokens one by one, the same in double, and what one call said. */
typedef struct walk {
  data x;
  miras_memory *m;
  ref_memory r;
  size_t heads;         /* times sequences */
  double top[MOST_HEADS]; /* of the whole answer */
  float *whole, *y, *again, *key, *value, *query;
  double *expected, *surprises;
} walk;

/* 0: nothing to walk; what is wrong has been said. */
static int walk_open(walk *w, const miras_memory_desc *d, int T, uint64_t seed) {
  miras_memory *whole;
  miras_memory_input all;
  double *wide;
  size_t H, batch;
  if (miras_memory_size(d, NULL, 0) == 0) {
    if (has_meaning(d)) failed("refused: %s", label(d));
    return 0;
  }
  if (!my_share() || !data_settled(&w->x, d, T, seed, 1e-4)) return 0;
  w->m = open_memory(&w->x);
  whole = open_memory(&w->x);
  if (w->m == NULL || whole == NULL) {
    failed("not opened: %s", label(d));
    data_free(&w->x);
    return 0;
  }
  ref_open(&w->r, &w->x.d, w->x.params.d);
  batch = (size_t)w->x.d.batch;
  H = (size_t)w->x.d.heads;
  w->heads = batch * H;
  w->y = (float *)zeros(w->heads * w->x.out, sizeof(float));
  w->again = (float *)zeros(w->heads * w->x.out, sizeof(float));
  w->expected = (double *)ref_zeros(w->heads * w->x.out);
  w->surprises = (double *)ref_zeros(w->heads);
  w->key = (float *)zeros(w->heads * w->x.per[KEY], sizeof(float));
  w->value = (float *)zeros(w->heads * w->x.per[VALUE], sizeof(float));
  w->query = (float *)zeros(w->heads * w->x.per[QUERY], sizeof(float));
  w->whole = (float *)zeros(w->x.dy.count, sizeof(float));
  all = data_tokens(&w->x);
  if (miras_memory_forward(whole, &all, w->whole, NULL) != MIRAS_OK)
    failed("forward: %s", label(d));
  miras_close(whole);
  wide = (double *)ref_zeros(w->x.dy.count);
  for (size_t i = 0; i < w->x.dy.count; i++) wide[i] = (double)w->whole[i];
  head_tops(&w->x, wide, w->x.dy.count, w->top);
  free(wide);
  return 1;
}

static void walk_close(walk *w) {
  ref_close(&w->r);
  miras_close(w->m);
  free(w->whole);
  free(w->y);
  free(w->again);
  free(w->key);
  free(w->value);
  free(w->query);
  free(w->expected);
  free(w->surprises);
  data_free(&w->x);
}

/* Token t of an input, [batch, heads, per]. */
static void walk_token(const walk *w, float *to, const float *from, size_t per, int t) {
  cut_rows(to, from, w->x.d.batch, w->x.T, (size_t)w->x.d.heads * per, t, t + 1);
}

/* The surprise is a mean over heads; a sum of |r|^p multiplies what r is off by with p. */
static void check_surprise(walk *w, double is, int t) {
  const double p = w->x.d.p > 2.0f ? (double)w->x.d.p : 2.0;
  double mean = 0.0, scale = 0.1, bound = 5e-5, error;
  for (size_t i = 0; i < w->heads; i++) {
    mean += w->surprises[i] / (double)w->heads;
    scale += fabs(w->surprises[i]) / (double)w->heads;
  }
  error = fabs(is - mean) / scale;
  if (!(error <= bound)) {
    excused++;
    bound = STEP_EXCUSE * p * unavoidable(&w->x, t, t + 1);
    worst_excuse = fmax(worst_excuse, STEP_EXCUSE * error / bound);
  }
  if (!(error <= bound))
    failed("surprise %g, not %g, at token %d: %s", is, mean, t, label(&w->x.d));
}

/* What was read after token t, in each head relative to its largest answer of all tokens. */
static void check_read(walk *w, const char *which, int t) {
  double each[MOST_HEADS], error;
  head_errors(&w->x, w->y, w->expected, w->heads * w->x.out, w->top, each);
  error = after_excuses(&w->x, t, t + 1, STEP_EXCUSE, each);
  if (error > worst_step) worst_step = error;
  if (!(error <= FORWARD))
    failed("the %s read is off by %.2e at token %d: %s", which, error, t, label(&w->x.d));
}

/* Even tokens by miras_memory_forward, odd ones by miras_memory_write and miras_memory_read; reads
 * change nothing, however many. */
static void check_token(walk *w, int t) {
  const size_t count = w->heads * w->x.out;
  data one = data_cut(&w->x, t, t + 1);
  const ref_tokens token = data_reference(&one);
  ref_forward(&w->r, &token, w->expected, w->surprises);
  walk_token(w, w->key, w->x.in[KEY].f, w->x.per[KEY], t);
  walk_token(w, w->value, w->x.in[VALUE].f, w->x.per[VALUE], t);
  walk_token(w, w->query, w->x.in[QUERY].f, w->x.per[QUERY], t);
  walk_token(w, w->again, w->whole, w->x.out, t);
  if (t % 2 == 0) {
    forward_one(w->m, w->key, w->value, w->query, w->y);
    if (!same_bits(w->again, w->y, count))
      failed("one token and all of them differ in bits at token %d: %s", t, label(&w->x.d));
  } else {
    check_surprise(w, (double)surprise_of_write(w->m, w->key, w->value), t);
    miras_memory_read(w->m, w->query, w->y);
  }
  check_read(w, "first", t);
  miras_memory_read(w->m, w->query, w->y);
  check_read(w, "second", t);
  miras_memory_read(w->m, w->query, w->again);
  if (!same_bits(w->again, w->y, count))
    failed("a third read differs from the second at token %d: %s", t, label(&w->x.d));
  steps_taken++;
  data_free(&one);
}

/* Tokens behind one that is off are, too: a memory is excused once. */
static void check_steps(const miras_memory_desc *d, int T, uint64_t seed) {
  const int excused_before = excused;
  walk w;
  if (!walk_open(&w, d, T, seed)) return;
  for (int t = 0; t < T; t++) check_token(&w, t);
  if (excused > excused_before) excused = excused_before + 1;
  walks++;
  walk_close(&w);
}

/* What a token can be written with alone: all gates constant, no keys to erase with. */
static miras_memory_desc step_cell(int shape, miras_bias bias, miras_retention retention, int chunk,
                            uint64_t variant) {
  static const miras_algorithm others[] = {MIRAS_ALGORITHM_IMPLICIT, MIRAS_ALGORITHM_LEAST_SQUARES};
  miras_memory_desc d = cell(shape, bias, retention, (miras_algorithm)(variant / 2 % 2), chunk,
                      variant + 9000u);
  if (variant % 4 == 3 && shape == SHAPE_MATRIX && bias == MIRAS_BIAS_L2)
    d.algorithm = others[(variant + 1) / 4 % 2];
  d.decay_gate = d.learning_rate_gate = d.momentum_gate = d.threshold_gate = MIRAS_GATE_CONSTANT;
  d.value_decay_gate = MIRAS_GATE_CONSTANT;
  d.separate_erase = 0;
  return tidy(d);
}

/* miras_memory_write, miras_memory_read and miras_memory_forward one token at a time: surprise and
 * outputs against the reference, and the bits of all tokens at once. */
static void test_step(void **state) {
  uint64_t variant = 0;
  (void)state;
  start();
  random_state = 4;
  worst_step = 0.0;
  steps_taken = walks = 0;
  for (EACH_POOL(p))
    for (int shape = 0; shape < SHAPES; shape++)
      for (int b = 0; b < p->biases; b++)
        for (int r = 0; r < p->retentions; r++)
          for (int c = 0; c < 2; c++, variant++) {
            const miras_memory_desc d =
              step_cell(shape, p->bias[b], p->retention[r], chunks[c], variant);
            check_steps(&d, lasting(&d, 2 * chunks[c] + 5), variant + 1);
          }
  printf("  %d tokens of %d memories one by one: largest error %.2e, %d excused (%.1f times)\n",
         steps_taken, walks, worst_step, excused, worst_excuse);
  if (excused > 2 && excused * 100 > walks) failed("too many are excused");
  finish();
}

/* ---- gradients ---- */

static double worst_gradient;
static int skipped_coordinates, checked_coordinates, checked_gradients, threshold_reached;

/* Weights that are all positive leave an inner norm behind several layers with little more than
 * what it subtracts. */
static double gradient_bound(const miras_memory_desc *d) {
  return d->inner_norm && d->depth > 1 && has_logits(d) ? 2.0 * GRADIENT : GRADIENT;
}

/* How many times what a last digit of the inputs does to a gradient is excused: every layer rounds
 * as well, on the way there and on the way back. Measured portably and with AVX2: 0.4 with one
 * layer, 4.2 with two, 12.2 with more. */
static double gradient_excuse(const miras_memory_desc *d) {
  return d->depth > 2 ? 24.0 : d->depth > 1 ? 12.0 : 2.0;
}

/* One gradient: the numbers it belongs to and the library's answer. per: entries per (b, t, h);
 * else per_head: parameters of a head; neither: parameters of all heads. */
typedef struct gradient {
  const char *name;
  double *values;
  const float *grad;
  size_t count, per, per_head;
  int may_vanish;
} gradient;

/* Where an entry belongs: a sequence, a head (-1: to all), and a layer of it. */
typedef struct place {
  int b, h, layer;
} place;

static place place_of(const functional *f, const gradient *g, size_t i) {
  const ref_shape *s = &f->m->s;
  const size_t H = (size_t)f->x->d.heads;
  place at = {-1, -1, 0};
  if (g->per > 0) {
    at.b = (int)(i / g->per / H / (size_t)f->x->T);
    at.h = (int)(i / g->per % H);
  } else if (g->per_head > 0) {
    at.h = (int)(i / g->per_head % H);
    while (g->per_head == s->weights && at.layer + 1 < s->layers &&
           i % g->per_head >= s->at[at.layer + 1])
      at.layer++;
  }
  return at;
}

/* The largest entry of each place; REF_LAYERS of them for each sequence and head. */
static double *top_of_place(const functional *f, double *tops, place at) {
  const int H = f->x->d.heads, b = at.b < 0 ? 0 : at.b, h = at.h < 0 ? 0 : at.h;
  if (f->x->d.batch * H > MOST_HEADS) abort();
  return &tops[(b * H + h) * REF_LAYERS + at.layer];
}

/* Is one derivative as it should be, relative to the largest of its place? 2: it is excused. */
static int near_enough(const functional *f, double *value, place at, double is, double should,
                       double top) {
  const miras_memory_desc *d = &f->x->d;
  const double error = fabs(is - should);
  double limit;
  if (error <= gradient_bound(d) * top + NOISE) {
    if (error > NOISE) worst_gradient = fmax(worst_gradient, error / top);
    return 1;
  }
  limit = unavoidable_difference(f, value, at.b, at.h);
  if (!(error <= gradient_excuse(d) * limit)) return 0;
  worst_excuse = fmax(worst_excuse, error / limit);
  return 2;
}

/* Compare sampled coordinates of one gradient: two, where runs are slowest, as differences are the
 * reference's work. */
enum { LEAN = MIRAS_TEST_SHARE > 64 };
static void check_tensor(const functional *f, const gradient *g, int coordinates) {
  enum { MOST = 32 };
  const miras_memory_desc *d = &f->x->d;
  double tops[MOST_HEADS * REF_LAYERS] = {0.0}, largest = 0.0, should[MOST];
  size_t at[MOST], n = 0;
  int excuse = 0;
  if (g->count == 0) return;
  if (coordinates > MOST) abort();
  if (LEAN && coordinates > 2) coordinates = 2;
  for (size_t i = 0; i < g->count; i++) {
    double *top = top_of_place(f, tops, place_of(f, g, i));
    if (!(fabs((double)g->grad[i]) < 1e30)) {
      failed("gradient of %s is not finite at %zu: %s", g->name, i, label(d));
      return;
    }
    *top = fmax(*top, fabs((double)g->grad[i]));
  }
  for (size_t j = 0; j < g->count && j < (size_t)coordinates; j++) {
    const size_t i = g->count <= (size_t)coordinates ? j : (size_t)(draw() % g->count);
    const place where = place_of(f, g, i);
    double *top = top_of_place(f, tops, where);
    if (!difference(f, g->values + i, where.b, where.h, &should[n])) {
      skipped_coordinates++;
      continue;
    }
    checked_coordinates++;
    *top = fmax(*top, fabs(should[n]));
    at[n++] = i;
  }
  for (int i = 0; i < COUNT(tops); i++) largest = fmax(largest, tops[i]);
  /* too small for differences, but not zero; where ridges go with keys and steps, what all steps
   * have in common changes nothing, and a single one nothing at all */
  if (largest < (d->ridge_relative && !strcmp(g->name, "step") ? 1e-5 : 1e-7)) {
    if (!g->may_vanish && largest < 1e-10) failed("gradient of %s is zero: %s", g->name, label(d));
    return;
  }
  checked_gradients++;
  for (size_t j = 0; j < n; j++) {
    const place where = place_of(f, g, at[j]);
    const double top = *top_of_place(f, tops, where), is = (double)g->grad[at[j]];
    const int near = near_enough(f, g->values + at[j], where, is, should[j], top);
    excuse |= near == 2;
    if (near) continue;
    failed("gradient of %s off by %.2e (entry %zu: %g, not %g; T %d): %s", g->name,
           fabs(is - should[j]) / top, at[j], is, should[j], f->x->T, label(d));
    return;
  }
  excused += excuse;
}

/* A taped call, its gradients, and the reference to compare them with. */
typedef struct taping {
  const miras_memory_desc *given;
  int before, T;
  data x;                 /* of the taped tokens */
  miras_memory *m;
  ref_memory r;
  functional f;
  size_t heads, per_state; /* heads times sequences */
  float *dx[INPUTS], *dparams, *dstate;
  double *before_state, *pull;
} taping;

/* Tokens ahead of the taped ones, without a tape. */
static void taping_before(taping *t, const data *whole) {
  data first = data_cut(whole, 0, t->before);
  const miras_memory_input tokens = data_tokens(&first);
  const ref_tokens reference = data_reference(&first);
  const size_t count = t->heads * t->r.per_head;
  float *y = (float *)zeros(first.dy.count, sizeof(float));
  miras_memory_forward(t->m, &tokens, y, NULL);
  ref_forward(&t->r, &reference, NULL, NULL);
  t->before_state = (double *)ref_zeros(count);
  memcpy(t->before_state, t->r.state, count * sizeof(double));
  free(y);
  data_free(&first);
}

/* The taped call and its adjoint. A pull on the final state is added when it lies on the grid. */
static void taping_run(taping *t) {
  const data *x = &t->x;
  const size_t states = t->heads * t->per_state;
  const miras_memory_input tokens = data_tokens(x);
  float *y = (float *)zeros(x->dy.count, sizeof(float));
  float *tape = (float *)zeros(miras_memory_tape_size(t->m, t->T), sizeof(float));
  miras_memory_input_grad grads;
  miras_result result;
  for (size_t i = 0; i < miras_memory_tape_size(t->m, t->T); i++) tape[i] = NAN;
  if (t->T % x->d.chunk == 0) {
    t->dstate = (float *)zeros(states, sizeof(float));
    t->pull = (double *)ref_zeros(states);
    for (size_t i = 0; i < states; i++)
      t->pull[i] = (double)(t->dstate[i] = uniform(-0.5f, 0.5f));
  }
  if (miras_memory_tape_size(t->m, t->T) == 0 && t->T > 0)
    failed("no tape for %d tokens: %s", t->T, label(t->given));
  result = miras_memory_forward(t->m, &tokens, y, tape);
  if (result != MIRAS_OK) failed("taping: %s: %s", miras_result_text(result), label(t->given));
  for (int i = 0; i < INPUTS; i++) {
    t->dx[i] = (float *)zeros(x->in[i].count, sizeof(float));
    for (size_t j = 0; j < x->in[i].count; j++) t->dx[i][j] = 1e6f; /* must be overwritten */
  }
  t->dparams = (float *)zeros(x->params.count, sizeof(float));
  for (size_t i = 0; i < x->params.count; i++) t->dparams[i] = 1.0f / 1024; /* must be added to */
  grads = data_grads(x, t->dx);
  result = miras_memory_backward(t->m, &tokens, tape, x->dy.f, &grads, t->dparams, t->dstate);
  if (result != MIRAS_OK) failed("backward: %s: %s", miras_result_text(result), label(t->given));
  for (size_t i = 0; i < x->params.count; i++) t->dparams[i] -= 1.0f / 1024;
  free(y);
  free(tape);
}

/* 0: nothing to compare; what is wrong has been said. */
static int taping_open(taping *t, const miras_memory_desc *given, int before, int T,
                       uint64_t seed) {
  data whole;
  char why[200] = "";
  memset(t, 0, sizeof *t);
  t->given = given;
  t->before = before;
  t->T = T;
  if (miras_memory_size(given, why, sizeof why) == 0) {
    if (has_meaning(given)) failed("refused (%s): %s", why, label(given));
    return 0;
  }
  if (!data_settled(&whole, given, before + T, seed, 2e-4)) return 0;
  t->m = open_memory(&whole);
  if (t->m == NULL) {
    failed("not opened: %s", label(given));
    data_free(&whole);
    return 0;
  }
  ref_open(&t->r, &whole.d, whole.params.d);
  t->heads = (size_t)whole.d.batch * (size_t)whole.d.heads;
  t->per_state = state_size(&whole.d);
  if (miras_memory_grad_state_size(t->m) != t->heads * t->per_state)
    failed("dstate has %zu floats, not %zu: %s", miras_memory_grad_state_size(t->m),
           t->heads * t->per_state, label(given));
  if (before > 0) taping_before(t, &whole);
  t->x = data_cut(&whole, before, before + T);
  data_free(&whole);
  taping_run(t);
  t->f.x = &t->x;
  t->f.m = &t->r;
  t->f.state = t->before_state;
  t->f.pull = t->pull;
  t->f.y = (double *)ref_zeros(t->x.dy.count);
  t->r.position = (uint64_t)before;
  return 1;
}

static void taping_close(taping *t) {
  for (int i = 0; i < INPUTS; i++) free(t->dx[i]);
  free(t->f.y);
  free(t->dparams);
  free(t->dstate);
  free(t->before_state);
  free(t->pull);
  ref_close(&t->r);
  miras_close(t->m);
  data_free(&t->x);
}

static void check_inputs(const taping *t, int coordinates) {
  const miras_memory_desc *d = &t->x.d;
  for (int i = 0; i < INPUTS; i++) {
    gradient g = {input_names[i], t->x.in[i].d, t->dx[i], t->x.in[i].count, t->x.per[i], 0, 0};
    if (i == VALUE && d->bias == MIRAS_BIAS_LP && !(d->p > 1.0f)) g.may_vanish = 1;
    if (i == VALUE && d->bias == MIRAS_BIAS_HUBER) g.may_vanish = 1;
    if (i == THRESHOLD) g.may_vanish = 1;
    if (d->architecture == MIRAS_ARCH_KV_CACHE &&
        (d->window == 1 || t->T == 1)) /* y is the one value */
      g.may_vanish = 1;
    if ((i == KEEP || i == VALUE_KEEP) && d->decay_target && t->T <= d->chunk &&
        (t->before == 0 || (d->reset_every && t->before % d->reset_every == 0)))
      g.may_vanish = 1; /* where the memory is still what the decay leads to */
    check_tensor(&t->f, &g, coordinates);
    for (size_t j = 0; i == THRESHOLD && j < g.count; j++) threshold_reached += g.grad[j] != 0.0f;
  }
}

/* The initial memory has a gradient if the tape begins with it, if decays lead there, and if a head
 * starts anew. What else belongs to a memory always has one. */
static void check_params(const taping *t, int coordinates) {
  const miras_memory_desc *d = &t->x.d;
  const size_t P = t->r.s.weights, H = (size_t)d->heads, n = H * t->x.out;
  const size_t gain = params_gain(&t->x), rho = params_rho(&t->x), F = (size_t)t->r.features;
  double *values = t->r.params;
  const float *grad = t->dparams;
  /* A beyond the soft threshold around the initial memory: W is A and the threshold, and little or
   * nothing is left in some heads; then all of them count together */
  const int fades = t->before > 0 && d->retention == MIRAS_RETENTION_ELASTIC_FTRL;
  const gradient initial = {"initial memory", values, grad, H * P, 0, fades ? 0 : P, fades};
  const gradient gains = {"gain", values + gain, grad + gain, n, 0, t->x.out, 0};
  const gradient biases = {"bias", values + gain + n, grad + gain + n, n, 0, t->x.out, 0};
  const gradient rates = {"rho", values + rho, grad + rho, (size_t)d->chunk, 0, 0, 0};
  const gradient ridge = {"lambda", values + rho, grad + rho, H * F, 0, F, 0};
  const gradient entries = {"decay_log", values + rho, grad + rho, H * P, 0, P, 0};
  if (t->before == 0 || d->decay_target || d->reset_every) {
    check_tensor(&t->f, &initial, coordinates);
  } else {
    for (size_t i = 0; i < H * P; i++)
      if (grad[i] != 0.0f) {
        failed("the initial memory receives a gradient from a tape that began later: %s",
               label(t->given));
        break;
      }
  }
  if (d->inner_norm) {
    check_tensor(&t->f, &gains, coordinates);
    check_tensor(&t->f, &biases, coordinates);
  }
  if (d->token_rates) check_tensor(&t->f, &rates, coordinates);
  if (d->algorithm == MIRAS_ALGORITHM_LEAST_SQUARES || /* or it begins, or fades */
      (ref_squares(d) && (t->before == 0 || d->retention != MIRAS_RETENTION_ALL)))
    check_tensor(&t->f, &ridge, coordinates);
  if (d->decay_gate == MIRAS_GATE_ENTRY) check_tensor(&t->f, &entries, coordinates);
}

/* The state of one head before the taped tokens. */
static void check_state(const taping *t, size_t head) {
  const int H = t->x.d.heads, h = (int)head % H;
  const place where = {(int)head / H, h, 0};
  const size_t per = t->per_state;
  const float *grad = t->dstate + head * per;
  double *from = t->before_state + head * t->r.per_head, top = 1e-12;
  int excuse = 0;
  for (size_t i = 0; i < per; i++) top = fmax(top, fabs((double)grad[i]));
  if (ref_restarts(&t->x.d, h, (uint64_t)t->before)) { /* nobody reads that state any more */
    if (top > 1e-12) failed("a state that is given up has a gradient: %s", label(t->given));
  } else if (top <= 1e-7 && t->x.d.architecture != MIRAS_ARCH_KV_CACHE) {
    failed("gradient of the state before is zero: %s", label(t->given));
  }
  for (size_t j = 0; j < per && j < 12; j++) {
    const size_t i = per < 12 ? j : (size_t)(draw() % per);
    const size_t at = state_entry(&t->r, h, i, (uint64_t)t->before);
    double should;
    int near;
    if (at == NOWHERE || twin_entry(&t->r, i) ||
        !state_difference(&t->f, from + at, where.b, h, &should))
      continue;
    checked_coordinates++;
    near = near_enough(&t->f, from + at, where, (double)grad[i], should, top);
    excuse |= near == 2;
    if (near) continue;
    failed("gradient of the state before off by %.2e: %s", fabs((double)grad[i] - should) / top,
           label(t->given));
    return;
  }
  checked_gradients++;
  excused += excuse;
}

/* All gradients of one descriptor. before: tokens, a multiple of the chunk, run without a tape
 * ahead of the T that are taped. */
static void check_gradient(const miras_memory_desc *given, int before, int T, uint64_t seed,
                           int coordinates) {
  taping t;
  if (!my_share()) return;
  if (given->reset_every > 0 && coordinates > 4) coordinates = 4; /* of many more tokens each */
  if (!taping_open(&t, given, before, lasting(given, T), seed)) return;
  check_inputs(&t, coordinates);
  check_params(&t, coordinates);
  for (size_t head = 0; before > 0 && t.dstate != NULL && head < t.heads; head++)
    check_state(&t, head);
  for (size_t i = 0; before == 0 && t.dstate != NULL && i < t.heads * t.per_state; i++)
    if (t.dstate[i] != 0.0f) {
      failed("dstate is not zero before the first token: %s", label(given));
      break;
    }
  taping_close(&t);
}

/* A call of a chunk's tokens is its tokens one by one, to the bit, where features are many: keys of
 * 96 in pairs are 4,753, in columns of 32. */
static void test_features_many(void **state) {
  enum { N = 96, DV = 8, T = 32 };
  float *key = (float *)zeros(T * N, sizeof(float)), *value = (float *)zeros(T * DV, sizeof(float));
  float *all = (float *)zeros(T * DV, sizeof(float)), *one = (float *)zeros(T * DV, sizeof(float));
  (void)state;
  if (MIRAS_TEST_SHARE == 1) {
    miras_memory *m[2];
    miras_memory_input x;
    miras_memory_desc d;
    start();
    random_state = 9;
    for (int i = 0; i < T * N; i++) key[i] = uniform(-0.1f, 0.1f);
    for (int i = 0; i < T * DV; i++) value[i] = uniform(-1.0f, 1.0f);
    miras_memory_preset(&d, MIRAS_PRESET_MESA);
    d.key_dim = N;
    d.value_dim = DV;
    d.chunk = T;
    d.heads = d.iterations = 1;
    d.feature_map = MIRAS_FN_POLY2;
    for (int i = 0; i < 2; i++) m[i] = miras_memory_open(&d, NULL, NULL, 0);
    memset(&x, 0, sizeof x);
    x.key = x.query = key;
    x.value = value;
    x.length = T;
    if (miras_memory_forward(m[0], &x, all, NULL) != MIRAS_OK) failed("a call: %s", label(&d));
    x.length = 1;
    for (int t = 0; t < T; t++, x.key = x.query = x.key + N, x.value += DV)
      if (miras_memory_forward(m[1], &x, one + t * DV, NULL) != MIRAS_OK) failed("token %d", t);
    if (memcmp(all, one, T * DV * sizeof *all) != 0) failed("a call is not its tokens");
    for (int i = 0; i < 2; i++) miras_close(m[i]);
    finish();
  }
  free(key);
  free(value);
  free(all);
  free(one);
}

/* Where a memory is hardly away from the B that it returns to, a decay gate's gradient is of their
 * difference, not the difference of what either says. Each is of float, so that 2^-24 B / (A - B)
 * cannot be had. */
static void test_gradient_near(void **state) {
  (void)state;
  start();
  random_state = 5;
  for (int i = 0; i < 6; i++) {
    double top = 0, most = 0;
    gradient g;
    miras_memory_desc d;
    taping t;
    miras_memory_preset(&d, MIRAS_PRESET_TTT_LINEAR_MEMORY);
    d.key_dim = d.value_dim = 48;
    d.chunk = 4;
    d.heads = 1;
    d.step_bound = MIRAS_STEP_BOUND_AUTO;
    d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    d.decay_gate = i % 2 ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD;
    d.learning_rate = 1e-3f;
    if (!taping_open(&t, &d, 8, 8, 40u + (uint64_t)i)) continue;
    g = (gradient){"keep", t.x.in[KEEP].d, t.dx[KEEP], t.x.in[KEEP].count, t.x.per[KEEP], 0, 0};
    for (size_t j = 0; j < g.count; j++) top = fmax(top, fabs((double)g.grad[j]));
    for (size_t j = 0; j < g.count; j += 1 + g.count / 32) {
      double should;
      if (difference(&t.f, g.values + j, 0, 0, &should))
        most = fmax(most, fabs((double)g.grad[j] - should) / top);
    }
    printf("  %s: keep gradients within %.1e of the largest\n", i % 2 ? "channels" : "heads",
           most);
    if (!(most <= 8e-6)) failed("keep gradient off by %.1e: %s", most, label(&d));
    taping_close(&t);
  }
  finish();
}

static void gradient_start(void) {
  start();
  random_state = 5;
  worst_gradient = 0.0;
  skipped_coordinates = checked_coordinates = checked_gradients = threshold_reached = 0;
}

static void gradient_finish(void) {
  printf("  %d gradients: %d coordinates, %d skipped at a corner, largest error %.2e, %d excused "
         "(%.1f times)\n", checked_gradients, checked_coordinates, skipped_coordinates,
         worst_gradient, excused, worst_excuse);
  /* measured: at most one in 300 */
  if (excused > 4 && excused * 100 > checked_gradients) failed("too many are excused");
  if (skipped_coordinates > 4 && skipped_coordinates * 100 > checked_coordinates)
    failed("too many coordinates were skipped");
  finish();
}

/* Heads as large as published models have them: products there go other ways than at small sizes,
 * in blocks of 16 rows and, of 256 columns, through scratch of another size. */
static void test_gradient_heads(void **state) {
  static const miras_preset kinds[] = {MIRAS_PRESET_DELTANET_MEMORY, MIRAS_PRESET_GATED_DELTANET,
                                       MIRAS_PRESET_LONGHORN, MIRAS_PRESET_KDA_MEMORY,
                                       MIRAS_PRESET_RWKV7_MEMORY};
  static const int sizes[][2] = {{256, 256}, {128, 216}, {160, 240}};
  (void)state;
  gradient_start();
  for (int i = 0; i < COUNT(kinds); i++)
    for (int s = 0; s < (MIRAS_TEST_SHARE > 1 ? 1 : COUNT(sizes)); s++) {
      taping t;
      miras_memory_desc d;
      miras_memory_preset(&d, kinds[i]);
      d.key_dim = sizes[s][0];
      d.value_dim = sizes[s][1];
      d.heads = 1;
      d.chunk = s == 2 ? 8 : 1;
      if (!taping_open(&t, &d, 0, 20, 70u + (uint64_t)(3 * i + s))) continue;
      check_inputs(&t, 8);
      taping_close(&t);
    }
  gradient_finish();
}

/* ---- units: all of it in seconds ----
 * The choices once more, each on few tokens and with one number for all of its gradients: the slope
 * along a direction in which every input, parameter and state has a part of one length. */

typedef struct direction {
  double **at, *u, *kept; /* entries, how far they go, and where they were */
  size_t count;
  double is, square, most; /* the slope by the gradients; of the bound; the largest u */
} direction;

/* An entry whose gradient is g, of a part that is so long and whose largest entry is top. */
static void direction_add(direction *w, double *at, double g, double length, double top) {
  const double u = (draw() % 2 ? 1.0 : -1.0) / (length > 1e-6 ? length : 1.0);
  w->at[w->count] = at;
  w->kept[w->count] = *at;
  w->u[w->count++] = u;
  w->is += u * g;
  w->square += top * top * u * u;
  w->most = fmax(w->most, fabs(u) / fmin(1.0, 1e-2 + 100.0 * fabs(*at)));
}

static void direction_part(direction *w, double *values, const float *grad, size_t count) {
  double length = 0.0, top = 0.0;
  for (size_t i = 0; i < count; i++) {
    length += (double)grad[i] * (double)grad[i];
    top = fmax(top, fabs((double)grad[i]));
  }
  length = sqrt(length);
  for (size_t i = 0; i < count; i++) direction_add(w, values + i, (double)grad[i], length, top);
}

static void direction_state(direction *w, const taping *t, size_t head) {
  const float *grad = t->dstate + head * t->per_state;
  double *from = t->before_state + head * t->r.per_head, length = 0.0, top = 0.0;
  const int h = (int)(head % (size_t)t->x.d.heads);
  for (size_t i = 0; i < t->per_state; i++) {
    length += (double)grad[i] * (double)grad[i];
    top = fmax(top, fabs((double)grad[i]));
  }
  length = sqrt(length);
  for (size_t i = 0; i < t->per_state; i++) {
    const size_t at = state_entry(&t->r, h, i, (uint64_t)t->before);
    if (at != NOWHERE && !twin_entry(&t->r, i))
      direction_add(w, from + at, (double)grad[i], length, top);
  }
}

/* The reference's slope; 0: a corner lies between. */
static int direction_slope(direction *w, const taping *t, double *slope) {
  const double h = 2e-6 / w->most;
  double sum[2] = {0.0, 0.0};
  ref_branches b[2];
  for (int side = 0; side < 2; side++) {
    ref_branches_clear(&b[side]);
    for (size_t i = 0; i < w->count; i++)
      *w->at[i] = w->kept[i] + (side ? h : -h) * w->u[i];
    for (int n = 0; n < t->x.d.batch * t->x.d.heads; n++)
      sum[side] += functional_head(&t->f, n / t->x.d.heads, n % t->x.d.heads, &b[side]);
  }
  for (size_t i = 0; i < w->count; i++) *w->at[i] = w->kept[i];
  *slope = (sum[1] - sum[0]) / (2.0 * h);
  return b[0].decisions == b[1].decisions;
}

/* How far it moves when all entries change by a few units in the last place. */
static double direction_unavoidable(direction *w, const taping *t, double slope) {
  double worst = 0.0, is;
  for (int pass = 0; pass < 4; pass++) {
    for (size_t i = 0; i < w->count; i++) w->kept[i] *= 1.0 + (double)uniform(-ULPS, ULPS);
    direction_slope(w, t, &is);
    worst = fmax(worst, fabs(is - slope));
  }
  return worst;
}

static void check_direction(taping *t) {
  direction w;
  const size_t states = t->before > 0 && t->dstate ? t->heads * t->per_state : 0;
  size_t room = t->x.params.count + states;
  double should, error, bound;
  for (int i = 0; i < INPUTS; i++) room += t->x.in[i].count;
  memset(&w, 0, sizeof w);
  w.at = (double **)zeros(room, sizeof *w.at);
  w.u = (double *)ref_zeros(room);
  w.kept = (double *)ref_zeros(room);
  for (int i = 0; i < INPUTS; i++)
    direction_part(&w, t->x.in[i].d, t->dx[i], t->x.in[i].count);
  direction_part(&w, t->r.params, t->dparams, t->heads / (size_t)t->x.d.batch * t->r.s.weights);
  direction_part(&w, t->r.params + params_gain(&t->x), t->dparams + params_gain(&t->x),
                 t->x.params.count - params_gain(&t->x));
  for (size_t head = 0; states && head < t->heads; head++) direction_state(&w, t, head);
  if (!(fabs(w.is) < 1e30)) {
    failed("a gradient is not finite: %s", label(t->given));
  } else if (!direction_slope(&w, t, &should)) {
    skipped_coordinates++;
  } else {
    checked_coordinates++;
    checked_gradients++;
    error = fabs(should - w.is);
    bound = gradient_bound(&t->x.d) * sqrt(w.square) + 1e-4;
    if (error > bound && error <= gradient_excuse(&t->x.d) * direction_unavoidable(&w, t, should))
      excused++;
    else if (error > bound)
      failed("a slope of %g is off by %g; %g is allowed: %s", should, error, bound,
             label(t->given));
    else
      worst_gradient = fmax(worst_gradient, error / bound * GRADIENT);
  }
  free(w.at);
  free(w.u);
  free(w.kept);
}

/* Answers do not meet what comes behind them, not even times zero: tokens before one of NaN have
 * the bits of a call that ends with them. */
static void check_causal(const miras_memory_desc *d, int T, uint64_t seed) {
  const size_t rows = (size_t)(ref_resolve(d).batch * T);
  float *y[2] = {NULL, NULL};
  data x, first;
  if (miras_memory_size(d, NULL, 0) == 0) return;
  data_new(&x, d, T, seed);
  first = data_cut(&x, 0, T - 1);
  for (int i = 0; i < INPUTS; i++)
    for (size_t j = 0; j < x.in[i].count; j++) {
      const size_t row = j / (x.in[i].count / rows);
      if (row % (size_t)T == (size_t)T - 1) x.in[i].f[j] = NAN;
    }
  for (int i = 0; i < 2; i++) {
    const data *of = i ? &x : &first;
    const miras_memory_input tokens = data_tokens(of);
    miras_memory *m = open_memory(of);
    y[i] = (float *)zeros(x.dy.count, sizeof(float));
    if (m == NULL || miras_memory_forward(m, &tokens, y[i], NULL) != MIRAS_OK)
      failed("forward: %s", label(d));
    miras_close(m);
  }
  for (int n = 0; n < x.d.batch; n++) {
    const size_t one = (size_t)x.d.heads * x.out;
    if (!same_bits(y[0] + (size_t)n * (size_t)(T - 1) * one, y[1] + (size_t)(n * T) * one,
                   (size_t)(T - 1) * one))
      failed("a token changes what was said before it (T %d): %s", T, label(d));
  }
  free(y[0]);
  free(y[1]);
  data_free(&x);
  data_free(&first);
}

static void check_unit(const miras_memory_desc *d, int before, int T, uint64_t seed) {
  taping t;
  slack = d->algorithm == MIRAS_ALGORITHM_MUON ? 8.0 : 1.0;
  check_outputs(d, before + T, seed);
  check_causal(d, T, seed);
  if (taping_open(&t, d, before, lasting(d, T), seed)) {
    check_direction(&t);
    taping_close(&t);
  }
  slack = 1.0;
}

static void unit_start(void) {
  gradient_start();
  refused = accepted = 0;
  worst_forward = 0.0;
}

static void unit_finish(void) {
  printf("  forward: %d descriptors, %d refused, largest error %.2e\n", accepted, refused,
         worst_forward);
  gradient_finish();
}

static void test_unit_pools(void **state) {
  uint64_t variant = 900000;
  (void)state;
  unit_start();
  for (EACH_POOL(p))
    for (int n = 0; n < 300; n++) {
      const int chunk = chunks[n % 3];
      miras_memory_desc d =
        cell(n % SHAPES, p->bias[below(p->biases)], p->retention[below(p->retentions)],
             (miras_algorithm)below(MIRAS_ALGORITHM_COUNT), chunk, ++variant);
      if (d.depth > 2) d.reset_every = 0; /* so many tokens would take too long */
      if (n % 5 == 4 && !d.inner_residual && d.architecture != MIRAS_ARCH_VECTOR)
        d.value_dim = 8; /* longer than keys */
      check_unit(&d, n % 4 == 3 ? 2 * chunk : 0, n % 2 ? 2 * chunk : chunk + 3, variant);
    }
  unit_finish();
}

static void test_unit_exact(void **state) {
  uint64_t variant = 950000;
  (void)state;
  unit_start();
  for (int n = 0; n < 40 * EXACT_KINDS; n++) {
    const int counts = n >= 40 * COUNTED, kinds = counts ? EXACT_KINDS - COUNTED : COUNTED;
    const int chunk = chunks[n / kinds % COUNT(chunks)];
    const int kind = counts ? COUNTED + n % kinds : n % kinds;
    const miras_memory_desc d = exact_cell(kind, chunk, ++variant);
    check_unit(&d, n % 3 == 2 ? 2 * chunk : 0, n % 2 ? 2 * chunk : chunk + 3, variant);
  }
  unit_finish();
}

/* States that do not stay in the first cache, of which strips of columns take many tokens; their
 * products need all room for factors that there is (MIRAS_CHECK sees whether more). */
static void test_unit_large(void **state) {
  uint64_t variant = 990000;
  (void)state;
  unit_start();
  for (int chunk = 1; chunk <= 16; chunk += 15)
    for (int n = 0; n < EXACT_KINDS; n++) {
      miras_memory_desc d = exact_cell(n, chunk, ++variant);
      if (d.algorithm > MIRAS_ALGORITHM_IMPLICIT && d.algorithm != MIRAS_ALGORITHM_RECURSIVE)
        continue;
      if (LEAN && (n + chunk) % 3) continue;
      d.key_dim = d.algorithm == MIRAS_ALGORITHM_RECURSIVE ? 16 : 96; /* no row has a pad */
      d.value_dim = d.key_dim < 96 ? 4 : chunk > 1 ? 96 : d.turning ? 90 : 91;
      d.batch = d.heads = 1;
      check_unit(&d, 0, 20, variant);
    }
  unit_finish();
}

/* Chunks that are swept on their way, of small steps. */
static void test_unit_sweeps(void **state) {
  uint64_t variant = 960000;
  (void)state;
  unit_start();
  for (int n = 0; n < 24; n++) {
    miras_memory_desc d = n < 8 ? exact_cell(n % 4, 100, ++variant)
                                : cell(n % SHAPE_PAIRS, n % 3 ? MIRAS_BIAS_L2 : MIRAS_BIAS_HUBER,
                                       n % 2 ? MIRAS_RETENTION_L2 : MIRAS_RETENTION_LQ,
                                       (miras_algorithm)(n / 8 - 1), 100, ++variant);
    d.batch = 1;
    d.learning_rate *= n < 8 ? 1.0f : 0.05f;
    check_unit(&d, 0, 130, variant);
  }
  unit_finish();
}

/* Tokens that say nothing, keys and values of zeros, leave every gradient finite. */
static void test_silent_gradients(void **state) {
  uint64_t variant = 970000;
  (void)state;
  start();
  for (EACH_POOL(p))
    for (int n = 0; n < 200; n++) {
      const miras_memory_desc d =
        cell(n % SHAPES, p->bias[n % p->biases], p->retention[n / 3 % p->retentions],
             (miras_algorithm)(n / 5 % MIRAS_ALGORITHM_COUNT), chunks[n % 3], ++variant);
      data x;
      miras_memory *m;
      miras_memory_input tokens;
      miras_memory_input_grad grads;
      float *dx[INPUTS], *y, *tape, *dparams, sum = 0.0f;
      if (miras_memory_size(&d, NULL, 0) == 0) continue;
      data_new(&x, &d, 6, variant);
      for (int i = 0; i < INPUTS; i++) dx[i] = (float *)zeros(x.in[i].count, sizeof(float));
      for (int i = 0; i < 2; i++) { /* the third token of the first sequence */
        const size_t row = (size_t)x.d.heads * x.per[i ? VALUE : KEY];
        for (size_t j = 2 * row; j < 3 * row; j++) tensor_set(&x.in[i ? VALUE : KEY], j, 0.0f);
      }
      m = open_memory(&x);
      assert_non_null(m);
      tokens = data_tokens(&x);
      grads = data_grads(&x, dx);
      y = (float *)zeros(x.dy.count, sizeof(float));
      tape = (float *)zeros(miras_memory_tape_size(m, 6), sizeof(float));
      dparams = (float *)zeros(x.params.count, sizeof(float));
      assert_int_equal(miras_memory_forward(m, &tokens, y, tape), MIRAS_OK);
      assert_int_equal(miras_memory_backward(m, &tokens, tape, x.dy.f, &grads, dparams, NULL),
                       MIRAS_OK);
      for (int i = 0; i < INPUTS; i++)
        for (size_t j = 0; j < x.in[i].count; j++) sum += 0.0f * dx[i][j];
      for (size_t j = 0; j < x.params.count; j++) sum += 0.0f * dparams[j];
      for (size_t j = 0; j < x.dy.count; j++) sum += 0.0f * y[j];
      if (!(sum >= 0.0f)) failed("not finite: %s", label(&d));
      for (int i = 0; i < INPUTS; i++) free(dx[i]);
      free(y);
      free(tape);
      free(dparams);
      miras_close(m);
      data_free(&x);
    }
  finish();
}

/* What a case that names a bias in the first pool takes in later ones. */
static miras_bias bias_of(const choice_pool *p, miras_bias first, uint64_t turn) {
  return p == pools ? first : p->bias[turn % (uint64_t)p->biases];
}

static void test_gradient_grid(void **state) {
  uint64_t variant = 0;
  (void)state;
  gradient_start();
  for (EACH_POOL(p))
    for (int shape = 0; shape < SHAPES; shape++)
      for (int b = 0; b < p->biases; b++)
        for (int r = 0; r < p->retentions; r++)
          for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
            for (int c = 0; c < 2; c++) {
              const int chunk = c == 0 ? 1 : ++variant % 5 == 0 ? 16 : variant % 2 == 0 ? 5 : 4;
              miras_memory_desc d = cell(shape, p->bias[b], p->retention[r],
                                         (miras_algorithm)algorithm, chunk, ++variant + 20000u);
              const int extra = chunk == 1 ? 5 : chunk == 16 ? 3 : chunk + 2;
              const int whole = every(shape, &d);
              if (!whole && (shape + b + r + algorithm) % 2 != c) continue;
              if (!whole && shape != SHAPE_MATRIX && shape != SHAPE_PAIRS) d.batch = d.heads = 1;
              if (chunk == 16) d.batch = 1;
              check_gradient(&d, 0, chunk + extra, variant, whole ? 10 : 6);
            }
  if (threshold_reached == 0) failed("no threshold received a gradient");
  gradient_finish();
}

/* The exact memories, with every choice that only they have. */
static void test_gradient_exact(void **state) {
  uint64_t variant = 200000;
  (void)state;
  gradient_start();
  for (int kind = 0; kind < EXACT_KINDS; kind++)
    for (int c = 0; c < COUNT(chunks); c++)
      for (int n = 0; n < 25; n++) {
        const miras_memory_desc d = exact_cell(kind, chunks[c], ++variant);
        const int before = n % 4 == 3 ? 2 * chunks[c] : 0;
        const int longer = n % 12 == 6 ? 64 : 0;     /* states of a tape are that far apart */
        check_gradient(&d, before, longer + (n % 2 ? 2 * chunks[c] : chunks[c] + 4), variant, 8);
      }
  gradient_finish();
}

/* Keep and learning rate gates per channel, with every retention and wherever its decay leads. */
static void test_channels(void **state) {
  static const int shapes[] = {1, 2, SHAPE_GATED, SHAPE_VECTOR};
  uint64_t variant = 600000;
  (void)state;
  gradient_start();
  refused = accepted = 0;
  worst_forward = 0.0;
  for (EACH_POOL(p))
    for (int s = 0; s < COUNT(shapes); s++)
      for (int r = 0; r < p->retentions; r++)
        for (int c = 0; c < 3; c++)
          for (int toward = 0; toward < 2; toward++) {
            miras_memory_desc d = cell(shapes[s], p->bias[variant % (uint64_t)p->biases],
                                p->retention[r], MIRAS_ALGORITHM_GD, chunks[c], variant);
            variant++;
            d.decay_target = (miras_decay_target)toward;
            d.step_bound = (int)(variant % 3);
            d.simplex_whole = shapes[s] == SHAPE_VECTOR;
            d.inner_bias = d.token_rates = MIRAS_TOKEN_RATES_NONE;
            if (has_logits(&d)) d.inner_norm = 0; /* calm data would be hard to find */
            d.value_dim = d.key_dim;
            d.decay_gate = d.learning_rate_gate = MIRAS_GATE_CHANNEL;
            d = tidy(d);
            check_forward(&d, 2 * chunks[c] + 3, variant);
            check_gradient(&d, toward ? 2 * chunks[c] : 0, chunks[c] * (c == 0 ? 4 : 2), variant,
                           6);
          }
  printf("  gates per channel: %d descriptors, %d refused, forward %.2e\n", accepted, refused,
         worst_forward);
  if (refused * 20 > accepted) failed("%d descriptors are refused", refused);
  gradient_finish();
}

/* Gates that keep nothing, everything, or less than a normal float can say: forward and gradients,
 * with every gate its own number. Momentum has a gate like them. */
static void test_decays(void **state) {
  static const int shapes[] = {1, 2, SHAPE_GATED, SHAPE_VECTOR};
  uint64_t variant = 400000;
  (void)state;
  gradient_start();
  refused = accepted = 0;
  worst_forward = 0.0;
  edge_decays = 1;
  for (int kind = 0; kind < EXACT_KINDS; kind++)
    for (int c = 0; c < COUNT(chunks); c++)
      for (int n = 0; n < 12 && kind != 5; n++) {
        miras_memory_desc d = exact_cell(kind, chunks[c], variant += variant % 3 == 2 ? 2 : 1);
        if (d.retention == MIRAS_RETENTION_ALL || d.value_decay_gate) continue;
        if (!d.decay_gate) d.decay_gate = n % 2 && kind < 4 ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD;
        d = tidy(d);
        check_forward(&d, 3 * chunks[c] + 2, variant);
        if (d.write_scale == MIRAS_WRITE_SCALE_ROOT || d.write_scale == MIRAS_WRITE_SCALE_START)
          continue; /* sqrt(1 - w^2) ends at a time of 0, as steep as can be */
        check_gradient(&d, 0, chunks[c] + 4, variant, 8);
      }
  variant = 400504;   /* so that no case depends on how many kinds there are */
  for (EACH_POOL(p))
    for (int s = 0; s < COUNT(shapes); s++)
      for (int r = p == pools; r < p->retentions; r++) /* all but MIRAS_RETENTION_ALL */
        for (int c = 0; c < 2; c++)
          for (int algorithm = 0; algorithm < 2; algorithm++) {
            const miras_retention retention = p->retention[r];
            miras_memory_desc d;
            variant++;
            d = cell(shapes[s], bias_of(p, MIRAS_BIAS_L2, variant), retention,
                     (miras_algorithm)algorithm, chunks[c], variant);
            if ((retention == MIRAS_RETENTION_LQ || retention == MIRAS_RETENTION_LQ_PNORM) &&
                !d.decay_target)
              continue; /* they divide by the norm of what is kept */
            d.inner_norm = 0;
            if (!d.decay_gate) d.decay_gate = MIRAS_GATE_HEAD;
            if (algorithm == MIRAS_ALGORITHM_MOMENTUM) d.momentum_gate = MIRAS_GATE_HEAD;
            d = tidy(d);
            check_forward(&d, 2 * chunks[c] + 3, variant);
            check_gradient(&d, 0, chunks[c] + 4, variant, 6);
          }
  edge_decays = 0;
  printf("  decays of 0, denormals and 1: %d descriptors, forward %.2e\n", accepted, worst_forward);
  if (accepted < 100 / MIRAS_TEST_SHARE) failed("only %d descriptors", accepted);
  gradient_finish();
}

/* One call against two that are cut at `cut`, a multiple of the chunk: the same outputs to the bit,
 * and the gradients of one call, the second's reaching the first through dstate. Leaves the outputs
 * in y; returns the largest difference of a gradient. */
static double check_cut(const data *x, miras_memory *m, int cut, float *y) {
  const miras_memory_desc *d = &x->given;
  const int T = x->T, from[] = {0, cut, T};
  const size_t row = (size_t)x->d.heads;
  data part[2] = {data_cut(x, 0, cut), data_cut(x, cut, T)};
  miras_memory_input tokens = data_tokens(x);
  miras_memory_input_grad g;
  float *dx[2][INPUTS], *dparams[2], *dstate, *tape[3], *again;
  double worst = 0.0;
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < INPUTS; i++) dx[k][i] = (float *)zeros(x->in[i].count, sizeof(float));
    dparams[k] = (float *)zeros(x->params.count, sizeof(float));
  }
  dstate = (float *)zeros(miras_memory_grad_state_size(m), sizeof(float));
  again = (float *)zeros(x->dy.count, sizeof(float));
  tape[2] = (float *)zeros(miras_memory_tape_size(m, T), sizeof(float));
  if (miras_memory_forward(m, &tokens, y, tape[2]) != MIRAS_OK) failed("forward: %s", label(d));
  g = data_grads(x, dx[0]);
  if (miras_memory_backward(m, &tokens, tape[2], x->dy.f, &g, dparams[0], NULL) != MIRAS_OK)
    failed("backward: %s", label(d));
  miras_memory_reset(m);
  for (int k = 0; k < 2; k++) {
    float *part_y = (float *)zeros(part[k].dy.count, sizeof(float));
    tokens = data_tokens(&part[k]);
    tape[k] = (float *)zeros(miras_memory_tape_size(m, part[k].T), sizeof(float));
    if (miras_memory_forward(m, &tokens, part_y, tape[k]) != MIRAS_OK)
      failed("forward: %s", label(d));
    paste_rows(again, part_y, x->d.batch, T, row * x->out, from[k], from[k + 1]);
    free(part_y);
  }
  for (int k = 1; k >= 0; k--) {
    float *part_grads[INPUTS];
    for (int i = 0; i < INPUTS; i++)
      part_grads[i] = (float *)zeros(part[k].in[i].count, sizeof(float));
    tokens = data_tokens(&part[k]);
    g = data_grads(x, part_grads);
    if (miras_memory_backward(m, &tokens, tape[k], part[k].dy.f, &g, dparams[1], dstate) !=
        MIRAS_OK)
      failed("backward of part %d: %s", k, label(d));
    for (int i = 0; i < INPUTS; i++) {
      paste_rows(dx[1][i], part_grads[i], x->d.batch, T, row * x->per[i], from[k], from[k + 1]);
      free(part_grads[i]);
    }
  }
  if (!same_bits(y, again, x->dy.count)) failed("two calls say something else: %s", label(d));
  for (int i = 0; i <= INPUTS; i++) {
    const float *one = i < INPUTS ? dx[0][i] : dparams[0];
    const float *two = i < INPUTS ? dx[1][i] : dparams[1];
    const size_t count = i < INPUTS ? x->in[i].count : x->params.count;
    double *wide = (double *)ref_zeros(count), error;
    for (size_t j = 0; j < count; j++) wide[j] = (double)one[j];
    error = error_of(two, wide, count);
    if (error > worst) worst = error;
    if (!(error <= (i < INPUTS ? 1e-5 : 2e-5))) /* parameters have sums over all tokens */
      failed("two calls give another gradient of %s, by %.2e: %s",
             i < INPUTS ? input_names[i] : "the parameters", error, label(d));
    free(wide);
  }
  for (int k = 0; k < 2; k++) {
    for (int i = 0; i < INPUTS; i++) free(dx[k][i]);
    free(dparams[k]);
    data_free(&part[k]);
  }
  for (int k = 0; k < 3; k++) free(tape[k]);
  free(dstate);
  free(again);
  return worst;
}

/* More tokens in a call than 16 bits can count: every row of the table, one call against two that
 * are cut where such a count would turn over, outputs to the bit and gradients; what is exact also
 * against the reference. */
static void test_long(void **state) {
  const int T = 65600, cut = 65536;
  double worst = 0.0;
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    data x;
    miras_memory_desc d;
    miras_memory *m;
    float *y;
    miras_memory_preset(&d, (miras_preset)kind);
    d.key_dim = d.value_dim = 4;
    d.chunk = 16;
    if (d.architecture == MIRAS_ARCH_KV_CACHE) d.window = 32;
    if (kind % 2) d.chunk = d.architecture == MIRAS_ARCH_MLP ? 4 : 1;
    /* bounded steps from one anchor add up */
    if (d.architecture == MIRAS_ARCH_MLP || d.algorithm == MIRAS_ALGORITHM_MOMENTUM) {
      d.learning_rate = 0.05f / (float)d.chunk;
      if (d.retention == MIRAS_RETENTION_KL) d.simplex = 64.0f;
    }
    if (!my_share()) continue;
    data_new(&x, &d, T, 600 + (uint64_t)kind);
    m = open_memory(&x);
    if (m == NULL) {
      failed("not opened: %s", label(&d));
      data_free(&x);
      continue;
    }
    y = (float *)zeros(x.dy.count, sizeof(float));
    check_cut(&x, m, cut, y);
    for (size_t i = 0; i < x.dy.count; i++)
      if (!isfinite(y[i])) {
        failed("y[%d] is no number: %s", (int)i, label(&d));
        break;
      }
    if (ref_exact(&x.d)) {
      ref_memory r;
      const ref_tokens reference = data_reference(&x);
      double *expected = (double *)ref_zeros(x.dy.count), error;
      ref_open(&r, &x.d, x.params.d);
      ref_forward(&r, &reference, expected, NULL);
      error = error_of(y, expected, x.dy.count);
      if (error > worst) worst = error;
      if (!(error <= FORWARD)) failed("y off by %.2e: %s", error, label(&d));
      ref_close(&r);
      free(expected);
    }
    free(y);
    miras_close(m);
    data_free(&x);
  }
  printf("  %d tokens in a call: largest error of the exact rows %.2e\n", T, worst);
  finish();
}

/* A sequence may end inside a chunk: dstate is then all zeros on the way in, and what the segments
 * before receive is what one call gives. Anything else there is refused. */
static void test_ragged(void **state) {
  uint64_t variant = 700000;
  (void)state;
  start();
  random_state = 6;
  for (int n = 0; n < 60; n++) {
    const int chunk = n % 2 ? 4 : 5, kind = n % (EXACT_KINDS + 2), shape = n / 8 % SHAPES;
    miras_memory_desc d = kind < EXACT_KINDS ? exact_cell(kind, chunk, ++variant)
                            : cell(shape, MIRAS_BIAS_L2, (miras_retention)(n / 2 % 5),
                                   (miras_algorithm)(kind - EXACT_KINDS), chunk, ++variant);
    data x;
    miras_memory *m;
    float *y;
    if (!my_share() || !has_meaning(&d) ||
        !data_settled(&x, &d, 2 * chunk + 3, variant, 1e-4))
      continue;
    m = open_memory(&x);
    y = (float *)zeros(x.dy.count, sizeof(float));
    if (m == NULL) failed("not opened: %s", label(&d));
    else check_cut(&x, m, chunk, y);
    if (m != NULL) {
      const size_t size = miras_memory_grad_state_size(m);
      const miras_memory_input tokens = data_tokens(&x);
      float *dstate = (float *)zeros(size, sizeof(float));
      float *tape = (float *)zeros(miras_memory_tape_size(m, x.T), sizeof(float));
      float *none[INPUTS] = {NULL};
      const miras_memory_input_grad g = data_grads(&x, none);
      dstate[size - 1] = 1.0f;
      miras_memory_reset(m);
      miras_memory_forward(m, &tokens, y, tape);
      if (miras_memory_backward(m, &tokens, tape, x.dy.f, &g, NULL, dstate) != MIRAS_ERR_STATE)
        failed("a gradient of a state inside a chunk: %s", label(&d));
      free(dstate);
      free(tape);
    }
    free(y);
    miras_close(m);
    data_free(&x);
  }
  finish();
}

/* With a gradient flowing in from later calls and out to earlier ones. */
static void test_gradient_state(void **state) {
  uint64_t variant = 0;
  (void)state;
  gradient_start();
  for (EACH_POOL(p))
    for (int shape = 0; shape < SHAPES; shape++)
      for (int r = 0; r < p->retentions; r++)
        for (int algorithm = 0; algorithm < 2; algorithm++)
          for (int c = 0; c < 3; c++)
            for (int before = 0; before < 2; before++) {
              const miras_memory_desc d = cell(
                shape, bias_of(p, (variant & 2) ? MIRAS_BIAS_L2 : MIRAS_BIAS_LP_SMOOTH, variant),
                p->retention[r], (miras_algorithm)algorithm, chunks[c], variant + 30000u);
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
          miras_memory_desc d = cell(0, (miras_bias)bias, MIRAS_RETENTION_L2, MIRAS_ALGORITHM_GD, 1,
                              (uint64_t)T + 40000u);
          d.order = (miras_order)order;
          d.decay_gate = (miras_gate)keep;
          d = tidy(d);
          check_gradient(&d, 0, T, (uint64_t)T, 12);
          check_gradient(&d, T, 4, (uint64_t)T, 12);
        }
  for (int kind = 0; kind < EXACT_KINDS; kind++) {           /* heads take turns every 64 tokens */
    const miras_memory_desc d =
      exact_cell(kind, chunks[kind % COUNT(chunks)], (uint64_t)(45000 + kind));
    check_gradient(&d, 0, 135, (uint64_t)kind, 6);
  }
  for (int i = 0; i < COUNT(sizes); i++)
    for (int layers = 0; layers <= 2; layers++)
      for (int c = 0; c < COUNT(chunks); c++) {
        miras_memory_desc d =
          cell(layers, MIRAS_BIAS_L2, MIRAS_RETENTION_L2, (miras_algorithm)((i + c) % 2), chunks[c],
               (uint64_t)(50000 + i * 10 + layers));
        d.key_dim = sizes[i][0];
        d.value_dim = sizes[i][1];
        d.expansion = sizes[i][2];
        if (d.value_dim != d.key_dim) {
          d.inner_residual = 0;
          if (layers == 2)
            d.decay_gate = d.learning_rate_gate = d.threshold_gate = MIRAS_GATE_CONSTANT;
        }
        d = tidy(d);
        check_gradient(&d, 0, chunks[c] + 3, (uint64_t)i, 4);
      }
  gradient_finish();
}

static double check_chained(const miras_memory_desc *d, int chunk, int c, uint64_t seed) {
  const int T = lasting(d, 3 * chunk), cut = d->reset_every && c ? d->reset_every : chunk * 2;
  data x;
  miras_memory *m;
  double error = 0.0;
  if (miras_memory_size(d, NULL, 0) == 0) {
    if (has_meaning(d)) failed("refused: %s", label(d));
    return 0.0;
  }
  if (!data_settled(&x, d, T, seed, 1e-4)) return 0.0;
  m = open_memory(&x);
  if (m == NULL) {
    failed("not opened: %s", label(d));
  } else {
    float *y = (float *)zeros(x.dy.count, sizeof(float));
    error = check_cut(&x, m, cut, y);
    free(y);
  }
  miras_close(m);
  data_free(&x);
  return error;
}

/* A call cut in two on the chunk grid gives the gradients of one call. */
static void test_gradient_chained(void **state) {
  uint64_t variant = 0;
  double worst = 0.0;
  (void)state;
  start();
  random_state = 6;
  for (EACH_POOL(p))
    for (int shape = 0; shape < SHAPES; shape++)
      for (int r = 0; r < p->retentions; r++)
        for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++)
          for (int c = 0; c < 6; c++) {
            miras_memory_desc d;
            variant++;
            d = cell(shape, bias_of(p, c % 4 == 3 ? MIRAS_BIAS_DOT : MIRAS_BIAS_L2, variant),
                     p->retention[r], (miras_algorithm)algorithm, chunks[c % 2], variant + 60000u);
            if (c > 1 && shape != SHAPE_MATRIX && shape != SHAPE_PAIRS) continue;
            if (!my_share()) continue;
            worst = fmax(worst, check_chained(&d, chunks[c % 2], c, variant));
          }
  for (int kind = 0; kind < EXACT_KINDS; kind++) {           /* heads take turns every 64 tokens */
    const miras_memory_desc d = exact_cell(kind, kind < 3 ? 1 : 16, (uint64_t)(65000 + kind));
    worst = fmax(worst, check_chained(&d, 64, 0, ++variant));
  }
  printf("  chained: largest difference %.2e\n", worst);
  finish();
}

/* ---- promises to the bit ---- */

/* What forward gave as a whole: outputs and the state behind them. */
typedef struct answer {
  float *y;
  unsigned char *state;
  size_t bytes, row;       /* of the state; floats of a token's outputs */
} answer;

/* Every cut of a sequence gives the same outputs and the same state. */
static void check_cuts(const data *x, miras_memory *m, const answer *whole) {
  const int T = x->T;
  float *y = (float *)zeros(x->dy.count, sizeof(float));
  for (int a = -1; a <= T; a++) { /* a token at a time; then two cuts, the second drawn */
    const int cuts[4] = {0, a, a + below(T - a + 1), T}, pieces = a < 0 ? T : 3;
    miras_memory_reset(m);
    for (int k = 0; k < pieces; k++) {
      const int from = a < 0 ? k : cuts[k], to = a < 0 ? k + 1 : cuts[k + 1];
      data part = data_cut(x, from, to);
      float *py = (float *)zeros(part.dy.count, sizeof(float));
      miras_memory_input t = data_tokens(&part);
      if (miras_memory_forward(m, &t, py, NULL) != MIRAS_OK)
        failed("forward: %s", label(&x->given));
      paste_rows(y, py, x->d.batch, T, whole->row, from, to);
      free(py);
      data_free(&part);
    }
    if (!same_bits(y, whole->y, x->dy.count)) {
      failed("cuts at %d and %d change y: %s", cuts[1], cuts[2], label(&x->given));
      break;
    }
    if (memcmp(miras_memory_state(m, NULL), whole->state, whole->bytes) != 0) {
      failed("cuts at %d and %d change the state: %s", cuts[1], cuts[2], label(&x->given));
      break;
    }
  }
  free(y);
}

/* A snapshot put back continues as if nothing had happened; zeros are a reset. */
static void check_snapshot(const data *x, miras_memory *m, const answer *whole) {
  const int T = x->T;
  float *y = (float *)zeros(x->dy.count, sizeof(float));
  unsigned char *kept = (unsigned char *)zeros(whole->bytes, 1);
  data part = data_cut(x, 0, T / 2), rest = data_cut(x, T / 2, T);
  float *py = (float *)zeros(x->dy.count, sizeof(float));
  float *again = (float *)zeros(x->dy.count, sizeof(float));
  miras_memory_input t = data_tokens(&part), u = data_tokens(&rest);
  memset(miras_memory_state(m, NULL), 0, whole->bytes);
  miras_memory_forward(m, &t, py, NULL);
  memcpy(kept, miras_memory_state(m, NULL), whole->bytes);
  miras_memory_forward(m, &u, py, NULL);
  memcpy(miras_memory_state(m, NULL), kept, whole->bytes);
  miras_memory_forward(m, &u, again, NULL);
  cut_rows(y, whole->y, x->d.batch, T, whole->row, T / 2, T);
  if (!same_bits(py, y, rest.dy.count))
    failed("a zeroed state is no reset: %s", label(&x->given));
  if (!same_bits(again, y, rest.dy.count))
    failed("a snapshot does not continue: %s", label(&x->given));
  free(py);
  free(again);
  data_free(&part);
  data_free(&rest);
  free(y);
  free(kept);
}

/* Later tokens and batch neighbours, even when they are not numbers, change nothing: the last
 * tokens of everything, then all of sequence 1, become NaN. */
static void check_nan(const data *x, miras_memory *m, const answer *whole) {
  const int T = x->T;
  const size_t H = (size_t)x->d.heads;
  float *y = (float *)zeros(x->dy.count, sizeof(float));
  const int from = 1 + below(T - 1);
  for (int pass = 0; pass < 2; pass++) {
    data bad = data_cut(x, 0, T);
    miras_memory_input t;
    for (int i = 0; i < INPUTS; i++)
      for (size_t j = 0; j < bad.in[i].count; j++) {
        const size_t token = j / (H * bad.per[i]);
        if (pass == 0 ? (int)(token % (size_t)T) >= from : (int)(token / (size_t)T) == 1)
          bad.in[i].f[j] = NAN;
      }
    t = data_tokens(&bad);
    miras_memory_reset(m);
    miras_memory_forward(m, &t, y, NULL);
    for (size_t j = 0; j < x->dy.count; j++) {
      const size_t token = j / whole->row;
      const int fine = pass == 0 ? (int)(token % (size_t)T) < from : token < (size_t)T;
      if (fine && memcmp(&y[j], &whole->y[j], sizeof(float)) != 0) {
        failed("%s change y at token %d: %s", pass == 0 ? "later tokens" : "neighbours",
               (int)token, label(&x->given));
        break;
      }
    }
    data_free(&bad);
  }
  free(y);
}

/* Sequence 1 alone, as a batch of one. */
static void check_alone(const data *x, const answer *whole) {
  const int T = x->T;
  const size_t H = (size_t)x->d.heads;
  float *y = (float *)zeros(x->dy.count, sizeof(float));
  miras_memory_desc d1 = x->given;
  data single;
  miras_memory *one;
  d1.batch = 1;
  memset(&single, 0, sizeof single);
  data_shape(&single, &d1);
  single.T = T;
  for (int i = 0; i < INPUTS; i++)
    single.in[i] = tensor_cut(&x->in[i], 1, 2 * T, H * x->per[i], T, 2 * T);
  single.dy = tensor_cut(&x->dy, 1, 2 * T, whole->row, T, 2 * T);
  single.params = tensor_cut(&x->params, 1, 1, x->params.count, 0, 1);
  one = open_memory(&single);
  if (one != NULL) {
    miras_memory_input t = data_tokens(&single);
    miras_memory_forward(one, &t, y, NULL);
    if (!same_bits(y, whole->y + single.dy.count, single.dy.count))
      failed("a batch of one differs: %s", label(&x->given));
  }
  miras_close(one);
  data_free(&single);
  free(y);
}

static void check_bits(const miras_memory_desc *d, int T, uint64_t variant) {
  data x;
  miras_memory *m;
  miras_memory_input tokens;
  answer whole;
  if (!my_share()) return;
  T = lasting(d, T);
  data_new(&x, d, T, variant);
  m = open_memory(&x);
  if (m == NULL) {
    if (miras_memory_size(d, NULL, 0) > 0 || has_meaning(d)) failed("not opened: %s", label(d));
    data_free(&x);
    return;
  }
  whole.row = (size_t)x.d.heads * x.out;
  whole.y = (float *)zeros(x.dy.count, sizeof(float));
  tokens = data_tokens(&x);
  miras_memory_forward(m, &tokens, whole.y, NULL);
  miras_memory_state(m, &whole.bytes);
  whole.state = (unsigned char *)zeros(whole.bytes, 1);
  memcpy(whole.state, miras_memory_state(m, NULL), whole.bytes);
  check_cuts(&x, m, &whole);
  check_snapshot(&x, m, &whole);
  check_nan(&x, m, &whole);
  check_alone(&x, &whole);
  free(whole.state);
  free(whole.y);
  miras_close(m);
  data_free(&x);
}

static void test_bits(void **state) {
  uint64_t variant = 0;
  (void)state;
  start();
  random_state = 7;
  for (int layers = 0; layers <= 2; layers++)
    for (int bias = 0; bias <= MIRAS_BIAS_HUBER_MIXTURE; bias++)
      for (int retention = 0; retention <= MIRAS_RETENTION_KL; retention++)
        for (int c = 0; c < 2; c++) {
          const miras_memory_desc d =
            cell(layers, (miras_bias)bias, (miras_retention)retention,
                 (miras_algorithm)(variant / 2 % 2), chunks[c], variant + 70000u);
          check_bits(&d, 2 * chunks[c] + (c == 0 ? 19 : 1), ++variant);
        }
  for (EACH_POOL(p)) {
    for (int shape = 0; shape < SHAPES; shape++) /* the later ones: biases take turns */
      for (int r = 0; r < p->retentions; r++)
        for (int n = 0; n < 6; n++) {
          const miras_memory_desc d = cell(shape, p->bias[(r * 6 + n) % p->biases], p->retention[r],
                                    (miras_algorithm)(n / 2 % 2), chunks[n % 2], variant + 70000u);
          check_bits(&d, 2 * chunks[n % 2] + (n % 2 == 0 ? 13 : 1), ++variant);
        }
    for (int kind = 0; p == pools && kind < EXACT_KINDS; kind++)
      for (int n = 0; n < 24; n++) {
        const int chunk = chunks[n % COUNT(chunks)];
        const miras_memory_desc d = exact_cell(kind, chunk, variant + 70000u);
        check_bits(&d, n < 2 ? 141 : chunk == 16 ? 36 : 19, ++variant);
      }
  }
  finish();
}

/* What else a close does to weights that are the state itself: forward, token by token, gradients
 * and bits. variant: of `choose`, which makes the case of a cell. */
static void check_closes(miras_memory_desc (*choose)(miras_memory_desc d, uint64_t variant),
                         const miras_algorithm *algorithms, int count) {
  int changed = 0;
  static const int shapes[] = {0, 1, 2, 3, SHAPE_GATED, SHAPE_VECTOR};
  static const miras_retention kinds[] = {MIRAS_RETENTION_L2, MIRAS_RETENTION_ALL,
                                          MIRAS_RETENTION_L2_BOTH};
  uint64_t variant = 700000;
  gradient_start();
  refused = accepted = 0;
  worst_forward = 0.0;
  for (int s = 0; s < COUNT(shapes); s++)
    for (int r = 0; r < COUNT(kinds); r++)
      for (int a = 0; a < count; a++)
        for (int c = 0; c < COUNT(chunks); c++) {
          const miras_bias bias = (miras_bias)(variant % 3 ? variant % MIRAS_BIAS_CUSTOM : 1);
          miras_memory_desc d = choose(cell(shapes[s], bias, kinds[r], algorithms[a], chunks[c],
                                            variant), variant);
          const int before = variant % 3 == 2 ? 2 * chunks[c] : 0;
          variant++;
          if (!has_meaning(&d)) continue;
          if (!(d.ball > 0.0f) && !d.omega && d.algorithm != MIRAS_ALGORITHM_MUON) continue;
          changed++;
          check_forward(&d, c == 3 ? 37 : 2 * chunks[c] + 3, variant);
          check_bits(&d, chunks[c] == 1 ? 21 : 2 * chunks[c] + 1, variant);
          if (chunks[c] == 16) d.batch = 1;
          check_gradient(&d, before, chunks[c] == 1 ? 6 : chunks[c] + 3, variant, 6);
          d.decay_gate = d.learning_rate_gate = d.momentum_gate = MIRAS_GATE_CONSTANT;
          d.threshold_gate = MIRAS_GATE_CONSTANT;
          check_steps(&d, chunks[c] + 3, variant);
        }
  printf("  closes: %d descriptors, %d refused, forward %.2e\n", accepted, refused,
         worst_forward);
  if (refused > 0 || changed < 30) failed("%d descriptors are refused", refused);
  gradient_finish();
}

/* A ball of about the size that weights have, so that some stay within. */
static miras_memory_desc in_ball(miras_memory_desc d, uint64_t variant) {
  const float size = d.architecture == MIRAS_ARCH_VECTOR ? 1.5f : 0.9f * sqrtf((float)d.key_dim);
  d.ball = size * (variant % 4 == 0 ? 0.3f : variant % 4 == 1 ? 2.0f : 1.0f);
  return tidy(d);
}

static void test_ball(void **state) {
  static const miras_algorithm algorithms[] = {MIRAS_ALGORITHM_GD, MIRAS_ALGORITHM_MOMENTUM};
  (void)state;
  check_closes(in_ball, algorithms, COUNT(algorithms));
}

/* Muon, with a ball now and then; steps as large as its are, and chunks of up to 16. */
static miras_memory_desc of_muon(miras_memory_desc d, uint64_t variant) {
  if (d.inner_steps > 1) d.inner_steps = 1;
  if (variant % 3 == 1) d = in_ball(d, variant);
  d.learning_rate = d.chunk > 1 ? 0.05f : 0.2f;
  return tidy(d);
}

static void test_muon(void **state) {
  static const miras_algorithm algorithms[] = {MIRAS_ALGORITHM_MUON};
  (void)state;
  slack = 20.0;
  check_closes(of_muon, algorithms, 1);
  slack = 1.0;
}

/* Windows shorter and longer than chunks, with Muon or a ball now and then. */
static miras_memory_desc of_omega(miras_memory_desc d, uint64_t variant) {
  static const int windows[] = {2, 3, 5, 8};
  if (d.inner_steps > 1) d.inner_steps = 1;
  d.token_rates = MIRAS_TOKEN_RATES_NONE;
  d.step_bound = MIRAS_STEP_BOUND_AUTO;
  if (d.p > 2.0f) d.p = 2.0f;
  if (d.decay_gate == MIRAS_GATE_CHANNEL) d.decay_gate = MIRAS_GATE_HEAD;
  if (d.learning_rate_gate == MIRAS_GATE_CHANNEL) d.learning_rate_gate = MIRAS_GATE_HEAD;
  d.omega = windows[variant / 2 % 4];
  d.learning_rate /= (float)d.omega;
  if (d.architecture == MIRAS_ARCH_MATRIX) { /* no longer an exact one */
    d.normalize = d.separate_erase = 0;
    d.value_decay_gate = MIRAS_GATE_CONSTANT;
    d.order = MIRAS_ORDER_ERROR_FIRST;
  }
  if (variant % 5 == 1) d = in_ball(d, variant);
  if (d.algorithm == MIRAS_ALGORITHM_MUON) d.learning_rate = d.chunk > 1 ? 0.05f : 0.2f;
  return tidy(d);
}

/* Matrices as large as models have them, wide, tall and square, whose products go other ways. */
static void test_muon_heads(void **state) {
  static const int sizes[][3] = {{32, 32, 4}, {20, 33, 1}, {48, 17, 0}};
  (void)state;
  gradient_start();
  slack = 20.0;
  for (int i = 0; i < COUNT(sizes); i++) {
    miras_memory_desc d;
    memset(&d, 0, sizeof d);
    d.architecture = sizes[i][2] ? MIRAS_ARCH_MLP : MIRAS_ARCH_MATRIX;
    d.bias = MIRAS_BIAS_L2;
    d.retention = MIRAS_RETENTION_L2;
    d.algorithm = MIRAS_ALGORITHM_MUON;
    d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    d.learning_rate_gate = MIRAS_GATE_HEAD;
    d.key_dim = sizes[i][0];
    d.value_dim = sizes[i][1];
    d.expansion = sizes[i][2];
    d.learning_rate = 0.05f;
    d.momentum = 0.5f;
    d.decay_rate = 0.01f;
    d.chunk = 8;
    d.omega = i == 1 ? 0 : 4;
    d.batch = d.heads = 1;
    check_forward(&d, 20, 90u + (uint64_t)i);
    check_gradient(&d, 8, 19, 90u + (uint64_t)i, 3);
  }
  slack = 1.0;
  gradient_finish();
}

/* In seconds: the first tokens, which have fewer before them, and windows that cross chunks. */
static void test_unit_windows(void **state) {
  static const miras_algorithm algorithms[] = {MIRAS_ALGORITHM_GD, MIRAS_ALGORITHM_MOMENTUM,
                                               MIRAS_ALGORITHM_MUON};
  uint64_t variant = 980000;
  (void)state;
  unit_start();
  for (int shape = 0; shape <= SHAPE_GATED; shape++)
    for (int a = 0; a < COUNT(algorithms); a++)
      for (int n = 0; n < 3; n++, variant++) {
        const miras_memory_desc d =
          of_omega(cell(shape, n == 1 ? MIRAS_BIAS_HUBER : MIRAS_BIAS_L2,
                        n == 2 ? MIRAS_RETENTION_ALL : MIRAS_RETENTION_L2, algorithms[a], chunks[n],
                        variant), variant);
        check_unit(&d, n == 1 ? 2 * chunks[n] : 0, 2 * chunks[n], variant);
      }
  unit_finish();
}

static void test_omega(void **state) {
  static const miras_algorithm algorithms[] = {MIRAS_ALGORITHM_GD, MIRAS_ALGORITHM_MOMENTUM};
  static const miras_algorithm muon[] = {MIRAS_ALGORITHM_MUON};
  (void)state;
  check_closes(of_omega, algorithms, COUNT(algorithms));
  slack = 20.0;
  check_closes(of_omega, muon, 1);
  slack = 1.0;
}

/* ---- memories that must be equal ---- */

static double distance(const miras_memory_desc *a, const miras_memory_desc *b, int T) {
  data x;
  miras_memory *m[2];
  float *y[2];
  double *wide, error;
  miras_memory_input tokens;
  data_new(&x, a, T, 9);
  tokens = data_tokens(&x);
  for (int i = 0; i < 2; i++) {
    const miras_memory_desc *d = i == 0 ? a : b;
    m[i] = miras_memory_open(d, NULL, NULL, 0);
    assert_non_null(m[i]);
    memcpy(miras_memory_params(m[i], NULL), x.params.f, x.params.count * sizeof(float));
    miras_memory_reset(m[i]);
    y[i] = (float *)zeros(x.dy.count, sizeof(float));
    assert_int_equal(miras_memory_forward(m[i], &tokens, y[i], NULL), MIRAS_OK);
  }
  wide = (double *)ref_zeros(x.dy.count);
  for (size_t i = 0; i < x.dy.count; i++) wide[i] = (double)y[0][i];
  error = error_of(y[1], wide, x.dy.count);
  free(wide);
  for (int i = 0; i < 2; i++) {
    miras_close(m[i]);
    free(y[i]);
  }
  data_free(&x);
  return error;
}

static miras_memory_desc preset(miras_preset kind) {
  miras_memory_desc d;
  assert_int_equal(miras_memory_preset(&d, kind), MIRAS_OK);
  assert_true(d.chunk <= 1);
  d.key_dim = d.value_dim = 6;
  d.heads = 2;
  d.batch = 2;
  return d;
}

/* Answers that are divided, those to a query inside a chunk too. */
static void test_unit_normalize(void **state) {
  uint64_t variant = 995000;
  (void)state;
  unit_start();
  for (int n = 0; n < 12; n++) {
    miras_memory_desc d = preset(MIRAS_PRESET_LINEAR_ATTENTION);
    d.normalize = 1;
    d.feature_map = MIRAS_FN_ELU;
    d.chunk = chunks[n % COUNT(chunks)];
    check_unit(&d, n % 3 == 2 ? 2 * d.chunk : 0, n % 2 ? 2 * d.chunk : d.chunk + 3, ++variant);
  }
  unit_finish();
}

/* The same without what makes a memory on its own safe: relations hold between bare recurrences. */
static miras_memory_desc bare(miras_preset kind) {
  miras_memory_desc d = preset(kind);
  d.qk_norm = MIRAS_QK_NORM_NONE;
  d.feature_map = MIRAS_FN_USUAL;
  d.decay_target = MIRAS_DECAY_TARGET_ZERO;
  d.normalize = d.step_bound = MIRAS_STEP_BOUND_AUTO;
  if (d.learning_rate > 1.0f) d.learning_rate = 1.0f;
  return d;
}

#define EQUAL(a, b)                                                             \
  do {                                                                          \
    const double error_ = distance(&(a), &(b), 23);                             \
    if (!(error_ <= 5e-6)) failed("line %d: differ by %.2e", __LINE__, error_); \
  } while (0)

static void test_equalities(void **state) {
  miras_memory_desc a, b;
  (void)state;
  start();

  a = bare(MIRAS_PRESET_GATED_DELTANET); /* without forgetting: DeltaNet */
  b = bare(MIRAS_PRESET_DELTANET_MEMORY);
  a.decay_rate = 0.0f;
  b.learning_rate = a.learning_rate = 0.7f;
  EQUAL(a, b);

  a = bare(MIRAS_PRESET_DELTANET_MEMORY); /* a mixture whose threshold is never reached: DeltaNet */
  a.learning_rate = 0.6f;
  b = a;
  b.bias = MIRAS_BIAS_HUBER_MIXTURE;
  b.threshold = 1e6f;
  EQUAL(a, b);
  b.sharpness = 0.0f;
  b.bias = MIRAS_BIAS_HUBER;
  EQUAL(a, b);
  b.bias = MIRAS_BIAS_HUBER_NORM;
  EQUAL(a, b);

  for (int chunk = 1; chunk <= 4; chunk += 3) {
    a = bare(MIRAS_PRESET_TITANS); /* without momentum: gradient descent */
    a.chunk = chunk;
    a.learning_rate = 0.1f;
    a.momentum = 0.0f;
    b = a;
    b.algorithm = MIRAS_ALGORITHM_GD;
    b = tidy(b);
    EQUAL(a, b);

    a = b; /* |r|^2 is twice 1/2 |r|^2 */
    a.bias = MIRAS_BIAS_LP;
    a.p = 2.0f;
    a.learning_rate = 0.05f;
    b.learning_rate = 0.1f;
    EQUAL(a, b);

    a = b; /* q = 2 is no link at all */
    a.retention = MIRAS_RETENTION_LQ;
    a.q = 2.0f;
    EQUAL(a, b);
    a.retention = MIRAS_RETENTION_LQ_PNORM;
    if (chunk == 1) EQUAL(a, b);

    a = b; /* an L2 memory that forgets nothing */
    a.decay_rate = 0.0f;
    b.retention = MIRAS_RETENTION_ALL;
    b = tidy(b);
    EQUAL(a, b);
  }

  /* a dot product's gradient knows no weights: chunks are only a schedule */
  a = bare(MIRAS_PRESET_RETNET_MEMORY);
  b = a;
  b.chunk = 8;
  EQUAL(a, b);
  a = bare(MIRAS_PRESET_LINEAR_ATTENTION);
  b = bare(MIRAS_PRESET_RETNET_MEMORY);
  b.decay_rate = b.decay_ratio = 0.0f;
  b.learning_rate = a.learning_rate = 0.3f;
  EQUAL(a, b);
  finish();
}

/* The oldest row, from its definition: y_t = sum over s <= t of (k_s . q_t) v_s. */
static void test_linear_attention(void **state) {
  miras_memory_desc d = bare(MIRAS_PRESET_LINEAR_ATTENTION);
  data x;
  miras_memory *m;
  miras_memory_input tokens;
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
  assert_int_equal(miras_memory_forward(m, &tokens, y, NULL), MIRAS_OK);
  for (int b = 0; b < 2; b++)
    for (int t = 0; t < T; t++)
      for (int h = 0; h < 2; h++)
        for (int s = 0; s <= t; s++) {
          const size_t at = (size_t)((b * T + t) * 2 + h) * 6,
                       from = (size_t)((b * T + s) * 2 + h) * 6;
          double dot = 0.0;
          for (size_t i = 0; i < 6; i++) dot += x.in[KEY].d[from + i] * x.in[QUERY].d[at + i];
          for (size_t i = 0; i < 6; i++)
            expected[at + i] += (double)x.d.learning_rate * dot * x.in[VALUE].d[from + i];
        }
  if (!(error_of(y, expected, x.dy.count) <= FORWARD))
    failed("linear attention off by %.2e", error_of(y, expected, x.dy.count));
  free(y);
  free(expected);
  miras_close(m);
  data_free(&x);
  finish();
}

/* ---- presets, refusals, states ---- */

static void test_presets(void **state) {
  (void)state;
  start();
  random_state = 8;
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_memory_desc d;
    char why[200] = "";
    const char *name = miras_preset_name((miras_preset)kind);
    assert_non_null(name);
    assert_int_equal(miras_preset_find(name), kind);
    assert_int_equal(miras_memory_preset(&d, (miras_preset)kind), MIRAS_OK);
    if (miras_memory_size(&d, why, sizeof why) != 0) failed("%s needs no key_dim", name);
    if (strstr(why, "key_dim") == NULL) failed("%s: \"%s\" does not name key_dim", name, why);
    d.key_dim = d.value_dim = 5;
    d.heads = 3;
    for (int c = 0; c < 2; c++) {
      d.chunk = chunks[c];
      check_forward(&d, 14, (uint64_t)kind);
    }
  }
  assert_null(miras_preset_name(MIRAS_PRESET_COUNT));
  assert_int_equal(miras_preset_find("nobody"), MIRAS_PRESET_COUNT);
  finish();
}

/* ---- presets on their own: ordinary pairs, any number of them, and silence ---- */

enum { WIDE = 64 };

/* A row as it comes, one head; NULL where it takes tokens. */
static miras_memory *alone(int kind, int dim, float forget) {
  miras_memory *m;
  miras_memory_desc d;
  assert_int_equal(miras_memory_preset(&d, (miras_preset)kind), MIRAS_OK);
  if (d.separate_erase) return NULL;
  d.key_dim = dim;
  if (forget > 0.0f) {
    d.decay_schedule = MIRAS_DECAY_SCHEDULE_RATIO;
    d.decay_rate = forget;
  }
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  return m;
}

static void fill(float *x, int count) {
  for (int i = 0; i < count; i++) x[i] = uniform(-1.0f, 1.0f);
}

static double length_of(const float *a, const float *b, int count) {
  double sum = 0.0;
  for (int i = 0; i < count; i++) {
    const double x = (double)a[i] - (b ? (double)b[i] : 0.0);
    sum += x * x;
  }
  return sqrt(sum);
}

/* Any row lives through keys that nobody brought to length 1, and answers no more than the values'
 * size (sums, and what was there before the first write, apart). */
static void test_alone_lives(void **state) {
  float key[2 * WIDE], value[2 * WIDE], out[WIDE];
  (void)state;
  start();
  random_state = 21;
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_memory *m = alone(kind, WIDE, 0.0f);
    if (m == NULL) continue;
    for (int t = 0; t < 600; t++) {
      float surprise;
      fill(key, 2 * WIDE);
      fill(value, 2 * WIDE);
      surprise = surprise_of_write(m, key, value);
      miras_memory_read(m, key, out);
      if (!isfinite(surprise) || !(length_of(out, NULL, WIDE) < 10.0 * sqrt(WIDE))) {
        failed("%s: surprise %g, |y| %g after %d writes", miras_preset_name((miras_preset)kind),
               (double)surprise, length_of(out, NULL, WIDE), t + 1);
        break;
      }
    }
    miras_close(m);
  }
  finish();
}

/* What corrects its errors holds pairs that recur: a few after thirty rounds, and one of any
 * size (mean, spread) after twenty writes, none of which goes far beyond it (momentum carries a
 * write on). */
static void test_alone_stores(void **state) {
  enum { DIM = 32, PAIRS = 8 };
  static const float sizes[][2] = {{0.0f, 0.1f}, {0.0f, 1.0f},    {0.5f, 0.1f},     {5.0f, 1.0f},
                                   {0.0f, 10.0f}, {0.0f, 1000.0f}, {300.0f, 100.0f}, {0.0f, 1e5f}};
  float key[PAIRS * DIM], value[PAIRS * DIM], out[DIM], twice[2][2 * DIM];
  (void)state;
  start();
  random_state = 22;
  fill(key, PAIRS * DIM);
  fill(value, PAIRS * DIM);
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_memory *m = alone(kind, DIM, 0.0f);
    const miras_memory_desc *d = miras_memory_desc_of(m);
    if (m == NULL) continue;
    if (d->bias == MIRAS_BIAS_DOT || d->architecture == MIRAS_ARCH_KV_CACHE) {
      miras_close(m);
      continue;
    }
    for (int t = 0; t < 30 * PAIRS; t += d->inner_steps)
      surprise_of_write(m, key + t % PAIRS * DIM, value + t % PAIRS * DIM);
    for (int i = 0; i < PAIRS; i++) {
      double error;
      miras_memory_read(m, key + i * DIM, out);
      error = length_of(out, value + i * DIM, DIM) / length_of(value + i * DIM, NULL, DIM);
      if (!(error <= 0.05))
        failed("%s: pair %d is off by %.2g of |v|", miras_preset_name((miras_preset)kind), i,
               error);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      double error, before, most;
      for (int j = 0; j < 2 * DIM; j++) {
        twice[0][j] = key[j % DIM];
        twice[1][j] = sizes[i][0] + sizes[i][1] * value[j % DIM];
      }
      miras_memory_reset(m);
      miras_memory_read(m, key, out);
      before = length_of(out, NULL, DIM);
      most = before + (d->algorithm == MIRAS_ALGORITHM_MOMENTUM ? 1.5 : 1.25) *
                        length_of(twice[1], NULL, DIM);
      for (int t = 0; t < 20; t++) {
        surprise_of_write(m, twice[0], twice[1]);
        miras_memory_read(m, key, out);
        if (!(length_of(out, NULL, DIM) <= most))
          failed("%s: a value %g +- %g comes back with |y| %g after %d writes, |v| %g",
                 miras_preset_name((miras_preset)kind), (double)sizes[i][0], (double)sizes[i][1],
                 length_of(out, NULL, DIM), t + 1, length_of(twice[1], NULL, DIM));
      }
      error = length_of(out, twice[1], DIM) / length_of(twice[1], NULL, DIM);
      if (!(error <= 0.1))
        failed("%s: a value %g +- %g is off by %.2g of |v|", miras_preset_name((miras_preset)kind),
               (double)sizes[i][0], (double)sizes[i][1], error);
    }
    miras_close(m);
  }
  finish();
}

/* Silence: what decays comes back to the memory that it was given, and never says more than it did
 * when silence began (momentum carries a last write on) or before its first write. */
static void test_alone_silence(void **state) {
  enum { DIM = 16 };
  float key[2 * DIM], value[2 * DIM], silent[2 * DIM], fresh[DIM], out[DIM];
  (void)state;
  start();
  memset(silent, 0, sizeof silent);
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++)
    for (int quick = 0; quick < 2; quick++) {
      double most = 0.0, y = 0.0;
      size_t count;
      random_state = 24; /* no row depends on how many there are */
      miras_memory *m = alone(kind, DIM, 0.0f);
      float *params;
      const miras_memory_desc *d = miras_memory_desc_of(m);
      const int returns = m != NULL && d->decay_target == MIRAS_DECAY_TARGET_INITIAL;
      miras_close(m);
      if (!returns) continue;
      m = alone(kind, DIM, quick ? 0.05f : 0.0f);
      d = miras_memory_desc_of(m);
      params = miras_memory_params(m, &count);
      if (d->architecture == MIRAS_ARCH_MATRIX) /* which begins at zero */
        for (size_t i = 0; i < count; i++) params[i] = uniform(-0.3f, 0.3f);
      miras_memory_reset(m);
      fill(key, 2 * DIM);
      miras_memory_read(m, key, fresh);
      for (int t = 0; t < 50; t++) {
        fill(value, 2 * DIM);
        surprise_of_write(m, key, value);
      }
      miras_memory_read(m, key, out);
      most = fmax(length_of(out, NULL, DIM), length_of(fresh, NULL, DIM));
      for (int t = 0; t < 600; t++) {
        surprise_of_write(m, silent, silent);
        miras_memory_read(m, key, out);
        y = length_of(out, NULL, DIM);
        if (!(y <= (d->algorithm == MIRAS_ALGORITHM_MOMENTUM ? 1.3 : 1.05) * most)) {
          failed("%s: |y| %g after %d writes of zeros, %g at most before",
                 miras_preset_name((miras_preset)kind), y, t + 1, most);
          break;
        }
      }
      y = length_of(out, fresh, DIM);
      if (quick && !(y <= 1e-4 * length_of(fresh, NULL, DIM)))
        failed("%s: after silence off by %g from the initial memory",
               miras_preset_name((miras_preset)kind), y);
      miras_close(m);
    }
  finish();
}

/* A NaN in a key shows in the surprise of its own write, the first one too; what was read before
 * stays as it was, and a reset heals. */
static void test_nan(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++)
    for (int at = 0; at < 4; at++) {
      float key[12], value[12], out[6];
      miras_memory_desc d = preset((miras_preset)kind);
      miras_memory *m;
      if (d.separate_erase) continue; /* takes tokens */
      d.batch = d.heads = 1;
      m = miras_memory_open(&d, NULL, NULL, 0);
      assert_non_null(m);
      for (int t = 0; t < 6; t++) {
        float surprise;
        for (int i = 0; i < 12; i++) {
          key[i] = 0.1f * (float)((i * 5 + t * 3) % 7) - 0.2f;
          value[i] = 0.2f * (float)((i * 3 + t * 5) % 7) - 0.5f;
        }
        if (t == at) key[2] = NAN;
        surprise = surprise_of_write(m, key, value);
        if (isnan(surprise) != (t >= at))
          failed("%s: surprise %g at token %d, NaN at %d", miras_preset_name((miras_preset)kind),
                 (double)surprise, t, at);
        key[2] = 0.1f;
        miras_memory_read(m, key, out);
        if (isnan(out[0]) != (t >= at))
          failed("%s: read %g at token %d, NaN at %d", miras_preset_name((miras_preset)kind),
                 (double)out[0], t, at);
      }
      miras_memory_reset(m);
      miras_memory_read(m, key, out);
      if (isnan(out[0]) || isnan(surprise_of_write(m, key, value)))
        failed("%s: a reset does not heal", miras_preset_name((miras_preset)kind));
      miras_close(m);
    }
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) { /* one in another head's query */
    miras_memory_desc d = preset((miras_preset)kind);
    miras_memory *m;
    float query[64], out[64];
    d.batch = 1;
    d.heads = 2;
    m = miras_memory_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    for (int i = 0; i < 64; i++) query[i] = i == d.key_dim ? NAN : 0.1f;
    assert_int_equal(miras_memory_read(m, query, out), MIRAS_OK);
    for (int i = 0; i < d.value_dim; i++)
      if (isnan(out[i]))
        failed("%s: a head reads another's NaN", miras_preset_name((miras_preset)kind));
    miras_close(m);
  }
  finish();
}

/* How many numbers of a state have faded below 1e-30 and are still there. */
static int faded_of(miras_memory *m) {
  size_t bytes;
  const float *held = (const float *)miras_memory_state(m, &bytes) + 16; /* behind the position */
  int n = 0;
  for (size_t i = 0; i + 16 < bytes / sizeof(float); i++)
    n += fabsf(held[i]) > 0.0f && fabsf(held[i]) < 1e-30f;
  return n;
}

/* It becomes 0 when as many chunks have passed as fit into 64 tokens, not before, wherever calls
 * begin: one loud token, of which half is kept from token to token. */
static void test_swept(void **state) {
  static const miras_preset kinds[] = {
    MIRAS_PRESET_DFW,          MIRAS_PRESET_RETNET_MEMORY, MIRAS_PRESET_GATED_DELTANET,
    MIRAS_PRESET_KDA_MEMORY,   MIRAS_PRESET_MAMBA_MEMORY,  MIRAS_PRESET_LINEAR_ATTENTION,
    MIRAS_PRESET_RWKV7_MEMORY, MIRAS_PRESET_MESA};
  static const int of[] = {1, 5, 16}, before[] = {118, 115, 112}, swept[] = {128, 120, 128};
  enum { N = 6, T = 138 };
  float in[T * N] = {0}, y[T * N], half[T * N];
  (void)state;
  start();
  for (int i = 0; i < N; i++) in[i] = 0.5f;
  for (int i = 0; i < T * N; i++) half[i] = 0.5f;
  for (int k = 0; k < COUNT(kinds); k++)
    for (int c = 0; c < COUNT(of); c++)
      for (int piece = 7; piece <= T; piece += 30) {
        const int last = piece / 30 % 2 ? swept[c] + 10 : swept[c]; /* on the way, or at an end */
        miras_memory_desc d = preset(kinds[k]);
        miras_memory *m;
        miras_memory_input x;
        d.key_dim = d.value_dim = N;
        d.heads = d.batch = 1;
        d.chunk = of[c];
        if (!d.decay_gate) d.decay_rate = 0.5f, d.decay_ratio = 1.0f;
        m = miras_memory_open(&d, NULL, NULL, 0);
        if (m == NULL) continue; /* a chunk that it has not */
        memset(&x, 0, sizeof x);
        for (int t = 0, end = before[c]; t < last; t += x.length) {
          const float *at = in + t * N;
          if (t == before[c]) end = last;
          x.length = end - t < piece ? end - t : piece;
          x.key = x.value = x.query = at;
          if (d.decay_gate) x.keep = half;
          if (d.value_decay_gate) x.value_keep = half;
          if (d.separate_erase) x.erase = x.replace = at;
          if (d.learning_rate_gate) x.learning_rate = half;
          assert_int_equal(miras_memory_forward(m, &x, y, NULL), MIRAS_OK);
          if (t + x.length >= before[c] && (faded_of(m) > 0) != (t + x.length < swept[c]))
            failed("%s, chunk %d, pieces of %d: %d faded numbers after %d tokens",
                   miras_preset_name(kinds[k]), d.chunk, piece, faded_of(m), t + x.length);
        }
        miras_close(m);
      }
  finish();
}

/* What fades does not stay behind as denormals, which would cost a hundred times as much. Silence
 * is tokens of zeros: chunks of 1, 5 and 16 are swept every 64, 60 and 64 tokens. */
static void test_faded(void **state) {
  static const miras_preset kinds[] = {
    MIRAS_PRESET_DFW,        MIRAS_PRESET_RETNET_MEMORY, MIRAS_PRESET_GATED_DELTANET,
    MIRAS_PRESET_KDA_MEMORY, MIRAS_PRESET_RWKV7_MEMORY,  MIRAS_PRESET_MESA};
  enum { N = 6, LOUD = 16, T = 2048 };
  float *in = (float *)zeros(T * N, sizeof(float)), *y = (float *)zeros(T * N, sizeof(float));
  float *keep = (float *)zeros(T * N, sizeof(float));
  (void)state;
  start();
  random_state = 12;
  for (int i = 0; i < LOUD * N; i++) in[i] = uniform(-0.5f, 0.5f);
  for (int i = 0; i < T * N; i++) keep[i] = uniform(0.6f, 0.9f);
  for (int k = 0; k < COUNT(kinds); k++)
    for (int c = 0; c < 4; c++)
      for (int toward = 0; toward < 2; toward++) {
        miras_memory_desc d = preset(kinds[k]);
        miras_memory *m;
        miras_memory_input x;
        size_t bytes, count, tiny = 0, left = 0;
        const float *held;
        float *params;
        d.key_dim = d.value_dim = N;
        d.heads = d.batch = 1;
        d.chunk = chunks[c];
        if (d.algorithm != MIRAS_ALGORITHM_LEAST_SQUARES)
          d.decay_target = (miras_decay_target)toward;
        if (d.decay_gate == MIRAS_GATE_CONSTANT) d.decay_rate = 0.2f, d.decay_ratio = 1.0f;
        m = miras_memory_open(&d, NULL, NULL, 0);
        assert_non_null(m);
        params = miras_memory_params(m, &count);
        for (int i = 0; toward && i < N; i++) params[i] = 0.25f;
        memset(&x, 0, sizeof x);
        x.length = T;
        x.key = x.value = x.query = in;
        if (d.decay_gate) x.keep = keep;
        if (d.value_decay_gate) x.value_keep = keep;
        if (d.separate_erase) x.erase = x.replace = in;
        assert_int_equal(miras_memory_forward(m, &x, y, NULL), MIRAS_OK);
        held = (const float *)miras_memory_state(m, &bytes) + 16; /* behind the position */
        for (size_t i = 0; i + 16 < bytes / sizeof(float); i++) {
          if (fabsf(held[i]) > 0.0f && fabsf(held[i]) < FLT_MIN) tiny++;
          if (i < N * N && fabsf(held[i]) > 0.0f) left++;
        }
        if (tiny > 0) failed("%d denormals after silence: %s", (int)tiny, label(&d));
        if (left != (toward && d.decay_target ? (size_t)N : 0))
          failed("%d weights are left after silence: %s", (int)left, label(&d));
        miras_close(m);
      }
  free(in);
  free(y);
  free(keep);
  finish();
}

#define REFUSED(field, value)                                                      \
  do {                                                                             \
    miras_memory_desc d_ = preset(MIRAS_PRESET_YAAD);                                            \
    char why_[200] = "";                                                           \
    d_.field = value;                                                              \
    if (miras_memory_size(&d_, why_, sizeof why_) != 0 || why_[0] == '\0')         \
      failed("line %d: " #field " = " #value " is not refused", __LINE__);         \
    else if (strstr(why_, #field) == NULL)                                         \
      failed("line %d: \"%s\" does not name " #field, __LINE__, why_);             \
    if (miras_memory_open(&d_, NULL, NULL, 0) != NULL) failed("line %d: opened", __LINE__); \
  } while (0)

/* Every pair of a bias and a retention is in one pool. */
static void test_pools(void **state) {
  (void)state;
  for (int bias = 0; bias < MIRAS_BIAS_COUNT; bias++)
    for (int retention = 0; retention < MIRAS_RETENTION_COUNT; retention++) {
      int found = 0;
      for (EACH_POOL(p))
        for (int b = 0; b < p->biases; b++)
          for (int r = 0; r < p->retentions; r++)
            found += (int)p->bias[b] == bias && (int)p->retention[r] == retention;
      if (found != 1)
        fail_msg("%s with %s is in %d pools", word_of("memory.bias", bias),
                 word_of("memory.retention", retention), found);
    }
}

static void test_refusals(void **state) {
  miras_memory_desc d;
  data x;
  miras_memory *m;
  miras_memory_input tokens;
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
  REFUSED(decay_rate, 1.5f);
  REFUSED(decay_rate, -0.5f);
  REFUSED(decay_rate, NAN);
  REFUSED(learning_rate, -1.0f);
  REFUSED(momentum, 2.0f);
  REFUSED(threshold, -1.0f);
  REFUSED(p, 9.0f);
  REFUSED(q, 9.0f);
  REFUSED(sharpness, 1000.0f);
  REFUSED(simplex, -1.0f);
  REFUSED(bias, (miras_bias)77);
  REFUSED(retention, (miras_retention)77);
  REFUSED(order, MIRAS_ORDER_DECAY_FIRST);
  REFUSED(decay_target, MIRAS_DECAY_TARGET_COUNT);
  REFUSED(qk_norm, MIRAS_QK_NORM_COUNT);
  REFUSED(step_bound, 3);
  REFUSED(reset_every, 17);
  REFUSED(reset_every, -16);
  REFUSED(token_rates, 3);
  REFUSED(simplex_signed, 1);

  d = preset(MIRAS_PRESET_YAAD);
  d.chunk = 4;
  d.learning_rate_gate = MIRAS_GATE_HEAD;
  bytes = miras_memory_size(&d, NULL, 0);
  assert_true(bytes > 0);
  buffer = (unsigned char *)zeros(bytes + 8, 1);
  assert_null(miras_memory_init(buffer, bytes - 1, &d, NULL, 0));
  m = miras_memory_init(buffer + 1, bytes, &d, NULL, 0); /* any alignment */
  assert_non_null(m);
  data_new(&x, &d, 6, 1);
  tokens = data_tokens(&x);
  y = (float *)zeros(x.dy.count, sizeof(float));
  tape = (float *)zeros(miras_memory_tape_size(m, 6), sizeof(float));
  /* learned gates: there is no constant step to write with, and nothing is written */
  if (!isnan(surprise_of_write(m, x.in[KEY].f, x.in[VALUE].f))) failed("a write without its gates");
  assert_true(miras_memory_position(m) == 0);
  assert_int_equal(miras_memory_forward(m, &tokens, y, tape), MIRAS_OK);
  assert_true(miras_memory_position(m) == 6);
  if (miras_memory_forward(m, &tokens, y, tape) != MIRAS_ERR_STATE)
    failed("a tape from inside a chunk");
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
    cmocka_unit_test(test_unit_pools),
    cmocka_unit_test(test_unit_exact),
    cmocka_unit_test(test_unit_sweeps),
    cmocka_unit_test(test_unit_large),
    cmocka_unit_test(test_unit_normalize),
    cmocka_unit_test(test_unit_windows),
    cmocka_unit_test(test_silent_gradients),
    cmocka_unit_test(test_pools),
    cmocka_unit_test(test_forward_grid),
    cmocka_unit_test(test_forward_exact),
    cmocka_unit_test(test_forward_lengths),
    cmocka_unit_test(test_forward_gates),
    cmocka_unit_test(test_step),
    cmocka_unit_test(test_gradient_grid),
    cmocka_unit_test(test_gradient_exact),
    cmocka_unit_test(test_channels),
    cmocka_unit_test(test_ball),
    cmocka_unit_test(test_muon),
    cmocka_unit_test(test_muon_heads),
    cmocka_unit_test(test_omega),
    cmocka_unit_test(test_decays),
    cmocka_unit_test(test_long),
    cmocka_unit_test(test_ragged),
    cmocka_unit_test(test_gradient_state),
    cmocka_unit_test(test_gradient_near),
    cmocka_unit_test(test_gradient_heads),
    cmocka_unit_test(test_features_many),
    cmocka_unit_test(test_gradient_more),
    cmocka_unit_test(test_gradient_chained),
    cmocka_unit_test(test_bits),
    cmocka_unit_test(test_equalities),
    cmocka_unit_test(test_linear_attention),
    cmocka_unit_test(test_presets),
    cmocka_unit_test(test_alone_lives),
    cmocka_unit_test(test_alone_stores),
    cmocka_unit_test(test_alone_silence),
    cmocka_unit_test(test_nan),
    cmocka_unit_test(test_faded), cmocka_unit_test(test_swept),
    cmocka_unit_test(test_refusals),
  };
  printf("instruction set: %s\n", miras_isa());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
