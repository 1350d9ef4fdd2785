/* test_adapters.c: adapters beside matrices, and trainers that move some parameters alone, also
 * past matrices that are not float.
 *   cc -std=c99 -O2 tests/test_adapters.c -o test_adapters -lcmocka -lm -lpthread */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "check.h"

#define MIRAS_PTHREADS
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"

enum { VOCAB = 33, WIDTH = 32, BATCH = 2, LENGTH = 80, RANK = 3 };
/* Under sanitizers a model has one of the forms of weights, which take turns. */
enum { SHORT = MIRAS_WEIGHTS_COUNT - MIRAS_WEIGHTS_BF16, LEAN = MIRAS_TEST_SHARE > 8 };

static int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
static int errors;

static void failed(const char *name, const char *what, double x, double y) {
  errors++;
  printf("  %s: %s: %.9g and %.9g\n", name, what, x, y);
}

static void finish(void) {
  const int n = errors;
  errors = 0;
  assert_int_equal(n, 0);
}

static uint32_t random_state = 1;
static float draw(void) {
  random_state = random_state * 1664525u + 1013904223u;
  return (float)(random_state >> 8) / 8388608.0f - 1;
}

static void draw_text(void) {
  for (int i = 0; i < BATCH * LENGTH; i++) {
    tokens[i] = (int32_t)((draw() + 1) * 0.4999f * VOCAB);
    targets[i] = i % 7 ? (int32_t)((draw() + 1) * 0.4999f * VOCAB) : -1;
  }
}

static const miras_preset presets[] = {
  MIRAS_PRESET_GATED_DELTANET, MIRAS_PRESET_RWKV7, MIRAS_PRESET_TITANS_MAC, MIRAS_PRESET_MAMBA2,
  MIRAS_PRESET_QWEN3_5, MIRAS_PRESET_MAMBA, MIRAS_PRESET_TITANS_MAG};
enum { PRESETS = sizeof presets / sizeof *presets };

static miras_model_desc describe_deep(miras_preset preset, miras_weights weights, int rank,
                                      int layers) {
  miras_model_desc d;
  assert_int_equal(miras_model_preset(&d, preset, layers), MIRAS_OK);
  d.vocab = VOCAB, d.width = WIDTH, d.heads = 2;
  if (preset == MIRAS_PRESET_MAMBA) d.layer[0].mixer.gate_rank = 4, d.layer[0].memory.key_dim = 8;
  if (preset == MIRAS_PRESET_TITANS_MAC) d.layer[0].attention.window = 16;
  d.weights = weights;
  d.adapter.rank = rank;
  d.adapter.scale = rank ? 2.5f * (float)rank : 0;
  return d;
}
static miras_model_desc describe(miras_preset preset, miras_weights weights, int rank) {
  return describe_deep(preset, weights, rank, preset == MIRAS_PRESET_QWEN3_5 ? 4 : 2);
}

static miras_model *open_model(const miras_model_desc *d) {
  char why[256];
  miras_model *m = miras_model_open(d, NULL, why, sizeof why);
  if (!m) print_error("%s\n", why);
  assert_non_null(m);
  return m;
}

static miras_trainer *open_trainer(miras_model *m, const char *only, const miras_parallel *on) {
  char why[256];
  miras_trainer_desc d;
  miras_trainer *t;
  memset(&d, 0, sizeof d);
  d.batch = BATCH, d.context = LENGTH, d.only = only, d.parallel = on;
  t = miras_trainer_open(m, &d, NULL, why, sizeof why);
  if (!t) print_error("%s\n", why);
  assert_non_null(t);
  return t;
}

static float backward_of(miras_trainer *t) {
  const float loss = loss_of(t, tokens, targets, BATCH, LENGTH, 1);
  assert_int_equal(miras_trainer_backward(t, NULL), MIRAS_OK);
  return loss;
}

static int ends(const char *name, const char *end) {
  const size_t n = strlen(name), k = strlen(end);
  return n >= k && !strcmp(name + n - k, end);
}

/* A view's numbers, or those to be. */
static float *numbers_of(const miras_model *m, const miras_view *v) {
  const size_t rows = v->rank > 1 ? (size_t)v->shape[0] : 1;
  float *x = (float *)malloc(v->count * sizeof *x);
  assert_non_null(x);
  assert_int_equal(miras_model_view_read(m, v, 0, rows, 0, v->count / rows, x), MIRAS_OK);
  return x;
}
static void set_numbers(miras_model *m, const miras_view *v, const float *x) {
  const size_t rows = v->rank > 1 ? (size_t)v->shape[0] : 1;
  assert_int_equal(miras_model_view_write(m, v, 0, rows, 0, v->count / rows, x), MIRAS_OK);
}

