/* encoders.h: from things of the world to keys and values of a memory, or inputs of a model.
 *
 * One file over nothing but the C library: include it where you need it. All functions are static
 * and inline, so a program holds what it calls and no macro asks for the bodies.
 *
 *     #include "encoders.h"
 *
 *     miras_encoder_scale scale = {0};     // what is not set is 0, which stands for a default
 *     miras_encoder_window window = {0};
 *     float key[24 + 1];
 *     scale.clip = 8;
 *     window.lags = 24, window.constant = 1;
 *     for (;;) {
 *       miras_encode_window(&window, key);              // what was known before the sample came
 *       x = miras_encode_standard_learn(&scale, read_sensor());
 *       ...                                             // key -> x
 *       miras_encode_window_push(&window, x);
 *     }
 *
 *   what comes in                       encoder                                  goes out
 *   one of n things                     miras_encode_one_hot                     [n]
 *   several of them at once             miras_encode_groups, .._group_places     [n1 + n2 + ...]
 *   a sequence of symbols               miras_encode_contexts_push, .._contexts  places, entries
 *   a series of numbers                 miras_encode_window_push, .._window      [lags + ...]
 *   a time                              miras_encode_waves                       [2 harmonics]
 *   a number of unknown size            miras_encode_standard_learn, ..          1
 *   surprise, errors of unknown size    miras_encode_surprise, .._error          1, a score
 *
 * An encoder's memory is a struct of the caller's: its settings first, which stay as they are while
 * it runs, then its state, which is 0 at the start. There are no pointers in it: copying
 * the struct is a snapshot, and writing its bytes to a file saves it (for the same machine and the
 * same version of this file). Nothing is allocated, every call takes bounded time, and the same
 * calls give the same bits on every machine whose floats are IEEE 754's (the x87 holds them with
 * more digits) and under every flag but -ffast-math and clang's -ffp-contract=fast.
 *
 * Keys and their length. A memory whose keys are brought to unit length (most rows, as they come)
 * forgets how large its key was: right for one-hots and contexts, wrong for windows of a series,
 * where the amplitude is half of what there is to know. For those choose keys of free length, the
 * preset "signal", and standardise. Random directions as keys are for at most key_dim things; more
 * of them disturb each other. One-hots side by side never do.
 *
 * The licence is that of miras.h. */
#ifndef MIRAS_ENCODERS_H
#define MIRAS_ENCODERS_H

#include <math.h>
#include <stdint.h>
#ifndef MIRAS_ASSERT
  #include <assert.h>
  #define MIRAS_ASSERT(x) assert(x)
#endif

/* a * b + c rounds twice in all of this. */
#if defined(__clang__)
  #pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
  #pragma GCC push_options
  #pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
  #pragma fp_contract(off)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Room for state, which is part of the structs: define others before every inclusion alike. */
#ifndef MIRAS_ENCODER_LONGEST
  #define MIRAS_ENCODER_LONGEST 16   /* symbols of the longest context */
#endif
#ifndef MIRAS_ENCODER_LAGS
  #define MIRAS_ENCODER_LAGS 64      /* samples of the longest window */
#endif

/* ---- categories ---- */

/* One of `count` things: 1 at `which` and 0 elsewhere; out[count]. Outside 0..count-1 it is none of
 * them and all are 0: so write what is missing or unknown as -1.
 *   When: there are tens to thousands of things and what is learned of one says nothing of another.
 *   Not when: they have an order or a distance (temperatures, positions): those are numbers. */
static inline void miras_encode_one_hot(float *out, int count, int which) {
  int i;
  for (i = 0; i < count; i++) out[i] = i == which ? 1.0f : 0.0f;
}

/* Several categories side by side, a one-hot each: which[groups], sizes[groups], and
 * out[sizes[0] + sizes[1] + ...].
 *   When: a thing has several properties, and what each of them means adds up.
 *   Not when: only together they mean something (exclusive or). Then number the combinations and
 *   use one one-hot, or a perceptron as the memory. */
static inline void miras_encode_groups(float *out, const int *which, const int *sizes,
                                       int groups) {
  int g;
  for (g = 0; g < groups; g++) {
    miras_encode_one_hot(out, sizes[g], which[g]);
    out += sizes[g];
  }
}

/* The same, sparse: the places of the ones, index[groups], ascending. Returns how many there are;
 * groups whose category is unknown have none. */
