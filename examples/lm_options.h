/* lm_options.h, a part of lm.c: what stands on its command line. */
#ifndef LM_OPTIONS_H
#define LM_OPTIONS_H

#include "lm_tools.h"

typedef struct options {
  const char *model, *pattern, *layer, *out, *prompt, *svg, *from, *only, *weights, *with;
  const char *set[16];
  int dim, layers, heads, key_dim, value_dim, hidden, parameters, conv, context, batch, chunk;
  int steps, warmup, threads, eval_every, untied, chars, resume, tokens, top_k, window;
  int streams, horizon, reset, anew, limit, adapt, program;
  double lr, decay, dropout, val, minutes, temperature, top_p, carry, step;
  uint64_t seed;
  int steps_given;
  const char *file[2];     /* the arguments without a name */
} options;

typedef struct option {
  const char *name;        /* without the dashes */
  const char *commands;    /* t(rain), g(enerate), e(val), c(onvert and emit), r(ead), m(odels) */
  char type;               /* i(nt), u(int64), r(eal), s(tring), l(ist of 16 of them), f(lag) */
  void *value;
  double low, high;
  const char *help;
} option;

/* What --weights may be: its words, and what C calls them; and which one a text is. */
#define LM_WEIGHTS "float, bf16, f16, q8, q4 or q4-pure"
static const struct { const char *word, *name; } weights_words[MIRAS_WEIGHTS_COUNT] = {
  {"float", "FLOAT"}, {"bf16", "BF16"}, {"f16", "F16"}, {"q8", "Q8"}, {"q4", "Q4"},
  {"q4-pure", "Q4_PURE"}};
static miras_weights weights_of(const options *o) {
  int i = 0;
  while (o->weights && i < MIRAS_WEIGHTS_COUNT && strcmp(o->weights, weights_words[i].word)) i++;
  if (i == MIRAS_WEIGHTS_COUNT)
    die(2, "--weights is \"%s\"; it must be " LM_WEIGHTS, o->weights);
  return (miras_weights)i;
}

static const char usage[] =
  "lm: train and run byte or character language models with miras.h\n"
  "\n"
  "  lm                                a model that comes with it reads README.md\n"
  "  lm read FILE [options]            it reads yours, and says before and after what it knows\n"
  "  lm train                          from nothing on miras.h and README.md, for a minute\n"
  "  lm train FILE [options]           train on a text\n"
  "  lm generate MODEL [options]       print text that a model writes\n"
  "  lm eval MODEL FILE [options]      bits and nats per byte of a whole file\n"
  "  lm convert MODEL --out FILE       the model with shorter weights\n"
  "  lm emit FILE --out FILE           C source of a model, or of a saved memory or session\n"
  "  lm models                         the memories to choose from\n"
  "  lm models NAME                    the fields of one, as --set takes them\n"
  "  lm models NAME --program          its layers line by line, as --layer takes them\n";

static const option *find_option(const option *table, const char *name, char command) {
  for (; table->name; table++)
    if (!strcmp(table->name, name) && strchr(table->commands, command)) return table;
  return NULL;
}

/* The name of what `words` begins with, up to a space. */
static void nearest_of(const char *words, const char *name, char best[64]) {
  while (*words) {
    char word[64];
    size_t n = strcspn(words, " ");
    snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), words);
    if (n && distance(word, name) < distance(best, name)) memcpy(best, word, sizeof word);
    words += n + (words[n] != 0);
  }
}

/* No option of that name: leave with the nearest. */
static void no_option(const option *o, const char *text, const char *name, char command) {
  char best[64] = "";
  const option *of = o;
  for (; o->name; o++)
    if (strchr(o->commands, command)) nearest_of(o->name, text + 2, best);
  for (; of->name && strcmp(of->name, text + 2);) of++;
  if (of->name)
    die(2, "%s is no option of %s, but of another command; lm --help lists them", text, name);
  if (best[0] && distance(best, text + 2) < 4)
    die(2, "%s is no option of %s; is it --%s? lm --help lists them", text, name, best);
  die(2, "%s is no option of %s; lm --help lists them", text, name);
}

static void print_help(const option *table) {
  static const struct { char letter; const char *name; } part[] = {
    {'r', "read"}, {'t', "train"}, {'g', "generate"}, {'e', "eval"}, {'c', "convert, emit"},
    {'m', "models"}};
  int i;
  fputs(usage, stdout);
  for (i = 0; i < (int)(sizeof part / sizeof part[0]); i++) {
    const option *o;
    printf("\n%s\n", part[i].name);
    for (o = table; o->name; o++) {
      char left[40], value[32] = "";
      double x;
      if (!strchr(o->commands, part[i].letter)) continue;
      snprintf(left, sizeof left, "--%s%s", o->name,
               o->type == 'f'            ? ""
               : strchr("sl", o->type)   ? " TEXT"
               : o->type == 'r'          ? " X"
                                         : " N");
      x = o->type == 'i'   ? *(int *)o->value
          : o->type == 'u' ? (double)*(uint64_t *)o->value
          : o->type == 'r' ? *(double *)o->value
                           : 0;
      if (x > 0) snprintf(value, sizeof value, " (%g)", x);
      printf("  %-18s %s%s\n", left, o->help, value);
    }
  }
}

static void parse(options *o, const option *table, int argc, char **argv, char command, int files) {
  int i, got = 0, got_list;
  for (i = 2; i < argc; i++) {
    const option *p;
    const char *text = argv[i];
    char *end = NULL;
    double x = 0;
    if (text[0] == '-' && text[1] && text[1] != '-')
      die(2, "%s is no option; they begin with two dashes. lm --help lists them", text);
    if (strncmp(text, "--", 2) != 0) {
      if (got == files) die(2, "%s is one argument too many; lm --help lists what is read", text);
      o->file[got++] = text;
      continue;
    }
    p = find_option(table, text + 2, command);
    if (!p) no_option(table, text, argv[1], command);
    if (p->type == 'f') { *(int *)p->value = 1; continue; }
    if (++i == argc) die(2, "%s needs a value behind it", text);
    if (p->type == 's') { *(const char **)p->value = argv[i]; continue; }
    if (p->type == 'l') {
      const char **list = (const char **)p->value;
      for (got_list = 0; got_list < 15 && list[got_list]; got_list++) {}
      if (list[got_list]) die(2, "%s: fifteen of them are enough", text);
      list[got_list] = argv[i];
      continue;
    }
    errno = 0;
    if (p->type == 'u') {
      uint64_t u = strtoull(argv[i], &end, 10);
      if (errno || *end || argv[i][0] < '0' || argv[i][0] > '9')
        die(2, "%s is \"%s\"; it must be a whole number from 0 to 2^64 - 1", text, argv[i]);
      *(uint64_t *)p->value = u;
      continue;
    }
    if (p->type == 'i') x = (double)strtol(argv[i], &end, 10);
    if (p->type == 'r') x = strtod(argv[i], &end);
    if (errno || end == argv[i] || *end || !(x >= p->low && x <= p->high))
      die(2, "%s is \"%s\"; it must be a %snumber from %.10g to %.10g", text, argv[i],
          p->type == 'i' ? "whole " : "", p->low, p->high);
    if (p->type == 'i') *(int *)p->value = (int)x;
    if (p->type == 'r') *(double *)p->value = x;
    if (p->value == &o->steps) o->steps_given = 1;
  }
  if (got < files) die(2, "%s needs %s", argv[1], command == 'e' ? "a model and a text file"
                          : command == 't' ? "a text file to learn from"
                          : command == 'r' ? "a text file" : "a model file");
  (void)weights_of(o);
}

#endif
