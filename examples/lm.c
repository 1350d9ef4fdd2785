/* lm.c: language models of bytes or characters, trained and run in C, on the CPU.
 *
 *     cc -O2 examples/lm.c -o lm -lm && ./lm        (older C libraries: add -pthread)
 *
 * Run it from the folder that holds miras.h. Without arguments a model that comes with it, of
 * examples/weights, writes a few lines; then it reads README.md, once, while its head learns in the
 * state of the running text (lm_read.h), and what it says before and after stands side by side. The
 * losses along the page are in lm_read.svg.
 *
 *     ./lm read FILE                                the same of your text
 *     ./lm train FILE --model titans --chars        train any row of the table, from nothing
 *     ./lm train FILE --from examples/weights/yaad.safetensors --minutes 1
 *     ./lm generate model.safetensors --prompt "The "
 *     ./lm eval model.safetensors FILE              bits and nats per byte of a whole file
 *     ./lm convert model.safetensors --weights q8 --out small.safetensors
 *     ./lm emit model.safetensors --weights q8      model.c, for a device without files
 *     ./lm models                                   the rows of the table
 *     ./lm --help                                   every option
 *
 * Training leaves
 *     model.safetensors, model.safetensors.vocab    the model and its vocabulary
 *     model.safetensors.loss.csv, .loss.svg         the losses of every step, and their chart
 * and prints text of its own, after two losses of the last tenth, which it did not learn from: in
 * windows of the length that it trained with, and in one pass from the first token to the last. The
 * second should not be the higher one: then the memory lasts. ./lm train alone learns the bytes of
 * miras.h and README.md for a minute on all cores.
 *
 * Parts of the program are lm_tools.h, lm_vocabulary.h, lm_options.h, lm_charts.h and lm_read.h.
 * Ctrl-C finishes the step and saves what is needed to go on: the same command with --resume
 * reaches the very bits that an uninterrupted run reaches. Exit status: 0 done, 1 a file or memory
 * failed, 2 wrong arguments, 130 interrupted. */
#define _XOPEN_SOURCE 700
#if defined(__APPLE__)
  #define _DARWIN_C_SOURCE
#endif
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
  #include <sys/resource.h>
#endif
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MIRAS_IMPLEMENTATION
#define MIRAS_PTHREADS
#include "../miras.h"

#include "lm_charts.h"
#include "lm_options.h"
#include "lm_layers.h"
#include "lm_vocabulary.h"

/* ---- losses over a text ---------------------------------------------------------------------- */

/* Windows of context tokens without overlap, each from the initial memory; every token but the
 * first is a target once. With most set, about that many windows, spread evenly. */
static score score_windows(miras_trainer *t, const int32_t *tokens, size_t n, size_t most) {
  const miras_trainer_desc *d = miras_trainer_desc_of(t);
  size_t T = (size_t)d->context, windows = n < 2 ? 0 : (n - 2) / T + 1, stride = 1, w = 0;
  int32_t *x = (int32_t *)grow(NULL, 2 * T * (size_t)d->batch, sizeof *x);
  int32_t *y = x + T * (size_t)d->batch;
  miras_batch batch;
  score s = {0, 0};
  memset(&batch, 0, sizeof batch);
  batch.length = d->context, batch.tokens = x, batch.classes = y;
  if (most && windows > most) stride = (windows + most - 1) / most;
  while (w < windows) {
    int rows = 0;
    size_t counted = 0, i;
    float loss;
    for (; rows < d->batch && w < windows; rows++, w += stride)
      for (i = 0; i < T; i++) {
        size_t at = w * T + i, to = (size_t)rows * T + i;
        x[to] = at + 1 < n ? tokens[at] : 0;
        y[to] = at + 1 < n ? tokens[at + 1] : -1;
        counted += at + 1 < n;
      }
    batch.batch = rows;
    if (miras_trainer_loss(t, &batch, 0, &loss) != MIRAS_OK) loss = (float)NAN;
    s.nats += (double)loss * (double)counted;
    s.targets += counted;
  }
  free(x);
  return s;
}

/* The summed loss of predicting what follows each of the next n tokens. */
static double nats_of(miras_session *session, const int32_t *tokens, size_t n) {
  double nats;
  if (miras_session_score(session, tokens, tokens + 1, n, &nats) != MIRAS_OK)
    die(1, "the text has a token that the model does not know");
  return nats;
}

/* One pass from the first token to the last, the memory carried all the way. */
static score score_stream(const miras_model *m, const int32_t *tokens, size_t n) {
  score s = {0, n ? n - 1 : 0};
  size_t i, piece = 4096;
  miras_session *session = miras_session_open(m, NULL, NULL, NULL, 0);
  if (!session) die(1, "there is not enough memory for a session");
  for (i = 0; i + 1 < n; i += piece)
    s.nats += nats_of(session, tokens + i, n - 1 - i < piece ? n - 1 - i : piece);
  miras_close(session);
  return s;
}

/* Says how long `left` tokens will take, as `done` took that long: if one would wonder. */
static void say_wait(const char *what, size_t left, double took, size_t done) {
  const double wait = took * (double)left / (double)(done ? done : 1);
  if (wait > 2) fprintf(stderr, "%s: about %.0f s\n", what, wait);
}

/* length tokens by a session as it comes; the first one's position is 0. tenths: losses of each
 * tenth of the stretch; NULL: not asked for. */
static void score_positions(miras_session *session, const int32_t *tokens, size_t length,
                            score bins[BINS], score tenths[10]) {
  size_t at = 0, end = 1, tenth = 0, next = 0, piece;
  int i;
  miras_session_reset(session);
  for (i = 0; i < BINS && at < length; i++, end *= 2)
    for (; at < end && at < length; at += piece) {
      double nats;
      for (; at >= next; next = length / 10 * tenth + length % 10 * tenth / 10) tenth++;
      piece = (end < next ? end : next) - at;
      if (piece > 4096) piece = 4096;
      nats = nats_of(session, tokens + at, piece);
      bins[i].nats += nats, bins[i].targets += piece;
      if (tenths) tenths[tenth - 1].nats += nats, tenths[tenth - 1].targets += piece;
    }
}

static score score_all(const score bins[BINS]) {
  score all = {0, 0};
  int i;
  for (i = 0; i < BINS; i++) {
    all.nats += bins[i].nats;
    all.targets += bins[i].targets;
  }
  return all;
}

#include "lm_read.h"

/* ---- train ----------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_signal;
static void on_signal(int number) { stop_signal = number; }

typedef struct progress {
  int live;                /* rewrite one line, or print a plain one now and then */
  int colour;
  double drawn;            /* when the last line went out */
} progress;

static void show(progress *p, size_t step, size_t steps, double loss, double val, double speed,
                 double left, int force) {
  const char *bold = p->colour ? "\033[1m" : "", *dim = p->colour ? "\033[2m" : "";
  const char *off = p->colour ? "\033[0m" : "";
  double t = now();
  if (!force && t - p->drawn < (p->live ? 0.1 : 30)) return;
  p->drawn = t;
  if (p->live) fputs("\r", stderr);
  fprintf(stderr, "%sstep%s %lu/%lu  %sloss%s %s%.3f%s  ", dim, off, (unsigned long)step,
          (unsigned long)steps, dim, off, bold, loss, off);
  if (!isnan(val)) fprintf(stderr, "%svalidation%s %s%.3f%s  ", dim, off, bold, val, off);
  fprintf(stderr, "%s%.0f tokens/s  %d:%02d left%s", dim, speed, (int)left / 60, (int)left % 60,
          off);
  fputs(p->live ? "\033[K" : "\n", stderr);
  fflush(stderr);
  progress_open = p->live;
}

/* Is there a token to draw? */
static int can_draw(const float *logits, int count) {
  int i, numbers = 0;
  for (i = 0; i < count; i++) {
    if (!(logits[i] <= FLT_MAX)) return 0;
    numbers += logits[i] >= -FLT_MAX;
  }
  return numbers > 0;
}

