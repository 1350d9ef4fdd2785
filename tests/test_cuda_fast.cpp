/* test_cuda_fast.cpp: the fast tier of miras_cuda.cuh, emulated or on a card. Every operation of
 * layers, forward against its formula in double of the same rounded inputs, and back against
 * differences of that along drawn directions, at sizes around those of tiles and chunks; memories,
 * and the step for one token, against the recurrence itself. Then whole models against the host:
 * loss, gradients of each parameter, a step; the same bits once more, and in another batch; and
 * sessions.
 *   c++ -std=c++14 -O1 tests/test_cuda_fast.cpp -o test_cuda_fast -lm && ./test_cuda_fast
 *   nvcc -O3 -arch=native -x cu tests/test_cuda_fast.cpp -o test_cuda_fast && ./test_cuda_fast
 * Rows of models as arguments run only these; ops, clusters, whole, token, alone, refusals,
 * sessions: those alone. */
#ifndef __CUDACC__
  #include "cuda_shim.h"
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "calls.h"
static size_t wide_from = 128;       /* blocks                                                    */
static size_t few = 32, segment = 16;        /* heads and 64 columns of values; chunks            */
static size_t cluster_of;            /* blocks; 0: as the sizes say                               */
#define MIRAS__FAST_WIDE wide_from
#define MIRAS__FAST_FEW few
#define MIRAS__FAST_SEGMENT segment
#define MIRAS__FAST_CLUSTER cluster_of
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#define MIRAS_TEST_DEVICE (1 << 28)
#include "cuda_device.h"
#include <stdio.h>
#ifndef MIRAS_CUDA_SHIM
static int shim_code, shim_most;     /* a card's are its own                                      */
#endif

static unsigned failed;

static uint64_t drawn = 7;
static float draw(float low, float high) {
  drawn = miras__hash(drawn);
  return low + (high - low) * (float)(drawn >> 40) / 16777216.0f;
}

static void *send(const void *p, size_t bytes) {
  void *to = take(bytes / 4 + 1);
  STOP_IF(cudaMemcpyAsync(to, p, bytes, cudaMemcpyHostToDevice, 0));
  return to;
}
static void fetch(void *to, const void *from, size_t bytes) {
  STOP_IF(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, 0));
  STOP_IF(cudaDeviceSynchronize());
}

enum { BATCH = 2, MOST = 130, WORDS = 37 };
/* ---- operations ---- */

/* The numbers of a layer in double: arrays as they lie on the device, the parameters of the model,
 * the stream's gradient. */
typedef struct numbers {
  double *of[MIRAS__ARRAYS], *params;
} numbers;

static double f_of(int f, double x) {
  const double s = 1 / (1 + exp(-x));
  if (f == MIRAS_FN_SILU) return x * s;
  if (f == MIRAS_FN_SIGMOID) return s;
  if (f == MIRAS_FN_RELU) return x > 0 ? x : 0;
  if (f == MIRAS_FN_RELU2) return x > 0 ? x * x : 0;
  if (f == MIRAS_FN_ELU) return x > 0 ? x + 1 : exp(x);
  if (f == MIRAS_FN_GELU)
    return x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return f == MIRAS__TANH ? tanh(x) : x;
}
static double soft(double x) { return x > 30 ? x : log1p(exp(x)); }
static double gate_of(const miras__gating *how, double g, double c) {
  const double s = 1 / (1 + exp(-g));
  switch (how->form) {
    case MIRAS__GATE_SOFTPLUS: return how->cap * c * soft(g);
    case MIRAS__GATE_ROOT: return how->cap * exp(-soft(-g) / 16);
    case MIRAS__GATE_ROOT8: return how->cap * exp(-soft(-g) / 8);
    case MIRAS__GATE_RATE: return how->cap * exp(-exp(c) * soft(g));
    case MIRAS__GATE_BOUNDED: return how->cap * exp(-exp(-0.5) * s);
    case MIRAS__GATE_FLOOR: return how->cap * (1 / (1 + exp(-c)) + (1 - 1 / (1 + exp(-c))) * s);
    case MIRAS__GATE_STEEP: return exp(-how->cap / (1 + exp(-exp(c) * g)));
    default: return how->cap * c * s;
  }
}

/* A layer on the device, and its model. */
typedef struct bench {
  miras_model *m;
  miras_cuda_fast held;
  miras__fast *f;
  miras__fast_layer a;
} bench;

static const double *param_of(const bench *b, const numbers *x, int id) {
  return x->params + b->a.layer->first + miras__param_at(&b->a.p->param[id]);
}

/* The recurrence of a head, token by token. */
static void memory_in_double(const bench *b, const miras__op *o, const numbers *x) {
  const miras__program *p = b->a.p;
  const miras__mixer *m = &p->mixer;
  const size_t dk = m->dk, dv = m->dv, T = (size_t)b->f->length;
  double *s = (double *)malloc(dk * dv * sizeof *s), *r = (double *)malloc(dv * sizeof *r);
  const miras__gates *keep = &m->gate[MIRAS__KEEP], *step = &m->gate[MIRAS__STEP];
  const double *gates = m->gated ? x->of[m->gated] : NULL;
  const size_t ldg = m->gated ? miras__fast_ld(p, m->gated, 0) : 0;
  if (!s || !r) exit(2);
  for (size_t seq = 0; seq < (size_t)b->f->batch; seq++)
    for (size_t h = 0; h < m->heads; h++) {
      const double *init = param_of(b, x, MIRAS__W_MEMORY) + h * dk * dv;
      for (size_t t = 0; t < T; t++) {
        const size_t row = seq * T + t;
        const size_t key = h / m->group * dk;
        const double *k = x->of[m->k] + row * miras__fast_ld(p, m->k, 0) + key;
        const double *q = x->of[o->in[0]] + row * miras__fast_ld(p, o->in[0], 0) + key;
        const double *v = x->of[m->v] + row * miras__fast_ld(p, m->v, 0) + h * dv;
        double *y = x->of[o->out] + row * miras__fast_ld(p, o->out, 0) + h * dv;
        const double *read = m->erase ? x->of[m->erase] + row * miras__fast_ld(p, m->erase, 0) + key
                                      : k;
        const double *to = m->erase ? x->of[m->replace] + row * miras__fast_ld(p, m->replace, 0) +
                                        key : NULL;
        const size_t channels = m->plan.per_feature ? dk : 1;
        const double still = keep->count ? 0 : (double)b->a.layer->keep[h];
        const double *a = keep->count ? gates + row * ldg + keep->first + h * channels : &still;
        const double rate = step->count ? gates[row * ldg + step->first + h]
                                        : (double)m->plan.d.learning_rate;
        if (!miras__since(&m->plan.d, h, t)) memcpy(s, init, dk * dv * sizeof *s);
        for (size_t j = 0; j < dv; j++) {
          r[j] = 0;
          for (size_t i = 0; m->plan.delta && i < dk; i++)
            r[j] += (m->plan.after ? a[i % channels] : 1) * s[i * dv + j] * read[i];
          if (!to) r[j] = rate * (v[j] - r[j]);
          y[j] = 0;
        }
        for (size_t i = 0; i < dk; i++)
          for (size_t j = 0; j < dv; j++) {
            s[i * dv + j] = a[i % channels] * s[i * dv + j] + (to ? to[i] : k[i]) * r[j];
            if (to) s[i * dv + j] += rate * k[i] * v[j];
            y[j] += s[i * dv + j] * q[i];
          }
      }
    }
  free(s), free(r);
}

/* A perceptron's rows: x [n], the last 1 with biases, to hidden rows y and to the answer o; xh and
 * 1 / deviation of its norm. */
typedef struct perceptron {
  size_t n, hidden, ones, in1, in2;
  int function;
  double epsilon;
  const double *gain, *bias;
  double x[129], z[513], y[513], xh[128], by, o[128];
} perceptron;
static void perceptron_says(perceptron *p, const double *w, const double *k) {
  const double *const w2 = w + p->in1 * p->hidden;
  double mean = 0, all = 0;
  size_t i, j;
  for (i = 0; i < p->n; i++) p->x[i] = k[i];
  if (p->ones) p->x[p->n] = p->y[p->hidden] = 1;
  for (j = 0; j < p->hidden; j++) {
    for (i = 0, p->z[j] = 0; i < p->in1; i++) p->z[j] += p->x[i] * w[i * p->hidden + j];
    p->y[j] = f_of(p->function, p->z[j]);
  }
  for (j = 0; j < p->n; j++) {
    for (i = 0, p->xh[j] = 0; i < p->in2; i++) p->xh[j] += p->y[i] * w2[i * p->n + j];
    mean += p->xh[j] / (double)p->n;
  }
  for (j = 0; j < p->n; j++) p->xh[j] -= mean, all += p->xh[j] * p->xh[j] / (double)p->n;
  p->by = 1 / sqrt(all + p->epsilon);
  for (j = 0; j < p->n; j++) {
    p->xh[j] *= p->by;
    p->o[j] = k[j] + p->gain[j] * p->xh[j] + p->bias[j];
  }
}
static double slope_of(int f, double x) {
  return (f_of(f, x + 1e-6) - f_of(f, x - 1e-6)) / 2e-6;
}
/* u = the gradient, at weights w, of half the square of what it says of k less v. */
static void perceptron_gradient(perceptron *p, const double *w, const double *k, const double *v,
                                double *u) {
  const double *const w2 = w + p->in1 * p->hidden, size = (double)p->n;
  double d[128], mean = 0, along = 0;
  size_t i, j;
  perceptron_says(p, w, k);
  for (j = 0; j < p->n; j++) {
    d[j] = p->gain[j] * (p->o[j] - v[j]);
    mean += d[j] / size, along += d[j] * p->xh[j] / size;
  }
  for (j = 0; j < p->n; j++) d[j] = p->by * (d[j] - mean - p->xh[j] * along);
  for (i = 0; i < p->hidden; i++) {
    double one = 0;
    for (j = 0; j < p->n; j++) one += w2[i * p->n + j] * d[j];
    one *= slope_of(p->function, p->z[i]);
    for (j = 0; j < p->in1; j++) u[j * p->hidden + i] = p->x[j] * one;
  }
  for (i = 0; i < p->in2; i++)
    for (j = 0; j < p->n; j++) u[p->in1 * p->hidden + i * p->n + j] = p->y[i] * d[j];
}

/* A perceptron's weights, token by token, whose gradients are those at its chunk's start. */
static void perceptron_in_double(const bench *b, const miras__op *o, const numbers *x) {
  const miras__program *p = b->a.p;
  const miras__mixer *m = &p->mixer;
  const miras__plan *q = &m->plan;
  const size_t T = (size_t)b->f->length, P = q->weights, C = (size_t)q->d.chunk;
  double *room = (double *)calloc(5 * P, sizeof *room), *w = room, *s = w + P, *u = s + P;
  double *start = u + P, *sum = start + P;
  const miras__gates *keep = &m->gate[MIRAS__KEEP], *step = &m->gate[MIRAS__STEP];
  const miras__gates *momentum = &m->gate[MIRAS__MOMENTUM];
  const double *gates = m->gated ? x->of[m->gated] : NULL;
  const size_t ldg = m->gated ? miras__fast_ld(p, m->gated, 0) : 0;
  perceptron net;
  if (!room) exit(2);
  memset(&net, 0, sizeof net);
  net.n = m->dk, net.hidden = (size_t)q->out[0], net.ones = (size_t)q->ones;
  net.in1 = (size_t)q->in[0], net.in2 = (size_t)q->in[1], net.function = (int)q->d.activation;
  net.epsilon = q->d.norm_epsilon > 0 ? (double)q->d.norm_epsilon : 1e-5;
  for (size_t i = 0; i < (size_t)b->f->batch * m->heads; i++) {
    const size_t seq = i / m->heads, h = i % m->heads;
    const double *init = param_of(b, x, MIRAS__W_MEMORY) + h * P;
    const double *to = q->d.decay_target ? init : NULL;
    double all = 1;
    net.gain = param_of(b, x, MIRAS__W_GAIN) + h * m->dv;
    net.bias = param_of(b, x, MIRAS__W_BIAS) + h * m->dv;
    for (size_t e = 0; e < P; e++) w[e] = init[e], s[e] = 0;
    for (size_t t = 0; t < T; t++) {
      const size_t row = seq * T + t, key = h / m->group * m->dk;
      const double *k = x->of[m->k] + row * miras__fast_ld(p, m->k, 0) + key;
      const double *read = x->of[o->in[0]] + row * miras__fast_ld(p, o->in[0], 0) + key;
      const double *v = x->of[m->v] + row * miras__fast_ld(p, m->v, 0) + h * m->dv;
      double *y = x->of[o->out] + row * miras__fast_ld(p, o->out, 0) + h * m->dv;
      const double *gate = gates ? gates + row * ldg : NULL;
      const double a = keep->count ? gate[keep->first + h] : (double)b->a.layer->keep[h];
      const double eta = step->count ? gate[step->first + h] : (double)q->d.learning_rate;
      const double theta = momentum->count ? gate[momentum->first + h] : (double)q->d.momentum;
      double rate = 1;
      if (t % C == 0) {
        memcpy(start, w, P * sizeof *w), all = 1;
        for (size_t e = 0; e < P; e++) sum[e] = 0;
      }
      if (q->d.token_rates) {
        const double rho = param_of(b, x, MIRAS__W_RATES)[t % C], by = 1 / (double)(t % C + 1);
        rate = q->d.token_rates == MIRAS_TOKEN_RATES_RELU
                 ? fmax(by + rho, 0) : soft(16 * rho + log(expm1(16 * by))) / 16;
      }
      perceptron_gradient(&net, start, k, v, u);
      all *= a;
      for (size_t e = 0; e < P; e++) {
        const double home = to ? to[e] : 0;
        s[e] = theta * s[e] - eta * u[e], sum[e] += eta * u[e];
        w[e] = q->d.token_rates ? home + all * (start[e] - home) - rate * sum[e]
                                : home + a * (w[e] - home) + s[e];
      }
      perceptron_says(&net, w, read);
      for (size_t j = 0; j < m->dv; j++) y[j] = net.o[j];
    }
  }
  free(room);
}

/* A row of it, of norms. */
static void norm_in_double(const bench *b, const miras__op *o, const numbers *x, double *y,
                           const double *in, const double *u) {
  const miras__program *p = b->a.p;
  size_t h, i, n = o->cols;
  const int head = o->what == MIRAS__OP_HEAD_NORM;
  const double eps = (double)(head ? p->out_epsilon : o->param ? p->epsilon
                                                               : p->inner_epsilon);
  for (h = 0; h < o->heads; h++) {
    double all = 0, mean = 0;
    const double *bias = head && p->param[MIRAS__W_OUT_BIAS].rows
                           ? param_of(b, x, MIRAS__W_OUT_BIAS)
                         : p->norm && !head && o->param ? param_of(b, x, o->param + 1) : NULL;
    for (i = 0; bias && i < n; i++) mean += in[h * n + i] / (double)n;
    for (i = 0; i < n; i++) all += (in[h * n + i] - mean) * (in[h * n + i] - mean);
    for (i = 0; i < n; i++) {
      const size_t at = head ? h * n + i : i;
      double z = (in[h * n + i] - mean) / sqrt(all / (double)n + eps);
      if (o->param) z *= param_of(b, x, o->param)[at];
      if (bias) z += bias[at];
      y[h * n + i] = u ? z * f_of(o->function, u[h * n + i]) : z;
    }
  }
}

/* Of products. */
static void product_in_double(const bench *b, const miras__op *o, const numbers *x, double *y,
                              const double *in, const double *u) {
  const miras__program *p = b->a.p;
  size_t i, j;
  switch (o->what) {
    case MIRAS__OP_TIMES:
      for (int id = o->param; id; id = p->param[id].next) {
        const miras__param *w = &p->param[id];
        double *to = y + (w->column - p->param[o->param].column);
        for (j = 0; j < w->cols; j++) {
          to[j] = w->bias ? param_of(b, x, w->bias)[j] : 0;
          for (i = 0; i < w->rows; i++) to[j] += in[i] * param_of(b, x, id)[i * w->cols + j];
        }
      }
      break;
    case MIRAS__OP_BRANCH: {
      const miras__param *w = &p->param[o->param];
      for (j = 0; j < p->width; j++) {
        y[j] = in[j] + (w->rows ? w->bias ? param_of(b, x, w->bias)[j] : 0 : u[j]);
        for (i = 0; i < w->rows; i++) y[j] += u[i] * param_of(b, x, o->param)[i * w->cols + j];
      }
      break;
    }
    default: break;
  }
}

