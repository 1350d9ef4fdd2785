/* test_cuda_kernels.cpp: kernels that a block of threads spreads over its units, against the
 * host's, bit for bit: odd sizes, rows farther apart than they are long, outputs that are inputs,
 * and blocks of 32, 96 and 128 threads.
 *   c++ -std=c++11 -O1 tests/test_cuda_kernels.cpp -o kernels -lm && ./kernels
 *   nvcc -O3 -rdc=true -arch=native -x cu tests/test_cuda_kernels.cpp -o kernels && ./kernels
 * Names of kernels as arguments run only these. */
#ifndef __CUDACC__
  #include "cuda_shim.h"
  #define BOTH
  #define DEVICE 1
#else
  #ifdef __CUDA_ARCH__             /* the host has no threads that could meet                     */
    #define DEVICE 1
  #endif
  #define BOTH _Pragma("nv_exec_check_disable") __host__ __device__
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
static unsigned threads = 32;
#define MIRAS_CUDA_THREADS threads
#define MIRAS_CUDA_MOST 128
#define MIRAS_CUDA_REFERENCE
#define MIRAS_CUDA_NO_FAST
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#include "cuda_device.h"
#include <stdio.h>

/* The records and tables of the two sides. */
#define RECORDS(X) X(matrix) X(norming) X(conv) X(erasing) X(channels) X(norm2) X(norm_grads) \
  X(conditioning) \
  X(gating) X(errors) X(plan) X(solve) X(bound) X(channel_grads) X(conjugate) X(reads) \
  X(absorbing) X(scan) X(scan_grads) X(meeting) X(meeting_grads) X(wkv) X(wkv_grads)
#define RECORD(name) typedef ::miras__##name name;
struct host {
  typedef ::miras__kernels table;
  RECORDS(RECORD)
  static matrix strided(const float *p, size_t down, size_t right) {
    return ::miras__strided(p, down, right);
  }
};
#undef RECORD
#define RECORD(name) typedef miras_cuda::miras__##name name;
struct block {
  typedef miras_cuda::miras__cuda_kernels table;
  RECORDS(RECORD)
  BOTH static matrix strided(const float *p, size_t down, size_t right) {
    return miras_cuda::miras__strided(p, down, right);
  }
};

/* What a case is run with: rows, columns, what rows are apart beyond their length, and what else
 * there is to choose. Its arrays are the parts of a piece of memory, SLOT floats each; what is
 * left in the last one, where products pack, is nobody's. */
typedef struct shape {
  size_t m, n, k, gap;
  int form;
} shape;
enum { SLOT = 12800, SLOTS = 14, FLOATS = SLOT * SLOTS, PACK = 40960 };
enum { WHOLE = FLOATS + PACK };    /* no product asks for more (miras__gemm_room)                 */
#define AT(i) (p + (i) * SLOT)
#define M (s->m)
#define N (s->n)
#define LD (s->n + s->gap)
#define F (s->form)
/* Rows of an output; all of them one where the form says so. */
#define LDY(bit) (F & (bit) ? 0 : LD)

#define HEADS (1 + (size_t)F % 5)
#define DIM (N < 33 ? N : 33)
#define WIDE (HEADS * DIM)

