/* test_cuda_segments.cpp: segments of a sequence side by side (options.segments) against the
 * host, which runs them one after the other: answers, states and every gradient of a call at the
 * sequence's start and of one that follows, in float, up to rounding; what is refused says so.
 *   c++ -std=c++11 -O1 -ffp-contract=off tests/test_cuda_segments.cpp -o test_cuda_segments -lm
 *   nvcc -O3 -rdc=true -fmad=false -arch=native -x cu tests/test_cuda_segments.cpp
 * Names of rows as arguments run these alone. */
#ifndef __CUDACC__
  #include "cuda_shim.h"
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
static unsigned block = 32;        /* threads of it                                               */
#define MIRAS_CUDA_THREADS block
#define MIRAS_CUDA_MOST 128
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#define MIRAS_TEST_DEVICE (1 << 27)
#include "cuda_device.h"
#include <stdio.h>

static float *send(const float *from, size_t floats) {
  float *p = take(floats);
  STOP_IF(cudaMemcpyAsync(p, from, floats * sizeof(float), cudaMemcpyHostToDevice, 0));
  return p;
}
static float *host_floats(size_t floats) {
  float *p = (float *)calloc(floats + 1, sizeof(float));
  if (!p) stop(__FILE__, __LINE__);
  return p;
}

enum { BATCH = 2, HEADS = 2 };

static uint64_t drawn;
static float draw(float low, float high) {
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  return low + (high - low) * (float)(drawn >> 40) / 16777216.0f;
}

/* Root of the mean square of the difference over that of the values; what is worse is told of. */
static double worst, allowed = 2e-5;
static miras_cuda_options options;   /* of the memories on the device                             */
static uint64_t bits;                /* of all b                                                  */
static unsigned differs(const char *what, const char *part, const float *a, const float *b,
                        size_t n) {
  double off = 0, size = 0;
  size_t i;
  if (!a || !n) return 0;
  for (i = 0; i < n; i++) {
    const double d = (double)a[i] - (double)b[i];
    uint32_t word;
    memcpy(&word, b + i, sizeof word);
    bits = (bits ^ word) * 1099511628211u;
    off += d * d;
    size += (double)a[i] * (double)a[i];
  }
  off = size > 0 ? sqrt(off / size) : sqrt(off);
  if (off > worst) worst = off;
  if (off < allowed) return 0;                      /* NaN too is told of */
  printf("%s: %s is %g of its size off (%g)\n", what, part, off, sqrt(size / (double)n));
  return 1;
}

static const char *const names[] = {"key", "value", "query", "keep", "step", "momentum",
                                    "threshold", "value_keep", "erase", "replace"};

/* What a call of the host reads and writes. */
typedef struct call {
  int length;
  miras_memory_input x;
  miras_memory_input_grad g;
  float *in[MIRAS__INPUT_COUNT], *grad[MIRAS__INPUT_COUNT], *y, *dy;
  size_t floats[MIRAS__INPUT_COUNT], out;
} call;

static void call_make(call *c, const miras_memory *m, int length) {
  const miras_memory_desc *d = &m->plan.d;
  const size_t rows = (size_t)(d->batch * d->heads * length);
  const float **x = &c->x.key;
  float **g = &c->g.key;
  size_t i, k;
  memset(c, 0, sizeof *c);
  c->length = c->x.length = length;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) {
    const size_t n = c->floats[i] = rows * m->width[i];
    if (!n) continue;
    c->in[i] = host_floats(n);
    c->grad[i] = host_floats(n);
    x[i] = c->in[i];
    g[i] = c->grad[i];
    for (k = 0; k < n; k++)
      c->in[i][k] = i == 3 ? draw(0.9f, 1) : i == 4 ? draw(0.3f, 0.9f) :
                    draw(i < 3 ? -0.5f : -0.2f, i < 3 ? 0.5f : 0.2f);
  }
  c->out = rows * (size_t)d->value_dim;
  c->y = host_floats(c->out);
  c->dy = host_floats(c->out);
  for (k = 0; k < c->out; k++) c->dy[k] = draw(-1, 1);
}

