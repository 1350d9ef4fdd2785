/* test_cuda.cpp: every row of the table, forward, backward and reads, by the grids of
 * miras_cuda.cuh, with the bits of the host; tokens one at a time; and long calls of rows with
 * gates per channel, off the chunk grid and with decays of 0 and 1.
 *   c++ -std=c++11 -O1 -ffp-contract=off tests/test_cuda.cpp -o test_cuda -lm && ./test_cuda
 *   nvcc -O3 -rdc=true -fmad=false -arch=native -x cu tests/test_cuda.cpp -o test_cuda
 * Without a GPU the threads are fibers whose order is drawn (cuda_shim.h): a kernel that reads what
 * another lane has not stored yet, or adds to a number once per thread, gives other bits in one
 * order or another; an engine that does not go the same way in all threads stops with a sentence.
 * Races are found whatever the order, and whatever the bits, where the compiler tells of accesses:
 *   c++ -std=c++11 -O1 -g1 -fsanitize=thread -c tests/test_cuda.cpp -o test_cuda.o
 *   c++ test_cuda.o -o test_cuda -lm && ./test_cuda                     (cuda_races.h)
 */
#ifndef __CUDACC__
  #include "cuda_shim.h"
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
static unsigned threads = 32;      /* of a block; 0: the host's engines run                       */
#define MIRAS_CUDA_THREADS threads
#define MIRAS_CUDA_MOST 128
#define MIRAS_CUDA_REFERENCE
#define MIRAS_CUDA_NO_FAST
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#define MIRAS_TEST_DEVICE (1 << 26)
#include "cuda_device.h"
#include <stddef.h>
#include <stdio.h>

#ifndef __CUDACC__
static unsigned long waits(void) { return shim_waits; }
#else
static unsigned long waits(void) { return 0; }
#endif

/* The device half of the memory of the last forward pass. */
static miras_cuda_memory on_device;
static float *device_tape;

static float *send(const float *from, size_t floats) {
  float *p;
  if (!from) return NULL;
  p = take(floats);
  STOP_IF(cudaMemcpyAsync(p, from, floats * sizeof(float), cudaMemcpyHostToDevice, 0));
  return p;
}
static void bring(float *to, const float *from, size_t floats) {
  STOP_IF(to && cudaMemcpyAsync(to, from, floats * sizeof(float), cudaMemcpyDeviceToHost, 0));
}

/* So many numbers has a token and head of each input, in the order of miras_memory_input. */
static size_t width_of(const miras_memory *m, int input) { return m->width[input]; }

static miras_memory_input tokens_of(const miras_memory *m, const miras_memory_input *x) {
  const size_t rows = (size_t)(m->plan.d.batch * m->plan.d.heads * x->length);
  miras_memory_input t = *x;
  const float **pointer = &t.key;
  int i;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) pointer[i] = send(pointer[i], rows * width_of(m, i));
  return t;
}

/* Does a read between tokens answer as on the host? */
static miras_result reads(miras_memory *m) {
  static float q[64], host[64], answer[64];
  const size_t rows = (size_t)(m->plan.d.batch * m->plan.d.heads);
  const size_t out = rows * (size_t)m->plan.d.value_dim;
  float *dq, *o = take(out);
  miras_result result;
  int i;
  for (i = 0; i < 64; i++) q[i] = (float)(i % 7 - 3) / 5;
  miras_memory_read(m, q, host);
  dq = send(q, rows * (size_t)m->plan.d.key_dim);
  result = miras_cuda_memory_read(&on_device, dq, o, 0);
  bring(answer, o, out);
  if (cudaDeviceSynchronize()) return MIRAS_ERR_DEVICE;
  if (result != MIRAS_OK || !memcmp(host, answer, out * sizeof(float))) return result;
  return MIRAS_ERR_STATE;
}

