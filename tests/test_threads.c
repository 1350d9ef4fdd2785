/* test_threads.c: the pool runs every task exactly once, and no number of threads and no order of
 * tasks changes a bit of what a model computes. Also built with -fsanitize=thread.
 *   cc -std=c99 -O2 tests/test_threads.c -o test_threads -lcmocka -lm -lpthread */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

#define MIRAS_PTHREADS
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"

/* ---- the pool by itself ---- */

enum { MOST = 1000, WORKERS = 9 };

/* Plain ints: if two calls ever shared a worker or an index at the same time, or if run returned
 * early, the thread sanitizer would see the race and the counts below would be off. */
typedef struct ledger {
  int seen[MOST];
  int by_worker[WORKERS];
  int workers;
} ledger;

static void enter(void *argument, int index, int worker) {
  ledger *l = (ledger *)argument;
  l->seen[index]++;
  if (worker >= 0 && worker < l->workers) l->by_worker[worker]++;
}

static void pool_runs_each_task_once(void **state) {
  int threads;
  (void)state;
  for (threads = 1; threads <= 8; threads = threads < 4 ? threads + 1 : threads * 2) {
    static const int counts[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100, MOST };
    const miras_parallel *pool = miras_pool_open(threads, NULL, NULL, 0);
    const miras_parallel *p;
    size_t c;
    int round;
    assert_non_null(pool);
    p = pool;
    assert_non_null(p);
    assert_non_null(p->run);
    assert_int_equal(p->workers, threads);
    for (round = 0; round < 20; round++) {
      for (c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        static ledger l;
        int i, total = 0;
        memset(&l, 0, sizeof l);
        l.workers = threads;
        p->run(p->user, counts[c], enter, &l);
        for (i = 0; i < MOST; i++) assert_int_equal(l.seen[i], i < counts[c] ? 1 : 0);
        for (i = 0; i < WORKERS; i++) total += l.by_worker[i];
        assert_int_equal(total, counts[c]);
      }
    }
    miras_pool_close(pool);
  }
}

static void pool_survives_many_tiny_runs(void **state) {
  const miras_parallel *pool = miras_pool_open(4, NULL, NULL, 0);
  const miras_parallel *p;
  static ledger l;
  int i;
  (void)state;
  assert_non_null(pool);
  p = pool;
  memset(&l, 0, sizeof l);
  l.workers = 4;
  for (i = 0; i < 20000; i++) p->run(p->user, i % 3, enter, &l);
  assert_int_equal(l.seen[0], 13333);   /* in 2 of 3 rounds */
  assert_int_equal(l.seen[1], 6666);    /* in 1 of 3 rounds */
  miras_pool_close(pool);
}

static void pools_come_and_go(void **state) {
  int i;
  (void)state;
  for (i = 0; i < 100; i++) {
    const miras_parallel *a = miras_pool_open(1 + i % 4, NULL, NULL, 0),
               *b = miras_pool_open(2, NULL, NULL, 0);
    assert_non_null(a);
    assert_non_null(b);
    if (i % 3 == 0) {
      static ledger l;
      const miras_parallel *p = a;
      memset(&l, 0, sizeof l);
      l.workers = p->workers;
      p->run(p->user, 5, enter, &l);
      assert_int_equal(l.seen[4], 1);
    }
    miras_pool_close(a);
    miras_pool_close(b);
  }
}

/* What a child of fork() does with a pool whose threads it has not: `last` closes it. */
static int child_works(const miras_parallel *p, const miras_parallel *last) {
  static ledger l;
  int i, bad = 0;
  memset(&l, 0, sizeof l);
  l.workers = 4;
  for (i = 0; i < 50; i++) p->run(p->user, MOST, enter, &l);
  for (i = 0; i < MOST; i++) bad |= l.seen[i] != 50;
  bad |= l.by_worker[0] != 50 * MOST;
  if (last) miras_pool_close(last);
  return bad;
}

/* Threads asleep, spinning, or between the two; locks held or not. */
static void a_child_works_without_the_pool(void **state) {
  const miras_parallel *pool = miras_pool_open(4, NULL, NULL, 0);
  const miras_parallel *p;
  static ledger l;
  int round;
  (void)state;
  assert_non_null(pool);
  p = pool;
  l.workers = 4;
  for (round = 0; round < 60; round++) {
    const struct timespec nap = { 0, 50000 * (round % 5) };
    int status = 0;
    pid_t child;
    p->run(p->user, 40, enter, &l);
    nanosleep(&nap, NULL);
    child = fork();
    if (!child) {
      alarm(20);
      _exit(child_works(p, round & 1 ? pool : NULL));
    }
    assert_true(child > 0);
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
  }
  miras_pool_close(pool);
}

