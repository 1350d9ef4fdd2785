/* page.c: what the page computes; natively, the replay of a match.
 *
 *     cc -O2 examples/web/page.c -o examples/web/page -lm && examples/web/page [STEPS]
 *
 * Two memories learn what comes next of few kinds: the letters of a text, the steps of a walk. Each
 * is a matrix under cross entropy with sparse keys, and stands beside a table of the last three.
 * With MIRAS_STRICT the same steps end in the same bits here and in the page: this program prints
 * the hash of the match that the page shows, or of the STEPS that it is given (l, r, u, d). What is
 * called a letter here is a byte; the page adds up the bytes of a letter beyond ASCII. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIRAS_STRICT
#define MIRAS_NO_TRAINING
#define MIRAS_NO_MODEL
#define MIRAS_NO_EXACT
#define MIRAS_NO_MESA
#define MIRAS_NO_RECURSIVE
#define MIRAS_NO_ATTENTION
#define MIRAS_NO_SCAN
#define MIRAS_NO_STDIO
#define MIRAS_IMPLEMENTATION
#include "../../miras.h"
#include "../encoders.h"

#ifdef __EMSCRIPTEN__
  #include <emscripten.h>
  #define PAGE EMSCRIPTEN_KEEPALIVE   /* the page calls it */
#else
  #define PAGE
#endif

enum {
  LETTERS = 224, LINE = 95,            /* kinds of letters: bytes from 32 on; the end of a line */
  TEXT = 4000,                         /* letters of a text at most */
  TEXT_BITS = 12, TEXT_LONGEST = 8,    /* places of a text's key, letters of a context in it */
  MOVES = 4, WIDE = 16, HIGH = 10, WALK = 4000,
  WALK_BITS = 8, WALK_LONGEST = 3, WALK_PLACES = (1 << WALK_BITS) + WIDE * HIGH * MOVES,
  JUDGED = 200,                        /* latest steps: a file holds them, a memory is judged by */
  NOTES = 2000, NOTE = 3,              /* writes that a ledger keeps; bytes of one in a file */
  SEAL = 4,                            /* bytes of the hash at the end of a file */
  MOST = 16                            /* places of a key that are not 0 */
};

static unsigned char buffer[1 << 17];  /* what the page hands in and gets out */
static char why[256];

PAGE unsigned char *page_buffer(void) { return buffer; }
PAGE const char *page_why(void) { return why; }

/* ---- what both memories share ---------------------------------------------------------------- */

/* Where a key is 1: at the places of the last 0, 1, 2 .. symbols, hashed. */
static int contexts(const unsigned char *seen, int count, int longest, int bits, int32_t *index) {
  miras_encoder_contexts c = {0};
  int i;
  c.longest = longest, c.bits = bits;
  for (i = count > longest ? count - longest : 0; i < count; i++)
    miras_encode_contexts_push(&c, seen[i]);
  return miras_encode_contexts(&c, index, NULL);
}

/* The baseline: p[kinds] of what followed the last three symbols of now, of fewer where less was
 * seen (Witten and Bell 1991). p comes with what is said of nothing. */
static void table_says(const unsigned char *seen, int count, const unsigned char *now, int length,
                       int kinds, float *p) {
  int order, i, c;
  for (order = 0; order <= 3 && order <= length; order++) {
    int times[LETTERS] = {0}, total = 0, different = 0;
    for (i = order; i < count; i++) {
      if (memcmp(seen + i - order, now + length - order, (size_t)order)) continue;
      different += !times[seen[i]]++;
      total++;
    }
    for (c = 0; c < kinds && total; c++)
      p[c] = ((float)times[c] + (float)different * p[c]) / (float)(total + different);
  }
}

/* A matrix that learns categories from W_0 = start [places, kinds] on. With a decay what it learned
 * fades and W_0 stays. */
