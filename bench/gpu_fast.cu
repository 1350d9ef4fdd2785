/* gpu_fast.cu: how fast the fast tier of miras_cuda.cuh is on this GPU, and how near to what it can
 * do.
 *   nvcc -O3 -std=c++14 -arch=native -w bench/gpu_fast.cu -o gpu_fast && ./gpu_fast
 *   PEAK=790   TFLOP/s of the matrix units that fractions are reckoned with (an H200, bf16)
 *   ONLY=ops, memory, attention, experts, token, session or step
 *   PRESET=gated-deltanet   of the model, 12 layers of width 768, 12 heads of 64, 50,304 words, in
 *              8 texts of 1,024 tokens
 * All calls are replayed as graphs: 5 times to warm up, then 30 times; medians.
 *   ops     each operation of a layer, there and back: microseconds; what a copy of the rows that
 *           it reads and writes, once each, takes of that; of products what the peak would take
 *   memory  matrix memories on their own, there and back: 4 texts of 8,192 tokens, 32 heads of
 *           128 x 128 (16 of keys), with errors and a decay per head, and one per channel; 1 text,
 *           8, 16 and 32 heads, in one piece and in segments, side by side; and the
 *           operations of titans and ttt-mlp: 8 of 1,024, 12 heads of 64, 256 hidden, 6 of 128, 512
 *           hidden; of 2 texts in clusters of 1, 2 and 4 blocks; and of 8 in chunks of 64, 256
 *           and 1,024
 *   attention   of 4 texts of 8,192 tokens that see all before them, 32 heads of 128, 8 of keys
 *   experts 64 of 512 hidden numbers, 8 for each of 8 times 1,024 tokens of width 1024
 *   token   decoding: states of 256 MB and more, of which a copy takes a fraction of the time
 *   session a token of 1 and of 8 texts through the model, its weights bf16 and q8, and what a copy
 *           of its matrices takes
 *   step    loss, gradient and AdamW: tokens in a second */
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
static size_t few = 32;              /* heads and 64 columns of values, up to which texts are cut */
#define MIRAS__FAST_FEW few
#define MIRAS__FAST_SEGMENT 16
static size_t cluster;               /* blocks of a perceptron's; 0: as its sizes say             */
static int chunk;                    /* tokens of a perceptron's; 0: as its row has them          */
#define MIRAS__FAST_CLUSTER cluster
#define MIRAS_CUDA_IMPLEMENTATION
#include "../miras_cuda.cuh"

static int experts;                  /* of the next model                                         */

static cudaStream_t stream;
static double copies;                /* bytes that a copy reads and writes in a second            */

static void must(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "gpu_fast: %s: %s\n", what, cudaGetErrorString(cudaGetLastError()));
  exit(1);
}
static void *take(size_t bytes) {
  void *p = NULL;
  must(cudaMalloc(&p, bytes + 256) == cudaSuccess, "no memory");
  return p;
}
static double peak(void) { return 1e12 * (getenv("PEAK") ? atof(getenv("PEAK")) : 790); }
static int asked(const char *what) { return !getenv("ONLY") || !strcmp(getenv("ONLY"), what); }

/* Seconds that what `queue` puts into the stream takes, as a graph. */
template <class Q> static double timed(Q queue) {
  cudaGraph_t graph;
  cudaGraphExec_t run;
  cudaEvent_t from, to;
  std::vector<float> ms;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess, "capture");
  queue();
  must(cudaStreamEndCapture(stream, &graph) == cudaSuccess &&
         cudaGraphInstantiate(&run, graph, 0) == cudaSuccess, "capture");
  cudaEventCreate(&from), cudaEventCreate(&to);
  for (int i = -5; i < 30; i++) {
    float one;
    cudaEventRecord(from, stream);
    must(cudaGraphLaunch(run, stream) == cudaSuccess, "a launch");
    cudaEventRecord(to, stream);
    must(cudaEventSynchronize(to) == cudaSuccess, "a run");
    cudaEventElapsedTime(&one, from, to);
    if (i >= 0) ms.push_back(one);
  }
  std::sort(ms.begin(), ms.end());
  cudaEventDestroy(from), cudaEventDestroy(to);
  cudaGraphExecDestroy(run), cudaGraphDestroy(graph);
  return (double)ms[ms.size() / 2] / 1000;
}