static void call_free(call *c) {
  size_t i;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) {
    free(c->in[i]);
    free(c->grad[i]);
  }
  free(c->y);
  free(c->dy);
}

/* On the device: forward with a tape or without, then backward with it. */
typedef struct there {
  miras_memory_input x;
  miras_memory_input_grad g;
  float *y, *tape;
} there;

static unsigned send_forward(const miras_cuda_memory *m, const call *c, there *t, int taped) {
  const float **x = &t->x.key;
  float **g = &t->g.key;
  size_t i;
  memset(t, 0, sizeof *t);
  t->x.length = c->length;
  for (i = 0; i < MIRAS__INPUT_COUNT; i++) {
    if (!c->floats[i]) continue;
    x[i] = send(c->in[i], c->floats[i]);
    g[i] = take(c->floats[i]);
  }
  t->y = take(c->out);
  if (taped) {
    const size_t floats = miras_cuda_memory_tape_size(m, c->length);
    if (!floats) return 1;
    t->tape = take(floats);
  }
  return miras_cuda_memory_forward(m, &t->x, t->y, t->tape, 0) != MIRAS_OK;
}

static unsigned same_call(const char *what, const call *c, const there *t) {
  float *const *g = &t->g.key;
  float *here = host_floats(c->out);
  unsigned failed;
  size_t i;
  if (cudaMemcpyAsync(here, t->y, c->out * sizeof(float), cudaMemcpyDeviceToHost, 0) ||
      cudaDeviceSynchronize())
    return 1;
  failed = differs(what, "y", c->y, here, c->out);
  free(here);
  for (i = 0; i < MIRAS__INPUT_COUNT && t->tape; i++) {
    if (!c->floats[i]) continue;
    here = host_floats(c->floats[i]);
    if (cudaMemcpyAsync(here, g[i], c->floats[i] * sizeof(float), cudaMemcpyDeviceToHost, 0) ||
        cudaDeviceSynchronize())
      return 1;
    failed += differs(what, names[i], c->grad[i], here, c->floats[i]);
    free(here);
  }
  return failed;
}

/* States of all heads, as they are between two tokens. */
static void states(const miras_memory *m, float *to) {
  const miras__plan *p = &m->plan;
  size_t i;
  for (i = 0; i < (size_t)(p->d.batch * p->d.heads); i++)
    memcpy(to + i * p->weights,
           m->state + i / (size_t)p->d.heads * p->sequence_state + 16 +
             i % (size_t)p->d.heads * p->head_state,
           p->weights * sizeof(float));
}

/* Calls that lack something; and whether a call runs in segments, as the size of its tape tells. */
static unsigned wrong_arguments(const char *what, const miras_cuda_memory *g,
                                const miras_cuda_memory *serial, int segments, int length) {
  static float numbers[1];
  const int most = segments * length;
  const float **pointer;
  miras_memory_input x;
  miras_memory_input_grad none;
  unsigned ok;
  int i;
  memset(&x, 0, sizeof x);
  memset(&none, 0, sizeof none);
  for (pointer = &x.key, i = 0; i < MIRAS__INPUT_COUNT; i++) pointer[i] = numbers;
  ok = miras_cuda_memory_tape_size(g, most) != miras_cuda_memory_tape_size(serial, most);
  for (i = 0; i < 4; i++) {
    const int other = i == 0 ? 0 : i == 1 ? length + 1 : i == 2 ? most + length : length;
    ok = ok && miras_cuda_memory_tape_size(g, other) == miras_cuda_memory_tape_size(serial, other);
  }
  x.length = most;
  ok = ok && miras_cuda_memory_forward(NULL, &x, numbers, NULL, 0) == MIRAS_ERR_ARGUMENT &&
       miras_cuda_memory_forward(g, NULL, numbers, NULL, 0) == MIRAS_ERR_ARGUMENT &&
       miras_cuda_memory_forward(g, &x, NULL, NULL, 0) == MIRAS_ERR_ARGUMENT &&
       miras_cuda_memory_backward(g, &x, NULL, numbers, &none, NULL, NULL, 0) ==
         MIRAS_ERR_ARGUMENT &&
       miras_cuda_memory_backward(g, &x, numbers, NULL, &none, NULL, NULL, 0) ==
         MIRAS_ERR_ARGUMENT &&
       miras_cuda_memory_backward(g, &x, numbers, numbers, NULL, NULL, NULL, 0) ==
         MIRAS_ERR_ARGUMENT;
  x.key = NULL;
  ok = ok && miras_cuda_memory_forward(g, &x, numbers, NULL, 0) == MIRAS_ERR_ARGUMENT &&
       miras_cuda_memory_backward(g, &x, numbers, numbers, &none, NULL, NULL, 0) ==
         MIRAS_ERR_ARGUMENT;
  if (!ok) printf("%s: a wrong argument is not refused\n", what);
  return !ok;
}

