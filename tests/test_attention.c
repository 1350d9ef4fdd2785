/* Room 54 and what rooms 53 and 54 are made of: groups of query heads that share a head of keys and
 * values, rings, cuts; the kernels of masks, decays per row, conjugate gradients.
 *
 *   cc -O2 tests/test_attention.c -o test_attention -lcmocka -lm && ./test_attention
 *
 * A group must have the bits of its heads one by one, however a sequence is cut; answers and
 * gradients are held against plain loops in double. */
#ifdef MIRAS_TEST_LINKED   /* kernels are object.c's (inside.h); nothing else needs to be built */
  #define MIRAS_STATIC
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "inside.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { T = 150, DK = 6, DV = 5, GROUP = 3, MOST = 260 };

static float *floats(size_t n) {
  float *p = (float *)calloc(n ? n : 1, sizeof *p);
  assert_non_null(p);
  return p;
}

/* A head of keys and values with everything that a call may write. */
typedef struct head {
  miras__attention a;
  miras__head_io io;
  miras__head_grads g;
  float *k, *v, *q, *y, *dy, *dk, *dv, *dq, *tape, *tape_ring, *ring, *dring, *scratch;
} head;

static void make(head *h, const miras__kernels *K, size_t group, size_t block, size_t window) {
  miras__attention_work work;
  size_t i, n;
  memset(h, 0, sizeof *h);
  h->a.K = K;
  h->a.key_dim = DK;
  h->a.value_dim = DV;
  h->a.window = window;
  h->a.group = group;
  h->a.block = block;
  h->a.scale = 1 / sqrtf((float)DK);
  h->k = floats(T * DK);
  h->v = floats(T * DV);
  h->q = floats(T * GROUP * DK);
  h->y = floats(T * GROUP * DV);
  h->dy = floats(T * GROUP * DV);
  h->dk = floats(T * DK);
  h->dv = floats(T * DV);
  h->dq = floats(T * GROUP * DK);
  h->tape = floats(T * GROUP * (DV + 2));
  h->tape_ring = floats(window * (DK + DV));
  h->ring = floats(window * (DK + DV));
  h->dring = floats(window * (DK + DV));
  for (i = 0; i < T * DK; i++) h->k[i] = 2 * miras__uniform(1, i);
  for (i = 0; i < T * DV; i++) h->v[i] = miras__uniform(2, i);
  for (i = 0; i < T * GROUP * DK; i++) h->q[i] = 2 * miras__uniform(3, i);
  for (i = 0; i < T * GROUP * DV; i++) h->dy[i] = miras__uniform(4, i);
  n = miras__attention_lay(&h->a, 1, NULL, 0, &work);
  h->scratch = floats(n);
  for (i = 0; i < n; i++) h->scratch[i] = NAN;     /* what is not written must not be read */
  h->a.scratch = h->scratch;
  h->a.ring_k = h->ring;
  h->a.ring_v = h->ring + window * DK;
  h->a.io = &h->io;
  h->a.g = &h->g;
  h->a.lddy = GROUP * DV;
  h->io.ldk = h->g.ldk = DK;
  h->io.ldv = h->g.ldv = DV;
  h->io.ldq = h->g.ldq = GROUP * DK;
  h->io.ldy = GROUP * DV;
}

static void drop(head *h) {
  free(h->k);
  free(h->v);
  free(h->q);
  free(h->y);
  free(h->dy);
  free(h->dk);
  free(h->dv);
  free(h->dq);
  free(h->tape);
  free(h->tape_ring);
  free(h->ring);
  free(h->dring);
  free(h->scratch);
}

