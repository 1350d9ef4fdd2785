/* MirasMemory.h: miras.h for Arduino: memories that are written and read. Models, training and
 * files are left out. Include this in a sketch; encoders.h, beside it, makes keys of what sensors
 * say. */
#ifndef MIRAS_MEMORY_H
#define MIRAS_MEMORY_H

#ifdef __AVR__
  #error "Miras needs a board whose int has 32 bits and which has some 10 KB of RAM"
#endif
#define MIRAS_ONLY_MEMORIES
#ifndef MIRAS_ASSERT
  #define MIRAS_ASSERT(x) ((void)0)
#endif
#include "miras.h"

#endif
