/* test_cuda_perceptrons.cpp: perceptrons on matrix units as one kernel (miras__run_slabs), and
 * their adjoint as another (miras__run_slabs_back), against the host and against what they replace,
 * the engine on the device, whose products are on matrix units, too: answers, states and every
 * gradient, up to the rounding of products; calls that begin and end off the chunk grid, sizes that
 * no fragment has, momentum, biases and norms, activations, weights near and far, one slab of
 * hidden columns and several; links; gradients one by one; and which memories run so.
 *   c++ -std=c++11 -O1 -ffp-contract=off tests/test_cuda_perceptrons.cpp -o perceptrons -lm
 *   nvcc -O3 -rdc=true -fmad=false -arch=native -x cu tests/test_cuda_perceptrons.cpp
 * Names of rows as arguments run these alone. */
#include "cuda_calls.h"

static int back_expected(const miras_memory_desc *d) {
  return d->retention != MIRAS_RETENTION_ELASTIC;
}

typedef struct perceptron {
  const char *name;
  miras_preset kind;
  int key, value, expansion, chunk, calls[CALLS], keep, step, normed, most, products, slabs, near;
} perceptron;

/* most: KiB of shared memory that there are, or 0; normed: as inside models; keep, step: of
 * miras_gate, and with 2, one per channel, so are Yaad's thresholds. */
static const perceptron every[] = {
  {"yaad", MIRAS_PRESET_YAAD, 16, 16, 2, 16, {0, 0, 16, 32}, 0, 0, 0, 0, MIRAS_CUDA_BF16X3, 1, 1},
  {"yaad", MIRAS_PRESET_YAAD, 64, 64, 4, 64, {0, 0, 0, 64}, 0, 0, 0, 0, MIRAS_CUDA_BF16, 4, 1},
  {"yaad", MIRAS_PRESET_YAAD, 20, 36, 3, 20, {7, 33, 0, 43}, 1, 1, 0, 52, MIRAS_CUDA_BF16X3, 2, 0},
  {"titans", MIRAS_PRESET_TITANS, 16, 24, 3, 16, {5, 0, 27, 36}, 1, 1, 0, 0, MIRAS_CUDA_BF16X3, 1,
   1},
  {"titans", MIRAS_PRESET_TITANS, 64, 64, 4, 16, {0, 0, 0, 32}, 1, 1, 1, 0, MIRAS_CUDA_BF16X3, 1,
   1},
  {"ttt-mlp", MIRAS_PRESET_TTT_MLP_MEMORY, 20, 12, 4, 12, {0, 0, 24, 36}, 1, 1, 0, 0,
   MIRAS_CUDA_BF16X3, 1, 1},
  {"ttt-mlp", MIRAS_PRESET_TTT_MLP_MEMORY, 24, 24, 4, 40, {0, 29, 11, 84}, 1, 1, 1, 44,
   MIRAS_CUDA_BF16, 3, 0},
  {"channels", MIRAS_PRESET_YAAD, 12, 12, 2, 16, {5, 0, 27, 36}, 2, 2, 1, 0, MIRAS_CUDA_BF16X3, 1,
   1},
  {"more channels", MIRAS_PRESET_YAAD, 64, 64, 4, 64, {0, 0, 0, 64}, 2, 2, 1, 0, MIRAS_CUDA_BF16, 4,
   1},
  {"more channels", MIRAS_PRESET_YAAD, 36, 36, 3, 20, {7, 33, 0, 43}, 2, 0, 0, 72,
   MIRAS_CUDA_BF16X3,
   3, 0},
  {"channels", MIRAS_PRESET_YAAD, 20, 20, 3, 12, {0, 0, 0, 36}, 1, 2, 0, 0, MIRAS_CUDA_BF16X3, 1,
   1},
  {"moneta", MIRAS_PRESET_MONETA, 16, 16, 3, 16, {5, 0, 11, 52}, 2, 2, 1, 0, MIRAS_CUDA_BF16X3, 1,
   1},
  {"moneta", MIRAS_PRESET_MONETA, 20, 12, 4, 12, {5, 0, 19, 36}, 1, 1, 0, 26, MIRAS_CUDA_BF16X3, 2,
   0},
  {"memora", MIRAS_PRESET_MEMORA, 16, 16, 4, 16, {0, 5, 27, 36}, 2, 2, 1, 0, MIRAS_CUDA_BF16X3, 1,
   1},
  {"memora", MIRAS_PRESET_MEMORA, 32, 32, 4, 32, {0, 0, 0, 64}, 1, 1, 1, 0, MIRAS_CUDA_BF16X3, 1,
   1},
  {"memora", MIRAS_PRESET_MEMORA, 24, 24, 2, 20, {0, 13, 27, 44}, 2, 0, 1, 56, MIRAS_CUDA_BF16X3, 2,
   0},
};

