/* Fuzzing of everything that reads a file, and of descriptors. Any bytes give an error, and then
 * the object has not changed, or an object that saves, loads and runs. Files of models are opened
 * too, as models of whatever they describe within a limit, which then run and learn, and once more
 * where they lie; so are descriptors whose fields are set as text, or hold any bytes.
 *
 *   clang -g -O1 -I. -DMIRAS_LIBFUZZER -fsanitize=fuzzer,address,undefined tests/fuzz_files.c -lm
 *   ./a.out corpus                  libFuzzer; write its first corpus with the program below
 *   cc -O2 -I. tests/fuzz_files.c -lm
 *   ./a.out                         20000 mutations from a fixed seed, for the default tests
 *   ./a.out COUNT [SEED]            more of them
 *   ./a.out --seeds FOLDER          write the first corpus
 *   ./a.out FILE ...                replay
 *
 * The first byte of an input chooses the object (0 model, 1 memory, 2 session, 3 descriptor, 6
 * session of another model; modulo 8, others as modulo 4) and, with its bit 7, whether checksums
 * are made right first, so that what lies behind them is reached too. The rest is the file; of a
 * descriptor a byte for the preset, then lines:
 * FIELD=VALUE as miras_model_desc_set takes it, ~FIELD=VALUE as miras_model_desc_change does, and
 * !FIELD=BYTES, which a text then holds, without an end if they are as many. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

/* Loading must not allocate, and opening not more than its limit; both is counted. */
static long fuzz_calls;
static size_t fuzz_largest;
static void *fuzz_malloc(size_t n) {
  fuzz_calls++;
  if (n > fuzz_largest) fuzz_largest = n;
  return malloc(n);
}
/* The library opens paths; here they name no file but the input itself. */
static unsigned char *fuzz_input;
static size_t fuzz_length;
static FILE *fuzz_fopen(const char *path, const char *mode) {
  return path[0] ? (fopen)(path, mode) : fmemopen(fuzz_input, fuzz_length, mode);
}
#define fopen(path, mode) fuzz_fopen(path, mode)
#define MIRAS_MALLOC(n) fuzz_malloc(n)
#define MIRAS_FREE(p) free(p)
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "calls.h"

enum { FUZZ_MODEL, FUZZ_MEMORY, FUZZ_SESSION, FUZZ_DESC, FUZZ_KINDS };
enum { FUZZ_LIMIT = 1 << 20, FUZZ_ROWS = FUZZ_DESC + 2 * MIRAS_PRESET_ROWS,
       FUZZ_TEXTS = FUZZ_ROWS + 5, FUZZ_HELD = FUZZ_TEXTS + 6,
       FUZZ_MODELS = FUZZ_HELD + 2 * MIRAS_WEIGHTS_COUNT - 1,
       FUZZ_MEMORIES = FUZZ_MODELS, FUZZ_OTHER = FUZZ_MEMORIES + 6,   /* a session */
       FUZZ_FILES };

static miras_model *fuzz_model, *fuzz_learner;   /* the other session's */
static miras_trainer *fuzz_trainer;
static miras_memory *fuzz_memory;
static miras_session *fuzz_session;
static miras_session *fuzz_sessions[2];        /* of Titans; of a hybrid whose head learns */
/* A good file of each kind, then models of every row, as it comes and with later fields, then of
 * several kinds of layer, then of texts, then of matrices that are not float, then memories of rows
 * with constants of their own, and the other session. */
static unsigned char *fuzz_base[FUZZ_FILES];
static size_t fuzz_size[FUZZ_FILES];
static int fuzz_files;
static uint64_t fuzz_print[FUZZ_FILES];        /* of the object that it came from */
static long fuzz_opened, fuzz_hybrids, fuzz_rowed;   /* that were, with a pattern, with texts */
static long fuzz_described, fuzz_lying;        /* descriptors that are right; opened in place */

static void fuzz_check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fuzz_files: %s\n", what);
  abort();
}

static void *fuzz_object(int kind) {
  return kind == FUZZ_MODEL ? (void *)fuzz_trainer
       : kind == FUZZ_MEMORY ? (void *)fuzz_memory : (void *)fuzz_session;
}

static size_t fuzz_save(int kind, void *to, size_t capacity) {
  return miras_save_to(fuzz_object(kind), to, capacity);
}

static miras_result fuzz_load(int kind, const void *from, size_t n) {
  return miras_load_from(fuzz_object(kind), from, n, NULL, 0);
}

static uint64_t fuzz_look(int kind) {
  size_t n = 0;
  const void *state;
  uint64_t h = 0;
  if (kind == FUZZ_MODEL) {
    n = 4 * fuzz_model->param_count;
    h = miras__hash(fuzz_trainer->now->steps);
    h = miras__hash(h ^ miras__crc32c(0, fuzz_model->params, n));
    h = miras__hash(h ^ miras__crc32c(0, fuzz_trainer->moment1, n));
    h = miras__hash(h ^ miras__crc32c(0, fuzz_trainer->moment2, n));
    n = 4 * fuzz_model->run * (size_t)fuzz_trainer->desc.carried;
    return miras__hash(h ^ miras__crc32c(0, fuzz_trainer->streams, n));
  }
  state = kind == FUZZ_MEMORY ? miras_memory_state(fuzz_memory, &n)
                              : miras_session_state(fuzz_session, &n);
  h = miras__hash(miras__crc32c(0, state, n));
  if (kind == FUZZ_SESSION) return h;
  state = miras_memory_params(fuzz_memory, &n);
  return miras__hash(h ^ miras__crc32c(0, state, 4 * n));
}

static void fuzz_describe(miras_model_desc *d, miras_preset kind) {
  miras_model_preset(d, kind, 0);
  d->layer[0].memory.heads = 1;
  d->layer[0].memory.key_dim = 2;
  if (d->layer[0].memory.chunk > 2) d->layer[0].memory.chunk = 2;
  if (d->layer[0].memory.architecture == MIRAS_ARCH_MLP && d->layer[0].memory.depth != 1)
    d->layer[0].memory.expansion = 1;
  d->vocab = 4;
  d->width = 2;
  d->layers = 1;
  d->layer[0].mlp.hidden = 2;
  d->layer[0].mixer.conv_size = 1;
  d->layer[0].mixer.gate_rank = 1;
}

