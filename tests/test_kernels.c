/* Rooms 10 to 25, 65 and 70: platform, vector maths, level 1, the matrix product, the kernels of
 * layers, dispatch.
 *
 *   cc -O2 tests/test_kernels.c -o test_kernels -lcmocka -lm && ./test_kernels
 *
 * Every kernel runs on every instruction set of this processor, against references in double (the
 * matrix product against a chain of fmaf, to the bit; the kernels of layers against the portable
 * ones, which test_model compares with double), with operands that end or begin at a page that
 * faults, and the sets with fused multiply-add must agree with each other bit for bit.
 * -DMIRAS_TEST_PRINT prints the largest errors that room 22 states. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
  #define _GNU_SOURCE /* MAP_ANONYMOUS under -std=c99 */
#endif
#ifdef MIRAS_TEST_LINKED   /* kernels are object.c's (inside.h); nothing else needs to be built */
  #define MIRAS_STATIC
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "inside.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define EPS 5.9604645e-8 /* half a unit in the last place of 1 */
/* Of more grids every third case where runs are slowest. */
enum { SOME = MIRAS_TEST_SHARE < 16 ? 1 : 3 };

/* ---- operands between two pages that fault ---- */

enum { SLOTS = 18, SLOT_BYTES = 1 << 20 };

static unsigned char *slot_base[SLOTS];

static int map_slots(void **state) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  int i;
  (void)state;
  for (i = 0; i < SLOTS; i++) {
    unsigned char *p = (unsigned char *)mmap(NULL, SLOT_BYTES + 2 * page, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) != 0 ||
        mprotect(p + page + SLOT_BYTES, page, PROT_NONE) != 0)
      return -1;
    slot_base[i] = p + page;
  }
  return 0;
}

/* n floats in slot i: side 0 ends at the upper page, side 1 begins at the lower one (and so is
 * aligned), side 2 begins 1, 2, ... floats behind it. */
static float *place(int i, size_t n, int side) {
  unsigned char *p = slot_base[i];
  if (n * sizeof(float) + 64 > SLOT_BYTES) abort();
  if (side == 0) p += SLOT_BYTES - n * sizeof(float);
  if (side == 2) p += sizeof(float) * (1 + ((size_t)i * 3 + n) % 15);
  return (float *)(void *)p;
}

/* ---- numbers ---- */

enum { UNIFORM, LOGNORMAL, TINY, HUGE_, DENORMAL, SPECIAL, FAMILIES };

static const char *const family_names[] = { "uniform", "lognormal", "tiny",
                                            "huge",    "denormal",  "special" };

static float draw(int family, uint64_t seed, uint64_t i) {
  float u = miras__uniform(seed, i);
  static const float special[] = { 0.0f, -0.0f, 1.0f, -1.0f, 1e-40f, FLT_MAX, -FLT_MAX, FLT_MIN };
  switch (family) {
    case LOGNORMAL:
      return (u < 0 ? -1.0f : 1.0f) * (float)exp(3.0 * (double)miras__uniform(~seed, i));
    case TINY: return u * 1e-30f;
    case HUGE_: return u * 1e30f;
    case DENORMAL: return u * 1e-38f;
    case SPECIAL: {
      uint64_t pick = miras__hash(seed ^ miras__hash(i)) % 24;
      if (pick == 8) return NAN;
      if (pick == 9) return INFINITY;
      if (pick == 10) return -INFINITY;
      return pick < 8 ? special[pick] : u;
    }
    default: return u;
  }
}

static void draw_all(float *p, size_t n, int family, uint64_t seed) {
  size_t i;
  for (i = 0; i < n; i++) p[i] = draw(family, seed, i);
}

/* Units in the last place of float at v. */
static double ulp_of(double v) {
  int e;
  v = fabs(v);
  if (v < (double)FLT_MIN) return ldexp(1.0, -149);
  if (v > (double)FLT_MAX) v = (double)FLT_MAX;
  (void)frexp(v, &e);
  return ldexp(1.0, e - 24);
}

/* What double holds but float cannot is infinite in float. */
static double as_float(double v) {
  if (fabs(v) < (double)FLT_MAX * (1.0 + EPS / 2) || isnan(v)) return v;
  return v > 0 ? (double)INFINITY : -(double)INFINITY;
}

static int near(float got, double want, double bound) {
  want = as_float(want);
  if (isnan(want)) return isnan(got);
  if (isinf(want) && isinf(got)) return (got > 0) == (want > 0);
  if (isinf(want)) return fabs((double)got) + bound >= (double)FLT_MAX;
  if (isnan(got)) return 0;
  if (isinf(got)) return fabs(want) + bound >= (double)FLT_MAX;
  return fabs((double)got - want) <= bound;
}

/* A sum of n terms, the finite ones size in all: NaN stays, an infinity stays unless what overflows
 * meets it, and a finite sum is near unless parts of it overflow. */
static int near_sum(float got, double want, double size, size_t n) {
  const int overflows = size >= (double)FLT_MAX;
  if (isnan(want)) return isnan(got);
  if (overflows && !isfinite(got)) return 1;
  if (isinf(want)) return isinf(got) && (got > 0) == (want > 0);
  return near(got, want, EPS * size * 8 + 1.5e-45 * (double)n);
}

static int same_bits(const float *a, const float *b, size_t n) {
  size_t i;
  for (i = 0; i < n; i++)   /* the sign and payload of a NaN mean nothing */
    if (!(isnan(a[i]) && isnan(b[i])) && memcmp(a + i, b + i, sizeof *a) != 0) return 0;
  return 1;
}

static int fused(const miras__kernels *kern) { return strcmp(kern->name, "portable") != 0; }

/* ---- references ---- */

static double ref_sigmoid(double x) { return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }

static double ref_softplus(double x) {
  return isnan(x) ? x : (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* value (order 0), first and second derivative of an activation */
static double ref_act(int kind, int order, double x) {
  const double c = 2 * 0.79788456080286535588, k = 0.044715;
  double w, w1, w2, s, t;
  if (isnan(x)) return x;
  if (kind == MIRAS_FN_NONE) return order == 0 ? x : order == 1 ? 1 : 0;
  if (fabs(x) > 1000) return order == 0 ? (x > 0 ? x : 0) : order == 1 ? (x > 0) : 0;
  w = kind == MIRAS_FN_GELU ? c * (x + k * x * x * x) : x;
  w1 = kind == MIRAS_FN_GELU ? c * (1 + 3 * k * x * x) : 1;
  w2 = kind == MIRAS_FN_GELU ? c * 6 * k * x : 0;
  s = ref_sigmoid(w);
  t = ref_sigmoid(-w);
  if (order == 0) return x * s;
  if (order == 1) return s + x * s * t * w1;
  return s * t * (2 * w1 + x * (w2 + (t - s) * w1 * w1));
}

/* ---- level 1 ---- */

enum {
  DOT, SUM, AXPY, SCALE, ADD, MUL, MULADD, FILL, FLUSH, EXP, SIGMOID, TANH, LOG, SOFTPLUS, ACT,
  ACT_GRAD, ACT_GRAD2, SOFTMAX, OPS
};

static const char *const op_names[] = {
  "dot", "sum", "axpy", "scale", "add", "mul", "muladd", "fill", "flush", "exp", "sigmoid", "tanh",
  "log", "softplus", "act", "act_grad", "act_grad2", "softmax"
};

/* Run op: y and y2 are outputs (also inputs where the kernel adds), a, b, c inputs. Returns what
 * dot and sum return, of others 0. */
static float run_op(const miras__kernels *k, int op, int kind, float *y, float *y2, const float *a,
                    const float *b, const float *c, float s, size_t n) {
  switch (op) {
    case DOT: return k->dot(a, b, n);
    case SUM: return k->sum(a, n);
    case AXPY: k->axpy(y, s, a, n); break;
    case SCALE: k->scale(y, s, a, n); break;
    case ADD: k->add(y, a, n); break;
    case MUL: k->mul(y, a, b, n); break;
    case MULADD: k->muladd(y, a, b, n); break;
    case FILL: k->fill(y, s, n); break;
    case FLUSH: k->flush(y, a, n); break;
    case EXP: k->map(MIRAS__EXP, y, a, n); break;
    case SIGMOID: k->map(MIRAS_FN_SIGMOID, y, a, n); break;
    case TANH: k->map(MIRAS__TANH, y, a, n); break;
    case LOG: k->map(MIRAS__LOG, y, a, n); break;
    case SOFTPLUS: k->map(MIRAS__SOFTPLUS, y, a, n); break;
    case ACT: k->map(kind, y, a, n); break;
    case ACT_GRAD: k->act_rows(kind, y2, n, y, a, 1, n); k->mul(y, y, b, n); break;
    case ACT_GRAD2: k->act_grad2(kind, y, y2, a, b, c, n); break;
    default:
      k->feature_rows(MIRAS_FN_SOFTMAX, y, 0, a, 0, 1, n);
      k->scale(y, s, y, n);
      break;
  }
  return 0;
}

/* Element i of the result in double, and how far float may be off. y0 and z0 are the outputs
 * before the call. */
static double ref_op(int op, int kind, double y0, double a, double b, double s, double *bound) {
  double v, scale;
  switch (op) {
    case AXPY: v = y0 + s * a; scale = fabs(y0) + 2 * fabs(s * a); break;
    case SCALE: v = s * a; scale = fabs(v); break;
    case ADD: v = y0 + a; scale = fabs(v); break;
    case MUL: v = a * b; scale = fabs(v); break;
    case MULADD: v = y0 + a * b; scale = fabs(y0) + 2 * fabs(a * b); break;
    case FILL: v = s; scale = 0; break;
    case FLUSH: v = fabs(a) < (double)1e-30f ? 0 : a; scale = 0; break;
    case EXP: v = exp(a); scale = 3 * fabs(v); break;
    case SIGMOID: v = ref_sigmoid(a); scale = 5 * fabs(v); break;
    case TANH: v = tanh(a); scale = 5 * fabs(v); break;
    case LOG: v = log(a); scale = 3 * fabs(v); break;
    case SOFTPLUS: v = ref_softplus(a); scale = 5 * fabs(v); break;
    case ACT:
      v = ref_act(kind, 0, a);
      scale = kind == MIRAS_FN_NONE ? 0 : 8 * fmax(fabs(v), 1);
      break;
    default:
      v = kind == MIRAS_FN_NONE ? b : b * ref_act(kind, 1, a);
      scale = kind == MIRAS_FN_NONE ? 0 : 16 * fmax(fabs(v), fabs(b));
      break;
  }
  *bound = isfinite(scale) ? EPS * scale * 1.01 + 1.5e-45 : 0;
  return v;
}

static void check_op(const miras__kernels *k, int op, int kind, int family, int side, size_t n) {
  float *y = place(0, n, side), *y2 = place(1, n, side), *a = place(2, n, side);
  float *b = place(3, n, side), *c = place(4, n, side), y0[96], z0[96], again[96], s, scalar;
  const uint64_t seed = (uint64_t)(op * 100 + kind * 10 + family);
  double sum = 0, size = 0, top = -(double)INFINITY;
  size_t i;
  int bad = 0;
  draw_all(a, n, family, seed);
  draw_all(b, n, family == HUGE_ ? UNIFORM : family, seed + 1000);
  draw_all(c, n, UNIFORM, seed + 2000);
  draw_all(y, n, op == ACT_GRAD2 || family == HUGE_ ? UNIFORM : family, seed + 3000);
  draw_all(y2, n, UNIFORM, seed + 4000);
  s = draw(UNIFORM, seed, 7);
  if (op >= EXP && op <= SOFTPLUS && family == UNIFORM)
    for (i = 0; i < n; i++) a[i] *= 12.0f;
  if (op == FLUSH && family == TINY)   /* on both sides of the limit, and on it */
    for (i = 0; i < n; i++) a[i] = i % 5 == 0 ? 1e-30f : 2.0f * a[i];
  if (op == LOG && family != SPECIAL)
    for (i = 0; i < n; i++) a[i] = fabsf(a[i]);
  memcpy(y0, y, n * sizeof *y);
  memcpy(z0, y2, n * sizeof *y);
  scalar = run_op(k, op, kind, y, y2, a, b, c, s, n);
  if (op == DOT || op == SUM) {
    for (i = 0; i < n; i++) {
      double t = op == DOT ? (double)a[i] * (double)b[i] : (double)a[i];
      sum += t;
      if (isfinite(t)) size += fabs(t);
    }
    bad = !near_sum(scalar, sum, size, n);
  } else if (op == SOFTMAX) {
    for (i = 0; i < n; i++) {
      if (isnan(a[i]) || (double)a[i] > top) top = (double)a[i];
      if (isnan(a[i])) break;
    }
    for (i = 0; i < n; i++) sum += exp((double)a[i] - top);
    for (i = 0; i < n; i++) {
      double v = (double)s * exp((double)a[i] - top) / sum;
      /* the difference to the maximum is rounded before exp sees it */
      double off = isfinite(v) ? fabs(v) * EPS * (12 + fmin(fabs((double)a[i] - top), 200)) : 0;
      if (!near(y[i], v, off + 1.5e-45)) bad = 1;
    }
  } else {
    for (i = 0; i < n; i++) {
      double bound, v;
      if (op == ACT_GRAD2) {
        double g2 = ref_act(kind, 2, (double)a[i]), v2;
        v = (double)c[i] * (kind == MIRAS_FN_NONE ? 1 : ref_act(kind, 1, (double)a[i]));
        if (!near(y[i], v, 16 * EPS * fabs((double)c[i]))) bad = 1;
        v2 = (double)z0[i] + (double)c[i] * (double)b[i] * g2;
        if (kind == MIRAS_FN_NONE) v2 = (double)z0[i];
        bound = EPS * (fabs((double)z0[i]) + 16 * fabs((double)c[i] * (double)b[i]));
        /* infinity times a derivative of zero */
        if (isfinite(b[i]) && !near(y2[i], v2, isfinite(bound) ? bound + 1.5e-45 : 0)) bad = 1;
        continue;
      }
      v = ref_op(op, kind, (double)y0[i], (double)a[i], (double)b[i], (double)s, &bound);
      if (op == AXPY || op == MULADD) {   /* an infinite product and an infinite sum */
        if (isinf(y0[i]) || fabs((double)y0[i]) >= (double)FLT_MAX) continue;
      }
      if (op == ACT_GRAD && !isfinite(b[i]) && kind != MIRAS_FN_NONE) continue;
      if (!near(y[i], v, bound)) {
        print_error("element %d: %a gives %.9g, not %.9g\n", (int)i, (double)a[i], (double)y[i], v);
        bad = 1;
      }
    }
  }
  if (bad)
    fail_msg("%s of %s, kind %d, %s, side %d, n %d", op_names[op], k->name, kind,
             family_names[family], side, (int)n);
  if (op == ACT_GRAD) {                 /* what it says beside its slope is the map */
    k->map(kind, again, a, n);
    if (!same_bits(y2, again, n)) fail_msg("act_rows of %s, kind %d, n %d", k->name, kind, (int)n);
  }
  /* in place: the same bits */
  if (op == SCALE || op == MUL || op == FLUSH || (op >= EXP && op <= ACT_GRAD) || op == SOFTMAX) {
    memcpy(again, y, n * sizeof *y);
    run_op(k, op, kind, a, y2, a, b, c, s, n);
    if (!same_bits(a, again, n)) fail_msg("%s of %s in place, n %d", op_names[op], k->name, (int)n);
  }
}

static void test_level1(void **state) {
  int t, op, kind, family, side;
  size_t n;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    if (!inside_usable(kernels_of(t))) continue;
    for (op = 0; op < OPS; op++)
      for (kind = MIRAS_FN_NONE;
           kind <= (op >= ACT && op <= ACT_GRAD2 ? MIRAS_FN_SILU : MIRAS_FN_NONE); kind++)
        for (family = 0; family < FAMILIES; family++)
          for (side = 0; side < 3; side++)
            for (n = 0; n <= 4 * 16 + 3; n++)
              check_op(kernels_of(t), op, kind, family, side, n);
  }
}

/* What is written past n would be written over something else. */
static void test_level1_bounds(void **state) {
  int t, op;
  size_t n, i;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    if (!inside_usable(kernels_of(t))) continue;
    for (op = 0; op < OPS; op++)
      for (n = 0; n <= 67; n++) {
        float y[128], y2[128], a[128];
        for (i = 0; i < 128; i++) y[i] = y2[i] = a[i] = 0.5f;
        run_op(kernels_of(t), op, MIRAS_FN_GELU, y + 5, y2 + 5, a + 7, a, a, 2.0f,
               n);
        for (i = 0; i < 128; i++)
          if (i < 5 || i >= 5 + n) {
            assert_true(y[i] == 0.5f);
            assert_true(y2[i] == 0.5f);
          }
      }
  }
}

