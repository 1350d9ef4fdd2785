/* forecast.c: a network forecasts the columns of a table, beside what needs no network.
 *
 *     cc -O2 examples/forecast.c -o forecast -lm
 *     ./forecast FILE.csv horizon=24 season=24
 *     ./forecast --help                 says what follows in short
 *     ./forecast                        a made-up table of three columns, an hour a row
 *     sh examples/data.sh forecast data fetches the table that README.md has figures of
 *
 *     horizon=24            forecasts are of the next so many rows
 *     season=24 or 24,168   rows of a season, up to three; 0 (the default): none
 *     lags=N                rows that a forecast looks back at; four of the first season, or 32
 *     columns=NAME,NAME     which; otherwise all that hold numbers
 *     train=0.6 valid=0.2 test=0.2      shares of the table, in this order, or rows above 1
 *     quantiles=0.05,0.25,0.75,0.95     of the fan, up to four
 *     steps=400 every=50    most steps; those between two looks at `valid`
 *     patience=3            looks without a gain, after which training ends
 *     seeds=1 first=1       how many networks, and the first one's seed
 *     from=latest or line   what the network's answers are differences from
 *     model=gated-deltanet width=64 layers=2 rate=0.003 dropout=0.1
 *     plot=forecast.svg     a picture: the last rows, forecasts of them and of the next
 *
 * THE NETWORK reads each column as a sequence of its own and learns one set of parameters from all:
 * a row brings the place in each season and which column it is, as categories, and a window, the
 * latest value and the differences of the `lags` - 1 before from it. Answers are the differences of
 * the next `horizon` values from the latest, and their quantiles. So a value that stays costs
 * nothing to say, and a column that moves to another level is known there. The head begins at zero,
 * which is "the latest value", or with from=line the lines below, of which it then learns what they
 * leave. All sensors in one row, with all of their next values as its targets, is what does worse
 * than a line (README.md has figures): what one column does is taken for a cause of the others.
 * Training is on `train`, and the parameters stay that were best on `valid`, in the mean over the
 * horizon.
 *
 * BESIDE IT, in the same run: the latest value; the value a season ago; a line per column, of the
 * same lags by least squares (ridge 1, columns in deviations), fitted on `train`; and a memory per
 * column, row "signals", with the window for a key, which never stops learning. `valid` says which
 * of them to take. Errors are mean squares in deviations of `train`: of the last row of the horizon
 * and the mean over its rows. A missing value counts as the one before where it is read, and not at
 * all where it is forecast.
 *
 * Exit status: 0 done, 1 a file failed, 2 wrong arguments */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"

enum { COLUMNS = 64, FIELDS = 256, NAME = 32, SEASONS = 3, QUANTILES = 4, LONGEST = 512,
       LENGTH = 96, ROWS = 3072, PANELS = 4, WARM = 256 };

static void die(int status, const char *format, ...) {
  va_list list;
  fputs("forecast: ", stderr);
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
  exit(status);
}

static void *get(size_t count, size_t size) {
  void *p = calloc(count, size);
  if (!p) die(1, "there is not enough memory");
  return p;
}

/* Uniform in 0 .. 1. The finaliser of splitmix64 (Steele, Lea and Flood 2014). */
static double uniform(uint64_t *s) {
  uint64_t x = *s += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

typedef struct options {
  const char *file, *columns, *plot, *model;
  int horizon, lags, seasons, season[SEASONS], quantiles, steps, every, patience, seeds, first;
  int width, layers, latest;
  double quantile[QUANTILES], train, valid, test, rate, dropout;
} options;

/* ---- the table ---- */

typedef struct table {
  const char *name;
  char title[COLUMNS][NAME];
  int n, columns;
  float *x;                     /* [n, columns] in deviations, what is missing filled in          */
  unsigned char *real;          /* [n, columns] 0: missing                                        */
  double mean[COLUMNS], deviation[COLUMNS];
  int train, valid, test;       /* where these parts end                                          */
} table;

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  size_t room = 1 << 16, n = 0, got;
  char *text = (char *)malloc(room + 1);
  if (!f) die(1, "%s cannot be opened", path);
  while (text && (got = fread(text + n, 1, room - n, f)) > 0) {
    n += got;
    if (n == room) text = (char *)realloc(text, (room *= 2) + 1);
  }
  if (!text || ferror(f)) die(1, "%s cannot be read", path);
  fclose(f);
  text[n] = 0;
  return text;
}

/* The fields of the line at `at`, between commas, semicolons or tabs, in quotes or without: numbers
 * or NaN, and how many there are, 0 of an empty line; names [FIELDS][NAME], unless NULL. *end is
 * the line's end. */
static int split(const char *at, const char **end, double *field, char (*names)[NAME]) {
  const size_t length = strcspn(at, "\n");
  int n = 0;
  *end = at + length + (at[length] != 0);
  if (strspn(at, " \r") >= length) return 0;
  for (; n < FIELDS; at++) {
    const int quoted = *at == '"';
    const size_t width = strcspn(at += quoted, quoted ? "\"\n" : ",;\t\r\n");
    char *stop;
    const double x = strtod(at, &stop);
    field[n] = width && stop == at + width && x - x == 0 ? x : (double)NAN;
    if (names) snprintf(names[n], NAME, "%.*s", (int)(width < NAME ? width : NAME - 1), at);
    n++;
    at += width;
    at += strcspn(at, ",;\t\r\n");
    if (!*at || *at == '\r' || *at == '\n') break;
  }
  return n;
}

