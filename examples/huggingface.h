/* huggingface.h: open other people's models with miras.h.
 *
 * A companion of miras.h in the same style, over its public calls alone. In one C file:
 *
 *     #define MIRAS_IMPLEMENTATION
 *     #include "miras.h"
 *     #define MIRAS_HUGGINGFACE_IMPLEMENTATION
 *     #include "huggingface.h"
 *
 * and elsewhere the two without the macros.
 *
 *     miras_model_desc d = {0};
 *     char why[256];
 *     miras_model *m;
 *     if (miras_checkpoint_desc(&d, "folder", NULL, NULL, why, sizeof why)) return puts(why), 1;
 *     m = miras_checkpoint_open(&d, "folder", NULL, NULL, why, sizeof why);
 *
 * A model is a folder as Hugging Face has them: config.json and model.safetensors, or several files
 * of tensors and model.safetensors.index.json. The table hf__families has the families:
 * flash-linear-attention's DeltaNet, Gated DeltaNet, Gated DeltaProduct, GLA, RetNet, linear
 * attention, HGRN, HGRN2, GSA, KDA, PKDA, PGDN, also with attention in some of their layers, and
 * its RWKV-6, RWKV-7, Samba and Transformer; RWKV-7, RWKV-6 and RWKV-4 as their author writes them,
 * RWKV-4 also as Hugging Face does; Falcon Mamba; Mamba and Mamba-2 as Hugging Face,
 * flash-linear-attention and their authors have them; TTT; Qwen3-Next and Qwen3.5; Falcon-H1,
 * Granite 4 (granitemoehybrid), Bamba, Jamba, LFM2 and OLMo Hybrid; RecurrentGemma (Griffin);
 * Llama. Angles of rotary positions may be scaled: rope_type linear, yarn or llama3.
 *
 * Headers, places, shapes, names and every field of the configuration are checked before the first
 * number is written. A field that a family does not have is refused, for it may change every
 * number, unless it is null or the caller names it in `ignored`. Tensors that no model needs may
 * have any name, type and shape. Then tensors are read some lines at a time, transposed, widened
 * from F16 or BF16 and rounded to the weights of the model. All memory that reading takes counts
 * against d->limit. The files must stay as they are while they are read.
 *
 * The licence is that of miras.h. */
#ifndef MIRAS_HUGGINGFACE_H
#define MIRAS_HUGGINGFACE_H

#ifndef MIRAS_H
  #error "include miras.h before huggingface.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Describe the model at `path`, a folder or one file of tensors with config.json beside it, in d.
 * limit and weights of d stay as they are: set them before. Fields of config.json in `ignored`, a
 * list with blanks or commas between, count as not there: for fields that you know to change
 * nothing; NULL: none. A name that config.json does not have is refused (of the first 64). The word
 * `unknown` stands for all fields that are not known here of its model_type: on success why, else
 * empty, says which these were. allocator NULL: malloc. Returns MIRAS_OK, or an error, and then why
 * (may be NULL) receives a sentence that names the file, the fields or the tensor; 1,024 characters
 * hold any. No weight is read: what that takes is a table of the tensors and the index, some 500
 * bytes for each, and the longest header. */
MIRAS_API miras_result miras_checkpoint_desc(miras_model_desc *d, const char *path,
                                             const char *ignored,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size);
/* Load the tensors at `path` into m, a model of that descriptor; windows of attention, dropout,
 * seed, resets and what the head learns (adapt) may differ, and it may have adapters, which stay as
 * they are. All is checked first, and then read piece by piece: when a disk fails meanwhile, m
 * holds a mixture, which MIRAS_ERR_IO says. Room is allocated as to describe it, and for 32 columns
 * of the highest matrix. */
MIRAS_API miras_result miras_checkpoint_load(miras_model *m, const char *path, const char *ignored,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size);
/* Open a model by d, as miras_checkpoint_desc has filled it, and load its tensors. NULL, and why in
 * words. */
MIRAS_API miras_model *miras_checkpoint_open(const miras_model_desc *d, const char *path,
                                             const char *ignored,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size);

#ifdef __cplusplus
}
#endif
#endif /* MIRAS_HUGGINGFACE_H */

#if defined(MIRAS_HUGGINGFACE_IMPLEMENTATION) && !defined(HF__IMPLEMENTED)
#define HF__IMPLEMENTED

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
  #include <wchar.h>
#elif defined(__unix__) || defined(__APPLE__)
  #include <sys/types.h>
  #include <sys/stat.h>
#endif
#ifndef MIRAS_ASSERT
  #include <assert.h>
  #define MIRAS_ASSERT(x) assert(x)
#endif

/* C libraries differ in these, so strict builds take miras.h's. */
#ifndef MIRAS_STRICT
  #define hf__exp exp
  #define hf__log log
#elif defined(MIRAS__IMPLEMENTED)
  #define hf__exp miras__exp
  #define hf__log miras__log
#else
  #error "MIRAS_STRICT: put the implementation of miras.h before this one, into the same file"
#endif
#ifndef MIRAS_MALLOC
  #define MIRAS_MALLOC(bytes) malloc(bytes)
  #define MIRAS_FREE(pointer) free(pointer)
#endif

/* How a folder becomes a model:
 *
 *   open      config.json into numbers (hf__config_slots); the headers of all files into a table of
 *             tensors
 *   describe  what a family calls its layers, as a descriptor: a function per family
 *   match     rows of the family's table (hf__name_row) say which tensor belongs into which view
 *             and how it lies there. A first pass finds all pieces of all views and refuses what
 *             does not fit; a second one reads and writes
 *
 * A row whose view the model has not got is passed over, and so is one whose tensor the files have
 * not got: so one table serves all dialects of a family. In the end every view must be full and
 * every tensor used up, or one of them is named.
 *
 * Matrices in the files are [out, in] and those of miras.h [in, out]; [channels, 1, taps] of a
 * convolution is [taps, channels] there. Matrices are transposed unless the row says otherwise.
 * Several tensors may fill a view, from its first column on, and several views may share the rows
 * of a tensor, in the order of the table. Views are written by 64 lines that a product sums over
 * where each is whole in its tensor, else by tiles of 32 columns, which are whole blocks of Q8, or
 * of one row. */

/* ---- numbers and text ---- */

#define HF__COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Append to why, which is always terminated; why may be NULL. */
#if defined(__MINGW32__) && !defined(__clang__)   /* whose printf is that of another C library */
__attribute__((format(gnu_printf, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static void hf__say(char *why, size_t size, const char *format, ...) {
  const size_t at = why && size ? strlen(why) : 0;
  va_list list;
  if (!why || at + 1 >= size) return;
  va_start(list, format);
  vsnprintf(why + at, size - at, format, list);
  va_end(list);
}

static int hf__same(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return *a == *b;
}

enum { HF__WORD = 48 };   /* room for a word of any table, a field or a family */

/* The next word of a list with blanks between into word[HF__WORD]; 0 at the list's end. */
static int hf__next_word(char *word, const char **text) {
  const char *from = *text;
  int n = 0;
  while (*from == ' ') from++;
  for (; *from && *from != ' '; from++)
    if (n < HF__WORD - 1) word[n++] = *from;
  word[n] = 0;
  *text = from;
  return n > 0;
}

/* The finaliser of splitmix64 (Steele, Lea and Flood 2014): a bijection that mixes all 64 bits. */
static uint64_t hf__hash(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static uint32_t hf__get32(const unsigned char *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t hf__get64(const unsigned char *p) {
  return (uint64_t)hf__get32(p) | (uint64_t)hf__get32(p + 4) << 32;
}

static int hf__is_digit(int c) { return c >= '0' && c <= '9'; }

/* An unsigned number, digits without a leading zero: the place behind it, or NULL for none. */
static const char *hf__scan_whole(const char *at, const char *end, uint64_t *x) {
  const char *start = at;
  uint64_t n = 0;
  for (; at < end && hf__is_digit(*at); at++) {
    const unsigned digit = (unsigned)*at - '0';
    if (n > (UINT64_MAX - digit) / 10) return NULL;
    n = 10 * n + digit;
  }
  *x = n;
  return at > start && (*start != '0' || at == start + 1) ? at : NULL;
}

/* The whole text as a float, JSON's grammar; beyond all floats the largest. Computed in double with
 * an error far below half a float's last place, so that any float written with 9 digits or more
 * comes back exactly. */
static int hf__read_real(const char *text, float *x) {
  uint64_t digits = 0;
  double value, power = 1;
  const int minus = *text == '-';
  const char *start = text + minus;
  int exponent = 0, shift = 0, places = 0;
  for (text = start; hf__is_digit(*text) || (*text == '.' && !places && text > start); text++) {
    if (*text == '.') {
      places = 1;
    } else if (digits < UINT64_MAX / 10 - 1) {
      digits = 10 * digits + (uint64_t)(*text - '0');
      exponent -= places;
    } else {
      exponent += !places;
    }
  }
  if (text == start || text[-1] == '.' || (*start == '0' && hf__is_digit(start[1]))) return 0;
  if (*text == 'e' || *text == 'E') {
    const int down = text[1] == '-';
    text += 1 + (down || text[1] == '+');
    if (!hf__is_digit(*text)) return 0;
    for (; hf__is_digit(*text); text++)
      if (shift < 1000) shift = 10 * shift + (*text - '0');
    exponent += down ? -shift : shift;
  }
  if (*text) return 0;
  value = (double)digits;
  for (shift = exponent < 0 ? -exponent : exponent; digits && shift && power <= DBL_MAX; shift--)
    power *= 10;
  value = exponent < 0 ? value / power : value * power;
  /* halfway from FLT_MAX to 2^128: from here on the nearest float would be infinite */
  if (!(value < 3.4028235677973366e38)) value = (double)FLT_MAX;
  *x = (float)(minus ? -value : value);
  return 1;
}

/* ---- reading JSON ---- */

/* A cursor. After a violation, bad is 1 and at is end, so every loop runs out. */
typedef struct hf__cursor {
  const char *at, *end;
  const char *wrong;     /* of a tensor, if that is what is bad                                   */
  int bad;
} hf__cursor;

#define HF__NAME_SIZE 128   /* names and values that are known have at most 127 characters */

static int hf__refuse(hf__cursor *t) {
  t->bad = 1;
  t->at = t->end;
  return 0;
}

/* The same, and why; the first reason counts. */
static int hf__refuse_for(hf__cursor *t, const char *why) {
  if (!t->wrong) t->wrong = why;
  return hf__refuse(t);
}

static void hf__skip_space(hf__cursor *t) {
  while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r'))
    t->at++;
}

/* After white space: skip c and return 1, or return 0 and leave it there. */
static int hf__take_char(hf__cursor *t, int c) {
  hf__skip_space(t);
  if (t->at == t->end || *t->at != c) return 0;
  t->at++;
  return 1;
}

static int hf__need_char(hf__cursor *t, int c) {
  return hf__take_char(t, c) || hf__refuse(t);
}

/* The place in a list of the next character, which must be in it. */
static int hf__need_one_of(hf__cursor *t, const char *list) {
  const char *at = t->at < t->end && *t->at ? strchr(list, *t->at) : NULL;
  if (!at) return hf__refuse(t);
  t->at++;
  return (int)(at - list);
}

/* Where a string goes: its first characters into to[HF__NAME_SIZE], and of all of them the last
 * ones and a hash. */
enum { HF__LAST = 48 };

typedef struct hf__sink {
  char *to, last[HF__LAST];
  size_t size;                       /* characters so far                                         */
  uint64_t hash;
} hf__sink;

static void hf__put(hf__sink *s, unsigned byte) {
  if (s->size < HF__NAME_SIZE) s->to[s->size] = (char)byte;
  s->last[s->size++ % HF__LAST] = (char)byte;
  s->hash = hf__hash(s->hash ^ byte);
}

/* A character as UTF-8. One that a terminal would act on, and half of a pair, stay an escape, and
 * so a backslash is two. */
static void hf__put_character(hf__sink *s, unsigned c) {
  int i, more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  if (c < 0x20 || c == 0x7f || (c >= 0xd800 && c < 0xe000)) {
    hf__put(s, '\\');
    hf__put(s, 'u');
    for (i = 12; i >= 0; i -= 4) hf__put(s, (unsigned char)"0123456789abcdef"[c >> i & 15]);
    return;
  }
  if (c == '\\') hf__put(s, c);
  hf__put(s, more ? (0x780u >> more & 0xff) | c >> 6 * more : c);
  while (more--) hf__put(s, 0x80u | (c >> 6 * more & 0x3f));
}

static unsigned hf__need_hex(hf__cursor *t) {
  unsigned c = 0;
  int i;
  for (i = 0; i < 4; i++)
    c = c << 4 | (unsigned)(hf__need_one_of(t, "0123456789abcdef0123456789ABCDEF") & 15);
  return c;
}

/* The character behind a backslash. */
static unsigned hf__need_escape(hf__cursor *t) {
  const int escape = hf__need_one_of(t, "\"\\/bfnrtu");
  unsigned c = escape == 8 ? hf__need_hex(t) : (unsigned char)"\"\\/\b\f\n\r\t"[escape], low;
  hf__cursor next = *t;
  if (c < 0xd800 || c > 0xdbff || next.end - next.at < 6 || memcmp(next.at, "\\u", 2) != 0)
    return c;
  next.at += 2;
  low = hf__need_hex(&next);
  if (next.bad || low < 0xdc00 || low > 0xdfff) return c;
  *t = next;
  return 0x10000 + (c - 0xd800) * 0x400 + (low - 0xdc00);
}

/* A string, decoded, into out[HF__NAME_SIZE]: 1. A string of more than 127 bytes leaves its
 * beginning and its end there, and between them a hash of all of it, so that others stay others:
 * 0. */
static int hf__need_string(hf__cursor *t, char *out) {
  hf__sink s;
  size_t i, at;
  memset(&s, 0, sizeof s);
  s.to = out;
  hf__need_char(t, '"');
  while (t->at < t->end && *t->at != '"') {
    const unsigned c = (unsigned char)*t->at++;
    if (c < 0x20) hf__refuse(t);
    if (c == '\\') hf__put_character(&s, hf__need_escape(t));
    else if (c < 0x80) hf__put_character(&s, c);
    else hf__put(&s, c);
  }
  hf__need_char(t, '"');
  if (s.size < HF__NAME_SIZE) {
    out[s.size] = 0;
    return 1;
  }
  at = HF__NAME_SIZE - 1 - HF__LAST;
  for (i = 0; i < HF__LAST; i++) out[at + i] = s.last[(s.size + i) % HF__LAST];
  out[HF__NAME_SIZE - 1] = 0;
  out[--at] = '~';
  for (i = 0; i < 16; i++) out[--at] = "0123456789abcdef"[s.hash >> 4 * i & 15];
  out[--at] = '~';
  return 0;
}

/* Two whole numbers in brackets. */
static void hf__need_range(hf__cursor *t, uint64_t *range) {
  int i;
  for (i = 0; i < 2; i++) {
    hf__need_char(t, i ? ',' : '[');
    hf__skip_space(t);
    t->at = hf__scan_whole(t->at, t->end, &range[i]);
    if (!t->at) hf__refuse(t);
  }
  hf__need_char(t, ']');
}

/* ---- files ---- */

#ifdef _WIN32
enum { HF__WIDE_PATH = 1024 };

/* The characters of a path, which is UTF-8, as UTF-16 into to[HF__WIDE_PATH]; 0 if it is not, or
 * too long. */
static int hf__wide_path(wchar_t *to, const char *path) {
  const unsigned char *p = (const unsigned char *)path;
  static const uint32_t least[4] = {0, 0x80, 0x800, 0x10000};
  size_t n = 0;
  while (*p) {
    uint32_t c = *p++;
    const int more = c < 0x80 ? 0 : c < 0xc2 ? -1 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : -1;
    int i;
    if (more < 0 || n + 3 > HF__WIDE_PATH) return 0;
    if (more) c &= 0x3fu >> more;
    for (i = 0; i < more; i++, p++) {
      if ((*p & 0xc0) != 0x80) return 0;
      c = c << 6 | (*p & 0x3fu);
    }
    if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 0;
    if (c >= 0x10000) {
      to[n++] = (wchar_t)(0xd7c0 + (c >> 10));
      c = 0xdc00 + (c & 0x3ff);
    }
    to[n++] = (wchar_t)c;
  }
  to[n] = 0;
  return 1;
}
#endif

/* Open a file to read; its path is UTF-8 on Windows too. A FIFO would keep the caller waiting, and
 * other files that are not regular have no length: NULL, where the system tells of them. */
static FILE *hf__file_read(const char *path) {
#if defined(_WIN32)
  wchar_t wide[HF__WIDE_PATH];
  if (hf__wide_path(wide, path)) return _wfopen(wide, L"rb");
#elif defined(__unix__) || defined(__APPLE__)
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return NULL;
#endif
  return fopen(path, "rb");
}

/* Where long has 32 bits, files have more bytes than it counts, and go on where one step ends. */
#ifndef HF__SEEK_STEP
  #define HF__SEEK_STEP LONG_MAX
#endif

static int hf__file_seek(FILE *file, uint64_t at) {
#ifdef _WIN32
  return at < UINT64_MAX / 2 && _fseeki64(file, (long long)at, SEEK_SET) == 0;
#else
  int from = SEEK_SET;
  do {
    const long step = at < (uint64_t)HF__SEEK_STEP ? (long)at : (long)HF__SEEK_STEP;
    if (fseek(file, step, from) != 0) return 0;
    at -= (uint64_t)step;
    from = SEEK_CUR;
  } while (at);
  return 1;
#endif
}

#if !defined(_WIN32) && HF__SEEK_STEP <= 2147483647
/* The length of a file that a long cannot count, by reading single bytes. */
static int hf__long_file(FILE *file, uint64_t *size) {
  uint64_t least = 0, most = HF__SEEK_STEP;   /* bytes that are there, and those that are not */
  for (; hf__file_seek(file, most) && fgetc(file) != EOF; most *= 2) {
    least = most + 1;
    if (most > UINT64_MAX / 4) return 0;
  }
  while (least < most) {
    const uint64_t middle = least + (most - least) / 2;
    if (!hf__file_seek(file, middle) || fgetc(file) == EOF) most = middle;
    else least = middle + 1;
  }
  *size = least;
  return hf__file_seek(file, 0);
}
#endif

/* The length of a file, which then stands at its beginning: 1 on success. A byte read first finds
 * out folders, which open and have an absurd length. */
static int hf__file_size(FILE *file, uint64_t *size) {
#ifdef _WIN32
  long long end = -1;
  if ((fgetc(file) != EOF || !ferror(file)) && _fseeki64(file, 0, SEEK_END) == 0)
    end = _ftelli64(file);
  *size = (uint64_t)end;
  return end >= 0 && _fseeki64(file, 0, SEEK_SET) == 0;
#else
  const long end = (fgetc(file) == EOF && ferror(file)) || fseek(file, 0, SEEK_END) ? -1
                                                                                   : ftell(file);
  *size = (uint64_t)end;
  if (end >= 0 && end < HF__SEEK_STEP) return fseek(file, 0, SEEK_SET) == 0;
  #if HF__SEEK_STEP > 2147483647
  return 0;
  #else
  return hf__long_file(file, size);
  #endif
#endif
}

static void *hf__default_alloc(size_t bytes, void *user) {
  (void)user;
  return MIRAS_MALLOC(bytes);
}

static void hf__default_free(void *pointer, size_t bytes, void *user) {
  (void)bytes;
  (void)user;
  MIRAS_FREE(pointer);
}

static miras_allocator hf__allocator(const miras_allocator *allocator) {
  const miras_allocator standard = {hf__default_alloc, hf__default_free, NULL};
  return allocator && allocator->alloc ? *allocator : standard;
}

enum { HF__MAX_TEXT = 1 << 25,    /* bytes of a header, an index or a configuration               */
       HF__MAX_SHARDS = 1024,
       HF__SENTENCE = 900,        /* of the fields that are not known: with the rest below 1,024  */
       HF__TILE_COLS = 32, HF__TILE_ROW = 4096,
       HF__LINES = 64,            /* lines written at a time: those of a panel in miras.h         */
       HF__READ = 512,           /* numbers read at a time, and ...                               */
       HF__TURNED = 8 };         /* ... so many runs of them that are transposed together         */

/* A tensor of the files. One that no model of miras.h could use may have any type and shape. */
typedef struct hf__tensor {
  char name[HF__NAME_SIZE], type[16];
  uint64_t shape[5], count, at;      /* its numbers; its first byte in its file                   */
  uint64_t taken;                    /* numbers that views have got so far                        */
  int rank, form, file;              /* a rank above 5 is of no shape here; form -1: of its type  */
  unsigned short block, bytes;       /* so many numbers, neighbours of a row, take so many bytes  */
  int alone;                         /* one number of shape [], here [1]                          */
} hf__tensor;

/* The numbers that a configuration may hold, each a slot, whatever its fields are called. */
enum { HF__C_WIDTH, HF__C_LAYERS, HF__C_VOCAB, HF__C_HEADS, HF__C_VALUE_HEADS,
       HF__C_HEAD_DIM, HF__C_EXPAND_K, HF__C_EXPAND_V, HF__C_CONV, HF__C_SHORT_CONV,
       HF__C_INNER, HF__C_RATIO, HF__C_EPSILON, HF__C_TIED, HF__C_GATE,
       HF__C_GATE_FORM, HF__C_NEGATIVE, HF__C_BETA,
       HF__C_KV_HEADS, HF__C_KEY_HEADS, HF__C_KEY_DIM, HF__C_VALUE_DIM, HF__C_THETA,
       HF__C_PARTIAL, HF__C_INTERVAL, HF__C_POSITIONS, HF__C_EXPERTS,
       HF__C_SPARSE_STEP, HF__C_EXPERT, HF__C_SHARED_EXPERT, HF__C_CHOSEN,
       HF__C_CHOSEN_NORM, HF__C_STATE, HF__C_GROUPS, HF__C_EXPAND, HF__C_LOW,
       HF__C_HIGH, HF__C_CHUNK, HF__C_STEP, HF__C_DEEP, HF__C_SHARED, HF__C_PRE,
       HF__C_EXPAND_RATIO, HF__C_LOWER_BOUNDS, HF__C_SAFE, HF__C_STEEPEST,
       HF__C_CLAMP, HF__C_KEYS, HF__C_KEY_FORM, HF__C_ONE_CONV, HF__C_DECAY_RANK,
       HF__C_RATE_RANK, HF__C_OUT_RANK, HF__C_VALUE_RANK, HF__C_VALUES,
       HF__C_PADDED, HF__C_LAYER, HF__C_FLA_NORM, HF__C_NORM_FIRST, HF__C_CONV_BIAS,
       HF__C_BIAS, HF__C_TYPES, HF__C_DENSE,
       HF__C_FORGET, HF__C_STEPS, HF__C_INNER_EPSILON,
       HF__C_MAMBA_TYPES, HF__C_CONV_TYPES, HF__C_POSITION, HF__C_NORMED, HF__C_OUT_BIAS,
       HF__C_SCALING, HF__C_SCALING_BY, HF__C_SCALING_FROM, HF__C_SCALING_LOW, HF__C_SCALING_HIGH,
       HF__C_SCALING_SIZE, HF__C_SPARSE_FROM, HF__C_INTERVAL_FROM, HF__C_KV_TYPES,
       HF__C_INNER_SSM, HF__C_BLOCK_INNER, HF__C_ADJUST, HF__C_INNER_FACTOR, HF__C_MULTIPLE,
       HF__C_CAP, HF__C_BLOCK_TYPES, HF__C_SLIDING_TYPES, HF__C_WINDOW,
       HF__C_PLACED, HF__C_PLACED_HEADS, HF__C_PLACED_KV_HEADS, HF__C_PLACED_BIAS,
       HF__C_PLACED_WINDOW, HF__C_PLACED_THETA,
       /* factors; those of lists one after the other */
       HF__C_EMBED_BY, HF__C_LOGITS_BY, HF__C_LOGITS_OVER, HF__C_BRANCH_BY, HF__C_SCORES_BY,
       HF__C_KEYS_BY, HF__C_ATTENTION_IN_BY, HF__C_ATTENTION_BY, HF__C_SSM_IN_BY, HF__C_SSM_BY,
       HF__C_MLP_BY, HF__C_MLP_DOWN_BY,
       HF__C_PARTS_BY, HF__C_PARTS_END = HF__C_PARTS_BY + 5, HF__CONFIG_SLOTS = HF__C_PARTS_END };

/* Fields of a configuration: their names, what they may say, and what that means. `says` is a list
 * of
 *
 *   number     a number, which the slot gets
 *   positive   one above 0, and finite
 *   null auto  nothing: what the original takes then
 *   any        anything, for it changes no logit of the original
 *   list       a list, whose items are looked at
 *   object     an object, whose members are fields of the same family; those of `attn` have its
 *              name and a dot before theirs
 *   {} or []   one that is empty
 *
 * and of words, numbers and truths that are meant themselves; the slot gets the place among these.
 * Slot -1: those all mean the same; where a field is there for what layers here have not got, it is
 * the value at which it means nothing. Another value is refused with the field's name, and so is a
 * field that a family has not got, unless it is null. */
typedef struct hf__field { const char *names, *says; int slot; } hf__field;

/* The fields of all families. */
static const hf__field hf__says_all[] = {
  {"architectures auto_map _name_or_path name_or_path _commit_hash transformers_version "
   "torch_dtype dtype tokenizer_class prefix return_dict output_attentions output_hidden_states "
   "torchscript use_bfloat16 tf_legacy_loss is_decoder is_encoder_decoder problem_type "
   "task_specific_params finetuning_task id2label label2id num_labels chunk_size_feed_forward "
   "_attn_implementation_autoset attn_implementation _attn_implementation "
   "experts_implementation unsloth_version unsloth_fixed", "any", -1},
  {"bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id decoder_start_token_id "
   "forced_bos_token_id forced_eos_token_id temperature top_k top_p typical_p do_sample num_beams "
   "num_beam_groups num_return_sequences max_length min_length early_stopping length_penalty "
   "repetition_penalty diversity_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
   "output_scores return_dict_in_generate remove_invalid_values bad_words_ids suppress_tokens "
   "begin_suppress_tokens exponential_decay_length_penalty", "any", -1},
  {"initializer_range initializer_cfg use_cache gradient_checkpointing", "any", -1},
  {"add_cross_attention tie_encoder_decoder", "false", -1},
  {"cross_attention_hidden_size", "null", -1},
  {"pruned_heads", "{}", -1},
  {"hidden_size", "positive", HF__C_WIDTH},
  {"num_hidden_layers", "positive", HF__C_LAYERS},
  {"vocab_size", "positive", HF__C_VOCAB},
  {"tie_word_embeddings", "false true", HF__C_TIED}
};

/* The fields of all models of flash-linear-attention. */
#define HF__SAYS_FLA \
  {"attn_mode fuse_norm fuse_cross_entropy fuse_linear_cross_entropy use_l2warp " \
   "max_position_embeddings", "any", -1}, \
  {"attn attnres_block_size", "null", -1}, \
  {"norm_eps", "positive", HF__C_EPSILON}, \
  {"intermediate_size", "positive null", HF__C_INNER}, \
  {"hidden_ratio", "positive null", HF__C_RATIO}
/* Softmax attention that some of its layers have instead. */
#define HF__SAYS_PLACED \
  {"max_position_embeddings", "number null", HF__C_POSITIONS}, \
  {"attn", "object null", HF__C_PLACED}, \
  {"attn.layers", "list", HF__C_DENSE}, \
  {"attn.num_heads", "positive", HF__C_PLACED_HEADS}, \
  {"attn.num_kv_heads", "positive null", HF__C_PLACED_KV_HEADS}, \
  {"attn.qkv_bias", "false true", HF__C_PLACED_BIAS}, \
  {"attn.window_size", "positive null", HF__C_PLACED_WINDOW}, \
  {"attn.rope_theta", "positive", HF__C_PLACED_THETA}
/* The fields of models with a SwiGLU, whose silu(x) = x sigmoid(x) is also called swish. */
#define HF__SAYS_SWIGLU \
  HF__SAYS_FLA, {"fuse_swiglu", "any", -1}, {"hidden_act", "swish silu", -1}, \
  {"norm_first", "false", -1}, \
  {"num_heads", "positive", HF__C_HEADS}

static const hf__field hf__says_gated_deltanet[] = {
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"head_dim", "positive", HF__C_HEAD_DIM},
  {"num_v_heads", "positive null", HF__C_VALUE_HEADS},
  {"expand_v", "positive", HF__C_EXPAND_V},
  {"use_gate", "false true", HF__C_GATE},
  {"output_gate_activation", "silu sigmoid swish", HF__C_GATE_FORM},
  {"use_short_conv", "true", -1},
  {"conv_size", "positive", HF__C_CONV},
  {"allow_neg_eigval", "false true", HF__C_NEGATIVE}
};

static const hf__field hf__says_gated_deltaproduct[] = {
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"head_dim", "positive", HF__C_HEAD_DIM},
  {"expand_v", "positive", HF__C_EXPAND_V},
  {"use_output_gate use_gate", "false true", HF__C_GATE},
  {"use_short_conv", "false true", HF__C_SHORT_CONV},
  {"conv_size", "positive", HF__C_CONV},
  {"use_forget_gate", "false true", HF__C_FORGET},
  {"allow_neg_eigval", "false true", HF__C_NEGATIVE},
  {"num_householder", "positive", HF__C_STEPS}
};

static const hf__field hf__says_delta_net[] = {
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"expand_k", "positive", HF__C_EXPAND_K},
  {"expand_v", "positive", HF__C_EXPAND_V},
  {"use_gate", "false true", HF__C_GATE},
  {"use_beta", "false true", HF__C_BETA},
  {"use_short_conv", "false true", HF__C_SHORT_CONV},
  {"share_conv_kernel", "false true", HF__C_ONE_CONV},
  {"conv_size", "positive", HF__C_CONV},
  {"allow_neg_eigval", "false true", HF__C_NEGATIVE},
  {"use_output_norm", "true", -1},
  {"qk_norm", "l2 sum", HF__C_KEYS},
  {"qk_activation", "silu identity relu elu", HF__C_KEY_FORM}
};

static const hf__field hf__says_gla[] = {
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"expand_k", "positive", HF__C_EXPAND_K},
  {"expand_v", "positive", HF__C_EXPAND_V},
  {"num_kv_heads", "positive null", HF__C_KV_HEADS},
  {"feature_map", "null", -1},
  {"use_output_gate", "false true", HF__C_GATE},
  {"use_short_conv", "false true", HF__C_SHORT_CONV},
  {"share_conv_kernel", "false true", HF__C_ONE_CONV},
  {"conv_size", "positive", HF__C_CONV},
  {"elementwise_affine", "true", -1},
  {"use_gk", "true", -1},
  {"use_gv", "false", -1},
  {"clamp_min", "number null", HF__C_CLAMP},
  {"gate_logit_normalizer", "16", -1},
  {"gate_low_rank_dim", "positive", HF__C_OUT_RANK}
};

static const hf__field hf__says_retnet[] = {
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"expand_k", "positive", HF__C_EXPAND_K},
  {"expand_v", "positive", HF__C_EXPAND_V},
  {"num_kv_heads", "positive null", HF__C_KV_HEADS},
  {"feature_map", "null", -1},
  {"use_output_gate", "false true", HF__C_GATE},
  {"use_short_conv", "false", -1},
  {"share_conv_kernel conv_size", "any", -1},
  {"elementwise_affine", "true", -1}
};

/* Linear attention: of its maps of keys and queries those that have no tensors of their own. */
static const hf__field hf__says_linear_attn[] = {
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"expand_k", "positive", HF__C_EXPAND_K},
  {"expand_v", "positive", HF__C_EXPAND_V},
  {"num_kv_heads", "positive null", HF__C_KV_HEADS},
  {"feature_map", "identity relu elu", HF__C_KEY_FORM},
  {"tie_feature_map_qk", "any", -1},
  {"norm_q norm_k norm_feature_map", "false", -1},
  {"elementwise_affine", "true", -1}
};

static const hf__field hf__says_hgrn2[] = {
  {"num_heads", "positive null", HF__C_HEADS},
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"expand_ratio", "positive null", HF__C_EXPAND_RATIO},
  {"use_lower_bound", "false true", HF__C_LOWER_BOUNDS},
  {"use_short_conv", "false", -1},
  {"share_conv_kernel conv_size", "any", -1},
  {"elementwise_affine", "true", -1}
};

/* HGRN, in whose configurations num_heads is of nothing. */
static const hf__field hf__says_hgrn[] = {
  {"num_heads conv_size", "any", -1},
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"expand_ratio", "positive", HF__C_EXPAND_RATIO},
  {"use_lower_bound", "false true", HF__C_LOWER_BOUNDS},
  {"use_short_conv", "false", -1},
  {"elementwise_affine", "true", -1}
};

