/* lm_read.h, a part of lm.c: a model reads a page that it has never seen, and says before and after
 * what it knows of it. */
#ifndef LM_READ_H
#define LM_READ_H

#include <ctype.h>
#include <math.h>

#include "counts.h"
#include "lm_charts.h"
#include "lm_tools.h"
#include "lm_vocabulary.h"

enum {
  PARTS = 12, CUTS = 4, PREFIX = 3, LONG = 6, SHOWN = 20, LONGEST_WORD = 96, MOST_WORDS = 4096
};
enum { LEARNING, FROZEN, COUNTED, MIXED, READERS };

/* Is a byte of a word: an ASCII letter, or of a character beyond. */
static int is_letter(unsigned char byte) { return byte >= 128 || isalpha(byte); }

/* Does a byte of UTF-8 go on with a character? */
static int goes_on(char byte) { return (byte & 0xc0) == 0x80; }

/* How many bytes the first so many letters of a word have. */
static int bytes_of(const char *word, int n, int letters) {
  int i = 0;
  for (; i < n && letters; letters--)
    for (i++; i < n && goes_on(word[i]); i++) {}
  return i;
}

/* ---- text on a terminal ---- */

/* Bytes as lines of at most 76 columns, behind an indent; a word goes out when it has ended. */
typedef struct wrapped { char word[80]; int letters, column; } wrapped;

static void wrapped_word(wrapped *w) {
  if (!w->letters) return;
  if (w->column + 1 + w->letters > 76) w->column = 0;
  if (!w->column) printf("\n  "), w->column = 1;
  printf(" %.*s", w->letters, w->word);
  w->column += 1 + w->letters;
  w->letters = 0;
  fflush(stdout);
}

static void wrapped_byte(wrapped *w, unsigned char byte) {
  if (byte == '\n') { wrapped_word(w); w->column = 0; }
  else if (byte == ' ' || w->letters == 60) wrapped_word(w);
  if (byte > ' ' && byte != 127) w->word[w->letters++] = (char)byte;
}

/* ---- a running text that can be gone on with and taken back ---- */

typedef struct reader {
  miras_session *session;
  vocabulary *v;
  void *kept;              /* the state that `back` returns to */
  size_t bytes;
} reader;

static void reader_open(reader *r, const miras_model *m, vocabulary *v) {
  r->session = miras_session_open(m, NULL, NULL, NULL, 0);
  if (!r->session) die(1, "there is not enough memory for a session");
  r->v = v;
  miras_session_state(r->session, &r->bytes);
  r->kept = grow(NULL, r->bytes, 1);
}

static void reader_keep(reader *r) {
  memcpy(r->kept, miras_session_state(r->session, NULL), r->bytes);
}

static void reader_back(reader *r) {
  memcpy(miras_session_state(r->session, NULL), r->kept, r->bytes);
}

static void reader_close(reader *r) {
  miras_close(r->session);
  free(r->kept);
}

/* Logits behind so many bytes of a prompt. */
static const float *reader_ask(reader *r, const char *prompt, size_t n) {
  size_t count;
  int32_t *tokens = encode(r->v, (const unsigned char *)prompt, n, "the prompt", &count);
  const float *logits = miras_session_feed(r->session, tokens, NULL, count);
  free(tokens);
  if (!logits) die(1, "the model cannot be asked");
  return logits;
}

/* The reader writes on behind a prompt, `least` characters and on to the end of a sentence. */
static void reader_write(reader *r, const char *prompt, int least, uint64_t seed) {
  const float *logits = reader_ask(r, prompt, strlen(prompt));
  miras_sampler sampling;
  wrapped w;
  int i, ended = 0;
  memset(&sampling, 0, sizeof sampling);
  memset(&w, 0, sizeof w);
  sampling.temperature = 0.6f;
  sampling.top_k = 40;
  sampling.seed = seed;
  for (i = 0; prompt[i]; i++) wrapped_byte(&w, (unsigned char)prompt[i]);
  for (i = 0; i < least + 200 && !(i >= least && ended); i++) {
    unsigned char text[4];
    const int32_t token = miras_sampler_sample(&sampling, logits, r->v->count);
    size_t k, n = token < 0 ? 0 : token_text(r->v, token, text);
    if (!n) die(1, "the model's logits are not finite: its weights are damaged");
    for (k = 0; k < n; k++) wrapped_byte(&w, text[k]);
    ended = strchr(".!?", text[0]) != NULL;
    logits = miras_session_step(r->session, token);
  }
  wrapped_word(&w);
  printf("\n");
  reader_back(r);
}