static miras_model *model_of(miras_preset kind, int layers, int width, int heads, int size,
                             int words, miras_weights weights = MIRAS_WEIGHTS_FLOAT) {
  miras_model_desc d;
  char why[256];
  miras_model *m;
  must(miras_model_preset(&d, kind, layers) == MIRAS_OK, "no such row");
  d.width = width, d.vocab = words, d.weights = weights;
  d.layer[0].memory.heads = heads;
  d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = size;
  if (chunk) d.layer[0].memory.chunk = chunk;
  d.layer[0].mlp.experts = experts;
  if (experts) d.layer[0].mlp.experts_per_token = 8, d.layer[0].mlp.hidden = 512;
  if (heads < 0) {                   /* attention alone                                           */
    d.layer[0].memory.heads = 1;
    d.layer[2].attention.heads = -heads, d.layer[2].attention.kv_heads = -heads / 4;
    d.layer[2].attention.head_dim = size, d.layer[2].attention.window = 8192;
    memcpy(d.pattern, "a", 2);
  }
  m = miras_model_open(&d, NULL, why, sizeof why);
  if (!m) fprintf(stderr, "gpu_fast: %s\n", why);
  must(m != NULL, "the model");
  return m;
}

/* A model on the device, and tokens for it. */
struct place {
  miras_cuda_fast fast;
  miras_batch x;
  void *memory, *tokens;
};
static void place_model(place *p, const miras_model *m, int batch, int length) {
  const size_t n = (size_t)batch * (size_t)length;
  const int words = miras_model_desc_of(m)->vocab;
  std::vector<int32_t> tokens(n);
  miras_trainer_desc d;
  char why[256] = "";
  size_t bytes;
  memset(&d, 0, sizeof d);
  d.batch = batch, d.context = length;
  bytes = miras_cuda_fast_size(m, &d, why, sizeof why);
  if (!bytes) fprintf(stderr, "gpu_fast: %s\n", why);
  must(bytes > 0, "the model");
  p->memory = take(bytes);
  must(miras_cuda_fast_init(&p->fast, m, &d, p->memory, bytes, stream) == MIRAS_OK, "init");
  for (size_t i = 0; i < n; i++) tokens[i] = (int32_t)((unsigned)i * 2654435761u >> 8) % words;
  for (size_t i = 0; i < n; i++) tokens[i] = tokens[i] < 0 ? -tokens[i] : tokens[i];
  p->tokens = take(n * 4);
  cudaMemcpy(p->tokens, tokens.data(), n * 4, cudaMemcpyHostToDevice);
  memset(&p->x, 0, sizeof p->x);
  p->x.batch = batch, p->x.length = length;
  p->x.tokens = p->x.classes = (const int32_t *)p->tokens;
  must(cudaStreamSynchronize(stream) == cudaSuccess, "init");
  printf("%zu parameters, %.1f GB of the device, %d texts of %d tokens\n",
         (size_t)miras__fast_of(&p->fast)->m->learned, (double)bytes / 1e9, batch, length);
}
static void leave(place *p) { cudaFree(p->memory), cudaFree(p->tokens); }