/* The sets with fused multiply-add agree to the bit. */
static void test_level1_same(void **state) {
  const miras__kernels *first = NULL;
  int t, op, kind, family;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k) || !fused(k)) continue;
    if (first == NULL) {
      first = k;
      continue;
    }
    for (op = 0; op < OPS; op++)
      for (kind = MIRAS_FN_NONE;
           kind <= (op >= ACT && op <= ACT_GRAD2 ? MIRAS_FN_SILU : MIRAS_FN_NONE); kind++)
        for (family = 0; family < FAMILIES; family++) {
          size_t n;
          for (n = 0; n <= 1000; n = n < 67 ? n + 1 : n + 311) {
            static float in[3][1001], y[2][1001], y2[2][1001];
            float scalar[2];
            int i;
            for (i = 0; i < 3; i++) draw_all(in[i], n, family, (uint64_t)(i + op));
            for (i = 0; i < 2; i++) {
              draw_all(y[i], n, family, 99);
              draw_all(y2[i], n, family, 98);
              scalar[i] = run_op(i ? k : first, op, kind, y[i], y2[i], in[0], in[1], in[2], 0.75f,
                                 n);
            }
            if (!same_bits(y[0], y[1], n) || !same_bits(y2[0], y2[1], n) ||
                !same_bits(&scalar[0], &scalar[1], 1))
              fail_msg("%s: %s and %s differ, kind %d, %s, n %d", op_names[op], first->name,
                       k->name, kind, family_names[family], (int)n);
          }
        }
  }
}

/* ---- accuracy over the floats ---- */

enum { FUNCTIONS = 11, BLOCK = 4096 };

static const struct {
  const char *name;
  int op, kind;
  double limit;   /* units in the last place, or for the activations of max(1, |result|) */
} functions[FUNCTIONS] = {
  { "exp", EXP, 0, 0.96 },
  { "log", LOG, 0, 0.80 },
  { "tanh", TANH, 0, 2.4 },
  { "sigmoid", SIGMOID, 0, 2.4 },
  { "softplus", SOFTPLUS, 0, 1.7 },
  { "gelu", ACT, MIRAS_FN_GELU, 1.8 },
  { "gelu'", ACT_GRAD, MIRAS_FN_GELU, 1.8 },
  { "gelu''", ACT_GRAD2, MIRAS_FN_GELU, 2.4 },
  { "silu", ACT, MIRAS_FN_SILU, 1.9 },
  { "silu'", ACT_GRAD, MIRAS_FN_SILU, 1.5 },
  { "silu''", ACT_GRAD2, MIRAS_FN_SILU, 1.2 }
};

static void test_accuracy(void **state) {
  static float x[BLOCK], y[BLOCK], one[BLOCK], z[BLOCK];
  static double want[BLOCK];
  double worst[MIRAS__KERNEL_COUNT][FUNCTIONS];
  float where[MIRAS__KERNEL_COUNT][FUNCTIONS];
  /* a million floats of every size and sign, or an eighth, or a thirtieth of that */
  const uint32_t stride = MIRAS_TEST_SHARE == 1 ? 4099 : MIRAS_TEST_SHARE < 16 ? 32771 : 131101;
  uint64_t bits = 0;
  int t, f, i;
  (void)state;
  memset(worst, 0, sizeof worst);
  memset(where, 0, sizeof where);
  for (i = 0; i < BLOCK; i++) one[i] = 1.0f;
  while (bits < UINT64_C(1) << 32) {
    for (i = 0; i < BLOCK; i++) {
      uint32_t word = (uint32_t)bits;
      memcpy(&x[i], &word, sizeof word);
      bits += stride;
    }
    for (f = 0; f < FUNCTIONS; f++) {
      const int op = functions[f].op, kind = functions[f].kind;
      double bound;
      for (i = 0; i < BLOCK; i++)
        want[i] = op == ACT_GRAD2 ? ref_act(kind, 2, (double)x[i])
                                  : as_float(ref_op(op, kind, 0, (double)x[i], 1, 0, &bound));
      for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
        if (!inside_usable(kernels_of(t))) continue;
        if (op == ACT_GRAD2) {
          memset(z, 0, sizeof z);
          run_op(kernels_of(t), op, kind, y, z, x, one, one, 0, BLOCK);
          memcpy(y, z, sizeof y);
        } else {
          run_op(kernels_of(t), op, kind, y, z, x, one, NULL, 0, BLOCK);
        }
        for (i = 0; i < BLOCK; i++) {
          double error;
          if (isnan(want[i])) {
            if (!isnan(y[i])) fail_msg("%s(%a) is not NaN", functions[f].name, (double)x[i]);
            continue;
          }
          if (isnan(y[i])) fail_msg("%s(%a) is NaN", functions[f].name, (double)x[i]);
          if (isinf(want[i]) || isinf(y[i])) {
            if ((double)y[i] != want[i] && fabs(want[i]) < (double)FLT_MAX * (1 - 4 * EPS))
              fail_msg("%s(%a) is infinite", functions[f].name, (double)x[i]);
            continue;
          }
          error = fabs((double)y[i] - want[i]);
          error /= ulp_of(op >= ACT ? fmax(fabs(want[i]), 1) : want[i]);
          if (error > worst[t][f]) {
            worst[t][f] = error;
            where[t][f] = x[i];
          }
        }
      }
    }
  }
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++)
    for (f = 0; f < FUNCTIONS; f++) {
#ifdef MIRAS_TEST_PRINT
      print_message("%-9s %-9s %.2f at %g\n", kernels_of(t)->name, functions[f].name,
                    worst[t][f], (double)where[t][f]);
#endif
      if (worst[t][f] > functions[f].limit)
        fail_msg("%s of %s is off by %g at %a", functions[f].name, kernels_of(t)->name,
                 worst[t][f], (double)where[t][f]);
    }
}

static void test_limits(void **state) {
  static const float x[] = { INFINITY, -INFINITY, 0.0f,  1e-45f, -1e-45f,
                             100.0f,   -100.0f,   1e38f, -1e38f };
  float y[9];
  int t;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    k->map(MIRAS__EXP, y, x, 9);
    assert_true(isinf(y[0]) && y[1] == 0 && y[2] == 1 && y[3] == 1 && isinf(y[5]) && y[6] > 0);
    k->map(MIRAS__TANH, y, x, 9);
    assert_true(y[0] == 1 && y[1] == -1 && y[2] == 0 && y[3] == x[3] && y[4] == x[4] && y[8] == -1);
    k->map(MIRAS_FN_SIGMOID, y, x, 9);
    assert_true(y[0] == 1 && y[1] == 0 && y[2] == 0.5f && y[5] == 1 && y[6] > 0 && y[8] == 0);
    k->map(MIRAS__LOG, y, x, 9);
    assert_true(isinf(y[0]) && isnan(y[1]) && isinf(y[2]) && y[2] < 0);
    assert_true(near(y[3], log((double)x[3]), 2e-5));
    k->map(MIRAS__SOFTPLUS, y, x, 9);
    assert_true(isinf(y[0]) && y[1] == 0 && y[5] == 100 && y[6] > 0 && y[8] == 0);
    k->map(MIRAS_FN_GELU, y, x, 9);
    assert_true(isinf(y[0]) && y[1] == 0 && y[5] == 100 && y[6] == 0 && y[7] == 1e38f && y[8] == 0);
    k->map(MIRAS_FN_SILU, y, x, 9);
    assert_true(isinf(y[0]) && y[1] == 0 && y[5] == 100 && y[7] == 1e38f && y[8] == 0);
  }
}

/* ---- the matrix product ---- */

enum { PACK = 40960 };   /* floats of scratch that any product asks for: test_gemm_scratch */

/* A large enough to be packed and small enough to be quick. */
static float *gemm_room(size_t n) {
  float *p = (float *)malloc((n + 1) * sizeof *p);
  assert_non_null(p);
  return p;
}

typedef struct matrix {
  float *p;
  size_t rs, cs, size;   /* row and column strides, floats */
} matrix;

/* layout 0: rows contiguous, 1: columns contiguous, 2: neither; pad > 0 leaves gaps. */
static matrix matrix_make(int slot, int side, int layout, size_t pad, size_t rows, size_t cols) {
  matrix m;
  m.rs = layout == 0 ? cols + pad : layout == 1 ? 1 : 2 * cols + pad;
  m.cs = layout == 0 ? 1 : layout == 1 ? rows + pad : 2;
  m.size = rows && cols ? (rows - 1) * m.rs + (cols - 1) * m.cs + 1 : 0;
  m.p = m.size * sizeof(float) + 64 <= SLOT_BYTES ? place(slot, m.size, side) : NULL;
  return m;
}

/* B in panels, from row `pad` of them on; what no product may read is NaN. */
static float *panels_of(const miras__kernels *k, matrix B, size_t pad, size_t N, size_t K) {
  const size_t deep = K + pad, size = (N + k->panel) * deep;
  float *p = gemm_room(size);
  size_t i, j;
  for (i = 0; i < size; i++) p[i] = NAN;
  for (i = 0; i < K; i++)
    for (j = 0; j < N; j++)
      p[j / k->panel * k->panel * deep + (i + pad) * k->panel + j % k->panel] =
        B.p[i * B.rs + j * B.cs];
  return p;
}

/* One product against chains of fmaf, to the bit; gaps of C must not change. lb 3: B in panels. */
static void check_gemm(const miras__kernels *k, int mode, int la, int lb, size_t pad, size_t M,
                       size_t N, size_t K, ptrdiff_t causal, int side) {
  matrix A = matrix_make(0, side, la, pad, M, K), B = matrix_make(1, side, lb % 3, pad, K, N);
  matrix C = matrix_make(2, side, 0, pad, M, N);
  float *pack = place(3, miras__gemm_room(M, N, K), side);
  float *own_a = NULL, *own_b = NULL, *panels = NULL, *before;
  miras__matrix right;
  size_t i, j, l;
  if (A.p == NULL) A.p = own_a = gemm_room(A.size);
  if (B.p == NULL) B.p = own_b = gemm_room(B.size);
  before = gemm_room(C.size);
  draw_all(A.p, A.size, UNIFORM, 1);
  draw_all(B.p, B.size, UNIFORM, 2);
  draw_all(C.p, C.size, UNIFORM, 3);
  for (i = 0; causal >= 0 && i < M; i++)
    for (l = i + 1 + (size_t)causal; l < K; l++) A.p[i * A.rs + l * A.cs] = NAN;
  memcpy(before, C.p, C.size * sizeof *before);
  right = miras__strided(B.p, B.rs, B.cs);
  if (lb == 3) {
    panels = panels_of(k, B, pad, N, K);
    right = miras__panels(panels + pad * k->panel, K + pad);
  }
  k->gemm(miras__causal(mode, (size_t)(causal + 1)), C.p, C.rs, miras__strided(A.p, A.rs, A.cs),
          right, M, N, K, pack);
  for (i = 0; i < M; i++) {
    size_t limit = causal < 0 || i + 1 + (size_t)causal > K ? K : i + 1 + (size_t)causal;
    for (j = 0; j < N; j++) {
      float v = mode == MIRAS__SET ? 0.0f : before[i * C.rs + j];
      for (l = 0; l < limit; l++) {
        float a = A.p[i * A.rs + l * A.cs], b = B.p[l * B.rs + j * B.cs];
        if (mode == MIRAS__SUB) a = -a;
        if (fused(k)) {
          v = fmaf(a, b, v);
        } else {
          volatile float product = a * b;   /* rounded, whatever the compiler would like */
          v = product + v;
        }
      }
      if (!(C.p[i * C.rs + j] == v))
        fail_msg("gemm of %s, mode %d, layouts %d %d, pad %d, %dx%dx%d, causal %d, side %d: "
                 "C[%d,%d] is %a, not %a", k->name, mode, la, lb, (int)pad, (int)M, (int)N, (int)K,
                 (int)causal, side, (int)i, (int)j, (double)C.p[i * C.rs + j], (double)v);
    }
    for (j = N; i + 1 < M && j < C.rs; j++) assert_true(C.p[i * C.rs + j] == before[i * C.rs + j]);
  }
  free(own_a);
  free(own_b);
  free(panels);
  free(before);
}

static void test_gemm_small(void **state) {
  static const size_t sides[] = { 1, 2, 3, 5, 6, 7, 8, 9, 13, 16, 17, 31, 33, 48, 65 };
  static const size_t depths[] = { 0, 1, 2, 5, 16, 33 };
  size_t m, n, k;
  int t, count = 0;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    if (!inside_usable(kernels_of(t))) continue;
    for (m = 0; m < sizeof sides / sizeof *sides; m++)
      for (n = 0; n < sizeof sides / sizeof *sides; n++)
        for (k = 0; k < sizeof depths / sizeof *depths; k++) {
          /* every combination of the rest in turn, rather than all at every shape */
          int c;
          for (c = 0; c < (MIRAS_TEST_SHARE < 16 ? 3 : 1); c++) {
            const int pick = count++ % 36, mode = pick % 3, la = pick / 3 % 3, lb = pick / 9;
            check_gemm(kernels_of(t), mode, la, lb, (size_t)(count / 36 % 2) * 3, sides[m],
                       sides[n], depths[k], count % 4 == 0 ? count % 5 : -1, count % 3);
          }
        }
  }
}

static void test_gemm_all_cases(void **state) {
  static const size_t shapes[][3] = { { 7, 21, 9 }, { 16, 16, 16 }, { 1, 37, 12 }, { 19, 70, 23 } };
  int t, mode, la, lb, side;
  size_t s, pad;
  ptrdiff_t causal;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    if (!inside_usable(kernels_of(t))) continue;
    for (s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (mode = MIRAS__SET; mode <= MIRAS__SUB; mode++)
        for (la = 0; la < 3; la++)
          for (lb = 0; lb < 4; lb++)
            for (pad = 0; pad <= 5; pad += 5)
              for (causal = -1; causal <= 3; causal += 2)
                for (side = 0; side < 3; side++)
                  if (MIRAS_TEST_SHARE < 16 || (mode + la + lb + (int)causal + side) % 3 == 0)
                    check_gemm(kernels_of(t), mode, la, lb, pad, shapes[s][0], shapes[s][1],
                               shapes[s][2], causal, side);
  }
}

/* Shapes at which blocks of k, of rows, and the packing of either operand set in. */
static void test_gemm_large(void **state) {
  static const size_t shapes[][3] = {
    { 16, 128, 32 }, { 16, 32, 128 }, { 128, 32, 16 }, { 32, 128, 16 },
    { 70, 130, 300 }, { 40, 90, 530 }, { 3, 200, 300 }, { 1, 150, 270 }, { 130, 66, 129 },
    { 257, 256, 280 }                                     /* both operands packed */
  };
  int t, mode, la, lb;
  size_t s;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    if (!inside_usable(kernels_of(t))) continue;
    for (s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (mode = MIRAS__SET; mode <= MIRAS__SUB; mode++)
        for (la = 0; la < 2; la++)
          for (lb = 0; lb < 4; lb += lb ? 2 : 1) {
            const size_t pad = mode == MIRAS__ADD ? 700 : 1;   /* far apart, so B is packed */
            if (shapes[s][0] > (MIRAS_TEST_SHARE == 1 ? 256 : 64) && mode != MIRAS__ADD) continue;
            if (MIRAS_TEST_SHARE >= 8 && ((int)s + mode + la + lb) % 3) continue;
            check_gemm(kernels_of(t), mode, la, lb, pad, shapes[s][0], shapes[s][1],
                       shapes[s][2], mode == MIRAS__SUB ? 200 : -1, 0);
          }
  }
}

/* One product whose scratch ends at a page that faults, as it is planned for longer sides, with
 * probes of C against sums in double. */
