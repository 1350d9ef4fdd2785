/* keyboard.c: predictive text that adapts: a small trained model whose head goes on learning.
 *
 *     cc -O2 examples/keyboard.c -o keyboard -lm
 *     ./keyboard                            made-up text of two users; trains for a minute first
 *     ./keyboard train TEXT [--minutes N]   trains a model on TEXT: keyboard.safetensors
 *     ./keyboard USER.txt..                 bits a byte and keys saved, for each of these users
 *     ./keyboard type --state F             type a line, and see what would have been offered
 *     ./keyboard show [WORD..] --state F    what was learned from: lines by number, and words
 *     ./keyboard delete N|WORD.. --state F  forgets lines, or those that have such words
 *     ./keyboard merge G --state F          learns the lines of another keyboard's state, G
 *     sh examples/data.sh keyboard data     fetches the texts that bench/results/jobs.md is about:
 *       ./keyboard train data/corpus.txt --minutes 30
 *       ./keyboard data/bible.txt data/readme.txt data/heldout.txt --corpus data/corpus.txt
 *
 *     --model F          the model, keyboard.safetensors
 *     --corpus TEXT      what it was trained on, whose words are counted too
 *     --characters N     how much of each user is read, 6000
 *     --contexts N       the memory has 2^N rows for hashed contexts, 10: 1.3 MB a user
 *     --minutes N        how long to train, 20;  --steps N  the same, by steps;  --seed N  which
 *                        model and which windows of the text, 1
 *     --plot F           the picture, keyboard.svg
 *
 * THE MODEL reads bytes: gated-deltanet, pattern (cm)*2, width 128, 0.5 million parameters. It is
 * frozen. Its HEAD AS A MEMORY (miras_model_desc.adapt) learns from each byte the user types, in
 * the state of the session: copying the state forks the text, saving it is the user's file.
 *
 * KEYS. A user begins from nothing. A word is a maximal run of ' and letters of any script, in
 * UTF-8. Before each of its letters one rest of the word is offered. It is tapped, for one key,
 * where it is the whole rest of the word and at least two letters; any other character costs a key.
 * What was tapped is learned like what was typed. Rows of the table are ways to choose the offer:
 *   words of the user    the word counted most often that begins like this: from the first letter
 *                        typed on, or before it too
 *   words, summed        counts of the user and of the corpus added up
 *   words, prior         P1(w) = (user(w) + 2 corpus(w) / corpus(prefix)) / (user(prefix) + 2)
 *   pairs of words       P2(w) = (pairs(before, w) + 4 P1(w)) / (pairs(before, prefix) + 4)
 *   model, and memory    P(rest) = the product of p(letter), times p(no letter next): a beam of 3,
 *                        on forks of the session's state
 *   .. with pairs        the rest with the largest P(rest) / 2 + P2 / 2
 * Rows of bits are the model with and without memory; counts of orders 0 to 3, mixed by the rule of
 * Witten and Bell, from nothing or after the corpus; and the model and its memory mixed with counts
 * of orders 0 to 6 (counts.h), after the corpus, too.
 *
 * WHAT WAS LEARNED stands in F.lines, a line for each that was typed, and F.start is the state
 * before the first of them where that was not an untouched one. To delete is to learn the other
 * lines again from that start: F is then, byte for byte, what it would be had the deleted ones
 * never been typed. It is refused if the lines are not what has made F, to the bit. Of G merges
 * what its lines tell, not its start. Give all of these the same --model and --corpus.
 *
 * Nothing is allocated after the set-up but room for lines. Exit status: 0 done, 1 a file failed, 2
 * wrong arguments */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include "counts.h"

enum { VOCAB = 256, LONGEST = 32, BEAM = 3, REST = 14, OFFERS = 64, USERS = 8, CURVE = 24 };
enum { WORDS = 1 << 18, SLOTS = 1 << 19, PAIRS = 1 << 18, CELLS = 1 << 20 };
enum { USER_FIRST, USER_ANY, SUMMED, PRIOR, PAIRED, MODEL, MEMORY, MODEL_PAIRS, FULL, METHODS };
enum { COUNTED, COUNTED_AFTER, ALONE, ADAPTED, MIXED, BITS };

static const char *const method_name[METHODS] = {
  "words of the user, 1st letter typed", "words of the user", "words, summed with the corpus",
  "words, the corpus as prior", "pairs of words, then those", "the model alone",
  "the model and its memory", "the model alone, with pairs", "the model, its memory, with pairs"};
static const char *const bits_name[BITS] = {
  "counts of orders 0 to 3", "the same after the corpus", "the model alone",
  "the model and its memory", "these, mixed with counts"};