/* Gated slot attention. exapnd is what its configuration's own code says; with convolutions
 * activations come twice there. */
static const hf__field hf__says_gsa[] = {
  HF__SAYS_PLACED, HF__SAYS_SWIGLU,
  {"expand_k exapnd_k", "positive", HF__C_EXPAND_K},
  {"expand_v exapnd_v", "positive", HF__C_EXPAND_V},
  {"num_kv_heads", "positive null", HF__C_KV_HEADS},
  {"num_slots", "positive null", HF__C_STATE},
  {"gate_logit_normalizer", "8 16 1", HF__C_GATE_FORM},
  {"feature_map", "swish relu", HF__C_KEY_FORM},
  {"use_short_conv", "false", -1},
  {"elementwise_affine", "true", -1},
  {"use_output_gate use_norm clamp_min clamp_max conv_size share_conv_kernel", "any", -1}
};

#define HF__SAYS_KDA \
  HF__SAYS_PLACED, HF__SAYS_SWIGLU, \
  {"head_dim", "positive", HF__C_HEAD_DIM}, \
  {"num_v_heads", "positive null", HF__C_VALUE_HEADS}, \
  {"expand_v", "positive", HF__C_EXPAND_V}, \
  {"use_short_conv", "false true", HF__C_SHORT_CONV}, \
  {"conv_size", "positive", HF__C_CONV}, \
  {"allow_neg_eigval", "false true", HF__C_NEGATIVE}
#define HF__SAYS_STEEPEST \
  {"safe_gate", "false true", HF__C_SAFE}, {"lower_bound", "number null", HF__C_STEEPEST}
static const hf__field hf__says_kda[] = {HF__SAYS_KDA, HF__SAYS_STEEPEST};

/* Both with preconditioned keys, of which the header has these constants. */
#define HF__SAYS_PRECONDITIONED \
  {"squash_x", "1.5", -1}, {"squash_eps", "1e-6", -1}, \
  {"log_atk_scale_init a_log_init_lower", "any", -1}
static const hf__field hf__says_precond_kda[] = {
  HF__SAYS_KDA, HF__SAYS_STEEPEST, HF__SAYS_PRECONDITIONED
};
static const hf__field hf__says_precond_gated_deltanet[] = {
  HF__SAYS_KDA, {"use_gate", "false true", HF__C_GATE}, HF__SAYS_PRECONDITIONED
};

/* Softmax attention in the same frame. Norms of queries and keys have an epsilon of their own. */
static const hf__field hf__says_transformer[] = {
  {"max_position_embeddings", "positive", HF__C_POSITIONS},
  HF__SAYS_SWIGLU,
  {"num_kv_heads", "positive null", HF__C_KV_HEADS},
  {"qkv_bias", "false true", HF__C_BIAS},
  {"qk_norm", "false", -1},
  {"window_size", "positive null", HF__C_WINDOW},
  {"rope_theta", "positive", HF__C_THETA},
  {"elementwise_affine", "true", -1}
};

/* RWKV-7: the low ranks of its layers follow from the tensors, and where a field says one it must
 * agree. */
static const hf__field hf__says_rwkv7[] = {
  HF__SAYS_FLA,
  {"hidden_act", "sqrelu", -1},
  {"head_dim", "positive null", HF__C_HEAD_DIM},
  {"num_heads", "positive null", HF__C_HEADS},
  {"decay_low_rank_dim", "positive null", HF__C_DECAY_RANK},
  {"a_low_rank_dim", "positive null", HF__C_RATE_RANK},
  {"gate_low_rank_dim", "positive null", HF__C_OUT_RANK},
  {"v_low_rank_dim", "positive null", HF__C_VALUE_RANK},
  {"value_dim", "positive list null", HF__C_VALUES},
  {"norm_first norm_bias", "true", -1}
};

/* RWKV-6, whose ranks must agree likewise. */
static const hf__field hf__says_rwkv6[] = {
  HF__SAYS_FLA,
  {"hidden_act", "sqrelu", -1},
  {"num_heads", "positive", HF__C_HEADS},
  {"expand_k", "positive", HF__C_EXPAND_K},
  {"expand_v", "positive", HF__C_EXPAND_V},
  {"proj_low_rank_dim", "positive", HF__C_RATE_RANK},
  {"gate_low_rank_dim", "positive", HF__C_DECAY_RANK},
  {"norm_first", "false true", HF__C_NORM_FIRST},
  {"norm_bias", "false true", HF__C_BIAS}
};

/* RWKV-4's. rescale_every halves weights and the stream every so many blocks while half precision
 * reads: norms take that away again, up to their epsilons. The last norm's is 1e-5 whatever is
 * said, so that all must be. */
static const hf__field hf__says_rwkv4[] = {
  {"context_length max_position_embeddings rescale_every", "any", -1},
  {"layer_norm_epsilon", "1e-5", -1},
  {"attention_hidden_size", "positive null", HF__C_VALUES},
  {"intermediate_size", "positive null", HF__C_INNER}
};

/* How Mamba and Mamba-2 begin to be trained, and by which code they are computed. */
#define HF__SAYS_MAMBAS \
  {"time_step_min time_step_max time_step_floor time_step_scale time_step_init_scheme dt_min " \
   "dt_max dt_scale dt_init dt_init_scheme dt_init_floor A_init_range conv_init chunk_size " \
   "rescale_prenorm_residual residual_in_fp32 fused_add_norm use_fast_path use_mem_eff_path " \
   "use_mambapy use_falcon_mambapy use_associative_scan fuse_norm fuse_cross_entropy " \
   "fuse_linear_cross_entropy use_l2warp", "any", -1}
/* The fields of both as others than their authors write them. */
#define HF__SAYS_OTHERS \
  HF__SAYS_MAMBAS, \
  {"layer_norm_epsilon norm_eps", "positive", HF__C_EPSILON}, \
  {"state_size", "positive", HF__C_STATE}, \
  {"expand", "positive", HF__C_EXPAND}, \
  {"intermediate_size", "positive", HF__C_INNER}, \
  {"conv_kernel", "positive", HF__C_CONV}, \
  {"use_bias", "false true", HF__C_BIAS}, \
  {"use_conv_bias", "false true", HF__C_CONV_BIAS}, \
  {"hidden_act", "silu swish", -1}
/* The fields of Mamba and of Falcon Mamba; those of its authors that stay in configurations say
 * what others say. */
#define HF__SAYS_MAMBA \
  HF__SAYS_OTHERS, \
  {"rms_norm d_model d_inner n_layer pad_vocab_size_multiple", "any", -1}, \
  {"ssm_cfg", "{}", -1}, \
  {"time_step_rank dt_rank", "positive auto", HF__C_RATE_RANK}

static const hf__field hf__says_mamba[] = {
  HF__SAYS_MAMBA
};

static const hf__field hf__says_falcon_mamba[] = {
  HF__SAYS_MAMBA,
  {"mixer_rms_eps", "positive", HF__C_INNER_EPSILON}
};

/* Samba: Mamba and attention. intermediate_size is Mamba's, whose convolutions have biases whatever
 * use_conv_bias says. */
static const hf__field hf__says_samba[] = {
  HF__SAYS_PLACED,
  HF__SAYS_MAMBAS,
  {"use_conv_bias fuse_swiglu", "any", -1},
  {"attnres_block_size", "null", -1},
  {"norm_eps", "positive", HF__C_EPSILON},
  {"hidden_ratio", "positive null", HF__C_RATIO},
  {"hidden_act", "swish silu", -1},
  {"state_size", "positive", HF__C_STATE},
  {"expand", "positive", HF__C_EXPAND},
  {"intermediate_size", "positive", HF__C_INNER_SSM},
  {"conv_kernel", "positive", HF__C_CONV},
  {"use_bias", "false true", HF__C_BIAS},
  {"time_step_rank", "positive auto", HF__C_RATE_RANK}
};

/* Mamba-2 in two dialects. Norms stand behind the gate in both; Hugging Face's field for that means
 * nothing, that of flash-linear-attention, which goes with rmsnorm, does. */
static const hf__field hf__says_mamba2[] = {
  HF__SAYS_OTHERS,
  {"time_step_rank rms_norm", "any", -1},
  {"num_heads", "positive", HF__C_HEADS},
  {"head_dim", "positive", HF__C_HEAD_DIM},
  {"n_groups", "positive", HF__C_GROUPS},
  {"time_step_limit dt_limit", "list", HF__C_LOW},
  {"rmsnorm", "true", HF__C_FLA_NORM},
  {"norm_before_gate", "false true", HF__C_NORM_FIRST},
  {"D_has_hdim", "false", -1}
};

/* The fields that Mamba and Mamba-2 have in common as their authors write them. */
#define HF__SAYS_AUTHORS \
  HF__SAYS_MAMBAS, \
  {"ssm_cfg", "object", -1}, \
  {"d_model", "positive", HF__C_WIDTH}, \
  {"n_layer", "positive", HF__C_LAYERS}, \
  {"d_state", "positive", HF__C_STATE}, \
  {"expand", "positive", HF__C_EXPAND}, \
  {"d_conv", "positive", HF__C_CONV}, \
  {"pad_vocab_size_multiple", "positive", HF__C_PADDED}, \
  {"tie_embeddings", "false true", HF__C_TIED}, \
  {"d_intermediate", "0", -1}, \
  {"attn_layer_idx", "[] null", -1}, \
  {"attn_cfg", "{} null", -1}, \
  {"rms_norm", "true", -1}, \
  {"bias", "false true", HF__C_BIAS}, \
  {"conv_bias", "false true", HF__C_CONV_BIAS}

static const hf__field hf__says_mamba_author[] = {
  HF__SAYS_AUTHORS,
  {"layer", "Mamba1", HF__C_LAYER},
  {"dt_rank", "positive auto", HF__C_RATE_RANK},
  {"bidirectional", "false", -1}
};

static const hf__field hf__says_mamba2_author[] = {
  HF__SAYS_AUTHORS,
  {"layer", "Mamba2", HF__C_LAYER},
  {"headdim", "positive", HF__C_HEAD_DIM},
  {"ngroups", "positive", HF__C_GROUPS},
  {"dt_limit", "list", HF__C_LOW},
  {"rmsnorm", "true", -1},
  {"norm_before_gate D_has_hdim", "false", -1}
};

static const hf__field hf__says_ttt[] = {
  {"max_position_embeddings pretraining_tp scan_checkpoint_group_size", "any", -1},
  {"num_attention_heads", "positive", HF__C_HEADS},
  {"intermediate_size", "positive", HF__C_INNER},
  {"hidden_act", "silu swish", -1},
  {"rms_norm_eps", "positive", HF__C_EPSILON},
  {"rope_theta", "positive", HF__C_THETA},
  {"mini_batch_size", "positive", HF__C_CHUNK},
  {"ttt_base_lr", "positive", HF__C_STEP},
  {"ttt_layer_type", "linear mlp", HF__C_DEEP},
  {"share_qk", "false true", HF__C_SHARED},
  {"pre_conv", "false true", HF__C_PRE},
  {"use_gate", "false true", HF__C_GATE},
  {"conv_kernel", "positive", HF__C_CONV}
};

/* How angles of rotary positions are scaled. */
#define HF__SAYS_SCALING \
  {"rope_parameters rope_scaling", "object null", -1}, \
  {"rope_type type", "default linear yarn llama3", HF__C_SCALING}, \
  {"factor", "positive", HF__C_SCALING_BY}, \
  {"original_max_position_embeddings", "positive", HF__C_SCALING_FROM}, \
  {"low_freq_factor beta_slow", "positive null", HF__C_SCALING_LOW}, \
  {"high_freq_factor beta_fast", "positive null", HF__C_SCALING_HIGH}, \
  {"attention_factor", "positive null", HF__C_SCALING_SIZE}, \
  {"truncate", "true", -1}

/* Llama, and models of that form. Attention looks back as far as the positions that it was trained
 * for. pretraining_tp shares a product out, and rope_interleaved is of no code. */
static const hf__field hf__says_llama[] = {
  {"num_attention_heads", "positive", HF__C_HEADS},
  {"num_key_value_heads", "positive null", HF__C_KV_HEADS},
  {"head_dim", "positive null", HF__C_HEAD_DIM},
  {"intermediate_size", "positive", HF__C_INNER},
  {"hidden_act", "silu swish", -1},
  {"rms_norm_eps", "positive", HF__C_EPSILON},
  {"max_position_embeddings", "positive", HF__C_POSITIONS},
  {"rope_theta", "positive", HF__C_THETA},
  HF__SAYS_SCALING,
  {"attention_bias mlp_bias", "false", -1},
  {"rope_interleaved", "false", -1},
  {"attention_dropout pretraining_tp is_llama_config transformers.js_config", "any", -1}
};

/* The fields of all of Qwen's models with such layers. Attention looks back as far as the
 * positions that it was trained for. */
#define HF__SAYS_QWEN \
  {"num_attention_heads", "positive", HF__C_HEADS}, \
  {"num_key_value_heads", "positive", HF__C_KV_HEADS}, \
  {"head_dim", "positive", HF__C_HEAD_DIM}, \
  {"hidden_act", "silu swish", -1}, \
  {"rms_norm_eps", "positive", HF__C_EPSILON}, \
  {"attention_bias", "false", -1}, \
  {"attn_output_gate", "true", -1}, \
  {"output_gate_type", "swish silu", -1}, \
  {"use_sliding_window", "false", -1}, \
  {"sliding_window max_window_layers attention_dropout mtp_num_hidden_layers " \
   "mtp_use_dedicated_embeddings mamba_ssm_dtype", "any", -1}, \
  {"max_position_embeddings", "positive", HF__C_POSITIONS}, \
  HF__SAYS_SCALING, \
  {"rope_theta", "positive", HF__C_THETA}, \
  {"partial_rotary_factor", "positive", HF__C_PARTIAL}, \
  {"full_attention_interval", "positive", HF__C_INTERVAL}, \
  {"layer_types", "list null", HF__C_TYPES}, \
  {"linear_num_key_heads", "positive", HF__C_KEY_HEADS}, \
  {"linear_num_value_heads", "positive", HF__C_VALUE_HEADS}, \
  {"linear_key_head_dim", "positive", HF__C_KEY_DIM}, \
  {"linear_value_head_dim", "positive", HF__C_VALUE_DIM}, \
  {"linear_conv_kernel_dim", "positive", HF__C_CONV}
#define HF__SAYS_EXPERTS \
  {"num_experts", "positive 0", HF__C_EXPERTS}, \
  {"moe_intermediate_size", "positive", HF__C_EXPERT}, \
  {"shared_expert_intermediate_size", "positive 0", HF__C_SHARED_EXPERT}, \
  {"num_experts_per_tok", "positive", HF__C_CHOSEN}, \
  {"output_router_logits router_aux_loss_coef", "any", -1}
/* The text half of models for pictures: fields of the other half are passed over, and the places
 * of pictures in a text count as ordinary ones. */
#define HF__SAYS_PICTURES \
  {"text_config", "object", -1}, \
  {"vision_config image_token_id video_token_id vision_start_token_id vision_end_token_id " \
   "language_model_only mrope_section mrope_interleaved", "any", -1}

static const hf__field hf__says_qwen3_next[] = {
  HF__SAYS_QWEN, HF__SAYS_EXPERTS,
  {"intermediate_size", "positive", HF__C_INNER},
  {"norm_topk_prob", "false true", HF__C_CHOSEN_NORM},
  {"decoder_sparse_step", "positive", HF__C_SPARSE_STEP},
  {"mlp_only_layers", "list null", HF__C_DENSE}
};

static const hf__field hf__says_qwen3_5[] = {
  HF__SAYS_QWEN, HF__SAYS_PICTURES,
  {"intermediate_size", "positive", HF__C_INNER},
  {"mlp_only_layers", "[]", -1}
};

static const hf__field hf__says_qwen3_5_moe[] = {
  HF__SAYS_QWEN, HF__SAYS_EXPERTS, HF__SAYS_PICTURES,
  {"intermediate_size", "any", -1},
  {"norm_topk_prob", "true", -1},
  {"mlp_only_layers", "[]", -1}
};

/* What hybrids of Mamba-2 and attention have in common. Factors are above 0. */
#define HF__SAYS_ROPE \
  {"max_position_embeddings", "positive", HF__C_POSITIONS}, \
  HF__SAYS_SCALING, \
  {"rope_theta", "positive", HF__C_THETA}
#define HF__SAYS_HYBRID \
  HF__SAYS_ROPE, \
  {"intermediate_size", "positive", HF__C_INNER}, \
  {"num_attention_heads", "positive", HF__C_HEADS}, \
  {"num_key_value_heads", "positive null", HF__C_KV_HEADS}, \
  {"head_dim", "positive", HF__C_HEAD_DIM}, \
  {"hidden_act", "silu swish", -1}, \
  {"rms_norm_eps", "positive", HF__C_EPSILON}, \
  {"attention_bias mlp_bias", "false", -1}, \
  {"attention_dropout num_logits_to_keep mamba_chunk_size mlp_expansion_factor time_step_rank " \
   "time_step_min time_step_max time_step_floor z_loss_coefficient", "any", -1}, \
  {"mamba_n_heads", "positive", HF__C_VALUE_HEADS}, \
  {"mamba_d_head", "positive auto", HF__C_VALUE_DIM}, \
  {"mamba_n_groups", "positive", HF__C_GROUPS}, \
  {"mamba_d_state", "positive", HF__C_STATE}, \
  {"mamba_d_conv", "positive", HF__C_CONV}, \
  {"mamba_expand", "positive", HF__C_EXPAND}, \
  {"mamba_conv_bias", "false true", HF__C_CONV_BIAS}, \
  {"mamba_proj_bias", "false true", HF__C_BIAS}, \
  {"time_step_limit", "list", HF__C_LOW}

/* Falcon-H1; ssm_multipliers are of gate, values, keys, queries and steps. */
static const hf__field hf__says_falcon_h1[] = {
  HF__SAYS_HYBRID,
  {"mamba_d_ssm", "positive null", HF__C_INNER_SSM},
  {"mamba_norm_before_gate", "false true", HF__C_NORM_FIRST},
  {"mamba_rms_norm", "false true", HF__C_NORMED},
  {"projectors_bias", "false true", HF__C_OUT_BIAS},
  {"mamba_use_mlp", "true", -1},
  {"attn_layer_indices", "null", -1},
  {"embedding_multiplier", "positive", HF__C_EMBED_BY},
  {"lm_head_multiplier", "positive", HF__C_LOGITS_BY},
  {"key_multiplier", "positive", HF__C_KEYS_BY},
  {"attention_in_multiplier", "positive", HF__C_ATTENTION_IN_BY},
  {"attention_out_multiplier", "positive", HF__C_ATTENTION_BY},
  {"ssm_in_multiplier", "positive", HF__C_SSM_IN_BY},
  {"ssm_out_multiplier", "positive", HF__C_SSM_BY},
  {"ssm_multipliers", "list null", HF__C_PARTS_BY},
  {"mlp_multipliers", "list null", HF__C_MLP_BY}
};

static const hf__field hf__says_granitemoehybrid[] = {
  HF__SAYS_HYBRID,
  {"layer_types layers_block_type", "list null", HF__C_MAMBA_TYPES},
  {"position_embedding_type", "rope nope null", HF__C_POSITION},
  {"num_local_experts", "positive 0", HF__C_EXPERTS},
  {"num_experts_per_tok", "positive 0", HF__C_CHOSEN},
  {"shared_intermediate_size", "positive", HF__C_SHARED_EXPERT},
  {"output_router_logits router_aux_loss_coef init_method", "any", -1},
  {"normalization_function", "rmsnorm", -1},
  {"embedding_multiplier", "positive", HF__C_EMBED_BY},
  {"logits_scaling", "positive", HF__C_LOGITS_OVER},
  {"residual_multiplier", "positive", HF__C_BRANCH_BY},
  {"attention_multiplier", "positive", HF__C_SCORES_BY}
};

/* Bamba, half of whose heads turn, whatever a field says. */
static const hf__field hf__says_bamba[] = {
  HF__SAYS_HYBRID,
  {"attn_layer_indices", "list null", HF__C_DENSE},
  {"attn_rotary_emb", "any", -1},
  {"partial_rotary_factor", "0.5", -1}
};

/* LFM2, whose authors have fields that say what others say. */
static const hf__field hf__says_lfm2[] = {
  HF__SAYS_ROPE,
  {"intermediate_size", "positive", HF__C_INNER},
  {"block_ff_dim", "positive", HF__C_BLOCK_INNER},
  {"block_auto_adjust_ff_dim", "false true", HF__C_ADJUST},
  {"block_ffn_dim_multiplier", "positive null", HF__C_INNER_FACTOR},
  {"block_multiple_of", "positive", HF__C_MULTIPLE},
  {"num_attention_heads", "positive", HF__C_HEADS},
  {"num_key_value_heads", "positive", HF__C_KV_HEADS},
  {"head_dim", "positive", HF__C_HEAD_DIM},
  {"norm_eps", "positive", HF__C_EPSILON},
  {"conv_bias", "false true", HF__C_CONV_BIAS},
  {"conv_L_cache", "positive", HF__C_CONV},
  {"full_attn_idxs", "list null", HF__C_DENSE},
  {"layer_types", "list null", HF__C_CONV_TYPES},
  {"tie_embedding", "false true", HF__C_TIED},
  {"block_use_swiglu use_pos_enc", "true", -1},
  {"block_dim block_mlp_init_scale block_norm_eps block_out_init_scale block_use_xavier_init "
   "conv_dim conv_dim_out conv_use_xavier_init num_heads", "any", -1}
};

static const hf__field hf__says_olmo_hybrid[] = {
  {"max_position_embeddings", "positive", HF__C_POSITIONS},
  HF__SAYS_SCALING,
  {"rope_theta", "positive null", HF__C_THETA},
  {"intermediate_size", "positive", HF__C_INNER},
  {"num_attention_heads", "positive", HF__C_HEADS},
  {"num_key_value_heads", "positive null", HF__C_KV_HEADS},
  {"head_dim", "positive", HF__C_HEAD_DIM},
  {"hidden_act", "silu swish", -1},
  {"rms_norm_eps", "positive", HF__C_EPSILON},
  {"attention_bias", "false", -1},
  {"attention_dropout linear_a_log_min linear_a_log_max linear_dt_min linear_dt_max "
   "linear_dt_init_floor", "any", -1},
  {"layer_types", "list null", HF__C_TYPES},
  {"linear_num_key_heads", "positive null", HF__C_KEY_HEADS},
  {"linear_num_value_heads", "positive null", HF__C_VALUE_HEADS},
  {"linear_key_head_dim", "positive null", HF__C_KEY_DIM},
  {"linear_value_head_dim", "positive null", HF__C_VALUE_DIM},
  {"linear_conv_kernel_dim", "positive", HF__C_CONV},
  {"linear_allow_neg_eigval", "false true", HF__C_NEGATIVE},
  {"linear_use_gate", "true", -1}
};

/* RecurrentGemma. Attention looks back as far as its window; kinds of layer are a list for all of
 * them, or one that is repeated. */
static const hf__field hf__says_recurrent_gemma[] = {
  {"intermediate_size", "positive", HF__C_INNER},
  {"num_attention_heads", "positive", HF__C_HEADS},
  {"num_key_value_heads", "positive null", HF__C_KV_HEADS},
  {"head_dim", "positive", HF__C_HEAD_DIM},
  {"lru_width", "positive null", HF__C_INNER_SSM},
  {"attention_window_size sliding_window", "positive", HF__C_POSITIONS},
  {"conv1d_width", "positive", HF__C_CONV},
  {"logits_soft_cap", "positive", HF__C_CAP},
  {"rms_norm_eps", "positive", HF__C_EPSILON},
  {"rope_theta", "positive", HF__C_THETA},
  {"partial_rotary_factor", "positive", HF__C_PARTIAL},
  {"rope_parameters", "object", -1},
  {"rope_type", "default", -1},
  {"hidden_activation hidden_act", "gelu_pytorch_tanh", -1},
  {"attention_bias", "false true", HF__C_BIAS},
  {"block_types _block_types", "list", HF__C_BLOCK_TYPES},
  {"layers_block_type layer_types", "list null", HF__C_SLIDING_TYPES},
  {"attention_dropout w_init_variance_scale final_w_init_variance_scale "
   "max_position_embeddings embeddings_scale_by_sqrt_dim", "any", -1}
};

/* Jamba; of Mamba's fields those with other names. */
static const hf__field hf__says_jamba[] = {
  {"max_position_embeddings", "positive", HF__C_POSITIONS},
  {"intermediate_size", "positive", HF__C_INNER},
  {"num_attention_heads", "positive", HF__C_HEADS},
  {"num_key_value_heads", "positive null", HF__C_KV_HEADS},
  {"head_dim", "positive", HF__C_HEAD_DIM},
  {"hidden_act", "silu swish", -1},
  {"rms_norm_eps", "positive", HF__C_EPSILON},
  {"sliding_window", "null", -1},
  {"attention_dropout num_logits_to_keep output_router_logits router_aux_loss_coef "
   "use_mamba_kernels use_mambapy use_associative_scan calc_logits_for_entire_prompt n_ctx",
   "any", -1},
  {"num_experts num_local_experts", "positive", HF__C_EXPERTS},
  {"num_experts_per_tok", "positive", HF__C_CHOSEN},
  {"expert_layer_period", "positive", HF__C_SPARSE_STEP},
  {"expert_layer_offset", "positive 0", HF__C_SPARSE_FROM},
  {"attn_layer_period", "positive", HF__C_INTERVAL},
  {"attn_layer_offset", "positive 0", HF__C_INTERVAL_FROM},
  {"mamba_d_state", "positive", HF__C_STATE},
  {"mamba_d_conv", "positive", HF__C_CONV},
  {"mamba_expand", "positive", HF__C_EXPAND},
  {"mamba_dt_rank", "positive auto", HF__C_RATE_RANK},
  {"mamba_conv_bias", "false true", HF__C_CONV_BIAS},
  {"mamba_proj_bias", "false true", HF__C_BIAS},
  {"mamba_inner_layernorms", "true", -1}
};

struct hf__family;

typedef struct hf__reader {
  miras_allocator from;
  struct { void *at; size_t bytes; } alloc[24];   /* all that was allocated                       */
  int allocs;
  size_t used;                       /* bytes of all of that, of which there may be `limit`, if
                                        that is not 0                                             */
  uint64_t limit;
  char *why;
  size_t why_size;
  miras_result result;
  char *path;                        /* the folder, and room for a file of it                     */
  size_t folder;                     /* characters of the folder                                  */
  char (*names)[HF__NAME_SIZE];   /* of the files of tensors                                      */
  int files;
  size_t name_room;
  hf__tensor *tensors;
  size_t tensor_count;
  size_t tensor_room;
  size_t *order;                     /* of tensors, by name                                       */
  int family;                        /* -1: not known yet                                         */
  const struct hf__family *of;       /* it, once it is known                                      */
  const hf__field *says;        /* its own fields                                                 */
  const char *config_name;           /* where the fields are: config.json, or another file        */
  const hf__field *common;           /* the fields of all families there                          */
  int common_count;
  const char *readable;              /* types of tensors                                          */
  void (*widen)(float *to, int form, const unsigned char *from, size_t n);   /* whole blocks      */
  size_t (*held)(const hf__tensor *x, miras_weights as);   /* bytes of its blocks in lines that are
                                        held so (miras_model_view_write_lines); 0: they differ    */
  int (*take)(unsigned char *to, const unsigned char *from, size_t blocks);   /* makes such blocks
                                        where their bytes are others; 0: some cannot be           */
  const char *ignored;               /* names of fields, or NULL                                  */
  uint64_t met;                      /* bit i: the file has the field of the list's word i        */
  int passing;                       /* `unknown` is one of its words                             */
  char *unknown;                     /* [HF__SENTENCE] the fields that no row knows, and values   */
  int says_count, author, fla;       /* whether a field told one of these dialects                */
  char root[HF__WORD];               /* what its names begin with                                 */
  double *config;                    /* [HF__CONFIG_SLOTS] each, which are not on the stack       */
  unsigned char *said, *none;        /* a value, null                                             */
  unsigned char *word, *listed;      /* which of its names a field has; a list has been read      */
  char name[HF__WORD];               /* of the field that was asked for last                      */
  unsigned char full[MIRAS_MAX_LAYERS / 8], dense[MIRAS_MAX_LAYERS / 8];   /* a bit for each: it
                                        has attention; it has no experts                        */
  int types, values;                 /* layers of which a list says what they are, how wide       */
  int empty;                         /* a list of numbers that has none                           */
  int groups[2];                     /* of rows: those of key heads, of heads of queries          */
  int tiled;                         /* heads of values lie as HF__TILED says                     */
  int per;                           /* layers here that are one of theirs                        */
  int shared, again;                 /* heads of keys and values that are stored; how many heads
                                        here each of them is                                      */
  int steps;                         /* pairs of a token, each with keys of all heads             */
  struct { const char *name; double by; } factor[12];   /* what all numbers of a row of tensors, or
                                        of views, are times; a view's begins with a dot too       */
  int factors;
  FILE *file;                        /* the one that is open, its number, and where it stands     */
  int open;
  uint64_t stands;
  float *tile;
  unsigned char *raw;                /* lines as a file has them                                  */
  float run[HF__READ * HF__TURNED];   /* numbers as they are read                                */
  size_t tile_room, raw_room;        /* floats of the largest tile, bytes of the most lines       */
} hf__reader;

/* ---- JSON as others write it ---- */

/* Read a number, a literal or a string into out. Returns 1 if it was in quotes. Beside JSON's
 * literals there are Infinity and NaN. */
static int hf__need_scalar(hf__cursor *t, char *out) {
  static const char *const literals[] = {"true", "false", "null", "Infinity", "-Infinity", "NaN"};
  float real;
  size_t n = 0, i = 0;
  hf__skip_space(t);
  if (t->at < t->end && *t->at == '"') {
    hf__need_string(t, out);
    return 1;
  }
  while (t->at < t->end && n < HF__NAME_SIZE - 1 &&
         (hf__is_digit(*t->at) || ((*t->at | 32) >= 'a' && (*t->at | 32) <= 'z') ||
          *t->at == '-' || *t->at == '+' || *t->at == '.'))
    out[n++] = *t->at++;
  out[n] = 0;
  while (i < sizeof literals / sizeof literals[0] && !hf__same(out, literals[i])) i++;
  if (i == sizeof literals / sizeof literals[0] && !hf__read_real(out, &real)) hf__refuse(t);
  return 0;
}

/* Pass over any value. */
static void hf__skip_value(hf__cursor *t, int depth) {
  char text[HF__NAME_SIZE];
  hf__skip_space(t);
  if (depth > 32) {
    hf__refuse(t);
  } else if (t->at < t->end && (*t->at == '{' || *t->at == '[')) {
    const int close = *t->at++ == '{' ? '}' : ']';
    if (hf__take_char(t, close)) return;
    do {
      if (close == '}') {
        hf__need_string(t, text);
        hf__need_char(t, ':');
      }
      hf__skip_value(t, depth + 1);
    } while (hf__take_char(t, ','));
    hf__need_char(t, close);
  } else {
    hf__need_scalar(t, text);
  }
}

/* ---- refusals and room ---- */

/* Refuse: write "NAME: " into why, behind which the caller writes the rest; the name config.json
 * stands for the file that the fields are in. Returns 0. */
static int hf__reject(hf__reader *c, miras_result result, const char *name) {
  if (c->why && c->why_size) c->why[0] = 0;
  c->result = result;
  if (hf__same(name, "config.json")) name = c->config_name;
  hf__say(c->why, c->why_size, "%s: ", name);
  return 0;
}

/* Refuse with a whole sentence. Returns 0. */
static int hf__reject_as(hf__reader *c, miras_result result, const char *name,
                         const char *text) {
  hf__reject(c, result, name);
  hf__say(c->why, c->why_size, "%s", text);
  return 0;
}

static void *hf__alloc(hf__reader *c, size_t count, size_t each) {
  const int fits = count <= (size_t)-1 / each;
  const size_t bytes = fits ? count * each : 0;
  void *at = NULL;
  if (fits && c->limit && (bytes > c->limit || c->used > c->limit - bytes)) {
    hf__reject(c, MIRAS_ERR_SIZE, "room");
    hf__say(c->why, c->why_size, "limit is %zu bytes; reading these files takes %zu more than "
                                    "the %zu so far", (size_t)c->limit, bytes, c->used);
    return NULL;
  }
  if (fits) at = c->from.alloc(bytes, c->from.user);
  if (!at) {
    hf__reject_as(c, MIRAS_ERR_ALLOC, "room", "the allocator returned no memory");
    return NULL;
  }
  MIRAS_ASSERT(c->allocs < (int)HF__COUNT(c->alloc));
  c->used += bytes;
  c->alloc[c->allocs].at = at;
  c->alloc[c->allocs++].bytes = bytes;
  return at;
}

/* Make room for `count` items in an allocated array (or NULL): returns the array itself, or a
 * larger one with the same items; NULL if there is no memory. */