static void check_scratch(const miras__kernels *k, int la, int lb, size_t M, size_t N, size_t K) {
  const size_t room = miras__gemm_room(M, N, K);
  matrix A = matrix_make(0, 0, la, 0, M, K), B = matrix_make(1, 0, lb % 3, 0, K, N);
  float *C = place(2, M * N, 0), *pack = place(3, room, 0), *own_a = NULL, *own_b = NULL;
  float *panels = NULL;
  miras__matrix right;
  size_t at, l;
  if (A.p == NULL) A.p = own_a = gemm_room(A.size);
  if (B.p == NULL) B.p = own_b = gemm_room(B.size);
  draw_all(A.p, A.size, UNIFORM, 1);
  draw_all(B.p, B.size, UNIFORM, 2);
  right = miras__strided(B.p, B.rs, B.cs);
  if (lb == 3) right = miras__panels(panels = panels_of(k, B, 0, N, K), K);
  k->gemm(MIRAS__SET, C, N, miras__strided(A.p, A.rs, A.cs), right, M, N, K, pack);
  assert_true(room <= PACK && room <= miras__gemm_room(M + 1, N, K));
  assert_true(room <= miras__gemm_room(M, N + 1, K) && room <= miras__gemm_room(M, N, K + 1));
  for (at = 0; at < M * N; at += at + 42 < M * N ? 41 : 1) {
    double sum = 0, size = 0;
    for (l = 0; l < K; l++) {
      const float a = A.p[at / N * A.rs + l * A.cs], b = B.p[l * B.rs + at % N * B.cs];
      const double x = (double)a * (double)b;
      sum += x;
      size += fabs(x);
    }
    if (!(fabs((double)C[at] - sum) <= EPS * sqrt((double)K) * size))
      fail_msg("gemm of %s, layouts %d %d, %dx%dx%d: C[%d] is %g, not %g", k->name, la, lb, (int)M,
               (int)N, (int)K, (int)at, (double)C[at], sum);
  }
  free(own_a);
  free(own_b);
  free(panels);
}

static void test_gemm_scratch(void **state) {
  static const size_t rows[] = { 1, 17, 18, 32, 64 }, cols[] = { 24, 32, 40, 256 };
  static const size_t depths[] = { 64, 256, 512, 2561, 4096, 8192 };
  static const size_t more[][3] = { { 32, 128, 256 }, { 16, 64, 256 }, { 8, 32, 256 },
                                    { 257, 300, 280 }, { 64, 100, 250 } };
  size_t m, n, d;
  int t, la, lb;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    for (la = 0; la < 2; la++)
      for (lb = 0; lb < 4; lb += lb ? 2 : 1) {       /* plain, turned, in panels */
        for (d = 0; d < sizeof depths / sizeof *depths; d++)
          for (n = 0; n < sizeof cols / sizeof *cols; n++)
            for (m = 0; m < sizeof rows / sizeof *rows; m++)
              if ((MIRAS_TEST_SHARE == 1 || depths[d] <= (n == 2 && m == 1 ? 2561 : 512)) &&
                  (MIRAS_TEST_SHARE < 8 || (m + n + d) % 3 == 0) &&
                  (cols[n] < 256 || depths[d] <= 512 || (!la && m % 2)))
                check_scratch(k, la, lb, rows[m], cols[n], depths[d]);
        for (m = (size_t)(la + lb) % SOME; m < sizeof more / sizeof *more; m += SOME)
          check_scratch(k, la, lb, more[m][0], more[m][1], more[m][2]);
      }
  }
}

/* The bits of a row do not depend on the rows and columns beside it. (The comparison with fmaf says
 * so too; this one also holds for zeros and for infinities.) */
static void test_gemm_rows(void **state) {
  enum { M = 45, N = 100, K = 50 };
  static float A[M * K], B[K * N], C[M * N], D[M * N], pack[PACK];
  int t, mode, i, j;
  (void)state;
  draw_all(A, M * K, LOGNORMAL, 1);
  draw_all(B, K * N, LOGNORMAL, 2);
  for (i = 0; i < M * K; i += 7) A[i] = 0;
  for (i = 0; i < K * N; i += 5) B[i] = -0.0f;
  for (i = 0; i < K; i++) A[20 * K + i] = 0;   /* a row of nothing but zeros */
  A[3 * K] = INFINITY;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    for (mode = MIRAS__SET; mode <= MIRAS__SUB; mode++) {
      draw_all(C, M * N, UNIFORM, 3);
      for (i = 0; i < M * N; i += 3) C[i] = -0.0f;
      memcpy(D, C, sizeof C);
      k->gemm(mode, C, N, miras__mat(A, K), miras__mat(B, N), M, N, K, pack);
      for (i = 0; i < M; i++) {
        const int left = 1 + i % 30, right = 20 + i % 50;   /* three parts of the row */
        float *d = D + i * N;
        k->gemm(mode, d, N, miras__mat(A + i * K, K), miras__mat(B, N), 1, (size_t)left, K, pack);
        k->gemm(mode, d + left, N, miras__mat(A + i * K, K), miras__mat(B + left, N), 1,
                (size_t)right, K, pack);
        j = left + right;
        k->gemm(mode, d + j, N, miras__mat(A + i * K, 1), miras__mat(B + j, N), 1, (size_t)(N - j),
                K, pack);
        if (!same_bits(d, C + i * N, N))
          fail_msg("row %d of %s depends on its neighbours, mode %d", i, k->name, mode);
      }
    }
  }
}

/* One pair of a layer, folded in one pass, has the bits of the kernels that do it one by one. */
static void test_fold_pair(void **state) {
  enum { MOST = 66 * 70 };
  static const size_t shapes[][2] = { { 1, 1 }, { 4, 16 }, { 7, 5 }, { 66, 37 }, { 9, 20 },
                                      { 65, 64 }, { 8, 70 } };
  static float A[2][MOST], S[2][MOST], B[MOST], x[3][70], read[2][3][70], t1[70], pack[PACK];
  int t, with;
  size_t s, i;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    for (s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (with = 0; with < 8; with++) {
        const size_t in = shapes[s][0], out = shapes[s][1], all = in * out;
        const float left = 0.97f, adds = 0.3f, stays = 0.6f, g = 0.21f, n = 0.37f;
        const miras__new_pair f = { in, out, A[0], with & 1 ? S[0] : NULL, with & 2 ? B : NULL,
                                    x[0], x[1], with & 4 ? x[2] : NULL, left, adds, stays, g, n,
                                    read[0][0], read[0][1], read[0][2] };
        draw_all(A[0], MOST, UNIFORM, 1);
        draw_all(S[0], MOST, UNIFORM, 2);
        draw_all(B, MOST, UNIFORM, 3);
        draw_all(&x[0][0], 3 * 70, UNIFORM, 4);
        draw_all(&read[0][0][0], 3 * 70, UNIFORM, 5);
        for (i = 0; i < all; i += 5) A[0][i] = -0.0f;
        memcpy(A[1], A[0], sizeof A[0]);
        memcpy(S[1], S[0], sizeof S[0]);
        memcpy(read[1], read[0], sizeof read[0]);
        k->fold_pair(&f);
        for (i = 0; f.x && i < 3; i++) {
          const float *m = i == 0 ? A[1] : i == 1 ? S[1] : B;
          if (i == 0 || (i == 1 ? f.s : f.init))
            k->gemm(MIRAS__SET, read[1][i], out, miras__mat(f.x, in), miras__mat(m, out), 1, out,
                    in, pack);
        }
        k->fade(0, A[1], &left, f.init, in, out);
        if (f.s) k->axpy(A[1], adds, S[1], all);
        k->scale(t1, g, f.y, in);
        k->gemm(MIRAS__SUB, A[1], out, miras__turned(t1, in), miras__mat(f.d, out), in, out, 1,
                pack);
        k->scale(t1, n, f.y, in);
        if (f.s) k->scale(S[1], stays, S[1], all);
        if (f.s)
          k->gemm(MIRAS__SUB, S[1], out, miras__turned(t1, in), miras__mat(f.d, out), in, out, 1,
                  pack);
        if (!same_bits(A[0], A[1], MOST) || !same_bits(S[0], S[1], MOST) ||
            !same_bits(&read[0][0][0], &read[1][0][0], 3 * 70))
          fail_msg("fold_pair of %s, %dx%d, with %d: other bits than one by one", k->name, (int)in,
                   (int)out, with);
      }
  }
}

/* ---- least squares by recursion ---- */

/* A pair enters P = L' diag(d) L: P - w b b' / s in double, with b = P x, s = 1 + w x'P x; of a
 * vector, of a unit vector, and (the last three) with a weight that is found on the way. What is
 * right of the diagonal and behind the rows stays 0, and all sets of vectors have the same bits. */
static void test_absorb(void **state) {
  enum { MOST = 50, WIDE = 64, COLUMN = WIDE + 3 };
  static const float limits[][3] = {          /* inverse, beyond, most */
    { 1.5f, 0, 1e30f }, { 1.5f, 1e4f, 1e30f }, { 1e-5f, 2, 0.3f } };
  static const size_t sizes[] = { 1, 2, 15, 16, 17, 26, 33, 48, 50 };
  static float L[MOST * WIDE], D[WIDE], x[WIDE], v[WIDE], e[WIDE], s[COLUMN], b[WIDE];
  static float first[MOST * WIDE], first_d[WIDE];
  static double P[MOST][MOST], px[MOST];
  size_t z, i, j, m;
  int t, how;
  (void)state;
  for (z = 0; z < sizeof sizes / sizeof *sizes; z++)
    for (how = 0; how < 5; how++) {
      const miras__kernels *vectors = NULL;
      for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
        const miras__kernels *k = kernels_of(t);
        const size_t n = sizes[z], ld = (n + 15) / 16 * 16, at = n / 3;
        const int unit = how == 1;
        miras__absorbing a = { n, ld, at, L, D, unit ? NULL : x, 0.7f, v, e, s, b, 0, 0, 0 };
        double size = 1, weight = (double)a.weight, h = 0;
        if (!inside_usable(k)) continue;
        draw_all(L, MOST * WIDE, UNIFORM, z + 1);
        draw_all(D, WIDE, UNIFORM, 2);
        draw_all(x, WIDE, UNIFORM, 3);
        for (i = n; i < WIDE; i++) x[i] = 0;
        for (i = 0; i < n; i++) {
          D[i] = D[i] * D[i] + 0.1f;
          for (j = 0; j < ld; j++) L[i * ld + j] = j < i ? L[i * ld + j] : j == i ? 1.0f : 0.0f;
        }
        for (i = 0; i < n; i++)
          for (j = 0; j < n; j++)
            for (P[i][j] = 0, m = 0; m < n; m++)
              P[i][j] += (double)D[m] * (double)L[m * ld + i] * (double)L[m * ld + j];
        for (i = 0; i < n; i++)
          for (px[i] = 0, j = 0; j < n; j++)
            px[i] += P[i][j] * (unit ? (double)(j == at) : (double)x[j]);
        for (i = 0; i < n; i++) h += px[i] * (unit ? (double)(i == at) : (double)x[i]);
        if (how > 1) {
          a.inverse = limits[how - 2][0];
          a.beyond = limits[how - 2][1];
          a.most = limits[how - 2][2];
          weight = 1 / fmax(fmax((double)a.inverse, (double)a.beyond - h), h / (double)a.most);
        }
        size += weight * h;
        k->absorb(&a);
        if (how > 1) {
          assert_true(fabs((double)s[n + 1] - h) < 1e-5 * h);
          assert_true(fabs((double)s[n + 2] - weight) < 1e-5 * weight);
        }
        assert_true(fabs((double)s[n] - size) < 1e-5 * size);
        for (i = 0; i < n; i++) {
          assert_true(fabs((double)b[i] - px[i]) < 1e-5 * size);
          assert_true(D[i] > 0);
          for (j = i; j < ld; j++) assert_true(L[i * ld + j] == (j == i ? 1.0f : 0.0f));
          for (j = 0; j < n; j++) {
            double now = 0;
            for (m = 0; m < n; m++)
              now += (double)D[m] * (double)L[m * ld + i] * (double)L[m * ld + j];
            now -= P[i][j] - weight * px[i] * px[j] / size;
            assert_true(fabs(now) < 2e-5 * size);
          }
        }
        if (!strcmp(k->name, "portable")) continue;
        if (vectors && (!same_bits(L, first, n * ld) || !same_bits(D, first_d, n)))
          fail_msg("absorb, %d: %s has other bits than %s", (int)n, k->name, vectors->name);
        vectors = k;
        memcpy(first, L, sizeof L);
        memcpy(first_d, D, sizeof D);
      }
    }
}

/* ---- states whose entries decay each by itself ---- */

enum { SCAN_ROWS = 3, SCAN_AT = 12, SCAN_MOST = 9 * 40 };

/* Arrays of three tokens of a state [n, dv], drawn, and the call that has them. */
static miras__scan scan_of(float **x, size_t *counts, size_t n, size_t dv, int side, int home) {
  const size_t all = n * dv, rows = SCAN_ROWS * dv, of[SCAN_AT] = {
    (SCAN_ROWS + 1) * all, all, all, rows, rows, SCAN_ROWS * n, SCAN_ROWS * n, rows, all, all, all,
    2 * rows };
  miras__scan f;
  int s;
  for (s = 0; s < SCAN_AT; s++) {
    counts[s] = of[s];
    x[s] = place(s, counts[s], side);
    draw_all(x[s], counts[s], UNIFORM, (uint64_t)s + all);
  }
  memset(&f, 0, sizeof f);
  f.n = n, f.dv = dv, f.rows = SCAN_ROWS, f.step = all, f.ld_dt = f.ld_u = f.ld_y = dv;
  f.ld_x = f.ld_q = n, f.s = x[0], f.a = x[1], f.b = home ? x[2] : NULL, f.dt = x[3];
  f.u = x[4], f.x = x[5], f.q = x[6], f.y = x[7];
  return f;
}

static miras__scan_grads scan_grads_of(float **x, size_t dv, int home) {
  miras__scan_grads g;
  g.ds = x[8], g.da = x[9], g.db = home ? x[10] : NULL, g.ddt = x[11];
  g.du = x[11] + SCAN_ROWS * dv, g.dy = x[7];
  return g;
}

/* Has a set of vectors the bits of the one before it, *vectors, if there was one? */
static void scan_same(const miras__kernels *k, const miras__kernels **vectors, float **x,
                      const size_t *counts, const char *what) {
  static float first[SCAN_AT][(SCAN_ROWS + 1) * SCAN_MOST];
  int s;
  if (!fused(k)) return;
  for (s = 0; s < SCAN_AT; s++) {
    if (*vectors && !same_bits(x[s], first[s], counts[s]))
      fail_msg("%s: %s has other bits than %s", what, k->name, (*vectors)->name);
    memcpy(first[s], x[s], counts[s] * sizeof(float));
  }
  *vectors = k;
}

/* z of what is written, and its slope by -A dt, of a row that is a head's first token or not. */
static double scan_scale(int scale, int first, double left, double *slope) {
  const double w = exp(-left);
  double z = 1;
  *slope = 0;
  if (!scale || (first && scale == MIRAS_WRITE_SCALE_START)) return z;
  if (scale == MIRAS_WRITE_SCALE_REST) {
    *slope = -w;
    return -expm1(-left);
  }
  z = sqrt(-expm1(-2 * left));
  *slope = -w * w / (z < 5e-4 ? 5e-4 : z);
  return z;
}

/* Three tokens of a state [n, dv] against the formula in double, answers and states; the adjoint
 * against the formula, too. All sets of vectors have the same bits. */
static void check_scan(size_t n, size_t dv, int side, int home, int scale) {
  enum { T = SCAN_ROWS };
  static float before[2][SCAN_MOST];
  static double S[T + 1][SCAN_MOST], G[SCAN_MOST];
  const size_t all = n * dv;
  size_t counts[SCAN_AT];
  const miras__kernels *vectors = NULL;
  double slope;
  size_t i, j;
  int t, l;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    float *x[SCAN_AT];
    miras__scan f;
    miras__scan_grads g;
    if (!inside_usable(k)) continue;
    f = scan_of(x, counts, n, dv, side, home);
    for (i = 0; i < all; i++) x[1][i] = expf(x[1][i]);
    for (i = 0; i < T * dv; i++) x[3][i] = i % 7 ? fabsf(x[3][i]) : 400.0f * (float)(i % 2);
    f.scale = scale, f.start = scale == MIRAS_WRITE_SCALE_START;
    k->scan_fwd(&f);
    for (i = 0; i < all; i++) S[0][i] = (double)x[0][i];
    for (l = 0; l < T; l++)
      for (j = 0; j < dv; j++) {
        double y = 0;
        for (i = 0; i < n; i++) {
          const size_t at = i * dv + j;
          const double left = (double)x[1][at] * (double)x[3][(size_t)l * dv + j];
          const double b = home ? (double)x[2][at] : 0, z = scan_scale(scale, !l, left, &slope);
          S[l + 1][at] = b + exp(-left) * (S[l][at] - b) +
                         (double)x[5][(size_t)l * n + i] * z * (double)x[4][(size_t)l * dv + j];
          y += (double)x[6][(size_t)l * n + i] * S[l + 1][at];
          assert_true(fabs((double)x[0][(size_t)(l + 1) * all + at] - S[l + 1][at]) < 1e-5);
        }
        assert_true(fabs((double)x[7][(size_t)l * dv + j] - y) < 1e-5);
      }
    for (i = 0; i < all; i++) G[i] = (double)x[8][i];
    memcpy(before[0], x[9], all * sizeof(float));
    memcpy(before[1], x[10], all * sizeof(float));
    g = scan_grads_of(x, dv, home);
    k->scan_bwd(&f, &g);
    for (j = 0; j < dv; j++)
      for (i = 0; i < n; i++) {
        const size_t at = i * dv + j;
        const double b = home ? (double)x[2][at] : 0;
        double da = (double)before[0][at], db = (double)before[1][at], gij = G[at];
        for (l = T; l-- > 0;) {
          const double dt = (double)x[3][(size_t)l * dv + j], a = (double)x[1][at];
          const double w = exp(-a * dt), z = scan_scale(scale, !l, a * dt, &slope);
          gij += (double)x[6][(size_t)l * n + i] * (double)x[7][(size_t)l * dv + j];
          assert_true(fabs((double)x[0][(size_t)(l + 1) * all + at] - z * gij) < 1e-4);
          da -= a * dt * gij *
                (w * (S[l][at] - b) + slope * (double)x[5][(size_t)l * n + i] *
                                        (double)x[4][(size_t)l * dv + j]);
          db += home ? (1 - w) * gij : 0;
          gij *= w;
        }
        assert_true(fabs((double)x[9][at] - da) < 1e-4 && fabs((double)x[10][at] - db) < 1e-4);
        assert_true(fabs((double)x[8][at] - gij) < 1e-4);
      }
    scan_same(k, &vectors, x, counts, "scan");
  }
}

