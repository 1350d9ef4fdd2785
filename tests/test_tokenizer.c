/* Other people's vocabularies (data/tokenizers, of vocabularies.py): the tokens are those of the
 * tokenizers library, merges are those of a loop that does nothing clever, what cannot be read is
 * refused with a sentence, and damage is. Run from the folder that holds miras.h.
 * cc -std=c99 -O2 tests/test_tokenizer.c -lcmocka */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "../miras.h"
#define MIRAS_TOKENIZER_IMPLEMENTATION
#include "../examples/tokenizer.h"
#include "check.h"

#define FOLDER "tests/data/tokenizers/"
enum { ROOM = 1 << 16 };
static const char *const names[] = {"smollm", "llama3", "qwen35", "llama", "metaspace-first"};
enum { NAMES = sizeof names / sizeof *names };
static int32_t ids[ROOM], want[ROOM];
static char text[ROOM], told[ROOM], why[512], file[ROOM];

static size_t read_name(const char *name) {
  char path[200];
  FILE *f;
  size_t n;
  snprintf(path, sizeof path, FOLDER "%s.json", name);
  f = fopen(path, "rb");
  assert_true(f != NULL);
  n = fread(file, 1, sizeof file, f);
  fclose(f);
  assert_true(n > 1000 && n < sizeof file);
  return n;
}

static miras_tokenizer *open_name(const char *name) {
  const size_t n = read_name(name);
  miras_tokenizer *t = miras_tokenizer_open_text(file, n, 0, NULL, why, sizeof why);
  if (!t) printf("%s: %s\n", name, why);
  assert_true(t != NULL);
  return t;
}

/* What fails says why, and all is given back. */
static void refused(const char *bytes, size_t n, const char *saying) {
  miras_tokenizer *t = miras_tokenizer_open_text(bytes, n, 0, NULL, why, sizeof why);
  if (t || (saying && !strstr(why, saying))) printf("%s, not %s\n", t ? "opened" : why, saying);
  assert_null(t);
  assert_true(why[0] && (!saying || strstr(why, saying)));
  assert_int_equal(test_live, 0);
}

static size_t from_hex(const char *hex, char *to) {
  size_t n = 0;
  unsigned byte;
  for (; sscanf(hex, "%2x", &byte) == 1; hex += 2) to[n++] = (char)byte;
  return n;
}

static size_t encode(const miras_tokenizer *t, const char *s, size_t n, int flags) {
  size_t count = ROOM;
  assert_int_equal(miras_tokenizer_encode(t, s, n, flags, ids, &count, why, sizeof why), MIRAS_OK);
  assert_true(count <= ROOM && !why[0]);
  return count;
}

/* Every line of vectors.txt, at once and token by token. */
static void test_vectors(void **state) {
  static char line[1000], hex[300], list[500], out[300];
  char name[40], open[40] = "";
  miras_tokenizer *t = NULL;
  FILE *f = fopen(FOLDER "vectors.txt", "r");
  int special, seen = 0;
  (void)state;
  assert_true(f != NULL);
  while (fgets(line, sizeof line, f)) {
    size_t n, count, wanted = 0, i, size = 0;
    int place = 0;
    char *at = list;
    assert_int_equal(sscanf(line, "%39s %d %299s %499s %299s", name, &special, hex, list, out), 5);
    if (strcmp(name, open) != 0) {
      miras_tokenizer_close(t);
      t = open_name(name);
      memcpy(open, name, sizeof open);
    }
    n = from_hex(hex, text);
    for (; *at && *at != '-'; at += *at == ',') want[wanted++] = (int32_t)strtol(at, &at, 10);
    count = encode(t, text, n, special ? MIRAS_TOKENIZER_SPECIAL : 0);
    if (count != wanted || memcmp(ids, want, count * sizeof *ids) != 0) printf("%s\n", line);
    assert_int_equal(count, wanted);
    assert_memory_equal(ids, want, count * sizeof *ids);
    n = 2;   /* room for two of them */
    assert_int_equal(miras_tokenizer_encode(t, text, from_hex(hex, text),
                                            special ? MIRAS_TOKENIZER_SPECIAL : 0, want, &n, NULL,
                                            0), MIRAS_OK);
    assert_int_equal(n, count);
    for (i = 0; i < count; i++)
      size += miras_tokenizer_decode(t, ids + i, 1, MIRAS_TOKENIZER_SPECIAL, &place, told + size,
                                     ROOM - size);
    place = 0;
    assert_int_equal(miras_tokenizer_decode(t, ids, count, MIRAS_TOKENIZER_SPECIAL, &place, text,
                                            ROOM), size);
    assert_memory_equal(text, told, size);
    if (out[0] != '?') {
      n = from_hex(out, text);
      assert_int_equal(n, size);
      assert_memory_equal(text, told, n);
    }
    seen++;
  }
  fclose(f);
  miras_tokenizer_close(t);
  assert_true(seen >= 200);
  assert_int_equal(test_live, 0);
}

