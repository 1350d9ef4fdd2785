/* limits.c: how near one core comes to what it can do: arithmetic against the multiply-adds it does
 * in a loop of nothing else, decoding against what it reads and writes in a loop of nothing else.
 *
 *   sh bench/run.sh                        both instruction sets, every measure
 *   cc -O2 bench/limits.c -o limits -lm && ./limits [exact] [perceptrons] [decode] [products]
 *   ROUNDS=15 TOKENS=2048 ./limits         how often, and how long a sequence
 *
 * All measures take turns in every round, each next to the peak, and the least processor time of a
 * measure counts (CLOCK_PROCESS_CPUTIME_ID): what else the machine does takes turns away but no
 * processor time, though it does take caches and, from a sibling, ports. Operations are those of
 * the recurrence as it is written down, whatever the schedule does:
 *   exact         7 dk dv per token and head with an error, else 5; training counts the same ones,
 *                 so that its share is of a forward pass alone and "x forward" says the rest
 *   perceptrons   those of the products of a chunk of C tokens, per token and layer of in x out:
 *                   2 in out each for the way through, the error's way back (not to the keys), the
 *                   fold and the read; 4 in out more with momentum (its fold and its read); and
 *                   where reads follow the open chunk, 2 in out with a decay towards the initial
 *                   memory and C (in + out) for the chunk's own pairs, half of a square
 *                 training counts three times as many
 * Bytes of decoding are those of the state, read once and written once. */
#define _POSIX_C_SOURCE 200809L
#define MIRAS_IMPLEMENTATION
#include "../miras.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__x86_64__)
  #include <immintrin.h>
#elif defined(__aarch64__)
  #include <arm_neon.h>
#endif

enum { MOST = 96 };

typedef struct measure {
  char name[64];
  double work;             /* operations or bytes of a call                                      */
  double best;             /* seconds                                                            */
  double flops, intensity; /* operations of a call, and of a byte that has to move; or 0: no
                              point of the roofline                                              */
  int forward;             /* index of the forward pass beside a training, or -1                 */
  void (*run)(void *);
  void *with;
} measure;

static measure all[MOST];
static int count;
static volatile float sink;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *room(size_t bytes) {
  void *p = calloc(bytes + 64, 1);
  if (!p) {
    fprintf(stderr, "limits: out of memory\n");
    exit(1);
  }
  return (char *)p + (64 - (size_t)p % 64) % 64;   /* the program ends with its measures */
}

static float *floats(size_t n) { return (float *)room(n * sizeof(float)); }

static float uniform(float low, float high) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return low + (high - low) * (float)(state >> 8) / 16777216.0f;
}

static void fill(float *p, size_t n, float low, float high) {
  for (size_t i = 0; i < n; i++) p[i] = uniform(low, high);
}

static int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

static int add(const char *name, double work, void (*run)(void *), void *with) {
  measure *m = &all[count];
  if (count == MOST) {
    fprintf(stderr, "limits: more than %d measures\n", MOST);
    exit(1);
  }
  snprintf(m->name, sizeof m->name, "%s", name);
  m->work = work;
  m->run = run;
  m->with = with;
  m->forward = -1;
  return count++;
}

/* So many operations of so many bytes: a point of the roofline. */
static void is_point(int i, double flops, double bytes) {
  all[i].flops = flops;
  all[i].intensity = flops / bytes;
}

/* ---- the machine ---- */

/* Multiply-adds on 24 or 12 registers that wait for nobody else. */
enum { PEAK_TURNS = 20000 };
#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float peak_512(void) {
  __m512 s[24], a = _mm512_set1_ps(0.999f);
  for (int i = 0; i < 24; i++) s[i] = _mm512_set1_ps((float)i);
  for (int t = 0; t < PEAK_TURNS; t++) {
    _Pragma("GCC unroll 24") for (int i = 0; i < 24; i++) s[i] = _mm512_fmadd_ps(s[i], a, a);
    __asm__ volatile("" : "+v"(a));
  }
  for (int i = 1; i < 24; i++) s[0] = _mm512_add_ps(s[0], s[i]);
  return _mm512_reduce_add_ps(s[0]);
}
__attribute__((target("avx2,fma"))) static float peak_256(void) {
  __m256 s[12], a = _mm256_set1_ps(0.999f);
  for (int i = 0; i < 12; i++) s[i] = _mm256_set1_ps((float)i);
  for (int t = 0; t < PEAK_TURNS; t++) {
    _Pragma("GCC unroll 12") for (int i = 0; i < 12; i++) s[i] = _mm256_fmadd_ps(s[i], a, a);
    __asm__ volatile("" : "+x"(a));
  }
  for (int i = 1; i < 12; i++) s[0] = _mm256_add_ps(s[0], s[i]);
  return _mm256_cvtss_f32(s[0]);
}
#elif defined(__aarch64__)
static float peak_128(void) {
  float32x4_t s[24], a = vdupq_n_f32(0.999f);
  for (int i = 0; i < 24; i++) s[i] = vdupq_n_f32((float)i);
  for (int t = 0; t < PEAK_TURNS; t++) {
    _Pragma("GCC unroll 24") for (int i = 0; i < 24; i++) s[i] = vfmaq_f32(a, s[i], a);
    __asm__ volatile("" : "+w"(a));
  }
  for (int i = 1; i < 24; i++) s[0] = vaddq_f32(s[0], s[i]);
  return vgetq_lane_f32(s[0], 0);
}
#endif

