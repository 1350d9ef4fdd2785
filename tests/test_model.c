/* The whole language model against the double-precision reference: loss, logits, the gradient of
 * every parameter, the optimiser; and that threads, neighbours and cuts change no bit.
 *
 *   cc -O2 tests/test_model.c -o test_model -lcmocka -lm -lpthread && ./test_model
 *
 * Bounds, relative to the largest entry: LOSS for losses and scores, LOGITS for logits,
 * MODEL_GRADIENT for each parameter's gradient against central differences of the double reference.
 */
#define MIRAS_PTHREADS
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "reference.h"
#include "memories.h"

/* Measured: losses and scores 7e-7, logits 1.1e-5, gradients 9.5e-5 and none excused. */
#define LOSS           2e-6
#define LOGITS         3e-5
#define MODEL_GRADIENT 2e-4

enum { VOCAB = 11, WIDTH = 16, HEADS = 2, DIM = 8, LAYERS = 2, BATCH = 2, CONTEXT = 24 };

/* ---- text ---- */

static int32_t tokens[132], targets[132]; /* of the largest batch below */

/* Some targets are left out, the last of each sequence never. */
static void draw_text(int T) {
  for (int i = 0; i < BATCH * (T > CONTEXT ? T : CONTEXT); i++) {
    tokens[i] = (int32_t)(draw() % VOCAB);
    targets[i] = draw() % 5 == 0 ? -1 : (int32_t)(draw() % VOCAB);
  }
  for (int b = 0; b < BATCH; b++) targets[b * T + T - 1] = (int32_t)(draw() % VOCAB);
}

/* ---- models ---- */

/* A model to test: a row of the table with some chunk, or a choice of options. */
typedef struct subject {
  char name[96];
  miras_model_desc d;
} subject;

static subject row(miras_preset kind, int chunk) {
  subject s;
  assert_int_equal(miras_model_preset(&s.d, kind, 0), MIRAS_OK);
  snprintf(s.name, sizeof s.name, "%s chunk %d", miras_preset_name(kind), chunk);
  s.d.vocab = VOCAB;
  s.d.width = WIDTH;
  s.d.layers = LAYERS;
  s.d.layer[0].mlp.hidden = 24;
  s.d.layer[0].mixer.gate_rank = 5;
  s.d.layer[0].memory.heads = HEADS;
  s.d.layer[0].memory.key_dim = DIM;
  s.d.layer[0].memory.value_dim = DIM;
  s.d.layer[0].memory.chunk = chunk;
  if (s.d.layer[0].memory.window > 0)
    s.d.layer[0].memory.window = kind == MIRAS_PRESET_SLIDING_WINDOW ? 6 : 32;
  s.d.seed = 42;
  s.d.dropout = 0.0f;
  s.d.untied = ((int)kind + chunk) % 2;
  return s;
}

static miras_model_desc describe(miras_preset kind, int chunk) { return row(kind, chunk).d; }

/* Fields as files say them: "mixer.qk_map=rms .inner_steps=2", with a dot for "memory.". */
static void set_fields(miras_model_desc *d, const char *text) {
  while (*text) {
    const int name = (int)strcspn(text, "="), all = (int)strcspn(text, " ");
    char field[64], value[32];
    snprintf(field, sizeof field, "%s%.*s", *text == '.' ? "memory" : "", name, text);
    snprintf(value, sizeof value, "%.*s", all - name - 1, text + name + 1);
    assert_int_equal(miras_model_desc_set(d, field, value), MIRAS_OK);
    text += all;
    text += strspn(text, " ");
  }
}

/* Forms of keys and gates around memories that come with others in the table; several inner_steps;
 * slopes; and one memory for each choice that no row makes. */
static const struct {
  miras_preset kind;
  int chunk;
  const char *name, *fields;
} options[] = {
  {MIRAS_PRESET_LIGHTNING, 4, "lightning, slopes of MiniMax", ".decay_schedule=minimax layers=3"},
  {MIRAS_PRESET_RETNET_MEMORY, 16, "retnet, slopes of lightning",
   ".decay_rate=0 .decay_ratio=0 .decay_schedule=lightning layers=3"},
  {MIRAS_PRESET_TITANS, 4, "titans, rms keys, keep root", "mixer.qk_map=rms mixer.decay_form=root"},
  {MIRAS_PRESET_TITANS, 1, "titans, free keys, keep rate, tied step",
   "mixer.qk_map=none mixer.decay_form=rate mixer.tied_dt=1"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, rms keys, keep rate",
   "mixer.qk_map=rms mixer.decay_form=rate .learning_rate=0.1"},
  {MIRAS_PRESET_GATED_DELTANET, 16, "gated-deltanet, tied step, untied head",
   "mixer.decay_form=rate mixer.tied_dt=1 untied=1 .learning_rate=0.5"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4, "mamba2, step of its own, keep bounded",
   "mixer.tied_dt=0 mixer.decay_form=bounded"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 16, "mamba2, bounded steps, values past the memory",
   "mixer.dt_min=0.08 mixer.dt_max=0.12 mixer.d_skip=1 mixer.out_gate_first=1 "
   "mixer.norm_heads=2"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4, "values past the memory, gated before a layer norm",
   "mixer.d_skip=1 "
   "mixer.out_gate_first=1 mixer.out_gate=sigmoid mixer.out_norm=layer"},
  {MIRAS_PRESET_TITANS, 4, "titans, values past the memory", "mixer.d_skip=1"},
  {MIRAS_PRESET_GLA_MEMORY, 4, "gla, rms keys, keep rate, learning rate gate",
   "mixer.qk_map=rms mixer.decay_form=rate .learning_rate_gate=head .learning_rate=0.5"},
  {MIRAS_PRESET_KDA_MEMORY, 4, "kda, complement keys, keep root",
   "mixer.qk_map=complement mixer.decay_form=root"},
  {MIRAS_PRESET_RWKV7_MEMORY, 4, "rwkv7, keep root, learning rate gate",
   "mixer.decay_form=root .learning_rate_gate=head .learning_rate=0.5"},
  {MIRAS_PRESET_DELTAPRODUCT, 4, "deltaproduct, 3 steps", ".inner_steps=3 .learning_rate=1"},
  {MIRAS_PRESET_GATED_DELTAPRODUCT, 16, "gated-deltaproduct, 3 steps, rms keys",
   "mixer.qk_map=rms .inner_steps=3 .learning_rate=0.1"},
  {MIRAS_PRESET_LINEAR_ATTENTION, 4, "linear attention, 2 steps, learning rate gate",
   ".inner_steps=2 .learning_rate_gate=head"},
  {MIRAS_PRESET_LINEAR_ATTENTION, 4, "linear attention, elu features, normalised",
   "mixer.qk_map=none .feature_map=elu .normalize=1"},
  {MIRAS_PRESET_GLA_MEMORY, 4, "gla, polynomial features",
   "mixer.qk_map=l2 .feature_map=poly2 .key_dim=3"},
  {MIRAS_PRESET_DFW, 4, "dfw, free keys, keep root, softmax features",
   "mixer.qk_map=none mixer.decay_form=root .feature_map=softmax .value_dim=5"},
  {MIRAS_PRESET_LONGHORN, 4, "longhorn, diagonal, free keys",
   "mixer.qk_map=none .learning_rate_gate=head .diagonal=1"},
  {MIRAS_PRESET_MESA, 4, "mesa, rms keys, keep bounded",
   "mixer.qk_map=rms mixer.decay_form=bounded"},
  {MIRAS_PRESET_SLIDING_WINDOW, 4, "sliding window, unit keys, narrow values",
   "mixer.qk_map=l2 .window=3 .value_dim=5"},
  {MIRAS_PRESET_TITANS, 4, "titans, 3 steps", ".inner_steps=3"},
  {MIRAS_PRESET_TITANS, 4, "titans without momentum, gates per channel, keep root",
   ".algorithm=gradient-descent .momentum_gate=constant .momentum=0 mixer.decay_form=root "
   ".decay_gate=channel .learning_rate_gate=channel"},
  {MIRAS_PRESET_YAAD, 4, "yaad, 2 steps, thresholds and steps per channel",
   ".learning_rate_gate=channel .threshold_gate=channel .bias=pseudo-huber .sharpness=0 "
   ".inner_steps=2"},
  {MIRAS_PRESET_MONETA, 4, "moneta, constant gates, p-norm link",
   ".retention=lq-pnorm .decay_gate=constant .learning_rate_gate=constant"},
  {MIRAS_PRESET_MEMORA, 4, "memora, positive weights, linear in the logits", ".simplex_signed=0"},
  {MIRAS_PRESET_MEMORA, 4, "memora, Hellinger",
   ".retention=hellinger .simplex_signed=0 .simplex_logits=0 .decay_gate=constant "
   ".decay_rate=0 .decay_ratio=0"},
  {MIRAS_PRESET_TITANS, 4, "vector memory",
   ".architecture=vector .depth=0 .inner_norm=0 .inner_residual=0"},
  {MIRAS_PRESET_TITANS, 4, "gated perceptron, smooth elastic net",
   ".architecture=gated-mlp .expansion=2 .depth=0 .algorithm=gradient-descent "
   ".momentum_gate=constant .momentum=0 .retention=elastic .sparsity=0.01 "
   ".smooth_shrink=1"},
  {MIRAS_PRESET_TITANS, 16, "titans, narrow values, wide convolution, 3 heads",
   ".inner_residual=0 .key_dim=5 .value_dim=7 .heads=3 mixer.conv_size=8 mixer.gate_rank=1"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, narrow keys, no convolution, 3 heads",
   ".key_dim=3 .value_dim=9 .heads=3 mixer.conv_size=1"},
  {MIRAS_PRESET_TTT_LINEAR_MEMORY, 4, "ttt-linear, rms keys, constant steps",
   "mixer.qk_map=rms .learning_rate_gate=constant .learning_rate=0.1"},
  {MIRAS_PRESET_TITANS, 4, "perceptron, local and global L2",
   ".algorithm=gradient-descent .momentum_gate=constant .decay_gate=constant .momentum=0 "
   ".decay_rate=0 .decay_ratio=0 .retention=l2-both .balance=8"},
  {MIRAS_PRESET_TITANS, 4, "matrix behind a sigmoid, shift-robust bias",
   ".architecture=matrix .depth=0 .inner_norm=0 .inner_residual=0 .bias=shift-robust "
   ".threshold=0.3 .retention=sigmoid"},
  {MIRAS_PRESET_HGRN2_MEMORY, 16, "hgrn2, keep rate", "mixer.decay_form=rate"},
  {MIRAS_PRESET_KDA_MEMORY, 4, "kda, erase keys of rwkv7",
   ".order=error-first .separate_erase=1 mixer.qk_map=erase"},
  {MIRAS_PRESET_TITANS, 4, "titans, keep and momentum fixed, horizon",
   "mixer.fixed_gates=5 mixer.decay_horizon=20"},
  {MIRAS_PRESET_HGRN2_MEMORY, 4, "hgrn2, horizon", "mixer.decay_horizon=10"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4, "mamba2, all gates fixed, horizon, towards the initial memory",
   "mixer.fixed_gates=1 mixer.decay_horizon=12 .decay_target=initial"},
  {MIRAS_PRESET_YAAD, 4, "yaad, gates per channel, step and threshold fixed",
   ".decay_gate=channel .learning_rate_gate=channel .threshold_gate=channel mixer.fixed_gates=10 "
   ".decay_target=initial"},
  {MIRAS_PRESET_DFW, 4, "dfw, both decays fixed, resets", "mixer.fixed_gates=17 .reset_every=16"},
  {MIRAS_PRESET_MEMORA, 1, "memora, the paper's form with gates per channel",
   ".simplex_signed=0 .simplex_logits=0 .decay_gate=channel .learning_rate_gate=channel "
   ".decay_target=initial"},
  {MIRAS_PRESET_MEMORA, 4, "memora, signed slices, bounded steps",
   ".simplex_signed=1 .simplex_logits=1 .step_bound=2 .simplex=8 .decay_target=initial"},
  {MIRAS_PRESET_LONGHORN, 4, "longhorn, a step per channel, resets",
   ".learning_rate_gate=channel .reset_every=16"},
  {MIRAS_PRESET_TTT_MLP_MEMORY, 4, "ttt-mlp, towards the initial memory, rates that cannot die",
   ".retention=l2 .decay_target=initial .decay_gate=head .decay_rate=0.05 .token_rates=2"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, norms with epsilons of their own",
   "norm_epsilon=0.01 mixer.out_norm_epsilon=0.3"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, convolutions with biases",
   "mixer.conv_bias=1 mixer.conv_size=3"},
  {MIRAS_PRESET_TITANS, 4, "titans, convolutions of keys with biases and without an activation",
   "mixer.conv_on=qk mixer.conv_bias=1 mixer.qk_act=none mixer.v_act=none"},
  {MIRAS_PRESET_GLA_MEMORY, 4, "gla, bare projections",
   "mixer.conv_on=none mixer.conv_size=0 mixer.qk_act=none mixer.v_act=none"},
  {MIRAS_PRESET_DELTANET_MEMORY, 4, "deltanet, elu", "mixer.qk_act=elu"},
  {MIRAS_PRESET_HGRN2_MEMORY, 4, "hgrn2, bare values, no convolution",
   "mixer.conv_on=none mixer.conv_size=0 mixer.v_act=none"},
  {MIRAS_PRESET_TTT_LINEAR_MEMORY, 4, "ttt-linear, keys of the queries' projection",
   "mixer.share_qk=1 mixer.conv_on=qk mixer.conv_bias=1 mixer.qk_act=none mixer.v_act=none"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4, "mamba2, keys of the queries' projection",
   "mixer.share_qk=1 mixer.conv_size=2"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4, "mamba2, projections with biases",
   "mixer.projection_bias=1 mixer.conv_size=3 mixer.out_gate=silu"},
  {MIRAS_PRESET_KDA_MEMORY, 4, "kda, projections with biases, an output gate of low rank",
   "mixer.projection_bias=1 mixer.out_gate=sigmoid mixer.out_gate_rank=3"},
  {MIRAS_PRESET_YAAD, 4, "yaad, projections with biases, shared keys",
   "mixer.projection_bias=1 mixer.share_qk=1"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, two heads of keys for four, norms of two heads",
   "mixer.qk_heads=2 .heads=4 mixer.scaled_queries=1 mixer.norm_heads=2 mixer.out_gate=sigmoid"},
  {MIRAS_PRESET_HGRN2_MEMORY, 4, "hgrn2, decay gates with a floor, horizon",
   "mixer.decay_form=floor mixer.decay_horizon=9"},
  {MIRAS_PRESET_KDA_MEMORY, 4, "kda, steep decay gates",
   "mixer.decay_form=steep mixer.decay_log_limit=3"},
  {MIRAS_PRESET_GATED_DELTAPRODUCT, 16, "gated-deltaproduct, one head of keys for three, no gate",
   "mixer.qk_heads=1 .heads=3 mixer.out_gate=none mixer.norm_heads=3"},
  {MIRAS_PRESET_RETNET_MEMORY, 4, "retnet, keys that turn by position",
   "mixer.rope.type=position mixer.rope.theta=50 mixer.scaled_queries=1 mixer.qk_map=none "
   "mixer.qk_heads=1"},
  {MIRAS_PRESET_RETNET_MEMORY, 4, "retnet, neighbours turn, of four entries",
   "mixer.rope.type=position mixer.rope.dim=4 mixer.rope.interleaved=1"},
  {MIRAS_PRESET_GLA_MEMORY, 4, "gla, a quarter turns in its chunk",
   "mixer.rope.type=chunk mixer.rope.share=quarter"},
  {MIRAS_PRESET_TTT_MLP_MEMORY, 4, "ttt-mlp, keys that turn in their chunk",
   "mixer.rope.type=chunk mixer.rope.theta=9 mixer.rope.interleaved=1"},
  {MIRAS_PRESET_TTT_MLP_MEMORY, 4, "ttt-mlp as published, on Mamba's backbone",
   ".retention=all .decay_target=zero .decay_gate=constant .decay_rate=0 .decay_ratio=0 "
   ".token_rates=1 "
   "mixer.conv_on=qk mixer.conv_bias=1 mixer.share_qk=1 mixer.qk_act=none mixer.v_act=none "
   "mixer.qk_map=none "
   "mixer.rope.type=chunk mixer.rope.interleaved=1 mixer.out_norm=layer mixer.norm_heads=9 "
   "mixer.out_gate=gelu"},
  {MIRAS_PRESET_DELTANET_MEMORY, 4, "deltanet, layer norms per head",
   "mixer.out_norm=layer mixer.out_norm_epsilon=0.01"},
  {MIRAS_PRESET_TTT_LINEAR_MEMORY, 4, "ttt-linear, a layer norm of all heads, a gate by GELU",
   "mixer.out_norm=layer mixer.norm_heads=2 mixer.out_gate=gelu"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4,
   "mamba2, one head of keys for two, scaled queries, bare projections",
   "mixer.qk_heads=1 mixer.scaled_queries=1 mixer.conv_on=none mixer.conv_size=0 "
   "mixer.out_gate=none"},
  {MIRAS_PRESET_KDA_MEMORY, 16, "kda, an output gate of low rank",
   "mixer.out_gate_rank=3 mixer.out_gate=sigmoid"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4, "mamba2, an output gate of low rank before the norm",
   "mixer.out_gate_rank=2 mixer.out_gate_first=1"},
  {MIRAS_PRESET_TTT_LINEAR_MEMORY, 4, "ttt-linear, layer norms, a gate of low rank by GELU",
   "mixer.out_gate_rank=3 mixer.out_norm=layer mixer.out_gate=gelu"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, four experts, of which two and a shared one",
   "mlp.experts=4 mlp.norm_topk=1 mlp.shared_experts=1 mlp.hidden=12"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, two layers of five experts, one for each token",
   "mlp.experts=5 mlp.experts_per_token=1 mlp.hidden=9 layers=2"},
  {MIRAS_PRESET_TITANS, 16, "titans, three experts, all for all tokens, two shared ones",
   "mlp.experts=3 mlp.experts_per_token=3 mlp.shared_experts=2 mlp.hidden=7"},
  {MIRAS_PRESET_GLA_MEMORY, 4, "gla, decay gates held from below, horizon",
   "mixer.keep_min=0.87 mixer.decay_horizon=20"},
  {MIRAS_PRESET_HGRN2_MEMORY, 16, "hgrn2, decay gates held from below", "mixer.keep_min=0.9"},
  {MIRAS_PRESET_GLA_MEMORY, 4, "gla, keep root8, held from below",
   "mixer.decay_form=root8 mixer.keep_min=0.8"},
  {MIRAS_PRESET_DELTANET_MEMORY, 4, "deltanet, keys divided by their sum",
   "mixer.qk_map=l1 mixer.qk_act=elu mixer.scaled_queries=1 mixer.qk_heads=1"},
  {MIRAS_PRESET_GATED_DELTAPRODUCT, 16, "gated-deltaproduct, keys divided by their sum",
   "mixer.qk_map=l1"},
  {MIRAS_PRESET_GATED_DELTANET_2, 4,
   "gated-deltanet-2, scaled queries, a write gate per head, horizon",
   "mixer.scaled_queries=1 .learning_rate_gate=head mixer.decay_horizon=9 .decay_target=initial"},
  {MIRAS_PRESET_GATED_DELTANET_2, 1, "gated-deltanet-2, what is written is not gated, resets",
   ".learning_rate_gate=constant mixer.fixed_gates=1 .reset_every=16 mixer.d_skip=1"},
  {MIRAS_PRESET_COMBA, 4, "comba, scaled queries, rates up to 2, a decay gate per channel",
   "mixer.scaled_queries=1 .learning_rate=2 .decay_gate=channel .value_dim=5"},
  {MIRAS_PRESET_COMBA, 1, "comba, tied step, three heads, towards the initial memory",
   "mixer.tied_dt=1 .heads=3 .decay_target=initial mixer.share_qk=1"},
  {MIRAS_PRESET_PGDN, 4, "pgdn, scaled queries, rates up to 2, a horizon, keys of the queries'",
   "mixer.scaled_queries=1 .learning_rate=2 mixer.decay_horizon=9 .value_dim=5 mixer.share_qk=1"},
  {MIRAS_PRESET_PGDN, 1, "pgdn, tied step, three heads, towards the initial memory, biases",
   "mixer.tied_dt=1 .heads=3 .decay_target=initial mixer.projection_bias=1 mixer.conv_bias=1"},
  {MIRAS_PRESET_PKDA_MEMORY, 4, "pkda, decays by a sigmoid, fixed, resets, a skip",
   "mixer.decay_form=sigmoid mixer.fixed_gates=1 .reset_every=16 mixer.d_skip=1 mixer.qk_act=none"},
  {MIRAS_PRESET_MAMBA_MEMORY, 4, "mamba, a step of its own, towards the initial memory",
   "mixer.tied_dt=0 .decay_target=initial .value_dim=5"},
  {MIRAS_PRESET_MAMBA_MEMORY, 16, "mamba, bounded times, one head of keys for two, resets",
   "mixer.dt_min=0.03 mixer.dt_max=0.14 mixer.qk_heads=1 .reset_every=16 mixer.d_skip=1"},
  {MIRAS_PRESET_MAMBA_MEMORY, 4, "mamba, times fixed, one learning rate, features",
   "mixer.fixed_gates=1 mixer.tied_dt=0 .learning_rate_gate=head .feature_map=poly2 .key_dim=3 "
   "mixer.qk_map=l2"},
  {MIRAS_PRESET_MAMBA_MEMORY, 4, "mamba as published",
   "mixer.conv_bias=1 mixer.d_skip=2 mixer.qk_heads=1 mixer.from_values=1 mixer.out_norm=none "
   ".value_dim=5 .heads=4 .key_dim=3"},
  {MIRAS_PRESET_MAMBA_MEMORY, 16, "mamba, norms of what values make, no gate of answers",
   "mixer.from_values=1 mixer.from_values_epsilon=0.02 mixer.out_gate=none mixer.out_norm=none"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, keys and gates from values, turning, a skip",
   "mixer.from_values=1 mixer.from_values_epsilon=0.01 mixer.rope.type=position "
   "mixer.scaled_queries=1 "
   "mixer.qk_heads=2 .heads=4 .value_dim=5 mixer.conv_size=3 mixer.d_skip=2"},
  {MIRAS_PRESET_RETNET_MEMORY, 4, "retnet, keys from values, a gate of low rank, no norm",
   "mixer.from_values=1 mixer.conv_on=none mixer.conv_size=0 mixer.out_norm=none "
   "mixer.out_gate_rank=3 "
   "mixer.qk_map=l1"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4, "mamba2, steps bounded from above alone", "mixer.dt_max=0.11"},
  {MIRAS_PRESET_EDA, 4, "eda, rates per channel, narrow values, one head of keys for three",
   ".learning_rate_gate=channel .learning_rate=0.5 .value_dim=5 .heads=3 mixer.qk_heads=1"},
  {MIRAS_PRESET_EDA, 1, "eda, two erasures, error first, projections with biases",
   ".inner_steps=3 .order=error-first .decay_target=initial mixer.projection_bias=1 "
   "mixer.conv_bias=1"},
  {MIRAS_PRESET_TITANS, 4, "titans, erases first", ".inner_steps=2 mixer.erase_first=1"},
  {MIRAS_PRESET_HGRN2_MEMORY, 1, "hgrn2, slots", "mixer.key_slots=11 .value_dim=5"},
  {MIRAS_PRESET_HGRN2_MEMORY, 4, "hgrn2, slots that lead back, fixed, that begin anew, scaled",
   "mixer.key_slots=5 .decay_target=initial .reset_every=16 mixer.fixed_gates=1 .learning_rate=0.7 "
   "mixer.scaled_queries=1 mixer.d_skip=1"},
  {MIRAS_PRESET_HGRN2_MEMORY, 16, "hgrn2, two slots, floors, biases, a horizon",
   "mixer.key_slots=2 mixer.decay_form=floor mixer.decay_horizon=20 mixer.conv_bias=1 "
   "mixer.projection_bias=1"},
  {MIRAS_PRESET_HGRN2_MEMORY, 4, "hgrn2, slots that forget by rates", "mixer.key_slots=3 "
   "mixer.decay_form=rate"},
  {MIRAS_PRESET_HGRN2_MEMORY, 4, "hgrn2, slots of which a router picks",
   "mixer.key_slots=4 mixer.top_slots=2 mixer.decay_form=rate"},
  {MIRAS_PRESET_YAAD, 4, "yaad, a function of answers", "mixer.out_act=elu"},
  {MIRAS_PRESET_GATED_DELTANET, 4, "gated-deltanet, a function of answers, gated first",
   "mixer.out_act=silu mixer.out_gate_first=1"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 4, "mamba2, a tree of states, a skip",
   "mixer.levels=5 mixer.d_skip=1"},
  {MIRAS_PRESET_GATED_DELTANET, 16, "gated-deltanet, a tree of states, two heads of keys for four",
   "mixer.levels=3 .heads=4 .value_dim=5 mixer.qk_heads=2 mixer.scaled_queries=1 "
   "mixer.norm_heads=2 mixer.out_gate=sigmoid mixer.d_skip=2"},
  {MIRAS_PRESET_MAMBA2_MEMORY, 1, "mamba2, trees that begin anew on no place of theirs",
   "mixer.levels=7 .reset_every=48"},
  {MIRAS_PRESET_GATED_DELTANET, 1, "gated-deltanet, two levels, keys that turn, fixed gates",
   "mixer.levels=2 mixer.fixed_gates=3 mixer.decay_horizon=20 mixer.rope.type=position "
   "mixer.qk_map=rms .learning_rate=0.2 mixer.share_qk=1"}};

enum { OPTIONS = COUNT(options), HYBRIDS = 30, FAMILIES = 57, TYPES = 7 /* with dropout too */ };

static subject option(int n) {
  subject s = row(options[n].kind, options[n].chunk);
  s.d.layers = 1;
  set_fields(&s.d, options[n].fields);
  snprintf(s.name, sizeof s.name, "%s", options[n].name);
  return s;
}

static void without_mlp(miras_layer_desc *d) {
  d->mlp.none = 1;
  d->mlp.hidden = 0;
}

/* Layers m become a memory as the gate of attention. */
static void beside(miras_model_desc *d, int n) {
  miras_layer_desc *m = &d->layer[0];
  m->type = MIRAS_LAYER_MAG;
  m->attention.window = 5;
  m->attention.head_dim = DIM;
  if (n == 12) {
    m->memory.heads = 1;
    m->memory.value_dim = 4 * 6;
    m->attention.heads = 4;
    m->attention.kv_heads = 2;
    m->attention.head_dim = 6;
    m->attention.qk_norm = 1;
    m->attention.rope.theta = 100.0f;
    d->norm_epsilon = 0.01f;
    m->attention.rope.dim = 4;
    m->attention.persistent = 2;
  } else if (n == 14) {
    m->attention.heads = 2 * HEADS;
    m->attention.head_dim = DIM / 2;
    m->attention.kv_heads = 1;
  }
}

/* Layers m remember what attention says, segment by segment, and recall it. */
static void context(miras_model_desc *d, int n) {
  miras_layer_desc *m = &d->layer[0];
  m->type = MIRAS_LAYER_MAC;
  m->memory.chunk = 2;
  m->attention.window = 2 + 2 * (n % 2);
  if (n == 20) {
    m->memory.heads = 1;
    m->memory.key_dim = m->memory.value_dim = WIDTH;
    m->attention.heads = 4;
    m->attention.kv_heads = 2;
    m->attention.qk_norm = 1;
    m->attention.rope.theta = 100.0f;
    m->attention.persistent = 2;
  }
  if (n == 21) without_mlp(m);
  if (n > 25) m->memory.reset_every = 16;
  if (n == 26) m->attention.window = 6;
}

