/* test_stack.c: how deep the stack of public calls goes. Each runs on a thread whose stack is
 * painted before; what has lost its paint was used. The manual promises 16 KB on x86-64.
 *   cc -std=c99 -O2 tests/test_stack.c -o test_stack -lcmocka -lm -lpthread
 * Sanitizers and builds without optimisation have frames of their own: there it only says so. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "check.h"

#define MIRAS_PTHREADS
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#define MIRAS_HUGGINGFACE_IMPLEMENTATION
#include "../examples/huggingface.h"
#define MIRAS_GGUF_IMPLEMENTATION
#include "../examples/gguf.h"
#include "calls.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  #define UNUSUAL 1
#elif defined(__has_feature)
  #if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
    #define UNUSUAL 1
  #endif
#endif
#if !defined(UNUSUAL) && (!defined(__OPTIMIZE__) || !defined(__x86_64__))
  #define UNUSUAL 1
#endif

enum { STACK = 1 << 20, MOST = 16384, VOCAB = 33, CONTEXT = 64, BYTES = 1 << 24 };

/* What a call works on; each of the functions below is one, or a few of one object. */
typedef struct work {
  const char *name;            /* of a row or a whole model                                       */
  miras_model_desc d;
  miras_memory *memory;
  miras_model *model;
  miras_trainer *trainer;
  miras_session *session;
  unsigned char *bytes;
  size_t saved;
  char path[64];
  int wrong;
} work;

typedef struct step {
  const char *name;
  void (*run)(work *w);
} step;

static void nothing(work *w) { (void)w; }

static void memory_open(work *w) {
  miras_memory_desc d;
  char why[256];
  miras_memory_preset(&d, miras_preset_find(w->name));
  d.key_dim = 32;
  w->wrong |= !miras_memory_size(&d, why, sizeof why);
  w->memory = miras_memory_open(&d, NULL, NULL, 0);
  d.feature_map = MIRAS_FN_POLY2;
  d.depth = 9;
  miras_memory_size(&d, why, sizeof why);   /* a refusal */
}

static void memory_step(work *w) {
  float key[64] = {1, 2, 3}, value[64] = {1}, out[64];
  surprise_of_write(w->memory, key, value);
  miras_memory_read(w->memory, key, out);
  forward_one(w->memory, key, value, key, out);
}

static void memory_learn(work *w) {
  static const int32_t index[] = {5, 1};
  float value[64] = {1}, out[64];
  const int writes = miras_memory_can_write(w->memory, NULL, 0);
  const int steps = miras_memory_desc_of(w->memory)->inner_steps;
  miras_memory_event e;
  memset(&e, 0, sizeof e);
  e.index = index, e.count = 2, e.value = value, e.answer = out;
  w->wrong |=
    miras_memory_learn(w->memory, &e) != (writes && steps == 1 ? MIRAS_OK : MIRAS_ERR_DESC);
}

static void memory_ledger(work *w) {
  float key[64] = {1, 2, 3}, value[64] = {1}, out[64], weights[64], trace[2];
  const int writes = miras_memory_can_write(w->memory, NULL, 0);
  miras_ledger *l = miras_ledger_open(w->memory, 2, NULL, NULL, 0);
  unsigned char gone[2] = {1, 0};
  char why[256];
  int i;
  w->wrong |= !l != !writes;
  for (i = 0; l && i < 4; i++)
    w->wrong |= miras_ledger_write(l, key, value, 0, NULL) != MIRAS_OK;
  if (l) (void)miras_ledger_explain(l, key, weights, out, why, sizeof why);
  if (l) w->wrong |= miras_ledger_forget(l, gone) != MIRAS_OK;
  if (!miras_memory_trace_size(w->memory, why, sizeof why))
    w->wrong |= miras_memory_reward(w->memory, trace, 0, key, value, 1) != MIRAS_ERR_DESC;
  (void)miras_memory_merge(w->memory, miras_memory_state(w->memory, NULL),
                           miras_memory_state(w->memory, NULL), why, sizeof why);
  miras_close(l);
}

static void memory_file(work *w) {
  w->saved = miras_save_to(w->memory, w->bytes, BYTES);
  w->wrong |=
    !w->saved || miras_load_from(w->memory, w->bytes, w->saved, NULL, 0) != MIRAS_OK;
}