static void *hf__alloc_more(hf__reader *c, void *old, size_t *room,
                            size_t count, size_t each) {
  const size_t wanted = count > 2 * *room ? count : 2 * *room;
  void *at;
  int i = 0;
  if (count <= *room) return old;
  at = hf__alloc(c, wanted, each);
  if (!at || !old) {
    if (at) *room = wanted;
    return at;
  }
  memcpy(at, old, *room * each);
  while (c->alloc[i].at != old) i++;
  c->used -= c->alloc[i].bytes;
  if (c->from.free) c->from.free(old, c->alloc[i].bytes, c->from.user);
  c->alloc[i] = c->alloc[--c->allocs];
  *room = wanted;
  return at;
}

/* Give everything back, and say which fields were passed over. */
static miras_result hf__reader_close(hf__reader *c) {
  if (c->result == MIRAS_OK && c->why && c->why_size) {
    c->why[0] = 0;
    if (c->unknown[0])
      hf__say(c->why, c->why_size, "%s: these fields were ignored: %s", c->config_name,
              c->unknown);
  }
  if (c->file) fclose(c->file);
  while (c->allocs--)
    if (c->from.free) c->from.free(c->alloc[c->allocs].at, c->alloc[c->allocs].bytes, c->from.user);
  return c->result;
}

/* A reader, which is too large for a stack; NULL: there is no memory. */
static hf__reader *hf__reader_new(const miras_allocator *allocator, char *why, size_t why_size) {
  const miras_allocator from = hf__allocator(allocator);
  hf__reader *c = (hf__reader *)from.alloc(sizeof *c, from.user);
  if (why && why_size) why[0] = 0;
  if (!c) hf__say(why, why_size, "room: the allocator returned no memory");
  return c;
}

/* Close it, and give it back too. */
static miras_result hf__reader_drop(hf__reader *c) {
  const miras_allocator from = c->from;
  const miras_result result = hf__reader_close(c);
  if (from.free) from.free(c, sizeof *c, from.user);
  return result;
}

/* Open a file of the folder and find its length. A file that is not needed may be missing: NULL
 * without a refusal. */
static FILE *hf__folder_open(hf__reader *c, const char *name, int needed,
                                            uint64_t *size) {
  FILE *file;
  memcpy(c->path + c->folder, name, strlen(name) + 1);
  file = hf__file_read(c->path);
  if (file && hf__file_size(file, size)) return file;
  if (file) fclose(file);
  if (file || needed) hf__reject_as(c, MIRAS_ERR_IO, name, "it cannot be opened");
  return NULL;
}

/* Read the next `size` bytes of a file as a text, into at, and point a cursor at it, behind a mark
 * of UTF-8. */
static int hf__text_read(hf__reader *c, const char *name, FILE *file,
                                        uint64_t size, char *at, hf__cursor *t) {
  memset(t, 0, sizeof *t);
  if (fread(at, 1, (size_t)size, file) != (size_t)size)
    return hf__reject_as(c, MIRAS_ERR_IO, name, "it cannot be read");
  t->at = at;
  t->end = at + (size_t)size;
  if (size >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) t->at += 3;
  if (size >= 2 && (memcmp(at, "\xff\xfe", 2) == 0 || memcmp(at, "\xfe\xff", 2) == 0))
    return hf__reject_as(c, MIRAS_ERR_FORMAT, name, "it is UTF-16; it must be UTF-8");
  return 1;
}

/* Read a whole text of the folder. Returns 0 if it is refused, or if it is not there and not
 * needed. */
static int hf__text_of(hf__reader *c, const char *name, int needed,
                                      hf__cursor *t) {
  uint64_t size = 0;
  FILE *file = hf__folder_open(c, name, needed, &size);
  char *at = NULL;
  int ok = 0;
  if (!file) return 0;
  if (size > HF__MAX_TEXT) hf__reject_as(c, MIRAS_ERR_FORMAT, name, "it is too long");
  else at = (char *)hf__alloc(c, (size_t)size + 1, 1);
  if (at) ok = hf__text_read(c, name, file, size, at, t);
  fclose(file);
  return ok;
}

/* Is name one of a list's words? */
static int hf__listed(const char *list, const char *name) {
  char word[HF__WORD];
  while (hf__next_word(word, &list))
    if (hf__same(word, name)) return 1;
  return 0;
}

/* Does a name begin with one of a list's words? */
static int hf__begins(const char *list, const char *name) {
  char word[HF__WORD];
  while (hf__next_word(word, &list))
    if (strncmp(name, word, strlen(word)) == 0) return 1;
  return 0;
}

/* ---- tensors ---- */

/* Put the tensors in the order of their names: by a heap, so that no file can choose names that
 * take longer. `size` is that of the heap, below whose place `at` all is in order. */
static void hf__order_sift(const hf__tensor *x, size_t *order, size_t at, size_t size) {
  const size_t moved = order[at];
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= size) break;
    if (child + 1 < size && strcmp(x[order[child]].name, x[order[child + 1]].name) < 0) child++;
    if (strcmp(x[moved].name, x[order[child]].name) >= 0) break;
    order[at] = order[child];
    at = child;
  }
  order[at] = moved;
}

static int hf__tensors_sort(hf__reader *c) {
  const size_t count = c->tensor_count;
  size_t i;
  c->order = (size_t *)hf__alloc(c, count + 1, sizeof(size_t));
  if (!c->order) return 0;
  for (i = 0; i < count; i++) c->order[i] = i;
  for (i = count / 2; i--;) hf__order_sift(c->tensors, c->order, i, count);
  for (i = count; i-- > 1;) {
    const size_t last = c->order[i];
    c->order[i] = c->order[0];
    c->order[0] = last;
    hf__order_sift(c->tensors, c->order, 0, i);
  }
  for (i = 1; i < count; i++) {
    const hf__tensor *x = &c->tensors[c->order[i - 1]], *y = &c->tensors[c->order[i]];
    if (!hf__same(x->name, y->name)) continue;
    hf__reject(c, MIRAS_ERR_FORMAT, c->names[x->file > y->file ? x->file : y->file]);
    hf__say(c->why, c->why_size, "%s is there twice", x->name);
    return 0;
  }
  return 1;
}

/* The tensor of this name; NULL if there is none. */
static hf__tensor *hf__tensor_named(const hf__reader *c, const char *name) {
  size_t from = 0, to = c->tensor_count;
  while (from < to) {
    const size_t middle = from + (to - from) / 2;
    hf__tensor *x = &c->tensors[c->order[middle]];
    const int side = strcmp(x->name, name);
    if (!side) return x;
    if (side < 0) from = middle + 1;
    else to = middle;
  }
  return NULL;
}

/* The bytes of a number of a type; 0 if that is not known. */
static uint64_t hf__type_bytes(const char *type) {
  static const char *const types[] = {"F32 I32 U32", "F16 BF16 I16 U16",
                                      "BOOL I8 U8 F8_E4M3 F8_E5M2", "F64 I64 U64 C64"};
  static const unsigned char bytes[] = {4, 2, 1, 8};
  int i;
  for (i = 0; i < 4; i++)
    if (hf__listed(types[i], type)) return bytes[i];
  return 0;
}

/* Read the shape of a tensor, of any rank; five lengths are kept, and the count of its numbers. */
static void hf__need_shape(hf__cursor *t, hf__tensor *x) {
  uint64_t length = 0;
  int empty = 0;
  x->rank = 0;
  x->count = 1;
  if (!hf__need_char(t, '[')) return;
  x->alone = hf__take_char(t, ']');
  if (x->alone) {
    x->rank = 1;
    x->shape[0] = 1;
    return;
  }
  do {
    hf__skip_space(t);
    t->at = hf__scan_whole(t->at, t->end, &length);
    if (!t->at) {
      hf__refuse(t);
      return;
    }
    if (x->rank < 5) x->shape[x->rank] = length;
    if (x->rank < 6) x->rank++;
    if (!length) empty = 1;
    else if (!empty && x->count > UINT64_MAX / 16 / length) hf__refuse(t);
    else if (!empty) x->count *= length;
  } while (hf__take_char(t, ','));
  hf__need_char(t, ']');
  if (empty) x->count = 0;
}

/* Read what a header says of a tensor; range receives the first and last byte of its numbers. */
static void hf__need_tensor(hf__cursor *t, hf__tensor *x, uint64_t *range,
                                           uint64_t payload) {
  static const char *const forms[] = {"F32", "BF16", "F16"};
  char text[HF__NAME_SIZE];
  uint64_t each;
  int seen = 0;
  hf__need_char(t, '{');
  do {
    int key;
    hf__need_string(t, text);
    hf__need_char(t, ':');
    key = hf__same(text, "dtype") ? 1 : hf__same(text, "shape") ? 2
        : hf__same(text, "data_offsets") ? 4 : 0;
    if (!key || (seen & key)) hf__refuse(t);
    seen |= key;
    if (key == 1) {
      hf__need_string(t, text);
      memcpy(x->type, text, sizeof x->type - 1);
      for (x->form = 2; x->form >= 0 && !hf__same(x->type, forms[x->form]);) x->form--;
      x->block = 1, x->bytes = x->form ? 2 : 4;
    } else if (key == 2) {
      hf__need_shape(t, x);
    } else {
      hf__need_range(t, range);
    }
  } while (hf__take_char(t, ','));
  hf__need_char(t, '}');
  if (seen != 7) hf__refuse(t);
  if (t->bad) return;
  each = hf__type_bytes(x->type);
  if (range[1] < range[0] || range[1] > payload)
    hf__refuse_for(t, "its place is not within the file");
  else if (each && each * x->count != range[1] - range[0])
    hf__refuse_for(t, "its place is not of the size of its shape");
}

/* Add the tensors of a file's header to the table. */
static int hf__tensors_add(hf__reader *c, int file, hf__cursor *t,
                           uint64_t header, uint64_t payload) {
  const char *name = c->names[file];
  uint64_t borders = 0, range[2] = {0, 0};
  char last[HF__NAME_SIZE];
  hf__need_char(t, '{');
  do {
    hf__tensor *x;
    hf__need_string(t, last);
    hf__need_char(t, ':');
    if (hf__same(last, "__metadata__")) {
      hf__skip_value(t, 0);
      continue;
    }
    if (t->bad) break;
    x = (hf__tensor *)hf__alloc_more(c, c->tensors, &c->tensor_room, c->tensor_count + 1,
                                     sizeof *x);
    if (!x) return 0;
    c->tensors = x;
    x += c->tensor_count;
    memset(x, 0, sizeof *x);
    memcpy(x->name, last, sizeof last);
    hf__need_tensor(t, x, range, payload);
    if (t->bad) break;
    borders += hf__hash(range[0]) - hf__hash(range[1]);
    x->file = file;
    x->at = 8 + header + range[0];
    c->tensor_count++;
  } while (hf__take_char(t, ','));
  hf__need_char(t, '}');
  hf__skip_space(t);
  if (t->bad || t->at != t->end) {
    hf__reject(c, MIRAS_ERR_FORMAT, name);
    hf__say(c->why, c->why_size, "its header is not valid, at or behind %s: %s", last,
            t->wrong ? t->wrong : "that is no JSON of safetensors");
    return 0;
  }
  if (borders != hf__hash(0) - hf__hash(payload))
    return hf__reject_as(c, MIRAS_ERR_FORMAT, name, "its tensors overlap or leave holes");
  return 1;
}

/* Open a file of tensors and read the length of its header, checked against the file's. */
static FILE *hf__header_open(hf__reader *c, int i, uint64_t *header,
                                            uint64_t *size) {
  unsigned char bytes[8];
  FILE *file = hf__folder_open(c, c->names[i], 1, size);
  if (!file) return NULL;
  if (*size >= 10 && fread(bytes, 1, 8, file) == 8) {
    *header = hf__get64(bytes);
    if (*header >= 2 && *header <= HF__MAX_TEXT && *header <= *size - 8) return file;
  }
  hf__reject_as(c, MIRAS_ERR_FORMAT, c->names[i], "it is no safetensors file");
  fclose(file);
  return NULL;
}

/* Find the tensors of all files. Tables grow with what has been read, never by a size that a file
 * states. */
static int hf__tensors_find(hf__reader *c) {
  uint64_t header = 0, size = 0;
  size_t room = 0;
  char *text = NULL;
  int i, ok = 1;
  for (i = 0; ok && i < c->files; i++) {
    FILE *file = hf__header_open(c, i, &header, &size);
    hf__cursor t;
    if (!file) return 0;
    text = (char *)hf__alloc_more(c, text, &room, (size_t)header, 1);
    ok = text && hf__text_read(c, c->names[i], file, header, text, &t) &&
         hf__tensors_add(c, i, &t, header, size - 8 - header);
    fclose(file);
  }
  return ok && hf__tensors_sort(c);
}

/* The place of a file among the names, which are in order; or where it would be. */
static int hf__file_place(const hf__reader *c, const char *file) {
  int from = 0, to = c->files;
  while (from < to) {
    const int middle = (from + to) / 2;
    if (strcmp(c->names[middle], file) < 0) from = middle + 1;
    else to = middle;
  }
  return from;
}

/* Add a file that the index names to the sorted names. It must lie in this folder: no path. whole:
 * the name is not too long. */
static int hf__file_add(hf__reader *c, const char *index, const char *file, int whole) {
  const int place = hf__file_place(c, file);
  void *names;
  if (place < c->files && hf__same(c->names[place], file)) return 1;
  if (c->files == HF__MAX_SHARDS || file[0] == '.' || strpbrk(file, "/\\:") || !file[0] || !whole)
    return hf__reject_as(c, MIRAS_ERR_FORMAT, index, "its names of files are not valid");
  names = hf__alloc_more(c, c->names, &c->name_room, (size_t)c->files + 1, HF__NAME_SIZE);
  if (!names) return 0;
  c->names = (char (*)[HF__NAME_SIZE])names;
  memmove(c->names[place + 1], c->names[place], (size_t)(c->files - place) * HF__NAME_SIZE);
  memcpy(c->names[place], file, HF__NAME_SIZE);
  c->files++;
  return 1;
}

/* Check an entry of the index: the file that it names must hold the tensor. */
static int hf__index_entry(hf__reader *c, const char *index, const char *name,
                                          const char *file) {
  hf__tensor *x = hf__tensor_named(c, name);
  const int place = hf__file_place(c, file);
  if (x && x->file == place && place < c->files && hf__same(c->names[place], file)) {
    x->taken = 1;
    return 1;
  }
  hf__reject(c, MIRAS_ERR_FORMAT, index);
  hf__say(c->why, c->why_size, "%s is not in %s", name, file);
  return 0;
}

/* Read the index. Pass 0 collects the files that it names; pass 1 checks that every file has the
 * tensors that the index lists, and that every tensor is listed. */
static int hf__index_read(hf__reader *c, hf__cursor t, const char *index,
                                         int pass) {
  char name[HF__NAME_SIZE], file[HF__NAME_SIZE];
  size_t count = 0, i;
  int whole;
  hf__need_char(&t, '{');
  do {
    hf__need_string(&t, name);
    hf__need_char(&t, ':');
    if (!hf__same(name, "weight_map")) {
      hf__skip_value(&t, 0);
      continue;
    }
    hf__need_char(&t, '{');
    do {
      hf__need_string(&t, name);
      hf__need_char(&t, ':');
      whole = hf__need_string(&t, file);
      if (t.bad) break;
      if (!(pass ? hf__index_entry(c, index, name, file) : hf__file_add(c, index, file, whole)))
        return 0;
      count++;
    } while (hf__take_char(&t, ','));
    hf__need_char(&t, '}');
  } while (hf__take_char(&t, ','));
  hf__need_char(&t, '}');
  if (t.bad || !count)
    return hf__reject_as(c, MIRAS_ERR_FORMAT, index,
                         t.bad ? "it is not valid" : "it does not list tensors in a weight_map");
  for (i = 0; pass && i < c->tensor_count; i++) {
    if (c->tensors[i].taken) continue;
    hf__reject(c, MIRAS_ERR_FORMAT, index);
    hf__say(c->why, c->why_size, "%s is in %s, but this does not list it", c->tensors[i].name,
            c->names[c->tensors[i].file]);
    return 0;
  }
  return 1;
}

/* Refuse an index that names a missing file; where model.safetensors is there, say that the index
 * may belong to other files. */
static int hf__index_stray(hf__reader *c, const char *index,
                                          const char *single) {
  char why[256];
  uint64_t size;
  FILE *file;
  if (c->result != MIRAS_ERR_IO || !c->why || !c->why_size) return 0;
  why[0] = 0;
  hf__say(why, sizeof why, "%s", c->why);
  file = hf__folder_open(c, single, 0, &size);
  if (file) fclose(file);
  c->result = MIRAS_ERR_IO;
  c->why[0] = 0;
  hf__say(c->why, c->why_size, file ? "%s; %s names it, but %s is there too: if that is the "
                                         "whole model, take the index away"
                                       : "%s; %s names it", why, index, single);
  return 0;
}

/* ---- families ---- */

/* All numbers of the rows of this name are times a factor. Only what stays float in every model may
 * have one that is no power of two: gains, biases, convolutions. */
static void hf__factor(hf__reader *c, const char *name, double by) {
  MIRAS_ASSERT(c->factors < (int)HF__COUNT(c->factor));
  c->factor[c->factors].name = name;
  c->factor[c->factors++].by = by;
}

/* The number in a slot, or `otherwise` where the configuration does not have the field. */
static double hf__config_of(const hf__reader *c, int slot, double otherwise) {
  return c->said[slot] ? c->config[slot] : otherwise;
}

/* The name of the family's field for a slot, until the next call. */
static const char *hf__config_name(hf__reader *c, int slot) {
  const char *names = "a";
  int i;
  for (i = c->common_count; i--;)
    if (c->common[i].slot == slot) names = c->common[i].names;
  for (i = c->says_count; i--;)
    if (c->says[i].slot == slot) names = c->says[i].names;
  for (i = 0; i <= c->word[slot]; i++) hf__next_word(c->name, &names);
  return c->name;
}

/* A whole number from `least` to 2^24: of the slot, or x where the configuration has none. 0:
 * refused. */
static int hf__config_whole(hf__reader *c, int slot, double x, int least) {
  x = hf__config_of(c, slot, x);
  if (x >= least && x <= 1 << 24 && x <= (double)(int)x && x >= (double)(int)x) return (int)x;
  if (c->result != MIRAS_OK) return 0;
  hf__reject(c, MIRAS_ERR_DESC, "config.json");
  hf__say(c->why, c->why_size,
          c->said[slot] || x > 0 ? "%s is %g; it must be a whole number from %d to 16777216"
                                    : "%s is missing", hf__config_name(c, slot), x, least);
  return 0;
}

/* A width x that follows from the field of a slot; refused by that field's name unless it is
 * whole. */
static int hf__config_share(hf__reader *c, int slot, double x) {
  const int saved = c->said[slot];
  int whole;
  c->said[slot] = 0;
  whole = hf__config_whole(c, slot, x, 1);
  c->said[slot] = (unsigned char)saved;
  return whole;
}

/* Refuse a field's value that no layer can compute; known: the values that they can. */
static int hf__config_lacks(hf__reader *c, int slot, const char *known) {
  hf__reject(c, MIRAS_ERR_DESC, "config.json");
  hf__say(c->why, c->why_size, "%s is %g; known here: %s", hf__config_name(c, slot),
          c->config[slot], known);
  return 0;
}

/* Length i of a tensor's shape, outermost first; 0 if there is no such tensor. */
static int hf__tensor_length(const hf__reader *c, const char *name, int i) {
  const hf__tensor *x = hf__tensor_named(c, name);
  return x && i < x->rank && i < 5 && x->shape[i] <= 1 << 24 ? (int)x->shape[i] : 0;
}

/* The same of the first layer that has a tensor whose name ends like this. */
static int hf__layer_length(const hf__reader *c, const char *end, int i) {
  char name[HF__NAME_SIZE];
  int layer, length = 0;
  for (layer = 0; layer < MIRAS_MAX_LAYERS && !length; layer++) {
    name[0] = 0;
    hf__say(name, sizeof name, "model.layers.%d.attn.%s", layer, end);
    length = hf__tensor_length(c, name, i);
  }
  return length;
}

/* The rows of the embedding. */
static int hf__embedding_rows(const hf__reader *c) {
  static const char *const tables[] = {"embeddings.weight", "embedding.weight",
                                       "embed_tokens.weight", "token_embd.weight"};
  char name[64];
  int i, rows = 0;
  for (i = 0; i < (int)HF__COUNT(tables) && !rows; i++) {
    name[0] = 0;
    hf__say(name, sizeof name, "%s%s", c->root, tables[i]);
    rows = hf__tensor_length(c, name, 0);
  }
  return rows;
}

/* Describe the sizes that all models with a SwiGLU have. */
static int hf__describe_frame(hf__reader *c, miras_model_desc *d, miras_preset kind) {
  const double ratio = hf__config_of(c, HF__C_RATIO, 4);
  miras_layer_desc *l = &d->layer[0];
  miras_model_preset(d, kind, 0);
  d->width = hf__config_whole(c, HF__C_WIDTH, 0, 1);
  d->layers = hf__config_whole(c, HF__C_LAYERS, 0, 1);
  d->vocab = hf__config_whole(c, HF__C_VOCAB, hf__embedding_rows(c), 2);
  d->heads = hf__config_whole(c, HF__C_HEADS, 0, 1);
  d->untied = hf__config_of(c, HF__C_TIED, 0) < 1;
  d->norm_epsilon = (float)hf__config_of(c, HF__C_EPSILON, 1e-6);
  if (c->result != MIRAS_OK) return 0;
  if (!c->said[HF__C_INNER] && !(ratio > 0 && ratio <= 64))
    return hf__config_lacks(c, HF__C_RATIO, "above 0, up to 64");
  l->mlp.hidden = hf__config_whole(c, HF__C_INNER, 256 * ceil(
    floor((double)d->width * ratio * 2 / 3) / 256), 1);
  return c->result == MIRAS_OK;
}

/* Check a rank that follows from a tensor against the field for it, if there is one. */
static int hf__config_rank(hf__reader *c, int slot, int rank) {
  if (!c->said[slot] || !rank || (c->config[slot] <= rank && c->config[slot] >= rank)) return 1;
  hf__reject(c, MIRAS_ERR_DESC, "config.json");
  hf__say(c->why, c->why_size, "%s is %g, but the tensors have a rank of %d",
          hf__config_name(c, slot), c->config[slot], rank);
  return 0;
}

/* Queries are divided by sqrt(key_dim) there. With a norm behind the memory that changes nothing
 * but the norm's epsilon. */
static void hf__describe_scale(miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  l->mixer.out_norm_epsilon = d->norm_epsilon * (float)l->memory.key_dim;
}

/* Describe the gate behind the norm of the memories' answers. */
static void hf__describe_gate(hf__reader *c, miras_model_desc *d, int normally) {
  d->layer[0].mixer.out_gate =
    hf__config_of(c, HF__C_GATE, normally) < 1  ? MIRAS_FN_NONE
    : hf__config_of(c, HF__C_GATE_FORM, 0) == 1 ? MIRAS_FN_SIGMOID
                                                      : MIRAS_FN_SILU;
}

/* Describe the convolutions of queries, keys and values. A kernel that is shared by all of them is
 * refused. */
static void hf__describe_conv(hf__reader *c, miras_model_desc *d, int normally) {
  miras_layer_desc *l = &d->layer[0];
  if (hf__config_of(c, HF__C_SHORT_CONV, normally) < 1)
    l->mixer.conv_on = MIRAS_CONV_ON_NONE, l->mixer.conv_size = 0;
  else if (!(hf__config_of(c, HF__C_ONE_CONV, 0) > 0))
    l->mixer.conv_size = hf__config_whole(c, HF__C_CONV, 4, 1);
  else if (c->result == MIRAS_OK)
    hf__config_lacks(c, HF__C_ONE_CONV, "false, or true where use_short_conv is false");
}

/* Gated DeltaNet, and what KDA has in common with it. */
static int hf__describe_gated_delta(hf__reader *c, miras_model_desc *d,
                                    miras_preset kind) {
  const int kda = kind == MIRAS_PRESET_KDA_MEMORY || kind == MIRAS_PRESET_PKDA_MEMORY;
  miras_layer_desc *l = &d->layer[0];
  double key;
  if (!hf__describe_frame(c, d, kind)) return 0;
  key = l->memory.key_dim = hf__config_whole(c, HF__C_HEAD_DIM, kda ? 128 : 256, 1);
  l->memory.value_dim =
    hf__config_share(c, HF__C_EXPAND_V, key * hf__config_of(c, HF__C_EXPAND_V, kda ? 1 : 2));
  l->memory.heads = hf__config_whole(c, HF__C_VALUE_HEADS, d->heads, 1);
  l->memory.learning_rate = hf__config_of(c, HF__C_NEGATIVE, 0) > 0 ? 2.0f : 1.0f;
  l->mixer.gate_rank = 2 * l->memory.heads;
  l->mixer.qk_heads = d->heads;
  hf__describe_scale(d);
  hf__describe_conv(c, d, 1);
  return c->result == MIRAS_OK;
}

static int hf__describe_gated_deltanet(hf__reader *c, miras_model_desc *d) {
  if (!hf__describe_gated_delta(c, d, MIRAS_PRESET_GATED_DELTANET)) return 0;
  hf__describe_gate(c, d, 1);
  return 1;
}

/* Gated DeltaProduct; its defaults are no decay and one pair per token. */
static int hf__describe_gated_deltaproduct(hf__reader *c, miras_model_desc *d) {
  const int forgets = hf__config_of(c, HF__C_FORGET, 0) > 0;
  const int steps = hf__config_whole(c, HF__C_STEPS, 1, 1);
  miras_layer_desc *l = &d->layer[0];
  if (!hf__describe_gated_delta(
        c, d, forgets ? MIRAS_PRESET_GATED_DELTAPRODUCT : MIRAS_PRESET_DELTAPRODUCT))
    return 0;
  if (steps > 8) return hf__config_lacks(c, HF__C_STEPS, "1 to 8");
  c->steps = l->memory.inner_steps = steps;
  c->shared = d->heads;
  l->mixer.gate_rank = (forgets + steps) * d->heads;
  hf__describe_gate(c, d, 1);
  return 1;
}

static int hf__describe_kda_as(hf__reader *c, miras_model_desc *d, miras_preset kind) {
  const double bound = hf__config_of(c, HF__C_STEEPEST, 0);
  miras_layer_desc *l = &d->layer[0];
  if (!hf__describe_gated_delta(c, d, kind)) return 0;
  l->mixer.gate_rank = l->memory.heads + hf__layer_length(c, "f_proj.0.weight", 0);
  l->mixer.out_gate_rank = hf__layer_length(c, "g_proj.0.weight", 0);
  l->mixer.out_gate = MIRAS_FN_SIGMOID;
  if (c->said[HF__C_STEEPEST])
    l->mixer.decay_form = MIRAS_DECAY_FORM_STEEP, l->mixer.decay_log_limit = (float)-bound;
  if (c->said[HF__C_STEEPEST] && !(bound < 0))
    return hf__config_lacks(c, HF__C_STEEPEST, "below 0");
  return hf__config_of(c, HF__C_SAFE, 0) < 1 || c->said[HF__C_STEEPEST] ||
         hf__config_lacks(c, HF__C_SAFE, "false without lower_bound");
}

static int hf__describe_kda(hf__reader *c, miras_model_desc *d) {
  return hf__describe_kda_as(c, d, MIRAS_PRESET_KDA_MEMORY);
}

/* Preconditioned keys have two gates more per head, and keys that heads share are refused: which
 * of their gates are shared too differs there from layer to layer. */
static int hf__describe_preconditioned(hf__reader *c, miras_model_desc *d) {
  d->layer[0].mixer.gate_rank += 2 * d->heads;
  d->layer[0].mixer.qk_heads = 0;
  return d->layer[0].memory.heads == d->heads ||
         hf__config_lacks(c, HF__C_VALUE_HEADS, "num_heads");
}

static int hf__describe_precond_kda(hf__reader *c, miras_model_desc *d) {
  return hf__describe_kda_as(c, d, MIRAS_PRESET_PKDA_MEMORY) && hf__describe_preconditioned(c, d);
}

static int hf__describe_precond_gated_deltanet(hf__reader *c, miras_model_desc *d) {
  if (!hf__describe_gated_delta(c, d, MIRAS_PRESET_PGDN)) return 0;
  hf__describe_gate(c, d, 1);
  return hf__describe_preconditioned(c, d);
}

/* Describe heads whose widths are shares of the model's width. */
static int hf__describe_heads(hf__reader *c, miras_model_desc *d, double k, double v) {
  miras_memory_desc *m = &d->layer[0].memory;
  m->heads = d->heads;
  m->key_dim = hf__config_share(
    c, HF__C_EXPAND_K, d->width * hf__config_of(c, HF__C_EXPAND_K, k) / d->heads);
  m->value_dim = hf__config_share(
    c, HF__C_EXPAND_V, d->width * hf__config_of(c, HF__C_EXPAND_V, v) / d->heads);
  hf__describe_scale(d);
  return c->result == MIRAS_OK;
}

/* Keys and values that several heads share: each head gets a copy as its own. */
static int hf__describe_shared(hf__reader *c, const miras_model_desc *d) {
  c->shared = hf__config_whole(c, HF__C_KV_HEADS, d->heads, 1);
  if (c->result != MIRAS_OK) return 0;
  c->again = d->heads / c->shared;
  return d->heads % c->shared == 0 ||
         hf__config_lacks(c, HF__C_KV_HEADS, "a number that divides num_heads");
}

/* What GLA, RetNet and linear attention have in common. */
static int hf__describe_plain(hf__reader *c, miras_model_desc *d, miras_preset kind,
                              double expand_v) {
  miras_layer_desc *l = &d->layer[0];
  if (!hf__describe_frame(c, d, kind) ||
      !hf__describe_heads(c, d, expand_v / 2, expand_v)) return 0;
  if (!hf__describe_shared(c, d)) return 0;
  hf__describe_conv(c, d, 0);
  l->mixer.qk_map = MIRAS_QK_MAP_NONE;
  if (l->mixer.conv_on) l->mixer.qk_act = l->mixer.v_act = MIRAS_FN_NONE;
  hf__describe_gate(c, d, 1);
  return c->result == MIRAS_OK;
}

static int hf__describe_gla(hf__reader *c, miras_model_desc *d) {
  const double least = hf__config_of(c, HF__C_CLAMP, -100);    /* of a logarithm */
  if (!hf__describe_plain(c, d, MIRAS_PRESET_GLA_MEMORY, 1)) return 0;
  d->layer[0].mixer.gate_rank = hf__layer_length(c, "gk_proj.0.weight", 0);
  if (c->said[HF__C_CLAMP]) d->layer[0].mixer.keep_min = (float)hf__exp(least);
  if (!hf__config_rank(c, HF__C_OUT_RANK, d->layer[0].mixer.gate_rank)) return 0;
  return least < -1e-4 || hf__config_lacks(c, HF__C_CLAMP, "below 0");
}

static int hf__describe_retnet(hf__reader *c, miras_model_desc *d) {
  if (!c->said[HF__C_RATIO] && !c->none[HF__C_RATIO])
    c->said[HF__C_RATIO] = 1, c->config[HF__C_RATIO] = 2;
  if (!hf__describe_plain(c, d, MIRAS_PRESET_RETNET_MEMORY, 2)) return 0;
  d->layer[0].mixer.rope.type = MIRAS_ROPE_TYPE_POSITION;
  return 1;
}

/* Linear attention. Its default map has tensors of its own and is refused. */
static int hf__describe_linear_attn(hf__reader *c, miras_model_desc *d) {
  static const miras_function forms[] = {MIRAS_FN_NONE, MIRAS_FN_RELU, MIRAS_FN_ELU};
  miras_layer_desc *l = &d->layer[0];
  if (!hf__describe_plain(c, d, MIRAS_PRESET_LINEAR_ATTENTION, 1)) return 0;
  l->memory.key_dim = hf__config_share(
    c, HF__C_EXPAND_K, d->width * hf__config_of(c, HF__C_EXPAND_K, 1) / d->heads);
  hf__describe_scale(d);
  l->mixer.out_gate = MIRAS_FN_NONE;
  if (c->result == MIRAS_OK && !c->said[HF__C_KEY_FORM])
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                         "feature_map is elementwise_product; known here: identity relu elu");
  l->mixer.qk_act = forms[(int)c->config[HF__C_KEY_FORM]];
  return c->result == MIRAS_OK;
}

/* HGRN2, whose norm of the whole row has an epsilon of its own. The number of heads follows from
 * their keys' length, whatever num_heads says; without one, it is the other way round. */