static miras_result forward(miras_memory *m, const miras_memory_input *x, float *y, float *tape) {
  const size_t bytes = miras_cuda_memory_size(m, NULL, 0);
  const size_t out = (size_t)(m->plan.d.batch * m->plan.d.heads * x->length * m->plan.d.value_dim);
  miras_memory_input t;
  miras_result result;
  float *dy, *room;
  if (!threads) return miras_memory_forward(m, x, y, tape);
  take_back();
  room = take(bytes / sizeof(float) + 1);
  result = miras_cuda_memory_init(&on_device, m, room, bytes, 0);
  if (result != MIRAS_OK) return result;
  t = tokens_of(m, x);
  dy = take(out);
  device_tape = tape ? take(miras_cuda_memory_tape_size(&on_device, x->length)) : NULL;
  result = miras_cuda_memory_forward(&on_device, &t, dy, device_tape, 0);
  bring(y, dy, out);
  if (result == MIRAS_OK) result = miras_cuda_memory_copy(m, &on_device, 0);
  if (cudaDeviceSynchronize()) return MIRAS_ERR_DEVICE;
  return result == MIRAS_OK ? reads(m) : result;
}

static miras_result backward(miras_memory *m, const miras_memory_input *x, float *tape,
                             const float *dy, const miras_memory_input_grad *dx, float *dparams,
                             float *dstate) {
  const size_t rows = (size_t)(m->plan.d.batch * m->plan.d.heads * x->length);
  size_t count;
  miras_memory_input t;
  miras_memory_input_grad g = *dx;
  float *const *host = &dx->key, **pointer = &g.key, *d;
  miras_result result;
  int i;
  if (!threads) return miras_memory_backward(m, x, tape, dy, dx, dparams, dstate);
  t = tokens_of(m, x);
  for (i = 0; i < MIRAS__INPUT_COUNT; i++)
    pointer[i] = send(pointer[i], rows * width_of(m, i));
  (void)miras_cuda_memory_params(&on_device, &count);
  d = send(dparams, count);
  result = miras_cuda_memory_backward(&on_device, &t, device_tape,
                               send(dy, rows * (size_t)m->plan.d.value_dim), &g, d, NULL, 0);
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) bring(host[i], pointer[i], rows * width_of(m, i));
  bring(dparams, d, count);
  return cudaDeviceSynchronize() ? MIRAS_ERR_DEVICE : result;
}

#define FORWARD forward
#define BACKWARD backward
#include "fingerprint.h"

static const char *change_name;

/* Does one memory have the same bits on the host and in blocks of so many threads? It is counted
 * if not, and told of; what does not combine is left out. */
static unsigned compare(miras_preset kind, int chunk, unsigned block_threads) {
  const unsigned long before = waits();
  uint64_t host = 0, block = 0;
  int refused;
  threads = 0;
  refused = one_memory(kind, chunk, NULL, &host);
  if (refused == 2) return 0;
  threads = block_threads;
  refused |= one_memory(kind, chunk, NULL, &block);
  printf("%-20s chunk %d, gates %d, %u threads, ", miras_preset_name(kind), chunk, (int)token_gates,
         threads);
  if (change_to >= 0) printf("%s %d, ", change_name, change_to);
  printf("%lu waits: %s\n", waits() - before, !refused && host == block ? "the same" : "DIFFERS");
  return refused || host != block;
}

