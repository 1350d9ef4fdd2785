/* A pool of two threads; the status is 0 if it opened. */
#include <stdio.h>

#define MIRAS_IMPLEMENTATION
#include <miras.h>

int main(void) {
  char why[256];
  const miras_parallel *pool = miras_pool_open(2, NULL, why, sizeof why);
  if (!pool) return puts(why), 1;
  printf("%d workers\n", pool->workers);
  miras_pool_close(pool);
  return 0;
}