static pthread_t caller;
static volatile sig_atomic_t signalled, elsewhere;

static void take_signal(int number) {
  (void)number;
  signalled = 1;
  if (!pthread_equal(pthread_self(), caller)) elsewhere = 1;
}

/* A signal to the process finds the thread that does not block it, or waits until one does not. */
static void threads_of_a_pool_take_no_signal(void **state) {
  struct sigaction action, before;
  sigset_t one, old, now;
  const miras_parallel *pool;
  int i;
  (void)state;
  memset(&action, 0, sizeof action);
  action.sa_handler = take_signal;
  sigaction(SIGUSR1, &action, &before);
  caller = pthread_self();
  pool = miras_pool_open(4, NULL, NULL, 0);
  assert_non_null(pool);
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  assert_int_equal(sigismember(&now, SIGUSR1), 0);   /* the caller's mask is as it was */
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &one, &old);
  kill(getpid(), SIGUSR1);
  for (i = 0; i < 20 && !signalled; i++) {
    const struct timespec nap = { 0, 1000000 };
    nanosleep(&nap, NULL);
  }
  assert_int_equal(signalled, 0);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  for (i = 0; i < 1000 && !signalled; i++) {
    const struct timespec nap = { 0, 1000000 };
    nanosleep(&nap, NULL);
  }
  assert_int_equal(signalled, 1);
  assert_int_equal(elsewhere, 0);
  miras_pool_close(pool);
  sigaction(SIGUSR1, &before, NULL);
}

static void pool_refuses_wrong_counts(void **state) {
  (void)state;
  assert_null(miras_pool_open(0, NULL, NULL, 0));
  assert_null(miras_pool_open(-1, NULL, NULL, 0));
  assert_null(miras_pool_open(257, NULL, NULL, 0));
  miras_pool_close(NULL);
}

/* ---- bits ---- */

static miras_model_desc model_desc(miras_preset kind) {
  miras_model_desc d;
  assert_int_equal(miras_model_preset(&d, kind, 0), MIRAS_OK);
  d.layer[0].memory.heads = 2;
  d.layer[0].memory.key_dim = 8;
  if (d.layer[0].memory.chunk > 1) d.layer[0].memory.chunk = 4;
  d.vocab = 31;
  d.width = 24;
  d.layers = 2;
  d.layer[0].mlp.hidden = 40;
  d.dropout = 0.1f;
  d.seed = 9;
  return d;
}

/* Under sanitizers a row is computed by one number of threads, and a model has a third of the forms
 * of weights; both take turns. */
enum { LEAN = MIRAS_TEST_SHARE > 8 };
static int first_of(int most, int turn) { return LEAN ? 2 + turn % (most - 1) : 2; }
static int next_of(int threads, int most) { return LEAN ? most + 1 : threads + 1; }

enum { TOKENS = 3 * 19 + 1 };
static int32_t text[TOKENS];

static void make_text(void) {
  int i;
  for (i = 0; i < TOKENS; i++) text[i] = (int32_t)((i * i * 7 + i * 3) % 31);
}

/* What a short training run leaves behind: losses, norms, gradients of each step, parameters. */
typedef struct trace {
  float *bits;
  size_t count;
} trace;

static trace train(miras_preset kind, const miras_parallel *parallel) {
  const miras_trainer_desc room = {3, 19, 0, 0, 0, parallel, NULL};
  miras_model_desc d = model_desc(kind);
  miras_model *m = miras_model_open(&d, NULL, NULL, 0);
  miras_trainer *t = miras_trainer_open(m, &room, NULL, NULL, 0);
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  trace r;
  size_t count, at = 0;
  const float *params;
  int step;
  assert_non_null(t);
  o.clip = 0.5f;
  o.weight_decay = 0.1f;
  params = miras_model_params(m, &count);
  r.count = 3 * (count + 3) + count;
  r.bits = (float *)malloc(r.count * sizeof(float));
  assert_non_null(r.bits);
  for (step = 0; step < 3; step++) {
    int length = step == 1 ? 10 : 19, batch = step == 2 ? 2 : 3;
    r.bits[at++] = loss_of(t, text, text + 1, batch, length, 1);
    assert_int_equal(miras_trainer_backward(t, NULL), MIRAS_OK);
    memcpy(r.bits + at, miras_trainer_grads(t), count * sizeof(float));
    at += count;
    r.bits[at++] = norm_of_step(t, &o, 0.01f);
    r.bits[at++] = loss_of(t, text, text + 1, batch, length, 0);
  }
  memcpy(r.bits + at, params, count * sizeof(float));
  miras_close(t);
  miras_close(m);
  return r;
}

