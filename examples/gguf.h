/* gguf.h: open GGUF files, the form that llama.cpp has models in, with miras.h.
 *
 * A companion of miras.h and of huggingface.h, by whose families it reads. In one C file:
 *
 *     #define MIRAS_IMPLEMENTATION
 *     #include "miras.h"
 *     #define MIRAS_HUGGINGFACE_IMPLEMENTATION
 *     #include "huggingface.h"
 *     #define MIRAS_GGUF_IMPLEMENTATION
 *     #include "gguf.h"
 *
 * and elsewhere the three without the macros.
 *
 *     miras_model_desc d = {0};
 *     char why[256];
 *     miras_model *m;
 *     if (miras_gguf_desc(&d, "model.gguf", NULL, NULL, why, sizeof why)) return puts(why), 1;
 *     m = miras_gguf_open(&d, "model.gguf", NULL, NULL, why, sizeof why);
 *
 * Versions 2 and 3, little-endian, one file for all of a model. The table gg__families has the
 * architectures. Numbers may be F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K.
 * Those of matrices that the model holds in the same form are taken as they are: F16, BF16, Q8_0 by
 * MIRAS_WEIGHTS_Q8, Q4_0 and Q4_1 by MIRAS_WEIGHTS_Q4 (the embedding and the head by
 * MIRAS_WEIGHTS_Q4_PURE). All others become floats, exactly as ggml makes them, some lines at a
 * time, and then what d->weights says: what had blocks is quantised a second time, which loses a
 * little more. A product is that of floats:
 * llama.cpp rounds what it multiplies quantised matrices by to 8 bits first, so its logits are a
 * little others.
 *
 * The whole head of a file is checked before the first number is read: counts, names, shapes and
 * places of all tensors, and every field of the architecture by the same rules as those of
 * config.json. Fields are called by what stands behind the architecture and its dot,
 * "rope.freq_base". All memory that reading takes counts against d->limit.
 *
 * The licence is that of miras.h. */
#ifndef MIRAS_GGUF_H
#define MIRAS_GGUF_H

#ifndef MIRAS_HUGGINGFACE_H
  #error "include miras.h and huggingface.h before gguf.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Does the file at `path` begin as those of GGUF do? */
MIRAS_API int miras_gguf_is(const char *path);
/* As the calls of huggingface.h: describe the model of a file, load its tensors, and open it. */
MIRAS_API miras_result miras_gguf_desc(miras_model_desc *d, const char *path, const char *ignored,
                                       const miras_allocator *allocator, char *why,
                                       size_t why_size);
MIRAS_API miras_result miras_gguf_load(miras_model *m, const char *path, const char *ignored,
                                       const miras_allocator *allocator, char *why,
                                       size_t why_size);
MIRAS_API miras_model *miras_gguf_open(const miras_model_desc *d, const char *path,
                                       const char *ignored, const miras_allocator *allocator,
                                       char *why, size_t why_size);

/* The metadata of a file, whatever its architecture: values by key, "tokenizer.ggml.tokens". NULL,
 * and why in words. */
typedef struct miras_gguf miras_gguf;
MIRAS_API miras_gguf *miras_gguf_read(const char *path, const miras_allocator *allocator, char *why,
                                      size_t why_size);
MIRAS_API void miras_gguf_close(miras_gguf *g);
/* Key i, of `length` characters and no zero behind them; NULL behind the last. */
MIRAS_API const char *miras_gguf_key(const miras_gguf *g, size_t i, size_t *length);
/* How many items the value of a key has, 1 if it is no list; 0: there is no such key, or it has
 * another type. As far as they fit into `room` items they are written: texts, of `length` bytes and
 * no zero behind them, that stay until g is closed; whole numbers and truths, none of which may be
 * beyond int32_t; or any numbers. The arrays may be NULL. */
MIRAS_API size_t miras_gguf_texts(const miras_gguf *g, const char *key, const char **text,
                                  size_t *length, size_t room);
MIRAS_API size_t miras_gguf_wholes(const miras_gguf *g, const char *key, int32_t *to, size_t room);
MIRAS_API size_t miras_gguf_reals(const miras_gguf *g, const char *key, float *to, size_t room);
/* A tensor's type, "Q4_0"; NULL: there is no such tensor. */
MIRAS_API const char *miras_gguf_type(const miras_gguf *g, const char *tensor);

#ifdef __cplusplus
}
#endif
#endif /* MIRAS_GGUF_H */

#if defined(MIRAS_GGUF_IMPLEMENTATION) && !defined(GG__IMPLEMENTED)
#define GG__IMPLEMENTED

#ifndef HF__IMPLEMENTED
  #error "put the implementation of huggingface.h before that of gguf.h, into the same file"
#endif

/* How a file becomes a model: its head becomes a table of fields and one of tensors; its
 * architecture says what the fields are called there and which rows of names its tensors have, in
 * huggingface.h's terms; then that describes and reads it. */

/* ---- blocks of numbers ---- */

enum { GG__FORM = 16 };   /* hf__tensor.form of a type that is read here: this and its number */

/* The types of ggml: so many numbers take so many bytes. */
typedef struct gg__type {
  const char *name;          /* NULL: there is no type of this number                             */
  unsigned short numbers, bytes;
  int form;                  /* -1: it is not read                                                */
} gg__type;

static const gg__type gg__types[] = {
  {"F32", 1, 4, MIRAS_WEIGHTS_FLOAT}, {"F16", 1, 2, MIRAS_WEIGHTS_F16},
  {"Q4_0", 32, 18, GG__FORM + 2}, {"Q4_1", 32, 20, GG__FORM + 3},
  {NULL, 1, 1, -1}, {NULL, 1, 1, -1},
  {"Q5_0", 32, 22, GG__FORM + 6}, {"Q5_1", 32, 24, GG__FORM + 7},
  {"Q8_0", 32, 34, GG__FORM + 8}, {"Q8_1", 32, 36, -1},
  {"Q2_K", 256, 84, -1}, {"Q3_K", 256, 110, -1},
  {"Q4_K", 256, 144, GG__FORM + 12}, {"Q5_K", 256, 176, GG__FORM + 13},
  {"Q6_K", 256, 210, GG__FORM + 14}, {"Q8_K", 256, 292, -1},
  {"IQ2_XXS", 256, 66, -1}, {"IQ2_XS", 256, 74, -1}, {"IQ3_XXS", 256, 98, -1},
  {"IQ1_S", 256, 50, -1}, {"IQ4_NL", 32, 18, -1}, {"IQ3_S", 256, 110, -1},
  {"IQ2_S", 256, 82, -1}, {"IQ4_XS", 256, 136, -1},
  {"I8", 1, 1, -1}, {"I16", 1, 2, -1}, {"I32", 1, 4, -1}, {"I64", 1, 8, -1}, {"F64", 1, 8, -1},
  {"IQ1_M", 256, 56, -1}, {"BF16", 1, 2, MIRAS_WEIGHTS_BF16},
  {NULL, 1, 1, -1}, {NULL, 1, 1, -1}, {NULL, 1, 1, -1},
  {"TQ1_0", 256, 54, -1}, {"TQ2_0", 256, 66, -1},
  {NULL, 1, 1, -1}, {NULL, 1, 1, -1}, {NULL, 1, 1, -1},
  {"MXFP4", 32, 17, -1}, {"NVFP4", 64, 36, -1}, {"Q1_0", 128, 18, -1}};

static float gg__half(const unsigned char *p) {
  float x;
  hf__widen(&x, MIRAS_WEIGHTS_F16, p, 1);
  return x;
}

/* A block of 32 numbers d q + m: Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0. q has 4 bits, those of numbers 16
 * to 31 above those of 0 to 15; or a fifth one in a word of 32. */
static void gg__small_block(float *to, int type, const unsigned char *p) {
  const int odd = type & 1, five = type >= 6, low = odd ? 0 : five ? 16 : 8;
  const float d = gg__half(p), m = odd ? gg__half(p + 2) : 0;
  const unsigned char *q = p + 2 + 2 * odd;
  uint32_t fifth = 0;
  int k;
  if (type == 8) {
    for (k = 0; k < 32; k++) to[k] = (float)(q[k] - 256 * (q[k] >> 7)) * d;
    return;
  }
  if (five) fifth = hf__get32(q), q += 4;
  for (k = 0; k < 16; k++, fifth >>= 1) {
    to[k] = (float)((int)((q[k] & 15u) | (fifth & 1) << 4) - low) * d;
    to[k + 16] = (float)((int)(q[k] >> 4 | (fifth >> 12 & 16)) - low) * d;
  }
  for (k = 0; k < 32 && odd; k++) to[k] += m;
}

