/* tune.c: a step of training beside a model of others, for bench/tune.py:
 *   cc -O2 -shared -fPIC bench/tune.c -o libtune.so -lm */
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#define MIRAS_HUGGINGFACE_IMPLEMENTATION
#include "../examples/huggingface.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct tune {
  miras_model *model;
  miras_trainer *trainer;
  int32_t *targets;
  int length;
} tune;

/* The model of a folder, held as `form`, with adapters of this rank where targets match (NULL:
 * none); it moves what `only` says, NULL: all. bytes: of the model, and of the training. NULL: it
 * does not open, and said on stderr why. */
tune *tune_open(const char *folder, int form, int rank, const char *targets, const char *only,
                int length, int recompute, uint64_t *bytes);
tune *tune_open(const char *folder, int form, int rank, const char *targets, const char *only,
                int length, int recompute, uint64_t *bytes) {
  static miras_model_desc d;
  miras_trainer_desc room;
  char why[1024] = "";
  tune *t = (tune *)calloc(1, sizeof *t);
  memset(&d, 0, sizeof d), memset(&room, 0, sizeof room);
  d.weights = (miras_weights)form;
  if (t && !miras_checkpoint_desc(&d, folder, NULL, NULL, why, sizeof why)) {
    if (targets) {
      d.adapter.rank = rank, d.adapter.scale = 2 * (float)rank;
      snprintf(d.adapters, sizeof d.adapters, "%s", targets);
    }
    t->model = miras_checkpoint_open(&d, folder, NULL, NULL, why, sizeof why);
  }
  room.context = length, room.only = only, room.recompute = recompute;
  if (t && t->model) {
    if (recompute > miras_model_desc_of(t->model)->layers)
      room.recompute = miras_model_desc_of(t->model)->layers;
    bytes[0] = miras_model_size(miras_model_desc_of(t->model), NULL, 0);
    bytes[1] = miras_trainer_size(t->model, &room, why, sizeof why);
    t->trainer = miras_trainer_open(t->model, &room, NULL, why, sizeof why);
    t->targets = (int32_t *)malloc((size_t)length * sizeof *t->targets);
    t->length = length;
    if (t->trainer && t->targets) return t;
  }
  fprintf(stderr, "%s: %s\n", folder, why);
  return NULL;
}

/* Loss, gradients and AdamW of a text's tokens; the loss, below 0 where a call is refused. */
float tune_step(tune *t, const int32_t *tokens);
float tune_step(tune *t, const int32_t *tokens) {
  const miras_adamw_options o = MIRAS_ADAMW(0, 1);
  miras_batch x;
  float loss = 0;
  int i;
  memset(&x, 0, sizeof x);
  for (i = 0; i < t->length; i++) t->targets[i] = i + 1 < t->length ? tokens[i + 1] : -1;
  x.batch = 1, x.length = t->length, x.tokens = tokens, x.classes = t->targets;
  return miras_trainer_loss(t->trainer, &x, 1, &loss) || miras_trainer_backward(t->trainer, NULL) ||
         miras_trainer_step(t->trainer, &o, 1e-4f, NULL) ? -1 : loss;
}

void tune_close(tune *t);
void tune_close(tune *t) {
  if (!t) return;
  miras_close(t->trainer), miras_close(t->model);
  free(t->targets), free(t);
}
