/* board.c: what a Cortex-M with a floating-point unit needs before main: vectors, the unit, data,
 * bss, and a painted stack, so that a program can say how much of it has been used. board.ld has
 * its flash and RAM. What a program says goes out by semihosting, which a debugger or an emulator
 * shows; a board of yours says it by its own means. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

int main(void);
void reset(void);
void say(const char *text);
size_t stack_used(void);
extern unsigned char _data_from[], _data_start[], _data_end[], _bss_start[], _bss_end[],
    _stack_top[];

static int host(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void say(const char *text) { host(4, text); }   /* SYS_WRITE0 */

size_t stack_used(void) {
  const unsigned char *p = _bss_end;
  while (*p == 0xa5) p++;
  return (size_t)(_stack_top - p);
}

void reset(void) {
  unsigned char *p, *top;
  *(volatile uint32_t *)0xe000ed88u |= 0xfu << 20;   /* CPACR: the floating-point unit */
  __asm__ volatile("dsb\n isb");
  memcpy(_data_start, _data_from, (size_t)(_data_end - _data_start));
  memset(_bss_start, 0, (size_t)(_bss_end - _bss_start));
  __asm__ volatile("mov %0, sp" : "=r"(top));
  for (p = _bss_end; p < top; p++) *(volatile unsigned char *)p = 0xa5;
  {
    const uint32_t stop[2] = {0x20026u, (uint32_t)main()};   /* ADP_Stopped_ApplicationExit */
    host(0x20, stop);                                        /* SYS_EXIT_EXTENDED */
  }
  for (;;) {}
}

static void fault(void) {
  say("fault\n");
  for (;;) {}
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
  _stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
  (void *)fault
};
