/* fridge.c: a refrigerator's thermometer learns, on the device, to say what it will show in five
 * minutes; after half of its week somebody turns the knob.
 *
 * Cold is made by a compressor that a thermostat switches on above one temperature and off below
 * another; the door is opened now and then; the sensor is a little noisy. The device sees none of
 * that, only a temperature every five minutes. Three answers are compared, each made before the
 * truth is known, and what came is then learned:
 *
 *   same as now     what needs no learning
 *   memory          least squares by recursion on its own (the preset signals), 4 KB
 *   network         a layer of gated delta memory and an MLP, 1,088 parameters, random at first:
 *                   each sample it takes a step of AdamW on a window of the day before, and its
 *                   head learns from what came (adapt)
 *
 * All of it lives in arrays below; nothing is allocated. README.md says how it is built for a
 * Cortex-M4 and run without one. On any other machine: cc -O2 examples/cortex-m/fridge.c -lm */
#include <math.h>
#include <string.h>

#define MIRAS_NO_FILES          /* no files, no layers as text, and of the engines the two ... */
#define MIRAS_NO_PROGRAMS       /* ... that are used                                           */
#define MIRAS_NO_FROZEN
#define MIRAS_NO_MESA
#define MIRAS_NO_ATTENTION
#define MIRAS_NO_SCAN
#define MIRAS_STATIC
#define NDEBUG
#define MIRAS_IMPLEMENTATION
#include "../../miras.h"

#if defined(__arm__) && !defined(__unix__)
void say(const char *text);
size_t stack_used(void);
#else
  #include <stdio.h>
static void say(const char *text) { fputs(text, stdout); }
#endif

enum {
  DAY = 288,               /* samples of five minutes */
  DAYS = 7,
  INPUTS = 3,
  WINDOW = 16,             /* rows of a training step */
  ANSWERS = 3              /* same as now, memory, network */
};

/* ---- what is not on the device: the refrigerator ---- */

static struct {
  uint32_t random;
  float degrees, low, high, door;   /* door: minutes that it is still open */
  int cools;
} fridge = {1, 5, 3, 6, 0, 0};

static float uniform(void) {
  fridge.random = fridge.random * 1664525u + 1013904223u;
  return (float)(fridge.random >> 8) / 16777216;
}

static float thermometer(void) {   /* five minutes later */
  int minute;
  for (minute = 0; minute < 5; minute++) {
    if (uniform() < 0.003f) fridge.door = 1 + 3 * uniform();
    fridge.degrees += 0.01f * (21 - fridge.degrees) - (fridge.cools ? 0.35f : 0);
    if (fridge.door > 0) fridge.degrees += 0.25f, fridge.door--;
    if (fridge.degrees > fridge.high) fridge.cools = 1;
    if (fridge.degrees < fridge.low) fridge.cools = 0;
  }
  return fridge.degrees + 0.03f * (uniform() + uniform() - 1);
}

/* ---- the device ---- */

#if defined(__arm__) && !defined(__unix__)
static unsigned char room[174 << 10];
#else
static unsigned char room[512 << 10]; /* other builds of the library work in more */
#endif
static size_t taken;
static float past[DAY];               /* the last day's temperatures, sample t in t % DAY */
static char why[256];

/* The next bytes of the room; NULL, which the library refuses, where they do not fit. */
static void *take(size_t bytes) {
  unsigned char *at = room + taken;
  if (bytes > sizeof room - taken) return NULL;
  taken += bytes;
  return at;
}

static float at(int t) { return past[t % DAY]; }

/* What is known at sample t: the temperature and its last two changes, about 1 in size. */
static void row_of(int t, float row[INPUTS]) {
  row[0] = (at(t) - 4) / 2;
  row[1] = at(t) - at(t - 1);
  row[2] = at(t - 1) - at(t - 2);
}

/* One step on a window of the day before sample t, whose change is known by now. */
static int train(miras_trainer *trainer, int t) {
  static float rows[WINDOW * INPUTS], changes[WINDOW];
  static const miras_adamw_options options = MIRAS_ADAMW(0.01f, 1);
  static uint32_t random = 7;
  const int most = t < DAY ? t - WINDOW - 2 : DAY - WINDOW - 3;
  int from, i;
  float loss;
  miras_batch x;
  if (most < 1) return 1;
  random = random * 1664525u + 1013904223u;
  from = t - WINDOW - (int)((random >> 8) % (uint32_t)most);
  for (i = 0; i < WINDOW; i++) {
    row_of(from + i, rows + i * INPUTS);
    changes[i] = at(from + i + 1) - at(from + i);
  }
  memset(&x, 0, sizeof x);
  x.batch = 1, x.length = WINDOW, x.vectors = rows, x.values = changes;
  return miras_trainer_loss(trainer, &x, 1, &loss) == MIRAS_OK &&
         miras_trainer_backward(trainer, NULL) == MIRAS_OK &&
         miras_trainer_step(trainer, &options, 3e-3f, NULL) == MIRAS_OK;
}

/* ---- what it says ---- */

static void say_number(const char *before, size_t n, const char *behind) {
  char digits[12];
  size_t i = sizeof digits;
  digits[--i] = 0;
  do digits[--i] = (char)('0' + n % 10); while (n /= 10);
  say(before), say(digits + i), say(behind);
}

