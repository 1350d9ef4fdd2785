/* test_api.c: the promises of the public calls that do not concern numbers: wrong descriptors get a
 * sentence, failing allocations a clean NULL, nothing allocates after set-up, buffers are exact, a
 * state is a flat block, sampling and the schedule do what their comments say.
 *   cc -std=c99 tests/test_api.c -o test_api -lcmocka -lm -lpthread && ./test_api */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check.h"

/* The default allocator of the library; forbidden while a test says so. */
static int malloc_forbidden, malloc_count;
static void *counted_malloc(size_t n) {
  malloc_count++;
  if (malloc_forbidden) abort();
  return malloc(n);
}
static void counted_free(void *p) {
  if (p) malloc_count--;
  free(p);
}

#define MIRAS_MALLOC(n) counted_malloc(n)
#define MIRAS_FREE(p) counted_free(p)
#define MIRAS_PTHREADS
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "calls.h"
#include "inside.h"

/* ---- helpers ---- */

/* In double, where cmocka's own check rounds to float. */
#define assert_near(a, b, bound) near_by((double)(a), (double)(b), (double)(bound), __LINE__)
static void near_by(double a, double b, double bound, int line) {
  if (!(fabs(a - b) <= bound)) fail_msg("line %d: %g is not within %g of %g", line, a, bound, b);
}

static float number(uint64_t *seed) {   /* in (-1, 1) */
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(*seed >> 40) / 8388608.0 - 1.0);
}

static void numbers(float *out, size_t n, uint64_t seed) {
  size_t i;
  for (i = 0; i < n; i++) out[i] = number(&seed);
}

static void *grab(size_t n) {
  void *p = malloc(n ? n : 1);
  assert_non_null(p);
  return p;
}

/* A row of the table with small sizes, for use on its own. */
static miras_memory_desc small_memory(miras_preset kind) {
  miras_memory_desc d;
  assert_int_equal(miras_memory_preset(&d, kind), MIRAS_OK);
  d.batch = 2;
  d.heads = 2;
  d.key_dim = 6;
  d.seed = 7;
  return d;
}

/* The same where tokens are a key, a value and a query and nothing else. */
static miras_memory_desc small_pairs(miras_preset kind) {
  miras_memory_desc d = small_memory(kind);
  d.inner_steps = 1;
  d.separate_erase = 0;
  d.value_decay_gate = MIRAS_GATE_CONSTANT;
  return d;
}

static miras_model_desc small_model(miras_preset kind) {
  miras_model_desc d;
  assert_int_equal(miras_model_preset(&d, kind, 0), MIRAS_OK);
  d.layer[0].memory.heads = 2;
  d.layer[0].memory.key_dim = 8;
  if (d.layer[0].memory.chunk > 1) d.layer[0].memory.chunk = 4;
  d.vocab = 11;
  d.width = 16;
  d.layers = 2;
  d.layer[0].mlp.hidden = 24;
  d.seed = 3;
  return d;
}

static miras_trainer_desc small_trainer(void) {
  miras_trainer_desc d;
  memset(&d, 0, sizeof d);
  d.batch = 2;
  d.context = 10;
  return d;
}

/* ---- names and texts ---- */

static void named_models(void) {
  miras_model_desc row;
  static const char *const names[] = { "titans-lmm", "titans-mag", "titans-mal", "yaad",
    "titans-mac", "moneta-h", "yaad-h", "memora-h", "kimi-linear", "qwen3.5",
    "ttt-linear", "ttt-mlp-mamba", "ttt-mlp-memory", "gla", "hgrn2", "gla-memory",
    "linear-attention-memory" };
  static const int layers[] = { 3, 3, 6, 3, 6, 6, 6, 6, 3, 3, 3, 6, 3, 3, 3, 3, 3 };
  static const int attends[] = { 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0,      /* or has a pattern */
    0, 0, 0, 0 };
  miras_model_desc d;
  int i;
  for (i = 0; i < 17; i++) {
    miras_model *m;
    assert_int_equal(miras_model_preset(&d, miras_preset_find(names[i]), 3), MIRAS_OK);
    d.vocab = 11;
    d.width = 16;
    d.heads = 2;
    m = miras_model_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    assert_int_equal(miras_model_desc_of(m)->layers, layers[i]);
    assert_int_equal(d.pattern[0] != 0 || miras__attends(d.layer[0].type), attends[i]);
    miras_close(m);
  }
  assert_int_equal(miras_model_preset(&d, miras_preset_find("qwen3.5"), 10), MIRAS_OK);
  assert_string_equal(d.pattern, "(mmma)*2mm");
  assert_int_equal(d.layer[2].attention.rope.share, MIRAS_ROPE_SHARE_QUARTER);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("kimi-linear"), 2), MIRAS_OK);
  assert_int_equal(d.layer[2].attention.rope.share, MIRAS_ROPE_SHARE_NONE);
  assert_string_equal(d.pattern, "mm");
  assert_int_equal(miras_model_preset(&d, miras_preset_find("ttt-linear-mamba"), 2), MIRAS_OK);
  assert_string_equal(d.pattern, "(cm)*2");
  assert_true(d.layer[0].mixer.share_qk && !d.layer[0].mlp.none && d.layer[4].mlp.none);
  assert_int_equal(d.layer[0].memory.token_rates, 1);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("ttt-linear-memory"), 2), MIRAS_OK);
  assert_int_equal(d.layer[0].memory.token_rates, 2);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("gla-memory"), 2), MIRAS_OK);
  assert_int_equal(miras_model_preset(&row, MIRAS_PRESET_GLA_MEMORY, 0), MIRAS_OK);
  row.layers = 2;
  assert_memory_equal(&d, &row, sizeof d);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("retnet"), 2), MIRAS_OK);
  assert_int_equal(d.layer[0].mixer.rope.type, MIRAS_ROPE_TYPE_POSITION);
  assert_int_equal(d.layer[0].mixer.conv_on, MIRAS_CONV_ON_NONE);
  assert_true(d.norm_epsilon == 1e-6f && d.layer[0].mixer.out_norm_epsilon == 0);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("hgrn2"), 2), MIRAS_OK);
  assert_int_equal(d.layer[0].mixer.decay_form, MIRAS_DECAY_FORM_FLOOR);
  assert_true(d.layer[0].mixer.out_norm_epsilon == 1e-5f);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("gsa"), 2), MIRAS_OK);
  assert_int_equal(d.layer[0].mixer.key_slots, 64);
  assert_int_equal(d.layer[0].mixer.qk_map, MIRAS_QK_MAP_COMPLEMENT);
  assert_int_equal(d.layer[0].mixer.decay_form, MIRAS_DECAY_FORM_ROOT8);
  assert_int_equal(d.layer[0].mixer.out_act, MIRAS_FN_SILU);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("raven"), 2), MIRAS_OK);
  assert_int_equal(d.layer[0].mixer.key_slots, 64);
  assert_int_equal(d.layer[0].mixer.top_slots, 8);
  assert_int_equal(d.layer[0].mixer.scaled_queries, 1);
  assert_int_equal(d.layer[0].memory.decay_gate, MIRAS_GATE_HEAD);
  assert_int_equal(d.layer[0].mixer.decay_form, MIRAS_DECAY_FORM_RATE);
  assert_true(d.norm_epsilon == 1e-6f);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("log-linear-mamba2"), 2), MIRAS_OK);
  assert_int_equal(miras_model_preset(&row, MIRAS_PRESET_MAMBA2, 2), MIRAS_OK);
  assert_int_equal(d.layer[0].mixer.levels, 10);
  row.layer[0].mixer.levels = 10;
  assert_memory_equal(&d, &row, sizeof d);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("log-linear-gdn"), 2), MIRAS_OK);
  assert_int_equal(miras_model_preset(&row, MIRAS_PRESET_GATED_DELTANET, 2), MIRAS_OK);
  row.layer[0].mixer.levels = 10;
  assert_memory_equal(&d, &row, sizeof d);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("deltanet"), 2), MIRAS_OK);
  assert_int_equal(d.layer[0].mixer.out_gate, MIRAS_FN_NONE);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("kda"), 2), MIRAS_OK);
  assert_int_equal(d.layer[0].mixer.out_gate, MIRAS_FN_SIGMOID);
  assert_int_equal(d.layer[0].mixer.out_gate_rank, 32);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("titans-man"), 3), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("gla-memor"), 3), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_preset(&d, miras_preset_find("titans-mag-memory"), 3),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_preset(&d, miras_preset_find(NULL), 3), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_preset(NULL, miras_preset_find("titans-mag"), 3),
                   MIRAS_ERR_ARGUMENT);
}


static void names_round_trip(void **state) {
  int i, j;
  (void)state;
  for (i = 0; i < MIRAS_PRESET_COUNT; i++) {
    const char *name = miras_preset_name((miras_preset)i);
    miras_memory_desc alone, row;
    assert_non_null(name);
    assert_int_equal(miras_memory_preset(&alone, (miras_preset)i), MIRAS_OK);
    if (i >= MIRAS_PRESET_ROWS && i != MIRAS_PRESET_SIGNALS &&
        i != MIRAS_PRESET_CATEGORIES && i != MIRAS_PRESET_EVENTS) {   /* it is its row's */
      int rows = 0;
      for (j = 0; j < MIRAS_PRESET_ROWS; j++) {
        miras_memory_preset(&row, (miras_preset)j);
        rows += memcmp(&alone, &row, sizeof row) == 0;
      }
      assert_true(rows > 0);
    }
    assert_true(name[0] != 0);
    assert_int_equal(miras_preset_find(name), i);
    if (i < MIRAS_PRESET_ROWS) {
      char memory[64];
      snprintf(memory, sizeof memory, "%s-memory", name);
      assert_int_equal(miras_preset_find(memory), i);
    }
    for (j = 0; j < i; j++) assert_string_not_equal(name, miras_preset_name((miras_preset)j));
  }
  assert_string_equal(miras_preset_name(MIRAS_PRESET_YAAD), "yaad");
  assert_string_equal(miras_preset_name(MIRAS_PRESET_GATED_DELTANET), "gated-deltanet");
  assert_string_equal(miras_preset_name(MIRAS_PRESET_DELTANET), "deltanet");
  assert_string_equal(miras_preset_name(MIRAS_PRESET_DELTANET_MEMORY), "deltanet-memory");
  assert_int_equal(miras_preset_find("yaad-memory"), MIRAS_PRESET_YAAD);
  assert_null(miras_preset_name(MIRAS_PRESET_COUNT));
  assert_null(miras_preset_name((miras_preset)-1));
  assert_int_equal(miras_preset_find("no such memory"), MIRAS_PRESET_COUNT);
  named_models();
  assert_int_equal(miras_preset_find(""), MIRAS_PRESET_COUNT);
  assert_int_equal(miras_preset_find("YAAD"), MIRAS_PRESET_COUNT);
  assert_int_equal(miras_preset_find(NULL), MIRAS_PRESET_COUNT);
}

static void result_texts(void **state) {
  int i, j;
  (void)state;
  assert_int_equal(MIRAS_OK, 0);
  for (i = 0; i < MIRAS_RESULT_COUNT; i++) {
    const char *text = miras_result_text((miras_result)i);
    assert_non_null(text);
    assert_true(strlen(text) > 5);
    for (j = 0; j < i; j++) assert_string_not_equal(text, miras_result_text((miras_result)j));
  }
  assert_string_equal(miras_result_text(MIRAS_OK), "no error");
  assert_non_null(miras_result_text(MIRAS_RESULT_COUNT));
  assert_non_null(miras_result_text((miras_result)-1));
  assert_non_null(miras_result_text((miras_result)12345));
}

static void isa_is_known(void **state) {
  const char *isa = miras_isa();
  (void)state;
  assert_true(!strcmp(isa, "portable") || !strcmp(isa, "avx2") || !strcmp(isa, "avx512") ||
              !strcmp(isa, "neon"));
  assert_ptr_equal(isa, miras_isa());
}

static void version_agrees(void **state) {
  char text[32];
  (void)state;
  snprintf(text, sizeof text, "%d.%d.%d", MIRAS_VERSION / 10000, MIRAS_VERSION / 100 % 100,
           MIRAS_VERSION % 100);
  assert_string_equal(text, MIRAS_VERSION_TEXT);
}

/* ---- the table ---- */

static void presets_are_valid(void **state) {
  int i;
  (void)state;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    miras_memory_desc d;
    miras_model_desc md;
    char why[200];
    memset(&d, 0xff, sizeof d);
    assert_int_equal(miras_memory_preset(&d, (miras_preset)i), MIRAS_OK);
    assert_int_equal(d.key_dim, 0);
    assert_int_equal(d.value_dim, 0);
    assert_int_equal(d.heads, 0);
    assert_int_equal(d.batch, 0);
    assert_true(d.chunk == 0 || d.chunk == 1);
    assert_int_equal(d.decay_gate, MIRAS_GATE_CONSTANT);
    assert_int_equal(d.learning_rate_gate, MIRAS_GATE_CONSTANT);
    assert_int_equal(d.momentum_gate, MIRAS_GATE_CONSTANT);
    assert_int_equal(d.threshold_gate, MIRAS_GATE_CONSTANT);
    d.key_dim = 5;
    if (!miras_memory_size(&d, why, sizeof why))
      fail_msg("preset %s: %s", miras_preset_name((miras_preset)i), why);
    assert_string_equal(why, "");
    memset(&md, 0xff, sizeof md);
    assert_int_equal(miras_model_preset(&md, (miras_preset)i, 0), MIRAS_OK);
    assert_int_equal(md.layer[0].memory.key_dim, 0);
    assert_int_equal(md.vocab, 0);
    assert_int_equal(md.width, 0);
    assert_int_equal(md.layers, 0);
    md.layer[0].memory.key_dim = 8;
    md.layer[0].memory.heads = 2;
    md.vocab = 17;
    md.width = 16;
    md.layers = 1;
    if (!miras_model_size(&md, why, sizeof why))
      fail_msg("model preset %s: %s", miras_preset_name((miras_preset)i), why);
    {
      miras_model *m = miras_model_open(&md, NULL, NULL, 0);
      miras_trainer_desc t = small_trainer();
      assert_non_null(m);
      if (!miras_trainer_size(m, &t, why, sizeof why))
        fail_msg("model preset %s, training: %s", miras_preset_name((miras_preset)i), why);
      miras_close(m);
    }
  }
  {
    miras_memory_desc d;
    miras_model_desc md;
    assert_int_equal(miras_memory_preset(NULL, MIRAS_PRESET_YAAD), MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_memory_preset(&d, MIRAS_PRESET_COUNT), MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_memory_preset(&d, (miras_preset)-1), MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_model_preset(NULL, MIRAS_PRESET_YAAD, 0), MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_model_preset(&md, MIRAS_PRESET_COUNT, 0), MIRAS_ERR_ARGUMENT);
  }
}

/* Every default is filled in, and the resolved descriptor is a fixed point. */
static void defaults_are_filled_in(void **state) {
  miras_memory_desc d, again;
  const miras_memory_desc *r;
  miras_memory *m;
  (void)state;
  memset(&d, 0, sizeof d);
  d.architecture = MIRAS_ARCH_MLP;
  d.bias = MIRAS_BIAS_LP_SMOOTH;
  d.retention = MIRAS_RETENTION_LQ;
  d.key_dim = 5;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  r = miras_memory_desc_of(m);
  assert_int_equal(r->batch, 1);
  assert_int_equal(r->heads, 1);
  assert_int_equal(r->value_dim, 5);
  assert_int_equal(r->chunk, 1);
  assert_int_equal(r->depth, 2);
  assert_int_equal(r->expansion, 4);
  assert_near(r->decay_ratio, 1, 0);
  assert_near(r->learning_rate, 0, 0);           /* is what it says                             */
  assert_near(r->p, 3, 0);
  assert_near(r->q, 4, 0);
  assert_near(r->sharpness, 10, 0);
  again = *r;
  assert_int_equal(miras_memory_size(&again, NULL, 0), miras_memory_size(&d, NULL, 0));
  miras_close(m);
  m = miras_memory_open(&again, NULL, NULL, 0);
  assert_non_null(m);
  assert_memory_equal(miras_memory_desc_of(m), &again, sizeof again);
  miras_close(m);

  memset(&d, 0, sizeof d);
  d.architecture = MIRAS_ARCH_MATRIX;
  d.bias = MIRAS_BIAS_HUBER;
  d.retention = MIRAS_RETENTION_KL;
  d.key_dim = 3;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  r = miras_memory_desc_of(m);
  assert_near(r->threshold, 1, 0);
  assert_near(r->simplex, 1, 0);
  miras_close(m);
}

/* A 0 that could be meant is: a memory of rate 0 learns nothing, whatever its choices, and what has
 * no 0 is refused without a number of its own. Presets and changes bring those. */
static void zeros_are_zeros(void **state) {
  float key[6], value[6], out[2][24];
  miras_memory_desc d;
  char why[256];
  int i;
  (void)state;
  numbers(key, 6, 1);
  numbers(value, 6, 2);
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    miras_memory *m;
    d = small_pairs((miras_preset)i);
    d.batch = d.heads = 1;
    if (d.architecture == MIRAS_ARCH_KV_CACHE) continue;
    d.learning_rate = 0;
    d.decay_rate = 0;
    d.decay_schedule = MIRAS_DECAY_SCHEDULE_RATIO;
    if (d.retention == MIRAS_RETENTION_L2_BOTH || d.decay_gate) continue;
    m = miras_memory_open(&d, NULL, why, sizeof why);
    if (!m) fail_msg("%s: %s", miras_preset_name((miras_preset)i), why);
    assert_near(miras_memory_desc_of(m)->learning_rate, 0, 0);
    miras_memory_read(m, key, out[0]);
    assert_int_equal(miras_memory_write(m, key, value, NULL), MIRAS_OK);
    miras_memory_read(m, key, out[1]);
    if (memcmp(out[0], out[1], sizeof(float) * (size_t)miras_memory_desc_of(m)->value_dim))
      fail_msg("%s learns at rate 0", miras_preset_name((miras_preset)i));
    miras_close(m);
  }
  assert_int_equal(miras_memory_preset(&d, MIRAS_PRESET_DELTANET_MEMORY), MIRAS_OK);
  d.key_dim = 6;
  assert_int_equal(miras_memory_desc_change(&d, "algorithm", "least-squares", why, sizeof why),
                   MIRAS_OK);
  assert_true(strstr(why, "ridge 1") != NULL);
  assert_true(miras_memory_size(&d, why, sizeof why) > 0);
  d.ridge = 0;
  assert_int_equal(miras_memory_size(&d, why, sizeof why), 0);
  assert_string_equal(why, "ridge is 0; it must lie in 1e-06..1e+06");
  assert_int_equal(miras_memory_preset(&d, MIRAS_PRESET_SLIDING_WINDOW), MIRAS_OK);
  assert_int_equal(miras_memory_desc_change(&d, "architecture", "matrix", why, sizeof why),
                   MIRAS_OK);
  assert_true(strstr(why, "learning_rate 1") != NULL);
}

/* ---- fields by name ---- */

