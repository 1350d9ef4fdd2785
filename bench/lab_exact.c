/* lab_exact.c: schedules of one head of an exact matrix memory, to see which is near the machine.
 *
 *   cc -O2 -march=native bench/lab_exact.c -o lab -lm && ./lab          64 and 128
 *   cc -O2 -mavx2 -mfma bench/lab_exact.c -o lab -lm && ./lab           vectors of 8
 *
 * The recurrence is S <- alpha (S + x u'), error first: e = v - x S before the decay, u = eta e, y
 * = q S after the write. Every schedule runs the same 2048 tokens; "bits" says whether it gives
 * those of the first. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
  #define W 16
#elif defined(__AVX2__)
  #define W 8
#else
  #define W 4
#endif
typedef float vf __attribute__((vector_size(4 * W), aligned(4), may_alias));
#pragma GCC optimize("fp-contract=fast")
#define SPLAT(x) ((x) - (vf){0})
#define AT(p) (*(const vf *)(p))
#define TO(p) (*(vf *)(p))
#define UNROLL _Pragma("GCC unroll 24")
#define INLINE static inline __attribute__((always_inline))

enum { TOKENS = 2048, MOST = 128, ROUNDS = 40 };
__attribute__((aligned(64))) static float
    K[TOKENS][MOST], Q[TOKENS][MOST], V[TOKENS][MOST], Y[TOKENS][MOST],
    ALPHA[TOKENS], ETA[TOKENS], S[MOST * MOST], PART[MOST * MOST], U[TOKENS][MOST], KQ[TOKENS];

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float dot(const float *a, const float *b, int n) {
  vf s = {0};
  float sum = 0;
  for (int i = 0; i < n; i += W) s += AT(a + i) * AT(b + i);
  for (int i = 0; i < W; i++) sum += s[i];
  return sum;
}

/* A sweep of token t over `wide` vectors of columns from j on: the write of token t - 1 is carried
 * out while token t reads, so that S is loaded and stored once. */
INLINE void sweep(int wide, int delta, int t, int j, int n, float *row, int ld) {
  vf last[8], a[8], b[8], w;
  const float *x = K[t], *q = Q[t], *xp = t ? K[t - 1] : K[t];
  const vf alpha = SPLAT(ALPHA[t]);
  UNROLL for (int r = 0; r < wide; r++) {
    last[r] = t ? AT(U[t - 1] + j + r * W) : (vf){0};
    a[r] = b[r] = (vf){0};
  }
  for (int i = 0; i < n; i++, row += ld) {
    const vf xi = SPLAT(xp[i]), ki = SPLAT(x[i]), qi = SPLAT(q[i]);
    UNROLL for (int r = 0; r < wide; r++) {
      w = AT(row + r * W) + xi * last[r];
      if (delta) a[r] += ki * w;
      w = alpha * w;
      b[r] += qi * w;
      TO(row + r * W) = w;
    }
  }
  UNROLL for (int r = 0; r < wide; r++) {
    const vf e = AT(V[t] + j + r * W) - a[r], u = SPLAT(ETA[t]) * e;
    TO(U[t] + j + r * W) = u;
    TO(Y[t] + j + r * W) = b[r] + SPLAT(KQ[t]) * u;
  }
}

/* Columns in parts of `wide` vectors, every token by itself over all of them. */
#define BY_TOKEN(name, wide, delta)                                          \
  static void name(int n) {                                                  \
    for (int t = 0; t < TOKENS; t++) {                                       \
      KQ[t] = dot(K[t], Q[t], n);                                            \
      for (int j = 0; j < n; j += wide * W) sweep(wide, delta, t, j, n, S + j, n);     \
    }                                                                        \
  }
/* Parts of columns outside, `many` tokens inside: a part of the state stays in the first cache. */
#define BY_PART(name, wide, many, delta)                                     \
  static void name(int n) {                                                  \
    for (int t0 = 0; t0 < TOKENS; t0 += many) {                              \
      for (int t = t0; t < t0 + many; t++) KQ[t] = dot(K[t], Q[t], n);       \
      for (int j = 0; j < n; j += wide * W)                                  \
        for (int t = t0; t < t0 + many; t++) sweep(wide, delta, t, j, n, S + j, n);    \
    }                                                                        \
  }
