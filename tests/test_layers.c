/* test_layers.c: layers as text. What is printed of a published layer and read again gives the same
 * bits; layers of one's own have right gradients, say in a session what they say to a trainer, and
 * come back from files; what is wrong is refused by its line.
 *   cc -O2 tests/test_layers.c -o test_layers -lcmocka -lm */
#ifndef MIRAS_TEST_LINKED /* else object.c has it */
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { VOCAB = 13, WIDTH = 24, ROWS = 70, FILE_SIZE = 1 << 20 };

static int32_t tokens[2 * ROWS + 1];

static miras_model *opened(const miras_model_desc *d) {
  char why[256] = "";
  miras_model *m = miras_model_open(d, NULL, why, sizeof why);
  if (!m) fail_msg("%s", why);
  return m;
}

static miras_trainer *training(miras_model *m) {
  miras_trainer_desc d;
  miras_trainer *t;
  memset(&d, 0, sizeof d);
  d.batch = 2, d.context = ROWS;
  t = miras_trainer_open(m, &d, NULL, NULL, 0);
  assert_non_null(t);
  return t;
}

static float loss_of_both(miras_trainer *t, int train) {
  const float loss = loss_of(t, tokens, tokens + 1, 2, ROWS, train);
  assert_true(isfinite(loss));
  return loss;
}

/* Both models: parameters, losses and gradients of two steps, sessions. */
static void check_same(const char *name, const miras_model_desc *d, const miras_model_desc *e) {
  miras_model *m[2] = {opened(d), opened(e)};
  miras_trainer *t[2] = {training(m[0]), training(m[1])};
  size_t n, n2, bytes[2];
  float *p = miras_model_params(m[0], &n), *p2 = miras_model_params(m[1], &n2);
  void *state[2], *at;
  int i, step;
  assert_int_equal(n, n2);
  for (step = 0; step < 2; step++) {
    float loss[2];
    if (memcmp(p, p2, n * sizeof *p) != 0) fail_msg("%s: step %d: other parameters", name, step);
    for (i = 0; i < 2; i++) {
      loss[i] = loss_of_both(t[i], 1);
      assert_int_equal(miras_trainer_backward(t[i], NULL), MIRAS_OK);
    }
    assert_memory_equal(&loss[0], &loss[1], sizeof loss[0]);
    if (memcmp(miras_trainer_grads(t[0]), miras_trainer_grads(t[1]), n * sizeof *p) != 0)
      fail_msg("%s: step %d: other gradients", name, step);
    for (i = 0; i < 2; i++)
      assert_int_equal(miras_trainer_step(t[i], NULL, 0.01f, NULL), MIRAS_OK);
  }
  for (i = 0; i < 2; i++) {
    miras_session *s = miras_session_open(m[i], NULL, NULL, NULL, 0);
    miras_session_feed(s, tokens, NULL, ROWS);
    miras_session_step(s, 3);
    at = miras_session_state(s, &bytes[i]);
    state[i] = malloc(bytes[i]);
    memcpy(state[i], at, bytes[i]);
    miras_close(s);
  }
  assert_int_equal(bytes[0], bytes[1]);
  assert_memory_equal(state[0], state[1], bytes[0]);
  for (i = 0; i < 2; i++) {
    free(state[i]);
    miras_close(t[i]);
    miras_close(m[i]);
  }
}

/* All kinds of layer of a model as one text. */
static void print_all(const miras_model *m, char *text, size_t size) {
  char done[MIRAS_MAX_LAYER_KINDS + 1] = "";
  size_t n = 0;
  int i;
  for (i = 0; i < miras_model_desc_of(m)->layers; i++) {
    const char letter = miras_model_layer(m, i)->letter;
    if (strchr(done, letter)) continue;
    done[strlen(done)] = letter;
    n += (size_t)snprintf(text + n, size - n, "layer %c\n", letter);
    n += miras_model_program(m, letter, text + n, size - n);
    assert_true(n + 32 < size);
  }
}

