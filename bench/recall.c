/* recall.c: can a network of memories look up what it was told, find a needle in a haystack, or
 * keep track of what changes? For any row of the table.
 *
 *   cc -O2 bench/recall.c -o recall -lm         (older C libraries: add -pthread)
 *   ./recall                                    yaad and gated-deltanet, 8 pairs
 *   ./recall --model all --pairs 8,16 --seeds 3 --lr 1e-3,3e-3 --csv recall.csv
 *   python3 bench/plots.py recall.csv           draws what that wrote, recall.svg
 *   ./recall --model yaad --set memory.decay_target=1 --step 0.02
 *   ./recall --task s3 --model deltanet-memory,deltanet-memory:memory.learning_rate=2
 *   ./recall --task number --text book.txt --length 512 --longer 2,8,32
 *   ./recall --help                             every option
 *
 * RECALL (multi-query associative recall). A sequence of n pairs shows n different keys, each
 * followed by a value, both drawn at random for this sequence alone; then the n keys once more in
 * another order, each followed by its value. Only what the network says at those last keys counts:
 * there, and nowhere else, the next token can be known. So the loss and the accuracy are over n
 * answers, and a guess is right once in --symbols times. A key and its value are one token apart,
 * so the convolutions of a block can bring them together, but only the memory can carry them to the
 * query.
 *
 * PARITY, S3, S5 (state tracking). Tokens are the orders of 2, 3 or 5 things, drawn at random, and
 * what is asked behind each is the product of all so far: where the things are after every shuffle.
 * Nothing but a state that each token turns can say it at any length. A memory whose every write
 * keeps the direction of what it holds cannot (parity: Grazzi et al. 2025); a rate of up to 2 lets
 * a write reflect it.
 *
 * PASSKEY, NUMBER, UUID (a needle in a haystack, after RULER, Hsieh et al. 2024). Bytes: somewhere
 * in the hay stands "<name:value>", and at the end "<name:", behind which the value is asked, byte
 * by byte with the bytes before it given. Right is an answer of which every byte is. Passkey: hay
 * is one sentence over and over, there is no name, the value has 6 digits; number: hay is from
 * --text, another place of it each time, the name 5 letters; uuid: likewise, the value 8
 * hexadecimal digits. Hay is the first nine tenths of the text in training and then the rest.
 *
 * A sequence to track or to search has --length tokens, and at the end --longer times that, a list.
 *
 * Every run prints a line when it ends; then a Markdown table has, for every model and size, the
 * learning rate of the best median accuracy and medians over its seeds. Accuracy on the way (--csv,
 * "reached" and --stop) is over --curve-sequences, always the same ones; at the end over
 * --sequences others. With --results a grid that was stopped goes on where it was. The same options
 * give the same bits, for any number of threads; a run of 8 pairs takes a matrix memory about a
 * minute of one core and a perceptron about two.
 *
 * A file NAME.safetensors in --model is trained on, or with --steps 0 asked as it is.
 *
 * --set FIELD=VALUE changes a field of the descriptor after the preset has filled it in, by the
 * names and words that lm's --set has, and "NAME:FIELD=VALUE" in --model that of one model; a row
 * that refuses is reported and left out. --quick is a check of seconds in one layer: 2 pairs of 16
 * keys and values, which a memory that learns reaches within 1,000 steps and one that hardly does
 * (yaad with --step 0.001) does not, or 8 orders; it sets --bar, below which no run may end. Exit
 * status: 0 done, 1 below the bar, refused or out of memory, 2 wrong arguments. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIRAS_IMPLEMENTATION
#define MIRAS_PTHREADS
#include "../miras.h"

/* ---- small tools ---- */

enum { MOST = 64 }; /* entries of a list of options */

static int progress_open; /* a progress line without its newline is on the terminal */

/* Say one sentence and leave. */
static void die(int status, const char *format, ...) {
  va_list list;
  if (progress_open) fputc('\n', stderr);
  fputs("recall: ", stderr);
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
  exit(status);
}