/* Layers of several types and kinds. */
static subject hybrid(int n) {
  static const char *const names[HYBRIDS] = {
      "attention",
      "attention, groups of two, base 100, norms, persistent pairs, an untied head",
      "attention, one head of keys for four, a window of 3, 65 persistent pairs",
      "attention as it comes",
      "titans, window, titans",
      "two memories, groups in the pattern",
      "memory, window and attention, two each",
      "titans without an MLP, windows between",
      "MLPs as layers of their own",
      "MLPs alone",
      "MLPs around a layer that has one",
      "a memory as the gate of attention",
      "a matrix as a gate, groups of two, norms, persistent pairs, one head, two layers",
      "gates between two kinds of layer",
      "a gate without an MLP, erase keys, narrow heads",
      "attention with an output gate, a part of its heads turned",
      "an output gate on groups of two, norms, a memory between",
      "convolutions between memories",
      "convolutions with an MLP, of eight taps, alone and beside attention",
      "a memory as context",
      "two pairs a token as context, groups of two, norms, persistent pairs, a window",
      "context without an MLP, erase keys",
      "context, keys of what is forgotten",
      "context, rates of rows",
      "context, conjugate gradients",
      "context, gates per channel",
      "context, heads that begin anew within a segment",
      "context, a matrix that begins anew with a segment",
      "experts behind attention, one MLP behind memories",
      "experts as layers of their own, and as a gate's"};
  static const miras_preset contexts[] = {
    MIRAS_PRESET_TITANS, MIRAS_PRESET_GATED_DELTAPRODUCT, MIRAS_PRESET_RWKV7_MEMORY,
    MIRAS_PRESET_HGRN2_MEMORY, MIRAS_PRESET_TTT_MLP_MEMORY, MIRAS_PRESET_MESA, MIRAS_PRESET_MONETA,
    MIRAS_PRESET_TITANS, MIRAS_PRESET_GATED_DELTANET};
  static const char *const patterns[HYBRIDS] = {"w*2",     "w",     "w*2",  "a",   "mwm", "(mg)*2",
                                                "(mwa)*2", "mw*2m", "mgwg", "g*2", "gmg",
                                                "m",       "m*2",   "wmaw", "mg", "w*2", "wmw",
                                                "(cm)*2",  "ccw", "m*2", "mw", "mg", "m", "m", "m",
                                                "m", "m*2", "m", "wmw", "gm"};
  subject s = row(n == 6 || n == 12   ? MIRAS_PRESET_GATED_DELTANET
                  : n == 14 ? MIRAS_PRESET_RWKV7_MEMORY
                  : n > 18 && n < 28 ? contexts[n - 19]
                            : MIRAS_PRESET_TITANS, 4);
  miras_model_desc *d = &s.d;
  miras_layer_desc *w = &d->layer[1];
  miras_model_desc other = row(MIRAS_PRESET_GATED_DELTANET, 4).d;
  snprintf(s.name, sizeof s.name, "%s", names[n]);
  snprintf(d->pattern, sizeof d->pattern, "%s", patterns[n]);
  d->layers = 0, d->heads = HEADS;
  w->attention.window = 5;
  w->mlp.hidden = 20;
  if (n == 1) {
    d->untied = 1;
    w->attention.heads = 4;
    w->attention.kv_heads = 2;
    w->attention.head_dim = 6;
    w->attention.rope.theta = 100.0f;
    w->attention.qk_norm = 1;
    w->attention.persistent = 3;
  } else if (n == 2) {
    w->attention.heads = 4;
    w->attention.kv_heads = 1;
    w->attention.head_dim = 10;
    w->attention.window = 3;
    w->attention.persistent = 65;
  } else if (n == 5) {
    d->layer[3] = other.layer[0];
    d->layer[3].letter = 'g';
    d->layer[3].memory.heads = 0; /* those of the model */
    d->layer[3].memory.key_dim = 0;
    d->layer[3].memory.value_dim = 0;
    d->layer[3].memory.chunk = 1;
  } else if (n == 18) {
    d->layer[4].mlp.none = 0;
    d->layer[4].mlp.hidden = 8;
    d->layer[4].conv.size = 8;
  } else if (n == 15 || n == 16) {
    w->attention.heads = 2 * HEADS;
    w->attention.kv_heads = n == 15 ? 0 : HEADS;
    w->attention.head_dim = n == 15 ? DIM : 6;
    w->attention.rope.dim = 2;
    w->attention.out_gate = 1;
    w->attention.qk_norm = n == 16;
  }
  if (n == 7 || n == 8 || n == 14) without_mlp(&d->layer[0]);
  if (n == 8) without_mlp(w);
  if (n > 7) d->layer[3].mlp.hidden = 12;
  if ((n > 10 && n < 15) || n == 29) beside(d, n);
  if (n > 18 && n < 28) context(d, n);
  if (n == 28)
    set_fields(d,
               "untied=1 w.mlp.experts=3 w.mlp.experts_per_token=1 w.mlp.shared_experts=1 "
               "w.mlp.hidden=9"); /* tied, a route turns within a difference */
  if (n == 29)
    set_fields(d, "g.mlp.experts=5 g.mlp.norm_topk=1 m.mlp.experts=2 m.mlp.shared_experts=2 "
                  "m.mlp.hidden=6");
  return s;
}

/* Layers as published, by name; then with other fields. */
static const struct {
  const char *name, *say, *pattern, *fields;
} families[FAMILIES] = {
  {"rwkv7", "rwkv7 as published", NULL, "m.rwkv.value_rank=3"},
  {"rwkv7", "rwkv7 with a gated MLP, sigmoid decay, narrow values, own epsilon", "mvv",
   "norm=rms embed_norm=0 untied=0 m.mlp.none=0 m.memory.value_dim=5 m.memory.chunk=4 "
   "v.rwkv.value_rank=2 "
   "v.memory.value_dim=5 m.mixer.decay_form=sigmoid m.mixer.out_norm_epsilon=0.01 "
   "m.mixer.decay_horizon=30 m.rwkv.value_rank=0"},
  {"rwkv7", "rwkv7 and attention, an RMS norm behind the embedding", "(mw)*2",
   "norm=rms norm_epsilon=0.001 w.mlp.act=relu2 m.rwkv.value_rank=2"},
  {"titans-mal", "layer norms around titans and shifted MLPs", "mgwg",
   "norm=layer g.mlp.token_shift=1 w.mlp.none=1 m.mlp.act=silu"},
  {"rwkv7", "a shift ahead, values of one layer", "gmg", "g.mlp.act=silu m.rwkv.value_rank=2"},
  {"mamba2", "mamba2 as published", NULL, "m.memory.key_dim=6 m.memory.value_dim=10"},
  {"mamba3", "mamba3 as published", NULL, "m.memory.key_dim=6 m.memory.value_dim=10"},
  {"mamba3", "mamba3 whose halves turn, a head of keys for each, times over heads, resets", NULL,
   "m.memory.key_dim=4 m.mixer.qk_heads=0 m.mixer.projection_bias=1 m.mixer.d_skip=2 "
   "m.mixer.rope.interleaved=0 m.memory.learning_rate=1.5 m.memory.decay_target=initial "
   "m.memory.reset_every=16 m.memory.decay_rate=0 m.memory.decay_ratio=0 m.memory.chunk=1"},
  {"mamba3", "mamba3 in which nothing turns, and attention of one norm", NULL,
   "m.type=parallel m.memory.key_dim=6 m.memory.value_dim=10 m.attention.window=5 "
   "m.mixer.rope.type=none m.mixer.rope.share=all m.mixer.rope.interleaved=0 "
   "m.mixer.fixed_gates=1 m.mixer.out_norm=rms m.mixer.out_gate_rank=5"},
  {"retnet", "retnet as published", NULL, "m.memory.value_dim=10"},
  {"hgrn2", "hgrn2 as published", NULL, "m.memory.value_dim=10"},
  {"kda", "kda as published", NULL, "m.memory.value_dim=10 m.mixer.out_gate_rank=5"},
  {"qwen3.5", "attention of which a quarter turns", "am", "a.attention.head_dim=12"},
  {"kimi-linear", "attention that knows no positions, persistent pairs", "aw",
   "w.attention.rope.share=none w.attention.persistent=2"},
  {"deltanet", "attention of which neighbours turn", "wm",
   "w.attention.head_dim=6 w.attention.rope.dim=4 w.attention.rope.interleaved=1"},
  {"mamba", "mamba as published, with norms", "mwm",
   "m.memory.key_dim=6 m.memory.value_dim=10 m.mixer.from_values_epsilon=0.01"},
  {"mamba2", "mamba2 and attention of one norm (falcon-h1)", NULL,
   "m.type=parallel m.memory.key_dim=6 m.memory.value_dim=10 m.attention.window=5 "
   "m.mlp.none=0 m.mlp.hidden=12 m.mixer.out_scale=0.7 m.attention.out_scale=1.4"},
  {"kda", "the same of other layers, gated, in groups, persistent pairs, no MLP", "mwm",
   "layers=0 m.type=parallel m.mlp.none=1 m.mixer.out_gate_rank=5 m.attention.window=3 "
   "m.attention.heads=4 m.attention.kv_heads=2 m.attention.head_dim=6 m.attention.qk_norm=1 "
   "m.attention.persistent=2 m.attention.out_gate=1 m.attention.out_scale=0.5"},
  {"retnet", "the same with biases", NULL,
   "m.type=parallel m.memory.value_dim=10 m.attention.window=5 m.mixer.projection_bias=1 "
   "m.mixer.out_scale=2"},
  {"mamba2", "the same with all factors", NULL,
   "m.type=parallel m.memory.key_dim=6 m.memory.value_dim=10 m.attention.window=5 "
   "m.attention.persistent=2 m.mlp.none=0 m.mlp.hidden=12 m.mixer.out_scale=0.7 "
   "m.mixer.gate_scale=0.4 m.mixer.low_scale=2.5 m.mixer.projection_bias=1 "
   "m.attention.query_scale=0.3 m.attention.out_scale=1.4 m.mlp.out_scale=0.6 "
   "m.mlp.gate_scale=1.7"},
  {"kda", "factors of layers of memories, of attention, of MLPs, of gates of low rank", "mwg",
   "layers=0 m.mixer.out_gate_rank=5 m.mixer.gate_scale=0.4 m.mixer.low_scale=1.5 "
   "m.mixer.out_scale=0.7 m.mlp.out_scale=0.3 w.attention.query_scale=2 w.attention.out_scale=3 "
   "w.attention.out_gate=1 w.mlp.out_scale=0.3 w.mlp.act=relu2 g.mlp.gate_scale=2 "
   "g.mlp.out_scale=0.5"},
  {"gated-deltanet", "gated convolutions and attention (lfm2)", "cwc",
   "layers=0 c.conv.gated=1 c.conv.size=3 c.mlp.none=0 c.mlp.hidden=12 w.attention.qk_norm=1"},
  {"gated-deltanet", "gated convolutions with biases, experts with a factor", "cmc",
   "layers=0 c.conv.gated=2 c.mlp.none=1 m.mlp.hidden=9 m.mlp.experts=4 m.mlp.norm_topk=1 "
   "m.mlp.shared_experts=2 m.mlp.out_scale=0.6"},
  {"gated-deltanet", "attention whose norms are behind, of whole rows (olmo-hybrid)", "mww",
   "layers=0 w.attention.post_norm=1 w.attention.qk_norm=2 w.attention.rope.share=none "
   "w.attention.out_gate=1 w.attention.head_dim=6 w.attention.persistent=2"},
  {"kda", "the same without persistent pairs, with experts and a factor", "wmw",
   "layers=0 w.attention.post_norm=1 w.attention.qk_norm=2 w.attention.kv_heads=1 "
   "w.mlp.experts=3 w.mlp.out_scale=0.6 w.mlp.hidden=9"},
  {"deltanet", "attention by angles scaled as llama3's", "wm",
   "w.attention.head_dim=12 w.attention.rope.theta=300 w.attention.rope_scaling.type=llama3 "
   "w.attention.rope_scaling.factor=5 w.attention.rope_scaling.context=40 "
   "w.attention.rope_scaling.low_frequency_factor=0.5 w.attention.qk_norm=1"},
  {"deltanet", "by yarn, of ten entries neighbours", "wm",
   "w.attention.head_dim=12 w.attention.rope.theta=60 w.attention.rope_scaling.type=yarn "
   "w.attention.rope_scaling.factor=3 w.attention.rope_scaling.context=50 "
   "w.attention.rope_scaling.high_frequency_factor=6 w.attention.rope.interleaved=1 "
   "w.attention.rope.dim=10 w.attention.persistent=2"},
  {"mamba", "linearly; mamba with gains of what values make (jamba)", "wm",
   "m.memory.key_dim=6 m.memory.value_dim=10 m.mixer.from_values=2 norm_epsilon=0.01 "
   "w.attention.rope_scaling.type=linear w.attention.rope_scaling.factor=2.5"},
  {"mamba2", "yarn beside a memory, with a factor", NULL,
   "m.type=parallel m.memory.key_dim=6 m.memory.value_dim=10 m.attention.window=5 "
   "m.attention.rope_scaling.type=yarn m.attention.rope_scaling.factor=4 "
   "m.attention.rope_scaling.context=20 m.attention.rope_scaling.attention_factor=0.8"},
  {"rwkv4", "rwkv4 as published", NULL, ""},
  {"rwkv4", "rwkv4 and attention, with an MLP of its own, RMS norms", "(mw)*2",
   "norm=rms norm_epsilon=0.001 embed_norm=0 untied=0 m.mlp.none=0 m.mlp.hidden=9"},
  {"rwkv4", "rwkv4 of two tasks of channels, ragged, between others", "gmgm", "width=70"},
  {"rwkv6", "rwkv6 as published", NULL, ""},
  {"rwkv6", "rwkv6, a horizon, narrow values, back to the start, a step; gated MLPs", "mgm",
   "norm=rms embed_norm=0 untied=0 norm_epsilon=0.001 m.memory.value_dim=5 m.memory.chunk=4 "
   "m.memory.decay_target=initial m.memory.learning_rate=0.5 m.mlp.none=0 m.mlp.hidden=9 "
   "m.mixer.decay_horizon=30 m.mixer.out_norm_epsilon=0.01 g.mlp.act=silu g.mlp.bias=1 "
   "g.mlp.out_scale=0.6"},
  {"rwkv6", "rwkv6, and layers of rwkv7 that mix the values of the first of these", "mvgv",
   "v.memory.separate_erase=1 v.memory.bias=l2 v.memory.order=error-first v.mixer.qk_map=erase "
   "v.mixer.decay_form=bounded v.rwkv.mix_rank=0 v.rwkv.rate_rank=3 v.rwkv.value_rank=2 "
   "v.mixer.out_gate_rank=5 m.mixer.decay_form=root m.mixer.keep_min=0.3"},
  {"rwkv6-memory", "rwkv6, a context whose tokens read first", "mw",
   "layers=0 m.type=mac m.attention.window=8 m.memory.chunk=4"},
  {"griffin", "griffin", "mw", "m.mixer.gate_rank=0 logit_cap=0.7 w.attention.head_dim=6"},
  {"griffin", "griffin, two blocks, a fixed decay, keys; attention with biases and a gate", "wm",
   "m.memory.value_dim=10 m.mixer.gate_rank=0 m.mixer.gate_blocks=2 m.mixer.fixed_gates=1 "
   "m.mixer.qk_map=l2 m.memory.key_dim=3 w.attention.out_gate=1 w.mlp.act=relu2"},
  {"griffin", "griffin, no blocks, one head, steps alone", "m",
   "m.memory.heads=1 m.mixer.gate_blocks=0 m.memory.write_scale=rest m.mlp.bias=0 logit_cap=2"},
  {"griffin", "griffin, of whose values no gate is made", "m",
   "m.mixer.gate_rank=0 m.mixer.fixed_gates=3"},
  {"lru", "lru", NULL, "m.memory.value_dim=10"},
  {"s5", "s5", NULL, "m.memory.value_dim=10"},
  {"hgrn", "hgrn", NULL, "m.memory.value_dim=10"},
  {"hgrn", "hgrn as published", NULL, "m.memory.value_dim=10 m.mixer.decay_form=floor"},
  {"gsa", "gsa as published", NULL, "m.memory.value_dim=10 m.mixer.key_slots=7"},
  {"gsa", "slots, convolutions, and attention of one norm", "mw",
   "layers=0 m.type=parallel m.mixer.key_slots=5 m.attention.window=5 m.mixer.conv_on=all "
   "m.mixer.conv_size=4 m.attention.persistent=2 m.mixer.out_gate=silu m.attention.out_gate=1"},
  {"pkda", "pkda as published", NULL, "m.memory.value_dim=10 m.mixer.out_gate_rank=5"},
  {"pgdn", "pgdn and attention of one norm", "mw",
   "layers=0 m.type=parallel m.memory.value_dim=10 m.attention.window=5 m.attention.persistent=2"},
  {"pkda", "pkda as a gate of attention, a horizon", "mwm",
   "layers=0 m.type=mag m.attention.window=5 m.attention.head_dim=8 m.memory.key_dim=5 "
   "m.memory.value_dim=8 m.mixer.out_gate=silu m.mixer.out_gate_rank=0 m.mixer.decay_horizon=30"},
  {"gsa", "slots as a gate of attention", "mwm",
   "layers=0 m.type=mag m.mixer.key_slots=6 m.attention.window=5 m.attention.head_dim=8 "
   "m.memory.key_dim=5 m.memory.value_dim=8 m.mixer.norm_heads=0 m.mixer.out_act=none "
   "m.mixer.out_gate=silu"},
  {"raven", "raven as published", NULL,
   "m.memory.value_dim=10 m.mixer.key_slots=5 m.mixer.top_slots=3"},
  {"raven", "raven, a decay for each slot, all of them, back to the start, resets, a horizon", NULL,
   "m.memory.decay_gate=channel m.mixer.decay_form=root8 m.mixer.decay_horizon=9 "
   "m.mixer.key_slots=5 m.mixer.top_slots=5 m.memory.decay_target=initial m.memory.reset_every=16 "
   "m.mixer.scaled_queries=1 m.memory.learning_rate=0.8 m.mixer.d_skip=1"},
  {"raven", "raven, fixed decays, convolutions, and attention of one norm", "mw",
   "layers=0 m.type=parallel m.mixer.key_slots=4 m.mixer.top_slots=2 m.mixer.fixed_gates=1 "
   "m.mixer.conv_on=all m.mixer.conv_size=4 m.attention.window=5 m.mixer.projection_bias=1"},
  {"raven", "raven as a gate of attention", "mwm",
   "layers=0 m.type=mag m.mixer.key_slots=4 m.mixer.top_slots=2 m.attention.window=5 "
   "m.attention.head_dim=8 m.memory.key_dim=5 m.memory.value_dim=8 m.mixer.norm_heads=0 "
   "m.mixer.out_act=none m.mixer.out_gate=silu m.memory.chunk=4"},
  {"log-linear-mamba2", "log-linear-mamba2 as published, but for its levels", NULL,
   "m.memory.value_dim=10 m.mixer.levels=4"},
  {"log-linear-gdn", "log-linear-gdn, and attention of one norm", "mw",
   "layers=0 m.type=parallel m.mixer.levels=4 m.attention.window=5"},
  {"log-linear-gdn", "a tree of states as a gate of attention", "mwm",
   "layers=0 m.type=mag m.mixer.levels=3 m.attention.window=5 m.attention.head_dim=8 "
   "m.memory.key_dim=5 m.memory.value_dim=8"}};

static subject family(int n) {
  subject s;
  miras_layer_desc *other = &s.d.layer[4];
  assert_int_equal(miras_model_preset(&s.d, miras_preset_find(families[n].name), LAYERS), MIRAS_OK);
  snprintf(s.name, sizeof s.name, "%s", families[n].say);
  s.d.vocab = VOCAB;
  s.d.width = WIDTH;
  s.d.heads = HEADS;
  s.d.seed = 42;
  s.d.layer[1].attention.window = 5;
  s.d.layer[3].mlp.hidden = 12;
  if (s.d.layer[0].type == MIRAS_LAYER_RWKV) {
    const int erases = s.d.layer[0].memory.separate_erase;
    s.d.layer[0].rwkv.decay_rank = 4;
    s.d.layer[0].rwkv.rate_rank = erases ? 3 : 0;
    s.d.layer[0].rwkv.mix_rank = erases ? 0 : 2;
    s.d.layer[0].mixer.out_gate_rank = erases ? 5 : 0;
    *other = s.d.layer[0];
    other->letter = 'v';
  } else if (s.d.layer[0].type != MIRAS_LAYER_RWKV4) {
    s.d.layer[0].mixer.gate_rank = 5;
  }
  if (families[n].pattern != NULL)
    snprintf(s.d.pattern, sizeof s.d.pattern, "%s", families[n].pattern);
  set_fields(&s.d, families[n].fields);
  return s;
}

/* Every row with chunks 4, 16 and 1, then the options, hybrids and families; 0 past the end. */
static const int chunks[3] = {4, 16, 1};

static int subject_at(int n, subject *s) {
  if (n >= 3 * MIRAS_PRESET_ROWS + OPTIONS + HYBRIDS + FAMILIES) return 0;
  if (n >= 3 * MIRAS_PRESET_ROWS + OPTIONS + HYBRIDS)
    *s = family(n - 3 * MIRAS_PRESET_ROWS - OPTIONS - HYBRIDS);
  else if (n >= 3 * MIRAS_PRESET_ROWS + OPTIONS)
    *s = hybrid(n - 3 * MIRAS_PRESET_ROWS - OPTIONS);
  else if (n >= 3 * MIRAS_PRESET_ROWS)
    *s = option(n - 3 * MIRAS_PRESET_ROWS);
  else
    *s = row((miras_preset)(n / 3), chunks[n % 3]);
  return 1;
}

static int is_option(int n) { return n >= 3 * MIRAS_PRESET_ROWS; }

static int starts_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Away from the symmetric points of the initial values, where gradients vanish by accident. */
static void disturb(miras_model *m, uint64_t seed) {
  int count = 0;
  const miras_view *views = miras_model_views(m, &count);
  float *params = miras_model_params(m, NULL);
  random_state = seed * 1237u + 5;
  for (int v = 0; v < count; v++) {
    float by = 0.1f;
    if (starts_with(views[v].name, "embed") || starts_with(views[v].name, "head")) by = 0.5f;
    if (strstr(views[v].name, "gates.") != NULL) by = 0.3f;
    if (strstr(views[v].name, "memory.rates") != NULL) by = 0.05f; /* 1/16 - by is above 0 */
    for (size_t i = 0; i < views[v].count; i++) params[views[v].offset + i] += uniform(-by, by);
  }
}

typedef struct wide {
  ref_model r;
  double *params;
  size_t count;
} wide;

static void widen(wide *w, miras_model *m, const miras_model_desc *d) {
  const float *params = miras_model_params(m, &w->count);
  w->params = (double *)ref_zeros(w->count);
  for (size_t i = 0; i < w->count; i++) w->params[i] = (double)params[i];
  w->r.d = *d;
  w->r.views = miras_model_views(m, &w->r.view_count);
  w->r.params = w->params;
  w->r.dropped = d->dropout > 0.0f;
}

/* A row or an option that the library refuses is a failure. */
static miras_model *open_model(const miras_model_desc *d, const char *name) {
  char why[200] = "";
  miras_model *m;
  if (miras_model_size(d, why, sizeof why) == 0) {
    failed("%s: refused (%s)", name, why);
    return NULL;
  }
  m = miras_model_open(d, &dirty, NULL, 0);
  if (m == NULL) failed("%s: not opened", name);
  return m;
}

/* A trainer with room for the texts here, or with that of d; NULL where there is no model. */
static miras_trainer *open_trainer(miras_model *m, const miras_trainer_desc *d) {
  static const miras_trainer_desc room = {BATCH, CONTEXT, 0, 0, 0, NULL, NULL};
  miras_trainer *tr =
    m == NULL ? NULL : miras_trainer_open(m, d == NULL ? &room : d, &dirty, NULL, 0);
  if (m != NULL && tr == NULL) failed("no trainer");
  return tr;
}

static void close_both(miras_model *m, miras_trainer *tr) {
  miras_close(tr);
  miras_close(m);
}

/* Three running texts. */
static const miras_trainer_desc running = {BATCH, CONTEXT, 3, 0, 0, NULL, NULL};

/* Parameters and text for which the reference stays clear of corners (thresholds of Yaad). */
static void settle(miras_model *m, const subject *of, int T, wide *w) {
  const miras_model_desc *d = &of->d;
  size_t count;
  float *params = miras_model_params(m, &count), *initial;
  w->params = NULL;
  initial = (float *)zeros(count, sizeof(float));
  memcpy(initial, params, count * sizeof(float));
  for (uint64_t seed = 1; seed < 40; seed++) {
    ref_branches b;
    memcpy(params, initial, count * sizeof(float));
    disturb(m, seed);
    draw_text(T);
    widen(w, m, d);
    ref_branches_clear(&b);
    ref_model_loss(&w->r, tokens, targets, BATCH, T, NULL, &b);
    if (b.margin > 2e-4) break;
    free(w->params);
    w->params = NULL;
  }
  free(initial);
  if (w->params == NULL) {
    failed("%s: no parameters clear of the corners", of->name);
    widen(w, m, d);
  }
}

/* ---- loss and logits ---- */

static double worst_loss, worst_logits, worst_score;

static void check_loss(const subject *of, int T, const char *name, double is, double should) {
  const double error = fabs(is - should) / fabs(should);
  worst_loss = fmax(worst_loss, error);
  if (!(error <= LOSS)) failed("%s T %d: %s %.8g, not %.8g", of->name, T, name, is, should);
}

/* The session's logits and score of sequence b against the reference's. */
static void check_session(miras_model *m, const subject *of, int b, int T, const double *logits) {
  miras_session *s = miras_session_open(m, NULL, &dirty, NULL, 0);
  double score = 0.0, sum;
  if (s == NULL) {
    failed("%s: no session", of->name);
    return;
  }
  for (int t = 0; t < T; t++) {
    const double *expected = logits + (size_t)(b * T + t) * VOCAB;
    const float *is = miras_session_step(s, tokens[b * T + t]);
    const double error = is == NULL ? HUGE_VAL : error_of(is, expected, VOCAB);
    worst_logits = fmax(worst_logits, error);
    if (!(error <= LOGITS))
      failed("%s: logits off by %.2e at %d of %d", of->name, error, t, T);
    if (targets[b * T + t] >= 0) {
      double top = expected[0], total = 0.0;
      for (int o = 0; o < VOCAB; o++)
        if (expected[o] > top) top = expected[o];
      for (int o = 0; o < VOCAB; o++) total += exp(expected[o] - top);
      score += top + log(total) - expected[targets[b * T + t]];
    }
  }
  miras_session_reset(s);
  sum = score_of(s, tokens + b * T, targets + b * T, (size_t)T);
  worst_score = fmax(worst_score, fabs(sum - score) / (score + 1.0));
  if (!(fabs(sum - score) <= LOSS * (score + 1.0)))
    failed("%s T %d: score %.8g, not %.8g", of->name, T, sum, score);
  miras_close(s);
}

static void shake_params(wide *w, miras_model *m, float by) {
  const float *params = miras_model_params(m, NULL);
  for (size_t i = 0; i < w->count; i++)
    w->params[i] = (double)params[i] * (1.0 + (double)uniform(-by, by));
}

