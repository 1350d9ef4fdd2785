/* two_tu_b.c: the second file of a program; also compiled as C++, against the C implementation. */
#ifdef MIRAS_STATIC
  #define MIRAS_IMPLEMENTATION
#endif
#include "../miras.h"
#include "calls.h"
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif
float surprise_in_a(const miras_memory_desc *d, const float *key, const float *value);
#ifdef __cplusplus
}
#endif

int main(void) {
  float key[4] = {1, 0, 0, 0}, value[4] = {1, 2, 3, 4}, here, there;
  miras_memory *m;
  miras_memory_desc d;
  if (miras_memory_preset(&d, MIRAS_PRESET_YAAD) != MIRAS_OK) return 1;
  d.key_dim = 4;
  m = miras_memory_open(&d, NULL, NULL, 0);
  if (!m) return 1;
  here = surprise_of_write(m, key, value);
  there = surprise_in_a(&d, key, value);
  miras_close(m);
  printf("%g here, %g there\n", (double)here, (double)there);
  return here > 0 && memcmp(&here, &there, sizeof here) == 0 ? 0 : 1;
}
