/* GGUF files (examples/gguf.h): models of data/checkpoints written as llama.cpp has them say what
 * their folders say; every type of numbers is what a second reading of its bits makes of it; what
 * cannot be in a head, and what is damaged, is refused with a sentence. Run from the folder that
 * holds miras.h.
 * cc -std=c99 -O2 tests/test_gguf.c -lcmocka -lm */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "inside.h"
#define MIRAS_HUGGINGFACE_IMPLEMENTATION
#include "../examples/huggingface.h"
#define MIRAS_GGUF_IMPLEMENTATION
#include "../examples/gguf.h"
#include "check.h"

#if defined(__unix__)
  #include <unistd.h>
#endif

enum { VOCAB = 48, TOKENS = 28, LEAN = MIRAS_TEST_SHARE > 1 ? 4 : 1 };

/* ---- writing a file -------------------------------------------------------------------------- */

typedef struct bytes { unsigned char *at; size_t n, room; } bytes;

static void put(bytes *b, const void *from, size_t n) {
  if (b->n + n > b->room) {
    b->room = 2 * (b->n + n);
    b->at = (unsigned char *)realloc(b->at, b->room);
    assert_non_null(b->at);
  }
  if (n) memcpy(b->at + b->n, from, n);
  b->n += n;
}

static void put_whole(bytes *b, uint64_t x, int size) {
  unsigned char byte;
  while (size--) {
    byte = (unsigned char)x;
    put(b, &byte, 1);
    x >>= 8;
  }
}

static void put_text(bytes *b, const char *text) {
  put_whole(b, strlen(text), 8);
  put(b, text, strlen(text));
}

static void put_float(bytes *b, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  put_whole(b, bits, 4);
}

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, LIST, U64, I64, F64 };

typedef struct entry { char key[80]; int type; bytes value; } entry;
typedef struct part { char name[80]; int rank, type; uint64_t shape[8], off; bytes data; } part;
typedef struct file {
  entry keys[64];
  part parts[256];
  int key_count, part_count, align, version;
} file;
static file made;

static entry *key_of(const char *key, int type) {
  entry *e = made.keys;
  while (e < made.keys + made.key_count && strcmp(e->key, key) != 0) e++;
  if (e == made.keys + made.key_count) {
    assert_true(made.key_count++ < 64);
    memset(e, 0, sizeof *e);
    strcpy(e->key, key);
  }
  e->type = type;
  e->value.n = 0;
  return e;
}

static void key_whole(const char *key, double x) {
  put_whole(&key_of(key, U32)->value, (uint64_t)x, 4);
}
static void key_float(const char *key, float x) { put_float(&key_of(key, F32)->value, x); }
static void key_text(const char *key, const char *text) {
  put_text(&key_of(key, TEXT)->value, text);
}

/* A key of the architecture. */
static const char *arch_key(const char *arch, const char *name) {
  static char key[80];
  snprintf(key, sizeof key, "%s.%s", arch, name);
  return key;
}

/* A tensor; its shape outermost first, as the folders have it. */
static part *add_part(const char *name, int rank, const uint64_t *shape, int type) {
  part *p = &made.parts[made.part_count];
  int i;
  assert_true(made.part_count++ < 256);
  memset(p, 0, sizeof *p);
  strcpy(p->name, name);
  p->rank = rank, p->type = type;
  for (i = 0; i < rank; i++) p->shape[rank - 1 - i] = shape[i];
  return p;
}

static void drop_file(void) {
  int i;
  for (i = 0; i < made.key_count; i++) free(made.keys[i].value.at);
  for (i = 0; i < made.part_count; i++) free(made.parts[i].data.at);
  memset(&made, 0, sizeof made);
  made.align = 32, made.version = 3;
}

static void pad(bytes *b, size_t to) {
  while (b->n % to) put_whole(b, 0, 1);
}

/* The whole file. Tensors lie behind one another; what is said of their places is `off` more. */
static bytes finish(void) {
  bytes b = {NULL, 0, 0};
  uint64_t place = 0;
  int i, k;
  put(&b, "GGUF", 4);
  put_whole(&b, (uint64_t)made.version, 4);
  put_whole(&b, (uint64_t)made.part_count, 8);
  put_whole(&b, (uint64_t)made.key_count, 8);
  for (i = 0; i < made.key_count; i++) {
    put_text(&b, made.keys[i].key);
    put_whole(&b, (uint64_t)made.keys[i].type, 4);
    put(&b, made.keys[i].value.at, made.keys[i].value.n);
  }
  for (i = 0; i < made.part_count; i++) {
    const part *p = &made.parts[i];
    put_text(&b, p->name);
    put_whole(&b, (uint64_t)p->rank, 4);
    for (k = 0; k < p->rank; k++) put_whole(&b, p->shape[k], 8);
    put_whole(&b, (uint64_t)p->type, 4);
    put_whole(&b, place + p->off, 8);
    place += (p->data.n + (size_t)made.align - 1) / (size_t)made.align * (size_t)made.align;
  }
  pad(&b, (size_t)made.align);
  for (i = 0; i < made.part_count; i++) {
    put(&b, made.parts[i].data.at, made.parts[i].data.n);
    pad(&b, (size_t)made.align);
  }
  return b;
}

static char path[64];

