/* The whole language model against the double-precision reference: loss, logits, the gradient of
 * every parameter, the optimiser; and that threads, neighbours and cuts change no bit.
 *
 *   cc -O2 tests/test_model.c -o test_model -lcmocka -lm -lpthread && ./test_model
 *
 * Bounds, relative to the largest entry: FORWARD for losses and logits, GRADIENT for each
 * parameter's gradient against central differences of the double reference.
 */
#define MIRAS_PTHREADS
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
#define GRADIENT 2e-4

enum { VOCAB = 11, WIDTH = 16, HEADS = 2, DIM = 8, LAYERS = 2, BATCH = 2, CONTEXT = 24 };

/* ---- a report that goes on after a failure ---- */

#ifndef SHOWN
  #define SHOWN 25 /* failures printed per test */
#endif

static int failures;

static void start(void) { failures = 0; }

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

static void *zeros(size_t count, size_t size) {
  void *p = calloc(count > 0 ? count : 1, size);
  if (p == NULL) abort();
  return p;
}

static int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT];

/* Some targets are left out, the last of each sequence never. */
static void draw_text(int T) {
  for (int i = 0; i < BATCH * CONTEXT; i++) {
    tokens[i] = (int32_t)(draw() % VOCAB);
    targets[i] = draw() % 5 == 0 ? -1 : (int32_t)(draw() % VOCAB);
  }
  for (int b = 0; b < BATCH; b++) targets[b * T + T - 1] = (int32_t)(draw() % VOCAB);
}

/* ---- models ---- */

/* The chunk lengths that a row is tested with: its own first. 0 past the end. */
static int chunk_of(miras_kind kind, int i) {
  miras_model_desc d;
  assert_int_equal(miras_model_preset(&d, kind), MIRAS_OK);
  if (i == 0 && d.memory.order == MIRAS_DECAY_FIRST) return 1;
  if (d.memory.order == MIRAS_DECAY_FIRST) return 0;
  return i == 0 ? 4 : i == 1 ? 16 : i == 2 ? 1 : 0;
}

static miras_model_desc describe(miras_kind kind, int chunk) {
  miras_model_desc d;
  assert_int_equal(miras_model_preset(&d, kind), MIRAS_OK);
  d.vocab = VOCAB;
  d.width = WIDTH;
  d.layers = LAYERS;
  d.hidden = 24;
  d.gate_rank = 5;
  d.memory.heads = HEADS;
  d.memory.key_dim = DIM;
  d.memory.value_dim = DIM;
  d.memory.chunk = chunk;
  d.batch = BATCH;
  d.context = CONTEXT;
  d.seed = 42;
  d.dropout = 0.0f;
  return d;
}

static int starts_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Away from the symmetric points of the initial values, where gradients vanish by accident. */
static void disturb(miras_model *m, uint64_t seed) {
  int count = 0;
  const miras_view *views = miras_model_views(m, &count);
  float *params = miras_model_params(m, NULL);
  random_state = seed * 1237u + 5;
  for (int v = 0; v < count; v++) {
    float by = 0.1f;
    if (starts_with(views[v].name, "embed") || starts_with(views[v].name, "head")) by = 0.5f;
    if (strstr(views[v].name, "gates.") != NULL) by = 0.3f;
    for (size_t i = 0; i < views[v].count; i++) params[views[v].offset + i] += uniform(-by, by);
  }
}

typedef struct wide {
  ref_model r;
  double *params;
  size_t count;
} wide;

static void widen(wide *w, miras_model *m, const miras_model_desc *d) {
  const float *params = miras_model_params(m, &w->count);
  w->params = (double *)ref_zeros(w->count);
  for (size_t i = 0; i < w->count; i++) w->params[i] = (double)params[i];
  w->r.d = *d;
  w->r.views = miras_model_views(m, &w->r.view_count);
  w->r.params = w->params;
}

static double error_of(const float *a, const double *b, size_t count) {
  double worst = 0.0, top = 1e-30;
  for (size_t i = 0; i < count; i++) {
    if (!(fabs((double)a[i] - b[i]) < 1e30)) return HUGE_VAL;
    if (fabs((double)a[i] - b[i]) > worst) worst = fabs((double)a[i] - b[i]);
    if (fabs(b[i]) > top) top = fabs(b[i]);
  }
  return worst / top;
}

static miras_model *open_model(const miras_model_desc *d) {
  char why[200] = "";
  miras_model *m;
  if (miras_model_size(d, why, sizeof why) == 0) {
    failed("%s, chunk %d: refused (%s)", "model", d->memory.chunk, why);
    return NULL;
  }
  m = miras_model_open(d, NULL);
  if (m == NULL) failed("model with chunk %d not opened", d->memory.chunk);
  return m;
}