static void memory_path(work *w) {
  w->wrong |= miras_save(w->memory, w->path) != MIRAS_OK;
  w->wrong |= miras_load(w->memory, w->path, NULL, 0) != MIRAS_OK;
}

static void model_named(work *w) {
  w->wrong |= miras_model_preset(&w->d, miras_preset_find(w->name), 4) != MIRAS_OK;
}

static void model_size(work *w) {
  const int layers = w->d.layers;
  char why[256], was[MIRAS_PATTERN_SIZE];
  w->wrong |= !miras_model_size(&w->d, why, sizeof why);
  w->d.layers = -1;
  w->wrong |= !!miras_model_size(&w->d, why, sizeof why);
  w->d.layers = layers;
  memcpy(was, w->d.pattern, sizeof was);
  memset(w->d.pattern, '(', sizeof was - 1);   /* groups in groups, as deep as a pattern is long */
  w->wrong |= !!miras_model_size(&w->d, why, sizeof why);
  memcpy(w->d.pattern, was, sizeof was);
}

static void model_open(work *w) {
  w->model = miras_model_open(&w->d, NULL, NULL, 0);
  w->wrong |= !w->model;
}

/* The same of its layers as text. */
static void model_lines(work *w) {
  static miras_model_desc d;
  static char text[1 << 14];
  size_t n = 0;
  int k;
  d = w->d;
  for (k = 0; k < MIRAS_MAX_LAYER_KINDS; k++) {
    const char letter = miras_model_desc_of(w->model)->layer[k].letter;
    const size_t more = letter ? miras_model_program(w->model, letter, NULL, 0) : 0;
    if (!more) continue;
    n += (size_t)snprintf(text + n, sizeof text - n, "layer %c\n", letter);
    n += miras_model_program(w->model, letter, text + n, sizeof text - n);
  }
  d.program = text;
  w->wrong |= !n || n >= sizeof text || !miras_model_size(&d, NULL, 0);
}

static void model_file(work *w) {
  w->saved = miras_save_to(w->model, w->bytes, BYTES);
  w->wrong |= !w->saved || miras_load_from(w->model, w->bytes, w->saved, NULL, 0) != MIRAS_OK;
}

static void model_path(work *w) {
  miras_model *other;
  w->wrong |= miras_save(w->model, w->path) != MIRAS_OK;
  w->wrong |= miras_load(w->model, w->path, NULL, 0) != MIRAS_OK;
  other = miras_model_open_file(w->path, NULL, NULL, NULL, NULL, 0);
  w->wrong |= !other;
  miras_close(other);
}

static void session(work *w) {
  int32_t tokens[100] = {1, 2, 3};
  w->session = miras_session_open(w->model, NULL, NULL, NULL, 0);
  w->wrong |= !w->session;
  miras_session_step(w->session, 3);
  miras_session_feed(w->session, tokens, NULL, 100);
}

static void session_path(work *w) {
  w->wrong |= miras_save(w->session, w->path) != MIRAS_OK;
  w->wrong |= miras_load(w->session, w->path, NULL, 0) != MIRAS_OK;
}

/* Opened, and two passes of a step. */
static miras_trainer *train(work *w, const miras_parallel *parallel) {
  static int32_t tokens[CONTEXT];
  miras_trainer_desc d;
  miras_trainer *t;
  memset(&d, 0, sizeof d);
  d.context = CONTEXT, d.parallel = parallel;
  t = miras_trainer_open(w->model, &d, NULL, NULL, 0);
  w->wrong |= !t;
  loss_of(t, tokens, tokens, 1, CONTEXT, 1);
  miras_trainer_backward(t, NULL);
  return t;
}

static void trainer(work *w) {
  w->trainer = train(w, NULL);
  norm_of_step(w->trainer, NULL, 1e-3f);
}

/* A trainer's tasks on threads, whose stacks are the pool's own: of the caller's, what it takes. */
static void pool(work *w) {
  const miras_parallel *p = miras_pool_open(2, NULL, NULL, 0);
  miras_trainer *t = train(w, p);
  w->wrong |= !p || miras_save(t, w->path) != MIRAS_OK ||
              miras_load(t, w->path, NULL, 0) != MIRAS_OK;
  miras_close(t);
  miras_pool_close(p);
}