/* Choices that no row makes, one by one in rows that can be made to and stay finite. */
static unsigned changed(int argc, char **argv) {
  static const struct { const char *name; size_t at; int count; } choice[] = {
    {"architecture", offsetof(miras_memory_desc, architecture), MIRAS_ARCH_COUNT},
    {"bias", offsetof(miras_memory_desc, bias), MIRAS_BIAS_COUNT},
    {"retention", offsetof(miras_memory_desc, retention), MIRAS_RETENTION_COUNT},
    {"inner norm", offsetof(miras_memory_desc, inner_norm), 2},
    {"key length", offsetof(miras_memory_desc, qk_norm), MIRAS_QK_NORM_COUNT},
    {"feature_map", offsetof(miras_memory_desc, feature_map), MIRAS_FN_COUNT},
    {"diagonal", offsetof(miras_memory_desc, diagonal), 2},
    {"row rates", offsetof(miras_memory_desc, token_rates), 3}};
  static const struct { miras_preset kind; int chunk; unsigned from, till; } row[] = {
    {MIRAS_PRESET_TITANS, 8, 0, 4}, {MIRAS_PRESET_MEMORA, 8, 0, 4},
    {MIRAS_PRESET_GATED_DELTANET, 8, 0, 7}, {MIRAS_PRESET_LONGHORN, 8, 6, 7},
    {MIRAS_PRESET_TTT_LINEAR_MEMORY, 8, 7, 8}, {MIRAS_PRESET_GLA_MEMORY, 1, 2, 6}};
  unsigned failed = 0, i, r;
  token_gates = MIRAS_GATE_CONSTANT;
  for (r = 0; r < sizeof row / sizeof row[0]; r++)
    for (i = row[r].from; i < row[r].till; i++) {
      miras_memory_desc d;
      int own, j;
      if (!asked(argc, argv, miras_preset_name(row[r].kind))) continue;
      (void)miras_memory_preset(&d, row[r].kind);
      memcpy(&own, (char *)&d + choice[i].at, sizeof own);
      for (j = 0; j < choice[i].count; j++) {
        if (j == own) continue;
        change_at = choice[i].at;
        change_to = j;
        change_name = choice[i].name;
        failed += compare(row[r].kind, row[r].chunk, 64);
      }
    }
  change_to = -1;
  return failed;
}

/* What a close does to weights that are the state itself, and windows of tokens. */
static void with_ball(miras_memory_desc *d) { d->ball = 2; }
static void with_muon(miras_memory_desc *d) {
  d->algorithm = MIRAS_ALGORITHM_MUON;
  d->step_bound = MIRAS_STEP_BOUND_AUTO;
  d->learning_rate = 0.02f;
}
static void with_window(miras_memory_desc *d) {
  d->step_bound = MIRAS_STEP_BOUND_AUTO;
  d->learning_rate = 0.02f;
  d->omega = 4;
}
static void with_all(miras_memory_desc *d) {
  with_muon(d);
  with_ball(d);
  d->omega = 3;
}

static unsigned closes(int argc, char **argv) {
  static const struct { const char *name; void (*change)(miras_memory_desc *d); } how[] = {
    {"ball", with_ball}, {"muon", with_muon}, {"omega", with_window}, {"all three", with_all}};
  unsigned failed = 0, i;
  int chunk;
  if (!asked(argc, argv, "closes")) return 0;
  for (i = 0; i < sizeof how / sizeof how[0]; i++)
    for (chunk = 1; chunk <= 8; chunk += 7) {
      changes = how[i].change;
      printf("%s: ", how[i].name);
      token_gates = chunk > 1 ? MIRAS_GATE_HEAD : MIRAS_GATE_CONSTANT;
      failed += compare(MIRAS_PRESET_TITANS, chunk, 64);
    }
  changes = NULL;
  token_gates = MIRAS_GATE_CONSTANT;
  return failed;
}

/* ---- tokens one at a time ---- */

static size_t states_of(miras_memory *m, float **state) {
  size_t bytes;
  *state = (float *)miras_memory_state(m, &bytes);
  return bytes / sizeof(float);
}

enum { FED = 256 };                  /* tokens                                                    */