static void save(const void *at, size_t n) {
  FILE *f;
  if (!path[0]) {
#if defined(__unix__)
    snprintf(path, sizeof path, "/tmp/miras_gguf_%ld.gguf", (long)getpid());
#else
    strcpy(path, "miras_gguf_test.gguf");
#endif
  }
  remove(path);   /* ext4 sends a file that is written over to the disk at once */
  f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(at, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

static size_t save_file(void) {
  bytes b = finish();
  save(b.at, b.n);
  free(b.at);
  return b.n;
}

/* ---- a folder as a file ---------------------------------------------------------------------- */

/* What becomes of a tensor on its way. */
enum { SAME, PAIRED, EXPED, MORE, SIX, TILED, TILED_LAST, TILED_COLS, QKV_OF, Z_OF, STACKED };
typedef struct row { const char *file, *folder; int how; } row;

typedef struct source {
  hf__reader c;
  miras_model_desc d;      /* with all defaults                                                   */
  int heads, keys;         /* of values, and of keys; width of a head where pairs turn            */
  int head, key_size, value_size;
  int groups;              /* of Mamba-2; 0: another                                              */
  char why[256];           /* which the reader keeps                                              */
} source;

/* The numbers of a tensor of the folder; NULL: it has none of this name. */
static float *fetch(source *s, const char *name, int *rank, uint64_t *shape) {
  const hf__tensor *x = hf__tensor_named(&s->c, name);
  float *to;
  size_t i, n, all;
  if (!x) return NULL;
  all = (size_t)x->count;
  to = (float *)malloc(all * sizeof(float));
  assert_non_null(to);
  for (i = 0; i < all; i += n) {
    n = all - i < HF__READ ? all - i : (size_t)HF__READ;
    assert_true(hf__tensor_get(&s->c, x, i, n, to + i));
  }
  *rank = x->rank;
  memcpy(shape, x->shape, sizeof x->shape);
  return to;
}

/* [outer, inner, unit, cols] becomes [inner, outer, unit, cols]. */
static void turn(float *x, size_t outer, size_t inner, size_t width) {
  float *old = (float *)malloc(outer * inner * width * sizeof(float));
  size_t a, b;
  assert_non_null(old);
  memcpy(old, x, outer * inner * width * sizeof(float));
  for (a = 0; a < outer; a++)
    for (b = 0; b < inner; b++)
      memcpy(x + (b * outer + a) * width, old + (a * inner + b) * width, width * sizeof(float));
  free(old);
}

/* Put rows of `cols` numbers into a tensor: those of [head, q k v z] of a key head, without or with
 * z only, as llama.cpp's converter parts them. */
static void put_parted(const source *s, part *p, const float *x, size_t cols, int only_z) {
  const size_t k = (size_t)s->key_size;
  const size_t v = (size_t)(s->heads / s->keys * s->value_size), all = 2 * k + 2 * v;
  const size_t from[] = {0, k, 2 * k, 2 * k + v, all};
  size_t kind, head, i;
  uint64_t rows = 0;
  for (kind = only_z ? 3 : 0; kind < (only_z ? 4u : 3u); kind++)
    for (head = 0; head < (size_t)s->keys; head++) {
      const float *at = x + (head * all + from[kind]) * cols;
      for (i = 0; i < (from[kind + 1] - from[kind]) * cols; i++) put_float(&p->data, at[i]);
      rows += from[kind + 1] - from[kind];
    }
  p->shape[1] = rows;
}

static void change(const source *s, float *x, size_t count, size_t rows, int how) {
  const size_t cols = count / rows, keys = (size_t)s->keys, values = (size_t)s->heads;
  const size_t each = values / (keys ? keys : 1), tail = values * (size_t)s->value_size;
  size_t i;
  if (how == EXPED || how == -EXPED)
    for (i = 0; i < count; i++) x[i] = (float)-exp((double)x[i]);
  if (how == MORE)
    for (i = 0; i < count; i++) x[i] += 1;
  if (how == PAIRED)
    for (i = 0; i < rows; i += (size_t)s->head)
      turn(x + i * cols, 2, (size_t)s->head / 2, cols);
  if (how == TILED || how == -EXPED) turn(x, keys, each, rows / values * cols);
  if (how == TILED_LAST)
    turn(x + (rows - tail) * cols, keys, each, (size_t)s->value_size * cols);
  if (how == TILED_COLS)
    for (i = 0; i < rows; i++) turn(x + i * cols, keys, each, cols / values);
}

static void numbers(part *p, const float *x, size_t n) {
  size_t i;
  for (i = 0; i < n; i++) put_float(&p->data, x[i]);
}

/* Write one row's tensor of a layer, if the folder has it. */
static void put_row(source *s, const row *r, int layer) {
  static const char six[] = "rwkvag";
  char to[80], from[80];
  uint64_t shape[8] = {0};
  size_t count, i;
  int rank = 0, k = 0;
  float *x;
  part *p;
  snprintf(to, sizeof to, r->file, layer);
  do {
    snprintf(from, sizeof from, r->folder, layer, r->how == SIX ? six[k] : k);
    x = fetch(s, from, &rank, shape);
    if (!x) return;
    for (count = 1, i = 0; i < (size_t)rank; i++) count *= (size_t)shape[i];
    if (rank > 1 && shape[1] == 1 && strstr(from, "conv1d")) shape[1] = shape[2], rank = 2;
    if (r->how == SIX) {             /* [6, 1, 1, width] */
      const uint64_t all[4] = {6, 1, 1, count};
      p = k ? &made.parts[made.part_count - 1] : add_part(to, 4, all, 0);
      numbers(p, x, count);
    } else if (r->how == STACKED) {
      const uint64_t all[3] = {(uint64_t)s->d.layer[5].mlp.experts, shape[0], shape[1]};
      p = k ? &made.parts[made.part_count - 1] : add_part(to, 3, all, 0);
      numbers(p, x, count);
    } else if (r->how == QKV_OF || r->how == Z_OF) {
      p = add_part(to, 2, shape, 0);
      put_parted(s, p, x, (size_t)shape[1], r->how == Z_OF);
    } else {
      if (strstr(to, "gate_inp_shexp") || strstr(to, "r_k")) shape[0] = count, rank = 1;
      if (s->groups && rank == 1 && (strstr(to, "ssm_a") || !strcmp(to + strlen(to) - 5, "ssm_d")))
        shape[1] = 1, rank = 2;
      if (s->groups && strstr(to, "ssm_norm"))
        shape[0] = (uint64_t)s->groups, shape[1] = count / shape[0], rank = 2;
      p = add_part(to, rank, shape, 0);
      change(s, x, count, (size_t)shape[0], r->how);
      numbers(p, x, count);
    }
    free(x);
    k++;
  } while ((r->how == SIX && k < 6) || (r->how == STACKED && k < s->d.layer[5].mlp.experts));
}

static void open_source(source *s, const char *folder) {
  miras_model_desc d;
  memset(s, 0, sizeof *s);
  memset(&d, 0, sizeof d);
  if (miras_checkpoint_desc(&d, folder, NULL, NULL, s->why, sizeof s->why) != MIRAS_OK)
    fail_msg("%s", s->why);
  s->d = d;
  assert_true(miras_model_desc_resolve(&s->d, s->why, sizeof s->why) > 0);
  if (!hf__reader_open(&s->c, folder, NULL, 0, NULL, s->why, sizeof s->why))
    fail_msg("%s", s->why);
}

static void close_source(source *s) { hf__reader_close(&s->c); }

static void put_rows(source *s, const row *rows, size_t count, int layers) {
  size_t i;
  int layer;
  for (i = 0; i < count; i++)
    for (layer = 0; layer < (strchr(rows[i].file, '%') ? layers : 1); layer++)
      put_row(s, &rows[i], layer);
}
#define PUT_ROWS(s, rows, layers) put_rows(s, rows, sizeof(rows) / sizeof(rows)[0], layers)

static void common_keys(const source *s, const char *arch, int layers) {
  key_text("general.architecture", arch);
  key_whole(arch_key(arch, "block_count"), layers);
  key_whole(arch_key(arch, "embedding_length"), s->d.width);
  key_whole(arch_key(arch, "context_length"), 1 << 20);
}
#define L "model.layers.%d."
#define B "blk.%d."

static const row llama_rows[] = {
  {"token_embd.weight", "model.embed_tokens.weight", SAME},
  {"output_norm.weight", "model.norm.weight", SAME},
  {"output.weight", "lm_head.weight", SAME},
  {B "attn_norm.weight", L "input_layernorm.weight", SAME},
  {B "attn_q.weight", L "self_attn.q_proj.weight", PAIRED},
  {B "attn_k.weight", L "self_attn.k_proj.weight", PAIRED},
  {B "attn_v.weight", L "self_attn.v_proj.weight", SAME},
  {B "attn_output.weight", L "self_attn.o_proj.weight", SAME},
  {B "ffn_norm.weight", L "post_attention_layernorm.weight", SAME},
  {B "ffn_gate.weight", L "mlp.gate_proj.weight", SAME},
  {B "ffn_up.weight", L "mlp.up_proj.weight", SAME},
  {B "ffn_down.weight", L "mlp.down_proj.weight", SAME}};

/* What llama.cpp's converter makes of Llama 3.1's fields: what the angle of pair i of a head of
 * this size is divided by, in doubles and then as a float. */
static float divisor(const miras_rope_scaling *s, double theta, int size, int i) {
  const double low = (double)s->low_frequency_factor, high = (double)s->high_frequency_factor;
  const double wave = 2 * acos(-1.0) * pow(theta, 2.0 * i / size), context = s->context;
  const double smooth = (context / wave - low) / (high - low), factor = (double)s->factor;
  return (float)(wave < context / high  ? 1
                 : wave > context / low ? factor : 1 / ((1 - smooth) / factor + smooth));
}

/* The fields of a scaling, as that converter writes them. */
static void put_scaling(const miras_layer_desc *a) {
  const miras_rope_scaling *s = &a->attention.rope_scaling;
  if (s->type == MIRAS_ROPE_SCALING_LLAMA3) {
    const uint64_t shape[1] = {(uint64_t)a->attention.head_dim / 2};
    part *p = add_part("rope_freqs.weight", 1, shape, 0);
    int i;
    for (i = 0; i < a->attention.head_dim / 2; i++)
      put_float(&p->data, divisor(s, (double)a->attention.rope.theta, a->attention.head_dim, i));
  } else if (s->type) {
    const int yarn = s->type == MIRAS_ROPE_SCALING_YARN;
    key_text("llama.rope.scaling.type", yarn ? "yarn" : "linear");
    key_float("llama.rope.scaling.factor", s->factor);
    if (!yarn) return;
    key_whole("llama.rope.scaling.original_context_length", s->context);
    key_float("llama.rope.scaling.yarn_beta_slow", s->low_frequency_factor);
    key_float("llama.rope.scaling.yarn_beta_fast", s->high_frequency_factor);
  }
}

static void make_llama(source *s) {
  const miras_layer_desc *a = &s->d.layer[2];
  common_keys(s, "llama", s->d.layers);
  key_whole("llama.context_length", a->attention.window);
  key_whole("llama.feed_forward_length", a->mlp.hidden);
  key_whole("llama.attention.head_count", a->attention.heads);
  key_whole("llama.attention.head_count_kv", a->attention.kv_heads);
  key_whole("llama.attention.key_length", a->attention.head_dim);
  key_whole("llama.attention.value_length", a->attention.head_dim);
  key_whole("llama.rope.dimension_count", a->attention.head_dim);
  key_float("llama.rope.freq_base", a->attention.rope.theta);
  key_float("llama.attention.layer_norm_rms_epsilon", s->d.norm_epsilon);
  key_whole("llama.vocab_size", s->d.vocab);
  s->head = a->attention.head_dim;
  PUT_ROWS(s, llama_rows, s->d.layers);
  put_scaling(a);
}

#define M "backbone.layers.%d."
static const row mamba_rows[] = {
  {"token_embd.weight", "backbone.embeddings.weight", SAME},
  {"output_norm.weight", "backbone.norm_f.weight", SAME},
  {"output.weight", "lm_head.weight", SAME},
  {B "attn_norm.weight", M "norm.weight", SAME},
  {B "ssm_in.weight", M "mixer.in_proj.weight", SAME},
  {B "ssm_conv1d.weight", M "mixer.conv1d.weight", SAME},
  {B "ssm_conv1d.bias", M "mixer.conv1d.bias", SAME},
  {B "ssm_x.weight", M "mixer.x_proj.weight", SAME},
  {B "ssm_dt.weight", M "mixer.dt_proj.weight", SAME},
  {B "ssm_dt.bias", M "mixer.dt_proj.bias", SAME},
  {B "ssm_dt.bias", M "mixer.dt_bias", SAME},
  {B "ssm_a", M "mixer.A_log", EXPED},
  {B "ssm_d", M "mixer.D", SAME},
  {B "ssm_norm.weight", M "mixer.norm.weight", SAME},
  {B "ssm_out.weight", M "mixer.out_proj.weight", SAME}};

static void make_mamba(source *s, const char *arch) {
  const miras_layer_desc *l = &s->d.layer[0];
  const int two = strcmp(arch, "mamba2") == 0;
  common_keys(s, arch, s->d.layers);
  key_whole(arch_key(arch, "feed_forward_length"), 0);
  key_whole(arch_key(arch, "attention.head_count"), 0);
  key_whole(arch_key(arch, "ssm.conv_kernel"), l->mixer.conv_size);
  key_whole(arch_key(arch, "ssm.inner_size"), l->memory.heads * l->memory.value_dim);
  key_whole(arch_key(arch, "ssm.state_size"), l->memory.key_dim);
  key_whole(arch_key(arch, "ssm.time_step_rank"), two ? l->memory.heads : l->mixer.gate_rank);
  key_float(arch_key(arch, "attention.layer_norm_rms_epsilon"), s->d.norm_epsilon);
  s->groups = two ? l->mixer.qk_heads : 0;
  if (two) key_whole(arch_key(arch, "ssm.group_count"), s->groups);
  else put_whole(&key_of("mamba.ssm.dt_b_c_rms", BOOL)->value, l->mixer.from_values_epsilon > 0, 1);
  PUT_ROWS(s, mamba_rows, s->d.layers);
}

static const row jamba_rows[] = {
  {"token_embd.weight", "model.embed_tokens.weight", SAME},
  {"output_norm.weight", "model.final_layernorm.weight", SAME},
  {"output.weight", "lm_head.weight", SAME},
  {B "attn_norm.weight", L "input_layernorm.weight", SAME},
  {B "ssm_in.weight", L "mamba.in_proj.weight", SAME},
  {B "ssm_conv1d.weight", L "mamba.conv1d.weight", SAME},
  {B "ssm_conv1d.bias", L "mamba.conv1d.bias", SAME},
  {B "ssm_x.weight", L "mamba.x_proj.weight", SAME},
  {B "ssm_dt_norm.weight", L "mamba.dt_layernorm.weight", SAME},
  {B "ssm_b_norm.weight", L "mamba.b_layernorm.weight", SAME},
  {B "ssm_c_norm.weight", L "mamba.c_layernorm.weight", SAME},
  {B "ssm_dt.weight", L "mamba.dt_proj.weight", SAME},
  {B "ssm_dt.bias", L "mamba.dt_proj.bias", SAME},
  {B "ssm_a", L "mamba.A_log", EXPED},
  {B "ssm_d", L "mamba.D", SAME},
  {B "ssm_out.weight", L "mamba.out_proj.weight", SAME},
  {B "attn_q.weight", L "self_attn.q_proj.weight", SAME},
  {B "attn_k.weight", L "self_attn.k_proj.weight", SAME},
  {B "attn_v.weight", L "self_attn.v_proj.weight", SAME},
  {B "attn_output.weight", L "self_attn.o_proj.weight", SAME},
  {B "ffn_norm.weight", L "pre_ff_layernorm.weight", SAME},
  {B "ffn_gate_inp.weight", L "feed_forward.router.weight", SAME},
  {B "ffn_gate_exps.weight", L "feed_forward.experts.%d.gate_proj.weight", STACKED},
  {B "ffn_up_exps.weight", L "feed_forward.experts.%d.up_proj.weight", STACKED},
  {B "ffn_down_exps.weight", L "feed_forward.experts.%d.down_proj.weight", STACKED},
  {B "ffn_gate.weight", L "feed_forward.gate_proj.weight", SAME},
  {B "ffn_up.weight", L "feed_forward.up_proj.weight", SAME},
  {B "ffn_down.weight", L "feed_forward.down_proj.weight", SAME}};

static void make_jamba(source *s) {
  const miras_layer_desc *l = &s->d.layer[0], *a = &s->d.layer[1], *x = &s->d.layer[5];
  entry *e = key_of("jamba.attention.head_count_kv", LIST);
  unsigned char kind[MIRAS_MAX_LAYERS];
  int i;
  inside_pattern(&s->d, kind);
  put_whole(&e->value, I32, 4);
  put_whole(&e->value, (uint64_t)s->d.layers, 8);
  for (i = 0; i < s->d.layers; i++)
    put_whole(&e->value, (uint64_t)(s->d.layer[kind[i]].type == MIRAS_LAYER_ATTENTION
                                      ? a->attention.kv_heads : 0), 4);
  common_keys(s, "jamba", s->d.layers);
  key_whole("jamba.context_length", a->attention.window);
  key_whole("jamba.feed_forward_length", l->mlp.hidden);
  key_whole("jamba.attention.head_count", a->attention.heads);
  key_whole("jamba.ssm.conv_kernel", l->mixer.conv_size);
  key_whole("jamba.ssm.inner_size", l->memory.heads * l->memory.value_dim);
  key_whole("jamba.ssm.state_size", l->memory.key_dim);
  key_whole("jamba.ssm.time_step_rank", l->mixer.gate_rank);
  key_float("jamba.attention.layer_norm_rms_epsilon", s->d.norm_epsilon);
  if (x->mlp.experts) {
    key_whole("jamba.expert_count", x->mlp.experts);
    key_whole("jamba.expert_used_count", x->mlp.experts_per_token);
  }
  PUT_ROWS(s, jamba_rows, s->d.layers);
}

#define A "model.layers.%d.attn."
static const row rwkv_rows[] = {
  {"token_embd.weight", "model.embeddings.weight", SAME},
  {"token_embd_norm.weight", "model.layers.0.pre_norm.weight", SAME},
  {"token_embd_norm.bias", "model.layers.0.pre_norm.bias", SAME},
  {"output_norm.weight", "model.norm.weight", SAME},
  {"output_norm.bias", "model.norm.bias", SAME},
  {"output.weight", "lm_head.weight", SAME},
  {B "attn_norm.weight", L "attn_norm.weight", SAME},
  {B "attn_norm.bias", L "attn_norm.bias", SAME},
  {B "time_mix_lerp_fused.weight", A "x_%c", SIX},
  {B "time_mix_receptance.weight", A "r_proj.weight", SAME},
  {B "time_mix_key.weight", A "k_proj.weight", SAME},
  {B "time_mix_value.weight", A "v_proj.weight", SAME},
  {B "time_mix_output.weight", A "o_proj.weight", SAME},
  {B "time_mix_w1.weight", A "w_lora.lora.0.weight", SAME},
  {B "time_mix_w2.weight", A "w_lora.lora.2.weight", SAME},
  {B "time_mix_w0.weight", A "w_lora.lora.2.bias", SAME},
  {B "time_mix_a1.weight", A "a_lora.lora.0.weight", SAME},
  {B "time_mix_a2.weight", A "a_lora.lora.2.weight", SAME},
  {B "time_mix_a0.weight", A "a_lora.lora.2.bias", SAME},
  {B "time_mix_v1.weight", A "v_lora.lora.0.weight", SAME},
  {B "time_mix_v2.weight", A "v_lora.lora.2.weight", SAME},
  {B "time_mix_v0.weight", A "v_lora.lora.2.bias", SAME},
  {B "time_mix_g1.weight", A "g_lora.lora.0.weight", SAME},
  {B "time_mix_g2.weight", A "g_lora.lora.2.weight", SAME},
  {B "time_mix_k_k.weight", A "k_k", SAME},
  {B "time_mix_k_a.weight", A "k_a", SAME},
  {B "time_mix_r_k.weight", A "r_k", SAME},
  {B "time_mix_ln.weight", A "g_norm.weight", SAME},
  {B "time_mix_ln.bias", A "g_norm.bias", SAME},
  {B "attn_norm_2.weight", L "ffn_norm.weight", SAME},
  {B "attn_norm_2.bias", L "ffn_norm.bias", SAME},
  {B "channel_mix_lerp_k.weight", L "ffn.x_k", SAME},
  {B "channel_mix_key.weight", L "ffn.key.weight", SAME},
  {B "channel_mix_value.weight", L "ffn.value.weight", SAME}};
/* the first layer's of another purpose, as the converter puts them there */
static const row rwkv_first[] = {
  {"blk.0.time_mix_v1.weight", "model.layers.0.attn.a_lora.lora.0.weight", SAME},
  {"blk.0.time_mix_v2.weight", "model.layers.0.attn.a_lora.lora.2.weight", SAME},
  {"blk.0.time_mix_v0.weight", "model.layers.0.attn.a_lora.lora.2.bias", SAME}};

static void make_rwkv(source *s) {
  const miras_layer_desc *l = &s->d.layer[0];
  const int layers = s->d.layers / 2;
  common_keys(s, "rwkv7", layers);
  key_whole("rwkv7.attention.head_count", 0);
  key_float("rwkv7.attention.layer_norm_epsilon", s->d.norm_epsilon);
  key_whole("rwkv7.feed_forward_length", s->d.layer[3].mlp.hidden);
  key_whole("rwkv7.wkv.head_size", l->memory.key_dim);
  key_whole("rwkv7.attention.decay_lora_rank", l->rwkv.decay_rank);
  key_whole("rwkv7.attention.iclr_lora_rank", l->rwkv.rate_rank);
  key_whole("rwkv7.attention.value_residual_mix_lora_rank", l->rwkv.value_rank);
  key_whole("rwkv7.attention.gate_lora_rank", l->mixer.out_gate_rank);
  PUT_ROWS(s, rwkv_rows, layers);
  PUT_ROWS(s, rwkv_first, 1);
}

/* P: what names of the folder begin with; V: with heads of values in tiles. */
#define QWEN_ROWS(P, V, V_LAST, V_COLS, V_EXPED) \
  {"token_embd.weight", P "embed_tokens.weight", SAME}, \
  {"output_norm.weight", P "norm.weight", MORE}, \
  {"output.weight", "lm_head.weight", SAME}, \
  {B "attn_norm.weight", P "layers.%d.input_layernorm.weight", MORE}, \
  {B "attn_qkv.weight", P "layers.%d.linear_attn.in_proj_qkv.weight", V_LAST}, \
  {B "attn_qkv.weight", P "layers.%d.linear_attn.in_proj_qkvz.weight", QKV_OF}, \
  {B "attn_gate.weight", P "layers.%d.linear_attn.in_proj_z.weight", V}, \
  {B "attn_gate.weight", P "layers.%d.linear_attn.in_proj_qkvz.weight", Z_OF}, \
  {B "ssm_conv1d.weight", P "layers.%d.linear_attn.conv1d.weight", V_LAST}, \
  {B "ssm_ba.weight", P "layers.%d.linear_attn.in_proj_ba.weight", SAME}, \
  {B "ssm_alpha.weight", P "layers.%d.linear_attn.in_proj_a.weight", V}, \
  {B "ssm_beta.weight", P "layers.%d.linear_attn.in_proj_b.weight", V}, \
  {B "ssm_dt.bias", P "layers.%d.linear_attn.dt_bias", V}, \
  {B "ssm_a", P "layers.%d.linear_attn.A_log", V_EXPED}, \
  {B "ssm_norm.weight", P "layers.%d.linear_attn.norm.weight", SAME}, \
  {B "ssm_out.weight", P "layers.%d.linear_attn.out_proj.weight", V_COLS}, \
  {B "attn_q.weight", P "layers.%d.self_attn.q_proj.weight", SAME}, \
  {B "attn_k.weight", P "layers.%d.self_attn.k_proj.weight", SAME}, \
  {B "attn_v.weight", P "layers.%d.self_attn.v_proj.weight", SAME}, \
  {B "attn_q_norm.weight", P "layers.%d.self_attn.q_norm.weight", MORE}, \
  {B "attn_k_norm.weight", P "layers.%d.self_attn.k_norm.weight", MORE}, \
  {B "attn_output.weight", P "layers.%d.self_attn.o_proj.weight", SAME}, \
  {B "post_attention_norm.weight", P "layers.%d.post_attention_layernorm.weight", MORE}, \
  {B "ffn_gate_inp.weight", P "layers.%d.mlp.gate.weight", SAME}, \
  {B "ffn_gate_inp_shexp.weight", P "layers.%d.mlp.shared_expert_gate.weight", SAME}, \
  {B "ffn_gate_exps.weight", P "layers.%d.mlp.experts.%d.gate_proj.weight", STACKED}, \
  {B "ffn_up_exps.weight", P "layers.%d.mlp.experts.%d.up_proj.weight", STACKED}, \
  {B "ffn_down_exps.weight", P "layers.%d.mlp.experts.%d.down_proj.weight", STACKED}, \
  {B "ffn_gate_up_exps.weight", P "layers.%d.mlp.experts.gate_up_proj", SAME}, \
  {B "ffn_down_exps.weight", P "layers.%d.mlp.experts.down_proj", SAME}, \
  {B "ffn_gate_shexp.weight", P "layers.%d.mlp.shared_expert.gate_proj.weight", SAME}, \
  {B "ffn_up_shexp.weight", P "layers.%d.mlp.shared_expert.up_proj.weight", SAME}, \
  {B "ffn_down_shexp.weight", P "layers.%d.mlp.shared_expert.down_proj.weight", SAME}, \
  {B "ffn_gate.weight", P "layers.%d.mlp.gate_proj.weight", SAME}, \
  {B "ffn_up.weight", P "layers.%d.mlp.up_proj.weight", SAME}, \
  {B "ffn_down.weight", P "layers.%d.mlp.down_proj.weight", SAME}
static const row next_rows[] = {QWEN_ROWS("model.", SAME, SAME, SAME, EXPED)};
static const row qwen_rows[] = {
  QWEN_ROWS("model.language_model.", TILED, TILED_LAST, TILED_COLS, -EXPED)};

static void make_qwen(source *s, const char *arch) {
  const miras_layer_desc *l = &s->d.layer[0], *a = &s->d.layer[2], *x = &s->d.layer[5];
  s->heads = l->memory.heads, s->keys = l->mixer.qk_heads;
  s->key_size = l->memory.key_dim, s->value_size = l->memory.value_dim;
  common_keys(s, arch, s->d.layers);
  key_whole(arch_key(arch, "feed_forward_length"), l->mlp.hidden);
  key_whole(arch_key(arch, "attention.head_count"), a->attention.heads);
  key_whole(arch_key(arch, "attention.head_count_kv"), a->attention.kv_heads);
  key_whole(arch_key(arch, "attention.key_length"), a->attention.head_dim);
  key_whole(arch_key(arch, "attention.value_length"), a->attention.head_dim);
  key_whole(arch_key(arch, "context_length"), a->attention.window);
  key_whole(arch_key(arch, "rope.dimension_count"), a->attention.rope.dim);
  key_float(arch_key(arch, "rope.freq_base"), a->attention.rope.theta);
  key_float(arch_key(arch, "attention.layer_norm_rms_epsilon"), s->d.norm_epsilon);
  key_whole(arch_key(arch, "full_attention_interval"), 2);
  key_whole(arch_key(arch, "ssm.conv_kernel"), l->mixer.conv_size);
  key_whole(arch_key(arch, "ssm.state_size"), s->key_size);
  key_whole(arch_key(arch, "ssm.group_count"), s->keys);
  key_whole(arch_key(arch, "ssm.time_step_rank"), s->heads);
  key_whole(arch_key(arch, "ssm.inner_size"), s->heads * s->value_size);
  if (x->mlp.experts) {
    key_whole(arch_key(arch, "expert_count"), x->mlp.experts);
    key_whole(arch_key(arch, "expert_used_count"), x->mlp.experts_per_token);
    key_whole(arch_key(arch, "expert_feed_forward_length"), x->mlp.hidden);
    key_whole(arch_key(arch, "expert_shared_feed_forward_length"),
              x->mlp.shared_experts * x->mlp.hidden);
  }
  if (strcmp(arch, "qwen3next") == 0) PUT_ROWS(s, next_rows, s->d.layers);
  else PUT_ROWS(s, qwen_rows, s->d.layers);
}

/* The folder as a file. */
static void make_file(const char *name) {
  static source s;
  char folder[96];
  drop_file();
  snprintf(folder, sizeof folder, "tests/data/checkpoints/%s", name);
  open_source(&s, folder);
  if (strncmp(name, "llama", 5) == 0) make_llama(&s);
  else if (strncmp(name, "jamba", 5) == 0) make_jamba(&s);
  else if (strncmp(name, "rwkv7", 5) == 0) make_rwkv(&s);
  else if (strncmp(name, "mamba2", 6) == 0) make_mamba(&s, "mamba2");
  else if (strncmp(name, "qwen3_next", 10) == 0) make_qwen(&s, "qwen3next");
  else if (strcmp(name, "qwen3_5") == 0) make_qwen(&s, "qwen35");
  else if (strcmp(name, "qwen3_5_moe") == 0) make_qwen(&s, "qwen35moe");
  else make_mamba(&s, "mamba");
  close_source(&s);
}

static uint64_t drawn;
static unsigned draw(unsigned n) {
  drawn = hf__hash(drawn + 1);
  return (unsigned)(drawn >> 33) % n;
}

/* ---- the same logits ------------------------------------------------------------------------- */

static void say(miras_model *m, float *logits) {
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  int i;
  assert_non_null(s);
  for (i = 0; i < TOKENS; i++)
    memcpy(logits + i * VOCAB, miras_session_step(s, (7 * i + 3) % VOCAB), VOCAB * sizeof(float));
  miras_close(s);
}

/* How far two texts' logits are apart, in deviations of the second's. */
static double apart(const float *got, const float *want) {
  double sum = 0, squares = 0, most = 0;
  int i;
  for (i = 0; i < TOKENS * VOCAB; i++) {
    const double e = fabs((double)want[i] - (double)got[i]);
    sum += (double)want[i], squares += (double)want[i] * (double)want[i];
    if (!(e <= most)) most = e;
  }
  sum /= TOKENS * VOCAB;
  return most / sqrt(squares / (TOKENS * VOCAB) - sum * sum);
}

static miras_model *open_file(miras_model_desc *d) {
  char why[1024] = "";
  miras_model *m;
  memset(d, 0, sizeof *d);
  if (miras_gguf_desc(d, path, NULL, NULL, why, sizeof why) != MIRAS_OK) fail_msg("%s", why);
  assert_string_equal(why, "");
  m = miras_gguf_open(d, path, NULL, NULL, why, sizeof why);
  if (!m) fail_msg("%s", why);
  return m;
}

/* Exact: every number is the same. Else -exp(x) in floats is between the two. */
static const struct { const char *name; int exact; } same[] = {
  {"llama", 1}, {"llama-tied", 1}, {"llama-linear", 1}, {"jamba", 0},
  {"jamba-plain", 0}, {"rwkv7", 1}, {"mamba", 0}, {"mamba2", 0},
  {"mamba2-unbiased", 0}, {"qwen3_next", 0}, {"qwen3_next-experts", 0}, {"qwen3_5", 0},
  {"qwen3_5_moe", 0}};

static void test_folders(void **state) {
  static float want[TOKENS * VOCAB], got[TOKENS * VOCAB];
  size_t k;
  (void)state;
  for (k = 0; k < sizeof same / sizeof same[0]; k++) {
    miras_model_desc d;
    miras_model *m;
    char folder[96], why[256] = "";
    double most;
    make_file(same[k].name);
    save_file();
    drop_file();
    snprintf(folder, sizeof folder, "tests/data/checkpoints/%s", same[k].name);
    m = open_file(&d);
    say(m, got);
    /* it is the model of the folder, so that either loads into it */
    if (miras_checkpoint_load(m, folder, NULL, NULL, why, sizeof why) != MIRAS_OK)
      fail_msg("%s: %s", folder, why);
    say(m, want);
    miras_close(m);
    most = apart(got, want);
    if (!(most <= (same[k].exact ? 0 : 5e-6))) fail_msg("%s: %g apart", same[k].name, most);
  }
  assert_int_equal(test_live, 0);
}

/* Scaled angles: yarn's fields; and of Llama 3.1 numbers, from which its fields are found again or
 * others that give the same. */
static void test_scaling(void **state) {
  static const struct { double theta; int size; miras_rope_scaling of; } published[] = {
    {5e5, 128, {MIRAS_ROPE_SCALING_LLAMA3, 8, 8192, 1, 4, 0}},
    {5e5, 64, {MIRAS_ROPE_SCALING_LLAMA3, 32, 8192, 1, 4, 0}}};
  static float by[2048], want[TOKENS * VOCAB], got[TOKENS * VOCAB];
  miras_rope_scaling s;
  miras_model_desc d;
  miras_model *m, *other;
  char why[256] = "";
  int n, i;
  size_t k;
  (void)state;
  make_file("llama-yarn");
  save_file();
  m = open_file(&d);
  s = d.layer[2].attention.rope_scaling;
  assert_true(s.type == MIRAS_ROPE_SCALING_YARN && s.factor <= 4 && s.factor >= 4);
  assert_true(s.context == 64 && s.low_frequency_factor <= 0.125f);
  assert_true(s.high_frequency_factor <= 2 && s.high_frequency_factor >= 2);
  miras_close(m);
  make_file("llama-far");
  save_file();
  drop_file();
  m = open_file(&d);
  memset(&d, 0, sizeof d);
  assert_int_equal(miras_checkpoint_desc(&d, "tests/data/checkpoints/llama-far", NULL, NULL, why,
                                         sizeof why), MIRAS_OK);
  other = miras_checkpoint_open(&d, "tests/data/checkpoints/llama-far", NULL, NULL, why,
                                sizeof why);
  assert_non_null(other);
  say(m, got);
  say(other, want);
  if (!(apart(got, want) <= 5e-6)) fail_msg("llama-far: %g apart", apart(got, want));
  miras_close(m);
  miras_close(other);
  for (k = 0; k < sizeof published / sizeof published[0]; k++) {
    for (i = 0; i < published[k].size / 2; i++)
      by[i] = divisor(&published[k].of, published[k].theta, published[k].size, i);
    assert_true(gg__scaling_find(&s, published[k].theta, by, published[k].size / 2));
    assert_memory_equal(&s, &published[k].of, sizeof s);
  }
  for (n = 0; n < 3000; n++) {
    const int size = 2 * (1 + (int)draw(n % 8 ? 32 : 256));
    const double theta = pow(10, 2 + draw(50) / 10.0);
    miras_rope_scaling of = {MIRAS_ROPE_SCALING_LLAMA3, 1, 0, 0, 0, 0};
    of.context = 1 << (6 + draw(14));
    of.factor = 1 + (float)draw(64) / 2;
    of.low_frequency_factor = (float)(0.25 * (1 + draw(8)));
    of.high_frequency_factor = of.low_frequency_factor + (float)(0.5 * (1 + draw(16)));
    for (i = 0; i < size / 2; i++) by[i] = divisor(&of, theta, size, i);
    /* a scaling of which no pair is divided by all of the factor is not looked for */
    if (by[size / 2 - 1] < of.factor && of.factor > 1) continue;
    if (!gg__scaling_find(&s, theta, by, size / 2))
      fail_msg("theta %g, %d: factor %g, context %d, %g to %g", theta, size, (double)of.factor,
               of.context, (double)of.low_frequency_factor, (double)of.high_frequency_factor);
    for (i = 0; i < size / 2; i++) {
      const double it = s.type ? (double)divisor(&s, theta, size, i) : 1;
      assert_true(fabs(it / (double)by[i] - 1) < 1e-5);
    }
  }
  /* numbers of no line */
  for (i = 0; i < 8; i++) by[i] = (float)(1 + i * i);
  assert_false(gg__scaling_find(&s, 1e4, by, 8));
  by[3] = 0.5f;
  assert_false(gg__scaling_find(&s, 1e4, by, 8));
  by[3] = (float)NAN;
  assert_false(gg__scaling_find(&s, 1e4, by, 8));
  drop_file();
  assert_int_equal(test_live, 0);
}

/* A file that the package gguf has written (checkpoints.py --gguf) says the very same. */
static void test_package(void **state) {
  static float want[TOKENS * VOCAB], got[TOKENS * VOCAB];
  static const char stored[] = "tests/data/llama-tied.gguf";
  miras_model_desc d;
  miras_model *m;
  char why[256] = "";
  (void)state;
  memset(&d, 0, sizeof d);
  if (miras_gguf_desc(&d, stored, NULL, NULL, why, sizeof why) != MIRAS_OK) fail_msg("%s", why);
  m = miras_gguf_open(&d, stored, NULL, NULL, why, sizeof why);
  if (!m) fail_msg("%s", why);
  say(m, got);
  assert_int_equal(miras_checkpoint_load(m, "tests/data/checkpoints/llama-tied", NULL, NULL, why,
                                         sizeof why), MIRAS_OK);
  say(m, want);
  miras_close(m);
  assert_memory_equal(got, want, sizeof want);
  assert_int_equal(test_live, 0);
}

/* ---- types of numbers ------------------------------------------------------------------------ */

/* Bits `from` to from + n of a row of bytes, the least first. */
static int bits(const unsigned char *p, int from, int n) {
  int x = 0, i;
  for (i = 0; i < n; i++) x |= (p[(from + i) / 8] >> (from + i) % 8 & 1) << i;
  return x;
}

static double half(const unsigned char *p) {
  const int sign = bits(p, 15, 1) ? -1 : 1, power = bits(p, 10, 5), rest = bits(p, 0, 10);
  return sign * (power ? ldexp(1024 + rest, power - 25) : ldexp(rest, -24));
}

static int sign8(int x) { return x < 128 ? x : x - 256; }

/* Scale or least value (which: 0, 1) number g of the twelve bytes of Q4_K and Q5_K. */
static int six_bits(const unsigned char *p, int which, int g) {
  if (g < 4) return bits(p, 8 * (g + 4 * which), 6);
  return bits(p, 8 * (g + 4) + 4 * which, 4) + 16 * bits(p, 8 * (g - 4 + 4 * which) + 6, 2);
}

/* Number k of a block, in doubles, from the layouts of ggml-common.h. */
static double number(int type, const unsigned char *p, int k) {
  uint32_t word;
  float x;
  switch (type) {
  case 0: word = hf__get32(p); memcpy(&x, &word, 4); return (double)x;
  case 1: return half(p);
  case 30: word = (uint32_t)bits(p, 0, 16) << 16; memcpy(&x, &word, 4); return (double)x;
  case 2: return half(p) * (bits(p + 2, 8 * (k % 16) + 4 * (k / 16), 4) - 8);
  case 3: return half(p) * bits(p + 4, 8 * (k % 16) + 4 * (k / 16), 4) + half(p + 2);
  case 6: return half(p) * (bits(p + 6, 8 * (k % 16) + 4 * (k / 16), 4) +
                            16 * bits(p + 2, k, 1) - 16);
  case 7: return half(p) * (bits(p + 8, 8 * (k % 16) + 4 * (k / 16), 4) +
                            16 * bits(p + 4, k, 1)) + half(p + 2);
  case 8: return half(p) * sign8(p[2 + k]);
  case 12: return half(p) * six_bits(p + 4, 0, k / 32) *
                    bits(p + 16, 8 * (k / 64 * 32 + k % 32) + 4 * (k / 32 % 2), 4) -
                  half(p + 2) * six_bits(p + 4, 1, k / 32);
  case 13: return half(p) * six_bits(p + 4, 0, k / 32) *
                    (bits(p + 48, 8 * (k / 64 * 32 + k % 32) + 4 * (k / 32 % 2), 4) +
                     16 * bits(p + 16, 8 * (k % 32) + k / 32, 1)) -
                  half(p + 2) * six_bits(p + 4, 1, k / 32);
  default: return half(p + 208) * sign8(p[192 + k / 16]) *
                  (bits(p, 8 * (k / 128 * 64 + k % 64) + 4 * (k / 64 % 2), 4) +
                   16 * bits(p + 128, 8 * (k / 128 * 32 + k % 32) + 2 * (k / 32 % 4), 2) - 32);
  }
}

static const struct { int type, numbers, size, halves[2]; } kinds[] = {
  {0, 1, 4, {-1, -1}}, {1, 1, 2, {0, -1}}, {30, 1, 2, {-1, -1}}, {2, 32, 18, {0, -1}},
  {3, 32, 20, {0, 2}}, {6, 32, 22, {0, -1}}, {7, 32, 24, {0, 2}}, {8, 32, 34, {0, -1}},
  {12, 256, 144, {0, 2}}, {13, 256, 176, {0, 2}}, {14, 256, 210, {208, -1}}};

/* Random blocks; halves, and floats, are finite and now and then small or 0. */
static void put_blocks(bytes *to, int kind, size_t count) {
  unsigned char block[256];
  size_t i;
  int k;
  for (i = 0; i < count; i += (size_t)kinds[kind].numbers) {
    for (k = 0; k < kinds[kind].size; k++) block[k] = (unsigned char)draw(256);
    for (k = 0; k < 2; k++)
      if (kinds[kind].halves[k] >= 0)
        block[kinds[kind].halves[k] + 1] = (unsigned char)(draw(2) << 7 | draw(i % 3 ? 16 : 60));
    if (kinds[kind].type == 0 || kinds[kind].type == 30)
      block[kinds[kind].size - 1] = (unsigned char)(draw(2) << 7 | draw(64));
    put(to, block, (size_t)kinds[kind].size);
  }
}

enum { WIDE = 256, HEADS = 4 };

/* A model of one layer whose matrices are of a type, 256 wide, with an odd number of tokens. */
static void make_typed(int kind, int align) {
  static const struct { const char *name; int out, in; } parts[] = {
    {"token_embd.weight", 7, WIDE}, {B "attn_q.weight", WIDE, WIDE}, {B "attn_k.weight", 128, WIDE},
    {B "attn_v.weight", 128, WIDE}, {B "attn_output.weight", WIDE, WIDE},
    {B "ffn_gate.weight", 512, WIDE}, {B "ffn_up.weight", 512, WIDE},
    {B "ffn_down.weight", WIDE, 512}};
  static const char *const gains[] = {"output_norm.weight", B "attn_norm.weight",
                                      B "ffn_norm.weight"};
  char name[80];
  size_t i;
  drop_file();
  key_text("general.architecture", "llama");
  key_whole("llama.block_count", 1);
  key_whole("llama.embedding_length", WIDE);
  key_whole("llama.feed_forward_length", 512);
  key_whole("llama.attention.head_count", HEADS);
  key_whole("llama.attention.head_count_kv", 2);
  key_whole("llama.context_length", 8);
  if (align) {
    made.align = align;
    key_whole("general.alignment", align);
    made.version = 2;
  }
  for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    const uint64_t shape[2] = {(uint64_t)parts[i].out, (uint64_t)parts[i].in};
    snprintf(name, sizeof name, parts[i].name, 0);
    put_blocks(&add_part(name, 2, shape, kinds[kind].type)->data, kind,
               (size_t)parts[i].out * (size_t)parts[i].in);
  }
  for (i = 0; i < 3; i++) {
    const uint64_t shape[1] = {WIDE};
    int k;
    part *p;
    snprintf(name, sizeof name, gains[i], 0);
    p = add_part(name, 1, shape, 0);
    for (k = 0; k < WIDE; k++) put_float(&p->data, (float)(k + 1) / WIDE);
  }
}

static const part *part_named(const char *name) {
  int i = 0;
  while (i < made.part_count && strcmp(made.parts[i].name, name) != 0) i++;
  assert_true(i < made.part_count);
  return &made.parts[i];
}

/* The view is the tensor, turned unless it is the embedding; pairs of heads of 64 parted again. */
static void compare(const miras_model *m, const char *ours, const char *theirs, int kind) {
  static float got[WIDE * 512];
  const part *p = part_named(theirs);
  const int in = (int)p->shape[0], out = (int)p->shape[1];
  const int kept = strcmp(ours, "embed.weight") == 0, pairs = strstr(theirs, "_q.") ||
                                                             strstr(theirs, "_k.");
  const miras_view *views = miras_model_views(m, NULL);
  const size_t cols = (size_t)(kept ? in : out), rows = (size_t)(kept ? out : in);
  int i, k, n;
  while (strcmp(views->name, ours) != 0) views++;
  assert_int_equal(views->count, rows * cols);
  assert_int_equal(miras_model_view_read(m, views, 0, rows, 0, cols, got), MIRAS_OK);
  for (i = 0; i < out; i++) {
    const int line = pairs ? i / 64 * 64 + i % 32 * 2 + i % 64 / 32 : i;
    for (k = 0; k < in; k++) {
      const size_t at = (size_t)line * (size_t)in + (size_t)k;
      const unsigned char *block =
        p->data.at + at / (size_t)kinds[kind].numbers * (size_t)kinds[kind].size;
      const float want = (float)number(kinds[kind].type, block, (int)at % kinds[kind].numbers);
      n = kept ? i * in + k : k * out + i;
      if (memcmp(&want, &got[n], sizeof want) != 0 && !(want >= 0 && want <= 0 && got[n] >= 0 &&
                                                        got[n] <= 0))
        fail_msg("type %d, %s [%d, %d]: %g and not %g", kinds[kind].type, theirs, i, k,
                 (double)got[n], (double)want);
    }
  }
}

static void test_types(void **state) {
  int kind, round;
  (void)state;
  for (kind = 0; kind < (int)(sizeof kinds / sizeof kinds[0]); kind++) {
    for (round = 0; round < (LEAN > 1 ? 1 : 3); round++) {
      miras_model_desc d;
      miras_model *m;
      make_typed(kind, round ? 1 << (2 + 4 * round) : 0);
      save_file();
      m = open_file(&d);
      assert_int_equal(d.untied, 0);
      compare(m, "embed.weight", "token_embd.weight", kind);
      compare(m, "blocks.0.q.weight", "blk.0.attn_q.weight", kind);
      compare(m, "blocks.0.k.weight", "blk.0.attn_k.weight", kind);
      compare(m, "blocks.0.v.weight", "blk.0.attn_v.weight", kind);
      compare(m, "blocks.0.o.weight", "blk.0.attn_output.weight", kind);
      compare(m, "blocks.0.mlp.gate", "blk.0.ffn_gate.weight", kind);
      compare(m, "blocks.0.mlp.up", "blk.0.ffn_up.weight", kind);
      compare(m, "blocks.0.mlp.down", "blk.0.ffn_down.weight", kind);
      miras_close(m);
    }
  }
  drop_file();
  assert_int_equal(test_live, 0);
}

/* A model that holds its matrices in another form is the model of floats rounded to it. */
static void test_weights(void **state) {
  static float want[WIDE * WIDE], got[WIDE * WIDE];
  int form;
  (void)state;
  make_typed(8, 0);
  save_file();
  for (form = 1; form < MIRAS_WEIGHTS_COUNT; form++) {
    miras_model_desc d;
    miras_model *m, *held;
    const miras_view *v;
    char why[256] = "";
    m = open_file(&d);
    d.weights = (miras_weights)form;
    held = miras_gguf_open(&d, path, NULL, NULL, why, sizeof why);
    if (!held) fail_msg("%s", why);
    for (v = miras_model_views(m, NULL); strcmp(v->name, "blocks.0.o.weight") != 0;) v++;
    miras_model_view_read(m, v, 0, WIDE, 0, WIDE, want);
    for (v = miras_model_views(held, NULL); strcmp(v->name, "blocks.0.o.weight") != 0;) v++;
    miras_close(m);
    d.weights = (miras_weights)form;   /* what a caller would write there */
    m = miras_model_open_empty(&d, NULL, why, sizeof why);
    assert_non_null(m);
    miras_model_view_read(held, v, 0, WIDE, 0, WIDE, got);
    for (v = miras_model_views(m, NULL); strcmp(v->name, "blocks.0.o.weight") != 0;) v++;
    assert_int_equal(miras_model_view_write(m, v, 0, WIDE, 0, WIDE, want), MIRAS_OK);
    miras_model_view_read(m, v, 0, WIDE, 0, WIDE, want);
    assert_memory_equal(got, want, sizeof want);
    miras_close(m);
    miras_close(held);
  }
  drop_file();
  assert_int_equal(test_live, 0);
}

/* Matrices of a type that is held as it is are the file's to the bit, also blocks that use part of
 * their steps, and least numbers below the smallest half that is normal. Of a block whose scale is
 * no number all numbers are none. */
static void test_held(void **state) {
  static const struct { int kind; miras_weights weights; const char *type; } rows[] = {
    {1, MIRAS_WEIGHTS_F16, "F16"}, {2, MIRAS_WEIGHTS_BF16, "BF16"}, {7, MIRAS_WEIGHTS_Q8, "Q8_0"},
    {3, MIRAS_WEIGHTS_Q4, "Q4_0"}, {4, MIRAS_WEIGHTS_Q4, "Q4_1"},
    {3, MIRAS_WEIGHTS_Q4_PURE, "Q4_0"}, {4, MIRAS_WEIGHTS_Q4_PURE, "Q4_1"}};
  size_t i;
  int bad;
  (void)state;
  for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    for (bad = 0; bad < (rows[i].weights < MIRAS_WEIGHTS_Q8 ? 1 : 2); bad++) {
      const int kind = rows[i].kind;
      char why[256] = "";
      miras_model_desc d;
      miras_gguf *g;
      miras_model *m;
      make_typed(kind, 0);
      if (bad)   /* infinity, in the second block of the second line */
        ((part *)(uintptr_t)part_named("blk.0.ffn_down.weight"))
          ->data.at[(512 / 32 + 1) * kinds[kind].size + 1] = 0x7c;
      save_file();
      memset(&d, 0, sizeof d);
      d.weights = rows[i].weights;
      assert_int_equal(miras_gguf_desc(&d, path, NULL, NULL, why, sizeof why), MIRAS_OK);
      g = miras_gguf_read(path, NULL, why, sizeof why);
      assert_string_equal(miras_gguf_type(g, "token_embd.weight"), rows[i].type);
      assert_null(miras_gguf_type(g, "token_embd"));
      miras_gguf_close(g);
      m = miras_gguf_open(&d, path, NULL, NULL, why, sizeof why);
      if (!m) fail_msg("%s", why);
      if (d.weights != MIRAS_WEIGHTS_Q4) compare(m, "embed.weight", "token_embd.weight", kind);
      compare(m, "blocks.0.q.weight", "blk.0.attn_q.weight", kind);
      compare(m, "blocks.0.k.weight", "blk.0.attn_k.weight", kind);
      compare(m, "blocks.0.v.weight", "blk.0.attn_v.weight", kind);
      compare(m, "blocks.0.mlp.gate", "blk.0.ffn_gate.weight", kind);
      if (bad) {
        float x[64];
        int k;
        miras_model_view_read(m, miras_model_view(m, "blocks.0.mlp.down"), 0, 64, 1, 1, x);
        for (k = 0; k < 64; k++) assert_int_equal(x[k] - x[k] >= 0, k < 32);
      } else {
        compare(m, "blocks.0.mlp.down", "blk.0.ffn_down.weight", kind);
      }
      miras_close(m);
    }
  }
  drop_file();
  assert_int_equal(test_live, 0);
}

