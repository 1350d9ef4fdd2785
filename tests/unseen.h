/* unseen.h: a processor that is said to lack some of what it has. Include it before miras.h; the
 * library, object.c's too, then does not see the bits unseen of leaf 7, ebx. */
#ifndef MIRAS_TEST_UNSEEN_H
#define MIRAS_TEST_UNSEEN_H

#if (defined(__x86_64__) || defined(__i386__)) && defined(__GNUC__)
  #include <cpuid.h>
  #if defined(__cpuid_count) && !defined(_WIN32)
    #define UNSEEN 1
  #endif
#endif

#if defined(UNSEEN) && defined(MIRAS_TEST_LINKED)
  extern unsigned unseen;
#elif defined(UNSEEN)
  unsigned unseen;
  static __attribute__((unused)) void ask_processor(unsigned leaf, unsigned part, unsigned *a,
                                                    unsigned *b, unsigned *c, unsigned *d) {
    __cpuid_count(leaf, part, *a, *b, *c, *d);
    if (leaf == 7) *b &= ~unseen;
  }
  #undef __cpuid_count
  #define __cpuid_count(leaf, part, a, b, c, d) ask_processor(leaf, part, &(a), &(b), &(c), &(d))
#endif

#endif
