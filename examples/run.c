/* run.c: run other people's models, or your own.
 *
 *     cc -O2 examples/run.c -o run -lm              (older C libraries: add -pthread)
 *
 * From the folder that holds miras.h. A model is a folder as Hugging Face has them (config.json and
 * safetensors), a GGUF file of llama.cpp's, or a file that examples/lm.c has written:
 *
 *     ./run FOLDER --prompt "The Eiffel tower is in the city of"      by its tokenizer.json
 *     ./run FOLDER --vocab rwkv_vocab_v20230424.txt --prompt "..."    or by another vocabulary
 *     ./run FILE --prompt "..."                     a model of bytes: 256 tokens
 *     ./tokenize | ./run FOLDER --ids | ./untokenize      any other tokenizer, as numbers
 *     ./run FOLDER --info                           what it is, and its size; no weight is read
 *     ./run FOLDER --weights q8 --save FILE         once; ./run FILE then opens in a
 *                                                   fifth of the time
 *     ./run FOLDER --adapt 2 --chat                 the head learns from what it reads
 *     ./run FOLDER --adapter mine --merge NEW       a folder with what tune has learned in it
 *     ./run FILE.gguf --adapter mine --merge NEW    the same of a Llama that is a file
 *     ./run FILE.gguf --adapter mine --merge NEW.safetensors   the same in a file of miras.h, of
 *                                                   any model, and with --state mine.state
 *     ./run --help                                  every option
 *
 * The text is the same to the bit for any number of threads, with or without a cache, and when it
 * is saved by --save-state and goes on by --state: a draw is of --seed and of its place in the text
 * alone; --repeat-penalty is of the tokens of this run, which a state does not have. A cache holds
 * the state behind the longest prompt that began with it, the prompt's tokens, and a checksum of
 * the model's files and of what the options make of them: another model's is not taken, nor one
 * that is damaged; either is replaced. --adapt learns from prompts and from what is said in a talk,
 * and not from what the model writes itself. The model stays as it is: what is learned is in the
 * state, which it makes larger by what the head would take as floats. Exit status: 0 done, 1 a file
 * or a model failed, 2 wrong arguments. */
#if defined(__unix__) || defined(__APPLE__)
  #define _POSIX_C_SOURCE 200809L
  #define MIRAS_PTHREADS
  #include <sys/stat.h>
  #include <unistd.h>
#endif
#include <signal.h>
#include <time.h>

#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#define MIRAS_HUGGINGFACE_IMPLEMENTATION
#include "huggingface.h"
#define MIRAS_TOKENIZER_IMPLEMENTATION
#include "tokenizer.h"
#define MIRAS_GGUF_IMPLEMENTATION
#include "gguf.h"
#define MIRAS_ADAPTERS_IMPLEMENTATION
#include "adapters.h"
#define PROGRAM "run"
#include "chat.h"

/* ---- small tools ----------------------------------------------------------------------------- */

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

/* Is it a file of views, as tune writes them? */
static int is_views(const char *path) {
  static const char begins[] = "{\"__metadata__\":{\"format\":\"miras-views\"";
  char head[8 + sizeof begins] = "";
  FILE *f = fopen(path, "rb");
  const size_t n = f ? fread(head, 1, sizeof head - 1, f) : 0;
  if (f) fclose(f);
  return n >= 8 + sizeof begins - 1 && memcmp(head + 8, begins, sizeof begins - 1) == 0;
}

/* ---- options --------------------------------------------------------------------------------- */

typedef struct options {
  source from;
  drawing how;
  const char *prompt, *file, *cache, *state, *save_state, *save, *merge, *until;
  double count, stop, adapt;
  int ids, score, info, chat, show_prompt;
} options;

/* What is asked for. */
static options given;

