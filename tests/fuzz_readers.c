/* Fuzzing of what reads other people's files: vocabularies (examples/tokenizer.h), GGUF
 * (examples/gguf.h), config.json and safetensors (examples/huggingface.h), adapters
 * (examples/adapters.h). Any bytes give a sentence, or a vocabulary that encodes and decodes, or a
 * model that runs; and all is given back.
 *
 *   clang -g -O1 -I. -DMIRAS_LIBFUZZER -DMIRAS_NO_SIMD -fsanitize=fuzzer,address,undefined \
 *     tests/fuzz_readers.c -lm
 *   ./a.out -dict=words -max_len=65536 -report_slow_units=1 corpus-text
 *   cc -O1 -I. tests/fuzz_readers.c -lm
 *   ./a.out                         the first corpus, each input as it is
 *   ./a.out --seeds FOLDER          write it: FOLDER-text, -lines, -gguf, -folder and -adapter
 *   ./a.out --words FILE            write a dictionary for text
 *   ./a.out --words FILE models     and one for the others
 *   ./a.out FILE ...                replay
 *
 * Run it from the folder that holds miras.h. An input is five bytes, a file, and a tail:
 *
 *   kind      T: the bytes of a vocabulary. G: those of a GGUF file. L: lines that become one. F:
 *             config.json, an index and two headers of safetensors, with 0x1e between. A:
 *             adapter_config.json, the header of its tensors and that of a file of views, beside
 *             the model of data/checkpoints/llama-tied
 *   flags     FUZZ_RUN to FUZZ_TIGHT
 *   fails     which allocation fails; 0: none. With FUZZ_TIGHT, the limit is 2 to the power of it
 *   tail      how many of the last bytes are the text that is encoded, or tokenizer_config.json:
 *             two bytes, the lower first
 *
 * Lines: V3 the version; N2 how many layers; K8 key=value of type 8; J8 key=values with tabs
 * between; T0 name 4 8 a tensor of type 0 and its lengths, of each layer if * stands for its
 * number. Bytes 1 and 2 in a value are a line's end and a tab. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdio.h>

#include "alloc.h"

/* Paths under this one are the parts of an input. */
#define FUZZ_PLACE "/nowhere/fuzz/"
enum { FUZZ_PARTS = 7 };
static struct { const char *name; const void *at; size_t size; } fuzz_parts[FUZZ_PARTS];
static FILE *fuzz_fopen(const char *path, const char *mode) {
  const size_t n = sizeof FUZZ_PLACE - 1;
  int i;
  if (strncmp(path, FUZZ_PLACE, n) != 0) return (fopen)(path, mode);
  for (i = 0; i < FUZZ_PARTS && fuzz_parts[i].name; i++)
    if (strcmp(path + n, fuzz_parts[i].name) == 0 && fuzz_parts[i].size)
      return fmemopen((void *)(size_t)fuzz_parts[i].at, fuzz_parts[i].size, mode);
  return NULL;
}
#define fopen(path, mode) fuzz_fopen(path, mode)
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#define MIRAS_HUGGINGFACE_IMPLEMENTATION
#include "../examples/huggingface.h"
#define MIRAS_TOKENIZER_IMPLEMENTATION
#include "../examples/tokenizer.h"
#define MIRAS_GGUF_IMPLEMENTATION
#include "../examples/gguf.h"
#define MIRAS_ADAPTERS_IMPLEMENTATION
#include "../examples/adapters.h"

enum { FUZZ_RUN = 1,         /* what opens as a model is run                                      */
       FUZZ_PLAIN = 2,       /* special tokens in the text are text                               */
       FUZZ_SPECIAL = 4,     /* those that begin and end it are added                             */
       FUZZ_LONG = 8,        /* the text is repeated until it is long                             */
       FUZZ_PATH = 16,       /* a vocabulary is opened by its path                                */
       FUZZ_OTHER = 32,      /* weights are kept in another form; unknown fields are passed over  */
       FUZZ_TWICE = 64,      /* two vocabularies of the same bytes give the same numbers          */
       FUZZ_TIGHT = 128 };   /* there is a limit, and an allocator that checks what comes back    */
enum { FUZZ_HEAD = 5, FUZZ_LIMIT = 1 << 22, FUZZ_ROOM = 1 << 16, FUZZ_DATA = 1 << 18 };

static int fuzz_flags;
static long fuzz_opened[5];            /* vocabularies, GGUF files, models of them, of folders,
                                          adapters                                                */

static void fuzz_check(int ok, const char *what) {
  if (ok) return;
  fprintf(stderr, "fuzz_readers: %s\n", what);
  abort();
}

/* A sentence where, and only where, something is refused. */
static void fuzz_said(int refused, const char *why, size_t room) {
  fuzz_check(memchr(why, 0, room) != NULL, "a sentence without an end");
  fuzz_check(refused == (why[0] != 0), "a refusal without a sentence, or one without the other");
}

/* An allocator that knows how long its blocks are. */
static size_t fuzz_held;
static void *fuzz_alloc(size_t n, void *user) {
  unsigned char *at = (unsigned char *)test_malloc(n + 16);
  (void)user;
  if (!at) return NULL;
  memcpy(at, &n, sizeof n);
  fuzz_held += n;
  return at + 16;
}

static void fuzz_free(void *at, size_t n, void *user) {
  size_t was;
  (void)user;
  memcpy(&was, (unsigned char *)at - 16, sizeof was);
  fuzz_check(was == n, "a block comes back with another length");
  fuzz_held -= n;
  test_free((unsigned char *)at - 16);
}

static const miras_allocator fuzz_allocator = {fuzz_alloc, fuzz_free, NULL}, *fuzz_from;
static uint64_t fuzz_limit;

static void fuzz_part(int i, const char *name, const void *at, size_t size) {
  fuzz_parts[i].name = name;
  fuzz_parts[i].at = at;
  fuzz_parts[i].size = size;
}

/* ---- vocabularies ---------------------------------------------------------------------------- */

/* Must decoding give back what was encoded? So it is where bytes are tokens and nothing changes the
 * text. */