/* Of rotary positions, row t. */
static void rope_in_double(const bench *b, const miras__op *o, const numbers *x, size_t t,
                           double *y) {
  const miras__program *p = b->a.p;
  const miras__array *r = &p->array[o->out];
  const int rotates = o->what == MIRAS__OP_ROTATE, angles = rotates ? o->in[1] : o->in[0];
  const miras__rope *rope = rotates || (o->what == MIRAS__OP_ANGLES && o->function)
                              ? &p->attending.rope : &p->mixer.rope;
  const size_t T = (size_t)b->f->length, half = angles || !rotates ? rope->turn / 2 : 0;
  const size_t heads = rotates ? o->heads : r->heads, n = rotates ? o->cols : r->dim;
  size_t h, i;
  if (o->what == MIRAS__OP_ANGLES) {
    for (i = 0; i < half; i++) {
      const size_t at = rope->period ? t % T % rope->period : t % T;
      const double angle = miras__angle(rope, i, at), by = (double)rope->turns[0];
      if (t < T) y[i] = by * cos(angle), y[half + i] = by * sin(angle);
    }
    return;
  }
  if (rotates)
    memmove(y, x->of[o->in[0]] + t * miras__fast_ld(p, o->in[0], 0) + o->in_at[0],
            heads * n * sizeof *y);
  for (h = 0; h < heads; h++)
    for (i = 0; i < half; i++) {
      const double *angle = x->of[angles] + t % T * miras__fast_ld(p, angles, 0);
      double *one = y + h * n + (rope->way == 1 ? i : 2 * i);
      double *two = one + (rope->way == 1 ? half : 1), a = *one, c = *two;
      *one = a * angle[i] - c * angle[half + i];
      *two = c * angle[i] + a * angle[half + i];
    }
}

/* Of attention, query t. */
static void attention_in_double(const bench *b, const miras__op *o, const numbers *x, size_t t,
                                double *y) {
  const miras__program *p = b->a.p;
  const miras__attending *s = &p->attending;
  const size_t now = t % (size_t)b->f->length, n = s->dk;
  const size_t first = now + 1 > s->window ? now + 1 - s->window : 0;
  size_t h, i, j;
  for (h = 0; h < s->heads; h++) {
    const double *q = x->of[o->in[0]] + t * miras__fast_ld(p, o->in[0], 0) + h * n;
    double all = 0;
    for (i = 0; i < n; i++) y[h * n + i] = 0;
    for (j = first; j <= now; j++) {             /* scores are small: none needs a maximum */
      const size_t row = t - now + j;
      const double *k = x->of[o->in[1]] + row * miras__fast_ld(p, o->in[1], 0) + h / s->group * n;
      const double *v = x->of[o->in[2]] + row * miras__fast_ld(p, o->in[2], 0) + o->in_at[2] +
                        h / s->group * n;
      double dot = 0;
      for (i = 0; i < n; i++) dot += q[i] * k[i];
      dot = exp(dot / sqrt((double)n)), all += dot;
      for (i = 0; i < n; i++) y[h * n + i] += dot * v[i];
    }
    for (i = 0; i < n; i++) y[h * n + i] /= all;
  }
}

/* Token shifts, and what RWKV-7 has besides, row t. */
static void rwkv_in_double(const bench *b, const miras__op *o, const numbers *x, size_t t,
                           double *y, const double *in) {
  const miras__program *p = b->a.p;
  const miras__mixer *m = &p->mixer;
  const size_t T = (size_t)b->f->length, n = o->cols;
  size_t h, i;
  switch (o->what) {
    case MIRAS__OP_SHIFT: {
      double before[64] = {0};
      norm_in_double(b, o, x, y, in, NULL);
      if (t % T) norm_in_double(b, o, x, before, in - miras__fast_ld(p, o->in[0], 0), NULL);
      for (i = 0; i < n; i++) y[p->ld_x + i] = before[i] - y[i];
      break;
    }
    case MIRAS__OP_MIX:
      for (i = 0; i < n; i++)
        y[i] = in[i] + param_of(b, x, MIRAS__W_SHIFT)[o->part * n + i] * in[p->ld_x + i];
      break;
    case MIRAS__OP_BONUS:
      for (h = 0; h < m->heads; h++) {
        const size_t at = t * miras__fast_ld(p, m->k, 0) + h * m->dk;
        double all = 0;
        for (i = 0; i < m->dk; i++)
          all += x->of[m->q][at + i] * x->of[m->k][at + i] *
                 param_of(b, x, o->param)[h * m->dk + i];
        for (i = 0; i < m->dv; i++) y[h * m->dv + i] += all * x->of[m->v][at + i];
      }
      break;
    case MIRAS__OP_KEYS:
      for (h = 0; h < m->heads; h++) {
        const double *c = x->of[m->gated] + t * miras__fast_ld(p, m->gated, 0) +
                          m->gate[MIRAS__ERASE].first + h * m->dk;
        const double *by = param_of(b, x, MIRAS__W_ERASE_SCALE) + h * m->dk;
        const double *mix = param_of(b, x, MIRAS__W_ERASE_MIX) + h * m->dk;
        const size_t at = t * miras__fast_ld(p, m->k, 0) + h * m->dk;
        double all = 1e-6;
        for (i = 0; i < m->dk; i++) all += pow(in[h * m->dk + i] * by[i], 2);
        for (i = 0; i < m->dk; i++) {
          const double k = in[h * m->dk + i], f = k * by[i] / sqrt(all);
          x->of[m->k][at + i] = k * (1 + (c[i] - 1) * mix[i]);
          x->of[m->erase][at + i] = -f, x->of[m->replace][at + i] = f * c[i];
        }
      }
      break;
    default: break;
  }
}

/* A mixture of experts, of row t. Differences are of what it has chosen before. */
enum { MOST_EXPERTS = 40 };
static unsigned char taken[BATCH * MOST][MOST_EXPERTS];
static int chooses = 1;
static void experts_in_double(const bench *b, const numbers *x, size_t t, double *y,
                              const double *in) {
  const miras__program *p = b->a.p;
  const miras__mlp *s = &p->mlp;
  const size_t w = p->width, n = s->hidden, chosen = s->paths - (s->experts - s->routed);
  double *weight = (double *)calloc(s->experts, sizeof *weight), most = -1e300, sum = 0, all = 0;
  double *route = (double *)calloc(s->routes, sizeof *route);
  const double *const router = param_of(b, x, MIRAS__W_ROUTER);
  const double *const down = param_of(b, x, MIRAS__W_MLP_DOWN);
  if (!weight || !route) exit(2);
  for (size_t e = 0; e < s->routes; e++)
    for (size_t k = 0; k < w; k++)
      route[e] += in[k] * router[k * s->routes + e];
  for (size_t e = 0; e < s->routed; e++) most = fmax(most, route[e]);
  for (size_t e = 0; e < s->routed; e++) sum += exp(route[e] - most);
  if (chooses) memset(taken[t], 0, MOST_EXPERTS);
  for (size_t i = 0; chooses && i < chosen; i++) {
    size_t best = s->routed;
    for (size_t e = 0; e < s->routed; e++)
      if (!taken[t][e] && (best == s->routed || route[e] > route[best])) best = e;
    taken[t][best] = 1;
  }
  for (size_t e = 0; e < s->routed; e++)
    if (taken[t][e]) weight[e] = exp(route[e] - most) / sum, all += weight[e];
  for (size_t e = 0; e < s->routed; e++) weight[e] /= s->sums_to_one ? all : 1;
  for (size_t e = s->routed; e < s->experts; e++) weight[e] = 1 / (1 + exp(-route[s->routed]));
  for (size_t k = 0; k < w; k++) y[k] = 0;
  for (size_t e = 0; e < s->experts; e++)
    for (size_t i = 0; weight[e] > 0 && i < n; i++) {
      const double *const a = param_of(b, x, MIRAS__W_MLP_GATE) + e * w * n + i;
      const double *const c = param_of(b, x, MIRAS__W_MLP_UP) + e * w * n + i;
      double gate = 0, up = 0;
      for (size_t k = 0; k < w; k++) gate += in[k] * a[k * n], up += in[k] * c[k * n];
      gate = weight[e] * f_of(MIRAS_FN_SILU, gate) * up;
      for (size_t k = 0; k < w; k++) y[k] += gate * down[(e * n + i) * w + k];
    }
  free(weight), free(route);
}

/* What an operation makes, in double. */
static void in_double(const bench *b, const miras__op *o, const numbers *x) {
  const miras__program *p = b->a.p;
  const miras__mixer *m = &p->mixer;
  const size_t N = b->a.rows, T = (size_t)b->f->length;
  const size_t ldy = miras__fast_ld(p, o->out, 0);
  const size_t ldx = o->in[0] ? miras__fast_ld(p, o->in[0], 0) : 0;
  const size_t ldu = o->in[1] ? miras__fast_ld(p, o->in[1], 0) : 0;
  const miras__array *r = &p->array[o->out];
  for (size_t t = 0; t < N; t++) {
    double *y = x->of[o->out] + t * ldy + o->out_at;
    const double *in = o->in[0] ? x->of[o->in[0]] + t * ldx + o->in_at[0] : NULL;
    const double *u = o->in[1] ? x->of[o->in[1]] + t * ldu + o->in_at[1] : NULL;
    size_t h, i, j, n = o->cols;
    switch (o->what) {
      case MIRAS__OP_NORM: case MIRAS__OP_RMS: case MIRAS__OP_HEAD_NORM:
        norm_in_double(b, o, x, y, in, u);
        break;
      case MIRAS__OP_GATE: for (i = 0; i < n; i++) y[i] = in[i] * f_of(o->function, u[i]); break;
      case MIRAS__OP_MULTIPLY: for (i = 0; i < n; i++) y[i] = in[i] * u[i]; break;
      case MIRAS__OP_RELU2: for (i = 0; i < n; i++) y[i] = f_of(MIRAS_FN_RELU2, in[i]); break;
      case MIRAS__OP_COPY: for (i = 0; i < n; i++) y[i] = in[i]; break;
      case MIRAS__OP_SCALE:
        for (i = 0; i < n; i++) y[i] = (double)p->scales[o->part] * in[i];
        break;
      case MIRAS__OP_SQUASH: for (i = 0; i < n; i++) y[i] = f_of(o->function, y[i]); break;
      case MIRAS__OP_READ: case MIRAS__OP_JOIN:
        for (i = 0; i < n * o->heads; i++) y[i] = in[i];
        break;
      case MIRAS__OP_TIMES: case MIRAS__OP_BRANCH: product_in_double(b, o, x, y, in, u); break;
      case MIRAS__OP_CONV: {
        const miras__param *w = &p->param[o->param];
        const size_t all = (size_t)r->heads * r->dim;
        for (i = 0; i < all; i++) {
          double sum = w->rows ? w->bias && p->param[w->bias].rows ? param_of(b, x, w->bias)[i] : 0
                               : in[i];
          for (j = 0; j < w->rows; j++)
            if (t % T + j + 1 >= w->rows)
              sum += param_of(b, x, o->param)[j * all + i] *
                     x->of[o->in[0]][(t + j + 1 - w->rows) * ldx + o->in_at[0] + i];
          y[i] = f_of(o->function, sum);
        }
        break;
      }
      case MIRAS__OP_LENGTH:
        for (h = 0; h < r->heads; h++) {
          double all = 0, by = (double)m->query_scale;
          const double length = (double)miras__length_by(m, o);
          for (i = 0; i < n; i++)
            all += length > 0 ? y[h * n + i] * y[h * n + i] : fabs(y[h * n + i]);
          if (m->length > 0) by = length / sqrt(all + 1e-6);
          if (m->length < 0) by = -length / (all > 1e-6 ? all : 1e-6);
          for (i = 0; i < n; i++) y[h * n + i] *= by;
        }
        break;
      case MIRAS__OP_ANGLES: case MIRAS__OP_TURN: case MIRAS__OP_ROTATE:
        rope_in_double(b, o, x, t, y);
        break;
      case MIRAS__OP_ATTEND: attention_in_double(b, o, x, t, y); break;
      case MIRAS__OP_EXPERTS: experts_in_double(b, x, t, y, in); break;
      case MIRAS__OP_GATES:
        for (int g = MIRAS__KEEP; g <= MIRAS__MIX; g++) {
          const miras__gates *group = &m->gate[g];
          const miras__gating how = miras__gating_of(m, group);
          for (i = 0; i < group->count; i++) {
            double z = in && group->from + i < m->moving ? in[group->from + i] : 0;
            z += param_of(b, x, MIRAS__W_GATES_OFFSET)[group->offset + i];
            if (how.low < how.high) z = fmax(fmin(z, (double)how.high), (double)how.low);
            y[group->first + i] =
              gate_of(&how, z, miras__gate_learns(how.form)
                                 ? param_of(b, x, MIRAS__W_GATES_RATE)[i]
                                 : (double)m->gate_scale[group->first + i]);
          }
        }
        break;
      case MIRAS__OP_SHIFT: case MIRAS__OP_MIX: case MIRAS__OP_BONUS:
        rwkv_in_double(b, o, x, t, y, in);
        break;
      case MIRAS__OP_KEYS:
        if (m->erase) rwkv_in_double(b, o, x, t, y, in);
        for (i = 0; !m->erase && i < m->heads * m->dk; i++)
          y[i] = 1 - x->of[m->gated][t * miras__fast_ld(p, m->gated, 0) +
                                     m->gate[MIRAS__KEEP].first + i];
        break;
      case MIRAS__OP_SKIP:
        for (i = 0; i < m->value; i++)
          y[i] += param_of(b, x, o->param)[o->function ? i : i / m->dv] * in[i];
        break;
      default: break;
    }
  }
  if (o->what == MIRAS__OP_MEMORY && m->plan.engine == MIRAS__RUN_FROZEN)
    perceptron_in_double(b, o, x);
  else if (o->what == MIRAS__OP_MEMORY)
    memory_in_double(b, o, x);
}

