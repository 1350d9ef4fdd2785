/* vectors.c: the files of tests/vectors, a row of the table each, by which others check what they
 * have written (tests/vectors/README.md). Run from the top:
 *
 *   cc -O1 tests/vectors.c -o vectors -lm -lpthread
 *   ./vectors          computes them anew, compares, and holds miras.h to them
 *   ./vectors write    writes them
 *   ./vectors write gla-memory kda-memory     these alone
 *
 * All numbers are those of tests/reference.h, which is compiled here with long double for double.
 * Gradients are differences over six points, so that no line of them is anybody's adjoint; with the
 * 64 bits of x86's long double they agree with analytic ones to 14 digits. */
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIRAS_TEST_NO_CMOCKA
#include "check.h"
#include "inside.h"

#if defined(__clang__)
  #pragma clang diagnostic ignored "-Wkeyword-macro"
#endif
#if defined(__GNUC__)
  #pragma GCC diagnostic ignored "-Wdouble-promotion"
#endif
#define double long double
#define acos   acosl
#define atan   atanl
#define ceil   ceill
#define cos    cosl
#define cosh   coshl
#define exp    expl
#define fabs   fabsl
#define floor  floorl
#define fmax   fmaxl
#define fmin   fminl
#define log    logl
#define log1p  log1pl
#define pow    powl
#define sin    sinl
#define sinh   sinhl
#define sqrt   sqrtl
#define tanh   tanhl
#include "reference.h"
#include "memories.h"
#undef double
#undef fabs
#undef fmax
#undef fmin
typedef long double real;

enum { HEADS = 2, TOKENS = 12, KEYS = 4, VALUES = 3, CHUNK = 4, LEVELS = 5, NAME = 64 };
#define GRID     256.0f                           /* inputs are multiples of 1 / GRID            */
#define PRECISE  (LDBL_MANT_DIG > DBL_MANT_DIG)   /* is long double more than double?            */
#define APART    (PRECISE ? 2e-5L : 2e-4L)        /* between the points of a difference          */
#define SAME     (PRECISE ? 1e-12L : 1e-6L)       /* of a tensor's largest entry                 */
#define MARGIN   5e-3L                            /* how far from corners inputs keep            */

/* ---- what a file holds ---- */

typedef struct named {
  char name[NAME];
  int rank, shape[4];
  size_t count;
  double *values;
} named;

typedef struct vectors {
  const char *row;
  char descriptor[1600];
  named tensors[64];
  int count;
} vectors;

/* A new tensor [HEADS, shape of v] or, without v, [first, second, ...] up to a 0. */
static double *add(vectors *f, const char *prefix, const char *name, const miras_view *v,
                   const int *shape) {
  named *t = &f->tensors[f->count++];
  if (f->count > COUNT(f->tensors)) abort();
  memset(t, 0, sizeof *t);
  snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
  t->count = 1;
  if (v != NULL) {
    t->shape[t->rank++] = HEADS;
    for (int i = 0; i < v->rank; i++) t->shape[t->rank++] = v->shape[i];
  } else {
    while (t->rank < 4 && shape[t->rank] > 0) t->shape[t->rank] = shape[t->rank], t->rank++;
  }
  for (int i = 0; i < t->rank; i++) t->count *= (size_t)t->shape[i];
  t->values = (double *)zeros(t->count, sizeof(double));
  return t->values;
}

static double *add_like(vectors *f, const char *prefix, int of) {
  const named t = f->tensors[of];
  return add(f, prefix, t.name, NULL, t.shape);
}

static void vectors_free(vectors *f) {
  for (int i = 0; i < f->count; i++) free(f->tensors[i].values);
}

static void put_word(unsigned char *to, uint64_t word) {
  for (int i = 0; i < 8; i++) to[i] = (unsigned char)(word >> (8 * i));
}

static uint64_t get_word(const unsigned char *from) {
  uint64_t word = 0;
  for (int i = 0; i < 8; i++) word |= (uint64_t)from[i] << (8 * i);
  return word;
}