/* The rest of the word that begins with so many bytes, each letter the likeliest. */
static void reader_finish(reader *r, const char *word, int given, char rest[LONGEST_WORD]) {
  char prompt[4 * PREFIX + 1];
  const float *logits;
  int n = 0;
  prompt[0] = ' ';
  memcpy(prompt + 1, word, (size_t)given);
  logits = reader_ask(r, prompt, (size_t)given + 1);
  while (n + 4 < LONGEST_WORD) {
    unsigned char text[4];
    int best = 0, i;
    size_t k, bytes;
    for (i = 1; i < r->v->count; i++)
      if (logits[i] > logits[best]) best = i;
    bytes = token_text(r->v, best, text);
    if (!is_letter(text[0])) break;
    for (k = 0; k < bytes; k++) rest[n++] = (char)text[k];
    logits = miras_session_step(r->session, best);
  }
  rest[n] = 0;
  reader_back(r);
}

/* ---- the page ---- */

/* The words of at least LONG letters that a page has most often, three times or more, one of each
 * beginning; how many. */
typedef struct page_word {
  const char *at;
  int bytes, given;        /* of all of it, of its first PREFIX letters */
  int count;
  int listed;              /* would a list of the page's words by their counts finish it, too? */
} page_word;

static int by_count(const void *a, const void *b) {
  const page_word *x = (const page_word *)a, *y = (const page_word *)b;
  return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                              : (x->at > y->at) - (x->at < y->at);
}

static int begins_alike(const page_word *a, const page_word *b) {
  return a->given == b->given && !memcmp(a->at, b->at, (size_t)a->given);
}

static int page_words(const char *text, size_t n, page_word best[SHOWN]) {
  page_word *all = (page_word *)grow(NULL, MOST_WORDS, sizeof *all);
  int count = 0, found = 0, i, k;
  size_t at = 0, end;
  for (; at < n; at = end + 1) {
    int bytes, given;
    for (end = at; end < n && is_letter((unsigned char)text[end]); end++) {}
    if (end - at >= LONGEST_WORD) continue;
    bytes = (int)(end - at), given = bytes_of(text + at, bytes, PREFIX);
    if (bytes <= given) continue;
    for (i = 0; i < count; i++)
      if (all[i].bytes == bytes && !memcmp(all[i].at, text + at, (size_t)bytes)) break;
    if (i == MOST_WORDS) continue;
    if (i == count)
      all[i].at = text + at, all[i].bytes = bytes, all[i].given = given, all[count++].count = 0;
    all[i].count++;
  }
  qsort(all, (size_t)count, sizeof *all, by_count);
  for (i = 0; i < count && found < SHOWN && all[i].count > 2; i++) {
    int first = 0;
    for (k = 0; k < found && !begins_alike(&best[k], &all[i]); k++) {}
    if (k < found || bytes_of(all[i].at, all[i].bytes, LONG - 1) == all[i].bytes) continue;
    while (!begins_alike(&all[first], &all[i])) first++;
    all[i].listed = first == i;
    best[found++] = all[i];
  }
  free(all);
  return found;
}

/* A baseline of twenty lines, from nothing: counts of what followed the last 0 to 3 bytes, each
 * order mixed with the shorter ones as Witten and Bell (1991) do. Its nats are added to those of a
 * part. */
