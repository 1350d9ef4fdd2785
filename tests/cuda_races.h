/* cuda_races.h: what cuda_shim.h watches when it is compiled with -fsanitize=thread and linked
 * without: the compiler tells of every access of the device code, and here it is decided whether
 * the barriers put it behind those of the other threads, whatever order they ran in.
 * Found are
 *   two threads of a block at a float of shared or global memory, one of which stores there, with
 *     no barrier between them that both take part in (shuffles order no memory);
 *   two blocks of a grid at a float, one of which stores there, and no barrier of a cluster
 *     between them that both take part in; or a block at another's shared memory;
 *   pointers to memory that a GPU would not have: the host's, and another thread's stack.
 * Lanes of one unit may store what is there anyway: that is how numbers are kept that all of them
 * know. Accesses are ordered by vector clocks (FastTrack, Flanagan and Freund 2009): a thread
 * counts its barriers, and knows of every other thread of the block how far it had come when a
 * barrier last led from there to here. Each float of shared and global memory has a record of who
 * stored it last and who has read it since. */
#if defined(__SANITIZE_THREAD__)
  #define SHIM_RACES 1
#elif defined(__has_feature)
  #if __has_feature(thread_sanitizer)
    #define SHIM_RACES 1
  #endif
#endif

#ifndef SHIM_RACES
  #define SHIM_UNWATCHED
  #define SHIM_LAUNCHED() ((void)0)
  #define SHIM_LANDED(p, bytes) ((void)0)
  #define SHIM_LEFT(p) ((void)0)
  #define SHIM_BEGUN(bytes) ((void)0)
  #define SHIM_ENDED() ((void)0)
  #define SHIM_MET(first, end, mask) ((void)0)
  #define SHIM_PATHS(a, b) 1
  #define SHIM_COPIED(to, from, bytes, place) ((void)(place))
static unsigned shim_findings(void) { return 0; }
#else
  #include <link.h>
  #define SHIM_UNWATCHED __attribute__((no_sanitize("thread")))
  #define SHIM_LAUNCHED() ((void)races.launch++)
  #define SHIM_LANDED(p, bytes) shim_landed(p, bytes)
  #define SHIM_LEFT(p) shim_left(p)
  #define SHIM_BEGUN(bytes) shim_begun(bytes)
  #define SHIM_ENDED() shim_ended()
  #define SHIM_MET(first, end, mask) shim_met(first, end, mask)
  #define SHIM_PATHS(a, b) shim_paths(a, b)
  #define SHIM_COPIED(to, from, bytes, place) \
    (shim_access(from, bytes, 0, place), shim_access(to, bytes, 1, place))

enum { SHIM_AREAS = 8, SHIM_FINDINGS = 8, SHIM_NOBODY = 0xffff, SHIM_MANY = 0xfffe };

/* A float of shared or global memory, since `since`: a launch for global memory, a block of one for
 * shared memory. What is older is ordered before everything. */
typedef struct shim_float {
  uint32_t since, block;             /* who stored and read is of this block, or cluster, ...     */
  uint32_t stored, read;             /* ... and these are their clocks                            */
  uint16_t storer, reader;           /* SHIM_NOBODY; SHIM_MANY: `read` counts in the pool         */
  uint16_t same;                     /* lanes of the storer's unit that stored the same           */
  uint16_t elsewhere;                /* 1: an earlier block stored here, 2: read                  */
  const void *store, *load;          /* the places in the text                                    */
} shim_float;

typedef struct shim_area {           /* memory that is watched                                    */
  const char *name, *from;
  size_t bytes;
  shim_float *of;
} shim_area;

static struct {
  shim_area area[SHIM_AREAS];        /* the first one: shared memory                              */
  uint32_t launch, blocks;           /* launches and blocks so far                                */
  int inside;                        /* does a thread of a block run?                             */
  unsigned room;                     /* threads for which there are clocks                        */
  uint32_t *clock;                   /* [threads][threads]                                        */
  uint32_t *pool, *spare;            /* clocks of many readers [threads] each; numbers not used   */
  size_t pools, spares;
  struct {                           /* a store that is right if it changes nothing               */
    const float *at;
    uint32_t was;
    unsigned thread;
    shim_float held;
  } maybe;
  struct { const void *a, *b; } found[SHIM_FINDINGS];
  unsigned findings;
} races;