static void die(int status, const char *format, ...) {
  va_list list;
  fputs("keyboard: ", stderr);
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

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The finaliser of splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t mixed(uint64_t x) {
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static double uniform(uint64_t *s) {   /* 0 .. 1 */
  return (double)(mixed(*s += UINT64_C(0x9e3779b97f4a7c15)) >> 11) / 9007199254740992.0;
}

/* Bytes of letters: ASCII's, and those of characters beyond it, in UTF-8, but for the blocks that
 * begin with c2, e2 and e3 80 (punctuation, arrows, signs) and f0 on (pictures). */
static int letter(int c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\'' ||
         (c >= 128 && c < 240 && c != 0xc2 && c != 0xe2);
}

/* Does a byte go on with the character of the one before? */
static int within(int c) { return (c & 0xc0) == 0x80; }

/* Characters that begin in so many bytes. */
static int characters(const void *text, size_t n) {
  const unsigned char *s = (const unsigned char *)text;
  int count = 0;
  for (; n; n--, s++) count += !within(*s);
  return count;
}

/* Are these whole characters? A model may offer parts of one. */
static int whole_characters(const char *s, int n) {
  int i, more = 0;
  for (i = 0; i < n; i++) {
    const int c = (unsigned char)s[i];
    if (within(c) != (more > 0)) return 0;
    more = within(c) ? more - 1 : c < 0xc0 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
  }
  return !more;
}

/* Bytes of the letters that a text goes on with, from the beginning of a character on. */
static size_t letters_of(const unsigned char *s, size_t n) {
  size_t i = 0;
  if (n && within(*s)) return 0;
  while (i < n && letter(s[i])) i++;
  return i;
}

typedef struct text {
  char name[64];
  unsigned char *at;
  size_t n;
} text;

static text read_text(const char *path) {
  FILE *f = fopen(path, "rb");
  const char *slash = strrchr(path, '/');
  size_t room = 1 << 16, got;
  text t = {"", NULL, 0};
  if (!f) die(1, "%s cannot be opened", path);
  t.at = (unsigned char *)malloc(room);
  while (t.at && (got = fread(t.at + t.n, 1, room - t.n, f)) > 0)
    if ((t.n += got) == room) t.at = (unsigned char *)realloc(t.at, room *= 2);
  if (!t.at || ferror(f)) die(1, "%s cannot be read", path);
  fclose(f);
  snprintf(t.name, sizeof t.name, "%.60s", slash ? slash + 1 : path);
  if (strrchr(t.name, '.')) *strrchr(t.name, '.') = 0;
  return t;
}

/* Bytes of a corpus, at its end, from which the model does not learn. */
static size_t kept_back(const text *t) { return t->n / 100 < 20000 ? t->n / 100 : 20000; }

/* ---- counted words ---- */

typedef struct word {
  char s[LONGEST];
  int n, first;              /* letters; the first of its pairs, or -1 */
  float corpus, user, after; /* how often; as the next word, while an offer is made */
} word;

typedef struct pair {
  int word, next;            /* what came; the next pair of the word before, or -1 */
  float count;
} pair;

typedef struct counter {
  word *word;                /* word[0] has no letters: before the first */
  int *slot, *fits;          /* of a hash table; the words that begin like this */
  pair *pair;
  int words, known, pairs, fitting; /* known: of the corpus */
  int before;                /* the word before */
  char s[LONGEST];           /* the letters of this one so far */
  int n;
  double corpus, user, after; /* how often words that begin like this */
} counter;

/* A word of the table; -1 if it is not there, and is not to be or finds no room. */
static int counter_find(counter *c, const char *s, int n, int add) {
  uint64_t hash = (uint64_t)n;
  int i;
  for (i = 0; i < n; i++) hash = mixed(hash ^ (unsigned char)s[i]);
  for (i = (int)(hash % SLOTS); c->slot[i] >= 0; i = (i + 1) % SLOTS) {
    const word *w = &c->word[c->slot[i]];
    if (w->n == n && memcmp(w->s, s, (size_t)n) == 0) return c->slot[i];
  }
  if (!add || c->words == WORDS) return -1;
  memset(&c->word[c->words], 0, sizeof(word));
  memcpy(c->word[c->words].s, s, (size_t)n);
  c->word[c->words].n = n;
  c->word[c->words].first = -1;
  return c->slot[i] = c->words++;
}

/* A pair more, `times` over. */
static void counter_add(counter *c, int before, int now_, float times) {
  int i;
  if (before < 0 || now_ < 0) return;
  c->word[now_].user += times;
  for (i = c->word[before].first; i >= 0; i = c->pair[i].next)
    if (c->pair[i].word == now_) break;
  if (i < 0 && c->pairs == PAIRS) return;
  if (i < 0) {
    i = c->pairs++;
    c->pair[i].word = now_;
    c->pair[i].count = 0;
    c->pair[i].next = c->word[before].first;
    c->word[before].first = i;
  }
  c->pair[i].count += times;
}

/* The words that begin with the letters so far, of all or of those that fitted before. */
static void counter_fit(counter *c) {
  int i, fitting = 0;
  if (c->n == 0) {
    for (i = 1; i < c->words; i++) c->fits[i - 1] = i;
    c->fitting = c->words - 1;
    return;
  }
  for (i = 0; i < c->fitting; i++) {
    const word *w = &c->word[c->fits[i]];
    if (w->n >= c->n && w->s[c->n - 1] == c->s[c->n - 1]) c->fits[fitting++] = c->fits[i];
  }
  c->fitting = fitting;
}

/* A character was typed. */
static void counter_learn(counter *c, int typed) {
  if (letter(typed) && (c->n || !within(typed))) {
    if (c->n == LONGEST - 1) return;
    c->s[c->n++] = (char)typed;
  } else if (c->n) {
    const int at = counter_find(c, c->s, c->n, 1);
    counter_add(c, c->before, at, 1);
    if (at >= 0) c->before = at;
    c->n = 0;
  } else {
    return;
  }
  counter_fit(c);
}

/* Forget the user: words that the corpus does not have came last into the table. */
static void counter_reset(counter *c) {
  int i;
  for (i = 0; i < SLOTS; i++)
    if (c->slot[i] >= c->known) c->slot[i] = -1;
  for (i = 0; i < c->known; i++) c->word[i].user = 0, c->word[i].first = -1;
  c->words = c->known;
  c->pairs = c->before = c->n = 0;
  counter_fit(c);
}

static void counter_open(counter *c, const text *corpus) {
  size_t i, begin;
  int k;
  c->word = (word *)get(WORDS, sizeof(word));
  c->slot = (int *)get(SLOTS, sizeof(int));
  c->fits = (int *)get(WORDS, sizeof(int));
  c->pair = (pair *)get(PAIRS, sizeof(pair));
  for (k = 0; k < SLOTS; k++) c->slot[k] = -1;
  c->word[0].first = -1;
  c->words = 1;
  for (i = 0; i < corpus->n; i++) {
    for (begin = i; i < corpus->n && letter(corpus->at[i]); i++) continue;
    if (i == begin) continue;
    k = i - begin < LONGEST ? (int)(i - begin) : LONGEST - 1;
    k = counter_find(c, (const char *)corpus->at + begin, k, 1);
    if (k >= 0) c->word[k].corpus++;
  }
  c->known = c->words;
  counter_reset(c);
}

/* Before words are asked for: sums over those that fit, and what came after the word before. */
static void counter_begin(counter *c) {
  int i;
  c->corpus = 1e-9, c->user = c->after = 0;
  for (i = 0; i < c->fitting; i++) {
    const word *w = &c->word[c->fits[i]];
    c->corpus += (double)w->corpus, c->user += (double)w->user;
  }
  for (i = c->word[c->before].first; i >= 0; i = c->pair[i].next) {
    word *w = &c->word[c->pair[i].word];
    if (w->n < c->n || memcmp(w->s, c->s, (size_t)c->n) != 0) continue;
    w->after = c->pair[i].count;
    c->after += (double)w->after;
  }
}

static void counter_end(counter *c) {
  int i;
  for (i = c->word[c->before].first; i >= 0; i = c->pair[i].next)
    c->word[c->pair[i].word].after = 0;
}

static double prior(const counter *c, const word *w) {
  return ((double)w->user + 2 * (double)w->corpus / c->corpus) / (c->user + 2);
}

static double paired(const counter *c, const word *w) {
  return ((double)w->after + 4 * prior(c, w)) / (c->after + 4);
}

/* The user's pairs of words, one a line, beside his state; last, 0 times, the word before. */
static void counter_save(const counter *c, const char *path) {
  FILE *f = fopen(path, "w");
  int i, k;
  if (!f) die(1, "%s cannot be written", path);
  for (i = 0; i < c->words; i++)
    for (k = c->word[i].first; k >= 0; k = c->pair[k].next)
      fprintf(f, "%.0f %s %s\n", (double)c->pair[k].count, i ? c->word[i].s : "-",
              c->word[c->pair[k].word].s);
  if (c->before) fprintf(f, "0 - %s\n", c->word[c->before].s);
  if (fclose(f)) die(1, "%s cannot be written", path);
}

static void counter_load(counter *c, const char *path) {
  char before[LONGEST], s[LONGEST];
  FILE *f = fopen(path, "r");
  float times;
  if (!f) die(1, "%s cannot be opened", path);
  while (fscanf(f, "%f %31s %31s", &times, before, s) == 3) {
    const int from = strcmp(before, "-") ? counter_find(c, before, (int)strlen(before), 1) : 0;
    const int at = counter_find(c, s, (int)strlen(s), 1);
    if (times > 0) counter_add(c, from, at, times);
    else if (at >= 0) c->before = at;
  }
  fclose(f);
  counter_fit(c);
}

/* ---- counts of orders 0 to 3 ---- */

typedef struct cell {
  uint64_t key;              /* the order, the bytes before, the byte or none */
  uint32_t n, kinds;         /* how often; of how many kinds the next byte was */
} cell;

static cell *cell_find(cell *table, size_t *used, uint64_t key) {
  size_t i = (size_t)(mixed(key) % CELLS);
  while (table[i].n && table[i].key != key) i = (i + 1) % CELLS;
  if (!table[i].n && used) {
    if (*used > CELLS / 8 * 7) return NULL;   /* full: it learns no more of what is new */
    *used += 1;
    table[i].key = key;
  }
  return &table[i];
}

/* The bits of a byte after those before it, which are then learned. */
static double cells_learn(cell *table, size_t *used, uint32_t before, int byte) {
  double p = 1.0 / VOCAB;
  cell *all, *one;
  int k;
  for (k = 0; k <= 3; k++) {
    const uint64_t key = (uint64_t)k << 40 | (uint64_t)(before & ((1u << 8 * k) - 1)) << 9;
    all = cell_find(table, NULL, key | VOCAB);
    one = cell_find(table, NULL, key | (uint64_t)byte);
    if (all->n) p = (one->n + all->kinds * p) / ((double)all->n + all->kinds);
    all = cell_find(table, used, key | VOCAB);
    if (!all) continue;
    all->n++;                /* taken, before another looks for a place */
    one = cell_find(table, used, key | (uint64_t)byte);
    if (one && !one->n++) all->kinds++;
    if (!all->kinds) all->kinds = 1;
  }
  return -log2(p);
}

/* ---- the model ---- */

typedef struct offer {
  double p;
  int n;
  char s[LONGEST];
} offer;

typedef struct guess {       /* of the beam: letters, and the text behind them */
  offer so_far;
  float next[VOCAB];
  void *state;
} guess;

typedef struct reader {
  miras_model *model;
  miras_session *session, *copy;
  miras_server *server;
  void *state;               /* of the session */
  size_t bytes;
  float next[VOCAB], logits[BEAM * VOCAB];
  guess room[2][BEAM];
  offer offers[OFFERS];
  int offering;
  double seconds;
} reader;

static void probabilities(const float *logits, float *p) {
  double sum = 0;
  float most = logits[0];
  int i;
  for (i = 1; i < VOCAB; i++) most = logits[i] > most ? logits[i] : most;
  for (i = 0; i < VOCAB; i++) sum += (double)(p[i] = expf(logits[i] - most));
  for (i = 0; i < VOCAB; i++) p[i] = (float)((double)p[i] / sum);
}

/* contexts 0: the head does not learn. */
static void reader_open(reader *r, const char *path, int contexts) {
  static const miras_server_desc small = {BEAM, 0, NULL, MIRAS_STATES_FLOAT,
                                          MIRAS_ROUNDING_NEAREST, MIRAS_PRODUCTS_FLOAT};
  miras_model_desc given;
  char why[256] = "";
  int i, k;
  memset(&given, 0, sizeof given);
  if (contexts) {
    given.adapt.learning_rate = 1;
    given.adapt.hidden = 1;
    given.adapt.contexts = contexts;
  }
  r->model = miras_model_open_file(path, &given, NULL, NULL, why, sizeof why);
  if (!r->model) die(1, "%s: %s", path, why);
  if (miras_model_desc_of(r->model)->vocab != VOCAB)
    die(1, "%s is not a model of bytes", path);
  r->session = miras_session_open(r->model, NULL, NULL, why, sizeof why);
  r->copy = miras_session_open(r->model, NULL, NULL, why, sizeof why);
  r->server = miras_server_open(r->model, &small, NULL, why, sizeof why);
  if (!r->session || !r->copy || !r->server) die(1, "%s: %s", path, why);
  r->state = miras_session_state(r->session, &r->bytes);
  for (i = 0; i < 2; i++)
    for (k = 0; k < BEAM; k++) r->room[i][k].state = get(r->bytes, 1);
}

static void reader_close(reader *r) {
  int i, k;
  if (!r->model) return;
  for (i = 0; i < 2; i++)
    for (k = 0; k < BEAM; k++) free(r->room[i][k].state);
  miras_close(r->server);
  miras_close(r->copy);
  miras_close(r->session);
  miras_close(r->model);
}

static void reader_feed(reader *r, int byte) {
  probabilities(miras_session_step(r->session, byte), r->next);
}

/* The bits of text[n], as this model and counts together predict it; the counts learn it. */
static double reader_mixes(const reader *r, counts *k, const unsigned char *text, size_t n) {
  uint32_t shares[VOCAB + 1];
  counts_shares(miras_session_logits(r->session), shares);
  return counts_byte(k, text, n, shares);
}

static void reader_reset(reader *r) {
  miras_session_reset(r->session);
  reader_feed(r, '\n');
}

/* The likeliest next letters of `from` guesses: at most BEAM, those likely enough. */
static int likeliest(const guess *from, int guesses, double least, int *parent, int *next) {
  double best[BEAM];
  int i, c, k, n = 0;
  for (i = 0; i < guesses; i++)
    for (c = 0; c < VOCAB; c++) {
      const double p = from[i].so_far.p * (double)from[i].next[c];
      if (!letter(c) || p < least || (n == BEAM && p <= best[n - 1])) continue;
      for (k = n < BEAM ? n++ : n - 1; k > 0 && best[k - 1] < p; k--)
        best[k] = best[k - 1], parent[k] = parent[k - 1], next[k] = next[k - 1];
      best[k] = p, parent[k] = i, next[k] = c;
    }
  return n;
}

/* Offers of the model: every prefix of what the beam finds, with the probability that the word ends
 * there. Each guess runs on a copy of the text's state. */
static void reader_offer(reader *r) {
  guess *from = r->room[0], *to = r->room[1], *swap, start;
  int depth, i, c, n = 1, parent[BEAM];
  double top = 0;
  memset(&start.so_far, 0, sizeof start.so_far);
  start.so_far.p = 1;
  start.state = r->state;
  memcpy(start.next, r->next, sizeof start.next);
  r->offering = 0;
  for (depth = 0; depth < REST && n; depth++) {
    const guess *now_ = depth ? from : &start;
    miras_sequence call[BEAM];
    int32_t next[BEAM];
    for (i = 0; depth && i < n; i++) {
      offer *o = &r->offers[r->offering++];
      double end = 0;
      for (c = 0; c < VOCAB; c++) end += letter(c) ? 0 : (double)now_[i].next[c];
      *o = now_[i].so_far;
      o->p *= end;
      top = fmax(top, o->p * (characters(o->s, (size_t)o->n) - 1));
    }
    n = likeliest(now_, n, fmax(1e-4, top / 12), parent, next);
    memset(call, 0, sizeof call);
    for (i = 0; i < n; i++) {
      const guess *of = &now_[parent[i]];
      to[i].so_far = of->so_far;
      to[i].so_far.p *= (double)of->next[next[i]];
      to[i].so_far.s[to[i].so_far.n++] = (char)next[i];
      memcpy(to[i].state, of->state, r->bytes);
      call[i].state = to[i].state;
      call[i].tokens = &next[i];
      call[i].count = call[i].logit_rows = 1;
    }
    if (n && miras_server_feed(r->server, call, (size_t)n, r->logits) != MIRAS_OK)
      die(1, "the model refuses a letter");
    for (i = 0; i < n; i++) probabilities(r->logits + i * VOCAB, to[i].next);
    swap = from, from = to, to = swap;
  }
}

/* ---- offers ---- */

typedef struct desk {
  counter counter;
  reader reader[2];          /* the model alone; with its memory */
  int readers;               /* from which of them on: 0, or 1 where a user types */
  offer best[METHODS];
  cell *counts, *after, *corpus; /* of the user, from nothing and after the corpus; the corpus */
  size_t used, used_after, used_corpus;
  uint32_t before;           /* the last three bytes */
  counts *mixed, *mixed_corpus;   /* orders 0 to 6 and memories that mix: of the user; the corpus */
  unsigned char *typed;      /* the corpus, then what was typed */
  size_t known, count;       /* bytes of the corpus, and so far */
} desk;

static void better(offer *best, double p, const char *s, int n) {
  if (n >= LONGEST || characters(s, (size_t)n) < 2 || !(p > best->p) || !whole_characters(s, n))
    return;
  best->p = p;
  best->n = n;
  memcpy(best->s, s, (size_t)n);
}

/* Every method's offer of the rest of a word, before its next letter. */
static void make_offers(desk *d) {
  counter *c = &d->counter;
  char s[2 * LONGEST];
  int i, k;
  for (i = 0; i < METHODS; i++) d->best[i].p = 0, d->best[i].n = 0;
  counter_begin(c);
  memcpy(s, c->s, LONGEST);
  for (k = d->readers; k < 2; k++) {
    const double then = now();
    reader_offer(&d->reader[k]);
    for (i = 0; i < d->reader[k].offering; i++) {
      const offer *o = &d->reader[k].offers[i];
      const int n = c->n + o->n;
      int at = -1;
      memcpy(s + c->n, o->s, (size_t)o->n);
      if (n < LONGEST) at = counter_find(c, s, n, 0);
      better(&d->best[MODEL + k], o->p, o->s, o->n);
      better(&d->best[MODEL_PAIRS + k], o->p / 2 + (at < 0 ? 0 : paired(c, &c->word[at]) / 2), o->s,
             o->n);
    }
    d->reader[k].seconds += now() - then;
  }
  for (i = 0; i < c->fitting; i++) {
    const word *w = &c->word[c->fits[i]];
    const char *rest = w->s + c->n;
    const int n = w->n - c->n;
    const double p = paired(c, w);
    if (c->n) better(&d->best[USER_FIRST], (double)w->user, rest, n);
    better(&d->best[USER_ANY], (double)w->user, rest, n);
    better(&d->best[SUMMED], (double)(w->user + w->corpus), rest, n);
    better(&d->best[PRIOR], prior(c, w), rest, n);
    better(&d->best[PAIRED], p, rest, n);
    better(&d->best[MODEL_PAIRS], p / 2, rest, n);
    better(&d->best[FULL], p / 2, rest, n);
  }
  counter_end(c);
}

static int is_rest(const offer *o, const unsigned char *rest, size_t n) {
  return n && (size_t)o->n == n && memcmp(o->s, rest, n) == 0;
}

/* ---- measuring ---- */

typedef struct result {
  const char *name;
  size_t n;
  double bits[BITS], saved[METHODS], curve[2][CURVE], ms;
  int same;                  /* a state that was saved and loaded goes on with the same bits */
} result;

/* Orders 0 to 6 after the corpus, of whose end the memories learn whom to believe. */
static void desk_counts(desk *d, const text *corpus, size_t most) {
  const size_t learn = corpus->n - kept_back(corpus);
  reader *r = &d->reader[1];
  d->known = corpus->n;
  d->typed = (unsigned char *)get(corpus->n + most, 1);
  d->mixed = counts_open(20, 1);
  d->mixed_corpus = counts_open(20, 1);
  if (!d->mixed || !d->mixed_corpus) die(1, "there is not enough memory for counts");
  if (corpus->n) memcpy(d->typed, corpus->at, corpus->n);
  reader_reset(r);
  for (d->count = 0; d->count < d->known; d->count++) {
    if (d->count < learn) counts_see(d->mixed_corpus, d->typed, d->count);
    else reader_mixes(r, d->mixed_corpus, d->typed, d->count), reader_feed(r, d->typed[d->count]);
  }
}

static void desk_open(desk *d, const char *model, int contexts, const text *corpus, int readers,
                      size_t most) {
  uint32_t before = 0;
  size_t i;
  d->readers = readers;
  counter_open(&d->counter, corpus);
  if (!readers) {
    reader_open(&d->reader[0], model, 0);
    d->counts = (cell *)get(CELLS, sizeof(cell));
    d->after = (cell *)get(CELLS, sizeof(cell));
    d->corpus = (cell *)get(CELLS, sizeof(cell));
    for (i = 0; i < corpus->n; i++) {
      cells_learn(d->corpus, &d->used_corpus, before, corpus->at[i]);
      before = before << 8 | corpus->at[i];
    }
  }
  reader_open(&d->reader[1], model, contexts);
  if (!readers) desk_counts(d, corpus, most);
}

static void desk_close(desk *d) {
  free(d->counts), free(d->after), free(d->corpus), free(d->typed);
  counts_close(d->mixed), counts_close(d->mixed_corpus);
  free(d->counter.word), free(d->counter.slot), free(d->counter.fits), free(d->counter.pair);
  reader_close(&d->reader[0]), reader_close(&d->reader[1]);
}

static void desk_reset(desk *d) {
  int k;
  counter_reset(&d->counter);
  for (k = d->readers; k < 2; k++) reader_reset(&d->reader[k]), d->reader[k].seconds = 0;
  if (d->readers) return;
  memset(d->counts, 0, CELLS * sizeof(cell));
  memcpy(d->after, d->corpus, CELLS * sizeof(cell));
  d->used = 0, d->used_after = d->used_corpus;
  d->before = 0;
  counts_copy(d->mixed, d->mixed_corpus);
  d->count = d->known;
}

/* The bits of a byte that was typed, which is learned. */
static void desk_learn(desk *d, int byte, double bits[BITS]) {
  int k;
  if (!d->readers) {
    bits[COUNTED] = cells_learn(d->counts, &d->used, d->before, byte);
    bits[COUNTED_AFTER] = cells_learn(d->after, &d->used_after, d->before, byte);
    d->before = d->before << 8 | (uint32_t)byte;
    d->typed[d->count] = (unsigned char)byte;
    bits[MIXED] = reader_mixes(&d->reader[1], d->mixed, d->typed, d->count++);
  }
  for (k = d->readers; k < 2; k++) {
    const double then = now();
    bits[ALONE + k] = -log2((double)d->reader[k].next[byte] + 1e-30);
    reader_feed(&d->reader[k], byte);
    d->reader[k].seconds += now() - then;
  }
  counter_learn(&d->counter, byte);
}

/* Does the state that was saved, in another session, go on with the very bits of this one? */
static int loads(reader *r, const char *path, const text *t) {
  char why[256] = "";
  size_t i;
  if (miras_load(r->copy, path, why, sizeof why) != MIRAS_OK) die(1, "%s: %s", path, why);
  for (i = 0; i < t->n && i < 200; i++) {
    const float *one = miras_session_step(r->session, t->at[i]);
    const float *other = miras_session_step(r->copy, t->at[i]);
    if (memcmp(one, other, VOCAB * sizeof *one) != 0) return 0;
  }
  return 1;
}

static void save_user(desk *d, const char *path) {
  char words[256];
  const miras_result said = miras_save(d->reader[1].session, path);
  if (said != MIRAS_OK) die(1, "%s: %s", path, miras_result_text(said));
  snprintf(words, sizeof words, "%.240s.words", path);
  counter_save(&d->counter, words);
}

static void measure(desk *d, const text *t, size_t most, result *r) {
  const double start = now();
  double told = start;
  int tapped[METHODS], keys[METHODS], m, k;
  char path[80];
  size_t at, rest, n = t->n < most ? t->n : most;
  memset(r, 0, sizeof *r);
  memset(tapped, 0, sizeof tapped);
  memset(keys, 0, sizeof keys);
  r->name = t->name;
  r->n = n;
  desk_reset(d);
  for (at = 0; at < n; at++) {
    double bits[BITS];
    int open = 0;
    const int more = within(t->at[at]);
    rest = letters_of(t->at + at, n - at);
    for (m = 0; m < METHODS && !more; m++) {
      if (!rest) tapped[m] = 0;
      keys[m] += !tapped[m];
      open += !tapped[m];
    }
    if (characters(t->at + at, rest) < 2) rest = 0;
    if (rest && open) make_offers(d);
    for (m = 0; m < METHODS && rest; m++)
      if (!tapped[m]) tapped[m] = is_rest(&d->best[m], t->at + at, rest);
    desk_learn(d, t->at[at], bits);
    for (k = 0; k < BITS; k++) r->bits[k] += bits[k] / (double)n;
    for (k = 0; k < 2; k++)
      r->curve[k][at * CURVE / n] += bits[ALONE + k] * CURVE / (double)n;
    if (now() - told > (told > start ? 5 : 1)) {
      told = now();
      fprintf(stderr, "%3.0f %%  about %.0f s left\n", 100 * (double)at / (double)n,
              (told - start) * (double)(n - at) / (double)(at + 1));
    }
  }
  for (m = 0; m < METHODS; m++)
    r->saved[m] = 100 * (1 - keys[m] / (double)characters(t->at, n));
  r->ms = 1e3 * d->reader[1].seconds / (double)n;
  snprintf(path, sizeof path, "%s.state", t->name);
  save_user(d, path);
  r->same = loads(&d->reader[1], path, t);
}

static void print_tables(const result *r, int users) {
  int i, k;
  double mean;
  printf("\n%-36s", "bits a byte");
  for (i = 0; i < users; i++) printf(" %11.11s", r[i].name);
  printf("        mean\n");
  for (k = 0; k < BITS; k++) {
    printf("%-36s", bits_name[k]);
    for (i = 0, mean = 0; i < users; i++) printf(" %11.3f", r[i].bits[k]), mean += r[i].bits[k];
    printf(" %11.3f\n", mean / users);
  }
  printf("%-36s", "fewer by the memory");
  for (i = 0, mean = 0; i < users; i++) {
    const double fewer = 100 * (1 - r[i].bits[ADAPTED] / r[i].bits[ALONE]);
    printf(" %9.1f %%", fewer), mean += fewer;
  }
  printf(" %9.1f %%\n\n%-36s\n", mean / users, "keys saved, of a hundred");
  for (k = 0; k < METHODS; k++) {
    printf("%-36s", method_name[k]);
    for (i = 0, mean = 0; i < users; i++) printf(" %11.2f", r[i].saved[k]), mean += r[i].saved[k];
    printf(" %11.2f\n", mean / users);
  }
}

/* Where the memory is worth nothing, it says so. */
static void print_verdict(const result *r, int users) {
  int i, k;
  printf("\n");
  for (i = 0; i < users; i++) {
    int best = USER_FIRST;
    for (k = USER_FIRST; k <= PAIRED; k++)
      if (r[i].saved[k] > r[i].saved[best]) best = k;
    printf("%s: of counters the best is \"%s\"; ", r[i].name, method_name[best]);
    if (r[i].saved[FULL] > r[i].saved[best])
      printf("the whole saves %.2f more\n", r[i].saved[FULL] - r[i].saved[best]);
    else printf("THE WHOLE SAVES NO MORE (%.2f)\n", r[i].saved[FULL] - r[i].saved[best]);
    if (r[i].saved[MODEL_PAIRS] >= r[i].saved[FULL])
      printf("  the model without memory saves %.2f more than with\n",
             r[i].saved[MODEL_PAIRS] - r[i].saved[FULL]);
    if (r[i].bits[COUNTED_AFTER] <= r[i].bits[ADAPTED])
      printf("  counts after the corpus take no more bits\n");
  }
}

/* ---- the picture ---- */

enum { WIDE = 940, ROW = 176, HEAD = 92, LEFT = 56, RIGHT = 440, BARS = 700, BARS_RIGHT = 890 };

static const char svg_style[] =
  ".card{fill:#fff}text{font:13px system-ui,sans-serif;fill:#24292f}.head{font-size:17px;"
  "font-weight:600}.name{font-weight:600}.tick{font-size:11px;fill:#57606a}.end{text-anchor:end}"
  ".grid{stroke:#d8dee4}.alone{fill:none;stroke:#8c959f;stroke-width:2}.memory{fill:none;"
  "stroke:#0a6ebd;stroke-width:2.5}.n1{fill:#0a6ebd}.bar{fill:#afb8c1}.best{fill:#0a6ebd}"
  "@media(prefers-color-scheme:dark){.card{fill:#0d1117}text{fill:#e6edf3}.tick{fill:#9da7b3}"
  ".grid{stroke:#272e37}.alone{stroke:#8b949e}.memory{stroke:#58b0ff}.bar{fill:#484f58}"
  ".best,.n1{fill:#58b0ff}}";

static void svg_user(FILE *f, const result *r, int top, double high, double most) {
  static const int shown[] = {USER_ANY, PAIRED, MODEL, MODEL_PAIRS, FULL};
  static const char *const label[] = {"user's words counted", "word pairs counted", "model alone",
                                      "model, word pairs", "and its memory"};
  const int bottom = top + ROW - 52;
  double end[2];
  int i, k;
  fprintf(f, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n"
             "<text class=\"tick end\" x=\"%d\" y=\"%d\">%.2f bits a byte alone, %.2f with its "
             "memory</text>\n", LEFT, top - 8, r->name, RIGHT, top - 8, r->bits[ALONE],
          r->bits[ADAPTED]);
  for (i = 0; i <= (int)high; i += high > 4 ? 2 : 1) {
    const double y = bottom - i / high * (bottom - top);
    fprintf(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"tick end\" x=\"%d\" "
               "y=\"%.1f\">%d</text>\n", LEFT, y, RIGHT, LEFT - 6, y + 4, i);
  }
  for (k = 0; k < 2; k++)
    end[k] = bottom - fmin(r->curve[k][CURVE - 1], high) / high * (bottom - top);
  if (fabs(end[1] - end[0]) < 12) end[end[1] > end[0]] = end[end[1] <= end[0]] + 12;
  for (k = 0; k < 2; k++) {
    fprintf(f, "<path class=\"%s\" d=\"", k ? "memory" : "alone");
    for (i = 0; i < CURVE; i++)
      fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', LEFT + (i + 0.5) / CURVE * (RIGHT - LEFT),
              bottom - fmin(r->curve[k][i], high) / high * (bottom - top));
    fprintf(f, "\"/>\n<text class=\"tick %s\" x=\"%d\" y=\"%.1f\">%s</text>\n",
            k ? "n1" : "n0", RIGHT, end[k] + 4, k ? "its head a memory" : "model alone");
  }
  fprintf(f, "<text class=\"tick\" x=\"%d\" y=\"%d\">first character</text><text class=\"tick end\""
             " x=\"%d\" y=\"%d\">%lu</text>\n", LEFT, bottom + 16, RIGHT, bottom + 16,
          (unsigned long)r->n);
  for (i = 0; i < 5; i++) {
    const double saved = fmax(r->saved[shown[i]], 0);
    const double width = saved / most * (BARS_RIGHT - BARS);
    fprintf(f, "<text class=\"end\" x=\"%d\" y=\"%d\">%s</text><rect class=\"%s\" x=\"%d\" "
               "y=\"%d\" width=\"%.1f\" height=\"16\" rx=\"2\"/><text class=\"tick\" x=\"%.1f\" "
               "y=\"%d\">%.1f</text>\n", BARS - 8, top + 13 + 25 * i, label[i],
            i == 4 ? "best" : "bar", BARS, top + 25 * i, width, BARS + width + 5, top + 13 + 25 * i,
            r->saved[shown[i]]);
  }
}

static void draw(const char *path, const result *r, int users) {
  FILE *f = fopen(path, "w");
  double high = 1, most = 1;
  const int tall = HEAD + ROW * users + 20;
  int i, k;
  if (!f) die(1, "%s cannot be written", path);
  for (i = 0; i < users; i++) {
    for (k = 0; k < CURVE; k++) high = fmax(high, fmax(r[i].curve[0][k], r[i].curve[1][k]));
    for (k = 0; k < METHODS; k++) most = fmax(most, r[i].saved[k]);
  }
  high = ceil(high);
  fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
             "height=\"%d\" role=\"img\" aria-label=\"A keyboard that learns its user\"><title>A "
             "keyboard that learns its user</title><style>%s</style>\n<rect class=\"card\" "
             "width=\"%d\" height=\"%d\" rx=\"8\"/>\n<text class=\"head\" x=\"%d\" y=\"30\">A "
             "keyboard that learns its user while he types</text>\n",
          WIDE, tall, WIDE, tall, svg_style, WIDE, tall, LEFT);
  fprintf(f, "<text class=\"tick\" x=\"%d\" y=\"54\">bits a byte: less is better</text>\n"
             "<text class=\"tick\" x=\"%d\" y=\"54\">keys saved, of a hundred: more is better"
             "</text>\n", LEFT, BARS - 104);
  for (i = 0; i < users; i++) svg_user(f, &r[i], HEAD + ROW * i, high, most);
  fprintf(f, "<text class=\"tick\" x=\"%d\" y=\"%d\">Each user begins from nothing. One rest of "
             "the word is offered before each letter; a tap takes it. Word pairs: of the user, "
             "then words of user and corpus.</text>\n</svg>\n", LEFT, tall - 16);
  if (fclose(f)) die(1, "%s cannot be written", path);
}

