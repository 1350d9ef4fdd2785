/* chat.h: what the programs that run language models share, run.c, openai.c and tune.c, which
 * include it behind miras.h, huggingface.h, tokenizer.h, gguf.h and adapters.h, with their name as
 * PROGRAM: vocabularies, options, models, templates of talks, draws, and texts that end an
 * answer, which CHAT_NO_ANSWERS leaves out; CHAT_NO_FOLDERS leaves making a folder out. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
  #include <fcntl.h>
  #include <sys/mman.h>
  #include <sys/stat.h>
  #include <unistd.h>
#elif defined(_WIN32)
  #include <direct.h>
#endif

/* ---- small tools ----------------------------------------------------------------------------- */

/* Say one sentence and leave. */
static void die(int status, const char *format, ...) {
  va_list list;
  fputs(PROGRAM ": ", stderr);
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

/* head, and tail behind it */
static char *join(const char *head, const char *tail) {
  const size_t n = strlen(head), m = strlen(tail);
  char *path = (char *)grow(NULL, n + m, 1);
  memcpy(path, head, n);
  memcpy(path + n, tail, m + 1);
  return path;
}

static int can_be_read(const char *path) {
  FILE *f = fopen(path, "rb");
  int good = f && (fgetc(f) != EOF || !ferror(f));   /* folders open, and cannot be read */
  if (f) fclose(f);
  return good;
}

#ifndef CHAT_NO_FOLDERS
static void make_folder(const char *option, const char *path) {
#if defined(_POSIX_C_SOURCE)
  if (mkdir(path, 0777) && errno != EEXIST)
    die(1, "%s is %s, which cannot be made: %s", option, path, strerror(errno));
#elif defined(_WIN32)
  if (_mkdir(path) && errno != EEXIST) die(1, "%s is %s, which cannot be made", option, path);
#else
  (void)option, (void)path;
#endif
}
#endif

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

/* ---- the vocabulary -------------------------------------------------------------------------- */

/* Texts of a GGUF file by their key; *count: how many. NULL: there are none. */
static miras_tokenizer_text *gguf_texts(const miras_gguf *g, const char *key, size_t *count) {
  const size_t n = *count = miras_gguf_texts(g, key, NULL, NULL, 0);
  miras_tokenizer_text *texts;
  const char **at;
  size_t *sizes, i;
  if (!n) return NULL;
  texts = (miras_tokenizer_text *)grow(NULL, n, sizeof *texts);
  at = (const char **)grow(NULL, n, sizeof *at);
  sizes = (size_t *)grow(NULL, n, sizeof *sizes);
  miras_gguf_texts(g, key, at, sizes, n);
  for (i = 0; i < n; i++) texts[i].at = at[i], texts[i].size = sizes[i];
  free(at), free(sizes);
  return texts;
}

/* A text of a GGUF file, with a zero behind it; NULL: there is none. */
static char *gguf_text(const miras_gguf *g, const char *key) {
  size_t n;
  miras_tokenizer_text *text = gguf_texts(g, key, &n);
  char *copy = NULL;
  if (n == 1) {
    copy = (char *)grow(NULL, text->size, 1);
    memcpy(copy, text->at, text->size);
    copy[text->size] = 0;
  }
  free(text);
  return copy;
}

static int32_t gguf_whole(const miras_gguf *g, const char *key, int32_t missing) {
  int32_t x;
  return miras_gguf_wholes(g, key, &x, 1) == 1 ? x : missing;
}

static miras_gguf *open_gguf(const char *path) {
  char why[512];
  miras_gguf *g = miras_gguf_read(path, NULL, why, sizeof why);
  if (!g) die(1, "%s: %s", path, why);
  return g;
}

/* The vocabulary in a GGUF file; NULL: there is none in it. */
static miras_tokenizer *gguf_vocabulary(const char *path) {
  miras_gguf *g = open_gguf(path);
  miras_tokenizer_arrays a;
  miras_tokenizer_text *tokens, *merges;
  int32_t *types = NULL;
  float *scores = NULL;
  char why[512], *model = gguf_text(g, "tokenizer.ggml.model"),
       *pre = gguf_text(g, "tokenizer.ggml.pre");
  miras_tokenizer *v = NULL;
  memset(&a, 0, sizeof a);
  a.model = model ? model : "", a.pre = pre ? pre : "";
  a.tokens = tokens = gguf_texts(g, "tokenizer.ggml.tokens", &a.count);
  a.merges = merges = gguf_texts(g, "tokenizer.ggml.merges", &a.merge_count);
  if (miras_gguf_wholes(g, "tokenizer.ggml.token_type", NULL, 0) == a.count && a.count) {
    types = (int32_t *)grow(NULL, a.count, sizeof *types);
    miras_gguf_wholes(g, "tokenizer.ggml.token_type", types, a.count);
  }
  if (miras_gguf_reals(g, "tokenizer.ggml.scores", NULL, 0) == a.count && a.count) {
    scores = (float *)grow(NULL, a.count, sizeof *scores);
    miras_gguf_reals(g, "tokenizer.ggml.scores", scores, a.count);
  }
  a.token_type = types, a.scores = scores;
  a.bos = gguf_whole(g, "tokenizer.ggml.bos_token_id", -1);
  a.eos = gguf_whole(g, "tokenizer.ggml.eos_token_id", -1);
  a.unknown = gguf_whole(g, "tokenizer.ggml.unknown_token_id", -1);
  a.add_bos = gguf_whole(g, "tokenizer.ggml.add_bos_token", -1);
  a.add_eos = gguf_whole(g, "tokenizer.ggml.add_eos_token", 0);
  a.no_space_prefix = !gguf_whole(g, "tokenizer.ggml.add_space_prefix", 1);
  if (tokens) v = miras_tokenizer_open_arrays(&a, 0, NULL, why, sizeof why);
  if (tokens && !v) die(1, "%s: %s; --ids goes without it", path, why);
  free(tokens), free(merges), free(types), free(scores), free(model), free(pre);
  miras_gguf_close(g);
  return v;
}

static miras_tokenizer *open_vocabulary(const char *path) {
  char why[512];
  miras_tokenizer *v = miras_tokenizer_open(path, 0, NULL, why, sizeof why);
  if (!v) die(1, "%s", why);
  return v;
}

/* Why the last text that encode refused has no tokens. */
static char no_tokens[512];

/* The tokens of a text, behind those that are there; flags: MIRAS_TOKENIZER_. v NULL: bytes. 0: it
 * has none, and no_tokens says why. */
static int encode(const miras_tokenizer *v, tokens *t, const char *text, size_t n, int flags) {
  size_t count = n + 16, i;
  for (i = 0; !v && i < n; i++) add(t, (unsigned char)text[i]);
  while (v) {
    const size_t room = count;
    t->room = t->count + room;
    t->at = (int32_t *)grow(t->at, t->room, sizeof *t->at);
    if (miras_tokenizer_encode(v, text, n, flags, t->at + t->count, &count, no_tokens,
                               sizeof no_tokens)) return 0;
    if (count > room) continue;
    t->count += count;
    break;
  }
  return 1;
}

/* Does a text spell special tokens? One without tokens may. */
static int spells_special(const miras_tokenizer *v, const char *text, size_t n) {
  tokens special, plain;
  int differ;
  memset(&special, 0, sizeof special), memset(&plain, 0, sizeof plain);
  differ = !encode(v, &special, text, n, 0) || !encode(v, &plain, text, n, MIRAS_TOKENIZER_PLAIN) ||
           special.count != plain.count ||
           (plain.count && memcmp(special.at, plain.at, plain.count * sizeof *plain.at) != 0);
  free(special.at), free(plain.at);
  return differ;
}

/* What --weights may be, and the names of chat_forms, as options and refusals list them. */
#define CHAT_WEIGHTS "float, bf16, f16, q8, q4 or q4-pure"
#define CHAT_FORMS "chatml, llama3, granite, gemma, olmo, mistral or rwkv"

/* Where a model, its vocabulary and its template come from, and how it is held: options of both. */
typedef struct source {
  const char *model, *vocab, *weights, *ignore, *template_name, *system, *adapter;
  double window, limit, threads;
  int int8;
} source;

/* The vocabulary that is asked for, or else in a GGUF file; NULL: there is none. */
static miras_tokenizer *vocabulary_of(const source *o) {
  if (o->vocab) return open_vocabulary(o->vocab);
  return miras_gguf_is(o->model) ? gguf_vocabulary(o->model) : NULL;
}

/* The tokenizer.json in the model's folder; stays until the end. NULL: there is none. */
static const char *own_vocabulary(const char *model) {
  char *own = join(model, "/tokenizer.json");
  if (can_be_read(own)) return own;
  free(own);
  return NULL;
}

/* ---- options --------------------------------------------------------------------------------- */

typedef struct option {
  const char *name;
  char type;               /* f(lag), s(tring), t: one that may be empty, l(ist of strings, up to
                              high, behind which lies NULL), i(nteger), r(eal)                  */
  void *value;
  double low, high;
  const char *help;
} option;

/* Options that the programs have, of the source x; tune trains what the others take. */
#define ADAPTER_OPTION(x)                                                                          \
  {"--adapter", 's', &(x).adapter, 0, 0,                                                           \
   "what tune has learned beside the model: a file, or a folder in PEFT's form"}
#define SOURCE_OPTIONS(x)                                                                          \
  {"--template", 's', &(x).template_name, 0, 0,                                                    \
   CHAT_FORMS "; else the one that the model names"},                                              \
  {"--system", 't', &(x).system, 0, 0, "said before the talk; else what the template has"},        \
  {"--vocab", 's', &(x).vocab, 0, 0,                                                               \
   "a tokenizer.json, or RWKV's lines of id, Python literal, length; else the folder's "           \
   "tokenizer.json"},                                                                              \
  {"--threads", 'i', &(x).threads, 1, 256, "cores to use; the text is the same"},                  \
  {"--weights", 's', &(x).weights, 0, 0,                                                           \
   CHAT_WEIGHTS ": how matrices are held; else as a file of lm or GGUF "                           \
   "has them, and of a folder float. q4 has the embedding and the head in q8, but where a file "   \
   "has them in 4 bits, too"},                                                                     \
  {"--int8", 'f', &(x).int8, 0, 0,                                                                 \
   "multiply matrices in q8 and q4 by numbers of 8 bits: faster with AVX2 and AVX-512, and as "    \
   "rounded as the weights"},                                                                      \
  {"--window", 'i', &(x).window, 1, 1 << 20,                                                       \
   "tokens that attention sees at most; else what the model says"},                                \
  {"--ignore", 's', &(x).ignore, 0, 0,                                                             \
   "fields of config.json, or of a GGUF file's architecture, that count as not there, with "       \
   "commas between; unknown: all that are not known"},                                             \
  {"--limit", 'i', &(x).limit, 1, 1e18, "bytes that the model, and a session of it, may take"}

/* Options of draws. */
#define DRAW_OPTIONS(x)                                                                            \
  {"--temperature", 'r', &(x).temperature, 0, 100, "0 takes the likeliest"},                       \
  {"--top-k", 'i', &(x).top_k, 0, 1e9, "only among the k likeliest; 0: all"},                      \
  {"--top-p", 'r', &(x).top_p, 0, 1, "only among the likeliest that sum to p; 0: all"},            \
  {"--min-p", 'r', &(x).min_p, 0, 1,                                                               \
   "only among those at least so likely beside the likeliest; 0: all"},                            \
  {"--repeat-penalty", 'r', &(x).penalty, 1, 100,                                                  \
   "logits of the last 64 tokens over this, or times it where below 0; 1: none"},                  \
  {"--seed", 'i', &(x).seed, 0, 1e15, "of the draws, with their places in the text"}

static void print_options(const option *table) {
  const option *o;
  for (o = table; o->name; o++) {
    char left[40], value[32] = "";
    const double x = strchr("ir", o->type) ? *(double *)o->value : 0;
    snprintf(left, sizeof left, "%s%s", o->name,
             o->type == 'f' ? "" : o->type == 'i' ? " N" : o->type == 'r' ? " X" : " TEXT");
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
static const option *find_option(const option *table, const char *name) {
  const option *o, *near = table;
  for (o = table; o->name && strcmp(o->name, name) != 0; o++)
    if (distance(o->name, name) < distance(near->name, name)) near = o;
  if (o->name) return o;
  if (distance(near->name, name) < 4)
    die(2, "there is no option %s; is it %s? " PROGRAM " --help lists them all", name, near->name);
  die(2, "there is no option %s; " PROGRAM " --help lists them all", name);
  return NULL;
}

/* Read the options of the table, and the model. Returns whether help is asked for. */
static int take_options(const option *table, int argc, char **argv, const char **model) {
  int i;
  for (i = 1; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return 1;
  for (i = 1; i < argc; i++) {
    const option *p;
    if (argv[i][0] != '-') {
      for (p = table; p->name && strcmp(p->name, "--text") != 0;) p++;
      if (*model && p->name && !*(const char **)p->value) {   /* tune's, behind the model         */
        *(const char **)p->value = argv[i];
        continue;
      }
      if (*model) die(2, "%s: there is a model already: %s", argv[i], *model);
      *model = argv[i];
      continue;
    }
    p = find_option(table, argv[i]);
    if (p->type == 'f') {
      *(int *)p->value = 1;
      continue;
    }
    if (++i == argc) die(2, "%s needs a value behind it", p->name);
    if (strchr("ir", p->type)) *(double *)p->value = number(p, argv[i]);
    else if (p->type == 'l' && argv[i][0]) {
      const char **at = (const char **)p->value;
      int n = 0;
      while (at[n]) n++;
      if (n >= (int)p->high) die(2, "%s stands there more than %g times", p->name, p->high);
      at[n] = argv[i];
    } else if (argv[i][0] || p->type == 't') *(const char **)p->value = argv[i];
    else die(2, "%s is empty; it must be %s", p->name,
             strcmp(p->name, "--weights") == 0  ? CHAT_WEIGHTS
             : strcmp(p->name, "--ignore") == 0 ? "fields of config.json"
                                                : "a file");
  }
  if (!*model)
    die(2, "a model is needed: a folder with config.json and *.safetensors, or a file of lm; "
           PROGRAM " --help has more");
  return 0;
}

/* ---- models ---------------------------------------------------------------------------------- */

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
  if (can_be_read(model) && !miras_gguf_is(model) &&
      (n <= 12 || strcmp(model + n - 12, ".safetensors") != 0))
    die(1, "%s is a file, but none that lm has written; one of tensors has a name that ends in "
           ".safetensors", model);
  if (!can_be_read(model) && !can_be_read(tensors) && !can_be_read(index))
    die(1, "%s: %s; there is no model.safetensors and no model.safetensors.index.json. Weights in "
           "files of PyTorch (.bin, .pth) become one: python3 examples/to_safetensors.py "
           "%s/pytorch_model*.bin %s", model, why, model, tensors);
  die(1, "%s: %s%s", model, why,
      result != MIRAS_ERR_DESC || (strncmp(why, "config.json: ", 13) != 0 && !miras_gguf_is(model))
        ? ""
      : "; --ignore NAME,NAME goes on without these fields, --ignore unknown without all that are "
        "not known");
}

/* Is a tensor of a GGUF file of blocks that are held as they are in 4 bits? */
static int gguf_is_q4(const miras_gguf *g, const char *tensor) {
  const char *type = miras_gguf_type(g, tensor);
  return type && (strcmp(type, "Q4_0") == 0 || strcmp(type, "Q4_1") == 0);
}

/* The form that holds what most matrices of a GGUF file have, with the fewest bytes; or, of q4,
 * the one that its embedding and its head are of. */
static miras_weights gguf_weights(const char *path, int q4) {
  miras_gguf *g = open_gguf(path);
  const int32_t type = gguf_whole(g, "general.file_type", 0);   /* ggml's numbers of its mixtures */
  const int pure = gguf_is_q4(g, "token_embd.weight") &&
                   (gguf_is_q4(g, "output.weight") || !miras_gguf_type(g, "output.weight"));
  miras_gguf_close(g);
  switch (q4 ? 2 : type) {
    case 1: return MIRAS_WEIGHTS_F16;
    case 32: return MIRAS_WEIGHTS_BF16;
    case 2: case 3: case 14: case 15:                      /* Q4_0, Q4_1, Q4_K_S, Q4_K_M */
      return pure ? MIRAS_WEIGHTS_Q4_PURE : MIRAS_WEIGHTS_Q4;
    case 7: case 8: case 9: case 16: case 17: case 18: return MIRAS_WEIGHTS_Q8;   /* 5 to 8 bits */
    default: return MIRAS_WEIGHTS_FLOAT;
  }
}

/* Attention sees at most so many tokens. */
static void narrow_windows(const source *o, miras_model_desc *d) {
  int i;
  for (i = 0; o->window > 0 && i < MIRAS_MAX_LAYER_KINDS; i++)
    if (d->layer[i].attention.window > o->window) d->layer[i].attention.window = (int)o->window;
}

/* The descriptor of our own model or of another's; asked receives what the options say of it. */
static int describe_model(const source *o, miras_model_desc *asked, miras_model_desc *d) {
  static const char names[MIRAS_WEIGHTS_COUNT][8] = {"float", "bf16", "f16", "q8", "q4", "q4-pure"};
  miras_result result = MIRAS_ERR_FORMAT;
  char why[1024] = "";
  int i;
  memset(asked, 0, sizeof *asked);
  asked->limit = (uint64_t)o->limit;
  for (i = 0; o->weights && i < MIRAS_WEIGHTS_COUNT && strcmp(o->weights, names[i]) != 0;) i++;
  if (i == MIRAS_WEIGHTS_COUNT)
    die(2, "--weights is %s; it must be " CHAT_WEIGHTS, o->weights);
  asked->weights = (miras_weights)i;
  if ((!o->weights || i == MIRAS_WEIGHTS_Q4) && miras_gguf_is(o->model))
    asked->weights = gguf_weights(o->model, o->weights != NULL);
  *d = *asked;
  if (can_be_read(o->model))   /* a file and no folder */
    result = miras_model_desc_load(d, o->model, NULL);
  if (result == MIRAS_OK &&
      (!o->weights || (i == MIRAS_WEIGHTS_Q4 && d->weights == MIRAS_WEIGHTS_Q4_PURE)))
    asked->weights = d->weights;
  d->weights = asked->weights;
  if (result == MIRAS_OK && o->ignore)
    die(2, "--ignore is %s, but a file of miras.h has no config.json", o->ignore);
  if (result == MIRAS_OK) {
    asked->layer[0].attention.window = (int)o->window;
    narrow_windows(o, d);
    return 1;
  }
  if (result != MIRAS_ERR_FORMAT) die(1, "%s: %s", o->model, miras_result_text(result));
  result = (miras_gguf_is(o->model) ? miras_gguf_desc : miras_checkpoint_desc)(
    d, o->model, o->ignore, NULL, why, sizeof why);
  if (result != MIRAS_OK) not_opened(o->model, result, why);
  if (why[0]) fprintf(stderr, PROGRAM ": %s: %s\n", o->model, why);
  narrow_windows(o, d);
  return 0;
}

/* A file of ours where it lies, for as long as the program runs; NULL: there is no way here. */
static void *map_file(const char *path, size_t *size) {
#if defined(__unix__) || defined(__APPLE__)
  const int file = open(path, O_RDONLY);
  struct stat of;
  void *bytes = MAP_FAILED;
  if (file >= 0 && fstat(file, &of) == 0 && S_ISREG(of.st_mode) && of.st_size > 0) {
    *size = (size_t)of.st_size;
    bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
  }
  if (file >= 0) close(file);
  return bytes == MAP_FAILED ? NULL : bytes;
#else
  (void)path, (void)size;
  return NULL;
#endif
}

/* The model with what o->adapter has. bytes, of `size`: the file of ours that it is, which stays
 * there, or NULL: where o->model is. */
static miras_model *open_model_of(const source *o, const miras_model_desc *given, int own,
                                  const void *bytes, size_t size) {
  char why[1024] = "";
  miras_model_desc d = *given;
  miras_model *m;
  if (o->adapter &&
      miras_adapters_desc(&d, o->adapter, o->model, why, sizeof why) != MIRAS_OK)
    die(1, "--adapter is %s: %s", o->adapter, why);
  m = bytes ? miras_model_open_from(bytes, size, 1, &d, NULL, NULL, why, sizeof why)
      : own ? miras_model_open_file(o->model, &d, NULL, NULL, why, sizeof why)
            : (miras_gguf_is(o->model) ? miras_gguf_open : miras_checkpoint_open)(
                &d, o->model, o->ignore, NULL, why, sizeof why);
  if (!m) die(1, "%s: %s", o->model, why);
  if (o->adapter &&
      miras_adapters_load(m, o->adapter, o->model, why, sizeof why) != MIRAS_OK)
    die(1, "--adapter is %s: %s", o->adapter, why);
  return m;
}

static miras_model *open_model(const source *o, const miras_model_desc *given, int own) {
  size_t size = 0;
  void *bytes = own && given->weights ? map_file(o->model, &size) : NULL;
  return open_model_of(o, given, own, bytes, size);
}

#ifndef CHAT_NO_ANSWERS
/* ---- a text on its way out ------------------------------------------------------------------- */

enum { MOST_ENDS = 18 };

/* What may be the beginning of a text that ends it is held back. */
typedef struct stream {
  const char *ends[MOST_ENDS], *stop;  /* these end it, NULL: none; the one that has              */
  size_t read;                         /* of the stop, in tokens before the last                  */
  char *held;
  size_t count, room;
  int place;                           /* of miras_tokenizer_decode                               */
} stream;

/* How many of the bytes that are held can go out: all before a stop, or, where more comes, before
 * what may be the beginning of one. */
static size_t stream_free(stream *s, int more) {
  size_t i, n, k;
  for (i = 0; i < s->count; i++) {
    const size_t left = s->count - i;
    int begins = 0;
    for (k = 0; k < MOST_ENDS && !s->stop; k++) {
      n = s->ends[k] ? strlen(s->ends[k]) : 0;
      if (!n || (n > left && !more)) continue;
      if (memcmp(s->held + i, s->ends[k], n < left ? n : left) != 0) continue;
      begins = 1;
      if (n <= left) s->stop = s->ends[k];
    }
    if (begins) return i;
  }
  return s->count;
}

/* A token comes; returns how many of the bytes that are held can go out, by stream_drop. Tokens of
 * the model that the vocabulary does not have are not written. */
static size_t stream_take(stream *s, const miras_tokenizer *v, int32_t token) {
  const size_t before = s->count;
  size_t n = 1, out;
  if (s->room - s->count < 64) s->held = (char *)grow(s->held, s->room = 2 * s->room + 64, 1);
  if (!v) s->held[s->count] = (char)token;
  else if (token >= miras_tokenizer_size(v)) n = 0;
  else n = miras_tokenizer_decode(v, &token, 1, MIRAS_TOKENIZER_SPECIAL, &s->place,
                                  s->held + s->count, s->room - s->count);
  if (n > s->room - s->count) {
    s->held = (char *)grow(s->held, s->room = s->count + n, 1);
    n = miras_tokenizer_decode(v, &token, 1, MIRAS_TOKENIZER_SPECIAL, &s->place,
                               s->held + s->count, n);
  }
  s->count += n;
  out = stream_free(s, 1);
  s->read = before > out ? before - out : 0;
  return out;
}

/* No token comes any more; how many of the bytes that are held can go out: all before a stop, also
 * one that stands within what might have become another. */
static size_t stream_end(stream *s) { return s->stop ? 0 : stream_free(s, 0); }

static void stream_drop(stream *s, size_t n) { memmove(s->held, s->held + n, s->count -= n); }

/* ---- draws ----------------------------------------------------------------------------------- */

/* How tokens are drawn. */
typedef struct drawing {
  double temperature, top_k, top_p, min_p, penalty, seed;
} drawing;

static drawing usual_drawing(void) {
  const drawing d = {0.8, 0, 0, 0, 1, 1};
  return d;
}

/* Are all logits finite or -infinity, and some finite? Those of a damaged model are not. */
static int are_numbers(const float *logits, int vocab) {
  int i, numbers = 0;
  for (i = 0; logits && i < vocab; i++) {
    if (!(logits[i] <= FLT_MAX)) return 0;
    numbers += logits[i] >= -FLT_MAX;
  }
  return numbers > 0;
}

/* Logits of a draw, into x: those of the last tokens are weighed (Keskar et al. 2019), each once,
 * and those that are too unlikely beside the likeliest go. */
static void weigh(const drawing *d, const tokens *seen, float *x, int vocab) {
  enum { LAST = 64 };
  const size_t n = seen->count, first = n > LAST ? n - LAST : 0;
  float most = -FLT_MAX;
  size_t i, k;
  int j;
  for (i = first; i < n; i++) {
    const int32_t token = seen->at[i];
    for (k = first; k < i && seen->at[k] != token;) k++;
    if (k < i) continue;
    x[token] = x[token] > 0 ? x[token] / (float)d->penalty : x[token] * (float)d->penalty;
  }
  if (!(d->min_p > 0)) return;
  for (j = 0; j < vocab; j++) most = x[j] > most ? x[j] : most;
  most += (float)log(d->min_p);
  for (j = 0; j < vocab; j++)
    if (x[j] < most) x[j] = -INFINITY;
}

/* The token that follows `seen`, which ends at `position`; room [vocab]. Of the places in a text
 * each has a seed of its own, those of splitmix64 (Steele, Lea and Flood 2014). Below 0: none can
 * be drawn. */
static int32_t draw(const drawing *d, const tokens *seen, uint64_t position, const float *logits,
                    int vocab, float *room) {
  miras_sampler sampling = {0, 0, 0, 0};
  sampling.temperature = (float)d->temperature;
  sampling.top_k = (int)d->top_k;
  sampling.top_p = (float)d->top_p;
  sampling.seed = (uint64_t)d->seed + position * UINT64_C(0x9e3779b97f4a7c15);
  if (d->min_p > 0 || d->penalty > 1) {
    memcpy(room, logits, (size_t)vocab * sizeof *room);
    weigh(d, seen, room, vocab);
    logits = room;
  }
  return miras_sampler_sample(&sampling, logits, vocab);
}

#endif

/* ---- templates ------------------------------------------------------------------------------- */

enum { SYSTEM, USER, ANSWER, SPEAKERS };

/* What stands before and behind that which someone says. A template without a place for the system
 * has its text before the first user's. */
typedef struct chat_form {
  const char *name, *mark;             /* a model's own template that has this in it is meant     */
  const char *before[SPEAKERS], *behind[SPEAKERS];
  const char *end;                     /* an answer ends here: a token, or else a text            */
} chat_form;

static const chat_form chat_forms[] = {
  {"chatml", "<|im_start|>",
   {"<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n"},
   {"<|im_end|>\n", "<|im_end|>\n", "<|im_end|>\n"}, "<|im_end|>"},
  {"llama3", "<|start_header_id|>",
   {"<|start_header_id|>system<|end_header_id|>\n\n",
    "<|start_header_id|>user<|end_header_id|>\n\n",
    "<|start_header_id|>assistant<|end_header_id|>\n\n"},
   {"<|eot_id|>", "<|eot_id|>", "<|eot_id|>"}, "<|eot_id|>"},
  {"granite", "<|start_of_role|>",
   {"<|start_of_role|>system<|end_of_role|>", "<|start_of_role|>user<|end_of_role|>",
    "<|start_of_role|>assistant<|end_of_role|>"},
   {"<|end_of_text|>\n", "<|end_of_text|>\n", "<|end_of_text|>\n"}, "<|end_of_text|>"},
  {"gemma", "<start_of_turn>",
   {NULL, "<start_of_turn>user\n", "<start_of_turn>model\n"},
   {"\n\n", "<end_of_turn>\n", "<end_of_turn>\n"}, "<end_of_turn>"},
  {"olmo", "<|user|>", {"<|system|>\n", "<|user|>\n", "<|assistant|>\n"},
   {"\n", "\n", "<|endoftext|>\n"}, "<|endoftext|>"},
  {"mistral", "[INST]", {NULL, "[INST] ", ""}, {"\n\n", " [/INST]", "</s>"}, "</s>"},
  {"rwkv", NULL, {"System: ", "User: ", "Assistant:"}, {"\n\n", "\n\n", "\n\n"}, "\n\n"},
  {NULL, NULL, {NULL, NULL, NULL}, {NULL, NULL, NULL}, NULL}};

/* Where `what` stands in the text, or size. */
static size_t place_in(const char *text, size_t size, const char *what) {
  const size_t n = strlen(what);
  size_t i;
  for (i = 0; i + n <= size; i++)
    if (memcmp(text + i, what, n) == 0) return i;
  return size;
}

/* Does a text behind the mark begin on a line of its own, and nothing stand behind it but the end
 * of a line? Other templates have a token there (Zephyr, Phi-3). */
static int ends_with_line(const char *text, size_t size, const char *mark) {
  size_t at = 0;
  while ((at += place_in(text + at, size - at, mark)) < size) {
    size_t n;
    at += strlen(mark);
    while (at < size && text[at] == '\\') at++;          /* \n, in a file of JSON \\n */
    if (at == size || (text[at] != '\n' && (text[at] != 'n' || text[at - 1] != '\\'))) continue;
    n = place_in(text + at, size - at, "%");
    if (place_in(text + at, n, "eos_token") == n && place_in(text + at, n, "<|") == n) return 1;
  }
  return 0;
}

/* The model's own template in `text`, of which `size` bytes are there; NULL: there is none. It is
 * looked for, and not run: all that is wanted of it is which one it is. */
static const chat_form *form_of(const char *text, size_t size) {
  static const char *const others[] = {"<<SYS>>", "<|bom|>"};    /* Llama 2, Jamba: not there     */
  const chat_form *form;
  size_t i;
  for (i = 0; i < sizeof others / sizeof *others; i++)
    if (place_in(text, size, others[i]) < size) return NULL;
  for (form = chat_forms; form->mark; form++)
    if (place_in(text, size, form->mark) < size &&
        (strcmp(form->behind[USER], "\n") != 0 || ends_with_line(text, size, form->mark)))
      return form;
  return NULL;
}

/* The system's text that a template has where none is said: what stands in it as letters, behind
 * that which comes before a system's text. NULL: there is none. */
static char *system_of(const chat_form *form, const char *text, size_t size) {
  char *head = join(form->before[SYSTEM] ? form->before[SYSTEM] : "", ""), *said = NULL;
  const char *behind = form->behind[SYSTEM];
  size_t n = strcspn(behind, "\n"), from, end;
  head[strcspn(head, "\n")] = 0;
  for (from = 0; !said && head[0] && n && from < size; from = end) {
    from += place_in(text + from, size - from, head);
    if (from == size) break;
    from += strlen(head);
    while (from < size && text[from] == '\\') from++;      /* \n, in a file of JSON \\n */
    if (from < size && text[from] == 'n' && text[from - 1] == '\\') from++;
    else if (from < size && text[from] == '\n') from++;
    for (end = from; end + n <= size && memcmp(text + end, behind, n) != 0; end++)
      if (strchr("'\"{}\\", text[end])) break;
    if (end == from || end + n > size || memcmp(text + end, behind, n) != 0) continue;
    said = (char *)grow(NULL, end - from, 1);
    memcpy(said, text + from, end - from);
    said[end - from] = 0;
  }
  free(head);
  return said;
}

/* A file in the model's folder, whole, or NULL. */
static char *file_of(const source *o, const char *name, size_t *size) {
  char *path = join(o->model, name), *text = can_be_read(path) ? read_file(path, size, 1) : NULL;
  free(path);
  return text;
}

/* The template that the model has in its files, or NULL. */
static char *own_template(const source *o, size_t *size) {
  static const char key[] = "\"chat_template\"";
  char *text;
  if (miras_gguf_is(o->model)) {
    miras_gguf *g = open_gguf(o->model);
    text = gguf_text(g, "tokenizer.chat_template");
    *size = text ? strlen(text) : 0;
    miras_gguf_close(g);
    return text;
  }
  text = file_of(o, "/chat_template.jinja", size);
  if (text) return text;
  text = file_of(o, "/tokenizer_config.json", size);
  if (text) {
    size_t at = place_in(text, *size, key), n;
    if (at < *size) at += strlen(key);
    memmove(text, text + at, *size -= at);
    for (n = strcspn(text, "\"") + 1; n < *size && text[n] != '"'; n++) n += text[n] == '\\';
    *size = n < *size ? n : *size;
  }
  return text;
}

/* A talk as a model is taught them. */
typedef struct chat {
  const chat_form *form;
  const miras_tokenizer *t;            /* NULL: bytes                                             */
  const char *system;                  /* NULL: nothing is said for it                            */
  char first[64];                      /* token before all, that the vocabulary does not add      */
  char *text;                          /* of the turn that is to be read                          */
  size_t count, room;
} chat;

/* The token by which a model's own template begins, where encoding does not add one. */
static void chat_begin(chat *c, const source *o, const char *text, size_t size) {
  static const char key[] = "\"bos_token\"", within[] = "\"content\"";
  char *file = NULL;
  const char *at = NULL;
  tokens added;
  size_t n = 0;
  memset(&added, 0, sizeof added);
  if (!c->t || place_in(text, size, "bos_token") == size) return;
  encode(c->t, &added, "", 0, MIRAS_TOKENIZER_SPECIAL);
  free(added.at);
  if (added.count) return;
  if (miras_gguf_is(o->model)) {
    miras_gguf *g = open_gguf(o->model);
    const int32_t id = gguf_whole(g, "tokenizer.ggml.bos_token_id", -1);
    miras_tokenizer_text *texts = gguf_texts(g, "tokenizer.ggml.tokens", &n);
    if (id >= 0 && (size_t)id < n && texts[id].size < sizeof c->first)
      memcpy(c->first, texts[id].at, texts[id].size);
    free(texts);
    miras_gguf_close(g);
  } else if ((file = file_of(o, "/tokenizer_config.json", &n)) != NULL) {
    at = strstr(file, key);              /* a string, or an object with one */
    if (at) at += strlen(key), at += strspn(at, " \t\r\n:");
    if (at && *at == '{' && (at = strstr(at, within)) != NULL)
      at += strlen(within), at += strspn(at, " \t\r\n:");
    n = at && *at == '"' ? strcspn(++at, "\"\\") : 0;
    if (n < sizeof c->first) memcpy(c->first, at ? at : "", n);
    free(file);
  }
  if (miras_tokenizer_find(c->t, c->first, strlen(c->first)) < 0) c->first[0] = 0;
}

/* The form, and what is said for the system. 0: the model names no template. */
static int chat_open(chat *c, const source *o, const miras_tokenizer *t) {
  size_t size = 0;
  char *text = own_template(o, &size);
  const chat_form *form = chat_forms;
  memset(c, 0, sizeof *c);
  c->t = t;
  if (o->template_name) {
    while (form->name && strcmp(form->name, o->template_name) != 0) form++;
    if (!form->name)
      die(2, "--template is %s; it must be " CHAT_FORMS, o->template_name);
  } else {
    form = text ? form_of(text, size) : NULL;
    if (form && t && place_in(text, size, form->end) == size &&
        miras_tokenizer_find(t, form->end, strlen(form->end)) < 0)
      form = NULL;                       /* its answers end otherwise */
  }
  c->form = form;
  if (text && form) chat_begin(c, o, text, size);
  c->system = o->system;
  if (!c->system && text && form) c->system = system_of(form, text, size);
  if (c->system && !c->system[0]) c->system = NULL;
  free(text);
  return form != NULL;
}

#ifndef CHAT_NO_ANSWERS
/* The token that ends an answer; -1: a text does, form->end. */
static int32_t chat_end(const chat *c) {
  return c->t ? miras_tokenizer_find(c->t, c->form->end, strlen(c->form->end)) : -1;
}
#endif

static void chat_add(chat *c, const char *text, size_t n) {
  if (n > c->room - c->count) {
    c->room = 2 * c->room + n;
    c->text = (char *)grow(c->text, c->room, 1);
  }
  memcpy(c->text + c->count, text, n);
  c->count += n;
}

/* What a message is in the model's form, from the end of the last answer, of which `skip` bytes
 * have been read, to the beginning of the next: c->text, and tokens. begun: there is an answer
 * before. Special tokens that the system or the message spells are its letters. 0: there are no
 * tokens. */
static int chat_turn(chat *c, int begun, size_t skip, const char *message, size_t n, tokens *to) {
  const chat_form *f = c->form;
  const char *said = begun ? NULL : c->system;
  const int apart = said && f->before[SYSTEM];
  int flags = begun ? 0 : MIRAS_TOKENIZER_SPECIAL, k, good = 1;
  size_t ends[5], from = 0;
  c->count = 0;
  if (begun) chat_add(c, f->behind[ANSWER] + skip, strlen(f->behind[ANSWER] + skip));
  else chat_add(c, c->first, strlen(c->first));
  chat_add(c, f->before[apart ? SYSTEM : USER], strlen(f->before[apart ? SYSTEM : USER]));
  ends[0] = c->count;
  if (said) chat_add(c, said, strlen(said));
  ends[1] = c->count;
  if (said) chat_add(c, f->behind[SYSTEM], strlen(f->behind[SYSTEM]));
  if (apart) chat_add(c, f->before[USER], strlen(f->before[USER]));
  ends[2] = c->count;
  chat_add(c, message, n);
  ends[3] = c->count;
  chat_add(c, f->behind[USER], strlen(f->behind[USER]));
  chat_add(c, f->before[ANSWER], strlen(f->before[ANSWER]));
  ends[4] = c->count;
  if (!spells_special(c->t, message, n) && (!said || !spells_special(c->t, said, strlen(said))))
    return encode(c->t, to, c->text, c->count, flags);
  for (k = 0; good && k < 5; from = ends[k++]) {
    if (ends[k] == from) continue;
    good = encode(c->t, to, c->text + from, ends[k] - from, k & 1 ? MIRAS_TOKENIZER_PLAIN : flags);
    flags = 0;
  }
  return good;
}
