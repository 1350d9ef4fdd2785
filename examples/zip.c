/* zip.c: a compressor that knows nothing at first and learns from what it reads: what it writes on
 * one machine, any other reads.
 *
 *     cc -O2 examples/zip.c -o zip -lm
 *     ./zip FILE            bits a byte, forth and back, beside what counts say
 *     ./zip c FILE OUT      compress
 *     ./zip d OUT FILE      and back
 *     --train N             a training step after each N bytes, 256; 0: the head alone learns. N is
 *                           a multiple of 64 up to 16320; the file holds it, so d needs no --train
 *
 * A network predicts every byte before it is coded and learns it afterwards, in two ways: its head
 * is a memory of the last bytes (miras_model_desc.adapt), which learns at once, and now and then
 * the whole network takes a training step on what has been read. Beside it stand counts of what
 * came after the last 0 to 6 bytes, in this word, and after the last place that looked like this
 * one. Whom to believe is learned too, bit by bit, by memories (preset "categories"): a key is what
 * each says of the next bit, as the logarithm of its odds. Nothing of that is in the file: who
 * decompresses has the same network and counts, which learn the same. So both must compute the same
 * bits, which is what MIRAS_STRICT is for: the file does not care which of the machines in
 * README.md's table wrote it. An arithmetic coder (Witten, Neal and Cleary 1987, carries as Martin
 * 1979) turns predictions into bytes; it counts in whole numbers alone.
 *
 * It is slow, some thousand bytes a second, and for texts. Exit status: 0 done, 1 a file failed,
 * 2 wrong arguments. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIRAS_STRICT
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include "counts.h"

enum { VOCAB = 256, WINDOW = 256, ROWS = 4, CONTEXTS = 16 };

static void die(int status, const char *said, const char *about) {
  fprintf(stderr, "zip: %s%s\n", about, said);
  exit(status);
}

static void *room(size_t bytes) {
  void *p = calloc(bytes ? bytes : 1, 1);
  if (!p) die(1, "there is not enough memory", "");
  return p;
}

/* ---- what predicts ---- */

typedef struct predictor {
  miras_model *model;
  miras_session *session;
  miras_trainer *trainer;
  const float *logits;
  const unsigned char *text;      /* what has been read: its first `count` bytes                  */
  size_t count;
  int every;                      /* bytes from training step to training step, or 0              */
  uint64_t draw;
  counts *counts;
  uint32_t shares[VOCAB + 1];
} predictor;

static void predictor_open(predictor *p, int every) {
  static const miras_trainer_desc size = {.batch = ROWS, .context = WINDOW};
  miras_model_desc d;
  char why[256] = "";
  memset(p, 0, sizeof *p);
  miras_model_preset(&d, MIRAS_PRESET_GATED_DELTANET, 0);
  snprintf(d.pattern, sizeof d.pattern, "(cm)*2");
  d.layers = 0;
  d.vocab = VOCAB;
  d.width = 64;
  d.heads = 2;
  d.seed = 1;
  d.adapt.learning_rate = 1;
  d.adapt.hidden = 1;
  d.adapt.contexts = CONTEXTS;
  p->every = every;
  p->model = miras_model_open(&d, NULL, why, sizeof why);
  p->session = p->model ? miras_session_open(p->model, NULL, NULL, why, sizeof why) : NULL;
  p->trainer = p->session && every ? miras_trainer_open(p->model, &size, NULL, why, sizeof why)
                                   : NULL;
  if (!p->session || (every && !p->trainer)) die(1, why, "");
  p->logits = miras_session_step(p->session, 0);
  p->counts = counts_open(22, 0);
  if (!p->counts) die(1, "there is not enough memory for counts", "");
}

static void predictor_close(predictor *p) {
  miras_close(p->trainer);
  miras_close(p->session);
  miras_close(p->model);
  counts_close(p->counts);
}

