/* test_cuda_units.cpp: products on matrix units against sums in double of the factors as they are
 * rounded, which a fragment in a wrong lane misses by far, and against those of the factors
 * themselves, within what miras_cuda_products promises.
 *   c++ -std=c++11 -O1 tests/test_cuda_units.cpp -o units -lm && ./units
 *   nvcc -O3 -rdc=true -arch=native -x cu tests/test_cuda_units.cpp -o units && ./units */
#ifndef __CUDACC__
  #include "cuda_shim.h"
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
static unsigned threads = 128;
#define MIRAS_CUDA_THREADS threads
#define MIRAS_CUDA_MOST 256
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#include "cuda_device.h"

/* C [m, n] = mode(A [m, k] B [k, n]); rows of each lie `gap` floats farther apart than they are
 * long; turned: bit 0 A, bit 1 B; most: rows of A end there, 0 for none. */
typedef struct product {
  int products, mode, turned;
  size_t m, n, k, gap, most;
  float *a, *b, *c;
  size_t room;
} product;

enum { SLOT = 1 << 16 };
static float host[3][SLOT], answer[SLOT];

static size_t lda(const product *x) { return (x->turned & 1 ? x->m : x->k) + x->gap; }
static size_t ldb(const product *x) { return (x->turned & 2 ? x->k : x->n) + x->gap; }
static size_t ldc(const product *x) { return x->n + x->gap; }

__global__ void run(const product x) {
  const size_t a = (x.turned & 1 ? x.m : x.k) + x.gap, b = (x.turned & 2 ? x.k : x.n) + x.gap;
  miras_cuda::miras__tell_room(x.room, x.products);
  miras_cuda::miras__kernels_best()->gemm(
    x.mode + 4 * (int)x.most, x.c, x.n + x.gap,
    x.turned & 1 ? miras_cuda::miras__strided(x.a, 1, a) : miras_cuda::miras__strided(x.a, a, 1),
    x.turned & 2 ? miras_cuda::miras__strided(x.b, 1, b) : miras_cuda::miras__strided(x.b, b, 1),
    x.m, x.n, x.k, NULL);
}

/* The nearest number of 8 digits. */
static double rounded(double x) {
  int e;
  const double digits = frexp(x, &e);
  return ldexp(rint(ldexp(digits, 8)), e - 8);
}

/* What a factor is to the units: itself, its nearest number in bfloat16, or that and the nearest to
 * what it leaves. */
static double first(int products, double x) { return products ? rounded(x) : x; }
static double second(int products, double x) {
  return products == MIRAS_CUDA_BF16X3 ? rounded((float)(x - rounded(x))) : 0;
}

/* Element (i, j): what the units should find, the product itself, and the sum of sizes. */
static void sums(const product *x, size_t i, size_t j, double *units, double *exact,
                 double *size) {
  const double old = x->mode == MIRAS__SET ? 0 : host[2][i * ldc(x) + j];
  const double sign = x->mode == MIRAS__SUB ? -1 : 1;
  size_t k;
  *units = *exact = old;
  *size = fabs(old);
  for (k = 0; k < x->k && !(x->most && k >= i + x->most); k++) {
    const double a = host[0][x->turned & 1 ? k * lda(x) + i : i * lda(x) + k];
    const double b = host[1][x->turned & 2 ? j * ldb(x) + k : k * ldb(x) + j];
    const double a1 = first(x->products, a), a2 = second(x->products, a);
    const double b1 = first(x->products, b), b2 = second(x->products, b);
    *units += sign * (a1 * b1 + a1 * b2 + a2 * b1);
    *exact += sign * a * b;
    *size += fabs(a * b);
  }
}

static uint32_t state = 1;
static unsigned draw(unsigned n) {
  state = state * 1664525u + 1013904223u;
  return (state >> 8) % n;
}

