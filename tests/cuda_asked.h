/* cuda_asked.h: which rows a test of the device half was asked for on its command line. */
#ifndef MIRAS_TEST_CUDA_ASKED_H
#define MIRAS_TEST_CUDA_ASKED_H

#include <string.h>

/* Is the row among those asked for? Its name may be without "-memory". */
static unsigned asked_for;
static int asked(int argc, char **argv, const char *row) {
  int i;
  for (i = 1; i < argc; i++) {
    const size_t n = strlen(argv[i]);
    if (!strncmp(argv[i], row, n) && (!row[n] || !strcmp(row + n, "-memory"))) return ++asked_for;
  }
  return argc < 2;
}

#endif