static int fuzz_is_faithful(const miras_tokenizer *t, const char *text, size_t n) {
  uint32_t i, k;
  if (t->kind == TOK__TREE) return 1;
  if (t->kind != TOK__BPE || !t->byte_level || t->normals || t->stripped ||
      t->shows != TOK__AS_BYTES || tok__valid_count(text, n) < n) return 0;
  for (k = 0; k < (uint32_t)t->pres; k++)
    if (t->pre[k].kind == TOK__METASPACE || t->pre[k].prefix) return 0;
  for (i = 0; i < 256; i++)
    if (t->bytes[i] == TOK__NONE) return 0;
  for (i = 0; i < t->size; i++) {   /* added tokens come back where they are ASCII */
    const tok__token *token = tok__tokens(t) + i;
    if (token->flags & (TOK__LEFT | TOK__RIGHT)) return 0;
    if (!(token->flags & (TOK__ADDED | TOK__RAW))) continue;
    for (k = 0; k < token->size; k++)
      if (t->text.at[token->at + k] & 0x80) return 0;
  }
  return 1;
}

static void fuzz_decode(const miras_tokenizer *t, const int32_t *ids, size_t count,
                        const char *text, size_t n, int flags) {
  static char at_once[1 << 20], parted[1 << 20];
  int place = 0;
  size_t size, i, k = 0;
  size = miras_tokenizer_decode(t, ids, count, flags, &place, at_once, sizeof at_once);
  fuzz_check(size != SIZE_MAX, "decoding refuses what encoding gave");
  if (size > sizeof at_once) return;
  for (place = 0, i = 0; i < count; i++)
    k += miras_tokenizer_decode(t, ids + i, 1, flags, &place, parted + k, sizeof parted - k);
  fuzz_check(k == size && memcmp(parted, at_once, size) == 0, "token by token is other bytes");
  if (flags == 0 && fuzz_is_faithful(t, text, n))
    fuzz_check(size == n && memcmp(text, at_once, n) == 0, "a text does not come back");
}

/* Encode a text, and decode what comes out. */
static void fuzz_encode(const miras_tokenizer *t, const miras_tokenizer *other, const char *text,
                        size_t n) {
  static int32_t ids[FUZZ_ROOM], again[FUZZ_ROOM];
  const int flags = (fuzz_flags & FUZZ_PLAIN ? MIRAS_TOKENIZER_PLAIN : 0) |
                    (fuzz_flags & FUZZ_SPECIAL ? MIRAS_TOKENIZER_SPECIAL : 0);
  char why[512];
  size_t count = FUZZ_ROOM, some = 7, i;
  miras_result result = miras_tokenizer_encode(t, text, n, flags, ids, &count, why, sizeof why);
  fuzz_said(result != MIRAS_OK, why, sizeof why);
  fuzz_check(result == MIRAS_OK || result == MIRAS_ERR_ALLOC || result == MIRAS_ERR_SIZE ||
             result == MIRAS_ERR_ARGUMENT, "encode: a strange result");
  if (result != MIRAS_OK) return;
  for (i = 0; i < count && i < FUZZ_ROOM; i++)
    fuzz_check(ids[i] >= 0 && ids[i] < miras_tokenizer_size(t), "a token that is none");
  if (miras_tokenizer_encode(t, text, n, flags, again, &some, why, sizeof why) == MIRAS_OK)
    fuzz_check(some == count && memcmp(ids, again, (count < 7 ? count : 7) * sizeof *ids) == 0,
               "less room changes the tokens");
  for (some = FUZZ_ROOM, i = count < some ? count : some;
       other && miras_tokenizer_encode(other, text, n, flags, again, &some, NULL, 0) == MIRAS_OK;
       other = NULL)
    fuzz_check(some == count && memcmp(ids, again, i * sizeof *ids) == 0,
               "the same bytes give other tokens");
  if (count > FUZZ_ROOM) return;
  fuzz_decode(t, ids, count, text, n, flags & MIRAS_TOKENIZER_SPECIAL);
}

/* Encode the tail of an input as it is, and repeated. */
static void fuzz_texts(const miras_tokenizer *t, const miras_tokenizer *other, const char *tail,
                       size_t n) {
  const int32_t end = miras_tokenizer_end(t);
  fuzz_check(end >= -1 && (end < miras_tokenizer_size(t) || end == 0), "an end that is no token");
  fuzz_opened[0]++;
  fuzz_encode(t, other, tail, n);
  (void)miras_tokenizer_find(t, tail, n);
  if (fuzz_flags & FUZZ_LONG && n) {
    const size_t all = n < 1024 ? 1024 + n : n;
    char *text = (char *)malloc(all);
    size_t i;
    fuzz_check(text != NULL, "no memory for a text");
    for (i = 0; i < all; i++) text[i] = tail[i % n];
    fuzz_encode(t, other, text, all);
    free(text);
  }
}

static miras_tokenizer *fuzz_tokenizer(const char *file, size_t n, char *why, size_t room) {
  return fuzz_flags & FUZZ_PATH
             ? miras_tokenizer_open(FUZZ_PLACE, fuzz_limit, fuzz_from, why, room)
             : miras_tokenizer_open_text(file, n, fuzz_limit, fuzz_from, why, room);
}

static void fuzz_text(const char *file, size_t n, const char *tail, size_t tail_size) {
  char why[512];
  miras_tokenizer *t, *other = NULL;
  fuzz_part(0, "/tokenizer.json", file, n);
  fuzz_part(1, "/tokenizer_config.json", tail, tail_size);
  fuzz_part(2, NULL, NULL, 0);
  t = fuzz_tokenizer(file, n, why, sizeof why);
  fuzz_said(!t, why, sizeof why);
  fuzz_check(!t || !fuzz_from || t->room.used == fuzz_held, "it counts other bytes than it has");
  if (t && fuzz_flags & FUZZ_TWICE) other = fuzz_tokenizer(file, n, NULL, 0);
  if (t) fuzz_texts(t, other, tail, tail_size);
  miras_tokenizer_close(other);
  miras_tokenizer_close(t);
}

/* ---- models ---------------------------------------------------------------------------------- */