/* Memories that the engine runs. */
static unsigned others(void) {
  static const struct { const char *name; size_t at; int value, shared, size; } change[] = {
    {"chunks of 4", offsetof(miras_memory_desc, chunk), 4, 0, 16},
    {"three layers", offsetof(miras_memory_desc, depth), 3, 0, 16},
    {"two inner_steps", offsetof(miras_memory_desc, inner_steps), 2, 0, 16},
    {"resets", offsetof(miras_memory_desc, reset_every), 64, 0, 16},
    {"129 channels", offsetof(miras_memory_desc, decay_gate), MIRAS_GATE_CHANNEL, 0, 129},
    {"a bounded step through tanh", offsetof(miras_memory_desc, retention), MIRAS_RETENTION_TANH, 0,
     16},
    {"an elastic net", offsetof(miras_memory_desc, retention), MIRAS_RETENTION_ELASTIC, 0, 16},
    {"little shared memory", 0, 0, 8, 16}};
  unsigned failed = 0, i;
  for (i = 0; i < sizeof change / sizeof change[0]; i++) {
    memory_case c;
    miras_memory *m;
    row_of(&c, change[i].name, MIRAS_PRESET_YAAD, change[i].size, change[i].size, 16);
    if (!change[i].shared) memcpy((char *)&c.d + change[i].at, &change[i].value, sizeof(int));
    if (c.d.retention == MIRAS_RETENTION_ELASTIC) c.d.sparsity = 1e-3f;
    options.products = MIRAS_CUDA_BF16;
    m = miras_memory_open(&c.d, NULL, NULL, 0);
    most_shared = change[i].shared ? (size_t)change[i].shared << 10 : 227 << 10;
    if (!m || miras__cuda_chunks_for(&m->plan, &options, most_shared).grid) {
      printf("%s: %s\n", change[i].name, m ? "has a kernel of its own" : "is no memory");
      failed++;
    }
    miras_close(m);
  }
  return failed;
}

/* The same bits in calls that end on the chunk grid. */
static unsigned repeated(miras_preset kind, int value, miras_gate gate) {
  static const int cut[2][CALLS] = {{0, 0, 0, 64}, {16, 0, 32, 16}};
  made of[2];
  memory_case c;
  unsigned failed = 0, i;
  int t;
  row_of(&c, miras_preset_name(kind), kind, 20, value, 16);
  gates(&c, gate, gate);
  options.products = MIRAS_CUDA_BF16;
  most_shared = 227 << 10;
  for (i = 0; i < 2; i++) {
    memcpy(c.calls, cut[i], sizeof c.calls);
    if (run(&c, CHUNKS, &of[i])) return printf("%s does not run\n", c.name), 1u;
  }
  for (t = MIRAS__INPUT_COUNT; t < TENSORS; t++)
    if (of[0].of[t] && memcmp(of[0].of[t], of[1].of[t], of[0].floats[t] * sizeof(float))) {
      printf("%s: the bits of %s differ in other calls\n", c.name, names[t]);
      failed++;
    }
  give_back();
  return failed;
}

/* The same bits wherever weights and their cotangents lie in the adjoint: of numbers, with
 * momentum, and of gates per channel, without a init and with the other bound, as no row above is.
 */
