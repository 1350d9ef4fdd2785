/* reference.h: every memory of miras.h and its language model, in double precision, token by token.
 *
 * Written from the equations, not from the library: full weight gradients, one matrix entry at a
 * time, no chunked algebra, no shortcuts. From miras.h it takes the public types only, so include
 * miras.h first. Slow on purpose; what it says is what the tests hold the library to.
 *
 * Layouts are those of the public calls (row-major, outermost first), with double for float.
 */
#ifndef MIRAS_REFERENCE_H
#define MIRAS_REFERENCE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REF_LAYERS 4

/* Sanitizers pass the reference over where it takes most of their time (table.sh). */
#if defined(__GNUC__) && defined(MIRAS_REFERENCE_UNWATCHED)
  #define REF static __attribute__((unused, no_sanitize("address", "undefined")))
#elif defined(__GNUC__)
  #define REF static __attribute__((unused))
#else
  #define REF static
#endif

/* Some biases and links have corners. A finite difference across one means nothing, and a float
 * that falls on the other side of one is not an error: so the reference records on which side of
 * each corner it was (a hash of all decisions) and how near it came to the nearest. */
typedef struct ref_branches {
  uint64_t decisions;
  double margin;
  double cancellation; /* largest |z| / deviation of an inner norm: digits that a float loses */
  double terms;        /* the same of what z is summed from, |x| |W_1| |W_2| .. */
} ref_branches;

REF void ref_branches_clear(ref_branches *b) {
  b->decisions = 1469598103934665603u;
  b->margin = 1e30;
  b->cancellation = b->terms = 0.0;
}

REF void ref_branch(ref_branches *b, int side, double distance) {
  if (b == NULL) return;
  b->decisions = (b->decisions ^ (uint64_t)(side + 2)) * 1099511628211u;
  if (fabs(distance) < b->margin) b->margin = fabs(distance);
}

/* Logits so far apart that a softmax is all or nothing: its slope is what a float rounds away. */
REF void ref_branch_logits(ref_branches *b, const double *a, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (fabs(a[i]) > 1e3) ref_branch(b, 1, 0.0);
}

REF void *ref_zeros(size_t count) {
  void *p = calloc(count > 0 ? count : 1, sizeof(double));
  if (p == NULL) {
    fprintf(stderr, "reference: out of memory\n");
    abort();
  }
  return p;
}

/* ---- the descriptor ---- */

/* Biases that know a threshold. */
REF int ref_has_threshold(const miras_memory_desc *d) {
  return d->bias == MIRAS_BIAS_HUBER || d->bias == MIRAS_BIAS_HUBER_NORM ||
         d->bias == MIRAS_BIAS_HUBER_MIXTURE || d->bias == MIRAS_BIAS_PSEUDO_HUBER ||
         d->bias == MIRAS_BIAS_SHIFT_ROBUST || d->bias == MIRAS_BIAS_LOG_COSH ||
         d->bias == MIRAS_BIAS_CUSTOM;
}

/* MIRAS eq. 18: one multiplicative step per chunk; no decay but one towards the initial memory. */
REF int ref_is_divergence(const miras_memory_desc *d) {
  return d->retention == MIRAS_RETENTION_CHI2 || d->retention == MIRAS_RETENTION_REVERSE_KL ||
         d->retention == MIRAS_RETENTION_HELLINGER;
}

/* Slices that sum to c. */
REF int ref_is_simplex(const miras_memory_desc *d) {
  return d->retention == MIRAS_RETENTION_KL || ref_is_divergence(d);
}

/* Retentions whose alpha is the decay gate. */
REF int ref_decays(const miras_memory_desc *d) {
  return !(d->retention == MIRAS_RETENTION_ALL || d->retention == MIRAS_RETENTION_L2_BOTH ||
           d->retention == MIRAS_RETENTION_ELASTIC_FTRL ||
           (ref_is_divergence(d) && !d->decay_target));
}

/* Least squares, by elimination or by recursion: ridges are parameters. */
REF int ref_squares(const miras_memory_desc *d) {
  return d->algorithm == MIRAS_ALGORITHM_LEAST_SQUARES || d->algorithm == MIRAS_ALGORITHM_RECURSIVE;
}

/* By recursion with one count for each weight instead of a matrix of features. */
REF int ref_counts(const miras_memory_desc *d) {
  return d->algorithm == MIRAS_ALGORITHM_RECURSIVE && d->diagonal;
}

/* Chunks are only a schedule: the update is linear in the state (or the state is everything). */
REF int ref_exact(const miras_memory_desc *d) {
  if (d->architecture == MIRAS_ARCH_KV_CACHE || ref_squares(d)) return 1;
  return d->architecture == MIRAS_ARCH_MATRIX &&
         (d->bias == MIRAS_BIAS_DOT || d->bias == MIRAS_BIAS_L2) &&
         (d->retention == MIRAS_RETENTION_ALL || d->retention == MIRAS_RETENTION_L2) &&
         (d->algorithm == MIRAS_ALGORITHM_GD || d->algorithm == MIRAS_ALGORITHM_IMPLICIT ||
          d->algorithm == MIRAS_ALGORITHM_NORMALIZED) &&
         !d->token_rates && !(d->ball > 0.0f) && !d->omega;
}

/* The feature maps and the activations of perceptrons, the usual ones first. */
enum { FEATURE_MAPS = 6, ACTIVATIONS = 3 };
REF miras_function ref_feature_map(int i) {
  static const miras_function maps[FEATURE_MAPS] = {
    MIRAS_FN_NONE, MIRAS_FN_ELU, MIRAS_FN_RELU, MIRAS_FN_RELU2, MIRAS_FN_SOFTMAX, MIRAS_FN_POLY2};
  return maps[i];
}

REF miras_function ref_activation_at(int i) {
  static const miras_function all[ACTIVATIONS] = {MIRAS_FN_GELU, MIRAS_FN_SILU, MIRAS_FN_NONE};
  return all[i];
}

/* Width of what a matrix memory sees of a key. */
REF int ref_features(const miras_memory_desc *d) {
  const int n = d->key_dim;
  return d->feature_map == MIRAS_FN_POLY2 ? 1 + n + n * (n + 1) / 2 : n;
}

/* Channels of the decay gate: features of an exact matrix, else entries of the value, as those of
 * all other gates are. */
REF int ref_keep_channels(const miras_memory_desc *d) {
  if (d->decay_gate == MIRAS_GATE_ENTRY) return d->value_dim;   /* times, of columns              */
  return ref_exact(d) ? ref_features(d) : d->value_dim;
}

/* Numbers per token and head of a gate that has `channels`, and of the decay gate. */
REF int ref_gate_width(miras_gate gate, int channels) {
  return gate >= MIRAS_GATE_CHANNEL ? channels : gate == MIRAS_GATE_HEAD ? 1 : 0;
}

REF int ref_keep_width(const miras_memory_desc *d) {
  return ref_gate_width(d->decay_gate, ref_keep_channels(d));
}

/* ---- heads that start anew ---- */

/* Resets lie on multiples of this many tokens. */
REF int ref_reset_grid(const miras_memory_desc *d) {
  return d->chunk * ((16 + d->chunk - 1) / d->chunk);
}

/* Heads take turns: h starts anew this many tokens before every multiple of reset_every. */
REF uint64_t ref_reset_offset(const miras_memory_desc *d, int h) {
  const uint64_t grid = (uint64_t)ref_reset_grid(d), R = (uint64_t)d->reset_every;
  return (uint64_t)h * R / ((uint64_t)d->heads * grid) * grid;
}

/* Does head h start anew before it writes token t? */
REF int ref_restarts(const miras_memory_desc *d, int h, uint64_t t) {
  if (d->reset_every == 0 || t == 0) return 0;
  return (t + ref_reset_offset(d, h)) % (uint64_t)d->reset_every == 0;
}

/* Tokens that head h has written since it last started, when t are written in all. */
REF uint64_t ref_age(const miras_memory_desc *d, int h, uint64_t t) {
  uint64_t age = 0;
  while (age < t && (age == 0 || !ref_restarts(d, h, t - age))) age++;
  return age;
}

/* The defaults that the comments in miras_memory_desc promise. */
/* Do steps grow by their own size, |r|^(p-1) with p > 2, with no norm and no link that keeps r
 * within limits? Then 0 in step_bound stands for a bound. */
REF int ref_runs_away(const miras_memory_desc *d) {
  if (d->bias != MIRAS_BIAS_LP && d->bias != MIRAS_BIAS_LP_SMOOTH) return 0;
  if (!(d->p > 2.0f) || d->inner_norm) return 0;
  if (d->algorithm != MIRAS_ALGORITHM_GD && d->algorithm != MIRAS_ALGORITHM_MOMENTUM) return 0;
  switch (d->retention) {
    case MIRAS_RETENTION_ALL:
    case MIRAS_RETENTION_L2:
    case MIRAS_RETENTION_L2_BOTH:
    case MIRAS_RETENTION_ELASTIC:
    case MIRAS_RETENTION_ELASTIC_FTRL:
    case MIRAS_RETENTION_LQ: return 1;
    default: return 0;
  }
}

REF miras_memory_desc ref_resolve(const miras_memory_desc *given) {
  miras_memory_desc d = *given;
  if (d.batch == 0) d.batch = 1;
  if (d.heads == 0) d.heads = 1;
  if (d.value_dim == 0) d.value_dim = d.key_dim;
  if (d.chunk == 0) d.chunk = 1;
  if (d.depth == 0) d.depth = 2;
  if (d.expansion == 0) d.expansion = 4;
  if (d.inner_steps == 0) d.inner_steps = 1;
  if (d.window == 0) d.window = 1024;
  if (d.iterations == 0) d.iterations = 30;
  if (!(d.balance > 0.0f)) d.balance = 1.0f;
  if (!(d.decay_ratio > 0.0f)) d.decay_ratio = 1.0f;
  if (!(d.threshold > 0.0f)) {
    d.threshold = 1.0f;
    if (d.inner_norm && (d.bias == MIRAS_BIAS_HUBER_NORM || d.bias == MIRAS_BIAS_HUBER_MIXTURE))
      d.threshold = (float)(3 * sqrt((double)d.value_dim));
  }
  if (!(d.p > 0.0f)) d.p = 3.0f;
  if (!(d.q > 0.0f)) d.q = 4.0f;
  if (!(d.sharpness > 0.0f)) d.sharpness = 10.0f;
  if (!(d.simplex > 0.0f)) d.simplex = 1.0f;
  if (d.step_bound == MIRAS_STEP_BOUND_AUTO && ref_runs_away(&d))
    d.step_bound = d.architecture == MIRAS_ARCH_GATED_MLP ||
                             (d.architecture == MIRAS_ARCH_MLP && d.depth > 1) ? 2 : 1;
  return d;
}

/* Layer l holds a matrix [in, out] at at[l]: z = y W; with inner_bias its biases [out] follow it.
 * Gated: W_1, W_2 (both see the input), W_3. A vector is a layer [1, key_dim]. */
typedef struct ref_shape {
  int layers, in[REF_LAYERS], out[REF_LAYERS], widest;
  size_t at[REF_LAYERS], weights;
} ref_shape;

REF ref_shape ref_shape_of(const miras_memory_desc *d) {
  ref_shape s;
  const int hidden = d->expansion * d->key_dim, gated = d->architecture == MIRAS_ARCH_GATED_MLP;
  memset(&s, 0, sizeof s);
  s.layers = d->architecture == MIRAS_ARCH_MLP ? d->depth : gated ? 3 : 1;
  if (d->architecture == MIRAS_ARCH_KV_CACHE) s.layers = 0;
  s.widest = d->key_dim > d->value_dim ? d->key_dim : d->value_dim;
  for (int l = 0; l < s.layers; l++) {
    s.in[l] = l == 0 || (gated && l == 1) ? ref_features(d) : hidden;
    if (d->architecture == MIRAS_ARCH_VECTOR) s.in[l] = 1;
    s.out[l] = l == s.layers - 1 ? d->value_dim : hidden;
    s.at[l] = s.weights;
    s.weights += (size_t)s.in[l] * (size_t)s.out[l];
    if (d->inner_bias) s.weights += (size_t)s.out[l];
    if (s.in[l] > s.widest) s.widest = s.in[l];
    if (s.out[l] > s.widest) s.widest = s.out[l];
  }
  if (d->normalize) s.weights += (size_t)ref_features(d); /* the sum of phi(k), after S */
  return s;
}

/* Slice n of layer l's matrix: entries first, first + stride, ..., count of them. 0: no more.
 * A slice is a channel: a row of a first layer, a column of a last one (a single layer is a last
 * one); a vector, a layer between, and every layer of a whole simplex, is one slice. */
REF int ref_slice(const miras_memory_desc *d, const ref_shape *s, int l, size_t n, size_t *first,
                  size_t *stride, size_t *count) {
  const size_t rows = (size_t)s->in[l], columns = (size_t)s->out[l];
  const int takes_input = l == 0 || (d->architecture == MIRAS_ARCH_GATED_MLP && l == 1);
  if (d->simplex_whole || d->architecture == MIRAS_ARCH_VECTOR ||
      (!takes_input && l < s->layers - 1)) {
    *first = s->at[l];
    *stride = 1;
    *count = rows * columns;
    return n < 1;
  }
  if (l == s->layers - 1) {
    *first = s->at[l] + n;
    *stride = columns;
    *count = rows;
    return n < columns;
  }
  *first = s->at[l] + n * columns;
  *stride = 1;
  *count = columns;
  return n < rows;
}

/* ---- the custom choices: what the callbacks of miras_custom compute, in double ---- */

typedef struct ref_custom {
  double (*bias)(double *error, const double *r, const double *value, double threshold, int dv);
  void (*link)(double *w, const double *a, int in, int out);
} ref_custom;

static ref_custom ref_hooks;

/* ---- what a memory sees of a key: its length, then its feature map ---- */

REF void ref_map(const miras_memory_desc *d, const double *given, double *phi,
                 ref_branches *branches) {
  const int n = d->key_dim;
  double *x = (double *)ref_zeros((size_t)n), square = 0.0, length = 1.0, top, sum = 0.0;
  int at = 0;
  for (int i = 0; i < n; i++) square += given[i] * given[i];
  if (d->qk_norm != MIRAS_QK_NORM_NONE) length = sqrt(square + 1e-12);
  if (d->qk_norm == MIRAS_QK_NORM_RMS) length /= sqrt((double)n);
  for (int i = 0; i < n; i++) x[i] = given[i] / length;
  top = x[0];
  for (int i = 0; i < n; i++)
    if (x[i] > top) top = x[i];
  for (int i = 0; i < n; i++) sum += exp(x[i] - top);
  switch (d->feature_map) {
    case MIRAS_FN_ELU:
      for (int i = 0; i < n; i++) phi[i] = x[i] > 0.0 ? x[i] + 1.0 : exp(x[i]);
      break;
    case MIRAS_FN_RELU:
      for (int i = 0; i < n; i++) {
        phi[i] = x[i] > 0.0 ? x[i] : 0.0;
        ref_branch(branches, x[i] > 0.0, x[i]);
      }
      break;
    case MIRAS_FN_RELU2:
      for (int i = 0; i < n; i++) phi[i] = x[i] > 0.0 ? x[i] * x[i] : 0.0;
      break;
    case MIRAS_FN_SOFTMAX:
      for (int i = 0; i < n; i++) phi[i] = exp(x[i] - top) / sum;
      break;
    case MIRAS_FN_POLY2:
      phi[at++] = 1.0;
      for (int i = 0; i < n; i++) phi[at++] = x[i];
      for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) phi[at++] = (i == j ? sqrt(0.5) : 1.0) * x[i] * x[j];
      break;
    default:
      for (int i = 0; i < n; i++) phi[i] = x[i];
      break;
  }
  free(x);
}

/* ---- attentional bias: e = dl/dM at M = m, returns l ---- */

REF double ref_sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }

/* The end of the group of entries that `from` is in, of sizes "3,3,5,2" of n in all; "": n; 0:
 * there is no such group. */
REF int ref_group_end(const miras_memory_desc *d, int from, int n) {
  int end = 0, at = 0, used;
  if (d->groups[0] == '\0') return n;
  while (end <= from) {
    int size = 0;
    if (at > 0 && d->groups[at - 1] != ',') return 0;
    if (sscanf(d->groups + at, "%d%n", &size, &used) != 1) return 0;
    end += size;
    at += used + 1;
  }
  return end;
}

/* Cross entropy of a group of n logits m. */
REF double ref_entropy(const double *m, const double *v, double *e, int n) {
  double loss = 0.0, sum = 0.0, s = 0.0, top = m[0];
  for (int i = 0; i < n; i++) top = m[i] > top ? m[i] : top;
  for (int i = 0; i < n; i++) sum += exp(m[i] - top);
  for (int i = 0; i < n; i++) s += v[i];
  for (int i = 0; i < n; i++) {
    e[i] = s * exp(m[i] - top) / sum - v[i];
    loss -= v[i] * m[i];
  }
  return loss + s * (top + log(sum));
}

/* delta [value_dim]: equal entries, but for a threshold per channel; l is that of delta[0]. */
REF double ref_bias(const miras_memory_desc *d, const double *m, const double *v,
                    const double *delta, double *e, ref_branches *branches) {
  const int n = d->value_dim;
  const double p = (double)d->p, nu = (double)d->sharpness;
  double loss = 0.0, square = 0.0, absolute = 0.0, norm, *r;
  for (int i = 0; i < n; i++) {
    square += (m[i] - v[i]) * (m[i] - v[i]);
    absolute += fabs(m[i] - v[i]);
  }
  switch (d->bias) {
    case MIRAS_BIAS_DOT:
      for (int i = 0; i < n; i++) {
        e[i] = -v[i];
        loss -= m[i] * v[i];
      }
      break;
    case MIRAS_BIAS_L2:
      for (int i = 0; i < n; i++) e[i] = m[i] - v[i];
      loss = 0.5 * square;
      break;
    case MIRAS_BIAS_LP:
      for (int i = 0; i < n; i++) {
        const double x = m[i] - v[i];
        e[i] = p * ref_sign(x) * pow(fabs(x), p - 1.0);
        loss += pow(fabs(x), p);
        if (p < 2.0) ref_branch(branches, x > 0.0, x);
      }
      break;
    case MIRAS_BIAS_LP_SMOOTH:
      for (int i = 0; i < n; i++) {
        const double x = m[i] - v[i];
        e[i] = p * tanh(nu * x) * pow(x * x + 1e-6, 0.5 * (p - 1.0));
        loss += pow(x * x + 1e-6, 0.5 * p);
        if (p < 3.0) ref_branch(branches, 0, x / 10.0); /* smooth, but over a thousandth */
      }
      break;
    case MIRAS_BIAS_HUBER:
      for (int i = 0; i < n; i++) {
        const double x = m[i] - v[i];
        const int inside = fabs(x) <= delta[i];
        e[i] = inside ? x : delta[i] * ref_sign(x);
        loss += inside ? 0.5 * x * x : delta[i] * (fabs(x) - 0.5 * delta[i]);
        ref_branch(branches, inside, fabs(x) - delta[i]);
      }
      break;
    case MIRAS_BIAS_HUBER_NORM:
      norm = sqrt(square + 1e-12);
      for (int i = 0; i < n; i++) {
        e[i] = (m[i] - v[i]) * (norm <= delta[i] ? 1.0 : delta[i] / norm);
        ref_branch(branches, norm <= delta[i], norm - delta[i]);
      }
      loss = norm <= delta[0] ? 0.5 * square : delta[0] * (norm - 0.5 * delta[0]);
      break;
    case MIRAS_BIAS_HUBER_MIXTURE:
      norm = sqrt(square);
      for (int i = 0; i < n; i++) {
        e[i] = norm <= delta[i] ? m[i] - v[i] : delta[i] * tanh(nu * (m[i] - v[i]));
        ref_branch(branches, norm <= delta[i], norm - delta[i]);
      }
      loss = norm <= delta[0] ? 0.5 * square : delta[0] * absolute;
      break;
    case MIRAS_BIAS_PSEUDO_HUBER:
      for (int i = 0; i < n; i++) e[i] = (m[i] - v[i]) / sqrt(1.0 + square / (delta[i] * delta[i]));
      loss = delta[0] * delta[0] * (sqrt(1.0 + square / (delta[0] * delta[0])) - 1.0);
      break;
    case MIRAS_BIAS_SHIFT_ROBUST:
      norm = sqrt(square + 1e-6);
      for (int i = 0; i < n; i++) e[i] = (1.0 + delta[i] / norm) * (m[i] - v[i]);
      loss = 0.5 * (norm + delta[0]) * (norm + delta[0]);
      ref_branch(branches, 0, sqrt(square) / 10.0); /* smooth, but over a thousandth */
      break;
    case MIRAS_BIAS_LOG_COSH:
      for (int i = 0; i < n; i++) {
        const double x = m[i] - v[i];
        e[i] = delta[i] * tanh(x / delta[i]);
        loss += delta[0] * delta[0] * log(cosh(x / delta[0]));
      }
      break;
    case MIRAS_BIAS_CUSTOM:
      r = (double *)ref_zeros((size_t)n);
      for (int i = 0; i < n; i++) r[i] = m[i] - v[i];
      loss = ref_hooks.bias(e, r, v, delta[0], n);
      free(r);
      break;
    case MIRAS_BIAS_CROSS_ENTROPY:
      for (int from = 0, end; from < n; from = end) {
        end = ref_group_end(d, from, n);
        loss += ref_entropy(m + from, v + from, e + from, end - from);
      }
      break;
    default: abort();
  }
  return loss;
}

/* What stands for e.r of cross entropy in a bounded step: |e|^4 / H with H the sum over groups of
 * |s| |e|^2 / 2. */
REF double ref_entropy_along(const miras_memory_desc *d, const double *e, const double *v,
                             ref_branches *branches) {
  const int n = d->value_dim;
  double all = 0.0, weighed = 0.0;
  for (int from = 0, end; from < n; from = end) {
    double s = 0.0, square = 0.0;
    end = ref_group_end(d, from, n);
    for (int i = from; i < end; i++) {
      s += v[i];
      square += e[i] * e[i];
    }
    all += square;
    weighed += fabs(s) * square;
    ref_branch(branches, s > 0.0, s);
  }
  return 2.0 * all / (weighed / (all + 1e-30) + 1e-8);
}

/* ---- memory architecture ---- */

REF double ref_activation(miras_function kind, double z) {
  const double y = 0.79788456080286535588 * (z + 0.044715 * z * z * z);
  if (kind == MIRAS_FN_GELU || !kind) return 0.5 * z * (1.0 + tanh(y));
  if (kind == MIRAS_FN_SILU) return z / (1.0 + exp(-z));
  return z;
}

REF double ref_activation_slope(miras_function kind, double z) {
  const double y = 0.79788456080286535588 * (z + 0.044715 * z * z * z);
  const double dy = 0.79788456080286535588 * (1.0 + 3.0 * 0.044715 * z * z);
  const double t = tanh(y), s = 1.0 / (1.0 + exp(-z));
  if (kind == MIRAS_FN_GELU || !kind)
    return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * dy;
  if (kind == MIRAS_FN_SILU) return s * (1.0 + z * (1.0 - s));
  return 1.0;
}

/* What one evaluation of M(W; x) passes through, for the gradient with respect to W. */
typedef struct ref_trace {
  double *y[REF_LAYERS]; /* input of each layer */
  double *z[REF_LAYERS]; /* its product with the weights */
  double *normal;        /* of the inner norm: (z - mean) / deviation */
  double deviation;
  double *sum[2];      /* |x| |W_1| .. |W_l|, of two layers in turn */
  double cancellation; /* largest so far: |z| / deviation */
  double terms;        /* and that sum over the deviation */
  double *out;         /* M(W; x) */
} ref_trace;