static void run_peak(void *with) {
  (void)with;
#if defined(__x86_64__)
  if (strcmp(miras_isa(), "avx512") == 0) sink = peak_512();
  else if (strcmp(miras_isa(), "avx2") == 0) sink = peak_256();
#elif defined(__aarch64__)
  sink = peak_128();
#endif
}

static double peak_work(void) {
  if (strcmp(miras_isa(), "avx512") == 0) return 2.0 * 24 * 16 * PEAK_TURNS;
  if (strcmp(miras_isa(), "avx2") == 0) return 2.0 * 12 * 8 * PEAK_TURNS;
  return 2.0 * 24 * 4 * PEAK_TURNS;
}

typedef struct stream {
  float *at;
  size_t n, turns;
} stream;

static void run_stream(void *with) {
  const stream *s = (const stream *)with;
  for (size_t i = 0; i < s->turns; i++) miras__kernels_best()->scale(s->at, -1.0f, s->at, s->n);
}

static void add_stream(const char *name, size_t bytes) {
  stream *s = (stream *)room(sizeof *s);
  s->n = bytes / sizeof(float);
  s->at = floats(s->n);
  s->turns = (size_t)(64 << 20) / bytes + 1;
  fill(s->at, s->n, 1, 2);
  add(name, 2.0 * (double)bytes * (double)s->turns, run_stream, s);
}

/* ---- memories ---- */

enum { KEY, VALUE, QUERY, KEEP, STEP, MOMENTUM, THRESHOLD, INPUTS };

typedef struct layer {
  miras_memory_desc d;
  miras_memory *m;
  miras_memory_input x;
  miras_memory_input_grad dx;
  float *in[INPUTS], *out[INPUTS], *y, *dy, *tape, *dparams;
  size_t per[INPUTS];
  int turn;
} layer;

static layer *open_layer(const char *kind, int chunk, int T, int H, int n, int trains) {
  layer *b = (layer *)room(sizeof *b);
  miras_model_desc whole;
  const size_t rows = (size_t)T * (size_t)H;
  size_t params;
  miras_model_preset(&whole, miras_preset_find(kind), 0);
  b->d = whole.layer[0].memory;
  b->d.heads = H;
  b->d.key_dim = n;
  if (chunk) b->d.chunk = chunk;
  b->m = miras_memory_open(&b->d, NULL, NULL, 0);
  if (!b->m) {
    fprintf(stderr, "limits: %s does not open\n", kind);
    exit(1);
  }
  b->d = *miras_memory_desc_of(b->m);
  b->per[KEY] = b->per[VALUE] = b->per[QUERY] = (size_t)n;
  b->per[KEEP] = miras__gate_width(&b->d, b->d.decay_gate);
  b->per[STEP] = miras__gate_width(&b->d, b->d.learning_rate_gate);
  b->per[MOMENTUM] = miras__gate_width(&b->d, b->d.momentum_gate);
  b->per[THRESHOLD] = miras__gate_width(&b->d, b->d.threshold_gate);
  for (int i = 0; i < INPUTS; i++) {
    b->in[i] = floats(rows * b->per[i]);
    if (trains) b->out[i] = floats(rows * b->per[i]);
    fill(b->in[i], rows * b->per[i], -1.0f, 1.0f);
  }
  for (int i = KEY; i <= QUERY; i += QUERY - KEY)
    for (size_t r = 0; r < rows; r++) {
      float *p = b->in[i] + r * (size_t)n, sum = 1e-9f;
      for (int j = 0; j < n; j++) sum += p[j] * p[j];
      for (int j = 0; j < n; j++) p[j] /= sqrtf(sum);
    }
  fill(b->in[KEEP], rows * b->per[KEEP], 0.98f, 1.0f);
  fill(b->in[STEP], rows * b->per[STEP], 0.2f * b->d.learning_rate, 0.5f * b->d.learning_rate);
  fill(b->in[MOMENTUM], rows * b->per[MOMENTUM], 0.2f, 0.6f);
  fill(b->in[THRESHOLD], rows * b->per[THRESHOLD], 0.5f, 1.5f);
  b->x.length = T;
#define INPUT(field, i) \
  if (b->per[i]) b->x.field = b->in[i], b->dx.field = b->out[i]
  INPUT(key, KEY);
  INPUT(value, VALUE);
  INPUT(query, QUERY);
  INPUT(keep, KEEP);
  INPUT(learning_rate, STEP);
  INPUT(momentum, MOMENTUM);
  INPUT(threshold, THRESHOLD);
#undef INPUT
  b->y = floats(rows * (size_t)n);
  if (!trains) return b;
  miras_memory_params(b->m, &params);
  b->dparams = floats(params);
  b->dy = floats(rows * (size_t)n);
  fill(b->dy, rows * (size_t)n, -1.0f, 1.0f);
  b->tape = floats(miras_memory_tape_size(b->m, T));
  return b;
}