static void write_sample(const miras_model *m, const vocabulary *v, const int32_t *prompt, size_t n,
                         int count, miras_sampler sampling) {
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  const float *logits;
  if (!s) die(1, "there is not enough memory for a session");
  logits = miras_session_feed(s, prompt, NULL, n);
  while (count-- > 0 && logits) {
    unsigned char text[4];
    const int drawn = can_draw(logits, v->count);
    const int32_t token = drawn ? miras_sampler_sample(&sampling, logits, v->count) : -1;
    if (token < 0) {
      fflush(stdout);
      die(1, "behind %lu tokens the model's logits are not finite: its weights are damaged, or too "
             "large for --weights", (unsigned long)n);
    }
    fwrite(text, 1, token_text(v, token, text), stdout);
    fflush(stdout);
    logits = miras_session_step(s, token);
    n++;
  }
  miras_close(s);
}

/* The model, with all that training needs to go on where t is its trainer and not NULL. */
static void save_model(const miras_model *m, const miras_trainer *t, const vocabulary *v,
                       const char *path) {
  const miras_result result = t ? miras_save(t, path) : miras_save(m, path);
  if (result != MIRAS_OK) die(1, "%s cannot be saved: %s", path, miras_result_text(result));
  save_vocabulary(v, path);
}

/* Floats that a model learns. */
static size_t count_parameters(const miras_model *m) {
  int i, n;
  const miras_view *views = miras_model_views(m, &n);
  size_t total = 0;
  for (i = 0; i < n; i++) total += views[i].count;
  return total;
}

/* May a memory of this model hold more than a window has shown it? Decay that leads to the initial
 * memory, a horizon, carried states and a window of pairs see to that; decay alone is learned, and
 * windows do not teach to forget what came before them. */
static int lives_on(const options *o, const miras_model_desc *d) {
  const miras_memory_desc *m = &d->layer[0].memory;
  const miras_layer_type type = d->layer[0].type;
  if (d->pattern[0] && !strchr(d->pattern, 'm')) return 0;
  if (type == MIRAS_LAYER_MLP || type == MIRAS_LAYER_CONV || type == MIRAS_LAYER_ATTENTION ||
      type == MIRAS_LAYER_RWKV4)     /* whose means have no resets                                */
    return 0;
  if (m->decay_target || d->layer[0].mixer.decay_horizon || o->carry > 0 || m->reset_every)
    return 0;
  return m->architecture != MIRAS_ARCH_KV_CACHE || m->window > o->context;
}

/* The width of all MLPs: those of m, w, a and g that are not without. */
static void set_hidden(miras_model_desc *d, int hidden) {
  int k;
  for (k = 0; k < 4; k++)
    if (!d->layer[k].mlp.none) d->layer[k].mlp.hidden = hidden;
}

/* No model of that name: leave with the nearest. */
static void no_model(const char *before, const char *name) {
  char best[64] = "";
  int i;
  for (i = 0; i < MIRAS_PRESET_COUNT; i++)
    nearest_of(miras_preset_name((miras_preset)i), name, best);
  nearest_of("transformer", name, best);
  if (distance(best, name) < 4)
    die(2, "%s is \"%s\"; is it %s? lm models lists the names", before, name, best);
  die(2, "%s is \"%s\"; lm models lists the names", before, name);
}

/* The values that some model has of a field, until `words` is full. */
static void words_of(const char *field, char *words, size_t room) {
  int i;
  words[0] = 0;
  for (i = 0; i < MIRAS_PRESET_COUNT; i++) {
    miras_model_desc d;
    char value[MIRAS_PATTERN_SIZE], near[64] = "";
    size_t n = strlen(words);
    miras_model_preset(&d, (miras_preset)i, 0);
    if (!miras_model_desc_get(&d, field, value, sizeof value) || n + strlen(value) + 2 > room)
      continue;
    nearest_of(words, value, near);
    if (value[0] && strcmp(near, value)) snprintf(words + n, room - n, n ? " %s" : "%s", value);
  }
}

/* Why --set FIELD=VALUE cannot be done: leave with a sentence. said: the library's. */
static void no_set(const miras_model_desc *d, const char *text, const char *said) {
  const char *equals = strchr(text, '='), *bare, *last, *name;
  char field[64], value[MIRAS_PATTERN_SIZE], best[64] = "", words[160];
  int i, k, near = 64;
  if (!equals || equals == text)
    die(2, "--set is \"%s\"; it must be FIELD=VALUE, such as memory.learning_rate=0.02", text);
  snprintf(field, sizeof field, "%.*s", (int)(equals - text), text);
  if (miras_model_desc_get(d, field, value, sizeof value)) {
    words_of(field[1] == '.' ? field + 2 : field, words, sizeof words);
    if (strspn(value, "0123456789.e+-") == strlen(value) && value[0])
      die(2, "--set is \"%s\"; the value of %s must be a number, and without --set it is %s", text,
          field, value);
    if (!words[0]) die(2, "--set is \"%s\"; %s", text, said);
    die(2, "--set is \"%s\"; the value of %s must be a word, such as one of: %s", text, field,
        words);
  }
  bare = field[1] == '.' ? field + 2 : field;
  for (i = 0; (name = miras_model_desc_field(i)) != NULL; i++) {
    int far = 2 * distance(bare, name), tail;
    last = strrchr(name, '.');
    tail = last ? 2 * distance(bare, last + 1) + 1 : far;
    if (tail < far) far = tail;
    if (far < near) near = far, snprintf(best, sizeof best, "%s", name);
    if (!far) break;
  }
  if (bare != field) {
    char letters[3 * MIRAS_MAX_LAYER_KINDS + 1] = "";
    for (k = 0; k < MIRAS_MAX_LAYER_KINDS && d->layer[k].letter != field[0]; k++)
      if (d->layer[k].letter)
        snprintf(letters + strlen(letters), 3, " %c", d->layer[k].letter);
    if (k == MIRAS_MAX_LAYER_KINDS)
      die(2, "--set is \"%s\"; the model has no layers %c, but%s", text, field[0], letters);
  }
  if (near < 2 * 4 && near / 2 < (int)strlen(bare))
    die(2, "--set is \"%s\"; there is no field %s; is it %.*s%s? lm models NAME lists them all",
        text, field, (int)(bare - field), field, best);
  die(2, "--set is \"%s\"; there is no field %s; lm models NAME lists them all", text, field);
}

/* The width of the MLPs that comes nearest to --parameters from below. */
static void fit_parameters(const options *o, miras_model_desc *d) {
  char why[256] = "";
  double at[2];
  int i;
  for (i = 0; i < 2; i++) {
    miras_model_desc small = *d;
    miras_model *m;
    set_hidden(&small, 1 + i);
    if (!miras_model_size(&small, why, sizeof why)) die(2, "%s", why);
    m = miras_model_open(&small, NULL, NULL, 0);
    if (!m) die(1, "there is not enough memory for the model");
    at[i] = (double)count_parameters(m);
    miras_close(m);
  }
  if (!(at[1] > at[0])) die(2, "--parameters is %d, but no layer has an MLP", o->parameters);
  if (at[0] > o->parameters)
    die(2, "--parameters is %d; without an MLP the model has %.0f", o->parameters, at[0]);
  set_hidden(d, 1 + (int)((o->parameters - at[0]) / (at[1] - at[0])));
}