/* A first call of `before` segments without a tape, -1: of one, which runs without; then one of
 * `count` with it. */
static unsigned compare(const char *what, const miras_memory_desc *d, int length, int before,
                        int count, int ends) {
  miras_memory *m = miras_memory_open(d, NULL, NULL, 0),
               *back = miras_memory_open(d, NULL, NULL, 0);
  const int segments = before > count ? before : count;
  miras_cuda_options with = options;
  miras_cuda_memory g, serial;
  call c[2];
  there t[2];
  size_t bytes, params, weights, i;
  float *tape, *dparams[2], *dstate[2], *state[2], *room;
  float *there_params, *there_state = NULL;
  unsigned failed = 0;
  char why[256];
  if (!m || !back) return 1;
  take_back();
  drawn = 17;
  (void)miras_memory_params(m, &params);
  for (i = 0; i < params; i++) m->params[i] = draw(-0.3f, 0.3f);
  for (i = 0; d->normalize && i < params; i++) m->params[i] = draw(0.1f, 0.5f);
  bytes = miras_cuda_memory_size(m, &options, NULL, 0);
  room = take(bytes / sizeof(float) + 1);
  if (miras_cuda_memory_init(&serial, m, &options, room, bytes, 0) != MIRAS_OK) return 1;
  with.segments = segments;
  with.segment_length = length;
  bytes = miras_cuda_memory_size(m, &with, why, sizeof why);
  if (!bytes) {
    printf("%s: %s\n", what, why);
    return 1;
  }
  room = take(bytes / sizeof(float) + 1);
  if (miras_cuda_memory_init(&g, m, &with, room, bytes - 1, 0) != MIRAS_ERR_SIZE ||
      miras_cuda_memory_init(&g, m, &with, room, bytes, 0) != MIRAS_OK)
    return 1;
  failed += wrong_arguments(what, &g, &serial, segments, length);
  if (before) {
    call_make(&c[0], m, before < 0 ? length : before * length);
    if (miras_memory_forward(m, &c[0].x, c[0].y, NULL) != MIRAS_OK) return 1;
    failed += send_forward(&g, &c[0], &t[0], 0) ||
              same_call(what, &c[0], &t[0]);
    call_free(&c[0]);
  }
  call_make(&c[1], m, count * length);
  tape = host_floats(miras_memory_tape_size(m, count * length));
  weights = miras_memory_grad_state_size(m);
  for (i = 0; i < 2; i++) {
    dparams[i] = host_floats(params);
    dstate[i] = host_floats(weights);
    state[i] = host_floats(weights);
  }
  for (i = 0; i < params; i++) dparams[0][i] = draw(-1, 1);          /* is added to */
  for (i = 0; i < weights; i++) dstate[0][i] = draw(-1, 1);
  there_params = send(dparams[0], params);
  if (ends) there_state = send(dstate[0], weights);
  if (miras_memory_forward(m, &c[1].x, c[1].y, tape) != MIRAS_OK ||
      miras_memory_backward(m, &c[1].x, tape, c[1].dy, &c[1].g, dparams[0],
                     ends ? dstate[0] : NULL) != MIRAS_OK)
    return 1;
  if (send_forward(&g, &c[1], &t[1], 1) ||
      miras_cuda_memory_backward(&g, &t[1].x, t[1].tape, send(c[1].dy, c[1].out), &t[1].g,
                                 there_params, there_state, 0) != MIRAS_OK) {
    printf("%s: a call is refused\n", what);
    return 1;
  }
  failed += same_call(what, &c[1], &t[1]);
  if (cudaMemcpyAsync(dparams[1], there_params, params * sizeof(float), cudaMemcpyDeviceToHost,
                      0) ||
      (ends && cudaMemcpyAsync(dstate[1], there_state, weights * sizeof(float),
                               cudaMemcpyDeviceToHost, 0)) ||
      miras_cuda_memory_copy(back, &g, 0) != MIRAS_OK || cudaDeviceSynchronize())
    return 1;
  failed += differs(what, "dparams", dparams[0], dparams[1], params);
  if (ends) failed += differs(what, "dstate", dstate[0], dstate[1], weights);
  states(m, state[0]);
  states(back, state[1]);
  failed += differs(what, "state", state[0], state[1], weights);
  if (miras_memory_position(back) != miras_memory_position(m)) {
    printf("%s: the memory stands at another position\n", what);
    failed++;
  }
  call_free(&c[1]);
  for (i = 0; i < 2; i++) {
    free(dparams[i]);
    free(dstate[i]);
    free(state[i]);
  }
  free(tape);
  miras_close(back);
  miras_close(m);
  return failed;
}