/* Every field has a name of its own, and what is read from it can be set. */
static void fields_as_text(void **state) {
  static const char *const wrong[][2] = {
    { "memory.bias", "l3" }, { "memory.bias", "" }, { "memory.bias", "l2 lp" }, { "bias", "l2" },
    { "memory.heads", "-1" }, { "memory.heads", "2147483648" }, { "memory.learning_rate", "1e" },
    { "memory.batch", "1" }, { "memory.custom", "0" }, { "grid", "1" }, { "version", "3" },
    { "", "1" }
  };
  static const char *const functions[][3] = {   /* field, word, the word that is written    */
    { "memory.activation", "identity", "none" }, { "memory.activation", "1", NULL },
    { "memory.feature_map", "identity", "none" }, { "memory.feature_map", "gelu", NULL },
    { "mixer.qk_act", "silu", "silu" }, { "mixer.qk_act", "identity", NULL },
    { "mixer.v_act", "elu", "elu" }, { "mixer.v_act", "usual", NULL },
    { "mixer.out_gate", "identity", NULL }, { "mixer.out_gate", "silu-first", "silu" },
    { "mlp.type", "silu", "silu" }, { "mlp.act", "relu2", "relu2" }, { "mlp.act", "elu", NULL }
  };
  miras_model_desc d, e;
  char text[32], exact[8];
  int kind, i, k;
  (void)state;
  for (i = 0; miras_model_desc_field(i) != NULL; i++)
    for (k = 0; k < i; k++)
      assert_string_not_equal(miras_model_desc_field(i), miras_model_desc_field(k));
  assert_true(i > 60);
  assert_null(miras_model_desc_field(-1));
  assert_null(miras_model_desc_field(INT_MAX));
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_model *m;
    d = small_model((miras_preset)kind);
    m = miras_model_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    d = *miras_model_desc_of(m);
    d.seed = UINT64_MAX - (uint64_t)kind;
    d.layer[0].memory.custom = (const miras_custom *)&d;
    d.layer[0].attention.kv_heads = kind;
    d.layer[0].attention.rope.theta = 0.1f * (float)kind;
    snprintf(d.pattern, sizeof d.pattern, "m*%d", kind);
    e = d;                             /* what these names do not reach: other kinds, letters */
    memset(&e.layer[0], 0, sizeof e.layer[0]);
    e.layer[0].letter = d.layer[0].letter;
    e.layer[0].memory.batch = d.layer[0].memory.batch;
    e.layer[0].memory.custom = d.layer[0].memory.custom;
    memset(e.pattern, 1, sizeof e.pattern);
    e.vocab = e.width = e.layers = e.untied = 0;
    e.dropout = 0;
    e.seed = 0;
    for (i = 0; miras_model_desc_field(i) != NULL; i++) {
      const char *name = miras_model_desc_field(i);
      assert_ptr_equal(miras_model_desc_get(&d, name, text, sizeof text), text);
      assert_int_equal(miras_model_desc_set(&e, name, text), MIRAS_OK);
      /* a usual function, which the model has by its own name, comes back as 0 */
      assert_int_equal(miras_model_desc_set(&d, name, text), MIRAS_OK);
    }
    assert_memory_equal(&d, &e, sizeof d);
    miras_close(m);
  }
  for (i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++)
    assert_int_equal(miras_model_desc_set(&d, wrong[i][0], wrong[i][1]), MIRAS_ERR_ARGUMENT);
  assert_memory_equal(&d, &e, sizeof d);
  assert_int_equal(miras_model_desc_set(NULL, "vocab", "1"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_set(&d, NULL, "1"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_set(&d, "vocab", NULL), MIRAS_ERR_ARGUMENT);
  assert_null(miras_model_desc_get(NULL, "vocab", text, sizeof text));
  assert_null(miras_model_desc_get(&d, NULL, text, sizeof text));
  assert_null(miras_model_desc_get(&d, "vocab", NULL, sizeof text));
  assert_null(miras_model_desc_get(&d, "memory.batch", text, sizeof text));
  /* functions: the usual one of a field is 0, whatever its word; words and names of 0.3 are read */
  memset(&d, 0, sizeof d);
  for (i = 0; i < (int)(sizeof functions / sizeof *functions); i++) {
    const char *const *f = functions[i];
    assert_int_equal(miras_model_desc_set(&d, f[0], f[1]),
                     f[2] ? MIRAS_OK : MIRAS_ERR_ARGUMENT);
    if (f[2]) assert_string_equal(miras_model_desc_get(&d, f[0], text, sizeof text), f[2]);
  }
  assert_int_equal(d.layer[0].memory.activation, MIRAS_FN_NONE);
  assert_int_equal(d.layer[0].memory.feature_map, MIRAS_FN_USUAL);
  assert_int_equal(d.layer[0].mixer.qk_act, MIRAS_FN_USUAL);
  assert_int_equal(d.layer[0].mixer.v_act, MIRAS_FN_ELU);
  assert_int_equal(d.layer[0].mixer.out_gate, MIRAS_FN_USUAL);
  assert_int_equal(d.layer[0].mixer.out_gate_first, 1);
  assert_int_equal(d.layer[0].mlp.act, MIRAS_FN_RELU2);
  /* what is no valid value has a text too, and none is written past its room */
  memset(&d, 0, sizeof d);
  d.layer[0].memory.heads = INT_MIN;
  d.layer[0].memory.decay_rate = (float)NAN;
  d.layer[0].memory.p = (float)-INFINITY;
  d.layer[0].memory.feature_map = MIRAS_FN_COUNT;
  assert_string_equal(miras_model_desc_get(&d, "memory.heads", text, 12), "-2147483648");
  assert_string_equal(miras_model_desc_get(&d, "memory.decay_rate", text, 4), "nan");
  assert_string_equal(miras_model_desc_get(&d, "memory.p", text, 5), "-inf");
  assert_string_equal(miras_model_desc_get(&d, "memory.feature_map", text, 3), "10");
  memset(exact, 1, sizeof exact);
  assert_ptr_equal(miras_model_desc_get(&d, "memory.architecture", exact, 7), exact);
  assert_string_equal(exact, "matrix");
  assert_int_equal(exact[7], 1);
  assert_null(miras_model_desc_get(&d, "memory.architecture", exact, 6));
  assert_null(miras_model_desc_get(&d, "memory.architecture", exact, 0));
}

/* With a letter before it, a layer's field is that of the kind with this letter. */
static void fields_of_kinds(void **state) {
  static const char *const none[] = {
    "x.attention.window", "w.vocab", "w.pattern", "w.dropout", ".attention.window", "w.",
    "w..attention.window", "ww.attention.window", "1.attention.window", "w.letter",
    "W.attention.window", "heads.", "w.m.attention.window", "w.window", "model.heads" };
  miras_model_desc d = small_model(MIRAS_PRESET_TITANS), e;
  char text[MIRAS_PATTERN_SIZE], why[256], exact[5];
  size_t i;
  (void)state;
  assert_int_equal(miras_model_desc_set(&d, "w.attention.window", "7"), MIRAS_OK);
  assert_int_equal(miras_model_desc_set(&d, "a.attention.rope.theta", "500.5"), MIRAS_OK);
  assert_int_equal(miras_model_desc_set(&d, "m.memory.learning_rate", "0.25"), MIRAS_OK);
  assert_int_equal(miras_model_desc_set(&d, "w.type", "memory"), MIRAS_OK);
  assert_int_equal(miras_model_desc_set(&d, "attention.heads", "3"), MIRAS_OK);
  assert_true(d.layer[1].attention.window == 7 && d.layer[1].type == MIRAS_LAYER_MEMORY);
  assert_near(d.layer[2].attention.rope.theta, 500.5, 0);
  assert_near(d.layer[0].memory.learning_rate, 0.25, 0);
  assert_true(d.layer[0].attention.heads == 3 && d.heads == 0);
  assert_string_equal(miras_model_desc_get(&d, "a.attention.window", text, sizeof text), "1024");
  assert_string_equal(miras_model_desc_get(&d, "w.attention.window", text, sizeof text), "7");
  d.layer[0].letter = 0;               /* m */
  assert_string_equal(miras_model_desc_get(&d, "m.attention.heads", text, sizeof text), "3");
  e = d;
  for (i = 0; i < sizeof none / sizeof *none; i++) {
    assert_int_equal(miras_model_desc_set(&d, none[i], "1"), MIRAS_ERR_ARGUMENT);
    assert_null(miras_model_desc_get(&d, none[i], text, sizeof text));
  }
  assert_memory_equal(&d, &e, sizeof d);
  /* patterns are text */
  memset(text, 'm', sizeof text);
  text[MIRAS_PATTERN_SIZE - 1] = 0;
  assert_int_equal(miras_model_desc_set(&d, "pattern", text), MIRAS_OK);
  assert_string_equal(d.pattern, text);
  assert_int_equal(miras_model_desc_set(&d, "pattern", "mmwm"), MIRAS_OK);
  assert_string_equal(d.pattern, "mmwm");
  assert_string_equal(miras_model_desc_get(&d, "pattern", exact, 5), "mmwm");
  assert_null(miras_model_desc_get(&d, "pattern", exact, 4));
  memset(why, 'm', MIRAS_PATTERN_SIZE);
  why[MIRAS_PATTERN_SIZE] = 0;
  assert_int_equal(miras_model_desc_set(&d, "pattern", why), MIRAS_ERR_ARGUMENT);
  assert_string_equal(d.pattern, "mmwm");
  memset(d.pattern, 'm', sizeof d.pattern);   /* without an end */
  assert_int_equal(strlen(miras_model_desc_get(&d, "pattern", text, sizeof text)),
                   MIRAS_PATTERN_SIZE - 1);

  /* differences: of parameters before others, of kinds by letter wherever they lie */
  d = small_model(MIRAS_PRESET_TITANS);
  d.layers = 0;
  snprintf(d.pattern, sizeof d.pattern, "mwm");
  e = d;
  e.layer[1] = d.layer[2];
  e.layer[2] = d.layer[1];
  assert_int_equal(miras_model_desc_differs(&d, &e, why, sizeof why), 0);
  assert_string_equal(why, "");
  e.seed = 5;
  assert_int_equal(miras_model_desc_differs(&d, &e, why, sizeof why), 1);
  assert_string_equal(why, "seed is 3 and not 5");
  e.layer[2].attention.window = 9;
  assert_int_equal(miras_model_desc_differs(&d, &e, why, sizeof why), 1);
  assert_string_equal(why, "w.attention.window is 64 and not 9");
  e.layer[2].letter = 'v';
  assert_int_equal(miras_model_desc_differs(&d, &e, NULL, 0), 1);
  assert_int_equal(miras_model_desc_differs(&d, &e, why, sizeof why), 1);
  assert_string_equal(why, "w.type is attention and not absent");
  assert_int_equal(miras_model_desc_differs(NULL, &e, why, sizeof why), 0);
  assert_int_equal(miras_model_desc_differs(&e, NULL, why, 0), 0);
}

/* Conditions name fields, facts and words that exist; numbers in them have one digit. */
static void check_condition(const char *text) {
  while (*text) {
    char word[32];
    const miras__field *f;
    miras__next_word(word, &text);
    f = miras__named(word);
    while (miras__next_word(word, &text)) {
      if (strcmp(word, "not") == 0) continue;
      assert_true(miras__meaning(f, word) >= 0 && (float)miras__meaning(f, word) <= f->high);
      assert_true(f->kind <= MIRAS__FUNCTION || word[1] == 0);
    }
    while (*text == ',' || *text == ' ') text++;
  }
}

static int words_of(const char *list) {
  char word[32];
  int n = 0;
  while (miras__next_word(word, &list)) n++;
  return n;
}

static void tables_are_right(void **state) {
  size_t i;
  (void)state;
  for (i = 0; i < MIRAS__FIELDS; i++) {
    const miras__field *f = &miras__fields[i];
    char word[32];
    int words = 0;
    check_condition(f->when);
    assert_true(f->low <= f->high && f->normal <= f->high);
    if (f->kind == MIRAS__FUNCTION) {   /* the usual one first, and all of them are some          */
      const char *list = f->words;
      while (miras__next_word(word, &list))
        assert_true(miras__listed(f, miras__place_of(MIRAS__FUNCTIONS, word)) >= 0);
      assert_true(miras__word(word, f, 0) && miras__meaning(f, word) == (int)f->normal);
    }
    if (f->kind != MIRAS__WORD) continue;
    while (miras__word(word, f, words)) words++;
    /* momentum has no gate per channel, but the word is known */
    assert_true(words == (int)f->high + 1 + (strcmp(f->name, "memory.momentum_gate") == 0));
  }
  for (i = 0; i < sizeof miras__rules / sizeof *miras__rules; i++) {
    check_condition(miras__rules[i].when);
    check_condition(miras__rules[i].needs);
    assert_true(miras__rules[i].needs[0] || miras__rules[i].because);
  }
  assert_int_equal(words_of(MIRAS__FUNCTIONS), MIRAS_FN_COUNT);
  assert_int_equal(words_of(MIRAS__INPUT_WORDS), MIRAS_INPUT_TYPE_COUNT);
  assert_int_equal(words_of(MIRAS__OUTPUT_WORDS), MIRAS_OUTPUT_TYPE_COUNT);
}

/* ---- the longest sentence of everything that tables refuse ---- */

static size_t longest_sentence;
static char longest_said[1200];

/* 256 bytes hold it, and of a layer what says which it is of. */
static void is_short(const char *why, int inside) {
  const size_t n = strlen(why) + (inside ? strlen("layer[7]: ") : 0);
  if (n > longest_sentence) {
    longest_sentence = n;
    strcpy(longest_said, why);
  }
  if (n > 255) fail_msg("%d characters: %s", (int)n, why);
}

/* Every field with the number that takes the most characters, within its range or not. */
static void fill_case(miras__case *c, int within) {
  size_t i;
  memset(c, 0, sizeof *c);
  for (i = 0; i < MIRAS__FIELDS; i++) {
    const miras__field *f = &miras__fields[i];
    uint64_t x = within ? (uint64_t)(f->high > 2e9f ? INT_MAX : (int)f->high) : (uint64_t)INT_MIN;
    char word[32];
    size_t most = 0;
    int k;
    if (miras__own_text(f)) continue;
    if (f->kind == MIRAS__REAL) x = miras__real_bits(-1.23457e-30f);
    for (k = 0; within && f->kind <= MIRAS__FUNCTION && miras__word(word, f, k); k++)
      if (strlen(word) > most) most = strlen(word), x = (uint64_t)k;
    if (f->kind == MIRAS__TEXT) memset((char *)c + f->at, '8', f->size);
    else miras__set_bits(c, f->at, f->size, x);
  }
}

static void sentences_are_short(void **state) {
  miras__fault fault;
  miras__case c;
  char why[1200];
  size_t i;
  int inside;
  (void)state;
  longest_sentence = 0;
  for (inside = 0; inside < 2; inside++) {
    for (i = 0; i < MIRAS__FIELDS; i++) {
      const miras__field *f = &miras__fields[i];
      const char *when;
      if (f->kind == MIRAS__FACT || f->kind == MIRAS__WIDE || miras__own_text(f)) continue;
      if (!inside && !miras__of_memory(f)) continue;
      memset(&fault, 0, sizeof fault);
      fault.field = f;
      fill_case(&c, 0);
      c.inside = inside != 0;
      why[0] = 0;
      if (f->kind != MIRAS__TEXT) miras__say_fault(why, sizeof why, &c, &fault);
      is_short(why, inside);
      for (when = f->when; *when; when += strcspn(when, ","), when += strspn(when, ", ")) {
        fault.when = when;
        why[0] = 0;
        miras__say_fault(why, sizeof why, &c, &fault);
        is_short(why, inside);
      }
    }
    for (i = 0; i < sizeof miras__rules / sizeof *miras__rules; i++) {
      const char *need = miras__rules[i].needs;
      fill_case(&c, 1);
      c.inside = inside != 0;
      do {
        why[0] = 0;
        miras__say_rule(why, sizeof why, &c, &miras__rules[i], *need ? need : NULL);
        is_short(why, inside);
        need += strcspn(need, ",");
        need += strspn(need, ", ");
      } while (*need);
    }
  }
  print_message("%d characters: %s\n", (int)longest_sentence, longest_said);
}

/* Texts as long as they may be, and longer. */
static void long_texts_are_refused(void **state) {
  static const struct { const char *field, *text; } wrong[] = {
    {"pattern", "x"}, {"pattern", "m"}, {"pattern", "("}, {"pattern", "(m)*9"}, {"pattern", " "},
    {"inputs", "x"}, {"inputs", " "}, {"inputs", "vector 1,"}, {"inputs", "vector 70000,"},
    {"inputs", "8"}, {"outputs", "x"}, {"outputs", " "}, {"outputs", "raw 1, "}, {"outputs", ","},
    {"outputs", "binary 2 at 1 times 3, "}, {"outputs", "lp 1 at 9, "}, {"memory.groups", "1,"},
    {"memory.groups", "x"}, {"memory.groups", " "}, {"memory.groups", "99999999"}};
  const char *const fields[] = {"pattern", "inputs", "outputs", "memory.groups"};
  char why[256], text[MIRAS_PATTERN_SIZE + 2];
  size_t i, n;
  (void)state;
  for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const miras__field *f = miras__field_called(wrong[i].field);
    const size_t length = strlen(wrong[i].text);
    for (n = 0; n < f->size; n += n + 2 < f->size ? f->size - 2 : 1) {
      miras_model_desc d = small_model(MIRAS_PRESET_YAAD);
      size_t k;
      memset(text, 0, sizeof text);
      for (k = 0; k < n + 1; k++) text[k] = wrong[i].text[k % length];
      if (n + 1 == f->size) {                       /* one too many */
        text[n + 1] = 0;
        assert_int_equal(miras_model_desc_set(&d, wrong[i].field, text), MIRAS_ERR_ARGUMENT);
        assert_int_equal(miras_model_desc_change(&d, wrong[i].field, text, why, sizeof why),
                         MIRAS_ERR_ARGUMENT);
        snprintf(text, sizeof text, "%s has %d characters; it must have less than %d",
                 wrong[i].field, (int)f->size, (int)f->size);
        assert_string_equal(why, text);
        continue;
      }
      d.layers = !strcmp(wrong[i].field, "pattern") ? 0 : d.layers;
      if (!strcmp(wrong[i].field, "outputs")) d.vocab = 0, strcpy(d.inputs, "vector 1");
      d.layer[0].memory.bias =
        !strcmp(wrong[i].field, "memory.groups") ? MIRAS_BIAS_CROSS_ENTROPY : MIRAS_BIAS_L2;
      d.layer[0].memory.threshold_gate = MIRAS_GATE_CONSTANT;
      d.layer[0].memory.threshold = d.layer[0].memory.sharpness = 0;
      assert_int_equal(miras_model_desc_set(&d, wrong[i].field, text), MIRAS_OK);
      if (miras_model_size(&d, why, sizeof why)) continue;        /* some of them mean something */
      assert_true(strlen(why) < 255);
      if (!strstr(why, strrchr(wrong[i].field, '.') ? "groups is \"" : wrong[i].field))
        fail_msg("%s \"%s\": %s", wrong[i].field, text, why);
    }
  }
  {                                                 /* of any length, where a word is asked for   */
    miras_model_desc d = small_model(MIRAS_PRESET_YAAD);
    char any[600];
    memset(any, 'x', sizeof any);
    any[sizeof any - 1] = 0;
    assert_int_equal(miras_model_desc_change(&d, "memory.retention", any, why, sizeof why),
                     MIRAS_ERR_ARGUMENT);
    assert_true(strstr(why, "xxx...\"; it can be all l2 ") && strlen(why) < 255);
    assert_int_equal(miras_model_desc_change(&d, any, "1", why, sizeof why), MIRAS_ERR_ARGUMENT);
    assert_true(strstr(why, "there is no field xxx") == why && strlen(why) < 255);
  }
  for (i = 0; i < 4; i++) {                         /* without an end; that differ at theirs      */
    const miras__field *f = miras__field_called(fields[i]);
    miras_model_desc a = small_model(MIRAS_PRESET_YAAD), b;
    char *at = (char *)&a + miras__offset(f, 0);
    a.layer[0].memory.bias = MIRAS_BIAS_CROSS_ENTROPY;
    a.layer[0].memory.threshold_gate = MIRAS_GATE_CONSTANT;
    memset(at, 'm', f->size);
    assert_int_equal(miras_model_size(&a, why, sizeof why), 0);
    assert_true(strlen(why) > 10 && strlen(why) < 255);
    at[f->size - 1] = 0;
    b = a;
    ((char *)&b)[at - (char *)&a + (i == 3 ? 3 : 90)] = 'w';
    assert_int_equal(miras_model_desc_differs(&a, &b, why, sizeof why), 1);
    assert_true(strstr(why, fields[i]) == why && strlen(why) + strlen(" as in the file") < 256);
  }
}