/* Parameters and text for which the reference stays clear of corners (thresholds of Yaad). */
static void settle(miras_model *m, const miras_model_desc *d, int T, wide *w) {
  size_t count;
  float *params = miras_model_params(m, &count), *initial;
  w->params = NULL;
  initial = (float *)zeros(count, sizeof(float));
  memcpy(initial, params, count * sizeof(float));
  for (uint64_t seed = 1; seed < 40; seed++) {
    ref_branches b;
    memcpy(params, initial, count * sizeof(float));
    disturb(m, seed);
    draw_text(T);
    widen(w, m, d);
    ref_branches_clear(&b);
    ref_model_loss(&w->r, tokens, targets, BATCH, T, NULL, &b);
    if (b.margin > 2e-4) break;
    free(w->params);
    w->params = NULL;
  }
  free(initial);
  if (w->params == NULL) {
    failed("no parameters clear of the corners");
    widen(w, m, d);
  }
}

/* ---- loss and logits ---- */

static void test_forward(void **state) {
  double worst_loss = 0.0, worst_logits = 0.0, worst_slack = 0.0;
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++)
    for (int c = 0, chunk; (chunk = chunk_of((miras_kind)kind, c)) > 0; c++) {
      miras_model_desc d = describe((miras_kind)kind, chunk);
      const char *name = miras_kind_name((miras_kind)kind);
      miras_model *m;
      wide w;
      d.untied = kind % 2;
      m = open_model(&d);
      if (m == NULL) continue;
      settle(m, &d, 13, &w);
      for (int T = 1; T <= 13; T++) {
        double *logits = (double *)ref_zeros((size_t)BATCH * (size_t)T * VOCAB), loss = 0.0, error;
        double *shaken = (double *)ref_zeros((size_t)BATCH * (size_t)T * VOCAB);
        double slack = 0.0;
        float is;
        ref_branches corners;
        /* text that keeps clear of corners and of chaos; what parameters that differ by 1e-6 would
         * do is allowed on top of the bound */
        for (int attempt = 0; attempt < 60; attempt++) {
          draw_text(T);
          ref_branches_clear(&corners);
          loss = ref_model_loss(&w.r, tokens, targets, BATCH, T, logits, &corners);
          for (size_t i = 0; i < w.count; i++) w.params[i] *= 1.0 + (double)uniform(-1e-6f, 1e-6f);
          ref_model_loss(&w.r, tokens, targets, BATCH, T, shaken, NULL);
          for (size_t i = 0; i < w.count; i++) w.params[i] = (double)miras_model_params(m, NULL)[i];
          slack = 0.0;
          for (int i = 0; i < BATCH * T * VOCAB; i++)
            if (fabs(shaken[i] - logits[i]) > slack) slack = fabs(shaken[i] - logits[i]);
          if (corners.margin > 1e-4 && slack <= 5e-4) break;
        }
        if (!(corners.margin > 1e-4 && slack <= 5e-4))
          failed("%s chunk %d T %d: no settled text", name, chunk, T);
        if (slack > worst_slack) worst_slack = slack;
        is = miras_model_loss(m, tokens, targets, BATCH, T, 0);
        error = fabs((double)is - loss) / fabs(loss);
        if (error > worst_loss) worst_loss = error;
        if (!(error <= FORWARD))
          failed("%s chunk %d T %d: loss %.8g, not %.8g", name, chunk, T, (double)is, loss);
        is = miras_model_loss(m, tokens, targets, BATCH, T, 1);
        if (!(fabs((double)is - loss) <= FORWARD * loss))
          failed("%s chunk %d T %d: training loss %.8g, not %.8g", name, chunk, T, (double)is,
                 loss);
        for (int b = 0; b < BATCH; b++) {
          miras_session *s = miras_session_open(m, NULL);
          const float *row;
          double score = 0.0, sum;
          if (s == NULL) {
            failed("%s: no session", name);
            continue;
          }
          for (int t = 0; t < T; t++) {
            const double *expected = logits + (size_t)(b * T + t) * VOCAB;
            row = miras_session_step(s, tokens[b * T + t]);
            error = row == NULL ? HUGE_VAL : error_of(row, expected, VOCAB);
            if (error > worst_logits) worst_logits = error;
            if (!(error <= FORWARD * 2.0 + slack))
              failed("%s chunk %d: logits off by %.2e at %d of %d", name, chunk, error, t, T);
            if (targets[b * T + t] >= 0) {
              double top = expected[0], total = 0.0;
              for (int o = 0; o < VOCAB; o++)
                if (expected[o] > top) top = expected[o];
              for (int o = 0; o < VOCAB; o++) total += exp(expected[o] - top);
              score += top + log(total) - expected[targets[b * T + t]];
            }
          }
          miras_session_reset(s);
          sum = miras_session_score(s, tokens + b * T, targets + b * T, (size_t)T);
          if (!(fabs(sum - score) <= FORWARD * (score + 1.0) + slack * T))
            failed("%s chunk %d T %d: score %.8g, not %.8g", name, chunk, T, sum, score);
          miras_session_close(s);
        }
        free(logits);
        free(shaken);
      }
      free(w.params);
      miras_model_close(m);
    }
  printf("  largest error: loss %.2e, logits %.2e; largest slack %.2e\n", worst_loss, worst_logits,
         worst_slack);
  finish();
}

