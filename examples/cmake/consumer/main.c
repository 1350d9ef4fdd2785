/* A memory learns two pairs and is asked for them; the status is 0 if both came back. */
#include <math.h>
#include <stdio.h>

#include <encoders.h>
#include <miras.h>

int main(void) {
  static const float value[2] = {0.5f, -0.25f};
  float key[2][4], out[2];
  char why[256];
  miras_memory_desc d;
  miras_memory *m;
  int i;
  miras_memory_preset(&d, MIRAS_PRESET_DELTANET);
  d.key_dim = 4;
  d.value_dim = 1;
  m = miras_memory_open(&d, NULL, why, sizeof why);
  if (!m) return puts(why), 1;
  for (i = 0; i < 2; i++) miras_encode_one_hot(key[i], 4, i);
  for (i = 0; i < 20; i++) miras_memory_write(m, key[i % 2], &value[i % 2], NULL);
  for (i = 0; i < 2; i++) miras_memory_read(m, key[i], &out[i]);
  miras_close(m);
  printf("miras %s, %s: %.3f %.3f\n", MIRAS_VERSION_TEXT, miras_isa(), (double)out[0],
         (double)out[1]);
  return !(fabsf(out[0] - value[0]) < 1e-3f && fabsf(out[1] - value[1]) < 1e-3f);
}
