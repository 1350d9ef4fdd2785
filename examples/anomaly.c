/* anomaly.c: a memory watches a sensor: it forecasts each sample, and says how surprised it was.
 *
 *     cc -O2 examples/anomaly.c -o anomaly -lm
 *     ./anomaly FILE                    the last column of a CSV or text file, or raw numbers
 *     ./anomaly FILE inject=0.1         the same with anomalies put in, and how well they are found
 *     ./anomaly FILE labels             rows of numbers, the last of which says 1 for an anomaly;
 *                                       a run of such rows is one event
 *     ./anomaly --help                  says this in short
 *     ./anomaly                         a made-up series of 8000 samples (a day of 24, see make_up)
 *     sh examples/data.sh anomaly data  fetches the series that bench/results/jobs.md is about
 *
 *     column=NAME or 1, 2, ..           which column of a CSV file
 *     lags=32                           how many samples the forecast looks back at
 *     seeds=3  first=1                  how often anomalies are put in, and where the seeds begin
 *     watch=all or error                errors with size, novelty, repeats and spread, or errors
 *                                       alone; all where a single series is labelled, else error
 *     plot=FILE.svg                     a picture: the series, the worst alarm, the scores
 *     --scores FILE.csv                 a row a sample: time, value, score, probability, alarm
 *
 * Files that end in .u16, .s16 or .f32 are raw numbers of this machine's byte order.
 *
 * THE WATCHER is one memory (row "rls", as it comes) and encoders.h: the key holds the latest
 * sample and the differences of the last `lags`, in running deviations, the value what comes next;
 * and, as a second value, how large the error of that will be. The answer comes before the sample
 * is learnt. The score is the error beside what is usual (miras_encode_error), over the cube root
 * of the size that was expected. The memory learns of a wild sample only as much as the usual
 * errors allow (miras_encode_error_bound), so as not to be ruined. Rows of several numbers are keys
 * and values side by side; their scores add up as log(1 + score^2).
 *
 * EVIDENCE adds up where all is watched, for long unusual stretches. In nats:
 *   size       log(1 + e^2) / 2 + log(1 + z^2) / 2, e the error beside the usual one, z the sample
 *              in deviations of the last 1000: -log of Cauchy's density, whose tails are heavy
 *   novelty    how far out e and z are in the tail of their own side (tail_step). That alone makes
 *              much of a new low that is tiny in units of the series where highs are large, so it
 *              counts by how far the sample is beyond all seen before: half at 0.3 deviations, or
 *              where the error is by 5 usual ones
 *   stuck      how long it has repeated itself, by the tail
 *   spread     errors of the last 8 beside those of the last 300, by the tail; half, for size has
 *              counted each of them
 * The last two have to be less likely by the share of the variance that errors have. A sample that
 * has less than the highest of the last 30 or so belongs to that alarm: its score falls off by the
 * difference. This is for events that are rare. Where each of their samples shall be marked, and
 * where faults are short in a series that is forecast well, or a tenth of it, take watch=error. In
 * noise without a pattern whose spikes nothing foretells (costs, speeds, loads: Numenta's real
 * files) a running z-score finds as many events by far less, and on those files that were held out
 * a few more: see bench/results/public.md.
 *
 * BASELINES, in the same run: the sample before (persistence); an exponential average (1/10); a
 * running z-score over 1000 samples; recursive least squares on the same lags in double, forgetting
 * .999 and .9998, scored by the size of its error as it is or over its root mean square of the last
 * 30, 100 or 1000 samples.
 *
 * SCORED are the last two thirds. Everything learns from the first sample on and never stops; what
 * is chosen (lags, horizons, powers) was chosen on made-up series and on the first thirds of two;
 * what watch=all is made of, on made-up series and on five real ones with stretches put in, on two
 * blood pressures and on eight of Numenta's.
 * `error` is the mean square of the forecasts' errors by the variance.
 *
 * ANOMALIES are put in one kind at a time, with a gap of 60 to 180 samples between two, and sizes
 * from a quarter to the whole of inject=A, in deviations of the first third:
 *   spike      one sample is off by the size, up or down
 *   shift      8 to 24 samples are off by the size
 *   frozen     8 to 24 samples repeat the one before
 *   noise      8 to 24 samples have noise of that deviation added
 *   reversed   8 to 24 samples are in reverse order
 * An anomaly's score is the highest of its samples; the lags + 2 samples behind it are not scored.
 * All other samples are one by one what should not be alarmed. The table has the average precision
 * of ranking these by their scores: 1 where all anomalies come first. With labels there are two:
 * `found` is that of events (a run of labels is one, found by its highest sample; false alarms are
 * counted outside of them, sample by sample), `sample` that where each labelled sample is an event.
 *
 * Nothing is allocated after the set-up. Exit status: 0 done, 1 a file failed, 2 wrong arguments */
#define _POSIX_C_SOURCE 200809L
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "encoders.h"

enum { CHANNELS = 16, KEYS = MIRAS_ENCODER_LAGS + 1, KINDS = 5, SEEDS = 99, RANKED = 10 };