static void count_page(const unsigned char *text, size_t n, double nats[PARTS * CUTS]) {
  enum { CELLS = 1 << 22 };
  unsigned *count = (unsigned *)grow(NULL, CELLS, sizeof *count);
  size_t i;
  memset(count, 0, CELLS * sizeof *count);
#define CELL(kind, byte) \
  count[(context * 0x9e3779b97f4a7c15u + (uint64_t)(kind) * 0xff51afd7ed558ccdu + \
         (uint64_t)(byte) * 0xc4ceb9fe1a85ec53u) >> 40 & (CELLS - 1)]
  for (i = 1; i < n; i++) {
    double p = 1.0 / 256;
    uint64_t context = 0;
    int order;
    for (order = 0; order <= 3 && (size_t)order <= i; order++) {
      unsigned seen, sorts, *here;
      context = order ? context << 8 | text[i - (size_t)order] : 0;
      context += (uint64_t)(order + 1) << 56;
      here = &CELL(3, text[i]);
      seen = CELL(1, 0), sorts = CELL(2, 0);
      if (seen && sorts) p = (*here + sorts * p) / (seen + sorts);
      CELL(1, 0)++;
      CELL(2, 0) += !*here;
      ++*here;
      context &= 0xffffffffffffffu;
    }
    nats[(i - 1) * (PARTS * CUTS) / (n - 1)] -= log(p);
  }
#undef CELL
  free(count);
}

/* A line of at most 40 signs: so many for what learns, and those that the other needs more. Where
 * they are not all there the last is another. */
static void page_line(int line, double learns, double frozen) {
  int i, a = (int)(learns * 6 + 0.5), b = (int)(frozen * 6 + 0.5);
  printf("  %2d/%d  ", line + 1, PARTS);
  for (i = 0; i < 40 && (i < a || i < b); i++)
    putchar(i == 39 && (a > 40 || b > 40) ? '>' : i < a ? '#' : '+');
  for (; i < 42; i++) putchar(' ');
  printf("%8.2f %8.2f\n", learns, frozen);
  fflush(stdout);
}

static void page_svg(const char *path, const char *title, double nats[READERS][PARTS * CUTS],
                     const double *bytes) {
  static const char *const names[READERS] = {"learning as it reads", "the same, frozen",
                                             "counting bytes", "mixed with counts"};
  chart_line name[READERS];
  chart c = {HUGE_VAL, -HUGE_VAL};
  FILE *f;
  int i, k;
  for (k = 0; k < READERS; k++)
    for (i = 0; i < PARTS * CUTS; i++) {
      const double y = nats[k][i] / bytes[i] / log(2);
      if (y < c.low) c.low = y;
      if (y > c.high) c.high = y;
    }
  if (!(c.high > c.low)) return;
#define X(i) (left + (right - left) * (i) / (PARTS * CUTS))
  f = chart_open(&c, path, title, "part of the page that has been read", "bits per byte");
  for (i = 0; i <= 4; i++) {
    char text[16];
    snprintf(text, sizeof text, "%d %%", 25 * i);
    chart_tick(f, X(i * PARTS * CUTS / 4), text);
  }
  for (k = READERS; k-- > 0;) {
    fprintf(f, "<path fill=\"none\" stroke-width=\"2\" stroke-linejoin=\"round\" stroke=\"%s\" "
               "d=\"", chart_colour[k]);
    name[k].name = names[k], name[k].colour = chart_colour[k];
    for (i = 0; i < PARTS * CUTS; i++) {
      name[k].x = X(i + 0.5), name[k].y = chart_y(&c, nats[k][i] / bytes[i] / log(2));
      fprintf(f, "%c%.1f %.1f", i ? 'L' : 'M', name[k].x, name[k].y);
    }
    fprintf(f, "\"/>\n");
  }
#undef X
  chart_close(f, path, name, READERS);
}

/* Blanks behind a word that fill up so many columns. */
static int blanks(int columns, const char *word, int bytes) {
  int i;
  for (i = 0; i < bytes; i++) columns -= !goes_on(word[i]);
  return columns > 0 ? columns : 0;
}