/* The file of a model, memory or session is the next one. */
static void fuzz_keep(const void *object) {
  fuzz_size[fuzz_files] = miras_save_to(object, NULL, 0);
  fuzz_base[fuzz_files] = (unsigned char *)malloc(fuzz_size[fuzz_files]);
  fuzz_check(fuzz_base[fuzz_files] && miras_save_to(object, fuzz_base[fuzz_files],
                                                    fuzz_size[fuzz_files]) == fuzz_size[fuzz_files],
             "no file");
  fuzz_files++;
}

static void fuzz_add(const miras_model_desc *d) {
  miras_model *m = miras_model_open(d, NULL, NULL, 0);
  fuzz_check(m != NULL, "no model of a row or pattern");
  fuzz_keep(m);
  miras_close(m);
}

/* Two files of every row of the table, where the second descriptor means something. */
static void fuzz_rows(void) {
  int i;
  for (i = 0; i < 2 * MIRAS_PRESET_ROWS; i++) {
    miras_model_desc d;
    fuzz_describe(&d, (miras_preset)(i / 2));
    if (i % 2) {
      d.layer[0].mixer.decay_horizon = d.layer[0].memory.decay_gate ? 64 : 0;
      if (!miras_model_size(&d, NULL, 0)) d.layer[0].mixer.decay_horizon = 0;
      d.layer[0].memory.decay_target = MIRAS_DECAY_TARGET_INITIAL;
      if (!miras_model_size(&d, NULL, 0)) d.layer[0].memory.decay_target = MIRAS_DECAY_TARGET_ZERO;
      d.layer[0].memory.step_bound = MIRAS_STEP_BOUND_PAIR;
      if (!miras_model_size(&d, NULL, 0)) d.layer[0].memory.step_bound = MIRAS_STEP_BOUND_AUTO;
      d.layer[0].memory.reset_every = 32;
      if (!miras_model_size(&d, NULL, 0)) d.layer[0].memory.reset_every = 0;
    }
    fuzz_add(&d);
  }
}

static void fuzz_patterns(void) {
  static const char *const patterns[FUZZ_TEXTS - FUZZ_ROWS] = { "mwm", "(mg)*2a", "a*2", "",
                                                                 "mfwf" };
  int i;
  for (i = 0; i < FUZZ_TEXTS - FUZZ_ROWS; i++) {
    miras_model_desc d, other;
    fuzz_describe(&d, MIRAS_PRESET_YAAD);
    fuzz_describe(&other, MIRAS_PRESET_GATED_DELTANET);
    strcpy(d.pattern, patterns[i]);
    d.layers = patterns[i][0] ? 0 : 1;
    d.layer[1].attention.window = d.layer[2].attention.window = 3;
    d.layer[1].mlp.hidden = d.layer[2].mlp.hidden = 2;
    d.layer[2].attention.qk_norm = d.layer[2].attention.out_gate = 1;
    d.layer[3] = other.layer[0];
    d.layer[3].letter = 'g';
    d.layer[4].letter = 'f';
    d.layer[4].type = MIRAS_LAYER_MLP;
    d.layer[4].mlp.none = 0;
    if (strchr(patterns[i], 'f')) {
      d.layer[0].mlp.none = 1;
      d.layer[0].mlp.hidden = 0;
    }
    if (strchr(patterns[i], 'f'))
      d.program = "layer f; h = norm x norm2.gain; a = times h mine.up 3; b = conv a:3 c.weight 2 "
                  "silu; r = relu2 b; out = branch r mlp.down";
    if (!patterns[i][0]) d.layer[0] = d.layer[2];
    fuzz_add(&d);
  }
}

/* Models of rows, whose heads learn, and of groups of categories. */
static void fuzz_texts(void) {
  static const char *const texts[FUZZ_HELD - FUZZ_TEXTS][2] = {
    {"vector 2", "raw 1"}, {"category 3, standardized 2", "category 3, huber 1 at 0.5 times 0.1"},
    {"", "quantile 1 at 0.9, normal 1"}, {"vector 1", "lp 1, binary 2"}, {"", ""},
    {"vector 1", ""}};
  int i;
  for (i = 0; i < FUZZ_HELD - FUZZ_TEXTS; i++) {
    miras_model_desc d;
    fuzz_describe(&d, i % 2 ? MIRAS_PRESET_GATED_DELTANET : MIRAS_PRESET_LINEAR_ATTENTION);
    strcpy(d.inputs, texts[i][0]);
    strcpy(d.outputs, texts[i][1]);
    if (texts[i][0][0] && texts[i][1][0]) d.vocab = 0;
    if (i > 1) {
      d.adapt.learning_rate = d.adapt.ridge = 1;
      d.adapt.hidden = 1;
      d.adapt.vectors = strstr(texts[i][0], "vector") != NULL;
      d.adapt.contexts = d.vocab ? 4 : 0;
    }
    if (i > 3) {
      fuzz_describe(&d, MIRAS_PRESET_TITANS);
      d.layer[0].memory.bias = MIRAS_BIAS_CROSS_ENTROPY;
      d.layer[0].memory.value_dim = 2;
      strcpy(d.layer[0].memory.groups, "1,1");
    }
    fuzz_add(&d);
  }
}

/* Models whose matrices are not float, of one brick and of several; with scaled angles, experts and
 * adapters, which are. */
static void fuzz_held(void) {
  int i;
  for (i = 0; i < FUZZ_MODELS - FUZZ_HELD; i++) {
    miras_model_desc d;
    fuzz_describe(&d, MIRAS_PRESET_GATED_DELTANET);
    d.weights = (miras_weights)((i + 1) / 2);
    d.width = i % 2 ? 34 : 2;
    strcpy(d.pattern, "mw");
    d.layers = 0;
    d.layer[1].attention.window = 3;
    d.layer[1].mlp.hidden = 4;
    d.layer[1].attention.rope_scaling.type = (miras_rope_scaling_type)(1 + i % 3);
    d.layer[1].attention.rope_scaling.factor = 2;
    if (i % 3) d.layer[1].attention.rope_scaling.context = 8;
    if (!miras_model_size(&d, NULL, 0)) memset(&d.layer[1].attention.rope_scaling, 0,
                                               sizeof d.layer[1].attention.rope_scaling);
    d.layer[1].mlp.experts = i / 2 % 2 * 3;
    if (!miras_model_size(&d, NULL, 0)) d.layer[1].mlp.experts = 0;
    d.untied = i / 4 % 2;
    if (i % 5 == 4) d.adapter.rank = 1, d.adapter.scale = 1, strcpy(d.adapters, "*");
    if (!miras_model_size(&d, NULL, 0)) d.adapter.rank = 0, d.adapter.scale = 0, d.adapters[0] = 0;
    fuzz_add(&d);
  }
}