static void *grow(void *pointer, size_t count, size_t size) {
  void *p = count > SIZE_MAX / size ? NULL : realloc(pointer, count * size + 1);
  if (!p) die(1, "there is not enough memory for %lu items", (unsigned long)count);
  return p;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* splitmix64 */
static uint64_t next(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static int below(uint64_t *state, int n) { return (int)((next(state) >> 32) * (uint64_t)n >> 32); }

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Of x[n], which it sorts; infinity counts as what has not been reached. */
static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, by_size);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- the tasks ---- */

enum { TRAINING, CURVE, FINAL }; /* streams of sequences that share none */
enum { RECALL, PARITY, S3, S5, PASSKEY, NUMBER, UUID, TASKS };
enum { KEYED, TRACKED, HIDDEN };
enum { KEY = 5, DIGITS = 6, HEXES = 8, NEEDLE = KEY + HEXES + 3 };
static const struct { const char *name; int kind, things; } task_table[TASKS] = {
  {"recall", KEYED, 0}, {"parity", TRACKED, 2}, {"s3", TRACKED, 3}, {"s5", TRACKED, 5},
  {"passkey", HIDDEN, 0}, {"number", HIDDEN, 0}, {"uuid", HIDDEN, 0}};

/* What is asked. Its size: pairs, or the tokens of a sequence. */
typedef struct task {
  int type, kind;
  int symbols;                         /* of recall: keys, and as many values                     */
  int elements;                        /* of a group, whose products these are                    */
  unsigned char product[120][120];
  const char *hay;                     /* [learn] to learn with, [rest] behind it for the end     */
  int learn, rest;
} task;

static int factorial(int n) { return n > 1 ? n * factorial(n - 1) : 1; }

/* The orders of n things by the alphabet, number 0 as they were; [a][b] is b, then a. */
static void group_open(task *k, int n) {
  int order[120][5], i, j, t, a, b;
  k->elements = factorial(n);
  for (a = 0; a < k->elements; a++) {
    int left[5] = {0, 1, 2, 3, 4}, rest = a;
    for (i = 0; i < n; i++) {
      const int each = factorial(n - 1 - i), which = rest / each;
      rest %= each;
      order[a][i] = left[which];
      for (j = which; j < n - 1; j++) left[j] = left[j + 1];
    }
  }
  for (a = 0; a < k->elements; a++)
    for (b = 0; b < k->elements; b++) {
      int is = 0;
      for (i = 0; i < n; i++)
        for (t = i + 1; t < n; t++)
          is += order[a][order[b][t]] < order[a][order[b][i]] ? factorial(n - 1 - i) : 0;
      k->product[a][b] = (unsigned char)is;
    }
}

static int task_length(const task *k, int size) { return k->kind == KEYED ? 4 * size : size; }
static int task_vocab(const task *k) {
  return k->kind == KEYED ? 2 * k->symbols : k->kind == TRACKED ? k->elements : 128;
}

/* Hay and in it the needle, at whose end in both places the value stands. */
static void hide(const task *k, int32_t *tokens, int32_t *targets, int n, int stream,
                 uint64_t *s) {
  static const char letter[] = "abcdefghijklmnopqrstuvwxyz", digit[] = "0123456789abcdef";
  const char *hay = stream == TRAINING || k->type == PASSKEY ? k->hay : k->hay + k->learn;
  const int hays = stream == TRAINING ? k->learn : k->rest;
  const int value = k->type == UUID ? HEXES : DIGITS;
  char text[NEEDLE];
  int length = 0, from = below(s, hays), at, j;
  text[length++] = '<';
  for (j = 0; j < KEY && k->type != PASSKEY; j++) text[length++] = letter[below(s, 26)];
  text[length++] = ':';
  for (j = 0; j < value; j++) text[length++] = digit[below(s, k->type == UUID ? 16 : 10)];
  text[length] = '>';
  at = below(s, n - 2 * length);
  for (j = 0; j < n; j++, from = from + 1 < hays ? from + 1 : 0) {
    tokens[j] = hay[from] & 127;
    targets[j] = -1;
  }
  for (j = 0; j <= length; j++) tokens[at + j] = text[j];
  for (j = 0; j < length; j++) tokens[n - length + j] = text[j];
  for (j = length - value; j < length; j++) targets[n - length + j - 1] = text[j];
}

/* Sequence number i of a stream: tokens and targets, -1 where nothing counts. Of recall, keys are
 * 0..symbols-1, values symbols..2 symbols-1. key: room for the symbols. What it holds depends on
 * the arguments alone. */
static void sequence(const task *k, int32_t *tokens, int32_t *targets, int n, uint64_t seed,
                     int stream, uint64_t i, int32_t *key) {
  const int symbols = k->symbols;
  uint64_t s = seed * 3 + (uint64_t)stream;
  int j;
  s = next(&s) + i;
  s = next(&s);
  if (k->kind == HIDDEN) {
    hide(k, tokens, targets, n, stream, &s);
    return;
  }
  if (k->kind == TRACKED) {
    int is = 0;
    for (j = 0; j < n; j++) {
      tokens[j] = below(&s, k->elements);
      targets[j] = is = k->product[tokens[j]][is];
    }
    return;
  }
  for (j = 0; j < symbols; j++) key[j] = j;
  for (j = 0; j < n; j++) {            /* n of them, without repetition */
    int other = j + below(&s, symbols - j);
    const int32_t one = key[other];
    key[other] = key[j];
    key[j] = one;
    tokens[2 * j] = tokens[2 * (n + j)] = one;
    tokens[2 * j + 1] = tokens[2 * (n + j) + 1] = symbols + below(&s, symbols);
  }
  for (j = n - 1; j > 0; j--) {        /* the queries in another order */
    int other = below(&s, j + 1), c;
    for (c = 0; c < 2; c++) {
      int32_t *a = tokens + 2 * (n + j) + c, *b = tokens + 2 * (n + other) + c, t = *a;
      *a = *b;
      *b = t;
    }
  }
  for (j = 0; j < 4 * n; j++) targets[j] = -1;
  for (j = 2 * n; j < 4 * n; j += 2) targets[j] = tokens[j + 1];
}

/* What counts of count sequences: one session per worker, which is fed up to each token behind
 * which something is asked, for the logits there. Parts are summed in their order, so that threads
 * change nothing. */
enum { PART = 32 };                    /* sequences of a part */
typedef struct judge {
  const task *task;
  miras_session *session[256];         /* one per worker */
  int32_t *room;                       /* per worker: tokens, targets, keys */
  int size, stream, sequences;
  uint64_t seed;
  double *loss;                        /* per part: nats over all that is asked */
  long *asked, *right, *answers;       /* ... and of how many answers so many were right */
} judge;

static size_t judge_room(const judge *a) {
  return 2 * (size_t)task_length(a->task, a->size) + (size_t)a->task->symbols;
}

static void judge_part(void *argument, int part, int worker) {
  judge *a = (judge *)argument;
  const int length = task_length(a->task, a->size), vocab = task_vocab(a->task);
  int32_t *tokens = a->room + (size_t)worker * judge_room(a), *targets = tokens + length;
  miras_session *s = a->session[worker];
  int i, at, v;
  a->loss[part] = 0;
  a->right[part] = a->asked[part] = a->answers[part] = 0;
  for (i = part * PART; i < (part + 1) * PART && i < a->sequences; i++) {
    int fed = 0, whole = 1;
    sequence(a->task, tokens, targets, a->size, a->seed, a->stream, (uint64_t)i, targets + length);
    miras_session_reset(s);
    for (at = 0; at < length; at++) {
      const float *logits;
      double sum = 0;
      int best = 0;
      if (targets[at] < 0) continue;
      logits = miras_session_feed(s, tokens + fed, NULL, (size_t)(at + 1 - fed));
      fed = at + 1;
      for (v = 1; v < vocab; v++)
        if (logits[v] > logits[best]) best = v;
      for (v = 0; v < vocab; v++) sum += exp((double)logits[v] - (double)logits[best]);
      a->loss[part] += log(sum) + (double)logits[best] - (double)logits[targets[at]];
      a->asked[part]++;
      whole &= best == targets[at];
      if (a->task->kind == HIDDEN && at < length - 2) continue;   /* one answer, of all bytes */
      a->right[part] += whole;
      a->answers[part]++;
      whole = 1;
    }
  }
}

typedef struct score { double accuracy, loss; } score;

static score measure(const miras_model *m, judge *a, const miras_parallel *parallel, int stream,
                     int size, int sequences) {
  int parts = (sequences + PART - 1) / PART, workers = parallel ? parallel->workers : 1, i;
  score s = {0, 0};
  double asked = 0, answers = 0;
  a->stream = stream;
  a->size = size;
  a->sequences = sequences;
  a->loss = (double *)grow(NULL, (size_t)parts, sizeof *a->loss);
  a->right = (long *)grow(NULL, 3 * (size_t)parts, sizeof *a->right);
  a->asked = a->right + parts;
  a->answers = a->asked + parts;
  a->room = (int32_t *)grow(NULL, (size_t)workers * judge_room(a), sizeof *a->room);
  for (i = 0; i < workers; i++) {
    a->session[i] = miras_session_open(m, NULL, NULL, NULL, 0);
    if (!a->session[i]) die(1, "there is not enough memory for a session");
  }
  if (parallel) parallel->run(parallel->user, parts, judge_part, a);
  else
    for (i = 0; i < parts; i++) judge_part(a, i, 0);
  for (i = 0; i < parts; i++) {
    s.loss += a->loss[i];
    s.accuracy += (double)a->right[i];
    asked += (double)a->asked[i];
    answers += (double)a->answers[i];
  }
  for (i = 0; i < workers; i++) miras_close(a->session[i]);
  free(a->loss), free(a->right), free(a->room);
  s.loss /= asked;
  s.accuracy /= answers;
  return s;
}

/* ---- options ---- */

typedef struct options {
  const char *model, *sizes, *task, *text, *longer, *lr, *seeds, *csv, *results;
  struct task asked;
  double times[MOST];      /* of --longer */
  int many_times, symbols, width, layers, heads, batch, steps, warmup;
  int sequences, curve_sequences, every;
  int threads, quick;
  double decay, stop, bar;
  const char *field[MOST], *value[MOST]; /* of --set and its relatives, in their order */
  int sets;
} options;

typedef struct option {
  const char *name;        /* without the dashes */
  char type;               /* i(nt), r(eal), s(tring), f(lag), = (a field: what --set takes) */
  void *value;
  double low, high;
  const char *help;
} option;

static void print_help(const option *o) {
  const char *f;
  int column = 0, i;
  puts("recall: how well a network of memories looks up what it was told, or keeps track of it\n");
  for (; o->name; o++) {
    char left[40], value[32] = "";
    double x = o->type == 'i' ? *(int *)o->value : o->type == 'r' ? *(double *)o->value : 0;
    snprintf(left, sizeof left, "--%s%s", o->name,
             o->type == 'f' ? "" : o->type == 's' ? " TEXT" : o->type == 'i' ? " N" : " X");
    if (x > 0) snprintf(value, sizeof value, " (%g)", x);
    printf("  %-22s %s%s\n", left, o->help, value);
  }
  puts("\nFields that --set FIELD=VALUE changes (lm models NAME has their values):");
  for (i = 0; (f = miras_model_desc_field(i)) != NULL; i++) {
    if (column + (int)strlen(f) > 92) column = 0, puts(",");
    column += printf("%s%s", column ? ", " : "  ", f);
  }
  putchar('\n');
}

/* Letters to change, leave out or put in until a is b; words of more than 63 are far from all. */
static int distance(const char *a, const char *b) {
  const int n = (int)strlen(a), m = (int)strlen(b);
  int row[64], i, k;
  if (n > 63 || m > 63) return 64;
  for (k = 0; k <= m; k++) row[k] = k;
  for (i = 1; i <= n; i++) {
    int corner = row[0];
    row[0] = i;
    for (k = 1; k <= m; k++) {
      const int above = row[k], best = above < row[k - 1] ? above + 1 : row[k - 1] + 1;
      const int changed = corner + (a[i - 1] != b[k - 1]);
      row[k] = best < changed ? best : changed;
      corner = above;
    }
  }
  return row[m];
}

/* The name of what `words` begins with, up to a space. */
static void nearest_of(const char *words, const char *name, char best[64]) {
  while (*words) {
    char word[64];
    size_t n = strcspn(words, " ");
    snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), words);
    if (n && distance(word, name) < distance(best, name)) memcpy(best, word, sizeof word);
    words += n + (words[n] != 0);
  }
}

