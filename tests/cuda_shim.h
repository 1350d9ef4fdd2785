/* cuda_shim.h: device code as C++ on the host. The threads of a block, or of a cluster of blocks,
 * are fibers that run one at a time; a barrier or a warp's exchange is where they wait for each
 * other, and which of those that can go on does so first is drawn. Threads that wait for each other
 * at different places, or for one that has ended, stop the program with a sentence, and so do a
 * stack that is too small and copies that nobody has waited for, and grids that a card would not
 * begin: too much shared memory, too many blocks, threads, bytes of arguments or registers
 * (cuda_table.txt).
 * Under -fsanitize=address what lies beyond shared memory is watched, under -fsanitize=thread races
 * are (cuda_races.h). POSIX. */
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#ifdef __linux__
  #include <elf.h>
  #include <sys/auxv.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
  #define SHIM_ADDRESSES 1
#elif defined(__has_feature)
  #if __has_feature(address_sanitizer)
    #define SHIM_ADDRESSES 1
  #endif
#endif
#ifdef SHIM_ADDRESSES
  #include <sanitizer/asan_interface.h>
  #include <sanitizer/common_interface_defs.h>
  #define SHIM_POISON(p, bytes) ASAN_POISON_MEMORY_REGION(p, bytes)
  #define SHIM_UNPOISON(p, bytes) ASAN_UNPOISON_MEMORY_REGION(p, bytes)
#else
  #define SHIM_POISON(p, bytes) ((void)0)
  #define SHIM_UNPOISON(p, bytes) ((void)0)
  #define __sanitizer_start_switch_fiber(held, stack, bytes) ((void)0)
  #define __sanitizer_finish_switch_fiber(held, stack, bytes) ((void)0)
#endif

#define MIRAS_CUDA_SHIM
#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __noinline__
#define __launch_bounds__(...)
#define __shared__

enum {
  SHIM_STACK = 256 << 10,            /* bytes of each thread's stack, ...                         */
  SHIM_GUARD = 64 << 10,             /* ... and below it, where nothing may be touched            */
  SHIM_DEEP = 64                     /* calls within calls that are known                         */
};
/* What a thread waits at; SHIM_CLUSTER: for all blocks of the cluster. Of an exchange and a product
 * each has its part when all are there; of matrices when it goes on, so that all wait once more. */
enum { SHIM_RUNS, SHIM_BARRIER, SHIM_EXCHANGE, SHIM_PRODUCT, SHIM_MATRICES, SHIM_CLUSTER };

/* Where one leaves off to let another go on. A context does it everywhere, by two system calls;
 * what a function keeps for its caller is six registers here, and the stack. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__ELF__)
typedef void *shim_spot;
extern "C" void shim_switch(shim_spot *from, const shim_spot *to);
__asm__(".text\n"
        ".type shim_switch, @function\n"
        "shim_switch:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov (%rsi), %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size shim_switch, . - shim_switch\n");
static void shim_begin(shim_spot *p, char *stack, size_t bytes, void (*run)(void)) {
  void **top = (void **)(void *)(stack + bytes) - 8;   /* six registers, and where to return      */
  memset(top, 0, 8 * sizeof *top);
  memcpy(top + 6, &run, sizeof run);
  *p = top;
}
#else
typedef ucontext_t shim_spot;
static void shim_switch(shim_spot *from, const shim_spot *to) { swapcontext(from, to); }
static void shim_begin(shim_spot *p, char *stack, size_t bytes, void (*run)(void)) {
  getcontext(p);
  p->uc_stack.ss_sp = stack;
  p->uc_stack.ss_size = bytes;
  makecontext(p, run, 0);
}
#endif