/* Open the model that a file or folder holds, and run it on a few tokens. */
static int fuzz_model(int gguf, const char *path) {
  const char *ignored = fuzz_flags & FUZZ_OTHER ? "unknown" : NULL;
  char why[1024];
  miras_model_desc d;
  miras_model *m;
  miras_session *s = NULL;
  miras_result result;
  memset(&d, 0, sizeof d);
  d.limit = fuzz_limit < FUZZ_LIMIT ? fuzz_limit : FUZZ_LIMIT;
  if (fuzz_flags & FUZZ_OTHER) d.weights = MIRAS_WEIGHTS_Q8;
  result = gguf ? miras_gguf_desc(&d, path, ignored, fuzz_from, why, sizeof why)
                : miras_checkpoint_desc(&d, path, ignored, fuzz_from, why, sizeof why);
  fuzz_check(memchr(why, 0, sizeof why) != NULL, "a sentence without an end");
  fuzz_check(why[0] || result == MIRAS_OK, "a refusal without a sentence");
  fuzz_check(result == MIRAS_OK || result == MIRAS_ERR_FORMAT || result == MIRAS_ERR_DESC ||
             result == MIRAS_ERR_SIZE || result == MIRAS_ERR_ALLOC || result == MIRAS_ERR_IO,
             "desc: a strange result");
  if (result != MIRAS_OK) return 0;
  m = gguf ? miras_gguf_open(&d, path, ignored, fuzz_from, why, sizeof why)
           : miras_checkpoint_open(&d, path, ignored, fuzz_from, why, sizeof why);
  fuzz_check(memchr(why, 0, sizeof why) != NULL, "a sentence without an end");
  fuzz_check(m || why[0], "a refusal without a sentence");
  if (m && fuzz_flags & FUZZ_RUN) s = miras_session_open(m, NULL, fuzz_from, NULL, 0);
  if (s) (void)miras_session_step(s, 0), (void)miras_session_step(s, 1);
  miras_close(s);
  miras_close(m);
  return m != NULL;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static int32_t fuzz_whole(const miras_gguf *g, const char *key, int32_t missing) {
  int32_t x;
  return miras_gguf_wholes(g, key, &x, 1) == 1 ? x : missing;
}

/* The texts of a key, in memory of their number exactly. */
static miras_tokenizer_text *fuzz_texts_of(const miras_gguf *g, const char *key, size_t *count) {
  const size_t n = *count = miras_gguf_texts(g, key, NULL, NULL, 0);
  miras_tokenizer_text *texts = (miras_tokenizer_text *)malloc(n * sizeof *texts + !n);
  const char **at = (const char **)malloc(n * sizeof *at + !n);
  size_t *size = (size_t *)malloc(n * sizeof *size + !n), i;
  fuzz_check(texts && at && size, "no memory for texts");
  fuzz_check(miras_gguf_texts(g, key, at, size, n) == n, "another number of texts");
  for (i = 0; i < n; i++) texts[i].at = at[i], texts[i].size = size[i];
  free(at), free(size);
  return texts;
}

static void fuzz_word(const miras_gguf *g, const char *key, char *to, size_t room) {
  size_t n;
  miras_tokenizer_text *text = fuzz_texts_of(g, key, &n);
  to[0] = 0;
  if (n == 1 && text->size < room) memcpy(to, text->at, text->size), to[text->size] = 0;
  free(text);
}

/* The vocabulary of a GGUF file. */
static void fuzz_arrays(const miras_gguf *g, const char *tail, size_t n) {
  miras_tokenizer_arrays a;
  miras_tokenizer_text *tokens, *merges;
  miras_tokenizer *t, *other = NULL;
  int32_t *types;
  float *scores;
  char model[64], pre[64], why[512];
  memset(&a, 0, sizeof a);
  fuzz_word(g, "tokenizer.ggml.model", model, sizeof model);
  fuzz_word(g, "tokenizer.ggml.pre", pre, sizeof pre);
  a.model = model, a.pre = pre;
  a.tokens = tokens = fuzz_texts_of(g, "tokenizer.ggml.tokens", &a.count);
  a.merges = merges = fuzz_texts_of(g, "tokenizer.ggml.merges", &a.merge_count);
  types = (int32_t *)malloc(a.count * sizeof *types + !a.count);
  scores = (float *)malloc(a.count * sizeof *scores + !a.count);
  fuzz_check(types && scores, "no memory for types");
  if (miras_gguf_wholes(g, "tokenizer.ggml.token_type", types, a.count) == a.count)
    a.token_type = types;
  if (miras_gguf_reals(g, "tokenizer.ggml.scores", scores, a.count) == a.count) a.scores = scores;
  a.bos = fuzz_whole(g, "tokenizer.ggml.bos_token_id", -1);
  a.eos = fuzz_whole(g, "tokenizer.ggml.eos_token_id", -1);
  a.unknown = fuzz_whole(g, "tokenizer.ggml.unknown_token_id", -1);
  a.add_bos = fuzz_whole(g, "tokenizer.ggml.add_bos_token", -1);
  a.add_eos = fuzz_whole(g, "tokenizer.ggml.add_eos_token", 0);
  a.no_space_prefix = !fuzz_whole(g, "tokenizer.ggml.add_space_prefix", 1);
  t = miras_tokenizer_open_arrays(&a, fuzz_limit, fuzz_from, why, sizeof why);
  fuzz_said(!t, why, sizeof why);
  if (t && fuzz_flags & FUZZ_TWICE)
    other = miras_tokenizer_open_arrays(&a, fuzz_limit, fuzz_from, NULL, 0);
  free(tokens), free(merges), free(types), free(scores);   /* nothing of them is kept */
  if (t) fuzz_texts(t, other, tail, n);
  miras_tokenizer_close(other);
  miras_tokenizer_close(t);
}

static void fuzz_gguf(const unsigned char *file, size_t n, const char *tail, size_t tail_size) {
  static const char path[] = FUZZ_PLACE "m.gguf";
  char why[1024], name[HF__NAME_SIZE];
  miras_gguf *g;
  const char *key;
  size_t i, length = 0;
  int model;
  fuzz_part(0, "m.gguf", file, n);
  fuzz_part(1, NULL, NULL, 0);
  fuzz_check(miras_gguf_is(path) == (n >= 4 && memcmp(file, "GGUF", 4) == 0), "is it GGUF?");
  model = fuzz_model(1, path);
  fuzz_opened[2] += model;
  g = miras_gguf_read(path, fuzz_from, why, sizeof why);
  fuzz_said(!g, why, sizeof why);
  fuzz_check(g || !model || test_fail_at, "a model of a file that cannot be read");
  if (!g) return;
  fuzz_opened[1]++;
  for (i = 0; (key = miras_gguf_key(g, i, &length)) != NULL; i++) {
    int32_t whole[3];
    float real[3];
    const char *text[3];
    size_t size[3], k, sum = 0;
    fuzz_check(length && length < sizeof name, "a key of another length");
    memcpy(name, key, length);
    name[length] = 0;
    if (strlen(name) < length) continue;
    (void)miras_gguf_wholes(g, name, whole, 3);
    (void)miras_gguf_reals(g, name, real, 3);
    for (k = 0; k < miras_gguf_texts(g, name, text, size, 3) && k < 3; k++)
      while (size[k]) sum += (unsigned char)text[k][--size[k]];
    fuzz_check(sum < SIZE_MAX, "all texts can be read");
  }
  fuzz_arrays(g, tail, tail_size);
  miras_gguf_close(g);
}

/* ---- lines that become a GGUF file ----------------------------------------------------------- */

typedef struct fuzz_bytes { unsigned char *at; size_t n, room; } fuzz_bytes;

static void fuzz_put(fuzz_bytes *b, const void *from, size_t n) {
  if (n > b->room - b->n) n = b->room - b->n;   /* what is more is cut off */
  if (n) memcpy(b->at + b->n, from, n);
  b->n += n;
}

static void fuzz_put_whole(fuzz_bytes *b, uint64_t x, int bytes) {
  for (; bytes--; x >>= 8) {
    const unsigned char byte = (unsigned char)x;
    fuzz_put(b, &byte, 1);
  }
}

/* A value in the text [at, end) as the type has it. */
static void fuzz_put_value(fuzz_bytes *b, int type, const char *at, const char *end) {
  static const unsigned char bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  char text[40];
  const size_t n = (size_t)(end - at);
  double x;
  float real;
  uint64_t bits;
  if (type == GG__TEXT) {
    fuzz_put_whole(b, n, 8);
    for (; at < end; at++)
      fuzz_put_whole(b, (uint64_t)(*at == 1 ? '\n' : *at == 2 ? '\t' : *at), 1);
    return;
  }
  memcpy(text, at, n < 39 ? n : 39);
  text[n < 39 ? n : 39] = 0;
  x = strtod(text, NULL);
  real = (x > 3e38 || x < -3e38) && x - x >= 0 ? 0 : (float)x;
  memcpy(&bits, &x, 8);
  if (type == GG__F32) memcpy(&bits, &real, 4);
  else if (type != GG__F64) bits = strchr(text, '-') ? (uint64_t)strtoll(text, NULL, 10)
                                                      : strtoull(text, NULL, 10);
  if (type >= 0 && type < GG__VALUES) fuzz_put_whole(b, bits, bytes[type]);
}

/* "K8 key=value", "J8 key=value\tvalue". */
static void fuzz_put_key(fuzz_bytes *b, const char *at, const char *end) {
  const int list = *at == 'J';
  const int type = (int)strtol(at + 1, NULL, 10);
  const char *key = (const char *)memchr(at, ' ', (size_t)(end - at)), *value, *next;
  if (!key) key = at;
  key++;
  value = (const char *)memchr(key, '=', (size_t)(end - key));
  if (!value) value = end;
  fuzz_put_whole(b, (uint64_t)(value - key), 8);
  fuzz_put(b, key, (size_t)(value - key));
  value += value < end;
  fuzz_put_whole(b, list ? GG__LIST : (uint64_t)(uint32_t)type, 4);
  if (list) {
    uint64_t count = end > value;
    for (next = value; next < end; next++) count += *next == '\t';
    fuzz_put_whole(b, (uint64_t)(uint32_t)type, 4);
    fuzz_put_whole(b, count, 8);
  }
  do {
    next = list ? (const char *)memchr(value, '\t', (size_t)(end - value)) : NULL;
    if (!next) next = end;
    if (!list || end > value) fuzz_put_value(b, type, value, next);
    value = next + 1;
  } while (next < end);
}

/* "T0 name 4 8", of layer `layer` where the name has a star; *place goes on. */
static void fuzz_put_tensor(fuzz_bytes *b, const char *line, const char *stop, int layer,
                            uint64_t *place) {
  uint64_t shape[8] = {0}, count = 1;
  const unsigned type = (unsigned)strtoul(line + 1, NULL, 10);
  const char *name = (const char *)memchr(line, ' ', (size_t)(stop - line)), *at, *star;
  char number[12];
  uint32_t rank = 0, i;
  if (!name) return;
  name++;
  at = (const char *)memchr(name, ' ', (size_t)(stop - name));
  if (!at) at = stop;
  star = (const char *)memchr(name, '*', (size_t)(at - name));
  snprintf(number, sizeof number, "%d", layer);
  fuzz_put_whole(b, (uint64_t)(at - name) + (star ? strlen(number) - 1 : 0), 8);
  fuzz_put(b, name, (size_t)((star ? star : at) - name));
  if (star) fuzz_put(b, number, strlen(number)), fuzz_put(b, star + 1, (size_t)(at - star - 1));
  while (at < stop && rank < 8) {
    char *next;
    shape[rank] = strtoull(at, &next, 10);
    if (next == at) break;
    at = next;
    count *= shape[rank++];
  }
  fuzz_put_whole(b, rank, 4);
  for (i = 0; i < rank; i++) fuzz_put_whole(b, shape[i], 8);
  fuzz_put_whole(b, type, 4);
  fuzz_put_whole(b, *place, 8);
  if (type < HF__COUNT(gg__types))
    *place += (count / gg__types[type].numbers * gg__types[type].bytes + 31) / 32 * 32;
}

/* All lines that begin with one of `kinds`; returns how many things they were. */
static uint64_t fuzz_put_lines(fuzz_bytes *b, const char *at, const char *end, const char *kinds,
                               uint64_t *place) {
  uint64_t count = 0;
  int layers = 1, layer;
  while (at < end) {
    const char *stop = (const char *)memchr(at, '\n', (size_t)(end - at));
    if (!stop) stop = end;
    if (*at == 'N') layers = (int)(strtoul(at + 1, NULL, 10) & 63);
    if (*at && strchr(kinds, *at)) {
      const int all = *at == 'T' && memchr(at, '*', (size_t)(stop - at)) ? layers : 1;
      for (layer = 0; layer < all; layer++, count++)
        if (*at == 'T') fuzz_put_tensor(b, at, stop, layer, place);
        else fuzz_put_key(b, at, stop);
    }
    at = stop + (stop < end);
  }
  return count;
}

/* The file of these lines; the text has a zero behind it. Numbers are 0.01 or near 1. */
static fuzz_bytes fuzz_of_lines(const char *text, size_t n) {
  fuzz_bytes b = {NULL, 0, FUZZ_DATA};
  uint64_t place = 0, tensors, keys, size;
  size_t i;
  b.at = (unsigned char *)malloc(b.room);
  fuzz_check(b.at != NULL, "no memory for a file");
  fuzz_put(&b, "GGUF", 4);
  fuzz_put_whole(&b, *text == 'V' ? strtoul(text + 1, NULL, 10) : 3, 4);
  fuzz_put_whole(&b, 0, 8), fuzz_put_whole(&b, 0, 8);
  keys = fuzz_put_lines(&b, text, text + n, "KJ", &place);
  tensors = fuzz_put_lines(&b, text, text + n, "T", &place);
  for (i = 0; i < 8; i++) b.at[8 + i] = (unsigned char)(tensors >> 8 * i);
  for (i = 0; i < 8; i++) b.at[16 + i] = (unsigned char)(keys >> 8 * i);
  size = (b.n + 31) / 32 * 32 + place;
  while (b.n < size && b.n < b.room) fuzz_put_whole(&b, b.n & 1 ? 0x3c : 0x23, 1);
  b.at = (unsigned char *)realloc(b.at, b.n);   /* exactly as long, for the sanitizer */
  fuzz_check(b.at != NULL, "no memory for a file");
  return b;
}

static void fuzz_lines(const char *text, size_t n, const char *tail, size_t tail_size) {
  fuzz_bytes b = fuzz_of_lines(text, n);
  fuzz_gguf(b.at, b.n, tail, tail_size);
  free(b.at);
}

/* ---- folders of safetensors ------------------------------------------------------------------ */

/* A file of tensors with that header; its numbers reach as far as the header says, or less. */
static fuzz_bytes fuzz_tensors(const char *header, size_t n) {
  static const char key[] = "\"data_offsets\":[";
  const char *at, *end = header + n;
  fuzz_bytes b = {NULL, 0, 0};
  uint64_t most = 0;
  for (at = header; n > sizeof key && at < end - sizeof key; at++) {
    const char *comma;
    uint64_t last = 0;
    if (memcmp(at, key, sizeof key - 1) != 0) continue;
    comma = (const char *)memchr(at, ',', (size_t)(end - at));
    while (comma && ++comma < end && *comma >= '0' && *comma <= '9' && last < FUZZ_DATA)
      last = 10 * last + (uint64_t)(*comma - '0');
    if (last > most) most = last;
  }
  b.room = 8 + n + (size_t)(most < FUZZ_DATA ? most : FUZZ_DATA);
  b.at = (unsigned char *)malloc(b.room);
  fuzz_check(b.at != NULL, "no memory for a file");
  fuzz_put_whole(&b, n, 8);
  fuzz_put(&b, header, n);
  while (b.n < b.room) fuzz_put_whole(&b, b.n & 1 ? 0x3c : 0x23, 1);
  return b;
}

static void fuzz_folder(const char *text, size_t n) {
  const char *part[5], *end = text + n;
  fuzz_bytes a, b;
  int i;
  part[0] = text;
  for (i = 1; i < 5; i++) {
    const char *cut = (const char *)memchr(part[i - 1], 0x1e, (size_t)(end - part[i - 1]));
    part[i] = cut && i < 4 ? cut + 1 : end;
  }
#define FUZZ_SIZE(i) ((size_t)(part[(i) + 1] - part[i]) - (part[(i) + 1] > part[i] && \
                      part[(i) + 1][-1] == 0x1e))
  a = fuzz_tensors(part[2], FUZZ_SIZE(2));
  b = fuzz_tensors(part[3], FUZZ_SIZE(3));
  fuzz_part(0, "config.json", part[0], FUZZ_SIZE(0));
  fuzz_part(1, "model.safetensors.index.json", part[1], FUZZ_SIZE(1));
  fuzz_part(2, "model.safetensors", a.at, FUZZ_SIZE(2) ? a.n : 0);
  fuzz_part(3, "a.safetensors", a.at, a.n);
  fuzz_part(4, "b.safetensors", b.at, b.n);
  fuzz_part(5, NULL, NULL, 0);
  fuzz_opened[3] += fuzz_model(0, FUZZ_PLACE);
  free(a.at), free(b.at);
}

