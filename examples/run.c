/* run.c: run other people's models, or your own.
 *
 *     cc -O2 examples/run.c -o run -lm
 *
 * From the folder that holds miras.h. A model is a folder as Hugging Face has them (config.json and
 * safetensors), or a file that examples/lm.c has written:
 *
 *     ./run FOLDER --vocab rwkv_vocab_v20230424.txt --prompt "The Eiffel tower is in the city of"
 *     ./run FOLDER --prompt "..."                   a model of bytes: 256 tokens
 *     ./tokenize | ./run FOLDER --ids | ./untokenize      any other tokenizer, as numbers
 *
 *     --prompt TEXT        or --file FILE; with --ids numbers on standard input
 *     --tokens N           how many to write, 256 without it
 *     --stop ID            end behind this token, which is not written; 0 with --vocab
 *     --temperature T, --top-k K, --top-p P, --seed S    0.8, all, all, 1; 0 takes the likeliest
 *     --weights W          float, bf16, f16 or q8: how matrices are held
 *     --window N           tokens that attention sees at most; without it what the model says
 *     --ignore FIELDS      of config.json that count as not there, with commas between
 *     --limit BYTES        the most that the model, and a session of it, may take
 *     --vocab FILE         RWKV's vocabulary: lines of id, Python literal, length
 *     --cache FILE         of prompts: what has been read of this one before is not read again
 *     --state FILE         go on from this state; --save-state FILE writes it at the end
 *     --score              no text, but the loss of the prompt per token
 *     --info               the descriptor, and no more
 *     --save FILE          write the model as a file of miras.h
 *
 * A cache holds the state behind the longest prompt that began with it, to the bit: with it and
 * without it the text is the same. Exit status: 0 done, 1 a file or a model failed, 2 wrong
 * arguments. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"

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
  char *text = read_file(path, &count, 0);
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

/* ---- caches of prompts ----------------------------------------------------------------------- */

/* "miraprom", what model it is of, the number of tokens, the tokens, the session. All but the last
 * in this machine's order: a cache is not for others. */
typedef struct cache_head {
  char magic[8];
  uint64_t model, count;
} cache_head;

/* A number that another model would not have: of what it says after the first token. It leaves the
 * session there. */
static uint64_t model_print(miras_session *s, const tokens *prompt, int vocab) {
  const float *logits = miras_session_step(s, prompt->at[0]);
  uint64_t h = 14695981039346656037u;
  int i;
  for (i = 0; logits && i < vocab; i++) {
    uint32_t bits;
    memcpy(&bits, &logits[i], sizeof bits);
    h = (h ^ bits) * 1099511628211u;
  }
  return h;
}

/* Tokens of the prompt that the session has seen now: from the cache, or the first. The last is
 * never among them, for its logits are wanted. */
static size_t cache_read(const char *path, miras_session *s, const tokens *prompt, uint64_t model) {
  cache_head head;
  size_t size, n;
  char *bytes = read_file(path, &size, 1);
  size_t seen = 1;
  if (!bytes) return 1;
  if (size < sizeof head || memcmp(bytes, "miraprom", 8) != 0)
    die(1, "%s is no cache of prompts", path);
  memcpy(&head, bytes, sizeof head);
  n = (size - sizeof head) / sizeof(int32_t);
  if (head.model == model && head.count < prompt->count && head.count <= n &&
      memcmp(bytes + sizeof head, prompt->at, (size_t)head.count * sizeof(int32_t)) == 0) {
    n = sizeof head + (size_t)head.count * sizeof(int32_t);
    if (miras_session_load_from(s, bytes + n, size - n) == MIRAS_OK) seen = (size_t)head.count;
  }
  free(bytes);
  return seen;
}

static void cache_write(const char *path, const miras_session *s, const tokens *prompt,
                        size_t count, uint64_t model) {
  const size_t n = miras_session_save_to(s, NULL, 0);
  char *bytes = (char *)grow(NULL, n, 1);
  cache_head head = {{'m', 'i', 'r', 'a', 'p', 'r', 'o', 'm'}, 0, 0};
  FILE *f = fopen(path, "wb");
  if (!f) die(1, "%s cannot be written: %s", path, strerror(errno));
  head.model = model;
  head.count = count;
  miras_session_save_to(s, bytes, n);
  fwrite(&head, sizeof head, 1, f);
  fwrite(prompt->at, sizeof(int32_t), count, f);
  fwrite(bytes, 1, n, f);
  if (ferror(f) | fclose(f)) die(1, "%s cannot be written", path);
  free(bytes);
}

/* ---- the program ----------------------------------------------------------------------------- */