/* The file as safetensors: *head is where its numbers begin. */
static unsigned char *encode(const vectors *f, size_t *head, size_t *all) {
  size_t room = 4096 + 256 * (size_t)f->count, n = 8, at = 0;
  unsigned char *bytes;
  for (int i = 0; i < f->count; i++) room += 8 * f->tensors[i].count;
  bytes = (unsigned char *)zeros(room, 1);
  n += (size_t)snprintf((char *)bytes + n, room - n,
                        "{\"__metadata__\":{\"row\":\"%s\",\"descriptor\":\"%s\"}", f->row,
                        f->descriptor);
  for (int i = 0; i < f->count; i++) {
    const named *t = &f->tensors[i];
    n += (size_t)snprintf((char *)bytes + n, room - n, ",\"%s\":{\"dtype\":\"F64\",\"shape\":[",
                          t->name);
    for (int k = 0; k < t->rank; k++)
      n += (size_t)snprintf((char *)bytes + n, room - n, k ? ",%d" : "%d", t->shape[k]);
    n += (size_t)snprintf((char *)bytes + n, room - n, "],\"data_offsets\":[%zu,%zu]}", at,
                          at + 8 * t->count);
    at += 8 * t->count;
  }
  bytes[n++] = '}';
  while (n % 8 != 0) bytes[n++] = ' ';
  put_word(bytes, n - 8);
  *head = n;
  for (int i = 0; i < f->count; i++)
    for (size_t k = 0; k < f->tensors[i].count; k++, n += 8) {
      uint64_t word;
      memcpy(&word, &f->tensors[i].values[k], 8);
      put_word(bytes + n, word);
    }
  *all = n;
  return bytes;
}

/* ---- a row, and inputs for it ---- */

/* The row as a layer of a model has it, in small: chunks that are part of the model are short,
 * windows too, and steps large enough to be seen. */
static miras_memory_desc row_of(miras_preset kind) {
  miras_model_desc md;
  miras_memory_desc d;
  if (miras_model_preset(&md, kind, 1) != MIRAS_OK) abort();
  d = md.layer[0].memory;
  d.batch = 1;
  d.heads = HEADS;
  d.key_dim = KEYS;
  d.value_dim = d.architecture == MIRAS_ARCH_MLP || d.turning ? KEYS : VALUES;
  d.chunk = ref_exact(&d) || kind == MIRAS_PRESET_MDN ? 1 : CHUNK;
  if (d.architecture == MIRAS_ARCH_KV_CACHE) d.window = d.window > 64 ? 16 : 5;
  if (d.architecture == MIRAS_ARCH_MLP) d.learning_rate = 0.25f;
  if (d.depth > 1) d.expansion = 2;
  if (d.retention == MIRAS_RETENTION_KL) d.simplex = 8.0f;
  if (ref_has_threshold(&d)) d.threshold = 2.0f;
  if (d.decay_schedule != MIRAS_DECAY_SCHEDULE_RATIO) d.layer = 1, d.layers = 4;
  return d;
}

static void grid(tensor *t) {
  for (size_t i = 0; i < t->count; i++)
    tensor_set(t, i, floorf(t->f[i] * GRID + 0.5f) / GRID);
}

static tensor drawn(size_t count, float low, float high) {
  tensor t = tensor_new(count, low, high);
  grid(&t);
  return t;
}

static tensor drawn_units(size_t count) {
  tensor t = tensor_new(count, -1.0f, 1.0f);
  unit_rows(&t, KEYS);
  grid(&t);
  return t;
}

/* What is erased and where, as the row's paper has it; products of three multiples of 1/256 are
 * still floats. The channels' own gates of Gated DeltaNet-2 and RWKV-7 are drawn here. */
static void draw_erase(data *x, miras_preset kind) {
  tensor *a = &x->in[ERASE], *b = &x->in[REPLACE];
  const tensor rate = drawn(a->count, 0.2f, 0.9f), unit = drawn_units(a->count);
  for (size_t i = 0; i < a->count; i++) {
    const float k = x->in[KEY].f[i], head = i / KEYS % HEADS ? 0.75f : 0.375f;
    if (kind == MIRAS_PRESET_COMBA) {
      tensor_set(a, i, head * k);
      tensor_set(b, i, -x->in[STEP].f[i / KEYS] * k);
    } else if (kind == MIRAS_PRESET_GATED_DELTANET_2) {
      tensor_set(a, i, x->in[KEEP].f[i] * rate.f[i] * k);
      tensor_set(b, i, -k);
    } else if (kind == MIRAS_PRESET_PGDN || kind == MIRAS_PRESET_PKDA_MEMORY) {
      /* k is m (.) x as it is written: of x = k / m what has decayed is erased */
      tensor_set(a, i, x->in[KEEP].f[kind == MIRAS_PRESET_PGDN ? i / KEYS : i] *
                         ((rate.f[i] + 0.625f) * k));
      tensor_set(b, i, -x->in[STEP].f[i / KEYS] * k);
    } else {
      tensor_set(a, i, -unit.f[i]);
      tensor_set(b, i, rate.f[i] * unit.f[i]);
    }
  }
  free(rate.f), free(rate.d), free(unit.f), free(unit.d);
}

