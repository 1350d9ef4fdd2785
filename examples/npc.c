/* npc.c: a character of a game that learns its player, 35 times a second.
 *
 *     cc -O2 examples/npc.c -o npc -lm
 *     ./npc [--seed N] [--steps N] [--synthetic] [FOLDER | WAD WAD...]
 *     ./npc --praise ..       companions that are praised and scolded, beside bandits
 *
 * A player of Doom presses, each tic (1/35 s): forward or back, left or right, a turn, fire. The
 * program guesses the next tic before it comes, as a bot that dodges, a companion that keeps up or
 * a netcode that hides latency would, and is told what came. The fewer bits a tic is worth, the
 * better the guess: bits = -log2 of the probability that the tic was given.
 *
 * The players are recordings in the files of a free game: freedm.wad, freedoom1.wad, freedoom2.wad
 * (Debian: apt install freedm freedoom), in FOLDER or /usr/share/games/doom. The last is scored,
 * the others are trained on; of WADs by name, likewise. Without them, or with --synthetic, invented
 * players stand in: a seeded automaton that runs, turns, fights and waits, each with habits of his
 * own. Numbers from those say that the program works, and nothing of people.
 *
 * What guesses:
 *   a network     78 numbers of what the player did (features) -> Gated DeltaNet, one layer of 32
 *                 -> four groups of categories; trained here (--steps, 3000), half of it mirrored
 *   its head      goes on learning from each tic as a memory (miras_model_desc.adapt)
 *   a matrix      78 -> 13 beside it, by cross entropy and gradient descent, warm from the same
 *                 players (miras_memory_learn); the character says the mean of both logits
 *   from nothing  one memory, keys: the last two tics. No training at all. Of preset "categories",
 *                 and of "events", which has half its bytes and takes entries of keys one by one
 *
 * Baselines of the same run: counts of whole tics given the last 0, 1 or 2 (Witten-Bell), and
 * softmax regression with AdaGrad on the same features. All go on learning while they are scored.
 *
 * With --praise it is a companion that is told what was right, at once or late, beside bandits that
 * are told the same (miras_memory_reward). The table has where a bandit is the better one, told at
 * once, and where the memory with its trace is, told late.
 *
 * Then it does what a game needs: saves and loads a character, rolls it back 8 tics and replays
 * them to the same bits, lets another player take over. Written: npc.svg, npc.character. Progress
 * goes to stderr, tables and a line "result name=value ..." to stdout. */
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long allocations;   /* so far, the library's too */

static void *counted(size_t bytes) {
  allocations++;
  return malloc(bytes ? bytes : 1);
}

#define MIRAS_MALLOC(bytes) counted(bytes)
#define MIRAS_FREE(pointer) free(pointer)
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

enum {
  GROUPS = 4, ENTRIES = 13, FEATURES = 78, SYMBOLS = 3 * 3 * 5 * 2, MOST = 64,
  RING = 8,             /* tics that can be rolled back */
  AFTER = 2000,         /* tics after a change of players that are looked at */
  BATCH = 8, WINDOW = 128
};
static const int size_of[GROUPS] = {3, 3, 5, 2}, place_of[GROUPS] = {0, 3, 6, 11};

static void die(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fprintf(stderr, "npc: ");
  vfprintf(stderr, format, list);
  fprintf(stderr, "\n");
  va_end(list);
  exit(1);
}

static void *room(size_t bytes) {   /* zeros */
  void *p = counted(bytes);
  if (!p) die("there is no memory for %lu bytes", (unsigned long)bytes);
  memset(p, 0, bytes);
  return p;
}

static double seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static double uniform(uint64_t *seed) {   /* 0 .. 1, without 1 */
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*seed >> 11) / 9007199254740992.0;
}

/* ---- players ---------------------------------------------------------------------------------
 * What a player does in a tic, by group: back, nothing, forward; left, nothing, right; turn fast
 * and slowly one way, not, slowly and fast the other; fire or not. */

typedef struct tic { unsigned char kind[GROUPS]; } tic;
typedef struct recording { tic *tics, *mirrored; int count, scored; } recording;

static recording players[MOST];
static int player_count, scored_count;
static const tic idle = {{1, 1, 2, 0}};

/* The same player in a mirror. */
static tic mirror(tic t) {
  t.kind[1] = (unsigned char)(2 - t.kind[1]);
  t.kind[2] = (unsigned char)(4 - t.kind[2]);
  return t;
}

static recording *add_player(int tics, int scored) {
  recording *r = &players[player_count];
  if (player_count == MOST) die("there are more than %d recordings", MOST);
  player_count++;
  scored_count += scored;
  r->count = tics, r->scored = scored;
  r->tics = (tic *)room((size_t)tics * sizeof(tic));
  r->mirrored = (tic *)room((size_t)tics * sizeof(tic));
  return r;
}

static void mirror_players(void) {
  int i, t;
  for (i = 0; i < player_count; i++)
    for (t = 0; t < players[i].count; t++) players[i].mirrored[t] = mirror(players[i].tics[t]);
}

static int sign(int x) { return x < 0 ? 0 : x == 0 ? 1 : 2; }

/* Four bytes of a demo: forward, side, turn, buttons (with the highest bit they are no buttons). */
static tic read_tic(const unsigned char *b) {
  const int turn = (signed char)b[2];
  tic t;
  t.kind[0] = (unsigned char)sign((signed char)b[0]);
  t.kind[1] = (unsigned char)sign((signed char)b[1]);
  t.kind[2] = (unsigned char)(turn < -3 ? 0 : turn < 0 ? 1 : turn == 0 ? 2 : turn <= 3 ? 3 : 4);
  t.kind[3] = (unsigned char)(b[3] & 128 ? 0 : b[3] & 1);
  return t;
}

/* A demo lump: 13 bytes, of which the last four say who plays, then 4 bytes for each of them and
 * tic, up to a byte of 128. */
static void read_demo(const unsigned char *b, size_t size, int scored) {
  size_t people = 0, tics = 0, p, t;
  if (size < 13) return;
  for (p = 9; p < 13; p++) people += b[p] != 0;
  b += 13, size -= 13;
  while (people && (tics + 1) * 4 * people <= size && b[tics * 4 * people] != 128) tics++;
  if (tics < WINDOW) return;
  for (p = 0; p < people; p++) {
    recording *r = add_player((int)tics, scored);
    for (t = 0; t < tics; t++) r->tics[t] = read_tic(b + 4 * (t * people + p));
  }
}

static size_t little(const unsigned char *b) {
  return b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
}

/* All lumps DEMO.. of a WAD; 0 if there is no such file. */
static int read_wad(const char *path, int scored) {
  FILE *f = fopen(path, "rb");
  unsigned char *b;
  long size = 0;
  size_t n, count, at, i;
  if (!f) return 0;
  if (fseek(f, 0, SEEK_END) || (size = ftell(f)) < 12 || fseek(f, 0, SEEK_SET))
    die("%s cannot be read", path);
  n = (size_t)size;
  b = (unsigned char *)room(n);
  if (fread(b, 1, n, f) != n) die("%s cannot be read", path);
  fclose(f);
  count = little(b + 4), at = little(b + 8);
  if (memcmp(b + 1, "WAD", 3) || at > n || count > (n - at) / 16) die("%s is no WAD", path);
  for (i = 0; i < count; i++) {
    const unsigned char *entry = b + at + 16 * i;
    const size_t from = little(entry), bytes = little(entry + 4);
    if (memcmp(entry + 8, "DEMO", 4)) continue;
    if (from > n || bytes > n - from) die("%s is damaged", path);
    read_demo(b + from, bytes, scored);
  }
  free(b);
  return 1;
}

static int read_folder(const char *folder) {
  static const char *const names[3] = {"freedm.wad", "freedoom1.wad", "freedoom2.wad"};
  char path[1024];
  int i;
  for (i = 0; i < 3; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    if (!read_wad(path, i == 2)) {
      if (i) die("%s is missing beside %s", names[i], names[0]);
      return 0;
    }
  }
  return 1;
}