/* Is the name among those asked for, with commas between? */
static int asked(const char *list, const char *name) {
  const size_t n = strlen(name);
  while (list && *list) {
    const size_t width = strcspn(list, ",");
    if (width == n && !strncmp(list, name, n)) return 1;
    list += width + (list[width] != 0);
  }
  return 0;
}

/* Columns are the fields that are asked for, or those with numbers in half of the lines. */
static void choose(table *s, const options *o, const char *text, int *from) {
  static char names[FIELDS][NAME];
  double field[FIELDS];
  int numbers[FIELDS] = {0}, i, fields;
  const char *at, *end;
  fields = split(text, &end, field, names);
  for (at = end; *at; at = end) {
    const int n = split(at, &end, field, NULL);
    s->n += n > 0;
    for (i = 0; i < n; i++) numbers[i] += field[i] - field[i] == 0;
  }
  for (i = 0; i < fields; i++) {
    if (o->columns ? !asked(o->columns, names[i]) : 2 * numbers[i] < s->n) continue;
    if (s->columns == COLUMNS) die(1, "%s has more than %d columns; choose: columns=NAME,NAME",
                                   s->name, (int)COLUMNS);
    memcpy(s->title[s->columns], names[i], NAME);
    from[s->columns++] = i;
  }
  if (!s->columns) die(1, "%s has no such column of numbers under a line of names", s->name);
}

static void read_table(table *s, const options *o) {
  char *text = read_file(o->file);
  const char *at = strncmp(text, "\xef\xbb\xbf", 3) ? text : text + 3;   /* of UTF-8 */
  const char *end, *slash = strrchr(o->file, '/');
  int from[COLUMNS], t = 0, c;
  double field[FIELDS];
  s->name = slash ? slash + 1 : o->file;
  choose(s, o, at, from);
  s->x = (float *)get((size_t)s->n * (size_t)s->columns + 1, sizeof(float));
  split(at, &end, field, NULL);
  for (at = end; *at; at = end) {
    const int n = split(at, &end, field, NULL);
    for (c = 0; n && c < s->columns; c++)
      s->x[t * s->columns + c] = from[c] < n ? (float)field[from[c]] : (float)NAN;
    t += n > 0;
  }
  free(text);
}

/* 4000 rows: a day of 24 with two harmonics, its size another from column to column, on a wander,
 * and the third column follows the first by three rows. */
static void make_up(table *s) {
  uint64_t seed = 7;
  double wander[3] = {0, 0, 0};
  int t, c;
  s->name = "made-up", s->n = 4000, s->columns = 3;
  s->x = (float *)get(12000, sizeof(float));
  for (t = 0; t < s->n; t++)
    for (c = 0; c < 3; c++) {
      const double day = 6.283185307179586 * (t % 24) / 24;
      wander[c] = 0.95 * wander[c] + 0.5 * (uniform(&seed) + uniform(&seed) - 1);
      s->x[3 * t + c] = (float)(20 + (3 - c) * sin(day + c) + sin(2 * day) + wander[c]);
      if (c == 2 && t >= 3) s->x[3 * t + 2] += 0.5f * s->x[3 * (t - 3)];
      snprintf(s->title[c], NAME, "column %d", c + 1);
    }
}

/* A part's rows: a share of the table or, above 1, a number. */
static int part(const table *s, double x) {
  return (int)(x > 1 ? x : x * s->n + 0.5);
}

/* Fill in what is missing and bring columns to mean 0 and deviation 1 of `train`. */
static void measure(table *s, const options *o) {
  int t, c;
  s->train = part(s, o->train);
  s->valid = s->train + part(s, o->valid);
  s->test = s->valid + part(s, o->test);
  if (s->test > s->n) s->test = s->n;
  if (s->train < 2 * o->lags + 2 * o->horizon + 2 * LENGTH || s->valid >= s->test ||
      s->valid - s->train < o->horizon || s->test - s->valid < o->horizon)
    die(1, "%s has %d rows; train to %d, valid to %d, test to %d are too few for lags=%d, "
           "horizon=%d", s->name, s->n, s->train, s->valid, s->test, o->lags, o->horizon);
  s->real = (unsigned char *)get((size_t)s->n * (size_t)s->columns, 1);
  for (c = 0; c < s->columns; c++) {
    float last = 0;
    double sum = 0, squares = 0;
    for (t = 0; t < s->n; t++) {
      float *x = s->x + t * s->columns + c;
      s->real[t * s->columns + c] = *x - *x == 0;
      if (*x - *x == 0) last = *x;
      *x = last;
    }
    for (t = 0; t < s->train; t++) sum += (double)s->x[t * s->columns + c];
    s->mean[c] = sum / s->train;
    for (t = 0; t < s->train; t++) {
      const double d = (double)s->x[t * s->columns + c] - s->mean[c];
      squares += d * d;
    }
    s->deviation[c] = squares > 0 ? sqrt(squares / s->train) : 1;
    for (t = 0; t < s->n; t++) {
      float *x = s->x + t * s->columns + c;
      *x = (float)(((double)*x - s->mean[c]) / s->deviation[c]);
    }
  }
}

/* The value of a column in row t; before the first row it was the same. */
static float value(const table *s, int t, int c) {
  return s->x[(t < 0 ? 0 : t) * s->columns + c];
}

/* The window of row t: the latest value, and the differences of those before from it. */
static void window(const table *s, int t, int c, int lags, float *z) {
  int i;
  z[0] = value(s, t, c);
  for (i = 1; i < lags; i++) z[i] = value(s, t - i, c) - z[0];
}