/* Outer parameters: small weights, for links away from 0; gains about 1. */
static void draw_params(data *x) {
  const miras_memory_desc *d = &x->d;
  const ref_shape s = ref_shape_of(d);
  const size_t gain = params_gain(x), rho = params_rho(x);
  x->params = drawn(ref_params_count(d), -0.75f, 0.75f);
  for (size_t i = 0; i < gain && d->retention == MIRAS_RETENTION_LQ; i++)
    tensor_set(&x->params, i, x->params.f[i] + (x->params.f[i] < 0.0f ? -0.125f : 0.125f));
  for (size_t i = gain; i < rho; i++)
    tensor_set(&x->params, i, 0.25f * x->params.f[i] + (i < gain + HEADS * x->out ? 1.0f : 0.0f));
  for (size_t i = rho; i < x->params.count && d->token_rates; i++)
    tensor_set(&x->params, i, 0.25f * x->params.f[i]);
  if (s.weights == 0 && x->params.count > 0) abort();
}

/* The seed is the name's hash (FNV-1a of 64 bits), plus 1 for each draw too near to a corner. */
static void draw_data(data *x, const miras_memory_desc *d, miras_preset kind, uint64_t again) {
  const size_t rows = (size_t)TOKENS * HEADS;
  uint64_t hash = 14695981039346656037u;
  for (const char *c = miras_preset_name(kind); *c; c++)
    hash = (hash ^ (uint64_t)(unsigned char)*c) * 1099511628211u;
  random_state = hash + again;
  memset(x, 0, sizeof *x);
  x->T = TOKENS;
  data_shape(x, d);
  x->in[KEY] = drawn_units(rows * x->per[KEY]);
  x->in[VALUE] = drawn(rows * x->per[VALUE], -1.0f, 1.0f);
  x->in[QUERY] = drawn_units(rows * x->per[QUERY]);
  x->in[KEEP] = d->decay_gate == MIRAS_GATE_ENTRY ? drawn(rows * x->per[KEEP], 0.02f, 1.0f)
                                                  : drawn(rows * x->per[KEEP], 0.75f, 1.0f);
  x->in[STEP] = drawn(rows * x->per[STEP], 0.3f * d->learning_rate, d->learning_rate);
  x->in[MOMENTUM] = drawn(rows * x->per[MOMENTUM], 0.1f, 0.7f);
  x->in[THRESHOLD] = drawn(rows * x->per[THRESHOLD], 0.6f * d->threshold, 1.4f * d->threshold);
  x->in[VALUE_KEEP] = drawn(rows * x->per[VALUE_KEEP], 0.75f, 1.0f);
  x->in[ERASE] = drawn(rows * x->per[ERASE], 0.0f, 0.0f);
  x->in[REPLACE] = drawn(rows * x->per[REPLACE], 0.0f, 0.0f);
  if (d->separate_erase) draw_erase(x, kind);
  for (size_t i = 0; i < x->in[KEY].count && kind == MIRAS_PRESET_HGRN2_MEMORY; i++)
    tensor_set(&x->in[KEY], i, 1.0f - x->in[KEEP].f[i]);
  for (size_t i = 0; i < x->in[STEP].count &&
                     (kind == MIRAS_PRESET_MAMBA_MEMORY || kind == MIRAS_PRESET_S5_MEMORY); i++)
    tensor_set(&x->in[STEP], i, x->in[KEEP].f[i]);
  for (size_t i = 0; i < x->in[VALUE].count && kind == MIRAS_PRESET_EDA; i++)
    if (i / x->out % 2 == 0) tensor_set(&x->in[VALUE], i, 0.0f); /* of the pair that erases */
  draw_params(x);
  x->dy = drawn(rows * x->out, -1.0f, 1.0f);
}

/* ---- the reference ---- */