/* What the options ask for; leaves with a sentence if that is not a model. */
static miras_model_desc describe(const options *o, int vocab) {
  miras_model_desc d;
  const int transformer = !strcmp(o->model, "transformer");
  const char *name = transformer ? "yaad" : o->model;
  char why[256] = "";
  int k;
  if (miras_model_preset(&d, miras_preset_find(name), o->layers) != MIRAS_OK)
    no_model("--model", o->model);
  if (o->dim % o->heads && !o->key_dim)
    die(2, "--dim is %d; without --key-dim it must be a multiple of --heads, %d", o->dim, o->heads);
  if ((double)o->batch * o->context > 1e8)
    die(2, "--batch times --context is more than 100 million tokens");
  d.heads = o->heads;
  d.layer[0].memory.key_dim = o->key_dim;
  d.layer[0].memory.value_dim = o->value_dim;
  /* attention to everything: a window that holds the longest training text */
  if (miras_preset_find(name) == MIRAS_PRESET_SOFTMAX_ATTENTION &&
      d.layer[0].memory.window < o->context)
    d.layer[0].memory.window = o->context;
  d.layer[2].attention.window =
    o->context; /* further back would be positions that training never had */
  for (k = 0; k < 3; k++) {
    if (o->pattern) d.layer[k].mlp.none = strchr(o->pattern, 'g') != NULL;   /* where MLPs are */
    if (k || d.layer[0].type != MIRAS_LAYER_MEMORY)
      d.layer[k].attention.head_dim = !k && o->value_dim ? o->value_dim : o->key_dim;
  }
  if (transformer && o->pattern && strchr(o->pattern, 'm'))
    die(2, "--pattern is \"%s\"; a transformer has attention (a, w) where others have a memory (m)",
        o->pattern);
  if (o->pattern && strlen(o->pattern) >= sizeof d.pattern)
    die(2, "--pattern is longer than %d characters", (int)sizeof d.pattern - 1);
  if (o->pattern) snprintf(d.pattern, sizeof d.pattern, "%s", o->pattern);
  else if (transformer) snprintf(d.pattern, sizeof d.pattern, "a*%d", o->layers);
  if (o->untied) d.untied = 1;
  if (o->chunk) d.layer[0].memory.chunk = o->chunk;
  if (o->step > 0) d.layer[0].memory.learning_rate = (float)o->step;
  if (o->reset > 0) d.layer[0].memory.reset_every = o->reset;
  d.layer[0].mixer.decay_horizon = o->horizon;
  /* the last level of a tree, which has all older tokens, begins where training sees it */
  while (d.layer[0].mixer.levels > 2 && 1 << d.layer[0].mixer.levels > o->context)
    d.layer[0].mixer.levels--;
  d.vocab = vocab;
  d.width = o->dim;
  d.layers = d.pattern[0] ? 0 : o->layers;
  if (o->conv) d.layer[0].mixer.conv_size = o->conv;
  d.dropout = (float)o->dropout;
  d.seed = o->seed;
  if (o->layer) read_layers(&d, o->layer);
  if (d.pattern[0]) d.layers = 0;
  for (k = 0; k < 16 && o->set[k]; k++) {
    const char *equals = strchr(o->set[k], '=');
    char field[64], said[512];
    miras_result result;
    snprintf(field, sizeof field, "%.*s", equals ? (int)(equals - o->set[k]) : 0, o->set[k]);
    if (!equals) no_set(&d, o->set[k], "");
    result = miras_model_desc_change(&d, field, equals + 1, said, sizeof said);
    if (result == MIRAS_ERR_ARGUMENT) no_set(&d, o->set[k], said);
    if (result != MIRAS_OK) die(2, "--set is \"%s\"; %s", o->set[k], said);
    if (said[0]) fprintf(stderr, "--set %s changes as well: %s\n", o->set[k], said);
  }
  for (k = 0; k < 4; k++)
    if (!d.layer[k].mlp.none && !d.layer[k].mlp.hidden) d.layer[k].mlp.hidden = o->hidden;
  if (o->reset < 0 && lives_on(o, &d)) {   /* on the grid of resets: whole chunks, from 16 on */
    const int chunk = d.layer[0].memory.chunk > 0 ? d.layer[0].memory.chunk : 1;
    const int grid = (15 + chunk) / chunk * chunk;
    /* Behind a window those slots fill that a router has left. */
    const int windows = d.layer[0].mixer.top_slots ? 1 : 2;
    d.layer[0].memory.reset_every = (windows * o->context + grid - 1) / grid * grid;
  }
  if (o->parameters) fit_parameters(o, &d);
  if (!miras_model_size(&d, why, sizeof why)) die(2, "%s", why);
  return d;
}

/* Why a file is no model for us: its descriptor's own sentence, if there is one. */
static const char *reason(const char *path, miras_result result) {
  static char why[256];
  miras_model_desc d;
  size_t n = 0;
  unsigned char *bytes = result == MIRAS_ERR_DESC ? read_file(path, &n, 1) : NULL;
  memset(&d, 0, sizeof d);
  why[0] = 0;
  if (bytes && miras_model_desc_from(&d, bytes, n) == MIRAS_OK)
    (void)miras_model_size(&d, why, sizeof why);
  free(bytes);
  if (result == MIRAS_ERR_IO) {
    FILE *f = fopen(path, "rb");
    if (!f || (fgetc(f) == EOF && ferror(f))) snprintf(why, sizeof why, "%s", strerror(errno));
    if (f) fclose(f);
  } else if (result == MIRAS_ERR_FORMAT) {
    snprintf(why, sizeof why, "it is no model that lm has written, or it is damaged; models of "
                              "others are for examples/run.c");
  }
  return why[0] ? why : miras_result_text(result);
}

/* The model in a file, to be trained on. */
static miras_model *open_from(const char *path) {
  miras_result result = MIRAS_OK;
  miras_model *m = miras_model_open_file(path, NULL, NULL, &result, NULL, 0);
  if (!m) die(1, "%s cannot be opened: %s", path, reason(path, result));
  return m;
}

/* The model in the file, if it is the one that the options describe. */
static miras_model *resume(const options *o, const miras_model_desc *want) {
  miras_model *m = open_from(o->out), *fresh = miras_model_open(want, NULL, NULL, 0);
  char why[256];
  if (!fresh) die(1, "there is not enough memory for the model");
  if (miras_model_desc_differs(miras_model_desc_of(m), miras_model_desc_of(fresh), why, sizeof why))
    die(2, "%s holds another model than these options describe: %s; --resume needs those of the "
           "start", o->out, why);
  miras_close(fresh);
  return m;
}

/* A trainer for m; with --resume it goes on where the file ends. */
static miras_trainer *open_trainer(const options *o, miras_model *m, const miras_parallel *pool) {
  miras_trainer_desc d = {0, 0, 0, 0, 0, NULL, NULL};
  char why[256];
  miras_trainer *t;
  d.batch = o->batch;
  d.context = o->context;
  if (o->carry > 0) d.carried = o->streams > o->batch ? o->streams : o->batch;
  d.parallel = pool;
  t = miras_trainer_open(m, &d, NULL, why, sizeof why);
  if (!t) die(1, "the model cannot be trained: %s", why);
  if (o->resume && miras_load(t, o->out, why, sizeof why) != MIRAS_OK)
    die(1, "%s cannot be resumed: %s", o->out, why);
  if (o->resume && miras_trainer_steps(t) == 0)
    die(1, "%s holds no training state: a finished model is saved without it", o->out);
  return t;
}

/* What a running text needs per block, in KiB. */
static double state_kib(const miras_model *m) {
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  size_t bytes;
  if (!s) die(1, "there is not enough memory for a session");
  (void)miras_session_state(s, &bytes);
  miras_close(s);
  return (double)bytes / 1024 / miras_model_desc_of(m)->layers;
}

/* Running texts. A step takes the next --batch of --streams texts in turn. With the probability of
 * --carry a row goes on where its text stood; otherwise, and at the end of the tokens, the text
 * starts anew at a place drawn by chance. Where texts stand after so many steps follows from the
 * options alone, so a resumed run finds its places again. */
typedef struct texts {
  size_t *at;              /* [streams] the next token; SIZE_MAX: not begun */
  int32_t *stream;         /* [batch] of this step, -1 without --carry */
  unsigned char *fresh;    /* [batch] */
} texts;

static void texts_open(texts *t, const options *o) {
  size_t streams = (size_t)(o->streams > o->batch ? o->streams : o->batch), i;
  t->at = (size_t *)grow(NULL, streams, sizeof *t->at);
  t->stream = (int32_t *)grow(NULL, (size_t)o->batch, sizeof *t->stream);
  t->fresh = (unsigned char *)grow(NULL, (size_t)o->batch, 1);
  for (i = 0; i < streams; i++) t->at[i] = SIZE_MAX;
}

static void texts_close(texts *t) { free(t->at), free(t->stream), free(t->fresh); }