static void test_forward(void **state) {
  static const int lengths[] = {1, 2, 3, 4, 5, 8, 13, 19};
  double worst_slack = 0.0;
  subject of;
  (void)state;
  start();
  worst_loss = worst_logits = worst_score = 0.0;
  for (int n = 0; subject_at(n, &of); n++) {
    const int before = failures;
    miras_model *m;
    miras_trainer *tr;
    wide w;
    if (n % THIN) continue;
    m = open_model(&of.d, of.name);
    tr = open_trainer(m, NULL);
    if (tr == NULL) continue;
    settle(m, &of, 13, &w);
    for (int i = is_option(n) ? 4 : 0; i < COUNT(lengths) && failures < before + 6; i++) {
      const int T = lengths[i];
      const size_t count = (size_t)BATCH * (size_t)T * VOCAB;
      double *logits = (double *)ref_zeros(count), *shaken = (double *)ref_zeros(count);
      double loss = 0.0, moved = 0.0;
      ref_branches corners;
      /* text that keeps clear of corners and of chaos: parameters that differ by 1e-6 */
      for (int attempt = 0; attempt < 60; attempt++) {
        draw_text(T);
        ref_branches_clear(&corners);
        loss = ref_model_loss(&w.r, tokens, targets, BATCH, T, logits, &corners);
        shake_params(&w, m, 1e-6f);
        ref_model_loss(&w.r, tokens, targets, BATCH, T, shaken, NULL);
        shake_params(&w, m, 0.0f);
        moved = 0.0;
        for (size_t j = 0; j < count; j++)
          if (fabs(shaken[j] - logits[j]) > moved) moved = fabs(shaken[j] - logits[j]);
        if (corners.margin > 1e-4 && moved <= 5e-4) break;
      }
      if (!(corners.margin > 1e-4 && moved <= 5e-4))
        failed("%s T %d: no settled text (margin %.1e, slack %.1e)", of.name, T, corners.margin,
               moved);
      if (moved > worst_slack) worst_slack = moved;
      for (int train = 0; train < 2; train++)
        check_loss(&of, T, train ? "training loss" : "loss",
                   (double)loss_of(tr, tokens, targets, BATCH, T, train), loss);
      for (int b = 0; b < BATCH; b++) check_session(m, &of, b, T, logits);
      free(logits);
      free(shaken);
    }
    free(w.params);
    close_both(m, tr);
  }
  printf("  largest error: loss %.2e, score %.2e, logits %.2e; parameters 1e-6 apart: %.2e\n",
         worst_loss, worst_score, worst_logits, worst_slack);
  finish();
}

/* ---- gradients ---- */

/* dL along u over the entries first, first + 1, ... of count (u NULL: the one entry first) by
 * central differences. 0: a corner lies between. */
static int model_difference(wide *w, int T, size_t first, size_t count, const signed char *u,
                      double *derivative) {
  const double h = u == NULL ? 1e-5 : 1e-5 / sqrt((double)count);
  double loss[2], *kept = (double *)ref_zeros(count);
  ref_branches b[2];
  for (size_t i = 0; i < count; i++) kept[i] = w->params[first + i];
  for (int side = 0; side < 2; side++) {
    for (size_t i = 0; i < count; i++)
      w->params[first + i] = kept[i] + (side ? h : -h) * (u == NULL ? 1.0 : (double)u[i]);
    ref_branches_clear(&b[side]);
    loss[side] = ref_model_loss(&w->r, tokens, targets, BATCH, T, NULL, &b[side]);
  }
  for (size_t i = 0; i < count; i++) w->params[first + i] = kept[i];
  free(kept);
  *derivative = (loss[1] - loss[0]) / (2.0 * h);
  return b[0].decisions == b[1].decisions;
}

/* How far the derivative moves when all parameters change by a few units in the last place. */
static double unsteadiness(wide *w, miras_model *m, int T, size_t first, size_t count,
                           const signed char *u, double derivative) {
  double worst = 0.0, is;
  for (int i = 0; i < 4; i++) {
    shake_params(w, m, ULPS);
    if (model_difference(w, T, first, count, u, &is) && fabs(is - derivative) > worst)
      worst = fabs(is - derivative);
  }
  shake_params(w, m, 0.0f);
  return worst;
}

/* Parameters of gates and forms: every entry must matter. (Rates of the last block reach the loss
 * through their own row only, which may have no target.) */
static int matters(const char *name) {
  static const char *const of[] = {"gates.offset", "gates.rate", "erase.", "bonus.", "skip.",
                                   "shift.mix", "blocks.0.memory.rates", "memory.ridge",
                                   "memory.decay_log"};
  for (int i = 0; i < COUNT(of); i++)
    if (strstr(name, of[i]) != NULL) return 1;
  return 0;
}

typedef struct tally {
  int checked, skipped;
  double worst;
} tally;

/* Where runs are slowest a view has one difference, as those are the reference's work. */
enum { LEAN = MIRAS_TEST_SHARE >= 64 };

/* One view: its largest entry, a direction through all of them, and draws; with `all`, every entry
 * of small views of the first block; LEAN, or without draws: the direction. */
static void check_view(const subject *of, miras_model *m, wide *w, const miras_view *view, int T,
                       int samples, int all, tally *count, const float *grads) {
  const int every = matters(view->name), before = failures;
  const int full = all && !LEAN && view->count <= 128 && starts_with(view->name, "blocks.0.");
  const int heads = strstr(view->name, ".memory.") != NULL && view->rank == 2 ? view->shape[0] : 1;
  const size_t head = view->count / (size_t)heads;
  signed char *u = (signed char *)zeros(view->count, 1);
  size_t best = 0;
  double top = 0.0;
  for (size_t i = 0; i < view->count; i++) {
    const double g = fabs((double)grads[i]);
    if (!(g < 1e30)) top = HUGE_VAL;
    if (g > top) {
      top = g;
      best = i;
    }
    u[i] = draw() % 2 ? 1 : -1;
  }
  if (!(top < 1e30)) failed("%s: the gradient of %s is not finite", of->name, view->name);
  if (top < 1e-9) failed("%s: the gradient of %s is zero", of->name, view->name);
  for (size_t i = 0; i < view->count && every; i++)
    if (!(fabs((double)grads[i]) > 1e-9 * top))
      failed("%s: %s[%d] has no effect", of->name, view->name, (int)i);
  if (full) samples = (int)view->count;
  if (LEAN) samples = 0;
  for (int j = samples ? -2 : -1; j < samples; j++) {
    const int along = j == -1;
    const size_t at = j == -2 ? best : along ? 0 : full ? (size_t)j : draw() % view->count;
    const size_t first = view->offset + at;
    const size_t entries = along ? view->count : 1;
    double is = 0.0, should, error, bound = 0.0;
    if (!(top > 0.0 && top < 1e30 && failures < before + 3)) break;
    for (size_t i = 0; i < view->count; i++) /* the largest of all, or of the entry's own head */
      if (along || i / head == at / head) bound = fmax(bound, fabs((double)grads[i]));
    bound *= MODEL_GRADIENT * (along ? sqrt((double)view->count) : 1.0);
    for (size_t i = 0; i < entries; i++)
      is += (double)grads[at + i] * (along ? (double)u[i] : 1.0);
    if (!model_difference(w, T, first, entries, along ? u : NULL, &should)) {
      count->skipped++;
      continue;
    }
    count->checked++;
    error = fabs(is - should);
    if (error / bound * MODEL_GRADIENT > count->worst)
      count->worst = error / bound * MODEL_GRADIENT;
    if (error <= bound) continue;
    if (error <= bound + 3.0 * unsteadiness(w, m, T, first, entries, along ? u : NULL, should))
      excused++;
    else if (along)
      failed("%s: gradient of %s, sum over random signs: %g, not %g; largest entry %g", of->name,
             view->name, is, should, top);
    else
      failed("%s: gradient of %s[%d]: %g, not %g; largest %g", of->name, view->name,
             (int)at, is, should, top);
  }
  free(u);
}

static void tally_print(const tally *count) {
  printf("  %d derivatives, %d skipped at a corner, %d excused, largest error %.2e\n",
         count->checked, count->skipped, excused, count->worst);
  if (count->skipped * 20 > count->checked) failed("too many corners");
  if (excused > 2 && excused * 1000 > count->checked) failed("too many excuses");
}

static void test_gradient(void **state) {
  tally count = {0, 0, 0.0};
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of); n++) {
    const int chunk = of.d.layer[0].memory.chunk, whole = !is_option(n) && chunk == 4;
    /* of trees the level that 32 tokens reach, 64 tokens after the text began, too */
    const int deep = of.d.layer[0].mixer.levels == 7, before = failures;
    const int T = deep ? 66 : chunk == 16 ? 18 : is_option(n) ? 7 : 10;
    const miras_trainer_desc room = {BATCH, T > CONTEXT ? T : CONTEXT, 0, 0, 0, NULL, NULL};
    miras_model *m;
    miras_trainer *tr;
    wide w;
    if ((!is_option(n) && chunk == 1) || !my_share()) continue;
    /* where residuals are, so that some are beyond it and its gate has an effect */
    if (of.d.layer[0].memory.bias == MIRAS_BIAS_HUBER_MIXTURE)
      of.d.layer[0].memory.threshold = sqrtf((float)ref_resolve(&of.d.layer[0].memory).value_dim);
    m = open_model(&of.d, of.name);
    tr = open_trainer(m, &room);
    if (tr == NULL) continue;
    settle(m, &of, T, &w);
    loss_of(tr, tokens, targets, BATCH, T, 1);
    if (miras_trainer_backward(tr, NULL) != MIRAS_OK) failed("%s: backward", of.name);
    for (int v = 0; v < w.r.view_count; v++)
      if (failures < before + 6) /* one wrong gradient spoils many */
        check_view(&of, m, &w, &w.r.views[v], T, whole ? 6 : 2, whole, &count,
                   miras_trainer_grads(tr) + w.r.views[v].offset);
    free(w.params);
    close_both(m, tr);
  }
  tally_print(&count);
  finish();
}

/* ---- a layer as its paper writes it ---- */

/* Mamba-3 (Lahoti et al. 2026): a state that itself turns, and learns of either end of a time,
 *   S_t = R_t (alpha S_(t-1) + beta k_(t-1) v_(t-1)') + gamma k_t v_t',  y_t = S_t' q_t + D v_t
 * with R_t what turns pairs of rows back by pi tanh(g) dt, alpha = exp(-dt a), beta = (1 - l) dt
 * alpha and gamma = l dt. The reference turns keys and queries instead, and so does the library. */
static void check_trapezoid(const ref_model *m, const double *h, int T) {
  const miras_layer_desc *d = ref_layer_of(m, 0);
  const miras_memory_desc md = ref_layer_memory(m, 0);
  const size_t H = (size_t)md.heads, dk = (size_t)md.key_dim, dv = (size_t)md.value_dim;
  const size_t turns = (size_t)ref_turning(&d->mixer.rope, (int)dk) / 2;
  double *q = ref_moved(m, 0, &md, "q", h, 1, T), *k = ref_moved(m, 0, &md, "k", h, 1, T);
  double *v = ref_mixed(m, 0, "v", h, 1, T, H * dv), *gate[REF_GATES], off = 0.0;
  double *y = (double *)ref_zeros((size_t)T * H * dv), *S = (double *)ref_zeros(dk * dv);
  ref_gates(m, &md, 0, h, (size_t)T, NULL, NULL, gate, NULL);
  ref_memory_answers(m, 0, h, h, 1, T, T, y, NULL);
  for (size_t head = 0; head < H; head++) {
    memcpy(S, ref_param(m, 0, "memory.init") + head * dk * dv, dk * dv * sizeof *S);
    for (size_t t = 0; t < (size_t)T; t++) {
      const size_t at = t * H + head;
      const double dt = gate[REF_KEEP][at], l = gate[REF_STEP][at];
      const double alpha = exp(-dt * gate[REF_FADE][at]);
      for (size_t i = 0; i < dk; i++)
        for (size_t j = 0; j < dv; j++)
          S[i * dv + j] = alpha * S[i * dv + j] +
                          (t > 0 ? (1.0 - l) * dt * alpha * k[(at - H) * dk + i] *
                                     v[(at - H) * dv + j] : 0.0);
      for (size_t i = 0; i < turns * dv; i++) {
        const double by =
          ref_angle(m, 0, gate[REF_KEEP], h, t, head, H, i / dv, turns);
        double *a = S + 2 * (i / dv) * dv + i % dv, *b = a + dv;
        const double re = *a, im = *b;
        *a = re * cos(by) + im * sin(by);
        *b = im * cos(by) - re * sin(by);
      }
      for (size_t i = 0; i < dk; i++)
        for (size_t j = 0; j < dv; j++)
          S[i * dv + j] += l * dt * k[at * dk + i] * v[at * dv + j];
      for (size_t j = 0; j < dv; j++) {
        double says = ref_param(m, 0, "skip.gain")[head] * v[at * dv + j];
        for (size_t i = 0; i < dk; i++) says += S[i * dv + j] * q[at * dk + i];
        off = fmax(off, fabs(says - y[at * dv + j]));
      }
    }
  }
  if (!(off < 1e-12)) failed("mamba3: %g from its paper's form", off);
  for (int i = 0; i < REF_GATES; i++) free(gate[i]);
  free(q), free(k), free(v), free(y), free(S);
}

/* PGDN and PKDA (Tumma et al. 2026): A_t = f A_(t-1) + b k (.) k token by token, the error at what
 * the decay has left, and a step of it along m (.) k. The reference sums squares instead, and hands
 * the memory what is erased and where. */
static void check_preconditioned(const ref_model *m, const double *h, int T, double *y) {
  const miras_layer_desc *d = ref_layer_of(m, 0);
  const miras_memory_desc md = ref_layer_memory(m, 0);
  const size_t H = (size_t)md.heads, dk = (size_t)md.key_dim, dv = (size_t)md.value_dim;
  const int channels = md.decay_gate == MIRAS_GATE_CHANNEL;
  const double scale = d->mixer.scaled_queries ? 1.0 / sqrt((double)dk) : 1.0;
  double *q = ref_mixed(m, 0, "q", h, 1, T, H * dk), *k = ref_mixed(m, 0, "k", h, 1, T, H * dk);
  double *v = ref_mixed(m, 0, "v", h, 1, T, H * dv), *gate[REF_GATES], off = 0.0;
  double *S = (double *)ref_zeros(dk * dv), *A = (double *)ref_zeros(dk);
  ref_gates(m, &md, 0, h, (size_t)T, NULL, NULL, gate, NULL);
  ref_memory_answers(m, 0, h, h, 1, T, T, y, NULL);
  ref_lengthen(q, (size_t)T * H, dk, 1.0), ref_lengthen(k, (size_t)T * H, dk, 1.0);
  for (size_t head = 0; head < H; head++) {
    memcpy(S, ref_param(m, 0, "memory.init") + head * dk * dv, dk * dv * sizeof *S);
    for (size_t i = 0; i < dk; i++) A[i] = 0.0;
    for (size_t at = head; at < (size_t)T * H; at += H) {
      for (size_t i = 0; i < dk; i++) {
        A[i] = gate[REF_FADE][at] * A[i] + gate[REF_RATE][at] * k[at * dk + i] * k[at * dk + i];
        for (size_t j = 0; j < dv; j++)
          S[i * dv + j] *= gate[REF_KEEP][channels ? at * dk + i : at];
      }
      for (size_t j = 0; j < dv; j++) {
        double error = v[at * dv + j], says = 0.0;
        for (size_t i = 0; i < dk; i++) error -= S[i * dv + j] * k[at * dk + i];
        for (size_t i = 0; i < dk; i++) {
          const double r = log(A[i] + 1e-6) - ref_param(m, 0, "precondition.centre")[head];
          S[i * dv + j] += gate[REF_STEP][at] * exp(-log(1.5) * r / (1.0 + fabs(r))) *
                           k[at * dk + i] * error;
          says += scale * S[i * dv + j] * q[at * dk + i];
        }
        off = fmax(off, fabs(says - y[at * dv + j]));
      }
    }
  }
  if (!(off < 1e-12)) failed("preconditioned: %g from its paper's form", off);
  for (int i = 0; i < REF_GATES; i++) free(gate[i]);
  free(q), free(k), free(v), free(S), free(A);
}

/* Of each row, and with each of what m is made of moved alone: then every head says something
 * else. */
static void test_preconditioned(void **state) {
  enum { T = 20 };
  static const miras_preset kinds[] = {MIRAS_PRESET_PGDN, MIRAS_PRESET_PKDA_MEMORY};
  double h[T * WIDTH];
  (void)state;
  start();
  for (int n = 0; n < COUNT(kinds); n++) {
    subject of = row(kinds[n], 4);
    miras_model *m = open_model(&of.d, of.name);
    const miras_memory_desc md = ref_resolve(&of.d.layer[0].memory);
    const size_t H = (size_t)md.heads, count = (size_t)T * H * (size_t)md.value_dim;
    double *y = (double *)ref_zeros(count), *moved = (double *)ref_zeros(count);
    wide w;
    assert_non_null(m);
    for (size_t i = 0; i < H; i++)
      if (miras_model_params(m, NULL)[miras_model_view(m, "blocks.0.precondition.centre")->offset +
                                      i] != -0.2f)
        failed("%s: the centre of head %d", of.name, (int)i);
    settle(m, &of, T, &w);
    for (int i = 0; i < T * WIDTH; i++) h[i] = (double)(draw() % 2001) / 1000.0 - 1.0;
    check_preconditioned(&w.r, h, T, y);
    for (int what = 0; what < 4; what++) { /* c, b, f, and the rate of f: of every head */
      const char *name = what == 0 ? "blocks.0.precondition.centre"
                         : what < 3 ? "blocks.0.gates.offset" : "blocks.0.gates.rate";
      const miras_view *view = miras_model_view(m, name);
      double *of_head = w.params + view->offset + view->count - (what == 1 ? 2 * H : H);
      for (size_t i = 0; i < H; i++) of_head[i] += 0.25;
      check_preconditioned(&w.r, h, T, moved);
      for (size_t i = 0; i < H; i++) of_head[i] -= 0.25;
      for (size_t head = 0; head < H; head++) {
        double off = 0.0;
        for (size_t i = 0; i < count; i++)
          if (i / (size_t)md.value_dim % H == head) off = fmax(off, fabs(moved[i] - y[i]));
        if (!(off > 1e-4)) failed("%s: %s %d of head %d: %g", of.name, name, what, (int)head, off);
      }
    }
    free(w.params), free(y), free(moved);
    miras_close(m);
  }
  finish();
}

static void test_trapezoid(void **state) {
  enum { T = 20 };
  miras_model *m;
  subject of;
  double h[T * WIDTH];
  wide w;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of) && strcmp(of.name, "mamba3 as published"); n++) continue;
  m = open_model(&of.d, of.name);
  assert_non_null(m);
  settle(m, &of, T, &w);
  for (int i = 0; i < T * WIDTH; i++) h[i] = (double)(draw() % 2001) / 1000.0 - 1.0;
  check_trapezoid(&w.r, h, T);
  free(w.params);
  miras_close(m);
  finish();
}

/* ---- lists of jobs ---- */

/* A kind of layer of every type, in their order, each with all that makes parameters and may be
 * together; `memory`, the row that those with memories are of. */
static const struct {
  char letter;
  miras_preset memory;
  const char *fields;
} full[] = {
  {'m', MIRAS_PRESET_TITANS,
   ".algorithm=gradient-descent .momentum_gate=constant .momentum=0 .token_rates=softplus "
   ".decay_target=initial mixer.decay_form=floor mixer.conv_bias=1 mixer.projection_bias=1 "
   "mixer.out_gate_rank=2 mixer.out_norm=layer mixer.d_skip=2"},
  {'a', MIRAS_PRESET_COUNT, "attention.qk_norm=1 attention.out_gate=1 attention.persistent=2"},
  {'g', MIRAS_PRESET_COUNT, ""},
  {'b', MIRAS_PRESET_TITANS,
   ".algorithm=gradient-descent .momentum_gate=constant .momentum=0 .token_rates=softplus "
   ".decay_target=initial mixer.decay_form=floor mixer.conv_bias=1 attention.qk_norm=1 "
   "attention.persistent=2"},
  {'c', MIRAS_PRESET_COUNT, "conv.size=3 conv.gated=2"},
  {'r', MIRAS_PRESET_RWKV7_MEMORY,
   ".decay_target=initial mixer.decay_form=floor rwkv.decay_rank=2 rwkv.rate_rank=2 "
   "rwkv.value_rank=2 mixer.out_gate_rank=2"},
  {'x', MIRAS_PRESET_TITANS,
   ".algorithm=gradient-descent .momentum_gate=constant .momentum=0 .token_rates=softplus "
   ".decay_target=initial mixer.decay_form=floor mixer.conv_bias=1 attention.qk_norm=1 "
   "attention.persistent=2 attention.window=4"},
  {'p', MIRAS_PRESET_TITANS,
   ".algorithm=gradient-descent .momentum_gate=constant .momentum=0 .token_rates=softplus "
   ".decay_target=initial mixer.decay_form=floor mixer.conv_bias=1 mixer.projection_bias=1 "
   "mixer.out_gate_rank=2 mixer.out_norm=layer mixer.d_skip=2 mixer.out_scale=2 "
   "attention.qk_norm=1 attention.out_gate=1 attention.persistent=2 attention.out_scale=3"},
  {'k', MIRAS_PRESET_COUNT, ""}};

static miras_model_desc full_model(const char *pattern) {
  miras_model_desc d;
  int kinds = 0;
  memset(&d, 0, sizeof d);
  assert_int_equal(COUNT(full), MIRAS_LAYER_TYPE_COUNT);
  for (int i = 0; i < COUNT(full); i++) {
    miras_model_desc one;
    if (strchr(pattern, full[i].letter) == NULL) continue;
    assert_true(kinds < MIRAS_MAX_LAYER_KINDS);
    memset(&one, 0, sizeof one);
    if (full[i].memory < MIRAS_PRESET_COUNT) one = row(full[i].memory, 2).d;
    one.layer[0].letter = 'm';
    one.layer[0].type = (miras_layer_type)i;
    if (i == MIRAS_LAYER_RWKV) one.layer[0].mixer.gate_rank = one.layer[0].mixer.conv_size = 0;
    set_fields(&one, full[i].fields);
    set_fields(&one, "mlp.experts=2 mlp.shared_experts=1 mlp.hidden=6");
    d.layer[kinds] = one.layer[0];
    d.layer[kinds++].letter = full[i].letter;
  }
  snprintf(d.pattern, sizeof d.pattern, "%s", pattern);
  d.norm = MIRAS_NORM_LAYER;
  d.embed_norm = d.untied = 1;
  d.vocab = VOCAB;
  d.width = WIDTH;
  d.heads = HEADS;
  return d;
}

/* The parameters of a layer, and (matrices) those of them that are one. */
static int layer_views(const miras_model *m, int layer, int matrices) {
  int count, n = 0;
  const miras_view *v = miras_model_views(m, &count);
  char start[16];
  snprintf(start, sizeof start, "blocks.%d.", layer);
  for (int i = 0; i < count; i++)
    n += starts_with(v[i].name, start) && (!matrices || v[i].weight_decay);
  return n;
}

/* The gradient of every parameter, by the loss along it; of the turn's, where lists of models are
 * thinned out. */
static void check_full(const char *pattern, int turn) {
  enum { T = 8 };
  const float h = 2e-3f;
  const miras_model_desc d = full_model(pattern);
  miras_model *m = open_model(&d, pattern);
  miras_trainer *tr = open_trainer(m, NULL);
  const miras_view *v;
  float *params, *grads;
  int count;
  if (tr == NULL) return;
  disturb(m, 3);
  draw_text(T);
  loss_of(tr, tokens, targets, BATCH, T, 1);
  if (miras_trainer_backward(tr, NULL) != MIRAS_OK) failed("%s: backward", pattern);
  v = miras_model_views(m, &count);
  params = miras_model_params(m, NULL);
  grads = miras_trainer_grads(tr);
  for (int i = turn % THIN; i < count; i += THIN) {
    const float *g = grads + v[i].offset;
    float *w = params + v[i].offset, *was = (float *)zeros(v[i].count, sizeof(float));
    double length = 0.0, loss[2], is;
    memcpy(was, w, v[i].count * sizeof(float));
    for (size_t j = 0; j < v[i].count; j++) length += (double)g[j] * (double)g[j];
    length = sqrt(length);
    for (int side = 0; side < 2; side++) {
      for (size_t j = 0; j < v[i].count; j++)
        w[j] = was[j] + (side ? h : -h) * (float)((double)g[j] / length);
      loss[side] = (double)loss_of(tr, tokens, targets, BATCH, T, 0);
    }
    is = (loss[1] - loss[0]) / (2.0 * (double)h);
    if (!(length > 1e-6) || !(fabs(is - length) <= 0.05 * length + 2e-4))
      failed("%s: the gradient of %s is %g, the loss moves by %g", pattern, v[i].name, length, is);
    memcpy(w, was, v[i].count * sizeof(float));
    free(was);
  }
  close_both(m, tr);
}

/* Two steps. */
static void train_full(const char *pattern) {
  const miras_model_desc d = full_model(pattern);
  miras_model *m = open_model(&d, pattern);
  miras_trainer *tr = open_trainer(m, NULL);
  draw_text(8);
  for (int i = 0; i < 2 && tr != NULL; i++) {
    float norm;
    loss_of(tr, tokens, targets, BATCH, 8, 1);
    if (miras_trainer_backward(tr, NULL) != MIRAS_OK) failed("%s: backward", pattern);
    norm = norm_of_step(tr, NULL, 1e-3f);
    if (!(norm > 0 && norm < 1e6f)) failed("%s: a gradient of length %g", pattern, (double)norm);
  }
  close_both(m, tr);
}

/* A layer's jobs and those of the layer below, of any two types: some are more than fit into a list
 * at a time. Then models in which every type is above every other: there are more of these than
 * a model has kinds, so that one of them goes without RWKV-4's, another without that of MLPs. */
static void train_circle(char without) {
  char pattern[96] = "rr";
  int n = 2;
  for (int i = 0; i < COUNT(full); i++) {      /* each pair once: de Bruijn's circle, cut open */
    if (full[i].letter == without) continue;
    pattern[n++] = full[i].letter;
    for (int j = i + 1; j < COUNT(full); j++)
      if (full[j].letter != without)
        pattern[n++] = full[i].letter, pattern[n++] = full[j].letter;
  }
  pattern[n] = 0;
  train_full(pattern);
}

static void test_jobs(void **state) {
  int longest = 0, full_lists = 0;
  (void)state;
  start();
  for (int i = 0; i < COUNT(full); i++)
    for (int j = 0; j < COUNT(full); j++) {
      const char three[4] = {'r', full[i].letter, full[j].letter, 0};
      const miras_model_desc d = full_model(three);
      miras_model *m = open_model(&d, three);
      const int jobs = m == NULL ? 0 : layer_views(m, 2, 0) + layer_views(m, 1, 1);
      miras_close(m);
      if (jobs > longest) longest = jobs;
      if (jobs > 48) check_full(three, full_lists++);
      else if ((i + j) % THIN == 0) train_full(three);
    }
  train_circle('k');
  train_circle('g');
  print_message("%d lists are full, the longest has %d jobs\n", full_lists, longest);
  assert_true(full_lists > 0);
  finish();
}


/* ---- units: all of it in seconds ----
 * Every subject once, on short texts: what mutants of the layers change, some line here sees before
 * the grids above have begun. Loss, logits, the gradient of every parameter, a session. */

/* The slope along a direction in which each view's part is as long as any other's: two losses of
 * the reference tell whether a hundredth of any view is wrong. A view of zeros is an error. */
static void check_directions(const subject *of, wide *w, int T, const float *grads,
                             tally *count) {
  double *u = (double *)ref_zeros(w->count), *kept = (double *)ref_zeros(w->count);
  memcpy(kept, w->params, w->count * sizeof *kept);
  for (int pass = 0; pass < 2; pass++) {
    double is = 0.0, loss[2], top = 0.0, bound = 0.0, worst = 0.0;
    ref_branches b[2];
    for (int v = 0; v < w->r.view_count; v++) {
      const miras_view *view = &w->r.views[v];
      double square = 0.0, most = 0.0;
      for (size_t i = view->offset; i < view->offset + view->count; i++) {
        square += (double)grads[i] * (double)grads[i];
        most = fmax(most, fabs((double)grads[i]));
      }
      if (!(most > 1e-9 && most < 1e30)) {
        failed("%s: the gradient of %s is up to %g", of->name, view->name, most);
        free(u);
        free(kept);
        return;
      }
      bound += most * most / square * (double)view->count;
      for (size_t i = view->offset; i < view->offset + view->count; i++) {
        u[i] = (draw() % 2 ? 1.0 : -1.0) / sqrt(square);
        is += u[i] * (double)grads[i];
        top = fmax(top, fabs(u[i]));
      }
    }
    bound = 0.25 * MODEL_GRADIENT * sqrt(bound); /* roundings of views are not in step */
    for (int shaken = 0; shaken < 4; shaken++) {
      for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < w->count; i++)
          w->params[i] = kept[i] * (1.0 + (shaken ? (double)uniform(-ULPS, ULPS) : 0.0)) +
                         (side ? 1e-5 : -1e-5) / top * u[i];
        ref_branches_clear(&b[side]);
        loss[side] = ref_model_loss(&w->r, tokens, targets, BATCH, T, NULL, &b[side]);
      }
      worst = fmax(worst, fabs((loss[1] - loss[0]) * top / 2e-5 - is));
      if (b[0].decisions != b[1].decisions || worst <= bound) break;
    }
    count->checked++;
    count->skipped += b[0].decisions != b[1].decisions;
    count->worst = fmax(count->worst, worst / bound);
    if (b[0].decisions == b[1].decisions && worst > bound)
      failed("%s: a slope of %g is off by %g; %g is allowed", of->name, is, worst, bound);
  }
  memcpy(w->params, kept, w->count * sizeof *kept);
  free(u);
  free(kept);
}