/* Matrices of a model that is not float begin as those of one that is; B of adapters as draws. */
static void draw_model(miras_model *m) {
  miras_model_desc d = *miras_model_desc_of(m);
  miras_model *from;
  int count;
  const miras_view *v = miras_model_views(m, &count);
  d.weights = MIRAS_WEIGHTS_FLOAT;
  from = open_model(&d);
  random_state = 5;
  for (int i = 0; i < count; i++) {
    float *x = numbers_of(from, miras_model_view(from, v[i].name));
    if (ends(v[i].name, ".adapter_b"))
      for (size_t j = 0; j < v[i].count; j++) x[j] = 0.1f * draw();
    set_numbers(m, &v[i], x);
    free(x);
  }
  miras_close(from);
}

/* The parameters of one model that another has too. */
static void copy_model(miras_model *to, const miras_model *from) {
  int count;
  const miras_view *v = miras_model_views(to, &count);
  for (int i = 0; i < count; i++) {
    const miras_view *theirs = miras_model_view(from, v[i].name);
    float *x = theirs ? numbers_of(from, theirs) : NULL;
    if (x) set_numbers(to, &v[i], x);
    free(x);
  }
}

static double distance(const float *x, const float *y, size_t n) {
  double off = 0, all = 1e-30;
  for (size_t i = 0; i < n; i++) {
    const double d = (double)x[i] - (double)y[i];
    off += d * d, all += (double)y[i] * (double)y[i];
  }
  return sqrt(off / all);
}

/* With W' = W + s A B and its gradient G: dA = s G B', dB = s A' G, and what is no matrix has that
 * of the merged model. Answers are the merged model's too. */
static void adapters_are_part_of_matrices(void **state) {
  (void)state;
  for (int p = 0; p < PRESETS; p++) {
    const char *name = miras_preset_name(presets[p]);
    miras_model_desc d = describe(presets[p], MIRAS_WEIGHTS_FLOAT, RANK), plain;
    miras_model *m = open_model(&d), *whole;
    miras_trainer *t, *u;
    int count, seen = 0;
    const miras_view *v = miras_model_views(m, &count);
    float loss, *answers[2];
    draw_model(m), draw_text();
    plain = d, memset(&plain.adapter, 0, sizeof plain.adapter);
    whole = open_model(&plain);
    t = open_trainer(m, NULL, NULL);
    loss = backward_of(t);
    for (int i = 0; i < 2; i++) {
      miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
      answers[i] = (float *)malloc(VOCAB * sizeof(float));
      assert_true(s && answers[i]);
      memcpy(answers[i], miras_session_feed(s, tokens, NULL, LENGTH), VOCAB * sizeof(float));
      miras_close(s);
      if (i) break;
      copy_model(whole, m);
      /* A and B go to waste with the merge */
      for (int j = 0; j < count; j++)
        if (ends(v[j].name, ".adapter_b")) seen++;
      {
        float **kept = (float **)calloc((size_t)(unsigned)count, sizeof *kept);
        assert_non_null(kept);
        for (int j = 0; j < count; j++) kept[j] = numbers_of(m, &v[j]);
        assert_int_equal(miras_model_merge(m), MIRAS_OK);
        copy_model(whole, m);
        u = open_trainer(whole, NULL, NULL);
        {
          const float other = backward_of(u);
          if (fabs((double)(loss - other)) > 2e-5)
            failed(name, "losses", (double)loss, (double)other);
        }
        for (int j = 0; j < count; j++) {
          const float *g = miras_trainer_grad(t, &v[j]);
          char of[64] = "";
          const char *at = strstr(v[j].name, ".adapter_");
          const miras_view *w;
          const float *G;
          float *want;
          size_t rows, cols;
          memcpy(of, v[j].name, at ? (size_t)(at - v[j].name) : strlen(v[j].name));
          w = miras_model_view(whole, of);
          assert_true(g && w);
          G = miras_trainer_grad(u, w);
          if (!at) {
            if (distance(g, G, w->count) > 1e-3) failed(name, of, distance(g, G, w->count), 0);
            continue;
          }
          rows = (size_t)w->shape[0], cols = (size_t)w->shape[1];
          want = (float *)malloc(v[j].count * sizeof *want);
          assert_non_null(want);
          if (ends(v[j].name, "_a")) {
            for (size_t r = 0; r < rows; r++)
              for (size_t k = 0; k < RANK; k++) {
                double sum = 0;
                for (size_t c = 0; c < cols; c++)
                  sum += (double)G[r * cols + c] * (double)kept[j + 1][k * cols + c];
                want[r * RANK + k] = (float)(2.5 * sum);
              }
          } else {
            for (size_t k = 0; k < RANK; k++)
              for (size_t c = 0; c < cols; c++) {
                double sum = 0;
                for (size_t r = 0; r < rows; r++)
                  sum += (double)G[r * cols + c] * (double)kept[j - 1][r * RANK + k];
                want[k * cols + c] = (float)(2.5 * sum);
              }
          }
          if (distance(g, want, v[j].count) > 1e-3)
            failed(name, v[j].name, distance(g, want, v[j].count), 0);
          free(want);
        }
        miras_close(u);
        for (int j = 0; j < count; j++) free(kept[j]);
        free(kept);
      }
    }
    if (seen < 4) failed(name, "adapters", seen, 4);
    if (distance(answers[0], answers[1], VOCAB) > 1e-4)
      failed(name, "answers", distance(answers[0], answers[1], VOCAB), 0);
    free(answers[0]), free(answers[1]);
    miras_close(t), miras_close(m), miras_close(whole);
  }
  finish();
}