template <class Y> struct cases {
  typedef const typename Y::table T;

  /* form: mode, then which factor is turned, then whether rows end sooner */
  BOTH static void gemm(T *K, const shape *s, float *p) {
    const int turned = F / 3 % 4, mode = F % 3;
    const size_t seen = F / 12 ? s->k / 2 + 1 : 0;
    const size_t lda = (turned & 1 ? M : s->k) + s->gap, ldb = (turned & 2 ? s->k : N) + s->gap;
    K->gemm(mode + 4 * (int)seen, AT(0), LD,
            turned & 1 ? Y::strided(AT(1), 1, lda) : Y::strided(AT(1), lda, 1),
            turned & 2 ? Y::strided(AT(2), 1, ldb) : Y::strided(AT(2), ldb, 1), M, N, s->k,
            AT(SLOTS));
  }

  /* form 1: y is an input */
#define TO(i) (F ? AT(i) : AT(0))
  BOTH static void axpy(T *K, const shape *s, float *p) { K->axpy(AT(0), 0.7f, AT(1), M * N); }
  BOTH static void scale(T *K, const shape *s, float *p) { K->scale(TO(1), 0.7f, AT(1), M * N); }
  BOTH static void add(T *K, const shape *s, float *p) { K->add(TO(1), AT(1), M * N); }
  BOTH static void sub(T *K, const shape *s, float *p) { K->sub(TO(2), AT(1), AT(2), M * N); }
  BOTH static void mul(T *K, const shape *s, float *p) { K->mul(TO(1), AT(1), AT(2), M * N); }
  BOTH static void muladd(T *K, const shape *s, float *p) { K->muladd(TO(1), AT(1), AT(2), M * N); }
  BOTH static void fill(T *K, const shape *s, float *p) { K->fill(AT(0), 3, M * N); }
  BOTH static void copy(T *K, const shape *s, float *p) { K->copy(AT(0), AT(1), M * N); }
  BOTH static void flush(T *K, const shape *s, float *p) {
    K->scale(AT(1), 1e-30f, AT(1), M * N);
    K->flush(TO(1), AT(1), M * N);
  }
  BOTH static void rest(T *K, const shape *s, float *p) { K->rest(TO(1), AT(1), 0.3f, M * N); }
  BOTH static void map(T *K, const shape *s, float *p) { K->map(F, AT(0), AT(1), M * N); }
  BOTH static void act_rows(T *K, const shape *s, float *p) {
    K->act_rows(F % 3, AT(0), LD, F / 3 ? AT(1) : NULL, AT(2), M, N);
  }
  BOTH static void act_grad2(T *K, const shape *s, float *p) {
    K->act_grad2(F, AT(0), AT(1), AT(2), AT(3), AT(4), M * N);
  }
  BOTH static void sigmoid_bwd(T *K, const shape *s, float *p) {
    K->sigmoid_bwd(AT(0), AT(1), AT(2), M * N);
  }
  BOTH static void invert(T *K, const shape *s, float *p) { K->invert(AT(0), M * N); }
  BOTH static void diagonal(T *K, const shape *s, float *p) {
    K->diagonal(AT(0), 0.4f, AT(1), F, M * N);
  }
  BOTH static void both_fwd(T *K, const shape *s, float *p) {
    K->mul(AT(1), AT(1), AT(1), M * N);
    K->both_fwd(AT(0), AT(1), 0.4f, M * N);
  }
  BOTH static void both_bwd(T *K, const shape *s, float *p) {
    K->both_bwd(AT(0), AT(1), AT(2), 0.4f, M * N);
  }
  BOTH static void shrink_from(T *K, const shape *s, float *p) {
    typename Y::plan *plan = (typename Y::plan *)(void *)AT(13);
    plan->d.smooth_shrink = F % 2;
    K->shrink_from(plan, AT(1), AT(1), F & 2 ? AT(2) : NULL, 0.3f, M * N);
  }
  BOTH static void shrink_from_bwd(T *K, const shape *s, float *p) {
    typename Y::plan *plan = (typename Y::plan *)(void *)AT(13);
    plan->d.smooth_shrink = F % 2;
    *AT(5) = K->shrink_from_bwd(plan, AT(0), F & 4, AT(1), AT(2), F & 2 ? AT(3) : NULL,
                                F & 2 ? AT(4) : NULL, 0.3f, M * N);
  }
  BOTH static void adamw(T *K, const shape *s, float *p) {
    K->mul(AT(2), AT(2), AT(2), M * N);
    K->mul(AT(4), AT(4), AT(4), 9);
    K->adamw(AT(0), AT(1), AT(2), AT(3), M * N, AT(4));
  }
  BOTH static void dropout(T *K, const shape *s, float *p) {
    K->dropout(AT(0), F ? AT(0) : NULL, AT(1), 0x123456789abcdefu, 0x50000000u, 1.5f, M * N);
  }
  BOTH static void any(T *K, const shape *s, float *p) {
    K->fill(AT(0), 0, M * N);
    if (F) K->fill(AT(0) + (size_t)(F - 1) * (M * N - 1) / 2, F == 1 ? 1e-40f : -1, 1);
    *AT(1) = (float)K->any(AT(0), M * N);
  }
  BOTH static void dot(T *K, const shape *s, float *p) { *AT(0) = K->dot(AT(1), AT(2), M * N); }
  BOTH static void sum(T *K, const shape *s, float *p) { *AT(0) = K->sum(AT(1), M * N); }
  BOTH static void cross_entropy(T *K, const shape *s, float *p) {
    *AT(1) = K->cross_entropy(AT(0), M * N, M * N / 2, F ? 0.1f : 0);
  }
  BOTH static void number_loss(T *K, const shape *s, float *p) {
    const int type = MIRAS_OUTPUT_BINARY + F % 6;
    *AT(2) = K->number_loss(type, AT(0), AT(1), M * N / (1 + (type == MIRAS_OUTPUT_NORMAL)),
                            type == MIRAS_OUTPUT_LP ? 2.5f : 0.7f, F / 6 ? 0.1f : 0, AT(3));
  }

  /* form 1: y is one row; 2: x is; 4: a number for all rows */
  BOTH static void copy_rows(T *K, const shape *s, float *p) {
    K->copy_rows(AT(0), LD, AT(1), LDY(2), M, N);
  }
  BOTH static void fill_rows(T *K, const shape *s, float *p) { K->fill_rows(AT(0), LD, 2, M, N); }
  BOTH static void spread_rows(T *K, const shape *s, float *p) {
    K->spread_rows(AT(0), LD, AT(1), F, M, N);
  }
  BOTH static void add_rows(T *K, const shape *s, float *p) {
    K->add_rows(AT(0), LDY(1), AT(1), LDY(2), M, N);
  }
  BOTH static void mul_rows(T *K, const shape *s, float *p) {
    K->mul_rows(AT(0), LD, AT(0), LD, AT(2), LDY(2), M, N);
  }
  BOTH static void muladd_rows(T *K, const shape *s, float *p) {
    K->muladd_rows(AT(0), LDY(1), AT(1), LDY(2), AT(2), LD, M, N);
  }
  BOTH static void scale_rows(T *K, const shape *s, float *p) {
    K->scale_rows(AT(0), LD, 0.3f, F & 4 ? NULL : AT(1), 1, F & 1 ? AT(0) : AT(2), LD, M, N);
  }
  BOTH static void axpy_rows(T *K, const shape *s, float *p) {
    K->axpy_rows(AT(0), LDY(1), 0.3f, F & 4 ? NULL : AT(1), 1, AT(2), LDY(2), M, N);
  }
  BOTH static void dot_rows(T *K, const shape *s, float *p) {
    K->dot_rows(1, AT(0), !(F & 1), AT(1), LD, AT(2), LDY(2), M, N);
  }
  BOTH static void sum_rows(T *K, const shape *s, float *p) {
    K->sum_rows(F >> 1, AT(0), !(F & 1), AT(1), LD, M, N);
  }
  BOTH static void mask_rows(T *K, const shape *s, float *p) {
    K->mask_rows(AT(0), LD, 9, M, N, F - 3, (ptrdiff_t)(N / 2), (size_t)F % 3);
  }
  BOTH static void transpose(T *K, const shape *s, float *p) {
    K->transpose(AT(0), M + s->gap, AT(1), LD, M, N);
  }
  BOTH static void fade(T *K, const shape *s, float *p) {
    K->fade(F % 3, AT(0), AT(1), F / 3 ? AT(2) : NULL, M, N);
  }
  BOTH static void norm_rows(T *K, const shape *s, float *p) {
    K->norm_rows(AT(0), LD, AT(1), AT(2), AT(3), AT(4), AT(5), 1e-5f, M, N);
  }
  BOTH static void norm_project(T *K, const shape *s, float *p) {
    K->norm_project(TO(1), AT(1), AT(2), AT(3), M, N);
  }
  BOTH static void norm_rows_begin2(T *K, const shape *s, float *p) {
    const typename Y::norm2 x = {M, N, AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8),
                                 AT(9)};
    K->norm_rows_begin2(K, AT(0), &x);
  }
  BOTH static void triangle(T *K, const shape *s, float *p) {
    const size_t m = M < 60 ? M : 60;  /* rows of one array do not reach the next               */
    K->triangle(TO(1), 0.6f, F & 2 ? AT(2) : NULL, LD + 1, AT(1), N + m, N, 1, m);
  }
  BOTH static void normaliser(T *K, const shape *s, float *p) {
    K->normaliser(K, AT(0), AT(1), N + M, AT(2), M, N, (size_t)F);
  }
  BOTH static void rates_fwd(T *K, const shape *s, float *p) {
    K->rates_fwd(1 + F, AT(0), AT(1), AT(2), 3, N, 2);
  }
  BOTH static void bound_share(T *K, const shape *s, float *p) {
    K->bound_share(AT(0), AT(1), AT(2), AT(3), AT(4), 0.3f, M, N);
  }
  BOTH static void bound_share_bwd(T *K, const shape *s, float *p) {
    K->bound_share_bwd(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), 0.3f, M, N);
  }
  BOTH static void bound_fwd(T *K, const shape *s, float *p) {
    const size_t in = s->k, wide = F % 3 == 2 ? N : F % 3 ? in : 1;
    const typename Y::bound x = {M, in, N, wide, in, F % 3, 0.4f, F / 3 % 2 ? AT(5) : NULL,
                                 AT(6), AT(7), AT(8), F / 6 ? AT(9) : NULL, AT(0), AT(1),
                                 AT(SLOTS)};
    K->bound_fwd(K, &x, AT(2), AT(3), AT(4));
  }
  BOTH static void bias_rows(T *K, const shape *s, float *p) {
    typename Y::plan *plan = (typename Y::plan *)(void *)AT(13);
    const int back = F % 2, each = F / 2 % 2;
    typename Y::errors x = {&plan->d, M,     N,     each ? N : 1, AT(1),
                            AT(2),    AT(3), AT(4), AT(5),        2,
                            plan->group_end, back ? NULL : AT(10), back ? AT(10) : NULL};
    plan->group_end[0] = (uint16_t)((N + 2) / 3), plan->group_end[1] = (uint16_t)N;
    plan->d.bias = F / 4 < MIRAS_BIAS_CUSTOM ? (miras_bias)(F / 4) : MIRAS_BIAS_CROSS_ENTROPY;
    plan->d.threshold_gate = each ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD;
    plan->d.p = 2.5f, plan->d.sharpness = 3;
    K->mul(AT(3), AT(3), AT(3), M * N);
    K->bias_rows(&x, back ? AT(6) : NULL, AT(7), AT(8), AT(9));
    K->fill(AT(9), 0, N);              /* room */
  }
  BOTH static void feature_rows(T *K, const shape *s, float *p) {
    K->feature_rows(F / 2 * 16 + (F % 2 ? MIRAS_FN_SOFTMAX : MIRAS_FN_ELU), AT(0), LD,
                    AT(1), LD, M, N);
  }
  BOTH static void implicit_rows(T *K, const shape *s, float *p) {
    K->implicit_rows(F ? 0.0f : 0.5f, AT(0), (size_t)F + 1, AT(1), LD, M, N);
  }
  BOTH static void attend_bwd(T *K, const shape *s, float *p) {
    K->attend_bwd(AT(0), AT(1), AT(2), AT(3), AT(4), M, N);
  }
  BOTH static void online_softmax(T *K, const shape *s, float *p) {
    K->online_softmax(AT(0), AT(1), AT(2), AT(3), s->k, M, N);
  }
  BOTH static void online_softmax_rows(T *K, const shape *s, float *p) {
    K->online_softmax_rows(AT(0), AT(1), AT(2), AT(3), s->k, N, M);
  }

  /* of the exact engine */
  BOTH static void fold_few(T *K, const shape *s, float *p) {
    const float *x[4] = {AT(2), AT(3), AT(4), AT(5)}, *u[4] = {AT(6), AT(7), AT(8), AT(9)};
    K->fold_few((size_t)1 << F / 2, AT(0), AT(1), (size_t)F % 2, x, u, M, N);
  }
  BOTH static void decays_bwd(T *K, const shape *s, float *p) {
    K->decays_bwd(AT(0), F & 8 ? NULL : AT(1), AT(2), AT(3), AT(4), (size_t)F & 1,
                F & 2 ? AT(5) : NULL, F & 4 ? 1 : 0, M, N);
  }
  BOTH static void exact_solve(T *K, const shape *s, float *p) {
    const size_t m = M < 17 ? M : 17;
    const typename Y::solve x = {AT(0), AT(1), F == 1 ? AT(2) : NULL, AT(3), AT(4), AT(5), N, m + 3,
                                 N};
    K->exact_solve(F == 2, &x, 0, m);
  }
  BOTH static void channel_decay(T *K, const shape *s, float *p) {
    K->channel_decay(K, AT(0), F ? AT(1) : NULL, AT(2), M, N);
  }
  BOTH static void channel_decay_bwd(T *K, const shape *s, float *p) {
    K->channel_decay_bwd(K, AT(0), AT(1), AT(2), AT(3), M, N);
  }
  /* two parts of a block; form: scores, scores with z, mixes; of every row or every second one */
  BOTH static void channel_rows(T *K, const shape *s, float *p) {
    const size_t every = 1 + (size_t)F / 3, m = M % 34 / every * every;
    const int mixes = F % 3 == 2;
    typename Y::channels c = {N, every, F & 1, AT(0), AT(1), AT(2), mixes ? NULL : AT(3),
                              F % 3 == 1 ? AT(4) : NULL, AT(5), AT(6), 2 * m, AT(7)};
    K->channel_rows(K, &c, mixes ? AT(8) : NULL, LD, 0, m);
    c.x = AT(9), c.p += m, c.eta = NULL;
    K->channel_rows(K, &c, mixes ? AT(10) : NULL, LD, m, m);
  }

  BOTH static void channel_bwd(T *K, const shape *s, float *p) {
    const size_t every = 1 + (size_t)F / 4, m = M % 34 / every * every;
    const typename Y::channels c = {N, every, F & 1, AT(0), AT(1), AT(2), F & 2 ? NULL : AT(3),
                                    F & 1 ? AT(4) : NULL, AT(5), AT(6), m, AT(7)};
    const typename Y::channel_grads g = {AT(8), AT(9), AT(10), F & 2 ? NULL : AT(11),
                                         F & 1 ? AT(12) : NULL, AT(13)};
    K->channel_bwd(&c, &g, m, AT(SLOTS));
  }

  BOTH static void fold_column(T *K, const shape *s, float *p) {
    K->fold_column(AT(0), AT(1), (size_t)F % 2, AT(2), F / 2 ? AT(3) : NULL, AT(4), M, N);
  }
  BOTH static void channel_decays(T *K, const shape *s, float *p) {
    K->channel_decays(K, AT(0), AT(1), AT(3), N, (size_t)F * 30, M);
  }
  BOTH static void normaliser_bwd(T *K, const shape *s, float *p) {
    K->normaliser_bwd(K, AT(0), AT(1), AT(2), N + s->gap, M < N ? M : N, F ? 1 : N, (size_t)F);
  }
  BOTH static void softmax_mean(T *K, const shape *s, float *p) {
    K->softmax_mean(K, AT(0), N, AT(1), AT(2), M, F ? AT(3) : NULL, 3);
  }
  BOTH static void conjugate_start(T *K, const shape *s, float *p) {
    const typename Y::conjugate g = {N, M, 0, M, 0.2f, AT(0), AT(1), AT(2), AT(3), AT(4),
                                     AT(5), AT(6)};
    K->conjugate_start(&g);
  }
  BOTH static void momentum_fwd(T *K, const shape *s, float *p) {
    K->momentum_fwd(AT(0), AT(1), 0.7f, 0.4f, M * N);
  }
  BOTH static void momentum_bwd(T *K, const shape *s, float *p) {
    K->momentum_bwd(AT(0), AT(1), AT(2), AT(3), AT(4), 0.7f, 0.4f, M * N);
  }
  BOTH static void fade_bwd(T *K, const shape *s, float *p) {
    K->fade_bwd(F % 3, AT(0), AT(1), AT(2), AT(3), AT(4), F / 3 ? AT(5) : NULL, M, N);
  }
  BOTH static void weigh_bwd(T *K, const shape *s, float *p) {
    const size_t step = (size_t)F % 3, rows = M < 33 ? M : 33;
    const size_t seen = 1 + (rows - 1) * step, ld = seen + s->gap;
    K->weigh_bwd(K, F / 3 ? AT(0) : NULL, AT(1), AT(2), AT(3), ld, rows, 1, step, seen);
  }
  BOTH static void conjugate_step(T *K, const shape *s, float *p) {
    const typename Y::conjugate g = {N, M, M / 4, M, 0.2f, AT(0), AT(1), AT(2), AT(3), AT(4),
                                     AT(5), AT(6)};
    K->conjugate_step(&g);
    *AT(7) = (float)K->conjugate_end(&g, F);
  }
  BOTH static void absorb(T *K, const shape *s, float *p) {
    const typename Y::absorbing a = {N, (N + 15) / 16 * 16, s->k % N, AT(0), AT(1),
                                     F / 2 ? NULL : AT(2), 0.3f, AT(3), AT(4), AT(5), AT(6), 0.5f,
                                     2, F ? 0.3f : 0};     /* or finds its weight */
    K->absorb(&a);
  }
  BOTH static void recede(T *K, const shape *s, float *p) { K->recede(AT(0), AT(1), 0.9f, N); }
  BOTH static void outer_even(T *K, const shape *s, float *p) {
    K->outer_even(AT(0), AT(1), AT(2), N);
  }

  /* 9 rows of states [n, N]; form: towards b, then with queries, what is written scaled, complex */
  BOTH static typename Y::scan scan_of(const shape *s, float *p) {
    typename Y::scan f;
    f.scale = F / 4 % 4, f.start = f.scale == MIRAS_WRITE_SCALE_START, f.turning = F / 16;
    f.n = M < 9 ? M : 9, f.dv = f.turning ? N / 2 * 2 : N, f.rows = 9, f.step = 0;
    f.ld_dt = f.ld_u = f.ld_y = LD, f.ld_x = f.ld_q = 9 + s->gap;
    f.a = AT(1), f.b = F & 1 ? AT(2) : NULL, f.dt = AT(3), f.u = AT(4), f.x = AT(5);
    f.q = AT(6), f.s = AT(0), f.y = AT(7);
    return f;
  }
  BOTH static void scan_fwd(T *K, const shape *s, float *p) {
    typename Y::scan f = scan_of(s, p);
    if (F & 2) f.q = NULL;
    K->scan_fwd(&f);
  }
  BOTH static void scan_bwd(T *K, const shape *s, float *p) {
    typename Y::scan f = scan_of(s, p);
    typename Y::scan_grads g;
    f.step = f.n * f.dv;
    g.ds = AT(8), g.da = AT(9), g.db = F & 1 ? AT(10) : NULL, g.ddt = AT(11), g.du = AT(12);
    g.dy = AT(7);
    K->scan_bwd(&f, &g);
  }

  /* form: a text begins, its state is kept, and those before each token */
  BOTH static typename Y::wkv wkv_of(const shape *s, float *p) {
    typename Y::wkv x;
    x.rows = M, x.n = x.n_state = N, x.ld_k = x.ld_v = x.ld_y = LD, x.ld_kept = 2 * N + s->gap;
    x.starts = F & 1, x.k = AT(1), x.v = AT(2), x.w = AT(3), x.u = AT(3) + N, x.y = AT(0);
    x.state = F & 2 || !(F & 1) ? AT(4) : NULL, x.kept = F & 4 ? AT(5) : NULL;
    return x;
  }
  BOTH static void wkv_fwd(T *K, const shape *s, float *p) {
    const typename Y::wkv x = wkv_of(s, p);
    K->wkv_fwd(&x);
  }
  BOTH static void wkv_bwd(T *K, const shape *s, float *p) {
    const typename Y::wkv_grads g = {AT(0), AT(7), AT(8), AT(9), AT(9) + N};
    typename Y::wkv x = wkv_of(s, p);
    x.kept = AT(5);
    K->wkv_bwd(&x, &g);
  }

  /* 9 rows of states [n, N], of which one is not met; form: with values */
  BOTH static typename Y::meeting meeting_of(const shape *s, float *p) {
    typename Y::meeting m;
    m.n = M < 9 ? M : 9, m.dv = N, m.x = AT(3), m.lambda = AT(3) + 9, m.alpha = AT(3) + 18;
    m.eta = AT(3) + 19, m.e = AT(4), m.v = F ? AT(5) : NULL, m.w = AT(0), m.c = AT(1), m.s = AT(2);
    return m;
  }
  BOTH static void count_meet(T *K, const shape *s, float *p) {
    const typename Y::meeting m = meeting_of(s, p);
    K->count_meet(&m);
  }
  BOTH static void count_take(T *K, const shape *s, float *p) {
    const typename Y::meeting m = meeting_of(s, p);
    K->count_take(&m);
  }
  BOTH static void count_bwd(T *K, const shape *s, float *p) {
    const typename Y::meeting m = meeting_of(s, p);
    const typename Y::meeting_grads g = {AT(6), AT(7), AT(8), AT(9), AT(10), AT(11), AT(12),
                                         AT(13)};
    K->count_bwd(&m, &g);
  }

  /* of the frozen engine: two layers, whose slices are rows and columns, or all of each */
  BOTH static typename Y::plan *plan_of(const shape *s, float *p) {
    typename Y::plan *plan = (typename Y::plan *)(void *)AT(13);
    plan->layers = 2, plan->from[0] = 0, plan->from[1] = 1;
    plan->in[0] = plan->in[1] = (int)M / 2 + 1, plan->out[0] = plan->out[1] = (int)N;
    plan->offset[0] = 0, plan->offset[1] = (M / 2 + 1) * N;
    plan->d.simplex_whole = F / 2 % 2, plan->d.simplex = 2;
    return plan;
  }
  BOTH static void signed_fwd(T *K, const shape *s, float *p) {
    K->signed_fwd(plan_of(s, p), F % 2, AT(0), F & 4 ? NULL : AT(2), AT(1));
  }
  BOTH static void simplex_fwd(T *K, const shape *s, float *p) {
    K->scale(AT(1), 90, AT(1), M * N);
    K->simplex_fwd(plan_of(s, p), F % 2, F & 4 ? AT(0) : AT(1), AT(1));
  }
  BOTH static void simplex_bwd(T *K, const shape *s, float *p) {
    K->simplex_bwd(plan_of(s, p), F % 2, AT(0), AT(1), F & 4 ? AT(2) : NULL, AT(3),
                   F & 12 ? AT(4) : NULL);
  }
  BOTH static void divergence_step(T *K, const shape *s, float *p) {
    typename Y::plan *plan = plan_of(s, p);
    plan->d.retention = F / 4 == 0   ? MIRAS_RETENTION_CHI2
                        : F / 4 == 1 ? MIRAS_RETENTION_REVERSE_KL
                                     : MIRAS_RETENTION_HELLINGER;
    K->mul(AT(2), AT(2), AT(2), SLOT);
    K->divergence_step(plan, F & 1 ? AT(2) : AT(0), F & 1 ? NULL : AT(1), AT(2), AT(3));
  }
  BOTH static void lq_fwd(T *K, const shape *s, float *p) {
    *AT(2) = K->lq_fwd(TO(1), AT(1), 2.5f, F, M * N);
  }
  BOTH static void lq_bwd(T *K, const shape *s, float *p) {
    K->lq_bwd(AT(0), AT(1), AT(2), AT(3), 0.7f, 0.3f, 2.5f, F, M * N);
  }
  BOTH static void triangle_bwd(T *K, const shape *s, float *p) {
    const size_t m = M < 33 ? M : 33, inner_steps = 1 + (size_t)F % 2;
    const typename Y::reads r = {m, 3, inner_steps, 3 + (m - 1) * inner_steps,
                                 3 + (m - 1) * inner_steps + s->gap};
    K->triangle_bwd(AT(0), AT(1), AT(2), AT(3), 0.4f, -1, F / 2 ? AT(4) : NULL, AT(5), &r);
  }
  BOTH static void norm_rows_end2(T *K, const shape *s, float *p) {
    const typename Y::norm2 x = {M, N, AT(1), AT(2), AT(3), AT(4), AT(5), AT(6), AT(7), AT(8),
                                 AT(9)};
    K->norm_rows_end2(K, AT(0), AT(10), AT(11), AT(12), &x);
  }

  /* of layers */

  /* The functions of gates; the first four are those of convolutions. */
  BOTH static int function(int i) {
    switch (i) {
      case 0: return MIRAS_FN_SILU;
      case 1: return MIRAS_FN_NONE;
      case 2: return MIRAS_FN_RELU;
      case 3: return MIRAS_FN_ELU;
      case 4: return MIRAS_FN_GELU;
      case 5: return MIRAS_FN_SIGMOID;
      default: return MIRAS__TANH;
    }
  }
  BOTH static void conv_bwd(T *K, const shape *s, float *p) {
    const size_t taps = (size_t)F / 2 % 5 + 1, rows = M < 60 ? M : 60;
    const int bare = taps == 1 && s->gap;
    const size_t group = taps == 1 && HEADS == 1 ? 3 : 1;
    const typename Y::conv x = {AT(1), F & 1 ? AT(2) : NULL, bare ? NULL : AT(3),
                                F & 1 && !bare ? AT(10) : NULL, WIDE + s->gap, WIDE,
                                (M + 5) * DIM / group, taps, rows / group, HEADS, DIM, group,
                                function(F / 2 % 4), F % 3 == 1};
    K->conv_bwd(AT(0), WIDE, bare ? NULL : AT(4), F & 1 && !bare ? AT(11) : NULL, AT(5),
                F & 1 ? taps - 1 : 0, AT(8), &x);
  }
  /* form: where y or dx lies, whether y is wanted, then biases, a gate, its function */
  BOTH static void norm(const shape *s, float *p, typename Y::norming *x) {
    x->x = AT(1), x->ldx = WIDE + s->gap, x->gain = AT(2);
    x->bias = F / 8 % 2 ? AT(3) : NULL, x->gate = F / 16 % 2 ? AT(8) : NULL, x->ld_gate = WIDE;
    x->rows = M / 3 + 1, x->heads = HEADS, x->dim = DIM, x->epsilon = 1e-5f;
    x->function = function(F % 7);
  }
  BOTH static void heads_norm_fwd(T *K, const shape *s, float *p) {
    typename Y::norming x;
    norm(s, p, &x);
    K->heads_norm_fwd(F & 1 ? AT(1) : AT(0), WIDE + s->gap, &x);
  }
  BOTH static void heads_norm_bwd(T *K, const shape *s, float *p) {
    typename Y::norming x;
    const typename Y::norm_grads g = {AT(4), AT(5), AT(9), WIDE + s->gap};
    norm(s, p, &x);
    K->heads_norm_bwd(AT(0), WIDE, F & 1 ? AT(0) : NULL, WIDE, &g, F & 2 ? AT(6) : NULL, WIDE,
                      F & 4 ? AT(0) : AT(7), WIDE, &x);
  }
  BOTH static void squash_fwd(T *K, const shape *s, float *p) {
    K->squash_fwd(F ? (int)MIRAS__TANH : (int)MIRAS_FN_SIGMOID, AT(0), LD, M, N);
  }
  BOTH static void squash_bwd(T *K, const shape *s, float *p) {
    K->squash_bwd(F ? (int)MIRAS__TANH : (int)MIRAS_FN_SIGMOID, AT(0), LD, AT(1), LD + 1, M, N);
  }
  BOTH static void gate_rows_fwd(T *K, const shape *s, float *p) {
    K->gate_rows_fwd(function(F / 2 % 7), F & 1 ? AT(1) : AT(0), LD, AT(1), LD, AT(2), LD + 1, M,
                     N);
  }
  BOTH static void gate_rows_bwd(T *K, const shape *s, float *p) {
    K->gate_rows_bwd(function(F), AT(0), LD, AT(1), LD + 1, AT(2), LD + 2, M, N);
  }
  BOTH static void conv_fwd(T *K, const shape *s, float *p) {
    const size_t taps = (size_t)F / 2 % 5 + 1;
    const int bare = taps == 1 && s->gap;
    const typename Y::conv x = {AT(1), F & 1 ? AT(2) : NULL, bare ? NULL : AT(3),
                                F & 1 ? AT(4) : NULL, WIDE + s->gap, WIDE, (M + 1) * DIM, taps,
                                M < 60 ? M : 60, HEADS, DIM, 1, function(F / 2 % 4)};
    K->conv_fwd(AT(5), &x);
  }
  BOTH static void qk_norm_fwd(T *K, const shape *s, float *p) {
    K->qk_norm_fwd(AT(0), F & 1 ? AT(1) : NULL, F & 2 ? -2 : 2, M, N);
  }
  BOTH static void qk_norm_bwd(T *K, const shape *s, float *p) {
    K->qk_norm_bwd(AT(0), AT(1), AT(2), F ? -2 : 2, M, N);
  }
  BOTH static void erase_fwd(T *K, const shape *s, float *p) {
    const typename Y::erasing x = {AT(3), AT(4), AT(5), AT(6), LD, M, N};
    K->erase_fwd(AT(0), AT(1), AT(2), &x);
  }
  BOTH static void precondition_fwd(T *K, const shape *s, float *p) {
    const typename Y::conditioning x = {AT(2), AT(3), AT(4), AT(5), AT(6), LD, 2 + s->gap, M, N};
    K->precondition_fwd(AT(0), AT(1), &x);
  }
  BOTH static void precondition_bwd(T *K, const shape *s, float *p) {
    const typename Y::conditioning x = {AT(4), AT(5), AT(6), AT(7), AT(8), LD, 2 + s->gap, M, N};
    K->precondition_bwd(AT(0), AT(1), AT(2), AT(3), &x);
  }
  BOTH static void rotary(T *K, const shape *s, float *p) {
    const size_t dim = DIM / 2 * 2, wide = dim * HEADS + s->gap;
    K->rotary(F & 1 ? AT(1) : AT(0), wide, AT(1), wide, AT(2), (F & 2 ? 1 : -1) * (F & 8 ? 2 : 1),
              M / 2 + 1, HEADS, dim, F & 4 ? dim / 4 * 2 : dim);
  }
  BOTH static void gates_fwd(T *K, const shape *s, float *p) {
    const typename Y::gating how = {F % 7, 0.9f, -0.5f, F % 2 ? 0.5f : -1.0f};
    K->gates_fwd(&how, AT(0), AT(1), LD, F / 7 ? AT(2) : NULL, AT(3), M, N);
  }
  BOTH static void gates_bwd(T *K, const shape *s, float *p) {
    const typename Y::gating how = {F % 7, 0.9f, -0.5f, F / 7 ? 0.5f : -1.0f};
    K->gates_bwd(&how, AT(0), AT(1), LD, AT(2), AT(4), AT(3), M, N);
  }
  BOTH static void complement(T *K, const shape *s, float *p) {
    K->complement(F, 0.9f, AT(0), AT(1), AT(2), LD, M, N);
  }
};