static miras_model_desc described(miras_preset preset) {
  miras_model_desc d;
  int k;
  miras_model_preset(&d, preset, 4);
  d.vocab = VOCAB, d.width = WIDTH, d.heads = 2, d.seed = 1;
  if (!d.pattern[0]) d.layers = 2;
  for (k = 0; k < MIRAS_MAX_LAYER_KINDS; k++)
    if (d.layer[k].type == MIRAS_LAYER_MAC)
      d.layer[k].memory.chunk = 4, d.layer[k].attention.window = 8;
  if (preset < MIRAS_PRESET_ROWS) d.layer[0].memory.key_dim = 8;
  return d;
}

static void test_published(void **unused) {
  static char text[1 << 14];
  int i;
  (void)unused;
  for (i = 0; i < MIRAS_PRESET_COUNT; i += MIRAS_TEST_SHARE) {
    miras_model_desc d = described((miras_preset)i), e;
    miras_model *m;
    d.norm = i % 3 == 2 ? MIRAS_NORM_LAYER : d.norm;
    d.dropout = i % 2 ? 0.1f : 0;
    m = opened(&d);
    print_all(m, text, sizeof text);
    e = d, e.program = text;
    check_same(miras_preset_name((miras_preset)i), &d, &e);
    miras_close(m);
  }
}

/* The same of layers with factors, gated convolutions, and norms behind. */
static void test_hybrids(void **unused) {
  static char text[1 << 14];
  miras_model_desc d = described(miras_preset_find("mamba2")), e;
  miras_layer_desc *m = &d.layer[0], *w = &d.layer[1], *a = &d.layer[2], *c = &d.layer[4];
  miras_model *made;
  int k;
  (void)unused;
  memset(d.pattern, 0, sizeof d.pattern);
  memcpy(d.pattern, "mcwa", 4);
  d.layers = 0, d.dropout = 0.1f;
  m->type = MIRAS_LAYER_PARALLEL;
  m->memory.key_dim = 8, m->mlp.none = 0, m->mixer.projection_bias = 1;
  m->mixer.out_scale = 0.7f, m->mixer.gate_scale = 0.4f, m->mixer.low_scale = 2.5f;
  m->attention.query_scale = 1.3f, m->attention.out_scale = w->attention.out_scale = 0.6f;
  m->mlp.gate_scale = 1.7f, m->mlp.out_scale = w->mlp.out_scale = 0.5f;
  c->conv.gated = 2, c->mlp.none = 0;
  w->mlp.experts = 3;
  a->attention.post_norm = 1, a->attention.qk_norm = 2;
  made = opened(&d);
  print_all(made, text, sizeof text);
  assert_non_null(strstr(text, " queries\n"));
  e = d, e.program = text;
  check_same("hybrids", &d, &e);
  miras_close(made);
  d = described(miras_preset_find("titans-mac"));
  for (k = 0; k < MIRAS_MAX_LAYER_KINDS; k++) d.layer[k].attention.persistent = 0;
  made = opened(&d);
  print_all(made, text, sizeof text);
  e = d, e.program = text;
  check_same("titans-mac without persistent pairs", &d, &e);
  miras_close(made);
}

