/* adapters.h: what is trained beside a model, alone in a small file: adapters, initial memories.
 *
 * A companion of miras.h and of huggingface.h, by whose families it knows names. In one C file:
 *
 *     #define MIRAS_IMPLEMENTATION
 *     #include "miras.h"
 *     #define MIRAS_HUGGINGFACE_IMPLEMENTATION
 *     #include "huggingface.h"
 *     #define MIRAS_ADAPTERS_IMPLEMENTATION
 *     #include "adapters.h"
 *
 * Two forms. A file of views is a safetensors file with views of a model by their names, and in its
 * __metadata__ the rank, scale and patterns of adapters: any model takes it that has these views,
 * of whatever file. PEFT's form is a folder with adapter_config.json and adapter_model.safetensors,
 * which Hugging Face's peft and transformers load beside the folder that the model is of; names
 * follow from that folder's tensors.
 *
 * Everything is checked before the first number is written. The licence is that of miras.h. */
#ifndef MIRAS_ADAPTERS_H
#define MIRAS_ADAPTERS_H

#ifndef MIRAS_HUGGINGFACE_H
  #error "include miras.h and huggingface.h before adapters.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Is `path` a folder in PEFT's form? */
MIRAS_API int miras_peft_is(const char *path);
/* Set d->adapter and d->adapters, of a model's descriptor, to what the file of views or the folder
 * in PEFT's form needs; a file without adapters leaves d as it is. base: of PEFT's form the folder
 * that the model is of, else it is not read and may be NULL. why as in miras_checkpoint_desc. */
MIRAS_API miras_result miras_adapters_desc(miras_model_desc *d, const char *path, const char *base,
                                           char *why, size_t why_size);
/* Load them into m, a model of that descriptor. What m has of adapters and the folder has not is as
 * if it were not there. */
MIRAS_API miras_result miras_adapters_load(miras_model *m, const char *path, const char *base,
                                           char *why, size_t why_size);
/* Save the views of m whose names match patterns, as of miras_model_train_only, as a file of views.
 * Those that are not float are refused. */
MIRAS_API miras_result miras_views_save(const miras_model *m, const char *patterns,
                                        const char *path, char *why, size_t why_size);
/* Save the adapters of m in PEFT's form into `folder`, which is there; base is the folder that m
 * was loaded of. Those that add nothing, whose B is 0, are left out. Those of matrices of which
 * several tensors are parts, or which the folder has not got as a module's weight, are refused. */
MIRAS_API miras_result miras_peft_save(const miras_model *m, const char *folder, const char *base,
                                       char *why, size_t why_size);
/* Write the model's folder `base` again, into the folder `to`, which is there and has no model yet,
 * with the adapters of the folder `path` in PEFT's form in its weights: W + by B A, as peft's
 * merge_and_unload, rounded to the type that W's tensor has. All other tensors have the bytes that
 * they had, and configuration and vocabulary are copied; config.json is written last. */
MIRAS_API miras_result miras_peft_merge(const char *path, const char *base, const char *to,
                                        char *why, size_t why_size);
/* Write m, whatever it was opened from, as a folder of Hugging Face's into `folder`, which is there
 * and has no model yet: config.json, written last, and model.safetensors, matrices in the type that
 * m holds them in, float, bf16 or f16, all else as float. m is a Llama without adapters, the family
 * whose every field is known in both directions; others are refused by the field, or view, that is
 * none of a Llama's. begin, end: numbers of the tokens of these names, below 0: none is named. No
 * vocabulary is written. */
MIRAS_API miras_result miras_folder_save(const miras_model *m, const char *folder, int begin,
                                         int end, char *why, size_t why_size);

#ifdef __cplusplus
}
#endif
#endif /* MIRAS_ADAPTERS_H */

#if defined(MIRAS_ADAPTERS_IMPLEMENTATION) && !defined(AD__IMPLEMENTED)
#define AD__IMPLEMENTED

#ifndef HF__IMPLEMENTED
  #error "MIRAS_ADAPTERS_IMPLEMENTATION: put the implementation of huggingface.h before this one"
#endif

/* Of a module y = W x, W [out, in], PEFT has y += by B (A x), A [r, in] and B [out, r]; by is
 * lora_alpha / r or, rank-stabilised, lora_alpha / sqrt r. A view here has some of the module's
 * rows as its columns, its adapter_a is A turned and its adapter_b columns of B turned. Where
 * several views are parts of a module, each with an adapter of its own, the module's A has theirs
 * one below the other, and B zeros where rows of one meet the rank of another. */

/* ---- small tools ---- */

static char *ad__join(hf__reader *c, const char *folder, const char *name) {
  const size_t n = strlen(folder), m = strlen(name);
  const int slash = n && !strchr("/\\", folder[n - 1]);
  char *path = (char *)hf__alloc(c, n + m + 2, 1);
  if (!path) return NULL;
  memcpy(path, folder, n);
  path[n] = '/';
  memcpy(path + n + (slash ? 1 : 0), name, m + 1);
  return path;
}

static int ad__ends(const char *name, const char *end) {
  const size_t n = strlen(name), m = strlen(end);
  return n >= m && hf__same(name + n - m, end);
}

/* Does a name match a pattern of n characters, in which * stands for any? */
static int ad__matches(const char *name, const char *pattern, size_t n) {
  if (!n) return !*name;
  if (*pattern == '*')
    return ad__matches(name, pattern + 1, n - 1) || (*name && ad__matches(name + 1, pattern, n));
  return *name == *pattern && ad__matches(name + 1, pattern + 1, n - 1);
}
static int ad__matches_some(const char *name, const char *patterns) {
  for (;;) {
    const size_t n = strcspn(patterns, ",");
    if (ad__matches(name, patterns, n)) return 1;
    if (!patterns[n]) return 0;
    patterns += n + 1;
  }
}

/* The view behind a matrix's name, part 'a' or 'b' of its adapter; NULL: it has none. */
static const miras_view *ad__part(const miras_model *m, const char *matrix, char part) {
  char name[HF__NAME_SIZE] = "";
  hf__say(name, sizeof name, "%s.adapter_%c", matrix, part);
  return miras_model_view(m, name);
}

/* All numbers of a view. */
static float *ad__numbers(hf__reader *c, const miras_model *m, const miras_view *v) {
  const size_t rows = hf__view_rows(v);
  float *x = (float *)hf__alloc(c, v->count, sizeof *x);
  if (x) miras_model_view_read(m, v, 0, rows, 0, v->count / rows, x);
  return x;
}
/* All numbers of a tensor. */
static int ad__read(hf__reader *c, const hf__tensor *x, float *to) {
  size_t i, n;
  for (i = 0; i < x->count; i += n) {
    n = x->count - i < HF__READ ? (size_t)x->count - i : (size_t)HF__READ;
    if (!hf__tensor_get(c, x, i, n, to + i)) return 0;
  }
  return 1;
}

static void ad__free(hf__reader *c, void *at) {
  c->allocs--;
  c->used -= c->alloc[c->allocs].bytes;
  MIRAS_ASSERT(c->alloc[c->allocs].at == at);
  if (c->from.free) c->from.free(at, c->alloc[c->allocs].bytes, c->from.user);
}

/* ---- writing tensors ---- */

/* A file of tensors that is written twice: first its header is measured, then all of it. */
typedef struct ad__out {
  FILE *file;
  char *head;              /* NULL: it is measured                                               */
  size_t n;                /* characters of it                                                   */
  uint64_t bytes;          /* of tensors so far                                                  */
  int bad;
} ad__out;

static void ad__text(ad__out *o, const char *text) {
  const size_t n = strlen(text);
  if (o->head) memcpy(o->head + o->n, text, n);
  o->n += n;
}