/* Tokens t..t+n-1, from query head g on; forward, or with `back` its adjoint. */
static void run(head *h, size_t t, size_t n, size_t g, int back) {
  h->a.position = t;
  h->io.length = (int)n;
  h->io.k = h->k + t * DK;
  h->io.v = h->v + t * DV;
  h->io.q = h->q + (t * GROUP + g) * DK;
  h->io.y = h->y + (t * GROUP + g) * DV;
  h->a.tape = h->tape + t * h->a.group * (DV + 2);
  h->a.tape_k = h->tape_ring;
  h->a.tape_v = h->tape_ring + h->a.window * DK;
  h->a.dy = h->dy + (t * GROUP + g) * DV;
  h->g.k = h->dk + t * DK;
  h->g.v = h->dv + t * DV;
  h->g.q = h->dq + (t * GROUP + g) * DK;
  h->a.dring_k = h->dring;
  h->a.dring_v = h->dring + h->a.window * DK;
  if (back) miras__attention_run_bwd(&h->a);
  else miras__attention_run(&h->a);
}

/* Softmax attention of query head g of token t, and its gradients added to d. */
static void reference(const head *h, size_t t, size_t g, double *y, double *dk, double *dv,
                      double *dq) {
  double p[T], all = 0, along = 0;
  const size_t from = t + 1 > h->a.window ? t + 1 - h->a.window : 0, at = t * GROUP + g;
  size_t i, x;
  for (i = from; i <= t; i++) {
    p[i] = 0;
    for (x = 0; x < DK; x++) p[i] += (double)h->k[i * DK + x] * (double)h->q[at * DK + x];
    p[i] = exp(p[i] / sqrt((double)DK));
    all += p[i];
  }
  for (x = 0; x < DV; x++) y[x] = 0;
  for (i = from; i <= t; i++) {
    p[i] /= all;
    for (x = 0; x < DV; x++) y[x] += p[i] * (double)h->v[i * DV + x];
  }
  for (x = 0; x < DV; x++) along += y[x] * (double)h->dy[at * DV + x];
  for (i = from; i <= t; i++) {
    double ds = -along;
    for (x = 0; x < DV; x++) {
      ds += (double)h->dy[at * DV + x] * (double)h->v[i * DV + x];
      dv[i * DV + x] += p[i] * (double)h->dy[at * DV + x];
    }
    ds *= p[i] / sqrt((double)DK);
    for (x = 0; x < DK; x++) {
      dq[at * DK + x] += ds * (double)h->k[i * DK + x];
      dk[i * DK + x] += ds * (double)h->q[at * DK + x];
    }
  }
}

static void near(const float *got, const double *want, size_t n) {
  size_t i;
  for (i = 0; i < n; i++)
    if (!(fabs((double)got[i] - want[i]) < 2e-5))
      fail_msg("entry %d is %.9g and should be %.9g", (int)i, (double)got[i], want[i]);
}

static void same(const float *a, const float *b, size_t n) {
  assert_memory_equal(a, b, n * sizeof *a);
}

static void one_case(const miras__kernels *K, size_t block, size_t window) {
  static double y[T * GROUP * DV], dk[T * DK], dv[T * DV], dq[T * GROUP * DK];
  head h, single, cut;
  float o[GROUP * DV];
  size_t t, g, n;
  memset(dk, 0, sizeof dk);
  memset(dv, 0, sizeof dv);
  memset(dq, 0, sizeof dq);
  make(&h, K, GROUP, block, window);
  make(&single, K, 1, block, window);
  make(&cut, K, GROUP, block, window);
  run(&h, 0, T, 0, 0);
  for (t = 0; t < T; t++)
    for (g = 0; g < GROUP; g++)
      reference(&h, t, g, y + (t * GROUP + g) * DV, dk, dv, dq);
  near(h.y, y, T * GROUP * DV);
  run(&h, 0, T, 0, 1);
  near(h.dk, dk, T * DK);
  near(h.dv, dv, T * DV);
  near(h.dq, dq, T * GROUP * DK);
  /* a head at a time */
  for (g = 0; g < GROUP; g++) {
    run(&single, 0, T, g, 0);
    run(&single, 0, T, g, 1);
  }
  same(h.y, single.y, T * GROUP * DV);
  same(h.dq, single.dq, T * GROUP * DK);
  same(h.ring, single.ring, window * (DK + DV));
  /* what the last token reads, read once more */
  h.a.position = T;
  h.io.q = h.q + (T - 1) * GROUP * DK;
  miras__attention_query(&h.a, o);
  same(o, h.y + (T - 1) * GROUP * DV, GROUP * DV);
  /* token by token, then in two calls with the gradient of the ring carried back */
  for (t = 0; t < T; t++) run(&cut, t, 1, 0, 0);
  same(h.y, cut.y, T * GROUP * DV);
  same(h.ring, cut.ring, window * (DK + DV));
  memset(cut.ring, 0, window * (DK + DV) * sizeof *cut.ring);
  n = 70;
  run(&cut, 0, n, 0, 0);
  run(&cut, n, T - n, 0, 0);
  same(h.y, cut.y, T * GROUP * DV);
  run(&cut, n, T - n, 0, 1);
  run(&cut, 0, n, 0, 1);
  near(cut.dk, dk, T * DK);
  near(cut.dv, dv, T * DV);
  near(cut.dq, dq, T * GROUP * DK);
  for (t = 0; t < window * (DK + DV); t++) assert_true(cut.dring[t] >= 0 && cut.dring[t] <= 0);
  drop(&h);
  drop(&single);
  drop(&cut);
}

