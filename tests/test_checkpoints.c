/* Other people's models (data/checkpoints): their logits are those of the originals; what a file or
 * a configuration has that cannot be computed, and what is damaged, is refused with a sentence. Run
 * from the folder that holds miras.h.
 * cc -std=c99 -O2 tests/test_checkpoints.c -lcmocka -lm */
#define _XOPEN_SOURCE 700
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
/* The steps that a search takes, which no file may make many. */
static long test_compared;
static int test_strcmp(const char *a, const char *b) {
  test_compared++;
  return strcmp(a, b);
}
#undef strcmp
#define strcmp(a, b) test_strcmp(a, b)
/* Files as where long is short: several steps to a place, and lengths that are looked for. */
#define HF__SEEK_STEP 20011
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "inside.h"
#define MIRAS_HUGGINGFACE_IMPLEMENTATION
#include "../examples/huggingface.h"
#undef strcmp
#include "check.h"

#if defined(__unix__)
  #include <sys/stat.h>
  #include <unistd.h>
#endif

#define FOLDER "tests/data/checkpoints/"
enum { VOCAB = 48, TOKENS = 28, SHORT = 6 };

/* One in MIRAS_TEST_SHARE of the folders has its fields tried. If that is more than 1, each folder
 * is opened in one form of weights, and of values and of folders opened twice a third is
 * looked at; under sanitizers, of folders opened in a form and of damage too. */
enum { WHOLE = MIRAS_TEST_SHARE == 1, THIRD = WHOLE ? 1 : 3, LEAN = MIRAS_TEST_SHARE > 8 ? 3 : 1 };

/* Those whose layers are here, and the numbers that their files keep: f floats, b BF16, h F16. */
static const struct { const char *name; char kept; } known[] = {
  {"gated_deltanet", 'f'}, {"gated_deltanet-grouped", 'b'}, {"gated_deltanet-ungated", 'f'},
  {"gated_deltanet-sigmoid", 'h'}, {"gated_deltaproduct", 'f'}, {"gated_deltaproduct-plain", 'b'},
  {"gated_deltaproduct-single", 'h'}, {"delta_net", 'f'}, {"delta_net-gated", 'f'},
  {"delta_net-sum", 'b'}, {"delta_net-plain", 'h'}, {"gla", 'h'}, {"gla-clamped", 'h'},
  {"retnet", 'h'}, {"hgrn2", 'b'}, {"kda", 'f'}, {"kda-grouped", 'f'}, {"rwkv7", 'f'},
  {"rwkv7-author", 'b'}, {"rwkv6-author", 'h'}, {"rwkv4", 'f'}, {"rwkv4-tied", 'b'},
  {"rwkv4-author", 'h'}, {"mamba", 'f'}, {"mamba-biased", 'b'},
  {"falcon_mamba", 'h'},
  {"mamba2", 'f'}, {"mamba2-grouped", 'b'}, {"mamba2-fla", 'h'},
  {"mamba2-author", 'h'}, {"ttt-linear", 'f'}, {"ttt-linear-mamba", 'f'}, {"ttt-mlp", 'f'},
  {"ttt-mlp-mamba", 'b'}, {"qwen3_next", 'b'}, {"qwen3_next-experts", 'b'}, {"qwen3_5", 'b'},
  {"gla-shared", 'f'}, {"retnet-shared", 'f'}, {"mamba2-unbiased", 'f'}, {"mamba2-biased", 'f'},
  {"linear_attn", 'f'}, {"linear_attn-plain", 'f'},
  {"qwen3_5_moe", 'h'}, {"falcon_h1", 'f'}, {"falcon_h1-normed", 'b'}, {"falcon_h1-biased", 'f'},
  {"granitemoehybrid", 'f'}, {"granitemoehybrid-dense", 'b'}, {"bamba", 'h'}, {"bamba-yarn", 'b'},
  {"jamba", 'f'}, {"jamba-dense", 'b'}, {"jamba-plain", 'h'},
  {"recurrent_gemma", 'f'}, {"recurrent_gemma-biased", 'b'},
  {"lfm2", 'f'},
  {"lfm2-biased", 'b'}, {"olmo_hybrid", 'f'}, {"olmo_hybrid-turned", 'b'},
  {"llama", 'f'}, {"llama-tied", 'b'}, {"llama-far", 'h'}, {"llama-yarn", 'b'},
  {"llama-linear", 'b'}, {"precond_kda", 'f'}, {"precond_kda-safe", 'b'},
  {"precond_gated_deltanet", 'b'}, {"precond_gated_deltanet-ungated", 'h'}, {"hgrn", 'b'},
  {"hgrn-free", 'h'}, {"gsa", 'f'}, {"gsa-shared", 'b'}, {"transformer", 'b'},
  {"transformer-window", 'h'}, {"rwkv6", 'f'}, {"rwkv6-narrow", 'b'}, {"rwkv6-plain", 'h'},
  {"gla-attended", 'h'}, {"kda-attended", 'f'}, {"hgrn-attended", 'b'},
  {"gated_deltanet-attended", 'h'}, {"samba", 'h'}, {"samba-biased", 'b'}
};

static const char *path_of(const char *name, const char *file) {
  static char paths[8][160];
  static int turn;
  char *path = paths[turn++ % 8];
  snprintf(path, sizeof paths[0], FOLDER "%s%s%s", name, *file ? "/" : "", file);
  return path;
}

/* The tokens and logits of a folder; the deviation of the logits. */
static double wanted(const char *name, int32_t *tokens, float *logits) {
  FILE *file = fopen(path_of(name, "tokens.txt"), "r");
  double sum = 0, squares = 0;
  int i;
  assert_non_null(file);
  for (i = 0; i < TOKENS; i++) {
    int token = -1;
    assert_int_equal(fscanf(file, "%d", &token), 1);
    tokens[i] = token;
  }
  fclose(file);
  file = fopen(path_of(name, "logits.f32"), "rb");
  assert_non_null(file);
  assert_int_equal(fread(logits, sizeof(float), TOKENS * VOCAB, file), TOKENS * VOCAB);
  fclose(file);
  for (i = 0; i < TOKENS * VOCAB; i++) {
    sum += (double)logits[i];
    squares += (double)logits[i] * (double)logits[i];
  }
  sum /= TOKENS * VOCAB;
  return sqrt(squares / (TOKENS * VOCAB) - sum * sum);
}

static miras_model *load(const char *path, miras_weights weights) {
  char why[256] = "";
  miras_model_desc d;
  miras_model *m;
  memset(&d, 0, sizeof d);
  d.weights = weights;
  if (miras_checkpoint_desc(&d, path, NULL, NULL, why, sizeof why) != MIRAS_OK)
    fail_msg("%s: %s", path, why);
  assert_int_equal(d.weights, weights);
  m = miras_model_open(&d, NULL, NULL, 0);
  assert_non_null(m);
  if (miras_checkpoint_load(m, path, NULL, NULL, why, sizeof why) != MIRAS_OK)
    fail_msg("%s: %s", path, why);
  return m;
}

/* All logits, token by token and in prefills of different lengths: the same bits. */
static void say(miras_model *m, const int32_t *tokens, float *logits) {
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  int i, n;
  assert_non_null(s);
  for (i = 0; i < TOKENS; i++)
    memcpy(logits + i * VOCAB, miras_session_step(s, tokens[i]), VOCAB * sizeof(float));
  miras_session_reset(s);
  for (i = 0, n = 1; i < TOKENS; i += n, n = n * 2 < TOKENS - i ? n * 2 : TOKENS - i) {
    const float *last = miras_session_feed(s, tokens + i, NULL, (size_t)n);
    assert_memory_equal(last, logits + (i + n - 1) * VOCAB, VOCAB * sizeof(float));
  }
  miras_close(s);
}

static double apart(const float *a, const float *b) {
  double most = 0;
  int i;
  for (i = 0; i < TOKENS * VOCAB; i++) {
    const double e = fabs((double)a[i] - (double)b[i]);
    if (!(e <= most)) most = e;
  }
  return most;
}

static void test_logits(void **state) {
  static float want[TOKENS * VOCAB], got[TOKENS * VOCAB];
  int32_t tokens[TOKENS];
  size_t i;
  (void)state;
  for (i = 0; i < sizeof known / sizeof known[0]; i++) {
    const double deviation = wanted(known[i].name, tokens, want);
    miras_model *m = load(path_of(known[i].name, ""), MIRAS_WEIGHTS_FLOAT);
    double error;
    say(m, tokens, got);
    error = apart(want, got) / deviation;
    if (!(error <= 5e-6)) fail_msg("%s: %g deviations apart", known[i].name, error);
    miras_close(m);
  }
  assert_int_equal(test_live, 0);
}

/* Matrices of fewer bits: those of the file, or rounded, which is all that differs. */
static void test_weights(void **state) {
  static float want[TOKENS * VOCAB], got[TOKENS * VOCAB], theirs[TOKENS * VOCAB];
  static const double most[MIRAS_WEIGHTS_COUNT] = {0, 0.3, 0.03, 0.5, 8, 8};
  int32_t tokens[TOKENS];
  size_t i, n;
  (void)state;
  for (i = 0; i < sizeof known / sizeof known[0]; i += LEAN) {
    const char *path = path_of(known[i].name, "");
    const double deviation = wanted(known[i].name, tokens, theirs);
    miras_model *m = load(path, MIRAS_WEIGHTS_FLOAT), *again;
    unsigned char *file;
    int form;
    say(m, tokens, want);
    /* through a file of ours */
    n = miras_save_to(m, NULL, 0);
    file = (unsigned char *)malloc(n);
    assert_int_equal(miras_save_to(m, file, n), n);
    for (form = WHOLE ? 0 : (int)(i / LEAN) % MIRAS_WEIGHTS_COUNT; form < MIRAS_WEIGHTS_COUNT;
         form += WHOLE ? 1 : MIRAS_WEIGHTS_COUNT) {
      /* the sixteen bits that the file has */
      const int exact = known[i].kept == "fbhq4"[form];
      miras_model_desc d = *miras_model_desc_of(m);
      double error;
      int k, experts = 0;
      d.weights = (miras_weights)form;
      again = miras_model_open(&d, NULL, NULL, 0);
      assert_int_equal(miras_load_from(again, file, n, NULL, 0), MIRAS_OK);
      say(again, tokens, got);
      miras_close(again);
      error = apart(want, got) / deviation;
      if (!(error <= (exact ? 0 : most[form]))) fail_msg("%s, weights %d: %g", path, form, error);
      again = load(path, (miras_weights)form);
      say(again, tokens, theirs);
      /* where experts share blocks each of them rounds these again as it comes */
      for (k = 0; k < MIRAS_MAX_LAYER_KINDS; k++) experts += d.layer[k].mlp.experts;
      if (experts && form >= MIRAS_WEIGHTS_Q8) error = apart(theirs, got) / deviation;
      else error = memcmp(theirs, got, sizeof got) ? HUGE_VAL : 0;
      if (!(error <= (experts ? most[form] : 0)))
        fail_msg("%s, weights %d: %g from what a file of ours says", path, form, error);
      miras_close(again);
    }
    free(file);
    miras_close(m);
  }
  assert_int_equal(test_live, 0);
}

/* ---- folders that somebody has changed ---- */

#if defined(__unix__)
#define BASE "gated_deltanet"
#define Q(text) "\"" text "\""
static const char *const files[] = {"config.json", "model.safetensors",
                                    "model.safetensors.index.json"};
enum { CONFIG, TENSORS, INDEX, FILES };

/* Of one file the first place where `find` stands says `put`; and a word of the sentence that this
 * must give, NULL if it may be loaded. Of tensors it is the header, whose length is put right. */