/* Every kernel that is spread, and its forms. */
#define CASES(X)                                                                                  \
  X(gemm, 24) X(axpy, 1) X(scale, 2) X(add, 2) X(sub, 2) X(mul, 2) X(muladd, 2) X(fill, 1)        \
  X(copy, 1) X(flush, 2) X(rest, 2) X(map, 8) X(act_rows, 6) X(act_grad2, 3) X(sigmoid_bwd, 1)    \
  X(invert, 1) X(diagonal, 2) X(both_fwd, 1)              \
  X(both_bwd, 1) X(shrink_from, 4) X(shrink_from_bwd, 8) X(adamw, 1) X(dropout, 2) X(any, 4)      \
  X(dot, 1) X(sum, 1) X(cross_entropy, 2) X(copy_rows, 3) X(fill_rows, 1) X(spread_rows, 2)       \
  X(add_rows, 4) X(mul_rows, 3) X(muladd_rows, 4) X(scale_rows, 8) X(axpy_rows, 8) X(dot_rows, 4) \
  X(sum_rows, 4) X(mask_rows, 6) X(transpose, 1) X(fade, 6) X(norm_rows, 1) X(norm_project, 2)    \
  X(norm_rows_begin2, 1) X(triangle, 4) X(normaliser, 2) X(rates_fwd, 2) X(bound_share, 1)       \
  X(bound_share_bwd, 1) X(bound_fwd, 12) X(bias_rows, 4 * MIRAS_BIAS_COUNT - 4)                   \
  X(feature_rows, 4)                                                                              \
  X(implicit_rows, 2) X(attend_bwd, 1) X(online_softmax, 1) X(online_softmax_rows, 1)             \
  X(fold_few, 6) X(decays_bwd, 16) X(exact_solve, 3) X(channel_decay, 2) X(channel_decay_bwd, 1)   \
  X(channel_rows, 6) X(heads_norm_fwd, 32) X(heads_norm_bwd, 32) X(squash_fwd, 2)                 \
  X(squash_bwd, 2) X(conv_fwd, 10) X(qk_norm_fwd, 4) X(qk_norm_bwd, 2) X(erase_fwd, 1)             \
  X(precondition_fwd, 1) X(precondition_bwd, 1)                                                    \
  X(channel_bwd, 8) X(fold_column, 4) X(weigh_bwd, 6) X(conjugate_step, 2) X(lq_fwd, 2)          \
  X(channel_decays, 3) X(normaliser_bwd, 2) X(softmax_mean, 2) X(conjugate_start, 1)              \
  X(fade_bwd, 6) X(momentum_fwd, 1) X(momentum_bwd, 1)                                            \
  X(lq_bwd, 2) X(signed_fwd, 8) X(simplex_fwd, 8) X(simplex_bwd, 16) X(divergence_step, 12)      \
  X(triangle_bwd, 4) X(norm_rows_end2, 1) X(conv_bwd, 10) \
  X(rotary, 20) X(gates_fwd, 14) X(gates_bwd, 14) X(complement, 2) X(gate_rows_fwd, 14)            \
  X(gate_rows_bwd, 7) X(number_loss, 12) X(absorb, 2) X(recede, 1) X(outer_even, 1)  \
  X(scan_fwd, 32) X(scan_bwd, 32) X(count_meet, 2) X(count_take, 2) X(count_bwd, 2)              \
  X(wkv_fwd, 8) X(wkv_bwd, 1)

