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

#if defined(__GNUC__)
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
} ref_branches;

REF void ref_branches_clear(ref_branches *b) {
  b->decisions = 1469598103934665603u;
  b->margin = 1e30;
  b->cancellation = 0.0;
}

REF void ref_branch(ref_branches *b, int side, double distance) {
  if (b == NULL) return;
  b->decisions = (b->decisions ^ (uint64_t)(side + 2)) * 1099511628211u;
  if (fabs(distance) < b->margin) b->margin = fabs(distance);
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

/* The defaults that the comments in miras_desc promise. */
REF miras_desc ref_resolve(const miras_desc *given) {
  miras_desc d = *given;
  if (d.batch == 0) d.batch = 1;
  if (d.heads == 0) d.heads = 1;
  if (d.value_dim == 0) d.value_dim = d.key_dim;
  if (d.chunk == 0) d.chunk = 1;
  if (d.depth == 0) d.depth = 2;
  if (d.expansion == 0) d.expansion = 4;
  if (!(d.forget_ratio > 0.0f)) d.forget_ratio = 1.0f;
  if (!(d.step > 0.0f)) d.step = 1.0f;
  if (!(d.threshold > 0.0f)) d.threshold = 1.0f;
  if (!(d.p > 0.0f)) d.p = 3.0f;
  if (!(d.q > 0.0f)) d.q = 4.0f;
  if (!(d.sharpness > 0.0f)) d.sharpness = 10.0f;
  if (!(d.simplex > 0.0f)) d.simplex = 1.0f;
  return d;
}

/* Layer l holds a matrix [in, out] at at[l]: z = y W. */
typedef struct ref_shape {
  int layers, in[REF_LAYERS], out[REF_LAYERS], widest;
  size_t at[REF_LAYERS], weights;
} ref_shape;

REF ref_shape ref_shape_of(const miras_desc *d) {
  ref_shape s;
  int hidden = d->expansion * d->key_dim;
  memset(&s, 0, sizeof s);
  s.layers = d->architecture == MIRAS_MATRIX ? 1 : d->depth;
  for (int l = 0; l < s.layers; l++) {
    s.in[l] = l == 0 ? d->key_dim : hidden;
    s.out[l] = l == s.layers - 1 ? d->value_dim : hidden;
    s.at[l] = s.weights;
    s.weights += (size_t)s.in[l] * (size_t)s.out[l];
    if (s.in[l] > s.widest) s.widest = s.in[l];
    if (s.out[l] > s.widest) s.widest = s.out[l];
  }
  return s;
}

/* ---- attentional bias: e = dl/dM at M = m, returns l ---- */

REF double ref_sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }

