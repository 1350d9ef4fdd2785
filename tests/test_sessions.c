/* Many texts in one call: whatever the call, every text has the bits of a session that it has to
 * itself, for every row of the table and type of layer; forks, rollbacks, sizes, refusals.
 *
 *   cc -O2 tests/test_sessions.c -o test_sessions -lcmocka -lm && ./test_sessions
 *
 * Sessions themselves are held against training by test_model.c, threads are in test_threads.c. */
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "inside.h"

enum { VOCAB = 29, TEXTS = 6, LONGEST = 96 };
enum { EVERY = MIRAS_TEST_SHARE > 8 ? 3 : 1 };   /* of models, under sanitizers  */

static uint64_t random_state = 1;

static size_t below(size_t n) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (size_t)(random_state >> 33) % n;
}

/* ---- a job system without threads: last tasks first, workers in turn ---- */

static void backwards(void *user, int count, void (*task)(void *argument, int index, int worker),
                      void *argument) {
  const int workers = *(const int *)user;
  int i;
  for (i = count - 1; i >= 0; i--) task(argument, i, i % workers);
}

static int three = 3, thirty = 30;
static const miras_parallel by_three = {backwards, &three, 3};
static const miras_parallel by_thirty = {backwards, &thirty, 30};

/* ---- models ---- */

static void shrink(miras_model_desc *d) {
  int i;
  d->vocab = VOCAB;
  d->width = 24;
  d->heads = 2;
  d->seed = 5;
  for (i = 0; i < MIRAS_MAX_LAYER_KINDS; i++) {
    miras_layer_desc *layer = &d->layer[i];
    if (layer->attention.window)
      layer->attention.window = layer->type == MIRAS_LAYER_MAC ? 16 : 20 - 7 * i;
    if (layer->memory.window) layer->memory.window = 11;
    if (layer->memory.chunk > 8) layer->memory.chunk = 8;
    if (layer->mlp.hidden) layer->mlp.hidden = 16;
  }
}

/* Row `kind` of the table, then layers of other types and all whole models by name. */
static const char *const patterns[] = {"cmwga", "ag", "m(wm)*2"};

/* NULL behind the last case. */
static miras_model *open_case(int i, const char **name) {
  miras_model_desc d;
  miras_model *m;
  char why[256];
  const int other = i - MIRAS_PRESET_ROWS;
  if (other < 3) {
    miras_model_preset(&d,
                       other < 0 ? (miras_preset)i
                       : other   ? MIRAS_PRESET_KDA_MEMORY
                                 : MIRAS_PRESET_TITANS,
                       0);
    d.layers = other < 0 ? 2 : 0;
    if (other >= 0) strcpy(d.pattern, patterns[other]);
    *name = other < 0 ? miras_preset_name((miras_preset)i) : patterns[other];
  } else {
    int layers = 0;
    *name = inside_whole(other - 3, &layers);
    if (!*name) return NULL;
    assert_int_equal(miras_model_preset(&d, miras_preset_find(*name), layers), MIRAS_OK);
  }
  shrink(&d);
  if (other == 1) d.layer[2].attention.kv_heads = 1, d.layer[2].attention.qk_norm = 1, d.untied = 1;
  m = miras_model_open(&d, NULL, NULL, 0);
  if (!m) {
    miras_model_size(&d, why, sizeof why);
    print_error("%s: %s\n", *name, why);
  }
  assert_non_null(m);
  return m;
}

/* A model as it might be when trained: initial memories and gates that differ. */
static void stir(miras_model *m) {
  int count, i;
  size_t n, k;
  float *p = miras_model_params(m, &n);
  const miras_view *v = miras_model_views(m, &count);
  for (i = 0; i < count; i++)
    for (k = 0; k < v[i].count; k++)
      p[v[i].offset + k] += 0.05f * ((float)below(2001) / 1000.0f - 1.0f);
}

/* ---- texts, and what sessions make of them ---- */

typedef struct expected {
  int32_t token[TEXTS][LONGEST];
  size_t length[TEXTS];
  float *logits[TEXTS];            /* behind every token */
  unsigned char *state[TEXTS];     /* behind the last */
  size_t bytes;
} expected;

static void expect(const miras_model *m, expected *e) {
  size_t b, t;
  e->bytes = miras_model_state_size(m);
  for (b = 0; b < TEXTS; b++) {
    miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
    size_t bytes;
    void *state = miras_session_state(s, &bytes);
    assert_int_equal(bytes, e->bytes);
    e->length[b] = b ? 20 + below(LONGEST - 20) : LONGEST;
    e->logits[b] = (float *)malloc(e->length[b] * VOCAB * sizeof(float));
    e->state[b] = (unsigned char *)malloc(bytes);
    for (t = 0; t < e->length[b]; t++) {
      e->token[b][t] = (int32_t)below(VOCAB);
      memcpy(e->logits[b] + t * VOCAB, miras_session_step(s, e->token[b][t]),
             VOCAB * sizeof(float));
    }
    memcpy(e->state[b], state, bytes);
    miras_close(s);
  }
}

static void expect_free(expected *e) {
  size_t b;
  for (b = 0; b < TEXTS; b++) free(e->logits[b]), free(e->state[b]);
}

/* Random calls until every text has ended: some texts, in any order, any number of tokens of each,
 * logits of any number of them. */