/* Bytes of rows that an operation reads and writes; and what it multiplies. */
static double bytes_of(const miras__fast_layer *a, const miras__op *o) {
  double all = (double)o->cols * o->heads * 2;
  for (int i = 0; i < 2; i++)
    if (o->in[i]) all += (double)(o->what == MIRAS__OP_TIMES ? a->p->param[o->param].rows
                                  : o->what == MIRAS__OP_CONV ? o->cols
                                                              : a->p->array[o->in[i]].dim) * 2;
  if (o->what == MIRAS__OP_CONV)
    all = 4.0 * a->p->array[o->out].heads * a->p->array[o->out].dim;
  if (o->what == MIRAS__OP_ATTEND) all = 4.0 * (double)(a->p->attending.q + a->p->attending.k);
  if (o->what == MIRAS__OP_MEMORY)
    all = 2.0 * (2 * a->p->mixer.qk + 2 * a->p->mixer.value);
  return all * (double)a->rows;
}
static double work_of(const miras__fast_layer *a, const miras__op *o) {
  const miras__param *w = &a->p->param[o->param];
  if (o->what == MIRAS__OP_TIMES || o->what == MIRAS__OP_BRANCH)
    return 2.0 * (double)a->rows * w->rows * (double)miras__columns_of(a->p, w);
  if (o->what == MIRAS__OP_MEMORY && a->p->mixer.plan.engine == MIRAS__RUN_FROZEN)
    return (a->p->mixer.plan.at.s ? 22.0 : 14.0) * (double)a->rows * a->p->mixer.heads *
           a->p->mixer.dk * a->p->mixer.plan.out[0];
  if (o->what == MIRAS__OP_EXPERTS)
    return 6.0 * (double)a->rows * a->p->mlp.paths * (double)(a->p->mlp.hidden * a->p->width);
  if (o->what == MIRAS__OP_ATTEND)   /* half of the pairs of a text: window is all of it          */
    return 2.0 * (double)a->rows * (double)a->f->length * (double)a->p->attending.q;
  if (o->what == MIRAS__OP_MEMORY)
    return 6.0 * (double)a->rows * a->p->mixer.heads * a->p->mixer.dk * a->p->mixer.dv;
  return 0;
}
static void time_op(place *p, int index) {
  miras__fast *f = miras__fast_of(&p->fast);
  const miras__fast_layer a = miras__fast_layer_of(f, 0);
  const miras__op *o = &a.p->op[index];
  double there, back, bytes = bytes_of(&a, o), work = work_of(&a, o);
  if (o->what == MIRAS__OP_TAIL || (o->what == MIRAS__OP_LENGTH && miras__fast_conv_before(a.p, o)))
    return;
  f->stream = stream;
  there = timed([&] { miras__fast_run(&a, o, 0); });
  back = timed([&] { miras__fast_run(&a, o, 1); });
  must(!f->failed, "an operation");
  printf("%-10s %-6s %9.1f %9.1f us   copy %4.2f %4.2f", miras__ops[o->what].word,
         a.p->array[o->out].name, 1e6 * there, 1e6 * back, bytes / copies / there,
         2 * bytes / copies / back);
  if (work > 0)
    printf("   peak %4.2f %4.2f", work / peak() / there, 2 * work / peak() / back);
  puts("");
}

/* A memory's operation, of so many texts; heads below 0: attention's; or experts'. */
static void time_memory(miras_preset kind, int texts, int tokens, int heads, int size) {
  const int what = experts ? MIRAS__OP_EXPERTS : heads < 0 ? MIRAS__OP_ATTEND : MIRAS__OP_MEMORY;
  miras_model *m = model_of(kind, 1, experts ? 1024 : 256, heads, size, 256);
  place p;
  float *said = (float *)take(8);
  printf("%s: ", miras_preset_name(kind));
  place_model(&p, m, texts, tokens);
  must(miras_cuda_fast_loss(&p.fast, &p.x, 1, said, stream) == MIRAS_OK &&
         miras_cuda_fast_backward(&p.fast, stream) == MIRAS_OK &&
         cudaStreamSynchronize(stream) == cudaSuccess, "a pass");
  for (int i = 0; i < m->layers[0].p->ops; i++)
    if (m->layers[0].p->op[i].what == what) time_op(&p, i);
  leave(&p);
  cudaFree(said);
  miras_close(m);
}

