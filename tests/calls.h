/* calls.h: calls that hand a number out beside their result, as functions of that number; NaN where
 * the result is not MIRAS_OK. Include miras.h first. */
#ifndef MIRAS_TEST_CALLS_H
#define MIRAS_TEST_CALLS_H

#include <math.h>
#include <string.h>

#if defined(__GNUC__)
  #define CALL static __attribute__((unused))
#else
  #define CALL static
#endif

CALL float surprise_of_write(miras_memory *m, const float *key, const float *value) {
  float surprise = 0;
  return miras_memory_write(m, key, value, &surprise) == MIRAS_OK ? surprise : (float)NAN;
}

/* Write, then read, in one pass. */
CALL miras_result forward_one(miras_memory *m, const float *key, const float *value,
                              const float *query, float *out) {
  miras_memory_input x;
  memset(&x, 0, sizeof x);
  x.length = 1, x.key = key, x.value = value, x.query = query;
  return miras_memory_forward(m, &x, out, NULL);
}

#ifndef MIRAS_NO_MODEL
CALL double score_of(miras_session *s, const int32_t *tokens, const int32_t *targets,
                     size_t count) {
  double loss = 0;
  return miras_session_score(s, tokens, targets, count, &loss) == MIRAS_OK ? loss : (double)NAN;
}

#ifndef MIRAS_NO_TRAINING
CALL miras_batch texts_of(const int32_t *tokens, const int32_t *targets, int batch, int length) {
  miras_batch x;
  memset(&x, 0, sizeof x);
  x.tokens = tokens, x.classes = targets, x.batch = batch, x.length = length;
  return x;
}

CALL float loss_of(miras_trainer *t, const int32_t *tokens, const int32_t *targets, int batch,
                   int length, int train) {
  const miras_batch x = texts_of(tokens, targets, batch, length);
  float loss = 0;
  return miras_trainer_loss(t, &x, train, &loss) == MIRAS_OK ? loss : (float)NAN;
}

CALL float loss_carried(miras_trainer *t, const int32_t *tokens, const int32_t *targets, int batch,
                        int length, const int32_t *carry, const unsigned char *restart) {
  miras_batch x = texts_of(tokens, targets, batch, length);
  float loss = 0;
  x.carry = carry, x.restart = restart;
  return miras_trainer_loss(t, &x, 1, &loss) == MIRAS_OK ? loss : (float)NAN;
}

CALL float norm_of_step(miras_trainer *t, const miras_adamw_options *o, float learning_rate) {
  float norm = 0;
  return miras_trainer_step(t, o, learning_rate, &norm) == MIRAS_OK ? norm : (float)NAN;
}
#endif
#endif
#undef CALL

#endif