/* ---- adapters -------------------------------------------------------------------------------- */

/* The bytes of a file into at[room]; how many. */
static size_t fuzz_file(const char *path, unsigned char *at, size_t room) {
  FILE *f = (fopen)(path, "rb");
  size_t n = f ? fread(at, 1, room, f) : 0;
  if (f) fclose(f);
  return n;
}

/* Open the model with what a folder in PEFT's form, or a file of views, has for it. */
static void fuzz_adapter(const char *path) {
  char why[1024] = "";
  miras_model_desc d;
  miras_model *m;
  miras_session *s = NULL;
  miras_result result;
  memset(&d, 0, sizeof d);
  d.limit = FUZZ_LIMIT;
  if (fuzz_flags & FUZZ_OTHER) d.weights = MIRAS_WEIGHTS_Q8;
  if (miras_checkpoint_desc(&d, FUZZ_PLACE, NULL, fuzz_from, NULL, 0) != MIRAS_OK) return;
  result = miras_adapters_desc(&d, path, FUZZ_PLACE, why, sizeof why);
  fuzz_said(result != MIRAS_OK, why, sizeof why);
  if (result != MIRAS_OK) return;
  m = miras_checkpoint_open(&d, FUZZ_PLACE, NULL, fuzz_from, why, sizeof why);
  fuzz_check(m || why[0], "a refusal without a sentence");
  if (!m) return;
  result = miras_adapters_load(m, path, FUZZ_PLACE, why, sizeof why);
  fuzz_said(result != MIRAS_OK, why, sizeof why);
  fuzz_opened[4] += result == MIRAS_OK;
  if (fuzz_flags & FUZZ_RUN) s = miras_session_open(m, NULL, fuzz_from, NULL, 0);
  if (s) (void)miras_session_step(s, 0), (void)miras_session_step(s, 1);
  miras_close(s);
  miras_close(m);
}