static miras_memory *memory_open(int places, int kinds, float rate, float decay,
                                 const float *start) {
  miras_memory_desc d;
  miras_memory *m;
  miras_memory_preset(&d, MIRAS_PRESET_DELTANET_MEMORY);
  d.bias = MIRAS_BIAS_CROSS_ENTROPY;
  d.step_bound = MIRAS_STEP_BOUND_AUTO;
  d.qk_norm = MIRAS_QK_NORM_NONE;
  d.key_dim = places;
  d.value_dim = kinds;
  d.learning_rate = rate;
  if (decay > 0) {
    d.retention = MIRAS_RETENTION_L2;
    d.decay_target = MIRAS_DECAY_TARGET_INITIAL;
    d.decay_rate = decay;
  }
  m = miras_memory_open(&d, NULL, why, sizeof why);
  return m && !miras_memory_set(m, 0, 0, "init.W1", start, why, sizeof why) ? m : NULL;
}

/* Probabilities of what comes next into p; then, if it is known (from 0 up), it is learned. entry
 * NULL: ones. */
static void memory_says(miras_memory *m, const int32_t *index, const float *entry, int count,
                        int next, float *p) {
  float value[LETTERS] = {0};
  miras_memory_event e = {0};
  e.index = index, e.entry = entry, e.count = count, e.answer = p;
  if (next >= 0) value[next] = 1, e.value = value;
  (void)miras_memory_learn(m, &e);
  (void)miras_memory_probabilities(m, p, p);
}

static int likeliest(const float *p, int kinds) {
  int c, best = 0;
  for (c = 1; c < kinds; c++)
    if (p[c] > p[best]) best = c;
  return best;
}

/* ---- a text ---------------------------------------------------------------------------------- */

static struct {
  miras_memory *memory;
  int count;
  unsigned char seen[TEXT];
  float start[LETTERS], said[LETTERS], both[2];
} text;

static int letter_of(int byte) { return byte < 32 ? LINE : (byte & 255) - 32; }
static unsigned char byte_of(int letter) {
  return (unsigned char)(letter == LINE ? '\n' : letter + 32);
}

/* W_0 of a text knows that most letters are ASCII, and the table is told the same. */
static int text_open(void) {
  static float start[(1 << TEXT_BITS) * LETTERS];
  int32_t index[MOST];
  int c;
  (void)contexts(NULL, 0, TEXT_LONGEST, TEXT_BITS, index);
  for (c = 0; c < LETTERS; c++)
    start[index[0] * LETTERS + c] = c <= LINE ? 0.0f : -4.0f;
  text.memory = memory_open(1 << TEXT_BITS, LETTERS, 0.5f, 0, start);
  if (text.memory) memory_says(text.memory, index, NULL, 1, -1, text.start);
  return text.memory != NULL;
}

PAGE void text_forget(void) {
  miras_memory_reset(text.memory);
  text.count = 0;
}

/* What the memory and the table gave this letter, two probabilities; then it is learned. */
PAGE const float *text_learn(int byte) {
  const int letter = letter_of(byte);
  int32_t index[MOST];
  int n;
  if (text.count == TEXT) return NULL;
  memcpy(text.said, text.start, sizeof text.said);
  table_says(text.seen, text.count, text.seen, text.count, LETTERS, text.said);
  text.both[1] = text.said[letter];
  n = contexts(text.seen, text.count, TEXT_LONGEST, TEXT_BITS, index);
  memory_says(text.memory, index, NULL, n, letter, text.said);
  text.both[0] = text.said[letter];
  text.seen[text.count++] = (unsigned char)letter;
  return text.both;
}

/* Probabilities of the next letter behind the question in the buffer. who: 0 the memory before its
 * first letter, 1 the memory, 2 the table. */
static void text_answer(const unsigned char *now, int length, int who) {
  int32_t index[MOST];
  const int n = contexts(now, length, TEXT_LONGEST, TEXT_BITS, index);
  memcpy(text.said, text.start, sizeof text.said);
  if (who == 2) table_says(text.seen, text.count, now, length, LETTERS, text.said);
  else memory_says(text.memory, index, NULL, n, -1, text.said);
}