/* A gate as it is asked for, where the row has it and it is not for a value's channels of l2. */
static void one_gate(miras_memory_desc *d, miras_gate *field, miras_gate gate) {
  const miras_gate own = *field;
  *field = gate;
  if (!miras_memory_size(d, NULL, 0) ||
      (field == &d->learning_rate_gate && d->bias == MIRAS_BIAS_L2 && gate == MIRAS_GATE_CHANNEL))
    *field = own;
}

static void row_of(miras_memory_desc *d, miras_preset kind, int chunk, miras_gate gates) {
  (void)miras_memory_preset(d, kind);
  d->batch = BATCH;
  d->heads = HEADS;
  d->key_dim = 12;
  d->value_dim = d->architecture == MIRAS_ARCH_MATRIX ? 20 : 12;
  d->chunk = chunk;
  if (gates == MIRAS_GATE_CONSTANT) return;
  one_gate(d, &d->decay_gate, gates);
  one_gate(d, &d->learning_rate_gate, gates);
}

static unsigned runs, refusals;

/* One memory, or a sentence that says `because`. */
static unsigned one(const char *row, const char *with, const miras_memory_desc *d, int length,
                    int before, int count, int ends, const char *because) {
  const size_t bytes = miras_memory_size(d, NULL, 0);
  unsigned failed;
  char what[256], why[256];
  miras_memory *m;
  snprintf(what, sizeof what, "%s%s, chunk %d, %d and %d segments of %d", row, with, d->chunk,
           before, count, length);
  if (!bytes) return printf("%s: is no memory\n", what), 1u;
  if (!because) {
    runs++;
    worst = 0;
    failed = compare(what, d, length, before, count, ends);
    if (!failed) printf("%s: %.1e\n", what, worst);
    return failed;
  }
  refusals++;
  m = miras_memory_open(d, NULL, NULL, 0);
  {
    miras_cuda_options with = options;
    with.segments = count;
    with.segment_length = length;
    failed = miras_cuda_memory_size(m, &with, why, sizeof why) != 0 || !strstr(why, because);
  }
  printf("%s: %s%s\n", what, why, failed ? ", WHICH IS NOT THE REASON" : "");
  miras_close(m);
  return failed;
}

