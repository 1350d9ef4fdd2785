/* Files: what is saved comes back to the bit, what is damaged is refused without a trace.
 * cc -std=c99 -O2 -I. tests/test_files.c -lcmocka -lm */
#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE   /* makedev */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "alloc.h"
#if defined(__unix__)
/* Somebody who knows every name that a save is about to create, and has put a link there before:
 * the first test_plants times. */
static const char *test_victim;
static long test_plants;
static FILE *test_fopen(const char *path, const char *mode);
#define fopen(path, mode) test_fopen(path, mode)
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "calls.h"
#include "check.h"

#if defined(__unix__)
  #include <dirent.h>
  #include <signal.h>
  #include <sys/resource.h>
  #include <sys/stat.h>
  #ifdef __linux__
    #include <sys/sysmacros.h>
  #endif
  #include <sys/wait.h>
  #include <unistd.h>
#endif

#if defined(__unix__)
static FILE *test_fopen(const char *path, const char *mode) {
  if (mode[0] == 'w' && test_plants > 0) {
    test_plants--;
    assert_int_equal(symlink(test_victim, path), 0);
  }
  return (fopen)(path, mode);
}
#endif

enum { VOCAB = 7, WIDTH = 8, BATCH = 2, LENGTH = 6 };

/* One in STEP of the bytes, bits, cuts and styles of others is looked at where a run is many times
 * slower. It is odd, so that it meets every place in a word and every flag. */
enum { STEP = 2 * MIRAS_TEST_SHARE - 1 };

/* ---- things to save ---- */

typedef struct bytes {
  unsigned char *at;
  size_t n;
} bytes;

static void tiny(miras_model_desc *d, miras_preset kind) {
  assert_int_equal(miras_model_preset(d, kind, 0), MIRAS_OK);
  d->layer[0].memory.heads = 2;
  d->layer[0].memory.key_dim = 4;
  if (d->layer[0].memory.chunk > 1) d->layer[0].memory.chunk = 2;
  if (d->layer[0].memory.architecture == MIRAS_ARCH_MLP && d->layer[0].memory.depth > 1)
    d->layer[0].memory.expansion = 1;
  d->vocab = VOCAB;
  d->width = WIDTH;
  d->layers = 1;
  d->layer[0].mlp.hidden = 8;
  d->layer[0].mixer.conv_size = 2;
  d->layer[0].mixer.gate_rank = 2;
  d->dropout = 0.1f;
  d->seed = 1 + (uint64_t)kind;
}

static miras_model *open_model(const miras_model_desc *d) {
  char why[200];
  miras_model *m;
  if (!miras_model_size(d, why, sizeof why)) fail_msg("%s", why);
  m = miras_model_open(d, NULL, NULL, 0);
  assert_non_null(m);
  return m;
}

static miras_model *tiny_model(miras_preset kind) {
  miras_model_desc d;
  tiny(&d, kind);
  return open_model(&d);
}

static miras_trainer *open_trainer(miras_model *m, int streams) {
  miras_trainer_desc d = { BATCH, LENGTH, 0, 0, 0, NULL, NULL };
  miras_trainer *t;
  d.carried = streams;
  t = miras_trainer_open(m, &d, NULL, NULL, 0);
  assert_non_null(t);
  return t;
}

/* One training step on tokens that follow from its number; returns the loss. */
static float train(miras_trainer *t, int step) {
  int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  float loss;
  int i;
  for (i = 0; i < BATCH * LENGTH; i++) {
    tokens[i] = (int32_t)(miras__hash((uint64_t)(100 * step + i)) % VOCAB);
    targets[i] = (tokens[i] + 1) % VOCAB;
  }
  o.weight_decay = 0.1f;
  o.clip = 1;
  loss = loss_of(t, tokens, targets, BATCH, LENGTH, 1);
  assert_true(loss > 0 && loss < 100);
  assert_int_equal(miras_trainer_backward(t, NULL), MIRAS_OK);
  (void)norm_of_step(t, &o, 0.01f);
  return loss;
}

static miras_memory *tiny_memory(miras_preset kind, int batch) {
  miras_memory_desc d;
  miras_memory *m;
  assert_int_equal(miras_memory_preset(&d, kind), MIRAS_OK);
  d.batch = batch;
  d.heads = 2;
  d.key_dim = 3;
  d.chunk = kind >= MIRAS_PRESET_TTT_LINEAR_MEMORY ? 3 : 1;
  d.seed = 5;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  return m;
}

/* Feed tokens first .. last - 1; returns a hash of all that came out. */
static uint64_t feed(miras_memory *m, int first, int last) {
  float k[24], v[24], q[12], erase[12], replace[12], y[12];
  uint64_t hash = 0;
  int n = 6 * miras_memory_desc_of(m)->batch, steps = miras_memory_desc_of(m)->inner_steps, t, i;
  assert_true(n <= 12 && steps <= 2);
  for (t = first; t < last; t++) {
    miras_memory_input x;
    for (i = 0; i < n * steps; i++) {
      k[i] = 0.5f * miras__uniform(1, (uint64_t)(50 * t + i));
      v[i] = miras__uniform(2, (uint64_t)(50 * t + i));
    }
    for (i = 0; i < n; i++) {
      q[i] = 0.5f * miras__uniform(3, (uint64_t)(50 * t + i));
      erase[i] = -0.5f * miras__uniform(4, (uint64_t)(50 * t + i));
      replace[i] = -0.5f * erase[i];
    }
    memset(&x, 0, sizeof x);
    x.length = 1;
    x.key = k;
    x.value = v;
    x.query = q;
    x.erase = erase;
    x.replace = replace;
    assert_int_equal(miras_memory_forward(m, &x, y, NULL), MIRAS_OK);
    hash = miras__hash(hash ^ miras__crc32c(0, y, (size_t)n * 4));
  }
  return hash;
}

static uint64_t prefill(miras_session *s, int first, int last) {
  uint64_t hash = 0;
  for (; first < last; first++) {
    const float *logits = miras_session_step(s, first * 5 % VOCAB);
    assert_non_null(logits);
    hash = miras__hash(hash ^ miras__crc32c(0, logits, VOCAB * 4));
  }
  return hash;
}

/* One of the kinds of object, so that every test of damage serves all of them: a model (with a
 * trainer that may be saved too), a memory or a session. */
typedef struct subject {
  miras_model *model;
  miras_memory *memory;
  miras_session *session;
  miras_trainer *trainer;
} subject;

static void with_trainer(subject *s, miras_model *m) {
  s->model = m;
  s->trainer = open_trainer(m, 0);
}

static size_t save(const subject *s, int training, void *to, size_t capacity) {
  const void *object = s->session ? (void *)s->session : s->memory ? (void *)s->memory
                     : training ? (void *)s->trainer : (void *)s->model;
  return miras_save_to(object, to, capacity);
}

static miras_result load(const subject *s, const void *from, size_t n) {
  void *object = s->session ? (void *)s->session : s->memory ? (void *)s->memory
               : s->trainer ? (void *)s->trainer : (void *)s->model;
  return miras_load_from(object, from, n, NULL, 0);
}

static bytes saved(const subject *s, int training) {
  bytes b;
  b.n = save(s, training, NULL, 0);
  assert_true(b.n > 0);
  b.at = (unsigned char *)malloc(b.n);
  assert_non_null(b.at);
  assert_int_equal(save(s, training, b.at, b.n), b.n);
  return b;
}

/* Everything in an object that a load may write, in one number. */
static uint64_t print_of(const subject *s) {
  uint64_t h = 0;
  size_t n;
  if (s->memory) {
    const void *state = miras_memory_state(s->memory, &n);
    h = miras__hash(h ^ miras__crc32c(0, state, n));
    state = miras_memory_params(s->memory, &n);
    h = miras__hash(h ^ miras__crc32c(0, state, n * 4));
  } else if (s->session) {
    const void *state = miras_session_state(s->session, &n);
    h = miras__hash(h ^ miras__crc32c(0, state, n));
  }
  if (s->model) {
    const miras_model *m = s->model;
    n = m->param_count * 4;
    h = miras__hash(h ^ miras__crc32c(0, m->params, n));
  }
  if (s->trainer) {
    const miras_trainer *t = s->trainer;
    n = t->model->param_count * 4;
    h = miras__hash(h ^ miras__crc32c(0, t->grads, n));
    h = miras__hash(h ^ miras__crc32c(0, t->moment1, n));
    h = miras__hash(h ^ miras__crc32c(0, t->moment2, n));
    h = miras__hash(h ^ t->now->steps);
  }
  return h;
}

static void close_subject(subject *s) {
  miras_close(s->session);
  miras_close(s->memory);
  miras_close(s->trainer);
  miras_close(s->model);
  memset(s, 0, sizeof *s);
}

/* ---- parts ---- */

static void test_checksum(void **state) {
  /* the check value of CRC-32C and RFC 3720's example of 32 ascending bytes */
  unsigned char ascending[32], all[1101];
  uint32_t crc = 0xffffffffu;
  size_t i, j;
  (void)state;
  for (i = 0; i < 32; i++) ascending[i] = (unsigned char)i;
  assert_int_equal(miras__crc32c(0, "123456789", 9), 0xe3069283u);
  assert_int_equal(miras__crc32c(0, ascending, 32), 0x46dd794eu);
  /* bit by bit, at every length, and cut in two at every place, of long texts at every 41st */
  for (i = 0; i < sizeof all; i++) all[i] = (unsigned char)(miras__hash(i) & 255);
  for (i = 0; i <= sizeof all; i++) {
    assert_int_equal(miras__crc32c(0, all, i), (uint32_t)~crc);
    for (j = 0; j <= i; j += i > 61 ? 41 : 1)
      assert_int_equal(miras__crc32c(miras__crc32c(0, all, j), all + j, i - j), (uint32_t)~crc);
    for (j = 0; j < 8 && i < sizeof all; j++)
      crc = crc >> 1 ^ (((crc ^ (uint32_t)all[i] >> j) & 1) ? 0x82f63b78u : 0);
  }
}

static void test_numbers(void **state) {
  static const char *const good[] = { "0", "-0", "1", "0.1", "1e3", "1E+3", "12.5e-1", "1e-60",
    "340282346638528859811704183484516925440", "0.333333333333333333333333333333333333333333" };
  static const char *const bad[] = { "", "-", "+1", ".5", "5.", "01", "-01", "1e", "1e+", "0x1",
    "nan", "inf", "1e39", "-1e39", "1e999999999", "1 ", " 1", "1,5", "1..2", "1.2.3", "--1",
    "3.4028236e38" };
  static const char *const not_whole[] = { "", "-1", "+1", "00", "01", "1.0", "1e1", " 1", "1 ",
    "18446744073709551616", "99999999999999999999", "184467440737095516150" };
  static const float some[] = { 0, 1, 0.1f, 1e-45f, 1.17549435e-38f, 3.40282347e38f, 0.03125f };
  char text[32];
  float back;
  uint64_t whole, i;
  (void)state;
  for (i = 0; i < sizeof good / sizeof *good; i++) {
    float want = strtof(good[i], NULL);
    assert_true(miras__read_real(good[i], &back));
    assert_memory_equal(&back, &want, 4);
  }
  for (i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(miras__read_real(bad[i], &back));
  for (i = 0; i < 300000; i++) {
    uint32_t bits = (uint32_t)(miras__hash(i) >> 32);
    float x, libc;
    memcpy(&x, &bits, 4);
    if (i < sizeof some / sizeof *some) x = some[i];
    if (!(fabsf(x) <= FLT_MAX)) continue;
    miras__write_real(text, x);
    assert_true(strlen(text) < 18 && miras__read_real(text, &back));
    assert_memory_equal(&back, &x, 4);
    libc = strtof(text, NULL);
    assert_memory_equal(&libc, &x, 4);
  }
  miras__write_real(text, 0.1f);
  assert_string_equal(text, "0.1");
  for (i = 0; i < sizeof not_whole / sizeof *not_whole; i++)
    assert_false(miras__read_whole(not_whole[i], &whole));
  assert_true(miras__read_whole("18446744073709551615", &whole) && whole == UINT64_MAX);
  assert_true(miras__read_whole("0", &whole) && whole == 0);
}

/* ---- round trips ---- */

static void test_model_round_trip(void **state) {
  int kind, saves, training;   /* with the trainer? into one? */
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    for (saves = 0; saves < 2; saves++) {
      subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
      bytes first;
      with_trainer(&a, tiny_model((miras_preset)kind));
      train(a.trainer, 0);
      train(a.trainer, 1);
      first = saved(&a, saves);
      for (training = 0; training < 2; training++) {
        const miras_model_desc *da = miras_model_desc_of(a.model), *db;
        miras_model_desc d;
        bytes second;
        const float *pa, *pb;
        size_t na, nb;
        memset(&d, 0x55, sizeof d);
        d.limit = 1 << 24;
        assert_int_equal(miras_model_desc_from(&d, first.at, first.n), MIRAS_OK);
        assert_int_equal(d.limit, 1 << 24);
        assert_int_equal(d.seed, da->seed);
        assert_int_equal(d.layer[0].memory.retention, da->layer[0].memory.retention);
        assert_memory_equal(&d.layer[0].memory.decay_rate, &da->layer[0].memory.decay_rate, 4);
        d.seed += 1;   /* other initial parameters, so that loading must bring all of them */
        d.dropout = 0;
        b.model = open_model(&d);
        if (training) b.trainer = open_trainer(b.model, 0);
        test_calls = 0;
        assert_int_equal(load(&b, first.at, first.n), MIRAS_OK);
        assert_int_equal(test_calls, 0);
        db = miras_model_desc_of(b.model);
        assert_int_equal(db->layer[0].memory.chunk, da->layer[0].memory.chunk);
        pa = miras_model_params(a.model, &na);
        pb = miras_model_params(b.model, &nb);
        assert_int_equal(na, nb);
        assert_memory_equal(pa, pb, na * 4);
        if (training) assert_int_equal(miras_trainer_steps(b.trainer), saves ? 2 : 0);
        /* the header says seed and dropout, so compare with a model that has them */
        b.model->desc.seed = da->seed;
        b.model->desc.dropout = da->dropout;
        second = saved(&b, training && saves);
        if (training || !saves) {
          assert_int_equal(first.n, second.n);
          assert_memory_equal(first.at, second.at, first.n);
        } else {
          assert_true(second.n < first.n);
        }
        free(second.at);
        close_subject(&b);
      }
      free(first.at);
      close_subject(&a);
    }
  }
  assert_int_equal(test_live, 0);
}

