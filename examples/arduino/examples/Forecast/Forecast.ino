/* Forecast: what a sensor at A0 will say next, learned on the board while it runs. A pulse sensor,
 * a microphone's envelope, a light, a string that swings: anything that repeats itself.
 *
 * The Serial Plotter shows the sensor, the forecast of each sample made before it came, and the
 * errors of late of that forecast and of "the same as now", which needs no learning. */
#include <MirasMemory.h>
#include <encoders.h>

const int LAGS = 15;                   // the last samples, from which the next is forecast
const unsigned long PERIOD = 20;       // milliseconds from sample to sample

static unsigned char room[4500];       // all the memory that the memory will ever use
static miras_memory *memory;
static miras_encoder_window window;    // the last samples, in deviations from their mean
static miras_encoder_scale scale;      // mean and deviation, found as samples come
static float last, late[2];            // mean squares of errors: of the forecast, of the same

void setup() {
  miras_memory_desc d;
  char why[256];
  Serial.begin(115200);
  window.lags = LAGS, window.constant = 1;
  scale.clip = 8;
  miras_memory_preset(&d, MIRAS_PRESET_SIGNALS);
  d.key_dim = LAGS + 1, d.value_dim = 1;
  d.decay_rate = 0.002f;               // what is older than 500 samples fades
  memory = miras_memory_init(room, sizeof room, &d, why, sizeof why);
  if (!memory) Serial.println(why);    // names the field and what is allowed
}

void loop() {
  static unsigned long time;
  float key[LAGS + 1], said, x, z, forecast;
  if (!memory || millis() - time < PERIOD) return;
  time += PERIOD;

  miras_encode_window(&window, key);
  miras_memory_read(memory, key, &said);
  forecast = miras_encode_standard_back(&scale, said);
  x = analogRead(A0);
  z = miras_encode_standard_learn(&scale, x);
  miras_memory_write(memory, key, &z, NULL);
  miras_encode_window_push(&window, z);

  late[0] += 0.01f * ((x - forecast) * (x - forecast) - late[0]);
  late[1] += 0.01f * ((x - last) * (x - last) - late[1]);
  last = x;
  Serial.print("sensor:");
  Serial.print(x);
  Serial.print(",forecast:");
  Serial.print(forecast);
  Serial.print(",error:");
  Serial.print(sqrtf(late[0]));
  Serial.print(",same_as_now:");
  Serial.println(sqrtf(late[1]));
}
