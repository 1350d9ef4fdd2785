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

/* The descriptor of a folder's model, held as `form`, with adapters of this rank where targets
 * match (NULL: none). 0: there is none, and said in why. */
static int tune_desc(miras_model_desc *d, const char *folder, int form, int rank,
                     const char *targets, char why[1024]) {
  memset(d, 0, sizeof *d);
  d->weights = (miras_weights)form;
  if (miras_checkpoint_desc(d, folder, NULL, NULL, why, 1024) != MIRAS_OK) return 0;
  if (targets) {
    d->adapter.rank = rank, d->adapter.scale = 2 * (float)rank;
    snprintf(d->adapters, sizeof d->adapters, "%s", targets);
  }
  return 1;
}

/* What its training needs where `only` is moved, NULL: all, and so many layers, or all, are
 * computed again. */
static miras_trainer_desc tune_asks(const miras_model *m, const char *only, int length,
                                    int recompute) {
  const int layers = miras_model_desc_of(m)->layers;
  miras_trainer_desc room;
  memset(&room, 0, sizeof room);
  room.context = length, room.only = only;
  room.recompute = recompute < layers ? recompute : layers;
  return room;
}

/* The bytes of that model, whose numbers are not read, and of its training. 0: refused, and said on
 * stderr why. */
int tune_room(const char *folder, int form, int rank, const char *targets, const char *only,
              int length, int recompute, uint64_t bytes[2]);
int tune_room(const char *folder, int form, int rank, const char *targets, const char *only,
              int length, int recompute, uint64_t bytes[2]) {
  static miras_model_desc d;
  char why[1024] = "";
  miras_model *m = tune_desc(&d, folder, form, rank, targets, why)
                     ? miras_model_open_empty(&d, NULL, why, sizeof why) : NULL;
  bytes[0] = bytes[1] = 0;
  if (m) {
    const miras_trainer_desc room = tune_asks(m, only, length, recompute);
    bytes[0] = miras_model_size(miras_model_desc_of(m), NULL, 0);
    bytes[1] = miras_trainer_size(m, &room, why, sizeof why);
  }
  if (!bytes[1]) fprintf(stderr, "%s: %s\n", folder, why);
  miras_close(m);
  return bytes[1] > 0;
}

/* The model, and what trains it; NULL: as above. */
tune *tune_open(const char *folder, int form, int rank, const char *targets, const char *only,
                int length);
tune *tune_open(const char *folder, int form, int rank, const char *targets, const char *only,
                int length) {
  static miras_model_desc d;
  char why[1024] = "";
  tune *t = (tune *)calloc(1, sizeof *t);
  if (t && tune_desc(&d, folder, form, rank, targets, why))
    t->model = miras_checkpoint_open(&d, folder, NULL, NULL, why, sizeof why);
  if (t && t->model) {
    const miras_trainer_desc room = tune_asks(t->model, only, length, 0);
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