/* ---- gradients ---- */

static void test_gradient(void **state) {
  double worst_of_all = 0.0;
  int skipped = 0, checked = 0;
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++)
    for (int c = 0, chunk; c < 2 && (chunk = chunk_of((miras_kind)kind, c)) > 0; c++) {
      const int T = chunk == 16 ? 18 : 10, samples = chunk == 16 ? 3 : 6;
      miras_model_desc d = describe((miras_kind)kind, chunk);
      const char *name = miras_kind_name((miras_kind)kind);
      miras_model *m;
      const float *grads;
      wide w;
      d.untied = (kind + c) % 2;
      m = open_model(&d);
      if (m == NULL) continue;
      settle(m, &d, T, &w);
      miras_model_loss(m, tokens, targets, BATCH, T, 1);
      if (miras_model_backward(m) != MIRAS_OK) failed("%s: backward", name);
      grads = miras_model_grads(m);
      for (int v = 0; v < w.r.view_count; v++) {
        const miras_view *view = &w.r.views[v];
        double top = 0.0, worst = 0.0, is = 0.0, should = 0.0;
        size_t best = view->offset;
        for (size_t i = view->offset; i < view->offset + view->count; i++) {
          if (!(fabs((double)grads[i]) < 1e30)) top = HUGE_VAL;
          if (fabs((double)grads[i]) > top) {
            top = fabs((double)grads[i]);
            best = i;
          }
        }
        if (!(top < 1e30)) {
          failed("%s chunk %d: the gradient of %s is not finite", name, chunk, view->name);
          continue;
        }
        if (top < 1e-9) {
          failed("%s chunk %d: the gradient of %s is zero", name, chunk, view->name);
          continue;
        }
        for (int j = 0; j <= samples; j++) { /* the largest, then a draw */
          const size_t i = j == 0 ? best : view->offset + (size_t)(draw() % view->count);
          const double h = 1e-5, middle = w.params[i];
          double loss[2], derivative;
          ref_branches b[2];
          for (int side = 0; side < 2; side++) {
            w.params[i] = middle + (side ? h : -h);
            ref_branches_clear(&b[side]);
            loss[side] = ref_model_loss(&w.r, tokens, targets, BATCH, T, NULL, &b[side]);
          }
          w.params[i] = middle;
          if (b[0].decisions != b[1].decisions) {
            skipped++;
            continue;
          }
          checked++;
          derivative = (loss[1] - loss[0]) / (2.0 * h);
          if (fabs(derivative) > top) top = fabs(derivative);
          if (fabs(derivative - (double)grads[i]) > worst) {
            worst = fabs(derivative - (double)grads[i]);
            is = (double)grads[i];
            should = derivative;
          }
        }
        if (worst / top > worst_of_all) worst_of_all = worst / top;
        if (!(worst <= GRADIENT * top))
          failed("%s chunk %d: gradient of %s off by %.2e (%g, not %g; largest %g)", name, chunk,
                 view->name, worst / top, is, should, top);
      }
      free(w.params);
      miras_model_close(m);
    }
  printf("  %d coordinates, %d skipped at a corner, largest error %.2e\n", checked, skipped,
         worst_of_all);
  finish();
}

/* ---- the parameters ---- */

static int next_view(const miras_view *views, int count, int *at, const char *name, int rank, int a,
                     int b, int c, int decay) {
  const miras_view *v = &views[*at];
  const size_t size = (size_t)a * (size_t)b * (size_t)c;
  if (*at >= count) {
    failed("%s is missing", name);
    return 0;
  }
  if (strcmp(v->name, name) != 0) failed("parameter %d is %s, not %s", *at, v->name, name);
  if (v->count != size || v->rank != rank || v->shape[0] != a || v->shape[1] != b ||
      v->shape[2] != c)
    failed("%s: rank %d, shape %d %d %d, not %d, %d %d %d", name, v->rank, v->shape[0], v->shape[1],
           v->shape[2], rank, a, b, c);
  if (v->decay != decay) failed("%s: decay %d", name, v->decay);
  (*at)++;
  return 1;
}

