/* serve.c: one model, many users.
 *
 *     cc -O2 examples/serve.c -o serve -lm -lpthread && ./serve
 *     ./serve model.safetensors --threads 4 --users 1,16,256,1024
 *     ./serve kda --width 512 --layers 8 --heads 8
 *     ./serve --help                                every option
 *
 * Without a file the model is a row of the table with random weights, over bytes: what it writes is
 * noise, what it costs is not. All users begin with one prefix, which is fed once; each is a copy
 * of its state from there on and draws its own tokens. The table says for so many users, of whom
 * every call takes all a token further:
 *   tokens/s   of all of them together
 *   call, ms   the fastest, the median and the slowest call: the wait for a token
 *   states     bytes of all users' states, which do not grow; the server's own come on top
 * Then a newcomer with a long prompt comes among running users, who wait for it: fed at once, or in
 * pieces beside their steps. Last come drafts: several tokens guessed by what followed the last
 * time, tried in one call and undone by a copy of the state where they are wrong. What users get to
 * read is the same, to the bit, in all of these. */
#define _POSIX_C_SOURCE 200809L
#define MIRAS_PTHREADS
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PREFIX = 100, MOST_SIZES = 16, DRAFT = 6 };

typedef struct options {
  const char *model;
  int width, layers, heads, threads, rows, steps, prompt;
  int users[MOST_SIZES], sizes;
} options;

/* A user: a running text, and how its tokens are drawn. */
typedef struct user {
  unsigned char *state;
  int32_t token;
  miras_sampler how;
} user;

typedef struct house {
  const options *o;
  miras_model *model;
  miras_server *server;
  size_t vocab, bytes;             /* of a state */
  unsigned char *prefix;           /* the state behind it */
  int32_t last;                    /* its last token, not fed yet */
  user *users;
  miras_sequence *parts;
  unsigned char *states;
  float *logits;
  double *calls;                   /* seconds of each */
} house;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void stop(const char *what, const char *why) {
  fprintf(stderr, "serve: %s%s%s\n", what, why ? ": " : "", why ? why : "");
  exit(1);
}

/* Arguments are wrong. */
static void mistake(const char *format, ...) {
  va_list list;
  fputs("serve: ", stderr);
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
  exit(2);
}

static void *room(size_t count, size_t each) {
  void *p = calloc(count ? count : 1, each);
  if (!p) stop("out of memory", NULL);
  return p;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void must(miras_result result) {
  if (result != MIRAS_OK) stop("a call was refused", miras_result_text(result));
}

/* A token by its logits; a damaged model ends the program. */
static int32_t drawn(const house *h, const float *logits, miras_sampler *how) {
  int32_t token = logits ? miras_sampler_sample(how, logits, (int)h->vocab) : -1;
  size_t i;
  for (i = 0; token >= 0 && i < h->vocab; i++)
    if (!(logits[i] < HUGE_VALF)) token = -1;
  if (token < 0) stop(h->o->model, "its logits are not finite: the weights are damaged");
  return token;
}

/* Text that is neither one letter nor noise. */
static int32_t word_of(const house *h, size_t i) {
  return (int32_t)((i * i / 7 + 3 * i) % 26 % h->vocab);
}

/* ---- users ---- */

/* The first n users are where the prefix ends. */
static void arrive(house *h, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) {
    user *u = &h->users[i];
    u->state = h->states + i * h->bytes;
    memcpy(u->state, h->prefix, h->bytes);
    u->token = h->last;
    u->how.temperature = 0.8f;
    u->how.top_k = 40;
    u->how.top_p = 0;
    u->how.seed = i + 1;
  }
}

static void put(miras_sequence *part, void *state, const int32_t *tokens, size_t count,
                size_t logits) {
  memset(part, 0, sizeof *part);
  part->state = state;
  part->tokens = tokens;
  part->count = count;
  part->logit_rows = logits;
}

/* A token more for each of n users, beside one other text or none. */
static void step(house *h, size_t n, const miras_sequence *beside) {
  size_t i;
  for (i = 0; i < n; i++) put(&h->parts[i], h->users[i].state, &h->users[i].token, 1, 1);
  if (beside) h->parts[n] = *beside;
  must(miras_server_feed(h->server, h->parts, n + (beside != NULL), h->logits));
  for (i = 0; i < n; i++)
    h->users[i].token = drawn(h, h->logits + i * h->vocab, &h->users[i].how);
}