static void sample(work *w) {
  float logits[VOCAB] = {1, 2};
  miras_sampler s = {1, 5, 0.9f, 1};
  (void)w;
  miras_sampler_sample(&s, logits, VOCAB);
}

/* In buffers of the caller's own, and trained. */
static void memory_init(work *w) {
  enum { TOKENS = 4 };
  static float x[TOKENS * 512], y[TOKENS * 512];
  miras_memory_desc d;
  miras_memory *m;
  miras_memory_input tokens;
  miras_memory_input_grad grads;
  float *tape;
  memset(&tokens, 0, sizeof tokens);
  memset(&grads, 0, sizeof grads);
  miras_memory_preset(&d, miras_preset_find(w->name));
  d.key_dim = 32;
  m = miras_memory_init(w->bytes, BYTES, &d, NULL, 0);
  w->wrong |= !m;
  tape = (float *)calloc(miras_memory_tape_size(m, TOKENS), sizeof *tape);
  tokens.length = TOKENS, tokens.key = tokens.value = tokens.query = x;
  w->wrong |= !tape || miras_memory_forward(m, &tokens, y, tape) != MIRAS_OK ||
              miras_memory_backward(m, &tokens, tape, y, &grads, NULL, NULL) != MIRAS_OK;
  miras_memory_reset(m);
  miras_memory_norm(m);
  free(tape);
}

static void model_init(work *w) {
  char why[256];
  const size_t bytes = miras_model_size(&w->d, why, sizeof why);
  w->wrong |= !bytes || bytes > BYTES || !miras_model_init(w->bytes, BYTES, &w->d, NULL, 0);
}

static void server(work *w) {
  static int32_t tokens[100] = {1, 2, 3};
  static float logits[3 * VOCAB];
  const miras_server_desc d = {0};
  miras_server *s = miras_server_open(w->model, &d, NULL, NULL, 0);
  miras_sequence text[2] = {{0}};
  size_t i;
  memset(text, 0, sizeof text);
  for (i = 0; i < 2; i++) {
    text[i].state = calloc(1, miras_model_state_size(w->model));
    text[i].tokens = tokens, text[i].count = i ? 100 : 2, text[i].logit_rows = 1;
  }
  w->wrong |= !s || miras_server_feed(s, text, 2, logits) != MIRAS_OK;
  for (i = 0; i < 2; i++) free(text[i].state);
  miras_close(s);
}

static void session_other(work *w) {
  static int32_t tokens[100] = {1, 2, 3};
  miras_view view;
  score_of(w->session, tokens, tokens, 100);
  (void)miras_session_part(w->session, 0, 0, &view);   /* layers without a memory have none */
  miras_session_reset(w->session);
}

static void model_set(work *w) {
  miras_model_desc d = w->d;
  w->wrong |= miras_model_desc_set(&d, "dropout", "0.125") != MIRAS_OK;
  w->wrong |= miras_model_desc_set(&d, "memory.no_such", "1") == MIRAS_OK;
}

static void checkpoint(work *w) {
  static miras_model_desc d;
  char why[256];
  w->wrong |= miras_checkpoint_desc(&d, w->name, NULL, NULL, why, sizeof why) != MIRAS_OK;
  w->model = miras_model_open(&d, NULL, NULL, 0);
  w->wrong |= !w->model || miras_checkpoint_load(w->model, w->name, NULL, NULL, why,
                                                 sizeof why) != MIRAS_OK;
}

static void gguf(work *w) {
  static miras_model_desc d;
  char why[256];
  w->wrong |= miras_gguf_desc(&d, w->name, NULL, NULL, why, sizeof why) != MIRAS_OK;
  w->model = miras_gguf_open(&d, w->name, NULL, NULL, why, sizeof why);
  w->wrong |= !w->model;
}

typedef struct entry {
  const step *step;
  work *work;
} entry;

static void *enter(void *x) {
  const entry *e = (const entry *)x;
  e->step->run(e->work);
  return NULL;
}

static unsigned char *stack;