/* Every scale of Q4_0 has a least number of which it is an eighth, or is refused. */
static void test_least_numbers(void **state) {
  unsigned char from[18] = {0}, to[20];
  int i;
  (void)state;
  for (i = 0; i < 1 << 16; i++) {
    from[0] = (unsigned char)i, from[1] = (unsigned char)(i >> 8), from[2] = from[17] = 0x5a;
    if (!gg__take_blocks(to, from, 1)) {
      assert_true((i & 0x7fff) >= 0x7000);
      continue;
    }
    assert_true((i & 0x7fff) < 0x7000);
    assert_memory_equal(to, from, 2);
    assert_memory_equal(to + 4, from + 2, 16);
    assert_true(half(to + 2) >= -8 * half(from) && half(to + 2) <= -8 * half(from));
  }
}

/* ---- metadata -------------------------------------------------------------------------------- */

static void test_metadata(void **state) {
  static const char *const words[] = {"a", "", "b\303\251"};
  const char *text[4] = {NULL, NULL, NULL, NULL}, *key;
  size_t length[4] = {9, 9, 9, 9}, n;
  int32_t wholes[4];
  float reals[4];
  char why[256];
  miras_gguf *g;
  bytes *b;
  int i;
  (void)state;
  drop_file();
  b = &key_of("tokens", LIST)->value;
  put_whole(b, TEXT, 4), put_whole(b, 3, 8);
  for (i = 0; i < 3; i++) put_text(b, words[i]);
  b = &key_of("none", LIST)->value;
  put_whole(b, F32, 4), put_whole(b, 0, 8);
  b = &key_of("types", LIST)->value;
  put_whole(b, I32, 4), put_whole(b, 3, 8);
  put_whole(b, 5, 4), put_whole(b, (uint64_t)-6, 4), put_whole(b, 7, 4);
  b = &key_of("scores", LIST)->value;
  put_whole(b, F32, 4), put_whole(b, 2, 8);
  put_float(b, -1.5f), put_float(b, 0.25f);
  put_whole(&key_of("i8", I8)->value, 0x80, 1);
  put_whole(&key_of("u8", U8)->value, 0x80, 1);
  put_whole(&key_of("i16", I16)->value, 0x8001, 2);
  put_whole(&key_of("u16", U16)->value, 0x8001, 2);
  put_whole(&key_of("u32", U32)->value, 0x80000000u, 4);
  put_whole(&key_of("i64", I64)->value, (uint64_t)-2, 8);
  put_whole(&key_of("u64", U64)->value, UINT64_MAX, 8);
  put_whole(&key_of("yes", BOOL)->value, 1, 1);
  put_whole(&key_of("f64", F64)->value, UINT64_C(0x3ff8000000000000), 8);
  key_text("text", "one");
  save_file();
  assert_true(miras_gguf_is(path));
  g = miras_gguf_read(path, NULL, why, sizeof why);
  if (!g) fail_msg("%s", why);
  assert_int_equal(miras_gguf_texts(g, "tokens", text, length, 4), 3);
  for (i = 0; i < 3; i++) {
    assert_int_equal(length[i], strlen(words[i]));
    assert_memory_equal(text[i], words[i], length[i]);
  }
  assert_true(!text[3] && length[3] == 9);
  assert_int_equal(miras_gguf_texts(g, "tokens", NULL, NULL, 0), 3);
  assert_int_equal(miras_gguf_texts(g, "text", text, length, 1), 1);
  assert_memory_equal(text[0], "one", 3);
  assert_int_equal(miras_gguf_texts(g, "types", text, length, 4), 0);
  assert_int_equal(miras_gguf_texts(g, "tex", text, length, 4), 0);
  assert_int_equal(miras_gguf_reals(g, "none", reals, 4), 0);
  assert_int_equal(miras_gguf_wholes(g, "types", wholes, 4), 3);
  assert_true(wholes[0] == 5 && wholes[1] == -6 && wholes[2] == 7);
  wholes[1] = 1;
  assert_int_equal(miras_gguf_wholes(g, "types", wholes, 1), 3);
  assert_int_equal(wholes[1], 1);
  assert_int_equal(miras_gguf_wholes(g, "scores", wholes, 4), 0);
  assert_int_equal(miras_gguf_reals(g, "scores", reals, 4), 2);
  assert_true(reals[0] < -1.4f && reals[0] > -1.6f && reals[1] > 0.2f && reals[1] < 0.3f);
  assert_true(miras_gguf_wholes(g, "i8", wholes, 1) == 1 && wholes[0] == -128);
  assert_true(miras_gguf_wholes(g, "u8", wholes, 1) == 1 && wholes[0] == 128);
  assert_true(miras_gguf_wholes(g, "i16", wholes, 1) == 1 && wholes[0] == -32767);
  assert_true(miras_gguf_wholes(g, "u16", wholes, 1) == 1 && wholes[0] == 32769);
  assert_true(miras_gguf_wholes(g, "i64", wholes, 1) == 1 && wholes[0] == -2);
  assert_true(miras_gguf_wholes(g, "yes", wholes, 1) == 1 && wholes[0] == 1);
  assert_int_equal(miras_gguf_wholes(g, "u32", wholes, 1), 0);
  assert_int_equal(miras_gguf_wholes(g, "u64", wholes, 1), 0);
  assert_true(miras_gguf_reals(g, "u64", reals, 1) == 1 && reals[0] > 1.8e19f);
  assert_true(miras_gguf_reals(g, "f64", reals, 1) == 1 && reals[0] > 1.4f && reals[0] < 1.6f);
  for (i = 0; (key = miras_gguf_key(g, (size_t)i, &n)) != NULL; i++)
    assert_memory_equal(key, made.keys[i].key, n);
  assert_int_equal(i, made.key_count);
  miras_gguf_close(g);
  miras_gguf_close(NULL);
  assert_null(miras_gguf_read(NULL, NULL, why, sizeof why));
  assert_null(miras_gguf_read("/nowhere.gguf", NULL, why, sizeof why));
  assert_non_null(strstr(why, "nowhere.gguf: it cannot be opened"));
  assert_true(!miras_gguf_is("/nowhere.gguf") && !miras_gguf_is(NULL));
  assert_true(!miras_gguf_is("tests/test_gguf.c") && !miras_gguf_is("tests"));
  assert_int_equal(miras_gguf_texts(NULL, "a", text, length, 4), 0);
  assert_int_equal(miras_gguf_wholes(NULL, "a", wholes, 4), 0);
  assert_int_equal(miras_gguf_reals(NULL, "a", reals, 4), 0);
  assert_null(miras_gguf_key(NULL, 0, &n));
  drop_file();
  assert_int_equal(test_live, 0);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Describe and open the file: "" or the sentence. */
static void attempt(char *why, size_t n) {
  miras_model_desc d;
  miras_model *m;
  miras_gguf *g;
  char said[1024] = "";
  memset(&d, 0, sizeof d);
  d.limit = 1 << 23;
  why[0] = 0;
  if (miras_gguf_desc(&d, path, NULL, NULL, why, n) != MIRAS_OK) {
    assert_true(why[0] != 0);
  } else {
    m = miras_gguf_open(&d, path, NULL, NULL, why, n);
    assert_true((m != NULL) == !why[0]);
    miras_close(m);
  }
  g = miras_gguf_read(path, NULL, said, sizeof said);
  assert_true((g != NULL) == !said[0]);
  miras_gguf_close(g);
}

/* Thousands of keys, in no order and beginning alike, are found, and one of them a second time. */
static void test_many_keys(void **state) {
  enum { MANY = 4096 / LEAN };
  char key[32], why[256];
  int twice, i;
  (void)state;
  for (twice = 0; twice < 2; twice++) {
    miras_gguf *g;
    bytes b = {NULL, 0, 0};
    put(&b, "GGUF", 4);
    put_whole(&b, 3, 4), put_whole(&b, 0, 8), put_whole(&b, MANY, 8);
    for (i = 0; i < MANY; i++) {
      const uint64_t number = twice && i == MANY - 1 ? MANY / 3 : (uint64_t)i;
      snprintf(key, sizeof key, "%lx", (unsigned long)(hf__hash(number) >> 32));
      put_text(&b, key), put_whole(&b, U32, 4), put_whole(&b, (uint64_t)i, 4);
    }
    save(b.at, b.n);
    free(b.at);
    g = miras_gguf_read(path, NULL, why, sizeof why);
    assert_true(twice ? !g && strstr(why, "is there twice") : g != NULL);
    for (i = 0; g && i < MANY; i++) {
      int32_t x = -1;
      snprintf(key, sizeof key, "%lx", (unsigned long)(hf__hash((uint64_t)i) >> 32));
      assert_true(miras_gguf_wholes(g, key, &x, 1) == 1 && x == i);
    }
    assert_true(!g || miras_gguf_wholes(g, "no", NULL, 0) == 0);
    miras_gguf_close(g);
  }
  assert_int_equal(test_live, 0);
}

/* A key of llama's file that is put there, changed, or (type -1) taken away; and a word of the
 * sentence, NULL if there is none. */
static const struct { const char *key; int type; double value; const char *text, *word; } keys[] = {
  {"general.architecture", -1, 0, NULL, "general.architecture is missing"},
  {"general.architecture", TEXT, 0, "gpt2",
   "general.architecture is gpt2; known here: llama mamba mamba2 jamba rwkv7 qwen3next qwen35 "
   "qwen35moe"},
  {"general.architecture", U32, 0, NULL, "general.architecture is missing"},
  {"general.type", TEXT, 0, "adapter", "general.type is adapter; known here: model"},
  {"general.type", TEXT, 0, "model", NULL},
  {"general.name", TEXT, 0, "any\nname", NULL},
  {"split.count", U16, 1, NULL, NULL},
  {"split.count", U16, 3, NULL, "it is one of several files"},
  {"general.alignment", U32, 24, NULL, "general.alignment must be a power of two"},
  {"general.alignment", U32, 0, NULL, "general.alignment must be a power of two"},
  {"general.alignment", U64, 32, NULL, "general.alignment must be a power of two"},
  {"llama.embedding_length", -1, 0, NULL, "embedding_length is missing"},
  {"llama.embedding_length", U32, 31, NULL, "its shape"},
  {"llama.embedding_length", F32, 32, NULL, NULL},
  {"llama.embedding_length", F32, 32.5, NULL, "embedding_length is 32.5; it must be a whole"},
  {"llama.embedding_length", BOOL, 1, NULL, "embedding_length is true; known here: positive"},
  {"llama.block_count", U32, 2, NULL, "blk.2.attn_norm.weight: the model that"},
  {"llama.block_count", U32, 4, NULL, "blocks.3.norm1.gain: its tensors do not fill it"},
  {"llama.block_count", U32, 257, NULL, "block_count is 257; known here: 1 to 256"},
  {"llama.block_count", U32, 1e9, NULL, "block_count is 1e+09"},
  {"llama.feed_forward_length", -1, 0, NULL, "its shape"},
  {"llama.attention.head_count_kv", U32, 3, NULL, "kv_heads"},
  {"llama.attention.key_length", U32, 10, NULL, "attention.value_length is 12 and 10"},
  {"llama.rope.dimension_count", U32, 6, NULL, "rope.dimension_count is 6 and 12"},
  {"llama.rope.freq_base", F32, 0, NULL, "rope.freq_base is 0; known here: positive"},
  {"llama.rope.scaling.type", TEXT, 0, "none", NULL},
  {"llama.rope.scaling.type", TEXT, 0, "linear", "rope.scaling.factor is missing, which it needs"},
  {"llama.rope.scaling.type", TEXT, 0, "longrope",
   "rope.scaling.type is longrope; known here: none linear yarn"},
  {"llama.rope.scaling.factor", F32, 0, NULL, NULL},
  {"llama.rope.scaling.factor", F32, 1, NULL, NULL},
  {"llama.rope.scaling.factor", F32, 4, NULL, NULL},
  {"llama.rope.scaling.factor", F32, 0.5, NULL, "rope_scaling.factor is 0.5; it must lie in"},
  {"llama.rope.scaling.yarn_beta_fast", F32, 16, NULL, "beta_fast is 16, which has no meaning"},
  {"llama.rope.scaling.attn_factor", F32, 2, NULL, "rope.scaling.attn_factor is 2; known here: 1"},
  {"llama.rope.scaling.finetuned", BOOL, 1, NULL, NULL},
  {"llama.expert_count", U32, 8, NULL, "expert_count is 8; known here: 0"},
  {"llama.new_field", U32, 8, NULL, "not known here: new_field is 8"},
  {"llama.new_field", TEXT, 0, "a\033b", "not known here: new_field is a?b"},
  {"llama.new_field", LIST, 0, NULL, "not known here: new_field is a list"},
  {"llama.attention.head_count", LIST, 4, NULL, NULL},
  {"llama.attention.head_count", LIST, 5, NULL, "attention.head_count is 4 and 5"},
  {"llama.rope.freq_base", LIST, 4, NULL, "rope.freq_base is a list; known here: positive"},
  {"llamas.new_field", U32, 8, NULL, NULL},
  {"llama.attention.layer_norm_rms_epsilon", F64, 1, NULL, NULL}};

static void put_key(size_t i) {
  entry *e;
  int k;
  if (keys[i].type < 0) {
    for (k = 0; strcmp(made.keys[k].key, keys[i].key) != 0;) k++;
    free(made.keys[k].value.at);
    made.keys[k] = made.keys[--made.key_count];
    memset(&made.keys[made.key_count], 0, sizeof *made.keys);
    return;
  }
  e = key_of(keys[i].key, keys[i].type);
  if (keys[i].type == TEXT) put_text(&e->value, keys[i].text);
  else if (keys[i].type == F32) put_float(&e->value, (float)keys[i].value);
  else if (keys[i].type == F64) put_whole(&e->value, UINT64_C(0x3ff0000000000000), 8);
  else if (keys[i].type == BOOL) put_whole(&e->value, 1, 1);
  else if (keys[i].type != LIST)
    put_whole(&e->value, (uint64_t)keys[i].value,
              keys[i].type == U16 ? 2 : keys[i].type == U64 ? 8 : 4);
  else {
    put_whole(&e->value, U32, 4), put_whole(&e->value, 3, 8);
    for (k = 0; k < 3; k++) put_whole(&e->value, k ? 4 : (uint64_t)keys[i].value, 4);
  }
}

static void test_keys(void **state) {
  char why[1024];
  size_t i;
  (void)state;
  for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    make_file("llama");
    put_key(i);
    save_file();
    attempt(why, sizeof why);
    if (keys[i].word ? !strstr(why, keys[i].word) : why[0] != 0)
      fail_msg("%s: \"%s\" and not \"%s\"", keys[i].key, why, keys[i].word ? keys[i].word : "");
    assert_true(!why[0] || strncmp(why, path + 5, strlen(path) - 5) == 0 || strstr(why, ": "));
  }
  drop_file();
  assert_int_equal(test_live, 0);
}