static const option table[] = {
  {"--prompt", 't', &given.prompt, 0, 0,
   "text to go on from; without one, the end of --state or token 0 alone"},
  {"--file", 's', &given.file, 0, 0, "the prompt is what this file holds"},
  {"--chat", 'f', &given.chat, 0, 0,
   "talk: lines of standard input are answered; /help lists what else a line can be"},
  {"--adapt", 'r', &given.adapt, 0, 8,
   "learn from what is read, in the state, as fast as this: 1 to 2; the model stays as it is"},
  ADAPTER_OPTION(given.from), SOURCE_OPTIONS(given.from),
  {"--show-prompt", 'f', &given.show_prompt, 0, 0, "write what a turn is to the model, as well"},
  {"--ids", 'f', &given.ids, 0, 0,
   "the prompt is numbers on standard input, and numbers are written"},
  {"--tokens", 'i', &given.count, 0, 1e9, "how many to write"},
  {"--until", 's', &given.until, 0, 0, "end where this text would come, which is not written"},
  {"--stop", 'i', &given.stop, 0, 1e9,
   "end at this token, which is not written; else at the one that the vocabulary names"},
  DRAW_OPTIONS(given.how),
  {"--cache", 's', &given.cache, 0, 0,
   "of prompts: what this file has of the prompt is not read again"},
  {"--state", 's', &given.state, 0, 0,
   "go on from this state, as if it had never been saved; or what tune --state has written"},
  {"--save-state", 's', &given.save_state, 0, 0, "write the state at the end"},
  {"--score", 'f', &given.score, 0, 0, "write no text, but the loss of the prompt per token"},
  {"--info", 'f', &given.info, 0, 0,
   "write the descriptor and the model's size, and no more; no weight is read"},
  {"--save", 's', &given.save, 0, 0,
   "write the model, its matrices as --weights says, as a file of miras.h, which opens faster"},
  {"--merge", 's', &given.merge, 0, 0,
   "write MODEL's folder again, into this one, with --adapter in its weights, and no more, also of "
   "a Llama that is a file, as float, or --weights bf16 or f16; or a file of miras.h, "
   "*.safetensors, of any MODEL, with what is tune's in --adapter or --state"},
  {NULL, 0, NULL, 0, 0, NULL}};

static void print_help(void) {
  puts("run: run other people's models, or your own, with miras.h\n\n"
       "  run MODEL [options]\n\n"
       "MODEL is a folder with config.json and *.safetensors, one such file, a GGUF file, or a\n"
       "file of lm.\n"
       "PyTorch's .bin and .pth become such files by examples/to_safetensors.py.\n");
  print_options(table);
}

/* Is a file of miras.h to be written, and not a folder? */
static int merges_to_file(const options *o) {
  const size_t n = strlen(o->merge);
  return n > 12 && strcmp(o->merge + n - 12, ".safetensors") == 0;
}

static void check_merge(const options *o) {
  const int file = merges_to_file(o);
  if (o->ids || o->prompt || o->file || o->chat || o->score || o->info || o->save || o->cache ||
      o->save_state || o->adapt > 0)
    die(2, "--merge writes a model, and no more: options of texts and --save are not for it");
  if (o->state && !is_views(o->state))
    die(2, "--merge is of what tune has written; --state is %s, the state of a text", o->state);
  if (file && !o->from.adapter && !o->state)
    die(2, "--merge needs an --adapter, or a --state of tune's");
  if (file) return;
  if (o->state)
    die(2, "--merge is %s, a folder: no family has a place there for what memories begin with; it "
           "must be a file, *.safetensors", o->merge);
  if (can_be_read(o->from.model)) {
    if (!o->from.adapter || miras_peft_is(o->from.adapter))
      die(2, "--merge of %s, a file, needs an --adapter that is one too, as tune writes it",
          o->from.model);
    return;
  }
  if (!o->from.adapter || !miras_peft_is(o->from.adapter))
    die(2, "--merge needs an --adapter, a folder in PEFT's form, or to be a file, *.safetensors");
  if (o->from.weights)
    die(2, "--merge writes a folder, in the types that it has: --weights is for a file, "
           "*.safetensors, and for a model that is a file");
}