/* Memories of rows with constants of their own. */
static void fuzz_memories(void) {
  static const miras_preset kinds[FUZZ_OTHER - FUZZ_MEMORIES] = {
    MIRAS_PRESET_SIGNALS, MIRAS_PRESET_CATEGORIES, MIRAS_PRESET_EVENTS, MIRAS_PRESET_ATLAS,
    MIRAS_PRESET_RLS, MIRAS_PRESET_SLIDING_WINDOW };
  int i, k;
  for (i = 0; i < FUZZ_OTHER - FUZZ_MEMORIES; i++) {
    float x[4] = { 0.5f, 0, 0.25f, 1 }, y[4];
    miras_memory_desc d;
    miras_memory *m;
    miras_memory_preset(&d, kinds[i]);
    d.heads = 1, d.key_dim = d.value_dim = 4;
    if (d.bias == MIRAS_BIAS_CROSS_ENTROPY) strcpy(d.groups, "2,2");
    if (d.window > 3) d.window = 3;
    d.limit = FUZZ_LIMIT;
    m = miras_memory_open(&d, NULL, NULL, 0);
    fuzz_check(m != NULL, "no memory of a row");
    for (k = 0; k < 5; k++) forward_one(m, x, x, x, y);
    fuzz_keep(m);
    miras_close(m);
  }
}

/* The session whose head learns, and its file. */
static void fuzz_other(void) {
  const int32_t tokens[8] = { 1, 2, 3, 0, 1, 3, 2, 0 };
  miras_model_desc d;
  miras_model *m;
  fuzz_describe(&d, MIRAS_PRESET_GATED_DELTANET);
  strcpy(d.pattern, "mw");
  d.layers = 0;
  d.layer[1].attention.window = 3;
  d.layer[1].mlp.hidden = 2;
  d.adapt.learning_rate = d.adapt.ridge = 1;
  d.adapt.hidden = 1;
  d.adapt.contexts = 4;
  m = fuzz_learner = miras_model_open(&d, NULL, NULL, 0);
  fuzz_check(m != NULL, "no model whose head learns");
  fuzz_session = fuzz_sessions[1] = miras_session_open(m, NULL, NULL, NULL, 0);
  fuzz_check(fuzz_session != NULL, "no session");
  miras_session_feed(fuzz_session, tokens, NULL, 5);
  fuzz_keep(fuzz_session);
  fuzz_print[FUZZ_OTHER] = fuzz_look(FUZZ_SESSION);
}

static void fuzz_start(void) {
  int32_t tokens[8] = { 1, 2, 3, 0, 1, 3, 2, 0 }, stream = 1;
  float x[4] = { 0.5f, -0.5f, 0.25f, 1 }, y[4];
  static const miras_trainer_desc room = { 1, 8, 2, 0, 0, NULL, NULL };
  miras_adamw_options adamw = MIRAS_ADAMW(0, 0);
  miras_model_desc d;
  miras_memory_desc one;
  int i;
  if (fuzz_model) return;
  fuzz_describe(&d, MIRAS_PRESET_TITANS);
  fuzz_model = miras_model_open(&d, NULL, NULL, 0);
  fuzz_check(fuzz_model != NULL, "no model");
  fuzz_trainer = miras_trainer_open(fuzz_model, &room, NULL, NULL, 0);
  fuzz_check(fuzz_trainer != NULL, "no trainer");
  (void)loss_carried(fuzz_trainer, tokens, tokens, 1, 8, &stream, NULL);
  miras_trainer_backward(fuzz_trainer, NULL);
  (void)norm_of_step(fuzz_trainer, &adamw, 0.01f);
  fuzz_session = fuzz_sessions[0] = miras_session_open(fuzz_model, NULL, NULL, NULL, 0);
  fuzz_check(fuzz_session != NULL, "no session");
  miras_session_feed(fuzz_session, tokens, NULL, 5);
  miras_memory_preset(&one, MIRAS_PRESET_MEMORA);
  one.heads = 1;
  one.key_dim = 2;
  one.expansion = 1;
  one.chunk = 3;
  one.batch = 2;
  fuzz_memory = miras_memory_open(&one, NULL, NULL, 0);
  fuzz_check(fuzz_memory != NULL, "no memory");
  for (i = 0; i < 5; i++) forward_one(fuzz_memory, x, x, x, y);
  for (i = 0; i < FUZZ_DESC; i++) {
    fuzz_keep(fuzz_object(i));
    fuzz_print[i] = fuzz_look(i);
  }
  fuzz_rows();
  fuzz_patterns();
  fuzz_texts();
  fuzz_held();
  fuzz_memories();
  fuzz_other();
}

/* Make the checksums of a file right, where it has any. */
static void fuzz_mend(int kind, unsigned char *file, size_t n) {
  if (kind == FUZZ_MODEL) {
    static const char mark[] = "\"checksum\":\"";
    size_t length = sizeof mark - 1, i, k;
    for (i = 8; i + length + 8 <= n; i++) {
      uint32_t crc;
      if (memcmp(file + i, mark, length) != 0) continue;
      memset(file + i + length, '0', 8);
      crc = miras__crc32c(0, file, n);
      for (k = 0; k < 8; k++)
        file[i + length + k] = (unsigned char)"0123456789abcdef"[crc >> (28 - 4 * k) & 15];
      return;
    }
  } else if (n >= 64) {
    if (kind == FUZZ_MEMORY && n >= MIRAS__STATE_HEAD) {   /* the fingerprint of what it says */
      miras__places at;
      miras_memory_desc d;
      memset(&d, 0, sizeof d);
      d.batch = (int)(miras__get32(file + 48) & INT_MAX);
      miras__set32(file + 60, miras__crc32c(0, file, 60));
      if (miras__state_places(file, n, n, &at) &&
          miras__read_memory(&d, (const char *)file + at.text, at.row - at.text))
        miras__set64(file + 16, miras__memory_print(&d));
    }
    miras__set32(file + 56, miras__crc32c(0, file + 64, n - 64));
    miras__set32(file + 60, miras__crc32c(0, file, 60));
  }
}

/* Run a model and train it, on rows of whatever it reads and says. file NULL, or one that a trainer
 * must take. */