/* ---- errors ---- */

typedef struct result {
  char name[NAME];
  double sum[2][LONGEST], count[2][LONGEST];   /* of valid and test, by the row of the horizon    */
  double inside, asked;                        /* values between the outer quantiles, and all     */
  int steps;
} result;

/* Take the forecast [horizon], in deviations, that row t made of column c. */
static void score(result *r, const table *s, int t, int c, int horizon, const float *forecast) {
  int h;
  for (h = 1; h <= horizon && t + h < s->test; h++) {
    const int to = t + h >= s->valid;
    const double d = (double)forecast[h - 1] - (double)value(s, t + h, c);
    if (t + h < s->train || !s->real[(t + h) * s->columns + c]) continue;
    r->sum[to][h - 1] += d * d, r->count[to][h - 1]++;
  }
}

/* The mean square of the last row of the horizon, and the mean over its rows. */
static double error_at(const result *r, int test, int h) {
  return r->count[test][h - 1] > 0 ? r->sum[test][h - 1] / r->count[test][h - 1] : 0;
}

static double error_mean(const result *r, int test, int horizon) {
  double sum = 0;
  int h;
  for (h = 1; h <= horizon; h++) sum += error_at(r, test, h) / horizon;
  return sum;
}

/* ---- what needs no network ---- */

/* The latest value, season 0, or the value of whole seasons ago. */
static void naive(result *r, const table *s, const options *o, int season) {
  float forecast[LONGEST];
  int t, c, h;
  if (season) snprintf(r->name, NAME, "season of %d", season);
  else snprintf(r->name, NAME, "latest value");
  for (t = s->train - o->horizon; t + 1 < s->test; t++)
    for (c = 0; c < s->columns; c++) {
      for (h = 1; h <= o->horizon; h++)
        forecast[h - 1] = value(s, season ? t + h - (h + season - 1) / season * season : t, c);
      score(r, s, t, c, o->horizon, forecast);
    }
}

/* A = L L' in place, the lower half; then A x = b for b [n, columns] in place. */
static void factor(double *a, int n) {
  int i, j, k;
  for (i = 0; i < n; i++)
    for (j = 0; j <= i; j++) {
      double sum = a[i * n + j];
      for (k = 0; k < j; k++) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = i == j ? sqrt(sum) : sum / a[j * n + j];
    }
}

static void solve(const double *a, double *b, int n, int columns) {
  int i, k, c;
  for (c = 0; c < columns; c++) {
    for (i = 0; i < n; i++) {
      for (k = 0; k < i; k++) b[i * columns + c] -= a[i * n + k] * b[k * columns + c];
      b[i * columns + c] /= a[i * n + i];
    }
    for (i = n; i-- > 0;) {
      for (k = i + 1; k < n; k++) b[i * columns + c] -= a[k * n + i] * b[k * columns + c];
      b[i * columns + c] /= a[i * n + i];
    }
  }
}

/* Lines of the lags, one for each column and row of the horizon, by least squares on `train`:
 * [columns, lags + 1, horizon], the last of the lags + 1 the offset. */
static float *fit_lines(const table *s, const options *o) {
  const int n = o->lags + 1, horizon = o->horizon;
  double *a = (double *)get((size_t)n * (size_t)n, sizeof(double));
  double *b = (double *)get((size_t)n * (size_t)horizon, sizeof(double));
  float *lines = (float *)get((size_t)s->columns * (size_t)n * (size_t)horizon, sizeof(float));
  int t, c, i, j, h;
  for (c = 0; c < s->columns; c++) {
    memset(a, 0, sizeof(double) * (size_t)n * (size_t)n);
    memset(b, 0, sizeof(double) * (size_t)n * (size_t)horizon);
    for (t = o->lags - 1; t + horizon < s->train; t++)
      for (i = 0; i < n; i++) {
        const double x = i < o->lags ? (double)value(s, t - i, c) : 1;
        for (j = 0; j <= i && j < o->lags; j++) a[i * n + j] += x * (double)value(s, t - j, c);
        if (i == o->lags) a[i * n + i] += 1;
        for (h = 0; h < horizon; h++) b[i * horizon + h] += x * (double)value(s, t + h + 1, c);
      }
    for (i = 0; i < n; i++) a[i * n + i] += 1;
    factor(a, n);
    solve(a, b, n, horizon);
    for (i = 0; i < n * horizon; i++) lines[c * n * horizon + i] = (float)b[i];
  }
  free(a), free(b);
  return lines;
}

/* forecast [horizon] = the answer of column c's lines to row t. */
static void line_says(const table *s, const options *o, const float *lines, int t, int c,
                      float *forecast) {
  const float *of = lines + c * (o->lags + 1) * o->horizon;
  int i, h;
  memcpy(forecast, of + o->lags * o->horizon, sizeof(float) * (size_t)o->horizon);
  for (i = 0; i < o->lags; i++) {
    const float x = value(s, t - i, c);
    for (h = 0; h < o->horizon; h++) forecast[h] += of[i * o->horizon + h] * x;
  }
}

static void line(result *r, const table *s, const options *o, const float *lines) {
  float forecast[LONGEST];
  int t, c;
  snprintf(r->name, NAME, "line per column");
  for (c = 0; c < s->columns; c++)
    for (t = s->train - o->horizon; t + 1 < s->test; t++) {
      line_says(s, o, lines, t, c, forecast);
      score(r, s, t, c, o->horizon, forecast);
    }
}