/* Keys of length 1, values between -1 and 1, gates of the row; in[i]: [FED, heads, width]. */
static void many_tokens(const miras_memory *m, float **in) {
  static uint32_t seed = 1;
  const size_t rows = (size_t)(FED * m->plan.d.heads), dim = (size_t)m->plan.d.key_dim;
  size_t i, j, k;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) {
    const size_t n = rows * width_of(m, (int)i);
    in[i] = (float *)malloc((n + 1) * sizeof(float));
    if (!in[i]) stop(__FILE__, __LINE__);
    for (j = 0; j < n; j++) {
      seed = seed * 1664525u + 1013904223u;
      in[i][j] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    for (j = 0; i != 1 && j + dim <= n; j += dim) {
      float sum = 0;
      for (k = 0; k < dim; k++) sum += in[i][j + k] * in[i][j + k];
      for (k = 0; k < dim; k++) in[i][j + k] /= sqrtf(sum);
    }
  }
  for (j = 0; j < rows * width_of(m, 8); j++) in[9][j] = -in[8][j] / 2;
}

/* n tokens from t on. */
static miras_memory_input piece(const miras_memory *m, float *const *in, size_t t, int n) {
  miras_memory_input x;
  const float **pointer = &x.key;
  int i;
  memset(&x, 0, sizeof x);
  x.length = n;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++)
    if (width_of(m, i)) pointer[i] = in[i] + t * (size_t)m->plan.d.heads * width_of(m, i);
  return x;
}

/* Tokens one at a time through a matrix that is linear in its state: the host's bits, before and
 * behind a sweep, towards an initial memory, for all gates. */
static unsigned steps(miras_preset kind, int key_dim, int value_dim, miras_gate gates) {
  enum { TOKENS = 66, BATCH = 2, HEADS = 2, MOST = 100 };
  static float own[BATCH * HEADS * MOST], theirs[BATCH * HEADS * MOST];
  miras_cuda_memory g;
  miras_memory *m, *back;
  miras_memory_desc d;
  miras_memory_input x;
  float *in[MIRAS__INPUT_COUNT], *there[MIRAS__INPUT_COUNT], *dy, *room, *state[2], *params;
  size_t bytes, count, n, i, at, t;
  int ok, j;
  (void)miras_memory_preset(&d, kind);
  d.batch = BATCH, d.heads = HEADS, d.key_dim = key_dim, d.value_dim = value_dim, d.chunk = 1;
  if (gates) d.decay_gate = gates, d.learning_rate_gate = gates;
  m = miras_memory_open(&d, NULL, NULL, 0), back = miras_memory_open(&d, NULL, NULL, 0);
  if (!m || !back || !m->plan.fused) return miras_close(m), miras_close(back), 0u;
  params = miras_memory_params(m, &count);
  for (i = 0; gates != MIRAS_GATE_HEAD && i < count; i++) params[i] = (float)(i % 7) / 40 - 0.1f;
  take_back();
  threads = 32;
  bytes = miras_cuda_memory_size(m, NULL, 0);
  room = take(bytes / sizeof(float) + 1);
  ok = miras_cuda_memory_init(&g, m, room, bytes, 0) == MIRAS_OK;
  many_tokens(m, in);                            /* of HEADS: TOKENS times BATCH of them */
  for (j = 0; j < MIRAS__INPUT_COUNT; j++)
    there[j] = send(in[j], (size_t)FED * HEADS * width_of(m, j));
  n = (size_t)(BATCH * HEADS * value_dim);
  dy = take(n);
  for (t = 0; ok && t < TOKENS; t++) {
    at = BATCH * t;                              /* a token of each sequence */
    x = piece(m, in, at, 1);
    miras_memory_forward(m, &x, own, NULL);
    x = piece(m, there, at, 1);
    ok = miras_cuda_memory_forward(&g, &x, dy, NULL, 0) == MIRAS_OK;
    bring(theirs, dy, n);
    ok = ok && !cudaDeviceSynchronize() && !memcmp(own, theirs, n * sizeof(float));
  }
  ok = ok && miras_cuda_memory_copy(back, &g, 0) == MIRAS_OK && !cudaDeviceSynchronize();
  n = states_of(m, &state[0]);
  (void)states_of(back, &state[1]);
  ok = ok && !memcmp(state[0], state[1], n * sizeof(float));
  printf("%-20s %3d x %3d, gates %d, steps: %s\n", miras_preset_name(kind), key_dim, value_dim,
         (int)gates, ok ? "the same" : "DIFFERS");
  for (j = 0; j < MIRAS__INPUT_COUNT; j++) free(in[j]);
  miras_close(m), miras_close(back);
  return !ok;
}

