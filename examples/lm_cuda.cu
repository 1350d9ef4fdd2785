/* lm_cuda.cu: lm.c with the model on a GPU. The same options, files and pictures, and two more:
 * --products float is the reference tier of miras_cuda.cuh, fast its fast tier, in bfloat16 on
 * matrix units; without it the fast tier runs where it has all of the model, and a line says which
 * does; --plan prints which operations that has kernels for.
 *
 *     nvcc -O3 -rdc=true -arch=sm_90 examples/lm_cuda.cu -o lm_cuda && ./lm_cuda
 *
 * for every GPU at once: -gencode arch=compute_80,code=sm_80 and so on for sm_90, sm_100, sm_120.
 * With -fmad=false and --products float a run reaches the very bits that lm.c reaches on a CPU with
 * fused multiply-add, but for the last digits of printed losses and for attention layers.
 *
 * All of lm.c is included behind the names below, which stand for what it calls: a trainer and its
 * model on the device beside those of the host, which files are read into and written from, and
 * sessions on the device. */
#define MIRAS_IMPLEMENTATION
#define MIRAS_PTHREADS
#include "../miras.h"
#define MIRAS_CUDA_REFERENCE
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"
#include <stdio.h>

/* The first thing that fails ends the program. */
static void must(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "lm_cuda: the GPU cannot %s\n", what);
  exit(1);
}

static void *on_device(size_t bytes) {
  void *p = NULL;
  must(cudaMalloc(&p, bytes + 64) == cudaSuccess, "give that much memory");
  return p;
}

static void send(void *to, const void *from, size_t bytes) {
  must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, 0) == cudaSuccess, "be reached");
}

static void bring(void *to, const void *from, size_t bytes) {
  must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, 0) == cudaSuccess &&
         cudaDeviceSynchronize() == cudaSuccess, "finish what it was asked to do");
}

typedef struct place {             /* a model on the device                                       */
  miras_cuda_model g;
  void *memory;
} place;

static const char *products;       /* NULL: fast, where that has all of the model                 */
static int plan;
#define LM_MORE_OPTIONS \
  {"products", "tge", 's', &products, 0, 0, \
   "float: the bits of lm; fast: the fast tier, in bfloat16 on matrix units (that, where it has " \
   "all of the model)"}, \
  {"plan", "tge", 'f', &plan, 0, 0, "print what the fast tier has of the model, and end"},

static int is_fast(void) { return products && !strcmp(products, "fast"); }

/* The bytes that the fast tier takes; 0, and a sentence in why: the model or the device is not for
 * it. Where --products says nothing the fast tier runs, unless that is so. */
static size_t choose(size_t bytes, char *why, size_t why_size) {
  static int said;
  if (bytes && !miras_cuda_fast_runs(why, why_size)) bytes = 0;
  if (products) return bytes;
  products = bytes ? "fast" : "float";
  if (!said++)
    fprintf(stderr, "lm_cuda: the %s tier%s%s\n", bytes ? "fast" : "reference",
            bytes ? ", in bfloat16" : ", in float: ", bytes ? "" : why);
  return bytes;
}

/* Every operation of every layer that is unlike the ones before: fast, or why not. */
static void print_plan(const miras_model *m) {
  const int layers = miras_model_desc_of(m)->layers;
  char text[200], before[200] = "";
  int l, i, is, fast = 0, all = 0;
  for (l = 0; l < layers; l++)
    for (i = 0; (is = miras_cuda_fast_op(m, l, i, text, sizeof text)) >= 0; i++) {
      all++, fast += is;
      if (l == 0 || (!is && strcmp(text, before)))
        printf("layer %d  %-10s%s\n", l, is ? "fast" : "reference", text);
      if (!is) strcpy(before, text);
    }
  printf("%d of %d operations are fast: %s\n", fast, all,
         miras_model_desc_of(m)->weights ? "it trains models in float"
         : fast == all                   ? "the fast tier trains this model"
                                         : "the fast tier trains models whose operations all are");
  if (miras_cuda_fast_session_size(m, 1, text, sizeof text))
    printf("the fast tier has sessions of it, its weights %s\n",
           miras_model_desc_of(m)->weights == MIRAS_WEIGHTS_Q8 ? "q8" : "bf16");
  else printf("the fast tier has no sessions of it: %s\n", text);
}

