/* strict.c: a MIRAS_STRICT build makes no object where its arithmetic is not the one whose bits are
 * promised, and says why.
 *   cc -DMIRAS_STRICT tests/strict.c -o strict -lm && ./strict
 *   clang -O1 -ffp-contract=fast -DMIRAS_STRICT tests/strict.c -o strict -lm && ./strict contract
 * WORD: it stands in the sentence that refuses whatever this program asks for. Without one, all is
 * made, and none of it while the processor rounds elsewhere or takes small numbers for 0. */
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#ifndef MIRAS_NO_MODEL   /* of these, checks.sh looks at what they call */
  #define MIRAS_HUGGINGFACE_IMPLEMENTATION
  #include "../examples/huggingface.h"
  #define MIRAS_GGUF_IMPLEMENTATION
  #include "../examples/gguf.h"
  #include "../examples/encoders.h"
#endif
#include <fenv.h>
#include <stdio.h>

static int bad = 0;

/* made: is there an object? word NULL: there has to be; else its sentence holds the word. */
static void expect(const char *name, int made, const char *why, const char *word) {
  if (word ? !made && strstr(why, word) : made) return;
  printf("%s: %s; %s was to be expected\n", name, made ? "made" : why, word ? word : "an object");
  bad = 1;
}

static void memories(const char *word) {
  char why[256] = "none";
  miras_memory_desc d;
  miras_memory *m;
  miras_memory_preset(&d, MIRAS_PRESET_GATED_DELTANET);
  d.key_dim = d.value_dim = 8;
  expect("size of a memory", miras_memory_size(&d, why, sizeof why) > 0, why, word);
  m = miras_memory_open(&d, NULL, why, sizeof why);
  expect("memory", m != NULL, why, word);
  miras_close(m);
}

#ifdef MIRAS_NO_MODEL
static void objects(const char *word) { memories(word); }
#else
static miras_model *model;

static void objects(const char *word) {
  char why[256] = "none";
  miras_model_desc d;
  miras_trainer_desc room;
  miras_model *m;
  miras_trainer *t;
  miras_session *s;
  miras_server *all;
  memories(word);
  memset(&room, 0, sizeof room);
  room.batch = 1, room.context = 8;
  miras_model_preset(&d, MIRAS_PRESET_SOFTMAX_ATTENTION, 1);
  d.vocab = d.width = 16;
  m = miras_model_open(&d, NULL, why, sizeof why);
  expect("model", m != NULL, why, word);
  if (!model) model = m;
  else miras_close(m);
  if (!model) return;
  t = miras_trainer_open(model, &room, NULL, why, sizeof why);
  expect("trainer", t != NULL, why, word);
  miras_close(t);
  s = miras_session_open(model, NULL, NULL, why, sizeof why);
  expect("session", s != NULL, why, word);
  miras_close(s);
  all = miras_server_open(model, NULL, NULL, why, sizeof why);
  expect("server", all != NULL, why, word);
  miras_close(all);
}
#endif

/* Small numbers: 1: results, 2: what is read too. 0: as ever. */
#ifdef __SSE__
  #include <xmmintrin.h>
static void flush(int how) {
  _mm_setcsr((_mm_getcsr() & ~0x8040u) | (how & 1 ? 0x8000u : 0) | (how & 2 ? 0x40u : 0));
}
#elif defined(__aarch64__)
static void flush(int how) {
  __asm__ volatile("msr fpcr, %0" : : "r"(how ? UINT64_C(1) << 24 : 0));
}
#else
  #define flush(how) return
#endif

static void flushed(void) {
  int how;
  for (how = 1; how < 4; how++) {
    flush(how);
    objects("-ffast-math");
  }
  flush(0);
  objects(NULL);
}

int main(int argc, char **argv) {
  const int ways[] = {
#ifdef FE_UPWARD
    FE_UPWARD,
#endif
#ifdef FE_DOWNWARD
    FE_DOWNWARD,
#endif
#ifdef FE_TOWARDZERO
    FE_TOWARDZERO,
#endif
    FE_TONEAREST};
  size_t i;
  objects(argc > 1 ? argv[1] : NULL);
  for (i = 0; i < sizeof ways / sizeof *ways && argc < 2; i++)
    if (!fesetround(ways[i])) objects(ways[i] == FE_TONEAREST ? NULL : "nearest");
  if (argc < 2) flushed();
  if (!bad) puts("as promised");
  return bad;
}