SHIM_UNWATCHED static unsigned shim_findings(void) { return races.findings; }

SHIM_UNWATCHED static void *shim_need(void *p) {
  if (p) return p;
  fputs("the watch over races needs more memory\n", stderr);
  exit(2);
}

/* ---- what is said ---- */

SHIM_UNWATCHED static int shim_base(struct dl_phdr_info *info, size_t, void *to) {
  *(uintptr_t *)to = info->dlpi_addr;
  return 1;                          /* the first one is the program                              */
}

/* The place in the text before `after`, by its file and line where addr2line is there. */
SHIM_UNWATCHED static void shim_place(const void *after) {
  char command[320];
  uintptr_t base = 0;
  if (!after) return;
  dl_iterate_phdr(shim_base, &base);
  snprintf(command, sizeof command,
           "addr2line -Cfpie /proc/%ld/exe 0x%lx |"
           " sed 's/(anonymous namespace):*//g; s/miras_cuda:://g; s/([^()]*)//; s/^/  /' >&2",
           (long)getpid(), (unsigned long)((uintptr_t)after - base - 1));
  fflush(stderr);
  if (system(command)) fprintf(stderr, "  (%p)\n", after);
}

/* Once for each pair of places. */
SHIM_UNWATCHED static int shim_known(const void *a, const void *b) {
  unsigned i;
  for (i = 0; i < races.findings; i++)
    if (races.found[i].a == a && races.found[i].b == b) return 1;
  races.found[i].a = a, races.found[i].b = b;
  races.findings++;
  return 0;
}

/* A float by its number in its memory, anything else by its address. */
SHIM_UNWATCHED static void shim_name(const void *at) {
  const char *p = (const char *)at;
  unsigned i;
  for (i = 0; i < SHIM_AREAS; i++) {
    const shim_area *a = &races.area[i];
    if (!a->from || p < a->from || p >= a->from + a->bytes) continue;
    fprintf(stderr, " float %lu of %s memory\n", (unsigned long)(p - a->from) / 4, a->name);
    return;
  }
  fprintf(stderr, " (%p)\n", at);
}

SHIM_UNWATCHED static void shim_say(const char *what, const void *p, const void *here,
                                    const char *before, const void *there) {
  const shim_thread *t = &shim.thread[shim.now];
  unsigned i;
  if (shim_known(here, there)) return;
  fprintf(stderr, "race: thread %u of block %u %s", shim.now % shim.each, blockIdx.x, what);
  shim_name(p);
  shim_place(here);
  for (i = t->depth < SHIM_DEEP ? t->depth : SHIM_DEEP; i-- > 1 && i + 4 > t->depth;)
    shim_place(t->path[i]);
  if (before) fprintf(stderr, " %s, without a barrier between them, at\n", before);
  shim_place(there);
  if (races.findings < SHIM_FINDINGS) return;
  fputs("these races are enough\n", stderr);
  exit(1);
}

/* ---- blocks and barriers ---- */

SHIM_UNWATCHED static void shim_watch(shim_area *a, const char *name, const void *p, size_t bytes) {
  free(a->of);
  a->name = name, a->from = (const char *)p, a->bytes = bytes;
  a->of = (shim_float *)shim_need(calloc(bytes / 4 + 2, sizeof *a->of));
}

SHIM_UNWATCHED static void shim_landed(const void *p, size_t bytes) {
  unsigned i;
  for (i = 1; i < SHIM_AREAS && races.area[i].from; i++) {}
  if (i == SHIM_AREAS) shim_need(NULL);
  shim_watch(&races.area[i], "global", p, bytes);
}

SHIM_UNWATCHED static void shim_left(const void *p) {
  unsigned i;
  for (i = 1; i < SHIM_AREAS; i++)
    if (p && races.area[i].from == p) races.area[i].from = NULL;
}