/* The same with the part of the state in one piece while its tokens last. */
#define PACKED(name, wide, many, delta)                                      \
  static void name(int n) {                                                  \
    for (int t0 = 0; t0 < TOKENS; t0 += many) {                              \
      for (int t = t0; t < t0 + many; t++) KQ[t] = dot(K[t], Q[t], n);       \
      for (int j = 0; j < n; j += wide * W) {                                \
        for (int i = 0; i < n; i++)                                          \
          memcpy(PART + i * wide * W, S + i * n + j, 4 * wide * W);          \
        for (int t = t0; t < t0 + many; t++)                                 \
          sweep(wide, delta, t, j, n, PART, wide * W);                       \
        for (int i = 0; i < n; i++)                                          \
          memcpy(S + i * n + j, PART + i * wide * W, 4 * wide * W);          \
      }                                                                      \
    }                                                                        \
  }
BY_TOKEN(token1, 1, 1)
BY_TOKEN(token2, 2, 1)
BY_TOKEN(token4, 4, 1)
BY_TOKEN(token8, (W == 16 ? 4 : 8), 1)
BY_PART(part2, 2, 16, 1)
BY_PART(part3, 4, 16, 1)
BY_PART(part4, 4, 64, 1)
PACKED(packed2, 2, 64, 1)
PACKED(packed4, 4, 16, 1)
PACKED(packed5, 4, 64, 1)
PACKED(packed6, 4, 256, 1)

/* ---- other bits: pairs of tokens per sweep, the second's error put right by algebra ----
 * S0 the state before both, with the pair before pending: S = S0 + x1 u1' + x2 u2' (scaled).
 *   a1 = k1 S, a2 = k2 S;  e1 = v1 - a1,  e2 = v2 - alpha1 (a2 + (k2.k1) u1)
 * and likewise the answers, so one load and store of S serve two tokens: per element 2 products for
 * the writes, 4 for reads, 1 for the decay of both: 7 for 14 operations a pair instead of 8. */
INLINE void sweep_pair(int wide, int t, int j, int n) {
  vf u1[4], u2[4], a1[4], a2[4], b1[4], b2[4], w;
  const float *k1 = K[t], *k2 = K[t + 1], *q1 = Q[t], *q2 = Q[t + 1];
  const float *x1 = t ? K[t - 2] : K[t], *x2 = t ? K[t - 1] : K[t];
  const float al = t ? ALPHA[t - 2] * ALPHA[t - 1] : 1, al2 = t ? ALPHA[t - 1] : 1;
  const float A1 = ALPHA[t], A2 = ALPHA[t + 1];
  const float k21 = dot(k1, k2, n), q11 = dot(k1, q1, n);
  const float q21 = dot(k1, q2, n), q22 = dot(k2, q2, n);
  const vf left = SPLAT(al);
  UNROLL for (int r = 0; r < wide; r++) {
    u1[r] = t ? AT(U[t - 2] + j + r * W) * SPLAT(al2) : SPLAT(0.0f);
    u2[r] = t ? AT(U[t - 1] + j + r * W) : (vf){0};
    a1[r] = a2[r] = b1[r] = b2[r] = (vf){0};
  }
  float *row = S + j;
  for (int i = 0; i < n; i++, row += n) {
    const vf p1 = SPLAT(x1[i]), p2 = SPLAT(x2[i]), c1 = SPLAT(k1[i]), c2 = SPLAT(k2[i]),
             d1 = SPLAT(q1[i]), d2 = SPLAT(q2[i]);
    UNROLL for (int r = 0; r < wide; r++) {
      w = left * AT(row + r * W);
      w += p1 * u1[r];
      w += p2 * u2[r];
      a1[r] += c1 * w, a2[r] += c2 * w, b1[r] += d1 * w, b2[r] += d2 * w;
      TO(row + r * W) = w;
    }
  }
  UNROLL for (int r = 0; r < wide; r++) {
    const vf w1 = SPLAT(ETA[t]) * (AT(V[t] + j + r * W) - a1[r]);
    const vf w2 = SPLAT(ETA[t + 1]) *
                  (AT(V[t + 1] + j + r * W) - (SPLAT(A1) * a2[r] + SPLAT(k21) * w1));
    TO(U[t] + j + r * W) = w1;
    TO(U[t + 1] + j + r * W) = w2;
    TO(Y[t] + j + r * W) = SPLAT(A1) * b1[r] + SPLAT(q11) * w1;
    TO(Y[t + 1] + j + r * W) =
        SPLAT(A1 * A2) * b2[r] + SPLAT(A2 * q21) * w1 + SPLAT(q22) * w2;
  }
}
static void pair2(int n) {
  for (int t = 0; t < TOKENS; t += 2)
    for (int j = 0; j < n; j += 2 * W) sweep_pair(2, t, j, n);
}
static void pair4(int n) {
  for (int t = 0; t < TOKENS; t += 2)
    for (int j = 0; j < n; j += 4 * W) sweep_pair(4, t, j, n);
}