static double number(const char *name, const char *text, char type, double low, double high) {
  char *end = NULL;
  double x;
  errno = 0;
  x = type == 'i' ? (double)strtol(text, &end, 10) : strtod(text, &end);
  if (errno || end == text || *end || !(x >= low && x <= high))
    die(2, "%s is \"%s\"; it must be a %snumber from %.10g to %.10g", name, text,
        type == 'i' ? "whole " : "", low, high);
  return x;
}

static void set(options *o, const char *field, const char *value) {
  if (o->sets == MOST) die(2, "%d fields are the most that --set takes", MOST);
  o->field[o->sets] = field;
  o->value[o->sets++] = value;
}

static void parse(options *o, const option *table, int argc, char **argv) {
  int i;
  for (i = 1; i < argc; i++) {
    const option *p = table;
    const char *text = argv[i];
    while (p->name && (strncmp(text, "--", 2) || strcmp(p->name, text + 2))) p++;
    if (!p->name) {
      char best[64] = "";
      for (p = table; p->name; p++) nearest_of(p->name, text + (strlen(text) > 1 ? 2 : 0), best);
      if (strncmp(text, "--", 2) || distance(best, text + 2) > 3)
        die(2, "%s is no option; recall --help lists them", text);
      die(2, "%s is no option; is it --%s? recall --help lists them", text, best);
    }
    if (p->type == 'f') { *(int *)p->value = 1; continue; }
    if (++i == argc) die(2, "%s needs a value behind it", text);
    if (p->type == 's') *(const char **)p->value = argv[i];
    else if (p->type == 'i') *(int *)p->value = (int)number(text, argv[i], 'i', p->low, p->high);
    else if (p->type == 'r') *(double *)p->value = number(text, argv[i], 'r', p->low, p->high);
    else if (p->value) set(o, (const char *)p->value, argv[i]);
    else {
      const size_t n = strcspn(argv[i], "=");
      char *field = (char *)grow(NULL, n + 1, 1);
      if (!argv[i][n])
        die(2, "--set is \"%s\"; it must be FIELD=VALUE, such as memory.learning_rate=0.02",
            argv[i]);
      memcpy(field, argv[i], n);
      field[n] = 0;
      set(o, field, argv[i] + n + 1);
    }
  }
}

