/* small.c: you pay for what you use. A Cortex-M4 program that holds one gated delta memory, writes
 * to it and reads it, and nothing else of the library: no training, models or files, one engine.
 * It needs no operating system; what it says comes out by semihosting.
 *
 *   arm-none-eabi-gcc -std=c99 -Os -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 \
 *     -ffunction-sections -fdata-sections tests/small.c examples/cortex-m/board.c -nostartfiles \
 *     -T tests/small.ld -Wl,--gc-sections --specs=nano.specs --specs=nosys.specs -lm -o small.elf
 *   qemu-system-arm -M mps2-an386 -nographic -semihosting -kernel small.elf
 *
 * run.sh compares what is printed with the lines at the end, and the size with 41 KB. With
 * -DEVERY_ROW all engines are there, and it paints the stack and says how deep a memory of each row
 * goes: opened, written, read, stepped, as a call over tokens, and after a refusal. The manual
 * promises 4 KB. On any other machine it is a program like others: cc tests/small.c -lm. */
#include <math.h>
#include <string.h>
#define MIRAS_ONLY_MEMORIES
#ifndef EVERY_ROW
  #define MIRAS_ONLY_EXACT
#endif
#define MIRAS_STATIC
#define NDEBUG
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "calls.h"

#ifdef __arm__
void say(const char *text);   /* of examples/cortex-m/board.c, which starts it, too */
static void print(const char *line) { say(line), say("\n"); }
extern unsigned char _bss_end[];
#else
  #include <stdio.h>
static void print(const char *line) { puts(line); }
#endif

enum { WIDTH = 8 };
static unsigned char bytes[32768];

static void pair(int t, float *key, float *value) {
  int i;
  for (i = 0; i < WIDTH; i++) {
    key[i] = (float)((7 * t + 3 * i * i) % 11 - 5);
    value[i] = (float)((5 * t + i) % 13 - 6) * 0.25f;
  }
}

#if defined(EVERY_ROW) && defined(__arm__)
/* The bytes of stack below this frame that a call has written. */
__attribute__((noinline)) static size_t deep(int (*call)(miras_preset), miras_preset kind,
                                             int *result) {
  unsigned char *top, *p;
  __asm__ volatile("mov %0, sp" : "=r"(top));
  for (p = _bss_end; p < top; p++) *(volatile unsigned char *)p = 0xa5;
  *result = call(kind);
  for (p = _bss_end; p < top && *(volatile unsigned char *)p == 0xa5;) p++;
  return (size_t)(top - p);
}

static int open_and_use(miras_preset kind) {
  float key[WIDTH], value[WIDTH], out[WIDTH];
  miras_memory_desc d;
  miras_memory_input token;
  miras_memory *m;
  char why[128];
  int t;
  miras_memory_preset(&d, kind);
  d.key_dim = WIDTH;
  if (d.window) d.window = 16;
  if (!miras_memory_size(&d, why, sizeof why)) return print(why), 1;
  m = miras_memory_init(bytes, sizeof bytes, &d, NULL, 0);
  if (!m) return print("the memory needs more room"), 1;
  for (t = 0; t < 40; t++) {
    pair(t, key, value);
    if (!miras_memory_can_write(m, why, sizeof why)) break;
    surprise_of_write(m, key, value);
    miras_memory_read(m, key, out);
  }
  memset(&token, 0, sizeof token);
  token.key = key, token.value = value, token.query = key;
  token.length = 1;
  if (t) miras_memory_forward(m, &token, out, NULL);
  d.depth = 99;
  return miras_memory_size(&d, why, sizeof why) != 0;
}

static void number(const char *name, size_t n) {
  char line[96] = "stack of ", digits[12];
  size_t i = sizeof digits;
  digits[--i] = 0;
  do digits[--i] = (char)('0' + n % 10); while (n /= 10);
  strcat(strcat(strcat(line, name), ": "), digits + i);
  print(line);
}

static int every_row(void) {
  size_t deepest = 0;
  int kind, result;
  for (kind = 0; kind < (int)MIRAS_PRESET_ROWS; kind++) {
    const size_t used = deep(open_and_use, (miras_preset)kind, &result);
    if (result) return print(miras_preset_name((miras_preset)kind)), 1;
    if (used > deepest) deepest = used;
    number(miras_preset_name((miras_preset)kind), used);
  }
  number("the deepest", deepest);
  return deepest > 4096;
}
#endif

int main(void) {
  /* What pair 7 recalls after pairs 0 to 19, by the recurrence in double: with a key k of length 1
   * and e = v - 0.999 S'k,  S <- 0.999 S + 16/17 k e'. */
  static const float expected[WIDTH] = {
    1.2560298f, -1.3790952f, -1.3314312f, -1.0202767f,
    -0.9778635f, -0.5041592f, -0.1794617f, -0.0120680f};
  float key[WIDTH], value[WIDTH], out[WIDTH];
  char why[256];
  miras_memory_desc d;
  miras_memory *m;
  int t, i;
  miras_memory_preset(&d, MIRAS_PRESET_GATED_DELTANET);
  d.key_dim = WIDTH;
  if (!miras_memory_size(&d, why, sizeof why)) return print(why), 1;
  m = miras_memory_init(bytes, 8192, &d, NULL, 0);
  if (!m) return print("the memory needs more room"), 1;
  for (t = 0; t < 20; t++) {
    pair(t, key, value);
    if (!(surprise_of_write(m, key, value) >= 0)) return print("a write has failed"), 1;
  }
  pair(7, key, value);
  miras_memory_read(m, key, out);
  for (i = 0; i < WIDTH; i++)
    if (!(fabsf(out[i] - expected[i]) < 1e-5f)) return print("the answer is wrong"), 1;
  print("20 pairs written, one read");
#if defined(EVERY_ROW) && defined(__arm__)
  return every_row();
#endif
  miras_memory_preset(&d, MIRAS_PRESET_YAAD);
  d.key_dim = WIDTH;
  if (miras_memory_size(&d, why, sizeof why)) return print("a perceptron is there"), 1;
  print(why);
  return 0;
}
