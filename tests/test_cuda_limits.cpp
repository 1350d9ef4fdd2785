/* test_cuda_limits.cpp: what a card refuses, and what miras_cuda.cuh does about it. Grids of every
 * row in heads of 16 to 256, all chunks, gates and products, of models, trainers, segments and
 * running texts are begun on a card that says whether it would, and run none of them
 * (cuda_shim.h). Stacks that something else has taken, errors that were there before, code that
 * is too old for matrix units, tasks that no grid has.
 *   c++ -std=c++11 -O1 tests/test_cuda_limits.cpp -o limits -lm && ./limits */
#include "cuda_shim.h"
#define MIRAS_IMPLEMENTATION
#define MIRAS_ASSERT(x) ((void)(x))   /* a task that no grid has is an error                      */
#include "../miras.h"
static unsigned block = 128;
#define MIRAS_CUDA_THREADS block
#define MIRAS_CUDA_MOST 256
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#include <stdio.h>

static unsigned failed, asked;
static void want(int ok, const char *what) {
  asked++;
  if (ok) return;
  printf("%s\n", what);
  failed++;
}

/* Memory of the device is asked for and never touched. */
static void *device(size_t bytes) {
  void *p = malloc(bytes + 64);
  if (!p) exit(2);
  return (void *)(((uintptr_t)p + 63) / 64 * 64);
}
enum { MOST = 256 };
static float *anything;

/* All calls of a memory that is sent to the card. */
static void calls_of(const miras_memory *m, const miras_cuda_options *o, const char *what) {
  static const int lengths[] = {1, MOST / 2, 7};
  const size_t bytes = miras_cuda_memory_size(m, o, NULL, 0);
  miras_cuda_memory g;
  miras_memory_input_grad dx;
  miras_memory_input x;
  const float **in = &x.key;
  float **out = &dx.key;
  void *room;
  size_t i, k;
  if (!bytes) return;
  room = malloc(bytes);
  if (!room) exit(2);
  want(miras_cuda_memory_init(&g, m, o, room, bytes, 0) == MIRAS_OK, what);
  memset(&x, 0, sizeof x);
  memset(&dx, 0, sizeof dx);
  for (i = 0; i < MIRAS__INPUT_COUNT; i++)
    if (m->width[i]) in[i] = out[i] = anything;
  want(miras_cuda_memory_read(&g, anything, anything, 0) == MIRAS_OK, what);
  for (k = 0; k < sizeof lengths / sizeof *lengths; k++) {
    x.length = lengths[k];
    want(miras_cuda_memory_forward(&g, &x, anything, NULL, 0) == MIRAS_OK, what);
    if (!miras_cuda_memory_tape_size(&g, x.length)) continue;
    want(miras_cuda_memory_forward(&g, &x, anything, anything, 0) == MIRAS_OK, what);
    for (i = 0; i < 2; i++) {        /* alone, and with parameters: their grids differ            */
      want(miras_cuda_memory_backward(&g, &x, anything, anything, &dx, i ? anything : NULL,
                                      anything, 0) == MIRAS_OK,
           what);
      dx.value = NULL;
    }
    dx.value = m->width[1] ? anything : NULL;
  }
  free(room);
}

static void segments_of(const miras_memory *m, const miras_cuda_options *o, const char *what) {
  miras_cuda_options with = *o;
  miras_cuda_memory g;
  miras_memory_input_grad dx;
  miras_memory_input x;
  const float **in = &x.key;
  size_t bytes, i;
  void *room;
  with.segments = 2;
  with.segment_length = MOST / 4;
  bytes = miras_cuda_memory_size(m, &with, NULL, 0);
  if (!bytes) return;
  room = malloc(bytes);
  if (!room || miras_cuda_memory_init(&g, m, &with, room, bytes, 0) != MIRAS_OK) exit(2);
  memset(&x, 0, sizeof x);
  memset(&dx, 0, sizeof dx);
  for (i = 0; i < MIRAS__INPUT_COUNT; i++)
    if (m->width[i]) in[i] = anything;
  x.length = MOST / 2;
  dx.value = anything;
  if (miras_cuda_memory_tape_size(&g, x.length)) {
    float *tape = (float *)malloc(miras_cuda_memory_tape_size(&g, x.length) * sizeof(float));
    want(miras_cuda_memory_forward(&g, &x, anything, tape, 0) == MIRAS_OK, what);
    want(miras_cuda_memory_backward(&g, &x, tape, anything, &dx, anything, anything, 0) ==
           MIRAS_OK, what);
    free(tape);
  }
  free(room);
}

