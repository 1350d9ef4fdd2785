/* cuda_shim.h: device code as C++ on the host. The threads of a block are fibers that run one at a
 * time; a barrier or a warp's exchange is where they wait for each other, and which of those that
 * can go on does so first is drawn. Threads that wait for each other at different places, or for
 * one that has ended, stop the program with a sentence. POSIX. */
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define MIRAS_CUDA_SHIM
#define __device__
#define __global__
#define __grid_constant__
#define __noinline__
#define __shared__

enum { SHIM_STACK = 256 << 10 };   /* bytes of each thread's stack */

typedef struct shim_thread {
  ucontext_t context;              /* where it begins, and ...                                    */
  jmp_buf here;                    /* ... where it goes on: quicker than by a context             */
  int begun;
  struct { unsigned x; } index;
  int done;
  const char *waits;               /* where; NULL: it can go on */
  unsigned mask;                   /* for whom in its warp; 0: for the block */
  float gives;
} shim_thread;

static struct {
  shim_thread *thread;
  unsigned threads, now;
  jmp_buf scheduler;
  void (*run)(void *);
  void *argument;
} shim;
static uint64_t shim_seed = 1;
static unsigned long shim_waits;   /* how often a thread has waited */

#define threadIdx (shim.thread[shim.now].index)
static struct { unsigned x; } blockIdx, blockDim, gridDim;

/* The thread `now` runs until it waits. */
__attribute__((noinline)) static void shim_resume(void) {
  shim_thread *t = &shim.thread[shim.now];
  if (_setjmp(shim.scheduler)) return;
  if (t->begun++) _longjmp(t->here, 1);
  setcontext(&t->context);
}

static void shim_wait(unsigned mask, const char *where) {
  shim_thread *t = &shim.thread[shim.now];
  t->mask = mask;
  t->waits = where;
  shim_waits++;
  if (!_setjmp(t->here)) _longjmp(shim.scheduler, 1);
}

static float shim_exchange(unsigned mask, float v, unsigned from, const char *where) {
  shim.thread[shim.now].gives = v;
  shim_wait(mask, where);
  v = shim.thread[from].gives;
  shim_wait(mask, where);
  return v;
}

#define SHIM_TEXT2(x) #x
#define SHIM_TEXT(x) SHIM_TEXT2(x)
#define SHIM_HERE __FILE__ ":" SHIM_TEXT(__LINE__)
#define __syncthreads() shim_wait(0, SHIM_HERE)
#define __syncwarp(mask) shim_wait(mask, "a barrier of the warp")
#define __shfl_xor_sync(mask, v, k) \
  shim_exchange(mask, v, shim.now ^ (unsigned)(k), "an exchange in the warp")
#define __shfl_sync(mask, v, lane, width) \
  shim_exchange(mask, v, shim.now / (width) * (width) + (unsigned)(lane), "a message in the warp")

static void shim_start(void) {
  shim.run(shim.argument);
  shim.thread[shim.now].done = 1;
  _longjmp(shim.scheduler, 1);
}

/* Is all of thread i's company there? Then it goes on, and 1 is returned. */
static int shim_meet(unsigned i) {
  const shim_thread *t = &shim.thread[i];
  const unsigned mask = t->mask, first = mask ? i / 32 * 32 : 0;
  const unsigned end = mask && first + 32 < shim.threads ? first + 32 : shim.threads;
  unsigned j;
  for (j = first; j < end; j++) {
    const shim_thread *o = &shim.thread[j];
    if (mask && !(mask >> j % 32 & 1)) continue;
    if (o->done || !o->waits || o->mask != mask) return 0;
    if (strcmp(o->waits, t->waits)) {
      fprintf(stderr, "thread %u is at %s, thread %u at %s\n", i, t->waits, j, o->waits);
      exit(1);
    }
  }
  for (j = first; j < end; j++)
    if (!mask || mask >> j % 32 & 1) shim.thread[j].waits = NULL;
  return 1;
}