/* The likeliest next letters, as bytes into the buffer; their probabilities. */
PAGE const float *text_expect(int letters) {
  static float p[MOST];
  int i, c;
  text_answer(text.seen, text.count, 1);
  for (i = 0; i < letters && i < MOST; i++) {
    c = likeliest(text.said, LETTERS);
    buffer[i] = byte_of(c);
    p[i] = text.said[c];
    text.said[c] = -1;
  }
  return p;
}

/* Writes the likeliest bytes behind the question of this length in the buffer; the probability of
 * the first letter, all its bytes. Zeros are the state of a memory that has learned nothing. */
PAGE float text_continue(int length, int letters, int who) {
  static unsigned char kept[(1 << TEXT_BITS) * LETTERS * sizeof(float) + 65536], now[TEXT];
  size_t bytes;
  void *state = miras_memory_state(text.memory, &bytes);
  float sure = 1;
  int i, c, first = 1;                 /* bytes of the first letter */
  if (length < 0 || letters < 0 || length + letters > TEXT || bytes > sizeof kept) return 0;
  for (i = 0; i < length; i++) now[i] = (unsigned char)letter_of(buffer[i]);
  if (!who) memcpy(kept, state, bytes), memset(state, 0, bytes);
  for (i = 0; i < letters; i++) {
    text_answer(now, length + i, who);
    c = likeliest(text.said, LETTERS);
    now[length + i] = (unsigned char)c;
    buffer[i] = byte_of(c);
    if (!i) first += (buffer[0] >= 0xC0) + (buffer[0] >= 0xE0) + (buffer[0] >= 0xF0);
    if (i < first) sure *= text.said[c];
  }
  if (!who) memcpy(state, kept, bytes);
  return sure;
}

/* ---- walks ----------------------------------------------------------------------------------- */

typedef struct walker {
  miras_memory *memory;
  miras_ledger *ledger;                /* its last NOTES writes; NULL: nobody asks for them */
  void *room;                          /* of the ledger */
  int friend;                          /* whose steps: 0 yours, 1 a friend's */
  int x, y, count;
  int whole, foreseen;                 /* steps are all that the memory has learned; of those */
  unsigned char steps[WALK];           /* 0 left, 1 right, 2 up, 3 down */
} walker;
static walker you, other, replayed;

/* The last three steps, and above all where one stands and came from: habits of two who walk in
 * different places share little of the matrix, so that their memories can be added. */
static int walk_key(const unsigned char *steps, int count, int x, int y, int32_t *index,
                    float *entry) {
  const int n = contexts(steps, count, WALK_LONGEST, WALK_BITS, index);
  int i;
  for (i = 0; i < n; i++) entry[i] = 0.5f;
  if (!count) return n;
  index[n] = (1 << WALK_BITS) + (y * WIDE + x) * MOVES + steps[count - 1];
  entry[n] = 1.5f;
  return n + 1;
}

/* One step from x, y; 0 if there is a wall. */
static int walk_to(int *x, int *y, int move) {
  const int to_x = *x + (move == 1) - (move == 0), to_y = *y + (move == 3) - (move == 2);
  if (to_x < 0 || to_x >= WIDE || to_y < 0 || to_y >= HIGH) return 0;
  *x = to_x, *y = to_y;
  return 1;
}

/* The ledger begins with the memory as it is. */
static void walk_begin(walker *w) {
  const size_t bytes = miras_ledger_size(w->memory, NOTES, NULL, 0);
  if (w->room) w->ledger = miras_ledger_init(w->room, bytes, w->memory, NOTES, NULL, 0);
}

static void walk_forget(walker *w) {
  miras_memory_reset(w->memory);
  walk_begin(w);
  w->x = WIDE / 2, w->y = HIGH / 2, w->count = w->foreseen = 0, w->whole = 1;
}

