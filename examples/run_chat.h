/* run_chat.h: run's talk. A part of run.c, which includes it.
 *
 * A line is read and answered, in the form that the model was taught: a template, which the file
 * names or --template. What has been said is in the state, so a turn costs its own tokens and no
 * more, however long the talk is; /undo and /to copy a state back. */

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
   {"<|start_header_id|>system<|end_header_id|>\n\n", "<|start_header_id|>user<|end_header_id|>\n\n",
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

/* The model's own template in `text`, of which `size` bytes are there; NULL: there is none. It is
 * looked for, and not run: all that is wanted of it is which one it is. */
static const chat_form *form_of(const char *text, size_t size) {
  const chat_form *form;
  size_t i, n;
  for (form = chat_forms; form->mark; form++)
    for (n = strlen(form->mark), i = 0; i + n <= size; i++)
      if (memcmp(text + i, form->mark, n) == 0) return form;
  return NULL;
}

/* Where `what` stands in the text, or size. */
static size_t place_in(const char *text, size_t size, const char *what) {
  const size_t n = strlen(what);
  size_t i;
  for (i = 0; i + n <= size; i++)
    if (memcmp(text + i, what, n) == 0) return i;
  return size;
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

/* ---- a talk ---------------------------------------------------------------------------------- */

enum { NAME = 32, TURNS = 64, BRANCHES = 64, MOST_STATES = 1 << 30 };

/* The talk as it was once. */
typedef struct point {
  char name[NAME];
  unsigned char *state;
  size_t seen, skip;
  int begun;
} point;

typedef struct talk {
  const options *o;
  writer *w;
  const miras_tokenizer *t;            /* NULL: bytes                                             */
  const chat_form *form;
  const char *system;                  /* NULL: nothing is said for it                            */
  char *text;                          /* of the turn that is to be read                          */
  size_t count, room;
  size_t skip;                         /* of what stands behind an answer has been read           */
  int begun, turns, branches, most;    /* most: turns that can be taken back                      */
  point turn[TURNS], branch[BRANCHES];
} talk;

static void talk_add(talk *c, const char *text, size_t n) {
  if (n > c->room - c->count) {
    c->room = 2 * c->room + n;
    c->text = (char *)grow(c->text, c->room, 1);
  }
  memcpy(c->text + c->count, text, n);
  c->count += n;
}

static void talk_keep(const talk *c, point *p) {
  size_t bytes;
  const void *state = miras_session_state(c->w->s, &bytes);
  if (!p->state) p->state = (unsigned char *)grow(NULL, bytes, 1);
  memcpy(p->state, state, bytes);
  p->seen = c->w->seen.count, p->skip = c->skip, p->begun = c->begun;
}

static void talk_return(talk *c, const point *p) {
  size_t bytes;
  void *state = miras_session_state(c->w->s, &bytes);
  memcpy(state, p->state, bytes);
  c->w->last = -1;
  c->w->seen.count = p->seen, c->skip = p->skip, c->begun = p->begun;
}

/* A turn begins: as it was before can be come back to. */
static void talk_mark(talk *c) {
  if (c->turns == c->most) {
    const point first = c->turn[0];
    memmove(c->turn, c->turn + 1, (size_t)(c->turns - 1) * sizeof *c->turn);
    c->turn[--c->turns] = first;
  }
  talk_keep(c, &c->turn[c->turns++]);
}

/* What a message is in the model's form, from the end of the last answer to the beginning of the
 * next: tokens. Special tokens that the message spells are its letters. */
static void talk_tokens(talk *c, const char *message, size_t n, tokens *to) {
  const chat_form *f = c->form;
  const char *said = c->system && !c->begun ? c->system : NULL;
  const int first = !c->begun;
  size_t at;
  c->count = 0;
  if (c->begun) talk_add(c, f->behind[ANSWER] + c->skip, strlen(f->behind[ANSWER] + c->skip));
  if (said && f->before[SYSTEM]) talk_add(c, f->before[SYSTEM], strlen(f->before[SYSTEM]));
  else talk_add(c, f->before[USER], strlen(f->before[USER]));
  if (said) talk_add(c, said, strlen(said)), talk_add(c, f->behind[SYSTEM], strlen(f->behind[SYSTEM]));
  if (said && f->before[SYSTEM]) talk_add(c, f->before[USER], strlen(f->before[USER]));
  at = c->count;
  talk_add(c, message, n);
  talk_add(c, f->behind[USER], strlen(f->behind[USER]));
  talk_add(c, f->before[ANSWER], strlen(f->before[ANSWER]));
  if (c->o->show_prompt) fwrite(c->text, 1, c->count, stderr), fputc('\n', stderr);
  if (!spells_special(c->t, message, n)) {
    encode(c->t, to, c->text, c->count, first ? MIRAS_TOKENIZER_SPECIAL : 0);
    return;
  }
  encode(c->t, to, c->text, at, first ? MIRAS_TOKENIZER_SPECIAL : 0);
  encode(c->t, to, message, n, MIRAS_TOKENIZER_PLAIN);
  encode(c->t, to, c->text + at + n, c->count - at - n, 0);
}

static volatile sig_atomic_t talk_stopped;
static void talk_stop(int signal_number) {
  (void)signal_number;
  talk_stopped = 1;
}

/* The answer to a message, as it comes. */
static void talk_answer(talk *c, const char *message, size_t n) {
  const int32_t end = c->t ? miras_tokenizer_find(c->t, c->form->end, strlen(c->form->end)) : -1;
  const float *logits;
  tokens turn;
  stream out;
  int place = 1;
  double count;
  memset(&turn, 0, sizeof turn);
  stream_open(&out, c->o->until, end < 0 ? c->form->end : NULL);
  talk_mark(c);
  talk_tokens(c, message, n, &turn);
  talk_stopped = 0;
  signal(SIGINT, talk_stop);
  logits = feed(c->w, turn.at, turn.count);
  c->begun = 1, c->skip = 0;
  for (count = 0; count < c->o->count && !talk_stopped; count++) {
    const int32_t token = draw(c->o, c->w, logits);
    if (token == end || (double)token == c->o->stop) break;
    if (stream_token(&out, c->t, token, &place)) {
      if (out.stop == c->form->end) c->skip = out.read;
      break;
    }
    logits = feed(c->w, &token, 1);
  }
  stream_close(&out);
  signal(SIGINT, SIG_DFL);
  putchar('\n');
  finish_text();
  free(turn.at);
}

/* The branch of that name, or NULL. */
static point *talk_branch(talk *c, const char *name) {
  int i;
  for (i = 0; i < c->branches; i++)
    if (strcmp(c->branch[i].name, name) == 0) return &c->branch[i];
  return NULL;
}

static void talk_branch_keep(talk *c, const char *name) {
  point *p = talk_branch(c, name);
  int i;
  if (!*name) {
    for (i = 0; i < c->branches; i++) fprintf(stderr, "  %s\n", c->branch[i].name);
    if (!c->branches) fputs("  there are no branches yet: /branch NAME\n", stderr);
    return;
  }
  if (strlen(name) >= NAME || (!p && c->branches == BRANCHES)) {
    fprintf(stderr, "  a name has at most %d letters, and there are at most %d branches\n",
            NAME - 1, BRANCHES);
    return;
  }
  if (!p) strcpy((p = &c->branch[c->branches++])->name, name);
  talk_keep(c, p);
}

static void talk_file(talk *c, int saves, const char *path) {
  const miras_result result = !*path ? MIRAS_ERR_ARGUMENT : saves ? miras_save(c->w->s, path)
                                                                  : miras_load(c->w->s, path, NULL, 0);
  if (result != MIRAS_OK) {
    fprintf(stderr, "  %s: %s\n", *path ? path : saves ? "/save" : "/load",
            *path ? miras_result_text(result) : "a file's name is needed behind it");
    return;
  }
  if (saves) return;
  c->w->last = -1, c->w->seen.count = 0;
  c->turns = 0, c->skip = 0, c->begun = miras_session_position(c->w->s) > 0;
}

/* A line that begins with a stroke. Returns 0 at the end of the talk. */
static int talk_command(talk *c, char *line) {
  const size_t n = strcspn(line, " ");
  char *rest = line + n + strspn(line + n, " ");
  line[n] = 0;
  if (strcmp(line, "/quit") == 0) return 0;
  if (strcmp(line, "/undo") == 0) {
    if (c->turns) talk_return(c, &c->turn[--c->turns]);
    else fputs("  there is no turn that can be taken back\n", stderr);
  } else if (strcmp(line, "/branch") == 0) {
    talk_branch_keep(c, rest);
  } else if (strcmp(line, "/to") == 0) {
    const point *p = talk_branch(c, rest);
    if (p) talk_return(c, p), c->turns = 0;
    else fprintf(stderr, "  there is no branch \"%s\"; /branch lists them\n", rest);
  } else if (strcmp(line, "/save") == 0 || strcmp(line, "/load") == 0) {
    talk_file(c, line[1] == 's', rest);
  } else {
    fputs("  /undo         take the last turn back\n"
          "  /branch NAME  give the talk as it is a name; without one: which there are\n"
          "  /to NAME      go on from there\n"
          "  /save FILE    write the state    /load FILE   go on from one\n"
          "  /quit         leave; so does the end of the input. Ctrl-C ends an answer.\n"
          "A line that ends in \\ goes on with the next; one that begins with // is said with /.\n",
          stderr);
  }
  return 1;
}

/* The next message, of lines that a \ joins; NULL at the end of the input. */
static char *talk_line(size_t *count) {
  char *line = NULL;
  size_t n = 0, room = 0;
  int b;
#if defined(_POSIX_C_SOURCE)
  if (isatty(STDIN_FILENO)) fputs("> ", stderr);
#endif
  while ((b = getchar()) != EOF) {
    if (n + 2 > room) line = (char *)grow(line, room = 2 * room + 256, 1);
    if (b == '\n' && n && line[n - 1] == '\\') {
      line[n - 1] = '\n';
      continue;
    }
    if (b == '\n') break;
    if (b != '\r' && b) line[n++] = (char)b;
  }
  if (b == EOF && !n) {
    free(line);
    return NULL;
  }
  if (!line) line = (char *)grow(NULL, 1, 1);
  line[n] = 0;
  *count = n;
  return line;
}

/* The template that the model has in its files, or NULL. */
static char *own_template(const options *o, size_t *size) {
  static const char key[] = "\"chat_template\"";
  char *path, *text;
  if (miras_gguf_is(o->model)) {
    miras_gguf *g = open_gguf(o->model);
    text = gguf_text(g, "tokenizer.chat_template");
    *size = text ? strlen(text) : 0;
    miras_gguf_close(g);
    return text;
  }
  path = join(o->model, "/chat_template.jinja");
  text = can_be_read(path) ? read_file(path, size, 1) : NULL;
  free(path);
  if (text) return text;
  path = join(o->model, "/tokenizer_config.json");
  text = can_be_read(path) ? read_file(path, size, 1) : NULL;
  free(path);
  if (text) {
    size_t at = place_in(text, *size, key), n;
    if (at < *size) at += strlen(key);
    memmove(text, text + at, *size -= at);
    for (n = strcspn(text, "\"") + 1; n < *size && text[n] != '"'; n++) n += text[n] == '\\';
    *size = n < *size ? n : *size;
  }
  return text;
}

/* The form of the talk, and what is said for the system. */
static void talk_form(talk *c) {
  const options *o = c->o;
  size_t size = 0;
  char *text = own_template(o, &size);
  const chat_form *form = chat_forms;
  if (o->template_name) {
    while (form->name && strcmp(form->name, o->template_name) != 0) form++;
    if (!form->name)
      die(2, "--template is %s; it must be chatml, llama3, granite, gemma, olmo, mistral or rwkv",
          o->template_name);
  } else {
    form = text ? form_of(text, size) : NULL;
    if (!form)
      die(2, "%s names no template that is known here; --template must be chatml, llama3, granite, "
             "gemma, olmo, mistral or rwkv", o->model);
  }
  c->form = form;
  c->system = o->system;
  if (!c->system && text) c->system = system_of(form, text, size);
  if (c->system && !c->system[0]) c->system = NULL;
  free(text);
}

/* Talk until the input ends. */
static void talk_run(const options *o, const miras_model *m, writer *w, const miras_tokenizer *t) {
  const size_t states = (size_t)MOST_STATES / miras_model_state_size(m);
  talk *c = (talk *)grow(NULL, 1, sizeof *c);
  char *line;
  size_t n;
  int i, goes_on = 1;
  memset(c, 0, sizeof *c);
  c->o = o, c->w = w, c->t = t;
  c->most = states < 1 ? 1 : states < TURNS ? (int)states : TURNS;
  c->begun = miras_session_position(w->s) > 0;
  talk_form(c);
  while (goes_on && (line = talk_line(&n)) != NULL) {
    const int said = line[0] == '/' && line[1] == '/';
    if (line[0] == '/' && !said) goes_on = talk_command(c, line);
    else if (n) talk_answer(c, line + said, n - (size_t)said);
    free(line);
  }
  for (i = 0; i < TURNS; i++) free(c->turn[i].state);
  for (i = 0; i < c->branches; i++) free(c->branch[i].state);
  free(c->text);
  free(c);
}