/* ---- long calls ---- */

enum { LONG = 84, MANY = 2 * LONG * H * D, MADE = MIRAS__INPUT_COUNT + 4 };
static float given[MIRAS__INPUT_COUNT][MANY], *made[2][MADE];
static size_t made_size[MADE];

static void keep_made(int slot, const void *from, size_t floats) {
  float **to = &made[threads != 0][slot];
  free(*to);
  *to = (float *)malloc((floats + 1) * sizeof(float));
  if (!*to) stop(__FILE__, __LINE__);
  memcpy(*to, from, floats * sizeof(float));
  made_size[slot] = floats;
}

/* Tokens with decays of 0 and 1, and between them those that leave rows of a block standing. */
static void give(void) {
  int i, j;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) {
    numbers(given[i], MANY, i + 1);
    for (j = 0; j < MANY; j++) {
      float *x = &given[i][j];
      if (i == 3 || i == 7) *x = j % 53 == 7 ? 0 : j % 31 == 5 ? 1 : 1 - 0.1f * *x * *x;
      if (i == 4) *x = 0.3f + *x / 4;
      if (i == 5 || i == 6) *x = 0.5f + *x / 2;
    }
  }
}

/* One memory goes through all tokens in three calls, the middle one off the chunk grid, and then in
 * one with its gradients. 1: a call refuses; 2: it is no memory with channels. */
static int long_memory(miras_preset kind, int chunk) {
  static const int calls[] = {13, 47, LONG - 60};
  static float y[LONG * H * D], dy[LONG * H * D], dx[MIRAS__INPUT_COUNT][MANY], weights[1 << 14];
  miras_memory_input x;
  miras_memory_input_grad g;
  const float **input = &x.key;
  float **gradient = &g.key, *tape = NULL, *dparams = NULL;
  miras_memory_desc d;
  miras_memory *m;
  size_t count;
  int i, call, at = 0, failed = 0;
  memset(&x, 0, sizeof x);
  memset(&g, 0, sizeof g);
  (void)miras_memory_preset(&d, kind);
  d.heads = H, d.key_dim = D, d.chunk = chunk;
  one_gate(&d, &d.decay_gate);
  one_gate(&d, &d.learning_rate_gate);
  one_gate(&d, &d.value_decay_gate);
  m = miras_memory_open(&d, NULL, NULL, 0);
  if (!m || !(m->plan.channel || m->plan.per_feature || m->plan.value_keep)) {
    miras_close(m);
    return 2;
  }
  if (H * m->plan.weights > sizeof weights / sizeof *weights) stop(__FILE__, __LINE__);
  for (call = 0; call < 3; at += calls[call++]) {
    x.length = calls[call];
    for (i = 0; i < MIRAS__INPUT_COUNT; i++) input[i] = given[i] + (size_t)at * H * width_of(m, i);
    failed |= FORWARD(m, &x, y + at * H * m->plan.d.value_dim, NULL) != MIRAS_OK;
  }
  keep_made(0, y, (size_t)(LONG * H * m->plan.d.value_dim));
  for (i = 0; i < H; i++)          /* rows that an open chunk has not filled yet may be anything */
    memcpy(weights + (size_t)i * m->plan.weights, m->state + 16 + (size_t)i * m->plan.head_state,
           m->plan.weights * sizeof(float));
  keep_made(1, weights, H * m->plan.weights);
  miras_memory_reset(m);
  x.length = LONG;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) input[i] = given[i], gradient[i] = dx[i];
  numbers(dy, LONG * H * D, 11);
  memset(dx, 0, sizeof dx);
  (void)miras_memory_params(m, &count);
  tape = (float *)malloc(miras_memory_tape_size(m, LONG) * sizeof(float));
  dparams = (float *)calloc(count + 1, sizeof(float));
  if (!tape || !dparams) stop(__FILE__, __LINE__);
  failed |= FORWARD(m, &x, y, tape) != MIRAS_OK;
  failed |= BACKWARD(m, &x, tape, dy, &g, dparams, NULL) != MIRAS_OK;
  keep_made(2, y, (size_t)(LONG * H * m->plan.d.value_dim));
  keep_made(3, dparams, count);
  for (i = 0; i < MIRAS__INPUT_COUNT; i++)
    keep_made(4 + i, dx[i], (size_t)(LONG * H) * width_of(m, i));
  free(tape);
  free(dparams);
  miras_close(m);
  return failed;
}