static int hf__describe_hgrn2(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  const int length = c->none[HF__C_EXPAND_RATIO] ? 0
                   : hf__config_whole(c, HF__C_EXPAND_RATIO, 128, 1);
  if (length) {
    c->config[HF__C_HEADS] = floor(hf__config_whole(c, HF__C_WIDTH, 0, 1) /
                                   (double)length);
    c->said[HF__C_HEADS] = 1;
    if (c->result == MIRAS_OK && c->config[HF__C_HEADS] < 1)
      return hf__config_lacks(c, HF__C_EXPAND_RATIO, "up to hidden_size");
  }
  if (!hf__describe_frame(c, d, MIRAS_PRESET_HGRN2_MEMORY) || !hf__describe_heads(c, d, 1, 1))
    return 0;
  if (length) l->memory.key_dim = length;
  l->mixer.gate_rank = d->heads * l->memory.key_dim;
  l->mixer.conv_on = MIRAS_CONV_ON_NONE;
  l->mixer.conv_size = 0;
  l->mixer.v_act = MIRAS_FN_NONE;
  l->mixer.out_gate = MIRAS_FN_NONE;
  l->mixer.out_norm_epsilon = 1e-5f * (float)l->memory.key_dim;
  l->mixer.norm_heads = d->heads;
  if (hf__config_of(c, HF__C_LOWER_BOUNDS, 1) > 0)
    l->mixer.decay_form = MIRAS_DECAY_FORM_FLOOR;
  return c->result == MIRAS_OK;
}

/* HGRN, whose channels are shared out to heads of at most 64, for none of them sees another. */
static int hf__describe_hgrn(hf__reader *c, miras_model_desc *d) {
  const double share = hf__config_of(c, HF__C_EXPAND_RATIO, 1);
  const double channels = floor(hf__config_whole(c, HF__C_WIDTH, 0, 1) * share);
  miras_layer_desc *l = &d->layer[0];
  int inner, size = 64;
  if (c->result == MIRAS_OK && channels < 1)
    return hf__config_lacks(c, HF__C_EXPAND_RATIO, "from 1 / hidden_size on");
  inner = hf__config_share(c, HF__C_EXPAND_RATIO, channels);
  while (inner % size) size--;
  c->said[HF__C_HEADS] = 1, c->config[HF__C_HEADS] = inner / size;
  if (!inner || !hf__describe_frame(c, d, MIRAS_PRESET_HGRN)) return 0;
  l->memory.heads = l->mixer.norm_heads = d->heads;
  l->memory.value_dim = size;
  l->mixer.gate_rank = inner;
  l->mixer.out_norm_epsilon = d->norm_epsilon;
  if (hf__config_of(c, HF__C_LOWER_BOUNDS, 1) > 0)
    l->mixer.decay_form = MIRAS_DECAY_FORM_FLOOR;
  else
    hf__factor(c, ".attn.f_proj.weight", -1);    /* a time: ln(1 + e^-f) is -ln sigmoid(f) */
  return 1;
}

/* Gated slot attention, whose norm of the whole row has an epsilon of its own. */
static int hf__describe_gsa(hf__reader *c, miras_model_desc *d) {
  static const miras_decay_form forms[] = {MIRAS_DECAY_FORM_ROOT8, MIRAS_DECAY_FORM_ROOT,
                                           MIRAS_DECAY_FORM_SIGMOID};
  miras_layer_desc *l = &d->layer[0];
  if (!hf__describe_frame(c, d, MIRAS_PRESET_GSA) || !hf__describe_heads(c, d, 1, 1) ||
      !hf__describe_shared(c, d)) return 0;
  l->mixer.key_slots = hf__config_whole(
    c, HF__C_STATE, c->none[HF__C_STATE] ? l->memory.key_dim : 64, 1);
  l->mixer.gate_rank = d->heads * l->mixer.key_slots;
  l->mixer.decay_form = forms[(int)hf__config_of(c, HF__C_GATE_FORM, 0)];
  if (hf__config_of(c, HF__C_KEY_FORM, 0) > 0) l->mixer.qk_act = MIRAS_FN_RELU;
  l->mixer.norm_heads = d->heads;
  l->mixer.out_norm_epsilon = 1e-5f;
  return c->result == MIRAS_OK;
}

static int hf__describe_delta_net(hf__reader *c, miras_model_desc *d) {
  static const miras_function forms[] = {MIRAS_FN_SILU, MIRAS_FN_NONE, MIRAS_FN_RELU, MIRAS_FN_ELU};
  miras_layer_desc *l = &d->layer[0];
  if (!hf__describe_frame(c, d, MIRAS_PRESET_DELTANET_MEMORY) ||
      !hf__describe_heads(c, d, 1, 1))
    return 0;
  l->memory.learning_rate = hf__config_of(c, HF__C_NEGATIVE, 0) > 0 ? 2.0f : 1.0f;
  l->mixer.gate_rank = d->heads;
  if (hf__config_of(c, HF__C_BETA, 1) < 1) l->memory.learning_rate_gate = MIRAS_GATE_CONSTANT;
  if (hf__config_of(c, HF__C_KEYS, 0) > 0) l->mixer.qk_map = MIRAS_QK_MAP_L1;
  l->mixer.qk_act = forms[(int)hf__config_of(c, HF__C_KEY_FORM, 0)];
  hf__describe_conv(c, d, 1);
  hf__describe_gate(c, d, 0);
  return c->result == MIRAS_OK;
}

/* RWKV-7: each half of a block is a layer; ranks follow from the tensors. */
static int hf__describe_rwkv(hf__reader *c, miras_model_desc *d, const char *const rank[4],
                             int turned) {
  const int width = d->width, blocks = d->layers, vocab = d->vocab, hidden = d->layer[0].mlp.hidden;
  const int heads = d->heads;
  miras_layer_desc *l = &d->layer[0];
  if (miras_model_preset(d, miras_preset_find("rwkv7"), blocks) != MIRAS_OK) return 0;
  c->per = 2;
  d->width = width, d->vocab = vocab, d->heads = heads;
  l->rwkv.decay_rank = hf__tensor_length(c, rank[0], turned);
  l->rwkv.rate_rank = hf__tensor_length(c, rank[1], turned);
  l->mixer.out_gate_rank = hf__tensor_length(c, rank[2], turned);
  l->rwkv.value_rank = hf__tensor_length(c, rank[3], turned);
  d->layer[3].mlp.hidden = hidden;
  return c->result == MIRAS_OK;
}

/* The sizes that RWKV's models have in a configuration. */
static int hf__describe_config(hf__reader *c, miras_model_desc *d) {
  d->width = hf__config_whole(c, HF__C_WIDTH, 0, 1);
  d->vocab = hf__config_whole(c, HF__C_VOCAB, hf__embedding_rows(c), 2);
  d->layers = hf__config_whole(c, HF__C_LAYERS, 0, 1);
  return c->result == MIRAS_OK;
}

/* What flash-linear-attention's have beside: the channel mixing is `ratio` times as wide if nothing
 * is said; a tensor, [heads, size], must be of as many heads. */
static int hf__describe_mixing(hf__reader *c, miras_model_desc *d, const char *bonus,
                               double ratio) {
  ratio = hf__config_of(c, HF__C_RATIO, ratio);
  if (hf__tensor_length(c, bonus, 1) && hf__tensor_length(c, bonus, 0) != d->heads) {
    hf__reject(c, MIRAS_ERR_FORMAT, bonus);
    hf__say(c->why, c->why_size, "it is of %d heads, and the model that %s describes has %d",
            hf__tensor_length(c, bonus, 0), c->config_name, d->heads);
    return 0;
  }
  if (!c->said[HF__C_INNER] && !(ratio > 0 && ratio <= 64))
    return hf__config_lacks(c, HF__C_RATIO, "above 0, up to 64");
  d->layer[0].mlp.hidden = hf__config_whole(c, HF__C_INNER, 32 * ceil(
    floor(d->width * ratio) / 32), 1);
  return c->result == MIRAS_OK;
}

static int hf__describe_rwkv7(hf__reader *c, miras_model_desc *d) {
  static const char *const ranks[] = {
    "model.layers.0.attn.w_lora.lora.0.weight", "model.layers.0.attn.a_lora.lora.0.weight",
    "model.layers.0.attn.g_lora.lora.0.weight", "model.layers.1.attn.v_lora.lora.0.weight"};
  const miras_layer_desc *l = &d->layer[0];
  int size;
  if (!hf__describe_config(c, d)) return 0;
  /* num_heads counts where there is no head_dim */
  if (c->none[HF__C_HEAD_DIM]) {
    d->heads = hf__config_whole(c, HF__C_HEADS, 0, 1);
    if (c->result != MIRAS_OK) return 0;
    size = hf__config_share(c, HF__C_HEADS, (double)d->width / d->heads);
  } else {
    size = hf__config_whole(c, HF__C_HEAD_DIM, 64, 1);
    if (c->result != MIRAS_OK) return 0;
    d->heads = hf__config_share(c, HF__C_HEAD_DIM, (double)d->width / size);
  }
  if (c->result != MIRAS_OK || !hf__describe_mixing(c, d, "model.layers.0.attn.r_k", 4)) return 0;
  if ((c->values && c->values != d->layers) || c->empty)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "value_dim is not of all layers");
  if (c->said[HF__C_VALUES] &&
      !(c->config[HF__C_VALUES] <= d->width && c->config[HF__C_VALUES] >= d->width))
    return hf__config_lacks(c, HF__C_VALUES, "hidden_size");
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

/* RWKV's author: there is no config.json, and all sizes follow from shapes, of which `bonus` has a
 * head's. */
static void hf__describe_sizes(hf__reader *c, miras_model_desc *d, const char *bonus) {
  char name[64] = "";
  do {
    name[0] = 0;
    hf__say(name, sizeof name, "blocks.%d.att.%s", d->layers++, bonus);
  } while (hf__tensor_named(c, name) && d->layers <= MIRAS_MAX_LAYERS);
  d->layers--;
  name[0] = 0;
  hf__say(name, sizeof name, "blocks.0.att.%s", bonus);
  d->vocab = hf__tensor_length(c, "emb.weight", 0);
  d->width = hf__tensor_length(c, "emb.weight", 1);
  d->heads = hf__tensor_length(c, name, 0);
  d->layer[0].mlp.hidden = hf__tensor_length(c, "blocks.0.ffn.key.weight", 0);
}

/* The preset of these sizes, whose blocks are two layers each. */
static int hf__describe_halves(hf__reader *c, miras_model_desc *d, const char *preset) {
  const miras_model_desc sizes = *d;
  if (c->result != MIRAS_OK ||
      miras_model_preset(d, miras_preset_find(preset), sizes.layers) != MIRAS_OK) return 0;
  c->per = 2;
  d->width = sizes.width, d->vocab = sizes.vocab, d->heads = sizes.heads;
  d->layer[3].mlp.hidden = sizes.layer[0].mlp.hidden;
  d->norm_epsilon = 1e-5f;
  return 1;
}

static int hf__describe_author6(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  hf__describe_sizes(c, d, "time_faaaa");
  if (!hf__describe_halves(c, d, "rwkv6")) return 0;
  l->rwkv.decay_rank = hf__tensor_length(c, "blocks.0.att.time_decay_w1", 1);
  l->rwkv.mix_rank = hf__tensor_length(c, "blocks.0.att.time_maa_w1", 1) / 5;
  l->mixer.out_norm_epsilon = 64e-5f;
  return c->result == MIRAS_OK;
}

/* The same as flash-linear-attention has it, where keys and values have widths of their own, and
 * norms may have no biases. */
static int hf__describe_rwkv6(hf__reader *c, miras_model_desc *d) {
  static const char down[] = "model.layers.0.attn.w_proj.linear.lora.0.weight",
                    moves[] = "model.layers.0.attn.x_proj.0.linear.weight";
  miras_layer_desc *l = &d->layer[0];
  if (!hf__describe_config(c, d)) return 0;
  d->heads = hf__config_whole(c, HF__C_HEADS, 0, 1);
  if (c->result != MIRAS_OK || !hf__describe_mixing(c, d, "model.layers.0.attn.bonus", 3.5) ||
      !hf__describe_halves(c, d, "rwkv6")) return 0;
  d->norm_epsilon = (float)hf__config_of(c, HF__C_EPSILON, 1e-5);
  d->embed_norm = hf__config_of(c, HF__C_NORM_FIRST, 1) > 0;
  d->untied = hf__config_of(c, HF__C_TIED, 0) < 1;
  l->rwkv.decay_rank = hf__tensor_length(c, down, 0);
  l->rwkv.mix_rank = hf__tensor_length(c, moves, 0) / 5;
  if (!hf__describe_heads(c, d, 0.5, 1) ||
      !hf__config_rank(c, HF__C_DECAY_RANK, l->rwkv.decay_rank) ||
      !hf__config_rank(c, HF__C_RATE_RANK, l->rwkv.mix_rank)) return 0;
  l->mixer.out_norm_epsilon = d->norm_epsilon;
  if ((hf__config_of(c, HF__C_BIAS, 1) > 0) == !!hf__tensor_named(c, "model.norm.bias")) return 1;
  return hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                       "its norm_bias and the tensors do not agree");
}

static int hf__describe_author4(hf__reader *c, miras_model_desc *d) {
  hf__describe_sizes(c, d, "time_first");
  d->heads = 1;
  return hf__describe_halves(c, d, "rwkv4");
}

static int hf__describe_rwkv4(hf__reader *c, miras_model_desc *d) {
  if (!hf__describe_config(c, d)) return 0;
  d->heads = 1;
  d->layer[0].mlp.hidden = hf__config_whole(c, HF__C_INNER, 4.0 * d->width, 1);
  if (c->said[HF__C_VALUES] &&
      !(c->config[HF__C_VALUES] <= d->width && c->config[HF__C_VALUES] >= d->width))
    return hf__config_lacks(c, HF__C_VALUES, "hidden_size");
  if (!hf__describe_halves(c, d, "rwkv4")) return 0;
  d->untied = hf__config_of(c, HF__C_TIED, 0) < 1;
  return 1;
}

static int hf__describe_author(hf__reader *c, miras_model_desc *d) {
  static const char *const ranks[] = {"blocks.0.att.w1", "blocks.0.att.a1", "blocks.0.att.g1",
                                      "blocks.1.att.v1"};
  hf__describe_sizes(c, d, "r_k");
  if (!hf__describe_rwkv(c, d, ranks, 1)) return 0;
  d->norm_epsilon = 1e-5f;
  d->layer[0].mixer.out_norm_epsilon = 64e-5f;
  return 1;
}

/* Write the types of all layers as a pattern: the shortest part whose repetition gives all of
 * them. */
static int hf__describe_pattern(hf__reader *c, miras_model_desc *d, const char *letter) {
  const int n = d->layers;
  int part = 1, i;
  for (; part < n; part++) {
    for (i = part; i < n && letter[i] == letter[i - part];) i++;
    if (i == n && n % part == 0) break;
  }
  if (part > MIRAS_PATTERN_SIZE - 8)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "its layers repeat too seldom");
  d->pattern[0] = '(';
  memcpy(d->pattern + 1, letter, (size_t)part);
  d->pattern[part + 1] = 0;
  hf__say(d->pattern, sizeof d->pattern, ")*%d", n / part);
  d->layers = 0;
  return 1;
}

/* Describe the experts that layers have instead of an MLP. */
static void hf__describe_experts(hf__reader *c, miras_layer_desc *l) {
  const double shared = hf__config_of(c, HF__C_SHARED_EXPERT, 0);
  l->mlp.hidden = hf__config_whole(c, HF__C_EXPERT, 0, 1);
  l->mlp.experts = hf__config_whole(c, HF__C_EXPERTS, 0, 1);
  l->mlp.experts_per_token = hf__config_whole(c, HF__C_CHOSEN, 0, 1);
  l->mlp.norm_topk = hf__config_of(c, HF__C_CHOSEN_NORM, 1) > 0;
  l->mlp.shared_experts = shared > 0;
  if (c->result == MIRAS_OK && shared > 0 && (shared < l->mlp.hidden || shared > l->mlp.hidden))
    hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                  "shared_expert_intermediate_size must be 0 or moe_intermediate_size");
}

/* How far attention looks back: the positions that it was trained for. 0: refused. */
static int hf__describe_window(hf__reader *c, miras_layer_desc *a, double normally) {
  const double positions = hf__config_of(c, HF__C_POSITIONS, normally);
  a->attention.window = positions < 1 ? 1 : positions < 1 << 20 ? (int)positions : 1 << 20;
  return positions >= 1 || hf__config_lacks(c, HF__C_POSITIONS, "1 and more");
}

/* Qwen3-Next and Qwen3.5: Gated DeltaNet with grouped keys, and attention with gates and rotary
 * positions for a part of each head. */
static int hf__describe_qwen(hf__reader *c, miras_model_desc *d) {
  const double share = hf__config_of(c, HF__C_PARTIAL, 0.25);
  const int experts = hf__config_of(c, HF__C_EXPERTS, 0) > 0;
  miras_layer_desc *l = &d->layer[0], *a = &d->layer[2];
  char letter[MIRAS_MAX_LAYERS];
  int i, interval, step;
  if (!hf__describe_frame(c, d, MIRAS_PRESET_GATED_DELTANET)) return 0;
  l->memory.heads = hf__config_whole(c, HF__C_VALUE_HEADS, 0, 1);
  l->memory.key_dim = hf__config_whole(c, HF__C_KEY_DIM, 0, 1);
  l->memory.value_dim = hf__config_whole(c, HF__C_VALUE_DIM, 0, 1);
  l->mixer.qk_heads = c->groups[0] = hf__config_whole(c, HF__C_KEY_HEADS, 0, 1);
  l->mixer.conv_size = hf__config_whole(c, HF__C_CONV, 4, 1);
  l->mixer.gate_rank = 2 * l->memory.heads;
  hf__describe_scale(d);
  a->mlp.hidden = l->mlp.hidden;
  a->attention.heads = c->groups[1] = d->heads;
  a->attention.kv_heads = hf__config_whole(c, HF__C_KV_HEADS, d->heads, 1);
  a->attention.head_dim = hf__config_whole(c, HF__C_HEAD_DIM, 256, 2);
  a->attention.rope.theta = (float)hf__config_of(c, HF__C_THETA, 10000);
  a->attention.rope.dim = share > 0 && share <= 1 ? (int)(a->attention.head_dim * share) : 0;
  a->attention.qk_norm = a->attention.out_gate = 1;
  if (!hf__describe_window(c, a, 32768)) return 0;
  for (i = 0; i < 2 && experts; i++) {
    d->layer[5 + i] = i ? *a : *l;
    d->layer[5 + i].letter = "xy"[i];
    hf__describe_experts(c, &d->layer[5 + i]);
  }
  if (c->result != MIRAS_OK) return 0;
  if (!(share > 0 && share <= 1)) return hf__config_lacks(c, HF__C_PARTIAL, "0 to 1");
  interval = hf__config_whole(c, HF__C_INTERVAL, 4, 1);
  step = hf__config_whole(c, HF__C_SPARSE_STEP, 1, 1);
  if (c->result != MIRAS_OK) return 0;
  if (d->layers > MIRAS_MAX_LAYERS) return hf__config_lacks(c, HF__C_LAYERS, "1 to 256");
  if (c->empty || (c->types && c->types != d->layers))
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "layer_types is not of all layers");
  for (i = 0; i < d->layers; i++) {
    const int full = c->types ? c->full[i / 8] >> i % 8 & 1 : (i + 1) % interval == 0;
    const int sparse = experts && !(c->dense[i / 8] >> i % 8 & 1) && (i + 1) % step == 0;
    letter[i] = "maxy"[2 * sparse + full];
  }
  return hf__describe_pattern(c, d, letter);
}

/* Llama: attention and a SwiGLU in each layer. */
static int hf__describe_llama(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *a = &d->layer[2];
  if (!hf__describe_frame(c, d, MIRAS_PRESET_LINEAR_ATTENTION)) return 0;
  if (d->layers > MIRAS_MAX_LAYERS) return hf__config_lacks(c, HF__C_LAYERS, "1 to 256");
  a->mlp.hidden = d->layer[0].mlp.hidden;
  a->attention.heads = d->heads;
  a->attention.kv_heads = hf__config_whole(c, HF__C_KV_HEADS, d->heads, 1);
  a->attention.head_dim =
    c->said[HF__C_HEAD_DIM] ? hf__config_whole(c, HF__C_HEAD_DIM, 0, 2)
                            : hf__config_share(c, HF__C_HEADS, (double)d->width / d->heads);
  a->attention.rope.theta = (float)hf__config_of(c, HF__C_THETA, 10000);
  if (c->result != MIRAS_OK || !hf__describe_window(c, a, 2048)) return 0;
  hf__say(d->pattern, sizeof d->pattern, "a*%d", d->layers);
  d->layers = 0;
  return 1;
}

/* The same in flash-linear-attention's frame; a window there is one of tokens. */
static int hf__describe_transformer(hf__reader *c, miras_model_desc *d) {
  miras_attention_desc *a = &d->layer[2].attention;
  if (!hf__describe_llama(c, d)) return 0;
  if (c->said[HF__C_WINDOW]) a->window = hf__config_whole(c, HF__C_WINDOW, 0, 1);
  a->bias = hf__config_of(c, HF__C_BIAS, 0) > 0;
  return c->result == MIRAS_OK;
}

/* TTT, whose blocks may begin with a convolution. */
static int hf__describe_ttt(hf__reader *c, miras_model_desc *d) {
  static const miras_preset kinds[2][2] = {   /* [deep][shared] */
    {MIRAS_PRESET_TTT_LINEAR, MIRAS_PRESET_TTT_LINEAR_MAMBA},
    {MIRAS_PRESET_TTT_MLP, MIRAS_PRESET_TTT_MLP_MAMBA}};
  const int deep = hf__config_of(c, HF__C_DEEP, 0) > 0;
  const int shared = hf__config_of(c, HF__C_SHARED, 0) > 0;
  miras_layer_desc *l = &d->layer[0];
  miras_memory_desc *m = &l->memory;
  if (!hf__describe_frame(c, d, kinds[deep][shared])) return 0;
  d->untied = hf__config_of(c, HF__C_TIED, 1) < 1;
  m->key_dim = hf__config_share(c, HF__C_HEADS, (double)d->width / d->heads);
  m->chunk = hf__config_whole(c, HF__C_CHUNK, 16, 1);
  if (c->result != MIRAS_OK) return 0;
  m->learning_rate = (float)(hf__config_of(c, HF__C_STEP, 1) / m->key_dim);
  l->mixer.gate_rank = d->heads;
  if (shared) l->mixer.conv_size = hf__config_whole(c, HF__C_CONV, 4, 1);
  l->mixer.out_gate =
    hf__config_of(c, HF__C_GATE, 0) > 0 ? MIRAS_FN_GELU : MIRAS_FN_NONE;
  l->mixer.rope.theta = (float)hf__config_of(c, HF__C_THETA, 10000);
  if (!(hf__config_of(c, HF__C_PRE, 0) > 0)) return c->result == MIRAS_OK;
  d->layer[4].conv.size = hf__config_whole(c, HF__C_CONV, 4, 1);
  c->per = 2;
  hf__say(d->pattern, sizeof d->pattern, "(cm)*%d", d->layers);
  d->layers = 0;
  return c->result == MIRAS_OK;
}

/* The tokens of Mamba and Mamba-2, whose authors round them up to the rows of the embedding. 0:
 * refused. */
static int hf__describe_padded(hf__reader *c) {
  const int rows = hf__embedding_rows(c), words = hf__config_whole(c, HF__C_VOCAB, rows, 2);
  const int step = c->author ? hf__config_whole(c, HF__C_PADDED, 8, 1) : 1;
  if (c->result != MIRAS_OK || !rows) return words;
  if ((words + step - 1) / step * step == rows) return rows;
  return hf__config_lacks(c, HF__C_VOCAB, "the rows of the embedding");
}

/* What all layers of Mamba have. Channels, `inner` of them, are shared out to heads of at most 64,
 * for none of them sees another. */
static int hf__describe_scan(hf__reader *c, const miras_model_desc *d, miras_layer_desc *l,
                             int inner) {
  int size = 64;
  l->memory.key_dim = hf__config_whole(c, HF__C_STATE, 16, 1);
  l->mixer.gate_rank = hf__config_whole(c, HF__C_RATE_RANK, (d->width + 15) / 16, 1);
  l->mixer.conv_size = hf__config_whole(c, HF__C_CONV, 4, 1);
  if (c->result != MIRAS_OK) return 0;
  while (inner % size) size--;
  l->memory.value_dim = size;
  l->memory.heads = inner / size;
  l->mixer.conv_bias = hf__config_of(c, HF__C_CONV_BIAS, 1) > 0;
  l->mixer.projection_bias = hf__config_of(c, HF__C_BIAS, 0) > 0;
  return 1;
}

/* Mamba, and Falcon Mamba, which norms what values make. */
static int hf__describe_mamba(hf__reader *c, miras_model_desc *d) {
  const int falcon = c->says == hf__says_falcon_mamba || c->said[HF__C_INNER_EPSILON];
  miras_layer_desc *l = &d->layer[0];
  int inner;
  miras_model_preset(d, MIRAS_PRESET_MAMBA, 0);
  d->pattern[0] = 0;
  d->width = hf__config_whole(c, HF__C_WIDTH, 0, 1);
  d->layers = hf__config_whole(c, HF__C_LAYERS, 0, 1);
  d->vocab = hf__describe_padded(c);
  d->untied = hf__config_of(c, HF__C_TIED, !c->fla) < 1;
  d->norm_epsilon = (float)hf__config_of(c, HF__C_EPSILON, 1e-5);
  inner = hf__config_whole(c, HF__C_INNER,
                           floor(d->width * hf__config_of(c, HF__C_EXPAND, 2)), 1);
  if (!hf__describe_scan(c, d, l, inner)) return 0;
  d->heads = l->memory.heads;
  if (falcon)
    l->mixer.from_values_epsilon = (float)hf__config_of(c, HF__C_INNER_EPSILON, 1e-6);
  l->mlp.none = 1;
  return 1;
}

/* What all layers of Mamba-2 have, whose sizes are there. */
static int hf__describe_ssd(hf__reader *c, miras_layer_desc *l) {
  const double high = hf__config_of(c, HF__C_HIGH, (double)FLT_MAX);
  if (c->result != MIRAS_OK) return 0;
  l->mixer.norm_heads = l->memory.heads / l->mixer.qk_heads;
  l->mixer.conv_bias = hf__config_of(c, HF__C_CONV_BIAS, 1) > 0;
  l->mixer.projection_bias = hf__config_of(c, HF__C_BIAS, 0) > 0;
  l->mixer.d_skip = 1;
  l->mixer.gate_rank = l->memory.heads;
  l->mixer.out_gate_first = 1;
  l->mixer.dt_min = (float)hf__config_of(c, HF__C_LOW, 0);
  l->mixer.dt_max = high < 1e4 ? (float)high : 0;
  return 1;
}

/* Attention with rotary positions that looks back as far as those that it was trained for; groups:
 * heads of keys where no field says how many, 0: as of queries. */
static int hf__describe_attention(hf__reader *c, const miras_model_desc *d,
                                  miras_attention_desc *a, int groups, double positions,
                                  double theta) {
  positions = hf__config_of(c, HF__C_POSITIONS, positions);
  a->heads = d->heads;
  a->kv_heads = hf__config_whole(c, HF__C_KV_HEADS,
                                 c->none[HF__C_KV_HEADS] || !groups ? d->heads : groups, 1);
  a->head_dim = c->said[HF__C_HEAD_DIM]
                  ? hf__config_whole(c, HF__C_HEAD_DIM, 0, 2)
                  : hf__config_share(c, HF__C_HEADS, floor((double)d->width / d->heads));
  a->rope.theta = (float)hf__config_of(c, HF__C_THETA, theta);
  a->window = positions < 1 ? 1 : positions < 1 << 20 ? (int)positions : 1 << 20;
  if (c->result == MIRAS_OK && !(positions >= 1))
    return hf__config_lacks(c, HF__C_POSITIONS, "1 and more");
  return c->result == MIRAS_OK;
}

/* Mamba-2, whose authors leave out what their code has as a default. */
static int hf__describe_mamba2(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  int inner, size, conv;
  miras_model_preset(d, MIRAS_PRESET_MAMBA2_MEMORY, 0);
  d->width = hf__config_whole(c, HF__C_WIDTH, 0, 1);
  d->layers = hf__config_whole(c, HF__C_LAYERS, 0, 1);
  d->vocab = hf__describe_padded(c);
  if (c->empty)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                         "the limits of a step must be two numbers");
  if (c->author && !c->said[HF__C_LAYER])
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "layer of ssm_cfg is missing");
  if (c->said[HF__C_FLA_NORM] && hf__config_of(c, HF__C_NORM_FIRST, 0) > 0)
    return hf__config_lacks(c, HF__C_NORM_FIRST, "false where there is rmsnorm");
  d->untied = hf__config_of(c, HF__C_TIED, c->author) < 1;
  d->norm_epsilon = (float)hf__config_of(c, HF__C_EPSILON, 1e-5);
  size = hf__config_whole(c, HF__C_HEAD_DIM, 64, 1);
  inner = hf__config_share(c, HF__C_EXPAND,
                           d->width * hf__config_of(c, HF__C_EXPAND, 2));
  l->memory.key_dim = hf__config_whole(c, HF__C_STATE, 128, 1);
  if (c->result != MIRAS_OK) return 0;
  if (hf__config_whole(c, HF__C_INNER, inner, 1) != inner)
    return hf__config_lacks(c, HF__C_INNER, "expand times hidden_size");
  l->memory.value_dim = size;
  d->heads = l->memory.heads = hf__config_whole(c, HF__C_HEADS, inner / size, 1);
  if (c->result == MIRAS_OK && (double)d->heads * size != (double)inner)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                         "expand times hidden_size is not all heads times head_dim");
  conv = hf__tensor_length(c, "backbone.layers.0.mixer.conv1d.weight", 0);
  l->mixer.qk_heads = hf__config_whole(c, HF__C_GROUPS,
                                     (double)((conv - inner) / (2 * l->memory.key_dim)), 1);
  l->mixer.conv_size = hf__config_whole(c, HF__C_CONV, 4, 1);
  l->mlp.none = 1;
  return hf__describe_ssd(c, l);
}

/* Hybrids of Mamba-2, which layer[0] has, and attention, layer[1]. What the embedding is times, e,
 * is 1 here: the stream is all over e, and so are branches, and norms of it have an epsilon over
 * e^2. */
static int hf__describe_hybrid(hf__reader *c, miras_model_desc *d, double epsilon, int groups,
                               double positions) {
  const double e = hf__config_of(c, HF__C_EMBED_BY, 1), by = hf__config_of(c, HF__C_BRANCH_BY, 1);
  miras_layer_desc *l = &d->layer[0], *a = &d->layer[1];
  double inner;
  epsilon = hf__config_of(c, HF__C_EPSILON, epsilon);
  if (!hf__config_whole(c, HF__C_INNER, 0, 1) ||
      !hf__describe_frame(c, d, MIRAS_PRESET_MAMBA2_MEMORY)) return 0;
  if (c->empty)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "one of its lists is empty");
  d->norm_epsilon = (float)(epsilon / (e * e));
  inner = hf__config_of(c, HF__C_INNER_SSM,
                        floor(d->width * hf__config_of(c, HF__C_EXPAND, 2)));
  l->memory.heads = hf__config_whole(c, HF__C_VALUE_HEADS, 128, 1);
  if (c->result != MIRAS_OK) return 0;
  l->memory.value_dim = hf__config_whole(c, HF__C_VALUE_DIM, floor(inner / l->memory.heads), 1);
  l->memory.key_dim = hf__config_whole(c, HF__C_STATE, 256, 1);
  l->mixer.qk_heads = hf__config_whole(c, HF__C_GROUPS, 1, 1);
  l->mixer.conv_size = hf__config_whole(c, HF__C_CONV, 4, 1);
  l->mixer.out_norm_epsilon = (float)epsilon;
  if (c->result != MIRAS_OK || !hf__describe_ssd(c, l)) return 0;
  if (inner > (double)l->memory.heads * l->memory.value_dim ||
      inner < (double)l->memory.heads * l->memory.value_dim)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                         "the width of its memories is not all heads times mamba_d_head");
  l->mixer.out_scale = l->mlp.out_scale = (float)(by / e);
  a->attention.out_scale = a->mlp.out_scale = (float)(by / e);
  a->mlp.hidden = l->mlp.hidden;
  hf__factor(c, "norm.gain", hf__config_of(c, HF__C_LOGITS_BY, 1) /
                             hf__config_of(c, HF__C_LOGITS_OVER, 1));
  hf__factor(c, ".o.bias", by / e * hf__config_of(c, HF__C_SSM_BY, 1));
  return hf__describe_attention(c, d, &a->attention, groups, positions, 10000);
}

/* Falcon-H1: both side by side, and factors of nearly all that is. Those of what a convolution
 * reads are its weights'; a factor of what a product with a bias reads, in, is one of the product
 * and of a bias over it. */
