/* check.h: cmocka, or a plain runner with the same names for machines that have no cmocka (the
 * cross-compiled tests). Define MIRAS_TEST_NO_CMOCKA for the plain one; include this file instead
 * of cmocka.h. Only what the tests use is here: of groups a set-up, no teardown. A failed
 * check prints its place and leaves the test by longjmp, as cmocka does. */
#ifndef MIRAS_TEST_CHECK_H
#define MIRAS_TEST_CHECK_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>

/* Tests that walk long grids check one case in so many where a run is many times slower
 * (sanitizers, an emulated processor); table.sh says where. */
#ifndef MIRAS_TEST_SHARE
  #define MIRAS_TEST_SHARE 1
#endif

#ifndef MIRAS_TEST_NO_CMOCKA
#include <cmocka.h>
#else
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct CMUnitTest {
  const char *name;
  void (*test_func)(void **state);
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

CHECK__UNUSED static int check__run(const char *group, const CMUnitTest *tests, size_t count,
                                    int (*setup)(void **)) {
  /* volatile: read again after a longjmp */
  volatile size_t i, failed = 0, skipped = 0;
  void *state = NULL;
  if (setup && setup(&state) != 0) return -1;
  printf("[==========] %s: running %u test(s).\n", group, (unsigned)count);
  for (i = 0; i < count; i++) {
    volatile int bad = 0;
    check__skipped = 0;
    printf("[ RUN      ] %s\n", tests[i].name);
    if (setjmp(check__jump) == 0) tests[i].test_func(NULL);
    else if (!check__skipped) bad = 1;
    if (check__skipped) skipped = skipped + 1;
    if (bad) failed = failed + 1;
    printf("[ %s ] %s\n", bad ? " FAILED " : check__skipped ? "SKIPPED " : "      OK",
           tests[i].name);
    fflush(stdout);
  }
  printf("[==========] %u passed, %u failed, %u skipped.\n",
         (unsigned)(count - failed - skipped), (unsigned)failed, (unsigned)skipped);
  return (int)failed;
}

#define cmocka_unit_test(f) { #f, f }
#define cmocka_run_group_tests(tests, setup, teardown) \
  check__run(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup)

#define CHECK__MAX(x) ((uintmax_t)(x))
#define assert_true(x) ((x) ? (void)0 : check__stop(__FILE__, __LINE__, #x))
#define assert_false(x) ((x) ? check__stop(__FILE__, __LINE__, "not " #x) : (void)0)
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_int_equal(a, b) \
  check__equal(CHECK__MAX(a), CHECK__MAX(b), 1, __FILE__, __LINE__, #a " == " #b)
#define assert_int_not_equal(a, b) \
  check__equal(CHECK__MAX(a), CHECK__MAX(b), 0, __FILE__, __LINE__, #a " != " #b)
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
