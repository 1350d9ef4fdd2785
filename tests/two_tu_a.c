/* two_tu_a.c: the file of a program that holds the implementation. two_tu_b.c only includes the
 * header; with MIRAS_STATIC both carry their own copy. */
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "../miras.h"   /* a second include does no harm */
#include "calls.h"

float surprise_in_a(const miras_memory_desc *d, const float *key, const float *value);

float surprise_in_a(const miras_memory_desc *d, const float *key, const float *value) {
  miras_memory *m = miras_memory_open(d, NULL, NULL, 0);
  float surprise = surprise_of_write(m, key, value);
  miras_close(m);
  return surprise;
}
