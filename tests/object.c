/* object.c: the library once, for those tests that need only its public functions and inside.h:
 *   cc -O2 -c tests/object.c
 *   cc -O2 -DMIRAS_TEST_LINKED tests/test_state.c object.o -o test_state -lcmocka -lm -lpthread */
#define MIRAS_PTHREADS
#define MIRAS_IMPLEMENTATION
#define MIRAS_TEST_OBJECT
#include "alloc.h"
#include "unseen.h"
#include "../miras.h"
#include "inside.h"