static void check_calls(const char *name, miras_server *server, const expected *e) {
  unsigned char *state[TEXTS];
  size_t done[TEXTS] = {0}, which[TEXTS], left = TEXTS, b, i, r, count;
  miras_sequence text[TEXTS] = {{0}};
  for (b = 0; b < TEXTS; b++) state[b] = (unsigned char *)calloc(1, e->bytes);
  while (left) {
    const size_t most = below(3) ? 1 + below(3) : LONGEST;
    float *logits, *at;
    size_t rows = 0;
    for (b = count = 0; b < TEXTS; b++)
      if (done[b] < e->length[b] && below(4)) which[count++] = b;
    for (i = count; i > 1; i--) {
      const size_t k = below(i), w = which[k];
      which[k] = which[i - 1], which[i - 1] = w;
    }
    for (i = 0; i < count; i++) {
      size_t n = below(most + 1);
      b = which[i];
      if (n > e->length[b] - done[b]) n = e->length[b] - done[b];
      text[i].state = state[b];
      text[i].tokens = n ? e->token[b] + done[b] : NULL;
      text[i].count = n;
      text[i].logit_rows = below(2) ? below(n + 1) : n > 0;
      rows += text[i].logit_rows;
    }
    logits = at = (float *)calloc(rows * VOCAB + 1, sizeof(float));
    logits[rows * VOCAB] = 7.0f;
    assert_int_equal(miras_server_feed(server, text, count, rows ? logits : NULL), MIRAS_OK);
    for (i = 0; i < count; i++) {
      b = which[i];
      done[b] += text[i].count;
      for (r = done[b] - text[i].logit_rows; r < done[b]; r++, at += VOCAB)
        if (memcmp(at, e->logits[b] + r * VOCAB, VOCAB * sizeof *at))
          fail_msg("%s: text %d has other bits behind token %d", name, (int)b, (int)r);
      if (text[i].count && done[b] == e->length[b]) left--;
    }
    assert_true(logits[rows * VOCAB] == 7.0f);
    free(logits);
  }
  for (b = 0; b < TEXTS; b++) {
    if (memcmp(state[b], e->state[b], e->bytes)) fail_msg("%s: text %d, state", name, (int)b);
    free(state[b]);
  }
}

static void check_model(const char *name, miras_model *m) {
  static const struct { int rows; const miras_parallel *parallel; } how[] = {
    {0, NULL}, {5, &by_three}, {200, NULL}, {77, &by_thirty}, {1, NULL}
  };
  expected e;
  size_t i;
  expect(m, &e);
  for (i = 0; i < sizeof how / sizeof how[0]; i++) {
    miras_server_desc d = {0};
    miras_server *s;
    d.batch_tokens = how[i].rows;
    d.parallel = how[i].parallel;
    s = miras_server_open(m, &d, NULL, NULL, 0);
    assert_non_null(s);
    assert_int_equal(miras_server_desc_of(s)->batch_tokens, d.batch_tokens ? d.batch_tokens : 64);
    check_calls(name, s, &e);
    miras_close(s);
  }
  expect_free(&e);
}

static void test_every_layer(void **state) {
  const char *name;
  miras_model *m;
  (void)state;
  for (int i = 0; (m = open_case(i, &name)) != NULL; i++) {
    stir(m);
    if (i % EVERY == 0) check_model(name, m);
    miras_close(m);
  }
}

static void test_shorter_weights(void **state) {
  const char *name;
  miras_model *m = open_case(MIRAS_PRESET_ROWS, &name), *packed;
  miras_model_desc d = *miras_model_desc_of(m);
  const size_t bytes = miras_save_to(m, NULL, 0);
  void *file = malloc(bytes);
  (void)state;
  stir(m);
  assert_int_equal(miras_save_to(m, file, bytes), bytes);
  d.weights = MIRAS_WEIGHTS_Q8;
  packed = miras_model_open(&d, NULL, NULL, 0);
  assert_non_null(packed);
  assert_int_equal(miras_load_from(packed, file, bytes, NULL, 0), MIRAS_OK);
  check_model("q8", packed);
  miras_close(packed);
  miras_close(m);
  free(file);
}

/* ---- products of whole numbers ---- */

/* A text that is fed to a server beside others, by several workers, cut anywhere: the bits that one
 * session says, and near to what products of floats say. */
