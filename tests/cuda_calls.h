/* cuda_calls.h: calls on a memory by the host, by the engine on the device, and by the kernels that
 * the device has in its place, and how far what they make differs. For tests, one of them a
 * program. */
#ifndef __CUDACC__
  #include "cuda_shim.h"
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
static unsigned block = 128;       /* threads of it                                               */
#define MIRAS_CUDA_THREADS block
#define MIRAS_CUDA_MOST 256
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#define MIRAS_TEST_DEVICE (1 << 26)
#include "cuda_device.h"
#include <stdio.h>


/* Memory of the host, all of which is given back at once. */
static void *held_floats[4096];
static size_t held_count;
static float *host_floats(size_t floats) {
  float *p = (float *)calloc(floats + 1, sizeof(float));
  if (!p || held_count == sizeof held_floats / sizeof held_floats[0]) exit(2);
  held_floats[held_count++] = p;
  return p;
}
static void give_back(void) {
  while (held_count) free(held_floats[--held_count]);
}

static uint64_t drawn;
static float draw(float low, float high) {
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (float)(drawn >> 40) / 16777216.0f;
}

/* What a memory makes of its calls: answers of all, states, gradients of the last. */
enum { TENSORS = MIRAS__INPUT_COUNT + 5, CALLS = 4 };
typedef struct made {
  float *of[TENSORS];
  size_t floats[TENSORS];
} made;
static const char *const names[TENSORS] = {"key", "value", "query", "keep", "step", "momentum",
                                           "threshold", "value_keep", "erase", "replace",
                                           "answers", "states", "dparams", "dstate", "a read"};

typedef struct memory_case {
  const char *name;
  miras_memory_desc d;
  int calls[CALLS];                /* tokens of each, the last one with its gradients             */
  int taped, init, edges, odd;     /* init: an initial memory; edges: decays of 0 and 1; odd:
                                      tokens lie at addresses that only floats have               */
} memory_case;

enum { HOST, ENGINE, CHUNKS, WAYS };
static miras_cuda_options options;
static size_t most_shared = 227 << 10;   /* bytes of it that a block may have                     */
static int only = -1;              /* the one gradient of tokens that is asked for; -1: all       */

static float *pass_on(int way, const float *x, size_t n, int odd) {
  float *p;
  if (way == HOST) return (float *)(uintptr_t)x;
  p = take(n + 1) + odd;
  STOP_IF(cudaMemcpyAsync(p, x, n * sizeof(float), cudaMemcpyHostToDevice, 0));
  return p;
}

static void keep(made *to, int slot, int way, const float *from, size_t floats) {
  to->floats[slot] = floats;
  to->of[slot] = host_floats(floats);
  if (way == HOST) memcpy(to->of[slot], from, floats * sizeof(float));
  else if (cudaMemcpyAsync(to->of[slot], from, floats * sizeof(float), cudaMemcpyDeviceToHost, 0) ||
           cudaDeviceSynchronize())
    stop(__FILE__, __LINE__);
}

/* Does it run in chunks, and its adjoint? Of that the test says where it has to. */
static int back_expected(const miras_memory_desc *d);
static int in_chunks(const miras_cuda_memory *g) {
  const miras__held *held = miras__cuda_held(g);
  return miras__cuda_chunks_for(&held->m.plan, &held->options, held->shared).grid != NULL;
}
static int back_in_chunks(const miras_cuda_memory *g) {
  const miras__held *held = miras__cuda_held(g);
  return miras__cuda_chunks_back_for(&held->m.plan, &held->options, held->shared).grid != NULL;
}