/* A pair that names a field: it is the one of the descriptor. */
static void carried_states_that_do_not_fit(void **state) {
  miras_model_desc d = small_model(MIRAS_PRESET_YAAD);
  miras_trainer_desc room = small_trainer();
  miras_model *m;
  char why[256] = "";
  (void)state;
  d.layers = 0;
  strcpy(d.pattern, "a");
  d.layer[2].attention.heads = d.layer[2].attention.kv_heads = 1;
  d.layer[2].attention.head_dim = 4096;
  d.layer[2].attention.window = 1 << 20;
  m = miras_model_open(&d, NULL, why, sizeof why);
  if (!m) fail_msg("%s", why);
  room.carried = 1;
  assert_int_equal(miras_trainer_size(m, &room, why, sizeof why), 0);
  assert_true(strstr(why, "carried is 1; each has ") == why);
  miras_close(m);
}

/* ---- wrong descriptors ---- */

enum base { EXACT, DECAY, MATRIX_MOMENTUM, MLP, TITANS, HUBER, LP, LQ, KL, BASES };

static miras_memory_desc base_desc(enum base base) {
  miras_memory_desc d;
  memset(&d, 0, sizeof d);
  d.key_dim = 4;
  d.bias = MIRAS_BIAS_L2;
  switch (base) {
    case EXACT: break;
    case DECAY: d.retention = MIRAS_RETENTION_L2; break;
    case MATRIX_MOMENTUM: d.algorithm = MIRAS_ALGORITHM_MOMENTUM; d.bias = MIRAS_BIAS_DOT; break;
    case MLP: d.architecture = MIRAS_ARCH_MLP; break;
    case TITANS:
      d.architecture = MIRAS_ARCH_MLP;
      d.retention = MIRAS_RETENTION_L2;
      d.algorithm = MIRAS_ALGORITHM_MOMENTUM;
      break;
    case HUBER: d.architecture = MIRAS_ARCH_MLP; d.bias = MIRAS_BIAS_HUBER_MIXTURE; break;
    case LP: d.architecture = MIRAS_ARCH_MLP; d.bias = MIRAS_BIAS_LP_SMOOTH; break;
    case LQ: d.architecture = MIRAS_ARCH_MLP; d.retention = MIRAS_RETENTION_LQ; break;
    case KL: d.architecture = MIRAS_ARCH_MLP; d.retention = MIRAS_RETENTION_KL; break;
    case BASES: break;
  }
  return d;
}

#define I(f) offsetof(miras_memory_desc, f), 'i'
#define F(f) offsetof(miras_memory_desc, f), 'f'
#define E(f) \
  offsetof(miras_memory_desc, f), 'e' /* enums have the size of int on every ABI we test */
#define MI(f) offsetof(miras_model_desc, f), 'i'
#define MF(f) offsetof(miras_model_desc, f), 'f'
#define TI(f) offsetof(miras_trainer_desc, f), 'i'

typedef struct change { size_t offset; char type; double value; } change;
typedef struct wrong { enum base base; const char *field, *value; change c[4]; } wrong;

static void apply(void *d, const change *c) {
  int i;
  for (i = 0; i < 4 && c[i].type; i++) {
    char *at = (char *)d + c[i].offset;
    int whole = c[i].type == 'f' ? 0 : (int)c[i].value;
    float real = (float)c[i].value;
    if (c[i].type == 'f') memcpy(at, &real, sizeof real);
    else memcpy(at, &whole, sizeof whole);
  }
}

#define LARGE 2147483647.0

static const wrong wrong_memories[] = {
  /* every field by itself, out of its range */
  {EXACT, "architecture", "-1", {{E(architecture), -1}}},
  {EXACT, "architecture", "5", {{E(architecture), MIRAS_ARCH_COUNT}}},
  {EXACT, "bias", "-1", {{E(bias), -1}}},
  {EXACT, "bias", "12", {{E(bias), MIRAS_BIAS_COUNT}}},
  {EXACT, "retention", "-1", {{E(retention), -1}}},
  {EXACT, "retention", "14", {{E(retention), MIRAS_RETENTION_COUNT}}},
  {EXACT, "algorithm", "-1", {{E(algorithm), -1}}},
  {EXACT, "algorithm", "7", {{E(algorithm), MIRAS_ALGORITHM_COUNT}}},
  {DECAY, "order", "-1", {{E(order), -1}}},
  {DECAY, "order", "2", {{E(order), MIRAS_ORDER_COUNT}}},
  {EXACT, "batch", "-1", {{I(batch), -1}}},
  {EXACT, "batch", "-2147483648", {{I(batch), -LARGE - 1}}},
  {EXACT, "heads", "-1", {{I(heads), -1}}},
  {EXACT, "heads", "2147483647", {{I(heads), LARGE}}},
  {EXACT, "key_dim", "0", {{I(key_dim), 0}}},
  {EXACT, "key_dim", "-1", {{I(key_dim), -1}}},
  {EXACT, "key_dim", "4097", {{I(key_dim), 4097}}},
  {EXACT, "key_dim", "2147483647", {{I(key_dim), LARGE}}},
  {EXACT, "value_dim", "-1", {{I(value_dim), -1}}},
  {EXACT, "value_dim", "4097", {{I(value_dim), 4097}}},
  {EXACT, "chunk", "-1", {{I(chunk), -1}}},
  {MLP, "chunk", "1025", {{I(chunk), 1025}}},
  {MLP, "depth", "-1", {{I(depth), -1}}},
  {MLP, "depth", "5", {{I(depth), 5}}},
  {MLP, "expansion", "-1", {{I(expansion), -1}}},
  {MLP, "expansion", "17", {{I(expansion), 17}}},
  {MLP, "activation", "-1", {{E(activation), -1}}},
  {MLP, "activation", "10", {{E(activation), MIRAS_FN_COUNT}}},
  {MLP, "activation", "5 (relu); it can be gelu silu none", {{E(activation), MIRAS_FN_RELU}}},
  {MLP, "inner_norm", "-1", {{I(inner_norm), -1}}},
  {MLP, "inner_norm", "2", {{I(inner_norm), 2}}},
  {MLP, "inner_residual", "-1", {{I(inner_residual), -1}}},
  {MLP, "inner_residual", "2", {{I(inner_residual), 2}}},
  {DECAY, "decay_gate", "-1", {{E(decay_gate), -1}}},
  {DECAY, "decay_gate", "4", {{E(decay_gate), MIRAS_GATE_COUNT}}},
  {DECAY, "decay_gate", "3", {{E(decay_gate), MIRAS_GATE_ENTRY}}},     /* its bias is L2         */
  {DECAY, "learning_rate_gate", "3", {{E(learning_rate_gate), MIRAS_GATE_ENTRY}}},
  {DECAY,
   "inner_steps",
   "2",
   {{E(decay_gate), MIRAS_GATE_ENTRY}, {E(bias), MIRAS_BIAS_DOT}, {I(inner_steps), 2}}},
  {DECAY,
   "order",
   "1",
   {{E(decay_gate), MIRAS_GATE_ENTRY},
    {E(bias), MIRAS_BIAS_DOT},
    {E(order), MIRAS_ORDER_DECAY_FIRST}}},
  {DECAY,
   "value_decay_gate",
   "2",
   {{E(decay_gate), MIRAS_GATE_ENTRY},
    {E(bias), MIRAS_BIAS_DOT},
    {E(value_decay_gate), MIRAS_GATE_CHANNEL}}},
  {EXACT, "learning_rate_gate", "-1", {{E(learning_rate_gate), -1}}},
  {EXACT,
   "learning_rate_gate",
   "2",
   {{E(learning_rate_gate), MIRAS_GATE_CHANNEL},
    {E(algorithm), MIRAS_ALGORITHM_IMPLICIT},
    {I(diagonal), 1}}},
  {TITANS, "momentum_gate", "-1", {{E(momentum_gate), -1}}},
  {TITANS, "momentum_gate", "2", {{E(momentum_gate), MIRAS_GATE_CHANNEL}}},
  {HUBER, "threshold_gate", "-1", {{E(threshold_gate), -1}}},
  {HUBER, "threshold_gate", "3", {{E(threshold_gate), MIRAS_GATE_ENTRY}}},
  {DECAY, "decay_rate", "-0.25", {{F(decay_rate), -0.25}}},
  {DECAY, "decay_rate", "1.5", {{F(decay_rate), 1.5}}},
  {DECAY, "decay_rate", "nan", {{F(decay_rate), (double)NAN}}},
  {DECAY, "decay_rate", "inf", {{F(decay_rate), (double)INFINITY}}},
  {DECAY, "decay_ratio", "-0.25", {{F(decay_ratio), -0.25}}},
  {DECAY, "decay_ratio", "1.5", {{F(decay_ratio), 1.5}}},
  {DECAY, "decay_ratio", "nan", {{F(decay_ratio), (double)NAN}}},
  {EXACT, "learning_rate", "-0.5", {{F(learning_rate), -0.5}}},
  {EXACT, "learning_rate", "nan", {{F(learning_rate), (double)NAN}}},
  {EXACT, "learning_rate", "inf", {{F(learning_rate), (double)INFINITY}}},
  {TITANS, "momentum", "-0.25", {{F(momentum), -0.25}}},
  {TITANS, "momentum", "1.5", {{F(momentum), 1.5}}},
  {TITANS, "momentum", "nan", {{F(momentum), (double)NAN}}},
  {HUBER, "threshold", "-0.5", {{F(threshold), -0.5}}},
  {HUBER, "threshold", "nan", {{F(threshold), (double)NAN}}},
  {HUBER, "threshold", "inf", {{F(threshold), (double)INFINITY}}},
  {LP, "p", "0.5", {{F(p), 0.5}}},
  {LP, "p", "-3", {{F(p), -3}}},
  {LP, "p", "8.5", {{F(p), 8.5}}},
  {LP, "p", "nan", {{F(p), (double)NAN}}},
  {LQ, "q", "0.5", {{F(q), 0.5}}},
  {LQ, "q", "8.5", {{F(q), 8.5}}},
  {LQ, "q", "nan", {{F(q), (double)NAN}}},
  {LP, "sharpness", "0.0625", {{F(sharpness), 0.0625}}},
  {HUBER, "sharpness", "101", {{F(sharpness), 101}}},
  {HUBER, "sharpness", "nan", {{F(sharpness), (double)NAN}}},
  {KL, "simplex", "-1", {{F(simplex), -1}}},
  {KL, "simplex", "nan", {{F(simplex), (double)NAN}}},
  {KL, "simplex", "inf", {{F(simplex), (double)INFINITY}}},
  {KL, "simplex_whole", "-1", {{I(simplex_whole), -1}}},
  {KL, "simplex_whole", "2", {{I(simplex_whole), 2}}},
  {MLP, "ball", "-1", {{F(ball), -1}}},
  {MLP, "ball", "1e+07", {{F(ball), 1e7}}},
  {EXACT, "ball", "2e+06", {{F(ball), 2e6}}},
  /* choices that contradict each other */
  {KL, "ball", "0.5", {{F(ball), 0.5}}},
  {EXACT, "ball", "0.5", {{F(ball), 0.5}, {E(algorithm), MIRAS_ALGORITHM_IMPLICIT}}},
  {EXACT, "normalize", "1", {{F(ball), 0.5}, {I(normalize), 1}}},
  {DECAY, "omega", "4",
   {{E(decay_gate), MIRAS_GATE_ENTRY}, {E(order), 0}, {E(bias), MIRAS_BIAS_DOT}, {I(omega), 4}}},
  {DECAY, "ball", "0.5",
   {{E(decay_gate), MIRAS_GATE_ENTRY}, {E(order), 0}, {E(bias), MIRAS_BIAS_DOT}, {F(ball), 0.5}}},
  {MLP, "omega", "65", {{I(omega), 65}}},
  {EXACT, "omega", "-1", {{I(omega), -1}}},
  {KL, "omega", "4", {{I(omega), 4}}},
  {MLP, "omega", "4", {{I(omega), 4}, {I(inner_steps), 2}}},
  {MLP, "omega", "4", {{I(omega), 4}, {E(step_bound), 2}}},
  {LP, "omega", "4", {{I(omega), 4}}},
  {EXACT, "omega", "4",
   {{I(omega), 4}, {E(algorithm), MIRAS_ALGORITHM_LEAST_SQUARES}, {F(ridge), 1}}},
  {MLP, "omega", "4",
   {{I(omega), 4}, {E(learning_rate_gate), MIRAS_GATE_CHANNEL}}},
  {KL, "algorithm", "6", {{E(algorithm), MIRAS_ALGORITHM_MUON}}},
  {EXACT, "architecture", "3",
   {{E(algorithm), MIRAS_ALGORITHM_MUON}, {E(architecture), MIRAS_ARCH_VECTOR}}},
  {MLP, "inner_steps", "2", {{E(algorithm), MIRAS_ALGORITHM_MUON}, {I(inner_steps), 2}}},
  {MLP, "step_bound", "1", {{E(algorithm), MIRAS_ALGORITHM_MUON}, {E(step_bound), 1}}},
  {MLP, "inner_residual", "1", {{I(inner_residual), 1}, {I(value_dim), 6}}},
  {MLP,
   "decay_gate",
   "2",
   {{E(decay_gate), MIRAS_GATE_CHANNEL}, {E(retention), MIRAS_RETENTION_L2}, {I(depth), 3}}},
  {MLP,
   "learning_rate_gate",
   "2",
   {{E(learning_rate_gate), MIRAS_GATE_CHANNEL}, {I(value_dim), 6}}},
  {MLP,
   "learning_rate_gate",
   "2",
   {{E(learning_rate_gate), MIRAS_GATE_CHANNEL},
    {E(retention), MIRAS_RETENTION_ELASTIC},
    {F(sparsity), 1}}},
  {TITANS, "decay_gate", "2", {{E(decay_gate), MIRAS_GATE_CHANNEL}}},
  {KL, "simplex_logits", "4", {{I(chunk), 4}}},
  {KL, "decay_gate", "2", {{E(decay_gate), MIRAS_GATE_CHANNEL}, {I(simplex_whole), 1}}},
  {KL, "simplex_whole", "0", {{E(architecture), MIRAS_ARCH_VECTOR}}},
  {EXACT, "value_dim", "6", {{E(architecture), MIRAS_ARCH_VECTOR}, {I(value_dim), 6}}},
  {EXACT, "inner_steps", "2", {{I(separate_erase), 1}, {I(inner_steps), 2}}},
  {MLP, "token_rates", "1", {{I(token_rates), 1}, {E(retention), MIRAS_RETENTION_L2}}},
  {MLP, "token_rates", "3", {{I(token_rates), 3}}},
  {EXACT, "token_rates", "1", {{I(token_rates), 1}}},
  {MLP, "inner_bias", "1", {{I(inner_bias), 1}, {E(retention), MIRAS_RETENTION_L2}}},
  {EXACT, "inner_bias", "1", {{I(inner_bias), 1}}},
  {MLP, "bias", "10", {{E(bias), MIRAS_BIAS_CUSTOM}}},
  {MLP, "custom", "NULL", {{E(retention), MIRAS_RETENTION_CUSTOM}}},
  {DECAY,
   "decay_gate",
   "2",
   {{E(decay_gate), MIRAS_GATE_CHANNEL}, {E(algorithm), MIRAS_ALGORITHM_MOMENTUM}}},
  {DECAY, "decay_gate", "2", {{E(decay_gate), MIRAS_GATE_CHANNEL}, {E(bias), MIRAS_BIAS_HUBER}}},
  {EXACT, "decay_gate", "2", {{E(decay_gate), MIRAS_GATE_CHANNEL}}},
  {EXACT, "decay_gate", "1", {{E(decay_gate), MIRAS_GATE_HEAD}}},
  {EXACT, "decay_rate", "0.25", {{F(decay_rate), 0.25}}},
  {EXACT, "decay_ratio", "0.5", {{F(decay_ratio), 0.5}}},
  {MLP, "decay_rate", "0.25", {{F(decay_rate), 0.25}}},
  {MLP, "order", "1", {{E(order), MIRAS_ORDER_DECAY_FIRST}, {E(retention), MIRAS_RETENTION_L2}}},
  {DECAY,
   "order",
   "1",
   {{E(order), MIRAS_ORDER_DECAY_FIRST}, {E(algorithm), MIRAS_ALGORITHM_MOMENTUM}}},
  {DECAY, "momentum", "0.5", {{F(momentum), 0.5}}},
  {DECAY, "momentum_gate", "1", {{E(momentum_gate), MIRAS_GATE_HEAD}}},
  {MLP, "threshold_gate", "1", {{E(threshold_gate), MIRAS_GATE_HEAD}}},
  {LP, "threshold_gate", "1", {{E(threshold_gate), MIRAS_GATE_HEAD}}},
  {MLP, "threshold", "0.5", {{F(threshold), 0.5}}},
  {MLP, "p", "3", {{F(p), 3}}},
  {MLP, "q", "4", {{F(q), 4}}},
  {MLP, "sharpness", "10", {{F(sharpness), 10}}},
  {MLP, "simplex", "1", {{F(simplex), 1}}},
  {MLP, "simplex_whole", "1", {{I(simplex_whole), 1}}},
  {EXACT, "decay_rate", "nan", {{F(decay_rate), (double)NAN}}},
  {EXACT, "momentum", "nan", {{F(momentum), (double)NAN}}},
  {MLP, "p", "nan", {{F(p), (double)NAN}}},
  {EXACT, "depth", "2", {{I(depth), 2}}},
  {EXACT, "expansion", "4", {{I(expansion), 4}}},
  {EXACT, "activation", "3", {{E(activation), MIRAS_FN_SILU}}},
  {EXACT, "inner_norm", "1", {{I(inner_norm), 1}}},
  {EXACT, "inner_residual", "1", {{I(inner_residual), 1}}},
  {EXACT, "inner_bias", "1", {{I(inner_bias), 1}}},
  {MLP, "inner_bias", "2", {{I(inner_bias), 2}}},
  {EXACT, "feature_map", "-1", {{E(feature_map), -1}}},
  {EXACT, "feature_map", "10", {{E(feature_map), MIRAS_FN_COUNT}}},
  {EXACT, "feature_map", "3 (silu)", {{E(feature_map), MIRAS_FN_SILU}}},
  {MLP, "feature_map", "7", {{E(feature_map), MIRAS_FN_ELU}}},
  {EXACT, "normalize", "1", {{I(normalize), 1}}},
  {EXACT, "normalize", "2", {{I(normalize), 2}}},
  {EXACT, "inner_steps", "-1", {{I(inner_steps), -1}}},
  {EXACT, "inner_steps", "9", {{I(inner_steps), 9}}},
  {EXACT, "separate_erase", "2", {{I(separate_erase), 2}}},
  {MLP, "separate_erase", "1", {{I(separate_erase), 1}}},
  {EXACT, "diagonal", "1", {{I(diagonal), 1}}},
  {EXACT, "token_rates", "1", {{I(token_rates), 1}}},
  {MLP, "token_rates", "3", {{I(token_rates), 3}}},
  {EXACT, "window", "5", {{I(window), 5}}},
  {EXACT, "iterations", "5", {{I(iterations), 5}}},
  {EXACT, "tolerance", "0.5", {{F(tolerance), 0.5}}},
  {EXACT, "ridge", "0.5", {{F(ridge), 0.5}}},
  {EXACT, "ridge_relative", "1", {{I(ridge_relative), 1}}},
  {EXACT, "outlier", "4", {{F(outlier), 4}}},
  {EXACT, "outlier", "0.5",
   {{E(algorithm), MIRAS_ALGORITHM_RECURSIVE}, {F(ridge), 1}, {F(outlier), 0.5}}},
  {EXACT, "outlier", "nan",
   {{E(algorithm), MIRAS_ALGORITHM_RECURSIVE}, {F(ridge), 1}, {F(outlier), (double)NAN}}},
  {EXACT, "ridge_relative", "2",
   {{E(algorithm), MIRAS_ALGORITHM_RECURSIVE}, {F(ridge), 1}, {I(ridge_relative), 2}}},
  {EXACT, "ridge_relative", "1",
   {{E(algorithm), MIRAS_ALGORITHM_LEAST_SQUARES}, {F(ridge), 1}, {I(ridge_relative), 1}}},
  {EXACT, "value_decay_gate", "2", {{E(value_decay_gate), MIRAS_GATE_CHANNEL}}},
  {EXACT, "balance", "0.5", {{F(balance), 0.5}}},
  {EXACT, "sparsity", "0.5", {{F(sparsity), 0.5}}},
  {EXACT, "step_epsilon", "0.5", {{F(step_epsilon), 0.5}}},
  {EXACT,
   "step_epsilon",
   "1e-13",
   {{E(algorithm), MIRAS_ALGORITHM_NORMALIZED}, {F(step_epsilon), 1e-13}}},
  {MLP, "algorithm", "5", {{E(algorithm), MIRAS_ALGORITHM_NORMALIZED}}},
  {EXACT, "diagonal", "1", {{E(algorithm), MIRAS_ALGORITHM_NORMALIZED}, {I(diagonal), 1}}},
  {EXACT, "smooth_shrink", "1", {{I(smooth_shrink), 1}}},
  {EXACT, "simplex_logits", "1", {{I(simplex_logits), 1}}},
  {EXACT, "decay_schedule", "3", {{E(decay_schedule), MIRAS_DECAY_SCHEDULE_COUNT}}},
  {EXACT, "decay_schedule", "1", {{E(decay_schedule), MIRAS_DECAY_SCHEDULE_LIGHTNING}}},
  {DECAY, "layer", "1", {{I(layer), 1}}},
  {DECAY, "layers", "2", {{I(layers), 2}}},
};

