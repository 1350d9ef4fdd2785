/* test_cuda_fast.cpp: the fast tier of miras_cuda.cuh, emulated or on a card. Every operation of the
 * list, forward and back, against its formula in double of the same rounded inputs, at sizes around
 * those of tiles and chunks; the chunk kernels and the step for one token against the recurrence
 * itself and the adjoint of its every step; then whole models against the host: loss, gradients of
 * each parameter, a step, and the same bits once more and in another batch.
 *   c++ -std=c++14 -O1 tests/test_cuda_fast.cpp -o test_cuda_fast -lm && ./test_cuda_fast
 *   nvcc -O3 -arch=native -x cu tests/test_cuda_fast.cpp -o test_cuda_fast && ./test_cuda_fast
 * Rows as arguments run only these; "ops", "chunks", "token": those alone. */
#ifndef __CUDACC__
  #include "cuda_shim.h"
#endif
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "calls.h"
#define MIRAS_CUDA_NO_REFERENCE
#define MIRAS_CUDA_FAST
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#define MIRAS_TEST_DEVICE (1 << 28)
#include "cuda_device.h"
#include <stdio.h>

static unsigned failed;

static uint64_t drawn = 7;
static float draw(float low, float high) {
  drawn = miras__hash(drawn);
  return low + (high - low) * (float)(drawn >> 40) / 16777216.0f;
}

static void *send(const void *p, size_t bytes) {
  void *to = take(bytes / 4 + 1);
  STOP_IF(cudaMemcpyAsync(to, p, bytes, cudaMemcpyHostToDevice, 0));
  return to;
}
static void fetch(void *to, const void *from, size_t bytes) {
  STOP_IF(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, 0));
  STOP_IF(cudaDeviceSynchronize());
}

/* ---- whole models ---- */

enum { BATCH = 2, MOST = 130, WORDS = 37 };

/* Of two vectors: the cosine, and how far their lengths are apart. */
static double cosine(const float *a, const float *b, size_t n, double *length) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < n; i++) {
    ab += (double)a[i] * (double)b[i];
    aa += (double)a[i] * (double)a[i], bb += (double)b[i] * (double)b[i];
  }
  *length = aa > 0 ? sqrt(bb / aa) : bb > 0 ? 2 : 1;
  return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : aa > 0 || bb > 0 ? 0 : 1;
}

/* What a call has made of a model: loss, norm, gradients and parameters behind a step. */
typedef struct model_made {
  float loss, norm;
  float *grads, *params;
} model_made;

static int run_fast(miras_model *m, const int32_t *tokens, int batch, int length, model_made *to) {
  const size_t n = (size_t)(batch * length);
  miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
  miras_cuda_fast f;
  miras_trainer_desc d;
  miras_batch x;
  size_t bytes, count;
  char why[256];
  float *said;
  memset(&d, 0, sizeof d);
  memset(&x, 0, sizeof x);
  d.batch = batch, d.context = MOST;
  bytes = miras_cuda_fast_size(m, &d, why, sizeof why);
  if (!bytes) return printf("refused: %s\n", why), 0;
  take_back();
  said = take(2);
  if (miras_cuda_fast_init(&f, m, &d, take(bytes / 4 + 64), bytes, 0) != MIRAS_OK)
    return puts("does not begin"), 0;
  x.batch = batch, x.length = length;
  x.tokens = (const int32_t *)send(tokens, n * 4);
  x.classes = (const int32_t *)send(tokens + n, n * 4);
  if (miras_cuda_fast_loss(&f, &x, 1, said, 0) != MIRAS_OK ||
      miras_cuda_fast_backward(&f, 0) != MIRAS_OK)
    return puts("does not run"), 0;
  (void)miras_cuda_fast_params(&f, &count);
  to->grads = (float *)malloc(count * 4), to->params = (float *)malloc(count * 4);
  if (!to->grads || !to->params) exit(2);
  fetch(to->grads, miras_cuda_fast_grads(&f, NULL), count * 4);
  if (miras_cuda_fast_step(&f, &o, 0.01f, said + 1, 0) != MIRAS_OK) return puts("no step"), 0;
  fetch(to->params, miras_cuda_fast_params(&f, NULL), count * 4);
  fetch(&to->loss, said, 4);
  fetch(&to->norm, said + 1, 4);
  return 1;
}

typedef struct model_case {
  const char *name;
  miras_preset preset;
  int dk, dv, heads, qk_heads, length, mlp, tied_norm;
  float dropout;
} model_case;