/* Numbers to the device and back, as it holds them: floats or bfloat16. */
static void put(void *to, const double *x, size_t n, int wide) {
  static float floats[1 << 19];
  uint16_t *halves = (uint16_t *)(void *)floats;
  if (n > sizeof floats / 4) exit(2);
  for (size_t i = 0; i < n; i++) {
    const float v = (float)x[i];
    uint32_t bits;
    memcpy(&bits, &v, 4);
    if (wide) floats[i] = v;
    else halves[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  STOP_IF(cudaMemcpyAsync(to, floats, n * (wide ? 4 : 2), cudaMemcpyHostToDevice, 0));
  STOP_IF(cudaDeviceSynchronize());
}
static void get(double *to, const void *from, size_t n, int wide) {
  static float floats[1 << 19];
  const uint16_t *halves = (const uint16_t *)(void *)floats;
  if (n > sizeof floats / 4) exit(2);
  fetch(floats, from, n * (wide ? 4 : 2));
  for (size_t i = 0; i < n; i++) {
    const uint32_t bits = (uint32_t)halves[i] << 16;
    float v;
    memcpy(&v, &bits, 4);
    to[i] = (double)(wide ? floats[i] : v);
  }
}
static double rounded(double x) {    /* to eight digits */
  int e;
  const double digits = frexp(x, &e);
  return ldexp(rint(ldexp(digits, 8)), e - 8);
}

static size_t floats_of(const bench *b, int i, int grad) {
  return b->a.rows * miras__fast_ld(b->a.p, i, grad);
}
static double *doubles(size_t n) {
  double *p = (double *)calloc(n + 1, sizeof *p);
  if (!p) exit(2);
  return p;
}

static int lies_in_place(const miras__op *o) {
  return o->what == MIRAS__OP_SQUASH || o->what == MIRAS__OP_TURN || o->what == MIRAS__OP_LENGTH ||
         o->what == MIRAS__OP_SKIP || o->what == MIRAS__OP_BONUS || o->what == MIRAS__OP_VALUES ||
         (o->what == MIRAS__OP_ROTATE && o->out == o->in[0]);
}

/* An operation on trial, with the one behind it that it does as well, or NULL: the numbers before
 * it, what lay where its gradients come, dy of its result, and what it reads. */
typedef struct trial {
  const bench *b;
  const miras__fast_layer *on;       /* NULL: of b, or a layer with the same numbers that runs it */
  const miras__op *o, *also;
  const char *name;
  numbers x, d;
  double *dy, *ds;
  int reads[MIRAS__INS + 1], n;
} trial;

static unsigned checked;
static double most_off;

/* sum of d y: of what an operation, and the one behind it that is done with it, make of x. */
static double weighed(const trial *t) {
  const bench *b = t->b;
  const miras__op *o = t->o;
  const miras__mixer *m = &b->a.p->mixer;
  const size_t ld = miras__fast_ld(b->a.p, o->out, 0), n = floats_of(b, o->out, 0);
  double *kept = doubles(n), all = 0;
  memcpy(kept, t->x.of[o->out], n * sizeof *kept);
  in_double(b, o, &t->x);
  if (t->also) in_double(b, t->also, &t->x);
  for (size_t e = 0; e < b->a.rows * ld; e++) all += t->dy[e] * t->x.of[o->out][e];
  for (size_t e = 0; o->what == MIRAS__OP_KEYS && m->erase && e < n; e++)
    all += t->d.of[m->erase][e] * t->x.of[m->erase][e] +
           t->d.of[m->replace][e] * t->x.of[m->replace][e];
  memcpy(t->x.of[o->out], kept, n * sizeof *kept);
  free(kept);
  return all;
}

static int is_in_stream(const trial *t, int i) {
  return (t->o->what == MIRAS__OP_NORM || t->o->what == MIRAS__OP_SHIFT) && i == t->o->in[0];
}

/* Draw all arrays, here and on the device: gates as memories take them. */
static void trial_begin(trial *t) {
  const bench *b = t->b;
  const miras__program *p = b->a.p;
  const miras__gates *keep = &p->mixer.gate[MIRAS__KEEP];
  const int memory = t->o->what == MIRAS__OP_MEMORY;
  const int frozen = memory && p->mixer.plan.engine == MIRAS__RUN_FROZEN;
  const miras__gates *step = &p->mixer.gate[MIRAS__STEP];
  for (int i = 1; i < p->arrays; i++) {
    const size_t all = floats_of(b, i, 0);
    const int wide = miras__fast_is_wide(p, i);
    t->x.of[i] = doubles(all);
    for (size_t e = 0; e < all; e++) {
      const size_t col = e % miras__fast_ld(p, i, 0);
      const float v = draw(-1, 1);
      const int decay = col >= keep->first && col < keep->first + keep->count;
      t->x.of[i][e] = i == p->mixer.gated ? (double)(decay ? 0.9f + 0.1f * v : 0.5f + 0.4f * v)
                      : wide ? (double)v : rounded((double)v * (memory && !frozen ? 0.25 : 1));
      if (frozen && i == p->mixer.gated && col >= step->first && col < step->first + step->count)
        t->x.of[i][e] *= 0.02;       /* as large as those of a model                              */
    }
    put(miras__fast_value(&b->a, i), t->x.of[i], all, wide);
  }
  for (int j = 0; j < p->ops; j++)
    if (p->op[j].what == MIRAS__OP_ANGLES &&
        (t->o->what == MIRAS__OP_TURN || t->o->what == MIRAS__OP_ROTATE)) {
      in_double(b, &p->op[j], &t->x);
      put(miras__fast_value(&b->a, p->op[j].out), t->x.of[p->op[j].out],
          floats_of(b, p->op[j].out, 0), 1);
    }
  t->x.params = doubles(b->m->param_count);
  for (size_t e = 0; e < b->m->param_count; e++) t->x.params[e] = (double)b->m->params[e];
}

/* Forward: how far what it made is from its formula. */
static void trial_forward(trial *t) {
  const bench *b = t->b;
  const miras__fast_layer *const on = t->on ? t->on : &b->a;
  const miras__op *o = t->o;
  const miras__program *p = b->a.p;
  const miras__array *r = &p->array[o->out];
  const size_t ld = miras__fast_ld(p, o->out, 0), all = b->a.rows * ld;
  double *got = doubles(all), *base = doubles(all), *y = t->x.of[o->out], off = 0, size = 0, most;
  miras__fast_run(on, on->p->op + (o - p->op), 0);
  get(got, miras__fast_value(&b->a, o->out), all, miras__fast_is_wide(p, o->out));
  memcpy(base, y, all * sizeof *base);
  in_double(b, o, &t->x);
  if (t->also) in_double(b, t->also, &t->x);
  for (size_t e = 0; e < all; e++) {
    if (e % ld >= (size_t)r->heads * r->dim && o->out != MIRAS__Y) continue;
    if (o->what == MIRAS__OP_ANGLES && e / ld >= (size_t)b->f->length) continue;
    off += (got[e] - y[e]) * (got[e] - y[e]), size += y[e] * y[e];
  }
  off = sqrt(off / (size > 0 ? size : 1));
  if (off > most_off) most_off = off;
  most = o->what == MIRAS__OP_MEMORY ? 0.012 : o->what == MIRAS__OP_EXPERTS ? 0.008 : 0.005;
  if (!(off < most) || b->f->failed) {
    printf("%s, %d tokens: %s %s is off by %.1e\n", t->name, b->f->length,
           miras__ops[o->what].word, r->name, off);
    failed++;
  }
  memcpy(y, base, all * sizeof *base);
  free(base), free(got);
}

/* The gradient of the result, of columns that the operation makes alone; and what lies where those
 * of what it reads will come. */
static void trial_gradients(trial *t) {
  const bench *b = t->b;
  const miras__op *o = t->o;
  const miras__program *p = b->a.p;
  const miras__array *r = &p->array[o->out];
  const int branch = o->what == MIRAS__OP_BRANCH, gates = o->out == p->mixer.gated && o->out;
  const size_t ld = miras__fast_ld(p, o->out, 0), ldd = miras__fast_ld(p, o->out, 1);
  const size_t rows = b->a.rows, width = miras__fast_width(b->f);
  const size_t group = r->by_head ? r->grad_heads / r->heads : 1;
  const int some = o->what == MIRAS__OP_TIMES || o->what == MIRAS__OP_CONV ||
                   (lies_in_place(o) && o->what != MIRAS__OP_BONUS);
  const size_t from = some ? o->out_at : 0;
  const size_t to = !some ? (size_t)-1
                    : from + (o->what == MIRAS__OP_CONV || r->by_head ? (size_t)r->heads * r->dim
                                                                       : o->cols);
  double *all = doubles(rows * ldd);
  t->ds = doubles(rows * width), t->dy = doubles(rows * ld);
  for (size_t e = 0; e < rows * width; e++) t->ds[e] = rounded((double)draw(-1, 1));
  put(b->f->ds, t->ds, rows * width, 0);
  STOP_IF(cudaMemsetAsync(b->f->grads, 0, b->m->param_count * 4, 0));
  for (size_t row = 0; row < rows; row++) {
    for (size_t h = 0; h < (size_t)r->heads * group; h++)
      for (size_t e = 0; e < r->dim; e++) {
        const size_t at = h / group * r->dim + e;
        const double v = gates ? (double)draw(-1, 1) : rounded((double)draw(-1, 1));
        if (at < from || at >= to) continue;
        all[row * ldd + h * r->dim + e] = v;
        if (!branch) t->dy[row * ld + at] += v;
      }
    for (size_t e = 0; branch && e < p->width; e++) t->dy[row * ld + e] = t->ds[row * width + e];
  }
  if (!branch && o->out != MIRAS__Y)
    put(miras__fast_grad(&b->a, o->out), all, rows * ldd, gates);
  free(all);
  for (int i = 0; i < MIRAS__INS; i++) {
    int known = !o->in[i] || (branch && i != 1) || o->what == MIRAS__OP_TURN ||
                (o->what == MIRAS__OP_EXPERTS && i) ||
                o->what == MIRAS__OP_LENGTH || (o->what == MIRAS__OP_ROTATE && i) ||
                (o->what == MIRAS__OP_BONUS && i < 3) || o->what == MIRAS__OP_VALUES ||
                (lies_in_place(o) && o->in[i] == o->out);
    for (int j = 0; j < t->n; j++) known |= t->reads[j] == o->in[i];
    if (!known) t->reads[t->n++] = o->in[i];
  }
  if (lies_in_place(o) && o->what != MIRAS__OP_SKIP && o->what != MIRAS__OP_BONUS)
    t->reads[t->n++] = o->out;
  for (int j = 0; j < t->n; j++) {
    const int of = t->reads[j];
    const size_t n = floats_of(b, of, 1);
    if (of == o->out || is_in_stream(t, of)) continue;
    t->d.of[of] = doubles(n);
    for (size_t e = 0; e < n; e++) t->d.of[of][e] = rounded((double)draw(-1, 1));
    put(miras__fast_grad(&b->a, of), t->d.of[of], n, of == p->mixer.gated);
  }
}

/* Does the operation read column `at` of an array, or change it where it lies? */
static int reads_column(const trial *t, int of, size_t at) {
  const miras__op *o = t->o;
  const miras__program *p = t->b->a.p;
  const miras__array *r = &p->array[o->out];
  const miras__gates *k = &p->mixer.gate[MIRAS__KEEP], *s = &p->mixer.gate[MIRAS__STEP];
  const miras__gates *m = &p->mixer.gate[MIRAS__MOMENTUM];
  if (o->what == MIRAS__OP_GATES) return at < p->mixer.moving;
  if (o->what == MIRAS__OP_KEYS && p->mixer.erase) k = &p->mixer.gate[MIRAS__ERASE];
  if (o->what == MIRAS__OP_KEYS)
    return (of == p->mixer.gated && at >= k->first && at < k->first + k->count) ||
           (of == p->mixer.own && of);
  if (o->what == MIRAS__OP_MIX)
    return at < p->width || (at >= p->ld_x && at < p->ld_x + p->width);
  if (o->what == MIRAS__OP_BONUS) return 1;
  if (o->what == MIRAS__OP_MEMORY)
    return of != p->mixer.gated || (at >= k->first && at < k->first + k->count) ||
           (at >= s->first && at < s->first + s->count) ||
           (at >= m->first && at < m->first + m->count);
  if (o->what == MIRAS__OP_ROTATE)
    return at >= o->in_at[0] && at < o->in_at[0] + o->cols * o->heads;
  if (of == o->out) return r->by_head || (at >= o->out_at && at < o->out_at + o->cols);
  for (int i = 0; i < 3; i++) {
    const size_t cols = o->what == MIRAS__OP_TIMES    ? p->param[o->param].rows
                        : o->what == MIRAS__OP_BRANCH
                          ? (i && o->param ? p->param[o->param].rows : p->width)
                        : o->what == MIRAS__OP_CONV   ? (size_t)r->heads * r->dim
                        : o->what == MIRAS__OP_SKIP   ? p->mixer.value
                        : o->what == MIRAS__OP_ATTEND ? (i ? p->attending.k : p->attending.q)
                                                      : (size_t)o->cols * o->heads;
    if (o->in[i] == of && at >= o->in_at[i] && at < o->in_at[i] + cols) return 1;
  }
  return 0;
}

/* The gradient of the array's column `at` in a row, of all heads that share it, less what lay there
 * where the adjoint adds. */
static double gradient_of(const trial *t, int of, const double *g, size_t row, size_t at) {
  const miras__op *o = t->o;
  const miras__program *p = t->b->a.p;
  const miras__array *a = &p->array[of];
  const size_t group = a->by_head ? a->grad_heads / a->heads : 1;
  const size_t dim = a->by_head ? a->dim : 1;
  const size_t ld = is_in_stream(t, of) ? miras__fast_width(t->b->f) : miras__fast_ld(p, of, 1);
  double all = 0;
  for (size_t k = 0; k < group; k++) {
    const size_t place = row * ld + (at / dim * group + k) * dim + at % dim;
    int adds = (o->what == MIRAS__OP_SKIP || o->what == MIRAS__OP_BONUS) && of != o->out;
    for (int i = 0; i < 3; i++)
      adds |= of != o->out && t->d.of[of] && o->in[i] == of && (o->adds >> i & 1) &&
              (o->what != MIRAS__OP_GATE || at >= o->in_at[i]) &&
              (o->what != MIRAS__OP_KEYS || !p->mixer.erase);
    all += g[place];
    if (is_in_stream(t, of)) all -= t->ds[place];
    else if (adds) all -= t->d.of[of][place];
  }
  return all;
}

/* Along a drawn direction of `count` columns from `first` on of an array (of < 0: of so many of the
 * parameters) with gradients g. */
static void trial_along(trial *t, int of, const double *g, size_t first, size_t count) {
  const bench *b = t->b;
  const miras__program *p = b->a.p;
  const int memory = t->o->what == MIRAS__OP_MEMORY;
  const size_t rows = b->a.rows, ld = of < 0 ? 0 : miras__fast_ld(p, of, 0);
  const size_t n = of < 0 ? b->m->param_count : rows * ld;
  const size_t cols = of < 0 ? 0 : of == MIRAS__X || of == MIRAS__Y
                                     ? p->width : (size_t)p->array[of].heads * p->array[of].dim;
  const double eps = 1e-4;
  double *const to = of < 0 ? t->x.params : t->x.of[of], *v = doubles(n);
  double found = 0, scale = 0, up, down, off;
  for (size_t e = 0; e < n; e++) {
    double one;
    if (of >= 0 && (e % ld >= cols || !reads_column(t, of, e % ld))) continue;
    if ((of < 0 ? e : e % ld) - first >= count) continue;
    one = of < 0 ? g[e] : gradient_of(t, of, g, e / ld, e % ld);
    v[e] = (double)draw(-1, 1);
    found += v[e] * one, scale += v[e] * v[e] * one * one;
  }
  for (size_t e = 0; e < n; e++) to[e] += eps * v[e];
  up = weighed(t);
  for (size_t e = 0; e < n; e++) to[e] -= 2 * eps * v[e];
  down = weighed(t);
  for (size_t e = 0; e < n; e++) to[e] += eps * v[e];
  up = (up - down) / (2 * eps);
  off = fabs(up - found) > 1e-6 ? fabs(up - found) / (sqrt(scale) + 1e-6) : 0;
  if (off > most_off) most_off = off;
  if (off > (memory ? 0.06 : 0.03)) {
    printf("%s, %d tokens: %s %s: gradient of %s along a direction is %g, should be %g\n", t->name,
           b->f->length, miras__ops[t->o->what].word, p->array[t->o->out].name,
           of < 0 ? "parameters" : p->array[of].name[0] ? p->array[of].name : "the stream", found,
           up);
    failed++;
  }
  free(v);
}

/* Of each group of a memory's gates, or each of its parameters. */
static void memory_along(trial *t, int of, const double *g) {
  static const int params[4] = {MIRAS__W_MEMORY, MIRAS__W_GAIN, MIRAS__W_BIAS, MIRAS__W_RATES};
  const bench *b = t->b;
  for (int i = 0; i < 4; i++) {
    const miras__gates *gate = &b->a.p->mixer.gate[i];
    const miras__param *w = &b->a.p->param[params[i]];
    if (of >= 0) trial_along(t, of, g, gate->first, gate->count);
    else if (w->rows)
      trial_along(t, of, g, b->a.layer->first + miras__param_at(w),
                  (size_t)w->rows * (w->cols ? w->cols : 1));
  }
}

/* Operation o, forward against in_double and back against differences along drawn directions. What
 * differs is rounding: of factors, of what lies between, and of results, 2^-9 of their size; of
 * experts, which are three operations, three times. */
static void operation(const bench *b, const miras__op *o, const char *name) {
  const miras__program *p = b->a.p;
  trial t;
  if (o->what == MIRAS__OP_TAIL ||
      (o->what == MIRAS__OP_LENGTH && miras__fast_conv_before(p, o)))
    return;
  checked++;
  memset(&t, 0, sizeof t);
  t.b = b, t.o = o, t.name = name;
  t.also = o->what == MIRAS__OP_CONV ? miras__fast_length_of(p, o) : NULL;
  trial_begin(&t);
  chooses = 1;
  trial_forward(&t);
  chooses = 0;
  if (o->what != MIRAS__OP_ANGLES) {
    trial_gradients(&t);
    if (t.also) miras__fast_run(&b->a, t.also, 1);
    miras__fast_run(&b->a, o, 1);
    for (int j = 0; j <= t.n; j++) {                /* the last one: parameters                   */
      const int of = j < t.n ? t.reads[j] : -1, stream = of >= 0 && is_in_stream(&t, of);
      const size_t n = of < 0 ? b->m->param_count
                       : stream ? b->a.rows * miras__fast_width(b->f) : floats_of(b, of, 1);
      double *g = doubles(n);
      get(g, of < 0 ? (const void *)b->f->grads : stream ? (const void *)b->f->ds
                                                         : miras__fast_grad(&b->a, of),
          n, of < 0 || of == p->mixer.gated);
      if (o->what == MIRAS__OP_MEMORY && (of < 0 || of == p->mixer.gated))
        memory_along(&t, of, g);     /* each by itself: their sizes differ                        */
      else
        for (int way = 0; way < 2; way++) trial_along(&t, of, g, 0, (size_t)-1);
      free(g);
    }
  }
  for (int i = 0; i < MIRAS__ARRAYS; i++) free(t.x.of[i]), free(t.d.of[i]);
  free(t.x.params), free(t.dy), free(t.ds);
}

/* Every operation of the layer that a row of the table has, in texts of so many tokens; dk 0: of
 * attention. */
typedef struct op_case {
  const char *name;
  miras_preset preset;
  int dk, dv, heads, qk_heads, width;
  void (*change)(miras_layer_desc *d);
} op_case;

static const char *program;          /* of its layer, which change may set                        */
static void operations(const op_case *c, int length) {
  miras_model_desc d;
  miras_trainer_desc td;
  char why[256];
  bench b;
  size_t bytes;
  int i;
  if (miras_model_preset(&d, c->preset, 1) != MIRAS_OK) exit(2);
  d.width = c->width, d.vocab = WORDS;
  d.layer[0].memory.heads = c->heads;
  d.layer[0].memory.key_dim = c->dk, d.layer[0].memory.value_dim = c->dv;
  d.layer[0].mixer.qk_heads = c->qk_heads;
  program = NULL;
  if (c->change) c->change(&d.layer[0]);
  d.program = program;
  if (!c->dk) memcpy(d.pattern, program ? "m" : "a", 2);
  b.m = miras_model_open(&d, NULL, why, sizeof why);
  memset(&td, 0, sizeof td);
  td.batch = 2, td.context = length;
  bytes = b.m ? miras_cuda_fast_size(b.m, &td, why, sizeof why) : 0;
  if (!bytes) {
    printf("%s: %s\n", c->name, why);
    failed++;
    return;
  }
  drawn = 5;
  for (i = 0; i < b.m->view_count; i++)
    for (size_t j = 0; j < b.m->views[i].count; j++)
      b.m->params[b.m->views[i].offset + j] =
        (float)rounded((double)b.m->params[b.m->views[i].offset + j] + (double)draw(-0.2f, 0.2f));
  take_back();
  STOP_IF(miras_cuda_fast_init(&b.held, b.m, &td, take(bytes / 4 + 64), bytes, 0) != MIRAS_OK);
  b.f = miras__fast_of(&b.held);
  b.f->batch = 2, b.f->length = length;
  b.a = miras__fast_layer_of(b.f, 0);
  for (i = 0; i < b.a.p->ops; i++) {
    if (cluster_of && b.a.p->op[i].what != MIRAS__OP_MEMORY) continue;
    operation(&b, &b.a.p->op[i], c->name);
    if (b.a.p->op[i].what != MIRAS__OP_MEMORY || c->dk < 64 || c->dv < 64 ||
        b.a.p->mixer.plan.engine == MIRAS__RUN_FROZEN)
      continue;
    wide_from = 1;
    operation(&b, &b.a.p->op[i], c->name);
    wide_from = 128;
  }
  miras_close(b.m);
}

static void layer_norms(miras_layer_desc *d) {
  d->mixer.out_norm = MIRAS_NORM_LAYER;
  d->mixer.conv_bias = 1;
  d->mixer.out_gate = MIRAS_FN_GELU;
}
static void relu2(miras_layer_desc *d) {
  d->mlp.act = MIRAS_FN_RELU2;
  d->mixer.qk_map = MIRAS_QK_MAP_L1;
  d->mixer.out_gate = MIRAS_FN_SIGMOID;
  d->mixer.decay_form = MIRAS_DECAY_FORM_BOUNDED;
}
static void floors(miras_layer_desc *d) {
  d->mixer.decay_form = MIRAS_DECAY_FORM_FLOOR;
  d->mixer.out_gate_first = 1;
}
static void roots(miras_layer_desc *d) {
  d->mixer.decay_form = MIRAS_DECAY_FORM_ROOT;
  d->mixer.qk_act = MIRAS_FN_ELU;
}

static void chunk20(miras_layer_desc *d) {
  d->memory.chunk = 20, d->memory.activation = MIRAS_FN_SILU;
  d->memory.momentum_gate = MIRAS_GATE_CONSTANT;
}
static void chunk64(miras_layer_desc *d) { d->memory.chunk = 64; }
static void chunk100(miras_layer_desc *d) { d->memory.chunk = 100; }
static void chunk40(miras_layer_desc *d) { d->memory.chunk = 40; }
static void error_first(miras_layer_desc *d) { d->memory.order = MIRAS_ORDER_ERROR_FIRST; }
static void bounds(miras_layer_desc *d) { d->mixer.dt_min = 0.4f, d->mixer.dt_max = 0.8f; }

/* Heads begin anew within chunks of the kernels, each elsewhere, some twice. */
static void anew(miras_layer_desc *d) { d->memory.chunk = 16, d->memory.reset_every = 80; }
static void anew_often(miras_layer_desc *d) {
  d->memory.chunk = 16, d->memory.reset_every = 48, d->memory.order = MIRAS_ORDER_ERROR_FIRST;
}
static void anew_apart(miras_layer_desc *d) {
  d->memory.chunk = 16, d->memory.reset_every = 48;
}

/* Attention, of layers "a", which is the third of the model's. */
static void attends(miras_layer_desc *d, int heads, int kv_heads, int dim, int window) {
  d->attention.heads = heads, d->attention.kv_heads = kv_heads, d->attention.head_dim = dim;
  d->attention.window = window;
}
static void attention(miras_layer_desc *d) { attends(d + 2, 4, 2, 32, 40); }
static void attention64(miras_layer_desc *d) {
  attends(d + 2, 2, 1, 64, 1024);
  d[2].attention.qk_norm = d[2].attention.out_gate = 1;
  d[2].attention.rope.interleaved = 1;
}
static void attention128(miras_layer_desc *d) {
  attends(d + 2, 2, 1, 128, 64);
  d[2].attention.rope.share = MIRAS_ROPE_SHARE_QUARTER;
  d[2].attention.out_scale = 0.5f, d[2].attention.query_scale = 2;
}
static void still(miras_layer_desc *d) {
  attends(d + 2, 2, 2, 32, 65);
  d[2].attention.qk_norm = 2, d[2].attention.rope.share = MIRAS_ROPE_SHARE_NONE;
}
static void yarn(miras_layer_desc *d) {
  attends(d + 2, 2, 1, 32, 24);
  d[2].attention.rope_scaling.type = MIRAS_ROPE_SCALING_YARN;
  d[2].attention.rope_scaling.factor = 8, d[2].attention.rope_scaling.context = 64;
}
static void beside(miras_layer_desc *d) {
  attends(d, 2, 1, 32, 1024);
  d->type = MIRAS_LAYER_PARALLEL;
}

/* Branches that begin at a later column, with a matrix and without. */
static void later_columns(miras_layer_desc *d) {
  memset(d, 0, sizeof *d);
  d->type = MIRAS_LAYER_MLP;
  program = "h = norm x norm1.gain; ab = times h a.weight 24 b.weight 16\n"
            "mid = branch ab@b.weight:16 o.weight; more = branch ab:24 p.weight\n"
            "h2 = norm more norm2.gain; cd = times h2 c.weight 8 v.weight 32\n"
            "near = branch cd@v.weight:32; out = branch cd:8 q.weight";
}

/* Mixtures of experts: 8 of which each row takes 2, whose weights add up to one, and 2 that all
 * take; 40 of which it takes 3. */
static void experts(miras_layer_desc *d) {
  d->mlp.experts = 8, d->mlp.norm_topk = 1, d->mlp.shared_experts = 2, d->mlp.hidden = 136;
}
static void experts40(miras_layer_desc *d) {
  d->mlp.experts = 40, d->mlp.experts_per_token = 3, d->mlp.hidden = 8;
}

static const op_case op_cases[] = {
  {"linear-attention", MIRAS_PRESET_LINEAR_ATTENTION, 32, 32, 2, 0, 40, NULL},
  {"retnet", MIRAS_PRESET_RETNET, 32, 64, 2, 0, 32, NULL},
  {"deltanet", MIRAS_PRESET_DELTANET, 64, 64, 1, 0, 32, NULL},
  {"gated-deltanet", MIRAS_PRESET_GATED_DELTANET, 32, 64, 4, 2, 32, NULL},
  {"128", MIRAS_PRESET_GATED_DELTANET, 128, 64, 1, 0, 32, layer_norms},
  {"relu2", MIRAS_PRESET_GATED_DELTANET, 32, 32, 2, 0, 32, relu2},
  {"floors", MIRAS_PRESET_GATED_DELTANET, 32, 32, 2, 0, 32, floors},
  {"roots", MIRAS_PRESET_GATED_DELTANET, 32, 32, 2, 0, 32, roots},
  {"mamba2", MIRAS_PRESET_MAMBA2, 32, 32, 2, 1, 32, NULL},
  {"bounds", MIRAS_PRESET_MAMBA2, 32, 32, 2, 1, 32, bounds},
  {"titans", MIRAS_PRESET_TITANS, 32, 32, 2, 0, 32, NULL},
  {"titans, chunks of 20", MIRAS_PRESET_TITANS, 48, 48, 2, 1, 32, chunk20},
  {"ttt-mlp", MIRAS_PRESET_TTT_MLP, 32, 32, 2, 0, 32, NULL},
  {"ttt-mlp, chunks of 64", MIRAS_PRESET_TTT_MLP_MEMORY, 32, 32, 1, 0, 32, chunk64},
  {"gla", MIRAS_PRESET_GLA, 32, 64, 2, 0, 32, NULL},
  {"gla of 64", MIRAS_PRESET_GLA_MEMORY, 64, 64, 2, 1, 32, NULL},
  {"hgrn2", MIRAS_PRESET_HGRN2, 32, 32, 2, 0, 32, NULL},
  {"kda", MIRAS_PRESET_KDA, 32, 64, 2, 1, 32, NULL},
  {"kda of 64", MIRAS_PRESET_KDA_MEMORY, 64, 32, 1, 0, 32, NULL},
  {"kda of 128", MIRAS_PRESET_KDA_MEMORY, 128, 64, 1, 0, 32, error_first},
  {"rwkv7", MIRAS_PRESET_RWKV7, 32, 32, 2, 0, 32, NULL},
  {"rwkv7 of 64", MIRAS_PRESET_RWKV7, 64, 64, 1, 0, 32, NULL},
  {"rwkv7-memory", MIRAS_PRESET_RWKV7_MEMORY, 32, 64, 2, 0, 32, anew_apart},
  {"rwkv7-memory of 128", MIRAS_PRESET_RWKV7_MEMORY, 128, 32, 1, 0, 32, NULL},
  {"attention", MIRAS_PRESET_YAAD, 0, 0, 2, 0, 32, attention},
  {"attention-64", MIRAS_PRESET_YAAD, 0, 0, 2, 0, 32, attention64},
  {"attention-128", MIRAS_PRESET_YAAD, 0, 0, 2, 0, 32, attention128},
  {"attention-still", MIRAS_PRESET_YAAD, 0, 0, 2, 0, 32, still},
  {"parallel", MIRAS_PRESET_GATED_DELTANET, 32, 32, 2, 0, 32, beside},
  {"attention, yarn", MIRAS_PRESET_YAAD, 0, 0, 2, 0, 32, yarn},
  {"kda, anew", MIRAS_PRESET_KDA, 64, 64, 2, 1, 32, anew},
  {"gated-deltanet, anew", MIRAS_PRESET_GATED_DELTANET, 32, 32, 3, 0, 32, anew_often},
  {"later columns", MIRAS_PRESET_GATED_DELTANET, 0, 0, 2, 0, 32, later_columns},
  {"experts", MIRAS_PRESET_RETNET, 32, 32, 2, 0, 40, experts},
  {"40 experts", MIRAS_PRESET_RETNET, 32, 32, 2, 0, 136, experts40}
};
static const int lengths[] = {1, 15, 16, 17, 63, 64, 65, 130};

/* Perceptrons in clusters of one to eight blocks: whose copies of both layers stay, and do not;
 * whose sizes the kernels would not choose; before there were clusters; and whose chunks go in
 * pieces, or do where a block has `shared` KB (0: 227). The watch over races has those from RACING
 * on. */
enum { RACING = 13 };
static const struct {
  op_case of;
  size_t cluster;
  int length, code, shared;
} clusters[] = {
  {{"titans of 128", MIRAS_PRESET_TITANS, 128, 128, 1, 0, 32, NULL}, 8, 17, 90, 0},
  {{"ttt-mlp of 128", MIRAS_PRESET_TTT_MLP, 128, 128, 1, 0, 32, NULL}, 8, 1, 90, 0},
  {{"titans of 64", MIRAS_PRESET_TITANS, 64, 64, 1, 0, 32, NULL}, 4, 17, 90, 0},
  {{"titans of 64, chunks of 64", MIRAS_PRESET_TITANS, 64, 64, 1, 0, 32, chunk64}, 4, 65, 90, 0},
  {{"ttt-mlp of 64", MIRAS_PRESET_TTT_MLP_MEMORY, 64, 64, 1, 0, 32, NULL}, 2, 15, 90, 0},
  {{"titans of 64, alone", MIRAS_PRESET_TITANS, 64, 64, 1, 0, 32, NULL}, 4, 17, 80, 0},
  {{"titans of 32", MIRAS_PRESET_TITANS, 32, 32, 1, 0, 32, chunk20}, 4, 130, 90, 0},
  {{"ttt-mlp of 32", MIRAS_PRESET_TTT_MLP_MEMORY, 32, 32, 2, 0, 32, chunk64}, 2, 65, 90, 0},
  {{"titans, chunks of 100", MIRAS_PRESET_TITANS, 32, 32, 1, 0, 32, chunk100}, 2, 130, 90, 0},
  {{"titans, chunks of 40", MIRAS_PRESET_TITANS, 32, 32, 1, 0, 32, chunk40}, 2, 90, 90, 60},
  {{"ttt-mlp-memory, chunks of 100", MIRAS_PRESET_TTT_MLP_MEMORY, 32, 32, 1, 0, 32, chunk100}, 2,
   130, 90, 0},
  {{"ttt-mlp, chunks of 40", MIRAS_PRESET_TTT_MLP, 32, 32, 1, 0, 32, chunk40}, 2, 50, 90, 60},
  {{"ttt-mlp of 64, chunks of 64", MIRAS_PRESET_TTT_MLP, 64, 64, 1, 0, 32, chunk64}, 4, 65, 90,
   99},
  {{"ttt-mlp of 32, in eight", MIRAS_PRESET_TTT_MLP, 32, 32, 1, 0, 32, NULL}, 8, 17, 90, 0},
  {{"titans of 16", MIRAS_PRESET_TITANS_LMM, 16, 16, 2, 0, 32, NULL}, 4, 65, 90, 0},
  {{"titans of 16, chunks of 40", MIRAS_PRESET_TITANS_LMM, 16, 16, 2, 0, 32, chunk40}, 4, 50, 90,
   24},
  {{"ttt-mlp of 16", MIRAS_PRESET_TTT_MLP, 16, 16, 2, 0, 32, NULL}, 2, 17, 90, 0}
};

/* ---- whole numbers ---- */

/* A product of m rows with whole numbers [k, n], laid out as miras_cuda.cuh says, beside the sum in
 * double; what lies behind a row's end is NaN. The bits of a row are those of it alone. */
static void numbers8(size_t m, size_t n, size_t k) {
  const size_t lda = miras__up8(k), deep = (k + 31) / 32, across = (n + 15) / 16;
  const size_t ldc = miras__up8(n), tiles = deep * across;
  signed char *const b = (signed char *)calloc(tiles, 512);
  signed char *const laid = (signed char *)calloc(tiles, 512);
  double *a = doubles(m * lda), *scale = doubles(tiles * 16), *by = doubles(tiles * 16);
  double *bias = doubles(ldc), *base = doubles(m * ldc), *got = doubles(m * ldc);
  double *one = doubles(ldc), off = 0, size = 0;
  miras_fast::miras__fast_product x;
  uint16_t *to;
  miras__fast f;
  if (!b || !laid) exit(2);
  take_back();
  for (size_t i = 0; i < m * lda; i++) a[i] = i % lda < k ? rounded((double)draw(-1, 1)) : NAN;
  for (size_t i = 0; i < ldc; i++) bias[i] = rounded((double)draw(-1, 1));
  for (size_t i = 0; i < m * ldc; i++) base[i] = rounded((double)draw(-1, 1));
  for (size_t j = 0; j < n; j++)
    for (size_t i = 0; i < k; i++) {
      const size_t tile = j / 16 * deep + i / 32, r = j % 16, g = i % 32 / 8, e = i % 8;
      static const size_t order[4] = {0, 2, 1, 3};
      const signed char now = (signed char)(draw(-127.49f, 127.49f));
      if (i % 32 == 0)
        scale[tile * 16 + r] = by[tile * 16 + r % 8 * 2 + r / 8] = (double)draw(0, 0.01f);
      b[i * n + j] = now;
      laid[tile * 512 + (4 * (r % 8) + g) * 16 + (2 * (e / 4) + r / 8) * 4 + order[e % 4]] = now;
    }
  memset((void *)&f, 0, sizeof f);
  f.sits = 1;
  x = miras__fast_product_of(NULL, lda, NULL, 0, m, n, k);
  x.a = (const uint16_t *)take(m * lda), put((void *)(uintptr_t)x.a, a, m * lda, 0);
  x.b = (const uint16_t *)send(laid, tiles * 512);
  x.scales = take(tiles * 16), put((void *)(uintptr_t)x.scales, by, tiles * 16, 1);
  x.bias = (const uint16_t *)take(ldc), put((void *)(uintptr_t)x.bias, bias, ldc, 0);
  x.base = (const uint16_t *)take(m * ldc), put((void *)(uintptr_t)x.base, base, m * ldc, 0);
  x.c = to = (uint16_t *)take(m * ldc), x.ldc = (unsigned)ldc;
  miras__fast_multiply(&f, &x, 0, 0);
  get(got, to, m * ldc, 0);
  for (size_t i = 0; i < m; i++)
    for (size_t j = 0; j < n; j++) {
      double y = bias[j] + base[i * ldc + j];
      for (size_t l = 0; l < k; l++)
        y += a[i * lda + l] * (double)b[l * n + j] *
             (double)(float)scale[(j / 16 * deep + l / 32) * 16 + j % 16];
      off += (got[i * ldc + j] - y) * (got[i * ldc + j] - y), size += y * y;
    }
  off = sqrt(off / size);            /* what is rounded is the result alone                       */
  x.m = 1, x.a += (m - 1) * lda, x.base += (m - 1) * ldc;
  miras__fast_multiply(&f, &x, 0, 0);
  get(one, to, ldc, 0);
  if (!(off < 0.003) || f.failed || memcmp(one, got + (m - 1) * ldc, n * sizeof *one))
    printf("whole numbers, %d x %d x %d, are off by %.1e\n", (int)m, (int)n, (int)k, off), failed++;
  free(b), free(laid), free(a), free(scale), free(by), free(bias), free(base), free(got), free(one);
}

/* Products of a layer, the embedding and the head of a model of a form, beside the sums of the
 * numbers that the host holds. */
static void whole_layer(int width, int texts) {
  for (int form = MIRAS_WEIGHTS_BF16; form <= MIRAS_WEIGHTS_Q8; form += 2) {
    miras_model_desc d;
    miras_cuda_fast_session s;
    miras_model *m, *twin;
    char why[256];
    bench b, of;
    trial t;
    size_t bytes;
    if (miras_model_preset(&d, MIRAS_PRESET_GATED_DELTANET, 1) != MIRAS_OK) exit(2);
    d.width = width, d.vocab = WORDS, d.untied = texts % 2;
    d.layer[0].memory.heads = 3, d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = 32;
    twin = miras_model_open(&d, NULL, why, sizeof why);
    d.weights = (miras_weights)form;
    m = miras_model_open(&d, NULL, why, sizeof why);
    if (!m || !twin) exit(2);
    drawn = 13;
    for (int i = 0; i < m->view_count; i++) {
      const miras_view *v = &twin->views[i];
      float *const x = twin->params + v->offset;
      const size_t high = v->rank > 1 ? (size_t)v->shape[0] : 1;
      for (size_t j = 0; j < v->count; j++) x[j] = (float)rounded((double)draw(-1, 1));
      if (miras_model_view_write(m, &m->views[i], 0, high, 0, v->count / high, x) != MIRAS_OK ||
          miras_model_view_read(m, &m->views[i], 0, high, 0, v->count / high, x) != MIRAS_OK)
        exit(2);
    }
    bytes = miras_cuda_fast_session_size(m, texts, why, sizeof why);
    take_back();
    if (!bytes || miras_cuda_fast_session_init(&s, m, texts, take(bytes / 4), bytes, 0) != MIRAS_OK)
      puts(why), exit(2);
    memset((void *)&t, 0, sizeof t);
    b.m = m, b.f = miras__fast_of(&s), b.a = miras__fast_layer_of(b.f, 0);
    of = b, of.m = twin, of.a.layer = &twin->layers[0], of.a.p = twin->layers[0].p;
    t.b = &of, t.on = &b.a, t.name = form == MIRAS_WEIGHTS_Q8 ? "q8" : "bf16";
    for (int i = 0; i < of.a.p->ops; i++) {
      t.o = &of.a.p->op[i];
      if (t.o->what != MIRAS__OP_TIMES && t.o->what != MIRAS__OP_BRANCH) continue;
      checked++;
      trial_begin(&t);
      trial_forward(&t);
      for (int j = 0; j < MIRAS__ARRAYS; j++) free(t.x.of[j]);
      free(t.x.params);
      memset((void *)&t.x, 0, sizeof t.x);
    }
    {
      int32_t *tokens = (int32_t *)calloc((size_t)texts, 4), *there;
      float *said = (float *)calloc((size_t)texts * WORDS, 4), *out = take((size_t)texts * WORDS);
      const size_t n = (size_t)width;
      double *x = doubles((size_t)texts * n), off = 0, size = 0, most = 0;
      if (!tokens || !said) exit(2);
      for (int i = 0; i < texts; i++) tokens[i] = (i * 29 + 5) % WORDS;
      there = (int32_t *)send(tokens, (size_t)texts * 4);
      STOP_IF(miras_cuda_fast_session_feed(&s, there, 1, out, 1, 0) != MIRAS_OK);
      fetch(said, out, (size_t)texts * WORDS * 4);
      get(x, b.f->x, (size_t)texts * n, 0);
      for (size_t i = 0; i < (size_t)texts * n; i++) {
        const size_t from = twin->in->weight + (size_t)tokens[i / n] * n;
        const double is = (double)twin->params[from + i % n];
        most = fmax(most, fabs(x[i] - is) / (fabs(is) + 1e-9));
      }
      get(x, b.f->last, (size_t)texts * n, 0);
      for (size_t i = 0; i < (size_t)texts * WORDS; i++) {
        double y = 0;
        for (size_t j = 0; j < n; j++)
          y += x[i / WORDS * n + j] * (double)twin->params[twin->head + i % WORDS * n + j];
        off += (y - (double)said[i]) * (y - (double)said[i]), size += y * y;
      }
      off = sqrt(off / size);        /* nothing is rounded but in sums                            */
      if (!(off < 1e-5) || !(most < 0.004)) {
        printf("%s: the head is off by %.1e, the embedding by %.1e\n", t.name, off, most);
        failed++;
      }
      free(tokens), free(said), free(x);
    }
    miras_close(m), miras_close(twin);
  }
}

/* ---- one token ---- */

/* The kernel where a memory reads errors at z and writes them at r, with a decay per channel. */
static void erasing_token(const miras_cuda_fast_row *x, const uint16_t *z, const uint16_t *r) {
  const unsigned heads = (unsigned)x->heads, dk = (unsigned)x->key_dim;
  miras_fast::miras__fast_token a;
  miras__fast f;
  memset((void *)&a, 0, sizeof a);
  memset((void *)&f, 0, sizeof f);
  a.s = x->state, a.of.q = x->query, a.of.k = x->key, a.of.v = x->value, a.of.y = x->answer;
  a.of.apart = z, a.replace = r;
  a.of.keep = x->keep, a.of.step = x->step, a.of.keep_gate = a.of.channels = 1;
  a.of.ldq = a.of.ldk = a.of.ld_keep = heads * dk;
  a.of.value = (unsigned)x->value_dim, a.of.ldv = a.of.ldy = heads * a.of.value;
  a.of.ld_step = a.of.heads = heads, a.of.group = 1;
  a.of.delta = 1, a.of.after = x->decay_first;
  a.apart = (size_t)a.of.ldv * dk;
  miras__fast_token_run(&f, &a, (size_t)x->batch, dk);
  STOP_IF(f.failed);
}

/* delta: errors are what is written (1), or are erased apart from it (2). */
static uint64_t token(int key_dim, int value_dim, int heads, int key_heads, int delta,
                      int decay_first) {
  enum { TEXTS = 2, STEPS = 3 };
  const size_t dk = (size_t)key_dim, dv = (size_t)value_dim, all = (size_t)(TEXTS * heads);
  const size_t keys = (size_t)(TEXTS * key_heads) * dk, values = all * dv;
  const int erases = delta > 1;
  const size_t channels = erases ? dk : 1, keeps = all * channels;
  double *z = doubles(keys), *r = doubles(keys);
  uint16_t *there_z, *there_r;
  double *s = doubles(all * dv * dk), *q = doubles(keys), *k = doubles(keys), *v = doubles(values);
  double *gates = doubles(keeps + all), *y = doubles(values), *got = doubles(all * dv * dk);
  double off = 0, size = 0;
  uint64_t bits = 0;
  miras_cuda_fast_row x;
  take_back();
  memset(&x, 0, sizeof x);
  x.state = take(all * dv * dk);
  x.query = (uint16_t *)(void *)take(keys), x.key = (uint16_t *)(void *)take(keys);
  x.value = (uint16_t *)(void *)take(values), x.answer = (uint16_t *)(void *)take(values);
  x.keep = take(keeps), x.step = take(all);
  there_z = (uint16_t *)(void *)take(keys), there_r = (uint16_t *)(void *)take(keys);
  x.batch = TEXTS, x.heads = heads, x.key_heads = key_heads, x.key_dim = key_dim;
  x.value_dim = value_dim, x.delta = delta, x.decay_first = decay_first;
  for (size_t i = 0; i < all * dv * dk; i++) s[i] = (double)draw(-1, 1);
  put(x.state, s, all * dv * dk, 1);
  for (int t = 0; t < STEPS; t++) {
    for (size_t i = 0; i < keys; i++) q[i] = rounded((double)draw(-1, 1));
    for (size_t i = 0; i < keys; i++) k[i] = rounded((double)draw(-0.3f, 0.3f));
    for (size_t i = 0; i < values; i++) v[i] = rounded((double)draw(-1, 1));
    for (size_t i = 0; i < keys; i++) z[i] = erases ? rounded((double)draw(-0.3f, 0.3f)) : k[i];
    for (size_t i = 0; i < keys; i++) r[i] = erases ? rounded((double)draw(-0.3f, 0.3f)) : k[i];
    for (size_t i = 0; i < keeps + all; i++) gates[i] = (double)draw(0.5f, 1);
    put((void *)(uintptr_t)x.query, q, keys, 0), put((void *)(uintptr_t)x.key, k, keys, 0);
    put((void *)(uintptr_t)x.value, v, values, 0);
    put((void *)(uintptr_t)x.keep, gates, keeps, 1);
    put((void *)(uintptr_t)x.step, gates + keeps, all, 1);
    put(there_z, z, keys, 0), put(there_r, r, keys, 0);
    if (erases) erasing_token(&x, there_z, there_r);
    else STOP_IF(miras_cuda_fast_token(&x, 0) != MIRAS_OK);
    for (size_t i = 0; i < all; i++)
      for (size_t j = 0; j < dv; j++) {
        const size_t group = (size_t)(heads / key_heads);
        const size_t all_heads = (size_t)heads, text = i / all_heads * (size_t)key_heads;
        const size_t head = (text + i % all_heads / group) * dk;
        const double *keep = gates + i * channels, rate = gates[keeps + i];
        double *row = s + (i * dv + j) * dk, e = 0, sum = 0;
        for (size_t l = 0; delta && l < dk; l++)
          e += (decay_first ? keep[l % channels] : 1) * row[l] * z[head + l];
        if (!erases) e = rate * (v[i * dv + j] - e);
        for (size_t l = 0; l < dk; l++) {
          row[l] = (double)(float)keep[l % channels] * row[l] + e * r[head + l];
          if (erases) row[l] += rate * k[head + l] * v[i * dv + j];
          sum += row[l] * q[head + l];
        }
        y[i * dv + j] = sum;
      }
    get(got, x.answer, values, 0);
    for (size_t i = 0; i < values; i++)
      off += (got[i] - y[i]) * (got[i] - y[i]), size += y[i] * y[i];
    for (size_t i = 0; i < values; i++) bits = bits * 31 + (uint64_t)(int64_t)(got[i] * 65536);
  }
  get(got, x.state, all * dv * dk, 1);
  for (size_t i = 0; i < all * dv * dk; i++)
    bits = bits * 31 + (uint64_t)(int64_t)(got[i] * 1073741824);
  off = sqrt(off / size);
  if (!(off < 4e-3))
    printf("a token of %d x %d is off by %.1e\n", key_dim, value_dim, off), failed++;
  for (size_t i = off = size = 0; i < all * dv * dk; i++)
    off += (got[i] - s[i]) * (got[i] - s[i]), size += s[i] * s[i];
  off = sqrt(off / size);
  if (!(off < 1e-6))
    printf("states of %d x %d are off by %.1e\n", key_dim, value_dim, off), failed++;
  free(s), free(q), free(k), free(v), free(z), free(r), free(gates), free(y), free(got);
  return bits;
}
/* The same where a warp has few columns of a state and where it has a quarter of them. */
static void tokens(int key_dim, int value_dim, int heads, int key_heads, int delta, int first) {
  const uint64_t from = drawn, few = token(key_dim, value_dim, heads, key_heads, delta, first);
  wide_from = 0, drawn = from;
  if (token(key_dim, value_dim, heads, key_heads, delta, first) != few)
    printf("a token of %d x %d: other bits in larger parts\n", key_dim, value_dim), failed++;
  wide_from = 128;
}

/* ---- a memory on its own ---- */

typedef struct alone_case {
  int dk, dv, heads, key_heads, channels, delta, first, length;
  float strong;                      /* how many of the decays leave next to nothing; below 0:
                                        all leave nearly all                                      */
} alone_case;

/* What it reads, makes and is given back, and gradients of what it reads. */
enum { A_QUERY, A_KEY, A_VALUE, A_DECAY, A_STEP, A_STATE, A_ANSWER, A_LAST, A_ALL };
typedef struct alone_numbers { double *of[A_ALL], *d[A_ALL]; } alone_numbers;
static const char *const alone_names[] = {"query", "key", "value", "decay", "step", "state",
                                          "answer", "last"};

static size_t alone_count(const alone_case *c, int what) {   /* of a text */
  const size_t T = (size_t)c->length, dk = (size_t)c->dk, dv = (size_t)c->dv;
  const size_t heads = (size_t)c->heads;
  return what <= A_KEY ? T * (size_t)c->key_heads * dk
         : what == A_VALUE || what == A_ANSWER ? T * heads * dv
         : what == A_DECAY ? T * heads * (c->channels ? dk : 1)
         : what == A_STEP  ? T * heads : heads * dv * dk;
}

/* The recurrence of head h of a text, token by token, and back. */
static void alone_in_double(const alone_case *c, const alone_numbers *x, size_t text, size_t h) {
  const size_t T = (size_t)c->length, dk = (size_t)c->dk, dv = (size_t)c->dv, n = dk * dv;
  const size_t heads = (size_t)c->heads, keys = (size_t)c->key_heads, group = heads / keys;
  const size_t per = c->channels ? dk : 1, at = (text * heads + h) * n;
  double *s = doubles((T + 1) * n), *u = doubles(T * dv), *e = doubles(T * dv);
  double *ds = doubles(n), *a = doubles(dk);
  for (size_t i = 0; i < n; i++) s[i] = x->of[A_STATE][at + i % dv * dk + i / dv];
  for (size_t turn = 0; turn < 2 * T; turn++) {
    const int back = turn >= T;
    const size_t t = back ? 2 * T - 1 - turn : turn, row = text * T + t;
    const size_t key = (row * keys + h / group) * dk, value = (row * heads + h) * dv;
    const double *k = x->of[A_KEY] + key, *q = x->of[A_QUERY] + key, *v = x->of[A_VALUE] + value;
    const double step = x->of[A_STEP][row * heads + h];
    double *before = s + t * n, *after = before + n, *made = x->of[A_ANSWER] + value;
    const double *dy = x->d[A_ANSWER] + value;
    for (size_t i = 0; i < dk; i++)
      a[i] = exp(fmax(x->of[A_DECAY][(row * heads + h) * per + i % per], -69));
    if (!back) {
      for (size_t j = 0; j < dv; j++) {
        double read = 0;
        for (size_t i = 0; i < dk; i++) read += k[i] * before[i * dv + j] * (c->first ? a[i] : 1);
        e[t * dv + j] = v[j] - (c->delta ? read : 0);
        u[t * dv + j] = step * e[t * dv + j], made[j] = 0;
        for (size_t i = 0; i < dk; i++) {
          after[i * dv + j] = a[i] * before[i * dv + j] + k[i] * u[t * dv + j];
          made[j] += q[i] * after[i * dv + j];
        }
      }
      continue;
    }
    if (t == T - 1)
      for (size_t i = 0; i < n; i++) {
        x->of[A_LAST][at + i % dv * dk + i / dv] = after[i];
        ds[i] = x->d[A_LAST][at + i % dv * dk + i / dv];
      }
    for (size_t j = 0; j < dv; j++) {
      double du = 0;
      for (size_t i = 0; i < dk; i++) {
        x->d[A_QUERY][key + i] += after[i * dv + j] * dy[j];
        ds[i * dv + j] += q[i] * dy[j];
        du += k[i] * ds[i * dv + j];
        x->d[A_KEY][key + i] += ds[i * dv + j] * u[t * dv + j];
      }
      x->d[A_STEP][row * heads + h] += du * e[t * dv + j];
      x->d[A_VALUE][value + j] += step * du;
      for (size_t i = 0; i < dk; i++) {
        double da = ds[i * dv + j] * before[i * dv + j], *d = &ds[i * dv + j];
        *d *= a[i];
        if (c->delta) {
          const double read = (c->first ? a[i] : 1) * before[i * dv + j];
          x->d[A_KEY][key + i] -= read * step * du;
          if (c->first) da -= k[i] * step * du * before[i * dv + j];
          *d -= (c->first ? a[i] : 1) * k[i] * step * du;
        }
        x->d[A_DECAY][(row * heads + h) * per + i % per] += a[i] * da;
      }
    }
  }
  for (size_t i = 0; i < n; i++) x->d[A_STATE][at + i % dv * dk + i / dv] = ds[i];
  free(s), free(u), free(e), free(ds), free(a);
}

/* What the device makes of `texts` texts from text `from` on. */
static int in_place;                 /* 1: forward the last state comes where the first one is    */
static void alone_on_device(const alone_case *c, const alone_numbers *x, size_t from, size_t texts,
                            alone_numbers *to) {
  miras_cuda_fast_memory m;
  miras_cuda_fast_memory_grads g;
  void *here[A_ALL], *d[A_ALL], *room;
  size_t bytes[2];
  take_back();
  for (int i = 0; i < A_ALL; i++) {
    const size_t each = alone_count(c, i), n = texts * each;
    const int wide = i >= A_DECAY && i != A_ANSWER;
    here[i] = take(n), d[i] = take(n);
    if (i < A_ANSWER) put(here[i], x->of[i] + from * each, n, wide);
    else put(d[i], x->d[i] + from * each, n, wide);
  }
  memset(&m, 0, sizeof m);
  memset(&g, 0, sizeof g);
  m.query = (uint16_t *)here[A_QUERY], m.key = (uint16_t *)here[A_KEY];
  m.value = (uint16_t *)here[A_VALUE], m.answer = (uint16_t *)here[A_ANSWER];
  m.decay = (float *)here[A_DECAY], m.step = (float *)here[A_STEP];
  m.state = (float *)here[A_STATE], m.last = (float *)here[A_LAST];
  m.batch = (int)texts, m.length = c->length, m.heads = c->heads, m.key_heads = c->key_heads;
  m.key_dim = c->dk, m.value_dim = c->dv, m.channels = c->channels, m.delta = c->delta;
  m.decay_first = c->first;
  g.answer = (uint16_t *)d[A_ANSWER], g.last = (float *)d[A_LAST];
  g.query = (uint16_t *)d[A_QUERY], g.key = (uint16_t *)d[A_KEY];
  g.value = (uint16_t *)d[A_VALUE], g.decay = (float *)d[A_DECAY];
  g.step = (float *)d[A_STEP], g.state = (float *)d[A_STATE];
  for (int back = 0; back < 2; back++) {
    if (in_place) m.last = back ? NULL : (float *)here[A_STATE];
    bytes[back] = miras_cuda_fast_memory_size(&m, back);
    room = take(bytes[back] / 4);
    if (!bytes[back] ||
        (back ? miras_cuda_fast_memory_backward(&m, &g, room, bytes[back], 0)
              : miras_cuda_fast_memory_forward(&m, room, bytes[back], 0)) != MIRAS_OK)
      puts("a memory on its own does not run"), failed++;
    if (in_place && !back) {
      STOP_IF(cudaMemcpyAsync(here[A_LAST], here[A_STATE], texts * alone_count(c, A_STATE) * 4,
                              cudaMemcpyDeviceToDevice, 0));
      put(here[A_STATE], x->of[A_STATE] + from * alone_count(c, A_STATE),
          texts * alone_count(c, A_STATE), 1);
    }
  }
  for (int i = 0; i < A_ALL; i++) {
    const size_t n = texts * alone_count(c, i);
    get(to->of[i] = doubles(n), here[i], n, i >= A_DECAY && i != A_ANSWER);
    get(to->d[i] = doubles(n), d[i], n, i >= A_DECAY && i != A_ANSWER);
  }
}
static void alone_free(alone_numbers *x) {
  for (int i = 0; i < A_ALL; i++) free(x->of[i]), free(x->d[i]);
}

static double alone_off;
static void alone(const alone_case *c) {
  alone_numbers x, y, other;
  drawn = 3;
  for (int i = 0; i < A_ALL; i++) {
    const size_t n = 2 * alone_count(c, i);
    x.of[i] = doubles(n), x.d[i] = doubles(n);
    for (size_t e = 0; e < n; e++) {
      const double v = (double)draw(-1, 1), w = (double)draw(0, 1);
      if (i == A_STEP) x.of[i][e] = 0.5 + 0.4 * v;
      else if (i == A_DECAY)         /* of 64 tokens, down to some -2000                          */
        x.of[i][e] = w < (double)c->strong ? -100 * w / (double)c->strong
                                           : (c->strong < 0 ? -0.001 : -0.1) * (1 + v);
      else if (i < A_ANSWER) x.of[i][e] = rounded(v * (i == A_VALUE ? 1 : 0.4));
      else x.d[i][e] = rounded(v);
    }
  }
  for (size_t h = 0; h < (size_t)(2 * c->heads); h++)
    alone_in_double(c, &x, h / (size_t)c->heads, h % (size_t)c->heads);
  alone_on_device(c, &x, 0, 2, &y);
  for (int i = 0; i < A_ALL; i++) {
    const double *is = i < A_ANSWER ? y.d[i] : y.of[i], *should = i < A_ANSWER ? x.d[i] : x.of[i];
    double off = 0, size = 0;
    for (size_t e = 0; e < 2 * alone_count(c, i); e++)
      off += (is[e] - should[e]) * (is[e] - should[e]), size += should[e] * should[e];
    off = sqrt(off / (size > 0 ? size : 1));
    if (off > alone_off) alone_off = off;
    if (off < 0.02) continue;
    printf("alone, %d x %d, channels %d, delta %d, first %d, %d tokens, strong %.1f: %s%s is off "
           "by %.1e\n", c->dk, c->dv, c->channels, c->delta, c->first, c->length, (double)c->strong,
           i < A_ANSWER ? "the gradient of " : "", alone_names[i], off);
    failed++;
  }
  wide_from = 1, in_place = 1;       /* the second text by itself has the same bits               */
  alone_on_device(c, &x, 1, 1, &other);
  wide_from = 128, in_place = 0;
  for (int i = 0; i < A_ALL; i++) {
    const size_t n = alone_count(c, i), bytes = n * sizeof(double);
    if (!memcmp(other.of[i], y.of[i] + n, bytes) && !memcmp(other.d[i], y.d[i] + n, bytes))
      continue;
    printf("alone, %d tokens: other bits of %s in another batch\n", c->length, alone_names[i]);
    failed++;
  }
  if (c->length > 128) {             /* what is behind a token changes nothing                    */
    alone_case part = *c;
    part.length -= 70;
    alone_free(&other);
    alone_on_device(&part, &x, 0, 1, &other);
    if (memcmp(other.of[A_ANSWER], y.of[A_ANSWER], alone_count(&part, A_ANSWER) * sizeof(double)))
      printf("alone, %d tokens: other answers in a longer text\n", c->length), failed++;
  }
  alone_free(&x), alone_free(&y), alone_free(&other);
}
static void alone_all(void) {
  static const alone_case cases[] = {    /* dk, dv, heads, key heads, channels, delta, first      */
    {32, 32, 2, 1, 1, 1, 1, 0, 0}, {32, 32, 2, 2, 1, 1, 0, 0, 0.2f},
    {32, 32, 2, 1, 1, 0, 0, 0, 0.2f}, {64, 64, 1, 1, 1, 1, 1, 0, 0.2f},
    {128, 64, 1, 1, 1, 1, 1, 0, 0.5f}, {32, 32, 2, 2, 0, 1, 1, 0, 0.2f},
    {64, 64, 2, 1, 0, 0, 0, 0, 0}, {128, 32, 1, 1, 1, 0, 0, 0, 0}
  };
  miras_cuda_fast_memory m;
  for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
    for (unsigned j = 0; j < sizeof lengths / sizeof *lengths; j++) {
      alone_case c = cases[i];
      c.length = lengths[j];
      if (c.dk == 32 || j % 3 == i % 3) alone(&c);   /* the large ones at some of the lengths     */
      if (c.length < 130) continue;
      segment = 1, alone(&c);        /* two of 64 tokens and one of 2                             */
      segment = 2, c.length = 257, c.strong -= 1, alone(&c);     /* and what stays for long       */
      segment = 16;
    }
  memset(&m, 0, sizeof m);
  m.batch = m.length = m.heads = m.key_heads = 1, m.key_dim = 48, m.value_dim = 32;
  if (miras_cuda_fast_memory_size(&m, 0)) puts("a memory of 48 is not refused"), failed++;
  printf("memories on their own, off by up to %.4f of their size\n", alone_off);
}

/* ---- whole models ---- */

/* Of two vectors: the cosine, and how far their lengths are apart. */
static double cosine(const float *a, const float *b, size_t n, double *length) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < n; i++) {
    ab += (double)a[i] * (double)b[i];
    aa += (double)a[i] * (double)a[i], bb += (double)b[i] * (double)b[i];
  }
  *length = aa > 0 ? sqrt(bb / aa) : bb > 0 ? 2 : 1;
  return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa > 0 || bb > 0 ? 0 : 1;
}