/* The model's bytes. */
static size_t room_of(const miras_model *m) {
  char why[256];
  size_t bytes;
  if (products && strcmp(products, "float") && !is_fast()) {
    fprintf(stderr, "lm_cuda: --products is \"%s\"; it must be float or fast\n", products);
    exit(2);
  }
  bytes = miras_cuda_model_size(m, why, sizeof why);
  if (!bytes) fprintf(stderr, "lm_cuda: %s\n", why);
  must(bytes > 0, "run this model");
  return bytes;
}

static place place_model(const miras_model *m) {
  const size_t bytes = room_of(m);
  place p;
  p.memory = on_device(bytes);
  must(miras_cuda_model_init(&p.g, m, p.memory, bytes, 0) == MIRAS_OK, "hold the model");
  return p;
}

/* ---- training ---- */

typedef struct cuda_trainer {
  miras_trainer *host;             /* moments, steps and streams on their way to and from files   */
  miras_model *m;
  place there;
  miras_cuda_trainer t;
  miras_cuda_fast fast;            /* in its place, with --products fast                          */
  miras_trainer_desc desc;
  void *memory;
  int32_t *tokens, *targets, *rows;           /* on the device                                    */
  unsigned char *fresh;
  float *said;
} cuda_trainer;

static cuda_trainer *training_now; /* whose parameters are ahead of its model's                   */

static cuda_trainer *cuda_trainer_open(miras_model *m, const miras_trainer_desc *d,
                                       const miras_allocator *allocator, char *why,
                                       size_t why_size) {
  cuda_trainer *t = (cuda_trainer *)calloc(1, sizeof *t);
  miras_trainer_desc room = *d;
  size_t bytes, n;
  if (!t) return NULL;
  t->m = m;
  t->desc = *d;
  room.parallel = NULL;
  room.batch = room.context = 1;
  t->host = miras_trainer_open(m, &room, allocator, why, why_size);
  if (!t->host) return NULL;
  if (plan) {
    print_plan(m);
    exit(0);
  }
  room.batch = d->batch, room.context = d->context;
  bytes = choose(miras_cuda_fast_size(m, &room, why, why_size), why, why_size);
  if (!is_fast()) {
    t->there = place_model(m);
    bytes = miras_cuda_trainer_size(&t->there.g, &room, why, why_size);
  }
  if (!bytes) return NULL;
  t->memory = on_device(bytes);
  must((is_fast() ? miras_cuda_fast_init(&t->fast, m, &room, t->memory, bytes, 0)
                  : miras_cuda_trainer_init(&t->t, &t->there.g, &room, t->memory, bytes, 0)) ==
         MIRAS_OK, "hold the trainer");
  n = (size_t)room.batch * (size_t)room.context;
  t->tokens = (int32_t *)on_device((2 * n + 2 * (size_t)room.batch) * sizeof(int32_t));
  t->targets = t->tokens + n;
  t->rows = t->targets + n;
  t->fresh = (unsigned char *)(t->rows + room.batch);
  t->said = (float *)on_device(2 * sizeof(float));
  return training_now = t;
}

/* The host's model and trainer are as those of the device. */
static void catch_up(const cuda_trainer *t) {
  must((is_fast() ? miras_cuda_fast_copy(t->m, &t->fast, 0) == MIRAS_OK &&
                      miras_cuda_fast_trainer_copy(t->host, &t->fast, 0) == MIRAS_OK
                  : miras_cuda_model_copy(t->m, &t->there.g, 0) == MIRAS_OK &&
                      miras_cuda_trainer_copy(t->host, &t->t, 0) == MIRAS_OK) &&
         cudaDeviceSynchronize() == cudaSuccess, "give back what it learned");
}

static void cuda_close(void *object) { miras_close(object); }

static void cuda_close(cuda_trainer *t) {
  if (!t) return;
  catch_up(t);
  miras_close(t->host);
  cudaFree(t->there.memory), cudaFree(t->memory), cudaFree(t->tokens), cudaFree(t->said);
  if (training_now == t) training_now = NULL;
  free(t);
}