/* A player who was invented: he runs, turns, fights and waits for lengths that are his. */
static void invent_player(int tics, int scored, uint64_t seed) {
  recording *r = add_player(tics, scored);
  uint64_t s = seed * 977 + 31;
  double length[4], bold, handed, steady;
  int mode = 0, left = 0, since = 0, side = 1, t, i;
  for (i = 0; i < 20; i++) (void)uniform(&s);
  for (i = 0; i < 4; i++) length[i] = 12 + 40 * uniform(&s);
  bold = uniform(&s), handed = 0.2 + 0.6 * uniform(&s), steady = 0.9 + 0.09 * uniform(&s);
  for (t = 0; t < tics; t++, left--, since++) {
    tic x = idle;
    if (left <= 0) {
      const double u = uniform(&s);
      mode = u < 0.4 ? 0 : u < 0.7 ? 1 : u < 0.7 + 0.25 * bold ? 2 : 3;
      left = 4 + (int)(-length[mode] * log(1 - uniform(&s)));
      side = uniform(&s) < handed ? 0 : 2;
      since = 0;
    }
    if (mode < 2) x.kind[0] = (unsigned char)(mode == 0 || bold > 0.5 ? 2 : 1);
    if (mode == 1) x.kind[2] = (unsigned char)(since < 6 ? 1 + side : 2 * side);
    if (mode == 2) {
      x.kind[1] = (unsigned char)(since / (int)(length[2] / 2) % 2 ? 2 - side : side);
      x.kind[3] = (unsigned char)(since % 14 < 3 + (int)(8 * bold));
    }
    if (uniform(&s) > steady) x.kind[2] = (unsigned char)(uniform(&s) < 0.5 ? 1 : 3);
    r->tics[t] = x;
  }
}

static void invent_players(void) {
  int i;
  for (i = 0; i < 8; i++) invent_player(i < 5 ? 2500 : 2200, i >= 5, (uint64_t)i + 1);
}

/* ---- features: what a guess is made from ----------------------------------------------------- */

typedef struct view {
  tic last, before;                /* the last two tics */
  int32_t run[GROUPS];             /* for how many tics a group has been as it is */
  float often[3][ENTRIES];         /* running shares over 5, 20 and 100 tics */
} view;

static void view_begin(view *v) {
  int i, g;
  memset(v, 0, sizeof *v);
  v->last = v->before = idle;
  for (i = 0; i < 3; i++)
    for (g = 0; g < GROUPS; g++) v->often[i][place_of[g] + idle.kind[g]] = 1;
}

static void view_push(view *v, const tic *t) {
  static const float rate[3] = {0.2f, 0.05f, 0.01f};
  int i, j, g;
  for (g = 0; g < GROUPS; g++) v->run[g] = t->kind[g] == v->last.kind[g] ? v->run[g] + 1 : 0;
  v->before = v->last;
  v->last = *t;
  for (i = 0; i < 3; i++) {
    for (j = 0; j < ENTRIES; j++) v->often[i][j] *= 1 - rate[i];
    for (g = 0; g < GROUPS; g++) v->often[i][place_of[g] + t->kind[g]] += rate[i];
  }
}

static void one_hots(const tic *t, float *x) {   /* [ENTRIES] */
  int g;
  memset(x, 0, ENTRIES * sizeof *x);
  for (g = 0; g < GROUPS; g++) x[place_of[g] + t->kind[g]] = 1;
}

/* x [FEATURES]: two tics as one-hots, the shares, three shapes of each run, and a 1. */
static void features(const view *v, float *x) {
  int g;
  one_hots(&v->last, x);
  one_hots(&v->before, x + ENTRIES);
  memcpy(x + 2 * ENTRIES, v->often, sizeof v->often);
  x += 5 * ENTRIES;
  for (g = 0; g < GROUPS; g++) {
    const float run = (float)v->run[g];
    *x++ = logf(1 + run) / 4;
    *x++ = 1 / (1 + run);
    *x++ = (float)(v->run[g] == 1);
  }
  *x = 1;
}

/* p [ENTRIES] = the probabilities that logits z say; returns how many bits t is worth. */
static double probabilities(const float *z, const tic *t, float *p) {
  double bits = 0;
  int g, i;
  for (g = 0; g < GROUPS; g++) {
    const float *of = z + place_of[g];
    float *to = p + place_of[g], most = of[0], sum = 0;
    for (i = 1; i < size_of[g]; i++) most = of[i] > most ? of[i] : most;
    for (i = 0; i < size_of[g]; i++) sum += to[i] = expf(of[i] - most);
    for (i = 0; i < size_of[g]; i++) to[i] /= sum;
    bits -= log2((double)to[t->kind[g]] + 1e-12);
  }
  return bits;
}

/* ---- learners --------------------------------------------------------------------------------
 * Each is a block of bytes without pointers that begins with a view, and a function that guesses
 * the next tic, then learns it, and returns its bits. So a copy is a snapshot. */

typedef struct learner {
  const char *name;
  double (*tic)(void *state, const tic *t);
  int baseline;          /* 1: what the character is to beat */
  void *start, *now;     /* what a player finds, what it has become */
  size_t bytes;
  double bits, each[MOST];   /* of all scored tics; of each player's, a tic */
  float *line;           /* [scored tics] bits */
} learner;

static long scored_tics(void) {
  long n = 0;
  int i;
  for (i = 0; i < player_count; i++) n += players[i].scored ? players[i].count : 0;
  return n;
}

static learner learner_make(const char *name, double (*tic)(void *, const struct tic *),
                            int baseline, size_t bytes) {
  learner l;
  memset(&l, 0, sizeof l);
  l.name = name, l.tic = tic, l.baseline = baseline, l.bytes = bytes;
  l.start = room(bytes), l.now = room(bytes);
  l.line = (float *)room((size_t)scored_tics() * sizeof(float));
  view_begin((view *)l.start);
  return l;
}

static void learner_free(learner *l) {
  free(l->start);
  free(l->now);
  free(l->line);
}

static double play(const learner *l, void *state, const tic *tics, int count) {
  double bits = 0;
  int t;
  for (t = 0; t < count; t++) bits += l->tic(state, &tics[t]);
  return bits;
}

/* Warm: passes over the training players, each in the mirror first if it is to be. */
static void learner_warm(learner *l, int passes, int mirrored) {
  int p, i, m;
  for (p = 0; p < passes; p++)
    for (i = 0; i < player_count; i++)
      for (m = mirrored; m >= 0 && !players[i].scored; m--) {
        view_begin((view *)l->start);
        (void)play(l, l->start, m ? players[i].mirrored : players[i].tics, players[i].count);
      }
  view_begin((view *)l->start);
}

/* Every scored player in one pass, from what the learner starts with. */
static void learner_score(learner *l) {
  long n = 0;
  int i, k = 0, t;
  l->bits = 0;
  for (i = 0; i < player_count; i++) {
    double bits = 0;
    if (!players[i].scored) continue;
    memcpy(l->now, l->start, l->bytes);
    for (t = 0; t < players[i].count; t++) {
      const double b = l->tic(l->now, &players[i].tics[t]);
      l->line[n++] = (float)b;
      bits += b;
    }
    l->bits += bits;
    l->each[k++] = bits / players[i].count;
  }
  l->bits /= (double)n;
}

/* All recordings, each from nothing. */
static double learner_cold(const learner *l, const void *nothing) {
  double bits = 0, n = 0;
  int i;
  for (i = 0; i < player_count; i++) {
    memcpy(l->now, nothing, l->bytes);
    bits += play(l, l->now, players[i].tics, players[i].count);
    n += players[i].count;
  }
  return bits / n;
}

/* ---- baselines ---- */

/* Whole tics given the last `order`, as Witten and Bell mix orders. */
typedef struct counts {
  view seen;
  int32_t order, of0[SYMBOLS], of1[SYMBOLS][SYMBOLS], of2[SYMBOLS * SYMBOLS][SYMBOLS];
} counts;

static int symbol(const tic *t) {
  return ((t->kind[0] * 3 + t->kind[1]) * 5 + t->kind[2]) * 2 + t->kind[3];
}