/* Numbers with commas between into x; how many. */
static int list(const char *name, const char *text, char type, double low, double high, double *x) {
  int n = 0;
  char word[64];
  while (*text) {
    size_t length = strcspn(text, ",");
    if (n == MOST) die(2, "%s holds more than %d numbers", name, MOST);
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), text);
    x[n++] = number(name, word, type, low, high);
    text += length + (text[length] == ',');
  }
  if (!n) die(2, "%s is empty", name);
  return n;
}

/* ---- runs ---- */

typedef struct point { int step; double accuracy, loss, training; } point;

typedef struct run {
  const char *model;
  int size;
  double lr;
  int seed;
  int steps;               /* taken */
  score end;               /* of the size it was trained with, ... */
  double far[MOST];        /* ... and accuracies of --longer times that */
  double reached;          /* first measured step with 0.9 or more, or infinity */
  double seconds;
  point *curve;
  int points;
} run;

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

/* Why --set FIELD=VALUE cannot be done: leave with a sentence. */
static void no_set(const miras_model_desc *d, const char *field, const char *text) {
  const char *bare = field[0] && field[1] == '.' ? field + 2 : field, *last, *name;
  char value[MIRAS_PATTERN_SIZE], best[64] = "", words[160];
  int i, k, near = 64;
  if (miras_model_desc_get(d, field, value, sizeof value)) {
    words_of(bare, words, sizeof words);
    if (strspn(value, "0123456789.e+-") == strlen(value) && value[0])
      die(2, "--set is \"%s=%s\"; the value must be a number, and without --set it is %s",
          field, text, value);
    die(2, "--set is \"%s=%s\"; the value must be a word, such as one of: %s", field, text,
        words[0] ? words : value);
  }
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
      die(2, "--set is \"%s=%s\"; the model has no layers %c, but%s", field, text, field[0],
          letters);
  }
  if (near < 2 * 4 && near / 2 < (int)strlen(bare))
    die(2, "--set is \"%s=%s\"; there is no field %s; is it %.*s%s? lm models NAME lists them all",
        field, text, field, (int)(bare - field), field, best);
  die(2, "--set is \"%s=%s\"; there is no field %s; lm models NAME lists them all", field, text,
      field);
}

/* The model of a file, if the name is one's, or NULL. */
static miras_model *from_file(const options *o, const char *name) {
  static const char end[] = ".safetensors";
  const size_t n = strlen(name);
  miras_result result = MIRAS_OK;
  miras_model *m;
  if (n < sizeof end || strcmp(name + n - (sizeof end - 1), end)) return NULL;
  m = miras_model_open_file(name, NULL, NULL, &result, NULL, 0);
  if (!m) die(1, "%s cannot be opened: %s", name, miras_result_text(result));
  if (miras_model_desc_of(m)->vocab < task_vocab(&o->asked))
    die(2, "%s has %d tokens, but the task has %d", name, miras_model_desc_of(m)->vocab,
        task_vocab(&o->asked));
  return m;
}