/* Matrices are rounded again by a merge: answers are as far off as rounding takes them. */
static void merge_changes_little(const char *name, miras_model *m, int form) {
  static const double most[] = {1e-4, 0.05, 0.01, 0.1, 1, 1};
  float answers[2][VOCAB];
  for (int i = 0; i < 2; i++) {
    miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
    assert_non_null(s);
    memcpy(answers[i], miras_session_feed(s, tokens, NULL, 40), sizeof answers[i]);
    miras_close(s);
    if (!i) assert_int_equal(miras_model_merge(m), MIRAS_OK);
  }
  if (!(distance(answers[1], answers[0], VOCAB) < most[form]))
    failed(name, "merged", distance(answers[1], answers[0], VOCAB), form);
}

/* Past matrices of any form gradients are those past floats of the same numbers; the matrices stay
 * as they are. */
static void short_matrices_train_what_is_float(void **state) {
  (void)state;
  for (int p = 0; p < PRESETS; p++)
    for (int form = MIRAS_WEIGHTS_BF16 + (LEAN ? p % SHORT : 0); form < MIRAS_WEIGHTS_COUNT;
         form += LEAN ? SHORT : 1) {
      const char *name = miras_preset_name(presets[p]);
      const miras_model_desc d = describe(presets[p], (miras_weights)form, RANK);
      const miras_model_desc e = describe(presets[p], MIRAS_WEIGHTS_FLOAT, RANK);
      miras_model *m = open_model(&d), *wide = open_model(&e);
      miras_trainer *t, *u;
      miras_trainer_desc of;
      int count;
      const miras_view *v = miras_model_views(m, &count);
      float loss, other;
      draw_model(m), draw_text();
      copy_model(wide, m);
      t = open_trainer(m, NULL, NULL), u = open_trainer(wide, NULL, NULL);
      memset(&of, 0, sizeof of);
      of.context = LENGTH, of.only = "*.weight";
      assert_int_equal(miras_trainer_size(m, &of, NULL, 0), 0);
      for (int step = 0; step < 2; step++) {
        loss = backward_of(t), other = backward_of(u);
        if (fabs((double)(loss - other)) > 1e-5) failed(name, "loss", (double)loss, (double)other);
        for (int i = 0; i < count; i++) {
          const float *g = miras_trainer_grad(t, &v[i]);
          const float *h = miras_trainer_grad(u, miras_model_view(wide, v[i].name));
          if ((g == NULL) != v[i].weight_decay)
            failed(name, v[i].name, g != NULL, v[i].weight_decay);
          if (g && distance(g, h, v[i].count) > 2e-4)
            failed(name, v[i].name, distance(g, h, v[i].count), form);
        }
        assert_int_equal(miras_trainer_step(t, NULL, 0, NULL), MIRAS_OK);
        assert_int_equal(miras_trainer_step(u, NULL, 0, NULL), MIRAS_OK);
      }
      miras_close(u);
      u = open_trainer(m, "*.init,*.adapter_b", NULL);
      for (int step = 0; step < 3; step++) {
        other = backward_of(u);
        assert_int_equal(miras_trainer_step(u, NULL, 1e-2f, NULL), MIRAS_OK);
      }
      if (!(other < loss)) failed(name, "training gains", (double)loss, (double)other);
      for (int i = 0; i < count; i++) {
        const miras_view *w = miras_model_view(wide, v[i].name);
        float *x = numbers_of(m, &v[i]), *y = numbers_of(wide, w);
        const int moves = ends(v[i].name, ".init") || ends(v[i].name, ".adapter_b");
        if ((memcmp(x, y, v[i].count * sizeof *x) == 0) == moves) failed(name, v[i].name, moves, 0);
        free(x), free(y);
      }
      merge_changes_little(name, m, form);
      miras_close(t), miras_close(u), miras_close(m), miras_close(wide);
    }
  finish();
}