/* Where row `row` of a step begins, in tokens[0..n-1]. */
static size_t texts_next(texts *t, const options *o, size_t step, size_t row, size_t n) {
  size_t rows = (size_t)o->batch, T = (size_t)o->context, i = step * rows + row, at;
  size_t streams = (size_t)(o->streams > o->batch ? o->streams : o->batch);
  double chance = (double)(draw(o->seed + 1, i) >> 11) / 9007199254740992.0;
  at = (size_t)(draw(o->seed, i) % (n - T));
  t->stream[row] = -1;
  t->fresh[row] = 1;
  if (!(o->carry > 0)) return at;
  t->stream[row] = (int32_t)(i % streams);
  if (t->at[i % streams] < n - T && chance < o->carry) {
    at = t->at[i % streams];
    t->fresh[row] = 0;
  }
  t->at[i % streams] = at + T;
  return at;
}

typedef struct training {
  const options *o;
  vocabulary v;
  int32_t *tokens, *x, *y; /* of the file; of a step's windows, and what follows each */
  size_t train_count, val_count, T, rows;
  miras_model_desc d;
  miras_model *m;
  miras_trainer *t;
  const miras_parallel *pool;
  record history;
  progress line;
  texts running;
  char *csv, *svg, *vocab;
  int by_clock, evaluations;
  size_t parameters, first, step, planned;
  double start, budget, next, busy; /* seconds: now() of the start, the rest since then */
  double val, best;
  double price;            /* seconds that a token of validation takes, in windows and in a pass */
  const char *name;        /* of the model */
} training;

/* Tokens of the text that was kept back that are validated at the end. By the clock that is a part
 * of the time, and at most a fifth of it. */
static size_t training_kept(const training *r) {
  const double most = r->by_clock && r->price > 0 ? r->budget / 5 / r->price : 1e300;
  const size_t least = 2 * r->T;
  if (most >= (double)r->val_count) return r->val_count;
  return most > (double)least ? (size_t)most : least < r->val_count ? least : r->val_count;
}

/* What is asked for is checked before anything is trained or written. */
static void training_open(training *r, const options *o, const unsigned char *text, size_t n,
                          const char *name) {
  size_t count, i;
  memset(r, 0, sizeof *r);
  r->o = o;
  if (o->from) {
    r->m = open_from(o->from);
    r->d = *miras_model_desc_of(r->m);
    r->v = load_vocabulary(o->from, r->d.vocab);
  } else {
    r->v = make_vocabulary(text, n, o->chars, name);
  }
  r->v.context = o->context;
  r->tokens = encode(&r->v, text, n, name, &count);
  r->T = (size_t)o->context, r->rows = (size_t)o->batch, r->planned = (size_t)o->steps;
  r->csv = join(o->out, ".loss.csv"), r->svg = join(o->out, ".loss.svg");
  r->vocab = join(o->out, ".vocab");
  if (!o->from) snprintf(r->v.model, sizeof r->v.model, "%s", o->model);
  r->name = r->v.model[0] ? r->v.model : o->from ? base_name(o->from) : o->model;
  r->by_clock = o->minutes > 0 && !o->steps_given;
  r->budget = o->minutes * 60, r->next = r->budget / 20;
  r->val = r->best = UNKNOWN;
  r->train_count = (size_t)((double)count * (1 - o->val));
  r->val_count = count - r->train_count;
  if (r->train_count < r->T + 1)
    die(2, "%s has %lu tokens to learn from, and --context %d needs at least %lu", name,
        (unsigned long)r->train_count, o->context, (unsigned long)r->T + 1);
  if (o->val > 0 && r->val_count < 2)
    die(2, "--val is %g; that leaves no two tokens of %s for validation", o->val, name);

  for (i = 0; i < 4; i++) {   /* --from may be --out: the new model takes the old one's place */
    const char *out[4];
    out[0] = o->out, out[1] = r->vocab, out[2] = r->csv, out[3] = r->svg;
    if (o->file[0]) not_input("--out", out[i], o->file[0]);
    if (i > 1 && o->from) not_input("--out", out[i], o->from);
    try_output(out[i]);
  }
  if (r->v.count < 2) die(2, "%s has only one character; there is nothing to learn", name);
  if (!o->from) r->d = describe(o, r->v.count);
  if (o->threads > 1) {
    r->pool = miras_pool_open(o->threads, NULL, NULL, 0);
    if (!r->pool) die(1, "%d threads cannot be started", o->threads);
  }
  if (o->resume) {
    miras_close(r->m);
    r->m = resume(o, &r->d);
  } else if (!o->from) {
    r->m = miras_model_open(&r->d, NULL, NULL, 0);
  }
  if (!r->m) die(1, "there is not enough memory for the model");
  if (o->only && !miras_model_train_only(r->m, o->only))
    die(2, "--only is \"%s\"; one of its patterns matches no parameter of the model, such as %s",
        o->only, miras_model_views(r->m, NULL)[1].name);
  r->t = open_trainer(o, r->m, r->pool);
  r->parameters = count_parameters(r->m);
  r->first = r->step = (size_t)miras_trainer_steps(r->t);
  if (o->resume) {
    record_load(&r->history, r->csv, r->first);
    for (i = 0; i < r->history.count; i++)
      if (!isnan(r->history.val[i])) {
        r->val = (double)r->history.val[i];
        if (!(r->val > r->best)) r->best = r->val; /* also when best is unknown */
      }
  }
  r->x = (int32_t *)grow(NULL, 2 * r->rows * r->T, sizeof *r->x);
  r->y = r->x + r->rows * r->T;
  texts_open(&r->running, o);
  for (i = 0; i < r->first * r->rows; i++)
    texts_next(&r->running, o, i / r->rows, i % r->rows, r->train_count);
}

static void training_close(training *r) {
  miras_close(r->t);
  miras_close(r->m);
  miras_pool_close(r->pool);
  free(r->tokens), free(r->x), free(r->history.loss), free(r->history.val), free(r->v.code);
  free(r->csv), free(r->svg), free(r->vocab);
  texts_close(&r->running);
}

/* A second Ctrl-C ends the program at once. */
static void catch_signals(void) {
#ifdef _WIN32
  signal(SIGINT, on_signal);   /* goes back to its default by itself there */
  signal(SIGTERM, on_signal);
#else
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = (int)SA_RESETHAND;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
#endif
}

/* How it is shown, and how Ctrl-C ends it. */
static void training_announce(training *r, const char *text) {
  const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
  const options *o = r->o;
  r->line.live = isatty(STDERR_FILENO);
  r->line.colour =
    r->line.live && !(no_colour && *no_colour) && terminal && strcmp(terminal, "dumb");
  fprintf(stderr, "learning to write like %s: ", text);
  if (r->by_clock && o->minutes == 1) fputs("a minute", stderr);
  else if (r->by_clock) fprintf(stderr, "%g minutes", o->minutes);
  else fprintf(stderr, "%lu step%s", (unsigned long)r->planned, r->planned == 1 ? "" : "s");
  fprintf(stderr, " on %d thread%s (%s)\n", o->threads, o->threads == 1 ? "" : "s", miras_isa());
  fprintf(stderr, "%s: %lu parameters, %lu tokens to learn from, %lu kept for validation\n",
          r->name, (unsigned long)r->parameters, (unsigned long)r->train_count,
          (unsigned long)r->val_count);
  if (o->from && strcmp(r->name, base_name(o->from)))
    fprintf(stderr, "it begins as %s\n", o->from);
  if (r->d.layer[0].memory.reset_every)
    fprintf(stderr, "to outlive windows, heads of its memory begin anew after %d tokens, in turn\n",
            r->d.layer[0].memory.reset_every);

  catch_signals();
}

static void training_save(training *r) {
  save_model(r->m, r->t, &r->v, r->o->out);
  record_csv(&r->history, r->csv);
}