static int hf__describe_falcon_h1(hf__reader *c, miras_model_desc *d) {
  static const char *const views[] = {".conv_v.weight", ".conv_k.weight", ".conv_q.weight"};
  static const char *const biases[] = {".q.bias", ".k.bias", ".v.bias", ".out_gate.bias",
                                       ".gates.bias"};
  const double in = hf__config_of(c, HF__C_SSM_IN_BY, 1);
  const double heads_in = hf__config_of(c, HF__C_ATTENTION_IN_BY, 1);
  miras_layer_desc *l = &d->layer[0];
  int i;
  if (!hf__describe_hybrid(c, d, 1e-5, 8, 8192)) return 0;
  if ((hf__config_of(c, HF__C_BIAS, 0) > 0) != (hf__config_of(c, HF__C_OUT_BIAS, 0) > 0))
    return hf__config_lacks(c, c->said[HF__C_OUT_BIAS] ? HF__C_OUT_BIAS : HF__C_BIAS,
                            "mamba_proj_bias and projectors_bias alike");
  l->type = MIRAS_LAYER_PARALLEL;
  l->attention = d->layer[1].attention;
  l->attention.query_scale = (float)(heads_in * heads_in * hf__config_of(c, HF__C_KEYS_BY, 1));
  l->attention.out_scale *= (float)(heads_in * hf__config_of(c, HF__C_ATTENTION_BY, 1));
  l->mixer.out_scale *= (float)hf__config_of(c, HF__C_SSM_BY, 1);
  l->mixer.gate_scale = (float)(in * hf__config_of(c, HF__C_PARTS_BY, 1));
  l->mixer.low_scale = (float)(in * hf__config_of(c, HF__C_PARTS_BY + 4, 1));
  l->mlp.gate_scale = (float)hf__config_of(c, HF__C_MLP_BY, 1);
  l->mlp.out_scale *= (float)hf__config_of(c, HF__C_MLP_DOWN_BY, 1);
  for (i = 0; i < 3; i++)
    hf__factor(c, views[i], in * hf__config_of(c, HF__C_PARTS_BY + 1 + i, 1));
  for (i = 0; i < 5; i++) hf__factor(c, biases[i], 1 / in);
  if (hf__config_of(c, HF__C_NORMED, 0) > 0) {
    l->mixer.out_gate_first = hf__config_of(c, HF__C_NORM_FIRST, 1) < 1;
  } else {
    l->mixer.out_norm = MIRAS_NORM_NONE;
    l->mixer.out_norm_epsilon = 0;
    l->mixer.norm_heads = l->mixer.out_gate_first = 0;
  }
  return 1;
}

/* Write the pattern of layers m and those of attention, w, which a list of types says, or one of
 * places, or neither: all are `otherwise`. */
static int hf__describe_types(hf__reader *c, miras_model_desc *d, const char *other, int places,
                              char otherwise) {
  char letter[MIRAS_MAX_LAYERS];
  int i;
  if (d->layers > MIRAS_MAX_LAYERS) return hf__config_lacks(c, HF__C_LAYERS, "1 to 256");
  if (c->types && c->types != d->layers)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "layer_types is not of all layers");
  for (i = 0; i < d->layers; i++) {
    const unsigned char *of = c->types ? c->full : c->dense;
    letter[i] = !c->types && !places ? otherwise : of[i / 8] >> i % 8 & 1 ? 'w' : *other;
  }
  return hf__describe_pattern(c, d, letter);
}

static int hf__describe_bamba(hf__reader *c, miras_model_desc *d) {
  miras_attention_desc *a = &d->layer[1].attention;
  if (!hf__describe_hybrid(c, d, 1e-5, 8, 262144)) return 0;
  a->rope.dim = a->head_dim / 2;
  return hf__describe_types(c, d, "m", c->listed[HF__C_DENSE], 'm');
}

/* Granite 4: an MLP for all tokens, which with experts are shared ones: as many as are as wide as
 * the others. The gate that these have is a sigmoid of 0 here, and what is behind it twice. */
static int hf__describe_granite(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0], *a = &d->layer[1];
  int shared, experts;
  if (!hf__describe_hybrid(c, d, 1e-6, 0, 2048)) return 0;
  shared = hf__config_whole(c, HF__C_SHARED_EXPERT, 1024, 1);
  experts = hf__config_whole(c, HF__C_EXPERTS, 8, 0);
  if (c->result != MIRAS_OK) return 0;
  if (experts && (shared % l->mlp.hidden || shared / l->mlp.hidden > 8))
    return hf__config_lacks(c, HF__C_SHARED_EXPERT, "1 to 8 times intermediate_size");
  if (experts) {
    l->mlp.experts = experts;
    l->mlp.experts_per_token = hf__config_whole(c, HF__C_CHOSEN, 2, 1);
    l->mlp.norm_topk = 1;
    l->mlp.shared_experts = shared / l->mlp.hidden;
    hf__factor(c, ".shared_mlp.output_linear.weight", 2);
  } else {
    l->mlp.hidden = shared;
  }
  a->mlp = l->mlp;
  a->attention.query_scale =
    (float)(hf__config_of(c, HF__C_SCORES_BY, 1) * sqrt((double)a->attention.head_dim));
  if (!c->said[HF__C_POSITION] || c->config[HF__C_POSITION] > 0) {
    a->attention.rope.share = MIRAS_ROPE_SHARE_NONE;
    a->attention.rope.theta = 0;
  }
  return c->result == MIRAS_OK && hf__describe_types(c, d, "m", 0, 'm');
}

/* LFM2: gated convolutions and attention with normed queries and keys. */
static int hf__describe_lfm2(hf__reader *c, miras_model_desc *d) {
  const int block = c->said[HF__C_BLOCK_INNER] ? HF__C_BLOCK_INNER : HF__C_INNER;
  const double multiple = hf__config_of(c, HF__C_MULTIPLE, 256);
  miras_layer_desc *l = &d->layer[4], *a = &d->layer[1];
  double inner = hf__config_whole(c, block, 0, 1);
  if (c->result != MIRAS_OK || !hf__describe_frame(c, d, MIRAS_PRESET_MAMBA2_MEMORY)) return 0;
  if (c->empty)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "layer_types is not of all layers");
  d->untied = hf__config_of(c, HF__C_TIED, 1) < 1;
  d->norm_epsilon = (float)hf__config_of(c, HF__C_EPSILON, 1e-5);
  if (hf__config_of(c, HF__C_ADJUST, 1) > 0) {
    inner = floor(2 * inner / 3);
    if (!c->none[HF__C_INNER_FACTOR])
      inner = multiple * ceil(floor(hf__config_of(c, HF__C_INNER_FACTOR, 1) * inner) / multiple);
  }
  l->mlp.none = 0;
  l->mlp.hidden = a->mlp.hidden = hf__config_share(c, block, inner);
  l->conv.size = hf__config_whole(c, HF__C_CONV, 3, 1);
  l->conv.gated = hf__config_of(c, HF__C_CONV_BIAS, 0) > 0 ? 2 : 1;
  a->attention.qk_norm = 1;
  return hf__describe_attention(c, d, &a->attention, 8, 128000, 1e6) &&
         hf__describe_types(c, d, "c", c->listed[HF__C_DENSE], 'w');
}

/* OLMo Hybrid: Gated DeltaNet, and attention whose norms are behind, of which normally each fourth
 * layer is, or the last one. */
static int hf__describe_olmo_hybrid(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0], *a = &d->layer[1];
  int i;
  if (!hf__config_whole(c, HF__C_INNER, 0, 1) ||
      !hf__describe_frame(c, d, MIRAS_PRESET_GATED_DELTANET)) return 0;
  l->mixer.qk_heads = hf__config_whole(c, HF__C_KEY_HEADS, d->heads, 1);
  l->memory.heads = hf__config_whole(c, HF__C_VALUE_HEADS, d->heads, 1);
  if (c->result != MIRAS_OK) return 0;
  l->memory.key_dim = hf__config_whole(c, HF__C_KEY_DIM,
                                       floor(0.75 * d->width / l->mixer.qk_heads), 1);
  l->memory.value_dim = hf__config_whole(c, HF__C_VALUE_DIM, 2 * (double)l->memory.key_dim, 1);
  l->memory.learning_rate = hf__config_of(c, HF__C_NEGATIVE, 1) > 0 ? 2.0f : 1.0f;
  l->mixer.conv_size = hf__config_whole(c, HF__C_CONV, 4, 1);
  l->mixer.gate_rank = 2 * l->memory.heads;
  l->mixer.out_norm_epsilon = 1e-5f * (float)l->memory.key_dim;   /* whatever rms_norm_eps says   */
  a->mlp.hidden = l->mlp.hidden;
  a->attention.qk_norm = 2;
  a->attention.post_norm = 1;
  if (!hf__describe_attention(c, d, &a->attention, 0, 65536, 0)) return 0;
  if (!c->said[HF__C_THETA]) a->attention.rope.share = MIRAS_ROPE_SHARE_NONE;
  if (c->empty)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "layer_types is not of all layers");
  for (i = 3; !c->types && i < d->layers && i < MIRAS_MAX_LAYERS; i += 4)
    c->dense[i / 8] |= (unsigned char)(1 << i % 8);
  if (d->layers < 4) c->dense[0] |= (unsigned char)(1 << (d->layers - 1));
  return hf__describe_types(c, d, "m", 1, 'm');
}

/* Jamba: Mamba with norms of what values make, and attention without positions; each has one MLP or
 * experts. A list of types decides which layers are attention, and then another which have no
 * experts (GGUF), or else periods do. */
static int hf__describe_jamba(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0], *a = &d->layer[1];
  char letter[MIRAS_MAX_LAYERS];
  int i, experts, chosen, period[2], from[2];
  if (!hf__config_whole(c, HF__C_INNER, 0, 1) ||
      !hf__describe_frame(c, d, MIRAS_PRESET_MAMBA)) return 0;
  if (!hf__describe_scan(c, d, l, hf__config_share(
        c, HF__C_EXPAND, d->width * hf__config_of(c, HF__C_EXPAND, 2)))) return 0;
  l->mixer.from_values = 2;
  l->mlp.none = 0;
  a->mlp.hidden = l->mlp.hidden;
  if (!hf__describe_attention(c, d, &a->attention, 8, 262144, 0)) return 0;
  a->attention.rope.share = MIRAS_ROPE_SHARE_NONE;
  experts = hf__config_whole(c, HF__C_EXPERTS, 16, 0);
  chosen = hf__config_whole(c, HF__C_CHOSEN, 2, experts > 1);
  period[0] = hf__config_whole(c, HF__C_INTERVAL, 8, 1);
  period[1] = hf__config_whole(c, HF__C_SPARSE_STEP, 2, 1);
  from[0] = hf__config_whole(c, HF__C_INTERVAL_FROM, 4, 0);
  from[1] = hf__config_whole(c, HF__C_SPARSE_FROM, 1, 0);
  if (c->result != MIRAS_OK) return 0;
  if (from[0] >= period[0])
    return hf__config_lacks(c, HF__C_INTERVAL_FROM, "below attn_layer_period");
  if (from[1] >= period[1])
    return hf__config_lacks(c, HF__C_SPARSE_FROM, "below expert_layer_period");
  if (d->layers > MIRAS_MAX_LAYERS) return hf__config_lacks(c, HF__C_LAYERS, "1 to 256");
  if (c->types && c->types != d->layers)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                         "its list of types is not of all layers");
  c->config[HF__C_EXPERTS] = experts;
  for (i = 0; i < 2 && experts > 1; i++) {
    d->layer[5 + i] = i ? *a : *l;
    d->layer[5 + i].letter = "xy"[i];
    d->layer[5 + i].mlp.experts = experts;
    d->layer[5 + i].mlp.experts_per_token = chosen;
  }
  for (i = 0; i < d->layers; i++) {
    const int full = c->types ? c->full[i / 8] >> i % 8 & 1 : i % period[0] == from[0];
    const int dense = c->types ? c->dense[i / 8] >> i % 8 & 1 : i % period[1] != from[1];
    letter[i] = "mwxy"[2 * (experts > 1 && !dense) + full];
  }
  return hf__describe_pattern(c, d, letter);
}

/* RecurrentGemma: RG-LRU and attention of a window. As in hf__describe_hybrid the embedding is
 * times 1 here, and not times the root of the width, which there is a BF16. */
static int hf__describe_recurrent_gemma(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0], *a = &d->layer[1];
  char letter[MIRAS_MAX_LAYERS], name[64];
  double inner, lru, e, share, epsilon;
  uint32_t bits;
  float root;
  int i;
  if (!hf__config_whole(c, HF__C_INNER, 7680, 2) ||
      !hf__describe_frame(c, d, MIRAS_PRESET_GRIFFIN)) return 0;
  root = (float)sqrt((double)d->width);
  memcpy(&bits, &root, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  memcpy(&root, &bits, sizeof bits);
  e = (double)root, epsilon = (double)d->norm_epsilon;
  d->norm_epsilon = (float)(epsilon / (e * e));
  d->untied = hf__config_of(c, HF__C_TIED, 1) < 1;
  d->logit_cap = (float)hf__config_of(c, HF__C_CAP, 30);
  inner = floor(hf__config_of(c, HF__C_INNER, 7680) / 2);
  a->mlp.hidden = l->mlp.hidden = hf__config_share(c, HF__C_INNER, inner);
  lru = hf__config_whole(c, HF__C_INNER_SSM, d->width, 1);
  l->memory.heads = d->heads;
  l->memory.value_dim =
    hf__config_share(c, c->said[HF__C_INNER_SSM] ? HF__C_INNER_SSM : HF__C_HEADS, lru / d->heads);
  l->memory.key_dim = 1;
  l->mixer.conv_size = hf__config_whole(c, HF__C_CONV, 4, 1);
  l->mixer.out_scale = l->mlp.out_scale = (float)(1 / e);
  a->attention.out_scale = a->mlp.out_scale = (float)(1 / e);
  hf__factor(c, ".o.bias", 1 / e);
  hf__factor(c, ".mlp.down_bias", 1 / e);
  if (!hf__describe_attention(c, d, &a->attention, 0, 2048, 10000)) return 0;
  share = hf__config_of(c, HF__C_PARTIAL, 0.5);
  if (!(share > 0 && share <= 1)) return hf__config_lacks(c, HF__C_PARTIAL, "0 to 1");
  a->attention.rope.share = MIRAS_ROPE_SHARE_ALL;
  a->attention.rope.dim = (int)(a->attention.head_dim * share);
  if (c->empty)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "one of its lists is empty");
  if (d->layers > MIRAS_MAX_LAYERS) return hf__config_lacks(c, HF__C_LAYERS, "1 to 256");
  if (c->types && !c->listed[HF__C_BLOCK_TYPES] && c->types != d->layers)
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "layer_types is not of all layers");
  for (i = 0; i < d->layers; i++) {
    const int of = c->types ? i % c->types : i % 3;
    letter[i] = (c->types ? c->full[of / 8] >> of % 8 & 1 : of == 2) ? 'w' : 'm';
    name[0] = 0;
    hf__say(name, sizeof name, "model.layers.%d.temporal_block.q_proj.bias", i);
    if (letter[i] == 'w' && (hf__config_of(c, HF__C_BIAS, 0) > 0) != !!hf__tensor_named(c, name))
      return hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                           "its attention_bias and the tensors do not agree");
  }
  return hf__describe_pattern(c, d, letter);
}

/* Samba: Mamba with an MLP, and attention, whose layers hf__describe_placed finds. */
static int hf__describe_samba(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *l = &d->layer[0];
  c->said[HF__C_HEADS] = 1, c->config[HF__C_HEADS] = 1;      /* it says those of attention alone  */
  if (!hf__describe_frame(c, d, MIRAS_PRESET_MAMBA)) return 0;
  d->pattern[0] = 0;
  d->norm_epsilon = (float)hf__config_of(c, HF__C_EPSILON, 1e-5);
  if (!hf__describe_scan(c, d, l, hf__config_whole(
        c, HF__C_INNER_SSM, floor(d->width * hf__config_of(c, HF__C_EXPAND, 2)), 1))) return 0;
  l->mlp.none = 0;
  return c->said[HF__C_PLACED] ||
         hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "attn is missing");
}

/* Attention in some layers of a family, as the members of attn say. */
static int hf__describe_placed(hf__reader *c, miras_model_desc *d) {
  miras_layer_desc *a = &d->layer[2];
  char letter[MIRAS_MAX_LAYERS];
  int i;
  if (!c->said[HF__C_PLACED]) return 1;
  if (d->layers > MIRAS_MAX_LAYERS) return hf__config_lacks(c, HF__C_LAYERS, "1 to 256");
  if (!c->listed[HF__C_DENSE])
    return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "attn.layers is missing");
  a->mlp = d->layer[0].mlp;
  a->attention.heads = hf__config_whole(c, HF__C_PLACED_HEADS, 0, 1);
  if (c->result != MIRAS_OK) return 0;
  a->attention.kv_heads = hf__config_whole(c, HF__C_PLACED_KV_HEADS, a->attention.heads, 1);
  a->attention.head_dim =
    hf__config_share(c, HF__C_PLACED_HEADS, (double)d->width / a->attention.heads);
  a->attention.rope.theta = (float)hf__config_of(c, HF__C_PLACED_THETA, 10000);
  a->attention.bias = hf__config_of(c, HF__C_PLACED_BIAS, 0) > 0;
  if (c->result != MIRAS_OK || !hf__describe_window(c, a, 2048)) return 0;
  if (c->said[HF__C_PLACED_WINDOW])
    a->attention.window = hf__config_whole(c, HF__C_PLACED_WINDOW, 0, 1);
  for (i = 0; i < d->layers; i++) letter[i] = c->dense[i / 8] >> i % 8 & 1 ? 'a' : 'm';
  return c->result == MIRAS_OK && hf__describe_pattern(c, d, letter);
}

/* Scale the angles of the layers that the pattern names. Factors that say where from are of
 * Llama 3.1 or, called beta, of yarn. */
static int hf__describe_scaling(hf__reader *c, miras_model_desc *d) {
  static const miras_rope_scaling_type types[] = {
    MIRAS_ROPE_SCALING_NONE, MIRAS_ROPE_SCALING_LINEAR, MIRAS_ROPE_SCALING_YARN,
    MIRAS_ROPE_SCALING_LLAMA3};
  miras_rope_scaling s;
  int slot, i, turns = 0;
  memset(&s, 0, sizeof s);
  s.type = types[(int)hf__config_of(c, HF__C_SCALING, 0)];
  for (slot = HF__C_SCALING_BY; slot <= HF__C_SCALING_SIZE; slot++) {
    const char *name = hf__config_name(c, slot);
    const int far = s.type == MIRAS_ROPE_SCALING_LLAMA3, yarn = s.type == MIRAS_ROPE_SCALING_YARN;
    const int edge = slot == HF__C_SCALING_LOW || slot == HF__C_SCALING_HIGH;
    const int known = slot == HF__C_SCALING_BY     ? s.type != MIRAS_ROPE_SCALING_NONE
                      : slot == HF__C_SCALING_FROM ? far || yarn
                      : edge ? (strstr(name, "beta") ? yarn : far) : yarn;
    if (c->said[slot] ? known : slot != HF__C_SCALING_BY && !(edge && far)) continue;
    if (!c->said[slot] && !s.type) continue;
    hf__reject(c, MIRAS_ERR_DESC, "config.json");
    hf__say(c->why, c->why_size, c->said[slot] ? "%s is %g, which has no meaning with this"
                                                : "%s is missing", name, c->config[slot]);
    hf__say(c->why, c->why_size, c->said[slot] ? " %s" : ", which it needs with this %s",
            hf__config_name(c, HF__C_SCALING));
    return 0;
  }
  if (!s.type) return 1;
  s.factor = (float)c->config[HF__C_SCALING_BY];
  s.low_frequency_factor = (float)hf__config_of(c, HF__C_SCALING_LOW, 0);
  s.high_frequency_factor = (float)hf__config_of(c, HF__C_SCALING_HIGH, 0);
  s.attention_factor = (float)hf__config_of(c, HF__C_SCALING_SIZE, 0);
  for (i = 0; i < MIRAS_MAX_LAYER_KINDS; i++) {
    miras_layer_desc *l = &d->layer[i];
    if (d->pattern[0] ? !l->letter || !strchr(d->pattern, l->letter) : i) continue;
    if ((l->type != MIRAS_LAYER_ATTENTION && l->type != MIRAS_LAYER_PARALLEL) ||
        l->attention.rope.share == MIRAS_ROPE_SHARE_NONE) continue;
    if (s.type != MIRAS_ROPE_SCALING_LINEAR)
      s.context = hf__config_whole(c, HF__C_SCALING_FROM, hf__config_of(
        c, HF__C_POSITIONS, l->attention.window), 1);
    l->attention.rope_scaling = s;
    turns++;
  }
  if (turns || c->result != MIRAS_OK) return c->result == MIRAS_OK;
  hf__reject(c, MIRAS_ERR_DESC, "config.json");
  hf__say(c->why, c->why_size, "%s is there, but nothing turns", hf__config_name(c, HF__C_SCALING));
  return 0;
}

/* ---- names ---- */

/* A row of a family's table: a tensor and the view that it fills. A view of a layer begins with a
 * dot. A tensor's full name is the family's root and the layer's prefix, then `theirs`; after a
 * slash `theirs` is the full name. NULL: the view gets zeros. */
typedef struct hf__name_row {
  const char *theirs, *ours;
  int how;
} hf__name_row;

enum {
  HF__KEPT = 1,      /* not turned                                                                */
  HF__MORE = 2,      /* one is added                                                              */
  HF__AGAIN = 4,     /* over and over, up to the view's end                                       */
  HF__CORNER = 8,    /* below the rows of those before it, too; of no tensor: ones there on the
                           diagonal                                                               */
  HF__BELOW = 16,    /* below those before it, from the first column on; kept                     */
  HF__BY_KEYS = 32,  /* rows are those of key heads, one after the other, and so shared out       */
  HF__BY_QUERIES = 64,  /* of heads of queries                                                    */
  HF__HALF = 128,    /* half of the rows of each: the first                                       */
  HF__OTHER = 256,   /* with it: the other                                                        */
  HF__FLOORS = 512,  /* a row for each layer, from all of which its gates' floors follow          */
  HF__SPREAD = 1024, /* numbers of heads, each for all channels of its head                       */
  HF__EXPERT = 2048, /* of each expert that tokens choose, whose number # stands for              */
  HF__SHARED = 4096, /* of the shared one                                                         */
  HF__STACKED = 8192,   /* rows of all experts below one another, [experts, out, in]; kept: those
                              of blocks, [blocks, in, out]                                        */
  HF__AS_KEYS = 16384,  /* rows of heads, of which several here may be the same, once for each
                              of a token's pairs; here a head has those of all its pairs          */
  HF__ENTRIES = 32768,  /* rows are those of all heads; a head's are turned, one by one           */
  HF__PARTS = 65536, /* shared experts share out all the rows, or with down the columns           */
  HF__HALVES = 131072,   /* of one half of the rows: the first or, with HF__OTHER, the other      */
  HF__PAIRS = 262144,   /* rows of a head's entries that turn together lie side by side           */
  HF__LOG = 524288,     /* numbers are -exp of ours                                               */
  HF__TILED = 1048576,  /* rows are those of heads of values: the first of each key head, then the
                           second of each and so on, in files where they lie like this            */
  HF__INNER = 2097152,  /* with it: not rows but the numbers of each                              */
  HF__ONLY = 4194304, /* times 1 + a miras_layer_type: for layers of this type only               */
  HF__LOG8 = 1 << 26, /* ours is log(8 softplus) of theirs                                        */
  HF__REST = 1 << 27, /* ours is 1 less theirs                                                    */
  HF__END = 1 << 28,  /* at the view's end, before which what is in front of it ends sooner       */
  HF__MOVES = 1 << 29 /* rows are those of five mixes, r, w, k, v, g, which here are w, k, v, r, g;
                           with HF__INNER the numbers of each, of HF__BELOW the rows themselves   */
};
/* The type of layer that a row is for, plus 1; 0: for all. */
#define HF__ONLY_IN(how) ((how) % HF__LOG8 / HF__ONLY)
#define HF__ONLY_OF(type) ((1 + (int)(type)) * HF__ONLY)

/* flash-linear-attention's, with the gates of a family in the order in which they lie here. */
#define HF__FLA_NAMES(...) \
  {"embeddings.weight", "embed.weight", HF__KEPT}, \
  {"norm.weight", "norm.gain", 0}, \
  {"/lm_head.weight", "head.weight", HF__KEPT}, \
  {".attn_norm.weight", ".norm1.gain", 0}, \
  {".attn.q_proj.weight", ".q.weight", 0}, \
  {".attn.k_proj.weight", ".k.weight", HF__AS_KEYS}, \
  {".attn.v_proj.weight", ".v.weight", HF__AS_KEYS}, \
  {".attn.i_proj.weight", ".v.weight", 0}, \
  {".attn.q_proj.bias", ".q.bias", 0}, \
  {".attn.k_proj.bias", ".k.bias", 0}, \
  {".attn.v_proj.bias", ".v.bias", 0}, \
  {NULL, ".o.bias", 0}, \
  {".attn.q_conv1d.weight", ".conv_q.weight", 0}, \
  {".attn.k_conv1d.weight", ".conv_k.weight", HF__AS_KEYS}, \
  {".attn.v_conv1d.weight", ".conv_v.weight", HF__AS_KEYS}, \
  __VA_ARGS__, \
  {".attn.gk_proj.1.weight", ".gates.up", HF__CORNER | HF__AS_KEYS}, \
  {".attn.f_proj.1.weight", ".gates.up", HF__CORNER}, \
  {NULL, ".gates.up", HF__CORNER}, \
  {".attn.dt_bias", ".gates.offset", 0}, \
  {".attn.gk_proj.1.bias", ".gates.offset", HF__AS_KEYS}, \
  {NULL, ".gates.offset", 0}, \
  {".attn.dt_bias_atk", ".gates.offset", HF__END}, \
  {".attn.A_log", ".gates.rate", HF__SPREAD}, \
  {".attn.A_log_atk", ".gates.rate", HF__END}, \
  {".attn.log_atk_scale", ".precondition.centre", 0}, \
  {"/model.lower_bounds", ".gates.rate", HF__FLOORS}, \
  {NULL, ".memory.init", 0}, \
  {NULL, ".memory.decay_log", 0}, \
  {NULL, ".slots.init", 0}, \
  {".attn.g_proj.weight", ".out_gate.weight", 0}, \
  {".attn.g_proj.0.weight", ".out_gate.down", 0}, \
  {".attn.g_proj.1.weight", ".out_gate.up", 0}, \
  {".attn.g_proj.1.bias", ".out_gate.offset", 0}, \
  {".attn.o_norm.weight", ".out_norm.gain", HF__AGAIN}, \
  {".attn.g_norm_swish_gate.weight", ".out_norm.gain", HF__AGAIN}, \
  {".attn.g_norm.weight", ".out_norm.gain", HF__AGAIN}, \
  {".attn.norm.weight", ".out_norm.gain", HF__AGAIN}, \
  {".attn.o_proj.weight", ".o.weight", 0}, \
  {".mlp_norm.weight", ".norm2.gain", 0}, \
  {".mlp.gate_proj.weight", ".mlp.gate", 0}, \
  {".mlp.up_proj.weight", ".mlp.up", 0}, \
  {".mlp.down_proj.weight", ".mlp.down", 0}

static const hf__name_row hf__fla_names[] = {
  HF__FLA_NAMES({".attn.a_proj.weight", ".gates.down", 0},
                {".attn.f_proj.weight", ".gates.down", HF__AS_KEYS},
                {".attn.gk_proj.0.weight", ".gates.down", 0},
                {".attn.f_proj.0.weight", ".gates.down", 0},
                {".attn.b_proj.weight", ".gates.down", HF__AS_KEYS},
                {".attn.b_atk_proj.weight", ".gates.down", 0},
                {".attn.a_atk_proj.weight", ".gates.down", 0})
};

/* Its a is of the precondition, and so the last. */
static const hf__name_row hf__precond_kda_names[] = {
  HF__FLA_NAMES({".attn.f_proj.0.weight", ".gates.down", 0},
                {".attn.b_proj.weight", ".gates.down", 0},
                {".attn.b_atk_proj.weight", ".gates.down", 0},
                {".attn.a_proj.weight", ".gates.down", 0})
};