static void same_trace(const trace *a, const trace *b, miras_preset kind, int threads) {
  size_t i;
  assert_int_equal(a->count, b->count);
  for (i = 0; i < a->count; i++)
    if (memcmp(a->bits + i, b->bits + i, sizeof(float)) != 0)
      fail_msg("%s with %d threads: float %u is %.9g and not %.9g", miras_preset_name(kind),
               threads, (unsigned)i, (double)b->bits[i], (double)a->bits[i]);
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
  int kind, threads;
  (void)state;
  make_text();
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    trace alone = train((miras_preset)kind, NULL);
    for (threads = LEAN ? first_of(4, kind) : 1; threads <= 4; threads = next_of(threads, 4)) {
      const miras_parallel *pool = miras_pool_open(threads, NULL, NULL, 0);
      trace shared;
      assert_non_null(pool);
      shared = train((miras_preset)kind, pool);
      same_trace(&alone, &shared, (miras_preset)kind, threads);
      free(shared.bits);
      miras_pool_close(pool);
    }
    free(alone.bits);
  }
}

/* A job system that runs its tasks backwards, or all over the place, on workers of its choice. */
typedef struct odd { uint64_t seed; int workers; } odd;

static void odd_run(void *user, int count, void (*task)(void *, int, int), void *argument) {
  odd *o = (odd *)user;
  int *order = (int *)malloc((size_t)(count + 1) * sizeof(int)), i;
  assert_non_null(order);
  for (i = 0; i < count; i++) order[i] = count - 1 - i;
  for (i = count - 1; i > 0 && o->seed; i--) {
    int j, keep = order[i];
    o->seed = o->seed * 6364136223846793005u + 1442695040888963407u;
    j = (int)((o->seed >> 33) % (uint64_t)(i + 1));
    order[i] = order[j];
    order[j] = keep;
  }
  for (i = 0; i < count; i++) task(argument, order[i], (i * 7 + 3) % o->workers);
  free(order);
}

static void any_order_of_tasks_gives_the_same_bits(void **state) {
  static const miras_preset kinds[] = {MIRAS_PRESET_GATED_DELTANET, MIRAS_PRESET_TITANS,
                                       MIRAS_PRESET_MEMORA};
  size_t k;
  int i;
  (void)state;
  make_text();
  for (k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    trace alone = train(kinds[k], NULL);
    for (i = 0; i < 4; i++) {
      odd o;
      miras_parallel parallel;
      trace r;
      o.seed = (uint64_t)i * 77;
      o.workers = i == 3 ? 256 : i + 1;
      parallel.run = odd_run;
      parallel.user = &o;
      parallel.workers = o.workers;
      r = train(kinds[k], &parallel);
      same_trace(&alone, &r, kinds[k], o.workers);
      free(r.bits);
    }
    free(alone.bits);
  }
}

/* ---- one memory, whose heads and sequences are shared out ---- */

enum { BATCH = 3, HEADS = 3, DIM = 10, LENGTH = 19, PAIRS = 2 * BATCH * LENGTH * HEADS * DIM };

