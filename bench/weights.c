/* weights.c: how long a token takes a model whose matrices are float, bf16, f16, q8 and q4: one
 * text, one thread, models in turns, the least of all rounds.
 *
 *   cc -O2 bench/weights.c -o weights -lm && ./weights LABEL [WIDTHxLAYERS ...]
 *   NAME=gated-deltanet ROUNDS=12 TOKENS=8 PREFILL=64
 *
 * A line is of the table that bench/weights.sh prints: ms a token, how many times as fast as float;
 * then the same of a prefill. */
#define _POSIX_C_SOURCE 200809L
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FORMS = MIRAS_WEIGHTS_COUNT, MOST = 1024 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

/* The same weights in every form. */
static int open_all(miras_model **m, miras_session **s, const char *name, int width, int layers) {
  miras_model_desc d;
  void *file = NULL;
  size_t bytes = 0;
  int form;
  if (miras_model_preset(&d, miras_preset_find(name), layers) != MIRAS_OK) return 0;
  d.width = width, d.heads = width / 64, d.vocab = 256;
  for (form = 0; form < FORMS; form++) {
    d.weights = (miras_weights)form;
    m[form] = miras_model_open(&d, NULL, NULL, 0);
    if (!m[form]) return 0;
    if (!form) {
      bytes = miras_save_to(m[0], NULL, 0);
      file = malloc(bytes);
      if (!file || miras_save_to(m[0], file, bytes) != bytes) return 0;
    } else if (miras_load_from(m[form], file, bytes, NULL, 0) != MIRAS_OK) {
      return 0;
    }
    s[form] = miras_session_open(m[form], NULL, NULL, NULL, 0);
    if (!s[form]) return 0;
  }
  free(file);
  return 1;
}

int main(int argc, char **argv) {
  static const char *const usual[] = {"512x4", "1024x8"};
  const char *name = getenv("NAME") ? getenv("NAME") : "gated-deltanet";
  const char *const *sizes = argc > 2 ? (const char *const *)argv + 2 : usual;
  const int count = argc > 2 ? argc - 2 : 2, rounds = setting("ROUNDS", 12);
  const int steps = setting("TOKENS", 8), together = setting("PREFILL", 64);
  int32_t tokens[MOST];
  int i, r, t, form;
  if (together > MOST) return 2;
  for (t = 0; t < MOST; t++) tokens[t] = t * 37 % 256;
  for (i = 0; i < count; i++) {
    miras_model *m[FORMS];
    miras_session *s[FORMS];
    double least[2][FORMS];
    int width = 0, layers = 0, what;
    if (sscanf(sizes[i], "%dx%d", &width, &layers) != 2 ||
        !open_all(m, s, name, width, layers)) {
      fprintf(stderr, "weights: cannot open %s, %s\n", name, sizes[i]);
      return 1;
    }
    for (form = 0; form < FORMS; form++) least[0][form] = least[1][form] = 1e9;
    for (r = 0; r < rounds; r++)
      for (form = 0; form < FORMS; form++) {
        double from, took;
        for (t = 0; t < steps; t++) {
          from = now();
          miras_session_step(s[form], tokens[t]);
          took = now() - from;
          if (took < least[0][form]) least[0][form] = took;
        }
        if (r % 3) continue;
        from = now();
        miras_session_feed(s[form], tokens, NULL, (size_t)together);
        took = (now() - from) / together;
        if (took < least[1][form]) least[1][form] = took;
      }
    for (what = 0; what < 2; what++) {
      printf("| %s | %s | %s, %s |", argc > 1 ? argv[1] : "", what ? "prefill" : "step", sizes[i],
             miras_isa());
      for (form = 0; form < FORMS; form++) printf(" %.2f |", least[what][form]);
      for (form = 1; form < FORMS; form++) printf(" %.2f |", least[what][0] / least[what][form]);
      printf("\n");
    }
    fflush(stdout);
    for (form = 0; form < FORMS; form++) miras_close(s[form]), miras_close(m[form]);
  }
  return 0;
}
