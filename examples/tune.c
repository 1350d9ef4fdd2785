/* tune.c: train what goes beside a model of others, or of your own, and leave the model as it is.
 *
 *     cc -O2 examples/tune.c -o tune -lm              (older C libraries: add -pthread)
 *
 * From the folder that holds miras.h. A model is what run takes: a folder as Hugging Face has them,
 * a GGUF file, a file of lm. A text is UTF-8, or talks: a file .jsonl with a line for each,
 * {"messages": [{"role": "user", "content": ".."}, {"role": "assistant", "content": ".."}]}, of
 * which the answers alone are learned, in the model's own template.
 *
 *     ./tune FOLDER text.txt --adapter 8 --out mine        then  ./run FOLDER --adapter mine
 *     ./tune FILE.gguf text.txt --state --out mine.state   then  ./run FILE.gguf --state mine.state
 *     ./tune FOLDER talks.jsonl --adapter 8 --weights q8 --memory 4G --out mine
 *     ./tune --help                                        every option
 *
 * --adapter R trains adapters of that rank beside the model's matrices (LoRA), --state what its
 * memories begin with (state tuning), both together both. The model may be held in q8, bf16 or f16,
 * and does not move; gradients and moments are of what is trained alone. Before and behind it says
 * the loss on the last tenth of the text, which it does not train on, and with --beside on another
 * one, which tells what the model loses elsewhere. --memory is a bound on the
 * model and the training together: to stay within it fewer texts of a step are worked on at a time,
 * then layers keep their input alone and are computed again on the way back (--recompute), then
 * --context is made smaller; what does not fit then is refused. Adapters of a folder are written in
 * PEFT's form into the folder --out, which Hugging Face's peft loads; anything else as one small
 * file. With --checkpoint a run that was ended goes on where it stood, to the bit; that file has
 * the model in it. The same options and --seed give the same bits for any number of threads. Exit
 * status: 0 done, 1 a file or a model failed, 2 wrong arguments. */
#if defined(__unix__) || defined(__APPLE__)
  #define _POSIX_C_SOURCE 200809L
  #define MIRAS_PTHREADS
#endif
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
#define PROGRAM "tune"
#define CHAT_NO_ANSWERS
#include "chat.h"

/* ---- options --------------------------------------------------------------------------------- */

typedef struct options {
  source from;
  const char *text, *out, *targets, *memory, *checkpoint, *beside;
  double rank, scale, dropout, steps, stop, batch, context, recompute, rate, seed, every, tests;
  int state;
} options;

static options given = {
  .targets = "", .scale = 0, .steps = 200, .batch = 8, .context = 256, .every = 10,
  .tests = 32};

static const option table[] = {
  {"--text", 's', &given.text, 0, 0,
   "what is learned; it may stand behind the model without --text"},
  {"--out", 's', &given.out, 0, 0, "where it is written: a folder, or a file"},
  {"--adapter", 'i', &given.rank, 0, 1024, "the rank of adapters"},
  {"--state", 'f', &given.state, 0, 0, "train what memories begin with"},
  {"--targets", 's', &given.targets, 0, 0,
   "matrices with adapters, patterns of views: \"*.q.weight,*.v.weight\"; else those of attention, "
   "memories and MLPs"},
  {"--scale", 'r', &given.scale, 0, 1e6, "adapters' alpha; 0: twice the rank"},
  {"--dropout", 'r', &given.dropout, 0, 0.9, "of what adapters read"},
  {"--steps", 'i', &given.steps, 0, 1e9, "of training"},
  {"--stop", 'i', &given.stop, 0, 1e9, "end behind this step, to go on from --checkpoint"},
  {"--batch", 'i', &given.batch, 1, 4096, "texts, or talks, of a step"},
  {"--context", 'i', &given.context, 8, 1 << 20, "tokens of each"},
  {"--rate", 'r', &given.rate, 0, 10,
   "the highest learning rate; 0: 4e-3 with adapters, 2e-2 of states alone"},
  {"--memory", 's', &given.memory, 0, 0, "bytes, or 4G, 800M: what model and training may take"},
  {"--recompute", 'i', &given.recompute, 0, 1e6,
   "layers that are computed again on the way back, up to all; --memory finds how many"},
  {"--checkpoint", 's', &given.checkpoint, 0, 0, "go on from this file if it is there; it is kept"},
  {"--beside", 's', &given.beside, 0, 0,
   "another text, or talks: what the model loses there is said in the same lines"},
  {"--every", 'i', &given.every, 1, 1e9, "steps from line to line"},
  {"--tests", 'i', &given.tests, 1, 1e9,
   "most windows, or talks, that are held out of the text, and that are read of --beside"},
  {"--seed", 'i', &given.seed, 0, 1e15, "of adapters and of the order"},
  SOURCE_OPTIONS(given.from),
  {NULL, 0, NULL, 0, 0, NULL}};