/* What a call has made of a model: loss, norm, gradients, and parameters behind a step. */
typedef struct model_made {
  float loss, norm;
  float *grads, *params;
  uint16_t *last;                    /* of the first text, what layers end with                   */
} model_made;

static int run_fast(miras_model *m, const int32_t *tokens, int batch, int length, model_made *to) {
  const size_t n = (size_t)(batch * length);
  miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
  miras_cuda_fast f;
  miras_trainer_desc d;
  miras_batch x;
  size_t bytes, count;
  char why[256];
  float *said;
  memset(&d, 0, sizeof d);
  memset(&x, 0, sizeof x);
  d.batch = batch, d.context = MOST;
  bytes = miras_cuda_fast_size(m, &d, why, sizeof why);
  if (!bytes) return printf("refused: %s\n", why), 0;
  take_back();
  said = take(2);
  if (miras_cuda_fast_init(&f, m, &d, take(bytes / 4 + 64), bytes, 0) != MIRAS_OK)
    return puts("does not begin"), 0;
  x.batch = batch, x.length = length;
  x.tokens = (const int32_t *)send(tokens, n * 4);
  x.classes = (const int32_t *)send(tokens + n, n * 4);
  if (miras_cuda_fast_loss(&f, &x, 1, said, 0) != MIRAS_OK ||
      miras_cuda_fast_backward(&f, 0) != MIRAS_OK)
    return puts("does not run"), 0;
  (void)miras_cuda_fast_params(&f, &count);
  to->grads = (float *)malloc(count * 4), to->params = (float *)malloc(count * 4);
  if (!to->grads || !to->params) exit(2);
  fetch(to->grads, miras_cuda_fast_grads(&f, NULL), count * 4);
  to->last = (uint16_t *)malloc((size_t)length * 64 * 2);
  if (!to->last) exit(2);
  fetch(to->last, miras__fast_of(&f)->x + (size_t)m->desc.layers * miras__fast_of(&f)->rows * 64,
        (size_t)length * 64 * 2);
  if (miras_cuda_fast_step(&f, &o, 0.01f, said + 1, 0) != MIRAS_OK) return puts("no step"), 0;
  fetch(to->params, miras_cuda_fast_params(&f, NULL), count * 4);
  fetch(&to->loss, said, 4);
  fetch(&to->norm, said + 1, 4);
  return 1;
}