static double counts_tic(void *state, const tic *t) {
  counts *c = (counts *)state;
  const int a = symbol(&c->seen.last), b = symbol(&c->seen.before), y = symbol(t);
  int32_t *list[3];
  double p = 1.0 / SYMBOLS;
  int i, k;
  list[0] = c->of0, list[1] = c->of1[a], list[2] = c->of2[a * SYMBOLS + b];
  for (k = 0; k <= c->order; k++) {
    double n = 0, kinds = 0;
    for (i = 0; i < SYMBOLS; i++) n += list[k][i], kinds += list[k][i] > 0;
    if (n > 0) p = (list[k][y] + kinds * p) / (n + kinds);
    list[k][y]++;
  }
  view_push(&c->seen, t);
  return -log2(p);
}

/* Softmax regression on the features, by AdaGrad. */
typedef struct regression {
  view seen;
  float rate, weight[FEATURES][ENTRIES], squares[FEATURES][ENTRIES];
} regression;

static double regression_tic(void *state, const tic *t) {
  regression *r = (regression *)state;
  float x[FEATURES], z[ENTRIES] = {0}, e[ENTRIES];
  double bits;
  int i, j;
  features(&r->seen, x);
  for (i = 0; i < FEATURES; i++)
    for (j = 0; j < ENTRIES && x[i] != 0; j++) z[j] += x[i] * r->weight[i][j];
  bits = probabilities(z, t, e);
  for (i = 0; i < GROUPS; i++) e[place_of[i] + t->kind[i]] -= 1;
  for (i = 0; i < FEATURES; i++)
    for (j = 0; j < ENTRIES && x[i] != 0; j++) {
      const float g = e[j] * x[i];
      r->squares[i][j] += g * g;
      r->weight[i][j] -= r->rate * g / (sqrtf(r->squares[i][j]) + 1e-6f);
    }
  view_push(&r->seen, t);
  return bits;
}

/* ---- the character ---------------------------------------------------------------------------
 * Shared by all characters: the models, what calls work in, and a memory whose state is that of
 * whoever has his turn. A character owns the block of a struct character, then the state of the
 * matrix memory, then the state of his text in the network. */

typedef struct shared {
  miras_model *trained, *model;          /* as it was trained; the same with a head that learns */
  miras_server *still, *learning;        /* what they work in */
  miras_memory *matrix, *cold[2];        /* beside the network; alone, from nothing */
  miras_memory *nothing;                 /* one of them */
  size_t matrix_bytes;                   /* of its state */
} shared;
static shared game;

enum { NETWORK = 1, HEAD = 2, MATRIX = 4 };   /* what a character consists of */

typedef struct character {
  view seen;
  int32_t parts, came[GROUPS], tics;     /* the last tic; how many there were */
  float x[FEATURES];                     /* what the guess was made from */
} character;

static unsigned char *matrix_of(character *c) { return (unsigned char *)(c + 1); }
static unsigned char *text_of(character *c) { return matrix_of(c) + game.matrix_bytes; }

static size_t character_bytes(void) {
  return sizeof(character) + game.matrix_bytes + miras_model_state_size(game.model);
}

/* Ask a memory, or with a value let it learn, on a state that lies elsewhere. */
static void ask(miras_memory *m, void *state, const float *key, const float *value,
                float *answer) {
  miras_memory_event e;
  size_t bytes;
  void *own = miras_memory_state(m, &bytes);
  memset(&e, 0, sizeof e);
  e.key = key, e.value = value, e.answer = answer;
  memcpy(own, state, bytes);
  if (miras_memory_learn(m, &e) != MIRAS_OK) die("a memory refuses a tic");
  if (value) memcpy(state, own, bytes);
}

/* z [ENTRIES] = logits of the next tic. What came of the last one, the head learns now. */
static void character_guess(character *c, float *z) {
  float beside[ENTRIES];
  int i;
  features(&c->seen, c->x);
  if (c->parts & NETWORK) {
    miras_sequence s;
    memset(&s, 0, sizeof s);
    s.state = text_of(c), s.vectors = c->x, s.count = s.logit_rows = 1;
    if ((c->parts & HEAD) && c->tics) s.classes = c->came;
    if (miras_server_feed(c->parts & HEAD ? game.learning : game.still, &s, 1, z) != MIRAS_OK)
      die("the network refuses a tic");
  }
  if (c->parts & MATRIX)
    ask(game.matrix, matrix_of(c), c->x, NULL, c->parts & NETWORK ? beside : z);
  if ((c->parts & NETWORK) && (c->parts & MATRIX))
    for (i = 0; i < ENTRIES; i++) z[i] = 0.5f * (z[i] + beside[i]);
}

/* Tell it what came. */
static void character_see(character *c, const tic *t) {
  float value[ENTRIES];
  int g;
  one_hots(t, value);
  if (c->parts & MATRIX) ask(game.matrix, matrix_of(c), c->x, value, NULL);
  for (g = 0; g < GROUPS; g++) c->came[g] = t->kind[g];
  c->tics++;
  view_push(&c->seen, t);
}

static double character_tic(void *state, const tic *t) {
  float z[ENTRIES], p[ENTRIES];
  character_guess((character *)state, z);
  character_see((character *)state, t);
  return probabilities(z, t, p);
}

/* From nothing: a memory alone, whose key is the last two tics and a 1. */
static double nothing_tic(void *state, const tic *t) {
  view *seen = (view *)state;
  float key[2 * ENTRIES + 1], value[ENTRIES], z[ENTRIES], p[ENTRIES];
  one_hots(&seen->last, key);
  one_hots(&seen->before, key + ENTRIES);
  key[2 * ENTRIES] = 1;
  one_hots(t, value);
  ask(game.nothing, seen + 1, key, value, z);
  view_push(seen, t);
  return probabilities(z, t, p);
}

/* ---- training -------------------------------------------------------------------------------- */

/* Features of the training players, in the mirror and not: [2][players], NULL for scored ones. */
static float *seen_by[2][MOST];

static void see_players(void) {
  view v;
  int m, i, t;
  for (m = 0; m < 2; m++)
    for (i = 0; i < player_count; i++) {
      const tic *tics = m ? players[i].mirrored : players[i].tics;
      if (players[i].scored) continue;
      seen_by[m][i] = (float *)room((size_t)players[i].count * FEATURES * sizeof(float));
      view_begin(&v);
      for (t = 0; t < players[i].count; t++) {
        features(&v, seen_by[m][i] + (size_t)t * FEATURES);
        view_push(&v, &tics[t]);
      }
    }
}

/* A window of a random player from a random tic on, half of them mirrored. */
static void draw_window(uint64_t *seed, long total, float *vectors, int32_t *classes) {
  long at = (long)(uniform(seed) * (double)total);
  const int m = uniform(seed) < 0.5;
  const tic *tics;
  int i, t, g;
  for (i = 0; players[i].scored || at >= players[i].count; i++)
    at -= players[i].scored ? 0 : players[i].count;
  if (at > players[i].count - WINDOW) at = players[i].count - WINDOW;
  tics = (m ? players[i].mirrored : players[i].tics) + at;
  memcpy(vectors, seen_by[m][i] + (size_t)at * FEATURES, WINDOW * FEATURES * sizeof(float));
  for (t = 0; t < WINDOW; t++)
    for (g = 0; g < GROUPS; g++) classes[t * GROUPS + g] = tics[t].kind[g];
}

static miras_model_desc network(int seed) {
  miras_model_desc d;
  miras_model_preset(&d, MIRAS_PRESET_GATED_DELTANET, 1);
  d.width = 32;
  d.heads = 2;
  d.dropout = 0.1f;
  d.seed = (uint64_t)seed;
  snprintf(d.inputs, sizeof d.inputs, "vector %d", FEATURES);
  snprintf(d.outputs, sizeof d.outputs, "category 3 3 5 2");
  return d;
}