static void fuzz_run(miras_model *m, const unsigned char *file, size_t n) {
  enum { ROWS = 6 };
  const miras_trainer_desc room = { 1, 4, 0, 0, FUZZ_LIMIT, NULL, NULL };
  const miras_row row = *miras_model_row(m);
  const miras_batch_grad g = { NULL, NULL, NULL };
  int32_t *tokens = (int32_t *)calloc((size_t)(ROWS * (row.tokens + row.classes)) + 1, 4);
  int32_t *classes = tokens + ROWS * row.tokens;
  float *numbers = (float *)malloc(4 * ((size_t)(ROWS * (row.vectors + row.values)) + 1));
  float *values = numbers + ROWS * row.vectors, loss;
  miras_adamw_options adamw = MIRAS_ADAMW(0, 0);
  miras_session *s;
  miras_trainer *t;
  miras_batch x;
  int i;
  fuzz_check(tokens && numbers, "no memory for rows");
  for (i = 0; i < ROWS * row.tokens; i++) tokens[i] = i / 2 % 2;
  for (i = 0; i < ROWS * row.classes; i++) classes[i] = i / 3 % 2;
  for (i = 0; i < ROWS * (row.vectors + row.values); i++) numbers[i] = 0.25f * (float)(i % 5);
  memset(&x, 0, sizeof x);
  s = miras_session_open(m, NULL, NULL, NULL, 0);
  fuzz_check(s != NULL, "a model within the limit has no session");
  fuzz_check(miras_session_feed(s, tokens, numbers, 5) != NULL, "feeding refuses");
  (void)miras_session_learn(s, classes, values);
  fuzz_check(miras_session_feed(s, tokens, numbers, 1) != NULL, "a step refuses");
  (void)score_of(s, tokens, tokens, 3);
  miras_close(s);
  t = miras_trainer_open(m, &room, NULL, NULL, 0);
  fuzz_check((t != NULL) == (miras_trainer_size(m, &room, NULL, 0) != 0), "no trainer");
  if (t) {
    if (file)
      fuzz_check(miras_load_from(t, file, n, NULL, 0) == MIRAS_OK,
                 "a trainer refuses its file");
    x.batch = 1, x.length = 4;
    x.tokens = tokens, x.vectors = numbers, x.classes = classes, x.values = values;
    fuzz_check(miras_trainer_loss(t, &x, 1, &loss) == MIRAS_OK, "loss refuses");
    fuzz_check(miras_trainer_backward(t, &g) == MIRAS_OK, "backward refuses");
    (void)norm_of_step(t, &adamw, 0.01f);
  }
  miras_close(t);
  free(tokens);
  free(numbers);
}

/* Open a model of whatever the bytes describe, run it and train it. */
static void fuzz_open(unsigned char *file, size_t n) {
  miras_result result = MIRAS_OK;
  miras_model_desc given;
  miras_model *m;
  memset(&given, 0, sizeof given);
  given.limit = FUZZ_LIMIT;
  fuzz_input = file;
  fuzz_length = n;
  fuzz_largest = 0;
  m = miras_model_open_file("", &given, NULL, &result, NULL, 0);
  fuzz_check((m != NULL) == (result == MIRAS_OK), "a model and an error, or neither");
  fuzz_check(m || result == MIRAS_ERR_FORMAT || result == MIRAS_ERR_DESC ||
             result == MIRAS_ERR_SIZE, "open_file: a strange result");
  if (m) {
    const miras_model_desc *d = miras_model_desc_of(m);
    fuzz_opened++;
    fuzz_hybrids += d->pattern[0] != 0;
    fuzz_rowed += d->inputs[0] || d->outputs[0] || d->layer[0].memory.groups[0];
    fuzz_run(m, file, n);
    miras_close(m);
  }
  fuzz_check(fuzz_largest <= (n < FUZZ_LIMIT ? FUZZ_LIMIT : n + 1), "more than the limit");
}

/* The same where the file lies, as whatever it says that its matrices are. Nothing changes it. */
static void fuzz_in_place(const unsigned char *file, size_t n) {
  miras_result result = MIRAS_OK;
  miras_model_desc given;
  miras_model *m;
  void *bytes;
  memset(&given, 0, sizeof given);
  if (miras_model_desc_from(&given, file, n) != MIRAS_OK) return;
  given.limit = FUZZ_LIMIT;
  given.layer[0].attention.window = 2;
  fuzz_check(posix_memalign(&bytes, 64, n) == 0, "no memory for a file");
  memcpy(bytes, file, n);
  m = miras_model_open_from(bytes, n, 1, &given, NULL, &result, NULL, 0);
  fuzz_check((m != NULL) == (result == MIRAS_OK), "a model and an error, or neither");
  fuzz_check(m || result == MIRAS_ERR_FORMAT || result == MIRAS_ERR_DESC ||
             result == MIRAS_ERR_SIZE, "open_from: a strange result");
  if (m) {
    fuzz_lying += m->lies != NULL;
    fuzz_run(m, NULL, 0);
    miras_close(m);
  }
  fuzz_check(memcmp(bytes, file, n) == 0, "a file that is only read has changed");
  free(bytes);
}

static void fuzz_write_to(miras_memory *m) {
  const miras_memory_desc *is = miras_memory_desc_of(m);
  const size_t wide = (size_t)(is->key_dim > is->value_dim ? is->key_dim : is->value_dim);
  const size_t key = (size_t)is->batch * (size_t)is->heads * (size_t)is->inner_steps * wide;
  float *x = (float *)malloc(2 * key * sizeof *x);
  size_t i;
  fuzz_check(x != NULL, "no memory for tokens");
  for (i = 0; i < key; i++) x[i] = 0.25f;
  for (i = 0; i < 3; i++) (void)forward_one(m, x, x, x, x + key);
  free(x);
}