/* A block of 256 numbers, Q4_K or Q5_K: in each 32, d s q - e m with s and m of 6 bits. Of two such
 * 32, the first has the lower halves of the same bytes. */
static void gg__large_block(float *to, int five, const unsigned char *p) {
  const float d = gg__half(p), e = gg__half(p + 2);
  const unsigned char *s = p + 4, *high = p + 16, *low = high + (five ? 32 : 0);
  int g, k;
  for (g = 0; g < 8; g++) {
    const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
    const int least = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
    const float by = d * (float)scale, less = e * (float)least;
    for (k = 0; k < 32; k++) {
      const int byte = low[g / 2 * 32 + k], four = g % 2 ? byte >> 4 : byte & 15;
      to[32 * g + k] = by * (float)(four | (five ? (high[k] >> g & 1) << 4 : 0)) - less;
    }
  }
}

/* A block of 256 numbers, Q6_K: in each 16, d s (q - 32) with s of 8 bits and a sign. */
static void gg__six_block(float *to, const unsigned char *p) {
  const unsigned char *scales = p + 192;
  const float d = gg__half(p + 208);
  int k;
  for (k = 0; k < 256; k++) {
    const int half = k / 128, part = k % 128 / 32, at = k % 32;
    const int byte = p[64 * half + 32 * (part & 1) + at], four = part > 1 ? byte >> 4 : byte & 15;
    const int two = p[128 + 32 * half + at] >> 2 * part & 3, s = scales[k / 16];
    to[k] = d * (float)(s - 256 * (s >> 7)) * (float)((four | two << 4) - 32);
  }
}

/* n numbers, whole blocks of a form, as floats. */
static void gg__widen(float *to, int form, const unsigned char *p, size_t n) {
  const int type = form - GG__FORM;
  if (type < 0) {
    hf__widen(to, form, p, n);
    return;
  }
  for (; n; n -= gg__types[type].numbers, to += gg__types[type].numbers) {
    if (type < 10) gg__small_block(to, type, p);
    else if (type < 14) gg__large_block(to, type == 13, p);
    else gg__six_block(to, p);
    p += gg__types[type].bytes;
  }
}

/* Q8_0 and Q4_1 are what lines of q8 and q4 are; Q4_0, d (q - 8), has no least number. */
static size_t gg__held(const hf__tensor *x, miras_weights as) {
  if (as == MIRAS_WEIGHTS_Q8) return x->form == GG__FORM + 8 ? 34 : 0;
  if (as == MIRAS_WEIGHTS_Q4) return x->form == GG__FORM + 2 || x->form == GG__FORM + 3 ? 20 : 0;
  return hf__held(x, as);
}

/* Blocks of Q4_0 as Q4_1: the least number is -8 d. 0: half precision does not hold it. */
static int gg__take_blocks(unsigned char *to, const unsigned char *from, size_t blocks) {
  for (; blocks; blocks--, to += 20, from += 18) {
    const unsigned d = from[0] | (unsigned)from[1] << 8, size = d & 0x7fff;
    unsigned m = size + (3 << 10), up = 0;
    if (size >= 28 << 10) return 0;
    if (size < 1 << 10) {              /* steps of 2^-24 */
      for (m = 8 * size; m >= 2 << 10; up++) m >>= 1;
      m += up << 10;
    }
    m |= ~d & 0x8000;
    to[0] = from[0], to[1] = from[1];
    to[2] = (unsigned char)m, to[3] = (unsigned char)(m >> 8);
    memcpy(to + 4, from + 2, 16);
  }
  return 1;
}

/* ---- the head of a file ---- */

enum { GG__U8, GG__I8, GG__U16, GG__I16, GG__U32, GG__I32, GG__F32, GG__BOOL, GG__TEXT, GG__LIST,
       GG__U64, GG__I64, GG__F64, GG__VALUES };
enum { GG__MAX_HEAD = 1 << 26,   /* bytes                                                         */
       GG__MAX_KEYS = 4096, GG__MAX_TENSORS = 1 << 16 };

/* A key and its value. The value's items lie behind one another as in the file. */
typedef struct gg__pair {
  const char *key;
  size_t length, count;
  size_t order;                      /* of pair i: which pair is the one with i keys before its   */
  int type, list;                    /* of items; 1: it is a list                                 */
  const unsigned char *at;
} gg__pair;

/* The head as far as it has been read, and a place in it. */
typedef struct gg__head {
  hf__reader *c;
  unsigned char *bytes;
  size_t room, read, at;
  uint64_t size;                     /* of the file                                               */
  int stopped, more;                 /* nothing more is taken; for it has not been read yet       */
  gg__pair *pairs;
  size_t count, pair_room;
} gg__head;

static int gg__reject(gg__head *h, const char *text) {
  h->stopped = 1;
  return hf__reject_as(h->c, MIRAS_ERR_FORMAT, h->c->config_name, text);
}

/* The next n bytes; NULL: there are none, or they have not been read. */
static const unsigned char *gg__take(gg__head *h, uint64_t n) {
  const unsigned char *at = h->bytes + h->at;
  if (h->stopped) return NULL;
  if (n > h->size - h->at) {
    gg__reject(h, "it is cut off within its head");
    return NULL;
  }
  if (n > h->read - h->at) {
    h->stopped = h->more = 1;
    return NULL;
  }
  h->at += (size_t)n;
  return at;
}

static uint64_t gg__take_whole(gg__head *h, int bytes) {
  const unsigned char *p = gg__take(h, (uint64_t)bytes);
  return !p ? 0 : bytes == 4 ? hf__get32(p) : hf__get64(p);
}

/* A name: up to 127 characters, none of which a terminal would act on; *length is 0 without one. */
static const char *gg__take_name(gg__head *h, size_t *length) {
  const uint64_t n = gg__take_whole(h, 8);
  const unsigned char *p;
  size_t i;
  *length = 0;
  if (!h->stopped && (n == 0 || n >= HF__NAME_SIZE))
    gg__reject(h, "a name in its head is empty or has more than 127 characters");
  p = gg__take(h, n);
  for (i = 0; p && i < n; i++)
    if (p[i] < 0x20 || p[i] == 0x7f) p = NULL, gg__reject(h, "a name in its head is no text");
  if (p) *length = (size_t)n;
  return (const char *)p;
}

static int gg__item_bytes(int type) {
  static const unsigned char bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return bytes[type];
}

/* Take a value of a type; count: how many of them there are. */
static void gg__take_items(gg__head *h, gg__pair *p, uint64_t type, uint64_t count) {
  const uint64_t most = h->size - h->at;
  uint64_t i;
  if (h->stopped) return;
  if (type >= GG__VALUES || type == GG__LIST) {
    hf__reject(h->c, MIRAS_ERR_FORMAT, h->c->config_name);
    hf__say(h->c->why, h->c->why_size, "%.*s is of type %lu, which is not known here",
            (int)p->length, p->key, (unsigned long)type);
    h->stopped = 1;
    return;
  }
  p->type = (int)type;
  p->at = h->bytes + h->at;
  if (count > most) {
    gg__reject(h, "it is cut off within its head");
  } else if (type != GG__TEXT) {
    gg__take(h, count * (uint64_t)gg__item_bytes(p->type));
  } else {
    for (i = 0; i < count && !h->stopped; i++) gg__take(h, gg__take_whole(h, 8));
  }
  p->count = (size_t)count;
}

/* The turn of a key among those that there are, or that it would have; *found: its pair; NULL:
 * there is none. */
static size_t gg__turn(const gg__head *h, const char *key, size_t length, const gg__pair **found) {
  size_t from = 0, to = h->count;
  *found = NULL;
  while (from < to && !*found) {
    const size_t middle = from + (to - from) / 2;
    const gg__pair *p = &h->pairs[h->pairs[middle].order];
    int side = memcmp(p->key, key, p->length < length ? p->length : length);
    if (!side) side = (p->length > length) - (p->length < length);
    if (!side) *found = p;
    if (side < 0) from = middle + 1;
    else to = middle;
  }
  return from;
}

/* The pair of this key; NULL: there is none. */
static const gg__pair *gg__pair_named(const gg__head *h, const char *key, size_t length) {
  const gg__pair *found;
  gg__turn(h, key, length, &found);
  return found;
}

