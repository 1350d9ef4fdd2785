/* test_cuda_model.cpp: models of every row trained by the grids of miras_cuda.cuh, with the bits of
 * the host: loss, norm, parameters, gradients, moments and running texts after steps of each kind.
 *   c++ -std=c++11 -O1 -ffp-contract=off tests/test_cuda_model.cpp -o test_cuda_model -lm
 *   nvcc -O3 -rdc=true -fmad=false -arch=native -x cu tests/test_cuda_model.cpp -o test_cuda_model
 * Rows as arguments run only these; lines: layers as text; hybrids: with factors. Without a GPU as
 * test_cuda.cpp. */
#ifndef __CUDACC__
  #include "cuda_shim.h"
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "calls.h"
static unsigned threads = 32;
#define MIRAS_CUDA_THREADS threads
#define MIRAS_CUDA_MOST 128
#define MIRAS_CUDA_BLOCKS 257
#define MIRAS_CUDA_REFERENCE
#define MIRAS_CUDA_NO_FAST
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#include <stdio.h>

enum { BATCH = 2, LENGTH = 72, STREAMS = 3, WORDS = 19 };

static void *device(size_t bytes) {
  void *p = NULL;
  if (cudaMalloc(&p, bytes + 64) == cudaSuccess &&   /* of no numbers: nothing depends on it */
      cudaMemsetAsync(p, 255, bytes + 64, 0) == cudaSuccess)
    return p;
  puts("skipped: there is no device, or not enough memory");
  exit(77);
}

/* A step on the device, of host arrays; rows NULL: windows of their own. */
static miras_result step(miras_cuda_trainer *t, const int32_t *tokens, int length,
                         const int32_t *rows, const unsigned char *fresh, float *said) {
  static char *room;
  const size_t bytes = sizeof(int32_t) * BATCH * LENGTH;
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  miras_result result;
  miras_batch x;
  float *out;
  if (!room) room = (char *)device(4 * bytes);
  out = (float *)(void *)(room + 3 * bytes);
  o.clip = 1;
  o.weight_decay = 0.1f;
  if (cudaMemcpyAsync(room, tokens, sizeof(int32_t) * (size_t)(BATCH * length),
                      cudaMemcpyHostToDevice, 0) ||
      cudaMemcpyAsync(room + bytes, tokens + 1, sizeof(int32_t) * (size_t)(BATCH * length),
                      cudaMemcpyHostToDevice, 0))
    return MIRAS_ERR_DEVICE;
  if (rows && (cudaMemcpyAsync(room + 2 * bytes, rows, BATCH * sizeof *rows,
                               cudaMemcpyHostToDevice, 0) ||
               cudaMemcpyAsync(room + 2 * bytes + 64, fresh, BATCH * sizeof *fresh,
                               cudaMemcpyHostToDevice, 0)))
    return MIRAS_ERR_DEVICE;
  memset(&x, 0, sizeof x);
  x.batch = BATCH, x.length = length;
  x.tokens = (const int32_t *)(void *)room, x.classes = (const int32_t *)(void *)(room + bytes);
  if (rows) x.carry = (const int32_t *)(void *)(room + 2 * bytes);
  if (rows) x.restart = (const unsigned char *)room + 2 * bytes + 64;
  result = miras_cuda_trainer_loss(t, &x, 1, out, 0);
  if (result == MIRAS_OK) result = miras_cuda_trainer_backward(t, NULL, 0);
  if (result == MIRAS_OK) result = miras_cuda_trainer_step(t, &o, 0.01f, out + 1, 0);
  if (cudaMemcpyAsync(said, out, 2 * sizeof *said, cudaMemcpyDeviceToHost, 0) ||
      cudaDeviceSynchronize())
    return MIRAS_ERR_DEVICE;
  return result;
}

/* A GPU has other logarithms, sines and cosines than the C library: relative to the largest number,
 * how much may differ. Of bits that are the same nothing does. */
static float allowed;

static int same(const char *what, const float *a, const float *b, size_t count) {
  float most = 0, worst = 0;
  size_t i;
  if (!memcmp(a, b, count * sizeof *a)) return 1;
  for (i = 0; i < count; i++) {
    if (fabsf(a[i]) > most) most = fabsf(a[i]);
    if (!(fabsf(a[i] - b[i]) <= worst)) worst = fabsf(a[i] - b[i]);
  }
  if (worst <= allowed * most) return 1;
  printf("  %s differs: by %g of %g\n", what, (double)worst, (double)most);
  return 0;
}