static void test_views(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++) {
    miras_model_desc d = describe((miras_kind)kind, chunk_of((miras_kind)kind, 0));
    const miras_desc *md = &d.memory;
    miras_desc resolved;
    int count = 0, at = 0, columns = 0, P;
    const miras_view *views;
    miras_model *m;
    size_t total = 0, sum = 0;
    d.untied = 1;
    m = open_model(&d);
    if (m == NULL) continue;
    views = miras_model_views(m, &count);
    resolved = ref_resolve(md);
    P = (int)ref_shape_of(&resolved).weights;
    columns += md->keep_gate == MIRAS_GATE_CHANNEL ? HEADS * DIM : md->keep_gate ? HEADS : 0;
    columns += (md->step_gate ? HEADS : 0) + (md->momentum_gate ? HEADS : 0);
    columns += md->threshold_gate ? HEADS : 0;
    next_view(views, count, &at, "embed.weight", 2, VOCAB, WIDTH, 1, 1);
    for (int l = 0; l < LAYERS; l++) {
      char n[64];
#define NAME(text) (snprintf(n, sizeof n, "blocks.%d." text, l), n)
      next_view(views, count, &at, NAME("norm1.gain"), 1, WIDTH, 1, 1, 0);
      next_view(views, count, &at, NAME("q.weight"), 2, WIDTH, HEADS * DIM, 1, 1);
      next_view(views, count, &at, NAME("k.weight"), 2, WIDTH, HEADS * DIM, 1, 1);
      next_view(views, count, &at, NAME("v.weight"), 2, WIDTH, HEADS * DIM, 1, 1);
      next_view(views, count, &at, NAME("conv_q.weight"), 2, 4, HEADS * DIM, 1, 0);
      next_view(views, count, &at, NAME("conv_k.weight"), 2, 4, HEADS * DIM, 1, 0);
      next_view(views, count, &at, NAME("conv_v.weight"), 2, 4, HEADS * DIM, 1, 0);
      if (columns > 0) {
        next_view(views, count, &at, NAME("gates.down"), 2, WIDTH, 5, 1, 1);
        next_view(views, count, &at, NAME("gates.up"), 2, 5, columns, 1, 1);
        next_view(views, count, &at, NAME("gates.offset"), 1, columns, 1, 1, 0);
      }
      next_view(views, count, &at, NAME("memory.init"), 2, HEADS, P, 1, 0);
      if (md->architecture == MIRAS_MLP && md->inner_norm) {
        next_view(views, count, &at, NAME("memory.gain"), 2, HEADS, DIM, 1, 0);
        next_view(views, count, &at, NAME("memory.bias"), 2, HEADS, DIM, 1, 0);
      }
      next_view(views, count, &at, NAME("out_norm.gain"), 1, HEADS * DIM, 1, 1, 0);
      next_view(views, count, &at, NAME("out_gate.weight"), 2, WIDTH, HEADS * DIM, 1, 1);
      next_view(views, count, &at, NAME("o.weight"), 2, HEADS * DIM, WIDTH, 1, 1);
      next_view(views, count, &at, NAME("norm2.gain"), 1, WIDTH, 1, 1, 0);
      next_view(views, count, &at, NAME("mlp.gate"), 2, WIDTH, 24, 1, 1);
      next_view(views, count, &at, NAME("mlp.up"), 2, WIDTH, 24, 1, 1);
      next_view(views, count, &at, NAME("mlp.down"), 2, 24, WIDTH, 1, 1);
#undef NAME
    }
    next_view(views, count, &at, "norm.gain", 1, WIDTH, 1, 1, 0);
    next_view(views, count, &at, "head.weight", 2, VOCAB, WIDTH, 1, 1);
    if (at != count) failed("%d parameters, not %d", count, at);
    miras_model_params(m, &total);
    for (int v = 0; v < count; v++) {
      if (views[v].offset < sum) failed("%s overlaps what is before it", views[v].name);
      sum = views[v].offset + views[v].count;
    }
    if (sum > total) failed("%zu floats in views, %zu in all", sum, total);
    miras_model_close(m);
  }
  finish();
}

/* ---- sessions ---- */

/* Step, prefill and every cut of a prefill: the same logits and the same state, to the bit. */
static void test_session_bits(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++)
    for (int c = 0, chunk; (chunk = chunk_of((miras_kind)kind, c)) > 0; c++) {
      enum { T = 37 };
      miras_model_desc d = describe((miras_kind)kind, chunk);
      const char *name = miras_kind_name((miras_kind)kind);
      miras_model *m = open_model(&d);
      miras_session *s;
      int32_t text[T];
      float stepped[T][VOCAB];
      unsigned char *kept;
      const float *row;
      size_t bytes = 0;
      double once, parts;
      if (m == NULL) continue;
      disturb(m, 3);
      s = miras_session_open(m, NULL);
      assert_non_null(s);
      for (int t = 0; t < T; t++) text[t] = (int32_t)(draw() % VOCAB);
      for (int t = 0; t < T; t++) {
        row = miras_session_step(s, text[t]);
        assert_non_null(row);
        memcpy(stepped[t], row, sizeof stepped[t]);
      }
      assert_true(miras_session_position(s) == T);
      miras_session_state(s, &bytes);
      kept = (unsigned char *)zeros(bytes, 1);
      memcpy(kept, miras_session_state(s, NULL), bytes);
      for (int a = 1; a <= T; a++) {
        miras_session_reset(s);
        row = miras_session_prefill(s, text, (size_t)a);
        if (row == NULL || memcmp(row, stepped[a - 1], sizeof stepped[0]) != 0) {
          failed("%s chunk %d: prefill of %d differs from steps", name, chunk, a);
          break;
        }
        if (a < T) row = miras_session_prefill(s, text + a, (size_t)(T - a));
        if (row == NULL || memcmp(row, stepped[T - 1], sizeof stepped[0]) != 0) {
          failed("%s chunk %d: prefill cut at %d differs from steps", name, chunk, a);
          break;
        }
        if (memcmp(miras_session_state(s, NULL), kept, bytes) != 0) {
          failed("%s chunk %d: prefill cut at %d leaves another state", name, chunk, a);
          break;
        }
      }
      /* a zeroed state is a fresh one; a snapshot continues */
      memset(miras_session_state(s, NULL), 0, bytes);
      row = miras_session_prefill(s, text, 10);
      if (row == NULL || memcmp(row, stepped[9], sizeof stepped[0]) != 0)
        failed("%s chunk %d: a zeroed state is no reset", name, chunk);
      memcpy(kept, miras_session_state(s, NULL), bytes);
      miras_session_prefill(s, text, 7);
      memcpy(miras_session_state(s, NULL), kept, bytes);
      row = miras_session_step(s, text[10]);
      if (row == NULL || memcmp(row, stepped[10], sizeof stepped[0]) != 0)
        failed("%s chunk %d: a snapshot does not continue", name, chunk);
      /* scoring in parts */
      miras_session_reset(s);
      once = miras_session_score(s, text, text + 1, T - 1);
      miras_session_reset(s);
      parts = miras_session_score(s, text, text + 1, 11);
      parts += miras_session_score(s, text + 11, text + 12, T - 12);
      if (!(fabs(once - parts) <= 1e-9 * once)) failed("%s chunk %d: scores in parts", name, chunk);
      free(kept);
      miras_session_close(s);
      miras_model_close(m);
    }
  finish();
}