/* A tensor of float, bf16 or f16; cols 0: of one extent. */
static void ad__entry_as(ad__out *o, const char *name, int form, size_t rows, size_t cols) {
  static const char *const types[] = {"F32", "BF16", "F16"};
  char text[HF__NAME_SIZE + 160] = "";
  const uint64_t end = o->bytes + (form ? 2u : 4u) * (uint64_t)rows * (uint64_t)(cols ? cols : 1);
  snprintf(text, sizeof text, cols ? ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%lu,%lu],"
                                   : ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%lu],",
           name, types[form], (unsigned long)rows, (unsigned long)cols);
  ad__text(o, text);
  snprintf(text, sizeof text, "\"data_offsets\":[%.0f,%.0f]}", (double)o->bytes, (double)end);
  ad__text(o, text);
  o->bytes = end;
}

static void ad__entry(ad__out *o, const char *name, size_t rows, size_t cols) {
  ad__entry_as(o, name, 0, rows, cols);
}

/* The bits of a number as a type of tensors has it, to nearest, halfway to even. */
static uint32_t ad__narrow(float x, int form) {
  const float half = 0.5f;             /* whose last bit is 2^-24, as that of F16's smallest      */
  uint32_t w, sign;
  memcpy(&w, &x, 4);
  if (form == MIRAS_WEIGHTS_FLOAT) return w;
  sign = w >> 16 & 0x8000u, w &= 0x7fffffffu;
  if (form == MIRAS_WEIGHTS_BF16)
    return sign | (w > 0x7f800000u ? 0x7fc0u : (w + 0x7fffu + (w >> 16 & 1)) >> 16);
  if (w >= 0x477ff000u) return sign | (w > 0x7f800000u ? 0x7e00u : 0x7c00u);
  if (w >= 0x38800000u) return sign | (w + 0xfffu + (w >> 13 & 1) - 0x38000000u) >> 13;
  memcpy(&x, &w, 4);
  x += half;
  memcpy(&w, &x, 4);
  return sign | (w - 0x3f000000u);
}

static void ad__numbers_as(ad__out *o, const float *x, size_t n, int form) {
  const size_t wide = form ? 2 : 4;
  unsigned char bytes[4 * 256];
  size_t i, k, now;
  for (; n; n -= now, x += now) {
    now = n < 256 ? n : 256;
    for (i = 0; i < now; i++) {
      const uint32_t bits = ad__narrow(x[i], form);
      for (k = 0; k < wide; k++) bytes[wide * i + k] = (unsigned char)(bits >> 8 * k);
    }
    o->bad |= fwrite(bytes, wide, now, o->file) != now;
  }
}
static void ad__floats(ad__out *o, const float *x, size_t n) { ad__numbers_as(o, x, n, 0); }

/* The header, whose entries have been put behind each other. */
static void ad__head(ad__out *o) {
  unsigned char length[8] = {0};
  int i;
  ad__text(o, "}");
  while (o->n % 8) ad__text(o, " ");
  for (i = 0; i < 4; i++) length[i] = (unsigned char)((uint64_t)o->n >> 8 * i);
  o->bad |= fwrite(length, 1, 8, o->file) != 8 || fwrite(o->head, 1, o->n, o->file) != o->n;
}

/* Begin a new file beside `path`, and put it in its place. */
static int ad__begin(hf__reader *c, ad__out *o, const char *path, char **part) {
  memset(o, 0, sizeof *o);
  *part = (char *)hf__alloc(c, strlen(path) + 5, 1);
  if (!*part) return 0;
  strcpy(*part, path), strcat(*part, ".tmp");
  o->file = fopen(*part, "wb");
  return o->file || hf__reject_as(c, MIRAS_ERR_IO, path, "it cannot be written");
}
static int ad__end(hf__reader *c, ad__out *o, const char *path, const char *part) {
  o->bad |= fclose(o->file) != 0;
#ifdef _WIN32
  if (!o->bad) remove(path);
#endif
  if (!o->bad && !rename(part, path)) return 1;
  remove(part);
  return hf__reject_as(c, MIRAS_ERR_IO, path, "it cannot be written");
}

/* ---- files of views ---- */

static void ad__views_entries(ad__out *o, const miras_model *m, const char *patterns) {
  const miras_model_desc *d = miras_model_desc_of(m);
  char text[MIRAS_PATTERN_SIZE + 96];
  int i, count;
  const miras_view *v = miras_model_views(m, &count);
  o->n = 0, o->bytes = 0;
  ad__text(o, "{\"__metadata__\":{\"format\":\"miras-views\"");
  if (d->adapter.rank) {
    snprintf(text, sizeof text, ",\"adapter.rank\":\"%d\",\"adapter.scale\":\"%.9g\",\"adapters\":"
             "\"%s\"", d->adapter.rank, (double)d->adapter.scale, d->adapters);
    ad__text(o, text);
  }
  ad__text(o, "}");
  for (i = 0; i < count; i++)
    if (ad__matches_some(v[i].name, patterns))
      ad__entry(o, v[i].name, (size_t)v[i].shape[0],
                v[i].rank > 1 ? v[i].count / (size_t)v[i].shape[0] : 0);
}

static void ad__views_write(hf__reader *c, const miras_model *m, const char *patterns,
                            const char *path) {
  int i, count, matched = 0;
  const miras_view *v = miras_model_views(m, &count);
  char *part;
  ad__out o;
  for (i = 0; i < count; i++) {
    if (!ad__matches_some(v[i].name, patterns)) continue;
    matched = 1;
    if (!v[i].weight_decay || !miras_model_desc_of(m)->weights) continue;
    hf__reject_as(c, MIRAS_ERR_ARGUMENT, v[i].name, "the model does not hold it as float");
    return;
  }
  if (!matched) {
    hf__reject_as(c, MIRAS_ERR_ARGUMENT, patterns, "the model has no such view");
    return;
  }
  if (!ad__begin(c, &o, path, &part)) return;
  ad__views_entries(&o, m, patterns);
  o.head = (char *)hf__alloc(c, o.n + 16, 1);
  if (o.head) {
    ad__views_entries(&o, m, patterns);
    ad__head(&o);
  }
  for (i = 0; o.head && i < count; i++) {
    float *x;
    if (!ad__matches_some(v[i].name, patterns)) continue;
    x = ad__numbers(c, m, &v[i]);
    if (!x) break;
    ad__floats(&o, x, v[i].count);
    ad__free(c, x);
  }
  o.bad |= i < count;
  ad__end(c, &o, path, part);
}

/* Open a file of tensors without a configuration. */
static int ad__open(hf__reader *c, const char *path, char *why, size_t why_size) {
  return hf__reader_start(c, path, 1, NULL, 0, NULL, why, why_size) &&
         hf__file_only(c, path + c->folder) && hf__tensors_find(c);
}

/* Read a number of an entry in quotes, or none. */
static void ad__views_note(miras_model_desc *d, const char *name, const char *value) {
  float x = 0;
  if (hf__same(name, "adapter.rank") && hf__read_real(value, &x))
    d->adapter.rank = x >= 0 && x <= 1 << 20 ? (int)x : -1;       /* which is refused */
  if (hf__same(name, "adapter.scale") && hf__read_real(value, &x)) d->adapter.scale = x;
  if (hf__same(name, "adapters") && strlen(value) < sizeof d->adapters)
    strcpy(d->adapters, value);
}

/* What a file of views says of adapters. */
static int ad__views_desc(hf__reader *c, miras_model_desc *d, const char *path, char *why,
                          size_t why_size) {
  char name[HF__NAME_SIZE], value[HF__NAME_SIZE];
  uint64_t header = 0, size = 0;
  int ours = 0;
  char *text;
  FILE *file;
  hf__cursor t;
  if (!ad__open(c, path, why, why_size)) return 0;
  file = hf__header_open(c, 0, &header, &size);
  if (!file) return 0;
  text = (char *)hf__alloc(c, (size_t)header, 1);
  if (text && hf__text_read(c, path, file, header, text, &t) && hf__need_char(&t, '{')) {
    do {
      hf__need_string(&t, name);
      hf__need_char(&t, ':');
      if (!hf__same(name, "__metadata__")) {
        hf__skip_value(&t, 0);
        continue;
      }
      hf__need_char(&t, '{');
      do {
        hf__need_string(&t, name);
        hf__need_char(&t, ':');
        hf__need_string(&t, value);
        if (hf__same(name, "format")) ours = hf__same(value, "miras-views");
        else if (!t.bad) ad__views_note(d, name, value);
      } while (hf__take_char(&t, ','));
      hf__need_char(&t, '}');
    } while (hf__take_char(&t, ','));
  }
  fclose(file);
  if (!text) return 0;
  return ours || hf__reject_as(c, MIRAS_ERR_FORMAT, path,
                               "it is no file of views: its format is not miras-views");
}