static void print_help(void) {
  printf("tune MODEL TEXT --adapter N --out PATH: train beside a model\n\n");
  print_options(table);
}

/* ---- talks ----------------------------------------------------------------------------------- */

/* A text to learn: tokens, and which of them are said by the model. */
typedef struct talk {
  size_t first, count;
} talk;

typedef struct data {
  tokens t;
  unsigned char *learns;               /* [t.count] NULL: all                                     */
  talk *talks;
  size_t count;
} data;

/* A string of JSON, all of it. */
static char *json_text(hf__cursor *t, size_t *n) {
  char *text = (char *)grow(NULL, (size_t)(t->end - t->at), 1);
  *n = 0;
  hf__need_char(t, '"');
  while (t->at < t->end && *t->at != '"') {
    unsigned c = (unsigned char)*t->at++;
    int more = 0;
    if (c != '\\' || t->bad) {
      text[(*n)++] = (char)c;
      continue;
    }
    c = hf__need_escape(t);
    more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    text[(*n)++] = (char)(more ? (0x780u >> more & 0xff) | c >> 6 * more : c);
    while (more--) text[(*n)++] = (char)(0x80u | (c >> 6 * more & 0x3f));
  }
  hf__need_char(t, '"');
  text[*n] = 0;
  return text;
}

static void learn(data *d, size_t from, int learns) {
  d->learns = (unsigned char *)grow(d->learns, d->t.count, 1);
  memset(d->learns + from, learns, d->t.count - from);
}

/* One message, in its turn. */
static void add_message(data *d, chat *c, int *begun, char **system, const char *role, char *text,
                        size_t n, const char *path, long line) {
  const size_t from = d->t.count;
  const char *was = c->system;
  if (strcmp(role, "system") == 0) {
    free(*system), *system = text;
    return;
  }
  if (strcmp(role, "user") == 0) {
    if (*system) c->system = *system;
    if (!chat_turn(c, *begun, 0, text, n, &d->t)) die(1, "%s, line %ld: %s", path, line, no_tokens);
    c->system = was;
    learn(d, from, 0);
    *begun = 1;
  } else if (strcmp(role, "assistant") == 0) {
    char *said = join(text, c->form->end);
    if (!encode(c->t, &d->t, said, strlen(said), 0))
      die(1, "%s, line %ld: %s", path, line, no_tokens);
    free(said);
    learn(d, from, 1);
  } else {
    die(1, "%s, line %ld: role is %s; it must be system, user or assistant", path, line, role);
  }
  free(text);
}

