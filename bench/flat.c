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
 * hold 64 pairs here. */
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
  miras_model_preset(&d, (miras_kind)kind);
  d.vocab = 32;
  d.width = 16;
  d.layers = 1;
  d.heads = 1;
  if (d.layer[0].memory.window) d.layer[0].memory.window = STEPS;
  return miras_model_open(&d, NULL);
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

int main(int count, char **text) {
  const int reads = count == 3 && !strcmp(text[1], "read");
  FILE *f = reads || (count == 3 && !strcmp(text[1], "write")) ? fopen(text[2], reads ? "rb" : "wb")
                                                               : NULL;
  static int32_t piece[PIECE];
  int kind, k, ok = 1;
  if (!f) return fprintf(stderr, "flat: write FILE or read FILE\n"), 1;
  for (kind = 0; kind < MIRAS_KIND_COUNT && ok; kind++) {
    miras_model *m = model_of(kind);
    miras_session *s = m ? miras_session_open(m, NULL) : NULL;
    size_t bytes;
    void *state = miras_session_state(s, &bytes);
    long at = 0, i;
    if (!s) return fprintf(stderr, "flat: %s\n", miras_kind_name((miras_kind)kind)), 1;
    for (k = 0; k < 3 && ok; k++) {
      while (!reads && at < positions[k]) {
        const long n = positions[k] - at < PIECE ? positions[k] - at : PIECE;
        for (i = 0; i < n; i++) piece[i] = token_of(at + i);
        miras_session_prefill(s, piece, (size_t)n);
        at += n;
      }
      ok = reads ? fread(state, bytes, 1, f) == 1 : fwrite(state, bytes, 1, f) == 1;
      if (reads && ok) steps_of(s, positions[k], miras_kind_name((miras_kind)kind));
    }
    miras_session_close(s);
    miras_model_close(m);
  }
  if (fclose(f) || !ok) return fprintf(stderr, "flat: %s is not whole\n", text[2]), 1;
  return 0;
}