/* Tensor x of a file as the view of its name: check it, or read it, in one piece, so that a block
 * of short weights is rounded once. */
static int ad__views_take(hf__reader *c, miras_model *m, const hf__tensor *x, int write) {
  const miras_view *v = miras_model_view(m, x->name);
  const size_t rows = v ? hf__view_rows(v) : 0, cols = v ? v->count / rows : 0;
  if (!v)
    return hf__reject_as(c, MIRAS_ERR_MISMATCH, x->name, "the model has no view of this name");
  if (x->form < 0 || x->count != v->count || x->rank != v->rank ||
      x->shape[0] != (uint64_t)v->shape[0])
    return hf__reject_shape(c, x, v), c->result = MIRAS_ERR_MISMATCH, 0;
  if (!write && c->tile_room < v->count) c->tile_room = v->count;
  return !write || (ad__read(c, x, c->tile) &&
                    miras_model_view_write(m, v, 0, rows, 0, cols, c->tile) == MIRAS_OK);
}

static void ad__views_load(hf__reader *c, miras_model *m, const char *path, char *why,
                           size_t why_size) {
  size_t i;
  int write;
  if (!ad__open(c, path, why, why_size)) return;
  for (write = 0; write < 2; write++) {
    if (write && c->tile_room) c->tile = (float *)hf__alloc(c, c->tile_room, sizeof(float));
    if (c->result != MIRAS_OK) return;
    for (i = 0; i < c->tensor_count; i++)
      if (!ad__views_take(c, m, &c->tensors[i], write)) return;
  }
}

/* ---- PEFT's form ---- */

/* What adapter_config.json says. */
typedef struct ad__config {
  float rank, alpha;
  int stable;                          /* use_rslora                                              */
  hf__cursor ranks, alphas;            /* rank_pattern, alpha_pattern, or empty                   */
} ad__config;

/* Fields that change what adapters are, and the value without which they are refused. */
static const char *const ad__plain[][2] = {
  {"peft_type", "LORA"}, {"use_dora", "false"}, {"fan_in_fan_out", "false"}, {"bias", "none"},
  {"lora_bias", "false"}, {"modules_to_save", "null"}, {"layer_replication", "null"},
  {"trainable_token_indices", "null"}, {"use_qalora", "false"}, {"alora_invocation_tokens", "null"},
  {"target_parameters", "null"}, {"arrow_config", "null"}
};

static int ad__config_read(hf__reader *c, ad__config *to) {
  char name[HF__NAME_SIZE], value[HF__NAME_SIZE];
  hf__cursor t, at;
  size_t i;
  memset(to, 0, sizeof *to);
  to->alpha = 8, to->rank = 8;
  if (!hf__text_of(c, "adapter_config.json", 1, &t)) return 0;
  hf__need_char(&t, '{');
  do {
    hf__need_string(&t, name);
    hf__need_char(&t, ':');
    hf__skip_space(&t);
    at = t;
    hf__skip_value(&t, 0);
    at.end = t.at;
    value[0] = 0;
    if (hf__same(name, "rank_pattern")) to->ranks = at;
    else if (hf__same(name, "alpha_pattern")) to->alphas = at;
    else if (at.at < at.end && *at.at != '{' && *at.at != '[') (void)hf__need_scalar(&at, value);
    if (hf__same(name, "r")) (void)hf__read_real(value, &to->rank);
    if (hf__same(name, "lora_alpha")) (void)hf__read_real(value, &to->alpha);
    if (hf__same(name, "use_rslora")) to->stable = hf__same(value, "true");
    for (i = 0; i < HF__COUNT(ad__plain); i++)
      if (hf__same(name, ad__plain[i][0]) && !hf__same(value, ad__plain[i][1]) &&
          !hf__same(value, "null")) {
        hf__reject(c, MIRAS_ERR_DESC, "adapter_config.json");
        hf__say(c->why, c->why_size, "%s is %s; it must be %s", name,
                value[0] ? value : "a list or an object", ad__plain[i][1]);
        return 0;
      }
  } while (!t.bad && hf__take_char(&t, ','));
  hf__need_char(&t, '}');
  if (!t.bad && to->rank > 0) return 1;
  return hf__reject_as(c, MIRAS_ERR_FORMAT, "adapter_config.json", "it is no JSON of PEFT");
}

/* The number that a pattern says for a module: its whole name or its end behind a dot. 0: a pattern
 * is a regular expression, which is not read here. */
static int ad__pattern(hf__reader *c, hf__cursor t, const char *module, float *x) {
  char name[HF__NAME_SIZE], value[HF__NAME_SIZE];
  if (!t.at || !hf__take_char(&t, '{') || hf__take_char(&t, '}')) return 1;
  do {
    const size_t n = strlen(module);
    size_t k;
    hf__need_string(&t, name);
    hf__need_char(&t, ':');
    (void)hf__need_scalar(&t, value);
    if (strpbrk(name, "*+?[](){}|^$\\")) {
      hf__reject(c, MIRAS_ERR_DESC, "adapter_config.json");
      hf__say(c->why, c->why_size,
              "the pattern %s is a regular expression; it must be the name of a module or its end",
              name);
      return 0;
    }
    k = strlen(name);
    if (k <= n && hf__same(module + n - k, name) && (k == n || module[n - k - 1] == '.'))
      (void)hf__read_real(value, x);
  } while (!t.bad && hf__take_char(&t, ','));
  return 1;
}

/* The module that a tensor of an adapter is of, without what PEFT puts before it; part: "A",
 * "B". */
static int ad__module(const char *tensor, const char *part, char *module) {
  static const char before[] = "base_model.model.";
  char end[32] = "";
  size_t n = strlen(tensor);
  hf__say(end, sizeof end, ".lora_%s.weight", part);
  if (!ad__ends(tensor, end)) return 0;
  n -= strlen(end);
  if (strncmp(tensor, before, sizeof before - 1) == 0)
    tensor += sizeof before - 1, n -= sizeof before - 1;
  memcpy(module, tensor, n);
  module[n] = 0;
  return 1;
}

/* By what the product of a module's adapter is multiplied, of rank r. */
static int ad__factor(hf__reader *c, const ad__config *f, const char *module, size_t r,
                      double *by) {
  float alpha = f->alpha;
  if (!ad__pattern(c, f->alphas, module, &alpha)) return 0;
  *by = (double)alpha / (f->stable ? sqrt((double)r) : (double)r);
  return 1;
}

/* The module of a weight's tensor: of a model whose text half is a part the name that it has when
 * this half is opened alone (AutoModelForCausalLM). */
static void ad__module_of(const hf__tensor *x, char *module) {
  static const char part[] = "language_model.";
  char *at;
  memcpy(module, x->name, sizeof x->name);
  module[strlen(module) - strlen(".weight")] = 0;
  at = strstr(module, part);
  if (at) memmove(at, at + sizeof part - 1, strlen(at + sizeof part - 1) + 1);
}

/* The adapter's tensor of a weight's module, part A or B, by either name; NULL: it has none. */
static hf__tensor *ad__tensor(const hf__reader *c, const hf__tensor *of, const char *part) {
  char name[HF__NAME_SIZE], module[2][HF__NAME_SIZE];
  hf__tensor *x = NULL;
  int i;
  ad__module_of(of, module[0]);
  memcpy(module[1], of->name, sizeof of->name);
  module[1][strlen(module[1]) - strlen(".weight")] = 0;
  for (i = 0; i < 4 && !x; i++) {
    name[0] = 0;
    hf__say(name, sizeof name, "%s%s.lora_%s.weight", i < 2 ? "base_model.model." : "",
            module[i % 2], part);
    x = hf__tensor_named(c, name);
  }
  return x;
}