static void read_talks(data *d, chat *c, const char *path, const char *text, size_t size) {
  const char *at = text, *end = text + size;
  long line = 0;
  for (; at < end; at++) {
    const char *stop = (const char *)memchr(at, '\n', (size_t)(end - at));
    char name[HF__NAME_SIZE], role[HF__NAME_SIZE];
    char *system = NULL;
    const size_t first = d->t.count;
    int begun = 0;
    hf__cursor t;
    memset(&t, 0, sizeof t);
    t.at = at, t.end = stop ? stop : end;
    at = t.end, line++;
    hf__skip_space(&t);
    if (t.at == t.end) continue;
    hf__need_char(&t, '{');
    do {
      hf__need_string(&t, name);
      hf__need_char(&t, ':');
      if (strcmp(name, "messages") != 0) {
        hf__skip_value(&t, 0);
        continue;
      }
      hf__need_char(&t, '[');
      do {
        char *content = NULL;
        size_t n = 0;
        role[0] = 0;
        hf__need_char(&t, '{');
        do {
          hf__need_string(&t, name);
          hf__need_char(&t, ':');
          hf__skip_space(&t);
          if (strcmp(name, "role") == 0) hf__need_string(&t, role);
          else if (strcmp(name, "content") == 0) free(content), content = json_text(&t, &n);
          else hf__skip_value(&t, 0);
        } while (!t.bad && hf__take_char(&t, ','));
        hf__need_char(&t, '}');
        if (t.bad || !content) break;
        add_message(d, c, &begun, &system, role, content, n, path, line);
      } while (hf__take_char(&t, ','));
      hf__need_char(&t, ']');
    } while (!t.bad && hf__take_char(&t, ','));
    hf__need_char(&t, '}');
    free(system);
    if (t.bad) die(1, "%s, line %ld: it is no JSON with messages of role and content", path, line);
    d->talks = (talk *)grow(d->talks, d->count, sizeof *d->talks);
    d->talks[d->count].first = first, d->talks[d->count++].count = d->t.count - first;
  }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static uint64_t mixed(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* What is trained on, and what is held out: windows of a text or talks. */
typedef struct rows {
  const data *d;
  int batch, context;
  size_t train, held;                  /* tokens of the text that are trained on, windows behind;
                                          or talks                                                */
  int32_t *x, *y;
  int length;
} rows;

/* Row b is the window at `from`, or a talk; the rest of a row is nothing to learn. */
static void fill(rows *r, int b, size_t from, size_t count) {
  const data *d = r->d;
  size_t t;
  int32_t *x = r->x + (size_t)b * (size_t)r->context, *y = r->y + (size_t)b * (size_t)r->context;
  for (t = 0; t < (size_t)r->context; t++) {
    const int there = t + 1 < count;
    x[t] = there ? d->t.at[from + t] : 0;
    y[t] = there && (!d->learns || d->learns[from + t + 1]) ? d->t.at[from + t + 1] : -1;
  }
}

static void train_rows(rows *r, uint64_t seed, uint64_t step, int first) {
  int b;
  for (b = 0; b < r->batch; b++) {
    const uint64_t draw = mixed(mixed(seed + 1) ^ mixed(step * 65536 + (uint64_t)(first + b)));
    if (r->d->learns) {
      const talk *k = &r->d->talks[draw % r->train];
      fill(r, b, k->first, k->count);
    } else {
      fill(r, b, (size_t)(draw % (r->train - (size_t)r->context)), (size_t)r->context + 1);
    }
  }
}

/* Nats a token of what is held out, or of what is beside it, and how many tokens these are. */
static double held_out(miras_trainer *t, rows *r, size_t *counted) {
  double sum = 0;
  size_t i, n = 0;
  *counted = 0;
  for (i = 0; i < r->held; i += n) {
    miras_batch x;
    float loss = 0;
    size_t b, many = 0;
    n = r->held - i < (size_t)r->batch ? r->held - i : (size_t)r->batch;
    for (b = 0; b < n; b++) {
      if (r->d->learns) {
        const talk *k = &r->d->talks[r->train + i + b];
        fill(r, (int)b, k->first, k->count);
      } else {
        fill(r, (int)b, r->train + (i + b) * (size_t)r->context, (size_t)r->context + 1);
      }
    }
    memset(&x, 0, sizeof x);
    x.tokens = r->x, x.classes = r->y, x.batch = (int)n, x.length = r->context;
    for (b = 0; b < n * (size_t)r->context; b++) many += r->y[b] >= 0;
    if (miras_trainer_loss(t, &x, 0, &loss) != MIRAS_OK) die(1, "the held-out text is refused");
    sum += (double)loss * (double)many, *counted += many;
  }
  return *counted ? sum / (double)*counted : 0;
}

/* ---- training -------------------------------------------------------------------------------- */

static double now(void) {
#if defined(_POSIX_C_SOURCE)
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#else
  return (double)time(NULL);
#endif
}

static uint64_t bytes_of(const char *text) {
  char *end;
  const double x = strtod(text, &end);
  const double by = *end == 'G' || *end == 'g' ? 1e9 : *end == 'M' || *end == 'm' ? 1e6 : 1;
  if (end == text || (by > 1 ? end[1] : end[0]) || !(x * by >= 1 && x * by < 1e18))
    die(2, "--memory is \"%s\"; it must be bytes, or such as 4G or 800M", text);
  return (uint64_t)(x * by);
}

enum { ROWS = 256 };   /* tokens that are worked on together: with more nothing is faster         */

/* Find what memory has room for beside the model: fewer texts at a time, which costs nothing while
 * they are many tokens; then as few layers as can be that are computed again; then one text; then a
 * smaller context. */
static miras_trainer *open_trainer(const options *o, miras_model *m, const char *only,
                                   const miras_parallel *pool, uint64_t room, size_t chunk,
                                   rows *r) {
  const size_t model = miras_model_size(miras_model_desc_of(m), NULL, 0);
  const int layers = miras_model_desc_of(m)->layers;
  miras_trainer_desc d;
  char why[256];
  miras_trainer *t;
  size_t bytes;
  memset(&d, 0, sizeof d);
  d.batch = (int)o->batch, d.context = (int)((size_t)o->context / chunk * chunk);
  if (d.context < (int)chunk) d.context = (int)chunk;
  d.recompute = o->recompute < layers ? (int)o->recompute : layers;
  d.only = only, d.parallel = pool;
  for (;;) {
    bytes = miras_trainer_size(m, &d, why, sizeof why);
    if (!bytes) die(1, "%s", why);
    if (!room || model + bytes <= room) break;
    if (d.batch > 1 && d.batch / 2 * d.context >= ROWS) d.batch /= 2;
    else if (d.recompute < layers) d.recompute++;
    else if (d.batch > 1) d.batch /= 2;
    else if (d.context / 2 >= (int)chunk && d.context > 32)
      d.context = (int)((size_t)d.context / 2 / chunk * chunk);
    else
      die(1, "--memory is %s, but the model takes %.3g GB and training it with batch 1 and context "
             "%d %.3g GB more; --weights q8 makes the first smaller", o->memory,
          (double)model / 1e9, d.context, (double)bytes / 1e9);
  }
  t = miras_trainer_open(m, &d, NULL, why, sizeof why);
  if (!t) die(1, "%s", why);
  r->batch = d.batch, r->context = d.context;
  printf("memory: model %.3f GB, training %.3f GB; batch %d, context %d, %d of %d layers computed "
         "again\n", (double)model / 1e9, (double)bytes / 1e9, d.batch, d.context, d.recompute,
         layers);
  return t;
}

/* Gradients of several passes as those of one. */
static void average(miras_trainer *t, const miras_model *m, int passes) {
  int i, count;
  const miras_view *v = miras_model_views(m, &count);
  size_t k;
  for (i = 0; passes > 1 && i < count; i++) {
    float *g = miras_trainer_grad(t, &v[i]);
    for (k = 0; g && k < v[i].count; k++) g[k] /= (float)passes;
  }
}

static void train(const options *o, miras_model *m, miras_trainer *t, rows *r) {
  const miras_adamw_options how = MIRAS_ADAMW(0, 1);
  const uint64_t steps = (uint64_t)o->steps, warm = steps / 20 + 1;
  const int passes = ((int)o->batch + r->batch - 1) / r->batch;
  const double start = now();
  const uint64_t first = miras_trainer_steps(t), last = (uint64_t)o->stop;
  double sum = 0;
  uint64_t step, since = 0;
  int p;
  for (step = first; step < steps; step++) {
    const float rate = miras_schedule_cosine(step, warm, steps, (float)o->rate, 0.1f);
    for (p = 0; p < passes; p++) {
      miras_batch x;
      float loss = 0;
      memset(&x, 0, sizeof x);
      train_rows(r, (uint64_t)o->seed, step, p * r->batch);
      x.tokens = r->x, x.classes = r->y, x.batch = r->batch, x.length = r->context;
      if (miras_trainer_loss(t, &x, 1, &loss) != MIRAS_OK ||
          miras_trainer_backward(t, NULL) != MIRAS_OK) die(1, "step %lu is refused",
                                                           (unsigned long)step);
      sum += (double)loss, since++;
    }
    average(t, m, passes);
    if (miras_trainer_step(t, &how, rate, NULL) != MIRAS_OK) die(1, "a step is refused");
    if ((step + 1) % (uint64_t)o->every && step + 1 < steps && step + 1 != last) continue;
    printf("step %lu of %lu  loss %.4f  rate %.2g  %.0f tokens/s\n", (unsigned long)(step + 1),
           (unsigned long)steps, sum / (double)since, (double)rate,
           (double)(step + 1 - first) * passes * r->batch * r->context / (now() - start + 1e-9));
    fflush(stdout);
    sum = 0, since = 0;
    if (o->checkpoint && miras_save(t, o->checkpoint) != MIRAS_OK)
      die(1, "--checkpoint is %s, which cannot be written", o->checkpoint);
    if (step + 1 == last) break;
  }
  if (last && last < steps) printf("ended behind step %lu\n", (unsigned long)last);
}

/* ---- the whole of it ------------------------------------------------------------------------- */

static void check_options(const options *o) {
  if (!o->text) die(2, "a text is needed behind the model: UTF-8, or talks that end in .jsonl");
  if (!o->out) die(2, "--out is needed: where what is learned is written");
  if (!(o->rank > 0) && !o->state) die(2, "--adapter N or --state is needed: what is trained");
  if (!(o->rank > 0) && (o->targets[0] || o->scale > 0 || o->dropout > 0))
    die(2, "--targets, --scale and --dropout are of --adapter");
}

/* Rates that were measured (examples/README.md). */
static double rate_of(const options *o) { return o->rank > 0 ? 4e-3 : 2e-2; }

/* All windows of a layer's chunk. */
static size_t chunk_of(const miras_model *m) {
  size_t chunk = 1;
  int l;
  for (l = 0; miras_model_layer(m, l); l++)
    if (miras_model_layer(m, l)->type == MIRAS_LAYER_MAC)
      chunk = (size_t)miras_model_layer(m, l)->attention.window;
  return chunk;
}

static void adapters_of(const options *o, miras_model_desc *d) {
  static const char *const all[] = {"*.q.weight", "*.k.weight", "*.v.weight", "*.o.weight",
                                    "*.mlp.gate", "*.mlp.up", "*.mlp.down", "*.out_gate.weight"};
  d->adapter.rank = (int)o->rank;
  d->adapter.scale = (float)(o->scale > 0 ? o->scale : 2 * o->rank);
  d->adapter.dropout = (float)o->dropout;
  d->seed = (uint64_t)o->seed;
  d->adapters[0] = 0;
  if (o->targets[0]) {
    if (strlen(o->targets) >= sizeof d->adapters) die(2, "--targets is too long");
    strcpy(d->adapters, o->targets);
  } else {                                       /* those of these that there are                 */
    size_t i;
    for (i = 0; i < sizeof all / sizeof *all; i++) {
      miras_model_desc try_it = *d;
      strcpy(try_it.adapters, all[i]);
      if (!miras_model_size(&try_it, NULL, 0)) continue;
      if (d->adapters[0]) strcat(d->adapters, ",");
      strcat(d->adapters, all[i]);
    }
  }
}

static void save(const options *o, miras_model *m, const char *only) {
  char why[1024] = "";
  const size_t n = strlen(o->out);
  const int file = can_be_read(o->from.model) || o->state ||
                   (n > 12 && strcmp(o->out + n - 12, ".safetensors") == 0);
  miras_result result;
  if (!file) make_folder("--out", o->out);
  result = file ? miras_views_save(m, only, o->out, why, sizeof why)
                : miras_peft_save(m, o->out, o->from.model, why, sizeof why);
  if (result != MIRAS_OK) die(1, "--out is %s: %s", o->out, why);
  printf("%s has it%s\n", o->out, file ? "" : ", in PEFT's form");
}

/* The model, with adapters where these are asked for. */
static miras_model *open_base(const options *o) {
  miras_model_desc asked, d;
  const int own = describe_model(&o->from, &asked, &d);
  miras_model_desc *to = own ? &asked : &d;
  if (o->rank > 0) {
    miras_model_desc with = d;                   /* whose layers say which matrices there are     */
    adapters_of(o, &with);
    to->adapter = with.adapter, to->seed = with.seed;
    memcpy(to->adapters, with.adapters, sizeof with.adapters);
  }
  return open_model(&o->from, to, own);
}

/* The text of a file, or its talks. */
static void read_data(const options *o, const char *path, const miras_tokenizer *v, data *all) {
  const size_t n = strlen(path);
  size_t size;
  char *text = read_file(path, &size, 0);
  chat form;
  memset(all, 0, sizeof *all);
  if (n > 6 && strcmp(path + n - 6, ".jsonl") == 0) {
    if (!chat_open(&form, &o->from, v)) die(2, "the model names no template; --template is needed");
    read_talks(all, &form, path, text, size);
    if (all->count < 2)
      die(1, "%s has %lu talks; two are needed", path, (unsigned long)all->count);
  } else if (!encode(v, &all->t, text, size, 0)) {
    die(1, "%s: %s", path, no_tokens);
  }
  free(text);
}

static void say_cut(const rows *r) {
  const data *d = r->d;
  size_t i, cut = 0;
  for (i = 0; i < d->count; i++) cut += d->talks[i].count > (size_t)r->context + 1;
  if (cut)
    printf("%lu of %lu talks are longer than the context, and cut\n", (unsigned long)cut,
           (unsigned long)d->count);
}

/* The last tenth is held out. */
static void share_out(const options *o, rows *r) {
  const data *d = r->d;
  const size_t windows = d->learns ? d->count : d->t.count / (size_t)r->context;
  say_cut(r);
  r->x = (int32_t *)grow(NULL, (size_t)r->batch * (size_t)r->context, sizeof *r->x);
  r->y = (int32_t *)grow(NULL, (size_t)r->batch * (size_t)r->context, sizeof *r->y);
  if (!d->learns && windows < 4)
    die(1, "%s has %lu tokens; four windows of %d are needed", o->text, (unsigned long)d->t.count,
        r->context);
  r->held = windows / 10 ? windows / 10 : 1;
  if (r->held > (size_t)o->tests) r->held = (size_t)o->tests;
  r->train = d->learns ? d->count - r->held
                       : d->t.count - r->held * (size_t)r->context - 1;
}

/* Of what is beside the text all is held out, up to --tests; rows are made where r's are. */
static void share_beside(const options *o, const rows *r, const data *d, rows *beside) {
  const size_t windows =
    d->learns ? d->count : d->t.count ? (d->t.count - 1) / (size_t)r->context : 0;
  *beside = *r;
  beside->d = d, beside->train = 0;
  if (!windows)
    die(1, "--beside is %s, of %lu tokens; a window of %d and a token are needed", o->beside,
        (unsigned long)d->t.count, r->context);
  beside->held = windows < (size_t)o->tests ? windows : (size_t)o->tests;
  say_cut(beside);
}

/* Say what rows cost; *before receives it, or is what it was. */
static void say_loss(const char *name, miras_trainer *t, rows *r, int behind, double *before) {
  size_t counted;
  const double loss = held_out(t, r, &counted);
  printf("%s: %lu tokens, loss %.4f ", name, (unsigned long)counted, loss);
  if (behind) printf("behind (%+.1f %%)\n", 100 * (loss / *before - 1));
  else printf("before\n"), *before = loss;
}

int main(int argc, char **argv) {
  options *o = &given;
  const char *only;
  const miras_parallel *pool = NULL;
  miras_tokenizer *v;
  miras_model *m;
  miras_trainer *t;
  data all, others;
  rows r, beside;
  char why[256] = "";
  double before = 0, before_beside = 0;
  if (take_options(table, argc, argv, &o->from.model)) return print_help(), 0;
  check_options(o);
  if (!(o->rate > 0)) o->rate = rate_of(o);
  if (!o->from.vocab) o->from.vocab = own_vocabulary(o->from.model);
  m = open_base(o);
  v = vocabulary_of(&o->from);
  if (!v && miras_model_desc_of(m)->vocab != 256)
    die(2, "the model has %d tokens, not bytes: --vocab is needed, or a tokenizer.json in its "
           "folder", miras_model_desc_of(m)->vocab);
  read_data(o, o->text, v, &all);
  memset(&others, 0, sizeof others);
  if (o->beside) read_data(o, o->beside, v, &others);
#ifdef MIRAS_PTHREADS
  if (o->from.threads > 1) pool = miras_pool_open((int)o->from.threads, NULL, why, sizeof why);
  if (o->from.threads > 1 && !pool) die(1, "%s", why);
#endif
  only = !o->state ? "*.adapter_*" : o->rank > 0 ? "*.adapter_*,*memory.init" : "*memory.init";
  memset(&r, 0, sizeof r);
  r.d = &all;
  t = open_trainer(o, m, only, pool, o->memory ? bytes_of(o->memory) : 0, chunk_of(m), &r);
  share_out(o, &r);
  if (o->beside) share_beside(o, &r, &others, &beside);
  say_loss("held out", t, &r, 0, &before);       /* of the model as it is, wherever it goes on    */
  if (o->beside) say_loss("beside", t, &beside, 0, &before_beside);
  if (o->checkpoint && can_be_read(o->checkpoint)) {
    const miras_result result = miras_load(t, o->checkpoint, why, sizeof why);
    if (result != MIRAS_OK)
      die(1, "--checkpoint is %s: %s", o->checkpoint, why[0] ? why : miras_result_text(result));
    printf("on from step %lu\n", (unsigned long)miras_trainer_steps(t));
  }
  train(o, m, t, &r);
  say_loss("held out", t, &r, 1, &before);
  if (o->beside) say_loss("beside", t, &beside, 1, &before_beside);
  save(o, m, only);
  miras_close(t);
#ifdef MIRAS_PTHREADS
  miras_pool_close(pool);
#endif
  miras_tokenizer_close(v);
  miras_close(m);
  free(r.x), free(r.y), free(all.t.at), free(all.learns), free(all.talks);
  free(others.t.at), free(others.learns), free(others.talks);
  return 0;
}