/* A training step on the last window and on some from before. */
static void predictor_train(predictor *p) {
  static int32_t tokens[ROWS * WINDOW], targets[ROWS * WINDOW];
  const miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
  const uint64_t step = miras_trainer_steps(p->trainer);
  miras_batch batch;
  float loss;
  int r, t;
  for (r = 0; r < ROWS; r++) {
    size_t at = p->count - WINDOW - 1;
    if (r) {
      p->draw = p->draw * 6364136223846793005u + 1442695040888963407u;
      at = (size_t)((p->draw >> 33) % (at + 1));
    }
    for (t = 0; t < WINDOW; t++) {
      tokens[r * WINDOW + t] = p->text[at + (size_t)t];
      targets[r * WINDOW + t] = p->text[at + (size_t)t + 1];
    }
  }
  memset(&batch, 0, sizeof batch);
  batch.batch = ROWS, batch.length = WINDOW, batch.tokens = tokens, batch.classes = targets;
  if (miras_trainer_loss(p->trainer, &batch, 1, &loss) != MIRAS_OK ||
      miras_trainer_backward(p->trainer, NULL) != MIRAS_OK ||
      miras_trainer_step(p->trainer, &o, step < 20 ? 0.0002f * (float)(step + 1) : 0.004f, NULL) !=
        MIRAS_OK)
    die(1, "a training step failed", "");
}

/* The byte that came. text has it already. */
static void predictor_learn(predictor *p, int byte) {
  p->count++;
  if (p->every && p->count > WINDOW && p->count % (size_t)p->every == 0) predictor_train(p);
  p->logits = miras_session_step(p->session, byte);
  if (!p->logits) die(1, "a step failed", "");
}

/* ---- the coder ---- */

typedef struct coder {
  unsigned char *at, *end;
  uint64_t low;            /* its last 32 bits, and a carry                                      */
  uint32_t range, code, waits;    /* bytes that a carry may still reach: `last`, then 255s        */
  unsigned char last;
  int past;                /* bytes that were wanted behind the end                              */
} coder;

static uint32_t coder_byte(coder *c) {
  if (c->at < c->end) return *c->at++;
  if (++c->past > 8) die(1, "the file is damaged: it ends too early", "");
  return 0;
}

static void coder_open(coder *c, unsigned char *bytes, size_t size, int reads) {
  int i;
  memset(c, 0, sizeof *c);
  c->at = bytes;
  c->end = bytes + size;
  c->range = 0xffffffffu;
  for (i = 0; reads && i < 4; i++) c->code = c->code << 8 | coder_byte(c);
}

/* The highest byte of low moves out, as soon as no carry can reach it. */
static void coder_shift(coder *c) {
  const unsigned char carry = (unsigned char)(c->low >> 32), high = (unsigned char)(c->low >> 24);
  if (high != 255 || carry) {
    for (; c->waits; c->waits--, c->last = 255) {
      if (c->at == c->end) die(1, "there is not enough room for what cannot be compressed", "");
      *c->at++ = (unsigned char)(c->last + carry);
    }
    c->last = high;
  }
  c->waits++;
  c->low = (c->low & 0xffffff) << 8;
}

static void coder_close(coder *c) {
  int i;
  for (i = 0; i < 5; i++) coder_shift(c);
}

/* A bit, 1 with a probability of one / COUNTS_ONE; which it is, if the coder reads. */
static int coder_bit(coder *c, int bit, uint32_t one, int reads) {
  const uint32_t bound = c->range / COUNTS_ONE * one;
  if (reads) bit = c->code < bound;
  if (bit) c->range = bound;
  else c->low += bound, c->code -= bound, c->range -= bound;
  for (; c->range < 1u << 24; c->range <<= 8) {
    if (reads) c->code = c->code << 8 | coder_byte(c);
    else coder_shift(c);
  }
  return bit;
}

/* ---- both ways ---- */