static miras_model_desc describe(const options *o, const char *model_and_sets, int size,
                                 int seed) {
  char model[128], *own;
  miras_model_desc d;
  miras_model *file = from_file(o, model_and_sets);
  int longest = 1, i;
  if (file) {
    d = *miras_model_desc_of(file);
    miras_close(file);
    return d;
  }
  snprintf(model, sizeof model, "%s", model_and_sets);
  own = strchr(model, ':');
  if (own) *own++ = 0;
  for (i = 0; i < o->many_times; i++)
    if (o->times[i] > longest) longest = (int)o->times[i];
  if (miras_model_preset(&d, miras_preset_find(model), o->layers) != MIRAS_OK) {
    char best[64] = "";
    for (i = 0; i < MIRAS_PRESET_COUNT; i++)
      nearest_of(miras_preset_name((miras_preset)i), model, best);
    if (distance(best, model) < 4)
      die(2, "--model holds \"%s\"; is it %s? lm models lists the names", model, best);
    die(2, "--model holds \"%s\"; lm models lists the names", model);
  }
  d.heads = o->heads;
  d.vocab = task_vocab(&o->asked);
  d.width = o->width;
  d.seed = (uint64_t)seed;
  /* attention to everything: a window that holds the whole sequence */
  if (d.layer[0].memory.architecture == MIRAS_ARCH_KV_CACHE && strcmp(model, "sliding-window") &&
      d.layer[0].memory.window < task_length(&o->asked, size * longest))
    d.layer[0].memory.window = task_length(&o->asked, size * longest);
  for (i = 0; i < o->sets; i++)
    if (miras_model_desc_set(&d, o->field[i], o->value[i]) != MIRAS_OK)
      no_set(&d, o->field[i], o->value[i]);
  while (own && *own) {
    char *value = strchr(own, '='), *end = strchr(own, ':');
    if (end) *end++ = 0;
    if (!value || (end && value > end)) die(2, "--model has \"%s\"; it must be FIELD=VALUE", own);
    *value++ = 0;
    if (miras_model_desc_set(&d, own, value) != MIRAS_OK) no_set(&d, own, value);
    own = end;
  }
  return d;
}

static miras_model *model_of(const options *o, const char *name, int size, int seed) {
  miras_model *m = from_file(o, name);
  if (!m) {
    const miras_model_desc d = describe(o, name, size, seed);
    m = miras_model_open(&d, NULL, NULL, 0);
  }
  return m;
}

static const char *size_name(const options *o) {
  return o->asked.kind == KEYED ? "pairs" : "length";
}

static void train(const options *o, run *r, const miras_parallel *parallel) {
  const miras_trainer_desc room = {o->batch, task_length(&o->asked, r->size), 0, 0, 0,
                                   parallel, NULL};
  miras_model *m = model_of(o, r->model, r->size, r->seed);
  miras_trainer *t = miras_trainer_open(m, &room, NULL, NULL, 0);
  miras_adamw_options adamw = MIRAS_ADAMW(0.1f, 1.0f);
  const size_t T = (size_t)room.context, rows = (size_t)o->batch;
  int32_t *x = (int32_t *)grow(NULL, 2 * rows * T + (size_t)o->symbols, sizeof *x);
  int32_t *y = x + rows * T, *keys = y + rows * T;
  double start = now(), training = 0;
  judge a;
  miras_batch batch;
  int step, i, measured = 0, live = isatty(STDERR_FILENO);
  if (!t) die(1, "there is not enough memory for the model");
  memset(&batch, 0, sizeof batch);
  batch.batch = o->batch, batch.length = room.context, batch.tokens = x, batch.classes = y;
  memset(&a, 0, sizeof a);
  adamw.weight_decay = (float)o->decay;
  a.task = &o->asked;
  a.seed = (uint64_t)r->seed;
  r->reached = HUGE_VAL;
  for (step = 1; step <= o->steps; step++) {
    size_t row;
    float loss;
    for (row = 0; row < rows; row++)
      sequence(&o->asked, x + row * T, y + row * T, r->size, (uint64_t)r->seed, TRAINING,
               (uint64_t)(step - 1) * rows + row, keys);
    if (miras_trainer_loss(t, &batch, 1, &loss) != MIRAS_OK) loss = (float)NAN;
    miras_trainer_backward(t, NULL);
    miras_trainer_step(t, &adamw, miras_schedule_cosine((uint64_t)step - 1, (uint64_t)o->warmup,
                                               (uint64_t)o->steps, (float)r->lr, 0.05f),
                       NULL);
    r->steps = step;
    training += (double)loss;
    if (step % o->every == 0 || step == o->steps || !isfinite(loss)) {
      score s = measure(m, &a, parallel, CURVE, r->size, o->curve_sequences);
      point *p;
      r->curve = (point *)grow(r->curve, (size_t)r->points + 1, sizeof *r->curve);
      p = &r->curve[r->points++];
      p->step = step;
      p->accuracy = s.accuracy;
      p->loss = s.loss;
      p->training = training / (step - measured);
      training = 0;
      measured = step;
      if (s.accuracy >= 0.9 && isinf(r->reached)) r->reached = step;
      if (live) {
        fprintf(stderr, "\r%s, %s %d, lr %g, seed %d: step %d of %d, accuracy %.3f\033[K",
                r->model, size_name(o), r->size, r->lr, r->seed, step, o->steps, s.accuracy);
        progress_open = 1;
      }
      if (!isfinite(loss)) break;      /* nothing can be learned from here on */
      if (o->stop > 0 && s.accuracy >= o->stop && r->points > 1 &&
          r->curve[r->points - 2].accuracy >= o->stop)
        break;
    }
  }
  r->end = measure(m, &a, parallel, FINAL, r->size, o->sequences);
  for (i = 0; i < o->many_times; i++)
    r->far[i] = measure(m, &a, parallel, FINAL, r->size * (int)o->times[i], o->sequences).accuracy;
  if (isnan(r->end.loss)) r->end.loss = HUGE_VAL; /* which can be sorted */
  r->seconds = now() - start;
  if (live) fputs("\r\033[K", stderr);
  progress_open = 0;
  miras_close(t);
  miras_close(m);
  free(x);
}

/* ---- what is left behind ---- */

static FILE *create(const char *path) {
  FILE *f = fopen(path, "w");
  if (!f) die(1, "%s cannot be written: %s", path, strerror(errno));
  return f;
}

static void finish(FILE *f, const char *path) {
  int bad = ferror(f);
  if (fclose(f) || bad) die(1, "%s cannot be written: the disk may be full", path);
}