REF void ref_trace_open(ref_trace *r, const ref_shape *s) {
  for (int l = 0; l < REF_LAYERS; l++) {
    r->y[l] = (double *)ref_zeros((size_t)s->widest);
    r->z[l] = (double *)ref_zeros((size_t)s->widest);
  }
  for (int i = 0; i < 2; i++) r->sum[i] = (double *)ref_zeros((size_t)s->widest);
  r->normal = (double *)ref_zeros((size_t)s->widest);
  r->out = (double *)ref_zeros((size_t)s->widest);
  r->deviation = 1.0;
  r->cancellation = r->terms = 0.0;
}

REF void ref_trace_close(ref_trace *r) {
  for (int l = 0; l < REF_LAYERS; l++) {
    free(r->y[l]);
    free(r->z[l]);
  }
  free(r->sum[0]);
  free(r->sum[1]);
  free(r->normal);
  free(r->out);
}

/* z = y W (+ b) of one layer. */
REF void ref_layer(const miras_memory_desc *d, const ref_shape *s, int l, const double *W,
                   const double *y, double *z) {
  const size_t rows = (size_t)s->in[l], columns = (size_t)s->out[l];
  const double *w = W + s->at[l];
  for (size_t o = 0; o < columns; o++) {
    double sum = d->inner_bias ? w[rows * columns + o] : 0.0;
    if (d->architecture == MIRAS_ARCH_VECTOR) {
      sum += y[o] * w[o];
    } else {
      for (size_t i = 0; i < rows; i++) sum += y[i] * w[i * columns + o];
    }
    z[o] = sum;
  }
}

/* What the roundings of z are relative to in a chain of layers: their terms, all taken positive. No
 * activation here has a slope above 1.2. Returns the largest. */
REF double ref_terms(const ref_shape *s, const double *W, ref_trace *r) {
  double most = 0.0;
  for (int i = 0; i < s->in[0]; i++) r->sum[0][i] = fabs(r->y[0][i]);
  for (int l = 0; l < s->layers; l++) {
    const double *from = r->sum[l % 2];
    double *to = r->sum[1 - l % 2];
    for (int o = 0; o < s->out[l]; o++) {
      to[o] = 0.0;
      for (int i = 0; i < s->in[l]; i++)
        to[o] += from[i] * fabs(W[s->at[l] + (size_t)(i * s->out[l] + o)]);
      if (l == s->layers - 1 && to[o] > most) most = to[o];
    }
  }
  return most;
}

/* x: what the memory sees, of ref_features entries for a matrix. */
REF void ref_apply(const miras_memory_desc *d, const ref_shape *s, const double *W,
                   const double *gain, const double *offset, const double *x, ref_trace *r) {
  const int last = s->layers - 1, n = d->value_dim;
  const int inputs = d->architecture == MIRAS_ARCH_VECTOR ? d->key_dim : s->in[0];
  for (int i = 0; i < inputs; i++) r->y[0][i] = x[i];
  ref_layer(d, s, 0, W, r->y[0], r->z[0]);
  if (d->architecture == MIRAS_ARCH_GATED_MLP) {
    for (int i = 0; i < inputs; i++) r->y[1][i] = x[i];
    ref_layer(d, s, 1, W, r->y[1], r->z[1]);
    for (int i = 0; i < s->in[2]; i++)
      r->y[2][i] = ref_activation(d->activation, r->z[0][i]) * r->z[1][i];
    ref_layer(d, s, 2, W, r->y[2], r->z[2]);
  } else {
    for (int l = 1; l <= last; l++) {
      for (int i = 0; i < s->in[l]; i++)
        r->y[l][i] = ref_activation(d->activation, r->z[l - 1][i]);
      ref_layer(d, s, l, W, r->y[l], r->z[l]);
    }
  }
  for (int o = 0; o < n; o++) r->out[o] = r->z[last][o];
  if (d->inner_norm) {
    double mean = 0.0, variance = 0.0;
    for (int o = 0; o < n; o++) mean += r->z[last][o] / n;
    for (int o = 0; o < n; o++) variance += (r->z[last][o] - mean) * (r->z[last][o] - mean) / n;
    r->deviation = sqrt(variance + (d->norm_epsilon > 0.0f ? (double)d->norm_epsilon : 1e-5));
    if (d->architecture == MIRAS_ARCH_MLP)
      r->terms = fmax(r->terms, ref_terms(s, W, r) / r->deviation);
    for (int o = 0; o < n; o++) {
      r->cancellation = fmax(r->cancellation, fabs(r->z[last][o]) / r->deviation);
      r->normal[o] = (r->z[last][o] - mean) / r->deviation;
      r->out[o] = gain[o] * r->normal[o] + offset[o];
    }
  }
  if (d->inner_residual)
    for (int o = 0; o < n; o++) r->out[o] += x[o];
}

/* Gradient of layer l's weights from dz, and dy = dz W'. */
REF void ref_layer_gradient(const miras_memory_desc *d, const ref_shape *s, int l, const double *W,
                            const double *y, const double *dz, double *g, double *dy) {
  const size_t rows = (size_t)s->in[l], columns = (size_t)s->out[l];
  const double *w = W + s->at[l];
  double *to = g + s->at[l];
  if (d->inner_bias)
    for (size_t o = 0; o < columns; o++) to[rows * columns + o] = dz[o];
  if (d->architecture == MIRAS_ARCH_VECTOR) {
    for (size_t o = 0; o < columns; o++) to[o] = y[o] * dz[o];
    return;
  }
  for (size_t i = 0; i < rows; i++) {
    dy[i] = 0.0;
    for (size_t o = 0; o < columns; o++) {
      to[i * columns + o] = y[i] * dz[o];
      dy[i] += w[i * columns + o] * dz[o];
    }
  }
}

/* g = (dM/dW)' e, every weight in full. */
REF void ref_gradient(const miras_memory_desc *d, const ref_shape *s, const double *W,
                      const double *gain, const ref_trace *r, const double *e, double *g) {
  const int last = s->layers - 1, n = d->value_dim;
  double *dz = (double *)ref_zeros((size_t)s->widest);
  double *dy = (double *)ref_zeros((size_t)s->widest);
  double *other = (double *)ref_zeros((size_t)s->widest);
  for (int o = 0; o < n; o++) dz[o] = e[o];
  if (d->inner_norm) {
    double mean = 0.0, along = 0.0;
    for (int o = 0; o < n; o++) {
      mean += gain[o] * e[o] / n;
      along += gain[o] * e[o] * r->normal[o] / n;
    }
    for (int o = 0; o < n; o++)
      dz[o] = (gain[o] * e[o] - mean - r->normal[o] * along) / r->deviation;
  }
  if (d->architecture == MIRAS_ARCH_GATED_MLP) { /* y_3 = act(z_1) (.) z_2 */
    ref_layer_gradient(d, s, 2, W, r->y[2], dz, g, dy);
    for (int i = 0; i < s->in[2]; i++) {
      dz[i] = dy[i] * ref_activation_slope(d->activation, r->z[0][i]) * r->z[1][i];
      other[i] = dy[i] * ref_activation(d->activation, r->z[0][i]);
    }
    ref_layer_gradient(d, s, 1, W, r->y[1], other, g, dy);
    ref_layer_gradient(d, s, 0, W, r->y[0], dz, g, dy);
  } else {
    for (int l = last; l >= 0; l--) {
      ref_layer_gradient(d, s, l, W, r->y[l], dz, g, dy);
      if (l > 0)
        for (int i = 0; i < s->in[l]; i++)
          dz[i] = dy[i] * ref_activation_slope(d->activation, r->z[l - 1][i]);
    }
  }
  free(dz);
  free(dy);
  free(other);
}

/* ---- retention ---- */

REF double ref_norm_q(const double *a, size_t count, double q) {
  double sum = 0.0, norm;
  for (size_t i = 0; i < count; i++) sum += pow(fabs(a[i]), q);
  norm = pow(sum, 1.0 / q);
  return norm < 1e-6 ? 1e-6 : norm;
}

/* Softmax of the entries first, first + stride, ..., count of them, times c. */
REF void ref_softmax(const double *a, double *w, size_t first, size_t stride, size_t count,
                     double c) {
  double top = a[first], sum = 0.0;
  for (size_t i = 0; i < count; i++)
    if (a[first + i * stride] > top) top = a[first + i * stride];
  for (size_t i = 0; i < count; i++) sum += exp(a[first + i * stride] - top);
  for (size_t i = 0; i < count; i++)
    w[first + i * stride] = c * exp(a[first + i * stride] - top) / sum;
}

/* w = c softmax(a) slice by slice. */
REF void ref_simplex(const miras_memory_desc *d, const ref_shape *s, const double *a, double *w) {
  size_t first, stride, count;
  for (int l = 0; l < s->layers; l++)
    for (size_t n = 0; ref_slice(d, s, l, n, &first, &stride, &count); n++)
      ref_softmax(a, w, first, stride, count, (double)d->simplex);
}

/* Slice by slice w = c sinh(a) / sum cosh(a) and, not NULL, its slope c cosh(a) / sum cosh(a). */
REF void ref_signed_simplex(const miras_memory_desc *d, const ref_shape *s, const double *a,
                            double *w, double *slope) {
  const double c = (double)d->simplex;
  size_t first, stride, count;
  for (int l = 0; l < s->layers; l++)
    for (size_t n = 0; ref_slice(d, s, l, n, &first, &stride, &count); n++) {
      double top = 0.0, sum = 0.0; /* every exponential is divided by that of top */
      for (size_t i = 0; i < count; i++)
        if (fabs(a[first + i * stride]) > top) top = fabs(a[first + i * stride]);
      for (size_t i = 0; i < count; i++)
        sum += exp(a[first + i * stride] - top) + exp(-a[first + i * stride] - top);
      for (size_t i = 0; i < count; i++) {
        const size_t at = first + i * stride;
        const double plus = exp(a[at] - top), minus = exp(-a[at] - top);
        w[at] = c * (plus - minus) / sum;
        if (slope != NULL) slope[at] = c * (plus + minus) / sum;
      }
    }
}

/* Elastic nets. The corner is continuous: a hundred thousandth is distance enough. */
REF double ref_shrink(const miras_memory_desc *d, double a, double gamma, ref_branches *branches) {
  const double pi = 3.14159265358979323846;
  if (!(gamma > 0.0)) return a;
  if (d->smooth_shrink) return a * atan(2.0 * fabs(a) / (pi * gamma)) / (0.5 * pi);
  ref_branch(branches, fabs(a) > gamma, 10.0 * (fabs(a) - gamma));
  return fabs(a) > gamma ? ref_sign(a) * (fabs(a) - gamma) : 0.0;
}

/* What is left of a when its distance from `from` is shrunk. */
REF double ref_shrink_from(const miras_memory_desc *d, double from, double a, double gamma,
                           ref_branches *branches) {
  return from + ref_shrink(d, a - from, gamma, branches);
}

/* ginv = (f')^-1 of the f-divergences at y. */
REF double ref_ginv(miras_retention kind, double y) {
  if (kind == MIRAS_RETENTION_CHI2) return y > -1.0 ? 1.0 + y : 0.0;
  if (kind == MIRAS_RETENTION_REVERSE_KL) return -1.0 / y;
  return 1.0 / ((1.0 - y) * (1.0 - y));
}

/* W <- W (.) ginv(F - zeta) of one slice, F = -sum eta g decayed, zeta such that the slice sums to
 * c: the sum falls as zeta grows, so bisection finds it. */
REF void ref_divergence(const miras_memory_desc *d, double *W, const double *F, size_t first,
                        size_t stride, size_t count, ref_branches *branches) {
  const double c = (double)d->simplex;
  double top = F[first], low, high, zeta;
  for (size_t i = 0; i < count; i++)
    if (F[first + i * stride] > top) top = F[first + i * stride];
  low =
    top + (d->retention == MIRAS_RETENTION_REVERSE_KL ? 0.0 : -1.0); /* the pole of the domain */
  if (d->retention == MIRAS_RETENTION_CHI2) { /* no pole: go down until the sum is large enough */
    for (double by = 1.0;; by *= 2.0) {
      double sum = 0.0;
      low = top - by;
      for (size_t i = 0; i < count; i++)
        sum += W[first + i * stride] * ref_ginv(d->retention, F[first + i * stride] - low);
      if (!(sum <= c)) break; /* also when it is not a number */
    }
  }
  for (double by = 1.0;; by *= 2.0) {
    double sum = 0.0;
    high = low + by;
    for (size_t i = 0; i < count; i++)
      sum += W[first + i * stride] * ref_ginv(d->retention, F[first + i * stride] - high);
    if (!(sum >= c)) break;
  }
  for (int n = 0; n < 200; n++) {
    double sum = 0.0;
    zeta = 0.5 * (low + high);
    if (!(zeta > low && zeta < high)) break;
    for (size_t i = 0; i < count; i++)
      sum += W[first + i * stride] * ref_ginv(d->retention, F[first + i * stride] - zeta);
    if (sum > c)
      low = zeta;
    else
      high = zeta;
  }
  zeta = 0.5 * (low + high);
  for (size_t i = 0; i < count; i++) {
    const double y = F[first + i * stride] - zeta;
    if (d->retention == MIRAS_RETENTION_CHI2 && W[first + i * stride] > 0.0)
      ref_branch(branches, y > -1.0, 10.0 * (y + 1.0));
    W[first + i * stride] *= ref_ginv(d->retention, y);
  }
}

/* W = link(A), given the initial memory B. c[l] receives ||A_l||_q^(q-2) of each weight matrix:
 * what an open chunk of an L_q memory divides by. Signs matter to the L_q links where their power
 * is not differentiable at 0. Where the state is W itself the link is the identity. Biases of
 * layers have no link. */
REF void ref_link(const miras_memory_desc *d, const ref_shape *s, const double *B, const double *A,
                  double *W, double *c, ref_branches *branches) {
  const double q = (double)d->q;
  for (size_t i = 0; i < s->weights; i++) W[i] = A[i];
  for (int l = 0; l < s->layers; l++) {
    const size_t count = (size_t)s->in[l] * (size_t)s->out[l];
    const double *a = A + s->at[l];
    double *w = W + s->at[l];
    c[l] = 1.0;
    if (d->retention == MIRAS_RETENTION_LQ || d->retention == MIRAS_RETENTION_LQ_PNORM)
      c[l] = pow(ref_norm_q(a, count, q), q - 2.0);
    if (d->retention == MIRAS_RETENTION_CUSTOM) ref_hooks.link(w, a, s->in[l], s->out[l]);
    for (size_t i = 0; i < count; i++) switch (d->retention) {
        case MIRAS_RETENTION_LQ:
          w[i] = a[i] / c[l];
          if (q <= 1.0) ref_branch(branches, a[i] > 0.0, a[i]);
          break;
        case MIRAS_RETENTION_LQ_PNORM:
          w[i] = ref_sign(a[i]) * pow(fabs(a[i]), q - 1.0) / c[l];
          if (q < 2.0) ref_branch(branches, a[i] > 0.0, a[i]);
          break;
        case MIRAS_RETENTION_ELASTIC_FTRL:
          w[i] = ref_shrink_from(d, d->decay_target ? B[s->at[l] + i] : 0.0, a[i],
                                 (double)d->sparsity, branches);
          break;
        case MIRAS_RETENTION_SIGMOID: w[i] = 1.0 / (1.0 + exp(-a[i])); break;
        case MIRAS_RETENTION_TANH: w[i] = tanh(a[i]); break;
        default: break;
      }
  }
  if (d->retention == MIRAS_RETENTION_KL) {
    ref_branch_logits(branches, A, s->weights);
    if (d->simplex_signed)
      ref_signed_simplex(d, s, A, W, NULL);
    else
      ref_simplex(d, s, A, W);
  }
}

/* J of the bounded step: how far each weight W moves with its own entry of the dual state A, the
 * norms and sums of its layer held. */
REF void ref_slopes(const miras_memory_desc *d, const ref_shape *s, const double *A,
                    const double *W, const double *c, double *J) {
  for (size_t i = 0; i < s->weights; i++) J[i] = 1.0;
  for (int l = 0; l < s->layers; l++)
    for (size_t n = 0; n < (size_t)s->in[l] * (size_t)s->out[l]; n++) {
      const size_t i = s->at[l] + n;
      switch (d->retention) {
        case MIRAS_RETENTION_LQ: J[i] = 1.0 / c[l]; break;
        case MIRAS_RETENTION_SIGMOID: J[i] = W[i] * (1.0 - W[i]); break;
        case MIRAS_RETENTION_TANH: J[i] = 1.0 / (cosh(A[i]) * cosh(A[i])); break;
        case MIRAS_RETENTION_KL:
        case MIRAS_RETENTION_CHI2:
        case MIRAS_RETENTION_REVERSE_KL: J[i] = W[i]; break;
        case MIRAS_RETENTION_HELLINGER: J[i] = 2.0 * W[i]; break;
        default: break;
      }
    }
  if (d->simplex_signed) {
    double *unused = (double *)ref_zeros(s->weights);
    ref_signed_simplex(d, s, A, unused, J);
    free(unused);
  }
}

/* ---- a memory ---- */

typedef struct ref_tokens {
  int length;
  const double *key, *value, *query, *keep, *step, *momentum, *threshold;
  const double *value_keep, *erase, *replace;
} ref_tokens;

/* One token of one head, every gate spelled out. */
typedef struct ref_token {
  const double *key, *value, *query; /* [steps, key_dim], [steps, value_dim], [key_dim] or NULL */
  const double *erase, *replace;     /* [key_dim] */
  double *keep, *value_keep;         /* [keep_channels], [value_dim] */
  double *step, *threshold;          /* [steps, value_dim], [value_dim] */
  double momentum;
} ref_token;

/* Pairs that an Omega window keeps, and how many numbers each is: its key as the layers see it, its
 * value, its thresholds. */
REF size_t ref_past(const miras_memory_desc *d) {
  return d->omega > 1 ? (size_t)d->omega - 1 : 0;
}

REF size_t ref_past_thresholds(const miras_memory_desc *d) {
  return !ref_has_threshold(d) ? 0
         : d->threshold_gate == MIRAS_GATE_CHANNEL ? (size_t)d->value_dim : 1;
}

REF size_t ref_past_wide(const miras_memory_desc *d) {
  return (size_t)ref_features(d) + (size_t)d->value_dim + ref_past_thresholds(d);
}

/* Does a memory keep what is usual, N, S and U, to judge its pairs or ridges by? */
REF int ref_judges(const miras_memory_desc *d) {
  return d->algorithm == MIRAS_ALGORITHM_RECURSIVE && (d->outlier > 0.0f || d->ridge_relative);
}

/* State of a head after a closed chunk: A [weights] and momentum S [weights]; then Newton's H
 * [features, features], or pairs [window, key_dim + value_dim] from the
 * oldest and how many there are. */
typedef struct ref_memory {
  miras_memory_desc d;
  ref_shape s;
  int features, keep_channels;
  int *layer, *channel, *is_bias; /* of each weight; channel: which entry of a gate acts on it */
  double *params; /* in the layout of miras_memory_params */
  double *state;  /* [batch, heads, per_head] */
  size_t per_head, at_s, at_more;
  double *open; /* of the open chunk [batch, heads, OPEN_COUNT, weights]: OPEN_... below */
  double *c;    /* normalisers of the chunk's start [batch, heads, REF_LAYERS] */
  uint64_t position;
  ref_branches *branches; /* NULL, or what was decided */
  ref_trace trace;
  double *e, *g, *x;
} ref_memory;

enum {
  OPEN_HOME,     /* the state that a reset leaves, where decays towards the initial memory lead */
  OPEN_ANCHOR,   /* weights at which gradients are taken */
  OPEN_SLOPE,    /* J there */
  OPEN_BASE,     /* what the chunk's own steps are added to, decayed */
  OPEN_OWN,      /* sum of the chunk's own steps, decayed */
  OPEN_S_BASE,   /* momentum from before the chunk, decayed */
  OPEN_S_OWN,    /* momentum of the chunk's own steps */
  OPEN_SPARSITY, /* gamma of the elastic net, per weight */
  OPEN_READ,     /* weights that a query is answered with */
  OPEN_COUNT
};

REF size_t ref_params_count(const miras_memory_desc *given) {
  const miras_memory_desc d = ref_resolve(given);
  const ref_shape s = ref_shape_of(&d);
  size_t count = (size_t)d.heads * s.weights;
  if (d.inner_norm) count += 2 * (size_t)d.heads * (size_t)d.value_dim;
  if (d.token_rates) count += (size_t)d.chunk;
  if (ref_squares(&d)) count += (size_t)d.heads * (size_t)ref_features(&d);
  if (d.decay_gate == MIRAS_GATE_ENTRY) count += (size_t)d.heads * s.weights;
  return count;
}

REF double *ref_head_state(const ref_memory *m, int b, int h) {
  return m->state + ((size_t)b * (size_t)m->d.heads + (size_t)h) * m->per_head;
}

REF double *ref_head_open(const ref_memory *m, int b, int h, int which) {
  const size_t head = (size_t)b * (size_t)m->d.heads + (size_t)h;
  return m->open + (head * OPEN_COUNT + (size_t)which) * m->s.weights;
}

/* The initial memory of head h as the parameters have it: dual state, or logits. */
REF const double *ref_init(const ref_memory *m, int h) {
  return m->params + (size_t)h * m->s.weights;
}

/* Ridge i of head h. */
REF double ref_ridge(const ref_memory *m, int h, size_t i) {
  const size_t F = (size_t)m->features;
  const double raw = m->params[(size_t)m->d.heads * m->s.weights + (size_t)h * F + i];
  return log1p(exp(-fabs(raw))) + (raw > 0.0 ? raw : 0.0);
}

/* a of entry i [features, value_dim] of head h. */
REF double ref_entry_log(const ref_memory *m, int h, size_t i) {
  return m->params[((size_t)m->d.heads + (size_t)h) * m->s.weights + i];
}

/* The entries S [features, value_dim] of head h decay towards `to`, or 0 where that is NULL; scale
 * [features, value_dim] receives how much of a pair is written into each. Complex entries turn by
 * an angle a times its own time. first: the head's first token. */
REF void ref_decay_entries(const ref_memory *m, int h, const double *to, const double *time,
                           double *S, double *scale, int first) {
  const size_t n = (size_t)m->features, dv = (size_t)m->d.value_dim, half = dv / 2;
  const size_t parts = m->d.turning ? half : dv;
  for (size_t i = 0; i < n * dv; i += dv)
    for (size_t j = i; j < i + parts; j++) {
      const double left = exp(-exp(ref_entry_log(m, h, j)) * time[j % dv]);
      const double less = m->d.write_scale == MIRAS_WRITE_SCALE_NONE   ? 1.0
                          : m->d.write_scale == MIRAS_WRITE_SCALE_REST ? 1.0 - left
                          : m->d.write_scale == MIRAS_WRITE_SCALE_START && first
                            ? 1.0 : sqrt((1.0 - left) * (1.0 + left));
      const double re = S[j] - (to ? to[j] : 0.0);
      if (m->d.write_scale == MIRAS_WRITE_SCALE_ROOT || m->d.write_scale == MIRAS_WRITE_SCALE_START)
        ref_branch(m->branches, left < 1.0, 1.0); /* where the root's slope has no end */
      scale[j] = less;
      if (!m->d.turning) {
        S[j] = (to ? to[j] : 0.0) + left * re;
      } else {
        const double im = S[j + half] - (to ? to[j + half] : 0.0);
        const double angle = ref_entry_log(m, h, j + half) * time[j % dv + half];
        S[j] = (to ? to[j] : 0.0) + left * (re * cos(angle) - im * sin(angle));
        S[j + half] = (to ? to[j + half] : 0.0) + left * (re * sin(angle) + im * cos(angle));
        scale[j + half] = less;
      }
    }
}

