/* test_cuda_chunks.cpp: chunks on matrix units as one kernel (miras__run_chunks) against the host
 * and against what it replaces, the engine on the device, whose products are on matrix units, too:
 * answers, states and every gradient, which have a kernel as well (miras__run_chunks_back), up to
 * the rounding of products; calls that begin and end off the chunk grid, sizes that no fragment
 * has, decays of 0 and 1; gradients one by one; and which memories run so.
 *   c++ -std=c++11 -O1 -ffp-contract=off tests/test_cuda_chunks.cpp -o test_cuda_chunks -lm
 *   nvcc -O3 -rdc=true -fmad=false -arch=native -x cu tests/test_cuda_chunks.cpp
 * Names of rows as arguments run these alone. */
#include "cuda_calls.h"

static int back_expected(const miras_memory_desc *d) {
  return d->value_dim <= 128 && d->chunk <= 128;
}

/* Memories that the engine runs. */
static unsigned others(void) {
  static const struct { const char *name; size_t at; int value; } change[] = {
    {"one token and products of floats", 0, 0}, {"features", offsetof(miras_memory_desc,
     feature_map), MIRAS_FN_ELU},
    {"a normaliser", offsetof(miras_memory_desc, normalize), 1},
    {"steps per channel", offsetof(miras_memory_desc, learning_rate_gate), 2},
    {"a value gate", offsetof(miras_memory_desc, value_decay_gate), 2},
    {"resets", offsetof(miras_memory_desc, reset_every), 64},
    {"keys of 129", offsetof(miras_memory_desc, key_dim), 129}};
  unsigned failed = 0, i;
  for (i = 0; i < sizeof change / sizeof change[0]; i++) {
    memory_case c;
    miras_memory *m;
    miras_cuda_memory g;
    size_t bytes;
    int there;
    row_of(&c, change[i].name, MIRAS_PRESET_RETNET_MEMORY, 16, 16, 16);
    options.products = i ? MIRAS_CUDA_BF16 : MIRAS_CUDA_FLOAT;
    if (i) memcpy((char *)&c.d + change[i].at, &change[i].value, sizeof(int));
    if (c.d.normalize) c.d.feature_map = MIRAS_FN_ELU;
    m = miras_memory_open(&c.d, NULL, NULL, 0);
    take_back();
    bytes = miras_cuda_memory_size(m, &options, NULL, 0);
    there = bytes && miras_cuda_memory_init(&g, m, &options, take(bytes / sizeof(float) + 1),
                                            bytes, 0) == MIRAS_OK;
    if (!there || in_chunks(&g)) {
      printf("%s: %s\n", change[i].name, there ? "runs in chunks" : "is no memory");
      failed++;
    }
    miras_close(m);
  }
  return failed;
}

/* The same bits in blocks of another size, of gradients too, and, without an initial memory, of
 * answers in calls that end where a state of the tape lies. */
static unsigned repeated(void) {
  static const int cut[3][CALLS] = {{0, 0, 0, 208}, {0, 0, 0, 208}, {64, 64, 64, 16}};
  unsigned failed = 0, i, k;
  int t;
  for (i = 0; i < 2; i++) {
    made of[3];
    memory_case c;
    row_of(&c, i ? "kda" : "gated-deltanet",
     i ? MIRAS_PRESET_KDA_MEMORY : MIRAS_PRESET_GATED_DELTANET, 24, 70, 16);
    gates(&c, i ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD, MIRAS_GATE_HEAD);
    options.products = MIRAS_CUDA_BF16;
    c.taped = 1;
    for (k = 0; k < 3; k++) {
      memcpy(c.calls, cut[k], sizeof c.calls);
      block = k == 1 ? 256 : 128;
      if (run(&c, CHUNKS, &of[k])) return printf("%s does not run\n", c.name), 1u;
      for (t = k == 1 ? 0 : MIRAS__INPUT_COUNT; k && t < (k == 1 ? TENSORS : TENSORS - 3); t++)
        if (memcmp(of[0].of[t], of[k].of[t], of[0].floats[t] * sizeof(float))) {
          printf("%s: the bits of %s differ in %s\n", c.name, names[t],
                 k == 1 ? "larger blocks" : "other calls");
          failed++;
        }
    }
    give_back();
  }
  return failed;
}