REF double ref_bias(const miras_desc *d, const double *m, const double *v, double delta, double *e,
                    ref_branches *branches) {
  const int n = d->value_dim;
  const double p = (double)d->p, nu = (double)d->sharpness;
  double loss = 0.0, square = 0.0, absolute = 0.0, norm;
  for (int i = 0; i < n; i++) {
    square += (m[i] - v[i]) * (m[i] - v[i]);
    absolute += fabs(m[i] - v[i]);
  }
  switch (d->bias) {
    case MIRAS_DOT:
      for (int i = 0; i < n; i++) {
        e[i] = -v[i];
        loss -= m[i] * v[i];
      }
      break;
    case MIRAS_L2:
      for (int i = 0; i < n; i++) e[i] = m[i] - v[i];
      loss = 0.5 * square;
      break;
    case MIRAS_LP:
      for (int i = 0; i < n; i++) {
        const double r = m[i] - v[i];
        e[i] = p * ref_sign(r) * pow(fabs(r), p - 1.0);
        loss += pow(fabs(r), p);
        if (p < 2.0) ref_branch(branches, r > 0.0, r);
      }
      break;
    case MIRAS_LP_SMOOTH:
      for (int i = 0; i < n; i++) {
        const double r = m[i] - v[i];
        e[i] = p * tanh(nu * r) * pow(r * r + 1e-6, 0.5 * (p - 1.0));
        loss += pow(r * r + 1e-6, 0.5 * p);
        if (p < 3.0) ref_branch(branches, 0, r / 10.0); /* smooth, but over a thousandth */
      }
      break;
    case MIRAS_HUBER:
      for (int i = 0; i < n; i++) {
        const double r = m[i] - v[i];
        const int inside = fabs(r) <= delta;
        e[i] = inside ? r : delta * ref_sign(r);
        loss += inside ? 0.5 * r * r : delta * (fabs(r) - 0.5 * delta);
        ref_branch(branches, inside, fabs(r) - delta);
      }
      break;
    case MIRAS_HUBER_NORM:
      norm = sqrt(square + 1e-12);
      for (int i = 0; i < n; i++) e[i] = (m[i] - v[i]) * (norm <= delta ? 1.0 : delta / norm);
      loss = norm <= delta ? 0.5 * square : delta * (norm - 0.5 * delta);
      ref_branch(branches, norm <= delta, norm - delta);
      break;
    case MIRAS_HUBER_MIXTURE:
      norm = sqrt(square);
      for (int i = 0; i < n; i++) {
        const double r = m[i] - v[i];
        e[i] = norm <= delta ? r : delta * tanh(nu * r);
      }
      loss = norm <= delta ? 0.5 * square : delta * absolute;
      ref_branch(branches, norm <= delta, norm - delta);
      break;
    default: abort();
  }
  return loss;
}

/* ---- memory architecture ---- */

REF double ref_activation(miras_activation kind, double z) {
  const double y = 0.79788456080286535588 * (z + 0.044715 * z * z * z);
  if (kind == MIRAS_GELU) return 0.5 * z * (1.0 + tanh(y));
  if (kind == MIRAS_SILU) return z / (1.0 + exp(-z));
  return z;
}

REF double ref_activation_slope(miras_activation kind, double z) {
  const double y = 0.79788456080286535588 * (z + 0.044715 * z * z * z);
  const double dy = 0.79788456080286535588 * (1.0 + 3.0 * 0.044715 * z * z);
  const double t = tanh(y), s = 1.0 / (1.0 + exp(-z));
  if (kind == MIRAS_GELU) return 0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * dy;
  if (kind == MIRAS_SILU) return s * (1.0 + z * (1.0 - s));
  return 1.0;
}

/* What one evaluation of M(W; x) passes through, for the gradient with respect to W. */
typedef struct ref_trace {
  double *y[REF_LAYERS]; /* input of each layer */
  double *z[REF_LAYERS]; /* its product with the weights */
  double *normal;        /* of the inner norm: (z - mean) / deviation */
  double deviation;
  double cancellation; /* largest so far: |z| / deviation */
  double *out;         /* M(W; x) */
} ref_trace;

REF void ref_trace_open(ref_trace *r, const ref_shape *s) {
  for (int l = 0; l < REF_LAYERS; l++) {
    r->y[l] = (double *)ref_zeros((size_t)s->widest);
    r->z[l] = (double *)ref_zeros((size_t)s->widest);
  }
  r->normal = (double *)ref_zeros((size_t)s->widest);
  r->out = (double *)ref_zeros((size_t)s->widest);
  r->deviation = 1.0;
  r->cancellation = 0.0;
}

REF void ref_trace_close(ref_trace *r) {
  for (int l = 0; l < REF_LAYERS; l++) {
    free(r->y[l]);
    free(r->z[l]);
  }
  free(r->normal);
  free(r->out);
}

