/* MirasMemory.c: the library, once. What a sketch does without can be left out here, for a third of
 * the flash (README.md has numbers); what then needs it is refused with a sentence:
 *   MIRAS_NO_EXACT       matrices: deltanet, gated-deltanet, nlms, ...
 *   MIRAS_NO_FROZEN      perceptrons, and all that is not linear: yaad, titans, moneta, ...
 *   MIRAS_NO_RECURSIVE   least squares: signals, categories, rls
 *   MIRAS_NO_MESA, MIRAS_NO_ATTENTION, MIRAS_NO_SCAN   the rows of those names; mamba */
#define MIRAS_NO_MESA
#define MIRAS_NO_ATTENTION
#define MIRAS_NO_SCAN
#define MIRAS_IMPLEMENTATION
#include "MirasMemory.h"