/* W_0 of a walk goes straight on. */
static int walk_open(walker *w, int keeps) {
  static float start[WALK_PLACES * MOVES];
  int32_t index[MOST];
  unsigned char move;
  for (move = 0; move < MOVES; move++) {
    (void)contexts(&move, 1, WALK_LONGEST, WALK_BITS, index);
    start[index[1] * MOVES + move] = 4;
  }
  w->memory = memory_open(WALK_PLACES, MOVES, 0.5f, 0.001f, start);
  if (!w->memory) return 0;
  if (keeps) w->room = malloc(miras_ledger_size(w->memory, NOTES, why, sizeof why));
  walk_forget(w);
  return !keeps || w->ledger;
}

/* A note has what a write is made of: the step, the field where it begins, how many steps are ahead
 * of it, 3 at most, these, the latest lowest, and whose it is. */
static uint64_t note_of(const walker *w, int move) {
  const int n = w->count < WALK_LONGEST ? w->count : WALK_LONGEST;
  unsigned note = (unsigned)w->friend << 6;
  int i;
  for (i = w->count - n; i < w->count; i++) note = (note & 64) | (note << 2 & 63) | w->steps[i];
  return ((uint64_t)note << 12) | (uint64_t)(n << 10 | w->y << 6 | w->x << 2 | move);
}
static int note_is_friends(uint64_t note) { return (int)(note >> 18 & 1); }

/* Is it such a number? Steps lead to the field. */
static int note_is_whole(uint64_t note) {
  const int n = (int)(note >> 10 & 3);
  int x = (int)(note >> 2 & 15), y = (int)(note >> 6 & 15), i, move = (int)(note & 3);
  const int from_x = x, from_y = y;
  if (note >> 19 || y >= HIGH || note >> 12 & 63 & ~((1u << 2 * n) - 1)) return 0;
  if (!walk_to(&x, &y, move)) return 0;
  x = from_x, y = from_y;
  for (i = 0; i < n; i++)
    if (!walk_to(&x, &y, (int)(note >> (12 + 2 * i) & 3) ^ 1)) return 0;
  return 1;
}

/* The memory learns the write that a note describes, and the ledger keeps it. */
static void walk_note(walker *w, uint64_t note) {
  static float key[WALK_PLACES];
  unsigned char steps[WALK_LONGEST];
  int32_t index[MOST];
  float entry[MOST], value[MOVES] = {0};
  const int count = (int)(note >> 10 & 3);
  int i, n;
  for (i = 0; i < count; i++)
    steps[i] = (unsigned char)(note >> (12 + 2 * (count - 1 - i)) & 3);
  n = walk_key(steps, count, (int)(note >> 2 & 15), (int)(note >> 6 & 15), index, entry);
  for (i = 0; i < n; i++) key[index[i]] = entry[i];
  value[note & 3] = 1;
  (void)miras_ledger_write(w->ledger, key, value, note, NULL);
  for (i = 0; i < n; i++) key[index[i]] = 0;
}

/* The step that is foreseen; and, if the next one is known, that is learned. */
static int walk_guess(walker *w, const unsigned char *steps, int count, int x, int y, int next) {
  int32_t index[MOST];
  float p[MOVES], entry[MOST];
  const int n = walk_key(steps, count, x, y, index, entry);
  memory_says(w->memory, index, entry, n, next, p);
  return likeliest(p, MOVES);
}

/* Who foresaw this step, a sum: 1 the memory, 2 the table, 4 straight on; -1: there is a wall. */
static int walk_step(walker *w, int move) {
  float p[MOVES] = {0.25f, 0.25f, 0.25f, 0.25f};
  int x = w->x, y = w->y, right;
  if (!walk_to(&x, &y, move)) return -1;
  if (w->count == WALK) {
    w->count /= 2, w->whole = 0;
    memmove(w->steps, w->steps + w->count, (size_t)w->count);
  }
  table_says(w->steps, w->count, w->steps, w->count, MOVES, p);
  right = 2 * (likeliest(p, MOVES) == move) + 4 * (w->count && w->steps[w->count - 1] == move);
  right += walk_guess(w, w->steps, w->count, w->x, w->y, w->ledger ? -1 : move) == move;
  if (w->ledger) walk_note(w, note_of(w, move));
  w->foreseen += right & 1;
  w->steps[w->count++] = (unsigned char)move;
  w->x = x, w->y = y;
  return right;
}