/* ---- no error: linear attention and Mamba-2; m tokens per sweep in their order, same bits ---- */
BY_TOKEN(plain1, 1, 0)
BY_TOKEN(plain4, 4, 0)
BY_PART(plain4p, 4, 64, 0)
PACKED(plain4q, 4, 64, 0)
PACKED(plain2q, 2, 64, 0)

INLINE void sweep_many(int wide, int many, int t, int j, int n) {
  vf u[4][4], b[4][4], w[4];
  UNROLL for (int m = 0; m < many; m++)
    UNROLL for (int r = 0; r < wide; r++) {
      u[m][r] = SPLAT(t + m ? ETA[t + m - 1] : 0) * AT(V[t + m ? t + m - 1 : 0] + j + r * W);
      b[m][r] = (vf){0};
    }
  float *row = S + j;
  for (int i = 0; i < n; i++, row += n) {
    UNROLL for (int r = 0; r < wide; r++) w[r] = AT(row + r * W);
    UNROLL for (int m = 0; m < many; m++) {
      const float *xp = t + m ? K[t + m - 1] : K[0];
      UNROLL for (int r = 0; r < wide; r++) {
        w[r] = w[r] + SPLAT(xp[i]) * u[m][r];
        w[r] = SPLAT(ALPHA[t + m]) * w[r];
        b[m][r] += SPLAT(Q[t + m][i]) * w[r];
      }
    }
    UNROLL for (int r = 0; r < wide; r++) TO(row + r * W) = w[r];
  }
  UNROLL for (int m = 0; m < many; m++)
    UNROLL for (int r = 0; r < wide; r++)
      TO(Y[t + m] + j + r * W) =
          b[m][r] + SPLAT(KQ[t + m]) * (SPLAT(ETA[t + m]) * AT(V[t + m] + j + r * W));
}
#define MANY(name, wide, many)                                               \
  static void name(int n) {                                                  \
    for (int t = 0; t < TOKENS; t += many) {                                 \
      for (int i = t; i < t + many; i++) KQ[i] = dot(K[i], Q[i], n);         \
      for (int j = 0; j < n; j += wide * W) sweep_many(wide, many, t, j, n); \
    }                                                                        \
  }
MANY(many2x2, 2, 2)
MANY(many4x2, 4, 2)
MANY(many2x4, 2, 4)

typedef struct schedule {
  const char *name;
  void (*run)(int n);
  int work;                /* operations per element of the state and token */
  double best;
} schedule;