/* What test_own looks at. */
static const struct own { const char *name; miras_layer_type type; const char *text; } own[] = {
  {"mlp", MIRAS_LAYER_MLP,
   "h = norm x norm1.gain\n"
   "ab = times h mine.up 40 bias mine.bias, mine.gate 40   # two weights, one product\n"
   "act = gate ab:40 ab@mine.gate:40 gelu\n"
   "out = branch act mine.down"},
  {"gated convolution", MIRAS_LAYER_CONV,
   "h = norm x in.gain; b = times h b.weight 24; c = times h c.weight 24\n"
   "v = times h v.weight 24; bv = multiply b v; y = conv bv short.weight 3 none\n"
   "z = multiply y c; out = branch z o.weight bias o.bias"},
  {"three branches", MIRAS_LAYER_MLP,
   "h = norm x norm1.gain; p = times h p.weight 48; c = copy h; s = multiply p:24 c\n"
   "w = copy p@24:24; y = conv s conv_k.weight 3 silu; sy = multiply y w\n"
   "y2 = conv sy b.weight 2 bias b.bias silu; n = rms y2 2 n.gain; mid = branch n o.weight\n"
   "h2 = norm mid norm2.gain; a = times h2 mlp.up 32; r = relu2 a; w2 = times r wide.weight 20\n"
   "rr = rms w2 4 m.gain; x3 = branch rr m.down; h3 = norm x3 q_norm.gain; out = branch h3"},
  {"read twice", MIRAS_LAYER_MLP,
   "h = norm x norm1.gain; a = times h a.weight 20; s = times a b.weight 20; r = relu2 a\n"
   "u = gate r s gelu; t = times u t.weight 8; n = rms u 4 n.gain; mid = branch n q.weight\n"
   "out = branch t o.weight"},
  {"shift", MIRAS_LAYER_MLP,
   "h = shift x norm1.gain; z0 = mix h 0; z1 = mix h 1; a = times z0 a.weight 24\n"
   "b = times z1 b.weight 48; squash b:24 tanh; s = multiply a b:24\n"
   "c = conv s c.weight 4 none; g = gate c b@24:24 silu; out = branch g o.weight"},
  {"attention", MIRAS_LAYER_ATTENTION,
   "h = norm x norm1.gain; qkv = times h q.weight 24 k.weight 24 v.weight 24 out_gate.weight 24\n"
   "an = angles attention; tq = rotate qkv:24 2 an; tk = rotate qkv@k.weight:24 2 an\n"
   "y = attend tq tk qkv@v.weight:24; c = conv y conv_q.weight 3 silu\n"
   "u = gate c qkv@out_gate.weight:24 sigmoid; out = branch u o.weight"},
  {"convolved attention", MIRAS_LAYER_ATTENTION,
   "h = norm x norm1.gain; qkv = times h q.weight 24 k.weight 24 v.weight 24\n"
   "c = conv qkv conv_q.weight 3 silu; y = attend c:24 c@24:24 c@48:24; out = branch y o.weight"},
  {"memory and attention", MIRAS_LAYER_PARALLEL,
   "h = norm x norm1.gain\n"
   "proj = times h q.weight width k.weight width v.weight width gates.down 8\n"
   "g = times proj@gates.down:8 gates.up 2; gates = gates g\n"
   "v = conv proj@v.weight:24 conv_v.weight 4 silu\n"
   "k = conv proj@k.weight:24 conv_k.weight 4 silu\n"
   "q = conv proj:24 conv_q.weight 4 silu; length q; length k; y = memory q\n"
   "aq = times h attention.q.weight 24; ak = times h attention.k.weight 24\n"
   "av = times h attention.v.weight 24; an = angles attention; tq = rotate aq 2 an\n"
   "tk = rotate ak 2 an; ya = attend tq tk av; s = multiply y ya; mid = branch s o.weight\n"
   "h2 = norm mid norm2.gain; b = times h2 side.weight 24; bb = conv b b.weight 4 silu\n"
   "r = relu2 bb; out = branch r mlp.down"},
  {"slots", MIRAS_LAYER_MEMORY,
   "h = norm x norm1.gain; qkv = times h q.weight 24 k.weight 24 v.weight 24 gates.down 6\n"
   "g = times qkv@gates.down:6 gates.up 10; gates = gates g; keys\n"
   "v = conv qkv@v.weight:24 silu; own = conv qkv@k.weight:24 conv_k.weight 3 none\n"
   "q = read qkv:24; look = lookup q; asks = softmax look; y = memory asks\n"
   "act = conv y silu; out = branch act o.weight"},
  {"a tree of states", MIRAS_LAYER_MEMORY,
   "h = norm x norm1.gain; qkv = times h q.weight 24 k.weight 24 v.weight 24 gates.down 6\n"
   "g = times qkv@gates.down:6 gates.up 10; gates = gates g; restart\n"
   "v = conv qkv@v.weight:24 silu; k = conv qkv@k.weight:24 conv_k.weight 3 none\n"
   "q = read qkv:24; length q; length k; each = memory q; y = weigh each\n"
   "act = conv y silu; out = branch act o.weight"}
};
enum { OWN = sizeof own / sizeof *own };