static const wrong wrong_models[] = {
  {BASES, "vocab", "0", {{MI(vocab), 0}}},
  {BASES, "vocab", "1", {{MI(vocab), 1}}},
  {BASES, "vocab", "-1", {{MI(vocab), -1}}},
  {BASES, "vocab", "16777217", {{MI(vocab), 16777217}}},
  {BASES, "width", "0", {{MI(width), 0}}},
  {BASES, "width", "-1", {{MI(width), -1}}},
  {BASES, "width", "65537", {{MI(width), 65537}}},
  {BASES, "layers", "0", {{MI(layers), 0}}},
  {BASES, "layers", "-1", {{MI(layers), -1}}},
  {BASES, "layers", "257", {{MI(layers), 257}}},
  {BASES, "mlp.hidden", "-1", {{MI(layer[0].mlp.hidden), -1}}},
  {BASES, "mlp.hidden", "2147483647", {{MI(layer[0].mlp.hidden), LARGE}}},
  {BASES, "mlp.none", "2", {{MI(layer[0].mlp.hidden), 0}, {MI(layer[0].mlp.none), 2}}},
  {BASES, "mlp.hidden", "24", {{MI(layer[0].mlp.none), 1}}},
  {BASES, "mlp.act", "4 (sigmoid); it can be silu relu2 gelu",
   {{MI(layer[0].mlp.act), MIRAS_FN_SIGMOID}}},
  {BASES,
   "mlp.act",
   "6",
   {{MI(layer[0].mlp.hidden), 0},
    {MI(layer[0].mlp.none), 1},
    {MI(layer[0].mlp.act), MIRAS_FN_RELU2}}},
  {BASES, "mlp.token_shift", "1", {{MI(layer[0].mlp.token_shift), 1}}},
  {BASES, "mlp.experts", "-1", {{MI(layer[0].mlp.experts), -1}}},
  {BASES, "mlp.experts", "1025", {{MI(layer[0].mlp.experts), 1025}}},
  {BASES,
   "mlp.experts",
   "4",
   {{MI(layer[0].mlp.experts), 4}, {MI(layer[0].mlp.act), MIRAS_FN_RELU2}}},
  {BASES,
   "mlp.experts",
   "4",
   {{MI(layer[0].mlp.experts), 4}, {MI(layer[0].mlp.hidden), 0}, {MI(layer[0].mlp.none), 1}}},
  {BASES, "mlp.experts_per_token", "2", {{MI(layer[0].mlp.experts_per_token), 2}}},
  {BASES,
   "mlp.experts_per_token",
   "33",
   {{MI(layer[0].mlp.experts), 64}, {MI(layer[0].mlp.experts_per_token), 33}}},
  {BASES,
   "mlp.experts_per_token",
   "5",
   {{MI(layer[0].mlp.experts), 4}, {MI(layer[0].mlp.experts_per_token), 5}}},
  {BASES, "mlp.norm_topk", "1", {{MI(layer[0].mlp.norm_topk), 1}}},
  {BASES, "mlp.shared_experts", "1", {{MI(layer[0].mlp.shared_experts), 1}}},
  {BASES,
   "mlp.shared_experts",
   "9",
   {{MI(layer[0].mlp.experts), 4}, {MI(layer[0].mlp.shared_experts), 9}}},
  {BASES, "norm", "2", {{MI(norm), MIRAS_NORM_NONE}}},
  {BASES, "embed_norm", "2", {{MI(embed_norm), 2}}},
  {BASES,
   "mixer.keep_min",
   "1",
   {{MI(layer[0].memory.decay_gate), MIRAS_GATE_HEAD}, {MF(layer[0].mixer.keep_min), 1}}},
  {BASES,
   "mixer.keep_min",
   "0.5",
   {{MI(layer[0].memory.decay_gate), MIRAS_GATE_HEAD},
    {MI(layer[0].mixer.decay_form), MIRAS_DECAY_FORM_BOUNDED},
    {MF(layer[0].mixer.keep_min), 0.5}}},
  {BASES, "rwkv.decay_rank", "8", {{MI(layer[0].rwkv.decay_rank), 8}}},
  {BASES, "rwkv.rate_rank", "8", {{MI(layer[0].rwkv.rate_rank), 8}}},
  {BASES, "mixer.out_gate_rank", "4097", {{MI(layer[0].mixer.out_gate_rank), 4097}}},
  {BASES,
   "mixer.out_gate_rank",
   "8",
   {{MI(layer[0].mixer.out_gate_rank), 8}, {MI(layer[0].mixer.out_gate), MIRAS_FN_NONE}}},
  {BASES,
   "mixer.out_gate_rank",
   "8",
   {{MI(layer[0].mixer.out_gate_rank), 8}, {MI(layer[0].type), MIRAS_LAYER_MAG}}},
  {BASES, "rwkv.value_rank", "8", {{MI(layer[0].rwkv.value_rank), 8}}},
  {BASES, "mixer.d_skip", "3", {{MI(layer[0].mixer.d_skip), 3}}},
  {BASES, "mixer.decay_form", "6",
   {{MI(layer[0].memory.decay_gate), MIRAS_GATE_HEAD},
    {MI(layer[0].mixer.decay_form), MIRAS_DECAY_FORM_TIME}}},
  {BASES, "mixer.key_slots", "8", {{MI(layer[0].mixer.key_slots), 8}}},
  {BASES, "mixer.top_slots", "8", {{MI(layer[0].mixer.top_slots), 8}}},
  {BASES, "mixer.levels", "33", {{MI(layer[0].mixer.levels), 33}}},
  {BASES, "mixer.levels", "-1", {{MI(layer[0].mixer.levels), -1}}},
  {BASES, "mixer.out_act", "2 (gelu); it can be none silu relu elu",
   {{MI(layer[0].mixer.out_act), MIRAS_FN_GELU}}},
  {BASES, "mixer.out_act", "silu",
   {{MI(layer[0].mixer.out_act), MIRAS_FN_SILU}, {MI(layer[0].type), MIRAS_LAYER_MAG}}},
  {BASES, "mixer.from_values", "3", {{MI(layer[0].mixer.from_values), 3}}},
  {BASES, "mixer.from_values_epsilon", "0.5", {{MF(layer[0].mixer.from_values_epsilon), 0.5}}},
  {BASES,
   "mixer.from_values_epsilon",
   "0.5",
   {{MI(layer[0].mixer.from_values), 2}, {MF(layer[0].mixer.from_values_epsilon), 0.5}}},
  {BASES, "mixer.dt_min", "0.5", {{MF(layer[0].mixer.dt_min), 0.5}}},
  {BASES, "mixer.dt_max", "0.5", {{MF(layer[0].mixer.dt_max), 0.5}}},
  {BASES, "mixer.conv_size", "-1", {{MI(layer[0].mixer.conv_size), -1}}},
  {BASES, "mixer.conv_size", "9", {{MI(layer[0].mixer.conv_size), 9}}},
  {BASES, "mixer.gate_rank", "-1", {{MI(layer[0].mixer.gate_rank), -1}}},
  {BASES, "mixer.gate_rank", "2147483647", {{MI(layer[0].mixer.gate_rank), LARGE}}},
  {BASES, "untied", "-1", {{MI(untied), -1}}},
  {BASES, "untied", "2", {{MI(untied), 2}}},
  {BASES, "dropout", "-0.25", {{MF(dropout), -0.25}}},
  {BASES, "dropout", "0.95", {{MF(dropout), 0.95}}},
  {BASES, "dropout", "nan", {{MF(dropout), (double)NAN}}},
  {BASES, "key_dim", "0", {{MI(layer[0].memory.key_dim), 0}, {MI(layer[0].memory.heads), 7}}},
  {BASES, "heads", "-2", {{MI(layer[0].memory.heads), -2}}},
  {BASES, "chunk", "1025", {{MI(layer[0].memory.chunk), 1025}}},
  {BASES, "bias", "12", {{MI(layer[0].memory.bias), MIRAS_BIAS_COUNT}}},
  {BASES, "momentum", "1.5", {{MF(layer[0].memory.momentum), 1.5}}},
};

static const wrong wrong_trainers[] = {
  { BASES, "batch", "-1", { { TI(batch), -1 } } },
  { BASES, "batch", "65537", { { TI(batch), 65537 } } },
  { BASES, "context", "-1", { { TI(context), -1 } } },
  { BASES, "context", "0", { { TI(context), 0 } } },
  { BASES, "context", "16777217", { { TI(context), 16777217 } } },
  { BASES, "carried", "-1", { { TI(carried), -1 } } },
  { BASES, "carried", "1048577", { { TI(carried), 1048577 } } },
  { BASES, "recompute", "-1", { { TI(recompute), -1 } } },
  { BASES, "recompute", "65", { { TI(recompute), 65 } } },
  { BASES, "batch", "65536", { { TI(batch), 65536 }, { TI(context), 1 << 15 } } },
};

/* The sentence must name the field as a word and hold the value. */
static int names(const char *why, const char *word) {
  const char *at = why;
  size_t n = strlen(word);
  for (; (at = strstr(at, word)) != NULL; at++) {
    int before = at == why ? ' ' : (unsigned char)at[-1], after = (unsigned char)at[n];
    if (strchr("abcdefghijklmnopqrstuvwxyz_0123456789", before) && before) continue;
    if (strchr("abcdefghijklmnopqrstuvwxyz_0123456789", after) && after) continue;
    return 1;
  }
  return 0;
}

static void refuse(size_t got, const char *why, const char *field, const char *value, size_t row) {
  if (got) fail_msg("row %u (%s = %s) was accepted", (unsigned)row, field, value);
  if (!names(why, field) || !names(why, value))
    fail_msg("row %u: no %s and %s in the sentence \"%s\"", (unsigned)row, field, value, why);
  if (strlen(why) > 220) fail_msg("row %u: the sentence is too long: %s", (unsigned)row, why);
}

static void wrong_memories_are_refused(void **state) {
  size_t i;
  static unsigned char buffer[1 << 16];
  (void)state;
  for (i = 0; i < BASES; i++) {
    miras_memory_desc d = base_desc((enum base)i);
    char why[256];
    if (!miras_memory_size(&d, why, sizeof why)) fail_msg("base %u: %s", (unsigned)i, why);
  }
  for (i = 0; i < sizeof wrong_memories / sizeof wrong_memories[0]; i++) {
    const wrong *w = &wrong_memories[i];
    miras_memory_desc d = base_desc(w->base);
    char why[256] = "nothing was written";
    apply(&d, w->c);
    refuse(miras_memory_size(&d, why, sizeof why), why, w->field, w->value, i);
    assert_int_equal(miras_memory_size(&d, NULL, 0), 0);
    assert_null(miras_memory_init(buffer, sizeof buffer, &d, NULL, 0));
    assert_null(miras_memory_open(&d, NULL, NULL, 0));
  }
  assert_int_equal(malloc_count, 0);
}

static void wrong_models_are_refused(void **state) {
  size_t i;
  static unsigned char buffer[64];
  (void)state;
  for (i = 0; i < sizeof wrong_models / sizeof wrong_models[0]; i++) {
    const wrong *w = &wrong_models[i];
    miras_model_desc d = small_model(MIRAS_PRESET_TITANS);
    char why[256] = "nothing was written";
    apply(&d, w->c);
    refuse(miras_model_size(&d, why, sizeof why), why, w->field, w->value, i);
    assert_int_equal(miras_model_size(&d, NULL, 0), 0);
    assert_null(miras_model_init(buffer, sizeof buffer, &d, NULL, 0));
    assert_null(miras_model_open(&d, NULL, NULL, 0));
  }
  assert_int_equal(malloc_count, 0);
}

/* A field of one type of layer is refused in layers of others, unless it is 0. */
static void types_refuse_each_other(void **state) {
  static const struct { const char *part, *only; } parts[] = {
    { "memory.", "only with type memory" }, { "mixer.", "only with type memory" },
    { "attention.", "only with type attention" }, { "rwkv.", "only with type rwkv" },
    { "conv.", "only with type conv" } };
  const char *name;
  int i, refusals = 0;
  (void)state;
  for (i = 0; (name = miras_model_desc_field(i)) != NULL; i++) {
    miras_model_desc d = small_model(MIRAS_PRESET_TITANS);
    char full[64], why[256] = "", number[32] = "1";
    const char *only;
    size_t k = 0;
    while (k < 5 && strncmp(name, parts[k].part, strlen(parts[k].part)) != 0) k++;
    if (k == 5 || strcmp(name, "attention.rope.type") == 0) continue;   /* which is 0 always      */
    only = parts[k].only;
    d.layers = 0;
    d.layer[0] = d.layer[1];
    d.layer[0].letter = 'm';
    if (k == 2) d.layer[0] = small_model(MIRAS_PRESET_TITANS).layer[0];
    snprintf(d.pattern, sizeof d.pattern, "wm");
    if (!miras_model_size(&d, why, sizeof why)) fail_msg("%s", why);
    snprintf(full, sizeof full, "m.%s", name);
    if (miras__field_called(name)->kind == MIRAS__FUNCTION)  /* which have no numbers in texts    */
      strcpy(number, strcmp(name, "memory.feature_map") && strcmp(name, "mixer.out_act")
                       ? "none" : "elu");               /* whose none is 0 */
    assert_int_equal(miras_model_desc_set(&d, full, number), MIRAS_OK);
    refuse(miras_model_size(&d, why, sizeof why), why, name, number, (size_t)i);
    if (!strstr(why, only))
      fail_msg("no type in \"%s\"", why);
    d = small_model(MIRAS_PRESET_TITANS);
    d.layers = 0;
    snprintf(d.pattern, sizeof d.pattern, "g");
    if (!miras_model_size(&d, why, sizeof why)) fail_msg("%s", why);
    full[0] = 'g';
    assert_int_equal(miras_model_desc_set(&d, full, number), MIRAS_OK);
    refuse(miras_model_size(&d, why, sizeof why), why, name, number, (size_t)i);
    if (!strstr(why, only))
      fail_msg("no type in \"%s\"", why);
    refusals++;
  }
  assert_true(refusals > 80);
  {   /* and what has no name in files */
    miras_custom custom;
    miras_model_desc d = small_model(MIRAS_PRESET_TITANS);
    char why[256] = "";
    memset(&custom, 0, sizeof custom);
    d.layers = 0;
    snprintf(d.pattern, sizeof d.pattern, "w");
    d.layer[1].memory.batch = 2;
    refuse(miras_model_size(&d, why, sizeof why), why, "batch", "2", 0);
    d.layer[1].memory.batch = 0;
    d.layer[1].memory.custom = &custom;
    refuse(miras_model_size(&d, why, sizeof why), why, "custom", "NULL", 1);
    d.layer[1].memory.custom = NULL;
    snprintf(d.pattern, sizeof d.pattern, "wg");
    d.layer[3].memory.batch = 2;
    refuse(miras_model_size(&d, why, sizeof why), why, "batch", "2", 0);
    d.layer[3].memory.batch = 0;
    d.layer[3].mlp.none = 1;     /* it would be nothing */
    refuse(miras_model_size(&d, why, sizeof why), why, "mlp.none", "type other than mlp", 0);
    d = small_model(MIRAS_PRESET_TITANS);
    d.layer[0].letter = '!';   /* names in files could not begin with it */
    refuse(miras_model_size(&d, why, sizeof why), why, "letter", "33", 2);
  }
}

/* NaN and infinity are within the range of no field, wherever it has a meaning. */
static void fields_are_finite(void **state) {
  static const float bad[] = { NAN, INFINITY, -INFINITY };
  int kind, i, k, count = 0;
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    const miras_model_desc d = small_model((miras_preset)kind);
    for (i = 0; i < MIRAS__FIELDS; i++) {
      const miras__field *f = &miras__fields[i];
      const char *name = strrchr(f->name, '.') ? strrchr(f->name, '.') + 1 : f->name;
      const size_t in_memory = f->at - offsetof(miras__case, l.memory);
      for (k = 0; f->kind == MIRAS__REAL && k < 3; k++, count++) {
        miras_model_desc e = d;
        miras_memory_desc m = small_memory((miras_preset)kind);
        char why[256] = "";
        memcpy((char *)&e + miras__offset(f, 0), &bad[k], sizeof(float));
        refuse(miras_model_size(&e, why, sizeof why), why, name, k ? "inf" : "nan", (size_t)i);
        if (!miras__of_memory(f)) continue;
        memcpy((char *)&m + in_memory, &bad[k], sizeof(float));
        refuse(miras_memory_size(&m, why, sizeof why), why, name, k ? "inf" : "nan", (size_t)i);
      }
    }
  }
  assert_true(count > 1000);
}

/* A step with a number out of its range moves nothing: parameters, moments, gradients, steps. */
static void steps_refuse(void **state) {
  static const float bad[] = { NAN, INFINITY, -INFINITY };
  miras_model_desc md = small_model(MIRAS_PRESET_TITANS);
  miras_model *m = miras_model_open(&md, NULL, NULL, 0);
  miras_trainer_desc td = small_trainer();
  miras_trainer *t = miras_trainer_open(m, &td, NULL, NULL, 0);
  int32_t tokens[9] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
  const size_t bytes = miras_save_to(t, NULL, 0);
  unsigned char *before = (unsigned char *)malloc(bytes), *after = (unsigned char *)malloc(bytes);
  const miras_adamw_options usual = MIRAS_ADAMW(0, 0);
  miras_adamw_options o = usual;
  float *grads, norm;
  size_t count;
  int i, k;
  (void)state;
  assert_true(m && t && before && after);
  (void)miras_model_params(m, &count);
  grads = (float *)malloc(count * sizeof *grads);
  assert_non_null(grads);
  assert_true(isfinite(loss_of(t, tokens, tokens + 1, 1, 8, 1)));
  assert_int_equal(miras_trainer_backward(t, NULL), MIRAS_OK);
  memcpy(grads, miras_trainer_grads(t), count * sizeof *grads);
  assert_int_equal(miras_save_to(t, before, bytes), bytes);
  for (i = 0; i < 3; i++) {
    assert_true(isnan(norm_of_step(t, NULL, bad[i])));
    assert_true(isnan(norm_of_step(t, NULL, i ? 1.1e6f : -1.1e6f)));
    for (k = 0; k < 5; k++) {
      float *const field[] = { &o.beta1, &o.beta2, &o.epsilon, &o.weight_decay, &o.clip };
      o = usual;
      *field[k] = -0.5f;
      assert_true(isnan(norm_of_step(t, &o, 0.01f)));
      *field[k] = bad[i];
      if (k == 4 && i == 1) continue;              /* an infinite clip is none */
      assert_true(isnan(norm_of_step(t, &o, 0.01f)));
      *field[k] = k < 2 ? 1 : 0;
      if (k < 3) assert_true(isnan(norm_of_step(t, &o, 0.01f)));
    }
    assert_true(isnan(norm_of_step(t, NULL, miras_schedule_cosine(3, 0, 9, bad[i], 0.1f))));
  }
  assert_int_equal(miras_trainer_steps(t), 0);
  assert_int_equal(miras_save_to(t, after, bytes), bytes);
  assert_memory_equal(before, after, bytes);
  assert_memory_equal(grads, miras_trainer_grads(t), count * sizeof *grads);
  memset(&o, 0, sizeof o);
  o = usual;
  o.clip = INFINITY;
  norm = norm_of_step(t, &o, 0.01f);         /* nothing is lost: the step can still be made */
  assert_true(isfinite(norm) && norm > 0);
  assert_int_equal(miras_trainer_steps(t), 1);
  miras_trainer_grads(t)[0] = 1;                   /* the largest numbers leave finite parameters */
  o.beta1 = o.beta2 = 0.99999994f;
  o.weight_decay = 1e6f;
  assert_true(isfinite(norm_of_step(t, &o, -1e6f)));
  for (i = 0; i < (int)count; i++) assert_true(isfinite(miras_model_params(m, NULL)[i]));
  free(before);
  free(after);
  free(grads);
  miras_close(t);
  miras_close(m);
}