/* What is said of a tensor. */
enum { NAME, TYPE, RANK, SHAPE, OFF, COPY };
typedef struct saying {
  const char *part;
  int what;
  uint64_t value;
  const char *text, *word;
} saying;
static const saying said[] = {
  {"blk.1.attn_v.weight", NAME, 0, "blk.1.attn_w.weight", "in no file: blk.1.attn_v.weight"},
  {"blk.1.attn_v.weight", NAME, 0, "blk.1.attn_q.weight", "blk.1.attn_q.weight is there twice"},
  {"blk.1.attn_v.weight", NAME, 0, "blk.1.attn\n", "a name in its head is no text"},
  {"blk.1.attn_v.weight", NAME, 0, "", "a name in its head is empty"},
  {"blk.1.attn_v.weight", TYPE, 4, NULL, "it is of a type that is not known here"},
  {"blk.1.attn_v.weight", TYPE, 99, NULL, "it is of a type that is not known here"},
  {"blk.1.attn_v.weight", TYPE, UINT32_MAX, NULL, "it is of a type that is not known here"},
  {"blk.2.ffn_down.weight", TYPE, 26, NULL, "blk.2.ffn_down.weight: it is of type I32; F32, F16"},
  {"blk.2.ffn_down.weight", TYPE, 1, NULL, NULL},
  {"blk.2.ffn_down.weight", TYPE, 11, NULL, "blk.2.ffn_down.weight: its rows are no whole blocks"},
  {"blk.2.ffn_down.weight", TYPE, 28, NULL, "it is cut off: its tensors are not all there"},
  {"blk.0.ffn_down.weight", TYPE, 1, NULL, "its place is not behind that of the tensor before it"},
  {"blk.1.attn_v.weight", RANK, 5, NULL, "it has more than 4 lengths"},
  {"blk.1.attn_v.weight", SHAPE, UINT64_MAX / 2, NULL, "it has more numbers than there can be"},
  {"blk.1.attn_v.weight", SHAPE, UINT64_C(1) << 40, NULL, "its place is not within the file"},
  {"blk.1.attn_v.weight", SHAPE, 0, NULL, "its place is not behind that of the tensor before it"},
  {"blk.1.attn_v.weight", OFF, 32, NULL, "its place is not behind that of the tensor before it"},
  {"blk.1.attn_v.weight", OFF, (uint64_t)-32, NULL, "its place is not behind that of the tensor"},
  {"blk.1.attn_norm.weight", SHAPE, 16, NULL, "its place is not behind that of the tensor before"},
  {"blk.2.ffn_down.weight", COPY, 0, "rope_freqs.weight", "angles are divided in another way"},
  {"blk.2.ffn_down.weight", COPY, 0, "blk.7.extra.weight", "blk.7.extra.weight: the model that"}};