REF void ref_reset_head(ref_memory *m, int b, int h) {
  const size_t P = m->s.weights;
  const double *init = ref_init(m, h);
  double *state = ref_head_state(m, b, h), *home = ref_head_open(m, b, h, OPEN_HOME);
  double c[REF_LAYERS];
  for (size_t i = 0; i < m->per_head; i++) state[i] = i < P ? init[i] : 0.0;
  for (size_t i = 0; m->d.algorithm == MIRAS_ALGORITHM_RECURSIVE && !m->d.diagonal &&
                     i < (size_t)m->features; i++)
    state[m->at_more + i * ((size_t)m->features + 1)] = 1.0 / ref_ridge(m, h, i);
  if (ref_is_divergence(&m->d)) ref_simplex(&m->d, &m->s, init, state);
  for (size_t i = 0; i < P; i++) home[i] = state[i];
  ref_link(&m->d, &m->s, home, state, ref_head_open(m, b, h, OPEN_READ), c, NULL);
}

REF void ref_reset(ref_memory *m) {
  for (int b = 0; b < m->d.batch; b++)
    for (int h = 0; h < m->d.heads; h++) ref_reset_head(m, b, h);
  m->position = 0;
}

/* Of memories that are descended: they have the channels of the value, which are the outputs of the
 * last layer and the inputs of a first one (where gates are one number, their entries are equal). A
 * bias follows the matrix of its layer. */
REF void ref_entries(ref_memory *m) {
  const size_t P = m->s.weights;
  m->layer = (int *)ref_zeros(P);
  m->channel = (int *)ref_zeros(P);
  m->is_bias = (int *)ref_zeros(P);
  for (int l = 0; l < m->s.layers; l++) {
    const size_t rows = (size_t)m->s.in[l] + (m->d.inner_bias ? 1 : 0);
    for (size_t i = 0; i < rows; i++)
      for (size_t o = 0; o < (size_t)m->s.out[l]; o++) {
        const size_t at = m->s.at[l] + i * (size_t)m->s.out[l] + o;
        m->layer[at] = l;
        m->is_bias[at] = i == (size_t)m->s.in[l];
        if (l == m->s.layers - 1)
          m->channel[at] = (int)o;
        else if (i < (size_t)m->d.value_dim)
          m->channel[at] = (int)i;
      }
  }
}

REF void ref_open(ref_memory *m, const miras_memory_desc *given, const double *params) {
  size_t heads, count = ref_params_count(given), F, P;
  memset(m, 0, sizeof *m);
  m->d = ref_resolve(given);
  m->s = ref_shape_of(&m->d);
  m->features = ref_features(&m->d);
  m->keep_channels = ref_keep_channels(&m->d);
  F = (size_t)m->features;
  P = m->s.weights;
  heads = (size_t)m->d.batch * (size_t)m->d.heads;
  m->at_s = P;
  m->at_more = m->per_head = 2 * P;
  if (m->d.algorithm == MIRAS_ALGORITHM_LEAST_SQUARES) m->per_head += F * F;
  if (m->d.algorithm == MIRAS_ALGORITHM_RECURSIVE) m->per_head += m->d.diagonal ? P : F * F + F;
  if (ref_judges(&m->d)) m->per_head += 3;
  m->per_head += ref_past(&m->d) * ref_past_wide(&m->d);
  if (m->d.architecture == MIRAS_ARCH_KV_CACHE)
    m->per_head += 1 + (size_t)m->d.window * (size_t)(m->d.key_dim + m->d.value_dim);
  ref_entries(m);
  m->params = (double *)ref_zeros(count);
  for (size_t i = 0; i < count; i++) m->params[i] = params[i];
  m->state = (double *)ref_zeros(heads * m->per_head);
  m->open = (double *)ref_zeros(heads * OPEN_COUNT * P);
  m->c = (double *)ref_zeros(heads * REF_LAYERS);
  m->e = (double *)ref_zeros((size_t)m->d.value_dim);
  m->g = (double *)ref_zeros(P);
  m->x = (double *)ref_zeros(F);
  ref_trace_open(&m->trace, &m->s);
  ref_reset(m);
}

REF void ref_close(ref_memory *m) {
  free(m->layer);
  free(m->channel);
  free(m->is_bias);
  free(m->params);
  free(m->state);
  free(m->open);
  free(m->c);
  free(m->e);
  free(m->g);
  free(m->x);
  ref_trace_close(&m->trace);
}

REF const double *ref_gain(const ref_memory *m, int h, int which) {
  const size_t dv = (size_t)m->d.value_dim, heads = (size_t)m->d.heads;
  return m->params + heads * m->s.weights + ((size_t)which * heads + (size_t)h) * dv;
}

/* rate_t of row t of a chunk. */
REF double ref_rate(const ref_memory *m, uint64_t t) {
  const size_t heads = (size_t)m->d.heads;
  const double *rho = m->params + heads * m->s.weights;
  double rate = 1.0 / ((double)t + 1.0);
  if (!m->d.token_rates) return 1.0;
  if (m->d.inner_norm) rho += 2 * heads * (size_t)m->d.value_dim;
  if (m->d.token_rates == MIRAS_TOKEN_RATES_SOFTPLUS)
    return log(1.0 + exp(16.0 * rho[t]) * (exp(16.0 * rate) - 1.0)) / 16.0;
  rate += rho[t];
  ref_branch(m->branches, rate > 0.0, rate);
  return rate > 0.0 ? rate : 0.0;
}

/* The exact linear memory: S [features, value_dim] = A, with initial memory B.
 *   S~ = B + diag(keep) (S - B) diag(value_keep), or the same with 0 for B
 *   error first:    S <- S~ - k (eta (.) (S' k - v))'   decay first: the error is that of S~
 *   normalized:     eta / (step_epsilon + k.k) for eta
 *   implicit:       eta / (1 + eta k.k) for eta, and so when steps are bounded; diagonal: k^2 (.) S
 *                   for k k' S
 *   separate erase: S <- S~ + b (a' S) + k (eta (.) v)'
 * with k = phi(key) and an eta for every entry of the value; of several inner_steps the first
 * decays. Normalised, z adds phi(key) as S does. first: of the head. Returns the loss before the
 * first descent. */
REF double ref_write_exact(ref_memory *m, double *state, int h, const ref_token *x, int first) {
  const miras_memory_desc *d = &m->d;
  const size_t F = (size_t)m->features, dv = (size_t)d->value_dim, P = F * dv;
  const int implicit =
    d->bias == MIRAS_BIAS_L2 && (d->algorithm == MIRAS_ALGORITHM_IMPLICIT || d->step_bound);
  const double *B = ref_init(m, h);
  double *S = state, *z = state + P, loss = 0.0, one;
  double *before = (double *)ref_zeros(P), *answer = (double *)ref_zeros(dv);
  double *k = m->x, *erased = (double *)ref_zeros(dv), *eta = (double *)ref_zeros(dv);
  double *scale = (double *)ref_zeros(P);
  for (size_t i = 0; i < P; i++) scale[i] = 1.0;
  for (int j = 0; j < d->inner_steps; j++) {
    const double *v = x->value + (size_t)j * dv;
    double kk = 0.0;
    ref_map(d, x->key + (size_t)j * (size_t)d->key_dim, k, m->branches);
    for (size_t i = 0; i < P; i++) before[i] = S[i];
    if (d->decay_gate == MIRAS_GATE_ENTRY)
      ref_decay_entries(m, h, d->decay_target ? B : NULL, x->keep, S, scale, first);
    for (size_t i = 0; i < P && j == 0 && d->decay_gate != MIRAS_GATE_ENTRY; i++) {
      const double to = d->decay_target ? B[i] : 0.0;
      S[i] = to + x->keep[i / dv] * (S[i] - to) * x->value_keep[i % dv];
    }
    for (size_t i = 0; i < F && j == 0 && d->normalize; i++) {
      const double to = d->decay_target ? B[P + i] : 0.0;
      z[i] = to + x->keep[i] * (z[i] - to);
    }
    if (d->order == MIRAS_ORDER_DECAY_FIRST)
      for (size_t i = 0; i < P; i++) before[i] = S[i];
    for (size_t o = 0; o < dv; o++) {
      answer[o] = erased[o] = 0.0;
      for (size_t i = 0; i < F; i++) answer[o] += before[i * dv + o] * k[i];
      for (size_t i = 0; i < F && d->separate_erase; i++)
        erased[o] += before[i * dv + o] * x->erase[i];
    }
    for (size_t i = 0; i < F; i++) kk += k[i] * k[i];
    one = ref_bias(d, answer, v, x->threshold, m->e, m->branches);
    if (j == 0) loss = one;
    for (size_t o = 0; o < dv; o++) {
      eta[o] = x->step[(size_t)j * dv + o];
      if (implicit) eta[o] = eta[o] / (1.0 + eta[o] * kk);
      if (d->algorithm == MIRAS_ALGORITHM_NORMALIZED)
        eta[o] /= (double)(d->step_epsilon > 0.0f ? d->step_epsilon : 1e-6f) + kk;
    }
    for (size_t i = 0; i < F; i++) {
      if (d->normalize) z[i] += eta[0] * k[i];
      for (size_t o = 0; o < dv; o++) {
        if (d->separate_erase)
          S[i * dv + o] += x->replace[i] * erased[o] + eta[o] * k[i] * v[o];
        else if (d->diagonal)
          S[i * dv + o] -= eta[o] * (k[i] * k[i] * before[i * dv + o] - k[i] * v[o]);
        else
          S[i * dv + o] -= scale[i * dv + o] * eta[o] * k[i] * m->e[o];
      }
    }
  }
  free(before);
  free(answer);
  free(erased);
  free(eta);
  free(scale);
  return loss;
}

/* y = S' phi(q), divided by phi(q).z + 1e-10 where the memory is normalised. */
REF void ref_read_exact(ref_memory *m, const double *state, const double *query, double *out) {
  const size_t F = (size_t)m->features, dv = (size_t)m->d.value_dim;
  double by = 1e-10;
  ref_map(&m->d, query, m->x, m->branches);
  for (size_t i = 0; i < F && m->d.normalize; i++) by += m->x[i] * state[F * dv + i];
  for (size_t o = 0; o < dv; o++) {
    out[o] = 0.0;
    for (size_t i = 0; i < F; i++) out[o] += state[i * dv + o] * m->x[i];
    if (m->d.normalize) out[o] /= by;
  }
}

/* The first F columns of M [F, wide] become the identity by row operations, with pivots. */
REF void ref_reduce(double *M, size_t F, size_t wide) {
  for (size_t n = 0; n < F; n++) {
    size_t pivot = n;
    double by;
    for (size_t i = n; i < F; i++)
      if (fabs(M[i * wide + n]) > fabs(M[pivot * wide + n])) pivot = i;
    for (size_t j = 0; j < wide; j++) {
      const double swap = M[n * wide + j];
      M[n * wide + j] = M[pivot * wide + j];
      M[pivot * wide + j] = swap;
    }
    by = M[n * wide + n];
    for (size_t j = 0; j < wide; j++) M[n * wide + j] /= by;
    for (size_t i = 0; i < F; i++) {
      by = M[i * wide + n];
      for (size_t j = 0; i != n && j < wide; j++) M[i * wide + j] -= by * M[n * wide + j];
    }
  }
}

/* Mesa: H <- keep H + eta k k', G <- keep G + eta k v', k = phi(key); G is A.
 * A query is answered with G' x, (H + diag(lambda)) x = phi(q), by elimination. */
REF void ref_read_newton(ref_memory *m, const double *state, int h, const double *query,
                         double *out) {
  const size_t F = (size_t)m->features, dv = (size_t)m->d.value_dim, wide = F + 1;
  const double *G = state, *H = state + m->at_more;
  double *M = (double *)ref_zeros(F * wide);
  ref_map(&m->d, query, m->x, m->branches);
  for (size_t i = 0; i < F; i++) {
    for (size_t j = 0; j < F; j++) M[i * wide + j] = H[i * F + j];
    M[i * wide + i] += ref_ridge(m, h, i);
    M[i * wide + F] = m->x[i];
  }
  ref_reduce(M, F, wide);
  for (size_t o = 0; o < dv; o++) {
    out[o] = 0.0;
    for (size_t i = 0; i < F; i++) out[o] += G[i * dv + o] * M[i * wide + F];
  }
  free(M);
}

REF double ref_write_newton(ref_memory *m, double *state, int h, const ref_token *x) {
  const size_t F = (size_t)m->features, dv = (size_t)m->d.value_dim;
  double *G = state, *H = state + m->at_more, loss = 0.0;
  double *answer = (double *)ref_zeros(dv);
  for (int j = 0; j < m->d.inner_steps; j++) {
    const double *key = x->key + (size_t)j * (size_t)m->d.key_dim, *v = x->value + (size_t)j * dv;
    const double eta = x->step[(size_t)j * dv], keep = j == 0 ? x->keep[0] : 1.0;
    ref_read_newton(m, state, h, key, answer);
    for (size_t o = 0; o < dv && j == 0; o++)
      loss += 0.5 * (v[o] - answer[o]) * (v[o] - answer[o]);
    ref_map(&m->d, key, m->x, m->branches);
    for (size_t i = 0; i < F; i++) {
      for (size_t n = 0; n < F; n++) H[i * F + n] = keep * H[i * F + n] + eta * m->x[i] * m->x[n];
      for (size_t o = 0; o < dv; o++) G[i * dv + o] = keep * G[i * dv + o] + eta * m->x[i] * v[o];
    }
  }
  free(answer);
  return loss;
}

/* Least squares by recursion. State: W, then P = H^-1, then f, the share of each ridge that has
 * faded. A token is taken as what it stands for, with two inversions:
 *   f <- 1 - keep (1 - f)       H' = keep H + eta k k' + lambda_i f_i e_i e_i'
 *   H' W' = keep H W + eta k v'                    f_i <- 0,   i the token's number modulo F
 * Of categories, eta is an eighth of itself and v is the answer less 8 times its error. Where pairs
 * are judged, w stands for eta, and then N, S, U follow f in the state; where ridges are relative,
 * lambda U for lambda, and f is what is left of a ridge over lambda. */
REF void ref_invert(double *to, const double *from, size_t F) {
  const size_t wide = 2 * F;
  double *M = (double *)ref_zeros(F * wide);
  for (size_t i = 0; i < F; i++) {
    for (size_t j = 0; j < F; j++) M[i * wide + j] = from[i * F + j];
    M[i * wide + F + i] = 1.0;
  }
  ref_reduce(M, F, wide);
  for (size_t i = 0; i < F; i++)
    for (size_t j = 0; j < F; j++)
      to[i * F + j] = (M[i * wide + F + j] + M[j * wide + F + i]) / 2.0;
  free(M);
}

/* The weight that a pair of weight eta gets from a memory that judges it, P being what it knows by
 * then: the errors e of a pair of weight w have the usual square S (1/w + x'P x), and may have b^2
 * times that; and w x'P x may be 4 b^2, or later 4 b^2 F/N. usual: N, S, U, which follow. Returns
 * the share of H that is left behind the pair. */
REF double ref_judge(const ref_memory *m, const double *P, double square, double error, double eta,
                     double *usual, double *weight) {
  const double bb = (double)m->d.outlier * (double)m->d.outlier, F = (double)m->features;
  const int weighs = bb > 0.0 && m->d.bias != MIRAS_BIAS_CROSS_ENTROPY;
  double h = 0.0, inverse = 1.0 / eta, z, rest = 1.0;
  for (size_t i = 0; i < (size_t)m->features; i++)
    for (size_t j = 0; j < (size_t)m->features; j++)
      h += m->x[i] * P[i * (size_t)m->features + j] * m->x[j];
  z = error / (inverse + h);
  if (weighs && usual[1] > 0.0) {
    const double far = error / (bb * usual[1]) - h;
    ref_branch(m->branches, far > inverse, far / inverse - 1.0);
    if (far > inverse) inverse = far;
  }
  if (bb > 0.0) {
    const double most = 4.0 * bb * (usual[0] > F ? F / usual[0] : 1.0);
    ref_branch(m->branches, h / most > inverse, h / most / inverse - 1.0);
    if (h / most > inverse) inverse = h / most;
    if (fabs(usual[0] - F) > 1e-9) ref_branch(m->branches, usual[0] > F, usual[0] - F);
  }
  *weight = 1.0 / inverse;
  if (bb > 0.0 && usual[2] > 0.0)
    ref_branch(m->branches, square / inverse > bb * usual[2],
               square / inverse / (bb * usual[2]) - 1.0);
  if (bb > 0.0 && usual[2] > 0.0 && square / inverse > bb * usual[2])
    usual[2] += (bb - 1.0) * usual[2] / usual[0];
  else usual[2] += (square / inverse - usual[2]) / usual[0];
  if (bb > 0.0 && usual[1] > 0.0) {
    const double stiff = h * eta * usual[0] / F * 16.0, strange = z / (bb * usual[1]);
    ref_branch(m->branches, stiff < 1.0, stiff - 1.0);
    ref_branch(m->branches, strange > 1.0, strange - 1.0);
    if (stiff >= 1.0) usual[1] += ((strange > 1.0 ? bb * usual[1] : z) - usual[1]) / usual[0];
    else if (strange > 1.0) rest = usual[0] / (usual[0] + bb - 1.0);
  } else if (bb > 0.0) {
    usual[1] = z;
  }
  usual[0] *= rest;
  usual[2] *= rest;
  return rest;
}

REF double ref_write_recursive(ref_memory *m, double *state, int h, uint64_t position,
                               const ref_token *x) {
  const size_t F = (size_t)m->features, dv = (size_t)m->d.value_dim, at = (size_t)(position % F);
  const int entropy = m->d.bias == MIRAS_BIAS_CROSS_ENTROPY, relative = m->d.ridge_relative;
  const int judges = ref_judges(&m->d);
  const double eta = entropy ? x->step[0] / 8.0 : x->step[0], least = pow(10.0, -3.0 / (double)F);
  const double keep = x->keep[0] < least ? least : x->keep[0];
  double *W = state, *P = state + m->at_more, *f = P + F * F, *usual = f + F, loss = 0.0;
  double *H = (double *)ref_zeros(F * F), *G = (double *)ref_zeros(F * dv);
  double *value = (double *)ref_zeros(2 * dv), *error = value + dv;
  double square = 0.0, wrong = 0.0, weight = eta, rest = 1.0, due, young = 1.0;
  int taken = 1, first = 0;
  ref_map(&m->d, x->key, m->x, m->branches);
  for (size_t o = 0; o < dv; o++) {
    double answer = 0.0;
    for (size_t i = 0; i < F; i++) answer += W[i * dv + o] * m->x[i];
    loss += 0.5 * (x->value[o] - answer) * (x->value[o] - answer);
    value[o] = answer;
  }
  if (entropy) loss = ref_bias(&m->d, value, x->value, NULL, error, m->branches);
  for (size_t o = 0; o < dv; o++) {
    const double wanted = entropy ? value[o] - 8.0 * error[o] : x->value[o];
    wrong += (wanted - value[o]) * (wanted - value[o]) / (double)dv;
    value[o] = wanted;
  }
  for (size_t i = 0; i < F; i++) square += m->x[i] * m->x[i];
  if (judges) {
    taken = square >= 1e-30 && wrong < 1e38;
    ref_branch(m->branches, taken, 1.0);
    first = relative && taken && !(usual[2] > 0.0);
  }
  if (!relative || first || usual[2] > 0.0) {
    if (judges) usual[0] = keep * usual[0] + taken;
    if (first) usual[2] = square * eta;
    if (relative && taken && usual[0] <= (double)F + 1.0) { /* an early key is far shorter */
      for (; usual[2] > 100.0 * square * eta; young /= 16.0) usual[2] /= 16.0;
      ref_branch(m->branches, young < 1.0, usual[2] / (100.0 * square * eta) - 1.0);
    }
    ref_invert(H, P, F);
    for (size_t i = 0; i < F; i++) {
      const double left = keep * young;
      f[i] = first ? square * eta : relative ? left * f[i] : 1.0 - left * (1.0 - f[i]);
      for (size_t j = 0; j < F; j++)
        H[i * F + j] = !first ? left * H[i * F + j] : i == j ? square * eta * ref_ridge(m, h, i)
                                                             : 0.0;
    }
    ref_invert(P, H, F);
    if (judges && taken) rest = ref_judge(m, P, square, wrong, eta, usual, &weight);
    for (size_t i = 0; i < F; i++)
      for (size_t o = 0; o < dv; o++) {
        if (taken) G[i * dv + o] = rest * weight * m->x[i] * value[o];
        for (size_t j = 0; j < F; j++) G[i * dv + o] += rest * H[i * F + j] * W[j * dv + o];
      }
    for (size_t i = 0; i < F; i++) {
      f[i] = relative ? rest * f[i] : 1.0 - rest * (1.0 - f[i]);
      for (size_t j = 0; j < F; j++) {
        if (taken) H[i * F + j] += weight * m->x[i] * m->x[j];
        H[i * F + j] *= rest;
      }
    }
    due = relative ? usual[2] - f[at] : f[at];
    if (relative && fabs(due) > 1e-9 * usual[2]) /* of a first key they may be one number */
      ref_branch(m->branches, due > 0.0, due / usual[2]);
    if (!relative || due > 0.0) {
      H[at * F + at] += ref_ridge(m, h, at) * due;
      f[at] = relative ? usual[2] : 0.0;
    }
    ref_invert(P, H, F);
    for (size_t i = 0; i < F; i++)
      for (size_t o = 0; o < dv; o++) {
        W[i * dv + o] = 0.0;
        for (size_t j = 0; j < F; j++) W[i * dv + o] += P[i * F + j] * G[j * dv + o];
      }
  }
  free(H);
  free(G);
  free(value);
  return loss;
}

/* Each column o of W by itself: minimise, over steps z of each weight, what the loss is near the
 * answer to first order and, with a curvature h of its own, to second, plus the ridges' and the
 * counts' hold on each weight, after what has come before has faded where the key is not 0. */
REF double ref_write_counting(ref_memory *m, double *state, int h, const ref_token *x) {
  const size_t F = (size_t)m->features, dv = (size_t)m->d.value_dim;
  const int entropy = m->d.bias == MIRAS_BIAS_CROSS_ENTROPY;
  double *W = state, *C = state + m->at_more, loss = 0.0;
  double *answer = (double *)ref_zeros(2 * dv), *error = answer + dv;
  ref_map(&m->d, x->key, m->x, m->branches);
  for (size_t o = 0; o < dv; o++) {
    for (size_t i = 0; i < F; i++) answer[o] += W[i * dv + o] * m->x[i];
    error[o] = answer[o] - x->value[o];
    loss += 0.5 * error[o] * error[o];
  }
  if (entropy) loss = ref_bias(&m->d, answer, x->value, NULL, error, m->branches);
  for (size_t o = 0; o < dv; o++) {
    const double says = x->value[o] + error[o]; /* of categories s p */
    const double mean = 0.5 * (says + x->value[o]), curvature = !entropy ? 1.0 : fmax(mean, 0.0);
    double spread = 0.0, moved;
    if (entropy) ref_branch(m->branches, mean > 0.0, mean); /* values may be no probabilities */
    for (size_t i = 0; i < F; i++)
      if (m->x[i] < 0.0 || m->x[i] > 0.0) {
        const double ridge = ref_ridge(m, h, i), before = C[i * dv + o];
        C[i * dv + o] *= x->keep[0]; /* what was seen fades, at its own mean W (ridge + C) / C */
        W[i * dv + o] *= x->keep[0] * (ridge + before) / (ridge + C[i * dv + o]);
        spread += m->x[i] * m->x[i] / (ridge + C[i * dv + o]);
      }
    moved = -error[o] * x->step[0] * spread / (1.0 + x->step[0] * curvature * spread);
    for (size_t i = 0; i < F; i++)
      if (m->x[i] < 0.0 || m->x[i] > 0.0) {
        const double hold = ref_ridge(m, h, i) + C[i * dv + o];
        W[i * dv + o] += moved * m->x[i] / (hold * spread);
        C[i * dv + o] += x->step[0] * curvature * m->x[i] * m->x[i];
      }
  }
  free(answer);
  return loss;
}