/* d functional / d *value, and whether no corner lies within three steps of it; head < 0: both. */
static real slope(const functional *f, real *value, int head) {
  static const real weight[3] = {45.0L, -9.0L, 1.0L};
  const real middle = *value;
  uint64_t decisions = 0;
  real sum = 0.0L;
  for (int i = 0; i < 6; i++) {
    const real side = i % 2 ? -1.0L : 1.0L;
    ref_branches branches;
    ref_branches_clear(&branches);
    *value = middle + side * (real)(i / 2 + 1) * APART;
    for (int h = 0; h < HEADS; h++)
      if (head < 0 || h == head) sum += side * weight[i / 2] * functional_head(f, 0, h, &branches);
    if (i > 0 && branches.decisions != decisions) failed("a corner within a difference");
    decisions = branches.decisions;
  }
  *value = middle;
  return sum / (60.0L * APART);
}

/* Where part v of an outer parameter of head h lies in the library's layout. */
static size_t param_at(const ref_memory *m, const miras_view *v, int h) {
  const int gains = strcmp(v->name, "gain") == 0 || strcmp(v->name, "bias") == 0;
  const int ridges = strcmp(v->name, "ridge") == 0;
  const size_t apart = gains    ? (size_t)m->d.value_dim
                       : ridges ? (size_t)m->features
                                : m->s.weights;
  return v->offset + (size_t)h * apart;
}

/* What the reference's state has for entry i of a part after the last token. */
static real state_of(const ref_memory *m, const miras_view *v, miras_part kind, int h, size_t i) {
  size_t at;
  if (kind == MIRAS_PART_DERIVED && m->d.algorithm != MIRAS_ALGORITHM_RECURSIVE)
    return ref_head_open(m, 0, h, OPEN_READ)[v->offset + i];
  at = state_entry(m, h, v->offset + i, TOKENS);
  return at == NOWHERE ? 0.0L : ref_head_state(m, 0, h)[at];
}

/* The factor of a recursion's P is a float's way to keep it. */
static int is_kept(const miras_view *v, miras_part kind) {
  return kind != MIRAS_PART_PARAMETER && strcmp(v->name, "L") != 0;
}

static const char *const file_names[INPUTS] = {
  "key", "value", "query", "keep", "learning_rate", "momentum", "threshold", "value_keep",
  "erase", "replace"};

static void add_inputs(vectors *f, const data *x, int *where) {
  for (int i = 0; i < INPUTS; i++) {
    const int steps = x->d.inner_steps > 1 && (i == KEY || i == VALUE || i == STEP);
    const int wide = (int)x->per[i] / (steps ? x->d.inner_steps : 1);
    const int gate = i != KEY && i != VALUE && i != QUERY && wide == 1;
    const int shape[5] = {TOKENS, HEADS, steps ? x->d.inner_steps : gate ? 0 : wide,
                          steps && !gate ? wide : 0, 0};
    double *to;
    where[i] = -1;
    if (x->per[i] == 0) continue;
    where[i] = f->count;
    to = add(f, "", file_names[i], NULL, shape);
    for (size_t k = 0; k < x->in[i].count; k++) to[k] = (double)x->in[i].f[k];
  }
}