/* With dropout the loss and its slopes alone: no session drops anything. */
static void check_unit(const subject *of, tally *count) {
  const int T = of->d.layer[0].memory.chunk == 16 ? 18 : 10;
  const int before = failures;
  double *logits = (double *)ref_zeros((size_t)(BATCH * T * VOCAB));
  miras_model *m = open_model(&of->d, of->name);
  miras_trainer *tr = open_trainer(m, NULL);
  wide w;
  if (tr == NULL) return;
  settle(m, of, T, &w);
  check_loss(of, T, "loss", (double)loss_of(tr, tokens, targets, BATCH, T, 1),
             ref_model_loss(&w.r, tokens, targets, BATCH, T, logits, NULL));
  if (miras_trainer_backward(tr, NULL) != MIRAS_OK) failed("%s: backward", of->name);
  if (failures == before) check_directions(of, &w, T, miras_trainer_grads(tr), count);
  if (failures == before && !(of->d.dropout > 0.0f)) check_session(m, of, 1, T, logits);
  free(logits);
  free(w.params);
  close_both(m, tr);
}

/* What a gate of a layer begins as: the constant of the descriptor, or one half of a rate or of
 * the most that a time can be. */
static double first_gate(const miras_layer_desc *d, const miras_memory_desc *md, int which, int h,
                         size_t j) {
  const double columns = (double)ref_gate_columns(d, md, which);
  const double constant = md->decay_rate > 0.0f ? (double)md->decay_rate : 1.0 / 64.0;
  const double ratio = md->decay_ratio > 0.0f ? (double)md->decay_ratio : 1.0;
  const int shared = d->mixer.decay_form == MIRAS_DECAY_FORM_RATE ? d->mixer.top_slots : 0;
  const double most =
    d->mixer.decay_horizon > 0 ? 1.0 - 1.0 / (double)d->mixer.decay_horizon : 1.0;
  const int gated = d->mixer.qk_map == MIRAS_QK_MAP_ERASE_GATE;
  const int erases = d->mixer.erase_first && (double)j < columns - columns / md->inner_steps;
  if (which == REF_KEEP && md->decay_gate == MIRAS_GATE_ENTRY &&
      d->mixer.decay_form == MIRAS_DECAY_FORM_SIGMOID)
    return 0.5; /* a time, of which decay_log makes decays */
  if (which == REF_KEEP && md->decay_gate == MIRAS_GATE_ENTRY &&
      d->mixer.decay_form == MIRAS_DECAY_FORM_FLOOR)
    return 0.1;
  if (which == REF_FADE && d->mixer.qk_map == MIRAS_QK_MAP_PRECONDITIONED)
    return 1.0 - constant * pow(ratio, h);
  if (which == REF_FADE && d->mixer.levels > 0) return 1.0;
  if (which == REF_FADE) /* of which its time, 0.1, leaves what the constant says */
    return md->decay_rate > 0.0f ? -10.0 * log(1.0 - constant * pow(ratio, h)) : log(2.0);
  if (which == REF_KEEP && d->mixer.qk_map == MIRAS_QK_MAP_TRAPEZOID && !(md->decay_rate > 0.0f))
    return 1e-3 * pow(100.0, ((double)h + 0.5) / md->heads);
  if (which == REF_KEEP && d->mixer.decay_form == MIRAS_DECAY_FORM_TIME)
    return md->decay_rate > 0.0f ? 0.1 : 1e-3 * pow(100.0, ((double)j + 0.5) / columns);
  if (which == REF_KEEP && shared) return pow(1.0 - constant * pow(ratio, h), shared);
  if (which == REF_KEEP) /* as near to the most that a horizon allows as a logit should be */
    return fmax((double)d->mixer.keep_min,
                fmin(1.0 - constant * pow(ratio, h), most * (1.0 - 1e-4)));
  if (which == REF_STEP)
    return (double)md->learning_rate / (1.0 + exp(gated ? -2.0 : erases ? 3.0 : 0.0));
  if (which == REF_MOMENTUM) return fmax(0.05, fmin(0.95, (double)md->momentum));
  if (which == REF_THRESHOLD) return (double)md->threshold;
  if (which == REF_VALUE_KEEP) return 63.0 / 64.0;
  return ref_sigmoid(gated ? 2.0 : d->mixer.qk_map == MIRAS_QK_MAP_FEEDBACK ? 1.0 : 0.0);
}

/* The offsets, before anything is projected. */
static void test_unit_gates(void **state) {
  int checked = 0;
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of); n++) {
    miras_model *m = open_model(&of.d, of.name);
    wide w;
    if (m == NULL) continue;
    widen(&w, m, &of.d);
    for (int l = 0; l < ref_layers(&w.r); l++) {
      const miras_layer_desc *d = ref_layer_of(&w.r, l);
      const miras_memory_desc md = ref_layer_memory(&w.r, l);
      const double *offset, *rate = NULL;
      char name[80];
      size_t at = 0;
      snprintf(name, sizeof name, "blocks.%d.gates.offset", l);
      if (d->type == MIRAS_LAYER_RWKV || miras_model_view(m, name) == NULL) continue;
      offset = ref_param(&w.r, l, "gates.offset");
      snprintf(name, sizeof name, "blocks.%d.gates.rate", l);
      if (miras_model_view(m, name) != NULL) rate = ref_param(&w.r, l, "gates.rate");
      for (int which = 0; which < REF_GATES; which++)
        for (int h = 0; h < md.heads; h++)
          for (size_t j = 0; j < ref_gate_columns(d, &md, which); j++, at++) {
            const size_t i = (size_t)h * ref_gate_columns(d, &md, which) + j;
            const double should = first_gate(d, &md, which, h, j);
            const double is = ref_gate(d, &md, which, offset[at], rate && !which ? rate[i] : 0.0);
            checked++;
            /* 0.5413 is a threshold of 1 to five digits; of a decay 1 - it counts */
            if (!(fabs(is - should) <= 1e-4 * (which ? should : fmax(should / 100, 1 - should))))
              failed("%s: gate %d of head %d of layer %d begins as %g, not %g", of.name, which, h,
                     l, is, should);
          }
    }
    free(w.params);
    miras_close(m);
  }
  if (checked < 1000) failed("%d gates", checked);
  finish();
}

static void check_units(int from, int to) {
  tally count = {0, 0, 0.0};
  subject of;
  start();
  for (int n = from; n < to && subject_at(n, &of); n++) {
    check_unit(&of, &count);
    of.d.dropout = 0.3f;
    if (n % 4 == 0 || n >= 3 * MIRAS_PRESET_ROWS + OPTIONS) check_unit(&of, &count);
  }
  tally_print(&count);
  finish();
}

static void test_unit_rows(void **state) {
  (void)state;
  check_units(0, 3 * MIRAS_PRESET_ROWS);
}

static void test_unit_options(void **state) {
  (void)state;
  check_units(3 * MIRAS_PRESET_ROWS, 3 * MIRAS_PRESET_ROWS + OPTIONS);
}

static void test_unit_layers(void **state) {
  (void)state;
  check_units(3 * MIRAS_PRESET_ROWS + OPTIONS, INT_MAX);
}

/* ---- the parameters ---- */

static int next_view(const miras_view *views, int count, int *at, const char *of, const char *name,
                     int rank, int a, int b, int c, int decay) {
  const miras_view *v = &views[*at];
  const size_t size = (size_t)a * (size_t)b * (size_t)c;
  if (*at >= count) {
    failed("%s: %s is missing", of, name);
    return 0;
  }
  if (strcmp(v->name, name) != 0) {
    failed("%s: parameter %d is %s, not %s", of, *at, v->name, name);
    return 0;
  }
  if (v->count != size || v->rank != rank || v->shape[0] != a || v->shape[1] != b ||
      v->shape[2] != c)
    failed("%s: %s: rank %d, shape %d %d %d, not %d, %d %d %d", of, name, v->rank, v->shape[0],
           v->shape[1], v->shape[2], rank, a, b, c);
  if (v->weight_decay != decay) failed("%s: %s: decay %d", of, name, v->weight_decay);
  (*at)++;
  return 1;
}

/* Biases of projections, those that have a length. */
static void next_biases(const miras_view *views, int count, int *at, const char *of, int l,
                        const int *length) {
  static const char *const names[] = {"q", "k", "v", "out_gate", "gates"};
  for (int i = 0; i < COUNT(names); i++) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.%s.bias", l, names[i]);
    if (length[i] > 0) next_view(views, count, at, of, name, 1, length[i], 1, 1, 0);
  }
}

/* The memory that has the values of slots. */
static miras_memory_desc with_slots(miras_memory_desc d, int slots) {
  d.key_dim = slots;
  return d;
}

/* Outer parameters of a memory. */
static void next_of_memory(const miras_view *views, int count, int *at, const char *of, int l,
                           const miras_memory_desc *of_layer, int slots) {
  const miras_memory_desc whole = slots ? with_slots(*of_layer, slots) : *of_layer, *md = &whole;
  const int H = md->heads, P = (int)ref_shape_of(md).weights, F = ref_features(md);
  const int entries = md->decay_gate == MIRAS_GATE_ENTRY, norm = md->inner_norm;
  const struct { const char *name; int rows, columns; } each[] = {
    {"init", P > 0 ? H : 0, P}, {"gain", norm ? H : 0, md->value_dim},
    {"ridge", ref_squares(md) ? H : 0, F}, {"decay_log", entries ? H : 0, P},
    {"bias", norm ? H : 0, md->value_dim}, {"rates", md->token_rates ? md->chunk : 0, 0}};
  for (int i = 0; i < COUNT(each); i++) {
    char name[64];
    snprintf(name, sizeof name, "blocks.%d.memory.%s", l, each[i].name);
    if (each[i].rows > 0)
      next_view(views, count, at, of, name, each[i].columns ? 2 : 1, each[i].rows,
                each[i].columns ? each[i].columns : 1, 1, 0);
    snprintf(name, sizeof name, "blocks.%d.slots.init", l);
    if (i == 0 && slots > 0)
      next_view(views, count, at, of, name, 2, H, slots * of_layer->key_dim, 1, 0);
  }
}

/* Do views lie behind one another, in front of the end of the parameters? */
static void check_places(miras_model *m, const char *of) {
  size_t total = 0, sum = 0;
  int count = 0;
  const miras_view *views = miras_model_views(m, &count);
  miras_model_params(m, &total);
  for (int v = 0; v < count; v++) {
    if (views[v].offset < sum) failed("%s: %s overlaps what is before it", of, views[v].name);
    sum = views[v].offset + views[v].count;
  }
  if (sum > total) failed("%s: %zu floats in views, %zu in all", of, sum, total);
}

/* Numbers that gates have beside their offsets, decays and those of preconditioned keys. */
static int rates_of(const miras_layer_desc *d, const miras_memory_desc *md) {
  const int learns = d->mixer.decay_form == MIRAS_DECAY_FORM_RATE ||
                     d->mixer.decay_form == MIRAS_DECAY_FORM_FLOOR ||
                     d->mixer.decay_form == MIRAS_DECAY_FORM_STEEP;
  return md->heads * ((learns ? (int)ref_gate_columns(d, md, REF_KEEP) : 0) +
                      (d->mixer.qk_map == MIRAS_QK_MAP_PRECONDITIONED));
}

static void test_views(void **state) {
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of) && !of.d.pattern[0]; n++) {
    const miras_model_desc *d = &of.d;
    const miras_mixer_desc *mix = &d->layer[0].mixer;
    const miras_memory_desc md = ref_resolve(&d->layer[0].memory);
    const int H = md.heads, values = H * md.value_dim;
    const int written = mix->erase_first ? values : values * md.inner_steps;
    const int all_keys = (mix->qk_heads > 0 ? mix->qk_heads : H) * md.key_dim;
    const int keys = mix->from_values ? 0 : all_keys;
    const int taps = mix->conv_size > 0 ? mix->conv_size : 4;
    const int conv_on = mix->conv_on != MIRAS_CONV_ON_NONE;
    const int own_keys = mix->qk_map == MIRAS_QK_MAP_COMPLEMENT && mix->key_slots == 0
                           ? 0 : keys * md.inner_steps;
    const int experts = d->layer[0].mlp.experts + d->layer[0].mlp.shared_experts;
    const int mlps = experts > 0 ? experts : 1;
    int count = 0, at = 0, columns = 0, projected = 0, rates;
    const miras_view *views;
    miras_model *m = open_model(d, of.name);
    if (m == NULL) continue;
    views = miras_model_views(m, &count);
    for (int i = 0; i < REF_GATES; i++) {
      columns += H * (int)ref_gate_columns(&d->layer[0], &md, i);
      projected += H * (int)ref_gate_projected(&d->layer[0], &md, i);
    }
#define NEXT(...) next_view(views, count, &at, of.name, __VA_ARGS__)
    NEXT("embed.weight", 2, VOCAB, WIDTH, 1, 1);
    for (int l = 0; l < d->layers; l++) {
      char name[64];
#define NAME(text) (snprintf(name, sizeof name, "blocks.%d." text, l), name)
      NEXT(NAME("norm1.gain"), 1, WIDTH, 1, 1, 0);
      if (keys > 0) NEXT(NAME("q.weight"), 2, WIDTH, keys, 1, 1);
      if (own_keys > 0 && !mix->share_qk) NEXT(NAME("k.weight"), 2, WIDTH, own_keys, 1, 1);
      NEXT(NAME("v.weight"), 2, WIDTH, written, 1, 1);
      if (conv_on && keys > 0) NEXT(NAME("conv_q.weight"), 2, taps, keys, 1, 0);
      if (conv_on && own_keys > 0) NEXT(NAME("conv_k.weight"), 2, taps, own_keys, 1, 0);
      if (mix->conv_on == MIRAS_CONV_ON_ALL)
        NEXT(NAME("conv_v.weight"), 2, taps, written, 1, 0);
      if (mix->conv_bias) {
        if (keys > 0) NEXT(NAME("conv_q.bias"), 1, keys, 1, 1, 0);
        if (keys > 0) NEXT(NAME("conv_k.bias"), 1, own_keys, 1, 1, 0);
        if (mix->conv_on == MIRAS_CONV_ON_ALL)
          NEXT(NAME("conv_v.bias"), 1, written, 1, 1, 0);
      }
      if (mix->from_values)
        NEXT(NAME("inner.weight"), 2, values, 2 * all_keys + (projected > 0) * mix->gate_rank, 1,
             1);
      if (projected > 0) { /* fixed gates have no more than an offset */
        if (!mix->from_values) NEXT(NAME("gates.down"), 2, WIDTH, mix->gate_rank, 1, 1);
        NEXT(NAME("gates.up"), 2, mix->gate_rank, projected, 1, 1);
      }
      if (mix->out_gate_rank > 0) {
        NEXT(NAME("out_gate.down"), 2, WIDTH, mix->out_gate_rank, 1, 1);
        NEXT(NAME("out_gate.up"), 2, mix->out_gate_rank, values, 1, 1);
      }
      if (columns > 0) NEXT(NAME("gates.offset"), 1, columns, 1, 1, 0);
      rates = rates_of(&d->layer[0], &md);
      if (rates > 0) NEXT(NAME("gates.rate"), 1, rates, 1, 1, 0);
      if (mix->qk_map == MIRAS_QK_MAP_ERASE) {
        NEXT(NAME("erase.scale"), 1, keys, 1, 1, 0);
        NEXT(NAME("erase.mix"), 1, keys, 1, 1, 0);
      }
      if (mix->qk_map == MIRAS_QK_MAP_FEEDBACK) NEXT(NAME("feedback.gain"), 1, H, 1, 1, 0);
      if (mix->qk_map == MIRAS_QK_MAP_PRECONDITIONED)
        NEXT(NAME("precondition.centre"), 1, H, 1, 1, 0);
      next_of_memory(views, count, &at, of.name, l, &md, mix->key_slots);
      if (mix->d_skip) NEXT(NAME("skip.gain"), 1, mix->d_skip > 1 ? values : H, 1, 1, 0);
      if (mix->out_norm != MIRAS_NORM_NONE) NEXT(NAME("out_norm.gain"), 1, values, 1, 1, 0);
      if (mix->out_norm == MIRAS_NORM_LAYER) NEXT(NAME("out_norm.bias"), 1, values, 1, 1, 0);
      if (mix->out_gate_rank > 0) NEXT(NAME("out_gate.offset"), 1, values, 1, 1, 0);
      else if (mix->out_gate != MIRAS_FN_NONE)
        NEXT(NAME("out_gate.weight"), 2, WIDTH, values, 1, 1);
      if (mix->projection_bias) {
        const int low = projected > 0 ? mix->gate_rank : 0;
        const int out = mix->out_gate_rank || mix->out_gate == MIRAS_FN_NONE ? 0 : values;
        const int lengths[] = {keys, mix->share_qk ? 0 : own_keys, written, out, low};
        next_biases(views, count, &at, of.name, l, lengths);
      }
      NEXT(NAME("o.weight"), 2, values, WIDTH, 1, 1);
      if (mix->projection_bias) NEXT(NAME("o.bias"), 1, WIDTH, 1, 1, 0);
      NEXT(NAME("norm2.gain"), 1, WIDTH, 1, 1, 0);
      if (d->layer[0].mlp.experts > 0)
        NEXT(NAME("mlp.router"), 2, WIDTH,
             d->layer[0].mlp.experts + (d->layer[0].mlp.shared_experts > 0), 1, 1);
      NEXT(NAME("mlp.gate"), 2, mlps * WIDTH, d->layer[0].mlp.hidden, 1, 1);
      NEXT(NAME("mlp.up"), 2, mlps * WIDTH, d->layer[0].mlp.hidden, 1, 1);
      NEXT(NAME("mlp.down"), 2, mlps * d->layer[0].mlp.hidden, WIDTH, 1, 1);
#undef NAME
    }
    NEXT("norm.gain", 1, WIDTH, 1, 1, 0);
    if (d->untied) NEXT("head.weight", 2, VOCAB, WIDTH, 1, 1);
#undef NEXT
    if (at != count) failed("%s: %d parameters, not %d", of.name, count, at);
    check_places(m, of.name);
    miras_close(m);
  }
  finish();
}

/* A new model with inner norms and keys of length 1 asks as it writes: its queries are the keys of
 * the first of a token's inner_steps; and the values of half its heads, with L_p of all, are large.
 * Others draw all of it apart. */
static void test_first_values(void **state) {
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of) && !of.d.pattern[0]; n++) {
    const miras_memory_desc md = ref_resolve(&of.d.layer[0].memory);
    const size_t dk = (size_t)md.key_dim, keys = dk * (size_t)md.inner_steps;
    const int found = md.inner_norm && of.d.layer[0].mixer.qk_map == MIRAS_QK_MAP_L2;
    miras_model *m = open_model(&of.d, of.name);
    const miras_view *views;
    const float *params;
    size_t query[2] = {0, 0};
    int count = 0;
    if (m == NULL) continue;
    views = miras_model_views(m, &count);
    params = miras_model_params(m, NULL);
    for (int v = 0; v < count; v++) {
      const float *x = params + views[v].offset;
      const int conv = strstr(views[v].name, ".conv_") != NULL;
      double square = 0; /* the mean of all entries' */
      for (size_t i = 0; i < views[v].count; i++) square += (double)x[i] * (double)x[i];
      square /= (double)views[v].count;
      if (strstr(views[v].name, "q.weight") != NULL) query[conv] = views[v].offset;
      if (strstr(views[v].name, "k.weight") != NULL) {
        size_t alike = 0, queries = views[v].count / (size_t)md.inner_steps;
        for (size_t i = 0; i < queries; i++)
          alike += x[i / dk * keys + i % dk] == params[query[conv] + i];
        if (alike != (found ? queries : 0))
          failed("%s: %s: %zu of %zu as in the queries", of.name, views[v].name, alike, queries);
      }
      if (strstr(views[v].name, "memory.init") != NULL && md.architecture == MIRAS_ARCH_MLP &&
          md.depth == 2 && md.retention == MIRAS_RETENTION_LQ) {
        /* two layers, key_dim x hidden and hidden x value_dim */
        const double all = (double)(views[v].count / (size_t)md.heads);
        const double hidden = all / (double)(md.key_dim + md.value_dim);
        square /= (hidden + (double)md.value_dim) / all;
        if (!(fabs((double)views[v].rate / sqrt(square) - 1.0) < 0.1))
          failed("%s: %s: rate %g, entries %g times as large as weights", of.name, views[v].name,
                 (double)views[v].rate, sqrt(square));
      } else if (fabs((double)views[v].rate - 1.0) > 0.0) {
        failed("%s: %s: rate %g", of.name, views[v].name, (double)views[v].rate);
      }
      if (strstr(views[v].name, ".v.weight") != NULL) {
        const size_t columns = views[v].count / WIDTH;
        const int bold = md.bias == MIRAS_BIAS_LP ? md.heads : (md.heads + 1) / 2;
        const size_t large = (size_t)bold * columns / (size_t)md.heads;
        double mean[2] = {0, 0}; /* of a large value's square, and of another's */
        for (size_t i = 0; i < views[v].count; i++)
          mean[i % columns >= large] += (double)x[i] * (double)x[i];
        mean[0] /= (double)large * (found ? 9.0 : 1.0);
        if (large < columns) mean[1] /= (double)(columns - large);
        else mean[1] = 1;
        if (!(mean[0] > 0.8 && mean[0] < 1.25 && mean[1] > 0.8 && mean[1] < 1.25))
          failed("%s: %s: mean squares %g and %g of what they should be", of.name, views[v].name,
                 mean[0], mean[1]);
      }
    }
    miras_close(m);
  }
  finish();
}

/* A new model's parameters are what its views say, each a draw of its own, but for the gates and
 * memories of memory layers, shifts, and what test_first_values is about. */
static void test_drawn_values(void **state) {
  static const char *const own[] = {"gates.offset", "gates.rate", "memory.init", "memory.ridge",
                                    "memory.decay_log", "shift.mix", "precondition.centre"};
  static const char *const shaped[] = {".q.weight", ".v.weight", ".conv_q.weight"};
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of); n++) {
    miras_model *m = open_model(&of.d, of.name);
    const miras_view *views;
    const float *params;
    int count = 0;
    if (m == NULL) continue;
    views = miras_model_views(m, &count);
    params = miras_model_params(m, NULL);
    for (int v = 0; v < count; v++) {
      const miras_view *view = &views[v];
      const int layer = strncmp(view->name, "blocks.", 7) == 0 ? atoi(view->name + 7) : -1;
      const int found = layer >= 0 && inside_found(m, layer);
      int other = 0;
      for (int i = 0; i < COUNT(own); i++) other += strstr(view->name, own[i]) != NULL;
      for (int i = 0; found && i < 3; i++) other += strstr(view->name, shaped[i]) != NULL;
      for (size_t i = 0; !other && i < view->count; i++) {
        const double x = (double)params[view->offset + i];
        const double u = sqrt(3.0) * inside_uniform(view->seed, i);
        const double is = view->mean + view->deviation * u;
        if (fabs(x - is) <= 1e-6 * (fabs(view->mean) + view->deviation)) continue;
        failed("%s: %s[%zu] is %.9g, its view says %.9g", of.name, view->name, i, x, is);
        break;
      }
      for (int i = 0; view->deviation > 0 && i < v; i++)
        if (views[i].deviation > 0 && views[i].seed == view->seed)
          failed("%s: %s is drawn as %s is", of.name, view->name, views[i].name);
    }
    miras_close(m);
  }
  finish();
}

static float *param_of(miras_model *m, const char *name, size_t *count) {
  int views = 0;
  const miras_view *v = miras_model_views(m, &views);
  for (int i = 0; i < views; i++)
    if (strcmp(v[i].name, name) == 0) {
      *count = v[i].count;
      return miras_model_params(m, NULL) + v[i].offset;
    }
  fail_msg("no %s", name);
  return NULL;
}

/* ---- slots that a router picks ---- */

/* A token changes the values of so many slots, and those of all others not in a bit; of equal
 * numbers the first are picked. */
static void test_picked_slots(void **state) {
  enum { S = 7, TOP = 2, DV = 6 };
  miras_model_desc d;
  (void)state;
  start();
  for (int equal = 0; equal < 2; equal++) {
    size_t count, seen[S] = {0};
    float before[S * DV], after[S * DV];
    miras_session *s;
    miras_model *m;
    miras_view v;
    assert_int_equal(miras_model_preset(&d, MIRAS_PRESET_RAVEN, 1), MIRAS_OK);
    d.vocab = VOCAB, d.width = WIDTH, d.seed = 7;
    set_fields(&d, "m.mixer.key_slots=7 m.mixer.top_slots=2 m.memory.value_dim=6 m.memory.heads=2 "
                   "m.mixer.gate_rank=5");
    m = open_model(&d, "slots");
    disturb(m, 11);
    if (equal) {
      float *x = param_of(m, "blocks.0.gates.up", &count);
      memset(x, 0, count * sizeof *x);
      x = param_of(m, "blocks.0.gates.offset", &count);
      memset(x, 0, count * sizeof *x);
    }
    s = miras_session_open(m, NULL, NULL, NULL, 0);
    miras_session_step(s, 3);
    assert_int_equal(miras_session_part(s, 0, 0, &v), MIRAS_PART_STATE);
    assert_int_equal(v.count, S * DV);
    assert_int_equal(miras_session_get(s, 0, 1, v.name, before, NULL, 0), MIRAS_OK);
    for (int t = 0; t < 40; t++) {
      size_t moved = 0;
      miras_session_step(s, t * 5 % VOCAB);
      assert_int_equal(miras_session_get(s, 0, 1, v.name, after, NULL, 0), MIRAS_OK);
      for (size_t i = 0; i < S; i++) {
        const unsigned is = memcmp(before + i * DV, after + i * DV, DV * sizeof *after) != 0;
        moved += is, seen[i] += is;
      }
      if (moved != TOP) failed("token %d writes %zu slots", t, moved);
      memcpy(before, after, sizeof before);
    }
    for (size_t i = 0; i < S && equal; i++)
      if (seen[i] != (i < TOP ? 40u : 0u)) failed("slot %zu is written %zu times", i, seen[i]);
    miras_close(s), miras_close(m);
  }
  finish();
}

/* Decays of slots that a router picks begin so that slots of equal shares keep what the descriptor
 * says: 1/2 in the first head of two, 3/4 in the other. */
static void test_first_slots(void **state) {
  miras_model_desc d;
  miras_model *m;
  const float *x;
  size_t count;
  (void)state;
  start();
  assert_int_equal(miras_model_preset(&d, MIRAS_PRESET_RAVEN, 1), MIRAS_OK);
  d.vocab = VOCAB, d.width = WIDTH;
  set_fields(&d, "m.mixer.key_slots=5 m.mixer.top_slots=3 m.memory.heads=2");
  m = open_model(&d, "first slots");
  x = param_of(m, "blocks.0.gates.offset", &count);
  assert_int_equal(count, 2 + 2 * 5);
  for (int h = 0; h < 2; h++) {
    const double keeps = exp(-log1p(exp((double)x[h])) / 3), is = h ? 0.75 : 0.5;
    if (fabs(keeps - is) > 1e-6) failed("head %d keeps %g, not %g", h, keeps, is);
  }
  miras_close(m);
  finish();
}

