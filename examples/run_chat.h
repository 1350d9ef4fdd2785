/* run_chat.h: run's talk. A part of run.c, which includes it.
 *
 * A line is read and answered, in the form that the model was taught: a template, which the file
 * names or --template. What has been said is in the state, so a turn costs its own tokens and no
 * more, however long the talk is; /undo and /to copy a state back. */

/* ---- a talk ---------------------------------------------------------------------------------- */

enum { NAME = 32, TURNS = 64, BRANCHES = 64, MOST_STATES = 1 << 30 };

/* The talk as it was once. */
typedef struct point {
  char name[NAME];
  unsigned char *state;
  tokens seen;
  size_t skip;
  int begun;
} point;

typedef struct talk {
  const options *o;
  writer *w;
  chat form;
  size_t skip;                         /* of what stands behind an answer has been read           */
  int begun, turns, branches, most;    /* most: turns that can be taken back                      */
  point turn[TURNS], branch[BRANCHES];
} talk;

static void copy_tokens(tokens *to, const tokens *from) {
  to->count = 0;
  add_all(to, from->at, from->count);
}

static void talk_keep(const talk *c, point *p) {
  size_t bytes;
  const void *state = miras_session_state(c->w->s, &bytes);
  if (!p->state) p->state = (unsigned char *)grow(NULL, bytes, 1);
  memcpy(p->state, state, bytes);
  copy_tokens(&p->seen, &c->w->seen);
  p->skip = c->skip, p->begun = c->begun;
}

static void talk_return(talk *c, const point *p) {
  size_t bytes;
  void *state = miras_session_state(c->w->s, &bytes);
  memcpy(state, p->state, bytes);
  c->w->last = -1;
  copy_tokens(&c->w->seen, &p->seen);
  c->skip = p->skip, c->begun = p->begun;
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

static volatile sig_atomic_t talk_stopped;
static void talk_stop(int signal_number) {
  (void)signal_number;
  talk_stopped = 1;
}

/* The answer to a message, as it comes. */
static void talk_answer(talk *c, const char *message, size_t n) {
  const int32_t end = chat_end(&c->form);
  const float *logits;
  tokens turn;
  stream out;
  double count;
  memset(&turn, 0, sizeof turn), memset(&out, 0, sizeof out);
  out.ends[0] = c->o->until, out.place = 1;
  if (end < 0) out.ends[1] = c->form.form->end;
  talk_mark(c);
  if (!chat_turn(&c->form, c->begun, c->skip, message, n, &turn)) die(1, "%s", no_tokens);
  if (c->o->show_prompt) fwrite(c->form.text, 1, c->form.count, stderr), fputc('\n', stderr);
  talk_stopped = 0;
  signal(SIGINT, talk_stop);
  learn_nothing(c->w);                 /* that an answer ends here                                */
  logits = feed(c->w, turn.at, turn.count);
  c->begun = 1, c->skip = 0;
  for (count = 0; count < c->o->count && !talk_stopped; count++) {
    const int32_t token = writer_draw(c->o, c->w, logits);
    if (token == end || (double)token == c->o->stop) break;
    if (write_token(&out, c->form.t, token)) {
      if (out.stop == c->form.form->end) c->skip = out.read;
      break;
    }
    learn_nothing(c->w);
    logits = feed(c->w, &token, 1);
  }
  write_rest(&out);
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
  const miras_result result = !*path ? MIRAS_ERR_ARGUMENT
                              : saves ? miras_save(c->w->s, path)
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

/* Talk until the input ends. */
static void talk_run(const options *o, const miras_model *m, writer *w, const miras_tokenizer *t) {
  const size_t states = (size_t)MOST_STATES / miras_model_state_size(m);
  talk *c = (talk *)grow(NULL, 1, sizeof *c);
  char *line;
  size_t n;
  int i, goes_on = 1;
  memset(c, 0, sizeof *c);
  c->o = o, c->w = w;
  if (!chat_open(&c->form, &o->from, t))
    die(2, "%s names no template that is known here; --template must be " CHAT_FORMS,
        o->from.model);
  c->most = states < 1 ? 1 : states < TURNS ? (int)states : TURNS;
  c->begun = miras_session_position(w->s) > 0;
  while (goes_on && (line = talk_line(&n)) != NULL) {
    const int said = line[0] == '/' && line[1] == '/';
    if (line[0] == '/' && !said) goes_on = talk_command(c, line);
    else if (n) talk_answer(c, line + said, n - (size_t)said);
    free(line);
  }
  for (i = 0; i < TURNS; i++) free(c->turn[i].state), free(c->turn[i].seen.at);
  for (i = 0; i < c->branches; i++) free(c->branch[i].state), free(c->branch[i].seen.at);
  free(c->form.text);
  free(c);
}
