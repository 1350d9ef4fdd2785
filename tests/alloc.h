/* alloc.h: allocations of the library under test, counted, painted, and any of them made to fail.
 * A test includes it before miras.h. */
#ifndef MIRAS_TEST_ALLOC_H
#define MIRAS_TEST_ALLOC_H

#include <stdlib.h>
#include <string.h>

/* Blocks that are there; calls so far, the one that fails (0: none), and the largest block that was
 * asked for. */
static long test_live, test_calls, test_fail_at;
static size_t test_largest;

static void *test_malloc(size_t n) {
  void *p = ++test_calls == test_fail_at ? NULL : malloc(n);
  if (n > test_largest) test_largest = n;
  if (p) memset(p, 0xff, n);         /* nothing may live on what was there before */
  test_live += p != NULL;
  return p;
}

static void test_free(void *p) {
  test_live -= p != NULL;
  free(p);
}

#define MIRAS_MALLOC(n) test_malloc(n)
#define MIRAS_FREE(p) test_free(p)

#endif