static void write_csv(const char *path, const run *r, int count, const options *o) {
  FILE *f = create(path);
  int i, j;
  fprintf(f, "model,%s,lr,seed,step,accuracy,loss,training_loss\n", size_name(o));
  for (i = 0; i < count; i++)
    for (j = 0; j < r[i].points; j++) {
      const point *p = &r[i].curve[j];
      fprintf(f, "%s,%d,%g,%d,%d,%.6f,%.6g,%.6g\n", r[i].model, r[i].size, r[i].lr,
              r[i].seed, p->step, p->accuracy, p->loss, p->training);
    }
  finish(f, path);
}

/* Of the runs of a model and a size, seeds innermost, those of the best learning rate, and their
 * medians of accuracy and loss. */
static const run *best_of(const run *r, int rates, int seeds, double *best, double *best_loss) {
  double x[MOST];
  const run *chosen = r;
  int i, j;
  *best = -1, *best_loss = HUGE_VAL;
  for (i = 0; i < rates; i++) {
    double a, l;
    for (j = 0; j < seeds; j++) x[j] = r[i * seeds + j].end.accuracy;
    a = median(x, seeds);
    for (j = 0; j < seeds; j++) x[j] = r[i * seeds + j].end.loss;
    l = median(x, seeds);
    if (a > *best || (a >= *best && l < *best_loss)) {
      *best = a;
      *best_loss = l;
      chosen = r + i * seeds;
    }
  }
  return chosen;
}

/* One line of the table. */
static void print_row(const options *o, const run *r, int rates, int seeds) {
  double x[MOST], best, best_loss;
  const run *chosen = best_of(r, rates, seeds, &best, &best_loss);
  int j, k;
  for (j = 0; j < seeds; j++) x[j] = chosen[j].end.accuracy;
  median(x, seeds);                    /* sorts */
  printf("| %s | %d | %g | %.3f | %.3f | %.3f |", chosen->model, chosen->size, chosen->lr, best,
         x[0], x[seeds - 1]);
  for (k = 0; k < o->many_times; k++) {
    for (j = 0; j < seeds; j++) x[j] = chosen[j].far[k];
    printf(" %.3f |", median(x, seeds));
  }
  printf(" %.3f |", best_loss);
  for (j = 0; j < seeds; j++) x[j] = chosen[j].reached;
  best = median(x, seeds);
  if (isinf(best)) printf(" |");
  else printf(" %.0f |", best);
  for (j = 0; j < seeds; j++) x[j] = chosen[j].seconds;
  printf(" %.0f |\n", median(x, seeds));
}

/* What is asked for. */
static options given;

static const option table[] = {
  {"model", 's', &given.model, 0, 0, "models by name, or files NAME.safetensors, commas between; "
                                 "all: NAME-memory of the rows (yaad,gated-deltanet)"},
  {"task", 's', &given.task, 0, 0, "recall, parity, s3, s5, passkey, number or uuid (recall)"},
  {"pairs", 's', &given.sizes, 0, 0, "of a sequence, a list (8)"},
  {"length", 's', &given.sizes, 0, 0, "of what is tracked or searched, a list (32; 128)"},
  {"longer", 's', &given.longer, 0, 0, "times as long at the end, a list (4)"},
  {"text", 's', &given.text, 0, 0, "hay of numbers and uuids, a file (README.md)"},
  {"seeds", 's', &given.seeds, 0, 0, "N: 1 to N; a list, such as 4,7 or 4,: these (1)"},
  {"lr", 's', &given.lr, 0, 0, "peak learning rate, a list: the table has the best (3e-3)"},
  {"steps", 'i', &given.steps, 0, 1e9, "of training, 100 of them to warm up, a cosine to 5 %"},
  {"batch", 'i', &given.batch, 1, 65536, "sequences of a step"},
  {"symbols", 'i', &given.symbols, 1, 1e6, "keys, and as many values"},
  {"width", 'i', &given.width, 1, 65536, "of the network"},
  {"layers", 'i', &given.layers, 1, 256, "blocks"},
  {"heads", 'i', &given.heads, 1, 4096, "memories of a block; keys are width / heads wide"},
  {"decay", 'r', &given.decay, 0, 1, "weight decay of the matrices"},
  {"warmup", 'i', &given.warmup, 0, 1e9, "steps of linear warm-up"},
  {"step", '=', "memory.learning_rate", 0, 0, "of the memory: --set memory.learning_rate=X"},
  {"threshold", '=', "memory.threshold", 0, 0, "of the memory"},
  {"forget", '=', "memory.decay_rate", 0, 0, "of the memory"},
  {"forget-ratio", '=', "memory.decay_ratio", 0, 0, "of the memory"},
  {"chunk", '=', "memory.chunk", 0, 0, "of the memory"},
  {"set", '=', NULL, 0, 0,
   "FIELD=VALUE of the descriptor, as often as you like: memory.bias=huber, conv=2"},
  {"sequences", 'i', &given.sequences, 1, 1e9, "to measure the end with"},
  {"curve-sequences", 'i', &given.curve_sequences, 1, 1e9, "to measure the curve with"},
  {"every", 'i', &given.every, 1, 1e9, "steps between two points of the curve"},
  {"stop", 'r', &given.stop, 0, 1, "stop a run when two points in turn reach this accuracy; 0: no"},
  {"bar", 'r', &given.bar, 0, 1, "exit status 1 if a run ends below this accuracy"},
  {"threads", 'i', &given.threads, 1, 256, "cores to use"},
  {"csv", 's', &given.csv, 0, 0, "write the curves into this file"},
  {"results", 's', &given.results, 0, 0, "a file of runs: those it has are not run again"},
  {"quick", 'f', &given.quick, 0, 0, "small numbers and a bar, for what is not set itself"},
  {NULL, 0, NULL, 0, 0, NULL}};