/* Three fields are called heads; each has a name of its own, and a refusal says it. */
static void heads_have_three_names(void **state) {
  miras_model_desc d = small_model(MIRAS_PRESET_TITANS), e;
  char text[32], why[256] = "";
  (void)state;
  assert_int_equal(miras_model_desc_set(&d, "heads", "4"), MIRAS_OK);
  assert_int_equal(miras_model_desc_set(&d, "memory.heads", "2"), MIRAS_OK);
  assert_int_equal(miras_model_desc_set(&d, "attention.heads", "3"), MIRAS_OK);
  assert_int_equal(d.heads, 4);
  assert_int_equal(d.layer[0].memory.heads, 2);
  assert_int_equal(d.layer[0].attention.heads, 3);
  assert_string_equal(miras_model_desc_get(&d, "heads", text, sizeof text), "4");
  assert_string_equal(miras_model_desc_get(&d, "m.attention.heads", text, sizeof text), "3");
  assert_int_equal(miras_model_desc_set(&d, "weights", "q8"), MIRAS_OK);
  assert_int_equal(d.weights, MIRAS_WEIGHTS_Q8);
  assert_string_equal(miras_model_desc_get(&d, "weights", text, sizeof text), "q8");
  e = d;
  assert_int_equal(miras_model_desc_set(&d, "model.width", "3"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_set(&d, "m.model.heads", "3"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_set(&d, "weights", "int4"), MIRAS_ERR_ARGUMENT);
  assert_memory_equal(&d, &e, sizeof d);
  d = small_model(MIRAS_PRESET_TITANS);
  d.heads = -1;
  refuse(miras_model_size(&d, why, sizeof why), why, "heads", "-1", 0);
}

/* Each of the four choices of every preset can be changed to every other by one call: what it says
 * has changed has, and no more, and the result is a model, and a memory. */
static void choices_change(void **state) {
  static const char *const choices[] = { "architecture", "bias", "retention", "algorithm" };
  int i, k, j, changes = 0;
  (void)state;
  for (i = 0; i < MIRAS_PRESET_COUNT; i += MIRAS_TEST_SHARE > 8 ? 3 : 1)
    for (k = 0; k < 4; k++)
      for (j = 0; j < MIRAS_RETENTION_COUNT; j++) {
        miras_model_desc d, before;
        miras_memory_desc m;
        char field[40], word[32], said[600], why[256], a[MIRAS_PATTERN_SIZE], b[MIRAS_PATTERN_SIZE];
        const char *name;
        miras_result result;
        int f;
        if (!inside_word(word, choices[k], j)) continue;
        snprintf(field, sizeof field, "memory.%s", choices[k]);
        assert_int_equal(miras_model_preset(&d, (miras_preset)i, 4), MIRAS_OK);
        before = d;
        result = miras_model_desc_change(&d, field, word, said, sizeof said);
        if (!strcmp(word, "custom")) {             /* it needs functions */
          assert_int_equal(result, MIRAS_ERR_DESC);
          assert_true(strstr(said, "custom") != NULL);
          assert_memory_equal(&d, &before, sizeof d);
          continue;
        }
        if (d.layer[0].type == MIRAS_LAYER_RWKV4) {   /* layers m have no memory                  */
          assert_int_equal(result, j ? MIRAS_ERR_DESC : MIRAS_OK);
          assert_memory_equal(&d, &before, sizeof d);
          continue;
        }
        if (result != MIRAS_OK) fail_msg("%s, %s %s: %s", miras_preset_name((miras_preset)i), field,
                                         word, said);
        for (f = 0; (name = miras_model_desc_field(f)) != NULL; f++) {
          miras_model_desc_get(&before, name, a, sizeof a);
          miras_model_desc_get(&d, name, b, sizeof b);
          if (strcmp(a, b) && strcmp(name, field) && !names(said, name))
            fail_msg("%s, %s %s: %s changed, not in \"%s\"", miras_preset_name((miras_preset)i),
                     field, word, name, said);
        }
        d.vocab = 16, d.width = 16, d.heads = 2;
        if (!miras_model_size(&d, why, sizeof why))
          fail_msg("%s, %s %s: %s", miras_preset_name((miras_preset)i), field, word, why);
        miras_memory_preset(&m, (miras_preset)i);
        assert_int_equal(miras_memory_desc_change(&m, choices[k], word, said, sizeof said),
                         MIRAS_OK);
        m.key_dim = 8;
        if (!miras_memory_size(&m, why, sizeof why))
          fail_msg("%s alone, %s %s: %s", miras_preset_name((miras_preset)i), field, word, why);
        assert_string_equal(miras_memory_desc_get(&m, choices[k], a, sizeof a), word);
        changes++;
      }
  assert_true(changes > (MIRAS_TEST_SHARE > 8 ? 300 : 1000));
}

/* What a change says, and what it refuses. */
static void changes_say(void **state) {
  miras_model_desc d, e;
  miras_memory_desc m, n, alone;
  miras_custom own;
  char said[256], cut[8], text[32];
  const char *name;
  int i, fields = 0;
  (void)state;
  miras_model_preset(&d, MIRAS_PRESET_YAAD, 2);
  assert_int_equal(miras_model_desc_change(&d, "memory.bias", "l2", said, sizeof said), MIRAS_OK);
  assert_string_equal(said, "memory.threshold_gate constant, memory.sharpness 0");
  assert_int_equal(miras_model_desc_change(&d, "memory.bias", "l2", said, sizeof said), MIRAS_OK);
  assert_string_equal(said, "");
  assert_int_equal(miras_model_desc_change(&d, "m.memory.algorithm", "momentum", cut, sizeof cut),
                   MIRAS_OK);
  assert_string_equal(cut, "memory.");
  assert_int_equal(d.layer[0].memory.decay_gate, MIRAS_GATE_HEAD);   /* not less than it must */
  assert_int_equal(miras_model_desc_change(&d, "dropout", "0.5", NULL, 0), MIRAS_OK);
  e = d;
  assert_int_equal(miras_model_desc_change(&d, "memory.sharpness", "2", said, sizeof said),
                   MIRAS_ERR_DESC);
  assert_true(strstr(said, "sharpness is 2, but it has a meaning only with") != NULL);
  assert_int_equal(miras_model_desc_change(&d, "memory.bias", "huge", said, sizeof said),
                   MIRAS_ERR_ARGUMENT);
  assert_true(strstr(said, "memory.bias cannot be \"huge\"; it can be dot l2 lp ") == said);
  assert_int_equal(miras_model_desc_change(&d, "memory.chunk", "all", said, sizeof said),
                   MIRAS_ERR_ARGUMENT);
  assert_string_equal(said, "memory.chunk cannot be \"all\"; it must lie in 1..1024");
  assert_int_equal(miras_memory_preset(&alone, MIRAS_PRESET_TITANS), MIRAS_OK);
  alone.value_dim = 8;
  assert_int_equal(miras_memory_size(&alone, said, sizeof said), 0);
  assert_string_equal(said, "key_dim is 0; it must lie in 1..4096");
  assert_int_equal(miras_model_desc_change(&d, "memory.colour", "1", said, sizeof said),
                   MIRAS_ERR_ARGUMENT);
  assert_string_equal(said, "there is no field memory.colour");
  assert_int_equal(miras_model_desc_change(&d, NULL, "1", said, sizeof said), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_change(NULL, "dropout", "1", said, sizeof said),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_change(&d, "dropout", NULL, said, sizeof said),
                   MIRAS_ERR_ARGUMENT);
  assert_memory_equal(&d, &e, sizeof d);
  /* one memory: by name */
  miras_memory_preset(&m, MIRAS_PRESET_YAAD);
  n = m;
  assert_int_equal(miras_memory_desc_set(&m, "learning_rate", "0.25"), MIRAS_OK);
  assert_near(m.learning_rate, 0.25, 0);
  assert_int_equal(miras_memory_desc_set(&m, "step", "0.5"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_desc_set(&m, "batch", "3"), MIRAS_OK);
  assert_int_equal(m.batch, 3);
  assert_int_equal(miras_memory_desc_set(&m, "bias", "3"), MIRAS_OK);      /* a word's number */
  assert_string_equal(miras_memory_desc_get(&m, "bias", text, sizeof text), "lp-smooth");
  assert_int_equal(miras_memory_desc_set(&m, "bias", "12"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_desc_set(&m, "bias", "rms"), MIRAS_ERR_ARGUMENT);    /* a key's */
  assert_int_equal(miras_memory_desc_set(&m, "qk_norm", "l2"), MIRAS_OK);
  assert_int_equal(m.qk_norm, MIRAS_QK_NORM_L2);
  assert_int_equal(miras_memory_desc_set(&m, "exact", "1"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_desc_set(&m, "vocab", "3"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_desc_set(&m, "memory.bias", "l2"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_desc_set(NULL, "bias", "l2"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_desc_set(&m, NULL, "l2"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_desc_set(&m, "bias", NULL), MIRAS_ERR_ARGUMENT);
  assert_null(miras_memory_desc_get(&m, "vocab", text, sizeof text));
  assert_null(miras_memory_desc_get(&m, "bias", text, 3));
  assert_null(miras_memory_desc_field(-1));
  for (i = 0; (name = miras_memory_desc_field(i)) != NULL; i++) {
    assert_non_null(miras_memory_desc_get(&m, name, text, sizeof text));
    assert_int_equal(miras_memory_desc_set(&n, name, text), MIRAS_OK);
    fields++;
  }
  assert_true(fields > 50);
  assert_memory_equal(&m, &n, sizeof m);          /* all that is not a pointer, a seed or a limit */
  /* a custom choice that is there, and one that is left */
  memset(&own, 0, sizeof own);
  m.custom = &own;
  assert_int_equal(miras_memory_desc_change(&m, "bias", "l2", said, sizeof said), MIRAS_ERR_DESC);
  assert_true(names(said, "custom"));
}

static void *alloc_none(size_t bytes, void *user) {
  (void)bytes;
  (void)user;
  return NULL;
}

/* Whatever returns NULL says why. */
static void refusals_say_why(void **state) {
  static unsigned char small[64];
  miras_memory_desc d = small_memory(MIRAS_PRESET_YAAD);
  miras_model_desc md = small_model(MIRAS_PRESET_YAAD);
  miras_trainer_desc td = small_trainer();
  miras_server_desc sd = {0};
  miras_model *m = miras_model_open(&md, NULL, NULL, 0);
  miras_allocator none;
  char why[200];
  (void)state;
  assert_non_null(m);
  none.alloc = alloc_none, none.free = NULL, none.user = NULL;
#define SAYS(call, text)                                    \
  do {                                                      \
    why[0] = 0;                                             \
    assert_null(call);                                      \
    if (!strstr(why, text)) fail_msg("%s: %s", #call, why); \
  } while (0)
  SAYS(miras_memory_init(small, sizeof small, &d, why, sizeof why), "bytes is 64; it must be");
  SAYS(miras_memory_init(NULL, 1 << 20, &d, why, sizeof why), "buffer is NULL");
  SAYS(miras_memory_init(small, sizeof small, NULL, why, sizeof why), "NULL");
  SAYS(miras_memory_open(&d, &none, why, sizeof why), "no memory for");
  SAYS(miras_model_init(small, sizeof small, &md, why, sizeof why), "bytes is 64; it must be");
  SAYS(miras_model_open(&md, &none, why, sizeof why), "no memory for");
  SAYS(miras_model_open(NULL, NULL, why, sizeof why), "NULL");
  SAYS(miras_trainer_init(small, sizeof small, m, &td, why, sizeof why), "bytes is 64");
  SAYS(miras_trainer_open(m, &td, &none, why, sizeof why), "no memory for");
  SAYS(miras_trainer_open(NULL, &td, NULL, why, sizeof why), "model is NULL");
  SAYS(miras_server_init(small, sizeof small, m, &sd, why, sizeof why), "bytes is 64");
  SAYS(miras_server_open(m, &sd, &none, why, sizeof why), "no memory for");
  SAYS(miras_session_init(small, sizeof small, m, NULL, why, sizeof why), "bytes is 64");
  SAYS(miras_session_open(m, NULL, &none, why, sizeof why), "no memory for");
  SAYS(miras_session_open(NULL, NULL, NULL, why, sizeof why), "model is NULL");
  sd.batch_tokens = -1;
  SAYS(miras_session_open(m, &sd, NULL, why, sizeof why), "batch_tokens is -1");
  sd.batch_tokens = 0, sd.limit = 64;
  SAYS(miras_session_open(m, &sd, NULL, why, sizeof why), "limit is 64 bytes; the session takes");
  SAYS(miras_server_open(m, &sd, NULL, why, sizeof why), "limit is 64 bytes; the server takes");
  SAYS(miras_pool_open(0, NULL, why, sizeof why), "threads is 0");
  SAYS(miras_pool_open(2, &none, why, sizeof why), "no memory for");
  SAYS(miras_memory_open_file("/nowhere/x", NULL, NULL, NULL, why, sizeof why),
       "could not be opened");
  SAYS(miras_model_open_file("/nowhere/x", NULL, NULL, NULL, why, sizeof why),
       "could not be opened");
#undef SAYS
  miras_close(m);
  assert_int_equal(malloc_count, 0);
}

/* Of what a field needs for a meaning the sentence names the part that is not there. */
static void what_lacks_is_named(void **state) {
  static const struct { const char *field, *value, *other, *to, *lacks; } lack[] = {
    {"mixer.conv_size", "2", "mixer.conv_on", "none", "mixer.conv_on other than none"},
    {"mixer.conv_bias", "1", "mixer.conv_on", "none", "mixer.conv_on other than none"},
    {"mixer.keep_min", "0.5", "mixer.decay_form", "rate",
     "mixer.decay_form sigmoid, root or root8"},
    {"mixer.out_norm_epsilon", "0.5", "mixer.out_norm", "none", "mixer.out_norm other than none"},
    {"mixer.norm_heads", "2", "mixer.out_norm", "none", "mixer.out_norm other than none"},
    {"mixer.qk_act", "none", "mixer.from_values", "1", "mixer.from_values 0"},
    {"mixer.norm_heads", "2", "type", "mag", "type memory"}};
  char why[256];
  size_t i;
  (void)state;
  for (i = 0; i < sizeof lack / sizeof *lack; i++) {
    miras_model_desc d = small_model(MIRAS_PRESET_GLA_MEMORY);
    const int conv = !strcmp(lack[i].other, "mixer.conv_on");
    if (conv) d.layer[0].mixer.conv_size = 0;
    assert_int_equal(miras_model_desc_set(&d, lack[i].field, lack[i].value), MIRAS_OK);
    if (!miras_model_size(&d, why, sizeof why) && !conv) fail_msg("%s", why);
    assert_int_equal(miras_model_desc_set(&d, lack[i].other, lack[i].to), MIRAS_OK);
    assert_int_equal(miras_model_size(&d, why, sizeof why), 0);
    if (!strstr(why, lack[i].field) || !strstr(why, lack[i].lacks)) fail_msg("%s", why);
  }
}

static void wrong_trainers_are_refused(void **state) {
  miras_model_desc md = small_model(MIRAS_PRESET_TITANS);
  miras_model *m = miras_model_open(&md, NULL, NULL, 0);
  static unsigned char buffer[64];
  miras_trainer_desc d = small_trainer();
  char why[256] = "nothing was written";
  size_t i;
  (void)state;
  assert_non_null(m);
  for (i = 0; i < sizeof wrong_trainers / sizeof wrong_trainers[0]; i++) {
    const wrong *w = &wrong_trainers[i];
    d = small_trainer();
    apply(&d, w->c);
    refuse(miras_trainer_size(m, &d, why, sizeof why), why, w->field, w->value, i);
    assert_int_equal(miras_trainer_size(m, &d, NULL, 0), 0);
    assert_null(miras_trainer_init(buffer, sizeof buffer, m, &d, NULL, 0));
    assert_null(miras_trainer_open(m, &d, NULL, NULL, 0));
  }
  d = small_trainer();
  d.batch = 0;   /* 1 */
  assert_true(miras_trainer_size(m, &d, why, sizeof why) > 0);
  assert_int_equal(miras_trainer_size(NULL, &d, why, sizeof why), 0);
  assert_true(names(why, "model"));
  assert_int_equal(miras_trainer_size(m, NULL, why, sizeof why), 0);
  assert_true(names(why, "descriptor"));
  miras_close(m);
  assert_int_equal(malloc_count, 0);
}

/* Bytes that a descriptor may hold which was never filled: one byte throughout, or any. */
static void garbage(void *to, size_t n, unsigned round) {
  unsigned char *at = (unsigned char *)to;
  uint64_t x = round;
  size_t i;
  for (i = 0; i < n; i++) {
    x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    at[i] = (unsigned char)(round < 256 ? round : x >> 56);
  }
}

/* A descriptor that was never filled, pointers included, is refused with a sentence and never
 * followed; so is one whose choices are right and whose pointer `custom` leads nowhere. */
static void garbage_is_refused(void **state) {
  static miras_model_desc whole;
  miras_model_desc md = small_model(MIRAS_PRESET_TITANS);
  miras_model *m = miras_model_open(&md, NULL, NULL, 0);
  miras_trainer_desc td;
  miras_server_desc sd;
  miras_memory_desc d;
  char why[256] = "";
  unsigned round;
  (void)state;
  assert_non_null(m);
  for (round = 1; round < 600; round++) {
    garbage(&d, sizeof d, round);
    assert_int_equal(miras_memory_size(&d, why, sizeof why), 0);
    assert_true(names(why, "architecture"));
    assert_null(miras_memory_open(&d, NULL, NULL, 0));
    garbage(&whole, sizeof whole, round);
    why[0] = 0;
    assert_int_equal(miras_model_size(&whole, why, sizeof why), 0);
    assert_true(strlen(why) > 10);
    memset(whole.pattern, 0, sizeof whole.pattern);   /* and when the pattern is none */
    whole.layer[0].letter = 'm';
    assert_int_equal(miras_model_size(&whole, why, sizeof why), 0);
    garbage(&td, sizeof td, round);
    if (td.batch > 0 && td.batch <= 65536) td.batch = -1;
    assert_int_equal(miras_trainer_size(m, &td, why, sizeof why), 0);
    assert_true(names(why, "batch"));
    garbage(&sd, sizeof sd, round);
    if (sd.batch_tokens > 0 && sd.batch_tokens <= 65536) sd.batch_tokens = -1;
    assert_int_equal(miras_server_size(m, &sd, why, sizeof why), 0);
    assert_true(names(why, "batch_tokens"));
    d = base_desc((enum base)(round % BASES));        /* all but some fields are right */
    if (d.bias == MIRAS_BIAS_CUSTOM || d.retention == MIRAS_RETENTION_CUSTOM) continue;
    garbage(&d.custom, sizeof d.custom, round);
    refuse(miras_memory_size(&d, why, sizeof why), why, "custom", "NULL", round);
    garbage(&d, round % offsetof(miras_memory_desc, custom), 600 + round);
    if (d.bias == MIRAS_BIAS_CUSTOM || d.retention == MIRAS_RETENTION_CUSTOM) d.custom = NULL;
    (void)miras_memory_size(&d, why, sizeof why);
  }
  miras_close(m);
}

static void no_run(void *user, int count, void (*task)(void *, int, int), void *argument) {
  int i;
  (void)user;
  for (i = 0; i < count; i++) task(argument, i, 0);
}

static void wrong_parallel_is_refused(void **state) {
  static const int workers[] = { 0, -1, 257, INT_MAX };
  miras_model_desc md = small_model(MIRAS_PRESET_DELTANET_MEMORY);
  miras_model *m = miras_model_open(&md, NULL, NULL, 0);
  miras_trainer_desc d = small_trainer();
  miras_parallel parallel;
  char why[256];
  int i;
  (void)state;
  assert_non_null(m);
  parallel.run = no_run;
  parallel.user = NULL;
  d.parallel = &parallel;
  for (i = 0; i < 4; i++) {
    char value[16];
    parallel.workers = workers[i];
    snprintf(value, sizeof value, "%d", workers[i]);
    refuse(miras_trainer_size(m, &d, why, sizeof why), why, "workers", value, (size_t)i);
  }
  parallel.run = NULL;
  parallel.workers = 1;
  assert_int_equal(miras_trainer_size(m, &d, why, sizeof why), 0);
  assert_true(names(why, "run"));
  miras_close(m);
}

/* Sizes that do not fit this machine are refused with a sentence, not wrapped around. */
static void sizes_that_do_not_fit_are_refused(void **state) {
  miras_memory_desc d;
  miras_model_desc md;
  char why[256] = "";
  (void)state;
  memset(&d, 0, sizeof d);
  d.architecture = MIRAS_ARCH_MLP;
  d.bias = MIRAS_BIAS_L2;
  d.depth = 4;
  d.expansion = 16;
  d.key_dim = 4096;
  d.value_dim = 4096;
  d.chunk = 1024;
  d.heads = 65536;
  d.batch = 1 << 20;
  assert_int_equal(miras_memory_size(&d, why, sizeof why), 0);
  assert_true(strlen(why) > 10);
  d.heads = 0x7fffffff;
  d.batch = 0x7fffffff;
  assert_int_equal(miras_memory_size(&d, why, sizeof why), 0);
  assert_true(strlen(why) > 10);

  md = small_model(MIRAS_PRESET_TITANS);
  md.layer[0].memory.key_dim = 4096;
  md.layer[0].memory.heads = 65536;
  md.layer[0].memory.expansion = 16;
  md.layer[0].memory.depth = 4;
  md.layer[0].memory.chunk = 1024;
  md.vocab = 1 << 24;
  md.width = 65536;
  md.layers = 256;
  md.layer[0].mlp.hidden = 65536;
  why[0] = 0;
  assert_int_equal(miras_model_size(&md, why, sizeof why), 0);
  assert_true(strlen(why) > 10);
  md.layer[0].memory.heads = 64;
  assert_int_equal(miras_model_size(&md, why, sizeof why), 0);
  assert_true(strlen(why) > 10);
}

/* A limit holds for the model and for its sessions, and that of a trainer for it, to the byte,
 * before anything is allocated. */
static void limits_are_kept(void **state) {
  int i, below;
  (void)state;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    miras_model_desc d = small_model((miras_preset)i);
    miras_trainer_desc room = small_trainer();
    size_t need, session;
    miras_model *m = miras_model_open(&d, NULL, NULL, 0);
    miras_trainer *t;
    assert_non_null(m);
    need = miras_model_size(&d, NULL, 0);
    session = miras_session_size(m, NULL, NULL, 0);
    miras_close(m);
    for (below = 0; below < 2; below++) {
      char why[256] = "nothing was written", value[24];
      void *buffer = grab(need);
      d.limit = (need > session ? need : session) - (size_t)below;
      snprintf(value, sizeof value, "%llu", (unsigned long long)d.limit);
      if (below) refuse(miras_model_size(&d, why, sizeof why), why, "limit", value, (size_t)i);
      else assert_int_equal(miras_model_size(&d, why, sizeof why), need);
      assert_true((miras_model_init(buffer, need, &d, NULL, 0) == NULL) == below);
      malloc_forbidden = below;
      m = miras_model_open(&d, NULL, NULL, 0);
      malloc_forbidden = 0;
      assert_true((m == NULL) == below);
      if (m) assert_true(miras_model_desc_of(m)->limit == d.limit);
      miras_close(m);
      free(buffer);
    }
    d.limit = UINT64_MAX;
    assert_int_equal(miras_model_size(&d, NULL, 0), need);
    m = miras_model_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    need = miras_trainer_size(m, &room, NULL, 0);
    for (below = 0; below < 2; below++) {
      char why[256] = "nothing was written", value[24];
      room.limit = need - (size_t)below;
      snprintf(value, sizeof value, "%llu", (unsigned long long)room.limit);
      if (below)
        refuse(miras_trainer_size(m, &room, why, sizeof why), why, "limit", value, (size_t)i);
      malloc_forbidden = below;
      t = miras_trainer_open(m, &room, NULL, NULL, 0);
      malloc_forbidden = 0;
      assert_true((t == NULL) == below);
      if (t) assert_true(miras_trainer_desc_of(t)->limit == room.limit);
      miras_close(t);
    }
    miras_close(m);
  }
  if (sizeof(size_t) >= 8) {   /* a session that no machine can hold */
    miras_model_desc d = small_model(MIRAS_PRESET_SOFTMAX_ATTENTION);
    char why[256];
    d.layer[0].memory.heads = 65536;
    d.layer[0].memory.key_dim = 4096;
    d.layer[0].memory.value_dim = 1;
    d.layer[0].memory.window = 1 << 20;
    d.layers = 256;
    d.limit = UINT64_C(1) << 50;
    refuse(miras_model_size(&d, why, sizeof why), why, "limit", "1125899906842624", 0);
  }
  assert_int_equal(malloc_count, 0);
}

/* A view's dimension is an int, and a tape is asked for in floats but taken in bytes. */
static void counts_that_do_not_fit_are_refused(void **state) {
  miras_model_desc md = small_model(MIRAS_PRESET_DELTANET_MEMORY);
  char why[256] = "";
  miras_memory_desc d;
  miras_memory *m;
  (void)state;
  md.layer[0].memory.heads = 65536;
  md.layer[0].memory.key_dim = 4096;
  md.layer[0].memory.value_dim = 1;
  md.layer[0].memory.inner_steps = 8;
  md.layer[0].memory.chunk = 1;
  assert_int_equal(miras_model_size(&md, why, sizeof why), 0);
  assert_non_null(strstr(why, "heads"));
  if (sizeof(size_t) < 8) return;
  miras_memory_preset(&d, MIRAS_PRESET_TITANS);
  d.depth = 1;
  d.key_dim = 1024;
  d.heads = 4;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  assert_true(miras_memory_tape_size(m, INT_MAX) <= SIZE_MAX / sizeof(float));
  assert_true(miras_memory_tape_size(m, 1) > 0);
  miras_close(m);
}

/* The sentence is cut to the room it has, always ends, and never runs over. */
static void sentences_fit_their_buffer(void **state) {
  miras_memory_desc d;
  char whole[300];
  size_t n;
  (void)state;
  memset(&d, 0, sizeof d);
  d.key_dim = 5000;
  assert_int_equal(miras_memory_size(&d, whole, sizeof whole), 0);
  for (n = 0; n < strlen(whole) + 3; n++) {
    char why[310];
    memset(why, '#', sizeof why);
    assert_int_equal(miras_memory_size(&d, why, n), 0);
    if (n) {
      assert_true(memchr(why, 0, n) != NULL);
      assert_memory_equal(why, whole, strlen(why));
      assert_int_equal(strlen(why), strlen(whole) < n ? strlen(whole) : n - 1);
    }
    assert_int_equal(why[n], '#');
    assert_int_equal(why[n + 1], '#');
  }
}

/* ---- NULL and other wrong arguments ---- */

static void null_memories(miras_memory *m, const miras_memory_desc *d) {
  unsigned char buffer[64];
  char why[200];
  float x[64] = { 0 };
  miras_memory_input t;
  miras_memory_input_grad g;
  memset(&t, 0, sizeof t);
  memset(&g, 0, sizeof g);
  assert_int_equal(miras_memory_size(NULL, why, sizeof why), 0);
  assert_true(strlen(why) > 5);
  assert_int_equal(miras_memory_size(NULL, NULL, 0), 0);
  assert_null(miras_memory_init(NULL, 1000000, d, NULL, 0));
  assert_null(miras_memory_init(buffer, sizeof buffer, NULL, NULL, 0));
  assert_null(miras_memory_init(buffer, 0, d, NULL, 0));
  assert_null(miras_memory_open(NULL, NULL, NULL, 0));
  miras_close(NULL);

  t.length = 2;   /* with key, value and query missing */
  assert_int_equal(miras_memory_forward(m, &t, x, NULL), MIRAS_ERR_ARGUMENT);
  t.key = t.value = t.query = x;
  assert_int_equal(miras_memory_forward(m, &t, NULL, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_forward(m, NULL, x, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_forward(NULL, &t, x, NULL), MIRAS_ERR_ARGUMENT);
  t.length = -1;
  assert_int_equal(miras_memory_forward(m, &t, x, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_position(m), 0);
  t.length = 0;
  assert_int_equal(miras_memory_forward(m, &t, x, NULL), MIRAS_OK);
  assert_int_equal(miras_memory_position(m), 0);
  assert_int_equal(miras_memory_tape_size(m, -1), 0);
  t.length = 1;
  assert_int_equal(miras_memory_backward(NULL, &t, x, x, &g, NULL, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_backward(m, NULL, x, x, &g, NULL, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_backward(m, &t, NULL, x, &g, NULL, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_backward(m, &t, x, NULL, &g, NULL, NULL), MIRAS_ERR_ARGUMENT);
  assert_true(isnan(surprise_of_write(m, NULL, x)));
  assert_true(isnan(surprise_of_write(m, x, NULL)));
  assert_int_equal(miras_memory_read(NULL, x, x), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_read(m, NULL, x), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_read(m, x, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_position(m), 0);
}

static void null_models(miras_model *model, miras_trainer *tr, const miras_model_desc *md,
                        const miras_trainer_desc *td) {
  unsigned char buffer[64];
  char why[200];
  int32_t tokens[4] = { 0, 1, 2, 3 };
  assert_int_equal(miras_model_size(NULL, why, sizeof why), 0);
  assert_true(strlen(why) > 5);
  assert_null(miras_model_init(NULL, 100000000, md, NULL, 0));
  assert_null(miras_model_init(buffer, sizeof buffer, NULL, NULL, 0));
  assert_null(miras_model_open(NULL, NULL, NULL, 0));
  miras_close(NULL);
  assert_null(miras_trainer_init(NULL, 100000000, model, td, NULL, 0));
  assert_null(miras_trainer_init(buffer, sizeof buffer, model, td, NULL, 0));
  assert_null(miras_trainer_init(buffer, sizeof buffer, NULL, td, NULL, 0));
  assert_null(miras_trainer_open(NULL, td, NULL, NULL, 0));
  assert_null(miras_trainer_open(model, NULL, NULL, NULL, 0));
  assert_null(miras_trainer_grads(NULL));
  assert_int_equal(miras_trainer_steps(NULL), 0);
  assert_true(isnan(norm_of_step(NULL, NULL, 0.01f)));
  miras_close(NULL);
  assert_true(isnan(loss_of(NULL, tokens, tokens, 1, 4, 0)));
  assert_true(isnan(loss_of(tr, NULL, tokens, 1, 4, 0)));
  assert_true(isnan(loss_of(tr, tokens, NULL, 1, 4, 0)));
  assert_true(isnan(loss_of(tr, tokens, tokens, 0, 4, 0)));
  assert_true(isnan(loss_of(tr, tokens, tokens, -1, 4, 0)));
  assert_true(isnan(loss_of(tr, tokens, tokens, 3, 1, 0)));
  assert_true(isnan(loss_of(tr, tokens, tokens, 1, 0, 0)));
  assert_true(isnan(loss_of(tr, tokens, tokens, 1, -4, 0)));
  assert_true(isnan(loss_of(tr, tokens, tokens, 1, 11, 0)));
  tokens[2] = 11;
  assert_true(isnan(loss_of(tr, tokens, tokens, 1, 4, 0)));
  tokens[2] = -1;   /* allowed as a target, not as a token */
  assert_true(isnan(loss_of(tr, tokens, tokens, 1, 4, 0)));
  tokens[2] = 2;
  assert_int_equal(miras_trainer_backward(NULL, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_not_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);   /* no training loss before */
}

static void null_sessions(miras_session *s, const miras_model *model) {
  unsigned char buffer[64];
  int32_t tokens[4] = { 0, 1, 2, 3 };
  assert_int_equal(miras_session_size(NULL, NULL, NULL, 0), 0);
  assert_null(miras_session_init(NULL, 100000000, model, NULL, NULL, 0));
  assert_null(miras_session_init(buffer, sizeof buffer, NULL, NULL, NULL, 0));
  assert_null(miras_session_init(buffer, sizeof buffer, model, NULL, NULL, 0));
  assert_null(miras_session_open(NULL, NULL, NULL, NULL, 0));
  miras_close(NULL);
  assert_null(miras_session_step(NULL, 0));
  assert_null(miras_session_step(s, -1));
  assert_null(miras_session_step(s, 11));
  assert_null(miras_session_step(s, INT32_MAX));
  assert_null(miras_session_feed(s, NULL, NULL, 3));
  tokens[3] = 11;
  assert_null(miras_session_feed(s, tokens, NULL, 4));
  assert_int_equal(miras_session_position(s), 0);   /* a refused call leaves no trace */
  tokens[3] = 3;
  assert_non_null(miras_session_feed(s, tokens, NULL, 4));
  assert_int_equal(miras_session_position(s), 4);
}

static void null_files(miras_memory *m, miras_model *model, miras_session *s) {
  float x[64] = { 0 };
  miras_model_desc d;
  miras_result result;
  assert_int_equal(miras_load_from(model, NULL, 100, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(NULL, x, sizeof x, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_from(NULL, x, sizeof x), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_from(&d, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(m, NULL, 100, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(NULL, x, sizeof x, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(s, NULL, 100, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(NULL, x, sizeof x, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_save(NULL, "x"), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_save(model, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load(model, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_save(m, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load(m, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_save(s, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load(s, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_null(miras_model_open_file(NULL, NULL, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_ARGUMENT);
  assert_null(miras_model_open_file("a-file-that-does-not-exist", NULL, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_IO);
  assert_null(miras_model_open_file("a-file-that-does-not-exist", NULL, NULL, NULL, NULL, 0));
}

static void null_arguments(void **state) {
  miras_memory_desc d = small_memory(MIRAS_PRESET_TITANS);
  miras_model_desc md = small_model(MIRAS_PRESET_TITANS);
  miras_memory *m = miras_memory_open(&d, NULL, NULL, 0);
  miras_trainer_desc td = small_trainer();
  miras_model *model = miras_model_open(&md, NULL, NULL, 0);
  miras_trainer *tr = miras_trainer_open(model, &td, NULL, NULL, 0);
  miras_session *s = miras_session_open(model, NULL, NULL, NULL, 0);
  (void)state;
  assert_non_null(m);
  assert_non_null(tr);
  assert_non_null(s);
  null_memories(m, &d);
  null_models(model, tr, &md, &td);
  null_sessions(s, model);
  null_files(m, model, s);
  miras_pool_close(NULL);
  miras_close(s);
  miras_close(tr);
  miras_close(model);
  miras_close(m);
  assert_int_equal(malloc_count, 0);
}

/* A memory that waits for gates per token cannot be written one pair at a time. */
static void write_needs_constant_gates(void **state) {
  miras_memory_desc d = small_memory(MIRAS_PRESET_TITANS);
  float x[24] = { 0 }, out[24];
  miras_memory *m;
  miras_memory_input t;
  (void)state;
  d.learning_rate_gate = MIRAS_GATE_HEAD;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  assert_true(isnan(surprise_of_write(m, x, x)));
  assert_int_equal(miras_memory_position(m), 0);
  memset(&t, 0, sizeof t);
  t.length = 1;
  t.key = t.value = t.query = x;
  assert_int_equal(miras_memory_forward(m, &t, out, NULL),
                   MIRAS_ERR_ARGUMENT); /* step is missing */
  miras_close(m);
}

/* Whether a memory can be written without tokens is told, with the field that asks for more; the
 * answer is what miras_memory_write does. */
static void can_write_says_why(void **state) {
  static const struct { miras_preset kind; const char *field, *value;
  } cases[] = {{MIRAS_PRESET_TITANS, "decay_gate", "1 (head)"},
               {MIRAS_PRESET_TITANS, "learning_rate_gate", "1 (head)"},
               {MIRAS_PRESET_TITANS, "momentum_gate", "1 (head)"},
               {MIRAS_PRESET_YAAD, "threshold_gate", "1 (head)"},
               {MIRAS_PRESET_GATED_DELTANET, "decay_gate", "2 (channel)"},
               {MIRAS_PRESET_RWKV7_MEMORY, "separate_erase", "1"},
               {MIRAS_PRESET_GLA_MEMORY, "value_decay_gate", "2 (channel)"}};
  float x[8 * 32] = { 0 };
  char why[256] = "";
  size_t i;
  int k;
  (void)state;
  for (k = 0; k < MIRAS_PRESET_ROWS; k++) {        /* all rows but one can be written as they are */
    miras_memory_desc d = small_memory((miras_preset)k);
    miras_memory *m = miras_memory_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    assert_int_equal(miras_memory_can_write(m, why, sizeof why), k != MIRAS_PRESET_RWKV7_MEMORY);
    assert_int_equal(why[0] != 0, k == MIRAS_PRESET_RWKV7_MEMORY);
    assert_int_equal(isnan(surprise_of_write(m, x, x)) != 0, k == MIRAS_PRESET_RWKV7_MEMORY);
    miras_close(m);
  }
  for (i = 0; i < sizeof cases / sizeof *cases; i++) {
    miras_memory_desc d = small_memory(cases[i].kind);
    miras_memory *m;
    const char *f = cases[i].field;
    const miras_gate gate = strstr(cases[i].value, "2") ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD;
    if (!strcmp(f, "decay_gate")) d.decay_gate = gate, d.decay_rate = 0;
    if (!strcmp(f, "learning_rate_gate")) d.learning_rate_gate = gate;
    if (!strcmp(f, "momentum_gate")) d.momentum_gate = gate;
    if (!strcmp(f, "threshold_gate")) d.threshold_gate = gate;
    if (!strcmp(f, "value_decay_gate"))
      d.value_decay_gate = gate, d.step_bound = MIRAS_STEP_BOUND_AUTO;
    if (!strcmp(f, "separate_erase")) d.decay_gate = MIRAS_GATE_CONSTANT;
    if (!miras_memory_size(&d, why, sizeof why)) fail_msg("row %u: %s", (unsigned)i, why);
    m = miras_memory_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    assert_int_equal(miras_memory_can_write(m, NULL, 0), 0);
    refuse((size_t)miras_memory_can_write(m, why, sizeof why), why, f, cases[i].value, i);
    assert_true(isnan(surprise_of_write(m, x, x)));
    miras_close(m);
  }
  assert_int_equal(miras_memory_can_write(NULL, why, sizeof why), 0);
  assert_string_equal(why, "the memory is NULL");
}

/* ---- allocations ---- */

typedef struct meter {
  long calls, live, fail_at;   /* the fail_at-th call fails, counted from 1; 0: none             */
  int forever;                 /* and every later one                                            */
  size_t bytes;
  int mismatch;                /* free was told another size than alloc                          */
} meter;

static void *meter_alloc(size_t bytes, void *user) {
  meter *a = (meter *)user;
  unsigned char *p;
  a->calls++;
  if (a->fail_at && (a->calls == a->fail_at || (a->forever && a->calls > a->fail_at))) return NULL;
  p = (unsigned char *)malloc(bytes + 16);
  if (!p) return NULL;
  memcpy(p, &bytes, sizeof bytes);
  memset(p + 16, 0xa5, bytes);   /* fresh memory is not zero */
  a->live++;
  a->bytes += bytes;
  return p + 16;
}

static void meter_free(void *pointer, size_t bytes, void *user) {
  meter *a = (meter *)user;
  unsigned char *p = (unsigned char *)pointer - 16;
  size_t was;
  memcpy(&was, p, sizeof was);
  if (was != bytes) a->mismatch = 1;
  a->live--;
  a->bytes -= bytes;
  free(p);
}

typedef struct world {   /* what the things under test are opened from */
  miras_memory_desc d;
  miras_model_desc md;
  miras_model *model;
  char path[256];
} world;

typedef void *(*opener)(const world *w, const miras_allocator *a);

static void *open_memory(const world *w, const miras_allocator *a) {
  return miras_memory_open(&w->d, a, NULL, 0);
}
static void *open_model(const world *w, const miras_allocator *a) {
  return miras_model_open(&w->md, a, NULL, 0);
}
static void *open_trainer(const world *w, const miras_allocator *a) {
  const miras_trainer_desc d = small_trainer();
  return miras_trainer_open(w->model, &d, a, NULL, 0);
}
static void *open_session(const world *w, const miras_allocator *a) {
  return miras_session_open(w->model, NULL, a, NULL, 0);
}
static void *open_pool(const world *w, const miras_allocator *a) {
  (void)w;
  return (void *)miras_pool_open(3, a, NULL, 0);
}
static void *open_file(const world *w, const miras_allocator *a) {
  miras_result result = MIRAS_OK;
  void *p = miras_model_open_file(w->path, &w->md, a, &result, NULL, 0);
  assert_int_equal(result, p ? MIRAS_OK : MIRAS_ERR_ALLOC);
  return p;
}
static void close_pool(void *p) { miras_pool_close((const miras_parallel *)p); }

static void each_allocation_fails(const char *name, opener open, void (*close)(void *),
                                  const world *w) {
  long k, needed = 0;
  int forever;
  for (forever = 0; forever < 2; forever++) {
    for (k = 1; k < 100; k++) {
      meter a;
      miras_allocator allocator;
      void *p;
      memset(&a, 0, sizeof a);
      a.fail_at = k;
      a.forever = forever;
      allocator.alloc = meter_alloc;
      allocator.free = meter_free;
      allocator.user = &a;
      p = open(w, &allocator);
      if (a.calls < k) {   /* every call has had its turn: this one succeeded */
        assert_non_null(p);
        assert_true(a.live > 0);
        needed = a.calls;
        close(p);
        assert_int_equal(a.live, 0);
        assert_int_equal(a.bytes, 0);
        assert_int_equal(a.mismatch, 0);
        break;
      }
      if (p) {
        print_error("%s: opened although allocation %ld failed\n", name, k);
        close(p);
        fail();
      }
      assert_int_equal(a.live, 0);
      assert_int_equal(a.bytes, 0);
      assert_int_equal(a.mismatch, 0);
    }
    assert_true(needed > 0 && k < 100);
  }
}

static void make_path(char *path, size_t n, const char *name) {
  const char *folder = getenv("TMPDIR");
  snprintf(path, n, "%s/miras_test_api_%ld_%s", folder && folder[0] ? folder : "/tmp",
           (long)getpid(), name);
}

static void failing_allocations(void **state) {
  world w;
  int i;
  (void)state;
  memset(&w, 0, sizeof w);
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    w.d = small_memory((miras_preset)i);
    each_allocation_fails("memory", open_memory, miras_close, &w);
    w.md = small_model((miras_preset)i);
    each_allocation_fails("model", open_model, miras_close, &w);
  }
  w.model = miras_model_open(&w.md, NULL, NULL, 0);
  assert_non_null(w.model);
  each_allocation_fails("trainer", open_trainer, miras_close, &w);
  each_allocation_fails("session", open_session, miras_close, &w);
  each_allocation_fails("pool", open_pool, close_pool, &w);
  make_path(w.path, sizeof w.path, "model.safetensors");
  assert_int_equal(miras_save(w.model, w.path), MIRAS_OK);
  each_allocation_fails("file", open_file, miras_close, &w);
  remove(w.path);
  miras_close(w.model);
  assert_int_equal(malloc_count, 0);
}

/* One allocation each, as promised, and none afterwards, whatever is called. */
static void row_without_allocation(miras_preset kind, const miras_allocator *allocator,
                                   const meter *a) {
  miras_memory_desc d = small_pairs(kind);
  miras_model_desc md = small_model(kind);
  enum { T = 9, N = 2 * T * 2 * 6 };
  static float x[3][N], y[N], dx[3][N];
  static const int32_t tokens[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
  miras_memory_input t;
  miras_memory_input_grad g;
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  miras_sampler sampling;
  miras_memory *m;
  miras_trainer_desc td = small_trainer();
  miras_model *model;
  miras_trainer *tr;
  miras_session *s;
  float *tape, *dparams, *dstate;
  unsigned char *file;
  size_t count, bytes;
  long before;
  m = miras_memory_open(&d, allocator, NULL, 0);
  assert_non_null(m);
  assert_int_equal(a->live, 1);
  model = miras_model_open(&md, allocator, NULL, 0);
  assert_non_null(model);
  tr = miras_trainer_open(model, &td, allocator, NULL, 0);
  assert_non_null(tr);
  assert_int_equal(a->live, 3);
  s = miras_session_open(model, NULL, allocator, NULL, 0);
  assert_non_null(s);
  tape = (float *)grab(miras_memory_tape_size(m, T) * sizeof(float));
  miras_memory_params(m, &count);
  dparams = (float *)calloc(count, sizeof(float));
  dstate = (float *)calloc(miras_memory_grad_state_size(m), sizeof(float));
  assert_non_null(dparams);
  assert_non_null(dstate);
  bytes = miras_save_to(tr, NULL, 0);
  file = (unsigned char *)grab(bytes + miras_save_to(m, NULL, 0) +
                               miras_save_to(s, NULL, 0));
  numbers(&x[0][0], 3 * N, 5);
  memset(&t, 0, sizeof t);
  t.length = T;
  t.key = x[0];
  t.value = x[1];
  t.query = x[2];
  memset(&g, 0, sizeof g);
  g.key = dx[0];
  g.value = dx[1];
  g.query = dx[2];
  o.clip = 1;
  o.weight_decay = 0.1f;
  memset(&sampling, 0, sizeof sampling);
  sampling.temperature = 1;
  sampling.top_p = 0.9f;
  sampling.top_k = 5;

  before = a->calls;
  malloc_forbidden = 1;
  surprise_of_write(m, x[0], x[1]);
  miras_memory_read(m, x[2], y);
  miras_memory_norm(m);
  miras_memory_reset(m);
  assert_int_equal(miras_memory_forward(m, &t, y, tape), MIRAS_OK);
  assert_int_equal(miras_memory_backward(m, &t, tape, NULL, &g, dparams, dstate),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_backward(m, &t, tape, y, &g, dparams, dstate), MIRAS_OK);
  count = miras_save_to(m, file, (size_t)-1 / 2);
  assert_int_equal(miras_load_from(m, file, count, NULL, 0), MIRAS_OK);
  assert_true(isfinite(loss_of(tr, tokens, tokens, 2, 5, 1)));
  assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
  assert_true(isfinite(norm_of_step(tr, &o, 0.01f)));
  assert_int_equal(miras_save_to(tr, file, bytes), bytes);
  assert_int_equal(miras_load_from(tr, file, bytes, NULL, 0), MIRAS_OK);
  assert_int_equal(miras_load_from(model, file, bytes, NULL, 0), MIRAS_OK);
  assert_non_null(miras_session_feed(s, tokens, NULL, 10));
  assert_int_not_equal(miras_sampler_sample(&sampling, miras_session_step(s, 3), 11), -1);
  assert_true(isfinite(score_of(s, tokens, tokens + 1, 9)));
  count = miras_save_to(s, file, (size_t)-1 / 2);
  assert_int_equal(miras_load_from(s, file, count, NULL, 0), MIRAS_OK);
  miras_session_reset(s);
  malloc_forbidden = 0;
  assert_int_equal(a->calls, before);
  assert_int_equal(malloc_count, 0);

  miras_close(s);
  miras_close(tr);
  miras_close(model);
  miras_close(m);
  free(tape);
  free(dparams);
  free(dstate);
  free(file);
}

static void no_allocation_after_init(void **state) {
  meter a;
  miras_allocator allocator;
  int i;
  (void)state;
  memset(&a, 0, sizeof a);
  allocator.alloc = meter_alloc;
  allocator.free = meter_free;
  allocator.user = &a;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    row_without_allocation((miras_preset)i, &allocator, &a);
    assert_int_equal(a.live, 0);
    assert_int_equal(a.mismatch, 0);
  }
}

/* allocator NULL means MIRAS_MALLOC, and its failure is a clean NULL as well. */
static void default_allocator(void **state) {
  miras_memory_desc d = small_memory(MIRAS_PRESET_MONETA);
  miras_memory *m;
  (void)state;
  assert_int_equal(malloc_count, 0);
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  assert_int_equal(malloc_count, 1);
  miras_close(m);
  assert_int_equal(malloc_count, 0);
}

static void *arena_alloc(size_t bytes, void *user) {
  unsigned char **at = (unsigned char **)user;
  void *p = *at;
  *at += (bytes + 15) / 16 * 16;
  return p;
}

/* An allocator without free is an arena: used, and nothing is given back. */
static void arena_allocator(void **state) {
  miras_memory_desc d = small_memory(MIRAS_PRESET_MONETA);
  size_t bytes = miras_memory_size(&d, NULL, 0);
  const size_t more = 65536;       /* for a pool */
  unsigned char *room = (unsigned char *)grab(bytes + 32 + more), *at = room;
  miras_allocator allocator;
  miras_memory *m;
  const miras_parallel *pool;
  (void)state;
  allocator.alloc = arena_alloc;
  allocator.free = NULL;
  allocator.user = &at;
  m = miras_memory_open(&d, &allocator, NULL, 0);
  assert_non_null(m);
  assert_true(at > room);
  assert_int_equal(malloc_count, 0);
  miras_close(m);
  pool = miras_pool_open(2, &allocator, NULL, 0);
  assert_non_null(pool);
  assert_true(at <= room + bytes + 32 + more);
  miras_pool_close(pool);
  free(room);
}

/* No tokens: every pointer may be NULL, and only the state's gradient passes. */
static void no_tokens(void **state) {
  int kind;
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_memory_desc d = small_memory((miras_preset)kind);
    miras_memory *m = miras_memory_open(&d, NULL, NULL, 0);
    miras_memory_input x;
    miras_memory_input_grad g;
    float *tape, *dstate;
    size_t n, i;
    assert_non_null(m);
    memset(&x, 0, sizeof x);
    memset(&g, 0, sizeof g);
    n = miras_memory_grad_state_size(m);
    tape = (float *)grab(miras_memory_tape_size(m, 0) * sizeof(float));
    dstate = (float *)grab(n * sizeof(float));
    for (i = 0; i < n; i++) dstate[i] = 1;
    assert_int_equal(miras_memory_forward(m, &x, NULL, tape), MIRAS_OK);
    assert_int_equal(miras_memory_backward(m, &x, tape, NULL, &g, NULL, dstate), MIRAS_OK);
    for (i = 0; i < n; i++) assert_true(dstate[i] == 0);   /* it was the initial memory */
    free(dstate);
    free(tape);
    miras_close(m);
  }
}

/* ---- buffers ---- */

static void run_memory(miras_memory *m, int tokens, uint64_t seed, float *y) {
  const miras_memory_desc *d = miras_memory_desc_of(m);
  size_t rows = (size_t)d->batch * (size_t)d->heads;
  size_t steps = (size_t)d->inner_steps, nq = rows * (size_t)d->key_dim, nk = steps * nq;
  size_t nv = rows * (size_t)d->value_dim, all = nk + nq + steps * nv;
  float *k = (float *)grab(all * sizeof(float));
  int t;
  for (t = 0; t < tokens; t++) {
    numbers(k, all, seed + (uint64_t)t);
    if (d->separate_erase || d->value_decay_gate) {      /* a step takes pairs alone */
      miras_memory_input one;
      memset(&one, 0, sizeof one);
      one.length = 1;
      one.key = one.erase = one.replace = k;
      one.query = k + nk;
      one.value = one.value_keep = k + nk + nq;
      assert_int_equal(miras_memory_forward(m, &one, y + (size_t)t * nv, NULL), MIRAS_OK);
    } else {
      forward_one(m, k, k + nk + nq, k + nk, y + (size_t)t * nv);
    }
  }
  free(k);
}

/* Exactly the bytes asked for, at every alignment, between guards; one byte less is refused. */
static void buffers_are_exact(void **state) {
  int i, shift;
  (void)state;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    miras_memory_desc d = small_memory((miras_preset)i);
    miras_model_desc md = small_model((miras_preset)i);
    size_t bytes = miras_memory_size(&d, NULL, 0), model_bytes = miras_model_size(&md, NULL, 0);
    enum { T = 5, N = T * 2 * 2 * 6 };
    static float first[N], y[N];
    float first_loss = 0;
    static const int32_t tokens[10] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    const miras_trainer_desc td = small_trainer();
    unsigned char *block, *beside;
    assert_true(bytes > 0 && model_bytes > 0);
    block = (unsigned char *)grab(bytes);
    assert_null(miras_memory_init(block, bytes - 1, &d, NULL, 0));
    free(block);
    block = (unsigned char *)grab(model_bytes);
    assert_null(miras_model_init(block, model_bytes - 1, &md, NULL, 0));
    free(block);
    for (shift = 0; shift < 66; shift += shift < 2 ? 1 : 21) {
      unsigned char *at;
      size_t n, guard, tr_bytes;
      miras_memory *m;
      miras_model *model;
      miras_trainer *tr;
      block = (unsigned char *)grab(bytes + 256);
      memset(block, 0x5a, bytes + 256);
      at = block + 64 + shift;
      m = miras_memory_init(at, bytes, &d, NULL, 0);
      assert_non_null(m);
      run_memory(m, T, 11, y);
      if (!shift) memcpy(first, y, sizeof y);
      assert_memory_equal(first, y, sizeof y);
      for (n = 0; n < 64 + (size_t)shift; n++) assert_int_equal(block[n], 0x5a);
      for (n = 64 + (size_t)shift + bytes; n < bytes + 256; n++) assert_int_equal(block[n], 0x5a);
      free(block);

      block = (unsigned char *)grab(model_bytes + 256);
      memset(block, 0x5a, model_bytes + 256);
      at = block + 64 + shift;
      model = miras_model_init(at, model_bytes, &md, NULL, 0);
      assert_non_null(model);
      guard = 64 + (size_t)shift;
      tr_bytes = miras_trainer_size(model, &td, NULL, 0);
      assert_true(tr_bytes > 0);
      beside = (unsigned char *)grab(tr_bytes + 256);
      memset(beside, 0x5a, tr_bytes + 256);
      assert_null(miras_trainer_init(beside + guard, tr_bytes - 1, model, &td, NULL, 0));
      tr = miras_trainer_init(beside + guard, tr_bytes, model, &td, NULL, 0);
      assert_non_null(tr);
      {
        float loss = loss_of(tr, tokens, tokens, 2, 5, 1);
        assert_true(isfinite(loss));
        assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
        norm_of_step(tr, NULL, 0.01f);
        loss = loss_of(tr, tokens, tokens, 1, 10, 0);
        assert_true(isfinite(loss));
        if (!shift) first_loss = loss;
        assert_memory_equal(&first_loss, &loss, sizeof loss);
      }
      for (n = 0; n < guard; n++) assert_int_equal(block[n], 0x5a);
      for (n = guard + model_bytes; n < model_bytes + 256; n++) assert_int_equal(block[n], 0x5a);
      for (n = 0; n < guard; n++) assert_int_equal(beside[n], 0x5a);
      for (n = guard + tr_bytes; n < tr_bytes + 256; n++) assert_int_equal(beside[n], 0x5a);
      free(beside);
      if (shift < 2) {
        size_t session_bytes = miras_session_size(model, NULL, NULL, 0);
        unsigned char *inner = (unsigned char *)grab(session_bytes + 1);
        const float *logits;
        miras_session *s;
        assert_null(miras_session_init(inner, session_bytes - 1, model, NULL, NULL, 0));
        s = miras_session_init(inner + shift, session_bytes, model, NULL, NULL, 0);
        assert_non_null(s);
        logits = miras_session_feed(s, tokens, NULL, 10);
        assert_non_null(logits);
        for (n = 0; n < 11; n++) assert_true(isfinite(logits[n]));
        free(inner);
      }
      free(block);
    }
  }
}

/* ---- the state as a block ---- */

static void snapshot_and_rollback(void **state) {
  int i, learned;
  (void)state;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    for (learned = 0; learned < 2; learned++) {
      miras_memory_desc d = small_memory((miras_preset)i);
      enum { N = 2 * 2 * 6 };
      float early[7 * N], late[5 * N], again[7 * N];
      miras_memory *m, *other;
      size_t bytes, bytes2;
      unsigned char *state_block, *saved;
      if (learned && d.architecture == MIRAS_ARCH_MLP) d.chunk = 4;   /* a cut inside a chunk */
      m = miras_memory_open(&d, NULL, NULL, 0);
      other = miras_memory_open(&d, NULL, NULL, 0);
      assert_non_null(m);
      assert_non_null(other);
      state_block = (unsigned char *)miras_memory_state(m, &bytes);
      assert_non_null(state_block);
      assert_true(bytes > 0);
      saved = (unsigned char *)grab(bytes);
      run_memory(m, 7, 21, early);
      assert_int_equal(miras_memory_position(m), 7);
      memcpy(saved, state_block, bytes);
      run_memory(m, 5, 91, late);
      assert_int_equal(miras_memory_position(m), 12);
      memcpy(state_block, saved, bytes);   /* rollback */
      assert_int_equal(miras_memory_position(m), 7);
      run_memory(m, 5, 91, again);
      assert_memory_equal(late, again, sizeof late);
      /* no pointers inside: the block works in another memory of the same shape */
      memcpy(miras_memory_state(other, &bytes2), saved, bytes);
      assert_int_equal(bytes, bytes2);
      run_memory(other, 5, 91, again);
      assert_memory_equal(late, again, sizeof late);
      /* zeros are the state after a reset */
      memset(state_block, 0, bytes);
      assert_int_equal(miras_memory_position(m), 0);
      run_memory(m, 7, 21, again);
      assert_memory_equal(early, again, sizeof early);
      miras_memory_reset(other);
      assert_int_equal(miras_memory_position(other), 0);
      run_memory(other, 7, 21, again);
      assert_memory_equal(early, again, sizeof early);
      miras_close(m);
      miras_close(other);
      free(saved);
    }
  }
}

static void session_snapshot_and_rollback(void **state) {
  static const int32_t tokens[16] = { 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2 };
  int i;
  (void)state;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    miras_model_desc md = small_model((miras_preset)i);
    miras_model *model;
    miras_session *s, *other;
    float logits[11], first[11];
    size_t bytes, bytes2;
    void *block, *saved;
    int t;
    model = miras_model_open(&md, NULL, NULL, 0);
    assert_non_null(model);
    s = miras_session_open(model, NULL, NULL, NULL, 0);
    other = miras_session_open(model, NULL, NULL, NULL, 0);
    assert_non_null(s);
    assert_non_null(other);
    block = miras_session_state(s, &bytes);
    saved = grab(bytes);
    memcpy(first, miras_session_feed(s, tokens, NULL, 6), sizeof first);
    memcpy(saved, block, bytes);
    for (t = 6; t < 16; t++) memcpy(logits, miras_session_step(s, tokens[t]), sizeof logits);
    memcpy(block, saved, bytes);
    assert_int_equal(miras_session_position(s), 6);
    memcpy(miras_session_state(other, &bytes2), saved, bytes);
    assert_int_equal(bytes, bytes2);
    for (t = 6; t < 15; t++) {
      miras_session_step(s, tokens[t]);
      miras_session_step(other, tokens[t]);
    }
    assert_memory_equal(logits, miras_session_step(s, tokens[15]), sizeof logits);
    assert_memory_equal(logits, miras_session_step(other, tokens[15]), sizeof logits);
    memset(block, 0, bytes);
    assert_int_equal(miras_session_position(s), 0);
    assert_memory_equal(first, miras_session_feed(s, tokens, NULL, 6), sizeof first);
    miras_session_reset(other);
    assert_memory_equal(first, miras_session_feed(other, tokens, NULL, 6), sizeof first);
    free(saved);
    miras_close(s);
    miras_close(other);
    miras_close(model);
  }
}

/* write then read is step; T steps are one forward, bit for bit, and so is any split of it. */
static void calls_agree(void **state) {
  int i, chunk;
  (void)state;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    for (chunk = 1; chunk <= 4; chunk += 3) {
      enum { B = 2, H = 2, D = 6, T = 11, R = H * D, N = B * T * R };
      miras_memory_desc d = small_pairs((miras_preset)i);
      static float k[N], v[N], q[N], whole[N], split[N];
      float one[3][B * R], out[B * R], out2[B * R], out3[B * R];
      miras_memory *m[4];
      miras_memory_input x;
      size_t n;
      int t, b, cut;
      if (chunk > 1 && d.architecture != MIRAS_ARCH_MLP) continue;
      d.chunk = chunk;
      for (n = 0; n < 4; n++) assert_non_null(m[n] = miras_memory_open(&d, NULL, NULL, 0));
      numbers(k, N, 1);
      numbers(v, N, 2);
      numbers(q, N, 3);
      for (n = 0; n < N; n++) k[n] *= 0.4f;
      memset(&x, 0, sizeof x);
      x.length = T;
      x.key = k;
      x.value = v;
      x.query = q;
      assert_int_equal(miras_memory_forward(m[0], &x, whole, NULL), MIRAS_OK);
      for (n = 0; n < N; n++) assert_true(isfinite(whole[n]));
      for (t = 0; t < T; t++) {
        float surprise;
        for (b = 0; b < B; b++) {
          memcpy(one[0] + b * R, k + (b * T + t) * R, R * sizeof(float));
          memcpy(one[1] + b * R, v + (b * T + t) * R, R * sizeof(float));
          memcpy(one[2] + b * R, q + (b * T + t) * R, R * sizeof(float));
        }
        assert_int_equal(forward_one(m[1], one[0], one[1], one[2], out), MIRAS_OK);
        if (d.order == MIRAS_ORDER_READ_FIRST) miras_memory_read(m[2], one[2], out2);
        surprise = surprise_of_write(m[2], one[0], one[1]);
        miras_memory_read(m[2], one[2], d.order == MIRAS_ORDER_READ_FIRST ? out3 : out2);
        assert_true(isfinite(surprise));
        /* a read of its own may add up in another order than the read that ends a token */
        for (n = 0; n < B * R; n++)       /* or be solved to another last digit */
          assert_near(out[n], out2[n], d.algorithm == MIRAS_ALGORITHM_LEAST_SQUARES ? 4e-5 : 4e-6);
        if (d.order != MIRAS_ORDER_READ_FIRST) memcpy(out3, out2, sizeof out3);
        miras_memory_read(m[2], one[2], out2);   /* reading changes nothing */
        assert_memory_equal(out2, out3, sizeof out2);
        for (b = 0; b < B; b++)
          assert_memory_equal(out + b * R, whole + (b * T + t) * R, R * sizeof(float));
      }
      for (cut = 0; cut <= T; cut++) {
        float ck[N], cv[N], cq[N], cy[N];
        int part;
        miras_memory_reset(m[3]);
        for (part = 0; part < 2; part++) {
          int from = part ? cut : 0, length = part ? T - cut : cut;
          for (b = 0; b < B; b++) {
            size_t len = (size_t)(length * R) * sizeof(float);
            memcpy(ck + b * length * R, k + (b * T + from) * R, len);
            memcpy(cv + b * length * R, v + (b * T + from) * R, len);
            memcpy(cq + b * length * R, q + (b * T + from) * R, len);
          }
          x.length = length;
          x.key = ck;
          x.value = cv;
          x.query = cq;
          assert_int_equal(miras_memory_forward(m[3], &x, cy, NULL), MIRAS_OK);
          for (b = 0; b < B; b++)
            memcpy(split + (b * T + from) * R, cy + b * length * R,
                   (size_t)(length * R) * sizeof(float));
        }
        assert_memory_equal(whole, split, sizeof whole);
      }
      {
        float norm[4];
        for (n = 0; n < 4; n++) {
          assert_int_equal(miras_memory_position(m[n]), T);
          norm[n] = miras_memory_norm(m[n]);
          assert_true(isfinite(norm[n]) && norm[n] > 0);
          assert_memory_equal(&norm[0], &norm[n], sizeof norm[0]);
        }
      }
      for (n = 0; n < 4; n++) miras_close(m[n]);
    }
  }
}

/* Changed outer parameters hold from the next reset on. */
static void params_hold_from_reset(void **state) {
  miras_memory_desc d = small_memory(MIRAS_PRESET_TTT_MLP_MEMORY);
  enum { N = 3 * 2 * 2 * 6 };
  float before[N], kept[N], after[N];
  miras_memory *m = miras_memory_open(&d, NULL, NULL, 0),
               *same = miras_memory_open(&d, NULL, NULL, 0);
  size_t count, i;
  float *params;
  (void)state;
  assert_non_null(m);
  assert_non_null(same);
  run_memory(m, 3, 5, before);
  run_memory(same, 3, 5, before);
  params = miras_memory_params(m, &count);
  assert_non_null(params);
  assert_true(count > 0);
  for (i = 0; i < (size_t)d.heads * 6; i++) params[i] += 0.25f;
  miras_memory_reset(m);
  run_memory(m, 3, 5, after);
  assert_memory_not_equal(before, after, sizeof before);
  miras_memory_reset(same);
  run_memory(same, 3, 5, kept);
  assert_memory_equal(before, kept, sizeof before);
  miras_close(m);
  miras_close(same);
}

/* Decays that lead to the initial memory find what it has come to, whoever has written it: zeros
 * that nobody could have touched are not looked at. A write of nothing leaves half of 0, and half
 * of 4 takes its place. */
static void initial_memory_is_seen(void **state) {
  static const float zero[4], one[2] = {1, 0}, four[4] = {4, 4, 4, 4};
  int way;
  (void)state;
  for (way = 0; way < 4; way++) {                /* nobody, the pointer, a part, a file */
    miras_memory_desc d;
    miras_memory *m, *other;
    float s[4];
    size_t n;
    void *file;
    assert_int_equal(miras_memory_preset(&d, MIRAS_PRESET_RETNET_MEMORY), MIRAS_OK);
    d.batch = d.heads = 1;
    d.key_dim = d.value_dim = 2;
    d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    d.decay_rate = 0.5f;
    m = miras_memory_open(&d, NULL, NULL, 0), other = miras_memory_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    assert_non_null(other);
    surprise_of_write(m, one, one);
    surprise_of_write(other, one, one);
    if (way == 1) memcpy(miras_memory_params(m, NULL), four, sizeof four);
    if (way == 2) assert_int_equal(miras_memory_set(m, 0, 0, "init.W1", four, NULL, 0), MIRAS_OK);
    if (way == 3) {
      memcpy(miras_memory_params(other, NULL), four, sizeof four);
      n = miras_save_to(other, NULL, 0);
      file = malloc(n);
      assert_non_null(file);
      assert_int_equal(miras_save_to(other, file, n), n);
      assert_int_equal(miras_load_from(m, file, n, NULL, 0), MIRAS_OK);
      free(file);
    }
    assert_int_equal(miras_memory_set(m, 0, 0, "W1", zero, NULL, 0), MIRAS_OK);
    surprise_of_write(m, zero, zero);
    assert_int_equal(miras_memory_get(m, 0, 0, "W1", s, NULL, 0), MIRAS_OK);
    assert_true(s[3] == (way ? 2.0f : 0.0f));
    miras_close(m);
    miras_close(other);
  }
}

/* ---- sampling ---- */

static void sampling_greedy(void **state) {
  float logits[50];
  miras_sampler s;
  int i, round;
  (void)state;
  for (round = 0; round < 50; round++) {
    numbers(logits, 50, (uint64_t)round);
    logits[round] = 3;
    memset(&s, 0, sizeof s);
    s.seed = (uint64_t)round;
    for (i = 0; i < 3; i++) assert_int_equal(miras_sampler_sample(&s, logits, 50), round);
    s.temperature = 1;
    s.top_k = 1;
    assert_int_equal(miras_sampler_sample(&s, logits, 50), round);
    s.top_k = 0;
    s.top_p = 1e-6f;
    assert_int_equal(miras_sampler_sample(&s, logits, 50), round);
    s.top_p = 0;
    s.temperature = 1e-4f;
    assert_int_equal(miras_sampler_sample(&s, logits, 50), round);
  }
  memset(&s, 0, sizeof s);
  assert_int_equal(miras_sampler_sample(&s, logits, 1), 0);
}

#define DRAWS 20000

static void draw(const float *logits, int vocab, miras_sampler *s, int *seen) {
  int i;
  memset(seen, 0, (size_t)vocab * sizeof *seen);
  for (i = 0; i < DRAWS; i++) {
    int32_t token = miras_sampler_sample(s, logits, vocab);
    assert_true(token >= 0 && token < vocab);
    seen[token]++;
  }
}

static void sampling_follows_probabilities(void **state) {
  static const double p[6] = { 0.1, 0.4, 0.05, 0.25, 0.15, 0.05 };
  float logits[6];
  int seen[6], i;
  miras_sampler s;
  (void)state;
  for (i = 0; i < 6; i++) logits[i] = (float)(log(p[i]) + 7);
  memset(&s, 0, sizeof s);
  s.seed = 42;

  s.temperature = 1;
  draw(logits, 6, &s, seen);
  for (i = 0; i < 6; i++)   /* five standard deviations */
    assert_near((double)seen[i] / DRAWS, p[i], 5 * sqrt(p[i] * (1 - p[i]) / DRAWS));

  s.temperature = 0.5f;     /* p^2, normalised by 0.2600 */
  draw(logits, 6, &s, seen);
  for (i = 0; i < 6; i++) assert_near((double)seen[i] / DRAWS, p[i] * p[i] / 0.26, 0.02);

  s.temperature = 1;
  s.top_k = 3;              /* tokens 1, 3, 4 */
  draw(logits, 6, &s, seen);
  assert_true(!seen[0] && !seen[2] && !seen[5]);
  assert_near((double)seen[1] / DRAWS, 0.4 / 0.8, 0.02);
  assert_near((double)seen[3] / DRAWS, 0.25 / 0.8, 0.02);
  s.top_k = 100;            /* more than there are: all */
  draw(logits, 6, &s, seen);
  for (i = 0; i < 6; i++) assert_true(seen[i] > 0);

  s.top_k = 0;
  s.top_p = 0.6f;           /* 0.4 is not enough, 0.65 is */
  draw(logits, 6, &s, seen);
  assert_true(!seen[0] && !seen[2] && !seen[4] && !seen[5]);
  assert_near((double)seen[1] / DRAWS, 0.4 / 0.65, 0.02);
  s.top_p = 1;
  draw(logits, 6, &s, seen);
  for (i = 0; i < 6; i++) assert_true(seen[i] > 0);

  s.top_p = 0.95f;          /* with top_k 2: the probabilities after top_k are what counts */
  s.top_k = 2;
  draw(logits, 6, &s, seen);
  assert_int_equal(seen[1] + seen[3], DRAWS);
  assert_true(seen[3] > 0);

  for (i = 0; i < 6; i++) logits[i] = 3;   /* of equal ones too, of which four are left */
  s.top_p = 0.9f;
  s.top_k = 4;
  draw(logits, 6, &s, seen);
  for (i = 0; i < 6; i++) assert_true((seen[i] > 0) == (i < 4));
  for (i = 0; i < 6; i++) logits[i] = (float)(log(p[i]) + 7);

  s.top_k = 0;
  s.top_p = 0;
  logits[1] = -INFINITY;    /* forbidden by the caller */
  draw(logits, 6, &s, seen);
  assert_int_equal(seen[1], 0);
}

/* The order of logits is that of floats, however near they are: top_k takes the largest, and of
 * equal ones the first. */
static void sampling_tells_near_logits_apart(void **state) {
  static const float units[8] = { -3, 2, -0.0f, 7, 0, -8, 5, 1 };   /* of 1e-8; last digits of 16 */
  static const int order[8] = { 3, 6, 1, 7, 2, 4, 0, 5 };
  float logits[8];
  int seen[8], i, k, far;
  miras_sampler s;
  (void)state;
  memset(&s, 0, sizeof s);
  s.seed = 5;
  s.temperature = 1;
  for (far = 0; far < 2; far++)
    for (k = 1; k <= 8; k++) {
      for (i = 0; i < 8; i++)
        logits[i] = far ? 16 + units[i] * 1.9073486e-6f : units[i] * 1e-8f;
      s.top_k = k;
      draw(logits, 8, &s, seen);
      for (i = 0; i < 8; i++)
        if ((seen[order[i]] > 0) != (i < k))
          fail_msg("top_k %d: token %d, number %d in order, is drawn %d times", k, order[i], i,
                   seen[order[i]]);
    }
}

static void sampling_is_seeded(void **state) {
  float logits[64];
  miras_sampler a, b, c;
  int i, same = 0;
  (void)state;
  numbers(logits, 64, 1);
  memset(&a, 0, sizeof a);
  a.temperature = 1;
  a.seed = 5;
  b = c = a;
  c.seed = 6;
  for (i = 0; i < 200; i++) {
    uint64_t before = a.seed;
    int32_t x = miras_sampler_sample(&a, logits, 64);
    assert_int_equal(x, miras_sampler_sample(&b, logits, 64));
    assert_true(a.seed != before);
    assert_true(a.seed == b.seed);
    same += x == miras_sampler_sample(&c, logits, 64);
  }
  assert_true(same < 30);   /* of 200, where chance gives about 4 */
}

/* Nothing is drawn, and the seed stays, of logits without a number and by settings out of range. */
static void sampling_refuses(void **state) {
  static const float bad[] = { NAN, INFINITY, -INFINITY, -1 };
  float logits[8];
  miras_sampler s;
  int i, round;
  (void)state;
  memset(&s, 0, sizeof s);
  s.seed = 77;
  for (round = 0; round < 4; round++) {
    s.temperature = round % 2 ? 0.8f : 0;
    s.top_k = round / 2 ? 3 : 0;
    for (i = 0; i < 8; i++) logits[i] = NAN;
    assert_int_equal(miras_sampler_sample(&s, logits, 8), MIRAS_SAMPLER_NONE);
    for (i = 0; i < 8; i += 2) logits[i] = -INFINITY;
    assert_int_equal(miras_sampler_sample(&s, logits, 8), MIRAS_SAMPLER_NONE);
    assert_true(s.seed == 77);
    logits[5] = -3;                              /* a single number is the only choice            */
    assert_int_equal(miras_sampler_sample(&s, logits, 8), 5);
    logits[3] = INFINITY;
    assert_int_equal(miras_sampler_sample(&s, logits, 8), 3);
    s.seed = 77;
  }
  numbers(logits, 8, 3);
  for (round = 0; round < 4; round++) {
    memset(&s, 0, sizeof s);
    s.seed = 77;
    s.temperature = bad[round];
    assert_int_equal(miras_sampler_sample(&s, logits, 8), MIRAS_SAMPLER_NONE);
    s.temperature = 1;
    s.top_p = bad[round];
    assert_int_equal(miras_sampler_sample(&s, logits, 8), MIRAS_SAMPLER_NONE);
    s.top_p = 1.01f;
    assert_int_equal(miras_sampler_sample(&s, logits, 8), MIRAS_SAMPLER_NONE);
    s.top_p = 0;
    s.top_k = -1 - round;
    assert_int_equal(miras_sampler_sample(&s, logits, 8), MIRAS_SAMPLER_NONE);
    s.top_k = 0;
    assert_int_equal(miras_sampler_sample(&s, NULL, 8), MIRAS_SAMPLER_NONE);
    assert_int_equal(miras_sampler_sample(NULL, logits, 8), MIRAS_SAMPLER_NONE);
    assert_int_equal(miras_sampler_sample(&s, logits, -round), MIRAS_SAMPLER_NONE);
    assert_true(s.seed == 77);
  }
}

/* ---- the schedule ---- */

static void cosine_schedule(void **state) {
  uint64_t i;
  float last = 0, peak = 0.5f;
  (void)state;
  for (i = 0; i < 10; i++) {
    float rate = miras_schedule_cosine(i, 10, 110, peak, 0.1f);
    assert_true(rate >= 0 && rate <= peak);
    assert_true(i == 0 || rate > last);
    last = rate;
  }
  last = miras_schedule_cosine(10, 10, 110, peak, 0.1f);
  assert_near(last, peak, 1e-6);
  for (i = 11; i < 110; i++) {
    float rate = miras_schedule_cosine(i, 10, 110, peak, 0.1f);
    assert_true(rate < last);
    last = rate;
  }
  assert_near(miras_schedule_cosine(60, 10, 110, peak, 0.1f), 0.5 * 1.1 / 2, 1e-3);
  assert_near(miras_schedule_cosine(110, 10, 110, peak, 0.1f), 0.05, 1e-6);
  assert_near(miras_schedule_cosine(100000, 10, 110, peak, 0.1f), 0.05, 1e-6);
  assert_near(miras_schedule_cosine(0, 0, 100, peak, 0), peak, 1e-6);
  assert_near(miras_schedule_cosine(100, 0, 100, peak, 0), 0, 1e-7);
  assert_true(isfinite(miras_schedule_cosine(0, 0, 0, peak, 0.1f)));
  assert_true(isfinite(miras_schedule_cosine(5, 10, 10, peak, 0.1f)));
  assert_true(isfinite(miras_schedule_cosine(20, 10, 5, peak, 0.1f)));
  assert_true(isfinite(miras_schedule_cosine(UINT64_MAX, 10, 100, peak, 0.1f)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_round_trip),
    cmocka_unit_test(result_texts),
    cmocka_unit_test(isa_is_known),
    cmocka_unit_test(version_agrees),
    cmocka_unit_test(presets_are_valid),
    cmocka_unit_test(defaults_are_filled_in),
    cmocka_unit_test(zeros_are_zeros),
    cmocka_unit_test(fields_as_text),
    cmocka_unit_test(heads_have_three_names),
    cmocka_unit_test(fields_are_finite),
    cmocka_unit_test(steps_refuse),
    cmocka_unit_test(fields_of_kinds),
    cmocka_unit_test(tables_are_right), cmocka_unit_test(sentences_are_short),
    cmocka_unit_test(long_texts_are_refused),
    cmocka_unit_test(carried_states_that_do_not_fit),
    cmocka_unit_test(wrong_memories_are_refused),
    cmocka_unit_test(wrong_models_are_refused),
    cmocka_unit_test(types_refuse_each_other),
    cmocka_unit_test(wrong_parallel_is_refused),
    cmocka_unit_test(garbage_is_refused),
    cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    cmocka_unit_test(wrong_trainers_are_refused),
    cmocka_unit_test(limits_are_kept),
    cmocka_unit_test(counts_that_do_not_fit_are_refused),
    cmocka_unit_test(sentences_fit_their_buffer),
    cmocka_unit_test(null_arguments),
    cmocka_unit_test(write_needs_constant_gates),
    cmocka_unit_test(can_write_says_why),
    cmocka_unit_test(failing_allocations),
    cmocka_unit_test(no_allocation_after_init),
    cmocka_unit_test(default_allocator),
    cmocka_unit_test(arena_allocator),
    cmocka_unit_test(no_tokens),
    cmocka_unit_test(buffers_are_exact),
    cmocka_unit_test(snapshot_and_rollback),
    cmocka_unit_test(session_snapshot_and_rollback),
    cmocka_unit_test(calls_agree),
    cmocka_unit_test(params_hold_from_reset),
    cmocka_unit_test(initial_memory_is_seen),
    cmocka_unit_test(sampling_greedy),
    cmocka_unit_test(sampling_follows_probabilities),
    cmocka_unit_test(sampling_tells_near_logits_apart),
    cmocka_unit_test(sampling_is_seeded),
    cmocka_unit_test(sampling_refuses),
    cmocka_unit_test(choices_change),
    cmocka_unit_test(changes_say),
    cmocka_unit_test(refusals_say_why), cmocka_unit_test(what_lacks_is_named),
    cmocka_unit_test(cosine_schedule),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