static void test_parts(void **state) {
  char why[1024];
  size_t i;
  (void)state;
  for (i = 0; i < sizeof said / sizeof said[0]; i++) {
    part *p;
    make_file("llama");
    p = &made.parts[part_named(said[i].part) - made.parts];
    switch (said[i].what) {
    case NAME: strcpy(p->name, said[i].text); break;
    case TYPE: p->type = (int)said[i].value; break;
    case RANK: p->rank = (int)said[i].value; break;
    case SHAPE: p->shape[p->rank - 1] = said[i].value; break;
    case OFF: p->off = said[i].value; break;
    default: {
      const uint64_t shape[1] = {6};
      part *more = add_part(said[i].text, 1, shape, 0);
      put(&more->data, p->data.at, 24);
    }
    }
    save_file();
    attempt(why, sizeof why);
    if (said[i].word ? !strstr(why, said[i].word) : why[0] != 0)
      fail_msg("%s, change %d: \"%s\" and not \"%s\"", said[i].part, (int)i, why,
               said[i].word ? said[i].word : "");
  }
  drop_file();
  assert_int_equal(test_live, 0);
}

/* Numbers of the head itself, at their places, and what may follow them. */
static void test_heads(void **state) {
  static const struct { size_t at; int size; uint64_t value; const char *word; } heads[] = {
    {0, 4, 0x46554746, "it is no GGUF file"},
    {4, 4, 1, "it is of GGUF's version 1; 2 and 3 can be read"},
    {4, 4, 4, "it is of GGUF's version 4; 2 and 3 can be read"},
    {4, 4, 0x03000000, "its numbers are big-endian"},
    {8, 8, UINT64_MAX, "it has more than 4096 keys or 65536 tensors"},
    {8, 8, 60000, NULL},                       /* what then stands in the place of a tensor */
    {16, 8, UINT64_MAX, "it has more than 4096 keys or 65536 tensors"},
    {16, 8, 4096, NULL},                       /* what then stands in the place of a key */
    {24, 8, UINT64_MAX, "a name in its head is empty or has more than 127 characters"},
    {24, 8, 0, "a name in its head is empty or has more than 127 characters"}};
  char why[1024];
  size_t i;
  bytes b;
  (void)state;
  make_file("llama");
  b = finish();
  for (i = 0; i < sizeof heads / sizeof heads[0]; i++) {
    unsigned char old[8];
    int k;
    memcpy(old, b.at + heads[i].at, 8);
    for (k = 0; k < heads[i].size; k++)
      b.at[heads[i].at + (size_t)k] = (unsigned char)(heads[i].value >> 8 * k);
    save(b.at, b.n);
    attempt(why, sizeof why);
    assert_true(why[0] != 0);
    if (heads[i].word && !strstr(why, heads[i].word))
      fail_msg("\"%s\" and not \"%s\"", why, heads[i].word);
    memcpy(b.at + heads[i].at, old, 8);
  }
  save(b.at, b.n);
  attempt(why, sizeof why);
  assert_string_equal(why, "");
  free(b.at);
  drop_file();
  /* lists of lists, a value of no type, keys that are there twice */
  for (i = 0; i < 4; i++) {
    entry *e;
    make_file("llama");
    e = key_of("general.more", i == 1 ? 13 : i == 2 ? TEXT : LIST);
    if (i == 0) put_whole(&e->value, LIST, 4), put_whole(&e->value, 1, 8);
    if (i == 1) put_whole(&e->value, 0, 8);
    if (i == 2) put_text(&e->value, "more"), strcpy(e->key, "llama.block_count");
    if (i == 3) put_whole(&e->value, F64, 4), put_whole(&e->value, UINT64_MAX / 8 + 2, 8);
    save_file();
    attempt(why, sizeof why);
    assert_non_null(strstr(why, i == 0   ? "general.more is of type 9, which is not known here"
                                : i == 1 ? "general.more is of type 13, which is not known here"
                                : i == 2 ? "llama.block_count is there twice"
                                         : "it is cut off within its head"));
  }
  drop_file();
  assert_int_equal(test_live, 0);
}

