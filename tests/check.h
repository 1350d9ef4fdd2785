/* check.h: cmocka, or a plain runner with the same names for machines that have no cmocka (the
 * cross-compiled tests). Define MIRAS_TEST_NO_CMOCKA for the plain one; include this file instead
 * of cmocka.h. Only the names that the tests use are here. A failed check prints its place and
 * leaves the test by longjmp, as cmocka does. */
#ifndef MIRAS_TEST_CHECK_H
#define MIRAS_TEST_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

#ifndef MIRAS_TEST_NO_CMOCKA
#include <cmocka.h>
#else
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct CMUnitTest {
  const char *name;
  void (*test_func)(void **state);
  int (*setup_func)(void **state);
  int (*teardown_func)(void **state);
  void *initial_state;
} CMUnitTest;

static jmp_buf check__jump;
static int check__skipped;

#if defined(__GNUC__)
  #define CHECK__UNUSED __attribute__((unused))
  #define CHECK__NORETURN __attribute__((noreturn, unused))
#else
  #define CHECK__UNUSED
  #define CHECK__NORETURN
#endif

CHECK__NORETURN static void check__stop(const char *file, int line, const char *what) {
  printf("%s:%d: check failed: %s\n", file, line, what);
  longjmp(check__jump, 1);
}

CHECK__NORETURN static void check__skip(void) {
  check__skipped = 1;
  longjmp(check__jump, 1);
}

CHECK__UNUSED static void check__equal(uintmax_t a, uintmax_t b, int same, const char *file,
                                       int line, const char *what) {
  if ((a == b) == same) return;
  printf("%#jx and %#jx; ", a, b);
  check__stop(file, line, what);
}

CHECK__UNUSED static void check__string(const char *a, const char *b, int same, const char *file,
                                        int line, const char *what) {
  if ((strcmp(a, b) == 0) == same) return;
  printf("\"%s\" and \"%s\"; ", a, b);
  check__stop(file, line, what);
}

CHECK__UNUSED static void check__memory(const void *a, const void *b, size_t n, int same,
                                        const char *file, int line, const char *what) {
  if ((memcmp(a, b, n) == 0) != same) check__stop(file, line, what);
}

CHECK__UNUSED static void check__float(double a, double b, double bound, const char *file, int line,
                                       const char *what) {
  if (fabs(a - b) <= bound) return;
  printf("%g and %g; ", a, b);
  check__stop(file, line, what);
}

CHECK__UNUSED static int check__run(const char *group, const CMUnitTest *tests, size_t count,
                                    int (*setup)(void **), int (*teardown)(void **)) {
  /* volatile: read again after a longjmp */
  volatile size_t i, failed = 0, skipped = 0;
  static void *shared;
  if (setup && setup(&shared) != 0) return -1;
  printf("[==========] %s: running %u test(s).\n", group, (unsigned)count);
  for (i = 0; i < count; i++) {
    static void *state;
    volatile int bad = 0;
    state = tests[i].initial_state ? tests[i].initial_state : shared;
    check__skipped = 0;
    printf("[ RUN      ] %s\n", tests[i].name);
    if (setjmp(check__jump) == 0) {
      if (tests[i].setup_func && tests[i].setup_func(&state) != 0) bad = 1;
      if (!bad) tests[i].test_func(&state);
    } else if (!check__skipped) {
      bad = 1;
    }
    if (tests[i].teardown_func) tests[i].teardown_func(&state);
    if (check__skipped) skipped = skipped + 1;
    if (bad) failed = failed + 1;
    printf("[ %s ] %s\n", bad ? " FAILED " : check__skipped ? "SKIPPED " : "      OK",
           tests[i].name);
    fflush(stdout);
  }
  if (teardown) teardown(&shared);
  printf("[==========] %u passed, %u failed, %u skipped.\n",
         (unsigned)(count - failed - skipped), (unsigned)failed, (unsigned)skipped);
  return (int)failed;
}

#define cmocka_unit_test(f) { #f, f, NULL, NULL, NULL }
#define cmocka_unit_test_setup(f, s) { #f, f, s, NULL, NULL }
#define cmocka_unit_test_teardown(f, t) { #f, f, NULL, t, NULL }
#define cmocka_unit_test_setup_teardown(f, s, t) { #f, f, s, t, NULL }
#define cmocka_unit_test_prestate(f, p) { #f, f, NULL, NULL, p }
#define cmocka_run_group_tests(tests, setup, teardown) \
  check__run(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
  check__run(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#define CHECK__MAX(x) ((uintmax_t)(x))
#define assert_true(x) ((x) ? (void)0 : check__stop(__FILE__, __LINE__, #x))
#define assert_false(x) ((x) ? check__stop(__FILE__, __LINE__, "not " #x) : (void)0)
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_ptr_not_equal(a, b) assert_true((const void *)(a) != (const void *)(b))
#define assert_int_equal(a, b) \
  check__equal(CHECK__MAX(a), CHECK__MAX(b), 1, __FILE__, __LINE__, #a " == " #b)
#define assert_int_not_equal(a, b) \
  check__equal(CHECK__MAX(a), CHECK__MAX(b), 0, __FILE__, __LINE__, #a " != " #b)
#define assert_return_code(rc, error) assert_true((rc) >= 0)
#define assert_in_range(v, low, high) \
  assert_true(CHECK__MAX(v) >= CHECK__MAX(low) && CHECK__MAX(v) <= CHECK__MAX(high))
#define assert_float_equal(a, b, bound) \
  check__float((double)(a), (double)(b), (double)(bound), __FILE__, __LINE__, #a " ~ " #b)
#define assert_string_equal(a, b) check__string(a, b, 1, __FILE__, __LINE__, #a " == " #b)
#define assert_string_not_equal(a, b) check__string(a, b, 0, __FILE__, __LINE__, #a " != " #b)
#define assert_memory_equal(a, b, n) check__memory(a, b, n, 1, __FILE__, __LINE__, #a " == " #b)
#define assert_memory_not_equal(a, b, n) check__memory(a, b, n, 0, __FILE__, __LINE__, #a " != " #b)
#define fail() check__stop(__FILE__, __LINE__, "fail()")
#define fail_msg(...) \
  (printf(__VA_ARGS__), printf("\n"), check__stop(__FILE__, __LINE__, "fail_msg"))
#define skip() check__skip()
#define print_message printf
#define print_error printf
#endif /* MIRAS_TEST_NO_CMOCKA */
#endif