/* Is room saved where layers of a kind are computed again? */
static int saves(const miras_cuda_model *g, const miras_model *m, miras_trainer_desc room) {
  size_t kept, again;
  room.carried = 0;
  kept = miras_cuda_trainer_size(g, &room, NULL, 0);
  room.recompute = m->desc.layers;
  again = miras_cuda_trainer_size(g, &room, NULL, 0);
  return again && (m->kinds < m->desc.layers ? again < kept : again == kept);
}

/* Does the model learn on the device as it does here? */
static int learns(const miras_model_desc *d) {
  static miras_cuda_trainer t;
  static int32_t tokens[BATCH * LENGTH + 1];
  miras_model *m = miras_model_open(d, NULL, NULL, 0), *there = miras_model_open(d, NULL, NULL, 0);
  miras_trainer_desc room;
  miras_trainer *host, *mirror;
  miras_cuda_model g;
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  float *params, *params2;
  void *of_model, *of_trainer;
  size_t count, bytes, i;
  char why[256];
  int ok = 1, part;
  if (!m || !there) return 0;
  if (strcmp(d->pattern, "mw") == 0 && !miras_model_train_only(m, "*norm*,*q.weight")) return 0;
  memset(&room, 0, sizeof room);
  room.batch = BATCH;
  room.context = LENGTH;
  room.carried = STREAMS;
  host = miras_trainer_open(m, &room, NULL, NULL, 0);
  room.batch = room.context = 1;
  mirror = miras_trainer_open(m, &room, NULL, NULL, 0);
  room.batch = BATCH;
  room.context = LENGTH;
  if (!host || !mirror) return 0;
  for (i = 0; i <= BATCH * LENGTH; i++) tokens[i] = (int32_t)(i * i % 131 % WORDS);
  bytes = miras_cuda_model_size(m, why, sizeof why);
  if (!bytes) puts(why);
  of_model = device(bytes);
  if (miras_cuda_model_init(&g, m, of_model, bytes, 0) != MIRAS_OK) return 0;
  bytes = miras_cuda_trainer_size(&g, &room, why, sizeof why);
  if (!bytes) puts(why);
  of_trainer = device(bytes);
  if (!bytes || miras_cuda_trainer_init(&t, &g, &room, of_trainer, bytes, 0) != MIRAS_OK) return 0;
  if (!saves(&g, m, room)) return puts("  recompute saves no room"), 0;
  o.clip = 1;
  o.weight_decay = 0.1f;
  params = miras_model_params(m, &count);
  params2 = miras_model_params(there, NULL);
  for (part = 0; ok && part < 3; part++) {
    const int32_t rows[BATCH] = {part == 2 ? 2 : -1, 1};
    const unsigned char new_texts[BATCH] = {0, part == 1};
    const int length = part ? 64 : LENGTH;     /* two tiles of 36 rows, then one of 64 */
    float said[2], here[2];
    if (part == 2) {                           /* away and back again, layers computed twice */
      room.recompute = m->desc.layers;
      bytes = miras_cuda_trainer_size(&g, &room, why, sizeof why);
      if (!bytes) puts(why);
      cudaFree(of_trainer);
      of_trainer = device(bytes);
      ok = miras_cuda_trainer_init(&t, &g, &room, of_trainer, bytes, 0) == MIRAS_OK &&
           miras_cuda_trainer_send(&t, mirror, 0) == MIRAS_OK;
    }
    here[0] = part ? loss_carried(host, tokens, tokens + 1, BATCH, length, rows,
                                                new_texts)
                   : loss_of(host, tokens, tokens + 1, BATCH, length, 1);
    ok = ok && miras_trainer_backward(host, NULL) == MIRAS_OK;
    here[1] = norm_of_step(host, &o, 0.01f);
    ok = ok && step(&t, tokens, length, part ? rows : NULL, new_texts, said) == MIRAS_OK;
    ok = ok && here[0] > 0 && here[0] < 10;
    ok = ok && miras_cuda_model_copy(there, &g, 0) == MIRAS_OK &&
         miras_cuda_trainer_copy(mirror, &t, 0) == MIRAS_OK && cudaDeviceSynchronize() == 0;
    if (!ok) printf("  part %d: loss %g\n", part, (double)here[0]);
#ifdef __CUDACC__
    allowed = 2e-7f;
#endif
    ok = ok && same("loss", here, said, 1);
#ifdef __CUDACC__
    allowed = strchr(d->pattern, 'w') ? 1e-4f : 0;
#endif
    ok = ok && same("norm", here + 1, said + 1, 1) &&
         same("parameters", params, params2, count) &&
         same("gradients and moments", host->grads, mirror->grads, 3 * count) &&
         same("streams", host->streams, mirror->streams, STREAMS * m->run) &&
         miras_trainer_steps(mirror) == (uint64_t)part + 1;
  }
  cudaFree(of_model);
  cudaFree(of_trainer);
  miras_close(host);
  miras_close(mirror);
  miras_close(m);
  miras_close(there);
  return ok;
}