/* q'P q, of the head that answers; of Mesa by way of an answer whose G is the query. */
REF double ref_variance_head(ref_memory *m, int b, int h, const double *query) {
  const size_t F = (size_t)m->features;
  const double *P = ref_head_state(m, b, h) + m->at_more;
  double *H = (double *)ref_zeros(F * F), sum = 0.0;
  memcpy(H, P, F * F * sizeof(double));
  if (m->d.algorithm == MIRAS_ALGORITHM_LEAST_SQUARES) {
    for (size_t i = 0; i < F; i++) H[i * F + i] += ref_ridge(m, h, i);
    ref_invert(H, H, F);
  }
  ref_map(&m->d, query, m->x, m->branches);
  for (size_t i = 0; i < F; i++)
    for (size_t j = 0; j < F; j++) sum += m->x[i] * H[i * F + j] * m->x[j];
  free(H);
  return sum;
}

/* Softmax attention over the pairs that are there; 0 when there are none. */
REF void ref_read_pairs(const ref_memory *m, const double *state, const double *query,
                        double *out) {
  const size_t dk = (size_t)m->d.key_dim, dv = (size_t)m->d.value_dim;
  const double *more = state + m->at_more;
  const size_t n = (size_t)more[0];
  double top = -1e300, sum = 0.0;
  for (size_t o = 0; o < dv; o++) out[o] = 0.0;
  for (int pass = 0; pass < 2; pass++)
    for (size_t i = 0; i < n; i++) {
      const double *pair = more + 1 + i * (dk + dv);
      double score = 0.0;
      for (size_t j = 0; j < dk; j++) score += pair[j] * query[j] / sqrt((double)dk);
      if (pass == 0) {
        if (score > top) top = score;
        continue;
      }
      sum += exp(score - top);
      for (size_t o = 0; o < dv; o++) out[o] += exp(score - top) * pair[dk + o];
    }
  for (size_t o = 0; o < dv && n > 0; o++) out[o] /= sum;
}

REF double ref_write_pairs(ref_memory *m, double *state, const ref_token *x) {
  const size_t dk = (size_t)m->d.key_dim, dv = (size_t)m->d.value_dim, pair = dk + dv;
  double *more = state + m->at_more, *answer = (double *)ref_zeros(dv), loss = 0.0;
  for (int j = 0; j < m->d.inner_steps; j++) {
    const double *k = x->key + (size_t)j * dk, *v = x->value + (size_t)j * dv;
    ref_read_pairs(m, state, k, answer);
    for (size_t o = 0; o < dv && j == 0; o++)
      loss += 0.5 * (v[o] - answer[o]) * (v[o] - answer[o]);
    if ((int)more[0] == m->d.window) { /* the oldest goes */
      memmove(more + 1, more + 1 + pair, ((size_t)m->d.window - 1) * pair * sizeof(double));
      more[0] -= 1.0;
    }
    memcpy(more + 1 + (size_t)more[0] * pair, k, dk * sizeof(double));
    memcpy(more + 1 + (size_t)more[0] * pair + dk, v, dv * sizeof(double));
    more[0] += 1.0;
  }
  free(answer);
  return loss;
}

/* eta of descent j as the learning rate gate has it for weight i, and alpha: the decay gate's,
 * before the first descent of a token. L2_BOTH: the alpha that goes with eta, and alpha eta. */
REF double ref_step(const ref_memory *m, const ref_token *x, int j, size_t i, double *alpha) {
  const double eta = x->step[(size_t)j * (size_t)m->d.value_dim + (size_t)m->channel[i]];
  *alpha = j == 0 ? x->keep[m->channel[i]] : 1.0;
  if (m->d.retention != MIRAS_RETENTION_L2_BOTH) return eta;
  *alpha = (double)m->d.balance / ((double)m->d.balance + eta);
  return *alpha * eta;
}

/* The bounded step of descent j: what every eta is multiplied by. With r = M(k) - v, e = dl/dM,
 * f = 1e-20, and c = p - 1 of the L_p biases with p > 2, else 1:
 *   s = (e.r + f) / (e.r + f + c sum J eta g^2)
 * step_bound = 2: one more term in the divisor, (e.r + f) F / 4. A layer l below the last turns
 * its input x into act(x W_l), or with others into y, which the next one hears. Its gradient is
 * x d', so that |d| = |g_l| / |x|, and F sums (J eta g^2) / (|d| |y|) over these layers. With
 * inner biases x and y have a 1 more. Cross entropy has another number in the place of e.r. */
REF double ref_bound(const ref_memory *m, const ref_token *x, int j, const double *J) {
  const miras_memory_desc *d = &m->d;
  const int lp = d->bias == MIRAS_BIAS_LP || d->bias == MIRAS_BIAS_LP_SMOOTH;
  const double *v = x->value + (size_t)j * (size_t)d->value_dim;
  const double c = lp && d->p > 2.0f ? (double)d->p - 1.0 : 1.0;
  double er = 1e-20, Q = 0.0, F = 0.0, rr = 0.0, alpha;
  if (!d->step_bound) return 1.0;
  for (int o = 0; o < d->value_dim; o++) {
    const double r = m->trace.out[o] - v[o];
    er += m->e[o] * r;
    rr += r * r;
  }
  if (d->bias == MIRAS_BIAS_CROSS_ENTROPY) {
    er = 1e-20 + ref_entropy_along(d, m->e, v, m->branches);
    rr = er;
  }
  for (size_t i = 0; i < m->s.weights; i++)
    Q += J[i] * ref_step(m, x, j, i, &alpha) * m->g[i] * m->g[i];
  for (int l = 0; d->step_bound == MIRAS_STEP_BOUND_LAYERS && l + 1 < m->s.layers; l++) {
    const int next = d->architecture == MIRAS_ARCH_GATED_MLP ? 2 : l + 1;
    const size_t rows = (size_t)m->s.in[l] + (d->inner_bias ? 1 : 0);
    double heard = d->inner_bias, input = d->inner_bias, gg = 0.0, part = 0.0;
    for (int o = 0; o < m->s.in[next]; o++) heard += m->trace.y[next][o] * m->trace.y[next][o];
    for (int o = 0; o < m->s.in[l]; o++) input += m->trace.y[l][o] * m->trace.y[l][o];
    for (size_t i = m->s.at[l]; i < m->s.at[l] + rows * (size_t)m->s.out[l]; i++) {
      part += J[i] * ref_step(m, x, j, i, &alpha) * m->g[i] * m->g[i];
      gg += m->g[i] * m->g[i];
    }
    if (gg > 0.0) F += part / sqrt(gg / input * heard);
  }
  ref_branch(m->branches, 0, sqrt(rr) / 10.0); /* smooth, but knows the direction of r alone */
  return er / (er + er * F / 4.0 + c * Q);
}

/* Each matrix, with the biases behind it, at most `ball` long. */
REF void ref_ball(const ref_memory *m, double *A) {
  for (int l = 0; l < m->s.layers; l++) {
    const size_t end = l + 1 < m->s.layers ? m->s.at[l + 1] : m->s.weights;
    double sum = 0.0;
    for (size_t i = m->s.at[l]; i < end; i++) sum += A[i] * A[i];
    ref_branch(m->branches, sqrt(sum) > (double)m->d.ball, sqrt(sum) - (double)m->d.ball);
    for (size_t i = m->s.at[l]; i < end && sqrt(sum) > (double)m->d.ball; i++)
      A[i] *= (double)m->d.ball / sqrt(sum);
  }
}

/* Y [n, n] = X X', from rows [n, m] of X that lie `down` apart, their entries `right`. */
REF void ref_gram(double *Y, const double *X, int n, int m, int down, int right) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      Y[i * n + j] = 0.0;
      for (int k = 0; k < m; k++)
        Y[i * n + j] += X[i * down + k * right] * X[j * down + k * right];
    }
}

/* Five steps of Newton and Schulz on a matrix [in, out]: X <- a X + (b A + c A^2) X with A = X X',
 * from X of length 1; of more rows than columns the transposed matrix is taken. */
REF void ref_newton_schulz(double *X, int in, int out) {
  const int n = in <= out ? in : out, m = in <= out ? out : in;
  const int down = in <= out ? out : 1, right = in <= out ? 1 : out;
  const size_t square = (size_t)n * (size_t)n, count = (size_t)in * (size_t)out;
  double *A = (double *)ref_zeros(2 * square + count), *B = A + square, *Y = B + square, sum = 0.0;
  for (size_t i = 0; i < count; i++) sum += X[i] * X[i];
  for (size_t i = 0; i < count; i++) X[i] /= sqrt(sum) + 1e-7;
  for (int step = 0; step < 5; step++) {
    ref_gram(A, X, n, m, down, right);
    ref_gram(B, A, n, n, n, 1); /* A is symmetric */
    for (size_t i = 0; i < square; i++) B[i] = -4.7750 * A[i] + 2.0315 * B[i];
    for (int i = 0; i < n; i++)
      for (int k = 0; k < m; k++) {
        double y = 3.4445 * X[i * down + k * right];
        for (int j = 0; j < n; j++) y += B[i * n + j] * X[j * down + k * right];
        Y[i * down + k * right] = y;
      }
    memcpy(X, Y, count * sizeof(double));
  }
  free(A);
}

/* What a chunk of Muon closes to: A = base + E ns(S), of each matrix with its biases. */
REF void ref_muon(const ref_memory *m, double *A, const double *base, const double *S,
                  const double *E) {
  for (int l = 0; l < m->s.layers; l++) {
    const size_t end = l + 1 < m->s.layers ? m->s.at[l + 1] : m->s.weights, at = m->s.at[l];
    double *X = (double *)ref_zeros(end - at);
    memcpy(X, S + at, (end - at) * sizeof(double));
    ref_newton_schulz(X, (int)(end - at) / m->s.out[l], m->s.out[l]);
    for (size_t i = at; i < end; i++) A[i] = base[i] + E[i] * X[i - at];
    free(X);
  }
}

/* g of inner step j of a token at the anchor, of all tokens of its window, which is then moved on:
 * the last ones are keys [past, features], values, thresholds, of token t since the head's start in
 * row t % past. Returns the token's own loss. */
REF double ref_gradients(ref_memory *m, int b, int h, uint64_t position, const ref_token *x, int j,
                         const double *anchor) {
  const miras_memory_desc *d = &m->d;
  const size_t F = (size_t)m->features, dv = (size_t)d->value_dim, past = ref_past(d);
  const size_t wide = ref_past_thresholds(d), P = m->s.weights;
  const uint64_t age = ref_restarts(d, h, position) ? 0 : ref_age(d, h, position);
  double *keys = ref_head_state(m, b, h) + m->at_more, *values = keys + past * F;
  double *thresholds = values + past * dv, *sum = (double *)ref_zeros(P + 2 * dv), loss = 0.0;
  for (uint64_t s = 0; s == 0 || (s <= past && s <= age); s++) {
    double *v = sum + P, *threshold = v + dv, one;
    const size_t row = past ? (size_t)((age - s) % past) : 0;
    ref_map(d, x->key + (size_t)j * (size_t)d->key_dim, m->x, m->branches);
    for (size_t o = 0; o < dv; o++) {
      v[o] = s ? values[row * dv + o] : x->value[(size_t)j * dv + o];
      threshold[o] =
        s && wide ? thresholds[row * wide + (wide > 1 ? o : 0)] : x->threshold[o];
    }
    if (s) memcpy(m->x, keys + row * F, F * sizeof(double));
    ref_apply(d, &m->s, anchor, ref_gain(m, h, 0), ref_gain(m, h, 1), m->x, &m->trace);
    one = ref_bias(d, m->trace.out, v, threshold, m->e, m->branches);
    if (s == 0) loss = one;
    ref_gradient(d, &m->s, anchor, ref_gain(m, h, 0), &m->trace, m->e, m->g);
    for (size_t i = 0; i < P; i++) sum[i] += m->g[i];
  }
  memcpy(m->g, sum, P * sizeof(double));
  if (past > 0) {
    const size_t row = (size_t)(age % past);
    ref_map(d, x->key, keys + row * F, m->branches);
    memcpy(values + row * dv, x->value, dv * sizeof(double));
    memcpy(thresholds + row * wide, x->threshold, wide * sizeof(double));
  }
  free(sum);
  return loss;
}

/* What queries of an open chunk read. */
REF void ref_read_open(const ref_memory *m, double *read, const double *A, const double *anchor,
                       const double *c) {
  for (size_t i = 0; i < m->s.weights; i++)
    switch (m->d.algorithm == MIRAS_ALGORITHM_MUON ? MIRAS_RETENTION_COUNT : m->d.retention) {
      case MIRAS_RETENTION_ALL:
      case MIRAS_RETENTION_L2:
      case MIRAS_RETENTION_L2_BOTH:
      case MIRAS_RETENTION_ELASTIC:
      case MIRAS_RETENTION_ELASTIC_FTRL: read[i] = A[i]; break;
      case MIRAS_RETENTION_LQ: read[i] = m->is_bias[i] ? A[i] : A[i] / c[m->layer[i]]; break;
      default: read[i] = anchor[i]; break;
    }
}

/* Everything else: gradients at the weights of the chunk's start. With chunk 1 every descent is a
 * chunk of its own. With g_j the gradient of descent j of a token, and B the initial memory or 0:
 *   before the first   base <- B + alpha (base - B) + s, s <- theta s   (s from before the chunk)
 *                      own  <- alpha own + so, so <- theta so           (so of this chunk)
 *   each               so <- so - eta_j g_j, own <- own - eta_j g_j
 *   then               A = base + rate own     S = s + rate so when the chunk closes
 * Muon: base has no s, own does not count, A = base + gamma ns(S), gamma <- alpha gamma + eta.
 * rate is 1 but for token_rates, which leave own as it is: alpha is for what the chunk found. An
 * f-divergence keeps A until the chunk closes, and then moves base by own. */
REF double ref_write_frozen(ref_memory *m, int b, int h, uint64_t position, const ref_token *x) {
  const miras_memory_desc *d = &m->d;
  const size_t P = m->s.weights, head = (size_t)b * (size_t)d->heads + (size_t)h;
  const uint64_t C = (uint64_t)d->chunk, row = position % C;
  const int divergence = ref_is_divergence(d);
  const int muon = d->algorithm == MIRAS_ALGORITHM_MUON;
  double *A = ref_head_state(m, b, h), *S = A + m->at_s, *c = m->c + head * REF_LAYERS;
  double *anchor = ref_head_open(m, b, h, OPEN_ANCHOR), *base = ref_head_open(m, b, h, OPEN_BASE);
  double *own = ref_head_open(m, b, h, OPEN_OWN), *s = ref_head_open(m, b, h, OPEN_S_BASE);
  double *so = ref_head_open(m, b, h, OPEN_S_OWN), *gamma = ref_head_open(m, b, h, OPEN_SPARSITY);
  double *read = ref_head_open(m, b, h, OPEN_READ), *J = ref_head_open(m, b, h, OPEN_SLOPE);
  double *F = (double *)ref_zeros(P), *B = (double *)ref_zeros(P), loss = 0.0, one;
  const double rate = ref_rate(m, row);
  int closes = 0;
  for (size_t i = 0; i < P && d->decay_target; i++) B[i] = ref_head_open(m, b, h, OPEN_HOME)[i];
  for (int j = 0; j < d->inner_steps; j++) {
    double bound;
    if (j == 0 ? row == 0 : C == 1) { /* a chunk opens */
      ref_link(d, &m->s, B, A, anchor, c, m->branches);
      ref_slopes(d, &m->s, A, anchor, c, J);
      for (size_t i = 0; i < P; i++) {
        base[i] = A[i];
        s[i] = S[i];
        own[i] = so[i] = gamma[i] = 0.0;
      }
    }
    one = ref_gradients(m, b, h, position, x, j, anchor);
    if (j == 0) loss = one;
    bound = ref_bound(m, x, j, J);
    for (size_t i = 0; i < P; i++) {
      const double theta =
        muon || d->algorithm == MIRAS_ALGORITHM_MOMENTUM ? x->momentum : 0.0;
      double alpha, eta = ref_step(m, x, j, i, &alpha);
      eta *= bound;
      gamma[i] = alpha * gamma[i] + (muon ? 1.0 : (double)d->sparsity) * eta;
      if (j == 0) {
        s[i] *= theta;
        so[i] *= theta;
      }
      base[i] = B[i] + alpha * (base[i] - B[i]) + (j == 0 && !muon ? s[i] : 0.0);
      own[i] = (d->token_rates ? 1.0 : alpha) * own[i] + (j == 0 ? so[i] : 0.0) - eta * m->g[i];
      so[i] -= eta * m->g[i];
    }
    closes = C == 1 || (j == d->inner_steps - 1 && row == C - 1);
    for (size_t i = 0; i < P; i++) {
      F[i] = base[i] + rate * own[i];
      S[i] = s[i] + rate * so[i];
      if (!divergence) A[i] = F[i];
    }
    if (muon) ref_muon(m, A, base, S, gamma);
    for (size_t i = 0; i < P && closes && d->retention == MIRAS_RETENTION_ELASTIC; i++)
      A[i] = ref_shrink_from(d, B[i], A[i], rate * gamma[i], m->branches);
    if (closes && d->ball > 0.0f) ref_ball(m, A);
    if (closes && divergence) {
      memcpy(A, base, P * sizeof(double));
      for (int l = 0; l < m->s.layers; l++) {
        size_t first, stride, count;
        for (size_t n = 0; ref_slice(d, &m->s, l, n, &first, &stride, &count); n++)
          ref_divergence(d, A, own, first, stride, count, m->branches);
      }
    }
  }
  if (closes) {
    double closing[REF_LAYERS];
    ref_link(d, &m->s, B, A, read, closing, m->branches);
  } else {
    ref_read_open(m, read, A, anchor, c);
  }
  free(F);
  free(B);
  return loss;
}

REF void ref_read_head(ref_memory *m, int b, int h, const double *query, double *out) {
  const double *state = ref_head_state(m, b, h);
  if (m->d.architecture == MIRAS_ARCH_KV_CACHE) {
    ref_read_pairs(m, state, query, out);
  } else if (m->d.algorithm == MIRAS_ALGORITHM_LEAST_SQUARES) {
    ref_read_newton(m, state, h, query, out);
  } else if (ref_exact(&m->d)) {                 /* recursive least squares too */
    ref_read_exact(m, state, query, out);
  } else {
    ref_map(&m->d, query, m->x, m->branches);
    ref_apply(&m->d, &m->s, ref_head_open(m, b, h, OPEN_READ), ref_gain(m, h, 0),
              ref_gain(m, h, 1), m->x, &m->trace);
    for (int o = 0; o < m->d.value_dim; o++) out[o] = m->trace.out[o];
  }
}

REF double ref_write_head(ref_memory *m, int b, int h, uint64_t position, const ref_token *x) {
  double *state = ref_head_state(m, b, h);
  if (ref_restarts(&m->d, h, position)) ref_reset_head(m, b, h);
  if (m->d.architecture == MIRAS_ARCH_KV_CACHE) return ref_write_pairs(m, state, x);
  if (m->d.algorithm == MIRAS_ALGORITHM_LEAST_SQUARES) {
    if (position % (uint64_t)m->d.chunk == 0)
      memcpy(ref_head_open(m, b, h, OPEN_ANCHOR), state, m->s.weights * sizeof(double));
    return ref_write_newton(m, state, h, x);
  }
  if (ref_counts(&m->d)) return ref_write_counting(m, state, h, x);
  if (m->d.algorithm == MIRAS_ALGORITHM_RECURSIVE)
    return ref_write_recursive(m, state, h,
                               ref_restarts(&m->d, h, position) ? 0 : ref_age(&m->d, h, position),
                               x);
  if (ref_exact(&m->d))
    return ref_write_exact(m, state, h, x, position == 0 || ref_restarts(&m->d, h, position));
  return ref_write_frozen(m, b, h, position, x);
}

/* alpha of head h where it is a constant. */
REF double ref_constant_keep(const miras_memory_desc *d, int h) {
  const double H = (double)d->heads, l = (double)d->layer, L = d->layers ? (double)d->layers : 1.0;
  if (d->decay_schedule == MIRAS_DECAY_SCHEDULE_LIGHTNING)
    return exp(-(8.0 / H) * (1.0 - l / L) * h);
  if (d->decay_schedule == MIRAS_DECAY_SCHEDULE_MINIMAX)
    return exp(-pow(2.0, -8.0 * (h + 1) / H) * (1.0 - l / (L - 1.0 + 1e-5) + 1e-5));
  return 1.0 - (double)d->decay_rate * pow((double)d->decay_ratio, (double)h);
}

/* The tokens of one head, starting at m->position, which stays. y and surprise may be NULL. */
REF void ref_forward_head(ref_memory *m, const ref_tokens *x, int b, int h, double *y,
                          double *surprise) {
  const miras_memory_desc *d = &m->d;
  const size_t H = (size_t)d->heads, dk = (size_t)d->key_dim, dv = (size_t)d->value_dim;
  const size_t steps = (size_t)d->inner_steps, n = (size_t)m->keep_channels;
  ref_token token;
  memset(&token, 0, sizeof token);
  token.keep = (double *)ref_zeros(n);
  token.value_keep = (double *)ref_zeros(dv);
  token.step = (double *)ref_zeros(dv * steps);
  token.threshold = (double *)ref_zeros(dv);
  for (int t = 0; t < x->length; t++) {
    const size_t at = ((size_t)b * (size_t)x->length + (size_t)t) * H + (size_t)h;
    double s;
    for (size_t i = 0; i < n; i++) {
      token.keep[i] = ref_constant_keep(d, h);
      if (d->decay_gate == MIRAS_GATE_HEAD) token.keep[i] = x->keep[at];
      if (d->decay_gate >= MIRAS_GATE_CHANNEL) token.keep[i] = x->keep[at * n + i];
      if (!ref_decays(d)) token.keep[i] = 1.0;
    }
    for (size_t j = 0; j < steps; j++)
      for (size_t o = 0; o < dv; o++) {
        double *step = token.step + j * dv + o;
        *step = (double)d->learning_rate;
        if (d->learning_rate_gate == MIRAS_GATE_HEAD) *step = x->step[at * steps + j];
        if (d->learning_rate_gate == MIRAS_GATE_CHANNEL) *step = x->step[(at * steps + j) * dv + o];
      }
    for (size_t o = 0; o < dv; o++) {
      token.value_keep[o] =
        d->value_decay_gate == MIRAS_GATE_CHANNEL ? x->value_keep[at * dv + o] : 1.0;
      token.threshold[o] = (double)d->threshold;
      if (d->threshold_gate == MIRAS_GATE_HEAD) token.threshold[o] = x->threshold[at];
      if (d->threshold_gate == MIRAS_GATE_CHANNEL) token.threshold[o] = x->threshold[at * dv + o];
    }
    token.momentum = d->momentum_gate != MIRAS_GATE_CONSTANT ? x->momentum[at]
                                                             : (double)d->momentum;
    token.key = x->key + at * steps * dk;
    token.value = x->value + at * steps * dv;
    token.query = x->query == NULL ? NULL : x->query + at * dk;
    token.erase = x->erase == NULL ? NULL : x->erase + at * dk;
    token.replace = x->replace == NULL ? NULL : x->replace + at * dk;
    if (d->order == MIRAS_ORDER_READ_FIRST && y != NULL) { /* of what there is, or begins anew */
      if (ref_restarts(d, h, m->position + (uint64_t)t)) ref_reset_head(m, b, h);
      ref_read_head(m, b, h, token.query, y + at * dv);
    }
    s = ref_write_head(m, b, h, m->position + (uint64_t)t, &token);
    if (surprise != NULL) surprise[at] = s;
    if (d->order != MIRAS_ORDER_READ_FIRST && y != NULL)
      ref_read_head(m, b, h, token.query, y + at * dv);
  }
  free(token.keep);
  free(token.value_keep);
  free(token.step);
  free(token.threshold);
}