/* ---- training ---- */

typedef struct options {
  const char *model, *corpus, *plot, *state;
  int contexts, width;
  long characters, steps, seed;
  double minutes;
} options;

/* Bits a byte of the text's last part, which was kept back; from nothing. */
static double validate(const miras_model *m, const unsigned char *at, size_t n) {
  char why[256] = "";
  miras_session *s = miras_session_open(m, NULL, NULL, why, sizeof why);
  int32_t x[2];
  double sum = 0, loss;
  size_t i;
  if (!s) die(1, "%s", why);
  for (i = 0; i + 1 < n; i++) {
    x[0] = at[i], x[1] = at[i + 1];
    if (miras_session_score(s, x, x + 1, 1, &loss) != MIRAS_OK) die(1, "the model cannot be run");
    sum += loss;
  }
  miras_close(s);
  return n > 1 ? sum / log(2) / (double)(n - 1) : 0;
}

static miras_model *new_model(const options *o, int context) {
  char why[256] = "";
  miras_model_desc d;
  miras_model *m;
  miras_model_preset(&d, miras_preset_find("gated-deltanet"), 0);
  snprintf(d.pattern, sizeof d.pattern, "(cm)*2");
  d.vocab = VOCAB;
  d.width = o->width;
  d.heads = 4;
  d.layers = 0;
  d.layer[0].memory.reset_every = 2 * context;   /* texts are longer than what it trains on */
  d.seed = (uint64_t)o->seed;
  m = miras_model_open(&d, NULL, why, sizeof why);
  if (!m) die(1, "%s", why);
  return m;
}