/* Hay: a file, or a sentence over and over. */
static void open_hay(task *k, const char *path) {
  static const char sentence[] = "Nothing of note was seen that day, and nobody came. ";
  static char room[1 << 22];
  int n = (int)(sizeof sentence - 1);
  FILE *f;
  k->hay = sentence, k->learn = k->rest = n;
  if (k->type == PASSKEY) return;
  f = fopen(path, "rb");
  n = f ? (int)fread(room, 1, sizeof room, f) : 0;
  if (f) fclose(f);
  if (n < 10000) die(1, "--text is %s, which cannot be read or has less than 10,000 bytes", path);
  k->hay = room, k->learn = n / 10 * 9, k->rest = n - k->learn;
}

/* What --task says, and what depends on it. */
static void choose_task(options *o) {
  task *k = &o->asked;
  const char *longer = o->longer;
  for (k->type = 0; k->type < TASKS && strcmp(task_table[k->type].name, o->task); k->type++);
  if (k->type == TASKS)
    die(2, "--task is \"%s\"; it must be recall, parity, s3, s5, passkey, number or uuid", o->task);
  k->kind = task_table[k->type].kind;
  k->symbols = o->symbols;
  if (k->kind == TRACKED) group_open(k, task_table[k->type].things);
  if (k->kind == HIDDEN) open_hay(k, o->text);
  if (!longer && k->kind != KEYED) longer = "4";
  if (longer) o->many_times = list("--longer", longer, 'i', 2, 65536, o->times);
  if (!o->sizes)
    o->sizes = k->kind == KEYED ? (o->quick ? "2" : "8") : k->kind == HIDDEN ? "128"
               : o->quick ? "8" : "32";
}

/* The models, sizes, rates and seeds to go through. */
typedef struct grid {
  double sizes[MOST], rates[MOST], seeds[MOST];
  char models[MOST][128];
  int n_models, n_sizes, n_rates, n_seeds;
} grid;

static void grid_read(grid *g, const options *o) {
  const int least = o->asked.kind == HIDDEN ? 2 * NEEDLE + 1 : 1;
  const double most = o->asked.kind == KEYED ? o->symbols : 1e6;
  const char *text;
  int i;
  memset(g, 0, sizeof *g);
  g->n_sizes = list(o->asked.kind == KEYED ? "--pairs" : "--length", o->sizes, 'i', least, most,
                    g->sizes);
  g->n_rates = list("--lr", o->lr, 'r', 1e-9, 10, g->rates);
  g->n_seeds = list("--seeds", o->seeds, 'i', 0, 1e9, g->seeds);
  if (!strchr(o->seeds, ',')) {
    if (!(g->seeds[0] >= 1 && g->seeds[0] <= MOST))
      die(2, "--seeds is %s; it must be 1 to %d, or a list with a comma", o->seeds, MOST);
    g->n_seeds = (int)g->seeds[0];
    for (i = 0; i < g->n_seeds; i++) g->seeds[i] = i + 1;
  }
  if (!strcmp(o->model, "all")) {
    for (; g->n_models < MIRAS_PRESET_ROWS; g->n_models++)
      snprintf(g->models[g->n_models], sizeof g->models[0], "%s",
               miras_preset_name((miras_preset)g->n_models));
    return;
  }
  for (text = o->model; *text; text += *text == ',') {
    const size_t length = strcspn(text, ",");
    if (g->n_models == MOST) die(2, "--model holds more than %d names", MOST);
    snprintf(g->models[g->n_models++], sizeof g->models[0], "%.*s",
             (int)(length < 127 ? length : 127), text);
    text += length;
  }
  if (!g->n_models) die(2, "--model is empty");
}

/* All that decides a run's result, and a tab. */
static void run_key(const options *o, const run *r, char *key, size_t room) {
  int i;
  snprintf(key, room, "%s %s %s %d lr=%g seed=%d steps=%d batch=%d warmup=%d decay=%g width=%d "
           "layers=%d heads=%d symbols=%d sequences=%d,%d every=%d stop=%g text=%s times=", o->task,
           r->model, size_name(o), r->size, r->lr, r->seed, o->steps, o->batch, o->warmup, o->decay,
           o->width, o->layers, o->heads, o->symbols, o->sequences, o->curve_sequences, o->every,
           o->stop, o->text);
  for (i = 0; i < o->many_times; i++)
    snprintf(key + strlen(key), room - strlen(key), "%.0f,", o->times[i]);
  for (i = 0; i < o->sets; i++)
    snprintf(key + strlen(key), room - strlen(key), " %s=%s", o->field[i], o->value[i]);
  snprintf(key + strlen(key), room - strlen(key), "\t");
}

/* Has the file of results this run? Then it is that. */
static int run_known(const options *o, run *r, const char *key) {
  char line[4096];
  int known = 0, i, used;
  FILE *f = o->results ? fopen(o->results, "r") : NULL;
  while (f && fgets(line, sizeof line, f)) {
    const char *at = line + strlen(key);
    if (strncmp(line, key, strlen(key))) continue;
    known = sscanf(at, "%d %lf %lf %lf %lf%n", &r->steps, &r->end.accuracy, &r->end.loss,
                   &r->reached, &r->seconds, &used) == 5;
    for (i = 0, at += used; known && i < o->many_times; i++, at += used)
      known = sscanf(at, "%lf%n", &r->far[i], &used) == 1;
  }
  if (f) fclose(f);
  return known;
}

static void run_keep(const options *o, const run *r, const char *key) {
  FILE *f = o->results ? fopen(o->results, "a") : NULL;
  int i;
  if (!f) return;
  fprintf(f, "%s%d %.17g %.17g %g %.1f", key, r->steps, r->end.accuracy, r->end.loss, r->reached,
          r->seconds);
  for (i = 0; i < o->many_times; i++) fprintf(f, " %.17g", r->far[i]);
  fputc('\n', f);
  finish(f, o->results);
}