REF void ref_apply(const miras_desc *d, const ref_shape *s, const double *W, const double *gain,
                   const double *offset, const double *x, ref_trace *r) {
  const int last = s->layers - 1, n = d->value_dim, mlp = d->architecture == MIRAS_MLP;
  for (int l = 0; l <= last; l++) {
    for (int i = 0; i < s->in[l]; i++)
      r->y[l][i] = l == 0 ? x[i] : ref_activation(d->activation, r->z[l - 1][i]);
    for (int o = 0; o < s->out[l]; o++) {
      double sum = 0.0;
      for (int i = 0; i < s->in[l]; i++)
        sum += r->y[l][i] * W[s->at[l] + (size_t)i * (size_t)s->out[l] + (size_t)o];
      r->z[l][o] = sum;
    }
  }
  for (int o = 0; o < n; o++) r->out[o] = r->z[last][o];
  if (mlp && d->inner_norm) {
    double mean = 0.0, variance = 0.0;
    for (int o = 0; o < n; o++) mean += r->z[last][o] / n;
    for (int o = 0; o < n; o++) variance += (r->z[last][o] - mean) * (r->z[last][o] - mean) / n;
    r->deviation = sqrt(variance + 1e-5);
    for (int o = 0; o < n; o++) {
      if (fabs(r->z[last][o]) / r->deviation > r->cancellation)
        r->cancellation = fabs(r->z[last][o]) / r->deviation;
      r->normal[o] = (r->z[last][o] - mean) / r->deviation;
      r->out[o] = gain[o] * r->normal[o] + offset[o];
    }
  }
  if (mlp && d->inner_residual)
    for (int o = 0; o < n; o++) r->out[o] += x[o];
}

/* g = (dM/dW)' e, every weight matrix in full. */
REF void ref_gradient(const miras_desc *d, const ref_shape *s, const double *W, const double *gain,
                      const ref_trace *r, const double *e, double *g) {
  const int last = s->layers - 1, n = d->value_dim;
  double *dz = (double *)ref_zeros((size_t)s->widest);
  double *dy = (double *)ref_zeros((size_t)s->widest);
  for (int o = 0; o < n; o++) dz[o] = e[o];
  if (d->architecture == MIRAS_MLP && d->inner_norm) {
    double mean = 0.0, along = 0.0;
    for (int o = 0; o < n; o++) {
      mean += gain[o] * e[o] / n;
      along += gain[o] * e[o] * r->normal[o] / n;
    }
    for (int o = 0; o < n; o++)
      dz[o] = (gain[o] * e[o] - mean - r->normal[o] * along) / r->deviation;
  }
  for (int l = last; l >= 0; l--) {
    for (int i = 0; i < s->in[l]; i++) {
      dy[i] = 0.0;
      for (int o = 0; o < s->out[l]; o++) {
        const size_t at = s->at[l] + (size_t)i * (size_t)s->out[l] + (size_t)o;
        g[at] = r->y[l][i] * dz[o];
        dy[i] += W[at] * dz[o];
      }
    }
    if (l > 0)
      for (int i = 0; i < s->in[l]; i++)
        dz[i] = dy[i] * ref_activation_slope(d->activation, r->z[l - 1][i]);
  }
  free(dz);
  free(dy);
}

/* ---- retention: the link from the dual state A to the weights W ---- */

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

/* c[l] receives ||A_l||_q^(q-2) of each weight matrix: what an open chunk of an L_q memory divides
 * by. Signs matter to the L_q links where their power is not differentiable at 0. */
REF void ref_link(const miras_desc *d, const ref_shape *s, const double *A, double *W, double *c,
                  ref_branches *branches) {
  const double q = (double)d->q;
  for (int l = 0; l < s->layers; l++) {
    const size_t rows = (size_t)s->in[l], columns = (size_t)s->out[l], count = rows * columns;
    const double *a = A + s->at[l];
    double *w = W + s->at[l];
    c[l] = 1.0;
    if (d->retention == MIRAS_RETAIN_LQ || d->retention == MIRAS_RETAIN_LQ_PNORM)
      c[l] = pow(ref_norm_q(a, count, q), q - 2.0);
    for (size_t i = 0; i < count; i++) {
      w[i] = a[i] / c[l];
      if (d->retention == MIRAS_RETAIN_LQ_PNORM) {
        w[i] = ref_sign(a[i]) * pow(fabs(a[i]), q - 1.0) / c[l];
        if (q < 2.0) ref_branch(branches, a[i] > 0.0, a[i]);
      }
      if (d->retention == MIRAS_RETAIN_LQ && q <= 1.0) ref_branch(branches, a[i] > 0.0, a[i]);
    }
    if (d->retention == MIRAS_RETAIN_KL) {
      const int first = l == 0, last = l == s->layers - 1;
      if (d->simplex_whole || (!first && !last)) {
        ref_softmax(a, w, 0, 1, count, (double)d->simplex);
      } else if (last) { /* a channel of the output: a column; a single layer is a last one */
        for (size_t o = 0; o < columns; o++)
          ref_softmax(a, w, o, columns, rows, (double)d->simplex);
      } else { /* a channel of the input: a row */
        for (size_t i = 0; i < rows; i++)
          ref_softmax(a, w, i * columns, 1, columns, (double)d->simplex);
      }
    }
  }
}