/* What a trainer that moves less moves has the bits of one that leaves the rest alone, clipped too,
 * and on several threads; the trainer takes less room. */
static void some_move_as_before(void **state) {
  static const char only[] = "*.adapter_a,*.adapter_b,*memory.init,norm.gain,*.k.weight";
  const miras_parallel *pool = miras_pool_open(3, NULL, NULL, 0);
  const miras_adamw_options o = MIRAS_ADAMW(0.1f, 0.05f);
  (void)state;
  assert_non_null(pool);
  for (int p = 0; p < 3; p++) {
    const char *name = miras_preset_name(presets[p]);
    miras_model_desc d = describe(presets[p], MIRAS_WEIGHTS_FLOAT, RANK);
    miras_model *m[3];
    miras_trainer *t[3];
    miras_trainer_desc sizes;
    size_t floats, chosen = 0, size[2];
    int count;
    const miras_view *v;
    d.dropout = 0.1f, d.adapter.dropout = 0.2f;
    draw_text();
    for (int i = 0; i < 3; i++) m[i] = open_model(&d), draw_model(m[i]);
    t[0] = open_trainer(m[0], NULL, NULL);
    t[1] = open_trainer(m[1], only, NULL);
    t[2] = open_trainer(m[2], only, pool);
    assert_string_equal(miras_trainer_desc_of(t[1])->only, only);
    assert_true(miras_trainer_desc_of(t[1])->only != only);
    chosen = miras_model_train_only(m[0], only);
    assert_true(chosen > 0);
    for (int step = 0; step < 4; step++)
      for (int i = 0; i < 3; i++) {
        backward_of(t[i]);
        assert_int_equal(miras_trainer_step(t[i], &o, 1e-2f, NULL), MIRAS_OK);
      }
    (void)miras_model_params(m[0], &floats);
    for (int i = 1; i < 3; i++)
      if (memcmp(miras_model_params(m[0], NULL), miras_model_params(m[i], NULL),
                 floats * sizeof(float)))
        failed(name, "bits", i, 0);
    v = miras_model_views(m[0], &count);
    for (int i = 0; i < count; i++)
      if ((miras_trainer_grad(t[1], &miras_model_views(m[1], NULL)[i]) == NULL) !=
          v[i].frozen)
        failed(name, v[i].name, v[i].frozen, 0);
    memset(&sizes, 0, sizeof sizes);
    sizes.batch = BATCH, sizes.context = LENGTH;
    for (int i = 0; i < 2; i++) {
      sizes.only = i ? only : NULL;
      size[i] = miras_trainer_size(m[1], &sizes, NULL, 0);
    }
    if (size[1] + 12 * (floats - chosen) > size[0] + 65536)
      failed(name, "sizes", (double)size[0], (double)size[1]);
    for (int i = 0; i < 3; i++) miras_close(t[i]), miras_close(m[i]);
  }
  miras_pool_close(pool);
  finish();
}

/* The loss of fresh masks, which are the same each time. */
static double fresh_loss(miras_model *m) {
  miras_trainer *t = open_trainer(m, "*.adapter_*", NULL);
  const double loss = (double)loss_of(t, tokens, targets, BATCH, LENGTH, 1);
  miras_close(t);
  return loss;
}

