/* gpu.cu: how fast the memories of miras_cuda.cuh are on this GPU, and how near to what it can do.
 *   nvcc -O3 -rdc=true -fmad=false -arch=native -w bench/gpu.cu -o gpu
 *   ./gpu [row ...]
 *   D=128     size of keys and values;   HEADS=32   of a sequence;   ONLY=decode or passes
 *   PRODUCTS=2 how products are made (miras_cuda_products): 1 or 2 on matrix units, where passes of
 *             matrix memories have a kernel of their own, and their adjoint another, and so have
 *             passes of perceptrons in chunks ("chunks" in the line)
 *   CHANNELS=1 a decay gate per channel, of rows that can have one
 *   HALF=1    decode with states of half the bytes (half_state), and nothing else
 *   PEAK=790  TFLOP/s of the matrix units that floors are reckoned with (an H200, bf16, measured)
 * Calls are replayed as graphs: 10 times to warm up, then 100 times, or for half a second where
 * that is less and at least 5 times; medians, and the least of all.
 *   decode  one token for each of so many sequences that the states are 256 MB and more, which no
 *           cache holds. A token reads and writes all of them once; the fraction is what a copy of
 *           as many bytes takes of the time.
 *   passes  4 sequences of 8192 tokens, or as many as half the memory holds and a tenth of a second
 *           suffices for: forward, and forward with the adjoint. Bytes are keys, values, queries
 *           and answers, once; operations per token and head 6 for each weight of a matrix (error,
 *           write, read), 10 of a perceptron. Floor: the greater of the times that copying these
 *           bytes and the matrix units at their peak would take. The adjoint counts twice as much
 *           again. */
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"

static cudaStream_t stream;
static double copies;   /* bytes that a copy reads and writes in a second */
static std::vector<void *> taken;
static miras_cuda_options options;

static void must(cudaError_t e, const char *what) {
  if (e == cudaSuccess) return;
  fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
  exit(1);
}
static void done(miras_result r, const char *what) {
  if (r == MIRAS_OK) return;
  fprintf(stderr, "%s: %s; %s\n", what, miras_result_text(r),
          cudaGetErrorString(cudaGetLastError()));
  exit(1);
}
static int number(const char *name, int otherwise) {
  return getenv(name) ? atoi(getenv(name)) : otherwise;
}

__global__ void fill(float *p, size_t n, float scale) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  const size_t all = gridDim.x * (size_t)blockDim.x;
  for (; i < n; i += all)
    p[i] = scale * (float)((int)((unsigned)i * 2654435761u >> 16 & 255) - 128) / 128;
}

__global__ void shift(float *p, size_t n, float by) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  const size_t all = gridDim.x * (size_t)blockDim.x;
  for (; i < n; i += all) p[i] += by;
}

