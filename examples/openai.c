/* openai.c: a server that speaks OpenAI's dialect of HTTP: one model, many conversations.
 *
 *     cc -O2 examples/openai.c -o openai -lmicrohttpd -lcjson -lm -lpthread
 *     ./openai MODEL --port 8080                    (Debian: libmicrohttpd-dev, libcjson-dev)
 *     curl localhost:8080/v1/chat/completions -d '{"messages": [{"role": "user",
 *                                                                "content": "Hi"}]}'
 *     ./openai --help                               every option
 *
 * MODEL is what examples/run.c takes: a folder as Hugging Face has them, a GGUF file, a file of lm.
 *
 *   POST /v1/chat/completions   messages: system (first, or none), then user and assistant in turn;
 *                               content a text, or a list of parts that are text
 *   POST /v1/completions        prompt: a text
 *   GET  /v1/models, /health    the names of the model and of adapters; what has been done
 *
 * Fields: max_completion_tokens or max_tokens, temperature, top_p, top_k, min_p,
 * repetition_penalty, seed, stop, stream, stream_options.include_usage. Those that would change the
 * answer and are not served (n, tools, response_format, logprobs, ...) are refused by name, others
 * are passed over.
 *
 *     ./openai MODEL --weights q8 --adapter law=FOLDER --adapter fun=FILE
 *
 * serves what tune has learned beside the model, several things side by side: the field `model` of
 * a request is the name of one, or of the model as it is, and any other is refused. Matrices of q8
 * and q4 are there once for all; others once for each. --adapter without a name is for everyone.
 *
 * One thread works on the model: every round takes all conversations further, a token of each that
 * writes beside pieces of prompts. An answer is of its request alone, to the bit, whoever else is
 * served and whatever is stored, and it is that of run --chat with the same seed and settings. What
 * an answer leaves is a state, which is stored with its tokens; a request that begins with these
 * goes on from there, so that a long talk reads each turn once; so is what two prompts begin with,
 * such as a text for the system, when the second comes. An answer that comes back in a message is
 * its text, as tokens: where the model had written other ones, the talk is read from the last
 * prompt on, and run --chat, which keeps them, may go on otherwise. Those who hang up are dropped
 * before the next round. Exit status: 0 stopped by SIGINT or SIGTERM, 1 a file or a model failed, 2
 * wrong arguments. */
#if defined(__linux__)
  #define _GNU_SOURCE                  /* POLLRDHUP */
#endif
#define _POSIX_C_SOURCE 200809L
#define MIRAS_PTHREADS
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <cjson/cJSON.h>
#include <microhttpd.h>

#ifndef POLLRDHUP
  #define POLLRDHUP 0
#endif

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
#define PROGRAM "openai"
#define CHAT_NO_FOLDERS
#include "chat.h"

enum { MOST_BODY = 1 << 20, MOST_IGNORED = 64 << 20, MOST_STOPS = 16, CONNECTIONS = 1000,
       VOICES = 64 };

/* ---- options --------------------------------------------------------------------------------- */

typedef struct options {
  source from;
  drawing how;
  const char *host;
  const char *adapters[VOICES];        /* NAME=PATH, or one path alone; NULL behind the last      */
  double port, count, texts, piece, states, bytes;
} options;

static options given;

static const option table[] = {
  {"--port", 'i', &given.port, 0, 65535, "where to listen; 0: one that is free, which is said"},
  {"--host", 's', &given.host, 0, 0, "address to listen at (127.0.0.1); 0.0.0.0: any"},
  {"--tokens", 'i', &given.count, 1, 1e9, "how many to write where a request says nothing"},
  {"--conversations", 'i', &given.texts, 1, 65536, "so many are worked on at a time, others wait"},
  {"--piece", 'i', &given.piece, 1, 65536, "tokens of prompts that a round reads at most"},
  {"--states", 'i', &given.states, 0, 1e6, "so many are stored, to go on from"},
  {"--states-limit", 'i', &given.bytes, 0, 1e18, "bytes that these may take"},
  {"--adapter", 'l', given.adapters, 0, VOICES - 1,
   "what tune has learned beside the model: a file, or a folder in PEFT's form; NAME=PATH, several "
   "times, for those who ask for the model NAME"},
  SOURCE_OPTIONS(given.from),
  DRAW_OPTIONS(given.how),
  {NULL, 0, NULL, 0, 0, NULL}};