/* One user by a session, for comparison: tokens per second. */
static double alone(house *h, int steps) {
  miras_session *s = miras_session_open(h->model, NULL, NULL, NULL, 0);
  size_t bytes;
  void *state = miras_session_state(s, &bytes);
  double best = 1e30;
  int i;
  if (!s) stop("out of memory", NULL);
  arrive(h, 1);
  memcpy(state, h->prefix, bytes);
  for (i = 0; i < steps; i++) {
    user *u = h->users;
    const double start = now();
    double took;
    u->token = drawn(h, miras_session_step(s, u->token), &u->how);
    took = now() - start;
    if (took < best) best = took;
  }
  miras_close(s);
  return 1 / best;
}

static void table(house *h) {
  const options *o = h->o;
  const double one = alone(h, o->steps);
  double speed = 0;
  int k, i;
  printf("\n| users | tokens/s | of one alone | call, ms: fastest | median | slowest | states |\n"
         "|--:|--:|--:|--:|--:|--:|--:|\n");
  printf("| a session | %.0f | 1.0 | %.3f | | | %zu |\n", one, 1e3 / one, h->bytes);
  for (k = 0; k < o->sizes; k++) {
    const size_t n = (size_t)o->users[k];
    const double takes = speed > 0 ? (double)n * o->steps / speed : 0;
    if (takes > 2) fprintf(stderr, "%zu users, %d calls: about %.0f s\n", n, o->steps, takes);
    arrive(h, n);
    for (i = 0; i < o->steps; i++) {
      const double start = now();
      step(h, n, NULL);
      h->calls[i] = now() - start;
    }
    qsort(h->calls, (size_t)o->steps, sizeof *h->calls, by_size);
    printf("| %zu | %.0f | %.1f | %.3f | %.3f | %.3f | %zu |\n", n, (double)n / h->calls[0],
           (double)n / h->calls[0] / one, 1e3 * h->calls[0], 1e3 * h->calls[o->steps / 2],
           1e3 * h->calls[o->steps - 1], n * h->bytes);
    speed = (double)n / h->calls[o->steps / 2];
  }
}

/* ---- a newcomer ---- */

static void newcomer(house *h, size_t n, size_t piece) {
  const size_t length = (size_t)h->o->prompt;
  int32_t *prompt = (int32_t *)room(length, sizeof *prompt);
  unsigned char *state = (unsigned char *)room(1, h->bytes);
  double slowest = 0, start = now(), all;
  size_t at;
  for (at = 0; at < length; at++) prompt[at] = word_of(h, at + 5);
  arrive(h, n);
  for (at = 0; at < length; at += piece) {
    const double from = now();
    const size_t count = length - at < piece ? length - at : piece;
    miras_sequence beside;
    put(&beside, state, prompt + at, count, at + count == length);
    step(h, n, &beside);
    if (now() - from > slowest) slowest = now() - from;
  }
  all = now() - start;
  printf("| %zu | %.1f | %.1f |\n", piece, 1e3 * slowest, 1e3 * all);
  free(prompt);
  free(state);
}

/* ---- drafts ---- */

static int32_t likeliest(const house *h, size_t row) {
  miras_sampler greedy = {0, 0, 0, 0};
  return drawn(h, h->logits + row * h->vocab, &greedy);
}

/* The likeliest continuation of the prefix, with drafts or without. Guesses are what followed the
 * last pair of tokens that was the same. */
static size_t write_greedily(house *h, int32_t *text, size_t length, int drafts) {
  unsigned char *state = h->states, *before = h->states + h->bytes;
  size_t n = 1, calls = 0, i, j, right;
  memcpy(state, h->prefix, h->bytes);
  text[0] = h->last;
  while (n < length) {
    int32_t part[DRAFT + 1];
    size_t count = 1;
    part[0] = text[n - 1];
    for (i = n - 1; drafts && n > 2 && i-- > 1;)
      if (text[i] == text[n - 1] && text[i - 1] == text[n - 2]) {
        for (j = i + 1; j < n && count <= DRAFT && n + count <= length; j++)
          part[count++] = text[j];
        break;
      }
    if (count > 1) memcpy(before, state, h->bytes);
    put(h->parts, state, part, count, count);
    must(miras_server_feed(h->server, h->parts, 1, h->logits));
    calls++;
    for (right = 0; right + 1 < count && likeliest(h, right) == part[right + 1]; right++)
      text[n++] = part[right + 1];
    if (n < length) text[n++] = likeliest(h, right);
    if (right + 1 < count) {       /* undo what was wrong */
      memcpy(state, before, h->bytes);
      put(h->parts, state, part, right + 1, 0);
      must(miras_server_feed(h->server, h->parts, 1, NULL));
      calls++;
    }
  }
  return calls;
}

