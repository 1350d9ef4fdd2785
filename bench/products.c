/* products.c: the matrix product of room @24 beside those of BLAS libraries, in one run.
 *
 *   cc -O2 bench/products.c -o products -lm -ldl
 *   ./products OpenBLAS=/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0 \
 *     BLIS=.../libblis.so.4 MKL=.../libmkl_rt.so.3 oneDNN=.../libdnnl.so.2
 *   ROUNDS=15 ./products ...               how often; OPENBLAS_CORETYPE and the like as usual
 *
 * One thread each, all in turns, the least processor time of each. Four cases: A B, A B', A' B and
 * A' B', row-major, C overwritten. Peers are opened as they are: `sgemm_` of a BLAS (what is
 * row-major here is the transpose there), or `dnnl_sgemm`. */
#define _POSIX_C_SOURCE 200809L
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void blas(const char *ta, const char *tb, const int *m, const int *n, const int *k,
                  const float *alpha, const float *a, const int *lda, const float *b,
                  const int *ldb, const float *beta, float *c, const int *ldc);
typedef int dnnl(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

enum { MOST = 8 };
typedef struct peer {
  const char *name;
  blas *sgemm;
  dnnl *row_major;
} peer;

typedef struct product {
  float *a, *b, *c, *pack;
  int m, n, k, flags, turns;
} product;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void multiply(const peer *x, const product *p) {
  const int ta = p->flags & MIRAS__TN, tb = p->flags & MIRAS__NT;
  const int lda = ta ? p->m : p->k, ldb = tb ? p->k : p->n;
  const float one = 1, zero = 0;
  if (x->sgemm) {
    x->sgemm(tb ? "T" : "N", ta ? "T" : "N", &p->n, &p->m, &p->k, &one, p->b, &ldb, p->a, &lda,
             &zero, p->c, &p->n);
  } else if (x->row_major) {
    x->row_major(ta ? 'T' : 'N', tb ? 'T' : 'N', p->m, p->n, p->k, 1, p->a, lda, p->b, ldb, 0,
                 p->c, p->n);
  } else {
    miras__kernels_best()->gemm(MIRAS__SET, p->c, (size_t)p->n,
                                ta ? miras__turned(p->a, (size_t)p->m)
                                   : miras__mat(p->a, (size_t)p->k),
                                tb ? miras__turned(p->b, (size_t)p->k)
                                   : miras__mat(p->b, (size_t)p->n),
                                (size_t)p->m, (size_t)p->n, (size_t)p->k, p->pack);
  }
}

static float *floats(int rows, int cols) {
  const size_t n = (size_t)rows * (size_t)cols;
  static uint32_t state = 1;
  float *p = (float *)aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);
  if (!p) exit(1);
  for (size_t i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    p[i] = (float)(state >> 8) / 8388608.0f - 1;
  }
  return p;
}

static int open_peer(peer *x, char *text) {
  char *path = strchr(text, '=');
  void *library;
  if (!path) return fprintf(stderr, "products: %s is not NAME=LIBRARY\n", text), 0;
  *path++ = 0;
  memset(x, 0, sizeof *x);
  x->name = text;
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "products: %s\n", dlerror()), 0;
  *(void **)&x->row_major = dlsym(library, "dnnl_sgemm");
  if (!x->row_major) *(void **)&x->sgemm = dlsym(library, "sgemm_");
  if (x->sgemm || x->row_major) return 1;
  return fprintf(stderr, "products: %s has neither sgemm_ nor dnnl_sgemm\n", path), 0;
}

int main(int argc, char **argv) {
  static const int shapes[][3] = {
    {64, 64, 64}, {64, 256, 64}, {64, 64, 256}, {128, 128, 128}, {256, 256, 256},
    {1024, 1024, 1024}, {64, 768, 768}, {64, 3072, 768}, {64, 768, 3072}, {2048, 768, 768}};
  static const char *const cases[] = {"A B", "A B'", "A' B", "A' B'"};
  const char *text = getenv("ROUNDS");
  const int rounds = text && atoi(text) > 0 ? atoi(text) : 15;
  double all = 0;
  int peers = 1, count = 0;
  peer who[MOST] = {{"miras.h", NULL, NULL}};
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  setenv("BLIS_NUM_THREADS", "1", 1);
  setenv("MKL_NUM_THREADS", "1", 1);
  setenv("MKL_THREADING_LAYER", "SEQUENTIAL", 1);
  for (int i = 1; i < argc && peers < MOST; i++)
    if (!open_peer(&who[peers++], argv[i])) return 1;
  printf("- %s, one thread, GFLOP/s by the least processor time of %d rounds\n\n", miras_isa(),
         rounds);
  printf("| M x N x K | |");
  for (int i = 0; i < peers; i++) printf(" %s |", who[i].name);
  printf(" of the best peer |\n|---|---|");
  for (int i = 0; i <= peers; i++) printf("--:|");
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
    const int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
    const double work = 2.0 * m * n * k;
    const int room = (int)miras__gemm_room((size_t)m, (size_t)n, (size_t)k);
    product p = {floats(m, k), floats(k, n), floats(m, n), floats(room, 1), m, n, k, 0,
                 (int)(1e8 / work) + 1};
    for (int c = 0; c < 4; c++) {
      double best[MOST] = {0}, most = 0;
      p.flags = (c & 1 ? MIRAS__NT : 0) | (c & 2 ? MIRAS__TN : 0);
      for (int r = 0; r < rounds; r++)
        for (int i = 0; i < peers; i++) {
          double t;
          multiply(&who[i], &p);
          t = now();
          for (int j = 0; j < p.turns; j++) multiply(&who[i], &p);
          t = work * p.turns / (now() - t) * 1e-9;
          if (t > best[i]) best[i] = t;
        }
      printf("\n| %d x %d x %d | %s |", m, n, k, cases[c]);
      for (int i = 0; i < peers; i++) printf(" %.0f |", best[i]);
      for (int i = 1; i < peers; i++) most = best[i] > most ? best[i] : most;
      if (peers > 1) {
        printf(" %.2f |", best[0] / most);
        all += log(best[0] / most);
        count++;
      }
      fflush(stdout);
    }
    free(p.a), free(p.b), free(p.c), free(p.pack);
  }
  if (count) printf("\n\nGeometric mean of the last column: %.3f\n", exp(all / count));
  else printf("\n");
  return 0;
}