static void die(int status, const char *format, ...) {
  va_list list;
  fputs("anomaly: ", stderr);
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

/* Uniform in 0 .. 1, and normal. The finaliser of splitmix64 (Steele, Lea and Flood 2014). */
static double uniform(uint64_t *s) {
  uint64_t x = *s += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0;
}

static double normal(uint64_t *s) {
  const double u = uniform(s) + 1e-300, v = uniform(s);
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- series ---- */

typedef struct series {
  const char *name;
  float *x;              /* [n, channels] */
  unsigned char *label;  /* [n], or NULL */
  int n, channels, from; /* scored are the samples from here on */
  double mean[CHANNELS], deviation[CHANNELS];   /* of the samples before */
} series;

typedef struct options {
  const char *file, *column, *plot, *scores;
  int lags, seeds, first, labels;
  int all;                /* level, spread and repeats are watched, too; -1: not said */
  double inject;
} options;

static char *read_file(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rb");
  size_t room = 1 << 16, n = 0, got;
  char *text = (char *)malloc(room);
  if (!f) die(1, "%s cannot be opened", path);
  while (text && (got = fread(text + n, 1, room - n, f)) > 0) {
    n += got;
    if (n == room) text = (char *)realloc(text, room *= 2);
  }
  if (!text || ferror(f)) die(1, "%s cannot be read", path);
  fclose(f);
  if (n == room) text = (char *)realloc(text, room + 1);
  if (!text) die(1, "there is not enough memory");
  text[n] = 0;
  *bytes = n;
  return text;
}

static int ends(const char *text, const char *with) {
  const size_t n = strlen(text), m = strlen(with);
  return n >= m && !strcmp(text + n - m, with);
}

static void read_raw(series *s, const char *path, const char *data, size_t bytes) {
  const size_t size = ends(path, ".f32") ? 4 : 2;
  int i;
  if (bytes / size > INT_MAX / 2) die(1, "%s is too long", path);
  s->n = (int)(bytes / size);
  s->channels = 1;
  s->x = (float *)get((size_t)s->n + 1, sizeof(float));
  for (i = 0; i < s->n; i++) {
    if (size == 4) {
      memcpy(s->x + i, data + 4 * (size_t)i, 4);
    } else {
      uint16_t u;
      memcpy(&u, data + 2 * (size_t)i, 2);
      s->x[i] = ends(path, ".s16") && u > 32767 ? (float)u - 65536 : (float)u;
    }
  }
}

/* The fields of the line at `at`, between commas, semicolons and tabs where it has any and else
 * between blanks: numbers, NaN for what is none, and how many there are. *end is the line's end.
 * *which becomes the number of the field called `name`, from 1. */
static int split(const char *at, const char **end, double *field, int most, const char *name,
                 int *which) {
  const size_t length = strcspn(at, "\n");
  const char *between = strcspn(at, ",;\t") < length ? ",;\t\r\n" : " \r\n";
  int n = 0;
  *end = at + length + (at[length] != 0);
  for (;;) {
    const size_t width = strcspn(at, between);
    char *stop;
    const double x = strtod(at, &stop);
    if (width || *between != ' ') {
      if (n < most) field[n] = width && stop == at + width ? x : (double)NAN;
      n++;
      if (name && strlen(name) == width && !strncmp(at, name, width)) *which = n;
    }
    at += width;
    if (!*at || *at == '\r' || *at == '\n') return n < most ? n : most;
    at++;
  }
}

/* A CSV file or numbers with blanks between. Lines before the first number are a head; later on,
 * what is no number is a missing sample. */
static void read_text(series *s, const options *o, const char *text) {
  enum { MOST = 256 };
  double field[MOST];
  const char *at, *end;
  char *behind = NULL;
  const long asked = o->column ? strtol(o->column, &behind, 10) : 0;
  const char *name = behind && *behind ? o->column : NULL;   /* which may begin with a digit */
  int which = name || asked < 1 || asked > MOST ? 0 : (int)asked, columns = 0, lines = 0, c;
  for (at = text; *at; at = end, lines++) {
    const int n = split(at, &end, field, MOST, name, &which);
    if (which) name = NULL;
    if (n > columns) columns = n;
  }
  if (o->column && (which < 1 || which > columns))
    die(1, "%s has no column %s", o->file, o->column);
  s->channels = o->labels ? columns - 1 : 1;
  if (s->channels < 1 || s->channels > CHANNELS)
    die(1, "%s has %d columns; 1 to %d and the label are read", o->file, columns, CHANNELS);
  s->x = (float *)get((size_t)lines * (size_t)s->channels + 1, sizeof(float));
  if (o->labels) s->label = (unsigned char *)get((size_t)lines + 1, 1);
  for (at = text; *at; at = end) {
    const int n = split(at, &end, field, MOST, NULL, NULL);
    float *x = s->x + (size_t)s->n * (size_t)s->channels;
    int good = 0;
    for (c = 0; c < s->channels; c++) {
      const int from = o->labels ? c : (which ? which : columns) - 1;
      x[c] = from < n ? (float)field[from] : (float)NAN;
      good += x[c] - x[c] == 0;
    }
    if (!good && (!s->n || n == 0)) continue;
    if (o->labels) s->label[s->n] = n > s->channels && field[s->channels] > 0;
    s->n++;
  }
}

/* 8000 samples: waves of 24 and 12 samples, a slow wander, and noise that is four times as loud in
 * two fifths of the day. */
static void make_up(series *s) {
  uint64_t seed = 7;
  double wander = 0;
  int t;
  s->n = 8000;
  s->channels = 1;
  s->x = (float *)get((size_t)s->n, sizeof(float));
  for (t = 0; t < s->n; t++) {
    const double day = t % 24 / 24.0, loud = day > 0.4 && day < 0.8 ? 0.08 : 0.02;
    wander = 0.98 * wander + 0.05 * normal(&seed);
    s->x[t] = (float)(sin(6.283185307179586 * day) + 0.3 * sin(12.566370614359172 * day + 1) +
                      wander + loud * normal(&seed));
  }
}

static void measure(series *s) {
  int c, t;
  s->from = s->n / 3;
  for (c = 0; c < s->channels; c++) {
    miras_encoder_scale all;
    memset(&all, 0, sizeof all);
    for (t = 0; t < s->from; t++) miras_encode_standard_learn(&all, s->x[t * s->channels + c]);
    s->mean[c] = all.mean;
    s->deviation[c] = all.variance > 0 ? sqrt(all.variance) : 1;
  }
}

static void open_series(series *s, const options *o) {
  memset(s, 0, sizeof *s);
  s->name = o->file ? o->file : "made-up";
  if (!o->file) {
    make_up(s);
  } else {
    size_t bytes;
    char *data = read_file(o->file, &bytes);
    const char *slash = strrchr(o->file, '/');
    if (slash) s->name = slash + 1;
    if (ends(o->file, ".u16") || ends(o->file, ".s16") || ends(o->file, ".f32"))
      read_raw(s, o->file, data, bytes);
    else read_text(s, o, data);
    free(data);
  }
  if (s->n < 1000) die(1, "%s has %d samples; 1000 are the least", s->name, s->n);
  measure(s);
}

/* ---- how unusual a statistic is by its own history ---- */

/* The upper tail of a statistic: beyond a quantile its logarithm is taken as exponential, as its
 * largest values are (Hill 1975). A stretch above the quantile counts once. */
typedef struct tail {
  double quantile, mean, spread, excess;   /* all of logarithms; excess: the mean one above */
  double above, begun;                     /* shares: samples above, stretches that begin */
  int seen, was_above;
} tail;

static const double tail_share = 1.0 / 16, tail_horizon = 5000, least_excess = 0.05;

static double mix(double old, double now, double weight) { return old + weight * (now - old); }

/* A sample of the statistic, of logarithm y, has come. Returns how unlikely as much or more of it
 * was among those of the tail, as -log (below the tail: 0), and then learns it. An excess counts as
 * the usual one at most, for anomalies are to stay unusual; the usual one is `least` or more. */
static double tail_step(tail *t, double y, double least) {
  const double share = tail_share, horizon = tail_horizon, kept = 1 - exp(-1.0);
  const double w = t->seen < horizon ? 1.0 / (t->seen + 1) : 1 / horizon;
  const int above = y > t->quantile;
  double surprise = 0;
  if (!t->seen++) {
    t->quantile = t->mean = y, t->spread = 1, t->excess = 0.3;
    return 0;
  }
  if (above) {
    const double more = y - t->quantile, most = more < t->excess ? more : t->excess;
    const double length = t->begun > 0 ? t->above / t->begun : 1;
    surprise = more / t->excess - (t->seen > 100 && length > 1 ? log(length) : 0);
    t->excess = mix(t->excess, most / kept, w / share < 0.2 ? w / share : 0.2);
    if (t->excess < least) t->excess = least;
  }
  t->above = mix(t->above, above, w);
  t->begun = mix(t->begun, above && !t->was_above, w);
  t->was_above = above;
  t->quantile += (w < 0.1 ? 3 * w : 0.3) * t->spread * (above - share);
  t->spread = mix(t->spread, fabs(y - t->mean), w);
  t->mean = mix(t->mean, y, w);
  return surprise;
}

/* The least and the largest number so far, drawn slowly to the middle. */
typedef struct range {
  double low, high;
  int seen;
} range;

/* How far x is beyond all seen before; then it is learnt. */
static double range_step(range *r, double x, double middle) {
  const double beyond = r->seen ? fmax(x - r->high, r->low - x) : 0;
  r->low = mix(r->seen++ ? fmin(x, r->low) : x, middle, 1 / tail_horizon);
  r->high = mix(r->seen > 1 ? fmax(x, r->high) : x, middle, 1 / tail_horizon);
  return fmax(0, beyond);
}

/* ---- the watcher ---- */

/* The views of a channel have a history each: errors up and down, how far the sample is above or
 * below the mean, how long it has repeated itself, the spread of late. */
enum { UP, DOWN, HIGH, LOW, STUCK, SPREAD, VIEWS };

typedef struct channel {
  miras_encoder_window window;
  miras_encoder_scale level, step;
  miras_encoder_error error;
  /* from here on of those that watch all: */
  double spread_now, spread_usual;   /* means of the logarithms of errors, over 8 and 300 */
  range samples, errors;
  double lately;                     /* the highest sum of the last 30 or so */
  int repeats;
  tail view[VIEWS];
} channel;

typedef struct watcher {
  miras_memory *memory;
  size_t bytes;           /* of the memory and of what else the watcher keeps */
  int channels, lags, keys, seen;
  int all;                /* not the errors alone */
  channel at[CHANNELS];
} watcher;

/* All that concerns the memory: a row of the table, as it comes, in a buffer of its own. */
static void *watcher_open(watcher *w, int channels, int lags, int all, void *buffer) {
  miras_memory_desc d;
  char why[256];
  size_t bytes;
  int c;
  memset(w, 0, sizeof *w);
  memset(&d, 0, sizeof d);
  miras_memory_preset(&d, MIRAS_PRESET_RLS);
  w->channels = channels, w->lags = lags, w->keys = channels * lags + 1, w->all = all;
  d.key_dim = w->keys;
  d.value_dim = 2 * channels;
  bytes = miras_memory_size(&d, why, sizeof why);
  if (!bytes) die(2, "%s", why);
  if (!buffer) buffer = get(bytes, 1);
  w->memory = miras_memory_init(buffer, bytes, &d, why, sizeof why);
  if (!w->memory) die(1, "%s", why);
  w->bytes = bytes + offsetof(watcher, at) +
             (size_t)channels * (all ? sizeof(channel) : offsetof(channel, spread_now));
  for (c = 0; c < channels; c++) {
    w->at[c].window.lags = lags;
    w->at[c].level.clip = w->at[c].step.clip = 8;
    w->at[c].level.horizon = w->at[c].step.horizon = 1000;   /* as the memory: 1 / decay_rate */
  }
  return buffer;
}

static float deviation_of(const miras_encoder_scale *s) {
  const float deviation = (float)miras_encode_deviation(s);
  return deviation > 0 ? deviation : 1;
}

static void watcher_key(const watcher *w, float *key) {
  int c, i;
  for (c = 0; c < w->channels; c++) {
    const channel *one = &w->at[c];
    const float step = deviation_of(&one->step), last = miras_encode_window_at(&one->window, 0);
    *key++ = (last - (float)one->level.mean) / deviation_of(&one->level);   /* as it is: linear */
    for (i = 1; i < w->lags; i++)
      *key++ = (miras_encode_window_at(&one->window, i - 1) -
                miras_encode_window_at(&one->window, i)) / step;
  }
  *key = 1;
}

static float within(float x, float low, float high) { return x < low ? low : x > high ? high : x; }

/* The sum of what speaks for an anomaly, in nats; score: the error's size beside the usual one,
 * signed. See EVIDENCE above. */
static double evidence(channel *one, float x, double score) {
  const double none = log(1e-6), size = fmin(fabs(score), 1e30), error = log(size + 1e-12);
  const double deviation = (double)deviation_of(&one->level), n = one->view[UP].seen + 1.0;
  const double z = ((double)x - one->level.mean) / deviation, far = log(fabs(z) + 1e-12);
  const double beyond = range_step(&one->samples, (double)x, one->level.mean) / deviation;
  const double outside =
    n > 100 ? range_step(&one->errors, score < 0 ? -size : size, 0) : 0;
  const double novel = fmax(beyond / (beyond + 0.3), outside / (outside + 5));
  const double step = (double)(miras_encode_error_usual(&one->error) * deviation_of(&one->step));
  const double forecast = step > 0 && deviation > step ? 2 * log(deviation / step) : 0;
  const double now = log(size + 0.1);
  const double least = least_excess, once = 0.3;   /* one more repeat than ever is no event */
  double found[VIEWS], sum;
  one->spread_now = mix(one->spread_now, now, n < 8 ? 1 / n : 1.0 / 8);
  one->spread_usual = mix(one->spread_usual, now, n < 300 ? 1 / n : 1.0 / 300);
  one->repeats = x == miras_encode_window_at(&one->window, 0) ? one->repeats + 1 : 0;
  found[UP] = tail_step(&one->view[UP], score > 0 ? error : none, least);
  found[DOWN] = tail_step(&one->view[DOWN], score < 0 ? error : none, least);
  found[HIGH] = tail_step(&one->view[HIGH], z > 0 ? far : none, least);
  found[LOW] = tail_step(&one->view[LOW], z < 0 ? far : none, least);
  found[STUCK] = tail_step(&one->view[STUCK], log(1.0 + one->repeats), once);
  found[SPREAD] = tail_step(&one->view[SPREAD], one->spread_now - one->spread_usual, least);
  sum = 0.5 * (log(1 + size * size) + log(1 + z * z)) +
        novel * (fmax(0, fmax(found[UP], found[DOWN])) + fmax(0, fmax(found[HIGH], found[LOW]))) +
        fmax(0, found[STUCK] - forecast) + 0.5 * fmax(0, found[SPREAD] - forecast);
  one->lately *= 1 - 1.0 / 30;
  if (sum <= one->lately) return sum * exp(sum - one->lately);
  return one->lately = sum;
}

/* Judge a channel's answer by the sample x. next: what the memory shall learn; size: what it shall
 * learn of the error's size. Returns the channel's part of the score. */
static double judge(channel *one, int all, float x, float answer, float expected, float *next,
                    float *size) {
  const float last = miras_encode_window_at(&one->window, 0);
  const float bound = miras_encode_error_bound(&one->error);
  const float usual = miras_encode_error_usual(&one->error);
  const float error = (x - last) / deviation_of(&one->step) - answer;
  double score;
  *next = answer, *size = expected;
  if (!(error - error == 0)) return 0;   /* a missing sample */
  score = (double)miras_encode_error(&one->error, error) /
          cbrt((double)within(expected, 0.1f, 4));
  *next = answer + within(error, -bound, bound);
  *size = usual > 0 ? within(fabsf(error), 0, bound) / usual : 1;
  return all ? evidence(one, x, error < 0 ? -score : score) : log(1 + score * score);
}

/* A row of numbers has come. forecast[channels] receives what was expected of it; returns the
 * score: the error beside the usual one (1: as usual) or, where all is watched, the evidence, a
 * mean of the channels. The first 2 lags rows only find out how large numbers are. */
static float watcher_step(watcher *w, const float *x, float *forecast) {
  float key[KEYS + 1], answer[2 * CHANNELS], value[2 * CHANNELS];
  const int n = w->channels;
  const int learning = w->seen >= 2 * w->lags;
  double score = 0;
  int c;
  memset(answer, 0, sizeof answer);
  if (learning) {
    watcher_key(w, key);
    miras_memory_read(w->memory, key, answer);
  }
  for (c = 0; c < n; c++) {
    channel *one = &w->at[c];
    const float last = miras_encode_window_at(&one->window, 0);
    forecast[c] = last + answer[c] * deviation_of(&one->step);
    if (learning)
      score += judge(one, w->all, x[c], answer[c], answer[n + c], &value[c], &value[n + c]);
    if (w->seen) miras_encode_standard_learn(&one->step, x[c] - last);
    miras_encode_standard_learn(&one->level, x[c]);
    miras_encode_window_push(&one->window, x[c]);
  }
  if (learning) miras_memory_write(w->memory, key, value, NULL);
  w->seen++;
  return (float)(w->all ? score / n : sqrt(exp(score / n) - 1));
}

/* ---- baselines: forecasts in deviations from the mean of the first third ---- */

/* Recursive least squares on the same lags: P the inverse of the correlations, W [keys, channels]
 * the weights. */
typedef struct squares {
  double *p, *pk, *key, *w;
  int keys, channels, lags;
} squares;

static size_t squares_bytes(int keys, int channels) {
  return sizeof(double) * (size_t)(keys * keys + 2 * keys + keys * channels);
}

static void squares_open(squares *q, int channels, int lags, void *buffer) {
  int i;
  q->channels = channels, q->lags = lags, q->keys = channels * lags + 1;
  memset(buffer, 0, squares_bytes(q->keys, channels));
  q->p = (double *)buffer;
  q->pk = q->p + q->keys * q->keys;
  q->key = q->pk + q->keys;
  q->w = q->key + q->keys;
  q->key[q->keys - 1] = 1;
  for (i = 0; i < q->keys; i++) q->p[i * q->keys + i] = 100;
}

/* Before the first sample the series counts as having stood still. */
static void squares_stand(squares *q, const double *x) {
  int i;
  for (i = 0; i < q->keys - 1; i++) q->key[i] = x[i % q->channels];
}

/* error[channels] of forecasting x by the key; then x is learnt and becomes the latest lag. */
static void squares_step(squares *q, const double *x, double forget, double *error) {
  const int n = q->keys, m = q->channels;
  double *p = q->p, *pk = q->pk, *k = q->key, s = forget;
  int i, j, c;
  for (i = 0; i < n; i++) {
    double sum = 0;
    for (j = 0; j < n; j++) sum += p[i * n + j] * k[j];
    pk[i] = sum;
    s += sum * k[i];
  }
  for (c = 0; c < m; c++) {
    error[c] = x[c];
    for (i = 0; i < n; i++) error[c] -= q->w[i * m + c] * k[i];
  }
  for (i = 0; i < n; i++) {
    for (c = 0; c < m; c++) q->w[i * m + c] += pk[i] / s * error[c];
    for (j = 0; j <= i; j++)
      p[i * n + j] = p[j * n + i] = (p[i * n + j] - pk[i] * pk[j] / s) / forget;
  }
  memmove(k + m, k, sizeof(double) * (size_t)(m * (q->lags - 1)));
  memcpy(k, x, sizeof(double) * (size_t)m);
}

enum { PERSISTENCE, AVERAGE, SQUARES, WATCHER };

/* A method: a forecaster, its number, and the horizon of the root mean square that its errors are
 * divided by (0: none). One after the other with the same forecaster and number share their run. */
static const struct method {
  const char *name;
  int forecaster;
  double number;
  int horizon;
} methods[] = {
  {"persistence", PERSISTENCE, 0, 0},       {"average", AVERAGE, 0.1, 0},
  {"z-score", AVERAGE, 0.001, 1000},        {"rls.999", SQUARES, 0.999, 0},
  {"rls.999/30", SQUARES, 0.999, 30},       {"rls.999/100", SQUARES, 0.999, 100},
  {"rls.999/1000", SQUARES, 0.999, 1000},   {"rls.9998", SQUARES, 0.9998, 0},
  {"rls.9998/30", SQUARES, 0.9998, 30},     {"rls.9998/100", SQUARES, 0.9998, 100},
  {"rls.9998/1000", SQUARES, 0.9998, 1000}, {"memory", WATCHER, 0, 0}};
enum { METHODS = sizeof methods / sizeof methods[0], MEMORY = METHODS - 1 };

/* All arrays, allocated once. */
typedef struct desk {
  float *x;               /* [n, channels] with anomalies */
  float *error;           /* [n, channels] of a forecaster, in deviations */
  float *score;           /* [n] */
  float *forecast;        /* [n] of the first channel, by the watcher */
  int *mark;              /* [n] 0: scored; 1, 2, ..: an anomaly; -1: not scored */
  struct item *item;      /* [n] */
  float *best;            /* [n] */
  void *memory, *squares; /* buffers */
  size_t watcher_bytes;
  int all;                /* what the watcher watches: see watcher */
} desk;

static void run_watcher(desk *k, const series *s, const float *x, int lags, float *score) {
  watcher w;
  float forecast[CHANNELS];
  int t, c;
  watcher_open(&w, s->channels, lags, k->all, k->memory);
  for (t = 0; t < s->n; t++) {
    const float *row = x + t * s->channels;
    score[t] = watcher_step(&w, row, forecast);
    for (c = 0; c < s->channels; c++)
      k->error[t * s->channels + c] = (float)((double)(row[c] - forecast[c]) / s->deviation[c]);
    k->forecast[t] = forecast[0];
  }
  k->watcher_bytes = w.bytes;
}

static void run_squares(desk *k, const series *s, const float *x, int lags, double forget) {
  double row[CHANNELS], error[CHANNELS], last[CHANNELS] = {0};
  squares q;
  int t, c;
  squares_open(&q, s->channels, lags, k->squares);
  for (t = 0; t < s->n; t++) {
    for (c = 0; c < s->channels; c++) {
      const double z = ((double)x[t * s->channels + c] - s->mean[c]) / s->deviation[c];
      row[c] = z - z == 0 ? z : last[c];
      last[c] = row[c];
    }
    if (!t) squares_stand(&q, row);
    squares_step(&q, row, forget, error);
    for (c = 0; c < s->channels; c++) k->error[t * s->channels + c] = (float)error[c];
  }
}

/* Persistence is an average whose weight of the latest sample is 1. */
static void run_average(desk *k, const series *s, const float *x, double weight) {
  double average[CHANNELS] = {0};
  int t, c;
  for (t = 0; t < s->n; t++) {
    for (c = 0; c < s->channels; c++) {
      const double z = ((double)x[t * s->channels + c] - s->mean[c]) / s->deviation[c];
      const double error = z - z == 0 ? z - average[c] : 0;
      k->error[t * s->channels + c] = (float)error;
      average[c] += (t && weight < 1 ? weight : 1) * error;
    }
  }
}

/* Scores of errors: their length, by channel over a running root mean square or not. */
static void score_errors(const desk *k, const series *s, int horizon, float *score) {
  double square[CHANNELS] = {0};
  int t, c;
  for (t = 0; t < s->n; t++) {
    const double n = t + 1.0, w = n < horizon ? 1 / n : 1.0 / (horizon ? horizon : 1);
    double sum = 0;
    for (c = 0; c < s->channels; c++) {
      const double e = (double)k->error[t * s->channels + c];
      sum += horizon ? e * e / (square[c] > 0 ? square[c] : 1) : e * e;
      square[c] += w * (e * e - square[c]);
    }
    score[t] = (float)sqrt(sum);
  }
}

/* Run a method over x unless the one before has left its errors. */
static void run_method(desk *k, const series *s, const float *x, int lags, int m, float *score) {
  const struct method *it = &methods[m];
  const int same = m && it[-1].forecaster == it->forecaster && it[-1].number == it->number;
  if (it->forecaster == WATCHER) {
    run_watcher(k, s, x, lags, score);
    return;
  }
  if (!same && it->forecaster == SQUARES) run_squares(k, s, x, lags, it->number);
  else if (!same) run_average(k, s, x, it->forecaster == PERSISTENCE ? 1 : it->number);
  score_errors(k, s, it->horizon, score);
}

/* ---- anomalies, and how well scores tell them ---- */

static const char *const kinds[KINDS + 1] = {"spike", "shift", "frozen", "noise", "reversed",
                                             "mixed"};

/* Put anomalies of a kind (KINDS: of all in turn) into x and mark them. Returns how many. */
static int inject(desk *k, const series *s, const options *o, int kind, int seed) {
  uint64_t r = (uint64_t)seed * 1000003 + (uint64_t)kind * 7919;
  const int echo = o->lags + 2;
  int t, i, events = 0;
  memcpy(k->x, s->x, sizeof(float) * (size_t)s->n);
  memset(k->mark, 0, sizeof(int) * (size_t)s->n);
  for (i = 0; i < 5; i++) uniform(&r);
  t = s->from + 60 + (int)(120 * uniform(&r));
  for (;;) {
    const int what = kind < KINDS ? kind : events % KINDS;
    const int n = what == 0 ? 1 : 8 + (int)(17 * uniform(&r));
    const double sign = uniform(&r) < 0.5 ? -1 : 1;
    const double size = o->inject * s->deviation[0] * (0.25 + 0.75 * uniform(&r));
    if (t + n + echo >= s->n) return events;
    events++;
    for (i = 0; i < n; i++) {
      float *x = &k->x[t + i];
      k->mark[t + i] = events;
      switch (what) {
        case 2: *x = s->x[t - 1]; break;
        case 3: *x += (float)(size * normal(&r)); break;
        case 4: *x = s->x[t + n - 1 - i]; break;
        default: *x += (float)(sign * size);
      }
    }
    for (i = 0; i < echo; i++) k->mark[t + n + i] = -1;
    t += n + 60 + (int)(120 * uniform(&r));
  }
}

typedef struct item {
  float score;
  int good;
} item;

static int by_score(const void *a, const void *b) {
  const float x = ((const item *)a)->score, y = ((const item *)b)->score;
  return (x < y) - (x > y);
}

/* Average precision: anomalies by their highest sample among all others. Equal scores share their
 * place. */
static double precision(desk *k, const series *s, const float *score, int events) {
  double sum = 0;
  int t, n = 0, hits = 0, i, j;
  for (i = 0; i <= events; i++) k->best[i] = -1;
  for (t = s->from; t < s->n; t++) {
    const int mark = k->mark[t];
    if (mark > 0 && score[t] > k->best[mark]) k->best[mark] = score[t];
    if (mark == 0) k->item[n].score = score[t], k->item[n++].good = 0;
  }
  for (i = 1; i <= events; i++) k->item[n].score = k->best[i], k->item[n++].good = 1;
  qsort(k->item, (size_t)n, sizeof(item), by_score);
  for (i = 0; i < n; i = j) {
    int good = 0;
    for (j = i; j < n && k->item[j].score == k->item[i].score; j++) good += k->item[j].good;
    hits += good;
    sum += (double)good * hits / j;
  }
  return events ? sum / events : 0;
}

/* The mean square of errors by the variance of what is forecast, of the scored part. */
static double mean_square(const desk *k, const series *s) {
  double sum = 0;
  int t, c;
  for (c = 0; c < s->channels; c++) {
    miras_encoder_scale all;
    double error = 0;
    memset(&all, 0, sizeof all);
    for (t = s->from; t < s->n; t++) {
      const double e = (double)k->error[t * s->channels + c];
      miras_encode_standard_learn(&all, s->x[t * s->channels + c]);
      error += e - e == 0 ? e * e : 0;
    }
    if (all.variance > 0)
      sum += error / all.seen / (all.variance / (s->deviation[c] * s->deviation[c]));
  }
  return sum / s->channels;
}

/* An alarm is a score above this: what one in a thousand of the first third's scores was. */
static float threshold(desk *k, const series *s, const float *score) {
  int t, n = 0;
  for (t = s->from / 10; t < s->from; t++) k->item[n].score = score[t], k->item[n++].good = 0;
  qsort(k->item, (size_t)n, sizeof(item), by_score);
  return k->item[n / 1000].score;
}

/* ---- the picture ---- */

enum { WIDE = 960, TALL = 640, LEFT = 64, RIGHT = 940 };

typedef struct axes {
  double from, to, low, high;   /* samples across, values up */
  int top, bottom;
} axes;

static double px(const axes *a, double t) {
  return LEFT + (t - a->from) / (a->to - a->from) * (RIGHT - LEFT);
}

static double py(const axes *a, double v) {
  return a->bottom - (v - a->low) / (a->high - a->low) * (a->bottom - a->top);
}

/* A title, and lines at about four round numbers; logarithms: at 1, 3, 10, 30 and so on. */
static void svg_frame(FILE *f, const axes *a, const char *title, int logarithmic) {
  const double raw = (a->high - a->low) / 4, unit = pow(10, floor(log10(raw))), x = raw / unit;
  const double step = logarithmic ? 0.5 : unit * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
  double k;
  fprintf(f, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n", LEFT, a->top - 8, title);
  for (k = ceil(a->low / step); k * step <= a->high; k++) {
    const double y = py(a, k * step);
    fprintf(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"tick\" x=\"%d\" y=\"%.1f\">"
               "%.9g</text>\n", LEFT, y, RIGHT, LEFT - 6, y + 4,
            !logarithmic ? k * step + 0.0 : pow(10, floor(k / 2)) * (fmod(k, 2) > 0 ? 3 : 1));
  }
}

/* Extent of values that are numbers, with a margin. */
static void reach(axes *a, const float *v, int from, int to, int stride) {
  int t;
  for (t = from; t < to; t++) {
    const double x = (double)v[t * stride];
    if (x - x == 0 && x < a->low) a->low = x;
    if (x - x == 0 && x > a->high) a->high = x;
  }
}

static void widen(axes *a) {
  const double margin = a->high > a->low ? 0.06 * (a->high - a->low) : 1;
  a->low -= margin, a->high += margin;
}

/* A line through the samples; where there are more than two for a column of the picture, its least
 * and its largest. */
static void svg_line(FILE *f, const axes *a, const float *v, int stride, const char *class_name,
                     int logarithmic) {
  const int from = (int)a->from, to = (int)a->to;
  const int columns = to - from > 2 * (RIGHT - LEFT) ? RIGHT - LEFT : to - from;
  int i, t;
  fprintf(f, "<path class=\"%s\" d=\"", class_name);
  for (i = 0; i < columns; i++) {
    const int begin = from + (int)((double)(to - from) * i / columns);
    const int end = from + (int)((double)(to - from) * (i + 1) / columns);
    double low = DBL_MAX, high = -DBL_MAX;
    for (t = begin; t < end; t++) {
      double x = (double)v[t * stride];
      if (logarithmic) x = x > 1 ? log10(x) : 0;
      if (x < low) low = x;
      if (x > high) high = x;
    }
    if (high < low) continue;
    low = low < a->low ? a->low : low > a->high ? a->high : low;
    high = high < a->low ? a->low : high > a->high ? a->high : high;
    fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', px(a, begin), py(a, low));
    if (high > low) fprintf(f, "L%.1f %.1f", px(a, begin), py(a, high));
  }
  fprintf(f, "\"/>\n");
}

/* Where anomalies are known to be: bands. */
static void svg_bands(FILE *f, const axes *a, const int *mark) {
  int t, begin;
  for (t = (int)a->from; t < (int)a->to; t++) {
    double width;
    if (mark[t] <= 0) continue;
    for (begin = t; t + 1 < (int)a->to && mark[t + 1] == mark[begin]; t++) continue;
    width = px(a, t + 1) - px(a, begin);
    fprintf(f, "<rect class=\"band\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n",
            px(a, begin) - 0.5, a->top, width > 1.5 ? width : 1.5, a->bottom - a->top);
  }
}

static void svg_alarms(FILE *f, const axes *a, const float *v, int stride, const float *score,
                       float most, int logarithmic, double size) {
  int t;
  for (t = (int)a->from; t < (int)a->to; t++) {
    const double x = (double)v[t * stride];
    if (score[t] > most && x - x == 0)
      fprintf(f, "<circle class=\"alarm\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>\n", px(a, t),
              py(a, logarithmic ? log10(x) : x), size);
  }
}

static const char svg_style[] =
  ".card{fill:#fff}text{font:13px system-ui,sans-serif;fill:#24292f}.head{font-size:16px;"
  "font-weight:600}.tick{font-size:11px;fill:#57606a;text-anchor:end}.name{font-weight:600}"
  ".note{fill:#57606a}.grid{stroke:#d8dee4}.series{fill:none;stroke:#0a6ebd;stroke-width:1.2}"
  ".wide{stroke-width:2}"
  ".forecast{fill:none;stroke:#16803c;stroke-width:2;stroke-dasharray:5 3}"
  ".score{fill:none;stroke:#57606a;stroke-width:1}.band{fill:#f0b429;fill-opacity:.45}"
  ".most{stroke:#c2410c;stroke-width:1.2;stroke-dasharray:6 4}"
  ".alarm{fill:#c2410c;fill-opacity:.85}"
  "@media(prefers-color-scheme:dark){.card{fill:#0d1117}text{fill:#e6edf3}.tick,.note{fill:#9da7b3}"
  ".grid{stroke:#272e37}.series{stroke:#58b0ff}.forecast{stroke:#56d364}.score{stroke:#9da7b3}"
  ".band{fill:#d29922}.most{stroke:#ff9a5c}.alarm{fill:#ff9a5c}}";

static void svg_legend(FILE *f, int known) {
  fprintf(f, "<path class=\"series\" d=\"M470 36h28\"/><text x=\"504\" y=\"40\">series</text>"
             "<path class=\"forecast\" d=\"M570 36h28\"/><text x=\"604\" y=\"40\">forecast</text>"
             "<circle class=\"alarm\" cx=\"690\" cy=\"36\" r=\"4\"/>"
             "<text x=\"702\" y=\"40\">alarm</text>");
  if (known)
    fprintf(f, "<rect class=\"band\" x=\"766\" y=\"28\" width=\"14\" height=\"15\"/>"
               "<text x=\"786\" y=\"40\">put in or labelled</text>");
}

/* The scored part or, of a long one, 6000 samples of it; what lies around the highest score; and
 * the scores, from the usual up. */
static void draw(const char *path, const desk *k, const series *s, const float *x,
                 const float *score, float most, int known) {
  FILE *f = fopen(path, "w");
  axes all = {0, 0, 1e300, -1e300, 74, 234}, near = {0, 0, 1e300, -1e300, 274, 434};
  axes up = {0, 0, 0, 1, 474, 610};
  char title[160];
  int t, top = s->from;
  if (!f) die(1, "%s cannot be written", path);
  for (t = s->from; t < s->n; t++)
    if (score[t] > score[top] && (!known || k->mark[t] > 0)) top = t;
  all.from = top - 3000 < s->n - 6000 ? top - 3000 : s->n - 6000;
  if (all.from < s->from) all.from = s->from;
  all.to = all.from + 6000 < s->n ? all.from + 6000 : s->n;
  up.from = all.from, up.to = all.to;
  near.from = top - 90 > s->from ? top - 90 : s->from;
  near.to = near.from + 180 < s->n ? near.from + 180 : s->n;
  reach(&all, x, (int)all.from, (int)all.to, s->channels);
  reach(&near, x, (int)near.from, (int)near.to, s->channels);
  widen(&all), widen(&near);
  for (t = (int)up.from; t < (int)up.to; t++)
    if (score[t] > 0 && log10((double)score[t]) > up.high) up.high = log10((double)score[t]);
  fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
             "height=\"%d\" role=\"img\" aria-label=\"%s\"><title>%s</title><style>%s</style>\n"
             "<rect class=\"card\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n"
             "<text class=\"head\" x=\"%d\" y=\"40\">%s, watched by a memory</text>\n",
          WIDE, TALL, WIDE, TALL, s->name, s->name, svg_style, WIDE, TALL, LEFT, s->name);
  svg_legend(f, known);
  snprintf(title, sizeof title, "samples %d to %d", (int)all.from, (int)all.to);
  svg_frame(f, &all, title, 0);
  if (known) svg_bands(f, &all, k->mark);
  svg_line(f, &all, x, s->channels, "series", 0);
  svg_alarms(f, &all, x, s->channels, score, most, 0, 2.5);
  snprintf(title, sizeof title, "around the highest score, sample %d", top);
  svg_frame(f, &near, title, 0);
  if (known) svg_bands(f, &near, k->mark);
  svg_line(f, &near, x, s->channels, "series wide", 0);
  svg_line(f, &near, k->forecast, 1, "forecast", 0);
  svg_alarms(f, &near, x, s->channels, score, most, 0, 4.5);
  svg_frame(f, &up, k->all ? "score: evidence in nats, logarithmic" :
            "score: errors beside the usual one, logarithmic", 1);
  svg_line(f, &up, score, 1, "score", 1);
  fprintf(f, "<path class=\"most\" d=\"M%d %.1fH%d\"/>\n", LEFT, py(&up, log10((double)most)),
          RIGHT);
  svg_alarms(f, &up, score, 1, score, most, 1, 2.5);
  fprintf(f, "</svg>\n");
  if (fclose(f)) die(1, "%s cannot be written", path);
  printf("drawn: %s\n", path);
}

/* ---- reports ---- */

typedef struct report {
  double error[METHODS], found[METHODS][KINDS], mean[METHODS], sample[METHODS];
  int kinds, best;        /* the baseline with the highest mean */
  double us, squares_us;  /* a sample's time */
} report;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Forecasts of the series as it is, and what they cost. */
static void try_forecasts(desk *k, const series *s, const options *o, float *score, report *r) {
  int m;
  const double begin = seconds();
  for (m = 0; m < METHODS; m++) {
    const double start = seconds();
    double took;
    run_method(k, s, s->x, o->lags, m, score);
    took = 1e6 * (seconds() - start) / s->n;
    if (methods[m].forecaster == WATCHER) r->us = took;
    if (methods[m].forecaster == SQUARES && methods[m - 1].forecaster != SQUARES)
      r->squares_us = took;
    r->error[m] = mean_square(k, s);
  }
  if (o->inject > 0 || o->labels) {   /* as long for every kind and seed */
    const double more = (seconds() - begin) * (o->labels ? 1 : KINDS * o->seeds);
    if (more > 1)
      fprintf(stderr, "%d methods look for anomalies: about %.0f s\n", (int)METHODS, more);
  }
}

static void find_best(report *r) {
  int m, kind;
  r->best = -1;
  for (m = 0; m < METHODS; m++) {
    r->mean[m] = 0;
    for (kind = 0; kind < r->kinds; kind++) r->mean[m] += r->found[m][kind] / r->kinds;
    if (m != MEMORY && (r->best < 0 || r->mean[m] > r->mean[r->best])) r->best = m;
  }
}

static void try_anomalies(desk *k, const series *s, const options *o, float *score, report *r) {
  int kind, seed, m;
  r->kinds = KINDS;
  for (kind = 0; kind < KINDS; kind++) {
    for (seed = o->first; seed < o->first + o->seeds; seed++) {
      const int events = inject(k, s, o, kind, seed);
      for (m = 0; m < METHODS; m++) {
        run_method(k, s, k->x, o->lags, m, score);
        r->found[m][kind] += precision(k, s, score, events) / o->seeds;
      }
    }
  }
}

/* Labelled samples, as runs of them or one by one. Returns how many events these are. */
static int mark_labels(desk *k, const series *s, int runs) {
  int t, events = 0;
  memset(k->mark, 0, sizeof(int) * (size_t)s->n);
  for (t = s->from; t < s->n; t++)
    if (s->label[t]) k->mark[t] = runs && t > s->from && s->label[t - 1] ? events : ++events;
  return events;
}

static void try_labels(desk *k, const series *s, const options *o, float *score, report *r) {
  int m;
  r->kinds = 1;
  for (m = 0; m < METHODS; m++) {
    run_method(k, s, s->x, o->lags, m, score);
    r->sample[m] = precision(k, s, score, mark_labels(k, s, 0));
    r->found[m][0] = precision(k, s, score, mark_labels(k, s, 1));
  }
}

static void print_table(const series *s, const report *r) {
  int m, kind;
  printf("\n%-14s %9s", "", "error");
  if (r->kinds == KINDS)
    for (kind = 0; kind < KINDS; kind++) printf(" %8s", kinds[kind]);
  if (r->kinds) printf(" %8s", r->kinds == KINDS ? "mean" : "found");
  puts(r->kinds == 1 ? "   sample" : "");
  for (m = 0; m < METHODS; m++) {
    printf("%-14s %9.3g", methods[m].name, r->error[m]);
    if (r->kinds == KINDS)
      for (kind = 0; kind < KINDS; kind++) printf(" %8.3f", r->found[m][kind]);
    if (r->kinds) printf(" %8.3f", r->mean[m]);
    if (r->kinds == 1) printf(" %8.3f", r->sample[m]);
    putchar('\n');
  }
  putchar('\n');
  for (m = 0; m < METHODS; m++) {
    printf("result job=anomaly data=%s method=%s error=%.4g", s->name, methods[m].name,
           r->error[m]);
    for (kind = 0; kind < r->kinds; kind++)
      printf(" %s=%.4f", r->kinds == KINDS ? kinds[kind] : "found", r->found[m][kind]);
    if (r->kinds == 1) printf(" by_sample=%.4f", r->sample[m]);
    putchar('\n');
  }
}

/* The memory beside recursive least squares by forecasts, and beside all baselines by what it
 * finds: a kind is won where none of them finds more. */
static void print_verdict(const series *s, const report *r, const desk *k, int keys) {
  double least = DBL_MAX;
  int m, kind, won = 0;
  const size_t bytes = squares_bytes(keys, s->channels);
  for (m = 0; m < METHODS; m++)
    if (methods[m].forecaster == SQUARES && r->error[m] < least) least = r->error[m];
  for (kind = 0; kind < r->kinds; kind++) {
    for (m = 0; m < METHODS; m++)
      if (r->found[m][kind] > r->found[MEMORY][kind]) break;
    won += m == METHODS;
  }
  printf("result job=anomaly data=%s error_by_rls=%.3f us=%.2f us_by_rls=%.2f bytes=%u "
         "bytes_by_rls=%.2f", s->name, r->error[MEMORY] / least, r->us, r->us / r->squares_us,
         (unsigned)k->watcher_bytes, (double)k->watcher_bytes / (double)bytes);
  if (r->kinds)
    printf(" best=%s found_by_best=%.3f kinds_won=%d of=%d", methods[r->best].name,
           r->mean[MEMORY] / r->mean[r->best], won, r->kinds);
  putchar('\n');
}

/* Alarms of the watcher: an alarm is over when `lags` samples were quiet. */
static void print_alarms(const desk *k, const series *s, const float *x, const float *score,
                         float most, int lags, int known, int events) {
  int t, last = -1, alarms = 0, right = 0, found = 0, seen = 0;
  printf("\nalarms, above %.1f (one in a thousand of the first third):\n", (double)most);
  for (t = s->from; t < s->n; t++) {
    if (!(score[t] > most)) continue;
    if (k->mark[t] > 0 && k->mark[t] != seen) found++, seen = k->mark[t];
    if (last < 0 || t - last > lags) {
      if (alarms++ < RANKED)
        printf("  sample %d: %g, forecast %g, score %.1f%s\n", t, (double)x[t * s->channels],
               (double)k->forecast[t], (double)score[t],
               !known ? "" : k->mark[t] ? "" : "  (outside of events)");
      right += k->mark[t] != 0;
    }
    last = t;
  }
  if (alarms > RANKED) printf("  and %d more\n", alarms - RANKED);
  printf("result job=anomaly data=%s alarms=%d", s->name, alarms);
  if (known) printf(" right=%d found=%d of=%d", right, found, events);
  putchar('\n');
}

enum { BINS = 400 };

/* How likely a score as high is by those before: up to the tail their share, counted in quarters of
 * a power of e; in the tail what tail_step says, by which a stretch counts once. */
static double probability(tail *history, int *count, float score) {
  const double y = log(fmin((double)score, 1e30) + 1e-12), n = history->seen + 1.0;
  const double surprise = tail_step(history, y, least_excess);
  const int bin = (int)(4 * (y + 28));
  double share = 1;
  int i;
  for (i = bin; i < BINS; i++) share += count[i];
  count[bin]++;
  return history->was_above ? fmin(share / n, tail_share * exp(-surprise)) : share / n;
}

/* A row for each sample: its number, its values, the watcher's score, how likely as much is, and
 * whether that is an alarm. */
static void write_scores(const char *path, const series *s, const float *x, const float *score,
                         float most) {
  FILE *f = fopen(path, "w");
  tail history;
  int count[BINS] = {0}, t, c;
  memset(&history, 0, sizeof history);
  if (!f) die(1, "%s cannot be written", path);
  fputs("time", f);
  for (c = 0; c < s->channels; c++) fprintf(f, s->channels > 1 ? ",value%d" : ",value", c + 1);
  fputs(",score,probability,alarm\n", f);
  for (t = 0; t < s->n; t++) {
    fprintf(f, "%d", t);
    for (c = 0; c < s->channels; c++) {
      const double value = (double)x[t * s->channels + c];
      if (value - value == 0) fprintf(f, ",%.9g", value);
      else fputc(',', f);   /* a missing sample */
    }
    fprintf(f, ",%.6g,%.6g,%d\n", fmin((double)score[t], 1e30),
            probability(&history, count, score[t]), score[t] > most);
  }
  if (fclose(f)) die(1, "%s cannot be written", path);
  printf("written: %s\n", path);
}

/* ---- the program ---- */

static int is(const char *argument, const char *name, const char **value) {
  const size_t n = strlen(name);
  if (strncmp(argument, name, n)) return 0;
  *value = argument + n;
  return 1;
}

static double number(const char *argument, const char *text, double least, double most) {
  char *end;
  const double x = strtod(text, &end);
  if (end == text || *end || !(x >= least && x <= most))
    die(2, "%s is not understood; a number from %g to %g may stand there", argument, least, most);
  return x;
}

static int whole(const char *argument, const char *text, int least, int most) {
  const double x = number(argument, text, least, most);
  if (x > floor(x)) die(2, "%s is not understood; a whole number may stand there", argument);
  return (int)x;
}

static options parse(int count, char **arguments) {
  options o = {NULL, NULL, "anomaly.svg", NULL, 0, 3, 1, 0, -1, 0};
  int i;
  for (i = 1; i < count; i++) {
    const char *value;
    if (is(arguments[i], "column=", &value)) o.column = value;
    else if (is(arguments[i], "plot=", &value)) o.plot = value;
    else if (is(arguments[i], "scores=", &value)) o.scores = value;
    else if (!strcmp(arguments[i], "--scores") && i + 1 < count) o.scores = arguments[++i];
    else if (is(arguments[i], "lags=", &value))
      o.lags = whole(arguments[i], value, 1, MIRAS_ENCODER_LAGS - 1);
    else if (is(arguments[i], "seeds=", &value)) o.seeds = whole(arguments[i], value, 1, SEEDS);
    else if (is(arguments[i], "first=", &value)) o.first = whole(arguments[i], value, 0, 1 << 30);
    else if (is(arguments[i], "inject=", &value)) o.inject = number(arguments[i], value, 0, 1e6);
    else if (!strcmp(arguments[i], "labels")) o.labels = 1;
    else if (!strcmp(arguments[i], "watch=all")) o.all = 1;
    else if (!strcmp(arguments[i], "watch=error")) o.all = 0;
    else if (!strcmp(arguments[i], "--help") || !strcmp(arguments[i], "-h")) {
      puts("anomaly [FILE [labels]] [column=NAME or 1, 2, ..] [inject=SIZE] [lags=N] [seeds=N] "
           "[first=N] [watch=all or error] [plot=FILE.svg] [--scores FILE.csv]");
      exit(0);
    } else if (!o.file && arguments[i][0] != '-' && !strchr(arguments[i], '='))
      o.file = arguments[i];
    else die(2, "%s is not understood; the head of examples/anomaly.c says what is",
             arguments[i]);
  }
  if (!o.file) o.inject = o.inject > 0 ? o.inject : 0.5;
  if (!o.lags) o.lags = o.labels ? 1 : 32;
  if (o.inject > 0 && o.labels) die(2, "inject is for a series without labels");
  return o;
}

static void open_desk(desk *k, const series *s, const options *o) {
  const size_t n = (size_t)s->n, all = n * (size_t)s->channels;
  const int keys = s->channels * o->lags + 1;
  watcher w;
  if (keys > KEYS) die(2, "%d channels with %d lags are too many", s->channels, o->lags);
  k->x = (float *)get(all, sizeof(float));
  k->error = (float *)get(all, sizeof(float));
  k->score = (float *)get(n, sizeof(float));
  k->forecast = (float *)get(n, sizeof(float));
  k->best = (float *)get(n + 1, sizeof(float));
  k->mark = (int *)get(n, sizeof(int));
  k->item = (item *)get(n + 1, sizeof(item));
  k->squares = get(squares_bytes(keys, s->channels), 1);
  k->all = o->all < 0 ? o->labels && s->channels == 1 : o->all;
  k->memory = watcher_open(&w, s->channels, o->lags, k->all, NULL);
}

static void close_desk(desk *k, series *s) {
  free(k->x), free(k->error), free(k->score), free(k->forecast), free(k->best);
  free(k->mark), free(k->item), free(k->squares), free(k->memory);
  free(s->x), free(s->label);
}

int main(int count, char **arguments) {
  const options o = parse(count, arguments);
  const int known = o.inject > 0 || o.labels;
  int events = 0;
  float most;
  static report r;
  series s;
  desk k;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);   /* into a pipe, too, line by line */
  open_series(&s, &o);
  open_desk(&k, &s, &o);   /* nothing is allocated behind this line */
  printf("%s: %d samples of %d, scored from %d on\n", s.name, s.n, s.channels, s.from);
  try_forecasts(&k, &s, &o, k.score, &r);
  most = threshold(&k, &s, k.score);
  memcpy(k.x, s.x, sizeof(float) * (size_t)s.n * (size_t)s.channels);
  if (o.labels) try_labels(&k, &s, &o, k.score, &r), events = mark_labels(&k, &s, 1);
  if (o.inject > 0) {
    try_anomalies(&k, &s, &o, k.score, &r);
    events = inject(&k, &s, &o, KINDS, o.first);
    run_method(&k, &s, k.x, o.lags, MEMORY, k.score);
  }
  find_best(&r);
  print_table(&s, &r);
  print_verdict(&s, &r, &k, s.channels * o.lags + 1);
  print_alarms(&k, &s, k.x, k.score, most, o.lags, known, events);
  draw(o.plot, &k, &s, k.x, k.score, most, known);
  if (o.scores) write_scores(o.scores, &s, k.x, k.score, most);
  close_desk(&k, &s);
  return 0;
}
