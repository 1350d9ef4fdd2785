/* cuda_device.h: what tests of the device half share: what CUDA says of errors, memory of a device
 * taken piece by piece, and which rows a command line asks for. MIRAS_TEST_DEVICE: bytes of it. */
#ifndef MIRAS_TEST_CUDA_DEVICE_H
#define MIRAS_TEST_CUDA_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __CUDACC__
static unsigned shim_findings(void) {   /* what CUDA says                                         */
  const cudaError_t e = cudaPeekAtLastError();
  if (e != cudaSuccess) printf("%s: %s\n", cudaGetErrorName(e), cudaGetErrorString(e));
  return e != cudaSuccess;
}
  #define SHIM_POISON(p, bytes) ((void)0)
  #define SHIM_UNPOISON(p, bytes) ((void)0)
#endif

/* A test cannot go on: where, and what CUDA says. */
static void stop(const char *file, int line) {
  const cudaError_t e = cudaGetLastError();
  printf("%s, line %d: stopped, CUDA's error is %d\n", file, line, (int)e);
#ifdef __CUDACC__
  puts(cudaGetErrorString(e));
#endif
  exit(2);
}
#define STOP_IF(what) do { if (what) stop(__FILE__, __LINE__); } while (0)

#ifdef MIRAS_TEST_DEVICE
/* Memory of the device, taken from one end until all of it is given back. What was given back, and
 * what nobody has taken yet, is no number: nothing may depend on it. Between the pieces is some
 * that nobody may touch, where a sanitizer can hold that. */
static char *device;
static size_t used;
static const size_t whole = (size_t)(MIRAS_TEST_DEVICE);
static void take_back(void) {
  SHIM_UNPOISON(device, used);
  STOP_IF(cudaMemsetAsync(device, 255, used, 0));
  SHIM_POISON(device, used);
  used = 0;
}
static int device_ready(void) {   /* 0: there is none                                             */
  if (cudaMalloc((void **)&device, whole) != cudaSuccess) return 0;
  used = whole;
  take_back();
  return 1;
}
static float *take(size_t floats) {
  float *p = (float *)(void *)(device + used);
  used += (floats * sizeof(float) + 255) / 256 * 256 + 256;
  if (used > whole) {
    printf("the test needs more memory of the device: %lu bytes for %lu floats\n",
           (unsigned long)used, (unsigned long)floats);
    exit(2);
  }
  SHIM_UNPOISON(p, floats * sizeof(float));
  return p;
}
#endif

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