typedef struct options {
  const char *model, *prompt, *file, *weights, *ignore, *vocab, *cache, *state, *save_state, *save;
  long count, stop, window;
  double limit;
  int ids, score, info;
  miras_sampling sampling;
} options;

static double number(const char *name, const char *text, double low, double high) {
  char *end;
  const double x = strtod(text, &end);
  if (end == text || *end || !(x >= low && x <= high))
    die(2, "%s is \"%s\"; it must be a number from %g to %g", name, text, low, high);
  return x;
}

static options read_options(int argc, char **argv) {
  options o;
  int i;
  memset(&o, 0, sizeof o);
  o.count = 256;
  o.stop = -1;
  o.sampling.temperature = 0.8f;
  o.sampling.seed = 1;
  for (i = 1; i < argc; i++) {
    const char *a = argv[i], *x = i + 1 < argc ? argv[i + 1] : NULL;
    if (a[0] != '-') {
      if (o.model) die(2, "%s: there is a model already: %s", a, o.model);
      o.model = a;
      continue;
    }
    if (strcmp(a, "--ids") == 0) o.ids = 1;
    else if (strcmp(a, "--score") == 0) o.score = 1;
    else if (strcmp(a, "--info") == 0) o.info = 1;
    else if (!x) die(2, "%s is no option, or needs a value; examples/run.c begins with all", a);
    else if (i++, strcmp(a, "--prompt") == 0) o.prompt = x;
    else if (strcmp(a, "--file") == 0) o.file = x;
    else if (strcmp(a, "--weights") == 0) o.weights = x;
    else if (strcmp(a, "--vocab") == 0) o.vocab = x;
    else if (strcmp(a, "--ignore") == 0) o.ignore = x;
    else if (strcmp(a, "--cache") == 0) o.cache = x;
    else if (strcmp(a, "--state") == 0) o.state = x;
    else if (strcmp(a, "--save-state") == 0) o.save_state = x;
    else if (strcmp(a, "--save") == 0) o.save = x;
    else if (strcmp(a, "--tokens") == 0) o.count = (long)number(a, x, 0, 1e9);
    else if (strcmp(a, "--stop") == 0) o.stop = (long)number(a, x, 0, 1e9);
    else if (strcmp(a, "--window") == 0) o.window = (long)number(a, x, 1, 1 << 20);
    else if (strcmp(a, "--limit") == 0) o.limit = number(a, x, 1, 1e18);
    else if (strcmp(a, "--temperature") == 0) o.sampling.temperature = (float)number(a, x, 0, 100);
    else if (strcmp(a, "--top-k") == 0) o.sampling.top_k = (int)number(a, x, 0, 1e9);
    else if (strcmp(a, "--top-p") == 0) o.sampling.top_p = (float)number(a, x, 0, 1);
    else if (strcmp(a, "--seed") == 0) o.sampling.seed = (uint64_t)number(a, x, 0, 1e15);
    else die(2, "there is no option %s; examples/run.c begins with all", a);
  }
  if (!o.model) die(2, "a folder or a file with a model is needed; see the head of examples/run.c");
  if (o.ids && (o.vocab || o.prompt || o.file))
    die(2, "--ids takes its prompt from standard input, as numbers");
  if (o.prompt && o.file) die(2, "--prompt and --file are two prompts");
  if (o.cache && o.state) die(2, "--cache begins anew and --state does not");
  return o;
}

/* A model of others, or else of our own. */
static miras_model *open_model(const options *o) {
  static const char names[MIRAS_WEIGHTS_COUNT][8] = {"float", "bf16", "f16", "q8"};
  const size_t n = strlen(o->model);
  miras_result result = MIRAS_ERR_FORMAT;
  miras_model *m = NULL;
  miras_model_desc d;
  char why[256] = "";
  int i;
  memset(&d, 0, sizeof d);
  d.limit = (uint64_t)o->limit;
  for (i = 0; o->weights && i < MIRAS_WEIGHTS_COUNT && strcmp(o->weights, names[i]) != 0;) i++;
  if (i == MIRAS_WEIGHTS_COUNT)
    die(2, "--weights is %s; it must be float, bf16, f16 or q8", o->weights);
  d.weights = (miras_weights)i;
  if (n > 12 && strcmp(o->model + n - 12, ".safetensors") == 0)
    m = miras_model_open_file(o->model, &d, NULL, &result);
  if (m) return m;
  if (result != MIRAS_ERR_FORMAT) die(1, "%s: %s", o->model, miras_result_text(result));
  if (miras_checkpoint_desc_without(&d, o->model, o->ignore, NULL, why, sizeof why) != MIRAS_OK)
    die(1, "%s: %s", o->model, why);
  for (i = 0; o->window && i < MIRAS_LAYER_KINDS; i++)
    if (d.layer[i].window > o->window) d.layer[i].window = (int)o->window;
  m = miras_checkpoint_open(&d, o->model, o->ignore, NULL, why, sizeof why);
  if (!m) die(1, "%s: %s", o->model, why);
  return m;
}