/* Gradients through masks, along a direction. */
static void masks_are_those_of_the_loss(void **state) {
  (void)state;
  for (int p = 0; p < 4; p++) {
    const char *name = miras_preset_name(presets[p]);
    miras_model_desc d = describe(presets[p], MIRAS_WEIGHTS_FLOAT, RANK);
    miras_model *m;
    miras_trainer *t;
    double slope = 0, step = 2e-3, loss[3];
    int count;
    const miras_view *v;
    d.adapter.dropout = 0.6f;
    if (p & 1) d.dropout = 0.2f;
    m = open_model(&d);
    draw_model(m), draw_text();
    t = open_trainer(m, "*.adapter_*", NULL);
    backward_of(t);
    v = miras_model_views(m, &count);
    for (int i = 0; i < 3; i++) {
      random_state = 77;
      for (int j = 0; j < count; j++) {
        float *w = miras_model_params(m, NULL) + v[j].offset;
        const float *g = miras_trainer_grad(t, &v[j]);
        for (size_t k = 0; g && k < v[j].count; k++) {
          const float u = draw();
          if (!i) slope += (double)u * (double)g[k];
          w[k] += u * (float)(i == 1 ? 2 * step : -step);
        }
      }
      loss[i] = fresh_loss(m);   /* one step back, one on, one back again */
    }
    if (fabs((loss[1] - loss[0]) / (2 * step) - slope) > 2e-2 * fabs(slope) + 2e-3)
      failed(name, "slope", (loss[1] - loss[0]) / (2 * step), slope);
    if (fabs(loss[2] - (double)loss_of(t, tokens, targets, BATCH, LENGTH, 0)) < 1e-4)
      failed(name, "masks do nothing", loss[2], 0);
    miras_close(t), miras_close(m);
  }
  finish();
}

/* Models with adapters, trainers of some parameters, and adapters that a file without gets. */
static void files_keep_them(void **state) {
  static const char only[] = "*.adapter_*";
  const char *folder = getenv("TMPDIR");
  char path[256], why[256];
  miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, MIRAS_WEIGHTS_FLOAT, RANK), given;
  miras_model *m = open_model(&d), *other;
  miras_trainer *t, *u;
  unsigned char *bytes = (unsigned char *)malloc(1 << 22);
  size_t size, floats;
  int count;
  const miras_view *v;
  (void)state;
  snprintf(path, sizeof path, "%.200s/adapters.miras", folder ? folder : "/tmp");
  assert_non_null(bytes);
  draw_model(m), draw_text();
  assert_int_equal(miras_save(m, path), MIRAS_OK);
  other = miras_model_open_file(path, NULL, NULL, NULL, why, sizeof why);
  if (!other) print_error("%s\n", why);
  assert_non_null(other);
  assert_int_equal(miras_model_desc_of(other)->adapter.rank, RANK);
  (void)miras_model_params(m, &floats);
  assert_memory_equal(miras_model_params(m, NULL), miras_model_params(other, NULL),
                      floats * sizeof(float));
  t = open_trainer(m, only, NULL), u = open_trainer(other, only, NULL);
  for (int i = 0; i < 2; i++) {
    backward_of(t);
    assert_int_equal(miras_trainer_step(t, NULL, 1e-2f, NULL), MIRAS_OK);
  }
  size = miras_save_to(t, bytes, 1 << 22);
  assert_true(size > 0 && size < 1 << 22);
  assert_int_equal(miras_load_from(u, bytes, size, why, sizeof why), MIRAS_OK);
  for (int i = 0; i < 2; i++) {
    miras_trainer *both[2];
    both[0] = t, both[1] = u;
    for (int j = 0; j < 2; j++) {
      backward_of(both[j]);
      assert_int_equal(miras_trainer_step(both[j], NULL, 1e-2f, NULL), MIRAS_OK);
    }
  }
  assert_memory_equal(miras_model_params(m, NULL), miras_model_params(other, NULL),
                      floats * sizeof(float));
  assert_int_equal(miras_load_from(m, bytes, size, why, sizeof why), MIRAS_OK);
  miras_close(u);
  u = open_trainer(other, NULL, NULL);
  assert_int_equal(miras_load_from(u, bytes, size, why, sizeof why), MIRAS_ERR_MISMATCH);
  miras_close(u);
  u = open_trainer(other, "*.adapter_a", NULL);
  assert_int_equal(miras_load_from(u, bytes, size, why, sizeof why), MIRAS_ERR_MISMATCH);
  assert_int_equal(miras_save(t, path), MIRAS_OK);
  miras_close(u), miras_close(t), miras_close(other);
  other = miras_model_open_file(path, NULL, NULL, NULL, why, sizeof why);
  assert_non_null(other);
  miras_close(other);
  /* a file without them */
  given = d;
  memset(&d.adapter, 0, sizeof d.adapter);
  miras_close(m);
  m = open_model(&d);
  assert_int_equal(miras_save(m, path), MIRAS_OK);
  strcpy(given.adapters, "*.q.weight,*.mlp.*");
  other = miras_model_open_file(path, &given, NULL, NULL, why, sizeof why);
  if (!other) print_error("%s\n", why);
  assert_non_null(other);
  v = miras_model_views(other, &count);
  assert_true(miras_model_view(other, "blocks.1.q.weight.adapter_a") != NULL);
  assert_true(miras_model_view(other, "blocks.1.k.weight.adapter_a") == NULL);
  for (int i = 0; i < count; i++) {
    const miras_view *w = miras_model_view(m, v[i].name);
    float *x = numbers_of(other, &v[i]), *y = w ? numbers_of(m, w) : NULL;
    double sum = 0;
    for (size_t j = 0; j < v[i].count; j++) sum += fabs((double)x[j]);
    if (y) assert_memory_equal(x, y, v[i].count * sizeof *x);
    else if ((sum > 0) != ends(v[i].name, "_a")) failed(v[i].name, "sum", sum, 0);
    free(x), free(y);
  }
  miras_close(m), miras_close(other);
  remove(path), free(bytes);
  finish();
}