static void run_forward(void *with) {
  layer *b = (layer *)with;
  miras_memory_reset(b->m);
  miras_memory_forward(b->m, &b->x, b->y, NULL);
}

static void run_training(void *with) {
  layer *b = (layer *)with;
  miras_memory_reset(b->m);
  miras_memory_forward(b->m, &b->x, b->y, b->tape);
  miras_memory_backward(b->m, &b->x, b->tape, b->dy, &b->dx, b->dparams, NULL);
}

/* One token a call; the tokens of the layer again and again. */
static void run_decode(void *with) {
  layer *b = (layer *)with;
  const miras_memory_input whole = b->x;
  const size_t H = (size_t)b->d.heads;
  miras_memory_input one = whole;
  one.length = 1;
  for (int t = 0; t < whole.length; t++) {
    const size_t at = (size_t)t * H;
    one.key = b->in[KEY] + at * b->per[KEY];
    one.value = b->in[VALUE] + at * b->per[VALUE];
    one.query = b->in[QUERY] + at * b->per[QUERY];
    one.keep = b->in[KEEP] + at * b->per[KEEP];
    one.learning_rate = b->in[STEP] + at * b->per[STEP];
    one.momentum = b->in[MOMENTUM] + at * b->per[MOMENTUM];
    one.threshold = b->in[THRESHOLD] + at * b->per[THRESHOLD];
    miras_memory_forward(b->m, &one, b->y + at * b->per[VALUE], NULL);
  }
}

static double exact_work(const char *kind, int n) {
  const int delta = strstr(kind, "delta") || strcmp(kind, "kda") == 0;
  return (delta ? 7.0 : 5.0) * n * n;
}

static void add_exact(const char *kind, int H, int n, int T) {
  layer *b = open_layer(kind, 0, T, H, n, 1);
  char name[80];
  const double work = exact_work(kind, n) * H * T;
  int forward;
  snprintf(name, sizeof name, "%s %d x %d forward", kind, H, n);
  forward = add(name, work, run_forward, b);
  is_point(forward, work, sizeof(float) * 4.0 * n * H * T + 8.0 * n * n * H);
  snprintf(name, sizeof name, "%s %d x %d training", kind, H, n);
  all[add(name, work, run_training, b)].forward = forward;
}

static void add_perceptron(const char *kind, int chunk, int H, int n, int T) {
  layer *b = open_layer(kind, chunk, T, H, n, 1);
  char name[80];
  const miras__plan *p = &b->m->plan;
  const miras__retention_record *retain = &miras__retentions[p->retain];
  double work = 0;
  int forward, l;
  for (l = 0; l < p->layers; l++) {
    const double in = p->in[l], out = p->out[l];
    work += (l ? 8 : 6) * in * out;
    if (p->at.s) work += 4 * in * out;
    if (retain->reads_live) work += b->d.chunk * (in + out);
    if (retain->reads_live && b->d.decay_target && retain->init)
      work += 2 * in * out;
  }
  work *= (double)H * T;
  snprintf(name, sizeof name, "%s chunk %d, %d x %d forward", kind, b->d.chunk, H, n);
  forward = add(name, work, run_forward, b);
  snprintf(name, sizeof name, "%s chunk %d, %d x %d training", kind, b->d.chunk, H, n);
  all[add(name, 3 * work, run_training, b)].forward = forward;
}