/* A memory for each column, which learns each window when all that it was to foresee has come. */
static void memories(result *r, const table *s, const options *o) {
  float z[LONGEST + 1], forecast[LONGEST], came[LONGEST];
  char why[256] = "";
  miras_memory_desc d;
  int t, c, h;
  snprintf(r->name, NAME, "memory per column");
  miras_memory_preset(&d, MIRAS_PRESET_SIGNALS);
  d.key_dim = o->lags + 1;
  d.value_dim = o->horizon;
  for (c = 0; c < s->columns; c++) {
    miras_memory *m = miras_memory_open(&d, NULL, why, sizeof why);
    if (!m) die(1, "%s", why);
    for (t = o->lags + o->horizon; t + 1 < s->test; t++) {
      z[o->lags] = 1;
      window(s, t - o->horizon, c, o->lags, z);
      for (h = 0; h < o->horizon; h++) came[h] = value(s, t - o->horizon + h + 1, c) - z[0];
      miras_memory_write(m, z, came, NULL);
      if (t < s->train - o->horizon) continue;
      window(s, t, c, o->lags, z);
      miras_memory_read(m, z, forecast);
      for (h = 0; h < o->horizon; h++) forecast[h] += z[0];
      score(r, s, t, c, o->horizon, forecast);
    }
    miras_close(m);
  }
}

/* ---- the network ---- */

typedef struct network {
  const table *s;
  const options *o;
  miras_model *m;
  miras_server *server;
  char *state;                  /* a column's running text                                        */
  float *best;                  /* the parameters that were best on valid                         */
  size_t params;
  const float *lines;
  int tokens, outputs;
  int32_t *token;               /* [ROWS, tokens]                                                 */
  float *vector, *value, *out;  /* [ROWS, lags], [ROWS, values], [ROWS, outputs]                  */
} network;

/* Row i of what the network reads becomes row t of column c. */
static void bring(network *w, int i, int t, int c) {
  const options *o = w->o;
  int32_t *token = w->token + i * w->tokens;
  int k;
  for (k = 0; k < o->seasons; k++) token[k] = t % o->season[k];
  if (w->s->columns > 1) token[k] = c;
  window(w->s, t, c, o->lags, w->vector + i * o->lags);
}

static void open_network(network *w, const table *s, const options *o, const float *lines,
                         int seed) {
  const miras_server_desc server = {LENGTH, 0, NULL, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                                    MIRAS_PRODUCTS_FLOAT};
  char why[256] = "", text[2 * MIRAS_PATTERN_SIZE] = "";
  miras_model_desc d;
  const miras_view *head;
  float *x;
  int i, n = 0;
  memset(w, 0, sizeof *w);
  w->s = s, w->o = o, w->lines = lines;
  if (miras_model_preset(&d, miras_preset_find(o->model), o->layers) != MIRAS_OK)
    die(2, "model=%s is no row of the table of models", o->model);
  d.vocab = 0;
  d.width = o->width, d.heads = o->width % 32 ? 1 : o->width / 32;
  d.seed = (uint64_t)seed, d.dropout = (float)o->dropout;
  for (i = 0; i < o->seasons; i++) n += snprintf(text + n, 32, "category %d, ", o->season[i]);
  if (s->columns > 1) n += snprintf(text + n, 32, "category %d, ", s->columns);
  snprintf(text + n, 32, "vector %d", o->lags);
  memcpy(d.inputs, text, sizeof d.inputs);
  n = snprintf(text, 32, "squared %d", o->horizon);
  for (i = 0; i < o->quantiles; i++)
    n += snprintf(text + n, 32, ", quantile %d at %.4g", o->horizon, o->quantile[i]);
  memcpy(d.outputs, text, sizeof d.outputs);
  w->m = miras_model_open(&d, NULL, why, sizeof why);
  w->server = miras_server_open(w->m, &server, NULL, why, sizeof why);
  if (!w->server) die(1, "%s", why);
  x = miras_model_params(w->m, &w->params);
  head = miras_model_view(w->m, "head.weight");
  memset(x + head->offset, 0, sizeof(float) * head->count);   /* it begins by adding nothing */
  w->best = (float *)get(w->params, sizeof(float));
  w->state = (char *)get(miras_model_state_size(w->m), 1);
  w->tokens = o->seasons + (s->columns > 1);
  w->outputs = miras_model_row(w->m)->outputs;
  w->token = (int32_t *)get(ROWS * (size_t)(w->tokens + 1), sizeof(int32_t));
  w->vector = (float *)get(ROWS * (size_t)o->lags, sizeof(float));
  w->value = (float *)get(ROWS * (size_t)w->outputs, sizeof(float));
  w->out = (float *)get(ROWS * (size_t)w->outputs, sizeof(float));
}

static void close_network(network *w) {
  miras_close(w->server), miras_close(w->m);
  free(w->best), free(w->state), free(w->token), free(w->vector), free(w->value), free(w->out);
}

/* Feed rows from..to-1 of a column, at most ROWS, on: w->out has what is said behind each. */
static void feed(network *w, int from, int to, int c) {
  miras_sequence rows;
  int t;
  memset(&rows, 0, sizeof rows);
  for (t = from; t < to; t++) bring(w, t - from, t, c);
  rows.state = w->state, rows.tokens = w->token, rows.vectors = w->vector;
  rows.count = rows.logit_rows = (size_t)(to - from);
  if (miras_server_feed(w->server, &rows, 1, w->out) != MIRAS_OK) die(1, "a row is refused");
}