static int run(const memory_case *c, int way, made *to) {
  miras_memory *m = miras_memory_open(&c->d, NULL, NULL, 0);
  miras_cuda_memory g;
  miras_memory_input x;
  miras_memory_input_grad dx;
  const float **input = &x.key;
  float **gradient = &dx.key, *in[MIRAS__INPUT_COUNT], *out[MIRAS__INPUT_COUNT], *y, *dy, *tape;
  float *dparams, *dstate, *ends, *query, *answer, *state;
  const size_t tasks = (size_t)(c->d.batch * c->d.heads), dv = (size_t)c->d.value_dim;
  size_t params, weights, bytes, i, k, all = 0, call, done;
  miras_result r = MIRAS_OK;
  if (!m || c->d.batch != 1) return 1;
  take_back();
  drawn = 29;
  memset(to, 0, sizeof *to);
  memset(&x, 0, sizeof x);
  memset(&dx, 0, sizeof dx);
  for (call = 0; call < CALLS; call++) all += (size_t)c->calls[call];
  (void)miras_memory_params(m, &params);
  weights = miras_memory_grad_state_size(m);
  for (i = 0; c->init && i < params; i++) m->params[i] = draw(-0.3f, 0.3f);
  if (way != HOST) {
    bytes = miras_cuda_memory_size(m, &options, NULL, 0);
    if (!bytes ||
        miras_cuda_memory_init(&g, m, &options, take(bytes / sizeof(float) + 1), bytes, 0))
      return 1;
    ((miras__held *)(void *)g.held)->shared =
      way == ENGINE ? 0 : most_shared < miras__cuda_shared() ? most_shared : miras__cuda_shared();
    if (in_chunks(&g) != (way == CHUNKS) ||
        back_in_chunks(&g) != (way == CHUNKS && back_expected(&c->d)))
      return 1;
  }
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) {
    const size_t n = all * tasks * m->width[i];
    float *p = host_floats(n);
    for (k = 0; k < n; k++) {
      p[k] = i == 3 ? draw(0.8f, 1) : i == 4 ? draw(0.3f, 0.9f) : draw(-0.5f, 0.5f);
      if (i == 3 && c->edges && k % 23 == 11) p[k] = k % 2 ? 0 : 1;
    }
    in[i] = pass_on(way, p, n, c->odd);
    out[i] = way == HOST ? host_floats(n) : take(n);
  }
  y = way == HOST ? host_floats(all * tasks * dv) : take(all * tasks * dv);
  for (call = done = 0; call < CALLS; done += (size_t)c->calls[call++]) {
    const int last = call + 1 == CALLS;
    if (!c->calls[call]) continue;
    x.length = c->calls[call];
    for (i = 0; i < MIRAS__INPUT_COUNT; i++) {
      const size_t at = done * tasks * m->width[i];
      input[i] = m->width[i] ? in[i] + at : NULL;
      gradient[i] = m->width[i] && (only < 0 || only == (int)i) ? out[i] + at : NULL;
    }
    tape = NULL;
    if (last && c->taped) {
      const size_t n = way == HOST ? miras_memory_tape_size(m, x.length)
                                   : miras_cuda_memory_tape_size(&g, x.length);
      tape = way == HOST ? host_floats(n) : take(n);
    }
    r = way == HOST ? miras_memory_forward(m, &x, y + done * tasks * dv, tape)
                    : miras_cuda_memory_forward(&g, &x, y + done * tasks * dv, tape, 0);
    if (r != MIRAS_OK) return 1;
    if (!tape) continue;
    dy = host_floats((size_t)x.length * tasks * dv);
    dparams = host_floats(params);
    dstate = host_floats(weights);
    for (k = 0; k < (size_t)x.length * tasks * dv; k++) dy[k] = draw(-1, 1);
    for (k = 0; k < weights; k++) dstate[k] = draw(-1, 1);
    dy = pass_on(way, dy, (size_t)x.length * tasks * dv, 0);
    dparams = pass_on(way, dparams, params, 0);
    dstate = pass_on(way, dstate, weights, 0);
    ends = all % (size_t)c->d.chunk ? NULL : dstate;
    r = way == HOST ? miras_memory_backward(m, &x, tape, dy, &dx, dparams, ends)
                    : miras_cuda_memory_backward(&g, &x, tape, dy, &dx, dparams, ends, 0);
    if (r != MIRAS_OK) return 1;
    for (i = 0; i < MIRAS__INPUT_COUNT; i++)
      if (gradient[i]) keep(to, (int)i, way, gradient[i], (size_t)x.length * tasks * m->width[i]);
    keep(to, MIRAS__INPUT_COUNT + 2, way, dparams, params);
    keep(to, MIRAS__INPUT_COUNT + 3, way, dstate, weights);
  }
  keep(to, MIRAS__INPUT_COUNT, way, y, all * tasks * dv);
  query = host_floats(tasks * (size_t)c->d.key_dim);
  for (k = 0; k < tasks * (size_t)c->d.key_dim; k++) query[k] = draw(-1, 1);
  query = pass_on(way, query, tasks * (size_t)c->d.key_dim, 0);
  answer = way == HOST ? host_floats(tasks * dv) : take(tasks * dv);
  if (way == HOST) miras_memory_read(m, query, answer);
  else r = miras_cuda_memory_read(&g, query, answer, 0);
  keep(to, MIRAS__INPUT_COUNT + 4, way, answer, tasks * dv);
  if (way != HOST && miras_cuda_memory_copy(m, &g, 0) != MIRAS_OK) return 1;
  if (r != MIRAS_OK || cudaDeviceSynchronize() || miras_memory_position(m) != all) return 1;
  state = host_floats(tasks * m->plan.weights);
  for (i = 0; i < tasks; i++)
    memcpy(state + i * m->plan.weights, m->state + 16 + i * m->plan.head_state,
           m->plan.weights * sizeof(float));
  keep(to, MIRAS__INPUT_COUNT + 1, HOST, state, tasks * m->plan.weights);
  miras_close(m);
  return 0;
}