static void test_products(void **state) {
  enum { COUNT = 70, WORDS = 100 };
  static const char *const of[] = {"gated-deltanet", "transformer++", "mamba2", "rwkv7"};
  int32_t tokens[3][COUNT];
  float want[WORDS], said[3 * WORDS];
  char why[256];
  size_t i;
  (void)state;
  for (i = 0; i < 8; i++) {
    miras_server_desc d = {16, 0, &by_three, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                           MIRAS_PRODUCTS_INT8};
    miras_session_desc one = {0, 0, NULL, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                              MIRAS_PRODUCTS_INT8};
    miras_model_desc how;
    miras_model *m, *floats;
    miras_session *s, *plain;
    miras_server *many;
    miras_sequence text[3] = {{0}};
    unsigned char *block;
    double off = 0, size = 0;
    size_t bytes, t, b, n, k;
    assert_int_equal(miras_model_preset(&how, miras_preset_find(of[i / 2]), 2), MIRAS_OK);
    how.vocab = WORDS, how.width = 96;
    floats = miras_model_open(&how, NULL, why, sizeof why);
    if (!floats) fail_msg("%s: %s", of[i / 2], why);
    how.weights = i % 2 ? MIRAS_WEIGHTS_Q4 : MIRAS_WEIGHTS_Q8;
    m = miras_model_open(&how, NULL, NULL, 0);
    bytes = miras_save_to(floats, NULL, 0);
    block = (unsigned char *)malloc(bytes);
    assert_int_equal(miras_save_to(floats, block, bytes), bytes);
    assert_int_equal(miras_load_from(m, block, bytes, NULL, 0), MIRAS_OK);
    free(block);
    bytes = miras_model_state_size(m);
    block = (unsigned char *)calloc(3, bytes);
    s = miras_session_open(m, &one, NULL, why, sizeof why);
    plain = miras_session_open(m, NULL, NULL, NULL, 0);
    many = miras_server_open(m, &d, NULL, why, sizeof why);
    assert_true(s && plain && many);
    for (b = 0; b < 3; b++)
      for (k = 0; k < COUNT; k++) tokens[b][k] = (int32_t)below(WORDS);
    for (t = 0; t < COUNT; t += n) {
      n = t == 0 ? 33 : 1 + below(5);
      if (n > COUNT - t) n = COUNT - t;
      for (b = 0; b < 3; b++) {
        text[b].state = block + b * bytes, text[b].tokens = tokens[b] + t;
        text[b].count = b == 1 ? n : below(n + 1), text[b].logit_rows = b == 1;
      }
      assert_int_equal(miras_server_feed(many, text, 3, said), MIRAS_OK);
    }
    memcpy(want, miras_session_feed(s, tokens[1], NULL, COUNT), sizeof want);
    assert_memory_equal(want, said, sizeof want);
    assert_memory_equal(block + bytes, miras_session_state(s, NULL), bytes);
    miras_session_reset(s);
    for (k = 0; k < COUNT; k++) {
      const float *next = miras_session_step(s, tokens[1][k]);
      if (k == COUNT - 1) assert_memory_equal(want, next, sizeof want);
    }
    {
      const float *near = miras_session_feed(plain, tokens[1], NULL, COUNT);
      double mean = 0;
      for (k = 0; k < WORDS; k++) mean += (double)near[k] / WORDS;
      for (k = 0; k < WORDS; k++)
        off += pow((double)want[k] - (double)near[k], 2), size += pow((double)near[k] - mean, 2);
    }
    if (!(off > 0 && off < 0.1 * 0.1 * size))
      fail_msg("%s, weights %d: %g of the deviation", of[i / 2], (int)how.weights,
               sqrt(off / size));
    miras_close(many), miras_close(plain), miras_close(s), miras_close(m);
    assert_null(miras_session_open(floats, &one, NULL, why, sizeof why));
    assert_string_equal(why, "products is int8; weights of the model must be q8 or q4");
    one.products = MIRAS_PRODUCTS_COUNT;
    assert_null(miras_session_open(floats, &one, NULL, why, sizeof why));
    assert_string_equal(why, "products is 2; it must lie in 0..1");
    miras_close(floats);
    free(block);
  }
}

/* ---- forks ---- */

static void test_forks(void **state) {
  enum { FORKS = 1000 };
  const char *name;
  miras_model *m = open_case(MIRAS_PRESET_GATED_DELTANET, &name);
  const size_t bytes = miras_model_state_size(m);
  const miras_server_desc d = {256, 0, NULL, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                               MIRAS_PRODUCTS_FLOAT};
  miras_server *s = miras_server_open(m, &d, NULL, NULL, 0);
  unsigned char *block = (unsigned char *)calloc(FORKS, bytes);
  miras_sequence *text = (miras_sequence *)calloc(FORKS, sizeof *text);
  int32_t prefix[70], next[FORKS];
  float *logits = (float *)malloc(FORKS * VOCAB * sizeof *logits);
  size_t i;
  (void)state;
  for (i = 0; i < 70; i++) prefix[i] = (int32_t)below(VOCAB);
  text->state = block, text->tokens = prefix, text->count = 70;
  assert_int_equal(miras_server_feed(s, text, 1, NULL), MIRAS_OK);
  for (i = 0; i < FORKS; i++) {
    if (i) memcpy(block + i * bytes, block, bytes);
    next[i] = (int32_t)below(VOCAB);
    text[i].state = block + i * bytes;
    text[i].tokens = &next[i];
    text[i].count = text[i].logit_rows = 1;
  }
  assert_int_equal(miras_server_feed(s, text, FORKS, logits), MIRAS_OK);
  for (i = 0; i < FORKS; i += 37) {
    miras_session *one = miras_session_open(m, NULL, NULL, NULL, 0);
    size_t own;
    miras_session_feed(one, prefix, NULL, 70);
    assert_memory_equal(miras_session_step(one, next[i]), logits + i * VOCAB,
                        VOCAB * sizeof *logits);
    assert_memory_equal(miras_session_state(one, &own), block + i * bytes, bytes);
    assert_int_equal(own, bytes);
    miras_close(one);
  }
  free(logits), free(text), free(block);
  miras_close(s);
  miras_close(m);
}

/* ---- drafts that are undone ---- */

/* Of eight drafted tokens three are taken: the block from before them, and those three once more,
 * are a text that never met the other five. In every layer, wherever a chunk or a ring stands. */