typedef struct model_case {
  const char *name;
  miras_preset preset;
  int dk, dv, heads, qk_heads, length;
  float dropout;
  const char *pattern;               /* of layers; NULL: the row's own                            */
  int reset;                         /* reset_every                                               */
} model_case;
static miras_weights form;           /* of models of sessions                                     */

/* A model with drawn numbers; NULL: there is none like that. */
static miras_model *model_drawn(const miras_model_desc *d, char *why, size_t n) {
  miras_model *m = miras_model_open(d, NULL, why, n);
  drawn = 11;
  for (size_t i = 0; m && i < (size_t)m->view_count; i++) {
    const miras_view *v = &m->views[i];
    const size_t high = v->rank > 1 ? (size_t)v->shape[0] : 1;
    float *const x = (float *)malloc(v->count * 4);
    if (!x || miras_model_view_read(m, v, 0, high, 0, v->count / high, x) != MIRAS_OK) exit(2);
    for (size_t j = 0; j < v->count; j++) x[j] += draw(-0.1f, 0.1f);
    if (miras_model_view_write(m, v, 0, high, 0, v->count / high, x) != MIRAS_OK) exit(2);
    free(x);
  }
  return m;
}
static miras_model *model_open(const model_case *c) {
  miras_model_desc d;
  miras_model *m;
  char why[256];
  if (miras_model_preset(&d, c->preset, 2) != MIRAS_OK) exit(2);
  d.width = 64, d.vocab = WORDS, d.dropout = c->dropout, d.weights = form;
  d.layer[0].memory.heads = c->heads;
  d.layer[0].memory.key_dim = c->dk, d.layer[0].memory.value_dim = c->dv;
  d.layer[0].mixer.qk_heads = c->qk_heads;
  d.layer[0].memory.reset_every = c->reset;
  if (c->pattern) {
    strcpy(d.pattern, c->pattern);
    attends(&d.layer[2], 4, 2, 32, 24);
    d.layer[2].attention.qk_norm = strchr(c->pattern, 'm') != NULL;
  }
  if (strstr(c->name, "experts")) {
    d.layer[0].mlp.experts = 7, d.layer[0].mlp.shared_experts = 1;
    d.layer[0].mlp.hidden = strcmp(c->name, "narrow experts") ? 96 : 48;
    d.layer[0].mlp.experts_per_token = strcmp(c->name, "experts") ? 2 : 7;
  }
  if (!strcmp(c->name, "width of 36")) d.width = 36;
  if (!strcmp(c->name, "shifted"))
    d.layer[3].mlp.act = MIRAS_FN_RELU2, d.layer[3].mlp.token_shift = 2;
  m = model_drawn(&d, why, sizeof why);
  if (!m) {
    printf("%s: %s\n", c->name, why);
    exit(2);
  }
  return m;
}

