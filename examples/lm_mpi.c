/* lm_mpi.c: lm.c trained by several processes, on one machine or many. The same options, files and
 * pictures.
 *
 *     mpicc -O3 examples/lm_mpi.c -o lm_mpi -lm -lpthread
 *     mpirun -n 2 ./lm_mpi train FILE --threads 1
 *
 * Every process draws the windows of a step and learns from its share of them, --batch / n. Their
 * gradients lie in one block, so one MPI_Allreduce adds those of all processes, and the loss, and
 * all take the same step with them; the first one says and writes what there is to say. Data are
 * read by all.
 *
 * Or a program of yours that trains on rows of any kind, of vectors and numbers too:
 *
 *     mpicc -O3 -DMPI_TRAINS='"yours.c"' -I FOLDER_OF_YOURS lm_mpi.c -o yours_mpi -lm -lpthread
 *     mpirun -n 2 ./yours_mpi ...
 *
 * It opens its trainer for the whole batch, calls miras_trainer_loss, _backward and _step in
 * every process, and miras_close when it has learned; from there on only the first process
 * goes on. A loss is a mean over a share's targets, and shares count alike, whatever they have.
 *
 *     --shares 3     one process takes the shares of three in turn: a batch larger than memory
 *     --ordered      the sum of the gradients is made in the order of the processes, which MPI does
 *                    not promise. Then n processes reach the bits of one with --shares n (without
 *                    --dropout, whose draws count the calls of a process)
 *
 * Ctrl-C ends all processes; --resume goes on from the last checkpoint (--eval-every). */
#define MIRAS_IMPLEMENTATION
#define MIRAS_PTHREADS
#include "../miras.h"
#include <limits.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks = 1;       /* this process, and how many there are                         */
static int shares, ordered;       /* as asked for; shares 0: one to each process                  */
#define LM_MORE_OPTIONS \
  {"shares", "t", 'i', &shares, 0, 65536, "parts of a step for one process; 0: one to each"},    \
  {"ordered", "t", 'f', &ordered, 0, 0, "gradients are added in the order of the processes"},

static void stop(const char *why) {
  if (!rank) fprintf(stderr, "lm_mpi: %s\n", why);
  MPI_Finalize();
  exit(2);
}

/* The trainer, whose batch is a share; the sums of a step's gradients, and behind them its loss. */
static struct {
  const miras_model *model;
  miras_trainer *t;
  float *sum, *part;
  int count;
} mpi;

static miras_trainer *mpi_trainer_open(miras_model *m, const miras_trainer_desc *d,
                                       const miras_allocator *allocator, char *why,
                                       size_t why_size) {
  miras_trainer_desc own = *d;
  size_t count;
  if (!shares) shares = ranks;
  if (ranks > 1 && shares != ranks) stop("--shares is for one process, or as many as there are");
  if (ranks > 1 && d->carried)
    stop("--carry needs one process: a text may go on in another process than it stood in");
  if (d->batch % shares) stop("--batch must be a multiple of the processes, or of --shares");
  if (mpi.t) stop("there is one trainer at a time");
  own.batch = d->batch / shares;
  mpi.model = m;
  mpi.t = miras_trainer_open(m, &own, allocator, why, why_size);
  if (!mpi.t) return NULL;
  (void)miras_model_params(m, &count);
  if (count >= INT_MAX) stop("the model has more parameters than MPI counts");
  mpi.count = (int)count + 1;
  mpi.sum = (float *)malloc(2 * (count + 1) * sizeof *mpi.sum);
  if (!mpi.sum) return NULL;
  mpi.part = mpi.sum + mpi.count;
  return mpi.t;
}

static void mpi_close(void *object) {
  miras_close(object);
  if (!object || object != mpi.t) return;
  free(mpi.sum);
  mpi.t = NULL;
#ifdef MPI_TRAINS
  if (rank) {
    MPI_Finalize();
    exit(0);
  }
#endif
}

/* sum += part, or = for the first one */
static void add(float *sum, const float *part, int count, int first) {
  int i;
  for (i = 0; i < count; i++) sum[i] = first ? part[i] : sum[i] + part[i];
}

/* sum [count] = the parts of all processes in their order: each adds up a slice of all. */
static void add_in_order(float *sum, const float *part, int count) {
  const int each = (count + ranks - 1) / ranks;
  float *mine = (float *)calloc((size_t)ranks * (size_t)each * 2, sizeof *mine);
  float *all = mine + (size_t)ranks * (size_t)each;
  int r;
  if (!mine) MPI_Abort(MPI_COMM_WORLD, 1);
  memcpy(all, part, (size_t)count * sizeof *part);
  MPI_Alltoall(all, each, MPI_FLOAT, mine, each, MPI_FLOAT, MPI_COMM_WORLD);
  for (r = 1; r < ranks; r++) add(mine, mine + (size_t)r * (size_t)each, each, 0);
  MPI_Allgather(mine, each, MPI_FLOAT, all, each, MPI_FLOAT, MPI_COMM_WORLD);
  memcpy(sum, all, (size_t)count * sizeof *sum);
  free(mine);
}