static void test_rollback(void **state) {
  const char *name;
  miras_model *m;
  (void)state;
  for (int i = 0; (m = open_case(i, &name)) != NULL; i++) {
    const miras_server_desc d = {16, 0, NULL, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                                 MIRAS_PRODUCTS_FLOAT};
    const size_t bytes = miras_model_state_size(m);
    miras_server *s = miras_server_open(m, &d, NULL, NULL, 0);
    unsigned char *a = (unsigned char *)calloc(3, bytes), *b = a + bytes, *before = b + bytes;
    float of_a[VOCAB], of_b[VOCAB], tried[8 * VOCAB];
    int32_t token[60];
    miras_sequence x = {0}, y = {0};
    size_t t;
    for (t = 0; t < 60; t++) token[t] = (int32_t)below(VOCAB);
    for (t = 0; t + 8 < 60; t += 3) {
      memcpy(before, a, bytes);
      x.state = a, x.tokens = token + t, x.count = x.logit_rows = 8;
      assert_int_equal(miras_server_feed(s, &x, 1, tried), MIRAS_OK);
      memcpy(a, before, bytes);
      x.count = 3, x.logit_rows = 1;
      assert_int_equal(miras_server_feed(s, &x, 1, of_a), MIRAS_OK);
      y = x, y.state = b;
      assert_int_equal(miras_server_feed(s, &y, 1, of_b), MIRAS_OK);
      if (memcmp(of_a, of_b, sizeof of_a) || memcmp(tried + 2 * VOCAB, of_b, sizeof of_b) ||
          memcmp(a, b, bytes))
        fail_msg("%s: token %d was not undone", name, (int)t);
    }
    free(a);
    miras_close(s);
    miras_close(m);
  }
}

/* ---- sizes, refusals ---- */

static void test_sizes(void **state) {
  const char *name;
  char why[256];
  miras_model *m = open_case(MIRAS_PRESET_ROWS, &name);
  miras_server_desc d = {0};
  const size_t small = miras_server_size(m, &d, why, sizeof why);
  unsigned char *buffer = (unsigned char *)malloc(small + 1);
  (void)state;
  assert_true(small > 0);
  assert_string_equal(why, "");
  assert_null(miras_server_init(buffer, small - 1, m, &d, NULL, 0));
  assert_null(miras_server_init(NULL, small, m, &d, NULL, 0));
  assert_non_null(miras_server_init(buffer + 1, small, m, &d, NULL, 0));
  d.batch_tokens = 128;
  assert_true(miras_server_size(m, &d, NULL, 0) > small);
  d.limit = small;
  assert_int_equal(miras_server_size(m, &d, why, sizeof why), 0);
  assert_true(strstr(why, "limit is ") == why);
  assert_null(miras_server_open(m, &d, NULL, NULL, 0));
  d.batch_tokens = 0;
  assert_int_equal(miras_server_size(m, &d, why, sizeof why), small);
  d.batch_tokens = -1;
  assert_int_equal(miras_server_size(m, &d, why, sizeof why), 0);
  assert_string_equal(why, "batch_tokens is -1; it must lie in 1..65536");
  d.batch_tokens = 65537;
  assert_int_equal(miras_server_size(m, &d, why, sizeof why), 0);
  assert_null(miras_server_open(m, &d, NULL, NULL, 0));
  assert_int_equal(miras_server_size(NULL, &d, why, sizeof why), 0);
  assert_string_equal(why, "the model is NULL");
  assert_int_equal(miras_server_size(m, NULL, why, sizeof why), small);
  assert_int_equal(miras_model_state_size(NULL), 0);
  assert_null(miras_server_desc_of(NULL));
  miras_close(NULL);
  free(buffer);
  miras_close(m);
}

/* However many tokens a session works on at a time, and on how many workers: the same bits, and
 * fewer bytes. */
static void test_session_descs(void **state) {
  static const struct { int tokens; const miras_parallel *parallel; } ways[] = {
    { 1, NULL }, { 5, &by_three }, { 64, &by_thirty }, { 200, &by_three } };
  int32_t words[LONGEST];
  const char *name;
  int i, k;
  (void)state;
  for (i = 0; i < LONGEST; i++) words[i] = (int32_t)below(VOCAB);
  for (i = 0; i < MIRAS_PRESET_ROWS; i += 4) {
    miras_model *m = open_case(i, &name);
    miras_session *plain = miras_session_open(m, NULL, NULL, NULL, 0);
    size_t bytes, again;
    double loss[2];
    const float *logits;
    assert_non_null(plain);
    assert_int_equal(miras_session_desc_of(plain)->batch_tokens, 64);
    logits = miras_session_feed(plain, words, NULL, LONGEST - 9);
    assert_non_null(logits);
    assert_int_equal(miras_session_score(plain, words, words + 1, 8, &loss[0]), MIRAS_OK);
    for (k = 0; k < 4; k++) {
      miras_session_desc d = {0};
      miras_session *s;
      const void *left, *right;
      d.batch_tokens = ways[k].tokens;
      d.parallel = ways[k].parallel;
      assert_true(ways[k].tokens > 1 ||
                  miras_session_size(m, &d, NULL, 0) < miras_session_size(m, NULL, NULL, 0));
      s = miras_session_open(m, &d, NULL, NULL, 0);
      assert_non_null(s);
      assert_int_equal(miras_session_desc_of(s)->batch_tokens, ways[k].tokens);
      assert_non_null(miras_session_feed(s, words, NULL, LONGEST - 9));
      assert_int_equal(miras_session_score(s, words, words + 1, 8, &loss[1]), MIRAS_OK);
      left = miras_session_state(s, &again), right = miras_session_state(plain, &bytes);
      if (memcmp(&loss[0], &loss[1], sizeof loss[0]) || again != bytes ||
          memcmp(left, right, bytes))
        fail_msg("%s, %d tokens at a time: other bits", name, ways[k].tokens);
      miras_close(s);
    }
    miras_close(plain);
    miras_close(m);
  }
  assert_null(miras_session_desc_of(NULL));
}