static inline int miras_encode_group_places(int32_t *index, const int *which, const int *sizes,
                                            int groups) {
  int g, count = 0, at = 0;
  for (g = 0; g < groups; g++) {
    if (which[g] >= 0 && which[g] < sizes[g]) index[count++] = (int32_t)(at + which[g]);
    at += sizes[g];
  }
  return count;
}

/* ---- contexts ---- */

/* The last symbols, hashed: for each length n from `shortest` to `longest` the last n symbols are
 * one of 2^bits things. A sparse key of at most longest - shortest + 1 entries that are not 0, and
 * of length 1.
 *   When: what comes next depends on what just came, word for word: text, buttons, commands, moves.
 *   A memory with such keys and categories as values is a count table that generalises from long
 *   contexts to short ones and forgets.
 *   Not when: nearly the same should mean nearly the same (then windows or a network), or when the
 *   memory is too small: contexts that share a place disturb each other. As a rule 2^bits should be
 *   several times the number of different contexts that come up while the memory remembers; state
 *   grows with it, time does not. */
typedef struct miras_encoder_contexts {
  int shortest;    /* symbols, from 0, which is one entry that is always there (a bias) */
  int longest;     /* symbols, at most MIRAS_ENCODER_LONGEST */
  int bits;        /* places: 2^bits, 1 to 30 */
  float growth;    /* each longer context's entry is so many times the one before; 0: 1, all alike.
                      Above 1 long contexts are trusted sooner */
  uint32_t seed;   /* another seed, other places: for encoders that share a memory's key */
  int32_t seen;                            /* symbols so far, counted up to the longest context */
  int32_t last[MIRAS_ENCODER_LONGEST];     /* the latest first */
} miras_encoder_contexts;

/* The finaliser of splitmix64 (Steele, Lea and Flood 2014): a bijection that mixes all 64 bits. */
static inline uint64_t miras_encode__mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* A symbol, any number, has come. */
static inline void miras_encode_contexts_push(miras_encoder_contexts *c, int32_t symbol) {
  int i;
  for (i = MIRAS_ENCODER_LONGEST - 1; i > 0; i--) c->last[i] = c->last[i - 1];
  c->last[0] = symbol;
  if (c->seen < MIRAS_ENCODER_LONGEST) c->seen++;
}

/* The key of now: index[longest - shortest + 1] receives places from 0 to 2^bits - 1, no place
 * twice, and entry, of the same length, what stands there (entry may be NULL). Shorter contexts
 * come first; those that reach back behind the beginning are left out. Returns how many there are.
 * When a context's place is taken by a shorter one, it takes the next free one: as a context
 * determines the shorter ones, its place is the same whenever it comes up. */
static inline int miras_encode_contexts(const miras_encoder_contexts *c, int32_t *index,
                                        float *entry) {
  const float growth = c->growth > 0 ? c->growth : 1;
  const uint32_t mask = ((uint32_t)1 << c->bits) - 1;
  uint64_t hash = miras_encode__mix(c->seed);
  float size = 1, squares = 0;
  int n, i, count = 0;
  MIRAS_ASSERT(c->shortest >= 0 && c->shortest <= c->longest);
  MIRAS_ASSERT(c->longest <= MIRAS_ENCODER_LONGEST && c->bits >= 1 && c->bits <= 30);
  MIRAS_ASSERT(c->longest - c->shortest < (1 << c->bits));
  for (n = 0; n <= c->longest && n <= c->seen; n++) {
    uint32_t place;
    if (n > 0) hash = miras_encode__mix(hash ^ (uint32_t)c->last[n - 1]);
    if (n < c->shortest) continue;
    place = (uint32_t)(hash >> 32) & mask;
    for (i = 0; i < count; i++)
      if (index[i] == (int32_t)place) place = (place + 1) & mask, i = -1;
    if (entry) entry[count] = size;
    squares += size * size;
    size *= growth;
    index[count++] = (int32_t)place;
  }
  if (entry)
    for (i = 0; i < count; i++) entry[i] /= sqrtf(squares);
  return count;
}

/* ---- windows ---- */

/* The last samples of a series, the latest first: x1, x2, .. x_lags; then, of `differences` of
 * them, x1 - x2, x2 - x3, ..; then, where `constant` is set, a 1 for what is always there. One
 * window per channel: keys of several stand side by side.
 *   When: the next sample depends on the last ones: sensors, prices, positions. Differences say the
 *   same as lags to a memory that solves for its answer (least squares); a memory that takes steps
 *   learns sooner with them where neighbours are nearly alike, for lags then all point the same
 *   way. Neither is needed beyond the period that matters: for that a wave or a lag far back.
 *   Not when: samples come at uneven times, or are categories.
 * Standardise the series first. */
