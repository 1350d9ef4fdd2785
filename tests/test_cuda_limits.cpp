/* test_cuda_limits.cpp: what a card refuses, and what miras_cuda.cuh does about it. Grids of every
 * row in heads of 16 to 256, all chunks and gates, of models, trainers and running texts are begun
 * on a card that says whether it would, and run none of them (cuda_shim.h). Errors that were there
 * before, tasks that no grid has.
 *   c++ -std=c++11 -O1 tests/test_cuda_limits.cpp -o limits -lm && ./limits */
#include "cuda_shim.h"
#define MIRAS_IMPLEMENTATION
#define MIRAS_ASSERT(x) ((void)(x))   /* a task that no grid has is an error                      */
#include "../miras.h"
static unsigned block = 128;
#define MIRAS_CUDA_THREADS block
#define MIRAS_CUDA_MOST 256
#define MIRAS_CUDA_REFERENCE
#define MIRAS_CUDA_NO_FAST
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
static void calls_of(const miras_memory *m, const char *what) {
  static const int lengths[] = {1, MOST / 2, 7};
  const size_t bytes = miras_cuda_memory_size(m, NULL, 0);
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
  want(miras_cuda_memory_init(&g, m, room, bytes, 0) == MIRAS_OK, what);
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

/* Rows, sizes, chunks, gates. */
static void memories(void) {
  static const int sizes[] = {16, 64, 128, 256}, chunks[] = {1, 16, 64, 128};
  char what[128];
  int i;
  for (i = 0; i < MIRAS_PRESET_ROWS * 4 * 4 * 4 * 4; i++) {
    const int kind = i % MIRAS_PRESET_ROWS, rest = i / MIRAS_PRESET_ROWS;
    const int gates = rest >> 6 & 3;
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
    block = kind % 2 ? 256 : 128;
    snprintf(what, sizeof what, "%s, %d x %d, chunk %d, gates %d",
             miras_preset_name((miras_preset)kind), d.key_dim, d.value_dim, d.chunk, gates);
    calls_of(m, what);
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
  for (i = 0; i < MIRAS_PRESET_ROWS * 2; i++) {
    const int kind = i % MIRAS_PRESET_ROWS, rest = i / MIRAS_PRESET_ROWS;
    const char *what = miras_preset_name((miras_preset)kind);
    miras_trainer_desc room;
    miras_cuda_model g;
    miras_model_desc d;
    miras_model *m;
    miras_batch x;
    void *of_model, *of_trainer;
    size_t bytes;
    if (miras_model_preset(&d, (miras_preset)kind, 0) != MIRAS_OK) exit(2);
    d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = rest ? 128 : 64;
    d.heads = 1, d.width = rest ? 128 : 64, d.vocab = 300;
    strcpy(d.pattern, kind % 2 ? "mw" : "mm");
    m = miras_model_open(&d, NULL, NULL, 0);
    if (!m) continue;
    block = 128;
    bytes = miras_cuda_model_size(m, NULL, 0);
    of_model = malloc(bytes);
    want(miras_cuda_model_init(&g, m, of_model, bytes, 0) == MIRAS_OK, what);
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
      miras__held_trainer *held = miras__held_of(&s);
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
  miras_cuda_memory g;
  miras_memory_input x;
  miras_memory *m;
  miras_memory_desc d;
  size_t bytes;
  void *room;
  (void)miras_memory_preset(&d, MIRAS_PRESET_LINEAR_ATTENTION);
  d.batch = d.heads = 1, d.key_dim = d.value_dim = 8;
  m = miras_memory_open(&d, NULL, NULL, 0);
  block = 128;
  bytes = miras_cuda_memory_size(m, NULL, 0);
  room = device(bytes);
  want(miras_cuda_memory_init(&g, m, room, bytes, 0) == MIRAS_OK, "no memory");
  memset(&x, 0, sizeof x);
  x.key = x.value = x.query = x.keep = x.learning_rate = anything;
  x.length = 1;
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
  miras_close(m);
}

/* The registers that a card would count are the table's. */
static void registers(void) {
  const uintptr_t grid = (uintptr_t)miras_cuda::miras__run_moved;
#if defined(__ELF__) && defined(__linux__)
  want(!strcmp(shim_name(grid), "run_moved"), shim_name(grid));
  want(shim_registers(grid) < 255, "the table has no registers of a grid");
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