static uint32_t drawn = 1;
static uint32_t draw(uint32_t below) {
  drawn = drawn * 1664525u + 1013904223u;
  return (drawn >> 8) % below;
}

/* Vocabularies of a and b up to six letters, as arrays: each token with its score. */
enum { TOKENS = 2 + 4 + 8 + 16 + 32 + 64 };
static miras_tokenizer_text spelt[TOKENS], pairs[TOKENS];
static char letters[TOKENS][8], merges[TOKENS][12];
static float scores[TOKENS];

static miras_tokenizer *open_letters(int kind, int kept) {
  miras_tokenizer_arrays a;
  int n = 0, length, k, merged = 0;
  memset(&a, 0, sizeof a);
  for (length = 1; length <= 6; length++)
    for (k = 0; k < 1 << length; k++) {
      int i;
      if (length > 1 && (int)draw(100) >= kept) continue;
      for (i = 0; i < length; i++) letters[n][i] = (k >> i & 1) ? 'b' : 'a';
      letters[n][length] = 0;
      spelt[n].at = letters[n];
      spelt[n].size = (size_t)length;
      scores[n] = -(float)(draw(20));
      n++;
    }
  for (k = 2; kind && k < n; k++) {   /* each by some two that are there */
    const int cut = 1 + (int)draw((uint32_t)spelt[k].size - 1);
    int i, found = 0;
    for (i = 0; i < n; i++) {
      found |= (int)spelt[i].size == cut && memcmp(letters[i], letters[k], (size_t)cut) == 0;
      found |= 2 * (strcmp(letters[i], letters[k] + cut) == 0);
    }
    if (found != 3) continue;
    snprintf(merges[merged], sizeof merges[0], "%.*s %s", cut, letters[k], letters[k] + cut);
    pairs[merged].at = merges[merged];
    pairs[merged].size = strlen(merges[merged]);
    merged++;
  }
  a.model = kind ? "gpt2" : "llama";
  a.pre = "gpt-2";
  a.tokens = spelt;
  a.scores = scores;
  a.count = (size_t)n;
  a.merges = pairs;
  a.merge_count = (size_t)merged;
  a.bos = a.eos = a.unknown = -1;
  a.no_space_prefix = 1;
  return miras_tokenizer_open_arrays(&a, 0, NULL, why, sizeof why);
}

/* The place of a text among the tokens, or -1. */
static int token_of(const char *s, size_t n, size_t count) {
  size_t i;
  for (i = 0; i < count; i++)
    if (spelt[i].size == n && memcmp(letters[i], s, n) == 0) return (int)i;
  return -1;
}