static void test_scan(void **state) {
  static const size_t sizes[][2] = { { 1, 1 }, { 2, 3 }, { 9, 7 }, { 3, 8 }, { 5, 17 }, { 4, 40 } };
  size_t i;
  int side, home, scale;
  (void)state;
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (side = 0; side < 3; side++)
      for (home = 0; home < 2; home++)
        for (scale = 0; scale < MIRAS_WRITE_SCALE_COUNT; scale++)
          check_scan(sizes[i][0], sizes[i][1], side, home, scale);
}

/* The same of complex entries, [n, h] of them: the outer turn l = e^(-A dt + i a dt'). */
static void check_turning(size_t n, size_t h, int side, int home) {
  enum { T = SCAN_ROWS };
  static float before[3][SCAN_MOST];
  static double S[T + 1][SCAN_MOST];
  const size_t dv = 2 * h, all = n * dv;
  size_t counts[SCAN_AT];
  const miras__kernels *vectors = NULL;
  size_t i, j;
  int t, l;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    float *x[SCAN_AT];
    miras__scan f;
    miras__scan_grads g;
    if (!inside_usable(k)) continue;
    f = scan_of(x, counts, n, dv, side, home);
    for (i = 0; i < all; i++)
      if (i % dv < h) x[1][i] = expf(x[1][i]);
      else x[1][i] *= 30;
    for (i = 0; i < T * dv; i++)
      if (i % dv < h) x[3][i] = fabsf(x[3][i]);
    f.turning = 1;
    k->scan_fwd(&f);
    for (i = 0; i < all; i++) S[0][i] = (double)x[0][i];
    for (l = 0; l < T; l++)
      for (j = 0; j < h; j++) {
        const float *dt = x[3] + (size_t)l * dv + j, *u = x[4] + (size_t)l * dv + j;
        double y = 0, yi = 0;
        for (i = 0; i < n; i++) {
          const size_t at = i * dv + j, im = at + h;
          const double w = exp(-(double)x[1][at] * (double)dt[0]);
          const double angle = (double)x[1][im] * (double)dt[h], c = w * cos(angle);
          const double d = w * sin(angle), b = home ? (double)x[2][at] : 0;
          const double bi = home ? (double)x[2][im] : 0, a = S[l][at] - b, ai = S[l][im] - bi;
          const double in = (double)x[5][(size_t)l * n + i];
          S[l + 1][at] = b + c * a - d * ai + in * (double)u[0];
          S[l + 1][im] = bi + d * a + c * ai + in * (double)u[h];
          y += (double)x[6][(size_t)l * n + i] * S[l + 1][at];
          yi += (double)x[6][(size_t)l * n + i] * S[l + 1][im];
          assert_true(fabs((double)x[0][(size_t)(l + 1) * all + at] - S[l + 1][at]) < 2e-5);
          assert_true(fabs((double)x[0][(size_t)(l + 1) * all + im] - S[l + 1][im]) < 2e-5);
        }
        assert_true(fabs((double)x[7][(size_t)l * dv + j] - y) < 5e-5);
        assert_true(fabs((double)x[7][(size_t)l * dv + j + h] - yi) < 5e-5);
      }
    memcpy(before[0], x[9], all * sizeof(float));
    memcpy(before[1], x[10], all * sizeof(float));
    memcpy(before[2], x[8], all * sizeof(float));
    g = scan_grads_of(x, dv, home);
    k->scan_bwd(&f, &g);
    for (j = 0; j < h; j++)
      for (i = 0; i < n; i++) {
        const size_t at = i * dv + j, im = at + h;
        double da = (double)before[0][at], di = (double)before[0][im];
        double db = (double)before[1][at], dbi = (double)before[1][im];
        double gr = (double)before[2][at], gi = (double)before[2][im];
        for (l = T; l-- > 0;) {
          const double dt = (double)x[3][(size_t)l * dv + j];
          const double turn = (double)x[3][(size_t)l * dv + j + h], rate = (double)x[1][at];
          const double w = exp(-rate * dt), angle = (double)x[1][im] * turn;
          const double a = S[l][at] - (home ? (double)x[2][at] : 0);
          const double ai = S[l][im] - (home ? (double)x[2][im] : 0);
          double lr, li;
          gr += (double)x[6][(size_t)l * n + i] * (double)x[7][(size_t)l * dv + j];
          gi += (double)x[6][(size_t)l * n + i] * (double)x[7][(size_t)l * dv + j + h];
          lr = w * (cos(angle) * gr + sin(angle) * gi);
          li = w * (cos(angle) * gi - sin(angle) * gr);
          da -= rate * dt * (a * lr + ai * li);
          di += turn * (a * li - ai * lr);
          db += gr - lr, dbi += gi - li;
          gr = lr, gi = li;
        }
        assert_true(fabs((double)x[9][at] - da) < 2e-4 && fabs((double)x[9][im] - di) < 2e-4);
        assert_true(fabs((double)x[8][at] - gr) < 2e-4 && fabs((double)x[8][im] - gi) < 2e-4);
        if (!home) continue;
        assert_true(fabs((double)x[10][at] - db) < 2e-4 && fabs((double)x[10][im] - dbi) < 2e-4);
      }
    scan_same(k, &vectors, x, counts, "turning");
  }
}

static void test_turning(void **state) {
  static const size_t sizes[][2] = { { 1, 1 }, { 2, 3 }, { 9, 7 }, { 3, 8 }, { 5, 17 } };
  size_t i;
  int side, home;
  (void)state;
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (side = 0; side < 3; side++)
      for (home = 0; home < 2; home++) check_turning(sizes[i][0], sizes[i][1], side, home);
}

/* ---- memories that count entries ---- */

/* A token of a state [n, dv] against the formula in double, some entries of the key being 0, and
 * the adjoint against differences of the formula. All sets of vectors have the same bits. */
enum { MEET_AT = 15, MEET_MOST = 9 * 40 };

/* sum of pull over W and C behind a token, of W, C, x, lambda, e; alpha and eta at the end of x. */
static double met(size_t n, size_t dv, int kinds, double *const *z, const double *v,
                  const double *pull_w, const double *pull_c, double *w_to, double *c_to) {
  const double alpha = z[2][n], eta = z[2][n + 1];
  double total = 0;
  size_t i, j;
  for (j = 0; j < dv; j++) {
    const double e = z[4][j], h = kinds ? v[j] - e / 2 : 1;
    double s = 0, g;
    for (i = 0; i < n; i++)
      if (z[2][i] < 0 || z[2][i] > 0)
        s += z[2][i] * z[2][i] / (z[3][i] + alpha * z[1][i * dv + j]);
    g = eta * e / (1 + eta * h * s);
    for (i = 0; i < n; i++) {
      const size_t at = i * dv + j;
      const double x = z[2][i], keep = x < 0 || x > 0 ? alpha : 1, r = z[3][i] + keep * z[1][at];
      const double w = keep * (z[3][i] + z[1][at]) / r * z[0][at] + x * g / r;
      const double c = keep * z[1][at] + eta * h * x * x;
      total += pull_w[at] * w + pull_c[at] * c;
      if (w_to) w_to[at] = w, c_to[at] = c;
    }
  }
  return total;
}

static void check_meeting(size_t n, size_t dv, int side, int kinds) {
  static float first[MEET_AT][MEET_MOST];
  static double z[5][MEET_MOST], v[40], pull[2][MEET_MOST], w[MEET_MOST], c[MEET_MOST];
  double *const in[5] = {z[0], z[1], z[2], z[3], z[4]};
  const size_t all = n * dv;
  const size_t counts[MEET_AT] = {all, all, n + 2, n, dv, dv, dv, all, all, dv, dv, dv, all, all,
                                  all};
  const miras__kernels *vectors = NULL;
  size_t i, j;
  int t, s;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    float *x[MEET_AT], *after[2];
    miras__meeting m;
    miras__meeting_grads g;
    if (!inside_usable(k)) continue;
    for (s = 0; s < MEET_AT; s++) {
      x[s] = place(s, counts[s], side);
      draw_all(x[s], counts[s], UNIFORM, (uint64_t)s + all);
    }
    for (i = 0; i < all; i++) x[1][i] = i % 3 ? fabsf(x[1][i]) * 4 : 0;
    for (i = 0; i < n; i++) x[3][i] = 0.3f + fabsf(x[3][i]);
    for (i = 0; i < n; i += 4) x[2][i] = 0;
    x[2][n] = all % 2 ? 0.75f : 1, x[2][n + 1] = 0.5f;
    for (j = 0; j < dv; j++) x[5][j] = 1.5f + fabsf(x[5][j]), x[6][j] = 0;
    for (s = 0; s < 5; s++)
      for (i = 0; i < counts[s]; i++) z[s][i] = (double)x[s][i];
    for (j = 0; j < dv; j++) v[j] = (double)x[5][j];
    for (i = 0; i < all; i++) pull[0][i] = (double)x[7][i], pull[1][i] = (double)x[8][i];
    m.n = n, m.dv = dv, m.x = x[2], m.alpha = x[2] + n, m.eta = x[2] + n + 1, m.lambda = x[3];
    m.e = x[4], m.v = kinds ? x[5] : NULL, m.s = x[6];
    after[0] = place(MEET_AT, all, side), after[1] = place(MEET_AT + 1, all, side);
    memcpy(after[0], x[0], all * sizeof(float)), memcpy(after[1], x[1], all * sizeof(float));
    m.w = after[0], m.c = after[1];
    k->count_meet(&m);
    k->count_take(&m);
    (void)met(n, dv, kinds, in, v, pull[0], pull[1], w, c);
    for (i = 0; i < all; i++)
      assert_true(fabs((double)after[0][i] - w[i]) < 1e-5 &&
                  fabs((double)after[1][i] - c[i]) < 1e-5);
    m.w = x[0], m.c = x[1];
    g.dw = x[7], g.dc = x[8], g.de = x[9], g.dv = x[10], g.deta = x[11], g.dx = x[12];
    g.dlambda = x[13], g.dalpha = x[14];
    k->count_bwd(&m, &g);
    for (s = 0; s < 5; s++)
      for (i = 0; i < counts[s]; i++) {
        const double step = 1e-6, was = z[s][i];
        double slope, is = 0;
        if (s == 2 && i < n && !(was < 0 || was > 0)) continue;      /* decays begin there */
        z[s][i] = was + step;
        slope = met(n, dv, kinds, in, v, pull[0], pull[1], NULL, NULL);
        z[s][i] = was - step;
        slope = (slope - met(n, dv, kinds, in, v, pull[0], pull[1], NULL, NULL)) / (2 * step);
        z[s][i] = was;
        if (s < 2) is = (double)x[7 + s][i];
        else if (s == 4) is = (double)x[9][i];
        else if (s == 2 && i == n + 1)
          for (j = 0; j < dv; j++) is += (double)x[11][j];
        else if (s == 2 && i == n)
          for (j = 0; j < all; j++) is += (double)x[14][j];
        else
          for (j = 0; j < dv; j++) is += (double)x[s == 2 ? 12 : 13][i * dv + j];
        if (!(fabs(is - slope) < 2e-4 * (1 + fabs(slope))))
          fail_msg("count_bwd of %s: %d of %d is %g, not %g", k->name, (int)i, s, is, slope);
      }
    if (!fused(k)) continue;
    for (s = 7; s < MEET_AT; s++) {
      if (vectors && !same_bits(x[s], first[s], counts[s]))
        fail_msg("count_bwd: %s has other bits than %s", k->name, vectors->name);
      memcpy(first[s], x[s], counts[s] * sizeof(float));
    }
    for (s = 0; s < 2; s++) {
      if (vectors && !same_bits(after[s], first[s], all))
        fail_msg("count_take: %s has other bits than %s", k->name, vectors->name);
      memcpy(first[s], after[s], all * sizeof(float));
    }
    vectors = k;
  }
}

static void test_meeting(void **state) {
  static const size_t sizes[][2] = { { 1, 1 }, { 2, 3 }, { 9, 7 }, { 3, 8 }, { 5, 17 }, { 4, 40 } };
  size_t i;
  int side, kinds;
  (void)state;
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (side = 0; side < 3; side++)
      for (kinds = 0; kinds < 2; kinds++) check_meeting(sizes[i][0], sizes[i][1], side, kinds);
}

/* ---- links ---- */

enum { LINKED = 66 * 70 };

/* Signed slices of any size against c sinh(a) / sum cosh(a) and c cosh(a) / sum cosh(a) in double.
 * A float of size a moves its exponential by a / 2^24. */
static void check_signed(const miras__kernels *k, const miras__plan *p, int l, const float *a,
                         float *w, float *mass) {
  const size_t in = (size_t)p->in[l], out = (size_t)p->out[l];
  const int kind = miras__slice(p, l);
  const size_t count = kind == 2 ? out : kind == 1 ? in : 1, n = in * out / count;
  const size_t stride = kind == 2 ? out : 1, hop = kind == 2 ? 1 : n;
  size_t i, j;
  k->signed_fwd(p, l, w, mass, a);
  for (j = 0; j < count; j++) {
    double top = 0, sum = 0;
    for (i = 0; i < n; i++) top = fmax(top, fabs((double)a[j * hop + i * stride]));
    for (i = 0; i < n; i++) {
      const double x = (double)a[j * hop + i * stride];
      sum += exp(x - top) + exp(-x - top);
    }
    for (i = 0; i < n; i++) {
      const size_t at = j * hop + i * stride;
      const double x = (double)a[at], c = (double)p->d.simplex, near = 8e-7 + 1.5e-7 * fabs(x);
      const double sine = top > 1 ? exp(x - top) - exp(-x - top) : 2 * sinh(x) * exp(-top);
      const double want_w = c * sine / sum, want_m = c * (exp(x - top) + exp(-x - top)) / sum;
      if (!(fabs((double)w[at] - want_w) <= near * fabs(want_w) + 2e-30) ||
          (mass && !(fabs((double)mass[at] - want_m) <= near * want_m + 1e-36 * c)))
        fail_msg("%s: slice kind %d of %d x %d, %g of up to %g: %g, %g instead of %g, %g", k->name,
                 kind, (int)in, (int)out, x, top, (double)w[at], mass ? (double)mass[at] : 0.0,
                 want_w, want_m);
    }
  }
}