/* One sequence, one target: the training forward and a session see the same probability. */
static void test_session_training(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++) {
    miras_model_desc d = describe((miras_kind)kind, chunk_of((miras_kind)kind, 0));
    miras_model *m = open_model(&d);
    miras_session *s;
    if (m == NULL) continue;
    disturb(m, 4);
    s = miras_session_open(m, NULL);
    assert_non_null(s);
    for (int T = 1; T <= CONTEXT; T++) {
      float loss;
      double score;
      draw_text(CONTEXT);
      for (int t = 0; t < T - 1; t++) targets[t] = -1;
      targets[T - 1] = (int32_t)(draw() % VOCAB);
      loss = miras_model_loss(m, tokens, targets, 1, T, 0);
      miras_session_reset(s);
      score = miras_session_score(s, tokens, targets, (size_t)T);
      if (!(fabs((double)loss - score) <= 1e-6 * (1.0 + score)))
        failed("%s T %d: loss %.9g, score %.9g", miras_kind_name((miras_kind)kind), T, (double)loss,
               score);
    }
    miras_session_close(s);
    miras_model_close(m);
  }
  finish();
}

/* ---- threads, neighbours ---- */

/* A job system that takes the tasks in another order each time. */
typedef struct shuffle {
  int workers;
  uint64_t calls;
} shuffle;

static void shuffled_run(void *user, int count, void (*task)(void *argument, int index, int worker),
                         void *argument) {
  shuffle *s = (shuffle *)user;
  int *order = (int *)zeros((size_t)count, sizeof(int));
  for (int i = 0; i < count; i++) order[i] = i;
  for (int i = count - 1; i > 0; i--) {
    const int j = (int)(draw() % (uint64_t)(i + 1)), t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
  for (int i = 0; i < count; i++) task(argument, order[i], (int)(draw() % (uint64_t)s->workers));
  s->calls++;
  free(order);
}

static void test_threads(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++) {
    float loss = 0.0f, *grads = NULL, *params = NULL;
    const char *name = miras_kind_name((miras_kind)kind);
    for (int way = 0; way < 9; way++) { /* none; 1..4 shuffled; a pool of 1..4 */
      miras_model_desc d = describe((miras_kind)kind, chunk_of((miras_kind)kind, 0));
      shuffle s = {0, 0};
      miras_parallel p;
      miras_pool *pool = NULL;
      miras_model *m;
      miras_adamw_options o;
      miras_session *session;
      const float *row;
      size_t count = 0;
      float is;
      memset(&o, 0, sizeof o);
      if (way >= 1 && way <= 4) {
        s.workers = way;
        p.run = shuffled_run;
        p.user = &s;
        p.workers = way;
        d.parallel = &p;
      } else if (way > 4) {
        pool = miras_pool_open(way - 4, NULL);
        assert_non_null(pool);
        d.parallel = miras_pool_parallel(pool);
      }
      d.dropout = 0.1f;
      m = open_model(&d);
      if (m == NULL) {
        if (pool != NULL) miras_pool_close(pool);
        continue;
      }
      random_state = 99;
      draw_text(21);
      miras_model_params(m, &count);
      is = miras_model_loss(m, tokens, targets, BATCH, 21, 1);
      miras_model_backward(m);
      if (way == 0) {
        loss = is;
        grads = (float *)zeros(count, sizeof(float));
        memcpy(grads, miras_model_grads(m), count * sizeof(float));
      } else {
        if (memcmp(&is, &loss, sizeof loss) != 0)
          failed("%s, way %d: loss %.9g, not %.9g", name, way, (double)is, (double)loss);
        if (memcmp(grads, miras_model_grads(m), count * sizeof(float)) != 0)
          failed("%s, way %d: other gradients", name, way);
      }
      o.clip = 1.0f;
      o.decay = 0.1f;
      miras_adamw(m, &o, 1e-3f);
      if (way == 0) {
        params = (float *)zeros(count, sizeof(float));
        memcpy(params, miras_model_params(m, NULL), count * sizeof(float));
      } else if (memcmp(params, miras_model_params(m, NULL), count * sizeof(float)) != 0) {
        failed("%s, way %d: other parameters after a step", name, way);
      }
      session = miras_session_open(m, NULL);
      row = session == NULL ? NULL : miras_session_prefill(session, tokens, 19);
      if (row == NULL) failed("%s, way %d: no prefill", name, way);
      miras_session_close(session);
      if (way >= 2 && way <= 4 && s.calls == 0) failed("%s: the job system was not asked", name);
      miras_model_close(m);
      if (pool != NULL) miras_pool_close(pool);
    }
    free(grads);
    free(params);
  }
  finish();
}