/* The loss of one step on its windows, which it learns from. */
static float training_learn(training *r) {
  const miras_adamw_options adamw = MIRAS_ADAMW((float)r->o->decay, 1.0f);
  const options *o = r->o;
  const size_t T = r->T;
  const double peak = o->lr > 0 ? o->lr : o->from ? 1e-3 : 3e-3;   /* what is known is kept */
  miras_result result;
  miras_batch batch;
  size_t row;
  float loss;
  /* Which windows a step sees depends on the options and the step alone. */
  for (row = 0; row < r->rows; row++) {
    size_t at = texts_next(&r->running, o, r->step, row, r->train_count);
    memcpy(r->x + row * T, r->tokens + at, T * sizeof *r->x);
    memcpy(r->y + row * T, r->tokens + at + 1, T * sizeof *r->y);
  }
  memset(&batch, 0, sizeof batch);
  batch.batch = (int)r->rows, batch.length = (int)T, batch.tokens = r->x, batch.classes = r->y;
  if (o->carry > 0) batch.carry = r->running.stream, batch.restart = r->running.fresh;
  result = miras_trainer_loss(r->t, &batch, 1, &loss);
  if (result != MIRAS_OK) die(1, "a step was refused: %s", miras_result_text(result));
  miras_trainer_backward(r->t, NULL);
  miras_trainer_step(r->t, &adamw, miras_schedule_cosine(r->step, (uint64_t)o->warmup, r->planned,
                                                (float)peak, 0.05f), NULL);
  return loss;
}

/* The loss of the text that was kept back, of some of its windows. */
static void training_look(training *r) {
  const size_t most = r->by_clock ? 8192 : 131072; /* tokens of a validation on the way */
  const int32_t *kept = r->tokens + r->train_count;
  const double begun = now();
  score s = score_windows(r->t, kept, r->val_count, 1 + most / r->T);
  r->val = mean(s);
  if (!(r->val > r->best)) r->best = r->val;
  if (r->by_clock && !(r->price > 0)) {   /* what a token costs, so that the end has its time */
    const double windows = (now() - begun) / (double)s.targets, then = now();
    s = score_stream(r->m, kept, r->val_count < 2048 ? r->val_count : 2048);
    r->price = windows + (now() - then) / (double)s.targets;
  }
}

/* Is it time to look at the text that was kept back? If so that is done. */
static void training_validate(training *r, float loss) {
  const double elapsed = now() - r->start;
  const size_t taken = r->step + 1;
  if (!r->val_count) return;
  if (r->by_clock ? !(elapsed > r->next)
                  : !r->o->eval_every || taken % (size_t)r->o->eval_every || taken >= r->planned)
    return;
  training_look(r);
  /* by the clock: twenty times in all, and at most a tenth of the time */
  r->next = now() - r->start + fmax(r->budget / 20, 9 * (now() - r->start - elapsed));
  record_add(&r->history, r->step, loss, (float)r->val);
  r->evaluations++;
  training_save(r);
}

/* A step; 0 when there is none left to take. */
static int training_step(training *r) {
  const double begun = now();
  const double budget = r->budget - (r->price > 0 ? r->price * (double)training_kept(r) : 0);
  const size_t taken = r->step + 1 - r->first;
  double elapsed = begun - r->start, remaining;
  float loss;
  if (r->by_clock) {
    /* The plan is what the speed so far promises; the first steps only guess at it. */
    r->planned = r->step - r->first > 2
                   ? r->first + (size_t)((double)(r->step - r->first) * budget / elapsed) + 1
                   : r->first + 1000;
    if (elapsed >= budget) return 0;
  } else if (r->step >= r->planned ||
             (r->o->minutes > 0 && r->step > r->first && elapsed >= budget)) {
    return 0;
  }
  loss = training_learn(r);
  record_add(&r->history, r->step, loss, NAN);
  r->busy += now() - begun;
  if (!isfinite(loss))
    die(1, "the loss stopped being a number at step %lu; a smaller --lr may help",
        (unsigned long)r->step + 1);
  elapsed = now() - r->start;
  training_validate(r, loss);
  remaining = budget - elapsed;
  if (!r->by_clock) {
    const double rest = elapsed / (double)taken * (double)(r->planned - r->step - 1);
    if (!(r->o->minutes > 0 && remaining < rest)) remaining = rest;
  }
  show(&r->line, r->step + 1, r->planned,
       record_mean(&r->history, r->step < 20 ? 0 : r->step - 19, r->step + 1), r->val,
       (double)(taken * r->rows * r->T) / r->busy, remaining > 0 ? remaining : 0,
       r->step == r->first || (r->evaluations && !isnan(r->history.val[r->step])));
  r->step++;
  return 1;
}

static void training_draw(const training *r) {
  char title[160];
  snprintf(title, sizeof title, "%s, %lu parameters, %lu steps of %lu tokens", r->name,
           (unsigned long)r->parameters, (unsigned long)r->step, (unsigned long)(r->rows * r->T));
  record_svg(&r->history, r->svg, title);
}

/* Two sentences: how far the loss came down, and whether the model outlives its windows. */
static void training_verdict(const training *r, double final, double stream, size_t kept) {
  const float first = r->history.loss[0];
  fprintf(stderr, "%lu tokens that it has not seen: %.4f nats per token (%.2f bits)",
          (unsigned long)kept, final, final / log(2));
  if (!r->first && !r->o->from && !isnan(first))
    fprintf(stderr, ", %.4f before the first step", (double)first);
  fprintf(stderr, "\nthat is in windows of %lu; in one pass, its memory carried along, %.4f",
          (unsigned long)r->T, stream);
  if (stream <= final + 0.01)
    fputs(": it lives longer than its windows\n", stderr);
  else
    fprintf(stderr, ": its memory does not outlive its windows yet; longer training, --horizon "
                    "%lu, --carry 0.75 or --reset %lu see to that\n", (unsigned long)r->T,
            2 * (unsigned long)r->T);
}

/* The end of a training: files, a verdict, a sample, and the line of results. The files come first,
 * so that a signal may end the rest. */
static void training_report(training *r, double seconds) {
  const int32_t *kept = r->tokens + r->train_count;
  const options *o = r->o;
  const size_t step = r->step, count = training_kept(r);
  double final, stream;
  save_model(r->m, NULL, &r->v, o->out);
  record_csv(&r->history, r->csv);
  signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL);
  say_wait("reading what was kept back", count, r->busy / 2, (step - r->first) * r->rows * r->T);
  final = mean(score_windows(r->t, kept, count, 0));
  if (!(final > r->best)) r->best = final;
  if (step) record_add(&r->history, step - 1, NAN, (float)final);
  stream = mean(score_stream(r->m, kept, count));
  record_csv(&r->history, r->csv);
  training_draw(r);
  if (count > 1 && step) training_verdict(r, final, stream, count);
  fprintf(stderr, "wrote %s, %s and %s\n", o->out, r->csv, r->svg);

  if (o->tokens > 0) {
    miras_sampler sampling = {0.8f, 40, 0, 0};
    int32_t prompt[32];
    size_t k = 0, at = r->val_count > 32 ? r->train_count : 0;
    sampling.seed = o->seed;
    for (; k < 32 && at + k < r->train_count + r->val_count; k++) prompt[k] = r->tokens[at + k];
    printf("\n---- a sample ----\n");
    write_sample(r->m, &r->v, prompt, k, o->tokens, sampling);
    printf("\n---- the end ----\n\n");
  }
  printf("result model=%s parameters=%lu context=%d batch=%d steps=%lu train=%.4f best=%.4f "
         "val=%.4f stream=%.4f tokens_per_s=%.0f state_kib=%.1f reset=%d peak_mib=%.1f "
         "seconds=%.1f\n",
         r->name, (unsigned long)r->parameters, o->context, o->batch, (unsigned long)step,
         record_mean(&r->history, step < 100 ? 0 : step - 100, step), r->best, final, stream,
         r->busy > 0 ? (double)((step - r->first) * r->rows * r->T) / r->busy : 0, state_kib(r->m),
         r->d.layer[0].memory.reset_every, peak_mib(), seconds);
}

/* by_clock: plan for this many minutes, the schedule follows the clock. Otherwise o->steps steps,
 * cut after o->minutes if that is set, but not before the first. */