/* Rows, sizes, chunks, gates, products, states of half the bytes. */
static void memories(void) {
  static const int sizes[] = {16, 64, 128, 256}, chunks[] = {1, 16, 64, 128};
  char what[128];
  int i;
  for (i = 0; i < MIRAS_PRESET_ROWS * 4 * 4 * 4 * 4 * 4; i++) {
    const int kind = i % MIRAS_PRESET_ROWS, rest = i / MIRAS_PRESET_ROWS;
    const int gates = rest >> 6 & 3, how = rest >> 8 & 3;
    const miras_cuda_options o = {(miras_cuda_products)(how % 3), how == 3};
    miras_memory *m;
    miras_memory_desc d;
    if (miras_memory_preset(&d, (miras_preset)kind) != MIRAS_OK) exit(2);
    if (d.layers > 1 && (rest & 15) % 5) continue;   /* perceptrons of equal sizes                */
    d.batch = d.heads = 1;
    d.key_dim = sizes[rest & 3], d.value_dim = sizes[rest >> 2 & 3];
    d.chunk = chunks[rest >> 4 & 3];
    if (gates & 1) d.decay_gate = MIRAS_GATE_CHANNEL;
    if (gates & 2) d.value_decay_gate = MIRAS_GATE_CHANNEL;
    m = miras_memory_open(&d, NULL, NULL, 0);
    if (!m) continue;                /* not every row has every gate and chunk                    */
    block = how && kind % 2 ? 256 : 128;
    snprintf(what, sizeof what, "%s, %d x %d, chunk %d, gates %d, products %d, half_state %d",
             miras_preset_name((miras_preset)kind), d.key_dim, d.value_dim, d.chunk, gates,
             (int)o.products, o.half_state);
    calls_of(m, &o, what);
    if (how < 3) segments_of(m, &o, what);
    miras_close(m);
  }
}

/* A step of training and running texts, of every row in layers of two kinds. */
static void models(void) {
  static miras_cuda_trainer t;
  static miras_cuda_session s;
  miras_adamw_options adam = MIRAS_ADAMW(0, 0);
  int i;
  adam.clip = 1;
  for (i = 0; i < MIRAS_PRESET_ROWS * 6; i++) {
    const int kind = i % MIRAS_PRESET_ROWS, rest = i / MIRAS_PRESET_ROWS;
    const miras_cuda_options o = {(miras_cuda_products)(rest % 3), 0};
    const char *what = miras_preset_name((miras_preset)kind);
    miras_trainer_desc room;
    miras_cuda_model g;
    miras_model_desc d;
    miras_model *m;
    miras_batch x;
    void *of_model, *of_trainer;
    size_t bytes;
    if (miras_model_preset(&d, (miras_preset)kind, 0) != MIRAS_OK) exit(2);
    d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = rest < 3 ? 64 : 128;
    d.heads = 1, d.width = rest < 3 ? 64 : 128, d.vocab = 300;
    strcpy(d.pattern, kind % 2 ? "mw" : "mm");
    m = miras_model_open(&d, NULL, NULL, 0);
    if (!m) continue;
    block = 128;
    bytes = miras_cuda_model_size(m, &o, NULL, 0);
    of_model = malloc(bytes);
    want(miras_cuda_model_init(&g, m, &o, of_model, bytes, 0) == MIRAS_OK, what);
    memset(&room, 0, sizeof room);
    room.batch = 2, room.context = MOST;
    bytes = miras_cuda_trainer_size(&g, &room, NULL, 0);
    of_trainer = malloc(bytes);
    want(miras_cuda_trainer_init(&t, &g, &room, of_trainer, bytes, 0) == MIRAS_OK, what);
    memset(&x, 0, sizeof x);
    x.batch = 2, x.length = MOST, x.tokens = x.classes = (int32_t *)(void *)anything;
    want(miras_cuda_trainer_loss(&t, &x, 1, anything, 0) == MIRAS_OK, what);
    want(miras_cuda_trainer_backward(&t, NULL, 0) == MIRAS_OK, what);
    want(miras_cuda_trainer_step(&t, &adam, 0.1f, anything, 0) == MIRAS_OK, what);
    free(of_trainer);
    bytes = miras_cuda_session_size(&g, 3, MOST);
    of_trainer = malloc(bytes);
    want(miras_cuda_session_init(&s, &g, 3, MOST, of_trainer, bytes, 0) == MIRAS_OK, what);
    want(miras_cuda_session_feed(&s, (int32_t *)(void *)anything, NULL, MOST, anything, 1, 0) ==
           MIRAS_OK, what);
    want(miras_cuda_session_feed(&s, (int32_t *)(void *)anything, NULL, 1, anything, 1, 0) ==
           MIRAS_OK, what);
    if (i == 0) {                    /* a task that no grid has                                   */
      miras__held_trainer *held = miras__cuda_session_of(&s);
      miras__cuda_each(held, 1, (void (*)(void *, int, int))0, NULL);
      want(held->failed, "a task that no grid has is begun");
    }
    free(of_trainer);
    free(of_model);
    miras_close(m);
  }
}