typedef struct shim_index { unsigned x; } shim_index;
typedef struct shim_copy_job {      /* on its way                                                 */
  void *to;
  const void *from, *place;
  unsigned bytes, group;
} shim_copy_job;
typedef struct shim_thread {
  shim_spot here;                   /* where it goes on                                          */
  int done;
  char *stack;
  void *held;                        /* the address sanitizer's                                   */
  int kind;                          /* what it waits at, ...                                     */
  const char *waits, *within;        /* ... where in the text, and in which function              */
  unsigned mask;                     /* for whom in its warp; 0: for the block                    */
  unsigned index, block, asks;       /* asks: whom it exchanges with                              */
  float gives, gets;
  void *shared;                      /* its block's memory                                        */
  const void *row;                   /* of a matrix                                               */
  unsigned brings[6];                /* factors of a product, ...                                 */
  float *sums;                       /* ... and four numbers of its result                        */
  shim_copy_job *copies;             /* that it has not waited for                                */
  size_t copies_count, copies_room;
  unsigned copies_group;             /* that comes next                                           */
  const void *path[SHIM_DEEP];       /* the calls that led here, where they are told              */
  unsigned depth;
} shim_thread;

static struct {
  shim_thread *thread;
  unsigned threads, now, room;       /* room: threads for which there are stacks                  */
  unsigned each, cluster, first;     /* threads of a block; blocks at work together, the first    */
  char *stacks;
  size_t apart;
  shim_spot scheduler;
  const void *bottom;                /* of the scheduler's stack                                  */
  size_t bytes;
  void (*run)(void *);
  void *argument;
  shim_index index, block, block_size, grid_size;
  void *shared;                      /* a block's shared memory                                   */
  char *shared_all;                  /* of all that work together                                 */
  size_t shared_bytes;
} shim;
static uint64_t shim_seed = 1;
static unsigned long shim_waits;     /* how often a thread has waited                             */

#define threadIdx (shim.index)
#define blockIdx (shim.block)
#define blockDim (shim.block_size)
#define gridDim (shim.grid_size)
#define shim_shared (shim.shared)

#include "cuda_races.h"

/* The thread `now` runs until it waits. */
SHIM_UNWATCHED static void shim_resume(void) {
  shim_thread *t = &shim.thread[shim.now];
  void *held = NULL;
  (void)held;
  shim.index.x = t->index, shim.block.x = t->block, shim.shared = t->shared;
  __sanitizer_start_switch_fiber(&held, t->stack, SHIM_STACK);
  shim_switch(&shim.scheduler, &t->here);
  __sanitizer_finish_switch_fiber(held, NULL, NULL);
}

SHIM_UNWATCHED static void shim_wait(unsigned mask, int kind, const char *where,
                                     const char *within) {
  shim_thread *t = &shim.thread[shim.now];
  if (mask && !(mask >> shim.now % 32 & 1)) {
    fprintf(stderr, "thread %u is not in the mask %08x at %s\n", shim.now, mask, where);
    exit(1);
  }
  t->mask = mask;
  t->kind = kind;
  t->waits = where;
  t->within = within;
  shim_waits++;
  __sanitizer_start_switch_fiber(&t->held, shim.bottom, shim.bytes);
  shim_switch(&t->here, &shim.scheduler);
  __sanitizer_finish_switch_fiber(t->held, NULL, NULL);
}

SHIM_UNWATCHED static float shim_exchange(unsigned mask, float v, unsigned from, const char *where,
                                          const char *within) {
  if (from >= shim.threads || from / 32 != shim.now / 32 || !(mask >> from % 32 & 1)) {
    fprintf(stderr, "thread %u asks thread %u, who is not there, at %s\n", shim.now, from, where);
    exit(1);
  }
  shim.thread[shim.now].gives = v, shim.thread[shim.now].asks = from;
  shim_wait(mask, SHIM_EXCHANGE, where, within);
  return shim.thread[shim.now].gets;
}

#define SHIM_TEXT2(x) #x
#define SHIM_TEXT(x) SHIM_TEXT2(x)
#define SHIM_HERE __FILE__ ":" SHIM_TEXT(__LINE__), __PRETTY_FUNCTION__
#define __syncthreads() shim_wait(0, SHIM_BARRIER, SHIM_HERE)
#define __syncwarp(mask) shim_wait(mask, SHIM_BARRIER, SHIM_HERE)
#define __shfl_xor_sync(mask, v, k) shim_exchange(mask, v, shim.now ^ (unsigned)(k), SHIM_HERE)
#define __shfl_sync(mask, v, lane, width) \
  shim_exchange(mask, v, shim.now / (width) * (width) + (unsigned)(lane), SHIM_HERE)