/* The row of a module's weight that column j of a piece is. */
static size_t ad__row_of(const hf__piece *p, size_t j) {
  const size_t at = p->block && !(p->how & HF__INNER) ? hf__place(p, j) : j, b = at / p->group;
  return p->first + b % p->steps * p->apart + b / p->steps / p->again * p->stride + at % p->group;
}
/* The input that row i of a piece is. */
static size_t ad__input_of(const hf__piece *p, size_t i) {
  return p->block && (p->how & HF__INNER) ? hf__place(p, i) : i;
}

/* What goes over the pieces of matrices with adapters. */
typedef struct ad__walk {
  hf__reader *base;                    /* the folder that the model is of                         */
  const miras_model *m;
  int (*visit)(struct ad__walk *w, const hf__piece *p, const char *module, const miras_view *a,
               const miras_view *b);
  hf__reader *c;                       /* the adapter's                                           */
  const ad__config *config;
  ad__out *out;
  int pass;
  size_t modules;
} ad__walk;

/* Is a number of B not 0? */
static int ad__adds(hf__reader *c, const miras_model *m, const miras_view *b) {
  float *x = ad__numbers(c, m, b);
  size_t i;
  int adds = !x;
  for (i = 0; x && i < b->count && !adds; i++) adds = x[i] < 0 || x[i] > 0;
  if (x) ad__free(c, x);
  return adds;
}

/* Is a piece a whole module's, or some rows of it? Then its name. */
static int ad__is_module(const hf__piece *p, const miras_view *v, char *module) {
  const char *const end = ".weight";
  if (!p->from || !p->group || p->row || p->rows != hf__view_rows(v) || p->again != 1 || p->skip ||
      p->from->rank != 2 || !ad__ends(p->from->name, end)) return 0;
  ad__module_of(p->from, module);
  return 1;
}

static int ad__walk_layers(ad__walk *w) {
  hf__reader *c = w->base;
  const miras_model *m = w->m;
  const miras_view *views = miras_model_views(m, NULL);
  const int layers = miras_model_desc_of(m)->layers;
  hf__piece *piece = (hf__piece *)hf__alloc(c, (size_t)c->of->count, sizeof *piece);
  int layer, from = 0, to = 0, count, i;
  size_t k;
  if (!piece) return 0;
  for (k = 0; k < c->tensor_count; k++) c->tensors[k].taken = 0;
  for (layer = 0; layer < layers; layer++) {
    char prefix[32] = "", module[HF__NAME_SIZE];
    hf__say(prefix, sizeof prefix, "blocks.%d.", layer);
    for (from = to; !hf__begins(prefix, views[from].name);) from++;
    for (to = from; hf__begins(prefix, views[to].name);) to++;
    count = hf__match(c, m, layer, -1, from, to, strlen(prefix), piece);
    if (count < 0) return 0;
    for (i = 0; i < count; i++) {
      const miras_view *v = &views[piece[i].view];
      const miras_view *a = ad__part(m, v->name, 'a'), *b = ad__part(m, v->name, 'b');
      if (!a || !b || (!w->config && !ad__adds(c, m, b))) continue;
      if (!ad__is_module(&piece[i], v, module)) {
        if (w->config) continue;                 /* the folder can have nothing for it            */
        hf__reject(c, MIRAS_ERR_ARGUMENT, v->name);
        hf__say(c->why, c->why_size, "the folder has no module of which all its rows are; leave it "
                                     "out of the model's adapters");
        return 0;
      }
      if (!w->visit(w, &piece[i], module, a, b)) return 0;
    }
  }
  return 1;
}

/* ---- loading ---- */

/* Zeros, before what the folder has of a view is written. */
static int ad__view_clear(hf__reader *c, miras_model *m, const miras_view *v) {
  float *x = (float *)hf__alloc(c, v->count, sizeof *x);
  if (!x) return 0;
  memset(x, 0, v->count * sizeof *x);
  miras_model_view_write(m, v, 0, (size_t)v->shape[0], 0, (size_t)v->shape[1], x);
  ad__free(c, x);
  return 1;
}

/* Check, or in pass 1 write, what a module's adapter has for a piece. */
static int ad__load_piece(ad__walk *w, const hf__piece *p, const char *module, const miras_view *a,
                          const miras_view *b) {
  hf__reader *c = w->c;
  miras_model *m = (miras_model *)(uintptr_t)w->m;
  hf__tensor *A = ad__tensor(c, p->from, "A"), *B = ad__tensor(c, p->from, "B");
  const size_t rank = (size_t)a->shape[1], rows = (size_t)a->shape[0], cols = (size_t)b->shape[1];
  const miras_model_desc *d = miras_model_desc_of(w->m);
  const double ours = d->adapter.scale > 0 ? (double)d->adapter.scale / (double)rank : 1;
  double by = 1;
  float *x, *to;
  size_t r, i, j, k;
  if (!A && !B) return !w->pass || ad__view_clear(c, m, b);
  if (!A || !B || A->rank != 2 || B->rank != 2 || A->form < 0 || B->form < 0 ||
      A->shape[0] > rank || A->shape[0] != B->shape[1] ||
      A->shape[1] != (uint64_t)p->each || B->shape[0] != p->from->shape[0]) {
    hf__reject(c, MIRAS_ERR_MISMATCH, module);
    hf__say(c->why, c->why_size,
            "lora_A and lora_B are not both there, not of one rank up to %lu, or not of the shape "
            "of the weight", (unsigned long)rank);
    return 0;
  }
  A->taken = A->count, B->taken = B->count;
  r = (size_t)A->shape[0];
  if (!ad__factor(c, w->config, module, r, &by)) return 0;
  if (!w->pass) return 1;
  by *= p->by / ours;
  x = (float *)hf__alloc(c, (size_t)(A->count > B->count ? A->count : B->count), sizeof *x);
  to = x ? (float *)hf__alloc(c, a->count > b->count ? a->count : b->count, sizeof *to) : NULL;
  if (!to || !ad__read(c, A, x)) return 0;
  memset(to, 0, a->count * sizeof *to);
  for (i = 0; i < rows; i++)
    for (k = 0; k < r; k++) to[i * rank + k] = x[k * rows + ad__input_of(p, i)];
  miras_model_view_write(m, a, 0, rows, 0, rank, to);
  if (!ad__read(c, B, x)) return 0;
  miras_model_view_read(m, b, 0, rank, 0, cols, to);
  if (!p->col) memset(to, 0, b->count * sizeof *to);
  for (j = 0; j < p->cols; j++)
    for (k = 0; k < rank; k++)
      to[k * cols + p->col + j] =
        k < r ? (float)(by * (double)x[ad__row_of(p, j) * r + k]) : 0;
  miras_model_view_write(m, b, 0, rank, 0, cols, to);
  ad__free(c, to), ad__free(c, x);
  return 1;
}

static int ad__peft_open(hf__reader *c, ad__config *f, const char *path, char *why,
                         size_t why_size) {
  return hf__reader_start(c, path, 0, NULL, 0, NULL, why, why_size) &&
         hf__file_only(c, "adapter_model.safetensors") && hf__tensors_find(c) &&
         ad__config_read(c, f);
}

static void ad__peft_load(hf__reader *c, hf__reader *base, miras_model *m, const char *path,
                          const char *folder, char *why, size_t why_size) {
  ad__config f;
  ad__walk w;
  size_t i;
  if (!ad__peft_open(c, &f, path, why, why_size)) return;
  if (!hf__reader_open(base, folder, NULL, 0, "unknown", why, why_size) || !hf__describe(base))
    return;
  memset(&w, 0, sizeof w);
  w.base = base, w.m = m, w.c = c, w.config = &f, w.visit = ad__load_piece;
  if (!ad__walk_layers(&w)) return;
  for (i = 0; i < c->tensor_count; i++)
    if (!c->tensors[i].taken) {
      hf__reject_as(c, MIRAS_ERR_MISMATCH, c->tensors[i].name, "the model has no adapter there");
      return;
    }
  w.pass = 1;
  (void)ad__walk_layers(&w);
}