/* Everything that a memory of this row computes, in one block. */
static float *memory_trace(miras_preset kind, const miras_parallel *parallel, size_t *count) {
  static float x[6][PAIRS];
  miras_memory_input tokens;
  miras_memory_input_grad grads;
  miras_memory *m;
  miras_memory_desc d;
  size_t tape_size, params, dstate, state_bytes, n = PAIRS / 2, i, k;
  float *all, *tape, *at;
  void *memory;
  assert_int_equal(miras_memory_preset(&d, kind), MIRAS_OK);
  d.batch = BATCH;
  d.heads = HEADS;
  d.key_dim = DIM;
  d.chunk = LENGTH;                    /* ends on the chunk grid, so that states have gradients */
  if (d.architecture == MIRAS_ARCH_KV_CACHE) d.window = 8;
  d.parallel = parallel;
  m = miras_memory_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  for (k = 0; k < 6; k++)
    for (i = 0; i < PAIRS; i++) x[k][i] = (float)((i * 37 + k * 53) % 101) / 101.0f - 0.5f;
  memset(&tokens, 0, sizeof tokens);
  tokens.length = LENGTH;
  tokens.key = x[0];
  tokens.value = x[1];
  tokens.query = x[2];
  tokens.erase = x[3];
  tokens.replace = x[4];
  (void)miras_memory_params(m, &params);
  dstate = miras_memory_grad_state_size(m);
  tape_size = miras_memory_tape_size(m, LENGTH);
  memory = miras_memory_state(m, &state_bytes);
  *count = n + 2 * PAIRS + n + params + dstate + state_bytes / sizeof(float) + 1;
  all = (float *)calloc(*count, sizeof(float));
  tape = (float *)malloc(tape_size * sizeof(float));
  assert_true(all && tape);
  memset(&grads, 0, sizeof grads);
  at = all;
  assert_int_equal(miras_memory_forward(m, &tokens, at, tape), MIRAS_OK);
  at += n;
  grads.key = at;
  grads.value = at + PAIRS;
  grads.query = at + 2 * PAIRS;
  at += 2 * PAIRS + n;
  assert_int_equal(miras_memory_backward(m, &tokens, tape, x[5], &grads, at, at + params),
                   MIRAS_OK);
  at += params + dstate;
  memcpy(at, memory, state_bytes);
  at += state_bytes / sizeof(float);
  *at = kind == MIRAS_PRESET_RWKV7_MEMORY ? 0 : surprise_of_write(m, x[0], x[1]);
  free(tape);
  miras_close(m);
  return all;
}

static void a_memory_shares_its_heads_out(void **state) {
  int kind, i;
  (void)state;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    size_t count, again;
    float *alone = memory_trace((miras_preset)kind, NULL, &count);
    for (i = LEAN ? kind % 3 : 0; i < 3; i += LEAN ? 3 : 1) {
      odd o;
      miras_parallel parallel;
      float *r;
      o.seed = (uint64_t)i * 77;
      o.workers = i == 2 ? 256 : i + 1;
      parallel.run = odd_run;
      parallel.user = &o;
      parallel.workers = o.workers;
      r = memory_trace((miras_preset)kind, &parallel, &again);
      assert_int_equal(count, again);
      if (memcmp(alone, r, count * sizeof *r))
        fail_msg("%s: %d workers change something", miras_preset_name((miras_preset)kind),
                 o.workers);
      free(r);
    }
    if (kind % 5 == 0) {               /* and threads that are real */
      const miras_parallel *pool = miras_pool_open(3, NULL, NULL, 0);
      float *r;
      assert_non_null(pool);
      r = memory_trace((miras_preset)kind, pool, &again);
      assert_memory_equal(alone, r, count * sizeof *r);
      free(r);
      miras_pool_close(pool);
    }
    free(alone);
  }
}

static void a_job_system_is_checked(void **state) {
  miras_parallel parallel;
  miras_model_desc layer;
  miras_memory_desc d;
  char why[256];
  (void)state;
  memset(&parallel, 0, sizeof parallel);
  assert_int_equal(miras_memory_preset(&d, MIRAS_PRESET_TITANS), MIRAS_OK);
  d.key_dim = 4;
  d.parallel = &parallel;
  assert_int_equal(miras_memory_size(&d, why, sizeof why), 0);
  assert_non_null(strstr(why, "parallel->workers is 0"));
  parallel.workers = 2;
  assert_int_equal(miras_memory_size(&d, why, sizeof why), 0);
  assert_non_null(strstr(why, "parallel->run is NULL"));
  assert_null(miras_memory_open(&d, NULL, NULL, 0));
  parallel.run = odd_run;
  assert_true(miras_memory_size(&d, why, sizeof why) > 0);
  assert_int_equal(miras_model_preset(&layer, MIRAS_PRESET_TITANS, 0), MIRAS_OK);
  layer.layer[0].memory.key_dim = 4;
  layer.vocab = 5;
  layer.width = 8;
  layer.layers = 1;
  assert_true(miras_model_size(&layer, why, sizeof why) > 0);
  layer.layer[0].memory.parallel = &parallel;   /* a model has workers of its own */
  assert_int_equal(miras_model_size(&layer, why, sizeof why), 0);
  assert_non_null(strstr(why, "memory.parallel"));
}

/* ---- sessions side by side ---- */

enum { SESSIONS = 4, ROUNDS = 60 };

typedef struct reader {
  const miras_model *model;
  int first;
  float logits[31];
  double score;
  int ok;
} reader;

