/* fingerprint.h: one number of all bits that a memory produces.
 * It goes behind the implementation of miras.h; smoke.c and test_cuda.cpp share it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash_of(uint64_t h, const void *data, size_t n) {   /* FNV-1a */
  const unsigned char *p = (const unsigned char *)data;
  size_t i, k;
  for (i = 0; i + 4 <= n; i += 4) {   /* numbers of 4 bytes, whatever the order they lie in */
    uint32_t word;
    memcpy(&word, p + i, sizeof word);
    for (k = 0; k < 32; k += 8) h = (h ^ (word >> k & 255)) * 1099511628211u;
  }
  return h;
}

/* Of a state: its head counts in 8 bytes. */
static uint64_t hash_of_state(uint64_t h, const void *state, size_t n) {
  const unsigned char *p = (const unsigned char *)state;
  size_t i;
  for (i = 0; i < 64; i += 8) {
    uint64_t count;
    uint32_t half[2];
    memcpy(&count, p + i, sizeof count);
    half[0] = (uint32_t)count, half[1] = (uint32_t)(count >> 32);
    h = hash_of(h, half, sizeof half);
  }
  return hash_of(h, p + 64, n - 64);
}

/* Thirds and their like: as far from few-bit numbers as floats are. */
static void numbers(float *x, int n, int salt) {
  int i;
  for (i = 0; i < n; i++) x[i] = (float)((i * 29 + salt * 53) % 97 - 48) / 61.0f;
}

enum { B = 1, H = 2, D = 20, T = 21, N = B * T * H * D };

/* Whose calls they are. */
#ifndef FORWARD
  #define FORWARD miras_memory_forward
  #define BACKWARD miras_memory_backward
#endif

/* Gates of tokens, where the row takes them; MIRAS_GATE_CONSTANT leaves the row as it is. */
static miras_gate token_gates = MIRAS_GATE_CONSTANT;

static void one_gate(miras_memory_desc *d, miras_gate *field) {
  const miras_gate own = *field;
  *field = token_gates;
  if (!miras_memory_size(d, NULL, 0)) *field = own;
}

/* A choice of the descriptor that is another one than the row's, or -1. */
static size_t change_at = 0;
static int change_to = -1;

/* Or several other choices, or NULL. */
static void (*changes)(miras_memory_desc *d) = NULL;

/* All bits that a memory writes, forward and backward, into h. 1 if a call refuses, 2 if the row
 * does not go with the change. */
static int one_memory(miras_preset kind, int chunk, const miras_parallel *parallel, uint64_t *h) {
  static float k[2 * N], v[2 * N], q[N], y[N], dk[2 * N], dv[2 * N], dq[N];   /* steps up to 2 */
  static float erase[N], replace[N], gate[2 * N], dgate[5][2 * N];
  miras_memory_input x;
  miras_memory_input_grad g;
  miras_memory *m;
  miras_memory_desc d;
  float *tape, *dparams;
  size_t count, bytes;
  void *state;
  int i;
  if (miras_memory_preset(&d, kind) != MIRAS_OK) return 1;
  d.batch = B;
  d.heads = H;
  d.key_dim = D;
  d.chunk = chunk;
  d.parallel = parallel;
  if (token_gates != MIRAS_GATE_CONSTANT) {
    one_gate(&d, &d.decay_gate);
    one_gate(&d, &d.learning_rate_gate);
    one_gate(&d, &d.momentum_gate);
    one_gate(&d, &d.threshold_gate);
    one_gate(&d, &d.value_decay_gate);
  }
  if (change_to >= 0) memcpy((char *)&d + change_at, &change_to, sizeof change_to);
  if (changes) changes(&d);
  if (change_to >= 0 && !miras_memory_size(&d, NULL, 0)) return 2;
  m = miras_memory_open(&d, NULL, NULL, 0);
  if (!m) return 1;
  numbers(k, 2 * N, 1);
  numbers(v, 2 * N, 2);
  numbers(q, N, 3);
  numbers(erase, N, 4);
  numbers(replace, N, 5);
  numbers(gate, 2 * N, 6);
  for (i = 0; i < 2 * N; i++) gate[i] = 0.5f + gate[i] / 2;
  memset(dgate, 0, sizeof dgate);
  memset(&x, 0, sizeof x);
  x.length = T;
  x.key = k;
  x.value = v;
  x.query = q;
  x.erase = erase;
  x.replace = replace;
  x.keep = x.learning_rate = x.momentum = x.threshold = x.value_keep = gate;
  memset(&g, 0, sizeof g);
  g.key = dk;
  g.value = dv;
  g.query = dq;
  g.keep = dgate[0], g.learning_rate = dgate[1], g.momentum = dgate[2], g.threshold = dgate[3];
  g.value_keep = dgate[4];
  (void)miras_memory_params(m, &count);
  tape = (float *)malloc(miras_memory_tape_size(m, T) * sizeof(float));
  dparams = (float *)calloc(count + 1, sizeof(float));
  if (!tape || !dparams) return 1;
  if (FORWARD(m, &x, y, tape) != MIRAS_OK) return 1;
  *h = hash_of(*h, y, sizeof y);
  state = miras_memory_state(m, &bytes);
  *h = hash_of_state(*h, state, bytes);
  if (BACKWARD(m, &x, tape, v, &g, dparams, NULL) != MIRAS_OK) return 1;
  *h = hash_of(*h, dk, sizeof dk);
  *h = hash_of(*h, dv, sizeof dv);
  *h = hash_of(*h, dq, sizeof dq);
  if (token_gates != MIRAS_GATE_CONSTANT) *h = hash_of(*h, dgate, sizeof dgate);
  *h = hash_of(*h, dparams, count * sizeof(float));
  free(tape);
  free(dparams);
  miras_close(m);
  return 0;
}