/* As miras_memory_forward; surprise [batch, T, heads] or NULL. */
REF void ref_forward(ref_memory *m, const ref_tokens *x, double *y, double *surprise) {
  for (int b = 0; b < m->d.batch; b++)
    for (int h = 0; h < m->d.heads; h++) ref_forward_head(m, x, b, h, y, surprise);
  if (m->branches != NULL) {
    m->branches->cancellation = fmax(m->branches->cancellation, m->trace.cancellation);
    m->branches->terms = fmax(m->branches->terms, m->trace.terms);
  }
  m->position += (uint64_t)x->length;
}

/* The weights that miras_memory_norm counts: in an open chunk the live ones of a memory that runs
 * exactly, else those at its start. */
REF const double *ref_norm_weights(const ref_memory *m, int b, int h) {
  const int open = m->position % (uint64_t)m->d.chunk != 0;
  const int newton = m->d.algorithm == MIRAS_ALGORITHM_LEAST_SQUARES;
  if (ref_exact(&m->d) && !(open && newton)) return ref_head_state(m, b, h);
  return ref_head_open(m, b, h, open ? OPEN_ANCHOR : OPEN_READ);
}

/* As miras_memory_norm. */
REF double ref_norm(const ref_memory *m) {
  double sum = 0.0;
  for (int b = 0; b < m->d.batch; b++)
    for (int h = 0; h < m->d.heads; h++) {
      const double *W = ref_norm_weights(m, b, h);
      for (size_t i = 0; i < m->s.weights; i++) sum += W[i] * W[i];
      if (m->d.architecture == MIRAS_ARCH_KV_CACHE) { /* all keys and values held */
        const double *more = ref_head_state(m, b, h) + m->at_more;
        const size_t n = (size_t)more[0] * (size_t)(m->d.key_dim + m->d.value_dim);
        for (size_t i = 0; i < n; i++) sum += more[1 + i] * more[1 + i];
      }
    }
  return sqrt(sum);
}

/* ---- the language model ---- */

typedef struct ref_model {
  miras_model_desc d;
  const miras_view *views;
  int view_count;
  const double *params;
  int dropped; /* 1: the masks of the first training loss of a new model */
} ref_model;

/* What dropout multiplies entry i of a token's row with. site: 0 the embedding, then two for each
 * block, behind its memory and behind its perceptron. */
REF uint64_t ref_hash(uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

REF double ref_mask(const ref_model *m, size_t site, size_t row, size_t i) {
  const uint64_t call = ref_hash(ref_hash(ref_hash(m->d.seed + 1) + 0) + 0); /* step 0, call 0 */
  const uint64_t key = ref_hash(ref_hash(call + site) + row);
  uint32_t u = (uint32_t)i * 0x9E3779B1u + (uint32_t)key;
  if (!m->dropped) return 1.0;
  u = (u ^ (u >> 16)) * 0x7FEB352Du;
  u = (u ^ (uint32_t)(key >> 32) ^ (u >> 15)) * 0x846CA68Bu;
  u ^= u >> 16;
  return (double)u < (double)m->d.dropout * 4294967296.0 ? 0.0 : 1.0 / (1.0 - (double)m->d.dropout);
}

REF const miras_view *ref_find(const ref_model *m, const char *name) {
  for (int i = 0; i < m->view_count; i++)
    if (strcmp(m->views[i].name, name) == 0) return &m->views[i];
  return NULL;
}

/* Parameter `name` of block l (l < 0: of the model); it must be there. */
REF const double *ref_param(const ref_model *m, int l, const char *name) {
  char full[80];
  const miras_view *v;
  if (l < 0)
    snprintf(full, sizeof full, "%s", name);
  else
    snprintf(full, sizeof full, "blocks.%d.%s", l, name);
  v = ref_find(m, full);
  if (v == NULL) {
    fprintf(stderr, "reference: the model has no parameter %s\n", full);
    abort();
  }
  return m->params + v->offset;
}

/* y [tokens, out] = x [tokens, in] W [in, out] */
REF void ref_project(double *y, const double *x, const double *W, size_t tokens, size_t in,
                     size_t out) {
  for (size_t t = 0; t < tokens; t++)
    for (size_t o = 0; o < out; o++) {
      double sum = 0.0;
      for (size_t i = 0; i < in; i++) sum += x[t * in + i] * W[i * out + o];
      y[t * out + o] = sum;
    }
}

/* What norms of layers add to the mean of squares. */
REF double ref_epsilon(const ref_model *m) {
  return m->d.norm_epsilon > 0.0f ? (double)m->d.norm_epsilon : 1e-5;
}

/* Layer norm of rows of n; gain and bias have period * n entries for rows in turn. */
REF void ref_layer_norm(double *y, const double *x, const double *gain, const double *bias,
                        size_t rows, size_t n, size_t period, double epsilon) {
  for (size_t r = 0; r < rows; r++) {
    const size_t at = r % period * n;
    double mean = 0.0, square = 0.0;
    for (size_t i = 0; i < n; i++) mean += x[r * n + i] / (double)n;
    for (size_t i = 0; i < n; i++) square += pow(x[r * n + i] - mean, 2.0) / (double)n;
    for (size_t i = 0; i < n; i++)
      y[r * n + i] = (x[r * n + i] - mean) / sqrt(square + epsilon) * gain[at + i] + bias[at + i];
  }
}

/* Root mean square norm of rows of n; gain has n entries, or period * n for rows in turn. */
REF void ref_rms(double *y, const double *x, const double *gain, size_t rows, size_t n,
                 size_t period, double epsilon) {
  for (size_t r = 0; r < rows; r++) {
    double mean = 0.0;
    for (size_t i = 0; i < n; i++) mean += x[r * n + i] * x[r * n + i] / (double)n;
    for (size_t i = 0; i < n; i++)
      y[r * n + i] = x[r * n + i] / sqrt(mean + epsilon) * gain[r % period * n + i];
  }
}

/* A norm of blocks or before the head, of the parameters NAME.gain and, if there, NAME.bias. */
REF void ref_block_norm(const ref_model *m, double *y, const double *x, int l, const char *name,
                  size_t rows, size_t n) {
  char full[64];
  const double *gain, *bias;
  snprintf(full, sizeof full, "%s.gain", name);
  gain = ref_param(m, l, full);
  if (m->d.norm == MIRAS_NORM_RMS) {
    ref_rms(y, x, gain, rows, n, 1, ref_epsilon(m));
    return;
  }
  snprintf(full, sizeof full, "%s.bias", name);
  bias = ref_param(m, l, full);
  for (size_t r = 0; r < rows; r++) {
    double sum = 0.0, squares = 0.0;
    for (size_t i = 0; i < n; i++) sum += x[r * n + i];
    for (size_t i = 0; i < n; i++) squares += pow(x[r * n + i] - sum / (double)n, 2.0);
    for (size_t i = 0; i < n; i++)
      y[r * n + i] = bias[i] + gain[i] * (x[r * n + i] - sum / (double)n) /
                                 sqrt(squares / (double)n + ref_epsilon(m));
  }
}

REF double ref_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/* Causal depthwise convolution over each sequence; bias may be NULL. */
REF void ref_convolve(double *y, const double *c, const double *w, const double *bias, int batch,
                      int T, size_t n, int taps) {
  for (int b = 0; b < batch; b++)
    for (int t = 0; t < T; t++)
      for (size_t i = 0; i < n; i++) {
        double sum = bias != NULL ? bias[i] : 0.0;
        for (int j = 0; j < taps; j++) {
          const int from = t - taps + 1 + j;
          if (from >= 0)
            sum += w[(size_t)j * n + i] * c[((size_t)b * (size_t)T + (size_t)from) * n + i];
        }
        y[((size_t)b * (size_t)T + (size_t)t) * n + i] = sum;
      }
}

/* log(1 + exp(x)) */
REF double ref_softplus(double x) { return log1p(exp(-fabs(x))) + (x > 0.0 ? x : 0.0); }

/* Rows of n to the given length, 1e-6 in the root; length 0: left as they are. */
REF void ref_lengthen(double *x, size_t rows, size_t n, double length) {
  for (size_t r = 0; r < rows && length < 0.0; r++) { /* of keys that are divided by their sizes */
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += fabs(x[r * n + i]);
    for (size_t i = 0; i < n; i++) x[r * n + i] /= fmax(sum, 1e-6);
  }
  for (size_t r = 0; r < rows && length > 0.0; r++) {
    double sum = 1e-6;
    for (size_t i = 0; i < n; i++) sum += x[r * n + i] * x[r * n + i];
    for (size_t i = 0; i < n; i++) x[r * n + i] *= length / sqrt(sum);
  }
}

/* Appends what a pattern says to letters[257], and returns where it stopped. */
REF const char *ref_expand(const char *pattern, char *letters) {
  while (*pattern != 0 && *pattern != ')') {
    char item[257] = {0};
    long times = 1;
    if (*pattern == '(')
      pattern = ref_expand(pattern + 1, item);
    else
      item[0] = *pattern;
    pattern++;
    if (*pattern == '*') {
      char *end;
      times = strtol(pattern + 1, &end, 10);
      pattern = end;
    }
    while (times-- > 0) strcat(letters, item);
  }
  return pattern;
}

/* The descriptor of layer l. */
REF const miras_layer_desc *ref_layer_of(const ref_model *m, int l) {
  char letters[257] = {0};
  int i = 0;
  ref_expand(m->d.pattern, letters);
  if (letters[0] == 0) return &m->d.layer[0];
  while (i < MIRAS_MAX_LAYER_KINDS - 1 && m->d.layer[i].letter != letters[l]) i++;
  return &m->d.layer[i];
}

REF int ref_layers(const ref_model *m) {
  char letters[257] = {0};
  ref_expand(m->d.pattern, letters);
  return letters[0] == 0 ? m->d.layers : (int)strlen(letters);
}

/* Its memory, whose heads and key_dim may be the model's. */
REF miras_memory_desc ref_layer_memory(const ref_model *m, int l) {
  miras_memory_desc d = ref_layer_of(m, l)->memory;
  if (d.heads == 0) d.heads = m->d.heads == 0 ? 1 : m->d.heads;
  if (ref_layer_of(m, l)->mixer.qk_map == MIRAS_QK_MAP_ONES) {
    if (d.value_dim == 0) d.value_dim = m->d.width / d.heads;
    d.key_dim = 1;
  }
  if (d.key_dim == 0) d.key_dim = m->d.width / d.heads;
  d = ref_resolve(&d);
  if (ref_layer_of(m, l)->mixer.key_slots > 0) d.key_dim = ref_layer_of(m, l)->mixer.key_slots;
  if (ref_layer_of(m, l)->mixer.top_slots > 0) d.decay_gate = MIRAS_GATE_CHANNEL;
  return d;
}

/* b added to every row of y [rows, columns]. */
REF void ref_add_bias(double *y, const double *b, size_t rows, size_t columns) {
  for (size_t i = 0; i < rows * columns; i++) y[i] += b[i % columns];
}

/* The activation of queries, keys and values; of answers, which usually have none. */
REF double ref_act(miras_function how, double x) {
  switch (how) {
    case MIRAS_FN_USUAL:
    case MIRAS_FN_SILU: return x * ref_sigmoid(x);
    case MIRAS_FN_RELU: return x > 0.0 ? x : 0.0;
    case MIRAS_FN_ELU: return x > 0.0 ? x + 1.0 : exp(x);
    default: return x;
  }
}

/* Activation of the convolution of h W, of the weights NAME.weight and conv_NAME: [tokens,
 * columns]. */
REF double *ref_mixed(const ref_model *m, int l, const char *name, const double *h, int batch,
                      int T, size_t columns) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const size_t N = (size_t)batch * (size_t)T;
  const miras_function mixing = name[0] == 'v' ? d->mixer.v_act
                                : d->mixer.qk_map == MIRAS_QK_MAP_TRAPEZOID ? MIRAS_FN_NONE
                                                                            : d->mixer.qk_act;
  const int taps = d->mixer.conv_on == MIRAS_CONV_ON_NONE                       ? 0
                   : d->mixer.conv_on == MIRAS_CONV_ON_QK && name[0] == 'v' ? 0
                   : d->mixer.conv_size == 0                                           ? 4
                                                                            : d->mixer.conv_size;
  double *c = (double *)ref_zeros(N * columns), *y = c;
  const char *from = d->mixer.share_qk && name[0] == 'k' ? "q" : name;
  char full[40], bias[40];
  snprintf(full, sizeof full, "%s.weight", from);
  ref_project(c, h, ref_param(m, l, full), N, (size_t)m->d.width, columns);
  if (d->mixer.projection_bias) {
    snprintf(full, sizeof full, "%s.bias", from);
    ref_add_bias(c, ref_param(m, l, full), N, columns);
  }
  snprintf(full, sizeof full, "conv_%s.weight", name);
  snprintf(bias, sizeof bias, "conv_%s.bias", name);
  if (taps > 0) {
    y = (double *)ref_zeros(N * columns);
    ref_convolve(y, c, ref_param(m, l, full), d->mixer.conv_bias ? ref_param(m, l, bias) : NULL,
                 batch, T, columns, taps);
    free(c);
  }
  for (size_t i = 0; i < N * columns; i++) y[i] = ref_act(mixing, y[i]);
  return y;
}

/* The learned gates of a layer, in the order of their columns. */
enum { REF_KEEP, REF_STEP, REF_MOMENTUM, REF_THRESHOLD, REF_VALUE_KEEP, REF_RATE, REF_FADE,
       REF_GATES };

/* Columns per head. A tied step has none: it is read off the decay gate's. */
REF size_t ref_gate_columns(const miras_layer_desc *d, const miras_memory_desc *md, int which) {
  switch (which) {
    case REF_KEEP:
      if (d->mixer.top_slots > 0 && d->memory.decay_gate == MIRAS_GATE_HEAD) return 1;
      return d->mixer.key_slots > 0 ? (size_t)d->mixer.key_slots : (size_t)ref_keep_width(md);
    case REF_STEP:
      if (d->mixer.tied_dt) return 0;
      return (size_t)ref_gate_width(md->learning_rate_gate, md->value_dim) *
             (d->mixer.qk_map == MIRAS_QK_MAP_TRAPEZOID ? 1 : (size_t)md->inner_steps);
    case REF_FADE:
      return d->mixer.qk_map == MIRAS_QK_MAP_TRAPEZOID ||
                     d->mixer.qk_map == MIRAS_QK_MAP_PRECONDITIONED
               ? 1 : (size_t)d->mixer.levels;
    case REF_MOMENTUM: return md->momentum_gate != MIRAS_GATE_CONSTANT ? 1 : 0;
    case REF_THRESHOLD:
      if (md->threshold_gate == MIRAS_GATE_CHANNEL) return (size_t)md->value_dim;
      return md->threshold_gate == MIRAS_GATE_HEAD ? 1 : 0;
    case REF_VALUE_KEEP:
      return md->value_decay_gate != MIRAS_GATE_CONSTANT ? (size_t)md->value_dim : 0;
    default:
      if (d->mixer.qk_map == MIRAS_QK_MAP_FEEDBACK ||
          d->mixer.qk_map == MIRAS_QK_MAP_PRECONDITIONED)
        return 1;
      if (d->mixer.top_slots > 0) return (size_t)d->mixer.key_slots;
      return d->mixer.qk_map == MIRAS_QK_MAP_ERASE || d->mixer.qk_map == MIRAS_QK_MAP_ERASE_GATE
               ? (size_t)md->key_dim : 0;
  }
}

/* Of those the columns of the projection itself: a fixed gate has only its offset. */
REF size_t ref_gate_projected(const miras_layer_desc *d, const miras_memory_desc *md, int which) {
  static const int fixed[REF_GATES] = {MIRAS_FIXED_DECAY,      MIRAS_FIXED_LEARNING_RATE,
                                       MIRAS_FIXED_MOMENTUM,  MIRAS_FIXED_THRESHOLD,
                                       MIRAS_FIXED_VALUE_DECAY, 0, 0};
  if (which == REF_RATE && d->mixer.qk_map == MIRAS_QK_MAP_FEEDBACK) return 0;
  return d->mixer.fixed_gates & fixed[which] ? 0 : ref_gate_columns(d, md, which);
}

/* What a gate is when its projection says g; a: the number learned beside it. */
REF double ref_gate(const miras_layer_desc *d, const miras_memory_desc *md, int which, double g,
                    double a) {
  const double most =
    d->mixer.decay_horizon > 0 ? 1.0 - 1.0 / (double)d->mixer.decay_horizon : 1.0; /* of alpha */
  if (d->mixer.tied_dt && (which == REF_KEEP || which == REF_STEP)) { /* dt between its bounds */
    double dt = ref_softplus(g);
    if (dt < (double)d->mixer.dt_min) dt = (double)d->mixer.dt_min;
    if (d->mixer.dt_max > 0.0f && dt > (double)d->mixer.dt_max) dt = (double)d->mixer.dt_max;
    if (which == REF_KEEP && d->mixer.decay_form == MIRAS_DECAY_FORM_TIME) return dt;
    return which == REF_STEP ? (double)md->learning_rate * dt : most * exp(-exp(a) * dt);
  }
  switch (which) {
    case REF_KEEP:
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_ROOT)
        return most * fmax((double)d->mixer.keep_min, pow(ref_sigmoid(g), 1.0 / 16.0));
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_ROOT8)
        return most * fmax((double)d->mixer.keep_min, pow(ref_sigmoid(g), 0.125));
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_RATE)
        return most * exp(-exp(a) * ref_softplus(g));
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_FLOOR && md->decay_gate == MIRAS_GATE_ENTRY)
        return -log(1.0 - ref_sigmoid(-g) * ref_sigmoid(-a));
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_FLOOR)
        return most * (1.0 - ref_sigmoid(-g) * ref_sigmoid(-a));
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_STEEP)
        return exp(-(d->mixer.decay_log_limit > 0.0f ? (double)d->mixer.decay_log_limit : 5.0) /
                   (1.0 + exp(-g * exp(a))));
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_BOUNDED)
        return most * exp(-exp(-0.5) * ref_sigmoid(g));
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_TIME) return ref_softplus(g);
      if (d->mixer.decay_form == MIRAS_DECAY_FORM_EXP) return most * exp(-exp(g));
      return most * fmax((double)d->mixer.keep_min, ref_sigmoid(g));
    case REF_STEP:
      return (double)md->learning_rate * ref_sigmoid(g);
    case REF_THRESHOLD: return (double)md->threshold * ref_softplus(g);
    case REF_FADE:
      return d->mixer.qk_map == MIRAS_QK_MAP_PRECONDITIONED ? exp(-exp(a) * ref_softplus(g))
                                                            : ref_softplus(g);
    default: return ref_sigmoid(g);
  }
}

/* n numbers times a factor of a descriptor, whose 0 is 1. */
REF void ref_times_factor(double *x, size_t n, float by) {
  for (size_t i = 0; i < n && by > 0.0f; i++) x[i] *= (double)by;
}

/* One number of z W for a row z [n] and a column of W [n, columns]. */
REF double ref_column(const double *z, const double *W, size_t n, size_t columns, size_t at) {
  double sum = 0.0;
  for (size_t i = 0; i < n; i++) sum += z[i] * W[i * columns + at];
  return sum;
}

/* up [tokens, projected] of values v [tokens, n]: each gate that moves has n columns, and each of
 * them reads the values of its own block alone. */
REF void ref_gate_blocks(const ref_model *m, const miras_memory_desc *md, int l, const double *v,
                         size_t N, size_t n, double *up, size_t projected) {
  static const char *const names[2] = {"gates.keep", "gates.step"};
  const miras_layer_desc *d = ref_layer_of(m, l);
  const size_t blocks =
    d->mixer.gate_blocks == 65536 ? (size_t)md->heads : (size_t)d->mixer.gate_blocks;
  const size_t each = n / blocks;
  size_t from = 0;
  for (int i = 0; i < 2; i++) {
    const double *W;
    if (ref_gate_projected(d, md, i) == 0) continue;
    W = ref_param(m, l, names[i]);
    for (size_t r = 0; r < N; r++)
      for (size_t j = 0; j < n; j++) {
        const size_t first = j - j % each;
        up[r * projected + from + j] =
          ref_column(v + r * n + first, W + first * each, each, each, j % each);
      }
    from += n;
  }
}

/* gate[which] [tokens, heads, columns], NULL where nothing is learned. Of the low rank that rows h
 * are projected to, or of `made` [tokens, rank]; or of values v, by blocks. */
REF void ref_gates(const ref_model *m, const miras_memory_desc *md, int l, const double *h,
                   size_t N, const double *made, const double *v, double *gate[REF_GATES],
                   ref_branches *branches) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const size_t H = (size_t)md->heads;
  size_t columns = 0, projected = 0, before = 0, from = 0;
  const double *offset, *rate = NULL, *fade_rate = NULL;
  double *raw;
  for (int i = 0; i < REF_GATES; i++) {
    gate[i] = NULL;
    columns += H * ref_gate_columns(d, md, i);
    projected += H * ref_gate_projected(d, md, i);
  }
  if (columns == 0) return;
  raw = (double *)ref_zeros(N * columns);
  offset = ref_param(m, l, "gates.offset");
  for (size_t r = 0; r < N; r++)
    for (size_t j = 0; j < columns; j++) raw[r * columns + j] = offset[j];
  if (projected > 0) { /* the columns of fixed gates are left out */
    char name[80];
    size_t rank;
    double *low = NULL, *up = (double *)ref_zeros(N * projected);
    if (d->mixer.gate_blocks > 0) {
      ref_gate_blocks(m, md, l, v, N, H * (size_t)md->value_dim, up, projected);
    } else {
      snprintf(name, sizeof name, "blocks.%d.gates.up", l);
      ref_param(m, l, "gates.up");
      rank = (size_t)ref_find(m, name)->shape[0];
      low = (double *)ref_zeros(N * rank);
      if (made != NULL) memcpy(low, made, N * rank * sizeof *low);
      else
        ref_project(low, h, ref_param(m, l, "gates.down"), N, (size_t)m->d.width, rank);
      if (d->mixer.projection_bias && made == NULL)
        ref_add_bias(low, ref_param(m, l, "gates.bias"), N, rank);
      ref_times_factor(low, N * rank, d->mixer.low_scale);
      ref_project(up, low, ref_param(m, l, "gates.up"), N, rank, projected);
    }
    for (int i = 0; i < REF_GATES; i++) {
      const size_t n = H * ref_gate_projected(d, md, i);
      for (size_t r = 0; r < N; r++)
        for (size_t j = 0; j < n; j++)
          raw[r * columns + before + j] += up[r * projected + from + j];
      before += H * ref_gate_columns(d, md, i);
      from += n;
    }
    before = 0;
    free(low);
    free(up);
  }
  if (md->decay_gate != MIRAS_GATE_CONSTANT && (d->mixer.decay_form == MIRAS_DECAY_FORM_RATE ||
                                                d->mixer.decay_form == MIRAS_DECAY_FORM_FLOOR ||
                                                d->mixer.decay_form == MIRAS_DECAY_FORM_STEEP))
    rate = ref_param(m, l, "gates.rate");
  if (d->mixer.qk_map == MIRAS_QK_MAP_PRECONDITIONED) /* behind those of decay gates, if any */
    fade_rate = ref_param(m, l, "gates.rate") +
                (rate != NULL ? H * ref_gate_columns(d, md, REF_KEEP) : 0);
  for (int i = 0; i < REF_GATES; i++) {
    const size_t n = H * ref_gate_columns(d, md, i);
    const double *a = i == REF_KEEP ? rate : i == REF_FADE ? fade_rate : NULL;
    if (n > 0) gate[i] = (double *)ref_zeros(N * n);
    for (size_t r = 0; r < N; r++)
      for (size_t j = 0; j < n; j++)
        gate[i][r * n + j] =
          ref_gate(d, md, i, raw[r * columns + before + j], a != NULL ? a[j] : 0.0);
    before += n;
  }
  if (d->mixer.tied_dt) { /* as many, of the decay gate's numbers: the first columns */
    const size_t n = H * ref_gate_columns(d, md, REF_KEEP);
    gate[REF_STEP] = (double *)ref_zeros(N * n);
    for (size_t r = 0; r < N; r++)
      for (size_t j = 0; j < n; j++)
        gate[REF_STEP][r * n + j] = ref_gate(d, md, REF_STEP, raw[r * columns + j], 0.0);
    for (size_t i = 0; i < N * n; i++) { /* where times meet their bounds */
      const double dt = ref_softplus(raw[i / n * columns + i % n]);
      const double low = (double)d->mixer.dt_min, high = (double)d->mixer.dt_max;
      if (low > 0.0) ref_branch(branches, dt < low, fabs(dt - low));
      if (high > 0.0) ref_branch(branches, dt > high, fabs(dt - high));
    }
  }
  free(raw);
}