static int train(const options *o, const unsigned char *text, size_t n, const char *name) {
  training r;
  double seconds;
  int status = 0;
  training_open(&r, o, text, n, name);
  training_announce(&r, name);
  r.start = now();
  while (!stop_signal && training_step(&r)) continue;
  seconds = now() - r.start;
  if (!r.step && stop_signal)          /* a file would hold nothing to resume                     */
    die(128 + (int)stop_signal, "stopped before the first step; nothing was written");
  if (r.step == r.first && !stop_signal && r.by_clock)
    die(2, "--minutes is %g; that leaves no time for a step", o->minutes);
  if (progress_open) fputc('\n', stderr);
  progress_open = 0;
  if (stop_signal || (!r.by_clock && r.step < r.planned)) {
    if (!stop_signal && r.val_count && r.step > r.first) {
      training_look(&r);
      record_add(&r.history, r.step - 1, NAN, (float)r.val);
    }
    training_save(&r);
    training_draw(&r);
    fprintf(stderr, "stopped after %lu of %lu steps", (unsigned long)r.step,
            (unsigned long)r.planned);
    if (!stop_signal && !isnan(r.val)) fprintf(stderr, ", validation %.4f nats per token", r.val);
    fprintf(stderr, "; %s holds all that --resume needs, %s the losses\n", o->out, r.csv);
    status = stop_signal ? 128 + (int)stop_signal : 0;
  } else {
    training_report(&r, seconds);
  }
  training_close(&r);
  return status;
}

/* ---- generate, eval, models ------------------------------------------------------------------ */

/* A file may come from anywhere and ask for any amount of memory: --limit bounds that. learns: how
 * fast its head goes on learning, 0 to 1. */
static miras_model *open_model(const options *o, double learns) {
  miras_result result = MIRAS_OK;
  miras_model_desc bounds;
  miras_model *m;
  memset(&bounds, 0, sizeof bounds);
  bounds.limit = (uint64_t)o->limit << 20;
  bounds.layer[0].memory.reset_every = o->anew;
  bounds.weights = weights_of(o);
  if (learns > 0) {
    bounds.adapt.learning_rate = (float)learns;
    bounds.adapt.context_rate = (float)learns / 2;
    bounds.adapt.hidden = 1;
    bounds.adapt.contexts = 12;
  }
  m = miras_model_open_file(o->file[0], &bounds, NULL, &result, NULL, 0);
  if (result == MIRAS_ERR_SIZE)
    die(1, "%s asks for more than %d MiB; --limit allows more", o->file[0], o->limit);
  if (!m) die(1, "%s cannot be opened: %s", o->file[0], reason(o->file[0], result));
  return m;
}

static int generate(const options *o) {
  miras_model *m = open_model(o, 0);
  vocabulary v = load_vocabulary(o->file[0], miras_model_desc_of(m)->vocab);
  miras_sampler sampling = {0, 0, 0, 0};
  size_t n = 0;
  int32_t *prompt =
    encode(&v, (const unsigned char *)o->prompt, strlen(o->prompt), "the prompt", &n);
  double start;
  if (!n) die(2, "--prompt is empty; the model needs at least one character to continue");
  sampling.temperature = (float)o->temperature;
  sampling.top_k = o->top_k;
  sampling.top_p = (float)o->top_p;
  sampling.seed = o->seed;
  fputs(o->prompt, stdout);
  start = now();
  write_sample(m, &v, prompt, n, o->tokens, sampling);
  fputc('\n', stdout);
  if (isatty(STDERR_FILENO)) fprintf(stderr, "%.0f tokens/s\n", o->tokens / (now() - start));
  free(prompt), free(v.code);
  miras_close(m);
  return 0;
}

static int evaluate(const options *o) {
  size_t n, count, i, bytes = 0;
  unsigned char *text = read_file(o->file[1], &n, 0), unused[4];
  miras_model *m = open_model(o, 0);
  vocabulary v = load_vocabulary(o->file[0], miras_model_desc_of(m)->vocab);
  int32_t *tokens = encode(&v, text, n, o->file[1], &count);
  int window = o->window ? o->window : v.context;
  score s, windows[BINS], stream[BINS], tenths[10];
  miras_session *session;
  const char *svg = o->svg ? o->svg : "lm_eval.svg";
  char title[160];
  double start;
  not_input("--svg", svg, o->file[0]), not_input("--svg", svg, o->file[1]);
  try_output(svg);
  if (count < 2) die(2, "%s is too short: it takes two tokens to predict one", o->file[1]);
  for (i = 1; i < count; i++) bytes += token_text(&v, tokens[i], unused);
  printf("%lu tokens, %lu bytes predicted       bits per byte  nats per byte  nats per token\n",
         (unsigned long)(count - 1), (unsigned long)bytes);
  session = miras_session_open(m, NULL, NULL, NULL, 0);
  if (!session) die(1, "there is not enough memory for a session");
  n = count - 1 < 256 ? count - 1 : 256;
  start = now();
  nats_of(session, tokens, n);
  say_wait("reading it", (count - 1) * (o->adapt ? 4 : 2), now() - start, n);
  memset(windows, 0, sizeof windows);
  memset(stream, 0, sizeof stream);
  memset(tenths, 0, sizeof tenths);
  score_positions(session, tokens, count - 1, stream, tenths);
  s = score_all(stream);
  if (!isfinite(s.nats))
    die(1, "the losses of %s are not finite: its weights are damaged, or too large for --weights",
        o->file[0]);
  printf("%-44s %13.4f  %13.4f  %14.4f\n", "one pass, memory carried to the end",
         s.nats / log(2) / (double)bytes, s.nats / (double)bytes, mean(s));
  if (o->adapt) {
    miras_model *learns = open_model(o, 1);
    s = score_stream(learns, tokens, count);
    printf("%-44s %13.4f  %13.4f  %14.4f\n", "one pass, the head learning from the text",
           s.nats / log(2) / (double)bytes, s.nats / (double)bytes, mean(s));
    miras_close(learns);
  }
  for (i = 0; i + 1 < count; i += (size_t)window)
    score_positions(session, tokens + i, count - 1 - i < (size_t)window ? count - 1 - i
                                                                        : (size_t)window,
                    windows, NULL);
  s = score_all(windows);
  printf("windows of %-33d %13.4f  %13.4f  %14.4f\n", window, s.nats / log(2) / (double)bytes,
         s.nats / (double)bytes, mean(s));
  miras_close(session);
  if (count > 1000) {   /* of less, a tenth says nothing */
    printf("one pass, tenth after tenth:");
    for (i = 0; i < 10; i++) printf(i ? " %.4f" : "\n  %.4f", mean(tenths[i]));
    printf("\n");
  }
  printf("\nnats per token by position    windows   one pass\n");
  for (i = 0; i < BINS && stream[i].targets; i++) {
    double from = i ? pow(2, (double)i - 1) : 0, to = pow(2, (double)i) - 1;
    printf("%12.0f .. %-12.0f", from, to);
    if (windows[i].targets) printf("%10.4f", mean(windows[i]));
    else printf("%10s", "");
    printf(" %10.4f\n", mean(stream[i]));
  }
  snprintf(title, sizeof title, "loss by position, windows of %d and one pass", window);
  positions_svg(windows, stream, svg, title);
  printf("\nwrote %s\n", svg);
  miras_close(m);
  free(text), free(tokens), free(v.code);
  return 0;
}

/* Before a training: no output replaces an input, and every output can be written. */
static void check_outputs(const options *o, int with_vocabulary) {
  char *vocab = join(o->out, ".vocab");
  not_input("--out", o->out, o->file[0]);
  try_output(o->out);
  if (with_vocabulary) {
    not_input("--out", vocab, o->file[0]);
    try_output(vocab);
  }
  free(vocab);
}

static int convert(const options *o) {
  miras_model *m = open_model(o, 0);
  vocabulary v = load_vocabulary(o->file[0], miras_model_desc_of(m)->vocab);
  save_model(m, NULL, &v, o->out);
  printf("wrote %s\n", o->out);
  free(v.code);
  miras_close(m);
  return 0;
}

/* Numbers of an array. */
static void emit_bytes(FILE *f, const unsigned char *x, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) fprintf(f, "%s%u,", i % 24 ? "" : "\n  ", x[i]);
}