static void model(const model_case *c) {
  static int32_t tokens[2 * BATCH * MOST];
  const size_t n = (size_t)(BATCH * c->length);
  miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
  miras_model_desc d;
  miras_trainer_desc td;
  miras_model *m;
  miras_trainer *t;
  miras_batch x;
  model_made once, again;
  char why[256];
  float loss, *params, norm;
  double worst = 1, length, far = 0, whole;
  size_t count, i;
  if (miras_model_preset(&d, c->preset, 2) != MIRAS_OK) exit(2);
  d.width = 64, d.vocab = WORDS, d.dropout = c->dropout;
  d.layer[0].memory.heads = c->heads;
  d.layer[0].memory.key_dim = c->dk, d.layer[0].memory.value_dim = c->dv;
  d.layer[0].mixer.qk_heads = c->qk_heads;
  m = miras_model_open(&d, NULL, why, sizeof why);
  if (!m) {
    printf("%s: %s\n", c->name, why);
    failed++;
    return;
  }
  params = miras_model_params(m, &count);
  drawn = 11;
  for (i = 0; i < (size_t)m->view_count; i++)
    for (size_t j = 0; j < m->views[i].count; j++)
      params[m->views[i].offset + j] += draw(-0.1f, 0.1f);
  for (i = 0; i < 2 * n; i++) tokens[i] = (int32_t)(draw(0, 0.999f) * draw(0, 1) * WORDS);
  tokens[n + 3] = -1;
  memset(&td, 0, sizeof td);
  memset(&x, 0, sizeof x);
  td.batch = BATCH, td.context = MOST;
  t = miras_trainer_open(m, &td, NULL, why, sizeof why);
  if (!t) exit(2);
  if (!run_fast(m, tokens, BATCH, c->length, &once) ||
      !run_fast(m, tokens, BATCH, c->length, &again)) {
    printf("%s\n", c->name);
    failed++;
    return;
  }
  x.batch = BATCH, x.length = c->length, x.tokens = tokens, x.classes = tokens + n;
  if (miras_trainer_loss(t, &x, 1, &loss) != MIRAS_OK ||
      miras_trainer_backward(t, NULL) != MIRAS_OK)
    exit(2);
  printf("%-20s %3d x %3d, %d of %d heads, %3d tokens: loss %.5f, host %.5f", c->name, c->dk, c->dv,
         c->qk_heads ? c->qk_heads : c->heads, c->heads, c->length, (double)once.loss,
         (double)loss);
  if (!(fabs((double)once.loss - (double)loss) < 0.01 * (double)loss)) {
    printf(" DIFFERS");
    failed++;
  }
  for (i = 0; i < (size_t)m->view_count; i++) {
    const miras_view *v = &m->views[i];
    const double is = cosine(miras_trainer_grads(t) + v->offset, once.grads + v->offset, v->count,
                             &length);
    double size = 0;
    for (size_t j = 0; j < v->count; j++)
      size += (double)once.grads[v->offset + j] * (double)once.grads[v->offset + j];
    size = sqrt(size);               /* small ones are what cancels: the whole counts             */
    if (size > 0.01 * (double)once.norm && is < worst) worst = is;
    if (size > 0.01 * (double)once.norm && fabs(length - 1) > far) far = fabs(length - 1);
    if (size > 0.01 * (double)once.norm && (is < 0.99 || fabs(length - 1) > 0.06)) {
      printf("\n  %s: cosine %.5f, length %.4f", v->name, is, length);
      failed++;
    }
  }
  whole = cosine(miras_trainer_grads(t), once.grads, count, &length);
  if (whole < 0.998 || fabs(length - 1) > 0.01) {
    printf("\n  all of it: cosine %.5f, length %.4f", whole, length);
    failed++;
  }
  (void)miras_trainer_step(t, &o, 0.01f, &norm);
  if (memcmp(once.grads, again.grads, count * 4) || memcmp(once.params, again.params, count * 4)) {
    printf("\n  other bits the second time");
    failed++;
  }
  if (fabs((double)once.norm - (double)norm) > 0.02 * (double)norm) {
    printf("\n  norm %g, host %g", (double)once.norm, (double)norm);
    failed++;
  }
  printf("; cosine %.5f, of each >= %.5f, lengths within %.4f\n", whole, worst, far);
  free(once.grads), free(once.params), free(again.grads), free(again.params);
  miras_close(t);
  miras_close(m);
}

static const model_case models[] = {
  {"linear-attention", MIRAS_PRESET_LINEAR_ATTENTION, 32, 32, 2, 0, 65, 1, 0, 0},
  {"retnet", MIRAS_PRESET_RETNET, 32, 64, 2, 0, 64, 1, 0, 0},
  {"deltanet", MIRAS_PRESET_DELTANET, 64, 32, 1, 0, 130, 1, 0, 0},
  {"gated-deltanet", MIRAS_PRESET_GATED_DELTANET, 32, 64, 2, 1, 70, 1, 0, 0.1f},
  {"mamba2", MIRAS_PRESET_MAMBA2, 32, 32, 2, 1, 17, 1, 0, 0}
};

int main(int argc, char **argv) {
  if (!device_ready()) {
    puts("skipped: there is no device");
    return 77;
  }
  for (unsigned i = 0; i < sizeof models / sizeof *models; i++)
    if (argc < 2 || asked(argc, argv, models[i].name)) model(&models[i]);
  printf("%u wrong\n", failed);
  if (shim_findings()) printf("%u races\n", shim_findings());
  return failed || shim_findings();
}
