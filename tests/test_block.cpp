/* test_block.cpp: every row of the table, forward and backward, by blocks of threads as a GPU would
 * run it (block.h), with the bits of the host. The threads are fibers whose order is drawn
 * (cuda_shim.h): a kernel that reads what another lane has not stored yet, or adds to a number once
 * per thread, gives other bits in one order or another; an engine that does not go the same way in
 * all threads stops with a sentence.
 *   c++ -std=c++11 -O1 tests/test_block.cpp -o test_block -lm && ./test_block */
#include "cuda_shim.h"
#define MIRAS_IMPLEMENTATION
#include "../miras.h"
#include "block.h"
#include "fingerprint.h"

namespace { namespace miras_block {
float miras__told[1];
static void forward(void *a) { miras__head_forward((const miras__call *)a); }
static void backward(void *a) { miras__head_backward((const miras__call *)a); }
} }

static unsigned threads;           /* of a block; 0: the host's engines run                       */

static void on_block(void (*run)(void *), const miras__call *host) {
  miras_block::miras__call call;
  memcpy((void *)&call, (const void *)host, sizeof call);
  shim_block(threads, run, &call);
}

/* What miras_forward and miras_backward do for one head. */
static void forward_head(const miras__memory_call *c, size_t i) {
  const size_t heads = (size_t)c->m->plan.d.heads, dv = (size_t)c->m->plan.d.value_dim;
  miras__head_io io;
  miras__call run;
  miras__memory_io(c->m, c->x, (int)(i / heads), (int)(i % heads), &io);
  io.y = c->y + (i / heads * (size_t)c->x->length * heads + i % heads) * dv;
  miras__memory_head(c->m, i / heads, i % heads, &run);
  run.io = &io;
  run.tape = c->tape + 16 + i * c->per;
  on_block(miras_block::forward, &run);
}

static void backward_head(const miras__memory_call *c, size_t i) {
  const miras__plan *p = &c->m->plan;
  const miras_desc *d = &p->d;
  const size_t heads = (size_t)d->heads, h = i % heads;
  const size_t first = i / heads * (size_t)c->x->length, dv = (size_t)d->value_dim;
  miras__head_io io;
  miras__head_grads g;
  miras__call run;
  miras__memory_io(c->m, c->x, (int)(i / heads), (int)h, &io);
  memset(&g, 0, sizeof g);
#define MIRAS_X(name, ld, member, count)                                                          \
  g.ld = heads * (count);                                                                         \
  if (g.ld) g.name = miras__to(c->dx->member, first * g.ld + h * (count));
  MIRAS__INPUTS(MIRAS_X)
#undef MIRAS_X
  miras__memory_head(c->m, i / heads, h, &run);
  run.io = &io;
  run.g = &g;
  run.tape = c->tape + 16 + i * c->per;
  run.scratch = c->scratch;
  memcpy(&run.position, c->tape, sizeof run.position);
  run.dy = c->dy + (first * heads + h) * dv;
  run.lddy = heads * dv;
  run.dinit = c->parts + i * c->part;
  run.dgain = run.dridge = run.dinit + p->weights;
  run.dbias = run.dgain + p->widest;
  if (d->row_rates) g.rho = run.dbias + p->widest;
  memset(run.dinit, 0, c->part * sizeof *run.dinit);
  on_block(miras_block::backward, &run);
}

static void run_heads(void *user, int count, void (*task)(void *, int, int), void *argument) {
  const miras__memory_call *c = (const miras__memory_call *)argument;
  int i;
  (void)user;
  for (i = 0; i < count; i++)
    if (!threads) task(argument, i, 0);
    else if (c->dx) backward_head(c, (size_t)i);
    else forward_head(c, (size_t)i);
}

int main(void) {
  const miras_parallel jobs = {run_heads, NULL, 2};
  const int chunks[] = {1, 8};
  unsigned failed = 0, kind, i;
  if (!strcmp(miras_isa(), "portable")) {
    puts("skipped: without fused multiply-add the host has other bits");
    return 77;
  }
  for (kind = 0; kind < MIRAS_KIND_COUNT; kind++)
    for (i = 0; i < 2; i++) {
      uint64_t host = 0, block = 0;
      int refused;
      threads = 0;
      refused = one_memory((miras_kind)kind, chunks[i], &jobs, &host);
      threads = i ? 16 : 48;
      shim_waits = 0;
      refused |= one_memory((miras_kind)kind, chunks[i], &jobs, &block);
      printf("%-20s chunk %d, %u threads, %lu waits: %s\n", miras_kind_name((miras_kind)kind),
             chunks[i], threads, shim_waits, !refused && host == block ? "the same" : "DIFFERS");
      failed += refused || host != block;
    }
  printf("%u differ\n", failed);
  return failed != 0;
}