static void train(int steps, int seed) {
  const miras_model_desc d = network(seed);
  miras_trainer_desc td = {BATCH, WINDOW, 0, 0, 0, NULL, NULL};
  miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
  miras_trainer *t;
  miras_batch x;
  float *vectors = (float *)room(BATCH * WINDOW * FEATURES * sizeof(float)), loss, mean = 0;
  int32_t *classes = (int32_t *)room(BATCH * WINDOW * GROUPS * sizeof(int32_t));
  uint64_t s = (uint64_t)seed * 77 + 5;
  const time_t begin = time(NULL);
  char why[256];
  long total = 0;
  int i, b;
  see_players();
  for (i = 0; i < player_count; i++) total += players[i].scored ? 0 : players[i].count;
  game.trained = miras_model_open(&d, NULL, why, sizeof why);
  if (!game.trained) die("the network: %s", why);
  t = miras_trainer_open(game.trained, &td, NULL, why, sizeof why);
  if (!t) die("the trainer: %s", why);
  memset(&x, 0, sizeof x);
  x.batch = BATCH, x.length = WINDOW, x.vectors = vectors, x.classes = classes;
  fprintf(stderr, "a network learns from them: %d steps; 3000 take half a minute\n", steps);
  for (i = 0; i < steps; i++) {
    const float rate = miras_schedule_cosine((uint64_t)i, (uint64_t)(steps + 19) / 20,
                                             (uint64_t)steps, 3e-3f, 0.05f);
    for (b = 0; b < BATCH; b++)
      draw_window(&s, total, vectors + b * WINDOW * FEATURES, classes + b * WINDOW * GROUPS);
    if (miras_trainer_loss(t, &x, 1, &loss) != MIRAS_OK ||
        miras_trainer_backward(t, NULL) != MIRAS_OK ||
        miras_trainer_step(t, &o, rate, NULL) != MIRAS_OK)
      die("training fails at step %d", i + 1);
    mean += (loss - mean) / (float)(i < 100 ? i + 1 : 100);
    if (steps < 10 || (i + 1) % (steps / 10) == 0)
      fprintf(stderr, "step %d of %d: %.3f bits a tic, %.0f s left\n", i + 1, steps,
              (double)mean / log(2), difftime(time(NULL), begin) / (i + 1) * (steps - i - 1));
  }
  miras_close(t);
  for (i = 0; i < player_count; i++) free(seen_by[0][i]), free(seen_by[1][i]);
  free(vectors);
  free(classes);
}

/* ---- set-up ---- */

/* The trained network once more, with a head that learns. */
static void open_network(int seed) {
  miras_model_desc d = network(seed);
  miras_server_desc sd = {1, 0, NULL, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                          MIRAS_PRODUCTS_FLOAT};
  const float *from;
  float *to;
  size_t n, m;
  char why[256];
  d.adapt.learning_rate = 1;
  d.adapt.vectors = 1;
  game.model = miras_model_open(&d, NULL, why, sizeof why);
  if (!game.model) die("the network: %s", why);
  from = miras_model_params(game.trained, &n);
  to = miras_model_params(game.model, &m);
  if (n != m) die("the network has another size with a head that learns");
  memcpy(to, from, n * sizeof *to);
  game.still = miras_server_open(game.trained, &sd, NULL, why, sizeof why);
  game.learning = miras_server_open(game.model, &sd, NULL, why, sizeof why);
  if (!game.still || !game.learning) die("a server: %s", why);
}

static void open_memories(void) {
  miras_memory_desc d;
  char why[256];
  int i;
  memset(&d, 0, sizeof d);                      /* a matrix, gradient descent, keys as they are */
  d.bias = MIRAS_BIAS_CROSS_ENTROPY;
  snprintf(d.groups, sizeof d.groups, "3,3,5,2");
  d.key_dim = FEATURES;
  d.value_dim = ENTRIES;
  d.learning_rate = 0.01f;
  game.matrix = miras_memory_open(&d, NULL, why, sizeof why);
  if (!game.matrix) die("the matrix memory: %s", why);
  (void)miras_memory_state(game.matrix, &game.matrix_bytes);

  for (i = 0; i < 2; i++) {
    miras_memory_preset(&d, i ? MIRAS_PRESET_EVENTS : MIRAS_PRESET_CATEGORIES);
    snprintf(d.groups, sizeof d.groups, "3,3,5,2");
    d.key_dim = 2 * ENTRIES + 1;
    d.value_dim = ENTRIES;
    game.cold[i] = miras_memory_open(&d, NULL, why, sizeof why);
    if (!game.cold[i]) die("the memory from nothing: %s", why);
  }
}

static learner character_make(const char *name, int parts) {
  learner l = learner_make(name, character_tic, 0, character_bytes());
  character *c = (character *)l.start;
  c->parts = parts;
  memcpy(matrix_of(c), miras_memory_state(game.matrix, NULL), game.matrix_bytes);
  return l;
}

enum {   /* the rows of the table */
  COUNTS = 0, REGRESSIONS = 6, STILL = 10, ADAPTS, BESIDE, CHARACTER, ROWS
};

static void open_learners(learner *row) {
  static const char *const count_names[6] = {
    "counts, order 0", "counts, order 1", "counts, order 2",
    "counts, order 0, mirrored", "counts, order 1, mirrored", "counts, order 2, mirrored"};
  static const char *const regression_names[4] = {
    "regression, rate .15", "regression, rate .3",
    "regression, rate .15, mirrored", "regression, rate .3, mirrored"};
  int i;
  for (i = 0; i < 6; i++) {
    row[COUNTS + i] = learner_make(count_names[i], counts_tic, 1, sizeof(counts));
    ((counts *)row[COUNTS + i].start)->order = i % 3;
    learner_warm(&row[COUNTS + i], 1, i / 3);
  }
  for (i = 0; i < 4; i++) {
    row[REGRESSIONS + i] = learner_make(regression_names[i], regression_tic, 1,
                                        sizeof(regression));
    ((regression *)row[REGRESSIONS + i].start)->rate = i % 2 ? 0.3f : 0.15f;
    learner_warm(&row[REGRESSIONS + i], 3, i / 2);
  }
  row[STILL] = character_make("network, frozen", NETWORK);
  row[ADAPTS] = character_make("network, head learns", NETWORK | HEAD);
  row[BESIDE] = character_make("matrix memory alone", MATRIX);
  learner_warm(&row[BESIDE], 2, 1);
  ((character *)row[BESIDE].start)->tics = 0;
  row[CHARACTER] = character_make("character: both", NETWORK | HEAD | MATRIX);
  memcpy(matrix_of((character *)row[CHARACTER].start),
         matrix_of((character *)row[BESIDE].start), game.matrix_bytes);
}

/* ---- tables ---- */

static double score_all(learner *row, double *us, long *allocated) {
  double best = HUGE_VAL, begin;
  const long before = allocations;
  int i, k;
  for (i = 0; i < ROWS; i++) {
    begin = seconds();
    learner_score(&row[i]);
    us[i] = (seconds() - begin) / (double)scored_tics() * 1e6;
    if (row[i].baseline && row[i].bits < best) best = row[i].bits;
  }
  *allocated = allocations - before;
  printf("Bits a tic, warm: trained on %d players, scored on %d others (%ld tics), one pass, each "
         "from the same start\n", player_count - scored_count, scored_count, scored_tics());
  printf("  %-32s %7s %8s   each player\n", "", "all", "us a tic");
  for (i = 0; i < ROWS; i++) {
    printf("  %-32s %7.4f %8.1f  ", row[i].name, row[i].bits, us[i]);
    for (k = 0; k < scored_count; k++) printf(" %.3f", row[i].each[k]);
    printf("\n");
  }
  printf("  allocations while scoring: %ld\n", *allocated);
  return best;
}