/* Train and measure one run; its line of results. */
static void run_one(const options *o, run *r, const miras_parallel *parallel) {
  char key[4096];
  int i;
  run_key(o, r, key, sizeof key);
  if (!run_known(o, r, key)) {
    train(o, r, parallel);
    run_keep(o, r, key);
  }
  printf("result model=%s %s=%d lr=%g seed=%d steps=%d accuracy=%.4f loss=%.4f", r->model,
         size_name(o), r->size, r->lr, r->seed, r->steps, r->end.accuracy, r->end.loss);
  for (i = 0; i < o->many_times; i++) printf(" times%.0f=%.4f", o->times[i], r->far[i]);
  printf(" reached=");
  if (isinf(r->reached)) printf("never");
  else printf("%.0f", r->reached);
  printf(" seconds=%.1f\n", r->seconds);
  fflush(stdout);
}

/* Everything, and the table of it; the exit status. */
static int run_all(const options *o, const grid *g, const miras_parallel *parallel) {
  const size_t rows = (size_t)g->n_models * (size_t)g->n_sizes;
  run *runs = (run *)grow(NULL, rows * (size_t)g->n_rates * (size_t)g->n_seeds, sizeof *runs);
  int *row_start = (int *)grow(NULL, rows, sizeof *row_start);
  int i, k, p, l, s, count = 0, table_rows = 0, status = 0;
  for (k = 0; k < g->n_models; k++)
    for (p = 0; p < g->n_sizes; p++) {
      const char *model = g->models[k];
      char why[256];
      miras_model_desc d = describe(o, model, (int)g->sizes[p], (int)g->seeds[0]);
      if (!miras_model_size(&d, why, sizeof why)) {
        printf("refused model=%s %s=%g: %s\n", model, size_name(o), g->sizes[p], why);
        status = 1;
        continue;
      }
      row_start[table_rows++] = count;
      for (l = 0; l < g->n_rates; l++)
        for (s = 0; s < g->n_seeds; s++) {
          run *r = &runs[count++];
          memset(r, 0, sizeof *r);
          r->model = model;
          r->size = (int)g->sizes[p];
          r->lr = g->rates[l];
          r->seed = (int)g->seeds[s];
          run_one(o, r, parallel);
          if (!(r->end.accuracy >= o->bar)) status = 1;
          if (o->csv) write_csv(o->csv, runs, count, o);
        }
    }
  printf("\n| model | %s | learning rate | accuracy | lowest | highest |", size_name(o));
  for (i = 0; i < o->many_times; i++) printf(" times %.0f |", o->times[i]);
  printf(" loss | 0.9 at step | seconds |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|");
  for (i = 0; i < o->many_times; i++) printf("--:|");
  printf("\n");
  for (i = 0; i < table_rows; i++) print_row(o, runs + row_start[i], g->n_rates, g->n_seeds);
  for (i = 0; i < count; i++) free(runs[i].curve);
  free(runs), free(row_start);
  return status;
}

/* Leave now, and not after hours, if it cannot be written. */
static void try_output(const char *name, const char *path) {
  FILE *f = path ? fopen(path, "ab") : NULL;   /* what is there stays */
  if (path && !f) die(1, "%s is %s, which cannot be written: %s", name, path, strerror(errno));
  if (f) fclose(f);
}

int main(int argc, char **argv) {
  options *o = &given;
  grid g;
  const miras_parallel *pool = NULL;
  int i, status;
  o->model = "yaad,gated-deltanet", o->task = "recall", o->text = "README.md";
  o->seeds = "1", o->lr = "3e-3";
  o->steps = 2500, o->batch = 32, o->symbols = 64, o->width = 64, o->layers = 2, o->heads = 2;
  o->decay = 0.1, o->warmup = 100, o->sequences = 1024, o->curve_sequences = 128, o->every = 100;
  o->threads = 1;
  for (i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return print_help(table), 0;
    if (!strcmp(argv[i], "--quick")) { /* other defaults; what is given still counts */
      o->symbols = 16, o->width = 32, o->layers = 1, o->heads = 1, o->steps = 1000;
      o->lr = "1e-2", o->warmup = 20, o->sequences = 256, o->curve_sequences = 64, o->every = 50;
      o->stop = 0.97, o->bar = 0.95;
    }
  }
  parse(o, table, argc, argv);
  choose_task(o);
  if (o->width % o->heads)
    die(2, "--width is %d; it must be a multiple of --heads, %d", o->width, o->heads);
  grid_read(&g, o);
  for (i = 0; i < g.n_models; i++) (void)describe(o, g.models[i], (int)g.sizes[0], 1);
  try_output("--csv", o->csv);
  try_output("--results", o->results);
  if (o->threads > 1) {
    pool = miras_pool_open(o->threads, NULL, NULL, 0);
    if (!pool) die(1, "%d threads cannot be started", o->threads);
  }

  if (o->asked.kind == KEYED) printf("- %d keys and %d values; ", o->symbols, o->symbols);
  else printf("- %s; ", o->task);
  printf("width %d, %d layer%s, %d head%s of %d, batch %d, %d steps; "
         "%d thread%s, %s\n", o->width, o->layers, o->layers == 1 ? "" : "s", o->heads,
         o->heads == 1 ? "" : "s", o->width / o->heads, o->batch, o->steps,
         o->threads, o->threads == 1 ? "" : "s", miras_isa());
  for (i = 0; i < o->sets; i++) printf("- %s = %s\n", o->field[i], o->value[i]);
  status = run_all(o, &g, pool);
  if (o->bar > 0 && status) printf("\nNot every run reached %g.\n", o->bar);
  miras_pool_close(pool);
  if (fflush(stdout) || ferror(stdout)) die(1, "the output cannot be written: %s", strerror(errno));
  return status;
}