/* The patterns of the matrices that a folder's adapters are of, or all if these are too long. */
static void ad__peft_patterns(const hf__reader *c, const hf__reader *base, miras_model_desc *d) {
  int i;
  size_t k;
  d->adapters[0] = 0;
  for (i = 0; i < base->of->count; i++) {
    const hf__name_row *row = &base->of->rows[i];
    char end[HF__NAME_SIZE] = "", more[HF__NAME_SIZE] = "";
    int here = 0;
    if (!row->theirs || row->ours[0] != '.' || !ad__ends(row->theirs, ".weight")) continue;
    hf__say(end, sizeof end, "%s", row->theirs);
    end[strlen(end) - strlen(".weight")] = 0;
    hf__say(end, sizeof end, ".lora_A.weight");
    for (k = 0; k < c->tensor_count; k++) here |= ad__ends(c->tensors[k].name, end);
    hf__say(more, sizeof more, "%s*%s", d->adapters[0] ? "," : "", row->ours);
    if (!here || (d->adapters[0] && ad__matches_some(row->ours, d->adapters))) continue;
    if (strlen(d->adapters) + strlen(more) >= sizeof d->adapters) {
      d->adapters[0] = 0;
      return;
    }
    strcat(d->adapters, more);
  }
}

/* The rank and scale of a folder's adapters: the largest of both. */
static int ad__peft_desc(hf__reader *c, hf__reader *base, miras_model_desc *d, const char *path,
                         const char *folder, char *why, size_t why_size) {
  char module[HF__NAME_SIZE];
  double by = 0;
  ad__config f;
  size_t i;
  if (!ad__peft_open(c, &f, path, why, why_size)) return 0;
  if (!hf__reader_open(base, folder, NULL, 0, "unknown", why, why_size)) return 0;
  d->adapter.rank = 0;
  for (i = 0; i < c->tensor_count; i++) {
    const hf__tensor *x = &c->tensors[i];
    double now;
    if (!ad__module(x->name, "A", module)) continue;
    if (x->rank != 2 || !x->shape[0] || x->shape[0] > 1024)
      return hf__reject_as(c, MIRAS_ERR_FORMAT, x->name, "its rank is not within 1..1024");
    if (!ad__factor(c, &f, module, (size_t)x->shape[0], &now)) return 0;
    if (now > by) by = now;
    if ((int)x->shape[0] > d->adapter.rank) d->adapter.rank = (int)x->shape[0];
  }
  if (!d->adapter.rank)
    return hf__reject_as(c, MIRAS_ERR_FORMAT, "adapter_model.safetensors", "it has no lora_A");
  d->adapter.scale = (float)(by * d->adapter.rank);
  if (!(d->adapter.scale >= 1e-6f && d->adapter.scale <= 1e6f)) d->adapter.scale = 0;
  ad__peft_patterns(c, base, d);
  return 1;
}

/* ---- saving in PEFT's form ---- */

/* Modules as they are found: a module's pieces follow each other only if one view has them, so all
 * are gathered first. */
typedef struct ad__gathered {
  const hf__tensor *from;
  hf__piece piece;
  const miras_view *a, *b;
} ad__gathered;

typedef struct ad__saving {
  ad__walk walk;                       /* first: a walk is one of these                           */
  ad__gathered *all;
  size_t count, room;
} ad__saving;

static int ad__gather(ad__walk *w, const hf__piece *p, const char *module, const miras_view *a,
                      const miras_view *b) {
  ad__saving *s = (ad__saving *)(void *)w;
  ad__gathered *all = (ad__gathered *)hf__alloc_more(w->c, s->all, &s->room, s->count + 1,
                                                     sizeof *all);
  (void)module;
  if (!all) return 0;
  s->all = all;
  all[s->count].from = p->from, all[s->count].piece = *p;
  all[s->count].a = a, all[s->count++].b = b;
  return 1;
}

/* Is item i the first of its tensor? And of its view there: how many views came before. */
static int ad__first_of(const ad__saving *s, size_t i) {
  size_t j;
  for (j = 0; j < i; j++)
    if (s->all[j].from == s->all[i].from) return 0;
  return 1;
}
static size_t ad__views_before(const ad__saving *s, size_t i) {
  size_t j, k, n = 0;
  for (j = 0; s->all[j].a != s->all[i].a || s->all[j].from != s->all[i].from; j++) {
    if (s->all[j].from != s->all[i].from) continue;
    for (k = 0; s->all[k].a != s->all[j].a || s->all[k].from != s->all[j].from; k++) continue;
    n += k == j;
  }
  return n;
}
static size_t ad__views_of(const ad__saving *s, const hf__tensor *from) {
  size_t i, n = 0;
  for (i = 0; i < s->count; i++)
    if (s->all[i].from == from && ad__views_before(s, i) + 1 > n) n = ad__views_before(s, i) + 1;
  return n;
}

static void ad__peft_entries(ad__out *o, const ad__saving *s, size_t rank) {
  char name[HF__NAME_SIZE + 48], module[HF__NAME_SIZE];
  size_t i;
  o->n = 0, o->bytes = 0;
  ad__text(o, "{\"__metadata__\":{\"format\":\"pt\"}");
  for (i = 0; i < s->count; i++) {
    const hf__tensor *x = s->all[i].from;
    const size_t r = rank * ad__views_of(s, x);
    if (!ad__first_of(s, i)) continue;
    ad__module_of(x, module);
    snprintf(name, sizeof name, "base_model.model.%s.lora_A.weight", module);
    ad__entry(o, name, r, (size_t)x->shape[1]);
    snprintf(name, sizeof name, "base_model.model.%s.lora_B.weight", module);
    ad__entry(o, name, (size_t)x->shape[0], r);
  }
}

/* A and B of the tensor that item i is the first of. */
static int ad__peft_module(hf__reader *c, ad__out *o, const ad__saving *s, size_t i, size_t rank) {
  const hf__tensor *x = s->all[i].from;
  const size_t r = rank * ad__views_of(s, x), in = (size_t)x->shape[1], out = (size_t)x->shape[0];
  float *A = (float *)hf__alloc(c, r * in, sizeof *A);
  float *B = A ? (float *)hf__alloc(c, out * r, sizeof *B) : NULL;
  size_t j, k, t;
  if (!B) return 0;
  memset(A, 0, r * in * sizeof *A), memset(B, 0, out * r * sizeof *B);
  for (; i < s->count; i++) {
    const ad__gathered *g = &s->all[i];
    const hf__piece *p = &g->piece;
    size_t at, cols;
    float *a, *b;
    if (g->from != x) continue;
    at = rank * ad__views_before(s, i), cols = (size_t)g->b->shape[1];
    a = ad__numbers(c, s->walk.m, g->a);
    b = a ? ad__numbers(c, s->walk.m, g->b) : NULL;
    if (!b) return 0;
    for (k = 0; k < rank; k++) {
      for (j = 0; j < in; j++) A[(at + k) * in + ad__input_of(p, j)] = a[j * rank + k];
      for (t = 0; t < p->cols; t++)
        B[ad__row_of(p, t) * r + at + k] = (float)((double)b[k * cols + p->col + t] / p->by);
    }
    ad__free(c, b), ad__free(c, a);
  }
  ad__floats(o, A, r * in), ad__floats(o, B, out * r);
  ad__free(c, B), ad__free(c, A);
  return 1;
}