static double cold_all(learner *row) {
  double bits = 0;
  int i;
  printf("\nBits a tic, from nothing: all %d recordings, each by itself\n", player_count);
  for (i = 0; i < 3; i++) {
    counts *c = (counts *)room(sizeof *c);
    view_begin(&c->seen);
    c->order = i;
    printf("  %-32s %7.4f\n", row[COUNTS + i].name, learner_cold(&row[COUNTS + i], c));
    free(c);
  }
  for (i = 0; i < 2; i++) {
    regression *r = (regression *)room(sizeof *r);
    view_begin(&r->seen);
    r->rate = i ? 0.3f : 0.15f;
    printf("  %-32s %7.4f\n", row[REGRESSIONS + i].name,
           learner_cold(&row[REGRESSIONS + i], r));
    free(r);
  }
  for (i = 1; i >= 0; i--) {
    size_t bytes;
    void *state = miras_memory_state(game.nothing = game.cold[i], &bytes);
    learner memory = learner_make(i ? "memory, preset events" : "memory, preset categories",
                                  nothing_tic, 0, sizeof(view) + bytes);
    memcpy((view *)memory.start + 1, state, bytes);
    bits = learner_cold(&memory, memory.start);
    printf("  %-32s %7.4f  (%lu bytes)\n", memory.name, bits, (unsigned long)memory.bytes);
    learner_free(&memory);
  }
  return bits;
}

/* ---- what a game needs ---- */

static const recording *scored_player(int which) {   /* of the scored ones */
  int i;
  for (i = 0; i < player_count; i++)
    if (players[i].scored && which-- == 0) return &players[i];
  die("there is no such player");
  return NULL;
}

/* A character in a file: a word, its bytes, the block. For the machine and the program that wrote
 * it; the network is not in it. */
static void save_character(const char *path, const void *block, size_t bytes) {
  const uint64_t size = bytes;
  FILE *f = fopen(path, "wb");
  int bad;
  if (!f) die("%s cannot be written", path);
  bad = fwrite("npc 0001", 1, 8, f) != 8 || fwrite(&size, sizeof size, 1, f) != 1 ||
        fwrite(block, 1, bytes, f) != bytes;
  if (fclose(f) || bad) die("%s cannot be written: the disk may be full", path);
}

static void load_character(const char *path, void *block, size_t bytes) {
  FILE *f = fopen(path, "rb");
  char word[8];
  uint64_t size;
  if (!f) die("%s cannot be read", path);
  if (fread(word, 1, 8, f) != 8 || memcmp(word, "npc 0001", 8) ||
      fread(&size, sizeof size, 1, f) != 1 || size != bytes ||
      fread(block, 1, bytes, f) != bytes)
    die("%s is no character of this program", path);
  fclose(f);
}

/* Does a loaded character go on as the one that was saved? */
static int try_file(const learner *l, const char *path) {
  const recording *r = scored_player(0);
  const int half = r->count / 2, more = r->count - half < 500 ? r->count - half : 500;
  void *other = room(l->bytes);
  double a, b;
  int same;
  memcpy(l->now, l->start, l->bytes);
  (void)play(l, l->now, r->tics, half);
  save_character(path, l->now, l->bytes);
  load_character(path, other, l->bytes);
  a = play(l, l->now, r->tics + half, more);
  b = play(l, other, r->tics + half, more);
  same = !memcmp(&a, &b, sizeof a) && !memcmp(l->now, other, l->bytes);
  free(other);
  printf("  saved to %s and loaded: %s\n", path,
         same ? "goes on with the same bits" : "GOES ON DIFFERENTLY");
  return same;
}

/* As netcode does: a ring holds the states before the last tics. Every 25 tics go back to the
 * oldest, play tics that were a mistake, go back again, replay the right ones. */
static int try_rollback(const learner *l) {
  const recording *r = scored_player(0);
  const int count = r->count < 1500 ? r->count : 1500;
  unsigned char *ring = (unsigned char *)room(RING * l->bytes);
  void *after = room(l->bytes);
  float said[RING][ENTRIES], again[ENTRIES];
  int t, k, times = 0, same = 1, moved = 1;
  double copy = 0;
  memcpy(l->now, l->start, l->bytes);
  for (t = 0; t < count; t++) {
    memcpy(ring + (size_t)(t % RING) * l->bytes, l->now, l->bytes);
    character_guess((character *)l->now, said[t % RING]);
    character_see((character *)l->now, &r->tics[t]);
    if (t % 25 != 24) continue;
    times++;
    memcpy(after, l->now, l->bytes);
    memcpy(l->now, ring + (size_t)((t + 1) % RING) * l->bytes, l->bytes);
    for (k = 0; k < RING; k++) {
      tic wrong = r->tics[t - RING + 1 + k];
      wrong.kind[3] ^= 1;
      (void)character_tic(l->now, &wrong);
    }
    moved &= memcmp(l->now, after, l->bytes) != 0;
    copy -= seconds();
    for (k = 0; k < 100; k++)
      memcpy(l->now, ring + (size_t)((t + 1) % RING) * l->bytes, l->bytes);
    copy += seconds();
    for (k = t - RING + 1; k <= t; k++) {
      character_guess((character *)l->now, again);
      character_see((character *)l->now, &r->tics[k]);
      same &= !memcmp(again, said[k % RING], sizeof again);
    }
    same &= !memcmp(l->now, after, l->bytes);
  }
  printf("  rolled back %d times by %d tics (%.1f us each for the copy), replayed: %s\n", times,
         RING, copy / (times * 100) * 1e6,
         same && moved ? "the same bits" : same ? "NOTHING WAS CHANGED BETWEEN" : "OTHER BITS");
  free(ring);
  free(after);
  return same && moved;
}

/* One player after the other, and nobody tells the character. Into line its bits; sums of the tics
 * after a change: as it is, with its memory reset, and of the network frozen. */
static void try_change(const learner *row, float *line, double *kept, double *reset) {
  const learner *l = &row[CHARACTER];
  double none = 0;
  long n = 0, looked = 0;
  int k, t;
  *kept = *reset = 0;
  memcpy(l->now, l->start, l->bytes);
  printf("\nBits a tic in the %d tics after another player takes over\n"
         "  %-10s %12s %12s %12s\n", AFTER, "", "memory kept", "memory reset", "frozen");
  for (k = 0; k < scored_count; k++) {
    const recording *r = scored_player(k);
    const int most = r->count < AFTER ? r->count : AFTER;
    double a = 0, b = 0, c = 0;
    for (t = 0; t < r->count; t++, n++) {
      line[n] = (float)character_tic(l->now, &r->tics[t]);
      if (t < most) a += line[n], b += l->line[n], c += row[STILL].line[n];
    }
    if (!k) continue;
    printf("  to player %d %10.4f %12.4f %12.4f\n", k + 1, a / most, b / most, c / most);
    *kept += a, *reset += b, none += c, looked += most;
  }
  if (looked) *kept /= (double)looked, *reset /= (double)looked, none /= (double)looked;
  printf("  %-11s %10.4f %12.4f %12.4f\n", "mean", *kept, *reset, none);
}

/* ---- npc.svg --------------------------------------------------------------------------------- */

enum { LINES = 5, BINS = 240, COARSE = 60 };
typedef struct chart {
  FILE *f;
  const float *line[LINES];
  const char *name[LINES];
  long tics;
  int pieces;                      /* of time: COARSE or BINS */
  double low, high, top, bottom;   /* of the panel that is drawn */
} chart;
static const double left = 74, right = 596;

static double chart_x(const chart *c, double tics) {
  return left + (right - left) * tics / (double)c->tics;
}

static double chart_y(const chart *c, double y) {
  return c->bottom - (c->bottom - c->top) * (y - c->low) / (c->high - c->low);
}

/* A round distance between about `count` marks. */
static double tick(double span, int count) {
  const double raw = span / count, unit = pow(10, floor(log10(raw))), x = raw / unit;
  return unit * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
}