/* Gradients of each parameter beside the host's: the least cosine, and how far lengths are off. */
static void compare_views(const miras_model *m, const float *grads, const model_made *once,
                          double *worst, double *far) {
  double length;
  size_t i;
  for (i = 0; i < (size_t)m->view_count; i++) {
    const miras_view *v = &m->views[i];
    const double is = cosine(grads + v->offset, once->grads + v->offset, v->count,
                             &length);
    double size = 0;
    for (size_t j = 0; j < v->count; j++)
      size += (double)once->grads[v->offset + j] * (double)once->grads[v->offset + j];
    size = sqrt(size);               /* small ones are what cancels: the whole counts             */
    if (size > 0.01 * (double)once->norm && is < *worst) *worst = is;
    if (size > 0.01 * (double)once->norm && fabs(length - 1) > *far)
      *far = fabs(length - 1);
    if (size > 0.01 * (double)once->norm && (is < 0.99 || fabs(length - 1) > 0.06)) {
      printf("\n  %s: cosine %.5f, length %.4f", v->name, is, length);
      failed++;
    }
  }
}

static void model(const model_case *c, size_t rows) {
  static int32_t tokens[2 * BATCH * MOST], one[2 * MOST];
  const size_t n = (size_t)(BATCH * c->length);
  miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
  miras_trainer_desc td;
  miras_model *m = model_open(c);
  miras_trainer *t;
  miras_batch x;
  model_made once, again, alone;
  char why[256];
  float loss, norm;
  double worst = 1, length, far = 0, apart = 0, whole;
  size_t count, i;
  (void) miras_model_params(m, &count);
  for (i = 0; i < 2 * n; i++) tokens[i] = (int32_t)(draw(0, 0.999f) * draw(0, 1) * WORDS);
  tokens[n + 3] = -1;
  memset(&td, 0, sizeof td);
  memset(&x, 0, sizeof x);
  td.batch = BATCH, td.context = MOST;
  t = miras_trainer_open(m, &td, NULL, why, sizeof why);
  if (!t) exit(2);
  segment = rows / 64;
  for (i = 0; i < (size_t)c->length; i++) one[i] = tokens[i], one[c->length + i] = tokens[n + i];
  wide_from = 1;
  if (!run_fast(m, one, 1, c->length, &alone)) exit(2);
  wide_from = 128;
  if (!run_fast(m, tokens, BATCH, c->length, &once) ||
      !run_fast(m, tokens, BATCH, c->length, &again)) {
    printf("%s\n", c->name);
    failed++;
    return;
  }
  x.batch = BATCH, x.length = c->length, x.tokens = tokens, x.classes = tokens + n;
  if (miras_trainer_loss(t, &x, 1, &loss) != MIRAS_OK ||
      miras_trainer_backward(t, NULL) != MIRAS_OK)
    exit(2);
  printf("%-20s %3d x %3d, %d of %d heads, %3d tokens: loss %.5f, host %.5f", c->name, c->dk, c->dv,
         c->qk_heads ? c->qk_heads : c->heads, c->heads, c->length, (double)once.loss,
         (double)loss);
  if (!(fabs((double)once.loss - (double)loss) < 0.01 * (double)loss)) {
    printf(" DIFFERS");
    failed++;
  }
  compare_views(m, miras_trainer_grads(t), &once, &worst, &far);
  whole = cosine(miras_trainer_grads(t), once.grads, count, &length);
  if (whole < 0.998 || fabs(length - 1) > 0.02) {
    printf("\n  all of it: cosine %.5f, length %.4f", whole, length);
    failed++;
  }
  (void)miras_trainer_step(t, &o, 0.01f, &norm);
  for (i = 0; i < count; i++) {      /* Adam's is as large as the rate: signs may differ          */
    const double step = fabs((double)m->params[i] - (double)once.params[i]);
    if (step > apart) apart = step;
  }
  if (!(apart < 0.021)) {
    printf("\n  a step ends %.4f apart", apart);
    failed++;
  }
  if (memcmp(once.grads, again.grads, count * 4) || memcmp(once.params, again.params, count * 4)) {
    printf("\n  other bits the second time");
    failed++;
  }
  if (!(c->dropout > 0) && memcmp(once.last, alone.last, (size_t)c->length * 64 * 2)) {
    printf("\n  other bits of a text in another batch");
    failed++;
  }
  if (fabs((double)once.norm - (double)norm) > 0.02 * (double)norm) {
    printf("\n  norm %g, host %g", (double)once.norm, (double)norm);
    failed++;
  }
  printf("; cosine %.5f, of each >= %.5f, lengths within %.4f\n", whole, worst, far);
  free(once.grads), free(once.params), free(once.last);
  free(again.grads), free(again.params), free(again.last);
  free(alone.grads), free(alone.params), free(alone.last);
  miras_close(t);
  miras_close(m);
}