/* What the caller and others in the process may do. */
static void company(void) {
  const miras_cuda_options half = {MIRAS_CUDA_BF16, 0};
  miras_cuda_memory g;
  miras_memory_input x;
  miras_memory *m;
  miras_memory_desc d;
  char why[256];
  size_t bytes;
  void *room;
  (void)miras_memory_preset(&d, MIRAS_PRESET_LINEAR_ATTENTION);
  d.batch = d.heads = 1, d.key_dim = d.value_dim = 8;
  m = miras_memory_open(&d, NULL, NULL, 0);
  block = 128;
  bytes = miras_cuda_memory_size(m, NULL, NULL, 0);
  room = device(bytes);
  shim_stack = 1024;
  want(miras_cuda_memory_init(&g, m, NULL, room, bytes, 0) == MIRAS_OK, "no memory");
  want(shim_stack == MIRAS_CUDA_STACK, "init leaves the stack low");
  memset(&x, 0, sizeof x);
  x.key = x.value = x.query = x.keep = x.learning_rate = anything;
  x.length = 1;
  shim_stack = 1024;
  want(miras_cuda_memory_forward(&g, &x, anything, NULL, 0) == MIRAS_OK &&
         shim_stack == MIRAS_CUDA_STACK,
       "a stack that something else has taken is not asked for again");
  shim_stack = 2 * MIRAS_CUDA_STACK;
  want(miras_cuda_memory_forward(&g, &x, anything, NULL, 0) == MIRAS_OK &&
         shim_stack == 2 * MIRAS_CUDA_STACK, "a larger stack is made smaller");
  shim_last = cudaErrorLaunchOutOfResources;
  want(miras_cuda_memory_forward(&g, &x, anything, NULL, 0) == MIRAS_OK,
       "an error that was there before is taken for one of this call");
  want(cudaGetLastError() == cudaErrorLaunchOutOfResources, "the caller's error is gone");
  shim_refuses = 1;
  block = 1056;
  want(miras_cuda_memory_forward(&g, &x, anything, NULL, 0) == MIRAS_ERR_DEVICE,
       "a grid that is refused does not say so");
  want(cudaGetLastError() != cudaSuccess, "and leaves no error");
  block = 128;
  shim_refuses = 0;
  shim_code = 75;
  want(!miras_cuda_memory_size(m, &half, why, sizeof why) &&
         strstr(why, "sm_80") && strstr(why, "compiled for 7.5"),
       "code that has no matrix units is not refused");
  want(miras_cuda_memory_size(m, NULL, NULL, 0) > 0, "nor has it the host's bits");
  shim_code = 80;
  want(miras_cuda_memory_size(m, &half, NULL, 0) > 0, "code that has is refused");
  miras_close(m);
}

/* The registers that a card would count are the table's. */
static void registers(void) {
  void (*const step)(const miras_cuda::miras__errand) = miras_cuda::miras__run_step<64, 0>;
  const uintptr_t grid = (uintptr_t)step;
#if defined(__ELF__) && defined(__linux__)
  want(!strcmp(shim_name(grid), "run_step<64,0>"), shim_name(grid));
  want(shim_registers(grid) < 255, "the table has no registers of a step");
#endif
  (void)grid;
}

int main(void) {
  anything = (float *)device((size_t)1 << 31);   /* none of it is touched                         */
  shim_dry = 1;
  registers();
  company();
  memories();
  models();
  printf("%u calls, %u failed\n", asked, failed);
  return failed != 0;
}