/* What the network's answers are differences from, [horizon]. */
static void base_of(const network *w, int t, int c, float *base) {
  int h;
  if (!w->o->latest) line_says(w->s, w->o, w->lines, t, c, base);
  else for (h = 0; h < w->o->horizon; h++) base[h] = value(w->s, t, c);
}

/* What row t said, the i-th fed, as values in deviations: the forecast, and quantiles in order. */
static void said(const network *w, int i, int t, int c, float *forecast,
                 float (*quantile)[LONGEST]) {
  const float *x = w->out + i * w->outputs;
  const int horizon = w->o->horizon;
  float base[LONGEST];
  int h, q, j;
  base_of(w, t, c, base);
  for (h = 0; h < horizon; h++) {
    forecast[h] = base[h] + x[h];
    for (q = 0; q < w->o->quantiles; q++) {   /* sorted as they come: they may have crossed */
      const float y = base[h] + x[(q + 1) * horizon + h];
      for (j = q; j && quantile[j - 1][h] > y; j--) quantile[j][h] = quantile[j - 1][h];
      quantile[j][h] = y;
    }
  }
}

/* Score forecasts of rows before `to`. A column's text begins WARM rows before `train` ends. */
static void judge(network *w, result *r, int to) {
  const table *s = w->s;
  const int horizon = w->o->horizon, last = w->o->quantiles - 1;
  const int begin = s->train - horizon > WARM ? s->train - horizon - WARM : 0;
  float forecast[LONGEST], quantile[QUANTILES][LONGEST];
  int t, c, i, h;
  for (c = 0; c < s->columns; c++) {
    memset(w->state, 0, miras_model_state_size(w->m));
    for (t = begin; t + 1 < to; t += i) {
      const int end = t + LENGTH < to - 1 ? t + LENGTH : to - 1;
      feed(w, t, end, c);
      for (i = 0; t + i < end; i++) {
        if (t + i < s->train - horizon) continue;
        said(w, i, t + i, c, forecast, quantile);
        score(r, s, t + i, c, horizon, forecast);
        for (h = 1; last > 0 && h <= horizon && t + i + h < s->test; h++) {
          const float x = value(s, t + i + h, c);
          if (t + i + h < s->valid || !s->real[(t + i + h) * s->columns + c]) continue;
          r->inside += x > quantile[0][h - 1] && x <= quantile[last][h - 1], r->asked++;
        }
      }
    }
  }
}

/* A step's rows: windows of LENGTH rows at any place and column. */
static void draw_rows(network *w, int batch, uint64_t *random) {
  const table *s = w->s;
  const options *o = w->o;
  const int values = miras_model_row(w->m)->values;
  float base[LONGEST];
  int b, i, h, q, n = 0;
  for (b = 0; b < batch; b++) {
    const int most = s->train - o->horizon - LENGTH - o->lags;
    const int at = o->lags + (int)(uniform(random) * most);
    const int c = (int)(uniform(random) * s->columns);
    for (i = 0; i < LENGTH; i++, n++) {
      const int t = at + i;
      float *y = w->value + n * values;
      bring(w, n, t, c);
      base_of(w, t, c, base);
      for (h = 0; h < o->horizon; h++) {
        const int there = s->real[(t + h + 1) * s->columns + c];
        y[h] = there ? value(s, t + h + 1, c) - base[h] : (float)NAN;
        for (q = 1; q <= o->quantiles; q++) y[q * o->horizon + h] = y[h];
      }
    }
  }
}

/* Step i, from 1 on, on rows drawn anew. Returns the loss. */
static float step(network *w, miras_trainer *tr, int i, uint64_t *random) {
  const options *o = w->o;
  const miras_adamw_options how = MIRAS_ADAMW(0.1f, 1);
  const float rate = miras_schedule_cosine((uint64_t)i - 1, 50, (uint64_t)o->steps,
                                           (float)o->rate, 0.05f);
  miras_batch rows;
  float loss;
  memset(&rows, 0, sizeof rows);
  rows.batch = ROWS / LENGTH, rows.length = LENGTH;
  draw_rows(w, rows.batch, random);
  rows.tokens = w->token, rows.vectors = w->vector, rows.values = w->value;
  if (miras_trainer_loss(tr, &rows, 1, &loss) != MIRAS_OK ||
      miras_trainer_backward(tr, NULL) != MIRAS_OK ||
      miras_trainer_step(tr, &how, rate, NULL) != MIRAS_OK) die(1, "a step is refused");
  return loss;
}

/* Train until `valid` has not become better for `patience` looks; the best parameters stay. */
static void train(network *w, result *r, int seed) {
  const options *o = w->o;
  const miras_trainer_desc room = {ROWS / LENGTH, LENGTH, 0, 0, 0, NULL, NULL};
  char why[256] = "";
  miras_trainer *tr = miras_trainer_open(w->m, &room, NULL, why, sizeof why);
  uint64_t random = (uint64_t)seed;
  double least = DBL_MAX, loss = 0;
  int i, since = 0, waited = 0;
  static result look;
  if (!tr) die(1, "%s", why);
  for (i = 1; i <= o->steps && waited < o->patience; i++) {
    double now;
    loss += (double)step(w, tr, i, &random), since++;
    if (i % o->every && i < o->steps) continue;
    memset(&look, 0, sizeof look);
    judge(w, &look, w->s->valid);
    now = error_mean(&look, 0, o->horizon);
    printf("network %d, step %d: loss %.4f, valid %.4f\n", seed, i,
           loss / since, now);
    loss = 0, since = 0, waited++;
    if (!(now < least)) continue;
    least = now, waited = 0, r->steps = i;
    memcpy(w->best, miras_model_params(w->m, NULL), sizeof(float) * w->params);
  }
  memcpy(miras_model_params(w->m, NULL), w->best, sizeof(float) * w->params);
  miras_close(tr);
}