/* Is that memory of the device? */
static int __isGlobal(const void *p) {
  return (size_t)((const char *)p - (const char *)shim.shared) >= shim.shared_bytes;
}

/* Copies that run on while the thread does: they happen when it waits for them, of which a thread
 * that reads too early has nothing yet. To the watch over races they may happen from the call to
 * the wait. */
SHIM_UNWATCHED static void shim_copy(void *to, const void *from, unsigned bytes = 16) {
  shim_thread *t = &shim.thread[shim.now];
  shim_copy_job *job;
  if (((uintptr_t)to | (uintptr_t)from) % bytes || !__isGlobal(from) || __isGlobal(to)) {
    fprintf(stderr, "thread %u copies %u bytes that are not aligned, or not to shared memory\n",
            shim.now, bytes);
    exit(1);
  }
  if (t->copies_count == t->copies_room) {
    t->copies_room = t->copies_room ? 2 * t->copies_room : 64;
    t->copies = (shim_copy_job *)realloc(t->copies, t->copies_room * sizeof *t->copies);
    if (!t->copies) exit(2);
  }
  job = &t->copies[t->copies_count++];
  job->to = to, job->from = from, job->place = __builtin_return_address(0);
  job->bytes = bytes, job->group = t->copies_group;
  SHIM_COPIED(to, from, bytes, job->place);
}
SHIM_UNWATCHED static void shim_copies_group(void) { shim.thread[shim.now].copies_group++; }
/* For all but the last groups, or for all there are. */
SHIM_UNWATCHED static void shim_copies_wait(int but = -1) {
  shim_thread *t = &shim.thread[shim.now];
  size_t i, left = 0;
  for (i = 0; i < t->copies_count; i++) {
    const shim_copy_job job = t->copies[i];
    if (but >= 0 && job.group + (unsigned)but >= t->copies_group) {
      t->copies[left++] = job;
      continue;
    }
    SHIM_COPIED(job.to, job.from, job.bytes, job.place);
    if (job.bytes == 16) memcpy(job.to, job.from, 16);
    else memcpy(job.to, job.from, 4);
  }
  t->copies_count = left;
}

SHIM_UNWATCHED static void shim_start(void) {
  shim_thread *t = &shim.thread[shim.now];
  __sanitizer_finish_switch_fiber(NULL, &shim.bottom, &shim.bytes);
  shim.run(shim.argument);
  if (t->copies_count) {
    fprintf(stderr, "thread %u has ended, and %lu copies are on their way\n", shim.now,
            (unsigned long)t->copies_count);
    exit(1);
  }
  t->done = 1;
  __sanitizer_start_switch_fiber(NULL, shim.bottom, shim.bytes);
  shim_switch(&t->here, &shim.scheduler);
}

/* Where a thread is, for a sentence. */
SHIM_UNWATCHED static void shim_where(unsigned i, const char *then) {
  static const char *const what[] = {"on its way", "a barrier", "an exchange", "a product",
                                     "an exchange", "a barrier"};
  const shim_thread *t = &shim.thread[i];
  fprintf(stderr, "thread %u ", i % shim.each);
  if (shim.cluster > 1) fprintf(stderr, "of block %u of the cluster ", i / shim.each);
  if (t->done) fprintf(stderr, "has ended%s", then);
  else
    fprintf(stderr, "is at %s of the %s, %s in %s%s", what[t->kind],
            t->kind == SHIM_CLUSTER ? "cluster" : t->mask ? "warp" : "block", t->waits, t->within,
            then);
}