static void gg__take_pair(gg__head *h) {
  gg__pair p;
  const gg__pair *other;
  uint64_t type, count = 1;
  size_t turn, i;
  void *pairs;
  memset(&p, 0, sizeof p);
  p.key = gg__take_name(h, &p.length);
  type = gg__take_whole(h, 4);
  p.list = type == GG__LIST;
  if (p.list) {
    type = gg__take_whole(h, 4);
    count = gg__take_whole(h, 8);
  }
  gg__take_items(h, &p, type, count);
  if (h->stopped) return;
  turn = gg__turn(h, p.key, p.length, &other);
  if (other) {
    hf__reject(h->c, MIRAS_ERR_FORMAT, h->c->config_name);
    hf__say(h->c->why, h->c->why_size, "%.*s is there twice", (int)p.length, p.key);
    h->stopped = 1;
    return;
  }
  pairs = hf__alloc_more(h->c, h->pairs, &h->pair_room, h->count + 1, sizeof p);
  h->stopped = !pairs;
  if (!pairs) return;
  h->pairs = (gg__pair *)pairs;
  h->pairs[h->count] = p;
  for (i = h->count; i > turn; i--) h->pairs[i].order = h->pairs[i - 1].order;
  h->pairs[turn].order = h->count++;
}

/* Take what the head says of a tensor, whose place must be `place` bytes behind that of the first.
 * Returns the bytes that it takes. */
static uint64_t gg__take_tensor(gg__head *h, uint64_t place) {
  hf__reader *c = h->c;
  hf__tensor x, *all;
  size_t length, i;
  const char *name = gg__take_name(h, &length), *why = NULL;
  const uint64_t rank = gg__take_whole(h, 4);
  uint64_t type, at, inner = 1, bytes = 0;
  memset(&x, 0, sizeof x);
  if (h->stopped) return 0;
  memcpy(x.name, name, length);
  if (rank > 4) why = "it has more than 4 lengths";
  x.rank = rank && rank < 5 ? (int)rank : 1;
  x.alone = !rank;
  x.shape[0] = x.count = 1;
  for (i = 0; !why && i < rank; i++) {
    const uint64_t n = gg__take_whole(h, 8);
    if (h->stopped) return 0;
    x.shape[rank - 1 - i] = n;
    if (!i) inner = n;
    if (n && x.count > UINT64_MAX / 16 / n) why = "it has more numbers than there can be";
    else x.count *= n;
  }
  type = gg__take_whole(h, 4);
  at = gg__take_whole(h, 8);
  if (h->stopped) return 0;
  if (!why && (type >= HF__COUNT(gg__types) || !gg__types[type].name)) {
    why = "it is of a type that is not known here";
  } else if (!why) {
    const gg__type *t = &gg__types[type];
    memcpy(x.type, t->name, strlen(t->name));
    x.form = t->form;
    x.block = t->numbers, x.bytes = t->bytes;
    bytes = x.count / t->numbers * t->bytes;
    if (inner % t->numbers) why = "its rows are no whole blocks of its type";
    else if (at != place) why = "its place is not behind that of the tensor before it";
    else if (bytes > h->size) why = "its place is not within the file";
  }
  x.at = at;
  if (!why) {
    all = (hf__tensor *)hf__alloc_more(c, c->tensors, &c->tensor_room, c->tensor_count + 1,
                                       sizeof x);
    h->stopped = !all;
    if (!all) return 0;
    c->tensors = all;
    all[c->tensor_count++] = x;
    return bytes;
  }
  hf__reject_as(c, MIRAS_ERR_FORMAT, x.name, why);
  h->stopped = 1;
  return 0;
}

/* What tensors are rounded up to. */
static uint64_t gg__alignment(gg__head *h) {
  static const char key[] = "general.alignment";
  const gg__pair *p = gg__pair_named(h, key, sizeof key - 1);
  const uint64_t n = !p ? 32 : p->type == GG__U32 && !p->list ? hf__get32(p->at) : 0;
  if (n == 0 || n > 1 << 20 || (n & (n - 1)))
    gg__reject(h, "general.alignment must be a power of two up to 1048576");
  return n ? n : 1;
}

/* Take the head from its beginning on. */
static void gg__take_head(gg__head *h) {
  hf__reader *c = h->c;
  const unsigned char *magic = gg__take(h, 4);
  const uint64_t version = gg__take_whole(h, 4), tensors = gg__take_whole(h, 8);
  const uint64_t keys = gg__take_whole(h, 8);
  uint64_t i, align, place = 0, bytes = 0;
  if (!magic || memcmp(magic, "GGUF", 4) != 0) {
    gg__reject(h, "it is no GGUF file");
    return;
  }
  if (h->stopped) return;
  if (version != 2 && version != 3) {
    hf__reject(c, MIRAS_ERR_FORMAT, c->config_name);
    hf__say(c->why, c->why_size,
            version & 0xffff ? "it is of GGUF's version %lu; 2 and 3 can be read"
                             : "its numbers are big-endian",
            (unsigned long)version);
    h->stopped = 1;
    return;
  }
  if (keys > GG__MAX_KEYS || tensors > GG__MAX_TENSORS) {
    gg__reject(h, "it has more than 4096 keys or 65536 tensors");
    return;
  }
  for (i = 0; i < keys && !h->stopped; i++) gg__take_pair(h);
  if (h->stopped) return;
  align = gg__alignment(h);
  for (i = 0; i < tensors && !h->stopped; i++) {
    place += (bytes + align - 1) / align * align;
    bytes = gg__take_tensor(h, place);
  }
  if (h->stopped || !tensors) return;
  align = ((uint64_t)h->at + align - 1) / align * align;      /* where numbers begin */
  if (align > h->size || place + bytes > h->size - align) {
    gg__reject(h, "it is cut off: its tensors are not all there");
    return;
  }
  for (i = 0; i < c->tensor_count; i++) c->tensors[i].at += align;
}

/* Open a file and take its head, of which more is read as long as there is more of it: never by a
 * size that the file states. */
static int gg__head_open(gg__head *h, hf__reader *c, const char *path,
                         const miras_allocator *allocator, uint64_t limit, const char *ignored,
                         char *why, size_t why_size) {
  size_t wanted = 1 << 16;
  FILE *file;
  memset(h, 0, sizeof *h);
  h->c = c;
  if (!hf__reader_start(c, path, 1, allocator, limit, ignored, why, why_size) ||
      !hf__file_only(c, path + c->folder)) return 0;
  c->config_name = c->names[0];
  c->readable = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K";
  c->widen = gg__widen;
  c->held = gg__held;
  c->take = gg__take_blocks;
  c->common_count = 0;
  file = hf__folder_open(c, c->names[0], 1, &h->size);
  if (!file) return 0;
  do {
    size_t n = h->size < wanted ? (size_t)h->size : wanted;
    void *bytes = hf__alloc_more(c, h->bytes, &h->room, n + 1, 1);
    if (!bytes) break;
    h->bytes = (unsigned char *)bytes;
    if (fread(h->bytes + h->read, 1, n - h->read, file) != n - h->read) {
      gg__reject(h, "it cannot be read");
      c->result = MIRAS_ERR_IO;
      break;
    }
    h->read = n;
    h->at = h->count = c->tensor_count = 0;
    h->stopped = h->more = 0;
    gg__take_head(h);
    wanted *= 4;
    if (h->more && wanted > GG__MAX_HEAD) gg__reject(h, "its head has more than 64 MiB");
  } while (c->result == MIRAS_OK && h->more);
  fclose(file);
  return c->result == MIRAS_OK && hf__tensors_sort(c);
}

/* ---- values ---- */

/* Item i of a value that has no texts, as a number. */
static double gg__number(const gg__pair *p, size_t i) {
  const unsigned char *at = p->at + i * (size_t)gg__item_bytes(p->type);
  const uint64_t word = gg__item_bytes(p->type) == 8 ? hf__get64(at) : 0;
  float real = 0;
  double wide;
  switch (p->type) {
  case GG__U8: case GG__BOOL: return at[0];
  case GG__I8: return at[0] - 256 * (at[0] >> 7);
  case GG__U16: return at[0] | at[1] << 8;
  case GG__I16: return (at[0] | at[1] << 8) - 65536 * (at[1] >> 7);
  case GG__U32: return hf__get32(at);
  case GG__I32: return (double)hf__get32(at) - 4294967296.0 * (at[3] >> 7);
  case GG__F32: hf__widen(&real, MIRAS_WEIGHTS_FLOAT, at, 1); return (double)real;
  case GG__U64: return (double)word;
  case GG__I64: return at[7] >> 7 ? -(double)(~word + 1) : (double)word;
  default: memcpy(&wide, &word, sizeof wide); return wide;
  }
}