/* The grid of a panel, minutes below it, and where players change. */
static void chart_frame(chart *c, const char *title, int lowest) {
  const double step = tick(c->high - c->low, 5), across = tick((double)c->tics / 2100, 10);
  double t;
  long n = 0;
  int k;
  c->low = floor(c->low / step) * step, c->high = ceil(c->high / step) * step;
  fprintf(c->f, "<text x=\"%g\" y=\"%g\" class=\"strong\">%s</text>\n", left, c->top - 12, title);
  for (t = c->low; t < c->high + step / 2; t += step)
    fprintf(c->f, "<path class=\"grid\" d=\"M%g %.1fH%g\"/>"
            "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%.*f</text>\n", left, chart_y(c, t),
            right, left - 10, chart_y(c, t) + 4.5, step < 0.95 ? 1 : 0,
            fabs(t) < step / 2 ? 0 : t);
  for (t = 0; t * 2100 <= (double)c->tics; t += across)
    fprintf(c->f, "<path class=\"axis\" d=\"M%.1f %gv6\"/>"
            "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n", chart_x(c, t * 2100),
            c->bottom, chart_x(c, t * 2100), c->bottom + 22, t);
  for (k = 0; k < scored_count; k++) {
    const double x = chart_x(c, (double)n);
    if (k) fprintf(c->f, "<path class=\"change\" d=\"M%.1f %gV%g\"/>", x, c->top, c->bottom);
    fprintf(c->f, "<text x=\"%.1f\" y=\"%g\">player %d</text>\n", x + 6,
            lowest ? c->bottom - 8 : c->top + 14, k + 1);
    n += scored_player(k)->count;
  }
  fprintf(c->f, "<path class=\"axis\" d=\"M%g %gV%gH%g\"/>\n", left, c->top, c->bottom, right);
  if (lowest)
    fprintf(c->f, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">minutes of play, one recording "
            "after the other</text>\n", (left + right) / 2, c->bottom + 46);
}

/* y [LINES][BINS + 1]: bits a tic of each piece of time, or bits saved so far beside line 0. */
static void chart_values(const chart *c, int saved, double y[LINES][BINS + 1]) {
  int k, b;
  long t;
  for (k = 0; k < LINES; k++) {
    double sum = 0;
    for (b = 0; b <= c->pieces; b++) {
      const long from = b ? c->tics * (b - 1) / c->pieces : 0, to = c->tics * b / c->pieces;
      double piece = 0;
      for (t = from; t < to; t++)
        piece += saved ? (double)c->line[0][t] - c->line[k][t] : c->line[k][t];
      sum += piece;
      y[k][b] = saved ? sum / 1000 : to > from ? piece / (double)(to - from) : 0;
    }
    if (!saved) y[k][0] = y[k][1];
  }
}

/* Names at the ends of the lines, the highest first, so that none lies on another. */
static void chart_names(const chart *c, double y[LINES][BINS + 1]) {
  double above = c->top;
  int done[LINES] = {0}, n, k;
  for (n = 0; n < LINES; n++) {
    int next = -1;
    double at;
    for (k = 0; k < LINES; k++)
      if (!done[k] && (next < 0 || y[k][c->pieces] > y[next][c->pieces])) next = k;
    done[next] = 1;
    at = fmin(fmax(chart_y(c, y[next][c->pieces]), above), c->bottom - 18 * (LINES - 1 - n));
    above = at + 18;
    fprintf(c->f, "<text class=\"n%d\" x=\"%g\" y=\"%.1f\">%s</text>\n", next, right + 8, at + 4.5,
            c->name[next]);
  }
}

static void chart_lines(chart *c, int saved, const char *title) {
  static double y[LINES][BINS + 1];
  int k, b;
  chart_values(c, saved, y);
  c->low = c->high = y[0][0];
  for (k = 0; k < LINES; k++)
    for (b = 0; b <= c->pieces; b++) {
      if (y[k][b] < c->low) c->low = y[k][b];
      if (y[k][b] > c->high) c->high = y[k][b];
    }
  if (!saved) c->low = 0;
  if (!(c->high > c->low)) c->high = c->low + 1;
  chart_frame(c, title, saved);
  for (k = 0; k < LINES; k++) {
    if (!saved && k == LINES - 1) continue;          /* hardly to be told from the one before */
    fprintf(c->f, "<path class=\"line l%d\" d=\"", k);
    for (b = 0; b <= c->pieces; b++)
      fprintf(c->f, "%c%.1f %.1f", b ? 'L' : 'M', chart_x(c, (double)c->tics * b / c->pieces),
              chart_y(c, y[k][b]));
    fprintf(c->f, "\"/>\n");
  }
  if (saved) chart_names(c, y);
}


/* The row from..to-1 with the fewest bits. */
static int best_row(const learner *row, int from, int to) {
  int best = from;
  for (; from < to; from++)
    if (row[from].bits < row[best].bits) best = from;
  return best;
}

