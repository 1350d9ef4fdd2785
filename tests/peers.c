/* peers.c: prints where the fields of the public structures lie and what the constants are, for
 * tests/peers.py, which calls miras.h from Python. One line each:
 *   size STRUCT BYTES     field STRUCT.NAME OFFSET BYTES KIND     constant NAME VALUE
 * KIND is w for whole numbers and enums, r for floats, p for pointers. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "../miras.h"

static miras_memory_desc desc;

/* 1 / 2 tells whole numbers from floats without naming the type of the field here */
#define NUMBER(f)                                                                \
  desc.f = 1, printf("field desc.%s %u %u %c\n", #f, (unsigned)offsetof(miras_memory_desc, f), \
                     (unsigned)sizeof desc.f, (double)(desc.f / 2) > 0 ? 'r' : 'w')
#define POINTER(s, f)                                                                \
  printf("field %s.%s %u %u p\n", #s, #f, (unsigned)offsetof(miras_memory_##s, f), \
         (unsigned)sizeof(((miras_memory_##s *)0)->f))
#define STRUCT(s) printf("size %s %u\n", #s, (unsigned)sizeof(miras_memory_##s))
#define CONSTANT(c) printf("constant %s %d\n", #c, (int)(c))

int main(void) {
  memset(&desc, 0, sizeof desc);
  printf("size desc %u\n", (unsigned)sizeof desc);
  NUMBER(architecture);
  NUMBER(bias);
  NUMBER(retention);
  NUMBER(algorithm);
  NUMBER(order);
  NUMBER(batch);
  NUMBER(heads);
  NUMBER(key_dim);
  NUMBER(value_dim);
  NUMBER(chunk);
  NUMBER(depth);
  NUMBER(inner_norm);
  NUMBER(inner_residual);
  NUMBER(inner_bias);
  NUMBER(feature_map);
  NUMBER(normalize);
  NUMBER(inner_steps);
  NUMBER(separate_erase);
  NUMBER(token_rates);
  NUMBER(window);
  NUMBER(decay_gate);
  NUMBER(learning_rate_gate);
  NUMBER(momentum_gate);
  NUMBER(threshold_gate);
  NUMBER(value_decay_gate);
  NUMBER(decay_rate);
  NUMBER(decay_ratio);
  NUMBER(decay_schedule);
  NUMBER(layer);
  NUMBER(layers);
  NUMBER(learning_rate);
  NUMBER(momentum);
  NUMBER(threshold);
  NUMBER(sharpness);
  NUMBER(simplex);
  NUMBER(simplex_logits);
  NUMBER(simplex_signed);
  NUMBER(decay_target);
  NUMBER(q);
  /* what a layer of a model has, as the papers have it: the rows of the table for memories on their
     own bring keys to a length and lead back to the initial memory */
  printf("size model_desc %u\n", (unsigned)sizeof(miras_model_desc));
  printf("field model_desc.memory %u %u w\n", (unsigned)offsetof(miras_model_desc, layer[0].memory),
         (unsigned)sizeof desc);
  STRUCT(input);
  printf("field input.length %u %u w\n", (unsigned)offsetof(miras_memory_input, length),
         (unsigned)sizeof(int));
  POINTER(input, key);
  POINTER(input, value);
  POINTER(input, query);
  POINTER(input, keep);
  POINTER(input, learning_rate);
  POINTER(input, momentum);
  POINTER(input, threshold);
  POINTER(input, value_keep);
  POINTER(input, erase);
  POINTER(input, replace);
  STRUCT(input_grad);
  POINTER(input_grad, key);
  POINTER(input_grad, value);
  POINTER(input_grad, query);
  POINTER(input_grad, keep);
  POINTER(input_grad, learning_rate);
  POINTER(input_grad, momentum);
  POINTER(input_grad, threshold);
  POINTER(input_grad, value_keep);
  POINTER(input_grad, erase);
  POINTER(input_grad, replace);
  CONSTANT(MIRAS_ARCH_VECTOR);
  CONSTANT(MIRAS_BIAS_DOT);
  CONSTANT(MIRAS_RETENTION_L2);
  CONSTANT(MIRAS_FN_ELU);
  CONSTANT(MIRAS_FN_POLY2);
  CONSTANT(MIRAS_GATE_HEAD);
  CONSTANT(MIRAS_GATE_CHANNEL);
  return 0;
}