/* Has it the host's bits? */
static unsigned long_calls(miras_preset kind, int chunk) {
  int failed, i;
  token_gates = MIRAS_GATE_CHANNEL;
  threads = 0;
  failed = long_memory(kind, chunk);
  if (failed == 2) return 0;
  threads = 96;
  failed |= long_memory(kind, chunk);
  for (i = 0; i < MADE; i++)
    failed |= memcmp(made[0][i], made[1][i], made_size[i] * sizeof(float)) != 0;
  printf("%-20s chunk %d, long calls: %s\n", miras_preset_name(kind), chunk,
         failed ? "DIFFERS" : "the same");
  return failed != 0;
}

int main(int argc, char **argv) {
  static const struct { int chunk, threads; miras_gate gates; } pass[] = {
    {1, 96, MIRAS_GATE_CONSTANT}, {8, 32, MIRAS_GATE_CONSTANT}, {8, 96, MIRAS_GATE_CHANNEL},
    {1, 32, MIRAS_GATE_HEAD}};
  unsigned failed = 0, kind, i;
  if (!strcmp(miras_isa(), "portable")) {
    puts("skipped: without fused multiply-add the host has other bits");
    return 77;
  }
  if (!device_ready()) {
    puts("skipped: there is no device");
    return 77;
  }
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++)
    for (i = 0; i < sizeof pass / sizeof pass[0]; i++) {
      if (!asked(argc, argv, miras_preset_name((miras_preset)kind))) continue;
      token_gates = pass[i].gates;
      failed += compare((miras_preset)kind, pass[i].chunk, (unsigned)pass[i].threads);
    }
  for (kind = MIRAS_PRESET_SIGNALS; kind <= MIRAS_PRESET_EVENTS; kind++)
    for (i = 0; asked(argc, argv, miras_preset_name((miras_preset)kind)) && i < 2; i++) {
      token_gates = pass[i].gates;                 /* their own fields, which their row has not   */
      failed += compare((miras_preset)kind, 1, (unsigned)pass[i].threads);
    }
  for (i = 0; asked(argc, argv, "mamba-memory") && i < 2; i++) {
    token_gates = MIRAS_GATE_ENTRY;                /* which other rows have not got               */
    failed += compare(MIRAS_PRESET_MAMBA_MEMORY, i ? 8 : 1, i ? 32 : 96);
  }
  failed += changed(argc, argv);
  failed += closes(argc, argv);
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++)
    for (i = 0; asked(argc, argv, miras_preset_name((miras_preset)kind)) && i < 3; i++)
      failed += steps((miras_preset)kind, i ? 20 : 72, i == 1 ? 72 : 20, pass[i + 1].gates);
  give();
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++)
    for (i = 16; asked(argc, argv, miras_preset_name((miras_preset)kind)) && i <= 64; i *= 4)
      failed += long_calls((miras_preset)kind, (int)i);
  cudaFree(device);
  printf("%u differ\n", failed);
  if (shim_findings()) printf("%u races\n", shim_findings());
  if (argc > 1 && !asked_for) return printf("there is no such row\n"), 1;
  return failed || shim_findings();
}