/* Root of the mean square of the difference, over that of the values. */
static double off_by(const float *a, const float *b, size_t n) {
  double off = 0, size = 0;
  size_t i;
  for (i = 0; i < n; i++) {
    off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    size += (double)a[i] * (double)a[i];
  }
  return size > 0 ? sqrt(off / size) : sqrt(off);
}

/* What products promise, gathered over the rows of a call. */
static const double allowed[] = {0, 2e-4, 2e-2};

static unsigned compare(const memory_case *c) {
  made of[WAYS];
  double worst[2] = {0, 0};
  unsigned failed = 0;
  int way, i;
  printf("%-28s %3d x %3d, chunk %2d, %3u threads, bf16%s, ", c->name, c->d.key_dim, c->d.value_dim,
         c->d.chunk, block, options.products == MIRAS_CUDA_BF16 ? "" : "x3");
  for (way = 0; way < WAYS; way++)
    if (run(c, way, &of[way])) return printf("does not run (%d)\n", way), 1u;
  for (i = 0; i < TENSORS; i++)
    for (way = HOST; way < CHUNKS; way++) {
      const double off = off_by(of[way].of[i], of[CHUNKS].of[i], of[way].floats[i]);
      if (off > worst[way]) worst[way] = off;
      if (off <= allowed[options.products]) continue;
      printf("\n  %s: %.1e from the %s's", names[i], off, way == HOST ? "host" : "engine");
      failed++;
    }
  give_back();
  printf("%.1e from the host, %.1e from the engine%s\n", worst[0], worst[1],
         failed ? ": DIFFERS" : "");
  return failed != 0;
}

static void row_of(memory_case *c, const char *name, miras_preset kind, int key, int value,
                   int chunk) {
  memset(c, 0, sizeof *c);
  c->name = name;
  (void)miras_memory_preset(&c->d, kind);
  c->d.batch = 1, c->d.heads = 1, c->d.key_dim = key, c->d.value_dim = value, c->d.chunk = chunk;
}
static void gates(memory_case *c, miras_gate decay_gate, miras_gate learning_rate_gate) {
  c->d.decay_gate = decay_gate, c->d.learning_rate_gate = learning_rate_gate;
}
