/* gpu_count.cpp: what a block of miras_cuda.cuh does for a token: barriers, and accesses to memory.
 *   g++ -std=c++11 -O2 -w -fsanitize=kernel-address --param asan-stack=0 --param asan-globals=0 \
 *     --param asan-instrumentation-with-call-threshold=0 bench/gpu_count.cpp -o gpu_count -lm
 *   ./gpu_count [row ...]                SIZE=128 ... heads of that size alone
 *   GATES=1 ...      a decay gate per channel, of rows that can have one
 *   TOKENS=256 ...   of a pass; else a chunk, or 32
 *   PRODUCTS=1 ...   of miras_cuda_products
 * It needs no GPU: the threads are fibers (tests/cuda_shim.h), and the compiler announces each load
 * and store, of which those to memory of the device and to shared memory count. Printed per token
 * and head, for a pass, its adjoint, and a call with one token:
 *   meets   barriers
 *   far     accesses to memory one after the other: from barrier to barrier, those of the thread
 *           with the most; 4 or 16 bytes count alike
 *   near    the same to shared memory
 *   sums    fused multiply-adds, likewise
 *   units   products of fragments on matrix units, [16, 16] x [16, 8], likewise: of a warp
 *   all     accesses of all threads, in thousands; 32 of them or fewer are one of a warp
 * Lines that begin with a row's name: row, size, chunk, bytes of state, then six for each. */
#include <malloc.h>
#undef __SANITIZE_ADDRESS__          /* no library is there to be told of fibers                 */
#include "../tests/cuda_shim.h"
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

/* Of all threads: how many came to the barrier, how often they all did, and accesses. */
static char *device;
static size_t used;
static const size_t whole = (size_t)1 << 30;
enum { FAR, NEAR, SUMS, UNITS, WHAT };
static unsigned arrived, mine[1024][WHAT], most[WHAT];
static unsigned long meets, path[WHAT], all;

#define PLAIN __attribute__((no_sanitize("kernel-address")))
PLAIN static void meet(const char *where, const char *within) {
  unsigned *own = mine[shim.now], i;
  for (i = 0; i < WHAT; i++) {
    if (own[i] > most[i]) most[i] = own[i];
    own[i] = 0;
  }
  if (++arrived == shim.threads) {
    for (i = 0; i < WHAT; i++) path[i] += most[i], most[i] = 0;
    meets++, arrived = 0;
  }
  shim_wait(0, SHIM_BARRIER, where, within);
}
#undef __syncthreads
#define __syncthreads() meet(SHIM_HERE)

extern "C" {
PLAIN static void seen(const char *p) {
  const size_t near = (size_t)(p - (char *)shim_shared), far = (size_t)(p - device);
  const char here = 0;               /* on a thread's stack, or the host's: no shared memory then */
  if ((size_t)(&here - shim.stacks) >= shim.room * shim.apart) return;
  if (far < whole) mine[shim.now][FAR]++, all++;
  else if (near < malloc_usable_size(shim_shared)) mine[shim.now][NEAR]++, all++;
}
#define SEEN(name) PLAIN void name(void *p) { seen((const char *)p); }
SEEN(__asan_load1_noabort) SEEN(__asan_load2_noabort) SEEN(__asan_load4_noabort)
SEEN(__asan_load8_noabort) SEEN(__asan_load16_noabort) SEEN(__asan_store1_noabort)
SEEN(__asan_store2_noabort) SEEN(__asan_store4_noabort) SEEN(__asan_store8_noabort)
SEEN(__asan_store16_noabort)
PLAIN void __asan_loadN_noabort(void *p, size_t) { seen((const char *)p); }
PLAIN void __asan_storeN_noabort(void *p, size_t) { seen((const char *)p); }
PLAIN void __asan_handle_no_return(void) {}
}

PLAIN static float count_sum(float a, float b, float c) {
  mine[shim.now][SUMS]++;
  return fmaf(a, b, c);
}
#define __fmaf_rn(a, b, c) count_sum(a, b, c)
PLAIN static void count_multiply(float c[4], const unsigned a[4], unsigned b0, unsigned b1,
                                 const char *where, const char *within) {
  mine[shim.now][UNITS]++;
  shim_multiply(c, a, b0, b1, where, within);
}
#define shim_multiply count_multiply
/* Four matrices are one access of 16 bytes. */
PLAIN static void count_load(unsigned to[4], const void *row, int turned, const char *where,
                             const char *within) {
  const unsigned before = mine[shim.now][NEAR];
  const unsigned long others = all;
  shim_load_matrices(to, row, turned, where, within);
  all = others + 1;
  mine[shim.now][NEAR] = before + 1;
}
#define shim_load_matrices count_load
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"