static float __int_as_float(int bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static double shim_of_half(unsigned bits) { return (double)__int_as_float((int)(bits << 16)); }

/* A warp's product. Products are exact, their sum is rounded once. */
SHIM_UNWATCHED static void shim_warp_product(shim_thread *t) {
  double a[16][16], b[8][16];
  for (unsigned k = 0; k < 16; k++) {
    for (unsigned i = 0; i < 16; i++) {
      const unsigned x = t[i % 8 * 4 + k % 8 / 2].brings[i / 8 + k / 8 * 2];
      a[i][k] = shim_of_half(k % 2 ? x >> 16 : x & 0xffff);
    }
    for (unsigned j = 0; j < 8; j++) {
      const unsigned y = t[4 * j + k % 8 / 2].brings[4 + k / 8];
      b[j][k] = shim_of_half(k % 2 ? y >> 16 : y & 0xffff);
    }
  }
  for (unsigned lane = 0; lane < 32; lane++)
    for (unsigned e = 0; e < 4; e++) {
      const double *const x = a[lane / 4 + e / 2 * 8], *const y = b[2 * (lane % 4) + e % 2];
      double all = (double)t[lane].sums[e];
      for (unsigned k = 0; k < 16; k++) all += x[k] * y[k];
      t[lane].sums[e] = (float)all;
    }
}

/* Is all of thread i's company there? Then it goes on, and 1 is returned. */
SHIM_UNWATCHED static int shim_meet(unsigned i) {
  const shim_thread *t = &shim.thread[i];
  const unsigned mask = t->mask, block = i / shim.each * shim.each;
  const int kind = t->kind, all = kind == SHIM_CLUSTER;
  const unsigned first = all ? 0 : mask ? block + (i - block) / 32 * 32 : block;
  const unsigned most = all ? shim.threads : block + shim.each;
  const unsigned end = mask && first + 32 < most ? first + 32 : most;
  unsigned j;
  for (j = first; j < end; j++) {
    const shim_thread *o = &shim.thread[j];
    if (mask && !(mask >> j % 32 & 1)) continue;
    if (o->done || !o->waits || o->mask != mask) return 0;
    if (all && o->kind != kind && j / shim.each != i / shim.each) return 0;   /* it will come     */
    if (o->kind != kind || (o->waits != t->waits && strcmp(o->waits, t->waits)) ||
        (o->within != t->within && strcmp(o->within, t->within)) || !SHIM_PATHS(o, t)) {
      shim_where(i, " while\n");
      shim_where(j, "; they wait for each other\n");
      exit(1);
    }
  }
  if (kind == SHIM_BARRIER || all) SHIM_MET(first, end, mask);
  if (kind == SHIM_PRODUCT) shim_warp_product(&shim.thread[first]);
  for (j = first; j < end; j++) {
    shim_thread *o = &shim.thread[j];
    if (mask && !(mask >> j % 32 & 1)) continue;
    if (kind == SHIM_EXCHANGE) o->gets = shim.thread[o->asks].gives;
    o->waits = NULL;
  }
  return 1;
}

#ifndef SHIM_ADDRESSES
/* Where a fault is below a stack, what happened is known. */
static void shim_fault(int signal, siginfo_t *info, void *) {
  static const char text[] = "a thread needs more than SHIM_STACK bytes of stack\n";
  const char *p = (const char *)info->si_addr;
  if (p >= shim.stacks && p < shim.stacks + shim.room * shim.apart &&
      write(2, text, sizeof text - 1) > 0)
    _exit(1);
  ::signal(signal, SIG_DFL);
}

static void shim_watch_faults(void) {
  static char stack[1 << 15];
  stack_t own;
  struct sigaction action;
  memset(&own, 0, sizeof own);
  memset(&action, 0, sizeof action);
  own.ss_sp = stack;
  own.ss_size = sizeof stack;
  action.sa_sigaction = shim_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  if (sigaltstack(&own, NULL) || sigaction(SIGSEGV, &action, NULL)) exit(2);
}
#else
static void shim_watch_faults(void) {}   /* the sanitizer does                                    */
#endif

/* Stacks of so many threads, each above memory that nothing may touch. */
SHIM_UNWATCHED static void shim_need_stacks(unsigned threads) {
  unsigned i;
  if (threads <= shim.room) return;
  shim_watch_faults();
  if (shim.stacks) munmap(shim.stacks, shim.room * shim.apart);
  shim.room = threads;
  shim.apart = SHIM_STACK + SHIM_GUARD;
  shim.stacks = (char *)mmap(NULL, threads * shim.apart, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (shim.stacks == (char *)MAP_FAILED) exit(2);
  for (i = 0; i < threads; i++)
    if (mprotect(shim.stacks + i * shim.apart, SHIM_GUARD, PROT_NONE)) exit(2);
}

/* The threads run, in an order that is drawn anew each time, until all have ended. */
SHIM_UNWATCHED static void shim_schedule(void) {
  static const unsigned primes[] = {1, 5, 7, 11};
  const unsigned threads = shim.threads;
  unsigned left = threads, i;
  while (left) {
    unsigned moved = 0, at, stride;
    shim_seed = shim_seed * 6364136223846793005u + 1442695040888963407u;
    at = (unsigned)(shim_seed >> 33) % threads;
    stride = primes[shim_seed >> 60 & 3];
    if (threads % stride == 0) stride = 1;
    if (shim_seed >> 63) stride = threads - stride;
    for (i = 0; i < threads; i++, at += stride) {
      shim_thread *t;
      if (at >= threads) at -= threads;
      t = &shim.thread[shim.now = at];
      if (t->done || t->waits) continue;
      shim_resume();
      left -= (unsigned)t->done;
      moved++;
    }
    for (i = 0; i < threads; i++)
      if (shim.thread[i].waits) moved += (unsigned)shim_meet(i);
    if (moved) continue;
    fputs("these threads wait for each other for ever:\n", stderr);
    for (i = 0; i < threads; i++) shim_where(i, "\n");
    exit(1);
  }
}

/* run(argument) in so many blocks, from `first` on, that work together: of `each` threads, with so
 * many bytes of shared memory that hold no numbers. */
SHIM_UNWATCHED static void shim_blocks(unsigned first, unsigned cluster, unsigned each,
                                       size_t bytes, void (*run)(void *), void *argument) {
  const unsigned threads = cluster * each;
  const size_t apart = cluster > 1 ? (bytes + 255) / 256 * 256 : bytes;
  unsigned i;
  shim_need_stacks(threads);
  shim.shared_all = (char *)malloc(cluster * apart);
  shim.shared_bytes = bytes;
  shim.thread = (shim_thread *)calloc(threads, sizeof *shim.thread);
  if (!shim.shared_all || !shim.thread) exit(2);
  memset(shim.shared_all, 255, cluster * apart);
  shim.threads = threads, shim.run = run, shim.argument = argument;
  shim.first = first, shim.cluster = cluster, shim.each = each;
  blockDim.x = each;
  for (i = 0; i < threads; i++) {
    shim_thread *t = &shim.thread[i];
    t->index = i % each, t->block = first + i / each;
    t->shared = shim.shared_all + i / each * apart;
    t->stack = shim.stacks + i * shim.apart + SHIM_GUARD;
    shim_begin(&t->here, t->stack, SHIM_STACK, shim_start);
  }
  SHIM_BEGUN(cluster * apart);
  shim_schedule();
  SHIM_ENDED();
  for (i = 0; i < threads; i++) free(shim.thread[i].copies);
  free(shim.thread);
  free(shim.shared_all);
}

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static float __fsqrt_rn(float a) { return sqrtf(a); }
#define __popc __builtin_popcount
#define __expf expf
#define __fdividef(x, y) ((x) / (y))
#define cospif(x) (float)cos(3.141592653589793 * (double)(x))
#define sinpif(x) (float)sin(3.141592653589793 * (double)(x))
static int __float_as_int(float x) {
  int bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

/* ---- matrix units: what the threads of a warp do together ---- */

/* The nearest number in bfloat16, the even one of two, as its bits. */
static unsigned shim_half(float x) {
  const unsigned bits = (unsigned)__float_as_int(x);
  if (x != x) return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
static unsigned shim_halves(float low, float high) {
  return shim_half(high) << 16 | shim_half(low);
}

/* What lane i of this thread's warp has brought, and what it has asked for. */
SHIM_UNWATCHED static const shim_thread *shim_lane(unsigned i) {
  return &shim.thread[shim.now / 32 * 32 + i];
}
static unsigned shim_read(const void *p) { return *(const unsigned *)p; }

SHIM_UNWATCHED static void shim_load_matrices(unsigned to[4], const void *row, int turned,
                                              const char *where, const char *within) {
  const unsigned lane = shim.now % 32;
  if ((uintptr_t)row % 16) {
    fprintf(stderr, "thread %u loads a matrix from an odd address at %s\n", shim.now, where);
    exit(1);
  }
  shim.thread[shim.now].row = row;
  shim_wait(0xffffffffu, SHIM_MATRICES, where, within);
  for (unsigned i = 0; i < 4; i++) {
    to[i] = 0;
    for (unsigned e = 0; e < 2; e++) {
      const unsigned r = turned ? 2 * (lane % 4) + e : lane / 4;
      const unsigned c = turned ? lane / 4 : 2 * (lane % 4) + e;
      const unsigned both = shim_read((const char *)shim_lane(8 * i + r)->row + c / 2 * 4);
      to[i] |= (c % 2 ? both >> 16 : both & 0xffff) << 16 * e;
    }
  }
  shim_wait(0xffffffffu, SHIM_MATRICES, where, within);
}

SHIM_UNWATCHED static void shim_multiply(float c[4], const unsigned a[4], unsigned b0, unsigned b1,
                                         const char *where, const char *within) {
  shim_thread *t = &shim.thread[shim.now];
  for (unsigned i = 0; i < 4; i++) t->brings[i] = a[i];
  t->brings[4] = b0, t->brings[5] = b1, t->sums = c;
  shim_wait(0xffffffffu, SHIM_PRODUCT, where, within);
}

/* ---- what a grid is called, and its registers ---- */

/* The mangled name of a function of this program, which its own file knows; NULL: it does not. */
static const char *shim_symbol(uintptr_t kernel) {
#if defined(__ELF__) && defined(__LP64__) && defined(__linux__)
  static const char *file;
  static size_t bytes;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *section;
  uintptr_t base = 0;
  if (!file) {
    FILE *f = fopen("/proc/self/exe", "rb");
    if (!f || fseek(f, 0, SEEK_END)) return NULL;
    bytes = (size_t)ftell(f);
    file = (const char *)mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fileno(f), 0);
    fclose(f);
    if (file == (const char *)MAP_FAILED) exit(2);
  }
  head = (const Elf64_Ehdr *)(const void *)file;
  section = (const Elf64_Shdr *)(const void *)(file + head->e_shoff);
  if (head->e_type == ET_DYN) {      /* where it was put: its headers say where they are          */
    const Elf64_Phdr *p = (const Elf64_Phdr *)getauxval(AT_PHDR);
    base = (uintptr_t)p - head->e_phoff;
  }
  for (unsigned i = 0; i < head->e_shnum; i++) {
    const Elf64_Sym *s = (const Elf64_Sym *)(const void *)(file + section[i].sh_offset);
    if (section[i].sh_type != SHT_SYMTAB) continue;
    for (size_t n = section[i].sh_size / sizeof *s; n--; s++)
      if (ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_value && s->st_value + base == kernel)
        return file + section[section[i].sh_link].sh_offset + s->st_name;
  }
#endif
  (void)kernel;
  return NULL;
}

/* As cuda_table.txt calls it: the last of the names in a mangled one that are the house's and of a
 * grid, and the numbers that a template was made of. */
static const char *shim_name(uintptr_t kernel) {
  static char name[128];
  const char *s = shim_symbol(kernel), *run = s ? strstr(s, "miras__run_") : NULL;
  size_t n = 0, length;
  if (!run) return s ? s : "a grid";
  length = (size_t)strtol(run - (run[-2] >= '0' && run[-2] <= '9' ? 2 : 1), NULL, 10) - 7;
  n = (size_t)snprintf(name, sizeof name, "%.*s", (int)length, run + 7);
  for (s = run + 7 + length; (s = strstr(s, "Li")); s += 2)
    n += (size_t)snprintf(name + n, sizeof name - n, "%c%ld", strchr(name, '<') ? ',' : '<',
                          strtol(s + 2, NULL, 10));
  if (strchr(name, '<')) snprintf(name + n, sizeof name - n, ">");
  return name;
}

/* The most that the table beside this file has of it for any GPU, or else that there can be. */
static unsigned shim_registers(uintptr_t kernel) {
  char path[1024], line[256], row[128];
  const char *const name = shim_name(kernel), *const end = strrchr(__FILE__, '/');
  unsigned most = 0, registers;
  FILE *f;
  snprintf(path, sizeof path, "%.*scuda_table.txt", end ? (int)(end + 1 - __FILE__) : 0, __FILE__);
  f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "%*s %127s %u", row, &registers) == 2 && !strcmp(row, name) &&
        registers > most)
      most = registers;
  if (f) fclose(f);
  return most ? most : 255;
}

/* ---- what the host calls: a stream does at once what it is asked to ---- */

typedef void *cudaStream_t;
typedef enum { cudaSuccess, cudaErrorInvalidValue, cudaErrorLaunchOutOfResources } cudaError_t;
typedef enum {
  cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice
} cudaMemcpyKind;

/* What fails is also remembered until somebody asks. */
static cudaError_t shim_last;
static cudaError_t shim_result(cudaError_t e) {
  if (e != cudaSuccess) shim_last = e;
  return e;
}
static cudaError_t cudaPeekAtLastError(void) { return shim_last; }
static cudaError_t cudaGetLastError(void) {
  const cudaError_t e = shim_last;
  shim_last = cudaSuccess;
  return e;
}

static cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t) {
  memcpy(to, from, bytes);
  return cudaSuccess;
}
static cudaError_t cudaMalloc(void **to, size_t bytes) {
  *to = malloc(bytes);
  if (!*to) return shim_result(cudaErrorInvalidValue);
  memset(*to, 255, bytes);           /* not a number                                              */
  SHIM_LANDED(*to, bytes);
  return cudaSuccess;
}
static cudaError_t cudaFree(void *p) {
  SHIM_LEFT(p);
  free(p);
  return cudaSuccess;
}
static cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
static cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
  memset(to, value, bytes);
  return cudaSuccess;
}