/* Four tokens again and again: what a layer before has just written lies in a cache too. A matrix
 * reads and writes all its weights a token; a perceptron reads them, and writes them once a
 * chunk. */
enum { DECODES = 4 };
static void run_decodes(void *with) {
  const layer *b = (const layer *)with;
  for (int i = 0; i < b->turn; i++) run_decode(with);
}

static void add_decode(const char *kind, const char *where, int H, int n) {
  layer *b = open_layer(kind, 0, DECODES, H, n, 0);
  const double weights = sizeof(float) * (double)b->m->plan.weights * H;
  char name[80];
  int i;
  b->turn = 4 * (1 + 256 / H);              /* of whole chunks of 16 */
  snprintf(name, sizeof name, "decode %s %d x %d (%s)", kind, H, n, where);
  i = add(name, (1 + 1.0 / b->d.chunk) * weights * DECODES * b->turn, run_decodes, b);
  if (b->d.chunk == 1)
    is_point(i, exact_work(kind, n) * H * DECODES * b->turn, all[i].work);
}

enum { WRITES = 4096 };
static void run_writes(void *with) {
  layer *b = (layer *)with;
  const size_t n = b->per[KEY];
  for (int i = 0; i < WRITES; i++)
    miras_memory_write(b->m, b->in[KEY] + (size_t)(i % 64) * n,
                       b->in[VALUE] + (size_t)(i % 64) * n, NULL);
}

static void add_write(const char *kind, int n) {
  layer *b = (layer *)room(sizeof *b);
  char name[80];
  miras_memory_preset(&b->d, miras_preset_find(kind));
  b->d.key_dim = n;
  b->m = miras_memory_open(&b->d, NULL, NULL, 0);
  b->per[KEY] = (size_t)n;
  b->in[KEY] = floats(64 * (size_t)n);
  b->in[VALUE] = floats(64 * (size_t)n);
  fill(b->in[KEY], 64 * (size_t)n, -0.2f, 0.2f);
  fill(b->in[VALUE], 64 * (size_t)n, -1, 1);
  snprintf(name, sizeof name, "write %s %d x %d", kind, n, n);
  add(name, WRITES, run_writes, b);
}

/* ---- products ---- */

typedef struct product {
  float *a, *b, *c, *pack;
  size_t m, n, k, turns;
  int flags;
} product;

static void run_product(void *with) {
  const product *p = (const product *)with;
  const miras__kernels *K = miras__kernels_best();
  for (size_t i = 0; i < p->turns; i++)
    K->gemm(MIRAS__SET, p->c, p->n,
            p->flags & MIRAS__TN ? miras__turned(p->a, p->m) : miras__mat(p->a, p->k),
            p->flags & MIRAS__NT ? miras__turned(p->b, p->k) : miras__mat(p->b, p->n), p->m, p->n,
            p->k, p->pack);
}

static void add_products(size_t m, size_t n, size_t k) {
  static const int cases[4] = {0, MIRAS__NT, MIRAS__TN, MIRAS__NT | MIRAS__TN};
  static const char *const names[4] = {"", " B'", " A'", " A' B'"};
  for (int i = 0; i < 4; i++) {
    product *p = (product *)room(sizeof *p);
    char name[80];
    p->m = m, p->n = n, p->k = k, p->flags = cases[i];
    p->a = floats(m * k), p->b = floats(k * n), p->c = floats(m * n);
    p->pack = floats(miras__gemm_room(m, n, k));
    fill(p->a, m * k, -1, 1);
    fill(p->b, k * n, -1, 1);
    p->turns = (size_t)(2e8 / (2.0 * (double)m * (double)n * (double)k)) + 1;
    snprintf(name, sizeof name, "product %zu x %zu x %zu%s", m, n, k, names[i]);
    is_point(add(name, 2.0 * (double)m * (double)n * (double)k * (double)p->turns, run_product, p),
             2.0 * (double)m * (double)n * (double)k * (double)p->turns,
             sizeof(float) * (double)(m * n + m * k + k * n) * (double)p->turns);
  }
}

/* ---- */