static float *take(size_t floats) {
  float *p = (float *)(void *)(device + used);
  size_t i;
  used += (floats * sizeof(float) + 255) / 256 * 256;
  if (used > whole) { fputs("more memory of the device is needed\n", stderr); exit(2); }
  for (i = 0; i < floats; i++) p[i] = (float)((int)(i * 2654435761u >> 16 & 255) - 128) / 1000;
  return p;
}

static void show(int tokens) {
  const double n = tokens;
  printf("  %7.1f %7.0f %7.0f %7.0f %7.1f %7.1f", (double)meets / n, (double)path[FAR] / n,
         (double)path[NEAR] / n, (double)path[SUMS] / n, (double)path[UNITS] / n,
         (double)all / n / 1000);
}
static void begin(void) {
  meets = all = 0, arrived = 0;
  memset(path, 0, sizeof path);
  memset(most, 0, sizeof most);
  memset(mine, 0, sizeof mine);
}

static void one(miras_preset kind, int size, int chunk) {
  const int tokens = getenv("TOKENS") ? atoi(getenv("TOKENS")) : chunk > 32 ? chunk : 32;
  const int single = chunk > 4 ? chunk : 4;
  miras_cuda_options o = {MIRAS_CUDA_FLOAT};
  miras_memory_desc d;
  miras_memory *m;
  miras_cuda_memory g;
  miras_memory_input x;
  miras_memory_input_grad dx;
  float *y, *tape;
  size_t n, bytes, states;
  void *room;
  int i;
  if (miras_memory_preset(&d, kind) != MIRAS_OK) return;
  d.key_dim = d.value_dim = size, d.chunk = chunk;
  if (getenv("PRODUCTS")) o.products = (miras_cuda_products)atoi(getenv("PRODUCTS"));
  if (getenv("GATES")) d.decay_gate = MIRAS_GATE_CHANNEL;
  m = miras_memory_open(&d, NULL, NULL, 0);
  if (!m || miras_memory_desc_of(m)->chunk != chunk) return;
  used = 0;
  bytes = miras_cuda_memory_size(m, &o, NULL, 0);
  (void)miras_memory_state(m, &states);
  room = take(bytes / sizeof(float) + 1);
  if (miras_cuda_memory_init(&g, m, &o, room, bytes, 0) != MIRAS_OK) return;
  n = (size_t)tokens * (size_t)size * (size_t)miras_memory_desc_of(m)->inner_steps;
  memset(&x, 0, sizeof x);
  memset(&dx, 0, sizeof dx);
  x.key = take(n), x.value = take(n), x.query = take(n);
  x.erase = x.key, x.replace = x.value;
  x.keep = x.learning_rate = take(n);         /* for rows that ask for them */
  dx.key = take(n), dx.value = take(n), dx.query = take(n), dx.keep = take(n),
  dx.learning_rate = take(n);
  y = take(n);
  tape = take(miras_cuda_memory_tape_size(&g, tokens));
  x.length = tokens;
  printf("%-20s %4d %4d %8lu", miras_preset_name(kind), size, chunk, (unsigned long)states);
  begin();
  miras_cuda_memory_forward(&g, &x, y, tape, 0);
  show(tokens);
  begin();
  miras_cuda_memory_backward(&g, &x, tape, y, &dx, NULL, NULL, 0);
  show(tokens);
  begin();
  x.length = 1;
  for (i = 0; i < single; i++) miras_cuda_memory_forward(&g, &x, y, NULL, 0);
  show(single);
  putchar('\n');
  fflush(stdout);
  miras_close(m);
}

int main(int argc, char **argv) {
  static const int chunks[] = {1, 16, 64};
  int kind, size, i, j;
  device = (char *)malloc(whole);
  if (!device) return 2;
  printf("%-20s %4s %4s %8s %48s %48s %48s\n", "row", "size", "chunk", "state", "forward",
         "backward", "one token");
  for (size = 64; size <= 128; size *= 2)
    for (kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
      if (getenv("SIZE") && atoi(getenv("SIZE")) != size) continue;
      for (j = argc < 2, i = 1; i < argc; i++)
        j |= !strcmp(argv[i], miras_preset_name((miras_preset)kind));
      for (i = 0; j && i < 3; i++) one((miras_preset)kind, size, chunks[i]);
    }
  return 0;
}