static void test_signed(void **state) {
  static const int shapes[][2] = { { 1, 1 }, { 7, 5 }, { 66, 37 }, { 9, 20 }, { 20, 64 },
                                   { 66, 70 } };
  static const float sizes[] = { 1e-12f, 1e-3f, 0.4f, 3, 39, 45, 100, 3e3f, 9e5f };
  static float a[LINKED], w[3][LINKED], mass[2][LINKED];
  const miras__kernels *first = NULL;
  size_t shape, size, i;
  int t, l, whole;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    if (!first && fused(k)) first = k;
    for (shape = 0; shape < sizeof shapes / sizeof *shapes; shape++)
      for (l = 0; l < 2; l++)
        for (whole = 0; whole < 2; whole++)
          for (size = 0; size < sizeof sizes / sizeof *sizes; size++) {
            const size_t n = (size_t)(shapes[shape][0] * shapes[shape][1]);
            miras__plan p;
            if ((shape + size) % SOME) continue;
            memset(&p, 0, sizeof p);
            p.layers = 2;
            p.from[1] = 1;
            p.in[0] = p.in[1] = shapes[shape][0];
            p.out[0] = p.out[1] = shapes[shape][1];
            p.d.simplex = 3;
            p.d.simplex_whole = whole;
            draw_all(a, n, UNIFORM, size);
            for (i = 0; i < n; i++) a[i] *= sizes[size];
            check_signed(k, &p, l, a, w[0], mass[0]);
            check_signed(k, &p, l, a, w[1], NULL);
            assert_true(same_bits(w[0], w[1], n));
            if (fused(k)) {
              first->signed_fwd(&p, l, w[2], mass[1], a);
              assert_true(same_bits(w[0], w[2], n) && same_bits(mass[0], mass[1], n));
            }
            /* one that is far beyond the others takes all, however far */
            a[n / 2] = -1e30f;
            k->signed_fwd(&p, l, w[0], mass[0], a);
            assert_true(w[0][n / 2] < -2.9999f && mass[0][n / 2] > 2.9999f);
            for (i = 0; i < n; i++) assert_true(fabsf(w[0][i]) < 3.0001f);
            a[n / 2] = NAN;                        /* and what is none makes its slice none */
            k->signed_fwd(&p, l, w[0], mass[0], a);
            assert_true(w[0][n / 2] != w[0][n / 2] && mass[0][n / 2] != mass[0][n / 2]);
          }
  }
}

/* LQ: N, w and, from N, the adjoint, for weights of any size. */
static void test_lq(void **state) {
  static const float sizes[] = { 1e-18f, 1e-9f, 1e-4f, 1, 1e3f, 1e9f, 1e18f };
  static const float qs[] = { 1.25f, 1.5f, 2.2f, 2.5f, 3, 4 };
  static const size_t counts[] = { 1, 15, 16, 255, 256, 300, LINKED };
  static float a[LINKED], bw[LINKED], w[2][LINKED], ba[2][LINKED];
  const miras__kernels *first = NULL;
  size_t size, count, i, e;
  int t, pnorm;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    if (!first && fused(k)) first = k;
    for (size = 0; size < sizeof sizes / sizeof *sizes; size++)
      for (count = 0; count < sizeof counts / sizeof *counts; count++)
        for (e = 0; e < sizeof qs / sizeof *qs; e++)
          for (pnorm = 0; pnorm < 2; pnorm++) {
            const size_t n = counts[count];
            const double q = (double)qs[e];
            double total = 0, along = 0, N;
            float norm, other;
            if ((size + count + e) % SOME) continue;
            draw_all(a, n, UNIFORM, size + count);
            draw_all(bw, n, UNIFORM, size + count + 10);
            for (i = 0; i < n; i++) a[i] *= sizes[size];
            if (pnorm && (sizes[size] > 1e4f || sizes[size] < 1e-4f)) continue;   /* of the range */
            for (i = 0; i < n; i++) total += pow(fabs((double)a[i]) / (double)sizes[size], q);
            N = fmax((double)sizes[size] * pow(total, 1 / q), (double)1e-6f);
            memset(ba, 0, sizeof ba);
            norm = k->lq_fwd(w[0], a, qs[e], pnorm, n);
            k->lq_bwd(ba[0], bw, a, w[0], norm, 0.5f, qs[e], pnorm, n);
            if (!(fabs((double)norm / N - 1) < 2e-6))
              fail_msg("%s: q %g, %d weights of %g: N %g instead of %g", k->name, q, (int)n,
                       (double)sizes[size], (double)norm, N);
            for (i = 0; i < n; i++) {
              const double power = pow(fabs((double)a[i]), q - 1);
              along += (double)bw[i] * (pnorm ? copysign(power, (double)a[i]) : (double)a[i]);
            }
            if (!pnorm) along += 0.5;
            if (!(N > (double)1e-6f)) along = 0;
            for (i = 0; i < n; i++) {
              const double x = (double)a[i], sign = copysign(1, x), by = pow(N, 2 - q);
              const double power = pow(fabs(x), q - 1), unit = pow(fabs(x) / N, q - 1);
              const double want = by * (pnorm ? sign * power : x);
              const double least = q < 2 ? 1e-6 : 0;
              const double slope = pnorm ? (q - 1) * pow(fmax(fabs(x), least), q - 2) : 1;
              const double more = (2 - q) * along * sign * unit * pow(N, 1 - q);
              const double grad = slope * (double)bw[i] * by + more;
              const double scale = slope * fabs((double)bw[i]) * by + fabs(more) + 1e-30;
              if (!(fabs((double)w[0][i] - want) <= 1e-5 * fabs(want) + 1e-37) ||
                  !(fabs((double)ba[0][i] - grad) <= 2e-4 * scale))
                fail_msg("%s: q %g, %d weights of %g, %d: w %g, ba %g instead of %g, %g", k->name,
                         q, (int)n, (double)sizes[size], pnorm, (double)w[0][i], (double)ba[0][i],
                         want, grad);
            }
            if (!fused(k)) continue;
            other = first->lq_fwd(w[1], a, qs[e], pnorm, n);
            first->lq_bwd(ba[1], bw, a, w[1], other, 0.5f, qs[e], pnorm, n);
            assert_true(same_bits(&norm, &other, 1) && same_bits(w[0], w[1], n));
            assert_true(same_bits(ba[0], ba[1], n));
          }
  }
}

static void test_matmul(void **state) {
  enum { M = 70, N = 80, K = 90 };
  static float A[M * K], B[K * N], C[M * N], pack[PACK];
  static double want[M * N];
  int mode, i, j, k;
  (void)state;
  draw_all(A, M * K, UNIFORM, 1);
  draw_all(B, K * N, UNIFORM, 2);
  for (mode = MIRAS__SET; mode <= MIRAS__SUB; mode++) {
    draw_all(C, M * N, UNIFORM, 3);
    for (i = 0; i < M; i++)
      for (j = 0; j < N; j++) {
        double s = 0;
        for (k = 0; k < K; k++) s += (double)A[k * M + i] * (double)B[j * K + k];
        want[i * N + j] = mode == MIRAS__SUB ? -s : s;
        if (mode != MIRAS__SET) want[i * N + j] += (double)C[i * N + j];
      }
    miras__matmul(kernels_of(-1), mode, C, N, miras__turned(A, M), miras__turned(B, K), M, N,
                  K, pack);
    for (i = 0; i < M * N; i++) assert_true(near(C[i], want[i], 1e-5));
  }
}

/* ---- the kernels of layers ---- */

/* One function per kernel takes its operands, drawn and placed, and calls it. An operand's rows lie
 * ld floats apart, and what is between them must not change. */
typedef struct operand {
  float *p;
  size_t rows, cols, ld;
} operand;

typedef struct trial {
  size_t rows, heads, dim, n, pad;   /* n = heads dim; pad: 0, or how far apart rows are at least */
  size_t variant;                    /* picks forms, and what may be NULL */
  int side, count;
  operand of[SLOTS];
} trial;

/* Of size 1/4 to 3: both ends of the sigmoids, and no row so short that its norm is lost. */
static float layer_value(int slot, size_t i) {
  const float u = miras__uniform((uint64_t)slot + 50, (uint64_t)i);
  return u < 0 ? 2.75f * u - 0.25f : 2.75f * u + 0.25f;
}

static operand take(trial *t, size_t rows, size_t cols, size_t ld) {
  const size_t size = rows && cols ? (rows - 1) * ld + cols : 0;
  operand *o = &t->of[t->count];
  size_t i;
  o->p = place(t->count, size, t->side);
  o->rows = rows;
  o->cols = cols;
  o->ld = ld;
  for (i = 0; i < size; i++) o->p[i] = layer_value(t->count, i);
  t->count++;
  return *o;
}

static operand packed(trial *t, size_t rows, size_t cols) { return take(t, rows, cols, cols); }

/* No two operands of a trial are equally far apart. */
static operand apart(trial *t, size_t rows, size_t cols) {
  return take(t, rows, cols, cols + (t->pad ? t->pad + (size_t)t->count : 0));
}

/* The functions of gates; the first four are those of convolutions. */
static int function_of(size_t variant) {
  static const int ours[7] = {
    MIRAS_FN_SILU, MIRAS_FN_NONE, MIRAS_FN_RELU, MIRAS_FN_ELU,
    MIRAS_FN_GELU, MIRAS_FN_SIGMOID, MIRAS__TANH
  };
  return ours[variant % 7];
}

/* With or without biases and a gate. */
static miras__norming norm_of(const trial *t, operand x, operand gain, operand bias, operand gate) {
  miras__norming of;
  memset(&of, 0, sizeof of);
  of.x = x.p, of.ldx = x.ld, of.gain = gain.p;
  of.rows = t->rows, of.heads = t->heads, of.dim = t->dim, of.epsilon = 1e-5f;
  if (t->variant / 6 % 2) of.bias = bias.p;
  if (t->variant / 12 % 2) of.gate = gate.p, of.ld_gate = gate.ld;
  of.function = function_of(t->variant / 24);
  return of;
}

static void layer_heads_norm_fwd(const miras__kernels *k, trial *t) {
  operand y = apart(t, t->rows, t->n), x = apart(t, t->rows, t->n), gate = apart(t, t->rows, t->n);
  operand gain = packed(t, 1, t->n), bias = packed(t, 1, t->n);
  miras__norming of = norm_of(t, x, gain, bias, gate);
  k->heads_norm_fwd(t->variant % 2 ? x.p : y.p, t->variant % 2 ? x.ld : y.ld, &of);
}

static void layer_heads_norm_bwd(const miras__kernels *k, trial *t) {
  operand dx = apart(t, t->rows, t->n), base = apart(t, t->rows, t->n), y = apart(t, t->rows, t->n);
  operand x = apart(t, t->rows, t->n), dy = apart(t, t->rows, t->n), gain = packed(t, 1, t->n);
  operand dgain = packed(t, 1, t->n), bias = packed(t, 1, t->n), dbias = packed(t, 1, t->n);
  operand gate = apart(t, t->rows, t->n), dgate = apart(t, t->rows, t->n);
  miras__norming of = norm_of(t, x, gain, bias, gate);
  miras__norm_grads g;
  g.gain = dgain.p, g.bias = dbias.p, g.gate = dgate.p, g.ld_gate = dgate.ld;
  if (t->variant % 3 == 1) base = dx;
  k->heads_norm_bwd(dx.p, dx.ld, t->variant % 3 == 2 ? NULL : base.p, base.ld, &g,
                    t->variant / 3 % 2 ? NULL : y.p, y.ld, dy.p, dy.ld, &of);
}

static void layer_squash_fwd(const miras__kernels *k, trial *t) {
  operand y = apart(t, t->rows, t->n);
  k->squash_fwd(t->variant % 2 ? MIRAS__TANH : MIRAS_FN_SIGMOID, y.p, y.ld, t->rows, t->n);
}

static void layer_squash_bwd(const miras__kernels *k, trial *t) {
  operand dy = apart(t, t->rows, t->n), y = apart(t, t->rows, t->n);
  k->squash_bwd(t->variant % 2 ? MIRAS__TANH : MIRAS_FN_SIGMOID, dy.p, dy.ld, y.p, y.ld, t->rows,
                t->n);
}

static void layer_gate_rows_fwd(const miras__kernels *k, trial *t) {
  operand s = apart(t, t->rows, t->n), a = apart(t, t->rows, t->n), b = apart(t, t->rows, t->n);
  k->gate_rows_fwd(function_of(t->variant), s.p, s.ld, a.p, a.ld, b.p, b.ld, t->rows, t->n);
}

static void layer_gate_rows_bwd(const miras__kernels *k, trial *t) {
  operand ds = apart(t, t->rows, t->n), a = apart(t, t->rows, t->n), b = apart(t, t->rows, t->n);
  k->gate_rows_bwd(function_of(t->variant), ds.p, ds.ld, a.p, a.ld, b.p, b.ld, t->rows, t->n);
}

static miras__conv conv_of(const trial *t, operand c, operand past, operand w, operand bias,
                           size_t taps, size_t per) {
  const size_t form = t->variant % 8;
  miras__conv of;
  of.c = c.p, of.ldc = c.ld, of.w = taps == 1 && form == 5 ? NULL : w.p;
  of.bias = form > 4 ? bias.p : NULL, of.function = function_of(form % 4);
  of.group = 1;
  of.more = (int)t->variant % 7 == 3;
  of.past = t->variant / 5 % 2 ? NULL : past.p, of.ldpast = past.ld;
  of.per = per, of.taps = taps, of.rows = t->rows, of.heads = t->heads, of.dim = t->dim;
  return of;
}

static void layer_conv_fwd(const miras__kernels *k, trial *t) {
  const size_t taps = 1 + t->variant % 5;
  operand z = apart(t, t->heads, t->rows * t->dim), c = apart(t, t->rows, t->n);
  operand past = apart(t, taps - 1, t->n), w = packed(t, taps, t->n);
  operand bias = packed(t, 1, t->n);
  miras__conv of = conv_of(t, c, past, w, bias, taps, z.ld);
  k->conv_fwd(z.p, &of);
}

static void layer_conv_bwd(const miras__kernels *k, trial *t) {
  const size_t taps = 1 + t->variant % 5, after = t->variant / 10 % taps, all = t->rows + after;
  operand dc = apart(t, t->rows, t->n), dw = packed(t, taps, t->n);
  operand dz = apart(t, t->heads, all * t->dim), c = apart(t, all, t->n);
  operand past = apart(t, taps - 1, t->n), w = packed(t, taps, t->n), sum = packed(t, all, t->n);
  operand bias = packed(t, 1, t->n), dbias = packed(t, 1, t->n);
  miras__conv of = conv_of(t, c, past, w, bias, taps, dz.ld);
  k->conv_bwd(dc.p, dc.ld, of.w ? dw.p : NULL, of.bias ? dbias.p : NULL, dz.p, after, sum.p, &of);
}

static void layer_qk_norm_fwd(const miras__kernels *k, trial *t) {
  operand x = packed(t, t->rows, t->n), inverse = packed(t, 1, t->rows);
  const float length = t->variant / 2 % 2 ? -1.5f : 1.5f;
  k->qk_norm_fwd(x.p, t->variant % 2 ? NULL : inverse.p, length, t->rows, t->n);
}

static void layer_qk_norm_bwd(const miras__kernels *k, trial *t) {
  operand dx = packed(t, t->rows, t->n), x = packed(t, t->rows, t->n);
  operand inverse = packed(t, 1, t->rows);
  k->qk_norm_bwd(dx.p, x.p, inverse.p, t->variant % 2 ? -1.5f : 1.5f, t->rows, t->n);
}

static miras__erasing erasing_of(const trial *t, operand x, operand rate, operand a, operand b) {
  miras__erasing e;
  e.x = x.p, e.c = rate.p, e.ldc = rate.ld, e.a = a.p, e.b = b.p;
  e.rows = t->rows, e.n = t->n;
  return e;
}

static void layer_erase_fwd(const miras__kernels *k, trial *t) {
  operand key = packed(t, t->rows, t->n), erase = packed(t, t->rows, t->n);
  operand replace = packed(t, t->rows, t->n), x = packed(t, t->rows, t->n);
  operand rate = apart(t, t->rows, t->n), a = packed(t, 1, t->n), b = packed(t, 1, t->n);
  miras__erasing e = erasing_of(t, x, rate, a, b);
  k->erase_fwd(key.p, erase.p, replace.p, &e);
}

static void layer_erase_bwd(const miras__kernels *k, trial *t) {
  operand dkey = packed(t, t->rows, t->n), derase = packed(t, t->rows, t->n);
  operand dreplace = packed(t, t->rows, t->n), drate = apart(t, t->rows, t->n);
  operand x = packed(t, t->rows, t->n), erase = packed(t, t->rows, t->n);
  operand rate = apart(t, t->rows, t->n), a = packed(t, 1, t->n), b = packed(t, 1, t->n);
  operand da = packed(t, 1, t->n), db = packed(t, 1, t->n), row = packed(t, 1, t->n);
  miras__erasing e = erasing_of(t, x, rate, a, b);
  k->erase_bwd(dkey.p, derase.p, dreplace.p, drate.p, drate.ld, da.p, db.p, row.p, erase.p, &e);
}

/* f, b and sums as they are, from 0 on */
static operand from_zero(operand x, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; r++)
    for (size_t i = 0; i < n; i++) x.p[r * x.ld + i] *= x.p[r * x.ld + i];
  return x;
}

static void layer_precondition_fwd(const miras__kernels *k, trial *t) {
  operand y = apart(t, t->rows, t->n), before = take(t, t->rows, t->n, y.ld);
  operand state = from_zero(packed(t, 1, t->n), 1, t->n), x = take(t, t->rows, t->n, y.ld);
  operand keep = from_zero(apart(t, t->rows, 1), t->rows, 1), centre = packed(t, 1, 1);
  operand rate = from_zero(take(t, t->rows, 1, keep.ld), t->rows, 1);
  const miras__conditioning of = {x.p, before.p, keep.p, rate.p, centre.p, y.ld, keep.ld, t->rows,
                                  t->n};
  k->precondition_fwd(y.p, state.p, &of);
}