/* A number as JSON has it into text[HF__NAME_SIZE], whatever character the C library puts before a
 * fraction. */
static void gg__say_number(char *text, double x) {
  char digits[64];
  const char *at = digits;
  size_t n = 0;
  if (!(x - x <= 0 && x - x >= 0)) {
    strcpy(text, x > 0 ? "Infinity" : x < 0 ? "-Infinity" : "NaN");
    return;
  }
  if (x <= 1e15 && x >= -1e15 && x <= floor(x)) {
    snprintf(text, HF__NAME_SIZE, "%.0f", x);
    return;
  }
  snprintf(digits, sizeof digits, "%.8e", x);
  if (*at == '-') text[n++] = *at++;
  text[n++] = *at++;
  text[n++] = '.';
  while (*at && !hf__is_digit(*at)) at++;
  strcpy(text + n, at);
}

/* Item `at` of a value as a scalar of a configuration. Returns 1 if it is a text; *at goes on. */
static int gg__say_item(const gg__pair *p, size_t i, const unsigned char **at, char *text) {
  size_t n, k;
  if (p->type != GG__TEXT) {
    const double x = gg__number(p, i);
    if (p->type == GG__BOOL) strcpy(text, x > 0 ? "true" : "false");
    else gg__say_number(text, x);
    return 0;
  }
  n = (size_t)hf__get64(*at);
  for (k = 0; k < n && k < HF__NAME_SIZE - 1; k++)
    text[k] = (char)((*at)[8 + k] < 0x20 || (*at)[8 + k] == 0x7f ? '?' : (*at)[8 + k]);
  text[k] = 0;
  *at += 8 + n;
  return 1;
}

/* ---- architectures ---- */

/* Fields of all: how far a text may go on means nothing to layers that do not look back. */
#define GG__SAYS_ALL \
  {"vocab_size", "positive", HF__C_VOCAB}, \
  {"embedding_length", "positive", HF__C_WIDTH}, \
  {"block_count", "positive", HF__C_LAYERS}
#define GG__SAYS_RMS \
  GG__SAYS_ALL, {"attention.layer_norm_rms_epsilon", "positive", HF__C_EPSILON}
/* How angles of rotary positions are scaled; 0 and 1 are no factors. */
#define GG__SAYS_SCALING \
  {"rope.scaling.type", "none linear yarn", HF__C_SCALING}, \
  {"rope.scaling.factor rope.scale_linear", "positive 0", HF__C_SCALING_BY}, \
  {"rope.scaling.original_context_length", "positive", HF__C_SCALING_FROM}, \
  {"rope.scaling.yarn_beta_slow", "positive", HF__C_SCALING_LOW}, \
  {"rope.scaling.yarn_beta_fast", "positive", HF__C_SCALING_HIGH}, \
  {"rope.scaling.attn_factor rope.scaling.yarn_attn_factor rope.scaling.yarn_ext_factor", \
   "1", -1}, \
  {"rope.scaling.finetuned", "any", -1}
/* Fields of those without attention. */
#define GG__SAYS_MAMBAS \
  GG__SAYS_RMS, \
  {"context_length", "any", -1}, \
  {"feed_forward_length attention.head_count", "0", -1}, \
  {"ssm.conv_kernel", "positive", HF__C_CONV}, \
  {"ssm.inner_size", "positive", HF__C_INNER}, \
  {"ssm.state_size", "positive", HF__C_STATE}

static const hf__field gg__says_llama[] = {
  GG__SAYS_RMS,
  {"context_length", "positive", HF__C_POSITIONS},
  {"feed_forward_length", "positive list", HF__C_INNER},
  {"attention.head_count", "positive list", HF__C_HEADS},
  {"attention.head_count_kv", "positive list", HF__C_KV_HEADS},
  {"attention.key_length attention.value_length rope.dimension_count", "positive", HF__C_HEAD_DIM},
  {"rope.freq_base", "positive", HF__C_THETA},
  GG__SAYS_SCALING,
  {"expert_count expert_used_count", "0", -1},
  {"attention.causal", "true", -1}
};

static const hf__field gg__says_mamba[] = {
  GG__SAYS_MAMBAS,
  {"ssm.time_step_rank", "positive", HF__C_RATE_RANK},
  {"ssm.dt_b_c_rms", "false true", HF__C_KEYS}
};

static const hf__field gg__says_mamba2[] = {
  GG__SAYS_MAMBAS,
  {"ssm.time_step_rank", "positive", HF__C_HEADS},
  {"ssm.group_count", "positive", HF__C_GROUPS}
};

static const hf__field gg__says_rwkv7[] = {
  GG__SAYS_ALL,
  {"context_length", "any", -1},
  {"attention.head_count", "0", -1},
  {"token_shift_count", "2", -1},
  {"attention.layer_norm_epsilon", "positive", HF__C_EPSILON},
  {"feed_forward_length", "positive", HF__C_INNER},
  {"wkv.head_size", "positive", HF__C_HEAD_DIM},
  {"attention.decay_lora_rank", "positive", HF__C_DECAY_RANK},
  {"attention.iclr_lora_rank", "positive", HF__C_RATE_RANK},
  {"attention.value_residual_mix_lora_rank", "positive", HF__C_VALUE_RANK},
  {"attention.gate_lora_rank", "positive", HF__C_OUT_RANK}
};

/* Qwen3-Next and Qwen3.5; sections of rotary positions are for pictures. */
static const hf__field gg__says_qwen[] = {
  GG__SAYS_RMS,
  {"context_length", "positive", HF__C_POSITIONS},
  {"feed_forward_length", "positive", HF__C_INNER},
  {"attention.head_count", "positive list", HF__C_HEADS},
  {"attention.head_count_kv", "positive list", HF__C_KV_HEADS},
  {"attention.key_length attention.value_length", "positive", HF__C_HEAD_DIM},
  {"rope.freq_base", "positive", HF__C_THETA},
  {"rope.dimension_count", "positive", HF__C_PARTIAL},
  {"rope.dimension_sections", "any", -1},
  GG__SAYS_SCALING,
  {"full_attention_interval", "positive", HF__C_INTERVAL},
  {"nextn_predict_layers", "number", HF__C_STEPS},
  {"ssm.conv_kernel", "positive", HF__C_CONV},
  {"ssm.state_size", "positive", HF__C_KEY_DIM},
  {"ssm.group_count", "positive", HF__C_KEY_HEADS},
  {"ssm.time_step_rank", "positive", HF__C_VALUE_HEADS},
  {"ssm.inner_size", "positive", HF__C_VALUE_DIM},
  {"expert_count", "positive 0", HF__C_EXPERTS},
  {"expert_used_count", "positive 0", HF__C_CHOSEN},
  {"expert_feed_forward_length", "positive", HF__C_EXPERT},
  {"expert_shared_feed_forward_length", "positive 0", HF__C_SHARED_EXPERT},
  {"expert_weights_norm", "true", -1},
  {"expert_weights_scale", "0 1", -1},
  {"expert_gating_func", "1", -1}
};

static const hf__field gg__says_jamba[] = {
  GG__SAYS_RMS,
  {"context_length", "positive", HF__C_POSITIONS},
  {"feed_forward_length", "positive list", HF__C_INNER},
  {"attention.head_count", "positive", HF__C_HEADS},
  {"attention.head_count_kv", "list", HF__C_KV_TYPES},
  {"attention.key_length attention.value_length", "positive", HF__C_HEAD_DIM},
  {"ssm.conv_kernel", "positive", HF__C_CONV},
  {"ssm.inner_size", "positive", HF__C_INNER_SSM},
  {"ssm.state_size", "positive", HF__C_STATE},
  {"ssm.time_step_rank", "positive", HF__C_RATE_RANK},
  {"expert_count", "positive 0", HF__C_EXPERTS},
  {"expert_used_count", "positive 0", HF__C_CHOSEN}
};

static const hf__name_row gg__llama_names[] = {
  {"token_embd.weight", "embed.weight", HF__KEPT},
  {"output_norm.weight", "norm.gain", 0},
  {"output.weight", "head.weight", HF__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".attn_q.weight", ".q.weight", HF__PAIRS},
  {".attn_k.weight", ".k.weight", HF__PAIRS},
  {".attn_v.weight", ".v.weight", 0},
  {".attn_output.weight", ".o.weight", 0},
  {".ffn_norm.weight", ".norm2.gain", 0},
  {".ffn_gate.weight", ".mlp.gate", 0},
  {".ffn_up.weight", ".mlp.up", 0},
  {".ffn_down.weight", ".mlp.down", 0}
};