static void fuzz_adapters(const char *text, size_t n) {
  static unsigned char config[1 << 12], model[1 << 18];
  static size_t config_size, model_size;
  const char *part[4], *end = text + n;
  fuzz_bytes a, b;
  size_t size[3];
  int i;
  if (!config_size) {
    config_size = fuzz_file("tests/data/checkpoints/llama-tied/config.json", config, sizeof config);
    model_size = fuzz_file("tests/data/checkpoints/llama-tied/model.safetensors", model,
                           sizeof model);
    fuzz_check(config_size && model_size, "tests/data/checkpoints/llama-tied is not here");
  }
  for (part[0] = text, i = 0; i < 3; i++) {
    const char *cut = (const char *)memchr(part[i], 0x1e, (size_t)(end - part[i]));
    size[i] = (size_t)((cut ? cut : end) - part[i]);
    part[i + 1] = cut ? cut + 1 : end;
  }
  a = fuzz_tensors(part[1], size[1]);
  b = fuzz_tensors(part[2], size[2]);
  fuzz_part(0, "config.json", config, config_size);
  fuzz_part(1, "model.safetensors", model, model_size);
  fuzz_part(2, "/adapter_config.json", part[0], size[0]);
  fuzz_part(3, "adapter_config.json", part[0], size[0]);
  fuzz_part(4, "adapter_model.safetensors", a.at, a.n);
  fuzz_part(5, "views", b.at, b.n);
  fuzz_part(6, NULL, NULL, 0);
  if (size[0]) fuzz_adapter(FUZZ_PLACE);
  fuzz_part(2, "", NULL, 0);
  fuzz_adapter(FUZZ_PLACE "views");
  free(a.at), free(b.at);
}