/* Every row of the table as it is, with gates of tokens and of channels. */
static unsigned table(int argc, char **argv) {
  static const struct {
    int chunk, length, before, count, ends, threads;
    miras_gate gates;
  } pass[] = {
    {1, 16, 0, 5, 0, 32, MIRAS_GATE_CONSTANT}, {16, 32, 2, 3, 1, 64, MIRAS_GATE_HEAD},
    {64, 64, 0, 3, 1, 64, MIRAS_GATE_HEAD}, {1, 24, 3, 2, 1, 64, MIRAS_GATE_CHANNEL},
    {12, 24, -1, 3, 1, 96, MIRAS_GATE_CHANNEL}, {16, 32, 0, 3, 1, 128, MIRAS_GATE_HEAD},
    {1, 20, 2, 2, 1, 128, MIRAS_GATE_CHANNEL}};     /* of 128 threads: in chunks on matrix units */
  unsigned failed = 0, i;
  int kind;
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++)
    for (i = 0; i < sizeof pass / sizeof pass[0]; i++) {
      const char *row = miras_preset_name((miras_preset)kind), *because = NULL;
      miras_memory_desc d;
      if (!asked(argc, argv, row)) continue;
      row_of(&d, (miras_preset)kind, pass[i].chunk, pass[i].gates);
      if (d.value_decay_gate) because = "value_decay_gate";
      if (d.architecture != MIRAS_ARCH_MATRIX || d.algorithm == MIRAS_ALGORITHM_LEAST_SQUARES ||
          d.algorithm == MIRAS_ALGORITHM_RECURSIVE || d.bias > MIRAS_BIAS_L2 ||
          d.retention > MIRAS_RETENTION_L2)
        because = "architecture";
      if (because && i) break;
      if (i == 6 && kind != MIRAS_PRESET_GLA_MEMORY && kind != MIRAS_PRESET_KDA_MEMORY) break;
      block = (unsigned)pass[i].threads;
      options.products = block == 128 ? MIRAS_CUDA_BF16X3 : MIRAS_CUDA_FLOAT;
      allowed = block == 128 ? 3e-4 : 2e-5;
      failed += one(row, "", &d, pass[i].length, pass[i].before, pass[i].count, pass[i].ends,
                    because);
      options.products = MIRAS_CUDA_FLOAT;
      allowed = 2e-5;
    }
  return failed;
}

