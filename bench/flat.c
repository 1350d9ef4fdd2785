/* flat.c: what a token costs at position 1, 1000 and 1,000,000 of a text, in instructions.
 *
 *   cc -O2 bench/flat.c -o flat -lm
 *   ./flat write states                    feeds the texts, and keeps their states in a file
 *   valgrind --tool=callgrind --instr-atstart=no ./flat read states
 *   for f in $(ls callgrind.out.*.* | sort -t. -k4n); do
 *     sed -n 's/^desc: Trigger: Client Request: //p;s/^summary: //p' $f; done | paste - -
 *
 * The last command prints the instructions of 64 steps each, from callgrind's files.
 * A model of one layer of each row of the table, width 16, takes so many tokens and then 64 single
 * steps, which are counted: a chunk of any row ends in them just as often. Windows of attention
 * hold 64 pairs here.
 *
 *   ./flat times >bench/results/flat.csv && python3 bench/plots.py
 *
 * prints what the next token takes of the processor after 256 to 1,048,576 tokens: one memory of
 * one head of 64, a write and a read; attention sees all tokens before, Titans' chunks are of
 * 16. */
#define _POSIX_C_SOURCE 200809L
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__has_include)
  #if __has_include(<valgrind/callgrind.h>)
    #include <valgrind/callgrind.h>
  #endif
#endif
#ifndef CALLGRIND_DUMP_STATS_AT
  #define CALLGRIND_START_INSTRUMENTATION (void)0
  #define CALLGRIND_STOP_INSTRUMENTATION (void)0
  #define CALLGRIND_ZERO_STATS (void)0
  #define CALLGRIND_DUMP_STATS_AT(name) printf("%s: no valgrind here\n", name)
#endif

enum { STEPS = 64, PIECE = 4096 };
static const long positions[] = {0, 960, 999936};     /* on the grid of all chunks */

static int32_t token_of(long i) { return (int32_t)(((unsigned long)i * 2654435761u >> 7) % 32); }

static miras_model *model_of(int kind) {
  miras_model_desc d;
  miras_model_preset(&d, (miras_preset)kind, 0);
  d.vocab = 32;
  d.width = 16;
  d.layers = 1;
  d.heads = 1;
  if (d.layer[0].memory.window) d.layer[0].memory.window = STEPS;
  return miras_model_open(&d, NULL, NULL, 0);
}

static void steps_of(miras_session *s, long at, const char *name) {
  char said[64];
  int i;
  sprintf(said, "%s from %ld on", name, at);
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  for (i = 0; i < STEPS; i++) miras_session_step(s, token_of(at + i));
  CALLGRIND_DUMP_STATS_AT(said);
  CALLGRIND_STOP_INSTRUMENTATION;
}

/* ---- times ---- */

enum { WIDE = 64, LONGEST = 1 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Nanoseconds of the next token, the least of many; `length` tokens are written before. */
static double next_token(const char *name, int length) {
  static float rows[STEPS + 1][WIDE], y[WIDE];
  miras_memory_desc d;
  miras_memory_input x;
  miras_memory *m;
  double best = 1e9;
  int i, j;
  miras_memory_preset(&d, miras_preset_find(name));
  d.key_dim = WIDE;
  if (!strcmp(name, "titans")) d.chunk = 16;
  if (d.window) d.window = length < LONGEST ? length + STEPS * WIDE : LONGEST;
  m = miras_memory_open(&d, NULL, NULL, 0);
  if (!m) return fprintf(stderr, "flat: %s does not open\n", name), -1;
  for (i = 0; i <= STEPS; i++)
    for (j = 0; j < WIDE; j++) rows[i][j] = (float)(token_of((long)i * WIDE + j) - 16) / 64;
  memset(&x, 0, sizeof x);
  x.length = STEPS;
  x.key = rows[0];
  x.value = rows[1];
  for (i = 0; i < length; i += STEPS) miras__memory_run(m, &x, NULL, NULL, NULL);   /* no reads */
  x.length = 1;
  for (i = 0; i < WIDE; i++) {                     /* means over 16, for chunks of 16 */
    double s = now();
    for (j = 0; j < 16; j++) {
      x.key = rows[(i + j) % STEPS], x.value = rows[j], x.query = rows[(i + 2 * j) % STEPS];
      miras_memory_forward(m, &x, y, NULL);
    }
    s = (now() - s) / 16;
    if (s < best) best = s;
    if (i > 3 && s > 1e-3) break;
  }
  miras_close(m);
  return 1e9 * best;
}

static int times(void) {
  static const char *const names[] = {"softmax-attention", "titans", "gated-deltanet", "mamba2"};
  size_t i;
  int length;
  printf("tokens before");
  for (i = 0; i < sizeof names / sizeof *names; i++) printf(",%s", names[i]);
  for (length = 256; length <= LONGEST; length *= 4) {
    printf("\n%d", length);
    for (i = 0; i < sizeof names / sizeof *names; i++) {
      printf(",%.1f", next_token(names[i], length));
      fflush(stdout);
    }
  }
  printf("\n");
  return 0;
}

int main(int count, char **text) {
  const int reads = count == 3 && !strcmp(text[1], "read");
  FILE *f = reads || (count == 3 && !strcmp(text[1], "write")) ? fopen(text[2], reads ? "rb" : "wb")
                                                               : NULL;
  static int32_t piece[PIECE];
  int kind, k, ok = 1;
  if (count == 2 && !strcmp(text[1], "times")) return times();
  if (!f) return fprintf(stderr, "flat: write FILE, read FILE or times\n"), 1;
  for (kind = 0; kind < MIRAS_PRESET_ROWS && ok; kind++) {
    miras_model *m = model_of(kind);
    miras_session *s = m ? miras_session_open(m, NULL, NULL, NULL, 0) : NULL;
    size_t bytes;
    void *state = miras_session_state(s, &bytes);
    long at = 0, i;
    if (!s) return fprintf(stderr, "flat: %s\n", miras_preset_name((miras_preset)kind)), 1;
    for (k = 0; k < 3 && ok; k++) {
      while (!reads && at < positions[k]) {
        const long n = positions[k] - at < PIECE ? positions[k] - at : PIECE;
        for (i = 0; i < n; i++) piece[i] = token_of(at + i);
        miras_session_feed(s, piece, NULL, (size_t)n);
        at += n;
      }
      ok = reads ? fread(state, bytes, 1, f) == 1 : fwrite(state, bytes, 1, f) == 1;
      if (reads && ok) steps_of(s, positions[k], miras_preset_name((miras_preset)kind));
    }
    miras_close(s);
    miras_close(m);
  }
  if (fclose(f) || !ok) return fprintf(stderr, "flat: %s is not whole\n", text[2]), 1;
  return 0;
}