/* ---- experts ---- */

/* Experts that a token has not chosen are not even read, and learn nothing; of equals the first are
 * chosen, and so they are of a text of no numbers, which stays the only one. */
static void test_experts(void **state) {
  enum { E = 6, F = 9, T = 21 };
  static const char *const parts[] = {"blocks.0.mlp.gate", "blocks.0.mlp.up", "blocks.0.mlp.down"};
  miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 4);
  miras_trainer *tr;
  miras_model *m;
  float *router, *embed, loss[2];
  size_t count, routes;
  (void)state;
  start();
  d.layers = 1;
  d.untied = 1;
  set_fields(&d, "mlp.experts=6 mlp.experts_per_token=2 mlp.shared_experts=1 mlp.hidden=9");
  m = open_model(&d, "experts");
  tr = open_trainer(m, NULL);
  assert_non_null(tr);
  disturb(m, 5);
  draw_text(T);
  router = param_of(m, "blocks.0.mlp.router", &routes);
  memset(router, 0, routes * sizeof(float)); /* all are equal */
  loss[0] = loss_of(tr, tokens, targets, BATCH, T, 1);
  assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
  for (int i = 0; i < 3; i++) {
    float *w = param_of(m, parts[i], &count);
    const float *g = miras_trainer_grads(tr) + (w - miras_model_params(m, NULL));
    const size_t each = count / (E + 1);
    for (size_t e = 0; e <= E; e++) {
      double most = 0.0;
      for (size_t j = 0; j < each; j++) most = fmax(most, fabs((double)g[e * each + j]));
      if ((e < 2 || e == E) != (most > 1e-6)) failed("%s of expert %d: %g", parts[i], (int)e, most);
    }
    for (size_t j = 2 * each; j < E * each; j++) w[j] = NAN;
  }
  loss[1] = loss_of(tr, tokens, targets, BATCH, T, 1);
  if (memcmp(loss, loss + 1, sizeof *loss) != 0) failed("experts that nobody chose change %g to %g",
                                                        (double)loss[0], (double)loss[1]);
  assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
  miras_model_params(m, &count);
  for (size_t j = 0; j < count; j++) /* of which the router's adjoint alone knows all experts */
    if (!(fabs((double)miras_trainer_grads(tr)[j]) < 1e30)) failed("gradient %d", (int)j);
  embed = param_of(m, "embed.weight", &count);
  for (int i = 0; i < BATCH * T; i++) tokens[i] = (int32_t)(i / T ? 1 + draw() % 10 : draw() % 11);
  tokens[3] = 0;
  embed[2] = NAN;
  {
    miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
    for (int b = 0; b < BATCH; b++) {
      int finite = 1;
      const float *y;
      miras_session_reset(s);
      y = miras_session_feed(s, tokens + b * T, NULL, T);
      for (int i = 0; i < VOCAB; i++) finite &= fabs((double)y[i]) < 1e30;
      if (finite != b) failed("text %d, with%s NaN", b, b ? "out" : "");
    }
    miras_close(s);
  }
  close_both(m, tr);
  finish();
}

/* ---- sessions ---- */

/* Step, prefill and every cut of a prefill: the same logits and the same state, to the bit. */
static void test_session_bits(void **state) {
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of); n++) {
    enum { T = 37 };
    miras_model *m;
    miras_session *s;
    int32_t text[T];
    float stepped[T][VOCAB];
    unsigned char *kept;
    const float *is;
    size_t bytes = 0;
    double once, parts;
    if (n % THIN != 1 % THIN) continue;
    m = open_model(&of.d, of.name);
    if (m == NULL) continue;
    disturb(m, 3);
    s = miras_session_open(m, NULL, NULL, NULL, 0);
    assert_non_null(s);
    for (int t = 0; t < T; t++) text[t] = (int32_t)(draw() % VOCAB);
    for (int t = 0; t < T; t++) {
      is = miras_session_step(s, text[t]);
      assert_non_null(is);
      memcpy(stepped[t], is, sizeof stepped[t]);
    }
    assert_true(miras_session_position(s) == T);
    miras_session_state(s, &bytes);
    kept = (unsigned char *)zeros(bytes, 1);
    memcpy(kept, miras_session_state(s, NULL), bytes);
    for (int a = 1; a <= T; a += THIN > 1 ? 3 : 1) {   /* 37 is one of them */
      miras_session_reset(s);
      is = miras_session_feed(s, text, NULL, (size_t)a);
      if (is == NULL || memcmp(is, stepped[a - 1], sizeof stepped[0]) != 0) {
        failed("%s: prefill of %d differs from steps", of.name, a);
        break;
      }
      if (a < T) is = miras_session_feed(s, text + a, NULL, (size_t)(T - a));
      if (is == NULL || memcmp(is, stepped[T - 1], sizeof stepped[0]) != 0) {
        failed("%s: prefill cut at %d differs from steps", of.name, a);
        break;
      }
      if (memcmp(miras_session_state(s, NULL), kept, bytes) != 0) {
        failed("%s: prefill cut at %d leaves another state", of.name, a);
        break;
      }
    }
    for (int pass = 0; pass < 8; pass++) { /* many cuts */
      miras_session_reset(s);
      for (int t = 0, by; t < T; t += by) {
        by = 1 + below(pass < 4 ? 4 : 12);
        if (by > T - t) by = T - t;
        is = miras_session_feed(s, text + t, NULL, (size_t)by);
        if (is == NULL || memcmp(is, stepped[t + by - 1], sizeof stepped[0]) != 0) {
          failed("%s: prefill in parts, at %d: differs from steps", of.name, t);
          break;
        }
      }
      if (memcmp(miras_session_state(s, NULL), kept, bytes) != 0)
        failed("%s: prefill in parts leaves another state", of.name);
    }
    /* a zeroed state is a fresh one; a snapshot continues */
    memset(miras_session_state(s, NULL), 0, bytes);
    is = miras_session_feed(s, text, NULL, 10);
    if (is == NULL || memcmp(is, stepped[9], sizeof stepped[0]) != 0)
      failed("%s: a zeroed state is no reset", of.name);
    memcpy(kept, miras_session_state(s, NULL), bytes);
    miras_session_feed(s, text, NULL, 7);
    memcpy(miras_session_state(s, NULL), kept, bytes);
    is = miras_session_step(s, text[10]);
    if (is == NULL || memcmp(is, stepped[10], sizeof stepped[0]) != 0)
      failed("%s: a snapshot does not continue", of.name);
    /* scoring in parts */
    miras_session_reset(s);
    once = score_of(s, text, text + 1, T - 1);
    miras_session_reset(s);
    parts = score_of(s, text, text + 1, 11);
    parts += score_of(s, text + 11, text + 12, T - 12);
    if (!(fabs(once - parts) <= 1e-9 * once)) failed("%s: scores in parts", of.name);
    free(kept);
    miras_close(s);
    miras_close(m);
  }
  finish();
}

/* Over several tiles and rings: any cut gives the same bits, and what a training pass over the text
 * says of a token is what the session says. */
static void test_hybrid_sessions(void **state) {
  enum { T = 290 };
  static const miras_trainer_desc room = {1, T, 0, 0, 0, NULL, NULL};
  (void)state;
  start();
  for (int n = 0; n < HYBRIDS; n += THIN) {
    subject of = hybrid(n);
    miras_model *m;
    miras_trainer *tr;
    miras_session *s;
    static int32_t text[T], target[T];
    static float stepped[T][VOCAB];
    unsigned char *kept;
    size_t bytes;
    of.d.layer[1].attention.window = n % 2 ? 70 : 64;
    if (of.d.layer[0].type == MIRAS_LAYER_MAC) of.d.layer[0].attention.window = n % 2 ? 70 : 64;
    m = open_model(&of.d, of.name);
    tr = open_trainer(m, &room);
    if (tr == NULL) continue;
    disturb(m, 5);
    s = miras_session_open(m, NULL, NULL, NULL, 0);
    for (int t = 0; t < T; t++) text[t] = (int32_t)(draw() % VOCAB);
    for (int t = 0; t < T; t++)
      memcpy(stepped[t], miras_session_step(s, text[t]), sizeof stepped[t]);
    miras_session_state(s, &bytes);
    kept = (unsigned char *)zeros(bytes, 1);
    memcpy(kept, miras_session_state(s, NULL), bytes);
    for (int pass = 0; pass < 12; pass += THIN > 1 ? 4 : 1) {
      miras_session_reset(s);
      for (int t = 0, by; t < T; t += by) {
        by = 1 + below(pass < 6 ? 20 : 200);
        if (by > T - t) by = T - t;
        if (memcmp(miras_session_feed(s, text + t, NULL, (size_t)by), stepped[t + by - 1],
                   sizeof stepped[0]) != 0) {
          failed("%s: prefill of %d at %d differs from steps", of.name, by, t);
          break;
        }
      }
      if (memcmp(miras_session_state(s, NULL), kept, bytes) != 0)
        failed("%s: prefill in parts leaves another state", of.name);
    }
    for (int t = 1; t < T; t += THIN > 1 ? 51 : 17) {
      double top = (double)stepped[t][0], sum = 0.0, expected;
      float loss;
      for (int i = 0; i < T; i++) target[i] = -1;
      target[t] = text[t - 1];
      for (int o = 0; o < VOCAB; o++)
        if ((double)stepped[t][o] > top) top = (double)stepped[t][o];
      for (int o = 0; o < VOCAB; o++) sum += exp((double)stepped[t][o] - top);
      expected = top + log(sum) - (double)stepped[t][target[t]];
      loss = loss_of(tr, text, target, 1, T, t % 2);
      if (!(fabs((double)loss - expected) <= 1e-6 * (1.0 + expected)))
        failed("%s: token %d costs %.9g in training, %.9g in a session", of.name, t, (double)loss,
               expected);
    }
    free(kept);
    miras_close(s);
    close_both(m, tr);
  }
  finish();
}

/* Longer texts than a tile of tokens holds, from positions off its grid: prefill and score say what
 * steps say, and leave the same state. */
static void check_tiles(const subject *of) {
  enum { T = 211 };
  static const int starts[] = {1, 3, 37, 63, 65};
  static float stepped[T][VOCAB];
  int32_t text[T + 1];
  double sums[T + 1] = {0.0};
  miras_model *m = open_model(&of->d, of->name);
  miras_session *s;
  unsigned char *kept;
  size_t bytes = 0;
  if (m == NULL) return;
  disturb(m, 5);
  s = miras_session_open(m, NULL, NULL, NULL, 0);
  assert_non_null(s);
  for (int t = 0; t <= T; t++) text[t] = (int32_t)(draw() % VOCAB);
  for (int t = 0; t < T; t++) {
    double top = -HUGE_VAL, total = 0.0;
    memcpy(stepped[t], miras_session_step(s, text[t]), sizeof stepped[t]);
    for (int o = 0; o < VOCAB; o++) top = fmax(top, (double)stepped[t][o]);
    for (int o = 0; o < VOCAB; o++) total += exp((double)stepped[t][o] - top);
    sums[t + 1] = sums[t] + top + log(total) - (double)stepped[t][text[t + 1]];
  }
  miras_session_state(s, &bytes);
  kept = (unsigned char *)zeros(bytes, 1);
  memcpy(kept, miras_session_state(s, NULL), bytes);
  for (int i = 0; i < COUNT(starts); i++) {
    const int from = starts[i], to = T - 10 * i, n = to - from; /* 211 - 1 to 171 - 65 */
    const float *is;
    double sum;
    miras_session_reset(s);
    miras_session_feed(s, text, NULL, (size_t)from);
    is = miras_session_feed(s, text + from, NULL, (size_t)n);
    if (is == NULL || memcmp(is, stepped[to - 1], sizeof stepped[0]) != 0)
      failed("%s: prefill of %d tokens at %d differs from steps", of->name, n, from);
    if (to == T && memcmp(miras_session_state(s, NULL), kept, bytes) != 0)
      failed("%s: prefill of %d tokens at %d leaves another state", of->name, n, from);
    miras_session_reset(s);
    miras_session_feed(s, text, NULL, (size_t)from);
    sum = score_of(s, text + from, text + from + 1, (size_t)n);
    if (!(fabs(sum - (sums[to] - sums[from])) <= 1e-6 * sums[to]))
      failed("%s: %d tokens at %d score %.9g, not %.9g", of->name, n, from, sum,
             sums[to] - sums[from]);
    if (to == T && memcmp(miras_session_state(s, NULL), kept, bytes) != 0)
      failed("%s: a score of %d tokens at %d leaves another state", of->name, n, from);
  }
  free(kept);
  miras_close(s);
  miras_close(m);
}

static void test_session_tiles(void **state) {
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of); n++)
    if (my_share()) check_tiles(&of);
  finish();
}

/* One sequence, one target: the training forward and a session see the same probability. */
static void test_session_training(void **state) {
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of); n++) {
    miras_model *m;
    miras_trainer *tr;
    miras_session *s;
    if (!is_option(n) && of.d.layer[0].memory.chunk == 1) continue;
    if (n % THIN != 2 % THIN) continue;
    m = open_model(&of.d, of.name);
    tr = open_trainer(m, NULL);
    if (tr == NULL) continue;
    disturb(m, 4);
    s = miras_session_open(m, NULL, NULL, NULL, 0);
    assert_non_null(s);
    for (int T = 1; T <= CONTEXT; T++) {
      float loss;
      double score;
      draw_text(CONTEXT);
      for (int t = 0; t < T - 1; t++) targets[t] = -1;
      targets[T - 1] = (int32_t)(draw() % VOCAB);
      loss = loss_of(tr, tokens, targets, 1, T, T % 2);
      miras_session_reset(s);
      score = score_of(s, tokens, targets, (size_t)T);
      if (!(fabs((double)loss - score) <= 1e-6 * (1.0 + score)))
        failed("%s T %d: loss %.9g, score %.9g", of.name, T, (double)loss, score);
    }
    miras_close(s);
    close_both(m, tr);
  }
  finish();
}

/* ---- threads, neighbours ---- */

/* A job system that takes the tasks in another order each time. */
typedef struct shuffle {
  int workers;
  uint64_t calls;
} shuffle;

static void shuffled_run(void *user, int count, void (*task)(void *argument, int index, int worker),
                         void *argument) {
  shuffle *s = (shuffle *)user;
  int *order = (int *)zeros((size_t)count, sizeof(int));
  for (int i = 0; i < count; i++) order[i] = i;
  for (int i = count - 1; i > 0; i--) {
    const int j = (int)(draw() % (uint64_t)(i + 1)), t = order[i];
    order[i] = order[j];
    order[j] = t;
  }
  for (int i = 0; i < count; i++) task(argument, order[i], (int)(draw() % (uint64_t)s->workers));
  s->calls++;
  free(order);
}

static void test_threads(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind <= MIRAS_PRESET_ROWS; kind++) {
    float loss = 0.0f, *grads = NULL, *params = NULL;
    const int experts = kind == MIRAS_PRESET_ROWS;
    const char *name = experts ? "experts" : miras_preset_name((miras_preset)kind);
    for (int way = 0; way < 9; way++) { /* none; 1..4 shuffled; a pool of 1..4 */
      miras_model_desc d = describe(experts ? MIRAS_PRESET_DELTANET_MEMORY : (miras_preset)kind, 4);
      miras_trainer_desc room = {BATCH, CONTEXT, 0, 0, 0, NULL, NULL};
      shuffle s = {0, 0};
      miras_parallel p;
      const miras_parallel *pool = NULL;
      miras_model *m;
      miras_trainer *tr;
      miras_adamw_options o = MIRAS_ADAMW(0, 0);
      miras_session *session;
      const float *row;
      size_t count = 0;
      float is;
      if (THIN > 1 && way > 0 && way % 4 != kind % 4) continue;
      if (way >= 1 && way <= 4) {
        s.workers = way;
        p.run = shuffled_run;
        p.user = &s;
        p.workers = way;
        room.parallel = &p;
      } else if (way > 4) {
        pool = miras_pool_open(way - 4, NULL, NULL, 0);
        assert_non_null(pool);
        room.parallel = pool;
      }
      d.dropout = 0.1f;
      if (experts) set_fields(&d, "mlp.experts=4 mlp.shared_experts=1 mlp.hidden=70");
      m = open_model(&d, name);
      tr = open_trainer(m, &room);
      if (tr == NULL) {
        if (pool != NULL) miras_pool_close(pool);
        continue;
      }
      random_state = 99;
      draw_text(21);
      miras_model_params(m, &count);
      is = loss_of(tr, tokens, targets, BATCH, 21, 1);
      miras_trainer_backward(tr, NULL);
      if (way == 0) {
        loss = is;
        grads = (float *)zeros(count, sizeof(float));
        memcpy(grads, miras_trainer_grads(tr), count * sizeof(float));
      } else {
        if (memcmp(&is, &loss, sizeof loss) != 0)
          failed("%s, way %d: loss %.9g, not %.9g", name, way, (double)is, (double)loss);
        if (memcmp(grads, miras_trainer_grads(tr), count * sizeof(float)) != 0)
          failed("%s, way %d: other gradients", name, way);
      }
      o.clip = 1.0f;
      o.weight_decay = 0.1f;
      norm_of_step(tr, &o, 1e-3f);
      if (way == 0) {
        params = (float *)zeros(count, sizeof(float));
        memcpy(params, miras_model_params(m, NULL), count * sizeof(float));
      } else if (memcmp(params, miras_model_params(m, NULL), count * sizeof(float)) != 0) {
        failed("%s, way %d: other parameters after a step", name, way);
      }
      session = miras_session_open(m, NULL, NULL, NULL, 0);
      row = session == NULL ? NULL : miras_session_feed(session, tokens, NULL, 19);
      if (row == NULL) failed("%s, way %d: no prefill", name, way);
      miras_close(session);
      if (way >= 2 && way <= 4 && s.calls == 0) failed("%s: the job system was not asked", name);
      close_both(m, tr);
      if (pool != NULL) miras_pool_close(pool);
    }
    free(grads);
    free(params);
  }
  finish();
}

/* Tasks from the last to the first. */
static void backward_run(void *user, int count, void (*task)(void *argument, int index, int worker),
                         void *argument) {
  (void)user;
  for (int i = count - 1; i >= 0; i--) task(argument, i, 0);
}

/* Each memory, each tile and each sequence has a place of its own: what one writes past its end
 * stays unseen as long as its neighbour comes after it, or where places end in padding. So every
 * subject is trained with its tasks in order, from the last to the first and shuffled, with as many
 * tokens as a place holds and numbers of floats that fill it. */
static void test_orders(void **state) {
  enum { T = 16 };
  subject of;
  (void)state;
  start();
  for (int n = 0; subject_at(n, &of); n++) {
    float loss = 0.0f, *grads = NULL;
    size_t count = 0;
    if (!my_share()) continue;
    for (int way = 0; way < 3; way++) {
      shuffle s = {2, 0};
      const miras_parallel p = {way == 1 ? backward_run : shuffled_run, &s, 2};
      miras_trainer_desc room = {BATCH, T, 0, 0, 0, NULL, NULL};
      miras_model *m = open_model(&of.d, of.name);
      miras_trainer *tr;
      float is;
      room.parallel = way == 0 ? NULL : &p;
      tr = open_trainer(m, &room);
      if (tr == NULL) break;
      disturb(m, 9);
      random_state = 98;
      draw_text(T);
      miras_model_params(m, &count);
      is = loss_of(tr, tokens, targets, BATCH, T, 1);
      assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
      if (way == 0) {
        loss = is;
        grads = (float *)zeros(count, sizeof(float));
        memcpy(grads, miras_trainer_grads(tr), count * sizeof(float));
      }
      if (memcmp(&is, &loss, sizeof loss) != 0) failed("%s, order %d: another loss", of.name, way);
      if (memcmp(grads, miras_trainer_grads(tr), count * sizeof(float)) != 0)
        failed("%s, order %d: other gradients", of.name, way);
      close_both(m, tr);
    }
    free(grads);
  }
  finish();
}

/* The view of `split` that is v of the same model with its MLPs inside: parameters of the MLP of
 * layer l are those of layer 2 l + 1, the others of a layer those of layer 2 l. */
static const miras_view *split_view(const miras_model *split, const miras_view *v) {
  const char *rest = starts_with(v->name, "blocks.") ? strchr(v->name + 7, '.') : NULL;
  const miras_view *views;
  char name[sizeof v->name];
  int count = 0, l = rest == NULL ? 0 : 2 * atoi(v->name + 7);
  if (rest != NULL && (starts_with(rest, ".mlp.") || starts_with(rest, ".norm2."))) l++;
  if (rest == NULL) snprintf(name, sizeof name, "%s", v->name);
  else snprintf(name, sizeof name, "blocks.%d%s", l, rest);
  views = miras_model_views(split, &count);
  for (int i = 0; i < count; i++)
    if (strcmp(views[i].name, name) == 0 && views[i].count == v->count) return &views[i];
  failed("no %s", name);
  return v;
}

/* Layers with an MLP inside and the same layers without, each followed by an MLP layer, are one
 * model: bits of losses, gradients, logits, with dropout, in running texts, on 1 and 4 workers. */
static void check_split(miras_preset kind, float dropout, int workers) {
  enum { T = 144 };
  static const int32_t stream[1] = {1};
  static int32_t text[T], target[T];
  miras_trainer_desc room = {1, T, 2, 0, 0, NULL, NULL};
  subject of = row(kind, 4);
  miras_model *m[2];
  miras_trainer *tr[2] = {NULL, NULL};
  miras_session *s[2];
  const miras_parallel *pool = workers > 1 ? miras_pool_open(workers, NULL, NULL, 0) : NULL;
  int count, other;
  if (pool != NULL) room.parallel = pool;
  of.d.layers = 0;
  of.d.heads = HEADS;
  of.d.dropout = dropout;
  of.d.layer[1].mlp.hidden = of.d.layer[3].mlp.hidden = of.d.layer[0].mlp.hidden;
  snprintf(of.d.pattern, sizeof of.d.pattern, "mwm");
  m[0] = open_model(&of.d, of.name);
  without_mlp(&of.d.layer[0]);
  without_mlp(&of.d.layer[1]);
  snprintf(of.d.pattern, sizeof of.d.pattern, "mgwgmg");
  m[1] = open_model(&of.d, of.name);
  if (m[0] == NULL || m[1] == NULL) return;
  disturb(m[0], 7);
  miras_model_views(m[0], &count);
  miras_model_views(m[1], &other);
  for (int v = 0; v < count; v++) {
    const miras_view *from = miras_model_views(m[0], NULL) + v, *to = split_view(m[1], from);
    memcpy(miras_model_params(m[1], NULL) + to->offset,
           miras_model_params(m[0], NULL) + from->offset, from->count * sizeof(float));
  }
  assert_int_equal(count, other);
  for (int t = 0; t < T; t++) {
    text[t] = (int32_t)(draw() % VOCAB);
    target[t] = (int32_t)(draw() % VOCAB);
  }
  for (int i = 0; i < 2; i++) {
    tr[i] = open_trainer(m[i], &room);
    s[i] = miras_session_open(m[i], NULL, NULL, NULL, 0);
    assert_non_null(s[i]);
  }
  for (int pass = 0; pass < 2; pass++) { /* a new text, and one that goes on */
    float loss[2];
    for (int i = 0; i < 2; i++) {
      loss[i] = loss_carried(tr[i], text, target, 1, T, stream, NULL);
      assert_int_equal(miras_trainer_backward(tr[i], NULL), MIRAS_OK);
    }
    if (memcmp(&loss[0], &loss[1], sizeof loss[0]) != 0)
      failed("%s: loss %.9g, and %.9g split", of.name, (double)loss[0], (double)loss[1]);
  }
  for (int v = 0; v < count; v++) {
    const miras_view *a = miras_model_views(m[0], NULL) + v, *b = split_view(m[1], a);
    if (!same_bits(miras_trainer_grads(tr[0]) + a->offset, miras_trainer_grads(tr[1]) + b->offset,
                   a->count))
      failed("%s: another gradient of %s", of.name, a->name);
  }
  for (int t = 0; t < 3; t++) {
    const float *a = miras_session_feed(s[0], text, NULL, 1 + 60 * (size_t)t);
    const float *b = miras_session_feed(s[1], text, NULL, 1 + 60 * (size_t)t);
    if (a == NULL || b == NULL || !same_bits(a, b, VOCAB)) failed("%s: other logits", of.name);
  }
  for (int i = 0; i < 2; i++) {
    miras_close(s[i]);
    close_both(m[i], tr[i]);
  }
  if (pool != NULL) miras_pool_close(pool);
}

static void test_split(void **state) {
  static const miras_preset kinds[] = {MIRAS_PRESET_TITANS, MIRAS_PRESET_GATED_DELTANET,
                                       MIRAS_PRESET_MESA};
  (void)state;
  start();
  random_state = 77;
  for (int i = 0; i < 2 * COUNT(kinds); i++)
    for (int workers = 1; workers <= 4; workers += 3)
      check_split(kinds[i / 2], i % 2 ? 0.2f : 0.0f, workers);
  finish();
}

/* An MLP layer holds nothing of a text, and says so. */
static void test_no_state(void **state) {
  subject of = hybrid(8);
  miras_model *m = open_model(&of.d, of.name);
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  const unsigned char *at;
  miras_view part;
  char why[200] = "";
  float x[WIDTH];
  size_t bytes;
  (void)state;
  start();
  assert_non_null(s);
  assert_int_equal(miras_session_part(s, 1, 0, &part), MIRAS_PART_NONE);
  assert_int_not_equal(miras_session_part(s, 2, 0, &part), MIRAS_PART_NONE);
  assert_int_equal(miras_session_get(s, 1, 0, part.name, x, why, sizeof why), MIRAS_ERR_ARGUMENT);
  if (strstr(why, "layer is 1; it must be one with heads") == NULL) failed("\"%s\"", why);
  assert_int_equal(miras_session_set(s, 3, 0, part.name, x, why, sizeof why), MIRAS_ERR_ARGUMENT);
  if (strstr(why, "layer is 3") == NULL) failed("\"%s\"", why);
  miras_close(s);
  miras_close(m);
  of = hybrid(9);   /* a text in such a model is its position */
  m = open_model(&of.d, of.name);
  s = miras_session_open(m, NULL, NULL, NULL, 0);
  assert_non_null(s);
  miras_session_feed(s, tokens, NULL, 5);
  at = (const unsigned char *)miras_session_state(s, &bytes);
  assert_int_equal(bytes, 64);
  for (size_t i = 8; i < bytes; i++) assert_int_equal(at[i], 0);
  miras_close(s);
  miras_close(m);
  finish();
}

/* What is not a target does not matter when it comes later or stands in another sequence. */
static void test_neighbours(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_model_desc d = describe((miras_preset)kind, 4);
    const char *name = miras_preset_name((miras_preset)kind);
    enum { T = 19, SEEN = 11 };
    float loss = 0.0f, is, *grads;
    size_t count = 0;
    miras_model *m = open_model(&d, name);
    miras_trainer *tr = open_trainer(m, NULL);
    if (tr == NULL) continue;
    miras_model_params(m, &count);
    grads = (float *)zeros(count, sizeof(float));
    disturb(m, 6);
    draw_text(T);
    for (int t = 0; t < BATCH * T; t++)
      if (t >= SEEN) targets[t] = -1;
    for (int pass = 0; pass < 3; pass++) { /* as drawn; other later tokens; another neighbour */
      for (int t = 0; t < BATCH * T; t++)
        if ((pass == 1 && t >= SEEN && t < T) || (pass == 2 && t >= T))
          tokens[t] = (int32_t)(draw() % VOCAB);
      memset(miras_trainer_grads(tr), 0, count * sizeof(float));
      is = loss_of(tr, tokens, targets, BATCH, T, 1);
      miras_trainer_backward(tr, NULL);
      if (pass == 0) {
        loss = is;
        memcpy(grads, miras_trainer_grads(tr), count * sizeof(float));
        continue;
      }
      if (memcmp(&is, &loss, sizeof loss) != 0) failed("%s, pass %d: another loss", name, pass);
      for (size_t i = 0; i < count; i++)
        if (grads[i] < miras_trainer_grads(tr)[i] || grads[i] > miras_trainer_grads(tr)[i]) {
          failed("%s, pass %d: other gradients (%zu: %.9g, not %.9g)", name, pass, i,
                 (double)miras_trainer_grads(tr)[i], (double)grads[i]);
          break;
        }
    }
    is = loss_of(tr, tokens, targets, 1, T, 0);
    if (memcmp(&is, &loss, sizeof loss) != 0) failed("%s: a batch of one: another loss", name);
    is = loss_of(tr, tokens, targets, 1, SEEN, 0);
    if (memcmp(&is, &loss, sizeof loss) != 0) failed("%s: without the rest: another loss", name);
    free(grads);
    close_both(m, tr);
  }
  finish();
}

