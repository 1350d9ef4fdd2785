#define MIRAS_IMPLEMENTATION
#include <miras.h>