/* Open a memory of whatever the bytes describe, and run it. */
static void fuzz_open_memory(unsigned char *file, size_t n) {
  const miras_memory *was = fuzz_memory;
  miras_result result = MIRAS_OK;
  miras_memory *m;
  miras_memory_desc d, given;
  char why[160];
  memset(&given, 0, sizeof given);
  given.limit = FUZZ_LIMIT;
  d = given;
  result = miras_memory_desc_from(&d, file, n);
  fuzz_check(result == MIRAS_OK || result == MIRAS_ERR_FORMAT, "desc_from: a strange result");
  if (result == MIRAS_OK) {
    (void)miras_memory_size(&d, why, sizeof why);
    (void)miras_memory_desc_differs(&d, miras_memory_desc_of(was), why, sizeof why);
  }
  fuzz_input = file;
  fuzz_length = n;
  fuzz_largest = 0;
  m = miras_memory_open_file("", &given, NULL, &result, NULL, 0);
  fuzz_check((m != NULL) == (result == MIRAS_OK), "a memory and an error, or neither");
  fuzz_check(m || result == MIRAS_ERR_FORMAT || result == MIRAS_ERR_DESC ||
             result == MIRAS_ERR_SIZE, "memory_open_file: a strange result");
  if (m) {
    fuzz_opened++;
    fuzz_write_to(m);
    miras_close(m);
  }
  fuzz_check(fuzz_largest <= (n < FUZZ_LIMIT ? FUZZ_LIMIT : n + 1), "more than the limit");
}

/* A sentence where, and only where, something is refused; 256 bytes hold it. */
static void fuzz_said(int refused, const char *why) {
  fuzz_check(memchr(why, 0, 256) != NULL, "a sentence without an end");
  fuzz_check(refused == (why[0] != 0), "a refusal without a sentence, or one without the other");
  fuzz_check(strlen(why) < 255, "a sentence that 256 bytes do not hold");
}

/* The lines of an input, applied to a descriptor of a preset. */
static void fuzz_lines(miras_model_desc *d, const uint8_t *at, size_t n) {
  const uint8_t *const end = at + n;
  while (at < end) {
    const uint8_t *line = at, *stop = (const uint8_t *)memchr(at, '\n', (size_t)(end - at));
    char field[64], value[300], said[256];
    const uint8_t *equals;
    size_t name, length;
    at = stop ? stop + 1 : end;
    if (!stop) stop = end;
    equals = (const uint8_t *)memchr(line, '=', (size_t)(stop - line));
    if (!equals || equals == line) continue;
    name = (size_t)(equals - line) - (*line == '!' || *line == '~');
    length = (size_t)(stop - equals) - 1;
    if (name >= sizeof field || length >= sizeof value) continue;
    memcpy(field, equals - name, name);
    field[name] = 0;
    memcpy(value, equals + 1, length);
    value[length] = 0;
    if (*line == '!') {
      char *const texts[] = { d->pattern, d->inputs, d->outputs, d->layer[0].memory.groups };
      static const char *const names[] = { "pattern", "inputs", "outputs", "memory.groups" };
      static char program[sizeof value];
      size_t i;
      if (!strcmp(field, "program")) d->program = strcpy(program, value);
      for (i = 0; i < 4; i++) {
        const size_t room = i < 3 ? MIRAS_PATTERN_SIZE : MIRAS_GROUPS_SIZE;
        if (strcmp(field, names[i])) continue;
        memset(texts[i], 0, room);
        memcpy(texts[i], value, length < room ? length : room);
      }
    } else if (*line == '~') {
      const miras_result result = miras_model_desc_change(d, field, value, said, sizeof said);
      if (result != MIRAS_OK) fuzz_said(1, said);
    } else {
      (void)miras_model_desc_set(d, field, value);
    }
  }
}

/* A right descriptor: resolved it stays as large, every field comes back from its text, and its
 * model runs and is described by its file. */
static void fuzz_right(const miras_model_desc *d, size_t size) {
  miras_model_desc e = *d, f;
  unsigned char *file;
  char text[MIRAS_PATTERN_SIZE], why[256];
  const char *name;
  miras_model *m;
  size_t bytes;
  int i;
  fuzz_described++;
  fuzz_check(size <= FUZZ_LIMIT, "more than its limit");
  fuzz_check(miras_model_desc_resolve(&e, why, sizeof why) > 0, "sizes agree, resolving does not");
  f = e;
  for (i = 0; (name = miras_model_desc_field(i)) != NULL; i++) {
    fuzz_check(miras_model_desc_get(&e, name, text, sizeof text) == text, "no text of a field");
    fuzz_check(miras_model_desc_set(&f, name, text) == MIRAS_OK, "a field refuses its own text");
  }
  fuzz_check(!miras_model_desc_differs(&e, &f, why, sizeof why), "a field changed on its way");
  fuzz_check(miras_model_size(&e, NULL, 0) == size, "resolved it has another size");
  m = miras_model_open(d, NULL, NULL, 0);
  if (!m) return;
  bytes = miras_save_to(m, NULL, 0);
  file = (unsigned char *)malloc(bytes ? bytes : 1);
  fuzz_check(file && bytes && miras_save_to(m, file, bytes) == bytes, "it does not save");
  memset(&f, 0, sizeof f);
  fuzz_check(miras_model_desc_from(&f, file, bytes) == MIRAS_OK, "its file is none");
  fuzz_check(!miras_model_desc_differs(&e, &f, why, sizeof why), "its file says another model");
  if (!d->weights) fuzz_run(m, file, bytes);
  free(file);
  miras_close(m);
}

