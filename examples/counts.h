/* counts.h: what came after the last bytes before, and whom to believe. Include it behind miras.h.
 *
 * Counts of what followed the last 0 to 6 bytes, in a word, and after the last place that looked
 * like this one, each say how likely the next bit of a byte is 1; so does a model, by its shares of
 * the 256 bytes. Eight memories of preset categories (least squares by recursion, of cross entropy)
 * learn, bit by bit, what the odds are: their key is the logarithm of everyone's odds, and which of
 * them is asked follows how many bytes were seen together before. They begin with `trust` times the
 * model's own odds: 1 of a model that was trained, 0 of one that knows nothing. All but the
 * memories is whole numbers: with MIRAS_STRICT every machine says the same.
 *
 *     counts *k = counts_open(20, 1);     8 tables of 2^20 counts, 4 bytes each
 *     for (n = 0; n < size; n++)
 *       bits += counts_byte(k, text, n, shares);      of text[n], which is learned
 *     counts_close(k); */
#ifndef COUNTS_H
#define COUNTS_H

#include <math.h>

enum { COUNTS_ORDERS = 8, COUNTS_LONGEST = 31, COUNTS_PLACES = 18, COUNTS_ONE = 1 << 16 };
enum { COUNTS_INPUTS = COUNTS_ORDERS + 3 };   /* counts, the model, the place, and 1             */

/* How likely a bit is 1, of COUNTS_ONE; how often it was seen, if that counts; whose it is. */
typedef struct counts_slot { uint16_t one; uint8_t seen, check; } counts_slot;

typedef struct counts {
  int slots;                      /* 2^slots a table                                              */
  counts_slot *table[COUNTS_ORDERS];   /* after the last 0 to 6 bytes, and in a word              */
  uint32_t context[COUNTS_ORDERS], word;
  uint32_t *place;                /* where the last six bytes were last                           */
  size_t length;                  /* of those bytes before that place which agree                 */
  size_t like;                    /* the place of the byte that came there ...                    */
  int came;                       /* ... and that byte + 256, or 0                                */
  counts_slot alike[COUNTS_LONGEST + 1];   /* does it come again?                                 */
  miras_memory *mixer[COUNTS_ORDERS];
  float odds[COUNTS_ONE];         /* their logarithm                                              */
  /* of the bit that was asked for */
  counts_slot *at[COUNTS_ORDERS];
  float key[COUNTS_INPUTS];
  int together, agrees, comes;    /* which memory; does that byte agree so far, and its bit       */
  int failed;                     /* a memory refused what it was told                            */
} counts;

/* ---- whole numbers ---- */

/* 65536 times the logarithm to base 2 of x > 0, by whole numbers */
static int32_t counts_logarithm(uint32_t x) {
  int32_t y = 31 << 16;
  int i;
  for (; !(x >> 31); x <<= 1) y -= 1 << 16;
  for (i = 15; i >= 0; i--) {
    const uint64_t square = (uint64_t)x * x >> 31;
    if (square >> 32) y += 1 << i, x = (uint32_t)(square >> 1);
    else x = (uint32_t)square;
  }
  return y;
}

/* 2^30 * 2^(-x / 65536), x >= 0, by whole numbers */
static uint32_t counts_power(uint32_t x) {
  static uint32_t table[257], fine[257];
  int i;
  if (!table[0]) {
    table[0] = fine[0] = 1u << 30;    /* 2^(-1/256) and 2^(-1/65536), times 2^32 */
    for (i = 0; i < 256; i++) {
      table[i + 1] = (uint32_t)((uint64_t)table[i] * 4283353945u >> 32);
      fine[i + 1] = (uint32_t)((uint64_t)fine[i] * 4294921870u >> 32);
    }
  }
  if (x >> 16 > 29) return 0;
  return (uint32_t)((uint64_t)table[x >> 8 & 255] * fine[x & 255] >> 30) >> (x >> 16);
}

/* 2^30 * e^-x, x >= 0; 94548 is 65536 / ln 2 */
static uint32_t counts_falling(float x) {
  return x < 20 ? counts_power((uint32_t)(x * 94548.0f)) : 0;
}

/* Shares of all bytes, each at least 1 of at most 2^31, from a model's logits: that of byte b is
 * shares[b + 1] - shares[b]. */
static void counts_shares(const float *logits, uint32_t shares[257]) {
  float most = logits[0];
  int b;
  for (b = 1; b < 256; b++)
    if (logits[b] > most) most = logits[b];
  shares[0] = 0;
  for (b = 0; b < 256; b++) shares[b + 1] = shares[b] + 1 + counts_falling(most - logits[b]) / 128;
}