/* Numbers on the device, drawn; bfloat16 where they have 2 bytes. */
static void *drawn(size_t n, int bytes, float low, float high) {
  std::vector<uint16_t> halves(bytes == 2 ? n : 0);
  std::vector<float> floats(bytes == 4 ? n : 0);
  void *const to = take(n * (size_t)bytes);
  for (size_t i = 0; i < n; i++) {
    const float x = low + (high - low) * (float)((uint32_t)i * 2654435761u >> 8) / 16777216.0f;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (bytes == 2) halves[i] = (uint16_t)(bits >> 16);
    else floats[i] = x;
  }
  cudaMemcpy(to, bytes == 2 ? (void *)halves.data() : (void *)floats.data(), n * (size_t)bytes,
             cudaMemcpyHostToDevice);
  return to;
}
static void time_alone(int channels, size_t texts, size_t heads, size_t parts) {
  const size_t rows = texts * 8192, values = rows * heads * 128, keys = values / 2;
  const size_t decays = channels ? values : rows * heads, states = texts * heads * 128 * 128;
  miras_cuda_fast_memory x;
  miras_cuda_fast_memory_grads g;
  size_t bytes;
  void *room;
  double there, back, all = 4.0 * ((double)keys + (double)values + (double)decays);
  memset(&x, 0, sizeof x);
  memset(&g, 0, sizeof g);
  few = parts ? 64 : 0;
  x.batch = (int)texts, x.length = 8192, x.heads = (int)heads, x.key_heads = (int)heads / 2;
  x.key_dim = x.value_dim = 128;
  x.channels = channels, x.delta = x.decay_first = 1;
  x.query = (uint16_t *)drawn(keys, 2, -0.1f, 0.1f);
  x.key = (uint16_t *)drawn(keys, 2, -0.1f, 0.1f);
  x.value = (uint16_t *)drawn(values, 2, -1, 1);
  x.decay = (float *)drawn(decays, 4, -0.2f, 0);
  x.step = (float *)drawn(rows * heads, 4, 0.1f, 0.9f);
  x.answer = (uint16_t *)take(2 * values), x.last = (float *)take(4 * states);
  g.answer = (uint16_t *)drawn(values, 2, -1, 1);
  g.query = (uint16_t *)take(2 * keys), g.key = (uint16_t *)take(2 * keys);
  g.value = (uint16_t *)take(2 * values), g.decay = (float *)take(4 * decays);
  g.step = (float *)take(4 * rows * heads), g.state = (float *)take(4 * states);
  bytes = miras_cuda_fast_memory_size(&x, 1);
  room = take(bytes);
  there = timed([&] {
    must(miras_cuda_fast_memory_forward(&x, room, bytes, stream) == MIRAS_OK, "a memory");
  });
  back = timed([&] {
    must(miras_cuda_fast_memory_backward(&x, &g, room, bytes, stream) == MIRAS_OK, "a memory");
  });
  printf("a memory, %d texts, %d heads, %s%s: there %.2f ms, back %.2f, %.2f and %.2f of a copy of "
         "its rows; %.1f GB\n", x.batch, x.heads, channels ? "a decay per channel"
         : "a decay per head", parts ? ", in segments" : "", 1e3 * there, 1e3 * back,
         all / copies / there, 2 * all / copies / back, (double)bytes / 1e9);
  few = 32;
  for (const void *p : {(const void *)x.query, (const void *)x.key, (const void *)x.value,
                        (const void *)x.decay, (const void *)x.step, (const void *)x.answer,
                        (const void *)x.last, (const void *)g.answer, (const void *)g.query,
                        (const void *)g.key, (const void *)g.value, (const void *)g.decay,
                        (const void *)g.step, (const void *)g.state, (const void *)room})
    cudaFree((void *)(uintptr_t)p);
}
static void time_session(miras_preset kind, const char *named, int texts, miras_weights weights) {
  miras_model *m = model_of(kind, 12, 768, 12, 64, 50304, weights);
  const double each = weights == MIRAS_WEIGHTS_Q8 ? 1.125 : 2;
  const size_t bytes = miras_cuda_fast_session_size(m, texts, NULL, 0);
  int32_t *tokens = (int32_t *)take(32);
  float *logits = (float *)take((size_t)texts * 50304 * 4);
  miras_cuda_fast_session s;
  void *room = take(bytes);
  double took;
  cudaMemset(tokens, 0, 32);
  must(bytes && miras_cuda_fast_session_init(&s, m, texts, room, bytes, stream) == MIRAS_OK,
       "a session");
  took = timed([&] {
    must(miras_cuda_fast_session_feed(&s, tokens, 1, logits, 1, stream) == MIRAS_OK, "a token");
  });
  printf("a token of %d texts of %s: %.1f us, %.2f of a copy of %.3f bytes a parameter\n", texts,
         named, 1e6 * took, 2 * each * (double)m->learned / copies / took, each);
  cudaFree(room), cudaFree(tokens), cudaFree(logits);
  miras_close(m);
}

static void time_token(int size) {
  const size_t heads = 32, n = (size_t)size, texts = ((size_t)256 << 20) / (heads * n * n * 4);
  miras_cuda_fast_row x;
  double took;
  memset(&x, 0, sizeof x);
  x.batch = (int)texts, x.heads = x.key_heads = (int)heads;
  x.key_dim = x.value_dim = size, x.delta = x.decay_first = 1;
  x.state = (float *)take(texts * heads * n * n * 4);
  cudaMemset(x.state, 0, texts * heads * n * n * 4);
  x.query = (uint16_t *)take(texts * heads * n * 2), x.key = x.value = x.query;
  cudaMemset((void *)x.query, 0, texts * heads * n * 2);
  x.answer = (uint16_t *)take(texts * heads * n * 2);
  x.keep = (float *)take(texts * heads * 4), x.step = x.keep;
  cudaMemset((void *)x.keep, 0, texts * heads * 4);
  took = timed([&] { must(miras_cuda_fast_token(&x, stream) == MIRAS_OK, "a token"); });
  printf("a token of %zu texts, 32 heads of %d x %d: %.1f us, %.2f of a copy\n", texts, size,
         size, 1e6 * took, 2.0 * (double)(texts * heads * n * n * 4) / copies / took);
  cudaFree(x.state), cudaFree((void *)x.query), cudaFree(x.answer), cudaFree((void *)x.keep);
}