/* ---- a memory ---- */

typedef struct ref_tokens {
  int length;
  const double *key, *value, *query, *keep, *step, *momentum, *threshold;
} ref_tokens;

typedef struct ref_memory {
  miras_desc d;
  ref_shape s;
  double *params; /* initial A [heads, weights], gain [heads, dv], bias [heads, dv] */
  double *A, *S;  /* dual state and momentum [batch, heads, weights] */
  double *anchor; /* weights of the chunk's start [batch, heads, weights] */
  double *c;      /* normalisers of the chunk's start [batch, heads, REF_LAYERS] */
  uint64_t position;
  ref_branches *branches; /* NULL, or what was decided */
  ref_trace trace;
  double *e, *g, *W;
} ref_memory;

REF size_t ref_params_count(const miras_desc *given) {
  const miras_desc d = ref_resolve(given);
  const ref_shape s = ref_shape_of(&d);
  size_t count = (size_t)d.heads * s.weights;
  if (d.architecture == MIRAS_MLP && d.inner_norm)
    count += 2 * (size_t)d.heads * (size_t)d.value_dim;
  return count;
}

REF void ref_reset_head(ref_memory *m, int b, int h) {
  const size_t P = m->s.weights, at = ((size_t)b * (size_t)m->d.heads + (size_t)h) * P;
  for (size_t i = 0; i < P; i++) {
    m->A[at + i] = m->params[(size_t)h * P + i];
    m->S[at + i] = 0.0;
  }
}

REF void ref_reset(ref_memory *m) {
  for (int b = 0; b < m->d.batch; b++)
    for (int h = 0; h < m->d.heads; h++) ref_reset_head(m, b, h);
  m->position = 0;
}

REF void ref_open(ref_memory *m, const miras_desc *given, const double *params) {
  size_t heads, count = ref_params_count(given);
  memset(m, 0, sizeof *m);
  m->d = ref_resolve(given);
  m->s = ref_shape_of(&m->d);
  heads = (size_t)m->d.batch * (size_t)m->d.heads;
  m->params = (double *)ref_zeros(count);
  for (size_t i = 0; i < count; i++) m->params[i] = params[i];
  m->A = (double *)ref_zeros(heads * m->s.weights);
  m->S = (double *)ref_zeros(heads * m->s.weights);
  m->anchor = (double *)ref_zeros(heads * m->s.weights);
  m->c = (double *)ref_zeros(heads * REF_LAYERS);
  m->e = (double *)ref_zeros((size_t)m->d.value_dim);
  m->g = (double *)ref_zeros(m->s.weights);
  m->W = (double *)ref_zeros(m->s.weights);
  ref_trace_open(&m->trace, &m->s);
  ref_reset(m);
}

REF void ref_close(ref_memory *m) {
  free(m->params);
  free(m->A);
  free(m->S);
  free(m->anchor);
  free(m->c);
  free(m->e);
  free(m->g);
  free(m->W);
  ref_trace_close(&m->trace);
}

REF const double *ref_gain(const ref_memory *m, int h, int which) {
  const size_t dv = (size_t)m->d.value_dim, heads = (size_t)m->d.heads;
  return m->params + heads * m->s.weights + ((size_t)which * heads + (size_t)h) * dv;
}