/* For bench/plots.py, where POINTS names a file: what the machine can do, and the points below. */
static int write_points(const char *path, int peak) {
  FILE *f = path ? fopen(path, "w") : NULL;
  if (!f) return path != NULL;
  fprintf(f, "kind,name,flop per byte,GFLOP/s or GB/s\n");
  for (int i = 0; i < count; i++) {
    const double rate = 1e-9 / all[i].best;
    if (i == peak) fprintf(f, "peak,%s,,%.1f\n", miras_isa(), all[i].work * rate);
    else if (all[i].run == run_stream) fprintf(f, "roof,%s,,%.1f\n", all[i].name,
                                               all[i].work * rate);
    else if (all[i].flops > 0) fprintf(f, "point,%s,%.3f,%.2f\n", all[i].name, all[i].intensity,
                                       all[i].flops * rate);
  }
  return fclose(f) != 0;
}

static int wanted(int argc, char **argv, const char *what) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], what) == 0) return 1;
  return argc == 1;
}

int main(int argc, char **argv) {
  const int T = setting("TOKENS", 2048), rounds = setting("ROUNDS", 15);
  const int peak = add("multiply-adds alone", peak_work(), run_peak, NULL);
  int exact, decode;
  double scale;
  exact = count;
  if (wanted(argc, argv, "exact")) {
    static const char *const kinds[] = {"gated-deltanet", "deltanet", "mamba2", "gla", "kda"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
      add_exact(kinds[i], 8, 64, T);
      add_exact(kinds[i], 8, 128, T);
    }
  }
  if (wanted(argc, argv, "perceptrons")) {
    static const char *const kinds[] = {"titans", "ttt-mlp", "moneta", "yaad", "memora"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
      add_perceptron(kinds[i], 16, 4, 64, T / 4);
      add_perceptron(kinds[i], 64, 4, 64, T / 4);
    }
  }
  if (wanted(argc, argv, "products")) {
    static const size_t shapes[][3] = {
      {64, 64, 64}, {64, 256, 64}, {64, 64, 256}, {128, 128, 128}, {256, 256, 256},
      {1024, 1024, 1024}, {64, 768, 768}, {64, 3072, 768}, {2048, 768, 768}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
      add_products(shapes[i][0], shapes[i][1], shapes[i][2]);
  }
  decode = count;
  if (wanted(argc, argv, "decode")) {
    static const char *const kinds[] = {"gated-deltanet", "mamba2", "kda", "titans",
                                        "ttt-mlp"};
    static const char *const wheres[] = {"0.5 MiB", "16 MiB", "1 GiB"};
    static const int heads[] = {32, 256, 16384}, dims[] = {64, 128, 128};
    for (size_t w = 0; w < 3; w++) {
      char name[80];
      snprintf(name, sizeof name, "read and write %s", wheres[w]);
      add_stream(name, sizeof(float) * (size_t)(heads[w] * dims[w] * dims[w]));
      for (size_t i = 0; i < sizeof kinds / sizeof *kinds - (w == 2 ? 3 : 0); i++)
        add_decode(kinds[i], wheres[w], i < 3 ? heads[w] : heads[w] / 8, dims[w]);
    }
    add_write("gated-deltanet", 16);
    add_write("titans", 16);
  }
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < count; i++)
      for (int j = 0; j < 2; j++) {                /* the peak beside each */
        measure *m = &all[j ? i : peak];
        double s = now();
        m->run(m->with);
        s = now() - s;
        if (m->best <= 0 || s < m->best) m->best = s;
      }

  scale = all[peak].work / all[peak].best;
  printf("- %s, one core, %d tokens, least processor time of %d rounds\n", miras_isa(), T, rounds);
  printf("- multiply-adds alone: %.1f GFLOP/s\n\n", scale * 1e-9);
  printf("| measure | GFLOP/s | of the peak | x forward |\n|---|--:|--:|--:|\n");
  for (int i = exact; i < decode; i++) {
    const double rate = all[i].work / all[i].best;
    printf("| %s | %.1f | %.2f |", all[i].name, rate * 1e-9, rate / scale);
    if (all[i].forward >= 0) printf(" %.2f |\n", all[i].best / all[all[i].forward].best);
    else printf(" |\n");
  }
  if (decode < count) {
    double limit = 0;
    printf("\n| measure | GB/s, or ns a write | of read and write |\n|---|--:|--:|\n");
    for (int i = decode; i < count; i++) {
      const double rate = all[i].work / all[i].best;
      if (all[i].run == run_stream) limit = rate;
      if (all[i].run == run_writes) printf("| %s | %.0f ns | |\n", all[i].name, 1e9 / rate);
      else printf("| %s | %.1f | %.2f |\n", all[i].name, rate * 1e-9, rate / limit);
    }
  }
  return write_points(getenv("POINTS"), peak);
}