/* ---- training ---- */

static void test_training(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_model_desc d = describe((miras_preset)kind, 4);
    const char *name = miras_preset_name((miras_preset)kind);
    miras_adamw_options o = MIRAS_ADAMW(0, 0);
    float first, last = 0.0f;
    miras_model *m;
    miras_trainer *tr;
    if (kind % THIN) continue;
    d.untied = 0;
    m = open_model(&d, name);
    tr = open_trainer(m, NULL);
    if (tr == NULL) continue;
    o.clip = 1.0f;
    random_state = 11;
    draw_text(20);
    first = loss_of(tr, tokens, targets, BATCH, 20, 0);
    if (!(fabs((double)first - log(VOCAB)) < 0.5))
      failed("%s: a new model's loss is %g, not about %g", name, (double)first, log(VOCAB));
    for (int step = 0; step < 30; step++) {
      float norm;
      loss_of(tr, tokens, targets, BATCH, 20, 1);
      assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
      norm = norm_of_step(tr, &o, 1e-2f);
      if (!(norm > 0.0f) || !(norm < 1e6f)) failed("%s: gradient norm %g", name, (double)norm);
    }
    last = loss_of(tr, tokens, targets, BATCH, 20, 0);
    /* clipped gradients: Yaad's, with its steep sign function, are large and it learns slowly */
    if (!(last < (kind == MIRAS_PRESET_YAAD ? 0.9f : 0.6f) * first))
      failed("%s: the loss goes from %g to %g", name, (double)first, (double)last);
    if (miras_trainer_steps(tr) != 30) failed("%s: %d steps", name, (int)miras_trainer_steps(tr));
    close_both(m, tr);
  }
  finish();
}

/* Does the parameter change in steps that train patterns alone? By hand: */
static int tuned(const char *name) {
  return strstr(name, "memory.init") != NULL || strstr(name, ".gates.") != NULL ||
         strcmp(name, "norm.gain") == 0;
}

/* Steps that train some parameters: the others keep their bits, and have no part in the norm. */
static void test_train_only(void **state) {
  static const char patterns[] = "*memory.init,blocks.*.gates.*,norm.gain";
  miras_model_desc d = describe(MIRAS_PRESET_TITANS, 4);
  miras_model *m = open_model(&d, "model");
  miras_trainer *tr = open_trainer(m, NULL);
  size_t count = 0, floats = 0;
  int view_count = 0, changed = 0;
  float *w = miras_model_params(m, &count), *before = (float *)malloc(count * sizeof *before);
  const miras_view *v = miras_model_views(m, &view_count);
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  (void)state;
  start();
  assert_non_null(tr);
  assert_non_null(before);
  o.weight_decay = 0.1f;
  for (int i = 0; i < view_count; i++)
    if (tuned(v[i].name)) floats += v[i].count;
  assert_int_equal(miras_model_train_only(m, "*.init,no such"), 0);
  assert_int_equal(miras_model_train_only(m, ""), 0);
  assert_int_equal(miras_model_train_only(NULL, "*"), 0);
  for (int i = 0; i < view_count; i++) assert_int_equal(v[i].frozen, 0);
  for (int round = 0; round < 3; round++) {      /* all, some, all */
    const int some = round == 1;
    double sum = 0;
    float norm;
    if (round) {
      const size_t chosen = miras_model_train_only(m, some ? patterns : NULL);
      if (some) assert_int_equal(chosen, floats);
    }
    random_state = 12 + (uint64_t)round;
    draw_text(20);
    memcpy(before, w, count * sizeof *w);
    loss_of(tr, tokens, targets, BATCH, 20, 1);
    assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
    for (int i = 0; i < view_count; i++)
      for (size_t j = 0; j < v[i].count && (!some || tuned(v[i].name)); j++) {
        const double g = (double)miras_trainer_grads(tr)[v[i].offset + j];
        sum += g * g;
      }
    norm = norm_of_step(tr, &o, 1e-2f);
    if (!(fabs((double)norm - sqrt(sum)) < 1e-5 * sqrt(sum)))
      failed("round %d: the norm is %g, not %g", round, (double)norm, sqrt(sum));
    for (int i = 0; i < view_count; i++) {
      const size_t at = v[i].offset, bytes = v[i].count * sizeof *w;
      const int moved = memcmp(w + at, before + at, bytes) != 0, is = !some || tuned(v[i].name);
      changed += moved;
      if (moved && !is) failed("%s changes though it is frozen", v[i].name);
      if (!moved && is && !strstr(v[i].name, "memory.bias"))
        failed("round %d: %s does not change", round, v[i].name);
    }
    for (size_t j = 0; j < count; j++)
      if (miras_trainer_grads(tr)[j] != 0) {
        failed("round %d: gradient %d is not cleared", round, (int)j);
        break;
      }
  }
  assert_true(changed > 0);
  free(before);
  close_both(m, tr);
  finish();
}

/* A model whose matrices take fewer bytes has the bits of one of floats with the same, rounded
 * numbers; files of either are loaded into models of any weights. */
static void *model_file(const miras_model *m, size_t *bytes) {
  void *file = malloc(*bytes = miras_save_to(m, NULL, 0));
  assert_non_null(file);
  assert_int_equal(miras_save_to(m, file, *bytes), *bytes);
  return file;
}

/* Logits behind every token of a text in pieces; returns their floats. */
static float *told(const miras_model *m, int steps) {
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  float *y = (float *)malloc((size_t)(steps * VOCAB) * sizeof *y);
  assert_non_null(s);
  assert_non_null(y);
  for (int i = 0, n; i < steps; i += n) {
    const float *logits;
    n = i % 3 ? 1 : steps - i < 5 ? steps - i : 5;
    logits = miras_session_feed(s, tokens + i, NULL, (size_t)n);
    memset(y + i * VOCAB, 0, (size_t)(n * VOCAB) * sizeof *y);
    memcpy(y + (i + n - 1) * VOCAB, logits, VOCAB * sizeof *y);
  }
  miras_close(s);
  return y;
}

/* A model with one NaN says so in every form, also where a larger number stands before it. */
static void test_weights_damaged(void **state) {
  (void)state;
  start();
  for (int form = 0; form < MIRAS_WEIGHTS_COUNT; form++) {
    miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 4);
    miras_model *m = open_model(&d, "model"), *packed;
    float *w = miras_model_params(m, NULL), *y;
    size_t bytes;
    void *file;
    int count, finite = 0;
    const miras_view *v = miras_model_views(m, &count);
    for (int i = 0; i < count; i++)
      if (strstr(v[i].name, "o.weight")) w[v[i].offset] = 5, w[v[i].offset + 1] = NAN;
    file = model_file(m, &bytes);
    d.weights = (miras_weights)form;
    packed = open_model(&d, "packed model");
    assert_int_equal(miras_load_from(packed, file, bytes, NULL, 0), MIRAS_OK);
    random_state = 12;
    draw_text(20);
    y = told(packed, 20);
    for (int i = 0; i < VOCAB; i++) finite += isfinite(y[19 * VOCAB + i]) != 0;
    if (finite) failed("weights %d: %d logits of a model with a NaN are finite", form, finite);
    free(y), free(file);
    miras_close(m), miras_close(packed);
  }
  finish();
}

/* Two bytes as a number of half precision. */
static double half_value(const unsigned char *p) {
  const int word = p[0] | p[1] << 8, power = word >> 10 & 31, rest = word & 1023;
  const double size = power ? ldexp(1024 + rest, power - 25) : ldexp(rest, -24);
  return word >> 15 ? -size : size;
}

/* Views by name, written in parts into a model that was opened empty, make the model that a file
 * makes, whatever its weights; places that are not there are refused. */
static void write_in_parts(miras_model *to, const miras_model *from) {
  int count;
  const miras_view *v = miras_model_views(from, &count);
  for (int i = 0; i < count; i++) {
    const miras_view *place = miras_model_view(to, v[i].name);
    const size_t rows = v[i].rank > 1 ? (size_t)v[i].shape[0] : 1, cols = v[i].count / rows;
    float *x = (float *)malloc(v[i].count * sizeof *x);
    assert_non_null(place);
    assert_non_null(x);
    for (size_t col = 0; col < cols; col += 32) {
      const size_t n = cols - col < 32 ? cols - col : 32, half = rows / 64 * 32;   /* no block */
      assert_int_equal(miras_model_view_read(from, &v[i], 0, rows, col, n, x), MIRAS_OK);
      assert_int_equal(miras_model_view_write(to, place, half, rows - half, col, n, x + half * n),
                       MIRAS_OK);
      assert_int_equal(miras_model_view_write(to, place, 0, half, col, n, x), MIRAS_OK);
    }
    free(x);
  }
}

/* The same by lines, of any length and from any place on. */
static void write_by_lines(miras_model *to, const miras_model *from) {
  int count;
  const miras_view *v = miras_model_views(from, &count);
  for (; count; count--, v++) {
    const miras_view *place = miras_model_view(to, v->name);
    const size_t rows = v->rank > 1 ? (size_t)v->shape[0] : 1, cols = v->count / rows;
    const size_t lines = v->turned ? rows : cols, each = v->turned ? cols : rows;
    float *x = (float *)malloc(v->count * sizeof *x), *y = (float *)malloc(v->count * sizeof *x);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(miras_model_view_read(from, v, 0, rows, 0, cols, x), MIRAS_OK);
    for (size_t i = 0; i < v->count; i++)
      y[i] = v->turned ? x[i] : x[i % each * cols + i / each];
    if (v->rank == 2) {
      for (size_t line = 0, n; line < lines; line += n) {
        const size_t half = each / 64 * 32;
        n = lines - line < 5 ? lines - line : 5;
        assert_int_equal(miras_model_view_write_lines(to, place, line, n, 0, half,
                                                      MIRAS_WEIGHTS_FLOAT, y + line * each,
                                                      each * sizeof *y), MIRAS_OK);
        assert_int_equal(miras_model_view_write_lines(to, place, line, n, half, each - half,
                                                      MIRAS_WEIGHTS_FLOAT, y + line * each + half,
                                                      each * sizeof *y), MIRAS_OK);
      }
    } else {
      assert_int_equal(miras_model_view_write_lines(to, place, 0, 0, 0, 0, MIRAS_WEIGHTS_FLOAT,
                                                    NULL, 0), MIRAS_ERR_ARGUMENT);
      assert_int_equal(miras_model_view_write(to, place, 0, rows, 0, cols, x), MIRAS_OK);
    }
    free(x), free(y);
  }
}

/* Lines in the form that a matrix is held in: every number of it, in pieces, comes back to the bit;
 * what it holds else stays. */
static void test_view_lines(void **state) {
  static const size_t sizes[][2] = {{32, 16}, {64, 32}, {96, 50}, {64, 64}, {128, 200}};
  (void)state;
  start();
  for (int form = MIRAS_WEIGHTS_BF16; form <= MIRAS_WEIGHTS_Q4; form++)
    for (size_t size = 0; size < 5; size++) {
      miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 4);
      const size_t in = sizes[size][0], out = sizes[size][1];
      const size_t block = form < MIRAS_WEIGHTS_Q8 ? 64 : form == MIRAS_WEIGHTS_Q8 ? 34 : 20;
      const size_t stride = in / 32 * block + 3;   /* of any place */
      unsigned char *from = (unsigned char *)calloc(out, stride);
      float *x = (float *)malloc(in * out * sizeof *x);
      miras_model *m;
      const miras_view *v;
      d.width = (int)in;
      d.layer[0].mlp.hidden = (int)out;
      d.weights = (miras_weights)form;
      m = open_model(&d, "packed model");
      v = miras_model_view(m, "blocks.0.mlp.up");
      assert_non_null(v);
      assert_int_equal(v->shape[0], in);
      assert_int_equal(v->shape[1], out);
      for (size_t i = 0; i < out * stride; i++) from[i] = (unsigned char)(i * i * 7 + i / 5);
      for (size_t j = 0; j < out; j++)   /* scales, least numbers and words are finite */
        for (size_t i = 0; i < in; i++) {
          unsigned char *at = from + j * stride;
          if (block == 64) at[2 * i + 1] &= 0xbb;
          else if (i % 32 == 0) at[i / 32 * block + 1] &= 0xbb, at[i / 32 * block + 3] &= 0xbb;
        }
      for (size_t line = 0, n = 0; line < out; line += n)
        for (size_t first = 0; first < in; first += 32) {
          n = line == 0 ? 3 : out - line < 41 ? out - line : 41;
          assert_int_equal(miras_model_view_write_lines(
            m, v, line, n, first, 32, (miras_weights)form,
            from + line * stride + first / 32 * block, stride), MIRAS_OK);
        }
      assert_int_equal(miras_model_view_read(m, v, 0, in, 0, out, x), MIRAS_OK);
      for (size_t j = 0; j < out; j++)
        for (size_t i = 0; i < in; i++) {
          const unsigned char *at = from + j * stride + i / 32 * block;
          const double s = half_value(at), least = half_value(at + 2);
          const double q = block == 34 ? (double)(signed char)at[2 + i % 32]
                                       : (double)(at[4 + i % 16] >> (i % 32 < 16 ? 0 : 4) & 15);
          uint32_t word;
          float want = 0;
          if (form == MIRAS_WEIGHTS_BF16)
            word = (uint32_t)at[2 * (i % 32)] << 16 | (uint32_t)at[2 * (i % 32) + 1] << 24,
            memcpy(&want, &word, 4);
          else if (form == MIRAS_WEIGHTS_F16) want = (float)half_value(at + 2 * (i % 32));
          else want = (float)(s * q + (block == 20 ? least : 0));
          if (fabsf(x[i * out + j] - want) > 0)
            failed("weights %d, %d by %d: (%d, %d) is %g and not %g", form, (int)in, (int)out,
                   (int)i, (int)j, (double)x[i * out + j], (double)want);
        }
      /* refusals: another form, which is asked for by no lines; places; parts of blocks */
      for (int other = 0; other < MIRAS_WEIGHTS_COUNT; other++)
        assert_int_equal(miras_model_view_write_lines(m, v, 0, 0, 0, 0, (miras_weights)other, NULL,
                                                      0),
                         !other || other == form ? MIRAS_OK : MIRAS_ERR_DESC);
      assert_int_equal(miras_model_view_write_lines(m, v, out, 1, 0, 32, (miras_weights)form, from,
                                                    stride), MIRAS_ERR_ARGUMENT);
      assert_int_equal(miras_model_view_write_lines(m, v, 0, 1, in, 32, (miras_weights)form, from,
                                                    stride), MIRAS_ERR_ARGUMENT);
      assert_int_equal(miras_model_view_write_lines(m, v, 0, 1, 0, 32, (miras_weights)form, NULL,
                                                    stride), MIRAS_ERR_ARGUMENT);
      assert_int_equal(miras_model_view_write_lines(m, v, 0, 1, 0, 16, (miras_weights)form, from,
                                                    stride),
                       form < MIRAS_WEIGHTS_Q8 ? MIRAS_OK : MIRAS_ERR_ARGUMENT);
      assert_int_equal(miras_model_view_write_lines(m, v, 0, 1, 0, 1, MIRAS_WEIGHTS_FLOAT, x, 6),
                       MIRAS_ERR_ARGUMENT);
      assert_int_equal(miras_model_view_write_lines(NULL, v, 0, 0, 0, 0, MIRAS_WEIGHTS_FLOAT, x, 4),
                       MIRAS_ERR_ARGUMENT);
      miras_close(m);
      free(from), free(x);
    }
  finish();
}

static void test_view_parts(void **state) {
  (void)state;
  start();
  for (int form = 0; form < MIRAS_WEIGHTS_COUNT; form++) {
    miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 4), whole;
    miras_model *m = open_model(&d, "model"), *loaded, *empty;
    const miras_view *w = miras_model_view(m, "blocks.0.mlp.up");
    size_t bytes, learned = 0;
    float *a, *b, x[64] = {0}, y[64];
    void *file = model_file(m, &bytes);
    char why[200];
    int count, i;
    d.weights = (miras_weights)form;
    loaded = open_model(&d, "model from a file");
    assert_int_equal(miras_load_from(loaded, file, bytes, NULL, 0), MIRAS_OK);
    empty = miras_model_open_empty(&d, NULL, why, sizeof why);
    assert_non_null(empty);
    assert_non_null(w);
    write_in_parts(empty, m);
    random_state = 12;
    draw_text(20);
    a = told(loaded, 20), b = told(empty, 20);
    if (memcmp(a, b, 20 * VOCAB * sizeof *a) != 0) failed("weights %d: views differ", form);
    free(b);
    miras_close(empty);
    empty = miras_model_open_empty(&d, NULL, why, sizeof why);
    assert_non_null(empty);
    write_by_lines(empty, m);
    b = told(empty, 20);
    if (memcmp(a, b, 20 * VOCAB * sizeof *a) != 0) failed("weights %d: lines differ", form);
    assert_int_equal(miras_model_view_read(empty, miras_model_view(empty, w->name), 0, 1, 0,
                                           (size_t)w->shape[1], y), MIRAS_OK);
    for (i = 0; i < w->shape[1]; i++) assert_true(isfinite(y[i]) && fabsf(y[i]) < 10);
    /* what is not there */
    assert_int_equal(miras_model_view_write(m, NULL, 0, 1, 0, 1, x), MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_model_view_write(loaded, w, 0, 1, 0, 1, x), MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_model_view_write(m, w, 0, 1, 0, 1, NULL), MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_model_view_read(m, w, (size_t)w->shape[0], 1, 0, 1, y),
                     MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_model_view_read(m, w, 0, 1, 1, (size_t)w->shape[1], y),
                     MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_model_view_read(m, w, 1, (size_t)-1, 0, 1, y), MIRAS_ERR_ARGUMENT);
    assert_null(miras_model_view(m, "blocks.0.mlp"));
    assert_null(miras_model_view(NULL, w->name));
    assert_null(miras_model_view(m, NULL));
    /* the descriptor as a model has it, the numbers that it learns */
    whole = d;
    w = miras_model_views(loaded, &count);
    for (i = 0; i < count; i++) learned += w[i].count;
    assert_int_equal(miras_model_desc_resolve(&whole, why, sizeof why), learned);
    assert_memory_equal(&whole, miras_model_desc_of(loaded), sizeof whole);
    whole.width = -1;
    d = whole;
    assert_int_equal(miras_model_desc_resolve(&whole, why, sizeof why), 0);
    assert_non_null(strstr(why, "width is -1"));
    assert_memory_equal(&whole, &d, sizeof whole);
    free(a), free(b), free(file);
    miras_close(m), miras_close(loaded), miras_close(empty);
  }
  finish();
}

/* The descriptor of a layer is that of its letter in the pattern. */
static void test_layers_of_pattern(void **state) {
  miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 4);
  miras_model *m;
  (void)state;
  strcpy(d.pattern, "(ma)*2g");
  d.layers = 0;
  m = open_model(&d, "pattern");
  for (int i = 0; i < 5; i++)
    assert_int_equal(miras_model_layer(m, i)->letter, "mamag"[i]);
  assert_int_equal(miras_model_layer(m, 4)->type, MIRAS_LAYER_MLP);
  assert_null(miras_model_layer(m, 5));
  assert_null(miras_model_layer(m, -1));
  assert_null(miras_model_layer(NULL, 0));
  miras_close(m);
  d = describe(MIRAS_PRESET_GATED_DELTANET, 4);
  m = open_model(&d, "no pattern");
  assert_ptr_equal(miras_model_layer(m, miras_model_desc_of(m)->layers - 1),
                   &miras_model_desc_of(m)->layer[0]);
  miras_close(m);
}

static void test_weights(void **state) {
  static const double worst[MIRAS_WEIGHTS_COUNT] = {0,         1.0 / 256, 1.0 / 2048,
                                                    1.0 / 254, 1.0 / 8,   1.0 / 8};
  const int kinds[] = {MIRAS_PRESET_GATED_DELTANET, MIRAS_PRESET_TITANS, MIRAS_PRESET_RWKV7_MEMORY,
                       MIRAS_PRESET_DELTANET_MEMORY};
  (void)state;
  start();
  for (int i = 0; i < COUNT(kinds); i++)
    for (int untied = 0; untied < 2; untied++) {
      miras_model_desc d = describe((miras_preset)kinds[i], 4);
      miras_model *m;
      size_t whole, first, second, count = 0;
      void *file;
      float *y;
      d.untied = untied;
      if (i == 3) set_fields(&d, "mlp.experts=5 mlp.shared_experts=1 mlp.hidden=36");
      m = open_model(&d, "model");
      file = model_file(m, &whole);
      random_state = 12;
      draw_text(20);
      y = told(m, 20);
      for (int form = 1; form < MIRAS_WEIGHTS_COUNT; form++) {
        miras_model_desc e = d;
        miras_model *packed, *rounded = open_model(&d, "model"), *again;
        void *own, *copy;
        float *a, *b;
        const float *w = miras_model_params(m, NULL), *x;
        int view_count;
        const miras_view *v = miras_model_views(m, &view_count);
        e.weights = (miras_weights)form;
        packed = open_model(&e, "packed model");
        again = open_model(&e, "packed model");
        assert_null(miras_model_params(packed, &count));
        assert_int_equal(count, 0);
        assert_int_equal(miras_load_from(packed, file, whole, NULL, 0), MIRAS_OK);
        own = model_file(packed, &first);
        assert_int_equal(miras_load_from(rounded, own, first, NULL, 0), MIRAS_OK);
        assert_int_equal(miras_load_from(again, own, first, NULL, 0), MIRAS_OK);
        copy = model_file(again, &second);
        if (second != first || memcmp(own, copy, first) != 0)
          failed("weights %d: a saved model comes back as another", form);
        if (first >= whole) failed("weights %d: no shorter file", form);
        x = miras_model_params(rounded, NULL);
        for (int j = 0; j < view_count; j++)
          for (size_t k = 0; k < v[j].count; k++) {
            const float was = w[v[j].offset + k], is = x[v[j].offset + k];
            double most = worst[form] * fabs((double)was) + (form == 2 ? 3e-8 : 0);
            if (form >= MIRAS_WEIGHTS_Q8 && v[j].weight_decay) {   /* half a step of the largest */
              const size_t cols = (size_t)v[j].shape[v[j].rank - 1], deep = v[j].turned ? 1 : cols;
              const size_t all = v[j].turned ? cols : (size_t)v[j].shape[0];
              const size_t at = v[j].turned ? k % cols : k / cols, from = k - at % 32 * deep;
              const int q8 = form == MIRAS_WEIGHTS_Q4 && v[j].turned;
              const int held = q8 ? MIRAS_WEIGHTS_Q8 : form;
              most = 0;
              for (size_t l = 0; l < 32 && at / 32 * 32 + l < all; l++)
                if (fabs((double)w[v[j].offset + from + l * deep]) > most)
                  most = fabs((double)w[v[j].offset + from + l * deep]);
              most *= worst[held] * 1.02;
            }
            if (v[j].weight_decay ? !(fabs((double)was - (double)is) <= most) : was != is) {
              failed("weights %d: %s[%d] is %g and was %g", form, v[j].name, (int)k, (double)is,
                     (double)was);
              break;
            }
          }
        a = told(packed, 20), b = told(rounded, 20);
        if (memcmp(a, b, (size_t)(20 * VOCAB) * sizeof *a) != 0)
          failed("%s, weights %d: other bits than of floats", miras_preset_name(kinds[i]), form);
        if (!memcmp(a, y, (size_t)(20 * VOCAB) * sizeof *a))
          failed("weights %d change nothing", form);
        free(a), free(b), free(own), free(copy);
        miras_close(packed), miras_close(rounded), miras_close(again);
      }
      free(y), free(file);
      miras_close(m);
    }
  finish();
}

/* A file of short matrices is used where it lies if it begins at a multiple of 64 bytes. Nothing
 * writes into it; else, and in other forms, matrices are copied. */
static void test_weights_in_place(void **state) {
  (void)state;
  start();
  for (int form = 0; form < MIRAS_WEIGHTS_COUNT; form++)
    for (int held = 0; held < MIRAS_WEIGHTS_COUNT; held++)
      for (int apart = 0; apart < 2; apart++) {
        const int place = form == held && form > MIRAS_WEIGHTS_FLOAT && !apart;
        miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 4), said;
        miras_model *m = open_model(&d, "model"), *there, *copy;
        miras_result result;
        unsigned char *room, *bytes, *same;
        size_t n, whole;
        char why[200] = "";
        float *a, *b, x[4] = {1, 2, 3, 4};
        int count;
        void *file = model_file(m, &whole);
        d.weights = (miras_weights)form;
        miras_close(m);
        m = open_model(&d, "packed model");
        assert_int_equal(miras_load_from(m, file, whole, NULL, 0), MIRAS_OK);
        n = miras_save_to(m, NULL, 0);
        room = (unsigned char *)malloc(n + 128);
        same = (unsigned char *)malloc(n);
        assert_non_null(room);
        assert_non_null(same);
        bytes = room + (64 - (uintptr_t)room % 64) + 16 * apart;
        assert_int_equal(miras_save_to(m, bytes, n), n);
        memcpy(same, bytes, n);
        memset(&said, 0, sizeof said);
        assert_int_equal(miras_model_desc_from(&said, bytes, n), MIRAS_OK);
        assert_int_equal(said.weights, form);
        d.weights = (miras_weights)held;
        copy = miras_model_open_from(bytes, n, 0, &d, NULL, &result, why, sizeof why);
        if (!copy) fail_msg("%s", why);
        there = miras_model_open_from(bytes, n, 1, &d, NULL, &result, why, sizeof why);
        if (!there) fail_msg("%s", why);
        assert_int_equal(result, MIRAS_OK);
        random_state = 12;
        draw_text(20);
        a = told(copy, 20), b = told(there, 20);
        if (memcmp(a, b, 20 * VOCAB * sizeof *a) != 0)
          failed("weights %d of %d: in place the model says something else", held, form);
        for (const miras_view *v = miras_model_views(there, &count); count--; v++)
          assert_int_equal(miras_model_view_write(there, v, 0, 1, 0, 1, x),
                           place && v->weight_decay ? MIRAS_ERR_STATE : MIRAS_OK);
        why[0] = 0;
        result = miras_load_from(there, file, whole, why, sizeof why);
        assert_int_equal(result, place ? MIRAS_ERR_STATE : MIRAS_OK);
        if (place) assert_non_null(strstr(why, "bytes of the caller's"));
        assert_memory_equal(bytes, same, n);
        if (!apart && !held) {   /* a wrong checksum is what one call alone looks at */
          bytes[n - 1] ^= 1;
          assert_null(miras_model_open_from(bytes, n, 0, &d, NULL, &result, why, sizeof why));
          assert_int_equal(result, MIRAS_ERR_FORMAT);
          bytes[n - 1] ^= 1;
          assert_null(miras_model_open_from(bytes, n / 2, 1, &d, NULL, &result, why, sizeof why));
          assert_int_equal(result, MIRAS_ERR_FORMAT);
          assert_null(miras_model_open_from(NULL, n, 1, &d, NULL, &result, why, sizeof why));
          assert_int_equal(result, MIRAS_ERR_ARGUMENT);
        }
        miras_close(m), miras_close(there), miras_close(copy);
        free(a), free(b), free(room), free(same), free(file);
      }
  finish();
}