/* ---- the card: an H100's limits, and what grids take of it ---- */

enum {
  SHIM_UNASKED = 48 << 10,           /* bytes of shared memory that a block has unasked           */
  SHIM_REGISTERS = 64 << 10,
  SHIM_ARGUMENTS = 32764             /* bytes; before CUDA 12.1 4096                              */
};
static int shim_most = 227 << 10;    /* bytes of it at most                                       */
static int shim_dry;                 /* 1: grids begin, and do nothing                            */
/* The compute capability that the program's code is of, times ten. */
static int shim_code = getenv("SHIM_CODE") ? atoi(getenv("SHIM_CODE")) : 90;
static int shim_refuses;             /* 1: a launch that the card refuses says so to its caller
                                        alone; else the program ends                              */
typedef enum { cudaDevAttrMaxSharedMemoryPerBlockOptin, cudaDevAttrClusterLaunch } cudaDeviceAttr;
typedef enum { cudaFuncAttributeMaxDynamicSharedMemorySize } cudaFuncAttribute;
static cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
static cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr of, int) {
  *value = of == cudaDevAttrClusterLaunch ? shim_code >= 90 : shim_most;
  return cudaSuccess;
}

/* Grids by where they are, and bytes of shared memory that a block of each may have. */
typedef struct shim_grid {
  uintptr_t kernel;
  size_t allowed;
  unsigned registers;                /* of a thread; 0: not looked up yet                         */
} shim_grid;
static shim_grid *shim_grid_of(uintptr_t kernel) {
  static shim_grid grids[256];
  static unsigned count;
  unsigned i = 0;
  while (i < count && grids[i].kernel != kernel) i++;
  if (i == sizeof grids / sizeof grids[0]) exit(2);
  if (i == count) {
    grids[count].kernel = kernel;
    grids[count++].allowed = SHIM_UNASKED;
  }
  return &grids[i];
}
template <class F>
static cudaError_t cudaFuncSetAttribute(F *kernel, cudaFuncAttribute, int bytes) {
  if (!kernel || bytes < 0 || bytes > shim_most) return shim_result(cudaErrorInvalidValue);
  shim_grid_of((uintptr_t)kernel)->allowed = (size_t)bytes;
  return cudaSuccess;
}
struct cudaFuncAttributes { int ptxVersion, binaryVersion; };
static cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *a, const void *kernel) {
  if (!kernel) return shim_result(cudaErrorInvalidValue);
  a->ptxVersion = a->binaryVersion = shim_code;
  return cudaSuccess;
}

