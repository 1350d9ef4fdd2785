/* board.cpp: the sketch of examples/arduino without a board: a pulse of 72 beats a minute, later of
 * 96, at A0, and what goes out at Serial by examples/cortex-m/board.c. */
#include "Arduino.h"

extern "C" void say(const char *text);
extern "C" size_t stack_used(void);

Port Serial;
static unsigned long now;
static int quiet;          /* most samples are not printed: the emulator is quicker */

unsigned long millis(void) { return now; }

int analogRead(int) {
  static uint32_t random = 1;
  static float beat;
  beat += (now < 40000 ? 1.2f : 1.6f) * 0.02f;
  if (beat >= 1) beat -= 1;
  random = random * 1664525u + 1013904223u;
  const float a = (beat - 0.2f) / 0.07f, b = (beat - 0.5f) / 0.1f;
  return (int)(400 + 300 * expf(-a * a) + 90 * expf(-b * b) + (float)(random >> 28) - 8);
}

void Port::begin(unsigned long) {}
void Port::print(const char *text) {
  if (!quiet) say(text);
}
void Port::print(double x) {
  char digits[16];
  size_t i = sizeof digits;
  unsigned long n = (unsigned long)(100 * fabs(x) + 0.5);
  int count = 0;
  digits[--i] = 0;
  do {
    digits[--i] = (char)('0' + n % 10);
    if (++count == 2) digits[--i] = '.';
  } while ((n /= 10) || count < 3);
  if (x < 0) digits[--i] = '-';
  print(digits + i);
}
void Port::println(const char *text) { print(text), print("\n"); }
void Port::println(double x) { print(x), print("\n"); }

int main() {
  setup();
  for (; now < 80000; now++) {
    quiet = now % 8000 >= 20;
    loop();
  }
  quiet = 0;
  Serial.print("stack ");
  Serial.println((double)stack_used());
  return 0;
}