/* Texts of a model on the device, room for a call's tokens and logits there, and a session here. */
static struct {
  miras_model *m;
  miras_session *host;
  miras_cuda_model g;
  miras_cuda_session s;
  void *of_model, *of_session;
  int32_t *in;
  float *out;
} texts;

static int texts_open(const miras_model_desc *d, int batch, int length, int rows) {
  size_t bytes;
  texts.m = miras_model_open(d, NULL, NULL, 0);
  texts.host = miras_session_open(texts.m, NULL, NULL, NULL, 0);
  if (!texts.host) return 0;
  bytes = miras_cuda_model_size(texts.m, NULL, 0);
  texts.of_model = device(bytes);
  if (miras_cuda_model_init(&texts.g, texts.m, texts.of_model, bytes, 0) != MIRAS_OK) return 0;
  bytes = miras_cuda_session_size(&texts.g, batch, length);
  texts.of_session = device(bytes);
  texts.in = (int32_t *)device((size_t)(batch * length) * sizeof *texts.in);
  texts.out = (float *)device((size_t)(batch * rows * WORDS) * sizeof *texts.out);
  return miras_cuda_session_init(&texts.s, &texts.g, batch, length, texts.of_session, bytes, 0) ==
         MIRAS_OK;
}

static void texts_close(void) {
  cudaFree(texts.of_model);
  cudaFree(texts.of_session);
  cudaFree(texts.in);
  cudaFree(texts.out);
  miras_close(texts.host);
  miras_close(texts.m);
}

/* Feed so many tokens that lie in texts.in, and bring the logits of the last rows. */
static int texts_feed(int length, int rows, float *logits, size_t count) {
  return miras_cuda_session_feed(&texts.s, texts.in, NULL, length, texts.out, rows, 0) ==
           MIRAS_OK &&
         !cudaMemcpyAsync(logits, texts.out, count * sizeof *logits, cudaMemcpyDeviceToHost, 0) &&
         !cudaDeviceSynchronize();
}

/* And does it answer, two texts at a time, as a session does? */
static int answers(const miras_model_desc *d) {
  enum { FIRST = 70, ALL = 76 };
  static int32_t tokens[2][ALL];
  static float logits[2 * 3 * WORDS], wanted[WORDS];
  miras_session *host;
  size_t bytes, state, t;
  int ok = texts_open(d, 2, FIRST, 3), text, row;
  if (!ok) return 0;
  host = texts.host;
  for (t = 0; t < ALL; t++)
    tokens[0][t] = (int32_t)(t * t % WORDS), tokens[1][t] = (int32_t)(t % 7);
  for (t = 0; ok && t < ALL;) {              /* many tokens, then three, then one by one */
    const int n = !t ? FIRST : t == FIRST ? 3 : 1, rows = t == FIRST ? 3 : 1;
    for (text = 0; text < 2; text++)
      ok = ok && !cudaMemcpyAsync(texts.in + text * n, tokens[text] + t,
                                  (size_t)n * sizeof *texts.in, cudaMemcpyHostToDevice, 0);
    ok = ok && texts_feed(n, rows, logits, (size_t)(2 * rows * WORDS));
    t += (size_t)n;
    for (text = 0; ok && text < 2; text++) {
      miras_session_reset(host);
      for (row = 0; ok && row < rows; row++) {
        const size_t fed = t - (size_t)(rows - row - 1);
        const float *x = row ? miras_session_step(host, tokens[text][fed - 1])
                             : miras_session_feed(host, tokens[text], NULL, fed);
        memcpy(wanted, x, sizeof wanted);
        ok = same("logits", wanted, logits + (text * rows + row) * WORDS, WORDS);
      }
      if (ok && t == ALL) {
        const float *there = (const float *)miras_cuda_session_state(&texts.s, text, &state);
        static float here[1 << 16];
        const float *mine = (const float *)miras_session_state(host, &bytes);
        ok = bytes == state && state <= sizeof here &&
             !cudaMemcpyAsync(here, there, state, cudaMemcpyDeviceToHost, 0) &&
             !cudaDeviceSynchronize() && same("state", mine, here, state / sizeof *here);
      }
    }
  }
  texts_close();
  return ok;
}