/* Options that leave each other nothing to do. */
static void check_options(const options *o) {
  if (o->ids && (o->from.vocab || o->prompt || o->file))
    die(2, "--ids takes its prompt from standard input, as numbers: without --vocab, --prompt "
           "and --file");
  if (o->prompt && o->file) die(2, "--prompt and --file are two prompts");
  if (o->chat && (o->ids || o->prompt || o->file || o->score || o->cache))
    die(2, "--chat takes what is said from standard input, as text: without --ids, --prompt, "
           "--file, --score and --cache");
  if (!o->chat && (o->from.template_name || o->from.system || o->show_prompt))
    die(2, "%s is for --chat", o->from.template_name ? "--template" : o->from.system ? "--system"
                                                                : "--show-prompt");
  if (o->cache && o->state) die(2, "--cache begins anew and --state does not");
  if (o->score && (o->cache || o->save_state))
    die(2, "--score reads its prompt whole, and leaves no state: it has no use for %s",
        o->cache ? "--cache" : "--save-state");
  if (o->merge) check_merge(o);
  if (o->adapt > 0 && o->save)
    die(2, "--save writes a model, and what --adapt learns is a text's: --save-state writes it");
#ifndef MIRAS_PTHREADS
  if (o->from.threads > 1)
    die(2, "--threads is %g; there are no POSIX threads here", o->from.threads);
#endif
}