/* The file of a trainer: what it moves, moments, running texts. */
static unsigned char *file_of(const miras_trainer *t, size_t *bytes) {
  unsigned char *file;
  *bytes = miras_save_to(t, NULL, 0);
  file = (unsigned char *)malloc(*bytes);
  assert_non_null(file);
  assert_int_equal(miras_save_to(t, file, *bytes), *bytes);
  return file;
}

/* Layers that are computed again on the way back change no bit: of dropout, of adapters over any
 * matrices, of texts that are carried on, on several threads; less room is asked for. */
static void computed_again_is_as_kept(void **state) {
  enum { T = 64, WAYS = 3 };
  const miras_parallel *pool = miras_pool_open(3, NULL, NULL, 0);
  const miras_adamw_options o = MIRAS_ADAMW(0.1f, 0.05f);
  (void)state;
  assert_non_null(pool);
  for (int p = 0; p < 2 * PRESETS; p += LEAN && p % 2 == 0 ? 3 : 1) {
    const miras_preset preset = presets[p / 2];
    const char *name = miras_preset_name(preset);
    const miras_weights form = p % 2 ? MIRAS_WEIGHTS_Q8 : MIRAS_WEIGHTS_FLOAT;
    miras_model_desc d =
      describe_deep(preset, form, RANK, preset == MIRAS_PRESET_QWEN3_5 ? 8 : 4);
    miras_model *m[WAYS];
    miras_trainer *t[WAYS];
    size_t size[WAYS], bytes[WAYS];
    d.dropout = 0.1f, d.adapter.dropout = 0.2f;
    draw_text();
    for (int i = 0; i < WAYS; i++) {
      miras_trainer_desc room;
      char why[256] = "";
      m[i] = open_model(&d), draw_model(m[i]);
      d.layers = miras_model_desc_of(m[i])->layers;
      memset(&room, 0, sizeof room);
      room.batch = BATCH, room.context = T, room.carried = 3;
      room.recompute = i == 0 ? 0 : i == 1 ? d.layers : d.layers - 1;
      room.parallel = i == 1 ? pool : NULL;
      size[i] = miras_trainer_size(m[i], &room, why, sizeof why);
      t[i] = miras_trainer_open(m[i], &room, NULL, why, sizeof why);
      if (!t[i]) print_error("%s: %s\n", name, why);
      assert_non_null(t[i]);
      room.parallel = NULL;                        /* workers have rooms of their own             */
      size[i] = miras_trainer_size(m[i], &room, why, sizeof why);
      room.recompute = d.layers + 1;
      assert_int_equal(miras_trainer_size(m[i], &room, why, sizeof why), 0);
      assert_true(strstr(why, "recompute") != NULL);
    }
    if (!(size[1] < size[2] && size[2] < size[0]))
      failed(name, "less room", (double)size[1], (double)size[0]);
    for (int step = 0; step < 4; step++) {
      const int32_t rows[BATCH] = {step == 2 ? 2 : 0, step == 1 ? -1 : 1};
      const unsigned char anew[BATCH] = {0, step == 3};
      float loss[WAYS], *g[WAYS];
      unsigned char *file[WAYS];
      int count;
      const miras_view *v = miras_model_views(m[0], &count);
      for (int i = 0; i < WAYS; i++) {
        loss[i] = step == 2 ? loss_of(t[i], tokens, targets, BATCH, T - 7, 1)
                            : loss_carried(t[i], tokens, targets, BATCH, T, rows, anew);
        assert_int_equal(miras_trainer_backward(t[i], NULL), MIRAS_OK);
      }
      for (int i = 1; i < WAYS; i++) {
        if (memcmp(&loss[0], &loss[i], sizeof loss[0])) failed(name, "loss", i, step);
        for (int k = 0; k < count; k++) {
          for (int j = 0; j < WAYS; j++)
            g[j] = miras_trainer_grad(t[j], &miras_model_views(m[j], NULL)[k]);
          if ((g[0] == NULL) != (g[i] == NULL) ||
              (g[0] && memcmp(g[0], g[i], v[k].count * sizeof *g[0])))
            failed(name, v[k].name, i, step);
        }
      }
      for (int i = 0; i < WAYS; i++) {
        assert_int_equal(miras_trainer_step(t[i], &o, 1e-2f, NULL), MIRAS_OK);
        file[i] = file_of(t[i], &bytes[i]);
        if (bytes[i] != bytes[0] || memcmp(file[i], file[0], bytes[0]))
          failed(name, "running texts, or moments", i, step);
      }
      for (int i = 0; i < WAYS; i++) free(file[i]);
    }
    for (int i = 0; i < WAYS; i++) miras_close(t[i]), miras_close(m[i]);
  }
  miras_pool_close(pool);
  finish();
}