/* More texts than a tile has rows, a token of each at a time. */
static int many(const miras_model_desc *d) {
  enum { TEXTS = 67, STEPS = 5 };
  static float logits[TEXTS * WORDS];
  int32_t tokens[TEXTS], fed[STEPS];
  int ok = texts_open(d, TEXTS, 1, 1), text, step;
  if (!ok) return 0;
  for (step = 0; ok && step < STEPS; step++) {
    for (text = 0; text < TEXTS; text++) tokens[text] = (text * (step + 3) + step) % WORDS;
    ok = !cudaMemcpyAsync(texts.in, tokens, sizeof tokens, cudaMemcpyHostToDevice, 0) &&
         texts_feed(1, 1, logits, TEXTS * WORDS);
  }
  for (text = 0; ok && text < TEXTS; text++) {
    for (step = 0; step < STEPS; step++) fed[step] = (text * (step + 3) + step) % WORDS;
    miras_session_reset(texts.host);
    ok = same("logits of many", miras_session_feed(texts.host, fed, NULL, STEPS),
              logits + text * WORDS, WORDS);
  }
  texts_close();
  return ok;
}

/* Whole models as published, in patterns with other layers. */
static const struct { const char *name, *pattern; } wholes[] = {
  {"rwkv7", "mgmw"}, {"rwkv6", "mg"}, {"rwkv4", "mwg"}, {"mamba2", "mw"}, {"retnet", "m"},
  {"hgrn2", "mm"}, {"mamba", "mwm"}, {"mamba3", "mw"}, {"pkda", "mw"}, {"raven", "mm"},
  {"log-linear-mamba2", "mw"}, {"log-linear-gdn", "m"}};
enum { WHOLES = sizeof wholes / sizeof wholes[0] };

/* Rows of vectors and categories, answered in every way there is: losses, what calls bring back,
 * gradients, steps and a running text. */
static float of_rows(size_t i) { return (float)(i * i % 131) / 65.0f - 1; }

enum { ROWS = BATCH * LENGTH, MANY = 64 * ROWS };
static float vectors[MANY], values[MANY], weights[ROWS], own[MANY], outputs[2][MANY],
  hidden[2][MANY], dvectors[2][MANY], losses[2][16], loss[2], norms[2];
static int32_t tokens[MANY], classes[MANY];

/* Send n words; bring them. */
static int sent(void *to, const void *from, size_t n) {
  return !cudaMemcpyAsync(to, from, n * 4, cudaMemcpyHostToDevice, 0);
}

static int brought(void *to, const void *from, size_t n) {
  return !cudaMemcpyAsync(to, from, n * 4, cudaMemcpyDeviceToHost, 0);
}