/* The page's words, finished by the model before it had read and behind that; how many it knew. */
static void page_finish(reader *before, reader *after, const page_word *word, int words,
                       int right[3]) {
  int i, k;
  for (i = 0; i < words; i++) {
    char rest[2][LONGEST_WORD];
    const int given = word[i].given, tail = word[i].bytes - given;
    reader_finish(before, word[i].at, given, rest[0]);
    reader_finish(after, word[i].at, given, rest[1]);
    for (k = 0; k < 2; k++)
      right[k] += (int)strlen(rest[k]) == tail &&
                  !memcmp(rest[k], word[i].at + given, (size_t)tail);
    right[2] += word[i].listed;
    if (!i)
      printf("\nWords that the page has most often. Shown three letters of each, it writes:\n\n"
             "  %-20s %-6s %-20s %s\n", "the word", "shown", "frozen", "having read");
    if (i < 8)
      printf("  %.*s%*s %.*s    %.*s%s%*s %.*s%s\n", word[i].bytes, word[i].at,
             blanks(20, word[i].at, word[i].bytes), "", given, word[i].at, given, word[i].at,
             rest[0], blanks(17, rest[0], (int)strlen(rest[0])), "", given, word[i].at, rest[1]);
  }
  if (words)
    printf("\nOf %d such words it finishes %d frozen and %d having read. (A list of the page's\n"
           "words by their counts finishes %d; the model keeps no list, and its size is what it "
           "was.)\n", words, right[0], right[1], right[2]);
}

/* Shares of the next byte (counts_shares), of a model whose tokens are characters: p of each, and
 * so many bytes of the one that came are known. */
static void character_shares(const vocabulary *v, const double *p, const unsigned char *known,
                             size_t n, uint32_t shares[257]) {
  double share[256] = {0}, sum = 1e-30;
  int i;
  for (i = 0; i < v->count; i++) {
    unsigned char text[4];
    if (token_text(v, i, text) <= n || memcmp(text, known, n) != 0) continue;
    share[text[n]] += p[i], sum += p[i];
  }
  for (shares[0] = 0, i = 0; i < 256; i++)
    shares[i + 1] = shares[i] + 1 + (uint32_t)(share[i] / sum * (1 << 23));
}

/* The nats of n tokens behind the first, of the model and mixed with counts of the page, whose byte
 * *at is the next. p: room for all tokens. */
static void reader_learns(reader *r, counts *k, const unsigned char *page, size_t *at,
                          const int32_t *tokens, size_t n, double *p, double nats[2]) {
  uint32_t shares[257];
  size_t t, done;
  int i;
  nats[0] = nats[1] = 0;
  for (t = 0; t < n; t++) {
    const float *logits = miras_session_step(r->session, tokens[t]);
    unsigned char text[4];
    const size_t bytes = token_text(r->v, tokens[t + 1], text);
    double most, sum = 0;
    if (!logits) die(1, "the text has a token that the model does not know");
    for (most = (double)logits[0], i = 1; i < r->v->count; i++)
      if ((double)logits[i] > most) most = (double)logits[i];
    for (i = 0; i < r->v->count; i++) sum += p[i] = exp((double)logits[i] - most);
    nats[0] += log(sum) + most - (double)logits[tokens[t + 1]];
    for (done = 0; done < bytes; done++) {
      if (r->v->characters) character_shares(r->v, p, text, done, shares);
      else counts_shares(logits, shares);
      nats[1] += counts_byte(k, page, (*at)++, shares) * log(2);
    }
  }
  if (k->failed) die(1, "a memory failed");
}

/* Words of the page, finished; and what the model writes behind the first of them. */
static int page_after(reader *before, reader *after, const char *text, size_t n, int right[3]) {
  char prompt[LONGEST_WORD + 8];
  page_word word[SHOWN];
  const int words = page_words(text, n, word);
  page_finish(before, after, word, words, right);
  snprintf(prompt, sizeof prompt, "\nThe %.*s ", words ? word[0].bytes : 4,
           words ? word[0].at : "page");
  printf("\nWhat it writes behind \"%.*s\", frozen ...\n", (int)strlen(prompt) - 2, prompt + 1);
  reader_write(before, prompt, 160, 3);
  printf("\n... and having read\n");
  reader_write(after, prompt, 160, 3);
  return words;
}

/* The bits a byte of each reader, in words. */
static void page_sums(const double sum[READERS]) {
  printf("\nIn all %.2f bits per byte learning and %.2f frozen. Mixed with counts of what followed "
         "the\nlast 0 to 6 bytes, by memories that learn whom to believe, it takes %.2f. For "
         "comparison,\ncounting which byte followed the last 0 to 3, from nothing, needs %.2f.\n",
         sum[LEARNING], sum[FROZEN], sum[MIXED], sum[COUNTED]);
  if (sum[FROZEN] > 8)
    printf("Frozen it is worse than a guess: this is nothing like what it was trained on, and what "
           "it\nwrites below will be little like it.\n");
}