/* run(argument) in a block of so many threads. */
static void shim_block(unsigned threads, void (*run)(void *), void *argument) {
  char *stacks = (char *)malloc((size_t)threads * SHIM_STACK);
  unsigned i, left = threads;
  shim.thread = (shim_thread *)calloc(threads, sizeof *shim.thread);
  if (!stacks || !shim.thread) exit(2);
  shim.threads = threads, shim.run = run, shim.argument = argument;
  blockDim.x = threads;
  for (i = 0; i < threads; i++) {
    shim_thread *t = &shim.thread[i];
    t->index.x = i;
    getcontext(&t->context);
    t->context.uc_stack.ss_sp = stacks + (size_t)i * SHIM_STACK;
    t->context.uc_stack.ss_size = SHIM_STACK;
    makecontext(&t->context, shim_start, 0);
  }
  while (left) {
    unsigned moved = 0, first;
    shim_seed = shim_seed * 6364136223846793005u + 1442695040888963407u;
    first = (unsigned)(shim_seed >> 33) % threads;
    for (i = 0; i < threads; i++) {
      shim_thread *t = &shim.thread[shim.now = (first + i) % threads];
      if (t->done || t->waits) continue;
      shim_resume();
      left -= (unsigned)t->done;
      moved++;
    }
    for (i = 0; i < threads; i++)
      if (shim.thread[i].waits) moved += (unsigned)shim_meet(i);
    if (moved) continue;
    for (i = 0; i < threads; i++)
      if (shim.thread[i].waits)
        fprintf(stderr, "thread %u waits at %s for ever\n", i, shim.thread[i].waits);
    exit(1);
  }
  free(shim.thread);
  free(stacks);
}

typedef struct { float x, y, z, w; } float4;
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static float __fsqrt_rn(float a) { return sqrtf(a); }
static float __int_as_float(int bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static int __float_as_int(float x) {
  int bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* ---- what the host calls: a stream does at once what it is asked to ---- */

typedef void *cudaStream_t;
typedef enum { cudaSuccess, cudaErrorInvalidValue } cudaError_t;
typedef enum {
  cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice
} cudaMemcpyKind;

static cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t) {
  memcpy(to, from, bytes);
  return cudaSuccess;
}
static cudaError_t cudaMalloc(void **to, size_t bytes) {
  *to = malloc(bytes);
  if (*to) memset(*to, 255, bytes);  /* not a number                                              */
  return *to ? cudaSuccess : cudaErrorInvalidValue;
}
static cudaError_t cudaFree(void *p) {
  free(p);
  return cudaSuccess;
}
static cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
typedef enum { cudaLimitStackSize } cudaLimit;
static cudaError_t cudaDeviceGetLimit(size_t *value, cudaLimit) {
  *value = 1024;
  return cudaSuccess;
}
static cudaError_t cudaDeviceSetLimit(cudaLimit, size_t bytes) {
  return bytes > SHIM_STACK ? cudaErrorInvalidValue : cudaSuccess;
}
typedef enum { cudaDevAttrMaxSharedMemoryPerBlockOptin } cudaDeviceAttr;
typedef enum { cudaFuncAttributeMaxDynamicSharedMemorySize } cudaFuncAttribute;
static cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
static cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
  *value = 227 << 10;
  return cudaSuccess;
}
template <class F> static cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int) {
  return cudaSuccess;
}
static cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
  memset(to, value, bytes);
  return cudaSuccess;
}

template <class A> struct shim_kernel {
  void (*kernel)(const A);
  const A *argument;
  static void run(void *call) {
    const shim_kernel *k = (const shim_kernel *)call;
    k->kernel(*k->argument);
  }
};
/* kernel(argument) in a grid. Blocks run one after the other, the last one first, each with shared
 * memory of its own that holds no numbers yet. */
static void *shim_shared;
template <class A>
static int shim_launch(void (*kernel)(const A), size_t blocks, unsigned threads, size_t bytes,
                       const A &argument) {
  shim_kernel<A> k = {kernel, &argument};
  gridDim.x = (unsigned)blocks;
  while (blocks--) {
    blockIdx.x = (unsigned)blocks;
    shim_shared = malloc(bytes);
    if (!shim_shared) exit(2);
    memset(shim_shared, 255, bytes);
    shim_block(threads, shim_kernel<A>::run, &k);
    free(shim_shared);
  }
  return 1;
}
#define MIRAS__LAUNCH(kernel, blocks, bytes, stream, argument) \
  ((void)(stream), shim_launch(kernel, blocks, MIRAS_CUDA_THREADS, bytes, argument))