static const hf__name_row gg__mamba_names[] = {
  {"token_embd.weight", "embed.weight", HF__KEPT},
  {"output_norm.weight", "norm.gain", 0},
  {"output.weight", "head.weight", HF__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".ssm_in.weight", ".v.weight", 0},
  {".ssm_in.weight", ".out_gate.weight", 0},
  {".ssm_conv1d.weight", ".conv_v.weight", 0},
  {".ssm_conv1d.bias", ".conv_v.bias", 0},
  {".ssm_x.weight", ".inner.weight", 0},
  {".ssm_dt.weight", ".gates.up", 0},
  {".ssm_dt.bias", ".gates.offset", 0},
  {".ssm_a", ".memory.decay_log", HF__ENTRIES | HF__LOG},
  {".ssm_d", ".skip.gain", 0},
  {NULL, ".memory.init", 0},
  {".ssm_out.weight", ".o.weight", 0}
};

static const hf__name_row gg__mamba2_names[] = {
  {"token_embd.weight", "embed.weight", HF__KEPT},
  {"output_norm.weight", "norm.gain", 0},
  {"output.weight", "head.weight", HF__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".ssm_in.weight", ".out_gate.weight", 0},
  {".ssm_in.weight", ".v.weight", 0},
  {".ssm_in.weight", ".k.weight", 0},
  {".ssm_in.weight", ".q.weight", 0},
  {".ssm_in.weight", ".gates.down", 0},
  {".ssm_conv1d.weight", ".conv_v.weight", 0},
  {".ssm_conv1d.weight", ".conv_k.weight", 0},
  {".ssm_conv1d.weight", ".conv_q.weight", 0},
  {".ssm_conv1d.bias", ".conv_v.bias", 0},
  {".ssm_conv1d.bias", ".conv_k.bias", 0},
  {".ssm_conv1d.bias", ".conv_q.bias", 0},
  {NULL, ".gates.up", HF__CORNER},
  {".ssm_dt.bias", ".gates.offset", 0},
  {".ssm_a", ".gates.rate", HF__LOG},
  {".ssm_d", ".skip.gain", 0},
  {NULL, ".memory.init", 0},
  {".ssm_norm.weight", ".out_norm.gain", 0},
  {".ssm_out.weight", ".o.weight", 0}
};

static const hf__name_row gg__jamba_names[] = {
  {"token_embd.weight", "embed.weight", HF__KEPT},
  {"output_norm.weight", "norm.gain", 0},
  {"output.weight", "head.weight", HF__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".ssm_in.weight", ".v.weight", 0},
  {".ssm_in.weight", ".out_gate.weight", 0},
  {".ssm_conv1d.weight", ".conv_v.weight", 0},
  {".ssm_conv1d.bias", ".conv_v.bias", 0},
  {".ssm_x.weight", ".inner.weight", 0},
  {".ssm_dt_norm.weight", ".gates_norm.gain", 0},
  {".ssm_b_norm.weight", ".k_norm.gain", 0},
  {".ssm_c_norm.weight", ".q_norm.gain", 0},
  {".ssm_dt.weight", ".gates.up", 0},
  {".ssm_dt.bias", ".gates.offset", 0},
  {".ssm_a", ".memory.decay_log", HF__ENTRIES | HF__LOG},
  {".ssm_d", ".skip.gain", 0},
  {NULL, ".memory.init", 0},
  {".ssm_out.weight", ".o.weight", 0},
  {".attn_q.weight", ".q.weight", 0},
  {".attn_k.weight", ".k.weight", 0},
  {".attn_v.weight", ".v.weight", 0},
  {".attn_output.weight", ".o.weight", 0},
  {".ffn_norm.weight", ".norm2.gain", 0},
  {".ffn_gate_inp.weight", ".mlp.router", 0},
  {".ffn_gate_exps.weight", ".mlp.gate", HF__EXPERT | HF__STACKED},
  {".ffn_up_exps.weight", ".mlp.up", HF__EXPERT | HF__STACKED},
  {".ffn_down_exps.weight", ".mlp.down", HF__EXPERT | HF__STACKED},
  {".ffn_gate.weight", ".mlp.gate", 0},
  {".ffn_up.weight", ".mlp.up", 0},
  {".ffn_down.weight", ".mlp.down", 0}
};

/* Norms are stored as what they multiply by. */
static const hf__name_row gg__qwen_names[] = {
  {"token_embd.weight", "embed.weight", HF__KEPT},
  {"output_norm.weight", "norm.gain", 0},
  {"output.weight", "head.weight", HF__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".attn_qkv.weight", ".q.weight", 0},
  {".attn_qkv.weight", ".k.weight", 0},
  {".attn_qkv.weight", ".v.weight", HF__TILED},
  {".attn_gate.weight", ".out_gate.weight", HF__TILED},
  {".ssm_conv1d.weight", ".conv_q.weight", 0},
  {".ssm_conv1d.weight", ".conv_k.weight", 0},
  {".ssm_conv1d.weight", ".conv_v.weight", HF__TILED},
  {".ssm_ba.weight", ".gates.down", HF__BY_KEYS | HF__HALF | HF__OTHER},
  {".ssm_ba.weight", ".gates.down", HF__BY_KEYS | HF__HALF},
  {".ssm_alpha.weight", ".gates.down", HF__TILED},
  {".ssm_beta.weight", ".gates.down", HF__TILED},
  {NULL, ".gates.up", HF__CORNER},
  {".ssm_dt.bias", ".gates.offset", HF__TILED},
  {NULL, ".gates.offset", 0},
  {".ssm_a", ".gates.rate", HF__LOG | HF__TILED},
  {NULL, ".memory.init", 0},
  {".ssm_norm.weight", ".out_norm.gain", HF__AGAIN},
  {".ssm_out.weight", ".o.weight", HF__TILED | HF__INNER},
  {".attn_q.weight", ".q.weight", HF__BY_QUERIES | HF__HALF},
  {".attn_q.weight", ".out_gate.weight", HF__BY_QUERIES | HF__HALF | HF__OTHER},
  {".attn_k.weight", ".k.weight", 0},
  {".attn_v.weight", ".v.weight", 0},
  {".attn_q_norm.weight", ".q_norm.gain", 0},
  {".attn_k_norm.weight", ".k_norm.gain", 0},
  {".attn_output.weight", ".o.weight", 0},
  {".post_attention_norm.weight", ".norm2.gain", 0},
  {".ffn_gate_inp.weight", ".mlp.router", 0},
  {".ffn_gate_inp_shexp.weight", ".mlp.router", 0},
  {".ffn_gate_exps.weight", ".mlp.gate", HF__EXPERT | HF__STACKED},
  {".ffn_up_exps.weight", ".mlp.up", HF__EXPERT | HF__STACKED},
  {".ffn_gate_up_exps.weight", ".mlp.gate", HF__EXPERT | HF__STACKED},
  {".ffn_gate_up_exps.weight", ".mlp.up", HF__EXPERT | HF__STACKED},
  {".ffn_down_exps.weight", ".mlp.down", HF__EXPERT | HF__STACKED},
  {".ffn_gate_shexp.weight", ".mlp.gate", HF__SHARED},
  {".ffn_up_shexp.weight", ".mlp.up", HF__SHARED},
  {".ffn_down_shexp.weight", ".mlp.down", HF__SHARED},
  {".ffn_gate.weight", ".mlp.gate", 0},
  {".ffn_up.weight", ".mlp.up", 0},
  {".ffn_down.weight", ".mlp.down", 0}
};