/* Fields that the caller passes over. */
static void test_ignored(void **state) {
  miras_model_desc d;
  char why[1024];
  (void)state;
  make_file("llama");
  key_whole("llama.new_field", 3);
  key_float("llama.rope.scaling.factor", 2);
  save_file();
  memset(&d, 0, sizeof d);
  assert_int_equal(miras_gguf_desc(&d, path, "new_field, rope.scaling.factor", NULL, why,
                                   sizeof why), MIRAS_OK);
  assert_int_equal(miras_gguf_desc(&d, path, "unknown rope.scaling.factor", NULL, why, sizeof why),
                   MIRAS_OK);
  assert_non_null(strstr(why, ".gguf: these fields were ignored: new_field is 3"));
  assert_int_equal(miras_gguf_desc(&d, path, "other,unknown,rope.scaling.factor", NULL, why,
                                   sizeof why), MIRAS_ERR_ARGUMENT);
  assert_non_null(strstr(why, "it has no field \"other\", which was to be ignored"));
  assert_int_equal(miras_gguf_desc(NULL, path, NULL, NULL, why, sizeof why), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_gguf_desc(&d, NULL, NULL, NULL, why, sizeof why), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_gguf_load(NULL, path, NULL, NULL, why, sizeof why), MIRAS_ERR_ARGUMENT);
  assert_null(miras_gguf_open(NULL, path, NULL, NULL, why, sizeof why));
  assert_null(miras_gguf_open(&d, NULL, NULL, NULL, NULL, 0));
  drop_file();
  assert_int_equal(test_live, 0);
}