/* Everything of a row. */
static void fill(vectors *f, data *x, miras_memory *memory) {
  const int out[5] = {TOKENS, HEADS, (int)x->out, 0, 0};
  real *y = (real *)ref_zeros(x->dy.count);
  const ref_tokens tokens = data_reference(x);
  int where[INPUTS], inputs, first, last;
  ref_memory m;
  miras_view v;
  miras_part kind;
  functional g;
  double *to;
  add_inputs(f, x, where);
  inputs = f->count;
  ref_open(&m, &x->d, x->params.d);
  for (int i = 0; (kind = miras_memory_part(memory, i, &v)) != MIRAS_PART_NONE; i++) {
    if (kind != MIRAS_PART_PARAMETER) continue;
    if (strcmp(v.name, "rates") == 0) {
      const int shape[5] = {(int)v.count, 0, 0, 0, 0};
      to = add(f, "", v.name, NULL, shape);
      for (size_t k = 0; k < v.count; k++) to[k] = (double)x->params.f[v.offset + k];
      continue;
    }
    to = add(f, "", v.name, &v, NULL);
    for (size_t k = 0; k < HEADS * v.count; k++)
      to[k] = (double)x->params.f[param_at(&m, &v, (int)(k / v.count)) + k % v.count];
  }
  last = f->count;
  to = add(f, "", "projection", NULL, out);
  for (size_t k = 0; k < x->dy.count; k++) to[k] = (double)x->dy.f[k];
  to = add(f, "", "output", NULL, out);
  ref_forward(&m, &tokens, y, NULL);
  for (size_t k = 0; k < x->dy.count; k++) to[k] = (double)y[k];
  for (int i = 0; (kind = miras_memory_part(memory, i, &v)) != MIRAS_PART_NONE; i++) {
    if (!is_kept(&v, kind)) continue;
    to = add(f, "final.", v.name, &v, NULL);
    for (size_t k = 0; k < HEADS * v.count; k++)
      to[k] = (double)state_of(&m, &v, kind, (int)(k / v.count), k % v.count);
  }
  m.position = 0;
  memset(&g, 0, sizeof g);
  g.x = x, g.m = &m, g.y = y;
  for (int i = 0; i < INPUTS; i++) {
    if (where[i] < 0) continue;
    to = add_like(f, "grad.", where[i]);
    for (size_t k = 0; k < x->in[i].count; k++)
      to[k] = (double)slope(&g, &x->in[i].d[k], (int)(k / x->per[i] % HEADS));
  }
  first = inputs;
  for (int i = 0; (kind = miras_memory_part(memory, i, &v)) != MIRAS_PART_NONE; i++) {
    if (kind != MIRAS_PART_PARAMETER) continue;
    to = add_like(f, "grad.", first);
    for (size_t k = 0; k < f->tensors[first].count; k++) {
      const int h = (int)(k / v.count), shared = strcmp(v.name, "rates") == 0;
      to[k] = (double)slope(&g, &m.params[param_at(&m, &v, h) + k % v.count], shared ? -1 : h);
    }
    first++;
  }
  if (first != last) abort();
  ref_close(&m);
  free(y);
}

/* Draw until corners are far. */
static void settle(data *x, const miras_memory_desc *d, miras_preset kind) {
  for (uint64_t again = 0; again < 500; again++) {
    ref_memory m;
    ref_branches b;
    ref_tokens tokens;
    real *y;
    int calm;
    draw_data(x, d, kind, again);
    tokens = data_reference(x);
    y = (real *)ref_zeros(x->dy.count);
    ref_branches_clear(&b);
    ref_open(&m, &x->d, x->params.d);
    m.branches = &b;
    ref_forward(&m, &tokens, y, NULL);
    ref_close(&m);
    calm = b.margin > MARGIN && b.cancellation < 6.0L;
    for (size_t i = 0; i < x->dy.count; i++)
      if (!(y[i] > -20.0L && y[i] < 20.0L)) calm = 0;
    free(y);
    if (calm) return;
    data_free(x);
  }
  fprintf(stderr, "%s: no calm data\n", miras_preset_name(kind));
  exit(1);
}

/* ---- what is compared ---- */

static double worst_same, worst_output, worst_state, worst_grad;

static double off(const float *is, const double *should, size_t count) {
  double top = 1e-30, worst = 0.0;
  for (size_t i = 0; i < count; i++) {
    const double far = fabs((double)is[i] - should[i]);
    if (fabs(should[i]) > top) top = fabs(should[i]);
    if (!(far <= worst)) worst = far == far ? far : HUGE_VAL;
  }
  return worst / top;
}

static void hold(const vectors *f, const char *prefix, const char *name, const float *is,
                 double limit, double *worst) {
  char full[NAME];
  double far;
  snprintf(full, sizeof full, "%s%s", prefix, name);
  for (int i = 0; i < f->count; i++) {
    if (strcmp(f->tensors[i].name, full) != 0) continue;
    far = off(is, f->tensors[i].values, f->tensors[i].count);
    if (far > *worst) *worst = far;
    if (!(far <= limit)) failed("%s: the library's %s is off by %.2e", f->row, full, far);
    return;
  }
  failed("%s: there is no %s", f->row, full);
}