/* Windows from anywhere in the text; the learning rate follows the share of the time or steps. */
static void train(const options *o, const text *t) {
  enum { BATCH = 16, CONTEXT = 128 };
  static int32_t x[BATCH * CONTEXT], y[BATCH * CONTEXT];
  const miras_adamw_options adamw = MIRAS_ADAMW(0.1f, 1.0f);
  miras_trainer_desc d = {BATCH, CONTEXT, 0, 0, 0, NULL, NULL};
  const size_t kept = kept_back(t), learn = t->n - kept;
  const double start = now();
  double part = 0, told = start, mean = 8;
  char why[256] = "";
  miras_model *m = new_model(o, CONTEXT);
  miras_trainer *trainer = miras_trainer_open(m, &d, NULL, why, sizeof why);
  uint64_t seed = (uint64_t)o->seed;
  miras_batch batch;
  long step;
  memset(&batch, 0, sizeof batch);
  batch.batch = BATCH, batch.length = CONTEXT, batch.tokens = x, batch.classes = y;
  if (!trainer) die(1, "%s", why);
  if (learn < CONTEXT + 1) die(1, "%s is too short to learn from", t->name);
  fprintf(stderr, "training on %s, %lu bytes: ", t->name, (unsigned long)learn);
  if (o->steps) fprintf(stderr, "%ld steps\n", o->steps);
  else fprintf(stderr, "%g minute%s\n", o->minutes, o->minutes > 1 ? "s" : "");
  for (step = 0; part < 1; step++) {
    float loss;
    int i, k;
    for (i = 0; i < BATCH; i++) {
      const size_t at = (size_t)(uniform(&seed) * (double)(learn - CONTEXT));
      for (k = 0; k < CONTEXT; k++) {
        x[i * CONTEXT + k] = t->at[at + (size_t)k];
        y[i * CONTEXT + k] = t->at[at + (size_t)k + 1];
      }
    }
    if (miras_trainer_loss(trainer, &batch, 1, &loss) != MIRAS_OK ||
        miras_trainer_backward(trainer, NULL) != MIRAS_OK ||
        miras_trainer_step(trainer, &adamw,
                           miras_schedule_cosine((uint64_t)(1e4 * part), 200, 10000, 3e-3f, 0.05f),
                           NULL) != MIRAS_OK)
      die(1, "a step of training was refused");
    mean += ((double)loss / log(2) - mean) / (step < 50 ? (double)(step + 1) : 50);
    part = o->steps ? (double)(step + 1) / (double)o->steps : (now() - start) / 60 / o->minutes;
    if (now() - told > 5 || part >= 1) {
      const double left = part < 1 ? (now() - start) * (1 - part) / part : 0;
      told = now();
      fprintf(stderr, "%3.0f %%  step %ld  %.3f bits a byte  %d:%02d left\n",
              100 * fmin(part, 1), step + 1, mean, (int)left / 60, (int)left % 60);
    }
  }
  miras_close(trainer);
  if (miras_save(m, o->model) != MIRAS_OK) die(1, "%s cannot be written", o->model);
  fprintf(stderr, "%s is written; of %lu bytes kept back it takes %.3f bits a byte\n", o->model,
          (unsigned long)kept, validate(m, t->at + learn, kept));
  miras_close(m);
}