static void test_refusals(void **state) {
  const char *name;
  miras_model *m = open_case(MIRAS_PRESET_ROWS, &name);
  const size_t bytes = miras_model_state_size(m);
  const miras_server_desc d = {0};
  miras_server *s = miras_server_open(m, &d, NULL, NULL, 0);
  unsigned char *a = (unsigned char *)calloc(3, bytes);
  unsigned char *before = (unsigned char *)malloc(3 * bytes);
  const int32_t tokens[3] = {1, 2, 3};
  float logits[9 * VOCAB];
  miras_sequence good[3] = {{0}}, t[3] = {{0}};
  int i;
  (void)state;
  for (i = 0; i < 3; i++) {
    good[i].state = a + (size_t)i * bytes;
    good[i].tokens = tokens;
    good[i].count = good[i].logit_rows = 3;
  }
  assert_int_equal(miras_server_feed(s, good, 3, logits), MIRAS_OK);
  memcpy(before, a, 3 * bytes);
  memset(logits, 0, sizeof logits);
  for (i = 0; i < 11; i++) {
    const int32_t wrong[3] = {0, i == 5 ? -1 : 0, VOCAB};
    memcpy(t, good, sizeof t);
    if (i == 0) t[2].state = NULL;
    if (i == 1) t[2].tokens = NULL;
    if (i == 2) t[2].logit_rows = 4;
    if (i == 3) t[2].state = t[0].state;
    if (i == 4 || i == 5) t[2].tokens = wrong;
    if (i >= 7) t[1].state = a + bytes + (i < 10 ? i - 6 : 6);   /* odd places */
    assert_int_equal(miras_server_feed(i == 6 ? NULL : s, t, 3, logits), MIRAS_ERR_ARGUMENT);
    assert_memory_equal(a, before, 3 * bytes);
    assert_true(logits[0] == 0 && logits[9 * VOCAB - 1] == 0);
  }
  for (i = 0; i < 2; i++) {                        /* positions that no file holds */
    const uint64_t far = (uint64_t)(i ? 3 : 1) << 62;
    memcpy(a + bytes, &far, sizeof far);
    assert_int_equal(miras_server_feed(s, good, 3, logits), MIRAS_ERR_ARGUMENT);
    assert_memory_equal(a + bytes, &far, sizeof far);
    memcpy(a, before, 3 * bytes);
  }
  {                                                /* the alignment that is promised is enough */
    float *rows = (float *)malloc(9 * VOCAB * sizeof *rows);
    unsigned char *b = (unsigned char *)malloc(bytes + 4) + 4;
    assert_true(rows && b);
    memset(b, 0, bytes);
    memcpy(t, good, sizeof t);
    t[0].state = b;
    memset(a, 0, bytes);
    assert_int_equal(miras_server_feed(s, t, 1, rows), MIRAS_OK);
    assert_int_equal(miras_server_feed(s, good, 1, logits), MIRAS_OK);
    assert_memory_equal(a, b, bytes);
    assert_memory_equal(rows, logits, 3 * VOCAB * sizeof *rows);
    memcpy(a, before, 3 * bytes);
    free(b - 4), free(rows);
  }
  memset(logits, 0, sizeof logits);
  assert_int_equal(miras_server_feed(s, good, 3, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_server_feed(s, NULL, 1, logits), MIRAS_ERR_ARGUMENT);
  assert_memory_equal(a, before, 3 * bytes);
  assert_int_equal(miras_server_feed(s, NULL, 0, NULL), MIRAS_OK);
  for (i = 0; i < 3; i++) good[i].count = good[i].logit_rows = 0, good[i].tokens = NULL;
  assert_int_equal(miras_server_feed(s, good, 3, NULL), MIRAS_OK);
  assert_memory_equal(a, before, 3 * bytes);
  free(a), free(before);
  miras_close(s);
  miras_close(m);
}

/* ---- states of fewer bits ---- */

/* A text of `count` tokens, with a session to itself that holds states so. */
static miras_session *session_of(const miras_model *m, miras_states states,
                                 miras_rounding rounding) {
  miras_session_desc d = {0};
  miras_session *s;
  d.states = states, d.rounding = rounding;
  s = miras_session_open(m, &d, NULL, NULL, 0);
  assert_non_null(s);
  return s;
}

/* Packed and brought back, into bytes that said something else. To nearest it then packs into the
 * same bytes again. */
static void pack_and_back(const char *name, const miras_model *m, miras_states form,
                          miras_rounding rounding, const void *from, void *to) {
  const size_t bytes = miras_model_state_size(m), size = miras_model_state_packed_size(m, form);
  unsigned char *room = (unsigned char *)malloc(2 * size + 2), *packed = room + 1;
  if (!size || size >= bytes) fail_msg("%s: %d of %d bytes", name, (int)size, (int)bytes);
  packed[size] = 77;
  memset(to, 0x5a, bytes);
  if (miras_model_state_pack(m, form, rounding, from, packed, size) != MIRAS_OK ||
      miras_model_state_unpack(m, packed, size, to) != MIRAS_OK || packed[size] != 77)
    fail_msg("%s: form %d was not packed", name, (int)form);
  if (rounding == MIRAS_ROUNDING_NEAREST && form != MIRAS_STATES_INT8_PAIR &&
      (miras_model_state_pack(m, form, rounding, to, packed + size, size) != MIRAS_OK ||
       memcmp(packed, packed + size, size)))
    fail_msg("%s: form %d packs into other bytes again", name, (int)form);
  free(room);
}

static int same_sizes(const void *a, const void *b, size_t floats, float by) {
  const float *x = (const float *)a, *y = (const float *)b;
  size_t i;
  for (i = 0; i < floats; i++)
    if (memcmp(x + i, y + i, sizeof *x) && !(fabsf(x[i] - y[i]) <= by * fabsf(x[i]) + 1e-7f))
      return 0;
  return 1;
}

/* In every layer, in and between chunks: what has been rounded stays as it is, floats come back as
 * near as the form holds them, forms differ, and a new text stays one. */
static void test_packed(void **state) {
  const char *name;
  miras_model *m;
  int i, form, drawn, n;
  (void)state;
  for (i = 0; (m = open_case(i, &name)) != NULL; i++) {
    const size_t bytes = miras_model_state_size(m);
    unsigned char *a = (unsigned char *)calloc(3, bytes), *b = a + bytes, *c = b + bytes;
    miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
    size_t packed = bytes;
    stir(m);
    for (form = MIRAS_STATES_BF16; form < MIRAS_STATES_COUNT; form++) {
      pack_and_back(name, m, (miras_states)form, MIRAS_ROUNDING_NEAREST, a, b);
      assert_memory_equal(a, b, bytes);
    }
    for (n = 0; n < 40 && i % EVERY == 0; n++) {
      assert_non_null(miras_session_step(s, (int32_t)below(VOCAB)));
      if (n < 37 && n != 15) continue;
      memcpy(a, miras_session_state(s, NULL), bytes);
      for (form = MIRAS_STATES_BF16; form < MIRAS_STATES_COUNT; form++) {
        const size_t size = miras_model_state_packed_size(m, (miras_states)form);
        const float off[MIRAS_STATES_COUNT] = {0, 1 / 256.0f, 1 / 2048.0f, 1, 1};
        for (drawn = 0; drawn < 2; drawn++) {
          pack_and_back(name, m, (miras_states)form, (miras_rounding)drawn, a, b);
          pack_and_back(name, m, (miras_states)form, (miras_rounding)drawn, a, c);
          if (memcmp(b, c, bytes)) fail_msg("%s: form %d is not what it was", name, form);
          if (!memcmp(a, b, bytes)) fail_msg("%s: form %d changes nothing", name, form);
          /* weights that follow from their dual state have a bound of their own */
          if (form < MIRAS_STATES_INT8 && strcmp(name, "moneta") && strcmp(name, "memora") &&
              strcmp(name, "moneta-h") && strcmp(name, "memora-h") &&
              !same_sizes(a, b, bytes / 4, off[form] * (float)(1 + drawn)))
            fail_msg("%s: form %d, rounding %d is too far off", name, form, drawn);
          if (drawn || form == MIRAS_STATES_INT8_PAIR) continue;
          pack_and_back(name, m, (miras_states)form, MIRAS_ROUNDING_NEAREST, b, c);
          if (memcmp(b, c, bytes)) fail_msg("%s: form %d rounds what is rounded", name, form);
          if (form == MIRAS_STATES_INT8) continue;
          pack_and_back(name, m, (miras_states)form, MIRAS_ROUNDING_STOCHASTIC, b, c);
          if (memcmp(b, c, bytes)) fail_msg("%s: form %d draws what is exact", name, form);
        }
        assert_true(form != MIRAS_STATES_INT8 || size < packed);
        packed = size;
      }
    }
    free(a);
    miras_close(s);
    miras_close(m);
  }
}

/* A server that holds states so is one whose owner packs every text behind every call, and whatever
 * else is in the call, and however many work on it, a session that has the text to itself. */
static void test_held(void **state) {
  const char *name;
  miras_model *m;
  int i, how;
  (void)state;
  for (i = 0; (m = open_case(i, &name)) != NULL; i++) {
    const size_t bytes = miras_model_state_size(m);
    unsigned char *block = (unsigned char *)calloc(5, bytes), *own = block + 3 * bytes;
    stir(m);
    for (how = i % EVERY; how < 8; how += 3) {
      const miras_states form = (miras_states)(1 + how / 2);
      const miras_rounding rounding = (miras_rounding)(how % 2);
      miras_server_desc d = {0};
      miras_session *held = session_of(m, form, rounding), *plain;
      miras_sequence text[3] = {{0}};
      miras_server *s;
      int32_t token[3][4];
      size_t t, b;
      plain = miras_session_open(m, NULL, NULL, NULL, 0);
      d.states = form, d.rounding = rounding, d.parallel = &by_three;
      s = miras_server_open(m, &d, NULL, NULL, 0);
      assert_non_null(s);
      memset(block, 0, 5 * bytes);
      for (t = 0; t < 9; t++) {
        const size_t count = t % 4;
        float said[3 * VOCAB];
        for (b = 0; b < 3; b++) {
          size_t k;
          for (k = 0; k < 4; k++) token[b][k] = (int32_t)below(VOCAB);
          text[b].state = block + b * bytes;
          text[b].tokens = token[b];
          text[b].count = b == 1 ? count : below(5);
          text[b].logit_rows = b == 1 && count;
        }
        assert_int_equal(miras_server_feed(s, text, 3, said), MIRAS_OK);
        if (count) {
          const float *logits = miras_session_feed(held, token[1], NULL, count);
          assert_memory_equal(logits, said, VOCAB * sizeof *said);
          logits = miras_session_feed(plain, token[1], NULL, count);
          assert_memory_equal(logits, said, VOCAB * sizeof *said);
          memcpy(own, miras_session_state(plain, NULL), bytes);
          pack_and_back(name, m, form, rounding, own, miras_session_state(plain, NULL));
        }
        if (memcmp(block + bytes, miras_session_state(held, NULL), bytes) ||
            memcmp(block + bytes, miras_session_state(plain, NULL), bytes))
          fail_msg("%s: form %d, rounding %d: another state behind call %d", name, (int)form,
                   (int)rounding, (int)t);
      }
      {
        double loss[2];
        assert_int_equal(miras_session_score(held, token[0], token[1], 4, &loss[0]), MIRAS_OK);
        assert_int_equal(miras_session_score(plain, token[0], token[1], 4, &loss[1]), MIRAS_OK);
        assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);
        memcpy(own, miras_session_state(plain, NULL), bytes);
        pack_and_back(name, m, form, rounding, own, miras_session_state(plain, NULL));
        assert_memory_equal(miras_session_state(held, NULL), miras_session_state(plain, NULL),
                            bytes);
      }
      miras_close(s);
      miras_close(plain);
      miras_close(held);
    }
    free(block);
    miras_close(m);
  }
}