static void layer_precondition_bwd(const miras__kernels *k, trial *t) {
  operand dx = apart(t, t->rows, t->n), more = take(t, t->rows, t->n, dx.ld);
  operand dtake = take(t, t->rows, t->n, dx.ld), dcentre = packed(t, 1, t->n);
  operand before = from_zero(take(t, t->rows, t->n, dx.ld), t->rows, t->n);
  operand x = take(t, t->rows, t->n, dx.ld), centre = packed(t, 1, 1);
  operand keep = from_zero(apart(t, t->rows, 1), t->rows, 1);
  operand rate = from_zero(take(t, t->rows, 1, keep.ld), t->rows, 1);
  const miras__conditioning of = {x.p, before.p, keep.p, rate.p, centre.p, dx.ld, keep.ld, t->rows,
                                  t->n};
  k->precondition_bwd(dx.p, more.p, dtake.p, dcentre.p, &of);
}

static miras__gating gating_of(const trial *t) {
  miras__gating how;
  how.form = (int)(t->variant % (MIRAS__GATE_FLOOR_TIME + 1));
  how.cap = 0.75f, how.low = -1, how.high = t->variant / 16 % 2 ? 1.5f : -1;
  return how;
}

static void layer_gates_fwd(const miras__kernels *k, trial *t) {
  operand y = apart(t, t->rows, t->n), g = take(t, t->rows, t->n, y.ld);
  operand offset = packed(t, 1, t->n), c = packed(t, 1, t->n);
  const miras__gating how = gating_of(t);
  k->gates_fwd(&how, y.p, g.p, y.ld, t->variant / 8 % 2 ? NULL : offset.p, c.p, t->rows, t->n);
}

static void layer_gates_bwd(const miras__kernels *k, trial *t) {
  operand dy = apart(t, t->rows, t->n), g = take(t, t->rows, t->n, dy.ld);
  operand doffset = packed(t, 1, t->n), dc = packed(t, 1, t->n), c = packed(t, 1, t->n);
  const miras__gating how = gating_of(t);
  k->gates_bwd(&how, dy.p, g.p, dy.ld, doffset.p, miras__gate_learns(how.form) ? dc.p : NULL, c.p,
               t->rows, t->n);
}

/* A text that begins or goes on, with or without room for states. */
static miras__wkv wkv_of(trial *t, operand y, operand kept) {
  operand k = apart(t, t->rows, t->n), v = apart(t, t->rows, t->n), w = packed(t, 1, t->n);
  operand u = packed(t, 1, t->n), state = packed(t, 2, t->n);
  miras__wkv x;
  memset(&x, 0, sizeof x);
  x.rows = t->rows, x.n = t->n, x.n_state = state.ld;
  x.k = k.p, x.ld_k = k.ld, x.v = v.p, x.ld_v = v.ld, x.w = w.p, x.u = u.p;
  x.y = y.p, x.ld_y = y.ld, x.kept = kept.p, x.ld_kept = kept.ld;
  x.starts = t->variant % 2;
  if (t->variant / 2 % 2 || !x.starts) x.state = state.p;
  return x;
}

static void layer_wkv_fwd(const miras__kernels *k, trial *t) {
  operand y = apart(t, t->rows, t->n), kept = apart(t, t->rows, 2 * t->n);
  miras__wkv x = wkv_of(t, y, kept);
  if (t->variant / 4 % 2) x.kept = NULL;
  k->wkv_fwd(&x);
}

static void layer_wkv_bwd(const miras__kernels *k, trial *t) {
  operand dy = apart(t, t->rows, t->n), kept = apart(t, t->rows, 2 * t->n);
  miras__wkv x = wkv_of(t, dy, kept);
  operand dk = take(t, t->rows, t->n, x.ld_k), dv = take(t, t->rows, t->n, x.ld_v);
  operand dw = packed(t, 1, t->n), du = packed(t, 1, t->n);
  miras__wkv_grads g;
  g.y = dy.p, g.k = dk.p, g.v = dv.p, g.w = dw.p, g.u = du.p;
  k->wkv_bwd(&x, &g);
}

static void layer_complement(const miras__kernels *k, trial *t) {
  operand key = packed(t, t->rows, t->n), gate = apart(t, t->rows, t->n);
  operand g = take(t, t->rows, t->n, gate.ld);
  k->complement(t->variant % 2 ? MIRAS__GATE_ROOT : MIRAS__GATE_SIGMOID, 0.75f, key.p, gate.p, g.p,
                g.ld, t->rows, t->n);
}

static void layer_cross_entropy(const miras__kernels *k, trial *t) {
  operand loss = packed(t, 1, t->rows), x = apart(t, t->rows, t->n);
  size_t i;
  for (i = 0; i < t->rows && t->n; i++)
    loss.p[i] = k->cross_entropy(x.p + i * x.ld, t->n, (t->variant + i) % t->n,
                                 t->variant % 3 ? 0.25f : 0);
}

/* All types but category and raw, of which the last has twice the numbers; with a gradient or
 * not. */
static void layer_number_loss(const miras__kernels *k, trial *t) {
  const int type = MIRAS_OUTPUT_BINARY + (int)t->variant % 6;
  const float at = type == MIRAS_OUTPUT_LP ? 2.5f : 0.7f;
  operand loss = packed(t, 1, t->rows), x = apart(t, t->rows, 2 * t->n);
  operand y = packed(t, t->rows, t->n), room = packed(t, 1, t->n);
  size_t i;
  for (i = 0; i < t->rows && t->n; i++) {
    if (i % 2) y.p[i * y.ld + i % t->n] = i % 4 == 1 ? NAN : INFINITY;
    loss.p[i] = k->number_loss(type, x.p + i * x.ld, y.p + i * y.ld, t->n, at,
                               t->variant / 6 ? 0.25f : 0, room.p);
  }
}

static void layer_dropout(const miras__kernels *k, trial *t) {
  operand y = packed(t, 1, t->n), base = packed(t, 1, t->n), x = packed(t, 1, t->n);
  if (t->variant % 3 == 1) base = y;
  k->dropout(y.p, t->variant % 3 == 2 ? NULL : base.p, x.p, miras__hash(t->variant), 0x40000000u,
             4.0f / 3, t->n);
}

static void layer_transpose(const miras__kernels *k, trial *t) {
  operand y = apart(t, t->n, t->rows), x = apart(t, t->rows, t->n);
  k->transpose(y.p, y.ld, x.p, x.ld, t->rows, t->n);
}

static void layer_adamw(const miras__kernels *k, trial *t) {
  static const float rates[9] = { 0.9f, 0.1f, 0.95f, 0.05f, 0.5f, 0.01f, 1.5f, 1e-8f, 0.999f };
  operand w = packed(t, 1, t->n), m = packed(t, 1, t->n), v = packed(t, 1, t->n);
  operand g = packed(t, 1, t->n), c = packed(t, 1, 9);
  size_t i;
  memcpy(c.p, rates, sizeof rates);
  for (i = 0; i < t->n; i++) v.p[i] *= v.p[i];
  k->adamw(w.p, m.p, v.p, g.p, t->n, c.p);
}

/* Means by channel against the published recurrence in double, over the power of the largest
 * exponent so far: y, and slopes by differences of that; exponents of up to 300 of either sign,
 * decays that forget at once or nothing, texts in two calls, which have the bits of one. */
static double wkv_published(const double *k, const double *v, double log_w, double u, int T,
                            const double *dy, double *y) {
  double N = 0, Z = 0, m = -1e300, loss = 0;
  int t;
  for (t = 0; t < T; t++) {
    double most = fmax(m, u + k[t]), a = exp(m - most), b = exp(u + k[t] - most);
    const double said = (a * N + b * v[t]) / (a * Z + b);
    if (y) y[t] = said;
    loss += dy[t] * said;
    most = fmax(m - exp(log_w), k[t]), a = exp(m - exp(log_w) - most), b = exp(k[t] - most);
    N = a * N + b * v[t], Z = a * Z + b, m = most;
  }
  return loss;
}

static void test_wkv(void **state) {
  enum { T = 40, N = 19, CUT = 13 };
  static const double sizes[] = { 1, 10, 300 }, logs[] = { -20, -7, -2, 0, 3, 20, 300 };
  static float k[T * N], v[T * N], y[2][T * N], kept[2][T * 2 * N], ends[2][2 * N], dy[T * N];
  static float dk[T * N], dv[T * N], w[N], u[N], dw[N], du[N];
  size_t i, size, of;
  double worst = 0, steep = 0;
  int t, which;
  (void)state;
  for (which = 0; which < MIRAS__KERNEL_COUNT; which++)
    for (size = 0; size < 3; size++)
      for (of = 0; of < sizeof logs / sizeof *logs; of++) {
        const miras__kernels *K = kernels_of(which);
        miras__wkv x;
        miras__wkv_grads g;
        if (!inside_usable(K)) continue;
        draw_all(k, T * N, UNIFORM, 10 * size + of), draw_all(v, T * N, UNIFORM, 100 + of);
        draw_all(u, N, UNIFORM, 200 + of), draw_all(dy, T * N, UNIFORM, 300 + of);
        for (i = 0; i < T * N; i++) k[i] *= (float)sizes[size];
        for (i = 0; i < N; i++) w[i] = (float)logs[of] + 0.1f * u[i], u[i] *= (float)sizes[size];
        memset(&x, 0, sizeof x);
        x.rows = T, x.n = x.n_state = x.ld_k = x.ld_v = x.ld_y = N, x.ld_kept = 2 * N, x.starts = 1;
        x.k = k, x.v = v, x.w = w, x.u = u, x.y = y[0], x.state = ends[0], x.kept = kept[0];
        K->wkv_fwd(&x);
        g.y = dy, g.k = dk, g.v = dv, g.w = dw, g.u = du;
        K->wkv_bwd(&x, &g);
        x.rows = CUT, x.y = y[1], x.state = ends[1], x.kept = kept[1];
        K->wkv_fwd(&x);
        x.rows = T - CUT, x.starts = 0;
        x.k += CUT * N, x.v += CUT * N, x.y += CUT * N, x.kept += CUT * 2 * N;
        K->wkv_fwd(&x);
        assert_true(same_bits(y[0], y[1], T * N) && same_bits(ends[0], ends[1], 2 * N));
        assert_true(same_bits(kept[0], kept[1], T * 2 * N));
        for (i = of % SOME; i < N; i += SOME) {
          double a[2][T], said[T], d[T], log_w = (double)w[i], own = (double)u[i];
          for (t = 0; t < T; t++) {
            a[0][t] = (double)k[(size_t)t * N + i], a[1][t] = (double)v[(size_t)t * N + i];
            d[t] = (double)dy[(size_t)t * N + i];
          }
          (void)wkv_published(a[0], a[1], log_w, own, T, d, said);
          for (t = 0; t < T; t++) {
            const double off = fabs(said[t] - (double)y[0][(size_t)t * N + i]);
            if (!(off <= worst)) worst = off;      /* fmax here is more than gcc 12 for ARM takes */
          }
          for (t = 0; t < 2 * T + 2; t++) {
            double *at = t < T ? &a[0][t] : t < 2 * T ? &a[1][t - T] : t == 2 * T ? &log_w : &own;
            const double is = *at, h = 1e-5;
            const double has = (double)(t < T       ? dk[(size_t)t * N + i]
                                        : t < 2 * T ? dv[(size_t)(t - T) * N + i]
                                        : t == 2 * T ? dw[i] : du[i]);
            double slope;
            *at = is + h, slope = wkv_published(a[0], a[1], log_w, own, T, d, NULL);
            *at = is - h, slope -= wkv_published(a[0], a[1], log_w, own, T, d, NULL);
            *at = is, slope /= 2 * h;
            steep = fmax(steep, fabs(slope - has) / (1 + fabs(slope)));
          }
        }
      }
  print_message("  means by channel: off by %.1e, slopes by %.1e\n", worst, steep);
  assert_true(worst < 2e-4 && steep < 2e-4);
}

/* The longest row and the most rows that tell more; bound: how far from the portable kernel,
 * relative to an operand's largest entry, or to 1, the size of what goes in; about three times what
 * was measured. */
static const struct {
  const char *name;
  void (*run)(const miras__kernels *k, trial *t);
  size_t rows, heads, dim;
  double bound;
} layer_kernels[] = {
  { "heads_norm_fwd", layer_heads_norm_fwd, 3, 3, 67, 2e-6 },
  { "heads_norm_bwd", layer_heads_norm_bwd, 3, 3, 67, 2e-6 },
  { "squash_fwd", layer_squash_fwd, 3, 1, 67, 2e-7 },
  { "squash_bwd", layer_squash_bwd, 3, 1, 67, 4e-7 },
  { "gate_rows_fwd", layer_gate_rows_fwd, 3, 1, 67, 2e-7 },
  { "gate_rows_bwd", layer_gate_rows_bwd, 3, 1, 67, 4e-7 },
  { "conv_fwd", layer_conv_fwd, 6, 3, 35, 8e-7 },
  { "conv_bwd", layer_conv_bwd, 6, 3, 35, 2.5e-6 },
  { "qk_norm_fwd", layer_qk_norm_fwd, 3, 1, 67, 2e-7 },
  { "qk_norm_bwd", layer_qk_norm_bwd, 3, 1, 67, 1.2e-6 },
  { "erase_fwd", layer_erase_fwd, 3, 1, 67, 6e-7 },
  { "erase_bwd", layer_erase_bwd, 3, 1, 67, 2e-6 },
  { "precondition_fwd", layer_precondition_fwd, 3, 1, 67, 8e-7 },
  { "precondition_bwd", layer_precondition_bwd, 3, 1, 67, 1.5e-6 },
  { "gates_fwd", layer_gates_fwd, 3, 1, 67, 2e-7 },
  { "gates_bwd", layer_gates_bwd, 3, 1, 67, 7e-7 },
  { "complement", layer_complement, 3, 1, 67, 1e-7 },
  { "wkv_fwd", layer_wkv_fwd, 3, 1, 67, 1e-6 },
  { "wkv_bwd", layer_wkv_bwd, 3, 1, 67, 1e-6 },
  { "cross_entropy", layer_cross_entropy, 3, 1, 67, 3e-7 },
  { "number_loss", layer_number_loss, 12, 0, 35, 6e-7 },
  { "dropout", layer_dropout, 1, 1, 67, 0 },
  { "transpose", layer_transpose, 35, 1, 35, 0 },
  { "adamw", layer_adamw, 1, 1, 67, 4e-7 }
};

enum { LAYER_KERNELS = sizeof layer_kernels / sizeof layer_kernels[0], ROOM = 4096 };

/* What a run leaves in its operands; gaps as they were. */
static void keep_layer(const miras__kernels *k, int op, const trial *t, float (*kept)[ROOM]) {
  int slot;
  size_t i, j;
  for (slot = 0; slot < t->count; slot++) {
    const operand *o = &t->of[slot];
    if (o->rows * o->cols > ROOM) abort();
    for (i = 0; i < o->rows; i++) {
      memcpy(kept[slot] + i * o->cols, o->p + i * o->ld, o->cols * sizeof(float));
      for (j = o->cols; j > 0 && i + 1 < o->rows && j < o->ld; j++) {
        const float was = layer_value(slot, i * o->ld + j);
        if (memcmp(&o->p[i * o->ld + j], &was, sizeof was) != 0)
          fail_msg("%s of %s writes behind row %d of operand %d: rows %d, heads %d, dim %d",
                   layer_kernels[op].name, k->name, (int)i, slot, (int)t->rows, (int)t->heads,
                   (int)t->dim);
      }
    }
  }
}

/* Every set on one choice of sizes: near the portable one, and the fused ones all alike. Returns
 * the largest difference. */