/* FNV-1a, begun at FNV. */
#define FNV UINT64_C(14695981039346656037)
static uint64_t hashed(uint64_t hash, unsigned byte) {
  return (hash ^ byte) * UINT64_C(1099511628211);
}

/* What a walk came to, with the hash of the memory, lowest byte of each number first. */
static const char *walk_result(const walker *w) {
  static float now[WALK_PLACES * MOVES];
  static char line[128];
  uint64_t hash = FNV;
  int i, byte;
  if (!w->whole) return "no walk of at most 4000 steps from an untouched memory";
  (void)miras_memory_get(w->memory, 0, 0, "W1", now, NULL, 0);
  for (i = 0; i < WALK_PLACES * MOVES; i++) {
    uint32_t bits;
    memcpy(&bits, &now[i], sizeof bits);
    for (byte = 0; byte < 4; byte++) hash = hashed(hash, bits >> 8 * byte & 255);
  }
  snprintf(line, sizeof line, "%d steps, %d foreseen, hash %08lx%08lx", w->count, w->foreseen,
           (unsigned long)(hash >> 32), (unsigned long)(hash & 0xffffffffu));
  return line;
}

/* A walker who makes his rounds by these corners, with a step in 16 by chance; one who feints does
 * not go where he is expected in one of 8. */
static int rounds_step(const walker *w, const int (*corner)[2], int *at, int guess,
                       uint32_t *seed) {
  int dx, dy, move;
  if (w->x == corner[*at][0] && w->y == corner[*at][1]) *at = (*at + 1) & 7;
  dx = corner[*at][0] - w->x, dy = corner[*at][1] - w->y;
  move = dx ? dx > 0 : dy > 0 ? 3 : 2;
  *seed = *seed * 1664525u + 1013904223u;
  if (*seed >> 28 == 0) move = (int)(*seed >> 26 & 3);
  if (*seed >> 29 == 7 && move == guess) move ^= 2;
  return move;
}

/* The match: 1500 steps of a walker who feints, or these, 4000 at most. Without a result,
 * replayed.whole is 0. */
PAGE const char *match(const char *steps) {
  static const int corner[8][2] = {{13, 5}, {13, 8}, {3, 8}, {3, 2},
                                   {9, 2},  {9, 6},  {6, 6}, {6, 4}};
  static const char letters[] = "lrud";
  walker *w = &replayed;
  uint32_t seed = 1;
  int at = 0, guess;
  walk_forget(w);
  for (; steps && *steps; steps++) {
    const char *found = strchr(letters, *steps);
    if (!found || walk_step(w, (int)(found - letters)) < 0)
      return w->whole = 0, "no walk: a wall, or none of the letters l, r, u, d";
  }
  while (!steps && w->count < 1500) {
    guess = walk_guess(w, w->steps, w->count, w->x, w->y, -1);
    (void)walk_step(w, rounds_step(w, corner, &at, guess, &seed));
  }
  return walk_result(w);
}

/* ---- the game -------------------------------------------------------------------------------- */

PAGE void game_forget(void) { walk_forget(&you); }
PAGE int game_step(int move) { return walk_step(&you, move); }
PAGE int game_field(void) { return you.y * WIDE + you.x; }
PAGE const unsigned char *game_steps(void) { return you.steps; }
PAGE int game_count(int of) { return of ? other.count : you.count; }
PAGE int game_whole(void) { return you.whole; }
PAGE const char *game_result(void) { return walk_result(&you); }