static void *read_along(void *argument) {
  reader *r = (reader *)argument;
  miras_session *s = miras_session_open(r->model, NULL, NULL, NULL, 0);
  const float *logits;
  int i;
  r->ok = 0;
  if (!s) return NULL;
  logits = miras_session_feed(s, text + r->first, NULL, 17);
  for (i = 0; logits && i < ROUNDS; i++) logits = miras_session_step(s, (r->first + i * 5) % 31);
  if (logits) {
    memcpy(r->logits, logits, sizeof r->logits);
    r->score = score_of(s, text, text + 1, 12);
    r->ok = 1;
  }
  miras_close(s);
  return NULL;
}

static void sessions_share_a_model(void **state) {
  static const miras_preset kinds[] = { MIRAS_PRESET_DELTANET_MEMORY, MIRAS_PRESET_YAAD };
  size_t k;
  (void)state;
  make_text();
  for (k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    miras_model_desc d = model_desc(kinds[k]);
    miras_model *m;
    reader together[SESSIONS], alone;
    pthread_t threads[SESSIONS];
    int i;
    m = miras_model_open(&d, NULL, NULL, 0);
    assert_non_null(m);
    memset(together, 0, sizeof together);
    for (i = 0; i < SESSIONS; i++) {
      together[i].model = m;
      together[i].first = i * 3;
      assert_int_equal(pthread_create(&threads[i], NULL, read_along, &together[i]), 0);
    }
    for (i = 0; i < SESSIONS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (i = 0; i < SESSIONS; i++) {
      assert_true(together[i].ok);
      memset(&alone, 0, sizeof alone);
      alone.model = m;
      alone.first = i * 3;
      read_along(&alone);
      assert_true(alone.ok);
      assert_memory_equal(alone.logits, together[i].logits, sizeof alone.logits);
      assert_memory_equal(&alone.score, &together[i].score, sizeof alone.score);
    }
    miras_close(m);
  }
}

/* Memories of their own on threads of their own; the first thing they share is the choice of the
 * instruction set. */
static void *learn_along(void *argument) {
  float *out = (float *)argument, x[12];
  miras_memory_desc d;
  miras_memory *m;
  int i, t;
  if (miras_memory_preset(&d, MIRAS_PRESET_TITANS) != MIRAS_OK) return NULL;
  d.key_dim = 4;
  m = miras_memory_open(&d, NULL, NULL, 0);
  if (!m) return NULL;
  for (t = 0; t < 50; t++) {
    for (i = 0; i < 12; i++) x[i] = (float)((t * 31 + i * 17) % 23 - 11) / 23.0f;
    forward_one(m, x, x + 4, x + 8, out);
  }
  miras_close(m);
  return NULL;
}

static void memories_on_their_own_threads(void **state) {
  pthread_t threads[SESSIONS];
  float out[SESSIONS][4];
  int i;
  (void)state;
  memset(out, 0, sizeof out);
  for (i = 0; i < SESSIONS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, learn_along, out[i]), 0);
  for (i = 0; i < SESSIONS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (i = 1; i < SESSIONS; i++) assert_memory_equal(out[0], out[i], sizeof out[0]);
}

/* ---- many texts in a call ---- */

/* Nine texts, a prefill each of another length and then steps of all: logits and states. */
static trace serve(const miras_model *m, const miras_parallel *parallel) {
  enum { TEXTS = 9, STEPS = 6 };
  const miras_server_desc how = {40, 0, parallel, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                                 MIRAS_PRODUCTS_FLOAT};
  const size_t bytes = miras_model_state_size(m), row = 31;
  miras_server *s = miras_server_open(m, &how, NULL, NULL, 0);
  unsigned char *states = (unsigned char *)calloc(TEXTS, bytes);
  miras_sequence part[TEXTS] = {{0}};
  trace r;
  size_t i, t;
  assert_non_null(s);
  r.count = TEXTS * (bytes / sizeof(float) + STEPS * row);
  r.bits = (float *)malloc(r.count * sizeof(float));
  for (t = 0; t < STEPS; t++) {
    for (i = 0; i < TEXTS; i++) {
      part[i].state = states + i * bytes;
      part[i].tokens = text + i + 3 * t;
      part[i].count = t ? 1 : 5 * i + 1;
      part[i].logit_rows = 1;
    }
    assert_int_equal(miras_server_feed(s, part, TEXTS, r.bits + t * TEXTS * row), MIRAS_OK);
  }
  memcpy(r.bits + STEPS * TEXTS * row, states, TEXTS * bytes);
  free(states);
  miras_close(s);
  return r;
}

static void texts_share_the_work_of_a_call(void **state) {
  int kind, threads;
  (void)state;
  make_text();
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_model_desc d = model_desc((miras_preset)kind);
    miras_model *m = miras_model_open(&d, NULL, NULL, 0);
    trace alone = serve(m, NULL);
    for (threads = first_of(4, kind); threads <= 4; threads = next_of(threads, 4)) {
      const miras_parallel *pool = miras_pool_open(threads, NULL, NULL, 0);
      trace shared = serve(m, pool);
      same_trace(&alone, &shared, (miras_preset)kind, threads);
      free(shared.bits);
      miras_pool_close(pool);
    }
    free(alone.bits);
    miras_close(m);
  }
}