/* The rest of a line: errors, 0.000 degrees each, of which the means of their squares are given. */
static void say_errors(float squares[ANSWERS]) {
  int i;
  for (i = 0; i < ANSWERS; i++) {
    const size_t n = (size_t)(1000 * (squares[i] = sqrtf(squares[i])) + 0.5f);
    say_number("        ", n / 1000, ".");
    say_number(n % 1000 < 10 ? "00" : n % 1000 < 100 ? "0" : "", n % 1000, "");
  }
  say("\n");
}

static void say_size(const char *what, size_t bytes) { say_number(what, bytes, " bytes\n"); }

static miras_memory *open_memory(void) {
  static miras_memory_desc d;
  size_t bytes;
  miras_memory_preset(&d, MIRAS_PRESET_SIGNALS);
  d.key_dim = INPUTS + 1, d.value_dim = 1;
  d.decay_rate = 0.03f;      /* the best of 0.0001, 0.001, ... 0.03 after the knob */
  bytes = miras_memory_size(&d, why, sizeof why);
  say_size("memory   ", bytes);
  return miras_memory_init(take(bytes), bytes, &d, why, sizeof why);
}

static miras_model *open_model(void) {
  static miras_model_desc d;
  size_t bytes;
  miras_model_preset(&d, MIRAS_PRESET_GATED_DELTANET, 1);
  d.width = 8, d.heads = 1;
  d.layer[0].memory.chunk = 4, d.layer[0].mixer.gate_rank = 4, d.layer[0].mlp.hidden = 16;
  d.layer[0].mixer.decay_horizon = WINDOW;   /* it runs for a week as in the windows it sees */
  strcpy(d.inputs, "vector 3");
  strcpy(d.outputs, "huber 1");
  d.adapt.learning_rate = 1, d.adapt.hidden = 1, d.adapt.vectors = 1;
  bytes = miras_model_size(&d, why, sizeof why);
  say_size("model    ", bytes);
  return miras_model_init(take(bytes), bytes, &d, why, sizeof why);
}

static miras_trainer *open_trainer(miras_model *model) {
  static const miras_trainer_desc d = {1, WINDOW, 0, 0, 0, NULL, NULL};
  const size_t bytes = miras_trainer_size(model, &d, why, sizeof why);
  say_size("trainer  ", bytes);
  return miras_trainer_init(take(bytes), bytes, model, &d, why, sizeof why);
}

static miras_session *open_session(const miras_model *model) {
  /* a row at a time */
  static const miras_session_desc d = {1, 0, NULL, MIRAS_STATES_FLOAT, MIRAS_ROUNDING_NEAREST,
                                       MIRAS_PRODUCTS_FLOAT};
  const size_t bytes = miras_session_size(model, &d, why, sizeof why);
  say_size("session  ", bytes);
  return miras_session_init(take(bytes), bytes, model, &d, why, sizeof why);
}

int main(void) {
  static const char *const names[ANSWERS] = {"same as now", "     memory", "    network"};
  static float error[DAYS][ANSWERS], week[ANSWERS];
  miras_memory *memory;
  miras_model *model;
  miras_trainer *trainer = NULL;
  miras_session *session = NULL;
  int t, i, best;

  memory = open_memory();
  model = open_model();
  if (model) trainer = open_trainer(model);
  if (trainer) session = open_session(model);
  if (!memory || !session) return say(why), say("\n"), 1;
  say_size("room     ", sizeof room);
  say("error of the next five minutes, degrees:\n");
  say("day    ");
  for (i = 0; i < ANSWERS; i++) say("  "), say(names[i]);
  say("\n");

  for (t = 0; t < 3; t++) past[t] = thermometer();
  for (t = 2; t < DAYS * DAY; t++) {
    float row[INPUTS + 1], said[ANSWERS] = {0}, change;
    miras_memory_event e;
    memset(&e, 0, sizeof e);
    row_of(t, row);
    row[INPUTS] = 1;                                 /* an offset, for the memory */
    said[2] = miras_session_feed(session, NULL, row, 1)[0];

    if (t == DAYS * DAY / 2) fridge.low = 1, fridge.high = 3.5f;
    past[(t + 1) % DAY] = thermometer();
    change = at(t + 1) - at(t);
    e.key = row, e.value = &change, e.answer = &said[1];
    if (miras_memory_learn(memory, &e) != MIRAS_OK ||          /* answers, then learns */
        miras_session_learn(session, NULL, &change) != MIRAS_OK || !train(trainer, t))
      return say("a call has failed\n"), 1;

    for (i = 0; i < ANSWERS; i++) {
      const float e2 = (said[i] - change) * (said[i] - change);
      error[t / DAY][i] += e2 / DAY;
      week[i] += e2 / (DAY * DAYS);
    }
    if (t % DAY < DAY - 1) continue;
    say_number(t / DAY == DAYS / 2 ? "knob  " : "      ", (size_t)t / DAY + 1, "");
    say_errors(error[t / DAY]);
  }
  say("week   ");
  say_errors(week);
#if defined(__arm__) && !defined(__unix__)
  say_size("stack    ", stack_used());
#endif
  for (best = 0, i = 1; i < ANSWERS; i++)
    if (week[i] < week[best]) best = i;
  say("best of the week: "), say(names[best] + strspn(names[best], " ")), say("\n");
  /* the network has learned the refrigerator, and learned it again */
  return !(error[1][2] < 0.7f * error[0][2] && error[5][2] < 0.7f * error[3][2] &&
           week[2] < 0.4f * week[0]);
}