static const hf__name_row gg__rwkv7_names[] = {
  {"token_embd.weight", "embed.weight", HF__KEPT},
  {"token_embd_norm.weight", "embed_norm.gain", 0},
  {"token_embd_norm.bias", "embed_norm.bias", 0},
  {"output_norm.weight", "norm.gain", 0},
  {"output_norm.bias", "norm.bias", 0},
  {"output.weight", "head.weight", HF__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".attn_norm.bias", ".norm1.bias", 0},
  {".time_mix_lerp_fused.weight", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".time_mix_receptance.weight", ".q.weight", 0},
  {".time_mix_key.weight", ".k.weight", 0},
  {".time_mix_value.weight", ".v.weight", 0},
  {".time_mix_output.weight", ".o.weight", 0},
  {".time_mix_w1.weight", ".decay.down", 0},
  {".time_mix_w2.weight", ".decay.up", 0},
  {".time_mix_a1.weight", ".rate.down", 0},
  {".time_mix_a2.weight", ".rate.up", 0},
  {".time_mix_v1.weight", ".value.down", 0},
  {".time_mix_v2.weight", ".value.up", 0},
  {".time_mix_g1.weight", ".out_gate.down", 0},
  {".time_mix_g2.weight", ".out_gate.up", 0},
  {".time_mix_w0.weight", ".gates.offset", 0},
  {".time_mix_a0.weight", ".gates.offset", 0},
  {".time_mix_v0.weight", ".gates.offset", 0},
  {".time_mix_k_k.weight", ".erase.scale", 0},
  {".time_mix_k_a.weight", ".erase.mix", 0},
  {".time_mix_r_k.weight", ".bonus.gain", 0},
  {NULL, ".memory.init", 0},
  {".time_mix_ln.weight", ".out_norm.gain", 0},
  {".time_mix_ln.bias", ".out_norm.bias", 0},
  {".attn_norm_2.weight", ".norm2.gain", 0},
  {".attn_norm_2.bias", ".norm2.bias", 0},
  {".channel_mix_lerp_k.weight", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".channel_mix_key.weight", ".mlp.up", 0},
  {".channel_mix_value.weight", ".mlp.down", 0}
};

/* Put a number into a slot of the configuration that tensors or other fields tell. */
static void gg__tell(hf__reader *c, int slot, double x) {
  c->said[slot] = 1;
  c->config[slot] = x;
}

/* Without a type a factor is of all angles alike; 1 and 0 are none. */
static void gg__tell_scaling(hf__reader *c) {
  const double by = hf__config_of(c, HF__C_SCALING_BY, 0);
  if (c->said[HF__C_SCALING] && c->config[HF__C_SCALING] > 0) return;
  if (by <= 0 || (by >= 1 && by <= 1)) c->said[HF__C_SCALING_BY] = 0;
  else if (!c->said[HF__C_SCALING]) gg__tell(c, HF__C_SCALING, 1);
}

/* The turns that pair i of n makes within the context of a scaling. */
static double gg__turns(const miras_rope_scaling *s, double theta, int i, int n) {
  return (double)s->context * hf__exp(-hf__log(theta) * i / n) / 6.283185307179586;
}

/* Are these what angles are divided by under such a scaling? Up to the rounding of both. */
static int gg__divides(const miras_rope_scaling *s, double theta, const float *by, int n) {
  const double low = (double)s->low_frequency_factor, high = (double)s->high_frequency_factor;
  int i;
  if (!(low >= 1e-6 && low < high && high <= 1e6)) return 0;
  for (i = 0; i < n; i++) {
    double keeps = (gg__turns(s, theta, i, n) - low) / (high - low);
    keeps = keeps > 0 ? keeps < 1 ? keeps : 1 : 0;
    if (!(fabs((keeps + (1 - keeps) / (double)s->factor) * (double)by[i] - 1) <= 3e-6)) return 0;
  }
  return 1;
}

/* Find the scaling of Llama 3.1 that divides the angles of n pairs by these numbers; 0: there is
 * none. The file has not its fields: first those that were published are tried; then what they keep
 * of their angles, a line between 0 and 1, goes through two pairs, each inside or at its end. */
static int gg__scaling_find(miras_rope_scaling *s, double theta, const float *by, int n) {
  int one = -1, first = -1, last = -1, all, i;   /* pairs that keep all, a part, nothing */
  double keeps;
  memset(s, 0, sizeof *s);
  s->type = MIRAS_ROPE_SCALING_LLAMA3;
  s->context = 8192;
  s->factor = 1;
  for (i = 0; i < n; i++) {
    if (!(by[i] >= 1 && by[i] <= 1e6f)) return 0;
    if (by[i] > s->factor) s->factor = by[i];
  }
  if (s->factor <= 1) s->type = MIRAS_ROPE_SCALING_NONE;
  if (!s->type) return 1;
  /* the last pair may keep a part */
  s->low_frequency_factor = 1, s->high_frequency_factor = 4;
  keeps = (gg__turns(s, theta, n - 1, n) - 1) / 3;
  if (keeps > 0 && keeps * (double)by[n - 1] < 1)
    s->factor = (float)((1 - keeps) / (1 / (double)by[n - 1] - keeps));
  if (gg__divides(s, theta, by, n)) return 1;
  s->factor = by[n - 1];
  for (i = 0; i < n && by[i] <= 1; i++) one = i;
  for (all = n - 1; all > 0 && by[all - 1] >= s->factor;) all--;
  if (one + 1 < all) first = one + 1, last = all - 1;
  for (i = 0; i < 4; i++) {
    const int a = i & 1 ? one : first, b = i & 2 ? all : last;
    double x, y, slope;
    if (a < 0 || b <= a) continue;
    x = (1 / (double)by[a] - 1 / (double)s->factor) / (1 - 1 / (double)s->factor);
    y = (1 / (double)by[b] - 1 / (double)s->factor) / (1 - 1 / (double)s->factor);
    slope = (x - y) / (gg__turns(s, theta, a, n) - gg__turns(s, theta, b, n));
    s->low_frequency_factor = (float)(gg__turns(s, theta, b, n) - y / slope);
    s->high_frequency_factor = (float)(gg__turns(s, theta, a, n) + (1 - x) / slope);
    if (gg__divides(s, theta, by, n)) return 1;
  }
  return 0;
}

/* Llama. What Llama 3.1 divides its angles by is a tensor. */
static int gg__describe_llama(hf__reader *c, miras_model_desc *d) {
  static const char name[] = "rope_freqs.weight";
  const hf__tensor *x = hf__tensor_named(c, name);
  miras_attention_desc *a = &d->layer[2].attention;
  size_t at, n;
  gg__tell_scaling(c);
  if (!hf__describe_llama(c, d) || !x) return c->result == MIRAS_OK;
  if (!hf__tensor_fits(c, x)) return 0;
  if (x->count != (uint64_t)a->head_dim / 2 || x->count > HF__COUNT(c->run))
    return hf__reject_as(c, MIRAS_ERR_FORMAT, name, "it is not of all pairs of a head's entries");
  if (c->said[HF__C_SCALING] && c->config[HF__C_SCALING] > 0)
    return hf__reject_as(c, MIRAS_ERR_DESC, name, "angles that are scaled already are divided too");
  for (at = 0; at < (size_t)x->count; at += n) {
    n = (size_t)x->count - at < HF__READ ? (size_t)x->count - at : (size_t)HF__READ;
    if (!hf__tensor_get(c, x, at, n, c->run + at)) return 0;
  }
  return gg__scaling_find(&a->rope_scaling, (double)a->rope.theta, c->run, a->head_dim / 2) ||
         hf__reject_as(c, MIRAS_ERR_DESC, name, "angles are divided in another way than as those "
                                                "of Llama 3.1, which no layer here computes");
}

/* Mamba. Of Falcon Mamba's norms the file has no epsilon; it is that of the original. */
static int gg__describe_mamba(hf__reader *c, miras_model_desc *d) {
  gg__tell(c, HF__C_CONV_BIAS, hf__tensor_named(c, "blk.0.ssm_conv1d.bias") != NULL);
  if (hf__config_of(c, HF__C_KEYS, 0) > 0) gg__tell(c, HF__C_INNER_EPSILON, 1e-6);
  return hf__describe_mamba(c, d);
}

/* Mamba-2, whose heads' width and whose `expand` follow. */
static int gg__describe_mamba2(hf__reader *c, miras_model_desc *d) {
  const int inner = hf__config_whole(c, HF__C_INNER, 0, 1);
  const int heads = hf__config_whole(c, HF__C_HEADS, 0, 1);
  const int width = hf__config_whole(c, HF__C_WIDTH, 0, 1);
  if (c->result != MIRAS_OK) return 0;
  if (inner % heads)
    return hf__config_lacks(c, HF__C_HEADS, "a number that divides ssm.inner_size");
  gg__tell(c, HF__C_HEAD_DIM, inner / heads);
  gg__tell(c, HF__C_EXPAND, (double)inner / width);
  gg__tell(c, HF__C_CONV_BIAS, hf__tensor_named(c, "blk.0.ssm_conv1d.bias") != NULL);
  return hf__describe_mamba2(c, d);
}