static miras_result cuda_load(cuda_trainer *t, const char *path, char *why, size_t why_size) {
  const miras_result result = miras_load(t->host, path, why, why_size);
  size_t bytes;
  if (result != MIRAS_OK) return result;
  if (is_fast()) {
    bytes = miras_cuda_fast_size(t->m, &t->desc, NULL, 0);
    must(miras_cuda_fast_init(&t->fast, t->m, &t->desc, t->memory, bytes, 0) == MIRAS_OK &&
           miras_cuda_fast_trainer_send(&t->fast, t->host, 0) == MIRAS_OK,
         "take what a file holds");
    return MIRAS_OK;
  }
  bytes = room_of(t->m);
  must(miras_cuda_model_init(&t->there.g, t->m, t->there.memory, bytes, 0) == MIRAS_OK &&
         miras_cuda_trainer_send(&t->t, t->host, 0) == MIRAS_OK,
       "take what a file holds");
  return MIRAS_OK;
}

static miras_result cuda_save(const cuda_trainer *t, const char *path) {
  catch_up(t);
  return miras_save(t->host, path);
}

static miras_result cuda_save(const miras_model *m, const char *path) {
  if (training_now && training_now->m == m) catch_up(training_now);
  return miras_save(m, path);
}

static miras_result cuda_trainer_loss(cuda_trainer *t, const miras_batch *x, int train,
                                      float *loss) {
  const size_t rows = (size_t)x->batch, bytes = rows * (size_t)x->length * sizeof *x->tokens;
  miras_batch there = *x;
  there.tokens = t->tokens, there.classes = t->targets;
  send(t->tokens, x->tokens, bytes);
  send(t->targets, x->classes, bytes);
  if (x->carry) send(t->rows, x->carry, rows * sizeof *x->carry), there.carry = t->rows;
  if (x->restart) send(t->fresh, x->restart, rows), there.restart = t->fresh;
  must((is_fast() ? miras_cuda_fast_loss(&t->fast, &there, train, t->said, 0)
                  : miras_cuda_trainer_loss(&t->t, &there, train, t->said, 0)) == MIRAS_OK,
       "run the model");
  bring(loss, t->said, sizeof *loss);
  return MIRAS_OK;
}

static miras_result cuda_trainer_backward(cuda_trainer *t, const miras_batch_grad *g) {
  return is_fast() ? miras_cuda_fast_backward(&t->fast, 0)
                   : miras_cuda_trainer_backward(&t->t, g, 0);
}

static miras_result cuda_trainer_step(cuda_trainer *t, const miras_adamw_options *o, float rate,
                                      float *norm) {
  must((is_fast() ? miras_cuda_fast_step(&t->fast, o, rate, t->said + 1, 0)
                  : miras_cuda_trainer_step(&t->t, o, rate, t->said + 1, 0)) == MIRAS_OK,
       "take a step");
  if (norm) bring(norm, t->said + 1, sizeof *norm);
  return MIRAS_OK;
}

static uint64_t cuda_trainer_steps(const cuda_trainer *t) {
  catch_up(t);
  return miras_trainer_steps(t->host);
}

static const miras_trainer_desc *cuda_trainer_desc_of(const cuda_trainer *t) { return &t->desc; }

/* ---- sessions ---- */

enum { PIECE = 64 };

typedef struct cuda_session {
  miras_cuda_session s;
  miras_cuda_fast_session fast;    /* in its place, if `quick`                                    */
  int quick;
  place there;
  void *memory;
  int32_t *tokens;                 /* [PIECE] on the device                                       */
  float *out, *logits;             /* [PIECE, vocab] there and here                               */
  size_t vocab;
} cuda_session;