/* ---- an input -------------------------------------------------------------------------------- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t n, tail_size;
  char *file, *tail;
  if (size < FUZZ_HEAD || size > 1 << 16) return 0;
  n = size - FUZZ_HEAD;
  fuzz_flags = data[1];
  tail_size = (data[3] | (size_t)data[4] << 8) % (n + 1);
  if (data[0] == 'F' || data[0] == 'A') tail_size = 0;
  n -= tail_size;
  file = (char *)malloc(n + (data[0] == 'L') + !n);   /* exactly as long, for the sanitizer */
  tail = (char *)malloc(tail_size + !tail_size);
  fuzz_check(file && tail, "no memory for an input");
  memcpy(file, data + FUZZ_HEAD, n);
  memcpy(tail, data + FUZZ_HEAD + n, tail_size);
  test_calls = 0;
  test_fail_at = data[1] & FUZZ_TIGHT ? 0 : data[2];
  test_largest = 0;
  fuzz_from = data[1] & FUZZ_TIGHT ? &fuzz_allocator : NULL;
  fuzz_limit = data[1] & FUZZ_TIGHT ? (uint64_t)1 << (data[2] & 31) : 8 * FUZZ_LIMIT;
  if (fuzz_limit > 8 * FUZZ_LIMIT) fuzz_limit = 8 * FUZZ_LIMIT;
  if (data[0] == 'T') fuzz_text(file, n, tail, tail_size);
  if (data[0] == 'G') fuzz_gguf((unsigned char *)file, n, tail, tail_size);
  if (data[0] == 'L') file[n] = 0, fuzz_lines(file, n, tail, tail_size);
  if (data[0] == 'F') fuzz_folder(file, n);
  if (data[0] == 'A') fuzz_adapters(file, n);
  fuzz_check(test_live == 0 && fuzz_held == 0, "something is left allocated");
  fuzz_check(test_largest <= 8 * FUZZ_LIMIT + 16, "more than the limit");
  free(file), free(tail);
  return 0;
}

#ifndef MIRAS_LIBFUZZER
/* ---- the first corpus ------------------------------------------------------------------------ */

static const char fuzz_tail[] = "ab it's <|e|> b a <s>12\xcc\x81 caf\xc3\xa9\xff  \n A\xcc\x8a\xcc"
  "\xa3\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8\xea\xb0\x80\xe2\x82\xac\xf0\x9f\x98\x80"
  "\xf3\xa0\x84\x81";
static const char fuzz_marks[] = "\xcc\x81\xcc\xa3";

static unsigned char fuzz_seed[1 << 17];
static const char *fuzz_corpus;        /* where inputs are written; NULL: they are run            */
static int fuzz_seeds;

static void fuzz_write(const char *path, const unsigned char *bytes, size_t n) {
  FILE *f = (fopen)(path, "wb");
  fuzz_check(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "cannot write a file");
}