/* adapter_config.json. */
static int ad__peft_config(hf__reader *c, const ad__saving *s, const char *folder,
                           const char *base) {
  const miras_model_desc *d = miras_model_desc_of(s->walk.m);
  const double alpha = d->adapter.scale > 0 ? (double)d->adapter.scale : (double)d->adapter.rank;
  const char *path = ad__join(c, folder, "adapter_config.json");
  char module[HF__NAME_SIZE], *part;
  size_t i, some;
  ad__out o;
  int pass;
  if (!path || !ad__begin(c, &o, path, &part)) return 0;
  fprintf(o.file, "{\n  \"base_model_name_or_path\": \"");
  for (; *base; base++) fprintf(o.file, strchr("\"\\", *base) ? "\\%c" : "%c", *base);
  fprintf(o.file, "\",\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                  "  \"inference_mode\": true,\n  \"lora_alpha\": %.9g,\n"
                  "  \"lora_dropout\": %.9g,\n"
                  "  \"peft_type\": \"LORA\",\n  \"r\": %d,\n  \"task_type\": \"CAUSAL_LM\",\n"
                  "  \"use_rslora\": false", alpha, (double)d->adapter.dropout, d->adapter.rank);
  for (pass = 0; pass < 3; pass++) {
    fprintf(o.file, ",\n  %s", pass > 1 ? "\"target_modules\": [" : pass ? "\"alpha_pattern\": {"
                                                                        : "\"rank_pattern\": {");
    for (i = some = 0; i < s->count; i++) {
      const size_t views = ad__views_of(s, s->all[i].from);
      if (!ad__first_of(s, i) || (pass < 2 && views < 2)) continue;
      ad__module_of(s->all[i].from, module);
      fprintf(o.file, "%s\n    \"%s\"", some++ ? "," : "", module);
      if (pass < 2) fprintf(o.file, ": %.9g", (double)views * (pass ? alpha : d->adapter.rank));
    }
    fprintf(o.file, pass > 1 ? "\n  ]" : "}");
  }
  fprintf(o.file, "\n}\n");
  o.bad |= ferror(o.file) != 0;
  return ad__end(c, &o, path, part);
}

static void ad__peft_save(hf__reader *c, hf__reader *base, ad__saving *s, const char *folder,
                          const char *from, char *why, size_t why_size) {
  const size_t rank = (size_t)miras_model_desc_of(s->walk.m)->adapter.rank;
  const char *path;
  char *part;
  ad__out o;
  size_t i;
  if (!hf__reader_start(c, folder, 0, NULL, 0, NULL, why, why_size)) return;
  if (!hf__reader_open(base, from, NULL, 0, "unknown", why, why_size) || !hf__describe(base))
    return;
  s->walk.base = base, s->walk.c = c, s->walk.visit = ad__gather;
  if (!ad__walk_layers(&s->walk)) return;
  if (!s->count) {
    hf__reject_as(c, MIRAS_ERR_ARGUMENT, folder, "the model has no adapters, or they add nothing");
    return;
  }
  path = ad__join(c, folder, "adapter_model.safetensors");
  if (!path || !ad__begin(c, &o, path, &part)) return;
  ad__peft_entries(&o, s, rank);
  o.head = (char *)hf__alloc(c, o.n + 16, 1);
  if (o.head) ad__peft_entries(&o, s, rank), ad__head(&o);
  for (i = 0; o.head && i < s->count; i++)
    if (ad__first_of(s, i) && !ad__peft_module(c, &o, s, i, rank)) break;
  o.bad |= !o.head || i < s->count;
  if (ad__end(c, &o, path, part)) (void)ad__peft_config(c, s, folder, from);
}

/* ---- a folder with its adapters merged ---- */

/* All numbers of a tensor, in room of their own. */
static float *ad__all(hf__reader *c, const hf__tensor *x) {
  float *to = (float *)hf__alloc(c, (size_t)x->count, sizeof *to);
  return to && ad__read(c, x, to) ? to : NULL;
}

/* The adapter of a tensor of the model: 1, 0 if there is none, -1 if it does not fit. */
static int ad__of_weight(hf__reader *c, const hf__tensor *x, hf__tensor **A, hf__tensor **B) {
  if (!ad__ends(x->name, ".weight")) return 0;
  *A = ad__tensor(c, x, "A"), *B = ad__tensor(c, x, "B");
  if (!*A && !*B) return 0;
  if (*A && *B && x->rank == 2 && x->form >= 0 && x->form <= (int)MIRAS_WEIGHTS_F16 &&
      (*A)->rank == 2 && (*B)->rank == 2 && (*A)->form >= 0 && (*B)->form >= 0 &&
      (*A)->shape[0] && (*A)->shape[0] == (*B)->shape[1] && (*A)->shape[1] == x->shape[1] &&
      (*B)->shape[0] == x->shape[0]) return 1;
  hf__reject(c, MIRAS_ERR_MISMATCH, x->name);
  hf__say(c->why, c->why_size, "lora_A and lora_B are not both there, or not of the shape of the "
                               "weight, which must be a matrix of %s", c->readable);
  return -1;
}

/* W + by B A in the tensor's place in a file that is a copy of its own. */
static int ad__merge_tensor(hf__reader *c, hf__reader *base, const ad__config *f, ad__out *o,
                            const hf__tensor *x, const hf__tensor *A, const hf__tensor *B) {
  const size_t in = (size_t)x->shape[1], r = (size_t)A->shape[0], wide = x->form ? 2 : 4;
  float *a = ad__all(c, A), *b = a ? ad__all(c, B) : NULL, *w = base->run;
  char module[HF__NAME_SIZE];
  double by;
  size_t i, j, k, n;
  ad__module_of(x, module);
  if (!b || !ad__factor(c, f, module, r, &by)) return 0;
  o->bad |= fflush(o->file) || !hf__file_seek(o->file, x->at);
  for (i = 0; i < x->count; i += n) {
    const float *row = b + i / in * r, *from = a + i % in;
    n = in - i % in < HF__READ ? in - i % in : (size_t)HF__READ;
    if (!hf__tensor_get(base, x, i, n, w)) return 0;
    for (j = 0; j < n; j++) {
      unsigned char bytes[4];
      double more = 0;
      uint32_t bits;
      for (k = 0; k < r; k++) more += (double)row[k] * (double)from[k * in + j];
      bits = ad__narrow((float)((double)w[j] + by * more), x->form);
      if (x->form == MIRAS_WEIGHTS_F16 && (bits & 0x7fffu) == 0x7c00u) {
        hf__reject_as(c, MIRAS_ERR_ARGUMENT, x->name, "with its adapter it is too large for F16");
        return 0;
      }
      for (k = 0; k < wide; k++) bytes[k] = (unsigned char)(bits >> 8 * k);
      o->bad |= fwrite(bytes, 1, wide, o->file) != wide;
    }
  }
  ad__free(c, b), ad__free(c, a);
  return 1;
}

/* A file of the model's folder in the other: copied, and then what adapters are of is written. */
static int ad__merge_file(hf__reader *c, hf__reader *base, const ad__config *f, const char *to,
                          const char *name, int file) {
  uint64_t size = 0;
  FILE *from = hf__folder_open(base, name, file >= 0, &size);
  hf__tensor *A, *B;
  char *path, *part = NULL;
  size_t i, n;
  ad__out o;
  if (!from) return base->result == MIRAS_OK;
  path = ad__join(c, to, name);
  if (!path || !ad__begin(c, &o, path, &part)) {
    fclose(from);
    return 0;
  }
  while ((n = fread(base->run, 1, sizeof base->run, from)) > 0)
    o.bad |= fwrite(base->run, 1, n, o.file) != n;
  o.bad |= ferror(from) != 0;
  fclose(from);
  for (i = 0; i < base->tensor_count && !o.bad; i++) {
    const hf__tensor *x = &base->tensors[i];
    if (x->file == file && ad__of_weight(c, x, &A, &B) > 0)
      o.bad |= !ad__merge_tensor(c, base, f, &o, x, A, B);
  }
  if (c->result != MIRAS_OK || base->result != MIRAS_OK) {     /* which has its sentence          */
    fclose(o.file), remove(part);
    return 0;
  }
  if (!ad__end(c, &o, path, part)) return 0;
  ad__free(c, part), ad__free(c, path);
  return 1;
}

/* Has the folder no model? */
static int ad__is_new(hf__reader *c, const char *folder) {
  const char *there = ad__join(c, folder, "config.json");
  FILE *file = there ? hf__file_read(there) : NULL;
  if (!file) return there != NULL;
  fclose(file);
  return hf__reject_as(c, MIRAS_ERR_ARGUMENT, folder,
                       "a model is there already; it must be another folder");
}