/* ---- the picture ---- */

enum { WIDE = 960, LEFT = 64, RIGHT = 940, TOP = 84, TALL = 150, APART = 190 };

typedef struct fan {
  float middle[LONGEST], quantile[QUANTILES][LONGEST];
} fan;

typedef struct axes {
  double from, to, low, high;   /* rows across, values up */
  int top;
} axes;

static double px(const axes *a, double t) {
  return LEFT + (t - a->from) / (a->to - a->from) * (RIGHT - LEFT);
}

static double py(const axes *a, double v) {
  return a->top + TALL - (v - a->low) / (a->high - a->low) * TALL;
}

/* In units of the table. */
static double unit(const table *s, int c, float x) {
  return s->mean[c] + s->deviation[c] * (double)x;
}

static void reach(axes *a, double v) {
  if (v < a->low) a->low = v;
  if (v > a->high) a->high = v;
}

/* A title, and lines at about four round numbers. */
static void svg_frame(FILE *f, const axes *a, const char *title) {
  const double raw = (a->high - a->low) / 4, ten = pow(10, floor(log10(raw))), x = raw / ten;
  const double step = ten * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
  double k;
  fprintf(f, "<text class=\"name\" x=\"%d\" y=\"%d\">", LEFT, a->top - 8);
  for (; *title; title++)
    if (*title == '<' || *title == '>' || *title == '&') fprintf(f, "&#%d;", *title);
    else fputc(*title, f);
  fputs("</text>\n", f);
  for (k = ceil(a->low / step); k * step <= a->high; k++) {
    const double y = py(a, k * step);
    fprintf(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"tick\" x=\"%d\" y=\"%.1f\">"
               "%.9g</text>\n", LEFT, y, RIGHT, LEFT - 6, y + 4, k * step + 0.0);
  }
}

/* The fan that row t made: a band between each outer pair of quantiles, and the forecast. */
static void svg_fan(FILE *f, const axes *a, const table *s, const options *o, int c, int t,
                    const fan *x) {
  const int all = o->quantiles;
  int q, h;
  for (q = 0; q < all / 2; q++) {
    fprintf(f, "<path class=\"band\" d=\"M%.1f %.1f", px(a, t), py(a, unit(s, c, value(s, t, c))));
    for (h = 1; h <= o->horizon; h++)
      fprintf(f, "L%.1f %.1f", px(a, t + h), py(a, unit(s, c, x->quantile[q][h - 1])));
    for (h = o->horizon; h >= 1; h--)
      fprintf(f, "L%.1f %.1f", px(a, t + h), py(a, unit(s, c, x->quantile[all - 1 - q][h - 1])));
    fprintf(f, "Z\"/>\n");
  }
  fprintf(f, "<path class=\"forecast\" d=\"M%.1f %.1f", px(a, t),
          py(a, unit(s, c, value(s, t, c))));
  for (h = 1; h <= o->horizon; h++)
    fprintf(f, "L%.1f %.1f", px(a, t + h), py(a, unit(s, c, x->middle[h - 1])));
  fprintf(f, "\"/>\n");
}

static const char svg_style[] =
  ".card{fill:#fff}text{font:13px system-ui,sans-serif;fill:#24292f}.head{font-size:16px;"
  "font-weight:600}.tick{font-size:11px;fill:#57606a;text-anchor:end}.name{font-weight:600}"
  ".grid{stroke:#d8dee4}.series{fill:none;stroke:#0a6ebd;stroke-width:1.6}"
  ".forecast{fill:none;stroke:#16803c;stroke-width:2;stroke-dasharray:5 3}"
  ".band{fill:#16803c;fill-opacity:.18}"
  "@media(prefers-color-scheme:dark){.card{fill:#0d1117}text{fill:#e6edf3}.tick{fill:#9da7b3}"
  ".grid{stroke:#272e37}.series{stroke:#58b0ff}.forecast{stroke:#56d364}.band{fill:#56d364}}";

/* A column's last rows, the forecast that was made `horizon` rows before the end, and the next. */
static void svg_column(FILE *f, const axes *place, const table *s, const options *o, int c,
                       const fan *two) {
  axes a = *place;
  int t, h, i, q;
  for (t = (int)a.from; t < s->n; t++) reach(&a, unit(s, c, value(s, t, c)));
  for (i = 0; i < 2; i++)
    for (h = 0; h < o->horizon; h++) {
      reach(&a, unit(s, c, two[i].middle[h]));
      for (q = 0; q < o->quantiles; q++) reach(&a, unit(s, c, two[i].quantile[q][h]));
    }
  if (!(a.high > a.low)) a.low -= 1, a.high += 1;
  svg_frame(f, &a, s->title[c]);
  svg_fan(f, &a, s, o, c, s->n - 1 - o->horizon, &two[0]);
  svg_fan(f, &a, s, o, c, s->n - 1, &two[1]);
  fprintf(f, "<path class=\"series\" d=\"");
  for (t = (int)a.from; t < s->n; t++)
    fprintf(f, "%c%.1f %.1f", t > (int)a.from ? 'L' : 'M', px(&a, t),
            py(&a, unit(s, c, value(s, t, c))));
  fprintf(f, "\"/>\n");
}

/* The forecasts of the table's last rows and of what comes next; both into a picture, the latter
 * printed. */