/* exp(-s) of MIRAS_DECAY_SCHEDULE_LIGHTNING and MIRAS_DECAY_SCHEDULE_MINIMAX. */
REF double ref_slope(miras_decay_schedule slopes, int h, int heads, int l, int layers) {
  const double H = (double)heads, L = (double)layers;
  if (slopes == MIRAS_DECAY_SCHEDULE_LIGHTNING) return exp(-(8.0 / H) * (1.0 - l / L) * h);
  return exp(-pow(2.0, -8.0 * (h + 1) / H) * (1.0 - l / (L - 1.0 + 1e-5) + 1e-5));
}

/* The outer parameters of a layer's memory in the layout of miras_memory_params. */
REF double *ref_memory_params(const ref_model *m, const miras_memory_desc *md, int l) {
  const size_t H = (size_t)md->heads, dv = (size_t)md->value_dim;
  const char *const names[6] = {"memory.init", "memory.gain", "memory.bias", "memory.rates",
                                "memory.ridge", "memory.decay_log"};
  size_t count[6] = {0, 0, 0, 0, 0, 0}, at = 0;
  double *params = (double *)ref_zeros(ref_params_count(md));
  count[0] = H * ref_shape_of(md).weights;
  if (md->inner_norm) count[1] = count[2] = H * dv;
  if (md->token_rates) count[3] = (size_t)md->chunk;
  if (ref_squares(md)) count[4] = H * (size_t)ref_features(md);
  if (md->decay_gate == MIRAS_GATE_ENTRY) count[5] = count[0];
  for (int i = 0; i < 6; i++) {
    const double *from = count[i] > 0 ? ref_param(m, l, names[i]) : NULL;
    for (size_t j = 0; j < count[i]; j++) params[at++] = from[j];
  }
  return params;
}

/* Rows of keys [rows, heads of keys, n] as rows of the memories that read them; frees x. */
REF double *ref_shared(double *x, size_t rows, size_t qk_heads, size_t heads, size_t n) {
  double *y = (double *)ref_zeros(rows * heads * n);
  for (size_t r = 0; r < rows; r++)
    for (size_t h = 0; h < heads; h++)
      memcpy(y + (r * heads + h) * n, x + (r * qk_heads + h * qk_heads / heads) * n,
             n * sizeof *y);
  free(x);
  return y;
}

REF double ref_or(float x, double normally) { return x > 0.0f ? (double)x : normally; }

/* What the pair j of n entries turns by at each position, where its own angle is `angle`. */
REF double ref_scaled(double angle, int j, int n, double base, const miras_rope_scaling *s) {
  const double pi = acos(-1.0), factor = ref_or(s->factor, 1.0);
  const double length = s->context > 0 ? (double)s->context : 8192.0;
  const double slow = ref_or(s->low_frequency_factor, 1.0);
  const double fast =
    ref_or(s->high_frequency_factor, s->type == MIRAS_ROPE_SCALING_YARN ? 32.0 : 4.0);
  const double wave = 2.0 * pi / angle;
  double first, last, ramp;
  switch (s->type) {
    case MIRAS_ROPE_SCALING_LINEAR: return angle / factor;
    case MIRAS_ROPE_SCALING_LLAMA3:
      if (wave < length / fast) return angle;
      if (wave > length / slow) return angle / factor;
      ramp = (length / wave - slow) / (fast - slow);
      return (1.0 - ramp) * angle / factor + ramp * angle;
    case MIRAS_ROPE_SCALING_YARN:
      first = floor((double)n * log(length / (fast * 2.0 * pi)) / (2.0 * log(base)));
      last = ceil((double)n * log(length / (slow * 2.0 * pi)) / (2.0 * log(base)));
      first = first < 0.0 ? 0.0 : first;
      last = last > (double)n - 1.0 ? (double)n - 1.0 : last;
      if (!(first < last) && !(first > last)) last += 0.001;
      ramp = ((double)j - first) / (last - first);
      ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
      return angle / factor * ramp + angle * (1.0 - ramp);
    default: return angle;
  }
}

/* n entries, two as a complex number at a time, turned by a position: neighbours, or halves; by
 * angles that s scales, if it is not NULL. Position -1: they have none, and do not turn. */
REF void ref_turn(double *x, int n, double base, int position, int neighbours,
                  const miras_rope_scaling *s) {
  double size = 1.0;
  if (s && s->type == MIRAS_ROPE_SCALING_YARN)
    size = ref_or(s->attention_factor, 0.1 * log(ref_or(s->factor, 1.0)) + 1.0);
  for (int j = 0; j < n / 2 && position >= 0; j++) {
    const double own = 1.0 / exp(log(base) * 2.0 * (double)j / (double)n);
    const double angle = (double)position * (s ? ref_scaled(own, j, n, base, s) : own);
    double *a = neighbours ? x + 2 * j : x + j, *b = neighbours ? a + 1 : a + n / 2;
    const double re = size * *a, im = size * *b;
    *a = re * cos(angle) - im * sin(angle);
    *b = re * sin(angle) + im * cos(angle);
  }
}

/* How many of n entries of a head turn. */
REF int ref_turning(const miras_rope *r, int n) {
  return r->dim > 0                              ? r->dim
         : r->share == MIRAS_ROPE_SHARE_NONE    ? 0
         : r->share == MIRAS_ROPE_SHARE_QUARTER ? n / 4 + n / 4 % 2
         : r->share == MIRAS_ROPE_SHARE_HALF    ? n / 2 + n / 2 % 2
                                                : n;
}

/* Queries and keys [N, H, dk] of sequences of T tokens. */
REF void ref_turn_keys(const miras_layer_desc *d, int chunk, double *q, double *k, size_t N,
                       size_t H, size_t dk, int T) {
  const double base = d->mixer.rope.theta > 0.0f ? (double)d->mixer.rope.theta : 10000.0;
  const int turn = ref_turning(&d->mixer.rope, (int)dk);
  const int whole = d->mixer.rope.type == MIRAS_ROPE_TYPE_CHUNK ? chunk : T;
  for (size_t i = 0; i < N * H && d->mixer.rope.type != MIRAS_ROPE_TYPE_NONE; i++) {
    const int place = (int)(i / H) % T % whole;
    ref_turn(q + i * dk, turn, base, place, d->mixer.rope.interleaved, NULL);
    ref_turn(k + i * dk, turn, base, place, d->mixer.rope.interleaved, NULL);
  }
}

/* What multiplies the answers of memories where its projection says g. */
REF double ref_out_gate(miras_function form, double g) {
  switch (form) {
    case MIRAS_FN_NONE: return 1.0;
    case MIRAS_FN_SIGMOID: return ref_sigmoid(g);
    case MIRAS_FN_GELU:
      return 0.5 * g * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (g + 0.044715 * pow(g, 3.0))));
    default: return g * ref_sigmoid(g);
  }
}

/* How low ranks are squashed: not, by tanh, by a sigmoid. */
REF double ref_squash(int how, double x) {
  return how == 0 ? x : how == 1 ? tanh(x) : ref_sigmoid(x);
}

/* y [T, columns] = offset + squash(z NAME.down) NAME.up */
REF void ref_low_rank(const ref_model *m, int l, const char *name, int how, const double *z, int T,
                      size_t columns, const double *offset, double *y) {
  char full[64];
  const double *down, *up;
  size_t rank, n = (size_t)m->d.width;
  double *low;
  snprintf(full, sizeof full, "%s.down", name);
  down = ref_param(m, l, full);
  snprintf(full, sizeof full, "%s.up", name);
  up = ref_param(m, l, full);
  snprintf(full, sizeof full, "blocks.%d.%s.up", l, name);
  rank = (size_t)ref_find(m, full)->shape[0];
  low = (double *)ref_zeros(rank);
  for (int t = 0; t < T; t++) {
    for (size_t r = 0; r < rank; r++)
      low[r] = ref_squash(how, ref_column(z + (size_t)t * n, down, n, rank, r));
    for (size_t i = 0; i < columns; i++)
      y[(size_t)t * columns + i] =
        (offset != NULL ? offset[i] : 0.0) + ref_column(low, up, rank, columns, i);
  }
  free(low);
}

/* Answers y [N, H, dv], normed and gated: out. */
REF void ref_answers(const ref_model *m, int l, const double *h, double *y, size_t N, size_t H,
                     size_t dv, double *out) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const double epsilon =
    d->mixer.out_norm_epsilon > 0.0f ? (double)d->mixer.out_norm_epsilon : ref_epsilon(m);
  const double *gain =
    d->mixer.out_norm == MIRAS_NORM_NONE ? NULL : ref_param(m, l, "out_norm.gain");
  const int first = d->mixer.out_gate_first;
  const size_t asked = d->mixer.norm_heads > 0 ? (size_t)d->mixer.norm_heads : 1;
  const size_t joined = asked > H ? H : asked;
  double *g = (double *)ref_zeros(N * H * dv);
  for (size_t i = 0; d->mixer.out_act != MIRAS_FN_USUAL && i < N * H * dv; i++)
    y[i] = ref_act(d->mixer.out_act, y[i]);
  if (d->mixer.out_gate_rank > 0)
    ref_low_rank(m, l, "out_gate", 0, h, (int)N, H * dv, ref_param(m, l, "out_gate.offset"), g);
  else if (d->mixer.out_gate != MIRAS_FN_NONE)
    ref_project(g, h, ref_param(m, l, "out_gate.weight"), N, (size_t)m->d.width, H * dv);
  if (d->mixer.projection_bias && d->mixer.out_gate_rank == 0 &&
      d->mixer.out_gate != MIRAS_FN_NONE)
    ref_add_bias(g, ref_param(m, l, "out_gate.bias"), N, H * dv);
  ref_times_factor(g, N * H * dv, d->mixer.gate_scale);
  for (size_t i = 0; i < N * H * dv; i++) g[i] = ref_out_gate(d->mixer.out_gate, g[i]);
  for (size_t i = 0; first && i < N * H * dv; i++) y[i] *= g[i];
  if (d->mixer.out_norm == MIRAS_NORM_NONE)
    memcpy(out, y, N * H * dv * sizeof *y);
  else if (d->mixer.out_norm == MIRAS_NORM_LAYER)
    ref_layer_norm(out, y, gain, ref_param(m, l, "out_norm.bias"), N * H / joined, joined * dv,
                   H / joined, epsilon);
  else
    ref_rms(out, y, gain, N * H / joined, joined * dv, H / joined, epsilon);
  for (size_t i = 0; !first && i < N * H * dv; i++) out[i] *= g[i];
  free(g);
}

/* What rows [N * H, dk] of keys erase, S = A S + replace (erase' S) + k (w v)':
 *   Gated DeltaNet-2  S = (I - k (b k)') diag(alpha) S + k (w v)'
 *   Comba             S = alpha S + beta k (v - S'p)', read with q - D p */
REF void ref_split(const ref_model *m, int l, double *const gate[REF_GATES], double *q,
                   const double *k, double *erase, double *replace, size_t N, size_t H, size_t dk) {
  const int corrected = ref_layer_of(m, l)->mixer.qk_map == MIRAS_QK_MAP_FEEDBACK;
  for (size_t r = 0; r < N * H; r++)
    for (size_t i = r * dk; i < (r + 1) * dk; i++) {
      if (corrected) {
        const double p = gate[REF_RATE][r] * k[i];
        erase[i] = p;
        replace[i] = -gate[REF_STEP][r] * k[i];
        q[i] -= ref_param(m, l, "feedback.gain")[r % H] * p;
      } else {
        erase[i] = gate[REF_KEEP][i] * gate[REF_RATE][i] * k[i];
        replace[i] = -k[i];
      }
    }
}

/* What rows of keys k [tokens, heads, dk] write and erase in preconditioned delta rules, with keep
 * alpha, per head or key channel, and step beta:
 *   S = A S + beta (m k) (v - S'A k)',  m = 1.5^(-r / (1 + |r|)),  r = ln(h + 1e-6) - c
 * h, of a channel, is what keys up to the token have told in it: the sum of b_s k_s^2, times the f
 * of all tokens since. k becomes m k. */
REF void ref_precondition(const ref_model *m, int l, double *const gate[REF_GATES], double *k,
                          double *erase, double *replace, int batch, int T, size_t H, size_t dk) {
  const double *centre = ref_param(m, l, "precondition.centre");
  const int channels = ref_layer_of(m, l)->memory.decay_gate == MIRAS_GATE_CHANNEL;
  double *own = (double *)memcpy(ref_zeros((size_t)batch * (size_t)T * H * dk), k,
                                 (size_t)batch * (size_t)T * H * dk * sizeof *k);
  for (size_t i = 0; i < (size_t)batch * (size_t)T * H * dk; i++) {
    const size_t row = i / dk, t = row / H % (size_t)T, ahead = H * dk;
    double all = 0.0, left = 1.0, r;
    for (size_t s = 0; s <= t; s++) {
      all += left * gate[REF_RATE][row - s * H] * own[i - s * ahead] * own[i - s * ahead];
      left *= gate[REF_FADE][row - s * H];
    }
    r = log(all + 1e-6) - centre[row % H];
    k[i] = own[i] * pow(1.5, -r / (1.0 + fabs(r)));
    erase[i] = gate[REF_KEEP][channels ? i : row] * own[i];
    replace[i] = -gate[REF_STEP][row] * k[i];
  }
  free(own);
}

/* Columns from..from + n - 1 of rows z [tokens, wide] as rows of their own, each over its root
 * mean square where there is an epsilon. */
REF double *ref_columns(const double *z, size_t N, size_t wide, size_t from, size_t n,
                        double epsilon) {
  double *y = (double *)ref_zeros(N * n);
  for (size_t r = 0; r < N; r++) {
    double square = epsilon > 0.0 ? 0.0 : (double)n;
    for (size_t i = 0; i < n && epsilon > 0.0; i++)
      square += z[r * wide + from + i] * z[r * wide + from + i];
    for (size_t i = 0; i < n; i++)
      y[r * n + i] = z[r * wide + from + i] / sqrt(square / (double)n + epsilon);
  }
  return y;
}

/* What values v [tokens, columns] make (Mamba's x_proj): low rank, keys, queries. */
REF void ref_inner(const ref_model *m, int l, const double *v, size_t N, size_t columns,
                   size_t keys, double *part[3]) {
  static const char *const gain[3] = {"gates_norm.gain", "k_norm.gain", "q_norm.gain"};
  const int gains = ref_layer_of(m, l)->mixer.from_values > 1;
  const double epsilon =
    gains ? ref_epsilon(m) : (double)ref_layer_of(m, l)->mixer.from_values_epsilon;
  char name[80];
  size_t wide, rank;
  double *z;
  snprintf(name, sizeof name, "blocks.%d.inner.weight", l);
  wide = (size_t)ref_find(m, name)->shape[1];
  rank = wide - 2 * keys;
  z = (double *)ref_zeros(N * wide);
  ref_project(z, v, ref_param(m, l, "inner.weight"), N, columns, wide);
  part[0] = ref_columns(z, N, wide, 0, rank, epsilon);
  part[1] = ref_columns(z, N, wide, rank, keys, epsilon);
  part[2] = ref_columns(z, N, wide, rank + keys, keys, epsilon);
  for (int i = 0; i < 3 && gains; i++) {
    const size_t n = i ? keys : rank;
    for (size_t j = 0; j < N * n; j++) part[i][j] *= ref_param(m, l, gain[i])[j % n];
  }
  for (int i = 1; i < 3 && keys == 0; i++) {
    free(part[i]);
    part[i] = NULL;
  }
  free(z);
}

REF double *ref_ones(size_t n) {
  double *y = (double *)ref_zeros(n);
  for (size_t i = 0; i < n; i++) y[i] = 1.0;
  return y;
}

/* What rows of keys erase in RWKV-7, kappa and kappa (.) rate, and the keys that are written. */
REF void ref_erase(const ref_model *m, int l, const double *rate, double *k, double *erase,
                   double *replace, size_t N, size_t H, size_t dk) {
  const double *scale = ref_param(m, l, "erase.scale"), *mix = ref_param(m, l, "erase.mix");
  for (size_t i = 0; i < N * H * dk; i++) replace[i] = k[i] * scale[i % (H * dk)];
  ref_lengthen(replace, N * H, dk, 1.0);
  for (size_t i = 0; i < N * H * dk; i++) {
    erase[i] = -replace[i];
    replace[i] *= rate[i];
    k[i] *= 1.0 + (rate[i] - 1.0) * mix[i % (H * dk)];
  }
}

/* Values [tokens, heads, pairs, dv] of rows h: where a token erases first they are made for the
 * last pair, and those before it have the value 0. */
REF double *ref_values(const ref_model *m, int l, const miras_memory_desc *md, const double *h,
                       int batch, int T) {
  const size_t steps = (size_t)md->inner_steps, dv = (size_t)md->value_dim, H = (size_t)md->heads;
  const size_t all = (size_t)batch * (size_t)T * H;
  double *last, *v;
  if (!ref_layer_of(m, l)->mixer.erase_first &&
      ref_layer_of(m, l)->mixer.qk_map != MIRAS_QK_MAP_TRAPEZOID)
    return ref_mixed(m, l, "v", h, batch, T, H * steps * dv);
  last = ref_mixed(m, l, "v", h, batch, T, H * dv);
  v = (double *)ref_zeros(all * steps * dv);
  for (size_t i = 0; i < all * dv; i++) v[(i / dv * steps + steps - 1) * dv + i % dv] = last[i];
  free(last);
  return v;
}

/* By how much of each of its slots a head reads (gated slot attention): p [tokens, heads, slots] =
 * softmax over the slots of their keys' products with queries q [tokens, heads, wide]. The key of
 * slot i is an average of the tokens' keys k, of which each takes 1 - keep[i]. */
REF double *ref_slots(const ref_model *m, int l, const miras_memory_desc *md, const double *keep,
                      const double *q, const double *k, size_t wide, int batch, int T) {
  const size_t H = (size_t)md->heads, S = (size_t)md->key_dim;
  const double *start = ref_param(m, l, "slots.init"); /* [heads, wide, slots] */
  double *p = (double *)ref_zeros((size_t)batch * (size_t)T * H * S);
  double *key = (double *)ref_zeros(wide);
  for (size_t b = 0; b < (size_t)batch; b++)
    for (size_t h = 0; h < H; h++)
      for (size_t i = 0; i < S; i++)
        for (int t = 0; t < T; t++) {
          const size_t at = (b * (size_t)T + (size_t)t) * H + h;
          const double f = keep[at * S + i];
          for (size_t c = 0; c < wide; c++) {
            const double first = start[(h * wide + c) * S + i];
            const double to = md->decay_target == MIRAS_DECAY_TARGET_INITIAL ? first : 0.0;
            if (t == 0 || ref_restarts(md, (int)h, (uint64_t)t)) key[c] = first;
            key[c] = to + f * (key[c] - to) +
                     (double)md->learning_rate * (1.0 - f) * k[at * wide + c];
            p[at * S + i] += key[c] * q[at * wide + c];
          }
        }
  for (size_t r = 0; r < (size_t)batch * (size_t)T * H; r++) {
    double most = p[r * S], sum = 0.0;
    for (size_t i = 0; i < S; i++) most = fmax(most, p[r * S + i]);
    for (size_t i = 0; i < S; i++) sum += p[r * S + i] = exp(p[r * S + i] - most);
    for (size_t i = 0; i < S; i++) p[r * S + i] /= sum;
  }
  free(key);
  return p;
}

/* Decay gates alpha of heads or slots become what slots keep, [tokens, heads, slots], of which a
 * router picks a few (Raven): of a slot that fewer than `top` others are ahead of, by their sigmoid
 * or, where it is the same, by their index, alpha to the power of its share. */
REF void ref_pick(const miras_layer_desc *d, const miras_memory_desc *md, double **alpha,
                  const double *sigmoid, size_t N) {
  const size_t H = (size_t)md->heads, S = (size_t)md->key_dim;
  const size_t each = d->memory.decay_gate == MIRAS_GATE_HEAD ? 1 : S;
  double *keep = (double *)ref_zeros(N * H * S);
  for (size_t r = 0; r < N * H; r++) {
    const double *s = sigmoid + r * S;
    double all = 0.0;
    for (int pass = 0; pass < 2; pass++)
      for (size_t i = 0; i < S; i++) {
        int ahead = 0;
        for (size_t j = 0; j < S; j++) ahead += s[j] > s[i] || (s[j] == s[i] && j < i);
        if (pass == 0) all += ahead < d->mixer.top_slots ? s[i] : 0.0;
        else
          keep[r * S + i] = ahead < d->mixer.top_slots
                              ? pow((*alpha)[r * each + (each > 1 ? i : 0)], s[i] / all) : 1.0;
      }
  }
  free(*alpha);
  *alpha = keep;
}

/* Mamba-3's keys or queries of rows h, [tokens, heads, dk] (name k or q): normed, and moved. */
REF double *ref_moved(const ref_model *m, int l, const miras_memory_desc *md, const char *name,
                      const double *h, int batch, int T) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const size_t H = (size_t)md->heads, dk = (size_t)md->key_dim, N = (size_t)batch * (size_t)T;
  const size_t K = d->mixer.qk_heads > 0 ? (size_t)d->mixer.qk_heads : H;
  double *x = ref_mixed(m, l, name, h, batch, T, K * dk), *y;
  char full[24];
  snprintf(full, sizeof full, "%s_norm.gain", name);
  for (size_t r = 0; r < N * K; r++) {
    double square = 0.0;
    for (size_t i = 0; i < dk; i++) square += x[r * dk + i] * x[r * dk + i];
    for (size_t i = 0; i < dk; i++)
      x[r * dk + i] *= ref_param(m, l, full)[i] / sqrt(square / (double)dk + ref_epsilon(m));
  }
  y = ref_shared(x, N, K, H, dk);
  snprintf(full, sizeof full, "%s.offset", name);
  ref_add_bias(y, ref_param(m, l, full), N, H * dk);
  return y;
}

/* The angle by which pair i of head h's keys turns within token r of all. */
REF double ref_angle(const ref_model *m, int l, const double *dt, const double *h, size_t r,
                     size_t head, size_t H, size_t i, size_t pairs) {
  const size_t n = (size_t)m->d.width;
  const double g = ref_column(h + r * n, ref_param(m, l, "angles.weight"), n, pairs, i);
  return acos(-1.0) * dt[r * H + head] * tanh(g);
}

/* Mamba-3's two pairs a token, of keys *k and values v, and their rates: all of what a token turns
 * by is summed for it anew. v [tokens, heads, 2, dv] has the token's own values already. */