static void read_options(options *o, int argc, char **argv) {
  o->host = "127.0.0.1", o->port = 8080, o->count = 256, o->texts = 64, o->piece = 256;
  o->states = 64, o->bytes = 1e9, o->from.threads = 1;
  o->how = usual_drawing();
  if (take_options(table, argc, argv, &o->from.model)) {
    puts("openai: a server of a model, in OpenAI's dialect\n\n  openai MODEL [options]\n\n"
         "MODEL is a folder with config.json and *.safetensors, one such file, a GGUF file, or a "
         "file of lm.\nSettings of draws are for requests that say nothing of them.\n");
    print_options(table);
    exit(0);
  }
  if (!o->from.vocab) o->from.vocab = own_vocabulary(o->from.model);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

typedef struct buffer {
  char *at;
  size_t count, room;
} buffer;

static void put(buffer *b, const char *bytes, size_t n) {
  if (n >= b->room - b->count) b->at = (char *)grow(b->at, b->room = 2 * b->room + n + 256, 1);
  if (n) memcpy(b->at + b->count, bytes, n);
  b->at[b->count += n] = 0;
}

/* Words of the program's own, of at most 511 bytes. */
static void say(buffer *b, const char *format, ...) {
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  put(b, text, strlen(text));
}

/* Bytes of the character at s, of n; 0: its end has not come. *good 0: it is none, and so many
 * bytes are what U+FFFD stands for, the longest beginning of a character. */
static size_t character(const char *s, size_t n, int *good) {
  const unsigned char *u = (const unsigned char *)s, first = u[0];
  const size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3
                    : first < 0xf5 ? 4 : 0;
  unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  size_t k;
  *good = size > 0;
  for (k = 1; k < size; k++, low = 0x80, high = 0xbf) {
    if (k == n) return 0;
    if (u[k] < low || u[k] > high) {
      *good = 0;
      return k;
    }
  }
  return size ? size : 1;
}

/* Text inside quotes of JSON; returns how much of it is whole characters. last: all of it goes. */
static size_t put_text(buffer *b, const char *text, size_t n, int last) {
  size_t i, size;
  int good;
  for (i = 0; i < n; i += size) {
    const unsigned char c = (unsigned char)text[i];
    size = character(text + i, n - i, &good);
    if (!size && !last) return i;
    if (!size) size = n - i, good = 0;
    if (!good) put(b, "\xef\xbf\xbd", 3);
    else if (c == '"' || c == '\\') say(b, "\\%c", c);
    else if (c == '\n') put(b, "\\n", 2);
    else if (c < 32) say(b, "\\u%04x", c);
    else put(b, text + i, size);
  }
  return n;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* A request is of MHD's thread until it is handed to the model, and then of both: what they share
 * is under the lock of the house. The last of them frees it. */
typedef struct request {
  struct request *next;                /* that waits                                              */
  struct MHD_Connection *connection;   /* shared; NULL: it is gone                                */
  int handed, suspended, done;         /* shared; handed: the model has it                        */
  buffer out;                          /* shared: the answer's bytes, of which `sent` are on      */
  size_t sent;                         /* their way                                               */
  unsigned status;                     /* of the answer                                           */
  buffer body;
  size_t bytes;                        /* of it that came                                        */
  pthread_mutex_t *lock;
  int chat, streams, counts, socket;   /* counts: usage is streamed                               */
  int voice;                           /* which of the house's it asks for                        */
  drawing how;
  size_t most;                         /* tokens to write                                         */
  char *stops[MOST_STOPS];
  tokens seen;                         /* the prompt, and what was written                        */
  size_t prompt;                       /* tokens of it                                            */
  long created;
  unsigned long number;
  unsigned char *state;                /* of the model's thread, from here on                     */
  size_t read, stored, drawn;          /* tokens in the state; of these, from the store           */
  size_t fork;                         /* of the prompt: so many another one begins with, too     */
  stream held;
  int32_t end;                         /* token that ends the answer                              */
  buffer text;
  size_t told;                         /* bytes of the text that are in `out`                     */
  const char *reason;                  /* why it ended; NULL: it goes on                          */
} request;

static void request_free(request *r) {
  int i;
  for (i = 0; i < MOST_STOPS; i++) free(r->stops[i]);
  free(r->out.at), free(r->body.at), free(r->seen.at), free(r->held.held), free(r->text.at);
  free(r);
}

static void put_error(buffer *to, unsigned status, const char *param, const char *message) {
  say(to, "{\"error\":{\"message\":\"");
  put_text(to, message, strlen(message), 1);
  say(to, "\",\"type\":\"%s\",\"param\":", status < 500 ? "invalid_request_error" : "server_error");
  if (param) say(to, "\""), put_text(to, param, strlen(param), 1), say(to, "\"");
  else say(to, "null");
  say(to, ",\"code\":null}}");
}

/* The answer is a refusal. Returns 0. */
static int refuse(request *r, unsigned status, const char *param, const char *format, ...) {
  char message[512];
  va_list list;
  va_start(list, format);
  vsnprintf(message, sizeof message, format, list);
  va_end(list);
  r->status = status;
  r->out.count = 0;
  put_error(&r->out, status, param, message);
  return 0;
}

/* ---- the house ------------------------------------------------------------------------------- */

/* A state that is stored, behind its tokens. */
typedef struct kept {
  tokens seen;
  int voice;
  unsigned char *state;
  unsigned long used;                  /* when, in calls of the store                             */
} kept;

/* What is counted, for /health. */
typedef struct counts {
  unsigned long requests, cancelled, prompt_tokens, read, written, rounds;
  size_t active, together, waiting, states, bytes;
} counts;

/* The model as it is, or with an adapter. */
typedef struct voice {
  char name[256];
  miras_model *model;
  miras_server *server;
} voice;

typedef struct house {
  const options *o;
  voice voices[VOICES];                /* the first is the model as it is                         */
  int count_of_voices;
  void *shared;                        /* the file in memory where their matrices are, or NULL    */
  const miras_tokenizer *t;
  const miras_parallel *pool;
  chat form;
  int has_form;                        /* the model can talk                                      */
  const char *system;
  int32_t stop;                        /* token that ends any text, or -1                         */
  int vocab;
  size_t bytes;                        /* of a state                                              */
  /* of both threads, under the lock */
  pthread_mutex_t lock;
  pthread_cond_t work;
  request *first, **last;              /* that wait                                               */
  int stopping;
  counts n;
  /* of the model's */
  request **active;
  size_t count, room;
  miras_sequence *parts;
  request **of;                        /* whose part it is                                        */
  float *logits, *weighed;
  kept *store;
  size_t stored, most, takes;          /* takes: bytes                                            */
  unsigned long used;
  unsigned char **spare;               /* states that nobody has                                  */
  size_t spares;
} house;

/* ---- states ---------------------------------------------------------------------------------- */

static size_t kept_bytes(const house *h, size_t count) {
  return h->bytes + count * sizeof(int32_t);
}

static void store_drop(house *h, size_t i) {
  h->takes -= kept_bytes(h, h->store[i].seen.count);
  free(h->store[i].seen.at), free(h->store[i].state);
  h->store[i] = h->store[--h->stored];
}

/* The one that was used longest ago goes. */
static void store_drop_oldest(house *h) {
  size_t i, oldest = 0;
  for (i = 1; i < h->stored; i++)
    if (h->store[i].used < h->store[oldest].used) oldest = i;
  store_drop(h, oldest);
}

/* A state, as it happens to be; NULL: there is no memory, and nothing is stored any more. */
static unsigned char *state_new(house *h) {
  unsigned char *state = h->spares ? h->spare[--h->spares] : (unsigned char *)malloc(h->bytes);
  while (!state && h->stored) {
    store_drop_oldest(h);
    state = (unsigned char *)malloc(h->bytes);
  }
  return state;
}

static void state_free(house *h, unsigned char *state) {
  if (state && h->spares < h->room) h->spare[h->spares++] = state;
  else free(state);
}

/* Store a state, which is the store's from now on. */
static void store_keep(house *h, int who, const int32_t *seen, size_t count,
                       unsigned char *state) {
  kept *k;
  size_t i;
  for (i = 0; i < h->stored; i++) {
    k = &h->store[i];
    if (k->voice != who || k->seen.count != count ||
        memcmp(k->seen.at, seen, count * sizeof *seen) != 0) continue;
    k->used = ++h->used;
    state_free(h, state);
    return;
  }
  if (!h->most || (double)kept_bytes(h, count) > h->o->bytes) {
    state_free(h, state);
    return;
  }
  while (h->stored == h->most || (double)(h->takes + kept_bytes(h, count)) > h->o->bytes)
    store_drop_oldest(h);
  h->takes += kept_bytes(h, count);
  k = &h->store[h->stored++];
  memset(k, 0, sizeof *k);
  k->seen.at = (int32_t *)grow(NULL, count, sizeof *seen);
  memcpy(k->seen.at, seen, count * sizeof *seen);
  k->seen.count = count, k->voice = who, k->state = state, k->used = ++h->used;
}

/* The longest stored text that the request goes on from, or NULL. Its last token is read in any
 * case, for what the model says behind it. */
static kept *store_find(house *h, const request *r) {
  kept *best = NULL;
  size_t i;
  for (i = 0; i < h->stored; i++) {
    kept *k = &h->store[i];
    if (k->voice != r->voice || k->seen.count >= r->seen.count ||
        (best && k->seen.count <= best->seen.count) ||
        memcmp(k->seen.at, r->seen.at, k->seen.count * sizeof *r->seen.at) != 0) continue;
    best = k;
  }
  if (best) best->used = ++h->used;
  return best;
}

/* Tokens that the prompt and a stored text both begin with, where a state behind them is worth its
 * bytes, or 0. */
static size_t store_fork(const house *h, const request *r) {
  enum { WORTH = 16 };
  size_t most = 0, i, n;
  for (i = 0; i < h->stored; i++) {
    const tokens *seen = &h->store[i].seen;
    if (h->store[i].voice != r->voice) continue;
    for (n = 0; n < seen->count && n < r->prompt - 1 && seen->at[n] == r->seen.at[n];) n++;
    if (n > most) most = n;
  }
  return most >= r->read + WORTH ? most : 0;
}

/* ---- answers, as they are written ------------------------------------------------------------ */

static void put_usage(const request *r, buffer *b) {
  say(b, "{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
         "\"prompt_tokens_details\":{\"cached_tokens\":%zu}}",
      r->prompt, r->drawn, r->prompt + r->drawn, r->stored);
}

static void put_head(const house *h, const request *r, buffer *b) {
  say(b, "{\"id\":\"%s-%lu\",\"object\":\"%s\",\"created\":%ld,\"model\":\"",
      r->chat ? "chatcmpl" : "cmpl", r->number,
      !r->chat ? "text_completion" : r->streams ? "chat.completion.chunk" : "chat.completion",
      r->created);
  put_text(b, h->voices[r->voice].name, strlen(h->voices[r->voice].name), 1);
  say(b, "\",\"choices\":[");
}

/* What of the text is whole goes out, as an event; the first says whose it is, and the last why it
 * ended. */
static void put_event(const house *h, request *r, int begins) {
  buffer b;
  size_t n;
  memset(&b, 0, sizeof b);
  n = put_text(&b, r->text.at + r->told, r->text.count - r->told, r->reason != NULL);
  if (!b.at) put(&b, "", 0);
  if (n || begins) {
    say(&r->out, "data: ");
    put_head(h, r, &r->out);
    say(&r->out, "{\"index\":0,%s%s", r->chat ? "\"delta\":{" : "\"text\":\"",
        !r->chat ? "" : begins ? "\"role\":\"assistant\",\"content\":\"" : "\"content\":\"");
    put(&r->out, b.at, b.count);
    say(&r->out, "\"%s,\"logprobs\":null,\"finish_reason\":null}]%s}\n\n", r->chat ? "}" : "",
        r->counts ? ",\"usage\":null" : "");
    r->told += n;
  }
  if (r->reason) {
    say(&r->out, "data: ");
    put_head(h, r, &r->out);
    say(&r->out, "{\"index\":0,%s,\"logprobs\":null,\"finish_reason\":\"%s\"}]%s}\n\n",
        r->chat ? "\"delta\":{}" : "\"text\":\"\"", r->reason, r->counts ? ",\"usage\":null" : "");
    if (r->counts) {
      say(&r->out, "data: ");
      put_head(h, r, &r->out);
      say(&r->out, "],\"usage\":");
      put_usage(r, &r->out);
      say(&r->out, "}\n\n");
    }
    say(&r->out, "data: [DONE]\n\n");
  }
  free(b.at);
}

/* The whole answer. */
static void put_answer(const house *h, request *r) {
  put_head(h, r, &r->out);
  say(&r->out, "{\"index\":0,%s", r->chat ? "\"message\":{\"role\":\"assistant\",\"content\":\""
                                          : "\"text\":\"");
  put_text(&r->out, r->text.at, r->text.count, 1);
  say(&r->out, "\"%s,\"logprobs\":null,\"finish_reason\":\"%s\"}],\"usage\":", r->chat ? "}" : "",
      r->reason);
  put_usage(r, &r->out);
  say(&r->out, "}");
}

/* Under the lock: MHD's thread goes on with the request. */
static void wake(request *r) {
  if (!r->suspended || !r->connection) return;
  r->suspended = 0;
  MHD_resume_connection(r->connection);
}

/* The model is done with a request; failed: why there is no answer, or NULL. Its state is stored,
 * or with keeps 0 is not. */
static void finish(house *h, request *r, int keeps, const char *failed) {
  const unsigned status = r->state ? 500 : 503;
  int gone;
  if (r->state && keeps && r->read) store_keep(h, r->voice, r->seen.at, r->read, r->state);
  else if (r->state) state_free(h, r->state);
  r->state = NULL;
  pthread_mutex_lock(&h->lock);
  if (failed && r->streams) {
    say(&r->out, "data: "), put_error(&r->out, 500, NULL, failed), say(&r->out, "\n\n");
  } else if (failed) {
    refuse(r, h->stopping ? 503 : status, NULL, "%s", failed);
  } else if (r->reason && !r->streams) {
    put_answer(h, r);
  }
  r->done = 1, r->handed = 0;
  gone = !r->connection;
  h->n.states = h->stored, h->n.bytes = h->takes;
  wake(r);
  pthread_mutex_unlock(&h->lock);
  if (gone) request_free(r);
}

/* ---- the model's thread ---------------------------------------------------------------------- */

/* Has the client hung up? Under the lock. MHD does not look at connections that sleep. */
static int hung_up(const request *r) {
  struct pollfd p;
  char byte;
  if (!r->connection) return 1;
  p.fd = r->socket, p.events = POLLIN | POLLRDHUP, p.revents = 0;
  if (poll(&p, 1, 0) <= 0) return 0;
  return (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0 ||
         recv(r->socket, &byte, 1, MSG_PEEK) == 0;   /* where there is no POLLRDHUP */
}

/* A request's text begins, from the longest that is stored. Returns whether it does. */
static int begin(house *h, request *r) {
  const kept *from;
  r->state = state_new(h);
  if (!r->state) return 0;
  from = store_find(h, r);
  if (from) memcpy(r->state, from->state, h->bytes);
  else memset(r->state, 0, h->bytes);
  r->stored = r->read = from ? from->seen.count : 0;
  r->fork = store_fork(h, r);
  return 1;
}

/* Those who have hung up go, those who wait come in. Sleeps where there is nothing to do; returns 0
 * when the server stops. */
static int gather(house *h) {
  size_t i, n;
  for (i = n = 0; i < h->count; i++) {
    request *r = h->active[i];
    int gone;
    pthread_mutex_lock(&h->lock);
    gone = hung_up(r);
    h->n.cancelled += (unsigned long)gone;
    pthread_mutex_unlock(&h->lock);
    if (gone) finish(h, r, 0, NULL);
    else h->active[n++] = r;
  }
  h->count = n;
  pthread_mutex_lock(&h->lock);
  h->n.active = n;
  while (!h->stopping && !h->count && !h->first) pthread_cond_wait(&h->work, &h->lock);
  while (!h->stopping && h->first && h->count < h->room) {
    request *r = h->first;
    const int gone = hung_up(r);
    int begins;
    h->first = r->next;
    if (!h->first) h->last = &h->first;
    h->n.waiting--;
    h->n.cancelled += (unsigned long)gone;
    pthread_mutex_unlock(&h->lock);
    begins = !gone && begin(h, r);
    if (begins) h->active[h->count++] = r;
    else finish(h, r, 0, gone ? NULL : "there is not enough memory for one more conversation");
    pthread_mutex_lock(&h->lock);
    if (begins) h->n.prompt_tokens += (unsigned long)r->prompt;
    h->n.active = h->count;
  }
  if (h->count > h->n.together) h->n.together = h->count;
  i = !h->stopping;
  pthread_mutex_unlock(&h->lock);
  return (int)i;
}

/* The logits behind all of a request's tokens are there: the next one. Returns whether it goes
 * on. */
static int write_token(house *h, request *r, const float *logits) {
  int32_t token = -1;
  int ends;
  size_t out;
  if (are_numbers(logits, h->vocab))
    token = draw(&r->how, &r->seen, r->seen.count, logits, h->vocab, h->weighed);
  if (token < 0) {
    finish(h, r, 0, "the model's logits are not finite: its weights are damaged");
    return 0;
  }
  r->drawn++;
  if (token == r->end || token == h->stop) {
    r->reason = "stop";
    put(&r->text, r->held.held, stream_end(&r->held));
  } else {
    out = stream_take(&r->held, h->t, token);
    put(&r->text, r->held.held, out);
    stream_drop(&r->held, out);
    if (r->held.stop) r->reason = "stop";
    else add(&r->seen, token);
    if (!r->reason && r->drawn == r->most) {
      put(&r->text, r->held.held, stream_end(&r->held));
      r->reason = r->held.stop ? "stop" : "length";
    }
  }
  if (r->streams && (r->text.count > r->told || r->reason)) {
    pthread_mutex_lock(&h->lock);
    put_event(h, r, 0);
    wake(r);
    pthread_mutex_unlock(&h->lock);
  }
  ends = r->reason != NULL;
  if (ends) finish(h, r, 1, NULL);
  return !ends;
}

/* Behind all of a prompt but its last token the state is stored, too, for the same prompt may come
 * again, or be answered by other words; and where it forks from another. */
static void keep_prompt(house *h, const request *r) {
  unsigned char *copy = h->most ? state_new(h) : NULL;
  if (!copy) return;
  memcpy(copy, r->state, h->bytes);
  store_keep(h, r->voice, r->seen.at, r->read, copy);
}

/* The parts of a round, voice by voice: from first[v] on are those of v. Returns how many. */
static size_t round_parts(house *h, size_t *first) {
  size_t left = (size_t)h->o->piece, n = 0, i;
  int v;
  for (v = 0; v < h->count_of_voices; v++) {
    first[v] = n;
    for (i = 0; i < h->count; i++) {
      request *r = h->active[i];
      const size_t before = r->read < r->fork ? r->fork : r->prompt - 1;
      miras_sequence *p = &h->parts[n];
      if (r->voice != v) continue;
      memset(p, 0, sizeof *p);
      p->state = r->state, p->tokens = r->seen.at + r->read;
      if (r->read < before) p->count = before - r->read < left ? before - r->read : left;
      else p->count = p->logit_rows = 1;
      if (!p->logit_rows) left -= p->count;
      if (p->count) h->of[n++] = r;
    }
  }
  return n;
}

/* All conversations go on: a token of each that writes, beside pieces of prompts. */
static void go_round(house *h) {
  size_t first[VOICES + 1], n, i, k, prompts = 0, written = 0;
  float *to = h->logits;
  const float *logits = h->logits;
  int v, good = 1;
  n = first[h->count_of_voices] = round_parts(h, first);
  for (v = 0; v < h->count_of_voices; v++) {
    const size_t from = first[v], count = first[v + 1] - from;
    good = good && (!count || miras_server_feed(h->voices[v].server, h->parts + from, count, to) ==
                                MIRAS_OK);
    for (i = from; i < first[v + 1]; i++) to += h->parts[i].logit_rows * (size_t)h->vocab;
  }
  if (!good) {
    for (i = 0; i < h->count; i++) finish(h, h->active[i], 0, "the model cannot go on");
    h->count = 0;
    return;
  }
  for (i = 0; i < n; i++) {
    request *r = h->of[i];
    const size_t count = h->parts[i].count;
    if (r->read < r->prompt) prompts += count;
    r->read += count;
    if (!h->parts[i].logit_rows) {
      if (r->read == r->prompt - 1 || r->read == r->fork) keep_prompt(h, r);
      continue;
    }
    written++;
    if (!write_token(h, r, logits)) {
      for (k = 0; h->active[k] != r;) k++;
      memmove(h->active + k, h->active + k + 1, (--h->count - k) * sizeof *h->active);
    }
    logits += h->vocab;
  }
  pthread_mutex_lock(&h->lock);
  h->n.read += (unsigned long)prompts, h->n.written += (unsigned long)written, h->n.rounds++;
  h->n.states = h->stored, h->n.bytes = h->takes, h->n.active = h->count;
  pthread_mutex_unlock(&h->lock);
}

static void *work(void *argument) {
  house *h = (house *)argument;
  request *r;
  size_t i;
  while (gather(h)) go_round(h);
  for (i = 0; i < h->count; i++) finish(h, h->active[i], 0, "the server stops");
  for (;;) {                           /* and nobody is put there any more */
    pthread_mutex_lock(&h->lock);
    r = h->first;
    if (r) h->first = r->next;
    pthread_mutex_unlock(&h->lock);
    if (!r) return NULL;
    finish(h, r, 0, "the server stops");
  }
}

/* ---- what is asked for ----------------------------------------------------------------------- */

/* What a request may say of what is not served: nothing, null, or this. */
static const struct { const char *name, *only; } unserved[] = {
  {"n", "1"}, {"best_of", "1"}, {"tools", "[]"}, {"functions", "[]"}, {"logit_bias", "{}"},
  {"response_format", "{\"type\":\"text\"}"}, {"logprobs", "false"}, {"top_logprobs", "0"},
  {"presence_penalty", "0"}, {"frequency_penalty", "0"}, {"echo", "false"}, {"suffix", "\"\""},
  {"modalities", "[\"text\"]"}, {"audio", "null"}};

static const cJSON *field(const cJSON *of, const char *name) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(of, name);
  return cJSON_IsNull(item) ? NULL : item;
}

static int read_number(request *r, const cJSON *body, const option *o) {
  const cJSON *item = field(body, o->name);
  const double x = item ? item->valuedouble : 0;
  if (!item) return 1;
  if (!cJSON_IsNumber(item) || !(x >= o->low && x <= o->high) || (o->type == 'i' && x != floor(x)))
    return refuse(r, 400, o->name, "%s must be a %snumber from %.10g to %.10g", o->name,
                  o->type == 'i' ? "whole " : "", o->low, o->high);
  *(double *)o->value = x;
  return 1;
}

static int read_flag(request *r, const cJSON *of, const char *name, const char *path, int *to) {
  const cJSON *item = field(of, name);
  if (!item) return 1;
  if (!cJSON_IsBool(item)) return refuse(r, 400, path, "%s must be true or false", path);
  *to = cJSON_IsTrue(item);
  return 1;
}

static int read_stops(request *r, const cJSON *stop) {
  const cJSON *item = cJSON_IsArray(stop) ? stop->child : stop;
  int i;
  if (cJSON_IsArray(stop) && cJSON_GetArraySize(stop) > MOST_STOPS)
    return refuse(r, 400, "stop", "stop has more than %d texts", MOST_STOPS);
  for (i = 0; item; i++, item = item == stop ? NULL : item->next) {
    if (!cJSON_IsString(item) || !item->valuestring[0])
      return refuse(r, 400, "stop", "stop must be a text that is not empty, or a list of such");
    r->held.ends[i] = r->stops[i] = join(item->valuestring, "");
  }
  return 1;
}

/* Whom the request asks for. Without names of adapters anyone may be called what he likes. */
static int read_voice(const house *h, request *r, const cJSON *body) {
  const cJSON *item = field(body, "model");
  int v = 0;
  if (h->count_of_voices == 1 || !item) return 1;
  while (v < h->count_of_voices && !(cJSON_IsString(item) &&
                                     strcmp(item->valuestring, h->voices[v].name) == 0)) v++;
  r->voice = v;
  return v < h->count_of_voices ||
         refuse(r, 404, "model", "there is no model \"%.100s\" here; /v1/models has their names",
                cJSON_IsString(item) ? item->valuestring : "");
}

/* How the answer is to be. */
static int read_settings(const house *h, request *r, const cJSON *body) {
  double most = h->o->count;
  const option numbers[] = {
    {"max_tokens", 'i', &most, 1, 1e9, NULL},   {"max_completion_tokens", 'i', &most, 1, 1e9, NULL},
    {"temperature", 'r', &r->how.temperature, 0, 100, NULL},
    {"top_p", 'r', &r->how.top_p, 0, 1, NULL},  {"top_k", 'i', &r->how.top_k, 0, 1e9, NULL},
    {"min_p", 'r', &r->how.min_p, 0, 1, NULL},  {"seed", 'i', &r->how.seed, 0, 1e15, NULL},
    {"repetition_penalty", 'r', &r->how.penalty, 1, 100, NULL}};
  const cJSON *item;
  size_t i;
  for (i = 0; i < sizeof unserved / sizeof *unserved; i++) {
    char *text;
    int same;
    if ((item = field(body, unserved[i].name)) == NULL) continue;
    text = cJSON_PrintUnformatted(item);
    same = text && strcmp(text, unserved[i].only) == 0;
    free(text);
    if (!same)
      return refuse(r, 400, unserved[i].name, "%s is not served; it must be left out, or be %s",
                    unserved[i].name, unserved[i].only);
  }
  r->how = h->o->how;
  for (i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (!read_number(r, body, &numbers[i])) return 0;
  if (field(body, "top_p") && !(r->how.top_p > 0)) r->how.top_p = FLT_MIN;   /* the likeliest */
  r->most = (size_t)most;
  item = field(body, "stream_options");
  if (item && !cJSON_IsObject(item))
    return refuse(r, 400, "stream_options", "stream_options must be an object");
  return read_flag(r, body, "stream", "stream", &r->streams) &&
         read_flag(r, item, "include_usage", "stream_options.include_usage", &r->counts) &&
         read_stops(r, field(body, "stop"));
}

/* The text of a message: a string, or parts of text one after the other. */
static int read_content(request *r, const cJSON *message, int index, buffer *to) {
  const cJSON *content = field(message, "content"), *part;
  char path[64];
  int i = 0;
  to->count = 0;
  put(to, "", 0);
  if (cJSON_IsString(content)) {
    put(to, content->valuestring, strlen(content->valuestring));
    return 1;
  }
  snprintf(path, sizeof path, "messages[%d].content", index);
  if (!cJSON_IsArray(content))
    return refuse(r, 400, path, "%s must be a text, or a list of parts", path);
  cJSON_ArrayForEach(part, content) {
    const cJSON *type = field(part, "type"), *text = field(part, "text");
    snprintf(path, sizeof path, "messages[%d].content[%d]", index, i++);
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "text") != 0 || !cJSON_IsString(text))
      return refuse(r, 400, path, "%s must be of type text, and have one", path);
    put(to, text->valuestring, strlen(text->valuestring));
  }
  return 1;
}

/* An answer that was given, as tokens. A blank that encoding puts before a text is none of it. */
static int answer_tokens(const miras_tokenizer *t, const char *text, size_t n, tokens *to) {
  const size_t from = to->count;
  char none[1];
  int place = 1;
  if (!encode(t, to, text, n, MIRAS_TOKENIZER_PLAIN)) return 0;
  if (!t || text[0] != ' ' ||
      miras_tokenizer_decode(t, to->at + from, to->count - from, 0, &place, none, 0) != n + 1)
    return 1;
  to->count = from;
  return encode(t, to, text + 1, n - 1, MIRAS_TOKENIZER_PLAIN);
}

/* The messages as tokens, in the form that run --chat gives to turns. said, system: room. */
static int read_turns(house *h, request *r, const cJSON *messages, buffer *said, buffer *system) {
  const cJSON *message;
  int i = 0, begun = 0, asked = 0;
  char path[64];
  h->form.system = h->system;
  cJSON_ArrayForEach(message, messages) {
    const cJSON *item = field(message, "role");
    const char *role = cJSON_IsString(item) ? item->valuestring : "";
    int good = 1;
    snprintf(path, sizeof path, "messages[%d].role", i);
    if (!read_content(r, message, i, said)) return 0;
    if (field(message, "tool_calls") || field(message, "function_call"))
      return refuse(r, 400, "messages", "messages[%d] calls a tool; there are none here", i);
    if (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0) {
      if (i) return refuse(r, 400, path, "%s is %s; only the first message can be", path, role);
      put(system, said->at, said->count);
      h->form.system = system->count ? system->at : NULL;
    } else if (strcmp(role, "user") == 0) {
      if (asked) return refuse(r, 400, path, "%s is user, and an answer is missing before", path);
      good = chat_turn(&h->form, begun, 0, said->at, said->count, &r->seen);
      asked = 1;
    } else if (strcmp(role, "assistant") == 0) {
      if (!asked) return refuse(r, 400, path, "%s is assistant, with nothing to answer", path);
      good = answer_tokens(h->t, said->at, said->count, &r->seen);
      begun = 1, asked = 0;
    } else {
      return refuse(r, 400, path, "%s must be system, user or assistant", path);
    }
    if (!good) return refuse(r, 400, "messages", "messages[%d]: %s", i, no_tokens);
    i++;
  }
  return asked ? 1 : refuse(r, 400, "messages", "messages must end with one of the user");
}

static int read_messages(house *h, request *r, const cJSON *body) {
  const cJSON *messages = field(body, "messages");
  buffer said, system;
  int good;
  if (!h->has_form)
    return refuse(r, 400, "messages", "messages have no form: the model names no template; the "
                                      "server needs --template, or /v1/completions goes without");
  if (!cJSON_IsArray(messages)) return refuse(r, 400, "messages", "messages must be a list");
  memset(&said, 0, sizeof said), memset(&system, 0, sizeof system);
  good = read_turns(h, r, messages, &said, &system);
  free(said.at), free(system.at);
  r->end = chat_end(&h->form);
  if (r->end < 0) r->held.ends[MOST_STOPS] = h->form.form->end;
  return good;
}

static int read_prompt(house *h, request *r, const cJSON *body) {
  const cJSON *prompt = field(body, "prompt");
  if (!cJSON_IsString(prompt)) return refuse(r, 400, "prompt", "prompt must be a text");
  if (!encode(h->t, &r->seen, prompt->valuestring, strlen(prompt->valuestring),
              MIRAS_TOKENIZER_SPECIAL))
    return refuse(r, 400, "prompt", "prompt: %s", no_tokens);
  if (!r->seen.count) add(&r->seen, 0);
  r->end = -1;
  return 1;
}

/* Is the body UTF-8, without a zero, written or meant? cJSON does not look. */
static int is_text(const char *s, size_t n) {
  size_t i, size;
  int good;
  for (i = 0; i < n; i += size) {
    size = character(s + i, n - i, &good);
    if (!size || !good || !s[i]) return 0;
    if (s[i] == '\\' && i + 1 < n && (unsigned char)s[i + 1] < 0x80) {
      if (n - i >= 6 && memcmp(s + i + 1, "u0000", 5) == 0) return 0;
      size = 2;
    }
  }
  return 1;
}

static int read_request(house *h, request *r) {
  cJSON *body;
  size_t i;
  int good;
  if (r->bytes > MOST_BODY)
    return refuse(r, 413, NULL, "the body has more than %d bytes", MOST_BODY);
  put(&r->body, "", 0);
  if (!is_text(r->body.at, r->body.count))
    return refuse(r, 400, NULL, "the body is not UTF-8, or has a zero in it");
  body = cJSON_ParseWithLengthOpts(r->body.at, r->body.count + 1, NULL, 1);
  if (!cJSON_IsObject(body)) {
    cJSON_Delete(body);
    return refuse(r, 400, NULL, "the body is no object of JSON");
  }
  good = read_voice(h, r, body) && read_settings(h, r, body) &&
         (r->chat ? read_messages : read_prompt)(h, r, body);
  cJSON_Delete(body);
  for (i = 0; good && i < r->seen.count; i++)
    if (r->seen.at[i] >= h->vocab)
      good = refuse(r, 400, r->chat ? "messages" : "prompt", "token %ld is none of the model's, "
                    "which go from 0 to %d", (long)r->seen.at[i], h->vocab - 1);
  r->prompt = r->seen.count;
  r->held.place = 1;
  return good;
}

/* ---- HTTP, on MHD's thread ------------------------------------------------------------------- */

static enum MHD_Result send_response(struct MHD_Connection *c, unsigned status, const char *type,
                                     struct MHD_Response *response) {
  enum MHD_Result result;
  if (!response) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", type);
  result = MHD_queue_response(c, status, response);
  MHD_destroy_response(response);
  return result;
}

/* What is in r->out. */
static enum MHD_Result send_out(request *r, const char *allowed) {
  struct MHD_Response *response =
    MHD_create_response_from_buffer(r->out.count, r->out.at, MHD_RESPMEM_MUST_COPY);
  if (response && allowed) MHD_add_response_header(response, "Allow", allowed);
  return send_response(r->connection, r->status, "application/json", response);
}

/* Events, as they come; nothing has come: the connection sleeps until something does. */
static ssize_t read_events(void *argument, uint64_t at, char *to, size_t most) {
  request *r = (request *)argument;
  ssize_t n = 0;
  (void)at;
  pthread_mutex_lock(r->lock);
  if (r->sent < r->out.count) {
    const size_t left = r->out.count - r->sent;
    n = (ssize_t)(left < most ? left : most);
    memcpy(to, r->out.at + r->sent, (size_t)n);
    r->sent += (size_t)n;
    if (r->sent == r->out.count) r->sent = r->out.count = 0;
  } else if (r->done) {
    n = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    r->suspended = 1;
    MHD_suspend_connection(r->connection);
  }
  pthread_mutex_unlock(r->lock);
  return n;
}

/* Hand a request to the model; its connection sleeps, or streams. */
static enum MHD_Result hand_over(house *h, request *r) {
  struct MHD_Response *response;
  r->created = (long)time(NULL);
  r->status = 200;
  pthread_mutex_lock(&h->lock);
  if (h->stopping) {
    pthread_mutex_unlock(&h->lock);
    refuse(r, 503, NULL, "the server stops");
    return send_out(r, NULL);
  }
  r->number = ++h->n.requests;
  r->handed = 1;
  if (r->streams) {
    if (r->chat) put_event(h, r, 1);
  } else {
    r->suspended = 1;
    MHD_suspend_connection(r->connection);
  }
  *h->last = r, h->last = &r->next;
  h->n.waiting++;
  pthread_cond_signal(&h->work);
  pthread_mutex_unlock(&h->lock);
  if (!r->streams) return MHD_YES;
  response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_events, r, NULL);
  if (response) MHD_add_response_header(response, "Cache-Control", "no-cache");
  return send_response(r->connection, 200, "text/event-stream", response);
}