static double check_layer(int op, trial *t) {
  static float portable[SLOTS][ROOM], first[SLOTS][ROOM], now[SLOTS][ROOM];
  int at, slot, seen = 0;
  double worst = 0;
  size_t i;
  t->n = t->heads * t->dim;
  for (at = MIRAS__KERNEL_COUNT - 1; at >= 0; at--) {   /* the portable set is the last */
    const miras__kernels *k = kernels_of(at);
    if (!inside_usable(k)) continue;
    t->count = 0;
    layer_kernels[op].run(k, t);
    keep_layer(k, op, t, !fused(k) ? portable : seen ? now : first);
    for (slot = 0; fused(k) && slot < t->count; slot++) {
      const size_t size = t->of[slot].rows * t->of[slot].cols;
      const float *is = seen ? now[slot] : first[slot];
      double top = 1, error = 0;
      for (i = 0; i < size; i++) {
        top = fmax(top, fabs((double)portable[slot][i]));
        error = fmax(error, fabs((double)is[i] - (double)portable[slot][i]));
        if (!isfinite(is[i])) error = HUGE_VAL;
      }
      if (error / top > worst) worst = error / top;
      if (!(error <= layer_kernels[op].bound * top))
        fail_msg("%s of %s, operand %d: %.2e from the portable kernel; rows %d, heads %d, dim %d, "
                 "pad %d, variant %d", layer_kernels[op].name, k->name, slot, error / top,
                 (int)t->rows, (int)t->heads, (int)t->dim, (int)t->pad, (int)t->variant);
      if (!same_bits(is, first[slot], size))
        fail_msg("%s of %s, operand %d: other bits than another set; rows %d, heads %d, dim %d",
                 layer_kernels[op].name, k->name, slot, (int)t->rows, (int)t->heads, (int)t->dim);
    }
    seen |= fused(k);
  }
  return worst;
}

static void test_layers(void **state) {
  trial t;
  int op;
  uint64_t count = 0;
  (void)state;
  memset(&t, 0, sizeof t);
  for (op = 0; op < LAYER_KERNELS; op++) {
    double worst = 0;
    for (t.heads = 1; t.heads <= layer_kernels[op].heads; t.heads++)
      for (t.dim = 0; t.dim <= layer_kernels[op].dim; t.dim++)
        for (t.rows = 0; t.rows <= layer_kernels[op].rows; t.rows++)
          for (t.side = 2; t.side >= 0; t.side -= 2)   /* a gap says more than a page that faults */
            for (t.pad = 0; t.pad <= 3; t.pad += 3) {
              t.variant = (size_t)(miras__hash(count++) % 1000);
              if (count % SOME) continue;
              worst = fmax(worst, check_layer(op, &t));
            }
#ifdef MIRAS_TEST_PRINT
    print_message("%-15s %.1e from the portable kernel\n", layer_kernels[op].name, worst);
#else
    (void)worst;
#endif
  }
}

/* ---- platform and dispatch ---- */

static void test_platform(void **state) {
  const size_t most = (size_t)-1;
  size_t v = 0;
  miras__arena a;
  char text[80];
  int i;
  (void)state;
  assert_true(miras__size_mul(most, 1, &v) && v == most);
  assert_true(miras__size_mul(most, 0, &v) && v == 0);
  assert_true(!miras__size_mul(most / 2 + 1, 2, &v));
  assert_true(miras__size_add(most, 0, &v) && v == most);
  assert_true(!miras__size_add(most, 1, &v));

  memset(&a, 0, sizeof a);
  a.ok = 1;
  assert_null(miras__take(&a, 3, 4));
  assert_null(miras__take(&a, 100, 1));
  assert_true(a.ok && a.used == 164);
  assert_null(miras__take(&a, most / 2, 4));
  assert_false(a.ok);
  a.base = (unsigned char *)text;
  a.used = 0;
  a.ok = 1;
  assert_true(miras__take(&a, 3, 4) == (void *)text);
  assert_true(miras__take(&a, 3, 4) == (void *)(text + 64));

  text[0] = '\0';
  miras__say(text, sizeof text, "%s is %d, ", "it", -42);
  miras__say(text, sizeof text, "%g or %zu%%", 0.25, (size_t)7);
  assert_string_equal(text, "it is -42, 0.25 or 7%");
  text[0] = '\0';
  miras__say(text, 6, "%s", "truncated");
  assert_string_equal(text, "trunc");
  miras__say(text, 6, "%s", "for good");
  assert_string_equal(text, "trunc");
  miras__say(NULL, 6, "%s", "nowhere");
  for (i = 0; i < 400; i++) {   /* numbers as printf writes them */
    double x = (double)miras__uniform(5, (uint64_t)i) * pow(10, i % 40 - 20);
    char expect[40];
    if (i < 30) x = (double)((i - 15) * (i % 4 == 0 ? 1000 : 1)) / (i % 3 == 0 ? 8.0 : 1.0);
    (void)snprintf(expect, sizeof expect, "%g", x);
    text[0] = '\0';
    miras__say(text, sizeof text, "%g", x);
    assert_string_equal(text, expect);
  }
  text[0] = '\0';
  miras__say(text, sizeof text, "%g %g %d", (double)INFINITY, (double)NAN, INT_MIN);
  assert_string_equal(text, "inf nan -2147483648");
}

static void test_random(void **state) {
  double sum = 0, square = 0;
  int i;
  (void)state;
  assert_true(miras__hash(0) == UINT64_C(0xe220a8397b1dcdaf));   /* the published first output */
  for (i = 0; i < 100000; i++) {
    float u = miras__uniform(1, (uint64_t)i);
    assert_true(u > -1 && u < 1 && u != 0);
    sum += (double)u;
    square += (double)u * (double)u;
  }
  assert_true(fabs(sum / 100000) < 0.01 && fabs(square / 100000 - 1.0 / 3) < 0.01);
}

/* A key that is what a sigmoid forgets keeps its digits where the sigmoid is 1 to a float. */
static void test_complement(void **state) {
  enum { ROWS = 3, N = 37, LD = 41 };
  static float g[ROWS * LD], gate[ROWS * LD], key[ROWS * N + 1];
  int t, i, j;
  (void)state;
  for (i = 0; i < ROWS * LD; i++) g[i] = 60.0f * (float)i / (ROWS * LD) - 25.0f;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    for (i = 0; i < ROWS * LD; i++) gate[i] = (float)(1 / (1 + exp(-(double)g[i])));
    key[ROWS * N] = 7;
    k->complement(MIRAS__GATE_SIGMOID, 1, key, gate, g, LD, ROWS, N);
    for (i = 0; i < ROWS; i++)
      for (j = 0; j < N; j++) {
        double want = 1 / (1 + exp((double)g[i * LD + j]));
        assert_true(fabs((double)key[i * N + j] - want) <= 1e-6 * want);
      }
    k->complement(MIRAS__GATE_ROOT, 1, key, gate, g, LD, ROWS, N);
    for (i = 0; i < ROWS; i++)
      for (j = 0; j < N; j++) assert_true(key[i * N + j] == 1 - gate[i * LD + j]);
    assert_true(key[ROWS * N] == 7);
  }
}

/* Rotary positions turn pairs (i, i + turn/2) of every head, the adjoint turns them back; the other
 * channels are copied, and nothing beyond the heads is written. */
static void test_rotary(void **state) {
  enum { ROWS = 3, HEADS = 3, MOST = 46, LD = HEADS * MOST + 3 };
  static const int dims[] = {2, 6, 16, 34, 46}, turned[] = {0, 2, 16, 32, 10};
  static float x[ROWS * LD], y[ROWS * LD], back[ROWS * LD], angles[ROWS * MOST];
  int t, i, j, h, n;
  (void)state;
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    for (n = 0; n < 20; n++) {
      const int pairs = n >= 10;
      const int dim = dims[n % 5], turn = n % 10 < 5 ? dim : turned[n % 5], half = turn / 2;
      for (i = 0; i < ROWS * LD; i++) x[i] = y[i] = miras__uniform(5, (uint64_t)i);
      for (i = 0; i < ROWS; i++)
        for (h = 0; h < HEADS; h++)
          for (j = turn; j < dim; j++) y[i * LD + h * dim + j] = 9;
      for (i = 0; i < ROWS; i++)
        for (j = 0; j < half; j++) {
          angles[i * turn + j] = cosf((float)(i * 7 + j));
          angles[i * turn + half + j] = sinf((float)(i * 7 + j));
        }
      k->rotary(y, LD, x, LD, angles, 1 + pairs, ROWS, HEADS, (size_t)dim, (size_t)turn);
      memcpy(back, y, sizeof y);
      k->rotary(back, LD, back, LD, angles, -1 - pairs, ROWS, HEADS, (size_t)dim, (size_t)turn);
      for (i = 0; i < ROWS; i++) {
        for (h = 0; h < HEADS; h++)
          for (j = 0; j < half; j++) {
            const int re = i * LD + h * dim + (pairs ? 2 * j : j), im = re + (pairs ? 1 : half);
            const double a = (double)x[re], b = (double)x[im], by = (double)(i * 7 + j);
            assert_true(fabs((double)y[re] - (a * cos(by) - b * sin(by))) < 1e-6);
            assert_true(fabs((double)y[im] - (a * sin(by) + b * cos(by))) < 1e-6);
            assert_true(fabs((double)back[re] - a) < 1e-6);
            assert_true(fabs((double)back[im] - b) < 1e-6);
          }
        for (j = i * LD; j < (i + 1) * LD; j++)
          if (j >= i * LD + HEADS * dim || (j - i * LD) % dim >= turn)
            assert_true(memcmp(&y[j], &x[j], sizeof *x) == 0);
      }
    }
  }
}

/* ---- weights in fewer bytes ---- */

/* The half or bfloat of these 16 bits. */
static double short_value(int form, unsigned h) {
  const int digits = form == MIRAS_WEIGHTS_F16 ? 10 : 7, top = form == MIRAS_WEIGHTS_F16 ? 31 : 255;
  const int e = (int)(h >> digits) & top, m = (int)h & ((1 << digits) - 1);
  double v = ldexp(m + (e ? 1 << digits : 0), (e ? e : 1) - top / 2 - digits);
  if (e == top) v = m ? (double)NAN : (double)INFINITY;
  return h & 0x8000 ? -v : v;
}

/* bytes of a form that end at the page that faults */
static unsigned char *place_bytes(int slot, size_t bytes) {
  return slot_base[slot] + SLOT_BYTES - bytes;
}

static int as_short(float is, double want) {
  const float value = (float)want;
  return isnan(want) ? isnan(is) : memcmp(&is, &value, sizeof is) == 0;
}

/* Every number of 2 bytes, every whole number with scales of every kind, rows of a brick in parts:
 * `rows` of them end where memory does. */
static void check_widen(const miras__kernels *k, const miras__packed *x, size_t row, size_t rows) {
  const size_t across = x->across, half = across / 2;
  const unsigned char *q = x->p + miras__brick_head(x->form, across);
  float *y = place(1, rows * across, 0);
  k->widen(x->form, y, x->p, across, row, rows);
  q += row * miras__brick_row(x->form, across);
  for (size_t i = 0; i < rows; i++, q += miras__brick_row(x->form, across))
    for (size_t j = 0; j < across; j++) {
      uint16_t h[2] = {0, 0};
      double want;
      memcpy(&h[0], x->form < MIRAS_WEIGHTS_Q8 ? q + 2 * j : x->p + 2 * j, 2);
      if (x->form == MIRAS_WEIGHTS_Q4) memcpy(&h[1], x->p + 2 * (across + j), 2);
      want = short_value(x->form == MIRAS_WEIGHTS_BF16 ? x->form : MIRAS_WEIGHTS_F16, h[0]);
      if (x->form == MIRAS_WEIGHTS_Q8) want *= (signed char)q[j];
      if (x->form == MIRAS_WEIGHTS_Q4)
        want = want * (q[j % half] >> (j < half ? 0 : 4) & 15) +
               short_value(MIRAS_WEIGHTS_F16, h[1]);
      if (!as_short(y[i * across + j], want))
        fail_msg("%s, weights %d: row %d, column %d is %a and not %a", k->name, x->form,
                 (int)(row + i), (int)j, (double)y[i * across + j], want);
    }
}

static void test_widen(void **state) {
  static const size_t sizes[][2] = {{32, 64}, {32, 32}, {16, 64}, {16, 16}};
  (void)state;
  for (int t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    for (int form = 1; form <= MIRAS_WEIGHTS_Q4; form++)
      for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const size_t rows = sizes[s][0], bytes = miras__packed_bytes(form, rows, sizes[s][1]);
        unsigned char *brick = place_bytes(0, bytes);
        const miras__packed x = miras__packed_of(brick, form, rows, sizes[s][1]);
        const size_t head = miras__brick_head(form, x.across);
        for (unsigned i = 0; i < 65536; i += MIRAS_TEST_SHARE < 16 ? head ? 64 : 256 : 997) {
          for (unsigned j = 0; j < bytes / 2; j++) {
            const uint16_t h = (uint16_t)(i + j), least = (uint16_t)(i * 31 + j * 257);
            if (!head || j < x.across) memcpy(brick + 2 * j, &h, sizeof h);
            else if (j < head / 2) memcpy(brick + 2 * j, &least, sizeof least);
            else brick[2 * j] = (unsigned char)(i / 64 + j),
                 brick[2 * j + 1] = (unsigned char)(j * 7);
          }
          check_widen(k, &x, 0, rows);
        }
        for (size_t row = 0; row < rows; row++) check_widen(k, &x, row, 1 + row % (rows - row));
      }
  }
}

/* A [M, K] times B of a form: near the sum in double, the bits of the product with B as floats. B
 * ends where memory does. */
static void check_widen_times(const miras__kernels *k, int form, int mode, size_t M, size_t N,
                              size_t K) {
  const size_t lda = K + 3, ldc = N + 5, all = (M - 1) * ldc + N;
  unsigned char *b = place_bytes(0, miras__packed_bytes(form, K, N));
  float *a = place(1, (M - 1) * lda + K, 0), *c = place(2, all, 0);
  float *wide = place(3, K * N, 1), *want = place(4, all, 1), *was = place(5, all, 1);
  const uint64_t seed = K * 10000 + N * 10 + M;
  const miras__packed packed = miras__packed_of(b, form, K, N);
  memset(b, 0, miras__packed_bytes(form, K, N));
  draw_all(wide, K * N, UNIFORM, seed);
  inside_pack(form, b, K, N, 0, K, 0, N, wide);
  miras__packed_read(k, &packed, 0, K, 0, N, wide, N, 1);
  draw_all(a, (M - 1) * lda + K, UNIFORM, ~seed);
  draw_all(was, all, UNIFORM, seed + 77);
  memcpy(want, was, all * sizeof *c);
  memcpy(c, was, all * sizeof *c);
  k->gemm(mode, want, ldc, miras__mat(a, lda), miras__mat(wide, N), M, N, K,
          place(6, miras__gemm_room(M, N, K), 1));
  k->widen_times(mode, c, ldc, miras__mat(a, lda), &packed, M, N, K);
  if (!same_bits(c, want, all))
    fail_msg("%s, weights %d, mode %d: %d x %d x %d has other bits than with floats", k->name, form,
             mode, (int)M, (int)N, (int)K);
  for (size_t i = 0; i < all; i++) {
    const size_t row = i / ldc, j = i % ldc;
    double sum = mode == MIRAS__ADD ? (double)was[i] : 0, size = fabs(sum);
    for (size_t l = 0; j < N && l < K; l++) {
      const double term = (double)a[row * lda + l] * (double)wide[l * N + j];
      sum += term, size += fabs(term);
    }
    if (j < N) assert_true(fabs((double)c[i] - sum) <= (double)(2 * K + 2) * EPS * size);
  }
}

static void test_widen_times(void **state) {
  static const size_t widths[] = { 1, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70, 100, 128 };
  static const size_t depths[] = { 1, 2, 7, 31, 32, 33, 64, 67 };
  (void)state;
  for (int t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    for (int form = 1; form <= MIRAS_WEIGHTS_Q4; form++)
      for (int mode = MIRAS__SET; mode <= MIRAS__ADD; mode++)
        for (size_t n = 0; n < sizeof widths / sizeof widths[0]; n++)
          for (size_t d = 0; d < sizeof depths / sizeof depths[0]; d++)
            for (size_t m = 1; m <= 3; m++)
              if (MIRAS_TEST_SHARE < 16 || (m + n + d) % 3 == 0)
                check_widen_times(k, form, mode, m, widths[n], depths[d]);
  }
}

/* A [M, K] in whole numbers times rows `first` on of B [rows, N]: near the sum in double of the
 * numbers that the nearest are, a row's bits whatever others there are, on every set alike. */
