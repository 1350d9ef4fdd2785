/* test_cuda.cpp: miras_cuda.cuh without a GPU: every row of the table, forward and backward, by its
 * grids of blocks, with the bits of the host. The threads are fibers whose order is drawn
 * (cuda_shim.h): a kernel that reads what another lane has not stored yet, or adds to a number once
 * per thread, gives other bits in one order or another; an engine that does not go the same way in
 * all threads stops with a sentence.
 *   c++ -std=c++11 -O1 tests/test_cuda.cpp -o test_cuda -lm && ./test_cuda */
#include "cuda_shim.h"
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
static unsigned threads = 16;      /* of a block; 0: the host's engines run                       */
#define MIRAS_CUDA_THREADS threads
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"

namespace { namespace miras_cuda {
float miras__told[4];
} }

/* The device half of the memory that m is; its memory is the host's here. */
static miras_cuda_memory on_device;
static float *room, *device_tape;

static void leave(void) {
  free(room);
  free(device_tape);
  room = device_tape = NULL;
}

/* Does a read between tokens answer as on the host? */
static miras_result reads(miras_memory *m) {
  static float q[64], host[64], device[64];
  miras_result result;
  int i;
  for (i = 0; i < 64; i++) q[i] = (float)(i % 7 - 3) / 5;
  miras_read(m, q, host);
  result = miras_cuda_read(&on_device, q, device, NULL);
  return result == MIRAS_OK && memcmp(host, device, sizeof host) ? MIRAS_ERR_STATE : result;
}

static miras_result forward(miras_memory *m, const miras_tokens *x, float *y, float *tape) {
  const size_t bytes = miras_cuda_memory_size(m);
  miras_result result;
  if (!threads) return miras_forward(m, x, y, tape);
  leave();
  room = (float *)malloc(bytes);
  memset(room, 255, bytes);
  result = miras_cuda_memory_init(&on_device, m, room, bytes, NULL);
  if (result != MIRAS_OK) return result;
  device_tape = (float *)malloc(miras_cuda_tape_size(&on_device, x->length) * sizeof(float));
  result = miras_cuda_forward(&on_device, x, y, device_tape, NULL);
  if (result == MIRAS_OK) result = miras_cuda_memory_copy(m, &on_device, NULL);
  return result == MIRAS_OK ? reads(m) : result;
}

static miras_result backward(miras_memory *m, const miras_tokens *x, float *tape, const float *dy,
                             const miras_token_grads *dx, float *dparams, float *dstate) {
  if (!threads) return miras_backward(m, x, tape, dy, dx, dparams, dstate);
  return miras_cuda_backward(&on_device, x, device_tape, dy, dx, dparams, dstate, NULL);
}

#define FORWARD forward
#define BACKWARD backward
#include "fingerprint.h"

int main(void) {
  static const struct { int chunk, threads; miras_gate gates; } pass[] = {
    {1, 96, MIRAS_GATE_CONSTANT}, {8, 32, MIRAS_GATE_CONSTANT}, {8, 96, MIRAS_GATE_CHANNEL},
    {1, 32, MIRAS_GATE_HEAD}};
  unsigned failed = 0, kind, i;
  if (!strcmp(miras_isa(), "portable")) {
    puts("skipped: without fused multiply-add the host has other bits");
    return 77;
  }
  for (kind = 0; kind < MIRAS_KIND_COUNT; kind++)
    for (i = 0; i < sizeof pass / sizeof pass[0]; i++) {
      uint64_t host = 0, block = 0;
      int refused;
      token_gates = pass[i].gates;
      threads = 0;
      refused = one_memory((miras_kind)kind, pass[i].chunk, NULL, &host);
      threads = (unsigned)pass[i].threads;
      shim_waits = 0;
      refused |= one_memory((miras_kind)kind, pass[i].chunk, NULL, &block);
      printf("%-20s chunk %d, gates %d, %u threads, %lu waits: %s\n",
             miras_kind_name((miras_kind)kind), pass[i].chunk, (int)token_gates, threads,
             shim_waits, !refused && host == block ? "the same" : "DIFFERS");
      failed += refused || host != block;
    }
  leave();
  printf("%u differ\n", failed);
  return failed != 0;
}