/* A model's file has all of its fields, whichever version they came with, beside short matrices. */
static void test_new_fields_beside_short(void **state) {
  static const miras_preset kinds[] = { MIRAS_PRESET_GRIFFIN, MIRAS_PRESET_LRU, MIRAS_PRESET_EDA,
                                        MIRAS_PRESET_GSA, MIRAS_PRESET_MAMBA3, MIRAS_PRESET_PKDA,
                                        MIRAS_PRESET_RAVEN, MIRAS_PRESET_LOG_LINEAR_GDN,
                                        MIRAS_PRESET_RWKV4 };
  static const int32_t tokens[5] = { 3, 1, 4, 1, 5 };
  size_t i;
  int form;
  (void)state;
  for (i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (form = 0; form < MIRAS_WEIGHTS_COUNT; form++) {
      miras_model_desc d;
      miras_model *m, *n;
      miras_session *a, *b;
      unsigned char *file;
      size_t taken;
      char why[256] = "";
      assert_int_equal(miras_model_preset(&d, kinds[i], 0), MIRAS_OK);
      d.vocab = 13, d.width = 32, d.heads = 2, d.weights = (miras_weights)form;
      d.logit_cap = 5;
      if (!d.pattern[0]) d.layers = 1;
      m = miras_model_open(&d, NULL, why, sizeof why);
      assert_string_equal(why, "");
      taken = miras_save_to(m, NULL, 0);
      file = (unsigned char *)malloc(taken);
      assert_true(file && miras_save_to(m, file, taken) == taken);
      d = *miras_model_desc_of(m);
      n = miras_model_open_from(file, taken, 0, NULL, NULL, NULL, why, sizeof why);
      assert_string_equal(why, "");
      assert_false(miras_model_desc_differs(&d, miras_model_desc_of(n), why, sizeof why));
      assert_true(miras_model_desc_of(n)->logit_cap == d.logit_cap);
      a = miras_session_open(m, NULL, NULL, NULL, 0);
      b = miras_session_open(n, NULL, NULL, NULL, 0);
      assert_memory_equal(miras_session_feed(a, tokens, NULL, 5),
                          miras_session_feed(b, tokens, NULL, 5), 13 * sizeof(float));
      miras_close(a), miras_close(b), miras_close(m), miras_close(n);
      free(file);
    }
}

/* Every byte of a descriptor that a file must keep is in one of the saved values: all but what the
 * model sets or the caller brings, and what the compiler leaves between fields. Of kinds of layer
 * the letters are part of the names. */
static void test_every_field(void **state) {
#define FIELD(field) \
  { offsetof(miras_model_desc, field), \
    offsetof(miras_model_desc, field) + sizeof(((miras_model_desc *)0)->field) }
#define LAYER(field) \
  { offsetof(miras_layer_desc, field), \
    offsetof(miras_layer_desc, field) + sizeof(((miras_layer_desc *)0)->field) }
#define BETWEEN(type, a, b) \
  { offsetof(type, a) + sizeof(((type *)0)->a), offsetof(type, b) }
  static const size_t not_kept[][2] = {
    BETWEEN(miras_model_desc, adapters, vocab), BETWEEN(miras_model_desc, logit_cap, seed),
    FIELD(heads), { offsetof(miras_model_desc, limit), sizeof(miras_model_desc) }
  };
  static const size_t not_of_layers[][2] = {
    LAYER(letter), BETWEEN(miras_layer_desc, letter, type), LAYER(memory.batch),
    LAYER(memory.seed), LAYER(memory.parallel), LAYER(memory.limit),
    BETWEEN(miras_layer_desc, type, memory),
    BETWEEN(miras_layer_desc, memory.turning, memory.seed),
    { offsetof(miras_layer_desc, mlp.bias) + sizeof(int), sizeof(miras_layer_desc) }
  };
#undef FIELD
#undef LAYER
#undef BETWEEN
  const size_t layers = MIRAS_MAX_LAYER_KINDS * sizeof(miras_layer_desc);
  miras_model_desc plain, d;
  size_t i, j;
  int k;
  (void)state;
  memset(&plain, 0, sizeof plain);
  for (k = 0; k < MIRAS_MAX_LAYER_KINDS; k++) plain.layer[k].letter = (char)('a' + k);
  d = plain;
  for (i = 0; i < sizeof d; i += STEP) {
    const size_t at = i % sizeof(miras_layer_desc);
    const int kind = i < layers ? (int)(i / sizeof(miras_layer_desc)) : 0;
    int expected = 1, differs = 0;
    unsigned char was;
    for (j = 0; i < layers && j < sizeof not_of_layers / sizeof *not_of_layers; j++)
      if (at >= not_of_layers[j][0] && at < not_of_layers[j][1]) expected = 0;
    for (j = 0; i >= layers && j < sizeof not_kept / sizeof *not_kept; j++)
      if (i >= not_kept[j][0] && i < not_kept[j][1]) expected = 0;
    /* of texts, what lies behind their ends */
    if (i > offsetof(miras_model_desc, pattern) && i < offsetof(miras_model_desc, vocab) &&
        (i - offsetof(miras_model_desc, pattern)) % MIRAS_PATTERN_SIZE) expected = 0;
    if (i < layers && at > offsetof(miras_layer_desc, memory.groups) &&
        at < offsetof(miras_layer_desc, memory.groups) + MIRAS_GROUPS_SIZE) expected = 0;
    was = ((unsigned char *)&d)[i];
    ((unsigned char *)&d)[i] = (unsigned char)(was ^ 4);   /* no usual function                   */
    for (k = 0; miras_model_desc_field(k) != NULL; k++) {
      char name[64], a[MIRAS_PATTERN_SIZE], b[MIRAS_PATTERN_SIZE];
      snprintf(name, sizeof name, "%c.%s", 'a' + kind, miras_model_desc_field(k));
      if (!miras_model_desc_get(&plain, name, a, sizeof a))
        memmove(name, name + 2, sizeof name - 2);
      if (kind && name[1] != '.') continue;
      assert_non_null(miras_model_desc_get(&plain, name, a, sizeof a));
      if (at == 0 && i < layers) continue;   /* a letter */
      assert_non_null(miras_model_desc_get(&d, name, b, sizeof b));
      differs += strcmp(a, b) != 0;
    }
    ((unsigned char *)&d)[i] = was;
    if (differs != expected)
      fail_msg("byte %d of miras_model_desc is%s saved", (int)i, expected ? " not" : "");
  }
}

/* ---- hybrids ---- */

enum { HYBRIDS = 9 };

/* Models of several kinds of layer, or of one that is no memory. */
static void hybrid(miras_model_desc *d, int n) {
  static const char *const patterns[HYBRIDS] = { "mwm", "(mg)*2a", "a*2",  "",
                                                 "mwa", "mfwf",    "f*2", "mw", "mw" };
  miras_model_desc other;
  tiny(d, MIRAS_PRESET_TITANS);
  tiny(&other, MIRAS_PRESET_GATED_DELTANET);
  snprintf(d->pattern, sizeof d->pattern, "%s", patterns[n]);
  d->layers = n == 3 ? 2 : 0;
  d->heads = 2;
  d->layer[1].attention.window = 3;
  d->layer[1].mlp.hidden = d->layer[2].mlp.hidden = 8;
  d->layer[2].attention.qk_norm = 1;
  d->layer[2].attention.kv_heads = 1;
  d->layer[2].attention.rope.theta = 100.5f;
  d->layer[2].attention.persistent = n == 2;
  if (n == 1) {
    d->layer[2].attention.rope_scaling.type = MIRAS_ROPE_SCALING_YARN;
    d->layer[2].attention.rope_scaling.factor = 2.5f;
    d->layer[2].attention.rope_scaling.high_frequency_factor = 7;
  }
  d->layer[3] = other.layer[0];
  d->layer[3].letter = 'g';
  if (n == 3) d->layer[0] = d->layer[2];
  if (n == 3) d->layer[0].letter = 0;
  d->layer[4].letter = 'f';
  d->layer[4].type = MIRAS_LAYER_MLP;
  d->layer[4].mlp.none = 0;
  d->layer[4].mlp.hidden = 5;
  if (n == 4) d->layer[0].mlp.none = d->layer[2].mlp.none = 1;
  if (n == 4) d->layer[0].mlp.hidden = d->layer[2].mlp.hidden = 0;
  if (n == 7) d->layer[0].type = MIRAS_LAYER_MAG, d->layer[0].attention.kv_heads = 1;
  if (n == 8)
    d->layer[0].type = MIRAS_LAYER_MAC, d->layer[0].attention.window = d->layer[0].memory.chunk;
  if (n == 5) d->layer[0].mlp.none = 1;
  if (n == 5) d->layer[0].mlp.hidden = 0;
}

static uint64_t losses(miras_trainer *t, int first, int last) {
  uint64_t hash = 0;
  for (; first < last; first++) {
    const float loss = train(t, first);
    hash = miras__hash(hash ^ miras__crc32c(0, &loss, 4));
  }
  return hash;
}

/* The file alone is the model: its logits, sessions and training go on to the bit. */
static void test_hybrids(void **state) {
  static const int32_t stream[BATCH] = { 1, 0 };
  int32_t tokens[BATCH * LENGTH];
  int n, i;
  (void)state;
  for (i = 0; i < BATCH * LENGTH; i++) tokens[i] = i * i % VOCAB;
  for (n = 0; n < HYBRIDS; n++) {
    subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
    const miras_model_desc *da;
    miras_model_desc d;
    bytes model, training, session, again;
    char why[200];
    hybrid(&d, n);
    a.model = open_model(&d);
    a.trainer = open_trainer(a.model, 2);
    losses(a.trainer, 0, 2);
    assert_true(
        loss_carried(a.trainer, tokens, tokens, BATCH, LENGTH, stream, NULL) > 0);
    assert_int_equal(miras_trainer_backward(a.trainer, NULL), MIRAS_OK);
    (void)norm_of_step(a.trainer, NULL, 0.01f);
    model = saved(&a, 0);
    training = saved(&a, 1);
    a.session = miras_session_open(a.model, NULL, NULL, NULL, 0);
    assert_non_null(a.session);
    prefill(a.session, 0, 9);
    session = saved(&a, 0);

    memset(&d, 0x55, sizeof d);
    d.limit = 0;
    assert_int_equal(miras_model_desc_from(&d, training.at, training.n), MIRAS_OK);
    da = miras_model_desc_of(a.model);
    if (miras_model_desc_differs(da, &d, why, sizeof why)) fail_msg("%s", why);
    if (miras_model_desc_differs(&d, da, why, sizeof why)) fail_msg("%s", why);
    assert_string_equal(why, "");
    d.seed++;
    b.model = open_model(&d);
    b.trainer = open_trainer(b.model, 2);
    assert_int_equal(load(&b, training.at, training.n), MIRAS_OK);
    b.model->desc.seed--;
    again = saved(&b, 1);
    assert_int_equal(again.n, training.n);
    assert_memory_equal(again.at, training.at, again.n);
    free(again.at);
    again = saved(&b, 0);
    assert_int_equal(again.n, model.n);
    assert_memory_equal(again.at, model.at, again.n);
    free(again.at);
    b.session = miras_session_open(b.model, NULL, NULL, NULL, 0);
    assert_non_null(b.session);
    assert_int_equal(load(&b, session.at, session.n), MIRAS_OK);
    assert_int_equal(miras_session_position(b.session), 9);
    assert_true(prefill(a.session, 9, 20) == prefill(b.session, 9, 20));
    miras_session_reset(a.session);
    miras_session_reset(b.session);
    assert_true(prefill(a.session, 0, 12) == prefill(b.session, 0, 12));
    assert_true(losses(a.trainer, 2, 5) == losses(b.trainer, 2, 5));
    assert_true(print_of(&a) == print_of(&b));
    free(model.at);
    free(training.at);
    free(session.at);
    close_subject(&a);
    close_subject(&b);
  }
  assert_int_equal(test_live, 0);
}

static void test_model_continues(void **state) {
  int kind, i;
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
    bytes half;
    with_trainer(&a, tiny_model((miras_preset)kind));
    with_trainer(&b, tiny_model((miras_preset)kind));
    for (i = 0; i < 3; i++) train(a.trainer, i);
    half = saved(&a, 1);
    train(b.trainer, 77);   /* something to be overwritten */
    assert_int_equal(load(&b, half.at, half.n), MIRAS_OK);
    assert_int_equal(miras_trainer_steps(b.trainer), 3);
    for (i = 3; i < 6; i++) {
      float x = train(a.trainer, i), y = train(b.trainer, i);
      assert_memory_equal(&x, &y, 4);
    }
    assert_true(print_of(&a) == print_of(&b));
    free(half.at);
    close_subject(&a);
    close_subject(&b);
  }
}

/* Moments that the file lacks become zeros; a model without a trainer skips them. */
static void test_moments(void **state) {
  subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
  bytes plain, full;
  size_t i;
  (void)state;
  with_trainer(&a, tiny_model(MIRAS_PRESET_TITANS));
  train(a.trainer, 0);
  plain = saved(&a, 0);
  full = saved(&a, 1);
  assert_true(full.n > plain.n + 8 * a.model->param_count);
  with_trainer(&b, tiny_model(MIRAS_PRESET_TITANS));
  train(b.trainer, 3);
  train(b.trainer, 4);
  assert_int_equal(load(&b, plain.at, plain.n), MIRAS_OK);
  assert_int_equal(miras_trainer_steps(b.trainer), 0);
  for (i = 0; i < b.model->param_count; i++) {
    assert_true(!(b.trainer->moment1[i] > 0) && !(b.trainer->moment1[i] < 0));
    assert_true(!(b.trainer->moment2[i] > 0) && !(b.trainer->moment2[i] < 0));
  }
  close_subject(&b);
  b.model = tiny_model(MIRAS_PRESET_TITANS);
  assert_int_equal(load(&b, full.at, full.n), MIRAS_OK);
  free(full.at);
  full = saved(&b, 0);
  assert_int_equal(full.n, plain.n);
  assert_memory_equal(full.at, plain.at, plain.n);
  free(full.at);
  free(plain.at);
  close_subject(&a);
  close_subject(&b);
}

static void test_memory_round_trip(void **state) {
  int kind, at;
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    for (at = 0; at <= 7; at++) {   /* fresh, on and off the grid of chunks */
      subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
      bytes first, second;
      float *params;
      size_t n, i;
      a.memory = tiny_memory((miras_preset)kind, 2);
      b.memory = tiny_memory((miras_preset)kind, 2);
      params = miras_memory_params(a.memory, &n);
      for (i = 0; i < n; i++) params[i] += 0.01f * miras__uniform(9, i);
      feed(b.memory, 20, 24);
      feed(a.memory, 0, at);
      first = saved(&a, 0);
      test_calls = 0;
      assert_int_equal(load(&b, first.at, first.n), MIRAS_OK);
      assert_int_equal(test_calls, 0);
      assert_true(print_of(&a) == print_of(&b));
      assert_int_equal(miras_memory_position(b.memory), at);
      second = saved(&b, 0);
      assert_int_equal(first.n, second.n);
      assert_memory_equal(first.at, second.at, first.n);
      assert_true(feed(a.memory, at, at + 5) == feed(b.memory, at, at + 5));
      assert_true(print_of(&a) == print_of(&b));
      miras_memory_reset(a.memory);   /* the initial memory came along */
      miras_memory_reset(b.memory);
      assert_true(feed(a.memory, 0, 3) == feed(b.memory, 0, 3));
      free(first.at);
      free(second.at);
      close_subject(&a);
      close_subject(&b);
    }
  }
}

static void test_session_round_trip(void **state) {
  int kind, at;
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_model *m = tiny_model((miras_preset)kind);
    for (at = 0; at <= 5; at++) {
      subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
      bytes first, second;
      a.session = miras_session_open(m, NULL, NULL, NULL, 0);
      b.session = miras_session_open(m, NULL, NULL, NULL, 0);
      assert_true(a.session && b.session);
      prefill(b.session, 9, 12);
      prefill(a.session, 0, at);
      first = saved(&a, 0);
      test_calls = 0;
      assert_int_equal(load(&b, first.at, first.n), MIRAS_OK);
      assert_int_equal(test_calls, 0);
      assert_int_equal(miras_session_position(b.session), at);
      second = saved(&b, 0);
      assert_int_equal(first.n, second.n);
      assert_memory_equal(first.at, second.at, first.n);
      assert_true(prefill(a.session, at, at + 5) == prefill(b.session, at, at + 5));
      free(first.at);
      free(second.at);
      close_subject(&a);
      close_subject(&b);
    }
    miras_close(m);
  }
}

/* Choices are words in files: models of each, and what their sessions hold, load as they were. */
static void test_choices(void **state) {
  int n;
  (void)state;
  for (n = 0; n < MIRAS_BIAS_COUNT + MIRAS_RETENTION_COUNT; n++) {
    subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
    const int retention = n < MIRAS_RETENTION_COUNT;
    miras_model_desc d, found;
    miras_memory_desc *m = &d.layer[0].memory;
    bytes first, second;
    char field[32], word[32], named[80];
    size_t i = 0;
    memset(&d, 0, sizeof d);
    tiny(&d, MIRAS_PRESET_LINEAR_ATTENTION);
    memset(m, 0, sizeof *m);
    m->architecture = MIRAS_ARCH_MLP;
    m->depth = 1;
    m->heads = 2;
    m->bias = MIRAS_BIAS_L2;
    m->learning_rate = 1;
    if (retention) m->retention = (miras_retention)n;
    if (m->retention == MIRAS_RETENTION_ELASTIC || m->retention == MIRAS_RETENTION_ELASTIC_FTRL)
      m->sparsity = 1e-3f;
    if (!retention) m->bias = (miras_bias)(n - MIRAS_RETENTION_COUNT);
    if (m->retention == MIRAS_RETENTION_CUSTOM || m->bias == MIRAS_BIAS_CUSTOM) continue;
    snprintf(field, sizeof field, "memory.%s", retention ? "retention" : "bias");
    miras_model_desc_get(&d, field, word, sizeof word);
    snprintf(named, sizeof named, "\"m.%s\":\"%s\"", field, word);
    a.model = open_model(&d);
    first = saved(&a, 0);
    while (i + strlen(named) < first.n && memcmp(first.at + i, named, strlen(named)) != 0) i++;
    if ((retention ? n : n - MIRAS_RETENTION_COUNT) && i + strlen(named) >= first.n)
      fail_msg("no %s in the file", named);
    memset(&found, 0, sizeof found);
    assert_int_equal(miras_model_desc_from(&found, first.at, first.n), MIRAS_OK);
    assert_int_equal(found.layer[0].memory.bias, m->bias);
    assert_int_equal(found.layer[0].memory.retention, m->retention);
    b.model = open_model(&found);
    assert_int_equal(load(&b, first.at, first.n), MIRAS_OK);
    second = saved(&b, 0);
    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.at, second.at, first.n);
    free(first.at);
    free(second.at);
    a.session = miras_session_open(a.model, NULL, NULL, NULL, 0);
    b.session = miras_session_open(b.model, NULL, NULL, NULL, 0);
    prefill(a.session, 0, 3);
    first = saved(&a, 0);
    assert_int_equal(load(&b, first.at, first.n), MIRAS_OK);
    assert_true(prefill(a.session, 3, 6) == prefill(b.session, 3, 6));
    free(first.at);
    close_subject(&a);
    close_subject(&b);
  }
}

/* NaN and infinity are values like any other to a file. */
static void test_values_are_not_judged(void **state) {
  subject a = { NULL, NULL, NULL, NULL };
  bytes b;
  uint64_t print;
  float *params;
  (void)state;
  a.memory = tiny_memory(MIRAS_PRESET_YAAD, 1);
  params = miras_memory_params(a.memory, NULL);
  params[0] = (float)NAN;
  params[1] = -(float)INFINITY;
  params[2] = 1e-45f;
  params[3] = -0.0f;
  print = print_of(&a);
  b = saved(&a, 0);
  params[0] = params[1] = params[2] = params[3] = 1;
  assert_int_equal(load(&a, b.at, b.n), MIRAS_OK);
  assert_true(print_of(&a) == print);
  free(b.at);
  close_subject(&a);
}

/* ---- damage ---- */

/* Every truncation, every kind of tail and every single flipped bit (one in STEP of them) is
 * refused as a damaged file, and the object does not change by a bit. Each file lies in a block of
 * exactly its size, so that a sanitizer sees every byte read beyond it. */
static void damage(const subject *s, int training) {
  bytes b = saved(s, training);
  uint64_t before;
  size_t n, i;
  miras_result result;
  if (s->model) s->model->params[0] += 1;   /* so that a load would show */
  if (s->memory) miras_memory_params(s->memory, NULL)[0] += 1;
  if (s->session) prefill(s->session, 0, 1);
  before = print_of(s);
  for (n = 0; n <= b.n + 64; n += n < 256 || n + 64 > b.n ? 1 : 2 + STEP) {
    unsigned char *part;
    if (n == b.n) continue;
    part = (unsigned char *)malloc(n ? n : 1);
    assert_non_null(part);
    memcpy(part, b.at, n < b.n ? n : b.n);
    if (n > b.n) memset(part + b.n, n % 2 ? 0 : ' ', n - b.n);
    result = load(s, part, n);
    free(part);
    if (result != MIRAS_ERR_FORMAT) fail_msg("length %zu of %zu: %d", n, b.n, (int)result);
  }
  assert_true(print_of(s) == before);
  for (i = 0; i < b.n * 8; i += STEP) {
    b.at[i / 8] ^= (unsigned char)(1 << i % 8);
    result = load(s, b.at, b.n);
    b.at[i / 8] ^= (unsigned char)(1 << i % 8);
    if (result != MIRAS_ERR_FORMAT) fail_msg("bit %zu of byte %zu: %d", i % 8, i / 8, (int)result);
    if (i / STEP % 64 == 0) assert_true(print_of(s) == before);
  }
  assert_true(print_of(s) == before);
  /* any value in the header and around, where the text is */
  for (i = 0; i < b.n && i < 400; i++) {
    unsigned char was = b.at[i];
    int c;
    for (c = (int)i % STEP; c < 256; c += STEP) {
      if (c == was) continue;
      b.at[i] = (unsigned char)c;
      result = load(s, b.at, b.n);
      if (result != MIRAS_ERR_FORMAT) fail_msg("byte %zu as %d: %d", i, c, (int)result);
    }
    b.at[i] = was;
  }
  assert_true(print_of(s) == before);
  assert_int_equal(load(s, b.at, b.n), MIRAS_OK);
  assert_true(print_of(s) != before);
  free(b.at);
}

static void test_damage_model(void **state) {
  subject s = { NULL, NULL, NULL, NULL };
  (void)state;
  with_trainer(&s, tiny_model(MIRAS_PRESET_RETNET_MEMORY));
  train(s.trainer, 0);
  damage(&s, 1);
  close_subject(&s);
  s.model = tiny_model(MIRAS_PRESET_MEMORA);
  damage(&s, 0);
  close_subject(&s);
}

static void test_damage_states(void **state) {
  static const miras_preset kinds[] = {MIRAS_PRESET_GATED_DELTANET, MIRAS_PRESET_TITANS,
                                       MIRAS_PRESET_MONETA};
  subject s = { NULL, NULL, NULL, NULL };
  size_t i;
  (void)state;
  for (i = 0; i < 3; i++) {
    miras_model *m = tiny_model(kinds[i]);
    s.session = miras_session_open(m, NULL, NULL, NULL, 0);
    assert_non_null(s.session);
    prefill(s.session, 0, 3);
    damage(&s, 0);
    close_subject(&s);
    miras_close(m);
    s.memory = tiny_memory(kinds[i], 2);
    feed(s.memory, 0, 4);
    damage(&s, 0);
    close_subject(&s);
  }
}

/* A buffer that is too small is not touched. */
static void test_capacity(void **state) {
  subject s[3];
  int i;
  (void)state;
  memset(s, 0, sizeof s);
  with_trainer(&s[0], tiny_model(MIRAS_PRESET_DELTANET_MEMORY));
  s[1].memory = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  s[2].session = miras_session_open(s[0].model, NULL, NULL, NULL, 0);
  for (i = 0; i < 3; i++) {
    size_t need = save(&s[i], 0, NULL, 0), cap, k;
    unsigned char *buffer = (unsigned char *)malloc(need + 16);
    assert_non_null(buffer);
    memset(buffer, 0xa5, need + 16);
    for (cap = 0; cap < need; cap += cap + 1 < need ? (need - cap) / 2 : 1) {
      assert_int_equal(save(&s[i], 0, buffer, cap), need);
      for (k = 0; k < need + 16; k++) assert_int_equal(buffer[k], 0xa5);
      if (cap == need - 1) break;
    }
    assert_int_equal(save(&s[i], 0, buffer, need), need);
    for (k = need; k < need + 16; k++) assert_int_equal(buffer[k], 0xa5);
    assert_int_equal(save(&s[i], 0, NULL, need), need);
    free(buffer);
  }
  close_subject(&s[2]);
  close_subject(&s[1]);
  close_subject(&s[0]);
}