/* One matrix, number by number: bounds of each form, what is beyond them, and means. */
static void test_packed_numbers(void **state) {
  enum { N = 32 * 32, DRAWS = 600 };
  miras_model_desc d;
  miras_model *m;
  miras_session *s, *t;
  float x[N], y[N], z[N];
  double mean[N];
  unsigned char *a, *b;
  size_t bytes, i;
  uint64_t draw;
  int form, drawn;
  (void)state;
  miras_model_preset(&d, MIRAS_PRESET_GATED_DELTANET, 1);
  d.vocab = VOCAB, d.width = 32, d.heads = 1;
  d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = 32;
  d.layer[0].memory.chunk = 1;
  m = miras_model_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  s = miras_session_open(m, NULL, NULL, NULL, 0), t = miras_session_open(m, NULL, NULL, NULL, 0);
  miras_session_step(s, 3), miras_session_step(t, 5);
  for (i = 0; i < N; i++)
    x[i] = ldexpf((float)below(2001) / 1000.0f - 1.0f, (int)(i / 32) - 16);
  x[40] = x[41] = 0;
  assert_int_equal(miras_session_set(s, 0, 0, "W1", x, NULL, 0), MIRAS_OK);
  a = (unsigned char *)miras_session_state(s, &bytes);
  b = (unsigned char *)miras_session_state(t, NULL);
  for (form = MIRAS_STATES_BF16; form < MIRAS_STATES_COUNT; form++) {
    const double finest = form == MIRAS_STATES_F16 ? ldexp(1, -25) : 0;
    const double off[] = {0, 1 / 256.0, 1 / 2048.0, 0.5 / 126.5, 0.5 / 126.5 / 256};
    for (drawn = 0; drawn < 2; drawn++) {
      memset(mean, 0, sizeof mean);
      for (draw = 1; draw <= (drawn ? DRAWS : 1); draw++) {
        memcpy(a, &draw, sizeof draw);
        pack_and_back("numbers", m, (miras_states)form, (miras_rounding)drawn, a, b);
        assert_int_equal(miras_session_get(t, 0, 0, "W1", y, NULL, 0), MIRAS_OK);
        for (i = 0; i < N; i++) {
          double top = fabs((double)x[i]), most;
          size_t k;
          for (k = i / 32 * 32; k < i / 32 * 32 + 32 && form >= MIRAS_STATES_INT8; k++)
            if (fabs((double)x[k]) > top) top = fabs((double)x[k]);
          most = off[form] * top * (drawn ? 2.02 : 1) + finest * (1 + drawn);
          if (!(fabs((double)y[i] - (double)x[i]) <= most))
            fail_msg("form %d, rounding %d: %g became %g", form, drawn, (double)x[i],
                     (double)y[i]);
          mean[i] += ((double)y[i] - (double)x[i]) / DRAWS /
                     (2.02 * off[form] * top + 2 * finest + DBL_MIN);
        }
      }
      for (i = 0; i < N && drawn; i++)       /* a draw's deviation is at most half a step */
        if (!(fabs(mean[i]) <= 0.5 * 5 / sqrt(DRAWS)))
          fail_msg("form %d: %g is %g steps off in the mean", form, (double)x[i], mean[i]);
    }
  }
  /* numbers that some forms have not got */
  for (i = 0; i < N; i++) x[i] = 1;
  x[0] = 1e6f, x[1] = -3.4e38f, x[64] = INFINITY, x[65] = -INFINITY, x[96] = NAN;
  x[128] = 1e-42f, x[129] = 65519, x[130] = 0x1.fep-14f;
  for (i = 160; i < 192; i++) x[i] = 1e-39f;
  assert_int_equal(miras_session_set(s, 0, 0, "W1", x, NULL, 0), MIRAS_OK);
  for (form = MIRAS_STATES_BF16; form < MIRAS_STATES_COUNT; form++) {
    for (drawn = 0; drawn < 2; drawn++) {
      pack_and_back("numbers", m, (miras_states)form, (miras_rounding)drawn, a, b);
      assert_int_equal(miras_session_get(t, 0, 0, "W1", z, NULL, 0), MIRAS_OK);
      for (i = 0; i < N; i++)
        if (i / 32 != 2 && i / 32 != 3) assert_true(isfinite(z[i]));
      if (form >= MIRAS_STATES_INT8) {
        for (i = 64; i < 128; i++) assert_true(isnan(z[i]));
        for (i = 160; i < 192; i++) assert_true(z[i] == 0);
        assert_true(z[2] == 0 && z[200] >= 0.99f && z[200] <= 1.01f);
        continue;
      }
      assert_true(isinf(z[64]) && z[64] > 0 && isinf(z[65]) && z[65] < 0 && isnan(z[96]));
      assert_true(z[2] == 1 && z[127] == 1 && z[130] == x[130]);
      if (form == MIRAS_STATES_F16)
        assert_true(z[0] == 65504 && z[1] == -65504 && z[128] == 0 && z[129] == 65504);
    }
  }
  miras_close(s), miras_close(t), miras_close(m);
}