/* The library, in floats: outputs, states, gradients. */
static void library(const vectors *f, const data *x, miras_memory *memory, const ref_memory *m) {
  const miras_memory_input tokens = data_tokens(x);
  const size_t tape = miras_memory_tape_size(memory, TOKENS);
  float *y = (float *)zeros(x->dy.count, sizeof *y), *dx[INPUTS];
  float *dp = (float *)zeros(x->params.count, sizeof *dp);
  float *room = (float *)zeros(tape, sizeof *room);
  miras_memory_input_grad g;
  miras_view v;
  miras_part kind;
  for (int i = 0; i < INPUTS; i++) dx[i] = (float *)zeros(x->in[i].count, sizeof(float));
  g = data_grads(x, dx);
  if (miras_memory_forward(memory, &tokens, y, room) != MIRAS_OK ||
      miras_memory_backward(memory, &tokens, room, x->dy.f, &g, dp, NULL) != MIRAS_OK)
    failed("%s: the library refuses it", f->row);
  hold(f, "", "output", y, (double)FORWARD, &worst_output);
  for (int i = 0; i < INPUTS; i++)
    if (x->per[i] > 0) hold(f, "grad.", file_names[i], dx[i], (double)GRADIENT, &worst_grad);
  for (int i = 0; (kind = miras_memory_part(memory, i, &v)) != MIRAS_PART_NONE; i++) {
    float *is = (float *)zeros(HEADS * v.count, sizeof(float));
    for (int h = 0; h < HEADS; h++) {
      if (kind == MIRAS_PART_PARAMETER)
        memcpy(is + (size_t)h * v.count, dp + param_at(m, &v, strcmp(v.name, "rates") ? h : 0),
               v.count * sizeof(float));
      else miras_memory_get(memory, 0, h, v.name, is + (size_t)h * v.count, NULL, 0);
    }
    if (kind == MIRAS_PART_PARAMETER) hold(f, "grad.", v.name, is, (double)GRADIENT, &worst_grad);
    else if (is_kept(&v, kind)) hold(f, "final.", v.name, is, (double)FORWARD, &worst_state);
    free(is);
  }
  for (int i = 0; i < INPUTS; i++) free(dx[i]);
  free(y), free(dp), free(room);
}

/* The committed file against this one: its head to the byte, its numbers within SAME. */
static void compare(const vectors *f, const char *path) {
  size_t head, all, at;
  unsigned char *should = encode(f, &head, &all), *is = (unsigned char *)zeros(all + 1, 1);
  FILE *file = fopen(path, "rb");
  const size_t have = file == NULL ? 0 : fread(is, 1, all + 1, file);
  if (file != NULL) fclose(file);
  at = head;
  if (have != all || memcmp(is, should, head) != 0) {
    failed("%s is not what ./vectors write would write", path);
  } else {
    for (int i = 0; i < f->count; i++) {
      const named *t = &f->tensors[i];
      double top = 0.0, worst = 0.0;
      for (size_t k = 0; k < t->count; k++, at += 8) {
        const uint64_t word = get_word(is + at);
        double x;
        memcpy(&x, &word, 8);
        if (fabs(t->values[k]) > top) top = fabs(t->values[k]);
        if (!(fabs(x - t->values[k]) <= worst)) worst = fabs(x - t->values[k]);
      }
      if (!(worst <= (double)SAME * top))
        failed("%s of %s is off by %.2e of its largest", t->name, path, worst / top);
      if (top > 0.0 && worst / top > worst_same) worst_same = worst / top;
    }
  }
  free(should);
  free(is);
}

static size_t save(const vectors *f, const char *path) {
  size_t head, all;
  unsigned char *bytes = encode(f, &head, &all);
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(bytes, 1, all, file) != all || fclose(file) != 0)
    failed("%s cannot be written", path);
  free(bytes);
  return all;
}

static size_t row(miras_preset kind, int writes) {
  const miras_memory_desc d = row_of(kind);
  vectors f;
  data x;
  ref_memory m;
  miras_memory *memory;
  size_t bytes = 0;
  char path[128];
  memset(&f, 0, sizeof f);
  f.row = miras_preset_name(kind);
  snprintf(f.descriptor, sizeof f.descriptor, "%s", label(&d));
  snprintf(path, sizeof path, "tests/vectors/%s.safetensors", f.row);
  settle(&x, &d, kind);
  memory = open_memory(&x);
  if (memory == NULL) {
    failed("%s: is not opened", f.row);
  } else {
    fill(&f, &x, memory);
    ref_open(&m, &x.d, x.params.d);
    library(&f, &x, memory, &m);
    ref_close(&m);
    if (writes) bytes = save(&f, path);
    else compare(&f, path);
    miras_close(memory);
  }
  vectors_free(&f);
  data_free(&x);
  return bytes;
}

/* ---- trees of states ---- */

static const miras_preset trees[] = {MIRAS_PRESET_LOG_LINEAR_MAMBA2, MIRAS_PRESET_LOG_LINEAR_GDN};