/* ---- made-up text ---- */

static size_t make_word(char *s, uint64_t index) {
  static const char consonant[] = "bdfgklmnprstvz", vowel[] = "aeiou", end[] = "nrstlm";
  uint64_t x = mixed(index * 77 + 5);
  const int syllables = index < 12 ? 1 : 2 + (int)(x % 2);
  size_t n = 0;
  int i;
  for (i = 0, x /= 2; i < syllables; i++) {
    s[n++] = consonant[x % 14], x /= 14;
    s[n++] = vowel[x % 5], x /= 5;
  }
  if (x % 2) s[n++] = end[x / 2 % 6];
  return n;
}

/* Sentences: small words between others, whose frequency falls with their rank. A user, 1 or 2, has
 * other favourites among the words of all and, three in ten, words of his own. */
static text make_up(const char *name, int user, size_t n) {
  text t = {"", NULL, 0};
  uint64_t seed = 1000 + (uint64_t)user;
  int words = 0, length = 0, sentences = 0;
  snprintf(t.name, sizeof t.name, "%s", name);
  t.at = (unsigned char *)get(n + 64, 1);
  while (t.n < n) {
    const double u = uniform(&seed);
    const uint64_t rank = (uint64_t)(300 * u * u * u);
    uint64_t index = 12 + (rank + 97 * (uint64_t)user) % 300;
    char *s = (char *)t.at + t.n;
    if (words % 2) index = (uint64_t)(12 * u * u);
    else if (user && uniform(&seed) < 0.3) index = 1000 * (uint64_t)user + (uint64_t)(40 * u * u);
    if (!words) length = 4 + (int)(5 * uniform(&seed));
    t.n += make_word(s, index);
    if (!words) s[0] = (char)(s[0] - 'a' + 'A');
    if (++words < length) {
      t.at[t.n++] = ' ';
      continue;
    }
    words = 0;
    t.at[t.n++] = '.';
    t.at[t.n++] = ++sentences % 5 ? ' ' : '\n';
  }
  t.n = n;
  return t;
}

