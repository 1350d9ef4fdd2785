/* parts.c: what a build computes that leaves parts of the library out (MIRAS_NO_TRAINING, ...). A
 * line for every memory and model that it has, with the fingerprint of all bits, and one for each
 * that it refuses because of what it lacks. run.sh compares the lines with those of the whole.
 *   cc -DMIRAS_NO_FROZEN tests/parts.c -o parts -lm && ./parts */
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "calls.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef PARTS_EVERY /* one combination of choices, or model, in so many */
  #define PARTS_EVERY 1
#endif
enum { H = 2, D = 4, T = 9, N = T * H * D * 2 };

static uint64_t hash_of(uint64_t h, const void *data, size_t n) {   /* FNV-1a */
  const unsigned char *p = (const unsigned char *)data;
  size_t i;
  for (i = 0; i < n; i++) h = (h ^ p[i]) * 1099511628211u;
  return h;
}

/* Numbers of both signs, as gates within 0..1. */
static void numbers(float *x, int n, int salt, int gate) {
  int i;
  for (i = 0; i < n; i++) {
    const float u = (float)((i * 29 + salt * 53) % 97) / 97.0f;
    x[i] = gate ? 0.5f + u / 2 : 2 * u - 1;
  }
}

/* Forward, one read, the norm, every part of the state by its name, and the state moved to another
 * position; the gradient where the build has it. */
static int memory(const char *name, const miras_memory_desc *d) {
  static float k[N], v[N], q[N], gate[N], y[N], out[N];
  uint64_t h = 14695981039346656037u;
  miras_memory_input x;
  miras_memory *m;
  char why[256];
  size_t bytes;
  void *state;
  float norm;
  miras_view part;
  int i;
  if (!miras_memory_size(d, why, sizeof why)) {
    if (strstr(why, "leaves out")) printf("refused %s: %s\n", name, why);
    return 0;
  }
  m = miras_memory_open(d, NULL, NULL, 0);
  if (!m) return 1;
  numbers(k, N, 1, 0);
  numbers(v, N, 2, 0);
  numbers(q, N, 3, 0);
  numbers(gate, N, 4, 1);
  memset(&x, 0, sizeof x);
  memset(out, 0, sizeof out);
  x.length = T;
  x.key = k;
  x.value = v;
  x.query = q;
  x.keep = x.learning_rate = x.momentum = x.threshold = x.value_keep = x.erase = x.replace = gate;
  if (miras_memory_forward(m, &x, y, NULL) != MIRAS_OK) return 1;
  h = hash_of(h, y, (size_t)T * H * (size_t)miras_memory_desc_of(m)->value_dim * sizeof *y);
  state = miras_memory_state(m, &bytes);
  h = hash_of(h, state, bytes);
  miras_memory_read(m, q, out);
  h = hash_of(h, out, H * D * sizeof *out);
  norm = miras_memory_norm(m);
  h = hash_of(h, &norm, sizeof norm);
  for (i = 0; miras_memory_part(m, i, &part); i++) {
    static float values[4096];
    if (part.count > 4096) return 1;
    if (miras_memory_get(m, 0, 1, part.name, values, NULL, 0) != MIRAS_OK) return 1;
    h = hash_of(h, values, part.count * sizeof *values);
  }
  miras_memory_move(m, 400);
  state = miras_memory_state(m, &bytes);
  h = hash_of(h, state, bytes);
  printf("%s %08lx%08lx\n", name, (unsigned long)(h >> 32), (unsigned long)(h & 0xffffffffu));
#ifndef MIRAS_NO_TRAINING
  if (d->chunk != 4) {   /* 9 tokens from the start: a tape needs a place on the grid */
    static float dk[N], dv[N], dq[N];
    miras_memory_input_grad g;
    float *tape = (float *)malloc(miras_memory_tape_size(m, T) * sizeof *tape);
    memset(&g, 0, sizeof g);
    memset(dk, 0, sizeof dk);
    memset(dv, 0, sizeof dv);
    memset(dq, 0, sizeof dq);
    g.key = dk;
    g.value = dv;
    g.query = dq;
    miras_memory_reset(m);
    if (!tape || miras_memory_forward(m, &x, y, tape) != MIRAS_OK ||
        miras_memory_backward(m, &x, tape, v, &g, NULL, NULL) != MIRAS_OK)
      return 1;
    h = hash_of(hash_of(hash_of(h, dk, sizeof dk), dv, sizeof dv), dq, sizeof dq);
    printf("gradient %s %08lx\n", name, (unsigned long)(h & 0xffffffffu));
    free(tape);
  }
#endif
  miras_close(m);
  return 0;
}