static void drafts(house *h) {
  enum { LENGTH = 200 };
  int32_t plain[LENGTH], drafted[LENGTH];
  const size_t calls = write_greedily(h, plain, LENGTH, 0);
  const size_t fewer = write_greedily(h, drafted, LENGTH, 1);
  printf("\n%d likeliest tokens: %zu calls, with drafts %zu; %s. A draft costs a copy of %zu "
         "bytes.\n", LENGTH - 1, calls, fewer,
         memcmp(plain, drafted, sizeof plain) ? "NOT THE SAME TEXT" : "the same text", h->bytes);
}

/* ---- the program ---- */

static int number(const char *option, const char *text) {
  char *end;
  const long n = strtol(text, &end, 10);
  if (end == text || *end || n < 1 || n > 1 << 20)
    mistake("%s is \"%s\"; it must be a whole number from 1 to %d", option, text, 1 << 20);
  return (int)n;
}

static void sizes(options *o, const char *list) {
  for (o->sizes = 0; *list; list += *list == ',') {
    const size_t n = strcspn(list, ",");
    char word[16];
    if (o->sizes == MOST_SIZES) mistake("--users has more than %d numbers", MOST_SIZES);
    snprintf(word, sizeof word, "%.*s", (int)(n < 15 ? n : 15), list);
    o->users[o->sizes++] = number("--users", word);
    list += n;
  }
  if (!o->sizes) mistake("--users is empty; it must be numbers with commas between");
}

static const struct { const char *name; size_t at; const char *help; } numbers[] = {
  {"--threads", offsetof(options, threads), "cores to use (1)"},
  {"--rows", offsetof(options, rows), "tokens that a call works on together (256)"},
  {"--steps", offsetof(options, steps), "calls of every size that are timed (20)"},
  {"--prompt", offsetof(options, prompt), "tokens of the newcomer's prompt (2048)"},
  {"--width", offsetof(options, width), "of a row's network, like the next two (256)"},
  {"--layers", offsetof(options, layers), "(4)"},
  {"--heads", offsetof(options, heads), "(4)"}};

static void print_help(void) {
  size_t k;
  int i;
  puts("serve: what many users of one model cost\n\n"
       "  serve                      a row of the table, gated-deltanet, with random weights\n"
       "  serve MODEL [options]      a model that lm train has written, such as "
       "model.safetensors\n"
       "  serve ROW [options]        another row with random weights\n\n"
       "  --users N,N,...    so many at a time (1,4,16,64,256,1024)");
  for (k = 0; k < sizeof numbers / sizeof *numbers; k++)
    printf("  %s N%*s%s\n", numbers[k].name, 17 - (int)strlen(numbers[k].name), "",
           numbers[k].help);
  fputs("\nRows:", stdout);
  for (i = 0; i < MIRAS_PRESET_COUNT; i++)
    printf("%s %s", i % 6 ? "" : "\n ", miras_preset_name((miras_preset)i));
  putchar('\n');
}

static void read_options(options *o, int count, char **text) {
  const size_t all = sizeof numbers / sizeof *numbers;
  int i, model = 0;
  size_t k;
  for (i = 1; i < count; i++)
    if (!strcmp(text[i], "--help") || !strcmp(text[i], "-h")) {
      print_help();
      exit(0);
    }
  for (i = 1; i < count; i++) {
    const char *name = text[i];
    if (name[0] != '-') {
      if (model++) mistake("%s: there is a model already: %s", name, o->model);
      o->model = name;
      continue;
    }
    for (k = 0; k < all && strcmp(name, numbers[k].name);) k++;
    if (k == all && strcmp(name, "--users"))
      mistake("there is no option %s; serve --help lists them", name);
    if (++i == count) mistake("%s needs a value behind it", name);
    if (k == all) sizes(o, text[i]);
    else {
      const int n = number(name, text[i]);
      memcpy((char *)o + numbers[k].at, &n, sizeof n);
    }
  }
  if (o->threads > 256) mistake("--threads is %d; it must be from 1 to 256", o->threads);
  if (o->width % o->heads)
    mistake("--width is %d; it must be a multiple of --heads, %d", o->width, o->heads);
  if (o->rows > 65536) mistake("--rows is %d; it must be from 1 to 65536", o->rows);
}