static void ad__peft_merge(hf__reader *c, hf__reader *base, const char *path, const char *folder,
                           const char *to, char *why, size_t why_size) {
  static const char *const others[] = {
    "model.safetensors.index.json", "generation_config.json", "tokenizer.json",
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt", "tokenizer.model", "chat_template.jinja", "config.json"};
  hf__tensor *A, *B;
  ad__config f;
  size_t i;
  int fits;
  if (!ad__peft_open(c, &f, path, why, why_size) ||
      !hf__reader_open(base, folder, NULL, 0, "unknown", why, why_size)) return;
  for (i = 0; i < c->tensor_count; i++) c->tensors[i].taken = 0;
  for (i = 0; i < base->tensor_count; i++) {
    fits = ad__of_weight(c, &base->tensors[i], &A, &B);
    if (fits < 0) return;
    if (fits) A->taken = B->taken = 1;
  }
  for (i = 0; i < c->tensor_count; i++)
    if (!c->tensors[i].taken) {
      hf__reject_as(c, MIRAS_ERR_MISMATCH, c->tensors[i].name, "the model has no weight for it");
      return;
    }
  if (!ad__is_new(c, to)) return;
  for (i = 0; i < (size_t)base->files && c->result == MIRAS_OK; i++)
    if (!ad__merge_file(c, base, &f, to, base->names[i], (int)i)) return;
  for (i = 0; i < HF__COUNT(others) && c->result == MIRAS_OK; i++)
    if (!ad__merge_file(c, base, &f, to, others[i], -1)) return;
}

/* ---- a folder of a model that had none ---- */

/* Numbers of config.json, where a Llama's description takes them from. */
static const struct { const char *name; int slot; } ad__llama[] = {
  {"hidden_size", HF__C_WIDTH}, {"num_hidden_layers", HF__C_LAYERS}, {"vocab_size", HF__C_VOCAB},
  {"num_attention_heads", HF__C_HEADS}, {"num_key_value_heads", HF__C_KV_HEADS},
  {"head_dim", HF__C_HEAD_DIM}, {"intermediate_size", HF__C_INNER},
  {"max_position_embeddings", HF__C_POSITIONS}, {"rms_norm_eps", HF__C_EPSILON},
  {"rope_theta", HF__C_THETA}};
static const struct { const char *name; int slot; } ad__scaling[] = {
  {"factor", HF__C_SCALING_BY}, {"original_max_position_embeddings", HF__C_SCALING_FROM},
  {"low_freq_factor", HF__C_SCALING_LOW}, {"high_freq_factor", HF__C_SCALING_HIGH}};

static void ad__tell(hf__reader *c, int slot, double x) {
  c->said[slot] = 1, c->config[slot] = x;
}

/* Find the numbers, and whether a Llama that has them is this model and nothing is left out. */
static int ad__is_llama(hf__reader *c, const miras_model_desc *d) {
  const miras_attention_desc *a = &d->layer[2].attention;
  const miras_rope_scaling *s = &a->rope_scaling;
  char pattern[32] = "";
  hf__described *to;
  size_t i;
  hf__say(pattern, sizeof pattern, "a*%d", d->layers);
  if (!hf__same(d->pattern, pattern)) {
    hf__reject(c, MIRAS_ERR_ARGUMENT, "pattern");
    hf__say(c->why, c->why_size, "it is %s; a folder is written of a Llama, whose is %s",
            d->pattern, pattern);
    return 0;
  }
  for (i = 0; i < HF__COUNT(hf__families); i++)
    if (hf__listed(hf__families[i].models, "llama")) c->of = &hf__families[i];
  c->says = c->of->says, c->says_count = c->of->says_count;
  ad__tell(c, HF__C_WIDTH, d->width), ad__tell(c, HF__C_LAYERS, d->layers);
  ad__tell(c, HF__C_VOCAB, d->vocab), ad__tell(c, HF__C_HEADS, d->heads);
  ad__tell(c, HF__C_KV_HEADS, a->kv_heads), ad__tell(c, HF__C_HEAD_DIM, a->head_dim);
  ad__tell(c, HF__C_INNER, d->layer[2].mlp.hidden), ad__tell(c, HF__C_POSITIONS, a->window);
  ad__tell(c, HF__C_EPSILON, (double)d->norm_epsilon);
  ad__tell(c, HF__C_THETA, (double)a->rope.theta), ad__tell(c, HF__C_TIED, !d->untied);
  if (s->type == MIRAS_ROPE_SCALING_LINEAR || s->type == MIRAS_ROPE_SCALING_LLAMA3) {
    const int far = s->type == MIRAS_ROPE_SCALING_LLAMA3;
    ad__tell(c, HF__C_SCALING, far ? 3 : 1), ad__tell(c, HF__C_SCALING_BY, (double)s->factor);
    if (far) ad__tell(c, HF__C_SCALING_FROM, s->context);
    if (far) ad__tell(c, HF__C_SCALING_LOW, (double)s->low_frequency_factor);
    if (far) ad__tell(c, HF__C_SCALING_HIGH, (double)s->high_frequency_factor);
  }
  to = hf__describe(c);
  return to && hf__same_model(c, to, d);
}

/* The tensor of a view, and whether it lies as that; 0: a Llama has none. */
static int ad__tensor_of(const miras_view *v, char name[HF__NAME_SIZE], int *kept) {
  const char *rest = strchr(v->name, '.');
  int i;
  rest = strncmp(v->name, "blocks.", 7) == 0 ? strchr(rest + 1, '.') : v->name;
  for (i = 0; i < (int)HF__COUNT(hf__llama_names); i++) {
    const hf__name_row *row = &hf__llama_names[i];
    const char *theirs = row->theirs[0] == '/' ? row->theirs + 1 : row->theirs;
    if (!rest || !hf__same(row->ours, rest)) continue;
    name[0] = 0;
    hf__say(name, HF__NAME_SIZE, "%s%s%.*s%s", theirs == row->theirs ? "model." : "",
            rest == v->name ? "" : "layers.",
            rest == v->name ? 0 : (int)(rest - v->name - 7), v->name + 7, theirs);
    *kept = v->rank == 1 || (row->how & HF__KEPT) != 0;
    return 1;
  }
  return 0;
}

/* The header's entries; 0: a view has no tensor, which is refused. */
static int ad__folder_entries(hf__reader *c, ad__out *o, const miras_model *m, int form) {
  char name[HF__NAME_SIZE];
  int i, count, kept;
  const miras_view *v = miras_model_views(m, &count);
  o->n = 0, o->bytes = 0;
  ad__text(o, "{\"__metadata__\":{\"format\":\"pt\"}");
  for (i = 0; i < count; i++) {
    const size_t rows = (size_t)v[i].shape[0], cols = v[i].rank > 1 ? (size_t)v[i].shape[1] : 0;
    if (!ad__tensor_of(&v[i], name, &kept))
      return hf__reject_as(c, MIRAS_ERR_ARGUMENT, v[i].name, "a Llama has no tensor for it");
    ad__entry_as(o, name, cols ? form : 0, kept ? rows : cols, kept ? cols : rows);
  }
  return 1;
}

/* A view's numbers, turned where its tensor is. */
static int ad__folder_view(hf__reader *c, ad__out *o, const miras_model *m, const miras_view *v,
                           int form) {
  const size_t rows = (size_t)v->shape[0], cols = v->count / rows;
  char name[HF__NAME_SIZE];
  float *x = ad__numbers(c, m, v), *row = x ? (float *)hf__alloc(c, rows, sizeof *row) : NULL;
  size_t i, j;
  int kept = 1;
  if (!row) return 0;
  (void)ad__tensor_of(v, name, &kept);
  if (kept) ad__numbers_as(o, x, v->count, v->rank > 1 ? form : 0);
  for (j = 0; !kept && j < cols; j++) {
    for (i = 0; i < rows; i++) row[i] = x[i * cols + j];
    ad__numbers_as(o, row, rows, form);
  }
  ad__free(c, row), ad__free(c, x);
  return 1;
}

static int ad__folder_config(hf__reader *c, const miras_model_desc *d, const char *folder,
                             const int token[2]) {
  static const char *const types[] = {"float32", "bfloat16", "float16"};
  const char *path = ad__join(c, folder, "config.json");
  char *part;
  ad__out o;
  size_t i;
  if (!path || !ad__begin(c, &o, path, &part)) return 0;
  fprintf(o.file, "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\",\n"
                  "  \"hidden_act\": \"silu\",\n  \"attention_bias\": false,\n"
                  "  \"mlp_bias\": false,\n  \"torch_dtype\": \"%s\",\n"
                  "  \"tie_word_embeddings\": %s,\n", types[d->weights],
          d->untied ? "false" : "true");
  for (i = 0; i < 2; i++) {
    fprintf(o.file, "  \"%s_token_id\": ", i ? "eos" : "bos");
    fprintf(o.file, token[i] < 0 ? "null,\n" : "%d,\n", token[i]);
  }
  if (c->said[HF__C_SCALING]) {
    fprintf(o.file, "  \"rope_scaling\": {\"rope_type\": \"%s\"",
            c->config[HF__C_SCALING] > 1 ? "llama3" : "linear");
    for (i = 0; i < HF__COUNT(ad__scaling); i++)
      if (c->said[ad__scaling[i].slot])
        fprintf(o.file, ", \"%s\": %.9g", ad__scaling[i].name, c->config[ad__scaling[i].slot]);
    fprintf(o.file, "},\n");
  }
  for (i = 0; i < HF__COUNT(ad__llama); i++)
    fprintf(o.file, "%s  \"%s\": %.9g", i ? ",\n" : "", ad__llama[i].name,
            c->config[ad__llama[i].slot]);
  fprintf(o.file, "\n}\n");
  o.bad |= ferror(o.file) != 0;
  return ad__end(c, &o, path, part);
}

static void ad__folder_save(hf__reader *c, const miras_model *m, const char *folder,
                            const int token[2], char *why, size_t why_size) {
  const miras_model_desc *d = miras_model_desc_of(m);
  const int form = (int)d->weights;
  const char *path;
  char *part;
  ad__out o;
  int i, count;
  const miras_view *v = miras_model_views(m, &count);
  if (!hf__reader_start(c, folder, 0, NULL, 0, NULL, why, why_size)) return;
  if (form > (int)MIRAS_WEIGHTS_F16) {
    hf__reject_as(c, MIRAS_ERR_ARGUMENT, "weights", "a folder has them as float, bf16 or f16");
    return;
  }
  memset(&o, 0, sizeof o);
  if (!ad__is_llama(c, d) || !ad__folder_entries(c, &o, m, form) || !ad__is_new(c, folder)) return;
  path = ad__join(c, folder, "model.safetensors");
  if (!path || !ad__begin(c, &o, path, &part)) return;
  (void)ad__folder_entries(c, &o, m, form);
  o.head = (char *)hf__alloc(c, o.n + 16, 1);
  if (o.head) (void)ad__folder_entries(c, &o, m, form), ad__head(&o);
  for (i = 0; o.head && i < count && ad__folder_view(c, &o, m, &v[i], form);) i++;
  o.bad |= !o.head || i < count;
  if (ad__end(c, &o, path, part)) (void)ad__folder_config(c, d, folder, token);
}

/* ---- the public calls ---- */

MIRAS_API int miras_peft_is(const char *path) {
  char name[1024];
  FILE *file;
  if (!path || strlen(path) > sizeof name - 32) return 0;
  snprintf(name, sizeof name, "%s/adapter_config.json", path);
  file = hf__file_read(name);
  if (file) fclose(file);
  return file != NULL;
}

/* Two readers, of the adapter and of the folder that the model is of: what one refused. */
static miras_result ad__drop(hf__reader *c, hf__reader *base) {
  miras_result result, own;
  if (base->result == MIRAS_OK) base->why = NULL;   /* the sentence is the other's               */
  if (c->result == MIRAS_OK) c->why = NULL;
  result = hf__reader_drop(base), own = hf__reader_drop(c);
  return own != MIRAS_OK ? own : result;
}
static int ad__readers(hf__reader **c, hf__reader **base, char *why, size_t why_size) {
  const miras_allocator from = hf__allocator(NULL);
  *c = hf__reader_new(NULL, why, why_size);
  *base = *c ? hf__reader_new(NULL, why, why_size) : NULL;   /* its sentence stays               */
  if (*base) {
    memset(*c, 0, sizeof **c), memset(*base, 0, sizeof **base);
    (*c)->from = (*base)->from = from;
    (*c)->open = (*base)->open = -1;
    return 1;
  }
  if (*c) from.free(*c, sizeof **c, from.user);
  return 0;
}

MIRAS_API miras_result miras_adapters_desc(miras_model_desc *d, const char *path, const char *base,
                                           char *why, size_t why_size) {
  hf__reader *c, *b;
  if (!d || !path || (miras_peft_is(path) && !base)) return MIRAS_ERR_ARGUMENT;
  if (!ad__readers(&c, &b, why, why_size)) return MIRAS_ERR_ALLOC;
  if (miras_peft_is(path)) (void)ad__peft_desc(c, b, d, path, base, why, why_size);
  else (void)ad__views_desc(c, d, path, why, why_size);
  return ad__drop(c, b);
}

MIRAS_API miras_result miras_adapters_load(miras_model *m, const char *path, const char *base,
                                           char *why, size_t why_size) {
  hf__reader *c, *b;
  if (!m || !path || (miras_peft_is(path) && !base)) return MIRAS_ERR_ARGUMENT;
  if (!ad__readers(&c, &b, why, why_size)) return MIRAS_ERR_ALLOC;
  if (miras_peft_is(path)) ad__peft_load(c, b, m, path, base, why, why_size);
  else ad__views_load(c, m, path, why, why_size);
  return ad__drop(c, b);
}

MIRAS_API miras_result miras_views_save(const miras_model *m, const char *patterns,
                                        const char *path, char *why, size_t why_size) {
  hf__reader *c, *b;
  if (!m || !path || !patterns) return MIRAS_ERR_ARGUMENT;
  if (!ad__readers(&c, &b, why, why_size)) return MIRAS_ERR_ALLOC;
  if (hf__reader_start(c, path, 1, NULL, 0, NULL, why, why_size))
    ad__views_write(c, m, patterns, path);
  return ad__drop(c, b);
}

MIRAS_API miras_result miras_peft_save(const miras_model *m, const char *folder, const char *base,
                                       char *why, size_t why_size) {
  hf__reader *c, *b;
  ad__saving s;
  if (!m || !folder || !base) return MIRAS_ERR_ARGUMENT;
  if (!ad__readers(&c, &b, why, why_size)) return MIRAS_ERR_ALLOC;
  memset(&s, 0, sizeof s);
  s.walk.m = m;
  ad__peft_save(c, b, &s, folder, base, why, why_size);
  return ad__drop(c, b);
}

MIRAS_API miras_result miras_peft_merge(const char *path, const char *base, const char *to,
                                        char *why, size_t why_size) {
  hf__reader *c, *b;
  if (!path || !base || !to) return MIRAS_ERR_ARGUMENT;
  if (!ad__readers(&c, &b, why, why_size)) return MIRAS_ERR_ALLOC;
  ad__peft_merge(c, b, path, base, to, why, why_size);
  return ad__drop(c, b);
}

MIRAS_API miras_result miras_folder_save(const miras_model *m, const char *folder, int begin,
                                         int end, char *why, size_t why_size) {
  const int token[2] = {begin, end};
  hf__reader *c, *b;
  if (!m || !folder) return MIRAS_ERR_ARGUMENT;
  if (!ad__readers(&c, &b, why, why_size)) return MIRAS_ERR_ALLOC;
  ad__folder_save(c, m, folder, token, why, why_size);
  return ad__drop(c, b);
}
#endif /* MIRAS_ADAPTERS_IMPLEMENTATION */
