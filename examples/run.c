/* run.c: run other people's models, or your own.
 *
 *     cc -O2 examples/run.c -o run -lm              (older C libraries: add -pthread)
 *
 * From the folder that holds miras.h. A model is a folder as Hugging Face has them (config.json and
 * safetensors), or a file that examples/lm.c has written:
 *
 *     ./run FOLDER --vocab rwkv_vocab_v20230424.txt --prompt "The Eiffel tower is in the city of"
 *     ./run FOLDER --prompt "..."                   a model of bytes: 256 tokens
 *     ./tokenize | ./run FOLDER --ids | ./untokenize      any other tokenizer, as numbers
 *     ./run FOLDER --info                           what it is, and its size; no weight is read
 *     ./run FOLDER --weights q8 --save FILE         once; ./run FILE --weights q8 then opens in a
 *                                                   fifth of the time
 *     ./run --help                                  every option
 *
 * The text is the same to the bit for any number of threads, with or without a cache, and when it
 * is saved by --save-state and goes on by --state: a draw is of --seed and of its place in the text
 * alone. A cache holds the state behind the longest prompt that began with it, the prompt's tokens,
 * and a checksum of the model's files and of what the options make of them: another model's is not
 * taken, nor one that is damaged; either is replaced. Exit status: 0 done, 1 a file or a model
 * failed, 2 wrong arguments. */
#if defined(__unix__) || defined(__APPLE__)
  #define _POSIX_C_SOURCE 200809L
  #define MIRAS_PTHREADS
  #include <sys/stat.h>
#endif
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#define MIRAS_HUGGINGFACE_IMPLEMENTATION
#include "huggingface.h"

/* ---- small tools ----------------------------------------------------------------------------- */

/* Say one sentence and leave. */
static void die(int status, const char *format, ...) {
  va_list list;
  fputs("run: ", stderr);
  va_start(list, format);
  vfprintf(stderr, format, list);
  va_end(list);
  fputc('\n', stderr);
  exit(status);
}

static void *grow(void *pointer, size_t count, size_t size) {
  void *p = count > SIZE_MAX / size - 1 ? NULL : realloc(pointer, (count + 1) * size);
  if (!p) die(1, "there is not enough memory for %lu items", (unsigned long)count);
  return p;
}

/* Seconds on the wall. */
static double now(void) {
#if defined(_POSIX_C_SOURCE)
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#elif defined(_WIN32)
  return (double)clock() / CLOCKS_PER_SEC;   /* there, clock() is no processor time */
#else
  return (double)time(NULL);
#endif
}

/* head, and tail behind it */
static char *join(const char *head, const char *tail) {
  const size_t n = strlen(head), m = strlen(tail);
  char *path = (char *)grow(NULL, n + m, 1);
  memcpy(path, head, n);
  memcpy(path + n, tail, m + 1);
  return path;
}

static int is_folder(const char *path) {
#if defined(_POSIX_C_SOURCE)
  struct stat s;
  return !stat(path, &s) && S_ISDIR(s.st_mode);
#else
  char *inside = join(path, "/.");
  FILE *f = fopen(inside, "rb");
  if (f) fclose(f);
  free(inside);
  return f != NULL;
#endif
}

/* Is there a device or a pipe? */
static int special(const char *path) {
#if defined(_POSIX_C_SOURCE)
  struct stat s;
  return !stat(path, &s) && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
#else
  (void)path;
  return 0;
#endif
}

static int can_be_read(const char *path) {
  FILE *f = fopen(path, "rb");
  int good = f && (fgetc(f) != EOF || !ferror(f));   /* folders open, and cannot be read */
  if (f) fclose(f);
  return good;
}