/* A step here, and there, where the arrays are behind `block`; the second without weights. */
#define THERE(k) (block + (k) * (size_t)MANY)
static int step_of_rows(miras_trainer *host, miras_cuda_trainer *t, float *block, int part) {
  float *const at = THERE(10);
  miras_batch x;
  miras_batch_grad g;
  int ok;
  memset(&x, 0, sizeof x);
  x.batch = BATCH, x.length = LENGTH;
  x.tokens = tokens, x.vectors = vectors, x.classes = classes, x.values = values;
  x.weights = part ? NULL : weights;
  x.outputs = outputs[0], x.hidden = hidden[0], x.losses = losses[0];
  g.outputs = own, g.hidden = own, g.vectors = dvectors[0];
  ok = miras_trainer_loss(host, &x, 1, &loss[0]) == MIRAS_OK &&
       miras_trainer_backward(host, &g) == MIRAS_OK &&
       miras_trainer_step(host, NULL, 0.01f, &norms[0]) == MIRAS_OK &&
       sent(THERE(0), tokens, MANY) && sent(THERE(1), vectors, MANY) &&
       sent(THERE(2), classes, MANY) && sent(THERE(3), values, MANY) &&
       sent(THERE(4), weights, ROWS) && sent(THERE(8), own, MANY);
  x.tokens = (int32_t *)(void *)THERE(0), x.vectors = THERE(1);
  x.classes = (int32_t *)(void *)THERE(2), x.values = THERE(3);
  x.weights = part ? NULL : THERE(4);
  x.outputs = THERE(5), x.hidden = THERE(6), x.losses = at + 16;
  g.outputs = g.hidden = THERE(8), g.vectors = THERE(7);
  return ok && miras_cuda_trainer_loss(t, &x, 1, at, 0) == MIRAS_OK &&
         miras_cuda_trainer_backward(t, &g, 0) == MIRAS_OK &&
         miras_cuda_trainer_step(t, NULL, 0.01f, at + 1, 0) == MIRAS_OK &&
         brought(outputs[1], THERE(5), MANY) && brought(hidden[1], THERE(6), MANY) &&
         brought(dvectors[1], THERE(7), MANY) && brought(losses[1], at + 16, 16) &&
         brought(&loss[1], at, 1) && brought(&norms[1], at + 1, 1) && !cudaDeviceSynchronize();
}

static int signals(void) {
  static miras_cuda_trainer t;
  static miras_cuda_session s;
  miras_trainer_desc room;
  miras_model_desc d;
  miras_model *m;
  miras_trainer *host;
  miras_session *text;
  miras_cuda_model there;
  const miras_row *row;
  size_t count, i, bytes;
  float *params, *block, *after;
  char why[256];
  int ok = 1, part;
  miras_model_preset(&d, MIRAS_PRESET_YAAD, 1);
  d.width = 24, d.heads = 2, d.dropout = 0.2f, d.embed_norm = 1;
  strcpy(d.inputs, "category 5 3, vector 7, standardized 4");
  strcpy(d.outputs, "category 3 5, huber 2 at 0.5, normal 2 times 0.5, quantile 3 at 0.9, "
                    "binary 2, raw 3, lp 2, squared 3");
  m = miras_model_open(&d, NULL, why, sizeof why);
  if (!m) return puts(why), 0;
  row = miras_model_row(m);
  for (i = 0; i < MANY; i++) {
    vectors[i] = of_rows(i), values[i] = i % 13 ? of_rows(i + 7) : NAN, own[i] = of_rows(i + 3);
    tokens[i] = (int32_t)(i % (size_t)row->tokens ? i % 3 : i % 5);
    classes[i] = (int32_t)(i % 3) - (i % 7 == 0);
  }
  for (i = 0; i < ROWS; i++) weights[i] = (float)(i % 4);
  if (miras_model_standardize(m, vectors, ROWS) != MIRAS_OK) return 0;
  memset(&room, 0, sizeof room);
  room.batch = BATCH, room.context = LENGTH;
  host = miras_trainer_open(m, &room, NULL, NULL, 0);
  bytes = miras_cuda_model_size(m, why, sizeof why);
  if (miras_cuda_model_init(&there, m, device(bytes), bytes, 0) != MIRAS_OK) return 0;
  bytes = miras_cuda_trainer_size(&there, &room, why, sizeof why);
  if (!host || miras_cuda_trainer_init(&t, &there, &room, device(bytes), bytes, 0) != MIRAS_OK)
    return 0;
  params = miras_model_params(m, &count);
  block = (float *)device((10 * MANY + 64) * sizeof(float));
  for (part = 0; part < 2; part++) {
    ok = ok && step_of_rows(host, &t, block, part);
    ok = ok && same("outputs", outputs[0], outputs[1], (size_t)(ROWS * row->outputs)) &&
         same("hidden rows", hidden[0], hidden[1], (size_t)(ROWS * d.width)) &&
         same("gradients of vectors", dvectors[0], dvectors[1], (size_t)(ROWS * row->vectors)) &&
         same("losses", losses[0], losses[1], 9) && same("loss", &loss[0], &loss[1], 1) &&
         same("norm", &norms[0], &norms[1], 1);
  }
  after = (float *)malloc(count * sizeof *after);
  ok = ok && after && brought(after, miras_cuda_model_params(&there, NULL), count) &&
       !cudaDeviceSynchronize() && same("parameters", params, after, count);
  free(after);
  bytes = miras_cuda_session_size(&there, 1, LENGTH);
  text = miras_session_open(m, NULL, NULL, why, sizeof why);
  ok = ok && text &&
       miras_cuda_session_init(&s, &there, 1, LENGTH, device(bytes), bytes, 0) == MIRAS_OK &&
       miras_cuda_session_feed(&s, (int32_t *)(void *)THERE(0), THERE(1), LENGTH, THERE(5), 1, 0) ==
         MIRAS_OK &&
       brought(outputs[1], THERE(5), (size_t)row->outputs) && !cudaDeviceSynchronize() &&
       same("a text", miras_session_feed(text, tokens, vectors, LENGTH), outputs[1],
            (size_t)row->outputs);
  miras_close(text);
  miras_close(host);
  miras_close(m);
  return ok;
}