REF void ref_trapezoid(const ref_model *m, int l, const miras_memory_desc *md, const double *h,
                       int batch, int T, double *gate[REF_GATES], double *q, double **k,
                       double *v) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const size_t H = (size_t)md->heads, dk = (size_t)md->key_dim, dv = (size_t)md->value_dim;
  const size_t N = (size_t)batch * (size_t)T;
  const int turn = d->mixer.rope.type ? ref_turning(&d->mixer.rope, (int)dk) : 0;
  double *pairs = (double *)ref_zeros(N * H * 2 * dk);
  double *keep = (double *)ref_zeros(N * H), *rate = (double *)ref_zeros(N * H * 2);
  for (size_t i = 0; i < N * H; i++) {
    const size_t r = i / H, t = r % (size_t)T, head = i % H;
    const double dt = gate[REF_KEEP][i], part = gate[REF_STEP][i];
    for (int j = 0; j < turn / 2; j++) {
      const int a = d->mixer.rope.interleaved ? 2 * j : j, b = a + 1;
      const int other = d->mixer.rope.interleaved ? b : j + turn / 2;
      double all = 0.0;
      for (size_t s = r - t; s <= r; s++)
        all += ref_angle(m, l, gate[REF_KEEP], h, s, head, H, (size_t)j, (size_t)turn / 2);
      for (int what = 0; what < 2; what++) {
        double *x = (what ? q : *k) + i * dk;
        const double re = x[a], im = x[other];
        x[a] = re * cos(all) - im * sin(all);
        x[other] = im * cos(all) + re * sin(all);
      }
    }
    memcpy(pairs + (2 * i + 1) * dk, *k + i * dk, dk * sizeof *pairs);
    if (t > 0) memcpy(pairs + 2 * i * dk, *k + (i - H) * dk, dk * sizeof *pairs);
    if (t > 0) memcpy(v + 2 * i * dv, v + (2 * (i - H) + 1) * dv, dv * sizeof *v);
    keep[i] = exp(-gate[REF_FADE][i] * dt);
    rate[2 * i] = ((double)md->learning_rate - part) * dt * keep[i];
    rate[2 * i + 1] = part * dt;
  }
  free(*k), free(gate[REF_KEEP]), free(gate[REF_STEP]);
  *k = pairs, gate[REF_KEEP] = keep, gate[REF_STEP] = rate;
}

/* A memory with a schedule of decays is handed what it would make itself. */
REF void ref_scheduled(const ref_model *m, int l, miras_memory_desc *md, size_t N,
                       double *gate[REF_GATES]) {
  const size_t H = (size_t)md->heads;
  if (md->decay_schedule == MIRAS_DECAY_SCHEDULE_RATIO) return;
  gate[REF_KEEP] = (double *)ref_zeros(N * H);
  for (size_t i = 0; i < N * H; i++)
    gate[REF_KEEP][i] = ref_slope(md->decay_schedule, (int)(i % H), md->heads, l, ref_layers(m));
  md->decay_gate = MIRAS_GATE_HEAD;
  md->decay_schedule = MIRAS_DECAY_SCHEDULE_RATIO;
}

/* The same of a layer's queries of rows `asks` and keys of rows h. */
REF double *ref_asked_slots(const ref_model *m, int l, const miras_memory_desc *md,
                            const double *keep, const double *asks, const double *h, int batch,
                            int T) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const size_t wide = (size_t)(d->memory.key_dim > 0 ? d->memory.key_dim : m->d.width / md->heads);
  const size_t all = (size_t)md->heads * wide;
  double *q = ref_mixed(m, l, "q", asks, batch, T, all), *p;
  double *k = ref_mixed(m, l, "k", h, batch, T, all);
  if (d->mixer.top_slots > 0) {
    const size_t rows = (size_t)batch * (size_t)T * (size_t)md->heads;
    ref_lengthen(q, rows, wide, sqrt((double)wide));
    ref_lengthen(k, rows, wide, sqrt((double)wide));
  }
  for (size_t i = 0; d->mixer.scaled_queries && i < (size_t)batch * (size_t)T * all; i++)
    q[i] /= sqrt((double)wide);
  p = ref_slots(m, l, md, keep, q, k, wide, batch, T);
  free(q);
  free(k);
  return p;
}

/* The answers of a tree of states (log-linear attention), y [tokens, heads, dv]: for every token
 * each bucket is filled anew, from its first pair on, and then decays, and is erased, up to the
 * token. The last level begins with the initial memory, which is older than all. */
REF void ref_levels(const miras_memory_desc *md, int levels, const double *init,
                    double *const gate[REF_GATES], const double *q, const double *k,
                    const double *v, int batch, int T, double *y) {
  const size_t H = (size_t)md->heads, dk = (size_t)md->key_dim, dv = (size_t)md->value_dim;
  double *S = (double *)ref_zeros(dk * dv);
  for (size_t i = 0; i < (size_t)(batch * T) * H; i++) {
    const size_t head = i % H;
    const uint64_t token = i / H % (size_t)T;
    const int t = ref_restarts(md, (int)head, token) ? 0 : (int)ref_age(md, (int)head, token);
    const size_t start = i / H - (size_t)t;        /* where the head began anew                   */
    for (int l = 0; l < levels; l++) {
      int from = t, end = t + 1;                   /* of its pairs                                */
      if (l > 0) {
        end = t - t % (1 << (l - 1));
        from = l + 1 == levels ? 0 : end - (t >> (l - 1) & 1) * (1 << (l - 1));
      }
      memset(S, 0, dk * dv * sizeof *S);
      if (l + 1 == levels) memcpy(S, init + head * dk * dv, dk * dv * sizeof *S);
      for (int s = from; s <= t; s++) {
        const size_t at = (start + (size_t)s) * H + head;
        for (size_t j = 0; j < dk * dv; j++) S[j] *= gate[REF_KEEP][at];
        for (size_t j = 0; j < dv; j++) {
          double error = s < end ? v[at * dv + j] : 0.0;
          for (size_t c = 0; c < dk && md->bias == MIRAS_BIAS_L2; c++)
            error -= k[at * dk + c] * S[c * dv + j];
          for (size_t c = 0; c < dk; c++)
            S[c * dv + j] += gate[REF_STEP][at] * k[at * dk + c] * error;
        }
      }
      for (size_t j = 0; j < dk * dv; j++)
        y[i * dv + j % dv] +=
          gate[REF_FADE][i * (size_t)levels + (size_t)l] * S[j] * q[i * dk + j / dv];
    }
  }
  free(S);
}

/* What a layer's memories answer, [tokens, heads * dv]: keys, values and gates are made of rows h,
 * queries of rows `asks`, or NULL: they are the rows h themselves. A token asks when it has learned
 * its own pair; or, of one sequence, after the first `learned` of T tokens all of them do. */
REF void ref_memory_answers(const ref_model *m, int l, const double *asks, const double *h,
                            int batch, int T, int learned, double *y, ref_branches *branches) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  miras_memory_desc md = ref_layer_memory(m, l);
  const size_t H = (size_t)md.heads, dk = (size_t)md.key_dim, dv = (size_t)md.value_dim;
  const size_t N = (size_t)batch * (size_t)T, steps = (size_t)md.inner_steps;
  const size_t K = d->mixer.qk_heads > 0 ? (size_t)d->mixer.qk_heads : H;
  const int ones = d->mixer.qk_map == MIRAS_QK_MAP_ONES;
  const int trapezoid = d->mixer.qk_map == MIRAS_QK_MAP_TRAPEZOID;
  const int erases = md.separate_erase && d->mixer.qk_map != MIRAS_QK_MAP_ERASE;
  const double length = d->mixer.qk_map == MIRAS_QK_MAP_L2 || erases ? 1.0
                        : d->mixer.qk_map == MIRAS_QK_MAP_RMS ? sqrt((double)dk)
                        : d->mixer.qk_map == MIRAS_QK_MAP_L1 ? -1.0
                                                    : 0.0;
  double *q, *k, *v, *inner[3] = {NULL, NULL, NULL};
  double *erase = NULL, *replace = NULL, *gate[REF_GATES], *params;
  ref_memory memory;
  ref_tokens x;

  v = ref_values(m, l, &md, h, batch, T);
  if (d->mixer.from_values && !(ones && d->mixer.gate_blocks > 0))
    ref_inner(m, l, v, N, H * dv, ones ? 0 : K * dk, inner);
  ref_gates(m, &md, l, h, N, inner[0], v, gate, branches);
  free(inner[0]);
  if (d->mixer.top_slots > 0) ref_pick(d, &md, &gate[REF_KEEP], gate[REF_RATE], N);
  if (ones) {
    q = ref_ones(N * H * dk);
  } else if (trapezoid) {
    q = ref_moved(m, l, &md, "q", h, batch, T);
  } else if (d->mixer.from_values) {
    q = ref_shared(inner[2], N, K, H, dk);
  } else if (d->mixer.key_slots > 0) {
    q = ref_asked_slots(m, l, &md, gate[REF_KEEP], asks, h, batch, T);
  } else if (asks != NULL) {
    q = ref_shared(ref_mixed(m, l, "q", asks, batch, T, K * dk), N, K, H, dk);
  } else {
    q = (double *)memcpy(ref_zeros(N * H * dk), h, N * H * dk * sizeof *q);
  }
  if (ones) {
    k = ref_ones(N * H * dk);
  } else if (trapezoid) {
    k = ref_moved(m, l, &md, "k", h, batch, T);
    ref_trapezoid(m, l, &md, h, batch, T, gate, q, &k, v);
  } else if (d->mixer.from_values) {
    k = ref_shared(inner[1], N, K, H, dk);
  } else if (d->mixer.qk_map == MIRAS_QK_MAP_COMPLEMENT) {
    k = (double *)ref_zeros(N * H * dk);
    for (size_t i = 0; i < N * H * dk; i++) k[i] = 1.0 - gate[REF_KEEP][i];
  } else {
    k = ref_shared(ref_mixed(m, l, "k", h, batch, T, K * steps * dk), N, K, H, steps * dk);
  }
  if (!trapezoid) ref_turn_keys(d, md.chunk, q, k, N, H, dk, T);
  ref_lengthen(q, N * H, dk, length);
  ref_lengthen(k, N * H * steps, dk, length);
  if (md.separate_erase) {
    erase = (double *)ref_zeros(N * H * dk);
    replace = (double *)ref_zeros(N * H * dk);
    if (d->mixer.qk_map == MIRAS_QK_MAP_ERASE)
      ref_erase(m, l, gate[REF_RATE], k, erase, replace, N, H, dk);
    else if (d->mixer.qk_map == MIRAS_QK_MAP_PRECONDITIONED)
      ref_precondition(m, l, gate, k, erase, replace, batch, T, H, dk);
    else
      ref_split(m, l, gate, q, k, erase, replace, N, H, dk);
  }
  for (size_t i = 0; d->mixer.scaled_queries && d->mixer.key_slots == 0 && i < N * H * dk; i++)
    q[i] /= sqrt((double)dk);
  ref_scheduled(m, l, &md, N, gate);

  md.batch = batch;
  params = ref_memory_params(m, &md, l);
  memset(&x, 0, sizeof x);
  x.length = learned;
  x.key = k, x.value = v, x.query = q;
  x.keep = gate[REF_KEEP];
  x.step = gate[REF_STEP];
  x.momentum = gate[REF_MOMENTUM];
  x.threshold = gate[REF_THRESHOLD];
  x.value_keep = gate[REF_VALUE_KEEP];
  x.erase = erase;
  x.replace = replace;
  ref_open(&memory, &md, params);
  memory.branches = branches;
  if (d->mixer.levels > 0)
    ref_levels(&md, d->mixer.levels, params, gate, q, k, v, batch, T, y);
  else
    ref_forward(&memory, &x, learned == T ? y : NULL, NULL);
  for (size_t i = 0; i < N * H && learned < T; i++) {
    const int at = (int)(i / H), head = (int)(i % H);
    if (at >= learned && ref_restarts(&md, head, (uint64_t)at)) ref_reset_head(&memory, 0, head);
    ref_read_head(&memory, 0, head, q + i * dk, y + i * dv);
  }
  ref_close(&memory);
  for (size_t i = 0; d->mixer.d_skip && i < N * H * dv; i++)
    y[i] += ref_param(m, l, "skip.gain")[d->mixer.d_skip > 1 ? i % (H * dv) : i / dv % H] *
            v[(i / dv * steps + steps - 1) * dv + i % dv];
  for (int i = 0; i < REF_GATES; i++) free(gate[i]);
  free(params);
  free(erase), free(replace);
  free(q), free(k), free(v);
}

/* A memory layer up to its output projection, or, as a gate, its answers: [tokens, heads * dv]. */
REF void ref_memory_layer(const ref_model *m, int l, const double *h, int batch, int T, double *out,
                          ref_branches *branches) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const miras_memory_desc md = ref_layer_memory(m, l);
  const size_t N = (size_t)batch * (size_t)T, H = (size_t)md.heads, dv = (size_t)md.value_dim;
  double *y = (double *)ref_zeros(N * H * dv);
  ref_memory_answers(m, l, h, h, batch, T, T, y, branches);
  if (d->type == MIRAS_LAYER_MAG)
    memcpy(out, y, N * H * dv * sizeof *y);
  else
    ref_answers(m, l, h, y, N, H, dv, out);
  free(y);
}

/* A projection of rows [from]: weights [from, heads * n], a bias or NULL. */
typedef struct ref_linear {
  const double *W, *bias;
  size_t from;
} ref_linear;

/* y [heads, n] = x W + bias for one row of x, each head normed with a gain (or NULL), or all of
 * them, and then its first `turn` entries turned by its position, two as a complex number at a
 * time. */
REF void ref_turned(double *y, const double *x, const ref_linear *by, int heads, int n,
                    const double *gain, double epsilon, const miras_layer_desc *d, int position) {
  const double base = d->attention.rope.theta > 0.0f ? (double)d->attention.rope.theta : 10000.0;
  const int turn = ref_turning(&d->attention.rope, n);
  double all = 0.0;
  for (int h = 0; h < heads; h++) {
    double *head = y + h * n, square = 0.0;
    for (int j = 0; j < n; j++) {
      head[j] = by->bias != NULL ? by->bias[h * n + j] : 0.0;
      for (size_t i = 0; i < by->from; i++)
        head[j] += x[i] * by->W[i * (size_t)(heads * n) + (size_t)(h * n + j)];
      square += head[j] * head[j];
    }
    for (int j = 0; j < n && d->attention.qk_norm == 1; j++)
      head[j] *= gain[j] / sqrt(square / (double)n + epsilon);
    if (d->attention.qk_norm < 2)
      ref_turn(head, turn, base, position, d->attention.rope.interleaved,
               &d->attention.rope_scaling);
    all += square;
  }
  for (int h = 0; h < heads && d->attention.qk_norm > 1; h++) {
    double *head = y + h * n;
    for (int j = 0; j < n; j++)
      head[j] *= gain[h * n + j] / sqrt(all / (double)(heads * n) + epsilon);
    ref_turn(head, turn, base, position, d->attention.rope.interleaved,
             &d->attention.rope_scaling);
  }
}

/* A parameter of a layer's attention, which has a name of its own beside a memory. */
REF const double *ref_attention_param(const ref_model *m, int l, const char *name) {
  char whole[64];
  snprintf(whole, sizeof whole, "%s%s",
           ref_layer_of(m, l)->type == MIRAS_LAYER_ATTENTION ? "" : "attention.", name);
  return ref_param(m, l, whole);
}

/* An attention layer up to its output projection, query by query: out [batch, T, heads * dim]. With
 * rows of what was recalled, which are there beside those of h, windows are segments, and of one
 * sequence queries `from` to T - 1 are asked. */
REF void ref_attention_layer(const ref_model *m, int l, const double *h, const double *recalled,
                             int batch, int from, int T, double *out) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const int model = m->d.heads == 0 ? 1 : m->d.heads,
            heads = d->attention.heads == 0 ? model : d->attention.heads;
  const int shared = d->attention.kv_heads == 0 ? heads : d->attention.kv_heads;
  const int dim = d->attention.head_dim == 0 ? m->d.width / heads : d->attention.head_dim;
  const int window = d->attention.window == 0 ? 1024 : d->attention.window;
  const size_t width = (size_t)m->d.width;
  const ref_linear of_q = {ref_attention_param(m, l, "q.weight"),
                           d->attention.bias ? ref_param(m, l, "q.bias") : NULL, width};
  const ref_linear of_k = {ref_attention_param(m, l, "k.weight"),
                           d->attention.bias ? ref_param(m, l, "k.bias") : NULL, width};
  const double *Wv = ref_attention_param(m, l, "v.weight");
  const double *gq = d->attention.qk_norm ? ref_attention_param(m, l, "q_norm.gain") : NULL;
  const double *gk = d->attention.qk_norm ? ref_attention_param(m, l, "k_norm.gain") : NULL;
  const double *bv = d->attention.bias ? ref_param(m, l, "v.bias") : NULL;
  const double *bg = d->attention.bias && d->attention.out_gate
                       ? ref_param(m, l, "out_gate.bias") : NULL;
  const double *pk = d->attention.persistent > 0 ? ref_param(m, l, "persistent.k") : NULL;
  const double *pv = d->attention.persistent > 0 ? ref_param(m, l, "persistent.v") : NULL;
  double *q = (double *)ref_zeros((size_t)(heads * dim));
  double *k = (double *)ref_zeros((size_t)(shared * dim));
  for (int b = 0; b < batch; b++)
    for (int t = from; t < T; t++) {
      const int first = recalled != NULL ? t - t % window : t - window + 1 < 0 ? 0 : t - window + 1;
      double *y = out + (size_t)(b * T + t) * (size_t)(heads * dim);
      double *sum = (double *)ref_zeros((size_t)heads);
      memset(y, 0, (size_t)(heads * dim) * sizeof *y);
      ref_turned(q, h + (size_t)(b * T + t) * width, &of_q, heads, dim, gq,
                 ref_epsilon(m), d, -1);
      ref_times_factor(q, (size_t)(heads * dim), d->attention.query_scale);
      for (int a = 0; a < heads * d->attention.persistent; a++) { /* pairs without a position */
        const int head = a % heads;
        const int at = (a / heads * shared + head * shared / heads) * dim;
        double score = 0.0;
        for (int j = 0; j < dim; j++) score += q[head * dim + j] * pk[at + j];
        score = exp(score / sqrt((double)dim));
        sum[head] += score;
        for (int j = 0; j < dim; j++) y[head * dim + j] += score * pv[at + j];
      }
      ref_turned(q, h + (size_t)(b * T + t) * width, &of_q, heads, dim, gq,
                 ref_epsilon(m), d, t);
      ref_times_factor(q, (size_t)(heads * dim), d->attention.query_scale);
      for (int i = 2 * first; i <= 2 * t + (recalled != NULL); i += recalled != NULL ? 1 : 2) {
        const double *x = (i % 2 ? recalled : h) + (size_t)(b * T + i / 2) * width;
        ref_turned(k, x, &of_k, shared, dim, gk, ref_epsilon(m), d, i / 2);
        for (int a = 0; a < heads; a++) {
          const int of = a * shared / heads;
          double score = 0.0;
          for (int j = 0; j < dim; j++) score += q[a * dim + j] * k[of * dim + j];
          score = exp(score / sqrt((double)dim));
          sum[a] += score;
          for (int j = 0; j < dim; j++) {
            double v = bv != NULL ? bv[of * dim + j] : 0.0;
            for (size_t c = 0; c < width; c++)
              v += x[c] * Wv[c * (size_t)(shared * dim) + (size_t)(of * dim + j)];
            y[a * dim + j] += score * v;
          }
        }
      }
      for (int j = 0; j < heads * dim; j++) {
        double gate = bg != NULL ? bg[j] : 0.0;
        for (size_t c = 0; c < width && d->attention.out_gate; c++)
          gate += h[(size_t)(b * T + t) * width + c] *
                  ref_param(m, l, d->type == MIRAS_LAYER_PARALLEL
                                    ? "attention.gate.weight"
                                    : "out_gate.weight")[c * (size_t)(heads * dim) + (size_t)j];
        y[j] /= sum[j / dim] * (d->attention.out_gate ? 1.0 + exp(-gate) : 1.0);
      }
      free(sum);
    }
  free(q);
  free(k);
}

/* Attention, and a memory as its gate, or as its context too: out [batch, T, n]. What was recalled
 * is asked of memories that learn everything before the segment anew. */
REF void ref_mag_layer(const ref_model *m, int l, const double *h, int batch, int T, size_t n,
                       double *out, ref_branches *branches) {
  const size_t N = (size_t)batch * (size_t)T;
  double *y = (double *)ref_zeros(N * n), *z = (double *)ref_zeros(N * n);
  double *gate = (double *)ref_zeros(N * n);
  if (ref_layer_of(m, l)->type == MIRAS_LAYER_MAC) {
    const int segment =
      ref_layer_of(m, l)->attention.window == 0 ? 1024 : ref_layer_of(m, l)->attention.window;
    double *r = (double *)ref_zeros((size_t)T * n), *all = (double *)ref_zeros((size_t)T * n);
    for (int b = 0; b < batch; b++) {
      const double *x = h + (size_t)(b * T) * n;
      double *said = y + (size_t)(b * T) * n;
      for (int from = 0, to; from < T; from = to) {
        to = from + segment < T ? from + segment : T;
        ref_memory_answers(m, l, x, said, 1, T, from, all, branches);
        memcpy(r + (size_t)from * n, all + (size_t)from * n, (size_t)(to - from) * n * sizeof *r);
        ref_attention_layer(m, l, x, r, 1, from, to, said);
      }
      ref_memory_answers(m, l, NULL, said, 1, T, T, z + (size_t)(b * T) * n, branches);
    }
    free(r);
    free(all);
  } else {
    ref_attention_layer(m, l, h, NULL, batch, 0, T, y);
    ref_memory_layer(m, l, h, batch, T, z, branches);
  }
  ref_rms(out, y, ref_param(m, l, "attention_norm.gain"), N, n, 1, ref_epsilon(m));
  ref_rms(gate, z, ref_param(m, l, "memory_norm.gain"), N, n, 1, ref_epsilon(m));
  for (size_t i = 0; i < N * n; i++)
    if (ref_layer_of(m, l)->type == MIRAS_LAYER_MAC) out[i] *= ref_sigmoid(gate[i]);
    else out[i] = gate[i] * ref_sigmoid(out[i]);
  free(y);
  free(z);
  free(gate);
}

/* z[i] = h[t][i] + (h[t-1][i] - h[t][i]) mix[i] of one sequence, nothing before its first row. */
REF void ref_shift(double *z, const double *h, const double *mix, int T, size_t n) {
  for (int t = 0; t < T; t++)
    for (size_t i = 0; i < n; i++) {
      const double own = h[(size_t)t * n + i];
      const double before = t == 0 ? 0.0 : h[(size_t)(t - 1) * n + i];
      z[(size_t)t * n + i] = (1.0 - mix[i]) * own + mix[i] * before;
    }
}

/* RWKV-7's time mixing of one sequence up to its output projection, its state a matrix per head:
 * h [T, width], out [T, heads * dv]; first [T, heads * dv]: values of the first such layer, which
 * `own` says this is. */
