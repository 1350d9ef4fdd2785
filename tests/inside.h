/* inside.h: what tests that otherwise call only public functions ask of the library's inside. Where
 * the library is in their own file, these are their own functions; run.sh builds it once for all of
 * them (object.c, -DMIRAS_TEST_LINKED), and then they are that object's. Include miras.h first. */
#ifndef MIRAS_TEST_INSIDE_H
#define MIRAS_TEST_INSIDE_H

#if defined(__GNUC__)
  #define INSIDE_OWN static __attribute__((unused))
#else
  #define INSIDE_OWN static
#endif
#if defined(MIRAS_TEST_LINKED) || defined(MIRAS_TEST_OBJECT)
  #define INSIDE
#else
  #define INSIDE INSIDE_OWN
#endif

/* Word i of a field, as in files, to room of 32 bytes; 0: it has no such word. */
INSIDE int inside_word(char *to, const char *field, int i);
/* Without the fields that have no meaning beside the others. */
INSIDE miras_memory_desc inside_meaningful(miras_memory_desc d);
/* Does a layer's initial memory depend on keys of length one? */
INSIDE int inside_found(const miras_model *m, int layer);
/* The kernels of instruction set i, best first, and whether this processor has it; i < 0: the best
 * that it has. Tests that hold the library as their own otherwise ask this of the object, so that
 * they need not compile all kernels again. */
INSIDE const void *inside_set(ptrdiff_t i);
INSIDE int inside_usable(const void *set);
/* Has the processor AVX-512, for all that is known? */
INSIDE int inside_avx512(void);
/* n floats to weights of a form. */
INSIDE void inside_pack(int form, unsigned char *to, size_t all, size_t all_cols, size_t row,
                        size_t rows, size_t col, size_t cols, const float *x);
#ifdef MIRAS__IMPLEMENTED
INSIDE_OWN const miras__kernels *kernels_of(ptrdiff_t i) {
  return (const miras__kernels *)inside_set(i);
}
#endif
/* The checksum of files, and a mixer of bits. */
INSIDE uint32_t inside_crc(const void *at, size_t n);
INSIDE uint64_t inside_hash(uint64_t x);
/* Eight bytes of a file, the lowest first. */
INSIDE uint64_t inside_get64(const void *from);
INSIDE void inside_set64(void *to, uint64_t x);
/* The kind of each layer. */
INSIDE void inside_pattern(const miras_model_desc *d, unsigned char *kind);
/* Draw i of a seed, in [-1, 1). */
INSIDE double inside_uniform(uint64_t seed, uint64_t i);
/* Whole model i of the table, NULL behind the last; layers: as many as show each kind of them. */
INSIDE const char *inside_whole(int i, int *layers);
/* Is there a memory so described, as miras_memory_size says? Then of how many groups its values
 * are, and whether it takes keys of a few ones as they are. */
INSIDE miras_result inside_plan(const miras_memory_desc *d, int *groups, int *sparse, char *why,
                                size_t n);

/* What a head has learned in a text, and where in it things lie. */
typedef struct inside_head {
  float *a;
  size_t place, often, said, u, p, state, orders, outs;
} inside_head;
INSIDE inside_head inside_head_of(const miras_model *m, miras_session *s);

#ifndef MIRAS_TEST_LINKED
INSIDE int inside_word(char *to, const char *field, int i) {
  return miras__word(to, miras__named(field), i);
}

INSIDE miras_memory_desc inside_meaningful(miras_memory_desc d) {
  miras__case c;
  memset(&c, 0, sizeof c);
  c.l.memory = d;
  miras__find_facts(&c);
  for (int i = 0; i < MIRAS__FIELDS; i++) {
    const miras__field *f = &miras__fields[i];
    /* a number that is 0 stays so: most are, and conditions are text that is read */
    if (f->size <= sizeof(uint64_t) && miras__bits(&c, f->at, f->size) == 0) continue;
    if (miras__of_memory(f) && miras__unmet(&c, f->when) != NULL)
      miras__set_bits(&c, f->at, f->size, 0);
  }
  return c.l.memory;
}

INSIDE int inside_found(const miras_model *m, int layer) {
  const miras__mixer *of = &m->layers[layer].p->mixer;
  return of->plan.d.inner_norm && of->qk_map == MIRAS_QK_MAP_L2;
}

INSIDE const void *inside_set(ptrdiff_t i) {
  return i < 0 ? miras__kernels_best() : miras__kernel_list[i];
}

INSIDE int inside_usable(const void *set) {
  return miras__kernels_usable((const miras__kernels *)set);
}

INSIDE int inside_avx512(void) { return (miras__cpu() & MIRAS__HAS_AVX512) != 0; }

INSIDE void inside_pack(int form, unsigned char *to, size_t all, size_t all_cols, size_t row,
                        size_t rows, size_t col, size_t cols, const float *x) {
  const miras__packed p = miras__packed_of(to, form, all, all_cols);
  miras__packed_write(&p, row, rows, col, cols, x, cols, 1);
}

INSIDE uint32_t inside_crc(const void *at, size_t n) { return miras__crc32c(0, at, n); }
INSIDE uint64_t inside_hash(uint64_t x) { return miras__hash(x); }
INSIDE uint64_t inside_get64(const void *from) {
  return miras__get64((const unsigned char *)from);
}
INSIDE void inside_set64(void *to, uint64_t x) { miras__set64((unsigned char *)to, x); }
INSIDE void inside_pattern(const miras_model_desc *d, unsigned char *kind) {
  (void)miras__pattern_read(d, kind);
}

INSIDE double inside_uniform(uint64_t seed, uint64_t i) { return (double)miras__uniform(seed, i); }

INSIDE const char *inside_whole(int i, int *layers) {
  if (i >= MIRAS_PRESET_COUNT - MIRAS_PRESET_ROWS) return NULL;
  *layers = miras__wholes[i].mlps ? 4 : 2;
  return miras__wholes[i].name;
}

INSIDE miras_result inside_plan(const miras_memory_desc *d, int *groups, int *sparse, char *why,
                                size_t n) {
  miras__plan plan;
  const miras_result made = miras__plan_make(&plan, d, why, n);
  *groups = made == MIRAS_OK ? (int)plan.groups : 0;
  *sparse = made == MIRAS_OK && miras__takes_sparse(&plan);
  return made;
}

INSIDE inside_head inside_head_of(const miras_model *m, miras_session *s) {
  inside_head h;
  h.a = miras__adapt_state(m, miras_session_state(s, NULL));
  h.place = m->adapt.place, h.often = m->adapt.often, h.said = m->adapt.said, h.u = m->adapt.u;
  h.p = m->adapt.p, h.state = m->adapt.state, h.orders = m->adapt.orders, h.outs = m->outs;
  return h;
}
#endif
#endif
