/* Arduino.h: as much of Arduino as the sketch of examples/arduino calls. */
#ifndef ARDUINO_H
#define ARDUINO_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { A0 = 14 };
int analogRead(int pin);
unsigned long millis(void);

class Port {
 public:
  void begin(unsigned long baud);
  void print(const char *text);
  void print(double x);     /* two digits behind the point */
  void println(const char *text);
  void println(double x);
};
extern Port Serial;

void setup(void);
void loop(void);
#endif