REF void ref_rwkv_sequence(const ref_model *m, int l, const double *h, int T, double *out,
                           double *first, int own) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const miras_memory_desc md = ref_layer_memory(m, l);
  const size_t n = (size_t)m->d.width, H = (size_t)md.heads, dk = (size_t)md.key_dim;
  const size_t dv = (size_t)md.value_dim, K = H * dk, V = H * dv, L = (size_t)T;
  const double *mix = ref_param(m, l, "shift.mix"), *offset = ref_param(m, l, "gates.offset");
  const double *scale = ref_param(m, l, "erase.scale"), *change = ref_param(m, l, "erase.mix");
  const double *bonus = ref_param(m, l, "bonus.gain"), *start = ref_param(m, l, "memory.init");
  const double *gain = ref_param(m, l, "out_norm.gain"), *bias = ref_param(m, l, "out_norm.bias");
  const double epsilon = d->mixer.out_norm_epsilon > 0.0f ? (double)d->mixer.out_norm_epsilon
                                                          : (double)dv * ref_epsilon(m);
  double *z[6], *r = (double *)ref_zeros(L * K), *k = (double *)ref_zeros(L * K);
  double *v = (double *)ref_zeros(L * V), *w = (double *)ref_zeros(L * K);
  double *a = (double *)ref_zeros(L * K), *g = (double *)ref_zeros(L * V);
  double *nu = (double *)ref_zeros(L * V), *S = (double *)ref_zeros(dk * dv);
  double *y = (double *)ref_zeros(dv), *kappa = (double *)ref_zeros(dk);
  for (int j = 0; j < 6; j++) { /* r, w, k, v, a, g */
    z[j] = (double *)ref_zeros(L * n);
    ref_shift(z[j], h, mix + (size_t)j * n, T, n);
  }
  ref_project(r, z[0], ref_param(m, l, "q.weight"), L, n, K);
  ref_project(k, z[2], ref_param(m, l, "k.weight"), L, n, K);
  ref_project(v, z[3], ref_param(m, l, "v.weight"), L, n, V);
  ref_low_rank(m, l, "decay", 1, z[1], T, K, offset, w);
  ref_low_rank(m, l, "rate", 0, z[4], T, K, offset + K, a);
  ref_low_rank(m, l, "out_gate", 2, z[5], T, V, NULL, g);
  if (own) {
    memcpy(first, v, L * V * sizeof *v);
  } else if (d->rwkv.value_rank > 0) {
    ref_low_rank(m, l, "value", 0, z[3], T, V, offset + 2 * K, nu);
    for (size_t i = 0; i < L * V; i++) v[i] += (first[i] - v[i]) * ref_sigmoid(nu[i]);
  }
  for (size_t head = 0; head < H; head++) {
    for (size_t i = 0; i < dk * dv; i++) S[i] = start[head * dk * dv + i]; /* [key][value] */
    for (size_t t = 0; t < L; t++) {
      const double *rt = r + t * K + head * dk, *vt = v + t * V + head * dv;
      double *kt = k + t * K + head * dk, *to = out + t * V + head * dv;
      double square = 1e-6, read = 0.0, mean = 0.0, variance = 0.0;
      for (size_t i = 0; i < dk; i++) {
        kappa[i] = kt[i] * scale[head * dk + i];
        square += kappa[i] * kappa[i];
      }
      for (size_t i = 0; i < dk; i++) {
        const double rate = ref_sigmoid(a[t * K + head * dk + i]);
        kappa[i] /= sqrt(square);
        kt[i] *= 1.0 + (rate - 1.0) * change[head * dk + i];
        read += rt[i] * kt[i] * bonus[head * dk + i];
      }
      for (size_t j = 0; j < dv; j++) {
        double said = 0.0;
        for (size_t i = 0; i < dk; i++) said += S[i * dv + j] * kappa[i];
        y[j] = 0.0;
        for (size_t i = 0; i < dk; i++) {
          const double rate = ref_sigmoid(a[t * K + head * dk + i]);
          const double keep = ref_gate(d, &md, REF_KEEP, w[t * K + head * dk + i], 0.0);
          S[i * dv + j] = keep * S[i * dv + j] - said * kappa[i] * rate + vt[j] * kt[i];
          y[j] += S[i * dv + j] * rt[i];
        }
      }
      for (size_t j = 0; j < dv; j++) mean += y[j] / (double)dv;
      for (size_t j = 0; j < dv; j++) variance += (y[j] - mean) * (y[j] - mean) / (double)dv;
      for (size_t j = 0; j < dv; j++)
        to[j] = g[t * V + head * dv + j] *
                ((y[j] - mean) / sqrt(variance + epsilon) * gain[head * dv + j] +
                 bias[head * dv + j] + read * vt[j]);
    }
  }
  for (int j = 0; j < 6; j++) free(z[j]);
  free(r), free(k), free(v), free(w), free(a), free(g), free(nu), free(S), free(y), free(kappa);
}

/* RWKV-4's of one sequence up to its output projection, from sums of e^(k_i + ...) over all tokens
 * before, without a recurrence: h [T, width], out [T, width]. */
REF void ref_rwkv4_sequence(const ref_model *m, int l, const double *h, int T, double *out) {
  const size_t n = (size_t)m->d.width, L = (size_t)T;
  const double *mix = ref_param(m, l, "shift.mix"), *u = ref_param(m, l, "bonus.gain");
  const double *w = ref_param(m, l, "memory.decay_log");
  static const char *const names[3] = {"k.weight", "v.weight", "out_gate.weight"};
  double *z = (double *)ref_zeros(L * n), *x[3];
  for (int j = 0; j < 3; j++) { /* k, v, r */
    x[j] = (double *)ref_zeros(L * n);
    ref_shift(z, h, mix + (size_t)j * n, T, n);
    ref_project(x[j], z, ref_param(m, l, names[j]), L, n, n);
  }
  for (size_t t = 0; t < L; t++)
    for (size_t i = 0; i < n; i++) {
      double above = 0.0, below = 0.0;
      for (size_t s = 0; s <= t; s++) {
        const double age = s < t ? -exp(w[i]) * (double)(t - 1 - s) : u[i];
        const double weight = exp(x[0][s * n + i] + age);
        above += weight * x[1][s * n + i];
        below += weight;
      }
      out[t * n + i] = ref_sigmoid(x[2][t * n + i]) * above / below;
    }
  for (int j = 0; j < 3; j++) free(x[j]);
  free(z);
}

/* RWKV-6's: rows of a sequence shifted by mixes of which five are the token's as well, a state that
 * a token reads before it decays and takes its pair, beside which it sees that by the bonus. */
REF void ref_rwkv6_sequence(const ref_model *m, int l, const double *h, int T, double *out) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const miras_memory_desc md = ref_layer_memory(m, l);
  const size_t n = (size_t)m->d.width, H = (size_t)md.heads, dk = (size_t)md.key_dim;
  const size_t dv = (size_t)md.value_dim, K = H * dk, V = H * dv, L = (size_t)T;
  const size_t rank = d->rwkv.mix_rank > 0 ? (size_t)d->rwkv.mix_rank : 32;
  const double *mix = ref_param(m, l, "shift.mix"), *down = ref_param(m, l, "shift.down");
  const double *up = ref_param(m, l, "shift.up"), *bonus = ref_param(m, l, "bonus.gain");
  const double *gain = ref_param(m, l, "out_norm.gain"), *bias = ref_param(m, l, "out_norm.bias");
  const double *B = ref_param(m, l, "memory.init");
  const double epsilon = d->mixer.out_norm_epsilon > 0.0f ? (double)d->mixer.out_norm_epsilon
                                                          : (double)dv * ref_epsilon(m);
  double *z[6], *r = (double *)ref_zeros(L * K), *k = (double *)ref_zeros(L * K);
  double *v = (double *)ref_zeros(L * V), *w = (double *)ref_zeros(L * K);
  double *g = (double *)ref_zeros(L * V), *S = (double *)ref_zeros(K * dv);
  double *low = (double *)ref_zeros(5 * rank), *y = (double *)ref_zeros(dv);
  for (int j = 0; j < 6; j++) z[j] = (double *)ref_zeros(L * n); /* of all, w, k, v, r, g */
  ref_shift(z[0], h, mix, T, n);
  for (size_t t = 0; t < L; t++) {
    for (size_t i = 0; i < 5 * rank; i++)
      low[i] = tanh(ref_column(z[0] + t * n, down, n, 5 * rank, i));
    for (size_t j = 0; j < 5; j++)
      for (size_t i = 0; i < n; i++) {
        const double own = h[t * n + i], before = t > 0 ? h[(t - 1) * n + i] : 0.0;
        double by = mix[(j + 1) * n + i];
        for (size_t a = 0; a < rank; a++)
          by += low[j * rank + a] * up[(j * rank + a) * n + i];
        z[j + 1][t * n + i] = own + (before - own) * by;
      }
  }
  ref_low_rank(m, l, "decay", 1, z[1], T, K, ref_param(m, l, "gates.offset"), w);
  ref_project(k, z[2], ref_param(m, l, "k.weight"), L, n, K);
  ref_project(v, z[3], ref_param(m, l, "v.weight"), L, n, V);
  ref_project(r, z[4], ref_param(m, l, "q.weight"), L, n, K);
  ref_project(g, z[5], ref_param(m, l, "out_gate.weight"), L, n, V);
  memcpy(S, B, K * dv * sizeof *S); /* [head][key][value] */
  for (size_t t = 0; t < L; t++)
    for (size_t head = 0; head < H; head++) {
      double mean = 0.0, variance = 0.0;
      for (size_t j = 0; j < dv; j++) {
        y[j] = 0.0;
        for (size_t i = head * dk; i < (head + 1) * dk; i++) {
          const double pair = k[t * K + i] * v[t * V + head * dv + j];
          const double to = md.decay_target ? B[i * dv + j] : 0.0;
          double *s = &S[i * dv + j];
          y[j] += r[t * K + i] * (*s + bonus[i] * pair);
          *s = to + ref_gate(d, &md, REF_KEEP, w[t * K + i], 0.0) * (*s - to) +
               (double)md.learning_rate * pair;
        }
        mean += y[j] / (double)dv;
      }
      for (size_t j = 0; j < dv; j++) variance += (y[j] - mean) * (y[j] - mean) / (double)dv;
      for (size_t j = 0; j < dv; j++) {
        const size_t i = head * dv + j;
        out[t * V + i] = g[t * V + i] * ref_sigmoid(g[t * V + i]) *
                         ((y[j] - mean) / sqrt(variance + epsilon) * gain[i] + bias[i]);
      }
    }
  for (int j = 0; j < 6; j++) free(z[j]);
  free(r), free(k), free(v), free(w), free(g), free(S), free(low), free(y);
}

/* Of all sequences; *first: [batch, T, heads * dv] of the first such layer that erases, NULL before
 * it. */
REF void ref_rwkv_layer(const ref_model *m, int l, const double *h, int batch, int T, size_t inner,
                        double *out, double **first) {
  const size_t L = (size_t)T, n = (size_t)m->d.width;
  const int own = *first == NULL, four = ref_layer_of(m, l)->type == MIRAS_LAYER_RWKV4;
  for (size_t b = 0; four && b < (size_t)batch; b++)
    ref_rwkv4_sequence(m, l, h + b * L * n, T, out + b * L * inner);
  if (four) return;
  if (ref_layer_of(m, l)->mixer.qk_map == MIRAS_QK_MAP_NONE) {
    for (size_t b = 0; b < (size_t)batch; b++)
      ref_rwkv6_sequence(m, l, h + b * L * n, T, out + b * L * inner);
    return;
  }
  if (own) *first = (double *)ref_zeros((size_t)batch * L * inner);
  for (size_t b = 0; b < (size_t)batch; b++)
    ref_rwkv_sequence(m, l, h + b * L * n, T, out + b * L * inner, *first + b * L * inner, own);
}

/* out [N, width] of the MLP of rows h. */
REF void ref_mlp(const ref_model *m, int l, const double *h, size_t N, double *out) {
  const size_t width = (size_t)m->d.width;
  char name[80];
  double *up, *gate;
  size_t F;
  snprintf(name, sizeof name, "blocks.%d.mlp.up", l);
  F = (size_t)ref_find(m, name)->shape[1];
  up = (double *)ref_zeros(N * F);
  gate = (double *)ref_zeros(N * F);
  ref_project(up, h, ref_param(m, l, "mlp.up"), N, width, F);
  if (ref_layer_of(m, l)->mlp.bias) ref_add_bias(up, ref_param(m, l, "mlp.up_bias"), N, F);
  if (ref_layer_of(m, l)->mlp.act == MIRAS_FN_RELU2) {
    for (size_t i = 0; i < N * F; i++) up[i] = up[i] > 0.0 ? up[i] * up[i] : 0.0;
  } else {
    ref_project(gate, h, ref_param(m, l, "mlp.gate"), N, width, F);
    if (ref_layer_of(m, l)->mlp.bias) ref_add_bias(gate, ref_param(m, l, "mlp.gate_bias"), N, F);
    ref_times_factor(gate, N * F, ref_layer_of(m, l)->mlp.gate_scale);
    for (size_t i = 0; i < N * F; i++)
      up[i] *= ref_layer_of(m, l)->mlp.act == MIRAS_FN_GELU ? ref_out_gate(MIRAS_FN_GELU, gate[i])
                                                            : gate[i] * ref_sigmoid(gate[i]);
  }
  ref_times_factor(up, N * F, ref_layer_of(m, l)->mlp.out_scale);
  ref_project(out, up, ref_param(m, l, "mlp.down"), N, F, width);
  if (ref_layer_of(m, l)->mlp.bias) ref_add_bias(out, ref_param(m, l, "mlp.down_bias"), N, width);
  free(up);
  free(gate);
}

/* Rows h [batch, T, width] of an MLP with a token shift. Returns how much of what it adds comes
 * through, [batch, T, width] before a sigmoid, of two mixes; NULL: all. */
REF double *ref_mlp_shift(const ref_model *m, int l, double *h, int batch, int T, int mixes) {
  const size_t n = (size_t)m->d.width, each = (size_t)T * n, all = (size_t)batch * each;
  const double *mix = ref_param(m, l, "shift.mix");
  double *z = (double *)ref_zeros(all), *by = NULL;
  for (int j = mixes - 1; j >= 0; j--) {
    for (size_t b = 0; b < (size_t)batch; b++)
      ref_shift(z + b * each, h + b * each, mix + (size_t)j * n, T, n);
    if (j == 0) break;
    by = (double *)ref_zeros(all);
    ref_project(by, z, ref_param(m, l, "out_gate.weight"), all / n, n, n);
  }
  memcpy(h, z, all * sizeof *h);
  free(z);
  return by;
}

/* A mixture of experts, row by row: out [N, width] of h. How far the last expert that a row chooses
 * is from the first that it does not is a corner. */
REF void ref_experts(const ref_model *m, int l, const double *h, size_t N, double *out,
                     ref_branches *branches) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const size_t n = (size_t)m->d.width, E = (size_t)d->mlp.experts,
               S = (size_t)d->mlp.shared_experts;
  const int top = d->mlp.experts_per_token == 0 ? 2 : d->mlp.experts_per_token;
  const double *router = ref_param(m, l, "mlp.router"), *gate = ref_param(m, l, "mlp.gate");
  const double *up = ref_param(m, l, "mlp.up"), *down = ref_param(m, l, "mlp.down");
  double *w = (double *)ref_zeros(E + S);
  char name[80];
  size_t F;
  snprintf(name, sizeof name, "blocks.%d.mlp.up", l);
  F = (size_t)ref_find(m, name)->shape[1];
  for (size_t t = 0; t < N; t++, h += n, out += n) {
    double all = 0.0, kept = 0.0, low = 1.0, high = 0.0;
    for (size_t e = 0; e < E; e++) {
      w[e] = exp(ref_column(h, router, n, E + (S > 0), e));
      all += w[e];
    }
    for (size_t e = 0; e < E; e++) {
      int before = 0;
      for (size_t i = 0; i < E; i++) before += w[i] > w[e] || (i < e && !(w[i] < w[e]));
      if (before < top && w[e] / all < low) low = w[e] / all;
      if (before >= top && w[e] / all > high) high = w[e] / all;
      if (before < top) kept += w[e];
      ref_branch(branches, before < top, 1.0);
    }
    if (top < (int)E) ref_branch(branches, 1, low - high);
    for (size_t e = 0; e < E; e++) {
      if (w[e] / all < low) w[e] = 0.0;
      w[e] /= d->mlp.norm_topk ? kept : all;
    }
    for (size_t e = E; e < E + S; e++) w[e] = ref_sigmoid(ref_column(h, router, n, E + 1, E));
    for (size_t i = 0; i < n; i++) out[i] = 0.0;
    for (size_t e = 0; e < E + S; e++) {
      for (size_t f = 0; f < F && w[e] > 0.0; f++) {
        const double a = ref_column(h, gate + e * n * F, n, F, f);
        const double said = a * ref_sigmoid(a) * ref_column(h, up + e * n * F, n, F, f);
        for (size_t i = 0; i < n; i++) out[i] += w[e] * said * down[(e * F + f) * n + i];
      }
    }
  }
  free(w);
}

/* What attention adds in a layer of type parallel: add [batch, T, width] of h. */
REF void ref_beside(const ref_model *m, int l, const double *h, int batch, int T, double *add) {
  const size_t N = (size_t)batch * (size_t)T, width = (size_t)m->d.width;
  char name[80];
  size_t inner;
  double *y;
  snprintf(name, sizeof name, "blocks.%d.attention.o.weight", l);
  inner = (size_t)ref_find(m, name)->shape[0];
  y = (double *)ref_zeros(N * inner);
  ref_attention_layer(m, l, h, NULL, batch, 0, T, y);
  ref_project(add, y, ref_param(m, l, "attention.o.weight"), N, inner, width);
  ref_times_factor(add, N * width, ref_layer_of(m, l)->attention.out_scale);
  free(y);
}

/* A layer of type conv up to the MLP: add [batch, T, width] of h. */
REF void ref_conv_layer(const ref_model *m, int l, const double *h, int batch, int T, double *add) {
  const miras_layer_desc *d = ref_layer_of(m, l);
  const size_t N = (size_t)batch * (size_t)T, n = (size_t)m->d.width;
  const int biased = d->conv.gated != 1, taps = d->conv.size == 0 ? 4 : d->conv.size;
  static const char *const names[3][2] = {
    {"q.weight", "q.bias"}, {"k.weight", "k.bias"}, {"v.weight", "v.bias"}};
  double *part[3], *none = (double *)ref_zeros(n);
  const double *bias = biased ? ref_param(m, l, "conv_q.bias") : none;
  for (int i = 0; i < 3; i++) part[i] = (double *)ref_zeros(N * n);
  if (!d->conv.gated) {
    ref_convolve(add, h, ref_param(m, l, "conv_q.weight"), bias, batch, T, n, taps);
  } else {
    for (int i = 0; i < 3; i++) {
      ref_project(part[i], h, ref_param(m, l, names[i][0]), N, n, n);
      if (biased) ref_add_bias(part[i], ref_param(m, l, names[i][1]), N, n);
    }
    for (size_t i = 0; i < N * n; i++) part[0][i] *= part[2][i];
    ref_convolve(part[2], part[0], ref_param(m, l, "conv_q.weight"), bias, batch, T, n, taps);
    for (size_t i = 0; i < N * n; i++) part[1][i] *= part[2][i];
    ref_project(add, part[1], ref_param(m, l, "o.weight"), N, n, n);
    if (biased) ref_add_bias(add, ref_param(m, l, "o.bias"), N, n);
  }
  for (int i = 0; i < 3; i++) free(part[i]);
  free(none);
}

/* An output under a cap; 0: there is none. */
REF double ref_capped(double x, double cap) { return cap > 0.0 ? cap * tanh(x / cap) : x; }

/* Mean cross entropy of targets [batch, T] (-1: left out) given tokens, without dropout.
 * logits [batch, T, vocab] or NULL. */
REF double ref_model_loss(const ref_model *m, const int32_t *tokens, const int32_t *targets,
                          int batch, int T, double *logits, ref_branches *branches) {
  const miras_model_desc *d = &m->d;
  const size_t N = (size_t)batch * (size_t)T, width = (size_t)d->width, vocab = (size_t)d->vocab;
  const double *embed = ref_param(m, -1, "embed.weight");
  const double *head = d->untied ? ref_param(m, -1, "head.weight") : embed;
  double *x = (double *)ref_zeros(N * width), *h = (double *)ref_zeros(N * width);
  double *add = (double *)ref_zeros(N * width);
  double *row = (double *)ref_zeros(vocab), *values = NULL;
  double loss = 0.0;
  size_t counted = 0, site = 0;
  for (size_t t = 0; t < N; t++)
    for (size_t i = 0; i < width; i++)
      x[t * width + i] = embed[(size_t)tokens[t] * width + i];
  if (d->embed_norm) {
    memcpy(h, x, N * width * sizeof *h);
    ref_block_norm(m, x, h, -1, "embed_norm", N, width);
  }
  for (size_t i = 0; i < N * width; i++) x[i] *= ref_mask(m, 0, i / width, i % width);
  for (int l = 0; l < ref_layers(m); l++) {
    char name[80];
    size_t inner;
    double *mem, *by;
    const int shift = ref_layer_of(m, l)->mlp.token_shift;
    const int post = ref_layer_of(m, l)->attention.post_norm;
    const miras_layer_type type = ref_layer_of(m, l)->type;
    if (type == MIRAS_LAYER_CONV) {
      ref_block_norm(m, h, x, l, "norm1", N, width);
      ref_conv_layer(m, l, h, batch, T, add);
    } else if (type != MIRAS_LAYER_MLP) {
      if (post) memcpy(h, x, N * width * sizeof *h);
      else ref_block_norm(m, h, x, l, "norm1", N, width);
      snprintf(name, sizeof name, "blocks.%d.o.weight", l);
      inner = (size_t)ref_find(m, name)->shape[0];
      mem = (double *)ref_zeros(N * inner);
      if (type == MIRAS_LAYER_ATTENTION)
        ref_attention_layer(m, l, h, NULL, batch, 0, T, mem);
      else if (type == MIRAS_LAYER_MAG || type == MIRAS_LAYER_MAC)
        ref_mag_layer(m, l, h, batch, T, inner, mem, branches);
      else if (type == MIRAS_LAYER_RWKV || type == MIRAS_LAYER_RWKV4)
        ref_rwkv_layer(m, l, h, batch, T, inner, mem, &values);
      else
        ref_memory_layer(m, l, h, batch, T, mem, branches);
      ref_times_factor(mem, N * inner, ref_layer_of(m, l)->mixer.out_scale);
      if (type == MIRAS_LAYER_ATTENTION)
        ref_times_factor(mem, N * inner, ref_layer_of(m, l)->attention.out_scale);
      ref_project(add, mem, ref_param(m, l, "o.weight"), N, inner, width);
      if (ref_layer_of(m, l)->mixer.projection_bias || ref_layer_of(m, l)->attention.bias)
        ref_add_bias(add, ref_param(m, l, "o.bias"), N, width);
      if (post) ref_rms(add, add, ref_param(m, l, "norm1.gain"), N, width, 1, ref_epsilon(m));
      free(mem);
    }
    if (type == MIRAS_LAYER_PARALLEL) {   /* attention adds too, by a mask of its own */
      site++;
      for (size_t i = 0; i < N * width; i++)
        x[i] += add[i] * ref_mask(m, site, i / width, i % width);
      ref_beside(m, l, h, batch, T, add);
    }
    if (type != MIRAS_LAYER_MLP) {
      site++;
      for (size_t i = 0; i < N * width; i++)
        x[i] += add[i] * ref_mask(m, site, i / width, i % width);
    }
    if (ref_layer_of(m, l)->mlp.none) continue;
    if (post) memcpy(h, x, N * width * sizeof *h);
    else ref_block_norm(m, h, x, l, "norm2", N, width);
    by = shift ? ref_mlp_shift(m, l, h, batch, T, shift) : NULL;
    if (ref_layer_of(m, l)->mlp.experts > 0) ref_experts(m, l, h, N, add, branches);
    else ref_mlp(m, l, h, N, add);
    if (ref_layer_of(m, l)->mlp.experts > 0)
      ref_times_factor(add, N * width, ref_layer_of(m, l)->mlp.out_scale);
    for (size_t i = 0; by != NULL && i < N * width; i++) add[i] *= ref_sigmoid(by[i]);
    free(by);
    if (post) ref_rms(add, add, ref_param(m, l, "norm2.gain"), N, width, 1, ref_epsilon(m));
    site++;
    for (size_t i = 0; i < N * width; i++)
      x[i] += add[i] * ref_mask(m, site, i / width, i % width);
  }
  ref_block_norm(m, h, x, -1, "norm", N, width);
  for (size_t t = 0; t < N; t++) {
    double top = -1e300, sum = 0.0;
    for (size_t o = 0; o < vocab; o++) {
      row[o] = 0.0;
      for (size_t i = 0; i < width; i++) row[o] += h[t * width + i] * head[o * width + i];
      row[o] = ref_capped(row[o], (double)d->logit_cap);
      top = fmax(top, row[o]);
      if (logits != NULL) logits[t * vocab + o] = row[o];
    }
    if (targets == NULL || targets[t] < 0) continue;
    for (size_t o = 0; o < vocab; o++) sum += exp(row[o] - top);
    loss += top + log(sum) - row[targets[t]];
    counted++;
  }
  free(x);
  free(h);
  free(add);
  free(row);
  free(values);
  return counted > 0 ? loss / (double)counted : 0.0;
}

#endif /* MIRAS_REFERENCE_H */