static int memories(void) {
  miras_memory_desc d;
  char name[64];
  int i, a, b, r, l, chunk, channel;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++) {
    if (miras_memory_preset(&d, (miras_preset)i) != MIRAS_OK) return 1;
    d.heads = H;
    d.key_dim = D;
    if (memory(miras_preset_name((miras_preset)i), &d)) return 1;
  }
  for (a = 0; a < MIRAS_ARCH_COUNT; a++)
    for (b = 0; b < MIRAS_BIAS_COUNT; b++)
      for (r = 0; r < MIRAS_RETENTION_CUSTOM; r++)
        for (l = 0; l < MIRAS_ALGORITHM_COUNT; l++)
          for (chunk = 1; chunk <= 4; chunk += 3)
            for (channel = 0; channel < 2; channel++) {
              if ((a + b + r + l + chunk / 4 + channel) % PARTS_EVERY) continue;
              memset(&d, 0, sizeof d);
              d.architecture = (miras_arch)a;
              d.bias = (miras_bias)b;
              d.retention = (miras_retention)r;
              d.algorithm = (miras_algorithm)l;
              d.heads = H;
              d.key_dim = D;
              d.chunk = chunk;
              d.learning_rate = a != MIRAS_ARCH_KV_CACHE;
              if (l == MIRAS_ALGORITHM_LEAST_SQUARES || l == MIRAS_ALGORITHM_RECURSIVE) d.ridge = 1;
              if (r == MIRAS_RETENTION_ELASTIC || r == MIRAS_RETENTION_ELASTIC_FTRL)
                d.sparsity = 1e-3f;
              if (channel) d.decay_gate = MIRAS_GATE_CHANNEL;
              sprintf(name, "%d-%d-%d-%d-%d-%d", a, b, r, l, chunk, channel);
              if (memory(name, &d)) return 1;
            }
  return 0;
}

#ifndef MIRAS_NO_MODEL
/* A session; the training of two steps where the build has it. */
static int model(const char *name, const miras_model_desc *d) {
  static int32_t tokens[2 * 12 + 1];
  uint64_t h = 14695981039346656037u;
  miras_model *m;
  miras_session *s;
  const float *logits;
  char why[256];
  int i;
  if (!miras_model_size(d, why, sizeof why)) {
    printf("refused model %s: %s\n", name, why);
    return strstr(why, "leaves") == NULL;
  }
  m = miras_model_open(d, NULL, NULL, 0);
  s = m ? miras_session_open(m, NULL, NULL, NULL, 0) : NULL;
  for (i = 0; i < 25; i++) tokens[i] = i * i % 13;
  logits = s ? miras_session_feed(s, tokens, NULL, 20) : NULL;
  if (!logits) return 1;
  h = hash_of(h, logits, 13 * sizeof(float));
  printf("model %s %08lx\n", name, (unsigned long)(h & 0xffffffffu));
  miras_close(s);
#ifndef MIRAS_NO_TRAINING
  {
    miras_trainer_desc room;
    miras_trainer *t;
    float loss = 0;
    memset(&room, 0, sizeof room);
    room.batch = 2;
    room.context = 12;
    t = miras_trainer_open(m, &room, NULL, NULL, 0);
    for (i = 0; t && i < 2; i++) {
      loss = loss_of(t, tokens, tokens + 1, 2, 12, 1);
      if (miras_trainer_backward(t, NULL) != MIRAS_OK) return 1;
      (void)norm_of_step(t, NULL, 0.01f);
    }
    if (!(loss > 0)) return 1;
    printf("training %s %08lx\n", name, (unsigned long)(hash_of(h, &loss, 4) & 0xffffffffu));
    miras_close(t);
  }
#endif
  miras_close(m);
  return 0;
}

static int models(void) {
  miras_model_desc d;
  char name[64];
  int i, mixed;
  for (i = 0; i < MIRAS_PRESET_ROWS; i++)
    for (mixed = 0; mixed < 2; mixed++) {
      if ((i + mixed) % PARTS_EVERY) continue;
      if (miras_model_preset(&d, (miras_preset)i, 0) != MIRAS_OK) return 1;
      d.heads = 2;
      d.vocab = 13;
      d.width = 16;
      if (mixed) strcpy(d.pattern, "mw");
      else d.layers = 1;
      sprintf(name, "%s%s", miras_preset_name((miras_preset)i), mixed ? "+w" : "");
      if (model(name, &d)) return 1;
    }
  if (miras_model_preset(&d, MIRAS_PRESET_DELTANET, 0) != MIRAS_OK) return 1;
  d.heads = 2, d.vocab = 13, d.width = 16, d.layers = 1;
  memset(&d.layer[0], 0, sizeof d.layer[0]);
  d.layer[0].type = MIRAS_LAYER_MLP;
  d.program = "h = norm x norm1.gain; a = times h mine.up 24; b = relu2 a;"
              "out = branch b mine.down";
  return model("of one's own", &d);
}
#endif

int main(void) {
  if (memories()) return puts("a memory failed"), 1;
#ifndef MIRAS_NO_MODEL
  if (models()) return puts("a model failed"), 1;
#endif
  return 0;
}