static void counts_close(counts *k) {
  int i;
  if (!k) return;
  for (i = 0; i < COUNTS_ORDERS; i++) free(k->table[i]), miras_close(k->mixer[i]);
  free(k->place);
  free(k);
}

/* NULL if there is not enough memory. */
static counts *counts_open(int slots, float trust) {
  float weights[2 * COUNTS_INPUTS] = {0};
  counts *k = (counts *)calloc(1, sizeof *k);
  miras_memory_desc d;
  int i, ok;
  if (!k) return NULL;
  weights[2 * COUNTS_ORDERS] = -trust / 2, weights[2 * COUNTS_ORDERS + 1] = trust / 2;
  k->slots = slots;
  for (i = 0; i <= COUNTS_LONGEST; i++) k->alike[i].one = COUNTS_ONE * 3 / 4;
  for (i = 1; i < COUNTS_ONE; i++)
    k->odds[i] = (float)(counts_logarithm((uint32_t)i) -
                         counts_logarithm((uint32_t)(COUNTS_ONE - i))) * 1.0576e-5f;
  k->place = (uint32_t *)calloc((size_t)1 << COUNTS_PLACES, sizeof *k->place);
  miras_memory_preset(&d, MIRAS_PRESET_CATEGORIES);
  d.key_dim = COUNTS_INPUTS;
  d.value_dim = 2;
  d.decay_rate = 0.0005f;
  strcpy(d.groups, "2");
  ok = k->place != NULL;
  for (i = 0; i < COUNTS_ORDERS; i++) {
    k->table[i] = (counts_slot *)calloc((size_t)1 << slots, sizeof(counts_slot));
    ok = ok && k->table[i];
  }
  for (i = 0; i < COUNTS_ORDERS && ok; i++) {
    k->mixer[i] = miras_memory_open(&d, NULL, NULL, 0);
    ok = k->mixer[i] &&
         miras_memory_set(k->mixer[i], 0, 0, "init.W", weights, NULL, 0) == MIRAS_OK;
  }
  if (ok) return k;
  counts_close(k);
  return NULL;
}

static void counts_slot_learn(counts_slot *s, int bit, int most) {
  const int32_t off = (bit ? COUNTS_ONE - 1 : 0) - s->one;
  s->one = (uint16_t)(s->one + off * 5 / (5 * s->seen + 8));
  if (s->one < 16) s->one = 16;
  if (s->one > COUNTS_ONE - 16) s->one = COUNTS_ONE - 16;
  if (s->seen < most) s->seen++;
}

/* The slots of what may come behind text[0 .. n), and the place that looks like its end. */
static void counts_look(counts *k, const unsigned char *text, size_t n) {
  uint64_t x = 0;
  uint32_t at;
  size_t i;
  if (n) {
    const int b = text[n - 1];
    if ((b | 32) >= 'a' && ((b | 32) <= 'z' || b >= 128))
      k->word = (k->word + (uint32_t)(b | 32) + 1) * 0x2f0b4c47u;
    else k->word = 0;
  }
  for (i = 0; i < COUNTS_ORDERS - 1; i++) {
    k->context[i] = (uint32_t)((x + i + 1) * 0x9e3779b97f4a7c15u >> 32);
    x = x << 8 | (i < n ? text[n - 1 - i] : 0);
  }
  k->context[COUNTS_ORDERS - 1] = (k->word + 7) * 0x2c1b3c6du;
  if (k->length && text[k->like] == text[n - 1])
    k->like++, k->length += k->length < COUNTS_LONGEST;
  else k->length = 0;
  at = k->context[COUNTS_ORDERS - 2] >> (32 - COUNTS_PLACES);
  if (!k->length && k->place[at]) {
    k->like = k->place[at];
    while (k->length < COUNTS_LONGEST && k->length < k->like &&
           text[k->like - 1 - k->length] == text[n - 1 - k->length])
      k->length++;
  }
  k->came = k->length ? text[k->like] | 256 : 0;
  k->place[at] = (uint32_t)n;
}

/* How many bytes the bits before leave open: ahead is a 1 and these bits. */
static int counts_left(int ahead) {
  int left = 256;
  for (; ahead > 1; ahead /= 2) left /= 2;
  return left;
}

/* The next of a byte's bits. */
static int counts_bit(int byte, int ahead) { return byte / (counts_left(ahead) / 2) % 2; }