/* Merges by the definition: of all neighbours the best, and of equals the first. */
static void test_merges(void **state) {
  static size_t from[300];
  int round, kind;
  (void)state;
  for (round = 0; round < 400 / MIRAS_TEST_SHARE + 20; round++) {
    miras_tokenizer *t = open_letters(kind = round & 1, 20 + (int)draw(80));
    const size_t n = 1 + draw(round % 3 ? 30 : 290), count = t ? (size_t)t->size : 0;
    size_t parts = n, i, got;
    assert_true(t != NULL);
    for (i = 0; i < n; i++) text[i] = draw((uint32_t)round % 7 + 2) ? 'a' : 'b', from[i] = i;
    from[n] = n;
    for (;;) {
      double best = 1e9;
      size_t place = 0;
      for (i = 0; i + 1 < parts; i++) {
        const size_t size = from[i + 2] - from[i];
        const int to = token_of(text + from[i], size, count);
        double rank = 1e9;
        if (!kind && to >= 0) rank = -(double)scores[to];
        if (kind && to >= 0) {
          char spelling[32];
          int k;
          snprintf(spelling, sizeof spelling, "%.*s %.*s", (int)(from[i + 1] - from[i]),
                   text + from[i], (int)(from[i + 2] - from[i + 1]), text + from[i + 1]);
          for (k = 0; k < TOKENS && pairs[k].at; k++)
            if (strcmp(merges[k], spelling) == 0) rank = k;
        }
        if (rank < best) best = rank, place = i;
      }
      if (best >= 1e9) break;
      memmove(from + place + 1, from + place + 2, (parts - place - 1) * sizeof *from);
      parts--;
    }
    got = encode(t, text, n, 0);
    assert_int_equal(got, parts);
    for (i = 0; i < parts; i++)
      assert_int_equal(ids[i], token_of(text + from[i], from[i + 1] - from[i], count));
    miras_tokenizer_close(t);
    memset(pairs, 0, sizeof pairs);
    memset(merges, 0, sizeof merges);
  }
  assert_int_equal(test_live, 0);
}

/* Runs of one character, and what splits badly: time is no matter of their length. */
static void test_runs(void **state) {
  static const char *const runs[] = {"a", " ", "\n", "'", "0", "\xe4\xb8\x80", "\xcc\x81\xcc\xa3",
                                     " \n", "  ", "\xf0\x9f\x98\x80", "\xe1\x84\x80", "<|im_",
                                     "\xff"};
  const size_t n = 3000000 / MIRAS_TEST_SHARE;
  char *run = (char *)malloc(n), *back = (char *)malloc(3 * n + 8);
  int32_t *many = (int32_t *)malloc((3 * n + 8) * sizeof *many);   /* a blank may come before */
  size_t i, k;
  int j;
  (void)state;
  for (j = 0; j < NAMES; j++) {
    miras_tokenizer *t = open_name(names[j]);
    for (k = 0; k < sizeof runs / sizeof *runs; k++) {
      const size_t length = strlen(runs[k]);
      size_t count = 3 * n + 8, size;
      int place = 0;
      for (i = 0; i < n; i++) run[i] = runs[k][i % length];
      size = n - n % length;
      assert_int_equal(miras_tokenizer_encode(t, run, size, 0, many, &count, why, sizeof why),
                       MIRAS_OK);
      assert_true(count <= 3 * n + 8);
      if (j < 2 && k != 12) {   /* what is no Unicode, and what NFC changes, comes back changed */
        assert_int_equal(miras_tokenizer_decode(t, many, count, 0, &place, back, 3 * n), size);
        assert_memory_equal(back, run, size);
      }
    }
    miras_tokenizer_close(t);
  }
  free(run), free(back), free(many);
  assert_int_equal(test_live, 0);
}