/* All three models are of one file: frozen is it as it comes, learning has a head that learns, and
 * knowing one that uses what has been learned and learns next to nothing, so that what it writes
 * teaches it nothing. */
static void read_page(const miras_model *frozen, const miras_model *learning,
                      const miras_model *knowing, vocabulary *v, const char *name,
                      const char *svg) {
  double nats[READERS][PARTS * CUTS], bytes[PARTS * CUTS], sum[READERS + 1] = {0, 0, 0, 0, 0};
  unsigned char *text;
  char title[200];
  size_t n, count, next;
  int32_t *tokens;
  double *room;
  counts *counted;
  reader before, reads, after;
  int words, i, k, right[3] = {0, 0, 0};
  text = read_file(name, &n, 0);
  if (memchr(text, 0, n)) die(2, "%s has bytes of zero: a page is text", name);
  tokens = encode(v, text, n, name, &count);
  if (count < 1000)
    die(2, "%s is too short: a page has 1000 characters, and this has %lu", name,
        (unsigned long)count);
  memset(nats, 0, sizeof nats);
  reader_open(&before, frozen, v);
  reader_open(&reads, learning, v);
  reader_open(&after, knowing, v);
  reader_keep(&before);
  room = (double *)grow(NULL, (size_t)v->count, sizeof *room);
  counted = counts_open(20, 1);
  if (!counted) die(1, "there is not enough memory for counts");
  next = token_text(v, tokens[0], (unsigned char *)title);
  printf("Left to itself it writes:\n");
  reader_write(&before, "\nIt was ", 360, 7);
  printf("\nNow it reads %s, %lu bytes, once: each byte is predicted, then learned.\n"
         "Bits per byte, lower is better, and 8 is a guess: # what it needs as it learns, and\n"
         "+ what the same model needs beyond that if it is frozen.\n\n%51s %8s %8s\n",
         name, (unsigned long)n, "", "learning", "frozen");
  for (i = 0; i < PARTS * CUTS; i++) {
    const size_t from = (count - 1) * (size_t)i / (PARTS * CUTS);
    const size_t to = (count - 1) * (size_t)(i + 1) / (PARTS * CUTS);
    double learned[2];
    size_t at;
    bytes[i] = 0;
    for (at = from; at < to; at++) {
      unsigned char unused[4];
      bytes[i] += (double)token_text(v, tokens[at + 1], unused);
    }
    reader_learns(&reads, counted, text, &next, tokens + from, to - from, room, learned);
    nats[LEARNING][i] = learned[0], nats[MIXED][i] = learned[1];
    nats[FROZEN][i] = nats_of(before.session, tokens + from, to - from);
    sum[READERS] += bytes[i];
    if (i % CUTS == CUTS - 1) {
      double here[3] = {0, 0, 0};
      for (k = i - CUTS + 1; k <= i; k++)
        here[0] += nats[0][k], here[1] += nats[1][k], here[2] += bytes[k] * log(2);
      page_line(i / CUTS, here[0] / here[2], here[1] / here[2]);
    }
  }
  reader_back(&before);
  reader_keep(&reads);
  memcpy(after.kept, reads.kept, after.bytes);   /* their states are of one shape */
  reader_back(&after);
  count_page(text, n, nats[COUNTED]);
  for (k = 0; k < READERS; k++) {
    for (i = 0; i < PARTS * CUTS; i++) sum[k] += nats[k][i] / log(2);
    sum[k] /= sum[READERS];
  }
  page_sums(sum);
  words = page_after(&before, &after, (const char *)text, n, right);
  snprintf(title, sizeof title, "What a model learns while it reads %s", base_name(name));
  page_svg(svg, title, nats, bytes);
  printf("\nwrote %s\nresult learning=%.4f frozen=%.4f counts=%.4f words=%d before=%d after=%d "
         "mixed=%.4f\n", svg, sum[LEARNING], sum[FROZEN], sum[COUNTED], words, right[0], right[1],
         sum[MIXED]);
  reader_close(&before);
  reader_close(&reads);
  reader_close(&after);
  counts_close(counted);
  free(tokens), free(text), free(room);
}

#endif