/* A layer with more parameters than a list of jobs has room for beside the matrices of the one
 * below. */
static unsigned full_lists(int argc, char **argv) {
  miras_model_desc d, other;
  int ok;
  if (argc > 1 && strcmp(argv[argc - 1], "jobs")) return 0;
  miras_model_preset(&d, MIRAS_PRESET_TITANS, 0);
  miras_model_preset(&other, MIRAS_PRESET_RWKV7, 2);
  d.vocab = WORDS, d.width = 20, d.heads = 2, d.norm = MIRAS_NORM_LAYER, d.seed = 5;
  d.layer[0].memory.key_dim = 6, d.layer[0].memory.chunk = 8;
  d.layer[0].mixer.conv_bias = d.layer[0].mixer.projection_bias = d.layer[0].mixer.d_skip = 1;
  d.layer[0].mixer.out_norm = MIRAS_NORM_LAYER, d.layer[0].mixer.out_gate_rank = 2;
  d.layer[7] = other.layer[0];
  d.layer[7].letter = 'r', d.layer[7].memory.key_dim = 6;
  d.layer[7].mlp.none = 0;
  d.layer[0].mlp.experts = d.layer[7].mlp.experts = 2;
  d.layer[0].mlp.hidden = d.layer[7].mlp.hidden = 12;
  strcpy(d.pattern, "rrm");
  threads = 32;
  ok = learns(&d);
  printf("jobs of two lists: %s\n", ok ? "the same" : "DIFFERS");
  return !ok;
}

/* Layers of lines. */
static unsigned lines(int argc, char **argv) {
  static const struct { miras_layer_type type; const char *text; } row[] = {
    {MIRAS_LAYER_CONV,
     "h = norm x in.gain; b = times h b.weight 20; c = times h c.weight 20\n"
     "v = times h v.weight 20; bv = multiply b v; y = conv bv short.weight 3 none\n"
     "z = gate y c silu; mid = branch z o.weight bias o.bias; h2 = norm mid norm2.gain\n"
     "a = times h2 mlp.up 32; s = times a more.weight 32; r = relu2 a; u = gate r s gelu\n"
     "n = rms u 4 n.gain; out = branch n mlp.down"},
    {MIRAS_LAYER_ATTENTION,
     "h = norm x norm1.gain; qkv = times h q.weight 20 k.weight 20 v.weight 20 out_gate.weight 20\n"
     "an = angles attention; tq = rotate qkv:20 2 an; tk = rotate qkv@k.weight:20 2 an\n"
     "y = attend tq tk qkv@v.weight:20; c = conv y conv_q.weight 3 silu\n"
     "u = gate c qkv@out_gate.weight:20 sigmoid; out = branch u o.weight"}};
  unsigned i, failed = 0;
  if (argc > 1 && strcmp(argv[argc - 1], "lines")) return 0;
  threads = 64;
  for (i = 0; i < sizeof row / sizeof *row; i++) {
    miras_model_desc d;
    int ok;
    memset(&d, 0, sizeof d);
    d.vocab = WORDS, d.width = 20, d.heads = 2, d.layers = 2, d.seed = 5, d.dropout = 0.1f;
    d.layer[0].type = row[i].type, d.program = row[i].text;
    if (d.layer[0].type == MIRAS_LAYER_ATTENTION) d.layer[0].attention.window = 20;
    ok = learns(&d) && answers(&d);
    printf("layers of lines, %u: %s\n", i, ok ? "the same" : "DIFFERS");
    failed += !ok;
  }
  return failed;
}

