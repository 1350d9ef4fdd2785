/* lm_tools.h, a part of lm.c: errors, memory, time, and files that are whole or not there. */
#ifndef LM_TOOLS_H
#define LM_TOOLS_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef _WIN32
  #include <sys/resource.h>
#endif
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int progress_open; /* a progress line without its newline is on the terminal */

/* Say one sentence and leave. */
static void die(int status, const char *format, ...) {
  va_list list;
  if (progress_open) fputc('\n', stderr);
  fputs("lm: ", stderr);
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
  exit(status);
}

static void *grow(void *pointer, size_t count, size_t size) {
  void *p = count > SIZE_MAX / size ? NULL : realloc(pointer, count * size + 1);
  if (!p) die(1, "there is not enough memory for %lu items", (unsigned long)count);
  return p;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double peak_mib(void) {
#ifdef _WIN32
  return 0;   /* not known without that system's own library */
#else
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  #if defined(__APPLE__)
  return (double)u.ru_maxrss / 1048576; /* bytes there, KiB elsewhere */
  #else
  return (double)u.ru_maxrss / 1024;
  #endif
#endif
}

/* Number i of the stream seed, without any state to save (the finaliser of splitmix64, twice). */
static uint64_t draw(uint64_t seed, uint64_t i) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + i + 0x632be59bd9b4e019u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 31);
}

/* The whole file, with a zero behind it. Quiet: NULL when it cannot be opened. */
static unsigned char *read_file(const char *path, size_t *count, int quiet) {
  unsigned char *text = NULL;
  size_t n = 0, room = 0, got;
  FILE *f = fopen(path, "rb");
  if (!f) {
    if (quiet) return NULL;
    die(1, "%s cannot be opened: %s", path, strerror(errno));
  }
  do {
    if (n == room) {
      room = room ? room * 2 : 65536;
      text = (unsigned char *)grow(text, room, 1);
    }
    got = fread(text + n, 1, room - n, f);
    n += got;
  } while (got);
  if (ferror(f)) die(1, "%s cannot be read: %s", path, strerror(errno));
  fclose(f);
  text[n] = 0;
  *count = n;
  return text;
}

static char *join(const char *head, const char *tail) {
  const size_t n = strlen(head);
  char *path = (char *)grow(NULL, n + strlen(tail) + 1, 1);
  memcpy(path, head, n);
  memcpy(path + n, tail, strlen(tail) + 1);
  return path;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* A file is written under a name of its own beside its place, and renamed when it is whole. Only
 * one is written at a time, and this is its name; NULL where there is a device or a pipe, which is
 * written into. */
static char *part;

/* Is there something that is no file and no folder? */
static int special(const char *path) {
  struct stat st;
  return !stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

static FILE *create(const char *path) {
  FILE *f = NULL;
  int i;
  if (special(path)) {
    free(part);
    part = NULL;
    f = fopen(path, "wb");
  }
  for (i = special(path) ? 100 : 0; !f && i < 100; i++) {
    char end[64];
    snprintf(end, sizeof end, ".tmp-%ld-%d", (long)getpid(), i);
    free(part);
    part = join(path, end);
    f = fopen(part, "wbx"); /* x: not one that is there, be it a link */
    if (!f && errno != EEXIST) break;
  }
  if (!f) die(1, "%s cannot be written: %s", path, strerror(errno));
  return f;
}

/* A new file takes the place of the old one, which has to go first under Windows. */
static int take_place(const char *from, const char *path) {
#ifdef _WIN32
  remove(path);
#endif
  return rename(from, path);
}

static void finish(FILE *f, const char *path) {
  int bad = ferror(f);
#ifndef _WIN32
  struct stat old;
  if (part && !stat(path, &old)) (void)chmod(part, old.st_mode & 0777);   /* who may read it */
#endif
  if (fclose(f) || bad || (part && take_place(part, path))) {
    if (part) remove(part);
    die(1, "%s cannot be written: the disk may be full", path);
  }
}

/* Do both paths lead to one file that is there? */
static int same_file(const char *a, const char *b) {
#ifdef _WIN32
  char x[1024], y[1024];
  return _fullpath(x, a, sizeof x) && _fullpath(y, b, sizeof y) && !_stricmp(x, y);
#else
  struct stat x, y;
  return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
#endif
}

/* A file that the program writes must not take the place of one that it reads, nor of that one's
 * vocabulary. */
static void not_input(const char *option, const char *out, const char *in) {
  char *vocab = join(in, ".vocab");
  if (same_file(out, in) || same_file(out, vocab))
    die(2, "%s is %s, which is read from and would be replaced", option, out);
  free(vocab);
}

/* Letters to change, leave out or put in until a is b; words of more than 63 are far from all. */
static int distance(const char *a, const char *b) {
  const int n = (int)strlen(a), m = (int)strlen(b);
  int row[64], i, k;
  if (n > 63 || m > 63) return 64;
  for (k = 0; k <= m; k++) row[k] = k;
  for (i = 1; i <= n; i++) {
    int corner = row[0];
    row[0] = i;
    for (k = 1; k <= m; k++) {
      const int above = row[k], best = above < row[k - 1] ? above + 1 : row[k - 1] + 1;
      const int changed = corner + (a[i - 1] != b[k - 1]);
      row[k] = best < changed ? best : changed;
      corner = above;
    }
  }
  return row[m];
}

/* Leave now, and not after hours, if no file can be written here. */
static void try_output(const char *path) {
  struct stat st;
  if (!*path) die(2, "--out is empty; it must name a file");
  if (!stat(path, &st) && S_ISDIR(st.st_mode))
    die(2, "--out needs a file at %s, which is a folder", path);
  if (special(path)) return;
  fclose(create(path));
  remove(part);
}

#endif