typedef struct miras_encoder_window {
  int lags;          /* 0 to MIRAS_ENCODER_LAGS */
  int differences;   /* 0 to MIRAS_ENCODER_LAGS - 1 */
  int constant;      /* 1: with a last entry of 1 */
  int32_t seen;                            /* samples so far, counted up to the window's length */
  int32_t at;                              /* the place of the latest in the ring */
  float ring[MIRAS_ENCODER_LAGS];
} miras_encoder_window;

/* A sample has come. One that is no finite number counts as a repetition of the one before. */
static inline void miras_encode_window_push(miras_encoder_window *w, float x) {
  if (!(x - x == 0)) x = w->seen ? w->ring[w->at] : 0.0f;
  w->at = w->at + 1 < MIRAS_ENCODER_LAGS ? w->at + 1 : 0;
  w->ring[w->at] = x;
  if (w->seen < MIRAS_ENCODER_LAGS) w->seen++;
}

/* The sample `back` before the latest (0: the latest itself). Before the first sample the series
 * counts as having stood still there, so that a beginning is no jump; of no samples: 0. */
static inline float miras_encode_window_at(const miras_encoder_window *w, int back) {
  int at;
  MIRAS_ASSERT(back >= 0 && back < MIRAS_ENCODER_LAGS);
  if (!w->seen) return 0.0f;
  at = w->at - (back < w->seen ? back : w->seen - 1);
  return w->ring[at < 0 ? at + MIRAS_ENCODER_LAGS : at];
}

/* The window of now into out[lags + differences + constant]. Returns how many entries that is. */
static inline int miras_encode_window(const miras_encoder_window *w, float *out) {
  int i, n = 0;
  MIRAS_ASSERT(w->lags >= 0 && w->lags <= MIRAS_ENCODER_LAGS);
  MIRAS_ASSERT(w->differences >= 0 && w->differences < MIRAS_ENCODER_LAGS);
  for (i = 0; i < w->lags; i++) out[n++] = miras_encode_window_at(w, i);
  for (i = 0; i < w->differences; i++)
    out[n++] = miras_encode_window_at(w, i) - miras_encode_window_at(w, i + 1);
  if (w->constant) out[n++] = 1.0f;
  return n;
}

/* ---- times ---- */

/* Periods in seconds. The year is the calendar's on average: 365.2425 days. */
#define MIRAS_ENCODER_DAY 86400.0
#define MIRAS_ENCODER_WEEK 604800.0
#define MIRAS_ENCODER_YEAR 31556952.0

/* sin of x turns (quarter 0) or cos (1), |x| < 2^51, by sums, products and quotients alone, as C
 * libraries differ: x = n / 4 + r, |r| <= 1/8, and with s = 2 pi r, z = s^2 the series
 * sin s = s (1 - z/(3 2) (1 - z/(5 4) (...))), cos s = 1 - z/(2 1) (1 - z/(4 3) (...)). */
static inline double miras_encode__wave(double x, int quarter) {
  const double n = floor(4 * x + 0.5), s = 6.283185307179586 * (x - n / 4), z = s * s;
  const int turn = ((int)(n - 4 * floor(n / 4)) + quarter) & 3;
  double sum = 1;
  int k;
  for (k = turn & 1 ? 16 : 17; k >= 2; k -= 2) sum = 1 - z / (k * (k - 1)) * sum;
  if (!(turn & 1)) sum *= s;
  return turn & 2 ? -sum : sum;
}

/* A time as waves: sin and cos of 2 pi h t / period for h = 1 .. harmonics, out[2 * harmonics] =
 * sin 1, cos 1, sin 2, cos 2, ... Time and period are in seconds (or both in anything else), from
 * any origin: time() will do, of local time if people make the pattern. Each call is for one
 * period: put day, week and year side by side.
 *   When: things repeat by the clock. One harmonic is a smooth swing; k tell things apart that are
 *   a (2 k)th of the period from each other: 3 or 4 for a day of hours.
 *   Not when: fewer than two or three periods will be seen (a year's waves in a month of data only
 *   fit the trend), or when it repeats at its own pace (a heart): then lags.
 * A time that is no finite number gives zeros. */