static const hf__name_row hf__rwkv7_names[] = {
  {"embeddings.weight", "embed.weight", HF__KEPT},
  {"layers.0.pre_norm.weight", "embed_norm.gain", 0},
  {"layers.0.pre_norm.bias", "embed_norm.bias", 0},
  {"norm.weight", "norm.gain", 0},
  {"norm.bias", "norm.bias", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".attn_norm.bias", ".norm1.bias", 0},
  {".attn.x_x", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_r", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_w", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_k", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_v", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_a", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_g", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.r_proj.weight", ".q.weight", 0},
  {".attn.k_proj.weight", ".k.weight", 0},
  {".attn.v_proj.weight", ".v.weight", 0},
  {".attn.o_proj.weight", ".o.weight", 0},
  {".attn.w_lora.lora.0.weight", ".decay.down", 0},
  {".attn.w_lora.lora.2.weight", ".decay.up", 0},
  {".attn.a_lora.lora.0.weight", ".rate.down", 0},
  {".attn.a_lora.lora.2.weight", ".rate.up", 0},
  {".attn.v_lora.lora.0.weight", ".value.down", 0},
  {".attn.v_lora.lora.2.weight", ".value.up", 0},
  {".attn.g_lora.lora.0.weight", ".out_gate.down", 0},
  {".attn.g_lora.lora.2.weight", ".out_gate.up", 0},
  {".attn.w_lora.lora.2.bias", ".gates.offset", 0},
  {".attn.a_lora.lora.2.bias", ".gates.offset", 0},
  {".attn.v_lora.lora.2.bias", ".gates.offset", 0},
  {".attn.k_k", ".erase.scale", 0},
  {".attn.k_a", ".erase.mix", 0},
  {".attn.r_k", ".bonus.gain", 0},
  {NULL, ".memory.init", 0},
  {".attn.g_norm.weight", ".out_norm.gain", 0},
  {".attn.g_norm.bias", ".out_norm.bias", 0},
  {".ffn_norm.weight", ".norm2.gain", 0},
  {".ffn_norm.bias", ".norm2.bias", 0},
  {".ffn.x_k", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.key.weight", ".mlp.up", 0},
  {".ffn.value.weight", ".mlp.down", 0}
};

static const hf__name_row hf__author_names[] = {
  {"emb.weight", "embed.weight", HF__KEPT},
  {"blocks.0.ln0.weight", "embed_norm.gain", 0},
  {"blocks.0.ln0.bias", "embed_norm.bias", 0},
  {"ln_out.weight", "norm.gain", 0},
  {"ln_out.bias", "norm.bias", 0},
  {"head.weight", "head.weight", HF__KEPT},
  {".ln1.weight", ".norm1.gain", 0},
  {".ln1.bias", ".norm1.bias", 0},
  {".att.x_r", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_w", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_k", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_v", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_a", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.x_g", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.receptance.weight", ".q.weight", 0},
  {".att.key.weight", ".k.weight", 0},
  {".att.value.weight", ".v.weight", 0},
  {".att.output.weight", ".o.weight", 0},
  {".att.w1", ".decay.down", HF__KEPT},
  {".att.w2", ".decay.up", HF__KEPT},
  {".att.a1", ".rate.down", HF__KEPT},
  {".att.a2", ".rate.up", HF__KEPT},
  {".att.v1", ".value.down", HF__KEPT},
  {".att.v2", ".value.up", HF__KEPT},
  {".att.g1", ".out_gate.down", HF__KEPT},
  {".att.g2", ".out_gate.up", HF__KEPT},
  {".att.w0", ".gates.offset", 0},
  {".att.a0", ".gates.offset", 0},
  {".att.v0", ".gates.offset", 0},
  {".att.k_k", ".erase.scale", 0},
  {".att.k_a", ".erase.mix", 0},
  {".att.r_k", ".bonus.gain", 0},
  {NULL, ".memory.init", 0},
  {".att.ln_x.weight", ".out_norm.gain", 0},
  {".att.ln_x.bias", ".out_norm.bias", 0},
  {".ln2.weight", ".norm2.gain", 0},
  {".ln2.bias", ".norm2.bias", 0},
  {".ffn.x_k", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.key.weight", ".mlp.up", 0},
  {".ffn.value.weight", ".mlp.down", 0}
};

static const hf__name_row hf__author6_names[] = {
  {"emb.weight", "embed.weight", HF__KEPT},
  {"blocks.0.ln0.weight", "embed_norm.gain", 0},
  {"blocks.0.ln0.bias", "embed_norm.bias", 0},
  {"ln_out.weight", "norm.gain", 0},
  {"ln_out.bias", "norm.bias", 0},
  {"head.weight", "head.weight", HF__KEPT},
  {".ln1.weight", ".norm1.gain", 0},
  {".ln1.bias", ".norm1.bias", 0},
  {".att.time_maa_x", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.time_maa_w", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.time_maa_k", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.time_maa_v", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.time_maa_r", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.time_maa_g", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.time_maa_w1", ".shift.down", HF__KEPT},
  {".att.time_maa_w2", ".shift.up", HF__KEPT | HF__STACKED},
  {".att.receptance.weight", ".q.weight", 0},
  {".att.key.weight", ".k.weight", 0},
  {".att.value.weight", ".v.weight", 0},
  {".att.output.weight", ".o.weight", 0},
  {".att.gate.weight", ".out_gate.weight", HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".att.time_decay_w1", ".decay.down", HF__KEPT},
  {".att.time_decay_w2", ".decay.up", HF__KEPT},
  {".att.time_decay", ".gates.offset", 0},
  {".att.time_faaaa", ".bonus.gain", 0},
  {NULL, ".memory.init", 0},
  {".att.ln_x.weight", ".out_norm.gain", 0},
  {".att.ln_x.bias", ".out_norm.bias", 0},
  {".ln2.weight", ".norm2.gain", 0},
  {".ln2.bias", ".norm2.bias", 0},
  {".ffn.time_maa_k", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.time_maa_r", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.receptance.weight", ".out_gate.weight", HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.key.weight", ".mlp.up", 0},
  {".ffn.value.weight", ".mlp.down", 0}
};

static const hf__name_row hf__rwkv6_names[] = {
  {"embeddings.weight", "embed.weight", HF__KEPT},
  {"layers.0.pre_norm.weight", "embed_norm.gain", 0},
  {"layers.0.pre_norm.bias", "embed_norm.bias", 0},
  {NULL, "embed_norm.bias", 0},
  {"norm.weight", "norm.gain", 0},
  {"norm.bias", "norm.bias", 0},
  {NULL, "norm.bias", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".attn_norm.weight", ".norm1.gain", 0},
  {".attn_norm.bias", ".norm1.bias", 0},
  {NULL, ".norm1.bias", 0},
  {".attn.x_proj.0.mu", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_bias", ".shift.mix",
   HF__BELOW | HF__MOVES | HF__INNER | HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.x_proj.0.linear.weight", ".shift.down", HF__MOVES},
  {".attn.x_proj.2.weight", ".shift.up", HF__MOVES | HF__INNER},
  {".attn.r_proj.linear.weight", ".q.weight", 0},
  {".attn.k_proj.linear.weight", ".k.weight", 0},
  {".attn.v_proj.linear.weight", ".v.weight", 0},
  {".attn.o_proj.weight", ".o.weight", 0},
  {".attn.g_proj.linear.weight", ".out_gate.weight", HF__ONLY_OF(MIRAS_LAYER_RWKV)},
  {".attn.w_proj.linear.lora.0.weight", ".decay.down", 0},
  {".attn.w_proj.linear.lora.2.weight", ".decay.up", 0},
  {".attn.w_proj.linear.lora.2.bias", ".gates.offset", 0},
  {".attn.bonus", ".bonus.gain", 0},
  {NULL, ".memory.init", 0},
  {".attn.g_norm.weight", ".out_norm.gain", 0},
  {".attn.g_norm.bias", ".out_norm.bias", 0},
  {".ffn_norm.weight", ".norm2.gain", 0},
  {".ffn_norm.bias", ".norm2.bias", 0},
  {NULL, ".norm2.bias", 0},
  {".ffn.key.mu", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.receptance.mu", ".shift.mix", HF__BELOW | HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.receptance.linear.weight", ".out_gate.weight", HF__ONLY_OF(MIRAS_LAYER_MLP)},
  {".ffn.key.linear.weight", ".mlp.up", 0},
  {".ffn.value.weight", ".mlp.down", 0}
};

/* RWKV-4's, of whose parts Hugging Face and its author write other names. A mix is how much of the
 * token itself there is. */
#define HF__RWKV4_NAMES(embed, first, att, ffn, k, v, r) \
  {embed ".weight", "embed.weight", HF__KEPT}, \
  {"blocks.0." first ".weight", "embed_norm.gain", 0}, \
  {"blocks.0." first ".bias", "embed_norm.bias", 0}, \
  {"ln_out.weight", "norm.gain", 0}, \
  {"ln_out.bias", "norm.bias", 0}, \
  {"/head.weight", "head.weight", HF__KEPT}, \
  {".ln1.weight", ".norm1.gain", 0}, \
  {".ln1.bias", ".norm1.bias", 0}, \
  {att ".time_mix_" k, ".shift.mix", HF__BELOW | HF__REST | HF__ONLY_OF(MIRAS_LAYER_RWKV4)}, \
  {att ".time_mix_" v, ".shift.mix", HF__BELOW | HF__REST | HF__ONLY_OF(MIRAS_LAYER_RWKV4)}, \
  {att ".time_mix_" r, ".shift.mix", HF__BELOW | HF__REST | HF__ONLY_OF(MIRAS_LAYER_RWKV4)}, \
  {att ".key.weight", ".k.weight", 0}, \
  {att ".value.weight", ".v.weight", 0}, \
  {att ".receptance.weight", ".out_gate.weight", HF__ONLY_OF(MIRAS_LAYER_RWKV4)}, \
  {att ".time_decay", ".memory.decay_log", 0}, \
  {att ".time_first", ".bonus.gain", 0}, \
  {att ".output.weight", ".o.weight", 0}, \
  {".ln2.weight", ".norm2.gain", 0}, \
  {".ln2.bias", ".norm2.bias", 0}, \
  {ffn ".time_mix_" k, ".shift.mix", HF__BELOW | HF__REST | HF__ONLY_OF(MIRAS_LAYER_MLP)}, \
  {ffn ".time_mix_" r, ".shift.mix", HF__BELOW | HF__REST | HF__ONLY_OF(MIRAS_LAYER_MLP)}, \
  {ffn ".receptance.weight", ".out_gate.weight", HF__ONLY_OF(MIRAS_LAYER_MLP)}, \
  {ffn ".key.weight", ".mlp.up", 0}, \
  {ffn ".value.weight", ".mlp.down", 0}
static const hf__name_row hf__rwkv4_names[] = {
  HF__RWKV4_NAMES("embeddings", "pre_ln", ".attention", ".feed_forward", "key", "value",
                  "receptance")
};
static const hf__name_row hf__author4_names[] = {
  HF__RWKV4_NAMES("emb", "ln0", ".att", ".ffn", "k", "v", "r")
};

static const hf__name_row hf__qwen_names[] = {
  {"embed_tokens.weight", "embed.weight", HF__KEPT},
  {"norm.weight", "norm.gain", HF__MORE},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".input_layernorm.weight", ".norm1.gain", HF__MORE},
  {".linear_attn.in_proj_qkvz.weight", ".q.weight", HF__BY_KEYS},
  {".linear_attn.in_proj_qkvz.weight", ".k.weight", HF__BY_KEYS},
  {".linear_attn.in_proj_qkvz.weight", ".v.weight", HF__BY_KEYS},
  {".linear_attn.in_proj_qkvz.weight", ".out_gate.weight", HF__BY_KEYS},
  {".linear_attn.in_proj_qkv.weight", ".q.weight", 0},
  {".linear_attn.in_proj_qkv.weight", ".k.weight", 0},
  {".linear_attn.in_proj_qkv.weight", ".v.weight", 0},
  {".linear_attn.in_proj_z.weight", ".out_gate.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_q.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_k.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_v.weight", 0},
  {".linear_attn.in_proj_ba.weight", ".gates.down", HF__BY_KEYS | HF__HALF | HF__OTHER},
  {".linear_attn.in_proj_ba.weight", ".gates.down", HF__BY_KEYS | HF__HALF},
  {".linear_attn.in_proj_a.weight", ".gates.down", 0},
  {".linear_attn.in_proj_b.weight", ".gates.down", 0},
  {NULL, ".gates.up", HF__CORNER},
  {".linear_attn.dt_bias", ".gates.offset", 0},
  {NULL, ".gates.offset", 0},
  {".linear_attn.A_log", ".gates.rate", 0},
  {NULL, ".memory.init", 0},
  {".linear_attn.norm.weight", ".out_norm.gain", HF__AGAIN},
  {".linear_attn.out_proj.weight", ".o.weight", 0},
  {".self_attn.q_proj.weight", ".q.weight", HF__BY_QUERIES | HF__HALF},
  {".self_attn.q_proj.weight", ".out_gate.weight",
   HF__BY_QUERIES | HF__HALF | HF__OTHER},
  {".self_attn.k_proj.weight", ".k.weight", 0},
  {".self_attn.v_proj.weight", ".v.weight", 0},
  {".self_attn.q_norm.weight", ".q_norm.gain", HF__MORE},
  {".self_attn.k_norm.weight", ".k_norm.gain", HF__MORE},
  {".self_attn.o_proj.weight", ".o.weight", 0},
  {".post_attention_layernorm.weight", ".norm2.gain", HF__MORE},
  {".mlp.gate.weight", ".mlp.router", 0},
  {".mlp.shared_expert_gate.weight", ".mlp.router", 0},
  {".mlp.experts.#.gate_proj.weight", ".mlp.gate", HF__EXPERT},
  {".mlp.experts.#.up_proj.weight", ".mlp.up", HF__EXPERT},
  {".mlp.experts.#.down_proj.weight", ".mlp.down", HF__EXPERT},
  {".mlp.experts.gate_up_proj", ".mlp.gate", HF__EXPERT | HF__STACKED},
  {".mlp.experts.gate_up_proj", ".mlp.up", HF__EXPERT | HF__STACKED},
  {".mlp.experts.down_proj", ".mlp.down", HF__EXPERT | HF__STACKED},
  {".mlp.shared_expert.gate_proj.weight", ".mlp.gate", HF__SHARED},
  {".mlp.shared_expert.up_proj.weight", ".mlp.up", HF__SHARED},
  {".mlp.shared_expert.down_proj.weight", ".mlp.down", HF__SHARED},
  {".mlp.gate_proj.weight", ".mlp.gate", 0},
  {".mlp.up_proj.weight", ".mlp.up", 0},
  {".mlp.down_proj.weight", ".mlp.down", 0}
};

static const hf__name_row hf__llama_names[] = {
  {"embed_tokens.weight", "embed.weight", HF__KEPT},
  {"norm.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".input_layernorm.weight", ".norm1.gain", 0},
  {".self_attn.q_proj.weight", ".q.weight", 0},
  {".self_attn.k_proj.weight", ".k.weight", 0},
  {".self_attn.v_proj.weight", ".v.weight", 0},
  {".self_attn.o_proj.weight", ".o.weight", 0},
  {".post_attention_layernorm.weight", ".norm2.gain", 0},
  {".mlp.gate_proj.weight", ".mlp.gate", 0},
  {".mlp.up_proj.weight", ".mlp.up", 0},
  {".mlp.down_proj.weight", ".mlp.down", 0}
};

static const hf__name_row hf__ttt_names[] = {
  {"embed_tokens.weight", "embed.weight", HF__KEPT},
  {"norm.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".conv.norm.weight", ".norm1.gain", HF__ONLY_OF(MIRAS_LAYER_CONV)},
  {".conv.conv.weight", ".conv_q.weight", HF__ONLY_OF(MIRAS_LAYER_CONV)},
  {".conv.conv.bias", ".conv_q.bias", HF__ONLY_OF(MIRAS_LAYER_CONV)},
  {".seq_norm.weight", ".norm1.gain", HF__ONLY_OF(MIRAS_LAYER_MEMORY)},
  {".seq_modeling_block.q_proj.weight", ".q.weight", 0},
  {".seq_modeling_block.k_proj.weight", ".k.weight", 0},
  {".seq_modeling_block.v_proj.weight", ".v.weight", 0},
  {".seq_modeling_block.conv_q.weight", ".conv_q.weight", HF__ONLY_OF(MIRAS_LAYER_MEMORY)},
  {".seq_modeling_block.conv_q.bias", ".conv_q.bias", HF__ONLY_OF(MIRAS_LAYER_MEMORY)},
  {".seq_modeling_block.conv_k.weight", ".conv_k.weight", HF__ONLY_OF(MIRAS_LAYER_MEMORY)},
  {".seq_modeling_block.conv_k.bias", ".conv_k.bias", HF__ONLY_OF(MIRAS_LAYER_MEMORY)},
  {".seq_modeling_block.learnable_ttt_lr_weight", ".gates.down", 0},
  {NULL, ".gates.up", HF__CORNER},
  {".seq_modeling_block.learnable_ttt_lr_bias", ".gates.offset", 0},
  {".seq_modeling_block.learnable_token_idx", ".memory.rates", 0},
  {".seq_modeling_block.W1", ".memory.init", HF__KEPT},
  {".seq_modeling_block.b1", ".memory.init", HF__KEPT},
  {".seq_modeling_block.W2", ".memory.init", HF__KEPT},
  {".seq_modeling_block.b2", ".memory.init", HF__KEPT},
  {".seq_modeling_block.ttt_norm_weight", ".memory.gain", HF__KEPT},
  {".seq_modeling_block.ttt_norm_bias", ".memory.bias", HF__KEPT},
  {".seq_modeling_block.post_norm.weight", ".out_norm.gain", 0},
  {".seq_modeling_block.post_norm.bias", ".out_norm.bias", 0},
  {".seq_modeling_block.g_proj.weight", ".out_gate.weight", 0},
  {".seq_modeling_block.o_proj.weight", ".o.weight", 0},
  {".ffn_norm.weight", ".norm2.gain", 0},
  {".mlp.gate_proj.weight", ".mlp.gate", 0},
  {".mlp.up_proj.weight", ".mlp.up", 0},
  {".mlp.down_proj.weight", ".mlp.down", 0}
};

#define HF__OF_ATTENTION HF__ONLY_OF(MIRAS_LAYER_ATTENTION)
static const hf__name_row hf__mamba_names[] = {
  {"embeddings.weight", "embed.weight", HF__KEPT},
  {"embedding.weight", "embed.weight", HF__KEPT},
  {"norm_f.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".norm.weight", ".norm1.gain", 0},
  {".mixer.in_proj.weight", ".v.weight", 0},
  {".mixer.in_proj.weight", ".out_gate.weight", 0},
  {".mixer.in_proj.bias", ".v.bias", 0},
  {".mixer.in_proj.bias", ".out_gate.bias", 0},
  {".mixer.conv1d.weight", ".conv_v.weight", 0},
  {".mixer.conv1d.bias", ".conv_v.bias", 0},
  {".mixer.x_proj.weight", ".inner.weight", 0},
  {".mixer.dt_proj.weight", ".gates.up", 0},
  {".mixer.dt_proj.bias", ".gates.offset", 0},
  {".mixer.A_log", ".memory.decay_log", HF__ENTRIES},
  {".mixer.D", ".skip.gain", 0},
  {NULL, ".memory.init", 0},
  {".mixer.out_proj.weight", ".o.weight", 0},
  {".mixer.out_proj.bias", ".o.bias", 0},
  /* Samba's, beside Mamba's */
  {".mixer_norm.weight", ".norm1.gain", 0},
  {".mixer.q_proj.weight", ".q.weight", HF__OF_ATTENTION},
  {".mixer.k_proj.weight", ".k.weight", HF__OF_ATTENTION},
  {".mixer.v_proj.weight", ".v.weight", HF__OF_ATTENTION},
  {".mixer.q_proj.bias", ".q.bias", HF__OF_ATTENTION},
  {".mixer.k_proj.bias", ".k.bias", HF__OF_ATTENTION},
  {".mixer.v_proj.bias", ".v.bias", HF__OF_ATTENTION},
  {NULL, ".o.bias", HF__OF_ATTENTION},
  {".mixer.o_proj.weight", ".o.weight", HF__OF_ATTENTION},
  {".mlp_norm.weight", ".norm2.gain", 0},
  {".mlp.gate_proj.weight", ".mlp.gate", 0},
  {".mlp.up_proj.weight", ".mlp.up", 0},
  {".mlp.down_proj.weight", ".mlp.down", 0}
};

static const hf__name_row hf__mamba2_names[] = {
  {"embeddings.weight", "embed.weight", HF__KEPT},
  {"embedding.weight", "embed.weight", HF__KEPT},
  {"norm_f.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".norm.weight", ".norm1.gain", 0},
  {".mixer.in_proj.weight", ".out_gate.weight", 0},
  {".mixer.in_proj.weight", ".v.weight", 0},
  {".mixer.in_proj.weight", ".k.weight", 0},
  {".mixer.in_proj.weight", ".q.weight", 0},
  {".mixer.in_proj.weight", ".gates.down", 0},
  {".mixer.in_proj.bias", ".out_gate.bias", 0},
  {".mixer.in_proj.bias", ".v.bias", 0},
  {".mixer.in_proj.bias", ".k.bias", 0},
  {".mixer.in_proj.bias", ".q.bias", 0},
  {".mixer.in_proj.bias", ".gates.bias", 0},
  {".mixer.conv1d.weight", ".conv_v.weight", 0},
  {".mixer.conv1d.weight", ".conv_k.weight", 0},
  {".mixer.conv1d.weight", ".conv_q.weight", 0},
  {".mixer.conv1d.bias", ".conv_v.bias", 0},
  {".mixer.conv1d.bias", ".conv_k.bias", 0},
  {".mixer.conv1d.bias", ".conv_q.bias", 0},
  {NULL, ".gates.up", HF__CORNER},
  {".mixer.dt_bias", ".gates.offset", 0},
  {".mixer.A_log", ".gates.rate", 0},
  {".mixer.D", ".skip.gain", 0},
  {NULL, ".memory.init", 0},
  {".mixer.norm.weight", ".out_norm.gain", 0},
  {".mixer.out_proj.weight", ".o.weight", 0},
  {".mixer.out_proj.bias", ".o.bias", 0}
};

static const hf__name_row hf__hybrid_names[] = {
  {"embed_tokens.weight", "embed.weight", HF__KEPT},
  {"final_layernorm.weight", "norm.gain", 0},
  {"norm.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".input_layernorm.weight", ".norm1.gain", 0},
  {".mamba.in_proj.weight", ".out_gate.weight", 0},
  {".mamba.in_proj.weight", ".v.weight", 0},
  {".mamba.in_proj.weight", ".k.weight", 0},
  {".mamba.in_proj.weight", ".q.weight", 0},
  {".mamba.in_proj.weight", ".gates.down", 0},
  {".mamba.in_proj.bias", ".out_gate.bias", 0},
  {".mamba.in_proj.bias", ".v.bias", 0},
  {".mamba.in_proj.bias", ".k.bias", 0},
  {".mamba.in_proj.bias", ".q.bias", 0},
  {".mamba.in_proj.bias", ".gates.bias", 0},
  {".mamba.conv1d.weight", ".conv_v.weight", 0},
  {".mamba.conv1d.weight", ".conv_k.weight", 0},
  {".mamba.conv1d.weight", ".conv_q.weight", 0},
  {".mamba.conv1d.bias", ".conv_v.bias", 0},
  {".mamba.conv1d.bias", ".conv_k.bias", 0},
  {".mamba.conv1d.bias", ".conv_q.bias", 0},
  {NULL, ".gates.up", HF__CORNER},
  {".mamba.dt_bias", ".gates.offset", 0},
  {".mamba.A_log", ".gates.rate", 0},
  {".mamba.D", ".skip.gain", 0},
  {NULL, ".memory.init", 0},
  {".mamba.norm.weight", ".out_norm.gain", 0},
  {".mamba.out_proj.weight", ".o.weight", 0},
  {".mamba.out_proj.bias", ".o.bias", 0},
  {".self_attn.q_proj.weight", ".attention.q.weight", 0},
  {".self_attn.k_proj.weight", ".attention.k.weight", 0},
  {".self_attn.v_proj.weight", ".attention.v.weight", 0},
  {".self_attn.o_proj.weight", ".attention.o.weight", 0},
  {".self_attn.q_proj.weight", ".q.weight", HF__OF_ATTENTION},
  {".self_attn.k_proj.weight", ".k.weight", HF__OF_ATTENTION},
  {".self_attn.v_proj.weight", ".v.weight", HF__OF_ATTENTION},
  {".self_attn.o_proj.weight", ".o.weight", HF__OF_ATTENTION},
  {".pre_ff_layernorm.weight", ".norm2.gain", 0},
  {".post_attention_layernorm.weight", ".norm2.gain", 0},
  {".feed_forward.gate_proj.weight", ".mlp.gate", 0},
  {".feed_forward.up_proj.weight", ".mlp.up", 0},
  {".feed_forward.down_proj.weight", ".mlp.down", 0},
  {".block_sparse_moe.router.layer.weight", ".mlp.router", 0},
  {".block_sparse_moe.router.weight", ".mlp.router", 0},
  {NULL, ".mlp.router", 0},
  {".block_sparse_moe.input_linear.weight", ".mlp.gate", HF__EXPERT | HF__STACKED},
  {".block_sparse_moe.input_linear.weight", ".mlp.up", HF__EXPERT | HF__STACKED},
  {".block_sparse_moe.output_linear.weight", ".mlp.down", HF__EXPERT | HF__STACKED},
  {".block_sparse_moe.experts.gate_up_proj", ".mlp.gate", HF__EXPERT | HF__STACKED},
  {".block_sparse_moe.experts.gate_up_proj", ".mlp.up", HF__EXPERT | HF__STACKED},
  {".block_sparse_moe.experts.down_proj", ".mlp.down", HF__EXPERT | HF__STACKED},
  {".shared_mlp.input_linear.weight", ".mlp.gate", HF__SHARED | HF__PARTS | HF__HALVES},
  {".shared_mlp.input_linear.weight", ".mlp.up",
   HF__SHARED | HF__PARTS | HF__HALVES | HF__OTHER},
  {".shared_mlp.output_linear.weight", ".mlp.down", HF__SHARED | HF__PARTS},
  {".shared_mlp.input_linear.weight", ".mlp.gate", 0},
  {".shared_mlp.input_linear.weight", ".mlp.up", 0},
  {".shared_mlp.output_linear.weight", ".mlp.down", 0}
};

static const hf__name_row hf__jamba_names[] = {
  {"embed_tokens.weight", "embed.weight", HF__KEPT},
  {"final_layernorm.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".input_layernorm.weight", ".norm1.gain", 0},
  {".mamba.in_proj.weight", ".v.weight", 0},
  {".mamba.in_proj.weight", ".out_gate.weight", 0},
  {".mamba.in_proj.bias", ".v.bias", 0},
  {".mamba.in_proj.bias", ".out_gate.bias", 0},
  {".mamba.conv1d.weight", ".conv_v.weight", 0},
  {".mamba.conv1d.bias", ".conv_v.bias", 0},
  {".mamba.x_proj.weight", ".inner.weight", 0},
  {".mamba.dt_layernorm.weight", ".gates_norm.gain", 0},
  {".mamba.b_layernorm.weight", ".k_norm.gain", 0},
  {".mamba.c_layernorm.weight", ".q_norm.gain", 0},
  {".mamba.dt_proj.weight", ".gates.up", 0},
  {".mamba.dt_proj.bias", ".gates.offset", 0},
  {".mamba.A_log", ".memory.decay_log", HF__ENTRIES},
  {".mamba.D", ".skip.gain", 0},
  {NULL, ".memory.init", 0},
  {".mamba.out_proj.weight", ".o.weight", 0},
  {".mamba.out_proj.bias", ".o.bias", 0},
  {".self_attn.q_proj.weight", ".q.weight", 0},
  {".self_attn.k_proj.weight", ".k.weight", 0},
  {".self_attn.v_proj.weight", ".v.weight", 0},
  {".self_attn.o_proj.weight", ".o.weight", 0},
  {".pre_ff_layernorm.weight", ".norm2.gain", 0},
  {".feed_forward.router.weight", ".mlp.router", 0},
  {".feed_forward.experts.#.gate_proj.weight", ".mlp.gate", HF__EXPERT},
  {".feed_forward.experts.#.up_proj.weight", ".mlp.up", HF__EXPERT},
  {".feed_forward.experts.#.down_proj.weight", ".mlp.down", HF__EXPERT},
  {".feed_forward.experts.gate_up_proj", ".mlp.gate", HF__EXPERT | HF__STACKED},
  {".feed_forward.experts.gate_up_proj", ".mlp.up", HF__EXPERT | HF__STACKED},
  {".feed_forward.experts.down_proj", ".mlp.down", HF__EXPERT | HF__STACKED},
  {".feed_forward.gate_proj.weight", ".mlp.gate", 0},
  {".feed_forward.up_proj.weight", ".mlp.up", 0},
  {".feed_forward.down_proj.weight", ".mlp.down", 0}
};

static const hf__name_row hf__recurrent_gemma_names[] = {
  {"embed_tokens.weight", "embed.weight", HF__KEPT},
  {"final_norm.weight", "norm.gain", HF__MORE},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".temporal_pre_norm.weight", ".norm1.gain", HF__MORE},
  {".temporal_block.linear_x.weight", ".v.weight", 0},
  {".temporal_block.linear_x.bias", ".v.bias", 0},
  {".temporal_block.linear_y.weight", ".out_gate.weight", 0},
  {".temporal_block.linear_y.bias", ".out_gate.bias", 0},
  {".temporal_block.conv_1d.weight", ".conv_v.weight", 0},
  {".temporal_block.conv_1d.bias", ".conv_v.bias", 0},
  {".temporal_block.rg_lru.recurrent_gate_weight", ".gates.keep", HF__KEPT | HF__STACKED},
  {".temporal_block.rg_lru.input_gate_weight", ".gates.step", HF__KEPT | HF__STACKED},
  {".temporal_block.rg_lru.recurrent_gate_bias", ".gates.offset", 0},
  {".temporal_block.rg_lru.input_gate_bias", ".gates.offset", 0},
  {".temporal_block.rg_lru.recurrent_param", ".memory.decay_log", HF__ENTRIES | HF__LOG8},
  {NULL, ".memory.init", 0},
  {".temporal_block.linear_out.weight", ".o.weight", 0},
  {".temporal_block.linear_out.bias", ".o.bias", 0},
  {".temporal_block.q_proj.weight", ".q.weight", 0},
  {".temporal_block.k_proj.weight", ".k.weight", 0},
  {".temporal_block.v_proj.weight", ".v.weight", 0},
  {".temporal_block.q_proj.bias", ".q.bias", 0},
  {".temporal_block.k_proj.bias", ".k.bias", 0},
  {".temporal_block.v_proj.bias", ".v.bias", 0},
  {NULL, ".q.bias", 0},
  {NULL, ".k.bias", 0},
  {NULL, ".v.bias", 0},
  {".temporal_block.o_proj.weight", ".o.weight", 0},
  {".temporal_block.o_proj.bias", ".o.bias", 0},
  {".channel_pre_norm.weight", ".norm2.gain", HF__MORE},
  {".mlp_block.gate_proj.weight", ".mlp.gate", 0},
  {".mlp_block.gate_proj.bias", ".mlp.gate_bias", 0},
  {".mlp_block.up_proj.weight", ".mlp.up", 0},
  {".mlp_block.up_proj.bias", ".mlp.up_bias", 0},
  {".mlp_block.down_proj.weight", ".mlp.down", 0},
  {".mlp_block.down_proj.bias", ".mlp.down_bias", 0}
};

static const hf__name_row hf__lfm2_names[] = {
  {"embed_tokens.weight", "embed.weight", HF__KEPT},
  {"embedding_norm.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".operator_norm.weight", ".norm1.gain", 0},
  {".conv.in_proj.weight", ".q.weight", 0},
  {".conv.in_proj.weight", ".k.weight", 0},
  {".conv.in_proj.weight", ".v.weight", 0},
  {".conv.in_proj.bias", ".q.bias", 0},
  {".conv.in_proj.bias", ".k.bias", 0},
  {".conv.in_proj.bias", ".v.bias", 0},
  {".conv.conv.weight", ".conv_q.weight", 0},
  {".conv.conv.bias", ".conv_q.bias", 0},
  {".conv.out_proj.weight", ".o.weight", 0},
  {".conv.out_proj.bias", ".o.bias", 0},
  {".self_attn.q_proj.weight", ".q.weight", 0},
  {".self_attn.k_proj.weight", ".k.weight", 0},
  {".self_attn.v_proj.weight", ".v.weight", 0},
  {".self_attn.q_layernorm.weight", ".q_norm.gain", 0},
  {".self_attn.k_layernorm.weight", ".k_norm.gain", 0},
  {".self_attn.out_proj.weight", ".o.weight", 0},
  {".ffn_norm.weight", ".norm2.gain", 0},
  {".feed_forward.w1.weight", ".mlp.gate", 0},
  {".feed_forward.w3.weight", ".mlp.up", 0},
  {".feed_forward.w2.weight", ".mlp.down", 0}
};

#define HF__OF_MEMORY HF__ONLY_OF(MIRAS_LAYER_MEMORY)
static const hf__name_row hf__olmo_hybrid_names[] = {
  {"embed_tokens.weight", "embed.weight", HF__KEPT},
  {"norm.weight", "norm.gain", 0},
  {"/lm_head.weight", "head.weight", HF__KEPT},
  {".attention_layer_norm.weight", ".norm1.gain", HF__OF_MEMORY},
  {".input_layernorm.weight", ".norm1.gain", HF__OF_MEMORY},
  {".feedforward_layer_norm.weight", ".norm2.gain", HF__OF_MEMORY},
  {".post_attention_layernorm.weight", ".norm2.gain", HF__OF_MEMORY},
  {".post_attention_layernorm.weight", ".norm1.gain", HF__OF_ATTENTION},
  {".post_feedforward_layernorm.weight", ".norm2.gain", HF__OF_ATTENTION},
  {".linear_attn.q_proj.weight", ".q.weight", 0},
  {".linear_attn.k_proj.weight", ".k.weight", 0},
  {".linear_attn.v_proj.weight", ".v.weight", 0},
  {".linear_attn.g_proj.weight", ".out_gate.weight", 0},
  {".linear_attn.q_conv1d.weight", ".conv_q.weight", 0},
  {".linear_attn.k_conv1d.weight", ".conv_k.weight", 0},
  {".linear_attn.v_conv1d.weight", ".conv_v.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_q.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_k.weight", 0},
  {".linear_attn.conv1d.weight", ".conv_v.weight", 0},
  {".linear_attn.a_proj.weight", ".gates.down", 0},
  {".linear_attn.b_proj.weight", ".gates.down", 0},
  {NULL, ".gates.up", HF__CORNER},
  {".linear_attn.dt_bias", ".gates.offset", 0},
  {NULL, ".gates.offset", 0},
  {".linear_attn.A_log", ".gates.rate", 0},
  {NULL, ".memory.init", 0},
  {".linear_attn.o_norm.weight", ".out_norm.gain", HF__AGAIN},
  {".linear_attn.o_proj.weight", ".o.weight", 0},
  {".self_attn.q_proj.weight", ".q.weight", 0},
  {".self_attn.k_proj.weight", ".k.weight", 0},
  {".self_attn.v_proj.weight", ".v.weight", 0},
  {".self_attn.q_norm.weight", ".q_norm.gain", 0},
  {".self_attn.k_norm.weight", ".k_norm.gain", 0},
  {".self_attn.o_proj.weight", ".o.weight", 0},
  {".mlp.gate_proj.weight", ".mlp.gate", 0},
  {".mlp.up_proj.weight", ".mlp.up", 0},
  {".mlp.down_proj.weight", ".mlp.down", 0}
};

#define HF__NAMES(table) table, (int)HF__COUNT(table)
typedef struct hf__family {
  const char *models;   /* model_type in config.json; empty: there is none                        */
  const char *roots;    /* what names may begin with                                              */
  const char *stack;    /* and those of layers then, up to their number                           */
  const char *dropped;  /* beginnings of names that are not needed                                */
  int (*describe)(hf__reader *c, miras_model_desc *d);
  const hf__name_row *rows;
  int count;
  const hf__field *says;
  int says_count;
} hf__family;

static const hf__family hf__families[] = {
  {"gated_deltanet", "model.", "layers.", "", hf__describe_gated_deltanet,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_gated_deltanet)},
  {"gated_deltaproduct", "model.", "layers.", "", hf__describe_gated_deltaproduct,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_gated_deltaproduct)},
  {"delta_net", "model.", "layers.", "", hf__describe_delta_net,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_delta_net)},
  {"gla", "model.", "layers.", "", hf__describe_gla,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_gla)},
  {"retnet", "model.", "layers.", "", hf__describe_retnet,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_retnet)},
  {"linear_attn", "model.", "layers.", "", hf__describe_linear_attn,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_linear_attn)},
  {"hgrn2", "model.", "layers.", "", hf__describe_hgrn2,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_hgrn2)},
  {"kda", "model.", "layers.", "", hf__describe_kda,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_kda)},
  {"precond_kda", "model.", "layers.", "", hf__describe_precond_kda,
   HF__NAMES(hf__precond_kda_names), HF__NAMES(hf__says_precond_kda)},
  {"precond_gated_deltanet", "model.", "layers.", "", hf__describe_precond_gated_deltanet,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_precond_gated_deltanet)},
  {"hgrn", "model.", "layers.", "", hf__describe_hgrn,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_hgrn)},
  {"gsa", "model.", "layers.", "", hf__describe_gsa,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_gsa)},
  {"transformer", "model.", "layers.", "", hf__describe_transformer,
   HF__NAMES(hf__fla_names), HF__NAMES(hf__says_transformer)},
  {"rwkv7", "model.", "layers.", "", hf__describe_rwkv7, HF__NAMES(hf__rwkv7_names),
   HF__NAMES(hf__says_rwkv7)},
  {"rwkv6", "model.", "layers.", "", hf__describe_rwkv6, HF__NAMES(hf__rwkv6_names),
   HF__NAMES(hf__says_rwkv6)},
  {"rwkv", "rwkv.", "blocks.", "", hf__describe_rwkv4, HF__NAMES(hf__rwkv4_names),
   HF__NAMES(hf__says_rwkv4)},
  {"ttt", "model.", "layers.", "", hf__describe_ttt, HF__NAMES(hf__ttt_names),
   HF__NAMES(hf__says_ttt)},
  {"llama", "model.", "layers.", "", hf__describe_llama, HF__NAMES(hf__llama_names),
   HF__NAMES(hf__says_llama)},
  {"qwen3_next", "model.", "layers.", "mtp.", hf__describe_qwen,
   HF__NAMES(hf__qwen_names), HF__NAMES(hf__says_qwen3_next)},
  {"qwen3_5 qwen3_5_text", "model.language_model. model.", "layers.", "model.visual. mtp.",
   hf__describe_qwen, HF__NAMES(hf__qwen_names), HF__NAMES(hf__says_qwen3_5)},
  {"qwen3_5_moe qwen3_5_moe_text", "model.language_model. model.", "layers.",
   "model.visual. mtp.", hf__describe_qwen, HF__NAMES(hf__qwen_names),
   HF__NAMES(hf__says_qwen3_5_moe)},
  {"mamba", "backbone.", "layers.", "", hf__describe_mamba,
   HF__NAMES(hf__mamba_names), HF__NAMES(hf__says_mamba)},
  {"falcon_mamba", "backbone.", "layers.", "", hf__describe_mamba,
   HF__NAMES(hf__mamba_names), HF__NAMES(hf__says_falcon_mamba)},
  {"samba", "backbone.", "layers.", "", hf__describe_samba,
   HF__NAMES(hf__mamba_names), HF__NAMES(hf__says_samba)},
  {"mamba2", "backbone.", "layers.", "", hf__describe_mamba2,
   HF__NAMES(hf__mamba2_names), HF__NAMES(hf__says_mamba2)},
  {"falcon_h1", "model.", "layers.", "", hf__describe_falcon_h1,
   HF__NAMES(hf__hybrid_names), HF__NAMES(hf__says_falcon_h1)},
  {"granitemoehybrid", "model.", "layers.", "", hf__describe_granite,
   HF__NAMES(hf__hybrid_names), HF__NAMES(hf__says_granitemoehybrid)},
  {"bamba", "model.", "layers.", "", hf__describe_bamba,
   HF__NAMES(hf__hybrid_names), HF__NAMES(hf__says_bamba)},
  {"jamba", "model.", "layers.", "", hf__describe_jamba,
   HF__NAMES(hf__jamba_names), HF__NAMES(hf__says_jamba)},
  {"lfm2", "model.", "layers.", "", hf__describe_lfm2,
   HF__NAMES(hf__lfm2_names), HF__NAMES(hf__says_lfm2)},
  {"olmo_hybrid", "model.", "layers.", "", hf__describe_olmo_hybrid,
   HF__NAMES(hf__olmo_hybrid_names), HF__NAMES(hf__says_olmo_hybrid)},
  {"recurrent_gemma", "model.", "layers.", "", hf__describe_recurrent_gemma,
   HF__NAMES(hf__recurrent_gemma_names), HF__NAMES(hf__says_recurrent_gemma)},
  /* without a model_type: fields or tensors tell them */
  {"", "backbone.", "layers.", "", hf__describe_mamba,
   HF__NAMES(hf__mamba_names), HF__NAMES(hf__says_mamba_author)},
  {"", "backbone.", "layers.", "", hf__describe_mamba2,
   HF__NAMES(hf__mamba2_names), HF__NAMES(hf__says_mamba2_author)},
  {"", "", "blocks.", "blocks.0.att.v0 blocks.0.att.v1 blocks.0.att.v2",
   hf__describe_author, HF__NAMES(hf__author_names), NULL, 0},
  {"", "", "blocks.", "", hf__describe_author6, HF__NAMES(hf__author6_names), NULL, 0},
  {"", "", "blocks.", "", hf__describe_author4, HF__NAMES(hf__author4_names), NULL, 0}
};
enum { HF__F_AUTHOR4 = (int)HF__COUNT(hf__families) - 1, HF__F_AUTHOR6 = HF__F_AUTHOR4 - 1,
       HF__F_AUTHOR = HF__F_AUTHOR6 - 1,
       HF__F_MAMBA2_AUTHOR = HF__F_AUTHOR - 1, HF__F_MAMBA_AUTHOR = HF__F_AUTHOR - 2 };