/* The weights that a query after `position` tokens is answered with. */
REF void ref_weights(ref_memory *m, int b, int h, uint64_t position, double *W) {
  const size_t head = (size_t)b * (size_t)m->d.heads + (size_t)h, P = m->s.weights;
  const double *A = m->A + head * P;
  double c[REF_LAYERS];
  if (position % (uint64_t)m->d.chunk == 0) { /* the chunk is closed: W = link(A) */
    ref_link(&m->d, &m->s, A, W, c, m->branches);
    return;
  }
  for (int l = 0; l < m->s.layers; l++)
    for (size_t i = m->s.at[l]; i < m->s.at[l] + (size_t)m->s.in[l] * (size_t)m->s.out[l]; i++) {
      switch (m->d.retention) {
        case MIRAS_RETAIN_LQ: W[i] = A[i] / m->c[head * REF_LAYERS + (size_t)l]; break;
        case MIRAS_RETAIN_LQ_PNORM:
        case MIRAS_RETAIN_KL: W[i] = m->anchor[head * P + i]; break;
        default: W[i] = A[i]; break;
      }
    }
}

REF void ref_read_head(ref_memory *m, int b, int h, uint64_t position, const double *query,
                       double *out) {
  ref_weights(m, b, h, position, m->W);
  ref_apply(&m->d, &m->s, m->W, ref_gain(m, h, 0), ref_gain(m, h, 1), query, &m->trace);
  for (int o = 0; o < m->d.value_dim; o++) out[o] = m->trace.out[o];
}

/* One token of one head: learn, then read. keep has key_dim entries. Returns the surprise. */
REF double ref_token(ref_memory *m, int b, int h, uint64_t position, const double *key,
                     const double *value, const double *query, const double *keep, double step,
                     double momentum, double threshold, double *out) {
  const miras_desc *d = &m->d;
  const size_t head = (size_t)b * (size_t)d->heads + (size_t)h, P = m->s.weights;
  const int first = d->order == MIRAS_DECAY_FIRST && d->architecture == MIRAS_MATRIX;
  double *A = m->A + head * P, *S = m->S + head * P, *W0 = m->anchor + head * P;
  double surprise;
  if (first) /* S~ = alpha S before anything looks at it */
    for (size_t i = 0; i < P; i++) A[i] *= keep[i / (size_t)d->value_dim];
  if (position % (uint64_t)d->chunk == 0)
    ref_link(d, &m->s, A, W0, m->c + head * REF_LAYERS, m->branches);

  ref_apply(d, &m->s, W0, ref_gain(m, h, 0), ref_gain(m, h, 1), key, &m->trace);
  surprise = ref_bias(d, m->trace.out, value, threshold, m->e, m->branches);
  ref_gradient(d, &m->s, W0, ref_gain(m, h, 0), &m->trace, m->e, m->g);

  for (size_t i = 0; i < P; i++) {
    double alpha = keep[0];
    if (d->keep_gate == MIRAS_GATE_CHANNEL) alpha = keep[i / (size_t)d->value_dim];
    if (first) alpha = 1.0;
    S[i] = (d->algorithm == MIRAS_MOMENTUM ? momentum * S[i] : 0.0) - step * m->g[i];
    A[i] = alpha * A[i] + S[i];
  }
  if (out != NULL) ref_read_head(m, b, h, position + 1, query, out);
  return surprise;
}