static void check_whole_times(int form, int mode, size_t M, size_t N, size_t K, size_t first) {
  const size_t lda = K + 3, ldc = N + 5, all = (M - 1) * ldc + N, rows = first + K;
  unsigned char *b = place_bytes(0, miras__packed_bytes(form, rows, N));
  float *a = place(1, (M - 1) * lda + K, 0), *c = place(2, all, 0), *wide = place(3, rows * N, 1);
  float *was = place(4, all, 1), *other = place(5, all, 1);
  miras__packed packed = miras__packed_of(b, form, rows, N);
  memset(b, 0, miras__packed_bytes(form, rows, N));
  draw_all(wide, rows * N, UNIFORM, K * 1000 + N * 10 + M);
  inside_pack(form, b, rows, N, 0, rows, 0, N, wide);
  miras__packed_read(kernels_of(-1), &packed, 0, rows, 0, N, wide, N, 1);
  packed.row = first, packed.whole = 1, packed.wide = place(6, MIRAS__WIDEN, 1);
  draw_all(a, (M - 1) * lda + K, UNIFORM, K + N + M);
  for (size_t i = 0; i < K && i < 40; i++) a[i] *= i % 5 ? 1e-3f : 100.0f;
  draw_all(was, all, UNIFORM, 77);
  for (int t = MIRAS__KERNEL_COUNT - 1; t >= 0; t--) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    memcpy(c, was, all * sizeof *c);
    miras__packed_times(k, mode, c, ldc, miras__mat(a, lda), &packed, M, N, K, NULL);
    for (size_t i = 0; i < all; i++) {
      const size_t row = i / ldc, j = i % ldc;
      double sum = mode == MIRAS__ADD ? (double)was[i] : 0, size = fabs(sum);
      float most = 0;                /* of the 32 that l is among                                 */
      if (j >= N) sum = (double)was[i];
      for (size_t l = 0; j < N && l < K; l++) {
        double term;
        if (l % 32 == 0) most = 0;
        for (size_t r = l; l % 32 == 0 && r < l + 32 && r < K; r++)
          most = fmaxf(most, fabsf(a[row * lda + r]));
        term = (double)rintf(a[row * lda + l] * (127 / most)) * (double)(most / 127) *
               (double)wide[(first + l) * N + j];
        sum += term, size += 4 * fabs(term);
      }
      if (!(fabs((double)c[i] - sum) <= (double)(K / 8 + 40) * EPS * size))
        fail_msg("%s, weights %d, %d x %d x %d: (%d, %d) is %g and not %g", k->name, form, (int)M,
                 (int)N, (int)K, (int)row, (int)j, (double)c[i], sum);
    }
    for (size_t i = 0; i < M; i++) {
      memcpy(other, was + i * ldc, N * sizeof *other);
      miras__packed_times(k, mode, other, ldc, miras__mat(a + i * lda, lda), &packed, 1, N, K,
                          NULL);
      assert_true(same_bits(other, c + i * ldc, N));
    }
#ifdef MIRAS_STRICT
    if (t < MIRAS__KERNEL_COUNT - 1) assert_true(same_bits(c, place(7, all, 1), all));
#else                                /* the last set rounds products that are added to, too       */
    if (t < MIRAS__KERNEL_COUNT - 2) assert_true(same_bits(c, place(7, all, 1), all));
#endif
    if (t) memcpy(place(7, all, 1), c, all * sizeof *c);
  }
}

static void test_whole_times(void **state) {
  static const size_t shapes[][4] = {   /* M, N, K, first */
    {1, 64, 32, 0}, {1, 70, 33, 0}, {3, 128, 700, 0}, {2, 33, 2100, 0}, {4, 64, 17, 0},
    {5, 130, 257, 32}, {33, 100, 300, 64}, {64, 65, 600, 0}, {70, 40, 31, 96}};
  (void)state;
  for (int form = MIRAS_WEIGHTS_Q8; form <= MIRAS_WEIGHTS_Q4; form++)
    for (int mode = MIRAS__SET; mode <= MIRAS__ADD; mode++)
      for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (MIRAS_TEST_SHARE < 16 || i % 3 == 0)
          check_whole_times(form, mode, shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3]);
}

/* A number that is none, or infinite, is one in all that it reaches; zeros are zeros. */
static void test_whole_numbers(void **state) {
  const float odd[] = {NAN, INFINITY, -INFINITY, 0, 1e-38f, 3e38f};
  (void)state;
  for (int t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (!inside_usable(k)) continue;
    for (int form = MIRAS_WEIGHTS_Q8; form <= MIRAS_WEIGHTS_Q4; form++)
      for (size_t i = 0; i < 6 * 5; i++) {
        const size_t M = 1 + i % 5;
        unsigned char *b = place_bytes(0, miras__packed_bytes(form, 64, 64));
        float *wide = place(3, 64 * 64, 1), *a = place(1, M * 64, 0), *c = place(2, M * 64, 0);
        miras__packed packed = miras__packed_of(b, form, 64, 64);
        memset(b, 0, miras__packed_bytes(form, 64, 64));
        for (size_t j = 0; j < 64 * 64; j++) wide[j] = 0.125f;
        inside_pack(form, b, 64, 64, 0, 64, 0, 64, wide);
        packed.whole = 1, packed.wide = place(6, MIRAS__WIDEN, 1);
        memset(a, 0, M * 64 * sizeof *a);
        a[(M - 1) * 64 + 37] = odd[i / 5];
        miras__packed_times(k, MIRAS__SET, c, 64, miras__mat(a, 64), &packed, M, 64, 64, NULL);
        for (size_t j = 0; j < M * 64; j++)
          if (j / 64 < M - 1 || i / 5 == 3 || i / 5 == 4) assert_true(c[j] == 0);
          else if (i / 5 < 3) assert_true(isnan(c[j]));
          else assert_true(fabsf(c[j] / (odd[5] * 0.125f) - 1) < 1e-3f);
      }
  }
}

/* Products of matrices whose first row is anywhere, of few rows and of many: the bits of floats. */
static void test_packed_times(void **state) {
  static const size_t shapes[][5] = {   /* rows of the matrix, the first, M, N, K */
    {40, 0, 1, 70, 40}, {100, 32, 2, 64, 68}, {100, 33, 1, 65, 67}, {600, 5, 9, 130, 590},
    {600, 0, 64, 100, 600}, {90, 30, 5, 17, 30}, {64, 63, 3, 64, 1}, {16, 0, 1, 16, 16},
    {9, 3, 7, 5, 6}, {100, 64, 2, 33, 36}, {100, 64, 4, 16, 16} };
  const miras__kernels *k = kernels_of(-1);
  (void)state;
  for (int form = 1; form <= MIRAS_WEIGHTS_Q4; form++)
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
      const size_t rows = shapes[i][0], M = shapes[i][2], N = shapes[i][3], K = shapes[i][4];
      unsigned char *b = place_bytes(0, miras__packed_bytes(form, rows, N));
      float *wide = place(3, rows * N, 1), *a = place(1, M * K, 0), *c = place(2, M * N, 0);
      float *want = place(4, M * N, 1), *pack = place(6, miras__gemm_room(M, N, K), 1);
      miras__packed x = miras__packed_of(b, form, rows, N);
      memset(b, 0, miras__packed_bytes(form, rows, N));
      x.row = shapes[i][1], x.wide = place(5, MIRAS__WIDEN, 1);
      draw_all(wide, rows * N, UNIFORM, i);
      draw_all(a, M * K, UNIFORM, i + 100);
      inside_pack(form, b, rows, N, 0, rows, 0, N, wide);
      miras__packed_read(k, &x, 0, rows, 0, N, wide, N, 1);
      k->gemm(MIRAS__SET, want, N, miras__mat(a, K), miras__mat(wide + x.row * N, N), M, N, K,
              pack);
      miras__packed_times(k, MIRAS__SET, c, N, miras__mat(a, K), &x, M, N, K, pack);
      if (!same_bits(c, want, M * N))
        fail_msg("weights %d, shape %d: other bits than with floats", form, (int)i);
    }
}

/* Parts that are written one after the other make the matrix that the whole makes, if no block is
 * cut; numbers on a grid of steps come back as they were, whatever blocks are cut. */
static void test_packed_parts(void **state) {
  enum { ROWS = 100, COLS = 70 };
  const miras__kernels *k = kernels_of(-1);
  static float x[ROWS * COLS], y[ROWS * COLS], part[ROWS * COLS];
  (void)state;
  for (int form = 1; form <= MIRAS_WEIGHTS_Q4; form++)
    for (int cut = 0; cut < 2; cut++) {
      const size_t bytes = miras__packed_bytes(form, ROWS, COLS), at = cut ? 41 : 64;
      unsigned char *whole = place_bytes(0, bytes), *parts = place_bytes(1, bytes);
      const miras__packed p = miras__packed_of(parts, form, ROWS, COLS);
      draw_all(x, ROWS * COLS, UNIFORM, 5);
      for (size_t i = 0; i < ROWS * COLS && cut; i++)
        x[i] = 0.25f * (float)((int)(15 * i * i + i) % 16 - 8) + (form == MIRAS_WEIGHTS_Q4);
      for (size_t j = 0; j < COLS && cut; j++)     /* the ends of the grid, in every block */
        for (size_t i = 0; i < ROWS; i += 2)
          if (form == MIRAS_WEIGHTS_Q8) x[i * COLS + j] = i % 4 ? 31.75f : 0.25f;
          else if (form == MIRAS_WEIGHTS_Q4) x[i * COLS + j] = i % 4 ? -1.0f : 2.75f;
      memset(whole, 0, bytes);
      memset(parts, 0, bytes);
      inside_pack(form, whole, ROWS, COLS, 0, ROWS, 0, COLS, x);
      for (size_t j = 0; j < COLS; j += 23) {
        const size_t n = COLS - j < 23 ? COLS - j : 23;
        for (size_t i = 0; i < ROWS; i++) memcpy(part + i * n, x + i * COLS + j, n * sizeof *x);
        inside_pack(form, parts, ROWS, COLS, at, ROWS - at, j, n, part + at * n);
        inside_pack(form, parts, ROWS, COLS, 0, at, j, n, part);
        inside_pack(form, parts, ROWS, COLS, 7, 0, j, n, part);
      }
      if (!cut) assert_memory_equal(whole, parts, bytes);
      miras__packed_read(k, &p, 0, ROWS, 0, COLS, y, COLS, 1);
      if (cut && form != MIRAS_WEIGHTS_BF16) assert_true(same_bits(x, y, ROWS * COLS));
    }
}

/* A number that is not finite is none in any form, in q8 and q4 all of its block, wherever in the
 * block and whatever stands beside it; the next block does not see it. */
static void test_narrow(void **state) {
  static const uint32_t bad[] = { 0x7f800001, 0x7fc00000, 0x7fffffff, 0xff800001, 0xffffffff,
                                  0x7f800000, 0xff800000 };
  const miras__kernels *k = kernels_of(-1);
  (void)state;
  for (int form = MIRAS_WEIGHTS_BF16; form <= MIRAS_WEIGHTS_Q4; form++)
    for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++)
      for (size_t at = 0; at < 37; at++) {
        const size_t block = at / 32 * 32, bytes = miras__packed_bytes(form, 37, 1);
        float x[37], y[37];
        unsigned char *to = place_bytes(0, bytes);
        const miras__packed p = miras__packed_of(to, form, 37, 1);
        memset(to, 0, bytes);
        for (size_t i = 0; i < 37; i++) x[i] = i % 3 ? 1.0f : -50.0f;
        memcpy(&x[at], &bad[b], sizeof x[at]);
        inside_pack(form, to, 37, 1, 0, 37, 0, 1, x);
        miras__packed_read(k, &p, 0, 37, 0, 1, y, 1, 1);
        for (size_t i = 0; i < 37; i++) {
          const int seen = form >= MIRAS_WEIGHTS_Q8 ? i / 32 * 32 == block : i == at;
          if (seen == (isfinite(y[i]) != 0))
            fail_msg("weights %d: %x at %d is %a at %d", form, (unsigned)bad[b], (int)at,
                     (double)y[i], (int)i);
          if (i == at && form < MIRAS_WEIGHTS_Q8) assert_int_equal(isnan(y[i]), b < 5);
        }
      }
}

/* Rounding is no further off than half a step, of q4 in the mean of squares, and q4 of what other
 * people's files have as q4_0 or q4_1 is exact. */
static void test_narrow_steps(void **state) {
  enum { ROWS = 96, COLS = 64 };
  const miras__kernels *k = kernels_of(-1);
  static float x[ROWS * COLS], y[ROWS * COLS];
  (void)state;
  for (int form = MIRAS_WEIGHTS_Q8; form <= MIRAS_WEIGHTS_Q4; form++)
    for (int kind = 0; kind < 3; kind++) {
      const size_t bytes = miras__packed_bytes(form, ROWS, COLS);
      unsigned char *to = place_bytes(0, bytes);
      const miras__packed p = miras__packed_of(to, form, ROWS, COLS);
      memset(to, 0, bytes);
      draw_all(x, ROWS * COLS, UNIFORM, (uint64_t)(form * 10 + kind));
      for (size_t j = 0; j < COLS; j++)
        for (size_t i = 0; kind && i < ROWS; i++) {
          const unsigned half = 0x2123 + (unsigned)(j * 37 + i / 32);
          const float d = (float)short_value(MIRAS_WEIGHTS_F16, half);
          int q = (int)((i * 7 + j * 11) % 15);
          if (i % 32 == 5) q = kind == 1 ? 0 : 15;   /* q4_0: -8 is there; q4_1: both ends are   */
          if (kind == 2 && i % 32 == 9) q = 0;
          x[i * COLS + j] = kind == 1 ? (j % 2 ? -d : d) * (float)(q - 8) : d * (float)q - 0.5f;
        }
      inside_pack(form, to, ROWS, COLS, 0, ROWS, 0, COLS, x);
      miras__packed_read(k, &p, 0, ROWS, 0, COLS, y, COLS, 1);
      for (size_t j = 0; j < COLS; j++)
        for (size_t b = 0; b < ROWS; b += 32) {
          float least = x[b * COLS + j], most = least, step;
          for (size_t i = b; i < b + 32; i++) {
            least = x[i * COLS + j] < least ? x[i * COLS + j] : least;
            most = x[i * COLS + j] > most ? x[i * COLS + j] : most;
          }
          step = form == MIRAS_WEIGHTS_Q8 ? (-least > most ? -least : most) / 127
                                          : (most - least) / 15;
          double sum = 0, may = 0.51 * (double)step + 2e-3;
          for (size_t i = b; i < b + 32; i++) {
            const double off = fabs((double)y[i * COLS + j] - (double)x[i * COLS + j]);
            sum += off * off;
            if (form == MIRAS_WEIGHTS_Q8 ? off > may : kind && off > 0)
              fail_msg("weights %d, kind %d: %g becomes %g", form, kind, (double)x[i * COLS + j],
                       (double)y[i * COLS + j]);
          }
          assert_true(sum <= 32 * may * may);
        }
    }
}

static void test_dispatch(void **state) {
  const miras__kernels *best = kernels_of(-1);
  int t, seen = 0;
  (void)state;
  assert_ptr_equal(best, kernels_of(-1));
  for (t = 0; t < MIRAS__KERNEL_COUNT; t++) {
    const miras__kernels *k = kernels_of(t);
    if (k == best) seen = 1;
    if (!seen) assert_false(inside_usable(k));
#ifdef MIRAS_TEST_PRINT
    print_message("%s: %s\n", k->name, inside_usable(k) ? "usable" : "not on this processor");
#endif
  }
  assert_true(seen);
  assert_true(inside_usable(kernels_of(MIRAS__KERNEL_COUNT - 1)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_platform),      cmocka_unit_test(test_random),
    cmocka_unit_test(test_dispatch),      cmocka_unit_test(test_level1),
    cmocka_unit_test(test_level1_bounds), cmocka_unit_test(test_level1_same),
    cmocka_unit_test(test_limits),
#ifndef MIRAS_TEST_SIMDE                 /* emulated, exp is infinite from 88.4 on, not 88.72 */
    cmocka_unit_test(test_accuracy),
#endif
    cmocka_unit_test(test_gemm_small),    cmocka_unit_test(test_gemm_all_cases),
    cmocka_unit_test(test_gemm_large),    cmocka_unit_test(test_gemm_scratch),
    cmocka_unit_test(test_gemm_rows),
    cmocka_unit_test(test_narrow),
    cmocka_unit_test(test_widen),         cmocka_unit_test(test_widen_times),
    cmocka_unit_test(test_whole_times),   cmocka_unit_test(test_whole_numbers),
    cmocka_unit_test(test_packed_times),  cmocka_unit_test(test_packed_parts),
    cmocka_unit_test(test_narrow_steps),
    cmocka_unit_test(test_fold_pair),     cmocka_unit_test(test_signed),
    cmocka_unit_test(test_absorb),        cmocka_unit_test(test_scan),
    cmocka_unit_test(test_wkv),
    cmocka_unit_test(test_turning),       cmocka_unit_test(test_meeting),
    cmocka_unit_test(test_lq),
    cmocka_unit_test(test_matmul),        cmocka_unit_test(test_complement),
    cmocka_unit_test(test_rotary),
    cmocka_unit_test(test_layers)
  };
  return cmocka_run_group_tests(tests, map_slots, NULL);
}
