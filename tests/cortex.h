/* cortex.h: the start of a program on a Cortex-M4 without an operating system, and a line that goes
 * out by semihosting. small.ld has its memory. */
#ifdef __arm__
#include <stdint.h>
#include <string.h>
int main(void);
void reset(void);
extern unsigned char _stack_top[], _data_from[], _data_start[], _data_end[], _bss_start[],
    _bss_end[];

static int host(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static void print(const char *line) {
  host(4, line);   /* SYS_WRITE0 */
  host(4, "\n");
}

void reset(void) {
  *(volatile uint32_t *)0xe000ed88u |= 0xfu << 20;   /* CPACR: the floating-point unit */
  __asm__ volatile("dsb\n isb");
  memcpy(_data_start, _data_from, (size_t)(_data_end - _data_start));
  memset(_bss_start, 0, (size_t)(_bss_end - _bss_start));
  {
    const uint32_t stop[2] = {0x20026u, (uint32_t)main()};   /* ADP_Stopped_ApplicationExit */
    host(0x20, stop);                                        /* SYS_EXIT_EXTENDED */
  }
  for (;;) {}
}

static void fault(void) {
  print("fault");
  for (;;) {}
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
  _stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
  (void *)fault
};
#endif