/* The tokens of one head, starting at m->position, which stays. y and surprise may be NULL. */
REF void ref_forward_head(ref_memory *m, const ref_tokens *x, int b, int h, double *y,
                          double *surprise) {
  const miras_desc *d = &m->d;
  const size_t H = (size_t)d->heads, dk = (size_t)d->key_dim, dv = (size_t)d->value_dim;
  double *keep = (double *)ref_zeros(dk);
  for (int t = 0; t < x->length; t++) {
    const size_t at = ((size_t)b * (size_t)x->length + (size_t)t) * H + (size_t)h;
    double step = (double)d->step, momentum = (double)d->momentum;
    double threshold = (double)d->threshold, s;
    for (size_t i = 0; i < dk; i++) {
      keep[i] = 1.0 - (double)d->forget * pow((double)d->forget_ratio, (double)h);
      if (d->keep_gate == MIRAS_GATE_HEAD) keep[i] = x->keep[at];
      if (d->keep_gate == MIRAS_GATE_CHANNEL) keep[i] = x->keep[at * dk + i];
      if (d->retention == MIRAS_RETAIN_ALL) keep[i] = 1.0;
    }
    if (d->step_gate != MIRAS_GATE_CONSTANT) step = x->step[at];
    if (d->momentum_gate != MIRAS_GATE_CONSTANT) momentum = x->momentum[at];
    if (d->threshold_gate != MIRAS_GATE_CONSTANT) threshold = x->threshold[at];
    s = ref_token(m, b, h, m->position + (uint64_t)t, x->key + at * dk, x->value + at * dv,
                  x->query == NULL ? NULL : x->query + at * dk, keep, step, momentum, threshold,
                  y == NULL ? NULL : y + at * dv);
    if (surprise != NULL) surprise[at] = s;
  }
  free(keep);
}

/* As miras_forward; surprise [batch, T, heads] or NULL. */
REF void ref_forward(ref_memory *m, const ref_tokens *x, double *y, double *surprise) {
  for (int b = 0; b < m->d.batch; b++)
    for (int h = 0; h < m->d.heads; h++) ref_forward_head(m, x, b, h, y, surprise);
  if (m->branches != NULL && m->trace.cancellation > m->branches->cancellation)
    m->branches->cancellation = m->trace.cancellation;
  m->position += (uint64_t)x->length;
}

/* As miras_memory_norm. */
REF double ref_norm(ref_memory *m) {
  double sum = 0.0;
  for (int b = 0; b < m->d.batch; b++)
    for (int h = 0; h < m->d.heads; h++) {
      ref_weights(m, b, h, m->position, m->W);
      for (size_t i = 0; i < m->s.weights; i++) sum += m->W[i] * m->W[i];
    }
  return sqrt(sum);
}

/* ---- the language model ---- */

typedef struct ref_model {
  miras_model_desc d;
  const miras_view *views;
  int view_count;
  const double *params;
} ref_model;

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

/* Root mean square norm of rows of n; gain has n entries, or period * n for rows in turn. */
REF void ref_rms(double *y, const double *x, const double *gain, size_t rows, size_t n,
                 size_t period) {
  for (size_t r = 0; r < rows; r++) {
    double mean = 0.0;
    for (size_t i = 0; i < n; i++) mean += x[r * n + i] * x[r * n + i] / (double)n;
    for (size_t i = 0; i < n; i++)
      y[r * n + i] = x[r * n + i] / sqrt(mean + 1e-5) * gain[r % period * n + i];
  }
}

REF double ref_sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/* Causal depthwise convolution over each sequence, then SiLU. */
REF void ref_convolve(double *y, const double *c, const double *w, int batch, int T, size_t n,
                      int taps) {
  for (int b = 0; b < batch; b++)
    for (int t = 0; t < T; t++)
      for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int j = 0; j < taps; j++) {
          const int from = t - taps + 1 + j;
          if (from >= 0)
            sum += w[(size_t)j * n + i] * c[((size_t)b * (size_t)T + (size_t)from) * n + i];
        }
        y[((size_t)b * (size_t)T + (size_t)t) * n + i] = sum * ref_sigmoid(sum);
      }
}