/* The fields that the memory foresees, one after the other, into the buffer. */
PAGE void game_foresee(int fields) {
  unsigned char steps[JUDGED];
  int i, n = you.count < WALK_LONGEST ? you.count : WALK_LONGEST, x = you.x, y = you.y, move;
  memcpy(steps, you.steps + you.count - n, (size_t)n);
  for (i = 0; i < fields && n < JUDGED; i++) {
    move = walk_guess(&you, steps, n, x, y, -1);
    (void)walk_to(&x, &y, move);
    steps[n++] = (unsigned char)move;
    buffer[i] = (unsigned char)(y * WIDE + x);
  }
}

/* A friend, who makes other rounds, has walked with a memory of his own. */
PAGE void game_friend(void) {
  static const int corner[8][2] = {{2, 5},  {2, 1},  {5, 1},  {5, 7},
                                   {11, 7}, {11, 3}, {14, 3}, {14, 8}};
  uint32_t seed = 7;
  int at = 0, t;
  walk_forget(&other);
  for (t = 0; t < 400; t++) (void)walk_step(&other, rounds_step(&other, corner, &at, MOVES, &seed));
}

/* How many in a hundred of the latest steps of one (0 you, 1 the friend) the memory of one foresees
 * while it learns nothing; of nobody's memory (2): straight on. -1: one of them has not walked. */
PAGE int game_judge(int memory_of, int steps_of) {
  walker *m = memory_of ? &other : &you;
  const walker *s = steps_of ? &other : &you;
  const int from = s->count > JUDGED ? s->count - JUDGED : 0;
  int x = s->x, y = s->y, t, right = 0;
  if (!s->count || (memory_of < 2 && !m->count)) return -1;
  for (t = s->count; t-- > from;) {
    (void)walk_to(&x, &y, s->steps[t] ^ 1);        /* back */
    right += (memory_of == 2 ? t && s->steps[t - 1] == s->steps[t]
                             : walk_guess(m, s->steps, t, x, y, -1) == s->steps[t]);
  }
  return (200 * right / (s->count - from) + 1) / 2;
}

/* gone says which of your memory's writes are a friend's. Returns how many are. */
static int friends(unsigned char gone[NOTES]) {
  miras_ledger_entry e;
  int i, count = 0;
  for (i = 0; miras_ledger_get(you.ledger, i, &e) == MIRAS_OK; i++)
    count += gone[i] = (unsigned char)note_is_friends(e.when);
  return count;
}
PAGE int game_friends(void) {
  unsigned char gone[NOTES];
  return friends(gone);
}

/* Your memory learns what the friend's ledger has, as if it came now; how many steps. */
static struct { int whole, count, writes; } parted;   /* your walk before, and of friends since */
PAGE int game_merge(void) {
  const int count = miras_ledger_count(other.ledger);
  if (!game_friends()) parted.whole = you.whole, parted.count = you.count, parted.writes = 0;
  (void)miras_ledger_append(you.ledger, other.ledger);
  you.whole = 0;
  parted.writes += count;
  return count;
}

/* Forget what friends have taught: your memory is, to the bit, what it would be had they not. How
 * many steps; 0: there are none, or too much has come since. */
PAGE int game_part(void) {
  unsigned char gone[NOTES];
  const int count = friends(gone);
  if (!count || miras_ledger_forget(you.ledger, gone) != MIRAS_OK) return 0;
  you.whole = parted.whole && parted.count == you.count && parted.writes == count;
  return count;
}

/* The hash of the first bytes of the buffer. */
static void seal(size_t bytes, unsigned char to[SEAL]) {
  uint64_t hash = FNV;
  size_t i;
  for (i = 0; i < bytes; i++) hash = hashed(hash, buffer[i]);
  for (i = 0; i < SEAL; i++) to[i] = (unsigned char)(hash >> 8 * i & 255);
}

/* Numbers of this many bytes in the buffer, lowest first. */
static void put(size_t at, unsigned long x, int bytes) {
  for (; bytes--; at++, x >>= 8) buffer[at] = (unsigned char)(x & 255);
}
static unsigned long get(size_t at, int bytes) {
  unsigned long x = 0;
  while (bytes--) x = x << 8 | buffer[at + (size_t)bytes];
  return x;
}