/* ---- what is damaged ------------------------------------------------------------------------- */

static void damage(const char *name, int rounds) {
  char why[1024];
  size_t head = 0, i, step;
  int round, opened = 0;
  bytes b;
  make_file(name);
  b = finish();
  for (i = 0; i < (size_t)made.part_count; i++) head += made.parts[i].data.n;
  head = b.n - head;                 /* or a little more */
  drop_file();
  /* cut off anywhere */
  for (i = 0, step = 1; i < b.n; i += step) {
    save(b.at, i);
    attempt(why, sizeof why);
    assert_true(why[0] != 0 || b.n - i < 32);
    step = i < head ? (size_t)(11 * LEAN + 2) : head;
  }
  /* bits of the head, or some of its bytes */
  for (round = 0; round < rounds; round++) {
    unsigned char old[8];
    const size_t at = draw((unsigned)head - 8);
    const unsigned n = 1 + draw(8);
    memcpy(old, b.at + at, 8);
    if (round % 2) b.at[at] = (unsigned char)(b.at[at] ^ 1 << draw(8));
    else for (i = 0; i < n; i++) b.at[at + i] = (unsigned char)(draw(2) ? 255 : draw(256));
    save(b.at, b.n);
    test_largest = 0;
    attempt(why, sizeof why);
    assert_true(test_largest <= 1 << 23);
    opened += !why[0];
    memcpy(b.at + at, old, 8);
  }
  assert_true(opened > 0 && opened < rounds);
  /* an allocator that fails, at every call */
  save(b.at, b.n);
  for (round = 1, why[0] = 1; why[0]; round++) {
    miras_model_desc d;
    miras_model *m = NULL;
    memset(&d, 0, sizeof d);
    test_calls = 0;
    test_fail_at = round;
    why[0] = 0;
    if (miras_gguf_desc(&d, path, NULL, NULL, why, sizeof why) == MIRAS_OK)
      m = miras_gguf_open(&d, path, NULL, NULL, why, sizeof why);
    assert_true(m || strstr(why, "allocator"));
    miras_close(m);
  }
  assert_true(round > 7);
  for (round = 1, why[0] = 1; why[0]; round++) {
    test_calls = 0;
    test_fail_at = round;
    miras_gguf_close(miras_gguf_read(path, NULL, why, sizeof why));
    assert_true(!why[0] || strstr(why, "allocator"));
  }
  test_fail_at = 0;
  free(b.at);
  assert_int_equal(test_live, 0);
}