/* C source that holds a file: of a model with functions that open it, and its characters. */
static int emit(const options *o) {
  size_t n = 0;
  unsigned char *bytes = read_file(o->file[0], &n, 0);
  const int memory = n > 8 && !memcmp(bytes, "mirastat", 8);
  vocabulary v = {0, 0, NULL, 0, ""};
  FILE *f;
  int i;
  if (!memory) {
    miras_model *m = open_model(o, 0);
    free(bytes);
    v = load_vocabulary(o->file[0], miras_model_desc_of(m)->vocab);
    n = miras_save_to(m, NULL, 0);
    bytes = (unsigned char *)grow(NULL, n, 1);
    if (miras_save_to(m, bytes, n) != n) die(1, "%s cannot be written", o->out);
    miras_close(m);
  }
  f = create(o->out);
  fprintf(f, "/* Written by lm emit. Include it behind miras.h in one source file. */\n"
             "static const unsigned char %s_file[%lu] = {", memory ? "memory" : "model",
          (unsigned long)n);
  emit_bytes(f, bytes, n);
  fprintf(f, "\n};\n");
  if (memory)
    fprintf(
      f,
      "\n/* miras_load_from(m, memory_file, sizeof memory_file, NULL, 0), into a memory or a "
      "session of the same\n * descriptor. */\n");
  for (i = 0; i < v.count && v.characters; i++)
    fprintf(f, i ? "%s0x%lx," : "\n/* Code points of the tokens. */\n"
                                "static const uint32_t model_characters[] = {%s0x%lx,",
            i % 10 ? " " : "\n  ", (unsigned long)v.code[i]);
  if (v.characters) fprintf(f, "\n};\n");
  if (!memory)
    fprintf(
      f,
      "\nstatic int model_describe(miras_model_desc *d) {\n"
      "  memset(d, 0, sizeof *d);\n"
      "  if (miras_model_desc_from(d, model_file, sizeof model_file) != MIRAS_OK)\n"
      "    return 0;\n  d->weights = MIRAS_WEIGHTS_%s;\n"
      "  return 1;\n"
      "}\n"
      "/* The bytes that model_init needs. */\n"
      "static size_t model_size(void) {\n"
      "  miras_model_desc d;\n"
      "  return model_describe(&d) ? miras_model_size(&d, NULL, 0) : 0;\n"
      "}\n"
      "/* NULL if they are fewer. */\n"
      "static miras_model *model_init(void *buffer, size_t bytes) {\n"
      "  miras_model_desc d;\n"
      "  miras_model *m = model_describe(&d) ? miras_model_init(buffer, bytes, &d, NULL, 0) : NULL;"
      "\n  return m && miras_load_from(m, model_file, sizeof model_file, NULL, 0) ==\n"
      "             MIRAS_OK ? m : NULL;\n"
      "}\n",
      weights_words[weights_of(o)].name);
  finish(f, o->out);
  printf("wrote %s, %lu bytes of it the file's\n", o->out, (unsigned long)n);
  free(bytes), free(v.code);
  return 0;
}

static int list_models(const options *o) {
  const char *only = o->file[0];
  static const char *const field[] = {"memory.architecture", "memory.bias", "memory.retention",
                                      "memory.algorithm", "memory.chunk"};
  static const int width[] = {13, 15, 11, 18, 0};
  int i, k;
  if (only) {
    miras_model_desc d;
    char value[32];
    if (miras_model_preset(&d, miras_preset_find(only), 1) != MIRAS_OK)
      no_model("the name", only);
    if (o->program) {
      options of = *o;
      miras_model *m;
      char why[256] = "";
      of.model = only;
      d = describe(&of, 256);
      if (!(m = miras_model_open(&d, NULL, why, sizeof why))) die(1, "%s", why);
      print_layers(m);
      miras_close(m);
      return 0;
    }
    for (i = 0; miras_model_desc_field(i) != NULL; i++)
      printf("%s=%s\n", miras_model_desc_field(i),
             miras_model_desc_get(&d, miras_model_desc_field(i), value, sizeof value));
    return 0;
  }
  printf("%-27s", "name");
  for (k = 0; k < 5; k++) printf("%-*s", width[k], strchr(field[k], '.') + 1);
  for (i = 0; i < MIRAS_PRESET_COUNT; i++) {
    miras_model_desc d;
    char value[32];
    if (i == MIRAS_PRESET_ROWS) printf("\n\nlayers and models as published:\n");
    miras_model_preset(&d, (miras_preset)i, 0);
    printf("\n%-27s", miras_preset_name((miras_preset)i));
    for (k = 0; k < 5; k++)
      printf("%-*s", width[k], miras_model_desc_get(&d, field[k], value, sizeof value));
  }
  printf("\n\nand the transformer that all are measured against: transformer\n");
  return 0;
}

/* A model that comes with the program reads a page. */
static int read_with(const options *o, const char *page) {
  const char *path = o->with ? o->with : "examples/weights/yaad.safetensors";
  const char *svg = o->svg ? o->svg : "lm_read.svg";
  options of = *o;
  miras_model *frozen, *learning, *knowing;
  vocabulary v;
  FILE *f = fopen(path, "rb");
  if (!f && !o->with)
    die(2, "%s is not here: run lm in the folder that holds miras.h, or say --with MODEL", path);
  if (f) fclose(f);
  of.file[0] = path;
  not_input("--svg", svg, path), not_input("--svg", svg, page);
  try_output(svg);
  frozen = open_model(&of, 0);
  learning = open_model(&of, 1);
  knowing = open_model(&of, 2e-4);
  v = load_vocabulary(path, miras_model_desc_of(frozen)->vocab);
  printf("%s: %lu parameters%s.\n"
         "Its layers are memories of the text so far. Its head, which turns what they say into\n"
         "letters, is a memory, too, and learns from every letter that comes.\n\n",
         v.model[0] ? v.model : base_name(path), (unsigned long)count_parameters(frozen),
         o->with ? "" : ", trained on Austen, Bierce and the Jargon File "
                        "(examples/weights/README.md)");
  read_page(frozen, learning, knowing, &v, page, svg);
  if (!o->with)
    printf("\nNext:\n"
           "  ./lm read YOURS.txt         the same of a text of yours\n"
           "  ./lm train %s --from %s --minutes 0.3\n"
           "                              all of it learns to write so, in 20 seconds; then\n"
           "                              ./lm generate model.safetensors --prompt \"The \"\n"
           "  ./lm train                  from nothing, in a minute; ./lm --help has the rest\n",
           page, path);
  free(v.code);
  miras_close(frozen);
  miras_close(learning);
  miras_close(knowing);
  return 0;
}

/* From nothing: a minute on the files of the project. */
static int train_here(options *o) {
  static const char *const names[2] = {"miras.h", "README.md"};
  unsigned char *text = NULL;
  size_t n = 0;
  int i;
  for (i = 0; i < 2; i++) {
    size_t more;
    unsigned char *part = read_file(names[i], &more, 1);
    if (!part)
      die(2, "%s is not here: run lm in the folder that holds miras.h and README.md", names[i]);
    text = (unsigned char *)grow(text, n + more, 1);
    memcpy(text + n, part, more);
    n += more;
    free(part);
  }
  o->minutes = 1;
  o->batch = 8;    /* many small steps learn most in a minute */
  o->horizon = 64; /* and gates that look back no further soon outlive their windows */
  i = train(o, text, n, "miras.h and README.md");
  free(text);
  return i;
}

/* What is asked for, and where it goes. */
static options given;