static void read_options(options *o, int argc, char **argv) {
  o->count = 256, o->stop = -1, o->from.threads = 1;
  o->how = usual_drawing();
  if (take_options(table, argc, argv, &o->from.model)) {
    print_help();
    exit(0);
  }
  check_options(o);
  if (!o->from.vocab && !o->ids) o->from.vocab = own_vocabulary(o->from.model);
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
  output out[4];
  int i, k;
  out[0].option = "--save", out[0].path = o->save;
  out[1].option = "--save-state", out[1].path = o->save_state;
  out[2].option = "--cache", out[2].path = o->cache;
  out[3].option = "--merge", out[3].path = o->merge && merges_to_file(o) ? o->merge : NULL;
  for (i = 0; i < 4; i++) {
    if (!out[i].path) continue;
    each_file(o->from.model, not_input, &out[i]);
    if (o->from.vocab) not_input(&out[i], o->from.vocab);
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
  each_file(o->from.model, mix_file, &sum);
  if (o->from.adapter && miras_peft_is(o->from.adapter)) {
    char *config = join(o->from.adapter, "/adapter_config.json");
    char *tensors = join(o->from.adapter, "/adapter_model.safetensors");
    mix_file(&sum, config), mix_file(&sum, tensors);
    free(config), free(tensors);
  } else if (o->from.adapter) {
    mix_file(&sum, o->from.adapter);
  }
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

/* Write the descriptor, with all defaults, and how large such a model is. */
static void say_info(const options *o, miras_model_desc *d) {
  char text[MIRAS_PATTERN_SIZE], name[80], why[256] = "";
  const uint64_t parameters = miras_model_desc_resolve(d, why, sizeof why);
  int i, k;
  if (!parameters) die(1, "%s: %s", o->from.model, why);
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

/* The numbers of a model as those of one without adapters, to whose matrices these have been added
 * before. */
static void copy_views(miras_model *to, const miras_model *m) {
  int i, count;
  const miras_view *v = miras_model_views(to, &count);
  for (i = 0; i < count; i++) {
    const size_t rows = v[i].rank > 1 ? (size_t)v[i].shape[0] : 1, cols = v[i].count / rows;
    float *x = (float *)grow(NULL, v[i].count, sizeof *x);
    if (miras_model_view_read(m, miras_model_view(m, v[i].name), 0, rows, 0, cols, x) != MIRAS_OK ||
        miras_model_view_write(to, &v[i], 0, rows, 0, cols, x) != MIRAS_OK)
      die(1, "--merge cannot copy %s", v[i].name);
    free(x);
  }
}

/* The model with what was tuned in its own numbers. */
static miras_model *merged(const source *from) {
  miras_model_desc asked, d;
  const int own = describe_model(from, &asked, &d);
  miras_model *m = open_model_of(from, own ? &asked : &d, own, NULL, 0), *bare = m;
  char why[512] = "";
  d = *miras_model_desc_of(m);
  if (d.adapter.rank) {
    if (miras_model_merge(m) != MIRAS_OK) die(1, "--merge: %s has no adapters", from->model);
    memset(&d.adapter, 0, sizeof d.adapter);
    memset(d.adapters, 0, sizeof d.adapters);
    bare = miras_model_open(&d, NULL, why, sizeof why);
    if (!bare) die(1, "--merge: %s", why);
    copy_views(bare, m);
    miras_close(m);
  }
  return bare;
}

/* A file of the model with what was tuned in it. */
static void merge_file(const options *o) {
  miras_model *bare = merged(&o->from);
  if (miras_save(bare, o->merge) != MIRAS_OK)
    die(1, "--merge is %s, which cannot be written", o->merge);
  miras_close(bare);
}

/* A folder of a model that is a file: as float, if it is not asked for otherwise. */
static void merge_new_folder(const options *o) {
  source from = o->from;
  char why[1024] = "";
  int32_t token[2] = {-1, -1};
  miras_model *bare;
  if (!from.weights) from.weights = "float";
  bare = merged(&from);
  if (miras_gguf_is(from.model)) {
    miras_gguf *g = miras_gguf_read(from.model, NULL, why, sizeof why);
    (void)miras_gguf_wholes(g, "tokenizer.ggml.bos_token_id", &token[0], 1);
    (void)miras_gguf_wholes(g, "tokenizer.ggml.eos_token_id", &token[1], 1);
    miras_gguf_close(g);
  }
  make_folder("--merge", o->merge);
  if (miras_folder_save(bare, o->merge, token[0], token[1], why, sizeof why) != MIRAS_OK)
    die(1, "--merge is %s: %s", o->merge, why);
  printf("%s has it, without a vocabulary: tokenizer.json is in the folder that %s was made of\n",
         o->merge, from.model);
  miras_close(bare);
}

/* A folder of the model with what was tuned in it. */
static void merge_folder(const options *o) {
  char why[1024] = "";
  if (can_be_read(o->from.model)) {
    merge_new_folder(o);
    return;
  }
  make_folder("--merge", o->merge);
  if (miras_peft_merge(o->from.adapter, o->from.model, o->merge, why, sizeof why) != MIRAS_OK)
    die(1, "--merge is %s: %s", o->merge, why);
}

/* The head learns while it reads ("THE HEAD AS A MEMORY" in miras.h), by its hidden row and, as far
 * as a table of the vocabulary's rows is not too large, by the last tokens. */
static void learn_words(const options *o, miras_model_desc *d) {
  enum { LARGEST = 1 << 22 };          /* numbers of the table                                    */
  d->adapt.learning_rate = (float)o->adapt;
  d->adapt.hidden = 1;
  for (d->adapt.contexts = 12; d->adapt.contexts && d->vocab > LARGEST >> d->adapt.contexts;)
    d->adapt.contexts = d->adapt.contexts > 8 ? d->adapt.contexts - 1 : 0;
  if (d->adapt.contexts) d->adapt.context_rate = (float)o->adapt / 2;
}

static void read_prompt(const options *o, const miras_tokenizer *v, tokens *prompt, int vocab) {
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
    if (!encode(v, prompt, from, n, o->state ? 0 : MIRAS_TOKENIZER_SPECIAL))
      die(1, "%s", no_tokens);
  }
  free(text);
  for (i = 0; i < prompt->count; i++)
    if (prompt->at[i] >= vocab)
      die(1, "token %ld of the prompt is none of the model's, which go from 0 to %d",
          (long)prompt->at[i], vocab - 1);
  if (!prompt->count && !o->state) add(prompt, 0);
}

/* Write what can go out; returns whether the text ends here. */
static int write_token(stream *s, const miras_tokenizer *v, int32_t token) {
  const size_t out = stream_take(s, v, token);
  fwrite(s->held, 1, out, stdout);
  fflush(stdout);
  stream_drop(s, out);
  return s->stop != NULL;
}

/* It ends: what was held back goes out, if it was no stop. */
static void write_rest(stream *s) {
  if (s->count) fwrite(s->held, 1, stream_end(s), stdout);
  free(s->held);
}

static void finish_text(void) {
  if (fflush(stdout) || ferror(stdout)) die(1, "the text cannot be written: %s", strerror(errno));
}

/* ---- a running text -------------------------------------------------------------------------- */

static void add_all(tokens *t, const int32_t *ids, size_t n) {
  size_t k;
  for (k = 0; k < n; k++) add(t, ids[k]);
}

/* A text on one thread is a session. On more, a server works on the session's state, and what it
 * says is the same to the bit. */
typedef struct writer {
  const miras_model *m;
  miras_session *s;
  miras_server *server;    /* NULL: one thread                                                    */
#ifdef MIRAS_PTHREADS
  const miras_parallel *pool;
#endif
  float *logits;           /* [PIECE, vocab] of the server                                        */
  unsigned char *before;   /* the state before the last token of the server; NULL: is not wanted  */
  int32_t last;            /* that token; -1: the server had none, or many                        */
  tokens seen;             /* the text, as far as it was read here or from a cache                */
  float *weighed;          /* [vocab] logits of a draw                                            */
  int32_t *nothing;        /* a row's classes, all unknown                                        */
  int vocab;
} writer;

enum { PIECE = 64 };       /* tokens that are scored together                                     */

/* saves: the state is wanted in the end. */
static void writer_open(writer *w, const miras_model *m, const source *from, int saves) {
  miras_server_desc d = {0};
  char why[256];
  const size_t classes = (size_t)miras_model_row(m)->classes;
  memset(w, 0, sizeof *w);
  w->m = m;
  w->nothing = (int32_t *)grow(NULL, classes, sizeof(int32_t));
  memset(w->nothing, 0xff, classes * sizeof(int32_t));
  w->vocab = miras_model_desc_of(m)->vocab;
  w->last = -1;
  w->weighed = (float *)grow(NULL, (size_t)w->vocab, sizeof(float));
  if (from->int8) d.products = MIRAS_PRODUCTS_INT8;
  w->s = miras_session_open(m, &d, NULL, why, sizeof why);
  if (!w->s) die(1, "no session can be opened: %s", why);
#ifdef MIRAS_PTHREADS
  if (from->threads > 1) {
    d.batch_tokens = 256;          /* of a prompt that is read: some for every thread            */
    w->pool = miras_pool_open((int)from->threads, NULL, NULL, 0);
    if (!w->pool) die(1, "--threads is %g; so many cannot be started", from->threads);
    d.parallel = w->pool;
    w->server = miras_server_open(m, &d, NULL, NULL, 0);
    if (!w->server) die(1, "there is not enough memory to work on %g threads", from->threads);
    w->logits = (float *)grow(NULL, (size_t)PIECE * (size_t)w->vocab, sizeof(float));
    if (saves) w->before = (unsigned char *)grow(NULL, miras_model_state_size(m), 1);
  }
#else
  (void)saves;
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
  free(w->logits), free(w->before), free(w->weighed), free(w->nothing), free(w->seen.at);
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

/* What comes next is not learned by --adapt: the model has written it itself, or a template. */
static void learn_nothing(writer *w) {
  if (miras_model_desc_of(w->m)->adapt.learning_rate > 0)
    (void)miras_session_learn(w->s, w->nothing, NULL);
}

/* Logits behind count tokens; never NULL. A damaged model ends the program. */
static const float *feed(writer *w, const int32_t *ids, size_t count) {
  const float *logits = w->server ? serve(w, ids, count, 1)
                                  : miras_session_feed(w->s, ids, NULL, count);
  add_all(&w->seen, ids, count);
  if (!are_numbers(logits, w->vocab))
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
    add_all(&w->seen, prompt->at, seen);
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

/* The token that follows. */
static int32_t writer_draw(const options *o, writer *w, const float *logits) {
  const int32_t token = draw(&o->how, &w->seen, miras_session_position(w->s), logits, w->vocab,
                             w->weighed);
  if (token < 0) die(1, "no token can be drawn: the model's logits are not finite");
  return token;
}

/* Read the prompt and write what follows. */
static void write_text(const options *o, const miras_model *m, writer *w,
                       const miras_tokenizer *v, const tokens *prompt) {
  double start = now(), count;
  const float *logits = miras_session_logits(w->s);
  stream out;
  memset(&out, 0, sizeof out);
  out.ends[0] = o->until, out.place = prompt->count > 0;
  if (prompt->count) {
    const size_t seen = read_before(o, m, w, prompt);
    logits = feed(w, prompt->at + prompt->count - 1, 1);
    say_speed("prompt: ", prompt->count - seen, now() - start);
  } else if (!logits) {
    die(1, "--state is %s, which is a state without its last token: a prompt is needed", o->state);
  }
  start = now();
  for (count = 0; count < o->count; count++) {
    const int32_t token = writer_draw(o, w, logits);
    if ((double)token == o->stop) break;
    if (o->ids) printf("%ld\n", (long)token), fflush(stdout);
    else if (write_token(&out, v, token)) break;
    learn_nothing(w);
    logits = feed(w, &token, 1);
  }
  write_rest(&out);
  if (!o->ids) putchar('\n');
  finish_text();
  say_speed("", (size_t)count, now() - start);
}

#include "run_chat.h"

int main(int argc, char **argv) {
  options *o = &given;
  miras_model_desc asked, d;
  miras_model *m;
  miras_tokenizer *v = NULL;
  tokens prompt;
  writer w;
  int vocab, own;
  read_options(o, argc, argv);
  check_outputs(o);
  if (o->state && is_views(o->state)) {
    if (o->from.adapter) die(2, "--state is a file of tune's, and so is --adapter; one of them is");
    o->from.adapter = o->state, o->state = NULL;
  }
  if (o->merge) {
    if (merges_to_file(o)) merge_file(o);
    else merge_folder(o);
    return 0;
  }
  own = describe_model(&o->from, &asked, &d);
  if (o->adapt > 0) {
    learn_words(o, &d);
    asked.adapt = d.adapt;
  }
  if (o->info && !o->save) {
    say_info(o, &d);
    return 0;
  }
  m = open_model(&o->from, own ? &asked : &d, own);
  vocab = miras_model_desc_of(m)->vocab;
  memset(&prompt, 0, sizeof prompt);
  if (o->save && miras_save(m, o->save) != MIRAS_OK)
    die(1, "--save is %s, which cannot be written", o->save);
  if (o->info) say_info(o, &d);
  if (o->info || (o->save && !o->prompt && !o->file && !o->ids && !o->chat)) return 0;
  if (!o->ids) v = vocabulary_of(&o->from);
  if (!o->ids && !v && vocab != 256)
    die(2, "the model has %d tokens, not bytes: --vocab or --ids is needed, or a tokenizer.json "
           "in its folder", vocab);
  if (o->stop >= vocab)
    die(2, "--stop is %g, but the model's tokens go from 0 to %d", o->stop, vocab - 1);
  if (v && o->stop < 0) o->stop = miras_tokenizer_end(v);
  if (!o->chat) read_prompt(o, v, &prompt, vocab);
  writer_open(&w, m, &o->from, o->save_state != NULL);
  if (o->state) {
    const miras_result result = miras_load(w.s, o->state, NULL, 0);
    if (result != MIRAS_OK)
      die(1, "--state is %s, which is no state of this model: %s", o->state,
          miras_result_text(result));
  }
  if (o->chat) talk_run(o, m, &w, v);
  else if (o->score) say_score(m, &w, &prompt);
  else write_text(o, m, &w, v, &prompt);
  writer_settle(&w);
  if (o->save_state && miras_save(w.s, o->save_state) != MIRAS_OK)
    die(1, "--save-state is %s, which cannot be written", o->save_state);
  writer_close(&w);
  free(prompt.at);
  miras_tokenizer_close(v);
  miras_close(m);
  return 0;
}