/* Shared memory of chunk kernels by key_dim, as the manual has it: KB. */
static void rooms(void) {
  static const size_t dims[] = {32, 64, 128}, most[2][3] = {{80, 97, 136}, {89, 115, 168}};
  for (int i = 0; i < 3; i++)
    for (int kind = 0; kind < 5; kind++) {
      const miras__fast_set s = kind == 0   ? miras__fast_chunk_kernels<0, 0>(dims[i])
                                : kind == 1 ? miras__fast_chunk_kernels<1, 0>(dims[i])
                                : kind == 2 ? miras__fast_chunk_kernels<0, 1>(dims[i])
                                : kind == 3 ? miras__fast_chunk_kernels<1, 1>(dims[i])
                                            : miras__fast_chunk_kernels<2, 1>(dims[i]);
      size_t bytes = s.bytes1 > s.bytes4 ? s.bytes1 : s.bytes4;
      if (s.bytes2[0] > bytes) bytes = s.bytes2[0];
      if (bytes <= most[kind > 2][i] << 10) continue;
      printf("key_dim %d takes %d bytes of shared memory\n", (int)dims[i], (int)bytes);
      failed++;
    }
  for (int i = 0; i < 4; i++) {      /* of Titans' memory: in clusters; with both layers; alone   */
    static const size_t says[4][2] = {{63, 99}, {108, 180}, {180, 999}, {546, 999}};
    const model_case c = {"titans", MIRAS_PRESET_TITANS, i % 2 ? 128 : 64, i % 2 ? 128 : 64, 1, 0,
                          1, 0, NULL, 0};
    miras_model *m = model_open(&c);
    miras_fast::miras__fast_perceptron x;
    size_t bytes, more;
    (void)miras__fast_perceptron_at(&m->layers[0].p->mixer.plan, 1, 1, i < 2, (size_t)-1, NULL,
                                    &bytes, &x);
    more = bytes + 2 * (2 + (size_t)(x.speed + x.target)) * x.slot;
    if (bytes >> 10 != says[i][0] || (i < 2 && more >> 10 != says[i][1]))
      printf("a perceptron of %d takes %d or %d bytes of shared memory\n", c.dk, (int)bytes,
             (int)more), failed++;
    miras_close(m);
  }
}

/* Bytes of a session for each parameter, as the manual has them, and a hundredth for all else. */
static void weights_rooms(void) {
  static const double each[] = {6, 2, 0, 1.13};
  for (int of = 0; of <= MIRAS_WEIGHTS_Q8; of++) {
    miras_model_desc d;
    miras_model *m;
    char why[256];
    double bytes;
    if (of == MIRAS_WEIGHTS_F16) continue;
    if (miras_model_preset(&d, MIRAS_PRESET_GATED_DELTANET, 2) != MIRAS_OK) exit(2);
    d.width = 768, d.vocab = 32768, d.weights = (miras_weights)of;
    d.layer[0].memory.heads = 12;
    d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = 32;
    m = miras_model_open(&d, NULL, why, sizeof why);
    bytes = (double)miras_cuda_fast_session_size(m, 1, why, sizeof why);
    if (!m) exit(2);
    if (!(bytes > 0) || bytes / (double)m->learned > 1.02 * each[of]) {
      printf("weights %d: a session takes %.3f bytes a parameter\n", of,
             bytes / (double)m->learned);
      failed++;
    }
    miras_close(m);
  }
}

/* ---- sessions ---- */

static const float *step(miras_cuda_fast_session *s, const int32_t *tokens, int batch, int length,
                         int rows, float *to) {
  const size_t all = (size_t)(batch * rows * WORDS);
  float *logits = take(all);
  const int32_t *there = (const int32_t *)send(tokens, (size_t)(batch * length) * 4);
  STOP_IF(miras_cuda_fast_session_feed(s, there, length, logits, rows, 0) != MIRAS_OK);
  fetch(to, logits, all * 4);
  return to;
}

/* Texts side by side, a prompt and then token by token, beyond the window of attention, beside the
 * host's sessions: rows are rounded to bfloat16 some twenty times on the way to logits, each time
 * by up to 2^-9, and matrices that are float once; those of bf16 and q8 have the host's numbers.
 * Heads of some begin anew within. Then the same bits of a text alone, in one call; behind a reset;
 * and where another goes on from its state. */
static void session(const model_case *c) {
  enum { TEXTS = 2, PROMPT = 3, STEPS = 30 };
  static float said[STEPS][TEXTS * WORDS], alone[STEPS * WORDS], more[TEXTS * WORDS];
  miras_cuda_fast_session s, one;
  miras_session *host[TEXTS];
  int32_t tokens[TEXTS][STEPS], prompt[TEXTS * PROMPT], now[TEXTS];
  miras_model *m = model_open(c);
  char why[256];
  const size_t bytes = miras_cuda_fast_session_size(m, TEXTS, why, sizeof why);
  const size_t bytes1 = miras_cuda_fast_session_size(m, 1, why, sizeof why);
  double off = 0, size = 0;
  void *state;
  size_t each;
  if (!bytes || !bytes1) {
    printf("%s: %s\n", c->name, why);
    failed++;
    miras_close(m);
    return;
  }
  take_back();
  STOP_IF(miras_cuda_fast_session_init(&s, m, TEXTS, take(bytes / 4), bytes, 0) != MIRAS_OK);
  STOP_IF(miras_cuda_fast_session_init(&one, m, 1, take(bytes1 / 4), bytes1, 0) != MIRAS_OK);
  for (int i = 0; i < TEXTS; i++) {
    host[i] = miras_session_open(m, NULL, NULL, why, sizeof why);
    if (!host[i]) exit(2);
    for (int t = 0; t < STEPS; t++) tokens[i][t] = (int32_t)draw(0, WORDS - 0.01f);
    memcpy(prompt + i * PROMPT, tokens[i], sizeof(int32_t) * PROMPT);
  }
  for (int t = PROMPT - 1; t < STEPS; t++) {
    for (int i = 0; i < TEXTS; i++) now[i] = tokens[i][t];
    if (t < PROMPT) step(&s, prompt, TEXTS, PROMPT, 1, said[t]);
    else step(&s, now, TEXTS, 1, 1, said[t]);
    for (int i = 0; i < TEXTS; i++) {
      const float *logits = t < PROMPT ? miras_session_feed(host[i], tokens[i], NULL, PROMPT)
                                       : miras_session_step(host[i], tokens[i][t]);
      for (int j = 0; j < WORDS; j++) {
        const double is = (double)said[t][i * WORDS + j], should = (double)logits[j];
        off += (is - should) * (is - should), size += should * should;
      }
    }
  }
  off = sqrt(off / size);
  printf("%-20s %s, %d texts, %d tokens: logits off by %.4f of their size\n", c->name,
         form == MIRAS_WEIGHTS_Q8 ? "q8" : form == MIRAS_WEIGHTS_BF16 ? "bf16" : "float", TEXTS,
         STEPS, off);
  if (!(off < (form ? 0.02 : 0.03))) failed++, puts("  that is too much");
  step(&one, tokens[1], 1, STEPS, STEPS, alone);
  for (int t = PROMPT - 1; t < STEPS; t++)
    if (memcmp(alone + t * WORDS, said[t] + WORDS, WORDS * 4)) {
      printf("%s: other bits of a text alone, token %d\n", c->name, t);
      failed++;
      break;
    }
  STOP_IF(miras_cuda_fast_session_reset(&one, 0, 0) != MIRAS_OK);
  step(&one, tokens[1], 1, PROMPT, 1, alone);
  if (memcmp(alone, said[PROMPT - 1] + WORDS, WORDS * 4))
    printf("%s: other bits behind a reset\n", c->name), failed++;
  state = miras_cuda_fast_session_state(&s, 1, &each);
  STOP_IF(cudaMemcpyAsync(miras_cuda_fast_session_state(&s, 0, NULL), state, each,
                          cudaMemcpyDeviceToDevice, 0));
  now[0] = now[1] = 7;
  step(&s, now, TEXTS, 1, 1, more);
  if (memcmp(more, more + WORDS, WORDS * 4))
    printf("%s: other bits of a state in another text\n", c->name), failed++;
  if (miras_cuda_fast_session_state(&s, TEXTS, &each) || each ||
      miras_cuda_fast_session_reset(&s, TEXTS, 0) != MIRAS_ERR_ARGUMENT ||
      miras_cuda_fast_session_size(m, 0, why, sizeof why) || !strstr(why, "batch is 0"))
    printf("%s: a text that is not there\n", c->name), failed++;
  for (int i = 0; i < TEXTS; i++) miras_close(host[i]);
  miras_close(m);
}

/* A layer whose field has a value is refused, or trains as on the host. Left out are layers that
 * are no smooth functions of their rows, or tell roundings apart: those that choose experts, and
 * errors of keys that are longer than 1. */
static void field(const miras_model_desc *d, const char *name, int value) {
  static int32_t tokens[2 * BATCH * MOST];
  const int length = 17, n = BATCH * length;
  char why[256];
  miras_trainer_desc td;
  miras_trainer *t;
  miras_batch x;
  model_made once;
  float loss;
  double whole, apart, worst = 1;
  const float *grads;
  size_t count;
  miras_model *m = model_drawn(d, why, sizeof why);
  memset(&td, 0, sizeof td), memset(&x, 0, sizeof x);
  td.batch = BATCH, td.context = MOST;
  if (!m || !miras_cuda_fast_size(m, &td, why, sizeof why)) {
    if (m) miras_close(m);
    return;
  }
  checked++;
  for (int i = 0; i < 2 * n; i++) tokens[i] = (int32_t)(draw(0, 0.999f) * draw(0, 1) * WORDS);
  t = miras_trainer_open(m, &td, NULL, why, sizeof why);
  x.batch = BATCH, x.length = length, x.tokens = tokens, x.classes = tokens + n;
  if (!t || miras_trainer_loss(t, &x, 1, &loss) != MIRAS_OK ||
      miras_trainer_backward(t, NULL) != MIRAS_OK || !run_fast(m, tokens, BATCH, length, &once))
    exit(2);
  (void)miras_model_params(m, &count);
  grads = miras_trainer_grads(t);
  whole = cosine(grads, once.grads, count, &apart);
  for (int i = 0; i < m->view_count; i++) {            /* those that are not rounding alone       */
    const miras_view *v = &m->views[i];
    const double is = cosine(grads + v->offset, once.grads + v->offset, v->count, &apart);
    double size = 0;
    for (size_t j = 0; j < v->count; j++)
      size += (double)grads[v->offset + j] * (double)grads[v->offset + j];
    if (is < worst && sqrt(size) > 1e-3 * (double)once.norm) worst = is;
  }
  if (!(whole > 0.99 && worst > 0.9 && fabs((double)once.loss / (double)loss - 1) < 0.002)) {
    printf("%s %d: loss %.5f, host %.5f; cosine %.5f, of each >= %.5f\n", name, value,
           (double)once.loss, (double)loss, whole, worst);
    failed++;
  }
  free(once.grads), free(once.params), free(once.last);
  miras_close(t), miras_close(m);
}
static void fields(miras_preset preset, const char *pattern) {
  miras_model_desc base;
  if (miras_model_preset(&base, preset, 1) != MIRAS_OK) exit(2);
  base.width = 64, base.vocab = WORDS, base.layers = (int)strlen(pattern);
  base.layer[0].memory.heads = 2;
  base.layer[0].memory.key_dim = base.layer[0].memory.value_dim = 32;
  strcpy(base.pattern, pattern);
  attends(&base.layer[2], 4, 2, 32, 24);
  for (int i = 0; i < 2 * MIRAS__FIELDS; i++) {
    const miras__field *f = &miras__fields[i / 2];
    const int real = f->kind == MIRAS__REAL, kind = i % 2 * 2;
    if ((kind && (!miras__of_layer(f) || !strchr(pattern, 'a'))) || f->kind == MIRAS__FACT ||
        f->kind == MIRAS__TEXT || f->kind == MIRAS__WIDE ||
        strstr("width vocab layers weights mlp.experts", f->name))
      continue;
    for (int x = 1; x <= 12; x += f->kind > MIRAS__FUNCTION && x > 2 ? 5 : 1) {
      miras_model_desc d = base;
      char name[96];
      if ((real && x > 1) || x > f->high) break;
      if (!strcmp(f->name, "mixer.qk_map") && x == MIRAS_QK_MAP_RMS) continue;
      miras__set_bits(&d, miras__offset(f, kind), f->size,
                      real ? miras__real_bits(0.3f) : (uint64_t)x);
      snprintf(name, sizeof name, "%s, %s", miras_preset_name(preset), f->name);
      field(&d, name, x);
    }
  }
}