typedef struct job {
  shape s;
  int which;
  float *p;
} job;
__global__ void run_case(const __grid_constant__ job a) {
  int i = 0;
#define X(name, forms) \
  if (a.which == i++) cases<block>::name(&miras_cuda::miras__of_blocks, &a.s, a.p);
  CASES(X)
#undef X
}

static const struct {
  const char *name;
  int forms;
  void (*run)(const ::miras__kernels *K, const shape *s, float *p);
} list[] = {
#define X(name, forms) {#name, forms, cases<host>::name},
  CASES(X)
#undef X
};
static uint32_t drawn = 1;
static uint32_t draw(uint32_t below) {
  drawn = drawn * 1664525u + 1013904223u;
  return (drawn >> 8) % below;
}

static float at_first[FLOATS], by_host[WHOLE], by_block[FLOATS];

/* From at_first to by_host and by_block. */
static void both_run(const job *a) {
  memcpy(by_host, at_first, sizeof at_first);
  list[a->which].run(miras__kernels_best(), &a->s, by_host);
  STOP_IF(cudaMemcpyAsync(a->p, at_first, sizeof at_first, cudaMemcpyHostToDevice, 0));
  STOP_IF(!miras__cuda_launch(run_case, 1, 0, 0, *a));
  STOP_IF(cudaMemcpyAsync(by_block, a->p, sizeof by_block, cudaMemcpyDeviceToHost, 0));
  STOP_IF(cudaDeviceSynchronize());
}