int main(void) {
  const char *const named = getenv("PRESET") ? getenv("PRESET") : "gated-deltanet";
  int kind = 0;
  must(cudaStreamCreate(&stream) == cudaSuccess, "no device");
  {
    const size_t bytes = (size_t)1 << 30;
    char *from = (char *)take(bytes), *to = (char *)take(bytes);
    copies = 2.0 * (double)bytes / timed([&] {
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
    });
    printf("a copy: %.0f GB/s, read and written; peak taken as %.0f TFLOP/s\n", copies / 1e9,
           peak() / 1e12);
    cudaFree(from), cudaFree(to);
  }
  while (miras_preset_name((miras_preset)kind) &&
         strcmp(miras_preset_name((miras_preset)kind), named)) kind++;
  must(miras_preset_name((miras_preset)kind) != NULL, "no such row");
  if (asked("ops") || asked("step")) {
    miras_model *m = model_of((miras_preset)kind, 12, 768, 12, 64, 50304);
    place p;
    float *said = (float *)take(8), loss[2] = {0, 0};
    miras_adamw_options o = MIRAS_ADAMW(0.1f, 1);
    double took;
    int i;
    place_model(&p, m, 8, 1024);
    must(miras_cuda_fast_loss(&p.fast, &p.x, 1, said, stream) == MIRAS_OK &&
           miras_cuda_fast_backward(&p.fast, stream) == MIRAS_OK &&
           cudaStreamSynchronize(stream) == cudaSuccess, "a pass");
    for (i = 0; asked("ops") && i < m->layers[0].p->ops; i++) time_op(&p, i);
    if (asked("step")) {
      took = timed([&] {
        must(miras_cuda_fast_loss(&p.fast, &p.x, 1, said, stream) == MIRAS_OK &&
               miras_cuda_fast_backward(&p.fast, stream) == MIRAS_OK &&
               miras_cuda_fast_step(&p.fast, &o, 1e-3f, said + 1, stream) == MIRAS_OK, "a step");
      });
      cudaMemcpy(loss, said, 8, cudaMemcpyDeviceToHost);
      printf("a step of %s: %.2f ms, %.0f tokens/s, %.1f TFLOP/s; loss %.3f, norm %.3f behind 35\n",
             named, 1e3 * took, 8192 / took,
             6.0 * 8192 * (double)m->learned / took / 1e12, (double)loss[0], (double)loss[1]);
    }
    leave(&p);
    cudaFree(said);
    miras_close(m);
  }
  for (int channels = 0; asked("memory") && channels < 2; channels++)
    time_alone(channels, 4, 32, 0);
  for (size_t heads = 8; asked("memory") && heads <= 32; heads *= 2)
    time_alone(0, 1, heads, 0), time_alone(0, 1, heads, 1);
  if (asked("memory")) {
    time_memory(MIRAS_PRESET_TITANS, 8, 1024, 12, 64);
    time_memory(MIRAS_PRESET_TTT_MLP, 8, 1024, 12, 64);
    time_memory(MIRAS_PRESET_TITANS, 8, 1024, 6, 128);
    for (cluster = 1; cluster <= 4; cluster *= 2) {
      printf("in clusters of %d: ", (int)cluster);
      time_memory(MIRAS_PRESET_TITANS, 2, 1024, 12, 64);
    }
    cluster = 0;
    for (chunk = 64; chunk <= 1024; chunk *= 4) {
      printf("in chunks of %d: ", chunk);
      time_memory(MIRAS_PRESET_TITANS, 8, 1024, 12, 64);
    }
    chunk = 0;
  }
  if (asked("attention")) time_memory((miras_preset)kind, 4, 8192, -32, 128);
  experts = 64;
  if (asked("experts")) time_memory((miras_preset)kind, 8, 1024, 16, 64);
  experts = 0;
  for (int texts = 1; asked("session") && texts <= 8; texts *= 8)
    for (int q8 = 0; q8 < 2; q8++)
      time_session((miras_preset)kind, named, texts, q8 ? MIRAS_WEIGHTS_Q8 : MIRAS_WEIGHTS_BF16);
  for (int size = 64; asked("token") && size <= 128; size *= 2) time_token(size);
  return 0;
}