static void put_health(house *h, request *r) {
  counts n;
  pthread_mutex_lock(&h->lock);
  n = h->n;
  pthread_mutex_unlock(&h->lock);
  say(&r->out, "{\"status\":\"ok\",\"requests\":%lu,\"cancelled\":%lu,\"active\":%zu,"
      "\"most_at_once\":%zu,\"waiting\":%zu,\"rounds\":%lu,", n.requests, n.cancelled, n.active,
      n.together, n.waiting, n.rounds);
  say(&r->out, "\"prompt_tokens\":%lu,\"prompt_tokens_read\":%lu,\"tokens_written\":%lu,"
      "\"states\":%zu,\"states_bytes\":%zu}", n.prompt_tokens, n.read, n.written, n.states,
      n.bytes);
}

/* A request whose body is there: what it is, by its path. */
static enum MHD_Result route(house *h, request *r, const char *path, const char *method) {
  static const char *const paths[] = {"/v1/chat/completions", "/v1/completions", "/v1/models",
                                      "/health"};
  const char *allowed;
  int i;
  for (i = 0; i < 4 && strcmp(path, paths[i]) != 0;) i++;
  allowed = i < 2 ? "POST" : "GET, HEAD";
  if (i == 4) {
    refuse(r, 404, NULL, "there is no %.200s here", path);
    return send_out(r, NULL);
  }
  if (i < 2 ? strcmp(method, "POST") != 0
            : strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
    refuse(r, 405, NULL, "%s is for %s", path, allowed);
    return send_out(r, allowed);
  }
  r->chat = i == 0;
  if (i < 2) return read_request(h, r) ? hand_over(h, r) : send_out(r, NULL);
  r->status = 200;
  if (i == 3) {
    put_health(h, r);
  } else {
    say(&r->out, "{\"object\":\"list\",\"data\":[");
    for (i = 0; i < h->count_of_voices; i++) {
      say(&r->out, i ? ",{\"id\":\"" : "{\"id\":\"");
      put_text(&r->out, h->voices[i].name, strlen(h->voices[i].name), 1);
      say(&r->out, "\",\"object\":\"model\",\"created\":0,\"owned_by\":\"miras\"}");
    }
    say(&r->out, "]}");
  }
  return send_out(r, NULL);
}