/* Do both paths lead to one file that is there? */
static int same_file(const char *a, const char *b) {
#if defined(_POSIX_C_SOURCE)
  struct stat x, y;
  return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
#elif defined(_WIN32)
  char x[1024], y[1024];
  return _fullpath(x, a, sizeof x) && _fullpath(y, b, sizeof y) && _stricmp(x, y) == 0;
#else
  return strcmp(a, b) == 0;
#endif
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

/* The whole file, with a zero behind it; NULL when it cannot be opened and may be missing. */
static char *read_file(const char *path, size_t *count, int may_miss) {
  FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  char *text = NULL;
  size_t n = 0, got;
  if (!f && may_miss) return NULL;
  if (!f) die(1, "%s cannot be opened: %s", path, strerror(errno));
  do {
    text = (char *)grow(text, n + 65536, 1);
    got = fread(text + n, 1, 65536, f);
    n += got;
  } while (got);
  if (ferror(f)) die(1, "%s cannot be read", path);
  if (f != stdin) fclose(f);
  text[n] = 0;
  *count = n;
  return text;
}

/* The same of a text, behind a mark of UTF-8. */
static char *read_text(const char *path, size_t *count) {
  char *text = read_file(path, count, 0);
  if (*count >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
    die(1, "%s is UTF-16; it must be UTF-8", path);
  if (*count < 3 || memcmp(text, "\xef\xbb\xbf", 3) != 0) return text;
  *count -= 3;
  memmove(text, text + 3, *count + 1);
  return text;
}

typedef struct tokens {
  int32_t *at;
  size_t count, room;
} tokens;

static void add(tokens *t, long id) {
  if (t->count == t->room) {
    t->room = t->room ? 2 * t->room : 256;
    t->at = (int32_t *)grow(t->at, t->room, sizeof *t->at);
  }
  t->at[t->count++] = (int32_t)id;
}

/* ---- RWKV's vocabulary ----------------------------------------------------------------------- */

/* A tree of bytes: the children of a node are a list. A text becomes the longest token at its
 * beginning, and then so on. */
typedef struct node {
  int child, next;         /* the first of its children, the next of its siblings; 0: none       */
  int token;               /* that ends here; -1: none                                           */
  unsigned char byte;
} node;

typedef struct vocabulary {
  node *nodes;             /* the first is the root                                              */
  int count, room;
  unsigned char **text;    /* [size] of a token; NULL: there is no such token                    */
  size_t *length;
  int size;
} vocabulary;

static int node_of(vocabulary *v, int at, unsigned char byte, int make) {
  int i;
  for (i = v->nodes[at].child; i && v->nodes[i].byte != byte;) i = v->nodes[i].next;
  if (i || !make) return i;
  if (v->count == v->room) {
    v->room *= 2;
    v->nodes = (node *)grow(v->nodes, (size_t)v->room, sizeof(node));
  }
  i = v->count++;
  v->nodes[i].child = 0;
  v->nodes[i].next = v->nodes[at].child;
  v->nodes[i].token = -1;
  v->nodes[i].byte = byte;
  v->nodes[at].child = i;
  return i;
}

/* A code point as UTF-8. */
static size_t put_utf8(unsigned char *to, unsigned long c) {
  size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;
  for (i = n; i-- > 1; c >>= 6) to[i] = (unsigned char)(0x80 | (c & 0x3f));
  to[0] = (unsigned char)(n == 1 ? c : (0xf00 >> n & 0xff) | c);
  return n;
}

/* A Python literal, 'text' or b'bytes', to bytes: how many, or -1 if it is none. It ends at *end.
 * A literal is never shorter than its bytes. */
static long read_literal(const char *s, const char **end, unsigned char *to) {
  const int bytes = *s == 'b';
  size_t n = 0;
  char quote;
  s += bytes;
  quote = *s++;
  if (quote != '\'' && quote != '"') return -1;
  while (*s && *s != '\n' && *s != quote) {
    static const char plain[] = "\\'\"nrt", means[] = "\\'\"\n\r\t";
    const char *known;
    unsigned long c = 0;
    int digits, i;
    if (*s != '\\') {
      to[n++] = (unsigned char)*s++;
      continue;
    }
    s++;
    known = *s ? strchr(plain, *s) : NULL;
    digits = *s == 'x' ? 2 : *s == 'u' ? 4 : *s == 'U' ? 8 : 0;
    if (!known && (!digits || (bytes && digits > 2))) return -1;
    s++;
    if (known) {
      to[n++] = (unsigned char)means[known - plain];
      continue;
    }
    for (i = 0; i < digits; i++, s++) {
      static const char hex[] = "0123456789abcdef";
      const char *digit = *s ? strchr(hex, *s) : NULL;
      if (!digit) return -1;
      c = 16 * c + (unsigned long)(digit - hex);
    }
    if (c > 0x10ffff) return -1;
    if (bytes) to[n++] = (unsigned char)c;
    else n += put_utf8(to + n, c);
  }
  *end = s + 1;
  return *s == quote ? (long)n : -1;
}

static void read_vocabulary(vocabulary *v, const char *path, int size) {
  size_t count;
  char *text = read_text(path, &count);
  const char *at = text;
  int line;
  memset(v, 0, sizeof *v);
  v->size = size;
  v->room = 1024;
  v->nodes = (node *)grow(NULL, (size_t)v->room, sizeof(node));
  memset(v->nodes, 0, sizeof(node));
  v->nodes[0].token = -1;
  v->count = 1;
  v->text = (unsigned char **)grow(NULL, (size_t)size, sizeof *v->text);
  memset(v->text, 0, (size_t)size * sizeof *v->text);
  v->length = (size_t *)grow(NULL, (size_t)size, sizeof *v->length);
  for (line = 1; *at; line++) {
    const char *end = strchr(at, '\n');
    char *rest;
    long id = strtol(at, &rest, 10), n, said;
    unsigned char *bytes;
    int i, place = 0;
    if (!end) end = at + strlen(at);
    if (rest == at || *rest++ != ' ' || id < 0 || id >= size || v->text[id])
      die(1, "%s, line %d: no id from 0 to %d that is new", path, line, size - 1);
    bytes = (unsigned char *)grow(NULL, (size_t)(end - rest), 1);
    n = read_literal(rest, &at, bytes);
    if (n < 1) die(1, "%s, line %d: no literal of Python", path, line);
    said = strtol(at, &rest, 10);
    while (*rest == '\r') rest++;
    if (said != n || rest != end)
      die(1, "%s, line %d: a token of %ld bytes is said to have another length", path, line, n);
    v->text[id] = bytes;
    v->length[id] = (size_t)n;
    for (i = 0; i < n; i++) place = node_of(v, place, bytes[i], 1);
    v->nodes[place].token = (int)id;
    at = *end ? end + 1 : end;
  }
  free(text);
}

static void encode(vocabulary *v, tokens *t, const char *text, size_t count) {
  size_t from = 0;
  while (from < count) {
    size_t at = from, best = from;
    int place = 0, token = -1;
    while (at < count && (place = node_of(v, place, (unsigned char)text[at], 0)) != 0) {
      at++;
      if (v->nodes[place].token >= 0) token = v->nodes[place].token, best = at;
    }
    if (token < 0)
      die(1, "the vocabulary has no token for byte %d of the prompt", (unsigned char)text[from]);
    add(t, token);
    from = best;
  }
}

/* ---- options --------------------------------------------------------------------------------- */

typedef struct options {
  const char *model, *prompt, *file, *weights, *ignore, *vocab, *cache, *state, *save_state, *save;
  double count, stop, window, limit, threads, temperature, top_k, top_p, seed;
  int ids, score, info;
} options;

/* What is asked for. */
static options given;

typedef struct option {
  const char *name;
  char type;               /* f(lag), s(tring), i: a whole number, r: any number                  */
  void *value;
  double low, high;
  const char *help;
} option;

static const option table[] = {
  {"--prompt", 's', &given.prompt, 0, 0,
   "text to go on from; without one, the end of --state or token 0 alone"},
  {"--file", 's', &given.file, 0, 0, "the prompt is what this file holds"},
  {"--ids", 'f', &given.ids, 0, 0,
   "the prompt is numbers on standard input, and numbers are written"},
  {"--vocab", 's', &given.vocab, 0, 0, "RWKV's vocabulary: lines of id, Python literal, length"},
  {"--tokens", 'i', &given.count, 0, 1e9, "how many to write"},
  {"--stop", 'i', &given.stop, 0, 1e9, "end at this token, which is not written; 0 with --vocab"},
  {"--temperature", 'r', &given.temperature, 0, 100, "0 takes the likeliest"},
  {"--top-k", 'i', &given.top_k, 0, 1e9, "only among the k likeliest; 0: all"},
  {"--top-p", 'r', &given.top_p, 0, 1, "only among the likeliest that sum to p; 0: all"},
  {"--seed", 'i', &given.seed, 0, 1e15, "of the draws, with their places in the text"},
  {"--threads", 'i', &given.threads, 1, 256, "cores to use; the text is the same"},
  {"--weights", 's', &given.weights, 0, 0, "float, bf16, f16 or q8: how matrices are held (float)"},
  {"--window", 'i', &given.window, 1, 1 << 20,
   "tokens that attention sees at most; else what the model says"},
  {"--ignore", 's', &given.ignore, 0, 0,
   "fields of config.json that count as not there, with commas between; unknown: all that are not "
   "known"},
  {"--limit", 'i', &given.limit, 1, 1e18, "bytes that the model, and a session of it, may take"},
  {"--cache", 's', &given.cache, 0, 0,
   "of prompts: what this file has of the prompt is not read again"},
  {"--state", 's', &given.state, 0, 0, "go on from this state, as if it had never been saved"},
  {"--save-state", 's', &given.save_state, 0, 0, "write the state at the end"},
  {"--score", 'f', &given.score, 0, 0, "write no text, but the loss of the prompt per token"},
  {"--info", 'f', &given.info, 0, 0,
   "write the descriptor and the model's size, and no more; no weight is read"},
  {"--save", 's', &given.save, 0, 0,
   "write the model, its matrices as --weights says, as a file of miras.h, which opens faster"},
  {NULL, 0, NULL, 0, 0, NULL}};

static void print_help(void) {
  const option *o;
  puts("run: run other people's models, or your own, with miras.h\n\n"
       "  run MODEL [options]\n\n"
       "MODEL is a folder with config.json and *.safetensors, one such file, or a file of lm.\n"
       "PyTorch's .bin and .pth become such files by examples/to_safetensors.py.\n");
  for (o = table; o->name; o++) {
    char left[40], value[32] = "";
    const double x = strchr("ir", o->type) ? *(double *)o->value : 0;
    snprintf(left, sizeof left, "%s%s", o->name,
             o->type == 'f' ? "" : o->type == 's' ? " TEXT" : o->type == 'i' ? " N" : " X");
    if (x > 0) snprintf(value, sizeof value, " (%g)", x);
    printf("  %-18s %s%s\n", left, o->help, value);
  }
}

static double number(const option *o, const char *text) {
  char *end;
  const double x = strtod(text, &end);
  if (end == text || *end || !(x >= o->low && x <= o->high) || (o->type == 'i' && x != floor(x)))
    die(2, "%s is \"%s\"; it must be a %snumber from %.10g to %.10g", o->name, text,
        o->type == 'i' ? "whole " : "", o->low, o->high);
  return x;
}

/* The option of that name, or leave with the nearest one. */
static const option *find_option(const char *name) {
  const option *o, *near = table;
  for (o = table; o->name && strcmp(o->name, name) != 0; o++)
    if (distance(o->name, name) < distance(near->name, name)) near = o;
  if (o->name) return o;
  if (distance(near->name, name) < 4)
    die(2, "there is no option %s; is it %s? run --help lists them all", name, near->name);
  die(2, "there is no option %s; run --help lists them all", name);
  return NULL;
}

/* Options that leave each other nothing to do. */
static void check_options(const options *o) {
  if (!o->model)
    die(2, "a model is needed: a folder with config.json and *.safetensors, or a file of lm; "
           "run --help has more");
  if (o->ids && (o->vocab || o->prompt || o->file))
    die(2, "--ids takes its prompt from standard input, as numbers: without --vocab, --prompt "
           "and --file");
  if (o->prompt && o->file) die(2, "--prompt and --file are two prompts");
  if (o->cache && o->state) die(2, "--cache begins anew and --state does not");
  if (o->score && (o->cache || o->save_state))
    die(2, "--score reads its prompt whole, and leaves no state: it has no use for %s",
        o->cache ? "--cache" : "--save-state");
#ifndef MIRAS_PTHREADS
  if (o->threads > 1) die(2, "--threads is %g; there are no POSIX threads here", o->threads);
#endif
}

static void read_options(options *o, int argc, char **argv) {
  int i;
  o->count = 256, o->stop = -1, o->threads = 1;
  o->temperature = 0.8, o->seed = 1;
  for (i = 1; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
      print_help();
      exit(0);
    }
  for (i = 1; i < argc; i++) {
    const option *p;
    if (argv[i][0] != '-') {
      if (o->model) die(2, "%s: there is a model already: %s", argv[i], o->model);
      o->model = argv[i];
      continue;
    }
    p = find_option(argv[i]);
    if (p->type == 'f') {
      *(int *)p->value = 1;
      continue;
    }
    if (++i == argc) die(2, "%s needs a value behind it", p->name);
    if (p->type != 's') *(double *)p->value = number(p, argv[i]);
    else if (argv[i][0] || p->value == &o->prompt) *(const char **)p->value = argv[i];
    else die(2, "%s is empty; it must be %s", p->name,
             p->value == &o->weights  ? "float, bf16, f16 or q8"
             : p->value == &o->ignore ? "fields of config.json"
                                      : "a file");
  }
  check_options(o);
}

/* ---- the model and its files ----------------------------------------------------------------- */

/* The folder that a file lies in, "." or with a slash at its end. */
static char *folder_of(const char *path) {
  char *folder = join(path, "");
  size_t n = strlen(folder);
#ifdef _WIN32
  while (n && folder[n - 1] != '/' && folder[n - 1] != '\\') n--;
#else
  while (n && folder[n - 1] != '/') n--;
#endif
  folder[n] = 0;
  return n ? folder : strcpy(folder, ".");
}

/* The shards that an index names: what ends in .safetensors of its strings. */
static void each_shard(const char *folder, const char *index,
                       void (*visit)(void *to, const char *path), void *to) {
  size_t n;
  char *text = can_be_read(index) ? read_file(index, &n, 1) : NULL, *at = text, *end;
  for (; at && (at = strchr(at, '"')) != NULL; at = end + 1) {
    char *name, *path;
    end = strchr(++at, '"');
    if (!end) break;
    *end = 0;
    if (end - at <= 12 || strcmp(end - 12, ".safetensors") != 0) continue;
    name = join("/", at);
    path = join(folder, name);
    visit(to, path);
    free(name), free(path);
  }
  free(text);
}

/* Call visit for every file that the model may be read from; some may not be there. */
static void each_file(const char *model, void (*visit)(void *to, const char *path), void *to) {
  static const char *const names[] = {"/config.json", "/model.safetensors",
                                      "/model.safetensors.index.json"};
  const int file = can_be_read(model);
  char *folder = file ? folder_of(model) : join(model, "");
  int i;
  if (file) visit(to, model);
  for (i = 0; i < (file ? 1 : 3); i++) {
    char *path = join(folder, names[i]);
    visit(to, path);
    if (i == 2) each_shard(folder, path, visit, to);
    free(path);
  }
  free(folder);
}

/* A checksum of many things, one after the other. */
static void mix(uint64_t *sum, const void *bytes, size_t n) {
  const unsigned char *at = (const unsigned char *)bytes;
  uint64_t h = *sum ^ n;
  for (; n; at += n < 8 ? n : 8, n -= n < 8 ? n : 8) {
    uint64_t word = 0;
    memcpy(&word, at, n < 8 ? n : 8);
    h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 32;
  }
  *sum = h * UINT64_C(0xd6e8feb86659fd93);
}

/* A new file beside path, whose name it writes to part; NULL if there can be none. */
static FILE *new_file(const char *path, char **part) {
  FILE *f = NULL;
  int i;
  for (i = 0; !f && i < 100; i++) {
    char end[32];
    uint64_t name = (uint64_t)(uintptr_t)&name;
    const double at = now() + (double)clock() + i;
    mix(&name, &at, sizeof at);
    snprintf(end, sizeof end, ".tmp-%08lx", (unsigned long)(name >> 32));
    free(*part);
    *part = join(path, end);
#ifdef _WIN32
    f = fopen(*part, "wb");
#else
    f = fopen(*part, "wbx");   /* x: not one that is there, be it a link */
#endif
  }
  return f;
}

typedef struct output {
  const char *option, *path;
} output;

static void not_input(void *to, const char *path) {
  const output *out = (const output *)to;
  if (same_file(out->path, path))
    die(2, "%s is %s, which is read from: it would be replaced", out->option, out->path);
}

/* Leave now, and not after hours, if no file can be written there. */
static void try_output(const output *out) {
  char *part = NULL;
  FILE *f;
  if (is_folder(out->path))
    die(2, "%s is %s, which is a folder and no file", out->option, out->path);
  if (special(out->path)) {
    if (strcmp(out->option, "--cache") == 0)
      die(2, "--cache is %s, which is a device or a pipe and no file", out->path);
    return;
  }
  f = new_file(out->path, &part);
  if (!f) die(1, "%s is %s, which cannot be written: %s", out->option, out->path, strerror(errno));
  fclose(f);
  remove(part);
  free(part);
}

/* No output takes the place of an input, or of another output. */
static void check_outputs(const options *o) {
  output out[3];
  int i, k;
  out[0].option = "--save", out[0].path = o->save;
  out[1].option = "--save-state", out[1].path = o->save_state;
  out[2].option = "--cache", out[2].path = o->cache;
  for (i = 0; i < 3; i++) {
    if (!out[i].path) continue;
    each_file(o->model, not_input, &out[i]);
    if (o->vocab) not_input(&out[i], o->vocab);
    if (o->file) not_input(&out[i], o->file);
    if (o->state && i != 1) not_input(&out[i], o->state);   /* a text may go on in its place */
    for (k = 0; k < i; k++)
      if (out[k].path && (strcmp(out[i].path, out[k].path) == 0 ||
                          same_file(out[i].path, out[k].path)))
        die(2, "%s and %s are one file, %s", out[k].option, out[i].option, out[i].path);
    try_output(&out[i]);
  }
}

static void mix_text(uint64_t *sum, const char *text) { mix(sum, text, strlen(text)); }

static void mix_file(void *to, const char *path) {
  static unsigned char block[1 << 16];
  FILE *f = fopen(path, "rb");
  size_t n;
  while (f && (n = fread(block, 1, sizeof block, f)) > 0) mix((uint64_t *)to, block, n);
  if (f) fclose(f);
}

/* A number that another model has not: of all its files' bytes, of its descriptor, and of how it is
 * held and computed. */
static uint64_t model_print(const options *o, const miras_model *m) {
  const miras_model_desc *d = miras_model_desc_of(m);
  uint64_t sum = 1;
  char name[80], text[MIRAS_PATTERN_SIZE];
  int i, k;
  each_file(o->model, mix_file, &sum);
  for (i = 0; miras_model_desc_field(i); i++)
    for (k = 0; k < MIRAS_MAX_LAYER_KINDS; k++) {
      snprintf(name, sizeof name, "%c.%s", d->layer[k].letter, miras_model_desc_field(i));
      if (miras_model_desc_get(d, d->layer[k].letter ? name : name + 2, text, sizeof text))
        mix_text(&sum, text);
    }
  k = (int)d->weights;
  mix(&sum, &k, sizeof k);
  mix_text(&sum, strcmp(miras_isa(), "portable") ? "fused" : "portable");
  return sum;
}

/* Say why a model is none, and where its weights may be. */
static void not_opened(const char *model, miras_result result, const char *why) {
  static const char *const ends[] = {".bin", ".pth", ".pt", ".ckpt"};
  const size_t n = strlen(model);
  FILE *f = fopen(model, "rb");
  const int missing = !f && errno == ENOENT;
  char *tensors = join(model, "/model.safetensors"), *index = join(tensors, ".index.json");
  size_t i;
  if (f) fclose(f);
  if (missing) die(1, "%s cannot be opened: there is no such file or folder", model);
  for (i = 0; i < sizeof ends / sizeof *ends; i++)
    if (n > strlen(ends[i]) && strcmp(model + n - strlen(ends[i]), ends[i]) == 0)
      die(1, "%s: %s; if it is a file of PyTorch, make a folder and in it a file that is read "
             "here: python3 examples/to_safetensors.py %s FOLDER/model.safetensors", model, why,
          model);
  if (can_be_read(model) && (n <= 12 || strcmp(model + n - 12, ".safetensors") != 0))
    die(1, "%s is a file, but none that lm has written; one of tensors has a name that ends in "
           ".safetensors", model);
  if (!can_be_read(model) && !can_be_read(tensors) && !can_be_read(index))
    die(1, "%s: %s; there is no model.safetensors and no model.safetensors.index.json. Weights in "
           "files of PyTorch (.bin, .pth) become one: python3 examples/to_safetensors.py "
           "%s/pytorch_model*.bin %s", model, why, model, tensors);
  die(1, "%s: %s%s", model, why,
      result != MIRAS_ERR_DESC || strncmp(why, "config.json: ", 13) != 0 ? ""
      : "; --ignore NAME,NAME goes on without these fields, --ignore unknown without all that are "
        "not known");
}

/* The descriptor of our own model or of another's; asked receives what the options say of it. */
static int describe_model(const options *o, miras_model_desc *asked, miras_model_desc *d) {
  static const char names[MIRAS_WEIGHTS_COUNT][8] = {"float", "bf16", "f16", "q8"};
  miras_result result = MIRAS_ERR_FORMAT;
  char why[1024] = "";
  int i;
  memset(asked, 0, sizeof *asked);
  asked->limit = (uint64_t)o->limit;
  for (i = 0; o->weights && i < MIRAS_WEIGHTS_COUNT && strcmp(o->weights, names[i]) != 0;) i++;
  if (i == MIRAS_WEIGHTS_COUNT)
    die(2, "--weights is %s; it must be float, bf16, f16 or q8", o->weights);
  asked->weights = (miras_weights)i;
  *d = *asked;
  if (can_be_read(o->model))   /* a file and no folder */
    result = miras_model_desc_load(d, o->model, NULL);
  d->weights = asked->weights;
  if (result == MIRAS_OK && o->window > 0)
    die(2, "--window is %g, but a file of miras.h has its windows: it is for models of others",
        o->window);
  if (result == MIRAS_OK && o->ignore)
    die(2, "--ignore is %s, but a file of miras.h has no config.json", o->ignore);
  if (result == MIRAS_OK) return 1;
  if (result != MIRAS_ERR_FORMAT) die(1, "%s: %s", o->model, miras_result_text(result));
  result = miras_checkpoint_desc(d, o->model, o->ignore, NULL, why, sizeof why);
  if (result != MIRAS_OK) not_opened(o->model, result, why);
  if (why[0]) fprintf(stderr, "run: %s: %s\n", o->model, why);
  for (i = 0; o->window > 0 && i < MIRAS_MAX_LAYER_KINDS; i++)
    if (d->layer[i].attention.window > o->window) d->layer[i].attention.window = (int)o->window;
  return 0;
}

static miras_model *open_model(const options *o, const miras_model_desc *d, int own) {
  char why[1024] = "";
  miras_model *m = own ? miras_model_open_file(o->model, d, NULL, NULL, why, sizeof why)
                       : miras_checkpoint_open(d, o->model, o->ignore, NULL, why, sizeof why);
  if (!m) die(1, "%s: %s", o->model, why);
  return m;
}

/* Write the descriptor, with all defaults, and how large such a model is. */
static void say_info(const options *o, miras_model_desc *d) {
  char text[MIRAS_PATTERN_SIZE], name[80], why[256] = "";
  const uint64_t parameters = miras_model_desc_resolve(d, why, sizeof why);
  int i, k;
  if (!parameters) die(1, "%s: %s", o->model, why);
  for (i = 0; miras_model_desc_field(i); i++) {
    int said = 0;
    for (k = 0; k < MIRAS_MAX_LAYER_KINDS; k++) {
      const char letter = d->layer[k].letter;
      snprintf(name, sizeof name, "%c.%s", letter, miras_model_desc_field(i));
      if (!letter || !(d->pattern[0] ? strchr(d->pattern, letter) != NULL : k == 0) ||
          !miras_model_desc_get(d, name, text, sizeof text)) continue;
      printf("%s %s\n", name, text);
      said = 1;
    }
    if (!said && miras_model_desc_get(d, name + 2, text, sizeof text))
      printf("%s %s\n", name + 2, text);
  }
  printf("parameters %.0f\nbytes %.0f\n", (double)parameters,
         (double)miras_model_size(d, NULL, 0));
}

static void read_prompt(const options *o, vocabulary *v, tokens *prompt, int vocab) {
  size_t n = 0, i;
  char *text = NULL;
  if (o->ids || o->file) text = read_text(o->ids ? "-" : o->file, &n);
  if (o->ids) {
    char *at = text, *end;
    for (;; at = end) {
      const long id = strtol(at, &end, 10);
      if (end == at) break;
      if (id < 0 || id >= vocab) die(1, "%ld is no token; they go from 0 to %d", id, vocab - 1);
      add(prompt, id);
    }
    at += strspn(at, " \t\r\n");
    if (*at) die(1, "standard input holds more than numbers: %.20s", at);
  } else {
    const char *from = text ? text : o->prompt ? o->prompt : "";
    if (!text) n = strlen(from);
    if (o->vocab) encode(v, prompt, from, n);
    else for (i = 0; i < n; i++) add(prompt, (unsigned char)from[i]);
  }
  free(text);
  if (!prompt->count && !o->state) add(prompt, 0);
}

static void write_token(const options *o, const vocabulary *v, int32_t token) {
  if (o->ids) printf("%ld\n", (long)token);
  else if (!o->vocab) putchar(token);
  else if (v->text[token]) fwrite(v->text[token], 1, v->length[token], stdout);
  fflush(stdout);
}

/* ---- a running text -------------------------------------------------------------------------- */

/* A text on one thread is a session. On more, a server works on the session's state, and what it
 * says is the same to the bit. */
typedef struct writer {
  miras_session *s;
  miras_server *server;    /* NULL: one thread                                                    */
#ifdef MIRAS_PTHREADS
  const miras_parallel *pool;
#endif
  float *logits;           /* [PIECE, vocab] of the server                                        */
  unsigned char *before;   /* the state before the last token of the server; NULL: is not wanted  */
  int32_t last;            /* that token; -1: the server had none, or many                        */
  int vocab;
} writer;

enum { PIECE = 64 };       /* tokens that are scored together                                     */

/* saves: the state is wanted in the end. */
static void writer_open(writer *w, const miras_model *m, int threads, int saves) {
  memset(w, 0, sizeof *w);
  w->vocab = miras_model_desc_of(m)->vocab;
  w->last = -1;
  w->s = miras_session_open(m, NULL, NULL, NULL, 0);
  if (!w->s) die(1, "there is not enough memory for a session");
#ifdef MIRAS_PTHREADS
  if (threads > 1) {
    miras_server_desc d = {0, 0, NULL};
    d.batch_tokens = 256;          /* of a prompt that is read: some for every thread            */
    w->pool = miras_pool_open(threads, NULL, NULL, 0);
    if (!w->pool) die(1, "--threads is %d; so many cannot be started", threads);
    d.parallel = w->pool;
    w->server = miras_server_open(m, &d, NULL, NULL, 0);
    if (!w->server) die(1, "there is not enough memory to work on %d threads", threads);
    w->logits = (float *)grow(NULL, (size_t)PIECE * (size_t)w->vocab, sizeof(float));
    if (saves) w->before = (unsigned char *)grow(NULL, miras_model_state_size(m), 1);
  }
#else
  (void)threads, (void)saves;
#endif
}

/* A session that has seen its last token itself is saved with what it says of it: it sees the
 * server's again. */
static void writer_settle(writer *w) {
  size_t bytes;
  void *state;
  if (!w->before || w->last < 0) return;
  state = miras_session_state(w->s, &bytes);
  memcpy(state, w->before, bytes);
  miras_session_step(w->s, w->last);
}

static void writer_close(writer *w) {
  miras_close(w->server);
#ifdef MIRAS_PTHREADS
  miras_pool_close(w->pool);
#endif
  miras_close(w->s);
  free(w->logits), free(w->before);
}

/* Feed tokens by the server; logits behind the last `asked` of them. */
static const float *serve(writer *w, const int32_t *ids, size_t count, size_t asked) {
  miras_sequence text;
  size_t bytes;
  miras_result result;
  memset(&text, 0, sizeof text);
  text.state = miras_session_state(w->s, &bytes);
  w->last = count == 1 ? ids[0] : -1;
  if (w->before && count == 1) memcpy(w->before, text.state, bytes);
  text.tokens = ids;
  text.count = count;
  text.logit_rows = asked;
  result = miras_server_feed(w->server, &text, 1, w->logits);
  if (result != MIRAS_OK) die(1, "the model cannot go on: %s", miras_result_text(result));
  return w->logits;
}

/* Logits behind count tokens; never NULL. A damaged model ends the program. */
static const float *feed(writer *w, const int32_t *ids, size_t count) {
  const float *logits = w->server ? serve(w, ids, count, 1)
                                  : miras_session_feed(w->s, ids, NULL, count);
  int i, numbers = 0;
  for (i = 0; logits && i < w->vocab; i++) {
    if (!(logits[i] <= FLT_MAX)) break;
    numbers += logits[i] >= -FLT_MAX;
  }
  if (!logits || i < w->vocab || !numbers)
    die(1, "behind token %lu the model's logits are not finite: its weights are damaged, or too "
           "large for --weights", (unsigned long)miras_session_position(w->s));
  return logits;
}

/* The loss of the prompt: each token given those before it. */
static void say_score(const miras_model *m, writer *w, const tokens *prompt) {
  const size_t n = prompt->count - 1;
  double nats = 0;
  size_t i, piece;
  if (prompt->count < 2) die(2, "--score needs a prompt of two tokens and more");
  if (!w->server && miras_session_score(w->s, prompt->at, prompt->at + 1, n, &nats) != MIRAS_OK)
    die(1, "the prompt has a token that the model does not know");
  for (i = 0; w->server && i < n; i += piece) {
    piece = n - i < PIECE ? n - i : PIECE;
    miras_model_score(m, serve(w, prompt->at + i, piece, piece), piece, prompt->at + i + 1, NULL,
                      &nats, NULL);
  }
  if (!(nats <= DBL_MAX)) die(1, "the loss is not finite: the model's weights are damaged");
  printf("%.6f nats per token, %lu tokens\n", nats / (double)n, (unsigned long)n);
}

/* ---- caches of prompts ----------------------------------------------------------------------- */

/* The head, the tokens, the session. All but the last in this machine's order: a cache is not for
 * others. */
typedef struct cache_head {
  char magic[8];           /* "miraprom"                                                          */
  uint64_t version;        /* of this format                                                      */
  uint64_t model;          /* model_print                                                         */
  uint64_t count, bytes;   /* tokens; what the session takes                                      */
  uint64_t sum;            /* of all the rest                                                     */
} cache_head;

enum { CACHE_VERSION = 2 };

static uint64_t cache_sum(cache_head head, const char *rest, size_t n) {
  uint64_t sum = 2;
  head.sum = 0;
  mix(&sum, &head, sizeof head);
  mix(&sum, rest, n);
  return sum;
}

/* Tokens of the prompt that the session has seen now, from the cache. The last is never among them,
 * for its logits are wanted. What is of no use is said, and will be replaced; a file that never was
 * a cache will not. */
static size_t cache_read(const char *path, miras_session *s, const tokens *prompt, uint64_t model) {
  static const char magic[] = "miraprom";
  cache_head head;
  size_t size = 0, n, seen = 0;
  char *bytes = read_file(path, &size, 1);
  const char *why = NULL, *rest = bytes ? bytes + sizeof head : NULL;
  if (!bytes) return 0;
  if (memcmp(bytes, magic, size < 8 ? size : 8) != 0)
    die(1, "--cache is %s, which is no cache of prompts; it is left as it is", path);
  memset(&head, 0, sizeof head);
  if (size >= sizeof head) memcpy(&head, bytes, sizeof head);
  n = size - sizeof head;
  if (size < sizeof head) why = "is cut off";
  else if (head.version != CACHE_VERSION) why = "is of another version";
  else if (head.count > n / sizeof(int32_t) || n - head.count * sizeof(int32_t) != head.bytes)
    why = "is cut off";
  else if (head.sum != cache_sum(head, rest, n)) why = "is damaged";
  else if (head.model != model) why = "is of another model";
  else if (head.count < prompt->count &&
           memcmp(rest, prompt->at, (size_t)head.count * sizeof(int32_t)) == 0) {
    rest += head.count * sizeof(int32_t);
    if (miras_load_from(s, rest, (size_t)head.bytes, NULL, 0) == MIRAS_OK)
      seen = (size_t)head.count;
    else why = "is of another model";
  }
  if (why) fprintf(stderr, "run: the cache %s %s; it is made anew\n", path, why);
  free(bytes);
  return seen;
}

/* The file is the old one or the whole new one. A cache that cannot be written costs time later,
 * and nothing else. */
static void cache_write(const char *path, const miras_session *s, const tokens *prompt,
                        size_t count, uint64_t model) {
  const size_t n = miras_save_to(s, NULL, 0), tokens_size = count * sizeof(int32_t);
  char *bytes = (char *)grow(NULL, n + tokens_size, 1), *part = NULL;
  cache_head head = {{'m', 'i', 'r', 'a', 'p', 'r', 'o', 'm'}, CACHE_VERSION, 0, 0, 0, 0};
  FILE *f = new_file(path, &part);
  int good = f != NULL;
#if defined(_POSIX_C_SOURCE)
  struct stat old;
#endif
  head.model = model;
  head.count = count;
  head.bytes = n;
  memcpy(bytes, prompt->at, tokens_size);
  miras_save_to(s, bytes + tokens_size, n);
  head.sum = cache_sum(head, bytes, n + tokens_size);
  if (f) {
    good = fwrite(&head, sizeof head, 1, f) == 1 &&
           fwrite(bytes, 1, n + tokens_size, f) == n + tokens_size;
    if (fclose(f)) good = 0;
#if defined(_POSIX_C_SOURCE)
    if (good && !stat(path, &old)) (void)chmod(part, old.st_mode & 0777);   /* who may read it */
#elif defined(_WIN32)
    if (good) remove(path);    /* there, rename does not replace */
#endif
    if (good && rename(part, path) != 0) good = 0;
    if (!good) remove(part);
  }
  if (!good) fprintf(stderr, "run: the cache %s cannot be written: %s\n", path, strerror(errno));
  free(bytes), free(part);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Read the prompt up to its last token, as far as the cache has it not; how many it had. */
static size_t read_before(const options *o, const miras_model *m, writer *w,
                          const tokens *prompt) {
  const size_t before = prompt->count - 1;
  size_t seen = 0;
  uint64_t model = 0;
  if (o->cache) {
    model = model_print(o, m);
    seen = cache_read(o->cache, w->s, prompt, model);
    fprintf(stderr, "%lu of %lu tokens were in the cache\n", (unsigned long)seen,
            (unsigned long)prompt->count);
  }
  if (before > seen) feed(w, prompt->at + seen, before - seen);
  if (o->cache && before > seen) cache_write(o->cache, w->s, prompt, before, model);
  return seen;
}

static void say_speed(const char *what, size_t count, double seconds) {
  fprintf(stderr, "%s%lu token%s in %.2f s", what, (unsigned long)count, count == 1 ? "" : "s",
          seconds);
  if (count && seconds > 0)
    fprintf(stderr, ", %.*f tokens/s", (double)count < 100 * seconds, (double)count / seconds);
  fputc('\n', stderr);
}

/* The token that follows. Of the places in a text each has a seed of its own, those of splitmix64
 * (Steele, Lea and Flood 2014). */
static int32_t draw(const options *o, const writer *w, const float *logits) {
  miras_sampler sampling = {0, 0, 0, 0};
  sampling.temperature = (float)o->temperature;
  sampling.top_k = (int)o->top_k;
  sampling.top_p = (float)o->top_p;
  sampling.seed = (uint64_t)o->seed +
                  miras_session_position(w->s) * UINT64_C(0x9e3779b97f4a7c15);
  return miras_sampler_sample(&sampling, logits, w->vocab);
}

/* Read the prompt and write what follows. */
static void write_text(const options *o, const miras_model *m, writer *w, const vocabulary *v,
                       const tokens *prompt) {
  double start = now(), count;
  const float *logits = miras_session_logits(w->s);
  if (prompt->count) {
    const size_t seen = read_before(o, m, w, prompt);
    logits = feed(w, prompt->at + prompt->count - 1, 1);
    say_speed("prompt: ", prompt->count - seen, now() - start);
  } else if (!logits) {
    die(1, "--state is %s, which is a state without its last token: a prompt is needed", o->state);
  }
  start = now();
  for (count = 0; count < o->count; count++) {
    const int32_t token = draw(o, w, logits);
    if (token < 0) die(1, "no token can be drawn: the model's logits are not finite");
    if ((double)token == o->stop) break;
    write_token(o, v, token);
    logits = feed(w, &token, 1);
  }
  if (!o->ids) putchar('\n');
  if (fflush(stdout) || ferror(stdout)) die(1, "the text cannot be written: %s", strerror(errno));
  say_speed("", (size_t)count, now() - start);
}

int main(int argc, char **argv) {
  options *o = &given;
  miras_model_desc asked, d;
  miras_model *m;
  vocabulary v;
  tokens prompt;
  writer w;
  int vocab, own;
  read_options(o, argc, argv);
  check_outputs(o);
  own = describe_model(o, &asked, &d);
  if (o->info && !o->save) {
    say_info(o, &d);
    return 0;
  }
  m = open_model(o, own ? &asked : &d, own);
  vocab = miras_model_desc_of(m)->vocab;
  memset(&v, 0, sizeof v);
  memset(&prompt, 0, sizeof prompt);
  if (o->save && miras_save(m, o->save) != MIRAS_OK)
    die(1, "--save is %s, which cannot be written", o->save);
  if (o->info) say_info(o, &d);
  if (o->info || (o->save && !o->prompt && !o->file && !o->ids)) return 0;
  if (!o->ids && !o->vocab && vocab != 256)
    die(2, "the model has %d tokens, not bytes: --vocab or --ids is needed", vocab);
  if (o->stop >= vocab)
    die(2, "--stop is %g, but the model's tokens go from 0 to %d", o->stop, vocab - 1);
  if (o->vocab) {
    read_vocabulary(&v, o->vocab, vocab);
    if (o->stop < 0) o->stop = 0;
  }
  read_prompt(o, &v, &prompt, vocab);
  writer_open(&w, m, (int)o->threads, o->save_state != NULL);
  if (o->state) {
    const miras_result result = miras_load(w.s, o->state, NULL, 0);
    if (result != MIRAS_OK)
      die(1, "--state is %s, which is no state of this model: %s", o->state,
          miras_result_text(result));
  }
  if (o->score) say_score(m, &w, &prompt);
  else write_text(o, m, &w, &v, &prompt);
  writer_settle(&w);
  if (o->save_state && miras_save(w.s, o->save_state) != MIRAS_OK)
    die(1, "--save-state is %s, which cannot be written", o->save_state);
  writer_close(&w);
  miras_close(m);
  return 0;
}