/* One input of the first corpus. */
static void fuzz_input(int kind, int flags, const void *file, size_t n, const char *tail) {
  static const char *const kinds[] = {"text", "lines", "gguf", "folder", "adapter"};
  const size_t size = strlen(tail);
  char path[4200];
  if (FUZZ_HEAD + n + size > 1 << 16) return;
  fuzz_seed[0] = (unsigned char)kind;
  fuzz_seed[1] = (unsigned char)flags;
  fuzz_seed[2] = flags & FUZZ_TIGHT ? 25 : 0;
  fuzz_seed[3] = (unsigned char)(size & 255);
  fuzz_seed[4] = (unsigned char)(size >> 8);
  memcpy(fuzz_seed + FUZZ_HEAD, file, n);
  memcpy(fuzz_seed + FUZZ_HEAD + n, tail, size);
  n += FUZZ_HEAD + size;
  fuzz_seeds++;
  if (!fuzz_corpus) {
    LLVMFuzzerTestOneInput(fuzz_seed, n);
    if (!(flags & FUZZ_TIGHT))   /* and with each of the first allocations failing               */
      for (; fuzz_seed[2] < (kind == 'A' ? 120 : 24); LLVMFuzzerTestOneInput(fuzz_seed, n))
        fuzz_seed[2]++;
    return;
  }
  snprintf(path, sizeof path, "%.4000s-%s/seed-%03d", fuzz_corpus,
           kinds[kind == 'T' ? 0 : kind == 'L' ? 1 : kind == 'G' ? 2 : kind == 'F' ? 3 : 4],
           fuzz_seeds);
  fuzz_write(path, fuzz_seed, n);
}

/* The folders of data/checkpoints: their configuration with a tensor that is none of it, and with
 * the header of their own. */
static void fuzz_folders(void) {
  static const char folder[] = "tests/data/checkpoints",
    one[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  static unsigned char file[1 << 18], made[1 << 17];
  char path[400];
  DIR *all = opendir(folder);
  struct dirent *entry;
  int turn = 0;
  while (all && (entry = readdir(all)) != NULL) {
    size_t n, header;
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s/config.json", folder, entry->d_name);
    n = fuzz_file(path, made, 1 << 14);
    made[n++] = 0x1e, made[n++] = 0x1e;
    memcpy(made + n, one, sizeof one - 1);
    fuzz_input('F', 0, made, n + sizeof one - 1, "");
    snprintf(path, sizeof path, "%s/%s/model.safetensors", folder, entry->d_name);
    if (fuzz_file(path, file, sizeof file) < 8) continue;
    header = (size_t)hf__get64(file);
    if (header > 1 << 15) continue;
    memcpy(made + n, file + 8, header);
    fuzz_input('F', turn++ % 2 ? FUZZ_RUN | FUZZ_OTHER : FUZZ_RUN, made, n + header, "");
  }
  if (all) closedir(all);
}

static void fuzz_vocabulary(const char *text, size_t n) {
  fuzz_input('T', FUZZ_LONG | FUZZ_TWICE, text, n, fuzz_tail);
  fuzz_input('T', FUZZ_LONG | FUZZ_PLAIN | FUZZ_TIGHT, text, n, fuzz_marks);
  fuzz_input('T', FUZZ_SPECIAL | FUZZ_PATH, text, n, "{\"eos_token\":{\"content\":\"s\"}}");
}

/* Every byte is a token, one after the other of a byte-level vocabulary and of RWKV's. */
static void fuzz_bytewise(char *text) {
  size_t n = (size_t)sprintf(text, "{\"decoder\":{\"type\":\"ByteLevel\"},\"pre_tokenizer\":{"
                             "\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                             "\"added_tokens\":[{\"id\":258,\"content\":\"<|e|>\",\"special\":"
                             "true}],\"model\":{\"merges\":[\"a b\",\"\\u0120 ab\"],\"vocab\":{");
  int i;
  for (i = 0; i < 256; i++)
    n += (size_t)sprintf(text + n, "\"\\u%04x\":%d,", (unsigned)tok__letter_of((unsigned)i), i);
  n += (size_t)sprintf(text + n, "\"ab\":256,\"\\u0120ab\":257}}}");
  fuzz_vocabulary(text, n);
  for (n = 0, i = 0; i < 256; i++)
    n += (size_t)sprintf(text + n, "%d b'\\x%02x' 1\n", i, (unsigned)i);
  n += (size_t)sprintf(text + n, "256 'ab' 2\n257 ' <' 2\n");
  fuzz_vocabulary(text, n);
}

/* Lines, and the file that they become. */
static void fuzz_both(const char *text, size_t n) {
  const char *tail = strstr(text, "tokenizer") ? fuzz_tail : "";
  fuzz_bytes b = fuzz_of_lines(text, n);
  fuzz_input('L', FUZZ_RUN | FUZZ_LONG | FUZZ_SPECIAL, text, n, tail);
  fuzz_input('G', FUZZ_RUN | FUZZ_TWICE | FUZZ_TIGHT, b.at, b.n, tail);
  free(b.at);
}

/* The same with each type of numbers that is read, of matrices whose rows are 256 long. */
static void fuzz_types(const char *text) {
  static char typed[1 << 14];
  size_t type, n;
  for (type = 0; type < HF__COUNT(gg__types); type++) {
    const char *at = text;
    if (gg__types[type].form < 0) continue;
    for (n = 0; *at; at++) {
      const char *end = at + strcspn(at, "\n"), *wide = strstr(at, " 256 ");
      fuzz_check(n < sizeof typed - 4, "readers.txt: an entry is too long");
      typed[n++] = *at;
      if (memcmp(at, "T0 ", 3) != 0 || !wide || wide > end) continue;
      n += (size_t)sprintf(typed + n, "%d", (int)type);
      at++;
    }
    typed[n] = 0;
    fuzz_both(typed, n);
  }
}

/* The whole first corpus: entries of data/readers.txt, each behind a line "== KIND", in F with a
 * line of -- between its files; and other files of data. */
static void fuzz_all(void) {
  static const char *const names[] = {"smollm", "llama3", "qwen35", "llama", "metaspace-first"};
  static unsigned char file[1 << 16];
  char path[200], *at, *body, *next, *cut;
  size_t i, n = fuzz_file("tests/data/readers.txt", file, sizeof file - 1);
  fuzz_check(n > 0, "tests/data/readers.txt is not here");
  file[n] = 0;
  for (at = (char *)file; at; at = next) {
    body = strchr(at, '\n') + 1;
    next = strstr(body, "\n== ");
    if (next) *next++ = 0;
    for (cut = body; strchr("FA", at[3]) && (cut = strstr(cut, "\n--\n")) != NULL;) {
      *cut++ = 0x1e;
      memmove(cut, cut + 3, strlen(cut + 3) + 1);
    }
    if (at[3] == 'T') fuzz_vocabulary(body, strlen(body));
    else if (at[3] == 'F') fuzz_input('F', 0, body, strlen(body), "");
    else if (at[3] == 'A')
      fuzz_input('A', FUZZ_RUN, body, strlen(body), ""),
      fuzz_input('A', FUZZ_RUN | FUZZ_OTHER | FUZZ_TIGHT, body, strlen(body), "");
    else if (at[4] == ' ') fuzz_types(body);
    else fuzz_both(body, strlen(body));
  }
  for (i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "tests/data/tokenizers/%s.json", names[i]);
    fuzz_input('T', FUZZ_LONG | FUZZ_SPECIAL, file, fuzz_file(path, file, sizeof file), fuzz_tail);
  }
  for (i = n = 0; i < 700; i++)   /* more tokens than a first table has room for */
    n += (size_t)sprintf((char *)file + n, "%d '%03d' 3\n", (int)i, (int)i);
  fuzz_vocabulary((char *)file, n);
  fuzz_bytewise((char *)file);
  n = fuzz_file("tests/data/llama-tied.gguf", file, sizeof file);
  fuzz_input('G', FUZZ_RUN, file, n, fuzz_tail);
  fuzz_folders();
}