/* A block begins, with so much shared memory. */
SHIM_UNWATCHED static void shim_begun(size_t bytes) {
  const size_t n = shim.threads;
  size_t i;
  if (races.room < n) {
    free(races.clock);
    free(races.pool);
    free(races.spare);
    races.pool = races.spare = NULL;
    races.pools = 0;
    races.room = (unsigned)n;
    races.clock = (uint32_t *)shim_need(malloc(n * n * sizeof *races.clock));
  }
  races.spares = 0;
  for (i = races.pools; i; i--) races.spare[races.spares++] = (uint32_t)i - 1;
  memset(races.clock, 0, n * n * sizeof *races.clock);
  for (i = 0; i < n; i++) races.clock[i * n + i] = 1;
  if (!races.area->of || races.area->bytes < bytes)
    shim_watch(races.area, "shared", shim.shared_all, bytes);
  races.area->from = shim.shared_all;
  races.area->bytes = bytes;
  races.blocks++;
  races.inside = 1;
}

SHIM_UNWATCHED static void shim_settle(void);
SHIM_UNWATCHED static void shim_ended(void) {
  races.inside = 0;
  shim_settle();
  races.area->from = NULL;
}

/* Threads first to end, of those of a warp that are in the mask, have met at a barrier: each knows
 * what all of them know. */
SHIM_UNWATCHED static void shim_met(unsigned first, unsigned end, unsigned mask) {
  const size_t n = shim.threads, from = first / shim.each * shim.each;
  uint32_t *all = races.clock + first * n;
  size_t i, j;
  if (!mask) {                       /* of other blocks all threads of a block know the same      */
    for (j = first; j < end; j++) all[j] = races.clock[j * n + j];
    for (i = 1; i < end - first; i++) memcpy(all + i * n, all, n * sizeof *all);
  } else {
    uint32_t most[1024] = {0};
    for (i = first; i < end; i++)
      for (j = 0; mask >> i % 32 & 1 && j < shim.each; j++)
        if (most[j] < races.clock[i * n + from + j]) most[j] = races.clock[i * n + from + j];
    for (i = first; i < end; i++)
      if (mask >> i % 32 & 1)
        memcpy(races.clock + i * n + from, most, shim.each * sizeof *most);
  }
  for (i = first; i < end; i++)
    if (!mask || mask >> i % 32 & 1) races.clock[i * n + i]++;
}

/* Have two threads come to where they are by the same calls? */
SHIM_UNWATCHED static int shim_paths(const shim_thread *a, const shim_thread *b) {
  const unsigned deep = a->depth < SHIM_DEEP ? a->depth : SHIM_DEEP;
  return a->depth == b->depth && !memcmp(a->path, b->path, deep * sizeof *a->path);
}

/* ---- accesses ---- */

SHIM_UNWATCHED static uint32_t *shim_clocks(uint32_t number) {
  return races.pool + (size_t)number * races.room;
}

SHIM_UNWATCHED static uint32_t shim_from_pool(void) {
  if (!races.spares) {
    const size_t had = races.pools, has = had ? 2 * had : 1024;
    size_t i;
    races.pool = (uint32_t *)shim_need(realloc(races.pool, has * races.room * sizeof *races.pool));
    races.spare = (uint32_t *)shim_need(realloc(races.spare, has * sizeof *races.spare));
    for (i = has; i > had; i--) races.spare[races.spares++] = (uint32_t)i - 1;
    races.pools = has;
  }
  return races.spare[--races.spares];
}

/* The store that was open has happened: did it change what another lane relied on? */
SHIM_UNWATCHED static void shim_settle(void) {
  const float *at = races.maybe.at;
  const unsigned now = shim.now;
  const shim_float *f = &races.maybe.held;
  float was;
  if (!at) return;
  races.maybe.at = NULL;
  if (!memcmp(at, &races.maybe.was, sizeof *at)) return;
  memcpy(&was, &races.maybe.was, sizeof was);
  if (was != was && *at != *at) return;          /* a host tells these apart, a GPU does not      */
  shim.now = races.maybe.thread;
  shim_say("stores to", at, f->load, "another lane of its unit has used it", f->store);
  shim.now = now;
}

/* Is everything in order before thread `i`, who stores now? 0, or who is not: 1 the lanes of its
 * own unit, 2 other ones. */