/* sum projection (.) output of a tree with weights lambda [tokens, heads, levels]; y: outputs. */
static real tree_sum(const data *x, const tensor *lambda, real *y) {
  real *start = (real *)ref_zeros(HEADS * KEYS * VALUES), *gate[REF_GATES] = {NULL}, sum = 0.0L;
  gate[REF_KEEP] = x->in[KEEP].d, gate[REF_STEP] = x->in[STEP].d, gate[REF_FADE] = lambda->d;
  memset(y, 0, x->dy.count * sizeof *y);
  ref_levels(&x->d, LEVELS, start, gate, x->in[QUERY].d, x->in[KEY].d, x->in[VALUE].d, 1, TOKENS,
             y);
  for (size_t i = 0; i < x->dy.count; i++) sum += x->dy.d[i] * y[i];
  free(start);
  return sum;
}

static real tree_slope(const data *x, const tensor *lambda, real *y, real *value) {
  static const real weight[3] = {45.0L, -9.0L, 1.0L};
  const real middle = *value;
  real sum = 0.0L;
  for (int i = 0; i < 6; i++) {
    const real side = i % 2 ? -1.0L : 1.0L;
    *value = middle + side * (real)(i / 2 + 1) * APART;
    sum += side * weight[i / 2] * tree_sum(x, lambda, y);
  }
  *value = middle;
  return sum / (60.0L * APART);
}

/* The factor of level l's memory, which begins anew every 2^l tokens: lambda less the next one. */
static float tree_mu(const float *lambda, int l) {
  return lambda[l] - (l + 1 < LEVELS ? lambda[l + 1] : 0.0f);
}

/* The library, in floats: a memory on its own, with LEVELS heads for each of the tree's. */
static void tree_library(const vectors *f, const data *x, const tensor *lambda) {
  static const int reads[5] = {KEY, VALUE, QUERY, KEEP, STEP};
  const size_t all = (size_t)TOKENS * HEADS * LEVELS, n = x->out;
  float *y = (float *)zeros(all * n, sizeof *y), *sum = (float *)zeros(x->dy.count, sizeof *sum);
  float *dl = (float *)zeros(all, sizeof *dl), *dx[INPUTS], *dp, *room;
  miras_memory_desc d = x->given;
  miras_memory_input_grad g;
  miras_memory_input tokens;
  miras_memory *memory;
  data z;
  memset(&z, 0, sizeof z);
  d.heads = HEADS * LEVELS;
  data_shape(&z, &d);
  z.T = TOKENS;
  z.params = tensor_new(ref_params_count(&d), 0.0f, 0.0f);
  for (int i = 0; i < 5; i++) {
    const size_t per = x->per[reads[i]];
    tensor *t = &z.in[reads[i]];
    *t = tensor_new(all * per, 0.0f, 0.0f);
    for (size_t k = 0; k < t->count; k++)
      t->f[k] = x->in[reads[i]].f[k / per / LEVELS * per + k % per];
  }
  for (size_t k = 0; k < all; k++) {
    const int l = (int)(k % LEVELS), at = (int)(k / LEVELS / HEADS);
    if (l + 1 < LEVELS && at % (1 << l) == 0) z.in[KEEP].f[k] = 0.0f;
  }
  for (int i = 0; i < INPUTS; i++) dx[i] = (float *)zeros(z.in[i].count, sizeof(float));
  z.dy = tensor_new(all * n, 0.0f, 0.0f);
  for (size_t k = 0; k < z.dy.count; k++)
    z.dy.f[k] = tree_mu(lambda->f + k / n / LEVELS * LEVELS, (int)(k / n % LEVELS)) *
                x->dy.f[k / n / LEVELS * n + k % n];
  memory = open_memory(&z);
  tokens = data_tokens(&z), g = data_grads(&z, dx);
  dp = (float *)zeros(z.params.count, sizeof *dp);
  room = (float *)zeros(miras_memory_tape_size(memory, TOKENS), sizeof *room);
  if (miras_memory_forward(memory, &tokens, y, room) != MIRAS_OK ||
      miras_memory_backward(memory, &tokens, room, z.dy.f, &g, dp, NULL) != MIRAS_OK)
    failed("%s: the library refuses it", f->row);
  for (size_t k = 0; k < all * n; k++) {
    const size_t l = k / n % LEVELS, at = k / n / LEVELS;
    const float part = x->dy.f[at * n + k % n] * y[k];
    sum[at * n + k % n] += tree_mu(lambda->f + at * LEVELS, (int)l) * y[k];
    dl[at * LEVELS + l] += part;
    if (l + 1 < LEVELS) dl[at * LEVELS + l + 1] -= part;
  }
  hold(f, "", "output", sum, (double)FORWARD, &worst_output);
  hold(f, "grad.", "weight", dl, (double)GRADIENT, &worst_grad);
  for (int i = 0; i < 5; i++) {
    const size_t per = x->per[reads[i]];
    float *is = (float *)zeros(x->in[reads[i]].count, sizeof *is);
    for (size_t k = 0; k < z.in[reads[i]].count; k++)   /* 0 is no decay of anybody's */
      if (reads[i] != KEEP || z.in[KEEP].f[k] > 0.0f)
        is[k / per / LEVELS * per + k % per] += dx[reads[i]][k];
    hold(f, "grad.", file_names[reads[i]], is, (double)GRADIENT, &worst_grad);
    free(is);
  }
  for (int i = 0; i < INPUTS; i++) free(dx[i]);
  free(y), free(sum), free(dl), free(dp), free(room);
  miras_close(memory);
  data_free(&z);
}