/* What is not meant is refused. */
static void test_weights_refused(void **state) {
  miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 4);
  miras_trainer_desc room;
  miras_model *m;
  char why[256];
  (void)state;
  d.weights = MIRAS_WEIGHTS_COUNT;
  assert_int_equal(miras_model_size(&d, why, sizeof why), 0);
  assert_non_null(strstr(why, "weights is 6"));
  d.weights = MIRAS_WEIGHTS_Q8;
  m = open_model(&d, "packed model");
  memset(&room, 0, sizeof room);
  room.context = 16;
  room.only = "*.q.weight";
  assert_int_equal(miras_trainer_size(m, &room, why, sizeof why), 0);
  assert_string_equal(why, "only is \"*.q.weight\"; it matches blocks.0.q.weight, which the model "
                           "holds as weights 3, but what moves must be float");
  assert_null(miras_trainer_open(m, &room, NULL, NULL, 0));
  miras_close(m);
  d.width = 64; /* rows of two blocks of 32, of which any part is written and read */
  m = open_model(&d, "packed model");
  assert_non_null(m);
  for (int i = 0; i < 8; i++) {
    static const size_t places[8][2] = {{0, 64}, {0, 32}, {32, 32}, {64, 0},
                                        {0, 16}, {16, 48}, {16, 16}, {32, 33}};
    const miras_view *v = miras_model_view(m, "embed.weight");
    float x[64] = {0}, y[64];
    for (int j = 0; j < 64; j++) x[j] = (float)(j % 8 * 127) / 7;
    assert_int_equal(miras_model_view_write(m, v, 1, 1, places[i][0], places[i][1], x),
                     i < 7 ? MIRAS_OK : MIRAS_ERR_ARGUMENT);
    assert_int_equal(miras_model_view_read(m, v, 1, 1, places[i][0], places[i][1], y),
                     i < 7 ? MIRAS_OK : MIRAS_ERR_ARGUMENT);
    for (size_t j = 0; i < 7 && j < places[i][1]; j++)
      assert_true(fabsf(x[j] - y[j]) <= 0.51f);
  }
  miras_close(m);
}

/* A trainer keeps at most 2^25 logits at a time. */
static void test_many_words(void **state) {
  miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 4);
  miras_trainer_desc room;
  miras_model *m;
  size_t size[3];
  (void)state;
  d.vocab = 1 << 16;
  m = open_model(&d, "a model of many words");
  assert_non_null(m);
  memset(&room, 0, sizeof room);
  for (int i = 0; i < 3; i++) {
    room.context = 256 << i;
    size[i] = miras_trainer_size(m, &room, NULL, 0);
  }
  assert_true(size[1] - size[0] >= ((size_t)256 << 16) * sizeof(float));
  assert_true(size[2] - size[1] < ((size_t)32 << 16) * sizeof(float));
  miras_close(m);
}

/* Three steps of AdamW against the textbook, in double, every view at its own rate; gradients add
 * up and are cleared. */
static void test_adamw(void **state) {
  miras_model_desc d = describe(MIRAS_PRESET_MONETA, 4);
  miras_model *m;
  miras_trainer *tr;
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  double *w, *m1, *m2;
  size_t count = 0;
  int view_count = 0;
  const miras_view *views;
  (void)state;
  start();
  m = open_model(&d, "model");
  tr = open_trainer(m, NULL);
  assert_non_null(tr);
  views = miras_model_views(m, &view_count);
  miras_model_params(m, &count);
  w = (double *)ref_zeros(count);
  m1 = (double *)ref_zeros(count);
  m2 = (double *)ref_zeros(count);
  o.weight_decay = 0.1f;
  random_state = 12;
  for (int step = 1; step <= 3; step++) {
    const double peak = 1e-3 * step, b1 = step < 3 ? (double)0.8f : 0, b2 = 0.95, eps = 1e-8;
    double norm = 0.0, scale = 1.0;
    float is;
    const float *g = miras_trainer_grads(tr);
    o.clip = step == 2 ? 0.0f : 0.25f;
    o.beta1 = step < 3 ? 0.8f : 0.0f;
    for (int twice = 0; twice < 2; twice++) { /* gradients of two batches add up */
      float *before = (float *)zeros(count, sizeof(float));
      memcpy(before, g, count * sizeof(float));
      if (twice == 0) draw_text(9);
      loss_of(tr, tokens, targets, BATCH, 9, 1);
      miras_trainer_backward(tr, NULL);
      for (size_t i = 0; i < count; i++)
        if (twice && !(fabs((double)g[i] - 2.0 * (double)before[i]) <=
                       2e-6 * fabs((double)before[i]) + 1e-6)) {
          failed("gradients do not add up: %g after %g", (double)g[i], (double)before[i]);
          break;
        }
      free(before);
    }
    for (size_t i = 0; i < count; i++) {
      w[i] = (double)miras_model_params(m, NULL)[i];
      norm += (double)g[i] * (double)g[i];
    }
    norm = sqrt(norm);
    if (o.clip > 0.0f && norm > (double)o.clip) scale = (double)o.clip / norm;
    for (int v = 0; v < view_count; v++)
      for (size_t i = views[v].offset; i < views[v].offset + views[v].count; i++) {
        const double gi = (double)g[i] * scale, rate = peak * (double)views[v].rate;
        m1[i] = b1 * m1[i] + (1.0 - b1) * gi;
        m2[i] = b2 * m2[i] + (1.0 - b2) * gi * gi;
        if (views[v].weight_decay) w[i] -= rate * (double)o.weight_decay * w[i];
        w[i] -=
          rate * (m1[i] / (1.0 - pow(b1, step))) / (sqrt(m2[i] / (1.0 - pow(b2, step))) + eps);
      }
    is = norm_of_step(tr, &o, (float)peak);
    if (!(fabs((double)is - norm) <= 1e-5 * norm)) failed("norm %g, not %g", (double)is, norm);
    for (int v = 0; v < view_count; v++)
      for (size_t i = views[v].offset; i < views[v].offset + views[v].count; i++) {
        /* a gradient near epsilon makes the quotient a matter of the last bits */
        if (fabs((double)g[i]) > 0.0) failed("the gradient is not cleared");
        if (!(fabs((double)miras_model_params(m, NULL)[i] - w[i]) <= 1e-6 + 1e-3 * peak)) {
          failed("step %d: %s[%zu] is %.9g, not %.9g", step, views[v].name, i - views[v].offset,
                 (double)miras_model_params(m, NULL)[i], w[i]);
          break;
        }
      }
  }
  free(w);
  free(m1);
  free(m2);
  close_both(m, tr);

  for (uint64_t step = 0; step < 120; step++) {
    const double peak = (double)2e-3f, low = (double)0.1f;
    const float rate = miras_schedule_cosine(step, 10, 100, 2e-3f, 0.1f);
    if (!(rate >= 0.0f) || !((double)rate <= peak * 1.000001)) failed("rate %g", (double)rate);
    if (step >= 10 && step <= 100) {
      const double x = (double)(step - 10) / 90.0;
      const double expected = peak * (low + (1.0 - low) * 0.5 * (1.0 + cos(3.14159265358979 * x)));
      if (!(fabs((double)rate - expected) <= 0.05 * peak))
        failed("rate at %d is %g, not %g", (int)step, (double)rate, expected);
    }
    if (step > 100 && !(fabs((double)rate - peak * low) <= 1e-8))
      failed("after the end: %g", (double)rate);
    if (step > 0 && step < 10 && !(rate > miras_schedule_cosine(step - 1, 10, 100, 2e-3f, 0.1f)))
      failed("no warm-up at %d", (int)step);
  }
  finish();
}

/* Dropout is for training only, and its loss and gradients are those of the masks in use. */
static void test_dropout(void **state) {
  enum { T = 10 };
  tally count = {0, 0, 0.0};
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS + HYBRIDS - TYPES; kind++) {
    const int type = kind - MIRAS_PRESET_ROWS + TYPES;
    subject of = type < TYPES ? row((miras_preset)kind, 4) : hybrid(type);
    const int before = failures;
    miras_model *plain, *m;
    miras_trainer *plain_tr, *tr;
    float without, with;
    wide w;
    if (kind % THIN != 1 % THIN) continue;
    /* as in test_gradient */
    if (of.d.layer[0].memory.bias == MIRAS_BIAS_HUBER_MIXTURE)
      of.d.layer[0].memory.threshold = sqrtf((float)ref_resolve(&of.d.layer[0].memory).value_dim);
    plain = open_model(&of.d, of.name);
    plain_tr = open_trainer(plain, NULL);
    if (plain_tr == NULL) continue;
    of.d.dropout = 0.3f;
    m = open_model(&of.d, of.name);
    tr = open_trainer(m, NULL);
    assert_non_null(tr);
    settle(m, &of, T, &w);
    memcpy(miras_model_params(plain, NULL), miras_model_params(m, NULL), w.count * sizeof(float));
    without = loss_of(plain_tr, tokens, targets, BATCH, T, 1);
    with = loss_of(tr, tokens, targets, BATCH, T, 0);
    if (memcmp(&with, &without, sizeof with) != 0) failed("%s: dropout outside training", of.name);
    with = loss_of(tr, tokens, targets, BATCH, T, 1);
    check_loss(&of, T, "dropped loss", (double)with,
               ref_model_loss(&w.r, tokens, targets, BATCH, T, NULL, NULL));
    assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
    for (int v = 0; v < w.r.view_count; v++)
      if (failures < before + 6)
        check_view(&of, m, &w, &w.r.views[v], T, 0, 0, &count,
                   miras_trainer_grads(tr) + w.r.views[v].offset);
    free(w.params);
    close_both(plain, plain_tr);
    close_both(m, tr);
  }
  tally_print(&count);
  finish();
}

/* Four words of eight letters; a sequence repeats one of them from some letter on. */
static void draw_words(int batch, int T) {
  static const char words[4][9] = {"01234567", "3a905162", "71842a03", "6a428715"};
  for (int b = 0; b < batch; b++) {
    const char *word = words[below(4)];
    const int from = below(8);
    for (int t = 0; t <= T; t++) {
      const char c = word[(from + t) % 8];
      const int32_t token = c == 'a' ? 10 : c - '0';
      if (t < T) tokens[b * T + t] = token;
      if (t > 0) targets[b * T + t - 1] = token;
    }
  }
}

/* A tiny model of every row learns: LEARNT of the first loss is more than what remains after
 * LESSONS steps on ever new text. The best that is possible is 0.06 nats or 3 % (the first letter
 * of a sequence may belong to several words). */
#define LEARNT  0.3
#define LESSONS 60

static void test_learns(void **state) {
  enum { SEQUENCES = 4, T = 32, AGAIN = 6 };
  double slowest = 0.0;
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_model_desc d = describe((miras_preset)kind, 16);
    const char *name = miras_preset_name((miras_preset)kind);
    float first[AGAIN];
    if (kind % (THIN > 1 ? 2 * THIN : 1)) continue;   /* sanitizers see a few rows learn */
    d.width = 32;
    d.layers = 1 + kind % 2;
    d.layer[0].mlp.hidden = 0;
    d.layer[0].mixer.gate_rank = 0;
    d.layer[0].memory.key_dim = d.layer[0].memory.value_dim = 16;
    for (int pass = 0; pass < 2; pass++) { /* the second: a few steps, the same bits */
      const miras_trainer_desc room = {SEQUENCES, T, 0, 0, 0, NULL, NULL};
      miras_model *m = open_model(&d, name);
      miras_trainer *tr = open_trainer(m, &room);
      miras_adamw_options o = MIRAS_ADAMW(0, 0);
      double last = 0.0, ratio;
      if (tr == NULL) break;
      o.clip = 1.0f;
      random_state = 21;
      for (int step = 0; step < (pass == 0 ? LESSONS : AGAIN); step++) {
        float loss;
        draw_words(SEQUENCES, T);
        loss = loss_of(tr, tokens, targets, SEQUENCES, T, 1);
        assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
        norm_of_step(tr, &o, miras_schedule_cosine((uint64_t)step, 5, LESSONS, 1e-2f, 0.1f));
        if (pass == 0 && step < AGAIN) first[step] = loss;
        if (pass == 1 && memcmp(&first[step], &loss, sizeof loss) != 0)
          failed("%s: another loss at step %d of the same training", name, step);
        if (step >= LESSONS - 5) last += (double)loss / 5.0;
      }
      close_both(m, tr);
      if (pass > 0) continue;
      ratio = last / (double)first[0];
      if (!(ratio < LEARNT))
        failed("%s: the loss goes from %g to %g", name, (double)first[0], last);
      if (ratio > slowest) slowest = ratio;
    }
  }
  printf("  what remains of the first loss is at most %.1f %%\n", 100.0 * slowest);
  finish();
}

/* A training that is saved and continued in another model, and a session that is saved in the
 * middle of a chunk, go on as if nothing had happened. */
static void test_resume(void **state) {
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    miras_model_desc d = describe((miras_preset)kind, 4);
    const char *name = miras_preset_name((miras_preset)kind);
    miras_model *m[2];
    miras_trainer *tr[2];
    miras_session *s[2];
    unsigned char *file = NULL;
    size_t bytes = 0, count = 0;
    float logits[VOCAB];
    const float *is;
    d.dropout = 0.1f;
    for (int which = 0; which < 2; which++) {
      m[which] = open_model(&d, name);
      tr[which] = open_trainer(m[which], &running);
    }
    if (tr[0] == NULL || tr[1] == NULL) continue;
    disturb(m[1], 8); /* what is in the file counts */
    for (int half = 0; half < 2; half++) {
      for (int which = 0; which <= half; which++) {
        miras_adamw_options o = MIRAS_ADAMW(0, 0);
        o.clip = 0.5f;
        o.weight_decay = 0.1f;
        random_state = 31 + (uint64_t)half;
        for (int step = 0; step < 4; step++) { /* of a running text and one of its own in turn */
          const int32_t stream[2] = {step % 3, step % 2 ? (step + 1) % 3 : -1};
          draw_text(16);
          loss_carried(tr[which], tokens, targets, BATCH, 16, stream, NULL);
          miras_trainer_backward(tr[which], NULL);
          norm_of_step(tr[which], &o, 3e-3f);
        }
      }
      if (half == 1) continue;
      bytes = miras_save_to(tr[0], NULL, 0);
      file = (unsigned char *)zeros(bytes, 1);
      if (miras_save_to(tr[0], file, bytes) != bytes) failed("%s: not saved", name);
      if (miras_load_from(tr[1], file, bytes, NULL, 0) != MIRAS_OK)
        failed("%s: not loaded", name);
      free(file);
    }
    miras_model_params(m[0], &count);
    if (!same_bits(miras_model_params(m[0], NULL), miras_model_params(m[1], NULL), count))
      failed("%s: training continues differently", name);
    for (int which = 0; which < 2; which++) {
      s[which] = miras_session_open(m[which], NULL, NULL, NULL, 0);
      assert_non_null(s[which]);
    }
    miras_session_feed(s[0], tokens, NULL, 10);
    bytes = miras_save_to(s[0], NULL, 0);
    file = (unsigned char *)zeros(bytes, 1);
    if (miras_save_to(s[0], file, bytes) != bytes) failed("%s: no session saved", name);
    if (miras_load_from(s[1], file, bytes, NULL, 0) != MIRAS_OK)
      failed("%s: no session loaded", name);
    is = miras_session_feed(s[0], tokens + 10, NULL, 8);
    if (is != NULL) memcpy(logits, is, sizeof logits);
    if (is == NULL) failed("%s: no logits", name);
    is = miras_session_feed(s[1], tokens + 10, NULL, 3);
    is = miras_session_feed(s[1], tokens + 13, NULL, 5);
    if (is == NULL || memcmp(is, logits, sizeof logits) != 0)
      failed("%s: a session continues differently", name);
    free(file);
    for (int which = 0; which < 2; which++) {
      miras_close(s[which]);
      close_both(m[which], tr[which]);
    }
  }
  finish();
}

/* ---- wrong calls ---- */

/* Forms of keys and gates that have no meaning: the field is in the sentence. */
static void refused(const miras_model_desc *d, const char *field) {
  char why[200] = "";
  if (miras_model_size(d, why, sizeof why) != 0)
    failed("not refused: %s", field);
  else if (strstr(why, field) == NULL)
    failed("%s is not in \"%s\"", field, why);
}

static void refuse_preconditioned(void) {
  static const char *const fields[] = {"separate_erase", "learning_rate_gate", "decay_gate",
                                       "qk_heads", "rope.type", "inner_steps", "type"};
  for (int i = 0; i < COUNT(fields); i++) {
    miras_model_desc d = describe(MIRAS_PRESET_PGDN, 4);
    miras_layer_desc *l = &d.layer[0];
    if (i == 0) l->memory.separate_erase = 0; /* and keys say what is erased */
    if (i == 1) l->memory.learning_rate_gate = MIRAS_GATE_CHANNEL;
    if (i == 2)
      l->memory.decay_gate = MIRAS_GATE_CONSTANT, l->mixer.decay_form = MIRAS_DECAY_FORM_SIGMOID;
    if (i == 3) l->mixer.qk_heads = 1;
    if (i == 4) l->mixer.rope.type = MIRAS_ROPE_TYPE_POSITION;
    if (i == 5) l->memory.inner_steps = 2;
    if (i == 6) { /* and a segment's keys are told behind those that its memory recalls by */
      miras_model_preset(&d, MIRAS_PRESET_TITANS_MAC, 1);
      d.vocab = VOCAB, d.width = WIDTH, d.heads = HEADS;
      d.layer[0].memory = describe(MIRAS_PRESET_PGDN, 4).layer[0].memory;
      d.layer[0].mixer.qk_map = MIRAS_QK_MAP_PRECONDITIONED;
      d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_RATE;
    }
    refused(&d, fields[i]);
  }
}

static void test_level_refusals(void) {
  miras_model_desc d = describe(MIRAS_PRESET_GLA_MEMORY, 1);
  d.layer[0].mixer.levels = 4; /* and decays are of channels */
  refused(&d, "mixer.levels is 4");
  d = describe(MIRAS_PRESET_GATED_DELTANET, 1);
  d.layer[0].mixer.levels = 1;
  refused(&d, "mixer.levels is 1");
  d.layer[0].mixer.levels = 2;
  d.layer[0].memory.order = MIRAS_ORDER_ERROR_FIRST; /* and 0 times the state is read too late */
  refused(&d, "decay-first");
  d = describe(MIRAS_PRESET_MAMBA2_MEMORY, 1);
  d.layer[0].mixer.levels = 2;
  d.layer[0].memory.decay_target = MIRAS_DECAY_TARGET_INITIAL;
  refused(&d, "decay_target");
  d = describe(MIRAS_PRESET_TITANS, 1);
  d.layer[0].mixer.levels = 2;
  refused(&d, "mixer.levels is 2");
  d = describe(MIRAS_PRESET_GATED_DELTANET, 1);
  d.layer[0].mixer.levels = 2;
  d.layer[0].type = MIRAS_LAYER_MAC;
  refused(&d, "mixer.levels is 2");
}

static void test_layer_refusals(void) {
  miras_model_desc d = describe(MIRAS_PRESET_GATED_DELTANET, 1);
  d.layer[0].mixer.tied_dt = 1;
  d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_SIGMOID;
  refused(&d, "tied_dt");
  d = describe(MIRAS_PRESET_MAMBA2_MEMORY, 1);
  d.layer[0].memory.learning_rate_gate = MIRAS_GATE_CONSTANT;
  refused(&d, "tied_dt");
  d = describe(MIRAS_PRESET_GLA_MEMORY, 1);
  d.layer[0].memory.learning_rate_gate = MIRAS_GATE_HEAD;
  d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_RATE;
  d.layer[0].mixer.tied_dt = 1; /* and the decay gate is one per channel */
  refused(&d, "tied_dt");
  d = describe(MIRAS_PRESET_GATED_DELTANET, 1);
  d.layer[0].mixer.qk_map = MIRAS_QK_MAP_COMPLEMENT; /* and the decay gate is one per head */
  refused(&d, "qk_map");
  d.layer[0].mixer.qk_map = MIRAS_QK_MAP_ERASE; /* and the memory erases with its key */
  refused(&d, "qk_map");
  d.layer[0].mixer.qk_map = MIRAS_QK_MAP_COUNT;
  refused(&d, "qk_map");
  d = describe(MIRAS_PRESET_HGRN2_MEMORY, 1);
  d.layer[0].mixer.key_slots = 4;
  d.layer[0].memory.learning_rate_gate = MIRAS_GATE_HEAD; /* and keys of slots have no such gate */
  refused(&d, "key_slots");
  d.layer[0].memory.learning_rate_gate = MIRAS_GATE_CONSTANT;
  d.layer[0].memory.bias = MIRAS_BIAS_L2;
  refused(&d, "key_slots");
  d.layer[0].memory.bias = MIRAS_BIAS_DOT;
  d.layer[0].memory.normalize = 1, d.layer[0].memory.feature_map = MIRAS_FN_RELU;
  refused(&d, "key_slots");
  d = describe(MIRAS_PRESET_HGRN2_MEMORY, 1);
  d.layer[0].mixer.key_slots = 4097;
  refused(&d, "key_slots");
  d.layer[0].mixer.key_slots = 4;
  d.layer[0].memory.value_decay_gate = MIRAS_GATE_CHANNEL;
  refused(&d, "key_slots");
  d = describe(MIRAS_PRESET_GLA_MEMORY, 1);
  d.layer[0].mixer.key_slots = 4; /* and keys are no complement */
  refused(&d, "key_slots");
  for (int i = 0; i < 4; i++) {
    miras_model_preset(&d, MIRAS_PRESET_RAVEN, 1);
    d.vocab = VOCAB, d.width = WIDTH, d.heads = HEADS;
    if (i == 0) d.layer[0].mixer.key_slots = 7; /* and a token writes 8 */
    if (i == 1) d.layer[0].mixer.key_slots = 0; /* and there are none */
    if (i == 2) d.layer[0].mixer.top_slots = 0; /* and the decay gate is one per head */
    if (i == 3) d.layer[0].memory.decay_gate = MIRAS_GATE_CONSTANT;
    refused(&d, i == 2 ? "decay_gate" : i == 3 ? "decay" : "top_slots");
  }
  d = describe(MIRAS_PRESET_RWKV7_MEMORY, 1);
  d.layer[0].mixer.qk_map = MIRAS_QK_MAP_L2; /* and the memory wants to be told what to erase */
  refused(&d, "qk_map");
  d = describe(MIRAS_PRESET_RETNET_MEMORY, 1);
  d.layer[0].mixer.rope.type = MIRAS_ROPE_TYPE_COUNT;
  refused(&d, "rope");
  d.layer[0].mixer.rope.type = MIRAS_ROPE_TYPE_POSITION;
  d.layer[0].memory.key_dim = 5; /* and pairs turn */
  refused(&d, "key_dim");
  d = describe(MIRAS_PRESET_DELTAPRODUCT, 4);
  d.layer[0].mixer.rope.type = MIRAS_ROPE_TYPE_CHUNK; /* and a token has two keys */
  refused(&d, "inner_steps");
  d = describe(MIRAS_PRESET_LINEAR_ATTENTION, 4);
  d.layer[0].mixer.rope.type = MIRAS_ROPE_TYPE_SUM; /* and there is no time that angles are times */
  refused(&d, "qk_map");
  for (int i = 0; i < 4; i++) {
    miras_model_preset(&d, MIRAS_PRESET_MAMBA3, 1);
    d.vocab = VOCAB, d.width = WIDTH, d.heads = HEADS;
    if (i == 0) d.layer[0].memory.inner_steps = 3; /* and pairs are two */
    if (i == 1) d.layer[0].mixer.rope.type = MIRAS_ROPE_TYPE_POSITION;
    if (i == 2) d.layer[0].mixer.rope.share = MIRAS_ROPE_SHARE_NONE;
    if (i == 3) d.layer[0].mixer.conv_on = MIRAS_CONV_ON_ALL, d.layer[0].mixer.conv_size = 4;
    refused(&d, i == 0 ? "inner_steps" : i == 1 ? "rope.type" : i == 2 ? "rope.share" : "conv_on");
  }
  refuse_preconditioned();
  d = describe(MIRAS_PRESET_EDA, 4);
  d.layer[0].memory.inner_steps = 1; /* and one pair cannot both erase and write */
  refused(&d, "inner_steps");
  d = describe(MIRAS_PRESET_LINEAR_ATTENTION, 4);
  d.layer[0].memory.inner_steps = 2, d.layer[0].mixer.erase_first = 1; /* and 0 erases nothing */
  refused(&d, "bias");
  d = describe(MIRAS_PRESET_MAMBA2_MEMORY, 4);
  d.layer[0].mixer.rope.theta = 50; /* and nothing turns */
  refused(&d, "rope.theta");
  d = describe(MIRAS_PRESET_RETNET_MEMORY, 1);
  d.layer[0].mixer.rope.type = MIRAS_ROPE_TYPE_POSITION, d.layer[0].mixer.rope.dim = 3;
  refused(&d, "rope.dim");
  d.layer[0].mixer.rope.dim = 2, d.layer[0].mixer.rope.share = MIRAS_ROPE_SHARE_QUARTER;
  refused(&d, "rope.share");
  d = describe(MIRAS_PRESET_RETNET_MEMORY, 1);
  d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_ROOT; /* and the decay gate is a constant */
  refused(&d, "decay_form");
  d = describe(MIRAS_PRESET_GATED_DELTANET, 1);
  d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_COUNT;
  refused(&d, "decay_form");
  d.layer[0].mixer.decay_form = MIRAS_DECAY_FORM_SIGMOID;
  d.layer[0].memory.decay_schedule =
    MIRAS_DECAY_SCHEDULE_LIGHTNING; /* and the decay gate is learned */
  refused(&d, "decay_schedule");
}