/* What is not a target does not matter when it comes later or stands in another sequence. */
static void test_neighbours(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++) {
    miras_model_desc d = describe((miras_kind)kind, chunk_of((miras_kind)kind, 0));
    const char *name = miras_kind_name((miras_kind)kind);
    enum { T = 19, SEEN = 11 };
    float loss = 0.0f, is, *grads;
    size_t count = 0;
    miras_model *m = open_model(&d);
    if (m == NULL) continue;
    miras_model_params(m, &count);
    grads = (float *)zeros(count, sizeof(float));
    disturb(m, 6);
    draw_text(T);
    for (int t = 0; t < BATCH * T; t++)
      if (t >= SEEN) targets[t] = -1;
    for (int pass = 0; pass < 3; pass++) { /* as drawn; other later tokens; another neighbour */
      for (int t = 0; t < BATCH * T; t++)
        if ((pass == 1 && t >= SEEN && t < T) || (pass == 2 && t >= T))
          tokens[t] = (int32_t)(draw() % VOCAB);
      memset(miras_model_grads(m), 0, count * sizeof(float));
      is = miras_model_loss(m, tokens, targets, BATCH, T, 1);
      miras_model_backward(m);
      if (pass == 0) {
        loss = is;
        memcpy(grads, miras_model_grads(m), count * sizeof(float));
        continue;
      }
      if (memcmp(&is, &loss, sizeof loss) != 0) failed("%s, pass %d: another loss", name, pass);
      for (size_t i = 0; i < count; i++)
        if (grads[i] < miras_model_grads(m)[i] || grads[i] > miras_model_grads(m)[i]) {
          failed("%s, pass %d: other gradients (%zu: %.9g, not %.9g)", name, pass, i,
                 (double)miras_model_grads(m)[i], (double)grads[i]);
          break;
        }
    }
    is = miras_model_loss(m, tokens, targets, 1, T, 0);
    if (memcmp(&is, &loss, sizeof loss) != 0) failed("%s: a batch of one: another loss", name);
    is = miras_model_loss(m, tokens, targets, 1, SEEN, 0);
    if (memcmp(&is, &loss, sizeof loss) != 0) failed("%s: without the rest: another loss", name);
    free(grads);
    miras_model_close(m);
  }
  finish();
}

/* ---- training ---- */

static void test_training(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_KIND_COUNT; kind++) {
    miras_model_desc d = describe((miras_kind)kind, chunk_of((miras_kind)kind, 0));
    const char *name = miras_kind_name((miras_kind)kind);
    miras_adamw_options o;
    float first, last = 0.0f;
    miras_model *m = open_model(&d);
    if (m == NULL) continue;
    memset(&o, 0, sizeof o);
    o.clip = 1.0f;
    random_state = 11;
    draw_text(20);
    first = miras_model_loss(m, tokens, targets, BATCH, 20, 0);
    if (!(fabs((double)first - log(VOCAB)) < 0.5))
      failed("%s: a new model's loss is %g, not about %g", name, (double)first, log(VOCAB));
    for (int step = 0; step < 30; step++) {
      float norm;
      miras_model_loss(m, tokens, targets, BATCH, 20, 1);
      assert_int_equal(miras_model_backward(m), MIRAS_OK);
      norm = miras_adamw(m, &o, 1e-2f);
      if (!(norm > 0.0f) || !(norm < 1e6f)) failed("%s: gradient norm %g", name, (double)norm);
    }
    last = miras_model_loss(m, tokens, targets, BATCH, 20, 0);
    /* clipped gradients: Yaad's, with its steep sign function, are large and it learns slowly */
    if (!(last < (kind == MIRAS_YAAD ? 0.9f : 0.6f) * first))
      failed("%s: the loss goes from %g to %g", name, (double)first, (double)last);
    if (miras_model_steps(m) != 30) failed("%s: %d steps", name, (int)miras_model_steps(m));
    miras_model_close(m);
  }
  finish();
}