struct dim3 {
  unsigned x, y, z;
  explicit dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1)
      : x(across), y(down), z(deep) {}
};

/* Would a card begin such a grid? */
static cudaError_t shim_begins(shim_grid *g, dim3 grid, dim3 block, size_t argument, size_t bytes) {
  const unsigned long threads = (unsigned long)block.x * block.y * block.z;
  const unsigned registers = g->registers = g->registers ? g->registers : shim_registers(g->kernel);
  const char *why = NULL;
  cudaError_t e = cudaErrorInvalidValue;
  if (!grid.x || grid.x > 0x7fffffffu || !grid.y || grid.y > 65535 || !grid.z || grid.z > 65535)
    why = "blocks", bytes = grid.x;
  else if (!threads || threads > 1024 || !block.z || block.z > 64) why = "threads", bytes = threads;
  else if (shim_code < 80 && !strncmp(shim_name(g->kernel), "run_fast_", 9))
    why = "threads, beyond its launch bounds", bytes = threads;
  else if (bytes > g->allowed) why = "bytes of shared memory";
  else if (argument > SHIM_ARGUMENTS) why = "bytes of arguments", bytes = argument;
  /* registers are dealt out to warps, in units of 256 */
  else if ((threads + 31) / 32 * ((registers + 7) / 8 * 256) > SHIM_REGISTERS)
    why = "threads, too many for its registers", bytes = threads, e = cudaErrorLaunchOutOfResources;
  if (!why) return cudaSuccess;
  if (!shim_refuses) {
    fprintf(stderr, "%s: a card refuses a grid with %lu %s (allowed: %lu bytes shared; %u "
                    "registers)\n", shim_name(g->kernel), (unsigned long)bytes, why,
            (unsigned long)g->allowed, registers);
    exit(1);
  }
  return shim_result(e);
}