static cuda_session *cuda_session_open(const miras_model *m, const miras_session_desc *,
                                       const miras_allocator *, char *, size_t) {
  cuda_session *s = (cuda_session *)calloc(1, sizeof *s);
  char why[256] = "";
  size_t bytes;
  if (!s) return NULL;
  if (training_now && training_now->m == m) catch_up(training_now);
  if (plan) {
    print_plan(m);
    exit(0);
  }
  bytes = choose(miras_cuda_fast_session_size(m, 1, why, sizeof why), why, sizeof why);
  s->quick = is_fast() && bytes;
  if (!s->quick) {
    s->there = place_model(m);
    bytes = miras_cuda_session_size(&s->there.g, 1, PIECE);
  }
  must(bytes > 0, "hold a session");
  s->memory = on_device(bytes);
  must((s->quick ? miras_cuda_fast_session_init(&s->fast, m, 1, s->memory, bytes, 0)
                 : miras_cuda_session_init(&s->s, &s->there.g, 1, PIECE, s->memory, bytes, 0)) ==
         MIRAS_OK, "hold a session");
  s->vocab = (size_t)miras_model_desc_of(m)->vocab;
  s->tokens = (int32_t *)on_device(PIECE * sizeof *s->tokens);
  s->out = (float *)on_device(PIECE * s->vocab * sizeof *s->out);
  s->logits = (float *)malloc(PIECE * s->vocab * sizeof *s->logits);
  return s->logits ? s : NULL;
}

static void cuda_close(cuda_session *s) {
  if (!s) return;
  cudaFree(s->there.memory), cudaFree(s->memory), cudaFree(s->tokens), cudaFree(s->out);
  free(s->logits);
  free(s);
}

static const float *feed(cuda_session *s, const int32_t *tokens, size_t n, size_t rows) {
  send(s->tokens, tokens, n * sizeof *tokens);
  must((s->quick ? miras_cuda_fast_session_feed(&s->fast, s->tokens, (int)n, s->out, (int)rows, 0)
                 : miras_cuda_session_feed(&s->s, s->tokens, NULL, (int)n, s->out, (int)rows, 0)) ==
         MIRAS_OK, "run the model");
  if (rows) bring(s->logits, s->out, rows * s->vocab * sizeof *s->out);
  return s->logits;
}

static const float *cuda_session_feed(cuda_session *s, const int32_t *tokens, const float *vectors,
                                      size_t count) {
  const float *logits = NULL;
  size_t n;
  must(!vectors, "read vectors: lm has words alone");
  for (; count; tokens += n, count -= n) {
    n = count < PIECE ? count : PIECE;
    logits = feed(s, tokens, n, n == count);
  }
  return logits;
}

static const float *cuda_session_step(cuda_session *s, int32_t token) {
  return feed(s, &token, 1, 1);
}

static miras_result cuda_session_score(cuda_session *s, const int32_t *tokens,
                                       const int32_t *targets, size_t count, double *loss) {
  double total = 0;
  size_t n, t, i;
  for (; count; tokens += n, targets += n, count -= n) {
    const float *x;
    n = count < PIECE ? count : PIECE;
    x = feed(s, tokens, n, n);
    for (t = 0; t < n; t++, x += s->vocab) {
      double top = (double)x[0], sum = 0;
      if (targets[t] < 0) continue;
      for (i = 1; i < s->vocab; i++) top = (double)x[i] > top ? (double)x[i] : top;
      for (i = 0; i < s->vocab; i++) sum += exp((double)x[i] - top);
      total += log(sum) + top - (double)x[targets[t]];
    }
  }
  *loss = total;
  return MIRAS_OK;
}

static void cuda_session_reset(cuda_session *s) {
  must((s->quick ? miras_cuda_fast_session_reset(&s->fast, -1, 0)
                 : miras_cuda_session_reset(&s->s, -1, 0)) == MIRAS_OK, "begin anew");
}

static void *cuda_session_state(cuda_session *s, size_t *bytes) {
  return s->quick ? miras_cuda_fast_session_state(&s->fast, 0, bytes)
                  : miras_cuda_session_state(&s->s, 0, bytes);
}

#define miras_close cuda_close
#define miras_load cuda_load
#define miras_save cuda_save
#define miras_trainer cuda_trainer
#define miras_trainer_open cuda_trainer_open
#define miras_trainer_loss cuda_trainer_loss
#define miras_trainer_backward cuda_trainer_backward
#define miras_trainer_step cuda_trainer_step
#define miras_trainer_steps cuda_trainer_steps
#define miras_trainer_desc_of cuda_trainer_desc_of
#define miras_session cuda_session
#define miras_session_open cuda_session_open
#define miras_session_feed cuda_session_feed
#define miras_session_step cuda_session_step
#define miras_session_score cuda_session_score
#define miras_session_reset cuda_session_reset
#define miras_session_state cuda_session_state
#include "lm.c"