/* ---- one text's few rows ---- */

enum { WIDE = 400, FEW = 3, ANSWERS = 31 };

/* A prompt of three, whose products are large enough to be shared by columns, and two steps. */
static void few_rows(const miras_model *m, const miras_parallel *parallel, float *out) {
  miras_session_desc how;
  miras_session *s;
  int t;
  memset(&how, 0, sizeof how);
  how.parallel = parallel;
  s = miras_session_open(m, &how, NULL, NULL, 0);
  assert_non_null(s);
  memcpy(out, miras_session_feed(s, text, NULL, FEW), ANSWERS * sizeof *out);
  for (t = 1; t < FEW; t++)
    memcpy(out + t * ANSWERS, miras_session_step(s, text[FEW + t]), ANSWERS * sizeof *out);
  miras_close(s);
}

static void columns_of_a_product_are_shared(void **state) {
  static const miras_preset kinds[] = { MIRAS_PRESET_MAMBA2, MIRAS_PRESET_RWKV7,
                                        MIRAS_PRESET_YAAD };
  float alone[FEW * ANSWERS], shared[FEW * ANSWERS];
  size_t kind;
  int form, threads;
  (void)state;
  make_text();
  for (kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
    unsigned char *file = NULL;
    size_t bytes = 0;
    for (form = 0; form < MIRAS_WEIGHTS_COUNT; form++) {
      miras_model_desc d = model_desc(kinds[kind]);
      miras_model *m;
      if (LEAN && form && form % 3 != (int)kind) continue;   /* floats draw what others load */
      d.width = WIDE, d.layers = 2, d.dropout = 0, d.weights = (miras_weights)form;
      d.layer[0].memory.heads = 0, d.layer[0].mlp.hidden = 517;
      m = miras_model_open(&d, NULL, NULL, 0);
      assert_non_null(m);
      if (!file) {
        bytes = miras_save_to(m, NULL, 0);
        file = (unsigned char *)malloc(bytes);
        assert_int_equal(miras_save_to(m, file, bytes), bytes);
      }
      assert_int_equal(miras_load_from(m, file, bytes, NULL, 0), MIRAS_OK);
      few_rows(m, NULL, alone);
      assert_true(alone[0] != 0);
      for (threads = first_of(5, form); threads <= 5; threads = next_of(threads, 5)) {
        const miras_parallel *pool = miras_pool_open(threads, NULL, NULL, 0);
        memset(shared, 0, sizeof shared);
        few_rows(m, pool, shared);
        if (memcmp(alone, shared, sizeof alone))
          fail_msg("%s, weights %d: %d threads give other bits",
                   miras_preset_name(kinds[kind]), form, threads);
        miras_pool_close(pool);
      }
      miras_close(m);
    }
    free(file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(memories_on_their_own_threads),   /* first: before anything is cached */
    cmocka_unit_test(pool_runs_each_task_once),
    cmocka_unit_test(pool_survives_many_tiny_runs),
    cmocka_unit_test(pools_come_and_go),
    cmocka_unit_test(pool_refuses_wrong_counts),
    cmocka_unit_test(a_child_works_without_the_pool),
    cmocka_unit_test(threads_of_a_pool_take_no_signal),
    cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
    cmocka_unit_test(any_order_of_tasks_gives_the_same_bits),
    cmocka_unit_test(a_memory_shares_its_heads_out),
    cmocka_unit_test(a_job_system_is_checked),
    cmocka_unit_test(sessions_share_a_model),
    cmocka_unit_test(texts_share_the_work_of_a_call),
    cmocka_unit_test(columns_of_a_product_are_shared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