/* One memory layer up to its output projection: h [batch, T, width], out [batch, T, heads * dv]. */
REF void ref_memory_layer(const ref_model *m, int l, const double *h, int batch, int T, double *out,
                          ref_branches *branches) {
  const miras_model_desc *d = &m->d;
  miras_desc md = ref_resolve(&d->memory);
  const size_t H = (size_t)md.heads, dk = (size_t)md.key_dim, dv = (size_t)md.value_dim;
  const size_t N = (size_t)batch * (size_t)T, width = (size_t)d->width;
  const int taps = d->conv == 0 ? 4 : d->conv;
  const miras_gate kind[4] = {md.keep_gate, md.step_gate, md.momentum_gate, md.threshold_gate};
  double *c = (double *)ref_zeros(N * H * (dk > dv ? dk : dv));
  double *q = (double *)ref_zeros(N * H * dk), *k = (double *)ref_zeros(N * H * dk);
  double *v = (double *)ref_zeros(N * H * dv), *y = (double *)ref_zeros(N * H * dv);
  double *gate[4] = {NULL, NULL, NULL, NULL};
  double *params;
  size_t columns = 0, before = 0;
  ref_memory memory;
  ref_tokens x;

  ref_project(c, h, ref_param(m, l, "q.weight"), N, width, H * dk);
  ref_convolve(q, c, ref_param(m, l, "conv_q.weight"), batch, T, H * dk, taps);
  ref_project(c, h, ref_param(m, l, "k.weight"), N, width, H * dk);
  ref_convolve(k, c, ref_param(m, l, "conv_k.weight"), batch, T, H * dk, taps);
  ref_project(c, h, ref_param(m, l, "v.weight"), N, width, H * dv);
  ref_convolve(v, c, ref_param(m, l, "conv_v.weight"), batch, T, H * dv, taps);
  for (size_t r = 0; r < N * H; r++) {
    double qq = 1e-6, kk = 1e-6;
    for (size_t i = 0; i < dk; i++) {
      qq += q[r * dk + i] * q[r * dk + i];
      kk += k[r * dk + i] * k[r * dk + i];
    }
    for (size_t i = 0; i < dk; i++) {
      q[r * dk + i] /= sqrt(qq);
      k[r * dk + i] /= sqrt(kk);
    }
  }

  for (int i = 0; i < 4; i++)
    columns += kind[i] == MIRAS_GATE_CHANNEL ? H * dk : kind[i] == MIRAS_GATE_HEAD ? H : 0;
  if (columns > 0) {
    char name[80];
    const miras_view *down;
    size_t rank;
    double *low, *raw;
    const double *offset = ref_param(m, l, "gates.offset");
    snprintf(name, sizeof name, "blocks.%d.gates.down", l);
    down = ref_find(m, name);
    rank = (size_t)down->shape[1];
    low = (double *)ref_zeros(N * rank);
    raw = (double *)ref_zeros(N * columns);
    ref_project(low, h, ref_param(m, l, "gates.down"), N, width, rank);
    ref_project(raw, low, ref_param(m, l, "gates.up"), N, rank, columns);
    for (int i = 0; i < 4; i++) {
      const size_t n = kind[i] == MIRAS_GATE_CHANNEL ? H * dk : kind[i] == MIRAS_GATE_HEAD ? H : 0;
      if (n == 0) continue;
      gate[i] = (double *)ref_zeros(N * n);
      for (size_t r = 0; r < N; r++)
        for (size_t j = 0; j < n; j++) {
          const double g = raw[r * columns + before + j] + offset[before + j];
          double value = ref_sigmoid(g);
          if (i == 1) value *= (double)md.step;
          if (i == 3) value = (double)md.threshold * (log1p(exp(-fabs(g))) + (g > 0.0 ? g : 0.0));
          gate[i][r * n + j] = value;
        }
      before += n;
    }
    free(low);
    free(raw);
  }

  md.batch = batch;
  params = (double *)ref_zeros(ref_params_count(&md));
  {
    const size_t P = ref_shape_of(&md).weights;
    const double *init = ref_param(m, l, "memory.init");
    for (size_t i = 0; i < H * P; i++) params[i] = init[i];
    if (md.architecture == MIRAS_MLP && md.inner_norm) {
      const double *gain = ref_param(m, l, "memory.gain"), *bias = ref_param(m, l, "memory.bias");
      for (size_t i = 0; i < H * dv; i++) {
        params[H * P + i] = gain[i];
        params[H * P + H * dv + i] = bias[i];
      }
    }
  }
  memset(&x, 0, sizeof x);
  x.length = T;
  x.key = k;
  x.value = v;
  x.query = q;
  x.keep = gate[0];
  x.step = gate[1];
  x.momentum = gate[2];
  x.threshold = gate[3];
  ref_open(&memory, &md, params);
  memory.branches = branches;
  ref_forward(&memory, &x, y, NULL);
  ref_close(&memory);

  ref_rms(out, y, ref_param(m, l, "out_norm.gain"), N * H, dv, H);
  {
    double *g = (double *)ref_zeros(N * H * dv);
    ref_project(g, h, ref_param(m, l, "out_gate.weight"), N, width, H * dv);
    for (size_t i = 0; i < N * H * dv; i++) out[i] *= g[i] * ref_sigmoid(g[i]);
    free(g);
  }
  free(params);
  for (int i = 0; i < 4; i++) free(gate[i]);
  free(c);
  free(q);
  free(k);
  free(v);
  free(y);
}