static void write_svg(const char *path, const char *source, const learner *row,
                      const float *kept) {
  char title[256];
  chart c;
  c.f = fopen(path, "w");
  if (!c.f) die("%s cannot be written", path);
  c.line[0] = row[best_row(row, COUNTS, REGRESSIONS)].line, c.name[0] = "counting whole tics";
  c.line[1] = row[best_row(row, REGRESSIONS, STILL)].line, c.name[1] = "softmax regression";
  c.line[2] = row[STILL].line, c.name[2] = "network, frozen";
  c.line[3] = row[CHARACTER].line, c.name[3] = "character, reset for each player";
  c.line[4] = kept, c.name[4] = "character that nobody tells";
  c.tics = scored_tics();
  fprintf(c.f,
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 820 700\" width=\"820\" "
    "height=\"700\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n<style>\n"
    "text { fill: #475569 } .strong { fill: #0f172a; font-weight: bold } .back { fill: #ffffff }\n"
    ".grid { stroke: #e2e8f0 } .axis { stroke: #94a3b8; fill: none }\n"
    ".change { stroke: #64748b; stroke-dasharray: 5 4 }\n"
    ".line { fill: none; stroke-width: 2; stroke-linejoin: round }\n"
    ".l0 { stroke: #94a3b8 } .l1 { stroke: #ea580c } .l2 { stroke: #059669 }\n"
    ".l3 { stroke: #2563eb; stroke-width: 2.5 } .l4 { stroke: #9333ea; stroke-dasharray: 6 3 }\n"
    ".n1 { fill: #c2410c } .n2 { fill: #047857 } .n3 { fill: #2563eb } .n4 { fill: #9333ea }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "text { fill: #cbd5e1 } .strong { fill: #f8fafc } .back { fill: #0f172a }\n"
    ".grid { stroke: #1e293b } .change { stroke: #94a3b8 }\n"
    ".l1 { stroke: #fb923c } .l2 { stroke: #34d399 } .l3 { stroke: #60a5fa } "
    ".l4 { stroke: #c084fc }\n.n1 { fill: #fb923c } .n2 { fill: #34d399 } "
    ".n3 { fill: #60a5fa } .n4 { fill: #c084fc } }\n</style>\n"
    "<rect class=\"back\" width=\"820\" height=\"700\"/>\n"
    "<text class=\"strong\" x=\"%g\" y=\"32\" font-size=\"17\">A character guesses what its player "
    "does next: bits a tic, fewer are better</text>\n", left);
  c.top = 82, c.bottom = 312, c.pieces = COARSE;
  snprintf(title, sizeof title, "bits a tic, means of %.0f seconds: %s",
           (double)c.tics / COARSE / 35, source);
  chart_lines(&c, 0, title);
  c.top = 402, c.bottom = 632, c.pieces = BINS;
  chart_lines(&c, 1, "thousands of bits saved so far, beside counting");
  fprintf(c.f, "</svg>\n");
  if (ferror(c.f) | fclose(c.f)) die("%s cannot be written: the disk may be full", path);
}

/* ---- praise and blame ------------------------------------------------------------------------
 * A companion chooses one of ACTS stances, every BEAT tics, while a player plays. The player wishes
 * for one of them, and says whether he got it, 1 or -1: at once, or up to LATE beats later, when
 * others have been chosen. Of some players the wish follows from the last tic, by a table of six
 * cells, of others from how they have been playing for some 20 tics: the largest of four random
 * sums of these shares. The first is what a table can learn, the second what a matrix can.
 *
 * Rates, persistence and how often anything is tried were chosen on the training players with other
 * owners (--synthetic); those printed are of the scored ones. */

enum { ACTS = 4, BEAT = 3, LATE = 3, OWNERS = 12, MOODS = 4 };
enum { CHANCE, BANDIT, TABLE, TRACED, LINEAR, DRAWN, FORESEEN, COMPANIONS };

static const struct { const char *name; float persist, rate; } manner[COMPANIONS] = {
  {"chance", 0, 0}, {"bandit", 0, 0.1f}, {"bandit for each last tic", 0, 0.1f},
  {"the same, with traces", 0.5f, 0.1f}, {"linear bandit", 0, 0.1f},
  {"memory of what was praised", 0.5f, 0.5f},
  {"memory of what to expect", 0.5f, 0.1f}};

static float usual[2][FEATURES];         /* mean and deviation of features, of training players */

static void find_usual(void) {
  static double sum[2][FEATURES];
  float x[FEATURES];
  double n = 0;
  view v;
  int i, j, t;
  for (i = 0; i < player_count; i++) {
    view_begin(&v);
    for (t = 0; t < players[i].count && !players[i].scored; t++, n++) {
      view_push(&v, &players[i].tics[t]);
      features(&v, x);
      for (j = 0; j < FEATURES; j++) {
        sum[0][j] += (double)x[j];
        sum[1][j] += (double)x[j] * (double)x[j];
      }
    }
  }
  for (j = 0; j < FEATURES; j++) {
    const double mean = j == FEATURES - 1 ? 0 : sum[0][j] / n;
    usual[0][j] = (float)mean;
    usual[1][j] = (float)sqrt(fmax(sum[1][j] / n - mean * mean, 0)) + 0.02f;
  }
}

/* What the memory sees: features beside their usual values, at most 4 deviations off. */
static void unusual(const view *v, float *x) {
  int j;
  features(v, x);
  for (j = 0; j < FEATURES; j++)
    x[j] = fmaxf(-4, fminf(4, (x[j] - usual[0][j]) / usual[1][j]));
}

typedef struct owner {
  int style, late, habit[6];
  float taste[ACTS][ENTRIES];
} owner;

static owner owner_make(int mood, uint64_t seed) {
  owner o;
  int i, j, k;
  memset(&o, 0, sizeof o);
  o.style = mood / 2, o.late = mood % 2;
  for (i = 0; i < 30; i++) (void)uniform(&seed);
  for (i = 0; i < 6; i++) o.habit[i] = (int)(ACTS * uniform(&seed));
  for (i = 0; i < ACTS; i++)
    for (j = 0; j < ENTRIES; j++)
      for (k = 0; k < 12; k++) o.taste[i][j] += (float)uniform(&seed) - 0.5f;
  return o;
}

static int wish_of(const owner *o, const view *v) {
  float most = 0;
  int best = 0, i, j;
  if (!o->style) return o->habit[v->last.kind[0] * 2 + v->last.kind[3]];
  for (i = 0; i < ACTS; i++) {
    float sum = 0;
    for (j = 0; j < ENTRIES; j++)
      sum += o->taste[i][j] * (v->often[1][j] - usual[0][3 * ENTRIES + j]) /
             usual[1][3 * ENTRIES + j];
    if (!i || sum > most) most = sum, best = i;
  }
  return best;
}

typedef struct companion {
  int kind;
  float persist, rate, mean, expects;    /* mean: of rewards; expects: of what it does */
  float value[SYMBOLS][ACTS], trace[SYMBOLS][ACTS];   /* a table or a line, and traces */
  miras_memory *memory;
  float *done;                           /* the memory's trace */
  size_t floats;
} companion;

/* The best act, and one time in a hundred any. */
static int best_act(const float *value, double u) {
  int act = 0, i;
  for (i = 1; i < ACTS; i++)
    if (value[i] > value[act]) act = i;
  return u < 0.01 ? (int)(ACTS * 100 * u) : act;
}

static void teach(companion *c, const float *key, const float *value, float reward) {
  if (miras_memory_reward(c->memory, c->done, c->persist, key, value, reward) != MIRAS_OK)
    die("a memory takes no reward");
}

/* DRAWN: by the probabilities that the memory says, whose trace is that of their logarithm.
 * FORESEEN: by the rewards that it expects of acts; its trace is that of keys and acts. */
static int memory_acts(companion *c, const view *v, double u) {
  float x[FEATURES], z[ACTS], value[ACTS] = {0};
  double sum;
  int act = 0;
  unusual(v, x);
  miras_memory_read(c->memory, x, z);
  if (c->kind == FORESEEN) {
    act = best_act(z, u);
  } else {
    miras_memory_probabilities(c->memory, z, z);
    for (sum = (double)z[0]; act < ACTS - 1 && sum < u; sum += (double)z[++act]) {}
  }
  c->expects = z[act];
  value[act] = 1;
  teach(c, x, value, 0);
  return act;
}

/* The bandit that sees what the memory does: of its table the first rows are weights, and of its
 * traces what it saw, in the column of what it did. */
static int linear_acts(companion *c, const view *v, double u) {
  float x[FEATURES], z[ACTS] = {0}, length = 0;
  int act, i, k;
  unusual(v, x);
  for (i = 0; i < FEATURES; i++) length += x[i] * x[i];
  for (i = 0; i < FEATURES; i++) x[i] /= sqrtf(length);
  for (i = 0; i < FEATURES; i++)
    for (k = 0; k < ACTS; k++) z[k] += x[i] * c->value[i][k];
  act = best_act(z, u);
  c->expects = z[act];
  memset(c->trace, 0, sizeof c->trace);
  for (i = 0; i < FEATURES; i++) c->trace[i][act] = x[i];
  return act;
}

static int companion_acts(companion *c, const view *v, double u) {
  const int cell = c->kind == BANDIT ? 0 : symbol(&v->last);
  int act, i, k;
  if (c->kind == CHANCE) return (int)(ACTS * u);
  if (c->kind == LINEAR) return linear_acts(c, v, u);
  if (c->kind >= DRAWN) return memory_acts(c, v, u);
  act = best_act(c->value[cell], u);
  for (i = 0; i < SYMBOLS; i++)
    for (k = 0; k < ACTS; k++) c->trace[i][k] *= c->persist;
  c->trace[cell][act] = 1;
  return act;
}

/* A sum of so many rewards has come. */
static void companion_hears(companion *c, float reward, int rewards) {
  const float n = (float)rewards;
  int i, k;
  if (c->kind == DRAWN) teach(c, NULL, NULL, reward - n * c->mean);
  if (c->kind == FORESEEN) teach(c, NULL, NULL, reward - n * c->expects);
  c->mean += 0.02f * (reward - n * c->mean);
  for (i = 0; i < SYMBOLS && c->kind < DRAWN; i++)
    for (k = 0; k < ACTS; k++)
      c->value[i][k] += c->rate * c->trace[i][k] *
                        (reward - n * (c->kind == LINEAR ? c->expects : c->value[i][k]));
}

static void companion_open(companion *c, int kind) {
  miras_memory_desc d;
  char why[256] = "";
  memset(c, 0, sizeof *c);
  c->kind = kind, c->persist = manner[kind].persist, c->rate = manner[kind].rate;
  if (kind < DRAWN) return;
  miras_memory_preset(&d, MIRAS_PRESET_DELTANET_MEMORY);
  d.bias = kind == DRAWN ? MIRAS_BIAS_CROSS_ENTROPY : MIRAS_BIAS_DOT;
  d.step_bound = MIRAS_STEP_BOUND_AUTO;
  d.key_dim = FEATURES, d.value_dim = ACTS, d.learning_rate = c->rate;
  c->memory = miras_memory_open(&d, NULL, why, sizeof why);
  if (!c->memory || !(c->floats = miras_memory_trace_size(c->memory, why, sizeof why)))
    die("%s", why);
  c->done = (float *)room(c->floats * sizeof(float));
}

/* The share of wishes that are met while the scored players play, from nothing. */
static double companion_lives(companion *c, const owner *o, uint64_t seed) {
  float due[LATE + 1] = {0};
  int heard[LATE + 1] = {0}, beat = 0, met = 0, i, t;
  view v;
  memset(c->value, 0, sizeof c->value);
  memset(c->trace, 0, sizeof c->trace);
  c->mean = c->expects = 0;
  if (c->memory) {
    miras_memory_reset(c->memory);
    memset(c->done, 0, c->floats * sizeof(float));
  }
  for (i = 0; i < scored_count; i++) {
    view_begin(&v);
    for (t = 0; t < scored_player(i)->count; t++) {
      int act, now, at;
      view_push(&v, &scored_player(i)->tics[t]);
      if (t % BEAT) continue;
      act = companion_acts(c, &v, uniform(&seed));
      now = beat % (LATE + 1);
      at = (beat + (o->late ? (int)((LATE + 1) * uniform(&seed)) : 0)) % (LATE + 1);
      due[at] += act == wish_of(o, &v) ? 1 : -1, heard[at]++;
      met += act == wish_of(o, &v);
      if (heard[now]) companion_hears(c, due[now], heard[now]);
      due[now] = 0, heard[now] = 0, beat++;
    }
  }
  return 100.0 * met / beat;
}

static int praise(const char *source, int seed) {
  static companion c;
  static double met[COMPANIONS][MOODS], each[COMPANIONS][MOODS][OWNERS];
  static const char *const when[MOODS] = {"habit_now", "habit_late", "style_now", "style_late"};
  int kind, mood, i, k, wins[MOODS] = {0};
  find_usual();
  printf("%s\n\nOf a hundred wishes so many are met, %d owners each\n  %-28s%10s%11s%11s%11s\n",
         source, OWNERS, "", "habits", "said late", "style", "said late");
  for (kind = 0; kind < COMPANIONS; kind++) {
    companion_open(&c, kind);
    printf("  %-26s", manner[kind].name);
    for (mood = 0; mood < MOODS; mood++) {
      for (i = 0; i < OWNERS; i++) {
        const owner o = owner_make(mood, (uint64_t)seed * 1000 + (uint64_t)i);
        each[kind][mood][i] = companion_lives(&c, &o, (uint64_t)(seed * 100 + i));
        met[kind][mood] += each[kind][mood][i] / OWNERS;
      }
      printf("%11.2f", met[kind][mood]);
    }
    printf("\n");
    miras_close(c.memory);
    free(c.done);
  }
  for (mood = 0; mood < MOODS; mood++)
    for (i = 0; i < OWNERS; i++) {
      double best = 0;
      for (k = 0; k < DRAWN; k++) best = fmax(best, each[k][mood][i]);
      wins[mood] += each[FORESEEN][mood][i] > best;
    }
  printf("  The last is ahead of all bandits with %d, %d, %d and %d of %d owners. A trace is for\n"
         "  what is said late; at once a table is the right thing for wishes that follow from the\n"
         "  last tic, and a line for others.\n\nresult",
         wins[0], wins[1], wins[2], wins[3], OWNERS);
  for (mood = 0; mood < MOODS; mood++)
    printf(" %s=%.2f/%.2f/%.2f/%.2f", when[mood], fmax(met[TABLE][mood], met[TRACED][mood]),
           met[LINEAR][mood], met[DRAWN][mood], met[FORESEEN][mood]);
  printf(" seed=%d\n", seed);
  return 0;
}

/* ---- the program ---- */

typedef struct options {
  int seed, steps, synthetic, praise, files;
  char **file;
} options;

static int number(const char *option, const char *text, int least) {
  char *end;
  const long n = text ? strtol(text, &end, 10) : 0;
  if (!text || end == text || *end || n < least || n > 1000000)
    die("%s needs a whole number from %d to 1000000", option, least);
  return (int)n;
}

static options read_options(int argc, char **argv) {
  static const char usage[] =
    "npc [--praise] [--seed N] [--steps N] [--synthetic] [FOLDER | WAD WAD...]";
  options o = {1, 3000, 0, 0, 0, NULL};
  int i;
  for (i = 1; i < argc && argv[i][0] == '-'; i++) {
    if (!strcmp(argv[i], "--seed")) o.seed = number("--seed", argv[i + 1], 0), i++;
    else if (!strcmp(argv[i], "--steps")) o.steps = number("--steps", argv[i + 1], 1), i++;
    else if (!strcmp(argv[i], "--synthetic")) o.synthetic = 1;
    else if (!strcmp(argv[i], "--praise")) o.praise = 1;
    else if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      puts(usage);
      exit(0);
    } else die("no option %s: %s", argv[i], usage);
  }
  o.files = argc - i, o.file = argv + i;
  return o;
}

