/* serve.c: one model, many users.
 *
 *     cc -O2 examples/serve.c -o serve -lm -lpthread && ./serve
 *     ./serve model.safetensors --threads 4 --users 1,16,256,1024
 *     ./serve kda --width 512 --layers 8 --heads 8
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
  miras_sampling how;
} user;

typedef struct house {
  const options *o;
  miras_model *model;
  miras_server *server;
  size_t vocab, bytes;             /* of a state */
  unsigned char *prefix;           /* the state behind it */
  int32_t last;                    /* its last token, not fed yet */
  user *users;
  miras_text *parts;
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

static void put(miras_text *part, void *state, const int32_t *tokens, size_t count,
                size_t logits) {
  part->state = state;
  part->tokens = tokens;
  part->count = count;
  part->logits = logits;
}

/* A token more for each of n users, beside one other text or none. */
static void step(house *h, size_t n, const miras_text *beside) {
  size_t i;
  for (i = 0; i < n; i++) put(&h->parts[i], h->users[i].state, &h->users[i].token, 1, 1);
  if (beside) h->parts[n] = *beside;
  must(miras_server_feed(h->server, h->parts, n + (beside != NULL), h->logits));
  for (i = 0; i < n; i++)
    h->users[i].token =
      miras_sample(h->logits + i * h->vocab, (int)h->vocab, &h->users[i].how);
}

/* One user by a session, for comparison: tokens per second. */
static double alone(house *h, int steps) {
  miras_session *s = miras_session_open(h->model, NULL);
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
    u->token = miras_sample(miras_session_step(s, u->token), (int)h->vocab, &u->how);
    took = now() - start;
    if (took < best) best = took;
  }
  miras_session_close(s);
  return 1 / best;
}

static void table(house *h) {
  const options *o = h->o;
  const double one = alone(h, o->steps);
  int k, i;
  printf("\n| users | tokens/s | of one alone | call, ms: fastest | median | slowest | states |\n"
         "|--:|--:|--:|--:|--:|--:|--:|\n");
  printf("| a session | %.0f | 1.0 | %.3f | | | %zu |\n", one, 1e3 / one, h->bytes);
  for (k = 0; k < o->sizes; k++) {
    const size_t n = (size_t)o->users[k];
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
    miras_text beside;
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
  miras_sampling greedy = {0, 0, 0, 0};
  return miras_sample(h->logits + row * h->vocab, (int)h->vocab, &greedy);
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

static int number(const char *text) {
  char *end;
  const long n = strtol(text, &end, 10);
  if (end == text || *end || n < 1 || n > 1 << 20) stop("a number in 1..1048576 is wanted", text);
  return (int)n;
}

static void sizes(options *o, char *list) {
  char *at;
  for (o->sizes = 0, at = strtok(list, ","); at && o->sizes < MOST_SIZES; at = strtok(NULL, ","))
    o->users[o->sizes++] = number(at);
}

static void read_options(options *o, int count, char **text) {
  static const struct { const char *name; size_t at; } numbers[] = {
    {"--width", offsetof(options, width)},     {"--layers", offsetof(options, layers)},
    {"--heads", offsetof(options, heads)},     {"--threads", offsetof(options, threads)},
    {"--rows", offsetof(options, rows)},       {"--steps", offsetof(options, steps)},
    {"--prompt", offsetof(options, prompt)}};
  int i;
  size_t k;
  for (i = 1; i < count; i++) {
    for (k = 0; k < sizeof numbers / sizeof *numbers; k++)
      if (i + 1 < count && !strcmp(text[i], numbers[k].name)) {
        const int n = number(text[++i]);
        memcpy((char *)o + numbers[k].at, &n, sizeof n);
        break;
      }
    if (k < sizeof numbers / sizeof *numbers) continue;
    if (i + 1 < count && !strcmp(text[i], "--users")) sizes(o, text[++i]);
    else if (text[i][0] != '-') o->model = text[i];
    else
      stop("[FILE or row] [--users 1,8,64] [--threads 1] [--rows 256] [--steps 20] "
           "[--prompt 2048] [--width 256] [--layers 4] [--heads 4]", NULL);
  }
}

static miras_model *open_model(const options *o) {
  const miras_kind kind = miras_kind_find(o->model);
  miras_model_desc d;
  miras_model *m;
  char why[256];
  if (kind == MIRAS_KIND_COUNT) {
    miras_result result;
    m = miras_model_open_file(o->model, NULL, NULL, &result);
    if (!m) stop(o->model, miras_result_text(result));
    return m;
  }
  miras_model_preset(&d, kind);
  d.vocab = 256, d.width = o->width, d.layers = o->layers, d.heads = o->heads;
  if (!miras_model_size(&d, why, sizeof why)) stop(o->model, why);
  m = miras_model_open(&d, NULL);
  if (!m) stop("out of memory", NULL);
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
  miras_server_desc d = {0, 0, NULL};
  miras_pool *pool = NULL;
  size_t most = DRAFT + 1, parameters = 0, bytes, among, i;
  house h;
  char why[256];
  const miras_view *views;
  int n;
  read_options(&o, count, text);
  memset(&h, 0, sizeof h);
  h.o = &o;
  h.model = open_model(&o);
  if (o.threads > 1 && !(pool = miras_pool_open(o.threads, NULL))) stop("no threads", NULL);
  d.rows = o.rows;
  d.parallel = pool ? miras_pool_parallel(pool) : NULL;
  bytes = miras_server_size(h.model, &d, why, sizeof why);
  h.server = bytes ? miras_server_open(h.model, &d, NULL) : NULL;
  if (!h.server) stop("no server", why);
  h.vocab = (size_t)miras_model_desc_of(h.model)->vocab;
  h.bytes = miras_model_state_size(h.model);
  for (n = 0; n < o.sizes; n++)
    if ((size_t)o.users[n] > most) most = (size_t)o.users[n];
  h.users = (user *)room(most, sizeof *h.users);
  h.parts = (miras_text *)room(most + 1, sizeof *h.parts);
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
  miras_server_close(h.server);
  miras_pool_close(pool);
  miras_model_close(h.model);
  free(h.users), free(h.parts), free(h.states), free(h.logits), free(h.calls), free(h.prefix);
  return 0;
}
