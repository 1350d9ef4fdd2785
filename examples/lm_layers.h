/* lm_layers.h, a part of lm.c: layers of one's own, as text. A file has lines of the library's
 * (LAYERS AS TEXT in miras.h) and, before the lines of each layer, its fields, each a name and a
 * value. `lm models NAME --program` prints such a file. */
#ifndef LM_LAYERS_H
#define LM_LAYERS_H

#include "lm_tools.h"

/* The kind of layer with this letter, emptied; a new one, if there is none. */
static int own_kind(miras_model_desc *d, char letter) {
  int k = 0;
  while (k < MIRAS_MAX_LAYER_KINDS && d->layer[k].letter && d->layer[k].letter != letter) k++;
  if (k == MIRAS_MAX_LAYER_KINDS)
    die(2, "--layer: there are more than %d kinds of layer", MIRAS_MAX_LAYER_KINDS);
  memset(&d->layer[k], 0, sizeof d->layer[k]);
  d->layer[k].letter = letter;
  return k;
}

/* Read a file of layers into d: fields are set here, and blanked, so that lines keep their numbers;
 * the rest is d->program, which stays for as long as the program runs. */
static void read_layers(miras_model_desc *d, const char *path) {
  char first[64], second[128], third[8], name[72], value[MIRAS_PATTERN_SIZE];
  char *text, *line, *end, now = d->layer[0].letter ? d->layer[0].letter : 'm';
  size_t n;
  unsigned char *bytes = read_file(path, &n, 0);
  int number = 1, begun = 0, words;
  text = (char *)grow(NULL, n + 1, 1);
  memcpy(text, bytes, n);
  text[n] = 0;
  free(bytes);
  for (line = text; *line; line = end + (*end != 0), number++) {
    end = line + strcspn(line, "\n");
    words = sscanf(line, " %63[^ \t\n]%*[ \t]%127[^ \t\n#]%*[ \t]%7[^ \t\n]", first, second, third);
    if (line + strspn(line, " \t") >= end || words < 1 || first[0] == '#') continue;
    if (!strcmp(first, "layer") && words > 1) {
      now = second[0], begun = 1;
      (void)own_kind(d, now);
      continue;
    }
    if (words < 2 || !strcmp(second, "=") || (words > 2 && third[0] != '#')) continue;
    snprintf(name, sizeof name, "%c.%s", now, first);
    if (!miras_model_desc_get(d, name, value, sizeof value) &&
        !miras_model_desc_get(d, first, value, sizeof value))
      continue;
    if (!begun && (strchr(first, '.') || !strcmp(first, "type")))
      (void)own_kind(d, now), begun = 1;
    if (miras_model_desc_set(d, name, second) != MIRAS_OK &&
        miras_model_desc_set(d, first, second) != MIRAS_OK)
      die(2, "--layer: %s:%d: %s cannot be \"%s\"", path, number, first, second);
    memset(line, ' ', (size_t)(end - line));
  }
  if (!begun) (void)own_kind(d, now);
  d->program = text;
}

/* A field, if it is not what zeros are. */
static void print_field(const miras_model_desc *d, char letter, const char *field) {
  miras_model_desc zeros;
  char name[72], value[MIRAS_PATTERN_SIZE], none[MIRAS_PATTERN_SIZE];
  memset(&zeros, 0, sizeof zeros);
  if (letter) zeros.layer[0].letter = letter;
  if (letter) snprintf(name, sizeof name, "%c.%s", letter, field);
  else snprintf(name, sizeof name, "%s", field);
  if (!miras_model_desc_get(d, name, value, sizeof value) || !value[0] ||
      !miras_model_desc_get(&zeros, name, none, sizeof none))
    return;
  if (strcmp(value, none) || !strcmp(field, "type")) printf("%s %s\n", field, value);
}

/* The layers of a model as such a file. */
static void print_layers(const miras_model *m) {
  static const char *const whole[] = {"pattern", "norm", "norm_epsilon", "embed_norm", "untied"};
  const miras_model_desc *d = miras_model_desc_of(m);
  char done[MIRAS_MAX_LAYER_KINDS + 1] = "";
  size_t k;
  int i, j;
  for (k = 0; k < sizeof whole / sizeof whole[0]; k++) print_field(d, 0, whole[k]);
  for (i = 0; i < d->layers; i++) {
    const char letter = miras_model_layer(m, i)->letter, *field;
    char *text;
    size_t n;
    if (strchr(done, letter)) continue;
    done[strlen(done)] = letter;
    printf("layer %c\n", letter);
    for (j = 0; (field = miras_model_desc_field(j)) != NULL; j++)
      if (!strcmp(field, "type") || strchr(field, '.')) print_field(d, letter, field);
    n = miras_model_program(m, letter, NULL, 0);
    text = (char *)grow(NULL, n + 1, 1);
    miras_model_program(m, letter, text, n + 1);
    fputs(text, stdout);
    free(text);
  }
}

#endif