static void test_damage(void **state) {
  (void)state;
  damage("llama", 1500 / LEAN);
  damage("qwen3_5", 600 / LEAN);
  damage("mamba2", 300 / LEAN);
}

/* All that reading takes counts against the limit. */
static void test_limit(void **state) {
  miras_model_desc d;
  char why[1024];
  (void)state;
  make_file("llama");
  save_file();
  memset(&d, 0, sizeof d);
  d.limit = 4096;
  assert_int_equal(miras_gguf_desc(&d, path, NULL, NULL, why, sizeof why), MIRAS_ERR_SIZE);
  assert_non_null(strstr(why, "limit is 4096 bytes"));
  drop_file();
  assert_int_equal(test_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_folders), cmocka_unit_test(test_scaling),
    cmocka_unit_test(test_package), cmocka_unit_test(test_types),
    cmocka_unit_test(test_weights), cmocka_unit_test(test_held),
    cmocka_unit_test(test_least_numbers), cmocka_unit_test(test_metadata),
    cmocka_unit_test(test_many_keys), cmocka_unit_test(test_keys),
    cmocka_unit_test(test_parts), cmocka_unit_test(test_heads), cmocka_unit_test(test_ignored),
    cmocka_unit_test(test_damage), cmocka_unit_test(test_limit)};
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  remove(path);
  return failed;
}
