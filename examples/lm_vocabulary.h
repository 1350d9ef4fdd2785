/* lm_vocabulary.h, a part of lm.c: tokens are the 256 bytes, or the characters of a text. */
#ifndef LM_VOCABULARY_H
#define LM_VOCABULARY_H

#include "lm_tools.h"

typedef struct vocabulary {
  int count;
  int characters;          /* 0: a token is a byte; 1: token i is the character code[i] */
  uint32_t *code;          /* Unicode, ascending */
  int context;             /* that the model was trained with */
  char model[32];          /* the name of its row or kind; "": not known */
} vocabulary;

/* One UTF-8 character; its length, or 0 where the bytes are none. */
static size_t utf8_get(const unsigned char *s, size_t n, uint32_t *code) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  size_t i, length = s[0] < 0x80         ? 1
                     : s[0] >> 5 == 0x06 ? 2
                     : s[0] >> 4 == 0x0e ? 3
                     : s[0] >> 3 == 0x1e ? 4
                                         : 0;
  if (!length || length > n) return 0;
  *code = length == 1 ? s[0] : s[0] & (0x7fu >> length);
  for (i = 1; i < length; i++) {
    if (s[i] >> 6 != 2) return 0;
    *code = *code << 6 | (s[i] & 0x3fu);
  }
  if (*code < least[length] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000)) return 0;
  return length;
}

static size_t utf8_put(unsigned char *s, uint32_t c) {
  size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;
  for (i = length - 1; i > 0; i--, c >>= 6) s[i] = (unsigned char)(0x80 | (c & 0x3f));
  s[0] = (unsigned char)(length == 1 ? c : (0xf00u >> length & 0xffu) | c);
  return length;
}

static int by_code(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static vocabulary make_vocabulary(const unsigned char *text, size_t n, int characters,
                                  const char *name) {
  vocabulary v = {256, 0, NULL, 64, ""};
  unsigned char *seen;
  size_t i, length;
  uint32_t c = 0;
  if (!characters) return v;
  v.characters = 1;
  v.count = 0;
  seen = (unsigned char *)grow(NULL, 0x110000, 1);
  memset(seen, 0, 0x110000);
  for (i = 0; i < n; i += length) {
    length = utf8_get(text + i, n - i, &c);
    if (!length)
      die(2, "--chars needs UTF-8 text, and byte %lu of %s is none", (unsigned long)i, name);
    seen[c] = 1;
  }
  for (c = 0; c < 0x110000; c++) v.count += seen[c];
  v.code = (uint32_t *)grow(NULL, (size_t)v.count, sizeof *v.code);
  for (c = 0, i = 0; c < 0x110000; c++)
    if (seen[c]) v.code[i++] = c;
  free(seen);
  return v;
}

static int32_t *encode(const vocabulary *v, const unsigned char *text, size_t n, const char *name,
                       size_t *count) {
  int32_t *tokens = (int32_t *)grow(NULL, n, sizeof *tokens);
  size_t i, length;
  *count = 0;
  for (i = 0; i < n; i += length) {
    uint32_t c = text[i], *found = NULL;
    length = 1;
    if (v->characters) {
      length = utf8_get(text + i, n - i, &c);
      if (!length) die(2, "byte %lu of %s is not UTF-8 text", (unsigned long)i, name);
      found = (uint32_t *)bsearch(&c, v->code, (size_t)v->count, sizeof c, by_code);
      if (!found)
        die(2, "the model does not know the character U+%04lX at byte %lu of %s", (unsigned long)c,
            (unsigned long)i, name);
      c = (uint32_t)(found - v->code);
    }
    tokens[(*count)++] = (int32_t)c;
  }
  return tokens;
}

static size_t token_text(const vocabulary *v, int32_t token, unsigned char out[4]) {
  if (v->characters) return utf8_put(out, v->code[token]);
  out[0] = (unsigned char)token;
  return 1;
}

/* MODEL.vocab is a text file: "context 64", then "bytes", or "characters 65" and their codes, then
 * "model yaad", which older files do not say. */
static void save_vocabulary(const vocabulary *v, const char *model_path) {
  char *path = join(model_path, ".vocab");
  FILE *f = create(path);
  int i;
  fprintf(f, "miras-lm 1\ncontext %d\n", v->context);
  if (!v->characters) fprintf(f, "bytes\n");
  else fprintf(f, "characters %d\n", v->count);
  for (i = 0; v->characters && i < v->count; i++)
    fprintf(f, "%lx%c", (unsigned long)v->code[i], i % 16 == 15 || i + 1 == v->count ? '\n' : ' ');
  if (v->model[0]) fprintf(f, "model %s\n", v->model);
  finish(f, path);
  free(path);
}

static vocabulary load_vocabulary(const char *model_path, int vocab) {
  vocabulary v = {256, 0, NULL, 64, ""};
  char *path = join(model_path, ".vocab"), word[16];
  FILE *f = fopen(path, "r");
  int i, good = 0;
  if (!f) {
    if (vocab == 256) return v; /* a model from elsewhere: bytes */
    die(1, "%s is missing: it says which characters the %d tokens of the model are", path, vocab);
  }
  if (fscanf(f, "miras-lm 1 context %d %15s", &v.context, word) == 2 && v.context > 0) {
    if (!strcmp(word, "bytes")) good = 1;
    if (!strcmp(word, "characters") && fscanf(f, "%d", &v.count) == 1 && v.count > 0 &&
        v.count <= 0x110000) {
      v.characters = good = 1;
      v.code = (uint32_t *)grow(NULL, (size_t)v.count, sizeof *v.code);
      for (i = 0; i < v.count; i++) {
        unsigned long c = 0;
        good = good && fscanf(f, "%lx", &c) == 1 && c <= 0x10ffff && (!i || c > v.code[i - 1]);
        v.code[i] = good ? (uint32_t)c : 0;
      }
    }
  }
  if (good && fscanf(f, " model %31s", v.model) != 1) v.model[0] = 0;
  fclose(f);
  if (!good) die(1, "%s is damaged", path);
  if (v.count != vocab) die(1, "%s lists %d tokens, but the model has %d", path, v.count, vocab);
  free(path);
  return v;
}

#endif