static miras_model_desc own_desc(int i) {
  miras_model_desc d;
  memset(&d, 0, sizeof d);
  d.vocab = VOCAB, d.width = WIDTH, d.heads = 2, d.layers = 2, d.seed = 3;
  d.layer[0].type = own[i].type;
  if (i == 6) d.layer[0].attention.rope.share = MIRAS_ROPE_SHARE_NONE;
  if (own[i].type == MIRAS_LAYER_MEMORY) {
    miras_model_preset(&d, MIRAS_PRESET_HGRN2_MEMORY, 2);
    d.vocab = VOCAB, d.width = WIDTH, d.heads = 2, d.seed = 3;
    d.layer[0].mixer.key_slots = 5;
    if (i == OWN - 1) {
      miras_model_preset(&d, MIRAS_PRESET_GATED_DELTANET, 2);
      d.vocab = VOCAB, d.width = WIDTH, d.heads = 2, d.seed = 3;
      d.layer[0].mixer.levels = 3;
    }
    d.layer[0].memory.chunk = 8, d.layer[0].mixer.gate_rank = 6;
    d.layer[0].mlp.none = 1;
  }
  if (own[i].type == MIRAS_LAYER_PARALLEL) {
    d.layer[0].memory.bias = MIRAS_BIAS_L2, d.layer[0].memory.retention = MIRAS_RETENTION_L2;
    d.layer[0].memory.decay_gate = MIRAS_GATE_HEAD, d.layer[0].memory.chunk = 8;
    d.layer[0].mixer.gate_rank = 8, d.layer[0].mixer.conv_size = 4;
  }
  d.program = own[i].text;
  return d;
}

/* Gradients against differences of losses, of some entries of every parameter. */
static void check_gradients(const char *name, miras_model *m) {
  miras_trainer *t = training(m);
  int views, k, q;
  const miras_view *v = miras_model_views(m, &views);
  size_t n, i;
  float *p = miras_model_params(m, &n), *g = (float *)malloc(n * sizeof *g);
  uint64_t seed = 1;
  for (k = 0; k < views; k++)                    /* no zeros and ones, which are special cases */
    for (i = 0; i < v[k].count; i++) {
      seed = seed * 6364136223846793005u + 1;
      p[v[k].offset + i] += 0.2f * ((float)(seed >> 40) / 16777216 - 0.5f);
    }
  (void)loss_of_both(t, 1);
  assert_int_equal(miras_trainer_backward(t, NULL), MIRAS_OK);
  memcpy(g, miras_trainer_grads(t), n * sizeof *g);
  for (k = 0; k < views; k++)
    for (q = 0; q < 4; q++) {
      const size_t at = v[k].offset + ((size_t)q * 7919 + 3) % v[k].count;
      const float was = p[at], e = k ? 5e-3f : 1e-3f;
      double up, down, is;
      p[at] = was + e, up = (double)loss_of_both(t, 0);
      p[at] = was - e, down = (double)loss_of_both(t, 0);
      p[at] = was, is = (up - down) / (2 * (double)e);
      if (!(fabs(is - (double)g[at]) < 2e-3 + 0.02 * fabs(is)))
        fail_msg("%s: %s[%d] is %g against %g", name, v[k].name, (int)(at - v[k].offset),
                 (double)g[at], is);
    }
  free(g);
  miras_close(t);
}

/* A session, in one piece and in two, says what a trainer says. */
static void check_session(miras_model *m) {
  static float out[ROWS * VOCAB];
  miras_trainer *t = training(m);
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  miras_batch b;
  float loss;
  int i;
  memset(&b, 0, sizeof b);
  b.batch = 1, b.length = ROWS, b.tokens = tokens, b.classes = tokens + 1, b.outputs = out;
  assert_int_equal(miras_trainer_loss(t, &b, 0, &loss), MIRAS_OK);
  for (i = 0; i < ROWS; i++)
    assert_memory_equal(miras_session_step(s, tokens[i]), out + i * VOCAB, VOCAB * sizeof *out);
  miras_close(s);
  s = miras_session_open(m, NULL, NULL, NULL, 0);
  miras_session_feed(s, tokens, NULL, 33);
  assert_memory_equal(miras_session_feed(s, tokens + 33, NULL, ROWS - 33), out + (ROWS - 1) * VOCAB,
                      VOCAB * sizeof *out);
  miras_close(s);
  miras_close(t);
}

