/* alloc.h: allocations of the library under test, counted, painted, and any of them made to fail.
 * A test includes it before miras.h. The library of object.c asks linked_malloc, which is malloc
 * where a program has none of its own. */
#ifndef MIRAS_TEST_ALLOC_H
#define MIRAS_TEST_ALLOC_H

#include <stdlib.h>
#include <string.h>

#if defined(MIRAS_TEST_LINKED) || defined(MIRAS_TEST_OBJECT)
void *linked_malloc(size_t n);
void linked_free(void *p);
#endif

#ifdef MIRAS_TEST_OBJECT
__attribute__((weak)) void *linked_malloc(size_t n) { return malloc(n); }
__attribute__((weak)) void linked_free(void *p) { free(p); }
#define MIRAS_MALLOC(n) linked_malloc(n)
#define MIRAS_FREE(p) linked_free(p)
#else

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

#ifdef MIRAS_TEST_LINKED
void *linked_malloc(size_t n) { return test_malloc(n); }
void linked_free(void *p) { test_free(p); }
#endif
#define MIRAS_MALLOC(n) test_malloc(n)
#define MIRAS_FREE(p) test_free(p)
#endif

#endif
