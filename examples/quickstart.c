/* quickstart.c: one memory, from its first write to its file.
 *
 *     cc -O2 examples/quickstart.c -o quickstart -lm && ./quickstart
 *
 * A memory learns the colours of eight words, one write at a time, and gets surprised less and
 * less. Then a broken sensor writes nonsense once: a memory with the Huber bias (Yaad) shrugs, the
 * same memory with plain squares does not. A snapshot undoes even that, and a file keeps it all. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"

enum { KEY = 16, COLOURS = 8, ROUNDS = 60 };

static const struct colour { const char *word; float rgb[3]; } colours[COLOURS] = {
  {"coral", {1.00f, 0.50f, 0.31f}}, {"gold", {1.00f, 0.84f, 0.00f}},
  {"olive", {0.50f, 0.50f, 0.00f}}, {"teal", {0.00f, 0.50f, 0.50f}},
  {"navy", {0.00f, 0.00f, 0.50f}},  {"plum", {0.87f, 0.63f, 0.87f}},
  {"pink", {1.00f, 0.75f, 0.80f}},  {"snow", {1.00f, 0.98f, 0.98f}}};

/* A direction for a word: any fixed vector of length 1 will do, here one made of its letters. */
static void key_of(const char *word, float key[KEY]) {
  uint32_t x = 2166136261u;
  float length = 0;
  int i;
  for (; *word; word++) x = (x ^ (unsigned char)*word) * 16777619u;
  for (i = 0; i < KEY; i++) {
    x = x * 1664525u + 1013904223u;
    key[i] = (float)(x >> 8) / 8388608 - 1;
    length += key[i] * key[i];
  }
  for (i = 0; i < KEY; i++) key[i] /= sqrtf(length);
}

/* Write every colour once; the mean surprise. */
static float learn(miras_memory *m) {
  float key[KEY], surprise, sum = 0;
  int i;
  for (i = 0; i < COLOURS; i++) {
    key_of(colours[i].word, key);
    miras_memory_write(m, key, colours[i].rgb, &surprise);
    sum += surprise;
  }
  return sum / COLOURS;
}

/* 0..1 as one of the usual 256 levels, for printing. */
static int level(float x) { return (int)floorf(255 * x + 0.5f); }

/* Mean distance between what is recalled and what is true, of 255 levels. */
static float error_of(miras_memory *m) {
  float key[KEY], out[3], sum = 0;
  int i, j;
  for (i = 0; i < COLOURS; i++) {
    key_of(colours[i].word, key);
    miras_memory_read(m, key, out);
    for (j = 0; j < 3; j++) sum += fabsf(out[j] - colours[i].rgb[j]);
  }
  return 255 * sum / (3 * COLOURS);
}

int main(void) {
  static unsigned char yaad_bytes[1 << 18], plain_bytes[1 << 18], snapshot[1 << 18];
  static const float nonsense[3] = {10, -8, 9}; /* where 0..1 is meant */
  const char *file = "colours.memory";
  float key[KEY], out[3], before[2], after[2], undone, restored;
  miras_memory *yaad, *plain, *copy;
  miras_memory_desc d;
  char why[256];
  size_t state_bytes;
  void *state;
  int i;

  /* A row of the table, and sizes. The memory lives in bytes of ours; nothing is allocated. */
  miras_memory_preset(&d, MIRAS_PRESET_YAAD);
  d.key_dim = KEY;
  d.value_dim = 3;
  d.threshold = 0.5f; /* a residual longer than this counts as an outlier */
  yaad = miras_memory_init(yaad_bytes, sizeof yaad_bytes, &d, why, sizeof why);
  if (!yaad) return puts(why), 1;

  /* The same with another attentional bias: squares instead of Huber. */
  d.bias = MIRAS_BIAS_L2;
  d.threshold = 0;
  plain = miras_memory_init(plain_bytes, sizeof plain_bytes, &d, why, sizeof why);
  if (!plain) return puts(why), 1;

  printf("A memory in %lu bytes learns %d colours, one write at a time.\n\n",
         (unsigned long)miras_memory_size(&d, NULL, 0), COLOURS);
  printf("  round   surprise of a write\n");
  for (i = 1; i <= ROUNDS; i++) {
    float surprise = learn(yaad);
    learn(plain);
    if ((i & (i - 1)) == 0 || i == ROUNDS)
      printf("  %5d   %.4f %.*s\n", i, (double)surprise, (int)(40 * surprise + 0.5f),
             "########################################");
  }

  printf("\n  word    true rgb       recalled\n");
  for (i = 0; i < COLOURS; i++) {
    const float *t = colours[i].rgb;
    key_of(colours[i].word, key);
    miras_memory_read(yaad, key, out);
    printf("  %-6s %4d%4d%4d   %4d%4d%4d\n", colours[i].word, level(t[0]), level(t[1]), level(t[2]),
           level(out[0]), level(out[1]), level(out[2]));
  }

  /* A snapshot is a copy of the state; then one wild write. */
  state = miras_memory_state(yaad, &state_bytes);
  memcpy(snapshot, state, state_bytes);
  before[0] = error_of(yaad);
  before[1] = error_of(plain);
  key_of("teal", key);
  miras_memory_write(yaad, key, nonsense, NULL);
  miras_memory_write(plain, key, nonsense, NULL);
  after[0] = error_of(yaad);
  after[1] = error_of(plain);

  /* Rollback, then a file, read into a memory that knows nothing. */
  memcpy(state, snapshot, state_bytes);
  undone = error_of(yaad);
  if (miras_save(yaad, file) != MIRAS_OK) return puts("cannot write colours.memory"), 1;
  copy = miras_memory_open_file(file, NULL, NULL, NULL, why, sizeof why);
  if (!copy) return puts(why), 1;
  restored = error_of(copy);
  miras_close(copy);
  remove(file);

  printf("\nA broken sensor reports, once, that teal is %d %d %d.\n\n", level(nonsense[0]),
         level(nonsense[1]), level(nonsense[2]));
  printf("  mean error, of 255 levels       Yaad   plain squares\n");
  printf("  before                       %7.1f   %13.1f\n", (double)before[0], (double)before[1]);
  printf("  after that one write         %7.1f   %13.1f\n", (double)after[0], (double)after[1]);
  printf("  Yaad rolled back             %7.1f\n", (double)undone);
  printf("  saved, and loaded elsewhere  %7.1f\n", (double)restored);
  return 0;
}