static void say_info(const miras_model *m) {
  const miras_model_desc *d = miras_model_desc_of(m);
  char text[MIRAS_PATTERN], name[80];
  int i, k;
  for (i = 0; miras_model_desc_field(i); i++) {
    int said = 0;
    for (k = 0; k < MIRAS_LAYER_KINDS; k++) {
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
}

static void read_prompt(const options *o, vocabulary *v, tokens *prompt, int vocab) {
  size_t n = 0, i;
  char *text = NULL;
  if (o->ids || o->file) text = read_file(o->ids ? "-" : o->file, &n, 0);
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
  if (!prompt->count) add(prompt, 0);
}

static void write_token(const options *o, const vocabulary *v, int32_t token) {
  if (o->ids) printf("%ld\n", (long)token);
  else if (!o->vocab) putchar(token);
  else if (v->text[token]) fwrite(v->text[token], 1, v->length[token], stdout);
  fflush(stdout);
}

/* The loss of the prompt: each token given those before it. */
static void say_score(miras_session *s, const tokens *prompt) {
  const size_t n = prompt->count - 1;
  const double nats = n ? miras_session_score(s, prompt->at, prompt->at + 1, n) : 0;
  printf("%.6f nats per token, %lu tokens\n", n ? nats / (double)n : 0.0, (unsigned long)n);
}

/* Read the prompt up to its last token, as far as the cache has it not. */
static void read_before(const options *o, miras_session *s, const tokens *prompt, int vocab) {
  const size_t before = prompt->count - 1;
  size_t seen = 0;
  uint64_t model = 0;
  if (!before) return;
  if (o->cache) {
    model = model_print(s, prompt, vocab);
    seen = cache_read(o->cache, s, prompt, model);
    fprintf(stderr, "%lu of %lu tokens were in the cache\n", (unsigned long)(seen > 1 ? seen : 0),
            (unsigned long)prompt->count);
  }
  miras_session_prefill(s, prompt->at + seen, before - seen);
  if (o->cache && before > seen) cache_write(o->cache, s, prompt, before, model);
}

int main(int argc, char **argv) {
  options o = read_options(argc, argv);
  miras_model *m = open_model(&o);
  const int vocab = miras_model_desc_of(m)->vocab;
  const float *logits;
  vocabulary v;
  tokens prompt;
  miras_session *s;
  clock_t start;
  long i;
  memset(&v, 0, sizeof v);
  memset(&prompt, 0, sizeof prompt);
  if (o.save && miras_model_save(m, o.save) != MIRAS_OK) die(1, "%s cannot be written", o.save);
  if (o.info) say_info(m);
  if (o.info || (o.save && !o.prompt && !o.file && !o.ids)) return 0;
  if (!o.ids && !o.vocab && vocab != 256)
    die(2, "the model has %d tokens, not bytes: --vocab or --ids is needed", vocab);
  if (o.vocab) {
    read_vocabulary(&v, o.vocab, vocab);
    if (o.stop < 0) o.stop = 0;
  }
  read_prompt(&o, &v, &prompt, vocab);
  s = miras_session_open(m, NULL);
  if (!s) die(1, "there is not enough memory for a session");
  if (o.state && miras_session_load(s, o.state) != MIRAS_OK)
    die(1, "%s is no state of this model", o.state);
  start = clock();
  if (o.score) {
    say_score(s, &prompt);
    return 0;
  }
  read_before(&o, s, &prompt, vocab);
  logits = miras_session_step(s, prompt.at[prompt.count - 1]);
  fprintf(stderr, "prompt: %lu tokens in %.2f s\n", (unsigned long)prompt.count,
          (double)(clock() - start) / CLOCKS_PER_SEC);
  start = clock();
  for (i = 0; i < o.count; i++) {
    const int32_t token = miras_sample(logits, vocab, &o.sampling);
    if (token < 0) die(1, "the model says nothing: its numbers are not finite");
    if (token == o.stop) break;
    write_token(&o, &v, token);
    logits = miras_session_step(s, token);
  }
  if (!o.ids) putchar('\n');
  fprintf(stderr, "%ld tokens in %.2f s\n", i, (double)(clock() - start) / CLOCKS_PER_SEC);
  if (o.save_state && miras_session_save(s, o.save_state) != MIRAS_OK)
    die(1, "%s cannot be written", o.save_state);
  miras_session_close(s);
  miras_model_close(m);
  return 0;
}