SHIM_UNWATCHED static int shim_unordered(const shim_float *f, unsigned i) {
  const uint32_t *knows = races.clock + (size_t)i * shim.threads;
  int bad = 0;
  unsigned j;
  if (f->storer != SHIM_NOBODY && f->storer != i && knows[f->storer] < f->stored)
    bad |= f->storer / 16 == i / 16 ? 1 : 2;
  if (f->reader == SHIM_MANY) {
    const uint32_t *read = shim_clocks(f->read);
    for (j = 0; j < shim.threads; j++)
      if (j != i && knows[j] < read[j]) bad |= j / 16 == i / 16 ? 1 : 2;
  } else if (f->reader != SHIM_NOBODY && f->reader != i && knows[f->reader] < f->read)
    bad |= f->reader / 16 == i / 16 ? 1 : 2;
  return bad;
}

SHIM_UNWATCHED static void shim_store(const float *p, shim_float *f, const void *from) {
  const unsigned i = shim.now;
  int bad = shim_unordered(f, i);
  if (bad && races.maybe.at) bad = 2;          /* several floats at once                          */
  if (f->elsewhere)
    shim_say("stores to", p, from, "another block of the grid has used it", f->store);
  else if (bad & 2)
    shim_say("stores to", p, from, "another unit has used it",
             f->reader == SHIM_NOBODY ? f->store : f->load);
  else if (bad) {
    races.maybe.at = p;
    memcpy(&races.maybe.was, p, sizeof *p);
    races.maybe.thread = i;
    races.maybe.held = *f;
    if (f->reader != SHIM_NOBODY) races.maybe.held.store = f->load;
    races.maybe.held.load = from;
    if (f->storer != SHIM_NOBODY && f->storer / 16 == i / 16) f->same |= (uint16_t)(1u << i % 16);
    return;
  }
  if (f->reader == SHIM_MANY) races.spare[races.spares++] = f->read;
  f->elsewhere = 0;
  f->reader = SHIM_NOBODY;
  f->storer = (uint16_t)i;
  f->stored = races.clock[(size_t)i * shim.threads + i];
  f->same = 0;
  f->store = from;
}

SHIM_UNWATCHED static void shim_load(const float *p, shim_float *f, const void *from) {
  const unsigned i = shim.now;
  const uint32_t *knows = races.clock + (size_t)i * shim.threads;
  if (f->elsewhere & 1) {
    shim_say("reads", p, from, "another block of the grid has stored it", f->store);
    f->elsewhere = 0;
  }
  if (f->storer != SHIM_NOBODY && f->storer != i && knows[f->storer] < f->stored &&
      !(f->storer / 16 == i / 16 && f->same >> i % 16 & 1))
    shim_say("reads", p, from, "another thread has stored it", f->store);
  if (f->reader == SHIM_MANY) {
    shim_clocks(f->read)[i] = knows[i];
  } else if (f->reader == SHIM_NOBODY || f->reader == i || knows[f->reader] >= f->read) {
    f->reader = (uint16_t)i;
    f->read = knows[i];
  } else {
    const uint32_t number = shim_from_pool();
    uint32_t *clock = shim_clocks(number);
    memset(clock, 0, shim.threads * sizeof *clock);
    clock[f->reader] = f->read;
    clock[i] = knows[i];
    f->reader = SHIM_MANY;
    f->read = number;
  }
  f->load = from;
}

/* Where neither the own stack nor memory of the device is: may a GPU read there? */
SHIM_UNWATCHED static void shim_outside(const char *p, int stores, const void *from) {
  extern char __executable_start, data_start;   /* between them: code and constants               */
  const char *own = (const char *)&shim;        /* threadIdx and its like                         */
  if (p >= own && p < own + sizeof shim && !stores) return;
  if (p >= shim.stacks && p < shim.stacks + shim.threads * shim.apart)
    shim_say(stores ? "stores to another thread's stack" : "reads another thread's stack", p, from,
             NULL, NULL);
  else if (stores)
    shim_say("stores to memory that is not the device's", p, from, NULL, NULL);
  else if (p < &__executable_start || p >= &data_start)
    shim_say("reads memory that is not the device's", p, from, NULL, NULL);
}