/* Saved, and opened by what the file says. */
static void check_file(miras_model *m) {
  unsigned char *bytes = (unsigned char *)malloc(FILE_SIZE), *state = bytes + FILE_SIZE / 2;
  const size_t n = miras_save_to(m, bytes, FILE_SIZE / 2);
  miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
  miras_model_desc d;
  miras_model *other;
  size_t more;
  const float *of = miras_model_params(m, &more);
  char why[256];
  assert_true(n > 0);
  memset(&d, 0, sizeof d);
  assert_int_equal(miras_model_desc_from(&d, bytes, n), MIRAS_OK);
  assert_int_equal(miras_model_desc_differs(&d, miras_model_desc_of(m), NULL, 0), 0);
  other = opened(&d);
  assert_int_equal(miras_load_from(other, bytes, n, NULL, 0), MIRAS_OK);
  assert_memory_equal(miras_model_params(other, NULL), of, more * sizeof *of);
  miras_session_feed(s, tokens, NULL, 9);
  more = miras_save_to(s, state, FILE_SIZE / 2);
  miras_close(s);
  s = miras_session_open(other, NULL, NULL, NULL, 0);
  assert_int_equal(miras_load_from(s, state, more, NULL, 0), MIRAS_OK);
  miras_close(s);
  miras_close(other);
  d.program = "h = norm x norm1.gain; out = branch h";
  d.layer[0].type = MIRAS_LAYER_MLP;
  assert_int_equal(miras_model_desc_differs(&d, miras_model_desc_of(m), why, sizeof why), 1);
  free(bytes);
}

static void test_own(void **unused) {
  int i;
  (void)unused;
  for (i = 0; i < OWN; i++) {
    const miras_model_desc d = own_desc(i);
    miras_model_desc e = d;
    static char text[1 << 13];
    miras_model *m = opened(&d);
    check_gradients(own[i].name, m);
    check_session(m);
    check_file(m);
    print_all(m, text, sizeof text);
    e.program = text;
    check_same(own[i].name, &d, &e);
    miras_close(m);
  }
}

#define LAYER(rest) "h = norm x norm1.gain\n" rest
static void test_refused(void **unused) {
  static const struct { int own; const char *text, *why; } cases[] = {
    {0, "h = nrm x norm1.gain",
     "program, line 1: \"nrm\" stands where a name, = and an operation were expected"},
    {0, LAYER("a = times g a.weight 8"), "program, line 2: there is no array g yet"},
    {0, LAYER("a = times h a.weight 0"),
     "program, line 2: \"0\" is no number of columns, from 1 on"},
    {0, LAYER("a = times h a.weight 8\nb = times h b.weight 9\nc = multiply a b"),
     "program, line 4: b has 9 columns from 0 on; 8 were expected"},
    {0, LAYER("a = times h a.weight 8\nout = branch a:4 o.weight"),
     "program, line 2: columns 4 to 7 of a are read by no line"},
    {0, LAYER("a = times h a.weight 8\nb = gate a a silu\nout = branch b o.weight"),
     "program, line 3: columns 0 to 7 of a are read by line 3 already; what is read twice is the "
     "same columns, first by times, mix, conv, read or rotate"},
    {0, LAYER("a = times h a.weight 8\na = times h b.weight 8\nout = branch a o.weight"),
     "program, line 3: columns 0 to 7 of a have been made by line 2"},
    {0, LAYER("a = times h a.weight 8 a.weight 8"),
     "program, line 2: a weight that is used again stands alone in either line, without a bias"},
    {0, LAYER("a = times h norm2.gain 8"),
     "program, line 2: norm2.gain is not the weight of a product"},
    {0, LAYER("mid = branch h o.weight"), "program, line 2: the last branch must make out"},
    {0, LAYER("y = memory h"), "program, line 2: h is rows; memory reads heads of a memory here"},
    {0, LAYER("a = times h a.weight 8\nb = conv a b.weight 3 gelu"),
     "program, line 3: \"gelu\" stands where conv has one of: silu none relu elu"},
    {0, LAYER("a = times h@20:8 a.weight 8"),
     "program, line 2: h@20:8 goes beyond the 24 columns that there are"},
    {0, LAYER("out = branch h\nout = branch h"),
     "program, line 3: a branch makes what the stream is from there on, the last one out"},
    {0, "layer q\nh = norm x norm1.gain", "program, line 1: \"q\" is no letter of a kind of layer "
                                          "here"},
    {0, LAYER("a = copy h\nout = branch h twice\nmid = branch a"),
     "program, line 4: a branch makes what the stream is from there on, the last one out"},
    {7, LAYER("out = branch h"),
     "program, line 2: memory stands there 0 times; by the layer's fields it stands 1 times"},
    {7, LAYER("proj = times h q.weight width; q = read proj; look = lookup q"),
     "program, line 4: it reads q, with mixer.key_slots"},
    {8, LAYER("proj = times h q.weight width; q = read proj; y = memory q"),
     "program, line 4: it reads asks"},
    {8, LAYER("proj = times h q.weight width; q = read proj; look = lookup own"),
     "program, line 4: it reads q, with mixer.key_slots"},
    {8, LAYER("proj = times h q.weight 10; asks = softmax proj; y = memory asks\n"
              "k2 = times h k.weight 24; v = read k2; out = branch y o.weight"),
     "program, line 4: columns 0 to 9 of k have not been made"},
    {9, LAYER("restart"), "program, line 2: it stands once behind gates, with mixer.levels"},
    {9, LAYER("proj = times h q.weight width; q = read proj; y = memory q"),
     "program, line 4: with mixer.levels it stands behind restart"},
    {9, LAYER("a = times h a.weight 8; y = weigh a"),
     "program, line 3: it reads what a memory says, with mixer.levels"},
    {8, LAYER("restart"),
     "program, line 2: it stands once behind gates, with mixer.levels"}
  };
  char *far;
  size_t i;
  (void)unused;
  for (i = 0; i < sizeof cases / sizeof *cases; i++) {
    miras_model_desc d = own_desc(cases[i].own);
    char why[256] = "";
    d.program = cases[i].text;
    if (miras_model_size(&d, why, sizeof why)) fail_msg("%s is not refused", cases[i].text);
    assert_string_equal(why, cases[i].why);
  }
  far = (char *)malloc(70000);
  assert_non_null(far);
  for (i = 0; i < 2; i++) {                        /* names lie where 16 bits lead               */
    memset(far, ' ', 70000);
    memcpy(far, "h = norm x norm1.gain;", 22);
    memcpy(far + (i ? 60000 : 66000), "out = branch h", 15);   /* and its end                     */
    miras_model_desc d = own_desc(0);
    char why[256] = "";
    d.program = far;
    assert_int_equal(miras_model_size(&d, why, sizeof why) > 0, i);
    if (!i)
      assert_string_equal(why, "program, line 2: it begins more than 65535 characters, blanks and "
                               "remarks among them, behind its layer");
  }
  free(far);
}