/* The counts of the next bit, and which memory is asked of it. */
static void counts_find(counts *k, int ahead) {
  const int left = counts_left(ahead);
  int i;
  k->together = 0;
  for (i = 0; i < COUNTS_ORDERS; i++) {
    uint32_t h = (k->context[i] ^ (uint32_t)ahead * 0x9e3779b1u) * 0x85ebca6bu;
    counts_slot *s;
    h = (h ^ h >> 15) * 0xc2b2ae35u;
    s = k->at[i] = &k->table[i][h >> (32 - k->slots)];
    if (s->check != (h & 255) || !s->one)
      s->check = (uint8_t)(h & 255), s->one = COUNTS_ONE / 2, s->seen = 0;
    if (s->seen && i < COUNTS_ORDERS - 1) k->together = i;
  }
  k->agrees = k->came && k->came / left == ahead;
  k->comes = k->came / (left / 2) % 2;
  if (k->agrees) k->together = COUNTS_ORDERS - 1;
}

/* The bit that was asked for is counted. */
static void counts_count(counts *k, int bit) {
  int i;
  for (i = 0; i < COUNTS_ORDERS; i++) counts_slot_learn(k->at[i], bit, 100);
  if (k->agrees) counts_slot_learn(&k->alike[k->length], bit == k->comes, 250);
}

/* How likely the next bit is 1, of COUNTS_ONE: never 0, nor all. */
static uint32_t counts_ask(counts *k, const uint32_t shares[257], int ahead) {
  const int left = counts_left(ahead), from = ahead * left - 256;
  const uint32_t all = shares[from + left] - shares[from], up = shares[from + left];
  uint32_t one = (uint32_t)(((uint64_t)(up - shares[from + left / 2]) << 16) / all);
  float said[2] = {0, 0}, odds;
  int i;
  counts_find(k, ahead);
  for (i = 0; i < COUNTS_ORDERS; i++) k->key[i] = k->at[i]->seen ? k->odds[k->at[i]->one] : 0;
  k->key[COUNTS_ORDERS] = k->odds[one < 1 ? 1 : one > COUNTS_ONE - 1 ? COUNTS_ONE - 1 : one];
  k->key[COUNTS_ORDERS + 1] = k->agrees ? k->odds[k->alike[k->length].one] : 0;
  if (!k->comes) k->key[COUNTS_ORDERS + 1] = -k->key[COUNTS_ORDERS + 1];
  k->key[COUNTS_ORDERS + 2] = 0.3f;
  k->failed |= miras_memory_read(k->mixer[k->together], k->key, said) != MIRAS_OK;
  odds = said[1] - said[0];
  one = counts_falling(fabsf(odds));
  one = (uint32_t)((uint64_t)one * COUNTS_ONE / ((1u << 30) + one));
  one += one < 1;
  return odds > 0 ? COUNTS_ONE - one : one;
}

/* The bit that was asked for came: it is counted, and who said so is believed more. */
static void counts_learn(counts *k, int bit) {
  float came[2];
  came[0] = (float)!bit, came[1] = (float)bit;
  k->failed |= miras_memory_write(k->mixer[k->together], k->key, came, NULL) != MIRAS_OK;
  counts_count(k, bit);
}

/* The byte text[n] is counted, and nobody asked. */
static inline void counts_see(counts *k, const unsigned char *text, size_t n) {
  int ahead, bit;
  counts_look(k, text, n);
  for (ahead = 1; ahead < 256; ahead = 2 * ahead + bit) {
    bit = counts_bit(text[n], ahead);
    counts_find(k, ahead);
    counts_count(k, bit);
  }
}

/* `to` becomes what `from` is, of the same size. */
static inline void counts_copy(counts *to, const counts *from) {
  int i;
  for (i = 0; i < COUNTS_ORDERS; i++) {
    size_t bytes;
    const void *state = miras_memory_state(from->mixer[i], &bytes);
    memcpy(to->table[i], from->table[i], sizeof(counts_slot) << to->slots);
    memcpy(miras_memory_state(to->mixer[i], NULL), state, bytes);
    to->context[i] = from->context[i];
  }
  memcpy(to->place, from->place, sizeof *to->place << COUNTS_PLACES);
  memcpy(to->alike, from->alike, sizeof to->alike);
  to->word = from->word, to->length = from->length, to->like = from->like;
}

/* The bits that the byte text[n] takes, which is learned. */
static inline double counts_byte(counts *k, const unsigned char *text, size_t n,
                                 const uint32_t shares[257]) {
  double bits = 0;
  int ahead, bit;
  counts_look(k, text, n);
  for (ahead = 1; ahead < 256; ahead = 2 * ahead + bit) {
    const double one = counts_ask(k, shares, ahead) / (double)COUNTS_ONE;
    bit = counts_bit(text[n], ahead);
    bits -= log2(bit ? one : 1 - one);
    counts_learn(k, bit);
  }
  return bits;
}

#endif