static unsigned anywhere(int channels) {
  unsigned failed = 0, seen, i;
  for (i = MIRAS_CUDA_BF16X3; i <= MIRAS_CUDA_BF16; i++) {
    made of[2];
    memory_case c;
    miras_memory *m;
    int t;
    if (channels) {
      row_of(&c, "yaad", MIRAS_PRESET_YAAD, 31, 31, 16);
      gates(&c, MIRAS_GATE_CHANNEL, MIRAS_GATE_CHANNEL);
      c.d.step_bound = MIRAS_STEP_BOUND_LAYERS, c.d.decay_target = MIRAS_DECAY_TARGET_ZERO,
       c.edges = 1;
    } else {
      row_of(&c, "titans", MIRAS_PRESET_TITANS, 31, 28, 16);
      gates(&c, MIRAS_GATE_HEAD, MIRAS_GATE_HEAD);
      c.d.inner_bias = 1;
    }
    c.d.expansion = 1;
    c.taped = c.init = 1, c.calls[CALLS - 1] = 40;
    options.products = (miras_cuda_products)i;
    m = miras_memory_open(&c.d, NULL, NULL, 0);
    if (!m) return printf("%s is no memory\n", c.name), 1u;
    seen = 0;
    for (most_shared = 160 << 10; most_shared; most_shared -= 512) {
      const miras_cuda::miras__chunks_grid g =
        miras__cuda_chunks_back_for(&m->plan, &options, most_shared);
      if (!g.grid || g.slabs.wide < g.slabs.mid) break;
      if (seen >> g.slabs.nearby & 1) continue;
      if (run(&c, CHUNKS, &of[seen != 0])) return printf("%s does not run\n", c.name), 1u;
      for (t = 0; seen && t < TENSORS; t++)
        if (memcmp(of[0].of[t], of[1].of[t], of[0].floats[t] * sizeof(float))) {
          printf("%s: the bits of %s differ with near %u\n", c.name, names[t], g.slabs.nearby);
          failed++;
        }
      seen |= 1u << g.slabs.nearby;
    }
    /* tiles of two parts take more than floats do */
    if (seen != (i == MIRAS_CUDA_BF16 ? 15u : 11u)) {
      printf("%s: near was %x alone\n", c.name, seen);
      failed++;
    }
    miras_close(m);
    give_back();
    most_shared = 227 << 10;
    failed += compare(&c);
  }
  return failed;
}

/* Links that no row above has, the link's number with momentum, and bounded steps of channels. */
static unsigned links(void) {
  static const struct {
    const char *name;
    miras_preset kind;
    miras_retention retention;
    float q;
    miras_gate gate;
    int bounded, normed;
    miras_decay_target toward;
  } link[] = {
    {"lq, momentum", MIRAS_PRESET_TITANS, MIRAS_RETENTION_LQ, 2.5f, MIRAS_GATE_HEAD, 2, 0,
     MIRAS_DECAY_TARGET_INITIAL},
    {"lq, momentum, norm", MIRAS_PRESET_TITANS, MIRAS_RETENTION_LQ, 2.5f, MIRAS_GATE_HEAD, 0, 1,
     MIRAS_DECAY_TARGET_INITIAL},
    {"lq, channels", MIRAS_PRESET_YAAD, MIRAS_RETENTION_LQ, 2.5f, MIRAS_GATE_CHANNEL, 1, 0,
     MIRAS_DECAY_TARGET_INITIAL},
    {"lq, no init", MIRAS_PRESET_YAAD, MIRAS_RETENTION_LQ, 2.5f, MIRAS_GATE_CHANNEL, 2, 1,
     MIRAS_DECAY_TARGET_ZERO},
    {"p-norm", MIRAS_PRESET_YAAD, MIRAS_RETENTION_LQ_PNORM, 2.5f, MIRAS_GATE_CHANNEL, 0, 0,
     MIRAS_DECAY_TARGET_INITIAL},
    {"p-norm, momentum", MIRAS_PRESET_TITANS, MIRAS_RETENTION_LQ_PNORM, 2.5f, MIRAS_GATE_HEAD, 0, 0,
     MIRAS_DECAY_TARGET_ZERO},
    {"tanh", MIRAS_PRESET_YAAD, MIRAS_RETENTION_TANH, 0, MIRAS_GATE_CHANNEL, 0, 1,
     MIRAS_DECAY_TARGET_INITIAL}};
  unsigned failed = 0, i;
  for (i = 0; i < sizeof link / sizeof link[0]; i++) {
    memory_case c;
    row_of(&c, link[i].name, link[i].kind, 20, 20, 12);
    gates(&c, link[i].gate, link[i].gate);
    if (link[i].kind == MIRAS_PRESET_TITANS) c.d.momentum_gate = MIRAS_GATE_HEAD;
    c.d.retention = link[i].retention, c.d.q = link[i].q;
    c.d.step_bound = (miras_step_bound)link[i].bounded, c.d.decay_target = link[i].toward;
    c.d.inner_norm = c.d.inner_residual = link[i].normed;
    c.d.expansion = 2;
    if (!c.d.step_bound) c.d.learning_rate = 0.01f;
    c.taped = c.init = 1, c.calls[CALLS - 2] = 12, c.calls[CALLS - 1] = i % 2 ? 43 : 36;
    c.edges = link[i].gate == MIRAS_GATE_CHANNEL;
    options.products = MIRAS_CUDA_BF16X3;
    most_shared = (size_t)(i % 2 ? 227 : 60) << 10;
    failed += compare(&c);
  }
  most_shared = 227 << 10;
  return failed;
}