static void refused(const miras_model_desc *d, const char *says) {
  char why[256];
  assert_int_equal(miras_model_size(d, why, sizeof why), 0);
  if (!strstr(why, says)) failed(says, why, 0, 0);
}

static void what_is_wrong_is_refused(void **state) {
  miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, MIRAS_WEIGHTS_Q8, 0);
  miras_trainer_desc t;
  miras_model *m;
  char why[256];
  (void)state;
  memset(&t, 0, sizeof t);
  t.context = 8;
  m = open_model(&d);
  t.only = "*.adapter_a";
  assert_int_equal(miras_trainer_size(m, &t, why, sizeof why), 0);
  assert_true(strstr(why, "matches no parameter") != NULL);
  t.only = "norm.gain,*.q.weight";
  assert_int_equal(miras_trainer_size(m, &t, why, sizeof why), 0);
  assert_true(strstr(why, "must be float") != NULL);
  t.only = NULL;
  assert_true(miras_trainer_size(m, &t, why, sizeof why) > 0);
  assert_int_equal(miras_model_merge(m), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_merge(NULL), MIRAS_ERR_ARGUMENT);
  assert_null(miras_trainer_grad(NULL, NULL));
  miras_close(m);
  strcpy(d.adapters, "*.q.weight");
  refused(&d, "adapter.rank 0");
  d.adapter.rank = 4;
  strcpy(d.adapters, "*.q.weight,*.no");
  refused(&d, "pattern 2");
  memset(d.adapters, 'a', sizeof d.adapters);
  refused(&d, "no end");
  memset(d.adapters, 0, sizeof d.adapters);
  d.adapter.rank = 1025;
  refused(&d, "adapter.rank");
  d.adapter.rank = 0, d.adapter.scale = 1;
  refused(&d, "adapter.scale");
  d.adapter.scale = 0, d.adapter.rank = 1, d.adapter.dropout = 1;
  refused(&d, "adapter.dropout");
  d.adapter.dropout = 0;
  d.layer[0].mlp.experts = 2;
  strcpy(d.adapters, "*.mlp.up");
  refused(&d, "of experts");
  finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(adapters_are_part_of_matrices),
    cmocka_unit_test(short_matrices_train_what_is_float), cmocka_unit_test(some_move_as_before),
    cmocka_unit_test(masks_are_those_of_the_loss), cmocka_unit_test(files_keep_them),
    cmocka_unit_test(computed_again_is_as_kept),
    cmocka_unit_test(what_is_wrong_is_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