/* A word of the dictionary. */
static void fuzz_say(FILE *f, const char *word) {
  size_t n = strlen(word);
  if (!n) return;
  fputc('"', f);
  for (; n--; word++)
    if (*word < 32 || *word > 126 || *word == '"' || *word == '\\')
      fprintf(f, "\\x%02x", (unsigned char)*word);
    else fputc(*word, f);
  fputs("\"\n", f);
}

/* Words of vocabularies and of JSON, and for models names of fields, of families and of tensors. */
static void fuzz_words(FILE *f, int models) {
  static const char *const words[] = {
    "\"type\":\"", "\"BPE\"", "\"Sequence\"", "\"pretokenizers\":[", "\"normalizers\":[",
    "\"decoders\":[", "\"processors\":[", "\"NFC\"", "\"Prepend\"", "\"prepend\":", "\"Replace\"",
    "\"pattern\":", "\"String\":", "\"Regex\":", "\"content\":\"", "\"ByteLevel\"", "\"Digits\"",
    "\"individual_digits\":", "\"Metaspace\"", "\"Split\"", "\"behavior\":", "\"Isolated\"",
    "\"Removed\"", "\"invert\":", "\"add_prefix_space\":", "\"use_regex\":", "\"prepend_scheme\":",
    "\"first\"", "\"never\"", "\"split\":", "\"TemplateProcessing\"", "\"single\":",
    "\"special_tokens\":", "\"SpecialToken\":", "\"ids\":[", "\"Fuse\"", "\"Strip\"", "\"start\":",
    "\"stop\":", "\"ByteFallback\"", "\"vocab\":{", "\"merges\":[", "\"unk_token\":",
    "\"fuse_unk\":", "\"byte_fallback\":", "\"ignore_merges\":", "\"dropout\":",
    "\"added_tokens\":[", "\"id\":",
    "\"single_word\":", "\"lstrip\":", "\"rstrip\":", "\"normalized\":", "\"special\":",
    "\"eos_token\":", "true", "false", "null", "#version", "<0x41>", "\\u2581", "\\ud83d\\ude00",
    "\\u0000", "{}", "[]", "\",\"", "\\U0010ffff", "b'\\xff' 1\n", "GGUF", "general.alignment",
    "general.type", "split.count", "tokenizer.ggml.model", "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type",
    "tokenizer.ggml.merges", "tokenizer.ggml.add_space_prefix", "\nJ8 ", "\nK4 ", "\nT0 blk.*.",
    "\"dtype\":\"BF16\"", "\"shape\":[", "\"data_offsets\":[", "\"__metadata__\":{",
    "\"weight_map\":{", "\"model_type\":\"", "\"rank_pattern\":{", "\"alpha_pattern\":{",
    "\"lora_alpha\":", "\"use_rslora\":true", ".lora_A.weight", ".lora_B.weight",
    "\"format\":\"miras-views\"", "\"adapter.rank\":\"", "\"adapter.scale\":\"",
    "\"__float__\":", "Infinity", "18446744073709551615",
    "0.5", "1e-5"};
  size_t i;
  int k;
  for (i = 0; i < sizeof words / sizeof *words; i++) fuzz_say(f, words[i]);
  if (!models) return;
  for (i = 0; i < HF__COUNT(gg__families) + HF__COUNT(hf__families); i++) {
    const size_t g = HF__COUNT(gg__families);
    const hf__family *of = i < g ? &gg__families[i] : &hf__families[i - g];
    fuzz_say(f, of->models);
    for (k = 0; k < of->says_count; k++) {
      const char *list = of->says[k].names;
      char word[HF__WORD];
      while (hf__next_word(word, &list)) fuzz_say(f, word);
    }
    for (k = 0; k < of->count; k++)
      if (of->rows[k].theirs) fuzz_say(f, of->rows[k].theirs);
  }
}

int main(int argc, char **argv) {
  static unsigned char input[1 << 16];
  int i;
  if (argc > 2 && strcmp(argv[1], "--words") == 0) {
    FILE *f = (fopen)(argv[2], "wb");
    fuzz_check(f != NULL, "cannot write the dictionary");
    fuzz_words(f, argc > 3);
    fclose(f);
    return 0;
  }
  if (argc > 2 && strcmp(argv[1], "--seeds") == 0) {
    fuzz_corpus = argv[2];
    fuzz_all();
  } else if (argc > 1) {
    for (i = 1; i < argc; i++)
      LLVMFuzzerTestOneInput(input, fuzz_file(argv[i], input, sizeof input));
  } else {
    fuzz_all();
  }
  printf("fuzz_readers: %d inputs, no fault; opened: %ld vocabularies, %ld GGUF files, %ld models "
         "of them, %ld of folders, %ld adapters\n", fuzz_seeds ? fuzz_seeds : argc - 1,
         fuzz_opened[0], fuzz_opened[1], fuzz_opened[2], fuzz_opened[3], fuzz_opened[4]);
  return 0;
}
#endif