/* A file: the memory before the first write of its ledger; the field, the number of the latest
 * steps, 200 at most, and of writes; both; a hash of all that. Into the buffer; its size, or 0. */
PAGE int game_save(void) {
  static unsigned char all[NOTES];
  static uint64_t note[NOTES];
  const int n = you.count < JUDGED ? you.count : JUDGED, notes = miras_ledger_count(you.ledger);
  miras_ledger_entry e;
  size_t at, size;
  int i;
  for (i = 0; i < notes && miras_ledger_get(you.ledger, i, &e) == MIRAS_OK; i++) note[i] = e.when;
  memset(all, 1, sizeof all);
  if (miras_ledger_forget(you.ledger, all) != MIRAS_OK) return 0;
  size = miras_save_to(you.memory, buffer, sizeof buffer - 5 - JUDGED - NOTES * NOTE - SEAL);
  for (i = 0; i < notes; i++) walk_note(&you, note[i]);
  if (!size) return 0;
  at = size;
  put(at, (unsigned long)you.x, 1), put(at + 1, (unsigned long)you.y, 1);
  put(at + 2, (unsigned long)n, 1), put(at + 3, (unsigned long)notes, 2);
  memcpy(buffer + at + 5, you.steps + you.count - n, (size_t)n);
  at += 5 + (size_t)n;
  for (i = 0; i < notes; i++, at += NOTE) put(at, (unsigned long)note[i], NOTE);
  seal(at, buffer + at);
  return (int)at + SEAL;
}

/* The file in the buffer becomes yours, or (friend 1) the friend's. 0: it is none, see page_why,
 * and nothing has changed. */
PAGE int game_load(int bytes, int friend) {
  walker *w = friend ? &other : &you;
  const size_t size = miras_save_to(w->memory, NULL, 0), head = size + 5;
  size_t end;
  unsigned char want[SEAL];
  int i, n, notes, x, y;
  snprintf(why, sizeof why, "it is no file of this page, or a damaged one");
  if (bytes < (int)head + SEAL || (size_t)bytes > sizeof buffer) return 0;
  x = buffer[size], y = buffer[size + 1], n = buffer[size + 2], notes = (int)get(size + 3, 2);
  end = head + (size_t)n + (size_t)notes * NOTE;
  if (n > JUDGED || notes > NOTES || x >= WIDE || y >= HIGH || (size_t)bytes != end + SEAL)
    return 0;
  seal(end, want);
  if (memcmp(want, buffer + end, SEAL)) return 0;
  for (i = n; i-- > 0;)
    if (buffer[head + (size_t)i] >= MOVES || !walk_to(&x, &y, buffer[head + (size_t)i] ^ 1))
      return 0;
  for (i = 0; i < notes; i++)
    if (!note_is_whole(get(head + (size_t)n + (size_t)i * NOTE, NOTE))) return 0;
  if (miras_load_from(w->memory, buffer, size, why, sizeof why)) return 0;
  walk_begin(w);
  for (i = 0; i < notes; i++)
    walk_note(w, get(head + (size_t)n + (size_t)i * NOTE, NOTE) | (uint64_t)friend << 18);
  w->x = buffer[size], w->y = buffer[size + 1], w->count = n, w->whole = 0;
  if (!friend) parted.whole = 0;
  memcpy(w->steps, buffer + head, (size_t)n);
  return 1;
}

PAGE int page_open(void) {
  other.friend = 1;
  return text_open() && walk_open(&you, 1) && walk_open(&other, 1) && walk_open(&replayed, 0);
}

#ifndef __EMSCRIPTEN__
int main(int argc, char **argv) {
  const char *said = argc > 2 ? "usage: page [STEPS]" : !page_open() ? why : match(argv[1]);
  const int wrong = argc > 2 || !replayed.whole;
  fprintf(wrong ? stderr : stdout, "%s\n", said);
  return wrong;
}
#endif