static miras_model *open_model(const options *o) {
  static const char wanted[] = "it must be a preset (serve --help lists them) or a file "
                               "that lm train has written, such as model.safetensors";
  const miras_preset kind = miras_preset_find(o->model);
  miras_model_desc d;
  miras_model *m;
  char why[400];
  if (kind == MIRAS_PRESET_COUNT) {
    miras_result result = MIRAS_OK;
    errno = 0;
    m = miras_model_open_file(o->model, NULL, NULL, &result, NULL, 0);
    if (m) return m;
    snprintf(why, sizeof why, "%s; %s", result == MIRAS_ERR_IO && errno ? strerror(errno)
                                                                        : miras_result_text(result),
             result == MIRAS_ERR_IO || result == MIRAS_ERR_FORMAT ? wanted : "it cannot be opened");
    stop(o->model, why);
  }
  miras_model_preset(&d, kind, o->layers);
  d.vocab = 256, d.width = o->width, d.heads = o->heads;
  m = miras_model_open(&d, NULL, why, sizeof why);
  if (!m) stop(o->model, why);
  return m;
}

/* The state behind all of the prefix but its last token. */
static void feed_prefix(house *h) {
  int32_t token[PREFIX];
  size_t i;
  for (i = 0; i < PREFIX; i++) token[i] = word_of(h, i);
  h->prefix = (unsigned char *)room(1, h->bytes);
  h->last = token[PREFIX - 1];
  put(h->parts, h->prefix, token, PREFIX - 1, 0);
  must(miras_server_feed(h->server, h->parts, 1, NULL));
}

int main(int count, char **text) {
  options o = {"gated-deltanet", 256, 4, 4, 1, 256, 20, 2048, {1, 4, 16, 64, 256, 1024}, 6};
  miras_server_desc d = {0};
  const miras_parallel *pool = NULL;
  size_t most = DRAFT + 1, parameters = 0, bytes, among, i;
  house h;
  char why[256];
  const miras_view *views;
  int n;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);   /* into a pipe, too, line by line */
  read_options(&o, count, text);
  memset(&h, 0, sizeof h);
  h.o = &o;
  h.model = open_model(&o);
  if (o.threads > 1 && !(pool = miras_pool_open(o.threads, NULL, NULL, 0)))
    stop("the threads cannot be started", NULL);
  d.batch_tokens = o.rows;
  d.parallel = pool;
  bytes = miras_server_size(h.model, &d, why, sizeof why);
  h.server = bytes ? miras_server_open(h.model, &d, NULL, NULL, 0) : NULL;
  if (!h.server) stop("no server", why);
  h.vocab = (size_t)miras_model_desc_of(h.model)->vocab;
  h.bytes = miras_model_state_size(h.model);
  for (n = 0; n < o.sizes; n++)
    if ((size_t)o.users[n] > most) most = (size_t)o.users[n];
  h.users = (user *)room(most, sizeof *h.users);
  h.parts = (miras_sequence *)room(most + 1, sizeof *h.parts);
  h.states = (unsigned char *)room(most, h.bytes);
  h.logits = (float *)room((most + 1) * h.vocab, sizeof(float));
  h.calls = (double *)room((size_t)o.steps, sizeof *h.calls);
  views = miras_model_views(h.model, &n);
  for (i = 0; i < (size_t)n; i++) parameters += views[i].count;
  feed_prefix(&h);
  printf("%s, %zu parameters, %s, %d thread%s; %d rows at a time: a server of %zu bytes\n", o.model,
         parameters, miras_isa(), o.threads, o.threads > 1 ? "s" : "", o.rows, bytes);
  table(&h);
  among = most < 64 ? most : 64;
  printf("\nA prompt of %d tokens among %zu running users:\n\n"
         "| tokens of it in a call | slowest call, ms | prompt read after, ms |\n|--:|--:|--:|\n",
         o.prompt, among);
  for (i = (size_t)o.prompt; i >= 64; i = i > 256 ? 256 : i / 4) newcomer(&h, among, i);
  drafts(&h);
  miras_close(h.server);
  miras_pool_close(pool);
  miras_close(h.model);
  free(h.users), free(h.parts), free(h.states), free(h.logits), free(h.calls), free(h.prefix);
  return 0;
}