/* Bytes that are no UTF-8 are U+FFFD, one for each longest beginning of a character. */
static void test_damaged_text(void **state) {
  static const char *const rows[][2] = {
    {"a\xff" "b", "a\xef\xbf\xbd" "b"}, {"\xe4\xb8", "\xef\xbf\xbd"},
    {"\xf0\x9f\x98x", "\xef\xbf\xbdx"}, {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    {"\xf4\x90\x80\x80z", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"},
    {"\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}};
  int j;
  size_t i;
  (void)state;
  for (j = 0; j < NAMES; j++) {
    miras_tokenizer *t = open_name(names[j]);
    for (i = 0; i < sizeof rows / sizeof *rows; i++) {
      const size_t count = encode(t, rows[i][1], strlen(rows[i][1]), 0);
      memcpy(want, ids, count * sizeof *ids);
      assert_int_equal(encode(t, rows[i][0], strlen(rows[i][0]), 0), count);
      assert_memory_equal(ids, want, count * sizeof *ids);
    }
    assert_int_equal(encode(t, "", 0, 0), 0);
    ids[0] = miras_tokenizer_size(t);
    assert_true(miras_tokenizer_decode(t, ids, 1, 0, NULL, told, 9) == SIZE_MAX);
    ids[0] = -1;
    assert_true(miras_tokenizer_decode(t, ids, 1, 0, NULL, told, 9) == SIZE_MAX);
    ids[0] = miras_tokenizer_find(t, "<|im_start|>", 12);
    assert_true(ids[0] > 0);
    assert_int_equal(encode(t, "<|im_start|>", 12, 0), 1);
    assert_true(encode(t, "<|im_start|>", 12, MIRAS_TOKENIZER_PLAIN) > 1);
    miras_tokenizer_close(t);
  }
}

/* A change of a file that makes it another thing, and what is said. */
static void test_refusals(void **state) {
  static const char *const rows[][4] = {
    {"smollm", "\"type\":\"BPE\"", "\"type\":\"Unigram\"", "model.type is Unigram"},
    {"smollm", "\"Digits\"", "\"Whitespace\"", "pre_tokenizer is Whitespace"},
    {"smollm", "\"dropout\":null", "\"dropout\":0.1", "model.dropout"},
    {"smollm", "\"end_of_word_suffix\":null", "\"end_of_word_suffix\":\"</w>\"", "is </w>"},
    {"smollm", "\"normalizer\":null", "\"normalizer\":{\"type\":\"NFKC\"}", "normalizer is NFKC"},
    {"smollm", "\"vocab\":{", "\"vocab\":{\"b c d\":1999999999,", "too high"},
    {"smollm", "\"vocab\":{", "\"vocab\":{\"!\":9,", "token \"!\" twice"},
    {"smollm", "\"vocab\":{", "\"vocab\":{\"!!!!\":0,", "two tokens have the id 0"},
    {"smollm", "\"merges\":[", "\"merges\":[[\"q\",\"zz\"],", "which is no token"},
    {"llama3", "\"merges\":[", "\"merges\":[\"a\",", "no two tokens"},
    {"smollm", "\"id\":330", "\"id\":338", "has the id 338, and not the 330"},
    {"llama3", "\\\\p{N}{1,3}", "\\\\p{N}{1,4}", "pre_tokenizer's Split is (?i:"},
    {"llama3", "\"Isolated\"", "\"MergedWithNext\"", "behavior"},
    {"llama3", "\"ids\":[330]", "\"ids\":[9999]", "which is no token's"},
    {"llama3", "\"TemplateProcessing\"", "\"BertProcessing\"", "post_processor is BertProcessing"},
    {"llama", "\"type\":\"Strip\"", "\"type\":\"CTC\"", "decoder is CTC"},
    {"llama", "\"Prepend\"", "\"Lowercase\"", "normalizer is Lowercase"},
    {"llama", "\"unk_token\":\"<unk>\"", "\"unk_token\":\"<none>\"", "unk_token is <none>"},
    {"llama", "{\"String\":\" \"}", "{\"Regex\":\" +\"}", "Replace of a Regex"},
    {"metaspace-first", "\"replacement\":\"\\u2581\"", "\"replacement\":\"_\"", "U+2581"}};
  size_t i;
  (void)state;
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    const size_t n = read_name(rows[i][0]), out = strlen(rows[i][1]), in = strlen(rows[i][2]);
    char *at;
    file[n] = 0;
    at = strstr(file, rows[i][1]);
    if (!at) printf("%s has no %s\n", rows[i][0], rows[i][1]);
    assert_true(at != NULL);
    memmove(at + in, at + out, n - (size_t)(at - file) - out);
    memcpy(at, rows[i][2], in);
    refused(file, n + in - out, rows[i][3]);
  }
  refused("", 0, "empty");
  refused("\xff\xfe{", 3, "UTF-16");
  refused("{\"a\":\"\xff\"}", 9, "not UTF-8 at byte 6");
  refused("{}", 2, "no model");
  refused("1 'a' 2", 7, "another length");
  memset(file, '[', 60000);
  memcpy(file, "{\"model\":", 9);
  refused(file, 60000, "no JSON");
}

/* Truncations and changed bytes: a sentence, or a vocabulary that works. */
static void damaged(const char *bytes, size_t n) {
  miras_tokenizer *t = miras_tokenizer_open_text(bytes, n, 0, NULL, why, sizeof why);
  if (t) {
    size_t count = ROOM, i;
    int place = 0;
    assert_int_equal(miras_tokenizer_encode(t, "it's <|end|> 12\xcc\x81 caf\xc3\xa9  \n", 23,
                                            MIRAS_TOKENIZER_SPECIAL, ids, &count, why,
                                            sizeof why), MIRAS_OK);
    assert_true(count < 200);
    for (i = 0; i < count; i++) assert_true(ids[i] >= 0 && ids[i] < miras_tokenizer_size(t));
    assert_true(miras_tokenizer_decode(t, ids, count, 0, &place, told, ROOM) < ROOM);
    miras_tokenizer_close(t);
  } else {
    assert_true(why[0] != 0);
  }
  assert_int_equal(test_live, 0);
}

static void test_damage(void **state) {
  static const char marks[] = "\"\\{}[],:0n\xff\x80 ";
  int j, k;
  size_t cut;
  (void)state;
  for (j = 0; j < NAMES; j++) {
    const size_t n = read_name(names[j]);
    char *exact;
    for (cut = draw(5); cut < n; cut += 1 + 7 * MIRAS_TEST_SHARE) {
      exact = (char *)malloc(cut + 1);   /* so that a sanitizer sees the end */
      memcpy(exact, file, cut);
      damaged(exact, cut);
      free(exact);
    }
    for (k = 0; k < 3000 / MIRAS_TEST_SHARE; k++) {
      int changes = 1 + (int)draw(3);
      char kept[3];
      size_t at[3];
      int i;
      for (i = 0; i < changes; i++) {
        at[i] = draw((uint32_t)n);
        kept[i] = file[at[i]];
        file[at[i]] = draw(3) ? marks[draw(sizeof marks - 1)] : (char)draw(256);
      }
      damaged(file, n);
      while (i--) file[at[i]] = kept[i];
    }
  }
}

/* Each allocation fails once, of opening and of encoding; then limits. */
static void test_room(void **state) {
  int j;
  long at;
  (void)state;
  for (j = 0; j < NAMES; j++) {
    const size_t n = read_name(names[j]);
    miras_tokenizer *t = NULL;
    uint64_t limit;
    for (at = 1; !t; at += 1) {
      test_calls = 0;
      test_fail_at = at;
      t = miras_tokenizer_open_text(file, n, 0, NULL, why, sizeof why);
      if (!t) assert_string_equal(why, "the allocator returned no memory");
      if (!t) assert_int_equal(test_live, 0);
    }
    assert_true(at > 5);
    for (at = 1;; at++) {
      size_t count = ROOM, i;
      miras_result result;
      const long before = test_live;
      for (i = 0; i < 3000; i++) text[i] = "ab \xcc\x81\xcc\xa3\xff"[i % 8];
      test_calls = 0;
      test_fail_at = at;
      result = miras_tokenizer_encode(t, text, 3000, 0, ids, &count, why, sizeof why);
      assert_int_equal(test_live, before);
      if (result == MIRAS_OK) break;
      assert_int_equal(result, MIRAS_ERR_ALLOC);
    }
    assert_true(at > 3);
    test_fail_at = 0;
    miras_tokenizer_close(t);
    for (t = NULL, limit = 1000; !t; limit += limit / 3) {
      t = miras_tokenizer_open_text(file, n, limit, NULL, why, sizeof why);
      if (!t) assert_true(strncmp(why, "limit is ", 9) == 0);
    }
    miras_tokenizer_close(t);
    assert_int_equal(test_live, 0);
  }
}

/* RWKV's lines, and arrays of the same. */
static void test_lines(void **state) {
  static const char lines[] = "1 'a' 1\n2 'ab' 2\n3 b'\\xff' 1\r\n4 \"it's\\n\" 5\n5 '\\u20ac' 3\n";
  static const miras_tokenizer_text escaped[] = {{"<s>", 3}, {"a", 1}, {"ab", 2}, {"\\xff", 4},
                                                 {"it's\\n", 6}, {"\\xe2\\x82\\xac", 12}};
  static const int32_t types[] = {3, 1, 1, 1, 1, 1};
  miras_tokenizer_arrays a;
  int turn, i;
  (void)state;
  for (turn = 0; turn < 2; turn++) {
    miras_tokenizer *t;
    size_t count = 0;
    memset(&a, 0, sizeof a);
    a.model = "rwkv";
    a.tokens = escaped;
    a.token_type = types;
    a.count = 6;
    a.bos = a.unknown = -1;
    t = turn ? miras_tokenizer_open_arrays(&a, 0, NULL, why, sizeof why)
             : miras_tokenizer_open_text(lines, sizeof lines - 1, 0, NULL, why, sizeof why);
    assert_true(t != NULL);
    assert_int_equal(miras_tokenizer_end(t), 0);
    assert_int_equal(encode(t, "aab\xff" "it's\n\xe2\x82\xac", 12, 0), 5);
    for (i = 0; i < 5; i++) assert_int_equal(ids[i], i + 1);
    assert_int_equal(miras_tokenizer_decode(t, ids, 5, 0, NULL, told, ROOM), 12);
    assert_memory_equal(told, "aab\xff" "it's\n\xe2\x82\xac", 12);
    assert_int_equal(miras_tokenizer_encode(t, "x", 1, 0, ids, &count, why, sizeof why),
                     MIRAS_ERR_ARGUMENT);
    assert_true(strstr(why, "no token for byte 120") != NULL);
    miras_tokenizer_close(t);
  }
  a.model = "bert";
  assert_null(miras_tokenizer_open_arrays(&a, 0, NULL, why, sizeof why));
  assert_true(strstr(why, "tokenizer.ggml.model is bert") != NULL);
  a.model = "gpt2";
  a.pre = "default";
  assert_null(miras_tokenizer_open_arrays(&a, 0, NULL, why, sizeof why));
  assert_true(strstr(why, "tokenizer.ggml.pre is default") != NULL);
  assert_int_equal(test_live, 0);
}

#define BYTES "\"decoder\":{\"type\":\"ByteLevel\"},"
#define MODEL(vocab) "\"model\":{\"type\":\"BPE\",\"vocab\":{" vocab "},\"merges\":[]}"

/* No vocabulary makes time or memory of a text more than a constant of it: long tokens, normalizers
 * that multiply, templates without end, texts that meet in a hash. */
static void test_costs(void **state) {
  static const char replace[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
                                "\"content\":\"aaaaaaaa\"}",
                    tail[] = "]}," BYTES MODEL("\"a\":0") "}";
  miras_tokenizer *t;
  size_t n, i;
  int long_one, kind, count;
  (void)state;
  for (long_one = 0; long_one < 2; long_one++)
    for (kind = 0; kind < 2; kind++) {   /* lines, and an added token */
      n = (size_t)sprintf(file, kind ? "{" BYTES MODEL("\"a\":0") ",\"added_tokens\":[{\"id\":1,"
                                       "\"content\":\"" : "0 'a' 1\n1 '");
      memset(file + n, 'a', 1000 + (size_t)long_one);
      n += 1000 + (size_t)long_one;
      n += (size_t)sprintf(file + n, kind ? "\"}]}" : "' %d\n", 1000 + long_one);
      if (long_one) refused(file, n, "has 1001 bytes; a token that is looked for in texts has");
      if (long_one) continue;
      t = miras_tokenizer_open_text(file, n, 0, NULL, why, sizeof why);
      assert_true(t != NULL);
      memset(text, 'a', 2001);
      assert_int_equal(encode(t, text, 2001, 0), 3);
      miras_tokenizer_close(t);
    }
  for (count = 2; count < 4; count++) {
    n = (size_t)sprintf(file, "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s,%s%s%s",
                        replace, replace, count > 2 ? "," : "", count > 2 ? replace : "");
    n += (size_t)sprintf(file + n, "%s", tail);
    if (count > 2) refused(file, n, "normalizer may make a text 512 times as long");
    if (count > 2) continue;
    t = miras_tokenizer_open_text(file, n, 0, NULL, why, sizeof why);
    assert_true(t != NULL);
    assert_int_equal(encode(t, "aa", 2, 0), 128);
    miras_tokenizer_close(t);
  }
  n = (size_t)sprintf(file, "{\"post_processor\":{\"type\":\"TemplateProcessing\","
                            "\"special_tokens\":{\"x\":{\"ids\":[]}},\"single\":[");
  for (i = 0; i < 18; i++)
    n += (size_t)sprintf(file + n, "%s{\"SpecialToken\":{\"id\":\"x\"}}", i ? "," : "");
  n += (size_t)sprintf(file + n, "%s", tail);
  refused(file, n, "post_processor.single is long");
  for (i = 0; i < 100; i++) {   /* bits that cancel out where words are only multiplied */
    char a[16], b[16];
    memset(a, 'a', 16), memset(b, 'a', 16);
    b[7] = b[11] = b[15] = (char)('a' ^ 0x80);
    assert_true(tok__hash(12345 * i, a, 16) != tok__hash(12345 * i, b, 16));
  }
}

/* Tokens that are empty, or in whose vocabulary nothing is but such; and of a byte-level vocabulary
 * those whose characters stand for no bytes. */
static void test_odd_tokens(void **state) {
  static const miras_tokenizer_text odd[] = {{"a", 1}, {"\xe6\x97\xa5", 3}, {"", 0}};
  static const char *const rows[] = {
    "{" BYTES MODEL("\"\":0") "}",
    "{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"\"}," BYTES
    MODEL("\"\":0") "}"};
  miras_tokenizer_arrays a;
  miras_tokenizer *t;
  size_t i;
  (void)state;
  for (i = 0; i < 2; i++) {
    t = miras_tokenizer_open_text(rows[i], strlen(rows[i]), 0, NULL, why, sizeof why);
    if (!t) printf("%s\n", why);
    assert_true(t != NULL);
    assert_int_equal(encode(t, "aa", 2, 0), 0);
    ids[0] = 0;
    assert_int_equal(miras_tokenizer_decode(t, ids, 1, 0, NULL, told, ROOM), 0);
    miras_tokenizer_close(t);
  }
  memset(&a, 0, sizeof a);
  a.model = "gpt2";
  a.pre = "gpt-2";
  a.tokens = odd;
  a.count = 3;
  a.bos = a.eos = a.unknown = -1;
  t = miras_tokenizer_open_arrays(&a, 0, NULL, why, sizeof why);
  assert_true(t != NULL);
  for (i = 0; i < 3; i++) {
    ids[0] = (int32_t)i;
    assert_int_equal(miras_tokenizer_decode(t, ids, 1, 0, NULL, told, ROOM), odd[i].size);
    assert_memory_equal(told, odd[i].at, odd[i].size);
  }
  miras_tokenizer_close(t);
  assert_int_equal(test_live, 0);
}

/* Does a text begin with bos where a file of GGUF says so, says no, and where it says nothing? Then
 * it is as llama.cpp has it, which most files of Llama 3 rely on. */
static void test_first_tokens(void **state) {
  static const miras_tokenizer_text two[] = {{"<s>", 3}, {"a", 1}};
  static const int32_t types[] = {3, 1};
  static const float weighed[] = {0, 0};
  static const struct { const char *model, *pre; int begins; } of[] = {
    {"llama", "", 1}, {"gpt2", "llama-bpe", 1}, {"gpt2", "llama3", 1}, {"gpt2", "falcon-h1", 1},
    {"gpt2", "lfm2", 1}, {"gpt2", "gpt-2", 0}, {"gpt2", "dbrx", 0}, {"gpt2", "qwen2", 0},
    {"gpt2", "smollm", 0}};
  miras_tokenizer_arrays a;
  size_t i;
  int says;
  (void)state;
  for (i = 0; i < sizeof of / sizeof *of; i++)
    for (says = -1; says < 2; says++) {
      const int begins = says < 0 ? of[i].begins : says;
      miras_tokenizer *t;
      memset(&a, 0, sizeof a);
      a.model = of[i].model, a.pre = of[i].pre;
      a.tokens = two, a.token_type = types, a.scores = weighed, a.count = 2;
      a.eos = a.unknown = -1;
      a.add_bos = says, a.no_space_prefix = 1;
      t = miras_tokenizer_open_arrays(&a, 0, NULL, why, sizeof why);
      if (!t) printf("%s: %s\n", of[i].pre, why);
      assert_true(t != NULL);
      assert_int_equal(encode(t, "a", 1, 0), 1);
      assert_int_equal(encode(t, "a", 1, MIRAS_TOKENIZER_SPECIAL), 1 + begins);
      assert_int_equal(ids[0], begins ? 0 : 1);
      miras_tokenizer_close(t);
    }
  assert_int_equal(test_live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_first_tokens),
    cmocka_unit_test(test_vectors), cmocka_unit_test(test_merges), cmocka_unit_test(test_runs),
    cmocka_unit_test(test_damaged_text), cmocka_unit_test(test_refusals),
    cmocka_unit_test(test_damage), cmocka_unit_test(test_room), cmocka_unit_test(test_lines),
    cmocka_unit_test(test_costs), cmocka_unit_test(test_odd_tokens)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