/* Mean cross entropy of targets [batch, T] (-1: left out) given tokens, without dropout.
 * logits [batch, T, vocab] or NULL. */
REF double ref_model_loss(const ref_model *m, const int32_t *tokens, const int32_t *targets,
                          int batch, int T, double *logits, ref_branches *branches) {
  const miras_model_desc *d = &m->d;
  const miras_desc md = ref_resolve(&d->memory);
  const size_t N = (size_t)batch * (size_t)T, width = (size_t)d->width, vocab = (size_t)d->vocab;
  const size_t inner = (size_t)md.heads * (size_t)md.value_dim;
  const double *embed = ref_param(m, -1, "embed.weight");
  const double *head = d->untied ? ref_param(m, -1, "head.weight") : embed;
  double *x = (double *)ref_zeros(N * width), *h = (double *)ref_zeros(N * width);
  double *add = (double *)ref_zeros(N * width), *mem = (double *)ref_zeros(N * inner);
  double *row = (double *)ref_zeros(vocab);
  double loss = 0.0;
  size_t counted = 0;
  for (size_t t = 0; t < N; t++)
    for (size_t i = 0; i < width; i++) x[t * width + i] = embed[(size_t)tokens[t] * width + i];
  for (int l = 0; l < d->layers; l++) {
    char name[80];
    size_t F;
    double *up, *gate;
    ref_rms(h, x, ref_param(m, l, "norm1.gain"), N, width, 1);
    ref_memory_layer(m, l, h, batch, T, mem, branches);
    ref_project(add, mem, ref_param(m, l, "o.weight"), N, inner, width);
    for (size_t i = 0; i < N * width; i++) x[i] += add[i];
    ref_rms(h, x, ref_param(m, l, "norm2.gain"), N, width, 1);
    snprintf(name, sizeof name, "blocks.%d.mlp.up", l);
    F = (size_t)ref_find(m, name)->shape[1];
    up = (double *)ref_zeros(N * F);
    gate = (double *)ref_zeros(N * F);
    ref_project(gate, h, ref_param(m, l, "mlp.gate"), N, width, F);
    ref_project(up, h, ref_param(m, l, "mlp.up"), N, width, F);
    for (size_t i = 0; i < N * F; i++) up[i] *= gate[i] * ref_sigmoid(gate[i]);
    ref_project(add, up, ref_param(m, l, "mlp.down"), N, F, width);
    for (size_t i = 0; i < N * width; i++) x[i] += add[i];
    free(up);
    free(gate);
  }
  ref_rms(h, x, ref_param(m, -1, "norm.gain"), N, width, 1);
  for (size_t t = 0; t < N; t++) {
    double top = -1e300, sum = 0.0;
    for (size_t o = 0; o < vocab; o++) {
      row[o] = 0.0;
      for (size_t i = 0; i < width; i++) row[o] += h[t * width + i] * head[o * width + i];
      if (row[o] > top) top = row[o];
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
  free(mem);
  free(row);
  return counted > 0 ? loss / (double)counted : 0.0;
}

#endif /* MIRAS_REFERENCE_H */