/* Choices that no row makes. */
static unsigned choices(int argc, char **argv) {
  static const miras_preset kinds[] = {MIRAS_PRESET_GLA_MEMORY, MIRAS_PRESET_GATED_DELTANET,
                                       MIRAS_PRESET_LONGHORN, MIRAS_PRESET_RWKV7_MEMORY,
                                       MIRAS_PRESET_GATED_DELTAPRODUCT};
  enum { ALL = 5, TWO = 2 };
  static const struct { const char *name; size_t at; int value; unsigned rows; } choice[] = {
    {"decay_target", offsetof(miras_memory_desc, decay_target), MIRAS_DECAY_TARGET_ZERO, ALL},
    {"order", offsetof(miras_memory_desc, order), MIRAS_ORDER_ERROR_FIRST, ALL},
    {"order", offsetof(miras_memory_desc, order), MIRAS_ORDER_DECAY_FIRST, ALL},
    {"feature_map", offsetof(miras_memory_desc, feature_map), MIRAS_FN_SOFTMAX, TWO},
    {"feature_map", offsetof(miras_memory_desc, feature_map), MIRAS_FN_POLY2, TWO},
    {"qk_norm", offsetof(miras_memory_desc, qk_norm), MIRAS_QK_NORM_NONE, ALL},
    {"step_bound", offsetof(miras_memory_desc, step_bound), 0, ALL},
    {"step_bound", offsetof(miras_memory_desc, step_bound), 1, ALL},
    {"diagonal", offsetof(miras_memory_desc, diagonal), 1, ALL},
    {"normalize", offsetof(miras_memory_desc, normalize), 1, TWO},
    {"value_dim", offsetof(miras_memory_desc, value_dim), 70, TWO},
    {"key_dim", offsetof(miras_memory_desc, key_dim), 68, TWO}};
  unsigned failed = 0, k, i, pass;
  for (k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    for (i = 0; i < sizeof choice / sizeof choice[0]; i++)
      for (pass = 0; pass < 2; pass++) {
        miras_memory_desc d;
        int own;
        char with[64];
        if (k >= choice[i].rows || !asked(argc, argv, miras_preset_name(kinds[k]))) continue;
        row_of(&d, kinds[k], pass ? 1 : 8, MIRAS_GATE_HEAD);
        memcpy(&own, (char *)&d + choice[i].at, sizeof own);
        if (own == choice[i].value) continue;
        memcpy((char *)&d + choice[i].at, &choice[i].value, sizeof own);
        if (d.normalize)
          d.feature_map = MIRAS_FN_ELU, d.decay_target = (miras_decay_target)pass;
        if (d.feature_map == MIRAS_FN_POLY2) d.key_dim = 6;
        if (d.diagonal && d.algorithm != MIRAS_ALGORITHM_IMPLICIT) continue;
        if (!miras_memory_size(&d, NULL, 0)) continue;
        snprintf(with, sizeof with, ", %s %d", choice[i].name, choice[i].value);
        block = 64;
        failed += one(miras_preset_name(kinds[k]), with, &d, 24, (int)pass, 3, 1, NULL);
      }
  return failed;
}

/* The same bits in blocks of another size, and in any order of their threads. */
static unsigned repeated(void) {
  static const miras_preset kinds[] = {MIRAS_PRESET_GLA_MEMORY, MIRAS_PRESET_GATED_DELTANET,
                                       MIRAS_PRESET_GATED_DELTAPRODUCT};
  unsigned failed = 0, i;
  for (i = 0; i < 2 * sizeof kinds / sizeof kinds[0]; i++) {
    const miras_preset kind = kinds[i / 2];
    uint64_t first;
    miras_memory_desc d;
    row_of(&d, kind, i % 2 ? 1 : 8, MIRAS_GATE_HEAD);
    bits = 0;
    block = 32;
    failed += one(miras_preset_name(kind), ", blocks of 32", &d, 24, 1, 3, 1, NULL);
    first = bits;
    bits = 0;
    block = 96;
    failed += one(miras_preset_name(kind), ", blocks of 96", &d, 24, 1, 3, 1, NULL);
    if (first == bits) continue;
    printf("%s: the bits differ\n", miras_preset_name(kind));
    failed++;
  }
  return failed;
}

/* What is refused. */
static unsigned refused(void) {
  unsigned failed = 0;
  miras_memory_desc d;
  row_of(&d, MIRAS_PRESET_GATED_DELTANET, 8, MIRAS_GATE_HEAD);
  failed += one("gated-deltanet", "", &d, 24, 0, 1, 0, "segments is 1");
  failed += one("gated-deltanet", "", &d, 24, 0, 0, 0, "segments is 0");
  failed += one("gated-deltanet", "", &d, 0, 0, 2, 0, "segment_length is 0");
  failed += one("gated-deltanet", "", &d, 28, 0, 2, 0, "multiple of chunk, 8");
  d.learning_rate_gate = MIRAS_GATE_CHANNEL;
  failed += one("gated-deltanet", "", &d, 24, 0, 2, 0, "learning_rate_gate is 2");
  row_of(&d, MIRAS_PRESET_GATED_DELTANET, 8, MIRAS_GATE_HEAD);
  d.reset_every = 64;
  failed += one("gated-deltanet", "", &d, 24, 0, 2, 0, "reset_every is 64");
  row_of(&d, MIRAS_PRESET_GATED_DELTANET, 8, MIRAS_GATE_HEAD);
  d.feature_map = MIRAS_FN_POLY2;
  d.key_dim = 100;
  failed += one("gated-deltanet", "", &d, 24, 0, 2, 0, "feature_map is ");
  row_of(&d, MIRAS_PRESET_DFW, 8, MIRAS_GATE_HEAD);
  d.value_decay_gate = MIRAS_GATE_CHANNEL;
  failed += one("dfw", "", &d, 24, 0, 2, 0, "value_decay_gate is 2");
  row_of(&d, MIRAS_PRESET_GLA_MEMORY, 1, MIRAS_GATE_HEAD);
  options.half_state = 1;
  failed += one("gla", "", &d, 24, 0, 2, 0, "half_state is 1");
  options.half_state = 0;
  return failed;
}

int main(int argc, char **argv) {
  unsigned failed;
  if (!device_ready()) {
    puts("skipped: there is no device");
    return 77;
  }
  failed = table(argc, argv) + choices(argc, argv);
  if (argc < 2) failed += repeated() + refused();
  cudaFree(device);
  printf("%u memories in segments, %u refused: %u differ\n", runs, refusals, failed);
  if (shim_findings()) printf("%u races\n", shim_findings());
  if (argc > 1 && !asked_for) return printf("there is no such row\n"), 1;
  return failed || shim_findings();
}