static void test_groups(void **state) {
  static const size_t blocks[] = { 1, 5, 16, 64 }, windows[] = { 1, 3, 40, 64, 100, MOST };
  size_t i, b, w;
  (void)state;
  for (i = 0; i < MIRAS__KERNEL_COUNT; i++)
    for (b = 0; b < 4 && inside_usable(kernels_of(i)); b++)
      for (w = 0; w < 6; w++) one_case(kernels_of(i), blocks[b], windows[w]);
}

/* ---- kernels ---- */

static void test_mask(void **state) {
  const miras__kernels *K = kernels_of(-1);
  float y[7 * 11];
  int lo, hi, i, j;
  (void)state;
  for (lo = -12; lo <= 12; lo++)
    for (hi = -12; hi <= 12; hi++) {
      for (i = 0; i < 7 * 11; i++) y[i] = 1;
      K->mask_rows(y, 11, 2, 7, 10, lo, hi, 1);
      for (i = 0; i < 7; i++)
        for (j = 0; j < 11; j++) {
          const int kept = j == 10 || (j - i >= lo && j - i < hi);
          assert_true(y[i * 11 + j] < 1.5f ? kept : !kept);
        }
    }
}

/* Decays per row against the recursion in double, in one call and in two; the adjoint against
 * differences of f = sum (u_ij l_ij + w_i c_i), which is linear in each gate alone. */
static double decay(const float *alpha, const float *own, const float *u, const float *w, int m) {
  double l[12] = { 0 }, c = 1, f = 0;
  int i, j;
  for (i = 0; i < m; i++) {
    c *= (double)alpha[i];
    for (j = 0; j < i; j++) l[j] *= (double)alpha[i];
    l[i] = (double)own[i];
    for (j = 0; j <= i; j++) f += (double)u[i * 12 + j] * l[j];
    f += (double)w[i] * c;
  }
  return f;
}