typedef struct change { int file; const char *find, *put, *word; } change;
static const change changes[] = {
  {CONFIG, Q("use_cache"), Q("use_cash"), "use_cash"},
  {CONFIG, "\"attn\": null", "\"attn\": {\"layers\": [0]}", "attn.num_heads is missing"},
  {CONFIG, "\"attn\": null", "\"attn\": {\"num_heads\": 2}", "attn.layers is missing"},
  {CONFIG, "\"attn\": null", "\"attn\": {}", "attn.layers is missing"},
  {CONFIG, "\"attn\": null", "\"attn\": {\"layers\": [], \"num_heads\": 2}", NULL},
  {CONFIG, "\"attn\": null", "\"attn\": {\"layers\": [1], \"num_heads\": 2}",
   "blocks.1.q.weight"},
  {CONFIG, "\"attn\": null", "\"attn\": {\"layers\": [1], \"num_heads\": 3}",
   "attn.num_heads is 10.6667; it must be a whole number"},
  {CONFIG, "\"attn\": null", "\"attn\": {\"layers\": [1], \"head_dim\": 3}", "attn.head_dim is 3"},
  {CONFIG, "\"attn\": null", "\"attn\": [{\"layers\": [1]}]", "attn is a list; known here: object"},
  {CONFIG, "\"attn\": null", "\"attn.layers\": [1]", "attn.layers is no member of attn"},
  {CONFIG, "\"attn\": null", "\"attnres_block_size\": 2", "attnres_block_size"},
  {CONFIG, "\"attn\": null", "\"attnres_block_size\": null", NULL},
  {CONFIG, "\"attn\": null", "\"rope_scaling\": {\"rope_type\": \"yarn\"}", "rope_scaling"},
  {CONFIG, "\"attn\": null", "\"layer_types\": [\"sliding_attention\"]", "layer_types"},
  {CONFIG, "\"attn\": null", "\"layer_types\": [[]]", "layer_types"},
  {CONFIG, "\"attn\": null", "\"norm_first\": true", "norm_first is true; known here: false"},
  {CONFIG, "\"attn\": null", "\"a\\\"\\u00e9\\ud83d\\ude00/\\u0000\\\\\": [1]",
   "a\"\303\251\360\237\230\200/\\u0000\\\\ is a list"},
  {CONFIG, "\"attn\": null", "\"temperature\": -1e400", NULL},
  {CONFIG, "\"norm_eps\": 1e-06", "\"norm_eps\": 1e400", "norm_eps is 1e400; known here: positive"},
  {CONFIG, "{", "\357\273\277{", NULL},
  {CONFIG, "{", "\376\377{", "config.json: it is UTF-16; it must be UTF-8"},
  {CONFIG, "{", "\377\376{", "config.json: it is UTF-16; it must be UTF-8"},
  {CONFIG, "\"attn\": null", "\"mlp_only_layers\": [256]", "mlp_only_layers"},
  {CONFIG, "\"attn\": null", "\"experts\": [1]", "experts"},
  {CONFIG, "\"attn\": null", "\"num_heads\": 4", "num_heads"},
  {CONFIG, "\"attn\": null", "\"a\\u0062c\": true", "abc"},
  {CONFIG, "\"attn\": null", "\"torch_dtype\": \"bfloat16\"", NULL},
  {CONFIG, "\"swish\"", "\"gelu\"", "hidden_act"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": -32", "hidden_size"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": 32.5", "hidden_size"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": 1e30", "hidden_size"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": Infinity", "hidden_size"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": \"32\"", "hidden_size"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": null", "hidden_size"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": 31", "[48, 32]"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": 1000000", "width"},
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": 65536", "far larger"},
  {CONFIG, "\"head_dim\": 8", "\"head_dim\": 9", "model.layers.0.attn."},
  {CONFIG, "\"head_dim\": 8", "\"head_dim\": 8000", "key_dim"},
  {CONFIG, "\"expand_v\": 2.0", "\"expand_v\": 2.01", "expand_v"},
  {CONFIG, "\"conv_size\": 4", "\"conv_size\": 3", "q_conv1d"},
  {CONFIG, "\"norm_eps\": 1e-06", "\"norm_eps\": -1", "norm_eps is -1"},
  {CONFIG, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "model.layers.2."},
  {CONFIG, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", "model.layers.1."},
  {CONFIG, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1000", "layers"},
  {CONFIG, "\"vocab_size\": 48", "\"vocab_size\": 47", "model.embeddings.weight"},
  {CONFIG, "\"vocab_size\": 48", "\"vocab_size\": 16777216", "far larger"},
  {CONFIG, "\"intermediate_size\": 64", "\"intermediate_size\": 0", "intermediate_size"},
  {CONFIG, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", NULL},
  {CONFIG, "\"use_gate\": true", "\"use_gate\": false", "g"},
  {CONFIG, "gated_deltanet", "gated_deltanets", "model_type"},
  {CONFIG, "gated_deltanet", "mesa_net", "mesa_net, whose solver stops before the solution"},
  {CONFIG, "gated_deltanet", "comba", "comba, which corrects queries before"},
  {CONFIG, "\"model_type\"", "\"model_tape\"", "model_type"},
  {CONFIG, "{", "[", "JSON"},
  {CONFIG, "}", "", "JSON"},
  {CONFIG, "}", "}}", "JSON"},
  {CONFIG, "null", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "JSON"},
  {CONFIG, "null", "nil", "JSON"},
  {CONFIG, "null", "01", "JSON"},
  {TENSORS, "{", "{\"__metadata__\":[{}],", NULL},
  {TENSORS, "{", "{\"__metadata__\":,", "header"},
  {TENSORS, "}}", "}", "header"},
  {TENSORS, "}}", "}} x", "header"},
  {TENSORS, "\"F32\"", "\"I32\"", "type"},
  {TENSORS, "\"F32\"", "\"U8\"", "size of its shape"},
  {TENSORS, "\"F32\",\"shape\":[48,32]", "\"U8\",\"shape\":[192,32]", "U8"},
  {TENSORS, "\"F32\"", "\"BF16\"", "size of its shape"},
  {TENSORS, "\"F32\",\"shape\":[48,32]", "\"BF16\",\"shape\":[48,64]", "[48, 64]"},
  {TENSORS, "[48,32]", "[32,48]", "[32, 48]"},
  {TENSORS, "[48,32]", "[48,2,16]", NULL},
  {TENSORS, "[48,32]", "[1536]", "[1536]"},
  {TENSORS, "[48,32]", "[48,32,1,1,1,1]", "more than 5"},
  {TENSORS, "[48,32]", "[]", "header"},
  {TENSORS, "[48,32]", "[48,-32]", "header"},
  {TENSORS, "[48,32]", "[4294967296,4294967296]", "header"},
  {TENSORS, "[48,32]", "[48,32,0]", "size of its shape"},
  {TENSORS, "[0,6144]", "[4,6148]", "overlap"},
  {TENSORS, "[0,6144]", "[6144,12288]", "overlap"},
  {TENSORS, "[0,6144]", "[6144,0]", "place"},
  {TENSORS, "[0,6144]", "[0,18446744073709551615]", "place"},
  {TENSORS, "[0,6144]", "[0,18446744073709551616]", "header"},
  {TENSORS, "{", "{\"model.empty\":{\"dtype\":\"F32\",\"shape\":[0,8],\"data_offsets\":[0,0]},",
   NULL},
  {TENSORS, "{", "{\"model.none\":{\"dtype\":\"I64\",\"shape\":[0],\"data_offsets\":[0,0]},", NULL},
  {TENSORS, "{", "{\"model.x\":{\"dtype\":\"X9\",\"shape\":[1,1,1,1,1,1],\"data_offsets\":[0,0]},",
   NULL},
  {TENSORS, "{", "{\"model.x\":{\"dtype\":\"X9\",\"shape\":[1,1,1,1],\"data_offsets\":[0,0]},",
   "model.x: the model that config.json describes has no such tensor"},
  {TENSORS, "{", "{\"model.a.rotary_emb.inv_freq\":{\"dtype\":\"X9\",\"shape\":[4],"
   "\"data_offsets\":[0,0]},", NULL},
  {TENSORS, "lm_head.weight", "_orig_mod.lm_head.weight", "there is _orig_mod.lm_head.weight"},
  {TENSORS, "model.embeddings.weight", "module.model.embeddings.weight",
   "model.embeddings.weight; there is module.model.embeddings.weight"},
  {TENSORS, "lm_head.weight", "model.embeddings.weight", "twice"},
  {TENSORS, "lm_head.weight", "lm_head.weights", "lm_head.weight"},
  {TENSORS, "lm_head.weight", "lm_head.we\\u00eeght", "lm_head.weight"},
  {TENSORS, "lm_head.weight", "model.embeddings.\\u0077eight", "model.embeddings.weight is there"},
  {TENSORS, "model.layers.1.attn.A_log", "model.layers.7.attn.A_log", "model.layers.1.attn.A_log"},
  {INDEX, "\"model.safetensors\"", "\"../model.safetensors\"", "names of files"},
  {INDEX, "\"model.safetensors\"", "\"/etc/passwd\"", "names of files"},
  {INDEX, "\"model.safetensors\"", "\"other.safetensors\"", "other.safetensors"},
  {INDEX, "\"model.safetensors\"", "\"config.json\"", "config.json"},
  {INDEX, "lm_head.weight", "lm_head.weights", "lm_head.weights"},
  {INDEX, "{\"lm_head.weight\":\"model.safetensors\",", "{",
   "lm_head.weight is in model.safetensors, but this does not list it"},
  {INDEX, "\"model.safetensors\"", "\"model-1.safetensors\"",
   "model-1.safetensors: it cannot be opened; model.safetensors.index.json names it, but "
   "model.safetensors is there too"},
  {INDEX, "}", "", "not valid"},
  {INDEX, "{", "\357\273\277{", NULL},
  {INDEX, "{", "\377\376{", "index.json: it is UTF-16; it must be UTF-8"},
  {INDEX, "\"model.safetensors\"", "\"\"", "names of files"},
  {INDEX, "\"model.safetensors\"", "\"\\u00e9.safetensors\"", "\303\251.safetensors: it cannot"},
  {INDEX, "weight_map", "weight_maps", "list"},
  {INDEX, "weight_map", "weight_map", NULL}
};

/* And of one with experts. */
#define EXPERTS "\"num_experts\": 6,"
static const change expert_changes[] = {
  {CONFIG, EXPERTS, EXPERTS " \"norm_topk_prob\": true,", NULL},
  {CONFIG, EXPERTS, EXPERTS " \"norm_topk_prob\": false,", "norm_topk_prob"},
  {CONFIG, EXPERTS, EXPERTS " \"decoder_sparse_step\": 2,", "decoder_sparse_step"},
  {CONFIG, EXPERTS, EXPERTS " \"mlp_only_layers\": [1],", "mlp_only_layers"},
  {CONFIG, EXPERTS, EXPERTS " \"layer_types\": [[]],", "layer_types"},
  {CONFIG, EXPERTS, EXPERTS " \"layer_types\": [\"linear_attention\", \"full_attention\", "
   "\"linear_attention\"],", "layer_types is there twice"},
  {CONFIG, EXPERTS, EXPERTS " \"use_sliding_window\": true,", "use_sliding_window is true; known"},
  {CONFIG, EXPERTS, EXPERTS " \"output_gate_type\": \"sigmoid\",", "output_gate_type is sigmoid"},
  {CONFIG, EXPERTS, EXPERTS " \"rope_scaling\": {\"type\": \"yarn\"},", "rope_type is 0 and 2"},
  {CONFIG, EXPERTS, EXPERTS " \"rope_scaling\": {\"factor\": 4.0},", "factor is 4, which has no"},
  {CONFIG, EXPERTS, EXPERTS " \"layer_types\": [0],", "layer_types has 0 at place 0"},
  {CONFIG, EXPERTS, "\"num_experts\": 7,", "blocks.0.mlp.router"},
  {CONFIG, EXPERTS, "\"num_experts\": 5,", "shared_expert_gate"},
  {CONFIG, EXPERTS, "\"num_experts\": 2,", "experts_per_token"},
  {CONFIG, EXPERTS, "\"num_experts\": 1025,", "experts"},
  {CONFIG, EXPERTS, "\"num_experts\": 6.5,", "num_experts"},
  {CONFIG, EXPERTS, "", "layers.0.mlp.gate_proj.weight"},
  {CONFIG, "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 33", "experts_per_token"},
  {CONFIG, "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": null", "num_experts_per_tok"},
  {CONFIG, "\"moe_intermediate_size\": 12", "\"moe_intermediate_size\": 11", "shared_expert"},
  {CONFIG, "\"moe_intermediate_size\": 12", "\"moe_intermediate_size\": null",
   "moe_intermediate_size"},
  {CONFIG, "\"shared_expert_intermediate_size\": 12", "\"shared_expert_intermediate_size\": 0",
   "shared_expert_gate"},
  {TENSORS, "[6,24,32]", "[6,32,24]", "[6, 32, 24]"},
  {TENSORS, "[6,24,32]", "[24,6,32]", "[24, 6, 32]"},
  {TENSORS, "[6,24,32]", "[144,32]", "[144, 32]"},
  {TENSORS, "[6,32,12]", "[6,12,32]", "[6, 12, 32]"},
  {TENSORS, "1.mlp.experts.down_proj", "1.mlp.experts.down_proy", "mlp.experts.0.down_proj.weight"},
  {TENSORS, "mlp.experts.gate_up_proj", "mlp.experts.#.down_proj", "mlp.experts"},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.visual.x\":{\"dtype\":\"I64\",\"shape\":[8]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.visual.x\":{\"dtype\":\"BOOL\",\"shape\":[64]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.visual.x\":{\"dtype\":\"F64\",\"shape\":[8]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.visual.x\":{\"dtype\":\"NEW\",\"shape\":[]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.visual.x\":{\"dtype\":\"F16\",\"shape\":[2,2,2,2,2,1]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.count\":{\"dtype\":\"I64\",\"shape\":[8]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.other\":{\"dtype\":\"F64\",\"shape\":[8]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.other\":{\"dtype\":\"NEW\",\"shape\":[]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.other\":{\"dtype\":\"F16\",\"shape\":[2,2,2,2,2,1]", NULL},
  {TENSORS, "\"mtp.norm.weight\":{\"dtype\":\"F16\",\"shape\":[32]",
   "\"model.other\":{\"dtype\":\"F16\",\"shape\":[32]", "model.other: the model"}
};

/* The same of other folders. */
static const struct { const char *name; change of; } others[] = {
  {"gla-clamped", {CONFIG, "\"clamp_min\": -0.12", "\"clamp_min\": null", NULL}},
  {"gla-clamped", {CONFIG, "\"clamp_min\": -0.12", "\"clamp_min\": 0.5",
                   "clamp_min is 0.5; known here: below 0"}},
  {"gla-clamped", {CONFIG, "\"clamp_min\": -0.12", "\"clamp_min\": -1e30", NULL}},
  {"gla-clamped", {CONFIG, "\"clamp_min\": -0.12", "\"clamp_min\": -Infinity", NULL}},
  {"gla-clamped", {CONFIG, "\"clamp_min\": -0.12",
                   "\"clamp_min\": {\"__float__\": \"-Infinity\"}", NULL}},
  {"gla-clamped", {CONFIG, "\"clamp_min\": -0.12", "\"clamp_min\": NaN", "clamp_min is NaN"}},
  {"rwkv7", {CONFIG, "\"sqrelu\"", "\"swish\"", "hidden_act is swish; known here: sqrelu"}},
  {"rwkv4", {CONFIG, "\"rescale_every\": 6", "\"rescale_every\": 1", NULL}},
  {"rwkv4", {CONFIG, "\"layer_norm_epsilon\": 1e-05", "\"layer_norm_epsilon\": 1e-3",
             "layer_norm_epsilon is 1e-3; known here: 1e-5"}},
  {"rwkv4", {CONFIG, "\"attention_hidden_size\": 32", "\"attention_hidden_size\": 64",
             "attention_hidden_size is 64; known here: hidden_size"}},
  {"rwkv4", {CONFIG, "\"intermediate_size\": 112", "\"intermediate_size\": null",
             "feed_forward.value.weight: its shape [32, 112]"}},
  {"hgrn2", {CONFIG, "\"expand_ratio\": 16", "\"expand_ratio\": 16777216", "expand_ratio"}},
  {"qwen3_5", {CONFIG, "\"max_position_embeddings\": 2048",
               "\"max_position_embeddings\": -1e30", "max_position_embeddings"}},
  {"gla-clamped", {CONFIG, "\"clamp_min\": -0.12", "\"clamp_min\": \"low\"", "clamp_min"}},
  {"gla-clamped", {CONFIG, "\"use_short_conv\": true", "\"use_short_conv\": false", "conv1d"}},
  {"gla-clamped", {CONFIG, "\"use_output_gate\": false", "\"use_output_gate\": true", "g_proj"}},
  {"gla-clamped", {CONFIG, "\"feature_map\": null", "\"feature_map\": \"relu\"", "feature_map"}},
  {"gla-clamped", {CONFIG, "\"num_kv_heads\": null", "\"num_kv_heads\": 1", "k_proj"}},
  {"delta_net-sum", {CONFIG, "\"sum\"", "\"max\"", "qk_norm is max; known here: l2 sum"}},
  {"delta_net-sum", {CONFIG, "\"elu\"", "\"tanh\"", "qk_activation is tanh; known here: silu"}},
  {"delta_net-sum", {CONFIG, "\"use_beta\": true", "\"use_beta\": false", "b_proj"}},
  {"delta_net-plain", {CONFIG, "\"use_beta\": false", "\"use_beta\": true", "gates.down"}},
  {"delta_net-plain", {CONFIG, "\"use_short_conv\": false", "\"use_short_conv\": 1", "conv1d"}},
  {"hgrn2", {CONFIG, "\"expand_ratio\": 16", "\"expand_ratio\": 15", "its shape"}},
  {"hgrn2", {CONFIG, "\"expand_ratio\": 16", "\"expand_ratio\": null", NULL}},
  {"hgrn2", {CONFIG, "\"expand_ratio\": 16", "\"expand_ratio\": 0.5", "expand_ratio is 0.5"}},
  {"hgrn2", {CONFIG, "_bound\": true", "_bound\": false", "model.lower_bounds"}},
  {"hgrn2", {CONFIG, "\"use_short_conv\": false", "\"use_short_conv\": true",
             "_conv is true; known here: false"}},
  {"hgrn2", {CONFIG, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2", "lower_bounds"}},
  {"hgrn2", {TENSORS, "[3,32]", "[32,3]", "its shape [32, 3]"}},
  {"hgrn2", {TENSORS, "[3,32]", "[6,16]", "its shape [6, 16]"}},
  {"hgrn2", {TENSORS, "[3,32]", "[96]", "its shape [96]"}},
  {"hgrn2", {TENSORS, "model.lower_bounds", "model.lower_bound", "model.lower_bound"}},
  {"hgrn", {CONFIG, "\"expand_ratio\": 1", "\"expand_ratio\": 0.01", "expand_ratio is 0.01"}},
  {"hgrn", {CONFIG, "\"expand_ratio\": 1", "\"expand_ratio\": 2", "its shape"}},
  {"hgrn", {CONFIG, "\"hidden_size\": 32,", "", "hidden_size is missing"}},
  {"hgrn", {CONFIG, "_bound\": true", "_bound\": false", "model.lower_bounds"}},
  {"hgrn-free", {CONFIG, "_bound\": false", "_bound\": true", "model.lower_bounds"}},
  {"hgrn-free", {CONFIG, "\"use_short_conv\": false", "\"use_short_conv\": true",
                 "_conv is true; known here: false"}},
  {"gsa", {CONFIG, "\"use_short_conv\": false", "\"use_short_conv\": true",
           "_conv is true; known here: false"}},
  {"gsa", {CONFIG, "\"feature_map\": \"swish\"", "\"feature_map\": \"t2r\"",
           "feature_map is t2r; known here: swish relu"}},
  {"gsa", {CONFIG, "normalizer\": 8", "normalizer\": 4", "is 4; known here: 8 16 1"}},
  {"gsa", {CONFIG, "\"num_slots\": 12", "\"num_slots\": 11", "f_proj.weight: it has more"}},
  {"gsa", {CONFIG, "\"expand_k\"", "\"exapnd_k\"", NULL}},
  {"gsa", {CONFIG, "\"use_output_gate\": false", "\"use_output_gate\": true", NULL}},
  {"gsa-shared", {CONFIG, "\"num_kv_heads\": 2", "\"num_kv_heads\": 3", "num_kv_heads is 3"}},
  {"gsa-shared", {CONFIG, "\"expand_v\": 1.0", "\"expand_v\": 2.0", "its shape"}},
  {"precond_kda", {CONFIG, "\"num_v_heads\": null", "\"num_v_heads\": 4",
                   "num_v_heads is 4; known here: num_heads"}},
  {"precond_kda", {CONFIG, "\"squash_x\": 1.5", "\"squash_x\": 2.0", "squash_x is 2.0; known"}},
  {"precond_kda", {TENSORS, "0.attn.A_log_atk", "0.attn.A_log_att", "A_log_at"}},
  {"precond_kda", {TENSORS, "0.attn.dt_bias_atk", "0.attn.dt_bias_att", "dt_bias_att"}},
  {"precond_kda", {TENSORS, "0.attn.A_log_atk\":{\"dtype\":\"F32\",\"shape\":[2]",
                   "0.attn.A_log_atk\":{\"dtype\":\"F32\",\"shape\":[1,2]", NULL}},
  {"precond_gated_deltanet", {CONFIG, "\"use_gate\": true", "\"use_gate\": false", "g_proj"}},
  {"transformer", {CONFIG, "\"qk_norm\": false", "\"qk_norm\": true",
                   "qk_norm is true; known here: false"}},
  {"transformer", {CONFIG, "\"window_size\": null", "\"window_size\": 0.5", "window_size is 0.5"}},
  {"transformer", {CONFIG, "\"qkv_bias\": true", "\"qkv_bias\": false", "proj.bias"}},
  {"rwkv6", {CONFIG, "\"sqrelu\"", "\"relu\"", "hidden_act is relu; known here: sqrelu"}},
  {"rwkv6", {CONFIG, "\"num_heads\": 2", "\"num_heads\": 4", "bonus: it is of 2 heads, and the"}},
  {"rwkv6", {CONFIG, "\"num_heads\": 2,", "", "num_heads is missing"}},
  {"rwkv6", {CONFIG, "\"expand_k\": 1.0", "\"expand_k\": 0.51",
             "expand_k is 8.16; it must be a whole number"}},
  {"rwkv6", {CONFIG, "\"expand_v\": 1.0", "\"expand_v\": 1.5", "its shape"}},
  {"rwkv6", {CONFIG, "\"proj_low_rank_dim\": 4", "\"proj_low_rank_dim\": 5",
             "proj_low_rank_dim is 5, but the tensors have a rank of 4"}},
  {"rwkv6", {CONFIG, "\"gate_low_rank_dim\": 6", "\"gate_low_rank_dim\": 7",
             "gate_low_rank_dim is 7, but the tensors have a rank of 6"}},
  {"rwkv6", {CONFIG, "\"norm_bias\": true", "\"norm_bias\": false",
             "its norm_bias and the tensors do not agree"}},
  {"rwkv6-plain", {CONFIG, "\"norm_bias\": false", "\"norm_bias\": true",
                   "its norm_bias and the tensors do not agree"}},
  {"rwkv6", {CONFIG, "\"norm_first\": true", "\"norm_first\": false",
             "0.pre_norm.bias: the model"}},
  {"rwkv6-plain", {CONFIG, "\"norm_first\": false", "\"norm_first\": true",
                   "model.layers.0.pre_norm.weight"}},
  {"rwkv6-narrow", {CONFIG, "\"intermediate_size\": null", "\"hidden_ratio\": null", NULL}},
  {"samba", {CONFIG, "\"attn\": {", "\"id2label\": {", "attn is missing"}},
  {"samba", {CONFIG, "\"hidden_ratio\": 4", "\"hidden_ratio\": 16", "mlp.down_proj.weight: its"}},
  {"samba", {CONFIG, "\"num_kv_heads\": 2", "\"num_kv_heads\": 3", "kv_heads"}},
  {"samba", {CONFIG, "\"window_size\": 5", "\"window_size\": 0.5", "attn.window_size is 0.5"}},
  {"samba", {CONFIG, "\"layers\": [", "\"layers\": [0,", "0.mixer.out_proj.weight: its"}},
  {"samba-biased", {CONFIG, "\"qkv_bias\": true", "\"qkv_bias\": false", "mixer.k_proj.bias"}},
  {"samba", {CONFIG, "\"qkv_bias\": false", "\"qkv_bias\": true", "mixer.q_proj.bias"}},
  {"kda-attended", {CONFIG, "\"layers\": [", "\"layers\": [-1,", "attn.layers has -1 at place 0"}},
  {"kda-attended", {CONFIG, "\"layers\": [", "\"layers\": [200,", NULL}},
  {"gla-attended", {CONFIG, "\"max_position_embeddings\": 2048",
                    "\"max_position_embeddings\": 0.5", "max_position_embeddings is 0.5"}},
  {"rwkv6", {CONFIG, "\"attn\": null", "\"attn\": {}", "attn is an object; known here: null"}},
  {"rwkv6", {TENSORS, "0.attn.x_bias", "0.attn.x_bian", "attn.x_bias"}},
  {"rwkv6", {TENSORS, "[5,32]", "[32,5]", "its shape [32, 5]"}},
  {"rwkv6", {TENSORS, "[32,20]", "[20,32]", "its shape [20, 32]"}},
  {"mamba2", {CONFIG, "{", "{\"intermediate_size\": 65,",
              "intermediate_size is 65; known here: expand times hidden_size"}},
  {"mamba2-fla", {CONFIG, "\"norm_before_gate\": false", "\"norm_before_gate\": true",
                  "norm_before_gate is 1; known here: false where there is rmsnorm"}},
  {"mamba2-author", {CONFIG, "\"layer\": \"Mamba2\"", "\"layer\": \"Mamba1\"", "layer is Mamba1"}},
  {"mamba2-author", {CONFIG, "\"layer\": \"Mamba2\",", "", "layer of ssm_cfg is missing"}},
  {"mamba2-author", {CONFIG, "\"vocab_size\": 45", "\"model_type\": \"zamba\"", "is zamba; known"}},
  {"mamba2-author", {CONFIG, "\"vocab_size\": 45", "\"model_type\": \"\"", "type is ; known"}},
  {"mamba2-author", {CONFIG, "\"ssm_cfg\": {", "\"ssm_cfg\": {\"bias\": true,", "in_proj.bias"}},
  {"mamba2-author", {CONFIG, "\"vocab_size\": 45", "\"vocab_size\": 32",
                     "vocab_size is 32; known here: the rows of the embedding"}},
  {"mamba", {CONFIG, "\"layer_norm_epsilon\": 1e-05", "\"norm_eps\": -1", "norm_eps is -1"}},
  {"gated_deltaproduct", {CONFIG, "use_output_gate", "use_gate", NULL}},
  /* more or fewer heads of the same width in all, which only what each has tells */
  {"gla", {CONFIG, "\"num_heads\": 2", "\"num_heads\": 4", "g_norm_swish_gate.weight: its shape"}},
  {"gla", {CONFIG, "\"num_heads\": 2", "\"num_heads\": 1", "g_norm_swish_gate.weight: its shape"}},
  {"delta_net", {CONFIG, "\"num_heads\": 2", "\"num_heads\": 1", "attn.o_norm.weight: its shape"}},
  {"retnet", {CONFIG, "\"num_heads\": 2", "\"num_heads\": 8", "g_norm_swish_gate.weight: its"}},
  {"linear_attn", {CONFIG, "\"num_heads\": 4", "\"num_heads\": 2", "attn.norm.weight: its shape"}},
  {"rwkv7", {CONFIG, "\"head_dim\": 16", "\"head_dim\": 8", "r_k: it is of 2 heads, and the"}},
  {"llama", {CONFIG, "\"default\"", "\"llama3\"",
             "factor is missing, which it needs with this rope_type"}},
  {"llama", {CONFIG, "\"default\"", "\"longrope\"",
             "rope_type is longrope; known here: default linear yarn llama3"}},
  {"llama", {CONFIG, "\"default\"", "\"dynamic\"", "rope_type is dynamic; known here: default"}},
  {"llama", {CONFIG, "\"rope_theta\": 500.0", "\"factor\": 2.0",
             "factor is 2, which has no meaning with this rope_type"}},
  {"llama-far", {CONFIG, "\"low_freq_factor\": 0.3,", "", "low_freq_factor is missing, which"}},
  {"llama-far", {CONFIG, "\"low_freq_factor\"", "\"beta_slow\"", "beta_slow is 0.3, which has no"}},
  {"llama-far", {CONFIG, "\"low_freq_factor\": 0.3", "\"low_freq_factor\": 4.0",
                 "low_frequency_factor must be below high_frequency_factor"}},
  {"llama-far", {CONFIG, "\"original_max_position_embeddings\": 64,", "", NULL}},
  {"llama-far", {CONFIG, "{", "{\"truncate\": false,", "truncate is false; known here: true"}},
  {"llama-yarn", {CONFIG, "\"attention_factor\": 0.9", "\"attention_factor\": 1e-4",
                  "rope_scaling.attention_factor is 0.0001; it must lie in"}},
  {"llama-yarn", {CONFIG, "\"factor\": 4.0", "\"factor\": 0.5", "factor is 0.5; it must lie in"}},
  {"llama-yarn", {CONFIG, "\"yarn\"", "\"linear\"", "beta_slow is 0.125, which has no meaning"}},
  {"granitemoehybrid", {CONFIG, "{", "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2},",
                        "type is there, but nothing turns"}},
  {"jamba", {CONFIG, "\"attn_layer_offset\": 1", "\"attn_layer_offset\": 3",
             "attn_layer_offset is 3; known here: below attn_layer_period"}},
  {"jamba", {CONFIG, "\"expert_layer_offset\": 1", "\"expert_layer_offset\": 2",
             "expert_layer_offset is 2; known here: below expert_layer_period"}},
  {"jamba", {CONFIG, "\"expert_layer_offset\": 1", "\"expert_layer_offset\": 0",
             "layers.0.feed_forward.router.weight"}},
  {"jamba", {CONFIG, "\"num_hidden_layers\": 5", "\"num_hidden_layers\": 4", "no such tensor"}},
  {"jamba", {CONFIG, "\"mamba_d_state\": 12", "\"mamba_d_state\": 13", "A_log: its shape"}},
  {"jamba", {CONFIG, "\"intermediate_size\": 24,", "", "intermediate_size is missing"}},
  {"jamba", {CONFIG, "{", "{\"sliding_window\": 8,", "sliding_window is 8; known here: null"}},
  {"jamba", {TENSORS, "0.mamba.b_layernorm", "0.mamba.x_layernorm", "mamba.b_layernorm.weight"}},
  {"recurrent_gemma", {CONFIG, "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 1.5",
                       "partial_rotary_factor is 1.5; known here: 0 to 1"}},
  {"recurrent_gemma", {CONFIG, "\"lru_width\": 40", "\"lru_width\": 42", "lru_width is 10.5"}},
  {"recurrent_gemma", {TENSORS, "0.temporal_block.rg_lru.recurrent_param",
                       "0.temporal_block.rg_lru.recurrent_parax", "rg_lru.recurrent_param"}},
  {"recurrent_gemma-biased", {CONFIG, "\"attention_bias\": true", "\"attention_bias\": false",
                              "attention_bias and the tensors do not agree"}},
  {"llama", {CONFIG, "\"head_dim\": 12", "\"head_dim\": 11", "must be even"}},
  {"llama", {CONFIG, "\"head_dim\": 12", "\"head_dim\": null", "its shape"}},
  {"llama", {CONFIG, "\"num_attention_heads\": 4", "\"num_attention_heads\": 5", "kv_heads"}},
  {"llama", {CONFIG, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 4", "k.weight: its"}},
  {"llama", {CONFIG, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true", NULL}},
  {"llama", {CONFIG, "\"attention_bias\": false", "\"attention_bias\": true", "attention_bias"}},
  {"llama", {CONFIG, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 257", "known here: 1 to"}},
  {"llama", {TENSORS, "0.self_attn.q_proj.weight", "0.self_attn.q_proj.wiegth", "q_proj.weight"}},
  {"llama-tied", {CONFIG, "\"num_attention_heads\": 4", "\"num_attention_heads\": 3",
                  "num_attention_heads is 10.6667; it must be a whole number"}},
  {"llama-tied", {CONFIG, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
                  "lm_head.weight"}},
  {"kda", {CONFIG, "\"lower_bound\": null", "\"lower_bound\": 5",
           "lower_bound is 5; known here: below 0"}},
  {"kda", {CONFIG, "\"lower_bound\": null", "\"lower_bound\": -1e9", "decay_log_limit is 1e+09"}},
  {"kda", {CONFIG, "\"safe_gate\": false", "\"safe_gate\": true", "safe_gate"}},
  {"kda", {CONFIG, "\"use_short_conv\": true", "\"use_short_conv\": false", "conv1d"}},
  {"kda", {TENSORS, "A_log\":{\"dtype\":\"F32\",\"shape\":[2]",
           "A_log\":{\"dtype\":\"F32\",\"shape\":[1,1,2,1]", NULL}},
  {"kda", {TENSORS, "0.attn.g_proj.1.bias", "0.attn.g_proj.1.base", "g_proj.1.bias"}},
  {"kda", {TENSORS, "0.attn.f_proj.0.weight", "0.attn.f_proj.2.weight", "f_proj"}},
  {"kda-grouped", {CONFIG, "\"num_v_heads\": 4", "\"num_v_heads\": 3", "qk_heads"}},
  {"kda-grouped", {CONFIG, "\"lower_bound\": -5.0", "\"lower_bound\": null", "safe_gate"}},
  {"falcon_h1", {CONFIG, "\"ssm_multipliers\": [", "\"ssm_multipliers\": [0.5,",
                 "ssm_multipliers has 1.3 at place 5"}},
  {"falcon_h1", {CONFIG, "\"ssm_multipliers\": [\n    0.7,", "\"ssm_multipliers\": [",
                 "ssm_multipliers must be 5 numbers"}},
  {"falcon_h1", {CONFIG, "\"mlp_multipliers\": [", "\"mlp_multipliers\": [0,",
                 "mlp_multipliers has 0 at place 0"}},
  {"falcon_h1", {CONFIG, "\"mlp_multipliers\": [", "\"mlp_multipliers\": [],\"top_k\": [",
                 "one of its lists is empty"}},
  {"falcon_h1", {CONFIG, "\"key_multiplier\": 0.390625", "\"key_multiplier\": 0",
                 "key_multiplier is 0; known here: positive"}},
  {"falcon_h1", {CONFIG, "\"key_multiplier\": 0.390625", "\"key_multiplier\": 1e30",
                 "attention.query_scale is"}},
  {"falcon_h1", {CONFIG, "\"attention_bias\": false", "\"attention_bias\": true",
                 "attention_bias is true; known here: false"}},
  {"falcon_h1", {CONFIG, "\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true; known"}},
  {"falcon_h1", {CONFIG, "\"projectors_bias\": false", "\"projectors_bias\": true",
                 "projectors_bias is 1; known here: mamba_proj_bias and projectors_bias alike"}},
  {"falcon_h1", {CONFIG, "\"mamba_d_head\": 8", "\"mamba_d_head\": 7",
                 "the width of its memories is not all heads times mamba_d_head"}},
  {"falcon_h1", {CONFIG, "\"mamba_d_head\": 8", "\"mamba_d_head\": \"auto\"", NULL}},
  {"falcon_h1", {CONFIG, "\"mamba_rms_norm\": false", "\"mamba_rms_norm\": true", "mamba.norm"}},
  {"falcon_h1", {CONFIG, "\"rope_type\": \"default\"", "\"rope_type\": \"yarn\"",
                 "factor is missing, which it needs with this rope_type"}},
  {"falcon_h1", {CONFIG, "\"intermediate_size\": 48,", "", "intermediate_size is missing"}},
  {"falcon_h1", {CONFIG, "\"head_dim\": 12", "\"head_dim\": 13", "head_dim is 13"}},
  {"falcon_h1-biased", {TENSORS, "0.mamba.in_proj.bias", "0.mamba.in_proj.base", "in_proj.bias"}},
  {"granitemoehybrid", {CONFIG, "\"shared_intermediate_size\": 32",
                        "\"shared_intermediate_size\": 24",
                        "_size is 24; known here: 1 to 8 times intermediate_size"}},
  {"granitemoehybrid", {CONFIG, "\"shared_intermediate_size\": 32",
                        "\"shared_intermediate_size\": 48", "input_linear.weight: its shape"}},
  {"granitemoehybrid", {CONFIG, "\"nope\"", "\"alibi\"",
                        "position_embedding_type is alibi; known here: rope nope null"}},
  {"granitemoehybrid", {CONFIG, "\"attention\"", "\"sliding\"",
                        "layer_types has sliding at place 1"}},
  {"granitemoehybrid", {CONFIG, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2",
                        "layer_types is not of all layers"}},
  {"granitemoehybrid", {TENSORS, "[64,32]", "[32,64]", "its shape [32, 64]"}},
  {"granitemoehybrid", {TENSORS, "[5,32]", "[5,16,2]", NULL}},
  {"granitemoehybrid", {TENSORS, "[5,32,32]", "[5,16,64]", "its shape [5, 16, 64]"}},
  {"granitemoehybrid", {TENSORS, "[32,32]", "[64,16]", "its shape [64, 16]"}},
  {"bamba", {CONFIG, "\"attn_layer_indices\": [", "\"attn_layer_indices\": [256,",
             "attn_layer_indices has 256 at place 0"}},
  {"bamba", {CONFIG, "\"attn_layer_indices\": [", "\"attn_layer_indices\": [2,",
             "blocks.2.o.weight"}},
  {"bamba", {CONFIG, "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 0.25",
             "partial_rotary_factor is 0.25; known here: 0.5"}},
  {"lfm2", {CONFIG, "\"block_ff_dim\": 66", "\"block_ff_dim\": 65", NULL}},   /* 43, so 48 */
  {"lfm2", {CONFIG, "\"block_ff_dim\": 66", "\"block_ff_dim\": 1",
            "block_ff_dim is missing"}},
  {"lfm2", {CONFIG, "\"block_ff_dim\": 66,", "", "intermediate_size is missing"}},
  {"lfm2", {CONFIG, "\"full_attn_idxs\": [", "\"full_attn_idxs\": [0,", "self_attn.q_layernorm"}},
  {"lfm2", {CONFIG, "{", "{\"layer_types\": [\"conv\"],", "layer_types is not of all layers"}},
  {"lfm2", {CONFIG, "{", "{\"layer_types\": [\"linear_attention\"],",
            "layer_types has linear_attention at place 0"}},
  {"lfm2", {CONFIG, "{", "{\"layer_types\": [],", "layer_types is not of all layers"}},
  {"lfm2", {CONFIG, "{", "{\"block_use_swiglu\": false,", "block_use_swiglu is false"}},
  {"olmo_hybrid", {CONFIG, "\"attention_bias\": false", "\"attention_bias\": true",
                   "attention_bias is true; known here: false"}},
  {"olmo_hybrid", {CONFIG, "\"full_attention\"", "\"conv\"", "layer_types has conv at place 1"}},
  {"olmo_hybrid", {CONFIG, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1",
                   "layer_types is not of all layers"}},
  {"olmo_hybrid", {CONFIG, "\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 6",
                   "qk_heads"}},
  {"olmo_hybrid", {CONFIG, "\"intermediate_size\": 48,", "", "intermediate_size is missing"}},
  {"olmo_hybrid", {TENSORS, "self_attn.q_norm.weight\":{\"dtype\":\"F32\",\"shape\":[32]",
                   "self_attn.q_norm.weight\":{\"dtype\":\"F32\",\"shape\":[4,8]", NULL}},
  {"olmo_hybrid", {TENSORS, "1.post_feedforward_layernorm", "1.post_feedforward_layernorms",
                   "post_feedforward_layernorm.weight"}}
};

static char folder[] = "/tmp/miras_checkpoints.XXXXXX";
static unsigned char *base[FILES];   /* of tensors all of it; the index lists all of them */
static size_t length[FILES];

static const char *changed_path(const char *file) {
  static char path[200];
  snprintf(path, sizeof path, "%s/%s", folder, file);
  return path;
}

/* In a new file: ext4 sends one that is written over to the disk at once. */
static void put_bytes(const char *name, const void *bytes, size_t n) {
  FILE *file;
  remove(changed_path(name));
  file = fopen(changed_path(name), "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, n, file), n);
  assert_int_equal(fclose(file), 0);
}
static void put_file(int i, const void *bytes, size_t n) { put_bytes(files[i], bytes, n); }
static void put_config(const char *text) { put_bytes("config.json", text, strlen(text)); }

static void take_base(const char *name) {
  size_t at = 8, end;
  int i;
  memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
  assert_non_null(mkdtemp(folder));
  for (i = 0; i < INDEX; i++) {
    FILE *file = fopen(path_of(name, files[i]), "rb");
    base[i] = (unsigned char *)malloc(1 << 20);
    length[i] = file ? fread(base[i], 1, 1 << 20, file) : 0;
    if (!file) continue;             /* RWKV's author writes no configuration */
    fclose(file);
    put_file(i, base[i], length[i]);
  }
  /* names stand before ":{"dtype" */
  base[INDEX] = (unsigned char *)malloc(1 << 16);
  length[INDEX] = (size_t)sprintf((char *)base[INDEX], "{\"metadata\":{},\"weight_map\":{");
  end = 8 + (size_t)inside_get64(base[TENSORS]);
  for (; at + 9 < end; at++) {
    size_t from = at;
    if (memcmp(base[TENSORS] + at, "\":{\"dtype", 9) != 0) continue;
    while (base[TENSORS][from - 1] != '"') from--;
    length[INDEX] += (size_t)sprintf((char *)base[INDEX] + length[INDEX],
                                     "\"%.*s\":\"model.safetensors\",", (int)(at - from),
                                     (const char *)base[TENSORS] + from);
  }
  length[INDEX] += (size_t)sprintf((char *)base[INDEX] + length[INDEX] - 1, "}}") - 1;
}

static void drop_base(void) {
  int i;
  for (i = 0; i < FILES; i++) {
    free(base[i]);
    remove(changed_path(files[i]));
  }
  rmdir(folder);
}

/* With one change: its file written. */
static void put_change(const change *c) {
  const int i = c->file;
  const size_t before = i == TENSORS ? 8 : 0;
  const size_t text = i == TENSORS ? (size_t)inside_get64(base[i]) : length[i];
  const size_t out = strlen(c->find), in = strlen(c->put);
  unsigned char *bytes = (unsigned char *)malloc(length[i] + in);
  size_t at = before;
  /* of a closing brace the last one */
  for (at = before + (c->find[0] == '}' ? text - out : 0);
       memcmp(base[i] + at, c->find, out) != 0;) {
    assert_true(at < before + text);
    if (c->find[0] == '}') at--;
    else at++;
  }
  memcpy(bytes, base[i], at);
  memcpy(bytes + at, c->put, in);
  memcpy(bytes + at + in, base[i] + at + out, length[i] - at - out);
  if (i == TENSORS) inside_set64(bytes, (uint64_t)(text + in - out));
  put_file(i, bytes, length[i] + in - out);
  free(bytes);
}

/* What the folder gives: the sentence, empty if a model is opened and loaded, which then runs. */
static void attempt(const char *path, char *why, size_t n) {
  miras_model_desc d;
  miras_model *m;
  memset(&d, 0, sizeof d);
  d.limit = 1 << 22;
  why[0] = 0;
  test_largest = 0;
  if (miras_checkpoint_desc(&d, path, NULL, NULL, why, n) != MIRAS_OK) {
    assert_int_equal(d.width, 0);
  } else {
    m = miras_model_open(&d, NULL, NULL, 0);
    if (m) {
      size_t count;
      const float *params = miras_model_params(m, &count);
      const uint32_t before = inside_crc(params, count * sizeof *params);
      if (miras_checkpoint_load(m, path, NULL, NULL, why, n) == MIRAS_OK) {
        miras_session *session = miras_session_open(m, NULL, NULL, NULL, 0);
        assert_true(!why[0]);
        if (session) assert_non_null(miras_session_step(session, 1));
        miras_close(session);
      } else {
        assert_true(why[0] != 0);
        assert_int_equal(inside_crc(params, count * sizeof *params), before);
      }
      miras_close(m);
    } else {
      assert_true(test_fail_at != 0);
      strcpy(why, "allocator");
    }
  }
  assert_true(strlen(why) < n);
  assert_true(test_largest < 1 << 23);
}

static void try_changes(const char *name, const change *c, size_t count) {
  char why[256];
  take_base(name);
  for (; count--; c++) {
    put_change(c);
    attempt(folder, why, sizeof why);
    if (c->word ? !strstr(why, c->word) : why[0] != 0)
      fail_msg("%s -> %s: \"%s\"", c->find, c->put, why);
    assert_int_equal(test_live, 0);
    if (c->file == INDEX) remove(changed_path(files[INDEX]));
    else put_file(c->file, base[c->file], length[c->file]);
  }
  attempt(changed_path(files[TENSORS]), why, sizeof why);
  assert_string_equal(why, "");
  attempt(changed_path("missing"), why, sizeof why);
  assert_non_null(strstr(why, "cannot be opened"));
  drop_base();
}

static void test_changes(void **state) {
  size_t k;
  (void)state;
  try_changes(BASE, changes, sizeof changes / sizeof changes[0]);
  try_changes("qwen3_5_moe", expert_changes, sizeof expert_changes / sizeof expert_changes[0]);
  for (k = 0; k < sizeof others / sizeof others[0]; k++)
    try_changes(others[k].name, &others[k].of, 1);
}

/* The first logits of the folder: 1; or the sentence. */
static int first_logits(float *logits, char *why, size_t n) {
  miras_model_desc d;
  miras_model *m;
  miras_session *s;
  int ok = 0, i;
  memset(&d, 0, sizeof d);
  d.limit = 1 << 22;
  why[0] = 0;
  if (miras_checkpoint_desc(&d, folder, NULL, NULL, why, n) != MIRAS_OK) return 0;
  m = miras_model_open(&d, NULL, NULL, 0);
  if (!m) return 0;
  if (miras_checkpoint_load(m, folder, NULL, NULL, why, n) == MIRAS_OK && d.vocab == VOCAB) {
    s = miras_session_open(m, NULL, NULL, NULL, 0);
    assert_non_null(s);
    for (i = 0; i < SHORT; i++)
      memcpy(logits + i * VOCAB, miras_session_step(s, 7 * i + 3), VOCAB * sizeof(float));
    miras_close(s);
    ok = 1;
  }
  miras_close(m);
  return ok;
}

/* Fields that the caller says to pass over, wherever they are; and opening in one. */
static void test_ignored(void **state) {
  static const change unknown = {CONFIG, "\"attn\": null",
                                 "\"attnres_block_size\": {\"a\": [1]}, \"new_field\": 0.5", NULL};
  static float want[SHORT * VOCAB], got[SHORT * VOCAB];
  static const char both[] = "new_field,attnres_block_size";
  static float logits[2][TOKENS * VOCAB];
  const int32_t tokens[TOKENS] = {5, 17, 3, 40, 5, 17, 2, 1};
  size_t k, count;
  char why[256] = "";
  const size_t n = sizeof why;
  miras_model_desc d;
  miras_model *m;
  miras_session *s;
  int i;
  (void)state;
  take_base(BASE);
  assert_true(first_logits(want, why, n));
  put_change(&unknown);
  memset(&d, 0, sizeof d);
  assert_int_equal(miras_checkpoint_desc(&d, folder, "attnres new_field", NULL, why, n),
                   MIRAS_ERR_DESC);
  assert_non_null(strstr(why, "attnres_block_size is an object"));
  assert_int_equal(miras_checkpoint_desc(&d, folder, "attnres_block_size", NULL, why, n),
                   MIRAS_ERR_DESC);
  assert_non_null(strstr(why, "new_field"));
  assert_int_equal(miras_checkpoint_desc(&d, folder, both, NULL, why, n), MIRAS_OK);
  assert_string_equal(why, "");
  assert_int_equal(miras_checkpoint_desc(&d, folder, "attnres_block_size, new_field new_feild",
                                         NULL, why, n), MIRAS_ERR_ARGUMENT);
  assert_string_equal(why, "config.json: it has no field \"new_feild\", which was to be ignored");
  assert_null(miras_checkpoint_open(&d, folder, "attnres_block_size", NULL, why, n));
  assert_non_null(strstr(why, "new_field"));
  assert_null(miras_checkpoint_open(&d, NULL, NULL, NULL, why, n));
  assert_null(miras_checkpoint_open(NULL, folder, NULL, NULL, NULL, 0));
  assert_int_equal(miras_checkpoint_desc(NULL, folder, NULL, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_checkpoint_desc(&d, NULL, NULL, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_checkpoint_load(NULL, folder, NULL, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  m = miras_checkpoint_open(&d, folder, both, NULL, why, n);
  assert_non_null(m);
  assert_string_equal(why, "");
  assert_int_equal(miras_checkpoint_load(m, NULL, NULL, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  s = miras_session_open(m, NULL, NULL, NULL, 0);
  assert_non_null(s);
  for (i = 0; i < SHORT; i++)
    memcpy(got + i * VOCAB, miras_session_step(s, 7 * i + 3), VOCAB * sizeof(float));
  assert_memory_equal(got, want, sizeof want);
  miras_close(s);
  miras_close(m);
  drop_base();
  /* of every family the same model as opened and loaded */
  for (k = 0; k < sizeof known / sizeof known[0]; k += THIRD) {
    miras_model *other = load(path_of(known[k].name, ""), MIRAS_WEIGHTS_FLOAT);
    d = *miras_model_desc_of(other);
    m = miras_checkpoint_open(&d, path_of(known[k].name, ""), NULL, NULL, why, n);
    if (!m) fail_msg("%s: %s", known[k].name, why);
    (void)miras_model_params(m, &count);
    assert_memory_equal(miras_model_params(m, NULL), miras_model_params(other, NULL),
                        count * sizeof(float));
    say(m, tokens, logits[0]);
    say(other, tokens, logits[1]);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    miras_close(m);
    miras_close(other);
  }
  assert_int_equal(test_live, 0);
}

/* All fields that are not known are named in one sentence, and passed over if the caller says
 * so. */
static void test_unknown(void **state) {
  static const change unknown = {CONFIG, "\"attn\": null",
                                 "\"a\": 1, \"b\": {\"c\": 2}, \"d\": null, \"e\": \"x\"", NULL};
  static const change refused = {CONFIG, "\"attn\": null", "\"a\": 1, \"norm_eps\": 0", NULL};
  static float want[SHORT * VOCAB], got[SHORT * VOCAB];
  char why[256] = "", small[40];
  miras_model_desc d;
  miras_model *m;
  (void)state;
  take_base(BASE);
  assert_true(first_logits(want, why, sizeof why));
  put_change(&unknown);
  memset(&d, 0, sizeof d);
  assert_false(first_logits(got, why, sizeof why));
  assert_string_equal(why, "config.json: fields of this model_type that are not known here: a is "
                           "1, b is an object, e is x; ignore those that change nothing");
  assert_int_equal(miras_checkpoint_desc(&d, folder, "e a", NULL, why, sizeof why), MIRAS_ERR_DESC);
  assert_non_null(strstr(why, "not known here: b is an object; "));
  assert_int_equal(miras_checkpoint_desc(&d, folder, "unknown", NULL, small, sizeof small),
                   MIRAS_OK);
  assert_int_equal(strlen(small), sizeof small - 1);
  assert_int_equal(miras_checkpoint_desc(&d, folder, "unknown", NULL, NULL, 0), MIRAS_OK);
  assert_int_equal(miras_checkpoint_desc(&d, folder, "b,unknown", NULL, why, sizeof why), MIRAS_OK);
  assert_string_equal(why, "config.json: these fields were ignored: a is 1, e is x");
  m = miras_checkpoint_open(&d, folder, "unknown", NULL, why, sizeof why);
  assert_non_null(m);
  assert_string_equal(why, "config.json: these fields were ignored: a is 1, b is an object, "
                           "e is x");
  miras_close(m);
  /* a value that cannot be is no field that is not known */
  put_change(&refused);
  assert_int_equal(miras_checkpoint_desc(&d, folder, "unknown", NULL, why, sizeof why),
                   MIRAS_ERR_DESC);
  assert_non_null(strstr(why, "norm_eps is 0"));
  drop_base();
  assert_int_equal(test_live, 0);
}

/* ---- numbers that stay ---- */

/* Every number of the files is -0, and so is every parameter, but for those to which one is added,
 * floors, and what is in no file: in the forms that files and models have. */
static void test_minus_zero(void **state) {
  static const char *const names[] = {BASE, "kda-grouped", "gla-clamped", "hgrn2", "rwkv7-author",
                                      "precond_kda", "rwkv6-narrow",
                                      "ttt-mlp-mamba", "qwen3_5", "qwen3_5_moe", "falcon_mamba",
                                      "falcon_h1-biased", "lfm2-biased"};
  size_t i, k, n;
  (void)state;
  for (i = 0; i < sizeof names / sizeof names[0]; i++) {
    char why[256] = "";
    const miras_view *views;
    hf__reader c;
    int form, count, v, found = 0;
    take_base(names[i]);
    assert_true(hf__reader_open(&c, folder, NULL, 0, NULL, why, sizeof why));
    for (k = 0; k < c.tensor_count; k++) {
      const hf__tensor *x = &c.tensors[k];
      const size_t wide = x->form ? 2 : 4;
      for (n = 0; x->form >= 0 && n < x->count; n++) {
        memset(base[TENSORS] + x->at + n * wide, 0, wide);
        base[TENSORS][x->at + n * wide + wide - 1] = 0x80;
      }
    }
    hf__reader_close(&c);
    put_file(TENSORS, base[TENSORS], length[TENSORS]);
    for (form = 0; form < MIRAS_WEIGHTS_Q8; form++) {
      miras_model *m = load(folder, (miras_weights)form);
      views = miras_model_views(m, &count);
      for (v = 0; v < count; v++) {
        const char *name = views[v].name;
        const size_t rows = views[v].rank > 1 ? (size_t)views[v].shape[0] : 1;
        float *x = (float *)malloc(views[v].count * sizeof *x);
        miras_model_view_read(m, &views[v], 0, rows, 0, views[v].count / rows, x);
        for (n = 0; n < views[v].count; n++) {
          if (x[n] == 0 && !signbit(x[n]) && !strstr(name, ".memory.init") &&
              !strstr(name, ".gates."))
            fail_msg("%s: number %d of %s is %g", names[i], (int)n, name, (double)x[n]);
          found += x[n] == 0 && signbit(x[n]);
        }
        free(x);
      }
      miras_close(m);
    }
    assert_true(found > 1000);
    drop_base();
  }
  assert_int_equal(test_live, 0);
}

/* ---- files that would take long, or much room ---- */

/* A file of n tensors, whose names have the same CRC-32C: of 52 places each is a or c, and the sum
 * is linear in the choices. */
static void put_names(int n) {
  uint32_t sums[52], lead[32] = {0}, same;
  uint64_t made[32], none[20];
  char name[53];
  unsigned char *bytes = (unsigned char *)malloc((size_t)n * 120 + 64);
  size_t at = 8;
  int i, k, free_count = 0;
  memset(name, 'a', 52);
  same = inside_crc(name, 52);
  for (i = 0; i < 52; i++) {         /* choices that leave the sum as it is */
    uint64_t choice = (uint64_t)1 << i;
    memset(name, 'a', 52);
    name[i] = 'c';
    sums[i] = inside_crc(name, 52) ^ same;
    for (k = 31; k >= 0 && sums[i]; k--) {
      if (!(sums[i] >> k & 1)) continue;
      if (!lead[k]) {
        lead[k] = sums[i], made[k] = choice;
        break;
      }
      sums[i] ^= lead[k], choice ^= made[k];
    }
    if (!sums[i] && free_count < 20) none[free_count++] = choice;
  }
  assert_true(free_count >= 20 && n <= 1 << 20);
  bytes[at++] = '{';
  for (i = 0; i < n; i++) {
    uint64_t choice = 0;
    for (k = 0; k < 20; k++)
      if (i >> k & 1) choice ^= none[k];
    for (k = 0; k < 52; k++) name[k] = choice >> k & 1 ? 'c' : 'a';
    name[52] = 0;
    assert_int_equal(inside_crc(name, 52), same);
    at += (size_t)sprintf((char *)bytes + at,
                          "%s\"%s\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]}",
                          i ? "," : "", name);
  }
  bytes[at++] = '}';
  inside_set64(bytes, (uint64_t)at - 8);
  put_file(TENSORS, bytes, at);
  free(bytes);
}

static void test_names(void **state) {
  enum { NAMES = 20000 };
  miras_model_desc d;
  char why[256];
  (void)state;
  take_base(BASE);
  put_names(NAMES);
  test_compared = 0;
  memset(&d, 0, sizeof d);
  why[0] = 0;
  assert_int_equal(miras_checkpoint_desc(&d, folder, NULL, NULL, why, sizeof why),
                   MIRAS_ERR_FORMAT);
  assert_non_null(strstr(why, "far larger"));
  /* sorting, 2 n log2 n at most, and the words of each tensor's type */
  if (test_compared > 60L * NAMES) fail_msg("%ld comparisons", test_compared);
  assert_int_equal(test_live, 0);
  drop_base();
}

/* Headers that are long on the disk, or only say so, with a limit. */
static void test_room(void **state) {
  static char index[4096];
  unsigned char head[8];
  char why[256], name[32];
  size_t n;
  int i;
  (void)state;
  take_base(BASE);
  n = (size_t)sprintf(index, "{\"weight_map\":{");
  for (i = 0; i < 20; i++) {
    FILE *file;
    sprintf(name, "m%d.safetensors", i);
    file = fopen(changed_path(name), "wb");
    assert_non_null(file);
    inside_set64(head, 1 << 25);
    fwrite(head, 1, 8, file);
    fclose(file);
    assert_int_equal(truncate(changed_path(name), 8 + (1 << 25)), 0);
    n += (size_t)sprintf(index + n, "%s\"t%d\":\"%s\"", i ? "," : "", i, name);
  }
  n += (size_t)sprintf(index + n, "}}");
  put_file(INDEX, index, n);
  attempt(folder, why, sizeof why);  /* which limits it to 4 MiB, and looks at what was asked for */
  assert_non_null(strstr(why, "limit is 4194304 bytes"));
  for (i = 0; i < 20; i++) {
    sprintf(name, "m%d.safetensors", i);
    remove(changed_path(name));
  }
  remove(changed_path(files[INDEX]));
  /* entries that are there count too: 20,000 of 250 bytes and more */
  put_names(20000);
  attempt(folder, why, sizeof why);
  assert_non_null(strstr(why, "limit is 4194304 bytes"));
  drop_base();
}

/* ---- every field, with every value ---- */

/* Fields that change nothing in these folders, as in the originals: where another field, or the
 * folder's own tensors, decide. */
static const struct { const char *folders, *field, *values; } idle[] = {
  /* a second name of the same */
  {"", "hidden_act", "\"silu\" \"swish\""},
  {"gated_deltanet gated_deltanet-grouped gated_deltanet-attended", "output_gate_activation",
   "\"silu\" \"swish\""},
  {"gated_deltanet-ungated", "output_gate_activation", ""},       /* of a gate that is not there */
  /* the width of the MLP is said, and of values */
  {"", "hidden_ratio", ""},
  {"mamba mamba-biased falcon_mamba samba samba-biased", "expand", ""},
  /* convolutions, of which there are none */
  {"delta_net-plain gated_deltaproduct-plain gla ttt-linear ttt-mlp precond_kda-safe "
   "precond_gated_deltanet-ungated", "conv_size", ""},
  {"delta_net-plain gla ttt-linear ttt-mlp", "conv_kernel", ""},
  {"delta_net-plain gla", "share_conv_kernel", ""},
  /* as many as there are anyhow */
  {"gated_deltanet gated_deltanet-ungated gated_deltanet-sigmoid kda precond_kda precond_kda-safe "
   "precond_gated_deltanet precond_gated_deltanet-ungated", "num_v_heads", "2"},
  {"kda-attended", "num_v_heads", "2"},
  {"gla gla-clamped retnet gsa", "num_kv_heads", "2"},
  {"transformer-window", "num_kv_heads", "4"},
  {"gla-attended hgrn-attended gated_deltanet-attended samba-biased", "attn.num_kv_heads", "null"},
  {"kda-attended", "attn.layers", "[0]"},
  /* beyond the text of this test */
  {"transformer", "window_size", "8 15 16 24 32 48 64"},
  {"gla-attended hgrn-attended samba-biased", "attn.window_size", "8 15 16 24 32 48 64"},
  {"mamba2-fla", "num_heads", "4"},
  {"falcon_h1-biased", "mamba_d_ssm", "64"},
  {"llama-tied", "num_key_value_heads", "null"},
  /* heads follow from their length */
  {"hgrn2 rwkv7", "num_heads", ""},
  {"hgrn2", "expand_ratio", "null"},
  {"rwkv7", "intermediate_size", "null"},
  {"qwen3_next", "num_experts", ""},                 /* no layer has any */
  {"qwen3_next", "moe_intermediate_size", ""},
  {"qwen3_next", "shared_expert_intermediate_size", ""},
  {"qwen3_next", "num_experts_per_tok", ""},
  {"qwen3_next", "norm_topk_prob", ""},
  {"qwen3_next", "decoder_sparse_step", ""},
  {"rwkv7", "value_dim", "32 null"},
  {"rwkv7", "head_dim", "null"},
  {"rwkv7", "decay_low_rank_dim", "null"},
  {"rwkv7", "a_low_rank_dim", "null"},
  {"rwkv7", "gate_low_rank_dim", "null"},
  {"rwkv7", "v_low_rank_dim", "null"},
  {"rwkv4", "attention_hidden_size", "null"},
  {"rwkv4-tied", "attention_hidden_size", "32"},
  {"kda-grouped precond_kda-safe", "safe_gate", "false 0"},     /* lower_bound decides */
  {"gla", "clamp_min", ""},                    /* no gate is so far down */
  {"gla gla-clamped gla-shared gla-attended", "gate_low_rank_dim", "16"},
  {"gla-shared gla-attended", "clamp_min", ""},
  {"gla-shared gla-attended", "conv_size", ""},
  {"delta_net delta_net-gated delta_net-sum gla-clamped", "share_conv_kernel", "false 0"},
  {"gla-shared gla-attended", "share_conv_kernel", ""},
  {"mamba2-author", "conv_bias", "true 1"},
  {"mamba2-author", "bias", "false 0"},
  /* there is only one place of the norm in Hugging Face's dialect, and rmsnorm tells another */
  {"mamba2 mamba2-grouped mamba2-unbiased mamba2-biased", "norm_before_gate", ""},
  {"mamba2 mamba2-grouped mamba2-unbiased mamba2-biased mamba2-fla", "rmsnorm", "true 1"},
  {"mamba2 mamba2-grouped mamba2-unbiased mamba2-biased mamba2-fla", "intermediate_size", "64"},
  {"mamba2-fla", "norm_before_gate", "false 0"},
  {"qwen3_next", "rope_scaling", "{}"},
  /* other names of fields that there are */
  {"mamba mamba-biased falcon_mamba", "dt_rank", "3 \"auto\""},
  {"gated_deltaproduct gated_deltaproduct-single", "use_gate", "true 1"},
  {"gated_deltaproduct-plain", "use_gate", "false 0"},
  {"mamba2-author", "expand", "2"},
  {"mamba2-author", "d_conv", "4"},
  {"mamba2-author", "hidden_size", "32"},
  {"mamba2-author", "num_hidden_layers", "3"},
  {"mamba2-author", "vocab_size", "48"},
  {"mamba2-author", "pad_vocab_size_multiple", "4 8 24 48"},
  {"mamba2-author", "attn_layer_idx", "null"},
  {"mamba2-author", "attn_cfg", "null"},
  {"mamba2-author", "tie_word_embeddings", ""},      /* the head's tensor is the embedding */
  {"mamba2-author", "tie_embeddings", ""},
  /* beyond the text of this test */
  {"", "max_position_embeddings", ""},
  /* a list of layers decides; or the interval of it does not reach them */
  {"qwen3_next-experts qwen3_5 qwen3_5_moe", "full_attention_interval", ""},
  {"qwen3_next qwen3_5 qwen3_5_moe", "layer_types", "null"},
  {"qwen3_5 qwen3_5_moe", "rope_parameters", ""},
  {"qwen3_next-experts", "rope_parameters", ""},
  {"falcon_h1-normed falcon_h1-biased bamba", "rope_parameters", ""},      /* as without */
  {"falcon_h1-normed", "ssm_multipliers", "null"},
  {"falcon_h1-normed falcon_h1-biased", "mlp_multipliers", "null"},
  {"falcon_h1 falcon_h1-normed", "mamba_expand", ""},          /* mamba_d_ssm decides */
  {"falcon_h1", "mamba_d_ssm", "null"},                        /* which is as wide */
  {"falcon_h1", "mamba_norm_before_gate", ""},                 /* without a norm */
  {"falcon_h1 falcon_h1-normed falcon_h1-biased granitemoehybrid granitemoehybrid-dense bamba",
   "mamba_d_head", "\"auto\""},
  {"falcon_h1-biased", "num_key_value_heads", "null"},
  {"granitemoehybrid bamba lfm2", "head_dim", "8"},
  {"bamba-yarn", "mamba_d_head", "\"auto\""},
  {"granitemoehybrid", "position_embedding_type", "null"},
  {"granitemoehybrid", "rope_theta", ""},                      /* nothing turns */
  {"granitemoehybrid granitemoehybrid-dense llama-tied", "rope_scaling", "{}"},
  {"granitemoehybrid-dense", "num_experts_per_tok", ""},
  {"granitemoehybrid-dense", "intermediate_size", ""},
  {"", "rope_type", "\"default\""},                            /* as without */
  {"", "type", "\"default\""},
  {"jamba-dense jamba-plain", "num_experts_per_tok", ""},      /* no layer has any */
  {"jamba-dense jamba-plain", "expert_layer_offset", ""},
  {"jamba-dense jamba-plain", "expert_layer_period", ""},
  {"jamba jamba-dense jamba-plain", "head_dim", "8"},
  {"jamba-dense", "mamba_dt_rank", "2"},
  {"jamba-plain", "attn_layer_period", ""},                    /* two layers are fewer */
  {"jamba-dense", "num_key_value_heads", "null"},
  {"bamba-yarn llama-yarn", "beta_fast", ""},                  /* pairs are rounded */
  {"bamba-yarn llama-yarn", "beta_slow", ""},
  {"bamba-yarn llama-yarn", "original_max_position_embeddings", ""},
  {"llama-tied recurrent_gemma recurrent_gemma-biased falcon_h1-normed falcon_h1-biased "
   "granitemoehybrid-dense", "head_dim", "8"},                 /* as without */
  {"recurrent_gemma", "rope_parameters", ""},                  /* likewise */
  {"lfm2 lfm2-biased", "intermediate_size", ""},               /* block_ff_dim decides */
  {"lfm2", "block_ff_dim", "64"},                              /* and is rounded up */
  {"lfm2", "block_multiple_of", "8 24 48"},
  {"lfm2-biased", "block_multiple_of", ""},
  {"lfm2-biased", "block_ffn_dim_multiplier", ""},
  {"lfm2-biased", "full_attn_idxs", ""},                       /* layer_types decides */
  {"lfm2", "tie_word_embeddings", "true 1"},
  {"lfm2", "tie_embedding", "true 1"},
  {"lfm2-biased", "tie_embedding", "false 0"},
  {"olmo_hybrid", "num_key_value_heads", "null"},
  {"olmo_hybrid", "layer_types", "null"},
  {"olmo_hybrid", "linear_num_key_heads", "null"},
  {"olmo_hybrid olmo_hybrid-turned", "linear_num_value_heads", "null"},
  {"olmo_hybrid olmo_hybrid-turned", "head_dim", "8"},
  {"olmo_hybrid", "rope_parameters", ""},                      /* nothing turns */
  {"olmo_hybrid-turned", "layer_types", "null"}
};

/* The values that a field is given: all words that any field of any family knows, and these. */
static const char *const odd[] = {
  "true", "false", "0", "1", "null", "2", "3", "4", "8", "15", "16", "24", "32", "48", "64", "0.5",
  "1.5", "-1", "-5", "1e30", "-1e30", "1e-3", "-Infinity", "Infinity", "NaN", "[]", "{}", "[0]",
  "[[]]", "[0.1, 0.2, 0.3]", "[0.125, 0.5]", "[\"full_attention\"]", "\"\"", "\"other\"",
  "\"1\"", "{\"__float__\": \"Infinity\"}", "{\"__float__\": \"-Infinity\"}",
  "{\"rope_type\": \"yarn\"}"};
enum { VALUES = 128 };
static char values[VALUES][HF__WORD + 8];
static int value_count, own_values;   /* own_values: only the words of a field, and a few more */

static void add_value(const char *text) {
  int i = 0;
  while (i < value_count && strcmp(values[i], text) != 0) i++;
  assert_true(i < VALUES && strlen(text) < sizeof values[0]);
  if (i == value_count) strcpy(values[value_count++], text);
}

static void list_values(void) {
  size_t i;
  int k;
  value_count = 0;
  for (i = 0; i < sizeof odd / sizeof odd[0]; i++) add_value(odd[i]);
  for (i = 0; i < HF__COUNT(hf__families); i++) {
    for (k = 0; k < hf__families[i].says_count; k++) {
      const char *list = hf__families[i].says[k].says;
      char word[HF__WORD], text[HF__WORD + 8];
      while (hf__next_word(word, &list)) {
        if (hf__listed("number null any list object {} [] true false", word)) continue;
        snprintf(text, sizeof text, hf__literal(word) ? "%s" : "\"%s\"", word);
        add_value(text);
      }
    }
  }
}

/* config with a field set to value, whether or not it has the field; where the old value stood.
 * Members of attn, which has no objects in it, are set there, if there is attn. */
static void set_field(const char *config, const char *field, const char *value, char *out,
                      char *old, size_t size) {
  const char *attn = strncmp(field, "attn.", 5) ? NULL : strstr(config, "\"attn\": ");
  const char *other = attn ? NULL : strstr(config, "\"attn\": {");
  char quoted[64];
  const char *at;
  snprintf(quoted, sizeof quoted, "\"%s\":", attn ? field + 5 : field);
  at = strstr(attn ? attn : config, quoted);
  if (other && at > other && at < strchr(other, '}')) at = strstr(strchr(other, '}'), quoted);
  old[0] = 0;
  if (attn && attn[8] == 'n') {
    sprintf(out, "%.*s{\"%s\": %s}%s", (int)(attn + 8 - config), config, field + 5, value,
            attn + 12);
    return;
  }
  if (attn && (!at || at > strchr(attn, '}'))) {
    sprintf(out, "%.*s\"%s\": %s, %s", (int)(attn + 9 - config), config, field + 5, value,
            attn + 9);
    return;
  }
  if (at) {
    hf__cursor t;
    memset(&t, 0, sizeof t);
    t.at = at + strlen(quoted), t.end = config + strlen(config);
    hf__skip_space(&t);
    at = t.at;
    hf__skip_value(&t, 0);
    snprintf(old, size, "%.*s", (int)(t.at - at), at);
    sprintf(out, "%.*s%s%s", (int)(at - config), config, value, t.at);
  } else {
    sprintf(out, "{\"%s\": %s,%s", field, value, config + 1);
  }
}

/* A folder with the files of another, but for its config.json. */
static void link_folder(const char *name, int making) {
  static const char *const shards[] = {
    "model.safetensors", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors", "model-00001-of-00003.safetensors",
    "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors"};
  char from[4096];
  size_t i;
  if (making) {
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
  }
  for (i = 0; i < sizeof shards / sizeof shards[0]; i++) {
    if (!making) remove(changed_path(shards[i]));
    else if (realpath(path_of(name, shards[i]), from))
      assert_int_equal(symlink(from, changed_path(shards[i])), 0);
  }
  if (making) return;
  remove(changed_path("config.json"));
  rmdir(folder);
}

static int may_idle(const char *name, const char *field, const char *value) {
  size_t i;
  for (i = 0; i < sizeof idle / sizeof idle[0]; i++)
    if ((!idle[i].folders[0] || hf__listed(idle[i].folders, name)) &&
        strcmp(idle[i].field, field) == 0 &&
        (!idle[i].values[0] || hf__listed(idle[i].values, value))) return 1;
  return 0;
}

/* Both mean the same: a field that is not there, or a number, as its default or written otherwise;
 * such a pair gives the same descriptor. */
static int same_meaning(const hf__field *row, const char *old, const char *value) {
  double a = 0, b = 0;
  char text[2][48];
  int i, quoted[2];
  for (i = 0; i < 2; i++) {
    const char *from = i ? value : old;
    quoted[i] = from[0] == '"';
    snprintf(text[i], sizeof text[i], "%.*s", (int)strlen(from) - 2 * quoted[i], from + quoted[i]);
  }
  return hf__config_allows(row->says, text[0], quoted[0], &a) == 1 &&
         hf__config_allows(row->says, text[1], quoted[1], &b) == 1 && a <= b && a >= b;
}

static int faults;

static void fault(const char *name, const char *field, const char *value, const char *what) {
  print_error("%s: %s = %s: %s\n", name, field, value, what);
  faults++;
}

/* Does the configuration say so already, by any of the field's names? */
static int says_already(const hf__field *row, const char *config, const char *value) {
  char *text = (char *)malloc(strlen(config) + 256);
  char word[HF__WORD], old[512];
  const char *list = row->names;
  int same = 0;
  while (!same && hf__next_word(word, &list)) {
    set_field(config, word, value, text, old, sizeof old);
    same = old[0] && same_meaning(row, old, value);
  }
  free(text);
  return same;
}

/* One field of a family, with all values. The logits must be others, or a sentence must say why
 * not; if the words decide it, by the field's name. */
static void try_field(const char *name, const char *config, const hf__field *row,
                      const char *field, const float *base_logits) {
  static float logits[SHORT * VOCAB];
  static unsigned turn;
  char why[256], old[512], word[48];
  char *text = (char *)malloc(strlen(config) + 256);
  int i;
  for (i = 0; i < value_count; i++) {
    const int q = values[i][0] == '"';
    snprintf(word, sizeof word, "%.*s", (int)strlen(values[i]) - 2 * q, values[i] + q);
    /* of words that the field does not know a few are enough */
    if (row && i >= (int)(sizeof odd / sizeof odd[0]) && i % 5 &&
        !hf__listed(row->says, word)) continue;
    if (own_values && i > 5 && !hf__listed(row->says, word)) continue;
    set_field(config, field, values[i], text, old, sizeof old);
    if (strcmp(old, values[i]) == 0 || turn++ % THIRD) continue;
    put_config(text);
    if (!first_logits(logits, why, sizeof why)) {
      assert_true(why[0] != 0);
      if ((!row || row->slot < 0) && !strstr(why, strncmp(field, "attn.", 5) ? field : "attn") &&
          !strstr(row ? row->says : "", "object"))
        fault(name, field, values[i], why);
      continue;
    }
    if (!row) fault(name, field, values[i], "is not a field of it");
    else if (memcmp(logits, base_logits, sizeof logits) == 0 && !hf__listed(row->says, "any") &&
        !may_idle(name, field, values[i]) && !says_already(row, config, values[i]) &&
        !(!old[0] && row->slot < 0) && !(strcmp(values[i], "null") == 0 && !old[0]))
      fault(name, field, values[i], "changes nothing");
  }
  free(text);
}

static void test_fields(void **state) {
  static float logits[SHORT * VOCAB];
  const hf__field *last = NULL;
  char why[256], word[HF__WORD];
  size_t i, k;
  (void)state;
  list_values();
  for (i = 0; i < sizeof known / sizeof known[0]; i += MIRAS_TEST_SHARE) {
    const char *name = known[i].name, *list;
    char config[1 << 14];
    hf__reader c;
    FILE *file = fopen(path_of(name, "config.json"), "rb");
    int n, all = (int)HF__COUNT(hf__says_all);
    if (!file) continue;             /* RWKV's author writes no configuration */
    config[fread(config, 1, sizeof config - 1, file)] = 0;
    fclose(file);
    link_folder(name, 1);
    put_config(config);
    if (!first_logits(logits, why, sizeof why)) fail_msg("%s: %s", name, why);
    assert_true(hf__reader_open(&c, folder, NULL, 0, NULL, why, sizeof why));
    hf__reader_close(&c);
    own_values = c.says == last;
    last = c.says;
    for (n = -all; n < c.says_count; n++) {
      const hf__field *row = n < 0 ? &hf__says_all[n + all] : &c.says[n];
      list = row->names;
      /* of fields without effect one is enough */
      while (hf__next_word(word, &list)) {
        try_field(name, config, hf__config_row(&c, word), word, logits);
        if (hf__listed(row->says, "any")) break;
      }
    }
    /* and those of the others, of which it knows none, not even with a value like false */
    value_count = 4;
    for (k = 0; !own_values && k < HF__COUNT(hf__families); k++) {
      for (n = 0; n < hf__families[k].says_count; n++) {
        list = hf__families[k].says[n].names;
        while (hf__next_word(word, &list))
          if (!hf__config_row(&c, word) && !hf__listed("ssm_cfg num_heads", word) &&
              !(hf__same(c.root, "backbone.") && hf__listed(
                "norm_eps rmsnorm dt_limit D_has_hdim", word)))
            try_field(name, config, NULL, word, logits);
      }
    }
    list_values();
    link_folder(name, 0);
  }
  assert_int_equal(faults, 0);
  assert_int_equal(test_live, 0);
}

/* ---- configurations as they are published ---- */

/* What libraries write beside sizes into a config.json (transformers 4.39 to 5.24, flash-linear-
 * attention 0.1 to 0.6, Qwen and others by hand): fields that change nothing of a model that has
 * them like this. */
static const char anybodys[] =
  "\"return_dict\": true, \"output_hidden_states\": false, \"torchscript\": false, "
  "\"use_bfloat16\": false, \"pruned_heads\": { }, \"chunk_size_feed_forward\": 0, "
  "\"is_encoder_decoder\": false, \"cross_attention_hidden_size\": null, "
  "\"add_cross_attention\": false, \"tie_encoder_decoder\": false, \"id2label\": {\"0\": \"L\"}, "
  "\"label2id\": {\"L\": 0}, \"max_length\": 20, \"early_stopping\": false, "
  "\"num_beam_groups\": 1, \"diversity_penalty\": 0.0, \"repetition_penalty\": 1.0, "
  "\"length_penalty\": 1.0, \"no_repeat_ngram_size\": 0, \"encoder_no_repeat_ngram_size\": 0, "
  "\"num_return_sequences\": 1, \"output_scores\": false, \"return_dict_in_generate\": false, "
  "\"remove_invalid_values\": false, \"bad_words_ids\": null, \"suppress_tokens\": null, "
  "\"_attn_implementation_autoset\": true, \"_name_or_path\": \"/a\", \"dtype\": \"bfloat16\", "
  "\"unsloth_version\": \"2026.1\", ";
#define OLD_FLA "\"norm_first\": false, \"fuse_linear_cross_entropy\": false, "
static const struct { const char *folders, *fields; } published[] = {
  {"gated_deltanet gated_deltanet-grouped gated_deltaproduct delta_net gla retnet linear_attn "
   "hgrn2 kda hgrn gsa precond_gated_deltanet transformer",
   OLD_FLA "\"use_l2warp\": false, \"attnres_block_size\": null, "},
  {"precond_kda", "\"use_l2warp\": false, \"a_log_init_lower\": 1, "},
  {"hgrn-free", "\"num_heads\": 1, "},
  {"gla-attended kda-attended hgrn-attended", "\"use_l2warp\": false, "},
  {"samba samba-biased", "\"fuse_linear_cross_entropy\": false, \"use_l2warp\": false, "},
  {"rwkv6 rwkv6-narrow", "\"fuse_linear_cross_entropy\": false, \"use_l2warp\": false, "},
  {"rwkv7", "\"fuse_linear_cross_entropy\": false, \"use_l2warp\": true, \"norm_first\": true, "},
  {"mamba falcon_mamba mamba-biased", "\"d_inner\": 64, \"d_model\": 32, "
   "\"use_associative_scan\": true, \"use_mambapy\": false, "},
  {"mamba", "\"fuse_norm\": true, \"fuse_cross_entropy\": true, \"use_l2warp\": false, "
   "\"dt_scale\": 1.0, \"dt_min\": 0.001, \"dt_max\": 0.1, \"dt_init_scheme\": \"random\", "
   "\"dt_init_floor\": 0.0001, \"dt_rank\": 3, \"norm_eps\": 1e-05, "},
  {"mamba2 mamba2-grouped", "\"intermediate_size\": 64, \"time_step_init_scheme\": \"random\", "
   "\"time_step_scale\": 1.0, \"norm_before_gate\": true, "},
  {"mamba2-fla", "\"num_heads\": 4, \"time_step_limit\": [0.0, 1.7976931348623157e+308], "
   "\"rms_norm\": true, "},
  {"mamba2-author", "\"initializer_cfg\": null, "},
  {"ttt-linear ttt-mlp-mamba", ""},
  {"llama", "\"rope_interleaved\": false, \"is_llama_config\": true, "
   "\"transformers.js_config\": {\"dtype\": {\"a\": 1}}, "},
  {"llama-tied", "\"attention_dropout\": 0.0, \"head_dim\": 8, "},
  {"qwen3_next qwen3_next-experts", "\"use_sliding_window\": false, \"sliding_window\": null, "
   "\"max_window_layers\": 28, \"output_router_logits\": false, \"router_aux_loss_coef\": 0.001, "},
  {"qwen3_5 qwen3_5_moe", "\"mtp_num_hidden_layers\": 1, \"mtp_use_dedicated_embeddings\": false, "
   "\"output_gate_type\": \"swish\", \"mlp_only_layers\": [], \"language_model_only\": false, "
   "\"mamba_ssm_dtype\": \"float32\", \"attn_output_gate\": true, "
   "\"partial_rotary_factor\": 0.25, \"rope_scaling\": {\"type\": \"default\"}, "},
  {"falcon_h1 falcon_h1-normed", "\"attn_layer_indices\": null, \"mamba_use_mlp\": true, "
   "\"mlp_expansion_factor\": 8, \"time_step_floor\": 0.0001, \"time_step_max\": 0.1, "
   "\"time_step_min\": 0.001, \"time_step_rank\": 256, \"rope_scaling\": null, "},
  {"granitemoehybrid granitemoehybrid-dense", "\"init_method\": \"mup\", "
   "\"normalization_function\": \"rmsnorm\", "},
  {"jamba", "\"calc_logits_for_entire_prompt\": false, \"mamba_inner_layernorms\": true, "
   "\"n_ctx\": 64, \"num_logits_to_keep\": 1, \"sliding_window\": null, "},
  {"bamba", "\"attn_rotary_emb\": 4, \"rope_theta\": 10000.0, \"rope_scaling\": null, "},
  {"lfm2", "\"block_mlp_init_scale\": 1.0, \"block_norm_eps\": 1e-05, "
   "\"block_out_init_scale\": 1.0, \"block_use_swiglu\": true, "
   "\"block_use_xavier_init\": true, \"conv_dim_out\": 32, \"conv_use_xavier_init\": true, "
   "\"use_pos_enc\": true, "},
  {"olmo_hybrid", "\"linear_use_gate\": true, \"rope_scaling\": null, "}
};

/* The configuration of a folder, which then holds its tensors; how long it is. */
static size_t take_config(const char *name, char *config, size_t size) {
  FILE *file = fopen(path_of(name, "config.json"), "rb");
  size_t n;
  if (!file) return 0;               /* RWKV's author writes none */
  n = fread(config, 1, size - 1, file);
  assert_true(n && n < size - 1);
  config[n] = 0;
  fclose(file);
  link_folder(name, 1);
  return n;
}

static void test_published(void **state) {
  static float want[SHORT * VOCAB], got[SHORT * VOCAB];
  char config[1 << 13], text[1 << 14], name[HF__WORD], why[1024];
  size_t i;
  (void)state;
  for (i = 0; i < sizeof published / sizeof published[0]; i++) {
    const char *list = published[i].folders;
    while (hf__next_word(name, &list)) {
      const char *inner;
      assert_true(take_config(name, config, sizeof config) > 0);
      put_config(config);
      if (!first_logits(want, why, sizeof why)) fail_msg("%s: %s", name, why);
      inner = strstr(config, "\"text_config\": {");   /* there, where there is one */
      inner = inner ? inner + 16 : config + 1;
      sprintf(text, "%.*s%s%s%s", (int)(inner - config), config, anybodys, published[i].fields,
              inner);
      put_config(text);
      if (!first_logits(got, why, sizeof why)) fail_msg("%s: %s", name, why);
      assert_string_equal(why, "");
      assert_memory_equal(got, want, sizeof want);
      link_folder(name, 0);
    }
  }
  assert_int_equal(test_live, 0);
}

/* Without its number of tokens, a model has as many as its embedding has rows. */
static void test_no_words(void **state) {
  static float want[SHORT * VOCAB], got[SHORT * VOCAB];
  char config[1 << 13], why[1024];
  size_t i;
  (void)state;
  for (i = 0; i < sizeof known / sizeof known[0]; i++) {
    char *at;
    if (!take_config(known[i].name, config, sizeof config)) continue;
    put_config(config);
    if (!first_logits(want, why, sizeof why)) fail_msg("%s: %s", known[i].name, why);
    at = strstr(config, "\"vocab_size\"");
    assert_non_null(at);
    memcpy(at, "\"top_k\"     ", 12);               /* which changes nothing */
    put_config(config);
    if (!first_logits(got, why, sizeof why)) fail_msg("%s: %s", known[i].name, why);
    assert_memory_equal(got, want, sizeof want);
    link_folder(known[i].name, 0);
  }
  assert_int_equal(test_live, 0);
}

/* Mamba as its authors write it: another name of the embedding, no model_type, their fields. */
static void test_author(void **state) {
  static const char *const configs[][2] = {
    {"{\"d_model\": 32, \"n_layer\": 2, \"vocab_size\": 47, \"ssm_cfg\": {\"d_state\": 12, "
     "\"dt_rank\": 3}, \"rms_norm\": true, \"residual_in_fp32\": true, \"fused_add_norm\": true, "
     "\"pad_vocab_size_multiple\": 8}", NULL},
    {"{\"d_model\": 32, \"n_layer\": 2, \"ssm_cfg\": {\"layer\": \"Mamba1\", \"d_state\": 12, "
     "\"dt_rank\": 3, \"expand\": 2, \"d_conv\": 4, \"dt_init\": \"random\", \"bias\": false, "
     "\"conv_bias\": true, \"use_fast_path\": true}, \"d_intermediate\": 0, "
     "\"attn_layer_idx\": [], \"attn_cfg\": {}, \"tie_embeddings\": true}", NULL},
    {"{\"d_model\": 32, \"n_layer\": 2, \"ssm_cfg\": {\"d_state\": 12}}",
     "its shape [64, 3]"},                             /* and not 2, which is dt_rank auto */
    {"{\"d_model\": 32, \"n_layer\": 2, \"ssm_cfg\": {\"dt_rank\": \"auto\", \"d_state\": 12}}",
     "its shape [64, 3]"},
    {"{\"d_model\": 32, \"n_layer\": 2, \"ssm_cfg\": {\"layer\": \"Mamba2\"}}",
     "layer is Mamba2; known here: Mamba1"},
    {"{\"d_model\": 32, \"n_layer\": 2, \"ssm_cfg\": {\"layer\": \"Mamba3\"}}",
     "layer is Mamba3; known here: Mamba1"},
    {"{\"d_model\": 32, \"n_layer\": 2, \"ssm_cfg\": {}, \"rms_norm\": false}",
     "rms_norm is false; known here: true"},
    {"{\"d_model\": 32, \"n_layer\": 2, \"ssm_cfg\": {}, \"attn_layer_idx\": [1]}",
     "attn_layer_idx"},
    {"{\"d_model\": 32, \"n_layer\": 2, \"ssm_cfg\": {}, \"vocab_size\": 40}",
     "vocab_size is 40; known here: the rows of the embedding"},
    {"{\"d_model\": 32, \"n_layer\": 2, \"vocab_size\": 48}", "model_type is missing"}
  };
  static const change embedding = {TENSORS, "backbone.embeddings.weight",
                                   "backbone.embedding.weight", NULL};
  static float want[SHORT * VOCAB], got[SHORT * VOCAB];
  char why[256];
  size_t i;
  (void)state;
  take_base("mamba");
  assert_true(first_logits(want, why, sizeof why));
  put_change(&embedding);
  for (i = 0; i < sizeof configs / sizeof configs[0]; i++) {
    put_config(configs[i][0]);
    if (first_logits(got, why, sizeof why) != !configs[i][1] ||
        (configs[i][1] && !strstr(why, configs[i][1])))
      fail_msg("%s: \"%s\"", configs[i][0], why);
    if (!configs[i][1]) assert_memory_equal(got, want, sizeof want);
  }
  drop_base();
  assert_int_equal(test_live, 0);
}

/* ---- JSON in other forms ---- */

static uint64_t drawn;

static unsigned draw(unsigned n) {
  drawn = inside_hash(drawn + 1);
  return (unsigned)(drawn >> 33) % n;
}

/* White space, or none. */
static void put_space(char **out) {
  unsigned n = draw(3);
  while (n--) *(*out)++ = " \n\t\r"[draw(4)];
}

static void put_value(hf__cursor *t, char **out);

/* A string with some of its characters as escapes. */
static void put_string(hf__cursor *t, char **out) {
  *(*out)++ = *t->at++;
  for (; *t->at != '"'; t->at++) {
    assert_true(*t->at != '\\');
    if (draw(4)) *(*out)++ = *t->at;
    else *out += sprintf(*out, draw(2) ? "\\u%04x" : "\\u%04X", (unsigned char)*t->at);
  }
  *(*out)++ = *t->at++;
}

/* An object with its members in another order, or a list. */
static void put_members(hf__cursor *t, char **out) {
  hf__cursor member[64];
  const int object = *t->at == '{';
  unsigned n = 0, i;
  *(*out)++ = *t->at++;
  for (hf__skip_space(t); *t->at != (object ? '}' : ']'); hf__skip_space(t)) {
    assert_true(n < 64);
    if (*t->at == ',') t->at++;
    hf__skip_space(t);
    member[n++] = *t;
    if (object) {
      char name[HF__NAME_SIZE];
      hf__need_string(t, name);
      hf__need_char(t, ':');
    }
    hf__skip_value(t, 0);
    assert_false(t->bad);
  }
  for (i = n; object && i > 1; i--) {
    const unsigned k = draw(i);
    const hf__cursor last = member[i - 1];
    member[i - 1] = member[k], member[k] = last;
  }
  for (i = 0; i < n; i++) {
    if (i) *(*out)++ = ',';
    put_space(out);
    if (object) {
      put_string(&member[i], out);
      put_space(out);
      hf__need_char(&member[i], ':');
      *(*out)++ = ':';
    }
    put_value(&member[i], out);
  }
  *(*out)++ = *t->at++;
}

/* A value in another form: whole numbers with a point or an exponent, truths as numbers. */
static void put_value(hf__cursor *t, char **out) {
  char text[HF__NAME_SIZE];
  size_t n;
  hf__skip_space(t);
  put_space(out);
  if (*t->at == '{' || *t->at == '[') {
    put_members(t, out);
  } else if (*t->at == '"') {
    put_string(t, out);
  } else {
    hf__need_scalar(t, text);
    n = strspn(text, "0123456789");
    if (!text[n] && draw(2)) {
      static const char *const forms[] = {"%s.0", "%se0", "%s0e-1", "%s.00E+0", "%s000E-3"};
      *out += sprintf(*out, forms[draw(5)], strcmp(text, "0") ? text : "");
      if (strcmp(text, "0") == 0) {
        while ((*out)[-1] != ':' && !strchr(" \n\t\r,[", (*out)[-1])) --*out;
        *(*out)++ = '0';
      }
    } else if ((!strcmp(text, "true") || !strcmp(text, "false")) && draw(2)) {
      *(*out)++ = text[0] == 't' ? '1' : '0';
    } else {
      *out += sprintf(*out, "%s", text);
    }
  }
  put_space(out);
}

/* Any form of a configuration is the same descriptor. */
static void test_forms(void **state) {
  char config[1 << 13], *text = (char *)malloc(1 << 17), why[1024];
  size_t i;
  int round;
  (void)state;
  for (i = 0; i < sizeof known / sizeof known[0]; i++) {
    miras_model_desc want, got;
    memset(&want, 0, sizeof want);
    if (!take_config(known[i].name, config, sizeof config)) continue;
    put_config(config);
    assert_int_equal(miras_checkpoint_desc(&want, folder, NULL, NULL, why, sizeof why), MIRAS_OK);
    for (round = 0; round < 8; round++) {
      char *out = text;
      hf__cursor t;
      memset(&t, 0, sizeof t);
      t.at = config, t.end = config + strlen(config);
      put_value(&t, &out);
      *out = 0;
      put_config(text);
      memset(&got, 0, sizeof got);
      if (miras_checkpoint_desc(&got, folder, NULL, NULL, why, sizeof why) != MIRAS_OK)
        fail_msg("%s: %s\n%s", known[i].name, why, text);
      assert_memory_equal(&got, &want, sizeof want);
    }
    link_folder(known[i].name, 0);
  }
  free(text);
  assert_int_equal(test_live, 0);
}

/* Truncations, and bytes that have changed: a refusal, or a model. */
static void damage(const char *name, int rounds) {
  char why[256];
  uint64_t draw = 1;
  size_t n;
  int i, round, loaded = 0;
  take_base(name);
  for (round = 0; round < rounds && (round < rounds / LEAN || !loaded); round++) {
    i = round % 3 && length[CONFIG] ? CONFIG : TENSORS;
    n = i == TENSORS ? 8 + (size_t)inside_get64(base[i]) : length[i];
    draw = inside_hash(draw + 1);
    if (round % 5 == 0) {            /* a last line's end is nothing that could be missed         */
      put_file(i, base[i], (size_t)(draw % (n - (i == CONFIG && base[i][n - 1] == '\n'))));
    } else {
      unsigned char *at = base[i] + draw % n, old = *at;
      *at = (unsigned char)(draw >> 40);
      if (round % 2) *at = (unsigned char)"0123456789[]{},:\"-e."[draw >> 40 & 15];
      put_file(i, base[i], length[i]);
      *at = old;
    }
    attempt(folder, why, sizeof why);
    loaded += !why[0];
    if (round % 5 == 0) assert_true(why[0] != 0);
    put_file(i, base[i], length[i]);
  }
  assert_true(loaded > 0);
  /* and an allocator that fails, at every call */
  for (round = 1, why[0] = 1; why[0]; round++) {
    test_calls = 0;
    test_fail_at = round;
    attempt(folder, why, sizeof why);
    assert_true(!why[0] || strstr(why, "allocator"));
  }
  test_fail_at = 0;
  assert_true(round > 7);
  drop_base();
  assert_int_equal(test_live, 0);
}

static void test_damage(void **state) {
  (void)state;
  damage(BASE, 600);
  damage("qwen3_5", 200);
  damage("qwen3_5_moe", 200);
  damage("rwkv7-author", 200);
  damage("rwkv6-author", 600);
  damage("rwkv4-author", 600);
  damage("mamba2-author", 300);
  damage("ttt-mlp-mamba", 300);
  damage("hgrn2", 200);
  damage("gsa-shared", 200);
  damage("precond_kda", 200);
  damage("rwkv6-narrow", 400);
  damage("kda-attended", 400);
  damage("kda-grouped", 200);
}
#endif

/* ---- what is least, longest, or nothing ---- */

static void test_no_arguments(void **state) {
  const char *path = path_of(BASE, "");
  char why[64] = "";
  miras_model_desc d, before;
  miras_model *m = load(path, MIRAS_WEIGHTS_FLOAT);
  (void)state;
  memset(&d, 0, sizeof d);
  d.seed = 7;
  before = d;
  assert_int_equal(miras_checkpoint_desc(NULL, path, NULL, NULL, why, sizeof why),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_checkpoint_desc(&d, NULL, NULL, NULL, why, sizeof why),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_checkpoint_desc(NULL, NULL, NULL, NULL, NULL, 0), MIRAS_ERR_ARGUMENT);
  assert_memory_equal(&d, &before, sizeof d);
  assert_int_equal(miras_checkpoint_load(NULL, path, NULL, NULL, why, sizeof why),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_checkpoint_load(m, NULL, NULL, NULL, why, sizeof why),
                   MIRAS_ERR_ARGUMENT);
  assert_int_equal(miras_checkpoint_load(m, path, NULL, NULL, NULL, 0), MIRAS_OK);
  assert_int_equal(miras_checkpoint_desc(&d, path, NULL, NULL, NULL, 0), MIRAS_OK);
  miras_close(m);
}

#if defined(__unix__)
/* Below the least value: refused by the name of the field, not taken for a default. */
static const change least_changes[] = {
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": 0", "hidden_size is 0"},
  {CONFIG, "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", "num_hidden_layers is 0"},
  {CONFIG, "\"vocab_size\": 48", "\"vocab_size\": 1", "vocab_size is 1"},
  {CONFIG, "\"vocab_size\": 48", "\"vocab_size\": 0", "vocab_size is 0"},
  {CONFIG, "\"num_heads\": 2", "\"num_heads\": 0", "num_heads is 0"},
  {CONFIG, "\"head_dim\": 8", "\"head_dim\": 0", "head_dim is 0"},
  {CONFIG, "\"conv_size\": 4", "\"conv_size\": 0", " is 0; "},
  {CONFIG, "\"intermediate_size\": 64", "\"intermediate_size\": 0", "intermediate_size is 0"}
};
static const change least_rwkv[] = {
  {CONFIG, "\"hidden_size\": 32", "\"hidden_size\": 0", "hidden_size is 0"},
  {CONFIG, "\"num_hidden_layers\": ", "\"num_hidden_layers\": -", "num_hidden_layers is -"},
  {CONFIG, "\"vocab_size\": 48", "\"vocab_size\": 1", "vocab_size is 1"},
  {CONFIG, "\"head_dim\": ", "\"head_dim\": -", "head_dim is -"}
};
static const change least_qwen[] = {
  {CONFIG, "\"linear_num_value_heads\": 4", "\"linear_num_value_heads\": 0",
   "linear_num_value_heads is 0"},
  {CONFIG, "\"linear_num_key_heads\": 2", "\"linear_num_key_heads\": 0",
   "linear_num_key_heads is 0"},
  {CONFIG, "\"linear_key_head_dim\": 8", "\"linear_key_head_dim\": 0",
   "linear_key_head_dim is 0"},
  {CONFIG, "\"linear_value_head_dim\": 12", "\"linear_value_head_dim\": 0",
   "linear_value_head_dim is 0"},
  {CONFIG, "\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\": 0",
   "linear_conv_kernel_dim is 0"},
  {CONFIG, "\"num_attention_heads\": 4", "\"num_attention_heads\": 0",
   "num_attention_heads is 0"}
};

/* Pairs of a token. */
static const change least_pairs[] = {
  {CONFIG, "\"num_householder\": 2", "\"num_householder\": 0", "num_householder"},
  {CONFIG, "\"num_householder\": 2", "\"num_householder\": 1.5", "num_householder is 1.5"},
  {CONFIG, "\"num_householder\": 2", "\"num_householder\": 3", "model.layers.0.attn.k_proj.weight"},
  {CONFIG, "\"num_householder\": 2", "\"num_householder\": 9", "num_householder is 9; known here: "
                                                                 "1 to 8"},
  {CONFIG, "\"use_forget_gate\": true", "\"use_forget_gate\": false", "attn.b_proj.weight"},
  {CONFIG, "\"use_output_gate\": true", "\"use_output_gate\": false", "g_proj"},
  {CONFIG, "\"num_heads\": 2", "\"num_heads\": 2, \"num_v_heads\": 2", "num_v_heads"}
};

static void test_least(void **state) {
  (void)state;
  try_changes("gated_deltaproduct", least_pairs, sizeof least_pairs / sizeof least_pairs[0]);
  try_changes(BASE, least_changes, sizeof least_changes / sizeof least_changes[0]);
  try_changes("rwkv7", least_rwkv, sizeof least_rwkv / sizeof least_rwkv[0]);
  try_changes("qwen3_5_moe", least_qwen, sizeof least_qwen / sizeof least_qwen[0]);
}

/* Names of tensors that no model needs may be anything, and stay different from each other. */
static void test_any_names(void **state) {
  static const char rest[] = "\":{\"dtype\":\"X9\",\"shape\":[],\"data_offsets\":[0,0]}";
  static const char *const odd_names[] = {
    "", "\\u00e9\303\251\\ud83d\\ude00", "\\\"'/\\\\..\\/%s%n", "\\u0000", "\\ud800",
    "\\udc00\\ud800",
    "\\b\\f\\n\\r\\t", "x\\u007f\\u001b[31m", "?", "~"};
  enum { ODD = sizeof odd_names / sizeof odd_names[0], LONG = 300 };
  char *put = (char *)malloc(1 << 16), *at = put, middle[LONG + 1];
  change names = {TENSORS, "{", put, NULL}, twice;
  int i;
  (void)state;
  at += sprintf(at, "{");
  for (i = 0; i < ODD; i++)
    at += sprintf(at, "\"model.visual.%s%s,", odd_names[i], rest);
  for (i = 0; i < 4; i++) {           /* the same beginning and end, or nearly */
    memset(middle, 'x', LONG);
    middle[LONG] = 0;
    if (i) middle[i == 1 ? 0 : i == 2 ? LONG / 2 : LONG - 1] = 'y';
    at += sprintf(at, "\"model.visual.%s%s,", middle, rest);
  }
  for (i = 120; i < 132; i++)
    at += sprintf(at, "\"mtp.%.*s%s,", i, middle, rest);
  memset(middle, 'x', LONG);
  at += sprintf(at, "\"model.a.%s.inv_freq%s,", middle, rest);
  twice = names;
  try_changes("qwen3_5_moe", &names, 1);
  sprintf(at, "\"model.visual.%s%s,", middle, rest);
  twice.word = "xxx is there twice";
  try_changes("qwen3_5_moe", &twice, 1);
  sprintf(at, "\"model.visual.\\u00C9%s,\"model.visual.\303\211%s,", rest, rest);
  twice.word = "model.visual.\303\211 is there twice";
  try_changes("qwen3_5_moe", &twice, 1);
  sprintf(at, "\"model.\\u00c9 %s,", rest);
  twice.word = NULL;                  /* a single number */
  try_changes("qwen3_5_moe", &twice, 1);
  sprintf(at, "\"model.\\u00c9 \\n\":{\"dtype\":\"X9\",\"shape\":[1],\"data_offsets\":[0,0]},");
  twice.word = "model.\303\211 \\u000a: the model that config.json describes has no such tensor";
  try_changes("qwen3_5_moe", &twice, 1);
  free(put);
}

/* Text with every `find` replaced, appended to *end. */
static void put_replaced(char **end, const char *text, const char *find, const char *put) {
  const char *at;
  while ((at = strstr(text, find)) != NULL) {
    *end += sprintf(*end, "%.*s%s", (int)(at - text), text, put);
    text = at + strlen(find);
  }
  *end += sprintf(*end, "%s", text);
}

static double floor_number(size_t layer, size_t i) {
  return 0.125 * (double)((7 * i + 13 * layer) % 29);
}

/* HGRN2 ten times as wide and of more tokens: floors come in blocks of 256, and 320 are there; room
 * is that of 64 lines of the longest matrix, and no embedding is. All else is zeros, a hole
 * in a shard whose name has 127 characters. */
static void test_wide_floors(void **state) {
  enum { WIDE = 320, LAYERS = 3, HIGHEST = 640, WORDS = 2000 };
  char shard[128], why[256] = "", *text = (char *)calloc(1, 1 << 17), *more, *end, *at, *last;
  unsigned char size[8] = {0};
  static float floors[LAYERS][WIDE];
  const miras_view *views;
  size_t total = 0, start = 0, l, i;
  miras_model_desc d;
  miras_model *m;
  const float *params;
  int count, v;
  FILE *file;
  (void)state;
  take_base("hgrn2");
  memset(shard, 'x', 115);
  strcpy(shard + 115, ".safetensors");
  assert_int_equal(strlen(shard), 127);
  more = text + (1 << 16);
  base[0][length[0]] = 0;
  end = text, put_replaced(&end, (const char *)base[0], "hidden_size\": 32", "hidden_size\": 320");
  end = more, put_replaced(&end, text, "_size\": 64", "_size\": 640");
  end = text, put_replaced(&end, more, "ratio\": 16", "ratio\": 160");
  end = more, put_replaced(&end, text, "vocab_size\": 48", "vocab_size\": 2000");
  strcpy(text, more);
  put_file(0, text, strlen(text));
  end = text, put_replaced(&end, (const char *)base[INDEX], "model.safetensors", shard);
  put_file(INDEX, text, strlen(text));
  remove(changed_path(files[TENSORS]));
  memcpy(more, base[TENSORS] + 8, (size_t)inside_get64(base[TENSORS]));
  more[inside_get64(base[TENSORS])] = 0;
  for (at = text, end = strchr(more + 1, '{') + 1; (last = strstr(end, "\":{\"dtype")) != NULL;) {
    const char *name = last;
    unsigned long n[2] = {1, 1};
    size_t bytes = 4;
    int rank;
    while (name[-1] != '"') name--;
    rank = sscanf(strstr(last, "\"shape\":[") + 9, "%lu,%lu", &n[0], &n[1]);
    if (n[0] == VOCAB) n[0] = WORDS;
    for (v = 0; v < rank; v++) bytes *= n[v] *= n[v] % 32 == 0 ? 10 : 1;
    if (strncmp(name, "model.lower_bounds", 18) == 0) start = total;
    at += sprintf(at, "%c\"%.*s\":{\"dtype\":\"F32\",\"shape\":[%lu", at == text ? '{' : ',',
                  (int)(last - name), name, n[0]);
    if (rank == 2) at += sprintf(at, ",%lu", n[1]);
    at += sprintf(at, "],\"data_offsets\":[%lu,%lu]}", (unsigned long)total,
                  (unsigned long)(total + bytes));
    total += bytes;
    end = last + 3;
  }
  at += sprintf(at, "}");
  file = fopen(changed_path(shard), "wb");
  assert_non_null(file);
  for (i = 0; i < 8; i++) size[i] = (unsigned char)((uint64_t)(at - text) >> 8 * i);
  fwrite(size, 1, 8, file);
  fwrite(text, 1, (size_t)(at - text), file);
  for (l = 0; l < LAYERS; l++)
    for (i = 0; i < WIDE; i++) floors[l][i] = (float)floor_number(l, i);
  fseek(file, (long)(8 + (size_t)(at - text) + start), SEEK_SET);
  fwrite(floors, 1, sizeof floors, file);
  fseek(file, (long)(8 + (size_t)(at - text) + total - 1), SEEK_SET);
  fputc(0, file);
  fclose(file);
  memset(&d, 0, sizeof d);
  v = miras_checkpoint_desc(&d, folder, NULL, NULL, why, sizeof why);
  assert_string_equal(why, "");
  assert_int_equal(v, MIRAS_OK);
  m = miras_model_open_empty(&d, NULL, why, sizeof why);
  assert_non_null(m);
  test_largest = 0;
  assert_int_equal(miras_checkpoint_load(m, folder, NULL, NULL, why, sizeof why), MIRAS_OK);
  assert_int_equal(test_largest, HIGHEST * HF__LINES * sizeof(float) + 1);
  assert_string_equal(why, "");
  views = miras_model_views(m, &count);
  params = miras_model_params(m, NULL);
  for (v = 0, l = 0; v < count; v++) {
    if (!strstr(views[v].name, "gates.rate")) continue;
    assert_int_equal(views[v].count, WIDE);
    for (i = 0; i < WIDE; i++) {     /* the softmax over layers, summed from the second on */
      double below = 0, all = 0, found = (double)params[views[v].offset + i];
      size_t j;
      for (j = 0; j < LAYERS; j++) all += exp(floor_number(j, i));
      for (j = 1; j <= l; j++) below += exp(floor_number(j, i));
      found = 1 / (1 + exp(-found));
      if (!(fabs(found - below / all) < 1e-6)) fail_msg("layer %d, channel %d", (int)l, (int)i);
    }
    l++;
  }
  assert_int_equal(l, LAYERS);
  miras_close(m);
  remove(changed_path(shard));
  drop_base();
  free(text);
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_logits), cmocka_unit_test(test_weights),
#if defined(__unix__)
    cmocka_unit_test(test_changes), cmocka_unit_test(test_ignored),
    cmocka_unit_test(test_names), cmocka_unit_test(test_room),
    cmocka_unit_test(test_fields), cmocka_unit_test(test_damage),
    cmocka_unit_test(test_least), cmocka_unit_test(test_any_names),
    cmocka_unit_test(test_unknown), cmocka_unit_test(test_published),
    cmocka_unit_test(test_no_words), cmocka_unit_test(test_author),
    cmocka_unit_test(test_forms), cmocka_unit_test(test_minus_zero),
    cmocka_unit_test(test_wide_floors),
#endif
    cmocka_unit_test(test_no_arguments)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