static void draw(network *w) {
  const table *s = w->s;
  const options *o = w->o;
  const int panels = s->columns < PANELS ? s->columns : PANELS, tall = TOP + panels * APART - 20;
  FILE *f = fopen(o->plot, "w");
  static fan two[2];
  int t, c, h, i;
  if (!f) die(1, "%s cannot be written", o->plot);
  fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
             "height=\"%d\" role=\"img\" aria-label=\"forecasts\"><title>forecasts</title>"
             "<style>%s</style>\n<rect class=\"card\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n"
             "<text class=\"head\" x=\"%d\" y=\"40\">The last rows, forecasts of them and of the "
             "next %d, with quantiles</text>\n",
          WIDE, tall, WIDE, tall, svg_style, WIDE, tall, LEFT, o->horizon);
  printf("\n%-20s next, and row %d after the last%s\n", "", o->horizon,
         o->quantiles > 1 ? ", each with its outer quantiles" : "");
  for (c = 0; c < s->columns; c++) {
    const int begin = s->n - o->horizon - WARM > 0 ? s->n - o->horizon - WARM : 0;
    memset(w->state, 0, miras_model_state_size(w->m));
    for (t = begin; t < s->n; t += i) {
      const int end = t + LENGTH < s->n ? t + LENGTH : s->n;
      feed(w, t, end, c);
      for (i = 0; t + i < end; i++) {
        const int which = t + i == s->n - 1 ? 1 : t + i == s->n - 1 - o->horizon ? 0 : -1;
        if (which < 0) continue;
        said(w, i, t + i, c, two[which].middle, two[which].quantile);
      }
    }
    printf("%-20s", s->title[c]);
    for (h = 0; h < o->horizon; h += o->horizon > 1 ? o->horizon - 1 : 1) {
      printf("  %.5g", unit(s, c, two[1].middle[h]));
      if (o->quantiles > 1)
        printf(" (%.5g .. %.5g)", unit(s, c, two[1].quantile[0][h]),
               unit(s, c, two[1].quantile[o->quantiles - 1][h]));
    }
    putchar('\n');
    if (c < panels) {
      axes a = {s->n - 1 - 4.0 * o->horizon, s->n - 1.0 + o->horizon, DBL_MAX, -DBL_MAX, TOP};
      if (a.from > s->n - 25.0) a.from = s->n - 25;
      if (a.from < 0) a.from = 0;
      a.top += c * APART;
      svg_column(f, &a, s, o, c, two);
    }
  }
  fprintf(f, "</svg>\n");
  if (fclose(f)) die(1, "%s cannot be written", o->plot);
  printf("drawn: %s\n", o->plot);
}

/* ---- reports ---- */

static void report(const table *s, const options *o, const result *r, int methods) {
  int i, best = 0;
  printf("\n%-20s %8s %8s %8s %8s\n%-20s %8s %8s %8s %8s\n", "", "valid", "", "test", "", "",
         "mean", "at end", "mean", "at end");
  for (i = 0; i < methods; i++) {
    printf("%-20s %8.4f %8.4f %8.4f %8.4f\n", r[i].name, error_mean(&r[i], 0, o->horizon),
           error_at(&r[i], 0, o->horizon), error_mean(&r[i], 1, o->horizon),
           error_at(&r[i], 1, o->horizon));
    if (error_mean(&r[i], 0, o->horizon) < error_mean(&r[best], 0, o->horizon)) best = i;
  }
  printf("\nby valid, take: %s\n\n", r[best].name);
  for (i = 0; i < methods; i++) {
    char *blank, name[NAME];
    memcpy(name, r[i].name, NAME);
    while ((blank = strchr(name, ' ')) != NULL) *blank = '-';
    printf("result job=forecast data=%s horizon=%d method=%s valid=%.4f valid_at=%.4f test=%.4f "
           "test_at=%.4f", s->name, o->horizon, name, error_mean(&r[i], 0, o->horizon),
           error_at(&r[i], 0, o->horizon), error_mean(&r[i], 1, o->horizon),
           error_at(&r[i], 1, o->horizon));
    if (r[i].steps) printf(" steps=%d", r[i].steps);
    if (r[i].asked > 0)
      printf(" inside=%.3f of=%.3g", r[i].inside / r[i].asked,
             o->quantile[o->quantiles - 1] - o->quantile[0]);
    putchar('\n');
  }
}

/* ---- the program ---- */

static int is(const char *argument, const char *name, const char **text) {
  const size_t n = strlen(name);
  if (strncmp(argument, name, n)) return 0;
  *text = argument + n;
  return 1;
}

/* Numbers with commas between into x: how many there are. */
static int numbers(const char *argument, const char *text, double *x, int count, double least,
                   double most) {
  int n = 0;
  for (;;) {
    char *end;
    if (n == count) die(2, "%s is not understood; there are more than %d", argument, count);
    x[n] = strtod(text, &end);
    if (end == text || (*end && *end != ',') || !(x[n] >= least && x[n] <= most))
      die(2, "%s is not understood; a number from %g to %g may stand there", argument, least, most);
    n++;
    if (!*end) return n;
    text = end + 1;
  }
}

static int whole(const char *argument, const char *text, int least, int most) {
  double x;
  numbers(argument, text, &x, 1, least, most);
  if (x > floor(x)) die(2, "%s is not understood; a whole number may stand there", argument);
  return (int)x;
}