static void *take(size_t bytes) {
  void *p;
  must(cudaMalloc(&p, bytes), "cudaMalloc");
  taken.push_back(p);
  return p;
}
static float *floats(size_t n, float scale) {
  float *p = (float *)take(n * sizeof(float));
  fill<<<1024, 256, 0, stream>>>(p, n, scale);
  return p;
}
static void give_back(void) {
  must(cudaStreamSynchronize(stream), "the runs");
  for (void *p : taken) cudaFree(p);
  taken.clear();
}
static size_t room_left(void) {
  size_t left = 0, all;
  must(cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
  return left;
}

struct time_of { double median, least; };   /* microseconds */

/* What `queue` puts into a stream, as a graph. */
template <class Q> static time_of timed(Q queue) {
  cudaGraph_t graph;
  cudaGraphExec_t run;
  cudaEvent_t from, to;
  std::vector<float> ms;
  float one, all = 0;
  int i;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  queue();
  must(cudaStreamEndCapture(stream, &graph), "capture");
  must(cudaGraphInstantiate(&run, graph, 0), "cudaGraphInstantiate");
  cudaEventCreate(&from);
  cudaEventCreate(&to);
  for (i = -10; i < 100; i++) {
    cudaEventRecord(from, stream);
    must(cudaGraphLaunch(run, stream), "cudaGraphLaunch");
    cudaEventRecord(to, stream);
    must(cudaEventSynchronize(to), "a run");
    cudaEventElapsedTime(&one, from, to);
    all += one;
    if (i >= 0) ms.push_back(one);
    if (i < 0 && all > 100) i = -1;            /* warm enough                                    */
    if (ms.size() >= 5 && all > 500) break;
  }
  std::sort(ms.begin(), ms.end());
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  cudaGraphExecDestroy(run);
  cudaGraphDestroy(graph);
  return {1000.0 * ms[ms.size() / 2], 1000.0 * ms[0]};
}

/* A memory and its device half, if there is one of that size and chunk, and memory for it. */
static miras_memory *begin(miras_cuda_memory *g, miras_preset kind, int batch, int heads, int size,
                           int chunk) {
  miras_memory_desc d;
  miras_memory *m;
  size_t bytes;
  if (miras_memory_preset(&d, kind) != MIRAS_OK) return NULL;
  d.batch = batch, d.heads = heads, d.key_dim = size, d.value_dim = size, d.chunk = chunk;
  if (number("CHANNELS", 0)) d.decay_gate = MIRAS_GATE_CHANNEL;
  m = miras_memory_open(&d, NULL, NULL, 0);
  bytes = miras_cuda_memory_size(m, &options, NULL, 0);
  if (!bytes || miras_memory_desc_of(m)->chunk != chunk || bytes > room_left() / 2) {
    miras_close(m);
    return NULL;
  }
  done(miras_cuda_memory_init(g, m, &options, take(bytes), bytes, stream),
       "miras_cuda_memory_init");
  must(cudaStreamSynchronize(stream), "init");
  return m;
}

static miras_memory_input tokens(const miras_memory *m, int size, int length) {
  const miras_memory_desc *d = miras_memory_desc_of(m);
  const size_t n = (size_t)d->batch * d->heads * length * size * d->inner_steps;
  miras_memory_input x;
  memset(&x, 0, sizeof x);
  x.length = length;
  x.key = floats(n, sqrtf(3.0f / size)), x.value = floats(n, 1), x.query = floats(n, 1);
  x.erase = x.key, x.replace = x.value;
  if (number("CHANNELS", 0)) {                   /* decays between 0.9 and 1 */
    float *keep = floats(n, 0.05f);
    shift<<<1024, 256, 0, stream>>>(keep, n, 0.95f);
    x.keep = keep;
  }
  return x;
}

static size_t states_of(const miras_memory *m) {
  size_t bytes = 0;
  (void)miras_memory_state((miras_memory *)m, &bytes);
  return bytes;
}

static void decode(miras_preset kind, int size, int heads) {
  miras_cuda_memory g;
  miras_memory *m = begin(&g, kind, 1, heads, size, 1);
  miras_memory_input x;
  time_of step, copy;
  size_t bytes;
  float *y;
  void *other;
  int batch;
  if (!m) return;
  batch = (int)(((size_t)1 << 28) / states_of(m)) + 1;
  if (options.half_state) batch *= 2;
  miras_close(m);
  give_back();
  m = begin(&g, kind, batch, heads, size, 1);
  if (!m) return;
  (void)miras_cuda_memory_state(&g, &bytes);
  other = take(bytes);
  x = tokens(m, size, 1);
  y = floats((size_t)batch * heads * size, 0);
  step = timed([&] { done(miras_cuda_memory_forward(&g, &x, y, NULL, stream), "a token"); });
  copy = timed([&] {
    must(cudaMemcpyAsync(other, miras_cuda_memory_state(&g, NULL), bytes,
                         cudaMemcpyDeviceToDevice, stream), "a copy");
  });
  printf("decode  %-20s %4d %6d x %2d %6.0f MB%s %10.1f us (least %.1f) %6.3f TB/s, "
         "%5.3f of a copy\n", miras_preset_name(kind), size, batch, heads, bytes / 1e6,
         options.half_state ? " of halves" : "", step.median, step.least,
         2 * bytes / step.median / 1e6, copy.median / step.median);
  fflush(stdout);
  miras_close(m);
  give_back();
}

static void line(const char *what, miras_preset kind, const miras_memory *m, int length, time_of t,
                 double times, int chunks) {
  const miras_memory_desc *d = miras_memory_desc_of(m);
  const double each = (double)d->batch * d->heads * length * times;
  const double weights = (double)m->plan.weights;
  const double ops = each * (d->depth > 1 ? 10 : 6) * weights;
  const double bytes = each * 4 * (2 * d->key_dim + 2 * d->value_dim);
  const double floor = std::max(bytes / copies, ops / (number("PEAK", 790) * 1e12)) * 1e6;
  printf("%-7s %-20s %4d chunk %2d %5d tokens %11.3f ms (least %.3f) %7.3f TB/s %8.3f TFLOP/s, "
         "%6.4f of the floor%s\n", what, miras_preset_name(kind), d->key_dim, d->chunk, length,
         t.median / 1000, t.least / 1000, bytes / t.median / 1e6, ops / t.median / 1e6,
         floor / t.median, chunks ? ", chunks" : "");
  fflush(stdout);
}

static void pass(miras_preset kind, int size, int heads, int chunk) {
  miras_cuda_memory g;
  miras_memory *m = begin(&g, kind, 4, heads, size, chunk);
  miras_memory_input_grad dx;
  miras_memory_input x;
  time_of t;
  size_t n;
  float *y, *tape;
  int length = 8192, chunks;
  if (!m) return;
  chunks = miras__cuda_chunks_for(&miras__cuda_of(&g)->plan, &options,
                                  miras__cuda_held(&g)->shared).grid != NULL;
  while (length > 64 &&
         (miras_cuda_memory_tape_size(&g, length) +
          16 * (size_t)length * heads * size * miras_memory_desc_of(m)->inner_steps * 4) *
             sizeof(float) >
           room_left() / 2)
    length /= 2;
  x = tokens(m, size, length);
  n = (size_t)4 * heads * length * size * miras_memory_desc_of(m)->inner_steps;
  y = floats(n, 1);
  x.length = 64;                                 /* how many can be waited for? */
  t = timed([&] { done(miras_cuda_memory_forward(&g, &x, y, NULL, stream), "forward"); });
  while (length > 64 && t.median * length / 64 > 1e5) length /= 2;
  x.length = length;
  t = timed([&] {
    done(miras_cuda_memory_reset(&g, stream), "reset");
    done(miras_cuda_memory_forward(&g, &x, y, NULL, stream), "forward");
  });
  line("forward", kind, m, length, t, 1, chunks);
  memset(&dx, 0, sizeof dx);
  dx.key = floats(n, 0), dx.value = floats(n, 0), dx.query = floats(n, 0);
  tape = floats(miras_cuda_memory_tape_size(&g, length), 0);
  t = timed([&] {
    done(miras_cuda_memory_reset(&g, stream), "reset");
    done(miras_cuda_memory_forward(&g, &x, y, tape, stream), "forward");
    done(miras_cuda_memory_backward(&g, &x, tape, y, &dx, NULL, NULL, stream), "backward");
  });
  chunks = miras__cuda_chunks_back_for(&miras__cuda_of(&g)->plan, &options,
                                       miras__cuda_held(&g)->shared).grid != NULL;
  line("adjoint", kind, m, length, t, 3, chunks);
  miras_close(m);
  give_back();
}

int main(int argc, char **argv) {
  static const int chunks[] = {1, 16, 64};
  const int size = number("D", 128), heads = number("HEADS", 32);
  const char *only = getenv("ONLY") ? getenv("ONLY") : "";
  cudaDeviceProp is;
  cudaFuncAttributes f;
  int kind, i, j;
  must(cudaGetDeviceProperties(&is, 0), "cudaGetDeviceProperties");
  must(cudaStreamCreate(&stream), "cudaStreamCreate");
  options.products = (miras_cuda_products)number("PRODUCTS", 0);
  options.half_state = number("HALF", 0);
  if (options.half_state) only = "decode";
  must(cudaFuncGetAttributes(&f, miras_cuda::miras__run_forward), "cudaFuncGetAttributes");
  {
    const size_t n = std::min((size_t)1 << 31, room_left() / 4);
    void *a = take(n), *b = take(n);
    copies = 2 * n / timed([&] {
      must(cudaMemcpyAsync(b, a, n, cudaMemcpyDeviceToDevice, stream), "a copy");
    }).least * 1e6;
    give_back();
  }
  printf("%s, %d SMs, CUDA %d.%d; a copy reads and writes %.2f TB/s; %d threads a head; "
         "the forward grid has %d registers, %zu bytes of stack; products %d\n",
         is.name, is.multiProcessorCount,
         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, copies / 1e12, MIRAS_CUDA_THREADS,
         f.numRegs, f.localSizeBytes, (int)options.products);
  for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    const char *name = miras_preset_name((miras_preset)kind);
    for (j = argc < 2, i = 1; i < argc; i++) {   /* its name may be without "-memory" */
      const size_t n = strlen(argv[i]);
      j |= !strncmp(argv[i], name, n) && (!name[n] || !strcmp(name + n, "-memory"));
    }
    if (!j) continue;
    if (strcmp(only, "passes")) decode((miras_preset)kind, size, heads);
    for (i = 0; strcmp(only, "decode") && i < 3; i++)
      pass((miras_preset)kind, size, heads, chunks[i]);
  }
  return 0;
}