/* A descriptor of any texts, and the memory of its first layer on its own. */
static void fuzz_descriptor(const uint8_t *data, size_t n) {
  miras_model_desc d, e;
  miras_memory_desc one;
  miras_memory *m;
  char why[256], text[MIRAS_PATTERN_SIZE];
  const char *name;
  size_t size;
  int i;
  if (!n) return;
  fuzz_describe(&d, (miras_preset)(data[0] % MIRAS_PRESET_ROWS));
  e = d;
  d.limit = FUZZ_LIMIT;
  fuzz_lines(&d, data + 1, n - 1);
  size = miras_model_size(&d, why, sizeof why);
  fuzz_said(size == 0, why);
  (void)miras_model_desc_differs(&d, &e, why, sizeof why);
  fuzz_check(strlen(why) < 255, "a difference that 256 bytes do not hold");
  for (i = 0; (name = miras_model_desc_field(i)) != NULL; i++)
    (void)miras_model_desc_get(&d, name, text, sizeof text);
  if (size) {
    fuzz_right(&d, size);
  } else {
    e = d;
    fuzz_check(miras_model_desc_resolve(&e, why, sizeof why) == 0, "resolved, but without a size");
    fuzz_check(memcmp(&e, &d, sizeof e) == 0, "a refusal has changed the descriptor");
  }
  one = d.layer[0].memory;
  one.qk_norm = MIRAS_QK_NORM_NONE;
  one.limit = FUZZ_LIMIT;
  (void)miras_memory_desc_differs(&one, &e.layer[0].memory, why, sizeof why);
  (void)miras_memory_desc_differs(&one, miras_memory_desc_of(fuzz_memory), why, sizeof why);
  size = miras_memory_size(&one, why, sizeof why);
  fuzz_said(size == 0, why);
  m = size ? miras_memory_open(&one, NULL, NULL, 0) : NULL;
  if (m) fuzz_write_to(m);
  miras_close(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  unsigned char *file;
  miras_result result;
  size_t n;
  int kind, other, which;
  if (!size) return 0;
  fuzz_start();
  kind = (data[0] & 127) % FUZZ_KINDS;
  other = (data[0] & 7) == FUZZ_KINDS + FUZZ_SESSION;
  which = other ? FUZZ_OTHER : kind;
  fuzz_session = fuzz_sessions[other];
  n = size - 1;
  if (kind == FUZZ_DESC) {
    fuzz_descriptor(data + 1, n);
    return 0;
  }
  file = (unsigned char *)malloc(n ? n : 1);   /* exactly as long, for the sanitizer */
  fuzz_check(file != NULL, "no memory for an input");
  memcpy(file, data + 1, n);
  if (data[0] & 128) fuzz_mend(kind, file, n);
  fuzz_calls = 0;
  if (kind == FUZZ_MODEL) {
    miras_model_desc d;
    memset(&d, 0x5a, sizeof d);
    result = miras_model_desc_from(&d, file, n);
    fuzz_check(result == MIRAS_OK || result == MIRAS_ERR_FORMAT, "desc_from: a strange result");
    if (result == MIRAS_OK) {
      char why[160];
      (void)miras_model_size(&d, why, sizeof why);   /* refuses or accepts, but stands it */
    }
  }
  result = fuzz_load(kind, file, n);
  fuzz_check(fuzz_calls == 0, "loading has allocated");
  if (kind == FUZZ_MODEL && n) fuzz_open(file, n), fuzz_in_place(file, n);
  if (kind == FUZZ_MEMORY && n) fuzz_open_memory(file, n);
  if (result != MIRAS_OK) {
    fuzz_check(result == MIRAS_ERR_FORMAT || result == MIRAS_ERR_MISMATCH ||
               (kind == FUZZ_SESSION && result == MIRAS_ERR_WEIGHTS), "a strange result");
    if (result == MIRAS_ERR_WEIGHTS) {
      miras_session_adopt(fuzz_session, 1);
      fuzz_check(fuzz_load(kind, file, n) == MIRAS_OK &&
                 fuzz_load(kind, fuzz_base[which], fuzz_size[which]) == MIRAS_OK, "no adoption");
      miras_session_adopt(fuzz_session, 0);
    }
    fuzz_check(fuzz_look(kind) == fuzz_print[which], "an error has changed the object");
  } else {
    uint64_t look = fuzz_look(kind);
    size_t bytes = fuzz_save(kind, NULL, 0);
    unsigned char *again = (unsigned char *)malloc(bytes);
    int32_t tokens[3] = { 1, 2, 3 };
    float x[4] = { 0.5f, -0.5f, 0.25f, 1 }, y[4];
    fuzz_check(again && fuzz_save(kind, again, bytes) == bytes, "does not save");
    fuzz_check(fuzz_load(kind, again, bytes) == MIRAS_OK, "does not load what it saved");
    fuzz_check(fuzz_look(kind) == look, "a round trip has changed the object");
    /* whatever was in it, it runs without a fault */
    if (kind == FUZZ_MODEL) {
      int32_t stream = 1;
      (void)loss_of(fuzz_trainer, tokens, tokens, 1, 3, 0);
      (void)loss_carried(fuzz_trainer, tokens, tokens, 1, 2, &stream, NULL);
    }
    if (kind == FUZZ_MEMORY) (void)forward_one(fuzz_memory, x, x, x, y);
    if (kind == FUZZ_SESSION) (void)miras_session_feed(fuzz_session, tokens, NULL, 3);
    free(again);
    fuzz_check(fuzz_load(kind, fuzz_base[which], fuzz_size[which]) == MIRAS_OK &&
               fuzz_look(kind) == fuzz_print[which], "the good file does not load any more");
  }
  free(file);
  return 0;
}

#ifndef MIRAS_LIBFUZZER

/* A good model file without its proof (writer and checksum), as another program would write it:
 * input for the reader of JSON that needs no mending. */
static size_t fuzz_foreign(unsigned char *to, int which) {
  static const char proof[] = "\"writer\":\"miras.h\",\"checksum\":\"12345678\",";
  const unsigned char *base = fuzz_base[which];
  size_t n = fuzz_size[which], cut = sizeof proof - 1, i;
  for (i = 8; memcmp(base + i, proof, 10) != 0; i++) {}
  memcpy(to, base, i);
  memcpy(to + i, base + i + cut, n - i - cut);
  miras__set64(to, miras__get64(base) - cut);
  return n - cut;
}

/* Other characters in a pattern, or in the lines of layers, some of them wrong. */
static void fuzz_repattern(unsigned char *file, size_t n, uint64_t r) {
  static const char marks[2][12] = {"\"pattern\":\"", "\"program\":\""};
  const int lines = (int)(r >> 40 & 1);
  size_t i = 8, length = sizeof marks[0] - 1;
  while (i + length < n && memcmp(file + i, marks[lines], length) != 0) i++;
  for (i += length; i < n && file[i] != '"'; i++) {
    r = miras__hash(r);
    if (lines ? !(r & 31) : r & 3)
      file[i] = (unsigned char)(lines ? "haxrbc=@:;1" : "mwgam(*2)9x")[(r >> 8) % 11];
  }
}

/* A text for a field, into to[300]: what a pattern, rows or groups are made of, in an order that
 * may be right; or blanks, or too many of one thing. */
static size_t fuzz_text(char *to, int what, uint64_t r) {
  static const char *const parts[][16] = {
    {"m", "w", "a", "g", "c", "(", ")", "*2", "*", "(mw)*2", "m*256", "m*257", " ", "x", "mm",
     "*1"},
    {"vector 1", "category 3", "standardized 2", "vector", "category 2 2", "1", "65536", ", ", ",",
     " ", "at 1", "vector 65536", "category 16777216", "vector 0", "category 1", "x"},
    {"raw 1", "category 3", "binary 2", "squared 1", "huber 1", "lp 2", "quantile 1", "normal 1",
     " at 0.5", " times 0.1", ", ", ",", " ", "raw", " 2", " at 1e30"},
    {"1", ",", "1,1", "2", "0", "3", "16", "01", " ", "1,", "4294967297", "x", ",,", "-1", "4096",
     "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}};
  const int count = 1 + (int)(r & 7), alike = (r >> 3 & 7) == 0;
  size_t n = 0;
  int i;
  if ((r >> 6 & 15) == 0) {            /* one thing alone, as long as fields are or a little more */
    const char *part = r >> 10 & 1 ? " " : parts[what][(r >> 16) & 15];
    size_t most = (r >> 24 & 1) ? 111 + (r >> 25 & 3) : 1 + (r >> 25) % 130;
    while (n < most) to[n] = part[n % strlen(part)], n++;
    return n;
  }
  for (i = 0; i < count && n < 200; i++) {
    const char *part = parts[what][(r >> 20) & 15];
    if (what && what < 3 && i && (r >> 40 & 3)) memcpy(to + n, ", ", 2), n += 2;
    memcpy(to + n, part, strlen(part));
    n += strlen(part);
    if (!alike) r = miras__hash(r);
  }
  return n;
}

static const char *const fuzz_fields[] = { "pattern", "inputs", "outputs", "m.memory.groups" };

/* A field's text becomes another; where there is no such field, it comes to be there. */
static size_t fuzz_retext(unsigned char *file, size_t n, size_t room, uint64_t r) {
  static const char start[] = "\"__metadata__\":{";
  const int what = (int)(r % 4);
  char mark[40], text[400];
  size_t at, old = 0, length, head = (size_t)miras__get64(file) + 8, much, i;
  much = (size_t)sprintf(mark, "\"%s\":\"", fuzz_fields[what]);
  for (at = 8; at + much < head && memcmp(file + at, mark, much) != 0;) at++;
  length = fuzz_text(text, what, miras__hash(r));
  if (at + much < head) {
    at += much;
    while (at + old < head && file[at + old] != '"') old++;
  } else {
    char put[500];
    text[length] = 0;
    length = (size_t)sprintf(put, "%s%s\",", mark, text);
    memcpy(text, put, length);
    for (at = 8; at + sizeof start < head && memcmp(file + at, start, sizeof start - 1) != 0;) at++;
    at += sizeof start - 1;
  }
  if (at + old > head || n - old + length > room) return n;
  memmove(file + at + length, file + at + old, n - at - old);
  memcpy(file + at, text, length);
  n += length - old;
  miras__set64(file, head - 8 + length - old);
  for (i = 0; (r >> 50 & 3) == 0 && i < 2; i++) {   /* rows without words, heads that learn */
    static const char *const also[] = {
      "\"adapt.learning_rate\":\"1\",\"adapt.hidden\":\"1\",", "\"adapt.vectors\":\"1\"," };
    const size_t size = strlen(also[i]);
    for (at = 8; at + sizeof start < n && memcmp(file + at, start, sizeof start - 1) != 0;) at++;
    at += sizeof start - 1;
    if (at > n || n + size > room) break;
    memmove(file + at + size, file + at, n - at);
    memcpy(file + at, also[i], size);
    n += size;
    miras__set64(file, miras__get64(file) + size);
  }
  return n;
}

/* Lines for a descriptor: texts, and other fields of all kinds. */
static size_t fuzz_describe_lines(unsigned char *to, uint64_t r) {
  static const char *const values[] = { "0", "1", "2", "3", "4", "8", "0.5", "-1", "1e9", "64",
    "16", "256", "65536", "x", "", "l2", "cross-entropy", "mlp", "momentum", "channel", "head",
    "initial", "memory", "rwkv", "mac", "layer", "none", "4096", "0.001", "100", "huber", "all" };
  int lines = 1 + (int)(r >> 56 & 7), i;
  size_t n = 2;
  to[0] = FUZZ_DESC;
  to[1] = (unsigned char)(r >> 48);
  for (i = 0; i < lines; i++) {
    char text[400];
    size_t length;
    r = miras__hash(r);
    if (r & 1) {
      const int what = (int)(r >> 1) & 3;
      length = fuzz_text(text, what, miras__hash(r));
      text[length] = 0;
      n += (size_t)sprintf((char *)to + n, "%s%s=%s\n", (r >> 3 & 3) == 0 ? "!" : "",
                           fuzz_fields[what] + (what == 3 ? 2 : 0), text);
    } else {
      const char *name = miras_model_desc_field((int)((r >> 8) % MIRAS__FIELDS));
      n += (size_t)sprintf((char *)to + n, "%s%s=%s\n", (r >> 3 & 3) == 0 ? "" : "~",
                           name ? name : "vocab",
                           values[(r >> 32) % (sizeof values / sizeof *values)]);
    }
  }
  return n;
}

/* One deterministic input: a good file with a few changes of the sorts that hurt readers. */
static size_t fuzz_mutate(uint64_t *seed, unsigned char *to, size_t room) {
  static const char *const words[] = { "\"", "{", "}", "[", "]", ",", ":", "\\", "\\u0000", "0",
    "-1", "4294967296", "18446744073709551615", "18446744073709551616", "\"F32\"", " ", "\n",
    "\"dtype\":\"F32\",", "\"shape\":[1],", "\"data_offsets\":[0,4]", "\"__metadata__\":{},",
    "\"embed.weight\":", "\"vocab\":\"4\",", "1e99", "0.5", "[0,4]", "[[[[[[[[",
    "\"checksum\":\"00000000\",", "\x01", "\xff", "\"w.type\":\"memory\",", "\"w.window\":\"1\",",
    "\"pattern\":\"mw\",", "1048576" };
  uint64_t r = *seed = miras__hash(*seed);
  int kind = (int)(r % 8), edits = (int)(r >> 8 & 7), which, i;
  size_t n;
  if (kind >= FUZZ_KINDS) kind = FUZZ_MODEL;   /* the one with most to get wrong */
  if (kind == FUZZ_DESC) return fuzz_describe_lines(to, miras__hash(r));
  which = kind;
  if (kind == FUZZ_MODEL && (r >> 25 & 1))     /* of another row */
    which = FUZZ_DESC + (int)((r >> 32) % (uint64_t)(FUZZ_MODELS - FUZZ_DESC));
  if (kind == FUZZ_MODEL && (r >> 26 & 7) == 0)
    which = FUZZ_ROWS + (int)((r >> 32) % (uint64_t)(FUZZ_MODELS - FUZZ_ROWS));
  if (kind == FUZZ_MEMORY && (r >> 25 & 1))
    which = FUZZ_MEMORIES + (int)((r >> 32) % (uint64_t)(FUZZ_OTHER - FUZZ_MEMORIES));
  if (kind == FUZZ_SESSION && (r >> 25 & 1)) which = FUZZ_OTHER;
  to[0] = (unsigned char)((r >> 16 & 128) | (unsigned)kind | (which == FUZZ_OTHER ? 4 : 0));
  if (kind == FUZZ_MODEL && (r >> 24 & 1)) {
    n = fuzz_foreign(to + 1, which);
  } else {
    n = fuzz_size[which];
    memcpy(to + 1, fuzz_base[which], n);
  }
  if (which >= FUZZ_ROWS && (r >> 29 & 1)) fuzz_repattern(to + 1, n, r);
  if (kind == FUZZ_MODEL && (r >> 36 & 3) == 0) {   /* today's texts, behind a right checksum */
    n = fuzz_retext(to + 1, n, room - 1, miras__hash(r));
    if (r >> 38 & 1) n = fuzz_retext(to + 1, n, room - 1, miras__hash(r + 1));
    to[0] |= 128;
    if (r >> 39 & 1) edits = 0;
  }
  for (i = 0; i < edits; i++) {
    size_t head = kind == FUZZ_MODEL && n > 8 ? (size_t)(miras__get64(to + 1) % n) : n, at, much;
    const char *word;
    r = *seed = miras__hash(*seed);
    if (n < 2) break;
    at = (size_t)(r >> 16) % (r & 1 || head < 2 ? n : head);   /* more often in the header */
    much = (size_t)(r >> 8 & 31) + 1;
    switch (r >> 1 & 7) {
      case 0: to[1 + at] ^= (unsigned char)(1 << (r >> 60 & 7)); break;
      case 1: to[1 + at] = (unsigned char)(r >> 56); break;
      case 2: n = at; break;
      case 3:   /* cut out */
        if (much > n - at) much = n - at;
        memmove(to + 1 + at, to + 1 + at + much, n - at - much);
        n -= much;
        break;
      case 4:   /* repeat */
        if (much > n - at) much = n - at;
        if (1 + n + much > room) break;
        memmove(to + 1 + at + much, to + 1 + at, n - at);
        n += much;
        break;
      case 5: case 6:   /* insert or overwrite a word */
        word = words[(r >> 40) % (sizeof words / sizeof *words)];
        much = strlen(word);
        if (1 + n + much > room) break;
        if ((r >> 1 & 7) == 5) {
          memmove(to + 1 + at + much, to + 1 + at, n - at);
          n += much;
        } else if (much > n - at) {
          much = n - at;
        }
        memcpy(to + 1 + at, word, much);
        break;
      default:   /* a number somewhere becomes another */
        while (at < n && (to[1 + at] < '0' || to[1 + at] > '9')) at++;
        if (at < n) to[1 + at] = (unsigned char)('0' + (int)(r >> 50) % 10);
    }
    /* the length of the header follows, most of the time: else nothing behind it is seen */
    if (kind == FUZZ_MODEL && n > 16 && (r >> 33 & 7)) {
      size_t payload = fuzz_size[which] - 8 - (size_t)miras__get64(fuzz_base[which]);
      miras__set64(to + 1, n > 8 + payload ? n - 8 - payload : n - 8);
    }
  }
  return 1 + n;
}

static void fuzz_file(const char *path) {
  static unsigned char bytes[1 << 20];
  FILE *f = fopen(path, "rb");
  size_t n;
  fuzz_check(f != NULL, "no such file");
  n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  LLVMFuzzerTestOneInput(bytes, n);
}

static void fuzz_write(const char *folder, int number, const unsigned char *bytes, size_t n) {
  char path[4096];
  FILE *f;
  sprintf(path, "%.4000s/seed-%03d", folder, number);
  f = fopen(path, "wb");
  fuzz_check(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "cannot write a seed");
}

int main(int argc, char **argv) {
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  long count = argc > 1 ? atol(argv[1]) : 20000, i;
  size_t room;
  unsigned char *input;
  fuzz_start();
  for (room = 8192, i = 0; i < fuzz_files; i++) room += fuzz_size[i];
  input = (unsigned char *)malloc(room);
  fuzz_check(input != NULL, "no memory");
  if (argc > 2 && !strcmp(argv[1], "--seeds")) {
    for (i = 0; i < fuzz_files; i++) {
      input[0] = (unsigned char)(i < FUZZ_DESC      ? i
                                 : i < FUZZ_MODELS  ? FUZZ_MODEL
                                 : i < FUZZ_OTHER   ? FUZZ_MEMORY : FUZZ_KINDS + FUZZ_SESSION);
      memcpy(input + 1, fuzz_base[i], fuzz_size[i]);
      fuzz_write(argv[2], (int)i, input, 1 + fuzz_size[i]);
    }
    input[0] = FUZZ_MODEL;
    fuzz_write(argv[2], fuzz_files, input, 1 + fuzz_foreign(input + 1, FUZZ_MODEL));
    for (seed = 1, i = fuzz_files + 1; i < 128; i++) {
      size_t n = fuzz_mutate(&seed, input, room);
      fuzz_write(argv[2], (int)i, input, n);
    }
  } else if (argc > 1 && count <= 0) {
    for (i = 1; i < argc; i++) fuzz_file(argv[i]);
  } else {
    for (i = 0; i < count; i++) LLVMFuzzerTestOneInput(input, fuzz_mutate(&seed, input, room));
    printf("fuzz_files: %ld inputs, no fault; %ld models and memories opened, %ld with patterns, "
           "%ld of rows or groups, %ld where they lie; %ld descriptors are right\n", count,
           fuzz_opened, fuzz_hybrids, fuzz_rowed, fuzz_lying, fuzz_described);
  }
  free(input);
  for (i = 0; i < fuzz_files; i++) free(fuzz_base[i]);
  miras_close(fuzz_sessions[0]);
  miras_close(fuzz_sessions[1]);
  miras_close(fuzz_memory);
  miras_close(fuzz_model);
  miras_close(fuzz_learner);
  return 0;
}
#endif