/* What RWKV-7's time mixing has not got, and what it cannot do without. */
static void test_rwkv_refusals(void) {
  static const char *const sixth[][2] = {
    {"m.rwkv.rate_rank=8", "rate_rank is 8"}, {"m.rwkv.value_rank=8", "value_rank is 8"},
    {"m.rwkv.mix_rank=4097", "mix_rank is 4097"},
    {"m.mixer.out_gate_rank=8", "it needs mixer.out_gate_rank 0"},
    {"m.mixer.qk_heads=1", "qk_heads is 1"},
    {"m.memory.order=error-first", "it needs memory.order read-first"},
    {"m.memory.bias=l2", "it needs memory.bias dot"},
    {"m.memory.inner_steps=2", "it needs memory.inner_steps 1"},
    {"m.memory.normalize=1 m.memory.feature_map=elu", "it needs memory.normalize 0"},
    {"m.memory.value_decay_gate=channel", "it needs memory.value_decay_gate constant"},
    {"g.mlp.token_shift=3", "token_shift is 3"},
    {"g.mlp.act=silu g.mlp.experts=2", "it needs mlp.token_shift 0"}};
  static const char *const cases[][2] = {
    {"m.mixer.conv_size=4", "conv_size is 4"},
    {"m.mixer.conv_on=none", "conv_on is 2 (none)"},
    {"m.mixer.conv_bias=1", "conv_bias is 1"},
    {"m.mixer.qk_act=none", "qk_act is 1 (none)"},
    {"m.mixer.v_act=relu", "v_act is 5 (relu)"},
    {"m.mixer.share_qk=1", "share_qk is 1"},
    {"m.mixer.scaled_queries=1", "scaled_queries is 1"},
    {"m.mixer.gate_rank=8", "gate_rank is 8"},
    {"m.mixer.fixed_gates=1", "fixed_gates is 1"},
    {"m.mixer.d_skip=1", "d_skip is 1"},
    {"m.mixer.norm_heads=2", "norm_heads is 2"},
    {"m.mixer.out_gate=none", "out_gate is 1 (none)"},
    {"m.mixer.out_norm=layer", "out_norm is 1 (layer)"},
    {"m.mixer.rope.type=position", "rope.type is 1 (position)"},
    {"m.mixer.qk_heads=1", "qk_heads is 1"},
    {"m.mixer.qk_map=l2 m.rwkv.rate_rank=0 m.rwkv.value_rank=0", "separate_erase is 1"},
    {"m.mixer.qk_map=l2 m.memory.separate_erase=0", "rate_rank is 3, but it has a meaning only"},
    {"m.mixer.qk_map=l2 m.memory.separate_erase=0 m.rwkv.rate_rank=0 m.rwkv.value_rank=0 "
     "m.mixer.out_gate_rank=0", "it needs mixer.qk_map erase or none"},
    {"m.mixer.qk_map=none m.memory.separate_erase=0 m.rwkv.rate_rank=0 m.rwkv.value_rank=0 "
     "m.mixer.out_gate_rank=0", "it needs memory.order read-first"},
    {"m.rwkv.mix_rank=8", "mix_rank is 8"},
    {"m.memory.decay_gate=head", "it needs memory.decay_gate channel"},
    {"m.memory.learning_rate_gate=head", "it needs memory.learning_rate_gate constant"},
    {"m.rwkv.decay_rank=4097", "decay_rank is 4097"},
    {"m.rwkv.rate_rank=4097", "rate_rank is 4097"},
    {"m.mixer.out_gate_rank=4097", "out_gate_rank is 4097"},
    {"m.rwkv.value_rank=4097", "value_rank is 4097"},
    {"m.attention.window=5", "window is 5"},
    {"m.conv.size=4", "conv.size is 4"}};
  for (int i = 0; i < COUNT(cases); i++) {
    miras_model_desc d = family(0).d;
    char why[256] = "";
    if (miras_model_size(&d, why, sizeof why) == 0) failed("rwkv7: %s", why);
    set_fields(&d, cases[i][0]);
    if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, cases[i][1]) == NULL)
      failed("rwkv7 with %s: %s", cases[i][0], why);
  }
  for (int i = 0; i < COUNT(sixth); i++) {
    miras_model_desc d;
    char why[256] = "";
    assert_int_equal(miras_model_preset(&d, MIRAS_PRESET_RWKV6, 2), MIRAS_OK);
    d.width = WIDTH, d.vocab = VOCAB;
    if (miras_model_size(&d, why, sizeof why) == 0) failed("rwkv6: %s", why);
    set_fields(&d, sixth[i][0]);
    if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, sixth[i][1]) == NULL)
      failed("rwkv6 with %s: %s", sixth[i][0], why);
  }
}

/* Fields of attention and of MLPs. */
static void test_kind_refusals(void) {
  char why[256];
  for (int i = 0; i < 30; i++) {
    static const char *const field[30] = {
      "head_dim",           "heads",      "kv_heads",   "window",
      "head_dim",           "rope.theta", "qk_norm",    "type",
      "mlp.none",           "hidden",     "mlp.none",   "window",
      "conv_size",          "rope.dim",   "rope.dim",   "attention.out_gate",
      "attention.out_gate", "rope.share", "rope.share", "rope.theta",
      "rope_scaling.type is 4", "rope_scaling.type is 1 (linear), but",
      "rope_scaling.factor is 2, but it has a meaning only with attention.rope_scaling.type",
      "rope_scaling.factor is 0.5; it must lie in 1..", "rope_scaling.context is -1",
      "only with attention.rope_scaling.type llama3 or yarn", "high_frequency_factor is 1e+07",
      "low_frequency_factor must be below high_frequency_factor",
      "attention_factor is 1, but it has a meaning only with attention.rope_scaling.type yarn",
      "low_frequency_factor is nan"};
    miras_model_desc d = hybrid(0).d;
    miras_layer_desc *w = &d.layer[1];
    if (i == 0) w->attention.head_dim = 5;
    if (i == 1) w->attention.heads = -1;
    if (i == 2) w->attention.kv_heads = 3;
    if (i == 3) w->attention.window = (1 << 20) + 1;
    if (i == 4) w->attention.heads = 3; /* and the width is no multiple of it */
    if (i == 5) w->attention.rope.theta = 0.5f;
    if (i == 6) w->attention.qk_norm = 3;
    if (i == 7) w->type = MIRAS_LAYER_TYPE_COUNT;
    if (i == 8) w->mlp.none = 2, w->mlp.hidden = 0;
    if (i == 9) w->mlp.none = 1; /* and the width of one is given */
    if (i == 10) w->type = MIRAS_LAYER_MLP, w->attention.window = 0, w->mlp.none = 1;
    if (i == 11) w->type = MIRAS_LAYER_MLP;
    if (i == 12) w->type = MIRAS_LAYER_MLP, w->attention.window = 0, w->mixer.conv_size = 4;
    if (i == 13) w->attention.rope.dim = 3;
    if (i == 14) w->attention.rope.dim = DIM + 2;
    if (i == 15) w->attention.out_gate = 2;
    if (i == 17) w->attention.rope.share = MIRAS_ROPE_SHARE_COUNT;
    if (i == 18) w->attention.rope.share = MIRAS_ROPE_SHARE_QUARTER, w->attention.rope.dim = 2;
    if (i == 19)
      w->attention.rope.share = MIRAS_ROPE_SHARE_NONE,
      w->attention.rope.theta = 100; /* and nothing turns */
    if (i > 19) w->attention.rope_scaling.type = MIRAS_ROPE_SCALING_LLAMA3;
    if (i == 20) w->attention.rope_scaling.type = MIRAS_ROPE_SCALING_TYPE_COUNT;
    if (i == 21)
      w->attention.rope_scaling.type = MIRAS_ROPE_SCALING_LINEAR,
      w->attention.rope.share = MIRAS_ROPE_SHARE_NONE;
    if (i == 22)
      w->attention.rope_scaling.type = MIRAS_ROPE_SCALING_NONE,
      w->attention.rope_scaling.factor = 2;
    if (i == 23) w->attention.rope_scaling.factor = 0.5f;
    if (i == 24) w->attention.rope_scaling.context = -1;
    if (i == 25)
      w->attention.rope_scaling.type = MIRAS_ROPE_SCALING_LINEAR,
      w->attention.rope_scaling.context = 64;
    if (i == 26) w->attention.rope_scaling.high_frequency_factor = 1e7f;
    if (i == 27) w->attention.rope_scaling.low_frequency_factor = 4;
    if (i == 28) w->attention.rope_scaling.attention_factor = 1;
    if (i == 29) w->attention.rope_scaling.low_frequency_factor = (float)NAN;
    if (i == 16)
      w->type = MIRAS_LAYER_MAG, w->memory = d.layer[0].memory, w->attention.out_gate = 1,
      w->mixer = d.layer[0].mixer;
    if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, field[i]) == NULL ||
        strstr(why, "layer[1]") == NULL)
      failed("a layer with a wrong %s: %s", field[i], why);
  }
}

static void test_refusals(void **state) {
  miras_model_desc d = describe(MIRAS_PRESET_TITANS, 4);
  miras_model *m;
  miras_trainer *tr;
  miras_session *s;
  char why[200] = "";
  static const char *const patterns[] = {"x",  "m*",   "*2",     "(mw",    "mw)", "m*0",
                                         "()", "m*-1", "m*2000", "m w",    "m**2",
                                         "(((m*9)*9)*9)*9", "m(x)", "(mx)w", "(x)m"};
  (void)state;
  start();
  d.vocab = 1;
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "vocab") == NULL)
    failed("vocab: %s", why);
  d = describe(MIRAS_PRESET_TITANS, 4);
  d.layer[0].memory.key_dim = 0; /* and the width is not a multiple of the heads */
  d.layer[0].memory.heads = 7;
  if (miras_model_size(&d, why, sizeof why) != 0 || !strstr(why, "no multiple of the 7 heads"))
    failed("key_dim: %s", why);
  for (int i = 0; i < COUNT(patterns); i++) {
    d = hybrid(6).d;
    snprintf(d.pattern, sizeof d.pattern, "%s", patterns[i]);
    if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, patterns[i]) == NULL)
      failed("pattern \"%s\": %s", patterns[i], why);
  }
  memset(d.pattern, 'm', sizeof d.pattern); /* without an end */
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "pattern") == NULL)
    failed("a pattern without an end: %s", why);
  snprintf(d.pattern, sizeof d.pattern, "((m*2)w)*2m");
  d.layers = 7;
  if (miras_model_size(&d, why, sizeof why) == 0) failed("nested groups: %s", why);
  d.layers = 6;
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "layers is 6") == NULL)
    failed("another number of layers: %s", why);
  d.layers = 0;
  d.layer[2].letter = 'm';
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "letter") == NULL)
    failed("a letter of two kinds: %s", why);
  test_kind_refusals();
  test_rwkv_refusals();
  d = hybrid(11).d;
  d.layer[0].attention.head_dim = 2 * DIM;
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "head_dim is 16") == NULL)
    failed("a gate of another width: %s", why);
  d.layer[0].type = MIRAS_LAYER_MEMORY;
  if (miras_model_size(&d, why, sizeof why) != 0 ||
      strstr(why, "type attention, mag, mac or parallel") == NULL)
    failed("a memory with attention's fields: %s", why);
  for (int i = 0; i < 4; i++) { /* a memory as context: segments, widths, and what recalls */
    static const char *const says[] = {"a multiple of it", "the model's width",
                                       "the model's width", "architecture other than kv-cache"};
    miras_layer_desc *l = &d.layer[0];
    d = hybrid(19).d;
    if (i == 0) l->attention.window = 3;
    if (i == 1) l->attention.head_dim = 4;
    if (i == 2) l->memory.value_dim = 4, l->memory.inner_residual = 0;
    if (i == 3) d.layer[0].memory = row(MIRAS_PRESET_SLIDING_WINDOW, 2).d.layer[0].memory;
    if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, says[i]) == NULL)
      failed("context %d: %s", i, why);
  }
  d = describe(MIRAS_PRESET_TITANS, 4);
  d.dropout = 0.95f;
  if (miras_model_size(&d, why, sizeof why) != 0 || strstr(why, "dropout") == NULL)
    failed("dropout: %s", why);
  test_level_refusals();
  test_layer_refusals();
  d = describe(MIRAS_PRESET_TITANS, 4);
  m = open_model(&d, "model");
  tr = open_trainer(m, NULL);
  assert_non_null(tr);
  draw_text(8);
  if (miras_trainer_backward(tr, NULL) != MIRAS_ERR_STATE) failed("backward before any loss");
  if (!isnan(loss_of(tr, tokens, targets, BATCH + 1, 8, 0))) failed("too many rows");
  if (!isnan(loss_of(tr, tokens, targets, BATCH, CONTEXT + 1, 0))) failed("too long");
  tokens[3] = VOCAB;
  if (!isnan(loss_of(tr, tokens, targets, BATCH, 8, 0))) failed("a token out of range");
  tokens[3] = 0;
  targets[3] = -2;
  if (!isnan(loss_of(tr, tokens, targets, BATCH, 8, 0))) failed("a target out of range");
  s = miras_session_open(m, NULL, NULL, NULL, 0);
  assert_non_null(s);
  assert_null(miras_session_step(s, -1));
  assert_null(miras_session_step(s, VOCAB));
  for (int i = 0; i < 4; i++) { /* tokens and targets of a score; -1 leaves one out */
    static const int32_t wrong[4] = {-2, VOCAB, -1, VOCAB};
    const int32_t ok[3] = {1, 0, 2}, bad[3] = {1, wrong[i], 2};
    double nats = 7;
    if (miras_session_score(s, i < 2 ? ok : bad, i < 2 ? bad : ok, 3, &nats) !=
          MIRAS_ERR_ARGUMENT || nats < 7)
      failed("a score of %s %d", i < 2 ? "target" : "token", (int)wrong[i]);
  }
  if (miras_session_position(s) != 0) failed("a refused token counts");
  miras_close(s);
  close_both(m, tr);
  assert_null(miras_trainer_grads(NULL));
  close_both(NULL, NULL);
  miras_close(NULL);
  finish();
}

/* Saved with moments and running texts; the caller frees. */
static unsigned char *saved(const miras_trainer *tr, size_t *bytes) {
  unsigned char *file;
  *bytes = miras_save_to(tr, NULL, 0);
  file = (unsigned char *)zeros(*bytes, 1);
  assert_int_equal(miras_save_to(tr, file, *bytes), *bytes);
  return file;
}

static void trade_rows(int32_t *text, int T) {
  for (int t = 0; t < T; t++) {
    const int32_t first = text[t];
    text[t] = text[T + t];
    text[T + t] = first;
  }
}

/* WINDOWS windows of BATCH running texts of T tokens each are those texts whole: what sessions say
 * of them. Rows and texts may trade places, a row that does not run is a window of its own, and a
 * text that starts anew forgets. The gradient is that of the loss with the state that came in. */
enum { WINDOWS = 3 };

/* The last window of two running texts, and a stretch of its gradient. */
typedef struct last_window {
  miras_model *m;
  miras_trainer *tr; /* which the file is loaded into */
  const unsigned char *file;
  size_t bytes, first, count;
  const float *params, *g;
  const int32_t *tokens, *targets, *there;
  int T;
} last_window;

/* How far the change of its loss along g is from the squared length of g, relative to that, with
 * steps that become smaller (some curve more) but not below least; noise: of the losses. */
static double along(const last_window *w, double square, double noise, double least) {
  double error = HUGE_VAL;
  for (double by = 4e-3; by > least && !(error <= 0.005); by *= 0.5) {
    const double h = by / sqrt(square);
    float side[2];
    for (int n = 0; n < 2; n++) {
      float *to = miras_model_params(w->m, NULL);
      assert_int_equal(miras_load_from(w->tr, w->file, w->bytes, NULL, 0), MIRAS_OK);
      for (size_t i = w->first; i < w->first + w->count; i++)
        to[i] = w->params[i] + (float)(n ? h : -h) * w->g[i];
      side[n] =
        loss_carried(w->tr, w->tokens, w->targets, BATCH, w->T, w->there, NULL);
    }
    error = fabs(((double)side[1] - (double)side[0]) / (2.0 * h) - square) / square;
    error = fmax(0.0, error - noise / (by * sqrt(square)));
  }
  return error;
}

/* Along its gradient the loss of the last window changes by its squared length; and along some of
 * the views apart, as near as a float loss lets. */
static void check_along(const subject *s, last_window *at) {
  int view_count = 0;
  const miras_view *views = miras_model_views(at->m, &view_count);
  for (int n = -1; n < 6; n++) {
    const miras_view *view = n < 0 ? NULL : &views[below(view_count)];
    double square = 0.0, error;
    at->first = view ? view->offset : 0;
    at->count = view ? view->count : 0;
    if (!view) miras_model_params(at->m, &at->count);
    for (size_t i = at->first; i < at->first + at->count; i++)
      square += (double)at->g[i] * (double)at->g[i];
    error = along(at, square, view ? 1e-6 : 0.0, 4e-4 / fmax(1.0, sqrt(square)));
    if (!(error <= 0.005))
      failed("%s: along %s %g off, of %g", s->name, view ? view->name : "the gradient", error,
             square);
  }
}

/* Window n of running texts, of their tokens and targets. */
static void take_window(int32_t window[2][BATCH * CONTEXT], int n, int T) {
  for (int b = 0; b < BATCH; b++) {
    memcpy(window[0] + b * T, tokens + (b * WINDOWS + n) * T, (size_t)T * sizeof **window);
    memcpy(window[1] + b * T, targets + (b * WINDOWS + n) * T, (size_t)T * sizeof **window);
  }
}

static void check_streams(subject *s) {
  const int chunk = s->d.layer[0].memory.chunk, segment = s->d.layer[0].attention.window;
  const int T = segment == 6 ? 2 * segment : chunk > 8 ? chunk : 8, all = WINDOWS * T;
  static const int32_t own[2] = {-1, -1}, there[2] = {2, 0}, back[2] = {0, 2};
  static const unsigned char anew[2] = {1, 1};
  int32_t window[2][BATCH * CONTEXT];
  miras_model *m, *other, *moved;
  miras_trainer *tr, *other_tr, *moved_tr;
  unsigned char *file[2];
  size_t bytes, count = 0;
  double expected = 0.0, sum = 0.0;
  float first = 0.0f, loss = 0.0f, again, *params, *g;
  int counted = 0;
  last_window at;
  /* Yaad's error jumps where |r| passes the threshold: not where these residuals are */
  if (s->d.layer[0].memory.bias == MIRAS_BIAS_HUBER_MIXTURE) s->d.layer[0].memory.threshold = 0.5f;
  m = open_model(&s->d, s->name);
  tr = open_trainer(m, &running);
  if (tr == NULL) return;
  other = open_model(&s->d, s->name);
  other_tr = open_trainer(other, &running);
  moved = open_model(&s->d, s->name);
  moved_tr = open_trainer(moved, &running);
  disturb(m, 7);
  disturb(other, 7);
  for (int i = 0; i < BATCH * all; i++) {
    tokens[i] = (int32_t)(draw() % VOCAB);
    targets[i] = draw() % 5 == 0 ? -1 : (int32_t)(draw() % VOCAB);
  }
  for (int b = 0; b < BATCH; b++) {
    miras_session *session = miras_session_open(m, NULL, NULL, NULL, 0);
    assert_non_null(session);
    expected += score_of(session, tokens + b * all, targets + b * all, (size_t)all);
    miras_close(session);
  }
  params = miras_model_params(m, &count);
  g = (float *)zeros(count, sizeof(float));
  for (int n = 0; n < WINDOWS; n++) {
    int here = 0;
    take_window(window, n, T);
    for (int t = 0; t < BATCH * T; t++) here += window[1][t] >= 0;
    file[0] = saved(tr, &bytes); /* what the last window finds */
    loss = loss_carried(tr, window[0], window[1], BATCH, T, there, NULL);
    sum += (double)loss * here;
    counted += here;
    if (n == 0) first = loss;
    /* the same with its rows the other way round */
    trade_rows(window[0], T);
    loss_carried(other_tr, window[0], window[1], BATCH, T, back, NULL);
    if (n + 1 < WINDOWS) free(file[0]);
  }
  trade_rows(window[0], T); /* and back */
  if (!(fabs(sum - expected) <= 1e-5 * counted))
    failed("%s: windows of running texts %.7f, the texts %.7f", s->name, sum / counted,
           expected / counted);
  file[1] = saved(tr, &bytes);
  {
    unsigned char *swapped = saved(other_tr, &bytes);
    if (memcmp(file[1], swapped, bytes) != 0) failed("%s: neighbours change a text", s->name);
    free(swapped);
  }
  /* the last window once more, and its gradient */
  assert_int_equal(miras_load_from(other_tr, file[0], bytes, NULL, 0), MIRAS_OK);
  again = loss_carried(other_tr, window[0], window[1], BATCH, T, there, NULL);
  if (memcmp(&again, &loss, sizeof loss) != 0) failed("%s: the same window, twice", s->name);
  miras_trainer_backward(other_tr, NULL);
  memcpy(g, miras_trainer_grads(other_tr), count * sizeof(float));
  at.m = moved;
  at.tr = moved_tr;
  at.file = file[0];
  at.bytes = bytes;
  at.params = params;
  at.g = g;
  at.tokens = window[0];
  at.targets = window[1];
  at.there = there;
  at.T = T;
  check_along(s, &at);
  /* rows of their own; texts that start anew */
  loss = loss_of(tr, window[0], window[1], BATCH, T, 1);
  again = loss_carried(tr, window[0], window[1], BATCH, T, own, NULL);
  if (memcmp(&again, &loss, sizeof loss) != 0) failed("%s: rows of their own", s->name);
  take_window(window, 0, T);
  {
    unsigned char *same = saved(tr, &bytes);
    if (memcmp(same, file[1], bytes) != 0) failed("%s: other losses move the texts", s->name);
    free(same);
  }
  loss = loss_carried(tr, window[0], window[1], BATCH, T, there, anew);
  if (memcmp(&first, &loss, sizeof loss) != 0) failed("%s: a text that starts anew", s->name);
  free(file[0]);
  free(file[1]);
  free(g);
  close_both(m, tr);
  close_both(other, other_tr);
  close_both(moved, moved_tr);
}

static void test_streams(void **state) {
  static const int32_t wrong[][2] = {{0, 0}, {0, 3}, {-2, 0}}, right[2] = {1, -1};
  miras_trainer_desc room = running;
  miras_model_desc d;
  miras_model *m;
  miras_trainer *tr;
  unsigned char *file;
  size_t bytes;
  float a, b;
  (void)state;
  start();
  random_state = 51;
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind++) {
    subject s = row((miras_preset)kind, kind % 2 ? 4 : 8);
    if (kind % THIN == 2 % THIN) check_streams(&s);
  }
  for (int n = 0; n < OPTIONS; n++) {
    subject s = option(n);
    if (n % THIN == 0) check_streams(&s);
  }
  for (int n = 0; n < HYBRIDS; n++) {
    subject s = hybrid(n);
    if (n % THIN == 1 % THIN) check_streams(&s);
  }
  for (int n = 0; n < FAMILIES; n++) {
    subject s = family(n);
    if (s.d.layer[0].mixer.qk_map == MIRAS_QK_MAP_TRAPEZOID ||
        s.d.layer[0].mixer.qk_map == MIRAS_QK_MAP_PRECONDITIONED)
      check_streams(&s);
  }
  d = describe(MIRAS_PRESET_YAAD, 4);
  m = open_model(&d, "yaad");
  tr = open_trainer(m, &running);
  assert_non_null(tr);
  draw_text(8);
  for (int i = 0; i < 3; i++)
    if (!isnan(loss_carried(tr, tokens, targets, BATCH, 8, wrong[i], NULL)))
      failed("streams %d and %d of 3", (int)wrong[i][0], (int)wrong[i][1]);
  if (!isnan(loss_carried(tr, tokens, targets, BATCH, 7, right, NULL)))
    failed("7 tokens with chunk 4");
  /* a trainer with another number of streams takes the file, and begins its own anew */
  a = loss_carried(tr, tokens, targets, BATCH, 8, right, NULL);
  loss_carried(tr, tokens, targets, BATCH, 8, right, NULL);
  file = saved(tr, &bytes);
  close_both(m, tr);
  for (room.carried = 0; room.carried < 6; room.carried += 2) {
    m = open_model(&d, "yaad");
    tr = open_trainer(m, &room);
    assert_non_null(tr);
    if (room.carried) loss_carried(tr, tokens, targets, BATCH, 8, right, NULL);
    assert_int_equal(miras_load_from(tr, file, bytes, NULL, 0), MIRAS_OK);
    b = room.carried ? loss_carried(tr, tokens, targets, BATCH, 8, right, NULL) : a;
    if (memcmp(&a, &b, sizeof a) != 0) failed("%d streams are not new", room.carried);
    close_both(m, tr);
  }
  free(file);
  finish();
}

/* Some of them, in seconds. */
static void test_unit_streams(void **state) {
  (void)state;
  start();
  random_state = 51;
  for (int n = 1; n < MIRAS_PRESET_ROWS + OPTIONS + HYBRIDS; n += n < MIRAS_PRESET_ROWS ? 2 : 3) {
    subject s = n < MIRAS_PRESET_ROWS ? row((miras_preset)n, n % 4 == 1 ? 4 : 8)
                : n < MIRAS_PRESET_ROWS + OPTIONS ? option(n - MIRAS_PRESET_ROWS)
                                                  : hybrid(n - MIRAS_PRESET_ROWS - OPTIONS);
    check_streams(&s);
  }
  finish();
}

/* ---- biases that grow ---- */

/* A session and a trainer of a row with this bias; 0: one of their numbers is not finite. */
static int stays_finite(const miras_model_desc *d) {
  const miras_trainer_desc room = {BATCH, CONTEXT, 0, 0, 0, NULL, NULL};
  miras_adamw_options o = MIRAS_ADAMW(0, 0);
  miras_model *m = miras_model_open(d, NULL, NULL, 0);
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  miras_trainer *tr = miras_trainer_open(m, &room, NULL, NULL, 0);
  int finite = 1;
  assert_non_null(s);
  assert_non_null(tr);
  for (int t = 0; t < 96 && finite; t++) {
    const float *logits = miras_session_step(s, (t * 37 + t / 7) % VOCAB);
    for (int i = 0; i < VOCAB; i++) finite &= isfinite(logits[i]) != 0;
  }
  o.clip = 1;
  for (int n = 0; n < 3 && finite; n++) {
    draw_text(CONTEXT);
    finite = isfinite(loss_of(tr, tokens, targets, BATCH, CONTEXT, 1));
    assert_int_equal(miras_trainer_backward(tr, NULL), MIRAS_OK);
    finite &= isfinite(norm_of_step(tr, &o, 1e-3f)) != 0;
  }
  miras_close(tr);
  miras_close(s);
  miras_close(m);
  return finite;
}

/* A first change of one field, the bias: whatever is not refused stays finite. On matrices an L_p
 * bias with p = 3, whose writes grow as the square of a residual, did not for tens of tokens. */
static void test_biases(void **state) {
  char why[200];
  int met = 0;
  (void)state;
  start();
  for (int kind = 0; kind < MIRAS_PRESET_ROWS; kind += THIN)
    for (int bias = 0; bias < MIRAS_BIAS_COUNT; bias++) {
      const int lp = bias == MIRAS_BIAS_LP || bias == MIRAS_BIAS_LP_SMOOTH;
      for (uint64_t seed = 1; seed <= (lp && THIN == 1 ? 8 : 1); seed++) {
        miras_model_desc d;
        assert_int_equal(miras_model_preset(&d, (miras_preset)kind, 0), MIRAS_OK);
        d.vocab = VOCAB;
        d.width = 32;
        d.heads = 2;
        d.layers = 2;
        d.seed = seed;
        if (d.layer[0].memory.window > 32) d.layer[0].memory.window = 32;
        d.layer[0].memory.bias = (miras_bias)bias;
        if (bias == MIRAS_BIAS_CUSTOM || !miras_model_size(&d, why, sizeof why)) break;
        met++;
        if (!stays_finite(&d))
          failed("%s, bias %d, seed %d: not finite", miras_preset_name((miras_preset)kind), bias,
                 (int)seed);
      }
    }
  print_message("%d models whose bias is changed\n", met);
  assert_true(met > (THIN > 1 ? 10 : 100));
  finish();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_unit_rows),
    cmocka_unit_test(test_unit_options),
    cmocka_unit_test(test_unit_layers),
    cmocka_unit_test(test_unit_gates),
    cmocka_unit_test(test_unit_streams),
    cmocka_unit_test(test_views),
    cmocka_unit_test(test_first_values),
    cmocka_unit_test(test_drawn_values),
    cmocka_unit_test(test_forward),
    cmocka_unit_test(test_gradient),
    cmocka_unit_test(test_trapezoid),
    cmocka_unit_test(test_preconditioned),
    cmocka_unit_test(test_jobs),
    cmocka_unit_test(test_picked_slots),
    cmocka_unit_test(test_first_slots),
    cmocka_unit_test(test_experts),
    cmocka_unit_test(test_session_bits),
    cmocka_unit_test(test_session_tiles),
    cmocka_unit_test(test_session_training),
    cmocka_unit_test(test_hybrid_sessions),
    cmocka_unit_test(test_threads),
    cmocka_unit_test(test_orders),
    cmocka_unit_test(test_split),
    cmocka_unit_test(test_no_state),
    cmocka_unit_test(test_neighbours),
    cmocka_unit_test(test_training),
    cmocka_unit_test(test_learns),
    cmocka_unit_test(test_biases),
    cmocka_unit_test(test_resume),
    cmocka_unit_test(test_streams),
    cmocka_unit_test(test_adamw),
    cmocka_unit_test(test_train_only),
    cmocka_unit_test(test_weights_damaged), cmocka_unit_test(test_view_parts),
    cmocka_unit_test(test_view_lines),
    cmocka_unit_test(test_layers_of_pattern),
    cmocka_unit_test(test_weights),
    cmocka_unit_test(test_weights_in_place),
    cmocka_unit_test(test_weights_refused), cmocka_unit_test(test_many_words),
    cmocka_unit_test(test_dropout),
    cmocka_unit_test(test_refusals),
  };
  printf("instruction set: %s\n", miras_isa());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