/* The next byte, bit by bit, the highest first: `byte`, or what the coder has, which is told. */
static int predictor_code(predictor *p, coder *c, int byte, int reads) {
  counts *k = p->counts;
  int ahead = 1, bit;
  counts_shares(p->logits, p->shares);
  counts_look(k, p->text, p->count);
  for (; ahead < VOCAB; ahead = 2 * ahead + bit) {
    bit = coder_bit(c, counts_bit(byte, ahead), counts_ask(k, p->shares, ahead), reads);
    counts_learn(k, bit);
  }
  if (k->failed) die(1, "a memory failed", "");
  return ahead - VOCAB;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Says after a second, and then every five, how long it will still take. */
static void tell(const char *what, size_t done, size_t n) {
  static double start, told;
  double t;
  if (done % 64) return;
  t = seconds();
  if (!done) start = told = t;
  if (t - told < (told > start ? 5 : 1)) return;
  told = t;
  fprintf(stderr, "%s: %2.0f %%, about %.0f s left\n", what, 100 * (double)done / (double)n,
          (t - start) * (double)(n - done) / (double)done);
}

enum { HEAD = 20 };      /* "miraszi2", the length in 7 bytes, how often it trains, a sum in 4 */

static uint32_t sum_of(const unsigned char *text, size_t n) {   /* FNV-1a */
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++) h = (h ^ text[i]) * 16777619u;
  return h;
}

static size_t compress(const unsigned char *text, size_t n, unsigned char *to, size_t size,
                       int every) {
  predictor p;
  coder c;
  const uint32_t sum = sum_of(text, n);
  size_t i;
  int k;
  predictor_open(&p, every);
  p.text = text;
  memcpy(to, "miraszi2", 8);
  for (k = 0; k < 7; k++) to[8 + k] = (unsigned char)((uint64_t)n >> 8 * k);
  to[15] = (unsigned char)(every / 64);
  for (k = 0; k < 4; k++) to[16 + k] = (unsigned char)(sum >> 8 * k);
  coder_open(&c, to + HEAD, size - HEAD, 0);
  for (i = 0; i < n; i++) {
    tell("compressing", i, n);
    (void)predictor_code(&p, &c, text[i], 0);
    predictor_learn(&p, text[i]);
  }
  coder_close(&c);
  predictor_close(&p);
  return (size_t)(c.at - to);
}

/* The length of what was compressed, or -1. */
static size_t length_of(const unsigned char *from, size_t size) {
  uint64_t n = 0;
  int k;
  if (size < HEAD + 4 || memcmp(from, "miraszi2", 8)) return (size_t)-1;
  for (k = 6; k >= 0; k--) n = n << 8 | from[8 + k];
  return n > SIZE_MAX / 2 ? (size_t)-1 : (size_t)n;
}

static void decompress(unsigned char *from, size_t size, unsigned char *text, size_t n) {
  predictor p;
  coder c;
  uint32_t sum = 0;
  size_t i;
  int k;
  for (k = 3; k >= 0; k--) sum = sum << 8 | from[16 + k];
  predictor_open(&p, 64 * from[15]);
  p.text = text;
  coder_open(&c, from + HEAD, size - HEAD, 1);
  for (i = 0; i < n; i++) {
    tell("and back", i, n);
    text[i] = (unsigned char)predictor_code(&p, &c, 0, 1);
    predictor_learn(&p, text[i]);
  }
  predictor_close(&p);
  if (c.at != c.end || c.past) die(1, "the file is damaged: it does not end where it should", "");
  if (sum != sum_of(text, n))
    die(1, "the file is damaged, or was written under another arithmetic", "");
}

/* ---- files ---- */

static unsigned char *read_file(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  unsigned char *bytes = (unsigned char *)room(1 << 16);
  size_t most = 1 << 16, got;
  *n = 0;
  if (!f) die(1, " cannot be read", path);
  while ((got = fread(bytes + *n, 1, most - *n, f)) > 0) {
    *n += got;
    if (*n < most) continue;
    bytes = (unsigned char *)realloc(bytes, most *= 2);
    if (!bytes) die(1, " is too long for this machine's memory", path);
  }
  if (ferror(f)) die(1, " cannot be read", path);
  fclose(f);
  return bytes;
}