/* Three steps of AdamW against the textbook, in double; gradients add up and are cleared. */
static void test_adamw(void **state) {
  miras_model_desc d = describe(MIRAS_YAAD, 4);
  miras_model *m;
  miras_adamw_options o;
  double *w, *m1, *m2;
  size_t count = 0;
  int view_count = 0;
  const miras_view *views;
  (void)state;
  start();
  m = open_model(&d);
  assert_non_null(m);
  views = miras_model_views(m, &view_count);
  miras_model_params(m, &count);
  w = (double *)ref_zeros(count);
  m1 = (double *)ref_zeros(count);
  m2 = (double *)ref_zeros(count);
  memset(&o, 0, sizeof o);
  o.beta1 = 0.8f;
  o.decay = 0.1f;
  random_state = 12;
  for (int step = 1; step <= 3; step++) {
    const double rate = 1e-3 * step, b1 = (double)0.8f, b2 = 0.95, eps = 1e-8;
    double norm = 0.0, scale = 1.0;
    float is;
    const float *g = miras_model_grads(m);
    o.clip = step == 2 ? 0.0f : 0.25f;
    for (int twice = 0; twice < 2; twice++) { /* gradients of two batches add up */
      float *before = (float *)zeros(count, sizeof(float));
      memcpy(before, g, count * sizeof(float));
      if (twice == 0) draw_text(9);
      miras_model_loss(m, tokens, targets, BATCH, 9, 1);
      miras_model_backward(m);
      for (size_t i = 0; i < count; i++)
        if (twice && !(fabs((double)g[i] - 2.0 * (double)before[i]) <=
                       2e-6 * fabs((double)before[i]) + 1e-6)) {
          failed("gradients do not add up: %g after %g", (double)g[i], (double)before[i]);
          break;
        }
      free(before);
    }
    for (size_t i = 0; i < count; i++) {
      w[i] = (double)miras_model_params(m, NULL)[i];
      norm += (double)g[i] * (double)g[i];
    }
    norm = sqrt(norm);
    if (o.clip > 0.0f && norm > (double)o.clip) scale = (double)o.clip / norm;
    for (int v = 0; v < view_count; v++)
      for (size_t i = views[v].offset; i < views[v].offset + views[v].count; i++) {
        const double gi = (double)g[i] * scale;
        m1[i] = b1 * m1[i] + (1.0 - b1) * gi;
        m2[i] = b2 * m2[i] + (1.0 - b2) * gi * gi;
        if (views[v].decay) w[i] -= rate * (double)o.decay * w[i];
        w[i] -=
          rate * (m1[i] / (1.0 - pow(b1, step))) / (sqrt(m2[i] / (1.0 - pow(b2, step))) + eps);
      }
    is = miras_adamw(m, &o, (float)rate);
    if (!(fabs((double)is - norm) <= 1e-5 * norm)) failed("norm %g, not %g", (double)is, norm);
    for (int v = 0; v < view_count; v++)
      for (size_t i = views[v].offset; i < views[v].offset + views[v].count; i++) {
        /* a gradient near epsilon makes the quotient a matter of the last bits */
        if (fabs((double)g[i]) > 0.0) failed("the gradient is not cleared");
        if (!(fabs((double)miras_model_params(m, NULL)[i] - w[i]) <= 1e-6 + 1e-3 * rate)) {
          failed("step %d: %s[%zu] is %.9g, not %.9g", step, views[v].name, i - views[v].offset,
                 (double)miras_model_params(m, NULL)[i], w[i]);
          break;
        }
      }
  }
  free(w);
  free(m1);
  free(m2);
  miras_model_close(m);

  for (uint64_t step = 0; step < 120; step++) {
    const double peak = (double)2e-3f, low = (double)0.1f;
    const float rate = miras_cosine(step, 10, 100, 2e-3f, 0.1f);
    if (!(rate >= 0.0f) || !((double)rate <= peak * 1.000001)) failed("rate %g", (double)rate);
    if (step >= 10 && step <= 100) {
      const double x = (double)(step - 10) / 90.0;
      const double expected = peak * (low + (1.0 - low) * 0.5 * (1.0 + cos(3.14159265358979 * x)));
      if (!(fabs((double)rate - expected) <= 0.05 * peak))
        failed("rate at %d is %g, not %g", (int)step, (double)rate, expected);
    }
    if (step > 100 && !(fabs((double)rate - peak * low) <= 1e-8))
      failed("after the end: %g", (double)rate);
    if (step > 0 && step < 10 && !(rate > miras_cosine(step - 1, 10, 100, 2e-3f, 0.1f)))
      failed("no warm-up at %d", (int)step);
  }
  finish();
}