/* The bytes of stack that a thread has used. */
static size_t depth(const step *s, work *w) {
  entry e;
  pthread_attr_t attributes;
  pthread_t thread;
  size_t left = 0;
  e.step = s;
  e.work = w;
  memset(stack, 0xa5, STACK);
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK), 0);
  assert_int_equal(pthread_create(&thread, &attributes, enter, &e), 0);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  while (left < STACK && stack[left] == 0xa5) left++;
  return STACK - left;
}

static const step memory_steps[] = {
  {"memory_open", memory_open}, {"write, read, step", memory_step},
  {"learn", memory_learn}, {"ledger, reward, merge", memory_ledger},
  {"memory_save_to, _load_from", memory_file}, {"memory_save, _load", memory_path},
  {"memory_init, forward, backward", memory_init}};
static const step model_steps[] = {
  {"model_named", model_named}, {"model_size", model_size}, {"model_open", model_open},
  {"model_size of lines", model_lines},
  {"model_save_to, _load_from", model_file}, {"model_save, _load, _open_file", model_path},
  {"session: step, prefill", session}, {"session_save, _load", session_path},
  {"session: score, part, reset", session_other}, {"trainer: loss, backward, step", trainer},
  {"trainer with a pool, saved, loaded", pool}, {"server", server}, {"sample", sample},
  {"model_desc_set", model_set}, {"model_init", model_init}};
static const step checkpoint_steps[] = {{"checkpoint_desc, _load", checkpoint}};
static const step gguf_steps[] = {{"gguf_desc, _open", gguf}};

static size_t deepest;

/* warm: what the first calls cost is the dynamic linker's, and not looked at. */
static void run_all(const char *name, const step *steps, size_t count, int warm) {
  static const step none = {"nothing", nothing};
  static work w;
  size_t i, base;
  const char *directory = getenv("TMPDIR");
  memset(&w, 0, sizeof w);
  w.name = name;
  w.bytes = (unsigned char *)malloc(BYTES);
  assert_non_null(w.bytes);
  snprintf(w.path, sizeof w.path, "%.40s/stack.%ld", directory ? directory : "/tmp",
           (long)getpid());
  base = depth(&none, &w);
  for (i = 0; i < count; i++) {
    size_t used;
    if (steps[i].run == model_size) w.d.vocab = VOCAB, w.d.width = 32, w.d.heads = 2;
    used = depth(&steps[i], &w) - base;
    if (w.wrong) printf("  %s: %s has failed\n", name, steps[i].name);
    assert_int_equal(w.wrong, 0);
    if (warm) continue;
    if (used > deepest) deepest = used;
    if (used > MOST || getenv("STACK_ALL"))
      printf("  %s: %s: %zu bytes\n", name, steps[i].name, used);
    assert_true(used <= MOST);
  }
  remove(w.path);
  miras_close(w.session);
  miras_close(w.trainer);
  miras_close(w.model);
  miras_close(w.memory);
  free(w.bytes);
}

static void calls_need_little_stack(void **state) {
  static const char *const memories[] = {
    "gated-deltanet", "kda", "mesa", "softmax-attention", "ttt-mlp", "titans", "moneta", "memora"};
  static const char *const models[] = {
    "gated-deltanet", "titans-mac", "titans-mag", "rwkv7", "mamba2", "kimi-linear", "moneta-h",
    "ttt-mlp-mamba", "hgrn2", "rwkv6", "gsa", "raven", "log-linear-mamba2", "rwkv4"};
  size_t i;
  int warm;
  (void)state;
#ifdef UNUSUAL
  printf("  skipped: stacks are promised of optimised builds on x86-64 without sanitizers\n");
  return;
#endif
  stack = (unsigned char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                                -1, 0);
  assert_true(stack != MAP_FAILED);
  for (warm = 1; warm >= 0; warm--) {
    for (i = 0; i < sizeof memories / sizeof *memories; i++)
      run_all(memories[i], memory_steps, sizeof memory_steps / sizeof *memory_steps, warm);
    for (i = 0; i < sizeof models / sizeof *models; i++)
      run_all(models[i], model_steps, sizeof model_steps / sizeof *model_steps, warm);
    run_all("tests/data/checkpoints/qwen3_5_moe", checkpoint_steps, 1, warm);
    run_all("tests/data/llama-tied.gguf", gguf_steps, 1, warm);
  }
  printf("  deepest: %zu bytes\n", deepest);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(calls_need_little_stack)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