/* Texts with words and characters changed: refused, or models that train and run. */
static void test_damaged(void **unused) {
  static const char letters[] = "abqkvxhg01248@:=;# .\nout";
  uint64_t seed = 7;
  int i, k, passed = 0;
  (void)unused;
  for (i = 0; i < 24000 / MIRAS_TEST_SHARE; i++) {
    miras_model_desc d = own_desc(i % OWN);
    char text[2048], why[256];
    size_t n = strlen(d.program), at, from, size;
    miras_model *m;
    memcpy(text, d.program, n + 1);
    for (k = 0; k < 1 + i % 3; k++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      at = (size_t)(seed >> 33) % n, from = (size_t)(seed >> 20) % n, size = (seed >> 12) % 9;
      if (seed >> 60 < 8) text[at] = letters[(seed >> 8) % (sizeof letters - 1)];
      else if (at + size < n && from + size < n) memmove(text + at, text + from, size);
    }
    d.program = text, d.layers = 1;
    size = miras_model_size(&d, why, sizeof why);
    if (!size || size > 1 << 22) continue;
    m = opened(&d);
    if (passed++ % 4 == 0) {
      miras_trainer *t = training(m);
      miras_session *s = miras_session_open(m, NULL, NULL, NULL, 0);
      (void)loss_of_both(t, 1);
      assert_int_equal(miras_trainer_backward(t, NULL), MIRAS_OK);
      miras_session_feed(s, tokens, NULL, 5);
      miras_close(s);
      miras_close(t);
    }
    miras_close(m);
  }
  assert_true(passed > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_published), cmocka_unit_test(test_hybrids), cmocka_unit_test(test_own),
    cmocka_unit_test(test_refused), cmocka_unit_test(test_damaged)
  };
  int i;
  for (i = 0; i <= 2 * ROWS; i++) tokens[i] = (i * i + i / 3) % VOCAB;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