static inline void miras_encode_waves(float *out, int harmonics, double t, double period) {
  const double turns = fmod(t, period) / period;
  int h;
  for (h = 1; h <= harmonics; h++) {
    const int known = turns - turns == 0;
    *out++ = known ? (float)miras_encode__wave(h * turns, 0) : 0.0f;
    *out++ = known ? (float)miras_encode__wave(h * turns, 1) : 0.0f;
  }
}

/* ---- sizes ---- */

/* A number by its running mean and deviation: z = (x - mean) / deviation, in deviations. Both are
 * those of the samples before: of the n-th, with w = 1 / min(n, horizon) and d = x - mean,
 *     mean += w d,  variance = (1 - w) (variance + w d d),
 * the plain mean and variance of all samples up to the horizon, and from there on averages that
 * forget exponentially.
 *   When: always, where keys or values are measured in units of the world: rows with steps diverge
 *   or sleep on numbers far from 1, and least squares weighs entries by their size.
 *   Not when: the level itself is what counts and is known (percent, 0..255): then divide by hand,
 *   for standardised numbers drift while the mean is being found. And with a horizon no longer than
 *   the pattern of interest, the pattern is standardised away.
 * With clip, z lies within -clip .. clip and a sample counts for no more than that when mean and
 * deviation learn: a wild one does little harm, and a step of the level is learnt within some
 * horizon / clip samples. 4 to 8 are usual. A sample that is no finite number has z = 0 and changes
 * nothing. */
typedef struct miras_encoder_scale {
  float horizon;     /* samples that mean and deviation remember; 0: all */
  float clip;        /* deviations; 0: no bound */
  float least;       /* the deviation is at least this, in units of x: what the sensor resolves */
  float reserved;    /* 0 */
  double seen;       /* samples so far */
  double mean, variance;
} miras_encoder_scale;

/* The deviation that z is measured in; 0 while nothing has ever varied and `least` is 0. */
static inline double miras_encode_deviation(const miras_encoder_scale *s) {
  const double d = sqrt(s->variance), least = (double)s->least;
  return d > least ? d : least;
}

/* The weight of the sample that comes next. */
static inline double miras_encode__weight(const miras_encoder_scale *s) {
  const double n = s->seen + 1, horizon = (double)s->horizon;
  return 1 / (horizon >= 1 && n > horizon ? horizon : n);
}

/* z of x without a bound. It is 0 of the first sample; where all were equal and x differs, it is
 * what the deviation with x would make of it, 1 / sqrt(w (1 - w)) ... 2 for the second sample. */
static inline double miras_encode__z(const miras_encoder_scale *s, float x) {
  const double d = (double)x - s->mean, deviation = miras_encode_deviation(s);
  const double w = miras_encode__weight(s);
  if (!(x - x == 0) || s->seen < 1 || d == 0) return 0;
  if (deviation > 0) return d / deviation;
  return (d > 0 ? 1 : -1) / sqrt(w < 1 ? w * (1 - w) : 1);
}

/* z of x, which is not learnt. */
static inline float miras_encode_standard(const miras_encoder_scale *s, float x) {
  const float z = (float)miras_encode__z(s, x);
  if (s->clip > 0 && z > s->clip) return s->clip;
  if (s->clip > 0 && z < -s->clip) return -s->clip;
  return z;
}

/* z of x as before it came; then mean and deviation learn x. */
static inline float miras_encode_standard_learn(miras_encoder_scale *s, float x) {
  const float z = miras_encode_standard(s, x);
  const double w = miras_encode__weight(s);
  const double most = (double)s->clip * miras_encode_deviation(s);   /* 0: no bound */
  double d = (double)x - s->mean;
  if (!(x - x == 0)) return 0.0f;
  if (most > 0 && fabs(d) > most) d = d > 0 ? most : -most;
  s->mean += w * d;
  s->variance = (1 - w) * (s->variance + w * d * d);
  s->seen++;
  return z;
}

/* Back into units of the world: what a forecast of z means. */
static inline float miras_encode_standard_back(const miras_encoder_scale *s, float z) {
  return (float)(s->mean + miras_encode_deviation(s) * (double)z);
}

/* ---- scores ---- */

/* Surprise that can be compared over time: by how many running deviations it is above its running
 * mean. Any measure of surprise will do, as long as it is the same one: what miras_memory_write
 * reports, the size of the forecast's error, bits. Both averages are those of the samples before,
 * and learn of a sample at most `clip` deviations, so that an anomaly does not hide the next one.
 *   When: one threshold shall hold for series of other units, for a memory that is still learning
 *   and for one that is done, for quiet nights and loud days.
 *   Not when: what counts is how much there is of it (an error in degrees that is guaranteed): then
 *   the error itself; or when trouble lasts longer than the horizon: it becomes the rule.
 * Scores are not probabilities: surprise has a long tail, and 4 is not one in 30,000. Look at what
 * an uneventful day reaches. */