/* ---- the configuration ---- */

/* The family that has this word in its list. MesaNet's solver adds 1e-5 to what it divides by: its
 * answers stay up to several hundredths of their deviation away from the solution, prefill's
 * otherwise than those of steps, and no tolerance here stops where they do. Comba's kernels bring
 * to length 1 what its layer has made of keys and queries, and so undo the first and change what
 * the other takes. */
static void hf__find_family(hf__reader *c, const char *type) {
  size_t i;
  if (hf__same(type, "mesa_net")) {
    hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                  "model_type is mesa_net, whose solver stops before the solution; the layers "
                  "mesa here go on to it, and would give other logits");
    return;
  }
  if (hf__same(type, "comba")) {
    hf__reject_as(c, MIRAS_ERR_DESC, "config.json",
                  "model_type is comba, which corrects queries before they have length 1; the "
                  "layers comba here do it behind, and would give other logits");
    return;
  }
  for (i = 0; i < HF__COUNT(hf__families) && !hf__listed(hf__families[i].models, type);) i++;
  if (i < HF__COUNT(hf__families)) c->family = (int)i;
  if (i < HF__COUNT(hf__families) || c->family >= HF__F_AUTHOR) return;   /* tensors tell him */
  hf__reject(c, MIRAS_ERR_DESC, "config.json");
  hf__say(c->why, c->why_size, "model_type is %s; known here:", type);
  for (i = 0; i < HF__COUNT(hf__families); i++)
    if (hf__families[i].models[0])
      hf__say(c->why, c->why_size, " %s", hf__families[i].models);
}

/* Note a field that the family does not know. */
static void hf__config_unknown(hf__reader *c, const char *name, const char *text) {
  hf__say(c->unknown, HF__SENTENCE, "%s%s is %s", c->unknown[0] ? ", " : "", name, text);
}

/* The row of the family for a field; NULL: it has none. */
static const hf__field *hf__config_row(const hf__reader *c, const char *name) {
  int i;
  for (i = 0; i < c->says_count; i++)
    if (hf__listed(c->says[i].names, name)) return &c->says[i];
  for (i = 0; i < c->common_count; i++)
    if (hf__listed(c->common[i].names, name)) return &c->common[i];
  return NULL;
}

/* A number of a configuration; an infinite one becomes the largest float. */
static int hf__config_number(const char *text, double *x) {
  const int infinite = hf__same(text, "Infinity") || hf__same(text, "-Infinity");
  float real = 0;
  if (!infinite && !hf__read_real(text, &real)) return 0;
  *x = !infinite ? (double)real : *text == '-' ? -(double)FLT_MAX : (double)FLT_MAX;
  return 1;
}

/* Is a literal one of JSON's, or a text? */
static int hf__literal(const char *word) {
  double x;
  return hf__listed("true false", word) || hf__config_number(word, &x);
}

/* Do a row's words allow this scalar? 1: x receives the number that it means; 2: it means nothing;
 * 0: no. */
static int hf__config_allows(const char *says, const char *text, int quoted, double *x) {
  double place = 0, number, same;
  char word[HF__WORD];
  while (hf__next_word(word, &says)) {
    if (hf__same(word, "any")) return 2;
    if (hf__same(word, "null") || hf__same(word, "auto")) {
      if (quoted == (word[0] == 'a') && hf__same(text, word)) return 2;
    } else if (hf__same(word, "number") || hf__same(word, "positive")) {
      if (!quoted && hf__config_number(text, x) &&
          (word[0] == 'n' || (*x > 0 && *x < (double)FLT_MAX))) return 1;
    } else if (!hf__listed("list object {} []", word)) {
      *x = place++;
      if (quoted != hf__literal(word) && hf__same(text, word)) return 1;
      /* a number in another form; and truths as numbers */
      if (!quoted && hf__config_number(text, &number) &&
          ((hf__config_number(word, &same) && number <= same && number >= same) ||
           (hf__same(word, "false") && number <= 0 && number >= 0) ||
           (hf__same(word, "true") && number <= 1 && number >= 1))) return 1;
    }
  }
  return 0;
}

/* Put a number into a slot of a row; another field may have put the same number there, and no
 * other. */
static void hf__config_keep(hf__reader *c, const hf__field *row, int slot, const char *name,
                            double x) {
  const char *names = row->names;
  char word[HF__WORD];
  if (c->said[slot] && (c->config[slot] < x || c->config[slot] > x)) {
    hf__reject(c, MIRAS_ERR_DESC, "config.json");
    hf__say(c->why, c->why_size, "%s is %g and %g", name, x, c->config[slot]);
  }
  c->said[slot] = 1;
  c->config[slot] = x;
  for (c->word[slot] = 0; hf__next_word(word, &names) && !hf__same(word, name);) c->word[slot]++;
}

static void hf__config_scalar(hf__reader *c, const char *name, const char *text,
                              int quoted) {
  const hf__field *row = hf__config_row(c, name);
  const int none = !quoted && hf__same(text, "null");
  double x = 0;
  int allowed;
  if (!row) {
    if (!none) hf__config_unknown(c, name, text);
    return;
  }
  allowed = hf__config_allows(row->says, text, quoted, &x);
  if (!allowed) {
    hf__reject(c, MIRAS_ERR_DESC, "config.json");
    hf__say(c->why, c->why_size, quoted && !text[0] ? "%s is an empty text; known here: %s%s"
            : "%s is %s; known here: %s", name, quoted && !text[0] ? row->says : text,
            quoted && !text[0] ? "" : row->says);
  } else if (row->slot >= 0 && allowed == 1) {
    hf__config_keep(c, row, row->slot, name, x);
  } else if (row->slot >= 0 && none) {
    c->none[row->slot] = 1;
  }
}

/* Is it a slot of the types of layers? Then `words` receives those of attention, and of others. */
static int hf__types_slot(int slot, const char *words[2]) {
  words[0] = slot == HF__C_MAMBA_TYPES     ? "full_attention attention"
             : slot == HF__C_BLOCK_TYPES   ? "attention"
             : slot == HF__C_SLIDING_TYPES ? "sliding_attention" : "full_attention";
  words[1] = slot == HF__C_MAMBA_TYPES   ? "linear_attention mamba"
             : slot == HF__C_BLOCK_TYPES ? "recurrent"
             : slot == HF__C_CONV_TYPES  ? "conv" : "linear_attention";
  return slot == HF__C_TYPES || slot == HF__C_MAMBA_TYPES || slot == HF__C_CONV_TYPES ||
         slot == HF__C_BLOCK_TYPES || slot == HF__C_SLIDING_TYPES;
}

/* How many slots a list of numbers fills, one after the other; 1: all items are of one. */
static int hf__list_slots(int slot) {
  return slot == HF__C_LOW || slot == HF__C_MLP_BY ? 2
         : slot == HF__C_PARTS_BY ? HF__C_PARTS_END - HF__C_PARTS_BY : 1;
}

/* Take item n of a list whose items count. */
static void hf__config_item(hf__reader *c, const hf__field *row, const char *name,
                            int n, const char *text, int quoted) {
  const char *words[2];
  double x = 0;
  int known = 0;
  if (hf__types_slot(row->slot, words)) {
    const int full = hf__listed(words[0], text);
    known = quoted && n < MIRAS_MAX_LAYERS && (full || hf__listed(words[1], text));
    if (known && full) c->full[n / 8] |= (unsigned char)(1 << n % 8);
    if (known) c->types = n + 1;
  } else if (row->slot == HF__C_KV_TYPES) {       /* of layers without attention 0                */
    known = !quoted && n < MIRAS_MAX_LAYERS && hf__config_number(text, &x) && x >= 0;
    if (known && x > 0) {
      c->full[n / 8] |= (unsigned char)(1 << n % 8);
      hf__config_keep(c, row, HF__C_KV_HEADS, name, x);
    }
    if (known) c->types = n + 1;
  } else if (row->slot == HF__C_DENSE) {
    known = !quoted && hf__config_number(text, &x) && x >= 0 && x < MIRAS_MAX_LAYERS &&
            x <= (double)(int)x;
    if (known) c->dense[(int)x / 8] |= (unsigned char)(1 << (int)x % 8);
  } else {                                         /* numbers of one slot, or of several          */
    const int slots = hf__list_slots(row->slot), slot = row->slot + (slots > 1 ? n : 0);
    known = !quoted && hf__config_number(text, &x) && (slots == 1 || n < slots) &&
            (x > 0 || (x >= 0 && row->slot < HF__C_MLP_BY));
    if (known) hf__config_keep(c, row, slot, name, x);
    if (row->slot == HF__C_VALUES) c->values = n + 1;
  }
  if (known) return;
  hf__reject(c, MIRAS_ERR_DESC, "config.json");
  hf__say(c->why, c->why_size, "%s has %s at place %d, which is not known here", name, text, n);
}

/* Read a scalar, or an object that stands for a number: {"__float__": "Infinity"}. Returns 0 if
 * there is neither; *quoted: 1 for a string. */
static int hf__take_scalar(hf__cursor *t, char *text, int *quoted) {
  hf__cursor object = *t;
  hf__skip_space(t);
  if (t->at < t->end && *t->at == '[') return 0;
  if (!hf__take_char(&object, '{')) {
    *quoted = hf__need_scalar(t, text);
    return 1;
  }
  hf__skip_space(&object);
  if (object.at == object.end || *object.at != '"') return 0;
  hf__need_string(&object, text);
  if (!hf__same(text, "__float__")) return 0;
  hf__need_char(&object, ':');
  hf__need_scalar(&object, text);
  hf__need_char(&object, '}');
  *t = object;
  *quoted = 0;
  return 1;
}

static void hf__config_list(hf__reader *c, hf__cursor *t, const hf__field *row,
                            const char *name) {
  char text[HF__NAME_SIZE];
  const char *words[2];
  const int slots = hf__list_slots(row->slot);
  int n = 0, quoted = 0;
  if (!hf__need_char(t, '[')) return;
  if (hf__take_char(t, ']')) {
    if (row->slot != HF__C_DENSE) c->empty = 1;
    c->listed[row->slot] = 1;
    return;
  }
  do {
    if (!hf__take_scalar(t, text, &quoted)) {
      if (t->bad) return;
      hf__reject(c, MIRAS_ERR_DESC, "config.json");
      hf__say(c->why, c->why_size, "%s is a list of lists or objects", name);
      return;
    }
    if (!t->bad && c->result == MIRAS_OK) hf__config_item(c, row, name, n++, text, quoted);
  } while (c->result == MIRAS_OK && hf__take_char(t, ','));
  hf__need_char(t, ']');
  if (slots > 1 && n != slots && !t->bad && c->result == MIRAS_OK) {
    hf__reject(c, MIRAS_ERR_DESC, "config.json");
    hf__say(c->why, c->why_size, row->slot == HF__C_LOW ? "the limits of a step must be two numbers"
                                                        : "%s must be %d numbers", name, slots);
  }
  if (!hf__types_slot(row->slot, words) && row->slot != HF__C_DENSE) return;   /* numbers must be
                                                                                  the same        */
  if (c->listed[row->slot]++ && !t->bad && c->result == MIRAS_OK) {
    hf__reject(c, MIRAS_ERR_DESC, "config.json");
    hf__say(c->why, c->why_size, "%s is there twice", name);
  }
}

/* Read a list or an object. Returns 1 for an object whose members count, which is still to be
 * read. */
static int hf__config_nested(hf__reader *c, hf__cursor *t, const char *name) {
  const hf__field *row = hf__config_row(c, name);
  const int object = *t->at == '{';
  const char *from = t->at;
  if (row && !object && hf__listed(row->says, "list")) {
    hf__config_list(c, t, row, name);
  } else if (row && object && hf__listed(row->says, "object")) {
    if (row->slot >= 0) c->said[row->slot] = 1;
    return 1;
  } else {
    hf__skip_value(t, 0);
    if (t->bad || (row && hf__listed(row->says, "any"))) return 0;
    if (row && hf__listed(row->says, object ? "{}" : "[]")) {
      hf__cursor inside = *t;
      inside.at = from + 1;
      if (hf__take_char(&inside, object ? '}' : ']')) return 0;
    }
    if (!row) {
      hf__config_unknown(c, name, object ? "an object" : "a list");
      return 0;
    }
    hf__reject(c, MIRAS_ERR_DESC, "config.json");
    hf__say(c->why, c->why_size, "%s is %s; known here: %s", name, object ? "an object" : "a list",
            row->says);
  }
  return 0;
}

/* The next word of a list with blanks or commas between, n characters; NULL at its end. */
static const char *hf__list_word(const char **list, size_t *n) {
  const char *word = *list + strspn(*list, " ,");
  *n = strcspn(word, " ,");
  *list = word + *n;
  return *n ? word : NULL;
}

/* Is this a field that the caller named in `ignored`? Then note that the name was met. */
static int hf__config_ignored(hf__reader *c, const char *name) {
  const char *list = c->ignored, *word;
  size_t n;
  int i;
  for (i = 0; list && (word = hf__list_word(&list, &n)) != NULL; i++) {
    if (n != strlen(name) || memcmp(word, name, n) != 0) continue;
    if (i < 64) c->met |= (uint64_t)1 << i;
    return 1;
  }
  return 0;
}

/* Was each of the first 64 words met but for `unknown`, which stands for all that no row knows? */
static int hf__config_met(hf__reader *c) {
  const char *list = c->ignored, *word;
  size_t n;
  int i;
  for (i = 0; list && i < 64 && (word = hf__list_word(&list, &n)) != NULL; i++) {
    char name[64] = "";
    if (c->met >> i & 1) continue;
    if (n == 7 && memcmp(word, "unknown", 7) == 0) {
      c->passing = 1;
      continue;
    }
    memcpy(name, word, n < 63 ? n : 63);
    hf__reject(c, MIRAS_ERR_ARGUMENT, "config.json");
    hf__say(c->why, c->why_size, "it has no field \"%s\", which was to be ignored", name);
    return 0;
  }
  return 1;
}

/* The members of an object, from its brace on; `in` is what stands before their names. */
static void hf__config_object(hf__reader *c, hf__cursor *t, const char *in, int depth) {
  char name[HF__NAME_SIZE], text[HF__NAME_SIZE];
  int quoted = 0;
  if (!hf__need_char(t, '{') || hf__take_char(t, '}')) return;
  do {
    hf__need_string(t, text);
    hf__need_char(t, ':');
    hf__skip_space(t);
    name[0] = 0;
    hf__say(name, sizeof name, "%s%s", in, text);
    if (hf__config_ignored(c, name)) {
      hf__skip_value(t, 0);
    } else if (!*in && hf__begins("attn.", name)) {
      hf__config_unknown(c, name, "no member of attn");
      hf__skip_value(t, 0);
    } else if (!hf__take_scalar(t, text, &quoted)) {
      if (!hf__config_nested(c, t, name)) continue;
      if (depth < 3) hf__config_object(c, t, hf__same(name, "attn") ? "attn." : in, depth + 1);
      else hf__refuse(t);
    } else if (!t->bad && !hf__same(name, "model_type")) {
      hf__config_scalar(c, name, text, quoted);
    }
  } while (c->result == MIRAS_OK && hf__take_char(t, ','));
  hf__need_char(t, '}');
}

/* Were there fields that no row knows? Refuse them all in one sentence, unless the caller passes
 * over such ones. */
static int hf__config_left(hf__reader *c) {
  if (!hf__config_met(c)) return 0;
  if (!c->unknown[0] || c->passing) return 1;
  hf__reject(c, MIRAS_ERR_DESC, "config.json");
  hf__say(c->why, c->why_size, "fields of this model_type that are not known here: %s; ignore "
                               "those that change nothing", c->unknown);
  return 0;
}

/* Find the family: by model_type, or by ssm_cfg and the tensors of Mamba's authors. */
static void hf__config_family(hf__reader *c, hf__cursor *t) {
  char name[HF__NAME_SIZE], text[HF__NAME_SIZE];
  if (!hf__need_char(t, '{') || hf__take_char(t, '}')) return;
  do {
    hf__need_string(t, name);
    hf__need_char(t, ':');
    hf__skip_space(t);
    if (hf__same(name, "ssm_cfg") && c->family < 0) {
      c->author = 1;
      c->family = hf__tensor_named(c, "backbone.layers.0.mixer.x_proj.weight")
                      ? HF__F_MAMBA_AUTHOR : HF__F_MAMBA2_AUTHOR;
    }
    if (t->at < t->end && (*t->at == '{' || *t->at == '[')) {
      hf__skip_value(t, 0);
    } else {
      hf__need_scalar(t, text);
      if (t->bad) return;
      if (hf__same(name, "model_type")) hf__find_family(c, text);
    }
    if (hf__listed("norm_eps fuse_norm", name)) c->fla = 1;
    if (c->result != MIRAS_OK) return;
  } while (hf__take_char(t, ','));
  hf__need_char(t, '}');
}

static int hf__config_read(hf__reader *c) {
  hf__cursor all, t;
  int pass;
  /* that of RWKV's author goes without */
  if (hf__tensor_named(c, "blocks.0.att.r_k")) c->family = HF__F_AUTHOR;
  if (hf__tensor_named(c, "blocks.0.att.time_maa_w1")) c->family = HF__F_AUTHOR6;
  if (hf__tensor_named(c, "blocks.0.att.time_first")) c->family = HF__F_AUTHOR4;
  if (c->family >= 0) c->of = &hf__families[c->family];
  if (!hf__text_of(c, "config.json", c->family < 0, &all)) return c->result == MIRAS_OK;
  for (pass = 0; pass < 2; pass++) {
    t = all;
    if (pass) hf__config_object(c, &t, "", 0);
    else hf__config_family(c, &t);
    hf__skip_space(&t);
    if (c->result != MIRAS_OK) return 0;
    if (t.bad || t.at != t.end)
      return hf__reject_as(c, MIRAS_ERR_FORMAT, "config.json", "it is not valid JSON");
    if (c->family < 0)
      return hf__reject_as(c, MIRAS_ERR_DESC, "config.json", "model_type is missing");
    c->author &= c->family == HF__F_MAMBA_AUTHOR || c->family == HF__F_MAMBA2_AUTHOR;
    c->of = &hf__families[c->family];
    c->says = c->of->says;
    c->says_count = c->of->says_count;
  }
  return hf__config_left(c);
}

/* ---- from a path to tables ---- */

/* Find what the names of tensors begin with: the first of the family's roots that a tensor has. */
static int hf__root_find(hf__reader *c) {
  const char *list = c->of->roots;
  size_t i;
  while (hf__next_word(c->root, &list))
    for (i = 0; i < c->tensor_count; i++)
      if (strncmp(c->tensors[i].name, c->root, strlen(c->root)) == 0) return 1;
  /* they may go without, or begin with something else, which a sentence then says */
  for (i = 0; i < c->tensor_count; i++)
    if (hf__begins(c->of->stack, c->tensors[i].name)) return 1;
  list = c->of->roots;
  hf__next_word(c->root, &list);
  return 1;
}

/* n numbers of a file, little-endian, as floats. form: MIRAS_WEIGHTS_FLOAT, _BF16 or _F16. */
static void hf__widen(float *to, int form, const unsigned char *from, size_t n) {
  size_t i;
  uint32_t x;
  for (i = 0; form == MIRAS_WEIGHTS_FLOAT && i < n; i++) {
    x = hf__get32(from + 4 * i);
    memcpy(&to[i], &x, sizeof x);
  }
  for (i = 0; form == MIRAS_WEIGHTS_BF16 && i < n; i++) {
    x = (uint32_t)from[2 * i] << 16 | (uint32_t)from[2 * i + 1] << 24;
    memcpy(&to[i], &x, sizeof x);
  }
  for (i = 0; form == MIRAS_WEIGHTS_F16 && i < n; i++) {
    const uint32_t bits = (uint32_t)from[2 * i] | (uint32_t)from[2 * i + 1] << 8;
    const uint32_t sign = bits >> 15 << 31, exponent = bits >> 10 & 31;
    const float small = (float)(bits & 1023) * (1.0f / (1 << 24));   /* below 2^-14: exact */
    if (exponent) x = (exponent == 31 ? 255 : exponent + 112) << 23 | (bits & 1023) << 13;
    else memcpy(&x, &small, sizeof x);
    x |= sign;
    memcpy(&to[i], &x, sizeof x);
  }
}

/* Floats are those of the machine there, and are widened. */
static size_t hf__held(const hf__tensor *x, miras_weights as) {
  return x->form == (int)as && as != MIRAS_WEIGHTS_FLOAT ? 2 : 0;
}

/* Begin to read what is at `path`, of which file is the name of a file that may be read: then the
 * folder is that of the file. */
static int hf__reader_start(hf__reader *c, const char *path, int file,
                            const miras_allocator *allocator, uint64_t limit, const char *ignored,
                            char *why, size_t why_size) {
  const size_t n = strlen(path);
  memset(c, 0, sizeof *c);
  c->from = hf__allocator(allocator);
  c->why = why, c->why_size = why_size;
  c->limit = limit;
  c->used = sizeof *c;
  c->ignored = ignored;
  c->config_name = "config.json";
  c->common = hf__says_all;
  c->common_count = (int)HF__COUNT(hf__says_all);
  c->readable = "F32, F16 and BF16";
  c->widen = hf__widen;
  c->held = hf__held;
  c->family = c->open = -1;
  c->per = c->again = c->steps = 1;
  if (why && why_size) why[0] = 0;
  c->config = (double *)hf__alloc(c, HF__CONFIG_SLOTS, sizeof(double) + 4);
  if (!c->config) return 0;
  memset(c->config, 0, HF__CONFIG_SLOTS * (sizeof(double) + 4));
  c->said = (unsigned char *)(c->config + HF__CONFIG_SLOTS);
  c->none = c->said + HF__CONFIG_SLOTS;
  c->word = c->none + HF__CONFIG_SLOTS;
  c->listed = c->word + HF__CONFIG_SLOTS;
  c->unknown = (char *)hf__alloc(c, HF__SENTENCE, 1);
  if (!c->unknown) return 0;
  c->unknown[0] = 0;
  c->path = (char *)hf__alloc(c, n + HF__NAME_SIZE + 2, 1);
  if (!c->path) return 0;
  memcpy(c->path, path, n + 1);
  c->folder = n;
  while (file && c->folder && !strchr("/\\", path[c->folder - 1])) c->folder--;
  if (file && n - c->folder >= HF__NAME_SIZE)
    return hf__reject_as(c, MIRAS_ERR_ARGUMENT, "path", "the file's name is too long");
  if (!file && n && !strchr("/\\", path[n - 1])) c->path[c->folder++] = '/';
  return 1;
}

/* The one file of tensors, by its name in the folder. */
static int hf__file_only(hf__reader *c, const char *name) {
  c->names = (char (*)[HF__NAME_SIZE])hf__alloc(c, 1, HF__NAME_SIZE);
  if (!c->names) return 0;
  memcpy(c->names[0], name, strlen(name) + 1);
  c->files = 1;
  return 1;
}

/* Open a folder, or a file of tensors with config.json beside it: tables of files and tensors, and
 * the configuration. */
static int hf__reader_open(hf__reader *c, const char *path,
                                             const miras_allocator *allocator, uint64_t limit,
                                             const char *ignored, char *why, size_t why_size) {
  static const char index[] = "model.safetensors.index.json", end[] = ".safetensors";
  const size_t n = strlen(path);
  const int file = n >= sizeof end && hf__same(path + n - (sizeof end - 1), end);
  const char *single = "model.safetensors";
  hf__cursor t;
  int indexed = 0;
  if (!hf__reader_start(c, path, file, allocator, limit, ignored, why, why_size)) return 0;
  if (file) single = path + c->folder;
  else indexed = hf__text_of(c, index, 0, &t);
  if (c->result != MIRAS_OK) return 0;
  if (indexed) {
    if (!hf__index_read(c, t, index, 0)) return 0;
    if (!hf__tensors_find(c)) return hf__index_stray(c, index, single);
    if (!hf__index_read(c, t, index, 1)) return 0;
  } else {
    if (!hf__file_only(c, single) || !hf__tensors_find(c)) return 0;
  }
  return hf__config_read(c) && hf__root_find(c);
}

/* ---- from names to pieces ---- */

/* The part of a view that a tensor fills. Number (i, j) of the part, with b = j / group, is of the
 * tensor, seen as rows of `each` numbers:
 *   transposed   number i of row
 *                first + b % steps * apart + b / steps / again * stride + j % group
 *   kept         number j % each of row i
 *   entries      number j / m of row i m + j % m, m = cols / each */
typedef struct hf__piece {
  const hf__tensor *from;         /* NULL: zeros, or ones on the diagonal                         */
  int view, how, layer;
  size_t row, rows, col, cols;       /* place in the view, whose rows are one if it is a vector   */
  size_t each, first, group, stride, again, steps, apart, skip;   /* numbers of a row before ours */
  size_t heads, norms;               /* of its layer's memories, and of what they say             */
  size_t part, parts;                /* which of how many shared experts                          */
  double by;                         /* what its numbers are times                                */
  size_t block, outer, inner, unit;  /* so many of its columns, or of its rows, lie as [inner,
                                        outer, unit] and are [outer, inner, unit] here, or as
                                        HF__MOVES says; block 0: none do                          */
} hf__piece;

/* The place in a file of what is number i here, of rows or columns that lie in another order. */
static size_t hf__place(const hf__piece *p, size_t i) {
  const size_t at = i % p->block, entry = at % p->unit, both = at / p->unit;
  if (p->how & HF__MOVES) return (both < 3 ? both + 1 : both < 4 ? 0 : both) * p->unit + entry;
  return i - at + (both % p->inner * p->outer + both / p->inner) * p->unit + entry;
}

static size_t hf__view_rows(const miras_view *v) {
  return v->rank > 1 ? (size_t)v->shape[0] : 1;
}

static void hf__say_shape(hf__reader *c, int rank, const uint64_t *theirs,
                          const int *ours) {
  int i;
  for (i = 0; i < rank; i++)
    hf__say(c->why, c->why_size, i ? ", %zu" : "[%zu",
            theirs ? (size_t)theirs[i] : (size_t)ours[i]);
  hf__say(c->why, c->why_size, "]");
}

static int hf__reject_shape(hf__reader *c, const hf__tensor *x, const miras_view *v) {
  hf__reject(c, MIRAS_ERR_FORMAT, x->name);
  hf__say(c->why, c->why_size, "its shape ");
  hf__say_shape(c, x->rank, x->shape, NULL);
  hf__say(c->why, c->why_size, " does not fit into %s of this model, ", v->name);
  hf__say_shape(c, v->rank, NULL, v->shape);
  return 0;
}

/* Find what of a piece's columns, or of its rows, lies in another order. */
static void hf__piece_order(const hf__reader *c, hf__piece *p) {
  const size_t all = p->how & HF__INNER ? p->rows : p->cols;
  p->unit = 1;
  p->outer = 2, p->inner = p->block / 2;
  if (p->how & HF__MOVES) p->block = all, p->unit = all / 5;
  if (!(p->how & HF__TILED) || !c->tiled || !p->heads || all % p->heads) return;
  p->block = all;
  p->outer = (size_t)c->groups[0], p->inner = p->heads / p->outer;
  p->unit = all / p->heads;
}