/* Pass over the layers behind those of the model, which guess at further tokens, and find layers
 * without experts; gates of shared experts are one row. */
static void gg__sort_layers(hf__reader *c, int layers) {
  char name[HF__NAME_SIZE];
  size_t i;
  int k;
  for (k = 0; k < layers && k < MIRAS_MAX_LAYERS; k++) {
    name[0] = 0;
    hf__say(name, sizeof name, "blk.%d.ffn_gate_inp.weight", k);
    if (!hf__tensor_named(c, name)) c->dense[k / 8] |= (unsigned char)(1 << k % 8);
  }
  for (i = 0; i < c->tensor_count; i++) {
    hf__tensor *x = &c->tensors[i];
    uint64_t at = 0;
    const char *end = x->name + strlen(x->name);
    const char *rest = hf__begins("blk.", x->name) ? hf__scan_whole(x->name + 4, end, &at) : NULL;
    if (!rest) continue;
    if (at >= (uint64_t)layers) x->alone = 1;
    if (x->rank == 1 && hf__same(rest, ".ffn_gate_inp_shexp.weight")) {
      x->rank = 2;
      x->shape[1] = x->shape[0];
      x->shape[0] = 1;
    }
  }
}

/* Qwen3-Next and Qwen3.5, of which only the latter has its heads of values in tiles. */
static int gg__describe_qwen(hf__reader *c, miras_model_desc *d) {
  const double behind = hf__config_of(c, HF__C_STEPS, 0);
  const int layers = hf__config_whole(c, HF__C_LAYERS, 0, 1);
  const int heads = hf__config_whole(c, HF__C_VALUE_HEADS, 0, 1);
  const int keys = hf__config_whole(c, HF__C_KEY_HEADS, 0, 1);
  const int size = hf__config_whole(c, HF__C_HEAD_DIM, 256, 2);
  const int width = hf__config_whole(c, HF__C_VALUE_DIM, 0, 1);
  if (c->result != MIRAS_OK) return 0;
  if (!(behind >= 0 && behind < layers))
    return hf__config_lacks(c, HF__C_STEPS, "fewer than block_count");
  if (heads % keys)
    return hf__config_lacks(c, HF__C_KEY_HEADS, "a number that divides ssm.time_step_rank");
  if (width % heads)
    return hf__config_lacks(c, HF__C_VALUE_DIM, "a multiple of ssm.time_step_rank");
  gg__tell_scaling(c);
  c->tiled = !hf__same(c->of->models, "qwen3next");
  gg__tell(c, HF__C_VALUE_DIM, width / heads);
  gg__tell(c, HF__C_LAYERS, layers - (int)behind);
  if (c->said[HF__C_PARTIAL]) gg__tell(c, HF__C_PARTIAL, c->config[HF__C_PARTIAL] / size);
  gg__sort_layers(c, layers - (int)behind);
  return hf__describe_qwen(c, d);
}

/* Jamba, whose layers have attention where there are heads of keys, and experts where there is a
 * router. */
static int gg__describe_jamba(hf__reader *c, miras_model_desc *d) {
  const int inner = hf__config_whole(c, HF__C_INNER_SSM, 0, 1);
  const int width = hf__config_whole(c, HF__C_WIDTH, 0, 1);
  const int layers = hf__config_whole(c, HF__C_LAYERS, 0, 1);
  int i = 0;
  char name[HF__NAME_SIZE];
  if (c->result != MIRAS_OK) return 0;
  if (!c->types)
    return hf__reject_as(c, MIRAS_ERR_DESC, c->config_name, "attention.head_count_kv is missing");
  gg__tell(c, HF__C_EXPAND, (double)inner / width);
  gg__tell(c, HF__C_EXPERTS, hf__config_of(c, HF__C_EXPERTS, 0));
  while (i < layers && i < MIRAS_MAX_LAYERS && c->full[i / 8] >> i % 8 & 1) i++;
  name[0] = 0;
  hf__say(name, sizeof name, "blk.%d.ssm_conv1d.bias", i);
  gg__tell(c, HF__C_CONV_BIAS, hf__tensor_named(c, name) != NULL);
  gg__sort_layers(c, layers);
  return hf__describe_jamba(c, d);
}

/* RWKV-7. The epsilon of the norm behind its memories is heads' width times that of others. */
static int gg__describe_rwkv7(hf__reader *c, miras_model_desc *d) {
  static const char *const ranks[] = {"blk.0.time_mix_w1.weight", "blk.0.time_mix_a1.weight",
                                      "blk.0.time_mix_g1.weight", "blk.1.time_mix_v1.weight"};
  const miras_layer_desc *l = &d->layer[0];
  int size;
  d->width = hf__config_whole(c, HF__C_WIDTH, 0, 1);
  d->vocab = hf__config_whole(c, HF__C_VOCAB, hf__embedding_rows(c), 2);
  d->layers = hf__config_whole(c, HF__C_LAYERS, 0, 1);
  d->layer[0].mlp.hidden = hf__config_whole(c, HF__C_INNER, 0, 1);
  size = hf__config_whole(c, HF__C_HEAD_DIM, 64, 1);
  if (c->result != MIRAS_OK) return 0;
  d->heads = hf__config_share(c, HF__C_HEAD_DIM, (double)d->width / size);
  if (c->result != MIRAS_OK || !hf__describe_rwkv(c, d, ranks, 0) ||
      !hf__config_rank(c, HF__C_DECAY_RANK, l->rwkv.decay_rank) ||
      !hf__config_rank(c, HF__C_RATE_RANK, l->rwkv.rate_rank) ||
      !hf__config_rank(c, HF__C_OUT_RANK, l->mixer.out_gate_rank) ||
      !hf__config_rank(c, HF__C_VALUE_RANK, l->rwkv.value_rank)) return 0;
  d->norm_epsilon = (float)hf__config_of(c, HF__C_EPSILON, 1e-5);
  d->layer[0].memory.key_dim = size;
  d->untied = hf__config_of(c, HF__C_TIED, 0) < 1;
  return 1;
}

static const hf__family gg__families[] = {
  {"llama", "", "blk.", "rope_freqs.weight", gg__describe_llama, HF__NAMES(gg__llama_names),
   HF__NAMES(gg__says_llama)},
  {"mamba", "", "blk.", "", gg__describe_mamba, HF__NAMES(gg__mamba_names),
   HF__NAMES(gg__says_mamba)},
  {"mamba2", "", "blk.", "", gg__describe_mamba2, HF__NAMES(gg__mamba2_names),
   HF__NAMES(gg__says_mamba2)},
  {"jamba", "", "blk.", "", gg__describe_jamba, HF__NAMES(gg__jamba_names),
   HF__NAMES(gg__says_jamba)},
  {"rwkv7", "", "blk.", "blk.0.time_mix_v0 blk.0.time_mix_v1 blk.0.time_mix_v2",
   gg__describe_rwkv7, HF__NAMES(gg__rwkv7_names), HF__NAMES(gg__says_rwkv7)},
  {"qwen3next", "", "blk.", "", gg__describe_qwen, HF__NAMES(gg__qwen_names),
   HF__NAMES(gg__says_qwen)},
  {"qwen35", "", "blk.", "", gg__describe_qwen, HF__NAMES(gg__qwen_names),
   HF__NAMES(gg__says_qwen)},
  {"qwen35moe", "", "blk.", "", gg__describe_qwen, HF__NAMES(gg__qwen_names),
   HF__NAMES(gg__says_qwen)}
};

/* ---- from fields to a configuration ---- */

/* The text of a key that has one; NULL: it has none. */
static const char *gg__text_of(const gg__head *h, const char *key, char *text) {
  const gg__pair *p = gg__pair_named(h, key, strlen(key));
  const unsigned char *at = p ? p->at : NULL;
  if (!p || p->list || p->type != GG__TEXT) return NULL;
  gg__say_item(p, 0, &at, text);
  return text;
}