static void test_packed_refusals(void **state) {
  const char *name;
  char why[256];
  miras_model *m = open_case(MIRAS_PRESET_GATED_DELTANET, &name);
  miras_model *other = open_case(MIRAS_PRESET_KDA_MEMORY, &name);
  const size_t bytes = miras_model_state_size(m);
  const size_t size = miras_model_state_packed_size(m, MIRAS_STATES_INT8);
  unsigned char *a = (unsigned char *)calloc(2, bytes), *b = a + bytes;
  unsigned char *packed = (unsigned char *)malloc(size);
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  miras_server_desc d = {0};
  const miras_rounding nearest = MIRAS_ROUNDING_NEAREST;
  size_t i;
  uint64_t beyond = (uint64_t)1 << 62;
  (void)state;
  for (i = 0; i < 30; i++) miras_session_step(s, (int32_t)below(VOCAB));
  memcpy(a, miras_session_state(s, NULL), bytes);
  assert_int_equal(miras_model_state_packed_size(NULL, MIRAS_STATES_INT8), 0);
  assert_int_equal(miras_model_state_packed_size(m, MIRAS_STATES_FLOAT), 0);
  assert_int_equal(miras_model_state_packed_size(m, MIRAS_STATES_COUNT), 0);
  assert_int_equal(miras_model_state_packed_size(m, (miras_states)-1), 0);
#define PACK(m, form, how, a, to, n) \
  miras_model_state_pack(m, (miras_states)(form), (miras_rounding)(how), a, to, n)
  memset(packed, 1, size);
  assert_int_equal(PACK(NULL, 3, 0, a, packed, size), MIRAS_ERR_ARGUMENT);
  assert_int_equal(PACK(m, 0, 0, a, packed, size), MIRAS_ERR_ARGUMENT);
  assert_int_equal(PACK(m, 5, 0, a, packed, size), MIRAS_ERR_ARGUMENT);
  assert_int_equal(PACK(m, 3, 2, a, packed, size), MIRAS_ERR_ARGUMENT);
  assert_int_equal(PACK(m, 3, -1, a, packed, size), MIRAS_ERR_ARGUMENT);
  assert_int_equal(PACK(m, 3, 0, NULL, packed, size), MIRAS_ERR_ARGUMENT);
  assert_int_equal(PACK(m, 3, 0, a + 2, packed, size), MIRAS_ERR_ARGUMENT);
  assert_int_equal(PACK(m, 3, 0, a, NULL, size), MIRAS_ERR_ARGUMENT);
  assert_int_equal(PACK(m, 3, 0, a, packed, size - 1), MIRAS_ERR_SIZE);
  memcpy(b, &beyond, sizeof beyond);
  assert_int_equal(PACK(m, 3, 0, b, packed, size), MIRAS_ERR_ARGUMENT);
#undef PACK
  for (i = 0; i < size; i++) assert_int_equal(packed[i], 1);
  assert_int_equal(miras_model_state_pack(m, MIRAS_STATES_INT8, nearest, a, packed, size),
                   MIRAS_OK);
  memset(b, 3, bytes);
  memcpy(a, b, bytes);
  for (i = 0; i < size; i++) {
    packed[i] ^= 4;
    if (miras_model_state_unpack(m, packed, size, b) == MIRAS_OK)
      fail_msg("byte %d may be another", (int)i);
    packed[i] ^= 4;
  }
  for (i = 0; i < size; i++)
    assert_int_equal(miras_model_state_unpack(m, packed, i, b), MIRAS_ERR_SIZE);
  assert_int_equal(miras_model_state_unpack(NULL, packed, size, b), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_state_unpack(m, NULL, size, b), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_state_unpack(m, packed, size, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_state_unpack(m, packed, size, b + 2), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_state_unpack(other, packed, size, b), MIRAS_ERR_MISMATCH);
  assert_memory_equal(a, b, bytes);
  assert_int_equal(miras_model_state_unpack(m, packed, size, b), MIRAS_OK);
  /* as fields */
  d.states = MIRAS_STATES_COUNT;
  assert_null(miras_server_open(m, &d, NULL, why, sizeof why));
  assert_string_equal(why, "states is 5; it must lie in 0..4");
  d.states = MIRAS_STATES_INT8, d.rounding = MIRAS_ROUNDING_COUNT;
  assert_null(miras_session_open(m, &d, NULL, why, sizeof why));
  assert_string_equal(why, "rounding is 2; it must lie in 0..1");
  free(a), free(packed);
  miras_close(s), miras_close(other), miras_close(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_layer), cmocka_unit_test(test_shorter_weights),
    cmocka_unit_test(test_products),
    cmocka_unit_test(test_forks),       cmocka_unit_test(test_rollback),
    cmocka_unit_test(test_sizes),       cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_session_descs), cmocka_unit_test(test_packed),
    cmocka_unit_test(test_held),        cmocka_unit_test(test_packed_numbers),
    cmocka_unit_test(test_packed_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