static void parse_seasons(options *o, const char *argument, const char *text) {
  double x[SEASONS];
  int i;
  o->seasons = numbers(argument, text, x, SEASONS, 0, 10000);
  for (i = 0; i < o->seasons; i++) o->season[i] = (int)x[i];
  if (o->seasons == 1 && !o->season[0]) o->seasons = 0;
  for (i = 0; i < o->seasons; i++)
    if (o->season[i] < 2) die(2, "%s is not understood; seasons have 2 rows or more", argument);
}

static void parse_quantiles(options *o, const char *argument, const char *text) {
  int i;
  o->quantiles = numbers(argument, text, o->quantile, QUANTILES, 0.001, 0.999);
  for (i = 1; i < o->quantiles; i++)
    if (!(o->quantile[i] > o->quantile[i - 1])) die(2, "%s: quantiles ascend", argument);
}

static int parse_number(options *o, const char *x) {
  const char *v;
  if (is(x, "horizon=", &v)) o->horizon = whole(x, v, 1, LONGEST);
  else if (is(x, "lags=", &v)) o->lags = whole(x, v, 1, LONGEST);
  else if (is(x, "steps=", &v)) o->steps = whole(x, v, 1, 1000000);
  else if (is(x, "every=", &v)) o->every = whole(x, v, 1, 1000000);
  else if (is(x, "patience=", &v)) o->patience = whole(x, v, 1, 1000000);
  else if (is(x, "seeds=", &v)) o->seeds = whole(x, v, 1, 9);
  else if (is(x, "first=", &v)) o->first = whole(x, v, 0, 1 << 30);
  else if (is(x, "width=", &v)) o->width = whole(x, v, 8, 1024);
  else if (is(x, "layers=", &v)) o->layers = whole(x, v, 1, 64);
  else if (is(x, "rate=", &v)) numbers(x, v, &o->rate, 1, 1e-6, 1);
  else if (is(x, "dropout=", &v)) numbers(x, v, &o->dropout, 1, 0, 0.9);
  else if (is(x, "train=", &v)) numbers(x, v, &o->train, 1, 0.01, 1e8);
  else if (is(x, "valid=", &v)) numbers(x, v, &o->valid, 1, 0.01, 1e8);
  else if (is(x, "test=", &v)) numbers(x, v, &o->test, 1, 0.01, 1e8);
  else return 0;
  return 1;
}

static options parse(int count, char **arguments) {
  options o = {NULL, NULL, "forecast.svg", "gated-deltanet", 24, 0, 0, {0}, 4, 400, 50, 3, 1, 1,
               64, 2, 1, {0.05, 0.25, 0.75, 0.95}, 0.6, 0.2, 0.2, 3e-3, 0.1};
  int i;
  for (i = 1; i < count; i++) {
    const char *x = arguments[i], *v;
    if (parse_number(&o, x)) continue;
    if (is(x, "season=", &v)) parse_seasons(&o, x, v);
    else if (is(x, "quantiles=", &v)) parse_quantiles(&o, x, v);
    else if (is(x, "columns=", &v)) o.columns = v;
    else if (is(x, "plot=", &v)) o.plot = v;
    else if (is(x, "model=", &v)) o.model = v;
    else if (!strcmp(x, "from=line")) o.latest = 0;
    else if (!strcmp(x, "from=latest")) o.latest = 1;
    else if (!strcmp(x, "--help") || !strcmp(x, "-h")) {
      puts("forecast [FILE.csv] [horizon=N] [season=N[,N]] [lags=N] [columns=NAME,..] [train=X]\n"
           "  [valid=X] [test=X] [quantiles=Q,..] [steps=N] [every=N] [patience=N] [seeds=N]\n"
           "  [first=N] [from=latest or line] [model=NAME] [width=N] [layers=N] [rate=X]\n"
           "  [dropout=X] [plot=FILE.svg]");
      exit(0);
    } else if (!o.file && x[0] != '-' && !strchr(x, '=')) o.file = x;
    else die(2, "%s is not understood; the head of examples/forecast.c says what is", x);
  }
  if (!o.file && !o.seasons) o.seasons = 1, o.season[0] = 24;
  if (!o.lags) o.lags = o.seasons ? 4 * o.season[0] : 32;
  if (o.lags > LONGEST) o.lags = LONGEST;
  return o;
}

int main(int count, char **arguments) {
  const options o = parse(count, arguments);
  static result r[3 + SEASONS + 9];
  int i, methods = 0;
  float *lines;
  static table s;
  network w;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);   /* into a pipe, too, line by line */
  if (o.file) read_table(&s, &o);
  else make_up(&s);
  measure(&s, &o);
  printf("%s: %d column%s; rows 0 to %d train, to %d valid, to %d test\n", s.name, s.columns,
         s.columns > 1 ? "s" : "", s.train, s.valid, s.test);
  lines = fit_lines(&s, &o);
  naive(&r[methods++], &s, &o, 0);
  for (i = 0; i < o.seasons; i++) naive(&r[methods++], &s, &o, o.season[i]);
  line(&r[methods++], &s, &o, lines);
  memories(&r[methods++], &s, &o);
  for (i = 0; i < o.seeds; i++, methods++) {
    snprintf(r[methods].name, NAME, "network %d", o.first + i);
    open_network(&w, &s, &o, lines, o.first + i);
    if (!i) printf("network: %u parameters\n", (unsigned)w.params);
    train(&w, &r[methods], o.first + i);
    judge(&w, &r[methods], s.test);
    if (i == o.seeds - 1) draw(&w);
    close_network(&w);
  }
  report(&s, &o, r, methods);
  free(s.x), free(s.real), free(lines);
  return 0;
}