/* ---- a user types ---- */

/* A line as it would have been typed: what a tap gives stands in brackets. The number of keys. */
static int type_line(desk *d, const char *line, size_t n) {
  double bits[BITS];
  int keys = 0, tapped = 0;
  size_t at, rest;
  printf("  ");
  for (at = 0; at < n; at++) {
    const unsigned char *s = (const unsigned char *)line + at;
    rest = letters_of(s, n - at);
    if (!rest && !within(*s) && tapped) printf("]"), tapped = 0;
    keys += !tapped && !within(*s);
    if (characters(s, rest) >= 2 && !tapped) {
      make_offers(d);
      if (is_rest(&d->best[FULL], s, rest)) printf("["), tapped = 1;
    }
    printf("%c", *s);
    desk_learn(d, *s, bits);
  }
  if (tapped) printf("]");
  make_offers(d);
  if (d->best[FULL].n) printf("  ...%.*s?", d->best[FULL].n, d->best[FULL].s);
  desk_learn(d, '\n', bits);
  return keys;
}

/* The name of what lies beside a state. */
static const char *beside(char name[256], const char *path, const char *what) {
  snprintf(name, 256, "%.240s.%s", path, what);
  return name;
}

static int is_there(const char *path) {
  FILE *f = fopen(path, "rb");
  if (f) fclose(f);
  return f != NULL;
}