static const char *find_players(const options *o) {
  const char *from = "recordings of people";
  int i;
  if (o->files == 1 && !o->synthetic) {
    if (!read_folder(o->file[0])) die("%s holds no freedm.wad", o->file[0]);
  } else if (o->files && !o->synthetic) {
    for (i = 0; i < o->files; i++)
      if (!read_wad(o->file[i], i + 1 == o->files)) die("%s cannot be read", o->file[i]);
  } else if (o->synthetic || !read_folder("/usr/share/games/doom")) {
    from = "invented players, no people";
    invent_players();
  }
  if (!scored_count || scored_count == player_count)
    die("there must be demos to train on and demos to score");
  mirror_players();
  return from;
}

/* Prints what characters take; returns what they share. */
static size_t report_bytes(void) {
  miras_server_desc sd = {1, 0, NULL, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                          MIRAS_PRODUCTS_FLOAT};
  const size_t memory = miras_memory_size(miras_memory_desc_of(game.matrix), NULL, 0);
  const size_t server = miras_server_size(game.model, &sd, NULL, 0);
  size_t weights;
  (void)miras_model_params(game.model, &weights);
  printf("  a character owns %lu bytes: %lu of features, %lu of the matrix, %lu of the network's "
         "text with its head\n", (unsigned long)character_bytes(),
         (unsigned long)sizeof(character), (unsigned long)game.matrix_bytes,
         (unsigned long)miras_model_state_size(game.model));
  printf("  all characters share %lu bytes of weights, a server of %lu and a memory of %lu\n",
         (unsigned long)(weights * sizeof(float)), (unsigned long)server,
         (unsigned long)memory);
  return weights * sizeof(float) + server + memory;
}

int main(int argc, char **argv) {
  const options o = read_options(argc, argv);
  static learner row[ROWS];
  double us[ROWS], best, cold, kept, reset, begin = seconds(), trained;
  long allocated;
  int i, file, rollback;
  const char *source;
  float *line;
  size_t shared_bytes;
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);   /* into a pipe, too, line by line */
  source = find_players(&o);
  if (o.praise) return praise(source, o.seed);
  printf("%s\n", source);
  train(o.steps, o.seed);
  trained = seconds() - begin;
  printf("trained for %.0f s\n\n", trained);
  fprintf(stderr, "the others learn from the same tics, then all are scored: some seconds\n");
  open_network(o.seed);
  open_memories();
  open_learners(row);
  line = (float *)room((size_t)scored_tics() * sizeof(float));
  best = score_all(row, us, &allocated);
  cold = cold_all(row);
  try_change(row, line, &kept, &reset);
  printf("\nWhat a game needs\n");
  file = try_file(&row[CHARACTER], "npc.character");
  rollback = try_rollback(&row[CHARACTER]);
  shared_bytes = report_bytes();
  write_svg("npc.svg", source, row, line);
  printf("  wrote npc.svg\n\n");
  printf("result warm=%.4f cold=%.4f best_baseline_warm=%.4f counts_warm=%.4f frozen=%.4f "
         "us_per_tic=%.1f bytes_per_character=%lu bytes_shared=%lu after_change_kept=%.4f "
         "after_change_reset=%.4f rollback=%s file=%s allocations=%ld train_s=%.0f seed=%d "
         "steps=%d\n", row[CHARACTER].bits, cold, best,
         row[best_row(row, COUNTS, REGRESSIONS)].bits, row[STILL].bits, us[CHARACTER],
         (unsigned long)character_bytes(), (unsigned long)shared_bytes, kept, reset,
         rollback ? "same" : "different", file ? "same" : "different", allocated,
         trained, o.seed, o.steps);
  for (i = 0; i < ROWS; i++) learner_free(&row[i]);
  for (i = 0; i < player_count; i++) free(players[i].tics), free(players[i].mirrored);
  free(line);
  miras_close(game.still), miras_close(game.learning);
  miras_close(game.model), miras_close(game.trained);
  miras_close(game.matrix);
  miras_close(game.cold[0]), miras_close(game.cold[1]);
  return rollback && file && !allocated ? 0 : 1;
}