/* One draw of sizes, by the host and by a block. 0: not the same. */
static int same(int which, int form, float *device) {
  static const size_t sizes[] = {1, 2, 15, 16, 17, 31, 33, 64, 100};
  static const unsigned blocks[] = {32, 96, 128};
  job a;
  int i;
  memset(&a, 0, sizeof a);
  a.which = which, a.p = device;
  a.s.m = sizes[draw(9)], a.s.n = sizes[draw(9)], a.s.k = sizes[draw(9)];
  a.s.gap = draw(2) ? 0 : draw(5), a.s.form = form;
  threads = blocks[draw(3)];
  for (i = 0; i < FLOATS; i++) at_first[i] = (float)((int)draw(20001) - 10000) / 10000;
  both_run(&a);
  for (i = 0; i < FLOATS; i++)       /* a NaN is any NaN */
    if (memcmp(&by_host[i], &by_block[i], sizeof(float)) &&
        (by_host[i] <= by_host[i] || by_block[i] <= by_block[i])) {
      printf("%s, form %d, %u threads: m %u, n %u, k %u, gap %u: array %d, %d\n",
             list[which].name, form, threads, (unsigned)a.s.m, (unsigned)a.s.n, (unsigned)a.s.k,
             (unsigned)a.s.gap, i / SLOT, i % SLOT);
      return 0;
    }
  return 1;
}

int main(int argc, char **argv) {
  const int count = (int)(sizeof list / sizeof list[0]);
  unsigned failed = 0, runs = 0;
  int which, form, turn, i;
  void *device;
  if (!strcmp(miras_isa(), "portable")) {
    puts("skipped: without fused multiply-add the host has other bits");
    return 77;
  }
  if (cudaMalloc(&device, WHOLE * sizeof(float)) != cudaSuccess) {
    puts("skipped: there is no device");
    return 77;
  }
  for (which = 0; which < count; which++) {
    for (i = 1; i < argc && strcmp(argv[i], list[which].name); i++) {}
    if (argc > 1 && i == argc) continue;
    for (form = 0; form < list[which].forms; form++)
      for (turn = 0; turn < (list[which].forms > 9 ? 6 : 16); turn++, runs++)
        failed += !same(which, form, (float *)device);
  }
  cudaFree(device);
  printf("%d kernels, %u runs, %u differ\n", count, runs, failed);
  return failed != 0;
}