/* Gradients that are asked for alone. */
static unsigned alone(void) {
  unsigned failed = 0, i;
  for (i = 0; i < 2; i++) {
    made all, one;
    memory_case c;
    row_of(&c, i ? "kda" : "gated-deltanet",
     i ? MIRAS_PRESET_KDA_MEMORY : MIRAS_PRESET_GATED_DELTANET, 16, 8, 16);
    gates(&c, i ? MIRAS_GATE_CHANNEL : MIRAS_GATE_HEAD, MIRAS_GATE_HEAD);
    options.products = MIRAS_CUDA_BF16X3;
    block = 128;
    c.taped = c.init = 1, c.calls[CALLS - 1] = 68;
    if (run(&c, CHUNKS, &all)) return printf("%s does not run\n", c.name), 1u;
    for (only = 0; only < 5; only++) {
      int t = only;
      if (run(&c, CHUNKS, &one)) return printf("%s does not run\n", c.name), 1u;
      for (; t < TENSORS; t = t == only ? MIRAS__INPUT_COUNT : t + 1)
        if (off_by(all.of[t], one.of[t], all.floats[t]) > allowed[options.products]) {
          printf("%s: with the gradient of %s alone, %s differs\n", c.name, names[only], names[t]);
          failed++;
        }
    }
    only = -1;
    give_back();
  }
  return failed;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    miras_preset kind;
    int key, value, chunk, calls[CALLS], taped, init, edges, odd, threads, products, keep, step;
  } all[] = {
    {"gated-deltanet", MIRAS_PRESET_GATED_DELTANET, 64, 64, 64, {0, 0, 64, 128}, 1, 0, 0, 0, 128,
     MIRAS_CUDA_BF16X3, 1, 1},
    {"gated-deltanet", MIRAS_PRESET_GATED_DELTANET, 128, 128, 64, {0, 64, 0, 70}, 1, 1, 1, 0, 128,
     MIRAS_CUDA_BF16, 1, 1},
    {"gated-deltanet", MIRAS_PRESET_GATED_DELTANET, 128, 72, 16, {37, 16, 43, 72}, 1, 1, 1, 0, 256,
     MIRAS_CUDA_BF16X3, 1, 1},
    {"deltanet", MIRAS_PRESET_DELTANET_MEMORY, 20, 13, 5, {3, 81, 1, 135}, 1, 0, 0, 1, 128,
     MIRAS_CUDA_BF16X3, 0,
     1},
    {"longhorn", MIRAS_PRESET_LONGHORN, 48, 20, 1, {7, 64, 1, 83}, 1, 1, 0, 0, 128,
     MIRAS_CUDA_BF16X3, 0,
     1},
    {"longhorn", MIRAS_PRESET_LONGHORN, 16, 16, 16, {0, 0, 0, 68}, 1, 1, 0, 0, 128, MIRAS_CUDA_BF16,
     0, 1},
    {"nlms", MIRAS_PRESET_NLMS, 48, 20, 1, {7, 64, 1, 83}, 1, 1, 0, 0, 128, MIRAS_CUDA_BF16X3, 0,
     1},
    {"nlms", MIRAS_PRESET_NLMS, 16, 24, 16, {0, 0, 0, 68}, 1, 0, 0, 0, 128, MIRAS_CUDA_BF16X3, 0,
     1},
    {"kda", MIRAS_PRESET_KDA_MEMORY, 64, 64, 64, {0, 64, 0, 100}, 1, 0, 1, 0, 128,
     MIRAS_CUDA_BF16X3, 2, 1},
    {"kda", MIRAS_PRESET_KDA_MEMORY, 100, 40, 16, {5, 60, 15, 70}, 1, 1, 1, 0, 128,
     MIRAS_CUDA_BF16X3, 2, 1},
    {"kda", MIRAS_PRESET_KDA_MEMORY, 128, 20, 1, {0, 0, 17, 64}, 1, 1, 0, 0, 256, MIRAS_CUDA_BF16,
     2, 1},
    {"gla", MIRAS_PRESET_GLA_MEMORY, 30, 100, 24, {23, 50, 71, 60}, 1, 1, 1, 1, 128,
     MIRAS_CUDA_BF16X3, 2, 0},
    {"gla", MIRAS_PRESET_GLA_MEMORY, 72, 16, 1, {0, 0, 3, 66}, 1, 0, 0, 0, 128, MIRAS_CUDA_BF16, 2,
     0},
    {"retnet", MIRAS_PRESET_RETNET_MEMORY, 16, 144, 1, {0, 0, 0, 66}, 1, 1, 0, 0, 128,
     MIRAS_CUDA_BF16, 0, 0},
    {"retnet", MIRAS_PRESET_RETNET_MEMORY, 64, 128, 8, {21, 64, 3, 72}, 1, 1, 0, 0, 128,
     MIRAS_CUDA_BF16X3, 0, 0},
    {"mamba2", MIRAS_PRESET_MAMBA2_MEMORY, 128, 64, 1, {0, 0, 64, 65}, 1, 0, 1, 0, 128,
     MIRAS_CUDA_BF16X3, 1, 1},
    {"hgrn2", MIRAS_PRESET_HGRN2_MEMORY, 16, 24, 16, {0, 0, 16, 67}, 1, 0, 1, 0, 128,
     MIRAS_CUDA_BF16X3, 2, 0},
    {"lightning", MIRAS_PRESET_LIGHTNING, 16, 16, 128, {150, 0, 106, 128}, 1, 0, 0, 0, 128,
     MIRAS_CUDA_BF16, 0, 0},
  };
  memory_case c;
  unsigned failed = 0, i;
  if (!device_ready()) {
    puts("skipped: there is no device");
    return 77;
  }
  for (i = 0; i < sizeof all / sizeof all[0]; i++) {
    if (!asked(argc, argv, all[i].name)) continue;
    row_of(&c, all[i].name, all[i].kind, all[i].key, all[i].value, all[i].chunk);
    gates(&c, (miras_gate)all[i].keep, (miras_gate)all[i].step);
    memcpy(c.calls, all[i].calls, sizeof c.calls);
    c.taped = all[i].taped, c.init = all[i].init, c.edges = all[i].edges, c.odd = all[i].odd;
    block = (unsigned)all[i].threads;
    options.products = (miras_cuda_products)all[i].products;
    failed += compare(&c);
  }
  if (argc < 2) failed += others() + repeated() + alone();
  cudaFree(device);
  printf("%u differ\n", failed);
  if (shim_findings()) printf("%u races\n", shim_findings());
  if (argc > 1 && !asked_for) return printf("there is no such row\n"), 1;
  return failed || shim_findings();
}
