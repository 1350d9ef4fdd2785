/* smoke.c: a little of everything, without cmocka, as C and as C++. It prints one fingerprint of
 * all bits that memories produce and one of a short training run; tests/run.sh compares them
 * between compilers, optimisation levels and instruction sets.
 *   cc -O2 -DMIRAS_STRICT tests/smoke.c -o smoke -lm && ./smoke     the line of README.md
 *   cc -O2 tests/smoke.c -o smoke -lm && ./smoke                    one instruction set's */
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"
#include "fingerprint.h"
#include <stdio.h>
#if defined(__arm__) && !defined(__linux__)
  #define printf(...) (sprintf(line, __VA_ARGS__), say(line))
static char line[100];
void say(const char *text);   /* of examples/cortex-m/board.c, which starts it, too */
#endif
#ifndef SMOKE_EVERY /* one row and model in so many: slow machines are compared with one another */
  #define SMOKE_EVERY 1
#endif

/* The same bytes on every machine, of a file. */
static uint64_t hash_of_file(uint64_t h, const unsigned char *file, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) h = (h ^ file[i]) * 1099511628211u;
  return h;
}

static int one_model(miras_preset kind, uint64_t *h) {
  static int32_t tokens[2 * 12 + 1];
  miras_model_desc d;
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  miras_model *m;
  miras_trainer_desc room;
  miras_trainer *t;
  miras_session *s;
  const float *logits;
  static unsigned char file[1 << 20];
  miras_sampler draws;
  float loss, *params;
  size_t count;
  int i;
  if (miras_model_preset(&d, kind, 4) != MIRAS_OK) return 1;
  d.heads = 2;
  if (kind < MIRAS_PRESET_ROWS) d.layer[0].memory.key_dim = 8;
  d.vocab = 13;
  d.width = 24;
  if (!d.pattern[0]) d.layers = 2;
  d.seed = 1;
  m = miras_model_open(&d, NULL, NULL, 0);
  memset(&room, 0, sizeof room);
  room.batch = 2;
  room.context = 12;
  t = miras_trainer_open(m, &room, NULL, NULL, 0);
  if (!t) return 1;
  for (i = 0; i < 25; i++) tokens[i] = i * i % 13;
  o.clip = 1;
  for (i = 0; i < 3; i++) {
    loss = loss_of(t, tokens, tokens + 1, 2, 12, 1);
    *h = hash_of(*h, &loss, sizeof loss);
    if (!(loss > 0 && loss < 10) || miras_trainer_backward(t, NULL) != MIRAS_OK) return 1;
    loss = norm_of_step(t, &o, miras_schedule_cosine((uint64_t)i, 1, 3, 0.01f, 0.1f));
    *h = hash_of(*h, &loss, sizeof loss);
  }
  params = miras_model_params(m, &count);
  *h = hash_of(*h, params, count * sizeof(float));
  s = miras_session_open(m, NULL, NULL, NULL, 0);
  logits = s ? miras_session_feed(s, tokens, NULL, 20) : NULL;
  if (!logits) return 1;
  *h = hash_of(*h, logits, 13 * sizeof(float));
  memset(&draws, 0, sizeof draws);
  draws.temperature = 0.9f, draws.top_p = 0.95f, draws.seed = 5;
  for (i = 0; i < 8; i++) {
    const int32_t token = miras_sampler_sample(&draws, logits, 13);
    *h = hash_of(*h, &token, sizeof token);
    logits = miras_session_step(s, token);
    if (!logits) return 1;
  }
  count = miras_save_to(s, file, sizeof file);
  if (count < 100 || count > sizeof file) return 1;
  *h = hash_of_file(*h, file, count);
  count = miras_save_to(m, file, sizeof file);
  if (count < 1000 || count > sizeof file) return 1;
  *h = hash_of_file(*h, file, count);
  miras_close(s);
  miras_close(t);
  miras_close(m);
  return 0;
}

int main(void) {
  uint64_t memories = 14695981039346656037u, models = 14695981039346656037u;
  int i;
  for (i = 0; i < MIRAS_PRESET_ROWS; i += SMOKE_EVERY) {
    if (one_memory((miras_preset)i, 1, NULL, &memories)) return 1;
    if (one_memory((miras_preset)i, 8, NULL, &memories)) return 1;
  }
  for (i = 0; i < MIRAS_PRESET_COUNT; i += SMOKE_EVERY)
    if (one_model((miras_preset)i, &models)) {
      printf("%s\n", miras_preset_name((miras_preset)i));
      return 1;
    }
  printf("isa %s\n", miras_isa());
  printf("memories %08lx%08lx\n", (unsigned long)(memories >> 32),
         (unsigned long)(memories & 0xffffffffu));
  printf("models %08lx%08lx\n", (unsigned long)(models >> 32),
         (unsigned long)(models & 0xffffffffu));
  return 0;
}