/* The user as his files have him; untouched if there are none. */
static void load_user(desk *d, const char *path) {
  char why[256] = "", words[256];
  const float *logits;
  desk_reset(d);
  if (!is_there(path)) return;
  if (miras_load(d->reader[1].session, path, why, sizeof why) != MIRAS_OK)
    die(1, "%s: %s", path, why);
  counter_load(&d->counter, beside(words, path, "words"));
  logits = miras_session_logits(d->reader[1].session);
  if (logits) probabilities(logits, d->reader[1].next);
}

/* The same, whose lines go on from there, or begin: what he was before them is put aside. */
static void begin_user(desk *d, const char *path) {
  char name[256], words[256];
  load_user(d, path);
  if (is_there(path)) {
    if (!is_there(beside(name, path, "lines"))) save_user(d, beside(name, path, "start"));
    return;
  }
  remove(beside(name, path, "lines"));
  remove(beside(name, path, "start"));
  remove(beside(words, name, "words"));
}

static void learn_line(desk *d, const unsigned char *line, size_t n) {
  double bits[BITS];
  size_t i;
  for (i = 0; i < n; i++) desk_learn(d, line[i], bits);
  desk_learn(d, '\n', bits);
}

/* The line that begins there, without its end. */
static size_t line_of(const text *t, size_t at) {
  size_t n = 0;
  while (at + n < t->n && t->at[at + n] != '\n') n++;
  return n;
}

static void write_lines(const text *t, const char *path, const char *how) {
  FILE *f = fopen(path, how);
  if (!f) die(1, "%s cannot be written", path);
  if ((t->n && fwrite(t->at, 1, t->n, f) != t->n) | fclose(f)) die(1, "%s cannot be written", path);
}

/* Has the line this word, or is this its number? */
static int is_meant(const text *t, size_t at, size_t n, long number, const char *word) {
  const size_t letters = strlen(word), end = at + n;
  char *rest;
  if (strtol(word, &rest, 10) == number && !*rest) return 1;
  while (at < end) {
    size_t run = 0;
    while (at + run < end && letter(t->at[at + run])) run++;
    if (run && run == letters && !memcmp(t->at + at, word, run)) return 1;
    at += run ? run : 1;
  }
  return 0;
}

/* Lines by number, all or those with one of the words, and how often words came. */
static void show(const options *o, const char **words, int count) {
  static counter c;
  const text none = {"", NULL, 0};
  char name[256];
  text all;
  size_t at, n;
  long number = 0, lines = 0;
  int i, k, shown;
  all = read_text(beside(name, o->state, "lines"));
  if (is_there(beside(name, o->state, "start"))) printf("%s was there before these\n", name);
  for (at = 0; at < all.n; at += n + 1) {
    int meant = !count;
    n = line_of(&all, at), number++;
    for (i = 0; i < count; i++) meant = meant || is_meant(&all, at, n, number, words[i]);
    if (meant) printf("%4ld  %.*s\n", number, (int)n, (const char *)all.at + at), lines++;
  }
  counter_open(&c, &none);
  counter_load(&c, beside(name, o->state, "words"));
  for (shown = 0; shown < 20; shown++) {
    for (i = k = 0; i < c.words; i++)
      if (c.word[i].user > c.word[k].user) k = i;
    if (!(c.word[k].user > 0)) break;
    printf("%s%s %.0f", shown ? ", " : "words: ", c.word[k].s, (double)c.word[k].user);
    c.word[k].user = 0;
  }
  printf("\nresult lines=%ld shown=%ld\n", number, lines);
  free(c.word), free(c.slot), free(c.fits), free(c.pair);
  free(all.at);
}

/* Has it learned these lines, since its start, and nothing else? */
static int is_made_of(desk *d, const text *lines, const char *path) {
  char name[256], why[256] = "";
  reader *r = &d->reader[1];
  size_t at, n;
  load_user(d, beside(name, path, "start"));
  for (at = 0; at < lines->n; at += n + 1)
    n = line_of(lines, at), learn_line(d, lines->at + at, n);
  if (miras_load(r->copy, path, why, sizeof why) != MIRAS_OK) die(1, "%s: %s", path, why);
  return !memcmp(r->state, miras_session_state(r->copy, NULL), r->bytes);
}

/* Lines are taken out, and the others learned anew. */
static void take_out(const options *o, const text *corpus, const char **words, int count) {
  static desk d;
  char name[256];
  int found[USERS] = {0}, i;
  text all = read_text(beside(name, o->state, "lines"));
  size_t at, n, left = 0;
  long number = 0, out = 0;
  for (at = 0; at < all.n; at += n + 1) {
    n = line_of(&all, at), number++;
    for (i = 0; i < count; i++) found[i] += is_meant(&all, at, n, number, words[i]);
  }
  for (i = 0; i < count; i++)
    if (!found[i]) die(2, "%s has no line %s, nor one with that word", name, words[i]);
  desk_open(&d, o->model, o->contexts, corpus, 1, 0);
  if (!is_made_of(&d, &all, o->state))
    die(1, "%s has learned something else than %s, and cannot learn it anew", o->state, name);
  load_user(&d, beside(name, o->state, "start"));
  for (at = number = 0; at < all.n; at += n + 1) {
    int meant = 0;
    n = line_of(&all, at), number++;
    for (i = 0; i < count; i++) meant = meant || is_meant(&all, at, n, number, words[i]);
    out += meant;
    if (meant) continue;
    learn_line(&d, all.at + at, n);
    memmove(all.at + left, all.at + at, n);
    left += n;
    all.at[left++] = '\n';
  }
  all.n = left;
  save_user(&d, o->state);
  write_lines(&all, beside(name, o->state, "lines"), "wb");
  printf("result deleted=%ld lines=%ld\n", out, number - out);
  free(all.at);
  desk_close(&d);
}

/* The other's lines, as if they were typed now. */
static void merge(const options *o, const text *corpus, const char *other) {
  static desk d;
  char name[256];
  text all = read_text(beside(name, other, "lines"));
  size_t at, n;
  long lines = 0;
  desk_open(&d, o->model, o->contexts, corpus, 1, 0);
  begin_user(&d, o->state);
  for (at = 0; at < all.n; at += n + 1, lines++)
    n = line_of(&all, at), learn_line(&d, all.at + at, n);
  save_user(&d, o->state);
  write_lines(&all, beside(name, o->state, "lines"), "ab");
  printf("result merged=%ld\n", lines);
  free(all.at);
  desk_close(&d);
}