static void test_arguments(void **state) {
  subject s = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  miras_server *server;
  miras_result result = MIRAS_OK;
  void *none[3];
  int i;
  (void)state;
  memset(&d, 0, sizeof d);
  with_trainer(&s, tiny_model(MIRAS_PRESET_RETNET_MEMORY));
  s.memory = tiny_memory(MIRAS_PRESET_RETNET_MEMORY, 1);
  s.session = miras_session_open(s.model, NULL, NULL, NULL, 0);
  /* nothing, a server and a descriptor have no files */
  server = miras_server_open(s.model, NULL, NULL, NULL, 0);
  assert_non_null(server);
  none[0] = NULL, none[1] = server, none[2] = &d;
  for (i = 0; i < 3; i++) {
    assert_int_equal(miras_save_to(none[i], NULL, 0), 0);
    assert_int_equal(miras_load_from(none[i], "", 0, NULL, 0), MIRAS_ERR_ARGUMENT);
#ifndef MIRAS_NO_STDIO
    assert_int_equal(miras_save(none[i], "x"), MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_load(none[i], "x", NULL, 0), MIRAS_ERR_ARGUMENT);
#endif
  }
  miras_close(server);
  assert_int_equal(miras_load_from(s.model, NULL, 9, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(s.model, "", 0, NULL, 0), MIRAS_ERR_FORMAT);
  assert_int_equal(miras_load_from(s.trainer, NULL, 9, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(s.trainer, "", 0, NULL, 0), MIRAS_ERR_FORMAT);
  assert_int_equal(miras_model_desc_from(NULL, "", 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_from(&d, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(s.memory, NULL, 0, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load_from(s.session, NULL, 0, NULL, 0), MIRAS_ERR_ARGUMENT);
#ifndef MIRAS_NO_STDIO
  assert_int_equal(miras_save(s.model, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_save(s.trainer, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load(s.trainer, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load(s.model, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_null(miras_model_open_file(NULL, NULL, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_save(s.memory, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load(s.memory, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_save(s.session, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_load(s.session, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
#endif
  (void)result;
  close_subject(&s);
}

/* Files of another model are refused, by model, trainer and session, and change nothing. */
static void others_are_refused(subject *s, const bytes *model, const bytes *session) {
  uint64_t before = print_of(s);
  assert_int_equal(load(s, model->at, model->n), MIRAS_ERR_MISMATCH);
  assert_true(print_of(s) == before);
  s->session = miras_session_open(s->model, NULL, NULL, NULL, 0);
  before = print_of(s);
  assert_int_equal(load(s, session->at, session->n), MIRAS_ERR_MISMATCH);
  assert_true(print_of(s) == before);
}

static void test_mismatch(void **state) {
  subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
  bytes model, memory, session;
  int i;
  (void)state;
  with_trainer(&a, tiny_model(MIRAS_PRESET_YAAD));
  model = saved(&a, 1);
  a.session = miras_session_open(a.model, NULL, NULL, NULL, 0);
  session = saved(&a, 0);
  close_subject(&a);
  a.memory = tiny_memory(MIRAS_PRESET_YAAD, 2);
  memory = saved(&a, 0);
  close_subject(&a);
  for (i = 0; i < 18; i++) {
    miras_model_desc d;
    tiny(&d, i == 0 ? MIRAS_PRESET_TTT_MLP_MEMORY : MIRAS_PRESET_YAAD);
    if (i == 1) d.layer[0].memory.key_dim = 8;
    if (i == 2) d.layer[0].memory.heads = 1;
    if (i == 3) d.layer[0].memory.chunk = 3;
    if (i == 4) d.layer[0].memory.sharpness = 9.5f;
    if (i == 5) d.layer[0].memory.decay_rate = 0.01f;
    if (i == 6) d.vocab = VOCAB + 1;
    if (i == 7) d.width = 16;
    if (i == 8) d.layers = 2;
    if (i == 9) d.layer[0].mlp.hidden = 16;
    if (i == 10) d.layer[0].mixer.conv_size = 3;
    if (i == 11) d.layer[0].mixer.gate_rank = 3;
    if (i == 12) d.untied = 1;
    if (i == 13) d.layer[0].memory.inner_residual = 0;
    if (i == 14) d.layer[0].mixer.qk_map = MIRAS_QK_MAP_NONE;
    if (i == 15) d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_ROOT;
    if (i == 16) d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_RATE;
    if (i == 17) d.layer[0].memory.learning_rate_gate = MIRAS_GATE_CONSTANT;
    b.model = open_model(&d);
    if (i % 2) b.trainer = open_trainer(b.model, 0);
    others_are_refused(&b, &model, &session);
    close_subject(&b);
  }
  { /* resets are not what parameters depend on; a running text does */
    miras_model_desc d;
    tiny(&d, MIRAS_PRESET_YAAD);
    with_trainer(&a, open_model(&d));
    d.layer[0].memory.reset_every = 64;
    d.seed = 99;
    with_trainer(&b, open_model(&d));
    assert_int_equal(load(&a, model.at, model.n), MIRAS_OK);
    assert_int_equal(load(&b, model.at, model.n), MIRAS_OK);
    assert_int_equal(miras_model_desc_of(b.model)->layer[0].memory.reset_every, 64);
    assert_true(print_of(&a) == print_of(&b));
    b.session = miras_session_open(b.model, NULL, NULL, NULL, 0);
    assert_int_equal(load(&b, session.at, session.n), MIRAS_ERR_MISMATCH);
    close_subject(&a);
    close_subject(&b);
  }
  for (i = 0; i < 3; i++) {
    uint64_t before;
    b.memory =
      tiny_memory(i == 1 ? MIRAS_PRESET_TTT_MLP_MEMORY : MIRAS_PRESET_YAAD, i == 0 ? 1 : 2);
    before = print_of(&b);
    assert_int_equal(load(&b, i == 2 ? session.at : memory.at, i == 2 ? session.n : memory.n),
                     MIRAS_ERR_MISMATCH);
    assert_int_equal(load(&b, model.at, model.n), MIRAS_ERR_FORMAT);
    assert_true(print_of(&b) == before);
    close_subject(&b);
  }
  free(model.at);
  free(memory.at);
  free(session.at);
}

/* Sequences that stand at different places, or where a count could wrap, are refused even if the
 * checksums are right. */
static void test_positions(void **state) {
  subject s = { NULL, NULL, NULL, NULL };
  bytes b;
  uint64_t before;
  size_t half;
  int i;
  (void)state;
  s.memory = tiny_memory(MIRAS_PRESET_MEMORA, 2);
  feed(s.memory, 0, 2);
  b = saved(&s, 0);
  before = print_of(&s);
  half = s.memory->state_bytes / 2;
  for (i = 0; i < 5; i++) {
    unsigned char *copy = (unsigned char *)malloc(b.n), *first, *second;
    assert_non_null(copy);
    memcpy(copy, b.at, b.n);
    second = copy + b.n - half;
    first = second - half;
    if (i == 1) second[0] = 1;
    if (i == 2) first[0] = second[0] = 1;
    if (i == 3) copy[40] = 1;
    if (i == 4) copy[47] = first[7] = second[7] = 0x80;
    miras__set32(copy + 56, miras__crc32c(0, copy + 64, b.n - 64));
    miras__set32(copy + 60, miras__crc32c(0, copy, 60));
    assert_int_equal(load(&s, copy, b.n), i == 0 ? MIRAS_OK : MIRAS_ERR_FORMAT);
    assert_true(print_of(&s) == before);
    free(copy);
  }
  free(b.at);
  close_subject(&s);
}

/* A state belongs to the weights that it came about with: under others it is refused, whichever
 * tensor differs, and can be adopted; and its logits come with it. */
static void test_session_weights(void **state) {
  subject s = { NULL, NULL, NULL, NULL };
  int kind, i;
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    float want[VOCAB], *params;
    const float *logits;
    miras_session *other;
    uint64_t before, on;
    size_t silent;
    bytes b, again;
    s.model = tiny_model((miras_preset)kind);
    s.session = miras_session_open(s.model, NULL, NULL, NULL, 0);
    other = miras_session_open(s.model, NULL, NULL, NULL, 0);
    assert_true(s.session && other);
    silent = save(&s, 0, NULL, 0);
    assert_null(miras_session_logits(s.session));
    prefill(s.session, 0, 5);
    assert_non_null(logits = miras_session_logits(s.session));
    memcpy(want, logits, sizeof want);
    b = saved(&s, 0);
    assert_int_equal(b.n, silent + WIDTH * 4);
    /* without a token: the same logits, the same bits from there on, the same file */
    prefill(other, 3, 9);
    assert_int_equal(miras_load_from(other, b.at, b.n, NULL, 0), MIRAS_OK);
    assert_non_null(logits = miras_session_logits(other));
    assert_memory_equal(logits, want, sizeof want);
    again.n = miras_save_to(other, NULL, 0);
    again.at = (unsigned char *)malloc(again.n);
    assert_true(again.at && miras_save_to(other, again.at, again.n) == b.n);
    assert_memory_equal(again.at, b.at, b.n);
    free(again.at);
    on = prefill(s.session, 5, 9);
    assert_true(prefill(other, 5, 9) == on);
    /* a score, a reset, a state that somebody has, and none are left */
    assert_int_equal(miras_load_from(other, b.at, b.n, NULL, 0), MIRAS_OK);
    (void)score_of(other, (const int32_t *)want, (const int32_t *)want, 0);
    assert_null(miras_session_logits(other));
    assert_int_equal(miras_save_to(other, NULL, 0), silent);
    assert_int_equal(miras_load_from(other, b.at, b.n, NULL, 0), MIRAS_OK);
    miras_session_reset(other);
    assert_null(miras_session_logits(other));
    assert_int_equal(miras_load_from(other, b.at, b.n, NULL, 0), MIRAS_OK);
    (void)miras_session_state(other, NULL);
    assert_null(miras_session_logits(other));
    miras_close(other);
    /* one number of any tensor */
    params = miras_model_params(s.model, NULL);
    for (i = 0; i < s.model->view_count; i++) {
      float *x = params + s.model->views[i].offset + s.model->views[i].count - 1, was = *x;
      *x += 0.25f;
      before = print_of(&s);
      assert_int_equal(load(&s, b.at, b.n), MIRAS_ERR_WEIGHTS);
      assert_true(print_of(&s) == before);
      if (!i) {
        miras_session_adopt(s.session, 1);
        assert_int_equal(load(&s, b.at, b.n), MIRAS_OK);
        miras_session_adopt(s.session, 0);
        assert_int_equal(miras_session_position(s.session), 5);
        assert_null(miras_session_logits(s.session));
      }
      *x = was;
    }
    assert_int_equal(load(&s, b.at, b.n), MIRAS_OK);
    assert_memory_equal(miras_session_logits(s.session), want, sizeof want);
    assert_true(prefill(s.session, 5, 9) == on);
    free(b.at);
    close_subject(&s);
    s.session = NULL;
  }
  miras_session_adopt(NULL, 1);
  assert_null(miras_session_logits(NULL));
}

/* A memory's file says what it is of: its descriptor comes back, a memory opens from it alone, and
 * a mismatch has a sentence. */
static void test_memory_opens(void **state) {
  int kind;
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    subject a = { NULL, NULL, NULL, NULL };
    miras_memory_desc d, e;
    char why[256] = "";
    uint64_t on = 0;
    size_t i;
    bytes b;
    a.memory = tiny_memory((miras_preset)kind, 2);
    feed(a.memory, 0, 4);
    b = saved(&a, 0);
    memset(&d, 0, sizeof d);
    d.seed = 9;
    d.limit = 77;
    assert_int_equal(miras_memory_desc_from(&d, b.at, b.n), MIRAS_OK);
    assert_true(d.seed == 9 && d.limit == 77);
    e = *miras_memory_desc_of(a.memory);
    assert_int_equal(miras_memory_desc_differs(&d, &e, why, sizeof why), 0);
    assert_string_equal(why, "");
    d.seed = e.seed;
    d.limit = e.limit;
    for (i = 0; miras_memory_desc_field((int)i); i++) {   /* usual functions as 0                 */
      const char *name = miras_memory_desc_field((int)i);
      char text[MIRAS_PATTERN_SIZE];
      if (!strstr("activation feature_map", name)) continue;
      assert_int_equal(
        miras_memory_desc_set(&e, name, miras_memory_desc_get(&e, name, text, sizeof text)),
        MIRAS_OK);
    }
    assert_memory_equal(&d, &e, sizeof d);
    e.learning_rate = 0.75f;
    e.chunk++;
    assert_int_equal(miras_memory_desc_differs(&d, &e, why, sizeof why), 1);
    if (!strstr(why, "chunk is ")) fail_msg("%s", why);
    e = d;
    e.batch = 3;
    assert_int_equal(miras_memory_desc_differs(&d, &e, why, sizeof why), 1);
    assert_string_equal(why, "batch is 2 and not 3");
    for (i = 0; i < b.n; i += i < 700 ? STEP : 12 + STEP) {   /* damage */
      b.at[i] ^= 4;
      assert_int_equal(miras_memory_desc_from(&e, b.at, b.n), MIRAS_ERR_FORMAT);
      b.at[i] ^= 4;
    }
#if defined(__unix__) && !defined(MIRAS_NO_STDIO)
    {
      char folder[] = "/tmp/miras_files_XXXXXX", path[80];
      miras_result result;
      const long live = test_live;
      miras_memory *m;
      assert_non_null(mkdtemp(folder));
      sprintf(path, "%s/x", folder);
      assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
      memset(&e, 0, sizeof e);
      e.limit = 1000;
      assert_null(miras_memory_open_file(path, &e, NULL, &result, NULL, 0));
      assert_int_equal(result, MIRAS_ERR_SIZE);
      assert_int_equal(test_live, live);
      e.limit = 1 << 26;
      e.seed = 4;
      m = miras_memory_open_file(path, &e, NULL, &result, NULL, 0);
      assert_true(m && result == MIRAS_OK);
      assert_true(miras_memory_desc_of(m)->limit == 1 << 26 && miras_memory_desc_of(m)->seed == 4);
      miras_close(m);
      m = miras_memory_open_file(path, NULL, NULL, NULL, NULL, 0);
      assert_non_null(m);
      assert_int_equal(miras_memory_position(m), 4);
      on = feed(a.memory, 4, 9);
      assert_true(feed(m, 4, 9) == on);
      miras_close(m);
      assert_int_equal(test_live, live);
      assert_int_equal(remove(path), 0);
      assert_null(miras_memory_open_file(path, NULL, NULL, &result, NULL, 0));
      assert_int_equal(result, MIRAS_ERR_IO);
      assert_null(miras_memory_open_file(NULL, NULL, NULL, &result, NULL, 0));
      assert_int_equal(result, MIRAS_ERR_ARGUMENT);
      assert_int_equal(rmdir(folder), 0);
    }
#endif
    (void)on;
    free(b.at);
    close_subject(&a);
  }
  assert_int_equal(miras_memory_desc_from(NULL, "", 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_desc_differs(NULL, NULL, NULL, 0), 0);
}

/* What a save takes a load takes: at the last place that there is, and none beyond; and no state
 * whose sequences stand apart. */
static void test_places(void **state) {
  const uint64_t last = ((uint64_t)1 << 62) - 1, beyond = last + 1;
  miras_memory *m = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 2);
  miras_session *session;
  subject s = { NULL, NULL, NULL, NULL };
  uint64_t before;
  size_t n;
  bytes b;
  (void)state;
  s.memory = m;
  feed(m, 0, 2);
  before = print_of(&s);
  assert_int_equal(miras_memory_move(m, beyond), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_memory_move(m, UINT64_MAX), MIRAS_ERR_ARGUMENT);
  assert_true(print_of(&s) == before);
  assert_int_equal(miras_memory_move(m, last), MIRAS_OK);
  b = saved(&s, 0);
  assert_int_equal(load(&s, b.at, b.n), MIRAS_OK);
  assert_true(miras_memory_position(m) == last);
  feed(m, 2, 3);                                    /* one token more */
  assert_true(miras_memory_position(m) == beyond);
  assert_int_equal(save(&s, 0, b.at, b.n), 0);
#ifndef MIRAS_NO_STDIO
  assert_int_equal(miras_save(m, "test_places.bin"), MIRAS_ERR_STATE);
  assert_null(fopen("test_places.bin", "rb"));
#endif
  assert_int_equal(load(&s, b.at, b.n), MIRAS_OK);
  n = m->state_bytes / 2;
  memset((char *)miras_memory_state(m, NULL) + n, 0, 8);
  assert_int_equal(save(&s, 0, b.at, b.n), 0);
  free(b.at);
  miras_close(m);
  s.memory = NULL;
  s.model = tiny_model(MIRAS_PRESET_DELTANET_MEMORY);
  s.session = session = miras_session_open(s.model, NULL, NULL, NULL, 0);
  assert_non_null(session);
  memcpy(miras_session_state(session, NULL), &last, 8);
  b = saved(&s, 0);
  assert_int_equal(load(&s, b.at, b.n), MIRAS_OK);
  memcpy(miras_session_state(session, NULL), &beyond, 8);
  assert_int_equal(save(&s, 0, b.at, b.n), 0);
  free(b.at);
  close_subject(&s);
}

/* Fields that came with version 3, as values that are not 0. Whether a descriptor with one of them
 * runs does not matter here: it is put into a model that is built already. */
static const struct { const char *name, *text; size_t at; int value;
} later[] = {
  {"memory.qk_norm", "rms", offsetof(miras_model_desc, layer[0].memory.qk_norm), MIRAS_QK_NORM_RMS},
  {"memory.decay_target", "initial", offsetof(miras_model_desc, layer[0].memory.decay_target),
   MIRAS_DECAY_TARGET_INITIAL},
  {"memory.reset_every", "64", offsetof(miras_model_desc, layer[0].memory.reset_every), 64},
  {"memory.step_bound", "pair", offsetof(miras_model_desc, layer[0].memory.step_bound), 1},
  {"memory.simplex_signed", "1", offsetof(miras_model_desc, layer[0].memory.simplex_signed), 1},
  {"mixer.fixed_gates", "31", offsetof(miras_model_desc, layer[0].mixer.fixed_gates), 31},
  {"mixer.decay_horizon", "1073741824", offsetof(miras_model_desc, layer[0].mixer.decay_horizon),
   1 << 30}};
enum { LATER = sizeof later / sizeof *later };

static void set_later(miras_model_desc *d, int i, int value) {
  memcpy((char *)d + later[i].at, &value, sizeof value);
}

static int later_of(const miras_model_desc *d, int i) {
  int value;
  memcpy(&value, (const char *)d + later[i].at, sizeof value);
  return value;
}

/* Make them 0, whatever the preset says. */
static void without_later(miras_model *m) {
  int i;
  for (i = 0; i < LATER; i++) set_later(&m->desc, i, 0);
}

/* ---- files of other writers ---- */

typedef struct text {
  char *at;
  size_t n, room;
} text;

static void say(text *t, const char *format, ...) {
  va_list list;
  if (t->room - t->n < 4096) {
    t->room = 2 * t->room + 8192;
    t->at = (char *)realloc(t->at, t->room);
    assert_non_null(t->at);
  }
  va_start(list, format);
  t->n += (size_t)vsnprintf(t->at + t->n, t->room - t->n, format, list);
  va_end(list);
}

enum {
  SPACED = 1, REVERSED = 2, METADATA_LAST = 4, ESCAPED = 8, NOTES = 16, INNER = 32, SHUFFLED = 64,
  MOMENTS = 128, STYLES = 256
};

static bytes with_header(const char *header, size_t length, const void *payload, size_t n) {
  bytes b;
  b.n = 8 + length + n;
  b.at = (unsigned char *)malloc(b.n ? b.n : 1);
  assert_non_null(b.at);
  miras__set64(b.at, length);
  memcpy(b.at + 8, header, length);
  if (n) memcpy(b.at + 8 + length, payload, n);
  return b;
}

/* The model of s as another program might write it: any order of keys and of tensors, any white
 * space, no checksum. *header_size receives the length of the header. */
static bytes foreign(const subject *s, int style, size_t *header_size) {
  const miras_model *m = s->model;
  const char *gap = style & SPACED ? " \t\r\n " : "";
  int moments = style & MOMENTS ? 2 : 0, total, i;
  size_t *begin, payload_size, at = 0;
  unsigned char *payload;
  char *fields, *end;
  text head = { NULL, 0, 0 };
  subject bare = { NULL, NULL, NULL, NULL };
  bytes ours, out;
  bare.model = s->model;
  bare.trainer = s->trainer;
  ours = saved(&bare, moments > 0);
  /* version and descriptor: what stands between the checksum and the end of the metadata */
  ours.at[8 + miras__get64(ours.at) - 1] = 0;
  fields = strstr((char *)ours.at + 8, "\"checksum\":");
  assert_non_null(fields);
  fields += strlen("\"checksum\":\"12345678\",");
  end = strchr(fields, '}');
  assert_non_null(end);
  *end = 0;
  total = m->view_count + moments;
  begin = (size_t *)malloc((size_t)total * sizeof *begin);
  payload_size = (size_t)(ours.n - 8 - miras__get64(ours.at));
  payload = (unsigned char *)malloc(payload_size);
  assert_true(begin && payload && total % 37 != 0);
  for (i = 0; i < total; i++) {
    int v = style & SHUFFLED ? (i * 37 + 5) % total : i;   /* total is no multiple of 37 */
    const float *from = v < m->view_count ? m->params + m->views[v].offset
                      : v == m->view_count ? s->trainer->moment1 : s->trainer->moment2;
    size_t count = v < m->view_count ? m->views[v].count : m->param_count, k;
    begin[v] = at;
    for (k = 0; k < count; k++, at += 4) {
      uint32_t bits;
      memcpy(&bits, from + k, 4);
      miras__set32(payload + at, bits);
    }
  }
  assert_int_equal(at, payload_size);
  say(&head, "{%s", gap);
  for (i = 0; i <= total; i++) {
    int v = style & REVERSED ? total - 1 - i : i;
    if (style & METADATA_LAST ? i == total : i == 0) {
      say(&head, "%s%s\"__metadata__\"%s:%s{%s\"format\"%s:%s\"miras\"", i ? "," : "", gap, gap,
          gap, gap, gap, gap);
      if (style & NOTES)
        say(&head, ",\"note\":\"a \\\"quoted\\\" \\u00e9 \\ud83d\\ude00 \xc3\xa9 %s\""
                   ",\"empty\":\"\",\"\":\"\"",
            "a long line of words that has more characters than any field of ours can hold");
      say(&head, ",%s%s}%s", gap, fields, gap);
      if (style & METADATA_LAST) break;
      say(&head, ",%s", gap);
    }
    if (i == total) break;
    if (style & METADATA_LAST && i) say(&head, "%s,", gap);
    if (!(style & METADATA_LAST) && i) say(&head, "%s,", gap);
    {
      const char *name = v < m->view_count ? m->views[v].name
                       : v == m->view_count ? "adamw.moment1" : "adamw.moment2";
      size_t count = v < m->view_count ? m->views[v].count : m->param_count;
      int rank = v < m->view_count ? m->views[v].rank : 1, k;
      char shape[80], *p = shape;
      for (k = 0; k < rank; k++)
        p += sprintf(p, "%s%s%d%s", k ? "," : "", gap,
                     v < m->view_count ? m->views[v].shape[k] : (int)m->param_count, gap);
      if (style & ESCAPED)
        say(&head, "%s\"\\u00%02x%s\"%s:{%s", gap, (unsigned)name[0], name + 1, gap, gap);
      else
        say(&head, "%s\"%s\"%s:%s{%s", gap, name, gap, gap, gap);
      if (style & INNER)
        say(&head, "\"data_offsets\":[%zu,%zu],%s\"shape\":[%s],\"dtype\":\"F32\"%s}", begin[v],
            begin[v] + 4 * count, gap, shape, gap);
      else
        say(&head, "\"dtype\"%s:%s\"F32\",\"shape\":[%s]%s,\"data_offsets\":[%s%zu%s,%zu]}",
            gap, gap, shape, gap, gap, begin[v], gap, begin[v] + 4 * count);
    }
  }
  say(&head, "%s}%s", gap, style & SPACED ? "  \n" : "");
  out = with_header(head.at, head.n, payload, payload_size);
  if (header_size) *header_size = head.n;
  free(head.at);
  free(payload);
  free(begin);
  free(ours.at);
  return out;
}

static void test_other_writers(void **state) {
  int style, layers;
  (void)state;
  for (layers = 1; layers <= 5; layers += 4) {   /* 5 blocks: more tensors than fit one round */
    miras_model_desc d;
    subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
    tiny(&d, MIRAS_PRESET_TITANS);
    d.layers = layers;
    with_trainer(&a, open_model(&d));
    train(a.trainer, 0);
    d.seed += 1;
    for (style = 0; style < STYLES; style += STEP) {
      bytes f = foreign(&a, style, NULL);
      miras_model_desc back;
      uint64_t before;
      miras_result result;
      with_trainer(&b, open_model(&d));
      train(b.trainer, 1);
      result = load(&b, f.at, f.n);
      if (result != MIRAS_OK) fail_msg("style %d is refused: %d", style, (int)result);
      assert_memory_equal(a.model->params, b.model->params, a.model->param_count * 4);
      if (style & MOMENTS) assert_true(print_of(&a) == print_of(&b));
      memset(&back, 0, sizeof back);
      assert_int_equal(miras_model_desc_from(&back, f.at, f.n), MIRAS_OK);
      assert_int_equal(back.layers, layers);
      /* one byte more or less, at the end */
      before = print_of(&b);
      assert_int_equal(load(&b, f.at, f.n - 1), MIRAS_ERR_FORMAT);
      assert_int_equal(load(&b, f.at, f.n - 4), MIRAS_ERR_FORMAT);
      assert_true(print_of(&b) == before);
      free(f.at);
      close_subject(&b);
    }
    close_subject(&a);
  }
}

/* The file of a model in bf16 or f16 as it was before version 10, row by row, with the fields of
 * `fields`, a file of the model in floats. */
static bytes by_rows(const miras_model *m, bytes fields) {
  const size_t header = (size_t)miras__get64(fields.at);
  const int form = (int)miras_model_desc_of(m)->weights;
  text t = {NULL, 0, 0};
  unsigned char *payload = (unsigned char *)malloc(4 * m->learned), *at = payload;
  char *copy = (char *)calloc(header + 1, 1), *mark;
  bytes out;
  int count;
  assert_non_null(payload);
  assert_non_null(copy);
  memcpy(copy, fields.at + 8, header);
  *strchr(copy, '}') = 0;
  if ((mark = strstr(copy, ",\"checksum\"")) != NULL) memset(mark, ' ', 22);
  if ((mark = strstr(copy, ",\"writer\"")) != NULL) memset(mark, ' ', 19);
  say(&t, "%s}", copy);
  for (const miras_view *v = miras_model_views(m, &count); count; count--, v++) {
    const size_t rows = v->rank > 1 ? (size_t)v->shape[0] : 1, begins = (size_t)(at - payload);
    float *x = (float *)malloc(v->count * sizeof *x);
    assert_non_null(x);
    assert_int_equal(miras_model_view_read(m, v, 0, rows, 0, v->count / rows, x), MIRAS_OK);
    for (size_t i = 0; i < v->count; i++) {
      uint32_t word;
      memcpy(&word, &x[i], sizeof word);
      if (v->weight_decay) word = form == MIRAS_WEIGHTS_F16 ? miras__to_half(x[i]) : word >> 16;
      for (int k = 0; k < (v->weight_decay ? 2 : 4); k++) *at++ = (unsigned char)(word >> 8 * k);
    }
    say(&t, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%d", v->name,
        !v->weight_decay ? "F32" : form == MIRAS_WEIGHTS_F16 ? "F16" : "BF16", v->shape[0]);
    for (int k = 1; k < v->rank; k++) say(&t, ",%d", v->shape[k]);
    say(&t, "],\"data_offsets\":[%d,%d]}", (int)begins, (int)(at - payload));
    free(x);
  }
  say(&t, "}");
  out = with_header(t.at, t.n, payload, (size_t)(at - payload));
  free(payload), free(copy), free(t.at);
  return out;
}

static void test_by_rows(void **state) {
  int form, turn;
  (void)state;
  for (form = MIRAS_WEIGHTS_BF16; form <= MIRAS_WEIGHTS_F16; form++) {
    subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
    miras_model_desc d, back;
    bytes floats, old, now, again;
    tiny(&d, MIRAS_PRESET_GATED_DELTANET);
    a.model = open_model(&d);
    floats = saved(&a, 0);
    d.weights = (miras_weights)form;
    b.model = open_model(&d);
    assert_int_equal(load(&b, floats.at, floats.n), MIRAS_OK);
    now = saved(&b, 0);
    old = by_rows(b.model, floats);
    memset(&back, 0, sizeof back);
    assert_int_equal(miras_model_desc_from(&back, old.at, old.n), MIRAS_OK);
    assert_int_equal(back.weights, form);
    for (turn = 0; turn < 2; turn++) {   /* copied, also if it could be used where it lies */
      miras_close(b.model);
      b.model = miras_model_open_from(old.at, old.n, turn, &d, NULL, NULL, NULL, 0);
      assert_non_null(b.model);
      again = saved(&b, 0);
      assert_int_equal(again.n, now.n);
      assert_memory_equal(again.at, now.at, now.n);
      free(again.at);
    }
    free(floats.at), free(old.at), free(now.at);
    close_subject(&a), close_subject(&b);
  }
}

/* Replace the first `find` of a foreign file's header by `put`; `find` may be "" for the end. */
static bytes edited(bytes f, size_t header, const char *find, const char *put, size_t put_size) {
  char *copy = (char *)malloc(header + put_size + 1), *at;
  size_t length = strlen(find), n;
  bytes out;
  assert_non_null(copy);
  memcpy(copy, f.at + 8, header);
  copy[header] = 0;
  at = length ? strstr(copy, find) : copy + header;
  if (!at) fail_msg("no %s in the header", find);
  n = (size_t)(at - copy);
  memmove(at + put_size, at + length, header - n - length);
  memcpy(at, put, put_size);
  out = with_header(copy, header - length + put_size, f.at + 8 + header, f.n - 8 - header);
  free(copy);
  return out;
}

static bytes changed(bytes f, const char *find, const char *put) {
  return edited(f, (size_t)miras__get64(f.at), find, put, strlen(put));
}

/* Is this text in the header of the file? */
static int holds(bytes b, const char *words) {
  size_t n = strlen(words), end = 8 + (size_t)miras__get64(b.at), i;
  for (i = 8; i + n <= end; i++)
    if (memcmp(b.at + i, words, n) == 0) return 1;
  return 0;
}

/* Give a model's file the checksum of what it holds now. */
static void sign(bytes b) {
  char *at = strstr((char *)b.at + 8, "\"checksum\":\""), digits[9];
  assert_non_null(at);
  at += strlen("\"checksum\":\"");
  memcpy(at, "00000000", 8);
  snprintf(digits, sizeof digits, "%08x", (unsigned)miras__crc32c(0, b.at, b.n));
  memcpy(at, digits, 8);
}

/* Running texts are in training files; texts that stand within a chunk, or where a count could
 * wrap, are refused, and so are texts of another size and those without moments. */
static void test_streams(void **state) {
  static const int32_t stream[BATCH] = { 1, 2 };
  static const struct { const char *find, *put; } edits[] = {
    { "adamw.moment1", "adamw.moment3" }, { "\"streams\":{", "\"strings\":{" },
    { "\"shape\":[3,", "\"shape\":[1,3," } };
  int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
  subject s = { NULL, NULL, NULL, NULL }, plain = { NULL, NULL, NULL, NULL };
  bytes b, c;
  size_t texts, i;
  uint64_t before;
  (void)state;
  s.model = tiny_model(MIRAS_PRESET_YAAD);
  s.trainer = open_trainer(s.model, 3);
  for (i = 0; i < BATCH * LENGTH; i++) tokens[i] = targets[i] = (int32_t)(i % VOCAB);
  assert_true(
      loss_carried(s.trainer, tokens, targets, BATCH, LENGTH, stream, NULL) > 0);
  c = saved(&s, 0);
  b = saved(&s, 1);
  texts = 3 * 4 * s.model->run;
  assert_true(holds(b, "\"streams\":{\"dtype\":\"F32\",\"shape\":[3,"));
  assert_false(holds(c, "\"streams\":{"));
  assert_true(b.n > c.n + 8 * s.model->param_count + texts);
  assert_true(miras__get64(b.at + b.n - texts) == 0);
  assert_true(miras__get64(b.at + b.n - texts / 3) == LENGTH);
  assert_int_equal(load(&s, c.at, c.n), MIRAS_OK);   /* texts that the file lacks begin anew */
  free(c.at);
  c = saved(&s, 1);
  assert_true(miras__get64(c.at + c.n - texts / 3) == 0);
  free(c.at);
  assert_int_equal(load(&s, b.at, b.n), MIRAS_OK);
  c = saved(&s, 1);
  assert_int_equal(b.n, c.n);
  assert_memory_equal(b.at, c.at, b.n);
  before = print_of(&s);
  for (i = 0; i < 3; i++) {
    memcpy(c.at, b.at, b.n);
    c.at[c.n - texts / 3] = (unsigned char)(i == 0 ? LENGTH + 1 : LENGTH);
    if (i == 1) c.at[c.n - texts + 7] = 0x40;
    sign(c);
    assert_int_equal(load(&s, c.at, c.n), i == 2 ? MIRAS_OK : MIRAS_ERR_FORMAT);
    assert_true(print_of(&s) == before);
  }
  for (i = 0; i < sizeof edits / sizeof *edits; i++) {
    size_t header = (size_t)miras__get64(b.at);
    bytes e = edited(b, header, edits[i].find, edits[i].put, strlen(edits[i].put));
    sign(e);
    assert_int_equal(load(&s, e.at, e.n), MIRAS_ERR_FORMAT);
    assert_true(print_of(&s) == before);
    free(e.at);
  }
  plain.model = tiny_model(MIRAS_PRESET_YAAD);   /* without a trainer they are skipped */
  assert_int_equal(load(&plain, b.at, b.n), MIRAS_OK);
  close_subject(&plain);
  free(b.at);
  free(c.at);
  close_subject(&s);
}

/* What stands in a header, and what must not stand there instead. */
static const char *const header_edits[][2] = {
  /* types */
  { "\"F32\"", "\"F16\"" }, { "\"F32\"", "\"f32\"" }, { "\"F32\"", "F32" }, { "\"F32\"", "32" },
  { "\"F32\"", "null" }, { "\"F32\"", "[\"F32\"]" }, { "\"F32\"", "{}" }, { "\"F32\"", "\"\"" },
  { "\"F32\"", "\"F32\\u0000\"" }, { "\"F32\"", "\"F32" }, { "\"F32\"", "\"F\n32\"" },
  { "\"F32\"", "\"\\x46\"" }, { "\"F32\"", "\"\\u00g0\"" }, { "\"F32\"", "\"\\" },
  /* shapes; [7,8] is the first */
  { "[7,8]", "[8,7]" }, { "[7,8]", "[56]" }, { "[7,8]", "[7,8,1]" }, { "[7,8]", "[1,1,7,8]" },
  { "[7,8]", "[]" }, { "[7,8]", "[7,8,]" }, { "[7,8]", "[,7,8]" }, { "[7,8]", "[7,,8]" },
  { "[7,8]", "[7 8]" }, { "[7,8]", "[7,8" }, { "[7,8]", "7,8]" }, { "[7,8]", "56" },
  { "[7,8]", "\"7,8\"" }, { "[7,8]", "[[7],8]" }, { "[7,8]", "[{},8]" }, { "[7,8]", "[-7,-8]" },
  { "[7,8]", "[+7,8]" }, { "[7,8]", "[7.0,8]" }, { "[7,8]", "[7e0,8]" }, { "[7,8]", "[07,8]" },
  { "[7,8]", "[0x7,8]" }, { "[7,8]", "[null,8]" }, { "[7,8]", "[true,8]" }, { "[7,8]", "[0,8]" },
  { "[7,8]", "[7,0]" },
  /* products that wrap to the right number: 2 (2^61 + 28) 4 and 2^32 2^32 more */
  { "[7,8]", "[2305843009213693980,2]" }, { "[7,8]", "[4294967296,4294967296]" },
  { "[7,8]", "[18446744073709551615,18446744073709551615,18446744073709551615]" },
  { "[7,8]", "[18446744073709551616,8]" }, { "[7,8]", "[18446744073709551623,8]" },
  { "[7,8]", "[999999999999999999999999999999999999999999,8]" },
  /* offsets; the first tensor has 224 bytes */
  { "[0,224]", "[0,220]" }, { "[0,224]", "[0,228]" }, { "[0,224]", "[4,228]" },
  { "[0,224]", "[224,0]" }, { "[0,224]", "[0,0]" }, { "[0,224]", "[0]" },
  { "[0,224]", "[0,224,0]" },
  { "[0,224]", "[]" }, { "[0,224]", "[-0,224]" }, { "[0,224]", "[0,-224]" },
  { "[0,224]", "[0,224.0]" }, { "[0,224]", "[\"0\",224]" }, { "[0,224]", "0,224" },
  { "[0,224]", "[18446744073709551392,18446744073709551616]" },
  { "[0,224]", "[18446744073709551391,18446744073709551615]" },
  { "[0,224]", "[9223372036854775808,9223372036854776032]" },
  { "[0,224]", "[224,448]" },   /* overlaps the next, leaves a hole */
  { "[224,", "[0," }, { "[224,", "[220," }, { "[224,", "[228," },
  /* keys of a tensor */
  { "\"dtype\"", "\"Dtype\"" }, { "\"dtype\"", "\"shape\"" }, { "\"dtype\"", "dtype" },
  { "\"dtype\":\"F32\",", "" }, { "\"dtype\":\"F32\",", "\"dtype\":\"F32\",\"dtype\":\"F32\"," },
  { "\"shape\":[7,8],", "" }, { "\"shape\":[7,8],", "\"shape\":[7,8],\"shape\":[7,8]," },
  { ",\"data_offsets\":[0,224]", "" },
  { ",\"data_offsets\":[0,224]", ",\"data_offsets\":[0,224],\"data_offsets\":[0,224]" },
  { ",\"data_offsets\":[0,224]", ",\"data_offsets\":[0,224],\"more\":1" },
  { ",\"data_offsets\":[0,224]", ",\"data_offsets\":[0,224]," },
  { ",\"data_offsets\":[0,224]", ";\"data_offsets\":[0,224]" },
  { "{\"dtype\":\"F32\",\"shape\":[7,8],\"data_offsets\":[0,224]}", "{}" },
  { "{\"dtype\":\"F32\",\"shape\":[7,8],\"data_offsets\":[0,224]}", "[]" },
  { "{\"dtype\":\"F32\",\"shape\":[7,8],\"data_offsets\":[0,224]}", "\"\"" },
  /* names of tensors */
  { "\"embed.weight\"", "\"embed.weighs\"" }, { "\"embed.weight\"", "\"\"" },
  { "\"embed.weight\"", "\"norm.gain\"" }, { "\"embed.weight\"", "\"adamw.moment1\"" },
  { "\"embed.weight\"", "\"embed.weight\\u0000\"" }, { "\"embed.weight\"", "embed.weight" },
  { "\"embed.weight\":", "\"embed.weight\"" }, { "\"embed.weight\":", "\"embed.weight\"::" },
  { "\"embed.weight\":", "" }, { "\"embed.weight\"", "\"embed.weight\",\"embed.weight\"" },
  { "\"embed.weight\":", "\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[7,8],"
                         "\"data_offsets\":[0,224]},\"embed.weight\":" },
  { "\"embed.weight\":{\"dtype\":\"F32\",\"shape\":[7,8],\"data_offsets\":[0,224]},", "" },
  { "\"embed.weight\":", "\"x\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
                         "\"embed.weight\":" },
  /* metadata */
  { "\"__metadata__\"", "\"__metadatb__\"" }, { "\"__metadata__\":{", "\"__metadata__\":[" },
  { "\"__metadata__\":{", "\"__metadata__\":{}," },
  { "\"__metadata__\":{", "\"__metadata__\":null," },
  { "\"__metadata__\":{", "\"__metadata__\":{},\"__metadata__\":{" },
  { "\"__metadata__\":{", "\"__metadata__\":{\"a\":\"b\"},\"__metadata__\":{" },
  { "\"format\":\"miras\"", "\"format\":\"pt\"" }, { "\"format\":\"miras\",", "" },
  { "\"format\":\"miras\"", "\"format\":{\"a\":\"miras\"}" },
  { "\"format\":\"miras\"", "\"format\":1" },
  { "\"format\":\"miras\"", "\"format\":\"miras\",\"format\":\"miras\"" },
  { "\"format\":\"miras\"", "\"format\":\"miras\",\"f\\u006frmat\":\"miras\"" },
  { "\"format\":\"miras\"", "\"format\":\"miras\",\"note\":{}" },
  { "\"format\":\"miras\"", "\"format\":\"miras\",\"note\":[\"a\"]" },
  { "\"format\":\"miras\"", "\"format\":\"miras\",\"note\":1" },
  { "\"format\":\"miras\"", "\"format\":\"miras\",\"note\":\"\t\"" },
  { "\"format\":\"miras\"", "\"format\":\"miras\",\"note\":\"\\ud8\"" },
  { "\"format\":\"miras\"", "\"format\":\"miras\"," },
  { "\"version\":\"7\"", "\"version\":\"1\"" }, { "\"version\":\"7\"", "\"version\":\"6\"" },
  { "\"version\":\"7\"", "\"version\":\"12\"" },
  { "\"version\":\"7\",", "" },
  { "\"version\":\"7\"", "\"version\":7" },
  { "\"version\":\"7\"", "\"version\":\"7\",\"writer\":\"miras.h\"" },
  { "\"version\":\"7\"", "\"version\":\"7\",\"checksum\":\"00000000\"" },
  { "\"version\":\"7\"", "\"version\":\"7\",\"writer\":\"miras.h\",\"checksum\":\"00000000\"" },
  { "\"version\":\"7\"", "\"version\":\"7\",\"writer\":\"miras.h\",\"checksum\":\"\"" },
  { "\"version\":\"7\"", "\"version\":\"7\",\"writer\":\"miras.h\",\"checksum\":\"0000000g\"" },
  { "\"version\":\"7\"", "\"version\":\"7\",\"writer\":\"miras.h\",\"checksum\":\"\\u00300\"" },
  /* fields of the descriptor */
  { "\"vocab\":\"7\"", "\"vocab\":\"7\",\"vocab\":\"7\"" },
  { "\"vocab\":\"7\"", "\"vocab\":7" }, { "\"vocab\":\"7\"", "\"vocab\":\"-7\"" },
  { "\"vocab\":\"7\"", "\"vocab\":\"07\"" }, { "\"vocab\":\"7\"", "\"vocab\":\"7.0\"" },
  { "\"vocab\":\"7\"", "\"vocab\":\"\"" }, { "\"vocab\":\"7\"", "\"vocab\":\"2147483648\"" },
  { "\"vocab\":\"7\"", "\"vocab\":\"18446744073709551623\"" },
  { "\"vocab\":\"7\"", "\"vocab\":\"7 \"" },
  { "\"mlp\"", "\"ml\"" }, { "\"mlp\"", "\"mlp \"" }, { "\"mlp\"", "\"\"" },
  { "\"mlp\"", "\"5\"" },
  { "\"mlp\"", "\"matrix mlp\"" }, { "\"mlp\"", "\" mlp\"" },
  { "\"dropout\":\"0.1\"", "\"dropout\":\"nan\"" },
  { "\"dropout\":\"0.1\"", "\"dropout\":\"inf\"" },
  { "\"dropout\":\"0.1\"", "\"dropout\":\"1e999\"" },
  { "\"dropout\":\"0.1\"", "\"dropout\":\"0,1\"" },
  { "\"dropout\":\"0.1\"", "\"dropout\":\"0x1p-3\"" },
  { "\"dropout\":\"0.1\"", "\"dropout\":\"\"" },
  { "\"dropout\":\"0.1\"", "\"dropout\":0.1" },
  { "\"vocab\":\"7\"", "\"vocab\":\"7\",\"steps\":\"-1\"" },
  { "\"vocab\":\"7\"", "\"vocab\":\"7\",\"steps\":\"18446744073709551616\"" },
  /* the frame */
  { "{\"__metadata__\"", " {\"__metadata__\"" }, { "{\"__metadata__\"", "[\"__metadata__\"" },
  { "{\"__metadata__\"", "{,\"__metadata__\"" }, { "{\"__metadata__\"", "{{\"__metadata__\"" },
  { "{\"__metadata__\"", "\"__metadata__\"" },
  { "{\"__metadata__\"", "\xef\xbb\xbf{\"__metadata__\"" },
  { "", "}" }, { "", "," }, { "", "x" }, { "", "{}" }, { "", "/**/" }, { "", "\v" }
};

static void test_hostile_headers(void **state) {
  static const char longer[] = "\"dropout\":\"0.100000001490116\",\"x\":\"y\"";
  subject s = { NULL, NULL, NULL, NULL };
  uint64_t before;
  size_t header, i;
  bytes f, g;
  (void)state;
  with_trainer(&s, tiny_model(MIRAS_PRESET_TITANS));
  without_later(s.model);
  f = foreign(&s, 0, &header);
  assert_int_equal(load(&s, f.at, f.n), MIRAS_OK);
  before = print_of(&s);
  for (i = 0; i < sizeof header_edits / sizeof *header_edits; i++) {
    miras_result result;
    g = edited(f, header, header_edits[i][0], header_edits[i][1], strlen(header_edits[i][1]));
    result = load(&s, g.at, g.n);
    if (result != MIRAS_ERR_FORMAT)
      fail_msg("%s as %s: result %d", header_edits[i][0], header_edits[i][1], (int)result);
    free(g.at);
  }
  /* what must stay allowed */
  g = edited(f, header, "", "  \n\t\r ", 6);
  assert_int_equal(load(&s, g.at, g.n), MIRAS_OK);
  free(g.at);
  g = edited(f, header, "\"dropout\":\"0.1\"", longer, strlen(longer));
  assert_int_equal(load(&s, g.at, g.n), MIRAS_OK);
  free(g.at);
  /* a zero byte inside the text; nesting far beyond any stack */
  g = edited(f, header, "\"F32\"", "\"F32\0\"", 6);
  assert_int_equal(load(&s, g.at, g.n), MIRAS_ERR_FORMAT);
  free(g.at);
  for (i = 0; i < 3; i++) {
    static const char *const find[] = { "[7,8]", "\"miras\"", "{\"dtype\"" };
    char *deep = (char *)malloc(1000000);
    assert_non_null(deep);
    memset(deep, i == 1 ? '{' : '[', 1000000);
    g = edited(f, header, find[i], deep, 1000000);
    assert_int_equal(load(&s, g.at, g.n), MIRAS_ERR_FORMAT);
    free(g.at);
    free(deep);
  }
  /* every prefix of the header, with its length made to fit */
  for (i = 0; i < header; i++) {
    g = with_header((const char *)f.at + 8, i, f.at + 8 + header, f.n - 8 - header);
    assert_int_equal(load(&s, g.at, g.n), MIRAS_ERR_FORMAT);
    free(g.at);
  }
  assert_true(print_of(&s) == before);
  free(f.at);
  close_subject(&s);
}

/* Processor time to read the longest header there may be, with as many tensors as there may be, the
 * last first or in their order, and the rest of it notes. */
static double patience(int last_first) {
  enum { CROWD = MIRAS__MAX_TENSORS - 40 };
  subject s = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  size_t header, own, i;
  text head = { NULL, 0, 0 };
  unsigned char *payload;
  clock_t start, end;
  bytes f, g;
  s.model = tiny_model(MIRAS_PRESET_DELTANET_MEMORY);
  f = foreign(&s, METADATA_LAST, &header);
  own = f.n - 8 - header;
  payload = (unsigned char *)calloc(1, own + 4 * CROWD);
  assert_non_null(payload);
  say(&head, "{");
  for (i = 0; i < CROWD; i++) {
    const size_t at = own + 4 * (last_first ? CROWD - 1 - i : i);
    say(&head, "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]},", at, at + 4);
  }
  assert_memory_equal(f.at + 8 + header - 2, "}}", 2);
  for (i = 9; i < 8 + header - 2; i += 1000)   /* all but the first brace and the last two */
    say(&head, "%.*s", (int)(8 + header - 2 - i < 1000 ? 8 + header - 2 - i : 1000),
        (const char *)f.at + i);
  while (head.n < MIRAS__MAX_HEADER - 16) say(&head, ",\"a\":\"\"");
  say(&head, "}}");
  memcpy(payload, f.at + 8 + header, own);
  g = with_header(head.at, head.n, payload, own + 4 * CROWD);
  memset(&d, 0, sizeof d);
  start = clock();
  assert_int_equal(miras_model_desc_from(&d, g.at, g.n), MIRAS_OK);
  end = clock();
  free(head.at);
  free(payload);
  free(f.at);
  free(g.at);
  close_subject(&s);
  return (double)(end - start) / CLOCKS_PER_SEC;
}

/* The worst order, which is what a sort may read again and again, takes what the best one takes;
 * where runs are slow it is read alone. */
static void test_hostile_patience(void **state) {
  const double worst = patience(1), best = STEP > 1 ? worst : patience(0);
  (void)state;
  if (!(worst < 20 * best + 0.5))
    fail_msg("%g s in the worst order, %g s in the best", worst, best);
}

/* So many tensors that sorting them by their place would take for ever, the last first: refused for
 * their number, and some hundreds are not. */
static void test_hostile_crowds(void **state) {
  static const int crowds[] = { 500, MIRAS__MAX_TENSORS + 1, 100000 };
  subject s = { NULL, NULL, NULL, NULL };
  size_t header, payload, i;
  bytes f;
  (void)state;
  s.model = tiny_model(MIRAS_PRESET_DELTANET_MEMORY);
  f = foreign(&s, 0, &header);
  payload = f.n - 8 - header;
  for (i = 0; i < sizeof crowds / sizeof *crowds; i++) {
    text head = { NULL, 0, 0 };
    miras_model_desc d;
    unsigned char *rest;
    int k;
    bytes g;
    memset(&d, 0, sizeof d);
    say(&head, "{");
    for (k = crowds[i] - 1; k >= 0; k--)
      say(&head, "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%zu,%zu]},",
          payload + 4 * (size_t)k, payload + 4 * (size_t)k + 4);
    head.at = (char *)realloc(head.at, head.n + header);
    rest = (unsigned char *)calloc(1, payload + 4 * (size_t)crowds[i]);
    assert_true(head.at && rest);
    memcpy(head.at + head.n, f.at + 9, header - 1);
    memcpy(rest, f.at + 8 + header, payload);
    g = with_header(head.at, head.n + header - 1, rest, payload + 4 * (size_t)crowds[i]);
    assert_int_equal(miras_model_desc_from(&d, g.at, g.n), i ? MIRAS_ERR_FORMAT : MIRAS_OK);
    assert_int_equal(load(&s, g.at, g.n), MIRAS_ERR_FORMAT);
    free(g.at);
    free(rest);
    free(head.at);
  }
  free(f.at);
  close_subject(&s);
}

/* Texts in a file whose checksum is right: blanks, which say nothing, and those that are longer
 * than their fields, which are named. */
static void test_hostile_texts(void **state) {
  static const struct { const char *field, *text; int size; const char *why; } wrong[] = {
    {"outputs", " ", 1, "outputs is \" \"; it must be items"},
    {"outputs", " ", 111, "it must be items"}, {"inputs", " ", 9, "it must be items"},
    {"outputs", "raw 1,", 111, "outputs is \"raw 1,"},
    {"outputs", "x", 112, "outputs has 112 characters; it must have less than 112"},
    {"inputs", " ", 127, "inputs has 127 characters; it must have less than 112"},
    {"inputs", "vector 1,", 3000, "inputs has 3000 characters; it must have less than 112"},
    {"pattern", "m", 112, "pattern has 112 characters; it must have less than 112"}};
  subject s = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  size_t i;
  bytes f;
  (void)state;
  tiny(&d, MIRAS_PRESET_GLA_MEMORY);
  strcpy(d.pattern, "m");
  d.vocab = d.layers = 0;
  strcpy(d.inputs, "vector 1");
  strcpy(d.outputs, "raw 1");
  s.model = open_model(&d);
  f = saved(&s, 0);
  for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const char *was = wrong[i].field[0] == 'p' ? "m"
                    : wrong[i].field[0] == 'o' ? "raw 1" : "vector 1";
    char find[64], put[4096], why[256] = "";
    int n, k;
    bytes g;
    snprintf(find, sizeof find, "\"%s\":\"%s\"", wrong[i].field, was);
    n = snprintf(put, sizeof put, "\"%s\":\"", wrong[i].field);
    for (k = 0; k < wrong[i].size; k++)
      put[n++] = wrong[i].text[(size_t)k % strlen(wrong[i].text)];
    put[n++] = '"';
    g = edited(f, (size_t)miras__get64(f.at), find, put, (size_t)n);
    sign(g);
    memset(&d, 0, sizeof d);
    if (miras_model_desc_from(&d, g.at, g.n) == MIRAS_OK) {
      assert_true(wrong[i].size < MIRAS_PATTERN_SIZE);
      assert_int_equal(miras_model_size(&d, why, sizeof why), 0);
    } else {
      assert_true(wrong[i].size >= MIRAS_PATTERN_SIZE);
      assert_int_equal(miras_load_from(s.model, g.at, g.n, why, sizeof why),
                       MIRAS_ERR_FORMAT);
    }
    if (!strstr(why, wrong[i].why)) fail_msg("%s of %d: %s", wrong[i].field, wrong[i].size, why);
#if defined(__unix__) && !defined(MIRAS_NO_STDIO)
    {
      char folder[] = "/tmp/miras_files_XXXXXX", path[80], same[256];
      miras_result result = MIRAS_OK;
      FILE *to;
      assert_non_null(mkdtemp(folder));
      sprintf(path, "%s/x", folder);
      to = fopen(path, "wb");
      assert_true(to && fwrite(g.at, 1, g.n, to) == g.n && fclose(to) == 0);
      assert_null(miras_model_open_file(path, NULL, NULL, &result, same, sizeof same));
      assert_int_equal(result, wrong[i].size < MIRAS_PATTERN_SIZE ? MIRAS_ERR_DESC
                                                                  : MIRAS_ERR_FORMAT);
      assert_string_equal(same, why);
      assert_int_equal(remove(path) || rmdir(folder), 0);
    }
#endif
    free(g.at);
  }
  free(f.at);
  close_subject(&s);
}

/* As many layers and tensors of each as there can be: such a model comes back, in whatever order
 * its tensors stand. */
static void test_many_tensors(void **state) {
  char why[200] = "";
  subject s = { NULL, NULL, NULL, NULL };
  miras_model *other;
  miras_model_desc d;
  int views, i;
  bytes f;
  (void)state;
  tiny(&d, MIRAS_PRESET_TITANS);
  d.layers = MIRAS_MAX_LAYERS;
  d.width = 2;
  d.norm = MIRAS_NORM_LAYER;
  d.layer[0].memory.heads = 1;
  d.layer[0].memory.key_dim = 2;
  d.layer[0].memory.algorithm = MIRAS_ALGORITHM_GD;
  d.layer[0].memory.momentum_gate = MIRAS_GATE_CONSTANT;
  d.layer[0].memory.momentum = 0;
  d.layer[0].memory.token_rates = MIRAS_TOKEN_RATES_SOFTPLUS;
  d.layer[0].memory.decay_target = MIRAS_DECAY_TARGET_INITIAL;
  d.layer[0].mixer.gate_rank = 1;
  d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_FLOOR;
  d.layer[0].mixer.conv_bias = d.layer[0].mixer.projection_bias = d.layer[0].mixer.d_skip = 1;
  d.layer[0].mixer.out_norm = MIRAS_NORM_LAYER;
  d.layer[0].mixer.out_gate_rank = 1;
  d.layer[0].mlp.experts = 2;
  d.layer[0].mlp.shared_experts = 1;
  d.layer[0].mlp.hidden = 2;
  s.model = open_model(&d);
  miras_model_views(s.model, &views);
  print_message("%d tensors\n", views);
  assert_true(views > 37 * MIRAS_MAX_LAYERS);
  d.seed++;
  other = open_model(&d);
  for (i = 0; i < 2; i++) {
    f = i ? foreign(&s, REVERSED, NULL) : saved(&s, 0);
    memset(other->params, 0, other->param_count * 4);
    if (miras_load_from(other, f.at, f.n, why, sizeof why) != MIRAS_OK) fail_msg("%s", why);
    assert_memory_equal(other->params, s.model->params, s.model->param_count * 4);
    free(f.at);
  }
  miras_close(other);
#if defined(__unix__) && !defined(MIRAS_NO_STDIO)
  {
    char folder[] = "/tmp/miras_files_XXXXXX", path[80];
    miras_result result = MIRAS_OK;
    assert_non_null(mkdtemp(folder));
    sprintf(path, "%s/x", folder);
    assert_int_equal(miras_save(s.model, path), MIRAS_OK);
    other = miras_model_open_file(path, NULL, NULL, &result, why, sizeof why);
    if (!other) fail_msg("%s", why);
    assert_memory_equal(other->params, s.model->params, s.model->param_count * 4);
    miras_close(other);
    assert_int_equal(remove(path) || rmdir(folder), 0);
  }
#endif
  close_subject(&s);
}

/* The optimizer's step count: of a file with moments only, never so large that it could wrap. */
static void test_hostile_steps(void **state) {
  static const char *const counts[] = { "4611686018427387904", "18446744073709551615" };
  subject s = { NULL, NULL, NULL, NULL };
  size_t header, i;
  char old[40], now[60];
  bytes f, g;
  (void)state;
  with_trainer(&s, tiny_model(MIRAS_PRESET_DELTANET_MEMORY));
  train(s.trainer, 0);
  snprintf(old, sizeof old, "\"steps\":\"1\"");
  f = foreign(&s, MOMENTS, &header);
  for (i = 0; i < 2; i++) {
    snprintf(now, sizeof now, "\"steps\":\"%s\"", counts[i]);
    g = edited(f, header, old, now, strlen(now));
    assert_int_equal(load(&s, g.at, g.n), MIRAS_ERR_FORMAT);
    assert_int_equal(miras_trainer_steps(s.trainer), 1);
    free(g.at);
  }
  free(f.at);
  f = foreign(&s, 0, &header);
  snprintf(now, sizeof now, "\"vocab\":\"7\",\"steps\":\"%s\"", counts[1]);
  g = edited(f, header, "\"vocab\":\"7\"", now, strlen(now));
  assert_int_equal(load(&s, g.at, g.n), MIRAS_OK);
  assert_int_equal(miras_trainer_steps(s.trainer), 0);
  free(g.at);
  free(f.at);
  close_subject(&s);
}

/* Files hold the fields that are not 0, and bring them back. */
static void test_later_fields(void **state) {
  subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
  int i, k;
  (void)state;
  for (i = k = 0; i < MIRAS__FIELDS; i++) k += miras__fields[i].since == 3;
  assert_int_equal(LATER, k);   /* all that came with version 3 are here */
  for (i = -1; i < LATER; i++) {
    char words[80];
    miras_model_desc d;
    bytes f, plain;
    with_trainer(&a, tiny_model(MIRAS_PRESET_DELTANET_MEMORY));
    with_trainer(&b, tiny_model(MIRAS_PRESET_DELTANET_MEMORY));
    without_later(a.model);
    without_later(b.model);
    plain = saved(&b, 0);
    if (i >= 0) set_later(&a.model->desc, i, later[i].value);
    train(a.trainer, 0);
    f = saved(&a, 1);
    assert_true(holds(f, "\"version\":\"7\""));
    for (k = 0; k < LATER; k++) {
      snprintf(words, sizeof words, "\"m.%s\":\"", later[k].name);
      assert_int_equal(holds(f, words), k == i);
    }
    if (i >= 0) snprintf(words, sizeof words, "\"m.%s\":\"%s\"", later[i].name, later[i].text);
    assert_true(i < 0 || holds(f, words));
    memset(&d, 0x55, sizeof d);
    assert_int_equal(miras_model_desc_from(&d, f.at, f.n), MIRAS_OK);
    for (k = 0; k < LATER; k++) assert_int_equal(later_of(&d, k), later_of(&a.model->desc, k));
    /* another value is another model, in both directions; resets are not what it depends on */
    if (i >= 0 && strcmp(later[i].name, "memory.reset_every") != 0) {
      assert_int_equal(load(&b, f.at, f.n), MIRAS_ERR_MISMATCH);
      assert_int_equal(load(&a, plain.at, plain.n), MIRAS_ERR_MISMATCH);
    }
    if (i >= 0) set_later(&b.model->desc, i, later[i].value);
    assert_int_equal(load(&b, f.at, f.n), MIRAS_OK);
    assert_true(print_of(&a) == print_of(&b));
    free(f.at);
    free(plain.at);
    close_subject(&a);
    close_subject(&b);
  }
}

/* The same for states, whose files hold no fields but a fingerprint of them. */
static void test_later_states(void **state) {
  subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  int i, of_memory;
  (void)state;
  for (of_memory = 0; of_memory < 2; of_memory++) {
    for (i = 0; i < LATER; i++) {
      bytes f, g;
      if (of_memory && later[i].at >= sizeof(miras_memory_desc)) continue;
      if (of_memory) {
        a.memory = tiny_memory(MIRAS_PRESET_TITANS, 2);
        b.memory = tiny_memory(MIRAS_PRESET_TITANS, 2);
        feed(a.memory, 0, 3);
        memset(&d, 0, sizeof d);
        d.layer[0].memory = b.memory->plan.d;
        set_later(&d, i, later_of(&d, i) ? 0 : later[i].value);
        b.memory->plan.d = d.layer[0].memory;
      } else {
        a.model = tiny_model(MIRAS_PRESET_TITANS);
        b.model = tiny_model(MIRAS_PRESET_TITANS);
        a.session = miras_session_open(a.model, NULL, NULL, NULL, 0);
        b.session = miras_session_open(b.model, NULL, NULL, NULL, 0);
        assert_true(a.session && b.session);
        prefill(a.session, 0, 3);
        set_later(&b.model->desc, i, later_of(&b.model->desc, i) ? 0 : later[i].value);
      }
      f = saved(&a, 0);
      g = saved(&b, 0);
      assert_int_equal(load(&a, g.at, g.n), MIRAS_ERR_MISMATCH);
      assert_int_equal(load(&b, f.at, f.n), MIRAS_ERR_MISMATCH);
      assert_int_equal(load(&a, f.at, f.n), MIRAS_OK);
      assert_int_equal(load(&b, g.at, g.n), MIRAS_OK);
      free(f.at);
      free(g.at);
      close_subject(&a);
      close_subject(&b);
    }
  }
}

/* A file holds no field of a version after the one that it names. */
static void test_hostile_versions(void **state) {
  static const char now[] = "\"version\":\"7\"";
  static const char *const others[] = { "0", "1", "2", "3", "4", "5", "6", "12", "07", "7 ",
    "6 7", "", "77", "010", "10 ", "100" };
  subject s = { NULL, NULL, NULL, NULL };
  size_t header, i;
  char words[100];
  bytes f, g;
  (void)state;
  s.model = tiny_model(MIRAS_PRESET_DELTANET_MEMORY);
  f = foreign(&s, 0, &header);
  assert_int_equal(load(&s, f.at, f.n), MIRAS_OK);
  for (i = 0; i < sizeof others / sizeof *others; i++) {
    snprintf(words, sizeof words, "\"version\":\"%s\"", others[i]);
    g = edited(f, header, now, words, strlen(words));
    assert_int_equal(load(&s, g.at, g.n), MIRAS_ERR_FORMAT);
    free(g.at);
  }
  for (i = 0; i < LATER; i++) {   /* a field that is 0 may be named, once, with the kind's letter */
    const char *zero = !strcmp(later[i].text, "rms") ? "none" : !strcmp(later[i].text, "initial")
                       ? "zero" : !strcmp(later[i].text, "pair") ? "auto" : "0";
    int twice;
    for (twice = 0; twice < 3; twice++) {
      snprintf(words, sizeof words, "%s,\"%s%s\":\"%s\"", now, twice == 2 ? "" : "m.",
               later[i].name, zero);
      g = edited(f, header, now, words, strlen(words));
      if (twice == 1) {
        bytes two = edited(g, header + strlen(words) - strlen(now), now, words, strlen(words));
        free(g.at);
        g = two;
      }
      assert_int_equal(load(&s, g.at, g.n), twice ? MIRAS_ERR_FORMAT : MIRAS_OK);
      free(g.at);
    }
  }
  free(f.at);
  close_subject(&s);
}

/* Files that are too old are refused, and a sentence says who wrote them and who reads them. */
static void test_old_versions(void **state) {
  subject s = { NULL, NULL, NULL, NULL };
  size_t header;
  char why[256];
  bytes f, g;
  (void)state;
  s.model = tiny_model(MIRAS_PRESET_DELTANET_MEMORY);
  f = foreign(&s, 0, &header);
  g = edited(f, header, "\"version\":\"7\"", "\"version\":\"6\"", 13);
  assert_int_equal(miras_load_from(s.model, g.at, g.n, why, sizeof why), MIRAS_ERR_FORMAT);
  assert_string_equal(why, "the model's file is of version 6, which miras.h 0.3.0 in its "
                      "beginnings wrote; those from 7 on are read: a build of 0.3.0 loads this "
                      "one and saves it as such");
  *(strstr((char *)g.at + 8, "\"version\":\"") + 11) = '2';
  assert_int_equal(miras_load_from(s.model, g.at, g.n, why, sizeof why), MIRAS_ERR_FORMAT);
  assert_non_null(strstr(why, "is of version 2, which miras.h 0.2.0 wrote;"));
  free(f.at), free(g.at);
  s.session = miras_session_open(s.model, NULL, NULL, NULL, 0);
  f = saved(&s, 0);
  miras__set32(f.at + 8, 1);
  miras__set32(f.at + 60, miras__crc32c(0, f.at, 60));
  assert_int_equal(miras_load_from(s.session, f.at, f.n, why, sizeof why),
                   MIRAS_ERR_FORMAT);
  assert_string_equal(why, "the state's file is of version 1, which miras.h 0.2.0 and 0.3.0 in its "
                      "beginnings wrote; a build of 0.3.0 loads it and saves it as version 2");
  free(f.at);
  close_subject(&s);
}

/* What files of hybrids say, and what they do not. */
static void test_hybrid_fields(void **state) {
  static const char *const words[][2] = {   /* those of "mwm", then one that is not there */
    { "\"version\":\"7\",\"pattern\":\"mwm\",\"vocab\":\"7\"", "\"version\":\"6\"" },
    { "\"m.memory.architecture\":\"mlp\"", "\"memory." },
    { "\"w.type\":\"attention\"", "\"a." },
    { "\"w.attention.window\":\"3\"", "\"m.attention" },
    { "\"w.attention.heads\":\"2\"", "\"w.memory." },
    { "\"w.attention.head_dim\":\"4\"", "\"w.mixer." },
    { "\"w.mlp.hidden\":\"8\"", "\"w.mlp.experts" },
    { "\"m.memory.bias\":\"l2\"", "\"m.type\":" }, { "\"layers\":\"3\"", "\"g." },
    { "\"m.mixer.conv_size\":\"2\"", ":\"0\"" }
  };
  subject s = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  size_t i;
  bytes f, g;
  (void)state;
  hybrid(&d, 0);
  s.model = open_model(&d);
  f = saved(&s, 0);
  for (i = 0; i < sizeof words / sizeof *words; i++) {
    if (!holds(f, words[i][0])) fail_msg("no %s", words[i][0]);
    if (holds(f, words[i][1])) fail_msg("%s", words[i][1]);
  }
  free(f.at);
  /* in another order of keys, so that the kinds change places */
  f = foreign(&s, 0, NULL);
  g = changed(f, "\"w.type\":\"attention\",", "");
  free(f.at);
  f = changed(g, "\"version\":", "\"w.type\":\"attention\",\"version\":");
  assert_int_equal(miras_model_desc_from(&d, f.at, f.n), MIRAS_OK);
  assert_int_equal(d.layer[0].letter, 'w');
  assert_int_equal(d.layer[0].attention.window, 3);
  assert_int_equal(load(&s, f.at, f.n), MIRAS_OK);
  free(f.at);
  free(g.at);
  s.session = miras_session_open(s.model, NULL, NULL, NULL, 0);
  prefill(s.session, 0, 3);
  f = saved(&s, 0);
  close_subject(&s);
  s.model = open_model(&d);   /* and that neither models nor states mind */
  s.session = miras_session_open(s.model, NULL, NULL, NULL, 0);
  assert_int_equal(load(&s, f.at, f.n), MIRAS_OK);
  free(f.at);
  close_subject(&s);
}

/* A field that came later: files that need it say so, hold it for every kind, and only they may. */
static void test_without_mlp(void **state) {
  static const char *const words[] = {
    "\"pattern\":\"mwa\"", "\"m.mlp.none\":\"1\"", "\"a.mlp.none\":\"1\"",
    "\"w.mlp.hidden\":\"8\""
  };
  static const char *const edits[][3] = {   /* NULL: not what the format allows */
    { "\"version\":\"7\"", "\"version\":\"5\"", NULL },
    { "\"version\":\"7\"", "\"version\":\"12\"", NULL },
    { "\"m.mlp.none\":\"1\"", "\"mlp.none\":\"1\"", NULL },
    { "\"m.mlp.none\":\"1\"", "\"m.mlp.none\":\"-1\"", NULL },
    { "\"w.mlp.hidden\"", "\"w.mlp.none\":\"1\",\"w.mlp.hidden\"", "hidden is 8" },
    { "\"m.mlp.none\":\"1\"", "\"m.mlp.none\":\"2\"", "mlp.none is 2" },
    { "\"m.mlp.none\":\"1\"", "\"m.mlp.none\":\"1\",\"m.mlp.hidden\":\"8\"", "hidden is 8" }
  };
  subject s = { NULL, NULL, NULL, NULL }, other = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  char why[256];
  size_t i;
  bytes f, g;
  (void)state;
  hybrid(&d, 4);
  s.model = open_model(&d);
  d.layer[2].mlp.none = 0;
  other.model = open_model(&d);
  f = foreign(&s, 0, NULL);
  for (i = 0; i < sizeof words / sizeof *words; i++)
    if (!holds(f, words[i])) fail_msg("no %s", words[i]);
  assert_int_equal(load(&s, f.at, f.n), MIRAS_OK);
  assert_int_equal(load(&other, f.at, f.n), MIRAS_ERR_MISMATCH);
  assert_true(miras_model_desc_from(&d, f.at, f.n) == MIRAS_OK);
  assert_true(miras_model_desc_differs(&d, &other.model->desc, why, sizeof why));
  assert_string_equal(why, "a.mlp.hidden is 0 and not 24");
  for (i = 0; i < sizeof edits / sizeof *edits; i++) {
    const char *says = edits[i][2];
    g = changed(f, edits[i][0], edits[i][1]);
    assert_int_equal(load(&s, g.at, g.n), says ? MIRAS_ERR_MISMATCH : MIRAS_ERR_FORMAT);
    assert_int_equal(miras_model_desc_from(&d, g.at, g.n), says ? MIRAS_OK : MIRAS_ERR_FORMAT);
    if (says && (miras_model_size(&d, why, sizeof why) || !strstr(why, says)))
      fail_msg("%s is not in \"%s\"", says, why);
    free(g.at);
  }
  free(f.at);
  close_subject(&s);
  close_subject(&other);
  hybrid(&d, 0);   /* what has no use for it does not name it */
  s.model = open_model(&d);
  f = saved(&s, 0);
  assert_false(holds(f, "mlp.none"));
  free(f.at);
  close_subject(&s);
}

/* What files say of an MLP layer, and what they may not: fields of other types, or that it is
 * none. */
static void test_mlp_layers(void **state) {
  static const char *const edits[][3] = {   /* NULL: not what the format allows */
    { "\"f.type\":\"mlp\"", "\"f.type\":\"mlps\"", NULL },
    { "\"f.type\":\"mlp\"", "\"f.type\":\"attention\"", "" },
    { "\"f.type\":\"mlp\"", "\"f.type\":\"mlp\",\"f.attention.window\":\"0\"", NULL },
    { "\"f.type\":\"mlp\"", "\"f.type\":\"mlp\",\"f.mixer.conv_size\":\"4\"", NULL },
    { "\"f.type\":\"mlp\"", "\"f.type\":\"mlp\",\"f.memory.bias\":\"l2\"", NULL },
    { "\"f.type\":\"mlp\"", "\"f.type\":\"mlp\",\"f.mlp.none\":\"1\"", "hidden is 5" },
    { "\"f.mlp.hidden\":\"5\"", "\"f.mlp.hidden\":\"6\"", "" },
    { "\"f.mlp.hidden\":\"5\"", "\"f.mlp.hidden\":\"1048577\"", "hidden is 1048577" }
  };
  subject s = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  char why[256];
  size_t i;
  bytes f, g;
  (void)state;
  hybrid(&d, 6);
  s.model = open_model(&d);
  f = foreign(&s, 0, NULL);
  if (!holds(f, "\"version\":\"7\",\"pattern\":\"f*2\",\"vocab\"")) fail_msg("another version");
  if (!holds(f, "\"f.type\":\"mlp\",\"f.mlp.hidden\":\"5\"}"))
    fail_msg("other fields of the layer");
  for (i = 0; i < sizeof edits / sizeof *edits; i++) {
    const char *says = edits[i][2];
    g = changed(f, edits[i][0], edits[i][1]);
    assert_int_equal(load(&s, g.at, g.n), says ? MIRAS_ERR_MISMATCH : MIRAS_ERR_FORMAT);
    assert_int_equal(miras_model_desc_from(&d, g.at, g.n), says ? MIRAS_OK : MIRAS_ERR_FORMAT);
    if (says && *says && (miras_model_size(&d, why, sizeof why) || !strstr(why, says)))
      fail_msg("%s is not in \"%s\"", says, why);
    free(g.at);
  }
  free(f.at);
  close_subject(&s);
  hybrid(&d, 5);   /* with layers that have no MLP */
  s.model = open_model(&d);
  f = foreign(&s, 0, NULL);
  assert_false(holds(f, "\"f.mlp.none\""));
  g = changed(f, "\"f.type\"", "\"f.mlp.none\":\"1\",\"f.type\"");
  assert_int_equal(load(&s, f.at, f.n), MIRAS_OK);
  assert_int_equal(load(&s, g.at, g.n), MIRAS_ERR_MISMATCH);
  assert_int_equal(miras_model_desc_from(&d, g.at, g.n), MIRAS_OK);
  assert_int_equal(miras_model_size(&d, why, sizeof why), 0);
  if (!strstr(why, "hidden is 5, but it has a meaning only with mlp.none 0")) fail_msg("%s", why);
  free(f.at);
  free(g.at);
  close_subject(&s);
}

/* Another pattern, kind or field of any kind is another model, and a sentence says which it is. */
static void test_hybrid_mismatch(void **state) {
  static const char *const edits[][3] = {
    /* field, value, what the sentence says */
    {"pattern", "mmw", "pattern is \"mwm\" and not \"mmw\""},
    {"pattern", "mw*2", "pattern is \"mwm\" and not \"mw*2\""},
    {"pattern", "mam", "pattern is"},
    {"w.attention.window", "4", "w.attention.window is 3 and not 4"},
    {"w.attention.kv_heads", "1", "w.attention.kv_heads is 2 and not 1"},
    {"w.attention.head_dim", "2", "w.attention.head_dim is 4 and not 2"},
    {"w.attention.qk_norm", "1", "w.attention.qk_norm"},
    {"w.attention.rope.theta", "9000", "w.attention.rope.theta is 10000 and not 9000"},
    {"w.mlp.hidden", "9", "w.mlp.hidden"},
    {"m.mlp.hidden", "9", "m.mlp.hidden is 8 and not 9"},
    {"m.memory.learning_rate", "0.5", "m.memory.learning_rate is"},
    {"m.mixer.conv_size", "1", "m.mixer.conv_size"},
    {"m.mixer.decay_horizon", "64", "m.mixer.decay_horizon"},
    {"vocab", "8", "vocab is 7 and not 8"},
    {"w.attention.heads", "1", "w.attention.heads is 2 and not 1"}};
  subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  bytes model, session;
  char why[200];
  size_t i, n;
  (void)state;
  hybrid(&d, 0);
  with_trainer(&a, open_model(&d));
  train(a.trainer, 0);
  model = saved(&a, 1);
  a.session = miras_session_open(a.model, NULL, NULL, NULL, 0);
  prefill(a.session, 0, 3);
  session = saved(&a, 0);
  for (i = 0; i < sizeof edits / sizeof *edits; i++) {
    hybrid(&d, 0);
    if (miras_model_desc_set(&d, edits[i][0], edits[i][1]) != MIRAS_OK) fail_msg("%s", edits[i][0]);
    with_trainer(&b, open_model(&d));
    others_are_refused(&b, &model, &session);
    assert_int_equal(miras_load_from(b.model, model.at, model.n, why, sizeof why),
                     MIRAS_ERR_MISMATCH);      /* which says the same from the other side */
    n = strcspn(edits[i][2], " ");
    if (strncmp(why, edits[i][2], n) || !strstr(why, " as in the file")) fail_msg("%s", why);
    assert_int_equal(miras_model_desc_from(&d, model.at, model.n), MIRAS_OK);
    assert_int_equal(miras_model_desc_differs(&d, &b.model->desc, why, sizeof why), 1);
    if (!strstr(why, edits[i][2])) fail_msg("%s is not in \"%s\"", edits[i][2], why);
    close_subject(&b);
  }
  /* a file of one kind, and kinds that the pattern does not have */
  b.model = tiny_model(MIRAS_PRESET_TITANS);
  assert_int_equal(load(&b, model.at, model.n), MIRAS_ERR_MISMATCH);
  free(session.at);
  session = saved(&b, 0);
  miras_close(a.session);
  a.session = NULL;
  assert_int_equal(load(&a, session.at, session.n), MIRAS_ERR_MISMATCH);
  close_subject(&b);
  hybrid(&d, 0);
  d.layer[2].attention.window = 5;
  d.layer[3].memory.learning_rate = 0.5f;
  with_trainer(&b, open_model(&d));
  assert_int_equal(load(&b, model.at, model.n), MIRAS_OK);
  assert_true(print_of(&a) == print_of(&b));
  free(model.at);
  free(session.at);
  close_subject(&a);
  close_subject(&b);
}

static void test_hostile_lengths(void **state) {
  static const uint64_t lengths[] = { 0, 1, 2, 100000000, 100000001, UINT64_C(1) << 31,
    UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX - 8, UINT64_MAX - 7, UINT64_MAX };
  subject s = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  uint64_t before;
  size_t header, i, n;
  char *blanks;
  bytes b;
  (void)state;
  s.model = tiny_model(MIRAS_PRESET_DELTANET_MEMORY);
  b = saved(&s, 0);
  before = print_of(&s);
  for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    miras__set64(b.at, lengths[i]);
    assert_int_equal(load(&s, b.at, b.n), MIRAS_ERR_FORMAT);
    assert_int_equal(miras_model_desc_from(&d, b.at, b.n), MIRAS_ERR_FORMAT);
  }
  for (n = b.n - 9; n <= b.n + 9; n++) {
    miras__set64(b.at, n - 8);
    if (n > b.n) assert_int_equal(load(&s, b.at, b.n), MIRAS_ERR_FORMAT);
  }
  free(b.at);
  /* files that really have headers up to the cap and one above */
  b = foreign(&s, 0, &header);
  blanks = (char *)malloc(MIRAS__MAX_HEADER);
  assert_non_null(blanks);
  memset(blanks, ' ', MIRAS__MAX_HEADER);
  for (i = 0; i < 2; i++) {
    bytes big = edited(b, header, "", blanks, MIRAS__MAX_HEADER - header + i);
    assert_int_equal(load(&s, big.at, big.n), i ? MIRAS_ERR_FORMAT : MIRAS_OK);
    free(big.at);
  }
  free(blanks);
  assert_true(print_of(&s) == before);
  free(b.at);
  close_subject(&s);
}

/* ---- paths ---- */

#if defined(__unix__) && !defined(MIRAS_NO_STDIO)

/* How many names a folder holds. */
static int names_in(const char *folder) {
  DIR *open = opendir(folder);
  struct dirent *entry;
  int n = 0;
  assert_non_null(open);
  while ((entry = readdir(open)) != NULL)
    n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
  closedir(open);
  return n;
}

static void write_file(const char *path, bytes b) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(b.at, 1, b.n, f), b.n);
  fclose(f);
}

/* The largest block that looking into a file of n bytes may ask for: the file, or the draft of the
 * model that the file describes. */
static size_t most_for(size_t n) {
  return n + 64 > sizeof(miras__draft) ? n + 64 : sizeof(miras__draft);
}

/* A small file that describes a large model is refused before anything large is asked for. */
static void test_hostile_sizes(void **state) {
  static const char *const edits[][2] = {
    { "\"vocab\":\"7\"", "\"vocab\":\"16777216\"" },
    { "\"width\":\"8\"", "\"width\":\"65536\"" },
    { "\"m.mlp.hidden\":\"8\"", "\"m.mlp.hidden\":\"1048576\"" },
    { "\"layers\":\"1\"", "\"layers\":\"256\"" }
  };
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject s = { NULL, NULL, NULL, NULL };
  miras_result result;
  size_t header, i;
  bytes f, g;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x.safetensors", folder);
  s.model = tiny_model(MIRAS_PRESET_DELTANET_MEMORY);
  f = foreign(&s, 0, &header);
  for (i = 0; i < sizeof edits / sizeof *edits; i++) {
    g = edited(f, header, edits[i][0], edits[i][1], strlen(edits[i][1]));
    write_file(path, g);
    test_largest = 0;
    assert_null(miras_model_open_file(path, NULL, NULL, &result, NULL, 0));
    assert_int_equal(result, MIRAS_ERR_FORMAT);
    assert_true(test_largest <= most_for(g.n));
    free(g.at);
  }
  /* a 0 that stands for a default: nothing that the library writes */
  g = edited(f, header, "\"m.memory.chunk\":\"1\"", "\"m.memory.chunk\":\"0\"", 20);
  write_file(path, g);
  assert_null(miras_model_open_file(path, NULL, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_FORMAT);
  free(g.at);
  write_file(path, f);
  close_subject(&s);
  s.model = miras_model_open_file(path, NULL, NULL, &result, NULL, 0);
  assert_int_equal(result, MIRAS_OK);
  remove(path);
  rmdir(folder);
  free(f.at);
  close_subject(&s);
}

/* Patterns and kinds that cannot be: nothing is written and nothing large allocated. What is whole
 * but no model is refused with the sentence of miras_model_size. */
static void test_hostile_hybrids(void **state) {
#define LONG "mwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww" \
    "wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwm"
#define WINDOW "\"w.attention.window\":\"3\""
  static const char *const edits[][3] = {
    /* what, by what, the sentence; NULL: not even whole */
    {"\"mwm\"", "\"mxm\"", NULL}, {"\"mwm\"", "\"mwx\"", "pattern"},
    {"\"mwm\"", "\"mwm*9999\"", "pattern"}, {"\"mwm\"", "\"mw(m\"", "pattern"},
    {"\"mwm\"", "\"(((mw*9)*9)*9)*9\"", "pattern"}, {"\"mwm\"", "\"mw m\"", "pattern"},
    {"\"mwm\"", "\"" LONG "\"", NULL}, {"\"mwm\"", "\"\"", NULL}, {"\"mwm\"", "\"m*3\"", NULL},
    {"\"mwm\"", "\"mwmw\"", "layers is 3"}, {"\"mwm\"", "\"mw\\u0000m\"", NULL},
    {"\"pattern\":\"mwm\",", "", NULL}, {"\"pattern\":", "\"w.pattern\":", NULL},
    {"\"pattern\":\"mwm\"", "\"pattern\":\"mwm\",\"pattern\":\"mwm\"", NULL},
    {WINDOW, "\"w.attention.window\":\"1048577\"", "window is 1048577"},
    {WINDOW, "\"w.attention.window\":\"2147483648\"", NULL},
    {WINDOW, "\"w.attention.window\":\"-3\"", NULL},
    {WINDOW, "\"attention.window\":\"3\"", NULL},
    {WINDOW, WINDOW "," WINDOW, NULL},
    {WINDOW, WINDOW ",\"m.attention.window\":\"0\"", NULL},
    {WINDOW, WINDOW ",\"w.mixer.conv_size\":\"0\"", NULL},
    {WINDOW, WINDOW ",\"x.attention.window\":\"3\"", NULL},
    {"\"w.type\":\"attention\"", "\"w.type\":\"memory\"", NULL},
    {"\"w.type\":\"attention\"", "\"w.type\":\"transformer\"", NULL},
    {"\"w.type\":\"attention\",", "", NULL},
    {"\"w.attention.heads\":\"2\"", "\"w.attention.heads\":\"65537\"", "heads is 65537"},
    {"\"w.attention.kv_heads\":\"2\"", "\"w.attention.kv_heads\":\"3\"", "kv_heads is 3"},
    {"\"w.attention.head_dim\":\"4\"", "\"w.attention.head_dim\":\"5\"", "head_dim is 5"},
    {"\"w.attention.rope.theta\":\"10000\"", "\"w.attention.rope.theta\":\"0.5\"",
     "rope.theta is 0.5"},
    {"\"w.attention.rope.theta\":\"10000\"", "\"w.attention.rope.theta\":\"nan\"", NULL},
    {"\"w.type\"", "\"w.attention.qk_norm\":\"3\",\"w.type\"", "qk_norm is 3"},
    {"\"m.memory.heads\":\"2\"", "\"m.memory.heads\":\"9999999\"", "heads is 9999999"},
    {"\"layers\":\"3\"", "\"layers\":\"4\"", "layers is 4"}};
#undef LONG
  char folder[] = "/tmp/miras_files_XXXXXX", path[80], why[256];
  subject s = { NULL, NULL, NULL, NULL };
  miras_model_desc d;
  miras_result result;
  size_t i;
  uint64_t before;
  bytes f, g;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x.safetensors", folder);
  hybrid(&d, 0);
  s.model = open_model(&d);
  f = foreign(&s, 0, NULL);
  before = print_of(&s);
  for (i = 0; i < sizeof edits / sizeof *edits; i++) {
    const char *says = edits[i][2];
    g = changed(f, edits[i][0], edits[i][1]);
    write_file(path, g);
    test_largest = 0;
    assert_null(miras_model_open_file(path, NULL, NULL, &result, NULL, 0));
    if (result != (says ? MIRAS_ERR_DESC : MIRAS_ERR_FORMAT))
      fail_msg("%s as %s: result %d", edits[i][0], edits[i][1], (int)result);
    assert_true(test_largest <= most_for(g.n));
    result = load(&s, g.at, g.n);
    assert_true(result == (says ? MIRAS_ERR_MISMATCH : MIRAS_ERR_FORMAT));
    assert_true(print_of(&s) == before);
    result = miras_model_desc_from(&d, g.at, g.n);
    assert_int_equal(result, says ? MIRAS_OK : MIRAS_ERR_FORMAT);
    if (says) {
      assert_int_equal(miras_model_size(&d, why, sizeof why), 0);
      if (!strstr(why, says)) fail_msg("%s is not in \"%s\"", says, why);
    }
    free(g.at);
  }
  /* nine kinds; a window that is too large for the caller's limit; what must stay allowed */
  g = changed(f, WINDOW, "\"w.attention.window\":\"3\","
              "\"a.mlp.hidden\":\"1\",\"b.mlp.hidden\":\"1\",\"c.mlp.hidden\":\"1\","
              "\"d.mlp.hidden\":\"1\",\"e.mlp.hidden\":\"1\",\"f.mlp.hidden\":\"1\","
              "\"g.mlp.hidden\":\"1\"");
  assert_int_equal(load(&s, g.at, g.n), MIRAS_ERR_FORMAT);
  free(g.at);
  g = changed(f, WINDOW, "\"w.attention.window\":\"1048576\"");
  write_file(path, g);
  memset(&d, 0, sizeof d);
  d.limit = 1 << 20;
  assert_null(miras_model_open_file(path, &d, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_SIZE);
  free(g.at);
  g = changed(f, WINDOW,
              "\"w.attention.window\":\"3\",\"w.colour\":\"red\","
              "\"x.y\":\"z\",\"1.attention.window\":\"9\"");
  write_file(path, g);
  free(g.at);
  close_subject(&s);
  /* opened from the file alone, with resets for every kind that has a memory */
  d.layer[0].memory.reset_every = 32;
  s.model = miras_model_open_file(path, &d, NULL, &result, NULL, 0);
  assert_int_equal(result, MIRAS_OK);
  assert_int_equal(s.model->desc.layer[0].memory.reset_every, 32);
  assert_int_equal(s.model->desc.layer[1].memory.reset_every, 0);
  assert_int_equal(s.model->desc.layer[1].attention.window, 3);
  remove(path);
  rmdir(folder);
  free(f.at);
  close_subject(&s);
}

/* The descriptor of a file is read of its header alone. */
static void test_descriptions(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject s = { NULL, NULL, NULL, NULL };
  miras_model_desc d, found, other;
  bytes b;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x.safetensors", folder);
  tiny(&d, MIRAS_PRESET_YAAD);
  d.vocab = 40000;                   /* a payload of more than a megabyte */
  s.model = open_model(&d);
  b = saved(&s, 0);
  write_file(path, b);
  memset(&found, 0, sizeof found);
  memset(&other, 0, sizeof other);
  found.limit = other.limit = 5;
  test_largest = 0;
  assert_int_equal(miras_model_desc_load(&found, path, NULL), MIRAS_OK);
  assert_true(test_largest > 0 && test_largest < 8000 && b.n > 1 << 20);
  assert_int_equal(miras_model_desc_from(&other, b.at, b.n), MIRAS_OK);
  assert_memory_equal(&found, &other, sizeof found);
  /* the rest is not looked at, but it must be there */
  b.at[b.n - 1] ^= 1;
  write_file(path, b);
  assert_int_equal(miras_model_desc_load(&found, path, NULL), MIRAS_OK);
  assert_int_equal(miras_model_desc_from(&found, b.at, b.n), MIRAS_ERR_FORMAT);
  b.n--;
  write_file(path, b);
  assert_int_equal(miras_model_desc_load(&found, path, NULL), MIRAS_ERR_FORMAT);
  b.n = 20;
  write_file(path, b);
  assert_int_equal(miras_model_desc_load(&found, path, NULL), MIRAS_ERR_FORMAT);
  assert_memory_equal(&found, &other, sizeof found);
  assert_int_equal(miras_model_desc_load(&found, folder, NULL), MIRAS_ERR_IO);
  assert_int_equal(miras_model_desc_load(&found, NULL, NULL), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_model_desc_load(NULL, path, NULL), MIRAS_ERR_ARGUMENT);
  remove(path);
  rmdir(folder);
  free(b.at);
  close_subject(&s);
}

/* A small file that describes a small model can still ask for large sessions: the caller's limit is
 * checked before any of it is allocated. */
static void test_limits(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject s = { NULL, NULL, NULL, NULL };
  miras_trainer_desc room = { BATCH, LENGTH, 0, 0, 0, NULL, NULL };
  miras_model_desc d, given;
  miras_result result;
  size_t need, session;
  int i;
  bytes b;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x.safetensors", folder);
  tiny(&d, MIRAS_PRESET_SOFTMAX_ATTENTION);
  d.layer[0].memory.window = 1 << 20;
  s.model = open_model(&d);
  assert_int_equal(miras_save(s.model, path), MIRAS_OK);
  b = saved(&s, 0);
  assert_true(b.n < 8000);
  free(b.at);
  need = miras_model_size(&d, NULL, 0);
  session = miras_session_size(s.model, NULL, NULL, 0);
  assert_true(need < 20000 && session > 60000000);
  close_subject(&s);
  memset(&given, 0, sizeof given);
  for (i = 0; i < 4; i++) {   /* none, enough, and one byte too few */
    given.limit = i == 1 ? session : i == 2 ? session - 1 : i == 3 ? 1 : 0;
    test_largest = 0;
    s.model = miras_model_open_file(path, i ? &given : NULL, NULL, &result, NULL, 0);
    assert_int_equal(result, i < 2 ? MIRAS_OK : MIRAS_ERR_SIZE);
    assert_true((s.model == NULL) == (i >= 2) && test_largest < 20000);
    if (i == 1) {
      assert_int_equal(miras_model_desc_of(s.model)->limit, session);
      s.session = miras_session_open(s.model, NULL, NULL, NULL, 0);
      assert_non_null(s.session);
      prefill(s.session, 0, 3);
    }
    close_subject(&s);
  }
  /* a file that is longer than any model within the limit is not even read */
  tiny(&d, MIRAS_PRESET_DELTANET_MEMORY);
  s.model = open_model(&d);
  assert_int_equal(miras_save(s.model, path), MIRAS_OK);
  close_subject(&s);
  given.limit = 1 << 20;
  assert_int_equal(truncate(path, 8 + (off_t)MIRAS__MAX_HEADER + 3 * (1 << 20) + 1), 0);
  test_largest = 0;
  assert_null(miras_model_open_file(path, &given, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_SIZE);
  assert_int_equal(test_largest, 0);
  s.model = open_model(&d);
  assert_int_equal(miras_load(s.model, path, NULL, 0), MIRAS_ERR_FORMAT);
  close_subject(&s);
  d.limit = 1 << 20;
  s.model = open_model(&d);
  test_largest = 0;
  assert_int_equal(miras_load(s.model, path, NULL, 0), MIRAS_ERR_SIZE);
  assert_int_equal(test_largest, 0);
  room.limit = 1 << 20;
  s.trainer = miras_trainer_open(s.model, &room, NULL, NULL, 0);
  assert_non_null(s.trainer);
  test_largest = 0;
  assert_int_equal(miras_load(s.trainer, path, NULL, 0), MIRAS_ERR_SIZE);
  assert_int_equal(test_largest, 0);
  close_subject(&s);
  assert_int_equal(remove(path), 0);
  assert_int_equal(rmdir(folder), 0);
}

static float square(void *user, float *error, const float *r, const float *value, float threshold,
                    int dv) {
  float loss = 0;
  int i;
  (void)user;
  (void)value;
  (void)threshold;
  for (i = 0; i < dv; i++) loss += 0.5f * r[i] * r[i], error[i] = r[i];
  return loss;
}

static float square_adjoint(void *user, float *dr, float *dvalue, const float *be, const float *r,
                            const float *value, float threshold, int dv) {
  (void)user;
  (void)dvalue;
  (void)r;
  (void)value;
  (void)threshold;
  memcpy(dr, be, (size_t)dv * sizeof *dr);
  return 0;
}

/* Callbacks are not in a file: the caller brings them when the model is opened again. */
static void test_custom_path(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
  miras_custom custom;
  miras_model_desc d, given;
  miras_result result;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x.safetensors", folder);
  memset(&custom, 0, sizeof custom);
  custom.bias = square;
  custom.bias_adjoint = square_adjoint;
  tiny(&d, MIRAS_PRESET_TTT_MLP_MEMORY);
  d.layer[0].memory.bias = MIRAS_BIAS_CUSTOM;
  d.layer[0].memory.custom = &custom;
  with_trainer(&a, open_model(&d));
  train(a.trainer, 0);
  assert_int_equal(miras_save(a.trainer, path), MIRAS_OK);
  assert_null(miras_model_open_file(path, NULL, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_DESC);
  memset(&given, 0, sizeof given);
  given.layer[0].memory.custom = &custom;
  with_trainer(&b, miras_model_open_file(path, &given, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_OK);
  assert_int_equal(miras_load(b.trainer, path, NULL, 0), MIRAS_OK);
  train(a.trainer, 1);
  train(b.trainer, 1);
  assert_true(print_of(&a) == print_of(&b));
  close_subject(&b);
  close_subject(&a);
  /* a model without custom choices does not mind callbacks that wait */
  with_trainer(&a, tiny_model(MIRAS_PRESET_DELTANET_MEMORY));
  assert_int_equal(miras_save(a.model, path), MIRAS_OK);
  b.model = miras_model_open_file(path, &given, NULL, &result, NULL, 0);
  assert_int_equal(result, MIRAS_OK);
  close_subject(&b);
  close_subject(&a);
  remove(path);
  rmdir(folder);
}

/* The file is the very bytes of the form in memory, and nothing is left beside it. b ends empty. */
static void paths_of_models(subject *a, subject *b, const char *folder, const char *path) {
  miras_result result;
  miras_model *m;
  FILE *f;
  assert_int_equal(miras_save(a->model, path), MIRAS_OK);
  assert_int_equal(miras_save(a->trainer, path), MIRAS_OK);
  assert_int_equal(names_in(folder), 1);
  {
    bytes want = saved(a, 1);
    unsigned char *got = (unsigned char *)malloc(want.n + 1);
    f = fopen(path, "rb");
    assert_true(f && got);
    assert_int_equal(fread(got, 1, want.n + 1, f), want.n);
    assert_memory_equal(got, want.at, want.n);
    fclose(f);
    free(got);
    free(want.at);
  }
  m = miras_model_open_file(path, NULL, NULL, &result, NULL, 0);
  assert_non_null(m);
  assert_int_equal(result, MIRAS_OK);
  with_trainer(b, m);
  assert_int_equal(miras_load(b->trainer, path, NULL, 0), MIRAS_OK);
  assert_true(print_of(a) == print_of(b));
  train(a->trainer, 1);
  train(b->trainer, 1);
  assert_true(print_of(a) == print_of(b));
  assert_int_equal(miras_load(a->trainer, path, NULL, 0), MIRAS_OK);
  assert_int_equal(miras_trainer_steps(a->trainer), 1);
  close_subject(b);
  b->model = miras_model_open_file(path, NULL, NULL, NULL, NULL, 0);   /* for inference */
  assert_non_null(b->model);
  assert_memory_equal(a->model->params, b->model->params, a->model->param_count * 4);
  close_subject(b);
}

static void paths_of_states(subject *a, subject *b, const char *path) {
  a->memory = tiny_memory(MIRAS_PRESET_MONETA, 2);
  b->memory = tiny_memory(MIRAS_PRESET_MONETA, 2);
  feed(a->memory, 0, 4);
  assert_int_equal(miras_save(a->memory, path), MIRAS_OK);
  assert_int_equal(miras_load(b->memory, path, NULL, 0), MIRAS_OK);
  assert_true(feed(a->memory, 4, 6) == feed(b->memory, 4, 6));
  a->session = miras_session_open(a->model, NULL, NULL, NULL, 0);
  b->session = miras_session_open(a->model, NULL, NULL, NULL, 0);
  prefill(a->session, 0, 3);
  assert_int_equal(miras_save(a->session, path), MIRAS_OK);
  assert_int_equal(miras_load(b->session, path, NULL, 0), MIRAS_OK);
  assert_true(prefill(a->session, 3, 6) == prefill(b->session, 3, 6));
}

/* The wrong kind of file, an empty one, none, a folder. */
static void paths_of_others(subject *a, const char *folder, const char *path, const char *nested) {
  const uint64_t before = print_of(a);
  miras_result result;
  FILE *f;
  assert_int_equal(miras_load(a->memory, path, NULL, 0), MIRAS_ERR_MISMATCH);
  assert_int_equal(miras_load(a->model, path, NULL, 0), MIRAS_ERR_FORMAT);
  assert_int_equal(miras_load(a->trainer, path, NULL, 0), MIRAS_ERR_FORMAT);
  assert_null(miras_model_open_file(path, NULL, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_FORMAT);
  f = fopen(path, "wb");
  assert_non_null(f);
  fclose(f);
  assert_int_equal(miras_load(a->model, path, NULL, 0), MIRAS_ERR_FORMAT);
  assert_int_equal(miras_load(a->memory, path, NULL, 0), MIRAS_ERR_FORMAT);
  assert_int_equal(miras_load(a->session, path, NULL, 0), MIRAS_ERR_FORMAT);
  assert_int_equal(miras_load(a->model, nested, NULL, 0), MIRAS_ERR_IO);
  assert_int_equal(miras_load(a->trainer, nested, NULL, 0), MIRAS_ERR_IO);
  assert_int_equal(miras_load(a->memory, nested, NULL, 0), MIRAS_ERR_IO);
  assert_int_equal(miras_load(a->session, nested, NULL, 0), MIRAS_ERR_IO);
  assert_null(miras_model_open_file(nested, NULL, NULL, &result, NULL, 0));
  assert_int_equal(result, MIRAS_ERR_IO);
  assert_int_equal(miras_load(a->model, folder, NULL, 0), MIRAS_ERR_IO);
  assert_true(print_of(a) == before);
}

/* A descriptor that cannot be, and one that does not fit its tensors. */
static void paths_of_misfits(subject *a, const char *path) {
  miras_result result;
  FILE *f;
  int k;
  for (k = 0; k < 2; k++) {
    long live = test_live;
    size_t header;
    bytes g, h = foreign(a, 0, &header);
    g = k ? edited(h, header, "\"m.mlp.hidden\":\"8\"", "\"m.mlp.hidden\":\"9\"", 18)
          : edited(h, header, "\"m.mlp.hidden\":\"8\"",
                   "\"m.mlp.hidden\":\"2000000000\"", 27);
    f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(g.at, 1, g.n, f), g.n);
    assert_int_equal(fclose(f), 0);
    assert_null(miras_model_open_file(path, NULL, NULL, &result, NULL, 0));
    assert_int_equal(result, k ? MIRAS_ERR_FORMAT : MIRAS_ERR_DESC);
    assert_int_equal(test_live, live);
    free(g.at);
    free(h.at);
  }
}

/* Every allocation fails in turn: a clean error, nothing lost, nothing changed. */
static void paths_without_memory(subject *a, const char *path) {
  miras_model *m = NULL;
  miras_result result;
  uint64_t before;
  long k;
  assert_int_equal(miras_save(a->trainer, path), MIRAS_OK);
  before = print_of(a);
  for (k = 1; k < 100; k++) {
    long live = test_live;
    test_calls = 0;
    test_fail_at = k;
    m = miras_model_open_file(path, NULL, NULL, &result, NULL, 0);
    test_fail_at = 0;
    if (m) break;
    assert_int_equal(result, MIRAS_ERR_ALLOC);
    assert_int_equal(test_live, live);
  }
  assert_true(m && k > 1);
  miras_close(m);
  for (k = 0; k < 8; k++) {
    long live = test_live;
    assert_int_equal(k == 1 ? miras_save(a->memory, path)
                     : k == 2 ? miras_save(a->session, path)
                     : miras_save(a->trainer, path), MIRAS_OK);
    test_calls = 0;
    test_fail_at = 1;
    result = k == 0 ? miras_load(a->model, path, NULL, 0)
           : k == 1 ? miras_load(a->memory, path, NULL, 0)
           : k == 2 ? miras_load(a->session, path, NULL, 0)
           : k == 3 ? miras_save(a->model, path)
           : k == 4 ? miras_save(a->memory, path)
           : k == 5 ? miras_load(a->trainer, path, NULL, 0)
           : k == 6 ? miras_save(a->trainer, path)
           : miras_save(a->session, path);
    test_fail_at = 0;
    assert_int_equal(result, MIRAS_ERR_ALLOC);
    assert_int_equal(test_live, live);
  }
  assert_true(print_of(a) == before);
}

static void test_paths(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80], nested[90];
  subject a = { NULL, NULL, NULL, NULL }, b = { NULL, NULL, NULL, NULL };
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x.safetensors", folder);
  sprintf(nested, "%s/missing/x", folder);
  with_trainer(&a, tiny_model(MIRAS_PRESET_MONETA));
  train(a.trainer, 0);
  paths_of_models(&a, &b, folder, path);
  paths_of_states(&a, &b, path);
  paths_of_others(&a, folder, path, nested);
  paths_of_misfits(&a, path);
  /* a folder that is not there; a folder where the file should go */
  assert_int_equal(miras_save(a.model, nested), MIRAS_ERR_IO);
  assert_int_equal(miras_save(a.trainer, nested), MIRAS_ERR_IO);
  assert_int_equal(miras_save(a.memory, nested), MIRAS_ERR_IO);
  assert_int_equal(miras_save(a.session, nested), MIRAS_ERR_IO);
  sprintf(nested, "%s/folder", folder);
  assert_int_equal(mkdir(nested, 0700), 0);
  assert_int_equal(miras_save(a.model, nested), MIRAS_ERR_IO);
  assert_int_equal(names_in(folder), 2);
  assert_int_equal(rmdir(nested), 0);

  paths_without_memory(&a, path);
  assert_int_equal(remove(path), 0);
  assert_int_equal(rmdir(folder), 0);   /* which also shows that nothing was left in it */
  miras_close(b.session);
  miras_close(b.memory);
  close_subject(&a);
}

/* A disk that fills up after any number of bytes: the old file stays whole, no part is left. */
static void test_disk_full(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject a = { NULL, NULL, NULL, NULL };
  struct rlimit was, now;
  size_t limit, step;
  uint64_t before;
  bytes old;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x", folder);
  with_trainer(&a, tiny_model(MIRAS_PRESET_YAAD));
  assert_int_equal(miras_save(a.trainer, path), MIRAS_OK);
  old = saved(&a, 1);
  before = print_of(&a);
  train(a.trainer, 0);
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
  step = old.n / 97 + 1;
  for (limit = (old.n - 1) % step; limit < old.n; limit += step) {   /* the last: one byte short */
    miras_result result;
    now = was;
    now.rlim_cur = (rlim_t)limit;
    fflush(stdout);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
    result = miras_save(a.trainer, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(result, MIRAS_ERR_IO);
    assert_int_equal(names_in(folder), 1);
  }
  assert_int_equal(miras_load(a.trainer, path, NULL, 0), MIRAS_OK);
  assert_true(print_of(&a) == before);
  assert_int_equal(remove(path), 0);
  assert_int_equal(rmdir(folder), 0);
  free(old.at);
  close_subject(&a);
}

/* Save n times in a process of its own. */
static pid_t writer(const miras_trainer *t, const char *path, int n) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child) return child;
  for (; n; n--)
    if (miras_save(t, path) != MIRAS_OK) _exit(1);
  _exit(0);
}

/* Several writers on one path: every save succeeds, every load meanwhile finds one of the models
 * whole, and nothing else is left. The processes begin as copies of each other, so that the names
 * which they choose for their parts are as alike as they can be. */
static void test_writers(void **state) {
  enum { WRITERS = 4 };
  static const miras_preset kinds[2] = { MIRAS_PRESET_YAAD, MIRAS_PRESET_DELTANET_MEMORY };
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject s[2];
  uint64_t print[2];
  pid_t child[WRITERS];
  int i, running, loads = 0, seen[2] = { 0, 0 };
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x", folder);
  memset(s, 0, sizeof s);
  for (i = 0; i < 2; i++) {
    with_trainer(&s[i], tiny_model(kinds[i]));
    train(s[i].trainer, i);
    print[i] = print_of(&s[i]);
  }
  assert_int_equal(miras_save(s[0].trainer, path), MIRAS_OK);
  fflush(stdout);
  for (i = 0; i < WRITERS; i++) child[i] = writer(s[i % 2].trainer, path, 300);
  for (running = WRITERS; running;) {
    subject back = { NULL, NULL, NULL, NULL };
    miras_result result;
    uint64_t found;
    back.model = miras_model_open_file(path, NULL, NULL, &result, NULL, 0);
    if (result != MIRAS_OK) fail_msg("load %d: %s", loads, miras_result_text(result));
    back.trainer = open_trainer(back.model, 0);
    result = miras_load(back.trainer, path, NULL, 0);
    if (result == MIRAS_OK) {
      found = print_of(&back);
      assert_true(found == print[0] || found == print[1]);
      seen[found == print[1]]++;
      loads++;
    } else if (result != MIRAS_ERR_MISMATCH) {   /* that of the other model, come in between */
      fail_msg("load %d: %s", loads, miras_result_text(result));
    }
    close_subject(&back);
    for (i = 0; i < WRITERS; i++) {
      int status;
      if (!child[i] || waitpid(child[i], &status, WNOHANG) != child[i]) continue;
      assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      child[i] = 0;
      running--;
    }
  }
  print_message("             %d loads, %d of one model and %d of the other\n", loads, seen[0],
                seen[1]);
  assert_int_equal(names_in(folder), 1);
  assert_int_equal(remove(path), 0);
  assert_int_equal(rmdir(folder), 0);
  close_subject(&s[0]);
  close_subject(&s[1]);
}

/* Everything in a folder goes, and the folder. */
static void remove_all(const char *folder) {
  DIR *open = opendir(folder);
  struct dirent *entry;
  assert_non_null(open);
  while ((entry = readdir(open)) != NULL) {
    char name[600];
    snprintf(name, sizeof name, "%s/%s", folder, entry->d_name);
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
      assert_int_equal(remove(name), 0);
  }
  closedir(open);
  assert_int_equal(rmdir(folder), 0);
}

/* A save writes to no file but its own: not through links that wait at the names which it chooses,
 * however many. */
static void test_planted(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80], victim[80], word[8] = "";
  subject a = { NULL, NULL, NULL, NULL };
  bytes precious;
  struct stat st;
  FILE *f;
  int i;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x", folder);
  sprintf(victim, "%s/victim", folder);
  test_victim = victim;
  precious.at = (unsigned char *)"gold";
  precious.n = 4;
  write_file(victim, precious);
  a.memory = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  for (i = 0; i < 5; i++) {
    long planted = i == 4 ? LONG_MAX : i;
    test_plants = planted;
    assert_int_equal(miras_save(a.memory, path), i == 4 ? MIRAS_ERR_IO : MIRAS_OK);
    planted -= test_plants;
    test_plants = 0;
    assert_true(planted == i || (i == 4 && planted < 1000));
    f = fopen(victim, "rb");
    assert_true(f && fread(word, 1, 7, f) == 4);
    fclose(f);
    assert_string_equal(word, "gold");
    assert_true(lstat(path, &st) == 0 && S_ISREG(st.st_mode));
    assert_int_equal(miras_load(a.memory, path, NULL, 0), MIRAS_OK);
    assert_int_equal(names_in(folder), 2 + (i < 4 ? i * (i + 1) / 2 : 6 + planted));
  }
  close_subject(&a);
  remove_all(folder);
}

/* A link at the path stays, and what it leads to is replaced: by way of other links, from another
 * folder, and where nothing is yet. Links in a ring are refused. */
static void test_links(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80], inner[90], name[120], to[40];
  subject a = { NULL, NULL, NULL, NULL };
  struct stat st;
  int i;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(inner, "%s/inner", folder);
  assert_int_equal(mkdir(inner, 0700), 0);
  a.memory = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  sprintf(path, "%s/x", folder);
  assert_int_equal(symlink("inner/second", path), 0);
  sprintf(name, "%s/second", inner);
  sprintf(to, "../inner/./third");
  assert_int_equal(symlink(to, name), 0);
  for (i = 0; i < 2; i++) {                        /* a new file, then another in its place */
    assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
    assert_true(lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
    assert_true(lstat(name, &st) == 0 && S_ISLNK(st.st_mode));
    assert_int_equal(miras_load(a.memory, path, NULL, 0), MIRAS_OK);
    assert_int_equal(names_in(folder), 2);
    assert_int_equal(names_in(inner), 2);
  }
  sprintf(name, "%s/third", inner);
  assert_true(lstat(name, &st) == 0 && S_ISREG(st.st_mode));
  sprintf(path, "%s/whole", folder);                /* a link that says a whole path */
  assert_int_equal(symlink(name, path), 0);
  assert_int_equal(chmod(name, 0640), 0);
  assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
  assert_true(lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
  assert_true(lstat(name, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0640);
  sprintf(path, "%s/ring", folder);
  assert_int_equal(symlink("ring", path), 0);
  assert_int_equal(miras_save(a.memory, path), MIRAS_ERR_IO);
  assert_int_equal(miras_load(a.memory, path, NULL, 0), MIRAS_ERR_IO);
  assert_int_equal(names_in(folder), 4);
  close_subject(&a);
  remove_all(inner);
  remove_all(folder);
}

/* A new file has the mode of the old one, also while it is written; one that was not there has that
 * of the process; and as root the owner stays. */
static void test_modes(void **state) {
  static const mode_t modes[] = { 0600, 0644, 0640, 0664, 0666, 0400, 0755 };
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject a = { NULL, NULL, NULL, NULL };
  const mode_t mask = umask(022);
  struct stat st;
  size_t i;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x", folder);
  a.memory = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
  assert_true(stat(path, &st) == 0 && (st.st_mode & 07777) == 0644);
  for (i = 0; i < sizeof modes / sizeof *modes; i++) {
    assert_int_equal(chmod(path, modes[i]), 0);
    assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
    assert_true(stat(path, &st) == 0);
    if ((st.st_mode & 07777) != modes[i])
      fail_msg("mode %o became %o", (unsigned)modes[i], (unsigned)(st.st_mode & 07777));
    if (getuid() != 0) continue;
    assert_int_equal(chown(path, 12345, 23456), 0);
    assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
    assert_true(stat(path, &st) == 0 && st.st_uid == 12345 && st.st_gid == 23456);
    assert_int_equal(st.st_mode & 07777, modes[i]);
  }
  (void)umask(mask);
  close_subject(&a);
  remove_all(folder);
}

/* What is no regular file is neither replaced nor waited for, by no save and by no load. */
static void test_special_files(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject a = { NULL, NULL, NULL, NULL };
  miras_result result;
  struct stat st;
  int i;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x", folder);
  with_trainer(&a, tiny_model(MIRAS_PRESET_YAAD));
  a.memory = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  a.session = miras_session_open(a.model, NULL, NULL, NULL, 0);
  for (i = 0; i < 3; i++) {
    mode_t type;
    if (i == 0) assert_int_equal(mkfifo(path, 0600), 0);
    else if (i == 1) assert_int_equal(mkdir(path, 0700), 0);
#ifdef __linux__
    else if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) != 0) break;   /* of root alone */
#else
    else break;
#endif
    assert_int_equal(stat(path, &st), 0);
    type = st.st_mode & S_IFMT;
    assert_int_equal(miras_save(a.memory, path), MIRAS_ERR_IO);
    assert_int_equal(miras_save(a.session, path), MIRAS_ERR_IO);
    assert_int_equal(miras_save(a.model, path), MIRAS_ERR_IO);
    assert_int_equal(miras_save(a.trainer, path), MIRAS_ERR_IO);
    assert_int_equal(miras_load(a.memory, path, NULL, 0), MIRAS_ERR_IO);
    assert_int_equal(miras_load(a.session, path, NULL, 0), MIRAS_ERR_IO);
    assert_int_equal(miras_load(a.model, path, NULL, 0), MIRAS_ERR_IO);
    assert_int_equal(miras_load(a.trainer, path, NULL, 0), MIRAS_ERR_IO);
    assert_null(miras_model_open_file(path, NULL, NULL, &result, NULL, 0));
    assert_int_equal(result, MIRAS_ERR_IO);
    assert_int_equal(stat(path, &st), 0);
    assert_true((st.st_mode & S_IFMT) == type);
    assert_int_equal(names_in(folder), 1);
    assert_int_equal(remove(path), 0);
  }
  close_subject(&a);
  remove_all(folder);
}

/* Whatever can be a name can be saved to, and twice, and the new file's name begins alike and cuts
 * no character of UTF-8. */
static void test_long_names(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[300];
  subject a = { NULL, NULL, NULL, NULL };
  size_t at, n;
  (void)state;
  assert_non_null(mkdtemp(folder));
  at = (size_t)sprintf(path, "%s/", folder);
  a.memory = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  for (n = 1; n <= 256; n += n < 12 || n >= 185 ? 1 : 7) {
    memset(path + at, 'n', n);
    path[at + n] = 0;
    assert_int_equal(miras_save(a.memory, path), n < 256 ? MIRAS_OK : MIRAS_ERR_IO);
    if (n == 256) break;
    assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
    assert_int_equal(names_in(folder), 1);
    assert_int_equal(miras_load(a.memory, path, NULL, 0), MIRAS_OK);
    assert_int_equal(remove(path), 0);
  }
  for (n = 0; n < 255; n++) path[at + n] = "\xe2\x82\xac"[n % 3];   /* a sign of three bytes */
  path[at + 255] = 0;
  assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
  assert_int_equal(miras_load(a.memory, path, NULL, 0), MIRAS_OK);
  n = miras__stem(path, at + 255);
  assert_true(n <= at + 242 && n > at + 230 && (path[n] & 0xc0) != 0x80);
  close_subject(&a);
  remove_all(folder);
}

/* A file that cannot be right is refused by its head and its length: a gigabyte that a state or a
 * model does not have is neither allocated nor read. */
static void test_first_look(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject a = { NULL, NULL, NULL, NULL };
  miras_model *other = tiny_model(MIRAS_PRESET_DELTANET_MEMORY);
  miras_result result;
  int i;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x", folder);
  with_trainer(&a, tiny_model(MIRAS_PRESET_YAAD));
  a.memory = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  a.session = miras_session_open(a.model, NULL, NULL, NULL, 0);
  for (i = 0; i < 5; i++) {
    if (i == 0) assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
    if (i == 1) assert_int_equal(miras_save(a.session, path), MIRAS_OK);
    if (i == 2) assert_int_equal(miras_save(a.model, path), MIRAS_OK);
    if (i == 3) assert_int_equal(miras_save(other, path), MIRAS_OK);
    if (i == 4) assert_int_equal(remove(path), 0);
    if (i == 4) write_file(path, (bytes){ (unsigned char *)"?", 1 });
    assert_int_equal(truncate(path, (off_t)1 << 30), 0);   /* a hole of a gigabyte */
    test_largest = 0;
    assert_int_equal(miras_load(a.memory, path, NULL, 0), MIRAS_ERR_FORMAT);
    assert_int_equal(miras_load(a.session, path, NULL, 0), MIRAS_ERR_FORMAT);
    assert_int_equal(miras_load(a.model, path, NULL, 0), MIRAS_ERR_FORMAT);
    assert_int_equal(miras_load(a.trainer, path, NULL, 0), MIRAS_ERR_FORMAT);
    assert_null(miras_model_open_file(path, NULL, NULL, &result, NULL, 0));
    assert_int_equal(result, MIRAS_ERR_FORMAT);
    assert_null(miras_memory_open_file(path, NULL, NULL, &result, NULL, 0));
    assert_int_equal(result, MIRAS_ERR_FORMAT);
    assert_true(test_largest < 1 << 20);
  }
  /* a model of more than a megabyte loads by way of both looks, and of another descriptor not */
  {
    miras_model_desc d;
    miras_model *big, *back;
    tiny(&d, MIRAS_PRESET_DELTANET_MEMORY);
    d.vocab = 40000;
    big = open_model(&d);
    assert_int_equal(miras_save(big, path), MIRAS_OK);
    back = miras_model_open_file(path, NULL, NULL, &result, NULL, 0);
    assert_true(back && result == MIRAS_OK);
    assert_memory_equal(big->params, back->params, big->param_count * 4);
    assert_int_equal(miras_load(back, path, NULL, 0), MIRAS_OK);
    test_largest = 0;
    assert_int_equal(miras_load(other, path, NULL, 0), MIRAS_ERR_MISMATCH);
    assert_true(test_largest < 1 << 20);
    miras_close(big);
    miras_close(back);
  }
  miras_close(other);
  close_subject(&a);
  remove_all(folder);
}

/* A folder that cannot be written to: refused, and the file there is as it was. */
static void test_closed_folder(void **state) {
  char folder[] = "/tmp/miras_files_XXXXXX", path[80];
  subject a = { NULL, NULL, NULL, NULL };
  pid_t child;
  int status;
  (void)state;
  assert_non_null(mkdtemp(folder));
  sprintf(path, "%s/x", folder);
  a.memory = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  assert_int_equal(miras_save(a.memory, path), MIRAS_OK);
  assert_int_equal(chmod(path, 0666), 0);
  assert_int_equal(chmod(folder, 0555), 0);
  feed(a.memory, 0, 3);
  fflush(stdout);
  child = fork();
  assert_true(child >= 0);
  if (!child) {                                    /* root may write everywhere */
    if (getuid() == 0 && setuid(12345) != 0) _exit(2);
    if (miras_save(a.memory, path) != MIRAS_ERR_IO) _exit(3);
    if (miras_load(a.memory, path, NULL, 0) != MIRAS_OK) _exit(4);
    _exit(miras_memory_position(a.memory) == 0 ? 0 : 5);
  }
  assert_true(waitpid(child, &status, 0) == child && WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  assert_int_equal(chmod(folder, 0700), 0);
  close_subject(&a);
  remove_all(folder);
}

#endif

#ifdef _WIN32
/* A path is UTF-8: the file has the name that it spells, and what spells none is left to fopen. */
static void test_wide_paths(void **state) {
  static const char path[] = "na\xc3\xafve-\xe2\x82\xac-\xf0\x9f\x98\x80.bin";
  static const wchar_t name[] = {'n', 'a', 0xef, 'v', 'e', '-', 0x20ac, '-', 0xd83d, 0xde00, '.',
                                 'b', 'i', 'n', 0};
  static const char *const wrong[] = {"\xff", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80", "\xc3(", "\xe0\x9f\xbf"};
  miras_memory *m = tiny_memory(MIRAS_PRESET_DELTANET_MEMORY, 1);
  wchar_t wide[MIRAS__WIDE_PATH];
  size_t i;
  FILE *f;
  (void)state;
  assert_true(miras__wide_path(wide, path) && wcscmp(wide, name) == 0);
  for (i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_int_equal(miras__wide_path(wide, wrong[i]), 0);
  assert_int_equal(miras_save(m, path), MIRAS_OK);
  assert_int_equal(miras_save(m, path), MIRAS_OK);
  f = _wfopen(name, L"rb");
  assert_non_null(f);
  fclose(f);
  assert_int_equal(miras_load(m, path, NULL, 0), MIRAS_OK);
  assert_int_equal(_wremove(name), 0);
  assert_int_equal(miras_load(m, path, NULL, 0), MIRAS_ERR_IO);
  miras_close(m);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_checksum),
    cmocka_unit_test(test_numbers),
    cmocka_unit_test(test_model_round_trip),
    cmocka_unit_test(test_new_fields_beside_short),
    cmocka_unit_test(test_every_field),
    cmocka_unit_test(test_hybrids),
    cmocka_unit_test(test_old_versions),
    cmocka_unit_test(test_hybrid_fields),
    cmocka_unit_test(test_without_mlp),
    cmocka_unit_test(test_mlp_layers),
    cmocka_unit_test(test_hybrid_mismatch),
    cmocka_unit_test(test_model_continues),
    cmocka_unit_test(test_moments),
    cmocka_unit_test(test_memory_round_trip),
    cmocka_unit_test(test_session_round_trip),
    cmocka_unit_test(test_choices),
    cmocka_unit_test(test_values_are_not_judged),
    cmocka_unit_test(test_damage_model),
    cmocka_unit_test(test_damage_states),
    cmocka_unit_test(test_capacity),
    cmocka_unit_test(test_arguments),
    cmocka_unit_test(test_mismatch),
    cmocka_unit_test(test_positions),
    cmocka_unit_test(test_places),
#ifdef _WIN32
    cmocka_unit_test(test_wide_paths),
#endif
    cmocka_unit_test(test_session_weights),
    cmocka_unit_test(test_memory_opens),
    cmocka_unit_test(test_other_writers), cmocka_unit_test(test_by_rows),
    cmocka_unit_test(test_streams),
    cmocka_unit_test(test_hostile_headers),
    cmocka_unit_test(test_hostile_crowds),
    cmocka_unit_test(test_many_tensors),
    cmocka_unit_test(test_hostile_texts),
    cmocka_unit_test(test_hostile_patience),
    cmocka_unit_test(test_hostile_steps),
    cmocka_unit_test(test_later_fields),
    cmocka_unit_test(test_later_states),
    cmocka_unit_test(test_hostile_versions),
    cmocka_unit_test(test_hostile_lengths),
#if defined(__unix__) && !defined(MIRAS_NO_STDIO)
    cmocka_unit_test(test_hostile_sizes),
    cmocka_unit_test(test_hostile_hybrids),
    cmocka_unit_test(test_descriptions), cmocka_unit_test(test_limits),
    cmocka_unit_test(test_custom_path),
    cmocka_unit_test(test_paths),
    cmocka_unit_test(test_disk_full),
    cmocka_unit_test(test_writers),
    cmocka_unit_test(test_links),
    cmocka_unit_test(test_planted),
    cmocka_unit_test(test_modes),
    cmocka_unit_test(test_special_files),
    cmocka_unit_test(test_long_names),
    cmocka_unit_test(test_closed_folder),
    cmocka_unit_test(test_first_look),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