/* Memories and attention side by side, gated convolutions and attention, with factors. */
static unsigned hybrids(int argc, char **argv) {
  miras_model_desc d;
  miras_layer_desc *m = &d.layer[0], *w = &d.layer[1], *c = &d.layer[4];
  int ok;
  if (argc > 1 && strcmp(argv[argc - 1], "hybrids")) return 0;
  threads = 64;
  miras_model_preset(&d, miras_preset_find("mamba2"), 0);
  d.vocab = WORDS, d.width = 20, d.heads = 2, d.seed = 5, d.dropout = 0.1f;
  strcpy(d.pattern, "mcwa");
  m->type = MIRAS_LAYER_PARALLEL;
  m->memory.key_dim = 6, m->memory.value_dim = 10, m->attention.window = w->attention.window = 20;
  m->mlp.none = c->mlp.none = 0, m->mlp.hidden = w->mlp.hidden = c->mlp.hidden = 12;
  m->mixer.projection_bias = 1;
  m->mixer.out_scale = 0.7f, m->mixer.gate_scale = 0.4f, m->mixer.low_scale = 2.5f;
  m->attention.query_scale = w->attention.query_scale = 1.3f;
  m->attention.out_scale = w->attention.out_scale = 0.6f;
  m->mlp.gate_scale = 1.7f, m->mlp.out_scale = c->mlp.out_scale = 0.6f;
  c->conv.gated = 2, c->conv.size = 3;
  w->mlp.experts = 3, w->mlp.out_scale = 0.5f;
  d.layer[2] = *w;
  d.layer[2].letter = 'a', d.layer[2].attention.query_scale = 0;
  d.layer[2].attention.post_norm = 1, d.layer[2].attention.qk_norm = 2;
  m->attention.rope_scaling.type = MIRAS_ROPE_SCALING_YARN;
  m->attention.rope_scaling.factor = 4, m->attention.rope_scaling.context = 64;
  ok = learns(&d) && answers(&d);
  printf("hybrids: %s\n", ok ? "the same" : "DIFFERS");
  return !ok;
}