static void type(const options *o, const text *corpus) {
  static desk d;
  char line[1024], name[256];
  text told = {"", NULL, 0};
  long keys = 0, typed = 0;
  desk_open(&d, o->model, o->contexts, corpus, 1, 0);
  begin_user(&d, o->state);
  printf("Type lines; in brackets is what a tap would have given, behind ... what is offered next."
         "\nThe end of input (Ctrl-D) saves %s.\n", o->state);
  while (fflush(stdout), fgets(line, sizeof line, stdin)) {
    const size_t n = strcspn(line, "\n");
    const int taken = type_line(&d, line, n);
    told.at = (unsigned char *)realloc(told.at, told.n + n + 1);
    if (!told.at) die(1, "there is not enough memory");
    memcpy(told.at + told.n, line, n);
    told.n += n;
    told.at[told.n++] = '\n';
    keys += taken, typed += characters(line, n);
    printf("\n  %d keys for %d characters\n", taken, characters(line, n));
  }
  save_user(&d, o->state);
  write_lines(&told, beside(name, o->state, "lines"), "ab");
  free(told.at);
  printf("result typed=%ld keys=%ld saved=%.2f state_bytes=%lu\n", typed, keys,
         typed ? 100.0 * (double)(typed - keys) / (double)typed : 0.0,
         (unsigned long)d.reader[1].bytes);
  desk_close(&d);
}

/* ---- the program ---- */

static void compare(const options *o, const text *users, int count, const text *corpus) {
  static desk d;
  static result r[USERS];
  double fewer = 0, saved = 0, words = 0, ms = 0;
  int i, same = 1;
  desk_open(&d, o->model, o->contexts, corpus, 0, (size_t)o->characters);
  printf("%s, the first %ld characters of each user, from nothing; words: runs of letters and ';\n"
         "an offer before each letter, tapped where it is the whole rest, of 2 letters or more;\n"
         "%d words of the corpus; a user's state has %lu bytes (%lu without the memory)\n",
         o->model, o->characters, d.counter.known - 1, (unsigned long)d.reader[1].bytes,
         (unsigned long)d.reader[0].bytes);
  for (i = 0; i < count; i++) {
    fprintf(stderr, "%s types\n", users[i].name);
    measure(&d, &users[i], (size_t)o->characters, &r[i]);
    fewer += 100 * (1 - r[i].bits[ADAPTED] / r[i].bits[ALONE]) / count;
    saved += r[i].saved[FULL] / count;
    words += r[i].saved[USER_ANY] / count;
    ms += r[i].ms / count;
    same = same && r[i].same;
  }
  print_tables(r, count);
  print_verdict(r, count);
  draw(o->plot, r, count);
  printf("%s is drawn; NAME.state and NAME.state.words are the users'\n"
         "result users=%d fewer=%.2f saved=%.2f words=%.2f ms=%.3f state_bytes=%lu loaded_same=%d",
         o->plot, count, fewer, saved, words, ms, (unsigned long)d.reader[1].bytes, same);
  for (i = 0; i < count; i++)
    printf(" %s=%.4f/%.4f/%.2f/%.2f", r[i].name, r[i].bits[ALONE], r[i].bits[ADAPTED],
           r[i].saved[USER_ANY], r[i].saved[FULL]);
  printf("\n");
  desk_close(&d);
}

static double number(const char *name, const char *s, double least, double most) {
  char *end;
  const double x = s ? strtod(s, &end) : 0;
  if (!s || end == s || *end || !(x >= least && x <= most))
    die(2, "%s must be followed by a number from %g to %g", name, least, most);
  return x;
}

static long whole(const char *name, const char *s, double least, double most) {
  const double x = number(name, s, least, most);
  if (x > floor(x)) die(2, "%s is %s, and must be a whole number", name, s);
  return (long)x;
}

/* Options, and what else stands there: at most USERS + 1 words. */
static int parse(options *o, int argc, char **argv, const char **words) {
  int i, count = 0;
  for (i = 1; i < argc; i++) {
    const char *name = argv[i], *s = i + 1 < argc ? argv[i + 1] : NULL;
    if (name[0] != '-') {
      if (count > USERS) die(2, "more than %d texts", USERS);
      words[count++] = name;
      continue;
    }
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
      puts("keyboard [USER.txt..], keyboard train TEXT, keyboard type --state F, and likewise\n"
           "show [WORD..], delete N|WORD.., merge G; and\n"
           "--model F, --corpus TEXT, --characters N, --contexts N, --minutes N, --steps N, "
           "--seed N, --plot F");
      exit(0);
    }
    i++;
    if (!strcmp(name, "--contexts")) o->contexts = (int)whole(name, s, 4, 24);
    else if (!strcmp(name, "--characters")) o->characters = whole(name, s, CURVE, 1e9);
    else if (!strcmp(name, "--steps")) o->steps = whole(name, s, 1, 1e9);
    else if (!strcmp(name, "--seed")) o->seed = whole(name, s, 1, 1e9);
    else if (!strcmp(name, "--minutes")) o->minutes = number(name, s, 1e-3, 1e5);
    else if (!strcmp(name, "--model") && s) o->model = s;
    else if (!strcmp(name, "--corpus") && s) o->corpus = s;
    else if (!strcmp(name, "--plot") && s) o->plot = s;
    else if (!strcmp(name, "--state") && s) o->state = s;
    else die(2, "%s is no option, or nothing stands behind it; keyboard --help lists them", name);
  }
  return count;
}

int main(int argc, char **argv) {
  options o = {NULL, NULL, "keyboard.svg", NULL, 10, 128, 6000, 0, 1, 0};
  const char *words[USERS + 1];
  text users[USERS], corpus = {"", NULL, 0};
  const int count = parse(&o, argc, argv, words);
  int i;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);   /* into a pipe, too, line by line */
  if (count && !o.model) o.model = "keyboard.safetensors";
  if (!(o.minutes > 0)) o.minutes = count ? 20 : 1;
  if (o.corpus) corpus = read_text(o.corpus);
  if (count && !strcmp(words[0], "train")) {
    if (count != 2) die(2, "train one text: keyboard train TEXT [--minutes N]");
    users[0] = read_text(words[1]);
    train(&o, &users[0]);
    free(users[0].at);
  } else if (count && !strcmp(words[0], "type")) {
    if (count != 1 || !o.state) die(2, "keyboard type --state FILE [--model F] [--corpus TEXT]");
    type(&o, &corpus);
  } else if (count && !strcmp(words[0], "show")) {
    if (!o.state) die(2, "keyboard show [WORD..] --state FILE");
    show(&o, words + 1, count - 1);
  } else if (count && !strcmp(words[0], "delete")) {
    if (count < 2 || !o.state) die(2, "keyboard delete N|WORD.. --state FILE");
    take_out(&o, &corpus, words + 1, count - 1);
  } else if (count && !strcmp(words[0], "merge")) {
    if (count != 2 || !o.state) die(2, "keyboard merge OTHER --state FILE");
    merge(&o, &corpus, words[1]);
  } else if (count > USERS) {
    die(2, "more than %d texts", USERS);
  } else if (count) {
    for (i = 0; i < count; i++) users[i] = read_text(words[i]);
    for (i = 0; i < count; i++)
      if (users[i].n < CURVE) die(1, "%s is too short", words[i]);
    compare(&o, users, count, &corpus);
    for (i = 0; i < count; i++) free(users[i].at);
  } else {
    if (!o.model) o.model = "made-up.safetensors";
    o.width = 64;
    free(corpus.at);
    corpus = make_up("made-up", 0, 300000);
    users[0] = make_up("made-up-1", 1, (size_t)o.characters);
    users[1] = make_up("made-up-2", 2, (size_t)o.characters);
    printf("made-up text: sentences of a seeded grammar, and two users with words of their own\n");
    train(&o, &corpus);
    compare(&o, users, 2, &corpus);
    free(users[0].at), free(users[1].at);
  }
  free(corpus.at);
  return 0;
}