/* What is not run here is refused by a sentence that says what it is. */
static void refused(miras_preset preset, int carried, int rank, int recompute, int reset,
                    const char *says) {
  miras_model_desc d;
  miras_trainer_desc td;
  miras_model *m;
  char why[256] = "";
  if (miras_model_preset(&d, preset, 1) != MIRAS_OK) exit(2);
  d.width = 64, d.vocab = WORDS;
  d.adapter.rank = rank;
  d.layer[0].memory.reset_every = reset;
  if (preset != MIRAS_PRESET_RWKV4)   /* which has no memories */
    d.layer[0].memory.heads = 2, d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = 32;
  m = miras_model_open(&d, NULL, why, sizeof why);
  memset(&td, 0, sizeof td);
  td.context = reset ? reset / 2 + 1 : 8, td.carried = carried, td.recompute = recompute;
  if (m && !miras_cuda_fast_size(m, &td, why, sizeof why) && strstr(why, says)) {
    miras_close(m);
    return;
  }
  printf("a refusal says \"%s\", not \"%s\"\n", why, says);
  failed++;
  miras_close(m);
}
static void refusals(void) {
  refused(MIRAS_PRESET_DFW, 0, 0, 0, 0, "gates gates: it makes other gates");
  refused(MIRAS_PRESET_RWKV6, 0, 0, 0, 0, "blocks moves");
  refused(MIRAS_PRESET_RWKV4, 0, 0, 0, 0, "wkv");
  refused(MIRAS_PRESET_RWKV6_MEMORY, 0, 0, 0, 0, "memory y: its tokens read before they write");
  refused(MIRAS_PRESET_GATED_DELTANET_2, 0, 0, 0, 0, "keys k: its keys are made of gates");
  refused(MIRAS_PRESET_MAMBA3, 0, 0, 0, 0, "gates gates: it makes other gates");
  refused(MIRAS_PRESET_PGDN, 0, 0, 0, 0, "gates gates: it makes other gates");
  refused(MIRAS_PRESET_RAVEN, 0, 0, 0, 0, "keys k: its keys are made of gates");
  refused(MIRAS_PRESET_LOG_LINEAR_GDN, 0, 0, 0, 0, "gates gates: it makes other gates");
  refused(MIRAS_PRESET_TTT_LINEAR, 0, 0, 0, 0,
          "memory y: its memory is not a matrix, nor a perceptron");
  refused(MIRAS_PRESET_MONETA, 0, 0, 0, 0,
          "memory y: its decays or steps are one number per channel");
  refused(MIRAS_PRESET_DELTAPRODUCT, 0, 0, 0, 0, "operation ");
  refused(MIRAS_PRESET_LONGHORN, 0, 0, 0, 0, "memory y: ");
  refused(MIRAS_PRESET_GATED_DELTANET, 3, 0, 0, 0, "carried is 3");
  refused(MIRAS_PRESET_GATED_DELTANET, 0, 2, 0, 0, "adapter.rank is 2");
  refused(MIRAS_PRESET_GATED_DELTANET, 0, 0, 1, 0, "recompute is 1");
  refused(MIRAS_PRESET_TITANS_LMM, 0, 0, 0, 64,
          "context is 33; with perceptrons in the fast tier it is up to 32");
  {
    static const model_case perceptron = {"titans", MIRAS_PRESET_TITANS_LMM, 32, 32, 2, 0, 1, 0,
                                          NULL, 0};
    miras_model *m = model_open(&perceptron);
    char why[256] = "";
    if (miras_cuda_fast_session_size(m, 1, why, sizeof why) || !strstr(why, "has matrix memories"))
      printf("a session's refusal says \"%s\"\n", why), failed++;
    miras_close(m);
  }
  {
    static const model_case of[2] = {
      {"narrow experts", MIRAS_PRESET_DELTANET, 32, 32, 2, 0, 1, 0, NULL, 0},
      {"width of 36", MIRAS_PRESET_DELTANET, 32, 32, 2, 0, 1, 0, NULL, 0}
    };
    static const char *const says[2] = {"width 64, mlp.hidden 48; experts of q8", "width is 36; "};
    for (int i = 0; i < 2; i++) {
      miras_model *m;
      char why[256] = "";
      form = MIRAS_WEIGHTS_Q8, m = model_open(&of[i]), form = MIRAS_WEIGHTS_FLOAT;
      if (miras_cuda_fast_session_size(m, 1, why, sizeof why) || !strstr(why, says[i]))
        printf("%s of q8: \"%s\"\n", of[i].name, why), failed++;
      miras_close(m);
    }
  }
  for (int of = MIRAS_WEIGHTS_BF16; of < MIRAS_WEIGHTS_COUNT; of++) {
    static const model_case plain = {"retnet", MIRAS_PRESET_RETNET, 32, 32, 2, 0, 1, 0, NULL, 0};
    const int takes = of == MIRAS_WEIGHTS_BF16 || of == MIRAS_WEIGHTS_Q8;
    miras_trainer_desc d;
    miras_model *m;
    char why[256] = "";
    form = (miras_weights)of, m = model_open(&plain), form = MIRAS_WEIGHTS_FLOAT;
    memset(&d, 0, sizeof d);
    d.context = 8;
    if (miras_cuda_fast_size(m, &d, why, sizeof why) || !strstr(why, "weights are not float") ||
        !miras_cuda_fast_session_size(m, 1, why, sizeof why) != !takes ||
        (!takes && !strstr(why, of == MIRAS_WEIGHTS_F16 ? "weights are f16; a session of"
                                                        : "weights are q4; a session of")))
      printf("weights %d: \"%s\"\n", of, why), failed++;
    miras_close(m);
  }
}

#ifdef MIRAS_CUDA_SHIM
/* Code of before 8.0 computes nothing: whatever would begin with it says so. */
static void older_code(void) {
  static const model_case plain = {"retnet", MIRAS_PRESET_RETNET, 32, 32, 2, 0, 1, 0, NULL, 0};
  static const model_case large = {"titans", MIRAS_PRESET_TITANS_LMM, 128, 128, 1, 0, 1, 0, NULL,
                                   0};
  miras_model *m = model_open(&plain), *wants_clusters = model_open(&large);
  miras_cuda_fast f;
  miras_cuda_fast_session s;
  miras_cuda_fast_row row;
  miras_cuda_fast_memory memory;
  miras_cuda_fast_memory_grads grads;
  miras_trainer_desc d;
  size_t bytes;
  void *room;
  char why[256] = "";
  memset(&d, 0, sizeof d), memset(&row, 0, sizeof row);
  memset(&memory, 0, sizeof memory), memset(&grads, 0, sizeof grads);
  d.context = 8;
  take_back();
  row.state = take(1024), row.keep = row.step = take(1);
  row.answer = (uint16_t *)(void *)take(1024);
  row.query = row.key = row.value = (const uint16_t *)(const void *)take(1024);
  row.batch = row.heads = row.key_heads = 1, row.key_dim = row.value_dim = 32;
  memory.query = memory.key = memory.value = row.query, memory.answer = row.answer;
  memory.batch = memory.length = memory.heads = memory.key_heads = 1;
  memory.key_dim = memory.value_dim = 32;
  grads.answer = row.query, grads.query = grads.key = grads.value = row.answer;
  if (!miras_cuda_fast_runs(why, sizeof why) || *why) printf("it runs: %s\n", why), failed++;
  shim_code = 75, shim_refuses = 1;
  if (miras_cuda_fast_runs(why, sizeof why) || !strstr(why, "is of compute capability 7.5;"))
    printf("of older code is said \"%s\"\n", why), failed++;
  bytes = miras_cuda_fast_size(m, &d, NULL, 0), room = take(bytes / 4);
  if (miras_cuda_fast_init(&f, m, &d, room, bytes, 0) != MIRAS_ERR_DEVICE)
    puts("a trainer of older code begins"), failed++;
  bytes = miras_cuda_fast_session_size(m, 1, NULL, 0), room = take(bytes / 4);
  if (miras_cuda_fast_session_init(&s, m, 1, room, bytes, 0) != MIRAS_ERR_DEVICE)
    puts("a session of older code begins"), failed++;
  bytes = miras_cuda_fast_memory_size(&memory, 1), room = take(bytes / 4);
  if (miras_cuda_fast_token(&row, 0) != MIRAS_ERR_DEVICE ||
      miras_cuda_fast_memory_forward(&memory, room, bytes, 0) != MIRAS_ERR_DEVICE ||
      miras_cuda_fast_memory_backward(&memory, &grads, room, bytes, 0) != MIRAS_ERR_DEVICE)
    puts("memories of older code run"), failed++;
  shim_code = 80;
  bytes = miras_cuda_fast_size(wants_clusters, &d, NULL, 0), room = take(bytes / 4);
  if (!bytes || miras_cuda_fast_init(&f, wants_clusters, &d, room, bytes, 0) != MIRAS_ERR_DEVICE)
    puts("a perceptron of 128 begins where there are no clusters"), failed++;
  bytes = miras_cuda_fast_memory_size(&memory, 1), room = take(bytes / 4);
  shim_code = 90, shim_refuses = 0, (void)cudaGetLastError();
  if (miras_cuda_fast_token(&row, 0) != MIRAS_OK ||
      miras_cuda_fast_memory_forward(&memory, room, bytes, 0) != MIRAS_OK ||
      miras_cuda_fast_memory_backward(&memory, &grads, room, bytes, 0) != MIRAS_OK)
    puts("memories do not run"), failed++;
  miras_close(m), miras_close(wants_clusters);
}
#else
static void older_code(void) {}
#endif

static const model_case models[] = {
  {"linear-attention", MIRAS_PRESET_LINEAR_ATTENTION, 32, 32, 2, 0, 65, 0, NULL, 0},
  {"retnet", MIRAS_PRESET_RETNET, 32, 64, 2, 0, 64, 0, NULL, 0},
  {"deltanet", MIRAS_PRESET_DELTANET, 64, 32, 1, 0, 130, 0, NULL, 0},
  {"titans-lmm", MIRAS_PRESET_TITANS_LMM, 32, 32, 2, 0, 70, 0, NULL, 0},
  {"ttt-mlp", MIRAS_PRESET_TTT_MLP, 64, 64, 1, 0, 33, 0, NULL, 0},
  {"gated-deltanet", MIRAS_PRESET_GATED_DELTANET, 32, 64, 2, 1, 70, 0.1f, NULL, 0},
  {"mamba2", MIRAS_PRESET_MAMBA2, 32, 32, 2, 1, 17, 0, NULL, 0},
  {"transformer", MIRAS_PRESET_YAAD, 32, 32, 2, 0, 70, 0, "a*2", 0},
  {"hybrid", MIRAS_PRESET_GATED_DELTANET, 32, 32, 2, 0, 65, 0, "ma", 0},
  {"gla", MIRAS_PRESET_GLA, 32, 64, 2, 0, 65, 0, NULL, 0},
  {"hgrn2", MIRAS_PRESET_HGRN2, 32, 32, 2, 0, 33, 0, NULL, 0},
  {"kda", MIRAS_PRESET_KDA, 32, 32, 2, 0, 130, 0, NULL, 0},
  {"anew", MIRAS_PRESET_GATED_DELTANET, 32, 32, 3, 0, 70, 0, NULL, 32},
  {"shifted", MIRAS_PRESET_GATED_DELTANET, 32, 32, 2, 0, 33, 0, "mg", 0},
  {"rwkv7", MIRAS_PRESET_RWKV7, 32, 32, 2, 0, 65, 0, "mgmg", 0},
  {"rwkv7-memory", MIRAS_PRESET_RWKV7_MEMORY, 32, 32, 2, 0, 33, 0, NULL, 0},
  {"experts", MIRAS_PRESET_GATED_DELTANET, 32, 32, 2, 0, 65, 0, NULL, 0}   /* no row chooses      */
};
/* Whose training adds nothing to the others'. */
static const model_case sessions_alone[] = {
  {"rwkv7 of 64", MIRAS_PRESET_RWKV7, 64, 64, 1, 0, 1, 0, NULL, 0},
  {"rwkv7-memory of 128", MIRAS_PRESET_RWKV7_MEMORY, 128, 32, 2, 0, 1, 0, NULL, 16},
  {"rwkv7-memory, anew", MIRAS_PRESET_RWKV7_MEMORY, 32, 96, 2, 0, 1, 0, "ma", 32},
  {"some experts", MIRAS_PRESET_DELTANET, 32, 32, 2, 0, 1, 0, NULL, 0}
};

int main(int argc, char **argv) {
  const unsigned cases = sizeof op_cases / sizeof *op_cases;
  const unsigned sizes = sizeof lengths / sizeof *lengths;
  if (!device_ready()) {
    puts("skipped: there is no device");
    return 77;
  }
  if (argc < 2 || asked(argc, argv, "ops")) {
    for (unsigned i = 0; i < cases; i++)         /* at two sizes, all in turn; attention at all */
      for (unsigned j = op_cases[i].dk ? i % 4 : 0; j < sizes; j += op_cases[i].dk ? 4 : 1)
        operations(&op_cases[i], lengths[j]);
    printf("%u operations, off by up to %.4f of their size\n", checked, most_off);
  }
  if (argc < 2 || asked(argc, argv, "clusters")) {
    most_off = 0;
#ifdef SHIM_RACES
    const unsigned from = RACING;
#else
    const unsigned from = 0;
#endif
    for (unsigned i = from; i < sizeof clusters / sizeof *clusters; i++) {
      cluster_of = clusters[i].cluster, shim_code = clusters[i].code;
      shim_most = (clusters[i].shared ? clusters[i].shared : 227) << 10;
      if (clusters[i].of.dk == 128 && !miras__fast_clusters()) continue;
      operations(&clusters[i].of, clusters[i].length);
    }
    cluster_of = 0, shim_code = 90, shim_most = 227 << 10;
    printf("perceptrons in clusters are off by up to %.4f\n", most_off);
  }
  if (argc < 2 || asked(argc, argv, "whole")) {
    static const size_t ends[] = {1, 7, 15, 16, 17, 63, 64, 65, 300, 1050};
    for (unsigned i = 0; i < 10; i++)
      numbers8(ends[i] < 99 ? ends[i] : 2, ends[9 - i] < 99 ? 40 : 24, ends[i]);
    for (unsigned i = 0; i < 8; i++)
      numbers8(1 + i, ends[i], 96), numbers8(ends[i], 24, 40);
    whole_layer(40, 3), whole_layer(64, 9);
  }
  if (argc < 2 || asked(argc, argv, "token")) {
    tokens(32, 64, 2, 1, 1, 1);
    tokens(64, 48, 1, 1, 0, 0);
    tokens(64, 144, 1, 1, 1, 0);
    tokens(128, 64, 2, 2, 1, 0);
    tokens(32, 64, 2, 2, 2, 1), tokens(64, 48, 1, 1, 2, 0), tokens(128, 32, 2, 2, 2, 0);
  }
  if (argc < 2 || asked(argc, argv, "alone")) alone_all();
  if (argc > 1 && asked(argc, argv, "fields")) { /* minutes                                       */
    checked = 0;
    fields(MIRAS_PRESET_GATED_DELTANET, "ma"), fields(MIRAS_PRESET_RWKV7_MEMORY, "m");
    fields(MIRAS_PRESET_KDA, "m"), fields(MIRAS_PRESET_MAMBA2, "m");
    fields(MIRAS_PRESET_TITANS_LMM, "m"), fields(MIRAS_PRESET_TTT_MLP, "m");
    printf("%u values of fields\n", checked);
  }
  if (argc < 2 || asked(argc, argv, "refusals")) refusals(), older_code(), rooms(), weights_rooms();
  for (unsigned i = 0; i < sizeof models / sizeof *models; i++)
    if (argc < 2 || asked(argc, argv, models[i].name)) model(&models[i], i % 2 ? 64 : 1024);
  for (unsigned i = 5; i < sizeof models / sizeof *models; i++)      /* from gated-deltanet on    */
    if (argc < 2 || asked(argc, argv, "sessions") ||
        (asked(argc, argv, "session") && asked(argc, argv, models[i].name))) {
      session(&models[i]);
      form = i == 6 ? MIRAS_WEIGHTS_BF16 : MIRAS_WEIGHTS_Q8;
      if (i > 5 && i < 9) session(&models[i]);   /* the others add no product                     */
      form = MIRAS_WEIGHTS_FLOAT;
    }
  for (unsigned i = 0; i < sizeof sessions_alone / sizeof *sessions_alone; i++)
    if (argc < 2 || asked(argc, argv, "sessions") || asked(argc, argv, sessions_alone[i].name)) {
      session(&sessions_alone[i]);
      for (int of = 0; of < 2 && strstr(sessions_alone[i].name, "experts"); of++) {
        form = of ? MIRAS_WEIGHTS_Q8 : MIRAS_WEIGHTS_BF16;
        session(&sessions_alone[i]);
      }
      form = MIRAS_WEIGHTS_FLOAT;
    }
  printf("%u wrong\n", failed);
  if (shim_findings()) printf("%u races\n", shim_findings());
  return failed || shim_findings();
}