/* MHD calls this when a request begins, for every part of its body, behind that, and when its
 * connection has slept. */
static enum MHD_Result serve(void *argument, struct MHD_Connection *c, const char *path,
                             const char *method, const char *version, const char *part,
                             size_t *size, void **context) {
  house *h = (house *)argument;
  request *r = (request *)*context;
  int handed, done;
  (void)version;
  if (!r) {
    *context = r = (request *)grow(NULL, 1, sizeof *r);
    memset(r, 0, sizeof *r);
    r->connection = c, r->lock = &h->lock;
    r->socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    return MHD_YES;
  }
  if (*size) {
    r->bytes += *size;
    if (r->bytes <= MOST_BODY) put(&r->body, part, *size);
    *size = 0;
    return r->bytes <= MOST_IGNORED ? MHD_YES : MHD_NO;
  }
  pthread_mutex_lock(&h->lock);
  handed = r->handed, done = r->done;
  if (handed) r->suspended = 1, MHD_suspend_connection(c);   /* called too early */
  pthread_mutex_unlock(&h->lock);
  if (handed) return MHD_YES;
  if (!done) return route(h, r, path, method);
  return r->out.count ? send_out(r, NULL) : MHD_NO;
}

static void completed(void *argument, struct MHD_Connection *c, void **context,
                      enum MHD_RequestTerminationCode code) {
  house *h = (house *)argument;
  request *r = (request *)*context;
  int handed;
  (void)c, (void)code;
  if (!r) return;
  *context = NULL;
  pthread_mutex_lock(&h->lock);
  r->connection = NULL;
  handed = r->handed;
  pthread_mutex_unlock(&h->lock);
  if (!handed) request_free(r);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void *room_for(size_t count, size_t each) {
  void *p = grow(NULL, count, each);
  memset(p, 0, (count + 1) * each);
  return p;
}

/* The model as a file of ours in memory, from a whole line of the cache on; NULL: there is no
 * room. What it lies in goes to *block. */
static const void *as_file(const miras_model *m, void **block, size_t *size) {
  enum { LINE = 64 };
  char *at;
  *size = miras_save_to(m, NULL, 0);
  at = *size ? (char *)malloc(*size + LINE) : NULL;
  *block = at;
  if (at) at += LINE - (uintptr_t)at % LINE;
  return at && miras_save_to(m, at, *size) == *size ? at : NULL;
}

/* How long the name is in NAME=PATH; 0: it is a path alone. */
static size_t name_length(const char *at) {
  const char *equals = strchr(at, '=');
  const size_t n = equals ? (size_t)(equals - at) : 0;
  return memchr(at, '/', n) ? 0 : n;
}

/* Open the model as it is, and with each adapter of a name. Short matrices are there once. */
static void voices_open(house *h, const options *o) {
  source from = o->from;
  miras_model_desc asked, d;
  const miras_model_desc *how;
  const char *name = strrchr(from.model, '/'), *bare = NULL;
  const void *file = NULL;
  size_t size = 0;
  voice *v = h->voices;
  int own, i, named = 0, count = 0;
  for (; o->adapters[count]; count++)
    if (name_length(o->adapters[count])) named++;
    else bare = o->adapters[count];
  if (count > 1 && bare)
    die(2, "--adapter is %s, without a name, which must be alone: NAME=PATH for each of several",
        bare);
  if (!named) from.adapter = o->adapters[0];
  snprintf(v->name, sizeof v->name, "%s", name && name[1] ? name + 1 : from.model);
  own = describe_model(&from, &asked, &d);
  how = own ? &asked : &d;
  v->model = open_model(&from, how, own);
  h->count_of_voices = 1;
  if (named && how->weights) file = as_file(v->model, &h->shared, &size);
  if (file) {
    miras_close(v->model);
    v->model = open_model_of(&from, how, 1, file, size);
  }
  for (i = 0; i < named; i++) {
    const char *at = o->adapters[i];
    const size_t n = name_length(at);
    int k;
    v = &h->voices[h->count_of_voices++];
    if (n >= sizeof v->name) die(2, "--adapter is %s; its name is too long", at);
    memcpy(v->name, at, n);
    for (k = 0; k < h->count_of_voices - 1; k++)
      if (strcmp(h->voices[k].name, v->name) == 0)
        die(2, "--adapter is %s; there is a %s already", at, v->name);
    from.adapter = at + n + 1;
    v->model = open_model_of(&from, how, own || file != NULL, file, size);
  }
}

/* Open the models and all that works on them. */
static void house_open(house *h, const options *o) {
  const source *from = &o->from;
  miras_server_desc server = {0};
  char why[512];
  int v;
  memset(h, 0, sizeof *h);
  h->o = o;
  voices_open(h, o);
  h->vocab = miras_model_desc_of(h->voices->model)->vocab;
  h->bytes = miras_model_state_size(h->voices->model);
  h->t = vocabulary_of(from);
  if (!h->t && h->vocab != 256)
    die(2, "the model has %d tokens, not bytes: --vocab is needed, or a tokenizer.json in its "
           "folder", h->vocab);
  h->stop = h->t ? miras_tokenizer_end(h->t) : -1;
  h->has_form = chat_open(&h->form, from, h->t);
  h->system = h->form.system;
  if (!h->has_form)
    fprintf(stderr, PROGRAM ": %s names no template that is known here: without --template there "
            "is /v1/completions alone\n", from->model);
  if (from->int8) server.products = MIRAS_PRODUCTS_INT8;
  if (o->from.threads > 1) {
    h->pool = miras_pool_open((int)from->threads, NULL, NULL, 0);
    if (!h->pool) die(1, "--threads is %g; so many cannot be started", from->threads);
  }
  server.batch_tokens = 256, server.parallel = h->pool;
  for (v = 0; v < h->count_of_voices; v++) {
    h->voices[v].server = miras_server_open(h->voices[v].model, &server, NULL, why, sizeof why);
    if (!h->voices[v].server) die(1, "%s", why);
  }
  h->room = (size_t)o->texts;
  h->most = o->bytes < (double)h->bytes ? 0 : (size_t)o->states;
  h->active = (request **)room_for(h->room, sizeof *h->active);
  h->of = (request **)room_for(h->room, sizeof *h->of);
  h->parts = (miras_sequence *)room_for(h->room, sizeof *h->parts);
  h->spare = (unsigned char **)room_for(h->room, sizeof *h->spare);
  h->logits = (float *)room_for(h->room * (size_t)h->vocab, sizeof(float));
  h->weighed = (float *)room_for((size_t)h->vocab, sizeof(float));
  h->store = (kept *)room_for(h->most, sizeof *h->store);
  pthread_mutex_init(&h->lock, NULL);
  pthread_cond_init(&h->work, NULL);
  h->last = &h->first;
}

static void house_close(house *h) {
  int v;
  while (h->stored) store_drop(h, 0);
  while (h->spares) free(h->spare[--h->spares]);
  free(h->active), free(h->of), free(h->parts), free(h->spare), free(h->logits), free(h->weighed);
  free(h->store), free(h->form.text);
  for (v = 0; v < h->count_of_voices; v++)
    miras_close(h->voices[v].server), miras_close(h->voices[v].model);
  miras_pool_close(h->pool);
  miras_tokenizer_close((miras_tokenizer *)h->t);
  free(h->shared);
  pthread_mutex_destroy(&h->lock);
  pthread_cond_destroy(&h->work);
}

int main(int argc, char **argv) {
  static house h;
  struct sockaddr_in at;
  struct MHD_Daemon *daemon;
  pthread_t worker;
  sigset_t signals;
  int which;
  read_options(&given, argc, argv);
  memset(&at, 0, sizeof at);
  at.sin_family = AF_INET, at.sin_port = htons((uint16_t)given.port);
  if (inet_pton(AF_INET, given.host, &at.sin_addr) != 1)
    die(2, "--host is %s; it must be an address such as 127.0.0.1", given.host);
  house_open(&h, &given);
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT), sigaddset(&signals, SIGTERM), sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);   /* of all threads; SIGPIPE stays so */
  sigdelset(&signals, SIGPIPE);
  if (pthread_create(&worker, NULL, work, &h)) die(1, "a thread cannot be started");
  daemon = MHD_start_daemon(
    MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, serve,
    &h, MHD_OPTION_SOCK_ADDR, &at, MHD_OPTION_NOTIFY_COMPLETED, completed, &h,
    MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, 60u,
    MHD_OPTION_LISTENING_ADDRESS_REUSE, 1u, MHD_OPTION_END);
  if (!daemon) die(1, "port %g of %s cannot be listened at: %s", given.port, given.host,
                   strerror(errno));
  printf(PROGRAM ": http://%s:%u\n", given.host,
         (unsigned)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
  fflush(stdout);
  sigwait(&signals, &which);
  pthread_mutex_lock(&h.lock);
  h.stopping = 1;
  pthread_cond_signal(&h.work);
  pthread_mutex_unlock(&h.lock);
  pthread_join(worker, NULL);
  MHD_stop_daemon(daemon);
  house_close(&h);
  return 0;
}