static const option table[] = {
  {"model", "t", 's', &given.model, 0, 0, "of lm models, or transformer (yaad)"},
  {"pattern", "t", 's', &given.pattern, 0, 0,
   "layers: m --model, w window of 64, a attention, g MLP (then the others have none); "
   "\"mmwm\", \"(mw)*2\" (--layers times m)"},
  {"chars", "t", 'f', &given.chars, 0, 0, "tokens are the file's characters, not bytes"},
  {"dim", "t", 'i', &given.dim, 1, 65536, "width of the network"},
  {"layers", "t", 'i', &given.layers, 1, 256, "how many, without --pattern"},
  {"heads", "t", 'i', &given.heads, 1, 4096, "memories per layer"},
  {"key-dim", "t", 'i', &given.key_dim, 0, 4096, "width of a memory's keys; 0: --dim / --heads"},
  {"value-dim", "t", 'i', &given.value_dim, 0, 4096,
   "width of a memory's values; 0: that of its keys"},
  {"hidden", "t", 'i', &given.hidden, 0, 1 << 20, "width of the MLPs; 0: 8/3 of --dim"},
  {"parameters", "t", 'i', &given.parameters, 0, INT_MAX,
   "choose --hidden for at most so many; 0: do not"},
  {"layer", "t", 's', &given.layer, 0, 0,
   "a file of layers of one's own, such as examples/mine.layer; --model has what else there is"},
  {"program", "m", 'f', &given.program, 0, 0, "a model's layers as such a file"},
  {"dim", "m", 'i', &given.dim, 1, 65536, "width of the network"},
  {"heads", "m", 'i', &given.heads, 1, 4096, "memories per layer"},
  {"untied", "t", 'f', &given.untied, 0, 0, "a matrix of its own for the head"},
  {"conv", "t", 'i', &given.conv, 1, 8, "taps of the causal convolutions"},
  {"chunk", "t", 'i', &given.chunk, 0, 1024, "tokens that share one anchor; 0: the model's own"},
  {"step", "t", 'r', &given.step, 0, 1e4, "the memory's learning step; 0: the model's own"},
  {"horizon", "t", 'i', &given.horizon, 0, 1 << 30,
   "tokens that decay gates may look back; 0: no limit"},
  {"reset", "t", 'i', &given.reset, -1, 1 << 30,
   "tokens after which a head starts anew; 0: never (two windows, of slots that a router picks "
   "one, if nothing else ends it)"},
  {"carry", "t", 'r', &given.carry, 0, 1, "how often a window goes on where its text stood"},
  {"streams", "t", 'i', &given.streams, 1, 1 << 16, "running texts to choose from, with --carry"},
  {"set", "t", 'l', given.set, 0, 0, "FIELD=VALUE of the descriptor: memory.p=4, w.window=32, ..."},
  {"context", "t", 'i', &given.context, 1, 1 << 20, "tokens of a training window"},
  {"batch", "t", 'i', &given.batch, 1, 65536, "windows of a step"},
  {"steps", "t", 'i', &given.steps, 1, INT_MAX, "steps to train"},
  {"minutes", "t", 'r', &given.minutes, 1e-8, 1e6,
   "train that long, schedule by the clock; with --steps: stop then, to be resumed"},
  {"lr", "t", 'r', &given.lr, 1e-9, 10,
   "peak learning rate, then a cosine to 5 % (0.003; with --from 0.001)"},
  {"warmup", "t", 'i', &given.warmup, 0, INT_MAX, "steps of linear warm-up"},
  {"decay", "t", 'r', &given.decay, 0, 1, "weight decay of the matrices"},
  {"dropout", "t", 'r', &given.dropout, 0, 0.9, "fraction dropped from every branch"},
  {"val", "t", 'r', &given.val, 0, 0.9, "last part of the file, kept for validation"},
  {"eval-every", "t", 'i', &given.eval_every, 0, INT_MAX,
   "steps between validations and checkpoints"},
  {"threads", "t", 'i', &given.threads, 1, 256, "cores to use"},
  {"out", "t", 's', &given.out, 0, 0,
   "the model (model.safetensors); OUT.loss.csv and OUT.loss.svg beside it"},
  {"out", "c", 's', &given.out, 0, 0, "where to (model.safetensors; model.c)"},
  {"resume", "t", 'f', &given.resume, 0, 0, "go on from --out; give the options of the start"},
  {"from", "t", 's', &given.from, 0, 0,
   "begin with this model, its vocabulary and its layers; the options for them do not count"},
  {"only", "t", 's', &given.only, 0, 0,
   "train these parameters alone: \"*memory.init,*gates.*\""},
  {"prompt", "g", 's', &given.prompt, 0, 0, "text to continue (a newline)"},
  {"tokens", "g", 'i', &given.tokens, 0, INT_MAX, "how many to write"},
  {"temperature", "g", 'r', &given.temperature, 0, 100, "0: always the likeliest"},
  {"top-k", "g", 'i', &given.top_k, 0, INT_MAX, "only among the k likeliest; 0: all"},
  {"top-p", "g", 'r', &given.top_p, 0, 1, "only among the likeliest that sum to p; 0: all"},
  {"window", "e", 'i', &given.window, 1, 1 << 20,
   "length of the windows; else the context of training"},
  {"reset", "ge", 'i', &given.anew, 0, 1 << 30,
   "tokens after which a head starts anew; 0: as trained"},
  {"adapt", "e", 'f', &given.adapt, 0, 0,
   "the head goes on learning from the text: what is that worth?"},
  {"with", "r", 's', &given.with, 0, 0, "the model that reads (examples/weights/yaad.safetensors)"},
  {"weights", "gecr", 's', &given.weights, 0, 0,
   "how matrices are held: " LM_WEIGHTS},
  {"limit", "gecr", 'i', &given.limit, 1, INT_MAX, "MiB that the model or a text's state may take"},
  {"svg", "e", 's', &given.svg, 0, 0,
   "chart of the losses by position (lm_eval.svg)"},
  {"svg", "r", 's', &given.svg, 0, 0, "chart of the losses along the page (lm_read.svg)"},
  {"seed", "tg", 'u', &given.seed, 0, 0, "of the parameters, windows and samples"},
#ifdef LM_MORE_OPTIONS     /* of a program that includes this one */
  LM_MORE_OPTIONS
#endif
  {NULL, NULL, 0, NULL, 0, 0, NULL}};

int main(int argc, char **argv) {
  options *o = &given;
  const char *command = argc > 1 ? argv[1] : NULL;
  long cores = 1;
  int status = 2, i;
#ifdef _SC_NPROCESSORS_ONLN
  cores = sysconf(_SC_NPROCESSORS_ONLN);
#endif
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);   /* into a pipe, too, line by line */
  o->model = "yaad";
  o->out = "model.safetensors";
  o->prompt = "\n";
  o->dim = 128, o->layers = 2, o->heads = 4, o->context = 64, o->batch = 32, o->steps = 5000;
  o->streams = 128, o->reset = -1;
  o->decay = 0.1, o->warmup = 100, o->val = 0.1, o->eval_every = 250;
  o->seed = 1;
  o->threads = cores < 1 ? 1 : cores > 256 ? 256 : (int)cores;
  o->tokens = 400, o->temperature = 0.8, o->top_k = 40, o->limit = 1024;

  for (i = 1; i < argc; i++)
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) command = "help";
  if (!command) status = read_with(o, "README.md");
  else if (!strcmp(command, "help")) { print_help(table); status = 0; }
  else if (!strcmp(command, "models")) {
    parse(o, table, argc, argv, 'm', argc > 2);
    status = list_models(o);
  } else if (!strcmp(command, "read")) {
    parse(o, table, argc, argv, 'r', 1);
    status = read_with(o, o->file[0]);
  } else if (!strcmp(command, "train") && argc == 2) status = train_here(o);
  else if (!strcmp(command, "train")) {
    unsigned char *text;
    size_t length;
    parse(o, table, argc, argv, 't', 1);
    text = read_file(o->file[0], &length, 0);
    status = train(o, text, length, o->file[0]);
    free(text);
  } else if (!strcmp(command, "generate")) {
    parse(o, table, argc, argv, 'g', 1);
    status = generate(o);
  } else if (!strcmp(command, "eval")) {
    parse(o, table, argc, argv, 'e', 2);
    status = evaluate(o);
  } else if (!strcmp(command, "convert")) {
    parse(o, table, argc, argv, 'c', 1);
    check_outputs(o, 1);
    status = convert(o);
  } else if (!strcmp(command, "emit")) {
    if (!strcmp(o->out, "model.safetensors")) o->out = "model.c";
    parse(o, table, argc, argv, 'c', 1);
    check_outputs(o, 0);
    status = emit(o);
  } else {
    char best[64] = "";
    nearest_of("read train generate eval convert emit models help", command, best);
    if (distance(best, command) > 3) die(2, "%s is no command; lm --help lists them", command);
    die(2, "%s is no command; is it %s? lm --help lists them", command, best);
  }
  if (fflush(stdout) || ferror(stdout)) die(1, "the output cannot be written: %s", strerror(errno));
  return status;
}