static unsigned check(const product *of) {
  static const double promised[] = {2e-6, 3e-5, 8e-3};
  product x = *of;
  double worst = 0, far = 0;
  size_t i, j, f;
  for (f = 0; f < 3; f++)
    for (i = 0; i < SLOT; i++) host[f][i] = ((float)draw(20001) - 10000) / 3000;
  if (cudaMemcpyAsync(x.a, host[0], sizeof host[0], cudaMemcpyHostToDevice, 0) != cudaSuccess ||
      cudaMemcpyAsync(x.b, host[1], sizeof host[1], cudaMemcpyHostToDevice, 0) != cudaSuccess ||
      cudaMemcpyAsync(x.c, host[2], sizeof host[2], cudaMemcpyHostToDevice, 0) != cudaSuccess)
    stop(__FILE__, __LINE__);
  x.room = MIRAS__PRODUCT_ROOM(threads);
  STOP_IF(!MIRAS__LAUNCH(run, 1, (4 + x.room) * sizeof(float), 0, x));
  if (cudaMemcpyAsync(answer, x.c, sizeof answer, cudaMemcpyDeviceToHost, 0) != cudaSuccess ||
      cudaDeviceSynchronize() != cudaSuccess)
    stop(__FILE__, __LINE__);
  for (i = 0; i < x.m; i++)
    for (j = 0; j < x.n; j++) {
      const double got = answer[i * ldc(&x) + j];
      double units, exact, size;
      sums(&x, i, j, &units, &exact, &size);
      if (!(fabs(got - units) <= worst * size)) worst = fabs(got - units) / size;
      if (!(fabs(got - exact) <= far * size)) far = fabs(got - exact) / size;
    }
  for (i = 0, f = 0; i < SLOT; i++)                /* what lies between and behind rows stays */
    f += answer[i] != host[2][i] && (i % ldc(&x) >= x.n || i / ldc(&x) >= x.m);
  if (worst < 3e-6 && far < promised[x.products] && !f) return 0;
  printf("products %d, mode %d, turned %d, [%u, %u] x [%u, %u], gap %u, rows end at %u, "
         "%u threads: %.1e of what units should find, %.1e of the product, %u touched beside it\n",
         x.products, x.mode, x.turned, (unsigned)x.m, (unsigned)x.k, (unsigned)x.k, (unsigned)x.n,
         (unsigned)x.gap, (unsigned)x.most, threads, worst, far, (unsigned)f);
  return 1;
}

int main(void) {
  static const unsigned sizes[] = {2, 3, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 128, 150};
  static const unsigned depths[] = {16, 17, 24, 31, 32, 33, 47, 64, 65, 130};
  product x;
  unsigned failed = 0, cases = 0, i;
  memset(&x, 0, sizeof x);
  if (cudaMalloc((void **)&x.a, sizeof host[0]) != cudaSuccess ||
      cudaMalloc((void **)&x.b, sizeof host[0]) != cudaSuccess ||
      cudaMalloc((void **)&x.c, sizeof host[0]) != cudaSuccess) {
    puts("skipped: there is no device");
    return 77;
  }
  for (i = 0; i < 360; i++, cases++) {
    threads = i % 5 ? 128 : 256;
    x.products = i % 9 ? 1 + i % 2 : 0;
    x.mode = (int)draw(3);
    x.turned = i / 3 % 4;
    x.m = sizes[draw(sizeof sizes / sizeof *sizes)];
    x.n = sizes[draw(sizeof sizes / sizeof *sizes)];
    x.k = depths[draw(sizeof depths / sizeof *depths)];
    x.gap = draw(2) ? 0 : draw(9);
    x.most = draw(3) ? 0 : 1 + draw((unsigned)x.k);
    failed += check(&x);
  }
  cudaFree(x.a), cudaFree(x.b), cudaFree(x.c);
  printf("%u products, %u wrong\n", cases, failed);
  if (shim_findings()) printf("%u races\n", shim_findings());
  return failed || shim_findings();
}