int main(int argc, char **argv) {
  unsigned failed = 0, kind, i, of_block;
  if (!strcmp(miras_isa(), "portable"))
    return puts("skipped: without fused multiply-add the host has other bits"), 77;
  for (kind = 0; kind < MIRAS_PRESET_ROWS + WHOLES; kind++) {       /* rows, then whole models */
    const int published = kind >= MIRAS_PRESET_ROWS;
    const unsigned whole = published ? kind - MIRAS_PRESET_ROWS : 0;
    const char *name = published ? wholes[whole].name : miras_preset_name((miras_preset)kind);
    miras_model_desc d;
    int ok;
    for (i = 1; i < (unsigned)argc && strcmp(argv[i], name); i++) {
    }
    if (argc > 1 && i == (unsigned)argc) continue;
    if (published ? miras_model_preset(&d, miras_preset_find(name), 2) != MIRAS_OK
                  : miras_model_preset(&d, (miras_preset)kind, 0) != MIRAS_OK)
      return 1;
    d.layers = 0;
    d.layer[0].memory.key_dim = 6;
    if (kind == MIRAS_PRESET_KDA_MEMORY || kind == MIRAS_PRESET_GLA_MEMORY)
      d.layer[0].mixer.out_gate_rank = 3;
    if (kind == MIRAS_PRESET_GLA_MEMORY) d.layer[0].mixer.keep_min = 0.87f;
    if (kind == MIRAS_PRESET_DELTANET_MEMORY) {
      d.layer[0].mixer.qk_map = MIRAS_QK_MAP_L1;
      d.layer[0].mixer.qk_act = MIRAS_FN_ELU;
    }
    if (whole) d.layer[0].memory.value_dim = 10;
    if (d.layer[0].type == MIRAS_LAYER_RWKV4)
      d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = 0;
    if (d.layer[0].mixer.from_values) d.layer[0].mixer.from_values = 1 + published;
    if (d.layer[0].mixer.from_values == 1) d.layer[0].mixer.from_values_epsilon = 1e-3f;
    if (d.layer[0].memory.chunk > 8) d.layer[0].memory.chunk = 8;
    d.layer[1].attention.window = 20;
    d.layer[1].attention.qk_norm = 1;
    d.layer[1].attention.out_gate = kind % 4 == 1;
    d.layer[1].attention.rope.dim = kind % 3 * 2;
    if (kind % 3 == 0) d.layer[1].attention.rope.share = (miras_rope_share)(kind / 3 % 3);
    d.layer[1].attention.persistent = kind % 3;
    d.heads = 2;
    d.vocab = WORDS;
    d.width = 20;
    d.dropout = 0.1f;
    d.seed = 5;
    strcpy(d.pattern, published ? wholes[whole].pattern : kind % 2 ? "mw" : kind % 3 ? "cm" : "mm");
    d.layer[0].mixer.share_qk = kind % 6 == 4 && !published && d.layer[0].memory.inner_steps < 2;
    if (kind % 4 == 3 && !published) { /* the memory is the gate of attention */
      d.layer[0].type = MIRAS_LAYER_MAG;
      d.layer[0].attention.window = 30;
      d.layer[0].attention.head_dim = 6;
      d.layer[0].attention.persistent = kind % 8 == 3;
      d.layer[0].attention.qk_norm = kind % 8 == 3;
      d.layer[0].attention.kv_heads = kind % 8 == 3 ? 1 : 2;
    }
    if (kind % 4 == 1 && !published && d.layer[0].memory.architecture != MIRAS_ARCH_KV_CACHE &&
        d.layer[0].mixer.qk_map != MIRAS_QK_MAP_FEEDBACK &&
        d.layer[0].mixer.qk_map != MIRAS_QK_MAP_PRECONDITIONED) {
      d.layer[0].type = MIRAS_LAYER_MAC;     /* and its context: of texts of two segments or more */
      d.layer[0].mixer.out_gate_rank = 0;    /* its output gate is a matrix */
      d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = d.layer[0].attention.head_dim = 10;
      d.layer[0].attention.window = 8;
      d.layer[0].attention.persistent = 1;
    }
    if (kind % 5 == 2 && !published) { /* a mixture of experts */
      d.layer[0].mlp.experts = 4;
      d.layer[0].mlp.experts_per_token = 1 + (int)kind % 2;
      d.layer[0].mlp.norm_topk = (int)kind % 3 == 0;
      d.layer[0].mlp.shared_experts = kind % 4 == 2;
      d.layer[0].mlp.hidden = 12;
    }
    d.untied = (int)kind % 3 == 0;
    of_block = kind % 3 ? 32 : 96;
    threads = of_block;
    ok = learns(&d) && answers(&d) && (kind % 6 || many(&d));
    printf("%-20s pattern %s%s%s, %u threads: %s\n", name, d.pattern,
           d.layer[0].type == MIRAS_LAYER_MAG   ? " as a gate"
           : d.layer[0].type == MIRAS_LAYER_MAC ? " as context"
                                                : "",
           d.layer[0].mlp.experts ? " with experts" : "", of_block,
           ok ? "the same" : "DIFFERS");
    fflush(stdout);
    failed += !ok;
  }
  if (argc < 2 || !strcmp(argv[argc - 1], "signals")) {
    threads = 96;
    const int ok = signals();
    printf("rows of vectors: %s\n", ok ? "the same" : "DIFFERS");
    failed += !ok;
  }
  failed += full_lists(argc, argv);
  failed += lines(argc, argv) + hybrids(argc, argv);
  printf("%u differ\n", failed);
  return failed != 0;
}
