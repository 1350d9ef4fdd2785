/* miras.c: miras.h as a shared library, for languages that call C.
 *
 *     cc -O2 -shared -fPIC -fvisibility=hidden examples/shared/miras.c -o build/libmiras.so -lm
 *     clang -O2 -dynamiclib -fvisibility=hidden examples/shared/miras.c -o build/libmiras.dylib
 *     x86_64-w64-mingw32-gcc -O2 -shared examples/shared/miras.c -o build/miras.dll
 *
 * Callers in other languages need no layout of a descriptor: they hand in a block of the size
 * below, filled by a preset, and set its fields by name. */
#ifdef _WIN32
  #define MIRAS_API __declspec(dllexport)
#else
  #define MIRAS_API __attribute__((visibility("default")))
#endif
#define MIRAS_IMPLEMENTATION
#include "../../miras.h"

/* What the callers in examples/csharp and examples/lua count on. */
#define FITS(name, condition) typedef char fits_##name[(condition) ? 1 : -1]
FITS(memory_desc, sizeof(miras_memory_desc) <= 1024);
FITS(model_desc, sizeof(miras_model_desc) <= 16384);
FITS(memory_event, sizeof(miras_memory_event) == 8 * sizeof(void *));
FITS(row, sizeof(miras_row) == 5 * sizeof(int));
FITS(batch, sizeof(miras_batch) == 2 * sizeof(int) + 10 * sizeof(void *));
FITS(adamw, sizeof(miras_adamw_options) == 5 * sizeof(float));
FITS(trainer, sizeof(miras_trainer_desc) <= 40);
FITS(result, sizeof(miras_result) == sizeof(int) && sizeof(miras_preset) == sizeof(int));