/* Find the place of a tensor, or of zeros, in the view behind the `count` pieces that there are. */
static int hf__piece_fit(hf__reader *c, const miras_view *v, hf__tensor *x,
                         hf__piece *all, int count) {
  hf__piece *p = &all[count];
  const int turned =
    !(p->how & (v->rank > 1 ? HF__KEPT | HF__BELOW | HF__ENTRIES
                             : HF__AGAIN | HF__FLOORS | HF__SPREAD));
  const size_t rows = hf__view_rows(v);
  size_t last = v->count / rows, below = rows, length;
  int i;
  p->row = p->col = 0;
  for (i = 0; i < count; i++) {
    if (all[i].view != p->view) continue;
    if ((p->how & HF__END) && all[i].col + all[i].cols == last && all[i].cols > x->count)
      all[i].cols -= (size_t)x->count;
    if (!(p->how & HF__BELOW)) p->col = all[i].col + all[i].cols;
    if (p->how & (HF__CORNER | HF__BELOW)) p->row = all[i].row + all[i].rows;
  }
  last -= p->col;
  below -= p->row;
  p->from = x;
  p->rows = below;
  p->cols = last;
  if (!x) return 1;
  p->each = p->how & HF__BELOW ? last
          : p->how & HF__STACKED ? (size_t)x->shape[x->rank - 1]
          : v->rank > 1 || (p->how & HF__FLOORS) ? (size_t)(x->count / x->shape[0])
          : turned ? 1 : (size_t)x->count;
  length = (size_t)(x->count / p->each);                  /* its rows, of which the next are ours */
  p->again = p->steps = 1;
  if (turned && (p->how & HF__AS_KEYS) && (c->again > 1 || c->steps > 1)) {
    p->rows = p->each;
    p->again = (size_t)c->again;
    p->steps = (size_t)c->steps;
    p->apart = length / p->steps;
    p->stride = p->group = p->apart / (size_t)c->shared;
    p->cols = p->group * (size_t)c->shared * p->again * p->steps;
    x->taken = x->count;
    if (length % ((size_t)c->shared * p->steps)) return hf__reject_shape(c, x, v);
  } else if (turned) {
    const size_t groups = (size_t)(p->how & HF__BY_KEYS ? c->groups[0]
                                   : p->how & HF__BY_QUERIES ? c->groups[1] : 1);
    const size_t half = p->how & HF__OTHER ? length / 2 : 0;
    p->rows = p->each;
    p->stride = length / groups;
    p->first = (size_t)(x->taken / p->each) / groups;
    p->group = p->stride - p->first < last / groups ? p->stride - p->first : last / groups;
    if (p->how & HF__HALF) p->group = p->stride / 2;
    if (p->how & HF__HALF) p->first = p->how & HF__OTHER ? p->group : 0;
    if (p->how & HF__PARTS) {
      const int halves = (p->how & HF__HALVES) > 0;
      p->group = last, p->rows = below;
      p->first = halves ? half + p->part * last : 0;
      p->skip = halves ? 0 : p->part * below;
      if (p->each != (halves ? below : p->parts * below) ||
          length != (halves ? 2 * p->parts * last : last)) return hf__reject_shape(c, x, v);
    }
    p->cols = p->group * groups;
    x->taken += (uint64_t)p->cols * p->rows;
  } else if (p->how & HF__ENTRIES) {
    p->cols = x->count == v->count && last % p->each == 0 ? last : 0;
    x->taken = x->count;
  } else {
    p->rows = v->rank > 1 ? length : 1;
    p->cols = p->how & (HF__AGAIN | HF__SPREAD) ? last : p->each;
    x->taken = x->count;
  }
  if (p->cols && p->cols <= last && p->rows && p->rows <= below && x->count % p->each == 0 &&
      (p->rows == below || (p->how & (HF__CORNER | HF__BELOW))) &&
      (!(p->how & HF__AGAIN) || p->cols == p->each * p->norms) &&
      (!(p->how & HF__SPREAD) || (p->cols % p->each == 0 && p->each == p->heads)) &&
      (!(p->how & HF__FLOORS) || x->shape[0] == (uint64_t)c->config[HF__C_LAYERS]) &&
      ((p->how & (HF__MOVES | HF__BELOW)) != (HF__MOVES | HF__BELOW) || x->shape[0] == p->rows) &&
      ((p->how & (HF__STACKED | HF__KEPT)) != HF__STACKED ||
       x->shape[0] == (uint64_t)c->config[HF__C_EXPERTS])) {
    hf__piece_order(c, p);
    return 1;
  }
  return hf__reject_shape(c, x, v);
}

/* Make the full name of a row's tensor, of a layer or of the model, and of an expert. */
static void hf__tensor_name(const hf__reader *c, const char *theirs, int layer, int expert,
                            char *name) {
  const char *number = strchr(theirs, '#');
  name[0] = 0;
  if (*theirs == '/') hf__say(name, HF__NAME_SIZE, "%s", theirs + 1);
  else if (layer < 0) hf__say(name, HF__NAME_SIZE, "%s%s", c->root, theirs);
  else hf__say(name, HF__NAME_SIZE, "%s%s%d%s", c->root, c->of->stack,
               layer / c->per, theirs);
  if (!number) return;
  name[strlen(name) - strlen(number)] = 0;
  hf__say(name, HF__NAME_SIZE, "%d%s", expert, number + 1);
}

/* Find the view of [from, to) that a row names; -1: none. skip: the characters of its name before
 * the row's. */
static int hf__view_named(const miras_model *m, int from, int to, size_t skip, const char *ours) {
  const miras_view *views = miras_model_views(m, NULL);
  for (; from < to; from++)
    if (hf__same(views[from].name + skip, ours)) return from;
  return -1;
}

/* Is a view part of an adapter, which no row knows? */
static int hf__is_adapter(const char *name) {
  const size_t n = strlen(name);
  return n > 10 && memcmp(name + n - 10, ".adapter_", 9) == 0;
}

/* The number of a layer's experts, shared ones included; 0: it has one MLP or none. */
static int hf__experts(const miras_model *m, int layer) {
  const miras_layer_desc *l = miras_model_layer(m, layer);
  return l->mlp.experts + l->mlp.shared_experts;
}

/* Does each expert of a layer have rows of the view of this name? */
static int hf__of_experts(const miras_model *m, int layer, const char *ours) {
  return layer >= 0 && hf__experts(m, layer) && hf__listed("mlp.gate mlp.up mlp.down", ours);
}

/* Is a row for this layer (-1: for the model) and this expert (-1: for none)? */
static int hf__row_fits(const miras_model *m, int layer, int expert,
                        const hf__name_row *row) {
  const miras_layer_desc *l = miras_model_layer(m, layer);
  const int shared = expert >= 0 && expert >= l->mlp.experts;
  if ((layer >= 0) != (row->ours[0] == '.') ||
      (row->how & (HF__EXPERT | HF__SHARED)) !=
      (expert < 0 ? 0 : shared ? HF__SHARED : HF__EXPERT)) return 0;
  return !HF__ONLY_IN(row->how) || HF__ONLY_IN(row->how) == 1 + (int)l->type;
}

/* View i, or an expert's rows of it. */
static miras_view hf__view_of(const miras_model *m, int layer, int expert, int i) {
  miras_view v = miras_model_views(m, NULL)[i];
  if (expert < 0) return v;
  v.shape[0] /= hf__experts(m, layer);
  v.count = (size_t)v.shape[0] * (size_t)v.shape[1];
  return v;
}

/* A tensor's name that ends like this one but begins in another way; NULL: none. */
static const char *hf__tensor_ending(const hf__reader *c, const char *name) {
  const size_t n = strlen(name), root = strlen(c->root);
  size_t i;
  for (i = 0; i < c->tensor_count; i++) {
    const char *theirs = c->tensors[i].name;
    const size_t more = strlen(theirs);
    if (more > n && theirs[more - n - 1] == '.' && hf__same(theirs + more - n, name))
      return theirs;
    if (root && strncmp(name, c->root, root) == 0 && hf__same(theirs, name + root))
      return theirs;
  }
  return NULL;
}

/* Refuse a view that is not full, and name the tensors for it, of any dialect, that are not
 * there. */
static int hf__reject_gap(hf__reader *c, const miras_model *m, const miras_view *v,
                          const char *ours, int layer, int expert) {
  char name[HF__NAME_SIZE];
  const char *like = NULL;
  int i;
  hf__reject_as(c, MIRAS_ERR_FORMAT, v->name, "its tensors do not fill it; in no file:");
  for (i = 0; i < c->of->count; i++) {
    const hf__name_row *row = &c->of->rows[i];
    if (!row->theirs || !hf__row_fits(m, layer, expert, row) ||
        !hf__same(row->ours + (layer >= 0), ours)) continue;
    hf__tensor_name(c, row->theirs, layer, expert, name);
    if (hf__tensor_named(c, name)) continue;
    hf__say(c->why, c->why_size, " %s", name);
    if (!like) like = hf__tensor_ending(c, name);
  }
  if (like) hf__say(c->why, c->why_size, "; there is %s, whose beginning is not known", like);
  return 0;
}

/* Can a tensor that a view needs be read? */
static int hf__tensor_fits(hf__reader *c, const hf__tensor *x) {
  if (x->form >= 0 && x->rank <= 5 && x->count) return 1;
  hf__reject(c, MIRAS_ERR_FORMAT, x->name);
  if (x->form < 0)
    hf__say(c->why, c->why_size, "it is of type %s; %s can be read", x->type, c->readable);
  else
    hf__say(c->why, c->why_size, x->count ? "its shape has more than 5 lengths"
                                             : "its shape has no numbers");
  return 0;
}

/* Is this a tensor that no model of the families needs: of a part that is passed over, a head that
 * is the embedding, the angles of rotary positions; without numbers, of integers or doubles, a
 * single number of shape [], or of more than five lengths? */
static int hf__tensor_needless(const hf__reader *c, const miras_model *m,
                               const hf__tensor *x) {
  static const char angles[] = ".inv_freq";
  const size_t n = strlen(x->name), end = sizeof angles - 1;
  return !x->count || x->alone || x->rank > 5 ||
         hf__listed("BOOL I8 U8 I16 U16 I32 U32 I64 U64 F64", x->type) ||
         hf__begins(c->of->dropped, x->name) ||
         (!miras_model_desc_of(m)->untied && hf__same(x->name, "lm_head.weight")) ||
         (n >= end && hf__same(x->name + n - end, angles));
}

/* Find all pieces of the views [from, to): of a layer, of the model (layer -1), or of one expert.
 * Returns how many; -1 if something does not fit. */
static int hf__match(hf__reader *c, const miras_model *m, int layer,
                                    int expert, int from, int to, size_t skip,
                                    hf__piece *piece) {
  int count = 0, i, k;
  for (i = 0; i < c->of->count; i++) {
    const hf__name_row *row = &c->of->rows[i];
    char name[HF__NAME_SIZE];
    hf__tensor *x = NULL;
    miras_view view;
    int v;
    if (!hf__row_fits(m, layer, expert, row)) continue;
    v = hf__view_named(m, from, to, skip, row->ours + (layer >= 0));
    if (v < 0 || hf__of_experts(m, layer, row->ours + 1) != (expert >= 0)) continue;
    if (row->theirs) {
      hf__tensor_name(c, row->theirs, layer, expert, name);
      x = hf__tensor_named(c, name);
      if (!x || hf__begins(c->of->dropped, name)) continue;
      if (!hf__tensor_fits(c, x)) return -1;
    }
    memset(&piece[count], 0, sizeof piece[count]);
    piece[count].view = v;
    piece[count].how = row->how;
    if (layer >= 0 && miras_model_layer(m, layer)->type == MIRAS_LAYER_ATTENTION)
      piece[count].how &= ~HF__AS_KEYS;          /* whose heads of keys are never stored again    */
    piece[count].layer = layer / c->per;
    piece[count].by = 1;
    for (k = 0; k < c->factors; k++)
      if (hf__same(c->factor[k].name, row->ours) ||
          (row->theirs && hf__same(c->factor[k].name, row->theirs)))
        piece[count].by *= c->factor[k].by;
    if (layer >= 0) {
      const miras_layer_desc *l = miras_model_layer(m, layer);
      const int same = l->mixer.norm_heads > 0 ? l->mixer.norm_heads : 1;
      piece[count].parts = (size_t)l->mlp.shared_experts;
      piece[count].part = (size_t)(expert - l->mlp.experts);
      piece[count].heads = (size_t)l->memory.heads;
      piece[count].norms = (size_t)(l->memory.heads / same);
      piece[count].block = row->how & HF__PAIRS ? (size_t)l->attention.head_dim : 0;
    }
    view = hf__view_of(m, layer, expert, v);
    if (!hf__piece_fit(c, &view, x, piece, count)) return -1;
    count++;
  }
  for (i = from; i < to; i++) {
    const char *name = miras_model_views(m, NULL)[i].name;
    size_t rows, full = 0, whole;
    miras_view view;
    if ((layer < 0 && strncmp(name, "blocks.", 7) == 0) || hf__is_adapter(name) ||
        hf__of_experts(m, layer, name + skip) != (expert >= 0)) continue;
    view = hf__view_of(m, layer, expert, i);
    rows = hf__view_rows(&view);
    whole = view.count / rows;
    for (k = 0; k < count; k++) {
      if (piece[k].view != i) continue;
      if (piece[k].how & HF__BELOW) whole = rows;
      full += piece[k].how & HF__BELOW ? piece[k].rows : piece[k].cols;
    }
    if (full != whole)
      return hf__reject_gap(c, m, &view, name + skip, layer, expert) - 1;
  }
  return count;
}

/* ---- from pieces to weights ---- */

/* Read n bytes of a tensor's file, from place `at` on. */
static int hf__bytes_get(hf__reader *c, const hf__tensor *x, uint64_t at, size_t n,
                         unsigned char *bytes) {
  uint64_t size;
  if (c->open != x->file) {
    if (c->file) fclose(c->file);
    c->open = x->file;
    c->file = hf__folder_open(c, c->names[x->file], 1, &size);
    c->stands = 0;
    if (!c->file) return 0;
  }
  if (c->stands != at && !hf__file_seek(c->file, at)) c->stands = 0;
  if (fread(bytes, 1, n, c->file) != n)
    return hf__reject_as(c, MIRAS_ERR_IO, c->names[x->file],
                         "it cannot be read any more; the model is a mixture now");
  c->stands = at + (uint64_t)n;
  return 1;
}

/* Read n numbers of a tensor, at most HF__READ, from number `from` on. */
static int hf__tensor_get(hf__reader *c, const hf__tensor *x, size_t from, size_t n,
                          float *to) {
  const size_t block = x->block, first = from / block, skip = from % block;
  const size_t blocks = (skip + n - 1) / block + 1;
  unsigned char bytes[4 * HF__READ];    /* for 17 blocks of 32, or three of 256 */
  float wide[HF__READ + 2 * 256];
  if (!hf__bytes_get(c, x, x->at + (uint64_t)first * x->bytes, blocks * x->bytes, bytes)) return 0;
  if (n == blocks * block) {
    c->widen(to, x->form, bytes, n);
  } else {
    c->widen(wide, x->form, bytes, blocks * block);
    memcpy(to, wide + skip, n * sizeof *to);
  }
  return 1;
}

/* Read n of a layer's floors, at most 256, from number `from` on, as MIRAS_DECAY_FORM_FLOOR takes
 * them. A floor is the sum, from the second layer up to its own, of a softmax over layers. */
static int hf__floors_get(hf__reader *c, const hf__piece *p, size_t from, size_t n,
                          float *x) {
  const size_t layers = (size_t)(p->from->count / p->each);
  double sum[2][256] = {{0}};      /* of all others, and of these */
  size_t i, j;
  for (j = 0; j < layers; j++) {
    if (!hf__tensor_get(c, p->from, j * p->each + from, n, x)) return 0;
    for (i = 0; i < n; i++) sum[j && j <= (size_t)p->layer][i] += hf__exp((double)x[i]);
  }
  for (i = 0; i < n; i++) {
    const double rate = hf__log(sum[1][i]) - hf__log(sum[0][i]);
    x[i] = rate > -80 ? (float)rate : -80;
  }
  return 1;
}

/* A tensor's number as its view has it. Nothing is added to others, for -0 + 0 is 0. */
static float hf__as_ours(const hf__piece *p, float x) {
  if (p->how & HF__LOG) return (float)hf__log(-(double)x);
  if (p->how & HF__REST) return 1 - x;
  if (p->how & HF__LOG8) {         /* softplus x is x or 0, and log(1 + e^-|x|) more             */
    const double e = hf__exp(x > 0 ? -(double)x : (double)x);
    return (float)hf__log(8 * ((x > 0 ? (double)x : 0) + (e < 1e-6 ? e : hf__log(1 + e))));
  }
  return (float)((double)(p->how & HF__MORE ? x + 1 : x) * p->by);
}

/* Read the part of a piece that lies in the tile of rows [row, row + rows) and columns [col, col +
 * cols). */
static int hf__piece_get(hf__reader *c, const hf__piece *p, size_t row,
                                        size_t rows, size_t col, size_t cols) {
  const size_t top = row > p->row ? row : p->row, left = col > p->col ? col : p->col;
  const size_t below = row + rows < p->row + p->rows ? row + rows : p->row + p->rows;
  const size_t right = col + cols < p->col + p->cols ? col + cols : p->col + p->cols;
  const size_t same = p->how & HF__SPREAD ? p->cols / p->each : 1;
  float *x = c->run;
  size_t i, j, k, n;
  for (i = top; !p->from && i < below; i++) {
    const size_t at = p->col + i - p->row;
    if ((p->how & HF__CORNER) && at >= left && at < right)
      c->tile[(i - row) * cols + at - col] = 1;
  }
  if (!p->from) return 1;
  if (p->group) {
    const int inner = p->block && (p->how & HF__INNER);
    size_t m, t;
    for (i = top; i < below; i += n) {
      const size_t place = inner ? hf__place(p, i - p->row) : i - p->row;
      n = below - i < HF__READ ? below - i : (size_t)HF__READ;
      if (inner && n > p->unit - (i - p->row) % p->unit) n = p->unit - (i - p->row) % p->unit;
      for (j = left; j < right; j += m) {
        m = right - j < HF__TURNED ? right - j : (size_t)HF__TURNED;
        for (t = 0; t < m; t++) {
          const size_t mine = j + t - p->col, at = p->block && !inner ? hf__place(p, mine) : mine;
          const size_t b = at / p->group;
          const size_t from = p->first + b % p->steps * p->apart +
                              b / p->steps / p->again * p->stride + at % p->group;
          if (!hf__tensor_get(c, p->from, from * p->each + p->skip + place, n, x + t * HF__READ))
            return 0;
        }
        for (k = 0; k < n; k++) {
          float *to = c->tile + (i + k - row) * cols + j - col;
          for (t = 0; t < m; t++) to[t] = hf__as_ours(p, x[t * HF__READ + k]);
        }
      }
    }
    return 1;
  }
  if (p->how & HF__ENTRIES) {
    const size_t m = p->cols / p->each;
    for (i = top; i < below; i++)
      for (j = 0; j < m; j++)
        for (k = 0; k < p->each; k += n) {
          size_t e;
          n = p->each - k < HF__READ ? p->each - k : (size_t)HF__READ;
          if (!hf__tensor_get(c, p->from, ((i - p->row) * m + j) * p->each + k, n, x)) return 0;
          for (e = 0; e < n; e++) {
            const size_t at = p->col + (k + e) * m + j;
            if (at >= left && at < right)
              c->tile[(i - row) * cols + at - col] = hf__as_ours(p, x[e]);
          }
        }
    return 1;
  }
  for (i = top; i < below; i++) {
    const size_t line = p->block ? hf__place(p, i - p->row) : i - p->row;
    for (j = left; j < right; j += n) {
      const size_t at = (j - p->col) / same % p->each;
      n = right - j < p->each - at ? right - j : p->each - at;
      if (n > 256) n = 256;
      if (same > 1) n = 1;
      if (!(p->how & HF__FLOORS
            ? hf__floors_get(c, p, at, n, x)
            : hf__tensor_get(c, p->from, line * p->each + at, n, x))) return 0;
      for (k = 0; k < n; k++) c->tile[(i - row) * cols + j + k - col] = hf__as_ours(p, x[k]);
    }
  }
  return 1;
}

/* The number of its tensor with which line i of a piece begins. */
static size_t hf__line_at(const hf__piece *p, size_t i) {
  if (p->group) {
    const size_t at = p->block ? hf__place(p, i) : i, b = at / p->group;
    i = p->first + b % p->steps * p->apart + b / p->steps / p->again * p->stride + at % p->group;
  }
  return i * p->each + p->skip;
}

/* Is a piece lines of `count` numbers, as a product sums over them, each whole in its tensor? */
static int hf__is_lines(const hf__piece *p, const miras_view *v, size_t count) {
  const int other = HF__ENTRIES | HF__AGAIN | HF__FLOORS | HF__SPREAD | HF__CORNER;
  if (!p->from || v->rank != 2 || (p->how & other) || (p->group != 0) == (v->turned != 0) ||
      (p->block && (!p->group || (p->how & HF__INNER)))) return 0;
  if (v->turned && (p->col || p->cols != p->each)) return 0;
  return (v->turned ? p->cols : p->rows) == count && count % p->from->block == 0 &&
         p->each % p->from->block == 0 && p->skip % p->from->block == 0;
}

/* Write a piece that is lines, `first` rows further down, or note what that will take. Lines of the
 * form in which the view is held go as they are. */
static int hf__lines_fill(hf__reader *c, miras_model *m, const miras_view *view, size_t first,
                          const hf__piece *p, int write) {
  const size_t line = view->turned ? first + p->row : p->col;
  const size_t lines = view->turned ? p->rows : p->cols, count = view->turned ? p->cols : p->rows;
  const hf__tensor *x = p->from;
  const size_t blocks = count / x->block, bytes = blocks * x->bytes;
  const int same = !(p->how & (HF__LOG | HF__MORE | HF__REST)) && p->by >= 1 && p->by <= 1;
  int form, as = 0;
  size_t i, j, k, n, some, each = 0;
  if (view->turned) first = 0;
  for (form = 1; same && form <= (int)miras_model_desc_of(m)->weights; form++)
    if (c->held(x, (miras_weights)form) && (form < MIRAS_WEIGHTS_Q8 || first % 32 == 0) &&
        miras_model_view_write_lines(m, view, 0, 0, 0, 0, (miras_weights)form, NULL, 0) ==
        MIRAS_OK)
      as = form, each = c->held(x, (miras_weights)form);
  n = lines < HF__LINES ? lines : (size_t)HF__LINES;
  if (c->raw_room < n * bytes) c->raw_room = n * bytes;
  if (each != x->bytes && c->tile_room < n * count) c->tile_room = n * count;
  for (j = 0; write && j < lines; j += n) {
    const void *from = c->raw;
    size_t stride = blocks * each;
    form = as;
    n = HF__LINES - (line + j) % HF__LINES;
    if (n > lines - j) n = lines - j;
    for (k = 0; k < n; k += some) {
      const size_t at = hf__line_at(p, j + k);
      for (some = 1; k + some < n && hf__line_at(p, j + k + some) == at + some * count;) some++;
      if (!hf__bytes_get(c, x, x->at + (uint64_t)(at / x->block) * x->bytes, some * bytes,
                         c->raw + k * bytes)) return 0;
    }
    if (each != x->bytes) from = c->tile;
    if (each && each != x->bytes && !c->take((unsigned char *)c->tile, c->raw, n * blocks))
      form = 0;
    if (!form) stride = count * sizeof(float);
    for (k = 0; !form && k < n; k++) {
      float *to = c->tile + k * count;
      c->widen(to, x->form, c->raw + k * bytes, count);
      for (i = 0; !same && i < count; i++) to[i] = hf__as_ours(p, to[i]);
    }
    if (miras_model_view_write_lines(m, view, line + j, n, first, count, (miras_weights)form, from,
                                     stride) != MIRAS_OK)
      return hf__reject_as(c, MIRAS_ERR_STATE, view->name, "it cannot be written");
  }
  return 1;
}

/* Write view i from its pieces, or without `write` note what that will take; v is the view, or the
 * rows of it that are the expert's. */
static int hf__view_fill(hf__reader *c, miras_model *m, int i, const miras_view *v, int expert,
                         const hf__piece *piece, int count, int write) {
  const miras_view *view = &miras_model_views(m, NULL)[i];
  const size_t rows = hf__view_rows(v), all = v->count / rows;
  const size_t first = expert < 0 ? 0 : rows * (size_t)expert;
  size_t row, col, high = 1, wide = HF__TILE_ROW, n;
  int p, lines = 1;
  for (p = 0; p < count; p++)
    if (piece[p].view == i && !hf__is_lines(&piece[p], v, v->turned ? all : rows)) lines = 0;
  for (p = 0; p < count && lines; p++)
    if (piece[p].view == i && !hf__lines_fill(c, m, view, first, &piece[p], write)) return 0;
  if (lines) return 1;
  if (view->weight_decay && !view->turned) high = rows, wide = HF__TILE_COLS;   /* whole blocks */
  for (p = 0; p < count; p++)
    if (piece[p].view == i && piece[p].group && v->rank > 1) high = rows, wide = HF__TILE_COLS;
  if (c->tile_room < high * wide) c->tile_room = high * wide;
  if (!write) return 1;
  for (row = 0; row < rows; row += high) {
    for (col = 0; col < all; col += wide) {
      n = all - col < wide ? all - col : wide;
      memset(c->tile, 0, high * n * sizeof(float));
      for (p = 0; p < count; p++)
        if (piece[p].view == i && !hf__piece_get(c, &piece[p], row, high, col, n)) return 0;
      miras_model_view_write(m, view, first + row, high, col, n, c->tile);
    }
  }
  return 1;
}

/* Go over every view and its tensors: check that all fits and every tensor is used up, and find how
 * large tiles are, or with `write` read and write. piece is room for one of each row of the
 * family. */
static int hf__fill(hf__reader *c, miras_model *m, hf__piece *piece, int write) {
  const miras_view *views = miras_model_views(m, NULL);
  const int layers = miras_model_desc_of(m)->layers;
  int layer, expert, from = 0, to, count, v;
  size_t i;
  miras_model_views(m, &to);
  for (i = 0; i < c->tensor_count; i++) c->tensors[i].taken = 0;
  for (layer = -1; layer < layers; layer++) {
    char prefix[32] = "";
    if (layer >= 0) {                /* in their order, behind the embedding and before the head */
      hf__say(prefix, sizeof prefix, "blocks.%d.", layer);
      for (from = layer ? to : 0; !hf__begins(prefix, views[from].name);) from++;
      for (to = from; hf__begins(prefix, views[to].name);) to++;
    }
    for (expert = -1; expert < (layer < 0 ? 0 : hf__experts(m, layer)); expert++) {
      count = hf__match(c, m, layer, expert, from, to, strlen(prefix), piece);
      if (count < 0) return 0;
      for (v = from; v < to; v++) {
        const miras_view view = hf__view_of(m, layer, expert, v);
        if (hf__of_experts(m, layer, view.name + strlen(prefix)) == (expert >= 0) &&
            !hf__is_adapter(view.name) &&
            !hf__view_fill(c, m, v, &view, expert, piece, count, write)) return 0;
      }
    }
  }
  for (i = 0; i < c->tensor_count; i++) {
    const hf__tensor *x = &c->tensors[i];
    if (x->taken == x->count || (!x->taken && hf__tensor_needless(c, m, x))) continue;
    hf__reject(c, MIRAS_ERR_FORMAT, x->name);
    hf__say(c->why, c->why_size, x->taken ? "it has more rows than the model that %s describes"
            : "the model that %s describes has no such tensor", c->config_name);
    return 0;
  }
  return 1;
}

/* ---- the public calls ---- */

/* The model that config.json describes: as a caller would describe it, and with all defaults; and
 * what is wrong with it. Too large for a stack. */
typedef struct hf__described {
  miras_model_desc is, resolved;
  char said[256];
} hf__described;

static hf__described *hf__describe(hf__reader *c) {
  hf__described *to = (hf__described *)hf__alloc(c, 1, sizeof *to);
  if (!to) return NULL;
  memset(to, 0, sizeof *to);
  return c->of->describe(c, &to->is) && hf__describe_placed(c, &to->is) &&
         hf__describe_scaling(c, &to->is) ? to : NULL;
}

/* Fill in the defaults. Returns the number of parameters; 0 for a refusal. */
static uint64_t hf__resolve(hf__reader *c, hf__described *to) {
  uint64_t parameters;
  to->resolved = to->is;
  to->resolved.limit = 0;            /* of which miras_model_size tells */
  parameters = miras_model_desc_resolve(&to->resolved, to->said, sizeof to->said);
  if (parameters) return parameters;
  hf__reject(c, MIRAS_ERR_DESC, "config.json");
  hf__say(c->why, c->why_size, "it describes no model that can be: %s", to->said);
  return 0;
}

/* Describe in d what has been opened. */
static void hf__desc_fill(hf__reader *c, miras_model_desc *d) {
  hf__described *to = hf__describe(c);
  uint64_t numbers = 0, parameters;
  size_t i;
  if (!to) return;
  to->is.limit = d->limit;
  to->is.weights = d->weights;
  for (i = 0; i < c->tensor_count; i++)
    numbers += c->tensors[i].form < 0 ? 0 : c->tensors[i].count;
  parameters = hf__resolve(c, to);
  if (!parameters) return;
  if (!miras_model_size(&to->is, c->why, c->why_size)) c->result = MIRAS_ERR_SIZE;
  /* so that small files cannot ask for a large model */
  if (parameters / 16 > numbers)
    hf__reject_as(c, MIRAS_ERR_FORMAT, "config.json",
                  "it describes a model far larger than its tensors");
  if (c->result == MIRAS_OK) *d = to->is;
}

MIRAS_API miras_result miras_checkpoint_desc(miras_model_desc *d, const char *path,
                                             const char *ignored,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size) {
  hf__reader *c;
  if (!d || !path) return MIRAS_ERR_ARGUMENT;
  c = hf__reader_new(allocator, why, why_size);
  if (!c) return MIRAS_ERR_ALLOC;
  if (hf__reader_open(c, path, allocator, d->limit, ignored, why, why_size)) hf__desc_fill(c, d);
  return hf__reader_drop(c);
}

/* Is m, of descriptor d, the model that was read? Windows of attention, resets, dropout, seed,
 * adapters and what the head learns may be as m has them. */
static int hf__same_model(hf__reader *c, hf__described *to, const miras_model_desc *d) {
  int i;
  for (i = 0; i < MIRAS_MAX_LAYER_KINDS; i++) {
    miras_layer_desc *l = &to->is.layer[i];
    if (l->type == MIRAS_LAYER_ATTENTION || l->type == MIRAS_LAYER_MAG ||
        l->type == MIRAS_LAYER_MAC) l->attention.window = d->layer[i].attention.window;
    if (l->type == d->layer[i].type) l->memory.reset_every = d->layer[i].memory.reset_every;
  }
  to->is.dropout = d->dropout;
  to->is.seed = d->seed;
  to->is.adapt = d->adapt;
  to->is.adapter = d->adapter;
  memcpy(to->is.adapters, d->adapters, sizeof d->adapters);
  if (!hf__resolve(c, to)) return 0;
  if (!miras_model_desc_differs(&to->resolved, d, to->said, sizeof to->said)) return 1;
  return hf__reject_as(c, MIRAS_ERR_MISMATCH, "config.json", to->said);
}

/* Write what has been opened into m, of descriptor d. */
static void hf__model_fill(hf__reader *c, miras_model *m, const miras_model_desc *d) {
  hf__described *to = hf__describe(c);
  hf__piece *piece;
  if (!to || !hf__same_model(c, to, d)) return;
  piece = (hf__piece *)hf__alloc(c, (size_t)c->of->count, sizeof *piece);
  if (!piece || !hf__fill(c, m, piece, 0)) return;
  c->tile = (float *)hf__alloc(c, c->tile_room, sizeof(float));
  c->raw = (unsigned char *)hf__alloc(c, c->raw_room + 1, 1);
  if (c->tile && c->raw) hf__fill(c, m, piece, 1);
}

MIRAS_API miras_result miras_checkpoint_load(miras_model *m, const char *path, const char *ignored,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size) {
  const miras_model_desc *d = miras_model_desc_of(m);
  hf__reader *c;
  if (!m || !path) return MIRAS_ERR_ARGUMENT;
  c = hf__reader_new(allocator, why, why_size);
  if (!c) return MIRAS_ERR_ALLOC;
  if (hf__reader_open(c, path, allocator, d->limit, ignored, why, why_size))
    hf__model_fill(c, m, d);
  return hf__reader_drop(c);
}

MIRAS_API miras_model *miras_checkpoint_open(const miras_model_desc *d, const char *path,
                                             const char *ignored,
                                             const miras_allocator *allocator, char *why,
                                             size_t why_size) {
  miras_model *m;
  if (why && why_size) why[0] = 0;
  if (!d || !path) return NULL;
  m = miras_model_open_empty(d, allocator, why, why_size);
  if (!m || miras_checkpoint_load(m, path, ignored, allocator, why, why_size) == MIRAS_OK) return m;
  miras_close(m);
  return NULL;
}
#endif /* MIRAS_HUGGINGFACE_IMPLEMENTATION */