/* The first training loss of a new model with these parameters: the same masks every time. */
static float first_loss(const miras_model_desc *d, const float *params, float *grads) {
  miras_model *m = open_model(d);
  size_t count = 0;
  float loss;
  assert_non_null(m);
  miras_model_params(m, &count);
  memcpy(miras_model_params(m, NULL), params, count * sizeof(float));
  loss = miras_model_loss(m, tokens, targets, BATCH, 20, 1);
  if (grads != NULL) {
    miras_model_backward(m);
    memcpy(grads, miras_model_grads(m), count * sizeof(float));
  }
  miras_model_close(m);
  return loss;
}

/* Dropout is for training only, and its gradient is that of the masks in use: along it the
 * loss must change by its squared length. */
static void test_dropout(void **state) {
  miras_model_desc d = describe(MIRAS_GATED_DELTANET, 1);
  miras_model *plain, *m;
  float a, b, up, down, *params, *moved, *g;
  double square = 0.0, along, h;
  size_t count = 0;
  (void)state;
  start();
  plain = open_model(&d);
  d.dropout = 0.3f;
  m = open_model(&d);
  assert_non_null(plain);
  assert_non_null(m);
  disturb(plain, 7);
  disturb(m, 7);
  random_state = 14;
  draw_text(20);
  a = miras_model_loss(plain, tokens, targets, BATCH, 20, 1);
  b = miras_model_loss(m, tokens, targets, BATCH, 20, 0);
  if (memcmp(&a, &b, sizeof a) != 0) failed("dropout outside training");
  params = miras_model_params(m, &count);
  g = (float *)zeros(count, sizeof(float));
  moved = (float *)zeros(count, sizeof(float));
  b = first_loss(&d, params, g);
  if (!(fabsf(b) < 100.0f) || memcmp(&a, &b, sizeof a) == 0) failed("no dropout in training");
  for (size_t i = 0; i < count; i++) square += (double)g[i] * (double)g[i];
  h = 2e-3 / sqrt(square);
  for (size_t i = 0; i < count; i++) moved[i] = params[i] + (float)h * g[i];
  up = first_loss(&d, moved, NULL);
  for (size_t i = 0; i < count; i++) moved[i] = params[i] - (float)h * g[i];
  down = first_loss(&d, moved, NULL);
  along = ((double)up - (double)down) / (2.0 * h);
  if (!(fabs(along - square) <= 0.005 * square))
    failed("along the gradient %g, not %g", along, square);
  free(g);
  free(moved);
  miras_model_close(plain);
  miras_model_close(m);
  finish();
}

/* ---- wrong calls ---- */

static void test_refusals(void **state) {
  miras_model_desc d = describe(MIRAS_TITANS, 4);
  miras_model *m;
  miras_session *s;
  char why[200] = "";
  (void)state;
  start();
  d.vocab = 1;
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "vocab") == NULL)
    failed("vocab: %s", why);
  d = describe(MIRAS_TITANS, 4);
  d.memory.key_dim = 0;
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "key_dim") == NULL)
    failed("key_dim: %s", why);
  d = describe(MIRAS_TITANS, 4);
  d.dropout = 0.95f;
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "dropout") == NULL)
    failed("dropout: %s", why);
  d = describe(MIRAS_TITANS, 4);
  m = open_model(&d);
  assert_non_null(m);
  draw_text(8);
  if (miras_model_backward(m) != MIRAS_ERR_STATE) failed("backward before any loss");
  if (!isnan(miras_model_loss(m, tokens, targets, BATCH + 1, 8, 0))) failed("too many sequences");
  if (!isnan(miras_model_loss(m, tokens, targets, BATCH, CONTEXT + 1, 0))) failed("too long");
  tokens[3] = VOCAB;
  if (!isnan(miras_model_loss(m, tokens, targets, BATCH, 8, 0))) failed("a token out of range");
  tokens[3] = 0;
  targets[3] = -2;
  if (!isnan(miras_model_loss(m, tokens, targets, BATCH, 8, 0))) failed("a target out of range");
  s = miras_session_open(m, NULL);
  assert_non_null(s);
  assert_null(miras_session_step(s, -1));
  assert_null(miras_session_step(s, VOCAB));
  if (miras_session_position(s) != 0) failed("a refused token counts");
  miras_session_close(s);
  miras_model_close(m);
  d.batch = 0; /* inference only */
  m = open_model(&d);
  assert_non_null(m);
  assert_null(miras_model_grads(m));
  miras_model_close(m);
  miras_model_close(NULL);
  miras_session_close(NULL);
  finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_views),
    cmocka_unit_test(test_forward),
    cmocka_unit_test(test_gradient),
    cmocka_unit_test(test_session_bits),
    cmocka_unit_test(test_session_training),
    cmocka_unit_test(test_threads),
    cmocka_unit_test(test_neighbours),
    cmocka_unit_test(test_training),
    cmocka_unit_test(test_adamw),
    cmocka_unit_test(test_dropout),
    cmocka_unit_test(test_refusals),
  };
  printf("instruction set: %s\n", miras_isa());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