SHIM_UNWATCHED static void shim_access(const void *at, size_t bytes, int stores, const void *from) {
  const char *p = (const char *)at;
  const shim_thread *t;
  unsigned a;
  size_t i, offset;
  if (!races.inside) return;
  t = &shim.thread[shim.now];
  if (p >= t->stack && p < t->stack + SHIM_STACK) return;
  if (races.maybe.at) shim_settle();
  for (a = 0; a < SHIM_AREAS; a++)
    if (races.area[a].from && p >= races.area[a].from &&
        p + bytes <= races.area[a].from + races.area[a].bytes)
      break;
  if (a == SHIM_AREAS) {
    shim_outside(p, stores, from);
    return;
  }
  if (a == 0 && (size_t)(p - (const char *)shim.shared) >= shim.shared_bytes)
    shim_say(stores ? "stores to another block's shared memory," :
                      "reads another block's shared memory,", p, from, NULL, NULL);
  offset = (size_t)(p - races.area[a].from);
  for (i = offset / 4; 4 * i < offset + bytes; i++) {
    shim_float *f = &races.area[a].of[i];
    const uint32_t since = a ? races.launch : races.blocks, cluster = shim.first / shim.cluster;
    if (f->since != since) {
      f->since = since, f->block = cluster, f->storer = f->reader = SHIM_NOBODY;
      f->elsewhere = f->same = 0;
      f->store = f->load = NULL;
    } else if (f->block != cluster) {
      f->elsewhere |= (f->storer != SHIM_NOBODY) | (f->reader != SHIM_NOBODY) << 1;
      if (f->storer == SHIM_NOBODY) f->store = f->load;
      f->block = cluster, f->storer = f->reader = SHIM_NOBODY;
    }
    if (stores) shim_store((const float *)(const void *)races.area[a].from + i, f, from);
    else shim_load((const float *)(const void *)races.area[a].from + i, f, from);
  }
}

/* ---- what the compiler calls ---- */

  #define SHIM_FROM __builtin_return_address(0)
extern "C" {
SHIM_UNWATCHED void __tsan_init(void) {}
SHIM_UNWATCHED void __tsan_func_entry(void *from) {
  shim_thread *t;
  if (!races.inside) return;
  t = &shim.thread[shim.now];
  if (t->depth < SHIM_DEEP) t->path[t->depth] = from;
  t->depth++;
}
SHIM_UNWATCHED void __tsan_func_exit(void) {
  if (races.inside) shim.thread[shim.now].depth--;
}
SHIM_UNWATCHED void __tsan_read1(void *p) { shim_access(p, 1, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_read2(void *p) { shim_access(p, 2, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_read4(void *p) { shim_access(p, 4, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_read8(void *p) { shim_access(p, 8, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_read16(void *p) { shim_access(p, 16, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_write1(void *p) { shim_access(p, 1, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_write2(void *p) { shim_access(p, 2, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_write4(void *p) { shim_access(p, 4, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_write8(void *p) { shim_access(p, 8, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_write16(void *p) { shim_access(p, 16, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_unaligned_read2(void *p) { shim_access(p, 2, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_unaligned_read4(void *p) { shim_access(p, 4, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_unaligned_read8(void *p) { shim_access(p, 8, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_unaligned_read16(void *p) { shim_access(p, 16, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_unaligned_write2(void *p) { shim_access(p, 2, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_unaligned_write4(void *p) { shim_access(p, 4, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_unaligned_write8(void *p) { shim_access(p, 8, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_unaligned_write16(void *p) { shim_access(p, 16, 1, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_read_range(void *p, size_t n) { shim_access(p, n, 0, SHIM_FROM); }
SHIM_UNWATCHED void __tsan_write_range(void *p, size_t n) { shim_access(p, n, 1, SHIM_FROM); }
SHIM_UNWATCHED void *__tsan_memcpy(void *to, const void *from, size_t n) {
  shim_access(from, n, 0, SHIM_FROM);
  shim_access(to, n, 1, SHIM_FROM);
  return memcpy(to, from, n);
}
SHIM_UNWATCHED void *__tsan_memset(void *to, int value, size_t n) {
  shim_access(to, n, 1, SHIM_FROM);
  return memset(to, value, n);
}
SHIM_UNWATCHED unsigned __tsan_atomic32_load(const volatile unsigned *p, int) { return *p; }
SHIM_UNWATCHED void __tsan_atomic32_store(volatile unsigned *p, unsigned x, int) { *p = x; }
}
#endif
