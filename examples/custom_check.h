/* custom_check.h: are the functions of a custom choice (miras_custom) derivatives of each other?
 *
 * Include it behind miras.h in a test of yours, and ask before you train with them:
 *
 *     #define MIRAS_IMPLEMENTATION
 *     #include "miras.h"
 *     #include "custom_check.h"
 *     char why[256];
 *     if (!custom_check(&mine, 8, 0.5f, why, sizeof why)) puts(why);
 *
 * At random places error is compared with central differences of the loss, bias_adjoint with those
 * of error, link_adjoint with those of link (of a layer [dim, dim]; it must add). Functions that
 * are NULL are left out. At a corner either side's slope is right. Public domain or MIT, as
 * miras.h. */
#ifndef CUSTOM_CHECK_H
#define CUSTOM_CHECK_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CUSTOM_MOST = 16 };   /* entries of a residual, rows and columns of a layer                */

/* A place where the functions are tried, and a direction to go in. */
typedef struct custom_trial {
  const miras_custom *c;
  float r[CUSTOM_MOST], v[CUSTOM_MOST], be[CUSTOM_MOST], u[CUSTOM_MOST], threshold;
  int n;
} custom_trial;

/* The next of a sequence of numbers in (-1, 1). */
static float custom_draw(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(int32_t)(*state >> 8) / 8388608.0f - 1;
}

/* Is x the slope of what three points say, each `step` from the next? 1, or 0 and why. */
static int custom_slope(double x, const double at[3], double step, const char *what, char *why,
                        size_t n) {
  const double left = (at[1] - at[0]) / step, right = (at[2] - at[1]) / step;
  const double slack = 0.02 * (fabs(left) + fabs(right) + fabs(x)) + 2e-3 * (1 + fabs(at[1]));
  if (x >= (left < right ? left : right) - slack && x <= (left > right ? left : right) + slack)
    return 1;
  if (why && n)
    snprintf(why, n, "%s says %g where differences say %g", what, x, (left + right) / 2);
  return 0;
}

/* The loss (k 0), or be.error, where what moves has gone so far: r (k 0 and 1), the value (2) while
 * r is held, or the threshold (3). */
static double custom_at(const custom_trial *t, int k, double length) {
  float r[CUSTOM_MOST], v[CUSTOM_MOST], error[CUSTOM_MOST];
  double sum = 0, loss;
  int i;
  for (i = 0; i < t->n; i++) {
    r[i] = t->r[i] + (k < 2 ? (float)length * t->u[i] : 0);
    v[i] = t->v[i] + (k == 2 ? (float)length * t->u[i] : 0);
    error[i] = 0;
  }
  loss = (double)t->c->bias(t->c->user, error, r, v, t->threshold + (k == 3 ? (float)length : 0),
                            t->n);
  for (i = 0; i < t->n; i++) sum += (double)t->be[i] * (double)error[i];
  return k == 0 ? loss : sum;
}

static int custom_bias_right(const custom_trial *t, char *why, size_t n) {
  static const char *const what[] = {"bias: error", "bias_adjoint: dr", "bias_adjoint: dvalue",
                                     "bias_adjoint: what it returns for the threshold"};
  const double step = 4e-3;
  float d[3][CUSTOM_MOST];             /* error, dr, dvalue                                       */
  double at[3], says = 0;
  int i, k;
  memset(d, 0, sizeof d);
  (void)t->c->bias(t->c->user, d[0], t->r, t->v, t->threshold, t->n);
  if (t->c->bias_adjoint)
    says = (double)t->c->bias_adjoint(t->c->user, d[1], d[2], t->be, t->r, t->v, t->threshold,
                                      t->n);
  for (k = 0; k < (t->c->bias_adjoint ? 4 : 1); k++) {
    double along = k == 3 ? says : 0;
    for (i = 0; i < 3; i++) at[i] = custom_at(t, k, step * (i - 1));
    for (i = 0; k < 3 && i < t->n; i++) along += (double)d[k][i] * (double)t->u[i];
    if (!custom_slope(along, at, step, what[k], why, n)) return 0;
  }
  return 1;
}

static int custom_link_right(const miras_custom *c, int dim, uint32_t *state, char *why, size_t n) {
  enum { MOST = CUSTOM_MOST * CUSTOM_MOST };
  const double step = 4e-3;
  const int count = dim * dim;
  float from[MOST], u[MOST], a[MOST], w[MOST], dw[MOST], da[MOST];
  double at[3] = {0, 0, 0}, says = 0;
  int i, k;
  for (i = 0; i < count; i++) {
    from[i] = 2 * custom_draw(state);
    u[i] = custom_draw(state);
    dw[i] = custom_draw(state);
    da[i] = 1;                         /* it must add to what is there                            */
  }
  for (k = 0; k < 3; k++) {
    for (i = 0; i < count; i++) a[i] = from[i] + (float)(step * (k - 1)) * u[i];
    c->link(c->user, w, a, dim, dim);
    for (i = 0; i < count; i++) at[k] += (double)w[i] * (double)dw[i];
  }
  c->link(c->user, w, from, dim, dim);
  c->link_adjoint(c->user, da, dw, from, w, dim, dim);
  for (i = 0; i < count; i++) says += (double)(da[i] - 1) * (double)u[i];
  return custom_slope(says, at, step, "link_adjoint: da", why, n);
}

/* dim: 1..16; threshold: what your bias is used with. 1 if all is right, else 0 and a sentence with
 * both numbers in why, which may be NULL. */
static int custom_check(const miras_custom *c, int dim, float threshold, char *why, size_t n) {
  uint32_t state = 1;
  custom_trial t;
  int round, i;
  if (!c || !(fabs((double)threshold) <= 1e30) || dim < 1 || dim > CUSTOM_MOST) {
    if (why && n)
      snprintf(why, n, "c is %sNULL, dim is %d, threshold is %g; dim must lie in 1..16, "
               "threshold in -1e30..1e30", c ? "not " : "", dim, (double)threshold);
    return 0;
  }
  if (why && n) why[0] = 0;
  memset(&t, 0, sizeof t);
  t.c = c;
  t.n = dim;
  t.threshold = threshold;
  for (round = 0; round < 32; round++) {
    for (i = 0; i < dim; i++) {
      t.r[i] = 2 * custom_draw(&state);
      t.v[i] = 2 * custom_draw(&state);
      t.be[i] = custom_draw(&state);
      t.u[i] = custom_draw(&state);
    }
    if (c->bias && !custom_bias_right(&t, why, n)) return 0;
    if (c->link && c->link_adjoint && !custom_link_right(c, dim, &state, why, n)) return 0;
  }
  return 1;
}

#endif