static size_t tree(miras_preset kind, int writes) {
  const miras_memory_desc d = row_of(kind);
  const int shape[5] = {TOKENS, HEADS, LEVELS, 0, 0};
  const int out[5] = {TOKENS, HEADS, VALUES, 0, 0};
  real *y = (real *)ref_zeros((size_t)TOKENS * HEADS * VALUES);
  int where[INPUTS], inputs;
  size_t bytes = 0;
  char path[128];
  tensor lambda;
  vectors f;
  double *to;
  data x;
  memset(&f, 0, sizeof f);
  f.row = miras_preset_name(kind);
  snprintf(f.descriptor, sizeof f.descriptor, "%s", label(&d));
  snprintf(path, sizeof path, "tests/vectors/%s.safetensors", f.row);
  draw_data(&x, &d, kind, 0);
  lambda = drawn((size_t)TOKENS * HEADS * LEVELS, 0.25f, 1.75f);
  add_inputs(&f, &x, where);
  inputs = f.count;
  to = add(&f, "", "weight", NULL, shape);
  for (size_t k = 0; k < lambda.count; k++) to[k] = (double)lambda.f[k];
  to = add(&f, "", "projection", NULL, out);
  for (size_t k = 0; k < x.dy.count; k++) to[k] = (double)x.dy.f[k];
  to = add(&f, "", "output", NULL, out);
  tree_sum(&x, &lambda, y);
  for (size_t k = 0; k < x.dy.count; k++) to[k] = (double)y[k];
  for (int i = 0; i < INPUTS; i++) {
    if (where[i] < 0) continue;
    to = add_like(&f, "grad.", where[i]);
    for (size_t k = 0; k < x.in[i].count; k++)
      to[k] = (double)tree_slope(&x, &lambda, y, &x.in[i].d[k]);
  }
  to = add_like(&f, "grad.", inputs);
  for (size_t k = 0; k < lambda.count; k++)
    to[k] = (double)tree_slope(&x, &lambda, y, &lambda.d[k]);
  tree_library(&f, &x, &lambda);
  if (writes) bytes = save(&f, path);
  else compare(&f, path);
  vectors_free(&f);
  tensor_free(&lambda);
  data_free(&x);
  free(y);
  return bytes;
}

static int is_wanted(int argc, char **argv, int from, miras_preset kind) {
  int wanted = argc <= from;
  for (int i = from; i < argc; i++) wanted |= strcmp(argv[i], miras_preset_name(kind)) == 0;
  return wanted;
}

int main(int argc, char **argv) {
  const int writes = argc > 1 && strcmp(argv[1], "write") == 0;
  size_t bytes = 0;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++)
    if (is_wanted(argc, argv, 1 + writes, (miras_preset)kind))
      bytes += row((miras_preset)kind, writes);
  for (size_t i = 0; i < COUNT(trees); i++)
    if (is_wanted(argc, argv, 1 + writes, trees[i])) bytes += tree(trees[i], writes);
  if (writes) printf("%zu bytes\n", bytes);
  else printf("files and reference: %.1e; miras.h: outputs %.1e, states %.1e, gradients %.1e\n",
              worst_same, worst_output, worst_state, worst_grad);
  return failures > 0;
}