static void write_file(const char *path, const unsigned char *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f)) die(1, " cannot be written", path);
}

/* Bits of the text by counts of what followed the last two bytes, mixed with fewer by the rule of
 * Witten and Bell: what one would write without a library. */
static double counted(const unsigned char *text, size_t n) {
  uint32_t *count[3], *all[3], *kinds[3];
  double bits = 0;
  size_t i, key[3] = {0, 0, 0};
  int k;
  for (k = 0; k < 3; k++) {
    count[k] = (uint32_t *)room(sizeof(uint32_t) << 8 * (k + 1));
    all[k] = (uint32_t *)room(sizeof(uint32_t) << 8 * k);
    kinds[k] = (uint32_t *)room(sizeof(uint32_t) << 8 * k);
  }
  for (i = 0; i < n; i++) {
    double p = 1.0 / VOCAB;
    for (k = 0; k < 3; k++) {
      uint32_t *seen = &count[k][key[k] << 8 | text[i]];
      if (all[k][key[k]])
        p = (*seen + kinds[k][key[k]] * p) / (all[k][key[k]] + kinds[k][key[k]]);
      if (!*seen) kinds[k][key[k]]++;
      ++*seen, all[k][key[k]]++;
    }
    bits -= log2(p);
    key[2] = (key[2] << 8 | text[i]) & 0xffff, key[1] = text[i];
  }
  for (k = 0; k < 3; k++) free(count[k]), free(all[k]), free(kinds[k]);
  return bits;
}

static int every_of(const char *text) {
  char *end;
  const long n = text ? strtol(text, &end, 10) : 1;
  if (!text || end == text || *end || n < 0 || n > 16320 || n % 64)
    die(2, "--train must be followed by a multiple of 64 from 0 to 16320", "");
  return (int)n;
}

int main(int argc, char **argv) {
  static const char usage[] = "./zip FILE, ./zip c FILE OUT or ./zip d OUT FILE; before or behind "
                              "that, --train N";
  const char *word[3] = {NULL, NULL, NULL};
  unsigned char *text, *packed, *again;
  size_t n, size;
  int i, words = 0, every = 256;
  double start;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);   /* into a pipe, too, line by line */
  for (i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--train")) every = every_of(argv[++i]);
    else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return puts(usage), 0;
    else if (argv[i][0] == '-') die(2, ": there is no such option", argv[i]);
    else if (words < 3) word[words++] = argv[i];
    else words = 4;
  }
  if (words == 3 && !strcmp(word[0], "d")) {
    packed = read_file(word[1], &size);
    n = length_of(packed, size);
    if (n == (size_t)-1) die(1, " is not what zip has written", word[1]);
    text = (unsigned char *)room(n);
    decompress(packed, size, text, n);
    write_file(word[2], text, n);
    return 0;
  }
  if (words != 1 && (words != 3 || strcmp(word[0], "c")))
    die(2, usage, "");
  text = read_file(word[words / 2], &n);
  packed = (unsigned char *)room(n + n / 4 + 1024);
  start = seconds();
  size = compress(text, n, packed, n + n / 4 + 1024, every);
  if (words == 3) {
    write_file(word[2], packed, size);
    return 0;
  }
  printf("%lu bytes, %lu compressed: %.3f bits a byte, %.0f bytes a second (%s)\n",
         (unsigned long)n, (unsigned long)size, n ? 8.0 * (double)size / (double)n : 0,
         (double)n / (seconds() - start), miras_isa());
  printf("counts of three bytes: %.3f bits a byte\n", n ? counted(text, n) / (double)n : 0);
  again = (unsigned char *)room(n);
  decompress(packed, size, again, n);
  if (memcmp(text, again, n)) die(1, " does not come back", word[0]);
  printf("and back: every byte\n");
  return 0;
}
