/* gpu.cu: how fast the memories of miras_cuda.cuh are on this GPU, and what of its bandwidth they
 * use.
 *   nvcc -O3 -arch=native bench/gpu.cu -o gpu && ./gpu [row]
 * For each row, 8 sequences of 16 heads of 128 x 128 (D=... another size): one token at a time, a
 * pass over 256 tokens, and that with its adjoint. Calls are replayed as graphs, ten times to warm
 * up and then thirty times; printed are medians. A token has to read and write all states once: the
 * fraction is how near that comes to what a copy of as many bytes takes. */
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"

enum { B = 8, H = 16, T = 256, RUNS = 30 };

static void must(cudaError_t e, const char *what) {
  if (e == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  exit(1);
}

static float *floats(size_t n, float scale) {
  float *host = (float *)malloc(n * sizeof(float)), *p;
  size_t i;
  must(cudaMalloc((void **)&p, n * sizeof(float)), "cudaMalloc");
  for (i = 0; i < n; i++) host[i] = scale * (float)((int)(i * 2654435761u >> 16 & 255) - 128) / 128;
  must(cudaMemcpy(p, host, n * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
  free(host);
  return p;
}

/* Microseconds that what `queue` puts into a stream takes, as a graph. */
template <class Q> static double timed(cudaStream_t stream, Q queue) {
  cudaGraph_t graph;
  cudaGraphExec_t run;
  cudaEvent_t from, to;
  float ms[RUNS];
  int i;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  queue();
  must(cudaStreamEndCapture(stream, &graph), "capture");
  must(cudaGraphInstantiate(&run, graph, 0), "cudaGraphInstantiate");
  cudaEventCreate(&from);
  cudaEventCreate(&to);
  for (i = -10; i < RUNS; i++) {
    cudaEventRecord(from, stream);
    cudaGraphLaunch(run, stream);
    cudaEventRecord(to, stream);
    must(cudaEventSynchronize(to), "a run");
    if (i >= 0) cudaEventElapsedTime(&ms[i], from, to);
  }
  std::sort(ms, ms + RUNS);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
  return 1000.0 * ms[RUNS / 2];
}

static void one(miras_kind kind, int size, cudaStream_t stream) {
  miras_desc d;
  miras_memory *m;
  miras_cuda_memory g;
  miras_tokens x;
  miras_token_grads dx;
  void *room, *other;
  float *y, *tape;
  double step, copy, there, back;
  size_t bytes, states, n = (size_t)B * H * T * (size_t)size;
  if (miras_preset(&d, kind) != MIRAS_OK) return;
  d.batch = B, d.heads = H, d.key_dim = size, d.value_dim = size;
  m = miras_memory_open(&d, NULL);
  bytes = miras_cuda_memory_size(m);
  if (!m || !bytes) return;
  (void)miras_memory_state(m, &states);
  must(cudaMalloc(&room, bytes), "cudaMalloc");
  must(cudaMalloc(&other, states), "cudaMalloc");
  if (miras_cuda_memory_init(&g, m, room, bytes, stream) != MIRAS_OK) return;
  n *= (size_t)miras_memory_desc(m)->descents;
  memset(&x, 0, sizeof x);
  memset(&dx, 0, sizeof dx);
  x.key = floats(n, 1), x.value = floats(n, 1), x.query = floats(n, 1);
  x.erase = x.key, x.replace = x.value;
  dx.key = floats(n, 0), dx.value = floats(n, 0), dx.query = floats(n, 0);
  y = floats(n, 0);
  x.length = 1;
  must(cudaStreamSynchronize(stream), "init");
  step = timed(stream, [&] { miras_cuda_forward(&g, &x, y, NULL, stream); });
  copy = timed(stream, [&] {
    cudaMemcpyAsync(other, miras_cuda_memory_state(&g, NULL), states, cudaMemcpyDeviceToDevice,
                    stream);
  });
  x.length = T;
  there = timed(stream, [&] { miras_cuda_forward(&g, &x, y, NULL, stream); });
  tape = floats(miras_cuda_tape_size(&g, T), 0);
  back = timed(stream, [&] {
    miras_cuda_memory_reset(&g, stream);
    miras_cuda_forward(&g, &x, y, tape, stream);
    miras_cuda_backward(&g, &x, tape, y, &dx, NULL, NULL, stream);
  });
  printf("%-20s %9.1f us a token, %5.2f of copying %.0f MB; %9.2f ms forward, %9.2f with adjoint\n",
         miras_kind_name(kind), step, copy / step, (double)states / 1e6, there / 1000, back / 1000);
  fflush(stdout);
  cudaFree(room), cudaFree(other), cudaFree(y), cudaFree(tape);
  cudaFree((void *)x.key), cudaFree((void *)x.value), cudaFree((void *)x.query);
  cudaFree(dx.key), cudaFree(dx.value), cudaFree(dx.query);
  miras_memory_close(m);
}

int main(int argc, char **argv) {
  const int size = getenv("D") ? atoi(getenv("D")) : 128;
  cudaDeviceProp is;
  cudaStream_t stream;
  int kind;
  must(cudaGetDeviceProperties(&is, 0), "cudaGetDeviceProperties");
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  printf("%s, CUDA %d.%d, %d sequences x %d heads of %d x %d, %d threads a head\n", is.name,
         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, B, H, size, size, MIRAS_CUDA_THREADS);
  for (kind = 0; kind < MIRAS_KIND_COUNT; kind++)
    if (argc < 2 || !strcmp(argv[1], miras_kind_name((miras_kind)kind)))
      one((miras_kind)kind, size, stream);
  return 0;
}
