/* adapter_peer.c: what adapter_peers.py compares with peft and transformers.
 *   adapter_peer FOLDER ADAPTER WEIGHTS OUT TOKEN..   opens the folder's model, held as WEIGHTS (a
 *     number of miras_weights), with the adapter; writes the logits of each token, and the mean
 *     loss of each next one, as floats to OUT.f32, gradients of what memories begin with, layer by
 *     layer, to OUT.states, the adapter again to OUT.peft, to OUT.merged the model with it, and to
 *     OUT.grads that adapter with gradients in the places of its numbers. The folders are there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#define MIRAS_HUGGINGFACE_IMPLEMENTATION
#include "../examples/huggingface.h"
#define MIRAS_ADAPTERS_IMPLEMENTATION
#include "../examples/adapters.h"

static char why[1024];
static void need(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

int main(int argc, char **argv) {
  enum { MOST = 256 };
  int32_t tokens[MOST], targets[MOST];
  static miras_model_desc d;
  miras_trainer_desc of;
  miras_batch x;
  miras_model *m;
  miras_trainer *t;
  char path[1024];
  float loss = 0, *logits;
  int i, n = argc - 5, count, outs;
  const miras_view *v;
  FILE *f;
  if (n < 2 || n > MOST) return 2;
  for (i = 0; i < n; i++) tokens[i] = atoi(argv[5 + i]);
  for (i = 0; i < n; i++) targets[i] = i + 1 < n ? tokens[i + 1] : -1;
  d.weights = (miras_weights)atoi(argv[3]);
  need(!miras_checkpoint_desc(&d, argv[1], NULL, NULL, why, sizeof why), "desc");
  need(!miras_adapters_desc(&d, argv[2], argv[1], why, sizeof why), "adapter");
  m = miras_checkpoint_open(&d, argv[1], NULL, NULL, why, sizeof why);
  need(m != NULL, "open");
  need(!miras_adapters_load(m, argv[2], argv[1], why, sizeof why), "load");
  memset(&of, 0, sizeof of), memset(&x, 0, sizeof x);
  v = miras_model_views(m, &count);
  for (i = 0; i < count && !strstr(v[i].name, "memory.init");) i++;
  of.context = n, of.only = i < count ? "*.adapter_*,*memory.init" : "*.adapter_*";
  t = miras_trainer_open(m, &of, NULL, why, sizeof why);
  need(t != NULL, "trainer");
  outs = miras_model_row(m)->outputs;
  logits = (float *)malloc((size_t)n * (size_t)outs * sizeof *logits);
  need(logits != NULL, "room");
  x.batch = 1, x.length = n, x.tokens = tokens, x.classes = targets, x.outputs = logits;
  need(!miras_trainer_loss(t, &x, 1, &loss) && !miras_trainer_backward(t, NULL), "loss");
  snprintf(path, sizeof path, "%s.f32", argv[4]);
  f = fopen(path, "wb");
  need(f && fwrite(logits, sizeof *logits, (size_t)n * (size_t)outs, f) == (size_t)(n * outs) &&
         fwrite(&loss, sizeof loss, 1, f) == 1 && !fclose(f), "write");
  snprintf(path, sizeof path, "%s.merged", argv[4]);
  need(!miras_peft_merge(argv[2], argv[1], path, why, sizeof why), "merge");
  snprintf(path, sizeof path, "%s.peft", argv[4]);
  need(!miras_peft_save(m, path, argv[1], why, sizeof why), "save");
  snprintf(path, sizeof path, "%s.states", argv[4]);
  f = fopen(path, "wb");
  for (i = 0; f && i < count; i++) {
    const float *g = strstr(v[i].name, "memory.init") ? miras_trainer_grad(t, &v[i]) : NULL;
    if (g) need(fwrite(g, sizeof *g, v[i].count, f) == v[i].count, "write");
  }
  need(f && !fclose(f), "write");
  for (i = 0; i < count; i++) {
    const float *g = miras_trainer_grad(t, &v[i]);
    if (!g || !strstr(v[i].name, ".adapter_")) continue;
    need(!miras_model_view_write(m, &v[i], 0, (size_t)v[i].shape[0], 0,
                                 v[i].count / (size_t)v[i].shape[0], g), "write");
  }
  snprintf(path, sizeof path, "%s.grads", argv[4]);
  need(!miras_peft_save(m, path, argv[1], why, sizeof why), "save");
  free(logits), miras_close(t), miras_close(m);
  return 0;
}