typedef struct miras_encoder_surprise {
  float horizon;     /* samples that count as now; 0: 1000 */
  float clip;        /* 0: 4 deviations */
  float least;       /* a deviation is at least this, in units of surprise */
  float reserved;    /* 0 */
  double seen;
  double mean, variance;
} miras_encoder_surprise;

/* The score of a surprise as before it came; then the averages learn it. One that is not a number
 * has a score of 0, an infinite one is infinite, and neither is learnt. */
static inline float miras_encode_surprise(miras_encoder_surprise *s, float surprise) {
  miras_encoder_scale scale;
  double z;
  if (!(surprise - surprise == 0)) return surprise > 0 ? surprise : 0.0f;
  scale.horizon = s->horizon > 0 ? s->horizon : 1000;
  scale.clip = s->clip > 0 ? s->clip : 4;
  scale.least = s->least;
  scale.reserved = 0;
  scale.seen = s->seen, scale.mean = s->mean, scale.variance = s->variance;
  z = miras_encode__z(&scale, surprise);
  miras_encode_standard_learn(&scale, surprise);
  s->seen = scale.seen, s->mean = scale.mean, s->variance = scale.variance;
  return (float)z;
}

/* How far out of the common an error is: its size beside what is usual,
 *     score = |error| / sqrt(u l),   u, l: the root mean squares of errors at large and of late.
 * The errors of late (16 samples) make one alarm of what goes on for a while, and know loud phases
 * from quiet ones; those at large (1000) keep trouble that lasts from becoming the rule at once.
 * Neither alone does as well. Those at large learn of an error at most `clip` times the usual one,
 * so that wild ones count for little; when errors stay that large they become usual within some
 * hundred.
 *   When: errors of a forecast, whose sign or size around 0 is all there is. Several at a time: an
 *   encoder each, and the sum of log(1 + score^2), by which one wild entry is not all.
 *   Not when: the measure of surprise has a mean of its own (bits): miras_encode_surprise. */
typedef struct miras_encoder_error {
  float horizon;     /* samples that tell what is usual; 0: 1000 */
  float late;        /* samples of late; 0: 16 */
  float clip;        /* 0: 5 times the usual */
  float least;       /* usual errors are at least this */
  double seen;
  double large_square, late_square;
} miras_encoder_error;

/* The usual error: root mean square at large. */
static inline float miras_encode_error_usual(const miras_encoder_error *s) {
  const float usual = (float)sqrt(s->large_square);
  return usual > s->least ? usual : s->least;
}

/* The largest error that should be learnt as it is: a memory does well to learn of a larger one no
 * more than this. Without bound (infinite) until 100 errors tell what is usual. */
static inline float miras_encode_error_bound(const miras_encoder_error *s) {
  return s->seen < 100 ? HUGE_VALF
                       : (s->clip > 0 ? s->clip : 5.0f) * miras_encode_error_usual(s);
}

/* The score of an error as before it came, 1 where it is as usual; then the averages learn it. Of
 * the first error the score is 0; one that is not a number has the score 0, an infinite one is
 * infinite, and neither is learnt. */
static inline float miras_encode_error(miras_encoder_error *s, float error) {
  const double least = (double)s->least * (double)s->least, x = fabs((double)error);
  const double bound = (double)miras_encode_error_bound(s), y = x < bound ? x : bound;
  const double n = s->seen + 1, horizon = s->horizon > 0 ? (double)s->horizon : 1000;
  const double late = s->late > 0 ? (double)s->late : 16;
  const double u = s->large_square > least ? s->large_square : least;
  const double l = s->late_square > least ? s->late_square : least;
  if (!(error - error == 0)) return x > 0 ? HUGE_VALF : 0.0f;
  s->large_square += (y * y - s->large_square) / (n < horizon ? n : horizon);
  s->late_square += (x * x - s->late_square) / (n < late ? n : late);
  s->seen = n;
  return n > 1 && x > 0 ? (float)(x / sqrt(sqrt(u * l))) : 0.0f;
}

#ifdef __cplusplus
}
#endif

#if defined(__clang__)
  #pragma STDC FP_CONTRACT DEFAULT
#elif defined(__GNUC__)
  #pragma GCC pop_options
#endif
#endif /* MIRAS_ENCODERS_H */