/* Find the architecture, and that this is a model of it and all of it. */
static int gg__family_find(gg__head *h) {
  hf__reader *c = h->c;
  const char *arch, *type;
  const gg__pair *split = gg__pair_named(h, "split.count", 11);
  char text[HF__NAME_SIZE];
  size_t i;
  type = gg__text_of(h, "general.type", text);
  if (type && !hf__same(type, "model")) {
    hf__reject(c, MIRAS_ERR_DESC, c->config_name);
    hf__say(c->why, c->why_size, "general.type is %s; known here: model", type);
    return 0;
  }
  if (split && split->type != GG__TEXT && split->count && gg__number(split, 0) > 1)
    return hf__reject_as(c, MIRAS_ERR_DESC, c->config_name,
                         "it is one of several files of a model; llama-gguf-split --merge makes "
                         "one of them");
  arch = gg__text_of(h, "general.architecture", text);
  if (!arch)
    return hf__reject_as(c, MIRAS_ERR_FORMAT, c->config_name, "general.architecture is missing");
  for (i = 0; i < HF__COUNT(gg__families); i++)
    if (hf__same(gg__families[i].models, arch)) {
      c->of = &gg__families[i];
      c->says = c->of->says;
      c->says_count = c->of->says_count;
      return 1;
    }
  hf__reject(c, MIRAS_ERR_DESC, c->config_name);
  hf__say(c->why, c->why_size, "general.architecture is %s; known here:", arch);
  for (i = 0; i < HF__COUNT(gg__families); i++)
    hf__say(c->why, c->why_size, " %s", gg__families[i].models);
  return 0;
}

/* Take a list of the architecture. */
static void gg__config_list(hf__reader *c, const gg__pair *p, const char *name) {
  const hf__field *row = hf__config_row(c, name);
  const unsigned char *at = p->at;
  char text[HF__NAME_SIZE];
  size_t i;
  if (!row) {
    hf__config_unknown(c, name, "a list");
  } else if (hf__listed(row->says, "list")) {
    for (i = 0; i < p->count && c->result == MIRAS_OK; i++) {
      const int quoted = gg__say_item(p, i, &at, text);
      hf__config_item(c, row, name, i < MIRAS_MAX_LAYERS ? (int)i : MIRAS_MAX_LAYERS, text, quoted);
    }
  } else if (!hf__listed(row->says, "any")) {
    hf__reject(c, MIRAS_ERR_DESC, c->config_name);
    hf__say(c->why, c->why_size, "%s is a list; known here: %s", name, row->says);
  }
}

/* Take the fields of the architecture. */
static int gg__config_read(gg__head *h) {
  hf__reader *c = h->c;
  char name[HF__NAME_SIZE], text[HF__NAME_SIZE];
  size_t i, n;
  if (!gg__family_find(h)) return 0;
  n = strlen(c->of->models);
  for (i = 0; i < h->count && c->result == MIRAS_OK; i++) {
    const gg__pair *p = &h->pairs[i];
    const unsigned char *at = p->at;
    if (p->length <= n + 1 || memcmp(p->key, c->of->models, n) != 0 || p->key[n] != '.') continue;
    memcpy(name, p->key + n + 1, p->length - n - 1);
    name[p->length - n - 1] = 0;
    if (hf__config_ignored(c, name)) continue;
    if (p->list) {
      gg__config_list(c, p, name);
    } else {
      const int quoted = gg__say_item(p, 0, &at, text);
      hf__config_scalar(c, name, text, quoted);
    }
  }
  gg__tell(c, HF__C_TIED, !hf__tensor_named(c, "output.weight"));
  return c->result == MIRAS_OK && hf__config_left(c);
}

/* ---- the public calls ---- */

MIRAS_API int miras_gguf_is(const char *path) {
  FILE *file = path ? hf__file_read(path) : NULL;
  char magic[4] = "";
  const int is = file && fread(magic, 1, 4, file) == 4 && memcmp(magic, "GGUF", 4) == 0;
  if (file) fclose(file);
  return is;
}

MIRAS_API miras_result miras_gguf_desc(miras_model_desc *d, const char *path, const char *ignored,
                                       const miras_allocator *allocator, char *why,
                                       size_t why_size) {
  hf__reader *c;
  gg__head h;
  if (!d || !path) return MIRAS_ERR_ARGUMENT;
  c = hf__reader_new(allocator, why, why_size);
  if (!c) return MIRAS_ERR_ALLOC;
  if (gg__head_open(&h, c, path, allocator, d->limit, ignored, why, why_size) &&
      gg__config_read(&h))
    hf__desc_fill(c, d);
  return hf__reader_drop(c);
}

MIRAS_API miras_result miras_gguf_load(miras_model *m, const char *path, const char *ignored,
                                       const miras_allocator *allocator, char *why,
                                       size_t why_size) {
  const miras_model_desc *d = miras_model_desc_of(m);
  hf__reader *c;
  gg__head h;
  if (!m || !path) return MIRAS_ERR_ARGUMENT;
  c = hf__reader_new(allocator, why, why_size);
  if (!c) return MIRAS_ERR_ALLOC;
  if (gg__head_open(&h, c, path, allocator, d->limit, ignored, why, why_size) &&
      gg__config_read(&h))
    hf__model_fill(c, m, d);
  return hf__reader_drop(c);
}

MIRAS_API miras_model *miras_gguf_open(const miras_model_desc *d, const char *path,
                                       const char *ignored, const miras_allocator *allocator,
                                       char *why, size_t why_size) {
  miras_model *m;
  if (why && why_size) why[0] = 0;
  if (!d || !path) return NULL;
  m = miras_model_open_empty(d, allocator, why, why_size);
  if (!m || miras_gguf_load(m, path, ignored, allocator, why, why_size) == MIRAS_OK) return m;
  miras_close(m);
  return NULL;
}

struct miras_gguf {
  hf__reader c;
  gg__head h;
};

MIRAS_API miras_gguf *miras_gguf_read(const char *path, const miras_allocator *allocator, char *why,
                                      size_t why_size) {
  const miras_allocator from = hf__allocator(allocator);
  miras_gguf *g;
  if (why && why_size) why[0] = 0;
  if (!path) return NULL;
  g = (miras_gguf *)from.alloc(sizeof *g, from.user);
  if (!g) {
    hf__say(why, why_size, "room: the allocator returned no memory");
    return NULL;
  }
  if (gg__head_open(&g->h, &g->c, path, allocator, 0, NULL, why, why_size)) return g;
  hf__reader_close(&g->c);
  if (from.free) from.free(g, sizeof *g, from.user);
  return NULL;
}

MIRAS_API void miras_gguf_close(miras_gguf *g) {
  miras_allocator from;
  if (!g) return;
  from = g->c.from;
  g->c.why = NULL;                   /* the caller's, who may have it no more */
  hf__reader_close(&g->c);
  if (from.free) from.free(g, sizeof *g, from.user);
}

MIRAS_API const char *miras_gguf_key(const miras_gguf *g, size_t i, size_t *length) {
  if (!g || i >= g->h.count) return NULL;
  if (length) *length = g->h.pairs[i].length;
  return g->h.pairs[i].key;
}

MIRAS_API size_t miras_gguf_texts(const miras_gguf *g, const char *key, const char **text,
                                  size_t *length, size_t room) {
  const gg__pair *p = g && key ? gg__pair_named(&g->h, key, strlen(key)) : NULL;
  const unsigned char *at;
  size_t i;
  if (!p || p->type != GG__TEXT) return 0;
  for (i = 0, at = p->at; i < p->count && i < room; i++) {
    const size_t n = (size_t)hf__get64(at);
    if (text) text[i] = (const char *)at + 8;
    if (length) length[i] = n;
    at += 8 + n;
  }
  return p->count;
}

MIRAS_API size_t miras_gguf_wholes(const miras_gguf *g, const char *key, int32_t *to, size_t room) {
  const gg__pair *p = g && key ? gg__pair_named(&g->h, key, strlen(key)) : NULL;
  size_t i;
  if (!p || p->type == GG__TEXT || p->type == GG__F32 || p->type == GG__F64) return 0;
  for (i = 0; i < p->count; i++) {
    const double x = gg__number(p, i);
    if (x < -2147483648.0 || x > 2147483647.0) return 0;
    if (to && i < room) to[i] = (int32_t)x;
  }
  return p->count;
}

MIRAS_API size_t miras_gguf_reals(const miras_gguf *g, const char *key, float *to, size_t room) {
  const gg__pair *p = g && key ? gg__pair_named(&g->h, key, strlen(key)) : NULL;
  size_t i;
  if (!p || p->type == GG__TEXT) return 0;
  for (i = 0; to && i < p->count && i < room; i++) to[i] = (float)gg__number(p, i);
  return p->count;
}

MIRAS_API const char *miras_gguf_type(const miras_gguf *g, const char *tensor) {
  const hf__tensor *x = g && tensor ? hf__tensor_named(&g->c, tensor) : NULL;
  return x ? x->type : NULL;
}
#endif /* MIRAS_GGUF_IMPLEMENTATION */