/* Row `row` and the `each` - 1 behind it of a batch. */
static miras_batch share_of(const miras_model *m, const miras_batch *whole, size_t row, int each) {
  const miras_row *r = miras_model_row(m);
  const size_t at = row * (size_t)whole->length;
  miras_batch x = *whole;
  x.batch = each;
  if (x.tokens) x.tokens += at * (size_t)r->tokens;
  if (x.vectors) x.vectors += at * (size_t)r->vectors;
  if (x.classes) x.classes += at * (size_t)r->classes;
  if (x.values) x.values += at * (size_t)r->values;
  if (x.weights) x.weights += at;
  if (x.carry) x.carry += row;
  if (x.restart) x.restart += row;
  return x;
}

/* Learn from this process's shares of a step, and all processes' gradients and loss together. */
static miras_result mpi_trainer_loss(miras_trainer *t, const miras_batch *x, int train,
                                     float *loss) {
  const int each = x->batch / shares, own = ranks > 1 ? 1 : shares;
  const int count = mpi.count - 1;
  float *grads = miras_trainer_grads(t);
  const size_t bytes = (size_t)count * sizeof *grads;
  int s, i;
  if (!train) return miras_trainer_loss(t, x, 0, loss);
  if (x->outputs || x->hidden || x->losses)
    stop("a process has outputs, hidden rows and losses of its own share alone");
  for (s = 0; s < own; s++) {
    const size_t row = (size_t)(ranks > 1 ? rank : s) * (size_t)each;
    const miras_batch share = share_of(mpi.model, x, row, each);
    miras_result result = miras_trainer_loss(t, &share, 1, &mpi.part[count]);
    if (result != MIRAS_OK) return result;
    miras_trainer_backward(t, NULL);
    memcpy(mpi.part, grads, bytes);
    memset(grads, 0, bytes);
    if (ranks == 1) add(mpi.sum, mpi.part, mpi.count, !s);
  }
  if (ranks > 1 && ordered) add_in_order(mpi.sum, mpi.part, mpi.count);
  else if (ranks > 1)
    MPI_Allreduce(mpi.part, mpi.sum, mpi.count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  for (i = 0; i < mpi.count; i++) mpi.sum[i] /= (float)shares;
  memcpy(grads, mpi.sum, bytes);
  *loss = mpi.sum[count];
  return MIRAS_OK;
}

static miras_result mpi_trainer_backward(miras_trainer *t, const miras_batch_grad *g) {
  (void)t;                         /* the loss has brought the gradients with it                  */
  if (g) stop("a loss of the caller's own is not shared out");
  return MIRAS_OK;
}

#ifndef MPI_TRAINS
static miras_result mpi_save(const void *object, const char *path) {
  return rank ? MIRAS_OK : miras_save(object, path);
}

/* All go by one clock, because what a step does depends on it. */
static int mpi_clock(clockid_t which, struct timespec *t) {
  const int result = clock_gettime(which, t);
  if (ranks > 1) MPI_Bcast(t, (int)sizeof *t, MPI_BYTE, 0, MPI_COMM_WORLD);
  return result;
}

#define clock_gettime mpi_clock
#define sigaction(signal, action, old) ((void)(action))   /* mpirun ends all of them              */
#define miras_save mpi_save
#define MPI_LM
#define MPI_TRAINS "lm.c"
#endif

#define miras_trainer_open mpi_trainer_open
#define miras_close mpi_close
#define miras_trainer_loss mpi_trainer_loss
#define miras_trainer_backward mpi_trainer_backward
#define main single_main
#include MPI_TRAINS
#undef main

/* The options above, out of the command of a program that does not know them. */
static int own_options(int argc, char **argv) {
#ifdef MPI_LM
  if (argc > 1 && strcmp(argv[1], "train") && strcmp(argv[1], "--help")) ranks = 1;
  return argc;
#else
  int i, kept = 1;
  for (i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--ordered")) ordered = 1;
    else if (!strcmp(argv[i], "--shares") && i + 1 < argc) shares = atoi(argv[++i]);
    else argv[kept++] = argv[i];
  }
  if (shares < 0) stop("--shares is below 0");
  argv[kept] = NULL;
  return kept;
#endif
}

int main(int argc, char **argv) {
  int status = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  argc = own_options(argc, argv);
  if (rank && (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
    status = 1;
  else if (ranks > 1 || !rank) status = single_main(argc, argv);
  MPI_Finalize();
  return status;
}