static schedule all[] = {
  {"error: 1 vector a sweep", token1, 7, 0},
  {"error: 2 vectors", token2, 7, 0},
  {"error: 4 vectors", token4, 7, 0},
  {"error: 64 columns", token8, 7, 0},
  {"error: 2 vectors, 16 tokens a part", part2, 7, 0},
  {"error: 4 vectors, 16 tokens a part", part3, 7, 0},
  {"error: 4 vectors, 64 tokens a part", part4, 7, 0},
  {"error: 2 vectors, packed, 64 tokens", packed2, 7, 0},
  {"error: 4 vectors, packed, 16 tokens", packed4, 7, 0},
  {"error: 4 vectors, packed, 64 tokens", packed5, 7, 0},
  {"error: 4 vectors, packed, 256 tokens", packed6, 7, 0},
  {"error: 2 tokens and 2 vectors", pair2, 7, 0},
  {"error: 2 tokens and 4 vectors", pair4, 7, 0},
  {"none: 1 vector", plain1, 5, 0},
  {"none: 4 vectors", plain4, 5, 0},
  {"none: 4 vectors, 64 tokens a part", plain4p, 5, 0},
  {"none: 4 vectors, packed, 64 tokens", plain4q, 5, 0},
  {"none: 2 vectors, packed, 64 tokens", plain2q, 5, 0},
  {"none: 2 tokens and 2 vectors", many2x2, 5, 0},
  {"none: 2 tokens and 4 vectors", many4x2, 5, 0},
  {"none: 4 tokens and 2 vectors", many2x4, 5, 0}
};
enum { SCHEDULES = sizeof all / sizeof *all, PLAIN = 13 };   /* the first without an error */

static void peak(int n) {
  vf s[W == 16 ? 24 : 12], a = SPLAT(0.999f);
  UNROLL for (int i = 0; i < (W == 16 ? 24 : 12); i++) s[i] = SPLAT((float)i);
  for (int t = 0; t < 20000; t++) {
    UNROLL for (int i = 0; i < (W == 16 ? 24 : 12); i++) s[i] = s[i] * a + a;
    __asm__ volatile("" : "+v"(a));
  }
  UNROLL for (int i = 0; i < (W == 16 ? 24 : 12); i++) Y[0][n % 2] += s[i][0];
}

static float some(float low, float high) {
  return low + (high - low) * (float)(rand() % 4096) / 4096;
}

int main(void) {
  static float first[2][TOKENS][MOST];
  const double most = 2.0 * (W == 16 ? 24 : 12) * W * 20000;
  for (int n = 64; n <= 128; n += 64) {
    double top = 1e9;
    for (int t = 0; t < TOKENS; t++) {
      for (int i = 0; i < n; i++)
        K[t][i] = some(-0.2f, 0.2f), Q[t][i] = some(-0.2f, 0.2f), V[t][i] = some(-1, 1);
      ALPHA[t] = some(0.95f, 1), ETA[t] = some(0.2f, 0.5f);
    }
    for (int i = 0; i < SCHEDULES; i++) all[i].best = 0;
    for (int round = 0; round < ROUNDS; round++)
      for (int i = 0; i < SCHEDULES; i++) {
        double s = now();
        peak(i);
        s = now() - s;
        if (s < top) top = s;
        memset(S, 0, sizeof S);
        s = now();
        all[i].run(n);
        s = now() - s;
        if (!all[i].best || s < all[i].best) all[i].best = s;
        if (i == 0) memcpy(first[0], Y, sizeof Y);
        if (i == PLAIN) memcpy(first[1], Y, sizeof Y);
        if (!round) all[i].work = (all[i].work % 10) + 10 * !memcmp(first[i >= PLAIN], Y, sizeof Y);
      }
    printf("%d x %d, vectors of %d, peak %.1f GFLOP/s\n", n, n, W, 1e-9 * most / top);
    for (int i = 0; i < SCHEDULES; i++)
      printf("  %-40s %6.1f GFLOP/s  %.2f  %s\n", all[i].name,
             1e-9 * (all[i].work % 10) * n * n * TOKENS / all[i].best,
             (all[i].work % 10) * (double)n * n * TOKENS / all[i].best / (most / top),
             all[i].work >= 10 ? "same bits" : "other bits");
  }
  return 0;
}