static void test_decay(void **state) {
  enum { M = 12 };
  float l[(M + 1) * M], two[(M + 1) * M], c[M + 1], c2[M + 1], alpha[M], own[M], u[M * M], w[M];
  float dalpha[M], down[M];
  size_t n;
  int i, j;
  (void)state;
  for (n = 0; n < MIRAS__KERNEL_COUNT; n++) {
    const miras__kernels *K = kernels_of(n);
    if (!inside_usable(K)) continue;
    for (i = 0; i < M; i++) {
      alpha[i] = 0.75f + 0.25f * miras__uniform(1, (uint64_t)i);
      own[i] = miras__uniform(2, (uint64_t)i);
      w[i] = miras__uniform(3, (uint64_t)i);
    }
    for (i = 0; i < M * M; i++) u[i] = miras__uniform(4, (uint64_t)i);
    alpha[7] = 0;
    memset(l, 0, sizeof l);
    memset(two, 0, sizeof two);
    c[0] = c2[0] = 1;
    K->decay_rows(K, l, M, c, alpha, own, 0, M);
    K->decay_rows(K, two, M, c2, alpha, own, 0, 5);
    K->decay_rows(K, two + 5 * M, M, c2 + 5, alpha + 5, own + 5, 5, M - 5);
    for (i = 0; i < M; i++) same(l + (i + 1) * M, two + (i + 1) * M, (size_t)i + 1);
    same(c, c2, M + 1);
    {
      double f = 0;
      for (i = 0; i < M; i++) {
        for (j = 0; j <= i; j++) f += (double)u[i * M + j] * (double)l[(i + 1) * M + j];
        f += (double)w[i] * (double)c[i + 1];
      }
      assert_true(fabs(f - decay(alpha, own, u, w, M)) < 1e-5);
    }
    {
      float du[M * M], dw[M];
      memcpy(du, u, sizeof u);
      memcpy(dw, w, sizeof w);
      K->decay_rows_bwd(K, du, M, dw, dalpha, down, l, c, alpha, M);
    }
    for (i = 0; i < 2 * M; i++) {
      float *moved = i < M ? &alpha[i] : &own[i - M];
      const float save = *moved, got = i < M ? dalpha[i] : down[i - M];
      double up, low;
      *moved = save + 0.5f;
      up = decay(alpha, own, u, w, M);
      *moved = save - 0.5f;
      low = decay(alpha, own, u, w, M);
      *moved = save;
      assert_true(fabs(up - low - (double)got) < 1e-5);
    }
  }
}

/* Conjugate gradients: rows of several systems, one of them zero and one NaN, against what they
 * were made from. */
static void test_conjugate(void **state) {
  enum { N = 9, ROWS = 6 };
  float a[N * N], x[ROWS * N], want[ROWS * N], r[ROWS * N], s[ROWS * N], u[ROWS * N], rr[ROWS];
  float limit[ROWS], lambda[N];
  miras__conjugate g;
  size_t n, i, j, k;
  int step;
  (void)state;
  for (n = 0; n < MIRAS__KERNEL_COUNT; n++) {
    const miras__kernels *K = kernels_of(n);
    if (!inside_usable(K)) continue;
    for (i = 0; i < N; i++) lambda[i] = 0.5f + 0.1f * (float)i;
    for (i = 0; i < N; i++)
      for (j = 0; j < N; j++)
        for (a[i * N + j] = 0, k = 0; k < N; k++)
          a[i * N + j] += miras__uniform(5, i * N + k) * miras__uniform(5, j * N + k);
    for (i = 0; i < ROWS * N; i++) want[i] = i / N == 2 ? 0 : miras__uniform(6, i);
    for (i = 0; i < ROWS; i++)
      for (j = 0; j < N; j++) {
        double b = (double)lambda[j] * (double)want[i * N + j];
        for (k = 0; k < N; k++) b += (double)a[j * N + k] * (double)want[i * N + k];
        r[i * N + j] = (float)b;
      }
    r[4 * N] = NAN;
    g.n = N;
    g.rows = ROWS;
    g.tolerance = 1e-12f;
    g.lambda = lambda;
    g.x = x;
    g.r = r;
    g.s = s;
    g.u = u;
    g.rr = rr;
    g.limit = limit;
    g.from = 0;
    g.to = ROWS;
    K->conjugate_start(&g);
    assert_int_equal(K->conjugate_end(&g, 0), 0);
    for (step = 0; step < 40; step++) {
      g.from = (size_t)K->conjugate_end(&g, 0);
      g.to = (size_t)K->conjugate_end(&g, 1);
      if (g.from == g.to) break;
      for (i = 0; i < ROWS; i++)
        for (j = 0; j < N; j++)
          for (u[i * N + j] = 0, k = 0; k < N; k++)
            u[i * N + j] += a[j * N + k] * s[i * N + k];
      K->conjugate_step(&g);
    }
    assert_true(step < 40);
    for (i = 0; i < ROWS * N; i++)
      if (i / N == 4) assert_true(isnan(x[i]));
      else assert_true(fabsf(x[i] - want[i]) < 2e-4f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_groups), cmocka_unit_test(test_mask), cmocka_unit_test(test_decay),
    cmocka_unit_test(test_conjugate)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