template <class A> struct shim_kernel {
  void (*kernel)(const A);
  const A *argument;
  SHIM_UNWATCHED static void run(void *call) {
    const shim_kernel *k = (const shim_kernel *)call;
    k->kernel(*k->argument);
  }
};

/* kernel(argument) in a grid. Blocks, or clusters of them, run one after the other, the last one
 * first. */
template <class A>
SHIM_UNWATCHED static cudaError_t shim_launch(void (*kernel)(const A), dim3 grid, dim3 block,
                                              const A *argument, size_t bytes, unsigned cluster) {
  shim_kernel<A> k = {kernel, argument};
  const cudaError_t e = shim_begins(shim_grid_of((uintptr_t)kernel), grid, block, sizeof(A), bytes);
  unsigned blocks = grid.x;
  if (e != cudaSuccess) return e;
  if (shim_dry) return cudaSuccess;
  gridDim.x = blocks;
  SHIM_LAUNCHED();
  for (; blocks; blocks -= cluster)
    shim_blocks(blocks - cluster, cluster, block.x, bytes, shim_kernel<A>::run, &k);
  return cudaSuccess;
}
template <class A>
SHIM_UNWATCHED static cudaError_t cudaLaunchKernel(void (*kernel)(const A), dim3 grid, dim3 block,
                                                   void **arguments, size_t bytes, cudaStream_t) {
  return shim_launch(kernel, grid, block, (const A *)arguments[0], bytes, 1);
}

typedef enum { cudaLaunchAttributeClusterDimension = 4 } cudaLaunchAttributeID;
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  union { struct { unsigned x, y, z; } clusterDim; } val;
};
struct cudaLaunchConfig_t {         /* two names of its own are others' here                     */
  dim3 grid, block;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};
/* With one attribute or none: clusters, whose blocks work together. */
template <class A>
SHIM_UNWATCHED static cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *x,
                                                     void (*kernel)(const A), const A &a) {
  const unsigned cluster = x->numAttrs ? x->attrs->val.clusterDim.x : 1;
  if (cluster != 1 && (shim_code < 90 || !cluster || cluster > 8 || x->grid.x % cluster ||
                       x->block.x % 32)) {
    fprintf(stderr, "%s: a card refuses clusters of %u in %u blocks\n",
            shim_name((uintptr_t)kernel), cluster, x->grid.x);
    exit(1);
  }
  return shim_launch(kernel, x->grid, x->block, &a, x->dynamicSmemBytes, cluster);
}