/* Gradients that are asked for alone, and the same bits in calls that are alike. */
static unsigned alone(void) {
  made whole_call, one;
  memory_case c;
  unsigned failed = 0;
  int t;
  row_of(&c, "titans", MIRAS_PRESET_TITANS, 16, 8, 16);
  gates(&c, MIRAS_GATE_HEAD, MIRAS_GATE_HEAD);
  options.products = MIRAS_CUDA_BF16;
  c.d.decay_target = MIRAS_DECAY_TARGET_ZERO;
  c.d.momentum_gate = MIRAS_GATE_HEAD;
  c.taped = c.init = 1, c.calls[CALLS - 1] = 32;
  if (run(&c, CHUNKS, &whole_call)) return printf("%s does not run\n", c.name), 1u;
  for (only = 0; only < 6; only++) {
    if (run(&c, CHUNKS, &one)) return printf("%s does not run\n", c.name), 1u;
    for (t = only; t < TENSORS; t = t == only ? MIRAS__INPUT_COUNT : t + 1)
      if (memcmp(whole_call.of[t], one.of[t], one.floats[t] * sizeof(float))) {
        printf("%s: with the gradient of %s alone, %s differs\n", c.name, names[only], names[t]);
        failed++;
      }
  }
  only = -1;
  failed += compare(&c);
  return failed;
}

int main(int argc, char **argv) {
  memory_case c;
  unsigned failed = 0, i;
  if (!device_ready()) {
    puts("skipped: there is no device");
    return 77;
  }
  for (i = 0; i < sizeof every / sizeof every[0]; i++) {
    const perceptron *p = &every[i];
    miras_memory *m;
    if (!asked(argc, argv, p->name)) continue;
    row_of(&c, p->name, p->kind, p->key, p->value, p->chunk);
    gates(&c, (miras_gate)p->keep, (miras_gate)p->step);
    if (p->keep == 2 && p->kind == MIRAS_PRESET_YAAD) c.d.threshold_gate = MIRAS_GATE_CHANNEL;
    c.d.expansion = p->expansion;
    c.d.activation = i % 3 == 0   ? MIRAS_FN_GELU
                     : i % 3 == 1 ? MIRAS_FN_NONE
                                  : MIRAS_FN_SILU;
    if (p->normed) c.d.inner_norm = c.d.inner_residual = 1, c.d.step_bound = MIRAS_STEP_BOUND_AUTO,
     c.d.learning_rate = 0.05f;
    if (p->kind == MIRAS_PRESET_MEMORA) c.d.simplex = 256, c.d.learning_rate = 0.01f;
    memcpy(c.calls, p->calls, sizeof c.calls);
    c.taped = c.init = 1, c.edges = p->keep == 2;
    options.products = (miras_cuda_products)p->products;
    most_shared = (size_t)(p->most ? p->most : 227) << 10;
    m = miras_memory_open(&c.d, NULL, NULL, 0);
    if (m && most_shared <= miras__cuda_shared()) {
      const miras_cuda::miras__slabs_size s =
        miras__cuda_chunks_for(&m->plan, &options, most_shared).slabs;
      const int slabs = s.wide ? (int)((s.mid + s.wide - 1) / s.wide) : 0;
      if (slabs != p->slabs || (int)s.nearby != p->near) {
        printf("%s: %d slabs, near %u\n", p->name, slabs, s.nearby);
        failed++;
      }
    }
    miras_close(m);
    failed += compare(&c);
  }
  if (argc < 2)
    failed += others() + repeated(MIRAS_PRESET_TITANS, 24, MIRAS_GATE_HEAD) +
              repeated(MIRAS_PRESET_MONETA, 20,
               MIRAS_GATE_CHANNEL) + anywhere(0) + anywhere(1) + links() +
              alone();
  cudaFree(device);
  printf("%u differ\n", failed);
  if (shim_findings()) printf("%u races\n", shim_findings());
  if (argc > 1 && !asked_for) return printf("there is no such row\n"), 1;
  return failed || shim_findings();
}
